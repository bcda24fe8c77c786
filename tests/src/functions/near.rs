//! When two ways have given the same: the same bits, or as near as rounding lets them be.

use super::Function;
use crate::bound;
use fulgurite_core::DType;
use fulgurite_core::eval::nest::{Array, Data};

/// Relative to the largest number of a result: what reassociated sums and products of other shapes may differ by in f64.
const ROUNDING: f64 = 1e-9;
/// The same in f32, in roundings: a row calls one or two functions, of which each kernel's may be 8 roundings off (an ulp
/// is two, as in [`bound`]). Results of several lines differ as said at [`within`].
const ROUNDINGS: f64 = 16.0;
/// The same in half precision, computed in f32 and rounded once: the neighbour.
const NEIGHBOUR: f64 = 2.0;
/// Other runs of a function that tell how far roundings move its results.
const NUDGES: u64 = 6;
/// Times that distance: there are more lines than values that are moved.
const MOVES: f64 = 16.0;

/// What can be seen of a call: its results, then the arguments and the captured tensors behind it.
pub type Seen = Result<Vec<Array<f64>>, &'static str>;

/// How far numbers of a type may be apart, relative to the largest of the result.
fn allowed(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => ROUNDING,
        DType::F32 => ROUNDINGS * bound::unit(dtype),
        _ => NEIGHBOUR * bound::unit(dtype),
    }
}

/// The largest finite number, or a small one.
fn scale(a: &Array<f64>) -> f64 {
    a.scalars().iter().map(|x| x.as_f64().abs()).filter(|x| x.is_finite()).fold(1e-3, f64::max)
}

/// Whether numbers are the same, or so near.
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

/// Results of the same types and numbers, up to `part` of what is allowed.
///
/// # Errors
/// The first difference.
pub fn same(what: &str, got: &Seen, want: &Seen, part: f64) -> Result<(), String> {
    match (got, want) {
        (Err(a), Err(b)) if a == b => Ok(()),
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

/// The same, or in types that are coarser than f64 as near as roundings move what the function gives by `run`: of f16 one
/// rounding is much, so where lines are added up in another order a chain of calls may be far from what it was. True where
/// it took that.
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
        // elements are refused on one side of a rounding
        (a, b) if a.is_ok() != b.is_ok() && moved.iter().any(|seen| seen.is_ok() == a.is_ok()) => Ok(true),
        _ => Err(fault),
    }
}

/// Whether a result is as near as others, of a function that was moved, are.
fn is_near(got: &Array<f64>, want: &Array<f64>, moved: &[Option<&Array<f64>>], coarsest: DType) -> bool {
    if got.dtype != want.dtype || got.shape != want.shape {
        return false;
    }
    if alike(got, want, allowed(want.dtype) * scale(want)) {
        return true;
    }
    // what jumps at a rounding tells nothing: an integer, an infinity, a refusal
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

/// The same bits: where the same lines run in the same order, nothing may differ.
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
