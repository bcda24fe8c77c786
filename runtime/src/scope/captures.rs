//! Captures: the values that a trace reads from outside, which are tensors in memory and values of surrounding traces
//! that it writes.
//!
//! Each capture is an input after the arguments, found by the address to which its handle points. A closure shares
//! values with the surrounding trace, so such an input is that value itself, and values that are only read need no
//! input. A custom backward is recorded before it is known when it runs, so it has inputs of its own for everything.

use super::Frame;
use crate::error::{Error, ErrorKind};
use crate::symbol::SymbolRef;
use crate::tensor::{Tensor, Traced, View};
use crate::trace::{InputCell, ProxyId};
use fulgurite_core::Value;
use fulgurite_core::lang::ast::Access;
use rustc_hash::FxHashMap;

/// The captures of a frame.
#[derive(Default)]
pub(crate) struct Captured {
    /// For each address, the position among the builder's inputs.
    at: FxHashMap<usize, usize>,
    /// The handles, in the order of their inputs.
    pub handles: Vec<Tensor>,
    /// Whether each capture gets a value of its own.
    pub fresh: bool,
    /// If `fresh`, the source of each capture in the surrounding trace.
    pub sources: Vec<Source>,
    /// Tensors of subclasses that are not values of the trace: the handle, its fields, and the tensor that they make.
    pub wrapped: FxHashMap<usize, (Tensor, Vec<ProxyId>, ProxyId)>,
    /// Views of other traces that were taken again after a write: the base, and the view of it.
    pub views: FxHashMap<usize, (ProxyId, ProxyId)>,
    /// In a program of a line, for the position of a captured variable: the input that stands for its value at entry of
    /// the surrounding trace, by which a custom backward finds the variable.
    entries: FxHashMap<usize, ProxyId>,
}

/// The source of a value that a backward captured.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// A tensor whose value may change until the backward runs: the input with this number of the surrounding trace.
    Variable(usize),
    Value(ProxyId),
}

/// The address to which a handle points, as its identity.
pub(super) fn address(tensor: &Tensor) -> usize {
    match tensor.view() {
        View::Cell(cell) => std::sync::Arc::as_ptr(cell) as usize,
        View::Traced(traced) => std::ptr::from_ref(traced) as usize,
        View::Wrapped(wrapped) => std::sync::Arc::as_ptr(wrapped) as usize,
        View::Poison(_) => 0,
    }
}

fn owns(frame: &Frame, traced: &Traced) -> bool {
    frame.token.id() == traced.token().id()
}

/// The present proxy in frame `depth` of a handle that is not a view.
pub(super) fn value(stack: &mut [Frame], depth: usize, tensor: &Tensor) -> ProxyId {
    match tensor.view() {
        View::Traced(traced) if owns(&stack[depth], traced) => traced.proxy(),
        View::Traced(_) if !stack[depth].captured.fresh => match stack[depth].captured.at.get(&address(tensor)) {
            Some(&at) => stack[depth].builder.inputs()[at].version,
            // callers have checked that some frame below owns it
            None => {
                let below = value(stack, depth - 1, tensor);
                if stack[depth].builder.is_from_outside(below) {
                    return below;
                }
                // a backward below has just made it an input, which this trace does not know, because it began before
                let at = capture(stack, depth, tensor);
                stack[depth].builder.inputs()[at].version
            }
        },
        _ => {
            let at = capture(stack, depth, tensor);
            stack[depth].builder.inputs()[at].version
        }
    }
}

/// Whether a tensor in memory was made while this frame was recorded. It is then a constant of the frame's trace, every
/// run of which begins with the tensor's first value.
fn is_made_in(frame: &Frame, tensor: &Tensor) -> bool {
    matches!(tensor.view(), View::Cell(cell) if cell.maker() == frame.token.id())
}

