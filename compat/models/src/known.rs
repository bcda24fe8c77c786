//! Calls whose arguments are constants and sizes: their results do not depend on the elements of inputs, so that they
//! are computed while the program is replayed. Exporters compute the sizes of a `Reshape` in this way, and one
//! compilation serves all sizes because symbolic ones stay symbolic.

use crate::value::{GraphValue, SizeTensor};
use fulgurite::core::lang::{BinOp, Block, Expr, Node};
use fulgurite::core::loc::Loc;
use fulgurite::core::row::Meaning;
use fulgurite::core::signature::const_eval::{self, At, Val};
use fulgurite::core::signature::{Env, Item};
use fulgurite::core::{DType, Dim, Name, Scalar};
use fulgurite::foreign::{self, ForeignForm, Given};
use fulgurite::{Key, Tensor, scope};
use std::collections::HashMap;

/// Only a constant or a tensor of sizes with at most this many elements is computed with, because
/// its elements are visited one by one.
const MOST: usize = 1 << 12;

/// The value with these elements: a constant if none of them is symbolic.
pub fn of_sizes(shape: Vec<usize>, sizes: Vec<Dim>) -> Option<GraphValue> {
    if !sizes.iter().all(|size| size.is_const()) {
        return Some(GraphValue::Sizes(SizeTensor { shape, sizes }));
    }
    let numbers: Vec<i64> = sizes.iter().map(|size| size.value()).collect();
    Some(GraphValue::Known(scope::at_once(|| Tensor::from_vec(numbers, shape))))
}

/// Whether the call can be computed without the elements of inputs.
pub fn is_known<'a>(mut args: impl Iterator<Item = &'a GraphValue>) -> bool {
    let mut found = false;
    let fits = args.all(|value| match value {
        GraphValue::Known(_) | GraphValue::Sizes(_) => {
            found = true;
            true
        }
        GraphValue::Tensor(_) => false,
        GraphValue::List(items) => is_known(items.iter()) || items.iter().all(|i| !matches!(i, GraphValue::Tensor(_))),
        _ => true,
    });
    fits && found
}

/// The results of a call of `name` on constants alone.
pub fn constants(name: &str, positional: &[Given], named: &[(String, Given)], loc: Loc) -> Option<Vec<GraphValue>> {
    let key: Option<&Key> = None;
    let results = scope::at_once(|| foreign::call(name, positional, named, key, loc)).ok()?;
    results.outs.into_iter().map(|out| Some(out.map_or(GraphValue::None, GraphValue::Known))).collect()
}

/// The results of a call of `name` on sizes: by the formula of a pointwise row, or by the places to which another row
/// moves its elements. `None` if they are not sizes.
pub fn on_sizes(name: &str, positional: &[GraphValue], named: &[(String, GraphValue)]) -> Option<Vec<GraphValue>> {
    let given = |value: &GraphValue| Given::from(value);
    let positional_given: Vec<Given> = positional.iter().map(given).collect();
    let named_given: Vec<(String, Given)> = named.iter().map(|(name, value)| (name.clone(), given(value))).collect();
    let arranged = |form: &'static ForeignForm| Some((form, form.arranged(&positional_given, &named_given)?));
    let forms: Vec<_> = foreign::forms(name).iter().filter_map(arranged).collect();
    if let Some(value) = forms.iter().find_map(|(form, args)| by_formula(form, args)) {
        return Some(vec![value]);
    }
    let moves = forms.iter().all(|(form, args)| are_elements(form, args));
    if moves { by_places(name, positional, named) } else { None }
}

