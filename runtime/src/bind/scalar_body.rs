//! The `expr` of a pointwise row unfolded into calls of rows named like the scalar builtins, so that what can only
//! differentiate calls can differentiate it.

use super::Builder;
use super::body::fault;
use crate::error::Error;
use crate::symbol::Registered;
use crate::trace::*;
use fulgurite_core::builtins::Builtin;
use fulgurite_core::lower::lower_with;
use fulgurite_core::nest::{SExpr, SNode, SOp};
use fulgurite_core::sig::Item;
use fulgurite_core::{Name, Scalar, TensorTy, Value};
use rustc_hash::FxHashMap;

/// Binds the meaning of a pointwise line as lines of builtin-named rows, at the builder's place; gives its results.
/// `None` if the row is not pointwise, or if unfolding only gives the row back (`exp` is `exp(x)`).
///
/// # Errors
/// E710 where no row is named like a builtin that the expression calls; what lowering and binding report.
pub fn body_of_scalar(builder: &mut Builder, line: &BoundSymbol) -> Result<Option<Vec<ProxyId>>, Error> {
    let row = line.symbol.row();
    let Some(block) = row.index_body().filter(|_| row.is_pointwise()) else { return Ok(None) };
    let nest = lower_with(row, block, &line.solved, &Registered)?;
    let start = builder.lines().len();
    let (slots, numbers) = arguments(line);
    let mut unfold = Unfold { builder, line, slots, numbers, done: FxHashMap::default() };
    let types: Vec<TensorTy> = line.solved.outs.iter().flat_map(|t| out_types(t).iter().cloned()).collect();
    let mut outs = Vec::new();
    for (out, ty) in nest.outs.iter().zip(&types) {
        let value = unfold.value(&out.expr)?;
        outs.push(unfold.finish(value, ty)?);
    }
    if builder.lines()[start..].iter().any(|l| std::ptr::eq(l.symbol, line.symbol)) {
        builder.take_from(start);
        return Ok(None);
    }
    Ok(Some(outs))
}

/// The line's tensors and run-time numbers, by the positions that the signature gave them.
type Arguments = (FxHashMap<usize, Value<ProxyId>>, FxHashMap<usize, Value<ProxyId>>);

fn arguments(line: &BoundSymbol) -> Arguments {
    let sig = &line.symbol.row().sig;
    let names = sig.params.iter().map(|p| p.name.name).chain(sig.opts.iter().map(|o| o.name.name));
    let (mut slots, mut numbers) = Arguments::default();
    for (name, value) in names.zip(&line.args) {
        match line.solved.env.item(name) {
            Some(Item::Tensor(slot)) => _ = slots.insert(*slot, value.clone()),
            Some(Item::Runtime(k, _)) => _ = numbers.insert(*k, value.clone()),
            _ => {}
        }
    }
    (slots, numbers)
}

struct Unfold<'a> {
    builder: &'a mut Builder,
    line: &'a BoundSymbol,
    slots: FxHashMap<usize, Value<ProxyId>>,
    numbers: FxHashMap<usize, Value<ProxyId>>,
    /// Shared subterms are bound once.
    done: FxHashMap<*const SNode, Value<ProxyId>>,
}

