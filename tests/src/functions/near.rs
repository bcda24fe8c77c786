//! Comparison of two runs of a function: by bits, or within what rounding may do.

use super::Function;
use crate::bound;
use fulgurite_core::DType;
use fulgurite_core::eval::nest::{Array, Data};

/// The difference that two f64 results may have, relative to the largest number of the result. Sums are reassociated, and
/// products have other shapes.
const ROUNDING: f64 = 1e-9;
/// The difference that two f32 results of one line may have, in roundings. A row calls at most two functions, and a kernel's
/// function may be 8 roundings off; an ulp is two roundings, as in [`bound`]. [`within`] compares results of several lines.
const ROUNDINGS: f64 = 16.0;
/// The difference that two results in half precision may have, in roundings. They are computed in f32 and rounded once, so
/// one may be the neighbour of the other.
const NEIGHBOUR: f64 = 2.0;
/// How many nudged runs of a function are made to see how far roundings move its results.
const NUDGES: u64 = 6;
/// How many times the largest move of a nudged run a difference may be. A nudge moves the values between steps alone, and
/// every line rounds.
const MOVES: f64 = 16.0;

/// Refusals of a class, and of a batch of one, which tracing finds.
const OF_CLASSES: [&str; 3] = ["E708", "E715", "E727"];
/// Refusals of elements. At once a line before may be refused by them; a traced program has not looked at elements when a
/// class refuses a line behind.
const OF_ELEMENTS: [&str; 2] = ["E705", "E804"];

/// The observable outcome of a call: its results, then its arguments and captured tensors after the call; or the code of
/// its error.
pub type Seen = Result<Vec<Array<f64>>, &'static str>;

/// How far numbers of a type may be apart, relative to the largest of the result.
fn allowed(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => ROUNDING,
        DType::F32 => ROUNDINGS * bound::unit(dtype),
        _ => NEIGHBOUR * bound::unit(dtype),
    }
}

/// The smallest scale of a result. Arguments are of order one, so a small result may be a difference of two numbers of that
/// order within one row, and no nudge of an argument shows how that difference rounds.
const SMALLEST: f64 = 0.1;

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

/// Compares two outcomes by types and numbers. Numbers may differ by `part` of what is allowed.
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

/// Compares two outcomes as [`same`] does. Where they differ and the function has floats coarser than f64, nudged runs tell
/// how far roundings move its results, and the difference may be 16 times as large: a rounding of f16 is large, so a chain
/// of lines that are added up in another order may end far away. True where the nudged runs were needed.
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
        // one run refuses an element that a nudged run accepts, or the other way round
        (a, b) if a.is_ok() != b.is_ok() && moved.iter().any(|seen| seen.is_ok() == a.is_ok()) => Ok(true),
        _ => Err(fault),
    }
}

/// Whether a result is as near as the results of nudged runs are.
fn is_near(got: &Array<f64>, want: &Array<f64>, moved: &[Option<&Array<f64>>], coarsest: DType) -> bool {
    if got.dtype != want.dtype || got.shape != want.shape {
        return false;
    }
    if alike(got, want, allowed(want.dtype) * scale(want)) {
        return true;
    }
    // a result that jumps at a rounding is not compared: an integer, an infinity, a refusal
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

/// Compares two outcomes bit by bit: the same lines, run in the same order, give the same bits.
///
/// # Errors
/// Both, where they differ.
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
