//! Declared gradients of every row of `ops.yaml` for which one can be written down. The derived rule passes as it is,
//! and is refused with a fault in it.

mod common;

use std::fmt::Write;

use fulgurite_codegen::check::gradients::arrays::declared::Way;
use fulgurite_codegen::check::gradients::{Grade, Graded};
use fulgurite_codegen::check::rows::RowSet;
use fulgurite_codegen::diag::Diagnostics;
use fulgurite_codegen::diag::{Diag, Level};
use fulgurite_codegen::schema::{RowSource, read_database};
use fulgurite_codegen::source::Sources;
use fulgurite_core::Name;
use fulgurite_core::derive;
use fulgurite_core::lang::{Access, Expr, Node};
use fulgurite_core::lower::NoRows;
use fulgurite_core::row::Row;
use std::sync::Arc;

/// A rule without the `unbroadcast` around it.
struct Written {
    op: &'static str,
    arg: Name,
    inner: String,
    broadcasts: bool,
}

fn database() -> (String, Vec<RowSource>) {
    let text = common::joined();
    let mut sources = Sources::default();
    let file = sources.add("ops.yaml", text.as_str());
    (text, read_database(file, &sources, &mut Diagnostics::new()).rows)
}

/// Derived rules that consist of one value, and the rows that they call, as text. Rows of several results are left
/// out, because their cotangents have names of their own and may be absent.
fn derived(rows: &[RowSource]) -> (Vec<Written>, String) {
    let lowered: Vec<Arc<Row>> = rows.iter().map(|row| Arc::new(row.lower_to_row())).collect();
    let set = RowSet::new(&NoRows, lowered.iter().cloned(), &[]);
    let (mut rules, mut made) = (Vec::new(), String::new());
    let plain = |row: &&Arc<Row>| row.vjp.is_empty() && row.no_grad.is_none() && row.sig.outs.len() == 1;
    for row in lowered.iter().filter(plain) {
        let derived = derive::derive(row, &set);
        // a derived row may take no more than the type of an argument, a row of the file may not
        let typed = |row: &Row| row.sig.params.iter().any(|param| param.access == Access::Like);
        if derived.rows.iter().any(typed) || !derived.rows.iter().all(Row::is_pointwise) {
            continue;
        }
        for row in &derived.rows {
            let name = row.op.as_str().to_ascii_lowercase().replace('.', "_");
            let body = row.index_body().expect("a pointwise row").to_string().replace('\n', "\n    ");
            let sig = &row.sig;
            writeln!(made, "\n- op: {name}\n  doc: Derived\n  sig: '{sig}'\n  promote: default\n  dtypes: float")
                .unwrap();
            writeln!(made, "  expr: |\n    {body}").unwrap();
        }
        for (arg, rule) in derived.rules.iter().filter(|(_, rule)| rule.stmts.is_empty()) {
            let (inner, broadcasts) = inner(&rule.value);
            let inner = derived.rows.iter().fold(inner.to_string(), |text, row| {
                text.replace(row.op.as_str(), &row.op.as_str().to_ascii_lowercase().replace('.', "_"))
            });
            let several = row.sig.params.iter().filter(|param| param.ty.dims.is_none()).count() > 1;
            rules.push(Written { op: row.op.as_str(), arg: *arg, inner, broadcasts: broadcasts && several });
        }
    }
    (rules, made)
}

fn inner(e: &Expr) -> (&Expr, bool) {
    match &*e.node {
        Node::Call(f, args) if f.name == "unbroadcast" => (&args[0].value, true),
        _ => (e, false),
    }
}

/// The database with a `grad` for each of these rules.
fn declare(text: &str, made: &str, rules: &[&Written], form: &dyn Fn(&Written) -> String) -> String {
    let mut out = text.to_owned();
    for op in rules.iter().map(|rule| rule.op).collect::<std::collections::BTreeSet<_>>() {
        let head = format!("- op: {op}\n");
        let at = out.find(&head).expect("the row") + head.len();
        let own = rules.iter().filter(|rule| rule.op == op);
        let grads: Vec<String> = own.map(|rule| format!("{}: '{}'", rule.arg, form(rule))).collect();
        out.insert_str(at, &format!("  grad: {{{}}}\n", grads.join(", ")));
    }
    out + made
}

#[test]
fn derived_rules_may_be_declared() {
    let (text, rows) = database();
    let (rules, made) = derived(&rows);
    assert!(rules.len() > 60, "{} rules", rules.len());
    let all: Vec<&Written> = rules.iter().collect();
    let right = declare(&text, &made, &all, &|rule| format!("unbroadcast({}, {})", rule.inner, rule.arg));
    let (graded, diags, sources) = common::graded("ops.yaml", &right);
    // as rows of their own the derived ones are run on results that no argument has, where lost digits are no fault;
    // they also lack the conditions of their rows, so that some branches are never taken
    let odd = |diag: &&Diag| matches!(diag.code, "E304" | "E009") && diag.message.contains("_vjp_");
    let errors = diags.sorted().into_iter().filter(|diag| diag.level == Level::Error && !odd(diag)).count();
    assert!(errors == 0, "{}", common::report(&diags, &sources));
    assert_eq!(only_checked(&graded, &all), UNPROVED);
}

/// Rules of [`derived_rules_may_be_declared`] that no normal form proves. Remove a rule that becomes proved, and add
/// none. `clamp` is an exception: its two bounds, each a number, a tensor or NaN, give more regions than normal forms
/// handle.
const UNPROVED: [&str; 1] = ["clamp x"];

