//! E105, E106 of index bodies. The loops are run on a small instance, which shows an access that leaves its tensor
//! and a maximum of no elements.

mod extremes;
mod intervals;
mod vacant;

use fulgurite_core::builtins::IntError;
use fulgurite_core::eval::loop_nest::{self, Array, NestError};
use fulgurite_core::lang::{Bind, Block, Node, Red};
use fulgurite_core::loop_nest::{LoopExpr, Nest, SOp};
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::signature::{ArgTy, Refusal};
use fulgurite_core::{DType, Scalar, TensorTy, Value};

use super::cases::{Case, MOST_DATA};
use super::division;
use super::machine::Fault;
use super::walk::{self, any_in, any_part, each, find};
use extremes::Left;
use intervals::Reach;

pub use vacant::may_skip;

/// At most this many steps per run, because the family has smaller cases.
const MOST_STEPS: usize = 4_000;

/// At most this many nodes per run, because ranges may be longer than the sizes that [`steps`] counts.
const MOST_NODES: u64 = 1 << 20;

/// The first access out of range, or reduction without a value.
pub fn ranges(row: &Row, body: &Block, nest: &Nest, case: &Case) -> Option<Fault> {
    if let Some(fault) = empty_extremum(body, nest) {
        return Some(fault);
    }
    if nest.pointwise {
        return None;
    }
    let shapes = shapes(case);
    let shapes: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
    let left = || extremes::find(nest, &shapes).map(|found| outside(row, body, case, &found));
    // [`steps`] can't tell how often the body of `j in 0..M / 0` is evaluated; running it shows the division
    if steps(nest) > MOST_STEPS && !division::has_zero(nest) {
        return left();
    }
    let windows = vacant::may_be(nest);
    match intervals::look(nest, &shapes) {
        Reach::Stays if !windows => return None,
        Reach::Stays => {}
        Reach::Leaves(found) => return Some(outside(row, body, case, &found)),
        Reach::Open => {}
    }
    if case.numel() > MOST_DATA {
        return left();
    }
    let (tensors, numbers) = data(case);
    let empty = windows.then(|| vacant::check(body, nest, (&tensors, &numbers), MOST_NODES));
    if let Some(fault) = empty.flatten() {
        return Some(fault);
    }
    let Err(error) = loop_nest::run_within(nest, &tensors, &numbers, &mut MOST_NODES.clone()) else {
        // the data of this run may have spared an access
        return left();
    };
    let message = match error {
        // an index that was read from a tensor is checked at run time, where it is read
        NestError::OutOfRange { tensor, axis, .. } if read_from_tensor(nest, tensor, axis) => return None,
        NestError::OutOfRange { tensor, axis, index, size } => {
            return Some(outside(row, body, case, &Left { tensor, axis, index, size }));
        }
        NestError::Steps => return left(),
        NestError::Int(_, IntError::DivisionByZero)
            if let Some(fault) = division::divides_by_size(body, nest, case) =>
        {
            return Some(fault);
        }
        // the values were made up, so this says nothing about the row
        NestError::Int(..) | NestError::Room(_) => return None,
        NestError::Malformed(message) => message,
    };
    Some(message.into())
}

fn outside(row: &Row, body: &Block, case: &Case, left: &Left) -> Fault {
    let Left { tensor, axis, index, size } = left;
    let name = tensor_name(row, case, *tensor);
    let message = format!("index {index} leaves axis {axis} of `{name}`, which has size {size}");
    let help = match &row.meaning {
        Meaning::View(_) => "mend the index or the size of the result, or refuse such calls in `require`",
        _ => {
            "mend the index or its range, let it begin anew, `(…) % N`, or say what stands outside: `else 0`, `else skip`"
        }
    };
    let refusal = Refusal::new("E706", message).help(help);
    Fault { at: access(body, &name), ..refusal.into() }
}

/// Whether some access to this axis takes its index from an element.
fn read_from_tensor(nest: &Nest, tensor: usize, axis: usize) -> bool {
    let reads = |index: &LoopExpr| any_part(index, &mut |e| matches!(e.op(), SOp::Load { .. } | SOp::Elem(_)));
    any_in(nest, &mut |part| match part.op() {
        SOp::Load { tensor: t, idx, .. } if *t == tensor => idx.get(axis).is_some_and(reads),
        _ => false,
    })
}

/// Estimated number of evaluations of the innermost bodies.
fn steps(nest: &Nest) -> usize {
    nest.outs
        .iter()
        .map(|out| numel(&out.shape).saturating_mul(inner_steps(&out.expr, nest)))
        .fold(0, usize::saturating_add)
}

fn numel(shape: &[fulgurite_core::Dim]) -> usize {
    shape.iter().fold(1, |n, d| n.saturating_mul(d.len()))
}

