//! Functions that generated code calls: they record or run one operator on handles, and return its results in the form
//! of the generated function.
//!
//! ```text
//! #[track_caller]
//! pub fn gelu_with(x: impl Operand, o: Gelu) -> Tensor {
//!     api::call_one(&GELU, vec![x.arg(), Value::Word(o.approximate.word())])
//! }
//! ```
//! Arguments are in the order of the signature, then options; absent ones at the end may be left out. The place of the
//! call is that of the generated function's caller (`#[track_caller]` on both).

use crate::error::{Error, ErrorKind};
use crate::intrinsics::Intrinsic;
use crate::symbol::{self, SymbolRef};
use crate::tensor::{self, Tensor};
use crate::trace::ProxyTy;
use crate::tree::{self, Tree};
use crate::{intrinsics, jit, scope};
use fulgurite_core::loc::Loc;
use fulgurite_core::{Name, Named, Scalar, TensorTy, Value};

/// Calls an operator and returns its results, with lists flattened.
///
/// # Errors
/// The first error that an argument carries, and errors of binding or running, at `loc`.
pub fn call(symbol: SymbolRef, args: Vec<Value<Tensor>>, loc: Loc) -> Result<Vec<Tensor>, Error> {
    args.iter().try_for_each(usable).map_err(|e| e.at(loc))?;
    match scope::record(symbol, &args, loc) {
        Some(recorded) => recorded,
        None => jit::eager::run(symbol, args, loc),
    }
}

/// Refuses a poisoned tensor or size.
fn usable(arg: &Value<Tensor>) -> Result<(), Error> {
    match arg {
        Value::Tensor(t) => t.check(),
        Value::Size(d) if d.is_poison() => Err(tensor::poisoned_size()),
        Value::List(items) => items.iter().try_for_each(usable),
        _ => Ok(()),
    }
}

/// Calls an operator with one result.
#[track_caller]
pub fn call_one(symbol: SymbolRef, args: Vec<Value<Tensor>>) -> Tensor {
    let [out] = call_array(symbol, args);
    out
}

macro_rules! call_tuple {
    ($name:ident, $n:literal: $($x:ident $t:ident),+) => {
        #[doc = concat!("A call with ", $n, " results, as the signature lists them.")]
        #[track_caller]
        pub fn $name(symbol: SymbolRef, args: Vec<Value<Tensor>>) -> ($($t),+) {
            let [$($x),+] = call_array(symbol, args);
            ($($x),+)
        }
    };
}
call_tuple!(call_tuple2, 2: a Tensor, b Tensor);
call_tuple!(call_tuple3, 3: a Tensor, b Tensor, c Tensor);
call_tuple!(call_tuple4, 4: a Tensor, b Tensor, c Tensor, d Tensor);

/// Calls an operator whose results the caller destructures, such as a list of `N` pieces; another number poisons all of
/// them (E744).
#[track_caller]
pub fn call_array<const N: usize>(symbol: SymbolRef, args: Vec<Value<Tensor>>) -> [Tensor; N] {
    let loc = Loc::caller();
    let results = call(symbol, args, loc).and_then(|outs| exactly(symbol, outs, loc));
    results.unwrap_or_else(|e| std::array::from_fn(|_| Tensor::poisoned(e.clone())))
}

fn exactly<const N: usize>(symbol: SymbolRef, outs: Vec<Tensor>, loc: Loc) -> Result<[Tensor; N], Error> {
    let have = outs.len();
    outs.try_into().map_err(|_| {
        Error::new("E744", format!("`{}` gives {have} tensors here, {N} were asked for", symbol.name())).at(loc)
    })
}

/// Calls an operator whose result is a list with a length that the call decides; after an error it returns one poisoned
/// tensor.
#[track_caller]
pub fn call_list(symbol: SymbolRef, args: Vec<Value<Tensor>>) -> Vec<Tensor> {
    call(symbol, args, Loc::caller()).unwrap_or_else(|e| vec![Tensor::poisoned(e)])
}

/// Writes `value` to `x`, as in-place variants of rows do: `x.add_(&y)` is `write(x, x.add(&y))`. Every view of these
/// elements sees the write. The value is broadcast to the sizes of `x` and cast to its dtype; a dtype of a higher
/// category (a float for an integer) is refused. Returns `x`, or after an error a poisoned tensor; a function that is
/// being traced fails with that error, even if the tensor is not used.
#[track_caller]
pub fn write(x: &Tensor, value: Tensor) -> Tensor {
    put(x, value, true, Loc::caller())
}

/// Like [`write()`], with a value that other handles share: `x.copy_(&y)`.
#[track_caller]
pub fn copy(x: &Tensor, value: &Tensor) -> Tensor {
    put(x, value.clone(), false, Loc::caller())
}

fn put(x: &Tensor, value: Tensor, fresh: bool, loc: Loc) -> Tensor {
    let done = x.check().and_then(|()| value.check()).and_then(|()| conform(x, &value, loc));
    let done = done.and_then(|(fits, made)| match scope::write(x, &fits, fresh || made, loc) {
        Some(done) => done,
        None => x.set_at(&fits, loc),
    });
    match done {
        Ok(()) => x.clone(),
        Err(e) => {
            scope::fail(&e);
            Tensor::poisoned(e)
        }
    }
}

