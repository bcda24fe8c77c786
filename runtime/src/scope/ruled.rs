//! Runs rules of tensor subclasses that are Rust functions over tensors, on a stack of their own, on handles of the
//! call's arguments.

use super::{Open, STACKS, Stack};
use crate::bind::Ruled;
use crate::error::Error;
use crate::tensor::{Tensor, set_maker};
use fulgurite_core::Value;
use std::sync::Arc;

/// A stack of its own for a time. It is removed also after a panic, and the maker of new tensors is restored.
struct Level(u64);

impl Level {
    fn open() -> Level {
        STACKS.with_borrow_mut(|stacks| stacks.push(Stack::default()));
        Level(set_maker(0))
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        STACKS.with_borrow_mut(|stacks| _ = stacks.pop());
        // the stack below is being recorded on, so it can't be borrowed
        set_maker(self.0);
    }
}

/// Runs `f` with no trace open: its calls compute at once, also inside of a function that is being compiled, where their
/// results are constants. The tensors that `f` uses must be in memory (E701 or E706 otherwise).
pub fn at_once<T>(f: impl FnOnce() -> T) -> T {
    let _level = Level::open();
    f()
}

/// Runs a rule on the arguments of a call. Returns its results, with lists flattened, or `None` if the rule does not
/// handle the operator.
///
/// # Errors
/// The rule's own error; E706 if it uses a tensor that is not an argument.
pub(crate) fn ruled(
    call: &mut Ruled,
    rule: impl FnOnce(&[Value<Tensor>]) -> Option<Result<Vec<Tensor>, Error>>,
) -> Result<Option<Vec<crate::trace::ProxyId>>, Error> {
    let _level = Level::open();
    let Some(builder) = call.builder.take() else { return Err(Error::bug("E709", "a rule was run twice")) };
    let open = Open::new(builder, Arc::default());
    let handle = |p: &crate::trace::ProxyId| open.with(|f| Tensor::traced(&f.token, *p, f.builder.arena().ty(*p)));
    let args: Vec<Value<Tensor>> = call.args.iter().map(|arg| arg.map(&mut |p| handle(p))).collect();
    let made = match rule(&args) {
        Some(Ok(made)) => Some(made.iter().map(|t| open.resolve(t)).collect::<Result<Vec<_>, _>>()?),
        Some(Err(e)) => return Err(e),
        None => None,
    };
    open.check()?;
    let frame = open.close();
    if !frame.captured.handles.is_empty() {
        let claim = format!("the rule for `{}` uses a tensor that is no argument of the call", call.symbol.name());
        return Err(
            Error::new("E706", claim).help("a rule is made of the fields of its arguments, metadata and numbers")
        );
    }
    call.builder = Some(frame.builder);
    Ok(made)
}
