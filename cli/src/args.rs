//! The command line: one table, from which clap makes the parser and the help.

use crate::ui::Wishes;
use clap::{Args, Parser, Subcommand, ValueEnum};
use fulgurite_demo::gpt::Precision;
use fulgurite_ops_verbs::cli as ops;
use std::fmt;
use std::path::PathBuf;

/// The command line.
#[derive(Parser, Debug)]
#[command(name = "fulgurite", version, about, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    /// The command; without it, `train`
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Options of the output.
    #[command(flatten)]
    pub common: Common,
}

const EXAMPLES: &str = "\
Examples:
  fulgurite                                  train the demo: about a minute on two cores
  fulgurite train --text book.txt --seconds 300 --plot loss.png
  fulgurite train --resume runs/demo
  fulgurite sample runs/demo --prompt '- op: '
  fulgurite train --task digits              a convolutional net reads handwritten digits
  fulgurite eval 'gelu([[-1, 0, 1]])' --grad
  fulgurite explain gelu
  fulgurite trace --stages

Exit status: 0 fine, 1 a check failed, 2 wrong use, 101 a bug of fulgurite, 130 ended by ctrl-C";

/// Options of every command.
#[derive(Args, Clone, Default, Debug)]
pub struct Common {
    /// Print one JSON object per line on standard output
    #[arg(long, global = true, help_heading = "Output")]
    pub json: bool,
    /// Print only errors and results
    #[arg(short, long, global = true, help_heading = "Output")]
    pub quiet: bool,
    /// Print reasons too
    #[arg(short, long, global = true, help_heading = "Output", conflicts_with = "quiet")]
    pub verbose: bool,
    /// Draw curves and bars with ASCII characters only
    #[arg(long, global = true, help_heading = "Output")]
    pub ascii: bool,
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    pub color: ops::When,
    /// The device of programs: cpu, cuda, cuda:N, or host (CUDA's kernels on the processor, to try them) [default: cpu]
    #[arg(long, global = true, value_name = "DEVICE", help_heading = "Run")]
    pub device: Option<String>,
    /// The database; without this option, `ops.yaml` in this folder or the nearest folder above that has one
    #[arg(long, global = true, value_name = "FILE", help_heading = "Operators")]
    pub file: Option<PathBuf>,
    /// Another database whose rows may be called, and which is not checked; without this option, that of the nearest
    /// dependency of the crate that has one (`fulgurite`)
    #[arg(long, global = true, value_name = "FILE", help_heading = "Operators")]
    pub upstream: Option<PathBuf>,
}

impl Common {
    /// The terminal options, in the form of the user interface.
    pub fn wishes(&self) -> Wishes {
        let colour = match self.color {
            ops::When::Auto => None,
            ops::When::Always => Some(true),
            ops::When::Never => Some(false),
        };
        Wishes { json: self.json, quiet: self.quiet, verbose: self.verbose, ascii: self.ascii, colour }
    }

    /// The options in the form of `cargo ops`.
    pub fn ops(self) -> ops::Common {
        let Common { json, quiet, color, file, upstream, .. } = self;
        ops::Common { file, upstream, json, quiet, built_in: Some(DATABASE), kept: ops::kept(), color }
    }
}

/// The database that this program was built with.
const DATABASE: &str = include_str!(env!("FULGURITE_DATABASE"));

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Train a character-level GPT, or a reader of digits, and watch it learn
    Train(Box<Train>),
    /// Write text with a trained checkpoint
    Sample(Sample),
    /// Show the demo model's training step after each stage of the compiler
    Trace(Trace),
    /// Evaluate an expression of operators
    Eval(Eval),
    /// Run the workloads of the benchmark protocol
    Bench(Bench),
    /// Read a model that PyTorch exported, and say what it needs
    Import(Import),
    /// Call a model on inputs from files or expressions
    Run(Run),
    /// Run recorded calls of PyTorch operators and write the results
    Conformance(Conformance),
    /// Show the relevant parts of this machine, which of them are used, and why
    Doctor(Doctor),
    /// Compare schedules of pipelines, draw one, or check one of your own
    Schedule(Schedule),
    /// The verbs of `cargo ops`: check, explain, new, fmt, list, schema, mutate, site
    #[command(flatten)]
    Ops(fulgurite_site::command::SiteVerb),
}

