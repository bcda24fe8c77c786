use fulgurite::prelude::*;

fulgurite::op! {
    (x: T) -> T,
    expr: 3 * x,
}

fn main() {}
