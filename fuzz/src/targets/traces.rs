//! Texts of traces: read, printed, verified, run.

use super::files;
use crate::draws::Draws;
use crate::grammar::text;
use crate::target::{FuzzTarget, InputAnswer, Outcome, PROGRAM, form, no_bug};
use fulgurite::buffer::Buffer;
use fulgurite::core::lang::ast::{Elem, OptType};
use fulgurite::core::loc::Loc;
use fulgurite::core::{DType, Name, Scalar, TensorTy, Value};
use fulgurite::parts::CompiledPart;
use fulgurite::symbol;
use fulgurite::trace::{PrintOptions, ProxyId, ProxyTy, SplitSide, Trace, verify};
use fulgurite::transforms::vjp::float_inputs;
use fulgurite::transforms::{simplify, value_and_grad};
use fulgurite::{Builder, Error};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The target.
pub const TARGET: FuzzTarget = FuzzTarget {
    name: "traces",
    about: "texts of traces: what is read prints back, keeps the laws of traces, and gives one value each time",
    seeds,
    mutate,
    run,
    limits: PROGRAM,
};

/// The words that this language alone has.
const OWN: &[&str] = &[
    "fn",
    "key",
    "return",
    "save",
    "no_grad",
    "checkpoint",
    "scope",
    "autocast",
    "tagged",
    "in0",
    "#backward",
    "#recompute",
    "#must_save",
    "add",
    "mul",
    "\n",
    "//",
];

/// The words that a mutation puts in.
const WORDS: &[&[&str]] = &[OWN, text::MARKS, text::VALUES];

/// At most this many elements of all values of a program that runs, because larger ones take long for good reasons.
const SMALL: i64 = 1 << 14;

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for whole in files::below("runtime/tests/traces", "trace") {
        // a file has several traces with remarks between them
        let text = String::from_utf8_lossy(&whole).into_owned();
        let mut trace = String::new();
        for line in text.lines() {
            if line.starts_with("fn ") {
                trace.clear();
            }
            trace += line;
            trace.push('\n');
            if line == "}" {
                seeds.push(trace.clone().into_bytes());
            }
        }
    }
    seeds.extend(files::below("tests/data/programs", "txt"));
    let mut draws = Draws::new(5);
    seeds.extend((0..100).map(|_| program(draws.bits() >> 32)));
    seeds.retain(|seed| seed.len() < 6000);
    seeds
}

/// A mutated text, or a program that is drawn by the signatures of rows.
fn mutate(draws: &mut Draws, a: &[u8], b: &[u8]) -> Vec<u8> {
    match draws.below(4) {
        0 => program(draws.bits() >> 32),
        _ => text::mutate(draws, a, b, WORDS),
    }
}

/// The program of this seed; `draw 7` if it can't be drawn or its text is refused, so that this is a finding.
fn program(seed: u64) -> Vec<u8> {
    let made = catch_unwind(AssertUnwindSafe(|| Some(drawn(seed)).filter(|text| Trace::parse(text).is_ok())));
    made.ok().flatten().unwrap_or_else(|| format!("draw {seed}")).into_bytes()
}

/// The seed of `draw 7`.
fn seed(input: &[u8]) -> Option<u64> {
    std::str::from_utf8(input).ok()?.strip_prefix("draw ")?.trim().parse().ok()
}

