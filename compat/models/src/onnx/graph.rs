//! Turns the graph of a message into a [`ModelGraph`]: names become numbers, a program in an attribute gets the values
//! around it that it reads as further inputs, and calls of the model's own functions become the calls of their bodies.

use super::messages::{FunctionProto, GraphProto, ModelProto, TensorProto};
use super::nodes;
use super::tensors::{NoTensor, TensorFiles};
use crate::graph::{CallArgument, ModelGraph, ValueId};
use fulgurite::Tensor;
use std::collections::HashMap;
use std::path::Path;

/// The deepest nesting of programs and functions.
const DEEPEST: usize = 32;
/// At most this many calls, because functions that call functions can stand for any number.
const MOST_CALLS: usize = 1 << 20;

/// The source of an input of the graph.
pub enum Role {
    /// An input of a call.
    Input,
    Constant(Tensor),
    Parameter(String, Tensor),
}

/// A graph, and the sources of its inputs.
pub struct Made {
    pub graph: ModelGraph,
    pub roles: Vec<Role>,
}

/// The meaning of a name.
#[derive(Clone)]
pub enum Meaning {
    Value(ValueId),
    /// A tensor that does not exist here, and why.
    Unsupported(String),
    /// An argument that a call of a function leaves out.
    Absent,
}

/// The names of a graph or of the body of a function.
#[derive(Default)]
struct Frame {
    names: HashMap<String, Meaning>,
    /// The graph of the frame, by its place in [`Maker::graphs`].
    graph: usize,
    /// Whether names that are not here are those of the frame below.
    open: bool,
}

/// A graph that is being made, and the values around it that it reads.
#[derive(Default)]
struct Open {
    graph: ModelGraph,
    captured: Vec<ValueId>,
}

/// Makes graphs.
pub struct Maker<'a> {
    /// The name of the file.
    pub file: String,
    pub functions: HashMap<(String, String, String), &'a FunctionProto>,
    files: TensorFiles,
    /// The versions of operators by domain; those of a function come last.
    pub opsets: Vec<HashMap<String, i64>>,
    frames: Vec<Frame>,
    graphs: Vec<Open>,
    roles: Vec<Role>,
    /// The number of calls.
    calls: usize,
}

