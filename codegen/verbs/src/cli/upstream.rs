//! The database upstream of a crate's rows, found through cargo.
//!
//! A build script gets the path from `fulgurite` (`DEP_FULGURITE_DATABASE`); a command asks `cargo metadata` for the
//! package among the crate's dependencies whose manifest says
//!
//! ```toml
//! [package.metadata.fulgurite]
//! database = "ops.yaml"
//! ```

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;

use super::fault::CommandFault;

/// The database that rows of the file `database` may call, if they stand in a crate that depends on one.
///
/// # Errors
/// E910: the crate names fulgurite, and cargo does not say what it depends on.
pub(super) fn of(database: &Path) -> Result<Option<PathBuf>, CommandFault> {
    let Some(manifest) = manifest(database) else { return Ok(None) };
    let unknown = |why: String| {
        CommandFault::usage("E910", format!("`{}`: cargo can't say what it depends on: {why}", manifest.display()))
            .help("name the database whose rows are called: `--upstream FILE`")
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version=1", "--manifest-path"]).arg(&manifest);
    let asked = command.output().map_err(|why| unknown(why.to_string()))?;
    if !asked.status.success() {
        return Err(unknown(String::from_utf8_lossy(&asked.stderr).trim().to_owned()));
    }
    let told: Value = serde_json::from_slice(&asked.stdout).map_err(|why| unknown(why.to_string()))?;
    Ok(nearest(&told, &manifest))
}

/// The manifest of the crate in which a file stands, if it names fulgurite: cargo takes longer to answer than a check.
fn manifest(database: &Path) -> Option<PathBuf> {
    // the file may still have to be written
    let folder = database.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().ok()?;
    let manifest = folder.ancestors().map(|folder| folder.join("Cargo.toml")).find(|path| path.is_file())?;
    let text = fs::read_to_string(&manifest).ok()?;
    (text.lines().any(|line| line.trim() == "[package]") && text.contains("fulgurite")).then_some(manifest)
}

/// The database of the nearest dependency that has one.
fn nearest(told: &Value, manifest: &Path) -> Option<PathBuf> {
    let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
    let by_id = |list: Vec<Value>| -> FxHashMap<String, Value> {
        list.into_iter().filter_map(|item| Some((item["id"].as_str()?.to_owned(), item))).collect()
    };
    let (packages, nodes) = (by_id(list(&told["packages"])), by_id(list(&told["resolve"]["nodes"])));
    let file = |package: &Value| package["manifest_path"].as_str().map(PathBuf::from);
    let (root, _) = packages.iter().find(|(_, package)| file(package).is_some_and(|path| path == manifest))?;
    let (mut seen, mut next) = (FxHashSet::from_iter([root.clone()]), VecDeque::from([root.clone()]));
    while let Some(id) = next.pop_front() {
        let package = packages.get(&id)?;
        let database = package["metadata"]["fulgurite"]["database"].as_str();
        if let Some(database) = database.filter(|_| id != *root) {
            return Some(file(package)?.with_file_name(database));
        }
        for needed in nodes.get(&id).map(|node| list(&node["dependencies"])).unwrap_or_default() {
            if let Some(needed) = needed.as_str().filter(|needed| seen.insert((*needed).to_owned())) {
                next.push_back(needed.to_owned());
            }
        }
    }
    None
}
