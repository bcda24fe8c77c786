//! The ways to run a function: eagerly, compiled in each cache mode, called again with other values, on the
//! interpreter, differentiated, with less memory, with separate forward and backward, as slices of a batch. All have
//! one meaning.

use super::near::{Seen, exactly, same, within};
use super::run::{poisoned, weighted};
use super::{Function, Region, Step};
use crate::{bridge, draws};
use fulgurite::executors;
use fulgurite::ops::stack;
use fulgurite::prelude::*;
use fulgurite::transforms::Remat;
use fulgurite::{Error, Key};
use fulgurite_core::eval::loop_nest::{Array, Data};

/// The share of the distance that [`same`] allows, by which a stable function may move.
const STABLE: f64 = 0.1;
/// Relative difference of two difference quotients up to which the function counts as smooth there.
const SMOOTH: f64 = 1e-4;
/// The relative error allowed between a gradient and a smooth quotient.
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

/// The code of an error. A bug of the compiler is printed, because its code does not identify it; if one failing
/// function is repeated, every error is printed.
fn code(e: &Error) -> &'static str {
    if matches!(e.code(), "E706" | "E709" | "E730" | "E811") || std::env::var_os(draws::WORDS).is_some() {
        eprintln!("{e}");
    }
    e.code()
}

/// The comparisons that were possible.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compared {
    /// Whether the function has values.
    pub values: bool,
    /// Whether the function has a gradient.
    pub gradient: bool,
    /// Whether the gradient was compared with differences.
    pub slopes: bool,
    /// Whether the function ran as a slice of a batch.
    pub slice: bool,
    /// Whether some way agreed only within the moves of nudged runs.
    pub moved: bool,
}

/// Checks that every way gives the results of an eager run.
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

/// The results of eager runs, call by call, with captured tensors that the calls share.
fn at_once(f: &Function) -> Vec<Seen> {
    let captured = tensors(&f.captured);
    let one = |(values, key): (&Vec<Array<f64>>, u64)| {
        let args = tensors(values);
        seen(f.run(&args, &captured, &Key::new(key)), &args, &captured)
    };
    calls(f).map(one).to_vec()
}

/// The arguments and keys of the calls: the third call repeats the first.
fn calls(f: &Function) -> [(&Vec<Array<f64>>, u64); 3] {
    [(&f.inputs, 0), (&f.others, 1), (&f.inputs, 0)]
}

/// Compares the values of the function.
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
    // The interpreter uses other arithmetic, so a quotient of two roundings, or an infinite number, is not compared.
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
            // After a refusal, an eager function has performed its earlier writes, and a program may not have.
            let got = seen(outs, &args, &captured);
            // Fused lines add in another order than separate lines.
            let what = format!("{what}, call {n}");
            compared.moved |= within(&what, &got, &want[n], f, &|f| at_once(f).swap_remove(n))?;
            if want[n].is_err() {
                break;
            }
            // Programs for numeric and symbolic sizes have equal lines, compiled anew or not.
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

/// Whether a call leaves the captured tensors unchanged.
fn leaves_captured(f: &Function, seen: &Seen) -> bool {
    let Ok(seen) = seen else { return false };
    f.captured == seen[seen.len() - f.captured.len()..]
}

fn is_finite(seen: &Seen) -> bool {
    seen.iter().flatten().flat_map(Array::scalars).all(|x| x.as_f64().is_finite())
}

/// Whether results are stable when arguments change by slightly more than a rounding.
fn is_stable(f: &Function, at_once: &Seen) -> bool {
    let nudged: Vec<Array<f64>> = f.inputs.iter().map(|a| moved(a, &|i| 1e-13 * (1.0 + i as f64).sin())).collect();
    let (args, captured) = (tensors(&nudged), tensors(&f.captured));
    let other = seen(f.run(&args, &captured, &Key::new(0)), &args, &captured);
    same("", &other, at_once, STABLE).is_ok()
}

