//! YAML rows through every check, and on to emission and evaluation.

use super::files;
use crate::draws::Draws;
use crate::grammar::{rows, text};
use crate::target::{FuzzTarget, InputAnswer, InputLimits, Outcome, READER, no_bug};
use fulgurite_codegen::diag::Diagnostics;
use fulgurite_codegen::diag::render::{self, Style};
use fulgurite_codegen::emit::{Artifacts, Target as EmitTarget};
use fulgurite_codegen::pipeline::{self, Table};
use fulgurite_codegen::source::Sources;
use std::sync::OnceLock;
use std::time::Duration;

/// The target.
pub const TARGET: FuzzTarget = FuzzTarget {
    name: "rows",
    about: "YAML rows are checked; what is accepted is emitted and evaluated",
    seeds,
    mutate,
    run,
    limits: InputLimits { time: Duration::from_secs(10), memory: 256 << 20, ..READER },
};

/// The words that this language alone has.
const OWN: &[&str] = &[
    "w", "M", "U", "k", "default", "expr", "decomp", "grad", "promote", "tests", "out", "points", "error", "log",
    "sqrt", "tanh", "where", "add", "mul", "expand", "floor",
];

/// The words that a mutation puts in.
pub(super) const WORDS: &[&[&str]] = &[OWN, text::MARKS, text::VALUES, text::LANGUAGE];

/// Rows that others may call.
const HELPERS: &[&str] = &[
    "add",
    "sub",
    "mul",
    "div",
    "neg",
    "exp",
    "log",
    "sqrt",
    "square",
    "tanh",
    "abs",
    "sum",
    "amax",
    "full",
    "cast",
    "reshape",
    "expand",
    "where",
    "gt",
    "eq",
    "zeros",
    "unsqueeze",
    "squeeze",
    "transpose",
    "slice",
    "matmul",
    "mean",
    "sign",
    "maximum",
    "select",
    "permute",
    "detach",
];

fn database() -> &'static Vec<String> {
    static ROWS: OnceLock<Vec<String>> = OnceLock::new();
    ROWS.get_or_init(|| rows::rows(&files::text("ops.yaml")))
}

fn is_helper(row: &str) -> bool {
    let name = row.lines().next().and_then(|line| line.strip_prefix("- op: ")).unwrap_or_default();
    HELPERS.iter().any(|helper| name == *helper || name.strip_prefix(helper).is_some_and(|rest| rest.starts_with('.')))
}

/// The helpers as rows of another database, which is read once.
fn helpers() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let text: Vec<&str> = database().iter().filter(|row| is_helper(row)).map(String::as_str).collect();
        pipeline::read_rows(&format!("ops:\n{}", text.join("\n")), "helpers.yaml").unwrap_or_default()
    })
}

/// The rows that are no helpers, the short ones: checking a long row takes long.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let rows = database().iter().filter(|row| !is_helper(row) && row.len() < 700);
    rows.map(|row| row.as_bytes().to_vec()).collect()
}

fn mutate(draws: &mut Draws, a: &[u8], b: &[u8]) -> Vec<u8> {
    rows::mutate(draws, a, b, WORDS)
}

/// Every place that a message names is in its file, and the report can be written.
fn reported(diags: &Diagnostics, sources: &Sources) -> Result<(), String> {
    for diag in diags.sorted() {
        for label in std::iter::once(&diag.primary).chain(&diag.secondary) {
            if sources.file(label.place.file).text.get(label.place.range()).is_none() {
                return Err(format!("{} points outside of the text", diag.code));
            }
        }
    }
    no_bug(&render::text(diags, sources, Style::default()))
}

fn run(input: &[u8]) -> Outcome {
    let text = format!("ops:\n{}", String::from_utf8_lossy(input));
    let signs = |diags: &Diagnostics| {
        diags.sorted().iter().map(|diag| format!("{} {}", diag.code, diag.message)).collect::<Vec<_>>()
    };
    match pipeline::compile(&text, "fuzz.yaml", helpers()) {
        Err(refused) => {
            reported(&refused.diagnostics, &refused.sources)?;
            Ok(InputAnswer::refused(signs(&refused.diagnostics)))
        }
        Ok(mut compiled) => {
            reported(&compiled.diagnostics, &compiled.sources)?;
            compiled.add_examples(|_| true);
            let target = EmitTarget { page: Some("page"), ..EmitTarget::upstream("fuzz") };
            let emit = || Artifacts::emit(&target, &compiled.rows, &compiled.parts(), &compiled.table()).inline();
            let made = emit();
            if made != emit() {
                return Err("equal rows are emitted as other texts".to_owned());
            }
            let rows = compiled.rows.len();
            let evaluated = compiled.rows.iter().filter(|row| row.example.is_some()).count();
            let said = signs(&compiled.diagnostics).into_iter().chain([format!("{rows} {evaluated}")]);
            Ok(InputAnswer::accepted(said))
        }
    }
}
