//! What a page shows of calls: every number here is computed from the row's own meaning when the site is made.

use std::sync::Arc;

use fulgurite_codegen::check::cases::{self, Case};
use fulgurite_codegen::check::gradients::arrays::dense::{Dense, Library, V, ty, types};
use fulgurite_codegen::check::gradients::arrays::dual::Dual;
use fulgurite_codegen::check::gradients::arrays::instance::{Instance, elements};
use fulgurite_codegen::check::gradients::samples;
use fulgurite_codegen::check::gradients::show::number;
use fulgurite_codegen::check::rows::RowSet;
use fulgurite_codegen::check::{element, points};
use fulgurite_codegen::examples::drawn;
use fulgurite_codegen::schema::RowSource;
use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::lang::Elem;
use fulgurite_core::row::Row;
use fulgurite_core::signature::{self, ArgTy, OutTy};
use fulgurite_core::{DType, Name, Named, Scalar, TensorTy, Value, derive};
use fulgurite_ops_verbs::explain::cost;
use serde_json::{Value as Json, json};

use crate::plot::{self, PlotCurve};

/// Examples, shapes and refusals of a page: enough to see the pattern, few enough for one screen.
const EXAMPLES: usize = 3;
const SHAPES: usize = 6;
const REFUSALS: usize = 6;
/// Drawn calls have at most this many elements.
const DRAWN: usize = 16;
/// Gradients are shown for arguments of at most this many elements, because each takes a run.
const MOVED: usize = 16;
/// A tensor is shown with at most this many elements.
const SHOWN: usize = 24;
/// The factors of the sizes of a call that checks use, for its cost; the first that the row accepts is used.
const LARGER: [i64; 3] = [16, 4, 1];
/// The mark of a refused call.
const REFUSED: &str = "–";
/// The numbers at which a curve is computed.
const SAMPLES: usize = 481;
/// The numbers of a plot where the row states no domain.
const USUAL: (f64, f64) = (-4.0, 4.0);
/// The values of a second argument, each of which gives a curve.
const SECOND: [f64; 3] = [0.5, 1.0, 2.0];

/// A row with all that computing its calls takes.
pub struct Computed<'a> {
    /// The row as it is written.
    pub source: &'a RowSource,
    pub row: &'a Arc<Row>,
    /// The rows that it may call.
    pub set: &'a RowSet<'a>,
}

