//! E207: a value is widened before anything is computed with it, only a widened value is narrowed, and a gradient is
//! as wide as its argument may be.

use fulgurite_core::lang::{BinOp, Block, Elem, Expr, Node, Pattern, Span, Stmt, UnOp};
use fulgurite_core::promote::Kind;
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::signature::{Env, const_eval};
use fulgurite_core::{DType, Name};

use super::gradient_rules::{self, Way};
use super::report::Rule;
use super::rows::RowSet;
use crate::diag::Diag;
use crate::schema::RowSource;

/// The first value in the meaning or a rule of a row that is narrow without need.
pub fn check(source: &RowSource, row: &Row, rows: &RowSet) -> Option<Diag> {
    let halves = |e: &Expr| const_eval::dtype_set(&Env::default(), e).is_ok_and(|set| set.contains(DType::F16));
    if !row.dtypes.as_ref().is_none_or(halves) {
        return None;
    }
    match &row.meaning {
        Meaning::Expr(_) | Meaning::View(_) => rules(source, row, rows),
        Meaning::Decomp(body) => late(&Rule::body(source)?, row, body, rows).or_else(|| rules(source, row, rows)),
        Meaning::Host(_) => None,
    }
}

fn rules(source: &RowSource, row: &Row, rows: &RowSet) -> Option<Diag> {
    gradient_rules::of(source).iter().find_map(|declared| {
        let (named, tree) = (declared.named(source), &declared.rule.tree);
        let narrow = || if declared.way == Way::Vjp { narrow(&named, row, declared.arg, tree, rows) } else { None };
        late(&named, row, tree, rows).or_else(narrow)
    })
}

/// The fault of a gradient that was rounded to f16 though its argument may be wider, so that its sums must be wide.
fn narrow(rule: &Rule, row: &Row, arg: Name, block: &Block, rows: &RowSet) -> Option<Diag> {
    let param = row.sig.params.iter().find(|param| param.name.name == arg)?;
    let wider = param.ty.elem.iter().any(|elem| matches!(elem, Elem::Acc(name) if *name == "T"));
    let mut widths = Widths { row, rows, lets: Vec::new(), late: None };
    if !wider || widths.block(block) != Width::Rounded {
        return None;
    }
    let message = format!("{} rounds to f16 what `{arg}`, which may be f32, gets", rule.name());
    let diag = Diag::error("E207", rule.text.at(block.value.span), message).here("computed in the narrow dtype");
    Some(diag.help("widen the cotangent, `g as acc(T)`, and compute: an argument gets its gradient in its own dtype"))
}

/// The first value that is widened after it was rounded, or narrowed though no part of it was widened.
fn late(rule: &Rule, row: &Row, block: &Block, rows: &RowSet) -> Option<Diag> {
    let (span, step) = Widths { row, rows, lets: Vec::new(), late: None }.whole(block)?;
    let claim = match step {
        Step::Widened => "widens a value that was rounded to f16 before",
        Step::Narrowed => "narrows a value of which no part was widened",
    };
    let diag = Diag::error("E207", rule.text.at(span), format!("{} {claim}", rule.name()));
    let diag = diag.here("computed in the narrow dtype");
    Some(diag.help("widen the arguments, `x as acc(T)`, compute, and narrow the result: `… as T`"))
}

/// Width of a value where `T` is f16.
#[derive(Clone, Copy, PartialEq)]
enum Width {
    /// A number, which takes the width of the other operand.
    Any,
    /// An argument, or elements of one, as it was given.
    Given,
    /// Computed, and rounded to f16.
    Rounded,
    /// Widened.
    Wide,
    /// Something else.
    Other,
}

/// A step that comes too late.
#[derive(Clone, Copy)]
enum Step {
    /// A cast to `acc(T)` of a rounded value.
    Widened,
    /// A cast to `T` of a value that never was wider.
    Narrowed,
}

struct Widths<'a> {
    row: &'a Row,
    rows: &'a RowSet<'a>,
    lets: Vec<(Name, Width)>,
    /// The first value with such a step.
    late: Option<(Span, Step)>,
}

