//! Symbolic sizes: one program for all sizes that its guards admit.

use fulgurite::prelude::*;

fn ramp(sizes: &[usize]) -> Tensor {
    let n: usize = sizes.iter().product();
    Tensor::from_vec((0..n).map(|i| ((i * 7 + 3) % 11) as f32 * 0.25 - 1.0).collect(), sizes)
}

#[test]
fn a_pointwise_function_is_compiled_once_for_all_sizes() {
    let f = |x: Tensor, y: Tensor| (&x * 2.0 + y).exp();
    let symbolic = jit(f).caching(Caching::Symbolic).keep_traces();
    let constant = jit(f);
    for n in [4, 7, 4, 300, 1, 0] {
        let (x, y) = (ramp(&[n, 3]), ramp(&[n, 3]));
        let want = constant.call((x.clone(), y.clone())).unwrap().to_f64().unwrap();
        assert_eq!(symbolic.call((x, y)).unwrap().to_f64().unwrap(), want, "{n}");
    }
    let stats = symbolic.stats();
    println!("{stats}\n{}\n{}", symbolic.prologue().unwrap(), symbolic.trace("simplified").unwrap());
    assert_eq!((stats.misses.len(), stats.programs, stats.hits, stats.plans), (1, 1, 5, 4), "{stats}");
}
