//! The append-only store that all traces of one acquisition share: proxies with unique names, regions, counters.
//!
//! **Invariant:** the name and type of a proxy in a finished trace stay readable. A transform that changes a type
//! (autocast) opens a new epoch, and older traces look up the types of their own epochs.

use super::control::Control;
use super::pieces::Pieces;
use super::tag::{Tag, TagSet};
use super::types::{
    BoundSymbol, BoundSymbolId, KnownBody, OwnRule, Proxy, ProxyId, ProxyTy, Region, RegionId, RegionKind,
};
use crate::error::Error;
use crate::symbol::{Port, SymbolRef};
use fulgurite_core::loc::Loc;
use fulgurite_core::signature::ArgTy;
use fulgurite_core::{DType, Name, TensorTy, Value};
use rustc_hash::FxHashMap;
use std::any::Any;
use std::cell::{RefCell, RefMut};
use std::rc::Rc;

/// Names that values cannot have, because printed traces use these words otherwise.
const RESERVED: [&str; 6] = ["true", "false", "nan", "inf", "_", "return"];

/// The store of one acquisition.
pub struct Arena {
    inner: RefCell<Inner>,
    bodies: RefCell<KnownBodies>,
    own: RefCell<Vec<Rc<OwnRule>>>,
    control: RefCell<Vec<Rc<Control>>>,
    parts: RefCell<Parts>,
    /// The executors of the program, by name, in the order in which they are asked.
    executors: RefCell<Vec<&'static str>>,
    /// Kernels of lines that executors claimed whole; the code that keeps one knows its type.
    kernels: RefCell<FxHashMap<BoundSymbolId, Rc<dyn Any>>>,
}

/// The fields of tensors of subclasses: for each tensor its fields, and for each field that was taken out of a tensor
/// the field that it equals.
#[derive(Default)]
struct Parts {
    of: FxHashMap<ProxyId, Vec<ProxyId>>,
    is: FxHashMap<ProxyId, ProxyId>,
}

/// Known bodies, by the addresses of symbol and solved signature.
pub(crate) type KnownBodies = FxHashMap<(usize, usize), KnownBody>;

struct Inner {
    proxies: Pieces<Proxy>,
    regions: Vec<Region>,
    /// Every name in use, with the next number for names derived from it.
    names: FxHashMap<Rc<str>, u32>,
    /// Types that were changed: the proxy, the last epoch in which it had the type, and the type.
    retyped: Vec<(ProxyId, u32, ProxyTy)>,
    epoch: u32,
    /// For each bound symbol, the operator that it applies; messages name lines that a trace has lost since.
    ops: Vec<&'static str>,
    /// Symbolic sizes, with their values in the call that is traced.
    atoms: Vec<(String, i64)>,
}

impl Arena {
    /// An empty store with its root region.
    pub fn new() -> Rc<Arena> {
        let root =
            Region { id: RegionId(0), parent: None, kind: RegionKind::Root, tags: TagSet::EMPTY, loc: Loc::NOWHERE };
        let names = RESERVED.iter().map(|w| (Rc::from(*w), 1)).collect();
        let inner = Inner {
            proxies: Pieces::default(),
            regions: vec![root],
            names,
            retyped: Vec::new(),
            epoch: 0,
            ops: Vec::new(),
            atoms: Vec::new(),
        };
        Rc::new(Arena {
            inner: RefCell::new(inner),
            bodies: RefCell::default(),
            own: RefCell::default(),
            control: RefCell::default(),
            parts: RefCell::default(),
            executors: RefCell::default(),
            kernels: RefCell::default(),
        })
    }

    /// The number of proxies; the numbers of proxies are smaller.
    pub fn len(&self) -> usize {
        self.inner.borrow().proxies.len()
    }

    /// Whether there are no proxies.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    // ------------------------------------------------------------ proxies

    /// Adds a proxy, called `hint` or, if that is taken, `hint.1`, `hint.2`, ….
    pub fn proxy(&self, hint: &str, ty: ProxyTy) -> ProxyId {
        let mut inner = self.inner.borrow_mut();
        let name = inner.fresh_name(hint);
        inner.push(name, ty)
    }

    /// Adds a proxy with exactly this name.
    ///
    /// # Errors
    /// E731 if the name is taken or reserved.
    pub fn proxy_named(&self, name: &str, ty: ProxyTy) -> Result<ProxyId, Error> {
        let mut inner = self.inner.borrow_mut();
        if inner.names.contains_key(name) {
            return Err(Error::new("E731", format!("the name `{name}` is taken")));
        }
        let name: Rc<str> = Rc::from(name);
        inner.names.insert(name.clone(), 1);
        Ok(inner.push(name, ty))
    }

