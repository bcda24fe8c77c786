//! Turns the graph of a message into a [`ModelGraph`]: names become numbers, inputs are positional arguments of calls and
//! attributes named ones. A program in an attribute gets the values around it that it reads as further inputs, and calls
//! of the model's own functions become the calls of their bodies.

use super::maker::{DEEPEST, Frame, InputRole, MadeGraph, Maker, NameMeaning, OpenGraph, domain, opsets};
use super::messages::{AttributeProto, FunctionProto, GraphProto, NodeProto, StringEntry, kind};
use crate::graph::{CallArgument, CallResult, Closure, ModelCall, ModelGraph, ValueId};
use crate::places;
use fulgurite::Tensor;
use fulgurite::buffer::Buffer;
use fulgurite::core::loc::Loc;
use fulgurite::core::{Name, Scalar};
use fulgurite::foreign;
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

/// Attributes by name.
pub type Attributes<'a> = HashMap<&'a str, &'a AttributeProto>;

/// Adds a call to the graph that is being made. `around` are the attributes of the function whose body it stands in.
///
/// # Errors
/// The first contradiction, in words.
fn add_node<'a>(maker: &mut Maker<'a>, from: &'a NodeProto, around: &Attributes<'a>) -> Result<(), String> {
    let shown = || format!("in `{}` ({})", shown(from), from.op_type.escape_debug());
    make(maker, from, around).map_err(|why| if why.starts_with("in `") { why } else { format!("{}: {why}", shown()) })
}

/// The name of a node, or that of its first output.
fn shown(from: &NodeProto) -> String {
    let name = if from.name.is_empty() { from.output.first().unwrap_or(&from.name) } else { &from.name };
    name.escape_debug().to_string()
}

fn make<'a>(maker: &mut Maker<'a>, from: &'a NodeProto, around: &Attributes<'a>) -> Result<(), String> {
    maker.count_call()?;
    let mut attributes: Vec<(&'a str, &'a AttributeProto)> = Vec::new();
    for attribute in &from.attribute {
        match attribute.ref_attr_name.as_str() {
            "" => attributes.push((&attribute.name, attribute)),
            // an attribute of the function, which its call may leave out
            name => {
                if let Some(given) = around.get(name) {
                    maker.count_repeated(*given)?;
                    attributes.push((&attribute.name, given));
                }
            }
        }
    }
    let space = domain(&from.domain);
    if space.is_empty() && from.op_type == "Constant" {
        return constant(maker, from, &attributes);
    }
    let function = maker.functions.get(&(space.to_owned(), from.op_type.clone(), from.overload.clone())).copied();
    if let Some(function) = function {
        let mut arguments = Vec::new();
        for input in &from.input {
            arguments.push(match maker.argument(input)? {
                CallArgument::Value(id) => NameMeaning::Value(id),
                CallArgument::Unsupported(what) => NameMeaning::Unsupported(what),
                _ => NameMeaning::Absent,
            });
        }
        let mut all: Attributes<'a> = function.attribute_proto.iter().map(|a| (a.name.as_str(), a)).collect();
        all.extend(attributes);
        let results = maker.inline(function, arguments, &all)?;
        for (name, result) in from.output.iter().zip(results).filter(|(name, _)| !name.is_empty()) {
            if let NameMeaning::Value(id) = result {
                maker.rename(id, name);
            }
            maker.set(name, result)?;
        }
        return Ok(());
    }
    let version = maker.opsets.last().and_then(|opsets| opsets.get(space)).copied().unwrap_or(1);
    let target = match space.strip_prefix("ai.onnx.").unwrap_or(space) {
        "" => format!("onnx.{}.{version}", from.op_type),
        space => format!("onnx.{space}.{}.{version}", from.op_type),
    };
    let positional = from.input.iter().map(|name| maker.argument(name)).collect::<Result<_, _>>()?;
    let mut named = Vec::new();
    for (name, attribute) in attributes {
        let value = value(maker, attribute).map_err(|why| format!("attribute `{}`: {why}", name.escape_debug()))?;
        named.push((name.to_owned(), value));
    }
    // a row whose results have any number learns how many of them the node names
    if foreign::forms(&target).iter().any(|form| form.has("outputs")) {
        named.push(("outputs".to_owned(), CallArgument::Number(Scalar::Int(from.output.len() as i64))));
    }
    let output = |name: &String| match name.as_str() {
        "" => Ok(CallResult::None),
        name => maker.define(name).map(CallResult::One),
    };
    let outputs = from.output.iter().map(output).collect::<Result<_, _>>()?;
    let loc = loc(maker, from);
    let call = ModelCall {
        target,
        positional,
        named,
        outputs,
        scope: scope(from),
        loc,
        last_uses: Vec::new(),
        resolved: OnceLock::new(),
    };
    maker.here().nodes.push(call);
    Ok(())
}

