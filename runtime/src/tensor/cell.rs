//! The objects to which handles point: tensors in memory, and values of traces.

use super::{Tensor, View};
use crate::buffer::{Buffer, Sizes};
use crate::error::Error;
use crate::symbol::SymbolRef;
use crate::trace::{ProxyId, ProxyTy, Tag, TagSet};
use fulgurite_core::loc::Loc;
use fulgurite_core::{DType, TensorTy, Value};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, RwLock, Weak};

/// The kind of a cell's content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CellKind {
    /// A tensor.
    Tensor,
    /// A run-time number: it has rank 0, and is as weak in type promotion as a literal.
    Number,
    /// A random key: (seed, stream).
    Key,
}

/// A tensor in memory: a type that never changes, and data that writes replace.
pub struct Cell {
    kind: CellKind,
    dtype: DType,
    sizes: Sizes,
    tags: AtomicU64,
    /// The view that the cell is, if it was made as a view outside of traces.
    origin: OnceLock<Box<ViewCall>>,
    /// The views of the cell that were taken outside of traces.
    views: Mutex<Vec<Weak<Cell>>>,
    /// A lock that is held from read to write while the cell, or a view of its elements, is written.
    writer: Mutex<()>,
    /// The trace that was being recorded when the cell was made; 0 if there was none.
    maker: u64,
    /// Whether the maker wrote the cell and has ended; the written data belong to the maker's program.
    stale: AtomicBool,
    state: RwLock<State>,
}

