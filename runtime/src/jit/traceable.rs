//! The functions that can be compiled, and their results.

use crate::error::Error;
use crate::tree::Tree;

/// A function from trees to a tree: `Fn(A) -> R`, or `Fn(A, B, …) -> R` called with the tuple of its arguments.
///
/// `Marker` distinguishes the two forms: without it, a function of one pair and a function of two arguments would
/// overlap.
#[diagnostic::on_unimplemented(
    message = "`jit` can't compile this function",
    label = "it takes functions of owned trees that return a tree, or a `Result` of one",
    note = "arguments are taken by value: write `|m: Model, x: Tensor|`, not `|m: &Model, x: &Tensor|`",
    note = "each is a `Tensor`, a `Key`, a tuple or list of them, a type with `#[derive(Tree)]`, or `Fixed(…)` around anything else",
    note = "what it returns is such a tree too, without borrowed parts, or a `Result` of one",
    note = "it is called again for arguments of other types, so it must not change or consume what it captures"
)]
pub trait Traceable<Marker, Args> {
    /// The result of the function.
    type Out: Outcome;
    /// Calls the function.
    fn run(&self, args: Args) -> Self::Out;
}

/// Marks functions of one argument.
pub struct One;
/// Marks functions of another number of arguments.
pub struct Many;

impl<F: Fn(A) -> R, A: Tree, R: Outcome> Traceable<One, A> for F {
    type Out = R;
    fn run(&self, args: A) -> R {
        self(args)
    }
}

macro_rules! many {
    ($(($($t:ident $x:ident),*))*) => {$(
        impl<Func: Fn($($t),*) -> R, $($t: Tree,)* R: Outcome> Traceable<Many, ($($t,)*)> for Func {
            type Out = R;
            fn run(&self, ($($x,)*): ($($t,)*)) -> R {
                self($($x),*)
            }
        }
    )*};
}
many! {
    ()
    (A a, B b)
    (A a, B b, C c)
    (A a, B b, C c, D d)
    (A a, B b, C c, D d, E e)
    (A a, B b, C c, D d, E e, F f)
    (A a, B b, C c, D d, E e, F f, G g)
    (A a, B b, C c, D d, E e, F f, G g, H h)
}

/// Trees with which a function of type `F` can be called. This is `Traceable` seen from the arguments, because rustc
/// explains an unmet bound on an argument ("closure is expected to take 1 argument"), but not one on `F`.
pub trait Arguments<F, Marker>: Tree {
    /// The tree that the function returns.
    type Returned: Tree + Send + Sync + 'static;
    /// Calls the function.
    ///
    /// # Errors
    /// The function's own error.
    fn run(self, f: &F) -> Result<Self::Returned, Error>;
}

impl<F, M, A: Tree, R: Tree + Send + Sync + 'static> Arguments<F, M> for A
where
    F: Traceable<M, A>,
    F::Out: Outcome<Tree = R>,
{
    type Returned = R;
    fn run(self, f: &F) -> Result<R, Error> {
        f.run(self).outcome()
    }
}

/// The arguments of a function `Fn(S, Self) -> (S, Returned)` beside the state `S`; like [`Arguments`], for `update`.
pub trait UpdateArguments<F, S>: Tree {
    /// The value that the function returns beside the next state.
    type Returned: Tree + Send + Sync + 'static;
    /// Calls the function.
    ///
    /// # Errors
    /// The function's own error.
    fn run(self, f: &F, state: S) -> Result<(S, Self::Returned), Error>;
}

impl<F, S: Tree, B: Tree, R: Tree + Send + Sync + 'static> UpdateArguments<F, S> for B
where
    F: Traceable<Many, (S, B)>,
    F::Out: Outcome<Tree = (S, R)>,
{
    type Returned = R;
    fn run(self, f: &F, state: S) -> Result<(S, R), Error> {
        f.run((state, self)).outcome()
    }
}

/// The result of a compiled function: a tree, or a `Result` of one with any error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not made of tensors, nor a `Result` of something that is",
    note = "a type of your own needs `#[derive(Tree)]`"
)]
pub trait Outcome {
    /// The tree.
    type Tree: Tree;
    /// Converts the result to a `Result` with this crate's error.
    ///
    /// # Errors
    /// The function's own error.
    fn outcome(self) -> Result<Self::Tree, Error>;
}

impl<T: Tree> Outcome for T {
    type Tree = T;
    fn outcome(self) -> Result<T, Error> {
        Ok(self)
    }
}

impl<T: Tree, E: Into<Box<dyn std::error::Error + Send + Sync>>> Outcome for Result<T, E> {
    type Tree = T;
    fn outcome(self) -> Result<T, Error> {
        self.map_err(|e| ours(e.into()))
    }
}

/// Returns an [`Error`] unchanged, and another error by its text.
pub(super) fn ours(error: Box<dyn std::error::Error + Send + Sync>) -> Error {
    match error.downcast::<Error>() {
        Ok(ours) => *ours,
        Err(other) => {
            let mut found = Error::new("E746", format!("the traced function failed: {other}"));
            let mut source = other.source();
            while let Some(inner) = source {
                found = found.note(format!("because: {inner}"));
                source = inner.source();
            }
            found
        }
    }
}
