//! Keys out of keys: what a program that needs other random numbers calls, at once and while it is traced.

use crate::api;
use crate::tensor::Key;
use fulgurite_core::{Scalar, Value};

impl Key {
    /// `N` keys whose numbers have nothing to do with each other or with those of this key.
    #[track_caller]
    pub fn split<const N: usize>(&self) -> [Key; N] {
        let int = |i: usize| Value::Num(Scalar::Int(i as i64));
        let all = api::intrinsic("key_children", vec![Value::Tensor(self.handle().clone()), int(N)]);
        let mut made = 0..N;
        [(); N].map(|()| {
            let at = made.next().unwrap_or_default();
            Key::of_data(&api::intrinsic("select", vec![Value::Tensor(all.clone()), int(0), int(at)]))
        })
    }

    /// A key for one purpose; this one moves on, so that the next call gives another.
    #[allow(clippy::should_implement_trait)] // an endless iterator of keys would invite `for`
    #[track_caller]
    pub fn next(&mut self) -> Key {
        let [rest, given] = self.split();
        *self = rest;
        given
    }
}