impl Widths<'_> {
    fn whole(mut self, body: &Block) -> Option<(Span, Step)> {
        self.block(body);
        self.late
    }

    fn block(&mut self, block: &Block) -> Width {
        let known = self.lets.len();
        for stmt in &block.stmts {
            match stmt {
                Stmt::Let(Pattern::Name(name), value) => {
                    let width = self.of(value);
                    self.lets.push((name.name, width));
                }
                Stmt::Let(Pattern::Tuple(names), value) => {
                    self.of(value);
                    self.lets.extend(names.iter().map(|name| (name.name, Width::Other)));
                }
                Stmt::Let(_, value) | Stmt::Write(_, value) => _ = self.of(value),
            }
        }
        let width = self.of(&block.value);
        self.lets.truncate(known);
        width
    }

    fn of(&mut self, e: &Expr) -> Width {
        match &*e.node {
            Node::Int(_) | Node::Float(_) => Width::Any,
            Node::Name(name) => self.name(*name),
            Node::Unary(UnOp::Neg, inner) => self.of(inner),
            Node::Binary(BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div, a, b) => {
                let (left, right) = (self.of(a), self.of(b));
                for (narrow, wide, part) in [(left, right, a), (right, left, b)] {
                    if narrow == Width::Rounded && wide == Width::Wide {
                        self.late.get_or_insert((part.span, Step::Widened));
                    }
                }
                let met = join(left, right);
                if met == Width::Given { Width::Rounded } else { met }
            }
            Node::Cast(inner, elem) => {
                let rounded = self.of(inner) == Width::Rounded;
                let (width, step) = match elem {
                    Elem::Acc(name) if *name == "T" => (Width::Wide, Some(Step::Widened)),
                    Elem::Var(name) if *name == "T" => (Width::Other, Some(Step::Narrowed)),
                    _ => (Width::Other, None),
                };
                if let (true, Some(step)) = (rounded, step) {
                    self.late.get_or_insert((inner.span, step));
                }
                width
            }
            Node::If(_, yes, no) => join(self.block(yes), self.block(no)),
            Node::Match(_, arms) => arms.iter().fold(Width::Any, |width, (_, arm)| join(width, self.of(arm))),
            Node::Call(f, args) => {
                let widths: Vec<Width> = args.iter().map(|arg| self.of(&arg.value)).collect();
                self.call(f.name, &widths)
            }
            _ => Width::Other,
        }
    }

    fn name(&self, name: Name) -> Width {
        if let Some((_, width)) = self.lets.iter().rev().find(|(known, _)| *known == name) {
            return *width;
        }
        let sig = &self.row.sig;
        let params = sig.params.iter().map(|param| (param.name.name, &param.ty));
        let results = sig.outs.iter().chain(&sig.aux).map(|out| (out.name.name, &out.ty));
        let known = params.chain(results.clone()).find(|(known, _)| *known == name);
        let seed = || results.clone().find(|(out, _)| fulgurite_core::derive::cotangent(self.row, *out) == name);
        match known.or_else(seed).map(|(_, ty)| ty.elem.as_slice()) {
            Some([Elem::Var(name)]) if *name == "T" => Width::Given,
            Some([Elem::Acc(name)]) if *name == "T" => Width::Wide,
            _ => Width::Other,
        }
    }

    /// The width of the result of a call. A row whose elements are `T` moves them, or computes and rounds.
    fn call(&self, f: Name, args: &[Width]) -> Width {
        // the helper sums, and so rounds
        if let ("unbroadcast", [Width::Given | Width::Rounded, ..]) = (f.as_str(), args) {
            return Width::Rounded;
        }
        let candidates = self.rows.candidates(f);
        let Some(row) = candidates.first() else { return Width::Other };
        let joined = |elem: &Elem| matches!(elem, Elem::Var(name) if *name == "T");
        let plain = row.sig.outs.iter().all(|out| out.ty.elem.iter().all(joined));
        let floats = row.sig.params.iter().zip(args).filter(|(param, _)| param.ty.elem.iter().any(joined));
        let met = floats.fold(Width::Any, |width, (_, arg)| join(width, *arg));
        let keeps = row
            .promote
            .as_ref()
            .is_some_and(|e| matches!(&*e.node, Node::Name(n) if Kind::from_name(n.as_str()) == Some(Kind::Keep)));
        match met {
            Width::Given if plain && !row.is_composite() => {
                let moves = keeps || matches!(row.meaning, Meaning::View(_)) || row.promote.is_none();
                if moves { Width::Given } else { Width::Rounded }
            }
            Width::Rounded if plain => Width::Rounded,
            _ => Width::Other,
        }
    }
}

/// The width of two values that meet: rounded if both are narrow and one was computed.
fn join(a: Width, b: Width) -> Width {
    match (a, b) {
        (Width::Any, other) | (other, Width::Any) => other,
        (Width::Other, _) | (_, Width::Other) => Width::Other,
        (Width::Wide, _) | (_, Width::Wide) => Width::Wide,
        (Width::Rounded, _) | (_, Width::Rounded) => Width::Rounded,
        (Width::Given, Width::Given) => Width::Given,
    }
}
