//! Random programs of products of matrices, masks, sums and products of elements, as attention and its gradients have
//! them, run in blocks of rows.
//!
//! All values are small integers, so that every order of a sum gives the exact result: programs of any number of threads,
//! in blocks and whole, must give equal numbers.

use crate::programs::{compile, compile_with};
use crate::rng::Rng;
use fulgurite::buffer::Buffer;
use fulgurite::trace::{ProxyId, ProxyTy, Trace};
use fulgurite::{Builder, Error};
use fulgurite_core::loc::Loc;
use fulgurite_core::{DType, Name, Scalar, TensorTy, Value};
use std::fmt;

/// Integers up to this are exact in f32, and so are their sums and differences.
const EXACT: u64 = 1 << 23;
/// The inputs are between this and its negative.
const INPUT: u64 = 2;
/// Values of at least this many bytes may exist as blocks.
const BLOCKS_FROM: usize = 256;
/// The marks of steps that run block by block ([`RandomProducts::agrees`]).
const BLOCKS: &str = "blocks of";
/// Numbers of threads: one, an equal share of most programs, and an unequal one.
const THREADS: [usize; 3] = [1, 2, 3];

/// A value: batches of matrices.
#[derive(Clone, Copy)]
struct Batched {
    id: ProxyId,
    rows: usize,
    cols: usize,
    /// No element is larger, nor its negative.
    bound: u64,
}

struct Draft<'a> {
    batches: usize,
    builder: Builder,
    values: Vec<Batched>,
    /// Results that no line reads: sums over all batches.
    totals: Vec<ProxyId>,
    inputs: Vec<Buffer>,
    rng: &'a mut Rng,
}

/// A program with its inputs; or the refusal of an operator while it was drawn.
pub struct RandomProducts(Result<(Trace, Vec<Buffer>), Error>);

impl fmt::Display for RandomProducts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok((trace, _)) => trace.fmt(f),
            Err(_) => f.write_str("no program"),
        }
    }
}

fn int(i: i64) -> Value<ProxyId> {
    Value::Num(Scalar::Int(i))
}

