//! Rows of a database that this program was not built with: they run by their meaning, without a kernel of their own.

use super::parse::{Expr, Kind};
use crate::args::Common;
use crate::fault::Fault;
use fulgurite::core::Name;
use fulgurite::core::row::{Row, RowText};
use fulgurite::symbol::{self, Symbol};
use fulgurite_codegen::check::{base, closure};
use fulgurite_codegen::diag::Level;
use fulgurite_codegen::schema::RowSource;
use fulgurite_ops_verbs::cli::{self, Loaded};
use std::collections::BTreeSet;

/// Adds the rows of `--file` that the expression needs; without the option those of the database in this folder, if the
/// expression calls an operator that this program does not have.
///
/// # Errors
/// E903: a row that is needed has a fault. E910: the database cannot be read. E917: a row that is needed is another one
/// than the row of this name in this program.
pub fn add(expr: &Expr, common: Common) -> Result<(), Fault> {
    let mut called = BTreeSet::new();
    calls(expr, &mut called);
    let named = common.file.is_some();
    let known = |op: &&str| !symbol::candidates(Name::new(op)).is_empty();
    if !named && called.iter().all(|op| known(&op.as_str())) {
        return Ok(());
    }
    if !named && !cli::is_found() {
        // without a database the operator is unknown, and the evaluator says so at its place
        return Ok(());
    }
    let loaded = cli::load_over_built_in(&common.ops())?;
    let needed = closure::reached(&loaded.database.rows, called.iter().map(|op| Name::new(op)));
    if let Some(broken) = loaded.database.broken.iter().find(|op| needed.contains(&base(**op))) {
        return Err(loaded.find(broken.as_str()).err().map_or_else(|| faulty(*broken), Fault::from));
    }
    if let Some(op) = faults(&loaded).into_iter().find(|op| needed.contains(&base(*op))) {
        return Err(faulty(op));
    }
    for (source, row) in loaded.database.rows.iter().zip(&loaded.checked.rows) {
        if needed.contains(&base(row.op)) {
            register(source, row, &loaded)?;
        }
    }
    Ok(())
}

/// The operators that an expression calls.
fn calls(expr: &Expr, called: &mut BTreeSet<String>) {
    match &expr.kind {
        Kind::Call(op, args) => {
            called.insert(op.clone());
            args.iter().for_each(|arg| calls(&arg.value, called));
        }
        Kind::List(items) => items.iter().for_each(|item| calls(item, called)),
        Kind::As(inner, _) => calls(inner, called),
        Kind::Number(_) | Kind::Bool(_) | Kind::Text(_) | Kind::Name(_) => {}
    }
}

/// The rows at which the checks found an error.
fn faults(loaded: &Loaded) -> Vec<Name> {
    let rows = loaded.database.rows.iter();
    let has = |source: &&RowSource| {
        loaded.diags.sorted().iter().any(|diag| diag.level == Level::Error && source.place.holds(diag.primary.place))
    };
    rows.filter(has).map(RowSource::name).collect()
}

fn faulty(op: Name) -> Fault {
    Fault::failed("E903", format!("the row `{op}` has a fault")).help(format!("`cargo ops check --only {op}` shows it"))
}

fn register(source: &RowSource, row: &Row, loaded: &Loaded) -> Result<(), Fault> {
    if let Some(built) = symbol::candidates(row.op).into_iter().find(|symbol| symbol.name() == row.op.as_str()) {
        if is_same(built.row(), row) {
            return Ok(());
        }
        let claim =
            format!("`{}` is another row in this program than at {}", row.op, loaded.sources.show(source.op.place));
        return Err(Fault::failed("E917", claim).help("build the program anew, or try the row under another name"));
    }
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let text = RowText {
        op: row.op.as_str(),
        doc: leak(source.doc.as_str().to_owned()),
        sig: leak(row.sig.to_string()),
        file: leak(loaded.files.rows.shown.clone()),
        line: loaded.sources.line(source.op.place),
        ..RowText::BLANK
    };
    symbol::register(Symbol::leak("unbuilt", text, row.clone()));
    Ok(())
}

/// Whether two rows have one meaning. The built one also has derived rules.
fn is_same(built: &Row, row: &Row) -> bool {
    let rules = |of: &Row| Row { vjp: Vec::new(), jvp: Vec::new(), ..of.clone() };
    let declared =
        row.vjp.iter().all(|rule| built.vjp.contains(rule)) && row.jvp.iter().all(|rule| built.jvp.contains(rule));
    declared && rules(built) == rules(row)
}
