//! In which arguments a row is linear: a walk over its loops, or over the calls of its body, with four classes of
//! values.

use std::sync::Arc;

use fulgurite_core::builtins::Builtin;
use fulgurite_core::eval::tensor::{self, Machine};
use fulgurite_core::lang::Red;
use fulgurite_core::lower::{Rows, lower_with};
use fulgurite_core::nest::{Nest, SExpr, SOp, SOutside};
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::sig::{self, ArgTy, OutTy, Refusal};
use fulgurite_core::{Name, Value};

use crate::check::cases::Case;

/// How a value depends on the arguments in question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    /// It is zero.
    Zero,
    /// Not at all.
    Free,
    /// Homogeneously linear.
    Linear,
    /// In any other way.
    Other,
}

use Class::{Free, Linear, Other, Zero};

impl Class {
    /// A sum, or one of two branches.
    fn add(self, other: Class) -> Class {
        match (self, other) {
            (Zero, c) | (c, Zero) => c,
            (a, b) if a == b => a,
            _ => Other,
        }
    }

    fn mul(self, other: Class) -> Class {
        match (self, other) {
            (Zero, _) | (_, Zero) => Zero,
            (Free, c) | (c, Free) => c,
            _ => Other,
        }
    }

    fn opaque(self) -> Class {
        if self.is_free() { Free } else { Other }
    }

    fn is_free(self) -> bool {
        matches!(self, Zero | Free)
    }
}

/// Whether every result of `case` is linear in the arguments at these positions together; `trivial`: or zero.
pub(super) fn is_linear(row: &Arc<Row>, rows: &dyn Rows, case: &Case, positions: &[usize], trivial: bool) -> bool {
    let args = case.args.iter().enumerate().map(|(i, value)| {
        let class = if positions.contains(&i) { Linear } else { Free };
        value.map(&mut |ty: &ArgTy| (ty.clone(), class))
    });
    let args: Vec<Value<V>> = args.collect();
    let mut classes = Classes { rows, depth: 0 };
    let Ok(results) = classes.apply(row, &args) else { return false };
    let fits = |class: Class| class == Linear || trivial && class == Zero;
    !results.is_empty() && results.iter().all(|result| fits(class_of(result)))
}

/// A type, and how the value depends.
type V = (ArgTy, Class);

fn class_of(v: &Value<V>) -> Class {
    let mut class = None;
    v.for_each(&mut |(_, c)| class = Some(class.map_or(*c, |so_far: Class| so_far.add(*c))));
    match (class, v) {
        (Some(class), _) => class,
        (None, Value::Num(s)) if s.as_f64() == 0.0 => Zero,
        (None, _) => Free,
    }
}

/// The tensor language over classes.
struct Classes<'a> {
    rows: &'a dyn Rows,
    depth: usize,
}

/// The rows that a name may mean.
fn candidates(rows: &dyn Rows, op: Name) -> Vec<Arc<Row>> {
    let overloads = rows.names().into_iter().filter(|name| crate::check::rows::base(*name) == Some(op));
    std::iter::once(op).chain(overloads).filter_map(|name| rows.row(name)).collect()
}

impl Classes<'_> {
    /// The results of a row for arguments of these classes.
    fn apply(&mut self, row: &Arc<Row>, args: &[Value<V>]) -> Result<Vec<Value<V>>, Refusal> {
        let solved = sig::solve(row, args, &|v: &V| v.0.clone())?;
        match &row.meaning {
            Meaning::Decomp(body) => {
                if self.depth > 16 {
                    return Err(Refusal::new("E706", "too deep"));
                }
                let mut inner = Classes { rows: self.rows, depth: self.depth + 1 };
                tensor::run(&mut inner, row, body, &solved, args, &[])
            }
            Meaning::Expr(body) | Meaning::View(body) => {
                let nest = lower_with(row, body, &solved, self.rows)?;
                let mut slots = Vec::new();
                let mut numbers = Vec::new();
                for arg in args {
                    arg.for_each(&mut |(ty, class)| match ty {
                        ArgTy::Number(_) => numbers.push(*class),
                        _ => slots.push(*class),
                    });
                }
                let classes = Walk { slots: &slots, numbers: &numbers }.nest(&nest);
                let mut classes = classes.into_iter();
                let mut value = |ty: &fulgurite_core::TensorTy| {
                    Value::Tensor((ArgTy::Tensor(ty.clone()), classes.next().unwrap_or(Other)))
                };
                let results = solved.outs.iter().chain(&solved.aux).map(|out| match out {
                    OutTy::Tensor(ty) => value(ty),
                    OutTy::List(tys) => Value::List(tys.iter().map(&mut value).collect()),
                    OutTy::FromBody => Value::Absent,
                });
                let mut results: Vec<Value<V>> = results.collect();
                results.truncate(row.sig.outs.len());
                Ok(results)
            }
            Meaning::Host(_) => {
                let class = args.iter().map(class_of).fold(Zero, Class::add).opaque();
                let value = |out: &OutTy| match out {
                    OutTy::Tensor(ty) => Value::Tensor((ArgTy::Tensor(ty.clone()), class)),
                    _ => Value::Absent,
                };
                Ok(solved.outs.iter().map(value).collect())
            }
        }
    }
}

