//! docs/checks.md: every code with which a row can be refused, and the wrong databases that show it.

use std::fs;
use std::path::{Path, PathBuf};

use fulgurite_ops_verbs::explain::pages::PAGES;

/// All codes of rows. A code has a page, or stands among those without one, with the reason.
const CATALOGUE: &str = "E001 E002 E003 E004 E005 E006 E007 E008 E009 E010 E011 E012 E101 E102 E103 E104 E105 E106 E107 \
    E108 E109 E110 E111 E112 E113 E114 E115 E201 E202 E203 E204 E205 E206 E207 E208 E209 E301 E302 E303 E304 E305 E401 E402 \
    E403 E404 E405 E406 E407 E408 E409 E410 E411 E412 E413 E501 E502 E503 E504 E505 E506 E507 E508 E601 E602 E603 E604 \
    E605 E606";

/// The line before the generated table, and the line after it.
const TABLE: (&str, &str) = ("<!-- made by codegen/verbs/tests/catalogue.rs -->\n", "<!-- end -->\n");

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/checks.md")
}

/// The wrong databases in which a code is given: their names, and their messages.
fn wrong() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/err");
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder of cases") {
        let path = entry.expect("a case").path();
        if path.extension().is_some_and(|extension| extension == "stderr") {
            let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
            all.push((name, fs::read_to_string(&path).expect("a case is text")));
        }
    }
    all.sort();
    all
}

/// `UPDATE_EXPECT=1` writes the table anew.
#[test]
fn every_check_has_a_wrong_database() {
    let wrong = wrong();
    let mut table = String::from("| code | refused | wrong databases |\n|---|---|---|\n");
    for page in PAGES.iter().filter(|page| page.code < "E700") {
        let given = format!("[{}]", page.code);
        let names = wrong.iter().filter(|(_, messages)| messages.contains(&given)).map(|(name, _)| name);
        let links: Vec<String> =
            names.map(|name| format!("[{name}](../codegen/verbs/tests/err/{name}.yaml)")).collect();
        assert!(!links.is_empty(), "no database in codegen/verbs/tests/err is refused with {}", page.code);
        table += &format!("| [{0}](errors/{0}.md) | {1} | {2} |\n", page.code, page.title(), links.join(", "));
    }
    let text = fs::read_to_string(file()).expect("docs/checks.md");
    let start = text.find(TABLE.0).expect("the table begins") + TABLE.0.len();
    let end = start + text[start..].find(TABLE.1).expect("the table ends");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(file(), format!("{}{table}{}", &text[..start], &text[end..])).expect("it is written");
    } else {
        assert!(text[start..end] == table, "docs/checks.md is not what UPDATE_EXPECT=1 writes");
    }
}

#[test]
fn entries_without_a_check_say_why() {
    let text = fs::read_to_string(file()).expect("docs/checks.md");
    for code in CATALOGUE.split_whitespace() {
        let has_page = PAGES.iter().any(|page| page.code == code);
        let excused = text.lines().any(|line| line.starts_with(&format!("| {code} |")));
        assert!(has_page != excused, "{code} has a page, or a reason why it has none: one of the two");
    }
}
