//! Prints a trace as a program: typed results, options by name where given, regions as blocks, the user's calls as
//! comments.
//!
//! ```text
//! fn forward(x: f32[32, 64], w: f32[64, 128]) {
//!   h: f32[32, 128] = matmul(x, w)                  // examples/05_gpt.rs:88
//!   no_grad {
//!     (var: f32[32], mean: f32[32]) = var_mean(h, dims=[1])
//!   }
//!   return h, mean; save x
//! }
//! ```
//! [`Trace::parse`] reads the text back, including the comments with the user's calls; times and bodies are for readers
//! only.

pub(crate) mod control;

use super::arena::Arena;
use super::program::{Guard, Trace};
use super::tag::TagSet;
use super::types::*;
use crate::error::Phase;
use crate::symbol::Ports;
use fulgurite_core::loc::Loc;
use fulgurite_core::{TensorTy, Value};
use rustc_hash::FxHashSet;
use std::fmt::{self, Write};
use std::rc::Rc;

/// The parts of a trace that are printed.
#[derive(Clone, Copy, Debug)]
pub struct PrintOptions {
    /// The number of levels of bodies; bodies that were not made yet are not printed.
    pub depth: usize,
    /// Whether the user's calls are printed.
    pub locs: bool,
    /// Whether the head is printed: the transform that made the trace, and the time that it took.
    pub provenance: bool,
    /// Whether guards are printed.
    pub prologue: bool,
}

impl Default for PrintOptions {
    fn default() -> PrintOptions {
        PrintOptions { depth: 0, locs: true, provenance: true, prologue: false }
    }
}

impl PrintOptions {
    /// The program alone, as tests compare it.
    pub fn plain() -> PrintOptions {
        PrintOptions { depth: 0, locs: false, provenance: false, prologue: false }
    }
}

impl Trace {
    /// Prints the trace.
    pub fn print(&self, options: &PrintOptions) -> String {
        let mut reopened = FxHashSet::default();
        note_reopened(&self.arena, &self.lines, self.root, &mut reopened);
        let mut printer = Printer { trace: self, options, out: String::new(), last_file: "", reopened };
        printer.trace();
        printer.out
    }
}

/// Notes the regions that the order of lines leaves and enters again, in programs of lines too; they are printed with a
/// number, so that they stay one region.
fn note_reopened(arena: &Arena, lines: &[Rc<BoundSymbol>], root: RegionId, again: &mut FxHashSet<RegionId>) {
    let mut seen = FxHashSet::default();
    let mut open: Vec<RegionId> = Vec::new();
    for line in lines {
        let mut chain = arena.region_chain(line.region, root);
        chain.reverse();
        for id in chain.iter().filter(|id| !open.contains(id)) {
            if !seen.insert(*id) {
                again.insert(*id);
            }
        }
        open = chain;
        let control = arena.control(line);
        let programs = control.iter().flat_map(|control| &control.programs);
        programs.for_each(|program| note_reopened(arena, &program.lines, program.root, again));
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.print(&PrintOptions::default()))
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.print(&PrintOptions::plain()))
    }
}

/// The column at which comments start, unless the line is longer.
const COMMENT_COLUMN: usize = 52;

struct Printer<'a> {
    trace: &'a Trace,
    options: &'a PrintOptions,
    out: String,
    last_file: &'static str,
    reopened: FxHashSet<RegionId>,
}

