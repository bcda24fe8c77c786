use fulgurite::prelude::*;

#[derive(Tree, Clone)]
struct Model {
    w: Tensor,
    #[tree]
    heads: usize,
    #[tree(fixed = true)]
    causal: bool,
}

fn main() {}
