//! Symbols with one more axis, made when a trace first needs them.

use super::{Symbol, SymbolRef, find, register};
use crate::error::{Error, ErrorKind};
use fulgurite_core::Name;
use fulgurite_core::batch::{self, Batched, NotBatchable};
use rustc_hash::FxHashMap;
use std::sync::{LazyLock, Mutex};

/// A symbol that applies another one to every slice.
#[derive(Clone, Debug)]
pub struct BatchedSymbol {
    /// The symbol.
    pub symbol: SymbolRef,
    /// The symbol that is applied to every slice.
    pub of: SymbolRef,
    /// For each argument, whether it is batched.
    pub flags: Box<[bool]>,
    /// Whether the last option is the number of slices.
    pub sized: bool,
}

/// The batches, by the address of their symbol, and by the symbol from which they were made.
#[derive(Default)]
struct Known {
    made: FxHashMap<usize, BatchedSymbol>,
    of: FxHashMap<(usize, Box<[bool]>), SymbolRef>,
}

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

fn address(symbol: SymbolRef) -> usize {
    std::ptr::from_ref(symbol) as usize
}

/// The symbol that applies `of` to every slice of the arguments with a flag.
///
/// # Errors
/// E726 if the row has no batched form.
pub fn batched(of: SymbolRef, flags: &[bool]) -> Result<BatchedSymbol, Error> {
    let mut known = KNOWN.lock().unwrap_or_else(|e| e.into_inner());
    let key = (address(of), Box::from(flags));
    if let Some(batch) = known.of.get(&key).and_then(|symbol| known.made.get(&address(symbol))) {
        return Ok(batch.clone());
    }
    let Batched { row, sized, .. } = batch::batched(of.row(), flags).map_err(|why| refused(of, &why))?;
    let symbol = find(row.op).unwrap_or_else(|| register(Symbol::leak_row(of, row)));
    let batch = BatchedSymbol { symbol, of, flags: key.1.clone(), sized };
    known.of.insert(key, symbol);
    known.made.insert(address(symbol), batch.clone());
    Ok(batch)
}

/// The symbol of the batched form with this name; `None` if the name is not that of a batched form. The form is made if
/// it does not exist yet, because a printed trace may name it in a process that has not made it.
pub(crate) fn batch_named(name: Name) -> Option<SymbolRef> {
    let (of, args) = name.as_str().rsplit_once(".vmap.")?;
    let of = Name::new(of);
    let of = find(of).or_else(|| batch_named(of))?;
    let params = of.row().sig.params.iter();
    let flags: Vec<bool> = params.map(|p| args.split('.').any(|arg| p.name.name == *arg)).collect();
    let batch = batched(of, &flags).ok()?;
    (batch.symbol.name() == name.as_str()).then_some(batch.symbol)
}

/// The symbol that is applied to every slice, if [`batched`] made this one.
pub fn batch_of(symbol: SymbolRef) -> Option<BatchedSymbol> {
    KNOWN.lock().unwrap_or_else(|e| e.into_inner()).made.get(&address(symbol)).cloned()
}

/// The error for a row without a batched form.
pub(crate) fn refused(of: SymbolRef, why: &NotBatchable) -> Error {
    let op = Name::new(of.name());
    Error::new("E726", format!("`{op}` can't be batched: {}", why.reason))
        .kind_is(ErrorKind::Refused { op, arg: Some(why.of) })
        .help("call it outside of `vmap`, or on slices one by one")
}
