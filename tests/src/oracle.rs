//! The meaning of a call: the row's own text, evaluated by the plainest means.
//!
//! A scalar or index body is lowered and run as loops ([`loop_nest::run`]); a composite is run as a program of such
//! rows ([`tensor::run`]). No executor, trace or derivation takes part. The caller chooses the scalar domain: f64, f64
//! with an error bound ([`crate::bound`]), f64 that records its branches ([`crate::guard`]).

mod host;

use fulgurite::symbol::{self, Registered};
use fulgurite_core::eval::loop_nest::{self, Array, Data, Field, NestError};
use fulgurite_core::eval::tensor::{self, Machine};
use fulgurite_core::lang::ast::Param;
use fulgurite_core::lang::ast::*;
use fulgurite_core::lower::lower_with;
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::runtime_checks;
use fulgurite_core::signature::{self, ArgTy, Item, Refusal, Solved};
use fulgurite_core::{DType, Name, Scalar, TensorTy, Value};
use std::fmt;

/// The value of a tensor argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand<F> {
    /// A tensor.
    Tensor(Array<F>),
    /// A number that is known only when the program runs.
    Number(DType, Scalar),
    /// A random key: seed and stream.
    Key([u64; 2]),
}

impl<F: Field> Operand<F> {
    /// The operand's type, as signatures see it.
    pub fn ty(&self) -> ArgTy {
        match self {
            Operand::Tensor(a) => ArgTy::Tensor(TensorTy::new(a.dtype, &a.shape)),
            Operand::Number(d, _) => ArgTy::Number(*d),
            Operand::Key(_) => ArgTy::Key,
        }
    }

    /// The array, if it is a tensor.
    pub fn array(&self) -> Option<&Array<F>> {
        match self {
            Operand::Tensor(a) => Some(a),
            _ => None,
        }
    }

    /// Whether the operand can be differentiated.
    pub fn is_float_tensor(&self) -> bool {
        self.array().is_some_and(|a| a.dtype.is_float())
    }

    /// The operand in another scalar domain.
    pub fn convert<G: Field>(&self) -> Operand<G> {
        match self {
            Operand::Tensor(a) => Operand::Tensor(convert(a)),
            Operand::Number(d, s) => Operand::Number(*d, *s),
            Operand::Key(k) => Operand::Key(*k),
        }
    }

    /// The operand in the form that a nest reads: a key is two integers; a run-time number is not a tensor.
    fn loaded(&self) -> Option<Array<F>> {
        match self {
            Operand::Tensor(a) => Some(a.clone()),
            Operand::Key([seed, stream]) => Some(Array::int(DType::I64, &[2], vec![*seed as i64, *stream as i64])),
            Operand::Number(..) => None,
        }
    }
}

/// An array in another scalar domain.
pub fn convert<F: Field, G: Field>(a: &Array<F>) -> Array<G> {
    let data = match &a.data {
        Data::Float(v) => Data::Float(v.iter().map(|x| G::constant(x.value())).collect()),
        Data::Int(v) => Data::Int(v.clone()),
    };
    Array { dtype: a.dtype, shape: a.shape.clone(), data }
}

impl<F: Field> fmt::Display for Operand<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Tensor(a) => {
                write!(f, "{} {{", TensorTy::new(a.dtype, &a.shape))?;
                let all = a.scalars();
                for (i, s) in all.iter().take(24).enumerate() {
                    write!(f, "{}{s}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str(if all.len() > 24 { ", …}" } else { "}" })
            }
            Operand::Number(d, s) => write!(f, "run-time {d} {s}"),
            Operand::Key([seed, stream]) => write!(f, "key({seed}, {stream})"),
        }
    }
}

/// A scalar domain in which rows are evaluated.
pub trait Domain: Field {
    /// Called before a nest runs whose elements are computed in `compute`.
    fn enter(_compute: DType) {}
    /// An element of a tensor of `dtype`, as the nest reads it.
    fn read(self, _dtype: DType) -> Self {
        self
    }
    /// A result in the form in which it is stored, in `dtype`.
    fn stored(self, _dtype: DType) -> Self {
        self
    }
}

