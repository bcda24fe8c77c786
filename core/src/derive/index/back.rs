//! The second-order rule: where a result is linear in the row's only differentiable argument, the transpose of the
//! transpose is the row itself.

use crate::Name;
use crate::derive::{differentiable, make, walk};
use crate::lang::ast::*;
use crate::row::Row;
use rustc_hash::FxHashMap;

/// The rule of `derived` (the transpose of `row` in `arg`) for its cotangent: a call of `row`.
pub fn rule(row: &Row, body: &Block, arg: Name, derived: &Row, seed: Name) -> Option<(Name, Block)> {
    let alone = row.sig.params.iter().filter(|p| differentiable(&p.ty)).count() == 1;
    if !alone || row.sig.outs.len() != 1 || !row.sig.aux.is_empty() || !Linear::of(arg, body) {
        return None;
    }
    let read = |n: Name| derived.sig.params.iter().any(|p| p.name.name == n && p.access == Access::Read);
    let mut args = Vec::new();
    for p in &row.sig.params {
        let n = p.name.name;
        let value = if n == arg { Name::new("g") } else { read(n).then_some(n)? };
        args.push(Arg { name: None, value: make::name(value) });
    }
    for o in &row.sig.opts {
        let n = o.name.name;
        derived.sig.opts.iter().any(|d| d.name.name == n).then_some(())?;
        args.push(Arg { name: Some(make::ident(n)), value: make::name(n) });
    }
    Some((seed, make::block(Expr::bare(Node::Call(make::ident(row.op), args)))))
}

/// Which values are linear in the argument: sums, moves and multiples of its elements, and zeros.
struct Linear {
    arg: Name,
    /// Every `let`.
    lets: FxHashMap<Name, Let>,
}

/// How a `let` depends on the argument.
#[derive(Clone, Copy)]
struct Let {
    linear: bool,
    free: bool,
}

impl Linear {
    fn of(arg: Name, body: &Block) -> bool {
        Linear { arg, lets: FxHashMap::default() }.block(body)
    }

    fn block(&mut self, b: &Block) -> bool {
        for stmt in &b.stmts {
            // Other patterns bind indices, which hold no float elements.
            if let Stmt::Let(Pattern::Name(n), value) = stmt {
                let (linear, free) = (self.value(value), self.free(value));
                self.lets.insert(n.name, Let { linear, free });
            }
        }
        self.value(&b.value)
    }

    /// Whether `e` does not depend on the argument.
    fn free(&self, e: &Expr) -> bool {
        let names = walk::names(e);
        !names.contains(&self.arg) && self.lets.iter().all(|(n, l)| l.free || !names.contains(n))
    }

    fn is_linear(&self, name: Name) -> bool {
        self.lets.get(&name).is_some_and(|l| l.linear)
    }

    fn value(&mut self, e: &Expr) -> bool {
        match &*e.node {
            Node::Int(0) => true,
            Node::Float(x) => *x == 0.0,
            Node::Name(n) => self.is_linear(*n),
            Node::Access(a) => {
                let outside = match &a.outside {
                    Outside::Value(v) => self.value(v),
                    Outside::Refuse | Outside::Skip => true,
                };
                outside && (a.base.name == self.arg || self.is_linear(a.base.name))
            }
            Node::Unary(UnOp::Neg, x) | Node::Cast(x, _) => self.value(x),
            Node::Binary(BinOp::Add | BinOp::Sub, x, y) => self.value(x) && self.value(y),
            Node::Binary(BinOp::Mul, x, y) => (self.value(x) && self.free(y)) || (self.free(x) && self.value(y)),
            Node::Binary(BinOp::Div, x, y) => self.value(x) && self.free(y),
            Node::If(c, x, y) => self.free(c) && self.block(x) && self.block(y),
            Node::Match(_, arms) => arms.iter().all(|(_, x)| self.value(x)),
            Node::Reduce(r) => {
                let plain = matches!(r.red, Red::Sum | Red::Mean | Red::Only | Red::First | Red::Last);
                let otherwise = match &r.otherwise {
                    Some(v) => self.value(v),
                    None => true,
                };
                plain && otherwise && r.filter.as_ref().is_none_or(|f| self.free(f)) && self.value(&r.body)
            }
            _ => false,
        }
    }
}
