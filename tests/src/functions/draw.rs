//! Draws a function: every choice takes a word of the generator.

use super::{Arg, Function, How, Region, Step, View};
use crate::bound;
use crate::calls::{self, Values, Wish, values};
use crate::oracle::Operand;
use crate::rng::Rng;
use crate::rows::{TestRow, rows};
use fulgurite_core::eval::loop_nest::Array;
use fulgurite_core::lang::ast::Access;
use fulgurite_core::signature::OutTy;
use fulgurite_core::{DType, TensorTy, Value};

/// Sizes of arguments and captured tensors.
const SIZES: [usize; 4] = [1, 2, 3, 5];
/// The regions, the simplest first and the differentiating ones last.
const REGIONS: [Region; 15] = [
    Region::Named,
    Region::Chosen,
    Region::Scanned,
    Region::Looped,
    Region::Checkpoint,
    Region::Jit,
    Region::NoGrad,
    Region::Replicated,
    Region::Sharded,
    Region::Masked,
    Region::Autocast,
    Region::Batched,
    Region::Custom,
    Region::Doubled,
    Region::Gradient,
];
/// The first fourteen regions may hold a call without float arguments, because they do not differentiate with respect to
/// its arguments.
const PLAIN: usize = 14;
/// The float dtypes of functions whose gradients are compared with differences.
pub const DOUBLE: &[&[DType]] = &[&[DType::F64]];
/// The float dtypes of other functions.
pub const MIXED: &[&[DType]] =
    &[&[DType::F32], &[DType::F64, DType::F32], &[DType::F16, DType::F32], &[DType::BF16, DType::F32, DType::F64]];
/// The dtypes of arguments that are not floats.
const OTHERS: [DType; 3] = [DType::I64, DType::I32, DType::Bool];
/// At most this many steps, because longer functions combine no more kinds of steps, and take longer to shrink.
const MOST_STEPS: usize = 9;

/// A function under construction.
struct Draft<'a> {
    function: Function,
    /// The dtype of each value, if it is a tensor that other steps can use.
    usable: Vec<Option<DType>>,
    floats: &'static [DType],
    rng: &'a mut Rng,
}

/// A tensor of small numbers.
fn tensor(dtype: DType, shape: &[usize], rng: &mut Rng) -> Array<f64> {
    values::array(&TensorTy::new(dtype, shape), (-2.0, 2.0), Values::Tame, rng)
}

fn shape(rng: &mut Rng) -> Vec<usize> {
    (0..rng.below(3)).map(|_| *rng.pick(&SIZES)).collect()
}

/// One of these floats, occasionally another dtype.
fn dtype(floats: &[DType], rng: &mut Rng) -> DType {
    if rng.one_in(6) { *rng.pick(&OTHERS) } else { *rng.pick(floats) }
}

/// Whether a float type is coarser than another one.
fn is_coarser(a: DType, b: DType) -> bool {
    a.is_float() && bound::unit(a) > bound::unit(b)
}

