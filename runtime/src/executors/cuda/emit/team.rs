//! Kernels of reductions: a team of threads per result runs pass after pass, and then writes results.

use super::lines::{self, Linear, decode, merged};
use super::literals;
use super::map::written;
use super::printer::{Printer, Run, TIME, kept_linear};
use super::stages::{Stage, count, out_dims, real, reduced};
use super::walk::{self, Walk};
use super::{Env, Frame, Job, Kernel, Why, index_type, linears, needed, ordered, printer};
use crate::executors::fusion::fuse::Group;
use crate::executors::fusion::graph::piece::Out;
use crate::executors::fusion::graph::{Dim, DimSet, Graph, NodeId, Op, ValueId};
use fulgurite_core::builtins::cuda::{literal, register_type};
use fulgurite_core::eval::loop_nest::neutral;
use fulgurite_core::lang::ast::Red;
use fulgurite_core::{DType, Scalar};
use rustc_hash::FxHashMap;
use serde_json::json;
use std::fmt::Write;

const TEAM: &str = include_str!("../templates/team.cu");
const FINISH: &str = include_str!("../templates/finish.cu");

/// The elements of a part are a multiple of this if a block folds them.
const PART: usize = 8192;
/// The elements of a part are a multiple of this if the rows of a block fold them, each for 32 results.
const PART_OF_COLUMNS: usize = 64;
/// The bytes of inputs that a thread keeps in registers for several passes.
const KEPT: usize = 128;
/// The number of blocks that keep a device busy a few times over.
const BLOCKS: usize = 1024;

/// The division of a block's threads among results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Thread,
    Warp,
    Block(usize),
    /// The block has this many rows of 32 columns.
    Columns(usize),
}

impl Shape {
    fn lanes(self) -> usize {
        match self {
            Shape::Thread => 1,
            Shape::Warp => 32,
            Shape::Block(n) | Shape::Columns(n) => n,
        }
    }

    fn threads(self) -> [u32; 3] {
        match self {
            Shape::Thread => [256, 1, 1],
            Shape::Warp => [32, 8, 1],
            Shape::Block(n) => [n as u32, 1, 1],
            Shape::Columns(n) => [32, n as u32, 1],
        }
    }

    /// The statements with which a kernel begins: the number `o` of a thread's result, and the thread's place in its team.
    fn begin(self, ix: &str, teams: &str) -> String {
        match self {
            Shape::Thread => {
                format!("  const {ix} o = ({ix})blockIdx.x * 256 + threadIdx.x;\n  if (o >= {teams}) return;\n")
            }
            Shape::Warp => format!(
                "  // a warp per result, eight in a block\n  const int lane = threadIdx.x;\n  const {ix} o = ({ix})blockIdx.x * 8 + threadIdx.y;\n  if (o >= {teams}) return;\n"
            ),
            Shape::Block(_) => {
                format!("  // a block per result\n  const int lane = threadIdx.x;\n  const {ix} o = blockIdx.x;\n")
            }
            Shape::Columns(_) => format!(
                "  // 32 neighbouring results side by side, the rows of the block share what is reduced\n  const int lane = threadIdx.y, column = threadIdx.x;\n  const bool active = ({ix})blockIdx.x * 32 + column < {teams};\n  // threads behind the last result repeat it, so that all meet at the barriers\n  const {ix} o = active ? ({ix})blockIdx.x * 32 + column : {teams} - 1;\n"
            ),
        }
    }

    fn blocks(self, teams: usize) -> usize {
        let per_block = match self {
            Shape::Thread => 256,
            Shape::Warp => 8,
            Shape::Block(_) => 1,
            Shape::Columns(_) => 32,
        };
        teams.div_ceil(per_block).max(1)
    }
}

/// Chooses the shape; `along` says whether memory is read along the reduced dims rather than along the results.
fn shape(teams: usize, over: usize, along: bool) -> Shape {
    match (over, along) {
        (..=8, _) => Shape::Thread,
        (..=64, false) if teams >= 1 << 14 => Shape::Thread,
        (..=1024, true) => Shape::Warp,
        (..=8192, true) => Shape::Block(256),
        (_, true) => Shape::Block(1024),
        (n, false) => Shape::Columns((n / 8).next_power_of_two().clamp(4, 32)),
    }
}

/// A reduction as text.
struct Fold {
    node: NodeId,
    /// The name of the accumulator, such as `acc0`.
    name: String,
    /// The type of the accumulator; for a position it includes the extremum.
    ty: String,
    start: String,
    op: &'static str,
}

