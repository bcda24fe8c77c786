//! Evaluates loop nests element by element: the oracle.
//!
//! The evaluation favours plainness over speed: loops over the index variables of a [`Nest`], with one recursive
//! evaluation of its scalar expression each. Floats are a [`Field`] (f64, or a type that a check needs), never rounded
//! in between; integers are i64 that wrap to the width of their dtype. Executors and derivations are measured against
//! this.

mod fold;
mod whole;

use crate::builtins::{Builtin, IntError, cast_f64, cast_int, eval_bool, eval_f64, eval_int};
use crate::lang::ast::Red;
use crate::loop_nest::{LoopExpr, Nest, NestOut, SOp, SOutside, SRange};
use crate::{DType, Scalar, philox};
use fold::Acc;
pub use fold::neutral;
use smallvec::SmallVec;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;

/// A type that takes the place of floating-point numbers.
pub trait Field: Clone {
    /// A constant.
    fn constant(x: f64) -> Self;
    /// The value that decides comparisons, branches and casts to integers.
    fn value(&self) -> f64;
    /// A builtin with a float result.
    fn call(builtin: Builtin, args: &[Self]) -> Self;
    /// This value with derivative zero.
    fn detach(self) -> Self;
    /// The value as a tensor of `dtype` holds it. A field that carries more than a value keeps its width.
    fn kept_as(self, _dtype: DType) -> Self {
        self
    }
    /// The value rounded to `dtype` by a cast.
    fn rounded_to(self, dtype: DType) -> Self {
        Self::constant(cast_f64(self.value(), dtype).as_f64())
    }
}

impl Field for f64 {
    fn constant(x: f64) -> f64 {
        x
    }
    fn value(&self) -> f64 {
        *self
    }
    fn call(builtin: Builtin, args: &[f64]) -> f64 {
        eval_f64(builtin, args)
    }
    fn detach(self) -> f64 {
        self
    }
    fn kept_as(self, dtype: DType) -> f64 {
        match dtype {
            DType::F16 => half::f16::from_f64(self).to_f64(),
            DType::BF16 => half::bf16::from_f64(self).to_f64(),
            DType::F32 | DType::F64 | DType::C64 | DType::C128 => self,
            _ if dtype.is_float() => f64::from(crate::minifloat::round(self as f32, dtype)),
            _ => self,
        }
    }
}

/// The elements of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum Data<F> {
    /// Elements of a float dtype.
    Float(Vec<F>),
    /// Elements of an integer dtype, or bool as 0 and 1.
    Int(Vec<i64>),
}

/// A tensor: row-major elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Array<F> {
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub shape: Vec<usize>,
    /// Elements.
    pub data: Data<F>,
}

impl<F: Field> Array<F> {
    /// A tensor of floats.
    pub fn float(dtype: DType, shape: &[usize], data: Vec<F>) -> Array<F> {
        Array { dtype, shape: shape.to_vec(), data: Data::Float(data) }
    }
    /// A tensor of integers, or of bool as 0 and 1.
    pub fn int(dtype: DType, shape: &[usize], data: Vec<i64>) -> Array<F> {
        Array { dtype, shape: shape.to_vec(), data: Data::Int(data) }
    }
    /// A tensor of numbers, cast to `dtype`.
    pub fn from_scalars(dtype: DType, shape: &[usize], data: impl IntoIterator<Item = Scalar>) -> Array<F> {
        let data = data.into_iter();
        match dtype.is_float() {
            true => Array::float(dtype, shape, data.map(|s| F::constant(s.as_f64()).kept_as(dtype)).collect()),
            false => Array::int(dtype, shape, data.map(|s| s.as_i64()).collect()),
        }
    }
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }
    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The elements' values as numbers.
    pub fn scalars(&self) -> Vec<Scalar> {
        match &self.data {
            Data::Float(v) => v.iter().map(|x| Scalar::Float(x.value())).collect(),
            Data::Int(v) if self.dtype == DType::Bool => v.iter().map(|x| Scalar::Bool(*x != 0)).collect(),
            Data::Int(v) => v.iter().map(|x| Scalar::Int(*x)).collect(),
        }
    }
    fn at(&self, flat: usize) -> Option<Val<F>> {
        match &self.data {
            Data::Float(v) => v.get(flat).cloned().map(Val::Float),
            Data::Int(v) if self.dtype == DType::Bool => v.get(flat).map(|x| Val::Bool(*x != 0)),
            Data::Int(v) => v.get(flat).map(|x| Val::Int(*x)),
        }
    }
}

