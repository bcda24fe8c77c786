//! An interpreter of the tensor language over small arrays: rows run by their own meaning, over any scalar field.

use fulgurite_core::eval::frame;
use fulgurite_core::eval::loop_nest::{self, Array, Data, Field, NestError};
use fulgurite_core::eval::tensor::{self, Called, Machine};
use fulgurite_core::lang::ast::Param;
use fulgurite_core::lang::{Block, Expr, Node};
use fulgurite_core::loop_nest::{LoopExpr, Nest, NestOut, SOp};
use fulgurite_core::lower::{self, Rows};
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::selection::Selection;
use fulgurite_core::signature::{ArgTy, OutTy, Refusal, Solved};
use fulgurite_core::{DType, Dim, Name, Named, TensorTy, Value};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use crate::check::branches::{self, Id, Ids};
use crate::check::call_cache::{Accepted, Asked, Calls, Open, Resolved};
use crate::check::coverage;
use crate::check::rows::RowSet;
use crate::check::walk::any_part;

/// Rows nest at most this deep, because deeper calls are refused as a circle (E010).
const DEEPEST: usize = 40;

/// One run evaluates at most this many nodes of expressions, because they take up to a second. A call counts as
/// [`STEPS_OF_A_CALL`] nodes. The longest run that `check` makes for `ops.yaml` takes 84,000, the longest of the tests
/// (a derivative of `sample_at`) some millions.
const MOST_STEPS: u64 = 1 << 25;
const STEPS_OF_A_CALL: u64 = 1 << 8;

/// All runs for the derivatives of one row evaluate at most this many nodes, because they take up to two seconds.
const STEPS_OF_A_ROW: u64 = 1 << 26;

/// A tensor, or a random key.
#[derive(Clone, Debug)]
pub enum V<F> {
    /// Elements.
    Array(Arc<Array<F>>),
    /// A key.
    Key([i64; 2]),
}

/// Why a call has no value.
#[derive(Clone, Debug)]
pub enum Stop {
    /// It is refused.
    Refused(Refusal),
    /// The data do not fit: an index out of range, an integer divided by zero.
    Data(String),
    /// It needs more steps or memory than a run at build time is given.
    TooLong(String),
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stop::Refused(refusal) => f.write_str(&refusal.message),
            Stop::Data(why) | Stop::TooLong(why) => f.write_str(why),
        }
    }
}

impl From<Refusal> for Stop {
    fn from(r: Refusal) -> Stop {
        Stop::Refused(r)
    }
}

impl From<NestError> for Stop {
    fn from(e: NestError) -> Stop {
        match e {
            NestError::Room(_) | NestError::Steps => Stop::TooLong(e.to_string()),
            data => Stop::Data(data.to_string()),
        }
    }
}

/// Rows of a database, with rows derived from them.
pub struct Library<'a> {
    /// The database.
    pub set: &'a RowSet<'a>,
    derived: FxHashMap<Name, Arc<Row>>,
    /// The resolved calls of each derived row.
    calls: FxHashMap<Name, Arc<Calls>>,
    /// Whether tensors of narrow dtypes keep all digits of f64.
    exact: bool,
    /// Loop nests made earlier, by row and sizes, because a check runs the same calls on many numbers.
    lowered: Mutex<FxHashMap<(Name, u64), Vec<Lowered>>>,
    /// The branches that runs take, recorded during [`Library::listen`].
    taken: Mutex<Option<Ids>>,
    /// Steps that all runs together may still take.
    left: Arc<AtomicU64>,
}

/// The loop nest of a call.
struct Lowered {
    solved: Solved,
    /// The value of the body. It is kept alive, so that no other text gets its address.
    value: Arc<Node>,
    nest: Arc<Nest>,
}

