//! P11: the function that users call refuses calls that a signature excludes, with the code of the refusal's class and
//! without a panic. Each violation changes one thing in a valid call.

use fulgurite::Tensor;
use fulgurite_core::eval::loop_nest::Array;
use fulgurite_core::lang::ast::*;
use fulgurite_core::loc::Loc;
use fulgurite_core::runtime_checks::reads_elements;
use fulgurite_core::signature;
use fulgurite_core::{DType, Name, Scalar, TensorTy, Value};
use fulgurite_tests::bridge;
use fulgurite_tests::calls::{self, Call, Slot, Values, Wish};
use fulgurite_tests::draws::{self, Property, Verdict};
use fulgurite_tests::oracle::{self, Operand};
use fulgurite_tests::rng::{self, Rng};
use fulgurite_tests::rows::TestRow;
use libtest_mimic::Failed;

/// Valid calls per row, each of which is changed in every way that applies.
const CALLS: usize = 12;
/// Attempts to draw a call that a `require` refuses.
const DRAWS: usize = 600;
/// As [`DRAWS`], of a row in which such a call must be found.
const MOST_DRAWS: usize = 20_000;

/// A call that must be refused.
struct Wrong {
    /// The change of the valid call.
    what: String,
    args: Vec<Value<Operand<f64>>>,
    /// The allowed codes of the refusal.
    codes: &'static [&'static str],
}

pub fn check(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    let wish = |case| Wish { dtype: Some(DType::F32), values: Values::Tame, numbers: false, empty: false, case };
    let drawn = |case: usize, rng: &mut Rng| calls::generate(row, &wish(case), rng);
    // A row that does not take f32 has no such call.
    let property = Property { name: test, test: "--test properties", cases: CALLS, shrinks: true };
    let held = draws::hold(&property, drawn, |call, _| {
        spoiled(row, call).iter().try_for_each(|wrong| refused(call, wrong))?;
        Ok(Verdict::Held)
    })?;
    let mut faults = Vec::new();
    if held.is_some() {
        conditions(row, &mut Rng::new(rng::seed(row.row.op.as_str(), "p11")), &mut faults);
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n").into()) }
}

fn refused(call: &Call, wrong: &Wrong) -> Result<(), String> {
    let shown = || Call { args: wrong.args.clone(), ..call.clone() }.to_string();
    let symbol = bridge::symbol(call.row.op).map_err(|e| e.to_string())?;
    let args: Vec<Value<Tensor>> = wrong.args.iter().map(|a| a.map(&mut |o| bridge::tensor(o))).collect();
    match fulgurite::api::call(symbol, args, Loc::NOWHERE) {
        Ok(_) => Err(format!("{}: accepted: {}", wrong.what, shown())),
        Err(e) if wrong.codes.contains(&e.code()) => Ok(()),
        Err(e) => Err(format!("{}: {} where one of {:?} belongs: {}\n{e}", wrong.what, e.code(), wrong.codes, shown())),
    }
}

fn spoiled(row: &TestRow, call: &Call) -> Vec<Wrong> {
    let mut out = Vec::new();
    let params = row.row.sig.params.len();
    let mut push = |what: String, at: usize, value: Value<Operand<f64>>, codes: &'static [&'static str]| {
        let mut args = call.args.clone();
        args[at] = value;
        out.push(Wrong { what, args, codes });
    };
    for (i, param) in row.row.sig.params.iter().enumerate() {
        let name = param.name.name;
        if !param.optional {
            push(format!("no {name}"), i, Value::Absent, &["E702"]);
        }
        push(format!("a word for {name}"), i, Value::Word(Name::new("word")), &["E702"]);
        let Value::Tensor(Operand::Tensor(a)) = &call.args[i] else { continue };
        if param.ty.elem == [Elem::Index] {
            push(format!("floats for {name}"), i, tensor(zeros(DType::F32, &a.shape)), &["E703"]);
            for far in [1_000_000, -1_000_000] {
                let elements = tensor(Array::int(a.dtype, &a.shape, vec![far; a.len()]));
                if !a.is_empty() && is_out_of_range(call, i, &elements) {
                    push(format!("{name} out of range"), i, elements, &["E804", "E705"]);
                }
            }
        }
        if let Some(dims) = &param.ty.dims {
            if dims.is_empty() {
                push(format!("{name} of rank 1"), i, tensor(zeros(a.dtype, &[2])), &["E701"]);
            }
            if let Some(axis) = tied_axis(row, call, i, dims) {
                let mut shape = a.shape.clone();
                shape[axis] += 1;
                push(format!("another size in {name}"), i, tensor(zeros(a.dtype, &shape)), &["E701", "E704", "E705"]);
            }
            if !dims.is_empty() {
                push(format!("a number for {name}"), i, Value::Num(Scalar::Float(1.0)), &["E702"]);
            }
        }
    }
    if let Some((at, dtype)) = outside_dtypes(row, call) {
        let mut args = call.args.clone();
        for (param, arg) in row.row.sig.params.iter().zip(&mut args) {
            if param.ty.elem.contains(&Elem::Var(Name::new("T"))) {
                *arg = arg.map(&mut |o| match o {
                    Operand::Tensor(a) => Operand::Tensor(zeros(dtype, &a.shape)),
                    other => other.clone(),
                });
            }
        }
        out.push(Wrong { what: format!("{dtype} for {at}"), args, codes: &["E703"] });
    }
    for (i, opt) in row.row.sig.opts.iter().enumerate() {
        options(call, params + i, opt, &mut out);
    }
    if row.row.sig.params.len() > 1 {
        unbroadcastable(row, call, &mut out);
    }
    out
}

