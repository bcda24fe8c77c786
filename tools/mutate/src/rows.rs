//! Faults of a row, key by key.

use fulgurite_codegen::schema::{Body, RowSource, Rule};
use fulgurite_codegen::source::Sources;
use fulgurite_codegen::yaml::Text;
use fulgurite_core::Name;
use fulgurite_core::foreign::LIBRARIES;
use fulgurite_core::lang::{Access, Block, DimKind, Elem, Expr, OptType};

use super::exprs::{self, Faulty};
use super::kinds::Kind;
use super::nodes::{self, Names};
use super::page::{self, Page};
use super::{Mutant, forms, hidden, sigs};

/// Promotion kinds, each with the kinds that it is confused with.
const PROMOTE: &[(&str, [&str; 2])] = &[
    ("default", ["float", "equal"]),
    ("float", ["default", "keep"]),
    ("bool", ["default", "equal"]),
    ("real", ["default", "float"]),
    ("keep", ["default", "float"]),
    ("equal", ["default", "keep"]),
    ("join", ["default", "keep"]),
    ("long_if_bool", ["default", "long_if_int"]),
    ("long_if_int", ["default", "long_if_bool"]),
];

struct Writer<'a> {
    at: usize,
    source: &'a RowSource,
    page: Page<'a>,
    /// Whether the meaning is a program of other rows, which determine the accepted calls and the results.
    composite: bool,
    out: &'a mut Vec<Mutant>,
}

/// Every mutant of a row.
pub(super) fn mutants(at: usize, source: &RowSource, sources: &Sources, out: &mut Vec<Mutant>) {
    let composite = matches!(source.body, Body::Decomp(_));
    let mut writer = Writer { at, source, page: Page::new(source, sources), composite, out };
    writer.body();
    writer.signature();
    writer.promote();
    writer.dtypes();
    writer.require();
    writer.rules("grad", &source.grad);
    writer.rules("jvp", &source.jvp);
    writer.conventions();
    writer.claims();
    writer.aliases();
}

