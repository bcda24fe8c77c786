//! Facts that follow from a row, and their reasons. `explain` prints them beside the row itself.

mod linear;

use std::sync::Arc;

use fulgurite_codegen::check::cases::{self, Case};
use fulgurite_codegen::check::facts::{Family, served, typical};
use fulgurite_codegen::check::rows::RowSet;
use fulgurite_codegen::check::walk;
use fulgurite_codegen::grade::Grade;
use fulgurite_core::autocast;
use fulgurite_core::lang::{Access, Block, Elem, Expr, Node, OptType, Stmt};
use fulgurite_core::lower::Rows;
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::{DType, Name, Value};
use rustc_hash::FxHashSet;

/// A fact and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// `linear`
    pub name: &'static str,
    /// "in `a`, in `w`"
    pub value: String,
    /// "a sum of products with one element of it each"
    pub reason: String,
    /// How far it is verified.
    pub grade: Grade,
}

/// Everything that is derived about a row.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Each element of a result depends only on the elements at its own position.
    pub pointwise: bool,
    /// Results share the storage of an argument.
    pub view: bool,
    /// Results are drawn with a key.
    pub random: bool,
    /// Arguments that are written.
    pub writes: Vec<Name>,
    /// The largest sets of arguments in which the results are linear, each set taken together.
    pub linear: Vec<Vec<Name>>,
    /// The kernel family that serves it. A composite has none of its own.
    pub family: Option<Family>,
    /// Number of calls examined.
    pub calls: usize,
    /// Number of these calls that differ in words, truth values or presence.
    pub ways: usize,
    /// All facts as text, with reasons.
    pub all: Vec<Fact>,
}

/// The facts of `row`. `rules` are its gradient rules, declared and derived. `derived` are the rows that derived
/// rules call.
pub fn of(row: &Arc<Row>, rows: &(dyn Rows + Sync), rules: &[(Name, Block)], derived: &[Row]) -> Facts {
    let family = cases::family(row, DType::F32);
    let case = typical(&family.cases);
    let pointwise = row.is_pointwise();
    let view = matches!(row.meaning, Meaning::View(_));
    let params = &row.sig.params;
    let random = row.takes_key();
    let writes = params.iter().filter(|p| p.access == Access::Mut).map(|p| p.name.name).collect();
    let ways = ways(row, &family.cases);
    let linear = linearity(row, &RowSet::new(rows, [], &[]), case, &ways);
    let kernel = case.and_then(|case| served(row, case, rows));
    let (served_by, calls) = (kernel.as_ref().map(|k| k.0), family.cases.len());
    let mut facts =
        Facts { pointwise, view, random, writes, linear, ways: ways.len(), family: served_by, calls, all: Vec::new() };
    facts.all = facts.texts(row, kernel.map(|k| k.1), &saves(row, rules, derived));
    let (class, reason) = autocast::class(row, rows);
    facts.all.push(Fact { name: "autocast", value: class.word().into(), reason: reason.into(), grade: Grade::Proved });
    facts
}

/// At most this many arguments are combined, because their sets double with each.
const MOST_COMBINED: usize = 4;

/// One call for every combination of words, truth values and presence, because a row may be a sum in one and a
/// product in another.
fn ways<'a>(row: &Row, cases: &'a [Case]) -> Vec<&'a Case> {
    let statics = |case: &Case| -> Vec<String> {
        let params = case.args.iter().take(row.sig.params.len()).map(|arg| arg.is_absent().to_string());
        let opts = row.sig.opts.iter().zip(case.args.iter().skip(row.sig.params.len())).map(|(opt, arg)| match arg {
            arg if arg.is_absent() => String::new(),
            Value::Word(word) => word.to_string(),
            Value::Num(number) if !matches!(opt.ty, OptType::I64 | OptType::Dim(_)) => number.to_string(),
            _ => "given".to_owned(),
        });
        params.chain(opts).collect()
    };
    let mut met = Vec::new();
    let mut ways = Vec::new();
    for case in cases.iter().filter(|case| case.numel() > 1) {
        let key = statics(case);
        if !met.contains(&key) {
            met.push(key);
            ways.push(case);
        }
    }
    ways
}

