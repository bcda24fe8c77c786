//! The ways to run a function: at once, compiled in each cache mode, called again with other values, on the interpreter,
//! differentiated, with less memory, with forward and backward apart, as slices of a batch. One meaning.

use super::near::{Seen, exactly, same, within};
use super::run::{poisoned, weighted};
use super::{Function, Region, Step};
use crate::{bridge, draws};
use fulgurite::executors;
use fulgurite::ops::stack;
use fulgurite::prelude::*;
use fulgurite::transforms::Remat;
use fulgurite::{Error, Key};
use fulgurite_core::eval::nest::{Array, Data};

/// The part of what [`same`] allows by which a stable function may move.
const STABLE: f64 = 0.1;
/// Relative difference of two difference quotients up to which the function counts as smooth there.
const SMOOTH: f64 = 1e-4;
/// Relative error allowed of a gradient against a quotient that is smooth.
const SLOPE: f64 = 1e-3;

/// Fresh tensors in memory.
fn tensors(arrays: &[Array<f64>]) -> Vec<Tensor> {
    arrays.iter().map(|a| Tensor::from_buffer(bridge::buffer(a))).collect()
}

fn data(list: &[Tensor]) -> Result<Vec<Array<f64>>, Error> {
    list.iter().map(|t| Ok(bridge::array(&t.plain().buffer()?))).collect()
}

fn seen(outs: Result<Vec<Tensor>, Error>, args: &[Tensor], captured: &[Tensor]) -> Seen {
    let all = outs.and_then(|outs| Ok([data(&outs)?, data(args)?, data(captured)?].concat()));
    all.map_err(|e| code(&e))
}

/// Its code. A bug of the compiler is shown, because its code does not tell which; where one failing function is
/// repeated, every error is.
fn code(e: &Error) -> &'static str {
    if matches!(e.code(), "E706" | "E709" | "E730" | "E811") || std::env::var_os(draws::WORDS).is_some() {
        eprintln!("{e}");
    }
    e.code()
}

/// What was there to compare.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compared {
    /// Whether the function gives values.
    pub values: bool,
    /// Whether it has a gradient.
    pub gradient: bool,
    /// Whether the gradient was held against differences.
    pub slopes: bool,
    /// Whether it ran as one slice of a batch.
    pub slice: bool,
    /// Whether some way was only as near as roundings move the function.
    pub moved: bool,
}

/// Holds that every way gives what the function gives at once.
///
/// # Errors
/// The first way that differs.
pub fn check(f: &Function) -> Result<Compared, String> {
    let mut compared = Compared::default();
    values(f, &mut compared)?;
    gradients(f, &mut compared)?;
    slice(f, &mut compared)?;
    Ok(compared)
}

/// What a function gives at once, call by call, with captured tensors that the calls share.
fn at_once(f: &Function) -> Vec<Seen> {
    let captured = tensors(&f.captured);
    let one = |(values, key): (&Vec<Array<f64>>, u64)| {
        let args = tensors(values);
        seen(f.run(&args, &captured, &Key::new(key)), &args, &captured)
    };
    calls(f).map(one).to_vec()
}

/// The arguments of the calls, and their keys: the third is the first again.
fn calls(f: &Function) -> [(&Vec<Array<f64>>, u64); 3] {
    [(&f.inputs, 0), (&f.others, 1), (&f.inputs, 0)]
}

/// Whether the function gives values.
fn values(f: &Function, compared: &mut Compared) -> Result<(), String> {
    let want = at_once(f);
    let again = |what: &str, seen: &[Seen]| match seen {
        [first, second, third] if leaves_captured(f, first) && leaves_captured(f, second) => {
            exactly(what, third, first)
        }
        _ => Ok(()),
    };
    again("at once, again", &want)?;
    let mut ways = vec![
        ("compiled", Caching::Constant, None),
        ("compiled with symbolic sizes", Caching::Symbolic, None),
        ("compiled at each call", Caching::Off, None),
    ];
    // other arithmetic: what is the quotient of two roundings, or none, is not compared
    if want.iter().all(|seen| seen.is_err() || is_finite(seen)) && (!f.is_f64() || is_stable(f, &want[0])) {
        ways.extend(executors::find("interp").map(|interp| ("interpreted", Caching::Constant, Some(interp))));
    }
    let mut constant: Vec<Seen> = Vec::new();
    for (what, caching, executor) in ways {
        let captured = tensors(&f.captured);
        let (function, inside) = (f.clone(), captured.clone());
        let compiled = jit(move |args: Vec<Tensor>, key: Key| poisoned(function.run(&args, &inside, &key)));
        let other = executor.is_some();
        let compiled = match executor {
            Some(executor) => compiled.on(vec![executor]),
            None => compiled,
        }
        .caching(caching);
        let mut all: Vec<Seen> = Vec::new();
        for (n, (values, key)) in calls(f).into_iter().enumerate() {
            let args = tensors(values);
            let outs = compiled.call((args.clone(), Key::new(key)));
            // after a refusal a program may have written, and a function at once has
            let got = seen(outs, &args, &captured);
            // fused lines add up in another order than lines one by one
            let what = format!("{what}, call {n}");
            compared.moved |= within(&what, &got, &want[n], f, &|f| at_once(f).swap_remove(n))?;
            if want[n].is_err() {
                break;
            }
            // sizes as numbers and as symbols are the same lines, compiled anew or not
            if let Some(want) = constant.get(n).filter(|_| !other) {
                exactly(&format!("{what}, against constant sizes"), &got, want)?;
            }
            all.push(got);
        }
        again(&format!("{what}, again"), &all)?;
        if constant.is_empty() {
            constant = all;
        }
    }
    compared.values = want[0].is_ok();
    Ok(())
}

