//! `cargo ops explain`

use std::io::Write;

use clap::Args;
use fulgurite_codegen::nearest::nearest;
use serde_json::json;

use super::fault::CommandFault;
use super::load::{Loaded, load_or_built_in};
use super::paint::Paint;
use super::{Common, FINE, Outcome, classes};
use crate::explain::{self, pages, wrap};

/// Explains a row, a tensor subclass or an error code.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  cargo ops explain gelu\n  cargo ops explain gelu --code\n  cargo ops explain MaskedTensor\n  cargo ops explain E402\n  cargo ops explain E4\n  cargo ops explain keys"
)]
pub struct Explain {
    /// A row (`gelu`), a tensor subclass (`MaskedTensor`), a code (`E401`), the beginning of one (`E4`), or `keys`
    #[arg(value_name = "OP|CODE")]
    pub what: String,
    /// Print the Rust code that is generated for the row
    #[arg(long)]
    pub code: bool,
}

impl Explain {
    pub(super) fn run(&self, common: &Common, paint: &Paint, out: &mut dyn Write) -> Outcome {
        if self.what == "keys" {
            return keys(common, paint, out);
        }
        if is_code(&self.what) {
            return self.codes(common, paint, out);
        }
        let loaded = load_or_built_in(common)?;
        if self.code { self.generated(&loaded, common, out) } else { self.row(&loaded, common, paint, out) }
    }

    fn row(&self, loaded: &Loaded, common: &Common, paint: &Paint, out: &mut dyn Write) -> Outcome {
        let head = |text: &str| paint.verb(text);
        let faint = |text: &str| paint.faint(text);
        if let Some(class) = classes::find(loaded, &self.what) {
            let text =
                if common.json { format!("{}\n", class.json()) } else { class.text(&head, &faint, paint.columns) };
            out.write_all(text.as_bytes())?;
            return Ok(FINE);
        }
        let table = loaded.table();
        let rows = loaded.database.classes.iter().flat_map(|class| class.from.iter().map(move |row| (class, row)));
        let mut made = rows.filter(|(_, row)| row.op == self.what.as_str());
        let explained = match made.next() {
            Some((class, row)) => explain::made(row, class.class.as_str(), &table, &loaded.sources),
            None => {
                let (source, row) = loaded.find(&self.what)?;
                explain::row(source, row, &loaded.database, &loaded.checked, &table, &loaded.sources)
            }
        };
        if common.json {
            writeln!(out, "{}", explained.json())?;
        } else {
            out.write_all(explained.text(&head, &faint, paint.columns).as_bytes())?;
        }
        Ok(FINE)
    }

    fn generated(&self, loaded: &Loaded, common: &Common, out: &mut dyn Write) -> Outcome {
        let (source, _) = loaded.find(&self.what)?;
        let units = explain::code::of(&source.name(), &loaded.files, &loaded.upstream);
        let units = units.map_err(|why| {
            CommandFault::failed("E903", why)
                .help(format!("`cargo ops check{}` shows every fault at its place", loaded.options))
        })?;
        for unit in units {
            if common.json {
                writeln!(out, "{}", json!({"v": 1, "path": unit.path, "text": unit.text}))?;
            } else {
                writeln!(out, "// ---- {}\n{}", unit.path, unit.text.trim_end())?;
            }
        }
        Ok(FINE)
    }

    fn codes(&self, common: &Common, paint: &Paint, out: &mut dyn Write) -> Outcome {
        let wanted = self.what.to_ascii_uppercase();
        let found: Vec<_> = pages::PAGES.iter().filter(|page| page.code.starts_with(&wanted)).collect();
        match found.as_slice() {
            [] => {
                let fault = CommandFault::failed("E903", format!("there is no error code `{wanted}`"));
                Err(match nearest(&wanted, pages::PAGES.iter().map(|page| page.code)) {
                    Some(near) => fault.help(format!("did you mean `{near}`? `cargo ops explain E` lists all codes")),
                    None => fault.help("`cargo ops explain E` lists all codes"),
                })
            }
            [page] if page.code == wanted => {
                if common.json {
                    writeln!(out, "{}", page.json())?;
                } else {
                    let lines = wrap(page.text, paint.columns);
                    lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
                }
                Ok(FINE)
            }
            several => {
                for page in several {
                    if common.json {
                        writeln!(out, "{}", json!({"v": 1, "code": page.code, "title": page.title()}))?;
                    } else {
                        writeln!(out, "{}  {}", paint.verb(page.code), page.title())?;
                    }
                }
                Ok(FINE)
            }
        }
    }
}

/// Whether the argument has the form of a code: `E`, `E4`, `e401`, also an unknown `E99999`.
fn is_code(what: &str) -> bool {
    let mut letters = what.chars();
    matches!(letters.next(), Some('E' | 'e')) && letters.all(|c| c.is_ascii_digit())
}

/// Prints the meaning of each key of a row.
fn keys(common: &Common, paint: &Paint, out: &mut dyn Write) -> Outcome {
    for fulgurite_codegen::schema::Key { name: key, says, .. } in fulgurite_codegen::schema::KEYS {
        if common.json {
            writeln!(out, "{}", json!({"v": 1, "key": key, "says": says}))?;
        } else {
            writeln!(out, "{}  {says}", paint.verb(&format!("{key:<9}")))?;
        }
    }
    for fulgurite_codegen::schema::Key { name: key, says, .. } in fulgurite_codegen::schema::CLASS {
        if common.json {
            writeln!(out, "{}", json!({"v": 1, "of": "subclass", "key": key, "says": says}))?;
        } else {
            writeln!(out, "{}  {says}", paint.verb(&format!("of a subclass: {key:<10}")))?;
        }
    }
    Ok(FINE)
}
