//! Keys out of keys: what a program that needs other random numbers calls, at once and while it is traced.

use crate::api;
use crate::error::Error;
use crate::intrinsics::Intrinsic;
use crate::tensor::{Key, Tensor};
use fulgurite_core::loc::Loc;
use fulgurite_core::{Scalar, Value};

/// The keys that a program makes of a key.
const CHILDREN: i64 = 0;
/// The key that an update of a state leaves in the place of one: none of the children.
const AFTER: i64 = 1;

impl Key {
    /// `N` keys whose numbers have nothing to do with each other or with those of this key.
    #[track_caller]
    pub fn split<const N: usize>(&self) -> [Key; N] {
        self.children(Loc::caller())
    }

    /// A key for one purpose; this one moves on, so that the next call gives another.
    #[allow(clippy::should_implement_trait)] // an endless iterator of keys would invite `for`
    #[track_caller]
    pub fn next(&mut self) -> Key {
        let [rest, given] = self.children(Loc::caller());
        *self = rest;
        given
    }

    /// The key that an update of a state leaves in its place: none of those that [`Key::split`] and [`Key::next`] give.
    pub(crate) fn after(&self) -> Key {
        let [after] = self.series(AFTER, Loc::NOWHERE);
        after
    }

    fn children<const N: usize>(&self, loc: Loc) -> [Key; N] {
        self.series(CHILDREN, loc)
    }

    fn series<const N: usize>(&self, series: i64, loc: Loc) -> [Key; N] {
        let int = |i: i64| Value::Num(Scalar::Int(i));
        let options = vec![Value::Tensor(self.handle().clone()), int(N as i64), int(2), int(series)];
        let all = one(Intrinsic::KeyChildren, options, loc);
        std::array::from_fn(|at| {
            let data = one(Intrinsic::Select, vec![Value::Tensor(all.clone()), int(0), int(at as i64)], loc);
            Key::of_data(&data)
        })
    }
}

/// The first result of a row that the runtime needs, called at `loc`; a poisoned tensor after an error.
fn one(row: Intrinsic, args: Vec<Value<Tensor>>, loc: Loc) -> Tensor {
    let outs = row.symbol().and_then(|symbol| api::call(symbol, args, loc));
    let first = outs.and_then(|outs| outs.into_iter().next().ok_or_else(|| Error::bug("E709", "a row without result")));
    first.unwrap_or_else(|e| Tensor::poisoned(e.at(loc)))
}
