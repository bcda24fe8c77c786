//! The call cache. Checks repeat calls, in other rows and on other data. Types and options alone decide which row a
//! call means and what its signature binds.

use std::cell::Cell;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use fulgurite_core::loop_nest::Nest;
use fulgurite_core::lower::{self, Rows};
use fulgurite_core::row::Row;
use fulgurite_core::runtime_checks::{self, Condition};
use fulgurite_core::signature::{self, ArgTy, Refusal, Solved};
use fulgurite_core::{Name, Named, Scalar, TensorTy, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::branches::Id;
use super::parts::Part;

/// At most this many calls are kept per name, because runs of rows on random data make ever new ones. A full table is
/// emptied.
const MOST_KEPT: usize = 1 << 12;

/// A call that its row accepts.
pub struct Resolved {
    /// The row, overload chosen.
    pub row: Arc<Row>,
    /// Bindings of the signature.
    pub solved: Solved,
    /// The loops of the call.
    nest: OnceLock<Arc<Nest>>,
    /// The conditions that its signature leaves open.
    conditions: OnceLock<Vec<Open>>,
    /// The branches of its loops.
    branches: OnceLock<Vec<Id>>,
    /// Effect of its loops on the floats of each result.
    parts: OnceLock<Option<Vec<Part>>>,
}

/// A condition on elements.
pub struct Open {
    /// The condition, as a row.
    pub condition: Condition,
    /// The loops of the condition, where they depend on no other row.
    nest: OnceLock<Arc<Nest>>,
}

impl Open {
    /// The conditions of a call that its signature leaves open. None where they can't be derived.
    pub fn of(row: &Row, solved: &Solved) -> Vec<Open> {
        let open = runtime_checks::open(row, solved).unwrap_or_default().into_iter();
        open.map(|condition| Open { condition, nest: OnceLock::new() }).collect()
    }

    /// The loops of the condition.
    ///
    /// # Errors
    /// The errors are those of [`lower::lower_with`].
    pub fn nest(&self, rows: &dyn Rows) -> Result<Arc<Nest>, Refusal> {
        if let Some(nest) = self.nest.get() {
            return Ok(nest.clone());
        }
        let (asked, of) = (Asked::new(rows), &self.condition);
        let nest = Arc::new(lower::lower_with(&of.row, &of.body, &of.solved, &asked)?);
        if !asked.any() {
            // another thread may have stored equal loops
            _ = self.nest.set(nest.clone());
        }
        Ok(nest)
    }
}

/// Outcome of resolving a call.
#[derive(Clone)]
pub enum Outcome {
    /// A row accepts it.
    Accepted(Arc<Resolved>),
    /// Every row of this name refuses it.
    Refused(Arc<Refused>),
    /// There is no row of this name.
    Unknown,
}

impl Outcome {
    /// The call, with its arguments in the order of the row's signature.
    ///
    /// # Errors
    /// The refusal of the first candidate; E007 if there is no row `op`.
    pub fn call<T: Clone>(
        self,
        op: Name,
        positional: Vec<Value<T>>,
        named: Vec<Named<T>>,
    ) -> Result<Accepted<T>, Refusal> {
        match self {
            Outcome::Accepted(of) => Ok(Accepted { args: signature::arrange(&of.row, positional, named)?, of }),
            Outcome::Refused(refused) => Err(refused.refusal.clone()),
            Outcome::Unknown => Err(unknown(op)),
        }
    }
}

/// The refusal of a call of a row that does not exist.
pub fn unknown(op: Name) -> Refusal {
    Refusal::new("E007", format!("there is no row `{op}`"))
}

/// A call that its row accepts, with its arguments.
pub struct Accepted<T> {
    /// The row, overload chosen, and the bindings of its signature.
    pub of: Arc<Resolved>,
    /// One value per argument and option.
    pub args: Vec<Value<T>>,
}

/// Refusal by the first row that a call may mean.
pub struct Refused {
    pub row: Arc<Row>,
    /// The types in the order of its signature, where they could be arranged in it.
    pub args: Option<Vec<Value<ArgTy>>>,
    /// The reason.
    pub refusal: Refusal,
}

/// Outcomes of calls of one name.
#[derive(Default)]
pub struct Calls {
    outcomes: Known<Outcome>,
    yielded: Known<Arc<Yielded>>,
}

/// Row and results of an accepted call. Most callers need no more, and there are many such calls.
pub struct Yielded {
    /// The row, overload chosen.
    pub op: Name,
    pub results: SmallVec<[Value<ArgTy>; 1]>,
}

/// A map from calls to facts about them.
struct Known<T>(RwLock<FxHashMap<Key, T>>);

/// Types and options of a call, encoded as words. Keys are equal exactly where types and options are.
#[derive(PartialEq, Eq, Hash)]
pub struct Key(Words);

impl Calls {
    /// The outcome of a call. `candidates` are the rows that it may mean.
    pub fn outcome<T>(
        &self,
        candidates: impl FnOnce() -> Vec<Arc<Row>>,
        positional: &[Value<T>],
        named: &[Named<T>],
        ty: &dyn Fn(&T) -> ArgTy,
    ) -> Outcome {
        let Some(key) = Key::of(positional, named, ty) else { return outcome(candidates(), positional, named, ty) };
        if let Some(known) = self.outcomes.get(&key) {
            return known;
        }
        let found = outcome(candidates(), positional, named, ty);
        self.outcomes.insert(key, found.clone());
        found
    }

    /// The results of a call, if they were kept.
    pub fn yielded(&self, key: &Key) -> Option<Arc<Yielded>> {
        self.yielded.get(key)
    }

    /// Keeps the results of a call.
    pub fn keep(&self, key: Key, yielded: Yielded) {
        self.yielded.insert(key, Arc::new(yielded));
    }

    /// Forgets all calls.
    pub fn clear(&mut self) {
        *self = Calls::default();
    }
}

impl<T> Default for Known<T> {
    fn default() -> Known<T> {
        Known(RwLock::default())
    }
}

impl<T: Clone> Known<T> {
    fn get(&self, key: &Key) -> Option<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn insert(&self, key: Key, value: T) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_KEPT {
            known.clear();
        }
        known.insert(key, value);
    }
}

