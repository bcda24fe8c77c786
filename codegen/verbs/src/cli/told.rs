//! Finds rows whose meaning no outside evidence states, so that another row would pass for them.

use fulgurite_codegen::schema::RowSource;
use fulgurite_codegen::yaml::{Node, Value};
use fulgurite_core::Name;
use fulgurite_core::foreign::is_alias;
use fulgurite_core::lang::OptType;

/// The parts of the meaning that no point states, for a row that PyTorch has no name for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Untold {
    /// The row has no points.
    Everything,
    /// No two points differ in these options.
    Options(Vec<Name>),
}

/// The parts of a row's meaning that its points leave open; `None` if PyTorch has a name for the row.
pub fn untold(source: &RowSource) -> Option<Untold> {
    let op = source.op.as_str();
    if !source.aliases.is_empty() || is_alias(op) {
        return None;
    }
    let points = &source.tests.points;
    if points.is_empty() {
        return Some(Untold::Everything);
    }
    let given = |point: &Node, name: Name| match &point.value {
        Value::Map(entries) => entries.iter().find(|(key, _)| name == key.as_str()).map(|(_, node)| shown(node)),
        _ => None,
    };
    let open = source.sig.tree.opts.iter().filter(|opt| {
        let mut values: Vec<Option<String>> = points.iter().map(|point| given(point, opt.name.name)).collect();
        values.sort();
        values.dedup();
        // Sizes show in the shape of the result, so a single value suffices.
        let tells = values.len() > 1 || matches!(opt.ty, OptType::Size(_) | OptType::Shape { .. });
        !tells
    });
    let open: Vec<Name> = open.map(|opt| opt.name.name).collect();
    (!open.is_empty()).then_some(Untold::Options(open))
}

fn shown(node: &Node) -> String {
    match &node.value {
        Value::Scalar(text) => text.as_str().to_owned(),
        Value::List(items) => items.iter().map(|item| format!("{},", shown(item))).collect(),
        Value::Map(_) | Value::Null => String::new(),
    }
}
