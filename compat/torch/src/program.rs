//! Programs: a row with its options, and the derivatives and batches of programs.
//!
//! A program is a function of tensors and sizes to a list of tensors. Its text is JSON:
//!
//! ```text
//! {"row": "softmax", "args": [{"tensor": 0}, {"size": 0}]}
//! {"vjp": P, "inputs": 1, "of": [0], "results": [0]}   tensors of P, then the cotangents of these results of P;
//!                                                      gives the cotangents of these tensors of P
//! {"vjp": P, …, "unread": {"1": ["f32", [4, 0]]}}      tensors of P that the derivative does not read are left out; their
//!                                                      dtypes and sizes follow, each size as the number of one
//! {"jvp": P, "inputs": 1, "of": [0]}                   tensors of P, then the tangents of these; gives tangents
//! {"vmap": P, "axes": [0, null]}                       the batch axes of the tensors of P; results have it first
//! {"pick": P, "result": 0}                             one result of P
//! ```
//!
//! An argument of a row is `{"tensor": i}`, `{"size": i}`, `{"float": "0.5"}` (in text, so that infinities and NaN have a
//! form), `{"dtype": "f32"}`, an integer, a truth value, a word, null or a list of arguments. The Python half notes
//! `"key": true` beside the number of a tensor; it means nothing here.

use crate::memory::named_dtype;
use crate::wrong;
use fulgurite::core::foreign::{self, Given};
use fulgurite::core::lang::ast::Elem;
use fulgurite::core::loc::Loc;
use fulgurite::core::{DType, Dim, Name, TensorTy};
use fulgurite::symbol::{self, SymbolRef};
use fulgurite::{Error, Key, Tensor, TensorOps, api};
use serde_json::Value as Json;

/// A program is nested at most this deep, because its text comes from outside. A derivative of the tenth order in a
/// batch of batches has half of that.
pub(crate) const DEEPEST: usize = 64;

/// A function of tensors and sizes.
#[derive(Clone, Debug)]
pub enum TransformedProgram {
    /// A row with its arguments in the order of the signature.
    Row {
        /// The row.
        symbol: SymbolRef,
        /// One per argument and option; those at the end that are left out are absent.
        args: Vec<Argument>,
    },
    /// The product of cotangents with the derivative.
    Vjp {
        /// The program that is differentiated.
        program: Box<TransformedProgram>,
        /// The number of its tensors.
        inputs: usize,
        /// The tensors by which it is differentiated.
        of: Vec<usize>,
        /// The results that have a cotangent.
        results: Vec<usize>,
        /// The tensors that the derivative does not read, and that are not given: for each its number, its dtype, and
        /// the numbers of its sizes.
        unread: Vec<(usize, DType, Vec<usize>)>,
    },
    /// The product of the derivative with tangents.
    Jvp {
        /// The program that is differentiated.
        program: Box<TransformedProgram>,
        /// The number of its tensors.
        inputs: usize,
        /// The tensors that have a tangent.
        of: Vec<usize>,
    },
    /// A batch of calls.
    Vmap {
        /// The program of one call.
        program: Box<TransformedProgram>,
        /// The axis of the batch in each tensor.
        axes: Vec<Option<i64>>,
    },
    /// One result.
    Pick {
        /// The program.
        program: Box<TransformedProgram>,
        /// The number of the result.
        result: usize,
    },
}

/// An argument of a row.
#[derive(Clone, Debug)]
pub enum Argument {
    /// The tensor of this number.
    Tensor(usize),
    /// The size of this number.
    Size(usize),
    /// Anything that is known.
    Known(Given<Tensor>),
    /// A list.
    List(Vec<Argument>),
}

impl TransformedProgram {
    /// The program of a text.
    ///
    /// # Errors
    /// E702 for a text that is not a program, E710 for a row that does not exist.
    pub fn parse(text: &str) -> Result<TransformedProgram, Error> {
        let json: Json = serde_json::from_str(text).map_err(|e| wrong(format!("a program is not JSON: {e}")))?;
        TransformedProgram::of(&json, DEEPEST)
    }