impl<'a> Maker<'a> {
    /// A maker of graphs of this model.
    pub fn new(path: &Path, model: &'a ModelProto, files: TensorFiles) -> Maker<'a> {
        let key = |f: &'a FunctionProto| (nodes::domain(&f.domain).to_owned(), f.name.clone(), f.overload.clone());
        Maker {
            file: path.file_name().map_or_else(String::new, |name| name.to_string_lossy().escape_debug().to_string()),
            functions: model.functions.iter().map(|f| (key(f), f)).collect(),
            files,
            opsets: vec![nodes::opsets(&model.opset_import)],
            frames: Vec::new(),
            graphs: Vec::new(),
            roles: Vec::new(),
            calls: 0,
        }
    }

    /// Makes the graph of the model.
    ///
    /// # Errors
    /// The first contradiction, in words.
    pub fn model(mut self, from: &'a GraphProto) -> Result<Made, String> {
        let graph = self.graph(from)?.0;
        Ok(Made { graph, roles: self.roles })
    }

    /// Makes a graph, and gives the values around it that it reads, which are its last inputs.
    pub fn graph(&mut self, from: &'a GraphProto) -> Result<(ModelGraph, Vec<ValueId>), String> {
        if self.frames.len() > DEEPEST {
            return Err(format!("programs are nested deeper than {DEEPEST} levels"));
        }
        let outermost = self.graphs.is_empty();
        self.graphs.push(Open::default());
        self.frames.push(Frame { graph: self.graphs.len() - 1, open: !outermost, ..Frame::default() });
        if !from.sparse_initializer.is_empty() {
            return Err("it has sparse tensors".to_owned());
        }
        for tensor in &from.initializer {
            let told = |why| format!("the tensor `{}`: {why}", tensor.name.escape_debug());
            self.initializer(tensor, outermost).map_err(told)?;
        }
        for input in &from.input {
            if from.initializer.iter().any(|tensor| tensor.name == input.name) {
                continue;
            }
            let id = self.define(&input.name)?;
            self.here().inputs.push(id);
            if outermost {
                self.roles.push(Role::Input);
            }
        }
        for node in &from.node {
            nodes::node(self, node, &HashMap::new())?;
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

    /// The graph that is being made.
    pub fn here(&mut self) -> &mut ModelGraph {
        let at = self.frames.last().map_or(0, |frame| frame.graph);
        &mut self.graphs[at].graph
    }

    /// Counts a call.
    ///
    /// # Errors
    /// There are too many.
    pub fn count_call(&mut self) -> Result<(), String> {
        self.calls += 1;
        match self.calls > MOST_CALLS {
            true => Err(format!("it makes more than {MOST_CALLS} calls")),
            false => Ok(()),
        }
    }

    /// A new value of the graph that is being made.
    fn new_value(&mut self, graph: usize, name: &str) -> Result<ValueId, String> {
        let names = &mut self.graphs[graph].graph.names;
        let id = ValueId::try_from(names.len()).map_err(|_| "it has too many values")?;
        names.push(name.to_owned());
        Ok(id)
    }

    /// A new value with a name.
    ///
    /// # Errors
    /// The name has a value.
    pub fn define(&mut self, name: &str) -> Result<ValueId, String> {
        let graph = self.frames.last().map_or(0, |frame| frame.graph);
        let id = self.new_value(graph, name)?;
        self.set(name, Meaning::Value(id))?;
        Ok(id)
    }

    /// Gives a value that a call made the name by which the graph knows it.
    pub fn rename(&mut self, id: ValueId, name: &str) {
        let graph = self.here();
        if !graph.inputs.contains(&id) {
            name.clone_into(&mut graph.names[id as usize]);
        }
    }

    /// Gives a name a meaning.
    ///
    /// # Errors
    /// It has one.
    pub fn set(&mut self, name: &str, meaning: Meaning) -> Result<(), String> {
        match self.frames.last_mut().and_then(|frame| frame.names.insert(name.to_owned(), meaning)) {
            Some(_) => Err(format!("`{}` is made twice", name.escape_debug())),
            None => Ok(()),
        }
    }

    /// The argument of this name; an empty name is an argument that is left out.
    ///
    /// # Errors
    /// The name is used before it is made.
    pub fn argument(&mut self, name: &str) -> Result<CallArgument, String> {
        if name.is_empty() { Ok(CallArgument::None) } else { self.lookup(name) }
    }

    fn lookup(&mut self, name: &str) -> Result<CallArgument, String> {
        let top = self.frames.len();
        match top.checked_sub(1).and_then(|top| self.find(top, name)) {
            Some(Meaning::Value(id)) => Ok(CallArgument::Value(id)),
            Some(Meaning::Unsupported(what)) => Ok(CallArgument::Unsupported(what)),
            Some(Meaning::Absent) => Ok(CallArgument::None),
            None => Err(format!("`{}` is used before it is made", name.escape_debug())),
        }
    }

    /// The meaning of a name in a frame. A value of a graph around becomes a further input.
    fn find(&mut self, frame: usize, name: &str) -> Option<Meaning> {
        if let Some(meaning) = self.frames[frame].names.get(name) {
            return Some(meaning.clone());
        }
        if !self.frames[frame].open {
            return None;
        }
        let around = self.find(frame.checked_sub(1)?, name)?;
        let Meaning::Value(outer) = around else { return Some(around) };
        let graph = self.frames[frame].graph;
        let id = self.new_value(graph, name).ok()?;
        self.graphs[graph].graph.inputs.push(id);
        self.graphs[graph].captured.push(outer);
        self.frames[frame].names.insert(name.to_owned(), Meaning::Value(id));
        Some(Meaning::Value(id))
    }

    /// A tensor of the file. Those of the model itself with several float elements are its parameters.
    fn initializer(&mut self, from: &TensorProto, outermost: bool) -> Result<(), String> {
        let tensor = match self.files.tensor(from) {
            Ok(tensor) => tensor,
            Err(NoTensor::Broken(why)) => return Err(why),
            Err(NoTensor::Unsupported(what)) => return self.set(&from.name, Meaning::Unsupported(what)),
        };
        let many = tensor.numel().value() > 1;
        let role = match outermost && tensor.dtype().is_float() && many {
            true => Role::Parameter(from.name.clone(), tensor),
            false => Role::Constant(tensor),
        };
        let meaning = self.constant(&from.name, role)?;
        self.set(&from.name, meaning)
    }

    /// The meaning of a tensor in an attribute.
    ///
    /// # Errors
    /// The file contradicts itself.
    pub fn attribute_tensor(&mut self, from: &TensorProto) -> Result<Meaning, String> {
        match self.files.tensor(from) {
            Ok(tensor) => self.constant("", Role::Constant(tensor)),
            Err(NoTensor::Broken(why)) => Err(why),
            Err(NoTensor::Unsupported(what)) => Ok(Meaning::Unsupported(what)),
        }
    }

    /// A constant: an input of the model's graph, which graphs inside of it capture.
    pub fn constant(&mut self, name: &str, role: Role) -> Result<Meaning, String> {
        let mut id = self.new_value(0, name)?;
        self.graphs[0].graph.inputs.push(id);
        self.roles.push(role);
        let innermost = self.frames.last().map_or(0, |frame| frame.graph);
        for graph in 1..=innermost {
            let inner = self.new_value(graph, name)?;
            self.graphs[graph].graph.inputs.push(inner);
            self.graphs[graph].captured.push(id);
            id = inner;
        }
        Ok(Meaning::Value(id))
    }

    /// Makes the calls of a function's body on these arguments, and gives its results.
    ///
    /// # Errors
    /// The body contradicts itself, or calls itself.
    pub fn inline(
        &mut self,
        function: &'a FunctionProto,
        arguments: Vec<Meaning>,
        attributes: &nodes::Attributes<'a>,
    ) -> Result<Vec<Meaning>, String> {
        if self.frames.len() > DEEPEST {
            return Err(format!("functions are nested deeper than {DEEPEST} levels"));
        }
        let graph = self.frames.last().map_or(0, |frame| frame.graph);
        self.opsets.push(nodes::opsets(&function.opset_import));
        self.frames.push(Frame { graph, open: false, ..Frame::default() });
        for (name, meaning) in function.input.iter().zip(arguments) {
            self.set(name, meaning)?;
        }
        for node in &function.node {
            nodes::node(self, node, attributes)?;
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
