//! More programs of [`super::variations`], each a mixture of what scenarios have alone.

use super::variations::{every_way, every_way_at, ramp, rows};
use fulgurite::ops::{Diagonal, Slice, Sort, Sum, Topk, VarMean, arange, cat};
use fulgurite::prelude::*;

type Program = fn(&Tensor, &Tensor) -> Tensor;

fn ok(x: Result<Tensor, Error>) -> Tensor {
    x.unwrap_or_else(Tensor::poisoned)
}
fn cols(x: &Tensor, from: i64, to: i64) -> Tensor {
    x.slice_with(Slice { dim: 1.into(), start: from.into(), stop: Some(to.into()), ..d() })
}
fn sum0(x: &Tensor) -> Tensor {
    x.sum_with(Sum { dims: [0].into(), ..d() })
}

/// A forward that keeps its result.
fn keeping(f: fn(&Tensor) -> Tensor) -> impl Fn(&Tensor) -> (Tensor, Tensor) {
    move |x| {
        let y = f(x);
        (y.clone(), y)
    }
}

const ALL: &[(&str, Program)] = &[
    ("jit in a trace", |x, w| ok(jit(|(x, w): (Tensor, Tensor)| x.matmul(&w).sin()).call((x.clone(), w.clone()))) * x),
    ("jit in jit in checkpoint", |x, w| {
        checkpoint(|| {
            let inner = jit(|x: Tensor, w: Tensor| ok(jit(|y: Tensor| y.tanh().exp()).call(x.matmul(&w))));
            ok(inner.call((x.clone(), w.clone())))
        })
    }),
    ("vmap in grad in checkpoint", |x, w| {
        checkpoint(|| grad(x, |x| ok(vmap(x, |r| (r * w).sin().prod())).square().sum())) * x
    }),
    ("grad in grad", |x, w| grad(x, |x| grad(x, |x| x.matmul(w).sin().sum()).square().sum())),
    ("sort, one result", |x, w| x.matmul(w).sort_with(Sort { dim: 1.into(), ..d() }).0 * w.select(0, 1)),
    ("sort, indices used", |x, w| {
        let (v, i) = x.matmul(w).sort();
        v * x.gather(&i, 1).sin()
    }),
    ("indices alone", |x, w| x.sin().gather(&x.matmul(w).sort().1, 1)),
    ("topk in vmap", |x, w| ok(vmap(x, |r| (r * w.select(0, 0)).topk_with(2, Topk { ..d() }).0.exp()))),
    ("var alone", |x, w| x.matmul(w).var_mean_with(VarMean { dims: 1.into(), ..d() }).0),
    ("mean alone", |x, w| x.matmul(w).var_mean_with(VarMean { dims: 1.into(), ..d() }).1.sin()),
    ("cummax", |x, w| x.matmul(w).cummax(1).0.sin()),
    ("cumprod in a checkpoint", |x, w| checkpoint(|| (x.matmul(w).cos() + 1.5).cumprod(1))),
    ("int and bool among values", |x, w| {
        let y = x.matmul(w);
        let n = y.argmax();
        let mask = y.gt(0.1);
        ops::where_(&mask, y.sin(), &(&y * 2.0)) + n.cast(DType::F64) * 0.0
    }),
    ("mask is detached twice", |x, w| {
        let y = x.matmul(w);
        let m = y.detach().gt(0.0).cast(DType::F64).detach();
        y.exp() * m
    }),
    ("view of a view of a view written", |x, w| {
        let y = x.matmul(w);
        let v = cols(&y, 1, 4).t().reshape(-1);
        let _ = v.mul_(v.sin());
        y.square()
    }),
    ("diagonal written", |x, w| {
        let y = w.matmul(w);
        let dg = y.diagonal();
        let _ = dg.add_(dg.cos());
        x.matmul(&y)
    }),
    ("diagonal of a transpose of a slice", |x, w| {
        let y = w.sin();
        let v = cols(&y, 0, 3).t().diagonal_with(Diagonal { offset: 1.into(), ..d() });
        let _ = v.mul_(3.0);
        x.matmul(&y)
    }),
    ("a list of views written", |x, w| {
        let y = x.matmul(w);
        let parts: [Tensor; 2] = y.chunk_with(ops::Chunk { dim: 1.into() });
        let _ = parts[0].mul_(&parts[1]);
        let _ = parts[1].add_(parts[0].sin());
        y * x
    }),
    ("unbound rows written", |x, w| {
        let y = w * 1.0;
        let parts = y.unbind();
        let _ = parts[0].mul_(&parts[1]);
        let _ = parts[2].copy_(&parts[0].sin());
        x.matmul(&y)
    }),
    ("a permuted view, unsqueezed", |x, w| {
        let y = x.matmul(w);
        let v = y.unsqueeze(0).permute([2, 0, 1]);
        let _ = v.mul_(v.cos());
        y
    }),
    ("a write of itself to itself", |x, w| {
        let y = x.matmul(w);
        let _ = y.mul_(&y).add_(&y);
        let _ = y.copy_(&y.t().t());
        y
    }),
    ("a slice shifted over itself", |x, w| {
        let y = x.matmul(w);
        let _ = cols(&y, 1, 4).copy_(&cols(&y, 0, 3));
        y.sin()
    }),
    ("flipped over itself", |x, w| {
        let y = x.matmul(w);
        let _ = y.copy_(&(y.flip(1) * 2.0));
        y * x
    }),
    ("row added to itself by broadcast", |x, w| {
        let y = x.matmul(w);
        let _ = y.mul_(y.select(0, 0));
        y
    }),
    ("write in a nested gradient's closure", |x, w| {
        grad(x, |x| {
            let y = x.matmul(w);
            let _ = cols(&y, 0, 2).mul_(cols(x, 2, 4));
            y.sin().sum()
        })
    }),
    ("backward that writes a slice of its own", |x, w| {
        let y = x.matmul(w);
        custom_vjp(
            &y,
            |y| (y.sin(), y.clone()),
            |y, ct: &Tensor| {
                let g = ct * 1.0;
                let head = cols(&g, 0, 2);
                let _ = head.mul_(1.0);
                let all = y.cos() * 1.0;
                let _ = cols(&all, 0, 4).mul_(g);
                all
            },
        )
    }),
    ("backward that takes a gradient", |x, w| {
        custom_vjp(&x.matmul(w), |y| (y.sin() * y, y.clone()), |y, ct: &Tensor| grad(&y, |y| (y.sin() * y * ct).sum()))
    }),
    ("backward with a batch in it", |x, w| {
        custom_vjp(&x.matmul(w), keeping(|y| y.tanh()), |t, ct: &Tensor| {
            ok(vmap(&(t, ct.clone()), |(t, c): &(Tensor, Tensor)| c * (1.0 - t.square())))
        })
    }),
    ("two inputs, one without a gradient", |x, w| {
        let p = (x.clone(), w.clone());
        custom_vjp(
            &p,
            |(x, w)| (x.matmul(w), (x.clone(), w.clone())),
            |(x, w), ct: &Tensor| (ct.matmul(&w.t()), x.t().matmul(ct)),
        )
        .sin()
    }),
    ("own in a batch in a checkpoint", |x, w| {
        checkpoint(|| {
            ok(vmap(x, |r| {
                custom_vjp(r, keeping(|r| r.exp()), |e, ct: &Tensor| e * ct).reshape((1, 4)).matmul(w).sum()
            }))
        })
    }),
    ("jvp of a batch of gradients", |x, w| {
        let f = |x: &Tensor| ok(vmap(x, |r| grad(r, |r| (r * w.select(0, 0)).sin().prod())));
        jvp(x, &x.cos(), |x| f(x)).map_or_else(Tensor::poisoned, |(y, t)| y * t)
    }),
    ("batch of jvps", |x, w| {
        ok(vmap(x, |r| jvp(r, &r.sin(), |r| (r * w.select(0, 1)).tanh().prod()).map(|(y, t)| y + t)))
    }),
    ("jvp in a checkpoint", |x, w| {
        checkpoint(|| jvp(x, &x.sin(), |x| x.matmul(w).tanh()).map_or_else(Tensor::poisoned, |(y, t)| y * t))
    }),
    ("vjp with a cotangent that has a gradient", |x, w| {
        vjp(x, &x.matmul(w).cos(), |x| x.matmul(w).sin()).map_or_else(Tensor::poisoned, |(y, g)| y * g)
    }),
    ("jacobian of a composite in a batch", |x, w| ok(vmap(x, |r| jacobian(r, |r| (r * w.select(0, 0)).softmax(-1))))),
    ("hessian of a composite", |x, w| {
        hessian(&w.select(0, 0), |r| (x * r).logsumexp(0).square().sum())
            .map_or_else(Tensor::poisoned, |h| h[0].clone())
    }),
    ("nested vmap over both", |x, w| ok(vmap(x, |r| ok(vmap(w, |s| (r * s).sin().sum() * r.select(0, 0)))))),
    ("vmap with a captured written value", |x, w| {
        let acc = w.select(0, 0) * 1.0;
        let y = ok(vmap(x, |r| (r * &acc).tanh().sum()));
        let _ = acc.mul_(2.0);
        y.sum() * acc
    }),
    ("integer sort keys in a batch", |x, w| {
        ok(vmap(x, |r| {
            let i = (r * w.select(0, 0)).argsort();
            r.gather(&i, 0).cumsum(0)
        }))
    }),
    ("no_grad in checkpoint in vmap", |x, w| {
        ok(vmap(x, |r| {
            checkpoint(|| {
                let m = no_grad(|| (r * 0.0).sum() + 2.0);
                (r * w.select(0, 3) / m).exp()
            })
        }))
    }),
    ("enable_grad in no_grad", |x, w| no_grad(|| enable_grad(|| x.matmul(w).sin()))),
    ("gradient in no_grad", |x, w| {
        let g = no_grad(|| grad(&x.detach(), |x| (x * 0.0).sum()));
        g + x.matmul(w)
    }),
    ("constant result beside", |x, w| {
        let c = no_grad(|| sum0(x) * 0.0);
        x.matmul(w) + c
    }),
    ("clamped at a written bound", |x, w| {
        let lo = sum0(w) * 0.1 - 5.0;
        let y = x.matmul(w);
        let _ = y.clamp_(&lo, ());
        y.sin()
    }),
    ("scatter_add by computed places", |x, w| {
        let i = x.argsort();
        (x * 1.0).scatter_add(&i, &x.matmul(w), 1).sin()
    }),
    ("index_put into a view", |x, w| {
        let y = x.matmul(w);
        let v = y.t();
        let i = Tensor::from([2i64, 0]);
        let _ = v.copy_(&v.index_copy(&i, &x.t().slice_with(Slice { stop: Some(2.into()), ..d() }).cos(), 0));
        y.square()
    }),
    ("norms of empty parts", |x, w| {
        let none = rows(x, 0, 0);
        x.matmul(w) + none.matmul(w).sum() + cat(&[none.clone(), x.clone()]).sin()
    }),
    ("size in arithmetic", |x, w| {
        let n = x.shape()[0];
        x.matmul(w) * n + arange(n).cast(DType::F64).unsqueeze(1) * x
    }),
    ("size decides a branch", |x, w| if x.shape()[0] > 2 { x.matmul(w) } else { x.matmul(w).sin() }),
    ("layer_norm then written", |x, w| {
        let y = x.matmul(w).layer_norm(Some(&sum0(w)), None::<&Tensor>, [4]);
        let _ = cols(&y, 0, 1).mul_(cols(x, 3, 4));
        y.sin()
    }),
    ("layer_norm in a vmap with each its weight", |x, w| {
        ok(vmap(x, |r| (r * w).layer_norm(Some(r), None::<&Tensor>, [4]).sin()))
    }),
    ("sdpa in a vmap in a checkpoint", |x, w| {
        checkpoint(|| {
            ok(vmap(x, |r| {
                let q = (r * w).reshape((1, 1, 4, 4));
                q.sdpa(&w.reshape((1, 1, 4, 4)), &q.sin(), None::<&Tensor>).sum()
            }))
        })
    }),
    ("where before a softmax", |x, w| {
        let y = x.matmul(w);
        ops::where_(x.gt(0.0), &y, -1e30).softmax(-1) * x
    }),
    ("tags are kept from every way", |x, w| {
        let y = with_tag(&x.matmul(w), fulgurite::trace::Tag::MUST_SAVE);
        let z = with_tag(&y.sin(), fulgurite::trace::Tag::NO_SAVE);
        checkpoint(|| z.exp() * y.cos())
    }),
    ("recompute lines with a batch", |x, w| {
        ok(vmap(x, |r| tagged(fulgurite::trace::Tag::RECOMPUTE, || (r * w).exp().sin()).sum()))
    }),
    ("a checkpoint that gives what it read, and a constant", |x, w| {
        let (a, b, c) = checkpoint(|| (x.clone(), x.matmul(w).sin(), Tensor::scalar(2.0f64)));
        a * b * c
    }),
    ("aliased arguments of one function", |x, w| {
        let y = x.matmul(w);
        let twice = |a: &Tensor, b: &Tensor| {
            let _ = a.add_(b);
            let _ = b.mul_(0.5);
            a * b
        };
        twice(&y, &y) + x
    }),
    ("two views of one as arguments", |x, w| {
        let y = x.matmul(w);
        let (a, b) = (cols(&y, 0, 3), cols(&y, 1, 4));
        let _ = a.mul_(&b);
        let _ = b.add_(&a);
        (&a * &b).sum() + y
    }),
];

/// Values drawn by keys: with and without a checkpoint, and in a batch.
fn drawn(again: bool, x: &Tensor, k: &Key) -> Tensor {
    let f = || {
        let y = x.sin().dropout(k);
        y.exp() * x.sin().dropout(k)
    };
    if again { checkpoint(f) } else { f() }
}

#[test]
fn s2_25_mixed_programs() {
    let wrong = |name: &'static str, f: Program| {
        let run = || match name {
            "size decides a branch" => drop(every_way_at(name, &[3, 5], f)),
            _ => every_way(name, f),
        };
        std::panic::catch_unwind(run).is_err()
    };
    let bad: Vec<_> = ALL.iter().filter(|(name, f)| wrong(name, *f)).map(|(name, _)| *name).collect();
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn s1_14_draws_in_a_checkpoint() {
    let x = ramp(3, 0.4);
    let run = |again: bool| {
        let k = Key::new(7);
        let f = jit(move |x: Tensor, k: Key| value_and_grad(&x, |x| drawn(again, x, &k).sum()));
        let (l, g) = f.call((x.clone(), k)).expect("runs");
        [l.to_f64().expect("numbers"), g.to_f64().expect("numbers")].concat()
    };
    assert_eq!(run(false), run(true));
}