// writing to a String can't fail: `let _ =` drops a result that is always Ok
impl Printer<'_> {
    fn trace(&mut self) {
        let t = self.trace;
        if self.options.provenance {
            let (inputs, lines) = (t.inputs.len(), t.lines.len());
            let _ = write!(
                self.out,
                "# trace {}   {inputs} inputs, {lines} lines   made by: {}",
                t.name, t.provenance.made_by
            );
            let _ = write!(self.out, " ({:.1} ms)", t.provenance.micros as f64 / 1000.0);
            if let Some(from) = t.provenance.from {
                let _ = write!(self.out, ", from: {from}");
            }
            self.out.push('\n');
        }
        if self.options.prologue {
            for guard in &t.prologue {
                let _ = writeln!(self.out, "# guard: {guard}");
            }
        }
        let inputs: Vec<_> = t.input_proxies().map(|p| self.typed(p)).collect();
        let atoms = t.arena.atoms();
        let atoms: Vec<_> = atoms.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        let atoms = if atoms.is_empty() { String::new() } else { format!("[{}]", atoms.join(", ")) };
        let _ = writeln!(self.out, "fn {}{atoms}({}) {{", t.name, inputs.join(", "));
        self.block(&t.lines, t.root, 1, self.options.depth);
        for write in &t.epilogue {
            let (input, value) = (t.inputs[write.input].proxy, write.value);
            let phase = if write.phase == Phase::Backward { "   backward" } else { "" };
            let _ = writeln!(self.out, "  {} <- {}{phase}", t.arena.name(input), t.arena.name(value));
        }
        let names = |ids: &[ProxyId]| ids.iter().map(|p| t.arena.name(*p).to_string()).collect::<Vec<_>>().join(", ");
        let (results, saved) = t.outputs.split_at(t.outputs.len() - t.saved.min(t.outputs.len()));
        let _ = write!(self.out, "  return {}", names(results));
        if !saved.is_empty() {
            let _ = write!(self.out, "; save {}", names(saved));
        }
        let trimmed = self.out.trim_end().len();
        self.out.truncate(trimmed);
        self.out.push_str("\n}\n");
    }

    /// Prints lines with the regions around them inside of `root`, at the indentation `base`.
    fn block(&mut self, lines: &[Rc<BoundSymbol>], root: RegionId, base: usize, depth: usize) {
        let mut open: Vec<RegionId> = Vec::new();
        for line in lines {
            self.move_to(&mut open, (line.region, root), base);
            let level = base + open.len();
            let indent = "  ".repeat(level);
            let text = self.line(line);
            let control = self.trace.arena.control(line);
            let brace = if control.is_some() { " {" } else { "" };
            self.with_comment(&format!("{indent}{text}{brace}"), line);
            match control {
                Some(control) => self.programs(&control, level + 1, depth),
                None => self.body(line, &indent, depth),
            }
        }
        self.close(&mut open, 0, base);
    }

    /// Closes and opens blocks until those around `region` inside of `root` are open.
    fn move_to(&mut self, open: &mut Vec<RegionId>, (region, root): (RegionId, RegionId), base: usize) {
        let mut chain = self.trace.arena.region_chain(region, root);
        chain.reverse();
        let common = open.iter().zip(&chain).take_while(|(a, b)| a == b).count();
        self.close(open, common, base);
        for &id in &chain[common..] {
            let region = self.trace.arena.region(id);
            let indent = "  ".repeat(open.len() + base);
            let _ = write!(self.out, "{indent}{}", region.kind);
            if self.reopened.contains(&id) {
                let _ = write!(self.out, " {}", id.0);
            }
            let built_in = region.kind.tag().map_or(TagSet::EMPTY, |t| TagSet::EMPTY.with(t));
            for tag in region.tags.iter().filter(|t| !built_in.contains(*t)) {
                let _ = write!(self.out, " #{}", tag.name());
            }
            self.out.push_str(" {\n");
            open.push(id);
        }
    }

    fn close(&mut self, open: &mut Vec<RegionId>, depth: usize, base: usize) {
        while open.len() > depth {
            let _ = writeln!(self.out, "{}}}", "  ".repeat(open.len() + base - 1));
            open.pop();
        }
    }

    fn with_comment(&mut self, text: &str, line: &BoundSymbol) {
        self.out.push_str(text);
        if self.options.locs && line.place.loc != Loc::NOWHERE {
            let pad = COMMENT_COLUMN.saturating_sub(text.chars().count()).max(2);
            let role = match line.place.role {
                Role::Forward => "",
                Role::Backward => "backward of ",
                Role::Recompute => "recompute of ",
                Role::Accumulate => "accumulate at ",
            };
            let loc = line.place.loc;
            let file = if loc.file == self.last_file { "…" } else { loc.file };
            self.last_file = loc.file;
            let _ = write!(self.out, "{}// {role}{}", " ".repeat(pad), Loc { file, ..loc });
            if let Some(executor) = line.claimed_by {
                let _ = write!(self.out, "   {executor}");
            }
            if let Some(rule) = line.ruled_by {
                let _ = write!(self.out, "   by {rule}");
            }
        }
        self.out.push('\n');
    }

    /// Prints the body of a line: always if it is a body on fields or a custom backward, and on request if it is a
    /// decomposition.
    fn body(&mut self, line: &BoundSymbol, indent: &str, depth: usize) {
        if let Some(ports) = line.symbol.own() {
            return self.backward(line, ports, indent);
        }
        let body = match (&line.dispatch, line.body.get()) {
            (Some(body), _) => body,
            (None, Some(Some(body))) if depth > 0 => body,
            _ => return,
        };
        for inner in &body.lines {
            let text = self.line(inner);
            let _ = writeln!(self.out, "{indent}  | {text}");
            self.body(inner, &format!("{indent}  |"), depth.saturating_sub(1));
        }
        let outs: Vec<_> = body.outs.iter().map(|p| self.trace.arena.name(*p).to_string()).collect();
        let _ = writeln!(self.out, "{indent}  | return {}", outs.join(", "));
    }

    /// Prints the parts of the arguments of a line with a custom backward, and that backward.
    fn backward(&mut self, line: &BoundSymbol, ports: Ports, indent: &str) {
        let arena = self.trace.arena.clone();
        let name = |p: ProxyId| arena.name(p).to_string();
        let names: Vec<String> = line.args.iter().map(|arg| self.value(arg)).collect();
        let mut at = 0;
        let mut group = |count: usize| {
            at += count;
            names[at - count..at].to_vec()
        };
        let groups = [("gives", ports.outs), ("of", ports.ins), ("keeping", ports.kept), ("with", ports.variables)];
        let groups = groups.map(|(word, count)| (word, group(count)));
        let said = groups.iter().filter(|(_, of)| !of.is_empty()).map(|(word, of)| format!("{word} {}", of.join(", ")));
        let _ = writeln!(self.out, "{indent}  | {}", said.collect::<Vec<_>>().join(" "));
        let [(_, outs), _, (_, kept), (_, variables)] = &groups;
        let number = line.args.last().and_then(|arg| if let Value::Num(n) = arg { Some(n.as_i64()) } else { None });
        let Some(rule) = number.and_then(|n| arena.rule(usize::try_from(n).ok()?)) else { return };
        let input = |(p, what): &(ProxyId, OwnInput)| match *what {
            OwnInput::Kept(i) => format!("{} = {}", name(*p), kept.get(i).map_or("?", |k| k)),
            OwnInput::Cotangent(o) => format!("{} = the cotangent of {}", name(*p), outs.get(o).map_or("?", |k| k)),
            OwnInput::Variable(j) => format!("{} = {} when it runs", name(*p), variables.get(j).map_or("?", |k| k)),
        };
        let inputs: Vec<String> = rule.inputs.iter().map(input).collect();
        let _ = writeln!(self.out, "{indent}  | backward({})", inputs.join(", "));
        for inner in &rule.lines {
            let text = self.line(inner);
            let _ = writeln!(self.out, "{indent}  |   {text}");
        }
        for (j, value) in &rule.writes {
            let _ = writeln!(self.out, "{indent}  |   {} <- {}", variables.get(*j).map_or("?", |k| k), name(*value));
        }
        let grads: Vec<String> = rule.grads.iter().map(|g| g.map_or_else(|| "0".to_owned(), name)).collect();
        let _ = writeln!(self.out, "{indent}  |   return {}", grads.join(", "));
    }

    fn line(&self, line: &BoundSymbol) -> String {
        let mut out = String::new();
        let result = |(i, p): (usize, &ProxyId)| if line.is_dead(i) { "_".to_owned() } else { self.typed(*p) };
        let outs: Vec<_> = line.outs.iter().enumerate().map(result).collect();
        match (outs.as_slice(), line.aux.as_slice()) {
            ([one], []) => out.push_str(one),
            (_, []) => _ = write!(out, "({})", outs.join(", ")),
            (_, aux) => {
                let aux: Vec<_> = aux.iter().map(|p| self.typed(*p)).collect();
                let _ = write!(out, "({}; {})", outs.join(", "), aux.join(", "));
            }
        }
        let _ = match self.trace.arena.control(line) {
            Some(control) => write!(out, " = {}({})", control.kind.name(), self.grouped(&control, line)),
            None => write!(out, " = {}({})", line.symbol.name(), self.args(line)),
        };
        for tag in line.own_tags.iter() {
            let _ = write!(out, " #{}", tag.name());
        }
        out
    }

    fn args(&self, line: &BoundSymbol) -> String {
        arguments(line, &|p| self.trace.arena.name(p).to_string())
    }

    fn value(&self, value: &Value<ProxyId>) -> String {
        show(value, &|p| self.trace.arena.name(p).to_string())
    }

    fn typed(&self, id: ProxyId) -> String {
        let mut text = format!("{}: {}", self.trace.arena.name(id), self.trace.ty(id));
        for tag in self.trace.arena.tags(id).iter() {
            let _ = write!(text, " #{}", tag.name());
        }
        text
    }
}