impl Draft<'_> {
    fn input(&mut self, rows: usize, cols: usize) -> Result<(), Error> {
        let id = self.numbers(&[self.batches, rows, cols])?;
        self.values.push(Batched { id, rows, cols, bound: INPUT });
        Ok(())
    }

    /// An input of this shape.
    fn numbers(&mut self, shape: &[usize]) -> Result<ProxyId, Error> {
        let most = INPUT as i64;
        let numbers: Vec<f32> = (0..shape.iter().product()).map(|_| self.rng.int(-most, most) as f32).collect();
        let id = self.builder.input("x", ProxyTy::tensor(TensorTy::new(DType::F32, shape)));
        self.inputs.push(Buffer::from_slice(&numbers, shape).map_err(|e| Error::new("E743", e.to_string()))?);
        Ok(id)
    }

    /// The product with one matrix for all batches, as that with a weight.
    fn weighted(&mut self, x: Batched) -> Result<Batched, Error> {
        let x = self.small(x, INPUT, x.cols)?;
        let cols = if self.rng.one_in(2) { x.cols } else { 1 + self.rng.below(40) };
        let w = self.numbers(&[x.cols, cols])?;
        let made = Batched { cols, bound: x.bound * INPUT * x.cols as u64, ..x };
        self.bind("matmul", vec![Value::Tensor(x.id), Value::Tensor(w)], made)
    }

    /// The product of two values with as many rows, summed over the rows of all batches, as the gradient of a weight is.
    fn total(&mut self, x: Batched, y: Batched) -> Result<(), Error> {
        let terms = x.rows * self.batches;
        let y = self.small(y, 1, terms)?;
        let x = self.small(x, y.bound, terms)?;
        let y = self.small(y, x.bound, terms)?;
        let mut joined = |x: Batched| {
            let sizes = Value::List(vec![int(terms as i64), int(x.cols as i64)]);
            self.bind("reshape", vec![Value::Tensor(x.id), sizes], x)
        };
        let (x, y) = (joined(x)?, joined(y)?);
        let x = self.transposed(x)?;
        let total = self.bind("matmul", vec![Value::Tensor(x.id), Value::Tensor(y.id)], x)?;
        self.totals.push(total.id);
        Ok(())
    }

    fn bind(&mut self, op: &str, args: Vec<Value<ProxyId>>, made: Batched) -> Result<Batched, Error> {
        let symbol = fulgurite::symbol::find(Name::new(op)).ok_or_else(|| Error::new("E743", format!("no `{op}`")))?;
        let outs = self.builder.bind(symbol, args, Loc::NOWHERE)?;
        Ok(Batched { id: outs[0], ..made })
    }

    /// The value, or its signs if a product of `terms` such numbers and others up to `other` would not be exact.
    fn small(&mut self, x: Batched, other: u64, terms: usize) -> Result<Batched, Error> {
        if x.bound * other * terms as u64 <= EXACT {
            return Ok(x);
        }
        self.bind("sign", vec![Value::Tensor(x.id)], Batched { bound: 1, ..x })
    }

    fn transposed(&mut self, x: Batched) -> Result<Batched, Error> {
        let made = Batched { rows: x.cols, cols: x.rows, ..x };
        self.bind("transpose", vec![Value::Tensor(x.id), int(-2), int(-1)], made)
    }

    fn product(&mut self, x: Batched, y: Batched) -> Result<Batched, Error> {
        let y = self.small(y, 1, x.cols)?;
        let x = self.small(x, y.bound, x.cols)?;
        let y = self.small(y, x.bound, x.cols)?;
        let made = Batched { cols: y.cols, bound: x.bound * y.bound * x.cols as u64, ..x };
        self.bind("matmul", vec![Value::Tensor(x.id), Value::Tensor(y.id)], made)
    }

    fn pick(&mut self) -> Batched {
        // Later values are more likely, so that programs get some depth.
        let n = self.values.len();
        let at = self.rng.below(n).max(self.rng.below(n));
        self.values[at]
    }

    /// Adds a line; `None` if the drawn values do not fit.
    fn line(&mut self) -> Option<Result<Batched, Error>> {
        let (x, y) = (self.pick(), self.pick());
        let tensor = Value::Tensor(x.id);
        Some(match self.rng.below(15) {
            0..=2 if x.cols == y.rows => self.product(x, y),
            0..=2 if x.cols == y.cols => self.transposed(y).and_then(|y| self.product(x, y)),
            0..=2 if x.rows == y.rows => self.transposed(x).and_then(|x| self.product(x, y)),
            3..=6 if x.rows == y.rows && (x.cols == y.cols || y.cols == 1) => {
                let (op, bound) = match self.rng.below(4) {
                    0 => ("mul", x.bound * y.bound),
                    1 => ("maximum", x.bound.max(y.bound)),
                    n => (["add", "sub"][n % 2], x.bound + y.bound),
                };
                if bound > EXACT {
                    return None;
                }
                self.bind(op, vec![tensor, Value::Tensor(y.id)], Batched { bound, ..x })
            }
            7 => {
                let (op, terms) = *self.rng.pick(&[("sum", x.cols as u64), ("amax", 1)]);
                if x.bound * terms > EXACT {
                    return None;
                }
                let args = vec![tensor, Value::List(vec![int(-1)]), Value::Num(Scalar::Bool(true))];
                self.bind(op, args, Batched { cols: 1, bound: x.bound * terms, ..x })
            }
            8 | 9 => {
                let diagonal = self.rng.int(-8, 40);
                let op = *self.rng.pick(&["tril", "triu"]);
                self.bind(op, vec![tensor, int(diagonal)], x)
            }
            10 => {
                let op = *self.rng.pick(&["neg", "abs", "relu"]);
                self.bind(op, vec![tensor], x)
            }
            11 => self.transposed(x),
            12 => self.weighted(x),
            13 | 14 if x.rows == y.rows => self.total(x, y).map(|()| x),
            _ => return None,
        })
    }
}