impl Machine for Classes<'_> {
    type V = V;
    type Error = Refusal;

    fn call(
        &mut self,
        op: Name,
        positional: Vec<Value<V>>,
        named: Vec<(Name, Value<V>)>,
    ) -> Result<Vec<Value<V>>, Refusal> {
        let mut refused = None;
        for row in candidates(self.rows, op) {
            let applied =
                sig::arrange(&row, positional.clone(), named.clone()).and_then(|args| self.apply(&row, &args));
            match applied {
                Ok(results) => return Ok(results),
                Err(refusal) => _ = refused.get_or_insert(refusal),
            }
        }
        Err(refused.unwrap_or_else(|| Refusal::new("E007", format!("there is no row `{op}`"))))
    }

    fn ty(&self, v: &V) -> ArgTy {
        v.0.clone()
    }

    fn write(&mut self, _: Name, _: Value<V>) -> Result<(), Refusal> {
        Ok(())
    }
}

/// A nest over classes.
struct Walk<'a> {
    slots: &'a [Class],
    numbers: &'a [Class],
}

impl Walk<'_> {
    fn nest(&self, nest: &Nest) -> Vec<Class> {
        nest.outs.iter().map(|out| self.expr(&out.expr)).collect()
    }

    fn expr(&self, e: &SExpr) -> Class {
        match e.op() {
            SOp::Const(s) if s.as_f64() == 0.0 => Zero,
            SOp::Const(_) | SOp::Var(_) | SOp::Uniform { .. } => Free,
            SOp::Num(n) => self.numbers.get(*n).copied().unwrap_or(Free),
            SOp::Elem(slot) => self.slots.get(*slot).copied().unwrap_or(Other),
            SOp::Load { tensor, idx, outside } => {
                if !idx.iter().all(|i| self.expr(i).is_free()) {
                    return Other;
                }
                let element = self.slots.get(*tensor).copied().unwrap_or(Other);
                match outside {
                    SOutside::Refuse | SOutside::Skip => element,
                    SOutside::Value(value) => element.add(self.expr(value)),
                }
            }
            // rounding to another float dtype is taken for linear, as everywhere
            SOp::Cast(inner) if e.ty().is_float() && inner.ty().is_float() => self.expr(inner),
            SOp::Cast(inner) | SOp::Detach(inner) => self.expr(inner).opaque(),
            SOp::Select(cond, yes, no) if self.expr(cond).is_free() => self.expr(yes).add(self.expr(no)),
            SOp::Select(..) => Other,
            SOp::Call(builtin, args) => {
                let classes: Vec<Class> = args.iter().map(|arg| self.expr(arg)).collect();
                match (builtin, classes.as_slice()) {
                    (Builtin::Add | Builtin::Sub, [a, b]) => a.add(*b),
                    (Builtin::Mul, [a, b]) => a.mul(*b),
                    (Builtin::Div, [a, b]) if b.is_free() => *a,
                    (Builtin::Neg, [a]) => *a,
                    _ => classes.iter().fold(Free, |all, class| if class.is_free() { all } else { Other }),
                }
            }
            SOp::Reduce { red, filter, body, otherwise, .. } => {
                let kept = filter.as_ref().is_none_or(|filter| self.expr(filter).is_free());
                let class = self.expr(body);
                let class = otherwise.as_ref().map_or(class, |value| class.add(self.expr(value)));
                match red {
                    Red::Sum | Red::Mean | Red::First | Red::Last | Red::Only if kept => class,
                    _ if kept => class.opaque(),
                    _ => Other,
                }
            }
        }
    }
}
