//! Symbols: each row's texts as a static, and the database that exports them.

use super::api::Export;
use super::{Emitted, Target, Unit, names};
use crate::libraries::owner;
use crate::schema::{Calls, Rule};
use fulgurite_core::Name;
use fulgurite_core::foreign::{LIBRARIES, is_alias};
use fulgurite_core::lang::{Alias, parse_alias};
use fulgurite_core::row::{Meaning, Row, Ties};
use std::collections::HashSet;
use std::fmt::Write;

/// A string literal that rustc reads back as `text`: raw, over several lines, where it has quotes, breaks or
/// backslashes.
pub(super) fn literal(text: &str) -> String {
    let hashes = "#".repeat((0..).find(|&n| !text.contains(&format!("\"{}", "#".repeat(n)))).unwrap_or(8));
    if text.contains('"') || text.contains('\n') || text.contains('\\') {
        format!("r{hashes}\"{text}\"{hashes}")
    } else {
        format!("\"{text}\"")
    }
}

pub(super) fn pairs<K: std::fmt::Display, V: std::fmt::Display>(pairs: impl Iterator<Item = (K, V)>) -> String {
    let items: Vec<String> =
        pairs.map(|(k, v)| format!("({}, {})", literal(&k.to_string()), literal(&v.to_string()))).collect();
    match items.as_slice() {
        [] => "&[]".into(),
        [one] if !one.contains('\n') => format!("&[{one}]"),
        _ => format!("&[\n            {},\n        ]", items.join(",\n            ")),
    }
}

/// Conditions at kinks with the partial derivatives there.
fn kinks(row: &Row) -> String {
    let items: Vec<String> = row
        .at
        .iter()
        .map(|(cond, partials)| {
            format!("({}, {})", literal(&cond.to_string()), pairs(partials.iter().map(|(a, e)| (a, e))))
        })
        .collect();
    format!("&[{}]", items.join(", "))
}

/// The row's `RowText` as Rust.
pub fn row_text(emitted: &Emitted) -> String {
    let row = &emitted.row;
    let (kind, body) = match &row.meaning {
        Meaning::Expr(b) => ("Expr", b.to_string()),
        Meaning::View(b) => ("View", b.to_string()),
        Meaning::Decomp(b) => ("Decomp", b.to_string()),
        Meaning::Host(n) => ("Host", n.to_string()),
    };
    let optional =
        |e: &Option<fulgurite_core::lang::ast::Expr>| e.as_ref().map(ToString::to_string).unwrap_or_default();
    let ties = if row.ties == Ties::Even { "" } else { row.ties.word() };
    format!(
        "RowText {{
        op: {op},
        doc: {doc},
        sig: {sig},
        promote: {promote},
        dtypes: {dtypes},
        kind: MeaningKind::{kind},
        body: {body},
        require: {require},
        vjp: {vjp},
        jvp: {jvp},
        ties: \"{ties}\",
        at: {at},
        no_grad: {no_grad},
        deviates: {deviates},
        once: {once},
        autocast: {autocast:?},
        subclass: {subclass},
        kernels: {kernels},
        file: {file},
        line: {line},
    }}",
        op = literal(row.op.as_str()),
        doc = literal(&emitted.doc),
        sig = literal(&row.sig.to_string()),
        promote = literal(&optional(&row.promote)),
        dtypes = literal(&optional(&row.dtypes)),
        body = literal(&body),
        require = pairs(row.require.iter().map(|r| (&r.cond, &r.message))),
        vjp = pairs(row.vjp.iter().map(|(a, b)| (a, b))),
        jvp = pairs(row.jvp.iter().map(|(a, b)| (a, b))),
        at = kinks(row),
        no_grad = literal(row.no_grad.as_deref().unwrap_or("")),
        deviates = literal(row.deviates.as_deref().unwrap_or("")),
        once = literal(row.once.as_deref().unwrap_or("")),
        autocast = row.autocast.map_or("", |class| class.word()),
        subclass = pairs(emitted.subclass.iter().map(|(class, rule)| (class, rule))),
        kernels = pairs(emitted.kernels.iter().map(|(executor, kernel)| (executor, kernel))),
        file = literal(&emitted.file),
        line = emitted.line,
    )
}

/// The symbol's static.
pub fn unit(krate: &str, row: &Emitted) -> String {
    let mut text = names::stamp(&row.file, row.line, row.row.op.as_str());
    let _ = writeln!(
        text,
        "pub(crate) static {}: Symbol = Symbol::new(\n    {krate:?},\n    {},\n);\n",
        names::constant(row.row.op),
        row_text(row)
    );
    text
}

/// A module with its items and the modules below it.
fn module(path: &[String], exports: &[&Export]) -> String {
    let depth = path.len();
    let indent = "    ".repeat(depth);
    let outer = "    ".repeat(depth - 1);
    let mut text = format!("{outer}pub mod {} {{\n", names::ident(&path[depth - 1]));
    for export in exports.iter().filter(|e| e.module == path) {
        let _ = writeln!(text, "{indent}pub use {}rows::{};", "super::".repeat(depth), export.text());
    }
    let mut below: Vec<&String> = Vec::new();
    for export in exports.iter().filter(|e| e.module.len() > depth && e.module[..depth] == *path) {
        if !below.contains(&&export.module[depth]) {
            below.push(&export.module[depth]);
        }
    }
    for name in below {
        let _ = writeln!(text, "{indent}/// `{}.{name}`", path.join("."));
        text += &module(&[path, std::slice::from_ref(name)].concat(), exports);
    }
    text += &format!("{outer}}}\n{}", if depth == 1 { "\n" } else { "" });
    text
}

