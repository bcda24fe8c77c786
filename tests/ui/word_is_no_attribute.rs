use fulgurite::prelude::*;

#[derive(Tree, Clone)]
struct Model {
    w: Tensor,
    #[tree(static)]
    heads: usize,
}

fn main() {}
