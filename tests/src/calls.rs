//! Valid calls of a row, made from its signature alone.
//!
//! Sizes and lists of sizes get values first, options follow by their types, and shapes are built from the parameters'
//! patterns. [`signature::solve`] decides: a call that it refuses is dropped, and another one is tried. So a new row is
//! tested without a line of test code, and no test has its own interpretation of a signature. A row of which drawing finds
//! few calls is tested with calls that are like its own points (`examples`).
//!
//! Sizes are pairwise distinct if there are enough of them, so that swapped axes cannot hide; half of the calls
//! broadcast; every presence and word of an option comes up in turn ([`choices`]).

pub mod choices;
mod examples;
mod options;
mod sizes;
pub mod spoiled;
pub mod values;

pub use values::Values;

use crate::oracle::Operand;
use crate::rng::{self, Rng};
use crate::rows::TestRow;
use choices::Choice;
use fulgurite_core::lang::ast::*;
use fulgurite_core::row::Row;
use fulgurite_core::signature::{self, ArgTy, Env, Item, Solved};
use fulgurite_core::{DType, DTypeSet, Name, Scalar, TensorTy, Value};
use std::fmt;
use std::sync::Arc;

/// Attempts before a row counts as one without such a call.
const ATTEMPTS: usize = 400;
/// Draws of a row that decide whether its calls are drawn or made of its points.
const DRAWS: usize = 6;
/// At most this many elements of a tensor, because the interpreter walks each many times.
const MAX_ELEMENTS: usize = 2500;
/// At most this many axes of an argument that is drawn: a convolution over two axes has four, attention over two batch axes five.
const MAX_RANK: usize = 5;

/// The kind of call that is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The dtype of all `T` arguments; `None`: each has its own.
    pub dtype: Option<DType>,
    /// The distribution of elements.
    pub values: Values,
    /// Whether numbers may take the place of tensors.
    pub numbers: bool,
    /// Whether sizes may be 0.
    pub empty: bool,
    /// The number of the choice of presence and words.
    pub case: usize,
}

impl Wish {
    /// Plain calls in f64 for derivatives: no numbers, no empty tensors.
    pub fn smooth(case: usize) -> Wish {
        Wish { dtype: Some(DType::F64), values: Values::Tame, numbers: false, empty: false, case }
    }
}

/// A call that its signature accepts.
#[derive(Clone)]
pub struct Call {
    /// The row.
    pub row: Arc<Row>,
    /// One value per parameter and option, in signature order.
    pub args: Vec<Value<Operand<f64>>>,
    /// The solved signature.
    pub solved: Solved,
}

/// A call without elements: one type per tensor.
#[derive(Clone, Debug)]
pub struct Sketch {
    /// One value per parameter and option, in signature order, including run-time numbers.
    pub args: Vec<Value<Slot>>,
    /// The solved signature.
    pub solved: Solved,
}

/// The place of a tensor, key or run-time number in a [`Sketch`].
#[derive(Clone, Debug, PartialEq)]
pub enum Slot {
    /// A tensor of this type.
    Tensor(TensorTy),
    /// A run-time number.
    Number(DType, Scalar),
    /// A key.
    Key,
}

impl Slot {
    /// The slot's type, as signatures see it.
    pub fn ty(&self) -> ArgTy {
        match self {
            Slot::Tensor(t) => ArgTy::Tensor(t.clone()),
            Slot::Number(d, _) => ArgTy::Number(*d),
            Slot::Key => ArgTy::Key,
        }
    }
}

/// A valid call of `row` for the wish, if one was found.
pub fn generate(row: &TestRow, wish: &Wish, rng: &mut Rng) -> Option<Call> {
    for _ in 0..ATTEMPTS / 40 {
        let sketch = sketch(row, wish, rng)?;
        if let Some(call) = values::fill(row, &sketch, wish, rng) {
            return Some(call);
        }
    }
    None
}

