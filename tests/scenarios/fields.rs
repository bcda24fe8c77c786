//! Tensors of classes that are made inside of a program: gradients by their fields, in every way in which it is run.

use fulgurite::pipeline::{Cotangents, Stage, StageRun};
use fulgurite::prelude::*;
use fulgurite::transforms::Remat;

/// Says what the cotangents of its fields are.
#[derive(TensorSubclass, Clone)]
#[subclass(plain = "d * s", default = "plain", cotangent = "plain", grad(unflatten(d = "g * s", s = "g * d")))]
struct Told {
    #[field]
    d: Tensor,
    #[field]
    s: Tensor,
}

/// Says nothing: what it stands for is differentiated.
#[derive(TensorSubclass, Clone)]
#[subclass(plain = "d * s", default = "plain")]
struct Untold {
    #[field]
    d: Tensor,
    #[field]
    s: Tensor,
}

/// Its rules are differentiated.
#[derive(TensorSubclass, Clone)]
#[subclass(plain = "d * s", default = "plain", ops(neg = "Through(-d, s)"), through)]
struct Through {
    #[field]
    d: Tensor,
    #[field]
    s: Tensor,
}

/// Its plain tensor is a composite of composites.
#[derive(TensorSubclass, Clone)]
#[subclass(plain = "softmax(d, 0) * silu(s)", default = "plain")]
struct Deep {
    #[field]
    d: Tensor,
    #[field]
    s: Tensor,
}

/// Its plain tensor is a field.
#[derive(TensorSubclass, Clone)]
#[subclass(default = "plain")]
struct First {
    #[field]
    d: Tensor,
    #[field]
    s: Tensor,
}

/// Tells of one field alone.
#[derive(TensorSubclass, Clone)]
#[subclass(plain = "d * s", default = "plain", grad(unflatten(d = "g * s")))]
struct Half {
    #[field]
    d: Tensor,
    #[field]
    s: Tensor,
}

type Make = fn(&Tensor, &Tensor) -> Tensor;

fn makes() -> Vec<(&'static str, Make, Make)> {
    let product: Make = |d, s| d * s;
    vec![
        ("told", |d, s| Told { d: d.clone(), s: s.clone() }.into(), product),
        ("untold", |d, s| Untold { d: d.clone(), s: s.clone() }.into(), product),
        ("through", |d, s| Through { d: d.clone(), s: s.clone() }.into(), product),
        ("deep", |d, s| Deep { d: d.clone(), s: s.clone() }.into(), |d, s| d.softmax(0) * s.silu()),
        ("first", |d, s| First { d: d.clone(), s: s.clone() }.into(), |d, _| d.clone()),
        // one tensor as both fields
        ("twice", |d, s| Untold { d: d * s, s: d * s }.into(), |d, s| (d * s).square()),
    ]
}

fn pair() -> (Tensor, Tensor) {
    (Tensor::from([2.0f64, -0.5, 0.25]), Tensor::from([0.5f64, 1.5, -1.25]))
}

fn nums((l, (a, b)): &(Tensor, (Tensor, Tensor))) -> Vec<f64> {
    [l, a, b].iter().flat_map(|t| t.to_f64().unwrap_or_else(|e| panic!("{e}"))).collect()
}

type Both = (Tensor, (Tensor, Tensor));

