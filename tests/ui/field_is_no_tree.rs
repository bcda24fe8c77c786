use fulgurite::prelude::*;

#[derive(Tree, Clone)]
struct Model {
    w: Tensor,
    heads: usize,
}

fn main() {}
