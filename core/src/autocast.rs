//! The autocast class of a row: the dtype it computes in where a region asks for a narrower float. The class is derived
//! from the row's meaning, or stated by the row.
//!
//! The classes are those of PyTorch's autocast. A contraction gains speed from a narrow float and loses little
//! accuracy; a row that sums, or whose values grow, needs the range and digits of f32; every other row computes in the
//! dtype of its arguments.

use crate::Name;
use crate::lang::ast::{BinOp, Block, Expr, Node, Red};
use crate::lang::walk;
use crate::lower::Rows;
pub use crate::row::Class;
use crate::row::{Meaning, Row};

/// Builtins whose value leaves the range of f16, or whose slope amplifies rounding errors.
const GROWING: [&str; 19] = [
    "exp", "exp2", "expm1", "ln", "log2", "log10", "log1p", "pow", "rsqrt", "sinh", "cosh", "tan", "asin", "acos",
    "atanh", "erfinv", "lgamma", "digamma", "softplus",
];

/// The autocast class of a row, with the reason.
pub fn class(row: &Row, rows: &dyn Rows) -> (Class, &'static str) {
    if let Some(class) = row.autocast {
        return (class, "the row says so");
    }
    let mut seen = Seen::default();
    seen.row(row, rows, &mut Vec::new());
    let tensors = row.sig.params.iter().filter(|p| crate::derive::differentiable(&p.ty));
    let several = tensors.map(|p| if p.ty.list.is_some() { 2 } else { 1 }).sum::<usize>() > 1;
    match seen {
        Seen { contracts: true, .. } => (Class::Lower, "it sums products of two tensors"),
        Seen { sums: true, .. } => (Class::Fp32, "it sums or multiplies up elements"),
        Seen { grows: true, .. } => (Class::Fp32, "it calls a function that leaves the range of f16"),
        _ if several => (Class::Promote, "it takes several tensors"),
        _ => (Class::None, "it keeps the size of what it is given"),
    }
}

/// The features of a meaning that decide its class.
#[derive(Default)]
struct Seen {
    contracts: bool,
    sums: bool,
    grows: bool,
}

impl Seen {
    /// `open` holds the rows whose meanings are being visited: a database under check may have circles.
    fn row(&mut self, row: &Row, rows: &dyn Rows, open: &mut Vec<Name>) {
        if open.contains(&row.op) {
            return;
        }
        open.push(row.op);
        match &row.meaning {
            Meaning::Expr(body) => walk::block(body, &mut |e| self.look(e, rows, open)),
            Meaning::Decomp(body) => self.calls(body, rows, open),
            Meaning::View(_) | Meaning::Host(_) => {}
        }
        open.pop();
    }

    fn calls(&mut self, body: &Block, rows: &dyn Rows, open: &mut Vec<Name>) {
        walk::block(body, &mut |e| {
            if let Node::Call(op, _) = &*e.node
                && let Some(called) = rows.row(op.name)
            {
                self.row(&called, rows, open);
            }
        });
    }

    fn look(&mut self, e: &Expr, rows: &dyn Rows, open: &mut Vec<Name>) {
        match &*e.node {
            Node::Call(f, _) if GROWING.contains(&f.name.as_str()) => self.grows = true,
            // A pointwise row can be called like a builtin.
            Node::Call(f, _) => {
                if let Some(called) = rows.row(f.name).filter(|r| r.is_pointwise()) {
                    self.row(&called, rows, open);
                }
            }
            Node::Reduce(reduce) if matches!(reduce.red, Red::Sum | Red::Prod | Red::Mean) => {
                let product = matches!(&*reduce.body.node, Node::Binary(BinOp::Mul, a, b) if elements_differ(a, b));
                match reduce.red == Red::Sum && product {
                    true => self.contracts = true,
                    false => self.sums = true,
                }
            }
            _ => {}
        }
    }
}

/// Whether both expressions read elements, and of different tensors.
fn elements_differ(a: &Expr, b: &Expr) -> bool {
    let tensors = |e: &Expr| {
        let mut found = Vec::new();
        walk::expr(e, &mut |part| {
            if let Node::Access(access) = &*part.node {
                found.push(access.base.name);
            }
        });
        found
    };
    let (a, b) = (tensors(a), tensors(b));
    !a.is_empty() && !b.is_empty() && a.iter().any(|name| !b.contains(name))
}