/// The tasks that can be learned.
#[derive(ValueEnum, Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum TaskName {
    /// A character-level GPT learns a text
    #[default]
    Text,
    /// A convolutional net learns to read 8 by 8 pixel images of handwritten digits
    Digits,
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TaskName::Text => "text",
            TaskName::Digits => "digits",
        })
    }
}

/// Options of `train`.
#[derive(Args, Clone, Debug)]
pub struct Train {
    /// The task (default: text); a checkpoint that is resumed sets it
    #[arg(long, value_name = "TASK", help_heading = "Data")]
    pub task: Option<TaskName>,
    /// The text to learn; without it, the operator database and its documentation
    #[arg(long, value_name = "FILE", help_heading = "Data")]
    pub text: Option<PathBuf>,
    /// Seed of the random numbers
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = 1337, help_heading = "Data", value_parser = whole::<u64>)]
    pub seed: u64,

    /// Train this model that PyTorch exported, on --data, by --loss
    #[arg(long, value_name = "FILE", requires = "data", help_heading = "Imported model",
          conflicts_with_all = ["task", "text", "seconds", "depth", "width", "heads", "context", "precision", "resume", "save_every", "plot", "prompt"])]
    pub model: Option<PathBuf>,
    /// Samples: a safetensors file with the model's inputs by name, and a target
    #[arg(long, value_name = "FILE", requires = "model", help_heading = "Imported model")]
    pub data: Option<PathBuf>,
    /// The row that makes a loss of the first output and the target: cross_entropy, mse_loss, … (default: the first
    /// output is the loss)
    #[arg(long, value_name = "ROW", requires = "model", help_heading = "Imported model")]
    pub loss: Option<String>,
    /// The target's name in the file (default: the one tensor that is no input)
    #[arg(long, value_name = "NAME", requires = "loss", help_heading = "Imported model")]
    pub target: Option<String>,
    /// Take the samples in the order of the file, from its start again at its end, instead of in a random order
    #[arg(long, requires = "model", help_heading = "Imported model")]
    pub in_order: bool,
    /// Weights to begin with: a file that an earlier run wrote
    #[arg(long, value_name = "FILE", requires = "model", help_heading = "Imported model")]
    pub weights: Option<PathBuf>,

    /// Steps in all
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "Length", value_parser = whole::<u64>)]
    pub steps: Option<u64>,
    /// About this many seconds: the number of steps is set from the speed of the first ones
    #[arg(long, allow_negative_numbers = true, value_name = "S", conflicts_with = "steps", help_heading = "Length")]
    pub seconds: Option<f64>,

    /// Blocks of attention and MLP (text)
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "Model", value_parser = whole::<usize>)]
    pub depth: Option<usize>,
    /// Numbers per character in the model (text)
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "Model", value_parser = whole::<usize>)]
    pub width: Option<usize>,
    /// Attention heads (text)
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "Model", value_parser = whole::<usize>)]
    pub heads: Option<usize>,
    /// Characters that the model looks back (text)
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "Model", value_parser = whole::<usize>)]
    pub context: Option<usize>,

    /// Precision of the model's computations (text); its parameters stay f32
    #[arg(long, value_name = "FORM", help_heading = "Model")]
    pub precision: Option<Precision>,

    /// Pieces of text, or images, a step
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "Optimiser", value_parser = whole::<usize>)]
    pub batch: Option<usize>,
    /// Largest learning rate
    #[arg(long, allow_negative_numbers = true, value_name = "X", help_heading = "Optimiser")]
    pub lr: Option<f64>,
    /// Bound of the gradient's norm: longer gradients are scaled to it
    #[arg(long, allow_negative_numbers = true, value_name = "X", help_heading = "Optimiser")]
    pub clip: Option<f64>,
    /// Weight decay: the share of every weight that is subtracted per step, times the learning rate
    #[arg(long, allow_negative_numbers = true, value_name = "X", help_heading = "Optimiser")]
    pub decay: Option<f64>,

    /// Folder of the run: metrics, settings, checkpoints
    #[arg(long, value_name = "DIR", help_heading = "Files")]
    pub out: Option<PathBuf>,
    /// Resume from a checkpoint, or from the newest one of a folder, bit for bit
    #[arg(long, value_name = "PATH", help_heading = "Files",
          conflicts_with_all = ["seed", "seconds", "depth", "width", "heads", "context", "precision", "batch", "lr", "clip", "decay"])]
    pub resume: Option<PathBuf>,
    /// Save after every N steps (0: only at the end)
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "Files", value_parser = whole::<u64>)]
    pub save_every: Option<u64>,
    /// Draw the loss curve at the end, and digits that were read wrong: FILE.png or FILE.svg
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub plot: Option<PathBuf>,

    /// Number of threads (default: one per core)
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "Run", value_parser = whole::<usize>)]
    pub threads: Option<usize>,
    /// Print a line after every N steps, where lines are not redrawn
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "Run", value_parser = whole::<u64>)]
    pub log_every: Option<u64>,
    /// The profile of the command.
    #[command(flatten)]
    pub profiled: Profiled,
    /// How the samples begin (text)
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, help_heading = "Run")]
    pub prompt: Option<String>,

    /// The processes that train.
    #[command(flatten)]
    pub processes: Processes,
}

