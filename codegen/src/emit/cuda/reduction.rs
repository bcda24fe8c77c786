//! Reductions: a team of threads per result.
//!
//! A block is `blockDim.y` teams of `blockDim.x` threads, a power of two; team and block together take the results in
//! row-major order. Thread `lane` of a team folds the elements at flat positions `lane`, `lane + lanes`, … of what is
//! reduced, in this order; the lanes are then folded in halves, in shared memory. So the order is a function of
//! `blockDim.x` and the length alone. Short reductions run with teams of one thread: no two elements are then ever
//! exchanged. A block has at most 1024 threads, of which the shared memory takes the partial results.
//!
//! Sums, means and products of floats are accumulated in f64, those of integers in i64, as on the CPU; extrema in their
//! own dtype. Inputs are strided, results dense. Only kernels that are right for all sizes are made: a kernel that
//! would hold a size of the call is left out.

use super::super::scalar::{NotScalar, Printer, Target, children, constant, type_name};
use super::instance::{Instance, instances};
use super::{Emitted, Tensor, kernel_name, reductions, render};
use fulgurite_core::builtins::cuda::stored_type;
use fulgurite_core::eval::nest::neutral;
use fulgurite_core::lang::ast::Red;
use fulgurite_core::lower::Rows;
use fulgurite_core::nest::{Nest, NestOut, SExpr, SOp, SOutside, SRange};
use fulgurite_core::{DType, Dim, TensorTy};
use serde::Serialize;

const TEMPLATE: &str = include_str!("../../../templates/reduction.cu.tera");

/// The dtypes of arguments for which there are kernels; half types compute in f32.
const DTYPES: [DType; 6] = [DType::F32, DType::F64, DType::F16, DType::BF16, DType::I64, DType::Bool];

/// Two sizes at which a kernel must be the same text.
const SIZES: [usize; 2] = [5, 7];

/// An index variable that runs along an axis.
#[derive(Clone, PartialEq, Serialize)]
struct Axis {
    /// `i0`
    var: String,
    /// How many values it takes.
    size: String,
    /// Its first value, where that is not 0.
    from: Option<String>,
}

/// One reduction of a result.
#[derive(Clone, PartialEq, Serialize)]
struct Fold {
    /// `sum`, for the comment.
    word: &'static str,
    /// The loop variables, slowest first.
    axes: Vec<Axis>,
    /// Type of the accumulator.
    acc: &'static str,
    /// What changes nothing.
    start: String,
    /// Condition on elements, and what it needs.
    filter: Option<String>,
    before_filter: String,
    /// The element, and what it needs.
    statements: String,
    value: String,
    /// `fg_add`, or the order of positions for `argmax`.
    step: &'static str,
    position: bool,
    /// The value of the whole, over `acc0` and `at0`.
    ty: &'static str,
    result: String,
}

#[derive(Clone, PartialEq, Serialize)]
struct Kernel {
    /// The variant; in the text, the name of the function.
    name: String,
    file: String,
    line: u32,
    comment: String,
    output: &'static str,
    inputs: Vec<Tensor>,
    /// Index variables whose extents are passed.
    sizes: Vec<usize>,
    numbers: usize,
    axes: Vec<Axis>,
    folds: Vec<Fold>,
    statements: String,
    result: String,
}

/// The kernels of a row whose body reduces.
///
/// # Errors
/// Why there are none.
pub(super) fn kernels(row: &Emitted, rows: &dyn Rows) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    let mut refused = None;
    for dtype in DTYPES {
        let [one, other] = SIZES.map(|size| distinct(row, rows, dtype, size, &mut refused));
        let (one, other) = (one?, other?);
        if one != other {
            return Err("its body holds sizes of the call".into());
        }
        for mut kernel in one {
            let name = kernel_name(row.row.op, &kernel.name, dtype.name());
            kernel.name = name;
            out.push(render(TEMPLATE, &kernel)?);
        }
    }
    match (out.is_empty(), refused) {
        (false, _) => Ok(out),
        (true, Some(refusal)) => Err(format!("its smallest call is refused: {refusal}")),
        (true, None) => Err("it has no call".into()),
    }
}

/// The kernels of calls with these sizes, each once: options that choose shapes alone make no difference. Their names
/// are variants, empty where there is one kernel.
fn distinct(
    row: &Emitted,
    rows: &dyn Rows,
    dtype: DType,
    size: usize,
    refused: &mut Option<String>,
) -> Result<Vec<Kernel>, String> {
    let mut out: Vec<Kernel> = Vec::new();
    for instance in instances(row, rows, dtype, size, refused)? {
        let kernel = kernel(row, &instance, dtype)?;
        if !out.iter().any(|other| Kernel { name: other.name.clone(), ..kernel.clone() } == *other) {
            out.push(kernel);
        }
    }
    if let [only] = out.as_mut_slice() {
        only.name.clear();
    }
    Ok(out)
}

