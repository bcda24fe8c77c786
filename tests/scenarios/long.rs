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

/// Views of views, as many as a long loop makes: nothing goes down the chain on the stack.
#[test]
fn a_long_chain_of_views_is_read_written_and_let_go() {
    let x = Tensor::from_vec(vec![1.0f64, 2.0, 3.0, 4.0], [2, 2]);
    let chain = |x: &Tensor, n: usize| (0..n).fold(x.clone(), |y, _| y.transpose(0, 1));
    let numbers = |t: &Tensor| t.to_f64().expect("numbers");
    let read = jit(move |x: Tensor| grad(&x, |x| (chain(x, 16_000) * x).sum())).call(x.clone()).expect("runs");
    assert_eq!(numbers(&read), [2.0, 4.0, 6.0, 8.0]);
    assert_eq!(numbers(&chain(&x, 16_000)), [1.0, 2.0, 3.0, 4.0]);
    let write = move |x: Tensor| {
        let y = &x * 1.0;
        let v = chain(&y, 2_001);
        v.select(0, 0).add_(1.0);
        v.mul_(2.0);
        y
    };
    let compiled = jit(write).call(x.clone()).expect("runs");
    assert_eq!(numbers(&compiled), [4.0, 4.0, 8.0, 8.0]);
    assert_eq!(numbers(&write(x)), [4.0, 4.0, 8.0, 8.0]);
}
