//! E007: `aten` and `torch` list names that PyTorch has. Names in a module without a complete list are not checked.

use fulgurite_core::lang::Alias;

use super::unknown;
use crate::diag::Diag;
use crate::pytorch::names::{ATEN, TORCH};
use crate::schema::Rule;

/// Checks that the names in `aten` and `torch` exist.
pub fn libraries(op: &str, aliases: &[(&'static str, Rule<Alias>)]) -> Vec<Diag> {
    aliases.iter().filter_map(|(library, alias)| unlisted(op, library, alias)).collect()
}

fn unlisted(op: &str, library: &str, alias: &Rule<Alias>) -> Option<Diag> {
    let of_it = if library == "aten" { &*ATEN } else { &*TORCH };
    let (name, place) = (alias.tree.name.name.as_str(), alias.text.at(alias.tree.name.span));
    if let Some(rest) = name.strip_prefix(&format!("{library}.")) {
        let claim = format!("`{library}` of `{op}` names `{name}` with the name of its library");
        return Some(Diag::error("E007", place, claim).help(format!("write `{rest}`")));
    }
    let module = name.rsplit_once('.').map_or("", |(module, _)| module);
    let judged = library == "aten" || of_it.is_whole(module);
    if !judged || of_it.has(name) || of_it.has(name.trim_end_matches(".default")) {
        return None;
    }
    let claim = format!("`{library}` of `{op}` names `{name}`, which PyTorch does not have");
    Some(unknown("E007", op, place, claim, name, of_it.names().collect()))
}
