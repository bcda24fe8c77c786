//! Expressions of `eval`.

use crate::draws::Draws;
use crate::grammar::text::{self, NUMBERS};
use crate::target::{FuzzTarget, InputAnswer, Outcome, PROGRAM, no_bug};
use fulgurite::core::lang::ast::{Elem, OptType, Param};
use fulgurite::prelude::*;
use fulgurite::symbol::{self, SymbolRef};
use fulgurite::{Error, jit};
use fulgurite_cli::cmd::eval;
use fulgurite_cli::fault::Fault;

/// The target.
pub const TARGET: FuzzTarget = FuzzTarget {
    name: "expressions",
    about: "expressions of `eval` give one value, at once and compiled, or one refusal",
    seeds,
    mutate,
    run,
    limits: PROGRAM,
};

/// The words that this language alone has.
const OWN: &[&str] = &["as", "i32", "u8", "[[1, 2], [3, 4]]", "softmax", "cat"];

/// The words that a mutation puts in.
const WORDS: &[&[&str]] = &[OWN, text::MARKS, text::VALUES];

fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "sum([[1, 2], [3, 4]], dims = [1], keepdim = true)",
        "embedding([[1, 2], [3, 4]], [1, 0, 1] as i64)",
        "[1, 2] * 3 + exp([0, 1]).sum()",
        "softmax([[1, 2, 3]], -1)",
        "dropout([1, 2, 3, 4], 7, p = 0.5)",
        "einsum([[[1, 2], [3, 4]], [[1, 0], [0, 1]]], \"ij,jk->ik\")",
        "cat([[1, 2], [3]], 0)",
        "full([2, 3], 1.5)",
        "[1, 2] as i64 % 2",
    ];
    let mut seeds: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    let mut draws = Draws::new(3);
    seeds.extend((0..300).map(|_| drawn(&mut draws, 1).into_bytes()));
    seeds
}

fn mutate(draws: &mut Draws, a: &[u8], b: &[u8]) -> Vec<u8> {
    match draws.below(3) {
        0 => drawn(draws, 2).into_bytes(),
        _ => text::mutate(draws, a, b, WORDS),
    }
}

/// Rows that users call.
fn rows() -> Vec<SymbolRef> {
    symbol::all().into_iter().filter(|symbol| !symbol.name().contains('.') && !symbol.is_control()).collect()
}

/// A call by the signature of its row, whose arguments are calls themselves up to this depth.
fn drawn(draws: &mut Draws, depth: usize) -> String {
    let rows = rows();
    let Some(symbol) = rows.get(draws.below(rows.len())) else { return String::new() };
    let sig = &symbol.row().sig;
    let mut args: Vec<String> = sig.params.iter().map(|param| argument(draws, param, depth)).collect();
    for opt in &sig.opts {
        if opt.default.is_none() && !opt.optional || draws.one_in(3) {
            args.push(format!("{} = {}", opt.name.name, option(draws, &opt.ty)));
        }
    }
    format!("{}({})", symbol.name(), args.join(", "))
}

fn argument(draws: &mut Draws, param: &Param, depth: usize) -> String {
    if param.ty.elem.contains(&Elem::Key) {
        return draws.below(9).to_string();
    }
    if param.optional && draws.one_in(2) {
        return "none".to_owned();
    }
    let one = |draws: &mut Draws| match draws.below(4) {
        0 if depth > 0 => drawn(draws, depth - 1),
        _ => numbers(draws, param.ty.elem.contains(&Elem::Index)),
    };
    match param.ty.list {
        Some(_) => format!("[{}]", (0..draws.below(4)).map(|_| one(draws)).collect::<Vec<_>>().join(", ")),
        None => one(draws),
    }
}

/// A tensor of small or strange numbers.
fn numbers(draws: &mut Draws, whole: bool) -> String {
    let number = |draws: &mut Draws| match (whole, draws.below(12)) {
        (true, _) => draws.below(4).to_string(),
        (_, 0) => draws.pick(NUMBERS).to_owned(),
        (_, 1..4) => format!("-{}.5", draws.below(4)),
        _ => draws.below(5).to_string(),
    };
    fn nested(draws: &mut Draws, shape: &[usize], number: &impl Fn(&mut Draws) -> String) -> String {
        match shape.split_first() {
            None => number(draws),
            Some((n, inner)) => {
                format!("[{}]", (0..*n).map(|_| nested(draws, inner, number)).collect::<Vec<_>>().join(", "))
            }
        }
    }
    let rank = draws.below(5).min(3);
    let shape: Vec<usize> = (0..rank).map(|_| draws.pick(&[2, 2, 2, 3, 1, 4, 0])).collect();
    let list = nested(draws, &shape, &number);
    match draws.below(8) {
        0 => format!("{list} as {}", draws.pick(&["f64", "f16", "bf16", "i64", "i32", "u8", "bool", "i8"])),
        _ if whole => format!("{list} as i64"),
        _ => list,
    }
}

