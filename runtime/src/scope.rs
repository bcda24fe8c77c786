//! The traces that are open on this thread, in which calls of operators are recorded instead of run.
//!
//! The stack's first frame is an acquisition (a function that `jit` or `grad` traces); the frames above it are closures
//! that are differentiated inside it. All share one arena. Tensors in memory that occur while recording become *hidden
//! inputs*, found by their cell: compiled programs read them at each call, so they are never constants.
//!
//! **Invariant:** gradient mode, autocast and checkpoints of a trace are regions of it, not thread-local state. Tracing
//! keeps in thread-local state these stacks, the autocast dtype around calls that run at once, the list of guards
//! (core, `dim`), and in [`crate::tensor`] the maker of new tensors, the count of writes and the reason of poisoned
//! sizes.

use crate::bind::Builder;
use crate::error::Error;
use crate::symbol::{Port, Ports, SymbolRef};
use crate::tensor::{Tensor, TraceToken, View, ViewCall, note_write, set_maker};
use crate::trace::tag::save_at_all;
use crate::trace::{Carrier, Control, OwnRule, ProxyId, ProxyTy, RegionId, RegionKind, Tag, TagSet, Trace};
use crate::transforms::Pipeline;
use fulgurite_core::loc::Loc;
use fulgurite_core::{DType, TensorTy, Value};
use rustc_hash::FxHashSet;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

mod captures;
mod overlaps;
mod ruled;
mod subclass;
mod write;

pub(crate) use captures::{Captured, Source, program_writes};
pub use ruled::at_once;
pub(crate) use ruled::ruled;
pub(crate) use write::{assign, fail, leaves_among, overlap, place, write};

thread_local! {
    /// The stacks of this thread. A Rust function that is a rule of a tensor subclass runs on a stack of its own,
    /// because it runs while the stack below is being recorded on.
    static STACKS: RefCell<Vec<Stack>> = RefCell::new(vec![Stack::default()]);
}

type Stack = Rc<RefCell<Vec<Frame>>>;

/// The result of `f` on the stack of open traces.
fn with_stack<T>(f: impl FnOnce(&mut Vec<Frame>) -> T) -> T {
    let stack = STACKS.with_borrow(|stacks| stacks.last().cloned()).unwrap_or_default();
    let mut frames = stack.borrow_mut();
    f(&mut frames)
}

/// A trace under construction, with its captured values.
pub(crate) struct Frame {
    pub token: Arc<TraceToken>,
    pub builder: Builder,
    /// The values that were captured from outside.
    pub captured: Captured,
    /// The traces of closures inside, for the record of stages.
    pub inner: Vec<Made>,
    /// The options of the compiled function.
    pipeline: Arc<Pipeline>,
    /// The number of first inputs by which the trace is differentiated; they can be written only without gradients.
    pub leaves: usize,
    /// For a backward, the number of first inputs that the forward kept; cotangents follow.
    pub kept: usize,
    /// The inputs that a backward inside wrote.
    pub late: FxHashSet<usize>,
    /// Whether the trace is a program of a line, which may write nothing.
    pub program: bool,
    /// Whether the trace stands for one slice of a batch; all slices share the values of surrounding traces.
    pub slice: bool,
    /// The first write that failed, because the user may ignore the result of a write.
    pub failed: Option<Error>,
}

/// The trace of a closure, for the record of stages.
pub(crate) struct Made {
    pub name: &'static str,
    pub trace: Trace,
    pub time: Duration,
    pub remark: Option<String>,
}

/// An open trace. Dropping it closes it, and all traces that were opened inside and left open by a panic.
pub(crate) struct Open {
    depth: usize,
}