    /// The program of parsed JSON, with at most `depth` programs inside of each other.
    ///
    /// # Errors
    /// The errors of [`TransformedProgram::parse`].
    pub fn of(json: &Json, depth: usize) -> Result<TransformedProgram, Error> {
        let inside = |key: &str| -> Result<Option<Box<TransformedProgram>>, Error> {
            let Some(inner) = json.get(key) else { return Ok(None) };
            let depth = depth.checked_sub(1).ok_or_else(|| wrong("a program is nested too deep"))?;
            TransformedProgram::of(inner, depth).map(|p| Some(Box::new(p)))
        };
        let number = |key: &str| {
            let number = json.get(key).and_then(Json::as_u64);
            number.map(|n| n as usize).ok_or_else(|| wrong(format!("a program needs the number `{key}`: {json}")))
        };
        let numbers = |key: &str| {
            let all = json.get(key).and_then(Json::as_array);
            let all = all.and_then(|all| all.iter().map(|n| n.as_u64().map(|n| n as usize)).collect());
            all.ok_or_else(|| wrong(format!("a program needs the list `{key}` of numbers: {json}")))
        };
        if let Some(name) = json.get("row").and_then(Json::as_str) {
            let symbol = symbol::find(Name::new(name));
            let symbol = symbol.ok_or_else(|| Error::new("E710", format!("this library has no row `{name}`")))?;
            let args = json.get("args").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
            let args = args.iter().map(|arg| Argument::of(arg, depth)).collect::<Result<_, _>>()?;
            return Ok(TransformedProgram::Row { symbol, args });
        }
        if let Some(program) = inside("vjp")? {
            let (inputs, of, results) = (number("inputs")?, numbers("of")?, numbers("results")?);
            let unread = json.get("unread").map_or(Ok(Vec::new()), unread)?;
            return Ok(TransformedProgram::Vjp { program, inputs, of, results, unread });
        }
        if let Some(program) = inside("jvp")? {
            return Ok(TransformedProgram::Jvp { program, inputs: number("inputs")?, of: numbers("of")? });
        }
        if let Some(program) = inside("vmap")? {
            let axes = json.get("axes").and_then(Json::as_array).ok_or_else(|| wrong("a batch needs `axes`"))?;
            return Ok(TransformedProgram::Vmap { program, axes: axes.iter().map(Json::as_i64).collect() });
        }
        if let Some(program) = inside("pick")? {
            return Ok(TransformedProgram::Pick { program, result: number("result")? });
        }
        Err(wrong(format!("this is no program: {json}")))
    }

    /// The results for these tensors and sizes. Inside of a function that is traced, the calls are recorded.
    ///
    /// # Errors
    /// E702 for a number without tensor or size; errors of rows and of transforms.
    pub fn evaluate(&self, tensors: &[Tensor], sizes: &[Dim]) -> Result<Vec<Tensor>, Error> {
        match self {
            TransformedProgram::Row { symbol, args } => call(symbol, args, tensors, sizes),
            TransformedProgram::Vjp { program, inputs, of, results, unread } => {
                let (given, cotangents) = split(tensors, inputs.saturating_sub(unread.len()))?;
                let own = completed(given, *inputs, unread, sizes)?;
                let (_, grads) = fulgurite::vjp(&picked(&own, of)?, &cotangents.to_vec(), |by| {
                    let outs = program.evaluate(&replaced(&own, of, by), sizes).and_then(|outs| picked(&outs, results));
                    outs.unwrap_or_else(|e| vec![Tensor::poisoned(e); results.len()])
                })?;
                Ok(grads)
            }
            TransformedProgram::Jvp { program, inputs, of } => {
                let (own, tangents) = split(tensors, *inputs)?;
                let (_, pushed) = fulgurite::jvp(&picked(own, of)?, &tangents.to_vec(), |by| {
                    let outs = program.evaluate(&replaced(own, of, by), sizes);
                    outs.unwrap_or_else(|e| vec![Tensor::poisoned(e)])
                })?;
                Ok(pushed)
            }
            TransformedProgram::Vmap { program, axes } => {
                let one = |tensors: &Vec<Tensor>| program.evaluate(tensors, sizes);
                fulgurite::vmap_with(&tensors.to_vec(), axes, one)
            }
            TransformedProgram::Pick { program, result } => picked(&program.evaluate(tensors, sizes)?, &[*result]),
        }
    }
}

/// The tensors of a program, and those that follow them.
fn split(tensors: &[Tensor], inputs: usize) -> Result<(&[Tensor], &[Tensor]), Error> {
    let missing = || wrong(format!("a program takes {inputs} tensors and more, {} were given", tensors.len()));
    tensors.split_at_checked(inputs).ok_or_else(missing)
}

/// The tensors that `"unread"` leaves out.
fn unread(json: &Json) -> Result<Vec<(usize, DType, Vec<usize>)>, Error> {
    let none = || wrong(format!("these are no types of unread tensors: {json}"));
    let one = |(i, ty): (&String, &Json)| {
        let sizes = ty.get(1)?.as_array()?.iter().map(|n| n.as_u64().map(|n| n as usize)).collect::<Option<_>>()?;
        Some((i.parse().ok()?, DType::from_name(ty.get(0)?.as_str()?)?, sizes))
    };
    json.as_object().and_then(|all| all.iter().map(one).collect()).ok_or_else(none)
}

