//! One stage of a program as columns: an entry for each line, and for each value.

use super::Tables;
use super::notes::{LineNotes, bytes};
use super::strings::marked;
use crate::jit::CompileStage;
use crate::trace::print::{self, arguments};
use crate::trace::{BoundSymbol, ProxyId, RegionId, Role, Trace};
use fulgurite_core::loc::Loc;
use rustc_hash::FxHashMap;
use serde_json::{Map, Value, json};

/// The values of a trace, by number.
#[derive(Default)]
struct Values {
    numbers: FxHashMap<ProxyId, usize>,
    list: Vec<ProxyId>,
    /// The line that makes the value, or -1 for an input.
    made: Vec<i64>,
    /// The last line that reads it. A result of the program lives to the number of lines.
    last: Vec<i64>,
}

impl Values {
    fn of(trace: &Trace) -> Values {
        let mut values = Values::default();
        for p in trace.input_proxies() {
            values.number(p, -1);
        }
        for (i, line) in trace.lines().iter().enumerate() {
            let i = i as i64;
            line.for_each_arg(|p| {
                let number = values.number(p, -1);
                values.last[number] = i;
            });
            line.outs.iter().chain(&line.aux).for_each(|p| _ = values.number(*p, i));
        }
        let written = trace.epilogue.iter().map(|write| write.value);
        for p in trace.outputs().iter().copied().chain(written) {
            let number = values.number(p, -1);
            values.last[number] = trace.lines().len() as i64;
        }
        values
    }

    fn number(&mut self, p: ProxyId, made: i64) -> usize {
        *self.numbers.entry(p).or_insert_with(|| {
            self.list.push(p);
            self.made.push(made);
            self.last.push(made);
            self.list.len() - 1
        })
    }

    fn at(&self, p: ProxyId) -> usize {
        // `of` has numbered every value of the trace
        self.numbers.get(&p).copied().unwrap_or_default()
    }
}

/// The regions of a stage, by number, each with the one around it.
#[derive(Default)]
struct Regions {
    numbers: FxHashMap<RegionId, i64>,
    list: Vec<Value>,
}

impl Regions {
    /// The number of the innermost region, or -1 outside of all.
    fn number(&mut self, trace: &Trace, line: &BoundSymbol, tables: &mut Tables) -> i64 {
        let mut parent = -1;
        for id in trace.arena.region_chain(line.region, trace.root).into_iter().rev() {
            parent = *self.numbers.entry(id).or_insert_with(|| {
                let region = trace.arena.region(id);
                let built_in = region.kind.tag();
                let mut text = region.kind.to_string();
                for tag in region.tags.iter().filter(|tag| Some(*tag) != built_in) {
                    text += &format!(" #{}", tag.name());
                }
                self.list.push(json!([parent, tables.strings.number(&text)]));
                self.list.len() as i64 - 1
            });
        }
        parent
    }
}

