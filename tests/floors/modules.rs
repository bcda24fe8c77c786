//! Modules: at each level of a crate's module tree, siblings do not import each other in a circle.
//!
//! A path `crate::a::b` in module `c::d` is an import of `a` by `c`; one in `a::e` is an import of `b` by `e`, two levels
//! down. A parent and its own children may refer to each other: they are one part with an inside.

use super::{files_with, none, read, root, shown};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub const CRATES: &[&str] = &[
    "core",
    "kernels",
    "codegen",
    "codegen/verbs",
    "runtime",
    "parallel",
    "macros",
    "generated",
    "generated/kernels",
    "compat/pytorch",
    "compat/onnx",
    "compat/torch",
    "compat/models",
    "tools/mutate",
    "tools/demo",
    "tools/bench",
    "tools/conformance",
    "tools/site",
    "fuzz",
    "cli",
    "tests",
];

/// Circles that stand: each is a debt with a name. A new one fails; so does one of these that is gone.
const DEBTS: &[&str] = &[];

type Module = Vec<String>;
/// Level (module whose children these are), importer, imported.
type Edges = BTreeMap<(Module, String), BTreeMap<String, String>>;

#[test]
fn modules_do_not_import_each_other_in_circles() {
    let mut found = BTreeSet::new();
    for krate in CRATES {
        let files = sources(krate);
        let modules: BTreeSet<Module> = files.iter().map(|(m, _)| m.clone()).collect();
        let mut edges = Edges::new();
        for (module, text) in &files {
            for path in paths(&code(text), module) {
                let target = longest_known(&modules, &path);
                note(&mut edges, module, &target);
            }
        }
        for ((level, _), _) in edges.iter() {
            for circle in circles(&edges, level) {
                let at = if level.is_empty() { String::new() } else { format!("{}::", level.join("::")) };
                found.insert(format!("{krate}: {at}{{{}}}", circle.join(" -> ")));
            }
        }
    }
    let debts: BTreeSet<String> = DEBTS.iter().map(|d| (*d).to_owned()).collect();
    none(found.difference(&debts).cloned().collect(), "modules import each other in a circle");
    none(debts.difference(&found).cloned().collect(), "these circles are gone: take them off the list");
}

/// Modules of the runtime that stand below others, and those that they must not import: executors share fusions and
/// programs, which know none of them, and an executor knows no other one.
const BELOW: &[(&str, &[&str])] = &[
    ("executors::fusion", &["executors::program", "executors::cpu", "executors::cuda", "executors::interp"]),
    ("executors::program", &["executors::cpu", "executors::cuda", "executors::interp"]),
    ("executors::cpu", &["executors::cuda", "executors::interp"]),
    ("executors::cuda", &["executors::cpu", "executors::interp"]),
    ("executors::interp", &["executors::cpu", "executors::cuda"]),
];

#[test]
fn shared_parts_of_executors_import_no_executor() {
    let module = |text: &str| text.split("::").map(str::to_owned).collect::<Module>();
    let files = sources("runtime");
    let mut faults = Vec::new();
    for (lower, uppers) in BELOW {
        let uppers: Vec<Module> = uppers.iter().map(|upper| module(upper)).collect();
        for named in uppers.iter().chain([&module(lower)]).filter(|m| files.iter().all(|(of, _)| of != *m)) {
            faults.push(format!("there is no `{}`: the rule names what is gone", named.join("::")));
        }
        for (of, text) in files.iter().filter(|(of, _)| of.starts_with(&module(lower))) {
            let uphill = paths(&code(text), of).into_iter().filter(|p| uppers.iter().any(|upper| p.starts_with(upper)));
            faults.extend(uphill.map(|path| format!("{} -> {}", of.join("::"), path.join("::"))));
        }
    }
    none(faults, "imports between executors run uphill");
}

/// The modules of a crate with their texts, unit tests apart.
fn sources(krate: &str) -> Vec<(Module, String)> {
    let src = root().join(krate).join("src");
    let files = files_with("rs", &src).into_iter().filter(|p| !is_test_file(p));
    files.map(|p| (module_of(p.strip_prefix(&src).unwrap_or(&p)), read(&p))).collect()
}

/// Unit tests in files of their own may import what they like.
pub fn is_test_file(path: &Path) -> bool {
    let shown = shown(path);
    shown.ends_with("tests.rs") || shown.contains("/tests/")
}

/// `trace/types.rs` is `trace::types`, `trace/mod.rs` is `trace`, `lib.rs` the root.
fn module_of(file: &Path) -> Module {
    let mut parts: Module = file.with_extension("").iter().map(|p| p.to_string_lossy().into_owned()).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// The text without comments and without what is compiled for tests alone. Lines keep their numbers.
pub fn code(text: &str) -> String {
    let mut lines = text.lines();
    let mut code = Vec::new();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("#[cfg(test)]") {
            code.extend(std::iter::repeat_n("", 1 + skip_item(&mut lines, indent(line))));
        } else {
            code.push(line.split("//").next().unwrap_or(line));
        }
    }
    code.join("\n")
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Skips an item that `cargo fmt` has formatted; returns the number of its lines. It ends with its first line, or with a
/// bracket below the start of that line.
fn skip_item<'t>(lines: &mut impl Iterator<Item = &'t str>, at: usize) -> usize {
    let own = |line: &&str| indent(line) == at && !line.trim_start().starts_with("#[");
    let mut count = 0;
    for line in lines {
        count += 1;
        if own(&line) && line.ends_with(['}', ';', ',']) {
            break;
        }
    }
    count
}

