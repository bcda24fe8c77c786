//! The cache of rows that passed their checks: such a row is not checked again while all inputs of its checks are
//! unchanged.
//!
//! The key of a row is a hash of its text and of the texts of all rows that it names, directly or not. The other inputs
//! of the checks enter every hash: the sources of the checks, the upstream databases, the classes, and the rows that
//! derivatives and helpers call without naming them. Builds check every row, and record the result; `cargo ops check`,
//! in a crate of its own, checks only the others.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};

use fulgurite_core::builtins::Builtin;
use fulgurite_core::eval::tensor::helpers;
use fulgurite_core::{Name, files};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::check::base;
use crate::check::gradients::{Grade, Graded};
use crate::diag::Diagnostics;
use crate::parallel;
use crate::schema::{ClassSource, Database, RowSource};
use crate::source::Sources;

/// A hash of the sources of the checks: results of other versions are not valid.
const CHECKS: &str = env!("FULGURITE_CHECKS");

/// At most this many keys are kept, those of the last run first, because the file is read on every run: they cover some
/// tens of versions of a large database.
const MOST: usize = 16_384;

/// At most this many bytes of the file are read, because this program never writes more.
const MOST_BYTES: u64 = 1 << 20;

/// A hash of 128 bits, so that different rows have different keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key([u64; 2]);

/// The declared gradients of a row: the number proved, and the number checked on instances.
#[derive(Clone, Copy, Default)]
pub struct Declared {
    /// The number proved.
    pub proved: usize,
    /// The number checked on instances.
    pub checked: usize,
}

impl Declared {
    /// Counts the rules by their grades.
    pub fn of(graded: &[Graded]) -> Declared {
        let proved = graded.iter().filter(|rule| rule.grade == Grade::Proved).count();
        Declared { proved, checked: graded.len() - proved }
    }
}

impl AddAssign for Declared {
    fn add_assign(&mut self, other: Declared) {
        self.proved += other.proved;
        self.checked += other.checked;
    }
}

/// The rows that are known to be right.
#[derive(Default)]
pub struct Known {
    right: FxHashMap<Key, Declared>,
    /// The order in which keys were read.
    order: Vec<Key>,
    /// The keys of the current database.
    now: Looked,
    learned: bool,
}

/// The keys of a database.
#[derive(Default)]
struct Looked {
    /// The groups in the order of their names; a group is a row with its overloads, such as all of `matmul`.
    groups: Vec<Group>,
    places: FxHashMap<Name, usize>,
    /// The group of all classes.
    classes: Option<Group>,
}

/// The unit of caching.
struct Group {
    key: Key,
    /// The groups of rows that its checks depend on.
    reach: Vec<usize>,
}

/// The file of the cache. Programs that cargo built use cargo's target folder, which `cargo clean` empties; installed
/// ones use the target folder of the project that they are called in.
pub fn kept() -> Option<PathBuf> {
    // A target folder that existed before cargo ran has no tag.
    let of_cargo = |folder: &Path| [".rustc_info.json", "CACHEDIR.TAG"].iter().any(|file| folder.join(file).is_file());
    let program = std::env::current_exe().ok()?;
    let built = program.ancestors().find(|folder| of_cargo(folder)).map(Path::to_path_buf);
    let here = || std::env::current_dir().ok()?.ancestors().map(|at| at.join("target")).find(|at| of_cargo(at));
    Some(built.or_else(here)?.join("ops-checked"))
}

impl Known {
    /// Reads the cache file; an unreadable one counts as empty. Malformed lines are skipped.
    pub fn read(file: Option<&Path>) -> Known {
        let mut known = Known::default();
        let Some(file) = file.and_then(|file| fs::File::open(file).ok()) else { return known };
        let mut text = String::new();
        // A file that is not UTF-8 was not written by this program.
        if file.take(MOST_BYTES).read_to_string(&mut text).is_err() {
            return known;
        }
        for (key, declared) in text.lines().filter_map(entry) {
            known.right.insert(key, declared);
            known.order.push(key);
        }
        known
    }

