use fulgurite::prelude::*;

fulgurite::op! {
    /// Three times x.
    triple(x: T) -> T,
    promote: default,
    dtypes: float,
    expr: 3 * * x,
}

fn main() {
    let _ = Tensor::from([1.0f32]).triple();
}
