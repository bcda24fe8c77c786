//! ONNX's functions of lists of tensors, and of values that may be missing. They run while the program is replayed.

use crate::value::GraphValue;
use fulgurite::prelude::d;
use fulgurite::{Tensor, TensorOps, ops};

/// A function of lists.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SequenceFunction {
    Construct,
    Empty,
    At,
    Insert,
    Erase,
    Length,
    Split,
    Concat,
    Some,
    Get,
    IsSome,
}

const TABLE: &[(&str, SequenceFunction)] = &[
    ("onnx.SequenceConstruct", SequenceFunction::Construct),
    ("onnx.SequenceEmpty", SequenceFunction::Empty),
    ("onnx.SequenceAt", SequenceFunction::At),
    ("onnx.SequenceInsert", SequenceFunction::Insert),
    ("onnx.SequenceErase", SequenceFunction::Erase),
    ("onnx.SequenceLength", SequenceFunction::Length),
    ("onnx.SplitToSequence", SequenceFunction::Split),
    ("onnx.ConcatFromSequence", SequenceFunction::Concat),
    ("onnx.Optional", SequenceFunction::Some),
    ("onnx.OptionalGetElement", SequenceFunction::Get),
    ("onnx.OptionalHasElement", SequenceFunction::IsSome),
];

/// The function of this name.
pub fn find(target: &str) -> Option<SequenceFunction> {
    TABLE.iter().find(|(name, _)| *name == target).map(|(_, function)| *function)
}

/// Calls a function.
///
/// # Errors
/// The arguments are of another kind, in words.
pub fn call(
    function: SequenceFunction,
    args: &[GraphValue],
    named: &[(&str, GraphValue)],
) -> Result<Vec<GraphValue>, String> {
    use GraphValue::List;
    use SequenceFunction as F;
    let option = |name: &str, default: i64| GraphValue::whole_named(named, name, default);
    let place = |at: Option<&GraphValue>, items: usize, most: usize| {
        let Some(at) = at.filter(|at| !matches!(at, GraphValue::None)) else { return Ok(items) };
        let at = at.whole().ok_or("a place in a list is not known")?;
        let at = if at < 0 { at + items as i64 } else { at };
        usize::try_from(at).ok().filter(|at| *at <= most).ok_or(format!("a list of {items} items has no place {at}"))
    };
    let one = match (function, args) {
        (F::Construct, items) => List(items.to_vec()),
        (F::Empty, []) => List(Vec::new()),
        (F::At, [List(items), at]) => match place(Some(at), items.len(), items.len().saturating_sub(1))? {
            at if at < items.len() => items[at].clone(),
            _ => return Err("an item of an empty list".to_owned()),
        },
        (F::Insert, [List(items), item, at @ ..]) => {
            let mut items = items.clone();
            items.insert(place(at.first(), items.len(), items.len())?, item.clone());
            List(items)
        }
        (F::Erase, [List(items), at @ ..]) if !items.is_empty() => {
            let mut items = items.clone();
            let at = match at.first() {
                None | Some(GraphValue::None) => items.len() - 1,
                at => place(at, items.len(), items.len() - 1)?,
            };
            items.remove(at);
            List(items)
        }
        (F::Length, [List(items)]) => GraphValue::Tensor(Tensor::scalar(items.len() as i64)),
        (F::Split, [x, parts @ ..]) => {
            let x = x.tensor().ok_or("it splits something that is no tensor")?;
            split(&x, parts.first(), option("axis", 0)?, option("keepdims", 1)? != 0)?
        }
        (F::Concat, [List(items)]) => {
            let tensors = items.iter().map(GraphValue::tensor).collect::<Option<Vec<_>>>();
            let tensors = tensors.filter(|all| !all.is_empty()).ok_or("it joins items that are no tensors")?;
            let given = named.iter().any(|(name, _)| *name == "axis");
            let dim = if given { option("axis", 0)? } else { return Err("it has no axis".to_owned()) };
            GraphValue::Tensor(match option("new_axis", 0)? {
                0 => ops::cat_with(&tensors, ops::Cat { dim: dim.into() }),
                _ => ops::stack_with(&tensors, ops::Stack { dim: dim.into() }),
            })
        }
        (F::Some, []) => GraphValue::None,
        (F::Some | F::Get, [value]) => value.clone(),
        (F::IsSome, values) => {
            let there = values.first().is_some_and(|value| !matches!(value, GraphValue::None));
            GraphValue::Tensor(Tensor::scalar(there))
        }
        _ => return Err(format!("{function:?} of a list gets {} arguments of other kinds", args.len())),
    };
    if let GraphValue::Tensor(x) | GraphValue::Known(x) = &one {
        x.check().map_err(|e| e.to_string())?;
    }
    Ok(vec![one])
}

