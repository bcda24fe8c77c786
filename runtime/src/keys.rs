//! Makes keys from keys, for programs that need several independent streams of random numbers, at once and while they
//! are traced.

use crate::api;
use crate::error::Error;
use crate::intrinsics::Intrinsic;
use crate::tensor::{Key, Tensor};
use fulgurite_core::loc::Loc;
use fulgurite_core::{Scalar, Value};

/// The series of keys that a program makes of a key.
const CHILDREN: i64 = 0;
/// The series of keys that an update of a state leaves behind; they differ from all children.
const AFTER: i64 = 1;

impl Key {
    /// Makes `N` keys whose numbers are independent of each other and of those of this key.
    #[track_caller]
    pub fn split<const N: usize>(&self) -> [Key; N] {
        self.children(Loc::caller())
    }

    /// Makes a key for one use, and advances this key, so that the next call makes another one.
    #[allow(clippy::should_implement_trait)] // an endless iterator of keys would invite `for`
    #[track_caller]
    pub fn next(&mut self) -> Key {
        let [rest, given] = self.children(Loc::caller());
        *self = rest;
        given
    }

    /// The key that an update of a state leaves in the place of this one; it differs from the keys of [`Key::split`]
    /// and [`Key::next`].
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

/// The first result of a row that the runtime needs, called at `loc`, or a poisoned tensor after an error.
fn one(row: Intrinsic, args: Vec<Value<Tensor>>, loc: Loc) -> Tensor {
    let outs = row.symbol().and_then(|symbol| api::call(symbol, args, loc));
    let first = outs.and_then(|outs| outs.into_iter().next().ok_or_else(|| Error::bug("E709", "a row without result")));
    first.unwrap_or_else(|e| Tensor::poisoned(e.at(loc)))
}
