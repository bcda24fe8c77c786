//! When a program serves again: by constant sizes, symbolic ones, the same input, never.

use fulgurite::prelude::*;
use std::cell::Cell;

fn ones(n: usize) -> Tensor {
    Tensor::from_vec(vec![1f32; n], n)
}

/// What `f` says of three calls at 4, 4 and 5 elements, and how often it was traced.
fn three(caching: Caching) -> (Vec<std::result::Result<f64, String>>, usize, fulgurite::jit::Stats) {
    let traced = Cell::new(0);
    let f = jit(|x: Tensor| {
        traced.set(traced.get() + 1);
        x.sum()
    })
    .caching(caching);
    let call = |n| match f.call(ones(n)).and_then(|t| t.item::<f32>()) {
        Ok(x) => Ok(f64::from(x)),
        Err(e) => Err(e.to_string()),
    };
    let said = [4, 4, 5].map(call).to_vec();
    (said, traced.get(), f.stats())
}

#[test]
fn constant_sizes_compile_for_each() {
    let (said, traced, stats) = three(Caching::Constant);
    assert_eq!((said, traced, stats.hits), (vec![Ok(4.0), Ok(4.0), Ok(5.0)], 2, 1));
    let reasons: Vec<_> = stats.misses.iter().map(|m| m.reasons.join("; ")).collect();
    assert_eq!(reasons, ["the first call", "`` was f32[4], is f32[5]"]);
}

#[test]
fn symbolic_sizes_compile_once() {
    let (said, traced, stats) = three(Caching::Symbolic);
    assert_eq!((said, traced, stats.hits, stats.plans), (vec![Ok(4.0), Ok(4.0), Ok(5.0)], 1, 2, 1));
    assert_eq!(stats.misses[0].reasons, ["the first call"]);
}

#[test]
fn the_same_input_is_a_promise_that_memory_does_not_rely_on() {
    let (said, traced, stats) = three(Caching::SameInput);
    assert_eq!((&said[..2], traced, stats.hits), (&[Ok(4.0), Ok(4.0)][..], 1, 2));
    let error = said[2].as_ref().unwrap_err();
    assert!(error.contains("E803") && error.contains("f32[4]") && error.contains("SameInput"), "{error}");
    assert_eq!((stats.misses.len(), stats.programs), (1, 1));
    // what was promised of fixed parts is not looked at
    let f = jit(|x: Tensor, Fixed(k): Fixed<f64>| x * k).caching(Caching::SameInput);
    let call = |k| f.call((ones(1), Fixed(k))).unwrap().item::<f32>().unwrap();
    assert_eq!((call(2.0), call(3.0)), (2.0, 2.0));
    // a poisoned argument is its own error
    let poisoned = ones(2) + ones(3);
    assert_eq!(f.call((poisoned, Fixed(1.0))).unwrap_err().code(), "E701");
    // state in place
    let step = jit(|w: Tensor, x: Tensor| (&w + &x, x.sum())).caching(Caching::SameInput);
    let mut w = ones(3);
    for _ in 0..3 {
        step.update(&mut w, ones(3)).unwrap();
    }
    assert_eq!(w.to_f64().unwrap(), [4.0; 3]);
    assert_eq!(step.update(&mut w, ones(4)).unwrap_err().code(), "E803");
    assert_eq!(w.to_f64().unwrap(), [4.0; 3], "an error leaves the state as it was");
}

#[test]
fn without_caching_each_call_compiles() {
    let (said, traced, stats) = three(Caching::Off);
    assert_eq!((said, traced, stats.hits, stats.programs), (vec![Ok(4.0), Ok(4.0), Ok(5.0)], 3, 0, 1));
    assert!(stats.misses.iter().all(|m| m.reasons == ["nothing is kept"]), "{stats}");
}

#[test]
fn symbolic_sizes_still_compile_for_other_dtypes_ranks_and_tags() {
    let f = jit(|x: Tensor| x.exp()).caching(Caching::Symbolic);
    let tagged = with_tag(&ones(3), fulgurite::trace::Tag::MUST_SAVE);
    for x in [ones(4), ones(4).reshape((2, 2)), ones(5).cast(DType::F64), tagged, ones(6)] {
        f.call(x).unwrap();
    }
    let stats = f.stats();
    let reasons: Vec<_> = stats.misses.iter().map(|m| m.reasons.join("; ")).collect();
    assert_eq!(stats.misses.len(), 4, "{stats}");
    assert_eq!(reasons[1], "`` was f32[4], is f32[2, 2]");
    assert!(reasons[2].contains("f64[5]") && reasons[3].contains("#must_save"), "{reasons:?}");
}

/// Plans of one program are kept for the sizes used last; what was forgotten is planned again, not compiled.
#[test]
fn plans_are_bounded() {
    let f = jit(|x: Tensor| x * 2.0).caching(Caching::Symbolic);
    for n in (1..=80).chain([80, 1]) {
        assert_eq!(f.call(ones(n)).unwrap().to_f64().unwrap(), vec![2.0; n]);
    }
    let stats = f.stats();
    assert_eq!((stats.misses.len(), stats.hits, stats.plans), (1, 81, 80), "{stats}");
}

#[test]
fn one_program_serves_many_threads() {
    let f = jit(|x: Tensor| grad(&x, |x| x.square().mean())).caching(Caching::Symbolic);
    f.call(ones(4)).unwrap();
    std::thread::scope(|s| {
        for at in 0..4 {
            let f = &f;
            s.spawn(move || {
                for n in (1..30).map(|n| 1 + (n * (at + 1)) % 17) {
                    let got = f.call(ones(n)).unwrap().to_f64().unwrap();
                    assert!(got.iter().all(|g| (g - 2.0 / n as f64).abs() < 1e-6), "{n} {got:?}");
                }
            });
        }
    });
    assert_eq!(f.stats().misses.len(), 1, "{}", f.stats());
}
