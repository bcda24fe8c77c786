//! The cache of a compiled function: the calls that its programs serve, and the reasons for compiling again.

use super::program::Program;
use super::specialisation::{Family, Sizes, sizes};
use super::stages::Stages;
use super::tracing::aliases;
use super::two_part::Plan;
use crate::error::Error;
use crate::scope;
use crate::tensor::{CellKind, Tensor, View};
use crate::trace::{ProxyId, ProxyTy, TagSet, Trace};
use crate::tree::{Detail, Fingerprint, Tree, flatten_apart};
use fulgurite_core::{DType, TensorTy};
use smallvec::SmallVec;
use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};

/// At most this many programs per function, to bound memory; the one unused for longest is dropped.
const MOST: usize = 128;

/// The type of an argument.
#[derive(Clone, PartialEq)]
pub(super) struct LeafKey {
    kind: CellKind,
    dtype: DType,
    sizes: SmallVec<[usize; 4]>,
    tags: TagSet,
}

/// The conditions on arguments for a program: compared field by field at each call, printed as its prologue.
#[derive(Clone)]
pub(super) struct Key {
    /// Whether other sizes of equal rank may fit; guards decide.
    symbolic: bool,
    mark: Fingerprint,
    leaves: Vec<LeafKey>,
    detail: Detail,
    /// The autocast dtype of the region around the call.
    autocast: Option<DType>,
}

/// A program of a function, with the result that it was traced with.
pub(super) struct Entry {
    pub key: Key,
    pub program: Program,
    /// The pattern of arguments that share a cell, or `None` if any pattern fits, because nothing is written.
    pub aliases: Option<Vec<usize>>,
    /// The kind of each leaf of the result.
    pub kinds: Vec<CellKind>,
    /// The result, a tree around handles of the ended trace.
    pub template: Box<dyn Any + Send + Sync>,
    /// The facts that `update` needs about the state.
    pub state: StateFacts,
    /// The guards and plans, if sizes are symbolic.
    pub family: Option<Family>,
    pub stages: Stages,
    /// The backward, if it runs apart; its type is known to the code that made the entry.
    pub pulled: Option<Box<dyn Any + Send + Sync>>,
    used: AtomicU64,
}

/// A program that fits a call, with the plan for its sizes if the program has one for each.
pub(super) struct Ready {
    pub entry: Arc<Entry>,
    pub plan: Option<Arc<Plan>>,
}

/// The facts that `update` needs about the state that a function returns.
#[derive(Default)]
pub(super) struct StateFacts {
    /// The number of its leaves.
    pub leaves: usize,
    /// Whether it has the structure and types of the state that was passed.
    pub in_place: bool,
    /// The leaves that are keys of the state that was passed.
    pub advance: Vec<usize>,
}

impl StateFacts {
    /// The facts about a trace that was made for `state` and returns `next`.
    pub fn of<S: Tree>(state: &S, next: &S, trace: &Trace) -> StateFacts {
        let (before, after) = (flatten_apart(state), flatten_apart(next));
        let leaves = after.leaves().len();
        // the state comes first among inputs and outputs; the sizes are those of the trace, which may be symbolic
        let same = |(a, b): (ProxyId, &ProxyId)| trace.ty(a) == trace.ty(*b);
        let in_place = before.fingerprint() == after.fingerprint()
            && before.leaves().len() == leaves
            && trace.input_proxies().zip(&trace.outputs[..leaves]).all(same);
        let passed: Vec<_> = trace.input_proxies().take(before.leaves().len()).collect();
        let is_passed_key = |i: &usize| {
            let p = trace.outputs[*i];
            trace.ty(p) == ProxyTy::Key && passed.contains(&p)
        };
        StateFacts { leaves, in_place, advance: (0..leaves).filter(is_passed_key).collect() }
    }
}

impl LeafKey {
    fn fits(&self, leaf: &Tensor, symbolic: bool) -> Result<bool, Error> {
        match leaf.view() {
            View::Cell(cell) => Ok(self.dtype == cell.dtype()
                && self.kind == cell.kind()
                && if symbolic && self.kind == CellKind::Tensor {
                    self.sizes.len() == cell.sizes().len()
                } else {
                    self.sizes.as_slice() == cell.sizes()
                }
                && self.tags == cell.tags()),
            View::Poison(e) => Err(e.clone()),
            // programs take the fields of such a tensor
            View::Wrapped(_) => Ok(false),
            View::Traced(traced) => Err(scope::stray(traced.token().is_open(), &traced.ty().to_string())),
        }
    }
}

impl LeafKey {
    /// Whether the two differ in sizes alone, or not at all.
    fn differs_in_sizes(&self, other: &LeafKey) -> bool {
        self.sizes.len() == other.sizes.len() && *self == LeafKey { sizes: self.sizes.clone(), ..other.clone() }
    }
}

