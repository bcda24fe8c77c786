//! The state of graphs that are being made: what names mean, in graphs inside of graphs and in bodies of functions.

use super::messages::{FunctionProto, ModelProto, OperatorSet, TensorProto};
use super::tensors::{NoTensor, TensorFiles};
use super::weight;
use crate::graph::{CallArgument, ModelGraph, ValueId};
use fulgurite::Tensor;
use prost::Message;
use std::collections::HashMap;
use std::path::Path;

/// The deepest nesting of programs and functions.
pub const DEEPEST: usize = 32;
/// At most this many calls, because functions that call functions can stand for any number.
const MOST_CALLS: usize = 1 << 20;

/// The source of an input of the graph.
pub enum InputRole {
    /// An input of a call.
    Input,
    Constant(Tensor),
    Parameter(String, Tensor),
}

/// A graph, and the sources of its inputs.
pub struct MadeGraph {
    pub graph: ModelGraph,
    pub roles: Vec<InputRole>,
}

#[derive(Clone)]
pub enum NameMeaning {
    Value(ValueId),
    /// A tensor that does not exist here, and why.
    Unsupported(String),
    /// An argument that a call of a function leaves out.
    Absent,
}

/// The names of a graph or of the body of a function.
#[derive(Default)]
pub struct Frame {
    pub names: HashMap<String, NameMeaning>,
    /// The graph of the frame, by its place in [`Maker::graphs`].
    pub graph: usize,
    /// Whether names that are not here are those of the frame below.
    pub open: bool,
}

/// A graph that is being made, and the values around it that it reads.
#[derive(Default)]
pub struct OpenGraph {
    pub graph: ModelGraph,
    pub captured: Vec<ValueId>,
}

/// The domain of ONNX's own operators has two names.
pub fn domain(name: &str) -> &str {
    if name == "ai.onnx" { "" } else { name }
}

/// The versions of operators by domain.
pub fn opsets(sets: &[OperatorSet]) -> HashMap<String, i64> {
    sets.iter().map(|set| (domain(&set.domain).to_owned(), set.version)).collect()
}

/// Makes graphs.
pub struct Maker<'a> {
    /// The name of the file.
    pub file: String,
    pub functions: HashMap<(String, String, String), &'a FunctionProto>,
    files: TensorFiles,
    /// The versions of operators by domain; those of a function come last.
    pub opsets: Vec<HashMap<String, i64>>,
    pub frames: Vec<Frame>,
    pub graphs: Vec<OpenGraph>,
    pub roles: Vec<InputRole>,
    /// The number of calls.
    calls: usize,
    /// The bytes of bodies that may still be repeated. They are counted in addition to the calls,
    /// because a call can have any number of arguments.
    repeatable: usize,
}

impl<'a> Maker<'a> {
    /// A maker of graphs of this model.
    pub fn new(path: &Path, model: &'a ModelProto, files: TensorFiles) -> Maker<'a> {
        let key = |f: &'a FunctionProto| (domain(&f.domain).to_owned(), f.name.clone(), f.overload.clone());
        Maker {
            file: path.file_name().map_or_else(String::new, |name| name.to_string_lossy().escape_debug().to_string()),
            functions: model.functions.iter().map(|f| (key(f), f)).collect(),
            opsets: vec![opsets(&model.opset_import)],
            frames: Vec::new(),
            graphs: Vec::new(),
            roles: Vec::new(),
            calls: 0,
            repeatable: weight::allowed(files.bytes()),
            files,
        }
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

    /// Counts a message that is repeated: the body of a function that is called, or an attribute that it passes on.
    ///
    /// # Errors
    /// The repeated messages are too large.
    pub fn count_repeated(&mut self, message: &impl Message) -> Result<(), String> {
        let left = self.repeatable.checked_sub(message.encoded_len());
        self.repeatable = left.ok_or("the calls of its functions stand for too long a program")?;
        Ok(())
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
        self.set(name, NameMeaning::Value(id))?;
        Ok(id)
    }

    /// Gives a value that a call made the name by which the graph knows it.
    pub fn rename(&mut self, id: ValueId, name: &str) {
        let graph = self.here();
        // the newest value is the last input, so the numbers of inputs are in order
        if graph.inputs.binary_search(&id).is_err() {
            name.clone_into(&mut graph.names[id as usize]);
        }
    }

    /// Gives a name a meaning.
    ///
    /// # Errors
    /// It has one.
    pub fn set(&mut self, name: &str, meaning: NameMeaning) -> Result<(), String> {
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

    pub fn lookup(&mut self, name: &str) -> Result<CallArgument, String> {
        let top = self.frames.len();
        match top.checked_sub(1).and_then(|top| self.find(top, name)) {
            Some(NameMeaning::Value(id)) => Ok(CallArgument::Value(id)),
            Some(NameMeaning::Unsupported(what)) => Ok(CallArgument::Unsupported(what)),
            Some(NameMeaning::Absent) => Ok(CallArgument::None),
            None => Err(format!("`{}` is used before it is made", name.escape_debug())),
        }
    }

    /// The meaning of a name in a frame. A value of a graph around becomes a further input.
    pub fn find(&mut self, frame: usize, name: &str) -> Option<NameMeaning> {
        if let Some(meaning) = self.frames[frame].names.get(name) {
            return Some(meaning.clone());
        }
        if !self.frames[frame].open {
            return None;
        }
        let around = self.find(frame.checked_sub(1)?, name)?;
        let NameMeaning::Value(outer) = around else { return Some(around) };
        let graph = self.frames[frame].graph;
        let id = self.new_value(graph, name).ok()?;
        self.graphs[graph].graph.inputs.push(id);
        self.graphs[graph].captured.push(outer);
        self.frames[frame].names.insert(name.to_owned(), NameMeaning::Value(id));
        Some(NameMeaning::Value(id))
    }

    /// A tensor of the file. Those of the model itself with several float elements are its parameters.
    pub fn initializer(&mut self, from: &TensorProto, outermost: bool) -> Result<(), String> {
        let tensor = match self.files.tensor(from) {
            Ok(tensor) => tensor,
            Err(NoTensor::Broken(why)) => return Err(why),
            Err(NoTensor::Unsupported(what)) => return self.set(&from.name, NameMeaning::Unsupported(what)),
        };
        let many = tensor.numel().value() > 1;
        let role = match outermost && tensor.dtype().has_gradient() && many {
            true => InputRole::Parameter(from.name.clone(), tensor),
            false => InputRole::Constant(tensor),
        };
        let meaning = self.constant(&from.name, role)?;
        self.set(&from.name, meaning)
    }

    /// The meaning of a tensor in an attribute.
    ///
    /// # Errors
    /// The file contradicts itself.
    pub fn attribute_tensor(&mut self, from: &TensorProto) -> Result<NameMeaning, String> {
        match self.files.tensor(from) {
            Ok(tensor) => self.constant("", InputRole::Constant(tensor)),
            Err(NoTensor::Broken(why)) => Err(why),
            Err(NoTensor::Unsupported(what)) => Ok(NameMeaning::Unsupported(what)),
        }
    }

    /// A constant: an input of the model's graph, which graphs inside of it capture.
    pub fn constant(&mut self, name: &str, role: InputRole) -> Result<NameMeaning, String> {
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
        Ok(NameMeaning::Value(id))
    }
}
