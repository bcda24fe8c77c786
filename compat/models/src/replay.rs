//! Runs a graph: each call goes to the row behind its name, so that it computes at once, or becomes a line of the open
//! trace.

use crate::control_flow::{self, FlowParts, FlowProgram};
use crate::graph::{CallArgument, CallResult, ModelCall, ModelGraph, ValueId};
use crate::host;
use crate::known;
use crate::memory::SharedMemory;
use crate::names::{CallRegion, ControlFlow, Implementation, unversioned};
use crate::recurrent;
use crate::sequences::{self, SequenceFunction};
use crate::value::GraphValue;
use fulgurite::core::Scalar;
use fulgurite::foreign::{self, Given};
use fulgurite::intrinsics::Intrinsic;
use fulgurite::prelude::{autocast, enable_grad, named, no_grad};
use fulgurite::{Error, Key, Tensor, TensorOps};

/// A function that gets each named result of a call while a graph runs.
pub type Observer<'a> = dyn FnMut(&ModelCall, &str, &GraphValue) + 'a;

/// Runs the graph on values of its inputs.
///
/// # Errors
/// The refusal of a row, E934 for a call without a row, E936 for an argument that no row takes; each at the line of the
/// source that made the call.
pub fn run(
    graph: &ModelGraph,
    inputs: Vec<GraphValue>,
    key: Option<Key>,
    seen: &mut Observer,
) -> Result<Vec<GraphValue>, Error> {
    let mut key = key;
    inner(graph, inputs, &mut key, seen)
}

fn inner(
    graph: &ModelGraph,
    inputs: Vec<GraphValue>,
    key: &mut Option<Key>,
    seen: &mut Observer,
) -> Result<Vec<GraphValue>, Error> {
    let mut replay =
        Replay { graph, values: vec![None; graph.names.len()], memory: SharedMemory::new(graph), key, seen };
    for (id, value) in graph.inputs.iter().zip(inputs) {
        replay.values[*id as usize] = Some(value);
    }
    replay.nodes(&graph.nodes, 0)?;
    graph.outputs.iter().map(|output| replay.argument(output).map_err(|why| Error::new("E936", why))).collect()
}

/// The named arguments that say where and in which order a tensor lies in memory. They change no value: a tensor is on
/// the device of its program, and its layout is the executor's choice.
const PLACEMENT: &[&str] = &["device", "layout", "memory_format", "pin_memory", "non_blocking"];

/// Positional and named arguments.
type NodeArguments<'n> = (Vec<GraphValue>, Vec<(&'n str, GraphValue)>);

struct Replay<'a, 'o> {
    graph: &'a ModelGraph,
    values: Vec<Option<GraphValue>>,
    memory: SharedMemory,
    key: &'a mut Option<Key>,
    seen: &'a mut Observer<'o>,
}

impl Replay<'_, '_> {
    /// Runs nodes whose first `depth` modules are open. Neighbours in one module are in one region.
    fn nodes(&mut self, nodes: &[ModelCall], depth: usize) -> Result<(), Error> {
        let mut at = 0;
        while at < nodes.len() {
            let Some(module) = nodes[at].scope.get(depth) else {
                self.node(&nodes[at])?;
                at += 1;
                continue;
            };
            let inside = |node: &&ModelCall| node.scope.get(depth) == Some(module);
            let count = nodes[at..].iter().take_while(inside).count();
            named(module, || self.nodes(&nodes[at..at + count], depth + 1))?;
            at += count;
        }
        Ok(())
    }

