//! The rows that implement a call, found by its name.

use crate::recurrent::RecurrentLayer;
use crate::sequences::SequenceFunction;
use fulgurite::foreign;

/// The implementation of a call of a graph.
#[derive(Clone, Debug, PartialEq)]
pub enum Implementation {
    /// Rows with these names in other libraries, tried in this order.
    Rows(Vec<String>),
    /// Rows with these names, whose result is written to the first argument.
    Written(Vec<String>),
    /// A function of sizes and numbers.
    Host,
    /// A function of lists of tensors.
    Sequence(SequenceFunction),
    Recurrent(RecurrentLayer),
    /// A program among the arguments, whose calls are made in a region.
    Region(CallRegion),
    /// A call that chooses or repeats programs among its arguments.
    ControlFlow(ControlFlow),
    /// No implementation.
    Missing,
}

/// The regions in which a program is called.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CallRegion {
    /// `torch.autocast`.
    Autocast,
    /// `torch.set_grad_enabled`.
    Gradient,
}

/// The calls that choose or repeat programs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ControlFlow {
    /// One of two programs.
    Cond,
    /// A program that runs for as long as another one yields true.
    While,
    /// A program for each slice of sequences.
    Scan,
    /// One of two programs that have no arguments.
    OnnxIf,
    /// A program that runs for a number of steps, or for as long as its condition is true.
    OnnxLoop,
    /// A program for each slice of sequences, along any axis and in either direction.
    OnnxScan,
    /// A program for each item of a list.
    SequenceMap,
}

/// The calls of control flow by the names of PyTorch's and ONNX's operators.
const CONTROL_FLOW: &[(&str, ControlFlow)] = &[
    ("higher_order.cond", ControlFlow::Cond),
    ("higher_order.while_loop", ControlFlow::While),
    ("higher_order.scan", ControlFlow::Scan),
    ("onnx.If", ControlFlow::OnnxIf),
    ("onnx.Loop", ControlFlow::OnnxLoop),
    ("onnx.Scan", ControlFlow::OnnxScan),
    ("onnx.SequenceMap", ControlFlow::SequenceMap),
];

/// The regions by the names of PyTorch's operators that take programs.
const REGIONS: &[(&str, CallRegion)] = &[
    ("higher_order.wrap_with_autocast", CallRegion::Autocast),
    ("higher_order.wrap_with_set_grad_enabled", CallRegion::Gradient),
];

/// The rows that `target` stands for, such as `aten.add.Tensor`, or the function of sizes that it
/// names.
pub fn implementation(target: &str) -> Implementation {
    let full = target;
    let target = unversioned(target);
    if let Some(function) = crate::sequences::find(target) {
        return Implementation::Sequence(function);
    }
    if let Some(layer) = crate::recurrent::find(target) {
        return Implementation::Recurrent(layer);
    }
    if crate::host::is_known(target) {
        return Implementation::Host;
    }
    if let Some((_, region)) = REGIONS.iter().find(|(name, _)| *name == target) {
        return Implementation::Region(*region);
    }
    if let Some((_, flow)) = CONTROL_FLOW.iter().find(|(name, _)| *name == target) {
        return Implementation::ControlFlow(*flow);
    }
    let rows = spellings(full);
    if !rows.is_empty() {
        return Implementation::Rows(rows);
    }
    match functional(target).map(|target| spellings(&target)) {
        Some(rows) if !rows.is_empty() => Implementation::Written(rows),
        _ => Implementation::Missing,
    }
}

/// The name of an operator of ONNX without the version at its end, by which the tables have it; another name unchanged.
pub fn unversioned(target: &str) -> &str {
    match target.strip_prefix("onnx.").and(target.rsplit_once('.')) {
        Some((name, version)) if version.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => target,
    }
}

/// ATen's convention: a name with `_` at its end is the call without it, and writes the result to its first argument.
fn functional(target: &str) -> Option<String> {
    let (space, rest) = target.split_once('.')?;
    let (base, overload) = rest.split_once('.').unwrap_or((rest, ""));
    let base = base.strip_suffix('_').filter(|base| !base.is_empty() && !base.ends_with('_'))?;
    Some(format!("{space}.{base}.{overload}"))
}

/// The names of `target` that have rows: its own, then the operator's without the overload, then those of the functions
/// of PyTorch's Python interface that are bindings of the operator and take the same arguments in the same order. The
/// functions of `torch.nn.functional` are not among them: many are Python, with parameters in an order of their own.
fn spellings(target: &str) -> Vec<String> {
    if target.starts_with("onnx.") {
        return foreign::listed(target).into_iter().collect();
    }
    let target = target.strip_suffix(".default").unwrap_or(target).trim_end_matches('.');
    let mut names = vec![target.to_owned(), format!("torch.ops.{target}")];
    if let Some(rest) = target.strip_prefix("aten.") {
        let base = rest.split('.').next().unwrap_or_default();
        names.extend(["aten", "torch"].iter().map(|module| format!("{module}.{base}")));
        for module in ["special", "linalg", "fft"] {
            if let Some(base) = base.strip_prefix(module).and_then(|base| base.strip_prefix('_')) {
                names.push(format!("torch.{module}.{base}"));
                // `torch.special.erf` and others are further names of the functions of `torch`
                if module == "special" {
                    names.extend([format!("torch.{base}"), format!("aten.{base}")]);
                }
            }
        }
    }
    names.dedup();
    names.retain(|name| !foreign::forms(name).is_empty());
    names
}
