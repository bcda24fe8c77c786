//! Editing traces: the rewriter, tags, the verifier, bodies, nested builders.

#![allow(missing_docs)]

mod common;

use common::eval::{Array, close, run};
use common::{database, files::plain};
use fulgurite_core::loc::Loc;
use fulgurite_core::{DType, Name, TensorTy, Value};
use fulgurite_runtime::bind::{Rewriter, body_of};
use fulgurite_runtime::intrinsics;
use fulgurite_runtime::trace::{
    BoundSymbol, Carrier, Policies, Policy, ProxyTy, RegionKind, SplitSide, Tag, TagDecl, Trace, verify,
};
use fulgurite_runtime::transforms::{Seed, cse, dce, decompose, joint, value_and_grad, vjp::float_inputs};
use fulgurite_runtime::{Builder, ErrorKind};
use std::rc::Rc;

fn parse(text: &str) -> Trace {
    database();
    Trace::parse(text).unwrap_or_else(|e| panic!("{text}\n{e}"))
}

fn tag(name: &'static str, carrier: Carrier, inherit: bool, must_survive: bool, policy: Policy) -> Tag {
    let policies = Policies::both([policy; 8]);
    Tag::declare(TagDecl { name, carrier, inherit, must_survive, policies }).unwrap()
}

#[test]
fn s1_5_different_outputs() {
    let text = "fn f(x: f32[2]) {\n v: f32[2] #static_memory = sin(x)\n return x\n}";
    let trace = parse(text);
    let error = Rewriter::each(&trace, "unroll", |rw, line| {
        rw.emit(Name::new("cos"), line.args[..1].to_vec(), vec![])?;
        rw.emit(Name::new("exp"), line.args[..1].to_vec(), vec![]).map(|_| ())
    });
    let error = error.unwrap_err();
    let kind = ErrorKind::TagLost { tag: "static_memory", of: "v".into(), transform: "unroll" };
    assert_eq!((error.code(), error.kind()), ("E721", &kind));
    let both = Rewriter::each(&trace, "unroll", |rw, line| {
        let a = rw.emit(Name::new("cos"), line.args[..1].to_vec(), vec![])?.outs[0];
        let b = rw.emit(Name::new("exp"), line.args[..1].to_vec(), vec![])?.outs[0];
        rw.replace_by(line.outs[0], &[a, b]);
        Ok(())
    });
    let both = both.unwrap();
    assert!(both.lines().iter().all(|l| both.arena.tags(l.outs[0]).contains(Tag::STATIC_MEMORY)));
}

#[test]
fn s1_18_merging_keeps_tags_and_places() {
    let probe = tag("probe_union", Carrier::Line, false, false, Policy::Union);
    let trace = parse(
        "fn f(x: f32[2]) {\n a: f32[2] = sin(x) // a.rs:1\n b: f32[2] = sin(x) #probe_union // a.rs:2\n c: f32[2] = sin(x) #recompute // a.rs:3\n r: f32[2] = add(a, b)\n s: f32[2] = add(r, c)\n return s\n}",
    );
    let merged = cse(&trace, SplitSide::Before).unwrap();
    assert_eq!(merged.lines().len(), 4);
    let first = &merged.lines()[0];
    assert!(first.own_tags.contains(probe) && first.outs == trace.lines()[0].outs);
    assert_eq!((first.place.loc.line, first.merged[0].line), (1, 2));
    // after `split` recomputation is decided, and its tag forbids nothing
    assert_eq!(cse(&trace, SplitSide::After).unwrap().lines().len(), 3);
}

#[test]
fn s1_23_return_an_input() {
    tag("probe_input", Carrier::Value, false, false, Policy::Union);
    let replace = |text: &str| {
        let trace = parse(text);
        Rewriter::each(&trace, "simplify", |rw, line| match (line.symbol.name(), &line.args[0]) {
            ("mul", Value::Tensor(x)) => rw.bind(line.outs[0], *x),
            _ => rw.keep(),
        })
    };
    let after = replace("fn f(x: f32[2]) {\n y: f32[2] #probe_input = mul(x, 1)\n z: f32[2] = sin(y)\n return y, z\n}")
        .unwrap();
    assert_eq!(plain(&after), "fn f(x: f32[2] #probe_input) {\n  z: f32[2] = sin(x)\n  return x, z\n}\n");
    let error = replace("fn f(x: f32[2]) {\n y: f32[2] #static_memory = mul(x, 1)\n return y\n}").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TagConflict { tags, of, .. } if tags == &["static_memory"] && of == "y"));
}

