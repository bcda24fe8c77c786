//! E301: the row's own examples, `tests: {points: […]}`, must hold.
//!
//! A point is a call with its outcome: `{x: 2, y: [1, 3], out: [3, 5]}`, `{x: 0, out: 0, grad: {x: 1}}`,
//! `{x: 'bool true', refused: true}`. The meaning is run as it is written, in f64.

pub mod apart;
mod calls;
pub mod read;
pub mod run;
mod slopes;

use std::sync::Arc;

use fulgurite_core::eval::loop_nest::Array;
use fulgurite_core::facts;
use fulgurite_core::lang::ast::{Access, Elem, Param};
use fulgurite_core::row::Row;
use fulgurite_core::signature::{self, Env, const_eval};
use fulgurite_core::{DTypeSet, Name, Named, Scalar, Value};
use rustc_hash::FxHashMap;

use super::cases::Case;
use super::closure;
use super::gradients::arrays::dense::{Stop, V, ty, types};
use super::rows::RowSet;
use crate::diag::Diag;
use crate::schema::RowSource;
use crate::source::Place;
use crate::yaml::{Node, ScalarKind, Text, Value as Yaml};
use read::Written;
use run::Ran;

/// A stated number with at least this many digits counts as rounded; one with fewer digits counts as exact.
const ROUNDED: i32 = 9;

/// The allowed error of a computed number, relative to it: hundreds of roundings, because sums cancel.
const EXACT: f64 = 1e-13;

/// The allowed error of a computed number where 0 is stated.
const NOTHING: f64 = 1e-12;

/// The distance of two numbers, relative to them, that points of ten digits do not show.
const CLOSE: f64 = 1e-8;

/// The suffix that turns the name of an argument into that of its value after the call.
const WRITTEN: &str = "@1";

/// The faults in the points of a row.
pub fn check(source: &RowSource, row: &Arc<Row>, set: &RowSet) -> Vec<Diag> {
    let mut faults: Vec<Diag> = source.tests.points.iter().filter_map(|node| point(source, row, set, node)).collect();
    faults.extend(repeated(source));
    // The fault may be a consequence of one in a called row, which is reported there.
    if !faults.is_empty() && closure::reaches_broken(source, row, set) { Vec::new() } else { faults }
}

/// The fault of a point that repeats another one.
fn repeated(source: &RowSource) -> Option<Diag> {
    let mut seen: FxHashMap<String, Place> = FxHashMap::default();
    let points = source.tests.points.iter();
    let (node, first) = points.filter_map(|node| Some((node, seen.insert(node.plain(), node.place)?))).next()?;
    let diag =
        Diag::error("E301", node.place, format!("`points` of `{}` has the same point twice", source.op.as_str()));
    Some(diag.here("here again").label(first, "first here").help("delete one"))
}

/// The calls of the points that do not state a refusal.
pub fn calls(source: &RowSource, row: &Row) -> Vec<Case> {
    let call = |args: Vec<Value<V<f64>>>| {
        let solved = signature::solve(row, &args, &ty).ok()?;
        Some(Case { args: types(&args, &ty), solved })
    };
    arguments(source, row).filter_map(call).collect()
}

/// The arguments of the points that do not state a refusal, in the order of the signature.
pub fn arguments(source: &RowSource, row: &Row) -> impl Iterator<Item = Vec<Value<V<f64>>>> {
    source.tests.points.iter().filter_map(|node| {
        let point = read(source, row, node).ok().filter(|point| !point.refused)?;
        signature::arrange(row, Vec::new(), point.args).ok()
    })
}

/// A refused call: its arguments by name, and the message.
pub type RefusedCall = (Vec<Named<V<f64>>>, String);

/// The points that state a refusal, each with the message of the refusal.
pub fn refusals<'a>(
    source: &'a RowSource,
    row: &'a Arc<Row>,
    set: &'a RowSet<'a>,
) -> impl Iterator<Item = RefusedCall> {
    source.tests.points.iter().filter_map(move |node| {
        let point = read(source, row, node).ok().filter(|point| point.refused)?;
        let ran = signature::arrange(row, Vec::new(), point.args.clone()).map_err(Stop::from);
        let stop = ran.and_then(|args| Ran::new(row, args, set)).err()?;
        Some((point.args, stop.to_string()))
    })
}