/// Options of a run on several ranks.
#[derive(Args, Clone, Default, Debug)]
#[command(next_help_heading = "Processes")]
pub struct Processes {
    /// Start N processes on this machine; under `mpirun -n N` there are N already
    #[arg(long, value_name = "N", value_parser = whole::<usize>)]
    pub ranks: Option<usize>,
    /// Train D copies of the model on shares of each batch (without a number: one per rank)
    #[arg(long, value_name = "D", num_args = 0..=1, default_missing_value = "0", value_parser = whole::<usize>)]
    pub data_parallel: Option<usize>,
    /// The schedule by which the ranks of a copy run as a pipeline: gpipe, 1f1b, interleaved, bfs, zb1p, zbv,
    /// dualpipev, or a file in the format of `fulgurite schedule --check`
    #[arg(long, value_name = "SCHEDULE")]
    pub pipeline: Option<String>,
    /// Micro-batches of a copy's share (default: twice the ranks of its pipeline)
    #[arg(long, value_name = "M", value_parser = whole::<usize>)]
    pub micro_batches: Option<usize>,
    /// Stages per rank, where the schedule does not fix it
    #[arg(long, value_name = "V", value_parser = whole::<usize>)]
    pub stages_per_rank: Option<usize>,
    /// End the run when a rank waits longer than S seconds for another (default: 60)
    #[arg(long, value_name = "S")]
    pub timeout: Option<f64>,
}

/// Options of `sample`.
#[derive(Args, Clone, Debug)]
#[command(after_help = SAMPLE)]
pub struct Sample {
    /// A checkpoint of `train`, or a folder: its newest one
    pub checkpoint: PathBuf,
    /// The beginning of the text; without it, a new line
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// Characters to write
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = whole::<usize>)]
    pub tokens: usize,
    /// Sharpness of the choice: below 1 likely characters become more likely, above 1 less
    #[arg(long, value_name = "T", default_value_t = 0.8, allow_negative_numbers = true)]
    pub temperature: f64,
    /// Choose among the K most likely characters only
    #[arg(long, value_name = "K", value_parser = whole::<usize>)]
    pub top_k: Option<usize>,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1337, value_parser = whole::<u64>)]
    pub seed: u64,
    /// Storage of the blocks' matrices: as trained, or quantised in groups to integers of 8 or 4 bits
    #[arg(long, value_name = "FORM", default_value = "f32")]
    pub weights: Weights,
    /// Number of threads (default: one per core)
    #[arg(long, value_name = "N", value_parser = whole::<usize>)]
    pub threads: Option<usize>,
}

