//! `cargo ops check`

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use fulgurite_core::Name;
use rustc_hash::FxHashSet;
use serde_json::json;

use super::fault::Fault;
use super::load::{self, Loaded};
use super::paint::Paint;
use super::{Common, FAILED, FINE, Outcome};
use crate::check::gradients::Grade;
use crate::check::points::told::{Untold, untold};
use crate::check::{base, closure};
use crate::diag::render::{self, Style};
use crate::schema::Database;
use crate::source::{Place, Sources};

/// Checks a database.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  cargo ops check\n  cargo ops check --only softmax\n  cargo ops check --watch\n  cargo ops check rows/mine.yaml --upstream ops.yaml\n  cargo ops check --json"
)]
pub struct Check {
    /// The database; otherwise `ops.yaml` here or in a folder above
    // an id of its own: `--file` has that of its field
    #[arg(id = "database", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Only these rows, with their overloads and the rows that they call
    #[arg(long, value_name = "OP", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Check again whenever the file changes, what changed and what calls that; Ctrl-C ends it
    #[arg(long)]
    pub watch: bool,
}

/// Notes about rows that nothing tells from others, at most.
const MOST_SHOWN: usize = 8;

/// Options that points leave open.
fn options(what: &Untold) -> Vec<&'static str> {
    match what {
        Untold::Everything => Vec::new(),
        Untold::Options(names) => names.iter().map(|name| name.as_str()).collect(),
    }
}

/// The rows of a database that are to be looked at.
pub(super) type Changed<'a> = &'a dyn Fn(&Database, &Sources) -> FxHashSet<Name>;

impl Check {
    pub(super) fn run(&self, common: &Common, paint: &Paint, out: &mut dyn Write, err: &mut dyn Write) -> Outcome {
        let start = Instant::now();
        let loaded = self.load(common, &load::all)?;
        if loaded.diags.errors() == 0 {
            self.only.iter().try_for_each(|op| loaded.find(op).map(drop))?;
        }
        report(&loaded, start.elapsed(), common, paint, out, err)
    }

    /// Reads the database and checks the rows asked for, of those that `changed`.
    pub(super) fn load(&self, common: &Common, changed: Changed) -> Result<Loaded, Fault> {
        let (path, text) = load::read(common, self.file.as_deref())?;
        let asked = |name: &Name| self.only.is_empty() || self.only.iter().any(|op| *name == op.as_str());
        let choose =
            |database: &Database, sources: &Sources| changed(database, sources).into_iter().filter(asked).collect();
        let mut loaded = load::loaded_some(path, text, load::upstream(common)?, choose);
        if !self.only.is_empty() {
            self.keep_to(&mut loaded);
        }
        Ok(loaded)
    }

    /// Leaves out what is wrong with rows that were not asked for, nor called by those that were.
    fn keep_to(&self, loaded: &mut Loaded) {
        let Loaded { database, diags, .. } = loaded;
        let kept = closure::reached(&database.rows, self.only.iter().map(|op| Name::new(op)));
        let others = database.places.iter().filter(|(op, _)| op.is_none_or(|op| !kept.contains(&base(op))));
        let others: Vec<Place> = others.map(|(_, place)| *place).collect();
        diags.retain(|at| others.iter().all(|row| at.file != row.file || !(row.start..=row.end).contains(&at.start)));
        database.broken.retain(|op| kept.contains(&base(*op)));
    }
}

/// Says what was found. The exit status.
pub(super) fn report(
    loaded: &Loaded,
    took: Duration,
    common: &Common,
    paint: &Paint,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Outcome {
    let seconds = took.as_secs_f64();
    let rows = loaded
        .names()
        .into_iter()
        .filter(|name| loaded.wanted.contains(name) || loaded.database.broken.contains(name))
        .count();
    let (errors, warnings) = (loaded.diags.errors(), loaded.diags.warnings());
    let proved = loaded.checked.graded.iter().filter(|rule| rule.grade == Grade::Proved).count();
    let checked = loaded.checked.graded.len() - proved;
    let slow: Vec<Place> =
        loaded.diags.sorted().iter().filter(|diag| diag.code == "E115").map(|diag| diag.primary.place).collect();
    let within = |row: Place| slow.iter().any(|at| at.file == row.file && (row.start..row.end).contains(&at.start));
    let generic = loaded.database.rows.iter().filter(|row| within(row.place));
    let generic: Vec<&str> = generic.map(|row| row.op.as_str()).collect();
    let asked = loaded.database.rows.iter().filter(|row| loaded.wanted.contains(&row.name()));
    let open: Vec<(&str, Untold)> = asked.filter_map(|row| Some((row.op.as_str(), untold(row)?))).collect();
    let status = if errors > 0 { FAILED } else { FINE };
    if common.json {
        out.write_all(render::json(&loaded.diags, &loaded.sources).as_bytes())?;
        let summary = json!({
            "v": 1, "kind": "summary", "rows": rows, "errors": errors, "warnings": warnings, "seconds": seconds,
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
        return Ok(status);
    }
    if !common.quiet {
        let plural = if rows == 1 { "row" } else { "rows" };
        let gradients = match proved + checked {
            0 => String::new(),
            1 => format!("; 1 declared gradient {}", if proved == 1 { "proved" } else { "checked" }),
            all => format!("; {all} declared gradients: {proved} proved, {checked} checked"),
        };
        writeln!(out, "Checked {rows} {plural} in {seconds:.2} s{gradients}")?;
        for (op, what) in open.iter().take(MOST_SHOWN) {
            let claim = match what {
                Untold::Everything => {
                    format!("nothing from outside says what `{op}` means: it has no name in PyTorch and no `points`")
                }
                Untold::Options(_) => {
                    let open = options(what).join(", ");
                    format!(
                        "no two `points` of `{op}` differ in {open}, and nothing else says from outside what that does"
                    )
                }
            };
            writeln!(err, "note: {claim} (docs/mutations.md)")?;
        }
        if open.len() > MOST_SHOWN {
            writeln!(err, "note: and {} rows more", open.len() - MOST_SHOWN)?;
        }
    }
    Ok(status)
}
