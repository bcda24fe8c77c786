//! Refusals that a call can raise only at run time: an index element outside of its axis, an integer divided by zero, a
//! condition that reads elements.
//!
//! Such a refusal is an effect of the call. Transforms keep a call that may refuse even if its results are unused.

use crate::builtins::Builtin;
use crate::lang::ast::{BinOp, Block, Node, Outside, Pattern, Place, Stmt};
use crate::lang::walk;
use crate::loop_nest::{LoopExpr, Nest, SNode, SOp, SOutside};
use crate::name::Name;
use crate::row::{Meaning, Row};
use std::collections::HashSet;
use std::sync::Arc;

/// The divisions of integers, which have no value for a divisor of 0.
pub const INTEGER_DIVISIONS: [Builtin; 4] =
    [Builtin::RemTrunc, Builtin::RemFloor, Builtin::DivTrunc, Builtin::DivFloor];

/// Whether some call of a row may refuse at run time, judged by its text: `false` is certain, `true` is not. `calls`
/// answers this for the rows that it calls.
pub fn of_text(row: &Row, calls: &dyn Fn(Name) -> bool) -> bool {
    if !row.require.is_empty() {
        return true;
    }
    match &row.meaning {
        Meaning::Host(_) => false,
        Meaning::Decomp(block) => of_block(row, block, calls, &|op| calls(Name::new(op.row()))),
        Meaning::Expr(block) | Meaning::View(block) => {
            let divides = |op: BinOp| matches!(op, BinOp::Div | BinOp::Rem);
            let called = |name: Name| match Builtin::from_name(name.as_str()) {
                Some(builtin) => INTEGER_DIVISIONS.contains(&builtin),
                None => calls(name),
            };
            of_block(row, block, &called, &divides)
        }
    }
}

fn of_block(row: &Row, block: &Block, call: &dyn Fn(Name) -> bool, operator: &dyn Fn(BinOp) -> bool) -> bool {
    let values = values(row, block);
    walk::any(block, &mut |e| match &*e.node {
        Node::Call(f, _) => call(f.name),
        Node::Binary(op, ..) => operator(*op),
        Node::Access(access) if access.outside == Outside::Refuse => {
            access.places.iter().any(|place| place_reads(place, &values))
        }
        _ => false,
    })
}

/// Whether a place of an access may depend on elements: on an argument, or on a name that a `let` gives to a value.
fn place_reads(place: &Place, values: &[Name]) -> bool {
    let (Place::One(e) | Place::Zip(e) | Place::Unravel(e) | Place::BroadcastZip(e)) = place else { return false };
    walk::any_expr(e, &mut |e| match &*e.node {
        Node::Access(access) => values.contains(&access.base.name),
        Node::Name(name) => values.contains(name),
        _ => false,
    })
}

/// The arguments of a row, and the names that the `let`s of a block bind.
fn values(row: &Row, block: &Block) -> Vec<Name> {
    let mut names: Vec<Name> = row.sig.params.iter().map(|p| p.name.name).collect();
    let mut lets = |block: &Block| {
        for stmt in &block.stmts {
            match stmt {
                Stmt::Let(Pattern::Name(n) | Pattern::Axes(n, _), _) => names.push(n.name),
                Stmt::Let(Pattern::Tuple(list), _) => names.extend(list.iter().map(|n| n.name)),
                Stmt::Write(..) => {}
            }
        }
    };
    lets(block);
    walk::block(block, &mut |e| {
        if let Node::If(_, yes, no) = &*e.node {
            lets(yes);
            lets(no);
        }
    });
    names
}

/// Whether a meaning may refuse an element: it reads a tensor at an index that is computed from elements, or divides
/// integers by a divisor that is not a constant.
pub fn of_nest(nest: &Nest) -> bool {
    let mut search = Search::default();
    nest.outs.iter().any(|out| search.refuses(&out.expr))
}

/// The search; subterms are shared, so each is visited once.
#[derive(Default)]
struct Search {
    harmless: HashSet<*const SNode>,
    computed: HashSet<*const SNode>,
    fixed: HashSet<*const SNode>,
}

impl Search {
    fn refuses(&mut self, e: &LoopExpr) -> bool {
        let at = Arc::as_ptr(&e.0);
        if self.harmless.contains(&at) {
            return false;
        }
        let own = match e.op() {
            SOp::Load { idx, outside: SOutside::Refuse, .. } => idx.iter().any(|i| self.reads(i)),
            SOp::Call(builtin, args) if INTEGER_DIVISIONS.contains(builtin) => {
                let constant = |d: &LoopExpr| matches!(d.op(), SOp::Const(c) if c.as_i64() != 0);
                e.ty().is_int() && !args.get(1).is_some_and(constant)
            }
            _ => false,
        };
        let mut parts = false;
        if !own {
            e.op().parts(&mut |part| parts = parts || self.refuses(part));
        }
        if !own && !parts {
            self.harmless.insert(at);
        }
        own || parts
    }

    /// Whether a value depends on data that is known only at run time.
    fn reads(&mut self, e: &LoopExpr) -> bool {
        let at = Arc::as_ptr(&e.0);
        if self.computed.contains(&at) {
            return true;
        }
        if self.fixed.contains(&at) {
            return false;
        }
        let mut reads = matches!(e.op(), SOp::Load { .. } | SOp::Elem(_) | SOp::Num(_) | SOp::Uniform { .. });
        if !reads {
            e.op().parts(&mut |part| reads = reads || self.reads(part));
        }
        if reads {
            self.computed.insert(at)
        } else {
            self.fixed.insert(at)
        };
        reads
    }
}