/// A constant in the place of a call.
fn constant<'a>(
    maker: &mut Maker<'a>,
    from: &'a NodeProto,
    attributes: &[(&'a str, &'a AttributeProto)],
) -> Result<(), String> {
    let ([name], [(_, attribute)]) = (&from.output[..], attributes) else {
        return Err("a constant has one output and one attribute".to_owned());
    };
    let list = |buffer: Result<Buffer, _>| {
        buffer.map(Tensor::from_buffer).map_err(|e: fulgurite::buffer::BufferError| e.to_string())
    };
    let tensor = match attribute.kind {
        kind::TENSOR => {
            let tensor = attribute.t.as_ref().ok_or("it has no tensor")?;
            let meaning = maker.attribute_tensor(tensor)?;
            return maker.set(name, meaning);
        }
        kind::FLOAT => Tensor::scalar(attribute.f),
        kind::INT => Tensor::scalar(attribute.i),
        kind::FLOATS => list(Buffer::from_slice(&attribute.floats, &[attribute.floats.len()]))?,
        kind::INTS => list(Buffer::from_slice(&attribute.ints, &[attribute.ints.len()]))?,
        _ => return maker.set(name, NameMeaning::Unsupported("a constant of texts, or a sparse one".to_owned())),
    };
    let meaning = maker.constant(name, InputRole::Constant(tensor))?;
    maker.set(name, meaning)
}

fn value<'a>(maker: &mut Maker<'a>, from: &'a AttributeProto) -> Result<CallArgument, String> {
    let int = |n: &i64| CallArgument::Number(Scalar::Int(*n));
    let float = |x: &f32| CallArgument::Number(Scalar::Float(f64::from(*x)));
    let text = |bytes: &[u8]| CallArgument::Text(String::from_utf8_lossy(bytes).into_owned());
    Ok(match from.kind {
        kind::INT => int(&from.i),
        kind::FLOAT => float(&from.f),
        kind::STRING => text(&from.s),
        kind::INTS => CallArgument::List(from.ints.iter().map(int).collect()),
        kind::FLOATS => CallArgument::List(from.floats.iter().map(float).collect()),
        kind::STRINGS => CallArgument::List(from.strings.iter().map(|bytes| text(bytes)).collect()),
        kind::TENSOR => match maker.attribute_tensor(from.t.as_ref().ok_or("it has no tensor")?)? {
            NameMeaning::Value(id) => CallArgument::Value(id),
            NameMeaning::Unsupported(what) => CallArgument::Unsupported(what),
            NameMeaning::Absent => CallArgument::None,
        },
        kind::GRAPH => {
            let (graph, captured) = maker.graph(from.g.as_ref().ok_or("it has no graph")?)?;
            CallArgument::Graph(Box::new(Closure { graph, captured }))
        }
        kind => CallArgument::Unsupported(format!("an attribute of ONNX's kind {kind}")),
    })
}

/// The value of a key in the notes of an exporter.
fn noted<'a>(notes: &'a [StringEntry], key: &str) -> Option<&'a str> {
    notes.iter().find(|entry| entry.key == key).map(|entry| entry.value.as_str())
}

