//! Chooses the loops of a program: which dims are rows, their order, which dims merge, and the sizes of tiles and
//! units.

use super::program::{CHUNK, LINES, Lin, MAX_LOOPS, TILE, padded};
use crate::executors::fusion::fuse::{Group, live, row_dims};
use crate::executors::fusion::graph::piece::Place;
use crate::executors::fusion::graph::{Affine, Axis, Dim, DimSet, Index, Load, Node, Op, ValueId};
use crate::executors::fusion::items::Env;
use fulgurite_core::builtins::Builtin;
use fulgurite_core::kernel::Combine;
use fulgurite_core::lang::ast::Red;
use smallvec::SmallVec;

/// An affine function of the dims, in bytes or elements.
#[derive(Clone, Debug, Default)]
pub struct Linear {
    /// The constant.
    pub base: i64,
    /// One coefficient per dim of the graph.
    pub coefs: Vec<i64>,
}

/// The loops of a program, made of dims.
#[derive(Debug)]
pub struct Nesting {
    /// The dims of each loop, slowest first: outer…, row, seg…, last.
    pub loops: Vec<SmallVec<[Dim; 4]>>,
    pub sizes: SmallVec<[usize; 6]>,
    /// The number of outer loops.
    pub outer: usize,
    /// The dims that form rows; `None` if no reduction runs along rows.
    pub rows: Option<DimSet>,
    /// The lines and columns of a tile.
    pub tile: (usize, usize),
}

impl Nesting {
    /// A function of the dims as a function of the loops.
    pub fn lin(&self, f: &Linear) -> Lin {
        let coef = |l: &SmallVec<[Dim; 4]>| l.last().map_or(0, |d| f.coefs[*d as usize]);
        Lin { base: f.base, coefs: self.loops.iter().map(coef).collect() }
    }
    /// An index expression as a function of the loops.
    pub fn affine(&self, a: &Affine) -> Lin {
        Lin { base: a.base, coefs: self.loops.iter().map(|l| l.last().map_or(0, |d| a.coef(*d))).collect() }
    }
    /// The dims of the loops within a row.
    pub fn inner(&self) -> DimSet {
        self.loops[self.outer + 1..].iter().flatten().copied().collect()
    }
    /// The number of the last loop.
    pub fn last(&self) -> usize {
        self.loops.len() - 1
    }
    /// The loop along which the lines of a tile lie.
    pub fn line_loop(&self) -> usize {
        if self.last() > self.outer + 1 { self.last() - 1 } else { self.outer }
    }
    /// The number of lines of a row.
    pub fn row_lines(&self) -> usize {
        self.sizes[self.outer + 1..self.last()].iter().product()
    }
}

/// The offset of an access in bytes, as a function of the dims.
pub fn load_bytes(load: &Load, env: &Env, dims: usize) -> Linear {
    let form = (env.form)(load.value);
    let bytes = env.values.ty(load.value).dtype.size() as i64;
    let mut out = Linear { base: form.offset * bytes, coefs: vec![0; dims] };
    for (index, stride) in load.idx.iter().zip(&form.strides) {
        if let Index::Affine(a) = index {
            add(&mut out, a, stride.wrapping_mul(bytes));
        }
    }
    out
}

/// The offset of an output with these axes as a function of the dims, in units of `unit` (bytes of an element, or 1).
pub fn out_bytes(value: ValueId, axes: &[Axis], env: &Env, sizes: &[usize], unit: i64) -> Linear {
    let form = (env.form)(value);
    let mut out = Linear { base: form.offset * unit, coefs: vec![0; sizes.len()] };
    for (axis, stride) in axes.iter().zip(&form.strides) {
        let mut step = stride.wrapping_mul(unit);
        for d in axis.iter().rev() {
            out.coefs[*d as usize] = out.coefs[*d as usize].wrapping_add(step);
            // strides of an empty tensor may overflow; they address nothing
            step = step.wrapping_mul(sizes[*d as usize] as i64);
        }
    }
    out
}

/// The affine part of the offset of a scattered output.
pub fn scatter_bytes(value: ValueId, idx: &[Index], env: &Env, dims: usize) -> Linear {
    let form = (env.form)(value);
    let bytes = env.values.ty(value).dtype.size() as i64;
    let mut out = Linear { base: form.offset * bytes, coefs: vec![0; dims] };
    for (index, stride) in idx.iter().zip(&form.strides) {
        if let Index::Affine(a) = index {
            add(&mut out, a, stride.wrapping_mul(bytes));
        }
    }
    out
}

