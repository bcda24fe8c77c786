//! Bodies of lines, for readers: equal calls on equal types have one body, in which the arguments are numbered.

use super::strings::{Strings, marked};
use crate::bind::body_of;
use crate::trace::print::{self, arguments};
use crate::trace::{BoundSymbol, Control, ProxyId, Trace};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

/// Bodies in bodies are opened to this depth; a deeper one is rarely of use to a reader.
const DEPTH: usize = 3;
/// At most this many lines of a body are shown, and at most this many bodies, to bound the size of the file.
const LINES: usize = 300;
const BODIES: usize = 4000;

/// The bodies of a document.
#[derive(Default)]
pub(super) struct Bodies {
    known: FxHashMap<String, Option<usize>>,
    list: Vec<Value>,
}

/// The lines of a body so far, and the numbers of the values that it reads from outside.
struct Body<'a> {
    trace: &'a Trace,
    given: FxHashMap<ProxyId, usize>,
    lines: Vec<(usize, String)>,
}

impl Bodies {
    /// The number of the body of a line, if the line has one. A body that cannot be made is none: compiling has reported
    /// its error.
    pub fn of(&mut self, trace: &Trace, line: &BoundSymbol, strings: &mut Strings) -> Option<usize> {
        let control = trace.arena.control(line);
        let key = format!("{}({})", line.symbol.name(), arguments(line, &|p| trace.ty(p).to_string()));
        if let (None, Some(known)) = (&control, self.known.get(&key)) {
            return *known;
        }
        let mut given = FxHashMap::default();
        line.for_each_arg(|p| {
            let next = given.len();
            given.entry(p).or_insert(next);
        });
        let mut body = Body { trace, given, lines: Vec::new() };
        match &control {
            Some(control) => body.programs(control, 0),
            None => body.open(line, 0),
        }
        let number = (!body.lines.is_empty() && self.list.len() < BODIES).then_some(self.list.len());
        if number.is_some() {
            let line = |(depth, text): (usize, String)| json!([depth, strings.pieces(&text)]);
            self.list.push(body.lines.into_iter().map(line).collect());
        }
        if control.is_none() {
            self.known.insert(key, number);
        }
        number
    }

    /// All bodies, in the order of their numbers.
    pub fn finish(self) -> Value {
        json!(self.list)
    }
}

impl Body<'_> {
    fn push(&mut self, depth: usize, text: String) {
        match self.lines.len() {
            LINES => self.lines.push((0, "…".to_owned())),
            n if n < LINES => self.lines.push((depth, text)),
            _ => {}
        }
    }

    /// Adds the body of a line, and its result.
    fn open(&mut self, line: &BoundSymbol, depth: usize) {
        if depth >= DEPTH || self.lines.len() > LINES {
            return;
        }
        let body = match &line.dispatch {
            Some(body) => body.clone(),
            None => match body_of(&self.trace.arena, line) {
                Ok(Some(body)) => body,
                _ => return,
            },
        };
        for inner in &body.lines {
            self.line(inner, depth);
        }
        let outs: Vec<String> = body.outs.iter().map(|p| self.name(*p)).collect();
        self.push(depth, format!("return {}", outs.join(", ")));
    }

    /// Adds the programs of a line of control flow.
    fn programs(&mut self, control: &Control, depth: usize) {
        for (name, program) in control.kind.program_names().iter().zip(&control.programs) {
            let inputs: Vec<String> = program.inputs.iter().map(|p| self.typed(*p)).collect();
            self.push(depth, format!("{name}({}):", inputs.join(", ")));
            for line in &program.lines {
                self.line(line, depth + 1);
            }
            let outs: Vec<String> = program.outputs.iter().map(|p| self.name(*p)).collect();
            self.push(depth + 1, format!("return {}", outs.join(", ")));
        }
    }

    fn line(&mut self, line: &BoundSymbol, depth: usize) {
        let outs: Vec<String> = line.outs.iter().chain(&line.aux).map(|p| self.typed(*p)).collect();
        let control = self.trace.arena.control(line);
        let call = match &control {
            Some(control) => {
                format!("{}({})", control.kind.name(), print::control::grouped(control, line, &|p| self.name(p)))
            }
            None => format!("{}({})", line.symbol.name(), arguments(line, &|p| self.name(p))),
        };
        self.push(depth, format!("{} = {call}", outs.join(", ")));
        match &control {
            Some(control) if depth < DEPTH => self.programs(control, depth + 1),
            Some(_) => {}
            None => self.open(line, depth + 1),
        }
    }

    /// The name of a value, or the mark of an argument.
    fn name(&self, p: ProxyId) -> String {
        self.given.get(&p).map_or_else(|| self.trace.arena.name(p).to_string(), |number| marked(*number))
    }

    fn typed(&self, p: ProxyId) -> String {
        format!("{}: {}", self.name(p), self.trace.ty(p))
    }
}
