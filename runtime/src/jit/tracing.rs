//! Acquisition: a function runs on stand-ins for its arguments, and the operators that it calls become a trace.

use super::stages::Stages;
use crate::bind::{Builder, value_name};
use crate::error::Error;
use crate::scope::{self, Open};
use crate::tensor::{Cell, CellKind, Tensor, View};
use crate::trace::{Arena, Guard, ProxyTy, Trace};
use crate::transforms::{At, Pipeline};
use crate::tree::{self, Tree, flatten_apart, rebuild_apart};
use fulgurite_core::Dim;
use fulgurite_core::dim::{Recording, recorded};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// A function as a trace, with the facts about its inputs and outputs that a call needs.
pub(crate) struct Acquired<T> {
    pub trace: Trace,
    /// The captured cells, whose inputs follow the arguments.
    pub cells: Vec<Arc<Cell>>,
    /// The result, a tree around handles of the ended trace.
    pub template: T,
    /// The kind of each leaf of the result.
    pub kinds: Vec<CellKind>,
    /// For each argument, the position of the first one with its cell, which is its own if no other shares it.
    pub aliases: Vec<usize>,
    /// The names of symbolic sizes, one for each axis of each tensor among the arguments.
    pub atoms: Vec<String>,
}

/// Options of acquisition.
#[derive(Clone, Copy, Default)]
pub(crate) struct How {
    /// Whether arguments that share a cell become one value. Traces that write need that; other traces would only be
    /// bound to a pattern of sharing.
    pub aliased: bool,
    /// Whether sizes of arguments are symbolic.
    pub symbolic: bool,
    /// Whether the trace is differentiated by its arguments; these can then be written only without gradients.
    pub differentiated: bool,
}

impl<T> Acquired<T> {
    /// Whether two arguments share a cell.
    pub fn shares_cells(&self) -> bool {
        self.aliases.iter().enumerate().any(|(i, first)| i != *first)
    }
}

/// Traces `f`, which receives one handle per argument leaf.
pub(crate) fn acquire<T: Tree>(
    name: &str,
    args: &[(Tensor, Arc<str>)],
    How { aliased, symbolic, differentiated }: How,
    pipeline: &Arc<Pipeline>,
    stages: &mut Stages,
    f: impl FnOnce(Vec<Tensor>) -> Result<T, Error>,
) -> Result<Acquired<T>, Error> {
    let started = Instant::now();
    let open = Open::new(Builder::new(name).autocasting(), pipeline.clone());
    if differentiated {
        open.with(|frame| frame.leaves = args.len());
    }
    let aliases = aliases(args.iter().map(|(t, _)| t));
    let mut handles: Vec<Tensor> = Vec::with_capacity(args.len());
    let mut atoms = Atoms::new(open.with(|frame| frame.builder.arena().clone()), args);
    for (i, (leaf, path)) in args.iter().enumerate() {
        let mut ty = leaf_ty(leaf)?;
        if let (ProxyTy::Tensor(t), true) = (&mut ty, symbolic) {
            let base = value_name(written(path));
            t.ty.shape.iter_mut().enumerate().for_each(|(axis, d)| *d = atoms.size(&base, axis, *d));
        }
        let own = open.argument(written(path), ty, scope::tags_of(leaf));
        handles.push(if aliased && aliases[i] != i { handles[aliases[i]].clone() } else { own });
    }
    let ran = scope::in_ambient(|| f(handles)).and_then(|template| {
        open.check()?;
        // a program returns buffers, so a tensor of a subclass is taken apart to its fields
        let mut failed = Ok(());
        let template = tree::map(&template, |leaf| {
            open.apart(leaf).unwrap_or_else(|e| {
                let poison = Tensor::poisoned(e.clone());
                failed = Err(e);
                poison
            })
        });
        failed?;
        let leaves = flatten_apart(&template);
        let outputs = leaves.leaves().iter().map(|t| open.resolve(t)).collect::<Result<Vec<_>, _>>()?;
        // handles know the types of values; a key that the function made is a value of two numbers
        let kinds: Vec<CellKind> =
            leaves.leaves().iter().map(|t| t.ty().map_or(CellKind::Tensor, |ty| kind(&ty))).collect();
        drop(leaves);
        Ok((template, outputs, kinds))
    });
    let (template, outputs, kinds) = match ran {
        Ok(done) => done,
        Err(error) => {
            let partial = open.close().builder.finish(&[]);
            stages.note("partial", &partial, started.elapsed(), None);
            let lines = partial.lines.len();
            return Err(if stages.keeps() {
                error.note(format!("the {lines} lines traced so far: `trace(\"partial\")`"))
            } else {
                error
            });
        }
    };
    let atoms = atoms.made;
    let mut frame = open.close();
    frame.builder.inputs_mut().iter_mut().take(args.len()).for_each(|input| input.donated = true);
    frame.inner.drain(..).for_each(|made| stages.note(made.name, &made.trace, made.time, made.remark));
    let mut trace = frame.builder.finish(&outputs);
    trace.prologue = guards(&trace, &aliases, aliased);
    trace.provenance.micros = started.elapsed().as_micros() as u64;
    stages.note("acquired", &trace, started.elapsed(), None);
    let trace = pipeline.apply(At::Acquired, trace, stages.own())?;
    let own = frame.token.id();
    let cell = |t: &Tensor| match t.view() {
        // later writes to a tensor that was made inside must not change the program
        View::Cell(cell) if cell.maker() == own => Some(Arc::new(cell.snapshot())),
        View::Cell(cell) => Some(cell.clone()),
        // nothing surrounds the first trace
        _ => None,
    };
    let cells = frame.captured.handles.iter().filter_map(cell).collect();
    Ok(Acquired { trace, cells, template, kinds, aliases, atoms })
}

