//! Tags where lines have several results, meet, and are written.

use fulgurite::prelude::*;
use fulgurite::trace::{Carrier, Policies, Policy, Tag, TagDecl, Trace};
use fulgurite::transforms::At;
use std::sync::{Arc, Mutex};

/// Of a line that runs again, what must be saved is saved.
#[test]
fn one_result_is_kept_and_another_made_again() {
    let f = |x: Tensor, save: bool| {
        checkpoint(|| {
            let (m, i) = x.sin().max_dim(1);
            let m = if save { with_tag(&m, Tag::MUST_SAVE) } else { m };
            m.exp().sin() * i.cast(DType::F64)
        })
        .sum()
    };
    let x = || Tensor::from_vec((0..100).map(f64::from).collect::<Vec<_>>(), (10, 10));
    let run = |save: bool| {
        let (_, pull) = jit(move |x: Tensor| f(x, save)).pullback(x()).unwrap_or_else(|e| panic!("{e}"));
        let bytes = pull.bytes();
        (bytes, pull.run(&Tensor::scalar(1.0f64)).and_then(|g| g.to_vec::<f64>()).unwrap_or_else(|e| panic!("{e}")))
    };
    let ((none, without), (kept, with)) = (run(false), run(true));
    assert_eq!((none, kept), (0, 80));
    assert_eq!(without, with);
}

/// Marks that exclude each other are refused where they meet, in every build.
#[test]
fn must_save_and_no_save_are_refused() {
    for tags in [[Tag::MUST_SAVE, Tag::NO_SAVE], [Tag::NO_SAVE, Tag::MUST_SAVE]] {
        let both = move |x: &Tensor| tags.iter().fold(x.clone(), |x, tag| with_tag(&x, *tag));
        let f = jit(move |x: Tensor| grad(&x, |x| both(&x.exp()).sin().sum()));
        assert_eq!(f.call(Tensor::from([1.0f64])).expect_err("refused").code(), "E722");
        let at_once = both(&Tensor::from([1.0f64]));
        assert_eq!(at_once.error().expect("refused").code(), "E722");
    }
}

/// What a write makes of a tagged value has the tags that say so, however it is written; what was written has not.
#[test]
fn tags_of_versions() {
    type Write = fn(&Tensor, &Tensor);
    let writes: [(&str, Write); 7] = [
        ("a row", |x, y| _ = x.add_(y)),
        ("a value that others hold", |x, y| _ = x.copy_(y)),
        ("twice", |x, y| _ = (x.mul_(y), x.add_(y))),
        ("a view", |x, y| _ = x.reshape([2]).add_(y)),
        ("a part", |x, _| _ = x.slice_with(ops::Slice { stop: Some(1.into()), ..d() }).mul_(2.0)),
        ("without gradients", |x, y| _ = no_grad(|| x.add_(y))),
        ("a closure", |x, y| {
            let _ = grad(y, |y| {
                let _ = no_grad(|| x.add_(y));
                y.sum()
            });
        }),
    ];
    for (name, write) in writes {
        let f = jit(move |x: Tensor, y: Tensor| {
            let own = with_tag(&(&x * 1.0), Tag::MUST_SAVE);
            write(&x, &y);
            write(&own, &y);
            assert!(tags_of(&x).contains(Tag::STATIC_MEMORY), "{name}");
            assert!(!tags_of(&y).contains(Tag::STATIC_MEMORY), "{name}");
            assert!(!tags_of(&own).contains(Tag::MUST_SAVE), "{name}");
            (x * 1.0, own)
        });
        let x = with_tag(&Tensor::from([1.0f64, 2.0]), Tag::STATIC_MEMORY);
        let (a, b) = f.call((x, Tensor::from([3.0f64, 4.0]))).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(a.to_vec::<f64>().expect("a"), b.to_vec::<f64>().expect("b"), "{name}");
    }
}

fn of_regions(name: &'static str, vjp: Policy, recompute: Policy) -> Tag {
    use Policy::{All, Keep};
    // replace, decompose, vjp, recompute, fuse, merge, unroll, functionalise
    let policies = Policies::both([Keep, All, vjp, recompute, Keep, Keep, All, Keep]);
    Tag::declare(TagDecl { name, carrier: Carrier::Region, inherit: false, must_survive: false, policies })
        .unwrap_or_else(|e| panic!("{e}"))
}

