//! Texts of the rule languages: signatures, blocks of both dialects, rules of classes, calls of other libraries.

use super::files;
use crate::draws::Draws;
use crate::grammar::{rows, text};
use crate::target::{FuzzTarget, InputAnswer, Outcome, READER};
use fulgurite_core::lang::{self, Dialect, SyntaxError};
use std::fmt::{Debug, Display};

/// The target.
pub const TARGET: FuzzTarget = FuzzTarget {
    name: "rules",
    about: "texts of the rule languages: what is read prints back as an equal tree",
    seeds,
    mutate,
    run,
    limits: READER,
};

/// The words that this language alone has.
const OWN: &[&str] = &["argmax", "any", "enum", "Perm", "Index", "Key", "acc", "real", "empty", "all", "infer", "some"];

/// The words that a mutation puts in.
const WORDS: &[&[&str]] = &[OWN, text::MARKS, text::VALUES, text::LANGUAGE];

/// The values of the keys of all rows that are rules.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for row in rows::rows(&files::text("ops.yaml")) {
        for line in row.lines() {
            let Some((key, value)) = line.trim_start().split_once(':') else { continue };
            let value = value.trim().trim_matches('\'');
            let rule =
                matches!(key, "sig" | "expr" | "decomp" | "view" | "x" | "torch" | "aten" | "require" | "promote");
            if rule && value.len() > 3 && !value.starts_with(['{', '|']) {
                seeds.push(value.as_bytes().to_vec());
            }
        }
        // rules of several lines
        if let Some((_, block)) = row.split_once(": |\n") {
            let lines = block.lines().take_while(|line| line.starts_with("    "));
            seeds.push(lines.map(str::trim).collect::<Vec<_>>().join("\n").into_bytes());
        }
    }
    seeds
}

fn mutate(draws: &mut Draws, a: &[u8], b: &[u8]) -> Vec<u8> {
    text::mutate(draws, a, b, WORDS)
}

/// What is read prints as a text that is read as an equal tree, and prints as itself.
fn read<T: PartialEq + Debug + Display>(
    what: &str,
    text: &str,
    parse: impl Fn(&str) -> Result<T, SyntaxError>,
) -> Result<Option<SyntaxError>, String> {
    let tree = match parse(text) {
        Ok(tree) => tree,
        Err(e) => {
            let (start, end) = (e.span.start as usize, e.span.end as usize);
            return match text.get(start..end) {
                Some(_) => Ok(Some(e)),
                None => Err(format!("{what}: the error points outside of the text")),
            };
        }
    };
    let printed = tree.to_string();
    let again = parse(&printed).map_err(|e| format!("{what}: the printed text is refused: `{printed}`: {e}"))?;
    if again != tree {
        return Err(format!("{what}: the printed text is another tree: `{printed}`"));
    }
    if again.to_string() != printed {
        return Err(format!("{what}: the printed text prints as another one: `{printed}`"));
    }
    Ok(None)
}

fn run(input: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(input);
    let answers = [
        read("signature", &text, lang::parse_sig)?,
        read("index", &text, |text| lang::parse_block(text, Dialect::Index))?,
        read("tensor", &text, |text| lang::parse_block(text, Dialect::Tensor))?,
        read("class", &text, lang::parse_rule)?,
        read("expression", &text, |text| lang::parse_expr(text, Dialect::Tensor))?,
        lang::parse_alias(&text).err(),
    ];
    let accepted = answers.iter().any(Option::is_none);
    let said = answers
        .iter()
        .enumerate()
        .map(|(n, e)| format!("{n} {}", e.as_ref().map(ToString::to_string).unwrap_or_default()));
    Ok(InputAnswer { accepted, ..InputAnswer::refused(said) })
}