/// The input of frame `depth` for a handle from outside, or for a tensor that was made while the frame was recorded.
pub(super) fn capture(stack: &mut [Frame], depth: usize, tensor: &Tensor) -> usize {
    let address = address(tensor);
    if let Some(&at) = stack[depth].captured.at.get(&address) {
        return at;
    }
    let outer = depth.checked_sub(1).map(|outer| match variable(stack, outer, tensor) {
        Some(at) => (stack[outer].builder.inputs()[at].version, Source::Variable(at)),
        None => {
            let value = value(stack, outer, tensor);
            (value, Source::Value(value))
        }
    });
    let path = match (tensor.view(), outer) {
        (_, Some((_, Source::Variable(at)))) => stack[depth - 1].builder.inputs()[at].path.to_string(),
        (_, Some((proxy, _))) => stack[depth].builder.arena().name(proxy).to_string(),
        _ => format!("captured.{}", stack[0].captured.handles.len()),
    };
    let frame = &mut stack[depth];
    let at = frame.builder.inputs().len();
    match outer {
        Some((proxy, source)) if frame.captured.fresh => {
            let arena = frame.builder.arena().clone();
            let own = frame.builder.input(&path, arena.ty(proxy));
            arena.set_tags(own, arena.tags(proxy));
            frame.captured.sources.push(source);
        }
        Some((proxy, _)) => frame.builder.add_input(proxy, &path),
        None => {
            if let View::Cell(cell) = tensor.view() {
                let own = frame.builder.input(&path, cell.proxy_ty());
                frame.builder.arena().set_tags(own, cell.tags());
            }
        }
    }
    let constant = is_made_in(frame, tensor);
    frame.builder.inputs_mut()[at].constant = constant;
    frame.captured.at.insert(address, at);
    frame.captured.handles.push(tensor.clone());
    at
}

/// The value, in a program of a line, of a handle whose value in the surrounding trace is `outer`.
pub(super) fn capture_value(stack: &mut [Frame], depth: usize, tensor: &Tensor, outer: ProxyId) -> ProxyId {
    let address = address(tensor);
    let frame = &mut stack[depth];
    if let Some(&at) = frame.captured.at.get(&address) {
        return frame.builder.inputs()[at].version;
    }
    let name = frame.builder.arena().name(outer);
    let at = frame.builder.inputs().len();
    frame.captured.at.insert(address, at);
    frame.source_input(&name, outer, Source::Value(outer), tensor)
}

impl Frame {
    /// One more input, for the value `outer` of the surrounding trace, which `handle` shows there.
    fn source_input(&mut self, path: &str, outer: ProxyId, source: Source, handle: &Tensor) -> ProxyId {
        let arena = self.builder.arena().clone();
        let own = self.builder.input(path, arena.ty(outer));
        arena.set_tags(own, arena.tags(outer));
        self.captured.sources.push(source);
        self.captured.handles.push(handle.clone());
        own
    }
}

/// The value at entry of input number `at` of frame `depth`, by which a custom backward finds the input when it runs. A
/// program of a line gets it as one more input, because the value that it reads of a variable may be a later one.
///
/// # Errors
/// E709 if a program captured the input from nowhere.
pub(super) fn entry(stack: &mut [Frame], depth: usize, at: usize) -> Result<ProxyId, Error> {
    let frame = &stack[depth];
    let inputs = frame.builder.inputs();
    if !frame.program {
        let own = inputs[at].proxy;
        // the lines of a slice become lines of the surrounding trace, where the backward runs
        let handle = frame.captured.handle(at, inputs.len()).filter(|_| frame.slice).cloned();
        let outer = handle.zip(depth.checked_sub(1));
        return match outer.and_then(|(handle, outer)| Some((outer, variable(stack, outer, &handle)?))) {
            Some((outer, at)) => entry(stack, outer, at),
            None => Ok(own),
        };
    }
    if let Some(&known) = frame.captured.entries.get(&at) {
        return Ok(known);
    }
    let lost = || Error::bug("E709", "a program of a line lost a variable");
    let handle = frame.captured.handle(at, inputs.len()).ok_or_else(lost)?.clone();
    let Some(Source::Variable(outer)) = frame.captured.source(at, inputs.len()) else { return Err(lost()) };
    let path = format!("{}@entry", inputs[at].path);
    let outer = entry(stack, depth.checked_sub(1).ok_or_else(lost)?, outer)?;
    let frame = &mut stack[depth];
    let own = frame.source_input(&path, outer, Source::Value(outer), &handle);
    frame.captured.entries.insert(at, own);
    Ok(own)
}

/// The input of frame `depth` for a handle, if it is one there: it has a value before and after the frame's trace.
pub(super) fn variable(stack: &mut [Frame], depth: usize, tensor: &Tensor) -> Option<usize> {
    let View::Traced(traced) = tensor.view() else {
        // a tensor that was made inside is a value like others that are made there
        let made = stack[..=depth].iter().any(|frame| is_made_in(frame, tensor));
        return if made { None } else { Some(capture(stack, depth, tensor)) };
    };
    if owns(&stack[depth], traced) {
        let proxy = traced.proxy();
        let inputs = stack[depth].builder.inputs();
        // the arguments of a program of a line are values, because nothing writes them
        return if stack[depth].program { None } else { inputs.iter().position(|input| input.version == proxy) };
    }
    if let Some(&at) = stack[depth].captured.at.get(&address(tensor)) {
        return match stack[depth].captured.source(at, stack[depth].builder.inputs().len()) {
            Some(Source::Value(_)) => None,
            _ => Some(at),
        };
    }
    variable(stack, depth.checked_sub(1)?, tensor)?;
    Some(capture(stack, depth, tensor))
}