/// The dtype in which partial results are kept.
fn accumulator(red: Red, ty: DType, body: DType) -> DType {
    match red {
        Red::Sum | Red::Mean | Red::Prod if ty.is_float() => ty,
        Red::Sum | Red::Prod if ty != DType::Bool => DType::I64,
        Red::Any | Red::All => DType::Bool,
        _ => body,
    }
}

fn is_place(red: Red) -> bool {
    matches!(red, Red::ArgMax | Red::ArgMin)
}

fn functor(red: Red) -> &'static str {
    match red {
        Red::Prod | Red::All => "fg_prod",
        Red::Max => "fg_largest",
        Red::Min => "fg_smallest",
        Red::ArgMax => "fg_argmax",
        Red::ArgMin => "fg_argmin",
        _ => "fg_sum",
    }
}

impl Fold {
    fn new(p: &mut Printer<'_>, node: NodeId) -> Fold {
        let (red, body) = of(p.graph, node);
        let acc = accumulator(red, p.graph.node(node).ty, body);
        let start = literal(neutral(red, acc), acc);
        let (ty, start) = match is_place(red) {
            true => (format!("fg_found<{}>", register_type(acc)), format!("{{{start}, -1}}")),
            false => (register_type(acc).to_owned(), start),
        };
        Fold { node, name: p.fresh("acc"), ty, start, op: functor(red) }
    }

    /// The statement that folds one element; `position` is the position of the element.
    fn step(&self, p: &mut Printer<'_>, position: &str) -> String {
        let Op::Reduce { arg, mask, .. } = &p.graph.node(self.node).op else { return String::new() };
        let (arg, mask) = (*arg, *mask);
        let condition = mask.map(|m| format!("if ({}) ", p.value(m))).unwrap_or_default();
        let value = p.value(arg);
        let (red, _) = of(p.graph, self.node);
        let value = match is_place(red) {
            true => format!("{}{{{value}, {position}}}", self.ty),
            // C computes narrow types as int
            false if register_type(p.graph.node(arg).ty) == self.ty && self.ty != "bool" => value,
            false if self.ty == "bool" && p.graph.node(arg).ty == DType::Bool => format!("(bool)({value})"),
            false => format!("fg_cast<{}>({value})", self.ty),
        };
        format!("{condition}{0} = {1}()({0}, {value});", self.name, self.op)
    }

    /// The statement that folds the values of all lanes.
    fn fold(&self, shape: Shape) -> Option<String> {
        let (name, op) = (&self.name, self.op);
        Some(match shape {
            Shape::Thread => return None,
            Shape::Warp => format!("{name} = fg_fold_warp<32>({name}, {op}());"),
            Shape::Block(n) => format!("{name} = fg_fold_block<{n}>({name}, {op}(), of_{name}, lane);"),
            Shape::Columns(n) => format!("{name} = fg_fold_columns<{n}>({name}, {op}(), of_{name}, lane, column);"),
        })
    }

    /// The text of the reduction's result.
    fn result(&self, graph: &Graph) -> String {
        let Op::Reduce { red, order, arg, .. } = &graph.node(self.node).op else { return String::new() };
        let ty = graph.node(self.node).ty;
        let elements: usize = order.iter().map(|d| graph.sizes[*d as usize]).product();
        match red {
            Red::ArgMax | Red::ArgMin => format!("{0}.at < 0 ? 0 : {0}.at", self.name),
            Red::Mean => {
                format!("{} / {}", self.name, literals::constant(Scalar::Float(elements as f64), ty))
            }
            _ if accumulator(*red, ty, graph.node(*arg).ty) == ty => self.name.clone(),
            _ => format!("fg_cast<{}>({})", register_type(ty), self.name),
        }
    }
}

fn of(graph: &Graph, node: NodeId) -> (Red, DType) {
    match &graph.node(node).op {
        Op::Reduce { red, arg, .. } => (*red, graph.node(*arg).ty),
        _ => (Red::Sum, graph.node(node).ty),
    }
}

/// Whether a pass reads mostly along the reduced dims, rather than along the results.
fn reads_along(graph: &Graph, used: &[bool], env: &Env<'_>, team: DimSet, over: DimSet) -> bool {
    let unit = |l: &Linear, dims: DimSet| dims.iter().any(|d| l.coefs[d as usize] == 1);
    let (mut along, mut across) = (0, 0);
    for (node, used) in graph.nodes.iter().zip(used) {
        let Op::Load(load) = &node.op else { continue };
        if *used {
            let l = Linear::load(load, &(env.form)(load.value), graph.sizes.len());
            let weight = count(graph, node.dims);
            if unit(&l, over) {
                along += weight;
            } else if unit(&l, team) {
                across += weight;
            }
        }
    }
    along >= across
}