/// Adds `k` times an index. An index that a condition drops may lie far outside of its tensor, and the strides of an
/// empty tensor may overflow; such offsets wrap, and nothing is read there.
fn add(out: &mut Linear, a: &Affine, k: i64) {
    out.base = out.base.wrapping_add(a.base.wrapping_mul(k));
    for &(d, c) in &a.terms {
        let coef = &mut out.coefs[d as usize];
        *coef = coef.wrapping_add(c.wrapping_mul(k));
    }
}

fn of_affine(a: &Affine, dims: usize) -> Linear {
    let mut out = Linear { base: 0, coefs: vec![0; dims] };
    add(&mut out, a, 1);
    out
}

/// One memory access, for the choice of the loop order.
struct Access {
    at: Linear,
    /// The number of elements times their bytes; writes count double.
    weight: f64,
    bytes: i64,
}

/// For a value that exists as blocks of rows, the row of an access as a function of the dims: a loop over rows and columns
/// together could not run block by block.
fn row_of(value: ValueId, at: &Linear, env: &Env) -> Option<Linear> {
    let ty = env.near.contains(&value).then(|| env.values.ty(value))?;
    let row = (ty.shape.last()? * ty.dtype.size()) as i64;
    let mut rows = at.clone();
    rows.coefs.iter_mut().filter(|c| **c < row).for_each(|c| *c = 0);
    Some(rows)
}

/// Chooses the loops of a group.
pub fn nest(group: &Group, env: &Env) -> Nesting {
    let graph = &group.graph;
    let n = graph.sizes.len();
    let live = live(group);
    let count = |dims: DimSet| dims.iter().map(|d| graph.sizes[d as usize] as f64).product::<f64>();
    let mut used = DimSet::EMPTY;
    let mut accesses: Vec<Access> = Vec::new();
    // The functions whose coefficients must agree for two dims to become one loop.
    let mut forms: Vec<Linear> = Vec::new();
    let mut sets: Vec<DimSet> = Vec::new();
    for (node, live) in graph.nodes.iter().zip(&live) {
        if !*live {
            continue;
        }
        used = used.union(node.dims);
        sets.push(node.dims);
        match &node.op {
            Op::Load(l) => {
                let at = load_bytes(l, env, n);
                let bytes = env.values.ty(l.value).dtype.size() as i64;
                forms.push(at.clone());
                forms.extend(row_of((env.form)(l.value).root, &at, env));
                if l.outside.is_some() {
                    forms.extend(
                        l.idx
                            .iter()
                            .filter_map(|i| if let Index::Affine(a) = i { Some(of_affine(a, n)) } else { None }),
                    );
                }
                accesses.push(Access { at, weight: count(node.dims) * bytes as f64, bytes });
            }
            Op::Index(a) | Op::Test { affine: a, .. } => forms.push(of_affine(a, n)),
            Op::Reduce { order, .. } => {
                sets.push(order.iter().copied().collect());
                used = used.union(order.iter().copied().collect());
            }
            _ => {}
        }
    }
    let mut ordered: Option<SmallVec<[Dim; 4]>> = None;
    for out in &group.outs {
        let bytes = env.values.ty(out.value).dtype.size() as i64;
        match &out.place {
            Place::Axes(axes) if (env.stored)(out.value) => {
                let at = out_bytes(out.value, axes, env, &graph.sizes, bytes);
                used = used.union(axes.iter().flatten().copied().collect());
                sets.push(axes.iter().flatten().copied().collect());
                forms.push(at.clone());
                forms.extend(row_of(out.value, &at, env));
                accesses.push(Access { at, weight: 2.0 * count(graph.node(out.node).dims) * bytes as f64, bytes });
            }
            Place::Axes(_) => {}
            Place::Scatter { idx, how, order, .. } => {
                let at = scatter_bytes(out.value, idx, env, n);
                used = used.union(order.iter().copied().collect());
                for i in idx {
                    if let Index::Affine(a) = i {
                        used = used.union(a.dims());
                        forms.push(of_affine(a, n));
                    }
                }
                sets.push(order.iter().copied().collect());
                forms.push(at.clone());
                accesses.push(Access { at, weight: 2.0 * count(graph.node(out.node).dims) * bytes as f64, bytes });
                if *how == Combine::Replace {
                    ordered = Some(order.clone());
                }
            }
        }
    }
    let mut dims: Vec<Dim> = used.iter().filter(|d| graph.sizes[*d as usize] > 1).collect();
    sort(&mut dims, &accesses);
    if let Some(order) = ordered {
        dims.retain(|d| !order.contains(d));
        dims.extend(order.into_iter().filter(|d| graph.sizes[*d as usize] > 1));
    }
    let rows = choose_rows(group, &live, &dims, &count);
    if let Some(rows) = rows {
        let arg = graph.nodes.iter().find_map(|node| match &node.op {
            Op::Reduce { red: Red::ArgMax | Red::ArgMin, order, .. } => Some(order.clone()),
            _ => None,
        });
        let mut inner: Vec<Dim> = dims.iter().copied().filter(|d| rows.has(*d)).collect();
        if let Some(order) = arg {
            inner = order.into_iter().filter(|d| graph.sizes[*d as usize] > 1).collect();
        }
        dims.retain(|d| !rows.has(*d));
        slices_first(group, &live, env, &mut dims);
        dims.extend(inner);
    } else if let Some(fastest) = dims.pop() {
        slices_first(group, &live, env, &mut dims);
        dims.push(fastest);
    }
    let outer_dims = match rows {
        Some(r) => dims.iter().filter(|d| !r.has(**d)).count(),
        None => dims.len(),
    };
    let merge = |dims: &[Dim]| -> Vec<SmallVec<[Dim; 4]>> {
        let mut loops: Vec<SmallVec<[Dim; 4]>> = Vec::new();
        for &d in dims {
            let fits = loops.last().and_then(|l| l.last()).is_some_and(|&slow| {
                let size = graph.sizes[d as usize] as i64;
                forms.iter().all(|f| f.coefs[d as usize].checked_mul(size) == Some(f.coefs[slow as usize]))
                    && sets.iter().all(|s| s.has(slow) == s.has(d))
            });
            match loops.last_mut() {
                Some(l) if fits => l.push(d),
                _ => loops.push(SmallVec::from_slice(&[d])),
            }
        }
        loops
    };
    let (mut loops, inner) = (merge(&dims[..outer_dims]), merge(&dims[outer_dims..]));
    if rows.is_some() {
        if loops.is_empty() {
            loops.push(SmallVec::new());
        }
        let outer = loops.len() - 1;
        loops.extend(inner);
        if loops.len() < outer + 2 {
            loops.push(SmallVec::new());
        }
        return finish(group, &live, graph.sizes.as_slice(), loops, outer, rows, &accesses);
    }
    while loops.len() < 2 {
        loops.insert(0, SmallVec::new());
    }
    let outer = loops.len() - 2;
    finish(group, &live, graph.sizes.as_slice(), loops, outer, None, &accesses)
}

