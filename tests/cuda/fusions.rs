//! Fusions of several lines: random programs, and reductions of every form that kernels have for them.

use super::RANDOM;
use super::cases::{self, Verdict};
use super::general::{GENERAL, same_bits};
use fulgurite::buffer::Buffer;
use fulgurite::trace::{ProxyTy, Trace};
use fulgurite::{Builder, symbol};
use fulgurite_core::loc::Loc;
use fulgurite_core::{DType, Name, Scalar, TensorTy, Value};
use fulgurite_tests::programs::{Random, agree, compile};
use fulgurite_tests::rng::Rng;
use libtest_mimic::Failed;

/// Random programs.
const PROGRAMS: usize = 150;

/// Sizes for threads, warps and blocks of threads, with and without packs.
const SIZES: [usize; 8] = [1, 2, 3, 5, 8, 33, 40, 128];

/// Shapes and the axes that are reduced, for a thread, a warp, a block of each size and columns per result, and for
/// results whose parts several blocks fold: along memory and across it, one result and several, ends that fit and do not.
const REDUCTIONS: &[(&[usize], &[i64])] = &[
    (&[3000, 5], &[1]),
    (&[20_000, 12], &[0]),
    (&[7, 100], &[1]),
    (&[3, 2048], &[1]),
    (&[2, 12_000], &[1]),
    (&[40, 70], &[0]),
    (&[3, 40_000], &[1]),
    (&[65_536], &[0]),
    (&[3, 5, 33_000], &[0, 2]),
    (&[1000, 50], &[0]),
    (&[2048, 64], &[0]),
    (&[4, 700, 33], &[1]),
    (&[600, 3, 40], &[0, 2]),
];

/// Programs that place elements where others say, and whether those for one place are chained: one axis and several,
/// sums and what keeps the last, halves, with elements left out, fused with what they place; too many threads for chains,
/// and places that differ from thread to thread. Indices are below 5, so that many meet.
const PLACED: &[(&str, &str, bool)] = &[
    ("x: f32[17], i: i64[600], s: f32[600]", "y: f32[17] = index_add(x, i, s, dim=0, alpha=2)", true),
    ("x: i64[9], i: i32[8], s: i64[8]", "y: i64[9] = index_add(x, i, s, dim=0, alpha=1)", true),
    ("x: f32[3, 6, 5], i: i64[300], s: f32[3, 300, 5]", "y: f32[3, 6, 5] = index_add(x, i, s, dim=1, alpha=1)", true),
    ("x: f64[8, 3], i: i64[40], s: f64[40, 3]", "y: f64[8, 3] = index_copy(x, i, s, dim=0)", true),
    (
        "g: f32[20, 30, 4], i: i64[20, 30]",
        "h: f16[20, 30, 4] = cast(g, dtype=f16)
         y: f16[7, 4] = embedding_backward(h, i, rows=7, padding=3, scale=false)",
        true,
    ),
    (
        "g: f32[300, 4], i: i64[300]",
        "h: f32[300, 4] = tanh(g)
         y: f32[7, 4] = embedding_backward(h, i, rows=7, padding=-1, scale=true)",
        true,
    ),
    ("x: f32[6, 70000], i: i64[9], s: f32[9, 70000]", "y: f32[6, 70000] = index_add(x, i, s, dim=0, alpha=1)", false),
    ("x: f32[6, 3], i: i64[40, 3], s: f32[40, 3]", "y: f32[6, 3] = scatter_add(x, i, s, dim=0)", false),
];

fn placing(inputs: &str, lines: &str) -> Result<(Trace, Vec<Buffer>), Failed> {
    let text = format!("fn placing({inputs}) {{\n{lines}\nreturn y\n}}");
    let trace = Trace::parse(&text).map_err(|e| format!("{e}\n{text}"))?;
    let mut rng = Rng::new(text.len() as u64);
    let mut buffer = |p| {
        let ty = trace.arena.ty(p);
        let tensor = ty.as_tensor().ok_or("not a tensor")?;
        let shape: Vec<usize> = tensor.sizes().into_iter().collect();
        let all = 0..shape.iter().product();
        let made = match tensor.dtype {
            DType::F32 => Buffer::from_slice(&all.map(|_| rng.float(-2.0, 2.0) as f32).collect::<Vec<_>>(), &shape),
            DType::F64 => Buffer::from_slice(&all.map(|_| rng.float(-2.0, 2.0)).collect::<Vec<_>>(), &shape),
            DType::I32 => Buffer::from_slice(&all.map(|_| rng.below(5) as i32).collect::<Vec<_>>(), &shape),
            _ => Buffer::from_slice(&all.map(|_| rng.below(5) as i64).collect::<Vec<_>>(), &shape),
        };
        made.map_err(|e| Failed::from(e.to_string()))
    };
    let inputs = trace.input_proxies().map(&mut buffer).collect::<Result<_, _>>()?;
    Ok((trace, inputs))
}