impl fmt::Display for LeafKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(None, f)
    }
}

impl LeafKey {
    /// Prints the type, with names for symbolic sizes.
    fn show(&self, atoms: Option<&mut dyn Iterator<Item = &str>>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, atoms) {
            (CellKind::Tensor, Some(atoms)) => {
                let names: Vec<&str> = atoms.take(self.sizes.len()).collect();
                write!(f, "{}[{}]", self.dtype, names.join(", "))?;
            }
            (CellKind::Tensor, None) => write!(f, "{}", ProxyTy::tensor(TensorTy::new(self.dtype, &self.sizes)))?,
            (CellKind::Number, _) => write!(f, "{}", ProxyTy::Number(self.dtype))?,
            (CellKind::Key, _) => write!(f, "{}", ProxyTy::Key)?,
        }
        self.tags.iter().try_for_each(|tag| write!(f, " #{}", tag.name()))
    }
}

impl Key {
    /// The key of these arguments.
    pub fn new(symbolic: bool, mark: Fingerprint, leaves: &[Tensor], detail: Detail) -> Key {
        let key = |leaf: &Tensor| match leaf.view() {
            View::Cell(cell) => LeafKey {
                kind: cell.kind(),
                dtype: cell.dtype(),
                sizes: cell.sizes().iter().copied().collect(),
                tags: cell.tags(),
            },
            // acquisition has refused such leaves
            _ => LeafKey { kind: CellKind::Tensor, dtype: leaf.dtype(), sizes: SmallVec::new(), tags: TagSet::EMPTY },
        };
        Key { symbolic, mark, leaves: leaves.iter().map(key).collect(), detail, autocast: scope::ambient() }
    }

    /// The paths of the arguments.
    pub fn paths(&self) -> &[Arc<str>] {
        &self.detail.paths
    }

