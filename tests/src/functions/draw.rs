//! Drawing a function: every choice is a word of the generator's.

use super::{Arg, Function, How, Region, Step, View};
use crate::calls::{self, Wish};
use crate::oracle::Operand;
use crate::rng::Rng;
use crate::rows::{TestRow, rows};
use fulgurite_core::eval::nest::Array;
use fulgurite_core::sig::OutTy;
use fulgurite_core::{DType, Value};

/// Sizes of arguments and captured tensors.
const SIZES: [usize; 4] = [1, 2, 3, 5];
/// What calls may stand in, the simplest first; what differentiates stands behind the others.
const REGIONS: [Region; 5] = [Region::Named, Region::Checkpoint, Region::Jit, Region::NoGrad, Region::Gradient];
const PLAIN: usize = 4;
/// At most so many steps: longer functions combine no more kinds of steps, and take longer to shrink.
const MOST_STEPS: usize = 9;

/// A function that grows.
struct Draft<'a> {
    function: Function,
    /// Per value, whether it is a float tensor of f64 that other steps can use.
    usable: Vec<bool>,
    rng: &'a mut Rng,
}

/// The function of these words.
pub fn function(rng: &mut Rng) -> Function {
    let tensor = |rng: &mut Rng, shape: &[usize]| {
        let count = shape.iter().product();
        Array::float(DType::F64, shape, (0..count).map(|_| rng.float(-2.0, 2.0)).collect())
    };
    let count = 1 + rng.below(2);
    let shapes: Vec<Vec<usize>> =
        (0..count + 1).map(|_| (0..rng.below(3)).map(|_| *rng.pick(&SIZES)).collect()).collect();
    let all = |rng: &mut Rng| shapes[..count].iter().map(|s| tensor(rng, s)).collect::<Vec<_>>();
    let (inputs, others) = (all(rng), all(rng));
    let captured = vec![tensor(rng, &shapes[count])];
    let usable = vec![true; inputs.len() + captured.len()];
    let function = Function { inputs, others, captured, steps: Vec::new(), outputs: Vec::new() };
    let mut draft = Draft { function, usable, rng };
    let steps = 1 + draft.rng.below(MOST_STEPS);
    for _ in 0..steps {
        draft.step();
    }
    draft.outputs();
    draft.function
}

impl Draft<'_> {
    /// A value that other steps can use; later ones more often.
    fn value(&mut self) -> usize {
        let all: Vec<usize> = (0..self.usable.len()).filter(|i| self.usable[*i]).collect();
        all[self.rng.below(all.len()).max(self.rng.below(all.len()))]
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
                self.push(Step::View(of, view), vec![true]);
            }
            8..=9 => {
                let (to, from) = (self.value(), self.value());
                let how = *self.rng.pick(&[How::Add, How::Mul, How::Copy]);
                self.push(Step::Write(to, how, from), vec![]);
            }
            10 => {
                let shape: Vec<usize> = (0..self.rng.below(3)).map(|_| *self.rng.pick(&SIZES)).collect();
                let data = (0..shape.iter().product()).map(|_| self.rng.float(-2.0, 2.0)).collect();
                self.push(Step::Made(Array::float(DType::F64, &shape, data)), vec![true]);
            }
            _ => self.push(Step::NextKey, vec![]),
        }
    }

    fn push(&mut self, step: Step, made: Vec<bool>) {
        self.function.steps.push(step);
        self.usable.extend(made);
    }

    /// A call of any row that has one in f64, some of its tensors values of before.
    fn call(&mut self) {
        let all = &rows().source;
        let row: &TestRow = &all[self.rng.below(all.len())];
        if row.names_storage() || !row.takes(DType::F64) {
            return;
        }
        let case = self.rng.below(64);
        let Some(call) = calls::generate(row, &Wish::smooth(case), self.rng) else { return };
        let mut args: Vec<Value<Arg>> = Vec::new();
        for arg in &call.args {
            args.push(arg.map(&mut |operand| self.argument(operand)));
        }
        let mut by = 0;
        args.iter().for_each(|a| a.for_each(&mut |arg| by += usize::from(arg.is_f64())));
        // derivatives are by something
        let some = if by > 0 { REGIONS.as_slice() } else { &REGIONS[..PLAIN] };
        let depth = *self.rng.pick(&[0, 0, 0, 1, 1, 2, 3]);
        let mut regions: Vec<Region> = (0..depth).map(|_| *self.rng.pick(some)).collect();
        // one derivative inside and one outside: rows are held to two (P07)
        let mut gradients = 0;
        regions.retain(|region| {
            gradients += usize::from(*region == Region::Gradient);
            *region != Region::Gradient || gradients == 1
        });
        let made = call.solved.outs.iter().flat_map(|out| match out {
            OutTy::Tensor(t) => vec![t.dtype == DType::F64 && t.numel() > 0],
            OutTy::List(list) => list.iter().map(|t| t.dtype == DType::F64 && t.numel() > 0).collect(),
            OutTy::FromBody => vec![],
        });
        let mut made: Vec<bool> = made.collect();
        if regions.contains(&Region::Gradient) {
            made = vec![true; by];
        }
        // of results that the body alone knows neither number nor type is known here
        if !call.solved.outs.contains(&OutTy::FromBody) {
            self.push(Step::Call { row: row.row.op, args, regions }, made);
        }
    }

    fn argument(&mut self, operand: &Operand<f64>) -> Arg {
        match operand {
            Operand::Key(_) => Arg::Key(self.rng.one_in(3)),
            Operand::Number(d, s) => Arg::Number(*d, *s),
            Operand::Tensor(a) if a.dtype == DType::F64 && !a.is_empty() && !self.rng.one_in(3) => {
                Arg::Value(self.value(), a.clone())
            }
            Operand::Tensor(a) => Arg::Made(a.clone()),
        }
    }

    fn outputs(&mut self) {
        let count = self.usable.len();
        let first = self.function.inputs.len() + self.function.captured.len();
        let wanted: Vec<usize> = (first..count).filter(|_| self.rng.one_in(2)).collect();
        let mut outputs = if wanted.is_empty() { vec![count - 1] } else { wanted };
        // aliases, and arguments that are given back
        if self.rng.one_in(4) {
            outputs.push(outputs[0]);
            outputs.push(0);
        }
        self.function.outputs = outputs;
    }
}
