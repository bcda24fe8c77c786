//! `tests: domain`: texts of intervals.

use crate::diag::Diag;
use crate::yaml::Text;

/// Parses an interval `lo..hi`.
///
/// # Errors
/// The fault of the text.
pub fn interval(text: &str) -> Result<(f64, f64), &'static str> {
    let (lo, hi) = text.split_once("..").ok_or("is no interval")?;
    let end = |text: &str| text.trim().parse::<f64>().ok().filter(|x| x.is_finite());
    match (end(lo), end(hi)) {
        (Some(lo), Some(hi)) if lo < hi => Ok((lo, hi)),
        (Some(_), Some(_)) => Err("has no numbers between its ends"),
        _ => Err("has an end that is no number"),
    }
}

/// The fault of the range of an argument, if any.
pub(super) fn domain(op: &str, arg: &Text, text: &Text) -> Option<Diag> {
    let why = interval(text.as_str()).err()?;
    let message = format!("`domain` of `{op}`: the range `{}` of `{}` {why}", text.as_str(), arg.as_str());
    Some(Diag::error("E005", text.place, message).help("write two numbers, the smaller one first: `'0.1..4'`"))
}
