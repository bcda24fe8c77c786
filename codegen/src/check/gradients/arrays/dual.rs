//! Dual numbers: values with a derivative in one direction. They give the reference for every claim about derivatives.
//!
//! Nothing here knows how rules are derived. A builtin's derivative is the table's partial, evaluated as a number; the
//! chain rule is these few lines.

use fulgurite_core::builtins::{Builtin, Partial, eval_f64};
use fulgurite_core::eval::loop_nest::Field;
use fulgurite_core::lang::{Dialect, Expr, Node, UnOp, parse_expr};
use fulgurite_core::{DType, Name};
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// A value and its derivative.
pub type Dual = Sloped<false>;

/// A dual number in which a detached value gets a slope of its own. The slope of a result tells whether it depends on a
/// detached value.
pub type Probe = Sloped<true>;

/// A value and its derivative. With `PROBES`, a detached value has a derivative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sloped<const PROBES: bool> {
    /// The value.
    pub value: f64,
    /// The derivative of the value in the chosen direction.
    pub slope: f64,
}

impl<const PROBES: bool> Field for Sloped<PROBES> {
    fn constant(x: f64) -> Self {
        Sloped { value: x, slope: 0.0 }
    }
    fn value(&self) -> f64 {
        self.value
    }
    fn call(builtin: Builtin, args: &[Self]) -> Self {
        // no builtin has more than three operands, so nothing is allocated
        let mut both = [[0.0; 3]; 2];
        for (i, a) in args.iter().enumerate().take(3) {
            (both[0][i], both[1][i]) = (a.value, a.slope);
        }
        let [values, slopes] = both.each_ref().map(|all| &all[..args.len().min(3)]);
        let value = eval_f64(builtin, values);
        let slope = slope(builtin, values, value, slopes);
        Sloped { value, slope }
    }
    fn detach(self) -> Self {
        // a slope that differs between values, the same on every machine
        let bits = self.value.to_bits().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Sloped { slope: if PROBES { 0.5 + (bits >> 11) as f64 / (1u64 << 53) as f64 } else { 0.0 }, ..self }
    }
    // a cast keeps the derivative of its operand
    fn rounded_to(self, dtype: DType) -> Self {
        Sloped { value: self.value.rounded_to(dtype), ..self }
    }
}

fn slope(builtin: Builtin, args: &[f64], out: f64, slopes: &[f64]) -> f64 {
    if builtin == Builtin::Select {
        return if args.first().is_some_and(|c| *c != 0.0) { slopes[1] } else { slopes[2] };
    }
    let mut sum = 0.0;
    for (i, d) in slopes.iter().enumerate() {
        // an operand without a slope adds nothing, even where the partial is infinite
        if *d != 0.0 {
            sum += d * partial(builtin, i, args, out);
        }
    }
    sum
}

/// The partial derivative of `builtin` with respect to argument `i`, from the table of builtins.
pub fn partial(builtin: Builtin, i: usize, args: &[f64], out: f64) -> f64 {
    // for each builtin its arguments, and the partial in each
    type Texts = (Vec<Name>, Vec<Option<Expr>>);
    static TEXTS: LazyLock<FxHashMap<Builtin, Texts>> = LazyLock::new(|| {
        let text = |partial: &Partial| match partial {
            Partial::Text(text) => parse_expr(text, Dialect::Index).ok(),
            _ => None,
        };
        let of = |b: Builtin| (b.record().args.iter().map(|a| Name::new(a)), b.record().partials.iter().map(text));
        Builtin::all().map(|b| (b, of(b))).map(|(b, (args, texts))| (b, (args.collect(), texts.collect()))).collect()
    });
    static OUT: LazyLock<Name> = LazyLock::new(|| Name::new("out"));
    match builtin.record().partials.get(i) {
        Some(Partial::Text(_)) => match TEXTS.get(&builtin).map(|(names, texts)| (names, texts.get(i))) {
            Some((names, Some(Some(e)))) => number(e, &|n| {
                let at = || names.iter().position(|a| n == *a);
                if n == *OUT { Some(out) } else { at().and_then(|at| args.get(at).copied()) }
            }),
            _ => f64::NAN,
        },
        Some(Partial::Cast) => 1.0,
        _ => 0.0,
    }
}

/// The value of a scalar expression over named numbers; NaN if it has none.
pub fn number(e: &Expr, name: &dyn Fn(Name) -> Option<f64>) -> f64 {
    match &*e.node {
        Node::Int(i) => *i as f64,
        Node::Float(x) => *x,
        Node::Name(n) => match name(*n) {
            Some(x) => x,
            None => fulgurite_core::signature::const_eval::constant(*n).map_or(f64::NAN, |s| s.as_f64()),
        },
        Node::Unary(UnOp::Neg, a) => -number(a, name),
        Node::Unary(UnOp::Not, a) => f64::from(number(a, name) == 0.0),
        Node::Binary(op, a, b) => eval_f64(op.builtin(), &[number(a, name), number(b, name)]),
        Node::If(c, a, b) if a.stmts.is_empty() && b.stmts.is_empty() => {
            number(if number(c, name) != 0.0 { &a.value } else { &b.value }, name)
        }
        Node::Call(f, args) => match Builtin::from_name(f.name.as_str()) {
            Some(b) => eval_f64(b, &args.iter().map(|a| number(&a.value, name)).collect::<Vec<_>>()),
            None => f64::NAN,
        },
        _ => f64::NAN,
    }
}