/// Whether one reduction reads mostly along its reduced dims.
pub(super) fn read_along(graph: &Graph, node: NodeId, env: &Env<'_>) -> bool {
    let mut roots = Vec::new();
    graph.node(node).op.for_each_arg(&mut |a| roots.push(a));
    let used = needed(graph, &roots, &|n| matches!(graph.node(n).op, Op::Reduce { .. }));
    reads_along(graph, &used, env, real(graph, graph.node(node).dims), reduced(graph, node))
}

/// The dims of a pass in the order of its walk. Positions of extrema count them in the order of the reduction.
fn pass_order(graph: &Graph, pass: &[NodeId], used: &[bool], env: &Env<'_>) -> Vec<Dim> {
    let places = pass.iter().find(|r| is_place(of(graph, **r).0));
    if let Some(place) = places
        && let Op::Reduce { order, .. } = &graph.node(*place).op
    {
        return order.to_vec();
    }
    let over = reduced(graph, pass[0]);
    let mut accesses = Vec::new();
    for (node, used) in graph.nodes.iter().zip(used) {
        if let (Op::Load(load), true) = (&node.op, *used) {
            let l = Linear::load(load, &(env.form)(load.value), graph.sizes.len());
            accesses.push((l, env.ty(load.value).dtype.size()));
        }
    }
    ordered(graph, over, &accesses)
}

/// A kernel's reductions and its results.
struct Team<'a> {
    group: &'a Group,
    env: &'a Env<'a>,
    kept: &'a FxHashMap<NodeId, ValueId>,
    shape: Shape,
    uses: Vec<Linear>,
}

impl<'a> Team<'a> {
    fn args(&self, pass: &[NodeId]) -> Vec<bool> {
        let mut roots = Vec::new();
        pass.iter().for_each(|r| self.group.graph.node(*r).op.for_each_arg(&mut |a| roots.push(a)));
        let own = |n: NodeId| matches!(self.group.graph.node(n).op, Op::Reduce { .. });
        needed(&self.group.graph, &roots, &own)
    }

    /// The walk of a pass, and the nodes that it needs.
    fn walk_of_pass(&self, p: &Printer<'_>, pass: &[NodeId]) -> (Walk, Vec<bool>) {
        let graph = &self.group.graph;
        let used = self.args(pass);
        let order = pass_order(graph, pass, &used, self.env);
        let loops = merged(&order, &graph.sizes, &self.uses);
        (Walk::new(p, &used, &p.levels[0].loops.clone(), loops, &[]), used)
    }

    /// The walk that writes results over more dims than the team's, and the nodes that it needs.
    fn walk_of_results(&self, p: &Printer<'_>, more: DimSet, outs: &[&Out]) -> (Walk, Vec<bool>) {
        let graph = &self.group.graph;
        let roots: Vec<NodeId> = outs.iter().map(|o| o.node).collect();
        let used = needed(graph, &roots, &|n| matches!(graph.node(n).op, Op::Reduce { .. }));
        let writes = written(graph, outs, self.env);
        let accesses: Vec<(Linear, usize)> = writes.iter().map(|(l, d)| (l.clone(), d.size())).collect();
        let loops = merged(&ordered(graph, more, &accesses), &graph.sizes, &self.uses);
        (Walk::new(p, &used, &p.levels[0].loops.clone(), loops, &writes), used)
    }

    fn run(&self, walk: &Walk) -> Run {
        let (total, width) = (walk.total(), walk.width);
        Run { total, width, times: total.div_ceil((width * self.shape.lanes()).max(1)) }
    }

    /// Inputs that several walks over equally many elements read are kept in registers, if they are few enough.
    fn keep(&self, p: &mut Printer<'_>, walks: &[(Walk, Vec<bool>)]) {
        let most = match self.shape {
            Shape::Warp | Shape::Block(..=512) => KEPT,
            Shape::Block(_) => KEPT / 2,
            // a single thread finds its inputs in the cache, and columns are walked by all rows of a block
            Shape::Thread | Shape::Columns(_) => return,
        };
        let mut readers: Vec<((String, Run), usize, usize)> = Vec::new();
        for (walk, used) in walks.iter().filter(|(walk, _)| walk.width > 1) {
            let run = self.run(walk);
            for (text, bytes) in walk.packs(p, used) {
                match readers.iter_mut().find(|(key, ..)| key.0 == text && key.1 == run) {
                    Some((_, walks, _)) => *walks += 1,
                    None => readers.push(((text, run), 1, bytes * run.times)),
                }
            }
        }
        let mut bytes = 0;
        for (key, walks, own) in readers {
            if walks > 1 && bytes + own <= most {
                bytes += own;
                p.keep.insert(key, None);
            }
        }
    }

