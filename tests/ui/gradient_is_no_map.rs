use fulgurite::prelude::*;

fulgurite::op! {
    /// Three times x.
    triple(x: T) -> T,
    promote: default,
    expr: 3 * x,
    grad: g * 3,
}

fn main() {}