/// At most this many parts of a tensor, because each of them is a line of a program.
const MOST: i64 = 1 << 20;

/// The parts of a tensor along an axis: of the sizes in a vector, of one size, or of size 1.
fn split(x: &Tensor, parts: Option<&GraphValue>, axis: i64, keepdim: bool) -> Result<GraphValue, String> {
    let rank = x.rank() as i64;
    let at = usize::try_from(if axis < 0 { axis + rank } else { axis }).ok().filter(|at| *at < x.rank());
    let size = x.shape()[at.ok_or_else(|| format!("there is no axis {axis}"))?].len() as i64;
    let known = |value: &GraphValue| match value {
        GraphValue::Tensor(_) | GraphValue::Known(_) => value.whole_elements(MOST as usize).map(|(_, sizes)| sizes),
        value => value.whole().map(|n| vec![n]),
    };
    let few = |count: i64| match count <= MOST {
        true => Ok(()),
        false => Err(format!("a tensor would be split into {count} parts, and {MOST} are allowed")),
    };
    let (sizes, squeezed) = match parts.filter(|parts| !matches!(parts, GraphValue::None)) {
        None => {
            few(size)?;
            (vec![1; size as usize], !keepdim)
        }
        Some(parts) => {
            let sizes = known(parts).ok_or("the sizes of the parts are not known")?;
            let is_one = matches!(parts, GraphValue::Tensor(x) | GraphValue::Known(x) if x.rank() == 0);
            match sizes[..] {
                [n] if is_one && n > 0 => {
                    few((size - 1) / n + 1)?;
                    ((0..size).step_by(n as usize).map(|from| n.min(size - from)).collect(), false)
                }
                _ => (sizes, false),
            }
        }
    };
    let all = sizes.iter().try_fold(0i64, |all, n| all.checked_add(*n).filter(|_| *n >= 0));
    if all != Some(size) {
        return Err(format!("the parts have {sizes:?} elements along an axis of {size}"));
    }
    let mut from = 0;
    let part = |n: &i64| {
        let start = from;
        from += n;
        GraphValue::Tensor(match squeezed {
            true => x.select(axis, start),
            false => x.slice_with(ops::Slice { dim: axis.into(), start: start.into(), stop: Some(from.into()), ..d() }),
        })
    };
    Ok(GraphValue::List(sizes.iter().map(part).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(sizes: Vec<i64>) -> Result<Vec<GraphValue>, String> {
        let shape = [sizes.len()];
        let sizes = GraphValue::Known(Tensor::from_vec(sizes, shape));
        call(SequenceFunction::Split, &[GraphValue::Tensor(Tensor::from_vec(vec![1.0f32; 3], [3])), sizes], &[])
    }

    #[test]
    fn sizes_of_parts_have_the_sum_of_the_axis() {
        assert!(matches!(&parts(vec![1, 2]).unwrap()[..], [GraphValue::List(parts)] if parts.len() == 2));
        // the last two are -2 and 3 where numbers begin again after the largest one
        for wrong in [vec![1, 1], vec![4, -1], vec![i64::MAX, i64::MAX, 5], vec![i64::MIN, i64::MIN, 3]] {
            let said = parts(wrong).unwrap_err();
            assert!(said.contains("elements along an axis of 3"), "{said}");
        }
    }

    #[test]
    fn a_program_has_no_millions_of_parts() {
        let x = Tensor::from_vec(vec![false; MOST as usize + 1], [MOST as usize + 1]);
        let one = || GraphValue::Known(Tensor::scalar(1i64));
        let split = |more: Vec<GraphValue>| {
            let args: Vec<GraphValue> = [GraphValue::Tensor(x.clone())].into_iter().chain(more).collect();
            call(SequenceFunction::Split, &args, &[])
        };
        for more in [vec![], vec![one()]] {
            let said = split(more).unwrap_err();
            assert!(said.contains("1048577 parts"), "{said}");
        }
    }
}
