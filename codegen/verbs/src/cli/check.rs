//! `cargo ops check`

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use fulgurite_codegen::check::{base, closure};
use fulgurite_codegen::diag::render::{self, Style};
use fulgurite_codegen::known::{Declared, Known};
use fulgurite_codegen::schema::{Database, RowSource};
use fulgurite_codegen::source::{Place, Sources};
use fulgurite_core::{Name, counted};
use rustc_hash::FxHashSet;
use serde_json::json;

use super::fault::CommandFault;
use super::load::{self, Loaded};
use super::paint::Paint;
use super::told::{Untold, untold};
use super::{Common, FAILED, FINE, Outcome};

/// Checks a database.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  cargo ops check\n  cargo ops check --only softmax\n  cargo ops check --watch\n  cargo ops check rows/mine.yaml\n  cargo ops check mine.yaml --upstream ops.yaml\n  cargo ops check --json"
)]
pub struct Check {
    /// The database, as with `--file`
    // The id differs from that of the field of `--file`.
    #[arg(id = "database", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Check only these rows, with their overloads and the rows that they call
    #[arg(long, value_name = "OP", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Watch the file, and check changed rows and their callers again; Ctrl-C ends it
    #[arg(long)]
    pub watch: bool,
    /// Check every row, including unchanged ones that passed before
    #[arg(long)]
    pub no_cache: bool,
}

/// The result of one check of a database.
pub(super) struct Round {
    pub(super) loaded: Loaded,
    /// The number of requested rows that were known to be right.
    as_before: usize,
    /// The declared grades of all requested rows.
    declared: Declared,
    took: Duration,
}

/// At most this many notes about rows whose points leave mutations open, because a screen holds no more.
const MOST_SHOWN: usize = 8;

/// The options that points leave untested.
fn options(what: &Untold) -> Vec<&'static str> {
    match what {
        Untold::Everything => Vec::new(),
        Untold::Options(names) => names.iter().map(|name| name.as_str()).collect(),
    }
}

/// A note for a database that calls rows which it does not have, and was checked without one upstream.
fn alone(loaded: &Loaded) -> Option<String> {
    let path = &loaded.files.rows.path;
    let unknown = loaded.upstream.text.is_empty() && loaded.diags.sorted().iter().any(|diag| diag.code == "E007");
    let other = load::find().ok();
    let same =
        |other: &PathBuf| other.canonicalize().is_ok_and(|other| path.canonicalize().is_ok_and(|path| path == other));
    if !unknown || other.as_ref().is_some_and(same) {
        return None;
    }
    let other = other.map_or_else(|| "FILE".to_owned(), |other| other.display().to_string());
    Some(format!(
        "note: `{}` was checked alone; where it calls rows of another database, add `--upstream {other}`",
        path.display()
    ))
}

impl Check {
    pub(super) fn run(&self, common: &Common, paint: &Paint, out: &mut dyn Write, err: &mut dyn Write) -> Outcome {
        let kept = self.kept(common);
        let mut known = Known::read(kept);
        let round = self.round(common, &mut known)?;
        if round.loaded.diags.errors() == 0 {
            self.only.iter().try_for_each(|op| round.loaded.find(op).map(drop))?;
        }
        if let Some(kept) = kept {
            known.write(kept);
        }
        let status = self.report(&round, common, paint, out, err);
        // The program ends here, so its memory is not freed piece by piece.
        std::mem::forget(round);
        status
    }

    /// Reads the database, checks the requested rows that are not `known` to be right, and records those that are.
    pub(super) fn round(&self, common: &Common, known: &mut Known) -> Result<Round, CommandFault> {
        let start = Instant::now();
        let files = load::read(common, self.file.as_deref())?;
        let upstream = load::upstream(common, &files.rows.path)?;
        let read = upstream.text.clone();
        let choose = |database: &Database, sources: &Sources| {
            // Without a file of known rows, their hashes are not needed.
            if self.watch || self.kept(common).is_some() {
                known.look(database, sources, &read);
            }
            let mut anew = known.anew(database);
            anew.retain(|name| self.asks(*name));
            anew
        };
        let mut loaded = load::loaded_some(files, upstream, choose);
        known.learn(&loaded.database, &loaded.wanted, &loaded.diags, &loaded.checked.graded);
        if !self.only.is_empty() {
            self.keep_to(&mut loaded);
        }
        let names = loaded.database.rows.iter().map(RowSource::name);
        let as_before: Vec<Name> = names.filter(|op| self.asks(*op) && !loaded.wanted.contains(op)).collect();
        let mut declared = Declared::of(&loaded.checked.graded);
        let bases: FxHashSet<Name> = as_before.iter().copied().map(base).collect();
        bases.into_iter().for_each(|op| declared += known.declared(op));
        Ok(Round { as_before: as_before.len(), declared, took: start.elapsed(), loaded })
    }

