//! Converts a row with places to the row that core evaluates and the runtime parses.

use fulgurite_core::Name;
use fulgurite_core::lang::Block;
use fulgurite_core::row::{Meaning, Require, Row, Ties};

use super::{Body, RowSource, Rule};
use crate::yaml::Text;

impl RowSource {
    /// The row without places.
    pub fn lower_to_row(&self) -> Row {
        let block = |rule: &Rule<Block>| rule.tree.clone();
        let rules = |rules: &[(Text, Rule<Block>)]| {
            rules.iter().map(|(arg, rule)| (Name::new(arg.as_str()), rule.tree.clone())).collect()
        };
        let text = |text: &Option<Text>| text.as_ref().map(|text| text.text.clone());
        Row {
            op: self.name(),
            sig: self.sig.tree.clone(),
            promote: self.promote.as_ref().map(|rule| rule.tree.clone()),
            dtypes: self.dtypes.as_ref().map(|rule| rule.tree.clone()),
            meaning: match &self.body {
                Body::Expr(rule) => Meaning::Expr(block(rule)),
                Body::View(rule) => Meaning::View(block(rule)),
                Body::Decomp(rule) => Meaning::Decomp(block(rule)),
                Body::Host(name) => Meaning::Host(Name::new(name.as_str())),
            },
            require: self
                .require
                .iter()
                .map(|(cond, message)| Require::new(cond.tree.clone(), one_line(&message.text)))
                .collect(),
            vjp: rules(&self.grad),
            jvp: rules(&self.jvp),
            ties: self.ties.as_ref().map_or(Ties::Even, |(ties, _)| *ties),
            at: self
                .at
                .iter()
                .map(|kink| {
                    let partials = kink.partials.iter().map(|(arg, e)| (Name::new(arg.as_str()), e.tree.clone()));
                    (kink.cond.tree.clone(), partials.collect())
                })
                .collect(),
            no_grad: text(&self.no_grad),
            deviates: text(&self.deviates),
            once: text(&self.once),
            autocast: self.autocast.as_ref().map(|(class, _)| *class),
        }
    }
}

/// A message on one line: a block of YAML ends with a line break, and may contain others.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
