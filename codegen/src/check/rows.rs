//! The rows that a check may look up: those of this database, then those of upstream databases.

use std::sync::{Arc, Mutex};

use fulgurite_core::builtins::Builtin;
use fulgurite_core::derive::{self, Derived};
use fulgurite_core::foreign::is_alias;
use fulgurite_core::lang::Node;
use fulgurite_core::lower::Rows;
use fulgurite_core::row::Row;
use fulgurite_core::signature::{ArgTy, Refusal};
use fulgurite_core::{Name, Named, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use super::call_cache::{self, Accepted, Calls, Key, Outcome, Refused, Yielded};
use super::walk;

/// Derivations by row name, each with the row that it was made for.
type Known = FxHashMap<Name, (Arc<Row>, Arc<Derived>)>;

/// Rows by name, overloads together.
pub struct RowSet<'a> {
    rows: FxHashMap<Name, Arc<Row>>,
    /// `matmul` → `matmul.mv`, `matmul.vm`, in order of their names.
    overloads: FxHashMap<Name, Vec<Name>>,
    /// Rows with a fault. A call of such a row can't be checked, and is no fault of its caller.
    broken: FxHashSet<Name>,
    upstream: &'a (dyn Rows + Sync),
    /// Derivations made so far.
    derived: Mutex<Known>,
    /// Cached calls of each name that may be called.
    calls: FxHashMap<Name, Calls>,
}

/// Builtins, and the rows that do the same to tensors: element by element, and over axes.
const OF_TENSORS: &[(&str, &str, &str)] = &[("max", "maximum", "amax"), ("min", "minimum", "amin")];

/// The type of a value of the abstract machine, which is the value itself.
pub fn ty(v: &ArgTy) -> ArgTy {
    v.clone()
}

