//! The calls for which kernels of index bodies are made.
//!
//! A kernel is made per rank, and every call comes down to few ranks: neighbouring axes that are treated alike merge
//! into one, an axis that is not there has size 1, one that broadcasts has stride 0. So a list of sizes stands with one
//! axis, a list of which an option chooses axes with two, the second of them chosen.

use super::super::Emitted;
use fulgurite_core::lang::ast::{DimKind, DimPat, Elem, Expr, Node, Opt, OptType};
use fulgurite_core::lower::variant::{runtime_numbers, variant};
use fulgurite_core::lower::{Rows, lower_with};
use fulgurite_core::nest::Nest;
use fulgurite_core::row::Row;
use fulgurite_core::sig::shapes::{self, implicit_list};
use fulgurite_core::sig::statics::At;
use fulgurite_core::sig::{ArgTy, Env, Item, Size, solve};
use fulgurite_core::{DType, Dim, Name, Scalar, TensorTy, Value};

/// A lowered call.
pub(super) struct Instance {
    /// Static options and presence.
    pub(super) variant: String,
    /// Type of each tensor.
    pub(super) tensors: Vec<TensorTy>,
    /// What it computes.
    pub(super) nest: Nest,
    /// How many run-time numbers it takes.
    pub(super) numbers: usize,
}

/// A row with more choices of static options and presence has no kernels.
const MOST: usize = 32;

/// What a call gives for one argument or option.
type Given = Value<ArgTy>;

/// The calls of a row with tensors of `dtype` and all sizes `size`; none if the row takes no such dtype, and then
/// `refused` says why.
///
/// # Errors
/// Why there is no such call.
pub(super) fn instances(
    emitted: &Emitted,
    rows: &dyn Rows,
    dtype: DType,
    size: usize,
    refused: &mut Option<String>,
) -> Result<Vec<Instance>, String> {
    let row = &emitted.row;
    let Some(block) = row.index_body() else { return Err("it has no body of loops".into()) };
    let numbers = runtime_numbers(row);
    let mut env = Env::default();
    row.sig.params.iter().for_each(|p| bind(p.ty.dims.as_deref().unwrap_or_default(), row, size, &mut env));
    let mut calls: Vec<Vec<Given>> = vec![vec![]];
    for opt in &row.sig.opts {
        let choices = option(opt, row, &env, &numbers)?;
        calls = calls
            .iter()
            .flat_map(|call| choices.iter().map(|c| [call.as_slice(), std::slice::from_ref(c)].concat()))
            .collect();
    }
    for i in 0..row.sig.params.len() {
        let choices = 1 + usize::from(row.sig.params[i].optional);
        let at = calls.first().map_or(0, Vec::len) - row.sig.opts.len();
        let mut more = Vec::new();
        for call in &calls {
            for choice in 0..choices {
                let value = if choice == 1 { Value::Absent } else { argument(row, i, call, &env, dtype)? };
                let mut call = call.clone();
                call.insert(at, value);
                more.push(call);
            }
        }
        calls = more;
    }
    let mut out: Vec<Instance> = Vec::new();
    if calls.len() > MOST {
        return Err("its options have too many values".into());
    }
    for call in &calls {
        let ty = |given: &ArgTy| given.clone();
        let solved = match solve(row, call, &ty) {
            Ok(solved) => solved,
            // a dtype or a choice that the row does not take
            Err(refusal) => {
                refused.get_or_insert(refusal.message);
                continue;
            }
        };
        let nest = lower_with(row, block, &solved, rows).map_err(|refusal| refusal.message)?;
        let tensors: Option<Vec<TensorTy>> = solved.env.slots.iter().cloned().collect();
        let Some(tensors) = tensors else { return Err("it takes a random key".into()) };
        out.push(Instance { variant: variant(row, &solved.env), tensors, nest, numbers: numbers.len() });
    }
    Ok(out)
}

/// Binds the sizes of a shape.
fn bind(dims: &[DimPat], row: &Row, size: usize, env: &mut Env) {
    let one = Dim::from(size);
    for dim in dims {
        match &dim.kind {
            DimKind::One { size, .. } => names(size, &mut |name| env.bind_size(name, Size::One(one))),
            DimKind::Broadcast(name) | DimKind::List { name, .. } | DimKind::Ones(name) => {
                let chosen = |o: &Opt| matches!(o.ty, OptType::Dims { list, .. } if list == name.name);
                let rank = if row.sig.opts.iter().any(chosen) { 2 } else { 1 };
                env.bind_size(name.name, Size::List(std::iter::repeat_n(one, rank).collect()));
            }
            DimKind::BroadcastList(inner) | DimKind::Group(inner) => bind(inner, row, size, env),
            DimKind::Zip { .. } | DimKind::Body => {}
        }
    }
}