fn tensor(a: Array<f64>) -> Value<Operand<f64>> {
    Value::Tensor(Operand::Tensor(a))
}

fn zeros(dtype: DType, shape: &[usize]) -> Array<f64> {
    let n = shape.iter().product();
    Array::from_scalars(dtype, shape, vec![Scalar::Int(0); n])
}

/// Whether the row's own text refuses these indices; otherwise they have a meaning (`skip`, a filter, a comparison).
fn is_out_of_range(call: &Call, at: usize, indices: &Value<Operand<f64>>) -> bool {
    let mut args = call.args.clone();
    args[at] = indices.clone();
    oracle::run(&call.row, &args).is_err_and(|r| oracle::refused_when_run(&r))
}

/// An axis of a parameter whose size is a plain name that another parameter has too.
fn tied_axis(row: &TestRow, call: &Call, at: usize, dims: &[DimPat]) -> Option<usize> {
    let name = |d: &DimPat| match &d.kind {
        DimKind::One { name: None, size, at: None } => match &*size.node {
            Node::Name(n) => Some(*n),
            _ => None,
        },
        _ => None,
    };
    // Positions are known if every pattern before is a single axis.
    let axis = dims.iter().position(|d| name(d).is_some())?;
    if !dims[..axis].iter().all(|d| matches!(d.kind, DimKind::One { .. })) {
        return None;
    }
    let size = name(&dims[axis])?;
    let given = |i: usize| !call.args[i].is_absent();
    let elsewhere = row
        .row
        .sig
        .params
        .iter()
        .enumerate()
        .any(|(i, p)| i != at && given(i) && p.ty.dims.iter().flatten().any(|d| name(d) == Some(size)));
    elsewhere.then_some(axis)
}

/// A dtype that the row does not take, if it refuses any.
fn outside_dtypes(row: &TestRow, call: &Call) -> Option<(Name, DType)> {
    let param = row.row.sig.params.iter().find(|p| p.ty.elem == [Elem::Var(Name::new("T"))])?;
    let accepts = |d: DType| {
        let args: Vec<Value<Slot>> =
            (row.row.sig.params.iter().map(Some).chain(std::iter::repeat(None)).zip(&call.args))
                .map(|(p, a)| {
                    let follows = p.is_some_and(|p| p.ty.elem.contains(&Elem::Var(Name::new("T"))));
                    a.map(&mut |o| match o.ty() {
                        signature::ArgTy::Tensor(t) if follows => Slot::Tensor(TensorTy { dtype: d, ..t }),
                        signature::ArgTy::Tensor(t) => Slot::Tensor(t),
                        signature::ArgTy::Number(d) => Slot::Number(d, Scalar::Int(1)),
                        signature::ArgTy::Key => Slot::Key,
                    })
                })
                .collect();
        signature::solve(&row.row, &args, &Slot::ty).is_ok()
    };
    let stated = row.row.dtypes.is_some();
    DType::STORED.into_iter().find(|d| stated && !accepts(*d)).map(|d| (param.name.name, d))
}