/// The outcome of a call, resolved without the cache.
pub fn outcome<T>(
    candidates: Vec<Arc<Row>>,
    positional: &[Value<T>],
    named: &[Named<T>],
    ty: &dyn Fn(&T) -> ArgTy,
) -> Outcome {
    let mut first = None;
    for row in candidates {
        let positional = positional.iter().map(|value| value.map(&mut |v| ty(v))).collect();
        let named = named.iter().map(|(name, value)| (*name, value.map(&mut |v| ty(v)))).collect();
        let (args, refusal) = match signature::arrange(&row, positional, named) {
            Ok(args) => match signature::solve_types(&row, &args) {
                Ok(solved) => return Outcome::Accepted(Arc::new(Resolved::new(row, solved))),
                Err(refusal) => (Some(args), refusal),
            },
            Err(refusal) => (None, refusal),
        };
        first.get_or_insert(Refused { row, args, refusal });
    }
    first.map_or(Outcome::Unknown, |refused| Outcome::Refused(Arc::new(refused)))
}

impl Resolved {
    /// An accepted call with these bindings.
    pub fn new(row: Arc<Row>, solved: Solved) -> Resolved {
        let (nest, conditions, branches, parts) = Default::default();
        Resolved { row, solved, nest, conditions, branches, parts }
    }

    /// The loops of its meaning, if they were kept.
    pub fn nest(&self) -> Option<&Arc<Nest>> {
        self.nest.get()
    }

    /// Keeps the loops of its meaning if they are small, as those of operators are. Returns whether it kept them.
    pub fn keep(&self, nest: &Arc<Nest>) -> bool {
        /// At most this many expression nodes in a small nest.
        const SMALL: u32 = 16;
        let small = nest.outs.iter().map(|out| out.expr.weight()).sum::<u32>() <= SMALL;
        small && self.nest.set(nest.clone()).is_ok()
    }

    /// The branches that the loops of its meaning contain, which `find` computes the first time.
    pub fn branches(&self, find: impl FnOnce() -> Vec<Id>) -> &[Id] {
        self.branches.get_or_init(find)
    }

