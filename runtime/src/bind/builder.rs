//! A trace under construction.

use crate::error::Error;
use crate::trace::tag::TagSet;
use crate::trace::*;
use fulgurite_core::DType;
use fulgurite_core::loc::Loc;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// A trace under construction on an arena.
///
/// Builders on one arena may be nested: the inner one records the lines of a differentiated closure, and the outer one
/// adds them with [`Builder::splice`].
pub struct Builder {
    arena: Rc<Arena>,
    name: Rc<str>,
    inputs: Vec<InputCell>,
    lines: Vec<Rc<BoundSymbol>>,
    root: RegionId,
    outer: u32,
    /// The number of versions of each written value, by its name without `@`.
    versions: FxHashMap<Rc<str>, u32>,
    /// The writes of the rule that is being run, by parameter.
    pub(super) writes: Vec<(fulgurite_core::Name, fulgurite_core::Value<ProxyId>)>,
    /// The casts that autocast made, by value, dtype, and the regions that decide gradients and checkpoints.
    pub(super) casts: Option<Casts>,
    /// The surroundings of recorded lines.
    pub context: Context,
}

/// The casts that autocast made: later lines read them again where gradients and checkpoints are equal.
pub(super) type Casts = FxHashMap<(ProxyId, DType, Option<RegionId>, Option<RegionId>), ProxyId>;

/// The properties that recorded lines get from their surroundings rather than from their call.
#[derive(Clone, Debug)]
pub struct Context {
    /// The scope.
    pub region: RegionId,
    /// The user's call and the role.
    pub place: Place,
    /// Tags of lines.
    pub tags: TagSet,
    /// The line from which a transform makes these lines.
    pub origin: Option<BoundSymbolId>,
}

impl Builder {
    /// A builder on an arena of its own.
    pub fn new(name: &str) -> Builder {
        Builder::on(&Arena::new(), name)
    }

    /// A builder on this arena, in its root region.
    pub fn on(arena: &Rc<Arena>, name: &str) -> Builder {
        Builder {
            arena: arena.clone(),
            name: Rc::from(name),
            inputs: Vec::new(),
            lines: Vec::new(),
            root: RegionId(0),
            outer: 0,
            versions: FxHashMap::default(),
            writes: Vec::new(),
            casts: None,
            context: Context {
                region: RegionId(0),
                place: Place { loc: Loc::NOWHERE, role: Role::Forward },
                tags: TagSet::EMPTY,
                origin: None,
            },
        }
    }

    /// A builder inside this one: it may read every value defined so far, and gradient modes around it do not apply
    /// inside.
    pub fn nested(&self, name: &str) -> Builder {
        let mut inner = Builder::on(&self.arena, name);
        inner.root = self.context.region;
        inner.outer = self.arena.len() as u32;
        inner.context.region = self.context.region;
        inner.context.place = self.context.place;
        inner.context.tags = self.context.tags;
        inner
    }

    /// A builder whose root is this region; gradient modes and autocast that are set inside of the region apply to its
    /// lines.
    pub(crate) fn rooted(mut self, root: RegionId) -> Builder {
        self.root = root;
        self
    }

    /// Lets calls in autocast regions compute in the region's dtype. Bodies and gradient rules are bound without this,
    /// because the line that they are made for was cast already.
    pub fn autocasting(mut self) -> Builder {
        self.casts = Some(Casts::default());
        self
    }

    /// A builder that continues a trace: it has the trace's inputs, root and name, and no lines yet.
    pub fn continuing(trace: &Trace) -> Builder {
        let mut builder = Builder::on(&trace.arena, &trace.name);
        builder.inputs = trace.inputs.clone();
        builder.root = trace.root;
        builder.outer = trace.outer;
        builder.context.region = trace.root;
        builder
    }

    /// Whether a value was made before this builder, by a surrounding trace.
    pub(crate) fn is_from_outside(&self, p: ProxyId) -> bool {
        p.0 < self.outer
    }

    /// The store of values.
    pub fn arena(&self) -> &Rc<Arena> {
        &self.arena
    }

    /// The lines that were recorded so far.
    pub fn lines(&self) -> &[Rc<BoundSymbol>] {
        &self.lines
    }

    /// The inputs so far.
    pub fn inputs(&self) -> &[InputCell] {
        &self.inputs
    }

    /// The region in which the builder was opened.
    pub fn root(&self) -> RegionId {
        self.root
    }

    /// Sets the name of the finished trace.
    pub fn set_name(&mut self, name: &str) {
        self.name = Rc::from(name);
    }

    /// Adds an input, named after its path in the user's arguments.
    pub fn input(&mut self, path: &str, ty: ProxyTy) -> ProxyId {
        let proxy = self.arena.proxy(&value_name(path), ty);
        self.add_input(proxy, path);
        proxy
    }

    /// Makes an existing proxy an input.
    pub fn add_input(&mut self, proxy: ProxyId, path: &str) {
        let alias_group = self.inputs.len();
        self.inputs.push(InputCell {
            proxy,
            version: proxy,
            alias_group,
            path: Rc::from(path),
            donated: false,
            constant: false,
        });
    }

    /// The input cells, to set alias groups and donation.
    pub fn inputs_mut(&mut self) -> &mut Vec<InputCell> {
        &mut self.inputs
    }