/// The types of a valid call of `row` for the wish, if one was found.
pub fn sketch(row: &TestRow, wish: &Wish, rng: &mut Rng) -> Option<Sketch> {
    if is_drawn(row) {
        return drawn(row, wish, rng).or_else(|| examples::sketch(row, wish, rng));
    }
    examples::sketch(row, wish, rng).or_else(|| drawn(row, wish, rng))
}

/// Whether calls of the row are drawn; if not, they are made of its points first.
fn is_drawn(row: &TestRow) -> bool {
    row.points.is_empty() || *row.drawn.get_or_init(|| is_found(row))
}

/// Whether drawing finds a call of the row.
fn is_found(row: &TestRow) -> bool {
    let mut rng = Rng::new(rng::seed(row.row.op.as_str(), "drawn"));
    let found = |case| {
        let wish = Wish { dtype: None, values: Values::Small, numbers: false, empty: false, case };
        drawn(row, &wish, &mut rng).is_some_and(|sketch| values::fill(row, &sketch, &wish, &mut rng).is_some())
    };
    (0..DRAWS).any(found)
}

/// The types of a call whose sizes and options are drawn.
fn drawn(row: &TestRow, wish: &Wish, rng: &mut Rng) -> Option<Sketch> {
    let total = choices::count(&row.row).max(1);
    for attempt in 0..ATTEMPTS {
        // A choice that the row refuses (no bound for `clamp`) is replaced by others after some attempts.
        let case = if attempt < ATTEMPTS / 2 { wish.case } else { wish.case + rng.below(total) };
        let choice = choices::choose(&row.row, case);
        if let Some(args) = Attempt::new(row, wish, choice, rng).args()
            && let Ok(solved) = signature::solve(&row.row, &args, &Slot::ty)
            && wish.dtype.is_none_or(|d| solved.joined.is_none_or(|j| j == d))
            && small(&solved)
            && solved.env.slots.iter().flatten().all(|t| t.rank() <= MAX_RANK)
        {
            return Some(Sketch { args, solved });
        }
    }
    None
}

/// The types of a call for the wish that the row may refuse: lists may be empty, and numbers negative.
pub fn propose(row: &TestRow, wish: &Wish, rng: &mut Rng) -> Option<Vec<Value<Slot>>> {
    if !is_drawn(row) && !rng.one_in(3) {
        return examples::propose(row, wish, rng);
    }
    let choice = choices::choose(&row.row, wish.case);
    Attempt { odd: true, ..Attempt::new(row, wish, choice, rng) }.args()
}

fn small(solved: &Solved) -> bool {
    let fits = |t: &TensorTy| t.numel() <= MAX_ELEMENTS;
    let outs = solved.outs.iter().chain(&solved.aux).all(|o| match o {
        signature::OutTy::Tensor(t) => fits(t),
        signature::OutTy::List(ts) => ts.iter().all(fits) && ts.len() <= 16,
        signature::OutTy::FromBody => true,
    });
    outs && solved.env.slots.iter().flatten().all(fits)
}

/// One attempt at a call.
struct Attempt<'a> {
    row: &'a Row,
    /// Intervals from the row's test hints.
    domain: &'a [(Name, (f64, f64))],
    wish: &'a Wish,
    choice: Choice,
    /// Whether empty lists and negative numbers are wanted.
    odd: bool,
    /// Sizes and options chosen so far.
    env: Env,
    rng: &'a mut Rng,
}