/// The reason why a nest has no value on these tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NestError {
    /// An index lies outside its axis.
    OutOfRange {
        /// Position among the tensors.
        tensor: usize,
        /// The axis.
        axis: usize,
        /// The index.
        index: i64,
        /// The size of the axis.
        size: usize,
    },
    /// Integer arithmetic has no value.
    Int(Builtin, IntError),
    /// A result has this many elements, more than memory or the step budget allows.
    Room(usize),
    /// The step budget was exceeded.
    Steps,
    /// The nest does not fit the tensors, or a node has no meaning for its dtype: a fault of the caller.
    Malformed(String),
}

impl fmt::Display for NestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NestError::OutOfRange { tensor, axis, index, size } => {
                let which = match tensor {
                    0 => "the first tensor".to_string(),
                    1 => "the second tensor".to_string(),
                    n => format!("tensor {}", n + 1),
                };
                write!(f, "index {index} is out of range for axis {axis} of {which}, whose size is {size}")
            }
            NestError::Int(b, e) => write!(f, "{}: {e}", b.name()),
            NestError::Room(n) => write!(f, "there is no room for a result of {n} elements"),
            NestError::Steps => f.write_str("it takes more steps than are allowed"),
            NestError::Malformed(m) => f.write_str(m),
        }
    }
}
impl std::error::Error for NestError {}

/// [`run`] on f64, compiled once in this crate, where evaluators are optimised.
///
/// # Errors
/// The errors are those of [`run`].
pub fn run_f64(nest: &Nest, tensors: &[Array<f64>], nums: &[Scalar]) -> Result<Vec<Array<f64>>, NestError> {
    run(nest, tensors, nums)
}

/// Runs a nest: one array per result. Float results are not rounded to their dtype; integer results wrap to theirs.
///
/// # Errors
/// An index out of range where the access refuses one; an integer divided by zero; a result too large for memory.
pub fn run<F: Field>(nest: &Nest, tensors: &[Array<F>], nums: &[Scalar]) -> Result<Vec<Array<F>>, NestError> {
    run_within(nest, tensors, nums, &mut u64::MAX.clone())
}

/// [`run`] with a budget: every evaluated node counts `steps` down. Sizes and bounds are data, so a short call may take
/// very long.
///
/// # Errors
/// The errors are those of [`run`], and [`NestError::Room`] or [`NestError::Steps`] where the steps do not suffice.
pub fn run_within<F: Field, A: Borrow<Array<F>>>(
    nest: &Nest,
    tensors: &[A],
    nums: &[Scalar],
    steps: &mut u64,
) -> Result<Vec<Array<F>>, NestError> {
    let tensors: SmallVec<[&Array<F>; 4]> = tensors.iter().map(Borrow::borrow).collect();
    for (i, a) in tensors.iter().enumerate() {
        let held = match &a.data {
            Data::Float(v) => v.len(),
            Data::Int(v) => v.len(),
        };
        if held != a.len() {
            return Err(NestError::Malformed(format!("tensor {i} has {held} elements, its shape {:?}", a.shape)));
        }
    }
    // Nearly all nests have one result, so capacity for one suffices.
    let mut results = Vec::with_capacity(nest.outs.len());
    for out in &nest.outs {
        results.push(one(nest, out, &tensors, nums, steps)?);
    }
    Ok(results)
}

fn one<F: Field>(
    nest: &Nest,
    out: &NestOut,
    tensors: &[&Array<F>],
    nums: &[Scalar],
    steps: &mut u64,
) -> Result<Array<F>, NestError> {
    let shape: Vec<usize> = out.shape.iter().map(|d| d.len()).collect();
    if let Some(elements) = whole::floats(out, &shape, tensors, steps) {
        return Ok(Array { dtype: out.dtype, shape, data: Data::Float(elements) });
    }
    let mut data = room(out.dtype, &shape, *steps)?;
    let position = SmallVec::from_elem(0, shape.len());
    let vars = SmallVec::from_elem(0, nest.vars.len());
    let whole = tensors.iter().map(|a| a.shape == shape).collect();
    let mut eval = Eval { tensors, nums, vars, position, flat: 0, whole, shape: &shape, steps };
    let running: SmallVec<[(usize, usize); 6]> =
        out.axes.iter().enumerate().filter_map(|(axis, var)| Some((axis, (*var)?))).collect();
    for flat in 0..shape.iter().product() {
        eval.flat = flat;
        for (axis, var) in &running {
            eval.vars[*var] = eval.position[*axis] as i64;
        }
        match eval.store(&out.expr, out.dtype, &mut data) {
            Ok(()) => {}
            Err(Stop::Skip) => return Err(NestError::Malformed("an element was left out of no reduction".into())),
            Err(Stop::Error(e)) => return Err(*e),
        }
        step(&mut eval.position, &shape);
    }
    Ok(Array { dtype: out.dtype, shape, data })
}