/// Whether the captured tensors are behind a call what they were before it.
fn leaves_captured(f: &Function, seen: &Seen) -> bool {
    let Ok(seen) = seen else { return false };
    f.captured == seen[seen.len() - f.captured.len()..]
}

fn is_finite(seen: &Seen) -> bool {
    seen.iter().flatten().flat_map(Array::scalars).all(|x| x.as_f64().is_finite())
}

/// Whether results stay what they are where arguments change by a little more than rounding.
fn is_stable(f: &Function, at_once: &Seen) -> bool {
    let nudged: Vec<Array<f64>> = f.inputs.iter().map(|a| moved(a, &|i| 1e-13 * (1.0 + i as f64).sin())).collect();
    let (args, captured) = (tensors(&nudged), tensors(&f.captured));
    let other = seen(f.run(&args, &captured, &Key::new(0)), &args, &captured);
    same("", &other, at_once, STABLE).is_ok()
}

/// Tensors that may be written where a gradient is taken by the arguments.
fn copies(list: &[Tensor]) -> Vec<Tensor> {
    list.iter().map(|x| if x.dtype().is_float() { x * 1.0 } else { x.copy() }).collect()
}

/// The sum of all float results, each weighted with other numbers.
fn loss(f: &Function, args: &[Tensor], captured: &[Tensor]) -> Tensor {
    let (args, captured) = (copies(args), copies(captured));
    let outs = match f.run(&args, &captured, &Key::new(0)) {
        Ok(outs) => outs,
        Err(e) => return Tensor::poisoned(e),
    };
    weighted(&[outs, args].concat())
}

/// Whether the function has a gradient, and whether that was held against differences.
fn gradients(f: &Function, compared: &mut Compared) -> Result<(), String> {
    let captured = tensors(&f.captured);
    let flat = |(l, g): (Tensor, Vec<Tensor>)| seen(Ok([vec![l], g].concat()), &[], &[]);
    let args = tensors(&f.inputs);
    let at_once = |f: &Function| flat(value_and_grad(&args, |args| loss(f, args, &captured)));
    let want = at_once(f);
    let ways = [
        ("compiled gradient", None),
        ("gradient that keeps little", Some(Remat::Share(0.3))),
        ("gradient that keeps nothing", Some(Remat::Bytes(0))),
    ];
    for (what, remat) in ways {
        let (function, inside) = (f.clone(), captured.clone());
        let compiled = jit(move |args: Vec<Tensor>| value_and_grad(&args, |args| loss(&function, args, &inside)));
        let compiled = match remat {
            Some(remat) => compiled.rematerialise(remat),
            None => compiled,
        };
        let run = || compiled.call(args.clone()).map_err(|e| code(&e)).and_then(flat);
        let got = run();
        compared.moved |= within(what, &got, &want, f, &at_once)?;
        exactly(&format!("{what}, again"), &run(), &got)?;
    }
    let (function, inside) = (f.clone(), captured.clone());
    let apart = jit(move |args: Vec<Tensor>| loss(&function, &args, &inside));
    let pulled = apart.pullback(args.clone()).and_then(|(l, pull)| Ok((l, pull.run(&Tensor::scalar(1.0f64))?)));
    let pulled = pulled.map_err(|e| code(&e)).and_then(flat);
    compared.moved |= within("forward and backward apart", &pulled, &want, f, &at_once)?;
    compared.gradient = want.is_ok();
    compared.slopes = slopes(f, &captured, &want)?;
    Ok(())
}

