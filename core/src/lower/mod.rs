//! Lowering: a scalar or index body at solved sizes becomes a [`Nest`].
//!
//! Lists of axes become single index variables, static conditions and sizes are evaluated, and every node gets a dtype.
//! Typing follows one rule: a value that comes from an element has the element's compute dtype; a value that comes from
//! options, sizes or indices adapts to the elements that it is combined with.

mod access;
mod build;
mod expr;
mod overlap;
mod reduce;
mod vacant;
pub mod variant;

use crate::builtins::Builtin;
use crate::dtype::DType;
use crate::lang::ast::*;
use crate::loop_nest::*;
use crate::row::Row;
use crate::signature::const_eval::{At, Stop};
use crate::signature::shapes::{self, Index};
use crate::signature::{Env, Item, OutTy, Refusal, Solved};
use crate::{Dim, Name};
use std::borrow::Cow;

pub use access::rounded_to;
pub use build::{cast, holds, int_op, positions, select};

/// Finds the pointwise rows that an `expr` calls.
pub trait Rows {
    /// The row called `name`.
    fn row(&self, name: Name) -> Option<std::sync::Arc<Row>>;

    /// Every name, for proposals in messages and for overloads.
    fn names(&self) -> Vec<Name> {
        Vec::new()
    }
}

/// No rows: for bodies that call only builtins.
pub struct NoRows;

impl Rows for NoRows {
    fn row(&self, _: Name) -> Option<std::sync::Arc<Row>> {
        None
    }
}

/// Lowers `block`, the meaning of `row`, for a solved call.
///
/// # Errors
/// E706 where the body has no meaning for this call (codegen refuses such rows).
pub fn lower(row: &Row, block: &Block, solved: &Solved) -> Result<Nest, Refusal> {
    lower_with(row, block, solved, &NoRows)
}

/// Lowers `block` like [`lower`], with rows that the body can call.
///
/// # Errors
/// The errors are those of [`lower`].
pub fn lower_with(row: &Row, block: &Block, solved: &Solved, rows: &dyn Rows) -> Result<Nest, Refusal> {
    let mut lowering = Lowering {
        row,
        env: Cow::Borrowed(&solved.env),
        compute: solved.compute,
        rows,
        vars: Vec::new(),
        indices: Vec::new(),
        lets: Vec::new(),
        pointwise: row.is_pointwise(),
        depth: 0,
        inlined: 0,
    };
    lowering.nest(block, solved).map_err(|stop| match stop {
        Stop::Refused(r) => r,
        Stop::NotStatic => {
            Refusal::new("E706", format!("the body of `{}` needs something that is not known here", row.op))
        }
    })
}

/// A value during lowering.
#[derive(Clone, Debug)]
enum L {
    /// One scalar.
    One(Typed),
    /// A list of indices; `None`: not bound (yet).
    List(Vec<Option<Typed>>),
    /// A flat position that stands for the indices of these axes.
    Unraveled(Typed, Vec<Dim>),
    /// Several results.
    Tuple(Vec<L>),
}

/// A scalar and its role in typing.
#[derive(Clone, Debug)]
struct Typed {
    e: LoopExpr,
    /// Whether it comes from an element of a tensor, so that others adapt to it.
    elem: bool,
}

struct Lowering<'a> {
    row: &'a Row,
    /// Owned once indices are bound in it.
    env: Cow<'a, Env>,
    compute: DType,
    rows: &'a dyn Rows,
    vars: Vec<Dim>,
    indices: Vec<(Name, L)>,
    lets: Vec<(Name, L)>,
    pointwise: bool,
    depth: usize,
    /// The number of inlined rows.
    inlined: usize,
}

type Res<T> = Result<T, Stop>;

/// The variables of a result's axes, and pairs of them that must be equal.
type Axes = (Vec<Option<VarId>>, Vec<(VarId, VarId)>);

/// A fault of a body, with a remedy.
fn advised(row: &Row, message: impl std::fmt::Display, help: impl Into<String>) -> Stop {
    match fault(row, message) {
        Stop::Refused(refusal) => Stop::Refused(refusal.help(help)),
        other => other,
    }
}

fn fault(row: &Row, message: impl std::fmt::Display) -> Stop {
    Stop::Refused(Refusal::new("E706", format!("the body of `{}`: {message}", row.op)))
}

