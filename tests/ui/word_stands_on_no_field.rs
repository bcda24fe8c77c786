use fulgurite::prelude::*;

#[derive(Tree, Clone)]
#[tree(fixed)]
struct Model {
    w: Tensor,
}

fn main() {}