/// The sizes in `N`, `G * C`.
fn names(e: &Expr, f: &mut impl FnMut(Name)) {
    match &*e.node {
        Node::Name(name) if name.is_size() => f(*name),
        Node::Binary(_, a, b) => {
            names(a, f);
            names(b, f);
        }
        _ => {}
    }
}

/// What an option can be.
fn option(opt: &Opt, row: &Row, env: &Env, numbers: &[Name]) -> Result<Vec<Given>, String> {
    let int = |i: usize| Value::Num(Scalar::Int(i as i64));
    let mut choices = match &opt.ty {
        OptType::Bool => vec![Value::Num(Scalar::Bool(false)), Value::Num(Scalar::Bool(true))],
        OptType::Enum(words) => words.iter().map(|w| Value::Word(*w)).collect(),
        OptType::Num | OptType::F64 if numbers.contains(&opt.name.name) => {
            vec![Value::Tensor(ArgTy::Number(DType::F64))]
        }
        OptType::Dims { .. } => vec![Value::List(vec![int(1)])],
        OptType::Dim(None) => vec![int(anchor(row, opt, env).ok_or("an option names no axis of an argument")?)],
        OptType::Dim(Some(_)) => vec![int(0)],
        _ if opt.default.is_some() || opt.optional => vec![Value::Absent],
        _ => return Err(format!("its option `{}` has no value of its own", opt.name.name)),
    };
    if opt.optional && matches!(opt.ty, OptType::Enum(_)) {
        choices.push(Value::Absent);
    }
    Ok(choices)
}

/// The axis of `N@dim`: behind one axis per list before it.
fn anchor(row: &Row, opt: &Opt, env: &Env) -> Option<usize> {
    let shapes = row.sig.params.iter().filter_map(|p| p.ty.dims.as_deref());
    shapes.into_iter().find_map(|dims| {
        let named = |d: &DimPat| matches!(&d.kind, DimKind::One { at: Some(at), .. } if at.name == opt.name.name);
        let at = dims.iter().position(named)?;
        let before = dims[..at].iter().map(|d| match &d.kind {
            DimKind::List { name, .. } | DimKind::Broadcast(name) => match env.size(name.name) {
                Some(Size::List(sizes)) => sizes.len(),
                _ => 1,
            },
            _ => 1,
        });
        Some(before.sum())
    })
}

/// The tensor for argument `i` of a call whose options are the last of `call`.
fn argument(row: &Row, i: usize, call: &[Given], env: &Env, dtype: DType) -> Result<Given, String> {
    let param = &row.sig.params[i];
    if param.ty.list.is_some() {
        return Err("it takes a list of tensors".into());
    }
    let dtype = match param.ty.elem.first() {
        Some(Elem::Class(class)) => DType::from_name(class.as_str()).unwrap_or(dtype),
        Some(Elem::Index) => DType::I64,
        Some(Elem::Key) => return Err("it takes a random key".into()),
        Some(Elem::Acc(_)) => dtype.opmath(),
        _ => dtype,
    };
    let mut env = env.clone();
    let options = call.iter().skip(call.len() - row.sig.opts.len());
    for (opt, value) in row.sig.opts.iter().zip(options) {
        let item = match value {
            Value::List(_) => value.as_dims().map(|axes| Item::Ints(axes.into())),
            Value::Num(Scalar::Int(i)) => Some(Item::Int(Dim::from(*i))),
            Value::Num(scalar) => Some(Item::Num(*scalar)),
            Value::Word(word) => Some(Item::Word(*word)),
            Value::Absent => Some(Item::Absent),
            _ => None,
        };
        env.items.extend(item.map(|item| (opt.name.name, item)));
    }
    let shape: Vec<Dim> = match &param.ty.dims {
        Some(dims) => shapes::build(&mut env, dims, At { axis: None, item: None })
            .map_err(|_| format!("the shape of `{}` follows from a call alone", param.name.name))?
            .into_iter()
            .map(|axis| axis.size)
            .collect(),
        None => match env.size(implicit_list()) {
            Some(Size::List(sizes)) => sizes.to_vec(),
            _ => return Err(format!("`{}` has no shape of its own", param.name.name)),
        },
    };
    Ok(Value::Tensor(ArgTy::Tensor(TensorTy::new(dtype, &shape))))
}
