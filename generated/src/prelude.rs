//! What a program with tensors usually needs: `use fulgurite::prelude::*;`.

pub use crate::nn::{Dropout, Embedding, LayerNorm, Linear, RmsNorm};
pub use crate::ops::{self, *};
pub use crate::optim::{AdamW, Sgd};
pub use crate::text::Text;
