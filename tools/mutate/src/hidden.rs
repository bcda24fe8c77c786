//! Faults that few calls reveal: steps beyond two, equal sizes, numbers that a narrow dtype loses, bounds of padding.

use fulgurite_core::Name;
use fulgurite_core::derive::walk;
use fulgurite_core::lang::{BinOp, Block, DimKind, Expr, Node, OptType, Sig};

use super::exprs::Faulty;
use super::kinds::Kind;
use super::nodes;

/// Constants below this keep a divisor from 0; the fault scales them by 1e-12, which f16 cannot represent.
const SMALL: f64 = 1e-3;

/// Texts with one such fault; `tensors` says whether the text is a program of rows, or a rule.
pub(super) fn faults(block: &Block, sig: &Sig, tensors: bool) -> Vec<Faulty<Block>> {
    let mut all = Vec::new();
    let steps = sig.opts.iter().filter(|opt| opt.ty == OptType::I64).map(|opt| opt.name.name);
    for step in steps {
        let name = || Expr::name(step.as_str());
        let two = || Expr::bare(Node::Int(2));
        let beyond = || binary(BinOp::Gt, name(), two());
        let held = choice(beyond(), two(), name());
        let turned = choice(beyond(), binary(BinOp::Sub, Expr::bare(Node::Int(0)), name()), name());
        for other in [held, turned] {
            let mut once = false;
            // Only the first use changes: changing all of them may give a right text again.
            let whole = walk::map_block(block, &mut |e| {
                let first = !once && matches!(&*e.node, Node::Name(name) if *name == step);
                once |= first;
                first.then(|| other.clone())
            });
            if whole != *block {
                all.push(Faulty { kind: Kind(40), edit: (step.to_string(), other.to_string()), whole });
            }
        }
    }
    if let [a, b, ..] = sizes(sig).as_slice()
        && !matches!(&*block.value.node, Node::Tuple(_) | Node::List(_))
    {
        let equal = binary(BinOp::Eq, Expr::name(a.as_str()), Expr::name(b.as_str()));
        let twice = binary(BinOp::Mul, block.value.clone(), Expr::bare(Node::Int(2)));
        let value = choice(equal, twice, block.value.clone());
        let edit = (block.value.to_string(), value.to_string());
        all.push(Faulty { kind: Kind(41), edit, whole: Block { value, ..block.clone() } });
    }
    if tensors {
        let mut small = Vec::new();
        fulgurite_core::lang::walk::block(block, &mut |e| {
            if let Node::Float(x) = &*e.node
                && (0.0..SMALL).contains(x)
                && *x > 0.0
                && !small.contains(x)
            {
                small.push(*x);
            }
        });
        for x in small {
            let other = Expr::bare(Node::Float(x * 1e-12));
            let whole =
                walk::map_block(block, &mut |e| matches!(&*e.node, Node::Float(of) if *of == x).then(|| other.clone()));
            all.push(Faulty {
                kind: Kind(43),
                edit: (Expr::bare(Node::Float(x)).to_string(), other.to_string()),
                whole,
            });
        }
    }
    all
}

/// A condition without the upper bound of a padding, such as `2 * padding <= K`.
pub(super) fn unbounded(cond: &Expr) -> Vec<Faulty<Expr>> {
    let mut all = Vec::new();
    fulgurite_core::lang::walk::expr(cond, &mut |e| {
        let bound = matches!(&*e.node, Node::Binary(BinOp::Le | BinOp::Lt, left, _)
            if matches!(&*left.node, Node::Binary(BinOp::Mul, ..)) || matches!(&*left.node, Node::Name(name) if name.as_str().contains("pad")));
        if bound {
            let whole = walk::map(cond, &mut |part| (part.span == e.span && part == e).then(|| Expr::name("true")));
            all.push(Faulty { kind: Kind(45), edit: (e.to_string(), "true".to_owned()), whole });
        }
    });
    all.retain(|faulty| faulty.whole != *cond);
    all
}

/// Sizes of axes, and of windows.
fn sizes(sig: &Sig) -> Vec<Name> {
    let mut sizes = Vec::new();
    for dim in sig.params.iter().filter_map(|param| param.ty.dims.as_ref()).flatten() {
        if let DimKind::One { size, .. } = &dim.kind
            && let Node::Name(name) = &*size.node
            && !sizes.contains(name)
        {
            sizes.push(*name);
        }
    }
    for opt in &sig.opts {
        if let OptType::Size(size) = &opt.ty
            && !sizes.contains(size)
        {
            sizes.push(*size);
        }
    }
    sizes
}

fn binary(op: BinOp, left: Expr, right: Expr) -> Expr {
    Expr::bare(Node::Binary(op, left, right))
}

fn choice(cond: Expr, yes: Expr, no: Expr) -> Expr {
    Expr::bare(Node::If(cond, nodes::block(yes), nodes::block(no)))
}