/// A program of lines that its builder accepted, as text.
fn drawn(seed: u64) -> String {
    let mut draws = Draws::new(seed);
    let mut builder = Builder::new("f");
    let mut values: Vec<ProxyId> = Vec::new();
    for _ in 0..2 + draws.below(3) {
        let shape: Vec<usize> = (0..draws.below(4)).map(|_| [2, 3, 2, 1, 5, 0][draws.below(6)]).collect();
        let dtypes = [DType::F32, DType::F32, DType::F64, DType::I64, DType::BF16, DType::F16, DType::Bool, DType::U8];
        let dtype = dtypes[draws.below(8)];
        let ty = match draws.below(12) {
            0 => ProxyTy::Key,
            1 => ProxyTy::Number(dtype),
            _ => ProxyTy::tensor(TensorTy::new(dtype, &shape)),
        };
        values.push(builder.input("x", ty));
    }
    // derivatives of derivatives are added while gradients are taken, so that there would be more of them each time
    let mut symbols = symbol::all();
    symbols.retain(|symbol| symbol.name().matches(".vjp").count() <= 1);
    for _ in 0..40 {
        let Some(symbol) = symbols.get(draws.below(symbols.len())).filter(|symbol| !symbol.is_control()) else {
            continue;
        };
        let sig = &symbol.row().sig;
        let mut args: Vec<Value<ProxyId>> = Vec::new();
        for param in &sig.params {
            let one = |draws: &mut Draws| {
                let at = draws.below(values.len()).max(draws.below(values.len()));
                match draws.below(10) {
                    0 => Value::Num(Scalar::Float(draws.below(5) as f64 - 1.5)),
                    1 => Value::Num(Scalar::Int(draws.below(5) as i64 - 1)),
                    _ => Value::Tensor(values[at]),
                }
            };
            let key = values.iter().find(|id| matches!(builder.arena().ty(**id), ProxyTy::Key));
            args.push(match (&param.ty.list, key) {
                _ if param.optional && draws.one_in(2) => Value::Absent,
                (None, Some(key)) if param.ty.elem.contains(&Elem::Key) => Value::Tensor(*key),
                (None, _) => one(&mut draws),
                (Some(_), _) => Value::List((0..1 + draws.below(3)).map(|_| one(&mut draws)).collect()),
            });
        }
        args.extend(sig.opts.iter().map(|opt| match opt.default.is_some() || opt.optional {
            true if draws.below(3) > 0 => Value::Absent,
            _ => option(&mut draws, &opt.ty),
        }));
        if let Ok(outs) = builder.bind(symbol, args, Loc::NOWHERE) {
            values.extend(outs);
        }
        if builder.lines().len() >= 8 {
            break;
        }
    }
    let outs: Vec<ProxyId> = values.iter().rev().take(3).copied().collect();
    builder.finish(&outs).print(&PrintOptions::plain())
}

fn option(draws: &mut Draws, ty: &OptType) -> Value<ProxyId> {
    let int = |draws: &mut Draws| match draws.below(30) {
        0 => Value::Num(Scalar::Int(i64::MAX)),
        1 => Value::Num(Scalar::Int(i64::MIN)),
        2 => Value::Num(Scalar::Int(1 << 31)),
        _ => Value::Num(Scalar::Int(draws.below(6) as i64 - 2)),
    };
    match ty {
        OptType::Bool => Value::Num(Scalar::Bool(draws.one_in(2))),
        OptType::Str | OptType::Labels(_) => Value::Str(draws.pick(&["ij,jk->ik", "ij", "", "ii->i"]).to_owned()),
        OptType::Enum(words) => Value::Word(words.get(draws.below(words.len())).copied().unwrap_or(Name::new("x"))),
        OptType::Dtype(_) => Value::DType([DType::F32, DType::I64, DType::F64, DType::Bool][draws.below(4)]),
        OptType::Num | OptType::F64 => {
            Value::Num(Scalar::Float(draws.pick(&[0.0, 1.0, 0.5, -1.0, 1e-5, f64::INFINITY])))
        }
        OptType::Perm(_) | OptType::Dims { .. } | OptType::Ints { .. } | OptType::Shape { .. } => {
            Value::List((0..draws.below(4)).map(|_| int(draws)).collect())
        }
        _ => int(draws),
    }
}

/// Numbers for an input.
fn data(ty: &ProxyTy, n: usize) -> Result<Buffer, String> {
    let numbers = |dtype: DType, count: usize| {
        let of = move |i: usize| match dtype {
            DType::Bool => Scalar::Bool((i + n).is_multiple_of(3)),
            d if d.is_float() => Scalar::Float(((i * 7 + n * 3) % 11) as f64 * 0.25 - 1.0),
            _ => Scalar::Int(((i + n) % 3) as i64),
        };
        (0..count).map(of)
    };
    let made = match ty {
        ProxyTy::Key => Buffer::key(7, n as i64),
        ProxyTy::Number(dtype) => Buffer::from_numbers(*dtype, &[], numbers(*dtype, 1)),
        ProxyTy::Tensor(t) => Buffer::from_numbers(t.ty.dtype, &t.ty.sizes(), numbers(t.ty.dtype, t.ty.numel())),
    };
    made.map_err(|e| e.to_string())
}

/// Whether all values of the trace are small, plain tensors of known sizes.
fn is_small(trace: &Trace) -> bool {
    if !trace.arena.atoms().is_empty() {
        return false;
    }
    let size = |id: u32| match trace.arena.ty(ProxyId(id)) {
        ProxyTy::Tensor(t) if t.subclass.is_some() => None,
        ProxyTy::Tensor(t) => t.ty.shape.iter().try_fold(1i64, |all, d| all.checked_mul(d.value())),
        _ => Some(1),
    };
    let all = (0..trace.arena.len() as u32).try_fold(0i64, |all, id| all.checked_add(size(id)?));
    all.is_some_and(|all| all <= SMALL)
}

