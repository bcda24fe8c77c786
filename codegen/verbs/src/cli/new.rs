//! `cargo ops new`

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use fulgurite_codegen::check::HAS_BLANK;
use fulgurite_codegen::diag::render::{self, Style};
use fulgurite_codegen::pipeline::Table;
use fulgurite_codegen::schema::Database;
use fulgurite_codegen::source::Sources;
use fulgurite_core::{Name, counted};
use rustc_hash::FxHashSet;
use serde_json::{Value, json};

use super::blanks::Kind;
use super::fault::CommandFault;
use super::load::{self, Loaded, loaded};
use super::paint::Paint;
use super::{Common, FAILED, FINE, Outcome, write};
use crate::explain;
use crate::fmt::{self, scalar};
use crate::json_schema;

/// Adds a row at the end of the database, if it is right; with `--kind` a row with blanks to fill.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  cargo ops new mish 'x * tanh(softplus(x))'\n  cargo ops new mish 'x * tanh(softplus(x))' --dry-run\n  cargo ops new centre 'x - mean(x, [-1], keepdim = true)' --decomp --sig '(x: T[..S]) -> T[..S]'\n  cargo ops new my_softmax --like softmax\n  cargo ops new span --kind reduction\n  cargo ops new mine 'x * x' --file rows/mine.yaml --upstream ops.yaml"
)]
pub struct New {
    /// The operator's name
    #[arg(value_name = "OP")]
    pub op: String,
    /// Its meaning, `x * tanh(softplus(x))`, unless `--like` or `--kind` gives a row
    #[arg(value_name = "FORMULA", required_unless_present_any = ["like", "kind"])]
    pub formula: Option<String>,
    /// The signature; without it, the arguments are the free names of the formula, in order
    #[arg(long)]
    pub sig: Option<String>,
    /// The promotion kind; without it, the first kind under which the row is right
    #[arg(long, value_name = "KIND")]
    pub promote: Option<String>,
    /// What the operator does, in one sentence; without it, the formula
    #[arg(long, value_name = "TEXT")]
    pub doc: Option<String>,
    /// Take the formula as a program of other rows, not as an expression over elements
    #[arg(long, requires = "sig")]
    pub decomp: bool,
    /// Instead of a formula, copy this row under the new name
    #[arg(long, value_name = "ROW", conflicts_with_all = ["formula", "kind"])]
    pub like: Option<String>,
    /// Instead of a formula, write a row of this class, with blanks `___` to fill
    #[arg(long, value_name = "KIND", conflicts_with_all = ["formula", "sig", "promote", "doc", "decomp"])]
    pub kind: Option<Kind>,
    /// Show the row without writing it
    #[arg(long)]
    pub dry_run: bool,
}

/// The rows of another database, read but not checked.
fn rows_of(path: &Path) -> Result<Loaded, CommandFault> {
    let text = fs::read_to_string(path).map_err(|why| CommandFault::unreadable(path, &why))?;
    Ok(load::loaded_some(load::of_text(path.to_path_buf(), text), Table::default(), |_, _| FxHashSet::default()))
}

/// Checks that the folder of a file exists.
fn is_folder(path: &Path) -> Result<(), CommandFault> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    match folder.filter(|folder| !folder.is_dir()) {
        Some(folder) => {
            let claim = format!("`{}` can't be written: there is no folder `{}`", path.display(), folder.display());
            Err(CommandFault::usage("E913", claim).help("make the folder, or name another file"))
        }
        None => Ok(()),
    }
}