impl Open {
    /// Opens a trace on this thread.
    pub fn new(builder: Builder, pipeline: Arc<Pipeline>) -> Open {
        builder.arena().set_executors(pipeline.executors.clone());
        let frame = Frame {
            token: TraceToken::new(),
            builder,
            captured: Captured::default(),
            inner: Vec::new(),
            pipeline,
            leaves: 0,
            kept: 0,
            late: FxHashSet::default(),
            program: false,
            slice: false,
            failed: None,
        };
        with_stack(|stack| {
            stack.push(frame);
            note_maker(stack);
            Open { depth: stack.len() - 1 }
        })
    }

    /// Marks the trace as one slice of a batch.
    pub fn of_slice(&self) {
        with_stack(|stack| {
            stack[self.depth].slice = true;
            note_maker(stack);
        });
    }

    /// Opens a trace inside the innermost open one, if there is one.
    pub fn nested(name: &str) -> Option<Open> {
        let around = |f: &Frame| (f.builder.nested(name).autocasting(), f.pipeline.clone());
        let (builder, pipeline) = with_stack(|stack| stack.last().map(around))?;
        Some(Open::new(builder, pipeline))
    }

    /// Like [`Open::nested`], for a compiled function that is called there, with a pipeline of its own. The surrounding
    /// regions apply inside.
    pub fn called(name: &str, pipeline: &Arc<Pipeline>) -> Option<Open> {
        let inside = |f: &Frame| f.builder.nested(name).rooted(f.builder.root()).autocasting();
        let builder = with_stack(|stack| stack.last().map(inside))?;
        Some(Open::new(builder, pipeline.clone()))
    }

    /// Like [`Open::nested`], for a custom backward. It runs later, and values may be written until then, so every
    /// value that it reads of surrounding traces becomes an input.
    pub fn backward(name: &str) -> Option<Open> {
        let open = Open::nested(name)?;
        open.with(|frame| frame.captured.fresh = true);
        Some(open)
    }

    /// Like [`Open::backward`], for a program of a line in the regions around it. Returns the region of the line too.
    pub fn program(name: &str) -> Option<(Open, RegionId)> {
        let around = |f: &Frame| {
            let builder = f.builder.nested(name).rooted(f.builder.root()).autocasting();
            (builder, f.pipeline.clone(), f.builder.context.region)
        };
        let (builder, pipeline, region) = with_stack(|stack| stack.last().map(around))?;
        let open = Open::new(builder, pipeline);
        open.with(|frame| {
            frame.captured.fresh = true;
            frame.program = true;
        });
        Some((open, region))
    }

    /// Adds an argument, and returns its handle.
    pub fn argument(&self, path: &str, ty: ProxyTy, tags: TagSet) -> Tensor {
        self.with(|frame| {
            let proxy = frame.builder.input(path, ty.clone());
            if let (true, Some(input)) = (path.is_empty(), frame.builder.inputs_mut().last_mut()) {
                // an argument that is one leaf has no path, and errors need a name for it
                input.path = "x".into();
            }
            frame.builder.arena().set_tags(proxy, tags);
            Tensor::traced(&frame.token, proxy, ty)
        })
    }

    /// The result of `f` on this trace's frame.
    pub fn with<T>(&self, f: impl FnOnce(&mut Frame) -> T) -> T {
        with_stack(|stack| f(&mut stack[self.depth]))
    }

    /// The proxy of a handle in this trace; a tensor in memory becomes a hidden input.
    ///
    /// # Errors
    /// The error of a poisoned handle; E740 or E741 for a handle of another trace.
    pub fn resolve(&self, tensor: &Tensor) -> Result<ProxyId, Error> {
        with_stack(|stack| resolve(stack, self.depth, tensor))
    }

    /// Takes apart a tensor of a subclass that this trace made, to fields that are values of the trace; other tensors
    /// are returned unchanged.
    ///
    /// # Errors
    /// Reports the errors of [`Open::resolve`].
    pub fn apart(&self, tensor: &Tensor) -> Result<Tensor, Error> {
        with_stack(|stack| subclass::apart(stack, self.depth, tensor))
    }

    /// Reports the first error of a write.
    ///
    /// # Errors
    /// The error of that write.
    pub fn check(&self) -> Result<(), Error> {
        self.with(|frame| frame.failed.clone().map_or(Ok(()), Err))
    }

