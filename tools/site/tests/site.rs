//! Sites of whole databases: every link leads somewhere, nothing is loaded from elsewhere, texts of rows stay texts.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use fulgurite_ops_verbs::cli;
use fulgurite_site::command::SiteVerb;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A folder for one test, which is removed with its files.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("fulgurite-site-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }
    fn at(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }
    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs `cargo ops site`; returns the status and what it said.
fn site(words: &[&str]) -> (i32, String) {
    let words = ["ops", "site"].iter().chain(words).map(OsString::from);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = cli::run_kept::<SiteVerb>(words, None, &mut out, &mut err);
    (status, format!("{}{}", String::from_utf8_lossy(&out), String::from_utf8_lossy(&err)))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// The pages of a site by path.
fn pages(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut pages = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            match path.extension() {
                None => open.push(path),
                Some(html) if html == "html" => {
                    _ = pages.insert(path.clone(), fs::read_to_string(&path).expect("a page"))
                }
                Some(_) => {}
            }
        }
    }
    pages
}

/// The values of an attribute in a page.
fn attribute<'t>(page: &'t str, name: &str) -> impl Iterator<Item = &'t str> + use<'t> {
    page.split(&format!(" {name}=\"")).skip(1).filter_map(|rest| rest.split('"').next()).collect::<Vec<_>>().into_iter()
}

/// The links of a page that lead nowhere.
fn broken(folder: &Path, pages: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let anchors: BTreeMap<&Path, BTreeSet<&str>> =
        pages.iter().map(|(path, page)| (path.as_path(), attribute(page, "id").collect())).collect();
    let mut broken = Vec::new();
    for (path, page) in pages {
        for link in attribute(page, "href").chain(attribute(page, "src")) {
            if link.starts_with("https://") || link.starts_with("http://") || link.starts_with("data:") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let file = file.split('?').next().unwrap_or_default();
            let mut target = if file.is_empty() { path.clone() } else { path.parent().expect("a folder").to_owned() };
            for part in file.split('/').filter(|part| !part.is_empty()) {
                if part == ".." { _ = target.pop() } else { target.push(part) }
            }
            let known = target.is_file() && target.starts_with(folder);
            let has = anchor.is_empty() || anchors.get(target.as_path()).is_some_and(|ids| ids.contains(anchor));
            if !known || !has || link.is_empty() {
                broken.push(format!("{}: {link}", path.strip_prefix(folder).expect("a page of the site").display()));
            }
        }
    }
    broken
}

#[test]
fn the_site_of_all_databases_is_whole() {
    let out = Folder::new("all");
    let file = root().join("ops.yaml");
    let with = ["pytorch", "onnx"].map(|name| text(&root().join("compat").join(name)).to_owned()).join(",");
    let (status, said) = site(&["--file", text(&file), "--with", &with, "--out", text(&out.0), "--title", "fulgurite"]);
    assert_eq!(status, 0, "{said}");
    let pages = pages(&out.0);
    let broken = broken(&out.0, &pages);
    assert!(broken.is_empty(), "{} links lead nowhere: {:#?}", broken.len(), &broken[..broken.len().min(20)]);
    for (path, page) in &pages {
        let loads =
            attribute(page, "src").chain(page.split("<link ").skip(1).flat_map(|link| attribute(link, "href").take(1)));
        let elsewhere: Vec<&str> = loads.filter(|from| from.contains("//")).collect();
        assert!(elsewhere.is_empty(), "{} loads {elsewhere:?}", path.display());
        assert!(!page.contains("{{") || page.contains("<pre"), "{} has a blank of a template", path.display());
    }
    // every row of every database has a page, and every page of an operator has an example that was computed
    let index = out.read("assets/index.js");
    let entries: serde_json::Value =
        serde_json::from_str(index.trim_start_matches("window.INDEX = ").trim_end_matches(";\n")).expect("the index");
    let entries = entries.as_array().expect("a list");
    let operators: Vec<&serde_json::Value> = entries.iter().filter(|entry| entry["k"] == "operator").collect();
    let rows: usize = ["ops.yaml", "compat/pytorch/ops.yaml", "compat/onnx/ops.yaml"]
        .iter()
        .map(|file| fs::read_to_string(root().join(file)).expect("a database").matches("\n- op: ").count())
        .sum();
    assert_eq!(operators.len(), rows);
    let page = |entry: &serde_json::Value| &pages[&out.at(entry["u"].as_str().expect("an address"))];
    let count = |has: &str| operators.iter().filter(|entry| page(entry).contains(has)).count();
    let bare: Vec<&str> = (operators.iter().filter(|entry| !page(entry).contains("id=\"examples\"")))
        .filter_map(|entry| entry["n"].as_str())
        .collect();
    assert!(bare.len() * 50 < rows, "{} operators have no example: {bare:?}", bare.len());
    assert!(count("<math") * 3 > rows && count("<svg") > 80, "{} formulas, {} plots", count("<math"), count("<svg"));
    assert!(count("CUDA C") * 3 > rows, "{} pages have CUDA C", count("CUDA C"));
    // a name of PyTorch finds the row
    let named = |name: &str| {
        operators.iter().filter(|e| e["a"].as_array().is_some_and(|a| a.iter().any(|n| n == name))).count()
    };
    assert!(named("aten.relu") > 0 && named("onnx.Relu(X: x)") > 0, "names of other libraries are missing");
}