    /// The file that records rows that were right.
    pub(super) fn kept<'c>(&self, common: &'c Common) -> Option<&'c Path> {
        common.kept.as_deref().filter(|_| !self.no_cache)
    }

    /// Whether a row was requested; overloads are requested together.
    fn asks(&self, name: Name) -> bool {
        self.only.is_empty() || self.only.iter().any(|op| base(name) == base(Name::new(op)))
    }

    /// Drops the diagnostics of rows that were neither requested nor called by requested ones.
    fn keep_to(&self, loaded: &mut Loaded) {
        let Loaded { database, diags, .. } = loaded;
        let kept = closure::reached(&database.rows, self.only.iter().map(|op| Name::new(op)));
        let others = database.places.iter().filter(|(op, _)| op.is_none_or(|op| !kept.contains(&base(op))));
        let further = database.rows.iter().filter(|row| !kept.contains(&base(row.name()))).flat_map(|row| &row.further);
        let others: Vec<Place> = others.map(|(_, place)| *place).chain(further.copied()).collect();
        diags.retain(|at| others.iter().all(|row| at.file != row.file || !(row.start..=row.end).contains(&at.start)));
        database.broken.retain(|op| kept.contains(&base(*op)));
    }

    /// Prints the result; returns the exit status.
    pub(super) fn report(
        &self,
        round: &Round,
        common: &Common,
        paint: &Paint,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> Outcome {
        let Round { loaded, as_before, took, .. } = round;
        let seconds = took.as_secs_f64();
        let asked = || loaded.database.rows.iter().filter(|row| self.asks(row.name()));
        let rows = asked().count() + loaded.database.broken.len();
        let (errors, warnings) = (loaded.diags.errors(), loaded.diags.warnings());
        let Declared { proved, checked } = round.declared;
        let slow: Vec<Place> =
            loaded.diags.sorted().iter().filter(|diag| diag.code == "E115").map(|diag| diag.primary.place).collect();
        let within = |row: Place| slow.iter().any(|at| at.file == row.file && (row.start..row.end).contains(&at.start));
        let generic = loaded.database.rows.iter().filter(|row| within(row.place));
        let generic: Vec<&str> = generic.map(|row| row.op.as_str()).collect();
        let open: Vec<(&str, Untold)> = asked().filter_map(|row| Some((row.op.as_str(), untold(row)?))).collect();
        let status = if errors > 0 { FAILED } else { FINE };
        if common.json {
            out.write_all(render::json(&loaded.diags, &loaded.sources).as_bytes())?;
            let summary = json!({
                "v": 1, "kind": "summary", "rows": rows, "as_before": as_before, "errors": errors, "warnings": warnings, "seconds": seconds,
                "gradients": {"proved": proved, "checked": checked}, "generic": generic,
                "untold": open.iter().map(|(op, what)| json!({"op": op, "options": options(what)})).collect::<Vec<_>>(),
            });
            writeln!(out, "{summary}")?;
            return Ok(status);
        }
        if !loaded.diags.is_empty() {
            let style = Style { color: paint.color, width: 100 };
            err.write_all(render::text(&loaded.diags, &loaded.sources, style).as_bytes())?;
        }
        if errors > 0 {
            if let Some(note) = alone(loaded) {
                writeln!(err, "{note}")?;
            }
            return Ok(status);
        }
        if !common.quiet {
            let rows = counted(rows, "row", "rows");
            let gradients = match proved + checked {
                0 => String::new(),
                1 => format!("; 1 declared gradient {}", if proved == 1 { "proved" } else { "checked" }),
                all => format!("; {all} declared gradients: {proved} proved, {checked} checked"),
            };
            let before = match as_before {
                0 => String::new(),
                n => format!(", {n} of them as before"),
            };
            writeln!(out, "Checked {rows} in {seconds:.2} s{before}{gradients}")?;
            for (op, what) in open.iter().take(MOST_SHOWN) {
                let claim = match what {
                    Untold::Everything => {
                        format!(
                            "nothing from outside says what `{op}` means: it has no name in PyTorch and no `points`"
                        )
                    }
                    Untold::Options(_) => {
                        let open = options(what).join(", ");
                        format!(
                            "no two `points` of `{op}` differ in {open}, and nothing else says from outside what that does"
                        )
                    }
                };
                writeln!(err, "note: {claim}; `cargo ops mutate --row {op}` proposes points")?;
            }
            if open.len() > MOST_SHOWN {
                writeln!(
                    err,
                    "note: the points of {} more leave something open (`--json` names them)",
                    counted(open.len() - MOST_SHOWN, "row", "rows")
                )?;
            }
        }
        Ok(status)
    }
}