thread_local! {
    /// The trace to which tensors made on this thread belong, that of a function or of one slice of a batch; 0 for
    /// none.
    static MAKER: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Sets the trace to which new tensors on this thread belong (0 for none), and returns the one before.
pub(crate) fn set_maker(trace: u64) -> u64 {
    MAKER.replace(trace)
}

struct State {
    buffer: Buffer,
    version: u64,
}

impl Cell {
    pub(super) fn new(kind: CellKind, buffer: Buffer) -> Cell {
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

    /// The kind of the content.
    pub fn kind(&self) -> CellKind {
        self.kind
    }
    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// The sizes, slowest axis first.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// The type in the form of traces.
    pub fn proxy_ty(&self) -> ProxyTy {
        match self.kind {
            CellKind::Tensor => ProxyTy::tensor(TensorTy::new(self.dtype, &self.sizes)),
            CellKind::Number => ProxyTy::Number(self.dtype),
            CellKind::Key => ProxyTy::Key,
        }
    }

    /// The tags, which values of traces that stand for the cell also have.
    pub fn tags(&self) -> TagSet {
        TagSet::from_bits(self.tags.load(Ordering::Relaxed))
    }
    pub(crate) fn add_tag(&self, tag: Tag) {
        self.tags.fetch_or(TagSet::EMPTY.with(tag).bits(), Ordering::Relaxed);
    }

    /// Notes that `view` is a view of this cell that was taken outside of traces by `alias`.
    pub(crate) fn note_view(self: &Arc<Cell>, view: &Arc<Cell>, alias: ViewCall) {
        if view.origin.set(Box::new(alias)).is_ok() {
            self.links().push(Arc::downgrade(view));
        }
    }

    fn links(&self) -> MutexGuard<'_, Vec<Weak<Cell>>> {
        self.views.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The views of the cell that still exist.
    pub(crate) fn live_views(&self) -> Vec<Arc<Cell>> {
        let mut links = self.links();
        links.retain(|link| link.strong_count() > 0);
        links.iter().filter_map(Weak::upgrade).collect()
    }

    /// The call that took the view, and its base, if the cell is a view.
    pub(crate) fn origin(&self) -> Option<(&ViewCall, &Arc<Cell>)> {
        let alias = self.origin.get()?;
        match alias.base()?.view() {
            View::Cell(base) => Some((alias, base)),
            _ => None,
        }
    }

    pub(super) fn into_origin(self) -> Option<Box<ViewCall>> {
        self.origin.into_inner()
    }

    /// The base at the end of the chain of views; the cell itself, if it is not a view.
    pub(crate) fn root(self: &Arc<Cell>) -> &Arc<Cell> {
        let mut root = self;
        while let Some((_, base)) = root.origin() {
            root = base;
        }
        root
    }

    /// Whether other cells show elements of this one.
    pub(crate) fn is_shared(&self) -> bool {
        self.origin.get().is_some() || !self.live_views().is_empty()
    }

    /// Runs `f` while no other thread writes this cell.
    pub(crate) fn exclusively<T>(&self, f: impl FnOnce() -> T) -> T {
        let _writer = self.writer.lock().unwrap_or_else(|e| e.into_inner());
        f()
    }

    /// The trace that was being recorded when the cell was made; 0 if there was none.
    pub(crate) fn maker(&self) -> u64 {
        self.maker
    }

    /// A new cell with the present data, to which no handle points.
    pub(crate) fn snapshot(&self) -> Cell {
        let cell = Cell::new(self.kind, self.buffer());
        cell.tags.store(self.tags.load(Ordering::Relaxed), Ordering::Relaxed);
        cell
    }

    /// Marks the present data as known only to the maker's program.
    pub(crate) fn mark_stale(&self) {
        self.stale.store(true, Ordering::Relaxed);
    }

    /// Checks that the data are those that were written last.
    ///
    /// # Errors
    /// E740 outside of a traced function, for a tensor that was made and written while the function was traced.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !self.stale.load(Ordering::Relaxed) {
            return Ok(());
        }
        let claim = "this tensor was made and written while a function was traced, and the trace has ended";
        Err(Error::new("E740", claim)
            .note("each call of the compiled function begins with the tensor's first value")
            .help("return it from the function, or make it outside and pass or capture it"))
    }

    /// A share of the present data.
    pub fn buffer(&self) -> Buffer {
        self.state.read().unwrap_or_else(|e| e.into_inner()).buffer.clone()
    }

    /// The number of times that the data were replaced.
    pub fn version(&self) -> u64 {
        self.state.read().unwrap_or_else(|e| e.into_inner()).version
    }

    /// Replaces the data, and returns the old ones.
    ///
    /// **Invariant:** the type stays; callers check it (for a trace's epilogue it holds by construction).
    pub(crate) fn replace(&self, buffer: Buffer) -> Buffer {
        debug_assert!(buffer.dtype() == self.dtype && buffer.shape() == self.sizes.as_slice());
        let mut state = self.state.write().unwrap_or_else(|e| e.into_inner());
        state.version += 1;
        std::mem::replace(&mut state.buffer, buffer)
    }

    /// Takes the data out; the cell must get them back, or other data, before its next use.
    pub(crate) fn lend(&mut self) -> Buffer {
        static HOLLOW: LazyLock<Option<Buffer>> = LazyLock::new(|| Buffer::zeros(DType::U8, &[0]).ok());
        let state = self.state.get_mut().unwrap_or_else(|e| e.into_inner());
        match &*HOLLOW {
            Some(hollow) => std::mem::replace(&mut state.buffer, hollow.clone()),
            None => state.buffer.clone(),
        }
    }

    /// Returns data that were lent.
    pub(crate) fn give_back(&mut self, buffer: Buffer) {
        self.state.get_mut().unwrap_or_else(|e| e.into_inner()).buffer = buffer;
    }

    /// Like [`Cell::replace`], without a lock, because the cell is not shared.
    pub(crate) fn replace_mut(&mut self, buffer: Buffer) -> Buffer {
        let state = self.state.get_mut().unwrap_or_else(|e| e.into_inner());
        state.version += 1;
        std::mem::replace(&mut state.buffer, buffer)
    }
}

/// The identity of a trace to which handles belong; the handles of a trace share it.
pub struct TraceToken {
    id: u64,
    open: AtomicBool,
}

impl TraceToken {
    pub(crate) fn new() -> Arc<TraceToken> {
        // 0 stands for no trace
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Arc::new(TraceToken { id: NEXT.fetch_add(1, Ordering::Relaxed), open: AtomicBool::new(true) })
    }

