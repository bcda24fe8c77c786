//! Prints lines of control flow: their arguments in groups, and their programs as blocks.

use super::{Printer, show};
use crate::trace::control::{Control, ControlKind};
use crate::trace::types::{BoundSymbol, ProxyId};
use std::fmt::Write;

// writing to a String can't fail: `let _ =` drops a result that is always Ok
impl Printer<'_> {
    /// Prints the programs of a line of control flow as blocks, and closes the line's own.
    pub(super) fn programs(&mut self, control: &Control, level: usize, depth: usize) {
        let indent = "  ".repeat(level);
        for (name, program) in control.kind.program_names().iter().zip(&control.programs) {
            let inputs: Vec<String> = program.inputs.iter().map(|p| self.typed(*p)).collect();
            let _ = writeln!(self.out, "{indent}{name}({}) {{", inputs.join(", "));
            self.block(&program.lines, program.root, level + 1, depth);
            let outs: Vec<String> = program.outputs.iter().map(|p| self.trace.arena.name(*p).to_string()).collect();
            let _ = writeln!(self.out, "{indent}  return {}", outs.join(", "));
            let _ = writeln!(self.out, "{indent}}}");
        }
        let _ = writeln!(self.out, "{}}}", "  ".repeat(level - 1));
    }

    pub(super) fn grouped(&self, control: &Control, line: &BoundSymbol) -> String {
        grouped(control, line, &|p| self.trace.arena.name(p).to_string())
    }
}

/// The arguments of a line of control flow in their groups, then its options. `tensor` names the values.
pub(crate) fn grouped(control: &Control, line: &BoundSymbol, tensor: &dyn Fn(ProxyId) -> String) -> String {
    let names: Vec<String> = line.args[..line.args.len() - 1].iter().map(|arg| show(arg, tensor)).collect();
    let mut rest = names.as_slice();
    let mut parts = Vec::new();
    for (i, length) in control.kind.groups(names.len()).into_iter().enumerate() {
        let (group, after) = rest.split_at(length.min(rest.len()));
        rest = after;
        let one = i < control.kind.before_inputs();
        parts.push(if one { group.join(", ") } else { format!("[{}]", group.join(", ")) });
    }
    match control.kind {
        ControlKind::Cond => {}
        ControlKind::While { bound, .. } => parts.extend(bound.map(|n| format!("bound={n}"))),
        ControlKind::Scan { length, reverse, keeps, .. } => {
            parts.push(format!("length={length}"));
            parts.extend(reverse.then(|| "reverse=true".to_owned()));
            parts.extend(keeps.then(|| "keeps=true".to_owned()));
        }
    }
    parts.join(", ")
}