impl Domain for f64 {}

/// The results of a call with lists flattened, then its auxiliary results.
///
/// # Errors
/// A refusal of the signature; E705 if a condition on elements fails; E709 for an index out of range or an integer
/// division by zero (executors have codes of their own: see [`refused_when_run`]).
pub fn run<F: Domain>(row: &Row, args: &[Value<Operand<F>>]) -> Result<Vec<Array<F>>, Refusal> {
    let solved = signature::solve(row, args, &Operand::ty)?;
    let mut out = Vec::new();
    for value in call(row, args, &solved)? {
        collect(value, &mut out);
    }
    Ok(out)
}

/// The value of a text in the tensor language, for a call of `row`, with lists flattened.
///
/// # Errors
/// As [`run`].
pub fn rule<F: Domain>(row: &Row, text: &Block, args: &[Value<Operand<F>>]) -> Result<Vec<Value<Operand<F>>>, Refusal> {
    let solved = signature::solve(row, args, &Operand::ty)?;
    tensor::run(&mut Interpreter { written: Vec::new() }, row, text, &solved, args, &[])
}

/// Whether only elements can cause this refusal.
pub fn refused_when_run(r: &Refusal) -> bool {
    r.code == ELEMENTS
}

/// The oracle's own code for refused elements.
const ELEMENTS: &str = "elements";

fn collect<F>(value: Value<Operand<F>>, out: &mut Vec<Array<F>>) {
    match value {
        Value::Tensor(Operand::Tensor(a)) => out.push(a),
        Value::List(items) => items.into_iter().for_each(|i| collect(i, out)),
        _ => {}
    }
}

type Results<F> = Result<Vec<Value<Operand<F>>>, Refusal>;

fn call<F: Domain>(row: &Row, args: &[Value<Operand<F>>], solved: &Solved) -> Results<F> {
    check_elements(row, args, solved)?;
    match &row.meaning {
        Meaning::Decomp(body) => {
            let mut interpreter = Interpreter { written: Vec::new() };
            let mut values = tensor::run(&mut interpreter, row, body, solved, args, &[])?;
            // Written arguments follow the results, as in the lines of traces.
            let of = |p: &Param| interpreter.written.iter().find(|(name, _)| *name == p.name.name);
            values.extend(row.sig.params.iter().filter_map(of).map(|(_, value)| value.clone()));
            Ok(values)
        }
        Meaning::Expr(body) | Meaning::View(body) => {
            let outs = run_body(row, body, solved, args)?;
            Ok(solved.grouped(outs.into_iter().map(Operand::Tensor)))
        }
        Meaning::Host(name) => Ok(vec![Value::Tensor(Operand::Tensor(host::run(*name, args, solved)?))]),
    }
}

/// Runs a scalar or index body as loops.
fn run_body<F: Domain>(
    row: &Row,
    body: &Block,
    solved: &Solved,
    args: &[Value<Operand<F>>],
) -> Result<Vec<Array<F>>, Refusal> {
    let nest = lower_with(row, body, solved, &Registered)?;
    let (tensors, numbers) = flatten(row, args, solved);
    F::enter(solved.compute);
    let tensors: Vec<Array<F>> = tensors.into_iter().map(|a| each(a, F::read)).collect();
    let outs = loop_nest::run(&nest, &tensors, &numbers).map_err(|e| match e {
        NestError::Malformed(m) => Refusal::new("E706", m),
        other => Refusal::new(ELEMENTS, other.to_string()),
    })?;
    Ok(outs.into_iter().map(|a| each(a, F::stored)).collect())
}

/// The array with its floats replaced.
fn each<F>(mut a: Array<F>, f: fn(F, DType) -> F) -> Array<F> {
    if let Data::Float(v) = a.data {
        a.data = Data::Float(v.into_iter().map(|x| f(x, a.dtype)).collect());
    }
    a
}

