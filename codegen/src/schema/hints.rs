//! `tests: domain` and `tol`: texts that are numbers.

use crate::diag::Diag;
use crate::yaml::Text;

/// The interval that `lo..hi` says.
///
/// # Errors
/// What is wrong with the text.
pub fn interval(text: &str) -> Result<(f64, f64), &'static str> {
    let (lo, hi) = text.split_once("..").ok_or("is no interval")?;
    let end = |text: &str| text.trim().parse::<f64>().ok().filter(|x| x.is_finite());
    match (end(lo), end(hi)) {
        (Some(lo), Some(hi)) if lo < hi => Ok((lo, hi)),
        (Some(_), Some(_)) => Err("has no numbers between its ends"),
        _ => Err("has an end that is no number"),
    }
}

/// What is wrong with the range of an argument.
pub(super) fn domain(op: &str, arg: &Text, text: &Text) -> Option<Diag> {
    let why = interval(text.as_str()).err()?;
    let message = format!("`domain` of `{op}`: the range `{}` of `{}` {why}", text.as_str(), arg.as_str());
    Some(Diag::error("E005", text.place, message).help("write two numbers, the smaller one first: `'0.1..4'`"))
}

/// A tolerance above this tells nothing: bf16, the coarsest dtype that is computed with, is within 0.004 of a number.
const COARSEST: f64 = 0.1;

/// What is wrong with a tolerance.
pub(super) fn tol(op: &str, text: &Text) -> Option<Diag> {
    let number = text.as_str().trim().parse::<f64>().ok().filter(|x| x.is_finite() && *x > 0.0);
    if number.is_some_and(|x| x > COARSEST) {
        let message = format!("`tol` of `{op}` is `{}`, with which wrong values pass", text.as_str());
        let help = format!("say at most {COARSEST}: bf16, the coarsest dtype, is within 0.004 of each number");
        return Some(Diag::error("E005", text.place, message).help(help));
    }
    let fits = number.is_some();
    let message = || format!("`tol` of `{op}` is `{}`, which is no number above 0", text.as_str());
    (!fits).then(|| Diag::error("E005", text.place, message()).help("write how far two numbers may be apart: `1e-6`"))
}