    /// The effect of its loops on the floats of each result, which `find` computes the first time.
    pub fn parts(&self, find: impl FnOnce() -> Option<Vec<Part>>) -> Option<&[Part]> {
        self.parts.get_or_init(find).as_deref()
    }

    /// The conditions that its signature leaves open. None where they can't be derived.
    pub fn conditions(&self) -> &[Open] {
        self.conditions.get_or_init(|| Open::of(&self.row, &self.solved))
    }
}

/// Rows, with a record of whether any of them was looked up.
pub struct Asked<'a> {
    rows: &'a dyn Rows,
    any: Cell<bool>,
}

impl<'a> Asked<'a> {
    /// Wraps these rows; none was looked up yet.
    pub fn new(rows: &'a dyn Rows) -> Asked<'a> {
        Asked { rows, any: Cell::new(false) }
    }

    /// Whether a row was looked up.
    pub fn any(&self) -> bool {
        self.any.get()
    }
}

impl Rows for Asked<'_> {
    fn row(&self, name: Name) -> Option<Arc<Row>> {
        self.any.set(true);
        self.rows.row(name)
    }

    fn names(&self) -> Vec<Name> {
        self.any.set(true);
        self.rows.names()
    }
}

/// Kind of the value that a word of a key starts.
#[derive(Clone, Copy)]
enum Tag {
    Tensor,
    Number,
    Random,
    Type,
    Bool,
    Small,
    Int,
    Float,
    DType,
    Word,
    Text,
    List,
    Absent,
    Named,
}

/// The words of a key.
type Words = SmallVec<[u64; 4]>;

impl Key {
    /// `None` for a call with symbolic sizes, because questions about such sizes are recorded at every call.
    pub fn of<T>(positional: &[Value<T>], named: &[Named<T>], ty: &dyn Fn(&T) -> ArgTy) -> Option<Key> {
        let mut key = Words::new();
        positional.iter().try_for_each(|value| put(&mut key, value, ty))?;
        for (name, value) in named {
            key.push(word(Tag::Named, u64::from(name.id())));
            put(&mut key, value, ty)?;
        }
        Some(Key(key))
    }
}

fn word(tag: Tag, rest: u64) -> u64 {
    tag as u64 | rest << 8
}

fn put<T>(key: &mut Words, value: &Value<T>, ty: &dyn Fn(&T) -> ArgTy) -> Option<()> {
    match value {
        Value::Tensor(v) => match ty(v) {
            ArgTy::Tensor(t) => put_type(key, Tag::Tensor, &t)?,
            ArgTy::Number(d) => key.push(word(Tag::Number, d as u64)),
            ArgTy::Key => key.push(word(Tag::Random, 0)),
        },
        Value::Type(t) => put_type(key, Tag::Type, t)?,
        Value::Num(Scalar::Bool(b)) => key.push(word(Tag::Bool, u64::from(*b))),
        Value::Num(Scalar::Int(i)) => match u32::try_from(*i) {
            Ok(small) => key.push(word(Tag::Small, u64::from(small))),
            Err(_) => key.extend([word(Tag::Int, 0), *i as u64]),
        },
        Value::Num(Scalar::Float(x)) => key.extend([word(Tag::Float, 0), x.to_bits()]),
        Value::Size(_) => return None,
        Value::DType(d) => key.push(word(Tag::DType, *d as u64)),
        Value::Word(name) => key.push(word(Tag::Word, u64::from(name.id()))),
        Value::Str(text) => {
            key.push(word(Tag::Text, text.len() as u64));
            key.extend(text.bytes().map(u64::from));
        }
        Value::List(items) => {
            key.push(word(Tag::List, items.len() as u64));
            items.iter().try_for_each(|item| put(key, item, ty))?;
        }
        Value::Absent => key.push(word(Tag::Absent, 0)),
    }
    Some(())
}