impl<'a> Library<'a> {
    /// A library of the rows of `set`.
    pub fn new(set: &'a RowSet<'a>) -> Library<'a> {
        let (derived, calls) = Default::default();
        let left = Arc::new(AtomicU64::new(u64::MAX));
        Library { set, derived, calls, exact: false, lowered: Mutex::default(), taken: Mutex::default(), left }
    }

    /// A library for the checks of one row, which share one budget of steps: a condition that only large calls meet
    /// (`B * N > 1000`) must not hold up all other rows.
    pub fn of_row(set: &'a RowSet<'a>) -> Library<'a> {
        Library { left: Arc::new(AtomicU64::new(STEPS_OF_A_ROW)), ..Library::new(set) }
    }

    /// A copy of the library, to which further derived rows can be added.
    pub fn again(&self) -> Library<'a> {
        let (derived, calls) = (self.derived.clone(), self.calls.clone());
        Library { derived, calls, exact: self.exact, left: self.left.clone(), ..Library::new(self.set) }
    }

    /// Whether tensors of narrow dtypes keep all digits of f64.
    pub fn has_all_digits(&self) -> bool {
        self.exact
    }

    /// A copy of the library in which tensors of narrow dtypes keep all digits of f64.
    pub fn with_all_digits(&self) -> Library<'a> {
        Library { exact: true, ..self.again() }
    }

    /// Runs `f`, and returns its result with the branches that were taken meanwhile.
    pub fn listen<R>(&self, f: impl FnOnce() -> R) -> (R, Ids) {
        let taken = || self.taken.lock().unwrap_or_else(|e| e.into_inner());
        *taken() = Some(Ids::default());
        let found = f();
        let ids = taken().take().unwrap_or_default();
        (found, ids)
    }

    fn took(&self, branches: impl IntoIterator<Item = Id>) {
        if let Some(taken) = &mut *self.taken.lock().unwrap_or_else(|e| e.into_inner()) {
            taken.extend(branches);
        }
    }

    fn is_heard(&self) -> bool {
        self.taken.lock().unwrap_or_else(|e| e.into_inner()).is_some()
    }

    /// The first row called `op` that accepts these arguments.
    ///
    /// # Errors
    /// The refusal of the first row, if no row accepts.
    pub fn resolve<T: Clone>(
        &self,
        op: Name,
        positional: Vec<Value<T>>,
        named: Vec<Named<T>>,
        ty: &dyn Fn(&T) -> ArgTy,
    ) -> Result<Accepted<T>, Refusal> {
        let outcome = match (self.derived.get(&op), self.calls.get(&op)) {
            (Some(row), Some(calls)) => calls.outcome(|| vec![row.clone()], &positional, &named, ty),
            _ => self.set.outcome(op, &positional, &named, ty),
        };
        outcome.call(op, positional, named)
    }

    /// Lowers the meaning of `row` to a loop nest; `of` is the call, if it was resolved.
    fn lower(&self, row: &Row, body: &Block, solved: &Solved, of: Option<&Resolved>) -> Result<Arc<Nest>, Refusal> {
        if let Some(nest) = of.and_then(Resolved::nest) {
            return Ok(nest.clone());
        }
        let known = || self.lowered.lock().unwrap_or_else(|e| e.into_inner());
        // equal calls follow each other, so the newest entries are tried first
        let is = |l: &&Lowered| Arc::ptr_eq(&l.value, &body.value.node) && l.solved == *solved;
        let key = (row.op, sizes(solved));
        if let Some(found) = known().get(&key).and_then(|of| of.iter().rev().find(is)) {
            return Ok(found.nest.clone());
        }
        let asked = Asked::new(self);
        let nest = Arc::new(lower::lower_with(row, body, solved, &asked)?);
        if of.is_some_and(|of| !asked.any() && of.keep(&nest)) {
            return Ok(nest);
        }
        let lowered = Lowered { solved: solved.clone(), value: body.value.node.clone(), nest: nest.clone() };
        known().entry(key).or_default().push(lowered);
        Ok(nest)
    }

    /// Adds derived rows.
    pub fn extend(&mut self, rows: impl IntoIterator<Item = Row>) {
        for row in rows {
            self.calls.insert(row.op, Arc::default());
            self.derived.insert(row.op, Arc::new(row));
        }
    }
}