    /// The loop of a walk around its body. `range` has its start and end.
    fn around(&self, p: &Printer<'_>, walk: &Walk, inside: &str, range: Option<(String, String)>) -> String {
        let (lanes, width, ix, flat) = (self.shape.lanes(), walk.width, p.ix, walk.flat());
        let (first, end) = range.unwrap_or_else(|| ("0".to_owned(), literals::size(walk.total())));
        let at = match (lanes, width) {
            (1, _) => first,
            (_, 1) if first == "0" => "lane".to_owned(),
            (_, w) if first == "0" => format!("{w} * lane"),
            (_, 1) => format!("{first} + lane"),
            (_, w) => format!("{first} + {w} * lane"),
        };
        let (run, step) = (self.run(walk), width * lanes);
        if !p.keep.keys().any(|(_, kept)| *kept == run) {
            return format!("for ({ix} {flat} = {at}; {flat} < {end}; {flat} += {step}) {{\n{inside}  }}\n");
        }
        let mut text = format!("#pragma unroll\n  for (int {TIME} = 0; {TIME} < {0}; ++{TIME}) {{\n", run.times());
        let index = format!("    const {ix} {flat} = {at} + {step} * {TIME};\n");
        let ends = format!("    if ({flat} >= {end}) break;\n");
        let whole = run.times * step == run.total;
        // a general kernel serves totals that its threads share unevenly, and fewer turns than it has
        let specialised = match (whole, walk::mentions(inside, &flat)) {
            (false, _) => index.clone() + &ends,
            (true, true) => index.clone(),
            (true, false) => String::new(),
        };
        text += &literals::either(&(index + &ends), &specialised);
        text + inside + "  }\n"
    }

    /// One pass: accumulators, the loop, the folds. `range` has the start and end of the loop.
    fn pass(&self, p: &mut Printer<'_>, pass: &[NodeId], range: Option<(String, String)>) -> Vec<Fold> {
        let (walk, _) = self.walk_of_pass(p, pass);
        p.run = self.run(&walk);
        let folds: Vec<Fold> = pass.iter().map(|r| Fold::new(p, *r)).collect();
        let flat = walk.flat();
        let position = if walk.width > 1 { format!("{flat} + k") } else { flat.clone() };
        let inside = walk::inside(p, &walk, 1, |p, inside| {
            for fold in &folds {
                let step = fold.step(p, &position);
                inside.tail.push(step);
            }
        });
        for fold in &folds {
            let _ = writeln!(p.levels[0].text, "  {} {} = {};", fold.ty, fold.name, fold.start);
        }
        let around = self.around(p, &walk, &inside, range);
        let indent = if around.starts_with('#') { "" } else { "  " };
        let text = &mut p.levels[0].text;
        let _ = write!(text, "{indent}{around}");
        for fold in &folds {
            if let Some(line) = fold.fold(self.shape) {
                let _ = writeln!(text, "  {line}");
            }
        }
        folds
    }

    /// The memory that the threads of a block share for their folds.
    fn shared(&self, folds: &[Fold]) -> String {
        let size = match self.shape {
            Shape::Block(n) => n / 32,
            Shape::Columns(n) => n * 32,
            _ => return String::new(),
        };
        folds.iter().map(|f| format!("  __shared__ {} of_{}[{size}];\n", f.ty, f.name)).collect()
    }

    /// The condition under which a thread writes a result, if each team has one result.
    fn one(&self) -> &'static str {
        match self.shape {
            Shape::Thread => "",
            Shape::Columns(_) => "if (lane == 0 && active) ",
            _ => "if (lane == 0) ",
        }
    }

    /// Writes results that vary over more than the team's dims.
    fn write(&self, p: &mut Printer<'_>, more: DimSet, outs: &[&Out]) {
        let (walk, _) = self.walk_of_results(p, more, outs);
        p.run = self.run(&walk);
        let inside = walk::inside(p, &walk, 1, |p, inside| {
            outs.iter().for_each(|out| walk::store(p, out, inside));
        });
        let around = self.around(p, &walk, &inside, None);
        let active = match self.shape {
            Shape::Columns(_) => "  if (active) ",
            _ if around.starts_with('#') => "",
            _ => "  ",
        };
        let _ = write!(p.levels[0].text, "{active}{around}");
    }
}

