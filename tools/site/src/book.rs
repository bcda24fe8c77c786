//! A book: the Markdown pages of a folder in the order in which its README links them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use fulgurite_ops_verbs::explain::reference;

use crate::markdown::{self, Heading};

/// The page with which a book begins.
const FIRST: &str = "README.md";

pub struct BookPage {
    /// The path of the page in the folder: `guide/03-dtypes.md`.
    pub path: PathBuf,
    /// The first heading of the page.
    pub title: String,
    text: String,
}

/// The pages of a folder.
pub struct Book {
    /// The pages, in reading order.
    pub pages: Vec<BookPage>,
    /// Pages that list the rows of a database, for which the site has pages of its own.
    references: BTreeSet<PathBuf>,
}

impl Book {
    /// Reads the README of the folder, and every page of the folder to which a page links.
    ///
    /// # Errors
    /// The path of a page that cannot be read, and the reason. A link to a missing page is not an error.
    pub fn read(folder: &Path) -> Result<Book, (PathBuf, io::Error)> {
        let mut book = Book { pages: Vec::new(), references: BTreeSet::new() };
        book.follow(folder, Path::new(FIRST))?;
        Ok(book)
    }

    /// Adds a page, then the pages to which it links.
    fn follow(&mut self, folder: &Path, path: &Path) -> Result<(), (PathBuf, io::Error)> {
        let full = folder.join(path);
        let text = match fs::read_to_string(&full) {
            Ok(text) => text,
            Err(why) if why.kind() == io::ErrorKind::NotFound && path != Path::new(FIRST) => return Ok(()),
            Err(why) => return Err((full, why)),
        };
        if reference::is_page(&text) {
            self.references.insert(path.to_owned());
            return Ok(());
        }
        let rendered = markdown::render(&text, &|link| link.to_owned());
        let title = rendered.headings.first().map_or_else(|| path.display().to_string(), |h| h.text.clone());
        self.pages.push(BookPage { path: path.to_owned(), title, text });
        for link in rendered.links {
            let (to, _) = split(&link);
            let Some(to) = within(path, to).filter(|to| to.extension().is_some_and(|e| e == "md")) else { continue };
            // a page that lists error codes has a page of the site for each
            let known = self.pages.iter().any(|page| page.path == to) || self.references.contains(&to);
            if !known && code(&to).is_none() {
                self.follow(folder, &to)?;
            }
        }
        Ok(())
    }

    /// The page as HTML, with its headings. Links lead to the pages of the site; a link that leads nowhere in it is
    /// empty.
    pub fn render(&self, page: &BookPage) -> (String, Vec<Heading>) {
        let root = "../".repeat(page.path.components().count());
        let target = |link: &str| {
            if link.starts_with('#') || link.starts_with("https://") || link.starts_with("http://") {
                return link.to_owned();
            }
            let (path, section) = split(link);
            let Some(to) = within(&page.path, path) else { return String::new() };
            if let Some(code) = code(&to) {
                return format!("{root}errors/{code}.html");
            }
            if self.references.contains(&to) {
                return format!("{root}operators.html");
            }
            if to.file_name().is_some_and(|name| name == "errors") {
                return format!("{root}errors.html");
            }
            let known = self.pages.iter().any(|page| page.path == to);
            if known { format!("{root}{}{section}", url(&to)) } else { String::new() }
        };
        let rendered = markdown::render(&page.text, &target);
        (rendered.html, rendered.headings)
    }
}

impl BookPage {
    /// The page's address from the root of the site.
    pub fn url(&self) -> String {
        url(&self.path)
    }

    /// The number of folders above it in the book.
    pub fn depth(&self) -> usize {
        self.path.components().count() - 1
    }
}

fn url(path: &Path) -> String {
    let path: Vec<String> = path.with_extension("html").iter().map(|p| p.to_string_lossy().into_owned()).collect();
    format!("book/{}", path.join("/"))
}

/// A link without its section, and the section with its mark.
fn split(link: &str) -> (&str, &str) {
    link.find('#').map_or((link, ""), |at| link.split_at(at))
}

/// The path to which a link of the page at `from` leads, if that is inside of the folder.
fn within(from: &Path, link: &str) -> Option<PathBuf> {
    if link.is_empty() || link.contains(':') {
        return None;
    }
    let mut path = from.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::ParentDir => {
                if !path.pop() {
                    return None;
                }
            }
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

/// The error code whose page this is: `errors/E401.md`.
fn code(path: &Path) -> Option<&str> {
    let name = path.file_stem()?.to_str()?;
    let is_code = name.len() == 4 && name.starts_with('E') && name[1..].chars().all(|c| c.is_ascii_digit());
    (is_code && path.extension().is_some_and(|e| e == "md")).then_some(name)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{code, within};

    #[test]
    fn links_stay_inside_of_the_folder() {
        assert_eq!(within(Path::new("guide/a.md"), "../tour.md"), Some(PathBuf::from("tour.md")));
        assert_eq!(within(Path::new("guide/a.md"), "../../README.md"), None);
        assert_eq!(within(Path::new("a.md"), "/etc/passwd"), None);
        assert_eq!(within(Path::new("a.md"), "https://example.org/tour.md"), None);
    }

    #[test]
    fn pages_of_codes_are_known_by_their_names() {
        assert_eq!(code(Path::new("errors/E401.md")), Some("E401"));
        assert_eq!(code(Path::new("errors/Élan.md")), None);
        assert_eq!(code(Path::new("guide/E40.md")), None);
    }
}
