//! Hidden elements have no influence: two tensors of a class that differ only in elements of fields that `plain` does
//! not show give the same results.

use std::sync::Arc;

use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::{DType, Value};

use super::world::{Made, Tensor, World};
use crate::check::gradients::arrays::dense::{V, floats};

/// A function that returns other elements for a field, or `None` to keep it.
type Change<'a> = dyn Fn(DType, &Array<f64>) -> Option<Data<f64>> + 'a;

/// Returns two tensors with the same `plain`, but other elements. They are made from `made`, with some of its truth
/// values set to false. `None` means that this hides nothing.
pub fn pair(world: &World, made: &Made) -> Option<[Arc<Made>; 2]> {
    let first = changed(world, made, &|dtype, a| {
        let hide = |(i, x): (usize, &i64)| if i % 3 == 1 { 0 } else { *x };
        match &a.data {
            Data::Int(x) if dtype == DType::Bool => Some(Data::Int(x.iter().enumerate().map(hide).collect())),
            _ => None,
        }
    })?;
    let shown = plain(world, &first)?;
    let moved = changed(world, &first, &|dtype, a| match &a.data {
        Data::Float(x) if dtype.is_float() => Some(Data::Float(x.iter().map(|x| x + 1.0).collect())),
        _ => None,
    })?;
    // only elements that `plain` does not show are moved
    let seen = plain(world, &moved)?;
    let same: Vec<bool> = floats(&shown).iter().zip(floats(&seen)).map(|(a, b)| *a == b).collect();
    let second = changed(world, &first, &|dtype, a| match &a.data {
        Data::Float(x) if dtype.is_float() && x.len() == same.len() => {
            Some(Data::Float(x.iter().zip(&same).map(|(x, same)| if *same { x + 1.0 } else { *x }).collect()))
        }
        _ => None,
    })?;
    let again = plain(world, &second)?;
    let differs = same.contains(&true) && floats(&again) == floats(&shown);
    differs.then_some([first, second])
}

fn plain(world: &World, made: &Arc<Made>) -> Option<Arc<Array<f64>>> {
    match world.plain(&Tensor::Made(made.clone())) {
        Ok(V::Array(a)) => Some(a),
        _ => None,
    }
}

/// Returns the tensor with other elements in some of its fields; `None` if it has no such field.
fn changed(world: &World, made: &Made, change: &Change) -> Option<Arc<Made>> {
    let mut any = false;
    let fields = made.fields.iter().map(|field| match field {
        Value::Tensor(Tensor::Plain(V::Array(a))) => match change(a.dtype, a) {
            Some(data) => {
                any = true;
                Value::Tensor(Tensor::Plain(V::Array(Arc::new(Array { data, ..Array::clone(a) }))))
            }
            None => field.clone(),
        },
        other => other.clone(),
    });
    let parts: Vec<Value<Tensor>> = fields.chain(made.meta.iter().cloned()).collect();
    world.make(made.class, parts).ok().filter(|_| any)
}
