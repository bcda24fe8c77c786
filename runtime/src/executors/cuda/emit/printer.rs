//! Prints the nodes of a graph as C statements, each as far outside of loops as possible.

use super::lines::{self, Linear, Loop};
use super::{Env, Site, literals};
use crate::executors::fusion::graph::piece::ValueTy;
use crate::executors::fusion::graph::{DimSet, Graph, Index, Load, NodeId, Op, ValueId};
use fulgurite_core::Scalar;
use fulgurite_core::builtins::{Builtin, cuda};
use rustc_hash::FxHashMap;
use std::fmt::Write;

/// A longer term becomes a statement of its own, to keep lines readable.
const LONGEST: usize = 48;

/// The index of the first element of a pack.
pub(super) const FIRST: &str = "j";

/// The statements at one depth, which see the loops of all levels up to theirs.
pub(super) struct Level {
    pub loops: Vec<Loop>,
    pub text: String,
    pub indent: &'static str,
    /// The number of elements per step of the last loop.
    pub width: usize,
}

impl Level {
    pub fn new(loops: Vec<Loop>, indent: &'static str) -> Level {
        Level { loops, text: String::new(), indent, width: 1 }
    }
}

/// A tensor in the parameter list of the kernel.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Argument {
    pub value: ValueId,
    pub written: bool,
    /// The C type of the elements.
    pub element: &'static str,
    /// The type as text, such as `f32[2, 3]`.
    pub ty: String,
    /// The type without its sizes, such as `f32[*, *]`.
    pub any: String,
}

impl Argument {
    pub fn new(value: ValueId, written: bool, ty: &ValueTy) -> Argument {
        let text = format!("{}{:?}", ty.dtype, ty.shape.as_slice());
        let any = format!("{}[{}]", ty.dtype, vec!["*"; ty.shape.len()].join(", "));
        Argument { value, written, element: cuda::stored_type(ty.dtype), ty: text, any }
    }
}

/// The way in which the threads of a team run over elements: the number of threads, the number of
/// elements that a thread takes at once, and the number of iterations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Run {
    pub total: usize,
    pub width: usize,
    pub times: usize,
}

impl Run {
    /// The number of iterations, which the compiler knows. A general kernel serves runs of up to
    /// the next power of two.
    pub fn times(&self) -> String {
        literals::either(&self.times.next_power_of_two().to_string(), &self.times.to_string())
    }
}

/// The index of the iteration, in a run that keeps its inputs in registers.
pub(super) const TIME: &str = "r";

/// Prints the nodes of one kernel.
pub(super) struct Printer<'a> {
    pub graph: &'a Graph,
    pub env: &'a Env<'a>,
    /// Reductions that another kernel left in memory; the dims of a reduction are its axes.
    pub kept: &'a FxHashMap<NodeId, ValueId>,
    pub sites: &'a mut Vec<Site>,
    pub args: Vec<Argument>,
    pub faults: bool,
    pub ix: &'static str,
    pub levels: Vec<Level>,
    /// For each node with a value, the level and the text of that value.
    names: FxHashMap<NodeId, (usize, String)>,
    /// The packs that are read on the last level but one.
    packs: FxHashMap<NodeId, String>,
    /// Packs that several runs over the same elements read. The first of the runs leaves them in registers under the
    /// given name.
    pub keep: FxHashMap<(String, Run), Option<String>>,
    /// The run that is being printed.
    pub run: Run,
    uses: FxHashMap<NodeId, usize>,
    count: usize,
}