/// The result of a pointwise row: its formula, evaluated on sizes.
fn by_formula(form: &ForeignForm, args: &[(Name, Given)]) -> Option<GraphValue> {
    let row = form.symbol.row();
    let Meaning::Expr(body) = &row.meaning else { return None };
    if !row.is_pointwise() || row.sig.outs.len() != 1 || !is_arithmetic(body) {
        return None;
    }
    let value = |name: Name| args.iter().find(|(n, _)| *n == name).map(|(_, value)| value);
    let mut operands = Vec::new();
    for param in &row.sig.params {
        match value(param.name.name) {
            None | Some(Given::None) if param.optional => operands.push((param.name.name, None)),
            given => operands.push((param.name.name, Some(elements(given?)?))),
        }
    }
    let shape = broadcast(operands.iter().flat_map(|(_, operand)| operand).map(|(shape, _)| shape.as_slice()))?;
    let mut env = Env::of(&row.sig);
    env.dtypes.push((Name::new("T"), DType::I64));
    for opt in &row.sig.opts {
        let item = match value(opt.name.name) {
            Some(Given::Bool(b)) => Item::Num(Scalar::Bool(*b)),
            Some(Given::Int(n)) => Item::Num(Scalar::Int(*n)),
            None | Some(Given::None) => match opt.default.as_ref() {
                Some(default) => match const_eval::eval(&env, default, At::default()).ok()? {
                    Val::Bool(b) => Item::Num(Scalar::Bool(b)),
                    Val::Int(n) => Item::Int(n),
                    Val::Word(word) => Item::Word(word),
                    _ => return None,
                },
                None if opt.optional => Item::Absent,
                None => return None,
            },
            Some(_) => return None,
        };
        env.items.push((opt.name.name, item));
    }
    let fixed = env.items.len();
    let count: usize = shape.iter().product();
    let mut results = Vec::with_capacity(count);
    for place in 0..count {
        env.items.truncate(fixed);
        for (name, operand) in &operands {
            let item =
                operand.as_ref().map_or(Item::Absent, |(own, sizes)| Item::Int(sizes[within(own, &shape, place)]));
            env.items.push((*name, item));
        }
        results.push(const_eval::block(&env, body, At::default()).ok()?);
    }
    let sizes: Option<Vec<Dim>> =
        results.iter().map(|r| if let Val::Int(size) = r { Some(*size) } else { None }).collect();
    if let Some(sizes) = sizes {
        // The arithmetic of sizes stays at the largest number where that of tensors begins again at the least.
        let exact = |size: &Dim| !size.is_const() || !matches!(size.value(), i64::MIN | i64::MAX);
        return sizes.iter().all(exact).then(|| of_sizes(shape, sizes)).flatten();
    }
    let truths =
        results.iter().map(|r| if let Val::Bool(b) = r { Some(*b) } else { None }).collect::<Option<Vec<_>>>()?;
    Some(GraphValue::Known(scope::at_once(|| Tensor::from_vec(truths, shape))))
}

/// Whether a formula has whole numbers for whole arguments, and reads no element to choose a branch.
fn is_arithmetic(body: &Block) -> bool {
    fn expr(e: &Expr) -> bool {
        const CALLS: [&str; 10] =
            ["div_floor", "div_trunc", "rem_floor", "rem_trunc", "min", "max", "abs", "is_float", "is_int", "some"];
        match &*e.node {
            Node::Int(_) | Node::Name(_) => true,
            Node::Unary(_, inner) => expr(inner),
            // the quotient of two elements is a float
            Node::Binary(op, a, b) => *op != BinOp::Div && expr(a) && expr(b),
            Node::If(c, a, b) => expr(c) && (is_arithmetic(a) || is_arithmetic(b)),
            Node::Call(f, args) => CALLS.contains(&f.name.as_str()) && args.iter().all(|arg| expr(&arg.value)),
            _ => false,
        }
    }
    body.stmts.is_empty() && expr(&body.value)
}

/// The sizes of a tensor, and its elements.
fn elements(given: &Given) -> Option<(Vec<usize>, Vec<Dim>)> {
    let one = |given: &Given| match given {
        Given::Int(n) => Some(Dim::from(*n)),
        Given::Size(size) => Some(*size),
        _ => None,
    };
    match given {
        Given::List(items) => Some((vec![items.len()], items.iter().map(one).collect::<Option<_>>()?)),
        Given::Tensor(x) => {
            let (shape, numbers) = GraphValue::Known(x.clone()).whole_elements(MOST).filter(|_| x.dtype().is_int())?;
            Some((shape, numbers.into_iter().map(Dim::from).collect()))
        }
        given => Some((Vec::new(), vec![one(given)?])),
    }
}

/// The shape to which these shapes broadcast.
fn broadcast<'a>(shapes: impl Iterator<Item = &'a [usize]>) -> Option<Vec<usize>> {
    let mut joined: Vec<usize> = Vec::new();
    for shape in shapes {
        while joined.len() < shape.len() {
            joined.insert(0, 1);
        }
        let skip = joined.len() - shape.len();
        for (to, from) in joined[skip..].iter_mut().zip(shape) {
            match (*to, *from) {
                (a, b) if a == b || b == 1 => {}
                (1, b) => *to = b,
                _ => return None,
            }
        }
    }
    let count = joined.iter().try_fold(1usize, |count, size| count.checked_mul(*size))?;
    (count <= MOST).then_some(joined)
}

