//! The costs of lines, computed from the meanings of their rows.

use crate::bind::body_of;
use crate::error::Error;
use crate::symbol::Registered;
use crate::trace::*;
use fulgurite_core::dim::estimating;
use fulgurite_core::lower::lower_with;
use fulgurite_core::row::Meaning;
use fulgurite_core::signature::Refusal;
use rustc_hash::FxHashMap;
use std::rc::Rc;
use std::sync::Arc;

/// The work of lines, in additions; lines that share their solved signature cost the same.
#[derive(Default)]
pub(super) struct Costs {
    known: FxHashMap<(usize, usize), f64>,
}

impl Costs {
    /// The work of one line, or of its body if it is a composite. A view costs nothing. Returns `None` if the work is
    /// not known, as for a primitive of the runtime.
    ///
    /// # Errors
    /// Reports errors of making a body and of lowering.
    pub(super) fn of(&mut self, arena: &Rc<Arena>, line: &BoundSymbol) -> Result<Option<f64>, Error> {
        let row = line.symbol.row();
        if let Some(block) = row.index_body() {
            if matches!(row.meaning, Meaning::View(_)) {
                return Ok(Some(0.0));
            }
            let key = (std::ptr::from_ref(line.symbol) as usize, Arc::as_ptr(&line.solved) as usize);
            if let Some(known) = self.known.get(&key) {
                return Ok(Some(*known));
            }
            let work = estimating(|| Ok(lower_with(row, block, &line.solved, &Registered)?.flops()));
            let work = work.map_err(|r: Refusal| Error::from(r).at(line.place.loc))?;
            self.known.insert(key, work);
            return Ok(Some(work));
        }
        if let Some(control) = arena.control(line) {
            return self.of_control(arena, &control);
        }
        let Some(body) = body_of(arena, line)? else { return Ok(None) };
        self.of_all(arena, &body.lines)
    }

    fn of_all(&mut self, arena: &Rc<Arena>, lines: &[Rc<BoundSymbol>]) -> Result<Option<f64>, Error> {
        let mut sum = Some(0.0);
        for inner in lines {
            sum = sum.zip(self.of(arena, inner)?).map(|(a, b)| a + b);
        }
        Ok(sum)
    }

    /// The work of all steps of a loop, or of the larger branch of a choice. Of a loop without a bound it is not known.
    fn of_control(&mut self, arena: &Rc<Arena>, control: &Control) -> Result<Option<f64>, Error> {
        let (mut sum, mut most) = (Some(0.0), Some(0.0));
        for program in &control.programs {
            let work = self.of_all(arena, &program.lines)?;
            sum = sum.zip(work).map(|(a, b)| a + b);
            most = most.zip(work).map(|(a, b)| f64::max(a, b));
        }
        Ok(match control.kind {
            ControlKind::Cond => most,
            ControlKind::While { bound, .. } => sum.zip(bound).map(|(sum, bound)| sum * bound as f64),
            ControlKind::Scan { length, .. } => sum.map(|sum| sum * estimating(|| length.hint()) as f64),
        })
    }
}

/// The work of each line of a trace in additions: that of its row, and one addition for each number that it reads or
/// makes, because these must be moved. If the work of a row is not known, only the moves count.
///
/// # Errors
/// Reports errors of making a body and of lowering.
pub fn lines(trace: &Trace) -> Result<Vec<f64>, Error> {
    let mut costs = Costs::default();
    let one = |line: &Rc<BoundSymbol>| {
        let work = costs.of(&trace.arena, line)?.unwrap_or(0.0);
        if line.symbol.is_view() {
            return Ok(work);
        }
        let mut moved: usize = line.outs.iter().map(|p| bytes(&trace.arena, *p)).sum();
        line.for_each_arg(|p| moved += bytes(&trace.arena, p));
        Ok(work + moved as f64 / 4.0)
    };
    trace.lines.iter().map(one).collect()
}

/// The bytes of a tensor; other values count as 0.
pub fn bytes(arena: &Arena, p: ProxyId) -> usize {
    estimating(|| arena.with_ty(p, |ty| ty.as_tensor().map_or(0, |t| t.numel() * t.dtype.size())))
}
