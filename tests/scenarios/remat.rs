//! Checkpoints and recomputation.

use super::program::*;
use fulgurite::prelude::*;
use fulgurite::trace::{Role, Tag};
use fulgurite::{ErrorKind, transforms};

const INPUTS: &str = "x: f64[2, 3], w: f64[3, 3]";

fn inputs() -> [Tensor; 2] {
    let number = |i: usize| (i as f64 * 0.7 + 0.3).sin();
    [
        Tensor::from_vec((0..6).map(number).collect::<Vec<f64>>(), (2, 3)),
        Tensor::from_vec((6..15).map(number).collect::<Vec<f64>>(), (3, 3)),
    ]
}

/// The program with and without its checkpoints has the same results and gradients.
fn same_as_plain(text: &str) -> transforms::Split {
    let plain: Vec<String> = text.lines().map(|l| l.replace("checkpoint {", "scope \"plain\" {")).collect();
    let (with, without) = (cut(&parse(text)), cut(&parse(&plain.join("\n"))));
    let (out, grads) = apart(&with, &inputs());
    let (plain_out, plain_grads) = apart(&without, &inputs());
    assert_eq!(numbers(&out), numbers(&plain_out));
    for (a, b) in grads.iter().zip(&plain_grads) {
        close(&a.as_ref().expect("live").to_f64().expect("data"), &b.as_ref().expect("live").to_f64().expect("data"));
    }
    with
}

const ONE: &str = "a: f64[2, 3] = matmul(x, w)\n b: f64[2, 3] = sin(a)";

#[test]
fn s1_13_a_checkpoint_keeps_what_enters_it() {
    let split = same_as_plain(&format!("fn f({INPUTS}) {{\n checkpoint {{\n {ONE}\n }}\n return b\n}}"));
    assert_eq!(names(&split.forward, &split.plan.tensors), ["w", "x"]);
    let again: Vec<_> = split.backward.lines().iter().filter(|l| l.place.role == Role::Recompute).collect();
    assert_eq!(again.len(), 1, "{}", split.backward);
    let line = again[0];
    assert_eq!((line.symbol.name(), &*split.backward.arena.name(line.outs[0])), ("matmul", "a.r1"));
    let tags = split.backward.arena.effective_tags(line, split.backward.root);
    assert!(tags.contains(Tag::BACKWARD) && !tags.contains(Tag::RECOMPUTE) && !tags.contains(Tag::CHECKPOINT));
    assert!(split.backward.lines().iter().all(|l| l.symbol.name() != "sin"));
}

#[test]
fn s1_13_a_tag_on_one_line_does_the_same() {
    let text =
        format!("fn f({INPUTS}) {{\n a: f64[2, 3] = matmul(x, w) #recompute\n b: f64[2, 3] = sin(a)\n return b\n}}");
    let split = cut(&parse(&text));
    assert_eq!(names(&split.forward, &split.plan.tensors), ["w", "x"]);
    assert_eq!(ops(&split.backward, Role::Recompute), ["matmul"]);
}

#[test]
fn s1_15_checkpoints_nest() {
    let split = same_as_plain(&format!(
        "fn f({INPUTS}) {{\n checkpoint {{\n m: f64[2, 3] = matmul(x, w)\n checkpoint {{\n s: f64[2, 3] = sin(m)\n c: f64[2, 3] = cos(s)\n }}\n t: f64[2, 3] = sin(c)\n }}\n return t\n}}"
    ));
    assert_eq!(names(&split.forward, &split.plan.tensors), ["w", "x"]);
    assert_eq!(ops(&split.backward, Role::Recompute), ["matmul", "sin", "cos"]);
}

/// What leaves one checkpoint and enters the next is kept: the second is not computed again from the first one's inputs.
#[test]
fn s1_15_checkpoints_in_a_row_keep_what_passes_between_them() {
    let split = same_as_plain(&format!(
        "fn f({INPUTS}) {{\n checkpoint {{\n a: f64[2, 3] = matmul(x, w)\n b: f64[2, 3] = sin(a)\n }}\n checkpoint {{\n c: f64[2, 3] = matmul(b, w)\n d: f64[2, 3] = sin(c)\n }}\n return d\n}}"
    ));
    assert_eq!(names(&split.forward, &split.plan.tensors), ["b", "w", "x"]);
    assert_eq!(ops(&split.backward, Role::Recompute), ["matmul", "matmul"]);
}

#[test]
fn s1_16_no_grad_in_a_checkpoint() {
    let text = format!(
        "fn f({INPUTS}) {{\n checkpoint {{\n no_grad {{\n p: f64[2, 3] = abs(x)\n s: f64[] = amax(p)\n }}\n d: f64[2, 3] = div(x, s)\n r: f64[2, 3] = matmul(d, w)\n }}\n return r\n}}"
    );
    let split = same_as_plain(&text);
    let trace = &split.backward;
    let activity = transforms::Activity::of(trace, &transforms::vjp::float_inputs(trace)).expect("activity");
    let again = trace.lines().iter().find(|l| l.symbol.name() == "amax").expect("computed again");
    let why = activity.why_constant(again);
    assert!(matches!(why, Some(transforms::Reason::NoGradRegion(_))), "{why:?}");
}