impl<'a> Printer<'a> {
    pub fn new(
        graph: &'a Graph,
        env: &'a Env<'a>,
        kept: &'a FxHashMap<NodeId, ValueId>,
        sites: &'a mut Vec<Site>,
        ix: &'static str,
    ) -> Printer<'a> {
        let mut uses: FxHashMap<NodeId, usize> = FxHashMap::default();
        for node in &graph.nodes {
            node.op.for_each_arg(&mut |a| *uses.entry(a).or_default() += 1);
        }
        Printer {
            graph,
            env,
            kept,
            sites,
            args: Vec::new(),
            faults: false,
            ix,
            levels: Vec::new(),
            names: FxHashMap::default(),
            packs: FxHashMap::default(),
            keep: FxHashMap::default(),
            run: Run::default(),
            uses,
            count: 0,
        }
    }

    /// Gives a node a name on the first level.
    pub fn name(&mut self, node: NodeId, name: String) {
        self.names.insert(node, (0, name));
    }

    /// A name that is not used yet.
    pub fn fresh(&mut self, prefix: &str) -> String {
        self.count += 1;
        format!("{prefix}{}", self.count - 1)
    }

    /// Closes the levels from `depth` on and forgets the names on them.
    pub fn close(&mut self, depth: usize) -> Vec<Level> {
        self.names.retain(|_, (level, _)| *level < depth);
        self.packs.clear();
        self.levels.split_off(depth)
    }

    pub fn pointer(&mut self, value: ValueId, written: bool) -> String {
        let known = self.args.iter().position(|a| a.value == value);
        let at = known.unwrap_or_else(|| {
            self.args.push(Argument::new(value, written, &self.env.ty(value)));
            self.args.len() - 1
        });
        self.args[at].written |= written;
        format!("p{at}")
    }

    /// All loops up to a level.
    pub fn loops(&self, level: usize) -> Vec<Loop> {
        self.levels[..=level].iter().flat_map(|l| l.loops.iter().cloned()).collect()
    }

    /// The outermost level that has these dims.
    fn level_of(&self, dims: DimSet) -> usize {
        let real = |d: &u8| self.graph.sizes[*d as usize] > 1;
        let mut seen = DimSet::EMPTY;
        for (at, level) in self.levels.iter().enumerate() {
            seen = seen.union(level.loops.iter().flat_map(|l| l.dims.iter().copied()).collect());
            if dims.iter().filter(real).all(|d| seen.has(d)) {
                return at;
            }
        }
        self.levels.len().saturating_sub(1)
    }

    fn statement(&mut self, level: usize, text: &str) {
        let level = &mut self.levels[level];
        let _ = writeln!(level.text, "{}{text}", level.indent);
    }

    /// The text of a node's value, after the statements that it needs.
    pub fn value(&mut self, id: NodeId) -> String {
        if let Some((_, name)) = self.names.get(&id) {
            return name.clone();
        }
        let node = self.graph.node(id).clone();
        let level = self.level_of(node.dims);
        if let (Op::Reduce { .. }, Some(&value)) = (&node.op, self.kept.get(&id)) {
            let at = self.kept_place(id, level);
            let pointer = self.pointer(value, false);
            return self.named(id, level, format!("{pointer}[{at}]"));
        }
        let text = match &node.op {
            Op::Const(bits) => return literals::constant(bits.scalar(), node.ty),
            Op::Index(a) => format!("(long long)({})", self.linear(&Linear::affine(a, self.dims()), level)),
            Op::Test { affine, equal } => {
                let sign = if *equal { "==" } else { ">=" };
                format!("{} {sign} 0", self.linear(&Linear::affine(affine, self.dims()), level))
            }
            Op::Load(load) => {
                let text = self.load(id, load, level);
                return self.named(id, level, text);
            }
            Op::Call(b, args) => {
                let mut texts: Vec<String> = args.iter().map(|a| self.value(*a)).collect();
                if self.may_divide_by_zero(*b, args) {
                    let site = self.site(Site::Divisor(*b));
                    texts[1] = format!("fg_divisor({}, fault, {site})", texts[1]);
                }
                let sign = infix(*b).filter(|_| node.ty.is_float());
                for (i, text) in texts.iter_mut().enumerate() {
                    if sign.is_some() || !stands_alone(b.record().cuda, i) {
                        *text = operand(std::mem::take(text));
                    }
                }
                match sign {
                    Some(sign) => format!("{} {sign} {}", texts[0], texts[1]),
                    None => cuda::call(*b, &texts, cuda::register_type(node.ty)),
                }
            }
            Op::Cast(a) => {
                let a = self.value(*a);
                cuda::call(Builtin::Cast, &[a], cuda::register_type(node.ty))
            }
            Op::Round(a, to) => {
                let a = self.value(*a);
                format!("(float)fg_to<{}>::from({a})", cuda::stored_type(*to))
            }
            Op::Select(c, a, b) => {
                let args = [self.value(*c), self.value(*a), self.value(*b)].map(operand);
                cuda::call(Builtin::Select, &args, cuda::register_type(node.ty))
            }
            Op::Uniform { key, position, draw } => {
                let position = self.value(*position);
                let form = (self.env.form)(*key);
                let pointer = self.pointer(form.root, false);
                let stream = form.offset + form.strides.first().copied().unwrap_or(1);
                let (seed, stream) = (literals::size(form.offset), literals::size(stream));
                let key =
                    format!("fg_key{{(unsigned long long){pointer}[{seed}], (unsigned long long){pointer}[{stream}]}}");
                let ty = cuda::register_type(node.ty);
                format!("({ty})fg_uniform({key}, {position}, {draw}u)")
            }
            // invariant: `stages` gives every reduction a name or a place, and rows have no kernels here
            Op::Reduce { .. } | Op::Row(_) => "0".to_owned(),
        };
        let once = self.uses.get(&id).is_none_or(|n| *n < 2);
        if once && literals::length(&text) <= LONGEST && level + 1 == self.levels.len() {
            return text;
        }
        self.named(id, level, text)
    }

    fn named(&mut self, id: NodeId, level: usize, text: String) -> String {
        let name = self.fresh("v");
        let ty = cuda::register_type(self.graph.node(id).ty);
        self.statement(level, &format!("const {ty} {name} = {text};"));
        self.names.insert(id, (level, name.clone()));
        name
    }

    fn dims(&self) -> usize {
        self.graph.sizes.len()
    }

    /// A linear function of the loops up to a level.
    pub fn linear(&self, linear: &Linear, level: usize) -> String {
        lines::text(linear, &self.loops(level), &[])
    }

    /// The position of a kept reduction, whose dims are the axes of its value in ascending order.
    fn kept_place(&self, id: NodeId, level: usize) -> String {
        let linear = kept_linear(self.graph, id);
        self.linear(&linear, level)
    }

    fn site(&mut self, site: Site) -> usize {
        self.faults = true;
        let at = self.sites.iter().position(|s| *s == site).unwrap_or_else(|| {
            self.sites.push(site);
            self.sites.len() - 1
        });
        at + 1
    }

    // A divisor is tested unless it is known not to be 0; the condition below states exactly that.
    #[allow(clippy::nonminimal_bool)]
    fn may_divide_by_zero(&self, b: Builtin, args: &[NodeId]) -> bool {
        let divides = matches!(b, Builtin::DivFloor | Builtin::DivTrunc | Builtin::RemFloor | Builtin::RemTrunc);
        divides
            && self.graph.node(args[0]).ty.is_int()
            && !self.graph.as_const(args[1]).is_some_and(|s| s.as_i64() != 0)
    }

    /// The text of an element of memory.
    fn load(&mut self, id: NodeId, load: &Load, level: usize) -> String {
        let form = (self.env.form)(load.value);
        let shape = self.env.ty(load.value).shape;
        let linear = Linear::load(load, &form, self.dims());
        let pointer = self.pointer(form.root, false);
        if let Some(pack) = self.pack(id, load, &linear, &pointer, level) {
            return format!("{pack}.at[k]");
        }
        let (mut more, mut inside) = (Vec::new(), Vec::new());
        for (axis, index) in load.idx.iter().enumerate() {
            let size = shape[axis];
            let bound = literals::wide(size);
            match index {
                Index::Affine(a) => {
                    let (lo, hi) = a.range(&self.graph.sizes);
                    if load.outside.is_some() && (lo < 0 || hi >= size as i64) {
                        let at = self.linear(&Linear::affine(a, self.dims()), level);
                        inside.push(format!("fg_inside({at}, {bound})"));
                    }
                }
                Index::Node(n) => {
                    let mut at = self.value(*n);
                    match load.outside {
                        Some(_) => inside.push(format!("fg_inside({at}, {bound})")),
                        None => {
                            let site = self.site(Site::Index { value: load.value, axis, size });
                            at = format!("fg_index({at}, {bound}, fault, {site})");
                        }
                    }
                    match form.strides[axis] {
                        1 => more.push(operand(at)),
                        stride => more.push(format!("{} * {}", literals::wide(stride), operand(at))),
                    }
                }
            }
        }
        let at = lines::text(&linear, &self.loops(level), &more);
        // a value without elements is never read: the fault is noted, and this literal is not used
        let element = match shape.contains(&0) {
            true => format!("({at}, {})", cuda::literal(Scalar::Int(0), self.graph.node(id).ty)),
            false => format!("{pointer}[{at}]"),
        };
        match load.outside {
            Some(outside) if !inside.is_empty() => {
                let ty = self.graph.node(id).ty;
                let (ty, other) = (cuda::register_type(ty), cuda::literal(outside.scalar(), ty));
                format!("{} ? ({ty}){element} : {other}", inside.join(" && "))
            }
            _ => element,
        }
    }

    /// The pack that holds a load of adjacent elements.
    fn pack(&mut self, id: NodeId, load: &Load, linear: &Linear, pointer: &str, level: usize) -> Option<String> {
        let (last, chunk) = (self.levels.len().checked_sub(1)?, level.checked_sub(1)?);
        let width = self.levels[last].width;
        if width == 1 || level != last || !fits_pack(load, linear, &self.loops(level), width) {
            return None;
        }
        if let Some(name) = self.packs.get(&id) {
            return Some(name.clone());
        }
        // on the level of chunks, the last loop is at the first element of the chunk
        let mut loops = self.loops(level);
        loops.last_mut()?.called = Some(FIRST);
        let at = lines::text(linear, &loops, &[]);
        let ty = cuda::stored_type(self.env.ty(load.value).dtype);
        let key = (format!("{pointer} + {at}"), self.run);
        match self.keep.get(&key).cloned() {
            Some(Some(name)) => return Some(format!("{name}[{TIME}]")),
            Some(None) => {
                let name = self.fresh("row");
                let times = self.run.times();
                self.statement(0, &format!("fg_pack<{ty}, {width}> {name}[{times}];"));
                self.statement(chunk, &format!("{name}[{TIME}] = fg_load<{width}>({pointer} + {at});"));
                self.packs.insert(id, format!("{name}[{TIME}]"));
                self.keep.insert(key, Some(name.clone()));
                return Some(format!("{name}[{TIME}]"));
            }
            None => {}
        }
        let name = self.fresh("x");
        self.statement(chunk, &format!("const fg_pack<{ty}, {width}> {name} = fg_load<{width}>({pointer} + {at});"));
        self.packs.insert(id, name.clone());
        Some(name)
    }
}

