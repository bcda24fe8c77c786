//! A builder as the machine that runs rules of the tensor language: calling a row binds it.

use super::Builder;
use crate::error::Error;
use crate::trace::ProxyId;
use fulgurite_core::eval::tensor::{Called, Machine};
use fulgurite_core::signature::ArgTy;
use fulgurite_core::{Name, Named, Value};

impl Machine for Builder {
    type V = ProxyId;
    type Error = Error;

    /// Auxiliary results are not returned; the gradient transform requests those that a gradient reads.
    fn call(&mut self, op: Name, positional: Vec<Value<Self::V>>, named: Vec<Named<Self::V>>) -> Called<Self> {
        Ok(self.call_row(op, positional, named)?.results())
    }

    fn ty(&self, v: &ProxyId) -> ArgTy {
        self.arena().arg_ty(*v)
    }

    fn write(&mut self, name: Name, value: Value<ProxyId>) -> Result<(), Error> {
        self.writes.retain(|(n, _)| *n != name);
        self.writes.push((name, value));
        Ok(())
    }
}
