//! Immediate mode: an operator outside of any trace runs as a program of one line, cached by symbol, types and options.

use super::backend::Backend;
use super::shared;
use crate::bind::Builder;
use crate::buffer::Buffer;
use crate::error::Error;
use crate::executors;
use crate::scope;
use crate::symbol::{Port, SymbolRef};
use crate::tensor::{Cell, CellKind, Tensor, View, ViewCall};
use crate::trace::{ProxyId, ProxyTy, RegionKind, SubclassLayout};
use crate::transforms;
use crate::tree::Fingerprint;
use fulgurite_core::loc::Loc;
use fulgurite_core::{DType, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

/// The programs in one generation of the cache. Two generations are kept; programs of the older one that were not used
/// since are dropped.
const GENERATION: usize = 512;

thread_local! {
    static PROGRAMS: RefCell<Programs> = RefCell::default();
}

#[derive(Default)]
struct Programs {
    young: FxHashMap<Fingerprint, Rc<Line>>,
    old: FxHashMap<Fingerprint, Rc<Line>>,
}

impl Programs {
    fn find(&mut self, mark: Fingerprint) -> Option<Rc<Line>> {
        if let Some(line) = self.young.get(&mark) {
            return Some(line.clone());
        }
        let line = self.old.remove(&mark)?;
        self.insert(mark, line.clone());
        Some(line)
    }

    fn insert(&mut self, mark: Fingerprint, line: Rc<Line>) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(mark, line);
    }
}

/// A program of one line.
struct Line {
    backend: Backend,
    /// One `true` per tensor argument.
    donated: SmallVec<[bool; 4]>,
    results: usize,
    /// The numbers of the tensor arguments that are written; their values follow the results.
    writes: SmallVec<[usize; 2]>,
    /// The layout of each result, if any result is of a subclass.
    layouts: Option<Vec<Option<Arc<SubclassLayout>>>>,
}

/// Runs a call at once.
///
/// # Errors
/// Errors of binding, compiling or running, at `loc`; E740 or E741 for an argument of a trace.
pub(crate) fn run(symbol: SymbolRef, args: Vec<Value<Tensor>>, loc: Loc) -> Result<Vec<Tensor>, Error> {
    call(symbol, args).map_err(|e| e.at(loc))
}

fn call(symbol: SymbolRef, args: Vec<Value<Tensor>>) -> Result<Vec<Tensor>, Error> {
    match symbol.port() {
        Some((class, Port::Unflatten)) => return Ok(vec![Tensor::wrap(class, &args)]),
        Some((_, Port::Flatten))
            if let Some(Value::Tensor(t)) = args.first()
                && let Some(wrapped) = t.wrapped() =>
        {
            return Ok(wrapped.fields().to_vec());
        }
        _ => {}
    }
    let Ready { line, mut buffers, written, read } = prepare(symbol, &args)?;
    let base = if symbol.is_view() { first_cell(&args).map(|base| (base, args.clone())) } else { None };
    // arguments that were moved in and are not shared may be overwritten
    drop(args);
    let values = match written.is_empty() {
        true => line.backend.run(&mut buffers, &line.donated)?,
        false => shared::write(&written, &read, &retake, || {
            for (&at, cell) in line.writes.iter().zip(&written) {
                buffers[at] = cell.buffer();
            }
            let mut values = line.backend.run(&mut buffers, &line.donated)?;
            let new = values.split_off(line.results);
            Ok((values, new))
        })?,
    };
    let mut values = values.into_iter().map(Tensor::from_buffer);
    let results: Vec<Tensor> = match &line.layouts {
        None => values.collect(),
        Some(layouts) => layouts.iter().map(|layout| together(layout.as_deref(), &mut values)).collect(),
    };
    if let Some((base, args)) = base {
        for (at, result) in results.iter().enumerate() {
            if let View::Cell(view) = result.view() {
                base.note_view(view, ViewCall { symbol, args: args.clone(), at, loc: Loc::NOWHERE });
            }
        }
    }
    Ok(results)
}

/// Takes a view again, of another base.
///
/// # Errors
/// Reports errors of running it.
pub(crate) fn retake(alias: &ViewCall, base: Buffer) -> Result<Buffer, Error> {
    let base = Tensor::from_buffer(base);
    let args = ViewCall::with_base(&alias.args, base);
    let lost = || Error::bug("E709", "a view gave too little");
    call(alias.symbol, args).map_err(|e| e.at(alias.loc))?.get(alias.at).ok_or_else(lost)?.data()
}