/// The modules around a call. PyTorch's exporters name them in a note, `['', 'layer1', 'layer1.0', 'conv1']`, or in the
/// name of the node, `/layer1/layer1.0/conv1/Conv`.
fn scope(from: &NodeProto) -> Vec<String> {
    let is_name = |c: char| c.is_alphanumeric() || "._".contains(c);
    let all: Vec<&str> = match noted(&from.metadata_props, "pkg.torch.onnx.name_scopes") {
        Some(list) => list.trim_matches(['[', ']']).split(", ").map(|word| word.trim_matches('\'')).collect(),
        None => from.name.split('/').collect(),
    };
    let Some((_, modules)) = all.split_last() else { return Vec::new() };
    // each module's name begins with that of the module around it
    let (mut parts, mut before) = (Vec::new(), "");
    for module in modules.iter().copied().filter(|m| !m.is_empty() && m.chars().all(is_name)) {
        let inner = module.strip_prefix(before).unwrap_or(module);
        parts.extend(inner.split('.').filter(|part| !part.is_empty()).map(str::to_owned));
        before = module;
    }
    parts
}

/// The place of a call: the line of Python in the exporter's note, or the node in the file.
fn loc(maker: &mut Maker, from: &NodeProto) -> Loc {
    let python = noted(&from.metadata_props, "pkg.torch.onnx.stack_trace")
        .map(places::python)
        .filter(|loc| *loc != Loc::NOWHERE);
    python.unwrap_or_else(|| {
        let file = format!("{}: {}", maker.file, shown(from));
        let line = u32::try_from(maker.here().nodes.len() + 1).unwrap_or(0);
        Loc { file: Name::new(&file).as_str(), line, column: 0 }
    })
}

impl<'a> Maker<'a> {
    /// Makes the graph of the model.
    ///
    /// # Errors
    /// The first contradiction, in words.
    pub fn model(mut self, from: &'a GraphProto) -> Result<MadeGraph, String> {
        let graph = self.graph(from)?.0;
        Ok(MadeGraph { graph, roles: self.roles })
    }

    /// Makes a graph, and gives the values around it that it reads, which are its last inputs.
    pub fn graph(&mut self, from: &'a GraphProto) -> Result<(ModelGraph, Vec<ValueId>), String> {
        if self.frames.len() > DEEPEST {
            return Err(format!("programs are nested deeper than {DEEPEST} levels"));
        }
        let outermost = self.graphs.is_empty();
        self.graphs.push(OpenGraph::default());
        self.frames.push(Frame { graph: self.graphs.len() - 1, open: !outermost, ..Frame::default() });
        if !from.sparse_initializer.is_empty() {
            return Err("it has sparse tensors".to_owned());
        }
        for tensor in &from.initializer {
            let told = |why| format!("the tensor `{}`: {why}", tensor.name.escape_debug());
            self.initializer(tensor, outermost).map_err(told)?;
        }
        let given: HashSet<&str> = from.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
        for input in from.input.iter().filter(|input| !given.contains(input.name.as_str())) {
            let id = self.define(&input.name)?;
            self.here().inputs.push(id);
            if outermost {
                self.roles.push(InputRole::Input);
            }
        }
        for node in &from.node {
            add_node(self, node, &HashMap::new())?;
        }
        for output in &from.output {
            let output = self.lookup(&output.name)?;
            self.here().outputs.push(output);
        }
        self.frames.pop();
        let mut open = self.graphs.pop().unwrap_or_default();
        open.graph.note_last_uses();
        Ok((open.graph, open.captured))
    }

    /// Makes the calls of a function's body on these arguments, and gives its results.
    ///
    /// # Errors
    /// The body contradicts itself, or calls itself.
    pub fn inline(
        &mut self,
        function: &'a FunctionProto,
        arguments: Vec<NameMeaning>,
        attributes: &Attributes<'a>,
    ) -> Result<Vec<NameMeaning>, String> {
        if self.frames.len() > DEEPEST {
            return Err(format!("functions are nested deeper than {DEEPEST} levels"));
        }
        self.count_repeated(function)?;
        let graph = self.frames.last().map_or(0, |frame| frame.graph);
        self.opsets.push(opsets(&function.opset_import));
        self.frames.push(Frame { graph, open: false, ..Frame::default() });
        for (name, meaning) in function.input.iter().zip(arguments) {
            self.set(name, meaning)?;
        }
        for node in &function.node {
            add_node(self, node, attributes)?;
        }
        let result = |maker: &mut Self, name: &String| {
            let top = maker.frames.len() - 1;
            maker.find(top, name).ok_or_else(|| format!("`{}` is not made", name.escape_debug()))
        };
        let results = function.output.iter().map(|name| result(self, name)).collect();
        self.frames.pop();
        self.opsets.pop();
        results
    }
}