    fn node(&mut self, node: &ModelCall) -> Result<(), Error> {
        let unfit = |why: String| Error::new("E936", why).at(node.loc);
        match node.implementation() {
            Implementation::Host => {
                let (args, named) = self.arguments(node).map_err(unfit)?;
                let value = host::call(unversioned(&node.target), &args, &named).map_err(unfit)?;
                self.keep(&node.outputs, vec![value]).map_err(unfit)?;
            }
            Implementation::Rows(names) => {
                let results = self.row(node, names)?;
                self.keep(&node.outputs, results).map_err(unfit)?;
                self.separate(node);
                self.memory.note(node, names);
            }
            Implementation::Written(names) => {
                self.memory.check_write(node).map_err(|why| {
                    unfit(why.to_owned()).help("export the model with `run_decompositions()`, which writes to no value")
                })?;
                let value = self.row(node, names)?.into_iter().next();
                let target = node.positional.first().map(|a| self.argument(a)).transpose().map_err(unfit)?;
                let (Some(GraphValue::Tensor(value)), Some(GraphValue::Tensor(target))) = (value, target) else {
                    return Err(unfit(format!("`{}` writes to an argument that is no tensor", node.target)));
                };
                let written = fulgurite::api::write(&target, value);
                written.check()?;
                self.keep(&node.outputs, vec![GraphValue::Tensor(written)]).map_err(unfit)?;
            }
            Implementation::Sequence(function) => {
                let values = self.sequence(node, *function).map_err(unfit)?;
                self.keep(&node.outputs, values).map_err(unfit)?;
            }
            Implementation::Recurrent(layer) => {
                let (args, named) = self.arguments(node).map_err(unfit)?;
                let values = recurrent::call(*layer, &args, &named).map_err(unfit)?;
                self.keep(&node.outputs, values).map_err(unfit)?;
            }
            Implementation::Region(region) => {
                let results = self.region(node, *region)?;
                self.keep(&node.outputs, results).map_err(unfit)?;
            }
            Implementation::ControlFlow(flow) => {
                let results = self.control_flow(node, *flow)?;
                self.keep(&node.outputs, results).map_err(unfit)?;
            }
            Implementation::Missing => {
                return Err(Error::new("E934", format!("no row is called `{}`", node.target)).at(node.loc));
            }
        }
        for id in node.results() {
            if let Some(value) = &self.values[id as usize] {
                (self.seen)(node, &self.graph.names[id as usize], value);
            }
        }
        for id in &node.last_uses {
            self.values[*id as usize] = None;
        }
        Ok(())
    }

    /// Calls the first row of these names that takes the arguments.
    fn row(&mut self, node: &ModelCall, names: &[String]) -> Result<Vec<GraphValue>, Error> {
        let unfit = |why: String| Error::new("E936", why).at(node.loc);
        let positional = node.positional.iter().map(|a| self.argument(a)).collect::<Result<Vec<_>, _>>();
        let positional = positional.map_err(unfit)?;
        let mut named: Vec<(String, GraphValue)> = Vec::new();
        for (name, argument) in &node.named {
            // an argument that no row takes, such as a sparse layout, is refused under any name
            match self.argument(argument).map_err(unfit)? {
                GraphValue::None => {}
                _ if PLACEMENT.contains(&name.as_str()) => {}
                value => named.push((name.clone(), value)),
            }
        }
        let draws = names.iter().any(|name| foreign::forms(name).iter().any(|form| form.draws()));
        let all = || positional.iter().chain(named.iter().map(|(_, value)| value));
        let (is_known, has_sizes) = (!draws && known::is_known(all()), all().any(GraphValue::has_sizes));
        let on_sizes = |name: &String| known::on_sizes(name, &positional, &named);
        if is_known
            && has_sizes
            && let Some(results) = names.iter().find_map(on_sizes)
        {
            return Ok(results);
        }
        let with_tensors = || given(&positional, &named, GraphValue::with_tensors);
        let tensors = has_sizes.then_some(with_tensors);
        let (args, options) = given(&positional, &named, |value| Given::from(value));
        if let Some(same) = unchanged(names, &args, &options) {
            return Ok(vec![GraphValue::Tensor(same)]);
        }
        if is_known && !has_sizes {
            let constants = |name: &String| known::constants(name, &args, &options, node.loc);
            if let Some(results) = names.iter().find_map(constants) {
                return Ok(results);
            }
        }
        let key = if draws { self.key.as_mut().map(Key::next) } else { None };
        let mut first = None;
        for name in names {
            match foreign::call(name, &args, &options, key.as_ref(), node.loc) {
                Ok(results) => return values(node, results),
                Err(e) => _ = first.get_or_insert(e),
            }
            // where the row takes a tensor, the sizes become one
            let made = tensors.as_ref().map(|made| made());
            let made = made.map(|(a, b)| foreign::call(name, &a, &b, key.as_ref(), node.loc));
            if let Some(Ok(results)) = made {
                return values(node, results);
            }
        }
        let error = first.unwrap_or_else(|| unfit(format!("no row is called `{}`", node.target)));
        Err(match draws && self.key.is_none() {
            true => {
                error.help("the call may draw random numbers: give the model a key, `model.with_key(Key::new(seed))`")
            }
            false => error,
        })
    }

