//! The tensor language over types alone: the types that a body or rule yields for arguments of given types, without
//! data.

use fulgurite_core::eval::tensor::{self, Called, Machine};
use fulgurite_core::lang::{Block, Elem, Expr, Param, Span};
use fulgurite_core::lower::holds;
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::signature::{ArgTy, OutTy, Refusal, Solved};
use fulgurite_core::{DType, Name, Named, Scalar, Value};

use super::branches::{self, Ids};
use super::call_cache::{Key, Yielded};
use super::rows::{RowSet, ty};

/// At most this many nested rows, because each is a frame of the stack. Cycles were reported before.
const DEEPEST: usize = 24;

/// At most this many calls of a body, nested ones included, because a body that doubles at each level has no end.
/// Only bodies that decide the types of results are entered.
const MOST_CALLS: usize = 1 << 12;

/// Reason why a body has no type.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The refusal.
    pub refusal: Refusal,
    /// The smallest part of the text that the refusal concerns.
    pub at: Option<Span>,
    /// The row whose call was refused, if a call was.
    pub called: Option<Name>,
    /// A row with a fault of its own was called, which is reported there and not here.
    pub tainted: bool,
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Fault {
        Fault { at: refusal.at, refusal, called: None, tainted: false }
    }
}

/// Whether a call is the one that a check searches.
pub type Watch<'a> = dyn Fn(&Row, &Solved, &[Value<ArgTy>]) -> bool + 'a;

/// The machine whose values are types.
pub struct Types<'a> {
    rows: &'a RowSet<'a>,
    depth: usize,
    calls: usize,
    /// The float dtypes to which a call may round. `None` allows all.
    kept: Option<Vec<DType>>,
    /// Selects calls that are refused, if any (E208).
    watch: Option<&'a Watch<'a>>,
    /// Every row called so far.
    pub called: Vec<Name>,
    /// Writes of arguments, `name <- type`, in order.
    pub written: Vec<Named<ArgTy>>,
    /// The branches of the text that were taken.
    pub taken: Ids,
}

impl<'a> Types<'a> {
    /// A machine over these rows.
    pub fn new(rows: &'a RowSet<'a>) -> Types<'a> {
        let taken = Ids::default();
        Types { rows, depth: 0, calls: 0, kept: None, watch: None, called: Vec::new(), written: Vec::new(), taken }
    }

    /// A machine that refuses a call which rounds floats to another dtype than these (E207).
    pub fn keeping(self, kept: Vec<DType>) -> Types<'a> {
        Types { kept: Some(kept), ..self }
    }

    /// A machine that refuses the call that `watch` looks for, so that a check learns where it is made.
    pub fn watching(self, watch: &'a Watch<'a>) -> Types<'a> {
        Types { watch: Some(watch), ..self }
    }

    /// The dtypes of a float argument and of a float result that has fewer digits or a smaller range, if the loss is
    /// not allowed.
    fn lost(&self, args: &[Value<ArgTy>], results: &[Value<ArgTy>]) -> Option<(DType, DType)> {
        let kept = self.kept.as_ref()?;
        let to = floats(results).into_iter().find(|to| !kept.contains(to))?;
        let wider = |from: &DType| from.epsilon() < to.epsilon() || from.largest() > to.largest();
        floats(args).into_iter().find(wider).map(|from| (from, to))
    }

    /// The types that `block`, a rule of `row`, yields.
    ///
    /// # Errors
    /// The first call that is refused, with its place in the text.
    pub fn run(
        &mut self,
        row: &Row,
        block: &Block,
        solved: &Solved,
        args: &[Value<ArgTy>],
        extra: &[Named<ArgTy>],
    ) -> Result<Vec<Value<ArgTy>>, Fault> {
        tensor::run(self, row, block, solved, args, extra)
    }

    /// The results of a call, then the auxiliary ones, as far as types tell them.
    pub fn promised(rows: &'a RowSet<'a>, row: &Row, solved: &Solved, args: &[Value<ArgTy>]) -> Vec<Value<ArgTy>> {
        let outs = Types::new(rows).results(row, solved, args);
        let outs = outs.unwrap_or_else(|_| solved.outs.iter().map(promised).collect());
        outs.into_iter().chain(solved.aux.iter().map(promised)).collect()
    }

    /// The results that `solved` promises. Where only the body knows them, those of the body.
    fn results(&mut self, row: &Row, solved: &Solved, args: &[Value<ArgTy>]) -> Result<Vec<Value<ArgTy>>, Fault> {
        if !solved.outs.contains(&OutTy::FromBody) {
            return Ok(solved.outs.iter().map(promised).collect());
        }
        let Meaning::Decomp(body) = &row.meaning else {
            return Err(Refusal::new("E706", format!("the results of `{}` can't be told", row.op)).into());
        };
        let mut inner = Types { depth: self.depth + 1, calls: self.calls, ..Types::new(self.rows) };
        let results = inner.run(row, body, solved, args, &[]);
        self.calls = inner.calls;
        let mut results = results.map_err(|fault| Fault { at: None, ..fault })?;
        results.truncate(row.sig.outs.len());
        Ok(results)
    }
}

