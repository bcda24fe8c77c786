//! Whole derivatives of a closure: its pullback, or its tangents, batched over a basis.

use super::batching::{call, permuted};
use super::derivatives::{Closure, grad, is_float, prepare};
use super::once;
use crate::error::{Error, ErrorKind};
use crate::intrinsics::Intrinsic;
use crate::scope;
use crate::tensor::Tensor;
use crate::trace::{ProxyTy, Trace};
use crate::transforms::{self, Seed};
use crate::tree::{Leaves, Tree, flatten};
use fulgurite_core::loc::Loc;
use fulgurite_core::{Dim, TensorTy, Value};
use std::time::Instant;

/// The direction of differentiation.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// Forward, with one run per element of the argument.
    Forward,
    /// Reverse, with one run per element of the result.
    Reverse,
    /// The direction with fewer runs.
    Fewer,
}

/// The derivative of every element of `f(p)` by every element of `p`, as a tree like `p`: each tensor has the axes of
/// the result, then its own. Parts of `p` that are not float tensors have the derivative 0, and keys stay unchanged.
///
/// The closure is differentiated in reverse over the elements of the result, or forward over those of `p`, whichever
/// are fewer.
///
/// # Errors
/// E712 if `p` or the result has no float tensor, and the errors of [`vjp`](super::vjp).
#[track_caller]
pub fn jacobian<P: Tree>(p: &P, f: impl FnOnce(&P) -> Tensor) -> Result<P, Error> {
    one(p, Mode::Fewer, Loc::caller(), f)
}

/// Like [`jacobian`], always forward, for results that are larger than `p`.
///
/// # Errors
/// Reports the errors of [`jacobian`].
#[track_caller]
pub fn jacobian_forward<P: Tree>(p: &P, f: impl FnOnce(&P) -> Tensor) -> Result<P, Error> {
    one(p, Mode::Forward, Loc::caller(), f)
}

/// Like [`jacobian`], always in reverse, for results that are smaller than `p`.
///
/// # Errors
/// Reports the errors of [`jacobian`].
#[track_caller]
pub fn jacobian_reverse<P: Tree>(p: &P, f: impl FnOnce(&P) -> Tensor) -> Result<P, Error> {
    one(p, Mode::Reverse, Loc::caller(), f)
}

/// The second derivatives of `f(p)`, a number: for each float tensor of `p`, in order, a tree like `p`. Entry `i` has
/// the derivatives of the gradient by tensor `i`: for each tensor of `p`, the axes of tensor `i`, then its own.
///
/// # Errors
/// Reports the errors of [`jacobian`].
#[track_caller]
pub fn hessian<P: Tree>(p: &P, f: impl FnOnce(&P) -> Tensor) -> Result<Vec<P>, Error> {
    rows(p, Mode::Forward, Loc::caller(), |p| grad(p, f))
}

fn one<P: Tree>(p: &P, mode: Mode, loc: Loc, f: impl FnOnce(&P) -> Tensor) -> Result<P, Error> {
    let mut rows = rows(p, mode, loc, f)?;
    Ok(rows.swap_remove(0))
}

/// The derivatives of each float tensor of the result, as trees like `p`.
fn rows<P: Tree, O: Tree>(p: &P, mode: Mode, loc: Loc, f: impl FnOnce(&P) -> O) -> Result<Vec<P>, Error> {
    if !scope::is_tracing() {
        return once("jacobian", || rows(p, mode, loc, f));
    }
    let closure = Closure::record("jacobian", p, loc, |p| Ok(f(p)))?;
    let all = Jacobian { p, loc, outs: floats(&closure.template)?, args: floats(p)?, closure };
    if all.outs.is_empty() {
        let leaves = flatten(&all.closure.template);
        let ty = leaves.leaves().first().map_or_else(|| "nothing".to_owned(), |t| t.type_text());
        let kind = ErrorKind::NotDifferentiable { value: "result".into(), ty: ty.clone() };
        return Err(Error::new("E712", format!("the result is {ty}, which has no derivative")).kind_is(kind).at(loc));
    }
    let blocks = match mode {
        Mode::Forward => all.forward()?,
        Mode::Reverse => all.reverse()?,
        Mode::Fewer if numel(&all.args) < numel(&all.outs) => all.forward()?,
        Mode::Fewer => all.reverse()?,
    };
    all.trees(blocks)
}

/// The types of the float tensors of a tree, in order.
fn floats<T: Tree>(tree: &T) -> Result<Vec<TensorTy>, Error> {
    let mut all = Vec::new();
    for leaf in flatten(tree).leaves() {
        leaf.check()?;
        if let (true, Some(ProxyTy::Tensor(t))) = (is_float(leaf), leaf.ty()) {
            all.push(t.ty);
        }
    }
    Ok(all)
}

fn axis(number: i64) -> Value<Tensor> {
    Value::size(Dim::from(number))
}

fn numel(types: &[TensorTy]) -> usize {
    types.iter().map(TensorTy::numel).sum()
}

fn product(shape: &[Dim]) -> Dim {
    shape.iter().fold(Dim::from(1), |all, d| all * *d)
}

/// The derivative of a result by an argument; `None` if it is 0.
type Block = Option<Tensor>;

struct Jacobian<'p, P, O> {
    p: &'p P,
    loc: Loc,
    /// The types of the float results.
    outs: Vec<TensorTy>,
    /// The types of the float arguments.
    args: Vec<TensorTy>,
    closure: Closure<O>,
}

