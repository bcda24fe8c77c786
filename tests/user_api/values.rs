//! What functions take and return, numbers beside tensors, sizes: the forms that `functions.rs` has no room for.

use fulgurite::ops::arange;
use fulgurite::prelude::*;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

fn numbers(t: &Tensor) -> Vec<f64> {
    t.to_f64().expect("no error on the way")
}

#[test]
fn functions_take_one_or_several_arguments() {
    let one = jit(|(x, y): (Tensor, Tensor)| x - y);
    let two = jit(|x: Tensor, y: Tensor| x - y);
    let none = jit(|| Tensor::from([4.0f32]));
    let (x, y) = (Tensor::from([3.0f32]), Tensor::from([1.0f32]));
    assert_eq!(numbers(&one.call((x.clone(), y.clone())).expect("runs")), [2.0]);
    assert_eq!(numbers(&two.call((x, y)).expect("runs")), [2.0]);
    assert_eq!(numbers(&none.call(()).expect("runs")), [4.0]);
}

#[test]
fn containers_are_trees() {
    let t = |x: f64| Tensor::from([x]);
    let f = jit(|a: [Tensor; 2], b: Vec<Tensor>, c: (Option<Tensor>, Box<Tensor>, Arc<Tensor>)| {
        let sum = a.iter().chain(&b).sum::<Tensor>() + c.0.expect("was given") + *c.1 + &*c.2;
        (sum, None::<Tensor>)
    });
    let arguments = ([t(1.0), t(2.0)], vec![t(3.0)], (Some(t(4.0)), Box::new(t(5.0)), Arc::new(t(6.0))));
    let (sum, none) = f.call(arguments).expect("runs");
    assert_eq!((numbers(&sum), none.is_none()), (vec![21.0], true));

    let maps = jit(|a: BTreeMap<String, Tensor>, b: HashMap<String, Tensor>, c: VecDeque<Tensor>| {
        a["x"].clone() * &b["x"] * &c[0]
    });
    let name = "x".to_owned();
    let arguments =
        (BTreeMap::from([(name.clone(), t(2.0))]), HashMap::from([(name, t(3.0))]), VecDeque::from([t(7.0)]));
    assert_eq!(numbers(&maps.call(arguments).expect("runs")), [42.0]);
}

#[derive(Debug)]
enum Fault {
    Empty,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("there is nothing to learn from")
    }
}

impl std::error::Error for Fault {}

#[test]
fn errors_of_ones_own_pass_through() {
    let f = jit(|x: Tensor| -> std::result::Result<Tensor, Fault> {
        if x.dims::<1>()[0].is_empty() { Err(Fault::Empty) } else { Ok(x.sum()) }
    });
    let e = f.call(Tensor::from_vec(Vec::<f32>::new(), 0)).expect_err("no elements");
    assert!(e.to_string().contains("nothing to learn from"), "{e}");
    let f = jit(|x: Tensor| -> std::io::Result<Tensor> {
        std::fs::read("a file that is not there")?;
        Ok(x)
    });
    assert!(f.call(Tensor::from([1.0f32])).is_err());
}

#[test]
fn a_closure_with_a_question_mark_returns_more_than_the_loss() {
    let x = Tensor::from([1.0f64, 2.0]);
    let run = |limit: usize| {
        try_value_and_grad(&x, |x| {
            let n = x.rank();
            if n > limit { Err(format!("{n} axes")) } else { Ok(((x * x).sum(), x.exp())) }
        })
    };
    let ((loss, rest), g) = run(1).expect("one axis");
    assert_eq!((numbers(&loss), numbers(&g)), (vec![5.0], vec![2.0, 4.0]));
    assert_eq!(rest.rank(), 1);
    assert!(run(0).expect_err("one axis is more than none").to_string().contains("1 axes"));
}

