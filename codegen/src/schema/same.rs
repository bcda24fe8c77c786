//! Equality of rows, regardless of their places and of the form of their texts.

use fulgurite_core::subclass::{self, Class};

use super::{RowSource, Rule, SkipVjp};
use crate::yaml::{Node, Text};

impl RowSource {
    /// Whether this row and the other one differ only in the places and the form of their texts.
    pub fn is_same(&self, other: &RowSource) -> bool {
        let texts = |pairs: &[(Text, Text)]| -> Vec<(String, String)> {
            pairs.iter().map(|(a, b)| (a.text.clone(), b.text.clone())).collect()
        };
        // Differently written rules can have one tree.
        let rules = |pairs: &[(Text, Text)]| -> Vec<(String, Option<subclass::Rule>)> {
            pairs.iter().map(|(class, rule)| (class.text.clone(), Class::rule(rule.as_str()).ok())).collect()
        };
        let skipped = |row: &RowSource| match &row.skip_vjp {
            Some((SkipVjp::All(all), _)) => format!("{all}"),
            Some((SkipVjp::Arguments(names), _)) => names.iter().map(|n| n.as_str()).collect::<Vec<_>>().join(","),
            None => String::new(),
        };
        let aliases = |a: &RowSource, b: &RowSource| {
            let pairs = a.aliases.iter().zip(&b.aliases);
            a.aliases.len() == b.aliases.len() && pairs.into_iter().all(|(a, b)| a.0 == b.0 && a.1.tree == b.1.tree)
        };
        let (a, b) = (&self.tests, &other.tests);
        let points = |nodes: &[Node]| nodes.iter().map(Node::plain).collect::<Vec<_>>();
        self.lower_to_row() == other.lower_to_row()
            && worded(&self.doc.text) == worded(&other.doc.text)
            && tree(&self.acc) == tree(&other.acc)
            && skipped(self) == skipped(other)
            && rules(&self.subclass) == rules(&other.subclass)
            && texts(&self.kernels) == texts(&other.kernels)
            && aliases(self, other)
            && texts(&a.domain) == texts(&b.domain)
            && points(&a.points) == points(&b.points)
    }
}

/// Prose without the blanks at the ends of its lines, which the canonical form drops.
fn worded(text: &str) -> Vec<&str> {
    text.trim_end().lines().map(str::trim_end).collect()
}

fn tree<T>(rule: &Option<Rule<T>>) -> Option<&T> {
    rule.as_ref().map(|rule| &rule.tree)
}
