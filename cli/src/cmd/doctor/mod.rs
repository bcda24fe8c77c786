//! `fulgurite doctor`: the relevant parts of this machine, which of them are used, and why.

mod libraries;
mod machine;

use crate::args;
use crate::fault::{FAILED, Fault};
use crate::ui::{Ink, Mode, Ui};
use fulgurite::prelude::*;
use serde_json::{Value, json};

/// The verdict on a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// As it should be.
    Fine,
    /// It works, but it could be better, or an optional part is missing.
    Note,
    /// The default does not work.
    Broken,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Fine => "ok",
            Verdict::Note => "note",
            Verdict::Broken => "broken",
        }
    }
}

/// A finding about one item.
#[derive(Clone, Debug)]
pub struct Finding {
    pub item: &'static str,
    pub verdict: Verdict,
    /// The finding in one line.
    pub text: String,
    /// The reason or the remedy, shown on request.
    pub why: String,
    /// The finding for programs.
    pub value: Value,
}

/// Makes a finding.
fn finding(
    item: &'static str,
    verdict: Verdict,
    text: impl Into<String>,
    why: impl Into<String>,
    value: Value,
) -> Finding {
    Finding { item, verdict, text: text.into(), why: why.into(), value }
}

/// Runs the command. Returns the exit status: 0 if the default works here.
///
/// # Errors
/// E914: an option has an impossible value.
pub fn run(args: &args::Doctor, ui: &Ui) -> Result<u8, Fault> {
    let threads = crate::threads::set(args.threads, 1)?;
    let findings = vec![
        versions(),
        machine::processor(),
        machine::instructions(),
        machine::threads(threads, args.threads.is_some()),
        machine::caches(),
        machine::memory(),
        machine::huge_pages(),
        works(),
        libraries::driver(),
        libraries::nvrtc(),
        libraries::cublaslt(),
    ];
    let broken = findings.iter().any(|f| f.verdict == Verdict::Broken);
    if ui.mode() == Mode::Json {
        let items = findings.iter().map(
            |f| json!({"item": f.item, "verdict": f.verdict.word(), "text": f.text, "why": f.why, "value": f.value}),
        );
        ui.object(&json!({"v": 1, "ok": !broken, "items": items.collect::<Vec<_>>()}));
    } else {
        for f in &findings {
            lines(ui, f).iter().for_each(|line| ui.result(line));
        }
        ui.status("next", if broken { "report what is broken" } else { "fulgurite train" });
    }
    Ok(if broken { FAILED } else { 0 })
}

/// Columns of the verdict, and of the item.
const COLUMNS: (usize, usize) = (6, 13);

/// A finding in readable form: the reason is shown below it if there is something to note, or on request.
fn lines(ui: &Ui, f: &Finding) -> Vec<String> {
    let ink = match f.verdict {
        Verdict::Fine => Ink::Verb,
        Verdict::Note => Ink::Notice,
        Verdict::Broken => Ink::Error,
    };
    let (verdict, item) = COLUMNS;
    let margin = " ".repeat(verdict + item + 2);
    let wrap = |text: &str| fulgurite_ops_verbs::explain::wrap(text, ui.width().saturating_sub(margin.len()).max(20));
    let head = ui.paint(ink, &format!("{:>verdict$}", f.verdict.word()));
    let mut lines = Vec::new();
    for (i, text) in wrap(&f.text).into_iter().enumerate() {
        lines.push(if i == 0 { format!("{head} {:item$} {text}", f.item) } else { format!("{margin}{text}") });
    }
    if !f.why.is_empty() && (f.verdict != Verdict::Fine || ui.wishes().verbose) {
        lines.extend(wrap(&f.why).iter().map(|text| format!("{margin}{}", ui.paint(Ink::Faint, text))));
    }
    lines
}

/// The version of this program.
fn versions() -> Finding {
    let (version, os, arch) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH);
    let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
    let verdict = if cfg!(debug_assertions) { Verdict::Note } else { Verdict::Fine };
    let why = if verdict == Verdict::Note { "a dev build is slower: cargo run --release" } else { "" };
    let text = format!("fulgurite {version}, {profile} build for {os} on {arch}");
    let value = json!({"version": version, "profile": profile, "os": os, "arch": arch});
    finding("version", verdict, text, why, value)
}

/// Compiles and runs a product with its gradient, as training does, and checks the numbers.
fn works() -> Finding {
    let start = std::time::Instant::now();
    let step = jit(|x: Tensor, w: Tensor| value_and_grad(&w, |w| x.matmul(w).tanh().sum()));
    let (x, w) = (Tensor::from_vec(vec![0.5f32; 6], (2, 3)), Tensor::from_vec(vec![0.25f32; 12], (3, 4)));
    let tried = step.call((x, w)).and_then(|(y, g)| Ok((y.item::<f32>()?, g.to_vec::<f32>()?)));
    let ms = start.elapsed().as_secs_f64() * 1e3;
    // 8 elements of tanh(3 · 0.5 · 0.25); each weight is multiplied with 2 rows of 0.5 (1 - tanh²).
    let tanh = 0.375f32.tanh();
    let (sum, slope) = (8.0 * tanh, 1.0 - tanh * tanh);
    let near = |a: f32, b: f32| (a - b).abs() < 1e-5;
    match tried {
        Ok((y, g)) if near(y, sum) && g.len() == 12 && g.iter().all(|g| near(*g, slope)) => {
            let text = format!("a product and its gradient were compiled and run in {ms:.0} ms, and are right");
            finding("default run", Verdict::Fine, text, "", json!({"ms": ms}))
        }
        Ok((y, _)) => {
            let text = format!("a product with its gradient gave {y}, it should be {sum}: this is a bug in fulgurite");
            finding("default run", Verdict::Broken, text, "please report it with all of this", json!({"ms": ms}))
        }
        Err(e) => {
            let text = format!("a product with its gradient can't run: {}", e.claim());
            finding("default run", Verdict::Broken, text, e.notes().join("; "), json!({"code": e.code()}))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::Wishes;

    #[test]
    fn the_default_works_here() {
        let found = works();
        assert_eq!(found.verdict, Verdict::Fine, "{}", found.text);
    }

    #[test]
    fn lines_are_narrow_and_say_why() {
        let ui = Ui::new(Wishes { json: true, ..Wishes::default() });
        let f = finding("memory", Verdict::Note, "word ".repeat(40), "because", Value::Null);
        let lines = lines(&ui, &f);
        assert!(lines.iter().all(|l| l.chars().count() <= ui.width()), "{lines:#?}");
        assert!(lines[0].starts_with("  note memory        word"), "{lines:#?}");
        assert!(lines[lines.len() - 1].ends_with("because"));
    }
}