    /// Computes the keys of `database`; `upstream` is the text of the databases that it uses.
    pub fn look(&mut self, database: &Database, sources: &Sources, upstream: &str) {
        self.now = Looked::at(database, sources, upstream);
    }

    /// The names of rows in the current database that are not known to be right, with their overloads; and of the
    /// classes, if they are not known to be right.
    pub fn anew(&self, database: &Database) -> FxHashSet<Name> {
        let known = |group: Option<&Group>| group.is_some_and(|group| self.right.contains_key(&group.key));
        let rows = database.rows.iter().map(RowSource::name).filter(|name| !known(self.now.group(*name)));
        let classes = database.classes.iter().filter(|_| !known(self.now.classes.as_ref()));
        rows.chain(classes.map(ClassSource::name)).collect()
    }

    /// The declared gradients of a row that was not checked in this run.
    pub fn declared(&self, name: Name) -> Declared {
        self.now.group(name).and_then(|group| self.right.get(&group.key)).copied().unwrap_or_default()
    }

    /// Records that the `wanted` rows and classes of `database` passed their checks, except those with a diagnostic,
    /// and those that depend on one with a diagnostic. `database` is the one of the last [`Known::look`].
    pub fn learn(&mut self, database: &Database, wanted: &FxHashSet<Name>, diags: &Diagnostics, graded: &[Graded]) {
        let mut doubtful: FxHashSet<Name> = database.broken.iter().copied().collect();
        for diag in diags.sorted() {
            let at = diag.primary.place;
            match database.rows.iter().find(|row| row.holds(at)) {
                Some(row) => _ = doubtful.insert(row.name()),
                // The diagnostic belongs to a class, an unreadable row, or the whole file.
                None => return,
            }
        }
        let doubtful: FxHashSet<usize> = doubtful.into_iter().filter_map(|op| self.now.place(op)).collect();
        let mut declared: FxHashMap<Name, Declared> = FxHashMap::default();
        for rule in graded {
            *declared.entry(base(rule.op)).or_default() += Declared::of(std::slice::from_ref(rule));
        }
        let bases: FxHashSet<Name> =
            database.rows.iter().map(RowSource::name).filter(|op| wanted.contains(op)).map(base).collect();
        let rows = bases
            .into_iter()
            .filter_map(|op| Some((self.now.group(op)?, declared.get(&op).copied().unwrap_or_default())));
        let looked_at = database.classes.iter().all(|class| wanted.contains(&class.name()));
        let classes = self.now.classes.iter().filter(|_| looked_at).map(|group| (group, Declared::default()));
        for (group, declared) in rows.chain(classes) {
            if !group.reach.iter().any(|at| doubtful.contains(at)) {
                self.learned |= self.right.insert(group.key, declared).is_none();
            }
        }
    }

    /// Writes the cache file if there is something new. A failure to write is ignored, since the rows can be checked
    /// again.
    pub fn write(&self, file: &Path) {
        if !self.learned {
            return;
        }
        let mut met = FxHashSet::default();
        let now = self.now.groups.iter().chain(&self.now.classes).map(|group| &group.key);
        let now = now.filter(|key| self.right.contains_key(key));
        let kept = now.chain(&self.order).filter(|key| met.insert(**key)).take(MOST);
        let text: String = kept
            .filter_map(|key| {
                let Declared { proved, checked } = self.right.get(key)?;
                Some(format!("{:016x}{:016x} {proved} {checked}\n", key.0[0], key.0[1]))
            })
            .collect();
        _ = files::refresh(file, &text);
    }
}

