//! Crates from others: `docs/supply-chain.md` and `deny.toml` agree with Cargo.lock.

use super::{none, read, root};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// A package: name and version.
type Package = (String, String);

/// The packages of Cargo.lock that come from a registry.
fn locked() -> BTreeSet<Package> {
    let text = read(&root().join("Cargo.lock"));
    let field = |part: &str, name: &str| {
        let line = part.lines().find_map(|line| line.strip_prefix(&format!("{name} = \"")))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    let packages = text.split("[[package]]").filter(|part| part.contains("\nsource = "));
    packages.filter_map(|part| Some((field(part, "name")?, field(part, "version")?))).collect()
}

/// The packages of the page: those with code at build time, then the others.
fn reviewed() -> [BTreeSet<Package>; 2] {
    let text = read(&root().join("docs/supply-chain.md"));
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows = text.lines().filter(|line| line.starts_with("| `")).map(cells);
    let table = rows.map(|row| (row[1].trim_matches('`').to_owned(), row[2].clone())).collect();
    let (_, list) = text.split_once("```text\n").expect("a list");
    let list = list.split("```").next().unwrap_or_default().replace('\n', " ");
    let others = list.split(", ").filter_map(|item| item.trim().split_once(' '));
    [table, others.map(|(name, version)| (name.to_owned(), version.to_owned())).collect()]
}

#[test]
fn every_crate_of_the_lock_file_was_reviewed() {
    let (locked, [table, others]) = (locked(), reviewed());
    let both: BTreeSet<Package> = table.union(&others).cloned().collect();
    let shown = |why: &str, (name, version): &Package| format!("{name} {version} {why}");
    let mut faults: Vec<String> = locked.difference(&both).map(|p| shown("is not on the page", p)).collect();
    faults.extend(both.difference(&locked).map(|p| shown("is not in Cargo.lock", p)));
    none(faults, "docs/supply-chain.md lists the crates of Cargo.lock, after somebody has read what they run");
    let text = read(&root().join("docs/supply-chain.md"));
    assert!(text.contains(&format!("Cargo.lock has {} packages", locked.len())), "{} packages", locked.len());
}

/// What cargo knows of the packages, or nothing where they have not been downloaded.
fn metadata() -> Option<Vec<Value>> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version", "1", "--locked", "--offline", "--all-features"]).current_dir(root());
    let made = cargo.output().expect("cargo runs");
    if !made.status.success() {
        println!("skipped: {}", String::from_utf8_lossy(&made.stderr).lines().next().unwrap_or_default());
        return None;
    }
    let all: Value = serde_json::from_slice(&made.stdout).expect("JSON");
    let packages = all["packages"].as_array().expect("a list").clone();
    Some(packages.into_iter().filter(|p| !p["source"].is_null()).collect())
}

#[test]
fn the_table_has_the_crates_that_run_code_at_build_time() {
    let Some(packages) = metadata() else { return };
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let runs = |p: &Value| {
        let kinds = p["targets"].as_array().into_iter().flatten().flat_map(|t| t["kind"].as_array());
        kinds.flatten().any(|kind| kind == "custom-build" || kind == "proc-macro")
    };
    let run: BTreeSet<Package> =
        packages.iter().filter(|p| runs(p)).map(|p| (text(&p["name"]), text(&p["version"]))).collect();
    assert_eq!(reviewed()[0], run);
}

/// The names in quotes that follow `key = ` in a file, up to the closing bracket.
fn listed(file: &str, key: &str) -> Vec<String> {
    let (_, rest) = file.split_once(&format!("\n{key} = [")).expect("the key");
    let quoted = rest.split("\n]").next().unwrap_or_default().split('"').skip(1).step_by(2);
    quoted.map(str::to_owned).collect()
}

/// Whether a licence expression needs no licence but these. A choice within which all of several are needed is refused.
fn allowed(expression: &str, licences: &[String]) -> bool {
    expression.split(" AND ").all(|part| {
        let choice = part.trim_matches(['(', ')']).replace('/', " OR ");
        choice.split(" OR ").any(|licence| licences.iter().any(|l| l == licence.trim()))
    })
}

#[test]
fn licences_are_those_of_the_list() {
    let licences = listed(&read(&root().join("deny.toml")), "allow");
    assert!(allowed("(MIT OR LGPL-2.1) AND Zlib", &licences) && !allowed("MIT AND LGPL-2.1", &licences));
    let Some(packages) = metadata() else { return };
    let refused = packages.iter().filter(|p| !allowed(p["license"].as_str().unwrap_or_default(), &licences));
    none(refused.map(|p| format!("{}: {}", p["name"], p["license"])).collect(), "deny.toml allows the licence");
}

#[test]
fn a_crate_with_two_versions_has_a_reason() {
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    locked().into_iter().for_each(|(name, version)| versions.entry(name).or_default().push(version));
    let text = read(&root().join("deny.toml"));
    let excepted: BTreeSet<String> = listed(&text, "skip").into_iter().filter(|s| s.contains('@')).collect();
    let mut faults = Vec::new();
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        let named = versions.iter().filter(|v| excepted.contains(&format!("{name}@{v}"))).count();
        if named + 1 != versions.len() {
            faults.push(format!("{name} {versions:?}: {named} exceptions"));
        }
    }
    let stale = excepted.iter().filter(|e| {
        let several = |(name, version): (&str, &str)| {
            versions.get(name).is_some_and(|v| v.len() > 1 && v.iter().any(|x| x == version))
        };
        !e.split_once('@').is_some_and(several)
    });
    faults.extend(stale.map(|e| format!("{e} has no second version")));
    none(faults, "deny.toml has an exception with a reason for each second version");
}