fn inner_steps(e: &LoopExpr, nest: &Nest) -> usize {
    let mut steps = 1;
    each(e, &mut |part| {
        if let SOp::Reduce { vars, .. } = part.op() {
            let sizes = vars.iter().map(|range| nest.vars.get(range.var).map_or(1, |d| d.len().max(1)));
            steps = sizes.fold(steps, usize::saturating_mul);
        }
    });
    steps
}

/// A reduction without a value for no elements, such as a maximum, whose range is empty in a result that has
/// elements.
fn empty_extremum(body: &Block, nest: &Nest) -> Option<Fault> {
    for out in nest.outs.iter().filter(|out| numel(&out.shape) > 0) {
        let mut found = None;
        each(&out.expr, &mut |part| {
            if let SOp::Reduce { red, vars, otherwise: None, .. } = part.op()
                && matches!(red, Red::Max | Red::Min | Red::ArgMax | Red::ArgMin | Red::First | Red::Last)
                && vars.iter().any(|range| range.hi.as_int().zip(range.lo.as_int()).is_some_and(|(hi, lo)| hi <= lo))
            {
                found = Some(*red);
            }
        });
        if let Some(red) = found {
            let message = format!("`{}` of no elements has no value", red.word());
            let condition = format!("required: {}", not_empty(body, red));
            let fault: Fault = Refusal::new("E705", message).help(condition).into();
            return Some(Fault { at: reduction(body, red), ..fault });
        }
    }
    None
}

/// The condition under which the first reduction of this kind has elements: `W > 0`, `size(S[dims]) > 0`.
fn not_empty(body: &Block, red: Red) -> String {
    let mut conditions: Option<Vec<String>> = None;
    walk::block(body, &mut |e| {
        let Node::Reduce(reduce) = &*e.node else { return };
        if reduce.red != red || conditions.is_some() {
            return;
        }
        let condition = |bind: &Bind| {
            let size = bind.name.name.size_of_index();
            match (&bind.axes, &bind.range) {
                (_, Some((lo, hi))) => format!("{lo} < {hi}"),
                (Some(axes), None) => format!("size({size}[{axes}]) > 0"),
                (None, None) if bind.list => format!("size({size}) > 0"),
                (None, None) => format!("{size} > 0"),
            }
        };
        conditions = Some(reduce.binds.iter().flatten().map(condition).collect());
    });
    match conditions {
        Some(conditions) if !conditions.is_empty() => conditions.join(" && "),
        _ => "size(S[dims]) > 0".to_owned(),
    }
}

fn reduction(body: &Block, red: Red) -> Option<fulgurite_core::lang::Span> {
    find(body, &|e| matches!(&*e.node, Node::Reduce(r) if r.red == red))
}

/// The place where the body first accesses `name`.
fn access(body: &Block, name: &str) -> Option<fulgurite_core::lang::Span> {
    find(body, &|e| matches!(&*e.node, Node::Access(a) if a.base.name == name))
}

/// The name of the argument that holds tensor `slot`.
fn tensor_name(row: &Row, case: &Case, slot: usize) -> String {
    let mut next = 0;
    for (param, value) in row.sig.params.iter().zip(&case.args) {
        let tensors = match value {
            Value::Tensor(ArgTy::Number(_)) => 0,
            Value::Tensor(_) | Value::Type(_) => 1,
            Value::List(items) => items.len(),
            _ => 0,
        };
        next += tensors;
        if slot < next {
            return param.name.name.to_string();
        }
    }
    "a tensor".to_owned()
}

/// The shapes of the tensors of a case.
fn shapes(case: &Case) -> Vec<Vec<usize>> {
    let shape = |value: &Value<ArgTy>| match value {
        Value::Tensor(ArgTy::Tensor(t)) | Value::Type(t) => Some(t.sizes().to_vec()),
        Value::Tensor(ArgTy::Key) => Some(vec![2]),
        _ => None,
    };
    case.args.iter().flat_map(Value::items).filter_map(shape).collect()
}

/// Tensors and run-time numbers of a case. Index tensors hold 0, in range wherever there is an element to read.
fn data(case: &Case) -> (Vec<Array<f64>>, Vec<Scalar>) {
    let mut tensors = Vec::new();
    let mut numbers = Vec::new();
    for value in case.args.iter().flat_map(Value::items) {
        match value {
            Value::Tensor(ArgTy::Tensor(t)) | Value::Type(t) => tensors.push(array(t)),
            Value::Tensor(ArgTy::Key) => tensors.push(Array::int(DType::I64, &[2], vec![1, 2])),
            Value::Tensor(ArgTy::Number(_)) => numbers.push(Scalar::Float(0.5)),
            _ => {}
        }
    }
    (tensors, numbers)
}

fn array(t: &TensorTy) -> Array<f64> {
    let shape: Vec<usize> = t.sizes().to_vec();
    let count = shape.iter().product();
    match t.dtype.is_float() {
        true => Array::float(t.dtype, &shape, (0..count).map(|i| 0.5 + i as f64 * 0.25).collect()),
        false => Array::int(t.dtype, &shape, vec![0; count]),
    }
}