/// The storage of a model's matrices.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weights {
    /// As trained
    F32,
    /// Groups of integers of 8 bits
    Int8,
    /// Groups of integers of 4 bits
    Int4,
}

const SAMPLE: &str = "\
Each character is one compiled step; the keys and values of those before it are kept. The model sees as many
characters as its context has. When that is full, the later half of it is read anew as the beginning of the next.

With --weights int8 or int4 the matrices of the blocks are rounded once, when the checkpoint was read, to integers with
a factor per group of 32 numbers of a row (GroupQuantWeight, docs/subclasses.md).

  fulgurite sample runs/demo --prompt '- op: ' --tokens 200 --temperature 0.5
  fulgurite sample runs/demo --prompt '- op: ' --weights int8";

const TRACE: &str = "\
A page of --html has everything that the other options show. After a program that does not compile it has the stages
until the failure. docs/viewer.md describes it.

  fulgurite trace --html step.html --profile
  fulgurite trace --html digits.html --model digits.pt2";

/// Options of `trace`.
#[derive(Args, Clone, Debug)]
#[command(after_help = TRACE)]
pub struct Trace {
    /// A model that PyTorch exported (.pt2) or one of ONNX (.onnx), instead of the demo's training step
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// The table of stages
    #[arg(long, conflicts_with_all = ["stage", "diff"])]
    pub stages: bool,
    /// The program after this stage (default: the last); a terminal shows long lists of inputs only with --verbose
    #[arg(long, value_name = "NAME")]
    pub stage: Option<String>,
    /// The changes from one stage to another
    #[arg(long, num_args = 2, value_names = ["FROM", "TO"], conflicts_with = "stage")]
    pub diff: Option<Vec<String>>,
    /// A value of the stage: the lines that make and read it, its size, its lifetime
    #[arg(long, value_name = "NAME", conflicts_with_all = ["stages", "diff"])]
    pub value: Option<String>,
    /// A line of the stage, by its number or the name of a result: why a gradient skips it, whether it is recomputed
    /// for the backward, which lines it is fused with, and what prevents further fusion
    #[arg(long, value_name = "LINE", conflicts_with_all = ["stages", "diff", "value"])]
    pub why: Option<String>,
    /// The memory of the stage's values from line to line
    #[arg(long, conflicts_with_all = ["stages", "diff", "value", "why"])]
    pub memory: bool,
    /// The depth to which bodies of lines are opened
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<usize>)]
    pub depth: usize,
    /// Write all stages as one page for a browser, which needs no network: stages side by side, values with their uses,
    /// steps, bodies, and memory over time
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stages", "stage", "diff", "value", "why", "memory", "depth"])]
    pub html: Option<PathBuf>,
    /// Run the program some times, and show the time and the speed of each step in the page
    #[arg(long, requires = "html")]
    pub profile: bool,
}

/// Options of `eval`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EVAL)]
pub struct Eval {
    /// Calls of operators on numbers and lists, e.g. 'softmax([[1, 2, 3]], -1)'. Rows of --file need no build; neither do
    /// those of `ops.yaml` in this folder, or in the nearest above, that this program does not have
    pub expression: String,
    /// Also print the gradient of the sum of the result, for every float list
    #[arg(long)]
    pub grad: bool,
}

const EVAL: &str = "\
Numbers are f32 unless `as` says otherwise: [1, 2] as i64. Options stand by name or in order:
  fulgurite eval 'sum([[1, 2], [3, 4]], dims = [1], keepdim = true)'
  fulgurite eval 'embedding([[1, 2], [3, 4]], [1, 0, 1] as i64)' --grad
  fulgurite eval '[1, 2] * 3 + exp([0, 1]).sum()'
  fulgurite eval 'mine([1, 2])' --file mine.yaml    a row of one's own, before it is built";

/// The option to profile a command.
#[derive(Args, Clone, Debug)]
pub struct Profiled {
    /// Print the time, the bytes and the speed of each step of the compiled programs; with =FILE, also write its runs as
    /// trace events, which Perfetto and chrome://tracing show
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, help_heading = "Run")]
    pub profile: Option<Option<PathBuf>>,
}

