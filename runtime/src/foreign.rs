//! Calls of rows by their names in other libraries: the `aten`, `torch` and `onnx` lists of databases, and alias rows.
//!
//! The arguments of a call are positional and named values of a dynamic language. The call form maps each of them to an
//! argument of the row, and the row's signature decides its meaning: an integer names an axis, a word or its number
//! selects from an `enum`, a single number repeats over axes.

use crate::api;
use crate::error::Error;
use crate::intrinsics::Intrinsic;
use crate::symbol::{self, SymbolRef};
use crate::tensor::{Key, Tensor};
use fulgurite_core::foreign::{self, Operand};
use fulgurite_core::lang::ast::Elem;
use fulgurite_core::lang::{Gives, parse_alias};
use fulgurite_core::loc::Loc;
use fulgurite_core::signature::ArgTy;
use fulgurite_core::{Dim, Name, Scalar, TensorTy, Value};
use rustc_hash::FxHashMap;
use std::sync::OnceLock;

/// A value of a dynamic language.
pub type Given = foreign::Given<Tensor>;

impl Operand for Tensor {
    fn ty(&self) -> ArgTy {
        // a tensor that carries an error has no type, and is refused when it is used
        let poisoned = || ArgTy::Tensor(TensorTy::new(self.dtype(), &self.shape()));
        Tensor::ty(self).map_or_else(poisoned, |ty| ty.arg_ty())
    }

    fn known(&self) -> Option<Scalar> {
        self.buffer().ok().filter(|b| b.shape().is_empty()).and_then(|b| b.item())
    }

    fn known_list(&self) -> Option<Vec<Scalar>> {
        self.buffer().ok().filter(|b| b.shape().len() == 1).map(|b| b.scalars())
    }

    fn reshaped(&self, shape: &[Dim]) -> Tensor {
        let sizes = shape.iter().map(|d| Value::Size(*d)).collect();
        api::intrinsic(Intrinsic::Reshape, vec![Value::Tensor(self.clone()), Value::List(sizes)])
    }
}

/// A name in another library, and the row that it calls.
#[derive(Debug)]
pub struct ForeignForm {
    /// The row.
    pub symbol: SymbolRef,
    form: foreign::Form<Tensor>,
}

impl ForeignForm {
    /// Whether the row draws random numbers from a key.
    pub fn draws(&self) -> bool {
        self.symbol.row().sig.params.iter().any(|param| param.ty.elem.contains(&Elem::Key))
    }

    /// Whether the form has a parameter of this name.
    pub fn has(&self, parameter: &str) -> bool {
        self.form.has(parameter)
    }

    /// The row's arguments by name, of a call of this form; `None` if the form does not fit the call.
    pub fn arranged(&self, positional: &[Given], named: &[(String, Given)]) -> Option<Vec<(Name, Given)>> {
        self.form.arrange(self.symbol.row(), positional, named).ok().map(|call| call.args)
    }
}

/// The results of a call.
#[derive(Debug)]
pub struct Results {
    /// The results; `None` for one that a mask leaves out.
    pub outs: Vec<Option<Tensor>>,
    /// Whether the other library returns plain numbers; here they are tensors of rank 0.
    pub plain: bool,
}

/// The name under which a call of `name` is listed, if it is.
pub fn listed(name: &str) -> Option<String> {
    foreign::spellings(name).into_iter().find(|name| table().contains_key(&Name::new(name)))
}

/// The rows that `name` may call, in the order of the database; none for an unknown name. `aten.add.Tensor` and
/// `torch.nn.functional.gelu` are such names; an ATen operator without overloads may be called `….default`. An operator
/// of ONNX has the number of its version at the end, `onnx.Softmax.13`; a name without one is listed for all versions.
pub fn forms(name: &str) -> &'static [ForeignForm] {
    let listed = foreign::spellings(name).into_iter().find_map(|name| table().get(&Name::new(&name)));
    listed.map_or(&[], Vec::as_slice)
}

/// Calls the row of this name: the first of its forms that accepts these arguments. The other library draws random
/// numbers from a hidden generator; here they come from `key`.
///
/// # Errors
/// E710 for an unknown name or a value that no row implements, E702 for arguments that the row does not have, and
/// refusals of the row.
pub fn call(
    name: &str,
    positional: &[Given],
    named: &[(String, Given)],
    key: Option<&Key>,
    loc: Loc,
) -> Result<Results, Error> {
    let key = key.map_or(Given::None, |key| Given::Tensor(key.handle().clone()));
    let mut first: Option<Error> = None;
    for form in forms(name) {
        let call = form.form.arrange(form.symbol.row(), positional, named).map_err(|e| Error::from(e).at(loc));
        if form.form.gives == Gives::Nothing {
            // such a form lists calls without a row, and decides nothing about other calls
            match call {
                Ok(_) => {
                    return Err(Error::new("E710", format!("no row stands behind such a call of `{name}`")).at(loc));
                }
                Err(_) => continue,
            }
        }
        match call.and_then(|call| Ok((run(form.symbol, &call.args, &key, loc)?, call.mask))) {
            Ok((outs, mask)) => {
                let wanted = |at: usize| mask.as_ref().is_none_or(|mask| mask.get(at).copied().unwrap_or(true));
                let outs = outs.into_iter().enumerate().map(|(at, out)| wanted(at).then_some(out)).collect();
                return Ok(Results { outs, plain: form.form.gives == Gives::Numbers });
            }
            // a form for another value of the argument decides nothing about this call
            Err(e) if first.as_ref().is_none_or(|f| f.code() == "E710") => first = Some(e),
            Err(_) => {}
        }
    }
    Err(first.unwrap_or_else(|| Error::new("E710", format!("no row is called `{name}`")).at(loc)))
}

/// Calls the row, or the overload of it, that accepts these arguments.
fn run(symbol: SymbolRef, args: &[(Name, Given)], key: &Given, loc: Loc) -> Result<Vec<Tensor>, Error> {
    let mut first = None;
    let overloads = symbol::candidates(Name::new(symbol.name()));
    for candidate in overloads {
        let made = foreign::arguments(candidate.row(), args, key);
        match made
            .map_err(|e| Error::from(e).at(loc))
            .and_then(|args: Vec<Value<Tensor>>| api::call(candidate, args, loc))
        {
            Ok(outs) => return Ok(outs),
            Err(e) => _ = first.get_or_insert(e),
        }
    }
    Err(first.unwrap_or_else(|| Error::bug("E710", "an unregistered symbol")))
}

fn table() -> &'static FxHashMap<Name, Vec<ForeignForm>> {
    static TABLE: OnceLock<FxHashMap<Name, Vec<ForeignForm>>> = OnceLock::new();
    TABLE.get_or_init(read)
}

fn read() -> FxHashMap<Name, Vec<ForeignForm>> {
    let mut table: FxHashMap<Name, Vec<ForeignForm>> = FxHashMap::default();
    for call in symbol::foreign_calls() {
        // the build has parsed and checked every form, and found its row
        let (Some(symbol), Ok(alias)) = (symbol::find(Name::new(call.op)), parse_alias(call.form)) else { continue };
        let form = foreign::Form::new(symbol.row(), call.library, &alias);
        table.entry(alias.full(call.library)).or_default().push(ForeignForm { symbol, form });
    }
    table
}
