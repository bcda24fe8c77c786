//! Rows that were right before: as they stand, with all that their checks look at. Those are not looked at again.
//!
//! A row is known by a hash of its text and of those of all rows that it names, however deep. Whether it is right
//! depends on nothing else but what enters every hash: the sources of the checks, the databases upstream, the classes,
//! and the rows that derivatives and helpers call unseen. Builds look at every row, and say what they found.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};

use fulgurite_core::Name;
use fulgurite_core::builtins::Builtin;
use fulgurite_core::eval::tensor::helpers;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::atomic;
use crate::check::base;
use crate::check::gradients::{Grade, Graded};
use crate::diag::Diagnostics;
use crate::parallel;
use crate::schema::{ClassSource, Database, RowSource};
use crate::source::Sources;

/// A hash of the sources of the checks: what others found, these don't know.
const CHECKS: &str = env!("FULGURITE_CHECKS");

/// So many are kept, those of the last run first: some tens of versions of a large database.
const MOST: usize = 16_384;

/// No more of a file is read: what is behind was not written here.
const MOST_BYTES: u64 = 1 << 20;

/// 128 bits: rows that differ have different ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key([u64; 2]);

/// Declared gradients of a row: how many are proved, and how many were tried and held.
#[derive(Clone, Copy, Default)]
pub struct Declared {
    pub proved: usize,
    pub checked: usize,
}

impl Declared {
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

/// What is known to be right.
#[derive(Default)]
pub struct Known {
    right: FxHashMap<Key, Declared>,
    /// The order in which keys were read.
    order: Vec<Key>,
    /// What the last database looks like.
    now: Looked,
    learned: bool,
}

/// A database as it is known.
#[derive(Default)]
struct Looked {
    /// Rows without kinds, `matmul` for all of its overloads, in the order of their names.
    groups: Vec<Group>,
    places: FxHashMap<Name, usize>,
    /// The classes.
    classes: Option<Group>,
}

/// What is right or wrong as one.
struct Group {
    key: Key,
    /// The groups of rows that a check of it looks at.
    reach: Vec<usize>,
}

/// Where programs that cargo built keep what they know: in cargo's own folder, which `cargo clean` empties. Installed
/// ones use that of the project that they are called in.
pub fn kept() -> Option<PathBuf> {
    // a folder that was there before cargo has no tag
    let of_cargo = |folder: &Path| [".rustc_info.json", "CACHEDIR.TAG"].iter().any(|file| folder.join(file).is_file());
    let program = std::env::current_exe().ok()?;
    let built = program.ancestors().find(|folder| of_cargo(folder)).map(Path::to_path_buf);
    let here = || std::env::current_dir().ok()?.ancestors().map(|at| at.join("target")).find(|at| of_cargo(at));
    Some(built.or_else(here)?.join("ops-checked"))
}

impl Known {
    /// What the file holds; nothing where it can't be read. Lines that are no such lines are passed over.
    pub fn read(file: Option<&Path>) -> Known {
        let mut known = Known::default();
        let Some(file) = file.and_then(|file| fs::File::open(file).ok()) else { return known };
        let mut text = String::new();
        // what is no text is no file of ours
        if file.take(MOST_BYTES).read_to_string(&mut text).is_err() {
            return known;
        }
        for (key, declared) in text.lines().filter_map(entry) {
            known.right.insert(key, declared);
            known.order.push(key);
        }
        known
    }

    /// Takes note of how `database` stands; `upstream` is the text of the databases that it uses.
    pub fn look(&mut self, database: &Database, sources: &Sources, upstream: &str) {
        self.now = Looked::at(database, sources, upstream);
    }

    /// The rows of the database looked at that are not known to be right, overloads together, and the classes if they
    /// are not.
    pub fn anew(&self, database: &Database) -> FxHashSet<Name> {
        let known = |group: Option<&Group>| group.is_some_and(|group| self.right.contains_key(&group.key));
        let rows = database.rows.iter().map(RowSource::name).filter(|name| !known(self.now.group(*name)));
        let classes = database.classes.iter().filter(|_| !known(self.now.classes.as_ref()));
        rows.chain(classes.map(ClassSource::name)).collect()
    }

    /// The declared gradients of a row that was not looked at.
    pub fn declared(&self, name: Name) -> Declared {
        self.now.group(name).and_then(|group| self.right.get(&group.key)).copied().unwrap_or_default()
    }

    /// Takes for right what was checked just now of `database`, the rows and classes that were `wanted`, unless something
    /// is said of it or of what it leads to. It is the database looked at.
    pub fn learn(&mut self, database: &Database, wanted: &FxHashSet<Name>, diags: &Diagnostics, graded: &[Graded]) {
        let mut doubtful: FxHashSet<Name> = database.broken.iter().copied().collect();
        for diag in diags.sorted() {
            let at = diag.primary.place;
            match database.rows.iter().find(|row| row.holds(at)) {
                Some(row) => _ = doubtful.insert(row.name()),
                // of a class, a row that could not be read, or the whole file
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

    /// Writes what is known, where something is new. What can't be written is found out again.
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
        _ = atomic::write(file, &text);
    }
}

/// `<32 hexadecimal digits> 0 2`
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
            [Some(row.place), row.further].into_iter().flatten().map(move |place| (name, sources.text(place)))
        };
        let mut texts: Vec<(&str, &str)> = database.rows.iter().flat_map(parts).collect();
        // overloads stay in the order of the file
        texts.sort_by_key(|(name, _)| *name);
        let texts: Vec<&[(&str, &str)]> = texts.chunk_by(|(a, _), (b, _)| a == b).collect();
        let at: FxHashMap<&str, usize> = texts.iter().enumerate().map(|(at, rows)| (rows[0].0, at)).collect();
        let calls: Vec<Vec<usize>> = parallel::map(&texts, |rows| named(rows.iter().map(|(_, text)| *text), &at));
        let classes: Vec<&str> = database.classes.iter().map(|class| sources.text(class.place)).collect();
        let mut always = named(classes.iter().copied(), &at);
        always.extend(unnamed().filter_map(|op| at.get(op).copied()));
        let all = hash(&(CHECKS, upstream, &classes));
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

    /// Where the rows of this name and its overloads stand.
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

/// The rows, by where they stand, whose names occur in `texts`: those that are called, and some more. `conv.vjp.x`
/// is a name of `conv`.
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

/// The rows that any row may lead to without naming them: those that programs call unnamed, and those of functions, of
/// which derivatives are made.
fn unnamed() -> impl Iterator<Item = &'static str> {
    Builtin::all().map(Builtin::name).chain(helpers::UNNAMED.iter().copied())
}
