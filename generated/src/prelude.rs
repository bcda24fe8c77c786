//! The types, traits and transforms that a program with tensors usually needs: `use fulgurite::prelude::*;`. Names of
//! your own shadow these. Operators are methods of tensors, and functions in [`ops`].

pub use crate::TensorOps;
pub use crate::nn::{BatchNorm, BatchStats, Conv, Dropout, Embedding, LayerNorm, Linear, RmsNorm};
pub use crate::ops;
pub use crate::optim::{AdamW, Sgd};
pub use crate::text::Text;
pub use fulgurite_macros::{TensorSubclass, Tree};
pub use fulgurite_runtime::prelude::user::*;