/// Prints arguments by position up to the first absent one, and all later ones by name. `tensor` names the values.
pub(crate) fn arguments(line: &BoundSymbol, tensor: &dyn Fn(ProxyId) -> String) -> String {
    let sig = &line.symbol.row().sig;
    let mut parts = Vec::new();
    let mut positional = true;
    let names = sig.params.iter().map(|p| p.name.name).chain(sig.opts.iter().map(|o| o.name.name));
    for (i, (name, value)) in names.zip(&line.args).enumerate() {
        positional &= i < sig.params.len() && !value.is_absent();
        match value {
            Value::Absent => {}
            value if positional => parts.push(show(value, tensor)),
            value => parts.push(format!("{name}={}", show(value, tensor))),
        }
    }
    parts.join(", ")
}

fn show(value: &Value<ProxyId>, tensor: &dyn Fn(ProxyId) -> String) -> String {
    match value {
        Value::Tensor(p) => tensor(*p),
        Value::Type(ty) => ty.to_string(),
        Value::Num(number) => number.to_string(),
        Value::Size(dim) => dim.to_string(),
        Value::DType(dtype) => dtype.to_string(),
        Value::Word(word) => word.to_string(),
        Value::Str(text) => format!("{text:?}"),
        Value::List(items) => format!("[{}]", items.iter().map(|i| show(i, tensor)).collect::<Vec<_>>().join(", ")),
        Value::Absent => "_".to_owned(),
    }
}

