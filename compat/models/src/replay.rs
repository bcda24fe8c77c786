//! Runs a graph: each call goes to the row behind its name, so that it computes at once, or becomes a line of the open
//! trace.

use crate::graph::{Argument, Graph, Node, Output, ValueId};
use crate::host;
use crate::names::{Callee, Region, callee};
use fulgurite::foreign::{self, Given};
use fulgurite::core::{DType, Dim, Scalar};
use fulgurite::prelude::{autocast, enable_grad, named, no_grad};
use fulgurite::{Error, Key, Tensor};

/// A value of a running graph.
#[derive(Clone, Debug)]
pub enum Value {
    /// Nothing.
    None,
    Tensor(Tensor),
    List(Vec<Value>),
    Number(Scalar),
    /// A size, which may be symbolic.
    Size(Dim),
    Text(String),
    DType(DType),
}

impl Value {
    /// The kind of value, in words.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::None => "nothing",
            Value::Tensor(_) => "a tensor",
            Value::List(_) => "a list",
            Value::Number(_) => "a number",
            Value::Size(_) => "a size",
            Value::Text(_) => "a text",
            Value::DType(_) => "a dtype",
        }
    }

    /// The value as a tensor: numbers become tensors of rank 0.
    pub fn tensor(&self) -> Option<Tensor> {
        match self {
            Value::Tensor(x) => Some(x.clone()),
            Value::Number(Scalar::Bool(b)) => Some(Tensor::scalar(*b)),
            Value::Number(Scalar::Int(n)) => Some(Tensor::scalar(*n)),
            Value::Number(Scalar::Float(x)) => Some(Tensor::scalar(*x)),
            Value::Size(size) => Some(Tensor::scalar(size.value())),
            Value::None | Value::List(_) | Value::Text(_) | Value::DType(_) => None,
        }
    }
}

impl From<&Value> for Given {
    fn from(value: &Value) -> Given {
        match value {
            Value::None => Given::None,
            Value::Tensor(x) => Given::Tensor(x.clone()),
            Value::List(items) => Given::List(items.iter().map(Given::from).collect()),
            Value::Number(x) => Given::from(*x),
            Value::Size(size) if size.is_const() => Given::Int(size.value()),
            Value::Size(size) => Given::Size(*size),
            Value::Text(text) => Given::Str(text.clone()),
            Value::DType(dtype) => Given::DType(*dtype),
        }
    }
}

/// A function that gets each named result of a call while a graph runs.
pub type Observer<'a> = dyn FnMut(&Node, &str, &Value) + 'a;

/// Runs the graph on values of its inputs.
///
/// # Errors
/// The refusal of a row, E934 for a call without a row, E936 for an argument that no row takes; each at the line of the
/// source that made the call.
pub fn run(graph: &Graph, inputs: Vec<Value>, key: Option<Key>, seen: &mut Observer) -> Result<Vec<Value>, Error> {
    let mut key = key;
    inner(graph, inputs, &mut key, seen)
}

fn inner(
    graph: &Graph,
    inputs: Vec<Value>,
    key: &mut Option<Key>,
    seen: &mut Observer,
) -> Result<Vec<Value>, Error> {
    let mut replay = Replay { graph, values: vec![None; graph.names.len()], key, seen };
    for (id, value) in graph.inputs.iter().zip(inputs) {
        replay.values[*id as usize] = Some(value);
    }
    replay.nodes(&graph.nodes, 0)?;
    graph.outputs.iter().map(|output| replay.argument(output).map_err(|why| Error::new("E936", why))).collect()
}

/// The named arguments that say where and in which order a tensor lies in memory. They change no value: a tensor is on
/// the device of its program, and its layout is the executor's choice.
const PLACEMENT: &[&str] = &["device", "layout", "memory_format", "pin_memory", "non_blocking"];

struct Replay<'a, 'o> {
    graph: &'a Graph,
    values: Vec<Option<Value>>,
    key: &'a mut Option<Key>,
    seen: &'a mut Observer<'o>,
}

impl Replay<'_, '_> {
    /// Runs nodes whose first `depth` modules are open. Neighbours in one module are in one region.
    fn nodes(&mut self, nodes: &[Node], depth: usize) -> Result<(), Error> {
        let mut at = 0;
        while at < nodes.len() {
            let Some(module) = nodes[at].scope.get(depth) else {
                self.node(&nodes[at])?;
                at += 1;
                continue;
            };
            let inside = |node: &&Node| node.scope.get(depth) == Some(module);
            let count = nodes[at..].iter().take_while(inside).count();
            named(module, || self.nodes(&nodes[at..at + count], depth + 1))?;
            at += count;
        }
        Ok(())
    }

