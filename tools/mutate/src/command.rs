//! `cargo ops mutate`, in addition to the verbs of codegen.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand};
use fulgurite_codegen::check::recorded::Case;
use fulgurite_codegen::diag::render::{self, Style};
use fulgurite_codegen::nearest::nearest;
use fulgurite_core::Name;
use fulgurite_ops_verbs::cli::{self, CommandFault, Common, FAILED, FINE, Loaded, Outcome, Paint, Verbs, load};
use serde_json::json;

use crate::judge::{Bench, Verdict, judge_all};
use crate::kinds::Kind;
use crate::score::Score;
use crate::{Mutant, choose, given, mutants, recorded};

/// The verbs of `cargo ops`.
#[derive(Debug, Subcommand)]
pub enum OpsVerb {
    /// The verbs of `fulgurite-ops-verbs`.
    #[command(flatten)]
    Codegen(cli::Verb),
    /// Make wrong rows, and show which of them no check refutes
    Mutate(Mutate),
}

impl Verbs for OpsVerb {
    fn run(self, common: &Common, paint: &Paint, out: &mut dyn Write, err: &mut dyn Write) -> Outcome {
        match self {
            OpsVerb::Codegen(verb) => verb.run(common, paint, out, err),
            OpsVerb::Mutate(mutate) => mutate.run(common, paint, out, err),
        }
    }
}

/// Runs the words of a command line like [`cli::run_words`], including the verb `mutate`.
pub fn run_words(words: impl IntoIterator<Item = OsString>, out: &mut dyn Write, err: &mut dyn Write) -> i32 {
    cli::run_kept::<OpsVerb>(words, None, out, err)
}

/// Makes wrong rows one at a time, and finds the evidence that refutes each.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  cargo ops mutate\n  cargo ops mutate --count 200 --seed 7\n  cargo ops mutate --row softmax\n  cargo ops mutate --with compat/pytorch\n  cargo ops mutate --wrong mine.yaml\n  cargo ops mutate --json | jq '.score, .meaning_score'"
)]
pub struct Mutate {
    /// The seed by which mutants are chosen, if not all are tried
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// The number of mutants to try; without this option, all
    #[arg(long, value_name = "N", value_parser = count)]
    pub count: Option<usize>,
    /// The folder with values recorded from PyTorch; without this option, `tests/data` beside the database, if it exists
    #[arg(long, value_name = "DIR")]
    pub recorded: Option<PathBuf>,
    /// A database that uses the rows, or its folder: its points and PyTorch's values of its rows are evidence as well
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub with: Vec<PathBuf>,
    /// Make mutants of these rows only
    #[arg(long, value_name = "OP", value_delimiter = ',')]
    pub row: Vec<String>,
    /// Only list the redundant points that expect a refusal: the signature, the dtypes or the promotion refuse their
    /// calls already, and the same mutants are refuted without them
    #[arg(long, conflicts_with = "wrong")]
    pub idle: bool,
    /// Instead of generated mutants, take the rows of this file, each a wrong form of the row with its name; a name may
    /// occur often
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "count", "row"])]
    pub wrong: Option<PathBuf>,
}

/// Parses a count; zero mutants would have no score.
fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("the number of mutants is at least 1".to_owned()),
        Ok(count) => Ok(count),
        Err(why) => Err(format!("{why}")),
    }
}