/// Allocates a result with at most as many elements as there are steps.
fn room<F: Field>(dtype: DType, shape: &[usize], steps: u64) -> Result<Data<F>, NestError> {
    let total = match shape.contains(&0) {
        true => 0,
        false => shape.iter().fold(1, |n: usize, size| n.saturating_mul(*size)),
    };
    let none = |_| NestError::Room(total);
    if total as u64 > steps {
        return Err(NestError::Room(total));
    }
    if dtype.is_float() {
        let mut data = Vec::new();
        data.try_reserve_exact(total).map_err(none)?;
        return Ok(Data::Float(data));
    }
    let mut data = Vec::new();
    data.try_reserve_exact(total).map_err(none)?;
    Ok(Data::Int(data))
}

/// The next position in row-major order.
fn step(position: &mut [usize], shape: &[usize]) {
    for axis in (0..shape.len()).rev() {
        position[axis] += 1;
        if position[axis] < shape[axis] {
            return;
        }
        position[axis] = 0;
    }
}

#[derive(Clone, Debug)]
enum Val<F> {
    Float(F),
    Int(i64),
    Bool(bool),
}

impl<F: Field> Val<F> {
    fn from_scalar(s: Scalar) -> Val<F> {
        match s {
            Scalar::Bool(b) => Val::Bool(b),
            Scalar::Int(i) => Val::Int(i),
            Scalar::Float(x) => Val::Float(F::constant(x)),
        }
    }
    fn as_bool(&self) -> bool {
        match self {
            Val::Float(x) => x.value() != 0.0,
            Val::Int(i) => *i != 0,
            Val::Bool(b) => *b,
        }
    }
    fn into_float(self) -> F {
        match self {
            Val::Float(x) => x,
            Val::Int(i) => F::constant(i as f64),
            Val::Bool(b) => F::constant(b as i64 as f64),
        }
    }
    /// The value as an element of `dtype`; floats keep their width.
    fn cast(self, dtype: DType) -> Val<F> {
        match (&self, dtype) {
            (Val::Int(_), DType::I64) | (Val::Bool(_), DType::Bool) => return self,
            _ if dtype.is_float() => return Val::Float(self.into_float()),
            _ => {}
        }
        Val::from_scalar(match self {
            Val::Float(x) => cast_f64(x.value(), dtype),
            Val::Int(i) => cast_int(i, dtype),
            Val::Bool(b) => cast_int(b as i64, dtype),
        })
    }
    /// Larger in the order of `max`: NaN is above everything.
    fn above(&self, other: &Val<F>) -> bool {
        match (self, other) {
            (Val::Float(a), Val::Float(b)) => {
                let (a, b) = (a.value(), b.value());
                a > b || (a.is_nan() && !b.is_nan())
            }
            (Val::Int(a), Val::Int(b)) => a > b,
            (a, b) => a.as_bool() & !b.as_bool(),
        }
    }
    /// Smaller in the order of `min`: NaN is below everything.
    fn below(&self, other: &Val<F>) -> bool {
        match (self, other) {
            (Val::Float(a), Val::Float(b)) => {
                let (a, b) = (a.value(), b.value());
                a < b || (a.is_nan() && !b.is_nan())
            }
            _ => other.above(self),
        }
    }
}

/// A builtin on floats, with a result of dtype `ty`. The neighbour of a number depends on the dtype: for f32 it is the
/// next f32, however wide the evaluation is.
fn called<F: Field>(b: Builtin, floats: &[F], ty: DType) -> F {
    if let (Builtin::Nextafter, DType::F32, [x, y]) = (b, ty, floats) {
        let (from, to) = (x.value() as f32, y.value() as f32);
        let next = match from.partial_cmp(&to) {
            Some(Ordering::Less) => from.next_up(),
            Some(Ordering::Greater) => from.next_down(),
            Some(Ordering::Equal) | None => return F::call(b, floats),
        };
        let step = f64::from(next) - x.value();
        return if step.is_finite() {
            F::call(Builtin::Add, &[x.clone(), F::constant(step)])
        } else {
            F::constant(next.into())
        };
    }
    F::call(b, floats)
}

