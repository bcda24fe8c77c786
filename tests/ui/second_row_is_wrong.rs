use fulgurite::prelude::*;

fulgurite::op! {
    /// Three times x.
    triple(x: T) -> T,
    promote: default,
    dtypes: float,
    expr: 3 * x,
    grad: { x: g * 3 },

    /// x cubed.
    cube(x: T) -> T,
    promote: default,
    dtypes: float,
    expr: x * x * x,
    grad: { x: g * 2 * x * x },
}

fn main() {}