/// The value in the type of the written tensor, and whether the value had another type before.
fn conform(x: &Tensor, value: &Tensor, loc: Loc) -> Result<(Tensor, bool), Error> {
    let (Some(want), Some(have)) = (x.ty(), value.ty()) else { return Ok((value.clone(), false)) };
    if want == have {
        return Ok((value.clone(), false));
    }
    let call_one = |row: Intrinsic, args: Vec<Value<Tensor>>| {
        let outs = call(row.symbol()?, args, loc)?;
        outs.into_iter().next().ok_or_else(|| Error::bug("E709", "a row without result"))
    };
    if let (to, from) = (want.subclass(), have.subclass())
        && to.map(|l| l.class) != from.map(|l| l.class)
    {
        let name = |layout: Option<&std::sync::Arc<crate::trace::SubclassLayout>>| layout.map(|l| l.class.name());
        let (to, from) = (name(to), name(from));
        let claim = format!("{have} can't be written to {want}");
        return Err(Error::new("E729", claim)
            .kind_is(ErrorKind::SubclassWrite { to, from })
            .help("convert the value first: `plain()`, or what makes a tensor of the class")
            .at(loc));
    }
    let (to, from) = (x.dtype(), value.dtype());
    let refused = || {
        let claim = format!("{have} can't be written to {want}: a tensor keeps its type for life");
        let error = Error::new("E714", claim).at(loc);
        match scope::place(x) {
            Some((phase, index, name)) => {
                let (old, new) = (want.to_string(), have.to_string());
                error.kind_is(ErrorKind::MetadataMutation { phase, index, name, old, new })
            }
            None => error,
        }
    };
    let rank = |d: fulgurite_core::DType| (d.is_float(), d != fulgurite_core::DType::Bool);
    if rank(from) > rank(to) {
        return Err(refused().help(format!("cast it to {to} first")));
    }
    let mut fits = value.clone();
    if from != to || matches!(have, crate::trace::ProxyTy::Number(_)) {
        fits = call_one(Intrinsic::Cast, vec![Value::Tensor(fits), Value::DType(to)])?;
    }
    if fits.shape() != x.shape() {
        let sizes = Value::List(x.shape().into_iter().map(Value::size).collect());
        fits = call_one(Intrinsic::Expand, vec![Value::Tensor(fits), sizes]).map_err(|_| refused())?;
    }
    Ok((fits, true))
}

/// A list as an argument.
pub fn list(items: &[Tensor]) -> Value<Tensor> {
    Value::List(items.iter().map(|t| Value::Tensor(t.clone())).collect())
}

/// An optional tensor as an argument.
pub fn optional(x: Option<&Tensor>) -> Value<Tensor> {
    x.map_or(Value::Absent, |t| Value::Tensor(t.clone()))
}

/// Calls a row that the runtime needs ([`intrinsics`]).
#[track_caller]
pub fn intrinsic(row: Intrinsic, args: Vec<Value<Tensor>>) -> Tensor {
    let loc = Loc::caller();
    let one = row.symbol().and_then(|symbol| {
        let [out] = call(symbol, args, loc).and_then(|outs| exactly(symbol, outs, loc))?;
        Ok(out)
    });
    one.unwrap_or_else(|e| Tensor::poisoned(e.at(loc)))
}

/// Calls any row by its name, with positional and named arguments, for programs that know operators only as text.
///
/// # Errors
/// E710 for an unknown name, E702 for arguments that the row does not have, and the errors of [`call`].
pub fn call_named(
    op: &str,
    positional: Vec<Value<Tensor>>,
    named: Vec<Named<Tensor>>,
    loc: Loc,
) -> Result<Vec<Tensor>, Error> {
    let candidates = symbol::candidates(Name::new(op));
    let mut first = None;
    for candidate in &candidates {
        let arranged = fulgurite_core::signature::arrange(candidate.row(), positional.clone(), named.clone());
        match arranged.map_err(|r| Error::from(r).at(loc)).and_then(|args| call(candidate, args, loc)) {
            Ok(outs) => return Ok(outs),
            Err(e) => _ = first.get_or_insert(e),
        }
    }
    Err(match first {
        Some(error) => error,
        None => intrinsics::get(op).map_or_else(|e| e.at(loc), |_| Error::bug("E710", "an unregistered symbol")),
    })
}

/// Zeros of the structure and types of a tree; keys stay unchanged. After an error the tree is poisoned.
#[track_caller]
pub fn zeros_like<T: Tree>(tree: &T) -> T {
    let loc = Loc::caller();
    tree::map(tree, |t| match t.ty() {
        Some(ProxyTy::Tensor(ty)) => zeros(&ty.ty, loc),
        Some(ProxyTy::Number(dtype)) => zeros(&TensorTy::new::<usize>(dtype, &[]), loc),
        _ => t.clone(),
    })
}

/// Zeros of a type, whose sizes may be symbolic. After an error the tensor is poisoned.
#[track_caller]
pub fn zeros_of(ty: &TensorTy) -> Tensor {
    zeros(ty, Loc::caller())
}

fn zeros(ty: &TensorTy, loc: Loc) -> Tensor {
    let shape = Value::List(ty.shape.iter().map(|d| Value::size(*d)).collect());
    let args = vec![shape, Value::Num(Scalar::Int(0)), Value::DType(ty.dtype)];
    let made = Intrinsic::Full.symbol().and_then(|full| call(full, args, loc));
    made.map_or_else(Tensor::poisoned, |mut outs| outs.swap_remove(0))
}