#[test]
fn must_save_and_no_save_exclude_each_other() {
    let trace = parse("fn f(x: f32[2]) {\n y: f32[2] #must_save #no_save = sin(x)\n return y\n}");
    assert_eq!(verify::verify(&trace).unwrap_err().code(), "E722");
    let trace = parse("fn f(x: f32[2] #no_save) {\n y: f32[2] = sin(x)\n return y\n}");
    let j = joint(&trace, &float_inputs(&trace), &[Seed::Input]).unwrap();
    let error = fulgurite_runtime::transforms::split(&j).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TagConflict { of, .. } if of == "x"));
}

#[test]
fn bodies_are_made_once_and_draw_the_same_when_made_again() {
    let trace = parse("fn f(x: f32[4], k: key) {\n n: f32[4] = noisy(x, k)\n return n\n}");
    let line = &trace.lines()[0];
    let first = body_of(&trace.arena, line).unwrap().unwrap();
    assert!(Rc::ptr_eq(&first, &body_of(&trace.arena, line).unwrap().unwrap()));
    let again = BoundSymbol { body: Default::default(), ..(**line).clone() };
    let again = body_of(&trace.arena, &again).unwrap().unwrap();
    let keys = |b: &fulgurite_runtime::trace::Body| b.lines.iter().map(|l| l.args[1].clone()).collect::<Vec<_>>();
    assert_eq!(keys(&first), keys(&again));
    assert_ne!(first.outs, again.outs);
    let prim = parse("fn f(x: f32[4]) {\n n: f32[4] = sin(x)\n return n\n}");
    assert!(body_of(&prim.arena, &prim.lines()[0]).unwrap().is_none());
}

#[test]
fn bodies_of_equal_lines_are_copies_over_other_values() {
    let line =
        |arg: &str, tag: &str, at: u32| format!(" {arg}1: f32[2, 3] = softmax({arg}, dim=1){tag} // a.rs:{at}\n");
    let text = format!(
        "fn f(x: f32[2, 3], y: f32[2, 3]) {{\n{}{} return x1, y1\n}}",
        line("x", " #recompute", 3),
        line("y", "", 4)
    );
    let trace = parse(&text);
    let flat = decompose(&trace, &mut |_| false).unwrap();
    verify::verify(&flat).unwrap();
    let (first, second) = flat.lines().split_at(flat.lines().len() / 2);
    let rows = |lines: &[Rc<BoundSymbol>]| lines.iter().map(|l| l.symbol.name()).collect::<Vec<_>>();
    assert_eq!(rows(first), rows(second));
    for (a, b) in first.iter().zip(second) {
        assert!(std::sync::Arc::ptr_eq(&a.solved, &b.solved));
        assert_eq!((a.place.loc.line, b.place.loc.line), (3, 4));
        assert!(a.own_tags.contains(Tag::RECOMPUTE) && !b.own_tags.contains(Tag::RECOMPUTE));
        assert_eq!((a.origin, b.origin), (Some(trace.lines()[0].id), Some(trace.lines()[1].id)));
        assert!(a.outs.iter().all(|o| !b.outs.contains(o)) && a.id != b.id);
    }
    let inputs = [0.0, 3.0].map(|k| Array::new(&[2, 3], &[k, 1.0, 2.0, -1.0, k + 0.5, 0.25]));
    for (a, b) in run(&trace, &inputs).iter().zip(&run(&flat, &inputs)) {
        assert!(close(a, b, 1e-12));
    }
}

