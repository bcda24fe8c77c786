//! The pages of docs/errors: each has a trigger that gives its code, and shows the message that it gives.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use fulgurite_codegen::explain::pages::PAGES;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/errors")
}

/// What stands between ```` ```lang ```` and the closing fence, and where.
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

/// What follows the trigger is the trigger mended.
#[test]
fn mended_examples_are_right() {
    let mut wrong = Vec::new();
    for page in PAGES {
        for mended in page.text.split("```yaml\n").skip(2) {
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

/// Every code that the checks can give has a page.
#[test]
fn every_code_has_a_page() {
    let mut codes = Vec::new();
    gather(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut codes);
    codes.sort();
    codes.dedup();
    let missing: Vec<&String> =
        codes.iter().filter(|code| !PAGES.iter().any(|page| page.code == code.as_str())).collect();
    assert!(missing.is_empty(), "no page in docs/errors for {missing:?}");
}

/// Codes in string literals of the generator, those of refusals at run time (E7) apart: they are other people's pages.
fn gather(folder: &Path, codes: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            gather(&entry, codes);
            continue;
        }
        let text = fs::read_to_string(&entry).expect("a text");
        for piece in text.split('"').skip(1).step_by(2) {
            let digits =
                piece.strip_prefix('E').filter(|rest| rest.len() == 3 && rest.bytes().all(|b| b.is_ascii_digit()));
            if digits.is_some_and(|digits| !digits.starts_with('7')) {
                codes.push(piece.to_owned());
            }
        }
    }
}