impl New {
    pub(super) fn run(&self, common: &Common, paint: &Paint, out: &mut dyn Write, err: &mut dyn Write) -> Outcome {
        let before = match &common.file {
            // The first row of a new database.
            Some(path) if !path.exists() => {
                is_folder(path)?;
                let upstream = load::upstream(common, path)?;
                loaded(load::of_text(path.clone(), format!("{}\nops:\n", json_schema::STARTED)), upstream)
            }
            // Existing rows are only read; the new row is checked, with the rows that it calls.
            _ => {
                let files = load::read(common, None)?;
                let upstream = load::upstream(common, &files.rows.path)?;
                load::loaded_some(files, upstream, |_, _| FxHashSet::default())
            }
        };
        if before.diags.errors() > 0 {
            let claim = format!("`{}` has faults, so no row is added", before.files.rows.path.display());
            let check = format!("cargo ops check{}", load::options(common, None));
            return Err(CommandFault::failed("E903", claim)
                .help(format!("mend the faults that `{check}` shows, and run this command again")));
        }
        if let Some(source) = before.database.rows.iter().find(|source| source.op == self.op.as_str()) {
            let claim = format!("there is a row `{}` already, at {}", self.op, before.sources.show(source.op.place));
            return Err(CommandFault::failed("E008", claim)
                .help(format!("choose another name; `cargo ops explain {}` shows that row", self.op)));
        }
        if self.op.contains(char::is_control) {
            let claim = format!("`{}` can't be the name of a row", self.op.escape_debug());
            return Err(CommandFault::failed("E012", claim).help(fulgurite_codegen::schema::FORM));
        }
        let tried = self.tries(&before, common)?.into_iter().map(|row| {
            let mut files = before.files.clone();
            files.rows.text = appended(&files.rows.text, &row);
            let only = |_: &Database, _: &Sources| FxHashSet::from_iter([Name::new(&self.op)]);
            (row, load::loaded_some(files, before.upstream.clone(), only))
        });
        // Takes the first promotion kind under which all dtypes are right; if there is none, reports the faults of the
        // first kind.
        let mut refused: Option<Loaded> = None;
        for (row, after) in tried {
            let blanks = after.diags.sorted().iter().all(|diag| diag.message.ends_with(HAS_BLANK));
            let right = if self.kind.is_some() { blanks } else { after.diags.errors() == 0 && !self.narrows(&after) };
            if right {
                let beside = if self.dry_run { None } else { self.write(&before, &after.files.rows.text)? };
                if let Some(schema) = beside.filter(|_| !common.quiet && !common.json) {
                    let said = format!("{}, with which editors read the database", schema.display());
                    err.write_all(paint.status("Written", &said).as_bytes())?;
                }
                return self.say(&row, &after, common, paint, out, err);
            }
            refused.get_or_insert(after);
        }
        let Some(refused) = refused else {
            return Err(CommandFault::usage("E903", format!("there is no formula for `{}`", self.op)));
        };
        if common.json {
            out.write_all(render::json(&refused.diags, &refused.sources).as_bytes())?;
        } else {
            let style = Style { color: paint.color, width: 100 };
            err.write_all(render::text(&refused.diags, &refused.sources, style).as_bytes())?;
            writeln!(err, "Nothing was written; the places above are those that the row would have had")?;
        }
        Ok(FAILED)
    }

    /// Whether the row takes fewer dtypes than another promotion kind would allow: `exp` with `default` refuses
    /// integers.
    fn narrows(&self, after: &Loaded) -> bool {
        let (Some(source), Some(row)) = (after.database.rows.last(), after.checked.rows.last()) else { return false };
        self.promote.is_none()
            && source.dtypes.is_none()
            && row.dtypes.is_some()
            && source.promote.is_some()
            && source.promote.as_ref().is_some_and(|promote| promote.text.as_str() == "default")
    }

    /// Writes the database; beside a new one, writes the schema if it is missing. Returns the path of the written
    /// schema.
    fn write(&self, before: &Loaded, after: &str) -> Result<Option<PathBuf>, CommandFault> {
        if before.files.rows.path.exists() {
            return write::replace(&before.files.rows.path, &before.files.rows.text, after).map(|()| None);
        }
        let schema = Some(before.files.rows.path.with_file_name("ops.schema.json")).filter(|schema| !schema.exists());
        write::create(&before.files.rows.path, after)?;
        schema.as_deref().map_or(Ok(()), |schema| write::create(schema, &json_schema::text()))?;
        Ok(schema)
    }

    /// The texts to try, the most likely one first.
    fn tries(&self, before: &Loaded, common: &Common) -> Result<Vec<String>, CommandFault> {
        if let Some(kind) = self.kind {
            return Ok(vec![in_form(kind.row(&self.op))]);
        }
        if let Some(like) = &self.like {
            let above;
            let from = match (before.find(like), load::upstream_file(common, &before.files.rows.path)?) {
                (Err(fault), Some(path)) => {
                    above = rows_of(&path)?;
                    above.find(like).is_ok().then_some(&above).ok_or(fault)?
                }
                (found, _) => found.map(|_| before)?,
            };
            let (source, _) = from.find(like)?;
            let text = from.sources.text(source.place);
            let name = source.op.place.start - source.place.start;
            let end = name as usize + source.op.as_str().len();
            return match (text.get(..name as usize), text.get(end..)) {
                (Some(head), Some(tail)) => Ok(vec![format!("- {head}{}{}", self.op, without_names(tail))]),
                _ => Err(CommandFault::usage("E903", format!("the row `{like}` can't be copied"))),
            };
        }
        let Some(formula) = self.formula.as_deref().map(str::trim) else { return Ok(Vec::new()) };
        let kinds: Vec<Option<&str>> = match (&self.promote, self.decomp) {
            (Some(kind), _) => vec![Some(kind)],
            (None, true) => vec![None],
            (None, false) => vec![Some("default"), Some("float"), None, Some("bool")],
        };
        Ok(kinds.into_iter().map(|kind| in_form(self.row(formula, kind))).collect())
    }

