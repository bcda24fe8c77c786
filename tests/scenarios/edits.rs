//! Transforms as a user would write them from docs/transforms.md.

use fulgurite::bind::Rewriter;
use fulgurite::core::{Name, Scalar, Value};
use fulgurite::prelude::*;
use fulgurite::trace::{ProxyId, RegionKind, Tag, Trace};
use fulgurite::transforms::At;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

type Made = Result<Trace, Error>;

fn shorter(trace: &Trace) -> Made {
    Rewriter::each(trace, "shorter", |r, line| {
        let exp_of = |v: &Value<ProxyId>| match v {
            Value::Tensor(x) => trace.producer(*x).filter(|p| p.symbol.name() == "exp").map(|p| p.args.clone()),
            _ => None,
        };
        let one = |v: &Value<ProxyId>| matches!(v, Value::Num(n) if n.as_f64() == 1.0);
        let (op, args) = match (line.symbol.name(), &line.args[..]) {
            ("mul", [Value::Tensor(a), Value::Tensor(b)]) if a == b => ("square", vec![Value::Tensor(*a)]),
            ("sub", [x, n]) if one(n) && exp_of(x).is_some() => ("expm1", exp_of(x).unwrap_or_default()),
            _ => return r.keep(),
        };
        let made = r.emit(Name::new(op), args, vec![])?;
        r.bind(line.outs[0], made.outs[0])
    })
}

fn clip(trace: &Trace) -> Made {
    let outs = trace.outputs().to_vec();
    Rewriter::each(trace, "clip", |r, line| {
        r.keep()?;
        for &out in &line.outs {
            if outs.contains(&out) && line.own_tags.contains(Tag::BACKWARD) {
                let num = |x: f64| Value::Num(Scalar::Float(x));
                let made = r.emit(Name::new("clamp"), vec![Value::Tensor(out), num(-1.0), num(1.0)], vec![])?;
                r.bind(out, made.outs[0])?;
            }
        }
        Ok(())
    })
}

fn halves(trace: &Trace) -> Made {
    Rewriter::each(trace, "halves", |r, line| {
        if line.symbol.name() != "linear" {
            return r.keep();
        }
        let cast = |r: &mut Rewriter, v: &Value<ProxyId>, to: DType| match v {
            Value::Tensor(_) => {
                let made = r.emit(Name::new("cast"), vec![v.clone()], vec![(Name::new("dtype"), to.into())])?;
                Ok(Value::Tensor(made.outs[0]))
            }
            other => Ok::<_, Error>(other.clone()),
        };
        let args = line.args.iter().map(|v| cast(r, v, DType::BF16)).collect::<Result<Vec<_>, _>>()?;
        let y = r.emit(Name::new("linear"), args, vec![])?;
        let back = cast(r, &Value::Tensor(y.outs[0]), DType::F32)?;
        let Value::Tensor(back) = back else { return r.keep() };
        r.bind(line.outs[0], back)
    })
}

fn x() -> Tensor {
    Tensor::from([[0.5f32, -1.0, 2.0], [1.5, 0.25, -0.75]])
}