fn prepare<'a>(
    group: &'a Group,
    stage: &Stage,
    env: &'a Env<'a>,
    kept: &'a FxHashMap<NodeId, ValueId>,
) -> (Team<'a>, Vec<bool>, Vec<Dim>) {
    let graph = &group.graph;
    let outs: Vec<&Out> = stage.outs.iter().map(|o| &group.outs[*o]).collect();
    let inner = |n: NodeId| kept.contains_key(&n) && !stage.passes.iter().flatten().any(|r| *r == n);
    let roots: Vec<NodeId> = outs.iter().map(|o| o.node).chain(stage.passes.iter().flatten().copied()).collect();
    let used = needed(graph, &roots, &inner);
    let writes = written(graph, &outs, env);
    let mut uses = linears(graph, &used, env, kept);
    uses.extend(writes.iter().map(|w| w.0.clone()));
    let over = stage.passes.iter().map(|p| count(graph, reduced(graph, p[0]))).max().unwrap_or(1);
    let along = {
        let dims = stage.passes.first().map_or(DimSet::EMPTY, |p| reduced(graph, p[0]));
        reads_along(graph, &used, env, stage.team, dims)
    };
    let shape = shape(count(graph, stage.team), over, along);
    let mut accesses: Vec<(Linear, usize)> = writes.iter().map(|(l, d)| (l.clone(), d.size())).collect();
    for (node, used) in graph.nodes.iter().zip(&used) {
        if let (Op::Load(load), true) = (&node.op, *used) {
            accesses.push((Linear::load(load, &(env.form)(load.value), graph.sizes.len()), 1));
        }
    }
    let order = ordered(graph, stage.team, &accesses);
    (Team { group, env, kept, shape, uses }, used, order)
}

/// The kernel of a stage whose reductions have results over the same dims.
pub(super) fn team(job: &mut Job<'_>, stage: &Stage) -> Result<Kernel, Why> {
    let Job { group, graph, env, origin, kept, sites } = job;
    let (team, used, order) = prepare(group, stage, env, kept);
    let loops = merged(&order, &graph.sizes, &team.uses);
    let teams = count(graph, stage.team);
    let ix = index_type(graph, &used, env, &team.uses.iter().collect::<Vec<_>>(), teams * 32);
    // reductions of this kernel are read where they are computed
    let foreign: FxHashMap<NodeId, ValueId> = {
        let own = |n: &NodeId| stage.passes.iter().flatten().any(|r| r == n);
        team.kept.iter().filter(|(n, _)| !own(n)).map(|(n, v)| (*n, *v)).collect()
    };
    let mut p = printer(graph, env, &foreign, sites, ix, loops.clone());
    p.levels[0].text = decode(&loops, "o", ix, "  ");
    let mut results: Vec<(DimSet, Vec<&Out>)> = Vec::new();
    for out in stage.outs.iter().map(|o| &group.outs[*o]) {
        let more = out_dims(graph, out).minus(stage.team);
        match results.iter_mut().find(|r| r.0 == more) {
            Some(alike) => alike.1.push(out),
            None => results.push((more, vec![out])),
        }
    }
    let over_more = results.iter().filter(|r| !r.0.is_empty());
    let walks = stage.passes.iter().map(|pass| team.walk_of_pass(&p, pass));
    let walks: Vec<_> = walks.chain(over_more.map(|(more, outs)| team.walk_of_results(&p, *more, outs))).collect();
    team.keep(&mut p, &walks);
    let mut shared = String::new();
    for pass in &stage.passes {
        let folds = team.pass(&mut p, pass, None);
        shared += &team.shared(&folds);
        for fold in &folds {
            let result = fold.result(graph);
            let name = if result == fold.name {
                result
            } else {
                let (name, ty) = (p.fresh("v"), register_type(graph.node(fold.node).ty));
                let _ = writeln!(p.levels[0].text, "  const {ty} {name} = {result};");
                name
            };
            if let Some(&value) = kept.get(&fold.node) {
                let at = lines::text(&kept_linear(graph, fold.node), &loops, &[]);
                let pointer = p.pointer(value, true);
                let _ = writeln!(p.levels[0].text, "  {}{pointer}[{at}] = {name};", team.one());
            }
            p.name(fold.node, name);
        }
    }
    for (more, outs) in results {
        if more.is_empty() {
            for out in outs {
                let mut inside = walk::Inside::default();
                walk::store(&mut p, out, &mut inside);
                let one = team.one();
                inside.tail.iter().for_each(|line| _ = writeln!(p.levels[0].text, "  {one}{line}"));
            }
        } else {
            team.write(&mut p, more, &outs);
        }
    }
    let body = p.close(0).remove(0).text;
    let threads = team.shape.threads();
    let context = json!({
        "ix": ix, "threads": threads.iter().product::<u32>().to_string(),
        "body": shared + &team.shape.begin(ix, &literals::size(teams)) + &body,
    });
    let grid = [team.shape.blocks(teams), 1, 1];
    Frame { template: TEAM, stem: "team", grid, block: threads }.kernel(origin, &p.args, p.faults, context)
}