/// The gradient against central differences, where these are smooth; whether they are.
fn slopes(f: &Function, captured: &[Tensor], gradient: &Seen) -> Result<bool, String> {
    let Ok(gradient) = gradient else { return Ok(false) };
    let gradient: Vec<Vec<f64>> = gradient.iter().map(|g| g.scalars().iter().map(|x| x.as_f64()).collect()).collect();
    if !f.is_f64()
        || f.steps.iter().any(|s| matches!(s, Step::Call { row, regions, .. } if !is_smooth(row.as_str(), regions)))
    {
        return Ok(false);
    }
    let direction = |n: usize, i: usize| (1.0 + n as f64 + i as f64 * 1.3).sin();
    let at = |h: f64| {
        let moved: Vec<Array<f64>> =
            f.inputs.iter().enumerate().map(|(n, a)| moved(a, &|i| h * direction(n, i))).collect();
        loss(f, &tensors(&moved), captured).to_f64().ok().and_then(|v| v.first().copied())
    };
    let quotient = |h: f64| Some((at(h)? - at(-h)?) / (2.0 * h));
    let (Some(coarse), Some(fine)) = (quotient(2e-5), quotient(1e-5)) else { return Ok(false) };
    let scale = gradient[1..].iter().flatten().fold(1.0f64, |m, x| m.max(x.abs())).max(gradient[0][0].abs());
    // also where one of them is no number
    if !matches!((coarse - fine).abs().partial_cmp(&(SMOOTH * scale)), Some(std::cmp::Ordering::Less)) {
        return Ok(false);
    }
    let slope: f64 = gradient[1..]
        .iter()
        .enumerate()
        .flat_map(|(n, g)| g.iter().enumerate().map(move |(i, x)| (n, i, *x)))
        .map(|(n, i, x)| x * direction(n, i))
        .sum();
    if (slope - fine).abs() <= SLOPE * scale {
        return Ok(true);
    }
    Err(format!("the gradient gives a slope of {slope}, differences of {fine} and {coarse}"))
}

/// Floats elsewhere.
fn moved(a: &Array<f64>, by: &dyn Fn(usize) -> f64) -> Array<f64> {
    match &a.data {
        Data::Float(x) => Array::float(a.dtype, &a.shape, x.iter().enumerate().map(|(i, x)| x + by(i)).collect()),
        Data::Int(_) => a.clone(),
    }
}

/// Whether a call has the gradient that differences have: not where the row or what it stands in says otherwise.
fn is_smooth(row: &str, regions: &[Region]) -> bool {
    let other = |region: &Region| matches!(region, Region::NoGrad | Region::Doubled);
    !regions.iter().any(other) && crate::rows::rows().is_derivative(row)
}

/// Refusals of what can't be batched.
const UNBATCHED: [&str; 4] = ["E708", "E726", "E727", "E728"];

/// As slices of a batch, one and two with other values; whether there is a batch of it.
fn slice(f: &Function, compared: &mut Compared) -> Result<(), String> {
    let captured = tensors(&f.captured);
    let run =
        |f: &Function, args: &[Tensor], captured: &[Tensor]| f.run(&copies(args), &copies(captured), &Key::new(0));
    let slices = [tensors(&f.inputs), tensors(&f.others)];
    let alone = |f: &Function| [0, 1].map(|n| seen(run(f, &slices[n], &captured), &[], &[]));
    let wanted = alone(f);
    // a step that has no form for a batch of its own, because of what it captures, may have one in a batch around it
    if wanted.iter().any(|slice| slice.as_ref().is_err_and(|code| UNBATCHED.contains(code))) {
        return Ok(());
    }
    let batch_of = |slices: &[Vec<Tensor>]| -> Vec<Tensor> {
        (0..f.inputs.len()).map(|i| stack(&slices.iter().map(|slice| slice[i].clone()).collect::<Vec<_>>())).collect()
    };
    for (what, count) in [("one slice of a batch", 1), ("two slices of a batch", 2)] {
        let got = vmap(&batch_of(&slices[..count]), |args: &Vec<Tensor>| poisoned(run(f, args, &captured)));
        let got = match got.map_err(|e| code(&e)) {
            // a step that can't be batched says so
            Err(code) if UNBATCHED.contains(&code) => return Ok(()),
            Err(code) => Err(code),
            Ok(outs) => seen(Ok(outs), &[], &[]),
        };
        let of = |f: &Function| batch(&alone(f)[..count]);
        // a kernel over a batch adds up in another order
        compared.moved |= within(what, &got, &batch(&wanted[..count]), f, &of)?;
    }
    compared.slice = wanted[0].is_ok();
    Ok(())
}

/// The slices as one: results side by side, or the first refusal.
fn batch(slices: &[Seen]) -> Seen {
    let slices = slices.iter().cloned().collect::<Result<Vec<_>, _>>()?;
    let results = slices.first().map_or(0, Vec::len);
    let result = |n: usize| bridge::stacked(&slices.iter().map(|slice| slice[n].clone()).collect::<Vec<_>>());
    Ok((0..results).map(result).collect())
}
