//! A slow evaluator of traces in f64, straight from the rows' meanings: what derivatives are checked against.

use fulgurite_core::builtins::eval_f64;
use fulgurite_core::lang::ast::Red;
use fulgurite_core::loop_nest::{LoopExpr, Nest, NestOut, SOp, SOutside, SRange};
use fulgurite_core::lower::lower_with;
use fulgurite_core::{DType, Scalar, Value};
use fulgurite_runtime::bind::body_of;
use fulgurite_runtime::symbol::Registered;
use fulgurite_runtime::trace::{BoundSymbol, ProxyId, Trace};
use std::collections::HashMap;

/// A tensor of f64, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub shape: Vec<usize>,
    pub data: Vec<f64>,
}

impl Array {
    pub fn new(shape: &[usize], data: &[f64]) -> Array {
        assert_eq!(shape.iter().product::<usize>(), data.len());
        Array { shape: shape.to_vec(), data: data.to_vec() }
    }
    fn flat(&self, index: &[usize]) -> usize {
        self.shape.iter().zip(index).fold(0, |at, (n, i)| at * n + i)
    }
}

pub type Values = HashMap<ProxyId, Array>;

/// The outputs of a trace for these inputs. A key is an array of one number.
pub fn run(trace: &Trace, inputs: &[Array]) -> Vec<Array> {
    run_in(trace, inputs, Values::new())
}

pub fn run_in(trace: &Trace, inputs: &[Array], mut values: Values) -> Vec<Array> {
    assert_eq!(trace.inputs().len(), inputs.len(), "inputs of {trace:?}");
    values.extend(trace.input_proxies().zip(inputs.iter().cloned()));
    for line in trace.lines() {
        line_values(trace, line, &mut values);
    }
    trace.outputs().iter().map(|p| values[p].clone()).collect()
}

fn line_values(trace: &Trace, line: &BoundSymbol, values: &mut Values) {
    if let Some(body) = body_of(&trace.arena, line).unwrap() {
        for inner in &body.lines {
            line_values(trace, inner, values);
        }
        for (inner, outer) in body.outs.iter().zip(line.outs.iter().chain(&line.aux)) {
            let v = values[inner].clone();
            values.insert(*outer, v);
        }
        return;
    }
    let row = line.symbol.row();
    let block = row.index_body().unwrap_or_else(|| panic!("`{}` can't be evaluated", row.op));
    let nest = lower_with(row, block, &line.solved, &Registered).unwrap();
    let mut tensors = Vec::new();
    for arg in line.args.iter().take(row.sig.params.len()) {
        slots(arg, values, &mut tensors);
    }
    let machine = Machine { nest: &nest, tensors };
    for (out, p) in nest.outs.iter().zip(line.outs.iter().chain(&line.aux)) {
        values.insert(*p, machine.out(out));
    }
}

fn slots(arg: &Value<ProxyId>, values: &Values, tensors: &mut Vec<Array>) {
    match arg {
        Value::Tensor(p) => tensors.push(values[p].clone()),
        Value::Type(t) => tensors.push(Array { shape: t.sizes().to_vec(), data: Vec::new() }),
        Value::List(items) => items.iter().for_each(|i| slots(i, values, tensors)),
        _ => {}
    }
}

struct Machine<'n> {
    nest: &'n Nest,
    tensors: Vec<Array>,
}

fn each(shape: &[usize], mut f: impl FnMut(&[usize])) {
    let mut index = vec![0; shape.len()];
    for flat in 0..shape.iter().product() {
        let mut rest: usize = flat;
        for (i, n) in index.iter_mut().zip(shape).rev() {
            *i = rest % n;
            rest /= n;
        }
        f(&index);
    }
}

fn round(x: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F64 => x,
        DType::F32 => f64::from(x as f32),
        DType::Bool => f64::from(x != 0.0),
        d if d.is_int() => x.trunc(),
        // halves are not rounded here
        _ => x,
    }
}