/// The place in a tensor of sizes `own` of the element that stands at `place` where it is broadcast to `shape`.
fn within(own: &[usize], shape: &[usize], place: usize) -> usize {
    let (mut rest, mut at, mut stride) = (place, 0, 1);
    for (axis, size) in shape.iter().enumerate().rev() {
        let index = rest % size;
        rest /= size;
        if let Some(own) = (axis + own.len()).checked_sub(shape.len()).and_then(|axis| own.get(axis)) {
            at += if *own == 1 { 0 } else { index * stride };
            stride *= own;
        }
    }
    at
}

/// The orders in which numbers stand for places, as factors modulo [`PRIME`]. A row that compares elements, such as a
/// maximum, chooses other places in another order.
const ORDERS: [i64; 4] = [1, PRIME - 1, 1777, 2731];
const PRIME: i64 = 4_099;

/// The number that stands for a place in an order.
fn number(order: usize, place: usize) -> i64 {
    let scrambled = (place as i64 + 1) * ORDERS[order] % PRIME;
    1_000_003 * (order as i64 + 1) + 7_919 * scrambled
}

/// The results of a row that moves elements. It moves the same places whatever the elements are, so it is run on numbers
/// that stand for the places, in several orders: an element that is the number of one place each time is the size of that
/// place, and one that is the same number each time is a constant.
fn by_places(name: &str, positional: &[GraphValue], named: &[(String, GraphValue)]) -> Option<Vec<GraphValue>> {
    let mut sizes = Vec::new();
    let mut runs = Vec::new();
    for order in 0..ORDERS.len() {
        sizes.clear();
        let mut stand_in = |value: &GraphValue| {
            stand_in(value, &mut |size| {
                sizes.push(size);
                number(order, sizes.len() - 1)
            })
        };
        let positional: Vec<Given> = positional.iter().map(&mut stand_in).collect();
        let named: Vec<(String, Given)> = named.iter().map(|(name, value)| (name.clone(), stand_in(value))).collect();
        let results = scope::at_once(|| foreign::call(name, &positional, &named, None, Loc::NOWHERE)).ok()?;
        let buffer = |out: &Option<Tensor>| {
            let buffer = out.as_ref()?.buffer().ok().filter(|b| b.dtype() == DType::I64 && b.len() <= MOST)?;
            Some((buffer.shape().to_vec(), buffer.to_vec::<i64>().ok()?))
        };
        runs.push(results.outs.iter().map(buffer).collect::<Option<Vec<_>>>()?);
    }
    let places: HashMap<i64, usize> = (0..sizes.len()).map(|place| (number(0, place), place)).collect();
    let element = |result: usize, at: usize| {
        let found = |order: usize| runs[order].get(result)?.1.get(at).copied();
        let first = found(0)?;
        match places.get(&first) {
            Some(place) if (1..ORDERS.len()).all(|order| found(order) == Some(number(order, *place))) => {
                Some(sizes[*place])
            }
            _ => (1..ORDERS.len()).all(|order| found(order) == Some(first)).then_some(Dim::from(first)),
        }
    };
    let result = |(result, (shape, elements)): (usize, &(Vec<usize>, Vec<i64>))| {
        let same = runs.iter().all(|run| run.get(result).is_some_and(|(other, _)| other == shape));
        let sizes = (0..elements.len()).map(|at| element(result, at)).collect::<Option<Vec<_>>>()?;
        if same { of_sizes(shape.clone(), sizes) } else { None }
    };
    runs.first()?.iter().enumerate().map(result).collect()
}

/// The argument with numbers in the place of sizes.
fn stand_in(value: &GraphValue, number: &mut dyn FnMut(Dim) -> i64) -> Given {
    match value {
        GraphValue::Sizes(tensor) => {
            let numbers: Vec<i64> = tensor.sizes.iter().map(|size| number(*size)).collect();
            Given::Tensor(scope::at_once(|| Tensor::from_vec(numbers, tensor.shape.clone())))
        }
        GraphValue::List(items) => Given::List(items.iter().map(|item| stand_in(item, number)).collect()),
        value => Given::from(value),
    }
}

/// Whether all sizes are tensors of the row, and none of them an option, which would decide on the shape of a result.
fn are_elements(form: &ForeignForm, args: &[(Name, Given)]) -> bool {
    fn has_size(given: &Given) -> bool {
        match given {
            Given::Size(_) => true,
            Given::List(items) => items.iter().any(has_size),
            _ => false,
        }
    }
    let params = &form.symbol.row().sig.params;
    args.iter().filter(|(_, given)| has_size(given)).all(|(name, _)| params.iter().any(|p| p.name.name == *name))
}