/// At most this many steps of all loops in each other, because a loop may rightly go on for as long as its bound says.
const STEPS: u64 = 1 << 12;

/// Whether every loop that depends on values has a bound, and all of them together few steps.
fn ends_soon(printed: &str) -> bool {
    let loops = printed.matches("while_loop(").count();
    let bounds: Vec<u64> = printed.split("bound=").skip(1).filter_map(|rest| leading(rest).parse().ok()).collect();
    let steps = bounds.iter().fold(1, |all: u64, bound| all.saturating_mul((*bound).max(1)));
    loops == 0 || loops == bounds.len() && steps <= STEPS
}

/// The digits at the start of a text.
fn leading(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())]
}

/// Compiles the trace and runs it twice: equal bits, or one refusal, whose form is given.
fn twice(trace: &Trace, inputs: &[Buffer], printed: &str) -> Result<String, String> {
    let said = |e: &Error| {
        let said = format!("{} {}", e.code(), e.claim());
        no_bug(&e.to_string()).map(|()| said).map_err(|why| format!("{why}\n{printed}"))
    };
    let part = match CompiledPart::new(trace, &[]) {
        Ok(part) => part,
        Err(e) => return said(&e).map(|said| form(&said)),
    };
    let bits = |outs: Result<Vec<Buffer>, Error>| match outs {
        Ok(outs) => Ok(Ok(outs.iter().map(|out| out.as_bytes().to_vec()).collect::<Vec<_>>())),
        Err(e) => said(&e).map(Err),
    };
    let first = bits(part.run(&mut inputs.to_vec()))?;
    let second = bits(part.run(&mut inputs.to_vec()))?;
    match first == second {
        true => Ok(first.err().map(|said| form(&said)).unwrap_or_default()),
        false => Err(format!("the second run gives another result: {first:?}, {second:?}\n{printed}")),
    }
}

fn run(input: &[u8]) -> Outcome {
    let text = match seed(input) {
        Some(seed) => drawn(seed),
        None => String::from_utf8_lossy(input).into_owned(),
    };
    let refused = |e: &Error| -> Outcome {
        no_bug(&e.to_string())?;
        Ok(InputAnswer::refused([format!("{} {}", e.code(), e.claim())]))
    };
    let trace = match Trace::parse(&text) {
        Ok(trace) => trace,
        Err(e) if seed(input).is_some() => return Err(format!("a printed trace is refused: {e}\n{text}")),
        Err(e) => return refused(&e),
    };
    let options = PrintOptions::plain();
    let printed = trace.print(&options);
    match Trace::parse(&printed) {
        Ok(again) if again.print(&options) == printed => {}
        Ok(again) => return Err(format!("the printed trace prints otherwise:\n{printed}\n{}", again.print(&options))),
        Err(e) => return Err(format!("the printed trace is refused: {}\n{e}\n{printed}", e.claim())),
    }
    verify::verify(&trace).map_err(|e| format!("a trace that was read is bad: {}\n{e}\n{printed}", e.claim()))?;
    let mut signs: Vec<String> = trace.lines().iter().map(|line| line.symbol.name().to_owned()).collect();
    if is_small(&trace) && ends_soon(&printed) {
        let inputs = trace.inputs().iter().enumerate();
        let inputs = inputs.map(|(n, input)| data(&trace.arena.ty(input.proxy), n)).collect::<Result<Vec<_>, _>>()?;
        signs.push(twice(&trace, &inputs, &printed)?);
        let simple = simplify(&trace, SplitSide::Before);
        // a call of a derived row that no transform makes may disagree with the call from which it is derived
        let derived = printed.contains(".vjp");
        let gradient = (!derived).then(|| value_and_grad(&trace, &float_inputs(&trace)));
        for (what, made) in [("simplified", simple)].into_iter().chain(gradient.map(|made| ("gradient", made))) {
            let made = match made {
                Ok(made) => made,
                Err(e) => {
                    no_bug(&e.to_string()).map_err(|why| format!("{what}: {why}\n{printed}"))?;
                    continue;
                }
            };
            let text = made.print(&options);
            verify::verify(&made).map_err(|e| format!("{what}: the trace is bad: {}\n{e}\n{text}", e.claim()))?;
            if is_small(&made) {
                signs.push(twice(&made, &inputs, &text).map_err(|why| format!("{what}: {why}"))?);
            }
        }
    }
    Ok(InputAnswer::accepted(signs))
}
