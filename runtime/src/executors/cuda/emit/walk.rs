//! A run over a flat index: its loops, the elements that are taken at once, and the text around the statements.

use super::lines::{self, Linear, Loop, decode};
use super::printer::{self, FIRST, Level, Printer};
use crate::executors::fusion::graph::piece::{Out, Place};
use crate::executors::fusion::graph::{NodeId, Op};
use fulgurite_core::DType;
use fulgurite_core::builtins::cuda::stored_type;
use std::fmt::Write;

/// The bytes of the widest access.
const WIDEST: usize = 16;

const INDENTS: [&str; 5] = ["  ", "    ", "      ", "        ", "          "];

/// Whether an access may be a pack of this many elements.
type Fits<'a> = Box<dyn Fn(usize) -> bool + 'a>;

/// Loops that are walked as one.
pub(super) struct Walk {
    pub loops: Vec<Loop>,
    /// The elements of the last loop that are taken at once.
    pub width: usize,
}

impl Walk {
    /// A walk over these loops inside of `outside`, as wide as most accesses allow. `outs` are the linear functions and
    /// dtypes of the values that the walk writes.
    pub fn new(
        printer: &Printer<'_>,
        used: &[bool],
        outside: &[Loop],
        loops: Vec<Loop>,
        outs: &[(Linear, DType)],
    ) -> Walk {
        let all: Vec<Loop> = outside.iter().chain(&loops).cloned().collect();
        let Some(last) = loops.last() else { return Walk { loops, width: 1 } };
        let dims = printer.graph.sizes.len();
        let mut accesses: Vec<(usize, Fits<'_>)> = Vec::new();
        for (node, used) in printer.graph.nodes.iter().zip(used) {
            let Op::Load(load) = &node.op else { continue };
            let form = (printer.env.form)(load.value);
            let linear = Linear::load(load, &form, dims);
            // an access that does not move along the last loop is read once, whatever the width
            if *used && linear.coefs[last.last() as usize] != 0 {
                let all = &all;
                let fits = move |width| printer::fits_pack(load, &linear, all, width);
                accesses.push((printer.env.ty(load.value).dtype.size(), Box::new(fits)));
            }
        }
        for (linear, dtype) in outs {
            let all = &all;
            accesses.push((dtype.size(), Box::new(move |width| printer::aligned(linear, all, width))));
        }
        let good = |width: usize| {
            let fitting = accesses.iter().filter(|(_, fits)| fits(width));
            let (mut count, mut largest) = (0, 0);
            fitting.for_each(|(size, _)| {
                count += 1;
                largest = largest.max(*size);
            });
            last.size % width == 0 && count > 0 && 2 * count >= accesses.len() && largest * width <= WIDEST
        };
        let width = [8, 4, 2].into_iter().find(|w| good(*w)).unwrap_or(1);
        drop(accesses);
        Walk { loops, width }
    }

    /// The name of the flat index: that of the only loop, if there is a single one.
    pub fn flat(&self) -> String {
        match self.loops.as_slice() {
            [only] if self.width == 1 => only.name(),
            [_] => FIRST.to_owned(),
            _ => "f".to_owned(),
        }
    }

    /// The packs that the walk reads, as text, with the bytes of each.
    pub fn packs(&self, printer: &mut Printer<'_>, used: &[bool]) -> Vec<(String, usize)> {
        let mut loops: Vec<Loop> = printer.levels[0].loops.iter().chain(&self.loops).cloned().collect();
        let graph = printer.graph;
        let mut out: Vec<(String, usize)> = Vec::new();
        for (node, _) in graph.nodes.iter().zip(used).filter(|(_, used)| **used) {
            let Op::Load(load) = &node.op else { continue };
            let form = (printer.env.form)(load.value);
            let linear = Linear::load(load, &form, graph.sizes.len());
            let Some(last) = loops.last_mut() else { continue };
            last.called = None;
            if linear.coefs[last.last() as usize] == 0 || !printer::fits_pack(load, &linear, &loops, self.width) {
                continue;
            }
            if let Some(last) = loops.last_mut() {
                last.called = Some(FIRST);
            }
            let text = format!("{} + {}", printer.pointer(form.root, false), lines::text(&linear, &loops, &[]));
            if out.iter().all(|(known, _)| *known != text) {
                out.push((text, self.width * printer.env.ty(load.value).dtype.size()));
            }
        }
        out
    }

    /// The number of elements.
    pub fn total(&self) -> usize {
        self.loops.iter().map(|l| l.size).product()
    }
}

/// The body of a walk: statements at its end, and packs that it fills.
#[derive(Default)]
pub(super) struct Inside {
    pub tail: Vec<String>,
    declared: Vec<String>,
    stored: Vec<String>,
}

/// The text of a walk's body, with the statements that `fill` makes; [`Walk::flat`] is the index of its first element.
pub(super) fn inside(
    printer: &mut Printer<'_>,
    walk: &Walk,
    depth: usize,
    fill: impl FnOnce(&mut Printer<'_>, &mut Inside),
) -> String {
    let base = printer.levels.len();
    let (ix, flat) = (printer.ix, walk.flat());
    let mut loops = walk.loops.clone();
    let mut out = Inside::default();
    if walk.width == 1 {
        printer.levels.push(Level::new(loops.clone(), INDENTS[depth]));
        fill(printer, &mut out);
        let mut text = decode(&loops, &flat, ix, INDENTS[depth]);
        printer.close(base).into_iter().for_each(|level| text += &level.text);
        out.tail.iter().for_each(|line| _ = writeln!(text, "{}{line}", INDENTS[depth]));
        return text;
    }
    // invariant: a walk that is wider than 1 has a last loop
    let last = loops.pop().unwrap_or(Loop { dims: Default::default(), size: 1, called: None });
    printer.levels.push(Level::new(loops.clone(), INDENTS[depth]));
    printer.levels.push(Level { width: walk.width, ..Level::new(vec![last.clone()], INDENTS[depth + 1]) });
    fill(printer, &mut out);
    let levels = printer.close(base);
    loops.push(Loop { called: Some(FIRST), ..last.clone() });
    let (outer, inner) = (INDENTS[depth], INDENTS[depth + 1]);
    let mut text = decode(&loops, &flat, ix, outer) + &levels[0].text;
    out.declared.iter().for_each(|line| _ = writeln!(text, "{outer}{line}"));
    let _ = writeln!(text, "#pragma unroll\n{outer}for (int k = 0; k < {}; ++k) {{", walk.width);
    let element = levels[1].text.clone() + &out.tail.join("\n");
    if mentions(&element, &last.name()) {
        let _ = writeln!(text, "{inner}const {ix} {} = {FIRST} + k;", last.name());
    }
    text += &levels[1].text;
    out.tail.iter().for_each(|line| _ = writeln!(text, "{inner}{line}"));
    let _ = writeln!(text, "{outer}}}");
    out.stored.iter().for_each(|line| _ = writeln!(text, "{outer}{line}"));
    text
}

/// Whether a name occurs in a text as a word.
pub(super) fn mentions(text: &str, name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_some_and(word);
        let behind = text[at + name.len()..].chars().next().is_some_and(word);
        !before && !behind
    })
}