/// The two kernels of a long reduction with few results: one folds parts of it, the other folds the parts.
pub(super) fn parts(job: &mut Job<'_>, stage: &Stage) -> Result<[Kernel; 2], Why> {
    let Job { group, graph, env, origin, kept, sites } = job;
    let (mut team, used, _) = prepare(group, stage, env, kept);
    let node = stage.passes[0][0];
    // the results have the layout of a kept reduction
    let order: Vec<Dim> = stage.team.iter().collect();
    let loops = merged(&order, &graph.sizes, &team.uses);
    let (teams, elements) = (count(graph, stage.team), count(graph, reduced(graph, node)));
    let least = match read_along(graph, node, env) {
        true => {
            team.shape = Shape::Block(256);
            PART
        }
        false => {
            team.shape = Shape::Columns(8);
            PART_OF_COLUMNS
        }
    };
    let blocks = team.shape.blocks(teams);
    let part = elements.div_ceil((BLOCKS / blocks).max(1)).next_multiple_of(least);
    let parts = elements.div_ceil(part);
    let ix = index_type(graph, &used, env, &team.uses.iter().collect::<Vec<_>>(), elements.max(teams * parts));
    let foreign: FxHashMap<NodeId, ValueId> = kept.iter().filter(|(n, _)| **n != node).map(|(n, v)| (*n, *v)).collect();
    let mut p = printer(graph, env, &foreign, sites, ix, loops.clone());
    let step = literals::size(part);
    p.levels[0].text = format!("  const {ix} first = ({ix})blockIdx.y * {step};\n") + &decode(&loops, "o", ix, "  ");
    let whole = format!("first + {step}");
    let end = format!("min({whole}, ({ix}){})", literals::size(elements));
    let end = literals::either(&end, if parts * part == elements { &whole } else { &end });
    let folds = team.pass(&mut p, &[node], Some(("first".to_owned(), end)));
    let (red, body) = of(graph, node);
    let acc = accumulator(red, graph.node(node).ty, body);
    let between = env.add(acc, &[parts, teams]);
    let (pointer, one) = (p.pointer(between, true), team.one());
    let _ = writeln!(
        p.levels[0].text,
        "  {one}{pointer}[({ix})blockIdx.y * {} + o] = {};",
        literals::size(teams),
        folds[0].name
    );
    let body = p.close(0).remove(0).text;
    let (threads, grid) = (team.shape.threads(), [blocks, parts, 1]);
    let context = json!({
        "ix": ix, "threads": threads.iter().product::<u32>().to_string(),
        "body": team.shared(&folds) + &team.shape.begin(ix, &literals::size(teams)) + &body,
    });
    let frame = Frame { template: TEAM, stem: "parts", grid, block: threads };
    let first = frame.kernel(origin, &p.args, p.faults, context)?;
    let mut q = printer(graph, env, &foreign, sites, ix, loops);
    let (from, to) = (q.pointer(between, false), q.pointer(kept[&node], true));
    let finished = Fold { name: "acc".to_owned(), ..Fold::new(&mut q, node) };
    let context = json!({
        "ix": ix, "teams": literals::size(teams), "parts": literals::size(parts), "part": from, "out": to,
        "acc": finished.ty, "start": finished.start, "op": finished.op, "result": finished.result(graph),
    });
    // the template takes one warp per result
    let (grid, block) = ([Shape::Warp.blocks(teams), 1, 1], Shape::Warp.threads());
    let frame = Frame { template: FINISH, stem: "finish", grid, block };
    let second = frame.kernel(origin, &q.args, false, context)?;
    Ok([first, second])
}
