//! Control flow as lines: a `cond`, `while_loop` or `scan` line has programs, which it runs as its arguments say.
//!
//! A program of a line is closed: it reads its inputs and nothing else, so it can be differentiated, batched and
//! compiled as any trace. The arena keeps the programs; the last argument of the line is their number there.

use super::types::{BoundSymbol, ProxyId, RegionId};
use fulgurite_core::Dim;
use fulgurite_core::loc::Loc;
use std::rc::Rc;

/// The programs of a line of control flow.
#[derive(Clone, Debug)]
pub struct Control {
    /// The kind of the line.
    pub kind: ControlKind,
    /// The programs, in the order of [`ControlKind::program_names`].
    pub programs: Vec<LineProgram>,
    /// Whether the programs have been simplified.
    pub simplified: bool,
}

/// The kinds of control flow. Each says in which groups the arguments of the line follow each other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ControlKind {
    /// Runs one of two programs. The arguments are a truth value, then the inputs of both programs.
    Cond,
    /// Runs a program while a condition holds. The arguments are the carries, then the values that all steps read.
    While {
        /// The number of carries.
        carries: usize,
        /// The most steps that are run.
        bound: Option<usize>,
    },
    /// Runs a program for each slice along the first axis. The arguments are the carries, the sliced tensors, then the
    /// values that all steps read. The results are the last carries, then the stacked results of the steps.
    Scan {
        /// The number of carries.
        carries: usize,
        /// The number of sliced tensors.
        slices: usize,
        /// The number of steps.
        length: Dim,
        /// Whether the last slice comes first.
        reverse: bool,
        /// Whether the last stacked results are the carries before each step, which a gradient reads.
        keeps: bool,
    },
}

impl ControlKind {
    /// The name of the line in print and in messages.
    pub fn name(&self) -> &'static str {
        match self {
            ControlKind::Cond => "cond",
            ControlKind::While { .. } => "while_loop",
            ControlKind::Scan { .. } => "scan",
        }
    }

    /// The names of the programs.
    pub fn program_names(&self) -> &'static [&'static str] {
        match self {
            ControlKind::Cond => &["then", "otherwise"],
            ControlKind::While { .. } => &["condition", "body"],
            ControlKind::Scan { .. } => &["body"],
        }
    }

    /// The number of arguments that are not inputs of the programs.
    pub fn before_inputs(&self) -> usize {
        usize::from(*self == ControlKind::Cond)
    }

    /// The lengths of the groups of `count` arguments.
    pub fn groups(&self, count: usize) -> Vec<usize> {
        let heads = match *self {
            ControlKind::Cond => vec![1],
            ControlKind::While { carries, .. } => vec![carries],
            ControlKind::Scan { carries, slices, .. } => vec![carries, slices],
        };
        let rest = count.saturating_sub(heads.iter().sum());
        heads.into_iter().chain([rest]).collect()
    }
}

/// A program of a line.
#[derive(Clone, Debug)]
pub struct LineProgram {
    /// The inputs.
    pub inputs: Vec<ProxyId>,
    /// The lines.
    pub lines: Vec<Rc<BoundSymbol>>,
    /// The results.
    pub outputs: Vec<ProxyId>,
    /// The region in which the program was recorded.
    pub root: RegionId,
    /// The epoch of the types of its values.
    pub epoch: u32,
    /// The user's call.
    pub loc: Loc,
}
