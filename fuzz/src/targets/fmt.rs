//! `cargo ops fmt`: the canonical form of a database.

use super::rows::{WORDS, seeds};
use crate::draws::Draws;
use crate::grammar::rows;
use crate::target::{FuzzTarget, InputAnswer, Outcome, READER, no_bug};
use fulgurite_codegen::diag::Diagnostics;
use fulgurite_codegen::diag::render::{self, Style};
use fulgurite_codegen::schema::read_database;
use fulgurite_codegen::source::Sources;
use fulgurite_ops_verbs::fmt;

/// The target.
pub const TARGET: FuzzTarget = FuzzTarget {
    name: "fmt",
    about: "`fmt` takes every database that can be read, keeps its rows, and changes nothing the second time",
    seeds,
    mutate,
    run,
    limits: READER,
};

/// Comments at places where they are difficult to keep.
fn mutate(draws: &mut Draws, a: &[u8], b: &[u8]) -> Vec<u8> {
    let made = rows::mutate(draws, a, b, WORDS);
    if !draws.one_in(3) {
        return made;
    }
    let made = String::from_utf8_lossy(&made).into_owned();
    let mut lines: Vec<String> = made.lines().map(str::to_owned).collect();
    for _ in 0..1 + draws.below(3) {
        let at = draws.below(lines.len() + 1);
        let remark = draws.pick(&["# a remark", "#", "  # é", "    # 'x'", "\t# tab"]).to_owned();
        match (lines.get_mut(at), draws.below(3)) {
            (Some(line), 0) => *line = format!("{line} {}", remark.trim_start()),
            (Some(line), 1) => *line = line.replacen("  ", "    ", 1),
            _ => lines.insert(at, remark),
        }
    }
    (lines.join("\n") + "\n").into_bytes()
}

fn run(input: &[u8]) -> Outcome {
    let text = format!("ops:\n{}", String::from_utf8_lossy(input));
    let path = "fuzz.yaml";
    let formatted = match fmt::format(path, &text) {
        Ok(formatted) => formatted.text,
        Err((sources, diags)) => {
            let said = render::text(&diags, &sources, Style::default());
            no_bug(&said)?;
            return Ok(InputAnswer::refused(
                diags.sorted().iter().map(|diag| format!("{} {}", diag.code, diag.message)),
            ));
        }
    };
    let again = match fmt::format(path, &formatted) {
        Ok(again) => again.text,
        Err((sources, diags)) => {
            let said = render::text(&diags, &sources, Style::default());
            return Err(format!("what `fmt` wrote is refused: {said}"));
        }
    };
    if again != formatted {
        let differs = formatted.lines().zip(again.lines()).find(|(a, b)| a != b);
        return Err(format!("`fmt` changes what it wrote: {differs:?}"));
    }
    let rows = |text: &str| {
        let mut sources = Sources::default();
        let file = sources.add(path, text);
        read_database(file, &sources, &mut Diagnostics::new()).rows
    };
    let (before, after) = (rows(&text), rows(&formatted));
    if before.len() != after.len() || !before.iter().zip(&after).all(|(a, b)| a.is_same(b)) {
        return Err("`fmt` changes the meaning of a row".to_owned());
    }
    let shapes = formatted.lines().map(|line| {
        let indent = line.len() - line.trim_start().len();
        (indent, line.trim_start().split(':').next().unwrap_or_default().len().min(12), line.contains('#'))
    });
    Ok(InputAnswer::accepted(shapes))
}
