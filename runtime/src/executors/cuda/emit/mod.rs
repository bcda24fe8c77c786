//! Emits fusions, scans and products as CUDA C.
//!
//! | module | is |
//! |---|---|
//! | `stages` | divides a fusion into kernels |
//! | `printer` | prints nodes as statements |
//! | `lines` | has memory accesses as linear functions of loops |
//! | `literals` | marks the numbers that a general kernel takes as arguments |
//! | `frame` | makes the text of a kernel from its template |
//! | `places` | finds the loops whose iterations lead to places of their own |
//! | `map`, `team`, `scatter`, `chains`, `scan`, `product` | emit kernels, each with a template for its frame |
//!
//! A kernel has two forms. In the specialised one sizes and strides are literals of the text, so the compiler divides
//! and unrolls by them. The general one takes them as arguments, so it serves other shapes too. A name holds a hash of
//! its text, so equal kernels have one name. **Invariant:** the order in which a kernel folds is a function of its text
//! and its arguments, and both forms fold in the same order.

mod chains;
mod frame;
mod lines;
mod literals;
mod map;
mod places;
mod printer;
mod product;
mod scan;
mod scatter;
mod stages;
mod team;
mod walk;

pub(super) use product::product;
pub(super) use scan::scan;

use super::device::Gemm;
use crate::buffer::Sizes;
use crate::executors::fusion::fuse::{Form, Group, live};
use crate::executors::fusion::graph::piece::{Out, Place, ValueTy, Values};
use crate::executors::fusion::graph::{DimSet, Graph, NodeId, Op, ValueId};
use frame::Frame;
use fulgurite_core::DType;
use fulgurite_core::builtins::Builtin;
use printer::Printer;
use rustc_hash::FxHashMap;
use stages::Kind;
use std::cell::RefCell;

/// The environment of a program's kernels.
pub(super) struct Env<'a> {
    /// The types of values.
    pub values: &'a Values,
    /// The layout of a value.
    pub form: &'a dyn Fn(ValueId) -> Form,
    /// Whether a value that a group defines must exist in memory.
    pub stored: &'a dyn Fn(ValueId) -> bool,
    /// Whether the device has matrix products.
    pub multiplies: bool,
    /// Values that one kernel leaves for another. Their numbers follow those of the other values.
    pub between: RefCell<Vec<ValueTy>>,
}

impl Env<'_> {
    /// The type of a value.
    pub fn ty(&self, v: ValueId) -> ValueTy {
        match (v as usize).checked_sub(self.values.len()) {
            Some(at) => self.between.borrow()[at].clone(),
            None => self.values.ty(v).clone(),
        }
    }

    /// Adds a value between kernels.
    fn add(&self, dtype: DType, shape: &[usize]) -> ValueId {
        let mut between = self.between.borrow_mut();
        between.push(ValueTy { dtype, shape: Sizes::from_slice(shape) });
        (self.values.len() + between.len() - 1) as ValueId
    }
}

/// An access or division that may fail.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Site {
    /// An index along an axis of a value.
    Index {
        value: ValueId,
        axis: usize,
        /// The size of the axis.
        size: usize,
    },
    /// An integer divisor, which may be zero.
    Divisor(Builtin),
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arg {
    /// The memory of a dense value, with an offset in bytes for each round.
    Value(ValueId),
    /// The memory in which the first fault is noted.
    Fault,
}

/// A function in CUDA C.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    /// The name, with a hash of the text.
    pub name: String,
    /// The definition.
    pub text: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    /// The kernel with its sizes in the text.
    pub specialised: Function,
    /// The kernel that takes its sizes as arguments, with these sizes; none if they are more than a kernel may have.
    pub general: Option<(Function, Vec<u64>)>,
    /// The numbers of blocks.
    pub grid: [u32; 3],
    /// The numbers of threads of a block.
    pub block: [u32; 3],
    /// The arguments.
    pub args: Vec<Arg>,
}

/// An action of a program.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Launch(Kernel),
    /// Computes a matrix product by the device's library.
    Multiply {
        /// The product.
        gemm: Gemm,
        /// Both operands and the result.
        values: [ValueId; 3],
        /// The offsets in bytes at which they begin.
        offsets: [i64; 3],
    },
    /// Fills a dense value with zeros.
    Zero(ValueId),
    /// Copies one dense value to another.
    Copy {
        /// The target.
        to: ValueId,
        /// The source.
        from: ValueId,
    },
}

/// The rows that kernels come from, for comments and `#line`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin {
    /// The names of the rows.
    pub rows: Vec<&'static str>,
    /// The file and line of the row, if there is a single row.
    pub place: Option<(&'static str, u32)>,
}

/// The reason why there is no kernel.
pub(crate) type Why = String;

/// A fusion whose kernels are emitted.
struct Job<'a> {
    group: &'a Group,
    graph: &'a Graph,
    env: &'a Env<'a>,
    origin: &'a Origin,
    /// The reductions whose results are kept in memory, with their values.
    kept: FxHashMap<NodeId, ValueId>,
    /// Accesses and divisions that may fail.
    sites: &'a mut Vec<Site>,
}

