//! Gradients as users take them: inside compiled functions and outside, of models, of gradients.

#![allow(missing_docs)]

mod common;

use common::database;
use fulgurite_core::{Name, Scalar, Value};
use fulgurite_runtime::operand::{KeyArg, Operand};
use fulgurite_runtime::tree::{Leaves, Tree, Visitor, VisitorMut};
use fulgurite_runtime::{
    Error, Key, Tensor, api, grad, jit, jvp, scope, symbol, try_value_and_grad, value_and_grad, vjp,
};

#[track_caller]
fn op(name: &str, args: Vec<Value<Tensor>>) -> Tensor {
    database();
    api::call_one(symbol::find(Name::new(name)).unwrap(), args)
}
#[track_caller]
fn sum(x: &Tensor) -> Tensor {
    op("sum", vec![x.arg()])
}
#[track_caller]
fn sin(x: &Tensor) -> Tensor {
    op("sin", vec![x.arg()])
}
#[track_caller]
fn matmul(a: &Tensor, b: &Tensor) -> Tensor {
    op("matmul", vec![a.arg(), b.arg()])
}

fn t(data: &[f64]) -> Tensor {
    database();
    Tensor::from(data.to_vec())
}
fn vec(x: &Tensor) -> Vec<f64> {
    x.to_f64().unwrap()
}
fn close(x: &Tensor, want: &[f64]) {
    let have = vec(x);
    assert!(have.len() == want.len() && have.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-9), "{have:?} {want:?}");
}

#[derive(Clone, Debug)]
struct Model {
    w: Tensor,
    b: Tensor,
    count: Tensor,
    key: Key,
}

impl Tree for Model {
    fn visit<'a>(&'a self, v: &mut Visitor<'a>) {
        v.part("w", &self.w);
        v.part("b", &self.b);
        v.part("count", &self.count);
        v.part("key", &self.key);
    }
    fn visit_mut<'a>(&'a mut self, v: &mut VisitorMut<'a>) {
        v.part(&mut self.w);
        v.part(&mut self.b);
        v.part(&mut self.count);
        v.part(&mut self.key);
    }
    fn rebuild(&self, leaves: &mut Leaves) -> Model {
        Model {
            w: self.w.rebuild(leaves),
            b: self.b.rebuild(leaves),
            count: self.count.rebuild(leaves),
            key: self.key.rebuild(leaves),
        }
    }
}

fn model() -> Model {
    Model { w: t(&[1.0, 2.0]), b: t(&[0.5, 0.0]), count: Tensor::from([3i64]), key: Key::new(1) }
}

fn loss(m: &Model, x: &Tensor) -> Tensor {
    sum(&sin(&(&m.w * x + &m.b)))
}

fn check_model(value: &Tensor, g: &Model) {
    let inner = [1.0 * 2.0 + 0.5f64, 2.0 * 3.0];
    close(value, &[inner[0].sin() + inner[1].sin()]);
    close(&g.w, &[2.0 * inner[0].cos(), 3.0 * inner[1].cos()]);
    close(&g.b, &[inner[0].cos(), inner[1].cos()]);
    assert_eq!(g.count.to_vec::<i64>().unwrap(), [0], "integers have the gradient 0");
    assert_eq!(g.key.parts(), Some((1, 0)));
}

#[test]
fn of_a_model_outside_of_traces() {
    let (m, x) = (model(), t(&[2.0, 3.0]));
    let (value, g) = value_and_grad(&m, |m| loss(m, &x));
    check_model(&value, &g);
    close(&grad(&x, |x| loss(&m, x)), &[2.5f64.cos(), 2.0 * 6.0f64.cos()]);
}

#[test]
fn of_a_model_inside_a_compiled_function() {
    let f = jit(|m: Model, x: Tensor| value_and_grad(&m, |m| loss(m, &x))).keep_traces();
    for _ in 0..2 {
        let (value, g) = f.call((model(), t(&[2.0, 3.0]))).unwrap();
        check_model(&value, &g);
    }
    let names: Vec<_> = f.stages().iter().map(|s| s.name).collect();
    assert_eq!(names, ["joint", "acquired", "simplified", "compiled"]);
    assert!(f.trace("joint").unwrap().contains("cos("));
}

#[test]
fn training_goes_downhill() {
    let step = jit(|(m, momentum): (Model, Tensor), (x, lr): (Tensor, Tensor)| {
        let (loss, g) = value_and_grad(&m, |m| sum(&((&m.w * &x + &m.b) * (&m.w * &x + &m.b))));
        let momentum = 0.5 * momentum + &g.w;
        let next = Model { w: &m.w - &lr * &momentum, b: m.b - g.b * lr, ..m };
        ((next, momentum), loss)
    });
    let mut state = (model(), t(&[0.0, 0.0]));
    let mut last = f64::INFINITY;
    for _ in 0..10 {
        let now = vec(&step.update(&mut state, (t(&[1.0, 2.0]), 0.02.into())).unwrap())[0];
        assert!(now < last, "{now} {last}");
        last = now;
    }
    assert_eq!(step.stats().misses.len(), 1);
}

#[test]
fn gradients_of_gradients() {
    let x = t(&[0.3, 0.7]);
    let second = grad(&x, |x| sum(&grad(x, |x| sum(&sin(x)))));
    close(&second, &[-0.3f64.sin(), -0.7f64.sin()]);
    let f = jit(|x: Tensor| grad(&x, |x| sum(&(grad(x, |x| sum(&(sin(x) * x))) * x))));
    // d/dx of x (sin x + x cos x)
    let want = |x: f64| x.sin() + x * x.cos() + x * (2.0 * x.cos() - x * x.sin());
    close(&f.call(x).unwrap(), &[want(0.3), want(0.7)]);
}

