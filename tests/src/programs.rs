//! Random programs of several lines: the fused results of an executor must equal those of the interpreter line by line.

use crate::rng::Rng;
use fulgurite::buffer::Buffer;
use fulgurite::executors::{self, CompileOptions, Compiled, ExecError};
use fulgurite::trace::{ProxyId, ProxyTy, Trace};
use fulgurite::{Builder, Error};
use fulgurite_core::loc::Loc;
use fulgurite_core::{DType, Name, Scalar, TensorTy, Value};
use std::fmt;

/// The tolerance relative to the largest element: chains of roundings, in f32 where a program casts to it.
const ALLOWED: f64 = 1e-4;
/// Results below this are the rounding errors of sums that cancel.
const SMALLEST: f64 = 1e-6;

/// A program under construction, with its values.
struct Program<'a> {
    /// The possible sizes of its inputs.
    choices: &'a [usize],
    builder: Builder,
    values: Vec<(ProxyId, Vec<usize>, DType)>,
    inputs: Vec<Buffer>,
    rng: &'a mut Rng,
}

fn sizes(shape: &[usize]) -> Value<ProxyId> {
    ints(shape.iter().map(|&n| n as i64))
}

fn ints(list: impl Iterator<Item = i64>) -> Value<ProxyId> {
    Value::List(list.map(|i| Value::Num(Scalar::Int(i))).collect())
}

fn int(i: usize) -> Value<ProxyId> {
    Value::Num(Scalar::Int(i as i64))
}

impl Program<'_> {
    fn input(&mut self) -> Result<(), Error> {
        let rank = self.rng.below(4);
        let shape: Vec<usize> = (0..rank).map(|_| *self.rng.pick(self.choices)).collect();
        let count = shape.iter().product::<usize>();
        let data: Vec<f64> = (0..count).map(|_| self.rng.float(0.25, 2.0)).collect();
        let id = self.builder.input("x", ProxyTy::tensor(TensorTy::new(DType::F64, &shape)));
        let buffer = Buffer::from_slice(&data, &shape).map_err(|e| Error::new("E743", e.to_string()))?;
        self.inputs.push(buffer);
        self.values.push((id, shape, DType::F64));
        Ok(())
    }

    fn pick(&mut self) -> (ProxyId, Vec<usize>, DType) {
        // Later values are more likely, so that programs get some depth.
        let n = self.values.len();
        let at = self.rng.below(n).max(self.rng.below(n));
        self.values[at].clone()
    }

    /// Adds a line; `None` if the drawn operator does not fit the drawn value.
    fn line(&mut self) -> Option<Result<(), Error>> {
        let (x, shape, dtype) = self.pick();
        let rank = shape.len();
        let axis = self.rng.below(rank.max(1));
        let tensor = Value::Tensor(x);
        let keep = Value::Num(Scalar::Bool(self.rng.one_in(2)));
        let (op, args) = match self.rng.below(16) {
            0 => (["neg", "sqrt", "tanh", "sigmoid", "square", "abs"][self.rng.below(6)], vec![tensor]),
            1..=4 => {
                let (y, other, same) = self.pick();
                let fits = |(a, b): (&usize, &usize)| a == b || *a == 1 || *b == 1;
                if same != dtype || !shape.iter().rev().zip(other.iter().rev()).all(fits) {
                    return None;
                }
                (["add", "mul", "sub", "maximum"][self.rng.below(4)], vec![tensor, Value::Tensor(y)])
            }
            5..=7 if rank > 0 => {
                let all = self.rng.one_in(4);
                let dims = if all { (0..rank as i64).collect() } else { vec![axis as i64] };
                (["sum", "mean", "amax"][self.rng.below(3)], vec![tensor, ints(dims.into_iter()), keep])
            }
            8 => {
                // An axis of size 1, or a new one, is repeated.
                let mut to: Vec<usize> =
                    shape.iter().map(|&n| if n == 1 { 1 + self.rng.below(4) } else { n }).collect();
                if self.rng.one_in(2) {
                    to.insert(0, 1 + self.rng.below(3));
                }
                ("expand", vec![tensor, sizes(&to)])
            }
            9 if rank > 0 => ("unsqueeze", vec![tensor, int(self.rng.below(rank + 1))]),
            10 if rank > 1 => ("transpose", vec![tensor, int(axis), int(self.rng.below(rank))]),
            11 => {
                let flat = shape.iter().product::<usize>();
                let rows = (1..=flat).filter(|n| flat % n == 0).nth(self.rng.below(3)).unwrap_or(1);
                ("reshape", vec![tensor, sizes(&[rows, flat / rows])])
            }
            12 if rank > 0 && shape[axis] > 1 => {
                ("slice", vec![tensor, int(axis), int(self.rng.below(2)), int(shape[axis]), int(1 + self.rng.below(2))])
            }
            13 if rank > 0 => ("softmax", vec![tensor, int(axis)]),
            14 if rank > 0 => ("cat", vec![Value::List(vec![tensor.clone(), tensor]), int(axis)]),
            15 => {
                let to = if self.rng.one_in(3) { DType::F32 } else { DType::F64 };
                ("cast", vec![tensor, Value::DType(to)])
            }
            _ => return None,
        };
        let symbol = fulgurite::symbol::find(Name::new(op))?;
        Some(self.builder.bind(symbol, args, Loc::NOWHERE).map(|outs| {
            for out in outs {
                if let ProxyTy::Tensor(t) = self.builder.arena().ty(out)
                    && t.ty.numel() <= 40_000
                {
                    self.values.push((out, t.ty.sizes().to_vec(), t.ty.dtype));
                }
            }
        }))
    }
}