/// Options of `bench`.
#[derive(Args, Clone, Debug)]
pub struct Bench {
    /// Answer the commands of the protocol on standard input
    #[arg(long, conflicts_with_all = ["run", "list", "profile"])]
    pub serve: bool,
    /// Run one workload, or all of a group: W1.chain, W6
    #[arg(long, value_name = "W", conflicts_with = "list")]
    pub run: Option<String>,
    /// Timed repetitions
    #[arg(long, value_name = "K", default_value_t = 30, value_parser = whole::<usize>)]
    pub reps: usize,
    /// Threads
    #[arg(long, value_name = "N", value_parser = whole::<usize>)]
    pub threads: Option<usize>,
    /// Name the workloads
    #[arg(long)]
    pub list: bool,
    /// Compare the time of each workload with its floor: the time in which one thread of this machine could move the bytes of
    /// its steps, or do their products
    #[arg(long, conflicts_with_all = ["serve", "list", "model", "profile"])]
    pub floors: bool,
    /// Time a model that PyTorch exported (.pt2) or one of ONNX (.onnx): a call at once, a compiled one, and a gradient
    #[arg(long, value_name = "FILE", conflicts_with_all = ["serve", "run", "list"])]
    pub model: Option<PathBuf>,
    /// An input of the model, as `run` takes it (default: zeros of small sizes for all inputs)
    #[arg(long, value_name = "NAME=VALUE", requires = "model")]
    pub input: Vec<String>,
    /// The profile of the command.
    #[command(flatten)]
    pub profiled: Profiled,
}

/// Options of `import`.
#[derive(Args, Clone, Debug)]
#[command(after_help = IMPORT)]
pub struct Import {
    /// The archive of `torch.export.save`
    pub model: PathBuf,
    /// Print the program as it is recorded, with the model's modules and symbolic sizes
    #[arg(long, conflicts_with = "compare")]
    pub trace: bool,
    /// Compare the results of calls with those in a safetensors file, by name, and find the first that is off
    #[arg(long, value_name = "FILE")]
    pub compare: Option<PathBuf>,
    /// The difference from which on a value is off, as a share of the largest expected element
    #[arg(long, value_name = "X", default_value_t = 1e-4, requires = "compare")]
    pub tolerance: f64,
}

const IMPORT: &str = "\
Exit status 1: some calls have no row (all of them are listed, with their Python lines), or a value is off.

  fulgurite import resnet18.pt2
  fulgurite import resnet18.pt2 --trace
  fulgurite import resnet18.pt2 --compare values.safetensors

docs/models.md has a script that writes such values.";

/// Options of `run`.
#[derive(Args, Clone, Debug)]
#[command(after_help = RUN)]
pub struct Run {
    /// The archive of `torch.export.save`
    pub model: PathBuf,
    /// An input: a safetensors file that has it under its name, FILE:OTHER for another name, or an expression of `eval`
    #[arg(long, value_name = "NAME=VALUE")]
    pub input: Vec<String>,
    /// Other weights: a safetensors file with the parameters and buffers by name, as `train --model` writes it
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// Also compute the gradient of the sum of all outputs of floats by every parameter
    #[arg(long, conflicts_with = "quantise")]
    pub grad: bool,
    /// Write the outputs, and gradients as gradient.NAME, to a safetensors file instead of printing them
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write the parameters and buffers as they are behind the call; --weights reads them
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Storage of the matrices that only products read: as in the file, or quantised in groups to integers of 8 or 4 bits
    #[arg(long, value_name = "FORM", default_value = "f32")]
    pub quantise: Weights,
    /// Seed of the random numbers, for models that draw some
    #[arg(long, value_name = "N", default_value_t = 1337, value_parser = whole::<u64>)]
    pub seed: u64,
    /// Number of threads (default: one per core)
    #[arg(long, value_name = "N", value_parser = whole::<usize>)]
    pub threads: Option<usize>,
    /// The profile of the command.
    #[command(flatten)]
    pub profiled: Profiled,
}

