//! What handles point to: tensors in memory, and values of traces.

use super::{Tensor, View};
use crate::buffer::{Buffer, Sizes};
use crate::error::Error;
use crate::symbol::SymbolRef;
use crate::trace::{ProxyId, ProxyTy, Tag, TagSet};
use fulgurite_core::loc::Loc;
use fulgurite_core::{DType, TensorTy, Value};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, RwLock, Weak};

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
    /// What it is a view of, if it was made so outside of traces.
    origin: OnceLock<Box<Alias>>,
    /// The views that were taken of it outside of traces.
    views: Mutex<Vec<Weak<Cell>>>,
    /// Held from the read to the write by who writes it or a view of the same elements.
    writer: Mutex<()>,
    /// The trace in whose recording it was made; 0: none.
    maker: u64,
    /// Whether its maker wrote it and has ended: what was written belongs to that program.
    stale: AtomicBool,
    state: RwLock<State>,
}

thread_local! {
    /// The trace that tensors made on this thread belong to: that of a function, or of one slice of a batch; 0: none.
    static MAKER: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// From now on tensors made on this thread belong to the trace with this number; 0: to none. Gives the one before.
pub(crate) fn set_maker(trace: u64) -> u64 {
    MAKER.replace(trace)
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
            origin: OnceLock::new(),
            views: Mutex::default(),
            writer: Mutex::default(),
            maker: MAKER.get(),
            stale: AtomicBool::new(false),
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

    /// Notes that `view` was taken of this outside of traces: `alias` says how.
    pub(crate) fn note_view(self: &Arc<Cell>, view: &Arc<Cell>, alias: Alias) {
        if view.origin.set(Box::new(alias)).is_ok() {
            self.links().push(Arc::downgrade(view));
        }
    }

    fn links(&self) -> MutexGuard<'_, Vec<Weak<Cell>>> {
        self.views.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The views of it that are still held.
    pub(crate) fn live_views(&self) -> Vec<Arc<Cell>> {
        let mut links = self.links();
        links.retain(|link| link.strong_count() > 0);
        links.iter().filter_map(Weak::upgrade).collect()
    }

    /// What it is a view of, and how it was taken.
    pub(crate) fn origin(&self) -> Option<(&Alias, &Arc<Cell>)> {
        let alias = self.origin.get()?;
        match alias.base()?.view() {
            View::Cell(base) => Some((alias, base)),
            _ => None,
        }
    }

    pub(super) fn into_origin(self) -> Option<Box<Alias>> {
        self.origin.into_inner()
    }

    /// The cell of which it is a view in the end: itself, if it is none.
    pub(crate) fn root(self: &Arc<Cell>) -> &Arc<Cell> {
        let mut root = self;
        while let Some((_, base)) = root.origin() {
            root = base;
        }
        root
    }

    /// Whether other cells show the same elements.
    pub(crate) fn is_shared(&self) -> bool {
        self.origin.get().is_some() || !self.live_views().is_empty()
    }

    /// What `f` gives while nobody else writes this cell.
    pub(crate) fn exclusively<T>(&self, f: impl FnOnce() -> T) -> T {
        let _writer = self.writer.lock().unwrap_or_else(|e| e.into_inner());
        f()
    }

    /// The trace in whose recording it was made; 0: none.
    pub(crate) fn maker(&self) -> u64 {
        self.maker
    }

    /// A cell with the data of now that no handle reaches.
    pub(crate) fn snapshot(&self) -> Cell {
        let cell = Cell::new(self.kind, self.buffer());
        cell.tags.store(self.tags.load(Ordering::Relaxed), Ordering::Relaxed);
        cell
    }

    /// What its maker wrote to it is known to the maker's program alone.
    pub(crate) fn mark_stale(&self) {
        self.stale.store(true, Ordering::Relaxed);
    }

    /// Whether its data are what was written last.
    ///
    /// # Errors
    /// E740 for a tensor that was made and written while a function was traced, outside of that function.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !self.stale.load(Ordering::Relaxed) {
            return Ok(());
        }
        let claim = "this tensor was made and written while a function was traced, and the trace has ended";
        Err(Error::new("E740", claim)
            .note("each call of the compiled function begins with the tensor's first value")
            .help("return it from the function, or make it outside and pass or capture it"))
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
        // 0 is the number of no trace
        static NEXT: AtomicU64 = AtomicU64::new(1);
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
    /// Of a view: the proxy of the base of which `proxy` is the view.
    of: AtomicU32,
    /// Of a view: the writes of this thread up to which that is known.
    seen: AtomicU64,
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

impl Drop for Alias {
    /// A view holds its base, which may be a view too: a chain of them is let go link by link, however long it is.
    fn drop(&mut self) {
        let mut held = std::mem::take(&mut self.args);
        while let Some(arg) = held.pop() {
            if let Value::Tensor(tensor) = arg
                && let Some(mut alias) = tensor.into_alias()
            {
                held.append(&mut alias.args);
            }
        }
    }
}

thread_local! {
    /// How often values of traces were written on this thread.
    static WRITES: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Notes that a value of a trace is written: views of it may have to be taken again.
pub(crate) fn note_write() {
    WRITES.set(WRITES.get() + 1);
}

impl Traced {
    pub(super) fn new(token: &Arc<TraceToken>, proxy: ProxyId, ty: ProxyTy) -> Traced {
        Traced {
            token: token.clone(),
            proxy: AtomicU32::new(proxy.0),
            ty,
            alias: None,
            of: AtomicU32::new(0),
            seen: AtomicU64::new(0),
        }
    }

    /// The same as a view of the base's proxy `of`.
    pub(super) fn aliasing(self, alias: Alias, of: ProxyId) -> Traced {
        Traced { alias: Some(Box::new(alias)), of: AtomicU32::new(of.0), seen: AtomicU64::new(WRITES.get()), ..self }
    }

    /// Whether nothing was written since it was found to be the view of its base as it is now.
    pub(crate) fn is_current(&self) -> bool {
        self.seen.load(Ordering::Relaxed) == WRITES.get()
    }

    pub(super) fn into_alias(self) -> Option<Box<Alias>> {
        self.alias
    }

    /// The proxy of the base of which it is the view now.
    pub(crate) fn of(&self) -> ProxyId {
        ProxyId(self.of.load(Ordering::Relaxed))
    }

    /// It is the view of this proxy of the base now.
    pub(crate) fn set_of(&self, base: ProxyId) {
        self.of.store(base.0, Ordering::Relaxed);
        self.seen.store(WRITES.get(), Ordering::Relaxed);
    }

    /// What it is a view of, if it is one.
    pub(crate) fn alias(&self) -> Option<&Alias> {
        self.alias.as_deref()
    }
    /// The trace that it belongs to.
    pub fn token(&self) -> &TraceToken {
        &self.token
    }
    pub(super) fn shared_token(&self) -> &Arc<TraceToken> {
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

/// The error of a write to a view by this row that shows an element several times.
pub(crate) fn shows_twice(view: &str) -> Error {
    let claim = format!("a view by `{view}` shows elements several times, so it can't be written");
    Error::new("E714", claim).help("write to the tensor that it is a view of, or to a copy")
}
