//! Turns the graph of the schema into a [`ModelGraph`]: names become numbers, and each is made once and before it is used.

use super::layout::ValueLayouts;
use super::schema as json;
use super::weights::dtype;
use crate::graph::{CallArgument, CallResult, Closure, ModelCall, ModelGraph, ValueId};
use crate::names::Implementation;
use crate::places;
use fulgurite::core::Scalar;
use std::collections::HashMap;
use std::sync::OnceLock;

/// The deepest nesting of programs in arguments.
const DEEPEST: usize = 16;

/// Makes the graph.
///
/// # Errors
/// The first contradiction, in words.
pub fn graph(from: json::GraphSchema) -> Result<ModelGraph, String> {
    Maker::default().graph(from, 0)
}

#[derive(Default)]
struct Maker {
    ids: HashMap<String, ValueId>,
    graph: ModelGraph,
}

impl Maker {
    fn graph(mut self, from: json::GraphSchema, depth: usize) -> Result<ModelGraph, String> {
        if depth > DEEPEST {
            return Err(format!("programs are nested deeper than {DEEPEST} levels"));
        }
        for input in from.inputs {
            let id = match input {
                json::ArgumentUnion::AsTensor(named) => self.define(named.name)?,
                json::ArgumentUnion::AsSymInt(json::Sym::AsName(name))
                | json::ArgumentUnion::AsSymFloat(json::Sym::AsName(name))
                | json::ArgumentUnion::AsSymBool(json::Sym::AsName(name)) => self.define(name)?,
                // a constant, which the calls repeat
                _ => self.define(String::new())?,
            };
            self.graph.inputs.push(id);
        }
        for node in from.nodes {
            let node = self.node(node, depth)?;
            self.graph.nodes.push(node);
        }
        for output in from.outputs {
            let output = self.argument(output, depth)?;
            self.graph.outputs.push(output);
        }
        self.graph.note_last_uses();
        if self.graph.nodes.iter().any(|node| matches!(node.implementation(), Implementation::Written(_))) {
            let mut layout = ValueLayouts::default();
            let is_dense = |name: &String| from.tensor_values.get(name).is_none_or(|meta| layout.is_dense(meta));
            self.graph.dense = self.graph.names.iter().map(is_dense).collect();
        }
        Ok(self.graph)
    }

    /// A new value; a value without a name can't be used.
    fn define(&mut self, name: String) -> Result<ValueId, String> {
        let id = ValueId::try_from(self.graph.names.len()).map_err(|_| "it has too many values")?;
        self.graph.names.push(name.clone());
        match name.is_empty() || self.ids.insert(name.clone(), id).is_none() {
            true => Ok(id),
            false => Err(format!("`{name}` is made twice")),
        }
    }

    fn value(&self, name: &str) -> Result<CallArgument, String> {
        let id = self.ids.get(name).ok_or_else(|| format!("`{name}` is used before it is made"))?;
        Ok(CallArgument::Value(*id))
    }

    fn node(&mut self, from: json::NodeSchema, depth: usize) -> Result<ModelCall, String> {
        let target = from.target.strip_prefix("torch.ops.").map_or(from.target.clone(), str::to_owned);
        let (mut positional, mut named) = (Vec::new(), Vec::new());
        for input in from.inputs {
            let argument = self.argument(input.arg, depth).map_err(|why| format!("in a call of `{target}`: {why}"))?;
            match input.kind == Some(json::KEYWORD) {
                true => named.push((input.name, argument)),
                false => positional.push(argument),
            }
        }
        let outputs = from.outputs.into_iter().map(|output| self.output(output)).collect::<Result<_, _>>()?;
        Ok(ModelCall {
            target,
            positional,
            named,
            outputs,
            scope: scope(&from.metadata.nn_module_stack),
            loc: places::python(&from.metadata.stack_trace),
            last_uses: Vec::new(),
            resolved: OnceLock::new(),
        })
    }

    fn output(&mut self, from: json::ArgumentUnion) -> Result<CallResult, String> {
        use json::ArgumentUnion as A;
        Ok(match from {
            A::AsTensor(named) => CallResult::One(self.define(named.name)?),
            A::AsSymInt(json::Sym::AsName(name))
            | A::AsSymFloat(json::Sym::AsName(name))
            | A::AsSymBool(json::Sym::AsName(name)) => CallResult::One(self.define(name)?),
            A::AsOptionalTensor(json::OptionalTensor::AsTensor(named)) => CallResult::One(self.define(named.name)?),
            A::AsTensors(list) => {
                CallResult::List(list.into_iter().map(|named| self.define(named.name)).collect::<Result<_, _>>()?)
            }
            _ => CallResult::None,
        })
    }

