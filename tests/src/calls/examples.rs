//! Calls made from a row's own points, for rows of which drawing finds few: their sizes or options must agree in a way
//! that chance does not meet. Dtypes, sizes, presence and words of a point are varied as far as the row accepts it.

use super::choices;
use super::{Attempt, Sketch, Slot, Wish, small};
use crate::oracle::Operand;
use crate::rng::Rng;
use crate::rows::TestRow;
use fulgurite_core::lang::ast::{Elem, OptType};
use fulgurite_core::signature::{self, Solved};
use fulgurite_core::value::Shape;
use fulgurite_core::{DType, Dim, Scalar, TensorTy, Value};

/// Attempts to make a call of a point; a point of other optional arguments, or one that lacks the dtype, is of no use.
const ATTEMPTS: usize = 24;
/// Sizes that take the place of a point's.
const SIZES: [i64; 5] = [1, 2, 3, 4, 5];

type Args = Vec<Value<Slot>>;

/// The types of a call that is like one of the row's points, if one was found for the wish.
pub(super) fn sketch(row: &TestRow, wish: &Wish, rng: &mut Rng) -> Option<Sketch> {
    if row.points.is_empty() {
        return None;
    }
    let total = choices::count(&row.row).max(1);
    for attempt in 0..ATTEMPTS {
        let case = if attempt < ATTEMPTS / 2 { wish.case } else { wish.case + rng.below(total) };
        let choice = choices::choose(&row.row, case);
        let mut args: Args = rng.pick(&row.points).iter().map(|arg| arg.map(&mut slot)).collect();
        let mut solved = solve(row, &args)?;
        for way in [typed, sized, sized, present, worded] {
            let mut changed = args.clone();
            let env = solved.env.clone();
            way(&mut Attempt { env, ..Attempt::new(row, wish, choice.clone(), rng) }, &mut changed);
            if let Some(found) = solve(row, &changed) {
                (args, solved) = (changed, found);
            }
        }
        let typed = wish.dtype.is_none_or(|dtype| solved.joined.is_none_or(|joined| joined == dtype));
        let given = |(absent, arg): (&bool, &Value<Slot>)| *absent == arg.is_absent();
        let chosen = attempt >= ATTEMPTS / 2 || choice.absent.iter().zip(&args).all(given);
        if typed && chosen && small(&solved) {
            return Some(Sketch { args, solved });
        }
    }
    None
}

/// The types of a call that is like one of the row's points, but for one size, and the row may refuse it.
pub(super) fn propose(row: &TestRow, wish: &Wish, rng: &mut Rng) -> Option<Args> {
    let choice = choices::choose(&row.row, wish.case);
    let mut args: Args = rng.pick(&row.points).iter().map(|arg| arg.map(&mut slot)).collect();
    let mut like = Attempt { odd: true, ..Attempt::new(row, wish, choice, rng) };
    sized(&mut like, &mut args);
    Some(args)
}

fn solve(row: &TestRow, args: &Args) -> Option<Solved> {
    signature::solve(&row.row, args, &Slot::ty).ok()
}

fn slot(operand: &Operand<f64>) -> Slot {
    match operand {
        Operand::Tensor(a) => Slot::Tensor(TensorTy::new(a.dtype, &a.shape)),
        Operand::Number(dtype, number) => Slot::Number(*dtype, *number),
        Operand::Key(_) => Slot::Key,
    }
}

/// Gives the arguments of a dtype variable another dtype: the wanted one, or any.
fn typed(like: &mut Attempt, args: &mut Args) {
    let wanted = like.wish.dtype;
    let dtype = wanted.unwrap_or_else(|| *like.rng.pick(&DType::STORED));
    for (param, arg) in like.row.sig.params.iter().zip(args) {
        let follows = |elem: &Elem| matches!(elem, Elem::Var(v) if *v == "T" || wanted == Some(DType::F64));
        if param.ty.elem.iter().any(follows) {
            *arg = each(arg, &mut |ty| TensorTy { dtype, shape: ty.shape.clone() });
        }
    }
}

/// Replaces one size wherever it occurs: sizes that must agree are equal in a point.
fn sized(like: &mut Attempt, args: &mut Args) {
    let mut all: Vec<Dim> = Vec::new();
    for arg in args.iter() {
        arg.for_each(&mut |slot| {
            if let Slot::Tensor(ty) = slot {
                all.extend(ty.shape.iter().copied());
            }
        });
    }
    if all.is_empty() {
        return;
    }
    let sizes = if like.odd { &[0, 1, 2, 4, 5] } else { &SIZES };
    let (from, to) = (*like.rng.pick(&all), Dim::from(*like.rng.pick(sizes)));
    for arg in args {
        *arg = each(arg, &mut |ty| {
            let shape: Shape = ty.shape.iter().map(|size| if *size == from { to } else { *size }).collect();
            TensorTy { dtype: ty.dtype, shape }
        });
    }
}

/// Leaves out the optional arguments that the choice leaves out, and makes those that it has and the point has not.
fn present(like: &mut Attempt, args: &mut Args) {
    let mut tensors = args.iter().filter_map(|arg| match arg {
        Value::Tensor(Slot::Tensor(ty)) => Some(ty.dtype),
        _ => None,
    });
    let joined = like.wish.dtype.or_else(|| tensors.next()).unwrap_or(DType::F32);
    for (at, (param, arg)) in like.row.sig.params.iter().zip(args).enumerate() {
        if like.choice.absent[at] {
            *arg = Value::Absent;
        } else if arg.is_absent() {
            *arg = like.param(param, joined, false).unwrap_or(Value::Absent);
        }
    }
}

/// Gives options the truth values and words of the choice.
fn worded(like: &mut Attempt, args: &mut Args) {
    let choice = &like.choice;
    let opts = args.iter_mut().skip(like.row.sig.params.len());
    for (at, (arg, opt)) in opts.zip(&like.row.sig.opts).enumerate() {
        match &opt.ty {
            OptType::Bool | OptType::Enum(_) if choice.left_out[at] => *arg = Value::Absent,
            OptType::Bool => *arg = Value::Num(Scalar::Bool(choice.truth[at])),
            OptType::Enum(_) => *arg = choice.word[at].map_or(Value::Absent, Value::Word),
            _ => {}
        }
    }
}

/// The argument with its tensors' types changed.
fn each(arg: &Value<Slot>, change: &mut dyn FnMut(&TensorTy) -> TensorTy) -> Value<Slot> {
    arg.map(&mut |slot| match slot {
        Slot::Tensor(ty) => Slot::Tensor(change(ty)),
        other => other.clone(),
    })
}