impl Rows for Library<'_> {
    fn row(&self, name: Name) -> Option<Arc<Row>> {
        self.derived.get(&name).cloned().or_else(|| self.set.row(name))
    }
}

/// A hash of the dtypes and sizes of a call's arguments.
fn sizes(solved: &Solved) -> u64 {
    let mut hasher = FxHasher::default();
    for t in solved.env.slots.iter().flatten() {
        t.dtype.hash(&mut hasher);
        t.shape.iter().for_each(|d| d.hint().hash(&mut hasher));
    }
    hasher.finish()
}

/// The interpreter, with the state of one run.
pub struct Dense<'a> {
    library: &'a Library<'a>,
    depth: usize,
    /// The steps that are left to this run.
    steps: u64,
}

impl<'a> Dense<'a> {
    /// An interpreter over the rows of `library`.
    pub fn new(library: &'a Library<'a>) -> Dense<'a> {
        Dense { library, depth: 0, steps: MOST_STEPS.min(library.left.load(Relaxed)) }
    }

    /// Runs the meaning of `row`: results, then auxiliary results, then what it writes, in the order of the arguments.
    ///
    /// # Errors
    /// A [`Stop`] if a call is refused, its data do not fit, or it takes too long.
    pub fn meaning<F: Field>(
        &mut self,
        row: &Row,
        solved: &Solved,
        args: &[Value<V<F>>],
    ) -> Result<Vec<Value<V<F>>>, Stop> {
        self.one_deeper(row, |dense| {
            dense.hold(&Open::of(row, solved), args)?;
            dense.within(row, solved, args, None)
        })
    }

    /// Runs the meaning of a resolved call, with the results of [`Dense::meaning`].
    ///
    /// # Errors
    /// The errors are those of [`Dense::meaning`].
    pub fn call<F: Field>(&mut self, of: &Resolved, args: &[Value<V<F>>]) -> Result<Vec<Value<V<F>>>, Stop> {
        self.one_deeper(&of.row, |dense| {
            dense.hold(of.conditions(), args)?;
            dense.within(&of.row, &of.solved, args, Some(of))
        })
    }

    fn one_deeper<R>(&mut self, row: &Row, f: impl FnOnce(&mut Self) -> Result<R, Stop>) -> Result<R, Stop> {
        let before = self.steps;
        let values = frame::one_deeper(
            self,
            |dense| &mut dense.depth,
            DEEPEST,
            row.op,
            |dense| {
                dense.steps = dense.steps.checked_sub(STEPS_OF_A_CALL).ok_or(NestError::Steps)?;
                f(dense)
            },
        );
        if self.depth == 0 {
            let taken = before.saturating_sub(self.steps);
            let less = |left: u64| (left < u64::MAX).then(|| left.saturating_sub(taken));
            _ = self.library.left.fetch_update(Relaxed, Relaxed, less);
        }
        values
    }

    fn within<F: Field>(
        &mut self,
        row: &Row,
        solved: &Solved,
        args: &[Value<V<F>>],
        of: Option<&Resolved>,
    ) -> Result<Vec<Value<V<F>>>, Stop> {
        match &row.meaning {
            Meaning::Decomp(body) => {
                let mut run = Over { dense: self, written: Vec::new() };
                let values = tensor::run(&mut run, row, body, solved, args, &[])?;
                let of = |param: &Param| run.written.iter().find(|(name, _)| *name == param.name.name);
                let written = row.sig.params.iter().filter_map(of).map(|(_, value)| value.clone());
                Ok(values.into_iter().chain(written).collect())
            }
            Meaning::Expr(body) | Meaning::View(body) => {
                if self.library.is_heard() {
                    let find = || {
                        let mut found = Vec::new();
                        coverage::of_index(body, &solved.env, &mut |branch| found.push(branches::id(branch)));
                        found
                    };
                    match of {
                        Some(of) => self.library.took(of.branches(find).iter().copied()),
                        None => self.library.took(find()),
                    }
                }
                let nest = self.library.lower(row, body, solved, of)?;
                self.loops(&nest, row, solved, args)
            }
            Meaning::Host(name) => host(*name, solved, args),
        }
    }

    /// Checks the conditions on elements. A condition that cannot be evaluated here is left to the runtime.
    fn hold<F: Field>(&mut self, conditions: &[Open], args: &[Value<V<F>>]) -> Result<(), Stop> {
        for open in conditions {
            let condition = &open.condition;
            let held = open
                .nest(self.library)
                .map_err(Stop::from)
                .and_then(|n| self.loops(&n, &condition.row, &condition.solved, args));
            if let Ok([Value::Tensor(V::Array(truth))]) = held.as_deref()
                && truth.scalars().iter().any(|s| !s.as_bool())
            {
                return Err(Stop::Data(condition.message.clone()));
            }
        }
        Ok(())
    }

    /// Runs a rule of `row`.
    ///
    /// # Errors
    /// A [`Stop`] if a call is refused, its data do not fit, or it takes too long.
    pub fn rule<F: Field>(
        &mut self,
        row: &Row,
        rule: &Block,
        solved: &Solved,
        args: &[Value<V<F>>],
        extra: &[Named<V<F>>],
    ) -> Result<Vec<Value<V<F>>>, Stop> {
        tensor::run(&mut Over { dense: self, written: Vec::new() }, row, rule, solved, args, extra)
    }

    fn loops<F: Field>(
        &mut self,
        nest: &Nest,
        row: &Row,
        solved: &Solved,
        args: &[Value<V<F>>],
    ) -> Result<Vec<Value<V<F>>>, Stop> {
        let mut tensors: SmallVec<[Arc<Array<F>>; 4]> = SmallVec::new();
        for value in args.iter().take(row.sig.params.len()) {
            for v in value.items() {
                match v {
                    Value::Tensor(V::Array(a)) => tensors.push(a.clone()),
                    Value::Tensor(V::Key(k)) => tensors.push(Arc::new(Array::int(DType::I64, &[2], k.to_vec()))),
                    // only its type is read
                    Value::Type(t) => tensors.push(Arc::new(filled(t, 0.0))),
                    _ => {}
                }
            }
        }
        // storing a value in half precision or less between two calls loses digits; f32 is as good as exact here
        let exact = self.library.exact;
        let wide;
        let nest = match exact && nest.outs.iter().any(|out| narrows(&out.expr)) {
            true => {
                let outs = nest.outs.iter().map(|out| NestOut { expr: unrounded(&out.expr), ..out.clone() }).collect();
                wide = Nest { outs, ..nest.clone() };
                &wide
            }
            false => nest,
        };
        let arrays = loop_nest::run_within(nest, &tensors, &[], &mut self.steps)?;
        let stored = |mut a: Array<F>| {
            let narrow = a.dtype.is_float() && a.dtype.opmath() != a.dtype;
            if let (true, Data::Float(values)) = (narrow && !exact, &mut a.data) {
                values.iter_mut().for_each(|x| *x = x.clone().kept_as(a.dtype));
            }
            V::Array(Arc::new(a))
        };
        Ok(solved.grouped(arrays.into_iter().map(stored)))
    }
}