/// The dtypes of the float tensors among these values, each once.
pub fn floats(values: &[Value<ArgTy>]) -> Vec<DType> {
    let mut found = Vec::new();
    for t in values.iter().flat_map(Value::tensors) {
        if t.dtype.is_float() && !found.contains(&t.dtype) {
            found.push(t.dtype);
        }
    }
    found
}

/// An integer argument of a call that wraps in the dtype of the computation.
fn overflow(row: &Row, args: &[Value<ArgTy>], solved: &Solved) -> Option<(Scalar, DType)> {
    let compute = solved.compute;
    let joins = |param: &Param| matches!(param.ty.elem.first(), Some(Elem::Var(name)) if *name == "T");
    let lost = |arg: &Value<ArgTy>| match arg {
        Value::Num(s @ Scalar::Int(_)) if compute.is_int() && !holds(compute, *s) => Some((*s, compute)),
        _ => None,
    };
    row.sig.params.iter().zip(args).filter(|(param, _)| joins(param)).find_map(|(_, arg)| lost(arg))
}

/// A promised result as a value.
pub fn promised(out: &OutTy) -> Value<ArgTy> {
    out.value(|t| ArgTy::Tensor(t.clone()))
}

impl Machine for Types<'_> {
    type V = ArgTy;
    type Error = Fault;

    fn call(&mut self, op: Name, positional: Vec<Value<Self::V>>, named: Vec<Named<Self::V>>) -> Called<Self> {
        let failed = |refusal: Refusal, tainted: bool| Fault { at: None, refusal, called: Some(op), tainted };
        if self.depth > DEEPEST {
            return Err(failed(Refusal::new("E010", format!("`{op}` is called too deep")), true));
        }
        self.calls += 1;
        if self.calls > MOST_CALLS {
            let refusal = Refusal::new("E010", format!("more than {MOST_CALLS} calls are made before `{op}`"));
            return Err(failed(refusal, false));
        }
        // refusals for losses depend on more than the yielded types, so such calls are not looked up
        let key = if self.kept.is_none() && self.watch.is_none() { Key::of(&positional, &named, &ty) } else { None };
        if let Some(known) = key.as_ref().and_then(|key| self.rows.yielded(op, key)) {
            if self.rows.is_broken(known.op) {
                return Err(failed(Refusal::new("E007", format!("`{op}` has a fault")), true));
            }
            self.called.push(known.op);
            return Ok(known.results.to_vec());
        }
        let call = match key {
            Some(_) => self.rows.resolve_anew(op, positional, named),
            None => self.rows.resolve(op, positional, named),
        };
        let call = call.map_err(|r| failed(r, self.rows.taints(op)))?;
        let (row, solved) = (&call.of.row, &call.of.solved);
        if self.rows.is_broken(row.op) {
            return Err(failed(Refusal::new("E007", format!("`{op}` has a fault")), true));
        }
        if let Some((number, dtype)) = overflow(row, &call.args, solved) {
            let refusal = Refusal::new("E205", format!("{number} does not fit {dtype}, in which `{op}` computes"));
            return Err(failed(refusal, false));
        }
        if self.watch.is_some_and(|watch| watch(row, solved, &call.args)) {
            return Err(failed(Refusal::new("E208", format!("a number given to `{op}` is lost")), false));
        }
        self.called.push(row.op);
        let results = self.results(row, solved, &call.args)?;
        // whether a body yields anything also depends on the calls made so far
        if let Some(key) = key.filter(|_| !solved.outs.contains(&OutTy::FromBody)) {
            self.rows.keep_yielded(op, key, Yielded { op: row.op, results: results.iter().cloned().collect() });
        }
        if let Some((from, to)) = self.lost(&call.args, &results) {
            return Err(failed(Refusal::new("E207", format!("{from} is rounded to {to} here")), false));
        }
        Ok(results)
    }

    fn ty(&self, v: &ArgTy) -> ArgTy {
        ty(v)
    }

    fn write(&mut self, name: Name, value: Value<ArgTy>) -> Result<(), Fault> {
        self.written.push((name, value));
        Ok(())
    }

    fn took(&mut self, branch: &Expr) {
        self.taken.insert(branches::id(branch));
    }

    fn located(&self, mut error: Fault, part: Span) -> Fault {
        error.at.get_or_insert(part);
        error
    }
}

/// A value as messages show it: `f32[2, 3]`, `f32 number`.
pub fn show(v: &Value<ArgTy>) -> String {
    match v {
        Value::Tensor(ArgTy::Tensor(t)) | Value::Type(t) => t.to_string(),
        Value::Tensor(ArgTy::Number(d)) => format!("{d} number"),
        Value::Tensor(ArgTy::Key) => "key".to_owned(),
        Value::Num(s) => s.to_string(),
        Value::Size(d) => d.to_string(),
        Value::DType(d) => d.to_string(),
        Value::Word(w) => w.to_string(),
        Value::Str(s) => format!("{s:?}"),
        Value::List(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", ")),
        Value::Absent => "absent".to_owned(),
    }
}
