//! Compares programs on the CPU executor with the oracle, and tests their own properties: fusion, memory, threads,
//! errors.
//!
//! The rows here are a small database of their own; `fulgurite-tests` covers the whole database.

mod blocks;
mod chains;
mod conditions;
mod convolutions;
pub(crate) mod database;
mod far;
mod joins;
mod many;
mod memory;
mod products;
mod scatters;
mod unwritten;
mod windows;

use super::*;
use crate::bind::body_of;
use crate::buffer::Buffer;
use crate::trace::ProxyTy;
use database::database;
use fulgurite_core::DType;
use fulgurite_core::builtins::cast_f64;
use fulgurite_kernels::abi::Level;

fn parse(text: &str) -> Trace {
    database();
    Trace::parse(text).unwrap_or_else(|e| panic!("{text}\n{e}"))
}

fn compile_with(trace: &Trace, executors: Vec<Arc<dyn Executor>>, threads: usize) -> Result<Compiled, ExecError> {
    let arena = trace.arena.clone();
    let bodies = move |line: &BoundSymbol| body_of(&arena, line).map_err(|e| ExecError::new("E801", e.to_string()));
    compile(trace, &CompileOptions { executors, threads, ..CompileOptions::new(&bodies) })
}

/// A program whose values between lines exist as blocks of rows, if they have at least 256 bytes.
fn blocked(trace: &Trace, threads: usize) -> Compiled {
    let arena = trace.arena.clone();
    let bodies = move |line: &BoundSymbol| body_of(&arena, line).map_err(|e| ExecError::new("E801", e.to_string()));
    let executors: Vec<Arc<dyn Executor>> = vec![Arc::new(cpu::Cpu)];
    let options = CompileOptions { executors, threads, blocks_from: 256, ..CompileOptions::new(&bodies) };
    compile(trace, &options).unwrap_or_else(|e| panic!("{trace:?}\n{e}"))
}

fn cpu(trace: &Trace, threads: usize) -> Compiled {
    compile_with(trace, vec![Arc::new(cpu::Cpu)], threads).unwrap_or_else(|e| panic!("{trace:?}\n{e}"))
}

/// Distinct numbers in -2..2, and indices 0, 1, 2.
fn inputs(trace: &Trace) -> Vec<Buffer> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f64 / (1u64 << 24) as f64
    };
    let make = |ty: ProxyTy, next: &mut dyn FnMut() -> f64| {
        let (dtype, shape) = line::stored(&ty);
        if ty == ProxyTy::Key {
            return Buffer::key(11, 3).unwrap();
        }
        let len: usize = shape.iter().product();
        let data = (0..len).map(|_| {
            let x = next();
            if dtype.is_int() { cast_f64((x * 3.0).floor(), dtype) } else { cast_f64(x * 4.0 - 2.0, dtype) }
        });
        Buffer::from_numbers(dtype, &shape, data).unwrap()
    };
    trace.input_proxies().map(|p| make(trace.ty(p), &mut next)).collect()
}

/// Runs a program on both executors, with one and two threads, and returns the CPU's program.
fn agree(text: &str) -> Compiled {
    let trace = parse(text);
    let inputs = inputs(&trace);
    let oracle = compile_with(&trace, vec![Arc::new(interp::Interp)], 1).unwrap_or_else(|e| panic!("{text}\n{e}"));
    let (one, two) = (cpu(&trace, 1), cpu(&trace, 2));
    let want = oracle.run(&inputs).unwrap_or_else(|e| panic!("{text}\n{e}"));
    let got = one.run(&inputs).unwrap_or_else(|e| panic!("{text}\n{e}"));
    let shared = two.run(&inputs).unwrap();
    for (i, ((g, w), s)) in got.iter().zip(&want).zip(&shared).enumerate() {
        assert_eq!((g.dtype(), g.shape()), (w.dtype(), w.shape()), "{text}");
        assert_eq!(g.as_bytes(), s.as_bytes(), "result {i} depends on the threads\n{text}");
        let tolerance = match g.dtype() {
            DType::F64 => 1e-12,
            DType::F32 => 2e-5,
            DType::F16 => 4e-3,
            DType::BF16 => 3e-2,
            _ => 0.0,
        };
        for (k, (x, y)) in g.to_f64().into_iter().zip(w.to_f64()).enumerate() {
            let close = (x - y).abs() <= tolerance * (1.0 + y.abs()) || (x.is_nan() && y.is_nan()) || x == y;
            assert!(close, "result {i}, element {k}: {x}, should be {y}\n{text}\n{}", one.describe());
        }
    }
    one
}