    fn argument(&mut self, from: json::ArgumentUnion, depth: usize) -> Result<CallArgument, String> {
        use json::ArgumentUnion as A;
        fn list<T>(
            items: Vec<T>,
            mut each: impl FnMut(T) -> Result<CallArgument, String>,
        ) -> Result<CallArgument, String> {
            Ok(CallArgument::List(items.into_iter().map(&mut each).collect::<Result<_, _>>()?))
        }
        let int = |n: i64| Ok(CallArgument::Number(Scalar::Int(n)));
        let float = |x: json::Float| Ok(CallArgument::Number(Scalar::Float(x.0)));
        let bool = |b: bool| Ok(CallArgument::Number(Scalar::Bool(b)));
        let unsupported = |what: &str| Ok(CallArgument::Unsupported(what.to_owned()));
        match from {
            A::AsNone(_) => Ok(CallArgument::None),
            A::AsTensor(named) => self.value(&named.name),
            A::AsTensors(items) => list(items, |named| self.value(&named.name)),
            A::AsNestedTensors(lists) => list(lists, |items| list(items, |named| self.value(&named.name))),
            A::AsOptionalTensor(item) => self.optional(item),
            A::AsOptionalTensors(items) => list(items, |item| self.optional(item)),
            A::AsInt(n) => int(n),
            A::AsInts(items) => list(items, int),
            A::AsIntLists(lists) => list(lists, |items| list(items, int)),
            A::AsFloat(x) => float(x),
            A::AsFloats(items) => list(items, float),
            A::AsFloatLists(lists) => list(lists, |items| list(items, float)),
            A::AsBool(b) => bool(b),
            A::AsBools(items) => list(items, bool),
            A::AsSymInt(sym) | A::AsSymFloat(sym) | A::AsSymBool(sym) => self.sym(sym),
            A::AsSymInts(items) | A::AsSymFloats(items) | A::AsSymBools(items) => list(items, |sym| self.sym(sym)),
            A::AsString(text) => Ok(CallArgument::Text(text)),
            A::AsStrings(items) => list(items, |text| Ok(CallArgument::Text(text))),
            A::AsScalarType(code) => match dtype(code) {
                Some(dtype) => Ok(CallArgument::DType(dtype)),
                None => unsupported(&format!("dtype {code} of schema 8")),
            },
            A::AsMemoryFormat(_) | A::AsDevice(_) => Ok(CallArgument::Ignored),
            A::AsLayout(STRIDED) => Ok(CallArgument::Ignored),
            A::AsLayout(_) => unsupported("a sparse tensor"),
            A::AsGraph(from) => {
                let graph = Maker::default().graph(from.graph, depth + 1)?;
                Ok(CallArgument::Graph(Box::new(Closure { graph, captured: Vec::new() })))
            }
            A::AsCustomObj(_) => unsupported("an object of a class"),
            A::AsOperator(_) => unsupported("an operator as an argument"),
            A::AsComplex(_) => unsupported("a complex number"),
            A::AsStringToArgument(_) => unsupported("a dictionary"),
        }
    }

    fn optional(&self, item: json::OptionalTensor) -> Result<CallArgument, String> {
        match item {
            json::OptionalTensor::AsTensor(named) => self.value(&named.name),
            json::OptionalTensor::AsNone(_) => Ok(CallArgument::None),
        }
    }

    fn sym(&self, sym: json::Sym) -> Result<CallArgument, String> {
        Ok(match sym {
            json::Sym::AsName(name) => self.value(&name)?,
            json::Sym::AsInt(n) => CallArgument::Number(Scalar::Int(n)),
            json::Sym::AsFloat(x) => CallArgument::Number(Scalar::Float(x.0)),
            json::Sym::AsBool(b) => CallArgument::Number(Scalar::Bool(b)),
        })
    }
}

/// The number of the dense layout in schema 8.
const STRIDED: i64 = 7;

/// The modules around a call: the last entry of `KEY,PATH,CLASS;…` whose path is that of a module.
fn scope(stack: &str) -> Vec<String> {
    let last = stack.rsplit(';').next().unwrap_or_default();
    let path = last.split(',').nth(1).unwrap_or_default();
    let is_path = |c: char| c.is_alphanumeric() || "._@[]".contains(c);
    match path.starts_with('_') || !path.chars().all(is_path) {
        true => Vec::new(),
        false => path.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect(),
    }
}
