//! Loop nests: a row's meaning at concrete ranks, as loops over typed scalar expressions.
//!
//! Lowering ([`crate::lower`]) expands lists of axes into single index variables, evaluates static conditions and
//! sizes, and types every node. The interpreter, the CPU executor, CUDA emission and build-time checks all read this
//! form.

use crate::builtins::Builtin;
use crate::lang::ast::Red;
use crate::{DType, Dim, Scalar};
use std::sync::Arc;

/// An index variable of a nest: an index into [`Nest::vars`].
pub type VarId = usize;

/// `for out axes { outs[i][..] = exprs[i] }`
#[derive(Clone, Debug, PartialEq)]
pub struct Nest {
    /// The results, each with axes of its own.
    pub outs: Vec<NestOut>,
    /// Every index variable, those of results first: its extent (`0..extent` unless its binder gives a range).
    pub vars: Vec<Dim>,
    /// The rank of each tensor that is loaded, in the order of `Load::tensor`.
    pub ranks: Vec<usize>,
    /// Whether the meaning is pointwise: loads have no indices ([`SOp::Elem`]) and there is one implicit position.
    pub pointwise: bool,
}

/// One result of a nest.
#[derive(Clone, Debug, PartialEq)]
pub struct NestOut {
    /// The variable of each axis; `None`: an axis of size 1 without a variable.
    pub axes: Vec<Option<VarId>>,
    /// Sizes.
    pub shape: Vec<Dim>,
    /// Element type of the stored result (`expr` is cast to it).
    pub dtype: DType,
    /// The value.
    pub expr: LoopExpr,
}

/// A typed scalar expression; subterms are shared.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopExpr(pub Arc<SNode>);

/// An operation and the dtype of its value. Computations on f16 and bf16 are f32; a cast to them rounds.
#[derive(Debug, PartialEq)]
pub struct SNode {
    /// The operation.
    pub op: SOp,
    /// The dtype of the value.
    pub ty: DType,
    weight: u32,
}

/// Operations of scalar expressions.
#[derive(Debug, PartialEq)]
pub enum SOp {
    /// A constant of the node's dtype.
    Const(Scalar),
    /// A run-time number: position in the call's list of numbers.
    Num(usize),
    /// The value of an index variable (i64).
    Var(VarId),
    /// The element of tensor argument `.0` at the one implicit position (pointwise nests), cast to the node's dtype.
    Elem(usize),
    /// An element of a tensor argument, cast to the node's dtype.
    Load {
        /// Position among the call's tensors (items of lists counted one by one).
        tensor: usize,
        /// One index (i64) per axis.
        idx: Vec<LoopExpr>,
        /// The value outside of the tensor.
        outside: SOutside,
    },
    /// A builtin.
    Call(Builtin, Vec<LoopExpr>),
    /// Conversion to the node's dtype.
    Cast(LoopExpr),
    /// `if c { a } else { b }`: selects, never multiplies.
    Select(LoopExpr, LoopExpr, LoopExpr),
    /// A reduction.
    Reduce {
        /// Its kind. `ArgMax`/`ArgMin` give the flat position over `vars` (row-major), `Only` the one alternative that
        /// exists.
        red: Red,
        /// Bound variables with their half-open ranges.
        vars: Vec<SRange>,
        /// The filter.
        filter: Option<LoopExpr>,
        /// The reduced expression, accumulated in the node's dtype.
        body: LoopExpr,
        /// The value if there is no element.
        otherwise: Option<LoopExpr>,
    },
    /// Philox: a number in [0, 1) for this key argument (position among tensors), position and draw.
    Uniform {
        /// Position of the key among the call's tensors.
        key: usize,
        /// The position of the draw (i64).
        position: LoopExpr,
        /// Constant draw number.
        draw: u32,
    },
    /// The value, with derivative zero.
    Detach(LoopExpr),
}