fn steps(c: &Compiled) -> usize {
    c.describe().steps.len()
}

#[test]
fn chains_are_one_program() {
    for shape in ["[7]", "[3, 5]", "[64, 100]", "[2, 3, 40]", "[300, 300]", "[]"] {
        let c = agree(&format!(
            "fn f(x: f32{shape}, y: f32{shape}) {{
               a: f32{shape} = mul(x, y)
               b: f32{shape} = add(a, 1.5)
               c: f32{shape} = exp(b)
               d: f32{shape} = div(c, a)
               return d, b
             }}"
        ));
        assert_eq!(steps(&c), 1, "{}", c.describe());
    }
}

/// Of two groups that each need a scan of the other's first part, either may be made whole, but not both.
#[test]
fn groups_that_wait_for_each_other_stay_apart() {
    agree(
        "fn f(x: f32[40], z: f32[40], y: f32[40]) {
           a: f32[40] = exp(x)
           s: f32[40] = mul(x, y)
           b: f32[40] = exp(z)
           t: f32[40] = mul(z, y)
           c: f32[40] = cumsum(a, dim = 0)
           d: f32[40] = cumsum(b, dim = 0)
           u: f32[40] = mul(c, 2)
           p: f32[40] = add(u, t)
           v: f32[40] = mul(d, 2)
           q: f32[40] = add(v, s)
           return p, q
         }",
    );
}

#[test]
fn operands_broadcast_in_place() {
    for (a, b) in [
        ("[6, 1]", "[6, 7]"),
        ("[7]", "[6, 7]"),
        ("[1, 7]", "[6, 7]"),
        ("[]", "[6, 7]"),
        ("[1000]", "[50, 1000]"),
        ("[50, 1]", "[50, 1000]"),
    ] {
        let c =
            agree(&format!("fn f(x: f32{a}, y: f32{b}) {{ z: f32{b} = mul(y, x) w: f32{b} = add(z, x) return w }}"));
        assert_eq!(steps(&c), 1);
    }
}

#[test]
fn every_dtype_computes() {
    for t in ["f16", "bf16", "f32", "f64", "i64", "i32", "i16", "i8", "u8"] {
        agree(&format!(
            "fn f(x: {t}[5, 33], y: {t}[5, 33]) {{ z: {t}[5, 33] = mul(x, y) w: {t}[5, 33] = add(z, x) return z, w }}"
        ));
    }
    agree("fn f(x: bool[40], y: f32[40]) { z: f32[40] = where(x, y, 0.5) b: bool[40] = lt(z, 0.25) return z, b }");
}

/// Half types are rounded at the end of each line, whether or not the line's result is stored.
#[test]
fn fusion_equals_lines_run_alone() {
    for t in ["f16", "bf16", "f32"] {
        let whole = parse(&format!(
            "fn f(x: {t}[300]) {{ a: {t}[300] = mul(x, x) b: {t}[300] = add(a, x) c: {t}[300] = exp(b) d: {t}[300] = sub(c, a) return d }}"
        ));
        let x = inputs(&whole);
        let fused = cpu(&whole, 1).run(&x).unwrap();
        let run = |text: &str, inputs: &[Buffer]| cpu(&parse(text), 1).run(inputs).unwrap().remove(0);
        let a = run(&format!("fn f(x: {t}[300]) {{ a: {t}[300] = mul(x, x) return a }}"), &x);
        let b = run(
            &format!("fn f(a: {t}[300], x: {t}[300]) {{ b: {t}[300] = add(a, x) return b }}"),
            &[a.clone(), x[0].clone()],
        );
        let c = run(&format!("fn f(b: {t}[300]) {{ c: {t}[300] = exp(b) return c }}"), &[b]);
        let d = run(&format!("fn f(c: {t}[300], a: {t}[300]) {{ d: {t}[300] = sub(c, a) return d }}"), &[c, a]);
        assert_eq!(fused[0].as_bytes(), d.as_bytes(), "{t}");
    }
}

