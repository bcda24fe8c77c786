use fulgurite::prelude::*;

fn main() {
    let x = Tensor::from([1.0f32]);
    if x.mean() > 0.0 {
        println!("positive");
    }
}