    /// Opens a region, which contains the lines recorded until [`Builder::leave`].
    pub fn enter(&mut self, kind: RegionKind, loc: Loc) -> RegionId {
        self.context.region = self.arena.add_region(self.context.region, kind, loc);
        self.context.region
    }

    /// Closes the innermost region that was opened since the builder was.
    pub fn leave(&mut self) {
        if self.context.region != self.root {
            self.context.region = self.arena.region(self.context.region).parent.unwrap_or(self.root);
        }
    }

    /// Records the lines that `f` binds inside a region.
    pub fn within<T>(&mut self, kind: RegionKind, loc: Loc, f: impl FnOnce(&mut Builder) -> T) -> T {
        let before = self.context.region;
        self.enter(kind, loc);
        let result = f(self);
        self.context.region = before;
        result
    }

    /// Records the lines that `f` binds outside of all regions that were opened since the builder was.
    pub fn outside<T>(&mut self, f: impl FnOnce(&mut Builder) -> T) -> T {
        let before = std::mem::replace(&mut self.context.region, self.root);
        let result = f(self);
        self.context.region = before;
        result
    }

    /// Records the lines that `f` binds in another context.
    pub fn in_context<T>(&mut self, context: Context, f: impl FnOnce(&mut Builder) -> T) -> T {
        let before = std::mem::replace(&mut self.context, context);
        let result = f(self);
        self.context = before;
        result
    }

    /// Appends a finished line unchanged.
    pub fn push(&mut self, line: Rc<BoundSymbol>) {
        self.lines.push(line);
    }

    /// Removes the lines from number `from` on and returns them.
    pub(crate) fn take_from(&mut self, from: usize) -> Vec<Rc<BoundSymbol>> {
        self.lines.split_off(from.min(self.lines.len()))
    }

    /// Replaces line number `at`.
    pub(crate) fn replace(&mut self, at: usize, line: Rc<BoundSymbol>) {
        self.lines[at] = line;
    }

    /// Finishes the trace of the recorded lines, with these results. Inputs that were written get an epilogue, except
    /// for those that were made inside.
    pub fn finish(self, outputs: &[ProxyId]) -> Trace {
        let written = self.inputs.iter().enumerate().filter(|(_, cell)| cell.version != cell.proxy && !cell.constant);
        let epilogue =
            written.map(|(input, cell)| EpilogueWrite { input, value: cell.version, phase: Phase::Forward }).collect();
        Trace {
            name: self.name,
            epoch: self.arena.close_epoch(),
            arena: self.arena,
            inputs: self.inputs,
            outputs: outputs.to_vec(),
            lines: self.lines,
            prologue: Vec::new(),
            epilogue,
            saved: 0,
            root: self.root,
            outer: self.outer,
            phase: None,
            seen: None,
            provenance: Provenance { made_by: "acquire", micros: 0, from: None },
        }
    }

    /// Adds the lines of a trace that was built inside this one (on its arena), with `args` for its inputs, and returns
    /// its outputs. Writes of the trace to its inputs become new versions of these inputs.
    ///
    /// A trace may be spliced only once, because its values keep their ids.
    ///
    /// # Errors
    /// E709 if the trace is on another arena or has another number of inputs.
    pub fn splice(&mut self, trace: &Trace, args: &[ProxyId]) -> Result<Vec<ProxyId>, Error> {
        if !Rc::ptr_eq(&trace.arena, &self.arena) {
            return Err(Error::bug("E709", format!("`{}` was traced apart and can't be spliced", trace.name)));
        }
        if trace.inputs.len() != args.len() {
            let (want, have) = (trace.inputs.len(), args.len());
            return Err(Error::bug("E709", format!("`{}` has {want} inputs, {have} values were given", trace.name)));
        }
        let map: FxHashMap<ProxyId, ProxyId> =
            trace.input_proxies().zip(args.iter().copied()).filter(|(a, b)| a != b).collect();
        let mut to = |p: ProxyId| map.get(&p).copied().unwrap_or(p);
        for line in &trace.lines {
            let line = if map.is_empty() { line.clone() } else { Rc::new(line.remap(&mut to)) };
            self.note_versions(&line);
            self.lines.push(line);
        }
        Ok(trace.outputs.iter().map(|&p| to(p)).collect())
    }

    // ------------------------------------------------------------ for `bind`

    /// The number of the next version of a value.
    pub(crate) fn count_version(&mut self, value: ProxyId) -> u32 {
        let name = self.arena.name(value);
        let base: Rc<str> = Rc::from(name.split('@').next().unwrap_or(&name));
        let count = self.versions.entry(base).or_insert(0);
        *count += 1;
        *count
    }

    /// Makes the new versions in a line's results the present versions of the inputs that the line writes.
    pub(super) fn note_versions(&mut self, line: &BoundSymbol) {
        let results = line.outs.len() - line.effects.writes.len();
        for (&arg, &new) in line.effects.writes.iter().zip(&line.outs[results..]) {
            if let fulgurite_core::Value::Tensor(old) = line.args[arg]
                && let Some(cell) = self.inputs.iter_mut().find(|c| c.version == old)
            {
                cell.version = new;
            }
        }
    }
}

/// A path in the user's arguments as a name; names start with a letter.
pub(crate) fn value_name(path: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '_' | '.' | '@') { c } else { '_' };
    let name: String = path.chars().map(plain).collect();
    if name.starts_with(|c: char| c.is_alphabetic() || c == '_') { name } else { format!("in{name}") }
}
