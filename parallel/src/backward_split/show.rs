//! Prints a split backward as text.

use super::{BackwardSplit, HandedValue, Origin};
use std::fmt;

impl fmt::Display for BackwardSplit {
    /// Prints I, each unit of W and the hand-over: for each value its source, its bytes and the units that read it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = &self.report;
        writeln!(f, "# I: {} lines, W: {} lines", report.input_lines, report.weight_lines)?;
        write!(f, "{}", self.input)?;
        for unit in &self.weight {
            write!(f, "\n{}", unit.trace)?;
        }
        writeln!(f, "\n# kept behind F: {} bytes, behind I: {}", report.bytes_forward, report.bytes_handover)?;
        self.handover.iter().try_for_each(|entry| self.entry(entry, f))
    }
}

impl BackwardSplit {
    fn entry(&self, entry: &HandedValue, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = match (entry.origin, entry.version_of) {
            (_, Some(_)) => "parameter",
            (Origin::Fresh(_), None) => "made in I",
            (Origin::Saved(_), None) => "kept by F",
            (Origin::Cotangent(_), None) => "cotangent",
        };
        let readers: Vec<String> = entry.readers.iter().map(|unit| format!("W[{unit}]")).collect();
        let (name, ty) = (self.input.arena.name(entry.value), self.input.ty(entry.value));
        writeln!(f, "# {name}: {ty}, {} bytes, {origin}, read by {}", entry.bytes, readers.join(" "))
    }
}