    fn node(&mut self, node: &Node) -> Result<(), Error> {
        let unfit = |why: String| Error::new("E936", why).at(node.loc);
        match callee(&node.target) {
            Callee::Host => {
                let args = node.positional.iter().map(|a| self.argument(a)).collect::<Result<Vec<_>, _>>();
                let value = args.and_then(|args| host::call(&node.target, &args)).map_err(unfit)?;
                self.keep(&node.outputs, vec![value]).map_err(unfit)?;
            }
            Callee::Rows(names) => {
                let results = self.row(node, &names)?;
                self.keep(&node.outputs, results).map_err(unfit)?;
            }
            Callee::Written(names) => {
                let value = self.row(node, &names)?.into_iter().next();
                let target = node.positional.first().map(|a| self.argument(a)).transpose().map_err(unfit)?;
                let (Some(Value::Tensor(value)), Some(Value::Tensor(target))) = (value, target) else {
                    return Err(unfit(format!("`{}` writes to an argument that is no tensor", node.target)));
                };
                let written = fulgurite::api::write(&target, value);
                written.check()?;
                self.keep(&node.outputs, vec![Value::Tensor(written)]).map_err(unfit)?;
            }
            Callee::Region(region) => {
                let results = self.region(node, region)?;
                self.keep(&node.outputs, results).map_err(unfit)?;
            }
            Callee::Missing => return Err(Error::new("E934", format!("no row is called `{}`", node.target)).at(node.loc)),
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
    fn row(&mut self, node: &Node, names: &[String]) -> Result<Vec<Value>, Error> {
        let unfit = |why: String| Error::new("E936", why).at(node.loc);
        let given = |value: Value| Given::from(&value);
        let positional = node.positional.iter().map(|a| self.argument(a).map(given)).collect::<Result<Vec<_>, _>>();
        let positional = positional.map_err(unfit)?;
        let mut named = Vec::new();
        for (name, argument) in node.named.iter().filter(|(name, _)| !PLACEMENT.contains(&name.as_str())) {
            match self.argument(argument).map_err(unfit)? {
                Value::None => {}
                value => named.push((name.clone(), given(value))),
            }
        }
        let draws = names.iter().any(|name| foreign::forms(name).iter().any(|form| form.draws()));
        let key = if draws { self.key.as_mut().map(Key::next) } else { None };
        let mut first = None;
        for name in names {
            match foreign::call(name, &positional, &named, key.as_ref(), node.loc) {
                Ok(results) => return values(node, results),
                Err(e) => _ = first.get_or_insert(e),
            }
        }
        Err(first.unwrap_or_else(|| unfit(format!("no row is called `{}`", node.target))))
    }

    /// Calls the program among the arguments in a region that the arguments before it describe, on those behind it.
    fn region(&mut self, node: &Node, region: Region) -> Result<Vec<Value>, Error> {
        let unfit = |why: String| Error::new("E936", why).at(node.loc);
        let at = node.positional.iter().position(|a| matches!(a, Argument::Graph(_)));
        let Some((before, [Argument::Graph(graph), inputs @ ..])) = at.and_then(|at| node.positional.split_at_checked(at))
        else {
            return Err(unfit(format!("`{}` has no program among its arguments", node.target)));
        };
        let inputs = inputs.iter().map(|a| self.argument(a)).collect::<Result<Vec<_>, _>>().map_err(unfit)?;
        // the first truth value says whether the region is on; autocast has another one, of its cache
        let truth = before.iter().find_map(|a| match a {
            Argument::Number(Scalar::Bool(b)) => Some(*b),
            _ => None,
        });
        let enabled = truth.unwrap_or(true);
        let dtype = before.iter().find_map(|a| match a {
            Argument::DType(dtype) => Some(*dtype),
            _ => None,
        });
        let run = || inner(graph, inputs, self.key, self.seen);
        match region {
            Region::Autocast => autocast(dtype.filter(|_| enabled), run),
            Region::Gradient if enabled => enable_grad(run),
            Region::Gradient => no_grad(run),
        }
    }

    fn keep(&mut self, outputs: &[Output], results: Vec<Value>) -> Result<(), String> {
        if let [Output::List(ids)] = outputs {
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
                (Output::One(id), Some(value)) => self.values[*id as usize] = Some(value),
                (Output::None, _) => {}
                _ => return Err(format!("the call has other results than its {} in the model", outputs.len())),
            }
        }
        Ok(())
    }

    fn value(&self, id: ValueId) -> Result<Value, String> {
        let name = || self.graph.names.get(id as usize).map_or("", String::as_str);
        self.values[id as usize].clone().ok_or_else(|| format!("the value `{}` is not there", name()))
    }

    fn argument(&self, argument: &Argument) -> Result<Value, String> {
        Ok(match argument {
            Argument::None | Argument::Ignored => Value::None,
            Argument::Value(id) => self.value(*id)?,
            Argument::Number(x) => Value::Number(*x),
            Argument::List(items) => Value::List(items.iter().map(|a| self.argument(a)).collect::<Result<_, _>>()?),
            Argument::Text(text) => Value::Text(text.clone()),
            Argument::DType(dtype) => Value::DType(*dtype),
            Argument::Graph(_) => return Err("a program as an argument".to_owned()),
            Argument::Unsupported(what) => return Err(format!("{what}, which no row takes")),
        })
    }
}

/// The results of a row. What is a plain number in the other library is one here, unless it is not known yet.
fn values(node: &Node, results: foreign::Results) -> Result<Vec<Value>, Error> {
    let one = |out: Option<Tensor>| {
        let Some(out) = out else { return Ok(Value::None) };
        out.check().map_err(|e| e.at(node.loc))?;
        let item = if results.plain { out.buffer().ok().and_then(|b| b.item()) } else { None };
        Ok(item.map_or(Value::Tensor(out), Value::Number))
    };
    results.outs.into_iter().map(one).collect()
}
