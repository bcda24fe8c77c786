//! What handles point to: tensors in memory, and values of traces.

use super::Tensor;
use crate::buffer::{Buffer, Sizes};
use crate::error::Error;
use crate::symbol::SymbolRef;
use crate::trace::{ProxyId, ProxyTy, Tag, TagSet};
use fulgurite_core::loc::Loc;
use fulgurite_core::{DType, TensorTy, Value};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, RwLock, Weak};

/// What a cell holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A tensor.
    Tensor,
    /// A run-time number: rank 0, and weak in type promotion as a literal is.
    Number,
    /// A random key: (seed, stream).
    Key,
}

/// A tensor in memory: a type for life, and data that a write replaces.
pub struct Cell {
    kind: Kind,
    dtype: DType,
    sizes: Sizes,
    tags: AtomicU64,
    /// Cells with copies of the same elements: views that were taken outside of traces, and what they are of.
    views: Mutex<Vec<Weak<Cell>>>,
    state: RwLock<State>,
}

struct State {
    buffer: Buffer,
    version: u64,
}

impl Cell {
    pub(super) fn new(kind: Kind, buffer: Buffer) -> Cell {
        let sizes = Sizes::from_slice(buffer.shape());
        Cell {
            kind,
            dtype: buffer.dtype(),
            sizes,
            tags: AtomicU64::new(0),
            views: Mutex::default(),
            state: RwLock::new(State { buffer, version: 0 }),
        }
    }

    /// What it holds.
    pub fn kind(&self) -> Kind {
        self.kind
    }
    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// Sizes, slowest axis first.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Its type as traces see it.
    pub fn proxy_ty(&self) -> ProxyTy {
        match self.kind {
            Kind::Tensor => ProxyTy::tensor(TensorTy::new(self.dtype, &self.sizes)),
            Kind::Number => ProxyTy::Number(self.dtype),
            Kind::Key => ProxyTy::Key,
        }
    }

    /// Its tags, which the values of traces that stand for it have.
    pub fn tags(&self) -> TagSet {
        TagSet::from_bits(self.tags.load(Ordering::Relaxed))
    }
    pub(crate) fn add_tag(&self, tag: Tag) {
        self.tags.fetch_or(TagSet::EMPTY.with(tag).bits(), Ordering::Relaxed);
    }

    /// Notes that `view` was taken of this outside of traces, where it is a copy: neither may be written while both are
    /// held, for the other would not see it.
    pub(crate) fn note_view(self: &Arc<Cell>, view: &Arc<Cell>) {
        let mut family = self.live_views();
        family.push(self.clone());
        for other in family {
            other.links().push(Arc::downgrade(view));
            view.links().push(Arc::downgrade(&other));
        }
    }

    fn links(&self) -> MutexGuard<'_, Vec<Weak<Cell>>> {
        self.views.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn live_views(&self) -> Vec<Arc<Cell>> {
        let mut links = self.links();
        links.retain(|link| link.strong_count() > 0);
        links.iter().filter_map(Weak::upgrade).collect()
    }

    /// Refuses a write that a view, or what this is a view of, would not see.
    ///
    /// # Errors
    /// E749.
    pub(crate) fn may_be_written(&self) -> Result<(), Error> {
        if self.live_views().is_empty() {
            return Ok(());
        }
        let claim = "a tensor is written while a view of the same elements is held";
        Err(Error::new("E749", claim)
            .note("outside of compiled functions a view is a copy, so it would not see the write")
            .help("take the view and write inside of one function that `jit` compiles, or drop the view before"))
    }

    /// A share of the data as it is now.
    pub fn buffer(&self) -> Buffer {
        self.state.read().unwrap_or_else(|e| e.into_inner()).buffer.clone()
    }

    /// How often the data was replaced.
    pub fn version(&self) -> u64 {
        self.state.read().unwrap_or_else(|e| e.into_inner()).version
    }

