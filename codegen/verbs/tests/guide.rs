//! Pages are followed from their first line to their last: their rows are written into a file, and their commands,
//! run on it, print what the page shows. Programs of pages are doc tests of `fulgurite-tests`.

use std::fs;
use std::path::{Path, PathBuf};

use fulgurite_ops_verbs::cli::run_words;
use fulgurite_ops_verbs::fmt;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The file that a reader of the page works on.
struct Reader {
    folder: PathBuf,
}

impl Reader {
    fn database(&self) -> PathBuf {
        self.folder.join("ops.yaml")
    }

    /// Writes a row in the place of the one with its name, or after all others.
    fn edit(&self, row: &str) {
        let text = fs::read_to_string(self.database()).unwrap_or_else(|_| "ops:".to_owned());
        let head = row.lines().next().expect("a row");
        let text = match text.find(&format!("{head}\n")) {
            None => format!("{}\n\n{row}", text.trim_end()),
            Some(start) => {
                let rest = &text[start..];
                let end = rest.find("\n\n- op: ").map_or(rest.len(), |n| n + 1);
                format!("{}{row}{}", &text[..start], &rest[end..])
            }
        };
        fs::write(self.database(), text).expect("the database is written");
    }

    /// Output of a command: messages for a person first, then results.
    fn run(&self, command: &str) -> String {
        let words = command.strip_prefix("cargo ").expect("a command of cargo");
        let file = format!("--file={}", self.database().display());
        let upstream = format!("--upstream={}", root().join("ops.yaml").display());
        let words = split(words).into_iter().chain([file, upstream, "--color=never".to_owned()]);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        run_words(words.map(Into::into), &mut out, &mut err);
        let text = format!("{}{}", String::from_utf8_lossy(&err), String::from_utf8_lossy(&out));
        // a reader is in the folder, and the crate there depends on the other database
        let upstream = root().join("ops.yaml");
        let named = format!(" --file {} --upstream {}", self.database().display(), upstream.display());
        let text = text.replace(&named, "").replace(&format!("{}/", self.folder.display()), "");
        // the time differs from run to run
        let lines = text.lines().map(|line| match line.split_once(" in ").zip(line.split_once(" s")) {
            Some(((checked, _), (_, rest))) if checked.starts_with("Checked ") => format!("{checked} in 0.04 s{rest}"),
            // the length of the path moves the place to the right
            _ if line.contains(" · ops.yaml:") => match line.split_once("   ") {
                Some((head, place)) => format!("{head}   {}", place.trim_start()),
                None => line.to_owned(),
            },
            _ => line.trim_end().to_owned(),
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Words of a command line; quotes keep words together.
fn split(line: &str) -> Vec<String> {
    line.split('\'')
        .enumerate()
        .flat_map(|(n, part)| match n % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        })
        .collect()
}

/// The fenced blocks of a page: language and text.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let mut blocks = Vec::new();
    let mut parts = page.split("\n```");
    parts.next();
    while let (Some(block), Some(_)) = (parts.next(), parts.next()) {
        blocks.extend(block.split_once('\n'));
    }
    blocks
}

/// Follows a page on a file that holds only its rows. Each row must be in its one form, and all rows must be right in
/// the end. `UPDATE_EXPECT=1` rewrites the output of commands.
fn follow(name: &str) {
    let path = root().join("docs").join(name);
    let page = fs::read_to_string(&path).expect("the page");
    // short, because lines break where the path ends
    let folder = format!("fulgurite-{:.5}-{}", name, std::process::id());
    let reader = Reader { folder: std::env::temp_dir().join(folder) };
    fs::create_dir_all(&reader.folder).expect("a folder");
    let mut made = page.clone();
    for (language, text) in blocks(&page) {
        match language {
            // other YAML is part of a row
            "yaml" if text.starts_with("- op: ") => {
                let row = format!("{text}\n");
                reader.edit(&row);
                let form = fmt::format("ops.yaml", &format!("ops:\n{row}")).map(|made| made.text);
                assert_eq!(form.ok(), Some(format!("ops:\n{row}")), "a row of {name} is not in form");
            }
            "console" => {
                let command = text.lines().next().and_then(|line| line.strip_prefix("$ ")).expect("a command");
                let found = format!("$ {command}\n{}", reader.run(command));
                made = made.replacen(
                    &format!("```console\n{text}\n```"),
                    &format!("```console\n{}\n```", found.trim_end()),
                    1,
                );
            }
            "" | "yaml" | "rust" | "text" => {}
            other => panic!("{name} has a block of `{other}`"),
        }
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        return fs::write(path, made).expect("the page is written");
    }
    let differ = page.lines().zip(made.lines()).position(|(a, b)| a != b).map_or(0, |n| n + 1);
    assert!(
        page == made,
        "docs/{name}:{differ} is not what happens (UPDATE_EXPECT=1 accepts):\n{}",
        made.lines().skip(differ.saturating_sub(1)).take(12).collect::<Vec<_>>().join("\n")
    );
    let rows = fs::read_to_string(reader.database()).expect("rows").matches("- op: ").count();
    let all = reader.run("cargo ops check");
    let clean = !all.contains("error[") && !all.contains("warning[");
    let counted = format!("Checked {rows} row{} in ", if rows == 1 { "" } else { "s" });
    assert!(clean && all.contains(&counted), "{name}, {rows} rows: {all}");
}

#[test]
fn five_operators_are_added() {
    follow("adding-an-operator.md");
}

#[test]
fn the_tour_is_followed() {
    follow("tour.md");
}

#[test]
fn the_rows_of_the_language_are_right() {
    follow("row-language.md");
}

/// A row that `new` writes with blanks is refused for its blanks alone, and passes once they are filled.
#[test]
fn filled_blanks_pass() {
    let kinds: [(&str, &[&str]); 10] = [
        ("pointwise", &["Half of it", "x / 2"]),
        ("reduction", &["Sum of cubes", "x[..s] * x[..s] * x[..s]"]),
        ("composite", &["Sum and mean", "sum(x, [dim])", "mean(x, [dim])"]),
        ("gather", &["Elements at index", "index[..p, m, ..q]"]),
        ("random", &["Zeros and elements", "if u < 0.5 { 0 } else { x[..s] }"]),
        ("window", &["Sums of windows", "x[..b, o * stride + k]"]),
        ("scatter", &["x with src added at index", "src[..p, m, ..q]"]),
        ("normalisation", &["x over its mean magnitude", "mean(abs(xa), [dim], keepdim = true)"]),
        ("loss", &["Squared difference", "(x - target) * (x - target)", "2 * (x - target)", "2 * (target - x)"]),
        ("mut", &["A running mean", "sa + (xa - sa) * momentum"]),
    ];
    for (kind, fills) in kinds {
        let reader =
            Reader { folder: std::env::temp_dir().join(format!("fulgurite-blanks-{}-{kind}", std::process::id())) };
        fs::create_dir_all(&reader.folder).expect("a folder");
        reader.run(&format!("cargo ops new row --kind {kind}"));
        let refused = reader.run("cargo ops check");
        assert_eq!(refused.matches("error[E007]: `row` has a blank to fill").count(), fills.len(), "{refused}");
        assert_eq!(refused.matches("error[").count(), fills.len(), "{refused}");
        let mut text = fs::read_to_string(reader.database()).expect("a database");
        for fill in fills {
            text = text.replacen("___", fill, 1);
        }
        fs::write(reader.database(), text).expect("a database");
        let right = reader.run("cargo ops check --only row");
        let clean = !right.contains("error[") && !right.contains("warning[");
        assert!(clean && right.contains("Checked 1 row in "), "{kind}: {right}");
        assert!(reader.folder.join("ops.schema.json").exists(), "a new database has its schema beside it");
    }
}
