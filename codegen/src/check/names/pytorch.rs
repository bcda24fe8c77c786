//! E007: `aten` and `torch` list names that PyTorch has. Names in modules of which no list is kept are not judged.

use fulgurite_core::Name;

use super::Names;
use crate::diag::Diag;
use crate::pytorch::names::{ATEN, TORCH};

impl Names<'_> {
    /// `aten` and `torch`: names that are there.
    pub(super) fn libraries(&mut self) {
        let source = self.source;
        for (library, alias) in &source.aliases {
            let (of_it, name) = (if *library == "aten" { &*ATEN } else { &*TORCH }, alias.tree.name);
            let known = |name: &str| of_it.has(name);
            if let Some(rest) = name.name.as_str().strip_prefix(&format!("{library}.")) {
                let claim =
                    format!("`{library}` of `{}` names `{}` with the name of its library", self.op(), name.name);
                let diag = Diag::error("E007", alias.text.at(name.span), claim);
                self.diags.push(diag.help(format!("write `{rest}`")));
                continue;
            }
            let module = name.name.as_str().rsplit_once('.').map_or("", |(module, _)| module);
            let judged = *library == "aten" || of_it.is_whole(module);
            if !judged || known(name.name.as_str()) || known(name.name.as_str().trim_end_matches(".default")) {
                continue;
            }
            let claim = format!("`{library}` of `{}` names `{}`, which PyTorch does not have", self.op(), name.name);
            let candidates = of_it.names().map(Name::new);
            self.unknown(&alias.text, name.span, claim, name.name.as_str(), candidates);
        }
    }
}