/// The loss and its gradients by both fields, in every way.
fn ways(
    loss: impl Fn(&Tensor, &Tensor) -> Tensor + Clone + Send + Sync + 'static,
) -> Vec<(&'static str, Result<Both>)> {
    let one = Tensor::scalar(1.0f64);
    let (d, s) = pair();
    let both = {
        let loss = loss.clone();
        move |d: Tensor, s: Tensor| value_and_grad(&(d, s), |(d, s)| loss(d, s))
    };
    let of = {
        let loss = loss.clone();
        move |d: Tensor, s: Tensor| loss(&d, &s)
    };
    let pulled = jit(of.clone()).pullback((d.clone(), s.clone()));
    let twice = jit(of.clone()).pullback_with_graph((d.clone(), s.clone()));
    let stage = || {
        let p = (d.clone(), s.clone());
        let of = of.clone();
        let stage = Stage::of("made", move |(d, s): (Tensor, Tensor), ()| of(d, s), &p, &())?;
        let mut run = StageRun::new(&stage, 0, &p, 1)?;
        let value = run.forward(0, &())?.remove(0);
        run.input_backward(0, Cotangents::Loss)?;
        run.weight_backward(0)?;
        let mut grads = run.reduce()?.into_iter();
        let mut next = || grads.next().flatten().unwrap_or_else(|| Tensor::from([0.0f64; 3]));
        Ok((value, (next(), next())))
    };
    vec![
        ("at once", Ok(both(d.clone(), s.clone()))),
        ("compiled", jit(both.clone()).call((d.clone(), s.clone()))),
        ("symbolic", jit(both.clone()).caching(Caching::Symbolic).call((d.clone(), s.clone()))),
        ("nothing kept", jit(both.clone()).rematerialise(Remat::Bytes(0)).call((d.clone(), s.clone()))),
        ("apart", pulled.and_then(|(l, pull)| Ok((l, pull.run(&one)?)))),
        ("with a graph", twice.and_then(|(l, pull)| Ok((l, pull.run(&one)?.0)))),
        ("in a stage", stage()),
    ]
}

#[test]
fn fields_have_the_gradients_of_what_they_stand_for() {
    type Around = fn(&Tensor) -> Tensor;
    let around: [(&str, Around); 5] = [
        ("sin", |x| x.sin().sum()),
        ("two readers", |x| (x.exp() * x).sum()),
        ("checkpoint", |x| checkpoint(|| x.tanh()).square().sum()),
        ("halves", |x| autocast(DType::BF16, || x.reshape((1, 3)).matmul(&x.reshape((3, 1)))).sum()),
        ("plain", |x| (x.plain() * 3.0).sum()),
    ];
    for (name, make, plain) in makes() {
        for (what, around) in around {
            let (d, s) = pair();
            let want = nums(&value_and_grad(&(d, s), |(d, s)| around(&plain(d, s))));
            for (way, got) in ways(move |d, s| around(&make(d, s))) {
                let got = nums(&got.unwrap_or_else(|e| panic!("{name}, {what}, {way}: {e}")));
                let fits = got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-9 * (1.0 + b.abs()));
                assert!(fits, "{name}, {what}, {way}: {got:?}, not {want:?}");
            }
        }
    }
}

#[test]
fn second_derivatives_by_fields() {
    let (d, s) = pair();
    let twice = |f: Make| {
        let (d, s) = (d.clone(), s.clone());
        grad(&(d, s), move |(d, s)| {
            let (a, b) = grad(&(d.clone(), s.clone()), |(d, s)| f(d, s).sin().sum());
            (a.square() + b.exp()).sum()
        })
    };
    for (name, make, plain) in makes() {
        let [(a, b), (wa, wb)] = [twice(make), twice(plain)];
        for (got, want) in [(a, wa), (b, wb)] {
            let (got, want) = (got.to_f64().unwrap_or_else(|e| panic!("{name}: {e}")), want.to_f64().expect("plain"));
            let fits = got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-9 * (1.0 + b.abs()));
            assert!(fits, "{name}: {got:?}, not {want:?}");
        }
    }
}

/// A field of which a class that tells of others says nothing has no gradient, rather than none in silence; and what
/// flows back to a field says nothing of the whole.
#[test]
fn what_is_not_told_is_refused() {
    let p = pair();
    let g = grad(&p, |(d, s)| Tensor::from(Half { d: d.clone(), s: s.clone() }).sin().sum());
    assert_eq!(g.1.error().expect("refused").code(), "E711");
    let p = pair();
    let through = |(d, s): &(Tensor, Tensor)| (-Tensor::from(Through { d: d.clone(), s: s.clone() })).sum();
    let error = grad(&p, through).0;
    let error = error.error().expect("refused");
    assert!(error.code() == "E711" && error.to_string().contains("cotangents of a `Through` are plain"), "{error}");
    // of a class that is one of its fields, that field's is the whole
    let g = grad(&p, |(d, s)| {
        let x: Tensor = First { d: d.clone(), s: s.clone() }.into();
        let y = x.reshape([3]);
        y.sum()
    });
    assert_eq!(g.0.to_vec::<f64>().expect("d"), [1.0; 3]);
}
