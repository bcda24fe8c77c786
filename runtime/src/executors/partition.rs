//! Offers lines to executors in order and collects their claims; a line that none claims is decomposed, and its body is
//! offered.

use super::require::{Check, checks};
use super::{Claim, CompileOptions, ExecError, Executor, Kernel, Line, control};
use crate::bind::may_refuse;
use crate::trace::{Arena, Trace};
use crate::trace::{BoundSymbolId, ProxyId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;
use std::sync::Arc;

/// A line, or several, with the executor that runs them.
pub(crate) enum Claimed {
    /// A condition of the next line, which is not fused.
    Check(Line, Check),
    /// A line that an executor joins with its neighbours, with the conditions of the line.
    Join(Line, Vec<Check>, Arc<dyn Executor>),
    /// A kernel of an executor.
    Kernel {
        /// The lines that the kernel runs.
        lines: Vec<BoundSymbolId>,
        /// The name of the executor.
        executor: &'static str,
        kernel: Arc<dyn Kernel>,
        /// The values that the kernel reads.
        inputs: Vec<ProxyId>,
        /// The values that the kernel writes.
        outs: Vec<ProxyId>,
        /// Whether a line of the kernel may refuse.
        refuses: bool,
    },
}

/// The claimed lines of a trace, with the renaming of results that decompositions return.
#[derive(Default)]
pub(crate) struct Partition {
    /// The claims in order.
    pub claimed: Vec<Claimed>,
    /// For each result of a decomposed line, the result of a line of its body.
    pub same: FxHashMap<ProxyId, ProxyId>,
    /// For each result in a device's memory, the proxy that stands for it.
    pub at: FxHashMap<ProxyId, ProxyId>,
}

/// The proxy as which a result was defined, by [`Partition::same`].
pub(crate) fn root(same: &FxHashMap<ProxyId, ProxyId>, mut p: ProxyId) -> ProxyId {
    while let Some(&q) = same.get(&p) {
        p = q;
    }
    p
}

/// Decompositions nest at most this deep, because a row that decomposes into itself would never end.
const MAX_DEPTH: usize = 64;

pub(super) fn partition(trace: &Trace, options: &CompileOptions<'_>) -> Result<Partition, ExecError> {
    let lines: Vec<Line> = trace.lines.iter().map(|l| Line::new(l.clone())).collect();
    // The number of uses of each value in the whole trace, for claims on several lines.
    let mut uses: FxHashMap<ProxyId, usize> = FxHashMap::default();
    for line in &lines {
        line.inputs().into_iter().for_each(|p| *uses.entry(p).or_default() += 1);
    }
    for p in trace.outputs.iter().chain(trace.epilogue.iter().map(|w| &w.value)) {
        *uses.entry(*p).or_default() += 1;
    }
    let claimed = trace.lines.iter().filter(|l| l.claimed_by.is_some());
    let kept = |id| trace.arena.kernel(id)?.downcast_ref::<Arc<dyn Kernel>>().cloned();
    let kernels: Kept = claimed.filter_map(|l| Some((l.id, kept(l.id)?))).collect();
    let mut offer =
        Offer { arena: &trace.arena, kernels, options, out: Partition::default(), made: FxHashSet::default() };
    offer.lines(lines, &uses, 0)?;
    Ok(offer.out)
}

/// The kernels of lines that were claimed before lines on tensors of subclasses were unrolled.
type Kept = FxHashMap<BoundSymbolId, Arc<dyn Kernel>>;

/// Lines that are offered to executors.
struct Offer<'a> {
    arena: &'a Rc<Arena>,
    kernels: Kept,
    options: &'a CompileOptions<'a>,
    out: Partition,
    /// The values that bodies made so far.
    made: FxHashSet<ProxyId>,
}

