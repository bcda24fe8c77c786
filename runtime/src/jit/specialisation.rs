//! Programs over symbolic sizes: one trace, its guards, and a plan for each combination of sizes that occurred.

use super::backend::Backend;
use super::two_part::{Parts, Plan};
use crate::bind::SymbolicTrace;
use crate::error::Error;
use crate::executors::Executor;
use crate::tensor::{CellKind, Tensor, View};
use crate::trace::Trace;
use fulgurite_core::dim::DimGuard;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// At most this many plans per program, to bound memory; the one unused for longest is dropped.
const MOST_PLANS: usize = 64;

/// The sizes of all axes of all tensors of a call, in order, one for each atom.
pub(super) type Sizes = SmallVec<[usize; 32]>;

/// A program over symbolic sizes.
pub(super) struct Family {
    /// The names of the sizes, in order.
    names: Vec<String>,
    /// For each atom, its position among the sizes.
    atoms: FxHashMap<String, usize>,
    guards: Vec<DimGuard>,
    /// The sizes for which the program was traced.
    made_at: Sizes,
    trace: SymbolicTrace,
    executors: Vec<Arc<dyn Executor>>,
    /// The two parts of the trace, if it has two; set with the first plan.
    parts: OnceLock<Option<Parts>>,
    plans: Mutex<Plans>,
}

#[derive(Default)]
struct Plans {
    /// The plans, most recently used first.
    kept: Vec<(Sizes, Arc<Plan>)>,
    /// Sizes at which the trace could not be bound, with the reasons.
    refused: Vec<(Sizes, String)>,
}

/// The sizes of these arguments.
pub(super) fn sizes(leaves: &[&Tensor]) -> Sizes {
    let mut all = Sizes::new();
    for leaf in leaves {
        if let View::Cell(cell) = leaf.view()
            && cell.kind() == CellKind::Tensor
        {
            all.extend_from_slice(cell.sizes());
        }
    }
    all
}

impl Family {
    /// The program of a finished trace whose inputs have these atoms, and which relied on `guards`.
    pub fn new(
        trace: &Trace,
        atoms: &[String],
        made_at: Sizes,
        guards: Vec<DimGuard>,
        executors: &[Arc<dyn Executor>],
    ) -> Family {
        Family {
            names: atoms.to_vec(),
            atoms: atoms.iter().cloned().enumerate().map(|(i, name)| (name, i)).collect(),
            guards,
            made_at,
            trace: SymbolicTrace::of(trace),
            executors: executors.to_vec(),
            parts: OnceLock::new(),
            plans: Mutex::default(),
        }
    }

    /// The names of the sizes, in order.
    pub fn atoms(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The conditions on sizes.
    pub fn guards(&self) -> &[DimGuard] {
        &self.guards
    }

    fn plans(&self) -> MutexGuard<'_, Plans> {
        self.plans.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn at<'a>(&'a self, sizes: &'a Sizes) -> impl Fn(&str) -> Option<i64> + 'a {
        |name| i64::try_from(*sizes.get(*self.atoms.get(name)?)?).ok()
    }

    /// Whether the program serves these sizes.
    pub fn admits(&self, sizes: &Sizes) -> bool {
        let plans = self.plans();
        if plans.kept.first().is_some_and(|(s, _)| s == sizes) {
            return true;
        }
        let refused = plans.refused.iter().any(|(s, _)| s == sizes);
        drop(plans);
        !refused && sizes.len() == self.made_at.len() && self.guards.iter().all(|g| g.holds(&self.at(sizes)))
    }

    /// The reasons why the program does not serve these sizes, one line each.
    pub fn reasons(&self, sizes: &Sizes) -> Vec<String> {
        let mut out = Vec::new();
        for guard in self.guards.iter().filter(|g| !g.holds(&self.at(sizes))) {
            let show = |v: Option<(i64, i64)>| v.map_or("no size".to_owned(), |(a, b)| format!("{a} and {b}"));
            let (was, is) = (guard.values(&self.at(&self.made_at)), guard.values(&self.at(sizes)));
            out.push(format!("`{guard}` was so with {}, is {}", show(was), show(is)));
        }
        out.extend(self.plans().refused.iter().filter(|(s, _)| s == sizes).map(|(_, why)| why.clone()));
        out
    }

    /// The plan for these sizes, if there is one.
    pub fn known(&self, sizes: &Sizes) -> Option<Arc<Plan>> {
        let mut plans = self.plans();
        let at = plans.kept.iter().position(|(s, _)| s == sizes)?;
        plans.kept[..=at].rotate_right(1);
        Some(plans.kept[0].1.clone())
    }

    /// The plan for the sizes for which the program was traced.
    ///
    /// # Errors
    /// The errors of [`Family::plan`]; E709 if these sizes break a guard, or give a value another size than it had.
    pub fn first(&self) -> Result<Arc<Plan>, Error> {
        if !self.trace.was_made_at(&self.at(&self.made_at)) {
            return Err(Error::bug("E709", "a size of another trace is used"));
        }
        match self.guards.iter().find(|g| !g.holds(&self.at(&self.made_at))) {
            Some(guard) => Err(Error::bug("E709", format!("`{guard}` does not hold where it was recorded"))),
            None => {
                let parts = Parts::of(&self.trace, &self.names, &self.at(&self.made_at), &self.executors)?;
                self.parts.get_or_init(|| parts);
                self.plan(&self.made_at)
            }
        }
    }

    /// Makes the plan for sizes that the program serves.
    ///
    /// # Errors
    /// An error if the trace can't be bound at these sizes, which the program does not serve from then on; and errors
    /// of executors.
    pub fn plan(&self, sizes: &Sizes) -> Result<Arc<Plan>, Error> {
        let (at, made_at) = (self.at(sizes), self.at(&self.made_at));
        let parts = self.parts.get().and_then(Option::as_ref).filter(|parts| parts.serves(&at, &made_at));
        let bound = match parts {
            Some(parts) => parts.head_at(&at),
            None => self.trace.at(&at),
        };
        let trace = bound.inspect_err(|e| {
            let why = format!("the symbolic program can't be planned: {}", e.claim());
            self.plans().refused.push((sizes.clone(), why));
        })?;
        let backend = Backend::compile_for_sizes(&trace, &self.executors)?;
        let plan = Arc::new(match parts {
            Some(parts) => parts.plan(backend),
            None => backend.into(),
        });
        let mut plans = self.plans();
        plans.kept.truncate(MOST_PLANS - 1);
        plans.kept.insert(0, (sizes.clone(), plan.clone()));
        Ok(plan)
    }
}
