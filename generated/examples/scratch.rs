use fulgurite::prelude::*;
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let r = |n: usize, k: usize, s: &[usize]| {
        Tensor::from((0..n).map(|i| ((i * 7 + k) % 11) as f64 / 4.0 - 1.0).collect::<Vec<f64>>()).reshape(s)
    };
    let (x, w, c, v) = (r(6, 1, &[2, 3]), r(3, 2, &[3]), r(6, 3, &[2, 3]), r(6, 4, &[2, 3]));
    let vw = r(3, 5, &[3]);
    let ln = |x: &Tensor, w: Option<&Tensor>| x.layer_norm(w, None, 3);
    let by_hand = |x: &Tensor, w: Option<&Tensor>| {
        let m = x.mean_with(ops::Mean { dims: [1].into(), keepdim: true, ..d() });
        let d = x - &m;
        let r = ((&d * &d).mean_with(ops::Mean { dims: [1].into(), keepdim: true, ..d_() }) + 1e-5).rsqrt();
        let y = &d * &r;
        match w {
            Some(w) => y * w,
            None => y,
        }
    };
    println!(
        "{:?}\n{:?}",
        grad(&x, |x| (grad(x, |x| (ln(x, None) * &c).sum()) * &v).sum()).to_f64()?,
        grad(&x, |x| (grad(x, |x| (by_hand(x, None) * &c).sum()) * &v).sum()).to_f64()?
    );
    let p = (x.clone(), w.clone());
    let (a, b) = grad(&p, |(x, w)| {
        let (gx, gw) = grad(&(x.clone(), w.clone()), |(x, w)| (ln(x, Some(w)) * &c).sum());
        (gx * &v).sum() + (gw * &vw).sum()
    });
    let (a2, b2) = grad(&p, |(x, w)| {
        let (gx, gw) = grad(&(x.clone(), w.clone()), |(x, w)| (by_hand(x, Some(w)) * &c).sum());
        (gx * &v).sum() + (gw * &vw).sum()
    });
    println!("{:?}\n{:?}\n{:?}\n{:?}", a.to_f64()?, a2.to_f64()?, b.to_f64()?, b2.to_f64()?);
    Ok(())
}
fn d_<T: Default>() -> T {
    T::default()
}