    /// Copies the result of a call that PyTorch copied: a view of a value whose elements lie in another order can't have
    /// the usual order. Here it may be a view, and a later write would reach the argument.
    fn separate(&mut self, node: &ModelCall) {
        let dense = |id: ValueId| self.graph.dense.get(id as usize).copied().unwrap_or(true);
        let (Some(CallArgument::Value(from)), [CallResult::One(to)]) = (node.positional.first(), &node.outputs[..])
        else {
            return;
        };
        if dense(*from) || !dense(*to) {
            return;
        }
        if let Some(GraphValue::Tensor(x)) = &self.values[*to as usize] {
            self.values[*to as usize] = Some(GraphValue::Tensor(x.copy()));
        }
    }

    /// Calls a function of lists.
    fn sequence(&self, node: &ModelCall, function: SequenceFunction) -> Result<Vec<GraphValue>, String> {
        let (args, named) = self.arguments(node)?;
        sequences::call(function, &args, &named)
    }

    /// The positional and the named arguments.
    fn arguments<'n>(&self, node: &'n ModelCall) -> Result<NodeArguments<'n>, String> {
        let positional = node.positional.iter().map(|a| self.argument(a)).collect::<Result<_, _>>()?;
        let named = node.named.iter().map(|(name, a)| Ok((name.as_str(), self.argument(a)?)));
        Ok((positional, named.collect::<Result<_, String>>()?))
    }

    /// Calls programs among the arguments, as the other arguments say.
    fn control_flow(&mut self, node: &ModelCall, flow: ControlFlow) -> Result<Vec<GraphValue>, Error> {
        let unfit = |why: String| Error::new("E936", why).at(node.loc);
        let mut parts = FlowParts { programs: Vec::new(), values: Vec::new(), named: Vec::new() };
        let positional = node.positional.iter().map(|argument| ("", argument));
        for (name, argument) in positional.chain(node.named.iter().map(|(name, argument)| (name.as_str(), argument))) {
            match argument {
                CallArgument::Graph(closure) => {
                    let captured = closure.captured.iter().map(|id| self.value(*id)).collect::<Result<_, _>>();
                    let captured = captured.map_err(unfit)?;
                    parts.programs.push(FlowProgram { name, graph: &closure.graph, captured });
                }
                argument => {
                    let value = self.argument(argument).map_err(unfit)?;
                    match name {
                        "" => parts.values.push(value),
                        name => parts.named.push((name, value)),
                    }
                }
            }
        }
        let mut run = |graph: &ModelGraph, values| inner(graph, values, self.key, self.seen);
        control_flow::call(flow, &parts, &mut run).map_err(|e| e.at(node.loc))
    }

    /// Calls the program among the arguments in a region that the arguments before it describe, on those after it.
    fn region(&mut self, node: &ModelCall, region: CallRegion) -> Result<Vec<GraphValue>, Error> {
        let unfit = |why: String| Error::new("E936", why).at(node.loc);
        let at = node.positional.iter().position(|a| matches!(a, CallArgument::Graph(_)));
        let Some((before, [CallArgument::Graph(program), inputs @ ..])) =
            at.and_then(|at| node.positional.split_at_checked(at))
        else {
            return Err(unfit(format!("`{}` has no program among its arguments", node.target)));
        };
        let inputs = inputs.iter().map(|a| self.argument(a)).collect::<Result<Vec<_>, _>>().map_err(unfit)?;
        // the first truth value says whether the region is on; autocast has another one, of its cache
        let truth = before.iter().find_map(|a| match a {
            CallArgument::Number(Scalar::Bool(b)) => Some(*b),
            _ => None,
        });
        let enabled = truth.unwrap_or(true);
        let dtype = before.iter().find_map(|a| match a {
            CallArgument::DType(dtype) => Some(*dtype),
            _ => None,
        });
        if region == CallRegion::Autocast && enabled && dtype.is_none() {
            return Err(unfit(format!("`{}` has no dtype", node.target)));
        }
        let run = || inner(&program.graph, inputs, self.key, self.seen);
        match region {
            CallRegion::Autocast => autocast(dtype.filter(|_| enabled), run),
            CallRegion::Gradient if enabled => enable_grad(run),
            CallRegion::Gradient => no_grad(run),
        }
    }

    fn keep(&mut self, outputs: &[CallResult], results: Vec<GraphValue>) -> Result<(), String> {
        if let [CallResult::List(ids)] = outputs {
            if ids.len() != results.len() {
                return Err(format!("the call has {} results, and the model expects {}", results.len(), ids.len()));
            }
            for (id, value) in ids.iter().zip(results) {
                self.values[*id as usize] = Some(value);
            }
            return Ok(());
        }
        let mut results = results.into_iter();
        for output in outputs {
            let value = results.next();
            match (output, value) {
                (CallResult::One(id), Some(value)) => self.values[*id as usize] = Some(value),
                (CallResult::None, _) => {}
                _ => return Err(format!("the call has other results than its {} in the model", outputs.len())),
            }
        }
        Ok(())
    }

    fn value(&self, id: ValueId) -> Result<GraphValue, String> {
        let name = || self.graph.names.get(id as usize).map_or("", String::as_str);
        self.values[id as usize].clone().ok_or_else(|| format!("the value `{}` is not there", name()))
    }

    fn argument(&self, argument: &CallArgument) -> Result<GraphValue, String> {
        Ok(match argument {
            CallArgument::None | CallArgument::Ignored => GraphValue::None,
            CallArgument::Value(id) => self.value(*id)?,
            CallArgument::Number(x) => GraphValue::Number(*x),
            CallArgument::List(items) => {
                GraphValue::List(items.iter().map(|a| self.argument(a)).collect::<Result<_, _>>()?)
            }
            CallArgument::Text(text) => GraphValue::Text(text.clone()),
            CallArgument::DType(dtype) => GraphValue::DType(*dtype),
            CallArgument::Graph(_) => return Err("a program as an argument".to_owned()),
            CallArgument::Unsupported(what) => return Err(format!("{what}, which no row takes")),
        })
    }
}