impl Unfold<'_> {
    fn value(&mut self, e: &SExpr) -> Result<Value<ProxyId>, Error> {
        let key = std::sync::Arc::as_ptr(&e.0);
        if let Some(value) = self.done.get(&key) {
            return Ok(value.clone());
        }
        let value = self.bind(e)?;
        self.done.insert(key, value.clone());
        Ok(value)
    }

    fn bind(&mut self, e: &SExpr) -> Result<Value<ProxyId>, Error> {
        let missing = || fault(self.line.symbol, "an argument of its expression was not given");
        Ok(match e.op() {
            SOp::Const(number) => Value::Num(*number),
            SOp::Num(k) => self.numbers.get(k).cloned().ok_or_else(missing)?,
            SOp::Elem(slot) => {
                let value = self.slots.get(slot).cloned().ok_or_else(missing)?;
                self.convert(value, e)?
            }
            SOp::Cast(a) => {
                let value = self.value(a)?;
                self.convert(value, e)?
            }
            SOp::Detach(a) => {
                let value = self.value(a)?;
                self.call(&["detach"], vec![value], Vec::new())?
            }
            SOp::Select(c, a, b) => {
                let (c, a, b) = (self.value(c)?, self.value(a)?, self.value(b)?);
                if let Value::Num(c) = c {
                    return Ok(if c.as_bool() { a } else { b });
                }
                self.call(&["where"], vec![c, a, b], Vec::new())?
            }
            SOp::Call(builtin, args) => {
                let mut args = args.iter().map(|a| self.value(a)).collect::<Result<Vec<_>, _>>()?;
                // the order is an option of the row
                let named = match builtin {
                    Builtin::Polygamma => vec![(Name::new("n"), order(args.remove(0)))],
                    _ => Vec::new(),
                };
                self.call(&row_names(*builtin), args, named)?
            }
            SOp::Var(_) | SOp::Load { .. } | SOp::Reduce { .. } | SOp::Uniform { .. } => {
                return Err(fault(self.line.symbol, "its expression is not pointwise"));
            }
        })
    }

    /// Numbers adapt to what they meet; tensors are cast.
    fn convert(&mut self, value: Value<ProxyId>, e: &SExpr) -> Result<Value<ProxyId>, Error> {
        match value {
            Value::Tensor(p) if self.builder.arena().tensor_ty(p).is_some() => {
                Ok(Value::Tensor(self.builder.cast(p, e.ty())?))
            }
            other => Ok(other),
        }
    }

    fn call(
        &mut self,
        names: &[&str],
        args: Vec<Value<ProxyId>>,
        named: Vec<(Name, Value<ProxyId>)>,
    ) -> Result<Value<ProxyId>, Error> {
        Ok(Value::Tensor(self.builder.first_of(names, args, named)?))
    }

    /// The value as a result of this type.
    fn finish(&mut self, value: Value<ProxyId>, ty: &TensorTy) -> Result<ProxyId, Error> {
        match value {
            Value::Tensor(p) => {
                let p = self.builder.cast(p, ty.dtype)?;
                self.builder.expand(p, &ty.shape)
            }
            Value::Num(number) => self.builder.full(ty, number),
            _ => Err(fault(self.line.symbol, "its expression yields no number")),
        }
    }
}

/// A number as a whole one, where it is.
fn order(value: Value<ProxyId>) -> Value<ProxyId> {
    match value {
        Value::Num(Scalar::Float(n)) if n.fract() == 0.0 => Value::Num(Scalar::Int(n as i64)),
        other => other,
    }
}

/// The rows that mean a builtin, the usual name first.
fn row_names(builtin: Builtin) -> Vec<&'static str> {
    match builtin {
        Builtin::Max => vec!["maximum"],
        Builtin::Min => vec!["minimum"],
        Builtin::And => vec!["logical_and"],
        Builtin::Or => vec!["logical_or"],
        Builtin::Not => vec!["logical_not"],
        Builtin::RemFloor => vec!["remainder"],
        Builtin::RemTrunc => vec!["fmod"],
        Builtin::DivFloor => vec!["floor_divide"],
        Builtin::DivTrunc => vec!["trunc_divide"],
        Builtin::Bitand => vec!["bitwise_and"],
        Builtin::Bitor => vec!["bitwise_or"],
        Builtin::Bitxor => vec!["bitwise_xor"],
        Builtin::Bitnot => vec!["bitwise_not"],
        Builtin::Shl => vec!["shift_left"],
        Builtin::Shr => vec!["shift_right"],
        Builtin::Ln => vec!["ln", "log"],
        other => vec![other.record().name],
    }
}
