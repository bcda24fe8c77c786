//! Functions with a custom backward.

use super::derivatives::{cotangent_types, is_float, types};
use crate::error::Error;
use crate::scope::{self, Open, Source};
use crate::symbol::Ports;
use crate::tensor::{CellKind, Tensor, View};
use crate::trace::{BoundSymbol, OwnInput, OwnRule, ProxyId, ProxyTy, RegionId, Trace};
use crate::transforms::At;
use crate::tree::{self, Leaves, Tree, flatten};
use fulgurite_core::Value;
use fulgurite_core::loc::Loc;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Returns the result of `forward(p)`, with a custom backward. If a gradient is taken, `backward` receives the values
/// that `forward` kept and the cotangents of its result (zeros where none arrives), and returns the cotangents of `p`
/// as a tree of its structure. A cotangent made by `zeros_like` is a symbolic zero, for which nothing is computed;
/// cotangents of leaves that are not float tensors are ignored.
///
/// `backward` may write to captured tensors that are inputs of the program: its arguments, or tensors in memory. They
/// are written, and read, when the backward runs; `kept` has the values at the time of the call. The backward runs at
/// most once per differentiation, and not at all if no cotangent arrives.
///
/// If a second derivative is taken, the kept values must be arguments or results; other values of `forward` are
/// constants.
///
/// The results are tensors of their own, even if `forward` returns an argument or a view.
///
/// An error of `backward` becomes an error of the gradient, if one is taken: E712 if it returns another type than that
/// of an argument, E717 and E718 for writes that are not allowed.
#[track_caller]
pub fn custom_vjp<P: Tree, O: Tree, K: Tree>(
    p: &P,
    forward: impl FnOnce(&P) -> (O, K),
    backward: impl FnOnce(K, &O) -> P,
) -> O {
    let loc = Loc::caller();
    if !scope::is_tracing() {
        // the kept values share no memory any more
        let out = forward(p).0;
        return tree::map(&out, own);
    }
    let (out, kept) = scope::no_grad(|| forward(p));
    match record(p, &out, &kept, backward, loc) {
        Ok(handles) => out.rebuild(&mut Leaves::new(&mut handles.into_iter())),
        Err(e) => {
            let e = e.at(loc);
            scope::fail(&e);
            tree::map(&out, |_| Tensor::poisoned(e.clone()))
        }
    }
}

/// A result outside of traces as a tensor of its own, as a line's result is: a write to it does not write an argument
/// of which it is a view or a clone.
fn own(out: &Tensor) -> Tensor {
    match out.view() {
        View::Cell(cell) if cell.kind() == CellKind::Tensor => {
            let is_shared = Arc::strong_count(cell) > 1 || cell.origin().is_some() || !cell.live_views().is_empty();
            match out.data() {
                Ok(buffer) if is_shared => Tensor::from_buffer(buffer),
                _ => out.clone(),
            }
        }
        View::Wrapped(wrapped) => {
            let fields: Vec<Tensor> = wrapped.fields().iter().map(own).collect();
            Tensor::wrap_like(wrapped.layout(), &fields)
        }
        _ => out.clone(),
    }
}