fn options(call: &Call, at: usize, opt: &Opt, out: &mut Vec<Wrong>) {
    let name = opt.name.name;
    let int = |i: i64| Value::Num(Scalar::Int(i));
    let list = |items: &[i64]| Value::List(items.iter().map(|i| int(*i)).collect());
    let mut push = |what: String, value: Value<Operand<f64>>, codes: &'static [&'static str]| {
        let mut args = call.args.clone();
        args[at] = value;
        out.push(Wrong { what, args, codes });
    };
    let rank = |list: Name| match call.solved.env.size(list) {
        Some(signature::Size::List(l)) => Some(l.len() as i64),
        _ => None,
    };
    const RANGE: &[&str] = &["E704"];
    const KIND: &[&str] = &["E702", "E704"];
    if opt.default.is_none() && !opt.optional {
        push(format!("no {name}"), Value::Absent, &["E702"]);
    }
    match &opt.ty {
        OptType::Bool => push(format!("a word for {name}"), Value::Word(Name::new("maybe")), KIND),
        OptType::Enum(_) => push(format!("a wrong word for {name}"), Value::Word(Name::new("no_such_word")), RANGE),
        OptType::Dim(l) => {
            let far = l.and_then(rank).unwrap_or(9).max(1);
            for i in [far.max(9), -far.max(9) - 1] {
                push(format!("{name} = {i}"), int(i), RANGE);
            }
            push(format!("a float for {name}"), Value::Num(Scalar::Float(0.5)), KIND);
        }
        OptType::Gap(_) => push(format!("{name} = 99"), int(99), RANGE),
        OptType::Dims { list: l, .. } => {
            push(format!("{name} = [99]"), list(&[99]), RANGE);
            if rank(*l).is_some_and(|r| r > 0) {
                push(format!("{name} twice the same"), list(&[0, 0]), RANGE);
            }
        }
        OptType::Perm(l) => {
            let Some(r) = rank(*l) else { return };
            let short: Vec<i64> = (0..r - 1).collect();
            if r > 0 {
                push(format!("{name} too short"), list(&short), RANGE);
            }
            if r > 1 {
                push(format!("{name} twice the same"), list(&vec![0; r as usize]), RANGE);
            }
        }
        OptType::Pos(size) => {
            if let Some(signature::Size::One(n)) = call.solved.env.size(*size) {
                push(format!("{name} = {n}"), int(n.value()), RANGE);
                push(format!("{name} = -{n} - 1"), int(-n.value() - 1), RANGE);
            }
        }
        OptType::Size(_) => push(format!("{name} = -1"), int(-1), &["E704", "E701", "E705"]),
        OptType::Shape { .. } => push(format!("{name} = [-5]"), list(&[-5]), &["E704", "E701", "E705"]),
        OptType::Ints { list: l, broadcast: false, .. } => {
            if let Some(r) = rank(*l) {
                push(format!("{name} too long"), list(&vec![1; r as usize + 1]), RANGE);
            }
        }
        OptType::Dtype(_) => push(format!("a number for {name}"), int(1), KIND),
        OptType::F64 | OptType::Num => push(format!("a word for {name}"), Value::Word(Name::new("word")), KIND),
        _ => {}
    }
}

/// Adds a call with two broadcasting arguments that disagree in the size of one axis.
fn unbroadcastable(row: &TestRow, call: &Call, out: &mut Vec<Wrong>) {
    let pointwise = |p: &Param| p.ty.dims.is_none() && p.ty.list.is_none() && !p.ty.elem.contains(&Elem::Key);
    let places: Vec<usize> = (0..row.row.sig.params.len())
        .filter(|&i| pointwise(&row.row.sig.params[i]) && matches!(&call.args[i], Value::Tensor(Operand::Tensor(_))))
        .collect();
    let [first, second, ..] = places.as_slice() else { return };
    let mut args = call.args.clone();
    for (at, size) in [(*first, 2), (*second, 3)] {
        if let Value::Tensor(Operand::Tensor(a)) = &call.args[at] {
            args[at] = tensor(zeros(a.dtype, &[size]));
        }
    }
    for at in &places[2..] {
        if let Value::Tensor(Operand::Tensor(a)) = &call.args[*at] {
            args[*at] = tensor(zeros(a.dtype, &[1]));
        }
    }
    out.push(Wrong { what: "sizes 2 and 3 side by side".into(), args, codes: &["E701"] });
}

/// For each condition that can fail before elements are known, draws a call that fails it, and checks that the refusal
/// has the condition's message.
fn conditions(row: &TestRow, rng: &mut Rng, faults: &mut Vec<String>) {
    for require in &row.row.require {
        let mut seen = false;
        let draws = if row.row.is_composite() { DRAWS } else { MOST_DRAWS };
        for draw in 0..draws {
            let wish = Wish { dtype: None, values: Values::Small, numbers: draw % 2 == 0, empty: true, case: draw };
            let Some(args) = calls::propose(row, &wish, rng) else { continue };
            let Err(refusal) = signature::solve(&row.row, &args, &Slot::ty) else { continue };
            // Backticks are ignored, because the refusal quotes the operator's name as code.
            let met =
                refusal.code == "E705" && refusal.message.replace('`', "").contains(&require.message.replace('`', ""));
            // If this condition alone refuses the call, the refusal must have its message.
            let mut lax = (*row.row).clone();
            lax.require.retain(|r| r.message != require.message);
            if !met && signature::solve(&lax, &args, &Slot::ty).is_ok() {
                faults.push(format!("`{}` gives {refusal}, not E705 with its message", require.cond));
            }
            if met {
                seen = true;
                break;
            }
        }
        // A composite repeats the conditions of the rows that its body calls, which the build checks; such a condition
        // may be out of reach here.
        if !seen && !row.row.is_composite() && !reads_elements(&row.row, &require.cond) {
            faults.push(format!("no call was found that `{}` refuses", require.cond));
        }
    }
}