impl Writer<'_> {
    fn add(&mut self, kind: Kind, key: &str, edit: (String, String), meaning: bool, text: String) {
        let row = self.source.name();
        let key = key.to_owned();
        self.out.push(Mutant { at: self.at, row, kind, key, edit, meaning, text });
    }

    /// Adds a fault that replaces the whole of `key`; `None` leaves the key out.
    fn set(&mut self, kind: u8, key: &str, value: Option<&str>, old: &str, meaning: bool) {
        let text = self.page.with(key, value.map(|value| format!("{key}: {value}")).as_deref());
        let edit = (old.to_owned(), value.unwrap_or_default().to_owned());
        self.add(Kind(kind), key, edit, meaning, text);
    }

    fn body(&mut self) {
        let (key, rule, other) = match &self.source.body {
            Body::Expr(rule) => ("expr", rule, Some("view")),
            Body::View(rule) => ("view", rule, Some("expr")),
            Body::Decomp(rule) => ("decomp", rule, None),
            Body::Host(_) => return,
        };
        let hidden = hidden::faults(&rule.tree, &self.source.sig.tree, self.composite);
        for faulty in exprs::blocks(&rule.tree, &self.names(false)).into_iter().chain(hidden) {
            let value = format!("{key}: {}", page::rule(&faulty.whole.to_string(), 2));
            // The row states these twice: that a gradient is constant in a value, a write, a key.
            let meaning = !matches!(faulty.kind, Kind(11 | 26 | 27));
            self.add(faulty.kind, key, faulty.edit, meaning, self.page.with(key, Some(&value)));
        }
        let Some(other) = other else { return };
        let value = format!("{other}: {}", page::rule(&rule.tree.to_string(), 2));
        let text = self.page.with(key, Some(&value));
        self.add(Kind(35), key, (key.to_owned(), other.to_owned()), key == "view", text);
    }

    fn signature(&mut self) {
        if !self.source.keys.iter().any(|key| *key == "sig") {
            return;
        }
        for faulty in sigs::faults(&self.source.sig.tree, &self.names(false), self.yields_sizes(), self.composite) {
            let value = format!("sig: {}", page::rule(&faulty.whole.to_string(), 2));
            let text = self.page.with("sig", Some(&value));
            self.add(faulty.kind, "sig", faulty.edit, faulty.only_here, text);
        }
    }

    /// Whether the body determines the sizes of results: a program of rows that does not read sizes from the results'
    /// types.
    fn yields_sizes(&self) -> bool {
        let Body::Decomp(rule) = &self.source.body else { return false };
        let dims = self.source.sig.tree.outs.iter().filter_map(|out| out.ty.dims.as_ref()).flatten();
        let named: Vec<Name> = dims
            .filter_map(|dim| match &dim.kind {
                DimKind::One { name: Some(name), .. } | DimKind::Zip { name: Some(name), .. } => Some(name.name),
                _ => None,
            })
            .collect();
        !fulgurite_codegen::check::walk::mentions(&rule.tree, &named)
    }

    /// Only `promote` states the dtype in which an own body computes; a program of rows gets it from its rows.
    fn promote(&mut self) {
        let Some(rule) = &self.source.promote else { return };
        let old = rule.tree.to_string();
        // A program of rows with a result dtype of its own needs the key only for the accepted dtypes.
        let gives = self.source.sig.tree.outs.iter().any(|out| out.ty.elem.contains(&Elem::Var(Name::new("T"))));
        let meaning = !self.composite || !gives;
        let others = PROMOTE.iter().find(|(kind, _)| *kind == old).map(|(_, others)| *others);
        // These give the join, and differ in the accepted dtypes and in the compute dtype.
        let joins = |kind: &str| matches!(kind, "default" | "equal" | "keep" | "join");
        for other in others.unwrap_or(["default", "float"]) {
            self.set(12, "promote", Some(other), &old, meaning || joins(&old) && joins(other));
        }
        // A row with a body of its own must have the key.
        if self.composite {
            self.set(12, "promote", None, &old, meaning || joins(&old));
        }
    }

    fn dtypes(&mut self) {
        let old = self.source.dtypes.as_ref().map(|rule| rule.tree.to_string());
        let joins = self.source.sig.tree.params.iter().flat_map(|p| &p.ty.elem).any(|e| matches!(e, Elem::Var(_)));
        match &old {
            Some(old) => {
                self.set(15, "dtypes", None, old, true);
                // A choice is not a sum.
                let chosen = old.contains('{');
                for change in ["+ bool", "+ int", "- f32", "- i64", "- bf16"].into_iter().filter(|_| !chosen) {
                    self.set(15, "dtypes", Some(&format!("{old} {change}")), old, true);
                }
            }
            None if joins => {
                for other in ["float", "all - bool", "all - int"] {
                    self.set(15, "dtypes", Some(other), "", true);
                }
            }
            None => {}
        }
    }

    fn require(&mut self) {
        let all = &self.source.require;
        let entry = |cond: &str, message: &Text| (cond.to_owned(), page::quoted(message.as_str()));
        let own = || all.iter().map(|(cond, message)| entry(cond.text.as_str().trim_end(), message));
        for (at, (cond, message)) in all.iter().enumerate() {
            let mut fewer: Vec<(String, String)> = own().collect();
            fewer.remove(at);
            let text = self.page.with("require", map("require", &fewer).as_deref());
            let edit = (cond.tree.to_string(), String::new());
            self.add(Kind(15), "require", edit, true, text);
            for faulty in exprs::exprs(&cond.tree, &self.names(false)).into_iter().chain(hidden::unbounded(&cond.tree))
            {
                let mut other: Vec<(String, String)> = own().collect();
                other[at] = entry(&faulty.whole.to_string(), message);
                let text = self.page.with("require", map("require", &other).as_deref());
                let kind = if faulty.kind == Kind(45) { faulty.kind } else { Kind(15) };
                self.add(kind, "require", faulty.edit, true, text);
            }
        }
    }

    fn rules(&mut self, key: &str, rules: &[(Text, Rule<Block>)]) {
        let outs = &self.source.sig.tree.outs;
        for (at, (arg, rule)) in rules.iter().enumerate() {
            let mut faults = exprs::blocks(&rule.tree, &self.names(true));
            let seed = if outs.len() == 1 { "g".to_owned() } else { format!("g_{}", outs[0].name.name) };
            let zeros = nodes::call("zeros", vec![Expr::name(arg.as_str())]);
            for value in [zeros, Expr::name(seed.as_str())] {
                let edit = (rule.tree.to_string(), value.to_string());
                faults.push(Faulty { kind: Kind(7), edit, whole: nodes::block(value) });
            }
            faults.extend(without_cotangents(&rule.tree, outs.iter().map(|out| out.name.name)));
            faults.extend(hidden::faults(&rule.tree, &self.source.sig.tree, true));
            faults.retain(|faulty| faulty.whole != rule.tree);
            for faulty in faults {
                let lines = rules.iter().enumerate().map(|(n, (arg, rule))| {
                    let tree = if n == at { &faulty.whole } else { &rule.tree };
                    (arg.as_str().to_owned(), page::rule(&tree.to_string(), 4))
                });
                let text = self.page.with(key, bare_map(key, &lines.collect::<Vec<_>>()).as_deref());
                self.add(faulty.kind, &format!("{key}.{}", arg.as_str()), faulty.edit, false, text);
            }
        }
    }

    /// `ties` and `at`.
    fn conventions(&mut self) {
        if let Some((_, old)) = &self.source.ties {
            for other in ["first", "last", "even"].into_iter().filter(|word| old != word) {
                self.set(8, "ties", Some(other), old.as_str(), true);
            }
        }
        let kinks = &self.source.at;
        let write = |n: usize, new: Option<(String, Vec<String>)>| {
            let mut lines = Vec::new();
            for (at, kink) in kinks.iter().enumerate() {
                let mut cond = kink.cond.tree.to_string();
                let mut partials: Vec<String> = kink.partials.iter().map(|(_, e)| e.tree.to_string()).collect();
                if at == n {
                    let Some((c, p)) = new.clone() else { continue };
                    (cond, partials) = (c, p);
                }
                let of = kink.partials.iter().zip(partials).map(|((arg, _), e)| format!("{}: '{e}'", arg.as_str()));
                lines.push((cond, format!("{{{}}}", of.collect::<Vec<_>>().join(", "))));
            }
            map("at", &lines)
        };
        let mut found = Vec::new();
        for (n, kink) in kinks.iter().enumerate() {
            let cond = kink.cond.tree.to_string();
            let partials: Vec<String> = kink.partials.iter().map(|(_, e)| e.tree.to_string()).collect();
            found.push(((cond.clone(), String::new()), write(n, None)));
            for faulty in exprs::exprs(&kink.cond.tree, &self.names(false)) {
                found.push((faulty.edit, write(n, Some((faulty.whole.to_string(), partials.clone())))));
            }
            for (k, (_, e)) in kink.partials.iter().enumerate() {
                for faulty in exprs::exprs(&e.tree, &self.names(false)) {
                    let mut other = partials.clone();
                    other[k] = faulty.whole.to_string();
                    found.push((faulty.edit, write(n, Some((cond.clone(), other)))));
                }
            }
        }
        for (edit, value) in found {
            let text = self.page.with("at", value.as_deref());
            self.add(Kind(8), "at", edit, true, text);
        }
    }

    /// Faults in the claims about the gradient, and about execution.
    fn claims(&mut self) {
        if let Some(old) = &self.source.no_grad {
            self.set(39, "no_grad", None, old.as_str(), false);
        } else if self.source.sig.tree.outs.iter().any(|out| out.ty.elem.contains(&Elem::Var(Name::new("T")))) {
            self.set(25, "no_grad", Some("it is never asked for"), "", false);
        }
        if let Some(old) = &self.source.deviates {
            self.set(39, "deviates", None, old.as_str(), false);
        }
        if let Some(old) = &self.source.once {
            self.set(39, "once", None, old.as_str(), false);
        }
        if let Some(old) = &self.source.rounds {
            self.set(39, "rounds", None, old.as_str(), false);
        }
        let float = |elem: &Elem| matches!(elem, Elem::Var(name) if *name == "T");
        let first =
            self.source.sig.tree.params.iter().find(|p| p.ty.elem.iter().any(float) && p.access == Access::Read);
        if let (Some(first), None) = (first, &self.source.skip_vjp) {
            self.set(25, "skip_vjp", Some(&format!("[{}]", first.name.name)), "", false);
        }
        if let Some(rule) = &self.source.acc {
            self.set(13, "acc", None, &rule.tree.to_string(), false);
        }
    }

    fn aliases(&mut self) {
        let sig = &self.source.sig.tree;
        let params = sig.params.iter().filter(|p| !p.optional && !p.ty.elem.contains(&Elem::Key)).map(|p| p.name.name);
        let opts = sig.opts.iter().filter(|o| !o.optional && o.default.is_none()).map(|o| o.name.name);
        let needed: Vec<Name> = params.chain(opts).collect();
        let defaults = sig.opts.iter().filter_map(|o| Some((o.name.name, o.default.clone()?)));
        let defaults: Vec<(Name, Expr)> = defaults.collect();
        for library in LIBRARIES {
            let own: Vec<&Rule<fulgurite_core::lang::Alias>> =
                self.source.aliases.iter().filter(|(of, _)| *of == library).map(|(_, alias)| alias).collect();
            for (at, alias) in own.iter().enumerate() {
                let faults =
                    forms::faults(&alias.tree, &needed).into_iter().map(|(stated, text)| (Kind(28), stated, text));
                let left_out = forms::left_out(&alias.tree, &defaults).into_iter().map(|text| (Kind(42), false, text));
                for (kind, stated, faulty) in faults.chain(left_out) {
                    let text = |(n, alias): (usize, &&Rule<_>)| {
                        if n == at { faulty.clone() } else { alias.text.as_str().to_owned() }
                    };
                    let lines: Vec<String> = own.iter().enumerate().map(|a| format!("\n  - '{}'", text(a))).collect();
                    let value = format!("{library}:{}", lines.concat());
                    let edit = (alias.text.as_str().to_owned(), faulty.clone());
                    self.add(kind, library, edit, !stated, self.page.with(library, Some(&value)));
                }
            }
        }
    }

    /// The names that can be confused in the row's rules.
    fn names(&self, rules: bool) -> Names {
        let sig = &self.source.sig.tree;
        let outs = || sig.outs.iter().chain(&sig.aux).map(|out| out.name.name);
        let mut tensors: Vec<Name> = sig.params.iter().map(|param| param.name.name).collect();
        let mut groups = Vec::new();
        let mut residuals = Vec::new();
        if rules {
            residuals = tensors.iter().copied().chain(outs()).collect();
            groups.push(sig.outs.iter().map(|out| Name::new(&format!("g_{}", out.name.name))).collect());
            tensors.extend(outs());
        }
        groups.push(tensors);
        let dims = sig.params.iter().filter_map(|param| param.ty.dims.as_ref()).flatten();
        let mut sizes: Vec<Name> = Vec::new();
        for dim in dims {
            if let DimKind::One { size, .. } = &dim.kind
                && let fulgurite_core::lang::Node::Name(name) = &*size.node
                && !sizes.contains(name)
            {
                sizes.push(*name);
            }
        }
        groups.push(sizes.iter().map(|name| name.index_of_size()).collect());
        groups.push(sizes);
        let numbers = |ty: &OptType| matches!(ty, OptType::F64 | OptType::Num | OptType::I64);
        groups.push(sig.opts.iter().filter(|opt| numbers(&opt.ty)).map(|opt| opt.name.name).collect());
        groups.push(sig.opts.iter().filter(|opt| opt.ty == OptType::Bool).map(|opt| opt.name.name).collect());
        groups.retain(|group: &Vec<Name>| group.len() > 1);
        Names { groups, residuals }
    }
}