/// The tensor of which a view is taken.
fn first_cell(args: &[Value<Tensor>]) -> Option<Arc<Cell>> {
    let base = args.iter().find_map(|arg| match arg {
        Value::Tensor(t) => Some(t),
        _ => None,
    })?;
    match base.view() {
        View::Cell(cell) => Some(cell.clone()),
        _ => None,
    }
}

/// A program, the data of its arguments, the cells that it writes, and the other cells.
struct Ready {
    line: Rc<Line>,
    buffers: Vec<Buffer>,
    written: SmallVec<[Arc<Cell>; 2]>,
    read: Vec<Arc<Cell>>,
}

fn prepare(symbol: SymbolRef, args: &[Value<Tensor>]) -> Result<Ready, Error> {
    let mut mark = Fingerprint::default();
    mark.add(std::ptr::from_ref(symbol) as u64);
    mark.add(scope::ambient().map_or(0, |dtype| 1 + dtype as u64));
    let mut cells: SmallVec<[&Arc<Cell>; 4]> = SmallVec::new();
    args.iter().try_for_each(|arg| note(arg, &mut mark, &mut cells))?;
    let line = match PROGRAMS.with_borrow_mut(|programs| programs.find(mark)) {
        Some(line) => line,
        None => {
            let line = Rc::new(compile(symbol, args)?);
            PROGRAMS.with_borrow_mut(|programs| programs.insert(mark, line.clone()));
            line
        }
    };
    let written: SmallVec<[Arc<Cell>; 2]> = line.writes.iter().map(|&i| cells[i].clone()).collect();
    let read = match written.is_empty() {
        true => Vec::new(),
        false => (0..cells.len()).filter(|i| !line.writes.contains(i)).map(|i| cells[i].clone()).collect(),
    };
    Ok(Ready { line, buffers: cells.iter().map(|cell| cell.buffer()).collect(), written, read })
}

/// Adds to the fingerprint all properties of an argument on which a program depends, and collects its tensors.
fn note<'a>(
    arg: &'a Value<Tensor>,
    mark: &mut Fingerprint,
    cells: &mut SmallVec<[&'a Arc<Cell>; 4]>,
) -> Result<(), Error> {
    match arg {
        Value::Tensor(t) => note_tensor(t, mark, cells)?,
        Value::Num(x) => {
            let (kind, bits) = x.key_bits();
            mark.add(16 + kind as u64);
            mark.add(bits);
        }
        Value::Size(d) => {
            // immediate mode never meets a symbolic size, so its value says all
            mark.add(17);
            mark.add(d.value() as u64);
        }
        Value::DType(d) => mark.add(32 + *d as u64),
        Value::Word(word) => {
            mark.add(64);
            word.hash(mark);
        }
        Value::Str(text) => {
            mark.add(65);
            mark.write(text.as_bytes());
        }
        Value::Type(ty) => {
            mark.add(66 + ((ty.dtype as u64) << 8));
            ty.shape.iter().for_each(|d| mark.add(d.value() as u64));
        }
        Value::List(items) => {
            mark.add(67);
            mark.add(items.len() as u64);
            items.iter().try_for_each(|item| note(item, mark, cells))?;
        }
        Value::Absent => mark.add(0),
    }
    Ok(())
}

/// Adds to the fingerprint all properties of a tensor on which a program depends, and collects its cells.
fn note_tensor<'a>(
    t: &'a Tensor,
    mark: &mut Fingerprint,
    cells: &mut SmallVec<[&'a Arc<Cell>; 4]>,
) -> Result<(), Error> {
    match t.view() {
        View::Cell(cell) => {
            cell.check()?;
            let kind = match cell.kind() {
                CellKind::Tensor => 1,
                CellKind::Number => 2,
                CellKind::Key => 3,
            };
            mark.add(kind << 56 | (cell.dtype() as u64) << 48 | cell.sizes().len() as u64);
            cell.sizes().iter().for_each(|&n| mark.add(n as u64));
            cells.push(cell);
        }
        View::Traced(traced) => {
            return Err(scope::stray(traced.token().is_open(), &traced.ty().to_string()));
        }
        View::Wrapped(wrapped) => {
            let layout = wrapped.layout();
            mark.add(4 << 56 | layout.fields.len() as u64);
            mark.add(std::ptr::from_ref(layout.class) as u64);
            for (name, value) in &layout.meta {
                name.hash(mark);
                mark.write(format!("{value:?}").as_bytes());
            }
            wrapped.named().try_for_each(|(name, field)| {
                name.hash(mark);
                note_tensor(field, mark, cells)
            })?;
        }
        View::Poison(e) => return Err(e.clone()),
    }
    Ok(())
}