/// Writes dtype and rank, then 16 bits per size, as many sizes as fit in each word. A size of more than 15 bits is
/// marked by its top bit and also written as a word of its own.
fn put_type(key: &mut Words, tag: Tag, t: &TensorTy) -> Option<()> {
    const SIZE: u32 = 16;
    const LOW: u64 = (1 << (SIZE - 1)) - 1;
    let (mut open, mut bits) = (word(tag, t.dtype as u64 | (t.rank() as u64) << 8), 32);
    for size in &t.shape {
        let n = size.is_const().then(|| size.value() as u64)?;
        if bits == u64::BITS {
            key.push(std::mem::take(&mut open));
            bits = 0;
        }
        open |= (n & LOW | u64::from(n > LOW) << (SIZE - 1)) << bits;
        bits += SIZE;
        if n > LOW {
            key.push(std::mem::replace(&mut open, n));
            bits = u64::BITS;
        }
    }
    key.push(open);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulgurite_core::{DType, Dim};

    type ByName = Vec<Named<ArgTy>>;

    fn key(positional: &[Value<ArgTy>], named: &[Named<ArgTy>]) -> Option<Key> {
        Key::of(positional, named, &ArgTy::clone)
    }

    #[test]
    fn calls_that_differ_have_different_keys() {
        let tensor = |dtype, shape: &[i64]| Value::Tensor(ArgTy::Tensor(TensorTy::new(dtype, shape)));
        let int = |i| Value::Num(Scalar::Int(i));
        let dim = Name::new("dim");
        let calls: Vec<(Vec<Value<ArgTy>>, ByName)> = vec![
            (vec![], vec![]),
            (vec![tensor(DType::F32, &[2, 3])], vec![]),
            (vec![tensor(DType::F32, &[3, 2])], vec![]),
            (vec![tensor(DType::F64, &[2, 3])], vec![]),
            (vec![tensor(DType::F32, &[2, 3, 0])], vec![]),
            (vec![tensor(DType::F32, &[2, 1 << 15])], vec![]),
            (vec![tensor(DType::F32, &[2, 1 << 16])], vec![]),
            (vec![tensor(DType::F32, &[2, 1 << 16, 3])], vec![]),
            (vec![tensor(DType::F32, &[1 << 16, 2, 3])], vec![]),
            (vec![tensor(DType::F32, &[2, 3, 4, 5, 6, 7])], vec![]),
            (vec![tensor(DType::F32, &[2, 3, 4, 5, 6, 8])], vec![]),
            (vec![tensor(DType::F32, &[2, 3, 4, 5, 6, 7, 1])], vec![]),
            (vec![tensor(DType::F32, &[2, 3]), int(1 << 40)], vec![]),
            (vec![tensor(DType::F32, &[2, 3]), int(-1)], vec![]),
            (vec![Value::Type(TensorTy::new(DType::F32, &[2, 3]))], vec![]),
            (vec![tensor(DType::F32, &[2]), tensor(DType::F32, &[3])], vec![]),
            (vec![Value::List(vec![tensor(DType::F32, &[2]), tensor(DType::F32, &[3])])], vec![]),
            (vec![tensor(DType::F32, &[2, 3]), int(1)], vec![]),
            (vec![tensor(DType::F32, &[2, 3])], vec![(dim, int(1))]),
            (vec![tensor(DType::F32, &[2, 3]), Value::Num(Scalar::Float(1.0))], vec![]),
            (vec![tensor(DType::F32, &[2, 3]), Value::Num(Scalar::Bool(true))], vec![]),
            (vec![Value::Tensor(ArgTy::Key)], vec![]),
            (vec![Value::Tensor(ArgTy::Number(DType::F32))], vec![]),
            (vec![Value::DType(DType::F32)], vec![]),
            (vec![Value::Word(dim)], vec![]),
            (vec![Value::Str("dim".to_owned())], vec![]),
            (vec![Value::Absent], vec![]),
        ];
        let keys: Vec<Key> = calls.iter().filter_map(|(positional, named)| key(positional, named)).collect();
        assert_eq!(keys.len(), calls.len());
        for (at, (positional, named)) in calls.iter().enumerate() {
            let same = key(positional, named);
            let equal: Vec<usize> = (0..keys.len()).filter(|other| same.as_ref() == Some(&keys[*other])).collect();
            assert_eq!(equal, [at]);
        }
    }

    #[test]
    fn calls_with_symbolic_sizes_have_none() {
        let n = Dim::atom("n", 3);
        assert!(key(&[Value::Tensor(ArgTy::Tensor(TensorTy::new(DType::F32, &[n])))], &[]).is_none());
        assert!(key(&[Value::Size(n)], &[]).is_none());
    }
}