impl<P: Tree, O: Tree> Jacobian<'_, P, O> {
    /// The derivative of each result by each argument, by the pullback of every element of the results.
    fn reverse(&self) -> Result<Vec<Vec<Block>>, Error> {
        let closure = &self.closure;
        let template = flatten(&closure.template);
        let seeds: Vec<Seed> =
            template.leaves().iter().map(|t| if is_float(t) { Seed::Input } else { Seed::Zero }).collect();
        let joint = prepare(transforms::joint(&closure.trace, &closure.wrt, &seeds)?)?;
        let values = self.over_basis(&joint.trace, &self.outs)?;
        let (mut at, mut blocks) = (Dim::from(0), Vec::new());
        for out in &self.outs {
            let end = at + product(&out.shape);
            let block = |(grad, arg): (&Option<usize>, &TensorTy)| {
                let Some(grad) = grad else { return Ok(None) };
                let rows = self.part(&values[*grad], at, end)?;
                self.shaped(&rows, out.shape.iter().chain(&arg.shape)).map(Some)
            };
            blocks.push(joint.grads.iter().zip(&self.args).map(block).collect::<Result<_, Error>>()?);
            at = end;
        }
        Ok(blocks)
    }

    /// The derivative of each result by each argument, by the tangents of every element of the arguments.
    fn forward(&self) -> Result<Vec<Vec<Block>>, Error> {
        let jvp = transforms::jvp(&self.closure.trace, &self.closure.wrt)?;
        let values = self.over_basis(&jvp.trace, &self.args)?;
        let template = flatten(&self.closure.template);
        let tangents = template.leaves().iter().zip(&jvp.tangents).filter(|(t, _)| is_float(t)).map(|(_, at)| *at);
        let mut blocks = Vec::new();
        for (out, tangent) in self.outs.iter().zip(tangents) {
            let (mut at, mut row) = (Dim::from(0), Vec::new());
            for arg in &self.args {
                let end = at + product(&arg.shape);
                row.push(match tangent {
                    Some(tangent) => {
                        let columns = self.part(&values[tangent], at, end)?;
                        // the axis of the basis moves after those of the result
                        let rank = out.shape.len();
                        let columns = permuted(&columns, &(1..=rank).chain([0]).collect::<Vec<_>>(), self.loc)?;
                        Some(self.shaped(&columns, out.shape.iter().chain(&arg.shape))?)
                    }
                    None => None,
                });
                at = end;
            }
            blocks.push(row);
        }
        Ok(blocks)
    }

    /// The outputs of a trace, batched over a basis of its last inputs, which have these types.
    fn over_basis(&self, trace: &Trace, types: &[TensorTy]) -> Result<Vec<Tensor>, Error> {
        let started = Instant::now();
        let count = types.iter().fold(Dim::from(0), |all, ty| all + product(&ty.shape));
        let mut basis = Vec::new();
        let mut at = Dim::from(0);
        for ty in types {
            let end = at + product(&ty.shape);
            let eye = vec![Value::size(count), Value::size(count), Value::DType(ty.dtype)];
            let eye = call(Intrinsic::Eye, eye, self.loc)?;
            let columns =
                call(Intrinsic::Slice, vec![Value::Tensor(eye), axis(1), Value::size(at), Value::size(end)], self.loc)?;
            basis.push(self.shaped(&columns, std::iter::once(&count).chain(&ty.shape))?);
            at = end;
        }
        let mut flags = vec![false; trace.inputs.len()];
        let first = flags.len() - types.len();
        flags[first..].fill(true);
        let made = self.closure.placed(transforms::vmap(trace, &flags, count)?);
        scope::note("jacobian", &made, started.elapsed(), None);
        self.closure.splice(self.p, &made, basis.iter())
    }

    fn part(&self, x: &Tensor, from: Dim, to: Dim) -> Result<Tensor, Error> {
        let args = vec![Value::Tensor(x.clone()), axis(0), Value::size(from), Value::size(to)];
        call(Intrinsic::Slice, args, self.loc)
    }

    fn shaped<'d>(&self, x: &Tensor, shape: impl Iterator<Item = &'d Dim>) -> Result<Tensor, Error> {
        let shape = Value::List(shape.map(|d| Value::size(*d)).collect());
        call(Intrinsic::Reshape, vec![Value::Tensor(x.clone()), shape], self.loc)
    }

    /// Blocks as trees like the argument; absent derivatives become zeros.
    fn trees(&self, blocks: Vec<Vec<Block>>) -> Result<Vec<P>, Error> {
        let leaves = flatten(self.p);
        let tree = |(out, row): (&TensorTy, Vec<Block>)| {
            let mut made = Vec::new();
            for (leaf, at) in leaves.leaves().iter().zip(&self.closure.position) {
                let block = at.and_then(|at| row[at].clone());
                made.push(match (block, leaf.ty()) {
                    (Some(block), _) => block,
                    (None, Some(ProxyTy::Tensor(t))) => {
                        let shape = out.shape.iter().chain(&t.ty.shape).copied().collect();
                        scope::full(&TensorTy { dtype: t.ty.dtype, shape }, 0.0)?
                    }
                    (None, _) => (*leaf).clone(),
                });
            }
            Ok(self.p.rebuild(&mut Leaves::new(&mut made.into_iter())))
        };
        self.outs.iter().zip(blocks).map(tree).collect()
    }
}