const RUN: &str = "\
  fulgurite run digits.pt2 --input images=digits.safetensors
  fulgurite run digits.pt2 --input 'images=full([1, 1, 8, 8], 0.5)'
  fulgurite run digits.pt2 --input images=digits.safetensors --grad --out gradients.safetensors
  fulgurite run digits.pt2 --input images=digits.safetensors --weights runs/model/weights.safetensors";

/// Options of `conformance`.
#[derive(Args, Clone, Debug)]
pub struct Conformance {
    /// The folder with `cases.jsonl` and `cases.safetensors`
    #[arg(long, value_name = "DIR")]
    pub cases: PathBuf,
    /// The folder for `results.jsonl`
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Only cases of operators whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
}

/// Parses a count.
fn whole<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "a whole number from 0 on is needed".to_owned())
}

/// Parses a count of which there must be some.
fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("a whole number from 1 on is needed".to_owned()),
        Ok(n) => Ok(n),
    }
}

/// Options of `schedule`.
#[derive(Args, Clone, Debug)]
pub struct Schedule {
    /// The schedule to draw: gpipe, 1f1b, interleaved, bfs, zb1p, zbv, dualpipev; without one, all are compared
    pub name: Option<String>,
    /// Ranks
    #[arg(long, value_name = "P", default_value_t = 4, value_parser = at_least_one)]
    pub ranks: usize,
    /// Micro-batches
    #[arg(long, value_name = "M", default_value_t = 16, value_parser = at_least_one)]
    pub micro_batches: usize,
    /// Stages per rank, where the schedule does not fix it
    #[arg(long, value_name = "V", value_parser = at_least_one)]
    pub stages_per_rank: Option<usize>,
    /// Times of a rank's share of the model for a micro-batch: forward, gradient of inputs, gradient of weights
    #[arg(long, value_name = "F,I,W", default_value = "1,1,1")]
    pub times: String,
    /// Delay from the end of an action until another rank has its result
    #[arg(long, value_name = "T", default_value_t = 0, value_parser = whole::<u64>)]
    pub delay: u64,
    /// The time of two overlapping actions, in percent of their sum
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = whole::<u64>)]
    pub overlap: u64,
    /// Bytes that a micro-batch keeps alive in a rank's share of the model
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<u64>)]
    pub bytes: u64,
    /// At most this many bytes alive on a rank
    #[arg(long, value_name = "N", value_parser = whole::<u64>)]
    pub memory: Option<u64>,
    /// At most this many micro-batches alive on a rank
    #[arg(long, value_name = "N", value_parser = whole::<usize>)]
    pub live: Option<usize>,
    /// Check this file: one line per rank, `r0: 0F0 0F1 0B0 0B1`
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    pub check: Option<PathBuf>,
    /// Print the schedule's text
    #[arg(long)]
    pub text: bool,
    /// Draw the timeline to a file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write the timelines as one page for a browser, with axes, a legend and a table of the numbers
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Options of `doctor`.
#[derive(Args, Clone, Debug)]
pub struct Doctor {
    /// Number of threads, as in other commands
    #[arg(long, value_name = "N", value_parser = whole::<usize>)]
    pub threads: Option<usize>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use clap::CommandFactory;

    /// The options of a typed `train` command.
    pub(crate) fn train(line: &str) -> Option<Train> {
        let words = ["fulgurite", "train"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words).ok()?.command {
            Some(Command::Train(train)) => Some(*train),
            _ => None,
        }
    }

    #[test]
    fn the_table_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_command_is_allowed() {
        assert!(Cli::parse_from(["fulgurite"]).command.is_none());
        assert!(Cli::try_parse_from(["fulgurite", "train", "--resume", "x", "--lr", "3"]).is_err());
        let cli = Cli::parse_from(["fulgurite", "bench", "--serve", "--threads", "2", "--json"]);
        assert!(matches!(Cli::parse_from(["fulgurite", "explain", "gelu"]).command, Some(Command::Ops(_))));
        assert!(cli.common.json && matches!(cli.command, Some(Command::Bench(Bench { serve: true, .. }))));
    }
}
