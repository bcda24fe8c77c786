//! `cargo ops check --watch`: looks at the file again and again, and checks what changed in it.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use fulgurite_core::Name;
use rustc_hash::{FxHashMap, FxHashSet};

use super::check::{self, Check};
use super::load::{self, Loaded};
use super::paint::{Ink, Paint};
use super::{Common, Outcome};
use crate::check::{base, closure};
use crate::diag::Level;
use crate::schema::{Database, RowSource};
use crate::source::{Place, Sources};

/// How often the file is looked at: a change is seen before one looks up from the editor.
const EVERY: Duration = Duration::from_millis(60);

/// What is remembered between two rounds.
#[derive(Default)]
struct Seen {
    /// Rows as they were written, those that were right.
    rows: FxHashMap<Name, String>,
}

/// Runs until nobody reads the output any more, or Ctrl-C ends the process.
pub(super) fn run(check: &Check, common: &Common, paint: &Paint, out: &mut dyn Write, err: &mut dyn Write) -> Outcome {
    let path = load::read(common, check.file.as_deref())?.0;
    let files: Vec<&PathBuf> = [&path].into_iter().chain(&common.upstream).collect();
    let mut seen = Seen::default();
    let mut stamps: Vec<Option<Stamp>> = Vec::new();
    let mut last = files.iter().map(|file| stamp(file)).collect();
    loop {
        let now: Vec<Option<Stamp>> = files.iter().map(|file| stamp(file)).collect();
        // an editor may take the file away before it puts the new one there, and write it in parts
        if now == stamps || now != last || now.iter().any(Option::is_none) {
            last = now;
            std::thread::sleep(EVERY);
            continue;
        }
        if now.get(1..) != stamps.get(1..) {
            seen = Seen::default();
        }
        stamps = now;
        let start = Instant::now();
        let loaded = check.load(common, &|database, sources| seen.changed(database, sources))?;
        if std::io::stdout().is_terminal() && !common.json {
            write!(out, "\x1b[2J\x1b[H")?;
        }
        check::report(&loaded, start.elapsed(), common, paint, out, err)?;
        // a row that is asked for may come with a later edit, so this does not end it
        let faults = check.only.iter().filter(|_| loaded.diags.errors() == 0).filter_map(|op| loaded.find(op).err());
        faults.for_each(|fault| _ = fault.report(common.json, paint, out, err));
        if !common.json && !common.quiet {
            let faults = match loaded.diags.errors() {
                0 => "no errors".to_owned(),
                1 => "1 error".to_owned(),
                n => format!("{n} errors"),
            };
            let line = format!("{faults}; watching {} (Ctrl-C ends)", path.display());
            writeln!(out, "{}", paint.ink(Ink::Faint, &line))?;
        }
        out.flush()?;
        seen.remember(&loaded);
    }
}

/// When a file was written, and how long it is.
type Stamp = (SystemTime, u64);

fn stamp(path: &Path) -> Option<Stamp> {
    let about = std::fs::metadata(path).ok()?;
    Some((about.modified().ok()?, about.len()))
}

impl Seen {
    /// The rows that are not as they were, and those that call them, however far down. Rows with a fault were never
    /// right, so they are among them.
    fn changed(&self, database: &Database, sources: &Sources) -> FxHashSet<Name> {
        let mut changed: FxHashSet<Name> = FxHashSet::default();
        let gone = |name: &&Name| !database.rows.iter().any(|source| source.name() == **name);
        changed.extend(self.rows.keys().filter(gone).copied().map(base));
        for source in &database.rows {
            if self.rows.get(&source.name()).is_none_or(|text| text != sources.text(source.place)) {
                changed.insert(base(source.name()));
            }
        }
        let calls: Vec<(Name, Vec<Name>)> =
            database.rows.iter().map(|source| (base(source.name()), called(source))).collect();
        loop {
            let more: Vec<Name> = calls
                .iter()
                .filter(|(op, called)| !changed.contains(op) && called.iter().any(|op| changed.contains(op)))
                .map(|(op, _)| *op)
                .collect();
            if more.is_empty() {
                break;
            }
            changed.extend(more);
        }
        database.rows.iter().map(RowSource::name).filter(|name| changed.contains(&base(*name))).collect()
    }

    fn remember(&mut self, loaded: &Loaded) {
        let faulty = |source: &RowSource| {
            let inside = |place: Place| place.start >= source.place.start && place.end <= source.place.end;
            loaded.diags.sorted().into_iter().any(|diag| diag.level == Level::Error && inside(diag.primary.place))
        };
        let rows = &loaded.database.rows;
        self.rows = rows
            .iter()
            .filter(|source| !faulty(source))
            .map(|s| (s.name(), loaded.sources.text(s.place).to_owned()))
            .collect();
    }
}

/// What the meaning and the rules of a row call.
fn called(source: &RowSource) -> Vec<Name> {
    let calls = closure::calls(&source.lower_to_row()).into_iter().map(|call| call.op);
    calls.chain(closure::rule_calls(source)).map(base).collect()
}
