//! Tests that elements that `plain` does not show have no influence.

use super::{Drawn, draw};
use crate::bridge;
use crate::calls::values;
use crate::oracle::Operand;
use crate::rng::Rng;
use fulgurite::subclass::Subclassed;
use fulgurite::symbol::{SubclassRef, SymbolRef};
use fulgurite::{Tensor, api};
use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::loc::Loc;
use fulgurite_core::{Name, TensorTy};

/// The difference between the results for two tensors that differ only in hidden elements, if any. Tested where exactly
/// one argument is of the class.
pub fn influence(class: SubclassRef, symbol: SymbolRef, drawn: &Drawn, rng: &mut Rng) -> Option<String> {
    class.rules().error.when.as_ref()?;
    let mut of_class = drawn.made.iter().flatten();
    let (Some(only), None) = (of_class.next(), of_class.next()) else { return None };
    if symbol.row().takes_key() {
        return None;
    }
    let [first, second] = pair(&only.tensor, rng)?;
    let run = |t: &Tensor| -> Option<Vec<Array<f64>>> {
        let outs = api::call(symbol, drawn.args(&mut |_, _| t.clone()), Loc::NOWHERE).ok()?;
        bridge::arrays(&outs.iter().map(Subclassed::plain).collect::<Vec<_>>()).ok()
    };
    let (first, second) = (run(&first)?, run(&second)?);
    let differ = first.iter().zip(&second).position(|(a, b)| {
        a.scalars()
            .iter()
            .zip(b.scalars())
            .any(|(x, y)| x.as_f64() != y.as_f64() && !(x.as_f64().is_nan() && y.as_f64().is_nan()))
    })?;
    Some(format!(
        "result {differ} is {} or {}, by elements that `plain` does not show",
        show(&first[differ]),
        show(&second[differ])
    ))
}

fn show(a: &Array<f64>) -> String {
    Operand::Tensor(a.clone()).to_string()
}

/// Two tensors based on `like`, with some truth values false, that differ only in elements that `plain` hides.
fn pair(like: &Tensor, rng: &mut Rng) -> Option<[Tensor; 2]> {
    let first = changed(like, &mut |a| match &a.data {
        Data::Int(x) if a.dtype == fulgurite_core::DType::Bool => {
            Some(Data::Int(x.iter().map(|x| if rng.one_in(3) { 0 } else { *x }).collect()))
        }
        _ => None,
    })?;
    let other = |a: &Array<f64>, rng: &mut Rng| {
        let ty = TensorTy::new(a.dtype, &a.shape);
        values::array(&ty, (0.5, 3.0), values::Values::Tame, rng)
    };
    let moved = changed(&first, &mut |a| a.dtype.is_float().then(|| other(a, rng).data))?;
    let (shown, seen) = (plain(&first)?, plain(&moved)?);
    let same: Vec<bool> = shown.iter().zip(&seen).map(|(a, b)| a == b).collect();
    let second = changed(&first, &mut |a| match &a.data {
        Data::Float(x) if x.len() == same.len() => {
            let Data::Float(y) = other(a, rng).data else { return None };
            let pairs = x.iter().zip(y).zip(&same);
            Some(Data::Float(pairs.map(|((x, y), same)| if *same { y } else { *x }).collect()))
        }
        _ => None,
    })?;
    (same.contains(&true) && plain(&second)? == shown).then_some([first, second])
}

fn plain(t: &Tensor) -> Option<Vec<f64>> {
    let arrays = bridge::arrays(&[t.plain()]).ok()?;
    Some(arrays[0].scalars().iter().map(|s| s.as_f64()).collect())
}

/// The tensor with other elements in some of its fields; `None` if it has no such fields.
fn changed(t: &Tensor, change: &mut dyn FnMut(&Array<f64>) -> Option<Data<f64>>) -> Option<Tensor> {
    let fields = draw::fields(t).ok()?;
    let mut any = false;
    let changed: Vec<(Name, Array<f64>)> = fields
        .into_iter()
        .map(|(name, a)| match change(&a) {
            Some(data) => {
                any = true;
                (name, Array { data, ..a })
            }
            None => (name, a),
        })
        .collect();
    let field = &mut |name: Name| match changed.iter().find(|(n, _)| *n == name) {
        Some((_, a)) => bridge::tensor(&Operand::Tensor(a.clone())),
        None => Tensor::poisoned(fulgurite::Error::new("E706", "no such field")),
    };
    draw::made_of(t, field).ok().filter(|_| any)
}
