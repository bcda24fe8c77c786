//! Transforms that edit traces, and tags. Autocast and recomputation stand apart.

use super::program::*;
use fulgurite::bind::Rewriter;
use fulgurite::core::Name;
use fulgurite::executors::{self, Claim, ExecError, Executor, Kernel, Line, TensorMut, TensorRef};
use fulgurite::prelude::*;
use fulgurite::trace::{
    BoundSymbol, Carrier, Event, Policies, Policy, PrintOptions, Role, SplitSide, Tag, TagDecl, Trace,
};
use fulgurite::transforms::{self, At, Seed, vjp::float_inputs};
use fulgurite::{Error, ErrorKind};
use std::sync::Arc;

fn line_tag(name: &'static str, inherit: bool, policies: Policies) -> Tag {
    let decl = TagDecl { name, carrier: Carrier::Line, inherit, must_survive: false, policies };
    Tag::declare(decl).expect("a new kind, or the same")
}

fn located(trace: &Trace) -> String {
    trace.print(&PrintOptions { locs: true, ..PrintOptions::plain() })
}

#[test]
fn s1_2_identity() {
    let text = "fn f(x: f32[2, 3] #static_memory, k: key) {
  scope \"block\" {
    no_grad {
      a: f32[2, 3] #must_save = softmax(x, dim=1) #recompute
    }
    checkpoint {
      d: f32[2, 3] = dropout(a, k)
    }
  }
  return d
}
";
    let trace = parse(text);
    let same = Rewriter::each(&trace, "identity", |rw, _| rw.keep()).expect("keeps");
    assert_eq!((located(&same), same.lines().len()), (located(&trace), trace.lines().len()));
    assert!(trace.lines().iter().zip(same.lines()).all(|(a, b)| std::rc::Rc::ptr_eq(a, b)), "the very same lines");
}

fn unfolded(text: &str) -> Trace {
    transforms::decompose(&parse(text), &mut |line| !line.symbol.row().is_composite()).expect("unfolds")
}

#[test]
fn s1_3_decompose() {
    let flat = unfolded(
        "fn f(y: f64[2, 3], i: i64[2]) {\n g: f64[] #must_save = cross_entropy(y, i) #recompute  // a.rs:3:5\n return g\n}",
    );
    assert!(flat.lines().len() > 2, "{flat}");
    for line in flat.lines() {
        assert!(flat.arena.effective_tags(line, flat.root).contains(Tag::RECOMPUTE), "{flat}");
        assert_eq!((line.place.loc.file, line.place.loc.line), ("a.rs", 3));
        let saved: Vec<_> = line.outs.iter().filter(|p| flat.arena.tags(**p).contains(Tag::MUST_SAVE)).collect();
        assert_eq!(saved.len(), usize::from(line.outs == flat.outputs()), "{flat}");
    }
}

#[test]
fn s1_4_policy_drop() {
    let all = Policies::both([Policy::All; 8]);
    let (goes, stays) =
        (line_tag("s1_4_goes", false, Policies::both([Policy::Drop; 8])), line_tag("s1_4_stays", false, all));
    let flat = unfolded(
        "fn f(y: f64[2, 3], i: i64[2]) {\n g: f64[] = cross_entropy(y, i) #s1_4_goes #s1_4_stays\n return g\n}",
    );
    assert!(flat.lines().iter().all(|l| !l.own_tags.contains(goes) && l.own_tags.contains(stays)), "{flat}");
}

#[test]
fn s1_6_grad_keeps_tags() {
    let mut policies = [Policy::Keep; 8];
    policies[Event::Vjp as usize] = Policy::All;
    let probe = line_tag("s1_6_probe", true, Policies::both(policies));
    let text = "fn f(x: f64[2]) {\n s: f64[2] = sin(x) #s1_6_probe #recompute  // a.rs:1:1\n r: f64[2] = mul(s, x) #s1_6_probe  // a.rs:2:1\n return r\n}";
    let trace = parse(text);
    let joint = transforms::joint(&trace, &float_inputs(&trace), &[Seed::Input]).expect("differentiates");
    let (forward, backward) = joint.trace.lines().split_at(2);
    assert!(forward.iter().zip(trace.lines()).all(|(a, b)| std::rc::Rc::ptr_eq(a, b)), "forward lines are the same");
    for line in backward {
        assert!(line.own_tags.contains(Tag::BACKWARD) && line.own_tags.contains(probe), "{}", joint.trace);
        assert!(!line.own_tags.contains(Tag::RECOMPUTE), "{}", joint.trace);
    }
    assert!(backward.iter().any(|l| l.place.role == Role::Accumulate));
}