/// The result of a builtin on floats, as a value of dtype `ty`.
fn of_floats<F: Field>(b: Builtin, floats: &[F], ty: DType) -> Val<F> {
    if ty != DType::Bool {
        return Val::Float(called(b, floats, ty)).cast(ty);
    }
    let plain: SmallVec<[f64; 3]> = floats.iter().map(Field::value).collect();
    Val::Bool(eval_f64(b, &plain) != 0.0)
}

/// The reason why an expression gave no value.
enum Stop {
    /// The element is skipped in the innermost reduction.
    Skip,
    /// Boxed, so that the results of nodes are small.
    Error(Box<NestError>),
}

impl From<NestError> for Stop {
    fn from(e: NestError) -> Stop {
        Stop::Error(Box::new(e))
    }
}

fn malformed<T>(what: impl Into<String>) -> Result<T, Stop> {
    Err(NestError::Malformed(what.into()).into())
}

struct Eval<'a, F> {
    tensors: &'a [&'a Array<F>],
    nums: &'a [Scalar],
    vars: SmallVec<[i64; 8]>,
    /// The implicit position of pointwise nests, in `shape`.
    position: SmallVec<[usize; 6]>,
    /// That position in row-major order.
    flat: usize,
    /// Whether each tensor has that shape, so that it is read at `flat`.
    whole: SmallVec<[bool; 8]>,
    shape: &'a [usize],
    /// The number of nodes that may still be evaluated.
    steps: &'a mut u64,
}