    /// The present type of a proxy, after all changes.
    pub fn ty(&self, id: ProxyId) -> ProxyTy {
        self.inner.borrow().proxies[id.0 as usize].ty.clone()
    }

    /// The result of `f` on the type of a proxy.
    pub fn with_ty<R>(&self, id: ProxyId, f: impl FnOnce(&ProxyTy) -> R) -> R {
        f(&self.inner.borrow().proxies[id.0 as usize].ty)
    }

    /// The type of a proxy in a trace of this epoch.
    pub fn ty_at(&self, id: ProxyId, epoch: u32) -> ProxyTy {
        let inner = self.inner.borrow();
        let old = inner.retyped.iter().find(|(p, until, _)| *p == id && epoch <= *until);
        old.map_or_else(|| inner.proxies[id.0 as usize].ty.clone(), |(_, _, ty)| ty.clone())
    }

    /// The type of a proxy in the form that signatures take.
    pub fn arg_ty(&self, id: ProxyId) -> ArgTy {
        self.inner.borrow().proxies[id.0 as usize].ty.arg_ty()
    }

    /// The tensor type of a proxy, if it is a tensor.
    pub fn tensor_ty(&self, id: ProxyId) -> Option<TensorTy> {
        self.inner.borrow().proxies[id.0 as usize].ty.as_tensor().cloned()
    }

    /// Whether a proxy is a tensor of floats, which can have a gradient.
    pub fn is_float(&self, id: ProxyId) -> bool {
        matches!(self.inner.borrow().proxies[id.0 as usize].ty.as_tensor(), Some(t) if t.dtype.has_gradient())
    }

    /// The name of a proxy.
    pub fn name(&self, id: ProxyId) -> Rc<str> {
        self.inner.borrow().proxies[id.0 as usize].name.clone()
    }

    /// Renames a proxy to `hint` (or `hint.1`, …). The proxy must not be in a finished trace yet.
    pub fn rename(&self, id: ProxyId, hint: &str) {
        let mut inner = self.inner.borrow_mut();
        let old = inner.proxies[id.0 as usize].name.clone();
        if &*old == hint {
            return;
        }
        // if the old name had the last number of its base, the next name may have that number, so that numbers stay
        // dense
        inner.names.remove(&old);
        if let Some((base, number)) = split_number(&old)
            && let Some(next) = inner.names.get_mut(base)
            && *next == number + 1
        {
            *next = number;
        }
        let name = inner.fresh_name(hint);
        inner.proxies[id.0 as usize].name = name;
    }

    /// Changes the type of a proxy from the next trace on; finished traces keep the old type.
    pub fn retype(&self, id: ProxyId, ty: ProxyTy) {
        let mut inner = self.inner.borrow_mut();
        let epoch = inner.epoch;
        let old = std::mem::replace(&mut inner.proxies[id.0 as usize].ty, ty);
        inner.retyped.push((id, epoch, old));
    }

    /// The epoch of a trace that is finished now. Later changes of types don't affect it.
    pub(crate) fn close_epoch(&self) -> u32 {
        let mut inner = self.inner.borrow_mut();
        if inner.retyped.last().is_some_and(|(_, epoch, _)| *epoch == inner.epoch) {
            inner.epoch += 1;
        }
        inner.epoch
    }

    /// The tags of a proxy.
    pub fn tags(&self, id: ProxyId) -> TagSet {
        self.inner.borrow().proxies[id.0 as usize].tags
    }

    /// Replaces the tags of a proxy.
    pub fn set_tags(&self, id: ProxyId, tags: TagSet) {
        self.inner.borrow_mut().proxies[id.0 as usize].tags = tags;
    }

    // ------------------------------------------------------------ regions

    /// Adds a region inside `parent`.
    pub fn add_region(&self, parent: RegionId, kind: RegionKind, loc: Loc) -> RegionId {
        let mut inner = self.inner.borrow_mut();
        let id = RegionId(inner.regions.len() as u32);
        let tags = kind.tag().map_or(TagSet::EMPTY, |t| TagSet::EMPTY.with(t));
        inner.regions.push(Region { id, parent: Some(parent), kind, tags, loc });
        id
    }

    /// Adds tags to a region.
    pub fn add_region_tags(&self, id: RegionId, tags: TagSet) {
        let mut inner = self.inner.borrow_mut();
        let region = &mut inner.regions[id.0 as usize];
        region.tags = region.tags.union(tags);
    }