/// The function for these words, with the float dtypes of one of these lists.
pub fn function(floats: &[&'static [DType]], rng: &mut Rng) -> Function {
    let floats = *rng.pick(floats);
    let count = 1 + rng.below(2);
    let types: Vec<(DType, Vec<usize>)> = (0..count + 1)
        // The first one has a gradient.
        .map(|i| (if i == 0 { *rng.pick(floats) } else { dtype(floats, rng) }, shape(rng)))
        .collect();
    let all = |rng: &mut Rng| types[..count].iter().map(|(d, s)| tensor(*d, s, rng)).collect::<Vec<_>>();
    let (inputs, others) = (all(rng), all(rng));
    let captured = vec![tensor(types[count].0, &types[count].1, rng)];
    let function =
        Function { inputs, others, captured, steps: Vec::new(), outputs: Vec::new(), coarsest: DType::F64, nudge: 0 };
    let mut draft = Draft { function, usable: Vec::new(), floats, rng };
    draft.usable(types.iter().map(|(dtype, _)| Some(*dtype)).collect());
    let steps = 1 + draft.rng.below(MOST_STEPS);
    for _ in 0..steps {
        draft.step();
    }
    draft.outputs();
    draft.function
}

impl Draft<'_> {
    /// A value that other steps can use; later ones are more likely.
    fn value(&mut self) -> usize {
        let all: Vec<usize> = (0..self.usable.len()).filter(|i| self.usable[*i].is_some()).collect();
        all[self.rng.below(all.len()).max(self.rng.below(all.len()))]
    }

    /// Adds values that a step made.
    fn usable(&mut self, made: Vec<Option<DType>>) {
        made.iter().flatten().for_each(|dtype| self.meets(*dtype));
        self.usable.extend(made);
    }

    /// Records that values of this dtype occur in the function.
    fn meets(&mut self, dtype: DType) {
        if is_coarser(dtype, self.function.coarsest) {
            self.function.coarsest = dtype;
        }
    }

    fn step(&mut self) {
        match self.rng.below(12) {
            0..=5 => self.call(),
            6..=7 => {
                let view = *self.rng.pick(&[
                    View::Same,
                    View::Select(0),
                    View::Select(1),
                    View::Slice,
                    View::Transposed,
                    View::Flat,
                    View::Strided,
                ]);
                let of = self.value();
                self.push(Step::View(of, view), vec![self.usable[of]]);
            }
            8..=9 => {
                let (to, from) = (self.value(), self.value());
                let how = *self.rng.pick(&[How::Add, How::Mul, How::Copy]);
                self.push(Step::Write(to, how, from), vec![]);
            }
            10 => {
                let (dtype, shape) = (dtype(self.floats, self.rng), shape(self.rng));
                let made = tensor(dtype, &shape, self.rng);
                self.push(Step::Made(made), vec![Some(dtype)]);
            }
            _ => self.push(Step::NextKey, vec![]),
        }
    }

    fn push(&mut self, step: Step, made: Vec<Option<DType>>) {
        self.function.steps.push(step);
        self.usable(made);
    }

    /// The kind of call to draw for a row.
    fn wish(&mut self, row: &TestRow) -> Wish {
        let case = self.rng.below(64);
        let mixed = self.floats.len() > 1;
        let float = Some(*self.rng.pick(self.floats));
        let dtype = match self.rng.below(8) {
            6 => Some(*self.rng.pick(&OTHERS)),
            // Each argument has a dtype of its own.
            7 if mixed => None,
            _ => float,
        };
        let dtype = if dtype.is_none_or(|dtype| row.takes(dtype)) { dtype } else { float };
        Wish { dtype, numbers: mixed && self.rng.one_in(4), ..Wish::smooth(case) }
    }

    /// A call of any row that accepts these dtypes; some of its tensors are earlier values.
    fn call(&mut self) {
        let all = &rows().source;
        let row: &TestRow = &all[self.rng.below(all.len())];
        let wish = self.wish(row);
        if row.names_storage() || wish.dtype.is_some_and(|dtype| !row.takes(dtype)) {
            return;
        }
        let Some(call) = calls::generate(row, &wish, self.rng) else { return };
        let made: Option<Vec<Option<DType>>> = results(&call.solved.outs);
        // The number and types of results that only the body determines are unknown here.
        let Some(mut made) = made else { return };
        let mut types: Vec<DType> = made.iter().flatten().copied().collect();
        call.args.iter().for_each(|a| a.for_each(&mut |o| types.extend(o.array().map(|a| a.dtype))));
        if self.floats == [DType::F64] && types.iter().any(|dtype| is_coarser(*dtype, DType::F64)) {
            return;
        }
        let mut args: Vec<Value<Arg>> = Vec::new();
        for arg in &call.args {
            args.push(arg.map(&mut |operand| self.argument(operand)));
        }
        let mut by: Vec<Option<DType>> = Vec::new();
        args.iter().for_each(|a| a.for_each(&mut |arg| by.extend(arg.float().map(Some))));
        // Differentiation needs a float argument.
        let some = if !by.is_empty() { REGIONS.as_slice() } else { &REGIONS[..PLAIN] };
        let depth = *self.rng.pick(&[0, 0, 0, 1, 1, 2, 3]);
        let mut regions: Vec<Region> = (0..depth).map(|_| *self.rng.pick(some)).collect();
        // A backward that runs the call would write to values of the forward (E718), and an eager run has no backward.
        let writes = row.row.sig.params.iter().any(|p| p.access == Access::Mut);
        regions.retain(|region| !writes || !matches!(region, Region::Custom | Region::Doubled));
        // A program of a line writes nothing, and takes no tensors of subclasses.
        let classes = [Region::Replicated, Region::Sharded, Region::Masked];
        let classed = regions.iter().any(|region| classes.contains(region));
        let control = [Region::Chosen, Region::Scanned, Region::Looped];
        regions.retain(|region| !(writes || classed) || !control.contains(region));
        // Differences would be dominated by the roundings.
        regions.retain(|region| self.floats.len() > 1 || *region != Region::Autocast);
        // At most two derivatives inside and one outside: rows are tested up to the third order (P20).
        let mut gradients = 0;
        regions.retain(|region| {
            gradients += usize::from(*region == Region::Gradient);
            *region != Region::Gradient || gradients <= 2
        });
        if regions.contains(&Region::Autocast) {
            types.push(DType::BF16);
        }
        if regions.contains(&Region::Gradient) {
            made = by;
        }
        types.into_iter().for_each(|dtype| self.meets(dtype));
        self.push(Step::Call { row: row.row.op, args, regions }, made);
    }

    fn argument(&mut self, operand: &Operand<f64>) -> Arg {
        match operand {
            Operand::Key(_) => Arg::Key(self.rng.one_in(3)),
            Operand::Number(d, s) => Arg::Number(*d, *s),
            Operand::Tensor(a) if !a.dtype.is_storage() && !a.is_empty() && !self.rng.one_in(3) => {
                // A value of the argument's own dtype is preferred.
                let two = [self.value(), self.value()];
                let own = two.iter().find(|at| self.usable[**at] == Some(a.dtype));
                Arg::Value(*own.unwrap_or(&two[0]), a.clone())
            }
            Operand::Tensor(a) => Arg::Made(a.clone()),
        }
    }

    fn outputs(&mut self) {
        let count = self.usable.len();
        let first = self.function.inputs.len() + self.function.captured.len();
        let wanted: Vec<usize> = (first..count).filter(|_| self.rng.one_in(2)).collect();
        let mut outputs = if wanted.is_empty() { vec![count - 1] } else { wanted };
        // Outputs may alias each other, and may be arguments.
        if self.rng.one_in(4) {
            outputs.push(outputs[0]);
            outputs.push(0);
        }
        self.function.outputs = outputs;
    }
}

/// The types of the results that other steps can use; `None` if only the body determines them.
fn results(outs: &[OutTy]) -> Option<Vec<Option<DType>>> {
    let usable = |t: &TensorTy| (!t.dtype.is_storage() && t.numel() > 0).then_some(t.dtype);
    let one = |out: &OutTy| match out {
        OutTy::Tensor(t) => Some(vec![usable(t)]),
        OutTy::List(list) => Some(list.iter().map(usable).collect()),
        OutTy::FromBody => None,
    };
    Some(outs.iter().map(one).collect::<Option<Vec<_>>>()?.concat())
}