    /// Takes the trace off the stack.
    pub fn close(self) -> Frame {
        // `new` opened the frame at this depth, and only this guard removes it
        let frame = with_stack(|stack| {
            let frame = stack.split_off(self.depth).swap_remove(0);
            note_maker(stack);
            frame
        });
        std::mem::forget(self);
        frame.token.close();
        frame.captured.end(frame.builder.inputs());
        frame
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let left = with_stack(|stack| {
            let left = stack.split_off(self.depth.min(stack.len()));
            note_maker(stack);
            left
        });
        left.iter().for_each(|frame| frame.token.close());
    }
}

/// Attributes tensors that are made from now on to the innermost slice of a batch, or to the function that is traced.
fn note_maker(stack: &[Frame]) {
    let maker = stack.iter().rev().find(|frame| frame.slice).or(stack.first());
    _ = set_maker(maker.map_or(0, |frame| frame.token.id()));
}

/// Whether a trace is open on this thread.
pub fn is_tracing() -> bool {
    with_stack(|stack| !stack.is_empty())
}

/// Records a call in the innermost open trace; `None` if there is none.
pub(crate) fn record(symbol: SymbolRef, args: &[Value<Tensor>], loc: Loc) -> Option<Result<Vec<Tensor>, Error>> {
    with_stack(|stack| {
        let top = stack.len().checked_sub(1)?;
        Some(record_in(stack, top, symbol, args, loc))
    })
}

fn record_in(
    stack: &mut [Frame],
    top: usize,
    symbol: SymbolRef,
    args: &[Value<Tensor>],
    loc: Loc,
) -> Result<Vec<Tensor>, Error> {
    captures::written(stack, top, symbol, args)?;
    let proxies = resolved(stack, top, args, None).map_err(|e| e.at(loc))?;
    let Frame { token, builder, .. } = &mut stack[top];
    let given = proxies.clone();
    let outs = builder.bind(symbol, proxies, loc)?;
    let writes = builder.lines().last().map_or_else(Vec::new, |line| line.effects.writes.clone());
    if !writes.is_empty() {
        note_write();
    }
    let mut through_views = Vec::new();
    let (results, versions) = outs.split_at(outs.len() - writes.len());
    for (&arg, &version) in writes.iter().zip(versions) {
        // the builder keeps the versions of values from outside
        if let Some(Value::Tensor(t)) = args.get(arg)
            && let View::Traced(traced) = t.view()
            && traced.token().id() == token.id()
        {
            match traced.alias() {
                None => traced.set_proxy(version),
                Some(_) => through_views.push((t, version)),
            }
        }
    }
    // a write to a view is passed on to its base
    for (t, version) in through_views {
        write::assign_in(stack, top, t, version, loc)?;
    }
    let Frame { token, builder, .. } = &mut stack[top];
    let arena = builder.arena().clone();
    let base = args.iter().zip(&given).find_map(|(arg, given)| match (arg, given) {
        (Value::Tensor(_), Value::Tensor(p)) => Some(*p),
        _ => None,
    });
    // a field of a tensor of a subclass is a view of it
    let is_view = symbol.is_view() || matches!(symbol.port(), Some((_, Port::Flatten)));
    let handle = |(at, &p): (usize, &ProxyId)| match base.filter(|_| is_view) {
        Some(base) => {
            let alias = ViewCall { symbol, args: args.to_vec(), at, loc };
            Tensor::view_of(token, p, arena.ty(p), alias, base)
        }
        None => Tensor::traced(token, p, arena.ty(p)),
    };
    Ok(results.iter().enumerate().map(handle).collect())
}

