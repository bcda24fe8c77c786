use fulgurite::prelude::*;

fn main() {
    let f = jit(|x: Tensor, scale: f64| x * scale);
    let _ = f.call((Tensor::from([1.0f32]), 0.5));
}