#[test]
fn written_arguments_get_new_versions() {
    database();
    let mut b = Builder::new("f");
    let ty = ProxyTy::tensor(TensorTy::new(DType::F64, &[2i64]));
    let (x, m) = (b.input("x", ty.clone()), b.input("m", ty));
    let row = intrinsics::get("momentum").unwrap();
    let outs = b.bind(row, vec![Value::Tensor(x), Value::Tensor(m)], Loc::NOWHERE).unwrap();
    let again = b.bind(row, vec![Value::Tensor(x), Value::Tensor(outs[1])], Loc::NOWHERE).unwrap();
    let trace = b.finish(&[again[0]]);
    verify::verify(&trace).unwrap();
    assert_eq!(
        plain(&trace),
        "\
fn f(x: f64[2], m: f64[2]) {
  (momentum: f64[2], m@1: f64[2]) = momentum(x, m)
  (momentum.1: f64[2], m@2: f64[2]) = momentum(x, m@1)
  m <- m@2
  return momentum.1
}
"
    );
    assert_eq!(plain(&Trace::parse(&plain(&trace)).unwrap()), plain(&trace));
    // writes keep what they need, and gradients go through versions
    assert_eq!(dce(&trace).unwrap().lines().len(), 2);
    let grad = value_and_grad(&trace, &[x]).unwrap();
    let outs = run(&grad, &[Array::new(&[2], &[1.0, 2.0]), Array::new(&[2], &[0.5, 0.25])]);
    // x - m@1 = x - (0.9 m + 0.1 x)
    assert!(close(&outs[1], &Array::new(&[2], &[0.9, 0.9]), 1e-12), "{grad:?}");
    assert_eq!(grad.epilogue().len(), 1);
}

#[test]
fn a_gradient_inside_a_program() {
    database();
    let mut b = Builder::new("step");
    let ty = ProxyTy::tensor(TensorTy::new(DType::F64, &[2i64]));
    let (p, c) = (b.input("p", ty.clone()), b.input("c", ty));
    let get = |name| intrinsics::get(name).unwrap();
    let scale = b.bind(get("exp"), vec![Value::Tensor(c)], Loc::NOWHERE).unwrap()[0];
    // the closure's own argument is another value than the captured `p`
    let (loss, grads) = b.within(RegionKind::NoGrad, Loc::NOWHERE, |b| {
        let mut inner = b.nested("loss");
        let q = inner.input("q", inner.arena().ty(p));
        let a = inner.bind(get("mul"), vec![Value::Tensor(q), Value::Tensor(q)], Loc::NOWHERE).unwrap()[0];
        let s = inner.bind(get("mul"), vec![Value::Tensor(a), Value::Tensor(scale)], Loc::NOWHERE).unwrap()[0];
        let t = inner.bind(get("mul"), vec![Value::Tensor(s), Value::Tensor(p)], Loc::NOWHERE).unwrap()[0];
        let total = inner.bind(get("sum"), vec![Value::Tensor(t)], Loc::NOWHERE).unwrap()[0];
        let trace = inner.finish(&[total]);
        let grad = value_and_grad(&trace, &[q]).unwrap();
        verify::verify(&grad).unwrap();
        let outs = b.splice(&grad, &[p]).unwrap();
        (outs[0], outs[1])
    });
    let step = b.bind(get("sub"), vec![Value::Tensor(p), Value::Tensor(grads)], Loc::NOWHERE).unwrap()[0];
    let trace = b.finish(&[step, loss]);
    verify::verify(&trace).unwrap();
    let outs = run(&trace, &[Array::new(&[2], &[1.0, 2.0]), Array::new(&[2], &[0.0, 0.0])]);
    // d/dq (q² p) at q = p: 2 p²
    assert!(close(&outs[0], &Array::new(&[2], &[1.0 - 2.0, 2.0 - 8.0]), 1e-12), "{trace:?}");
    let other = parse("fn f(x: f64[2]) {\n return x\n}");
    assert_eq!(Builder::new("g").splice(&other, &[p]).unwrap_err().code(), "E709");
}

#[test]
fn devices_must_agree() {
    database();
    let trace = parse("fn f(x: f32[2]@cuda:0, s: f32[]) {\n y: f32[2]@cuda:0 = mul(x, s)\n return y\n}");
    assert_eq!(trace.lines().len(), 1);
    let error = Trace::parse("fn f(x: f32[2]@cuda:0, y: f32[2]) {\n z: f32[2] = mul(x, y)\n return z\n}").unwrap_err();
    assert_eq!(error.code(), "E707");
}