    fn fits(&self, mark: Fingerprint, leaves: &[&Tensor]) -> Result<bool, Error> {
        if self.mark != mark || self.leaves.len() != leaves.len() || !self.is_here() {
            return Ok(false);
        }
        for (key, leaf) in self.leaves.iter().zip(leaves) {
            if !key.fits(leaf, self.symbolic)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the present autocast region is the one in which the program was compiled.
    pub fn is_here(&self) -> bool {
        self.autocast == scope::ambient()
    }

    /// Whether sizes are symbolic.
    pub fn is_symbolic(&self) -> bool {
        self.symbolic
    }

    /// This key, for exactly these sizes.
    pub fn constant(self) -> Key {
        Key { symbolic: false, ..self }
    }

    /// The sizes of all tensors.
    pub fn sizes(&self) -> Sizes {
        self.leaves.iter().filter(|l| l.kind == CellKind::Tensor).flat_map(|l| l.sizes.iter().copied()).collect()
    }

    /// The differences from the key of a program, one line each.
    fn differences(&self, entry: &Entry) -> Vec<String> {
        let old = &entry.key;
        let mut out = Vec::new();
        if self.autocast != old.autocast {
            let text = |dtype: Option<DType>| dtype.map_or("off", DType::name);
            out.push(format!("autocast was {}, is {}", text(old.autocast), text(self.autocast)));
        }
        let before: std::collections::HashMap<&str, &LeafKey> =
            old.detail.paths.iter().map(|p| &**p).zip(&old.leaves).collect();
        for (path, text) in &self.detail.fixed {
            match old.detail.fixed.iter().find(|(p, _)| p == path) {
                Some((_, was)) if was != text => out.push(format!("fixed `{path}` was {was}, is {text}")),
                _ => {}
            }
        }
        for (path, leaf) in self.detail.paths.iter().zip(&self.leaves) {
            match before.get(&**path) {
                None => out.push(format!("`{path}` is new")),
                Some(was) if *was != leaf && !(old.symbolic && was.differs_in_sizes(leaf)) => {
                    out.push(format!("`{path}` was {was}, is {leaf}"));
                }
                Some(_) => {}
            }
        }
        let gone = before.keys().filter(|path| !self.detail.paths.iter().any(|p| **p == ***path)).count();
        if gone > 0 {
            out.push(format!("{gone} tensors are gone"));
        }
        if let (Some(family), true) = (&entry.family, out.is_empty()) {
            out = family.reasons(&self.sizes());
        }
        if out.is_empty() {
            out.push(match self.mark == old.mark {
                true => "other arguments share storage, or sizes compare otherwise".to_owned(),
                false => "a fixed part that prints the same has another hash".to_owned(),
            });
        }
        out
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Key { leaves, detail, autocast, .. } = &self.key;
        if let Some(dtype) = autocast {
            writeln!(f, "autocast is {dtype}")?;
        }
        let mut atoms = self.family.as_ref().map(|family| family.atoms());
        for (path, leaf) in detail.paths.iter().zip(leaves) {
            write!(f, "{} is ", if path.is_empty() { "the argument" } else { path })?;
            leaf.show(atoms.as_mut().map(|atoms| atoms as &mut dyn Iterator<Item = &str>), f)?;
            writeln!(f)?;
        }
        detail.fixed.iter().try_for_each(|(path, text)| writeln!(f, "{path} = {text}"))?;
        self.family.iter().flat_map(Family::guards).try_for_each(|guard| writeln!(f, "{guard}"))
    }
}

impl Entry {
    pub fn new(key: Key, program: Program, kinds: Vec<CellKind>, template: Box<dyn Any + Send + Sync>) -> Entry {
        let (aliases, state, stages) = (None, StateFacts::default(), Stages::default());
        let (family, pulled, used) = (None, None, AtomicU64::new(0));
        Entry { key, program, aliases, kinds, template, state, family, stages, pulled, used }
    }

    /// The result with which the program was traced.
    ///
    /// # Errors
    /// E709 if it has another type; one function has one type of result.
    pub fn template<T: 'static>(&self) -> Result<&T, Error> {
        self.template.downcast_ref().ok_or_else(|| Error::bug("E709", "a program was kept for another function"))
    }

    fn fits(&self, mark: Fingerprint, leaves: &[&Tensor]) -> Result<bool, Error> {
        if !self.key.fits(mark, leaves)? {
            return Ok(false);
        }
        if let Some(family) = &self.family
            && !family.admits(&sizes(leaves))
        {
            return Ok(false);
        }
        let Some(pattern) = &self.aliases else { return Ok(true) };
        let captured = |leaf: &&Tensor| matches!(leaf.view(), View::Cell(cell) if self.program.captured(cell));
        Ok(aliases(leaves.iter().copied()) == *pattern && !leaves.iter().any(captured))
    }
}

/// The programs of one function.
#[derive(Default)]
pub(super) struct Cache {
    entries: RwLock<Vec<Arc<Entry>>>,
    /// The entry of the last hit, which is tried first.
    last: AtomicUsize,
    clock: AtomicU64,
}

impl Cache {
    /// The program for these arguments, if there is one.
    ///
    /// # Errors
    /// The error of a poisoned argument; E740 or E741 for a handle of a trace.
    pub fn find(&self, mark: Fingerprint, leaves: &[&Tensor]) -> Result<Option<Arc<Entry>>, Error> {
        let entries = self.entries.read().unwrap_or_else(|e| e.into_inner());
        let last = self.last.load(Ordering::Relaxed);
        if let Some(entry) = entries.get(last)
            && entry.fits(mark, leaves)?
        {
            return Ok(Some(self.hit(entry)));
        }
        for (i, entry) in entries.iter().enumerate().filter(|(i, _)| *i != last) {
            if entry.fits(mark, leaves)? {
                self.last.store(i, Ordering::Relaxed);
                return Ok(Some(self.hit(entry)));
            }
        }
        Ok(None)
    }

    fn hit(&self, entry: &Arc<Entry>) -> Arc<Entry> {
        entry.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        entry.clone()
    }

    /// Adds a program.
    pub fn insert(&self, entry: Entry) -> Arc<Entry> {
        let entry = Arc::new(entry);
        entry.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        let mut entries = self.entries.write().unwrap_or_else(|e| e.into_inner());
        if entries.len() >= MOST {
            let oldest = entries.iter().enumerate().min_by_key(|(_, e)| e.used.load(Ordering::Relaxed));
            if let Some((i, _)) = oldest {
                entries.swap_remove(i);
            }
        }
        entries.push(entry.clone());
        self.last.store(entries.len() - 1, Ordering::Relaxed);
        entry
    }

    /// The reasons why arguments with this key match no program: the differences from the most similar one.
    pub fn reason(&self, key: &Key) -> Vec<String> {
        let entries = self.entries.read().unwrap_or_else(|e| e.into_inner());
        let nearest = entries.iter().map(|e| key.differences(e)).min_by_key(Vec::len);
        nearest.unwrap_or_else(|| vec!["the first call".to_owned()])
    }

    /// The program that was compiled last.
    pub fn newest(&self) -> Option<Arc<Entry>> {
        self.entries.read().unwrap_or_else(|e| e.into_inner()).last().cloned()
    }

    /// The number of programs.
    pub fn len(&self) -> usize {
        self.entries.read().unwrap_or_else(|e| e.into_inner()).len()
    }

    /// Drops all programs.
    pub fn clear(&self) {
        self.entries.write().unwrap_or_else(|e| e.into_inner()).clear();
    }
}
