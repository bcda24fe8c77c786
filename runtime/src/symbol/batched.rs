//! Symbols with one more axis, made when a trace first needs them.

use super::{Symbol, SymbolRef, find, register};
use crate::error::{Error, ErrorKind};
use fulgurite_core::Name;
use fulgurite_core::batch::{self, Batched, NotBatchable};
use rustc_hash::FxHashMap;
use std::sync::{LazyLock, Mutex};

/// A symbol that does to every slice what another one does.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The symbol.
    pub symbol: SymbolRef,
    /// What it does to every slice.
    pub of: SymbolRef,
    /// Which arguments have a slice each.
    pub flags: Box<[bool]>,
    /// Whether its last option says how many slices there are.
    pub sized: bool,
}

/// Batches, by the address of their symbol, and of what it was made from.
#[derive(Default)]
struct Known {
    made: FxHashMap<usize, Batch>,
    of: FxHashMap<(usize, Box<[bool]>), SymbolRef>,
}

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

fn address(symbol: SymbolRef) -> usize {
    std::ptr::from_ref(symbol) as usize
}

/// The symbol that does to every slice of the arguments with a flag what `of` does.
///
/// # Errors
/// E726 where the row has no such form.
pub fn batched(of: SymbolRef, flags: &[bool]) -> Result<Batch, Error> {
    let mut known = KNOWN.lock().unwrap_or_else(|e| e.into_inner());
    let key = (address(of), Box::from(flags));
    if let Some(batch) = known.of.get(&key).and_then(|symbol| known.made.get(&address(symbol))) {
        return Ok(batch.clone());
    }
    let Batched { row, sized, .. } = batch::batched(of.row(), flags).map_err(|why| refused(of, &why))?;
    let symbol = find(row.op).unwrap_or_else(|| register(Symbol::leak_row(of, row)));
    let batch = Batch { symbol, of, flags: key.1.clone(), sized };
    known.of.insert(key, symbol);
    known.made.insert(address(symbol), batch.clone());
    Ok(batch)
}

/// The symbol of this name, if it is that of a batched form: a trace that was printed names what its reader has not made.
pub(crate) fn batch_named(name: Name) -> Option<SymbolRef> {
    let (of, args) = name.as_str().rsplit_once(".vmap.")?;
    let of = Name::new(of);
    let of = find(of).or_else(|| batch_named(of))?;
    let params = of.row().sig.params.iter();
    let flags: Vec<bool> = params.map(|p| args.split('.').any(|arg| p.name.name == *arg)).collect();
    let batch = batched(of, &flags).ok()?;
    (batch.symbol.name() == name.as_str()).then_some(batch.symbol)
}

/// What a symbol does to every slice, if it is one of those that [`batched`] made.
pub fn batch_of(symbol: SymbolRef) -> Option<Batch> {
    KNOWN.lock().unwrap_or_else(|e| e.into_inner()).made.get(&address(symbol)).cloned()
}

/// The error for a row without a batched form.
pub(crate) fn refused(of: SymbolRef, why: &NotBatchable) -> Error {
    let op = Name::new(of.name());
    Error::new("E726", format!("`{op}` can't be batched: {}", why.reason))
        .kind_is(ErrorKind::Refused { op, arg: Some(why.of) })
        .help("call it outside of `vmap`, or on slices one by one")
}
