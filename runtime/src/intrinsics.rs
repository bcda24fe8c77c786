//! The rows that the runtime calls by name: operators of the handle, and rows that transforms emit.
//!
//! A program links even if its databases lack one of these rows; a call of such a row is an error (E710).

use crate::error::{Error, ErrorKind};
use crate::symbol::{self, SymbolRef};
use crate::trace::ProxyId;
use fulgurite_core::{Dim, Name, Value};

/// One list: the variants of [`Intrinsic`] and the names of their rows.
macro_rules! intrinsics {
    ($($variant:ident $name:literal,)*) => {
        /// A row that the runtime calls by name.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(missing_docs)]
        pub enum Intrinsic {
            $($variant,)*
        }

        impl Intrinsic {
            /// Every intrinsic.
            pub const ALL: &[Intrinsic] = &[$(Intrinsic::$variant,)*];

            /// The name of the row.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Intrinsic::$variant => $name,)*
                }
            }
        }
    };
}

intrinsics! {
    Add "add",
    Sub "sub",
    Mul "mul",
    Div "div",
    Neg "neg",
    Remainder "remainder",
    Eq "eq",
    Ne "ne",
    Lt "lt",
    Le "le",
    Gt "gt",
    Ge "ge",
    LogicalAnd "logical_and",
    LogicalOr "logical_or",
    LogicalNot "logical_not",
    Where "where",
    Cast "cast",
    Full "full",
    Sum "sum",
    Reshape "reshape",
    Expand "expand",
    Permute "permute",
    Copy "copy",
    Detach "detach",
    Cat "cat",
    Stack "stack",
    Pad "pad",
    Arange "arange",
    Scatter "scatter",
    Overwrite "overwrite",
    Eye "eye",
    Slice "slice",
    KeyChildren "key_children",
    Select "select",
    AllGather "all_gather",
    AllReduce "all_reduce",
    AllToAll "all_to_all",
    ReduceScatter "reduce_scatter",
    Pieces "pieces",
    Redistribute "redistribute",
}

impl Intrinsic {
    /// The intrinsic that a row is.
    pub fn of(symbol: SymbolRef) -> Option<Intrinsic> {
        Intrinsic::ALL.iter().copied().find(|i| i.name() == symbol.name())
    }

    /// The symbol of the row.
    ///
    /// # Errors
    /// E710 if no linked database has it.
    pub fn symbol(self) -> Result<SymbolRef, Error> {
        get(self.name())
    }
}

/// The row with this name.
///
/// # Errors
/// E710 if no linked database has it.
pub fn get(name: &str) -> Result<SymbolRef, Error> {
    symbol::find(Name::new(name)).ok_or_else(|| lacking(name))
}

fn lacking(name: &str) -> Error {
    let claim = format!("the runtime needs a row `{name}`, which no linked database has");
    Error::new("E710", claim).kind_is(ErrorKind::UnknownSymbol { op: Name::new(name) })
}

/// The intrinsics that no linked database has.
pub fn missing() -> Vec<&'static str> {
    let names = Intrinsic::ALL.iter().map(|i| i.name());
    names.filter(|n| symbol::find(Name::new(n)).is_none()).collect()
}

/// Sizes as the value of an argument.
pub fn sizes(shape: &[Dim]) -> Value<ProxyId> {
    Value::List(shape.iter().map(|&d| Value::size(d)).collect())
}
