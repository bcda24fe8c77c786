//! Programs that random search found, on which the executor `cpu` and the interpreter differed (tests/data/programs).
//!
//! What is left of these differences is not defined, and docs/row-language.md says so: the sign of NaN, what overflows
//! between two operations of one expression, and one rounding that the next line makes large. So elements count where
//! the interpreter's results stay what they are when the inputs move by a rounding, and inputs lie where no NaN is asked
//! for its sign.

use fulgurite::buffer::Buffer;
use fulgurite::trace::{ProxyId, Trace};
use fulgurite_core::eval::loop_nest::Array;
use fulgurite_core::{DType, Scalar};
use fulgurite_tests::bridge;
use fulgurite_tests::programs::compile;
use fulgurite_tests::rng::Rng;

/// Inputs of each program.
const DRAWS: u64 = 40;
/// Relative difference up to which results of f32 are the same.
const ROUNDING: f64 = 1e-4;
/// Inputs that are no numbers of every day, for programs that ask no NaN for its sign.
const ODD: [f64; 9] = [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 300.0, 0.5];

/// A program, and the floats that it is given: from, to, and whether some of them are odd.
const PROGRAMS: [(&str, (f64, f64), bool); 10] = [
    // of -1 and below `xlog1py` is NaN, whose sign `copysign` reads
    ("heaviside", (-0.9, 4.0), false),
    // `acos` above 1 is NaN, whose sign `copysign` reads
    ("acos", (0.0, 0.0), false),
    // no odd ones: a rest that is infinite in f32 is a number in the interpreter
    ("mirrored", (0.5, 4.0), false),
    ("float_power", (-4.0, 4.0), true),
    ("nextafter", (-4.0, 4.0), true),
    ("adamw_each", (-4.0, 4.0), true),
    ("nanmean", (-4.0, 4.0), true),
    ("logspace", (-4.0, 4.0), true),
    ("scatter_value", (-4.0, 4.0), true),
    ("cummin", (-4.0, 4.0), true),
];

fn text(name: &str) -> String {
    let path = format!("{}/data/programs/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Inputs of a program: `nudge` moves floats by a rounding.
fn inputs(trace: &Trace, (lo, hi): (f64, f64), odd: bool, seed: u64, nudge: bool) -> Vec<Buffer> {
    let mut rng = Rng::new(seed);
    let mut moves = Rng::new(!seed);
    let one = |p: ProxyId| {
        let ty = trace.ty(p).as_tensor().cloned().expect("a tensor");
        let sizes = ty.sizes().to_vec();
        let data: Vec<Scalar> = (0..sizes.iter().product())
            .map(|_| match ty.dtype {
                DType::Bool => Scalar::Bool(rng.one_in(2)),
                // also indices that are out of range
                DType::I64 => Scalar::Int(rng.int(if seed.is_multiple_of(2) { 0 } else { -3 }, 4)),
                _ => {
                    let drawn = rng.float(lo, hi);
                    let x = if odd && rng.one_in(3) { *rng.pick(&ODD) } else { drawn };
                    let by = moves.float(0.5e-6, 2e-6) * if moves.one_in(2) { 1.0 } else { -1.0 };
                    Scalar::Float(if nudge { x * (1.0 + by) } else { x })
                }
            })
            .collect();
        bridge::buffer(&Array::<f64>::from_scalars(ty.dtype, &sizes, data))
    };
    trace.input_proxies().map(one).collect()
}

fn same(x: f64, y: f64) -> bool {
    x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= ROUNDING * y.abs()
}

#[test]
fn odd_programs_give_on_cpu_what_the_interpreter_gives() {
    // a call links the database
    let _ = fulgurite::ops::arange(1);
    for (name, domain, odd) in PROGRAMS {
        let trace = Trace::parse(&text(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let (mut compared, mut refused) = (0, 0);
        for seed in 0..DRAWS {
            let run = |executor: &str, nudge: bool| {
                let given = inputs(&trace, domain, odd, seed, nudge);
                compile(&trace, executor).and_then(|c| c.run(&given)).map_err(|e| e.code.to_owned())
            };
            let [cpu, interp] = [run("cpu", false), run("interp", false)];
            let (cpu, interp) = match (cpu, interp) {
                (Ok(cpu), Ok(interp)) => (cpu, interp),
                (Err(a), Err(b)) => {
                    assert_eq!(a, b, "{name} of seed {seed} is refused otherwise by the interpreter");
                    refused += 1;
                    continue;
                }
                (a, b) => panic!("{name} of seed {seed}: cpu {a:?}, interpreter {b:?}"),
            };
            let nudged = run("interp", true).unwrap_or_else(|_| interp.clone());
            for (n, ((a, b), c)) in cpu.iter().zip(&interp).zip(&nudged).enumerate() {
                for (at, ((x, y), z)) in a.to_f64().iter().zip(b.to_f64()).zip(c.to_f64()).enumerate() {
                    if same(z, y) {
                        assert!(
                            same(*x, y),
                            "{name} of seed {seed}: result {n} at {at} is {x}, interpreted {y}\n{trace}"
                        );
                        compared += 1;
                    }
                }
            }
        }
        assert!(compared + 100 * refused > 100, "{name}: {compared} elements compared, {refused} calls refused");
    }
}

/// The next number of f32 is a number of f32, on every executor.
#[test]
fn what_is_next_to_a_number_is_of_its_dtype() {
    let _ = fulgurite::ops::arange(1);
    let trace = Trace::parse("fn f(x: f32[4], y: f32[4]) { z: f32[4] = nextafter(x, y) return z }").expect("parses");
    let given = [[1.0f32, 0.0, -0.0, f32::MAX], [2.0, -1.0, 0.0, f32::INFINITY]];
    let given = given.map(|data| Buffer::from_slice(&data, &[4]).expect("memory"));
    let want = [1.0f32.next_up(), 0.0f32.next_down(), 0.0, f32::INFINITY].map(|x| f64::from(x).to_bits());
    for executor in ["cpu", "interp"] {
        let got = compile(&trace, executor).and_then(|c| c.run(&given)).expect("runs");
        let got: Vec<u64> = got[0].to_f64().into_iter().map(f64::to_bits).collect();
        assert_eq!(got, want, "{executor}");
    }
}
