//! Accesses that leave a tensor, found without running the loops: these may be too long to run, or a run may have had
//! data that spared the access. Where an index is a linear combination of loop variables, its extreme values occur.

use fulgurite_core::Scalar;
use fulgurite_core::builtins::Builtin;
use fulgurite_core::lang::Red;
use fulgurite_core::loop_nest::{LoopExpr, Nest, SOp, SOutside, SRange, VarId};

/// An access that leaves its tensor.
pub(super) struct Left {
    /// Position among the call's tensors.
    pub(super) tensor: usize,
    pub(super) axis: usize,
    pub(super) index: i64,
    pub(super) size: usize,
}

/// The first access of `nest` that leaves a tensor of these shapes and is made always, or for some elements. `None`
/// proves nothing.
pub(super) fn find(nest: &Nest, shapes: &[&[usize]]) -> Option<Left> {
    nest.outs.iter().find_map(|out| {
        let mut vars = vec![None; nest.vars.len()];
        for axis in out.axes.iter().flatten() {
            *vars.get_mut(*axis)? = Some(range(0, nest.vars.get(*axis)?.value())?);
        }
        out.shape.iter().all(|n| n.value() > 0).then(|| Walk { shapes, vars }.walk(&out.expr))?
    })
}

/// First and last value of a loop variable whose loop is not empty.
type Range = (i64, i64);

fn range(lo: i64, hi: i64) -> Option<Range> {
    (lo < hi).then_some((lo, hi - 1))
}

struct Walk<'a> {
    shapes: &'a [&'a [usize]],
    /// The range of each variable in scope; `None` where its bounds are not constant.
    vars: Vec<Option<Range>>,
}

impl Walk<'_> {
    /// Visits the parts of `e` that are evaluated always, or for some elements.
    fn walk(&mut self, e: &LoopExpr) -> Option<Left> {
        match e.op() {
            SOp::Load { tensor, idx, outside } => {
                let inner = idx.iter().find_map(|i| self.walk(i));
                inner.or_else(|| if *outside == SOutside::Refuse { self.leaves(*tensor, idx) } else { None })
            }
            // other builtins evaluate all arguments; these may spare all but the first
            SOp::Call(b, args) => {
                let spares = matches!(b, Builtin::And | Builtin::Or | Builtin::Select);
                let sure = if spares && !args.first().is_some_and(of_elements) { 1 } else { args.len() };
                args.iter().take(sure).find_map(|arg| self.walk(arg))
            }
            SOp::Cast(a) | SOp::Detach(a) | SOp::Uniform { position: a, .. } => self.walk(a),
            SOp::Select(cond, a, b) => {
                let sure = if of_elements(cond) { 3 } else { 1 };
                [cond, a, b].into_iter().take(sure).find_map(|part| self.walk(part))
            }
            SOp::Reduce { red, vars, filter, body, .. } if whole(*red) && !skips(body) => {
                vars.iter().try_for_each(|bound| self.bind(bound))?;
                let sure = filter.as_ref().is_none_or(of_elements);
                filter.iter().chain(sure.then_some(body)).find_map(|part| self.walk(part))
            }
            _ => None,
        }
    }

    /// Binds a loop variable. `None` where the loop is not known to run.
    fn bind(&mut self, bound: &SRange) -> Option<()> {
        let known = range(bound.lo.as_int()?, bound.hi.as_int()?)?;
        *self.vars.get_mut(bound.var)? = Some(known);
        Some(())
    }

    fn leaves(&self, tensor: usize, idx: &[LoopExpr]) -> Option<Left> {
        let shape = self.shapes.get(tensor).filter(|shape| shape.len() == idx.len())?;
        idx.iter().zip(*shape).enumerate().find_map(|(axis, (i, size))| {
            let mut sum = Sum { offset: 0, times: Vec::new() };
            sum.add(i, 1)?;
            let (least, greatest) = self.extremes(&sum)?;
            let index = if least < 0 { least } else { greatest };
            (least < 0 || greatest as u64 >= *size as u64).then_some(Left { tensor, axis, index, size: *size })
        })
    }

    fn extremes(&self, sum: &Sum) -> Option<Range> {
        let mut bounds = (sum.offset, sum.offset);
        for (var, times) in &sum.times {
            let (first, last) = (*self.vars.get(*var)?)?;
            let (a, b) = (first.checked_mul(*times)?, last.checked_mul(*times)?);
            bounds = (bounds.0.checked_add(a.min(b))?, bounds.1.checked_add(a.max(b))?);
        }
        Some(bounds)
    }
}

/// Whether a condition depends on elements alone, so that it may hold and may fail at every place. Loop variables
/// stand only in the indices of these elements.
fn of_elements(cond: &LoopExpr) -> bool {
    /// Whether `e` has loop variables outside the indices of elements, and whether it has elements.
    fn look(e: &LoopExpr) -> (bool, bool) {
        match e.op() {
            SOp::Load { outside: SOutside::Refuse, .. } => (false, true),
            SOp::Var(_) | SOp::Load { .. } | SOp::Reduce { .. } => (true, false),
            op => {
                let mut found = (false, false);
                op.parts(&mut |part| {
                    let (vars, elements) = look(part);
                    found = (found.0 || vars, found.1 || elements);
                });
                found
            }
        }
    }
    look(cond) == (false, true)
}

/// Whether a reduction reads all elements.
fn whole(red: Red) -> bool {
    matches!(red, Red::Sum | Red::Prod | Red::Max | Red::Min | Red::ArgMax | Red::ArgMin)
}

/// Whether one access may skip an element, so that the other accesses of that element may not be made.
fn skips(e: &LoopExpr) -> bool {
    let mut skips = matches!(e.op(), SOp::Load { outside: SOutside::Skip, .. });
    e.op().parts(&mut |part| skips |= self::skips(part));
    skips
}

/// A linear combination of loop variables, plus a constant.
struct Sum {
    offset: i64,
    times: Vec<(VarId, i64)>,
}

impl Sum {
    /// Adds `times * e`. `None` where `e` is not linear in loop variables.
    fn add(&mut self, e: &LoopExpr, times: i64) -> Option<()> {
        match e.op() {
            SOp::Const(Scalar::Int(i)) => self.offset = self.offset.checked_add(i.checked_mul(times)?)?,
            SOp::Var(var) => match self.times.iter_mut().find(|(v, _)| v == var) {
                Some((_, sum)) => *sum = sum.checked_add(times)?,
                None => self.times.push((*var, times)),
            },
            SOp::Call(b, args) => match (b, args.as_slice()) {
                (Builtin::Add, [x, y]) => {
                    self.add(x, times)?;
                    self.add(y, times)?;
                }
                (Builtin::Sub, [x, y]) => {
                    self.add(x, times)?;
                    self.add(y, times.checked_neg()?)?;
                }
                (Builtin::Mul, [x, y]) => match (x.as_int(), y.as_int()) {
                    (Some(i), _) => self.add(y, times.checked_mul(i)?)?,
                    (_, Some(i)) => self.add(x, times.checked_mul(i)?)?,
                    _ => return None,
                },
                _ => return None,
            },
            _ => return None,
        }
        Some(())
    }
}
