//! The usual imports of a program with tensors: `use fulgurite::prelude::*;`. Names of your own shadow these.

pub use crate::TensorOps;
pub use crate::nn::{BatchNorm, BatchStats, Conv, Dropout, Embedding, LayerNorm, Linear, RmsNorm};
pub use crate::ops::{self, *};
pub use crate::optim::{AdamW, Sgd};
pub use crate::text::Text;
pub use fulgurite_macros::{TensorSubclass, Tree};
pub use fulgurite_runtime::prelude::user::*;
