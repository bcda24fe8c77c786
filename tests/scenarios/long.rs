//! Programs of thousands of lines: more than one program of the executor holds, and more than are open for fusion at once.

use fulgurite::prelude::*;

#[test]
fn the_gradient_of_a_long_chain() {
    let f = jit(|x: Tensor| {
        grad(&x, |x| {
            let mut y = x.clone();
            for _ in 0..3000 {
                y = y.sin();
            }
            y.sum()
        })
    });
    let x = [0.5f64, -1.25];
    let want = x.map(|x| {
        let (mut y, mut slope) = (x, 1.0);
        for _ in 0..3000 {
            slope *= y.cos();
            y = y.sin();
        }
        slope
    });
    let got = f.call(Tensor::from(x)).expect("runs").to_f64().expect("data");
    assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() <= 1e-12 * b.abs()), "{got:?} for {want:?}");
}

#[test]
fn lines_that_do_not_fuse_beyond_what_is_open() {
    // each scan is an item of its own: 2,600 of them, and what the first ones made is read by the last
    let f = jit(|x: Tensor| {
        let first = x.cumsum(0);
        let mut y = first.clone();
        for _ in 0..2600 {
            y = (y * 0.5).cumsum(0) - &first;
        }
        y + first
    });
    let mut first = [0.25f64, -0.5];
    first[1] += first[0];
    let mut y = first;
    for _ in 0..2600 {
        let half = y.map(|v| v * 0.5);
        y = [half[0] - first[0], half[0] + half[1] - first[1]];
    }
    let want = [y[0] + first[0], y[1] + first[1]];
    let got = f.call(Tensor::from([0.25f64, -0.5])).expect("runs").to_f64().expect("data");
    assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() <= 1e-9), "{got:?} for {want:?}");
}