/// The tensors of a program, of which some are not given: zeros stand for them.
fn completed(
    given: &[Tensor],
    inputs: usize,
    unread: &[(usize, DType, Vec<usize>)],
    sizes: &[Dim],
) -> Result<Vec<Tensor>, Error> {
    let mut given = given.iter();
    let one = |i| {
        let Some((_, dtype, shape)) = unread.iter().find(|(of, ..)| *of == i) else {
            return given.next().cloned().ok_or_else(|| wrong("a program has fewer tensors than it reads"));
        };
        let shape = shape.iter().map(|n| size(sizes, *n)).collect::<Result<_, _>>()?;
        Ok(api::zeros_of(&TensorTy { dtype: *dtype, shape }))
    };
    (0..inputs).map(one).collect()
}

fn size(sizes: &[Dim], i: usize) -> Result<Dim, Error> {
    let missing = || wrong(format!("a program has {} sizes, number {i} is used", sizes.len()));
    sizes.get(i).copied().ok_or_else(missing)
}

/// The tensors of these numbers.
fn picked(tensors: &[Tensor], numbers: &[usize]) -> Result<Vec<Tensor>, Error> {
    numbers.iter().map(|&i| tensor(tensors, i)).collect()
}

fn tensor(tensors: &[Tensor], i: usize) -> Result<Tensor, Error> {
    tensors.get(i).cloned().ok_or_else(|| wrong(format!("a program has {} tensors, number {i} is used", tensors.len())))
}

/// The tensors with others in these places.
fn replaced(tensors: &[Tensor], places: &[usize], by: &[Tensor]) -> Vec<Tensor> {
    let mut all = tensors.to_vec();
    places.iter().zip(by).for_each(|(&i, t)| all[i] = t.clone());
    all
}

fn call(symbol: SymbolRef, args: &[Argument], tensors: &[Tensor], sizes: &[Dim]) -> Result<Vec<Tensor>, Error> {
    let sig = &symbol.row().sig;
    let keys = sig.params.iter().map(|p| (p.name.name, p.ty.elem.contains(&Elem::Key)));
    let names = keys.chain(sig.opts.iter().map(|o| (o.name.name, false)));
    let given = names.zip(args).map(|((name, is_key), arg)| {
        let given = arg.given(tensors, sizes)?;
        Ok((name, if let (Given::Tensor(t), true) = (&given, is_key) { key(t)? } else { given }))
    });
    let given = given.collect::<Result<Vec<_>, Error>>()?;
    let values = foreign::arguments(symbol.row(), &given, &Given::None).map_err(Error::from)?;
    api::call(symbol, values, Loc::NOWHERE)
}

/// A tensor of two numbers as a key. JAX has no i64 unless it is asked for, so i32 is taken too.
fn key(t: &Tensor) -> Result<Given<Tensor>, Error> {
    let shape = t.shape();
    if !matches!(t.dtype(), DType::I64 | DType::I32) || shape.len() != 1 || shape[0].value() != 2 {
        return Err(wrong("a key is a tensor i64[2]").help("make one of a seed: `[seed, 0]`"));
    }
    let t = if t.dtype() == DType::I64 { t.clone() } else { t.cast(DType::I64) };
    Ok(Given::Tensor(Key::of_data(&t).handle().clone()))
}

impl Argument {
    fn of(json: &Json, depth: usize) -> Result<Argument, Error> {
        let number = |key: &str| json.get(key).and_then(Json::as_u64).map(|n| n as usize);
        let text = |key: &str| json.get(key).and_then(Json::as_str);
        let none = || wrong(format!("this is no argument: {json}"));
        Ok(match json {
            Json::Null => Argument::Known(Given::None),
            Json::Bool(b) => Argument::Known(Given::Bool(*b)),
            Json::Number(n) => Argument::Known(Given::Int(n.as_i64().ok_or_else(none)?)),
            Json::String(s) => Argument::Known(Given::Str(s.clone())),
            Json::Array(items) => {
                let depth = depth.checked_sub(1).ok_or_else(|| wrong("a list is nested too deep"))?;
                Argument::List(items.iter().map(|item| Argument::of(item, depth)).collect::<Result<_, _>>()?)
            }
            Json::Object(_) => {
                if let Some(i) = number("tensor") {
                    Argument::Tensor(i)
                } else if let Some(i) = number("size") {
                    Argument::Size(i)
                } else if let Some(x) = text("float") {
                    Argument::Known(Given::Float(x.parse().map_err(|_| none())?))
                } else {
                    Argument::Known(Given::DType(named_dtype(text("dtype").ok_or_else(none)?)?))
                }
            }
        })
    }

    fn given(&self, tensors: &[Tensor], sizes: &[Dim]) -> Result<Given<Tensor>, Error> {
        Ok(match self {
            Argument::Tensor(i) => Given::Tensor(tensor(tensors, *i)?),
            Argument::Size(i) => Given::Size(size(sizes, *i)?),
            Argument::Known(given) => given.clone(),
            Argument::List(items) => {
                Given::List(items.iter().map(|item| item.given(tensors, sizes)).collect::<Result<_, _>>()?)
            }
        })
    }
}