/// The stage as an object. `trace` is the trace of its text.
pub(super) fn object(stage: &CompileStage, trace: &Trace, tables: &mut Tables) -> Value {
    let values = Values::of(trace);
    let mut regions = Regions::default();
    let notes = LineNotes::of(trace).ok();
    let mut columns: Vec<(&'static str, Vec<Value>)> =
        COLUMNS.iter().map(|name| (*name, Vec::with_capacity(trace.lines().len()))).collect();
    for (i, line) in trace.lines().iter().enumerate() {
        let mark = stage.marks.get(i);
        let entries: [Value; COLUMNS.len()] = [
            mark.map_or(-1, |m| i64::from(m.id.0)).into(),
            mark.and_then(|m| m.origin).map_or(-1, |id| i64::from(id.0)).into(),
            json!(line.outs.iter().map(|p| values.at(*p)).collect::<Vec<_>>()),
            json!(line.aux.iter().map(|p| values.at(*p)).collect::<Vec<_>>()),
            json!((0..line.outs.len()).filter(|i| line.is_dead(*i)).collect::<Vec<_>>()),
            tables.strings.number(&operator(trace, line)).into(),
            call(trace, line, &values, tables).into(),
            regions.number(trace, line, tables).into(),
            tables.strings.or_none(&place(line.place.loc)).into(),
            role(line.place.role).into(),
            tables.strings.or_none(&tags(line)).into(),
            tables.strings.or_none(&rule(line)).into(),
            tables.bodies.of(trace, line, &mut tables.strings).map_or(-1, |n| n as i64).into(),
            notes.as_ref().map_or(-1, |n| tables.strings.or_none(&n.gradient(line))).into(),
            notes.as_ref().map_or(-1, |n| tables.strings.or_none(&n.again(line, super::size_text))).into(),
        ];
        columns.iter_mut().zip(entries).for_each(|((_, column), entry)| column.push(entry));
    }
    let (live, peak) = memory(trace);
    let columns: Map<String, Value> =
        columns.into_iter().map(|(name, column)| (name.to_owned(), column.into())).collect();
    json!({
        "name": stage.name,
        "ms": stage.time.as_secs_f64() * 1e3,
        "remark": stage.remark,
        "function": &*trace.name,
        "count": trace.lines().len(),
        "inputs": trace.input_proxies().map(|p| values.at(p)).collect::<Vec<_>>(),
        "paths": trace.inputs().iter().map(|input| tables.strings.or_none(&input.path)).collect::<Vec<_>>(),
        "outputs": trace.outputs().iter().map(|p| values.at(*p)).collect::<Vec<_>>(),
        "saved": trace.saved,
        "writes": trace.epilogue.iter()
            .map(|write| [values.at(trace.inputs()[write.input].proxy), values.at(write.value)])
            .collect::<Vec<_>>(),
        "values": {
            "name": values.list.iter().map(|p| tables.strings.number(&trace.arena.name(*p))).collect::<Vec<_>>(),
            "ty": values.list.iter().map(|p| tables.ty(trace, *p)).collect::<Vec<_>>(),
            "tags": values.list.iter().map(|p| tables.strings.or_none(&value_tags(trace, *p))).collect::<Vec<_>>(),
            "made": values.made,
            "last": values.last,
        },
        "lines": columns,
        "regions": regions.list,
        "live": live,
        "peak": peak,
    })
}

/// The columns of lines, in the order in which [`object`] fills them.
const COLUMNS: [&str; 15] = [
    "id", "origin", "outs", "aux", "dead", "op", "args", "region", "place", "role", "tags", "rule", "body", "gradient",
    "again",
];

fn operator(trace: &Trace, line: &BoundSymbol) -> String {
    trace.arena.control(line).map_or_else(|| line.symbol.name().to_owned(), |control| control.kind.name().to_owned())
}

/// The arguments of the line, as pieces in which values are numbers.
fn call(trace: &Trace, line: &BoundSymbol, values: &Values, tables: &mut Tables) -> Vec<i64> {
    let name = |p: ProxyId| marked(values.at(p));
    let text = match trace.arena.control(line) {
        Some(control) => print::control::grouped(&control, line, &name),
        None => arguments(line, &name),
    };
    tables.strings.pieces(&text)
}

fn place(loc: Loc) -> String {
    if loc == Loc::NOWHERE { String::new() } else { loc.to_string() }
}

/// The role as a number: forward, backward, recompute, accumulate.
fn role(role: Role) -> u8 {
    match role {
        Role::Forward => 0,
        Role::Backward => 1,
        Role::Recompute => 2,
        Role::Accumulate => 3,
    }
}

fn tags(line: &BoundSymbol) -> String {
    line.own_tags.iter().map(|tag| format!("#{}", tag.name())).collect::<Vec<_>>().join(" ")
}

fn value_tags(trace: &Trace, p: ProxyId) -> String {
    trace.arena.tags(p).iter().map(|tag| format!("#{}", tag.name())).collect::<Vec<_>>().join(" ")
}

/// The executor or class whose rule the line is part of, and the executor that claimed it.
fn rule(line: &BoundSymbol) -> String {
    let claimed = line.claimed_by.map(|name| format!("claimed by {name}"));
    let ruled = line.ruled_by.map(|name| format!("by the rule of {name}"));
    claimed.into_iter().chain(ruled).collect::<Vec<_>>().join(", ")
}

/// The bytes of values that are made and still to be read at each line, and the line with most of them. Views need no
/// memory of their own, and inputs belong to the caller.
pub fn memory(trace: &Trace) -> (Vec<i64>, usize) {
    let lines = trace.lines();
    let mut last: FxHashMap<ProxyId, usize> = FxHashMap::default();
    for (i, line) in lines.iter().enumerate() {
        line.for_each_arg(|p| _ = last.insert(p, i));
    }
    trace.outputs().iter().for_each(|p| _ = last.insert(*p, lines.len()));
    let mut change = vec![0i64; lines.len() + 2];
    for (i, line) in lines.iter().enumerate().filter(|(_, l)| !l.symbol.is_view()) {
        for p in line.outs.iter().chain(&line.aux) {
            let size = bytes(trace, *p) as i64;
            change[i] += size;
            change[last.get(p).copied().unwrap_or(i) + 1] -= size;
        }
    }
    let mut now = 0;
    let mut live = Vec::with_capacity(lines.len());
    for step in &change[..lines.len()] {
        now += step;
        live.push(now);
    }
    let most = live.iter().copied().max().unwrap_or(0);
    let peak = live.iter().position(|n| *n == most).unwrap_or(0);
    (live, peak)
}