impl Offer<'_> {
    /// Offers lines, and the bodies of those that no executor claims. `uses` has the number of uses of each value.
    fn lines(&mut self, mut lines: Vec<Line>, uses: &FxHashMap<ProxyId, usize>, depth: usize) -> Result<(), ExecError> {
        let mut at = 0;
        while at < lines.len() {
            let rest = &lines[at..];
            if let (Some(executor), Some(kernel)) = (rest[0].symbol.claimed_by, self.kernels.get(&rest[0].id())) {
                let kernel = kernel.clone();
                let (inputs, outs) = (rest[0].inputs(), rest[0].outs.clone());
                // the line's body on fields is not known here, so it is assumed that it may refuse
                let refuses = true;
                self.out.claimed.push(Claimed::Kernel {
                    lines: vec![rest[0].id()],
                    executor,
                    kernel,
                    inputs,
                    outs,
                    refuses,
                });
                at += 1;
                continue;
            }
            if let Some(programs) = self.arena.control(&rest[0].symbol) {
                let line = &rest[0].symbol;
                let refuses = may_refuse(self.arena, line);
                let kernel = control::kernel(self.arena, &programs, self.options)
                    .map_err(|e| ExecError { line: e.line.or(Some(line.id)), ..e })?;
                let mut inputs = Vec::new();
                line.for_each_arg(|p| inputs.push(p));
                let (lines, outs) = (vec![line.id], line.outs.clone());
                let executor = control::NAME;
                self.out.claimed.push(Claimed::Kernel { lines, executor, kernel, inputs, outs, refuses });
                at += 1;
                continue;
            }
            let claim = self.options.executors.iter().find_map(|e| e.claim(rest).map(|c| (e, c)));
            let id = rest[0].id();
            let mut asked = checks(&rest[0])?;
            if !matches!(claim, Some((_, Claim::Join))) {
                let apart = |check| Claimed::Check(Line::new(rest[0].symbol.clone()), check);
                self.out.claimed.extend(asked.drain(..).map(apart));
            }
            match claim {
                Some((executor, Claim::Join)) => {
                    let next = Line::new(rest[0].symbol.clone());
                    let line = std::mem::replace(&mut lines[at], next);
                    self.out.claimed.push(Claimed::Join(line, asked, executor.clone()));
                    at += 1;
                }
                Some((executor, Claim::Kernel { lines: n, inputs, outs, kernel })) => {
                    let executor = executor.name();
                    let taken = &rest[..n.clamp(1, rest.len())];
                    check(executor, taken, &inputs, &outs, uses)?;
                    let ids = taken.iter().map(Line::id).collect();
                    let refuses = taken.iter().any(|l| may_refuse(self.arena, &l.symbol));
                    at += taken.len();
                    self.out.claimed.push(Claimed::Kernel { lines: ids, executor, kernel, inputs, outs, refuses });
                }
                None => {
                    let line = rest[0].symbol.clone();
                    let fault = |what: &str| {
                        ExecError::new("E801", format!("no executor runs `{}`{what}", line.symbol.name())).at(id)
                    };
                    if depth >= MAX_DEPTH {
                        return Err(fault(", and its decomposition does not end"));
                    }
                    let Some(body) = (self.options.bodies)(&line)? else {
                        if let Some(Err(e)) = rest[0].nest() {
                            return Err(e.at(id));
                        }
                        return Err(fault(", and it has no decomposition").help("add `interp` to the executors"));
                    };
                    // copies of a line may share a body, whose values are known inside of it alone
                    let body =
                        if body.made().any(|p| self.made.contains(&p)) { Rc::new(body.copy(self.arena)) } else { body };
                    self.made.extend(body.made());
                    let results = line.outs.iter().chain(&line.aux);
                    for (p, q) in results.zip(&body.outs) {
                        if p != q {
                            self.out.same.insert(*p, *q);
                        }
                    }
                    let inner: Vec<Line> = body.lines.iter().map(|l| Line::new(Rc::clone(l))).collect();
                    let mut uses = FxHashMap::default();
                    for l in &inner {
                        l.inputs().into_iter().for_each(|p| *uses.entry(p).or_default() += 1);
                    }
                    body.outs.iter().for_each(|p| *uses.entry(*p).or_default() += 1);
                    self.lines(inner, &uses, depth + 1)?;
                    at += 1;
                }
            }
        }
        Ok(())
    }
}

/// Checks that a claim reads values from before its lines, and writes every value that is used after them.
fn check(
    executor: &str,
    lines: &[Line],
    inputs: &[ProxyId],
    outs: &[ProxyId],
    uses: &FxHashMap<ProxyId, usize>,
) -> Result<(), ExecError> {
    let id = lines[0].id();
    let defined: FxHashSet<ProxyId> = lines.iter().flat_map(|l| l.outs.iter().copied()).collect();
    let mut inside: FxHashMap<ProxyId, usize> = FxHashMap::default();
    for l in lines {
        l.inputs().into_iter().for_each(|p| *inside.entry(p).or_default() += 1);
    }
    let misfit = |what: &str| {
        Err(ExecError::new("E802", format!("executor `{executor}` claims `{}`, but {what}", lines[0].name())).at(id))
    };
    if inputs.iter().any(|p| defined.contains(p)) {
        return misfit("reads a value that the claimed lines define");
    }
    if outs.iter().any(|p| !defined.contains(p)) {
        return misfit("gives a value that the claimed lines do not define");
    }
    let used_behind = |p: &ProxyId| uses.get(p).copied().unwrap_or(0) > inside.get(p).copied().unwrap_or(0);
    if lines.len() > 1 && defined.iter().any(|p| used_behind(p) && !outs.contains(p)) {
        return misfit("does not give a value that other lines use");
    }
    Ok(())
}