/// A program with its inputs; or the refusal of an operator while it was drawn.
pub struct Random(pub Result<(Trace, Vec<Buffer>), Error>);

impl fmt::Display for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok((trace, _)) => trace.fmt(f),
            Err(_) => f.write_str("no program"),
        }
    }
}

impl Random {
    /// A program whose inputs have these sizes.
    pub fn draw(rng: &mut Rng, choices: &[usize]) -> Random {
        Random(random(rng, choices))
    }

    /// Compares an executor with the interpreter on this program.
    ///
    /// # Errors
    /// If they differ by more than rounding.
    pub fn agrees(&self, executor: &str) -> Result<(), String> {
        let (trace, inputs) = self.0.as_ref().map_err(Error::to_string)?;
        agree(trace, inputs, executor)
    }
}

fn random(rng: &mut Rng, choices: &[usize]) -> Result<(Trace, Vec<Buffer>), Error> {
    let mut program = Program { choices, builder: Builder::new("main"), values: vec![], inputs: vec![], rng };
    for _ in 0..2 {
        program.input()?;
    }
    let length = 2 + program.rng.below(12);
    let mut lines = 0;
    while lines < length {
        match program.line() {
            Some(done) => {
                done?;
                lines += 1;
            }
            None => continue,
        }
    }
    let candidates: Vec<ProxyId> = program.values[2..].iter().map(|(id, ..)| *id).collect();
    let mut outs: Vec<ProxyId> = candidates.iter().copied().filter(|_| program.rng.one_in(3)).collect();
    outs.extend(candidates.last());
    outs.dedup();
    let inputs = program.inputs;
    Ok((program.builder.finish(&outs), inputs))
}

/// A trace compiled for one executor.
///
/// # Errors
/// The error of compiling.
pub fn compile(trace: &Trace, executor: &str) -> Result<Compiled, ExecError> {
    compile_with(trace, executor, |_| ())
}

/// A trace compiled for one executor, with options that `set` changes.
///
/// # Errors
/// The error of compiling.
pub fn compile_with(trace: &Trace, executor: &str, set: impl Fn(&mut CompileOptions)) -> Result<Compiled, ExecError> {
    let bodies =
        |line: &_| fulgurite::bind::body_of(&trace.arena, line).map_err(|e| ExecError::new(e.code(), e.to_string()));
    let mut options = CompileOptions::new(&bodies);
    options.executors = [executor].iter().filter_map(|name| executors::find(name)).collect();
    set(&mut options);
    executors::compile(trace, &options)
}

/// Compares an executor with the interpreter on a trace.
///
/// # Errors
/// If they differ by more than rounding.
pub fn agree(trace: &Trace, inputs: &[Buffer], executor: &str) -> Result<(), String> {
    let run = |name: &str| compile(trace, name)?.run(inputs);
    let [fused, plain] = [executor, "interp"].map(|name| run(name).map_err(|e| e.to_string()));
    for (n, (a, b)) in fused?.iter().zip(&plain?).enumerate() {
        let (a, b) = (a.to_f64(), b.to_f64());
        let scale = b.iter().filter(|x| x.is_finite()).fold(SMALLEST, |m, x| m.max(x.abs()));
        let differs =
            |(a, b): &(&f64, &f64)| !(**a == **b || a.is_nan() && b.is_nan() || (*a - *b).abs() <= ALLOWED * scale);
        if let Some(at) = a.iter().zip(&b).position(|pair| differs(&pair)) {
            return Err(format!("result {n} at {at} is {} fused, {} line by line", a[at], b[at]));
        }
    }
    Ok(())
}