    /// The region with this number.
    pub fn region(&self, id: RegionId) -> Region {
        self.inner.borrow().regions[id.0 as usize].clone()
    }

    /// The regions around a line in `id`, innermost first, up to but without `root`.
    pub fn region_chain(&self, id: RegionId, root: RegionId) -> Vec<RegionId> {
        self.inner.borrow().chain(id, root).map(|(id, _)| id).take_while(|id| *id != RegionId(0)).collect()
    }

    /// The region that switches gradients off at `id`, if one does; the innermost region that decides gradients counts.
    pub fn no_grad_region(&self, id: RegionId, root: RegionId) -> Option<RegionId> {
        let decides = |(id, region): (RegionId, &Region)| match region.kind {
            RegionKind::NoGrad => Some(Some(id)),
            RegionKind::EnableGrad => Some(None),
            _ => None,
        };
        self.inner.borrow().chain(id, root).find_map(decides).flatten()
    }

    /// The autocast dtype of lines of the region; the innermost region that sets autocast counts.
    pub fn autocast(&self, id: RegionId, root: RegionId) -> Option<DType> {
        let sets = |(_, region): (RegionId, &Region)| match region.kind {
            RegionKind::Autocast(dtype) => Some(dtype),
            _ => None,
        };
        self.inner.borrow().chain(id, root).find_map(sets).flatten()
    }

    /// The tags of a line: its own, and those of the regions around it.
    pub fn effective_tags(&self, line: &BoundSymbol, root: RegionId) -> TagSet {
        let inner = self.inner.borrow();
        inner.chain(line.region, root).fold(line.own_tags, |tags, (_, region)| tags.union(region.tags))
    }

    /// Bodies that lines may share.
    pub(crate) fn known_bodies(&self) -> RefMut<'_, KnownBodies> {
        self.bodies.borrow_mut()
    }

    /// Adds a custom backward; returns its number.
    pub(crate) fn add_rule(&self, rule: Rc<OwnRule>) -> usize {
        let mut rules = self.own.borrow_mut();
        rules.push(rule);
        rules.len() - 1
    }

    /// The custom backward with this number.
    pub(crate) fn rule(&self, number: usize) -> Option<Rc<OwnRule>> {
        self.own.borrow().get(number).cloned()
    }

    /// Adds the programs of a line of control flow; returns their number.
    pub(crate) fn add_control(&self, control: Rc<Control>) -> usize {
        let mut all = self.control.borrow_mut();
        all.push(control);
        all.len() - 1
    }

    /// The programs of a line of control flow, if it is one of this arena.
    pub(crate) fn control(&self, line: &BoundSymbol) -> Option<Rc<Control>> {
        let Some(Value::Num(number)) = line.args.last().filter(|_| line.symbol.is_control()) else { return None };
        self.control.borrow().get(usize::try_from(number.as_i64()).ok()?).cloned()
    }

    // ------------------------------------------------------------ fields of subclasses

    /// Notes the fields that a line defines: it makes a tensor of fields, takes a field out, or is a call whose body
    /// does.
    pub(crate) fn note_parts(&self, line: &BoundSymbol) {
        let mut parts = self.parts.borrow_mut();
        match (line.symbol.port(), &line.dispatch) {
            (Some((_, Port::Unflatten)), _) => {
                let mut fields = Vec::new();
                line.for_each_arg(|p| fields.push(parts.is.get(&p).copied().unwrap_or(p)));
                parts.of.insert(line.outs[0], fields);
            }
            (Some((_, Port::Flatten)), _) => {
                let Some(Value::Tensor(x)) = line.args.first() else { return };
                match parts.of.get(x).cloned() {
                    Some(fields) => parts.is.extend(line.outs.iter().copied().zip(fields)),
                    None => _ = parts.of.insert(*x, line.outs.clone()),
                }
            }
            (_, Some(body)) => {
                for (outer, inner) in line.outs.iter().zip(&body.outs) {
                    if let Some(fields) = parts.of.get(inner).cloned() {
                        parts.of.insert(*outer, fields);
                    }
                }
            }
            _ => {}
        }
    }

    /// The field of a tensor of a subclass as a value for comparisons; it may be a value of a body.
    pub(crate) fn part(&self, of: ProxyId, field: Name) -> Option<ProxyId> {
        let at = self.with_ty(of, |ty| ty.subclass()?.fields.iter().position(|(f, _)| *f == field))?;
        self.parts.borrow().of.get(&of)?.get(at).copied()
    }

    /// The executors of the program, by name, in the order in which they are asked.
    pub(crate) fn executors(&self) -> Vec<&'static str> {
        self.executors.borrow().clone()
    }

    /// Keeps the kernel of a line.
    pub(crate) fn keep_kernel(&self, id: BoundSymbolId, kernel: Rc<dyn Any>) {
        self.kernels.borrow_mut().insert(id, kernel);
    }

    /// The kernel that was kept for a line.
    pub(crate) fn kernel(&self, id: BoundSymbolId) -> Option<Rc<dyn Any>> {
        self.kernels.borrow().get(&id).cloned()
    }

    pub(crate) fn set_executors(&self, names: Vec<&'static str>) {
        *self.executors.borrow_mut() = names;
    }

    // ------------------------------------------------------------ counters

    /// The number of the next bound symbol.
    pub(crate) fn next_line(&self, symbol: SymbolRef) -> BoundSymbolId {
        let mut inner = self.inner.borrow_mut();
        inner.ops.push(symbol.name());
        BoundSymbolId(inner.ops.len() as u32 - 1)
    }

    /// The number of a bound symbol that is in no trace of the arena; only its operator is known.
    pub(crate) fn next_line_of(&self, op: &'static str) -> BoundSymbolId {
        let mut inner = self.inner.borrow_mut();
        inner.ops.push(op);
        BoundSymbolId(inner.ops.len() as u32 - 1)
    }

    /// Adds a symbolic size of the program with its present value. No value gets its name.
    pub(crate) fn add_atom(&self, name: &str, value: i64) {
        let mut inner = self.inner.borrow_mut();
        inner.names.entry(Rc::from(name)).or_insert(1);
        inner.atoms.push((name.to_owned(), value));
    }

    /// The symbolic sizes of the program, with their present values.
    pub fn atoms(&self) -> Vec<(String, i64)> {
        self.inner.borrow().atoms.clone()
    }

    /// The operator that a bound symbol of any trace of the arena applies.
    pub(crate) fn op(&self, id: BoundSymbolId) -> Option<&'static str> {
        self.inner.borrow().ops.get(id.0 as usize).copied()
    }
}