fn finish(
    group: &Group,
    live: &[bool],
    sizes: &[usize],
    loops: Vec<SmallVec<[Dim; 4]>>,
    outer: usize,
    rows: Option<DimSet>,
    accesses: &[Access],
) -> Nesting {
    debug_assert!(loops.len() <= MAX_LOOPS);
    let extents = loops.iter().map(|l| l.iter().map(|d| sizes[*d as usize]).fold(1, usize::saturating_mul)).collect();
    let mut nesting = Nesting { loops, sizes: extents, outer, rows, tile: (1, TILE) };
    nesting.tile = tile(group, live, &nesting, accesses);
    nesting
}

/// Sorts dims from slow to fast, by the strides of the heaviest accesses.
fn sort(dims: &mut [Dim], accesses: &[Access]) {
    let slower = |a: Dim, b: Dim| {
        let mut votes = 0.0;
        for x in accesses {
            let (sa, sb) = (x.at.coefs[a as usize].abs(), x.at.coefs[b as usize].abs());
            if sa != 0 && sb != 0 && sa != sb {
                votes += if sa > sb { x.weight } else { -x.weight };
            }
        }
        votes
    };
    // Insertion sort, because votes need not be transitive; any order is correct.
    for i in 1..dims.len() {
        let mut j = i;
        while j > 0 && slower(dims[j], dims[j - 1]) > 0.0 {
            dims.swap(j, j - 1);
            j -= 1;
        }
    }
}