/// The arguments of a call as [`foreign::call`] takes them.
fn given(
    positional: &[GraphValue],
    named: &[(String, GraphValue)],
    one: impl Fn(&GraphValue) -> Given,
) -> (Vec<Given>, Vec<(String, Given)>) {
    let named = named.iter().map(|(name, value)| (name.clone(), one(value))).collect();
    (positional.iter().map(&one).collect(), named)
}

/// The argument of a cast to the dtype that it has: PyTorch returns the argument itself, so that a write to the result is
/// a write to it. A true flag among the arguments may be `copy`.
fn unchanged(names: &[String], positional: &[Given], named: &[(String, Given)]) -> Option<Tensor> {
    let cast = foreign::forms(names.first()?).iter().any(|form| form.symbol.name() == Intrinsic::Cast.name());
    let Some(Given::Tensor(x)) = positional.first() else { return None };
    let values = positional.iter().chain(named.iter().map(|(_, value)| value));
    let dtype = values.filter_map(|value| if let Given::DType(dtype) = value { Some(*dtype) } else { None }).next();
    let is_flag = |value: &Given| matches!(value, Given::Bool(true));
    let flags = positional.iter().any(is_flag) || named.iter().any(|(_, value)| is_flag(value));
    (cast && !flags && dtype == Some(x.dtype())).then(|| x.clone())
}

/// The results of a row. What is a plain number in the other library is one here, unless it is not known yet.
fn values(node: &ModelCall, results: foreign::Results) -> Result<Vec<GraphValue>, Error> {
    let one = |out: Option<Tensor>| {
        let Some(out) = out else { return Ok(GraphValue::None) };
        out.check().map_err(|e| e.at(node.loc))?;
        let item = if results.plain { out.buffer().ok().and_then(|b| b.item()) } else { None };
        Ok(item.map_or(GraphValue::Tensor(out), GraphValue::Number))
    };
    results.outs.into_iter().map(one).collect()
}