/// The fault that a body reads an argument that the call does not give.
fn not_given(row: &Row, what: &str) -> Stop {
    let refusal = Refusal::new("E706", format!("the body of `{}`: {what} was not given", row.op));
    Stop::Refused(refusal.help("ask first: `if some(…) { … } else { … }`"))
}

/// The fault that result `n` of a body is not a single value.
fn no_scalar(row: &Row, results: &Expr, n: usize, value: &L) -> Stop {
    let result = match &*results.node {
        Node::Tuple(all) => all.get(n).unwrap_or(results),
        _ => results,
    };
    let stop = match value {
        L::List(_) | L::Unraveled(..) => {
            let help = format!("a result is one value for each element: the flat position is `ravel({result})`");
            advised(row, "a result is a list of indices", help)
        }
        L::One(_) | L::Tuple(_) => fault(row, "a result is no scalar"),
    };
    match stop {
        Stop::Refused(refusal) => Stop::Refused(Refusal { at: refusal.at.or(Some(result.span)), ..refusal }),
        other => other,
    }
}

impl Lowering<'_> {
    fn nest(&mut self, block: &Block, solved: &Solved) -> Res<Nest> {
        let row = self.row;
        let declared: Vec<&Out> = row.sig.outs.iter().chain(&row.sig.aux).collect();
        let types: Vec<&OutTy> = solved.outs.iter().chain(&solved.aux).collect();
        let mut outs = Vec::new();
        for (n, (out, ty)) in declared.iter().zip(&types).enumerate() {
            let items = match ty {
                OutTy::Tensor(t) => vec![(None, t)],
                OutTy::List(ts) => ts.iter().enumerate().map(|(i, t)| (Some(i), t)).collect(),
                OutTy::FromBody => return Err(fault(row, "a result of unknown length")),
            };
            for (item, t) in items {
                self.indices.clear();
                self.lets.clear();
                let at = At { axis: None, item };
                let (axes, diagonal) = self.out_axes(out, &t.shape, at)?;
                if let Some(i) = item {
                    self.lets.push((Name::new("i"), L::One(Typed { e: LoopExpr::int(i as i64), elem: false })));
                }
                let value = self.block(block, at)?;
                let value = match value {
                    L::Tuple(mut vs) if n < vs.len() => vs.swap_remove(n),
                    L::Tuple(_) => return Err(fault(row, "fewer values than results")),
                    one => one,
                };
                let L::One(v) = value else { return Err(no_scalar(row, &block.value, n, &value)) };
                let expr = diagonal.into_iter().fold(v.e, |e, (a, b)| {
                    let index = |v| LoopExpr::new(SOp::Var(v), DType::I64);
                    let zero = build::cast(LoopExpr::int(0), e.ty());
                    build::select(build::compare(Builtin::Eq, index(a), index(b)), e, zero)
                });
                outs.push(NestOut { axes, shape: t.shape.to_vec(), dtype: t.dtype, expr });
            }
        }
        let ranks = self.env.slots.iter().map(|t| t.as_ref().map_or(1, |t| t.rank())).collect();
        Ok(Nest { outs, vars: std::mem::take(&mut self.vars), ranks, pointwise: self.pointwise })
    }

    fn var(&mut self, extent: Dim) -> (VarId, Typed) {
        self.vars.push(extent);
        let id = self.vars.len() - 1;
        let e = if extent.is_const() && extent.value() == 1 {
            LoopExpr::int(0)
        } else {
            LoopExpr::new(SOp::Var(id), DType::I64)
        };
        (id, Typed { e, elem: false })
    }

    /// The variables of a result's axes, whose indices they bind. If a type names an axis of a list twice, the result
    /// is a diagonal; then the second part holds the variables that must be equal, since the result is 0 elsewhere.
    fn out_axes(&mut self, out: &Out, shape: &[Dim], at: At) -> Res<Axes> {
        let Some(dims) = &out.ty.dims else {
            if self.pointwise {
                return Ok((shape.iter().map(|_| None).collect(), Vec::new()));
            }
            return Err(fault(self.row, "a result without brackets needs pointwise arguments"));
        };
        let mut axes = shapes::build(self.env.to_mut(), dims, at)?;
        if axes.len() == 1 && shape.is_empty() {
            // The imagined axis of a rank-0 argument.
            self.bind_axis(&axes[0].index, Dim::from(1), LoopExpr::int(0));
            axes.clear();
        }
        let mut ids = Vec::new();
        let mut diagonal = Vec::new();
        for (n, axis) in axes.iter().enumerate() {
            if axis.index == Index::Unit {
                ids.push(None);
                continue;
            }
            let (id, v) = self.var(axis.size);
            ids.push(Some(id));
            if let Some(first) = axes[..n].iter().position(|a| matches!(a.index, Index::Item(..)) && a == axis) {
                diagonal.extend(ids[first].map(|twin| (twin, id)));
                continue;
            }
            self.bind_axis(&axis.index, axis.size, v.e);
        }
        Ok((ids, diagonal))
    }

    fn bind_axis(&mut self, index: &Index, _size: Dim, e: LoopExpr) {
        let one = |e: LoopExpr| L::One(Typed { e, elem: false });
        match index {
            Index::Unit | Index::Anonymous => {}
            Index::One(n) => self.indices.push((n.index_of_size(), one(e))),
            Index::Composite(g, c) => {
                let extent = |n: &Name| match self.env.size(*n) {
                    Some(crate::signature::Size::One(d)) => *d,
                    _ => Dim::from(1),
                };
                let (ge, ce) = (extent(g), extent(c));
                let (slow, fast) = build::split(e, ge, ce);
                self.indices.push((g.index_of_size(), one(slow)));
                self.indices.push((c.index_of_size(), one(fast)));
            }
            Index::Item(list, pos) => self.set_index(list.index_of_size(), *list, *pos, e),
        }
    }

    /// Binds the index of one axis of a list.
    fn set_index(&mut self, name: Name, list: Name, pos: usize, e: LoopExpr) {
        let rank = match self.env.size(list) {
            Some(crate::signature::Size::List(l)) => l.len(),
            _ => pos + 1,
        };
        let entry = match self.indices.iter_mut().rev().find(|(n, _)| *n == name) {
            Some((_, L::List(entries))) => entries,
            _ => {
                self.indices.push((name, L::List(vec![None; rank])));
                match self.indices.last_mut() {
                    Some((_, L::List(entries))) => entries,
                    _ => return,
                }
            }
        };
        if entry.len() <= pos {
            entry.resize(pos + 1, None);
        }
        entry[pos] = Some(Typed { e, elem: false });
    }

    fn lookup(&self, name: Name) -> Option<L> {
        self.lets.iter().rev().chain(self.indices.iter().rev()).find(|(n, _)| *n == name).map(|(_, v)| v.clone())
    }

    fn block(&mut self, block: &Block, at: At) -> Res<L> {
        let depth = self.lets.len();
        let indices = self.indices.len();
        for stmt in &block.stmts {
            match stmt {
                Stmt::Let(Pattern::Name(id), e) => {
                    let v = self.any(e, at)?;
                    self.lets.push((id.name, v));
                }
                Stmt::Let(Pattern::Axes(id, axes), e) => {
                    let list = id.name.size_of_index();
                    let rank = self.list_rank(list)?;
                    let v = self.scalar(e, at)?;
                    for axis in crate::signature::const_eval::axes(&self.env, axes, rank, at)? {
                        self.set_index(id.name, list, axis, v.e.clone());
                    }
                }
                Stmt::Let(Pattern::Tuple(ids), e) => match self.any(e, at)? {
                    L::Tuple(vs) if vs.len() >= ids.len() => {
                        self.lets.extend(ids.iter().map(|i| i.name).zip(vs));
                    }
                    _ => return Err(fault(self.row, "`let ( )` needs as many values as names")),
                },
                Stmt::Write(..) => return Err(fault(self.row, "`<-` stands in the tensor language only")),
            }
        }
        let v = self.any(&block.value, at)?;
        self.lets.truncate(depth);
        self.indices.truncate(indices);
        Ok(v)
    }

    fn list_rank(&self, list: Name) -> Res<usize> {
        match self.env.size(list) {
            Some(crate::signature::Size::List(l)) => Ok(l.len()),
            Some(crate::signature::Size::Each(l)) => Ok(l.len()),
            _ => Err(fault(self.row, format!("`{list}` is no list"))),
        }
    }

    /// The first tensor slot and the types of a tensor argument's items.
    fn slots(&self, name: Name) -> Option<(usize, usize)> {
        match self.env.item(name)? {
            Item::Tensor(slot) => Some((*slot, 1)),
            Item::Tensors(slot, n) => Some((*slot, *n)),
            _ => None,
        }
    }
}