impl Inner {
    /// The regions from `id` outwards, up to but without `root`.
    fn chain(&self, id: RegionId, root: RegionId) -> impl Iterator<Item = (RegionId, &Region)> {
        let inside = move |id: &RegionId| *id != root;
        let around = move |id: &RegionId| self.regions[id.0 as usize].parent.filter(inside);
        std::iter::successors(Some(id).filter(inside), around).map(|id| (id, &self.regions[id.0 as usize]))
    }

    fn push(&mut self, name: Rc<str>, ty: ProxyTy) -> ProxyId {
        let id = ProxyId(self.proxies.len() as u32);
        self.proxies.push(Proxy { id, name, ty, tags: TagSet::EMPTY });
        id
    }

    fn fresh_name(&mut self, hint: &str) -> Rc<str> {
        let hint = if hint.is_empty() { "t" } else { hint };
        if !self.names.contains_key(hint) {
            let name: Rc<str> = Rc::from(hint);
            self.names.insert(name.clone(), 1);
            return name;
        }
        let base = split_number(hint).map_or(hint, |(base, _)| base);
        let mut number = *self.names.entry(Rc::from(base)).or_insert(1);
        loop {
            let name: Rc<str> = Rc::from(format!("{base}.{number}"));
            number += 1;
            if !self.names.contains_key(&name) {
                self.names.insert(name.clone(), 1);
                if let Some(next) = self.names.get_mut(base) {
                    *next = number;
                }
                return name;
            }
        }
    }
}

/// Splits a name: `y.3` is (`y`, 3).
fn split_number(name: &str) -> Option<(&str, u32)> {
    let (base, number) = name.rsplit_once('.')?;
    if base.is_empty() || number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some((base, number.parse().ok()?))
}

impl RegionKind {
    /// The tag of regions of this kind.
    pub fn tag(&self) -> Option<Tag> {
        match self {
            RegionKind::Root | RegionKind::Named(_) => None,
            RegionKind::NoGrad => Some(Tag::NO_GRAD),
            RegionKind::EnableGrad => Some(Tag::ENABLE_GRAD),
            RegionKind::Checkpoint => Some(Tag::CHECKPOINT),
            RegionKind::Autocast(_) => Some(Tag::AUTOCAST),
            RegionKind::Tagged(tag) => Some(*tag),
        }
    }
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Arena of {} proxies", self.len())
    }
}