impl Computed<'_> {
    /// Calls with their results and gradients: the points of the row first, then drawn ones.
    pub fn examples(&self) -> Vec<Json> {
        let mut examples: Vec<Json> =
            points::arguments(self.source, self.row).filter_map(|args| self.example(args)).take(EXAMPLES).collect();
        let left = EXAMPLES - examples.len();
        examples.extend(drawn(self.source, self.row, self.set, (left, DRAWN), |args| self.example(args.to_vec())));
        examples
    }

    fn example(&self, args: Vec<Value<V<f64>>>) -> Option<Json> {
        let row = self.row;
        let solved = signature::solve(row, &args, &ty).ok()?;
        let library = Library::new(self.set);
        let results = Dense::new(&library).meaning(row, &solved, &args).ok()?;
        let outs = row.sig.outs.iter().zip(&results).map(|(out, value)| {
            let name = if row.sig.named_outs { out.name.name.as_str() } else { "" };
            json!({"name": name, "value": show(value)})
        });
        let case = Case { args: types(&args, &ty), solved };
        let mut instance = Instance { row, case: &case, args, results: results.clone() };
        instance.results.truncate(row.sig.outs.len());
        let gradients: Vec<Json> =
            (0..row.sig.params.len()).filter_map(|at| gradient(&instance, &library, at)).collect();
        Some(json!({
            "call": self.call(&instance.args), "outs": outs.collect::<Vec<_>>(), "gradients": gradients,
        }))
    }

    /// `softmax(x = [1, 2], dim = 0)`
    fn call(&self, args: &[Value<V<f64>>]) -> String {
        named(self.row, names(self.row).zip(args))
    }

    /// Types of calls, one for each form of the results: arguments, results.
    pub fn shapes(&self) -> Vec<Json> {
        let family = cases::family(self.row, element(self.row));
        let mut met: Vec<String> = Vec::new();
        let mut shapes = Vec::new();
        for case in family.cases.iter().filter(|case| case.numel() > 1) {
            let ranks = case.args.iter().flat_map(Value::tensors).map(TensorTy::rank);
            let form = format!("{:?} {}", ranks.collect::<Vec<_>>(), case.kind());
            if shapes.len() < SHAPES && !met.contains(&form) {
                met.push(form);
                shapes.push(json!({"args": case.show(self.row), "outs": outs(&case.solved.outs)}));
            }
        }
        shapes
    }

    /// The cost of a call of some size, with the call.
    pub fn cost(&self) -> Option<Json> {
        let family = cases::family(self.row, element(self.row));
        let largest = family.cases.iter().max_by_key(|case| case.numel())?;
        let case = LARGER.iter().find_map(|by| largest.grown(self.row, *by, true))?;
        let cost = cost::of_call(self.row, &case, self.set)?;
        Some(json!({"call": case.show(self.row), "cost": cost.to_string()}))
    }

    /// The numbers for which the row is meant, by argument, where it states them.
    pub fn domain(&self) -> Vec<Json> {
        let stated = samples::stated(self.source);
        let one = |(arg, (low, high)): &(Name, (f64, f64))| json!({"arg": arg.as_str(), "range": format!("{} … {}", number(*low), number(*high))});
        stated.iter().map(one).collect()
    }

    /// The result's dtype for each dtype of the arguments; for rows with several arguments of a common dtype, for each
    /// pair. `None` if no argument's dtype is free.
    pub fn promotion(&self) -> Option<Json> {
        let row = self.row;
        let family = cases::family(row, element(row));
        let case = family.cases.iter().find(|case| case.numel() > 1).or(family.cases.first())?;
        let free = |at: &usize| row.sig.params[*at].ty.elem.iter().any(|elem| matches!(elem, Elem::Var(_)));
        let given = |at: &usize| matches!(case.args[*at], Value::Tensor(ArgTy::Tensor(_)) | Value::List(_));
        let first = (0..row.sig.params.len()).filter(free).find(given)?;
        let others: Vec<usize> = (first + 1..row.sig.params.len()).filter(free).filter(given).collect();
        let with = |one: DType, other: DType| -> String {
            let mut args = case.args.clone();
            args[first] = cast(&args[first], one);
            others.iter().for_each(|at| args[*at] = cast(&args[*at], other));
            signature::accepted(row, &args).map_or(REFUSED.to_owned(), |solved| dtypes(&solved.outs))
        };
        let names: Vec<&str> = DType::STORED.iter().map(|d| d.name()).collect();
        if others.is_empty() {
            let line: Vec<String> = DType::STORED.iter().map(|d| with(*d, *d)).collect();
            return Some(json!({"dtypes": names, "line": line}));
        }
        let table: Vec<Vec<String>> =
            DType::STORED.iter().map(|a| DType::STORED.iter().map(|b| with(*a, *b)).collect()).collect();
        let name = |at: usize| row.sig.params[at].name.name.as_str();
        Some(
            json!({"dtypes": names, "table": table, "first": name(first), "others": others.iter().map(|at| name(*at)).collect::<Vec<_>>()}),
        )
    }

    /// Refused calls, with the message of each.
    pub fn refusals(&self) -> Vec<Json> {
        let refusals = points::refusals(self.source, self.row, self.set);
        let one = |(args, message): points::RefusedCall| {
            let call = named(self.row, args.iter().map(|(name, value)| (*name, value)));
            json!({"call": call, "message": message})
        };
        refusals.take(REFUSALS).map(one).collect()
    }

    /// The plot of a pointwise row: its value and slope over its first argument, or a curve for each of three values of
    /// the second one.
    pub fn plot(&self) -> Option<String> {
        let row = self.row;
        if !row.is_pointwise() || row.sig.outs.len() != 1 || row.takes_key() {
            return None;
        }
        let required = row.sig.params.iter().filter(|param| !param.optional).count();
        let stated = samples::stated(self.source);
        let name = row.sig.params.first()?.name.name;
        let stated = stated.iter().find(|(arg, _)| *arg == name).map(|(_, range)| *range);
        let (low, high) = window(stated);
        let x: Vec<f64> = (0..SAMPLES).map(|n| low + (high - low) * n as f64 / (SAMPLES - 1) as f64).collect();
        let curves: Vec<PlotCurve> = match required {
            1 => {
                let (values, slopes) = self.curve(&x, None)?;
                let op = format!("{}({name})", row.op);
                let mut curves = vec![PlotCurve { name: op, values, slopes: slopes.clone() }];
                if row.no_grad.is_none() && slopes.iter().any(|s| *s != 0.0) {
                    let steep = (1..slopes.len()).map(|n| (slopes[n] - slopes[n - 1]).abs() / (x[1] - x[0]));
                    let steep: Vec<f64> = std::iter::once(0.0).chain(steep.map(|s| s.min(8.0))).collect();
                    curves.push(PlotCurve { name: format!("d/d{name}"), values: slopes, slopes: steep });
                }
                curves
            }
            2 => {
                let second = row.sig.params.iter().filter(|param| !param.optional).nth(1)?.name.name;
                let of = |y: f64| {
                    let (values, slopes) = self.curve(&x, Some(y))?;
                    Some(PlotCurve { name: format!("{second} = {}", number(y)), values, slopes })
                };
                SECOND.into_iter().filter_map(of).collect()
            }
            _ => return None,
        };
        plot::svg(&x, &curves, &format!("plot of {} from {} to {}", row.op, number(low), number(high)))
    }

    /// Values and slopes at the numbers `x`, in f64; `second` is every further argument.
    fn curve(&self, x: &[f64], second: Option<f64>) -> Option<(Vec<f64>, Vec<f64>)> {
        let array = |values: Vec<Dual>| Value::Tensor(V::Array(Arc::new(Array::float(DType::F64, &[x.len()], values))));
        let mut params = self.row.sig.params.iter().map(|param| match param.optional {
            true => (param.name.name, Value::Absent),
            false => {
                let constant = second.unwrap_or_default();
                (param.name.name, array(vec![Dual { value: constant, slope: 0.0 }; x.len()]))
            }
        });
        let first = params.next()?.0;
        let moved = array(x.iter().map(|x| Dual { value: *x, slope: 1.0 }).collect());
        let named: Vec<Named<V<Dual>>> =
            std::iter::once((first, moved)).chain(params).filter(|(_, value)| !value.is_absent()).collect();
        let args = signature::arrange(self.row, Vec::new(), named).ok()?;
        let solved = signature::solve(self.row, &args, &ty).ok()?;
        let results = Dense::new(&Library::new(self.set)).meaning(self.row, &solved, &args).ok()?;
        let Some(Value::Tensor(V::Array(array))) = results.first() else { return None };
        let Data::Float(values) = &array.data else { return None };
        (values.len() == x.len())
            .then(|| (values.iter().map(|v| v.value).collect(), values.iter().map(|v| v.slope).collect()))
    }
}

