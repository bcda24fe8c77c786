//! `cargo ops list`

use std::io::Write;
use std::sync::Arc;

use clap::Args;
use fulgurite_codegen::pipeline::Table;
use fulgurite_codegen::schema::RowSource;
use fulgurite_core::Name;
use fulgurite_core::row::Row;
use rustc_hash::FxHashSet;
use serde_json::json;

use super::load::load_or_built_in;
use super::paint::Paint;
use super::{Common, FINE, Outcome, classes, grades, sizes};
use crate::explain::cost::{self, Costs};
use crate::explain::{self, Gradient};

/// Lists the rows.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  cargo ops list\n  cargo ops list --rules\n  cargo ops list --grades\n  cargo ops list --classes\n  cargo ops list --sizes | head\n  cargo ops list --json | jq -r .op"
)]
pub struct List {
    /// Add the gradient rule of each argument; for a written rule also the gradient without it, and the costs of both
    #[arg(long)]
    pub rules: bool,
    /// Instead, list the bytes of code generated for each row and the rows derived from it, the largest first
    #[arg(long, conflicts_with = "rules")]
    pub sizes: bool,
    /// Instead, list the grade of each claim about a row, with totals
    #[arg(long, conflicts_with_all = ["rules", "sizes"])]
    pub grades: bool,
    /// Instead, list the tensor subclasses, with the rows that make their tensors
    #[arg(long, conflicts_with_all = ["rules", "sizes", "grades"])]
    pub classes: bool,
}

impl List {
    pub(super) fn run(&self, common: &Common, paint: &Paint, out: &mut dyn Write, err: &mut dyn Write) -> Outcome {
        let loaded = load_or_built_in(common)?;
        if self.sizes {
            return sizes::list(&loaded, common, paint, out);
        }
        if self.grades {
            return grades::list(&loaded, common, paint, out);
        }
        if self.classes {
            return classes::list(&loaded, common, paint, out, err);
        }
        let table = loaded.table();
        let made = loaded.database.rows.iter().filter(|source| !source.kernels.is_empty());
        let made: FxHashSet<Name> = made.map(RowSource::name).collect();
        let by_hand = |op: Name| made.contains(&op);
        let mut written = 0;
        let widest = loaded.database.rows.iter().map(|source| source.op.as_str().len()).max().unwrap_or(0);
        for (source, row) in loaded.database.rows.iter().zip(&loaded.checked.rows) {
            let op = source.op.as_str();
            let gradients = if self.rules { explain::gradients(row, &table, &loaded.checked) } else { Vec::new() };
            written += usize::from(gradients.iter().any(|gradient| gradient.without.is_some()));
            if common.json {
                let rules: Vec<_> = gradients
                    .iter()
                    .map(|gradient| {
                        let mut rule = gradient.json();
                        rule["costs"] = saved(row, gradient, &table, &by_hand).map(|costs| costs.json()).into();
                        rule
                    })
                    .collect();
                let mut object = json!({
                    "v": 1,
                    "op": op,
                    "doc": source.doc.as_str(),
                    "sig": row.sig.to_string(),
                    "kind": explain::kind(row),
                    "line": loaded.sources.line(source.op.place),
                });
                if let (true, Some(object)) = (self.rules, object.as_object_mut()) {
                    object.insert("gradients".to_owned(), rules.into());
                }
                writeln!(out, "{object}")?;
                continue;
            }
            let name = paint.verb(&format!("{op:<widest$}"));
            writeln!(out, "{name}  {:<9}  {}", explain::kind(row), source.doc.as_str())?;
            for gradient in gradients {
                let arg: Name = gradient.arg;
                writeln!(out, "{:widest$}    d/d{arg} {}", "", gradient.text())?;
                if let Some(without) = &gradient.without {
                    let line = format!("{:widest$}      {}; without it: {without}", "", gradient.reason());
                    writeln!(out, "{}", paint.faint(&line))?;
                    if let Some(costs) = saved(row, &gradient, &table, &by_hand) {
                        let line = format!("{:widest$}      {costs}", "");
                        writeln!(out, "{}", paint.faint(&line))?;
                    }
                }
            }
        }
        if self.rules && !common.quiet {
            writeln!(err, "{written} of {} rows have a written gradient", loaded.database.rows.len())?;
        }
        let broken = &loaded.database.broken;
        if !broken.is_empty() && !common.quiet {
            let names: Vec<&str> = broken.iter().map(|name| name.as_str()).collect();
            writeln!(
                err,
                "note: rows with faults are not listed: {}; `cargo ops check{}` shows the faults",
                names.join(", "),
                loaded.options
            )?;
        }
        Ok(FINE)
    }
}

/// The costs of a written gradient and of the gradient without it.
fn saved(row: &Arc<Row>, gradient: &Gradient, table: &Table, by_hand: &dyn Fn(Name) -> bool) -> Option<Costs> {
    gradient.without.as_ref()?;
    let (_, rule) = row.vjp.iter().find(|(arg, _)| *arg == gradient.arg)?;
    cost::costs(row, gradient.arg, rule, table, by_hand)
}