/// Every path that starts at `crate` or `super`, from the root; groups `{a, b::c}` taken apart.
fn paths(text: &str, module: &Module) -> Vec<Module> {
    let mut out = Vec::new();
    for (start, base) in [("crate::", Vec::new()), ("super::", parent(module))] {
        let mut rest = text;
        while let Some(at) = rest.find(start) {
            let before = rest[..at].chars().next_back();
            rest = &rest[at + start.len()..];
            let own = before.is_none_or(|c| !(c.is_alphanumeric() || matches!(c, '_' | '$' | ':')));
            if own {
                let mut base = base.clone();
                let mut tail = rest;
                while let Some(more) = tail.strip_prefix("super::") {
                    base.pop();
                    tail = more;
                }
                expand(&base, tail, &mut out);
            }
        }
    }
    out
}

fn parent(module: &Module) -> Module {
    module[..module.len().saturating_sub(1)].to_vec()
}

/// The paths of `tail` (`a::b`, `{a, b::{c, d}}`) below `base`; gives what is left of the text.
fn expand<'t>(base: &Module, tail: &'t str, out: &mut Vec<Module>) -> &'t str {
    let tail = tail.trim_start();
    if let Some(mut inner) = tail.strip_prefix('{') {
        loop {
            inner = expand(base, inner, out).trim_start();
            match inner.strip_prefix(',') {
                Some(more) if !more.trim_start().starts_with('}') => inner = more,
                Some(more) => return more.trim_start().strip_prefix('}').unwrap_or(more),
                None => return inner.strip_prefix('}').unwrap_or(inner),
            }
        }
    }
    let end = tail.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(tail.len());
    let mut path = base.clone();
    path.push(tail[..end].to_owned());
    match tail[end..].strip_prefix("::") {
        Some(more) if more.starts_with(|c: char| c.is_alphabetic() || c == '{' || c == '_') => expand(&path, more, out),
        _ => {
            out.push(path);
            let rest = &tail[end..];
            // `a as b`
            rest.trim_start().strip_prefix("as ").map_or(rest, |r| {
                let skip = r.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(r.len());
                &r[skip..]
            })
        }
    }
}

fn longest_known(modules: &BTreeSet<Module>, path: &Module) -> Module {
    (0..=path.len()).rev().map(|n| path[..n].to_vec()).find(|p| modules.contains(p)).unwrap_or_default()
}

fn note(edges: &mut Edges, from: &Module, to: &Module) {
    let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    if let (Some(a), Some(b)) = (from.get(common), to.get(common)) {
        let example = format!("{} -> {}", from.join("::"), to.join("::"));
        edges.entry((from[..common].to_vec(), a.clone())).or_default().entry(b.clone()).or_insert(example);
    }
}

/// One circle through each module of a level that is on some, as a path that starts at its smallest name.
fn circles(edges: &Edges, level: &Module) -> BTreeSet<Vec<String>> {
    let next = |m: &str| {
        edges.get(&(level.clone(), m.to_owned())).map(|e| e.keys().cloned().collect::<Vec<_>>()).unwrap_or_default()
    };
    let mut out = BTreeSet::new();
    for (_, start) in edges.keys().filter(|(l, _)| l == level) {
        // breadth first, so that the circle is a shortest one
        let mut from: BTreeMap<String, String> = BTreeMap::new();
        let mut queue = std::collections::VecDeque::from([start.clone()]);
        while let Some(m) = queue.pop_front() {
            for n in next(&m) {
                if &n == start {
                    let mut circle = vec![m.clone()];
                    while let Some(before) = from.get(&circle[0]) {
                        circle.insert(0, before.clone());
                    }
                    let smallest = circle.iter().enumerate().min_by_key(|(_, m)| m.as_str()).map_or(0, |(i, _)| i);
                    circle.rotate_left(smallest);
                    out.insert(circle);
                    queue.clear();
                    break;
                }
                if !from.contains_key(&n) {
                    from.insert(n.clone(), m.clone());
                    queue.push_back(n);
                }
            }
        }
    }
    out
}

#[test]
fn paths_are_taken_apart() {
    let text = "use crate::a::{self, b::{C, d}, e as f}; fn x() { super::g::h() } $crate::no";
    let mut found: Vec<String> = paths(text, &vec!["m".into(), "n".into()]).iter().map(|p| p.join("::")).collect();
    found.sort();
    assert_eq!(found, ["a::b::C", "a::b::d", "a::e", "a::self", "m::g::h"]);
}

#[test]
fn tests_alone_are_skipped() {
    let text = "use a;\n#[cfg(test)]\n#[path = \"t.rs\"]\nmod t;\nfn f() { // no\n    #[cfg(test)]\n    g();\n}\n\
                #[cfg(test)]\nmod tests {\n    fn h() {\n    }\n}\nfn last() {}";
    assert_eq!(code(text), "use a;\n\n\n\nfn f() { \n\n\n}\n\n\n\n\n\nfn last() {}");
}