/// Reads a line `<32 hexadecimal digits> 0 2`.
fn entry(line: &str) -> Option<(Key, Declared)> {
    let mut words = line.split(' ');
    let key = words.next().filter(|key| key.len() == 32 && key.is_ascii())?;
    let half = |text: &str| u64::from_str_radix(text, 16).ok();
    let key = Key([half(&key[..16])?, half(&key[16..])?]);
    let mut count = || words.next()?.parse().ok();
    let declared = Declared { proved: count()?, checked: count()? };
    words.next().is_none().then_some((key, declared))
}

impl Looked {
    fn at(database: &Database, sources: &Sources, upstream: &str) -> Looked {
        let parts = |row: &RowSource| {
            let name = base(row.name()).as_str();
            row.places().map(move |place| (name, sources.text(place))).collect::<Vec<_>>()
        };
        let mut texts: Vec<(&str, &str)> = database.rows.iter().flat_map(parts).collect();
        // Overloads keep the order of the file.
        texts.sort_by_key(|(name, _)| *name);
        let texts: Vec<&[(&str, &str)]> = texts.chunk_by(|(a, _), (b, _)| a == b).collect();
        let at: FxHashMap<&str, usize> = texts.iter().enumerate().map(|(at, rows)| (rows[0].0, at)).collect();
        let calls: Vec<Vec<usize>> = parallel::map(&texts, |rows| named(rows.iter().map(|(_, text)| *text), &at));
        let classes: Vec<&str> = database.classes.iter().map(|class| sources.text(class.place)).collect();
        let mut always = named(classes.iter().copied(), &at);
        always.extend(unnamed().filter_map(|op| at.get(op).copied()));
        let foreign: Vec<&str> = database.calls.iter().map(|calls| sources.text(calls.place)).collect();
        let all = hash(&(CHECKS, upstream, &classes, foreign));
        let own: Vec<Key> = parallel::map(&texts, hash);
        let group = |from: &[usize]| {
            let (mut met, mut next) = (vec![false; texts.len()], always.clone());
            next.extend(from);
            while let Some(at) = next.pop() {
                if !std::mem::replace(&mut met[at], true) {
                    next.extend(&calls[at]);
                }
            }
            let reach: Vec<usize> = (0..met.len()).filter(|at| met[*at]).collect();
            let keys: Vec<Key> = from.iter().chain(&reach).map(|at| own[*at]).collect();
            Group { key: hash(&(all, keys)), reach }
        };
        let each: Vec<usize> = (0..texts.len()).collect();
        let groups = parallel::map(&each, |at| group(&[*at]));
        let places = texts.iter().enumerate().map(|(at, rows)| (Name::new(rows[0].0), at)).collect();
        Looked { groups, places, classes: Some(group(&[])).filter(|_| !classes.is_empty()) }
    }

    /// The index of the group with this name.
    fn place(&self, name: Name) -> Option<usize> {
        self.places.get(&base(name)).copied()
    }

    fn group(&self, name: Name) -> Option<&Group> {
        self.groups.get(self.place(name)?)
    }
}

fn hash(what: &impl Hash) -> Key {
    let half = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        (seed, what).hash(&mut hasher);
        hasher.finish()
    };
    Key([half(0), half(1)])
}

/// The indices of the rows whose names occur in `texts`: a superset of the rows that are called. `conv.vjp.x` counts as
/// a name of `conv`.
fn named<'a>(texts: impl Iterator<Item = &'a str>, at: &FxHashMap<&str, usize>) -> Vec<usize> {
    let words = texts.flat_map(|text| text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.'))));
    let mut found: Vec<usize> = words
        .flat_map(|word| {
            let cut = word.match_indices('.').map(move |(at, _)| &word[..at]);
            cut.chain([word]).filter_map(|name| at.get(name).copied())
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The rows that any row may depend on without naming them: those that the language calls for operators and helpers,
/// and the builtins' rows, which derivatives call.
fn unnamed() -> impl Iterator<Item = &'static str> {
    Builtin::all().map(Builtin::name).chain(helpers::UNNAMED.iter().copied())
}