/// The points that state a refusal which follows from the signature, the dtypes or the promotion of the row: no
/// `require`, option or element is needed for it.
pub fn restated<'a>(source: &'a RowSource, row: &Row) -> Vec<&'a Node> {
    let is_restated = |node: &&Node| {
        let Ok(point) = read(source, row, node) else { return false };
        let refusal =
            signature::arrange(row, Vec::new(), point.args).and_then(|args| signature::solve(row, &args, &ty)).err();
        point.refused && refusal.is_some_and(|refusal| matches!(refusal.code, "E701" | "E702" | "E703"))
    };
    source.tests.points.iter().filter(is_restated).collect()
}

/// A parsed point.
#[derive(Default)]
struct Point {
    args: Vec<Named<V<f64>>>,
    results: Vec<(Name, Written, Place)>,
    gradients: Vec<(Name, Written, Place)>,
    tangents: Vec<(Name, Written, Place)>,
    refused: bool,
    /// Whether a write to a result is visible in the argument, if the point states it.
    shares: Option<(bool, Place)>,
}

fn point(source: &RowSource, row: &Arc<Row>, set: &RowSet, node: &Node) -> Option<Diag> {
    let point = match read(source, row, node) {
        Ok(point) => point,
        Err(diag) => return Some(*diag),
    };
    let op = source.op.as_str();
    let ran = signature::arrange(row, Vec::new(), point.args.clone()).map_err(Stop::from);
    let ran = ran.and_then(|args| Ran::new(row, args, set));
    let error = |place: Place, message: String| Diag::error("E301", place, message);
    let ran = match ran {
        Err(Stop::TooLong(why)) => {
            let diag = error(node.place, format!("a point of `{op}` can't be run while checking")).note(why);
            return Some(diag.help("make the sizes and the bounds of the point small"));
        }
        Err(_) if point.refused => return None,
        Err(Stop::Refused(refusal)) if set.may_hide(&refusal) => return None,
        Err(stop) => {
            let why = match stop {
                Stop::Refused(refusal) => refusal.message,
                Stop::Data(why) | Stop::TooLong(why) => why,
            };
            let diag = error(node.place, format!("`{op}` refuses a call that its `points` has values of"));
            return Some(diag.note(why).help("mend the point, or what the row accepts"));
        }
        Ok(_) if point.refused => {
            let diag = error(node.place, format!("`{op}` accepts a call that its `points` says is refused"));
            return Some(diag.help("narrow `dtypes` or `require`, or delete the point"));
        }
        Ok(ran) => ran,
    };
    let fixed = row.sig.outs.len() + row.sig.aux.len();
    let writes = row.sig.params.iter().filter(|param| param.access == Access::Mut).map(|param| param.name.name);
    let writes: Vec<Name> = writes.filter(|name| point.args.iter().any(|(arg, _)| arg == name)).collect();
    for (name, stated, place) in &point.results {
        let at = match name.as_str().strip_suffix(WRITTEN) {
            Some(name) => fixed + writes.iter().position(|write| *write == name)?,
            None => row.sig.outs.iter().position(|out| out.name.name == *name)?,
        };
        if let Some(computed) = differs(ran.results.get(at)?, stated) {
            let diag = error(*place, format!("`{name}` of `{op}` is not what its `points` says")).here(computed);
            return Some(diag.help("mend the meaning, or the point"));
        }
    }
    if let Some((shares, place)) = point.shares.filter(|(shares, _)| *shares != is_view(row, set)) {
        let what = if shares { "has storage of its own" } else { "shares storage" };
        let diag = error(place, format!("the result of `{op}` {what}, and its `points` says otherwise"));
        return Some(diag.help("a `view`, or a program of views alone, shares storage; an `expr` does not"));
    }
    slopes::check(row, set, &ran, &point)
}

/// Whether the results show the storage of the first argument.
fn is_view(row: &Row, set: &RowSet) -> bool {
    facts::is_view(row, &|op| set.candidates(op).iter().any(|row| is_view(row, set)))
}

