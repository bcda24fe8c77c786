//! Generated code for ten rows of different kinds, as it stands in `generated/golden`. The folder shows what the
//! generator makes, and the diff of a commit shows what it made before.
//!
//! Rows are emitted as if they stood on line 1, so that rows above them change nothing here.

use std::fs;
use std::path::{Path, PathBuf};

use fulgurite_codegen::emit::Emitted;
use fulgurite_codegen::pipeline::{self, Compiled, Table};
use fulgurite_core::Name;
use fulgurite_ops_verbs::explain::code;

/// Pointwise with an option, comparison, choice, power; reduction; index; view; contraction; composite with a declared
/// gradient; random; optimiser step.
const ROWS: [&str; 10] =
    ["gelu", "clamp", "pow", "amax", "gather", "transpose", "matmul_nt", "softmax", "dropout", "adamw_step"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../generated/golden")
}

fn compiled() -> Compiled {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ops.yaml");
    let text = fs::read_to_string(path).expect("the database");
    let compiled = pipeline::compile(&text, "ops.yaml", &Table::default());
    let mut compiled = compiled.unwrap_or_else(|_| panic!("the database is broken"));
    compiled.add_examples(|row| ROWS.contains(&row.row.op.as_str()));
    compiled
}

/// The row, and the rows derived from it.
fn rows(compiled: &Compiled, op: &str) -> Vec<Emitted> {
    let op = Name::new(op);
    let wanted = compiled.rows.iter().filter(|row| row.row.op == op || row.derived_from == Some(op));
    wanted.map(|row| Emitted { line: 1, ..row.clone() }).collect()
}

/// The file of a row; each unit under its path.
fn file(compiled: &Compiled, table: &Table, op: &str) -> (String, String) {
    let mut units = code::units(&rows(compiled, op), table);
    assert!(!units.is_empty(), "there is no row `{op}`");
    // code that users see comes first, and each row comes before those derived from it
    units.sort_by_key(|unit| (!unit.path.starts_with("rows/"), unit.path.clone()));
    let texts = units.iter().map(|unit| format!("// ---- {}\n{}\n", unit.path, unit.text.trim_end()));
    (format!("{op}.rs"), texts.collect::<Vec<_>>().join("\n"))
}

/// `generated/golden` holds exactly these files; `UPDATE_EXPECT=1` rewrites it.
#[test]
fn golden_code_is_what_is_generated() {
    let compiled = compiled();
    let table = compiled.table();
    let files: Vec<(String, String)> = ROWS.iter().map(|op| file(&compiled, &table, op)).collect();
    let mut wrong = Vec::new();
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    for (name, text) in &files {
        let path = folder().join(name);
        if fs::read_to_string(&path).is_ok_and(|golden| golden == *text) {
            continue;
        }
        if update {
            fs::create_dir_all(folder()).expect("the folder");
            fs::write(path, text).expect("a golden file is written");
        } else {
            wrong.push(name.clone());
        }
    }
    for entry in fs::read_dir(folder()).expect("the folder") {
        let name = entry.expect("a file").file_name().to_string_lossy().into_owned();
        let known = name == "README.md" || files.iter().any(|(file, _)| *file == name);
        match (known, update) {
            (true, _) => {}
            (false, true) => fs::remove_file(folder().join(name)).expect("an old file is removed"),
            (false, false) => wrong.push(format!("{name} (nothing makes it)")),
        }
    }
    assert!(
        wrong.is_empty(),
        "generated/golden differs: {}\naccept with: UPDATE_EXPECT=1 cargo test -p fulgurite-ops-verbs --test golden",
        wrong.join(", ")
    );
}

/// Lines of code have at most 140 bytes, because a reader should not have to scroll. Texts of rows stand as they are.
#[test]
fn generated_lines_are_short() {
    let compiled = compiled();
    let table = compiled.table();
    let mut long = Vec::new();
    for (name, text) in ROWS.iter().map(|op| file(&compiled, &table, op)) {
        let code = text.lines().filter(|line| line.len() > 140 && !line.contains('"') && !line.contains("//"));
        long.extend(code.map(|line| format!("{name}: {}", line.trim())));
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}
