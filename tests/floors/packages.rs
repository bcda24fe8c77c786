//! Packages: each crate that can be published carries its licences and what it is built from, and reads nothing beside it.

use super::{files_with, none, read, root, shown};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// A crate that can be published.
struct Package {
    name: String,
    folder: PathBuf,
    /// What it has, from its folder.
    files: BTreeSet<String>,
}

const LICENCES: &[&str] = &["LICENSE-MIT", "LICENSE-APACHE", "README.md"];

/// What else a package needs to be built, by the name of its crate: files that stand elsewhere in the repository, to
/// which a link leads, and data.
const NEEDS: &[(&str, &[&str])] = &[
    ("fulgurite-row-kernels", &["ops.yaml"]),
    ("fulgurite-codegen", &["src/libraries/recorded.txt"]),
    ("fulgurite-ops-verbs", &["errors/E001.md"]),
    ("fulgurite-cli", &["docs/architecture.md", "docs/errors/E001.md", "data/digits.bin"]),
];

fn packages() -> Vec<Package> {
    let manifests = files_with("toml", &root()).into_iter().filter(|path| path.ends_with("Cargo.toml"));
    let package = |path: PathBuf| {
        let text = read(&path);
        let name = text.lines().find_map(|line| line.strip_prefix("name = "))?.trim_matches('"').to_owned();
        let published = text.contains("[package]") && !text.lines().any(|line| line == "publish = false");
        published.then(|| Package { files: files(&name), name, folder: path.with_file_name("") })
    };
    manifests.filter_map(package).collect()
}

/// What `cargo package` puts into a package.
fn files(name: &str) -> BTreeSet<String> {
    let listed = Command::new(env!("CARGO"))
        .args(["package", "--list", "--offline", "--allow-dirty", "--quiet", "--package", name])
        .current_dir(root())
        .output()
        .unwrap_or_else(|e| panic!("cargo: {e}"));
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn packages_have_licences_and_are_built_from_their_own_files() {
    let packages = packages();
    let mut faults = Vec::new();
    for (name, _) in NEEDS {
        assert!(packages.iter().any(|package| package.name == *name), "the package `{name}` is gone: correct NEEDS");
    }
    for Package { name, folder, files } in &packages {
        let needs = NEEDS.iter().filter(|(krate, _)| krate == name).flat_map(|(_, files)| *files);
        let missing = LICENCES.iter().chain(needs).filter(|need| !files.contains(**need));
        faults.extend(missing.map(|need| format!("{name} has no {need}")));
        for file in files.iter().filter(|file| *file == "build.rs" || file.starts_with("src/") && file.ends_with(".rs"))
        {
            let outside = reads(&folder.join(file), folder).into_iter().filter(|read| !read.starts_with(plain(folder)));
            faults.extend(outside.map(|read| format!("{name}: {file} reads {}", shown(&read))));
        }
    }
    none(faults, "a package has its licences, and is built from its own files");
}

/// The files that a source includes; of a build script, whatever it names may be a file.
fn reads(source: &Path, package: &Path) -> Vec<PathBuf> {
    let text = read(source);
    let included = ["include!(", "include_str!(", "include_bytes!("].into_iter();
    let included =
        included.flat_map(|start| text.match_indices(start).filter_map(|(at, _)| text[at..].split('"').nth(1)));
    let mut reads: Vec<PathBuf> = included.map(|file| plain(&source.with_file_name(file))).collect();
    if source.ends_with("build.rs") {
        reads.extend(text.split('"').skip(1).step_by(2).map(|text| plain(&package.join(text.trim_start_matches('/')))));
    }
    reads
}

/// A path without `..`; links are not followed.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}