/// The rules among these that only instances decide.
fn only_checked(graded: &[Graded], rules: &[&Written]) -> Vec<String> {
    let proved =
        |rule: &Written| graded.iter().any(|g| g.op == rule.op && g.arg == rule.arg && g.grade == Grade::Proved);
    rules.iter().filter(|rule| !proved(rule)).map(|rule| format!("{} {}", rule.op, rule.arg)).collect()
}

const GELU: &str = "g * match approximate { \
    none => 0.5 * (1 + erf(x * FRAC_1_SQRT_2)) + 0.3989422804014327 * x * exp(-0.5 * x * x), \
    tanh => 0.5 * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))) \
        + 0.5 * x * (1 - square(tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))) \
        * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x) }";

/// Rules as people write them. All are proved.
const SPELLINGS: &[(&str, &str, &str)] = &[
    ("div", "x", "g / y"),
    ("div", "y", "-g * x / (y * y)"),
    ("exp", "x", "g * out"),
    ("ln", "x", "g / x"),
    ("log2", "x", "g / (ln(2) * x)"),
    ("sqrt", "x", "g * 0.5 * rsqrt(x)"),
    ("rsqrt", "x", "-0.5 * g * out * out * out"),
    ("reciprocal", "x", "-g * out * out"),
    ("sin", "x", "g * cos(x)"),
    ("tan", "x", "g * (1 + out * out)"),
    ("tanh", "x", "g * (1 - out * out)"),
    ("sigmoid", "x", "g * out * (1 - out)"),
    ("silu", "x", "g * (sigmoid(x) + out * (1 - sigmoid(x)))"),
    ("softplus", "x", "where(x * beta > threshold, g, g * sigmoid(x * beta))"),
    ("gelu", "x", GELU),
    ("leaky_relu", "x", "where(x > 0, g, g * slope)"),
    ("erf", "x", "1.1283791670955126 * g * exp(-x * x)"),
    ("hypot", "x", "g * x / out"),
    ("abs", "x", "g * sign(x)"),
    ("where", "x", "where(cond, g, 0)"),
];

#[test]
fn usual_spellings_are_proved() {
    let (text, _) = database();
    let written = |(op, arg, rule): &(&'static str, &str, &str)| Written {
        op,
        arg: Name::new(arg),
        inner: (*rule).to_owned(),
        broadcasts: true,
    };
    let rules: Vec<Written> = SPELLINGS.iter().map(written).collect();
    let all: Vec<&Written> = rules.iter().collect();
    let right = declare(&text, "", &all, &|rule| format!("unbroadcast({}, {})", rule.inner, rule.arg));
    let (graded, diags, sources) = common::graded("ops.yaml", &right);
    assert!(diags.is_empty(), "{}", common::report(&diags, &sources));
    assert_eq!(only_checked(&graded, &all), [""; 0]);
}

/// Declared gradients of the database that only instances decide. None is of a scalar row, except rules that deviate
/// from the derivative on purpose. None may be added. Tangents have no normal form, so instances decide all of them.
#[test]
fn scalar_rules_of_the_database_are_proved() {
    let (text, rows) = database();
    let (graded, ..) = common::graded("ops.yaml", &text);
    let exact = |row: &RowSource| row.deviates.is_none() && row.lower_to_row().is_pointwise();
    let scalar = |g: &&Graded| rows.iter().any(|row| g.op == row.op.as_str() && exact(row));
    let checked = graded.iter().filter(scalar).filter(|g| g.way == Way::Vjp && g.grade != Grade::Proved);
    let checked: Vec<String> = checked.map(|g| format!("{} {}", g.op, g.arg)).collect();
    assert_eq!(checked, [""; 0]);
}

#[test]
fn faults_in_declared_rules_are_found() {
    type Fault = (&'static str, &'static [&'static str], fn(&Written) -> String);
    let faults: [Fault; 5] = [
        ("sign", &["E401"], |rule| format!("unbroadcast(-({}), {})", rule.inner, rule.arg)),
        ("factor", &["E401"], |rule| format!("unbroadcast(1.01 * ({}), {})", rule.inner, rule.arg)),
        ("offset", &["E404"], |rule| format!("unbroadcast({} + 0.001, {})", rule.inner, rule.arg)),
        // a cast has one dtype before it and another one after it
        ("square", &["E404", "E403"], |rule| format!("unbroadcast(({0}) * g, {1})", rule.inner, rule.arg)),
        ("broadcast", &["E402"], |rule| rule.inner.clone()),
    ];
    let (text, rows) = database();
    let (rules, made) = derived(&rows);
    for (name, codes, form) in faults {
        let all: Vec<&Written> = rules.iter().filter(|rule| name != "broadcast" || rule.broadcasts).collect();
        let (diags, _) = common::check("ops.yaml", &declare(&text, &made, &all, &form));
        let said = diags.sorted();
        let missed = all.iter().filter(|rule| {
            let claim = format!("`grad` in `{}` of `{}` ", rule.arg, rule.op);
            !said.iter().any(|diag| codes.contains(&diag.code) && diag.message.starts_with(&claim))
        });
        let missed: Vec<String> = missed.map(|rule| format!("{} {}: {}", rule.op, rule.arg, form(rule))).collect();
        assert!(missed.is_empty(), "{name}: {} of {} missed\n{}", missed.len(), all.len(), missed.join("\n"));
    }
}