/// Copies that may be written while a gradient with respect to the originals is taken.
fn copies(list: &[Tensor]) -> Vec<Tensor> {
    list.iter().map(|x| if x.dtype().is_float() { x * 1.0 } else { x.copy() }).collect()
}

/// The weighted sum of all float results.
fn loss(f: &Function, args: &[Tensor], captured: &[Tensor]) -> Tensor {
    let (args, captured) = (copies(args), copies(captured));
    let outs = match f.run(&args, &captured, &Key::new(0)) {
        Ok(outs) => outs,
        Err(e) => return Tensor::poisoned(e),
    };
    weighted(&[outs, args].concat())
}

/// Compares gradients in all ways, and with differences where these are smooth.
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

/// Compares the gradient with central differences, if these are smooth; returns whether they are.
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
    // This also covers quotients that are NaN.
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

/// The array with floats moved.
fn moved(a: &Array<f64>, by: &dyn Fn(usize) -> f64) -> Array<f64> {
    match &a.data {
        Data::Float(x) => Array::float(a.dtype, &a.shape, x.iter().enumerate().map(|(i, x)| x + by(i)).collect()),
        Data::Int(_) => a.clone(),
    }
}

/// Whether the gradient of a call equals its differences: not if the row or a region around it declares otherwise.
fn is_smooth(row: &str, regions: &[Region]) -> bool {
    let other = |region: &Region| matches!(region, Region::NoGrad | Region::Doubled);
    !regions.iter().any(other) && crate::rows::rows().is_derivative(row)
}

/// Refusals of calls that cannot be batched.
const UNBATCHED: [&str; 4] = ["E708", "E726", "E727", "E728"];

/// Runs the function as slices of batches of one and of two, and records whether it can be batched.
fn slice(f: &Function, compared: &mut Compared) -> Result<(), String> {
    let captured = tensors(&f.captured);
    let run =
        |f: &Function, args: &[Tensor], captured: &[Tensor]| f.run(&copies(args), &copies(captured), &Key::new(0));
    let slices = [tensors(&f.inputs), tensors(&f.others)];
    let alone = |f: &Function| [0, 1].map(|n| seen(run(f, &slices[n], &captured), &[], &[]));
    let wanted = alone(f);
    // A step without a batched form, because of the tensors that it captures, may have one inside of an outer batch.
    if wanted.iter().any(|slice| slice.as_ref().is_err_and(|code| UNBATCHED.contains(code))) {
        return Ok(());
    }
    let batch_of = |slices: &[Vec<Tensor>]| -> Vec<Tensor> {
        (0..f.inputs.len()).map(|i| stack(&slices.iter().map(|slice| slice[i].clone()).collect::<Vec<_>>())).collect()
    };
    for (what, count) in [("one slice of a batch", 1), ("two slices of a batch", 2)] {
        let got = vmap(&batch_of(&slices[..count]), |args: &Vec<Tensor>| poisoned(run(f, args, &captured)));
        let got = match got.map_err(|e| code(&e)) {
            // A step that cannot be batched is refused with a code of its own.
            Err(code) if UNBATCHED.contains(&code) => return Ok(()),
            Err(code) => Err(code),
            Ok(outs) => seen(Ok(outs), &[], &[]),
        };
        let of = |f: &Function| batch(&alone(f)[..count]);
        // A kernel over a batch adds in another order.
        compared.moved |= within(what, &got, &batch(&wanted[..count]), f, &of)?;
    }
    compared.slice = wanted[0].is_ok();
    Ok(())
}

/// The slices as one outcome: stacked results, or the first refusal.
fn batch(slices: &[Seen]) -> Seen {
    let slices = slices.iter().cloned().collect::<Result<Vec<_>, _>>()?;
    let results = slices.first().map_or(0, Vec::len);
    let result = |n: usize| bridge::stacked(&slices.iter().map(|slice| slice[n].clone()).collect::<Vec<_>>());
    Ok((0..results).map(result).collect())
}