/// Compiles the program of a call. Its line has no place, because each call has its own.
fn compile(symbol: SymbolRef, args: &[Value<Tensor>]) -> Result<Line, Error> {
    let mut builder = Builder::new(symbol.name());
    if let Some(dtype) = scope::ambient() {
        builder = builder.autocasting();
        builder.enter(RegionKind::Autocast(Some(dtype)), Loc::NOWHERE);
    }
    let names = symbol.row().sig.params.iter().map(|p| p.name.name.as_str()).chain(std::iter::repeat("x"));
    let mut inputs: Vec<ProxyId> = Vec::new();
    let mut lowered: Vec<Value<ProxyId>> = Vec::with_capacity(args.len());
    for (arg, name) in args.iter().zip(names) {
        let mut failed = Ok(());
        lowered.push(arg.map(&mut |t| {
            input(&mut builder, name, t, &mut inputs).unwrap_or_else(|e| {
                failed = Err(e);
                ProxyId(0)
            })
        }));
        failed?;
    }
    let mut outs = builder.bind(symbol, lowered.clone(), Loc::NOWHERE)?;
    let written = builder.lines().last().map_or_else(Vec::new, |line| line.effects.writes.clone());
    let position = |i: &usize| match lowered.get(*i) {
        Some(Value::Tensor(p)) => inputs.iter().position(|q| q == p),
        _ => None,
    };
    let writes = written.iter().filter_map(position).collect();
    let mut results = outs.len() - written.len();
    let layout = |p: &ProxyId| builder.arena().ty(*p).subclass().cloned();
    let layouts: Vec<Option<Arc<SubclassLayout>>> = outs[..results].iter().map(layout).collect();
    let layouts = layouts.iter().any(Option::is_some).then_some(layouts);
    if layouts.is_some() {
        let mut apart = Vec::new();
        for out in outs.drain(..results) {
            fields(&mut builder, out, &mut apart)?;
        }
        results = apart.len();
        outs.splice(..0, apart);
    }
    // written values become further results: the caller knows the cells that receive them, the trace does not
    let mut trace = builder.finish(&outs);
    trace.epilogue.clear();
    let trace = transforms::unroll(&trace, &executors::claims(&trace.arena, &[]))?;
    let donated = SmallVec::from_elem(true, inputs.len());
    Ok(Line { backend: Backend::compile(&trace, &[])?, donated, results, writes, layouts })
}

/// Makes inputs of an argument, one per tensor in memory, and a tensor of a subclass of these.
fn input(b: &mut Builder, name: &str, t: &Tensor, inputs: &mut Vec<ProxyId>) -> Result<ProxyId, Error> {
    let ty = match t.view() {
        View::Cell(cell) => cell.proxy_ty(),
        View::Wrapped(wrapped) => {
            let named = wrapped.named();
            let fields = named.map(|(field, t)| input(b, &format!("{name}.{field}"), t, inputs));
            let fields = fields.collect::<Result<Vec<_>, _>>()?;
            return b.unflatten(wrapped.layout(), &fields);
        }
        // `note` has refused such arguments
        _ => ProxyTy::Number(DType::F32),
    };
    inputs.push(b.input(name, ty));
    Ok(inputs[inputs.len() - 1])
}

/// Collects the tensors in memory of which a result is made.
fn fields(b: &mut Builder, p: ProxyId, into: &mut Vec<ProxyId>) -> Result<(), Error> {
    if b.arena().ty(p).subclass().is_none() {
        into.push(p);
        return Ok(());
    }
    b.flatten(p)?.into_iter().try_for_each(|field| fields(b, field, into))
}

/// Makes a result of its tensors in memory.
fn together(layout: Option<&SubclassLayout>, values: &mut dyn Iterator<Item = Tensor>) -> Tensor {
    let Some(layout) = layout else {
        return values.next().unwrap_or_else(|| Tensor::poisoned(Error::bug("E709", "a program gave too little")));
    };
    let fields: Vec<Tensor> = layout.fields.iter().map(|(_, t)| together(t.subclass.as_deref(), values)).collect();
    Tensor::wrap_like(layout, &fields)
}