    /// A number that is unique within the process.
    pub fn id(&self) -> u64 {
        self.id
    }
    /// Whether the trace is still being recorded, on any thread.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }
    pub(crate) fn close(&self) {
        self.open.store(false, Ordering::Release);
    }
}

/// A value of a trace.
pub struct Traced {
    token: Arc<TraceToken>,
    /// The proxy of the current version; writes replace it for all clones of the handle.
    proxy: AtomicU32,
    ty: ProxyTy,
    alias: Option<Box<ViewCall>>,
    /// For a view, the proxy of the base of which `proxy` is the view.
    of: AtomicU32,
    /// For a view, the count of writes on this thread at which `of` was last known to be current.
    seen: AtomicU64,
}

/// The call by which a view was taken; a write to the view or the base is seen by both.
pub struct ViewCall {
    /// The row that took the view.
    pub symbol: SymbolRef,
    /// The arguments; the first tensor among them is the base. Of others, a view reads the sizes alone.
    pub args: Vec<Value<Tensor>>,
    /// The number of the view among the results.
    pub at: usize,
    /// The place of the call.
    pub loc: Loc,
}

impl ViewCall {
    /// The base.
    pub fn base(&self) -> Option<&Tensor> {
        self.args.iter().find_map(|arg| match arg {
            Value::Tensor(t) => Some(t),
            _ => None,
        })
    }

    /// These arguments, with another base.
    pub fn with_base<T: Clone>(args: &[Value<T>], base: T) -> Vec<Value<T>> {
        let mut base = Some(base);
        args.iter().map(|arg| arg.map(&mut |other| base.take().unwrap_or_else(|| other.clone()))).collect()
    }
}

impl Drop for ViewCall {
    /// A view holds its base, which may be a view too. The chain is dropped link by link, so that a long one does not
    /// overflow the stack.
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
    /// The number of writes to values of traces on this thread.
    static WRITES: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Notes a write to a value of a trace, after which views of the value may have to be taken again.
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

    /// Makes the value a view of the base's proxy `of`.
    pub(super) fn aliasing(self, alias: ViewCall, of: ProxyId) -> Traced {
        Traced { alias: Some(Box::new(alias)), of: AtomicU32::new(of.0), seen: AtomicU64::new(WRITES.get()), ..self }
    }

    /// Whether no value was written since the view was found to be current.
    pub(crate) fn is_current(&self) -> bool {
        self.seen.load(Ordering::Relaxed) == WRITES.get()
    }

    pub(super) fn into_alias(self) -> Option<Box<ViewCall>> {
        self.alias
    }

    /// The proxy of the base from which the view was last taken.
    pub(crate) fn of(&self) -> ProxyId {
        ProxyId(self.of.load(Ordering::Relaxed))
    }

    /// Notes that the handle is now the view of this proxy of the base.
    pub(crate) fn set_of(&self, base: ProxyId) {
        self.of.store(base.0, Ordering::Relaxed);
        self.seen.store(WRITES.get(), Ordering::Relaxed);
    }

    /// The call by which the view was taken, if the value is a view.
    pub(crate) fn alias(&self) -> Option<&ViewCall> {
        self.alias.as_deref()
    }
    /// The trace to which the value belongs.
    pub fn token(&self) -> &TraceToken {
        &self.token
    }
    pub(super) fn shared_token(&self) -> &Arc<TraceToken> {
        &self.token
    }
    /// The proxy for which the handle stands now.
    pub fn proxy(&self) -> ProxyId {
        ProxyId(self.proxy.load(Ordering::Relaxed))
    }
    /// The type.
    pub fn ty(&self) -> &ProxyTy {
        &self.ty
    }
    pub(crate) fn set_proxy(&self, proxy: ProxyId) {
        self.proxy.store(proxy.0, Ordering::Relaxed);
    }
}

/// The error of a write to a view by this row, because the view shows an element several times.
pub(crate) fn shows_twice(view: &str) -> Error {
    let claim = format!("a view by `{view}` shows elements several times, so it can't be written");
    Error::new("E714", claim).help("write to the tensor that it is a view of, or to a copy")
}