const SMALL: &str = "\
ops:

# Doubles: rows that <b>double</b>.

- op: twice
  doc: Twice x, or `x + x` <script>alert(1)</script>
  promote: default
  dtypes: all - bool
  expr: x + x

- op: halve
  doc: Half of x
  promote: float
  expr: x / 2
";

#[test]
fn texts_of_rows_stay_texts() {
    let (folder, out) = (Folder::new("small"), Folder::new("small-out"));
    fs::write(folder.at("ops.yaml"), SMALL).expect("a database");
    fs::create_dir_all(folder.at("docs")).expect("a folder");
    fs::write(folder.at("docs/README.md"), "# A book\n\n[next](a/next.md) [gone](gone.md) [out](../ops.yaml)\n")
        .expect("a page");
    fs::create_dir_all(folder.at("docs/a")).expect("a folder");
    fs::write(
        folder.at("docs/a/next.md"),
        "# Next <img src=x>\n\n[back](../README.md#a-book) [code](../errors/E401.md)\n",
    )
    .expect("a page");
    let (status, said) = site(&["--file", text(&folder.at("ops.yaml")), "--out", text(&out.0)]);
    assert_eq!(status, 0, "{said}");
    let page = out.read("operators/twice.html");
    assert!(!page.contains("<script>alert") && page.contains("<code>x + x</code>"), "{page}");
    assert!(!out.read("families/doubles.html").contains("<b>"));
    let next = out.read("book/a/next.html");
    assert!(
        !next.contains("<img")
            && next.contains("../../book/README.html#a-book")
            && next.contains("../../errors/E401.html")
    );
    let pages = pages(&out.0);
    assert_eq!(broken(&out.0, &pages), Vec::<String>::new());
}

#[test]
fn a_later_site_removes_the_pages_that_it_does_not_have() {
    let (folder, out) = (Folder::new("again"), Folder::new("again-out"));
    let make = |rows: &str| {
        fs::write(folder.at("ops.yaml"), rows).expect("a database");
        site(&["--file", text(&folder.at("ops.yaml")), "--out", text(&out.0)])
    };
    assert_eq!(make(SMALL).0, 0);
    fs::write(folder.at("kept.txt"), "kept").expect("a file");
    // the list of files was edited: nothing outside of the site is removed
    let list = out.read("site-files.txt");
    let escape = format!("{list}../{}/kept.txt\n", folder.0.file_name().expect("a name").to_string_lossy());
    fs::write(out.at("site-files.txt"), escape).expect("a list");
    let (one, _) = SMALL.split_once("- op: halve").expect("two rows");
    let (status, said) = make(one);
    assert_eq!(status, 0, "{said}");
    assert!(out.at("operators/twice.html").is_file() && !out.at("operators/halve.html").exists());
    assert!(folder.at("kept.txt").is_file());
}

#[test]
fn a_folder_with_other_files_is_left_alone() {
    let (folder, out) = (Folder::new("other"), Folder::new("other-out"));
    fs::write(folder.at("ops.yaml"), SMALL).expect("a database");
    fs::write(out.at("thesis.txt"), "years of work").expect("a file");
    let (status, said) = site(&["--file", text(&folder.at("ops.yaml")), "--out", text(&out.0)]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("error[E913]") && said.contains("name a new or an empty folder"), "{said}");
    assert_eq!(fs::read_dir(&out.0).expect("a folder").count(), 1);
}

#[test]
fn a_broken_database_has_no_site() {
    let (folder, out) = (Folder::new("broken"), Folder::new("broken-out"));
    fs::write(folder.at("ops.yaml"), "ops:\n\n- op: two\n  doc: two\n  expr: x +\n").expect("a database");
    let (status, said) = site(&["--file", text(&folder.at("ops.yaml")), "--out", text(&out.0)]);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("error[E903]") && said.contains("cargo ops check"), "{said}");
    assert_eq!(fs::read_dir(&out.0).expect("a folder").count(), 0);
}
