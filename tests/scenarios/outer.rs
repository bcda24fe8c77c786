//! Executors that run operators on tensors of subclasses as a whole.

use fulgurite::executors::{self, ExecError, Executor, Kernel, Line, Outer, TensorMut, TensorRef};
use fulgurite::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

static RUNS: AtomicUsize = AtomicUsize::new(0);

/// Products of eight-bit matrices, element by element.
struct Products;

impl Kernel for Products {
    fn name(&self) -> String {
        "products".into()
    }

    fn run(&self, inputs: &[TensorRef<'_>], outs: &mut [TensorMut<'_>]) -> Result<(), ExecError> {
        RUNS.fetch_add(1, Ordering::Relaxed);
        let [a, sa, b, sb] = inputs else { return Err(ExecError::new("E802", "four fields were expected")) };
        let numbers = |t: &TensorRef<'_>| t.to_buffer().map(|b| b.to_f64()).unwrap_or_default();
        let (rows, depth, cols) = (a.shape[0], a.shape[1], b.shape[1]);
        let (x, y) = (numbers(a), numbers(b));
        let scale = numbers(sa)[0] * numbers(sb)[0];
        let out = outs[0].as_slice_mut::<f32>().ok_or_else(|| ExecError::new("E802", "f32 was expected"))?;
        for i in 0..rows {
            for j in 0..cols {
                let sum: f64 = (0..depth).map(|k| x[i * depth + k] * y[k * cols + j]).sum();
                out[i * cols + j] = (sum / scale) as f32;
            }
        }
        Ok(())
    }
}

/// Runs `matmul` and `linear` of floats of eight bits.
struct Eight(&'static [(&'static str, &'static str)]);

impl Executor for Eight {
    fn name(&self) -> &'static str {
        "eight"
    }
    fn claim(&self, _: &[Line]) -> Option<executors::Claim> {
        None
    }
    fn outer(&self) -> &'static [(&'static str, &'static str)] {
        self.0
    }
    fn claim_outer(&self, outer: &Outer<'_>) -> Option<Arc<dyn Kernel>> {
        (outer.op == "matmul").then(|| Arc::new(Products) as Arc<dyn Kernel>)
    }
}

fn matrix(seed: u64, sizes: [usize; 2]) -> Tensor {
    ops::randn(Key::new(seed), sizes)
}

#[test]
fn s4_7_an_executor_brings_a_gradient_with_its_forward_or_not_at_all() {
    let runs: Arc<dyn Executor> = Arc::new(Eight(&[("Float8Tensor", "linear")]));
    let rules = [("x", "matmul(g, w.plain)"), ("w", "matmul(t(g), x.plain) * 2")];
    executors::register_gradient(&runs, "Float8Tensor", "linear", &rules).unwrap();
    let step = || {
        jit(|x: Tensor, w: Tensor| grad(&(x, w), |(x, w)| x.to_float8().linear(&w.to_float8(), None).sum()))
            .named("step")
            .keep_traces()
    };
    let mut list = executors::default();
    list.insert(0, runs);
    let (mine, usual) = (step().on(list), step());
    let (x, w) = (matrix(1, [4, 8]), matrix(2, [3, 8]));
    let (_, gw) = mine.call((x.clone(), w.clone())).unwrap();
    let (_, want) = usual.call((x, w)).unwrap();
    let far =
        (gw.to_f64().unwrap().iter().zip(want.to_f64().unwrap())).map(|(a, b)| (a - 2.0 * b).abs()).fold(0.0, f64::max);
    assert!(far < 0.1, "{far}");
    let joint = mine.trace("joint").unwrap();
    assert!(joint.lines().any(|l| l.contains("= matmul(") && l.ends_with("by eight")), "{joint}");
    assert!(!usual.trace("joint").unwrap().contains("by eight"));
    // one that can't run the forward
    let idle: Arc<dyn Executor> = Arc::new(Eight(&[]));
    let e = executors::register_gradient(&idle, "Float8Tensor", "linear", &rules).unwrap_err();
    assert_eq!(e.code(), "E810");
    let text = e.to_string();
    assert!(["`eight`", "`linear`", "`Float8Tensor`"].iter().all(|name| text.contains(name)), "{text}");
}

#[test]
fn s4_8_an_executor_claims_an_operator_on_a_class_whole() {
    let f = || {
        jit(|x: Tensor, w: Tensor, p: Tensor| {
            let y = x.to_float8().matmul(&w.to_float8());
            let v = x.to_float8().t().plain();
            (y.matmul(&p), v)
        })
        .named("f")
        .keep_traces()
    };
    let mut list = executors::default();
    list.insert(0, Arc::new(Eight(&[("Float8Tensor", "matmul")])));
    let (mine, usual) = (f().on(list), f());
    let args = || (matrix(1, [4, 8]), matrix(2, [8, 3]), matrix(3, [3, 2]));
    let before = RUNS.load(Ordering::Relaxed);
    let (y, v) = mine.call(args()).unwrap();
    assert_eq!(RUNS.load(Ordering::Relaxed), before + 1);
    let (want, same) = usual.call(args()).unwrap();
    let far = (y.to_f64().unwrap().iter().zip(want.to_f64().unwrap())).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(far < 1e-5, "{far}");
    assert_eq!(v.to_f64().unwrap(), same.to_f64().unwrap());
    let unrolled = mine.trace("unrolled").unwrap();
    // the claimed line stands alone, on the fields; the view and the plain product are as ever
    assert_eq!(unrolled.matches("= matmul.claimed.").count(), 1, "{unrolled}");
    assert!(unrolled.lines().any(|l| l.contains("= matmul.claimed.") && l.contains("eight")), "{unrolled}");
    assert!(
        !unrolled.contains("scaled_mm") && unrolled.contains("= matmul(") && unrolled.contains("= t("),
        "{unrolled}"
    );
    assert_eq!(usual.trace("unrolled").unwrap().matches("= scaled_mm(").count(), 1);
}