#[test]
fn s1_7_locations_in_the_backward() {
    let text = "fn f(x: f64[2, 2], w: f64[2, 2]) {\n a: f64[2, 2] = matmul(x, w)  // a.rs:1:1\n b: f64[2, 2] = sin(a)  // a.rs:2:1\n c: f64[2, 2] = mul(b, x)  // a.rs:3:1\n s: f64[] = sum(c)  // a.rs:4:1\n return s\n}";
    let trace = parse(text);
    let joint = transforms::joint(&trace, &float_inputs(&trace), &[Seed::Ones]).expect("differentiates");
    let backward = &joint.trace.lines()[4..];
    for line in backward {
        assert!(line.place.loc.file == "a.rs" && line.place.role != Role::Forward, "{}", joint.trace);
        let of = trace.lines().iter().find(|l| Some(l.id) == line.origin).expect("made for a line of the forward");
        assert_eq!(line.place.loc.line, of.place.loc.line);
    }
    let sums: Vec<&std::rc::Rc<BoundSymbol>> = backward.iter().filter(|l| l.place.role == Role::Accumulate).collect();
    // the contribution of the product came last
    assert_eq!((sums.len(), sums[0].place.loc.line), (1, 1), "{}", joint.trace);
}

/// An executor that takes one operator, and whose kernel does as it is told.
struct Broken(&'static str);

impl Executor for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }
    fn claim(&self, lines: &[Line]) -> Option<Claim> {
        (lines[0].name() == self.0).then(|| Claim::line(&lines[0], Arc::new(Fails)))
    }
}

struct Fails;

impl Kernel for Fails {
    fn name(&self) -> String {
        "fails".into()
    }
    fn run(&self, _: &[TensorRef<'_>], _: &mut [TensorMut<'_>]) -> Result<(), ExecError> {
        Err(ExecError::new("E807", "this kernel fails"))
    }
}

#[test]
fn s1_8_error_in_a_backward_kernel() {
    let mut on: Vec<Arc<dyn Executor>> = vec![Arc::new(Broken("sin.vjp.x"))];
    on.extend(executors::default());
    let at = line!() + 1;
    let run = jit(|x: Tensor| grad(&x, |x| x.sin().sum())).on(on);
    let error = run.call(Tensor::from([1.0f64])).expect_err("the kernel fails");
    let text = error.to_string();
    for part in ["`sin.vjp.x`", "backward of `sin`", "this kernel fails"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(error.loc().file.ends_with("s1.rs") && error.loc().line == at, "{text}");
}

#[test]
fn s1_9_shape_error() {
    let at = line!() + 1;
    let run = jit(|x: Tensor, w: Tensor| x.matmul(&w) + ops::full([7], 1.0));
    let arguments = (Tensor::from([[1.0f32; 3]; 2]), Tensor::from([[1.0f32; 4]; 3]));
    let error = run.call(arguments).expect_err("sizes differ");
    let ErrorKind::ShapeMismatch { op, shapes, .. } = error.kind() else { panic!("{error}") };
    let shapes: Vec<String> = shapes.iter().map(|(_, ty)| ty.to_string()).collect();
    assert_eq!((op.as_str(), shapes), ("add", vec!["f32[2, 4]".to_owned(), "f32[7]".to_owned()]), "{error}");
    assert!(error.loc().file.ends_with("s1.rs") && error.loc().line == at, "{error}");
    assert!(error.to_string().contains('4') && error.to_string().contains('7'), "{error}");
}

#[test]
fn s1_18_draws_are_never_merged() {
    let _ = parse("fn f(x: f32[1]) {\n return x\n}");
    let mut checked = 0;
    for symbol in fulgurite::symbol::all().into_iter().filter(|s| s.row().takes_key()) {
        let mut args = Vec::new();
        let mut given = Vec::new();
        let sig = &symbol.row().sig;
        for param in &sig.params {
            use fulgurite::core::lang::ast::Elem;
            let key = param.ty.elem.contains(&Elem::Key);
            given.push(format!("{}: {}", param.name.name, if key { "key" } else { "f32[4]" }));
            args.push(param.name.name.to_string());
        }
        args.extend(sig.opts.iter().filter(|o| o.default.is_none()).map(|o| {
            let name = o.name.name.as_str();
            match name {
                "shape" => "shape=[4]".to_owned(),
                "dtype" => "dtype=f32".to_owned(),
                _ => format!("{name}=4"),
            }
        }));
        let call = format!("{}({})", symbol.name(), args.join(", "));
        let twice =
            format!("fn f({}) {{\n a: f32[4] = {call}\n b: f32[4] = {call}\n return a, b\n}}", given.join(", "));
        // the types of results are not known here: the parser says them
        let Ok(trace) = Trace::parse(&twice).or_else(|_| Trace::parse(&twice.replace("f32[4] = ", "i64[4] = "))) else {
            continue;
        };
        let merged = transforms::cse(&trace, SplitSide::After).expect("merges");
        assert_eq!(merged.lines().len(), 1, "{merged}");
        checked += 1;
    }
    assert!(checked >= 3, "{checked} rows that draw were checked");
}

#[test]
fn s1_18_forward_and_backward_twins_stay_apart() {
    let text =
        "fn f(x: f64[2]) {\n a: f64[2] = cos(x)\n b: f64[2] = cos(x) #backward\n o: f64[2] = add(a, b)\n return o\n}";
    for stage in [SplitSide::Before, SplitSide::After] {
        let merged = transforms::cse(&parse(text), stage).expect("merges");
        assert_eq!(merged.lines().len(), 3, "{merged}");
    }
}

#[test]
fn s1_19_dce() {
    let text = "fn f(x: f64[2, 2]) {
 scope \"dead\" {
 z: f64[2, 2] = sin(x)
 }
 (v: f64[2], m: f64[2] #must_save) = var_mean(x, dims=[1]) #recompute
 return m
}";
    let shown = transforms::dce(&parse(text)).expect("cleans").print(&PrintOptions::plain());
    assert!(shown.contains("(_, m: f64[2] #must_save) = var_mean(x, dims=[1]) #recompute"), "{shown}");
    assert!(!shown.contains("dead"), "{shown}");
}