/// Traces a function, and traces it again with shared arguments as one value if the trace writes.
pub(crate) fn acquired<T: Tree>(
    name: &str,
    args: &[(Tensor, Arc<str>)],
    mut how: How,
    pipeline: &Arc<Pipeline>,
    recording: &mut Recording,
    stages: &mut Stages,
    f: impl Fn(Vec<Tensor>) -> Result<T, Error>,
) -> Result<(Acquired<T>, bool), Error> {
    let mut made = acquire(name, args, how, pipeline, stages, &f)?;
    if made.trace.writes() && made.shares_cells() {
        *stages = Stages::new(stages.keeps());
        how.aliased = true;
        recording.restart();
        made = acquire(name, args, how, pipeline, stages, &f)?;
    }
    let writes = made.trace.writes();
    if writes {
        refuse_captured_arguments(&made, args)?;
    }
    Ok((made, writes))
}

/// Refuses a captured tensor that is an argument too, because a program that writes can't tell the two apart.
fn refuse_captured_arguments<T>(made: &Acquired<T>, arguments: &[(Tensor, Arc<str>)]) -> Result<(), Error> {
    for (leaf, path) in arguments {
        if let View::Cell(cell) = leaf.view()
            && made.cells.iter().any(|c| Arc::ptr_eq(c, cell))
        {
            let claim = format!(
                "the argument `{path}` is a tensor that the function captures too, and it writes to its arguments"
            );
            return Err(Error::new("E747", claim).help("use the argument only"));
        }
    }
    Ok(())
}

fn kind(ty: &ProxyTy) -> CellKind {
    match ty {
        ProxyTy::Tensor(_) => CellKind::Tensor,
        ProxyTy::Number(_) => CellKind::Number,
        ProxyTy::Key => CellKind::Key,
    }
}

fn guards(trace: &Trace, aliases: &[usize], aliased: bool) -> Vec<Guard> {
    let types = trace.input_proxies().take(aliases.len()).enumerate().map(|(i, p)| match trace.ty(p) {
        ProxyTy::Tensor(t) => Guard::Tensor(i, t),
        ProxyTy::Number(d) => Guard::Number(i, d),
        ProxyTy::Key => Guard::Key(i),
    });
    let mut guards: Vec<Guard> = types.collect();
    if aliased {
        let groups = (0..aliases.len()).map(|first| (first..aliases.len()).filter(|&i| aliases[i] == first).collect());
        guards.extend(groups.filter(|group: &Vec<usize>| group.len() > 1).map(Guard::Alias));
    }
    // tests that later stages make on sizes become guards of the program's prologue
    guards.extend(recorded().into_iter().map(Guard::Size));
    guards
}

/// The name of a leaf; a tree that is one leaf has no path.
fn written(path: &str) -> &str {
    if path.is_empty() { "x" } else { path }
}

/// Names for symbolic sizes, such as `x.0` for the first axis of `x`; they differ from the names of arguments.
struct Atoms {
    arena: Rc<Arena>,
    taken: FxHashSet<String>,
    made: Vec<String>,
}

impl Atoms {
    fn new(arena: Rc<Arena>, args: &[(Tensor, Arc<str>)]) -> Atoms {
        Atoms { arena, taken: args.iter().map(|(_, path)| value_name(written(path))).collect(), made: Vec::new() }
    }

    fn size(&mut self, base: &str, axis: usize, now: Dim) -> Dim {
        let mut name = format!("{base}.{axis}");
        while !self.taken.insert(name.clone()) {
            name.push('_');
        }
        self.made.push(name.clone());
        self.arena.add_atom(&name, now.hint());
        Dim::atom(&name, now.hint())
    }
}

/// The type of an argument.
///
/// # Errors
/// The error of a poisoned argument; E740 or E741 for a handle of another trace.
pub(crate) fn leaf_ty(leaf: &Tensor) -> Result<ProxyTy, Error> {
    match leaf.view() {
        View::Cell(cell) => Ok(cell.proxy_ty()),
        View::Poison(e) => Err(e.clone()),
        View::Wrapped(wrapped) => Ok(ProxyTy::Tensor(wrapped.ty().clone())),
        View::Traced(traced) => Err(scope::stray(traced.token().is_open(), &traced.ty().to_string())),
    }
}

/// For each tensor, the position of the first one with its cell.
pub fn aliases<'t>(tensors: impl Iterator<Item = &'t Tensor>) -> Vec<usize> {
    let mut first = FxHashMap::default();
    let position = |(i, t): (usize, &Tensor)| match t.view() {
        View::Cell(cell) => *first.entry(Arc::as_ptr(cell) as usize).or_insert(i),
        _ => i,
    };
    tensors.enumerate().map(position).collect()
}

/// A tree around values that a program returned.
pub(crate) fn rebuild<T: Tree>(
    template: &T,
    kinds: &[CellKind],
    values: impl Iterator<Item = crate::buffer::Buffer>,
) -> T {
    let mut leaves = kinds.iter().zip(values).map(|(kind, buffer)| Tensor::from_kind(*kind, buffer));
    rebuild_apart(template, &mut leaves)
}