    /// Replaces the data, and gives the old.
    ///
    /// **Invariant:** the type stays; callers check it (a trace's epilogue by construction).
    pub(crate) fn replace(&self, buffer: Buffer) -> Buffer {
        debug_assert!(buffer.dtype() == self.dtype && buffer.shape() == self.sizes.as_slice());
        let mut state = self.state.write().unwrap_or_else(|e| e.into_inner());
        state.version += 1;
        std::mem::replace(&mut state.buffer, buffer)
    }

    /// Takes the data out, for the only owner; until it gives them back, or other data, the cell is hollow.
    pub(crate) fn lend(&mut self) -> Buffer {
        static HOLLOW: LazyLock<Option<Buffer>> = LazyLock::new(|| Buffer::zeros(DType::U8, &[0]).ok());
        let state = self.state.get_mut().unwrap_or_else(|e| e.into_inner());
        match &*HOLLOW {
            Some(hollow) => std::mem::replace(&mut state.buffer, hollow.clone()),
            None => state.buffer.clone(),
        }
    }

    /// Gives back what was lent.
    pub(crate) fn give_back(&mut self, buffer: Buffer) {
        self.state.get_mut().unwrap_or_else(|e| e.into_inner()).buffer = buffer;
    }

    /// As [`Cell::replace`], for the only owner: without a lock.
    pub(crate) fn replace_mut(&mut self, buffer: Buffer) -> Buffer {
        let state = self.state.get_mut().unwrap_or_else(|e| e.into_inner());
        state.version += 1;
        std::mem::replace(&mut state.buffer, buffer)
    }
}

/// The traces that handles may belong to: one per open trace, shared by its handles.
pub struct TraceToken {
    id: u64,
    open: AtomicBool,
}

impl TraceToken {
    pub(crate) fn new() -> Arc<TraceToken> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Arc::new(TraceToken { id: NEXT.fetch_add(1, Ordering::Relaxed), open: AtomicBool::new(true) })
    }

    /// A number that no other trace of the process has.
    pub fn id(&self) -> u64 {
        self.id
    }
    /// Whether the trace is still being recorded (on whichever thread).
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }
    pub(crate) fn close(&self) {
        self.open.store(false, Ordering::Release);
    }
}

/// A value of a trace, and which.
pub struct Traced {
    token: Arc<TraceToken>,
    /// The current version's proxy; writes replace it for all clones of the handle.
    proxy: AtomicU32,
    ty: ProxyTy,
    alias: Option<Box<Alias>>,
}

/// What a handle is a view of: a write to either is seen by both.
pub struct Alias {
    /// The row that made the view.
    pub symbol: SymbolRef,
    /// Its arguments; the first tensor among them is the base.
    pub args: Vec<Value<Tensor>>,
    /// Which of its results it is.
    pub at: usize,
    /// The call.
    pub loc: Loc,
    /// The proxy of the base of which the handle's proxy is the view.
    pub of: AtomicU32,
}

impl Alias {
    /// The tensor of which it is a view.
    pub fn base(&self) -> Option<&Tensor> {
        self.args.iter().find_map(|arg| match arg {
            Value::Tensor(t) => Some(t),
            _ => None,
        })
    }
}

impl Traced {
    pub(super) fn new(token: &Arc<TraceToken>, proxy: ProxyId, ty: ProxyTy) -> Traced {
        Traced { token: token.clone(), proxy: AtomicU32::new(proxy.0), ty, alias: None }
    }

    /// The same as a view.
    pub(super) fn aliasing(self, alias: Alias) -> Traced {
        Traced { alias: Some(Box::new(alias)), ..self }
    }

    /// What it is a view of, if it is one.
    pub(crate) fn alias(&self) -> Option<&Alias> {
        self.alias.as_deref()
    }
    /// The trace that it belongs to.
    pub fn token(&self) -> &TraceToken {
        &self.token
    }
    /// The proxy that it stands for now.
    pub fn proxy(&self) -> ProxyId {
        ProxyId(self.proxy.load(Ordering::Relaxed))
    }
    /// Its type.
    pub fn ty(&self) -> &ProxyTy {
        &self.ty
    }
    pub(crate) fn set_proxy(&self, proxy: ProxyId) {
        self.proxy.store(proxy.0, Ordering::Relaxed);
    }
}