impl RandomProducts {
    /// A program over batches of matrices: scores of queries and keys, up to `lines` further lines, and a product of the
    /// last scores. `sizes` are those of axes that scores have, `inner` those over which products sum.
    pub fn draw(rng: &mut Rng, sizes: &[usize], inner: &[usize], lines: usize) -> RandomProducts {
        RandomProducts(drawn(rng, sizes, inner, lines))
    }

    /// Compares the program in blocks of rows, for several numbers of threads, and the whole program with the
    /// interpreter. Returns the steps that run block by block.
    ///
    /// # Errors
    /// If an element differs.
    pub fn agrees(&self) -> Result<usize, String> {
        let (trace, inputs) = self.0.as_ref().map_err(Error::to_string)?;
        let run = |compiled: &fulgurite::executors::Compiled| compiled.run(inputs).map_err(|e| e.to_string());
        // A program that runs again has prepared copies of what it reads.
        let again = |compiled: &fulgurite::executors::Compiled| run(compiled).and_then(|_| run(compiled));
        let want = run(&compile(trace, "interp").map_err(|e| e.to_string())?)?;
        let mut steps = 0;
        let blocked = THREADS.map(|threads| (threads, BLOCKS_FROM));
        for (threads, blocks_from) in blocked.into_iter().chain([(2, usize::MAX)]) {
            let compiled = compile_with(trace, "cpu", |options| {
                options.threads = threads;
                options.blocks_from = blocks_from;
            })
            .map_err(|e| e.to_string())?;
            steps = steps.max(compiled.describe().to_string().matches(BLOCKS).count());
            for (n, (got, want)) in again(&compiled)?.iter().zip(&want).enumerate() {
                let (got, want) = (got.to_f64(), want.to_f64());
                if let Some(at) = got.iter().zip(&want).position(|(a, b)| a != b) {
                    let how = format!("{threads} threads, blocks from {blocks_from} bytes");
                    let steps = compiled.describe();
                    return Err(format!("result {n} at {at} is {}, not {} ({how})\n{steps}", got[at], want[at]));
                }
            }
        }
        Ok(steps)
    }
}

fn drawn(rng: &mut Rng, sizes: &[usize], inner: &[usize], lines: usize) -> Result<(Trace, Vec<Buffer>), Error> {
    let (rows, cols, terms) = (*rng.pick(sizes), *rng.pick(sizes), *rng.pick(inner));
    let batches = 1 << rng.below(4);
    let mut draft =
        Draft { batches, builder: Builder::new("main"), values: vec![], totals: vec![], inputs: vec![], rng };
    for (rows, cols) in [(rows, terms), (terms, cols), (cols, terms)] {
        draft.input(rows, cols)?;
    }
    let [queries, keys, values] = [0, 1, 2].map(|n| draft.values[n]);
    let scores = draft.product(queries, keys)?;
    draft.values.push(scores);
    let mut left = draft.rng.below(lines + 1);
    while left > 0 {
        if let Some(made) = draft.line() {
            let made = made?;
            draft.values.push(made);
            left -= 1;
        }
    }
    let scores = draft.values.iter().rev().find(|v| (v.rows, v.cols) == (rows, cols)).copied().unwrap_or(scores);
    let last = draft.product(scores, values)?;
    let mut outs: Vec<ProxyId> = Vec::new();
    for value in &draft.values[3..] {
        if draft.rng.one_in(6) {
            outs.push(value.id);
        }
    }
    outs.push(last.id);
    outs.append(&mut draft.totals);
    Ok((draft.builder.finish(&outs), draft.inputs))
}