/// Writes an element of a result, at once or as part of a pack.
pub(super) fn store(printer: &mut Printer<'_>, out: &Out, into: &mut Inside) {
    let Place::Axes(axes) = &out.place else { return };
    let value = stored(printer, out.node, printer.env.ty(out.value).dtype);
    let form = (printer.env.form)(out.value);
    let linear = Linear::axes(axes, &form, &printer.graph.sizes);
    let pointer = printer.pointer(form.root, true);
    let last = printer.levels.len() - 1;
    let (loops, width) = (printer.loops(last), printer.levels[last].width);
    if width > 1 && printer::aligned(&linear, &loops, width) {
        let name = printer.fresh("y");
        let ty = stored_type(printer.env.ty(out.value).dtype);
        into.declared.push(format!("fg_pack<{ty}, {width}> {name};"));
        into.tail.push(format!("{name}.at[k] = {value};"));
        let mut loops = loops;
        if let Some(l) = loops.last_mut() {
            l.called = Some(FIRST);
        }
        into.stored.push(format!("fg_store({pointer} + {}, {name});", lines::text(&linear, &loops, &[])));
    } else {
        into.tail.push(format!("{pointer}[{}] = {value};", lines::text(&linear, &loops, &[])));
    }
}

/// The value of a node in its stored type.
pub(super) fn stored(printer: &mut Printer<'_>, node: NodeId, dtype: DType) -> String {
    let value = printer.value(node);
    let ty = stored_type(dtype);
    match dtype {
        DType::F16 | DType::BF16 => format!("fg_to<{ty}>::from({value})"),
        _ => value,
    }
}