impl SOp {
    /// The operation with `f` applied to its parts.
    pub fn map(&self, f: &dyn Fn(&LoopExpr) -> LoopExpr) -> SOp {
        let all = |es: &[LoopExpr]| es.iter().map(f).collect::<Vec<_>>();
        match self {
            SOp::Const(s) => SOp::Const(*s),
            SOp::Num(k) => SOp::Num(*k),
            SOp::Var(v) => SOp::Var(*v),
            SOp::Elem(t) => SOp::Elem(*t),
            SOp::Load { tensor, idx, outside } => {
                let outside = match outside {
                    SOutside::Value(v) => SOutside::Value(f(v)),
                    other => other.clone(),
                };
                SOp::Load { tensor: *tensor, idx: all(idx), outside }
            }
            SOp::Call(b, args) => SOp::Call(*b, all(args)),
            SOp::Cast(a) => SOp::Cast(f(a)),
            SOp::Select(c, a, b) => SOp::Select(f(c), f(a), f(b)),
            SOp::Reduce { red, vars, filter, body, otherwise } => SOp::Reduce {
                red: *red,
                vars: vars.iter().map(|r| SRange { var: r.var, lo: f(&r.lo), hi: f(&r.hi) }).collect(),
                filter: filter.as_ref().map(f),
                body: f(body),
                otherwise: otherwise.as_ref().map(f),
            },
            SOp::Uniform { key, position, draw } => SOp::Uniform { key: *key, position: f(position), draw: *draw },
            SOp::Detach(a) => SOp::Detach(f(a)),
        }
    }

    /// Calls `f` on every direct part.
    pub fn parts<'a>(&'a self, f: &mut dyn FnMut(&'a LoopExpr)) {
        match self {
            SOp::Const(_) | SOp::Num(_) | SOp::Var(_) | SOp::Elem(_) => {}
            SOp::Load { idx, outside, .. } => {
                idx.iter().for_each(&mut *f);
                if let SOutside::Value(value) = outside {
                    f(value);
                }
            }
            SOp::Call(_, args) => args.iter().for_each(f),
            SOp::Cast(a) | SOp::Detach(a) => f(a),
            SOp::Select(c, a, b) => [c, a, b].into_iter().for_each(f),
            SOp::Reduce { vars, filter, body, otherwise, .. } => {
                vars.iter().flat_map(|range| [&range.lo, &range.hi]).for_each(&mut *f);
                filter.iter().for_each(&mut *f);
                f(body);
                otherwise.iter().for_each(f);
            }
            SOp::Uniform { position, .. } => f(position),
        }
    }
}

/// `lo..hi` of a bound variable.
#[derive(Clone, Debug, PartialEq)]
pub struct SRange {
    /// The variable.
    pub var: VarId,
    /// First value.
    pub lo: LoopExpr,
    /// One past the last value.
    pub hi: LoopExpr,
}

/// The value of an access outside of its tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum SOutside {
    /// An error (index tensors), unless it is proved not to occur.
    Refuse,
    /// The element is skipped in the innermost reduction.
    Skip,
    /// This value.
    Value(LoopExpr),
}

/// The bounds of an index operation, from those of its operands, where they are known.
pub fn range_of(b: Builtin, x: (i64, i64), y: (i64, i64)) -> Option<(i64, i64)> {
    match b {
        Builtin::Add => Some((x.0.checked_add(y.0)?, x.1.checked_add(y.1)?)),
        Builtin::Sub => Some((x.0.checked_sub(y.1)?, x.1.checked_sub(y.0)?)),
        Builtin::Mul => {
            let product = |p: i64, q: i64| p.checked_mul(q);
            let all = [product(x.0, y.0)?, product(x.0, y.1)?, product(x.1, y.0)?, product(x.1, y.1)?];
            Some((all.into_iter().min()?, all.into_iter().max()?))
        }
        Builtin::Max => Some((x.0.max(y.0), x.1.max(y.1))),
        Builtin::Min => Some((x.0.min(y.0), x.1.min(y.1))),
        Builtin::DivFloor if y.0 == y.1 && y.0 > 0 => Some((x.0.div_euclid(y.0), x.1.div_euclid(y.0))),
        Builtin::RemFloor if y.0 == y.1 && y.0 > 0 => Some((0, y.0 - 1)),
        _ => None,
    }
}