#[test]
fn an_error_leaves_the_state_as_it_was() {
    let step = jit(|state: Tensor, batch: Tensor| (&state + &batch, batch.sum()));
    let mut state = Tensor::from([1.0f32, 2.0]);
    step.update(&mut state, Tensor::from([1.0f32, 1.0])).expect("fits");
    assert_eq!(step.update(&mut state, Tensor::from([1.0f32, 1.0, 1.0])).expect_err("2 and 3").code(), "E701");
    assert_eq!(numbers(&state), [2.0, 3.0]);
}

#[test]
fn numbers_stand_on_either_side() {
    let x = Tensor::from([1.0f64, -2.0]);
    assert_eq!(numbers(&(2 * &x)), [2.0, -4.0]);
    // the type is known where a method is called or a sign stands before it
    assert_eq!(numbers(&(1.0 - &x).sum()), [3.0]);
    assert_eq!(numbers(&-(1 - x.clone())), [0.0, -3.0]);
    assert_eq!(numbers(&(0.5 * x.clone() + 1)), [1.5, 0.0]);
    assert_eq!(numbers(&-&x), [-1.0, 2.0]);
    assert_eq!(numbers(&[&x, &x].into_iter().sum::<Tensor>()), [2.0, -4.0]);
    let mut y = x.clone();
    y += 1.0;
    y *= &x;
    assert_eq!(numbers(&y), [2.0, 2.0]);
}

#[test]
fn one_bound_of_two_may_be_left_out() {
    let x = Tensor::from([-2.0f64, 0.5, 3.0]);
    assert_eq!(numbers(&x.clamp((), 1.0)), [-2.0, 0.5, 1.0]);
    assert_eq!(numbers(&x.clamp(0.0, ())), [0.0, 0.5, 3.0]);
    assert_eq!(numbers(&x.clamp(0.0, Tensor::from([1.0f64, 0.0, 2.0]))), [0.0, 0.0, 2.0]);
}

#[test]
fn sizes_are_computed_with() {
    let x = Tensor::from_vec((0..12).map(f64::from).collect(), (2, 6));
    let [b, t] = x.dims();
    let shape = |x: Tensor| x.shape().into_iter().map(Dim::value).collect::<Vec<_>>();
    assert_eq!(shape(x.reshape((b, 2, t / 2))), [2, 2, 3]);
    assert_eq!(shape(x.reshape((b * t, 1, -1))), [12, 1, 1]);
    assert_eq!(numbers(&arange(t)), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    // a size that stands for an error is told where it is used
    let [_, _, none] = x.dims();
    assert_eq!(arange(none).check().expect_err("two axes").code(), "E745");
}

/// The recorded values of PyTorch are compared in f64, where a step has another length.
#[test]
fn nextafter_steps_in_the_dtype_of_its_arguments() {
    let inf = f64::INFINITY;
    for (dtype, x, y, next) in [
        (DType::F32, 1.0, 2.0, 1.0 + f32::EPSILON as f64),
        (DType::F32, 0.0, -1.0, -1.401298464324817e-45),
        (DType::F32, inf, 0.0, f32::MAX as f64),
        (DType::F16, 1.0, 2.0, 1.0009765625),
        (DType::F16, 1.0, 0.0, 0.99951171875),
        (DType::F16, -1.9990234375, -3.0, -2.0),
        (DType::F16, 0.0, 1.0, 5.960464477539063e-08),
        (DType::F16, 65504.0, inf, inf),
        (DType::F16, -inf, 0.0, -65504.0),
        (DType::BF16, 1.0, 2.0, 1.0078125),
        (DType::BF16, 1.0, 0.0, 0.99609375),
        (DType::BF16, 1.9921875, 3.0, 2.0),
        (DType::BF16, 0.0, 1.0, 9.183549615799121e-41),
        (DType::BF16, 3.3895313892515355e38, inf, inf),
        (DType::BF16, inf, 0.0, 3.3895313892515355e38),
    ] {
        let [a, b] = [x, y].map(|x| Tensor::from([x]).cast(dtype));
        assert_eq!(numbers(&a.nextafter(&b)), [next], "{dtype} {x} {y}");
    }
}