/// The largest sets of arguments in which the row is linear with all of its words.
fn linearity(row: &Arc<Row>, rows: &RowSet, case: Option<&Case>, ways: &[&Case]) -> Vec<Vec<Name>> {
    let Some(case) = case else { return Vec::new() };
    let floats: Vec<usize> = (0..row.sig.params.len())
        .filter(|i| fulgurite_core::derive::differentiable(&row.sig.params[*i].ty) && !case.args[*i].is_absent())
        .take(MOST_COMBINED)
        .collect();
    let mut sets: Vec<u32> = (1..1u32 << floats.len()).collect();
    sets.sort_by_key(|set| std::cmp::Reverse(set.count_ones()));
    let mut found: Vec<u32> = Vec::new();
    for set in sets {
        let within = found.iter().any(|larger| larger & set == set);
        let positions: Vec<usize> = (0..floats.len()).filter(|i| set >> i & 1 == 1).map(|i| floats[i]).collect();
        // a plain number can't be a variable
        let given =
            |case: &Case| positions.iter().all(|at| matches!(case.args[*at], Value::Tensor(_) | Value::List(_)));
        let all = |ways: &[&Case], trivial| {
            let mut given = ways.iter().filter(|way| given(way));
            given.all(|way| linear::is_linear(row, rows, way, &positions, trivial))
        };
        if !within && all(&[case], false) && all(ways, true) {
            found.push(set);
        }
    }
    let name = |i: usize| row.sig.params[floats[i]].name.name;
    let names = |set: u32| (0..floats.len()).filter(|i| set >> i & 1 == 1).map(name).collect();
    found.into_iter().map(names).collect()
}

impl Facts {
    fn texts(&self, row: &Row, kernel: Option<String>, saved: &[Name]) -> Vec<Fact> {
        let mut all = Vec::new();
        let mut fact = |name, value: String, grade, reason: &str| {
            all.push(Fact { name, value, reason: reason.to_owned(), grade });
        };
        if self.pointwise {
            fact("pointwise", "yes".into(), Grade::Proved, "no argument and no result has brackets");
        }
        if self.view {
            fact(
                "view",
                "shares storage".into(),
                Grade::Checked(self.calls),
                "`view`: one access with indices that grow evenly",
            );
        }
        if !self.linear.is_empty() {
            let sets = self.linear.iter().map(|set| match set.as_slice() {
                [one] => format!("in {one}"),
                several => format!("in {} together", list(several)),
            });
            let sets: Vec<String> = sets.collect();
            // the walk proves linearity of the calls that it follows; other calls are only like them
            fact(
                "linear",
                sets.join("; "),
                Grade::Checked(self.ways.max(1)),
                "sums, moves, and products with what does not depend on it",
            );
        }
        if self.random {
            let keys = row.sig.params.iter().filter(|p| p.ty.elem.contains(&Elem::Key)).map(|p| p.name.name);
            fact(
                "random",
                format!("by {}", list(&keys.collect::<Vec<_>>())),
                Grade::Proved,
                "an argument is a `Key`; same key, same numbers",
            );
        }
        if !self.writes.is_empty() {
            fact("writes", list(&self.writes), Grade::Proved, "`mut`");
        }
        match (self.family, kernel) {
            (Some(family), Some(reason)) => fact("kernel", family.name().to_owned(), Grade::Tested, &reason),
            _ if row.is_composite() => fact(
                "kernel",
                "none of its own".into(),
                Grade::Tested,
                "the rows of its body run, fused where they can be",
            ),
            _ => fact("kernel", "a primitive of the runtime".into(), Grade::Tested, "`host`"),
        }
        if !saved.is_empty() {
            fact("saves", list(saved), Grade::Proved, "its gradient rules read them");
        }
        all
    }
}

/// The arguments and results whose elements gradient rules read. Where rules read the type alone, nothing is saved.
fn saves(row: &Row, rules: &[(Name, Block)], derived: &[Row]) -> Vec<Name> {
    let mut read = FxHashSet::default();
    for (_, rule) in rules {
        let values = rule.stmts.iter().map(|stmt| match stmt {
            Stmt::Let(_, value) | Stmt::Write(_, value) => value,
        });
        values.chain([&rule.value]).for_each(|e| elements(e, derived, &mut read));
    }
    let params = row.sig.params.iter().map(|param| param.name.name);
    let results = row.sig.outs.iter().chain(&row.sig.aux).map(|out| out.name.name);
    params.chain(results).filter(|name| read.contains(name)).collect()
}

/// The names whose elements `e` reads.
fn elements(e: &Expr, derived: &[Row], read: &mut FxHashSet<Name>) {
    match &*e.node {
        Node::Name(name) => _ = read.insert(*name),
        Node::Call(f, args) => {
            let row = derived.iter().find(|row| row.op == f.name);
            let typed = |n: usize| match row {
                Some(row) => row.sig.params.get(n).is_some_and(|param| param.access == Access::Like),
                None => f.name == "unbroadcast" && n == 1 || f.name == "zeros" || f.name == "some",
            };
            let args = args.iter().enumerate().filter(|(n, _)| !typed(*n));
            args.for_each(|(_, arg)| elements(&arg.value, derived, read));
        }
        _ => walk::children(e, &mut |child| elements(child, derived, read)),
    }
}

fn list(names: &[Name]) -> String {
    names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
}