impl Machine<'_> {
    fn out(&self, out: &NestOut) -> Array {
        let shape: Vec<usize> = out.shape.iter().map(|d| d.len()).collect();
        let mut data = Vec::new();
        each(&shape, |index| {
            let mut vars = vec![0i64; self.nest.vars.len()];
            for (axis, i) in out.axes.iter().zip(index) {
                if let Some(v) = axis {
                    vars[*v] = *i as i64;
                }
            }
            let x = self.eval(&out.expr, &mut vars, index).expect("no skip outside reductions");
            data.push(round(x, out.dtype));
        });
        Array { shape, data }
    }

    /// `None`: skipped.
    fn eval(&self, e: &LoopExpr, vars: &mut Vec<i64>, at: &[usize]) -> Option<f64> {
        Some(match e.op() {
            SOp::Const(s) => s.as_f64(),
            SOp::Num(_) => panic!("run-time numbers are not evaluated here"),
            SOp::Var(v) => vars[*v] as f64,
            SOp::Elem(t) => {
                let t = &self.tensors[*t];
                let lead = at.len() - t.shape.len();
                let index: Vec<usize> =
                    t.shape.iter().zip(&at[lead..]).map(|(n, i)| if *n == 1 { 0 } else { *i }).collect();
                round(t.data[t.flat(&index)], e.ty())
            }
            SOp::Load { tensor, idx, outside } => {
                let t = &self.tensors[*tensor];
                let mut index = Vec::new();
                for (i, n) in idx.iter().zip(&t.shape) {
                    let i = self.eval(i, vars, at)?;
                    if i < 0.0 || i >= *n as f64 {
                        return match outside {
                            SOutside::Refuse => panic!("index {i} of {n}"),
                            SOutside::Skip => None,
                            SOutside::Value(v) => self.eval(v, vars, at),
                        };
                    }
                    index.push(i as usize);
                }
                round(t.data[t.flat(&index)], e.ty())
            }
            SOp::Call(b, args) => {
                let args: Option<Vec<f64>> = args.iter().map(|a| self.eval(a, vars, at)).collect();
                let x = eval_f64(*b, &args?);
                if e.ty().is_int() { x.trunc() } else { x }
            }
            SOp::Cast(a) => round(self.eval(a, vars, at)?, e.ty()),
            SOp::Detach(a) => self.eval(a, vars, at)?,
            SOp::Select(c, a, b) => {
                if self.eval(c, vars, at)? != 0.0 {
                    self.eval(a, vars, at)?
                } else {
                    self.eval(b, vars, at)?
                }
            }
            SOp::Uniform { position, draw, key } => {
                let position = self.eval(position, vars, at)?;
                let key = self.tensors[*key].data[0];
                let x = (key + 1.0) * 0.618_034 + position * 0.754_877 + f64::from(*draw) * 0.41;
                (x % 1000.0).fract()
            }
            SOp::Reduce { red, vars: ranges, filter, body, otherwise } => {
                let mut items: Vec<(Vec<i64>, f64)> = Vec::new();
                self.reduce(ranges, filter, body, vars, at, &mut items);
                let xs = items.iter().map(|(_, x)| *x);
                match red {
                    Red::Sum => xs.sum(),
                    Red::Mean => xs.clone().sum::<f64>() / items.len() as f64,
                    Red::Prod => xs.product(),
                    Red::Max => xs.fold(f64::NEG_INFINITY, f64::max),
                    Red::Min => xs.fold(f64::INFINITY, f64::min),
                    Red::Any => f64::from(items.iter().any(|(_, x)| *x != 0.0)),
                    Red::All => f64::from(items.iter().all(|(_, x)| *x != 0.0)),
                    Red::First | Red::Only => match items.first() {
                        Some((_, x)) => *x,
                        None => self.eval(otherwise.as_ref()?, vars, at)?,
                    },
                    Red::Last => match items.last() {
                        Some((_, x)) => *x,
                        None => self.eval(otherwise.as_ref()?, vars, at)?,
                    },
                    Red::ArgMax | Red::ArgMin => {
                        let sign = if *red == Red::ArgMax { 1.0 } else { -1.0 };
                        let best = items.iter().enumerate().max_by(|(i, a), (j, b)| {
                            (a.1 * sign).partial_cmp(&(b.1 * sign)).expect("no NaN").then(j.cmp(i))
                        });
                        best.map_or(0.0, |(i, _)| i as f64)
                    }
                }
            }
        })
    }

    fn reduce(
        &self,
        ranges: &[SRange],
        filter: &Option<LoopExpr>,
        body: &LoopExpr,
        vars: &mut Vec<i64>,
        at: &[usize],
        items: &mut Vec<(Vec<i64>, f64)>,
    ) {
        let Some((first, rest)) = ranges.split_first() else {
            let keep = filter.as_ref().is_none_or(|f| self.eval(f, vars, at).is_some_and(|x| x != 0.0));
            if keep && let Some(x) = self.eval(body, vars, at) {
                items.push((Vec::new(), x));
            }
            return;
        };
        let (Some(lo), Some(hi)) = (self.eval(&first.lo, vars, at), self.eval(&first.hi, vars, at)) else { return };
        for i in lo as i64..hi as i64 {
            vars[first.var] = i;
            self.reduce(rest, filter, body, vars, at, items);
        }
    }
}

/// Whether two arrays agree to a relative and absolute tolerance.
pub fn close(a: &Array, b: &Array, tolerance: f64) -> bool {
    a.shape == b.shape
        && a.data.iter().zip(&b.data).all(|(x, y)| (x - y).abs() <= tolerance * (1.0 + x.abs().max(y.abs())))
}

/// A number outside the arrays.
pub fn scalar(s: Scalar) -> Array {
    Array::new(&[], &[s.as_f64()])
}