/// The text before the module of all functions.
const OPERATORS: &str = "\
/// Every operator as a function.
///
/// `softmax(&x, -1)` takes the arguments and the options that have no default; where a row has other options,
/// `sum_with(&x, Sum { keepdim: true, ..Default::default() })` takes them as a struct. The documentation of a function
/// shows the signature of its row, what the row refuses, and a point: a call with its result.
";

/// The text before the trait of all methods.
const METHODS: &str = "\
/// Operators as methods of tensors: `x.softmax(-1)` is `ops::softmax(&x, -1)`.
///
/// A method that ends with `_` writes its result to the tensor.
#[allow(clippy::too_many_arguments)]
";

/// The text before the module of a library's calls.
const ALIASES: &str = "\
///
/// Each is a row for calls that no list of arguments turns into a call of a row in [`ops`].
";

/// A call of another library: its row, the library, the name or form, and the full name.
type ForeignCall = (Name, &'static str, String, Name);

/// Other libraries' calls, of upstream rows and then of the rows of this database, which is the order in which they are
/// tried. A row that has the name of such a call is called by it where no earlier row is.
fn foreign_calls(calls: &[Calls], rows: &[Emitted]) -> Vec<ForeignCall> {
    let upstream = calls.iter().flat_map(|calls| {
        let op = Name::new(calls.op.as_str());
        let call = move |(library, alias): &(&'static str, Rule<Alias>)| {
            (op, *library, alias.text.text.clone(), alias.tree.full(library))
        };
        calls.aliases.iter().map(call)
    });
    let mut all: Vec<ForeignCall> = upstream.collect();
    let mut known: HashSet<Name> = all.iter().map(|(.., name)| *name).collect();
    for row in rows {
        let op = row.row.op;
        // the schema has parsed the form
        let listed = row.aliases.iter().map(|(library, form)| {
            (op, *library, form.clone(), parse_alias(form).map_or(op, |alias| alias.full(library)))
        });
        let first = all.len();
        all.extend(listed);
        known.extend(all[first..].iter().map(|(.., name)| *name));
        if row.derived_from.is_none()
            && is_alias(op.as_str())
            && let Some((library, name)) = op.as_str().split_once('.')
            && known.insert(op)
        {
            all.push((op, library, name.to_owned(), op));
        }
    }
    all
}

/// The static `CALLS`.
fn calls_text(runtime: &str, calls: &[ForeignCall]) -> String {
    let ty = format!("{runtime}::symbol::ForeignCall");
    if calls.is_empty() {
        return format!("static CALLS: [{ty}; 0] = [];\n\n");
    }
    let mut text = format!("static CALLS: [{ty}; {}] = {{\n    use {ty};\n    [\n", calls.len());
    for (op, library, form, _) in calls {
        let (op, form) = (op.as_str(), literal(form));
        let _ = writeln!(text, "        ForeignCall {{ op: {op:?}, library: {library:?}, form: {form} }},");
    }
    text + "    ]\n};\n\n"
}

/// The file that includes every unit: modules, re-exports, the extension trait, the database.
pub fn index(
    target: &Target,
    rows: &[Emitted],
    calls: &[Calls],
    symbols: &[String],
    exports: &[Vec<Export>],
    methods: &[(String, String)],
    classes: &[String],
) -> Unit {
    let mut text = String::from("// Made by the generator; do not edit.\n\n");
    text +=
        "mod rows {\n    #![allow(clippy::too_many_arguments, clippy::needless_raw_string_hashes, unused_imports)]\n";
    let (krate, runtime, kernels) = (&target.krate, target.runtime, target.tables);
    let _ = write!(text, "    use {runtime}::prelude::*;\n\n");
    for row in rows {
        let _ = writeln!(text, "    include!(\"rows/{}.rs\");", names::stem(row.row.op));
    }
    text += "}\n\n";
    let exports: Vec<&Export> = exports.iter().flatten().collect();
    text += OPERATORS;
    text += &module(&["ops".into()], &exports);
    for library in LIBRARIES {
        if exports.iter().any(|e| e.module[0] == library) {
            let owner = owner(&format!("{library}."));
            let _ = write!(text, "/// Calls of {owner} ({library}) in its own signatures.\n{ALIASES}");
            text += &module(&[library.into()], &exports);
        }
    }
    text += METHODS;
    let _ = writeln!(text, "pub trait {} {{", target.methods);
    for (declaration, _) in methods {
        text += declaration;
    }
    let _ = write!(text, "}}\n\nimpl {} for {runtime}::prelude::Tensor {{\n", target.methods);
    for (_, definition) in methods {
        text += definition;
    }
    text += "}\n\n";
    let _ = writeln!(text, "static SYMBOLS: [&{runtime}::symbol::Symbol; {}] = [", symbols.len());
    for s in symbols {
        let _ = writeln!(text, "    &rows::{s},");
    }
    text += "];\n\n";
    if !classes.is_empty() {
        text += "/// The tensor subclasses of this crate.\npub mod classes {\n    include!(\"classes.rs\");\n}\n\n";
    }
    let _ = writeln!(text, "static CLASSES: [{runtime}::symbol::SubclassRef; {}] = [", classes.len());
    for class in classes {
        let _ = writeln!(text, "    &classes::{class},");
    }
    text += "];\n\n";
    text += &calls_text(runtime, &foreign_calls(calls, rows));
    let _ = writeln!(
        text,
        "/// The rows of this crate.\n#[doc(hidden)]\npub static DATABASE: {runtime}::symbol::Database =\n    {runtime}::symbol::Database {{ krate: {krate:?}, symbols: &SYMBOLS, kernels: {kernels}, classes: &CLASSES, calls: &CALLS }};\n"
    );
    Unit { path: "database.rs".into(), text }
}
