//! The program as data: proxies, bound symbols, regions and tags are in an [`Arena`]; a [`Trace`] is an ordered list
//! over it, which prints as a program, parses back, and is edited only by the [`Rewriter`](crate::bind::Rewriter).

pub mod arena;
pub mod control;
mod copy;
pub mod parse;
mod pieces;
pub mod print;
pub mod program;
mod sizes;
pub mod tag;
pub mod types;
pub mod verify;

mod lexer;
pub(crate) mod words;

pub use crate::error::Phase;
pub use arena::Arena;
pub use control::{Control, ControlKind, LineProgram};
pub use print::PrintOptions;
pub use program::{EpilogueWrite, Guard, InputCell, Provenance, Trace, TracePart};
pub use tag::{Carrier, Event, Policies, Policy, SplitSide, Tag, TagDecl, TagSet};
pub use types::*;
