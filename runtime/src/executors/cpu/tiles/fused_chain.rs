//! A chain of builtins, from its discovery in the graph to its step.

use crate::executors::fusion::graph::NodeId;
use fulgurite_kernels::chain::{ChainCode, InputForm, TileChain};
use smallvec::SmallVec;

/// A chain in machine code. Its operands are the inputs of the code, in order.
pub(super) struct FusedChain {
    /// The operands.
    pub args: SmallVec<[NodeId; 8]>,
    /// The operations.
    pub chain: TileChain,
    /// The machine code that writes to the caches.
    pub code: ChainCode,
    /// The estimated nanoseconds per element.
    pub cost: f64,
}

impl FusedChain {
    /// The form of each operand.
    pub fn forms(&self) -> &[InputForm] {
        &self.chain.inputs
    }
}
