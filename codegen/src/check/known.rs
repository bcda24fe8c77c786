//! Calls that were solved before, and loops that were made before: a check runs the same programs on many types and
//! numbers.
//!
//! What is asked for is found by a hash of what decides it, then compared with what it was.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};

use fulgurite_core::lang::Node;
use fulgurite_core::nest::Nest;
use fulgurite_core::row::Row;
use fulgurite_core::sig::{ArgTy, Item, Refusal, Solved};
use fulgurite_core::{Name, Scalar, TensorTy, Value};
use rustc_hash::{FxHashMap, FxHasher};

/// Parts of what is known, each with a lock of its own: threads that look at rows side by side seldom meet.
const PARTS: usize = 16;

/// Hashes that a part holds at most: what is used stays near the processor, and rows that were looked at are forgotten.
const MOST: usize = 128;

/// What a call is given, by types: arguments in their order, then those that are named.
type Given = (Name, Vec<Value<ArgTy>>, Vec<(Name, Value<ArgTy>)>);

/// The row that a call means, and what its signature makes of it.
pub type Accepted = (Arc<Row>, Arc<Solved>);

/// Calls by hash: those of one hash are told apart by what they are given.
type Part = FxHashMap<u64, Vec<(Given, Accepted)>>;

/// Calls that were accepted.
#[derive(Default)]
pub struct Calls {
    parts: [Mutex<Part>; PARTS],
}

impl Calls {
    /// What is known of a call, or what `find` finds.
    ///
    /// # Errors
    /// What `find` says; it is asked again the next time.
    pub fn accepted(
        &self,
        op: Name,
        positional: &[Value<ArgTy>],
        named: &[(Name, Value<ArgTy>)],
        find: impl FnOnce() -> Result<(Arc<Row>, Solved), Refusal>,
    ) -> Result<Accepted, Refusal> {
        let mut h = FxHasher::default();
        op.hash(&mut h);
        positional.iter().for_each(|v| value(v, &mut h));
        named.iter().for_each(|(name, v)| {
            name.hash(&mut h);
            value(v, &mut h);
        });
        let hash = h.finish();
        let part = || self.parts[hash as usize % PARTS].lock().unwrap_or_else(|e| e.into_inner());
        let is = |(given, _): &&(Given, Accepted)| given.0 == op && given.1 == positional && given.2 == named;
        if let Some((_, accepted)) = part().get(&hash).and_then(|of| of.iter().find(is)) {
            return Ok(accepted.clone());
        }
        let (row, solved) = find()?;
        let accepted = (row, Arc::new(solved));
        let mut part = part();
        if part.len() >= MOST {
            part.clear();
        }
        part.entry(hash).or_default().push(((op, positional.to_vec(), named.to_vec()), accepted.clone()));
        Ok(accepted)
    }
}

/// The loops of a call.
struct Lowered {
    solved: Solved,
    /// The value of the body: held, so no other text can have its place.
    value: Arc<Node>,
    nest: Arc<Nest>,
}

/// Loops that were made.
#[derive(Default)]
pub struct Loops(FxHashMap<u64, Vec<Lowered>>);

impl Loops {
    /// Those of a body of `row`.
    pub fn of(&self, row: Name, value: &Arc<Node>, solved: &Solved) -> Option<Arc<Nest>> {
        let is = |l: &&Lowered| Arc::ptr_eq(&l.value, value) && l.solved == *solved;
        self.0.get(&hash(row, solved))?.iter().find(is).map(|found| found.nest.clone())
    }

    /// Keeps them.
    pub fn keep(&mut self, row: Name, value: Arc<Node>, solved: Solved, nest: Arc<Nest>) {
        self.0.entry(hash(row, &solved)).or_default().push(Lowered { solved, value, nest });
    }
}

/// Types and options: two calls of a row with the same have mostly the same loops.
fn hash(row: Name, solved: &Solved) -> u64 {
    let mut h = FxHasher::default();
    row.hash(&mut h);
    h.write_u8(solved.compute as u8);
    solved.env.slots.iter().flatten().for_each(|t| ty(t, &mut h));
    for (_, item) in &solved.env.items {
        match item {
            Item::Num(s) => scalar(*s, &mut h),
            Item::Int(d) => h.write_i64(d.hint()),
            Item::Ints(l) => l.iter().for_each(|d| h.write_i64(d.hint())),
            Item::Word(w) => w.hash(&mut h),
            _ => h.write_u8(0),
        }
    }
    h.finish()
}

fn value(v: &Value<ArgTy>, h: &mut FxHasher) {
    match v {
        Value::Tensor(ArgTy::Tensor(t)) | Value::Type(t) => ty(t, h),
        Value::Tensor(ArgTy::Number(d)) => h.write_u8(*d as u8),
        Value::Num(s) => scalar(*s, h),
        Value::Size(d) => h.write_i64(d.hint()),
        Value::DType(d) => h.write_u8(*d as u8),
        Value::Word(name) => name.hash(h),
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