fn kernel(row: &Emitted, instance: &Instance, dtype: DType) -> Result<Kernel, String> {
    let nest = &instance.nest;
    let [out] = nest.outs.as_slice() else { return Err("it has several results".into()) };
    let mut found = Vec::new();
    reductions(&out.expr, &mut found);
    if found.is_empty() {
        return Err("some of its calls reduce, others do not".into());
    }
    checked(&out.expr, nest, &instance.tensors)?;
    let dtypes: Vec<DType> = instance.tensors.iter().map(|t| t.dtype).collect();
    let mut printer = Printer::new(Target::Cuda, "    ", &[&out.expr]).in_loops(&dtypes);
    let mut folds = Vec::new();
    for (n, reduction) in found.iter().enumerate() {
        folds.push(fold(reduction, n, nest, &dtypes)?);
        printer.name(reduction, format!("r{n}"));
    }
    let result = printer.expr(&out.expr).map_err(not_scalar)?;
    let stored = stored_type(out.dtype);
    let mut sizes: Vec<usize> = out.axes.iter().flatten().copied().collect();
    sizes.extend(found.iter().flat_map(|r| full(r, nest)));
    sizes.sort_unstable();
    sizes.dedup();
    Ok(Kernel {
        name: instance.variant.clone(),
        file: row.file.clone(),
        line: row.line,
        comment: format!("{} on {dtype}", row.row.op),
        output: stored,
        inputs: instance.tensors.iter().map(|t| Tensor { ty: stored_type(t.dtype), rank: t.rank() }).collect(),
        sizes,
        numbers: instance.numbers,
        axes: result_axes(out),
        folds,
        statements: printer.statements().trim_end().to_owned(),
        result: if stored == type_name(Target::Cuda, out.expr.ty()) { result } else { cast(stored, &result) },
    })
}

fn not_scalar(_: NotScalar) -> String {
    "its body draws random numbers or reduces inside a reduction".into()
}

fn cast(ty: &str, value: &str) -> String {
    format!("fg_cast<{ty}>({value})")
}

fn result_axes(out: &NestOut) -> Vec<Axis> {
    let axis = |v: &usize| Axis { var: format!("i{v}"), size: format!("size{v}"), from: None };
    out.axes.iter().flatten().map(axis).collect()
}

/// The variables of a reduction that run along the whole of their axis.
fn full(reduction: &SExpr, nest: &Nest) -> Vec<usize> {
    let SOp::Reduce { vars, .. } = reduction.op() else { return vec![] };
    vars.iter().filter(|range| is_full(range, nest)).map(|range| range.var).collect()
}

fn is_full(range: &SRange, nest: &Nest) -> bool {
    range.lo.as_int() == Some(0) && range.hi.as_int() == Some(nest.vars[range.var].value())
}

/// One reduction as text; `n` numbers its names.
fn fold(reduction: &SExpr, n: usize, nest: &Nest, dtypes: &[DType]) -> Result<Fold, String> {
    let SOp::Reduce { red, vars, filter, body, otherwise } = reduction.op() else {
        return Err("no reduction".into());
    };
    let axes = vars.iter().map(|range| axis(range, vars, nest, dtypes)).collect::<Result<Vec<_>, _>>()?;
    let roots: Vec<&SExpr> = filter.iter().chain([body]).collect();
    let mut printer = Printer::new(Target::Cuda, "      ", &roots).in_loops(dtypes);
    let condition = filter.as_ref().map(|f| printer.expr(f)).transpose().map_err(not_scalar)?;
    let before_filter = printer.take_statements().trim_end().to_owned();
    let value = printer.expr(body).map_err(not_scalar)?;
    let name = |d: DType| type_name(Target::Cuda, d);
    let (ty, acc) = (reduction.ty(), accumulator(*red, reduction.ty(), body.ty()));
    let position = matches!(red, Red::ArgMax | Red::ArgMin);
    let whole = match red {
        Red::Mean if filter.is_some() => return Err("a mean of chosen elements".into()),
        Red::Mean => format!("acc{n} / (double)total{n}"),
        _ if position => format!("at{n} < 0 ? 0 : at{n}"),
        _ => format!("acc{n}"),
    };
    let whole = if position || (*red != Red::Mean && acc == ty) { whole } else { cast(name(ty), &whole) };
    let result = match otherwise {
        None => whole,
        Some(_) if filter.is_some() => return Err("another value where no element is chosen".into()),
        Some(e) => {
            let mut printer = Printer::new(Target::Cuda, "    ", &[e]).in_loops(dtypes);
            let other = printer.expr(e).map_err(not_scalar)?;
            if !printer.statements().is_empty() {
                return Err("a value for no elements that needs statements".into());
            }
            format!("total{n} > 0 ? {whole} : {other}")
        }
    };
    Ok(Fold {
        word: word(*red)?,
        axes,
        acc: name(acc),
        start: constant(Target::Cuda, neutral(*red, body.ty()), acc),
        filter: condition,
        before_filter,
        statements: printer.statements().trim_end().to_owned(),
        value: if position || body.ty() == acc { value } else { cast(name(acc), &value) },
        step: match red {
            Red::Sum | Red::Mean | Red::Any => "fg_add",
            Red::Prod | Red::All => "fg_mul",
            Red::Max => "fg_max",
            Red::Min => "fg_min",
            Red::ArgMax => "fg_above",
            _ => "fg_below",
        },
        position,
        ty: name(ty),
        result,
    })
}

