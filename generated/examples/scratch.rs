use fulgurite::prelude::*;
use fulgurite::symbol;
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let x = Tensor::from([[1.0f64, 2.0, 3.0], [4., 5.0, 6.0]]);
    let s = symbol::find("repeat.vjp.x".into()).unwrap();
    let d = fulgurite::core::derive::derive(s.row(), &symbol::Registered);
    println!("{:?} {:?}", d.failed, d.rules.len());
    let _ = x;
    Ok(())
}
