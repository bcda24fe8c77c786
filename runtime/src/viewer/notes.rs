//! What can be said about the lines of a trace: their part in the gradient, and whether they run again for it.

use crate::error::Error;
use crate::executors::Separate;
use crate::trace::{BoundSymbol, ProxyId, Role, Tag, Trace};
use crate::transforms::vjp::float_inputs;
use crate::transforms::{Activity, LineRole};
use fulgurite_core::loc::Loc;
use rustc_hash::{FxHashMap, FxHashSet};

/// The facts about a trace from which its lines are explained.
pub struct LineNotes<'a> {
    trace: &'a Trace,
    activity: Activity,
    /// The number of lines of an operator at a place, in the forward and again.
    alike: FxHashMap<(&'static str, Loc), (usize, usize)>,
    /// The values that lines of a gradient read.
    late: FxHashSet<ProxyId>,
}

impl<'a> LineNotes<'a> {
    /// The facts about this trace.
    ///
    /// # Errors
    /// Errors of rules that decide which lines have a gradient.
    pub fn of(trace: &'a Trace) -> Result<LineNotes<'a>, Error> {
        let activity = Activity::of(trace, &float_inputs(trace))?;
        let mut alike: FxHashMap<_, (usize, usize)> = FxHashMap::default();
        let mut late = FxHashSet::default();
        for line in trace.lines() {
            let counts = alike.entry((line.symbol.name(), line.place.loc)).or_default();
            match line.place.role {
                Role::Forward => counts.0 += 1,
                Role::Recompute => counts.1 += 1,
                Role::Backward | Role::Accumulate => line.for_each_arg(|p| _ = late.insert(p)),
            }
        }
        Ok(LineNotes { trace, activity, alike, late })
    }

    /// The part of the line in the derivative with respect to the float inputs.
    pub fn gradient(&self, line: &BoundSymbol) -> String {
        match line.place.role {
            Role::Backward => return "it belongs to a gradient".to_owned(),
            Role::Accumulate => return "it adds two cotangents".to_owned(),
            Role::Recompute => return "it runs again for a gradient".to_owned(),
            Role::Forward => {}
        }
        match self.activity.vjp_role(line) {
            LineRole::Constant(reason) => format!("skipped: {reason}"),
            LineRole::Active { out_mask, .. } if !out_mask.contains(&true) => {
                "skipped: no result that has a gradient depends on it".to_owned()
            }
            LineRole::Active { in_mask, .. } => {
                let params = line.symbol.row().sig.params.iter().zip(&in_mask).filter(|(_, active)| **active);
                let names: Vec<String> = params.map(|(p, _)| format!("`{}`", p.name.name)).collect();
                format!("cotangents pass it, to {}", names.join(", "))
            }
        }
    }

    /// Whether the line is recomputed for the backward. `size` writes a number of bytes.
    pub fn again(&self, line: &BoundSymbol, size: impl Fn(usize) -> String) -> String {
        let tags = self.trace.arena.effective_tags(line, self.trace.root);
        if line.place.role != Role::Forward {
            return "it is no line of the forward".to_owned();
        }
        // A text does not record which line a line was cloned from. Operator and place identify it, unless a loop made
        // several.
        let (of, clones) = self.alike.get(&(line.symbol.name(), line.place.loc)).copied().unwrap_or_default();
        if clones > 0 {
            let why = if tags.contains(Tag::CHECKPOINT) {
                "it stands in a checkpoint"
            } else if tags.contains(Tag::RECOMPUTE) {
                "it is tagged `recompute`"
            } else {
                "that was cheaper than keeping its results"
            };
            return match of {
                1 => format!("it runs again for the backward: {why}"),
                _ => format!("{clones} of {of} such lines at this place run again for the backward"),
            };
        }
        let kept: Vec<ProxyId> = line.outs.iter().chain(&line.aux).copied().filter(|p| self.late.contains(p)).collect();
        if kept.is_empty() {
            return "no: no gradient reads its results".to_owned();
        }
        let bytes = kept.iter().map(|p| bytes(self.trace, *p)).sum();
        let names: Vec<String> = kept.iter().map(|p| format!("`{}`", self.trace.arena.name(*p))).collect();
        let why = if tags.contains(Tag::CHECKPOINT) {
            "a gradient outside of its checkpoint reads it"
        } else if tags.contains(Tag::NO_AUTO_RECOMPUTE) {
            "it is tagged `no_auto_recompute`"
        } else {
            "nothing asks for it (a checkpoint, a tag, a budget by `rematerialise`)"
        };
        format!("no: {} kept for a gradient, {}; {why}", names.join(", "), size(bytes))
    }
}

/// The bytes of a value.
pub fn bytes(trace: &Trace, p: ProxyId) -> usize {
    trace.ty(p).as_tensor().map_or(0, |t| t.numel() * t.dtype.size())
}

/// The reason why a line is not fused with a line that it reads, in words.
pub fn separate(why: Separate) -> &'static str {
    match why {
        Separate::Kernel => "that is a product, a scan or a kernel of its own",
        Separate::Again => "what runs again for the backward does not meet the forward",
        Separate::Between => "another step has to run in between",
        Separate::Loops => "their loops do not agree, or are too large for one program",
    }
}
