//! Compares two runs of a function: bit by bit, or within the effect of rounding.

use super::Function;
use crate::bound;
use fulgurite_core::DType;
use fulgurite_core::eval::loop_nest::{Array, Data};

/// The relative difference allowed between two f64 results, in terms of the largest number of the result. Sums are
/// reassociated, and products have other shapes.
const ROUNDING: f64 = 1e-9;
/// The difference allowed between two f32 results of one line, in roundings. A row calls at most two functions, and a
/// kernel's function may be 8 roundings off; an ulp is two roundings, as in [`bound`]. [`within`] compares results of
/// several lines.
const ROUNDINGS: f64 = 16.0;
/// The difference allowed between two results in half precision, in roundings. They are computed in f32 and rounded
/// once, so one may be the neighbour of the other.
const NEIGHBOUR: f64 = 2.0;
/// The number of nudged runs of a function, which show how far roundings move its results.
const NUDGES: u64 = 6;
/// The allowed ratio of a difference to the largest move of a nudged run. A nudge moves only the values between steps,
/// while every line rounds.
const MOVES: f64 = 16.0;

/// Refusals of a class, and of a batch, which tracing finds.
const OF_CLASSES: [&str; 5] = ["E701", "E708", "E715", "E726", "E727"];
/// Refusals of elements. An eager run may refuse them in an earlier line, while a traced program has not yet read
/// elements when a class refuses a later line.
const OF_ELEMENTS: [&str; 2] = ["E705", "E804"];

/// The observable outcome of a call: its results, followed by its arguments and captured tensors after the call; or the
/// code of its error.
pub type Seen = Result<Vec<Array<f64>>, &'static str>;

/// The relative distance allowed between numbers of a dtype, in terms of the largest number of the result.
fn allowed(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => ROUNDING,
        DType::F32 => ROUNDINGS * bound::unit(dtype),
        _ => NEIGHBOUR * bound::unit(dtype),
    }
}

/// The smallest scale of a result. Arguments and draws are of order one, so a small result may be a difference of two
/// numbers of that order within one row, or the cosine of such a number. No nudge of an argument shows how that rounds.
const SMALLEST: f64 = 1.0;

/// The largest finite number of a result, at least [`SMALLEST`].
fn scale(a: &Array<f64>) -> f64 {
    a.scalars().iter().map(|x| x.as_f64().abs()).filter(|x| x.is_finite()).fold(SMALLEST, f64::max)
}

/// Whether two numbers are equal, or differ by at most `by`.
fn equal(a: f64, b: f64, by: f64) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan() || a == b || (a - b).abs() <= by
}

fn alike(a: &Array<f64>, b: &Array<f64>, by: f64) -> bool {
    let numbers = match (&a.data, &b.data) {
        (Data::Float(a), Data::Float(b)) => a.iter().zip(b).all(|(a, b)| equal(*a, *b, by)),
        (Data::Int(a), Data::Int(b)) => a == b,
        _ => false,
    };
    a.dtype == b.dtype && a.shape == b.shape && numbers
}

/// Compares two outcomes by types and numbers. Numbers may differ by the share `part` of the allowed distance.
///
/// # Errors
/// The first difference.
pub fn same(what: &str, got: &Seen, want: &Seen, part: f64) -> Result<(), String> {
    match (got, want) {
        (Err(a), Err(b)) if a == b || OF_CLASSES.contains(a) && OF_ELEMENTS.contains(b) => Ok(()),
        (Ok(a), Ok(b)) if a.len() == b.len() => {
            let differs = |(a, b): (&Array<f64>, &Array<f64>)| !alike(a, b, part * allowed(b.dtype) * scale(b));
            match a.iter().zip(b).position(differs) {
                Some(n) => Err(format!("{what}: value {n} is {:?}, at once {:?}", a[n], b[n])),
                None => Ok(()),
            }
        }
        _ => Err(format!("{what}: {got:?}, at once {want:?}")),
    }
}

