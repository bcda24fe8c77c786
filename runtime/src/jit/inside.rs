//! A compiled function that is called while another one is traced: its lines become lines of the surrounding function.

use super::Jit;
use super::derivatives::{Closure, Recorded};
use crate::error::Error;
use crate::scope;
use crate::tensor::{Key, Tensor};
use crate::trace::ProxyTy;
use crate::transforms::{At, Pipeline, Remat};
use crate::tree::{Leaves, Tree, flatten};
use fulgurite_core::loc::Loc;
use std::sync::Arc;

impl<F> Jit<F> {
    /// The pipeline for recording the function inside of another trace; `None` if the function has no options of its
    /// own.
    ///
    /// # Errors
    /// E757 if the surrounding program can't honour the options of this function.
    pub(super) fn wishes_inside(&self) -> Result<Option<Arc<Pipeline>>, Error> {
        let (own, around) = (&self.pipeline, scope::pipeline());
        let budget = own.remat != Remat::Marked && own.remat != around.remat;
        let differentiated = scope::is_differentiated();
        let lost = if own.has(At::Simplified) {
            "a transform at `At::Simplified`, which sees whole programs"
        } else if !own.executors.is_empty() && own.executors != around.executors {
            "executors, which compile whole programs"
        } else if differentiated && own.has(At::Joint) {
            "a transform at `At::Joint`, and its gradient is taken by the function around it"
        } else if differentiated && budget {
            "a budget for what gradients keep, and its gradient is taken by the function around it"
        } else {
            let wishes = own.has(At::Acquired) || own.has(At::Joint) || budget;
            return Ok(wishes.then(|| Arc::new(own.inside(&around))));
        };
        let claim = format!("`{}` is called while another function is traced, and has {lost}", self.name);
        Err(Error::new("E757", claim)
            .note("inside of another program a compiled function is a part of it")
            .help("give that to the function around it, or call this one where nothing is traced"))
    }

    /// Records the function as a trace of its own, runs its transforms on that, and adds the result to the surrounding
    /// trace.
    pub(super) fn inside<P: Tree, R: Tree>(
        &self,
        wishes: Arc<Pipeline>,
        args: &P,
        run: impl FnOnce(&P) -> Result<R, Error>,
    ) -> Result<R, Error> {
        scope::named(&self.name, || {
            let closure = Closure::on(&self.name, args, Recorded::Called(wishes), Loc::NOWHERE, run)?;
            let leaves = flatten(args);
            let written = closure.trace.epilogue().iter().any(|w| w.input < leaves.leaves().len());
            if written && scope::overlap(leaves.leaves().iter().copied().chain(&closure.captured)) {
                let claim = format!("`{}` writes to an argument, and is given the same tensor again", self.name);
                let help = "copy one of them, or give its transforms to the function around it";
                return Err(Error::new("E757", claim).help(help));
            }
            let values = closure.splice(args, &closure.trace, std::iter::empty())?;
            Ok(closure.template.rebuild(&mut Leaves::new(&mut values.into_iter())))
        })
    }
}

/// Makes the results of a call inside of a trace what they are outside of one: tensors of their own, or the first
/// error.
///
/// # Errors
/// The error of a poisoned result.
pub(super) fn apart<R: Tree>(result: &R) -> Result<R, Error> {
    let own = flatten(result).leaves().iter().map(|t| scope::apart(t)).collect::<Result<Vec<_>, _>>()?;
    Ok(result.rebuild(&mut Leaves::new(&mut own.into_iter())))
}

/// The state that a function returns, in which the keys of the state `before` are advanced, as outside of a trace.
///
/// # Errors
/// The error of a poisoned leaf.
pub(super) fn moved_on<S: Tree>(before: &[Tensor], next: &S) -> Result<S, Error> {
    let is_key = |t: &Tensor| t.ty() == Some(ProxyTy::Key);
    let keys: Vec<&Tensor> = before.iter().filter(|t| is_key(t)).collect();
    let keys = scope::resolve_all(&keys)?;
    let mut leaves = Vec::new();
    for leaf in flatten(next).leaves() {
        let passed = is_key(leaf) && keys.contains(&scope::resolve_all(&[leaf])?[0]);
        let leaf = (*leaf).clone();
        leaves.push(if passed { Key::from_handle(leaf).after().handle().clone() } else { leaf });
    }
    Ok(next.rebuild(&mut Leaves::new(&mut leaves.into_iter())))
}
