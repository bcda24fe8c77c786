//! The arguments in which a row is linear, found by abstract interpretation of its loops, or of the calls of its
//! body, over four classes of values.

use std::sync::Arc;

use fulgurite_codegen::check::Resolved;
use fulgurite_codegen::check::cases::Case;
use fulgurite_codegen::check::expanded::{self, Expanded, Look, Marked, Results};
use fulgurite_codegen::check::rows::RowSet;
use fulgurite_core::Value;
use fulgurite_core::builtins::Builtin;
use fulgurite_core::lang::Red;
use fulgurite_core::loop_nest::{LoopExpr, SOp, SOutside};
use fulgurite_core::lower::lower_with;
use fulgurite_core::row::Row;
use fulgurite_core::signature::{ArgTy, Refusal};

/// How a value depends on the arguments in question.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Class {
    Zero,
    /// It does not depend on them.
    #[default]
    Free,
    /// It is homogeneously linear in them.
    Linear,
    /// It depends on them in another way.
    Other,
}

use Class::{Free, Linear, Other, Zero};

impl Class {
    /// The class of a sum, or of a choice between two branches.
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

/// Whether every result of `case` is linear in the arguments at these positions together. If `trivial`, it may be
/// zero too.
pub(super) fn is_linear(row: &Arc<Row>, rows: &RowSet, case: &Case, positions: &[usize], trivial: bool) -> bool {
    let args = case.args.iter().enumerate().map(|(i, value)| {
        let mark = if positions.contains(&i) { Linear } else { Free };
        value.map(&mut |ty: &ArgTy| Marked { ty: ty.clone(), mark })
    });
    let args: Vec<Value<V>> = args.collect();
    let of = Resolved::new(row.clone(), case.solved.clone());
    let Ok(results) = Expanded::new(rows, Classes).call(&of, &args) else { return false };
    // the auxiliary results of a program count as well
    let outs = if row.is_composite() { results.len() } else { row.sig.outs.len().min(results.len()) };
    let results = &results[..outs];
    let fits = |class: Class| class == Linear || trivial && class == Zero;
    !results.is_empty() && results.iter().all(|result| fits(class_of(result)))
}

/// A type, and the class of the value.
type V = Marked<Class>;

fn class_of(v: &Value<V>) -> Class {
    let mut class = None;
    v.for_each(&mut |v| class = Some(class.map_or(v.mark, |so_far: Class| so_far.add(v.mark))));
    match (class, v) {
        (Some(class), _) => class,
        (None, Value::Num(s)) if s.as_f64() == 0.0 => Zero,
        (None, _) => Free,
    }
}

/// Follows the classes of values through a program.
struct Classes;

impl Look for Classes {
    type Mark = Class;
    type Halt = Refusal;

    fn loops(&mut self, rows: &RowSet, of: &Resolved, args: &[Value<V>]) -> Results<Classes> {
        let Some(body) = of.row.index_body() else {
            let class = args.iter().map(class_of).fold(Zero, Class::add).opaque();
            return Ok(expanded::promised(rows, of, args, |_| class));
        };
        let nest = lower_with(&of.row, body, &of.solved, rows)?;
        let (mut slots, mut numbers) = (Vec::new(), Vec::new());
        for arg in args {
            arg.for_each(&mut |v| match v.ty {
                ArgTy::Number(_) => numbers.push(v.mark),
                _ => slots.push(v.mark),
            });
        }
        let walk = Walk { slots: &slots, numbers: &numbers };
        let mut classes = nest.outs.iter().map(|out| walk.expr(&out.expr));
        Ok(expanded::promised(rows, of, args, |_| classes.next().unwrap_or(Other)))
    }
}

/// Interprets a nest over classes.
struct Walk<'a> {
    slots: &'a [Class],
    numbers: &'a [Class],
}

impl Walk<'_> {
    fn expr(&self, e: &LoopExpr) -> Class {
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
            // rounding to another float dtype counts as linear, as everywhere
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