/// The infix operators of floats; integers wrap and bools combine by functions.
fn infix(b: Builtin) -> Option<&'static str> {
    match b {
        Builtin::Add => Some("+"),
        Builtin::Sub => Some("-"),
        Builtin::Mul => Some("*"),
        _ => None,
    }
}

/// Whether an argument is a whole function argument everywhere in a builtin's text, so that it needs no brackets.
fn stands_alone(text: &str, argument: usize) -> bool {
    let place = format!("{{{argument}}}");
    text.match_indices(&place).all(|(at, _)| {
        let (before, behind) = (&text[..at], &text[at + place.len()..]);
        let function =
            before.ends_with(", ") || before.strip_suffix('(').is_some_and(|b| b.ends_with(char::is_alphanumeric));
        function && behind.starts_with([')', ','])
    })
}

/// A term as an operand: in brackets unless it is a word, a call or bracketed already.
fn operand(text: String) -> String {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => {
                depth -= 1;
                if depth == 0 && text.starts_with('(') && at + 1 < text.len() {
                    return format!("({text})");
                }
            }
            ' ' if depth == 0 => return format!("({text})"),
            _ => {}
        }
    }
    text
}

/// Whether a load takes adjacent elements along the last loop, from a position at which a pack may begin.
pub(super) fn fits_pack(load: &Load, linear: &Linear, loops: &[Loop], width: usize) -> bool {
    let plain = load.outside.is_none() && load.idx.iter().all(|i| matches!(i, Index::Affine(_)));
    plain && aligned(linear, loops, width)
}

/// Whether the function steps over the last loop one by one, and all other steps are multiples of a pack.
pub(super) fn aligned(linear: &Linear, loops: &[Loop], width: usize) -> bool {
    let Some((last, slower)) = loops.split_last() else { return false };
    let whole = |c: i64| c % width as i64 == 0;
    linear.coefs[last.last() as usize] == 1
        && whole(linear.base)
        && slower.iter().all(|l| whole(linear.coefs[l.last() as usize]))
}

/// The position of a kept reduction, row-major over its dims in ascending order.
pub(super) fn kept_linear(graph: &Graph, id: NodeId) -> Linear {
    let mut linear = Linear { base: 0, coefs: vec![0; graph.sizes.len()] };
    let mut step = 1;
    let dims: Vec<u8> = graph.node(id).dims.iter().collect();
    for d in dims.into_iter().rev() {
        linear.coefs[d as usize] = step;
        step *= graph.sizes[d as usize] as i64;
    }
    linear
}
