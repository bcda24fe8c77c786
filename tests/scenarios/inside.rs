//! Compiled functions called while another one is traced: they do what they do when called outside.

use fulgurite::ops::stack;
use fulgurite::prelude::*;

fn data(x: &Tensor) -> Vec<f64> {
    x.to_f64().unwrap_or_else(|e| panic!("{e}"))
}

/// A write to a result is none to what it was made of.
#[test]
fn results_are_tensors_of_their_own() {
    let x = Tensor::from_vec(vec![1.0f64, 2.0, 3.0, 4.0], [2, 2]);
    let views: [fn(Tensor) -> Tensor; 5] =
        [|x| x, |x| x.select(0, 0), |x| x.reshape(-1), |x| x.permute([1, 0]), |x| x.slice()];
    for view in views {
        let f = move |x: Tensor| {
            let y = jit(view).call(x.clone()).unwrap_or_else(Tensor::poisoned);
            y.add_(10.0);
            (x, y)
        };
        let want: Vec<f64> = data(&view(x.copy())).iter().map(|x| x + 10.0).collect();
        let (at_once, y) = f(x.copy());
        assert_eq!((data(&at_once), data(&y)), (data(&x), want.clone()));
        let (compiled, y) = jit(f).call(x.copy()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((data(&compiled), data(&y)), (data(&x), want));
    }
    // each of two results that are one value, and one that shows an element twice
    let twice = |x: Tensor| {
        let both = |x: Tensor| {
            let y = x.select(0, 0).expand([2, 2]);
            (y.clone(), y)
        };
        let (a, b) = jit(both).call(x).unwrap_or_else(|e| (Tensor::poisoned(e.clone()), Tensor::poisoned(e)));
        a.add_(10.0);
        (a, b)
    };
    for (a, b) in [twice(x.copy()), jit(twice).call(x.copy()).unwrap_or_else(|e| panic!("{e}"))] {
        assert_eq!((data(&a), data(&b)), (vec![11.0, 12.0, 11.0, 12.0], vec![1.0, 2.0, 1.0, 2.0]));
    }
}

/// Keys of a state that come back as they went move on, at once and inside of a trace to the same keys.
#[test]
fn keys_of_a_state_move_on() {
    let step = |(x, key): (Tensor, Key), scale: Tensor| {
        let drawn = ops::uniform(&key, [2]);
        ((x + &drawn * scale, key), drawn)
    };
    let run = move |x: Tensor, key: Key| {
        let step = jit(step);
        let mut state = (x, key);
        let drawn = [1.0f32, 2.0, 3.0]
            .map(|scale| step.update(&mut state, Tensor::from([scale, scale])).unwrap_or_else(Tensor::poisoned));
        (state.0, state.1, drawn.to_vec())
    };
    let (x, key) = (Tensor::from([0.0f32, 0.0]), Key::new(3));
    let (sum, last, drawn) = run(x.clone(), key.clone());
    let executors = [vec![], fulgurite::executors::find("interp").into_iter().collect::<Vec<_>>()];
    for executors in executors {
        let (traced_sum, traced_last, traced) =
            jit(run).on(executors).call((x.clone(), key.clone())).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((data(&sum), last.parts()), (data(&traced_sum), traced_last.parts()));
        assert_eq!(drawn.iter().map(data).collect::<Vec<_>>(), traced.iter().map(data).collect::<Vec<_>>());
    }
    assert!(data(&drawn[0]) != data(&drawn[1]) && data(&drawn[1]) != data(&drawn[2]));
    // a step that splits its key draws nothing that the next step draws
    let split = |key: Key, at: Tensor| {
        let [a, b] = key.split::<2>();
        let drawn = stack(&[ops::uniform(&a, [2]), ops::uniform(&b, [2]), ops::uniform(&key, [2])]);
        (key, drawn * at)
    };
    let (split, mut state, mut seen) = (jit(split), Key::new(5), Vec::new());
    for _ in 0..4 {
        let drawn = split.update(&mut state, Tensor::scalar(1.0f32)).unwrap_or_else(|e| panic!("{e}"));
        seen.extend(data(&drawn).iter().map(|x| x.to_bits()));
    }
    let count = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), count);
}
