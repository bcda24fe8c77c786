//! Evaluates expressions: the signature of a row determines the meaning of each argument.

use super::parse::{Arg, Expr, Kind, wrong};
use crate::fault::Fault;
use fulgurite::core::lang::ast::{Elem, OptType, Param, Sig};
use fulgurite::core::loc::Loc;
use fulgurite::core::{DType, Name, Scalar, Value, counted};
use fulgurite::prelude::*;
use fulgurite::{api, symbol};
use std::ops::Range;

/// A float list of the expression, with respect to which gradients are taken.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// The row and argument that it is passed to: `gelu.x`.
    pub name: String,
    /// The place of the list in the text.
    pub span: Range<usize>,
    /// The numbers of the list.
    pub value: Tensor,
}

/// Evaluates one expression, perhaps several times with other leaves.
pub struct Evaluator<'a> {
    text: &'a str,
    /// The values of the leaves in this evaluation; `None`: those of the text.
    given: Option<&'a [Tensor]>,
    /// The leaves found up to now.
    pub leaves: Vec<Leaf>,
}

/// An expression before its consumer is known.
enum Met<'e> {
    Tensors(Vec<Tensor>),
    Literal(&'e Expr),
}

/// At most this many elements, because a person types no more.
const MOST: usize = 1 << 20;