/// Elements go where the interpreter puts them, in its order.
pub fn placed() -> Result<(), Failed> {
    for (inputs, lines, chained) in PLACED {
        let (trace, inputs) = placing(inputs, lines)?;
        agree(&trace, &inputs, "cuda").map_err(|e| format!("{e}\n{trace}"))?;
        same(&trace, &inputs)?;
        let compiled = compile(&trace, "cuda").map_err(|e| e.to_string())?;
        if compiled.describe().to_string().contains("_chains_") != *chained {
            let what = if *chained { "nothing is chained" } else { "elements are chained" };
            return Err(format!("{what}\n{trace}").into());
        }
    }
    Ok(())
}

/// A reduction of `x · x - x`, and of that less its own result: two kernels' worth in one program.
fn reduction(op: &str, shape: &[usize], dims: &[i64]) -> Result<(Trace, Vec<Buffer>), Failed> {
    let mut builder = Builder::new("reduction");
    let x = builder.input("x", ProxyTy::tensor(TensorTy::new(DType::F32, shape)));
    let mut call = |op: &str, args: Vec<Value<_>>| {
        let symbol = symbol::find(Name::new(op)).ok_or_else(|| format!("no row `{op}`"))?;
        Ok::<_, Failed>(builder.bind(symbol, args, Loc::NOWHERE).map_err(|e| e.to_string())?[0])
    };
    let square = call("mul", vec![Value::Tensor(x), Value::Tensor(x)])?;
    let y = call("sub", vec![Value::Tensor(square), Value::Tensor(x)])?;
    let list = Value::List(dims.iter().map(|d| Value::Num(Scalar::Int(*d))).collect());
    let reduced = call(op, vec![Value::Tensor(y), list, Value::Num(Scalar::Bool(true))])?;
    let rest = call("sub", vec![Value::Tensor(y), Value::Tensor(reduced)])?;
    let trace = builder.finish(&[reduced, rest]);
    let mut rng = Rng::new(shape.iter().sum::<usize>() as u64);
    let data: Vec<f32> = (0..shape.iter().product()).map(|_| rng.float(-2.0, 2.0) as f32).collect();
    Ok((trace, vec![Buffer::from_slice(&data, shape).map_err(|e| e.to_string())?]))
}

/// Each form of reduction gives what the interpreter gives.
pub fn reductions() -> Result<(), Failed> {
    for (shape, dims) in REDUCTIONS {
        for op in ["sum", "mean", "amax"] {
            let (trace, inputs) = reduction(op, shape, dims)?;
            agree(&trace, &inputs, "cuda").map_err(|e| format!("{e}\n{trace}"))?;
            same(&trace, &inputs)?;
        }
    }
    Ok(())
}

/// Compiles a program with specialised kernels, and with kernels that take their sizes as arguments.
fn both(trace: &Trace) -> Result<(), String> {
    ["cuda", GENERAL].iter().try_for_each(|name| compile(trace, name).map(drop).map_err(|e| e.to_string()))
}

/// Kernels that take their sizes as arguments give the bits of the specialised ones.
fn same(trace: &Trace, inputs: &[Buffer]) -> Result<(), String> {
    let run = |name: &str| compile(trace, name)?.run(inputs);
    let [found, wanted] = [GENERAL, "cuda"].map(|name| run(name).map_err(|e| e.to_string()));
    same_bits(&found?, &wanted?).map_err(|e| format!("{e}\n{trace}"))
}

/// Makes all programs, so that the device knows their kernels.
pub fn announce() -> Result<(), Failed> {
    for (shape, dims) in REDUCTIONS {
        for op in ["sum", "mean", "amax"] {
            both(&reduction(op, shape, dims)?.0)?;
        }
    }
    for (inputs, lines, _) in PLACED {
        both(&placing(inputs, lines)?.0)?;
    }
    random(|program, general| {
        let (trace, _) = program.0.as_ref().map_err(|e| e.to_string())?;
        match general {
            true => both(trace),
            false => compile(trace, "cuda").map(drop).map_err(|e| e.to_string()),
        }
    })
}

/// What the fused kernels give is what the interpreter gives line by line.
pub fn check() -> Result<(), Failed> {
    random(|program, general| {
        program.agrees("cuda")?;
        let (trace, inputs) = program.0.as_ref().map_err(|e| e.to_string())?;
        if general { same(trace, inputs) } else { Ok(()) }
    })
}

/// Draws the random programs, the same ones for each test, and checks them. An eighth of them is compared on general
/// kernels too.
fn random(check: impl Fn(&Random, bool) -> Result<(), String>) -> Result<(), Failed> {
    let drawn = |_, rng: &mut Rng| Some(Random::draw(rng, &SIZES));
    cases::of(RANDOM, PROGRAMS, drawn, |program, rng| {
        check(program, !super::is_watched() && rng.one_in(8)).map(|()| Verdict::Held)
    })
}