fn option(draws: &mut Draws, ty: &OptType) -> String {
    if draws.one_in(12) {
        return draws.pick(NUMBERS).to_owned();
    }
    let int = |draws: &mut Draws| (draws.below(6) as i64 - 2).to_string();
    let list = |draws: &mut Draws| {
        let items: Vec<String> = (0..draws.below(4)).map(|_| int(draws)).collect();
        format!("[{}]", items.join(", "))
    };
    match ty {
        OptType::Bool => draws.pick(&["true", "false"]).to_owned(),
        OptType::Str => draws.pick(&["\"ij,jk->ik\"", "\"ii\"", "\"\"", "\"...i->i...\""]).to_owned(),
        OptType::Enum(words) => words.get(draws.below(words.len())).map_or("", |word| word.as_str()).to_owned(),
        OptType::Dtype(_) => draws.pick(&["f32", "f64", "i64", "bool", "f16"]).to_owned(),
        OptType::Num | OptType::F64 => draws.pick(&["0", "1", "2", "0.5", "-1", "1e-5", "3"]).to_owned(),
        OptType::I64 | OptType::Dim(_) | OptType::Gap(_) | OptType::Pos(_) | OptType::Bound(_) | OptType::Size(_) => {
            int(draws)
        }
        OptType::Perm(_) => draws.pick(&["[0]", "[1, 0]", "[2, 0, 1]", "[]"]).to_owned(),
        OptType::Labels(_) => "\"ij\"".to_owned(),
        OptType::Dims { .. } | OptType::Ints { .. } | OptType::Shape { .. } => list(draws),
    }
}

/// Bits of all results, or the first error.
fn values(results: &[Tensor]) -> Result<Vec<fulgurite::buffer::Buffer>, Error> {
    results.iter().map(Tensor::buffer).collect()
}

/// Results up to this many times the largest element are rounding.
const ROUNDING: f64 = 1e-4;

/// The code of a tensor for which memory lacks.
const NO_MEMORY: &str = "E806";
/// Results of more elements are compared by their bytes alone, because numbers take sixteen times the memory.
const COMPARED: usize = 1 << 20;

fn run(input: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(input);
    let said = |fault: &Fault| -> Result<String, String> {
        no_bug(&fault.claim)?;
        Ok(format!("{} {}", fault.code, fault.claim))
    };
    let (results, lists) = match eval::results(&text, None) {
        Ok(made) => made,
        Err(fault) => return Ok(InputAnswer::refused([said(&fault)?])),
    };
    let at_once = values(&results);
    let compiled = jit(|lists: Vec<Tensor>| -> Result<Vec<Tensor>, Error> {
        eval::results(&text, Some(&lists)).map(|(results, _)| results).map_err(|fault| Error::new("E917", fault.claim))
    });
    let compiled = compiled.call(lists).and_then(|results: Vec<Tensor>| values(&results));
    match (&at_once, &compiled) {
        (Ok(a), Ok(b)) => {
            if let Some(why) = a.iter().zip(b).find_map(|(a, b)| differ(a, b)) {
                return Err(format!("at once and compiled differ: {why}"));
            }
        }
        (Err(a), Err(b)) => {
            no_bug(&a.to_string())?;
            no_bug(&b.to_string())?;
        }
        // the results at once are still held, and the memory of a campaign is bounded
        (Ok(_), Err(e)) if e.code() == NO_MEMORY => return Ok(InputAnswer::refused([e.code().to_owned()])),
        (Ok(_), Err(e)) => return Err(format!("compiled it is refused: {} {}", e.code(), e.claim())),
        (Err(e), Ok(_)) => return Err(format!("at once it is refused: {} {}", e.code(), e.claim())),
    }
    let gradient = match eval::gradient(&text) {
        Ok(all) => match values(&all) {
            Ok(all) => format!("{} gradients", all.len()),
            Err(e) => {
                no_bug(&e.to_string())?;
                format!("gradient {} {}", e.code(), e.claim())
            }
        },
        Err(fault) => format!("gradient {}", said(&fault)?),
    };
    let gradient = crate::target::form(&gradient);
    let op = text.split('(').next().unwrap_or_default().to_owned();
    match at_once {
        Ok(outs) => {
            for out in &results {
                eval::text(out).map_err(|fault| format!("a value can't be printed: {}", fault.claim))?;
            }
            let types = outs.iter().map(|out| format!("{op} {} {}", out.dtype(), out.shape().len()));
            Ok(InputAnswer::accepted(types.chain([gradient])))
        }
        Err(e) => Ok(InputAnswer::refused([format!("{} {}", e.code(), e.claim())])),
    }
}

/// How two results differ by more than rounding.
fn differ(a: &fulgurite::buffer::Buffer, b: &fulgurite::buffer::Buffer) -> Option<String> {
    if a.dtype() != b.dtype() || a.shape() != b.shape() {
        return Some(format!("{}{:?}, {}{:?}", a.dtype(), a.shape(), b.dtype(), b.shape()));
    }
    if a.as_bytes() == b.as_bytes() || a.len() > COMPARED {
        return None;
    }
    let (a, b) = (a.to_f64(), b.to_f64());
    let scale = b.iter().filter(|x| x.is_finite()).fold(1e-6, |most: f64, x| most.max(x.abs()));
    let differs =
        |(a, b): &(&f64, &f64)| !(**a == **b || a.is_nan() && b.is_nan() || (*a - *b).abs() <= ROUNDING * scale);
    let at = a.iter().zip(&b).position(|pair| differs(&pair))?;
    Some(format!("{} and {} at {at}", a[at], b[at]))
}