/// Compares two outcomes as [`same`] does. If they differ and the function has floats coarser than f64, nudged runs
/// show how far roundings move its results, and the difference may be 16 times larger: a rounding of f16 is large, so a
/// chain of lines that are added in another order may end far away. Returns whether the nudged runs were needed.
///
/// # Errors
/// The first difference.
pub fn within(
    what: &str,
    got: &Seen,
    want: &Seen,
    f: &Function,
    run: &dyn Fn(&Function) -> Seen,
) -> Result<bool, String> {
    let Err(fault) = same(what, got, want, 1.0) else { return Ok(false) };
    if f.is_f64() {
        return Err(fault);
    }
    let moved: Vec<Seen> = (1..=NUDGES).map(|n| run(&f.nudged(n))).collect();
    match (got, want) {
        (Ok(got), Ok(want)) if got.len() == want.len() => {
            let of = |n: usize| moved.iter().map(|seen| seen.as_ref().ok()?.get(n)).collect::<Vec<_>>();
            match (0..want.len()).find(|n| !is_near(&got[*n], &want[*n], &of(*n), f.coarsest)) {
                Some(n) => Err(format!("{what}: value {n} is {:?}, at once {:?}, moved {:?}", got[n], want[n], of(n))),
                None => Ok(true),
            }
        }
        // One run refuses an element that a nudged run accepts, or vice versa.
        (a, b) if a.is_ok() != b.is_ok() && moved.iter().any(|seen| seen.is_ok() == a.is_ok()) => Ok(true),
        _ => Err(fault),
    }
}

/// Whether a result is within the distance that the nudged runs show.
fn is_near(got: &Array<f64>, want: &Array<f64>, moved: &[Option<&Array<f64>>], coarsest: DType) -> bool {
    if got.dtype != want.dtype || got.shape != want.shape {
        return false;
    }
    if alike(got, want, allowed(want.dtype) * scale(want)) {
        return true;
    }
    // A result that jumps at a rounding is not compared: an integer, an infinity, a refusal.
    let (Data::Float(got), Data::Float(wanted)) = (&got.data, &want.data) else {
        return moved.iter().any(|other| other.is_none_or(|other| other.data != want.data));
    };
    let mut far = 0.0f64;
    for other in moved {
        let Some(Data::Float(other)) = other.map(|other| &other.data) else { return true };
        for (a, b) in other.iter().zip(wanted) {
            if a.is_finite() != b.is_finite() {
                return true;
            }
            far = if equal(*a, *b, 0.0) { far } else { far.max((a - b).abs()) };
        }
    }
    let by = MOVES * far + allowed(coarsest).max(allowed(want.dtype)) * scale(want);
    got.iter().zip(wanted).all(|(a, b)| equal(*a, *b, by))
}

/// Compares two outcomes bit by bit: equal lines in equal order give equal bits.
///
/// # Errors
/// Both outcomes, if they differ.
pub fn exactly(what: &str, got: &Seen, want: &Seen) -> Result<(), String> {
    let bits = |a: &Array<f64>| -> Vec<u64> {
        match &a.data {
            Data::Float(x) => x.iter().map(|x| if x.is_nan() { u64::MAX } else { x.to_bits() }).collect(),
            Data::Int(x) => x.iter().map(|x| *x as u64).collect(),
        }
    };
    let is_same = match (got, want) {
        (Ok(a), Ok(b)) => {
            let same =
                |(a, b): (&Array<f64>, &Array<f64>)| a.dtype == b.dtype && a.shape == b.shape && bits(a) == bits(b);
            a.len() == b.len() && a.iter().zip(b).all(same)
        }
        (a, b) => a.as_ref().err() == b.as_ref().err(),
    };
    match is_same {
        true => Ok(()),
        false => Err(format!("{what}: {got:?}, not the bits of {want:?}")),
    }
}