impl<'a> Attempt<'a> {
    fn new(row: &'a TestRow, wish: &'a Wish, choice: Choice, rng: &'a mut Rng) -> Attempt<'a> {
        Attempt { row: &row.row, domain: &row.domain, wish, choice, odd: false, env: Env::default(), rng }
    }
}

impl Attempt<'_> {
    fn args(&mut self) -> Option<Vec<Value<Slot>>> {
        self.choose_sizes();
        let mut opts = vec![Value::Absent; self.row.sig.opts.len()];
        for late in [false, true] {
            for (i, opt) in self.row.sig.opts.iter().enumerate() {
                // Shifts of chosen axes are drawn after the axes.
                let waits = matches!(&opt.ty, OptType::Ints { axes: Some(_), .. });
                if waits == late && !self.choice.left_out[i] {
                    opts[i] = self.option(i, opt)?;
                }
            }
        }
        let joined = self.joined()?;
        let narrow = self.rng.one_in(2);
        let mut args = Vec::with_capacity(self.row.sig.params.len() + opts.len());
        for (i, param) in self.row.sig.params.iter().enumerate() {
            args.push(if self.choice.absent[i] { Value::Absent } else { self.param(param, joined, narrow)? });
        }
        self.some_tensor(&mut args, joined)?;
        args.extend(opts);
        Some(args)
    }

    /// The common dtype of the `T` arguments, or one around which they are drawn.
    fn joined(&mut self) -> Option<DType> {
        self.wish.dtype.or_else(|| Some(*self.rng.pick(&DType::STORED)))
    }

    fn param(&mut self, param: &Param, joined: DType, narrow: bool) -> Option<Value<Slot>> {
        if param.ty.elem.contains(&Elem::Key) {
            return Some(Value::Tensor(Slot::Key));
        }
        let scalar_like = param.ty.list.is_none() && param.ty.dims.as_ref().is_none_or(|d| d.is_empty());
        if self.wish.numbers && scalar_like && self.rng.one_in(4) {
            return Some(self.number(param, joined));
        }
        if param.ty.list.is_none() {
            let shape = self.shape(param, None, narrow)?;
            let dtype = self.dtype(&param.ty, joined);
            return Some(Value::Tensor(Slot::Tensor(TensorTy { dtype, shape })));
        }
        let items = match self.env.item(param.name.name) {
            Some(Item::Tensors(_, labelled)) => *labelled,
            _ if self.odd && self.rng.one_in(3) => 0,
            _ => 1 + self.rng.below(3),
        };
        let mut list = Vec::new();
        for item in 0..items {
            let shape = self.shape(param, Some(item), narrow)?;
            let dtype = self.dtype(&param.ty, joined);
            list.push(Value::Tensor(Slot::Tensor(TensorTy { dtype, shape })));
        }
        Some(Value::List(list))
    }

    /// A number in place of a tensor, known while tracing or only at run time.
    fn number(&mut self, param: &Param, joined: DType) -> Value<Slot> {
        let bool_only = param.ty.elem.iter().all(|e| matches!(e, Elem::Class(c) if *c == "bool"));
        let scalar = if bool_only {
            Scalar::Bool(self.rng.one_in(2))
        } else if joined.is_float() && self.rng.one_in(2) {
            // A quarter of an integer is exact in every float dtype.
            Scalar::Float(self.rng.int(1, 11) as f64 / 4.0)
        } else {
            Scalar::Int(self.rng.int(if self.odd { -3 } else { 1 }, 3))
        };
        match self.rng.one_in(3) && !bool_only {
            true => Value::Tensor(Slot::Number(scalar.dtype(), scalar)),
            false => Value::Num(scalar),
        }
    }

    /// If every argument of a row of tensors became a number, the first becomes a tensor after all.
    fn some_tensor(&mut self, args: &mut [Value<Slot>], joined: DType) -> Option<()> {
        let tensor = |a: &Value<Slot>| matches!(a, Value::Tensor(Slot::Tensor(_)) | Value::List(_));
        if args.iter().any(tensor) {
            return Some(());
        }
        let at = self.row.sig.params.iter().position(|p| !p.ty.elem.contains(&Elem::Key));
        if let Some(at) = at {
            let param = &self.row.sig.params[at];
            let shape = self.shape(param, None, false)?;
            let dtype = self.dtype(&param.ty, joined);
            args[at] = Value::Tensor(Slot::Tensor(TensorTy { dtype, shape }));
        }
        Some(())
    }

