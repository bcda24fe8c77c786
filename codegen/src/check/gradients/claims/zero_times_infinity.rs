//! E411: zero times infinity in the gradient of reductions, moves and programs; formulas of few floats are in
//! [`unstable_formulas`](super::unstable_formulas).
//!
//! At zeros, and where all elements are equal, a norm, a deviation or an angle has a finite value, although its last
//! step has an infinite slope, and the step before it a slope of 0. A call that takes such a step is differentiated as
//! the runtime does.

use fulgurite_core::builtins::{Builtin, eval_f64};
use fulgurite_core::derive::Derived;
use fulgurite_core::eval::loop_nest::Field;
use fulgurite_core::lang::{Expr, Node};
use fulgurite_core::row::Row;
use fulgurite_core::signature::ArgTy;
use fulgurite_core::{DType, Name, Value};
use std::sync::LazyLock;

use crate::check::cases::Family;
use crate::check::gradients::arrays::dense::{Dense, Library};
use crate::check::gradients::arrays::dual::partial;
use crate::check::gradients::arrays::instance::Instance;
use crate::check::gradients::arrays::numbers::Numbers;
use crate::check::gradients::arrays::tape;
use crate::check::gradients::budget::{ARGUMENTS, HARD};
use crate::check::gradients::claims::unstable_formulas;
use crate::check::gradients::samples::grid::product;
use crate::check::gradients::samples::{self, Domain};
use crate::check::gradients::show;
use crate::check::{closure, gradient_rules, report, walk};
use crate::diag::Diag;
use crate::schema::RowSource;

/// The numbers that all elements have. If one argument alone is 0, the elements of the others are different numbers
/// from [`USUAL`].
const EQUAL: [f64; 2] = [0.0, 1.0];
const USUAL: (f64, f64) = (0.25, 1.75);

/// The help of the diagnostic.
const REMEDY: &str = "let the function with the infinite slope not be reached there (`if`, or `where` on its argument), \
                      keep its argument from 0, or say for which numbers the row is meant: `tests: {domain: {x: 'lo..hi'}}`";

/// Checks the gradient of a row's meaning.
pub fn check(source: &RowSource, row: &Row, family: &Family, library: &Library, derived: &Derived) -> Option<Diag> {
    let (key, text) = report::body(source)?;
    if row.is_pointwise() || unstable_formulas::is_stated(source) || !may_be_steep(row, library) {
        return None;
    }
    let case = family.cases.iter().find(|case| (2..=HARD).contains(&case.numel()))?;
    let equal = EQUAL.iter().map(|x| Domain::of(Vec::new(), (*x, *x)));
    let floats: Vec<Name> =
        row.sig.params.iter().zip(&case.args).filter(|(_, arg)| is_float(arg)).map(|(p, _)| p.name.name).collect();
    let alone = floats
        .iter()
        .filter(|_| floats.len() > 1)
        .take(ARGUMENTS)
        .map(|arg| Domain::of(vec![(*arg, (0.0, 0.0))], USUAL));
    equal.chain(alone).find_map(|domain| {
        let instance = samples::finite(library, row, case, &domain, 0, 1)?;
        let (at, element) = without_slope(&instance, library, derived)?;
        let arg = row.sig.params[at].name.name;
        let point = show::arguments(&instance);
        let message = format!("`{key}` of `{}` multiplies an infinite derivative by 0", row.op);
        let diag = Diag::warning("E411", text.place, message).note(format!("for {}", case.show(row)));
        let diag =
            diag.note(format!("at {point} it is finite, its derivative by element {element} of `{arg}` is no number"));
        Some(diag.help(REMEDY))
    })
}

/// Whether the meaning reaches a builtin that has an infinite slope where its value is finite.
fn may_be_steep(row: &Row, library: &Library) -> bool {
    static STEEP: LazyLock<Vec<Name>> = LazyLock::new(|| {
        let is_steep = |b: &Builtin| {
            let arity = b.record().arity();
            product(&vec![vec![0.0, 1.0, -1.0, 0.5]; arity]).iter().any(|args| {
                let out = eval_f64(*b, args);
                out.is_finite() && (0..arity).any(|i| !partial(*b, i, args, out).is_finite())
            })
        };
        Builtin::all().filter(is_steep).map(|b| Name::new(b.name())).collect()
    });
    let steep = |e: &Expr| matches!(&*e.node, Node::Call(f, _) if STEEP.contains(&f.name));
    let comes = |row: &Row| row.index_body().is_some_and(|body| walk::any(body, &mut |e| steep(e)));
    comes(row) || closure::any_reached(closure::called(row), library.set, &mut |row| comes(row))
}

fn is_float(arg: &Value<ArgTy>) -> bool {
    arg.tensors().any(|t| t.dtype.is_float())
}

/// The argument, and its element, with respect to which the derivative is NaN.
fn without_slope(instance: &Instance, library: &Library, derived: &Derived) -> Option<(usize, usize)> {
    let row = instance.row;
    let moving = |_, _, value| Steep { value, moves: true, steep: false };
    let results = instance.numbers_in(&mut Dense::new(library), &moving).ok()?;
    if !results.iter().any(|x| x.steep) {
        return None;
    }
    let cotangents = instance.cotangents(&mut Numbers::new(1));
    let taped = tape::gradients(instance, &mut tape::Rules::new(library), &cotangents).ok().flatten();
    (0..row.sig.params.len()).filter(|at| instance.numel_of(*at) > 0).find_map(|at| {
        let name = row.sig.params[at].name.name;
        let slopes = match (gradient_rules::holding(row, derived, name), &taped) {
            (Some(rule), _) => instance.vjp(library, rule, at, &cotangents).ok()?,
            (None, Some(taped)) => taped[at].clone(),
            (None, None) => return None,
        };
        Some((at, slopes.iter().position(|slope| slope.is_nan())?))
    })
}

/// A value, whether it depends on an argument, and whether a step on the way had an infinite slope.
#[derive(Clone, Copy)]
struct Steep {
    value: f64,
    moves: bool,
    steep: bool,
}

impl Field for Steep {
    fn constant(value: f64) -> Steep {
        Steep { value, moves: false, steep: false }
    }
    fn value(&self) -> f64 {
        self.value
    }
    fn call(builtin: Builtin, args: &[Steep]) -> Steep {
        if builtin == Builtin::Select {
            return if args[0].value != 0.0 { args[1] } else { args[2] };
        }
        let values: Vec<f64> = args.iter().map(|a| a.value).collect();
        let value = eval_f64(builtin, &values);
        let infinite = |(i, arg): (usize, &Steep)| arg.moves && !partial(builtin, i, &values, value).is_finite();
        let steep = args.iter().any(|arg| arg.steep) || args.iter().enumerate().any(infinite);
        Steep { value, moves: args.iter().any(|arg| arg.moves), steep }
    }
    fn detach(self) -> Steep {
        Steep { moves: false, steep: false, ..self }
    }
    fn rounded_to(self, dtype: DType) -> Steep {
        Steep { value: self.value.rounded_to(dtype), ..self }
    }
}