/// The values of arguments in the trace at this depth; `base` replaces the first tensor, if it is given.
fn resolved(
    stack: &mut [Frame],
    depth: usize,
    args: &[Value<Tensor>],
    mut base: Option<ProxyId>,
) -> Result<Vec<Value<ProxyId>>, Error> {
    let mut failed = None;
    let mut value = |t: &Tensor| match base.take() {
        Some(base) => base,
        None => resolve(stack, depth, t).unwrap_or_else(|e| {
            failed.get_or_insert(e);
            ProxyId(0)
        }),
    };
    let values = args.iter().map(|arg| arg.map(&mut value)).collect();
    failed.map_or(Ok(values), Err)
}

fn resolve(stack: &mut [Frame], depth: usize, tensor: &Tensor) -> Result<ProxyId, Error> {
    match tensor.view() {
        View::Poison(e) => Err(e.clone()),
        View::Cell(_) => Ok(captures::value(stack, depth, tensor)),
        View::Wrapped(wrapped) => subclass::value(stack, depth, tensor, wrapped),
        View::Traced(traced) => {
            let token = traced.token();
            if stack[..=depth].iter().any(|frame| frame.token.id() == token.id()) {
                return write::current(stack, depth, tensor, traced);
            }
            Err(stray(token.is_open(), &traced.ty().to_string()))
        }
    }
}

/// The error for a traced handle whose trace is not open here.
pub(crate) fn stray(open_elsewhere: bool, ty: &str) -> Error {
    if open_elsewhere {
        return Error::new("E741", format!("this traced {ty} belongs to a trace that is open on another thread"))
            .help("trace on one thread; a compiled function may be called from many");
    }
    Error::new("E740", format!("this traced {ty} belongs to a trace that has ended"))
        .note("it stood for a value while a function was traced; it has no data")
        .help("return it from the traced function (from a differentiated closure: with `try_value_and_grad`)")
}

/// Adds the lines of a trace that was recorded inside the innermost open one, with `args` for its inputs; returns its
/// results as handles. Further lines for this call get the place `loc` too.
///
/// # Errors
/// Reports the errors of [`Builder::splice`].
pub(crate) fn splice(trace: &Trace, args: &[ProxyId], loc: Loc) -> Result<Vec<Tensor>, Error> {
    with_stack(|stack| {
        let Some(Frame { token, builder, .. }) = stack.last_mut() else {
            return Err(Error::bug("E709", "a trace was closed twice"));
        };
        let outs = builder.splice(trace, args)?;
        if loc != Loc::NOWHERE {
            builder.context.place.loc = loc;
        }
        Ok(outs.into_iter().map(|p| Tensor::traced(token, p, builder.arena().ty(p))).collect())
    })
}

/// A tensor of the innermost open trace, filled with a number.
///
/// # Errors
/// E710 without a row `full`; E709 if no trace is open.
pub(crate) fn full(ty: &TensorTy, value: f64) -> Result<Tensor, Error> {
    with_stack(|stack| {
        let Some(Frame { token, builder, .. }) = stack.last_mut() else {
            return Err(Error::bug("E709", "no trace is open"));
        };
        let proxy = builder.full(ty, value)?;
        Ok(Tensor::traced(token, proxy, builder.arena().ty(proxy)))
    })
}

/// A zero cotangent of a tensor, in the innermost open trace.
///
/// # Errors
/// The errors of [`Builder::zero_cotangent`]; E709 if no trace is open.
pub(crate) fn zero(like: &Tensor) -> Result<Tensor, Error> {
    with_stack(|stack| {
        let none = || Error::bug("E709", "no trace is open");
        let top = stack.len().checked_sub(1).ok_or_else(none)?;
        let of = resolve(stack, top, like)?;
        let Frame { token, builder, .. } = &mut stack[top];
        let zero = builder.zero_cotangent(of)?.ok_or_else(none)?;
        Ok(Tensor::traced(token, zero, builder.arena().ty(zero)))
    })
}