#[test]
fn s1_17_saving_wins_and_conflicts_fail() {
    let with = |tag: &str, input: &str| {
        parse(&format!(
            "fn f(x: f64[2, 3]{input}, w: f64[3, 3]) {{\n checkpoint {{\n a: f64[2, 3] {tag} = matmul(x, w)\n b: f64[2, 3] = sin(a)\n }}\n return b\n}}"
        ))
    };
    let split = cut(&with("#must_save", ""));
    assert_eq!(names(&split.forward, &split.plan.tensors), ["a", "w", "x"]);
    assert_eq!(ops(&split.backward, Role::Recompute), [""; 0]);
    let both = marked(&with("#must_save #no_save", "")).expect_err("they exclude each other");
    let of = |e: &ErrorKind| match e {
        ErrorKind::TagConflict { tags, of, .. } => (tags.clone(), of.clone()),
        other => panic!("{other:?}"),
    };
    assert_eq!(of(both.kind()), (vec!["must_save", "no_save"], "a".to_owned()), "{both}");
    let input = marked(&with("", " #no_save")).expect_err("an input can't be rebuilt");
    assert_eq!(of(input.kind()), (vec!["no_save"], "x".to_owned()));
    assert!(input.to_string().contains("can't be rebuilt"), "{input}");
}

/// Values of a checkpointed model with dropout are those of the plain one, for every seed.
#[test]
fn s1_14_draws_are_the_same_again() {
    let program = |again: bool| {
        jit(move |x: Tensor, mut k: Key| {
            let mut rest = k.clone();
            let (_, g) = value_and_grad(&x, |x| {
                let mut f = || x.sin().dropout(k.next());
                (if again { checkpoint(f) } else { f() }).sum()
            });
            let _ = rest.next();
            (g, ops::randn(rest.next(), [4]))
        })
    };
    let (with, without) = (program(true).keep_traces(), program(false));
    let x = Tensor::from_vec((0..40).map(|i| i as f64 * 0.1).collect::<Vec<f64>>(), 40);
    for seed in 0..20 {
        let a = with.call((x.clone(), Key::new(seed))).expect("runs");
        let b = without.call((x.clone(), Key::new(seed))).expect("runs");
        assert_eq!(
            (a.0.to_f64().expect("data"), a.1.to_f64().expect("data")),
            (b.0.to_f64().expect("data"), b.1.to_f64().expect("data"))
        );
    }
    assert!(with.trace("rematerialised").expect("kept").contains("sin"));
}

const DEEP: &str = "fn f(x: f64[4, 32], w: f64[32, 32]) {
 h1: f64[4, 32] = matmul(x, w)
 g1: f64[4, 32] = gelu(h1)
 h2: f64[4, 32] = matmul(g1, w)
 g2: f64[4, 32] = gelu(h2)
 h3: f64[4, 32] = matmul(g2, w)
 g3: f64[4, 32] = gelu(h3)
 return g3
}";

#[test]
fn s1_13_a_budget_is_kept_for_the_least_work() {
    let trace = parse(DEEP);
    let seeds = [transforms::Seed::Input];
    let wrt = transforms::vjp::float_inputs(&trace);
    let make = |policy| {
        let joint = transforms::joint(&trace, &wrt, &seeds).expect("differentiates");
        transforms::rematerialise(joint, policy).expect("cuts")
    };
    let one = 4 * 32 * 8;
    // gelus are cheaper than products: without them the products' results are kept
    let (cheap, report) = make(transforms::Remat::Share(0.6));
    assert_eq!((report.before, report.kept), (5 * one, 3 * one), "{report}");
    assert_eq!(ops(&cheap.trace, Role::Recompute), ["gelu", "gelu"]);
    let (least, report) = make(transforms::Remat::Bytes(0));
    assert_eq!(report.kept, 0, "{report}");
    assert_eq!(ops(&least.trace, Role::Recompute).len(), 5);
    let number = |i: usize| (i as f64 * 0.7 + 0.3).sin();
    let inputs = [
        Tensor::from_vec((0..128).map(number).collect::<Vec<f64>>(), (4, 32)),
        Tensor::from_vec((0..1024).map(number).collect::<Vec<f64>>(), (32, 32)),
    ];
    for joint in [cheap, least] {
        let (_, grads) = apart(&transforms::split(&joint).expect("splits"), &inputs);
        let (_, plain) = apart(&cut(&trace), &inputs);
        for (a, b) in grads.iter().flatten().zip(plain.iter().flatten()) {
            close(&a.to_f64().expect("data"), &b.to_f64().expect("data"));
        }
    }
}
