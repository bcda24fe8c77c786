use fulgurite::prelude::*;

#[derive(Tree, Clone, Copy)]
union Either {
    a: f32,
    b: i32,
}

fn main() {}