/// The tensor with a tag of values, for transforms. Functions are compiled anew for arguments with other tags. A tag of
/// lines or regions poisons the tensor (E724), and so does a tag that excludes one of its tags (E722).
#[track_caller]
pub fn with_tag(x: &Tensor, tag: Tag) -> Tensor {
    if tag.decl().carrier != Carrier::Value {
        let claim = format!("the tag `{}` can't stand on a tensor: it is one of lines or regions", tag.name());
        return Tensor::poisoned(Error::new("E724", claim).at(Loc::caller()));
    }
    let name = || x.type_text();
    if let Err(e) = save_at_all(tags_of(x).with(tag), &name(), "with_tag") {
        return Tensor::poisoned(e.at(Loc::caller()));
    }
    match x.view() {
        View::Cell(cell) => cell.add_tag(tag),
        View::Traced(traced) => with_stack(|stack| {
            if let Some(frame) = stack.last() {
                let arena = frame.builder.arena();
                arena.set_tags(traced.proxy(), arena.tags(traced.proxy()).with(tag));
            }
        }),
        View::Wrapped(wrapped) => wrapped.fields().iter().for_each(|field| _ = with_tag(field, tag)),
        View::Poison(_) => {}
    }
    x.clone()
}

/// The tags of a tensor, which are known while a function is traced, like dtype and sizes.
pub fn tags_of(x: &Tensor) -> TagSet {
    match x.view() {
        View::Cell(cell) => cell.tags(),
        View::Traced(traced) => {
            let tags = |frame: &Frame| frame.builder.arena().tags(traced.proxy());
            with_stack(|stack| stack.last().map_or(TagSet::EMPTY, tags))
        }
        View::Wrapped(wrapped) => wrapped.fields().first().map_or(TagSet::EMPTY, tags_of),
        View::Poison(_) => TagSet::EMPTY,
    }
}

/// Records the line of a function with a custom backward in the innermost open trace; returns its results as handles.
///
/// # Errors
/// The errors of [`Builder::own_vjp`]; E709 if no trace is open.
pub(crate) fn own_vjp(rule: OwnRule, ports: Ports, args: &[ProxyId], loc: Loc) -> Result<Vec<Tensor>, Error> {
    with_stack(|stack| {
        let Some(Frame { token, builder, .. }) = stack.last_mut() else {
            return Err(Error::bug("E709", "no trace is open"));
        };
        let outs = builder.own_vjp(rule, ports, args, loc)?;
        Ok(outs.into_iter().map(|p| Tensor::traced(token, p, builder.arena().ty(p))).collect())
    })
}

/// Records a line of control flow in the innermost open trace. Returns its results as handles; a result is a key or a
/// number if `types` says so.
///
/// # Errors
/// The errors of [`Builder::control`]; E709 if no trace is open.
pub(crate) fn control(
    control: Control,
    args: &[ProxyId],
    types: &[Option<ProxyTy>],
    loc: Loc,
) -> Result<Vec<Tensor>, Error> {
    with_stack(|stack| {
        let Some(Frame { token, builder, .. }) = stack.last_mut() else {
            return Err(Error::bug("E709", "no trace is open"));
        };
        builder.context.place.loc = loc;
        let outs = builder.control(control, args, &[])?;
        let handle = |(p, ty): (ProxyId, &Option<ProxyTy>)| match ty {
            Some(ProxyTy::Key) => Tensor::traced(token, p, ProxyTy::Key),
            _ => Tensor::traced(token, p, builder.arena().ty(p)),
        };
        Ok(outs.into_iter().zip(types).map(handle).collect())
    })
}

/// A value of the type of another one, in no trace yet.
pub(crate) fn stand_in(of: ProxyId) -> ProxyId {
    with_stack(|stack| {
        stack.last().map_or(of, |frame| {
            let arena = frame.builder.arena();
            arena.proxy(&arena.name(of), arena.ty(of))
        })
    })
}

/// The present value of an input of the innermost open trace.
pub(crate) fn version(at: usize) -> ProxyId {
    with_stack(|stack| {
        let input = stack.last().and_then(|frame| frame.builder.inputs().get(at));
        // invariant: captures name inputs of the surrounding trace
        input.map_or(ProxyId(u32::MAX), |input| input.version)
    })
}