/// The interval of a plot: the stated domain, of which an end far away is moved near.
fn window(stated: Option<(f64, f64)>) -> (f64, f64) {
    let Some((low, high)) = stated else { return USUAL };
    let width = USUAL.1 - USUAL.0;
    match (low < -width, high > width) {
        (true, true) => USUAL,
        (true, false) => (high - width, high),
        (false, true) => (low, low + width),
        (false, false) => (low, high),
    }
}

/// The gradient of the sum of all results by argument `at`, from the meaning.
fn gradient(instance: &Instance, library: &Library, at: usize) -> Option<Json> {
    let row = instance.row;
    let param = &row.sig.params[at];
    let n = instance.numel_of(at);
    let flows = row.no_grad.is_none() && derive::differentiable(&param.ty);
    if !flows || n == 0 || n > MOVED || !instance.results.iter().any(|r| !elements(r).is_empty()) {
        return None;
    }
    let one = |e: usize| -> Option<f64> {
        let moves = instance.moves(&mut Dense::new(library), at, &|k| f64::from(u8::from(k == e))).ok()?;
        Some(moves.iter().sum())
    };
    let slopes: Vec<f64> = (0..n).map(one).collect::<Option<_>>()?;
    let mut slopes = slopes.into_iter();
    let like = fulgurite_codegen::check::gradients::arrays::instance::lifted(&instance.args[at], &mut |_| {
        slopes.next().unwrap_or_default()
    });
    Some(json!({"arg": param.name.name.as_str(), "value": show(&like)}))
}