/// Moves the dims over which all accumulated results vary to the front.
fn slices_first(group: &Group, live: &[bool], env: &Env, dims: &mut Vec<Dim>) {
    let graph = &group.graph;
    let mut common: Option<DimSet> = None;
    for out in &group.outs {
        if live[out.node as usize] && (env.stored)(out.value) && matches!(graph.node(out.node).op, Op::Reduce { .. }) {
            let d = graph.node(out.node).dims;
            common = Some(common.map_or(d, |c| c.meet(d)));
        }
    }
    if let Some(common) = common {
        let (mut first, rest): (Vec<Dim>, Vec<Dim>) = dims.iter().partition(|d| common.has(**d));
        first.extend(rest);
        *dims = first;
    }
}

/// A row that is longer than this is divided among workers if there are only a few rows.
const LONG_ROW: f64 = 16384.0;

/// Chooses the dims of rows: those of reductions whose results are read in the program, or those that all other
/// reductions share.
fn choose_rows(group: &Group, live: &[bool], dims: &[Dim], count: &dyn Fn(DimSet) -> f64) -> Option<DimSet> {
    let graph = &group.graph;
    let real = |s: DimSet| s.iter().filter(|d| graph.sizes[*d as usize] > 1).collect::<DimSet>();
    if let Some(Some(rows)) = row_dims(graph, &group.outs) {
        return Some(real(rows));
    }
    let fastest = *dims.last()?;
    let all: DimSet = dims.iter().copied().collect();
    let mut chosen: Option<DimSet> = None;
    for (node, live) in graph.nodes.iter().zip(live) {
        let Op::Reduce { order, .. } = &node.op else { continue };
        if !*live {
            continue;
        }
        let over = real(order.iter().copied().collect());
        if over.has(fastest) && chosen.is_none_or(|c| c == over) {
            chosen = Some(over);
        } else {
            return None;
        }
    }
    let rows = chosen?;
    let few = count(all.minus(rows)) < 32.0;
    (!(few && count(rows) > LONG_ROW)).then_some(rows)
}

/// Chooses the lines and columns of a tile.
fn tile(group: &Group, live: &[bool], n: &Nesting, accesses: &[Access]) -> (usize, usize) {
    let last = n.sizes[n.last()];
    let lines = n.sizes[n.line_loop()];
    let graph = &group.graph;
    let only_maps = graph.nodes.iter().zip(live).all(|(node, live)| {
        let divides =
            |b: &Builtin| matches!(b, Builtin::DivFloor | Builtin::DivTrunc | Builtin::RemFloor | Builtin::RemTrunc);
        !*live
            || match &node.op {
                Op::Reduce { .. } | Op::Uniform { .. } => false,
                Op::Load(l) => l.outside.is_none() && l.idx.iter().all(|i| matches!(i, Index::Affine(_))),
                // Registers then have gaps, whose contents must not cause an error.
                Op::Call(b, _) => !(node.ty.is_int() && divides(b)),
                _ => true,
            }
    });
    let scatters = group.outs.iter().any(|o| matches!(o.place, Place::Scatter { .. }));
    let (line, fast) = (n.line_loop(), n.last());
    let across = accesses.iter().any(|a| {
        let at = n.lin(&a.at);
        at.coefs[line].abs() == a.bytes && at.coefs[fast].abs() > a.bytes
    });
    if across && only_maps && !scatters && last >= 8 && lines >= 8 {
        // Both sides of a transposition touch whole cache lines.
        return (16.min(lines), 16.min(last));
    }
    if last > TILE / 2 || lines == 1 {
        return (1, padded(last).min(TILE));
    }
    // A tile takes as many lines as fit, and a multiple of the chunk size if possible.
    let computed = |node: &Node| matches!(&node.op, Op::Load(l) if l.idx.iter().any(|i| matches!(i, Index::Node(_))));
    let gathers = graph.nodes.iter().zip(live).any(|(node, live)| *live && computed(node));
    // Each step is called once for a tile, so that more lines pay for the calls; places that are computed are listed.
    let elements = if scatters || gathers { TILE } else { LINES };
    let most = (elements / last).min(lines);
    let whole = (1..=most).rev().find(|tb| (tb * last).is_multiple_of(CHUNK));
    (whole.filter(|tb| 2 * tb > most).unwrap_or(most), last)
}

/// The number of elements of a tile register.
pub fn tile_elements(n: &Nesting) -> usize {
    padded(n.tile.0 * n.tile.1).max(CHUNK)
}
