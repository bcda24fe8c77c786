use fulgurite::prelude::*;
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let w = Tensor::from([[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    let p = Tensor::from([[0.5f32, 0.25], [0.125, 1.0]]);
    let ix = Tensor::from([[0i64, 2], [1, 1]]);
    let c = Tensor::from([[[0.1f32, 0.2], [0.3, 0.4]], [[0.5, 0.6], [0.7, 0.8]]]);
    let at = Tensor::from([0i64, 1]);
    let f = |(w, p): (Tensor, Tensor)| ((w.embedding(&ix) + p.embedding(&at)) * &c).sum();
    let (l, (gw, gp)) = value_and_grad(&(w.clone(), p.clone()), |(w, p)| f((w.clone(), p.clone())));
    println!("{:?} {:?} {:?}", l.to_f64()?, gw.to_f64()?, gp.to_f64()?);
    let j = jit(|(w, p): (Tensor, Tensor)| {
        let (l, (a, b)) = value_and_grad(&(w, p), |(w, p)| f((w.clone(), p.clone())));
        (l, a, b)
    });
    let (l, gw, gp) = j.call((w, p))?;
    println!("{:?} {:?} {:?}", l.to_f64()?, gw.to_f64()?, gp.to_f64()?);
    Ok(())
}