impl<'a> Evaluator<'a> {
    /// An evaluator of this text; `given` replaces the leaves of an earlier evaluation.
    pub fn new(text: &'a str, given: Option<&'a [Tensor]>) -> Evaluator<'a> {
        Evaluator { text, given, leaves: Vec::new() }
    }

    /// The results of the expression.
    ///
    /// # Errors
    /// E917: an argument that its row cannot take. E903: an unknown operator.
    pub fn results(&mut self, expr: &Expr) -> Result<Vec<Tensor>, Fault> {
        match self.meet(expr)? {
            Met::Tensors(tensors) => Ok(tensors),
            Met::Literal(literal) => Ok(vec![self.literal(literal, None, "value")?]),
        }
    }

    fn meet<'e>(&mut self, expr: &'e Expr) -> Result<Met<'e>, Fault> {
        match &expr.kind {
            Kind::Call(row, args) => self.call(row, args, expr.span.clone()).map(Met::Tensors),
            Kind::As(inner, dtype) => {
                let Some(dtype) = DType::from_name(dtype) else {
                    let known: Vec<&str> = DType::STORED.iter().map(|d| d.name()).collect();
                    return Err(wrong(self.text, expr.span.clone(), format!("`{dtype}` is no dtype"))
                        .help(format!("one of {}", known.join(", "))));
                };
                match self.meet(inner)? {
                    Met::Literal(literal) => Ok(Met::Tensors(vec![self.literal(literal, Some(dtype), "value")?])),
                    Met::Tensors(tensors) => Ok(Met::Tensors(tensors.iter().map(|t| t.cast(dtype)).collect())),
                }
            }
            _ => Ok(Met::Literal(expr)),
        }
    }

    fn call(&mut self, row: &str, args: &[Arg], span: Range<usize>) -> Result<Vec<Tensor>, Fault> {
        let rows = symbol::candidates(Name::new(row));
        let Some(sig) = rows.first().map(|s| &s.row().sig) else { return Err(self.unknown(row, span)) };
        let mut met = Vec::with_capacity(args.len());
        for (i, arg) in args.iter().enumerate() {
            let slot = self.slot(sig, row, i, arg)?;
            met.push((slot, self.meet(&arg.value)?, arg));
        }
        // A number beside a tensor adapts to it, as a literal does in Rust; alone it is a tensor.
        let is_tensor = |m: &Met| match m {
            Met::Tensors(_) => true,
            Met::Literal(e) => matches!(e.kind, Kind::List(_)),
        };
        let tensors = met.iter().any(|(slot, m, _)| matches!(slot, Slot::Param(_)) && is_tensor(m));
        let (mut positional, mut named) = (Vec::new(), Vec::new());
        for (slot, met, arg) in met {
            let value = match slot {
                Slot::Param(param) => self.param(row, param, met, arg, tensors)?,
                Slot::Opt(name, ty) => self.option(name, ty, met, arg)?,
            };
            match &arg.name {
                Some(name) => named.push((Name::new(name), value)),
                None => positional.push(value),
            }
        }
        api::call_named(row, positional, named, Loc::NOWHERE).map_err(|e| Fault::from(e).in_expression(self.text, span))
    }

    fn unknown(&self, row: &str, span: Range<usize>) -> Fault {
        // The error marks only the name, which follows the receiver of a method.
        let name = self.text.get(span.clone()).and_then(|call| call.find(row)).map(|at| span.start + at);
        let span = name.map_or(span, |at| at..at + row.len());
        suggest(Fault { code: "E903", ..wrong(self.text, span, format!("there is no operator `{row}`")) }, row)
    }

    /// The parameter of the signature for an argument.
    fn slot<'s>(&self, sig: &'s Sig, row: &str, at: usize, arg: &Arg) -> Result<Slot<'s>, Fault> {
        let by_name = |name: &str| {
            let param = sig.params.iter().find(|p| p.name.name == *name).map(Slot::Param);
            param.or_else(|| sig.opts.iter().find(|o| o.name.name == *name).map(|o| Slot::Opt(o.name.name, &o.ty)))
        };
        let by_place = || {
            let opt = |i: usize| sig.opts.get(i).map(|o| Slot::Opt(o.name.name, &o.ty));
            sig.params.get(at).map(Slot::Param).or_else(|| opt(at.checked_sub(sig.params.len())?))
        };
        arg.name.as_deref().map_or_else(by_place, by_name).ok_or_else(|| {
            let names = sig.params.iter().map(|p| p.name.name).chain(sig.opts.iter().map(|o| o.name.name));
            let names: Vec<&str> = names.map(Name::as_str).collect();
            let claim = match &arg.name {
                Some(name) => format!("`{row}` has no argument `{name}`"),
                None => format!("`{row}` takes at most {} arguments", names.len()),
            };
            wrong(self.text, arg.value.span.clone(), claim).help(format!("it has: {}", names.join(", ")))
        })
    }

    fn param(&mut self, row: &str, p: &Param, met: Met, arg: &Arg, weak: bool) -> Result<Value<Tensor>, Fault> {
        let name = format!("{row}.{}", p.name.name);
        if p.ty.elem.contains(&Elem::Key) {
            return match met {
                Met::Literal(Expr { kind: Kind::Number(Scalar::Int(seed)), .. }) => {
                    Ok(Value::Tensor(Key::new(*seed as u64).handle().clone()))
                }
                // Seeds beyond i64, up to the end of u64.
                Met::Literal(Expr { kind: Kind::Number(Scalar::Float(seed)), .. }) if *seed >= TOO_LARGE => {
                    Ok(Value::Tensor(Key::new(*seed as u64).handle().clone()))
                }
                _ => Err(wrong(
                    self.text,
                    arg.value.span.clone(),
                    format!("`{name}` is a key: write its seed, a number"),
                )),
            };
        }
        let whole = p.ty.elem == [Elem::Index];
        match met {
            Met::Tensors(mut all) if p.ty.list.is_none() && all.len() == 1 => Ok(Value::Tensor(all.swap_remove(0))),
            Met::Tensors(all) if p.ty.list.is_some() => Ok(Value::List(all.into_iter().map(Value::Tensor).collect())),
            Met::Tensors(all) => {
                let claim = format!("`{name}` is one tensor, this gives {}", all.len());
                Err(wrong(self.text, arg.value.span.clone(), claim))
            }
            Met::Literal(Expr { kind: Kind::List(items), .. }) if p.ty.list.is_some() => {
                let mut list = Vec::with_capacity(items.len());
                for item in items {
                    match self.meet(item)? {
                        Met::Tensors(all) => list.extend(all.into_iter().map(Value::Tensor)),
                        Met::Literal(e) => list.push(Value::Tensor(self.literal(e, None, &name)?)),
                    }
                }
                Ok(Value::List(list))
            }
            Met::Literal(e) => match &e.kind {
                Kind::Number(x) if weak => Ok(Value::Num(*x)),
                Kind::Bool(b) if weak => Ok(Value::Num(Scalar::Bool(*b))),
                Kind::Name(n) if n == "none" && p.optional => Ok(Value::Absent),
                _ => self.literal(e, whole.then_some(DType::I64), &name).map(Value::Tensor),
            },
        }
    }

    fn option(&mut self, name: Name, ty: &OptType, met: Met, arg: &Arg) -> Result<Value<Tensor>, Fault> {
        let literal = match met {
            Met::Tensors(mut all) if all.len() == 1 && matches!(ty, OptType::Num | OptType::F64) => {
                return Ok(Value::Tensor(all.swap_remove(0)));
            }
            Met::Tensors(_) => {
                let claim = format!("the option `{name}` takes no tensor");
                return Err(wrong(self.text, arg.value.span.clone(), claim));
            }
            Met::Literal(literal) => literal,
        };
        self.word(literal, ty)
    }

    fn word(&self, e: &Expr, ty: &OptType) -> Result<Value<Tensor>, Fault> {
        Ok(match &e.kind {
            Kind::Number(x) => Value::Num(*x),
            Kind::Bool(b) => Value::Num(Scalar::Bool(*b)),
            Kind::Text(t) => Value::Str(t.clone()),
            Kind::Name(n) => match (ty, DType::from_name(n)) {
                (OptType::Dtype(_), Some(dtype)) => Value::DType(dtype),
                (OptType::Dtype(_), None) => {
                    return Err(wrong(self.text, e.span.clone(), format!("`{n}` is no dtype")));
                }
                _ => Value::Word(Name::new(n)),
            },
            Kind::List(items) => Value::List(items.iter().map(|i| self.word(i, ty)).collect::<Result<_, _>>()?),
            _ => return Err(wrong(self.text, e.span.clone(), "an option is a number, a word or a list")),
        })
    }

    /// Numbers as a tensor. Floats are leaves.
    fn literal(&mut self, e: &Expr, dtype: Option<DType>, name: &str) -> Result<Tensor, Fault> {
        let (mut shape, mut numbers) = (Vec::new(), Vec::new());
        self.gather(e, 0, &mut shape, &mut numbers)?;
        let all = |f: fn(&Scalar) -> bool| !numbers.is_empty() && numbers.iter().all(f);
        let dtype = dtype.unwrap_or(if all(|x| matches!(x, Scalar::Bool(_))) { DType::Bool } else { DType::F32 });
        let floats = numbers.iter().map(|x| x.as_f64());
        let value = match dtype {
            DType::F64 => Tensor::from_vec(floats.collect::<Vec<f64>>(), shape),
            DType::I64 => Tensor::from_vec(numbers.iter().map(|x| x.as_i64()).collect::<Vec<i64>>(), shape),
            DType::Bool => Tensor::from_vec(numbers.iter().map(|x| x.as_bool()).collect::<Vec<bool>>(), shape),
            DType::F32 => Tensor::from_vec(floats.map(|x| x as f32).collect::<Vec<f32>>(), shape),
            other if other.is_int() => {
                Tensor::from_vec(numbers.iter().map(|x| x.as_i64()).collect::<Vec<i64>>(), shape).cast(other)
            }
            other => Tensor::from_vec(floats.collect::<Vec<f64>>(), shape).cast(other),
        };
        value.check()?;
        if !dtype.is_float() {
            return Ok(value);
        }
        let at = self.leaves.len();
        self.leaves.push(Leaf { name: name.to_owned(), span: e.span.clone(), value: value.clone() });
        Ok(self.given.and_then(|given| given.get(at)).cloned().unwrap_or(value))
    }

    fn gather(&self, e: &Expr, depth: usize, shape: &mut Vec<usize>, numbers: &mut Vec<Scalar>) -> Result<(), Fault> {
        let fail = |claim: String| Err(wrong(self.text, e.span.clone(), claim));
        let leaf = |shape: &[usize]| depth == shape.len();
        match &e.kind {
            Kind::Number(x) if leaf(shape) => numbers.push(*x),
            Kind::Bool(b) if leaf(shape) => numbers.push(Scalar::Bool(*b)),
            Kind::Number(..) | Kind::Bool(_) => {
                return fail("a number stands where its neighbours are lists".to_owned());
            }
            Kind::List(items) => {
                // The first list at each depth determines the size; a number that was already read means that the lists
                // end above.
                if leaf(shape) && numbers.is_empty() {
                    shape.push(items.len());
                } else if leaf(shape) {
                    return fail("a list stands where its neighbours are numbers".to_owned());
                }
                if shape[depth] != items.len() {
                    return fail(format!(
                        "this list has {}, its neighbours have {}",
                        counted(items.len(), "entry", "entries"),
                        shape[depth]
                    ));
                }
                if numbers.len() + items.len() > MOST {
                    return fail(format!("more than {MOST} numbers"));
                }
                return items.iter().try_for_each(|i| self.gather(i, depth + 1, shape, numbers));
            }
            Kind::Name(n) => return fail(format!("`{n}` is no number")),
            Kind::Text(_) => return fail("a text is no number".to_owned()),
            Kind::Call(..) | Kind::As(..) => return fail("a list of numbers holds no calls".to_owned()),
        }
        Ok(())
    }
}

enum Slot<'s> {
    Param(&'s Param),
    Opt(Name, &'s OptType),
}

/// 2^63, the first float beyond i64.
const TOO_LARGE: f64 = 9_223_372_036_854_775_808.0;

/// Adds the row that has this name in another library, or the name that is nearest to `row`, to a fault that says that
/// there is no such row.
pub fn suggest(fault: Fault, row: &str) -> Fault {
    // `concat`, `torch.concat` and the overload `concat.names` are one name
    let wanted = row.rsplit('.').next().unwrap_or(row);
    let is_named = |form: &str| form.split('(').next().is_some_and(|name| name.split('.').any(|part| part == wanted));
    if let Some(call) = symbol::foreign_calls().find(|call| is_named(call.form)) {
        let (library, form) = (call.library, call.form);
        return fault.help(format!("`{}` is the row of `{library}.{form}`: `cargo ops explain {}`", call.op, call.op));
    }
    let rows = symbol::all();
    let names = rows.iter().map(|s| s.name()).filter(|n| !n.contains('.'));
    match fulgurite_codegen::nearest::nearest(row, names) {
        Some(near) => fault.help(format!("did you mean `{near}`?")),
        None => fault.help("`fulgurite list` shows the operators"),
    }
}