    fn dtype(&mut self, ty: &Type, joined: DType) -> DType {
        // Unions (`bool | T`, `T | acc(T)`) allow any of their classes.
        let elem = self.rng.pick(&ty.elem).clone();
        match elem {
            Elem::Var(v) if v == "T" && self.wish.dtype.is_some() => joined,
            // Where arguments must agree, they mostly do.
            Elem::Var(v) if v == "T" && (self.agree() && !self.rng.one_in(16) || !self.rng.one_in(2)) => joined,
            // If the wish is f64, the other variables are f64 too, since a narrower dtype rounds.
            Elem::Var(_) if self.wish.dtype == Some(DType::F64) => DType::F64,
            Elem::Var(_) => *self.rng.pick(&DType::STORED),
            Elem::Index => *self.rng.pick(&[DType::I64, DType::I32]),
            Elem::Acc(_) => {
                if joined.is_float() {
                    joined.opmath()
                } else {
                    joined
                }
            }
            Elem::Real(_) => joined.real(),
            Elem::Class(c) => {
                let all: Vec<DType> = DTypeSet::from_class(c.as_str())
                    .map(|s| s.iter().filter(|d| DType::STORED.contains(d) || d.is_storage()).collect())
                    .unwrap_or_default();
                if all.is_empty() { DType::Bool } else { *self.rng.pick(&all) }
            }
            Elem::Key => DType::I64,
        }
    }

    fn agree(&self) -> bool {
        let equal = |e: &Expr| matches!(&*e.node, Node::Name(n) if *n == "equal");
        self.row.promote.as_ref().is_some_and(equal)
    }

    fn size(&self, name: Name) -> Option<&signature::Size> {
        self.env.size(name)
    }

    fn rank(&self, list: Name) -> usize {
        match self.size(list) {
            Some(signature::Size::List(l)) => l.len(),
            Some(signature::Size::Each(l)) => l.len(),
            _ => 0,
        }
    }

    fn one(&self, size: Name) -> i64 {
        match self.size(size) {
            Some(signature::Size::One(d)) => d.value(),
            _ => 0,
        }
    }

    fn sizes_of(&self, list: Name) -> Vec<i64> {
        match self.size(list) {
            Some(signature::Size::List(l)) => l.iter().map(|d| d.value()).collect(),
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Sketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slot = |s: &Slot| match s {
            Slot::Tensor(t) => t.to_string(),
            Slot::Number(_, s) => s.to_string(),
            Slot::Key => "key".to_owned(),
        };
        let args: Vec<String> = self.args.iter().map(|a| show(a, &slot)).collect();
        write!(f, "({})", args.join(", "))
    }
}

impl Call {
    /// The float arguments that `T` or a union with it covers, which can be differentiated. Positions in `args`.
    pub fn float_args(&self) -> Vec<usize> {
        (0..self.row.sig.params.len())
            .filter(|&i| {
                let mut float = false;
                self.args[i].for_each(&mut |o| float |= o.is_float_tensor());
                float
            })
            .collect()
    }
}

impl fmt::Display for Call {
    /// Prints `add(x = f32[2, 3] {1.0, …}, y = 2)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names =
            self.row.sig.params.iter().map(|p| p.name.name).chain(self.row.sig.opts.iter().map(|o| o.name.name));
        let given: Vec<String> = names
            .zip(&self.args)
            .filter(|(_, v)| !v.is_absent())
            .map(|(n, v)| format!("{n} = {}", show(v, &Operand::to_string)))
            .collect();
        write!(f, "{}({})", self.row.op, given.join(", "))
    }
}

/// An argument as text.
pub fn show<V>(value: &Value<V>, tensor: &dyn Fn(&V) -> String) -> String {
    match value {
        Value::Tensor(v) => tensor(v),
        Value::Type(t) => t.to_string(),
        Value::Num(s) => s.to_string(),
        Value::Size(d) => d.to_string(),
        Value::DType(d) => d.to_string(),
        Value::Word(w) => w.to_string(),
        Value::Str(s) => format!("{s:?}"),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(|i| show(i, tensor)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Absent => "absent".into(),
    }
}