/// Records the backward and the line that has it; returns that line's results.
fn record<P: Tree, O: Tree, K: Tree>(
    p: &P,
    out: &O,
    kept: &K,
    backward: impl FnOnce(K, &O) -> P,
    loc: Loc,
) -> Result<Vec<Tensor>, Error> {
    let (ins, outs, keeps) = (flatten(p), flatten(out), flatten(kept));
    let is_tensor = |t: &&Tensor| matches!(t.ty(), Some(ProxyTy::Tensor(_)));
    // keys and numbers have no cotangent, so they are not results of the line
    let positions: Vec<usize> = (0..outs.leaves().len()).filter(|i| is_tensor(&outs.leaves()[*i])).collect();
    let given = scope::resolve_all(outs.leaves())?;
    let mut args: Vec<ProxyId> = positions.iter().map(|i| given[*i]).collect();
    let tensors: Vec<&Tensor> = ins.leaves().iter().copied().filter(is_tensor).collect();
    args.extend(scope::resolve_all(&tensors)?);
    args.extend(scope::resolve_all(keeps.leaves())?);
    let recorded = trace_backward(p, out, kept, backward, loc);
    let mut results: Vec<Tensor> = outs.leaves().iter().map(|t| (*t).clone()).collect();
    if positions.is_empty() {
        return Ok(results);
    }
    let kept_so_far = keeps.leaves().len();
    let (rule, ports) = match recorded {
        Ok((trace, grads, sources)) => {
            let mut inputs: Vec<(ProxyId, OwnInput)> = Vec::new();
            let (mut values, mut variables) = (Vec::new(), Vec::new());
            let mut keep = |value: ProxyId| {
                values.push(value);
                OwnInput::Kept(kept_so_far + values.len() - 1)
            };
            for (at, input) in trace.inputs().iter().enumerate() {
                let what = match (at.checked_sub(kept_so_far), at.checked_sub(kept_so_far + given.len())) {
                    (None, _) => OwnInput::Kept(at),
                    (Some(output), None) => match positions.iter().position(|i| *i == output) {
                        Some(cotangent) => OwnInput::Cotangent(cotangent),
                        None => keep(given[output]),
                    },
                    (_, Some(captured)) => match sources[captured] {
                        Source::Value(value) => keep(value),
                        Source::Variable(input) => {
                            variables.push(scope::entry(input)?);
                            OwnInput::Variable(variables.len() - 1)
                        }
                    },
                };
                inputs.push((input.proxy, what));
            }
            let grads = ins.leaves().iter().zip(grads).filter(|(t, _)| is_tensor(t)).map(|(_, g)| g).collect();
            let ports = Ports {
                outs: positions.len(),
                ins: tensors.len(),
                kept: kept_so_far + values.len(),
                variables: variables.len(),
            };
            args.extend(values.into_iter().chain(variables));
            let variable = |at: usize| match inputs[at].1 {
                OwnInput::Variable(j) => Some(j),
                _ => None,
            };
            let writes = trace.epilogue().iter().filter_map(|w| Some((variable(w.input)?, w.value))).collect();
            let rule =
                OwnRule { inputs, lines: trace.lines().to_vec(), grads, writes, root: trace.root, loc, failed: None };
            (rule, ports)
        }
        // the backward runs only if a gradient is taken, and then reports this error
        Err(e) => {
            let (inputs, lines, grads, writes) = (Vec::new(), Vec::new(), vec![None; tensors.len()], Vec::new());
            let rule = OwnRule { inputs, lines, grads, writes, root: RegionId(0), loc, failed: Some(e.at(loc)) };
            (rule, Ports { outs: positions.len(), ins: tensors.len(), kept: kept_so_far, variables: 0 })
        }
    };
    for (at, made) in positions.into_iter().zip(scope::own_vjp(rule, ports, &args, loc)?) {
        results[at] = made;
    }
    Ok(results)
}

/// Whether a value is a tensor of zeros, made by a row that makes constants.
fn is_zero(lines: &[Rc<BoundSymbol>], value: ProxyId) -> bool {
    let maker = lines.iter().find(|l| l.outs.contains(&value));
    let zero = |arg: &Value<ProxyId>| matches!(arg, Value::Num(n) if n.as_f64() == 0.0);
    let filled = |l: &Rc<BoundSymbol>| l.symbol.facts().fills.is_some_and(|with| l.args.get(with).is_some_and(zero));
    maker.is_some_and(filled)
}

/// The backward as a trace, the cotangents of the arguments in it, and the values that it captured.
type Recorded = (Trace, Vec<Option<ProxyId>>, Vec<Source>);

fn trace_backward<P: Tree, O: Tree, K: Tree>(
    p: &P,
    out: &O,
    kept: &K,
    backward: impl FnOnce(K, &O) -> P,
    loc: Loc,
) -> Result<Recorded, Error> {
    let nothing = || Error::bug("E709", "no trace is open");
    let open = Open::backward("backward").ok_or_else(nothing)?;
    let given = |leaves: &[&Tensor], name: &str| {
        let one = |(i, t): (usize, &&Tensor)| {
            t.check()?;
            Ok(open.argument(&format!("{name}.{i}"), t.ty().ok_or_else(nothing)?, scope::tags_of(t)))
        };
        leaves.iter().enumerate().map(one).collect::<Result<Vec<_>, Error>>()
    };
    let keeps = given(flatten(kept).leaves(), "kept")?;
    open.with(|frame| frame.kept = keeps.len());
    let cotangents = given(flatten(out).leaves(), "ct")?;
    let kept = kept.rebuild(&mut Leaves::new(&mut keeps.into_iter()));
    let cotangents = out.rebuild(&mut Leaves::new(&mut cotangents.into_iter()));
    let made = backward(kept, &cotangents);
    open.check()?;
    let (wanted, made) = (flatten(p), flatten(&made));
    cotangent_types(&types(wanted.leaves()), made.leaves(), "what the backward gives for an argument", loc)?;
    let mut grads = Vec::new();
    for (want, made) in wanted.leaves().iter().zip(made.leaves()) {
        let value = if is_float(want) { Some(open.resolve(made)?) } else { None };
        grads.push(value.filter(|v| !open.with(|frame| is_zero(frame.builder.lines(), *v))));
    }
    let outputs: Vec<ProxyId> = grads.iter().flatten().copied().collect();
    let mut frame = open.close();
    let sources = std::mem::take(&mut frame.captured.sources);
    let own = |name, trace: &Trace, started: Instant| scope::note(name, trace, started.elapsed(), None);
    let trace = scope::pipeline().apply(At::Acquired, frame.builder.finish(&outputs), own)?;
    let mut made = trace.outputs().iter().copied();
    grads.iter_mut().flatten().for_each(|grad| *grad = made.next().unwrap_or(*grad));
    Ok((trace, grads, sources))
}
