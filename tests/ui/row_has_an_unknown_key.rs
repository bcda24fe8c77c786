use fulgurite::prelude::*;

fulgurite::op! {
    /// Three times x.
    triple(x: T) -> T,
    promote: default,
    expresion: 3 * x,
}

fn main() {}