fn names(row: &Row) -> impl Iterator<Item = Name> + '_ {
    row.sig.params.iter().map(|p| p.name.name).chain(row.sig.opts.iter().map(|o| o.name.name))
}

fn named<'v>(row: &Row, args: impl Iterator<Item = (Name, &'v Value<V<f64>>)>) -> String {
    let given = args.filter(|(_, value)| !value.is_absent());
    let shown: Vec<String> = given.map(|(name, value)| format!("{name} = {}", show(value))).collect();
    format!("{}({})", row.op, shown.join(", "))
}

/// A value: `[[1, 2], [3, 4]]`, with its dtype where that is not f64.
fn show(value: &Value<V<f64>>) -> String {
    match value {
        Value::Tensor(V::Key([seed, stream])) => format!("key({seed}, {stream})"),
        Value::Tensor(V::Array(array)) => tensor(array),
        Value::Type(t) => t.to_string(),
        Value::Num(Scalar::Float(x)) => number(*x),
        Value::Num(s) => s.to_string(),
        Value::Size(d) => d.to_string(),
        Value::DType(d) => d.to_string(),
        Value::Word(word) => word.to_string(),
        Value::Str(text) => format!("{text:?}"),
        Value::List(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", ")),
        Value::Absent => "absent".to_owned(),
    }
}

fn tensor(array: &Array<f64>) -> String {
    let items: Vec<String> = match &array.data {
        Data::Float(data) => data.iter().map(|x| number(*x)).collect(),
        Data::Int(data) if array.dtype == DType::Bool => data.iter().map(|x| (*x != 0).to_string()).collect(),
        Data::Int(data) => data.iter().map(i64::to_string).collect(),
    };
    let suffix = match array.dtype {
        DType::F64 | DType::Bool => String::new(),
        other => format!(" {other}"),
    };
    if items.len() > SHOWN || items.is_empty() {
        let sizes: Vec<String> = array.shape.iter().map(usize::to_string).collect();
        return format!("{}[{}]{}", array.dtype, sizes.join(", "), if items.is_empty() { "" } else { " {…}" });
    }
    format!("{}{suffix}", nested(&array.shape, &items))
}

fn nested(shape: &[usize], items: &[String]) -> String {
    match shape {
        [] => items.concat(),
        [_] => format!("[{}]", items.join(", ")),
        [n, rest @ ..] => {
            let each = items.len() / (*n).max(1);
            let parts: Vec<String> = items.chunks(each.max(1)).map(|part| nested(rest, part)).collect();
            format!("[{}]", parts.join(", "))
        }
    }
}

fn cast(value: &Value<ArgTy>, dtype: DType) -> Value<ArgTy> {
    value.map_tensors(&mut |t| TensorTy { dtype, shape: t.shape.clone() })
}

fn outs(outs: &[OutTy]) -> String {
    let shown: Vec<String> = outs
        .iter()
        .map(|out| match out {
            OutTy::FromBody => "as the decomposition gives".to_owned(),
            OutTy::Tensor(t) => t.to_string(),
            OutTy::List(ts) => format!("[{}]", ts.iter().map(TensorTy::to_string).collect::<Vec<_>>().join(", ")),
        })
        .collect();
    shown.join(", ")
}

fn dtypes(outs: &[OutTy]) -> String {
    let mut names: Vec<String> = Vec::new();
    for out in outs {
        let dtypes = out.tensors().iter().map(|t| t.dtype.to_string());
        let name = if matches!(out, OutTy::FromBody) { "…".to_owned() } else { dtypes.take(1).collect() };
        if names.last() != Some(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}