#[test]
fn closures_may_use_what_is_around_them() {
    let captured = t(&[3.0, 4.0]);
    let f = jit(|x: Tensor| {
        let y = sin(&x);
        let g = grad(&x, |x| sum(&(x * &y * &captured)));
        let again = &captured * 1.0;
        (g, again)
    });
    let (g, again) = f.call(t(&[0.5, 0.25])).unwrap();
    close(&g, &[3.0 * 0.5f64.sin(), 4.0 * 0.25f64.sin()]);
    close(&again, &[3.0, 4.0]);
}

#[test]
fn auxiliary_results_pass_through() {
    let x = t(&[1.0, 2.0]);
    let f = |x: &Tensor| -> Result<(Tensor, (Tensor, Tensor)), String> {
        let y = x * x;
        Ok((sum(&y), (y, Tensor::from([7i64]))))
    };
    let ((loss, (y, seven)), g) = try_value_and_grad(&x, f).unwrap();
    close(&loss, &[5.0]);
    close(&y, &[1.0, 4.0]);
    assert_eq!(seven.to_vec::<i64>().unwrap(), [7]);
    close(&g, &[2.0, 4.0]);
    let failed = try_value_and_grad(&x, |_| -> Result<Tensor, std::io::Error> { Err(std::io::Error::other("full")) });
    assert_eq!(failed.unwrap_err().claim(), "the traced function failed: full");
    assert!(!scope::is_tracing());
}

#[test]
fn what_has_no_gradient_says_so() {
    let x = t(&[1.0, 2.0]);
    let line = line!() + 1;
    let (value, g) = value_and_grad(&x, |x| x * 2);
    assert_eq!(value.error().unwrap().claim(), "the loss is f64[2]; a gradient needs one number");
    assert_eq!(g.error().map(|e| (e.code(), e.loc().line)), Some(("E712", line)));
    let counts = Tensor::from([1i64, 2]);
    assert_eq!(grad(&counts, |x| sum(x)).error().map(Error::code), Some("E712"));
    let not = grad(&x, |x| sum(&op("argmax", vec![x.arg()])));
    assert_eq!(not.error().map(Error::claim), Some("the loss is i64[], which has no gradient"));
    close(&grad(&x, |_| sum(&t(&[1.0]))), &[0.0, 0.0]);
    let poisoned = Tensor::poisoned(Error::new("E701", "sizes"));
    assert_eq!(grad(&poisoned, |x| sum(x)).error().map(Error::code), Some("E701"));
    assert_eq!(grad(&x, |x| sum(&(x * &poisoned))).error().map(Error::code), Some("E701"));
}

#[test]
fn products_with_the_derivative() {
    let (a, b) = (Tensor::from([[1.0, 2.0]]), Tensor::from([[3.0], [4.0]]));
    database();
    let p = (a, b);
    let ct = (Tensor::from([[10.0]]), Tensor::from([[1.0, 1.0]]));
    let f = |p: &(Tensor, Tensor)| (matmul(&p.0, &p.1), &p.0 * &p.0);
    let (out, pulled) = vjp(&p, &ct, f).unwrap();
    close(&out.0, &[11.0]);
    close(&pulled.0, &[30.0 + 2.0, 40.0 + 4.0]);
    close(&pulled.1, &[10.0, 20.0]);
    let tangent = (Tensor::from([[1.0, 0.0]]), Tensor::from([[0.0], [1.0]]));
    let (out, moved) = jvp(&p, &tangent, f).unwrap();
    close(&out.1, &[1.0, 4.0]);
    close(&moved.0, &[3.0 + 2.0]);
    close(&moved.1, &[2.0, 0.0]);
    let wrong = vjp(&p, &(Tensor::from([[10.0]]), Tensor::from([1.0])), f).unwrap_err();
    assert_eq!((wrong.code(), wrong.claim()), ("E712", "the cotangent of f64[1, 2] is f64[1]"));
    let inside = jit(|x: Tensor| vjp(&x, &x, |x| sin(x))).call(t(&[0.5])).unwrap();
    close(&inside.1, &[0.5 * 0.5f64.cos()]);
}

#[test]
fn writes_inside_closures_reach_the_model() {
    let momentum = |x: &Tensor, m: &Tensor| op("momentum", vec![x.arg(), m.arg(), Value::Num(Scalar::Float(0.5))]);
    let stats = t(&[0.0, 0.0]);
    let (x, m) = (t(&[2.0, 4.0]), stats.clone());
    let g = grad(&(x.clone(), stats.clone()), |(x, m)| sum(&momentum(x, m)));
    close(&stats, &[1.0, 2.0]);
    close(&g.0, &[1.0, 1.0]);
    let f = jit(|x: Tensor, m: Tensor| {
        let pair = (x, m);
        let g = grad(&pair, |(x, m)| sum(&momentum(x, m)));
        (g.0, pair.1 + 0)
    });
    let (_, seen) = f.call((x, m.clone())).unwrap();
    close(&seen, &[1.5, 3.0]);
    close(&m, &[1.5, 3.0]);
}

#[test]
fn draws_are_those_of_the_forward() {
    let x = t(&[1.0; 32]);
    let key = Key::new(5);
    let f = jit(|x: Tensor, key: Key| value_and_grad(&x, |x| sum(&op("dropout", vec![x.arg(), (&key).arg()]))));
    let (value, g) = f.call((x, key)).unwrap();
    assert_eq!(vec(&value)[0], vec(&g).iter().sum::<f64>(), "dropout is linear: both have one mask");
}
