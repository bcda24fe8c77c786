//! Values of a trace: the lines that make and read them, their sizes and lifetimes; and the memory of all over time.

use crate::fault::Fault;
use crate::ui::format;
use fulgurite::trace::{BoundSymbol, ProxyId, Trace};
use serde_json::{Value, json};

/// Rows of the chart of memory over time.
const ROWS: usize = 24;
/// Columns of its bars.
const COLUMNS: usize = 48;

/// Describes one value of a stage, as lines and as an object.
///
/// # Errors
/// E921 for a name that the trace does not have.
pub fn value(trace: &Trace, name: &str) -> Result<(Vec<String>, Value), Fault> {
    let p = named(trace, name)?;
    let made = trace.lines().iter().position(|l| makes(l, p));
    let readers: Vec<usize> = (0..trace.lines().len()).filter(|i| reads(&trace.lines()[*i], p)).collect();
    let result = trace.outputs().contains(&p);
    let last = if result { trace.lines().len() } else { readers.last().copied().or(made).unwrap_or(0) };
    let size = bytes(trace, p);
    let call = |i: usize| {
        let line = &trace.lines()[i];
        let made: Vec<String> = line.outs.iter().map(|p| trace.arena.name(*p).to_string()).collect();
        format!("line {}: {} = {}(…)  {}", i + 1, made.join(", "), line.symbol.name(), line.place.loc)
    };
    let mut out = vec![format!("{name}: {}", trace.ty(p))];
    out.push(format!("made by   {}", made.map_or_else(|| "the caller: it is an input".to_owned(), call)));
    match readers.as_slice() {
        [] => out.push("read by   no line".to_owned()),
        all => out.extend(
            all.iter()
                .enumerate()
                .map(|(i, at)| format!("{}{}", if i == 0 { "read by   " } else { "          " }, call(*at))),
        ),
    }
    if result {
        out.push("          the caller: it is a result".to_owned());
    }
    let from = made.map_or(0, |i| i + 1);
    out.push(format!("lives     lines {from} to {}, {}", last + usize::from(!result), format::bytes(size)));
    let object = json!({"v": 1, "name": name, "type": trace.ty(p).to_string(), "made": made.map(|i| i + 1),
        "read": readers.iter().map(|i| i + 1).collect::<Vec<_>>(), "result": result, "bytes": size});
    Ok((out, object))
}

/// The value with this name.
///
/// # Errors
/// E921 for a name that the trace does not have.
pub fn named(trace: &Trace, name: &str) -> Result<ProxyId, Fault> {
    let found = proxies(trace).into_iter().find(|p| &*trace.arena.name(*p) == name);
    found.ok_or_else(|| {
        let near = proxies(trace).into_iter().map(|p| trace.arena.name(p)).find(|n| n.starts_with(name));
        let fault = Fault::usage("E921", format!("this stage has no value `{name}`"));
        match near {
            Some(near) => fault.help(format!("it has `{near}`")),
            None => fault.help("names are those that `fulgurite trace --stage NAME` shows"),
        }
    })
}

/// The bytes of values that are made and still to be read, line by line, and as a chart.
pub fn memory(trace: &Trace) -> (Vec<String>, Value) {
    let lines = trace.lines();
    let (live, at) = fulgurite::viewer::memory(trace);
    let peak = live.get(at).copied().unwrap_or(0);
    let mut out = Vec::new();
    if let Some(line) = lines.get(at) {
        let size = format::bytes(peak as usize);
        out.push(format!(
            "peak {size} at line {} of {}: {}  {}",
            at + 1,
            lines.len(),
            line.symbol.name(),
            line.place.loc
        ));
    }
    let step = lines.len().div_ceil(ROWS).max(1);
    for (i, part) in live.chunks(step).enumerate() {
        let most = part.iter().copied().max().unwrap_or(0);
        let width = (most as f64 / peak.max(1) as f64 * COLUMNS as f64).round() as usize;
        let first = i * step;
        let name = lines[first].symbol.name();
        out.push(format!(
            "{:5}  {:COLUMNS$}  {:>9}  {name}",
            first + 1,
            "#".repeat(width),
            format::bytes(most as usize)
        ));
    }
    let object = json!({"v": 1, "peak": peak, "line": at + 1, "live": live});
    (out, object)
}

fn proxies(trace: &Trace) -> Vec<ProxyId> {
    let made = trace.lines().iter().flat_map(|l| l.outs.iter().chain(&l.aux)).copied();
    trace.input_proxies().chain(made).collect()
}

pub fn makes(line: &BoundSymbol, p: ProxyId) -> bool {
    line.outs.contains(&p) || line.aux.contains(&p)
}

pub fn reads(line: &BoundSymbol, p: ProxyId) -> bool {
    let mut found = false;
    line.for_each_arg(|a| found |= a == p);
    found
}

pub fn bytes(trace: &Trace, p: ProxyId) -> usize {
    trace.ty(p).as_tensor().map_or(0, |t| t.numel() * t.dtype.size())
}

#[cfg(test)]
mod tests {
    use super::{memory, value};
    use fulgurite::trace::Trace;

    #[test]
    fn values_and_memory_of_a_small_program() {
        let _ = fulgurite::ops::arange(1);
        let text = "fn f(x: f32[4]) {\n a: f32[4] = sin(x)\n b: f32[4] = cos(a)\n c: f32[4] = add(a, b)\n return c\n}";
        let trace = Trace::parse(text).expect("a program");
        let (lines, object) = value(&trace, "a").expect("there");
        assert_eq!(object["read"], serde_json::json!([2, 3]), "{lines:?}");
        assert!(lines.iter().any(|l| l.starts_with("lives     lines 1 to 3, 16 B")), "{lines:?}");
        assert!(value(&trace, "z").is_err());
        let (lines, object) = memory(&trace);
        assert_eq!(object["live"], serde_json::json!([16, 32, 48]), "{lines:?}");
        assert!(lines[0].starts_with("peak 48 B at line 3 of 3: add"), "{lines:?}");
    }
}