fn read(source: &RowSource, row: &Row, node: &Node) -> Result<Point, Box<Diag>> {
    let mut point = Point::default();
    let Yaml::Map(entries) = &node.value else { return Ok(point) };
    let accepted = accepted(row);
    if let Some(diag) = order(source, row, entries) {
        return Err(Box::new(diag));
    }
    for (key, value) in entries {
        let name = Name::new(key.as_str());
        if let ("refused" | "shares", Yaml::Scalar(text)) = (key.as_str(), &value.value) {
            let ScalarKind::Bool(truth) = text.kind else {
                let message =
                    format!("`{}` in `points` of `{}` is neither true nor false", key.as_str(), source.op.as_str());
                let diag = Diag::error("E005", value.place, message);
                return Err(Box::new(diag.help("write `true` or `false`; in YAML `yes`, `no` and `on` are texts")));
            };
            match key.as_str() {
                "refused" => point.refused = truth,
                _ => point.shares = Some((truth, value.place)),
            }
            continue;
        }
        if let ("grad" | "tangent", Yaml::Map(entries)) = (key.as_str(), &value.value) {
            let slopes = if *key == "grad" { &mut point.gradients } else { &mut point.tangents };
            for (arg, value) in entries {
                let known = row.sig.params.iter().any(|param| param.name.name == arg.as_str());
                let written = known.then(|| read::written(value)).flatten();
                let written = written.ok_or_else(|| unread(source, arg, value, known))?;
                slopes.push((Name::new(arg.as_str()), written, value.place));
            }
            continue;
        }
        let param = row.sig.params.iter().find(|param| param.name.name == name);
        let option = row.sig.opts.iter().find(|opt| opt.name.name == name);
        let written = key.as_str().strip_suffix(WRITTEN);
        let result = row.sig.outs.iter().any(|out| out.name.name == name)
            || row.sig.params.iter().any(|p| p.access == Access::Mut && written == Some(p.name.name.as_str()));
        let known = param.is_some() || option.is_some() || result;
        let written = read::written(value).filter(|_| known).ok_or_else(|| unread(source, key, value, known))?;
        let argument = match (param, option) {
            (Some(param), _) => {
                if let Some(diag) = calls::unheld(source, param, &written, accepted, value.place) {
                    return Err(Box::new(diag));
                }
                read::param(param, &written, accepted)
            }
            (None, Some(option)) => read::option(option, &written),
            (None, None) => {
                point.results.push((name, written, value.place));
                continue;
            }
        };
        point.args.push((name, argument.ok_or_else(|| unread(source, key, value, true))?));
    }
    if let Some(diag) = point.refused.then(|| calls::unwritable(source, &point.args, node)).flatten() {
        return Err(Box::new(diag));
    }
    let says = !point.results.is_empty() || !point.gradients.is_empty() || !point.tangents.is_empty();
    if !says && !point.refused && point.shares.is_none() {
        let message = format!("a point of `{}` says nothing of what comes of the call", source.op.as_str());
        let diag = Diag::error("E301", node.place, message);
        return Err(Box::new(diag.help("give a result, `out: 1`, a gradient, `grad: {x: 1}`, or `refused: true`")));
    }
    Ok(point)
}

/// The fault of arguments out of order. Calls give tensors by position and points give them by name, so only the order
/// in a point shows the order of a call.
fn order(source: &RowSource, row: &Row, entries: &[(Text, Node)]) -> Option<Diag> {
    let place = |key: &Text| row.sig.params.iter().position(|param| param.name.name == key.as_str());
    let given: Vec<(usize, &Text)> = entries.iter().filter_map(|(key, _)| Some((place(key)?, key))).collect();
    let [(_, first), (_, second)] = given.windows(2).find(|pair| pair[0].0 > pair[1].0)? else { return None };
    let (op, first, late) = (source.op.as_str(), first.as_str(), second.as_str());
    let message = format!("a point of `{op}` gives `{first}` before `{late}`, and its `sig` takes `{late}` first");
    let diag = Diag::error("E301", second.place, message).label(source.sig.text.place, "calls give them in this order");
    Some(diag.help(format!("write `{late}` before `{first}`, in the point or in `sig`")))
}

/// The dtypes that a row accepts; all of them if an option decides.
pub fn accepted(row: &Row) -> DTypeSet {
    let set = row.dtypes.as_ref().and_then(|e| const_eval::dtype_set(&Env::default(), e).ok());
    set.unwrap_or(DTypeSet::all())
}