#[test]
fn s1_22_tags_are_known_while_tracing() {
    let run = jit(|x: Tensor| if tags_of(&x).contains(Tag::STATIC_MEMORY) { x * 2 } else { x * 3 });
    let fixed = with_tag(&Tensor::from([1.0f32]), Tag::STATIC_MEMORY);
    let call = |x: &Tensor| run.call(x.clone()).expect("runs").to_f64().expect("data");
    assert_eq!((call(&fixed), call(&Tensor::from([1.0f32]))), (vec![2.0], vec![3.0]));
    assert_eq!(run.stats().programs, 2, "{}", run.stats());
    let wrong = with_tag(&fixed, Tag::RECOMPUTE);
    assert_eq!(wrong.error().expect("a tag of lines").code(), "E724");
}

#[test]
fn s1_13_lines_are_tagged_at_any_depth() {
    let run =
        jit(|x: Tensor, w: Tensor| grad(&x, |x| tagged(Tag::RECOMPUTE, || named("deep", || x.matmul(&w))).sin().sum()))
            .keep_traces();
    let _ = run.call((Tensor::from([[1.0f64; 2]; 2]), Tensor::from([[0.5f64; 2]; 2]))).expect("runs");
    let text = run.trace("rematerialised").expect("kept");
    assert!(text.contains("matmul.r1"), "{text}");
    let stages = run.stages();
    let remark = stages.iter().find(|s| s.name == "rematerialised").and_then(|s| s.remark.clone()).expect("a report");
    assert!(remark.contains("1 lines run again"), "{remark}");
}

/// A transform of a user's stands where he puts it, is a stage, and is blamed for what it breaks.
#[test]
fn s1_1_transforms_of_ones_own() {
    let halve = |trace: &Trace| {
        Rewriter::each(trace, "halve", |rw, line| match line.symbol.name() {
            "mul" => {
                let made = rw.emit(Name::new("div"), line.args.clone(), vec![])?;
                rw.bind(line.outs[0], made.outs[0])
            }
            _ => rw.keep(),
        })
    };
    let make = |at: At| jit(|x: Tensor| grad(&x, |x| (x * 4).sum())).transform(at, "halve", halve).keep_traces();
    let run = make(At::Acquired);
    assert_eq!(run.call(Tensor::from([1.0f64])).expect("runs").to_f64().expect("data"), [0.25]);
    assert!(run.trace("halve").expect("a stage").contains("div"), "{:?}", run.stages());
    for at in [At::Joint, At::Simplified] {
        assert_eq!(make(at).call(Tensor::from([1.0f64])).expect("runs").to_f64().expect("data"), [0.25]);
    }
    let broken = jit(|x: Tensor| x * 4 + 1).transform(At::Acquired, "careless", |trace: &Trace| {
        Rewriter::each(trace, "careless", |rw, line| {
            if line.symbol.name() == "mul" {
                rw.drop_line()
            } else {
                rw.keep()?
            }
            Ok(())
        })
    });
    let error: Error = broken.call(Tensor::from([1.0f64])).expect_err("a value is gone");
    assert_eq!(error.kind(), &ErrorKind::BadTrace { transform: "careless" }, "{error}");
}

