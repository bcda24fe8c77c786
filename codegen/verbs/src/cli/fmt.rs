//! `cargo ops fmt`

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use fulgurite_codegen::diag::render::{self, Style};
use fulgurite_codegen::files::DatabaseFile;
use fulgurite_core::counted;
use serde_json::json;

use super::fault::CommandFault;
use super::paint::Paint;
use super::{Common, FAILED, FINE, Outcome, load, write};
use crate::fmt;

/// At most this many rows are named where a database is not in canonical form, because a screen holds no more.
const MOST_NAMED: usize = 10;

/// Writes a database in canonical form: keys in order, rule texts as they are printed, comments kept.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  cargo ops fmt\n  cargo ops fmt --check\n  cargo ops fmt rows/mine.yaml")]
pub struct Fmt {
    /// The database, as with `--file`
    // The id differs from that of the field of `--file`.
    #[arg(id = "database", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Only report whether the database is in canonical form, and write nothing
    #[arg(long)]
    pub check: bool,
}

impl Fmt {
    pub(super) fn run(&self, common: &Common, paint: &Paint, out: &mut dyn Write, err: &mut dyn Write) -> Outcome {
        let files = load::read(common, self.file.as_deref())?;
        let mut status = self.file(&files.rows, fmt::format, common, paint, out, err)?;
        for part in files.calls.iter().chain(&files.points) {
            status = status.max(self.file(part, fmt::format_further, common, paint, out, err)?);
        }
        Ok(status)
    }

    fn file(
        &self,
        DatabaseFile { path, shown, text }: &DatabaseFile,
        format: fn(&str, &str) -> fmt::Formatting,
        common: &Common,
        paint: &Paint,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> Outcome {
        let formatted = match format(shown, text) {
            Ok(formatted) => formatted,
            Err((sources, diags)) if common.json => {
                out.write_all(render::json(&diags, &sources).as_bytes())?;
                return Ok(FAILED);
            }
            Err((sources, diags)) => {
                let style = Style { color: paint.color, width: 100 };
                err.write_all(render::text(&diags, &sources, style).as_bytes())?;
                return Ok(FAILED);
            }
        };
        let differs = formatted.text != *text;
        if differs && !self.check {
            write::replace(path, text, &formatted.text)?;
        }
        let names: Vec<&str> = formatted.changed.iter().map(|(op, _)| op.as_str()).collect();
        if common.json {
            let object = json!({
                "v": 1, "file": shown, "in_form": !differs, "rows": names, "written": differs && !self.check,
            });
            writeln!(out, "{object}")?;
            return Ok(if differs && self.check { FAILED } else { FINE });
        }
        let count = |n: usize| counted(n, "row", "rows");
        if differs && self.check {
            let places = formatted.changed.iter().take(MOST_NAMED);
            let mut named: Vec<String> =
                places.map(|(op, place)| format!("{}: {op}", formatted.sources.show(*place))).collect();
            if names.len() > MOST_NAMED {
                named.push(format!("and {} more", names.len() - MOST_NAMED));
            }
            let what = match names.len() {
                0 => "its blank lines differ".to_owned(),
                1 => "1 row differs".to_owned(),
                n => format!("{} differ", count(n)),
            };
            let fault = CommandFault::failed("E922", format!("`{shown}` is not in canonical form: {what}"));
            let places: String = named.iter().map(|place| format!("\n{place}")).collect();
            return Err(fault.help(format!("`cargo ops fmt` without `--check` rewrites it{places}")));
        }
        if !common.quiet {
            let done = if differs {
                format!(
                    "Written {shown}: {} changed",
                    if names.is_empty() { "blank lines".to_owned() } else { count(names.len()) }
                )
            } else {
                format!("{shown} is in canonical form")
            };
            writeln!(out, "{done}")?;
        }
        Ok(FINE)
    }
}
