//! Crates: imports point down, never sideways and never up; every dependency has a reason.

use super::{files_with, none, read, root};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The floor of each of our crates (core carries everything, users stand on top).
const FLOORS: &[(&str, u8)] = &[
    ("fulgurite-core", 0),
    ("fulgurite-kernels", 1),
    ("fulgurite-codegen", 1),
    ("fulgurite-ops-verbs", 2),
    ("fulgurite-runtime", 2),
    ("fulgurite-macros", 3),
    ("fulgurite-row-kernels", 2),
    // tools use the compiler; nothing of the compiler stands on them
    ("fulgurite-mutate", 3),
    ("fulgurite-site", 4),
    ("fulgurite-parallel", 3),
    ("fulgurite", 4),
    // a crate with classes of its own tests them with what the project's tests share
    ("fulgurite-pytorch", 5),
    ("fulgurite-onnx", 5),
    ("fulgurite-torch", 5),
    ("fulgurite-models", 6),
    ("fulgurite-tests", 7),
    ("fulgurite-demo", 5),
    ("fulgurite-conformance", 6),
    ("fulgurite-bench", 6),
    // the targets include expressions, which the command reads
    ("fulgurite-fuzz", 9),
];
/// Commands and examples: nothing but the fuzz targets stands on them.
const TOP: u8 = 8;

struct Manifest {
    name: String,
    /// Dependencies of every kind.
    needs: BTreeSet<String>,
}

/// Names and dependencies of all packages of the repository. Manifests are simple enough to be read line by line.
fn manifests() -> Vec<Manifest> {
    let mut all = Vec::new();
    for path in files_with("toml", &root()) {
        if path.file_name().is_some_and(|n| n == "Cargo.toml")
            && let Some(manifest) = manifest(&read(&path))
        {
            all.push(manifest);
        }
    }
    all
}

fn manifest(text: &str) -> Option<Manifest> {
    let mut section = "";
    let (mut name, mut needs) = (None, BTreeSet::new());
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']');
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let key = key.trim().split('.').next().unwrap_or_default().trim_matches('"');
        match section {
            "package" if key == "name" => name = Some(value.trim().trim_matches('"').to_owned()),
            "dependencies" | "build-dependencies" | "dev-dependencies" => _ = needs.insert(key.to_owned()),
            s if s.starts_with("target.") && s.ends_with("dependencies") => _ = needs.insert(key.to_owned()),
            _ => {}
        }
    }
    Some(Manifest { name: name?, needs })
}

fn floor(name: &str) -> u8 {
    FLOORS.iter().find(|(n, _)| *n == name).map_or(TOP, |(_, f)| *f)
}

#[test]
fn imports_between_crates_point_down() {
    let all = manifests();
    let ours: BTreeSet<&str> = all.iter().map(|m| m.name.as_str()).collect();
    for (name, _) in FLOORS {
        assert!(ours.contains(name), "the crate `{name}` is gone: correct FLOORS");
    }
    let mut faults = Vec::new();
    for m in &all {
        for need in m.needs.iter().filter(|n| ours.contains(n.as_str())) {
            let (from, to) = (floor(&m.name), floor(need));
            if to >= from {
                faults.push(format!("{} (floor {from}) imports {need} (floor {to})", m.name));
            }
        }
    }
    none(faults, "imports point down");
}

#[test]
fn every_dependency_has_a_line_that_says_why() {
    let all = manifests();
    let ours: BTreeSet<&str> = all.iter().map(|m| m.name.as_str()).collect();
    let mut used: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for m in &all {
        for need in m.needs.iter().filter(|n| !ours.contains(n.as_str())) {
            used.entry(need).or_default().push(&m.name);
        }
    }
    let page = read(&root().join("docs/dependencies.md"));
    let listed: BTreeSet<&str> = page.lines().filter_map(|l| l.strip_prefix("| `")?.split('`').next()).collect();
    let mut faults = Vec::new();
    for (name, by) in &used {
        if !listed.contains(name) {
            faults.push(format!("`{name}` (used by {}) has no line", by.join(", ")));
        }
    }
    for name in listed.iter().filter(|n| !used.contains_key(**n)) {
        faults.push(format!("`{name}` has a line and no user"));
    }
    none(faults, "docs/dependencies.md and the manifests agree");
}

#[test]
fn the_workspace_offers_no_unused_dependency() {
    let all = manifests();
    let used: BTreeSet<&str> = all.iter().flat_map(|m| &m.needs).map(String::as_str).collect();
    let text = read(&root().join("Cargo.toml"));
    let section = text.split("[workspace.dependencies]").nth(1).unwrap_or_default();
    let section = section.split("\n[").next().unwrap_or_default();
    let offered = section.lines().filter(|l| !l.starts_with('#')).filter_map(|l| Some(l.split_once('=')?.0.trim()));
    let unused: Vec<String> = offered.filter(|n| !used.contains(n)).map(str::to_owned).collect();
    none(unused, "each workspace dependency is used by some crate");
}

/// The lock file stays small enough for a clean build in minutes.
#[test]
fn the_lock_file_has_at_most_210_packages() {
    let text = read(Path::new(&root().join("Cargo.lock")));
    let packages = text.matches("[[package]]").count();
    assert!(packages <= 210, "{packages} packages");
}

/// `cargo ops` takes the rows upstream from the nearest package that says it has some, so a second one would hide them
/// from a crate that depends on both.
#[test]
fn one_package_has_the_rows_upstream() {
    let says = |krate: &&&str| read(&root().join(krate).join("Cargo.toml")).contains("[package.metadata.fulgurite]");
    let having: Vec<&&str> = super::modules::CRATES.iter().filter(says).collect();
    assert_eq!(having, [&"generated/kernels"]);
}

/// `cargo run` in the root of the repository, the first command of README, starts the only program of the default members.
#[test]
fn the_default_members_have_one_program() {
    let text = read(&root().join("Cargo.toml"));
    let line = text.lines().find_map(|line| line.strip_prefix("default-members = ")).unwrap_or_default();
    let members = line.split('"').skip(1).step_by(2);
    let programs = members.flat_map(|member| {
        let source = root().join(member).join("src");
        files_with("rs", &source)
            .into_iter()
            .filter(move |file| file.starts_with(source.join("bin")) || *file == source.join("main.rs"))
    });
    let programs: Vec<_> = programs.collect();
    assert_eq!(programs, [root().join("cli/src/main.rs")]);
}
