//! Calls that were solved and lowered before: a check runs the same programs on many numbers.
//!
//! What is asked for is found by a hash of what decides it, then compared with what it was.

use std::hash::Hasher;
use std::sync::Arc;

use fulgurite_core::lang::Node;
use fulgurite_core::nest::Nest;
use fulgurite_core::row::Row;
use fulgurite_core::sig::{ArgTy, Item, Solved};
use fulgurite_core::{Name, Scalar, TensorTy, Value};
use rustc_hash::{FxHashMap, FxHasher};

type Values = Vec<Value<ArgTy>>;
type Named = Vec<(Name, Value<ArgTy>)>;

/// What a call is given, by types.
#[derive(PartialEq)]
pub struct Given {
    /// What it calls.
    pub op: Name,
    /// Arguments in their order.
    pub positional: Values,
    /// Those that are named.
    pub named: Named,
}

/// The row that a call means, and what its signature makes of it.
pub type Accepted = (Arc<Row>, Arc<Solved>);

/// The loops of a call.
struct Lowered {
    solved: Solved,
    /// The value of the body: held, so no other text can have its place.
    value: Arc<Node>,
    nest: Arc<Nest>,
}

/// What is known of calls, by hash.
#[derive(Default)]
pub struct Known {
    accepted: FxHashMap<u64, Vec<(Given, Accepted)>>,
    lowered: FxHashMap<u64, Vec<Lowered>>,
}

impl Known {
    /// What was made of this call.
    pub fn accepted(&self, given: &Given) -> Option<Accepted> {
        let of = self.accepted.get(&given.hash())?;
        of.iter().find(|(known, _)| known == given).map(|(_, accepted)| accepted.clone())
    }

    /// Says what was made of a call.
    pub fn accept(&mut self, given: Given, accepted: Accepted) {
        self.accepted.entry(given.hash()).or_default().push((given, accepted));
    }

    /// The loops of a body of `row`.
    pub fn lowered(&self, row: Name, value: &Arc<Node>, solved: &Solved) -> Option<Arc<Nest>> {
        let of = self.lowered.get(&hash(row, solved))?;
        let is = |l: &&Lowered| Arc::ptr_eq(&l.value, value) && l.solved == *solved;
        of.iter().find(is).map(|found| found.nest.clone())
    }

    /// Says what they are.
    pub fn lower(&mut self, row: Name, value: Arc<Node>, solved: Solved, nest: Arc<Nest>) {
        self.lowered.entry(hash(row, &solved)).or_default().push(Lowered { solved, value, nest });
    }
}

impl Given {
    fn hash(&self) -> u64 {
        let mut h = FxHasher::default();
        word(self.op, &mut h);
        self.positional.iter().for_each(|v| value(v, &mut h));
        for (name, v) in &self.named {
            word(*name, &mut h);
            value(v, &mut h);
        }
        h.finish()
    }
}

/// Types and options: two calls of a row with the same have mostly the same loops.
fn hash(row: Name, solved: &Solved) -> u64 {
    let mut h = FxHasher::default();
    word(row, &mut h);
    h.write_u8(solved.compute as u8);
    solved.env.slots.iter().flatten().for_each(|t| ty(t, &mut h));
    for (_, item) in &solved.env.items {
        match item {
            Item::Num(s) => scalar(*s, &mut h),
            Item::Int(d) => h.write_i64(d.hint()),
            Item::Ints(l) => l.iter().for_each(|d| h.write_i64(d.hint())),
            Item::Word(w) => word(*w, &mut h),
            _ => h.write_u8(0),
        }
    }
    h.finish()
}

fn word(name: Name, h: &mut FxHasher) {
    std::hash::Hash::hash(&name, h);
}

fn value(v: &Value<ArgTy>, h: &mut FxHasher) {
    match v {
        Value::Tensor(ArgTy::Tensor(t)) | Value::Type(t) => ty(t, h),
        Value::Tensor(ArgTy::Number(d)) => h.write_u8(*d as u8),
        Value::Num(s) => scalar(*s, h),
        Value::Size(d) => h.write_i64(d.hint()),
        Value::DType(d) => h.write_u8(*d as u8),
        Value::Word(name) => word(*name, h),
        Value::Str(text) => h.write(text.as_bytes()),
        Value::List(items) => items.iter().for_each(|v| value(v, h)),
        Value::Tensor(ArgTy::Key) | Value::Absent => h.write_u8(0),
    }
}

fn ty(t: &TensorTy, h: &mut FxHasher) {
    h.write_u8(t.dtype as u8);
    t.shape.iter().for_each(|d| h.write_i64(d.hint()));
}

/// Both zeros are equal and are not the same.
fn scalar(s: Scalar, h: &mut FxHasher) {
    match s {
        Scalar::Bool(b) => h.write_u8(u8::from(b)),
        Scalar::Int(i) => h.write_i64(i),
        Scalar::Float(x) => h.write_u64(x.to_bits()),
    }
}