/// The loop of one bound variable; its range may depend on the result's indices alone.
fn axis(range: &SRange, all: &[SRange], nest: &Nest, dtypes: &[DType]) -> Result<Axis, String> {
    let var = format!("i{}", range.var);
    if is_full(range, nest) {
        return Ok(Axis { var, size: format!("size{}", range.var), from: None });
    }
    if all.iter().any(|other| reads(&range.lo, other.var) || reads(&range.hi, other.var)) {
        return Err("a range that depends on an index of the same reduction".into());
    }
    // what `checked` knows of a variable is its extent, which bounds it from above
    let (low, read) =
        (matches!(range.lo.op(), SOp::Var(_)) || range.lo.as_int().is_some_and(|lo| lo >= 0), loads(&range.hi));
    if !low || read {
        return Err("a range that may begin before its axis or that elements decide".into());
    }
    let print = |e: &SExpr| {
        let mut printer = Printer::new(Target::Cuda, "", &[]).in_loops(dtypes);
        let text = printer.expr(e).map_err(not_scalar)?;
        // a loop's head has no place for them
        if printer.statements().is_empty() { Ok(text) } else { Err("a range that needs statements".to_owned()) }
    };
    let (lo, hi) = (print(&range.lo)?, print(&range.hi)?);
    Ok(match range.lo.as_int() {
        Some(0) => Axis { var, size: format!("fg_max({hi}, 0LL)"), from: None },
        _ => Axis { var, size: format!("fg_max({hi} - {lo}, 0LL)"), from: Some(lo) },
    })
}

fn loads(e: &SExpr) -> bool {
    matches!(e.op(), SOp::Load { .. }) || children(e).into_iter().any(loads)
}

fn reads(e: &SExpr, var: usize) -> bool {
    match e.op() {
        SOp::Var(v) => *v == var,
        SOp::Load { idx, .. } => idx.iter().any(|i| reads(i, var)),
        _ => children(e).into_iter().any(|child| reads(child, var)),
    }
}

/// The dtype in which partial results are kept.
fn accumulator(red: Red, ty: DType, body: DType) -> DType {
    match red {
        Red::ArgMax | Red::ArgMin => body,
        Red::Any | Red::All => DType::Bool,
        Red::Sum | Red::Mean | Red::Prod if ty.is_float() => DType::F64,
        Red::Sum | Red::Prod if ty != DType::Bool => DType::I64,
        _ => ty,
    }
}

fn word(red: Red) -> Result<&'static str, String> {
    Ok(match red {
        Red::Sum => "sum",
        Red::Prod => "prod",
        Red::Mean => "mean",
        Red::Max => "max",
        Red::Min => "min",
        Red::Any => "any",
        Red::All => "all",
        Red::ArgMax => "argmax",
        Red::ArgMin => "argmin",
        Red::First | Red::Last | Red::Only => return Err("it takes one element of many: an order, no fold".into()),
    })
}

/// That every load is inside its tensor: kernels can't refuse.
fn checked(e: &SExpr, nest: &Nest, tensors: &[TensorTy]) -> Result<(), String> {
    if let SOp::Load { tensor, idx, outside } = e.op() {
        if *outside != SOutside::Refuse {
            return Err("a window reaches over the edge of its tensor".into());
        }
        let inside = |(i, size): (&SExpr, &Dim)| match i.op() {
            SOp::Var(v) => nest.vars[*v].value() <= size.value(),
            _ => i.as_int().is_some_and(|i| 0 <= i && i < size.value()),
        };
        if !idx.iter().zip(&tensors[*tensor].shape).all(inside) {
            return Err("an index is computed, and only an executor can refuse one that is out of range".into());
        }
    }
    let ranges = match e.op() {
        SOp::Reduce { vars, .. } => vars.iter().flat_map(|r| [&r.lo, &r.hi]).collect(),
        _ => vec![],
    };
    children(e).into_iter().chain(ranges).try_for_each(|child| checked(child, nest, tensors))
}
