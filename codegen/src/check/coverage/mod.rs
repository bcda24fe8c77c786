//! Branch coverage: a branch of a rule text that no call takes cannot be checked, so a call that takes it is searched.

mod meaning;
mod search;
mod trail;

pub use meaning::Open;
pub use search::{MOST_ELEMENTS, search};
pub use trail::{Trail, of_index};