/// Whether an operation rounds a float to fewer digits than it is computed with.
fn rounds(op: &SOp, ty: DType) -> bool {
    matches!(op, SOp::Cast(a) if ty.is_float() && a.ty().is_float() && ty.opmath() != ty)
}

fn narrows(e: &LoopExpr) -> bool {
    any_part(e, &mut |part| rounds(part.op(), part.ty()))
}

/// The expression without the casts that round: its values keep all digits.
fn unrounded(e: &LoopExpr) -> LoopExpr {
    let op = e.op().map(&unrounded);
    match rounds(e.op(), e.ty()) {
        true => LoopExpr::new(op, e.ty().opmath()),
        false => LoopExpr::new(op, e.ty()),
    }
}

/// A tensor filled with one number.
pub fn filled<F: Field>(t: &TensorTy, x: f64) -> Array<F> {
    let shape: Vec<usize> = t.sizes().to_vec();
    let n = shape.iter().product();
    match t.dtype.is_float() {
        true => Array::float(t.dtype, &shape, vec![F::constant(x); n]),
        false => Array::int(t.dtype, &shape, vec![x as i64; n]),
    }
}

/// The elements of an array as floats, also those of integers and truth values.
pub fn floats(a: &Array<f64>) -> Vec<f64> {
    match &a.data {
        Data::Float(x) => x.clone(),
        Data::Int(x) => x.iter().map(|x| *x as f64).collect(),
    }
}

