//! Calls that take the branches of rule texts: of what no call takes nothing is known.

mod met;
mod search;
mod trail;

pub use met::Open;
pub use search::{MOST_ELEMENTS, search};
pub use trail::{Trail, of_index};
