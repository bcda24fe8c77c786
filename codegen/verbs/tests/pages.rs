//! The pages of docs/errors: each has a trigger that gives its code, and shows the message of the trigger.

#[path = "../../tests/common/mod.rs"]
mod common;

use std::fs;
use std::path::{Path, PathBuf};

use fulgurite_ops_verbs::explain::pages::PAGES;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors")
}

/// Start and end of the text between ```` ```lang ```` and the closing fence.
fn block(page: &str, lang: &str) -> Option<(usize, usize)> {
    let open = format!("```{lang}\n");
    let start = page.find(&open)? + open.len();
    let end = start + page[start..].find("```")?;
    Some((start, end))
}

/// `UPDATE_EXPECT=1` writes the messages anew.
#[test]
fn triggers_give_their_codes() {
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut wrong = Vec::new();
    for page in PAGES {
        // pages of codes that no row triggers (files, tracing, running) have none
        let Some((start, end)) = block(page.text, "yaml") else { continue };
        let (diags, sources) = common::check("ops.yaml", &page.text[start..end]);
        let codes: Vec<&str> = diags.sorted().iter().map(|diag| diag.code).collect();
        if codes != [page.code] {
            wrong.push(format!("{}: {}", page.code, common::report(&diags, &sources)));
            continue;
        }
        let found = common::report(&diags, &sources);
        let found = found.trim_end().trim_end_matches("1 error").trim_end();
        let (start, end) = block(page.text, "text").unwrap_or_else(|| panic!("{} shows no message", page.code));
        if page.text[start..end].trim_end() == found {
            continue;
        }
        if update {
            let text = format!("{}{found}\n{}", &page.text[..start], &page.text[end..]);
            fs::write(folder().join(format!("{}.md", page.code)), text).expect("the page is written");
        } else {
            wrong.push(format!("{} (UPDATE_EXPECT=1 accepts):\n{found}", page.code));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The page of a code that `check` gives has a trigger, then advice, then the mended trigger, with which it ends.
#[test]
fn mended_examples_are_right() {
    let mut wrong = Vec::new();
    for page in PAGES {
        let mended: Vec<&str> = page.text.split("```yaml\n").skip(2).collect();
        let advice = page.text.rsplit("```yaml\n").nth(1).and_then(|text| text.rsplit("```").next());
        let ends = mended.last().is_some_and(|text| text.split_once("```").is_some_and(|(_, rest)| rest == "\n"));
        if page.code < "E700" && !(ends && advice.is_some_and(|text| !text.trim().is_empty())) {
            wrong.push(format!("{}: the page does not end with what to do and the trigger mended", page.code));
        }
        for mended in mended {
            let (diags, sources) = common::check("ops.yaml", mended.split("```").next().unwrap_or_default());
            if !diags.is_empty() {
                wrong.push(format!("{}: {}", page.code, common::report(&diags, &sources)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn every_page_is_listed_by_code() {
    let mut files: Vec<String> = fs::read_dir(folder())
        .expect("the folder of pages")
        .map(|entry| entry.expect("a page").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .filter(|stem| stem.starts_with('E'))
        .collect();
    files.sort();
    let listed: Vec<&str> = PAGES.iter().map(|page| page.code).collect();
    assert_eq!(listed, files, "src/explain/pages.rs lists other pages than docs/errors has");
    for page in PAGES {
        assert!(page.text.starts_with(&format!("# {}: ", page.code)), "{} has no title", page.code);
    }
}

/// Every code that a program, the generator or a command can give has a page, and every page is about such a code.
#[test]
fn codes_and_pages_agree() {
    let mut codes = Vec::new();
    for crate_ in
        ["core", "codegen", "codegen/verbs", "runtime", "parallel", "cli", "macros", "generated", "compat/models"]
    {
        gather(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(crate_).join("src"), &mut codes);
    }
    codes.sort();
    codes.dedup();
    let pages: Vec<&str> = PAGES.iter().map(|page| page.code).filter(|code| *code != EXIT).collect();
    assert_eq!(codes.iter().filter(|code| *code != EXIT).collect::<Vec<_>>(), pages);
}

/// The code with which a panic ends. The panic handler prints it.
const EXIT: &str = "E999";

/// Adds the codes in string literals outside of tests, where they stand for faults. The list of pages is left out.
fn gather(folder: &Path, codes: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            gather(&entry, codes);
            continue;
        }
        let name = entry.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.ends_with(".rs") || name.contains("tests") || name == "pages.rs" {
            continue;
        }
        let text = fs::read_to_string(&entry).expect("a text");
        let text = text.split("mod tests {").next().unwrap_or_default();
        let code = |piece: &&str| {
            let digits = piece.strip_prefix('E').filter(|rest| rest.len() == 3);
            digits.is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
        };
        codes.extend(text.split('"').filter(code).map(str::to_owned));
    }
}