/// The types of arguments.
pub fn types<T>(args: &[Value<T>], ty: &dyn Fn(&T) -> ArgTy) -> Vec<Value<ArgTy>> {
    args.iter().map(|arg| arg.map(&mut |v| ty(v))).collect()
}

/// The type of a value.
pub fn ty<F>(v: &V<F>) -> ArgTy {
    match v {
        V::Array(a) => {
            let shape = a.shape.iter().map(|&n| Dim::from(n)).collect();
            ArgTy::Tensor(TensorTy { dtype: a.dtype, shape })
        }
        V::Key(_) => ArgTy::Key,
    }
}

/// The interpreter while it runs a block, over the field that the caller chose.
struct Over<'m, 'a, F> {
    dense: &'m mut Dense<'a>,
    written: Vec<Named<V<F>>>,
}

impl<F: Field> Machine for Over<'_, '_, F> {
    type V = V<F>;
    type Error = Stop;

    fn call(&mut self, op: Name, positional: Vec<Value<Self::V>>, named: Vec<Named<Self::V>>) -> Called<Self> {
        let call = self.dense.library.resolve(op, positional, named, &ty)?;
        let mut results = self.dense.call(&call.of, &call.args)?;
        results.truncate(call.of.row.sig.outs.len());
        Ok(results)
    }

    fn ty(&self, v: &V<F>) -> ArgTy {
        ty(v)
    }

    fn write(&mut self, name: Name, value: Value<V<F>>) -> Result<(), Stop> {
        self.written.push((name, value));
        Ok(())
    }

    fn took(&mut self, branch: &Expr) {
        self.dense.library.took([branches::id(branch)]);
    }
}

/// Runs a primitive of the runtime. None has a derivative, so only values matter.
fn host<F: Field>(name: Name, solved: &Solved, args: &[Value<V<F>>]) -> Result<Vec<Value<V<F>>>, Stop> {
    let arrays = args.iter().filter_map(|v| if let Value::Tensor(V::Array(x)) = v { Some(x) } else { None });
    let [x] = arrays.collect::<Vec<_>>()[..] else { return Err(Stop::Data(format!("`{name}` takes one tensor"))) };
    let shape = match solved.outs.first() {
        Some(OutTy::Tensor(ty)) => ty.shape.iter().map(|d| d.len()).collect::<Vec<usize>>(),
        _ => Vec::new(),
    };
    match Selection::of(name, &solved.env).and_then(|s| s.run(&x.shape, &x.scalars())) {
        Ok(out) => Ok(vec![Value::Tensor(V::Array(Arc::new(Array::int(DType::I64, &shape, out))))]),
        Err(why) => Err(Stop::Data(format!("`{name}`: {why}"))),
    }
}