impl<'a> RowSet<'a> {
    /// The set of these rows and those of `upstream`.
    pub fn new(
        upstream: &'a (dyn Rows + Sync),
        rows: impl IntoIterator<Item = Arc<Row>>,
        broken: &[Name],
    ) -> RowSet<'a> {
        let rows: FxHashMap<Name, Arc<Row>> = rows.into_iter().map(|row| (row.op, row)).collect();
        let mut overloads: FxHashMap<Name, Vec<Name>> = FxHashMap::default();
        for name in rows.keys().copied().chain(upstream.names()) {
            if let Some(base) = base(name) {
                overloads.entry(base).or_default().push(name);
            }
        }
        for names in overloads.values_mut() {
            names.sort_by_key(|name| name.as_str());
            names.dedup();
        }
        let broken = broken.iter().copied().collect();
        let (derived, calls) = (Mutex::default(), FxHashMap::default());
        let mut set = RowSet { rows, overloads, broken, upstream, derived, calls };
        set.derive_called();
        let names = set.rows.keys().chain(set.overloads.keys()).copied().chain(upstream.names());
        set.calls = names.map(|name| (name, Calls::default())).collect();
        set
    }

    /// Adds the derived rows that bodies and rules call, `conv.vjp.x`, to the rows of the file.
    fn derive_called(&mut self) {
        let called = derived_calls(self.rows.values().map(|row| &**row));
        let mut bases: FxHashSet<Name> = called.iter().filter_map(|name| derive::origin(*name)).collect();
        bases.retain(|base| !self.is_broken(*base));
        let nothing = FxHashSet::default();
        for base in bases {
            let Some(row) = self.row(base) else { continue };
            // which rows were derived in an upstream database depends on the calls there
            let called = if self.rows.contains_key(&base) { &called } else { &nothing };
            let (_, derived) = with_rules(&row, self, called);
            self.rows.extend(derived.into_iter().map(|row| (row.op, Arc::new(row))));
        }
    }

    /// The rows of this database and those derived from them, without those of upstream.
    pub fn own(&self) -> impl Iterator<Item = &Arc<Row>> {
        self.rows.values()
    }

    /// The caches, which are large: the caller may drop them on another thread.
    pub fn into_known(self) -> impl Send + 'static {
        (self.calls, self.derived)
    }

    /// Marks `name` as broken from now on.
    pub fn break_row(&mut self, name: Name) {
        self.broken.insert(name);
    }

    /// Whether this row, or the row from which it is derived, has a fault.
    pub fn is_broken(&self, name: Name) -> bool {
        // every call asks this, and mostly nothing is broken
        let of_origin = || derive::origin(name).is_some_and(|base| self.broken.contains(&base));
        !self.broken.is_empty() && (self.broken.contains(&name) || of_origin())
    }

    /// Whether the row that a refusal misses may be one with a fault of its own.
    pub fn may_hide(&self, refusal: &Refusal) -> bool {
        refusal.code == "E007" && !self.broken.is_empty()
    }

    /// Puts `row` in the place of the one of its name.
    pub fn replace(&mut self, row: Arc<Row>) {
        // the caches are about the old row
        self.derived = Mutex::default();
        for name in std::iter::once(row.op).chain(base(row.op)) {
            self.calls.get_mut(&name).into_iter().for_each(Calls::clear);
        }
        self.rows.insert(row.op, row);
    }

    /// The rows that a call of `op` may mean: the one of that name, then its overloads.
    pub fn candidates(&self, op: Name) -> Vec<Arc<Row>> {
        let overloads = self.overloads.get(&op).into_iter().flatten();
        std::iter::once(&op).chain(overloads).filter_map(|name| self.row(*name)).collect()
    }

    /// Whether a call of `op` means something, or would if its row had no fault.
    pub fn knows(&self, op: Name) -> bool {
        self.row(op).is_some() || self.overloads.contains_key(&op) || self.is_broken(op)
    }

    /// Whether a call of `op` may mean a row with a fault.
    pub fn taints(&self, op: Name) -> bool {
        let overloads = self.overloads.get(&op).into_iter().flatten();
        std::iter::once(&op).chain(overloads).any(|name| self.is_broken(*name))
    }

    /// Help for a call of the builtin `f` on tensors, where rows with other names do the same to tensors.
    pub fn of_tensors(&self, f: Name) -> Option<String> {
        let (_, both, over) = OF_TENSORS.iter().find(|(name, ..)| f == *name)?;
        let forms =
            [(both, format!("of two tensors it is `{both}(x, y)`")), (over, format!("over axes `{over}(x, [dim])`"))];
        let known = forms.into_iter().filter(|(op, _)| self.knows(Name::new(op)));
        let known: Vec<String> = known.map(|(_, form)| form).collect();
        (!known.is_empty()).then(|| format!("`{f}` is of numbers; {}", known.join(", ")))
    }

    /// The overload of `op` that accepts these arguments.
    ///
    /// # Errors
    /// The refusal of the first candidate, if none accepts them.
    pub fn resolve(
        &self,
        op: Name,
        positional: Vec<Value<ArgTy>>,
        named: Vec<Named<ArgTy>>,
    ) -> Result<Accepted<ArgTy>, Refusal> {
        self.accepted(op, self.outcome(op, &positional, &named, &ty), positional, named)
    }

    /// Resolves a call without the cache, because hardly any other call will equal it.
    ///
    /// # Errors
    /// The errors are those of [`RowSet::resolve`].
    pub fn resolve_anew(
        &self,
        op: Name,
        positional: Vec<Value<ArgTy>>,
        named: Vec<Named<ArgTy>>,
    ) -> Result<Accepted<ArgTy>, Refusal> {
        let outcome = call_cache::outcome(self.candidates(op), &positional, &named, &ty);
        self.accepted(op, outcome, positional, named)
    }

    fn accepted(
        &self,
        op: Name,
        outcome: Outcome,
        positional: Vec<Value<ArgTy>>,
        named: Vec<Named<ArgTy>>,
    ) -> Result<Accepted<ArgTy>, Refusal> {
        match outcome {
            Outcome::Refused(refused) => Err(with_types(&refused)),
            Outcome::Unknown if Builtin::from_name(op.as_str()).is_some() => {
                let function = || format!("`{op}` is a function of `expr`; a program of rows needs a row of this name");
                Err(call_cache::unknown(op).help(self.of_tensors(op).unwrap_or_else(function)))
            }
            outcome => outcome.call(op, positional, named),
        }
    }

    /// Row and results of a call of `op`, if they were kept.
    pub fn yielded(&self, op: Name, key: &Key) -> Option<Arc<Yielded>> {
        self.calls.get(&op)?.yielded(key)
    }

    /// Keeps row and results of a call of `op`.
    pub fn keep_yielded(&self, op: Name, key: Key, yielded: Yielded) {
        if let Some(calls) = self.calls.get(&op) {
            calls.keep(key, yielded);
        }
    }

    /// The outcome of a call of `op` with arguments of these types.
    pub fn outcome<T>(
        &self,
        op: Name,
        positional: &[Value<T>],
        named: &[Named<T>],
        ty: &dyn Fn(&T) -> ArgTy,
    ) -> Outcome {
        match self.calls.get(&op) {
            Some(calls) => calls.outcome(|| self.candidates(op), positional, named, ty),
            None => call_cache::outcome(self.candidates(op), positional, named, ty),
        }
    }

    /// Rules and rows that are derived for a row. They are kept.
    pub fn derived(&self, row: &Arc<Row>) -> Arc<Derived> {
        let known = || self.derived.lock().unwrap_or_else(|e| e.into_inner());
        if let Some((of, derived)) = known().get(&row.op)
            && Arc::ptr_eq(of, row)
        {
            return derived.clone();
        }
        let derived = Arc::new(derive::derive(row, self));
        known().insert(row.op, (row.clone(), derived.clone()));
        derived
    }
}

