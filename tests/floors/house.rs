//! What the house owes: operators named in the runtime, type names that mean several things, phrases that need a second
//! reading, references to what is not here. `house.txt` has what there is of each, and may only shrink.

use super::modules::{CRATES, code, is_test_file};
use super::{files_with, none, read, root, shown};
use fulgurite_tests::rows::rows;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// Kind, what, how often.
type Debts = BTreeMap<(String, String), usize>;

/// The file that lists them.
fn list() -> PathBuf {
    root().join("tests/floors/house.txt")
}

/// Phrases that withhold a subject, or a noun.
const PHRASES: &[&str] = &["so many", "nobody", "whoever", "what is no ", "what is asked", "The same", "may say what"];

#[test]
fn what_the_house_owes_only_shrinks() {
    let have = [operators(), types(), phrases(), references()].concat();
    let mut now = Debts::new();
    for key in have {
        *now.entry(key).or_default() += 1;
    }
    let known = parsed(&read(&list()));
    let count = |debts: &Debts, key: &(String, String)| debts.get(key).copied().unwrap_or(0);
    let risen: Vec<String> = now
        .iter()
        .filter(|(key, n)| **n > count(&known, key))
        .map(|(key, n)| format!("{}: {} ({n}, {} are listed)", key.0, key.1, count(&known, key)))
        .collect();
    let fell =
        known.iter().filter(|(key, n)| count(&now, key) < **n).map(|((kind, what), _)| format!("{kind}: {what}"));
    let fell: Vec<String> = fell.collect();
    if risen.is_empty() && !fell.is_empty() && std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(list(), printed(&now)).unwrap_or_else(|e| panic!("{}: {e}", list().display()));
        return;
    }
    none(risen, "the house owes more than tests/floors/house.txt says: write it otherwise");
    none(fell, "these are gone: UPDATE_EXPECT=1 takes them off tests/floors/house.txt");
}

fn parsed(text: &str) -> Debts {
    let line = |line: &str| {
        let mut parts = line.splitn(3, '\t');
        let (kind, count, what) = (parts.next()?, parts.next()?, parts.next()?);
        Some(((kind.to_owned(), what.to_owned()), count.parse().ok()?))
    };
    text.lines().filter(|l| !l.starts_with('#')).filter_map(line).collect()
}

fn printed(debts: &Debts) -> String {
    let head =
        "# What the house owes: kind, how often, what. `house.rs` beside this file holds that it only shrinks.\n";
    let lines = debts.iter().map(|((kind, what), count)| format!("{kind}\t{count}\t{what}\n"));
    std::iter::once(head.to_owned()).chain(lines).collect()
}

/// The sources of a crate, but for unit tests in files of their own.
fn sources(krate: &str) -> Vec<PathBuf> {
    let mut files = files_with("rs", &root().join(krate).join("src"));
    files.retain(|p| !is_test_file(p));
    files
}

/// Rows that the runtime names outside of the list of those that it needs: it should ask for facts.
fn operators() -> Vec<(String, String)> {
    let names: BTreeSet<&str> = rows().source.iter().map(|row| row.row.op.as_str()).collect();
    let mut found = Vec::new();
    let parts = ["runtime", "parallel"].into_iter().flat_map(sources);
    for path in parts.filter(|p| !p.ends_with("intrinsics.rs")) {
        for literal in literals(&code(&read(&path))) {
            if names.contains(literal.as_str()) {
                found.push(("operator".to_owned(), format!("{} {literal}", shown(&path))));
            }
        }
    }
    found
}

/// The texts between quotes of a source without escapes.
fn literals(text: &str) -> Vec<String> {
    text.lines().flat_map(|line| line.split('"').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Names of public types that more than three modules of a crate, or two crates, give to types of their own.
fn types() -> Vec<(String, String)> {
    let mut places: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for krate in CRATES {
        for path in sources(krate) {
            for line in code(&read(&path)).lines() {
                let rest = ["pub struct ", "pub enum ", "pub trait ", "pub union "]
                    .iter()
                    .find_map(|start| line.trim_start().strip_prefix(start));
                let name = rest.map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default());
                if let Some(name) = name.filter(|name| !name.is_empty()) {
                    places.entry(name.to_owned()).or_default().push(krate);
                }
            }
        }
    }
    let several = |of: &[&str]| of.len() > 3 || of.iter().collect::<BTreeSet<_>>().len() > 1;
    let repeated = places.into_iter().filter(|(_, of)| several(of));
    repeated.flat_map(|(name, of)| vec![("type".to_owned(), name); of.len()]).collect()
}

/// Comments and pages, by line.
fn prose() -> Vec<(PathBuf, String)> {
    let mut lines = Vec::new();
    for krate in CRATES {
        for path in sources(krate) {
            for line in read(&path).lines() {
                if let Some(at) = line.find("//") {
                    lines.push((path.clone(), line[at + 2..].trim_start_matches(['/', '!', ' ']).to_owned()));
                }
            }
        }
    }
    let mut pages = files_with("md", &root().join("docs"));
    pages.push(root().join("README.md"));
    for path in pages {
        lines.extend(read(&path).lines().map(|line| (path.clone(), line.to_owned())));
    }
    lines
}

fn phrases() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (path, line) in prose() {
        let krate = shown(&path).split('/').next().unwrap_or_default().to_owned();
        for phrase in PHRASES {
            let count = match phrase.starts_with(char::is_uppercase) {
                true => usize::from(line.starts_with(phrase)),
                false => line.to_lowercase().matches(phrase).count(),
            };
            found.extend(std::iter::repeat_n(("phrase".to_owned(), format!("{krate} {phrase}")), count));
        }
    }
    found
}

/// References to pages and sources that are not there: a page by its name, a source by its path from the root of the
/// repository, of the crate, or from where the reference stands.
fn references() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let pages: BTreeSet<String> = files_with("md", &root()).iter().map(|p| name(&shown(p))).collect();
    for (path, line) in prose() {
        let mut fault = |what: &str| found.push(("reference".to_owned(), format!("{} {what}", shown(&path))));
        for word in line.split(|c: char| c.is_whitespace() || "`()[],;\"'".contains(c)) {
            let word = word.trim_end_matches(['.', ':']);
            // `.md` alone is the ending
            let lost_page = word.ends_with(".md")
                && word.len() > 3
                && !pages.contains(&name(word.split('#').next().unwrap_or(word)));
            let is_source = word.ends_with(".rs") && CRATES.iter().any(|c| word.starts_with(&format!("{c}/")));
            let mut folders = path.ancestors().take_while(|folder| folder.starts_with(root()));
            if lost_page || is_source && !folders.any(|folder| folder.join(word).exists()) {
                fault(word);
            }
        }
    }
    found
}

#[test]
fn the_rows_that_the_runtime_needs_are_there() {
    assert_eq!(fulgurite::intrinsics::missing(), Vec::<&str>::new());
}
