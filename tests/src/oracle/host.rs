//! What host primitives mean: they have no text, so the reference is written here, the plainest way there is.

use super::Operand;
use fulgurite_core::eval::nest::{Array, Data, Field};
use fulgurite_core::sig::{Item, Refusal, Solved};
use fulgurite_core::{DType, Name, Value};
use std::cmp::Ordering;

/// The result of a host primitive.
pub(super) fn run<F: Field>(primitive: Name, args: &[Value<Operand<F>>], solved: &Solved) -> Result<Array<F>, Refusal> {
    let first = args.first().and_then(|a| match a {
        Value::Tensor(Operand::Tensor(x)) => Some(x),
        _ => None,
    });
    match (primitive.as_str(), first) {
        ("argsort", Some(x)) => Ok(argsort(x, solved)),
        _ => Err(Refusal::new("E706", format!("the host primitive `{primitive}` has no reference"))),
    }
}

/// Each element's position among those of its line: how many come before it. NaN is the largest; equals keep their
/// order, in descending order too.
fn argsort<F: Field>(x: &Array<F>, solved: &Solved) -> Array<F> {
    let dim = match solved.env.item(Name::new("dim")) {
        Some(Item::Int(d)) => d.value(),
        Some(Item::Num(s)) => s.as_i64(),
        _ => -1,
    };
    let descending = matches!(solved.env.item(Name::new("descending")), Some(Item::Num(s)) if s.as_bool());
    let rank = x.shape.len() as i64;
    let axis = usize::try_from(dim.rem_euclid(rank.max(1))).unwrap_or(0);
    let n = x.shape.get(axis).copied().unwrap_or(1);
    let inner: usize = x.shape.iter().skip(axis + 1).product();
    let total: usize = x.shape.iter().product();
    let mut positions = vec![0; total];
    for element in 0..total {
        let i = element / inner % n;
        let line = element - i * inner;
        let before = |j: usize| match ordering(x, line + j * inner, element) {
            Ordering::Equal => j < i,
            Ordering::Less => !descending,
            Ordering::Greater => descending,
        };
        let place = (0..n).filter(|&j| j != i && before(j)).count();
        positions[line + place * inner] = i as i64;
    }
    Array::int(DType::I64, &x.shape, positions)
}

fn ordering<F: Field>(x: &Array<F>, a: usize, b: usize) -> Ordering {
    match &x.data {
        Data::Int(v) => v[a].cmp(&v[b]),
        Data::Float(v) => {
            let (a, b) = (v[a].value(), v[b].value());
            a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
        }
    }
}