impl LoopExpr {
    /// A node.
    pub fn new(op: SOp, ty: DType) -> LoopExpr {
        let mut weight: u32 = 1;
        op.parts(&mut |part| weight = weight.saturating_add(part.weight()));
        LoopExpr(Arc::new(SNode { op, ty, weight }))
    }
    /// The number of nodes of the written-out tree: a shared part counts as often as it occurs.
    pub fn weight(&self) -> u32 {
        self.0.weight
    }
    /// The operation at the root of the expression.
    pub fn op(&self) -> &SOp {
        &self.0.op
    }
    /// The dtype of the expression.
    pub fn ty(&self) -> DType {
        self.0.ty
    }
    /// An i64 constant.
    pub fn int(i: i64) -> LoopExpr {
        LoopExpr::new(SOp::Const(Scalar::Int(i)), DType::I64)
    }
    /// The value, if it is a constant.
    pub fn as_const(&self) -> Option<Scalar> {
        match self.op() {
            SOp::Const(s) => Some(*s),
            _ => None,
        }
    }
    /// The value, if it is an integer constant.
    pub fn as_int(&self) -> Option<i64> {
        match self.op() {
            SOp::Const(Scalar::Int(i)) => Some(*i),
            _ => None,
        }
    }
}

impl Nest {
    /// The nest with tensor `i` renumbered to `to[i]`, or removed if that is `usize::MAX`: for callers that pass no
    /// tensor where only a type was given.
    pub fn renumbered(&self, to: &[usize]) -> Nest {
        let outs = self.outs.iter().map(|o| NestOut { expr: o.expr.renumbered(to), ..o.clone() }).collect();
        let mut ranks = vec![0; to.iter().filter(|at| **at != usize::MAX).count()];
        for (rank, at) in self.ranks.iter().zip(to) {
            if let Some(slot) = ranks.get_mut(*at) {
                *slot = *rank;
            }
        }
        Nest { outs, ranks, vars: self.vars.clone(), pointwise: self.pointwise }
    }
}

impl LoopExpr {
    fn renumbered(&self, to: &[usize]) -> LoopExpr {
        self.renamed(&|tensor| to.get(tensor).copied().unwrap_or(tensor), &|var| var)
    }

    /// The expression with the operations replaced for which `put` gives one; the parts of a replacement are kept as
    /// they are.
    pub fn rebuilt(&self, put: &dyn Fn(&SOp) -> Option<SOp>) -> LoopExpr {
        let op = put(self.op()).unwrap_or_else(|| self.op().map(&|e| e.rebuilt(put)));
        LoopExpr::new(op, self.ty())
    }

    /// The expression with renamed tensors and index variables.
    pub fn renamed(&self, tensor: &dyn Fn(usize) -> usize, var: &dyn Fn(VarId) -> VarId) -> LoopExpr {
        let op = match self.op().map(&|e| e.renamed(tensor, var)) {
            SOp::Var(v) => SOp::Var(var(v)),
            SOp::Elem(t) => SOp::Elem(tensor(t)),
            SOp::Load { tensor: t, idx, outside } => SOp::Load { tensor: tensor(t), idx, outside },
            SOp::Reduce { red, vars, filter, body, otherwise } => {
                let vars = vars.into_iter().map(|r| SRange { var: var(r.var), ..r }).collect();
                SOp::Reduce { red, vars, filter, body, otherwise }
            }
            SOp::Uniform { key, position, draw } => SOp::Uniform { key: tensor(key), position, draw },
            other => other,
        };
        LoopExpr::new(op, self.ty())
    }
}