/// A rule without the contribution of one result's cotangent.
fn without_cotangents(rule: &Block, outs: impl Iterator<Item = Name>) -> Vec<Faulty<Block>> {
    let mut all = Vec::new();
    for out in outs {
        let seed = Name::new(&format!("g_{out}"));
        let zeros = nodes::call("zeros", vec![Expr::name(out)]);
        let whole = fulgurite_core::derive::walk::map_block(rule, &mut |e| {
            matches!(&*e.node, fulgurite_core::lang::Node::Name(name) if *name == seed).then(|| zeros.clone())
        });
        if whole != *rule {
            all.push(Faulty { kind: Kind(25), edit: (seed.to_string(), zeros.to_string()), whole });
        }
    }
    all
}

/// `key:` with one line per entry, whose names are rule texts; `None` without entries.
fn map(key: &str, entries: &[(String, String)]) -> Option<String> {
    let lines: Vec<(String, String)> =
        entries.iter().map(|(name, value)| (page::quoted(name), value.clone())).collect();
    bare_map(key, &lines)
}

fn bare_map(key: &str, entries: &[(String, String)]) -> Option<String> {
    let lines: Vec<String> = entries.iter().map(|(name, value)| format!("\n    {name}: {value}")).collect();
    (!lines.is_empty()).then(|| format!("{key}:{}", lines.concat()))
}