#[test]
fn softmax_is_one_program_that_walks_its_rows() {
    // lines of several tiles, of whole ones, and with an end that is not a whole chunk
    for (rows, cols) in [(3, 5), (40, 16), (5, 200), (7, 1000), (300, 64), (5, 1024), (3, 1100), (3, 2100), (3, 12_000)]
    {
        let c = agree(&format!(
            "fn softmax(x: f32[{rows}, {cols}]) {{
               m: f32[{rows}, 1] = amax(x, dims = [1], keepdim = true)
               c: f32[{rows}, {cols}] = sub(x, m)
               e: f32[{rows}, {cols}] = exp(c)
               s: f32[{rows}, 1] = sum(e, dims = [1], keepdim = true)
               y: f32[{rows}, {cols}] = div(e, s)
               return y
             }}"
        ));
        assert_eq!(steps(&c), 1, "{}", c.describe());
    }
}

#[test]
fn reductions_over_any_axes() {
    for sizes in [[3, 4, 5], [2, 70, 300], [100, 3, 2], [1, 40, 1]] {
        for chosen in [&[0][..], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]] {
            let left: Vec<usize> = (0..3).filter(|i| !chosen.contains(i)).map(|i| sizes[i]).collect();
            agree(&format!(
                "fn f(x: f32{sizes:?}) {{
                   s: f32{left:?} = sum(x, dims = {chosen:?})
                   m: f32{left:?} = amax(x, dims = {chosen:?})
                   a: f32{left:?} = mean(x, dims = {chosen:?})
                   return s, m, a
                 }}"
            ));
        }
    }
}

#[test]
fn views_cost_nothing_and_copies_copy() {
    let c = agree(
        "fn f(x: f32[4, 6]) {
           t: f32[6, 4] = transpose(x, a = 0, b = 1)
           r: f32[24] = reshape(t, shape = [24])
           y: f32[24] = mul(r, 2.0)
           return y, t
         }",
    );
    assert!(steps(&c) <= 3, "{}", c.describe());
    agree("fn f(x: f32[40, 50]) { t: f32[50, 40] = transpose(x, a = 0, b = 1) y: f32[50, 40] = exp(t) return y }");
    agree(
        "fn f(x: f32[2, 3, 4]) { r: f32[6, 4] = reshape(x, shape = [6, 4]) y: f32[6, 4] = exp(r) z: f32[2, 12] = reshape(y, shape = [2, 12]) return z }",
    );
    agree("fn f(x: f32[6, 4]) { r: f32[8, 3] = reshape(x, shape = [8, 3]) y: f32[8, 3] = mul(r, r) return y, r }");
    agree(
        "fn f(x: f32[6, 4]) { r: f32[3, 4] = slice(x, dim = 0, lo = 1, hi = 6, step = 2) y: f32[3, 4] = mul(r, r) f: f32[6, 4] = flip(x, dims = [1]) return y, r, f }",
    );
    agree("fn f(x: f32[5, 7]) { p: f32[8, 7] = pad(x, lo = [1, 0], hi = [2, 0], value = 3.0) return p }");
}

#[test]
fn random_numbers_are_the_oracles() {
    agree(
        "fn f(k: key) { u: f32[3, 100] = rand(k, shape = [3, 100]) v: f32[3, 100] = rand(k, shape = [3, 100]) return u, v }",
    );
    let trace =
        parse("fn f(k: key) { u: f32[50] = rand(k, shape = [50]) v: f32[50] = rand(k, shape = [50]) return u, v }");
    let outs = cpu(&trace, 1).run(&inputs(&trace)).unwrap();
    assert_eq!(outs[0].as_bytes(), outs[1].as_bytes(), "calls with one key draw the same numbers");
}

#[test]
fn numbers_arrive_when_the_program_runs() {
    agree("fn f(x: f32[30], n: f64) { y: f32[30] = mul(x, n) return y }");
}

