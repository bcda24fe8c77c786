//! The command `cargo ops`: check, explain, new, fmt, list, schema, export. A tool that adds verbs of its own flattens [`Verb`]
//! into them and implements [`Verbs`] to run them.
//!
//! The command exists beside `fulgurite` because that one cannot be built while a row is broken; `fulgurite` calls the
//! functions of this module. Results go to `out`, everything else to `err`; with `--json` every line of `out` is one
//! object.
//!
//! | status | means |
//! |---|---|
//! | 0 | fine |
//! | 1 | the check failed, or there is no such row |
//! | 2 | wrong use: files, options |
//! | 101 | a bug of ours |

mod blanks;
mod check;
mod classes;
mod explain;
mod export;
mod fault;
mod fmt;
mod grades;
mod list;
mod load;
mod new;
mod paint;
mod schema;
mod sizes;
mod told;
mod upstream;
mod watch;
mod write;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use fault::CommandFault;
pub use fulgurite_codegen::known::kept;
pub use load::{Loaded, is_found, load, load_or_built_in, load_over_built_in};
pub use paint::{Paint, WIDEST, columns};

/// The status of success.
pub const FINE: i32 = 0;
/// The status of a command that ran and failed.
pub const FAILED: i32 = 1;
/// The status of a command that cannot run.
pub const USAGE: i32 = 2;

/// Works on operator databases.
#[derive(Debug, Parser)]
#[command(
    name = "ops",
    bin_name = "cargo ops",
    version,
    after_help = "Examples:\n  cargo ops check\n  cargo ops check --watch\n  cargo ops fmt\n  cargo ops explain gelu\n  cargo ops explain E402\n  cargo ops new mish 'x * tanh(softplus(x))'\n  cargo ops new span --kind reduction\n  cargo ops list --grades"
)]
pub struct OpsCommand<V: Subcommand = Verb> {
    /// The verb.
    #[command(subcommand)]
    pub verb: V,
    /// The options of every verb.
    #[command(flatten)]
    pub common: Common,
}

/// The options of every verb.
#[derive(Clone, Debug, Default, Args)]
pub struct Common {
    /// The database; without this option, `ops.yaml` in this folder or the nearest folder above that has one
    #[arg(long, global = true, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Another database whose rows may be called, and which is not checked; without this option, that of the nearest
    /// dependency of the crate that has one (`fulgurite`)
    #[arg(long, global = true, value_name = "FILE")]
    pub upstream: Option<PathBuf>,
    /// Print one JSON object per line on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// Print only errors and results
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// The text of the database to use if there is no file.
    #[arg(skip)]
    pub built_in: Option<&'static str>,
    /// The file that records rows that were right.
    #[arg(skip)]
    pub kept: Option<PathBuf>,
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: When,
}

/// When colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The verbs of this crate.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Check every row: names, shapes, dtypes, effects, gradients
    Check(check::Check),
    /// Explain a row, a tensor subclass or an error code
    Explain(explain::Explain),
    /// Add a row
    New(new::New),
    /// Write the database in canonical form
    Fmt(fmt::Fmt),
    /// List the rows
    List(list::List),
    /// Print the JSON Schema of databases, for editors
    Schema(schema::Schema),
    /// Make a package of the rows for another framework
    Export(export::ExportCommand),
}

/// A set of verbs that [`run`] can run.
pub trait Verbs: Subcommand {
    /// Runs the verb: results go to `out`, everything else to `err`. Returns the exit status.
    ///
    /// # Errors
    /// The reason why it stopped.
    fn run(self, common: &Common, paint: &Paint, out: &mut dyn Write, err: &mut dyn Write) -> Outcome;
}

impl Verbs for Verb {
    fn run(self, common: &Common, paint: &Paint, out: &mut dyn Write, err: &mut dyn Write) -> Outcome {
        match self {
            Verb::Check(check) if check.watch => watch::run(&check, common, paint, out, err),
            Verb::Check(check) => check.run(common, paint, out, err),
            Verb::Explain(explain) => explain.run(common, paint, out),
            Verb::New(new) => new.run(common, paint, out, err),
            Verb::Fmt(fmt) => fmt.run(common, paint, out, err),
            Verb::List(list) => list.run(common, paint, out, err),
            Verb::Schema(schema) => schema.run(common, out),
            Verb::Export(export) => export.run(common, paint, out, err),
        }
    }
}

/// Runs a command; returns the exit status.
pub fn run<V: Verbs>(args: OpsCommand<V>, out: &mut dyn Write, err: &mut dyn Write) -> i32 {
    let paint = Paint::new(args.common.color);
    match args.verb.run(&args.common, &paint, out, err) {
        Ok(status) => status,
        Err(fault) => fault.report(args.common.json, &paint, out, err),
    }
}

/// Runs the words of a command line with the verbs of this crate, and records nothing: see [`run_kept`].
pub fn run_words(words: impl IntoIterator<Item = OsString>, out: &mut dyn Write, err: &mut dyn Write) -> i32 {
    run_kept::<Verb>(words, None, out, err)
}

/// Runs the words of a command line, the program's name first. `cargo ops` as an installed subcommand passes its own
/// name once more. `kept` is the file that records rows that were right.
pub fn run_kept<V: Verbs>(
    words: impl IntoIterator<Item = OsString>,
    kept: Option<PathBuf>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> i32 {
    let mut words: Vec<OsString> = words.into_iter().collect();
    if words.get(1).is_some_and(|word| word == "ops") {
        words.remove(1);
    }
    match OpsCommand::<V>::try_parse_from(words) {
        Ok(mut args) => {
            args.common.kept = kept;
            run(args, out, err)
        }
        // Help and version are requested output.
        Err(error) if !error.use_stderr() => finish(write!(out, "{error}"), FINE),
        Err(error) => finish(write!(err, "{error}"), USAGE),
    }
}

/// The status, unless the output could not be written.
fn finish(written: std::io::Result<()>, status: i32) -> i32 {
    match written {
        Ok(()) => status,
        // The reader of the output closed it, so there is nothing to report.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => status,
        Err(_) => USAGE,
    }
}

/// The result of a verb: a status, or a fault to report.
pub type Outcome = Result<i32, CommandFault>;