/// A subclass prints as its outer type, then fields and metadata: `TwoTensor[f32[2]]{a: f32[2], b: f32[2]}`.
impl SubclassLayout {
    fn show(&self, outer: &TensorTy, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{outer}]{{", self.class.name())?;
        let mut comma = "";
        for (name, ty) in &self.fields {
            write!(f, "{comma}{name}: {}", ProxyTy::Tensor(ty.clone()))?;
            comma = ", ";
        }
        for (name, text) in self.meta_texts() {
            write!(f, "{comma}{name}: {text}")?;
            comma = ", ";
        }
        f.write_str("}")
    }

    /// The metadata in printed form.
    pub fn meta_texts(&self) -> impl Iterator<Item = (fulgurite_core::Name, String)> + '_ {
        self.meta.iter().map(|(name, value)| (*name, show(value, &|_| String::new())))
    }
}

impl fmt::Display for ProxyTy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProxyTy::Tensor(t) => {
                match &t.subclass {
                    None => write!(f, "{}", t.ty)?,
                    Some(layout) => layout.show(&t.ty, f)?,
                }
                if t.device != Device::Cpu { write!(f, "@{}", t.device) } else { Ok(()) }
            }
            ProxyTy::Number(dtype) => write!(f, "{dtype}"),
            ProxyTy::Key => f.write_str("key"),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

/// A region kind prints as the head of its block.
impl fmt::Display for RegionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegionKind::Root => f.write_str("root"),
            RegionKind::Named(name) => write!(f, "scope {name:?}"),
            RegionKind::NoGrad => f.write_str("no_grad"),
            RegionKind::EnableGrad => f.write_str("enable_grad"),
            RegionKind::Checkpoint => f.write_str("checkpoint"),
            RegionKind::Autocast(Some(dtype)) => write!(f, "autocast({dtype})"),
            RegionKind::Autocast(None) => f.write_str("autocast(off)"),
            RegionKind::Tagged(tag) => write!(f, "tagged({})", tag.name()),
        }
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Guard::Tensor(i, t) => write!(f, "input {i} is {}", ProxyTy::Tensor(t.clone())),
            Guard::Key(i) => write!(f, "input {i} is a key"),
            Guard::Number(i, d) => write!(f, "input {i} is a number, {d}"),
            Guard::Fixed(what) => write!(f, "fixed: {what}"),
            Guard::Size(guard) => write!(f, "{guard}"),
            Guard::Alias(inputs) => {
                let inputs: Vec<_> = inputs.iter().map(usize::to_string).collect();
                write!(f, "inputs {} share storage", inputs.join(", "))
            }
        }
    }
}
