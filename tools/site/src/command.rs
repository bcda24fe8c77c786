//! `cargo ops site`, in addition to the verbs of `fulgurite-mutate`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand};
use fulgurite_core::{counted, files};
use fulgurite_mutate::command::OpsVerb;
use fulgurite_ops_verbs::cli::{CommandFault, Common, FINE, Loaded, Outcome, Paint, Verbs, load, load_or_built_in};
use serde_json::json;

use crate::book::Book;
use crate::site::{self, SiteFile, Subject};

/// The verbs of `cargo ops`.
#[derive(Debug, Subcommand)]
pub enum SiteVerb {
    /// The verbs of `fulgurite-mutate`.
    #[command(flatten)]
    Ops(OpsVerb),
    /// Make a site of static pages: every operator, a search, error codes, a book
    Site(SiteOptions),
}

impl Verbs for SiteVerb {
    fn run(self, common: &Common, paint: &Paint, out: &mut dyn Write, err: &mut dyn Write) -> Outcome {
        match self {
            SiteVerb::Ops(verb) => verb.run(common, paint, out, err),
            SiteVerb::Site(site) => site.run(common, out, err),
        }
    }
}

/// Makes a site that works from a folder, without a server.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  cargo ops site --out site\n  cargo ops site --out site --with compat/pytorch,compat/onnx\n  cargo ops site --out site --book docs --title smooth"
)]
pub struct SiteOptions {
    /// The folder of the site, which is made if it does not exist; files of an earlier site in it are replaced
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// A database that uses the rows, or its folder: its operators are in the site too, and its names for the rows
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub with: Vec<PathBuf>,
    /// A folder of Markdown pages, which become a book in the order in which its README.md links them; without this
    /// option, `docs` beside the database, if that has a README.md
    #[arg(long, value_name = "DIR")]
    pub book: Option<PathBuf>,
    /// The title of the site; without this option, the name of the database's folder
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
}

/// The file that lists the files of a site, by which a later one knows them.
const MARKER: &str = "site-files.txt";

impl SiteOptions {
    fn run(&self, common: &Common, out: &mut dyn Write, err: &mut dyn Write) -> Outcome {
        let started = Instant::now();
        let earlier = self.earlier()?;
        let main = load_or_built_in(common)?;
        let folder = folder_of(&main);
        let title = self.title.clone().unwrap_or_else(|| name_of(&folder));
        let book = self.book(&folder)?;
        let mut databases = vec![main];
        for path in &self.with {
            let path = if path.is_dir() { path.join("ops.yaml") } else { path.clone() };
            let common = Common { file: None, upstream: Some(databases[0].files.rows.path.clone()), ..common.clone() };
            databases.push(load(&common, Some(&path))?);
        }
        let shows = !common.quiet && !common.json && std::io::stderr().is_terminal();
        let told = |done: usize, all: usize| {
            if shows && (done.is_multiple_of(16) || done == all) {
                eprint!("\r{done} of {all} operators{}", if done == all { "\n" } else { "" });
            }
        };
        let files = site::files(&Subject { title, databases: &databases, book }, &told)?;
        self.write(&files, &earlier)?;
        let first = self.out.join("index.html");
        if common.json {
            let bytes: usize = files.iter().map(|file| file.text.len()).sum();
            writeln!(out, "{}", json!({"v": 1, "index": first, "files": files.len(), "bytes": bytes}))?;
        } else {
            if !common.quiet {
                let made = counted(files.len(), "file", "files");
                writeln!(err, "Made {made} in {:.1} s", started.elapsed().as_secs_f64())?;
            }
            writeln!(out, "{}", first.display())?;
        }
        Ok(FINE)
    }

    /// The files of the site that is in the folder.
    fn earlier(&self) -> Result<BTreeSet<String>, CommandFault> {
        match fs::read_to_string(self.out.join(MARKER)) {
            Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
            Err(_) => {
                let first = fs::read_dir(&self.out).ok().and_then(|mut entries| entries.next());
                if first.is_some() {
                    let claim = format!("`{}` has files that are not of a site", self.out.display());
                    return Err(CommandFault::usage("E913", claim).help("name a new or an empty folder with `--out`"));
                }
                Ok(BTreeSet::new())
            }
        }
    }

    fn book(&self, folder: &Path) -> Result<Option<Book>, CommandFault> {
        let beside = folder.join("docs");
        let pages = match &self.book {
            Some(pages) => pages,
            None if beside.join("README.md").is_file() => &beside,
            None => return Ok(None),
        };
        let book = Book::read(pages).map_err(|(path, why)| {
            CommandFault::unreadable(&path, &why)
                .help("`--book DIR` names a folder with a README.md that links its pages")
        })?;
        Ok(Some(book))
    }

    /// Writes the files, then removes those of the earlier site that are no longer in it.
    fn write(&self, files: &[SiteFile], earlier: &BTreeSet<String>) -> Result<(), CommandFault> {
        let names: BTreeSet<String> = files.iter().map(|file| file.path.clone()).collect();
        // the list comes first: a site that was written in part is known as one
        let all: Vec<&str> = names.union(earlier).map(String::as_str).collect();
        self.put(MARKER, &(all.join("\n") + "\n"))?;
        files.iter().try_for_each(|file| self.put(&file.path, &file.text))?;
        for gone in earlier.difference(&names).filter(|name| is_inside(name)) {
            // a file that is gone already needs no removal
            let _ = fs::remove_file(self.out.join(gone));
        }
        let list: Vec<&str> = names.iter().map(String::as_str).collect();
        self.put(MARKER, &(list.join("\n") + "\n"))
    }

    fn put(&self, name: &str, text: &str) -> Result<(), CommandFault> {
        let path = self.out.join(name);
        let folder = path.parent().unwrap_or(&self.out);
        fs::create_dir_all(folder).map_err(|why| CommandFault::unwritable(folder, &why))?;
        files::refresh(&path, text).map_err(|why| CommandFault::unwritable(&path, &why))
    }
}

/// Whether a listed path stays below the folder of the site: the list may have been edited.
fn is_inside(name: &str) -> bool {
    Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_)))
}

fn folder_of(loaded: &Loaded) -> PathBuf {
    match loaded.files.rows.path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn name_of(folder: &Path) -> String {
    let full = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    full.file_name().map_or_else(|| "operators".to_owned(), |name| name.to_string_lossy().into_owned())
}