/// The value at entry of an input of the innermost open trace, by which a custom backward finds the input.
///
/// # Errors
/// Reports the errors of [`captures::entry`]; E709 if no trace is open.
pub(crate) fn entry(at: usize) -> Result<ProxyId, Error> {
    with_stack(|stack| {
        let top = stack.len().checked_sub(1).ok_or_else(|| Error::bug("E709", "no trace is open"))?;
        captures::entry(stack, top, at)
    })
}

/// The value at entry of a handle in the innermost open trace, if it is a variable there.
///
/// # Errors
/// Reports the errors of [`captures::entry`]; E709 if no trace is open.
pub(crate) fn entry_of(handle: &Tensor) -> Result<Option<ProxyId>, Error> {
    with_stack(|stack| {
        let top = stack.len().checked_sub(1).ok_or_else(|| Error::bug("E709", "no trace is open"))?;
        captures::variable(stack, top, handle).map(|at| captures::entry(stack, top, at)).transpose()
    })
}

/// Adds the trace of a closure to the acquisition's record.
pub(crate) fn note(name: &'static str, trace: &Trace, time: Duration, remark: Option<String>) {
    with_stack(|stack| {
        if let Some(root) = stack.first_mut() {
            root.inner.push(Made { name, trace: trace.clone(), time, remark });
        }
    });
}

/// The options of the compiled function that is being traced.
pub(crate) fn pipeline() -> Arc<Pipeline> {
    with_stack(|stack| stack.last().map(|f| f.pipeline.clone())).unwrap_or_default()
}

/// Whether a gradient or a tangent is taken of the lines that are recorded now.
pub(crate) fn is_differentiated() -> bool {
    with_stack(|stack| stack.iter().any(|frame| frame.leaves > 0))
}

/// The proxies of handles in the innermost open trace.
///
/// # Errors
/// The errors of [`Open::resolve`]; E709 if no trace is open.
pub(crate) fn resolve_all(tensors: &[&Tensor]) -> Result<Vec<ProxyId>, Error> {
    with_stack(|stack| {
        let top = stack.len().checked_sub(1).ok_or_else(|| Error::bug("E709", "no trace is open"))?;
        tensors.iter().map(|t| resolve(stack, top, t)).collect()
    })
}

/// The tensor as one of its own, neither a view nor another name of a tensor, like the result of a compiled function
/// outside of a trace. A write to it does not write the tensor from which it was made.
///
/// # Errors
/// Reports the errors of [`resolve_all`].
pub(crate) fn apart(tensor: &Tensor) -> Result<Tensor, Error> {
    with_stack(|stack| {
        let top = stack.len().checked_sub(1).ok_or_else(|| Error::bug("E709", "no trace is open"))?;
        let value = resolve(stack, top, tensor)?;
        let Frame { token, builder, .. } = &stack[top];
        // two numbers that an operator returned are a key if the handle is one
        let ty = if tensor.ty() == Some(ProxyTy::Key) { ProxyTy::Key } else { builder.arena().ty(value) };
        Ok(Tensor::traced(token, value, ty))
    })
}

// ---------------------------------------------------------------- regions

/// Returns to the surrounding region on drop, also after a panic.
struct Leave {
    depth: usize,
    before: RegionId,
}

impl Drop for Leave {
    fn drop(&mut self) {
        with_stack(|stack| {
            if let Some(frame) = stack.get_mut(self.depth) {
                frame.builder.context.region = self.before;
            }
        });
    }
}

fn within<T>(kind: RegionKind, loc: Loc, f: impl FnOnce() -> T) -> T {
    let _leave = with_stack(|stack| {
        let depth = stack.len().checked_sub(1)?;
        let before = stack[depth].builder.context.region;
        stack[depth].builder.enter(kind, loc);
        Some(Leave { depth, before })
    });
    f()
}

