//! The program of a model in a form that is independent of file formats: values, calls and their
//! arguments.

use crate::names::{Implementation, implementation};
use fulgurite::core::loc::Loc;
use fulgurite::core::{DType, Scalar};
use std::sync::OnceLock;

/// A value of a graph: an input, or a result of a node.
pub type ValueId = u32;

/// A program: each value is made once, before it is used.
#[derive(Debug, Default)]
pub struct ModelGraph {
    /// The inputs, in order.
    pub inputs: Vec<ValueId>,
    /// The calls, in order.
    pub nodes: Vec<ModelCall>,
    /// The outputs, in order.
    pub outputs: Vec<CallArgument>,
    /// The name of each value in the file.
    pub names: Vec<String>,
    /// For a program that writes values, whether each value lies in memory in the order of its axes; otherwise empty.
    pub dense: Vec<bool>,
}

#[derive(Debug)]
pub struct ModelCall {
    /// The called function, such as `aten.add.Tensor` or `_operator.mul`.
    pub target: String,
    pub positional: Vec<CallArgument>,
    pub named: Vec<(String, CallArgument)>,
    pub outputs: Vec<CallResult>,
    /// The modules around the call, outermost first: `layer1`, `0`, `conv1`.
    pub scope: Vec<String>,
    /// The line of the source that made the call.
    pub loc: Loc,
    /// The values that no later node and no output uses.
    pub last_uses: Vec<ValueId>,
    /// The implementation of the target, once it was looked up.
    pub resolved: OnceLock<Implementation>,
}

/// An argument of a call, or an output of a graph.
#[derive(Debug)]
pub enum CallArgument {
    /// Nothing.
    None,
    Value(ValueId),
    Number(Scalar),
    Text(String),
    DType(DType),
    List(Vec<CallArgument>),
    /// A program, for a call with a program as an argument.
    Graph(Box<Closure>),
    /// A device, a memory layout: every value here is dense and of the program's device.
    Ignored,
    /// An argument that no row can have, in words.
    Unsupported(String),
}

/// A program among the arguments of a call.
#[derive(Debug)]
pub struct Closure {
    pub graph: ModelGraph,
    /// The values around it that it reads, which are its last inputs.
    pub captured: Vec<ValueId>,
}

#[derive(Debug)]
pub enum CallResult {
    /// A result that is not used.
    None,
    One(ValueId),
    /// A list of values, which are named one by one.
    List(Vec<ValueId>),
}

impl CallArgument {
    /// The program, if the argument is one.
    pub fn closure(&self) -> Option<&Closure> {
        match self {
            CallArgument::Graph(closure) => Some(closure),
            _ => None,
        }
    }

    /// Visits every value of the argument.
    pub fn values(&self, visit: &mut impl FnMut(ValueId)) {
        match self {
            CallArgument::Value(id) => visit(*id),
            CallArgument::List(items) => items.iter().for_each(|item| item.values(visit)),
            CallArgument::Graph(closure) => closure.captured.iter().for_each(|id| visit(*id)),
            _ => {}
        }
    }
}

impl ModelCall {
    /// The implementation of the call.
    pub fn implementation(&self) -> &Implementation {
        self.resolved.get_or_init(|| implementation(&self.target))
    }

    /// The arguments, positional ones first.
    pub fn arguments(&self) -> impl Iterator<Item = &CallArgument> {
        self.positional.iter().chain(self.named.iter().map(|(_, argument)| argument))
    }

    /// The results that have a name.
    pub fn results(&self) -> impl Iterator<Item = ValueId> {
        self.outputs
            .iter()
            .flat_map(|output| match output {
                CallResult::None => &[],
                CallResult::One(id) => std::slice::from_ref(id),
                CallResult::List(ids) => ids.as_slice(),
            })
            .copied()
    }
}

impl ModelGraph {
    /// Notes for each node the values whose last use it is, so that a replay frees them.
    pub fn note_last_uses(&mut self) {
        let mut used = vec![false; self.names.len()];
        for output in &self.outputs {
            output.values(&mut |id| used[id as usize] = true);
        }
        for node in self.nodes.iter_mut().rev() {
            let mut ended = Vec::new();
            let mut note = |id: ValueId| {
                if !std::mem::replace(&mut used[id as usize], true) {
                    ended.push(id);
                }
            };
            node.arguments().for_each(|argument| argument.values(&mut note));
            node.results().for_each(note);
            node.last_uses = ended;
        }
    }

    /// Visits all nodes; the nodes of programs in arguments come after the node that has these
    /// arguments.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a ModelCall)) {
        for node in &self.nodes {
            visit(node);
            for argument in node.arguments() {
                if let Some(closure) = argument.closure() {
                    closure.graph.walk(visit);
                }
            }
        }
    }
}
