//! Autocast as a transform: the lines of a finished trace bound again, each in the dtype of its region.

use crate::bind::Rewriter;
use crate::error::{Error, ErrorKind};
use crate::trace::tag::Tag;
use crate::trace::*;

/// Casts the arguments of lines in autocast regions as their rows' classes say. What a function traces has these casts
/// from the start; for traces that were read from a text, or that a transform put into regions.
///
/// # Errors
/// E723 for a trace that has gradients: their dtypes follow from the forward's, so autocast comes first; what binding
/// reports.
pub fn autocast(trace: &Trace) -> Result<Trace, Error> {
    let is_backward = |l: &&std::rc::Rc<BoundSymbol>| trace.arena.effective_tags(l, trace.root).contains(Tag::BACKWARD);
    if let Some(line) = trace.lines.iter().find(is_backward) {
        let claim = format!("`autocast` can't follow `grad`: `{}` has lines of a gradient", trace.name);
        let kind = ErrorKind::TransformOrder { transform: "autocast", after: "grad" };
        let help = "run it on the trace that is differentiated: its gradients then have the dtypes of their values";
        return Err(Error::new("E723", claim).kind_is(kind).help(help).at(line.place.loc));
    }
    Rewriter::autocasting(trace, "autocast")
}
