//! The names in one version of PyTorch, complete for each module in the lists. `names.py`, beside the recorded calls,
//! writes them.

use std::sync::LazyLock;

use rustc_hash::FxHashSet;

/// Names of a library, and the modules for which they are complete.
pub struct Library {
    names: FxHashSet<String>,
    modules: Vec<&'static str>,
}

/// Operators, each with its overloads.
pub static ATEN: LazyLock<Library> = LazyLock::new(|| {
    let mut names = FxHashSet::default();
    for (operator, overloads) in lines(include_str!("aten.txt")) {
        names.extend(overloads.map(|overload| format!("{operator}.{overload}")));
        names.insert(operator.to_owned());
    }
    Library { names, modules: Vec::new() }
});

/// Modules, each with its functions; `.` is the outermost.
pub static TORCH: LazyLock<Library> = LazyLock::new(|| {
    let (mut names, mut modules) = (FxHashSet::default(), Vec::new());
    for (module, functions) in lines(include_str!("torch.txt")) {
        let within = if module == "." { String::new() } else { format!("{module}.") };
        names.extend(functions.map(|function| format!("{within}{function}")));
        modules.push(if module == "." { "" } else { module });
    }
    Library { names, modules }
});

/// Operators, each with its versions.
pub static ONNX: LazyLock<Library> = LazyLock::new(|| {
    let mut names = FxHashSet::default();
    for line in include_str!("onnx.txt").lines().filter_map(|line| line.strip_prefix("onnx.")) {
        let version = line.split('(').next().unwrap_or_default();
        names.extend(
            [Some(version), version.rsplit_once('.').map(|(name, _)| name)].into_iter().flatten().map(str::to_owned),
        );
    }
    Library { names, modules: Vec::new() }
});

fn lines(text: &'static str) -> impl Iterator<Item = (&'static str, impl Iterator<Item = &'static str>)> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?, words))
    })
}

impl Library {
    /// Whether the library has this name.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Whether all names of this module are known.
    pub fn is_whole(&self, module: &str) -> bool {
        self.modules.contains(&module)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}

/// Whether an ATen operator has overloads that take a number in place of a tensor.
pub fn takes_numbers(operator: &str) -> bool {
    static NUMBERS: LazyLock<FxHashSet<&'static str>> = LazyLock::new(|| {
        let number =
            |overload: &str| overload.contains("Scalar") || overload.ends_with("int") || overload.ends_with("float");
        let all = lines(include_str!("aten.txt")).filter_map(|(operator, mut all)| all.any(number).then_some(operator));
        all.collect()
    });
    NUMBERS.contains(operator)
}