/// Gives calls in `f` a tag. A tag of lines, such as `Tag::RECOMPUTE` or a kind that the user declared, is set on each
/// line. A tag of regions is set on a region around them, and
/// [`Arena::effective_tags`](crate::trace::Arena::effective_tags) of each line includes it. With a tag of values, or a
/// tag of built-in regions, which have functions of their own, a function that is being traced fails (E724).
#[track_caller]
pub fn tagged<T>(tag: Tag, f: impl FnOnce() -> T) -> T {
    match tag.decl().carrier {
        Carrier::Line => {}
        Carrier::Region if !tag.is_built_in() => return within(RegionKind::Tagged(tag), Loc::caller(), f),
        carrier => {
            let claim = format!("the tag `{}` can't stand on calls: it is one of {}", tag.name(), carrier.plural());
            let help = match carrier {
                Carrier::Region => "call `checkpoint`, `autocast`, `no_grad` or `enable_grad`",
                _ => "put it on a tensor: `with_tag`",
            };
            fail(&Error::new("E724", claim).help(help).at(Loc::caller()));
            return f();
        }
    }
    struct Untag(Option<(usize, TagSet)>);
    impl Drop for Untag {
        fn drop(&mut self) {
            with_stack(|stack| {
                if let Some((depth, before)) = self.0
                    && let Some(frame) = stack.get_mut(depth)
                {
                    frame.builder.context.tags = before;
                }
            });
        }
    }
    let _untag = Untag(with_stack(|stack| {
        let depth = stack.len().checked_sub(1)?;
        let tags = &mut stack[depth].builder.context.tags;
        let before = *tags;
        if tag.decl().carrier == Carrier::Line {
            *tags = before.with(tag);
        }
        Some((depth, before))
    }));
    f()
}

/// Calls in `f` belong to the part of the program called `name`, such as `block[2]` or `attention`. Traces and errors
/// show the name.
#[track_caller]
pub fn named<T>(name: &str, f: impl FnOnce() -> T) -> T {
    within(RegionKind::Named(name.into()), Loc::caller(), f)
}

/// No gradient flows through calls in `f`.
#[track_caller]
pub fn no_grad<T>(f: impl FnOnce() -> T) -> T {
    within(RegionKind::NoGrad, Loc::caller(), f)
}

/// Gradients flow again inside of [`no_grad`].
#[track_caller]
pub fn enable_grad<T>(f: impl FnOnce() -> T) -> T {
    within(RegionKind::EnableGrad, Loc::caller(), f)
}

/// The backward computes the values of `f` again instead of keeping them.
#[track_caller]
pub fn checkpoint<T>(f: impl FnOnce() -> T) -> T {
    within(RegionKind::Checkpoint, Loc::caller(), f)
}

/// Operators whose autocast class allows it compute in `dtype`, in traces and at once; `None` switches autocast off.
#[track_caller]
pub fn autocast<T>(dtype: impl Into<Option<DType>>, f: impl FnOnce() -> T) -> T {
    let dtype = dtype.into();
    if is_tracing() {
        return within(RegionKind::Autocast(dtype), Loc::caller(), f);
    }
    let _before = Ambient(AMBIENT.replace(dtype));
    f()
}

thread_local! {
    /// The autocast dtype around calls that run at once.
    static AMBIENT: Cell<Option<DType>> = const { Cell::new(None) };
}

/// Returns to the surrounding dtype on drop, also after a panic.
struct Ambient(Option<DType>);

impl Drop for Ambient {
    fn drop(&mut self) {
        AMBIENT.set(self.0);
    }
}

/// The autocast dtype around calls that run at once, or around the outermost trace.
pub(crate) fn ambient() -> Option<DType> {
    AMBIENT.get()
}

/// Runs `f` in the autocast region around the trace that was opened.
pub(crate) fn in_ambient<T>(f: impl FnOnce() -> T) -> T {
    match ambient() {
        Some(dtype) => within(RegionKind::Autocast(Some(dtype)), Loc::NOWHERE, f),
        None => f(),
    }
}
