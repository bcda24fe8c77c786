//! Autocast as a transform: binds the lines of a finished trace again, each in the dtype of its region.

use crate::bind::Rewriter;
use crate::error::{Error, ErrorKind};
use crate::trace::tag::Tag;
use crate::trace::*;

/// Casts the arguments of lines in autocast regions according to the autocast classes of their rows. A function that is
/// traced has these casts from the start, so this serves traces that were read from a text, or that a transform put
/// into regions.
///
/// # Errors
/// E723 for a trace with gradients: their dtypes follow from the forward's, so autocast must come first. E758 if an
/// argument of a line of control flow would get another dtype. Reports errors of binding too.
pub fn autocast(trace: &Trace) -> Result<Trace, Error> {
    let is_backward = |l: &&std::rc::Rc<BoundSymbol>| trace.arena.effective_tags(l, trace.root).contains(Tag::BACKWARD);
    if let Some(line) = trace.lines.iter().find(is_backward) {
        let claim = format!("`autocast` can't follow `grad`: `{}` has lines of a gradient", trace.name);
        let kind = ErrorKind::TransformOrder { transform: "autocast", after: "grad" };
        let help = "run it on the trace that is differentiated: its gradients then have the dtypes of their values";
        return Err(Error::new("E723", claim).kind_is(kind).help(help).at(line.place.loc));
    }
    super::control::cast(&Rewriter::autocasting(trace, "autocast")?, autocast)
}
