use fulgurite::prelude::*;

#[derive(Tree, Clone)]
enum Layer {
    Dense(Linear),
    Repeat { layer: Box<Layer>, times: usize },
}

fn main() {}
