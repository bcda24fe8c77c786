//! Pages: links lead somewhere, and lists agree with the program.

use super::{files_with, none, read, root, shown};
use fulgurite_codegen::schema::KEYS;
use fulgurite_core::promote::Kind;
use std::path::Path;

#[test]
fn links_lead_somewhere() {
    let mut faults = Vec::new();
    for page in files_with("md", &root()) {
        let text = read(&page);
        let here = page.parent().unwrap_or(Path::new("."));
        for target in links(&text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { page.clone() } else { here.join(file) };
            if !path.exists() {
                faults.push(format!("{}: no file {file}", shown(&page)));
            } else if !anchor.is_empty() && !headings(&read(&path)).iter().any(|h| h == anchor) {
                faults.push(format!("{}: {file} has no heading #{anchor}", shown(&page)));
            }
        }
    }
    none(faults, "links lead somewhere");
}

/// The targets of `[text](target)` outside code.
fn links(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        // what stands between backquotes is no link
        for plain in line.split('`').step_by(2) {
            let mut rest = plain;
            while let Some(at) = rest.find("](") {
                rest = &rest[at + 2..];
                out.extend(rest.split([')', ' ']).next());
            }
        }
        // links whose text is code: [`a`](b)
        let mut rest = line;
        while let Some(at) = rest.find("`](") {
            rest = &rest[at + 3..];
            out.extend(rest.split([')', ' ']).next());
        }
    }
    out
}

/// Headings as the anchors that GitHub makes of them.
fn headings(text: &str) -> Vec<String> {
    text.lines()
        .filter(|l| l.starts_with('#'))
        .map(|l| {
            let words = l.trim_start_matches('#').trim().to_lowercase();
            words
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .collect::<String>()
                .replace(' ', "-")
        })
        .collect()
}

/// Crates downstream copy profiles from two pages: these are ours.
#[test]
fn the_pages_for_other_crates_have_our_profiles() {
    let profiles = |text: &str| -> Vec<(String, String)> {
        let sections = text.split("\n[").filter(|section| section.starts_with("profile."));
        let level = |section: &str| section.lines().find(|line| line.starts_with("opt-level")).map(str::to_owned);
        sections.filter_map(|s| Some((s.lines().next()?.to_owned(), level(s)?))).collect()
    };
    let ours = profiles(&read(&root().join("Cargo.toml")));
    for page in ["docs/downstream.md", "docs/guide/18-profiles.md"] {
        let copied = profiles(&read(&root().join(page)));
        assert!(!copied.is_empty(), "{page}");
        let others = copied.iter().filter(|profile| !ours.contains(profile));
        none(others.map(|(section, level)| format!("[{section} {level}")).collect(), &format!("{page} and Cargo.toml"));
    }
}

#[test]
fn the_language_page_has_every_key_and_kind() {
    let page = read(&root().join("docs/row-language.md"));
    let keys = KEYS.iter().map(|key| key.name);
    let missing = keys.chain(Kind::ALL.map(Kind::name)).filter(|word| !page.contains(&format!("`{word}`")));
    none(missing.map(str::to_owned).collect(), "docs/row-language.md does not mention");
}
