//! E007: `aten` and `torch` list names that PyTorch has.
//!
//! The two lists are those of one version of PyTorch, whole for each module that is in them: `names.py` beside the
//! recorded calls writes them. Names in other modules are not judged.

use std::sync::LazyLock;

use fulgurite_core::Name;
use rustc_hash::FxHashSet;

use super::Names;

/// Names of a library, and the modules that are complete.
struct Library {
    names: FxHashSet<String>,
    modules: Vec<&'static str>,
}

/// Operators, each with its overloads.
static ATEN: LazyLock<Library> = LazyLock::new(|| {
    let mut names = FxHashSet::default();
    for (operator, overloads) in lines(include_str!("pytorch/aten.txt")) {
        names.extend(overloads.map(|overload| format!("{operator}.{overload}")));
        names.insert(operator.to_owned());
    }
    Library { names, modules: Vec::new() }
});

/// Modules, each with its functions; `.` is the outermost.
static TORCH: LazyLock<Library> = LazyLock::new(|| {
    let (mut names, mut modules) = (FxHashSet::default(), Vec::new());
    for (module, functions) in lines(include_str!("pytorch/torch.txt")) {
        let within = if module == "." { String::new() } else { format!("{module}.") };
        names.extend(functions.map(|function| format!("{within}{function}")));
        modules.push(if module == "." { "" } else { module });
    }
    Library { names, modules }
});

fn lines(text: &'static str) -> impl Iterator<Item = (&'static str, impl Iterator<Item = &'static str>)> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?, words))
    })
}

impl Names<'_> {
    /// `aten` and `torch`: names that are there.
    pub(super) fn libraries(&mut self) {
        let source = self.source;
        for (library, alias) in &source.aliases {
            let (of_it, name) = (if *library == "aten" { &*ATEN } else { &*TORCH }, alias.tree.name);
            let known = |name: &str| of_it.names.contains(name);
            let module = name.name.as_str().rsplit_once('.').map_or("", |(module, _)| module);
            let judged = *library == "aten" || of_it.modules.contains(&module);
            if !judged || known(name.name.as_str()) || known(name.name.as_str().trim_end_matches(".default")) {
                continue;
            }
            let claim = format!("`{library}` of `{}` names `{}`, which PyTorch does not have", self.op(), name.name);
            let candidates = of_it.names.iter().map(|name| Name::new(name));
            self.unknown(&alias.text, name.span, claim, name.name.as_str(), candidates);
        }
    }
}