fn nums(t: &Tensor) -> Vec<f64> {
    t.to_f64().unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn shorter_spellings() {
    for at in [At::Acquired, At::Joint, At::Simplified] {
        let f = |x: Tensor| value_and_grad(&x, |x| ((x * x) * (x.exp() - 1.0)).sum());
        let g = jit(f).transform(at, "shorter", shorter).keep_traces();
        let (l, d) = g.call(x()).unwrap_or_else(|e| panic!("{e}"));
        let (wl, wd) = f(x());
        for (a, b) in nums(&l).iter().chain(&nums(&d)).zip(nums(&wl).iter().chain(&nums(&wd))) {
            assert!((a - b).abs() < 1e-5 * (1.0 + b.abs()), "{at:?}: {a} {b}");
        }
        let text = g.trace("shorter").unwrap_or_default();
        assert!(text.contains("= square(") && text.contains("= expm1(") && !text.contains("= sub("), "{text}");
    }
}

#[test]
fn gradients_are_clipped() {
    for at in [At::Joint, At::Simplified] {
        let f = |x: Tensor| value_and_grad(&(x.clone(), x.cos()), |(x, y)| (x * x * y * 3.0).sum());
        let g = jit(f).transform(at, "clip", clip).keep_traces();
        let (_, (a, b)) = g.call(x()).unwrap_or_else(|e| panic!("{e}"));
        let (_, (wa, wb)) = f(x());
        for (got, want) in [(a, wa), (b, wb)] {
            let want: Vec<f64> = nums(&want).iter().map(|v| v.clamp(-1.0, 1.0)).collect();
            assert_eq!(nums(&got), want);
        }
    }
}

#[test]
fn linears_in_halves() {
    let f = |x: Tensor, w: Tensor, b: Tensor| value_and_grad(&(w, b), |(w, b)| x.linear(w, Some(b)).tanh().sum());
    let g = jit(f).transform(At::Acquired, "halves", halves).keep_traces();
    let (w, b) = (x() * 0.5, Tensor::from([0.1f32, 0.2]));
    let (_, (gw, gb)) = g.call((x(), w.clone(), b.clone())).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((gw.dtype(), gb.dtype()), (DType::F32, DType::F32));
    let (_, (ww, wb)) = f(x(), w, b);
    for (a, b) in [nums(&gw), nums(&gb)].concat().iter().zip([nums(&ww), nums(&wb)].concat()) {
        assert!((a - b).abs() < 0.02 * (1.0 + b.abs()), "{a} {b}");
    }
    let text = g.trace("simplified").unwrap_or_default();
    assert!(text.contains("bf16[2, 2] = linear(") && text.contains("bf16[2, 3] = matmul_nt.vjp.w("), "{text}");
}

#[test]
fn lines_by_region() {
    let seen = Arc::new(Mutex::new(BTreeMap::<String, usize>::new()));
    let into = seen.clone();
    let count = move |trace: &Trace| -> Made {
        let mut seen = into.lock().expect("counts");
        for line in trace.lines() {
            let chain = trace.arena.region_chain(line.region, trace.root);
            let names = chain.iter().rev().map(|&r| match trace.arena.region(r).kind {
                RegionKind::Named(n) => n.to_string(),
                other => format!("{other:?}"),
            });
            *seen.entry(names.collect::<Vec<_>>().join("/")).or_default() += 1;
        }
        Ok(trace.clone())
    };
    let f =
        |x: Tensor| named("block", || checkpoint(|| x.sin().exp()) + autocast(DType::BF16, || x.matmul(&x.t()).sum()));
    let g = jit(f).transform(At::Simplified, "count", count);
    g.call(x()).unwrap_or_else(|e| panic!("{e}"));
    let seen = seen.lock().expect("counts");
    assert_eq!(seen.get("block/Checkpoint"), Some(&2), "{seen:?}");
    assert_eq!(seen.get("block"), Some(&1), "{seen:?}");
    assert!(seen.contains_key("block/Autocast(Some(BF16))"), "{seen:?}");
}

/// Who made what is wrong is named, before anything runs.
#[test]
fn wrong_edits_are_blamed() {
    type Edit = fn(&Trace) -> Made;
    let wrongs: [(&str, Edit, &str, &str); 6] = [
        ("undefined", undefined, "E730", "`undefined` calls `cos` on value 9999"),
        ("dropped", dropped, "E730", "`dropped` made a bad trace `loss`: `mul` reads `sin` before it is made"),
        ("resized", resized, "E730", "its result `sum` is f32[2, 3], and was f32[]"),
        ("unknown", unknown, "E710", "no linked database has a row `cosinus`"),
        ("emptied", |t| Rewriter::each(t, "emptied", |_, _| Ok(())), "E730", "an output reads `sum` before it is made"),
        ("doubled", doubled, "E730", "`sin` is made twice, again by `sin`"),
    ];
    for at in [At::Acquired, At::Joint] {
        for (name, edit, code, claim) in wrongs {
            let f = jit(|x: Tensor| grad(&x, |x| (x.sin() * 2.0).sum())).transform(at, name, edit);
            let error = f.call(x()).and_then(|g| g.to_vec::<f32>()).expect_err(name);
            assert_eq!(error.code(), code, "{at:?}: {error}");
            let text = error.to_string();
            assert!(text.contains(claim) && text.contains(&format!("`{name}`")), "{at:?}: {text}");
        }
    }
}

fn undefined(trace: &Trace) -> Made {
    Rewriter::each(trace, "undefined", |r, line| {
        let made = r.emit(Name::new("cos"), vec![Value::Tensor(ProxyId(9999))], vec![])?;
        r.bind(line.outs[0], made.outs[0])
    })
}

fn dropped(trace: &Trace) -> Made {
    Rewriter::each(trace, "dropped", |r, line| {
        if line.symbol.name() != "sin" {
            return r.keep();
        }
        r.drop_line();
        Ok(())
    })
}

fn resized(trace: &Trace) -> Made {
    Rewriter::each(trace, "resized", |r, line| {
        if line.symbol.name() != "sum" {
            return r.keep();
        }
        let made = r.emit(Name::new("cos"), line.args[..1].to_vec(), vec![])?;
        r.bind(line.outs[0], made.outs[0])
    })
}

fn unknown(trace: &Trace) -> Made {
    Rewriter::each(trace, "unknown", |r, line| {
        let made = r.emit(Name::new("cosinus"), line.args.clone(), vec![])?;
        r.bind(line.outs[0], made.outs[0])
    })
}

fn doubled(trace: &Trace) -> Made {
    Rewriter::each(trace, "doubled", |r, _| {
        r.keep()?;
        r.keep()
    })
}