impl Captured {
    /// Ends the captures when the trace has ended; `inputs` are those of its builder. Writes to tensors that were made
    /// inside are not kept.
    pub(super) fn end(&self, inputs: &[InputCell]) {
        let own = inputs.iter().rev().zip(self.handles.iter().rev());
        for (_, handle) in own.filter(|(input, _)| input.constant && input.version != input.proxy) {
            if let View::Cell(cell) = handle.view() {
                cell.mark_stale();
            }
        }
    }

    /// The source in the surrounding trace of input number `at` of `inputs`, if sources are kept.
    fn source(&self, at: usize, inputs: usize) -> Option<Source> {
        let first = inputs - self.handles.len();
        self.sources.get(at.checked_sub(first)?).copied()
    }

    /// The handle that was captured as input number `at` of `inputs`.
    fn handle(&self, at: usize, inputs: usize) -> Option<&Tensor> {
        self.handles.get(at.checked_sub(inputs - self.handles.len())?)
    }
}

/// The input of the innermost frame that a write to a handle from outside changes.
///
/// # Errors
/// E718 in a backward, if the handle is not an input of the surrounding program.
pub(super) fn for_writing(stack: &mut [Frame], top: usize, tensor: &Tensor) -> Result<usize, Error> {
    if let Some(error) = in_program(stack, top, tensor) {
        return Err(error);
    }
    let at = capture(stack, top, tensor);
    let frame = &stack[top];
    match frame.captured.source(at, frame.builder.inputs().len()) {
        Some(Source::Value(value)) => Err(argument(stack, value).unwrap_or_else(|| intermediate(stack, value))),
        _ => Ok(at),
    }
}

/// The error of a program of a line that writes to a value from outside.
fn in_program(stack: &[Frame], top: usize, tensor: &Tensor) -> Option<Error> {
    let from = match tensor.view() {
        View::Traced(traced) => stack.iter().position(|f| f.token.id() == traced.token().id()).map_or(0, |at| at + 1),
        _ => 0,
    };
    let inside = stack.get(from..=top)?.iter().any(|frame| frame.program);
    inside.then(|| program_writes(&format!("a tensor {} from outside", tensor.type_text())))
}

/// The error of a backward that writes to the argument `value` of a program of a line.
fn argument(stack: &[Frame], value: ProxyId) -> Option<Error> {
    let mut inputs = stack.iter().filter(|frame| frame.program).flat_map(|frame| frame.builder.inputs());
    let input = inputs.find(|input| input.proxy == value)?;
    Some(program_writes(&format!("`{}` in place", input.path)))
}

/// The error of a program of a line that writes to `target`.
pub(crate) fn program_writes(target: &str) -> Error {
    Error::new("E759", format!("a program of a line writes to {target}"))
        .note("it may run never, or many times, so the write has no place in the order of writes")
        .help("make the tensor a carry, and return its new value")
}

/// The error of a backward that writes to a value which the forward made.
pub(super) fn intermediate(stack: &[Frame], value: ProxyId) -> Error {
    let line = stack.iter().flat_map(|f| f.builder.lines()).find(|l| l.outs.contains(&value));
    let arena = stack[0].builder.arena();
    let name = arena.name(value).to_string();
    let made = line.map_or_else(String::new, |l| format!("{name} = {}(…)", l.symbol.name()));
    let kind = ErrorKind::BackwardWriteToIntermediate { value: name.clone(), line: made };
    let mut error = Error::new("E718", format!("a backward writes to `{name}`, which the forward made")).kind_is(kind);
    if let Some(line) = line {
        error = error.note(format!("made by {} at {}", line.symbol.name(), line.place.loc));
    }
    error.help("pass a tensor that is to be written into the function, as an argument or captured from memory")
}

/// Makes inputs of the arguments of a call that its row writes.
///
/// # Errors
/// Reports the errors of [`for_writing`].
pub(super) fn written(stack: &mut [Frame], top: usize, symbol: SymbolRef, args: &[Value<Tensor>]) -> Result<(), Error> {
    for (param, arg) in symbol.row().sig.params.iter().zip(args) {
        if param.access == Access::Mut
            && let Value::Tensor(t) = arg
            && let View::Traced(traced) = t.view()
            && !owns(&stack[top], traced)
            && stack[..top].iter().any(|f| owns(f, traced))
        {
            for_writing(stack, top, t)?;
        }
    }
    Ok(())
}