/// The kernels of a group.
///
/// # Errors
/// Reports the reason why there are none.
pub(super) fn group(group: &Group, env: &Env<'_>, origin: &Origin, sites: &mut Vec<Site>) -> Result<Vec<Action>, Why> {
    let mut needed: Vec<usize> = (0..group.outs.len()).filter(|i| (env.stored)(group.outs[*i].value)).collect();
    let live = live(group);
    let graph = &group.graph;
    let along = |id: NodeId| team::read_along(graph, id, env);
    let (_, kept) = stages::stages(group, &needed, &live, &along);
    // a kept reduction that is a result as it stands needs no memory of its own
    let mut places: FxHashMap<NodeId, ValueId> = FxHashMap::default();
    for id in kept {
        let own = needed.iter().position(|o| is_result(graph, &group.outs[*o], id, env));
        let value = match own {
            Some(at) => (env.form)(group.outs[needed.remove(at)].value).root,
            None => {
                let shape: Vec<usize> = graph.node(id).dims.iter().map(|d| graph.sizes[d as usize]).collect();
                env.add(graph.node(id).ty, &shape)
            }
        };
        places.insert(id, value);
    }
    let (stages, _) = stages::stages(group, &needed, &live, &along);
    let mut job = Job { group, graph, env, origin, kept: places, sites };
    let mut actions = Vec::new();
    for stage in &stages {
        match stage.kind {
            Kind::Map => actions.push(Action::Launch(map::map(&mut job, stage)?)),
            Kind::Team => actions.push(Action::Launch(team::team(&mut job, stage)?)),
            Kind::Parts => actions.extend(team::parts(&mut job, stage)?.map(Action::Launch)),
            Kind::Scatter => actions.extend(scatter::scatter(&mut job, stage)?),
        }
    }
    Ok(actions)
}

/// Whether a result is a reduction in the layout in which it is kept.
fn is_result(graph: &Graph, out: &Out, id: NodeId, env: &Env<'_>) -> bool {
    let Place::Axes(axes) = &out.place else { return false };
    let form = (env.form)(out.value);
    let dense = lines::Linear::axes(axes, &form, &graph.sizes) == printer::kept_linear(graph, id);
    out.node == id && dense && env.ty(out.value).dtype == graph.node(id).ty
}

/// The type of indices: `int` if no number of the kernel overflows it.
fn index_type(graph: &Graph, nodes: &[bool], env: &Env<'_>, more: &[&lines::Linear], threads: usize) -> &'static str {
    const MOST: i64 = i32::MAX as i64 / 2;
    let mut reach = (threads as i64).saturating_add(1 << 16);
    let far = |l: &lines::Linear| l.reach(&graph.sizes);
    more.iter().for_each(|l| reach = reach.max(far(l)));
    for (node, used) in graph.nodes.iter().zip(nodes) {
        match &node.op {
            Op::Load(load) if *used => {
                reach = reach.max(far(&lines::Linear::load(load, &(env.form)(load.value), graph.sizes.len())));
            }
            Op::Index(a) | Op::Test { affine: a, .. } if *used => {
                reach = reach.max(far(&lines::Linear::affine(a, graph.sizes.len())));
            }
            // the loops of a reduction count its elements, also where no access moves along with them
            Op::Reduce { order, .. } if *used => {
                let sizes = order.iter().map(|d| graph.sizes[*d as usize] as i64);
                reach = reach.max(sizes.fold(1, i64::saturating_mul));
            }
            _ => {}
        }
    }
    if reach > MOST { "long long" } else { "int" }
}

/// All linear functions over loops that a kernel prints; dims may be merged if all of them agree.
fn linears(graph: &Graph, nodes: &[bool], env: &Env<'_>, kept: &FxHashMap<NodeId, ValueId>) -> Vec<lines::Linear> {
    let n = graph.sizes.len();
    let mut all = Vec::new();
    for (at, (node, used)) in graph.nodes.iter().zip(nodes).enumerate() {
        if !*used {
            continue;
        }
        match &node.op {
            Op::Load(load) => {
                all.push(lines::Linear::load(load, &(env.form)(load.value), n));
                if load.outside.is_some() {
                    for index in &load.idx {
                        if let crate::executors::fusion::graph::Index::Affine(a) = index {
                            all.push(lines::Linear::affine(a, n));
                        }
                    }
                }
            }
            Op::Index(a) | Op::Test { affine: a, .. } => all.push(lines::Linear::affine(a, n)),
            Op::Reduce { .. } if kept.contains_key(&(at as NodeId)) => {
                all.push(printer::kept_linear(graph, at as NodeId));
            }
            _ => {}
        }
    }
    all
}

/// The nodes that `roots` need, without going past `ends`.
fn needed(graph: &Graph, roots: &[NodeId], ends: &dyn Fn(NodeId) -> bool) -> Vec<bool> {
    let mut used = vec![false; graph.nodes.len()];
    let mut open = roots.to_vec();
    while let Some(n) = open.pop() {
        if std::mem::replace(&mut used[n as usize], true) || ends(n) {
            continue;
        }
        graph.node(n).op.for_each_arg(&mut |a| open.push(a));
    }
    used
}

/// The order of loops over `dims`, slowest first, by the strides of the largest access.
fn ordered(graph: &Graph, dims: DimSet, accesses: &[(lines::Linear, usize)]) -> Vec<u8> {
    let mut order: Vec<u8> = dims.iter().collect();
    let widest =
        accesses.iter().max_by_key(|(l, weight)| (dims.iter().filter(|d| l.coefs[*d as usize] != 0).count(), *weight));
    if let Some((l, _)) = widest {
        let step = |d: &u8| match l.coefs[*d as usize].abs() {
            0 => i64::MAX,
            c => c,
        };
        order.sort_by_key(|d| std::cmp::Reverse((step(d), graph.sizes[*d as usize])));
    }
    order
}

/// A printer with its first level.
fn printer<'a>(
    graph: &'a Graph,
    env: &'a Env<'a>,
    kept: &'a FxHashMap<NodeId, ValueId>,
    sites: &'a mut Vec<Site>,
    ix: &'static str,
    loops: Vec<lines::Loop>,
) -> Printer<'a> {
    let mut printer = Printer::new(graph, env, kept, sites, ix);
    printer.levels.push(printer::Level::new(loops, "  "));
    printer
}
