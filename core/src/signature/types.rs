//! The arguments and results of signatures.

use super::Env;
use crate::{DType, TensorTy, Value};

/// The type of an argument.
#[derive(Clone, Debug, PartialEq)]
pub enum ArgTy {
    /// A tensor.
    Tensor(TensorTy),
    /// A number that is known only when the program runs.
    Number(DType),
    /// A random key.
    Key,
}

/// The type of a result.
#[derive(Clone, Debug, PartialEq)]
pub enum OutTy {
    /// One tensor.
    Tensor(TensorTy),
    /// A list of tensors.
    List(Vec<TensorTy>),
    /// A list whose length the body determines.
    FromBody,
}

impl OutTy {
    /// The types of its tensors; none where the body determines them.
    pub fn tensors(&self) -> &[TensorTy] {
        match self {
            OutTy::Tensor(t) => std::slice::from_ref(t),
            OutTy::List(ts) => ts,
            OutTy::FromBody => &[],
        }
    }

    /// The result as a value, in which `of` gives each tensor. It is absent where the body determines it.
    pub fn value<V>(&self, mut of: impl FnMut(&TensorTy) -> V) -> Value<V> {
        match self {
            OutTy::Tensor(t) => Value::Tensor(of(t)),
            OutTy::List(ts) => Value::List(ts.iter().map(|t| Value::Tensor(of(t))).collect()),
            OutTy::FromBody => Value::Absent,
        }
    }
}

impl Value<ArgTy> {
    /// The types of its tensors, in order.
    pub fn tensors(&self) -> impl Iterator<Item = &TensorTy> {
        self.items().iter().filter_map(|v| match v {
            Value::Tensor(ArgTy::Tensor(t)) => Some(t),
            _ => None,
        })
    }

    /// The value with the type of every tensor replaced.
    pub fn map_tensors(&self, f: &mut impl FnMut(&TensorTy) -> TensorTy) -> Value<ArgTy> {
        match self {
            Value::Type(t) => Value::Type(f(t)),
            other => other.map(&mut |ty| match ty {
                ArgTy::Tensor(t) => ArgTy::Tensor(f(t)),
                other => other.clone(),
            }),
        }
    }
}

/// A call that its signature accepts.
#[derive(Clone, Debug, PartialEq)]
pub struct Solved {
    /// The bindings of sizes, dtypes, options and presence.
    pub env: Env,
    /// The joined dtype of the T-arguments (before the promotion kind), if there are any.
    pub joined: Option<DType>,
    /// The dtype in which elements are computed (f16 and bf16 compute in f32); `T` inside the body.
    pub compute: DType,
    /// Result types.
    pub outs: Vec<OutTy>,
    /// Types of auxiliary results.
    pub aux: Vec<OutTy>,
}

impl Solved {
    /// The results, then the auxiliary ones, as values in which `of` gives each tensor.
    pub fn values<V>(&self, mut of: impl FnMut(&TensorTy) -> V) -> Vec<Value<V>> {
        self.outs.iter().chain(&self.aux).map(|out| out.value(&mut of)).collect()
    }

    /// The results, then the auxiliary ones, from a value for each of their tensors.
    pub fn grouped<V>(&self, mut tensors: impl Iterator<Item = V>) -> Vec<Value<V>> {
        let group = |out: &OutTy| match out {
            OutTy::Tensor(_) => tensors.next().map_or(Value::Absent, Value::Tensor),
            OutTy::List(ts) => Value::List(tensors.by_ref().take(ts.len()).map(Value::Tensor).collect()),
            OutTy::FromBody => Value::Absent,
        };
        self.outs.iter().chain(&self.aux).map(group).collect()
    }
}
