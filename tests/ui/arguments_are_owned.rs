use fulgurite::prelude::*;

#[derive(Tree, Clone)]
struct Model {
    w: Tensor,
}

fn main() {
    let f = jit(|m: &Model| m.w.sum());
    let _ = f.call(Model { w: Tensor::from([1.0f32]) });
}
