//! Values that share memory in PyTorch and not here: the parts of a tensor that was split. A
//! program that writes one of them and reads another is refused, because the read would not see the
//! write.

use crate::graph::{CallArgument, CallResult, ModelCall, ModelGraph, ValueId};
use fulgurite::foreign;
use std::collections::HashMap;

/// The memory of the values of a running graph that writes values; empty for other graphs.
pub struct SharedMemory {
    writes: bool,
    /// For a view, the value in whose memory it lies.
    roots: HashMap<ValueId, ValueId>,
    /// The values that were split, and their parts.
    split: HashMap<ValueId, Role>,
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    Whole,
    Part,
}

impl SharedMemory {
    /// The memory of a graph that begins to run.
    pub fn new(graph: &ModelGraph) -> SharedMemory {
        SharedMemory { writes: !graph.dense.is_empty(), roots: HashMap::new(), split: HashMap::new() }
    }

    fn root(&self, id: ValueId) -> ValueId {
        self.roots.get(&id).copied().unwrap_or(id)
    }

    /// Notes the values that a call of rows of these names makes.
    pub fn note(&mut self, node: &ModelCall, names: &[String]) {
        let (true, Some(CallArgument::Value(from))) = (self.writes, node.positional.first()) else { return };
        let root = self.root(*from);
        match &node.outputs[..] {
            [CallResult::List(ids)] => {
                self.split.insert(root, Role::Whole);
                self.split.extend(ids.iter().map(|id| (*id, Role::Part)));
            }
            [CallResult::One(id)] => {
                let is_view = |name: &String| foreign::forms(name).iter().any(|form| form.symbol.is_view());
                if names.iter().any(is_view) {
                    self.roots.insert(*id, root);
                }
            }
            _ => {}
        }
    }

    /// Whether the first argument of a call may be written.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check_write(&self, node: &ModelCall) -> Result<(), &'static str> {
        let Some(CallArgument::Value(id)) = node.positional.first() else { return Ok(()) };
        match self.split.get(&self.root(*id)) {
            None => Ok(()),
            Some(Role::Part) => Err("a write to a part of a split tensor has to reach the whole, and no row does that"),
            Some(Role::Whole) => Err("a write to a tensor that was split has to reach its parts, and no row does that"),
        }
    }
}