/// The tags of regions that users declare stand on calls, and go where their policies say.
#[test]
fn tags_of_regions_stand_on_calls() {
    let (all, none) =
        (of_regions("everywhere", Policy::All, Policy::All), of_regions("here", Policy::Drop, Policy::Drop));
    for (tag, goes) in [(all, true), (none, false)] {
        let seen = Arc::new(Mutex::new((0, 0, 0, 0)));
        let into = seen.clone();
        let look = move |trace: &Trace| {
            let mut seen = into.lock().expect("counts");
            for line in trace.lines().iter().filter(|l| l.symbol.name() != "full") {
                let backward = line.own_tags.contains(Tag::BACKWARD);
                let tagged = trace.arena.effective_tags(line, trace.root).contains(tag);
                match (backward, tagged) {
                    (false, true) => seen.0 += 1,
                    (false, false) => seen.1 += 1,
                    (true, true) => seen.2 += 1,
                    (true, false) => seen.3 += 1,
                }
            }
            Ok(trace.clone())
        };
        let body = move |x: &Tensor| tagged(tag, || checkpoint(|| x.sin().exp())).tanh().sum();
        let f = jit(move |x: Tensor| value_and_grad(&x, body)).transform(At::Joint, "look", look).keep_traces();
        let got = f.call(Tensor::from([0.5f64])).unwrap_or_else(|e| panic!("{e}"));
        let want = value_and_grad(&Tensor::from([0.5f64]), |x| x.sin().exp().tanh().sum());
        assert_eq!(got.1.to_vec::<f64>().expect("g"), want.1.to_vec::<f64>().expect("g"));
        let (here, outside, behind, free) = *seen.lock().expect("counts");
        assert!(here == 2 && outside >= 2 && free >= 2, "{here} {outside} {behind} {free}");
        assert_eq!(behind > 0, goes, "{behind}");
        let text = f.trace("acquired").expect("kept");
        assert!(text.contains(&format!("tagged({})", tag.name())), "{text}");
        // behind the header, which says how long it took to make
        let lines = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
        let again = Trace::parse(&text).map(|t| t.to_string()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(lines(&again), lines(&text));
    }
}

/// A tag where it can't stand fails, rather than changes nothing.
#[test]
fn tags_of_other_carriers_are_refused() {
    for tag in [Tag::MUST_SAVE, Tag::CHECKPOINT, Tag::NO_GRAD] {
        let f = jit(move |x: Tensor| tagged(tag, || x.sin()));
        assert_eq!(f.call(Tensor::from([1.0f64])).expect_err("refused").code(), "E724");
    }
}

/// An argument that is one tensor has a name in errors.
#[test]
fn the_only_argument_has_a_name() {
    let g = grad(&Tensor::from([1.0f32, 2.0]), |x| {
        x.add_(1);
        x.sum()
    });
    let error = g.error().expect("refused").to_string();
    assert!(error.contains("`x` is written"), "{error}");
}

/// Rows whose result has the type of their first argument have a variant in place, whichever option names an axis.
#[test]
fn variants_in_place() {
    let x = Tensor::from([[1.0f64, 2.0], [3.0, 4.0]]);
    let f = jit(|x: Tensor| {
        let i = Tensor::from([1i64]);
        x.cumsum_(0);
        x.index_add_(&i, &Tensor::from([[10.0f64, 20.0]]), 0);
        x.scatter_add_(&Tensor::from([[0i64, 1]]), &Tensor::from([[0.5f64, 0.25]]), 0);
        x.index_fill_(&Tensor::from([0i64]), 1, -1.0);
        x * 1.0
    });
    let y = f.call(x.clone()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(y.to_vec::<f64>().expect("y"), [-1.0, 2.0, -1.0, 26.25]);
    assert_eq!(x.to_vec::<f64>().expect("x"), y.to_vec::<f64>().expect("y"));
}

/// Every line has a place with its column, whatever made it.
#[test]
fn every_line_has_a_place() {
    type Program = fn(Tensor) -> Tensor;
    let programs: [(&str, Program); 14] = [
        ("jacobian_reverse", |x| jacobian_reverse(&x, |x| x.softmax(-1)).expect("j")),
        ("jacobian_forward", |x| jacobian_forward(&x, |x| x.softmax(-1)).expect("j")),
        ("jacobian", |x| jacobian(&x, |x| x.clone()).expect("j")),
        ("hessian", |x| hessian(&x, |x| x.prod()).expect("h").remove(0)),
        ("grad", |x| grad(&x, |x| x.sum())),
        ("a zero", |x| grad(&x, |x| x.detach().sum())),
        ("the argument", |x| grad(&x.sum(), |x| x.clone())),
        ("grad of grad", |x| grad(&x, |x| grad(x, |x| x.tanh().sum()).square().sum())),
        ("hvp", |x| hvp(&x, &x, |x| x.prod()).expect("hvp").1),
        ("jvp", |x| jvp(&x, &x, |x| x.sin()).expect("jvp").1),
        ("jvp of a constant", |x| jvp(&x, &x, |x| x.detach()).expect("jvp").1),
        ("vmap", |x| vmap(&x, |x| x.clone().sin()).expect("vmap")),
        ("vmap of a constant", |x| vmap(&x, |_| Tensor::scalar(1.0f64)).expect("vmap")),
        ("checkpoint and writes", |x| {
            let y = checkpoint(|| &x * 1.0);
            let _ = y.reshape([3]).mul_(2.0);
            grad(&y, |y| checkpoint(|| y.sin().exp()).sum())
                + custom_vjp(&x, |x| (x * 1.0, ()), |(), ct: &Tensor| ct * 2.0)
        }),
    ];
    for (name, program) in programs {
        let f = jit(program).keep_traces();
        f.call(Tensor::from([0.5f64, 1.0, 2.0])).unwrap_or_else(|e| panic!("{name}: {e}"));
        let (_, pull) = jit(move |x: Tensor| program(x).sum())
            .keep_traces()
            .pullback(Tensor::from([0.5f64, 1.0, 2.0]))
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let _ = pull;
        for stage in f.stages().iter().filter(|s| s.name != "compiled") {
            for line in stage.text.as_deref().unwrap_or_default().lines() {
                let is_line = line.contains(" = ") && !line.trim_start().starts_with('|');
                let place = line.split("// ").nth(1).map(|place| place.split("   ").next().unwrap_or_default());
                let column = place.is_some_and(|p| p.rsplit(':').take(2).all(|n| n.parse::<u32>().is_ok()));
                assert!(!is_line || column, "{name}, {}: {line}", stage.name);
            }
        }
    }
}