/// Fusions are made inside of the executor's program, and the trace is what it was: nothing has to be undone. A line that
/// runs again never meets the forward in one of them.
#[test]
fn s1_20_fusion_leaves_the_trace_alone() {
    let probe = line_tag("s1_20_probe", false, Policies::both([Policy::All; 8]));
    let text = "fn f(x: f64[512]) {
  checkpoint 1 {
    a: f64[512] = sin(x) #s1_20_probe  // a.rs:1:1
    e: f64[512] = exp(a)  // a.rs:2:1
    b: f64[512] = tanh(e)  // a.rs:3:1
  }
  c: f64[512] = cos(b)  // a.rs:4:1
  return c
}
";
    let trace = parse(text);
    let before = located(&trace);
    let bodies = |line: &BoundSymbol| {
        fulgurite::bind::body_of(&trace.arena, line).map_err(|e| ExecError::new(e.code(), e.to_string()))
    };
    let compiled = executors::compile(&trace, &executors::CompileOptions::new(&bodies)).expect("compiles");
    let steps = compiled.describe().steps;
    assert_eq!((steps.len(), steps[0].lines.len()), (1, 4), "one fusion of all");
    assert_eq!(located(&trace), before);
    let line = &trace.lines()[0];
    assert!(line.own_tags.contains(probe) && trace.arena.effective_tags(line, trace.root).contains(Tag::CHECKPOINT));

    // the backward computes `a` and `e` again, apart from the forward that computes them too
    let joint = joint(&trace).trace;
    let again: Vec<_> = joint.lines().iter().filter(|l| l.place.role == Role::Recompute).map(|l| l.id).collect();
    let first: Vec<_> = joint.lines().iter().filter(|l| l.place.role == Role::Forward).map(|l| l.id).collect();
    let bodies = |line: &BoundSymbol| {
        fulgurite::bind::body_of(&joint.arena, line).map_err(|e| ExecError::new(e.code(), e.to_string()))
    };
    let compiled = executors::compile(&joint, &executors::CompileOptions::new(&bodies)).expect("compiles");
    assert!(!again.is_empty() && compiled.describe().steps.len() > 1, "{joint}");
    for step in compiled.describe().steps {
        let has = |ids: &[_]| step.lines.iter().any(|l| ids.contains(l));
        assert!(!(has(&again) && has(&first)), "{:?}", step.rows);
    }
}

/// Executors claim when a program is compiled: one that declines there leaves the line to the next, or to its body, and
/// what fails in the body is reported at the line's call.
#[test]
fn s1_21_a_declined_line_runs_by_its_body() {
    struct Declines;
    impl Executor for Declines {
        fn name(&self) -> &'static str {
            "declines"
        }
        fn claim(&self, _: &[Line]) -> Option<Claim> {
            None
        }
    }
    let mut on: Vec<Arc<dyn Executor>> = vec![Arc::new(Declines)];
    on.extend(executors::default());
    let at = line!() + 1;
    let run = jit(|x: Tensor, i: Tensor| ops::cross_entropy(&x, &i, None)).on(on);
    let x = Tensor::from([[1.0f64, 2.0], [3.0, 5.0]]);
    let loss =
        run.call((x.clone(), Tensor::from([0i64, 1]))).expect("runs by its body").item::<f64>().expect("a number");
    close(&[loss], &[((1.0 + 1.0f64.exp()).ln() + (1.0 + (-2.0f64).exp()).ln()) / 2.0]);
    let error = run.call((x, Tensor::from([0i64, 7]))).expect_err("there is no class 7");
    let text = error.to_string();
    assert!(text.contains(&format!("s1.rs:{at}")) && text.contains("in the body of"), "{text}");
}