#[test]
fn faults_of_elements_are_errors_with_names() {
    let trace = parse("fn f(w: f32[5, 4], rows: i64[2]) { y: f32[2, 4] = embedding(w, rows) return y }");
    let w = Buffer::zeros(DType::F32, &[5, 4]).unwrap();
    let c = cpu(&trace, 1);
    let e = c.run(&[w.clone(), Buffer::from_slice(&[0i64, 5], &[2]).unwrap()]).unwrap_err();
    assert_eq!((e.code, e.message.as_str()), ("E804", "index 5 is out of range for axis 0 of `w`, whose size is 5"));
    assert!(e.line.is_some());
    assert_eq!(c.run(std::slice::from_ref(&w)).unwrap_err().code, "E803");
    assert_eq!(c.run(&[w.clone(), w]).unwrap_err().message, "input 1 is f32[5, 4], the program takes i64[2]");
    let trace = parse("fn f(x: i32[3], y: i32[3]) { z: i32[3] = rem(x, y) return z }");
    let x = Buffer::from_slice(&[7i32, 8, 9], &[3]).unwrap();
    let c = cpu(&trace, 1);
    assert_eq!(
        c.run(&[x.clone(), Buffer::from_slice(&[2i32, 3, 4], &[3]).unwrap()]).unwrap()[0].to_vec::<i32>().unwrap(),
        [1, 2, 1]
    );
    assert_eq!(c.run(&[x.clone(), Buffer::from_slice(&[2i32, 0, 4], &[3]).unwrap()]).unwrap_err().code, "E805");
}

/// A user's executor that takes two lines at once.
struct AddMul;

impl Executor for AddMul {
    fn name(&self) -> &'static str {
        "addmul"
    }
    fn claim(&self, lines: &[Line]) -> Option<Claim> {
        let [add, mul, ..] = lines else { return None };
        let fits = add.name() == "add" && mul.name() == "mul" && mul.tensors[0] == add.outs[0];
        fits.then(|| Claim::Kernel {
            lines: 2,
            inputs: vec![add.tensors[0], add.tensors[1], mul.tensors[1]],
            outs: mul.outs.clone(),
            kernel: Arc::new(AddMul),
        })
    }
}

impl Kernel for AddMul {
    fn name(&self) -> String {
        "addmul".into()
    }
    fn run(&self, inputs: &[TensorRef<'_>], outs: &mut [TensorMut<'_>]) -> Result<(), ExecError> {
        let x: Vec<&[f32]> = inputs.iter().filter_map(|t| t.as_slice()).collect();
        let ([a, b, c], Some(y)) = (x.as_slice(), outs[0].as_slice_mut::<f32>()) else {
            return Err(ExecError::new("E807", "`addmul` takes f32"));
        };
        for i in 0..y.len() {
            y[i] = (a[i] + b[i]) * c[i];
        }
        Ok(())
    }
}

#[test]
fn executors_are_asked_in_order() {
    let text = "fn f(a: f32[8], b: f32[8], c: f32[8]) { s: f32[8] = add(a, b) p: f32[8] = mul(s, c) e: f32[8] = exp(p) return e }";
    let trace = parse(text);
    let c = compile_with(&trace, vec![Arc::new(AddMul), Arc::new(cpu::Cpu)], 1).unwrap();
    let d = c.describe();
    assert_eq!(d.steps.iter().map(|s| s.executor).collect::<Vec<_>>(), ["addmul", "cpu"]);
    let x = inputs(&trace);
    assert_eq!(c.run(&x).unwrap()[0].as_bytes(), cpu(&trace, 1).run(&x).unwrap()[0].as_bytes());
    // a claim that hides a value which other lines use is refused
    let trace = parse(&text.replace("return e", "return e, s"));
    assert_eq!(compile_with(&trace, vec![Arc::new(AddMul), Arc::new(cpu::Cpu)], 1).err().map(|e| e.code), Some("E802"));
}

#[test]
fn composites_are_decomposed() {
    let c = agree("fn f(x: f32[4, 9]) { y: f32[4, 9] = softmax(x, dim = 1) return y }");
    assert_eq!(steps(&c), 1, "{}", c.describe());
}

#[test]
fn programs_run_on_many_threads_at_once() {
    let trace = parse(
        "fn f(x: f32[200, 300], w: f32[300, 40]) { y: f32[200, 40] = matmul(x, w) z: f32[200, 40] = exp(y) return z }",
    );
    let c = cpu(&trace, 2);
    let x = inputs(&trace);
    let want = c.run(&x).unwrap();
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| (0..5).for_each(|_| assert_eq!(c.run(&x).unwrap()[0].as_bytes(), want[0].as_bytes())));
        }
    });
}