/// The fault of a name that the row does not have, or of a malformed value.
fn unread(source: &RowSource, key: &Text, value: &Node, known: bool) -> Box<Diag> {
    let op = source.op.as_str();
    let is_key = |param: &Param| param.name.name == key.as_str() && param.ty.elem.contains(&Elem::Key);
    if known && source.sig.tree.params.iter().any(is_key) {
        let message = format!("`{}` in `points` of `{op}` is no key", key.as_str());
        let diag = Diag::error("E006", value.place, message);
        return Box::new(diag.help(format!("a key is two numbers: `{}: [7, 11]`", key.as_str())));
    }
    Box::new(if known {
        let diag = Diag::error("E006", value.place, format!("`{}` in `points` of `{op}` is no value", key.as_str()));
        diag.help("write a number, `inf`, `nan`, `true`, a list of these, or a dtype and one: `'f32 [1, 2]'`")
    } else {
        let diag = Diag::error("E007", key.place, format!("`points` of `{op}`: the row has no `{}`", key.as_str()));
        if key.as_str() == "jvp" {
            return Box::new(diag.help("what a row's `jvp` gives stands in `tangent`: `tangent: {x: 1}`"));
        }
        if key.as_str() == "vjp" {
            return Box::new(diag.help("gradients stand in `grad`: `grad: {x: 1}`"));
        }
        diag.help("a point names arguments, options and results, `grad`, `tangent`, `shares`, or `refused`; `x@1` is what is written to `x`")
    })
}

/// The computed result in words, if it differs from the stated one.
fn differs(result: &Value<V<f64>>, stated: &Written) -> Option<String> {
    let mut tensors = Vec::new();
    result.for_each(&mut |v| {
        if let V::Array(a) = v {
            tensors.push(a.clone());
        }
    });
    let trees: Vec<&read::Tree> = match (&stated.tree, result) {
        (read::Tree::List(items), Value::List(_)) => items.iter().collect(),
        (tree, _) => vec![tree],
    };
    let agrees = |a: &Array<f64>, tree: &read::Tree| {
        let (dtype, tree) = tree.typed();
        tree.array().is_some_and(|(shape, numbers)| {
            let typed = dtype.or(stated.dtype).is_none_or(|dtype| a.dtype == dtype);
            // An empty list does not show its inner sizes in brackets; `f32[0, 2]` does.
            let open = !matches!(tree, read::Tree::Zeros(_)) && numbers.is_empty();
            let shaped = a.shape == shape || open && a.is_empty() && a.shape.starts_with(&shape);
            typed
                && shaped
                && a.scalars().iter().zip(&numbers).all(|(found, stated)| match (found, stated) {
                    // A float of 64 bits does not hold every integer of 64 bits.
                    (Scalar::Int(found), Scalar::Int(stated)) => found == stated,
                    _ => is_stated(found.as_f64(), stated.as_f64()),
                })
        })
    };
    let right = tensors.len() == trees.len() && tensors.iter().zip(&trees).all(|(a, tree)| agrees(a, tree));
    (!right).then(|| {
        let shown = tensors.iter().map(|a| {
            let numbers: Vec<String> = a.scalars().iter().take(12).map(|s| s.to_string()).collect();
            let of = if numbers.is_empty() { String::new() } else { format!(" of {}", numbers.join(", ")) };
            format!("{}{:?}{of}", a.dtype, a.shape)
        });
        format!("it is {}", shown.collect::<Vec<_>>().join("; "))
    })
}

/// Whether a number equals the stated one: exactly, or to the digits that are written.
fn is_stated(found: f64, stated: f64) -> bool {
    let near = || stated.is_finite() && (found - stated).abs() <= allowed(stated);
    found == stated || found.is_nan() && stated.is_nan() || near()
}

fn allowed(stated: f64) -> f64 {
    if stated == 0.0 {
        return NOTHING;
    }
    // The form `3.3333333333e-1`.
    let shortest = format!("{:e}", stated.abs());
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let places = digits.len().saturating_sub(usize::from(digits.contains('.'))) as i32;
    let last = exponent.parse::<i32>().unwrap_or(0) - places + 1;
    let half = if places < ROUNDED { 0.0 } else { 0.5 * 10f64.powi(last) };
    half + EXACT * stated.abs()
}

/// Whether two numbers are equal within the precision of points of ten digits. Only infinity itself is near infinity,
/// since a share of infinity is infinite.
pub fn close(a: f64, b: f64) -> bool {
    let near = || b.is_finite() && (a - b).abs() <= if b == 0.0 { NOTHING } else { CLOSE * b.abs() };
    a == b || a.is_nan() && b.is_nan() || near()
}