impl Rows for RowSet<'_> {
    fn row(&self, name: Name) -> Option<Arc<Row>> {
        self.rows.get(&name).cloned().or_else(|| self.upstream.row(name))
    }

    fn names(&self) -> Vec<Name> {
        let mut names: Vec<Name> = self.rows.keys().copied().chain(self.upstream.names()).collect();
        names.sort_by_key(|name| name.as_str());
        names.dedup();
        names
    }
}

/// The refusal of sizes with the types of all arguments and the signature as help, so that a reader sees the
/// conflict. A refusal with help of its own stays as it is.
fn with_types(refused: &Refused) -> Refusal {
    let Refused { row, args, refusal } = refused;
    let refusal = refusal.clone();
    let Some(args) = args.as_ref().filter(|_| refusal.code == "E701" && refusal.help.is_none()) else {
        return refusal;
    };
    let types = row.sig.params.iter().zip(args).filter_map(|(param, arg)| match arg {
        Value::Tensor(ArgTy::Tensor(t)) => Some(format!("{} = {t}", param.name.name)),
        _ => None,
    });
    let types: Vec<String> = types.collect();
    refusal.help(format!("{}; rule: {}{}", types.join(", "), row.op, row.sig))
}

/// The derived rows that bodies and rules of these rows call: `conv.vjp.x`.
pub fn derived_calls<'r>(rows: impl Iterator<Item = &'r Row>) -> FxHashSet<Name> {
    let mut called = FxHashSet::default();
    for row in rows {
        let body = Some(row).filter(|row| row.is_composite()).and_then(walk::body);
        for block in body.into_iter().chain(row.vjp.iter().chain(&row.jvp).map(|(_, rule)| rule)) {
            walk::block(block, &mut |e| {
                if let Node::Call(f, _) = &*e.node
                    && derive::origin(f.name).is_some()
                {
                    called.insert(f.name);
                }
            });
        }
    }
    called
}

/// A row with the rules that are derived for it, and the derived rows that its rules call or that are `called`
/// elsewhere. A declared rule makes all others superfluous, and no executor has them.
pub fn with_rules(row: &Row, rows: &dyn Rows, called: &FxHashSet<Name>) -> (Row, Vec<Row>) {
    let mut derived = derive::derive(row, rows);
    let mut full = row.clone();
    for (arg, rule) in derived.rules {
        if !full.vjp.iter().any(|(a, _)| *a == arg) {
            full.vjp.push((arg, rule));
        }
    }
    let used: String = full.vjp.iter().map(|(_, rule)| rule.to_string()).collect();
    derived.rows.retain(|row| called.contains(&row.op) || used.contains(row.op.as_str()));
    (full, derived.rows)
}

/// The row that `name` is an overload of. Alias rows (`aten.…`, `torch.…`, `onnx.…`) are no overloads.
pub fn base(name: Name) -> Option<Name> {
    let (base, kind) = name.as_str().split_once('.')?;
    let overload = !is_alias(name.as_str()) && !kind.contains('.') && !matches!(kind, "vjp" | "jvp" | "d");
    overload.then(|| Name::new(base))
}