impl<F: Field> Eval<'_, F> {
    /// Counts one evaluation of `e`.
    fn spend(&mut self, e: &LoopExpr) -> Result<(), Stop> {
        match self.steps.checked_sub(u64::from(e.weight())) {
            Some(left) => *self.steps = left,
            None => return Err(NestError::Steps.into()),
        }
        Ok(())
    }

    fn expr(&mut self, e: &LoopExpr) -> Result<Val<F>, Stop> {
        let ty = e.ty();
        Ok(match e.op() {
            SOp::Const(s) => Val::from_scalar(*s).cast(ty),
            SOp::Num(i) => match self.nums.get(*i) {
                Some(s) => Val::from_scalar(*s).cast(ty),
                None => return malformed(format!("run-time number {i} is missing")),
            },
            SOp::Var(v) => Val::Int(self.vars[*v]),
            SOp::Elem(t) => self.elem(*t)?.cast(ty),
            SOp::Load { tensor, idx, outside } => self.load(*tensor, idx, outside)?.cast(ty),
            SOp::Call(b, args) => self.call(*b, args, ty)?,
            // The cast rounds on purpose; other numbers are as exact as `F`.
            SOp::Cast(a) if ty.is_float() && ty.opmath() != ty => Val::Float(self.expr(a)?.into_float().rounded_to(ty)),
            SOp::Cast(a) => self.expr(a)?.cast(ty),
            SOp::Select(c, a, b) => {
                let branch = if self.expr(c)?.as_bool() { a } else { b };
                self.expr(branch)?.cast(ty)
            }
            SOp::Reduce { red, vars, filter, body, otherwise } => {
                self.reduce(*red, vars, filter.as_ref(), body, otherwise.as_ref(), ty)?
            }
            SOp::Uniform { key, position, draw } => {
                let words = match self.tensors.get(*key).map(|k| &k.data) {
                    Some(Data::Int(words)) if words.len() == 2 => [words[0] as u64, words[1] as u64],
                    _ => return malformed("a random number needs a key"),
                };
                let at = self.int(position)?;
                Val::Float(F::constant(philox::uniform(words[0], words[1], at as u64, *draw) as f64))
            }
            SOp::Detach(a) => match self.expr(a)? {
                Val::Float(x) => Val::Float(x.detach()),
                other => other,
            },
        })
    }

    /// Adds the value of a whole expression to a result's elements.
    fn store(&mut self, e: &LoopExpr, dtype: DType, data: &mut Data<F>) -> Result<(), Stop> {
        self.spend(e)?;
        match data {
            Data::Float(elements) => elements.push(self.float(e)?),
            Data::Int(elements) => elements.push(match self.expr(e)?.cast(dtype) {
                Val::Int(x) => x,
                Val::Bool(x) => x as i64,
                Val::Float(_) => return malformed(format!("a result is no {dtype}")),
            }),
        }
        Ok(())
    }

    /// The value as a float. Most evaluated nodes are floats of floats, which this path returns without wrapping them
    /// in [`Val`].
    fn float(&mut self, e: &LoopExpr) -> Result<F, Stop> {
        match e.op() {
            SOp::Elem(tensor) if e.ty().is_float() => {
                if let Some(Array { data: Data::Float(elements), .. }) = self.tensors.get(*tensor)
                    && self.whole.get(*tensor) == Some(&true)
                    && let Some(x) = elements.get(self.flat)
                {
                    return Ok(x.clone());
                }
            }
            SOp::Call(b, args) if e.ty().is_float() => match args.as_slice() {
                [x] if x.ty().is_float() => return Ok(called(*b, &[self.float(x)?], e.ty())),
                [x, y] if x.ty().is_float() => return Ok(called(*b, &[self.float(x)?, self.float(y)?], e.ty())),
                _ => {}
            },
            _ => {}
        }
        Ok(self.expr(e)?.into_float())
    }

    fn int(&mut self, e: &LoopExpr) -> Result<i64, Stop> {
        // Most indices are variables, or sums of them.
        let whole = |e: &LoopExpr| e.ty() == DType::I64;
        match e.op() {
            SOp::Var(v) => return Ok(self.vars[*v]),
            SOp::Const(Scalar::Int(i)) if whole(e) => return Ok(*i),
            SOp::Call(b @ (Builtin::Add | Builtin::Sub | Builtin::Mul), args) if whole(e) => {
                if let [x, y] = args.as_slice()
                    && whole(x)
                    && whole(y)
                {
                    let (x, y) = (self.int(x)?, self.int(y)?);
                    return Ok(match b {
                        Builtin::Add => x.wrapping_add(y),
                        Builtin::Sub => x.wrapping_sub(y),
                        _ => x.wrapping_mul(y),
                    });
                }
            }
            _ => {}
        }
        match self.expr(e)? {
            Val::Int(i) => Ok(i),
            Val::Bool(b) => Ok(b as i64),
            Val::Float(_) => malformed("an index is no integer"),
        }
    }

    /// The element at the implicit position; axes that the tensor lacks, or has with size 1, broadcast.
    fn elem(&self, tensor: usize) -> Result<Val<F>, Stop> {
        let Some(a) = self.tensors.get(tensor) else { return malformed(format!("tensor {tensor} is missing")) };
        if self.whole.get(tensor) == Some(&true) {
            return a.at(self.flat).map_or_else(|| malformed("a tensor is too short"), Ok);
        }
        let Some(lead) = self.position.len().checked_sub(a.shape.len()) else {
            return malformed(format!("tensor {tensor} has more axes than the result"));
        };
        let mut flat = 0;
        for (axis, &n) in a.shape.iter().enumerate() {
            let (at, size) = (self.position[lead + axis], self.shape[lead + axis]);
            if n != 1 && n != size {
                return malformed(format!("tensor {tensor} has size {n}, the result {size}"));
            }
            flat = flat * n + if n == 1 { 0 } else { at };
        }
        a.at(flat).map_or_else(|| malformed("a tensor is too short"), Ok)
    }

    fn load(&mut self, tensor: usize, idx: &[LoopExpr], outside: &SOutside) -> Result<Val<F>, Stop> {
        let tensors = self.tensors;
        let Some(a) = tensors.get(tensor) else { return malformed(format!("tensor {tensor} is missing")) };
        if a.shape.len() != idx.len() {
            return malformed(format!("tensor {tensor} has {} axes, {} indices are given", a.shape.len(), idx.len()));
        }
        let mut flat = 0;
        for (axis, (e, &size)) in idx.iter().zip(&a.shape).enumerate() {
            // Most places are variables.
            let index = if let SOp::Var(v) = e.op() { self.vars[*v] } else { self.int(e)? };
            if index < 0 || index as u64 >= size as u64 {
                return match outside {
                    SOutside::Refuse => Err(NestError::OutOfRange { tensor, axis, index, size }.into()),
                    SOutside::Skip => Err(Stop::Skip),
                    SOutside::Value(v) => self.expr(v),
                };
            }
            flat = flat * size + index as usize;
        }
        a.at(flat).map_or_else(|| malformed("a tensor is too short"), Ok)
    }

    fn call(&mut self, b: Builtin, args: &[LoopExpr], ty: DType) -> Result<Val<F>, Stop> {
        // `and` and `or` decide by the left side where they can: the right side may be out of range then.
        if let (Builtin::And | Builtin::Or, [x, y]) = (b, args) {
            let left = self.expr(x)?.as_bool();
            return Ok(Val::Bool(if left == (b == Builtin::And) { self.expr(y)?.as_bool() } else { left }));
        }
        // No builtin has more than three operands, so nothing is allocated.
        let dtype = args.first().map_or(ty, LoopExpr::ty);
        if dtype.is_float() {
            return Ok(match args {
                [x] => of_floats(b, &[self.float(x)?], ty),
                [x, y] => of_floats(b, &[self.float(x)?, self.float(y)?], ty),
                _ => {
                    let floats: SmallVec<[F; 3]> =
                        args.iter().map(|arg| self.float(arg)).collect::<Result<_, Stop>>()?;
                    of_floats(b, &floats, ty)
                }
            });
        }
        if let [x, y] = args
            && x.ty().is_int()
            && y.ty().is_int()
        {
            let ints = [self.int(x)?, self.int(y)?];
            return Ok(Val::Int(eval_int(b, &ints, dtype).map_err(|e| NestError::Int(b, e))?).cast(ty));
        }
        let mut vals: SmallVec<[Val<F>; 3]> = SmallVec::new();
        for arg in args {
            vals.push(self.expr(arg)?);
        }
        let value = if dtype == DType::Bool {
            let bools: SmallVec<[bool; 3]> = vals.iter().map(Val::as_bool).collect();
            match eval_bool(b, &bools) {
                Some(v) => Val::Bool(v),
                None => return malformed(format!("`{}` is not defined on bool", b.name())),
            }
        } else {
            let ints: SmallVec<[i64; 3]> =
                vals.iter().map(|v| if let Val::Int(i) = v { *i } else { v.as_bool() as i64 }).collect();
            Val::Int(eval_int(b, &ints, dtype).map_err(|e| NestError::Int(b, e))?)
        };
        Ok(value.cast(ty))
    }

    fn reduce(
        &mut self,
        red: Red,
        vars: &[SRange],
        filter: Option<&LoopExpr>,
        body: &LoopExpr,
        otherwise: Option<&LoopExpr>,
        ty: DType,
    ) -> Result<Val<F>, Stop> {
        let mut acc = Acc::new(red, ty, body.ty());
        // an empty range leaves nothing to combine, however long the ranges around it are
        let empty = |range: &SRange| matches!((range.lo.as_int(), range.hi.as_int()), (Some(lo), Some(hi)) if lo >= hi);
        if !vars.iter().any(empty) {
            self.loops(vars, filter, body, &mut acc)?;
        }
        if acc.count == 0
            && let Some(e) = otherwise
        {
            return Ok(self.expr(e)?.cast(ty));
        }
        acc.finish()
    }

    /// Runs the loops over `vars`, outermost first, combining the body into `acc`. `Ok(false)`: the result is decided.
    fn loops(
        &mut self,
        vars: &[SRange],
        filter: Option<&LoopExpr>,
        body: &LoopExpr,
        acc: &mut Acc<F>,
    ) -> Result<bool, Stop> {
        let Some((range, inner)) = vars.split_first() else {
            self.spend(body)?;
            let flat = acc.flat;
            acc.flat += 1;
            if let Some(c) = filter
                && !self.expr(c)?.as_bool()
            {
                return Ok(true);
            }
            return match self.expr(body) {
                Ok(v) => acc.add(v, flat),
                Err(Stop::Skip) => Ok(true),
                Err(e) => Err(e),
            };
        };
        let (lo, hi) = (self.int(&range.lo)?, self.int(&range.hi)?);
        let outer = self.vars[range.var];
        let mut more = true;
        for i in lo..hi {
            // An empty inner loop takes time as well.
            if !inner.is_empty() {
                self.spend(&range.lo)?;
            }
            self.vars[range.var] = i;
            more = self.loops(inner, filter, body, acc)?;
            if !more {
                break;
            }
        }
        self.vars[range.var] = outer;
        Ok(more)
    }
}

#[cfg(test)]
mod tests;