/// The tensors of a call in order, and its run-time numbers by their positions.
fn flatten<F: Field>(row: &Row, args: &[Value<Operand<F>>], solved: &Solved) -> (Vec<Array<F>>, Vec<Scalar>) {
    let mut tensors = Vec::new();
    let mut numbers = Vec::new();
    let names = row.sig.params.iter().map(|p| p.name.name).chain(row.sig.opts.iter().map(|o| o.name.name));
    for (name, arg) in names.zip(args) {
        arg.for_each(&mut |o| tensors.extend(o.loaded()));
        if let (Some(Item::Runtime(at, _)), Value::Tensor(Operand::Number(_, s))) = (solved.env.item(name), arg) {
            if numbers.len() <= *at {
                numbers.resize(at + 1, Scalar::Int(0));
            }
            numbers[*at] = *s;
        }
    }
    (tensors, numbers)
}

/// Checks conditions on elements or run-time numbers: a bare tensor name means each of its elements.
fn check_elements<F: Domain>(row: &Row, args: &[Value<Operand<F>>], solved: &Solved) -> Result<(), Refusal> {
    let known = |arg: &Value<Operand<F>>| match arg {
        Value::Tensor(Operand::Number(_, s)) => Value::Num(*s),
        other => other.clone(),
    };
    let all_known: Vec<Value<Operand<F>>> = args.iter().map(known).collect();
    if let Err(refusal) = signature::solve(row, &all_known, &Operand::ty)
        && refusal.code == "E705"
    {
        return Err(Refusal::new(ELEMENTS, refusal.message));
    }
    let open = runtime_checks::open(row, solved)
        .map_err(|arg| Refusal::new(ELEMENTS, format!("`{}`: a condition can't read `{arg}`", row.op)))?;
    for condition in open {
        let holds = run_body(&condition.row, &condition.body, &condition.solved, args)?;
        if holds.iter().any(|a| matches!(&a.data, Data::Int(v) if v.contains(&0))) {
            return Err(Refusal::new(ELEMENTS, condition.message));
        }
    }
    Ok(())
}

/// Runs rows by the calls of the tensor language.
struct Interpreter<F> {
    written: Vec<(Name, Value<Operand<F>>)>,
}

impl<F: Domain> Machine for Interpreter<F> {
    type V = Operand<F>;
    type Error = Refusal;

    fn call(
        &mut self,
        op: Name,
        positional: Vec<Value<Operand<F>>>,
        named: Vec<(Name, Value<Operand<F>>)>,
    ) -> Results<F> {
        let (row, args, solved) = accepted(op, &positional, &named, &Operand::ty)?;
        let mut values = call(row, &args, &solved)?;
        values.truncate(row.sig.outs.len() + row.sig.aux.len());
        Ok(values)
    }

    fn ty(&self, v: &Operand<F>) -> ArgTy {
        v.ty()
    }

    fn write(&mut self, name: Name, value: Value<Operand<F>>) -> Result<(), Refusal> {
        self.written.push((name, value));
        Ok(())
    }
}

/// The first overload of `op` that accepts a call, the arguments in its order, and its solved signature.
///
/// # Errors
/// The refusal of the first overload; E007 if there is none.
pub fn accepted<V: Clone>(
    op: Name,
    positional: &[Value<V>],
    named: &[(Name, Value<V>)],
    ty: &dyn Fn(&V) -> ArgTy,
) -> Result<(&'static Row, Vec<Value<V>>, Solved), Refusal> {
    let mut first = None;
    for row in symbol::candidates(op).into_iter().map(|s| s.row()) {
        let solved = signature::arrange(row, positional.to_vec(), named.to_vec())
            .and_then(|args| signature::solve(row, &args, ty).map(|solved| (row, args, solved)));
        match solved {
            Ok(call) => return Ok(call),
            Err(refusal) => _ = first.get_or_insert(refusal),
        }
    }
    Err(first.unwrap_or_else(|| Refusal::new("E007", format!("no row `{op}`"))))
}
