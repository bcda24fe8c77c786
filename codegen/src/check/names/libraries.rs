//! E007: `aten`, `torch` and `onnx` list names that those libraries have. Names in a module without a complete list are
//! not checked.

use fulgurite_core::lang::Alias;

use super::unknown;
use crate::diag::Diag;
use crate::libraries::names::{ATEN, ONNX, TORCH};
use crate::libraries::owner;
use crate::schema::Rule;

/// Checks that the names in `aten`, `torch` and `onnx` exist.
pub fn libraries(op: &str, aliases: &[(&'static str, Rule<Alias>)]) -> Vec<Diag> {
    aliases.iter().filter_map(|(library, alias)| unlisted(op, library, alias)).collect()
}

fn unlisted(op: &str, library: &str, alias: &Rule<Alias>) -> Option<Diag> {
    let of_it = match library {
        "aten" => &*ATEN,
        "onnx" => &*ONNX,
        _ => &*TORCH,
    };
    let (name, place) = (alias.tree.name.name.as_str(), alias.text.at(alias.tree.name.span));
    if let Some(rest) = name.strip_prefix(&format!("{library}.")) {
        let claim = format!("`{library}` of `{op}` names `{name}` with the name of its library");
        return Some(Diag::error("E007", place, claim).help(format!("write `{rest}`")));
    }
    let module = name.rsplit_once('.').map_or("", |(module, _)| module);
    let judged = library != "torch" || of_it.is_whole(module);
    if !judged || of_it.has(name) || of_it.has(name.trim_end_matches(".default")) {
        return None;
    }
    let claim = format!("`{library}` of `{op}` names `{name}`, which {} does not have", owner(&format!("{library}.")));
    Some(unknown("E007", op, place, claim, name, of_it.names().collect()))
}