    fn row(&self, formula: &str, kind: Option<&str>) -> String {
        let doc: String = match &self.doc {
            Some(doc) => doc.clone(),
            None => formula.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(100).collect(),
        };
        let mut row = format!("- op: {}\n  doc: {}\n", self.op, written(&doc));
        let made = || fulgurite_codegen::schema::pointwise_sig(formula, kind == Some("bool"));
        let sig = self.sig.clone().or_else(made);
        if let Some(sig) = sig {
            row += &format!("  sig: '{sig}'\n");
        }
        if let Some(kind) = kind {
            row += &format!("  promote: {kind}\n");
        }
        let key = if self.decomp { "decomp" } else { "expr" };
        row + &format!("  {key}: {}\n", written(formula))
    }

    /// Reports the written row, and the facts that follow from it, or how to fill it.
    fn say(
        &self,
        row: &str,
        after: &Loaded,
        common: &Common,
        paint: &Paint,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> Outcome {
        let (object, said, next) = match self.kind {
            Some(_) => self.blanks(row, after, paint),
            None => self.facts(row, after, paint)?,
        };
        if common.json {
            writeln!(out, "{object}")?;
            return Ok(FINE);
        }
        if !common.quiet {
            err.write_all(said.as_bytes())?;
        }
        out.write_all(row.as_bytes())?;
        if !common.quiet && !self.dry_run {
            let next = next + &load::options(common, None);
            err.write_all(paint.status("next:", &next).as_bytes())?;
        }
        Ok(FINE)
    }

    /// The word for what was done.
    fn verb(&self) -> &'static str {
        if self.dry_run { "Would write" } else { "Written" }
    }

    /// The facts that follow from the row, as JSON and as text, and the next step.
    fn facts(&self, row: &str, after: &Loaded, paint: &Paint) -> Result<(Value, String, String), CommandFault> {
        let (source, lowered) = after.find(&self.op)?;
        let (file, line) = (after.files.rows.path.display().to_string(), after.sources.line(source.op.place));
        let gradients = explain::gradients(lowered, &after.table(), &after.checked);
        let mut said = String::new();
        if source.sig.text.style == fulgurite_codegen::yaml::Style::Made || self.sig.is_none() {
            said += &paint.status("Derived sig", &lowered.sig.to_string());
        }
        for gradient in &gradients {
            said += &paint.status("Derived grad", &format!("{}: {}", gradient.arg, gradient.text()));
        }
        for (place, kernels) in explain::kernels(source, lowered, &after.table()) {
            said += &paint.status("Derived", &format!("{place}: {kernels}"));
        }
        said += &paint.status(self.verb(), &format!("{file}:{line}"));
        let gradients: Vec<_> = gradients.iter().map(explain::Gradient::json).collect();
        let object = json!({
            "v": 1, "op": self.op, "file": file, "line": line,
            "written": !self.dry_run, "row": row, "gradients": gradients,
        });
        Ok((object, said, format!("cargo build  ·  cargo ops explain {}", self.op)))
    }

    /// The blanks of the row, as JSON and as text, and the next step.
    fn blanks(&self, row: &str, after: &Loaded, paint: &Paint) -> (Value, String, String) {
        let file = after.files.rows.path.display().to_string();
        let blanks: Vec<String> =
            after.diags.sorted().iter().map(|diag| after.sources.show(diag.primary.place)).collect();
        let (count, place) = (counted(after.diags.errors(), "blank", "blanks"), blanks.first().unwrap_or(&file));
        let said = paint.status(self.verb(), &format!("{count} `___`, the first at {place}"));
        let object = json!({
            "v": 1, "op": self.op, "file": file, "written": !self.dry_run, "row": row, "blanks": blanks,
        });
        (object, said, format!("fill them  ·  cargo ops check --only {}", self.op))
    }
}

/// The database in canonical form with a row appended, after one blank line if another row stands before it.
fn appended(text: &str, row: &str) -> String {
    let text = text.trim_end();
    if let Some(before) = text.strip_suffix("ops: []") {
        return format!("{before}ops:\n{row}");
    }
    // the first row of a list stands below its key
    let gap = if text.ends_with("\nops:") || text == "ops:" { "\n" } else { "\n\n" };
    format!("{text}{gap}{row}")
}

/// The rest of a copied row without PyTorch names: they belong to the original.
fn without_names(tail: &str) -> String {
    let kept: Vec<&str> =
        tail.lines().filter(|line| !line.starts_with("  aten:") && !line.starts_with("  torch:")).collect();
    format!("{}\n", kept.join("\n").trim_end())
}

/// A rule or sentence as a YAML value, in a form that preserves places.
fn written(text: &str) -> String {
    if !text.contains(['\n', '\'']) {
        return scalar::plain_or_quoted(text);
    }
    let lines: Vec<String> = text.lines().map(|line| format!("    {}", line.trim_end())).collect();
    format!("|\n{}", lines.join("\n"))
}

/// A row in canonical form. A row that cannot be parsed stays as it is, so that its faults refer to the given text.
fn in_form(row: String) -> String {
    match fmt::format("row", &format!("ops:\n{row}")) {
        Ok(formatted) => formatted.text.trim_start_matches("ops:\n").to_owned(),
        Err(_) => row,
    }
}