impl Mutate {
    fn run(&self, common: &Common, paint: &Paint, out: &mut dyn Write, err: &mut dyn Write) -> Outcome {
        let start = Instant::now();
        let loaded = load(common, None)?;
        let downstream = self.downstream(common, &loaded)?;
        // A row that is already wrong cannot be mutated, and a wrong caller refutes nothing.
        if let Some(wrong) = downstream.iter().chain([&loaded]).find(|loaded| loaded.diags.errors() > 0) {
            let (diags, sources) = (&wrong.diags, &wrong.sources);
            let text = match common.json {
                true => render::json(diags, sources),
                false => render::text(diags, sources, Style { color: paint.color, width: 100 }),
            };
            if common.json {
                out.write_all(text.as_bytes())?
            } else {
                err.write_all(text.as_bytes())?
            }
            return Ok(FAILED);
        }
        let mut all = match &self.wrong {
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|why| CommandFault::unreadable(path, &why))?;
                let read = given::read(&text, &loaded.database, &loaded.sources);
                read.map_err(|(line, op)| {
                    let fault =
                        CommandFault::failed("E007", format!("{}:{line}: there is no row `{op}`", path.display()));
                    match nearest(&op, loaded.names().into_iter().map(Name::as_str)) {
                        Some(near) => fault.help(format!("did you mean `{near}`?")),
                        None => fault.help("each row is a wrong form of the row that has its name"),
                    }
                })?
            }
            None => mutants(&loaded.database, &loaded.sources),
        };
        self.row.iter().try_for_each(|op| loaded.find(op).map(drop))?;
        all.retain(|mutant| self.row.is_empty() || self.row.iter().any(|op| mutant.row == op.as_str()));
        let made = all.len();
        let mutants = choose(all, self.count.unwrap_or(usize::MAX), self.seed);
        let bench = Bench::new(&loaded.database, &loaded.sources, &loaded.checked, &loaded.upstream);
        let bench =
            downstream.iter().fold(bench, |bench, other| bench.with_downstream(&other.database, &other.checked));
        let bench = match self.cases(&loaded.files.rows.path)? {
            Some(cases) => bench.with_recorded(cases),
            None => bench,
        };
        if self.idle {
            let idle = bench.idle(&mutants);
            if idle.is_empty() && !common.quiet && !common.json {
                writeln!(err, "note: these rows have no redundant points that expect a refusal")?;
            }
            for (op, point) in idle {
                let (place, text) = (loaded.sources.show(point.place), loaded.sources.text(point.place));
                match common.json {
                    true => writeln!(out, "{}", json!({"v": 1, "row": op.as_str(), "place": place, "point": text}))?,
                    false => writeln!(out, "{place}: {op} {text}")?,
                }
            }
            return Ok(FINE);
        }
        let recorded = bench.recorded();
        let verdicts = judge_all(&bench, &mutants);
        let score = Score::of(&mutants, &verdicts);
        let seconds = start.elapsed().as_secs_f64();
        if common.json {
            let list: Vec<_> = mutants.iter().zip(&verdicts).map(|(mutant, verdict)| entry(mutant, verdict)).collect();
            let object = json!({
                "v": 1, "kind": "mutants", "made": made, "tried": mutants.len(), "seed": self.seed,
                "score": score.stated.share(), "meaning_score": score.meaning.share(),
                "stated": score.stated.json(), "meaning": score.meaning.json(),
                "recorded": {"met": recorded.0, "of": recorded.1}, "seconds": seconds, "mutants": list,
            });
            writeln!(out, "{object}")?;
            return Ok(FINE);
        }
        if self.wrong.is_some() {
            for (mutant, verdict) in mutants.iter().zip(&verdicts) {
                let why = verdict.code().or(verdict.reason()).or(verdict.point()).unwrap_or("");
                let row = paint.verb(mutant.row.as_str());
                writeln!(out, "{row} {} {}: {}", mutant.key, verdict.word(), paint.faint(why))?;
            }
            return Ok(FINE);
        }
        for (mutant, verdict) in mutants.iter().zip(&verdicts) {
            if matches!(verdict, Verdict::Survived(_) | Verdict::Crashed) {
                writeln!(out, "{}", survivor(mutant, verdict, paint))?;
                if let Some(point) = verdict.point() {
                    writeln!(out, "  a point that tells: {}", paint.faint(point))?;
                }
            }
        }
        by_kind(&mutants, &verdicts, out)?;
        writeln!(out, "stated twice  {}", score.stated)?;
        writeln!(out, "meaning       {}", score.meaning)?;
        if !common.quiet {
            match recorded {
                (_, 0) => writeln!(
                    err,
                    "The evidence has no values recorded from PyTorch (`--recorded DIR` names a folder of them)"
                )?,
                (met, of) => {
                    writeln!(err, "The evidence has values recorded from PyTorch: the rows meet {met} of {of} cases")?
                }
            }
            writeln!(err, "Tried {} of {made} mutants in {seconds:.1} s", mutants.len())?;
        }
        Ok(FINE)
    }

    /// The databases of `--with`, whose rows use those of `loaded`.
    fn downstream(&self, common: &Common, loaded: &Loaded) -> Result<Vec<Loaded>, CommandFault> {
        let common = Common { file: None, upstream: Some(loaded.files.rows.path.clone()), ..common.clone() };
        let file = |path: &PathBuf| if path.is_dir() { path.join("ops.yaml") } else { path.clone() };
        self.with.iter().map(|path| load(&common, Some(&file(path)))).collect()
    }

    /// PyTorch's values; `None` if no folder is named and the database has none beside it.
    fn cases(&self, database: &Path) -> Result<Option<Vec<Case>>, CommandFault> {
        let own = database.with_file_name("tests").join("data");
        let folder = match &self.recorded {
            Some(folder) => folder.as_path(),
            None if own.is_dir() => own.as_path(),
            None => return Ok(None),
        };
        let cases = recorded::load(folder).map_err(|(path, why)| CommandFault::unreadable(&path, &why))?;
        Ok(Some(cases))
    }
}

fn entry(mutant: &Mutant, verdict: &Verdict) -> serde_json::Value {
    json!({
        "row": mutant.row.as_str(), "kind": mutant.kind.to_string(), "fault": mutant.kind.words(),
        "key": mutant.key, "edit": format!("{} -> {}", mutant.edit.0, mutant.edit.1),
        "meaning": mutant.meaning, "verdict": verdict.word(), "code": verdict.code(), "reason": verdict.reason(), "point": verdict.point(),
    })
}

/// Prints `softmax grad.x M03 survived: out -> g`.
fn survivor(mutant: &Mutant, verdict: &Verdict, paint: &Paint) -> String {
    let row = paint.verb(mutant.row.as_str());
    let of = if mutant.meaning { " (meaning)" } else { "" };
    format!("{row} {} {}{of} {}: `{}` -> `{}`", mutant.key, mutant.kind, verdict.word(), mutant.edit.0, mutant.edit.1)
}

fn by_kind(mutants: &[Mutant], verdicts: &[Verdict], out: &mut dyn Write) -> std::io::Result<()> {
    let mut kinds: BTreeMap<Kind, [usize; 3]> = BTreeMap::new();
    for (mutant, verdict) in mutants.iter().zip(verdicts) {
        let counts = kinds.entry(mutant.kind).or_default();
        counts[0] += 1;
        counts[1] += usize::from(matches!(verdict, Verdict::Survived(_) | Verdict::Crashed));
        counts[2] += usize::from(matches!(verdict, Verdict::Equivalent(_)));
    }
    for (kind, [all, survived, equal]) in kinds {
        writeln!(out, "{kind}  {all:>5} made {survived:>5} survive {equal:>5} equivalent  {}", kind.words())?;
    }
    Ok(())
}
