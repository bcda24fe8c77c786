use fulgurite::prelude::*;

fulgurite::op! {
    /// The softplus of x.
    smooth(x: T) -> T,
    promote: float,
    expr: softplsu(x),
}

fn main() {}
