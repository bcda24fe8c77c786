//! All pages of a site, as files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fulgurite_codegen::check::rows::RowSet;
use fulgurite_codegen::emit::Emitted;
use fulgurite_codegen::parallel;
use fulgurite_codegen::pipeline::{self, Table};
use fulgurite_core::counted;
use fulgurite_core::row::Row;
use fulgurite_ops_verbs::cli::{CommandFault, Loaded};
use fulgurite_ops_verbs::explain::{classes::ExplainedClass, pages, reference};
use serde_json::{Value, json};
use tera::{Context, Kwargs, State, Tera};

use crate::book::Book;
use crate::html::{anchor, inline};
use crate::markdown;
use crate::operator::{self, OperatorPage};
use crate::search::{self, SearchEntry};

/// A file of the site: its path from the root, and its text.
pub struct SiteFile {
    /// The path, with `/` between its parts.
    pub path: String,
    /// The text.
    pub text: String,
}

/// What a site shows.
pub struct Subject<'a> {
    /// The name on every page.
    pub title: String,
    /// The databases, the main one first.
    pub databases: &'a [Loaded],
    /// The book, if there is one.
    pub book: Option<Book>,
}

/// A family: the operators below one dividing comment of a database.
struct Family<'a> {
    title: String,
    says: String,
    url: String,
    database: usize,
    operators: Vec<OperatorPage<'a>>,
}

/// The most letters of a file's name that come from a title, because file systems limit names to 255 bytes.
const MOST_NAME: usize = 60;

const TEMPLATES: &[(&str, &str)] = &[
    ("frame.html", include_str!("../templates/frame.html")),
    ("index.html", include_str!("../templates/index.html")),
    ("operator.html", include_str!("../templates/operator.html")),
    ("operators.html", include_str!("../templates/operators.html")),
    ("family.html", include_str!("../templates/family.html")),
    ("class.html", include_str!("../templates/class.html")),
    ("errors.html", include_str!("../templates/errors.html")),
    ("text.html", include_str!("../templates/text.html")),
];

/// The pages, whose texts are known to be HTML already.
struct Press {
    tera: Tera,
    /// Values that every page has.
    common: Context,
}

impl Press {
    fn new(common: &Value) -> Result<Press, CommandFault> {
        let mut tera = Tera::default();
        tera.register_filter("inline", |text: &str, _: Kwargs, _: &State| tera::Value::safe_string(&inline(text)));
        tera.add_raw_templates(TEMPLATES.iter().copied()).map_err(bug)?;
        Ok(Press { tera, common: Context::from_serialize(common).map_err(bug)? })
    }

    /// The page at `path` of this template with these values.
    fn page(&self, template: &str, path: &str, title: &str, values: Value) -> Result<SiteFile, CommandFault> {
        let mut context = self.common.clone();
        context.extend(Context::from_serialize(&values).map_err(bug)?);
        context.insert("root", &"../".repeat(path.matches('/').count()));
        context.insert("here", path);
        context.insert("page_title", title);
        let text = self.tera.render(template, &context).map_err(bug)?;
        Ok(SiteFile { path: path.to_owned(), text })
    }
}

/// A template that does not fit its values is a fault of this crate.
fn bug(why: tera::Error) -> CommandFault {
    let mut text = why.to_string();
    let mut source = std::error::Error::source(&why);
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    CommandFault::failed("E999", format!("a template of the site does not fit: {text}")).help("please report it")
}

/// A database with the code that is generated from it.
struct Generated {
    emitted: Vec<Emitted>,
    table: Table,
}

/// Makes every file of the site. `told` is called with the number of finished operators and of all operators.
///
/// # Errors
/// E903: a database is broken.
pub fn files(subject: &Subject, told: &(dyn Fn(usize, usize) + Sync)) -> Result<Vec<SiteFile>, CommandFault> {
    let generated: Vec<Generated> = subject.databases.iter().map(generated).collect::<Result<_, _>>()?;
    let families = families(subject);
    let known: BTreeSet<&str> = families.iter().flat_map(|f| &f.operators).map(OperatorPage::name).collect();
    let mut entries: Vec<SearchEntry> =
        families.iter().flat_map(|f| f.operators.iter().map(|op| op.entry(f.database == 0))).collect();
    entries.extend(book_entries(subject.book.as_ref()));
    let classes = classes(subject, &generated);
    entries.extend(classes.iter().map(|(class, _)| SearchEntry {
        name: class.class.clone(),
        url: class_url(&class.class),
        kind: "subclass",
        says: class.doc.clone(),
        names: Vec::new(),
        properties: Vec::new(),
        main: false,
        text: String::new(),
    }));
    entries.extend(pages::PAGES.iter().map(|page| SearchEntry {
        name: page.code.to_owned(),
        url: format!("errors/{}.html", page.code),
        kind: "error",
        says: page.title().to_owned(),
        names: Vec::new(),
        properties: Vec::new(),
        main: false,
        text: String::new(),
    }));
    let press = Press::new(&common(subject, &families, &classes))?;
    let mut files = vec![
        SiteFile { path: "assets/site.css".to_owned(), text: include_str!("../assets/site.css").to_owned() },
        SiteFile { path: "assets/site.js".to_owned(), text: include_str!("../assets/site.js").to_owned() },
        SiteFile { path: "assets/index.js".to_owned(), text: search::script(&entries) },
        SiteFile { path: "assets/texts.js".to_owned(), text: search::texts(&entries) },
    ];
    files.push(press.page("index.html", "index.html", &subject.title, json!({"entries": entries.len()}))?);
    files.push(press.page("operators.html", "operators.html", "All operators", all(&families))?);
    for family in &families {
        let values = json!({"title": family.title, "says": family.says, "operators": listed(family)});
        files.push(press.page("family.html", &family.url, &family.title, values)?);
    }
    files.extend(operators(&families, &generated, &known, &press, told)?);
    for (class, explained) in &classes {
        let from: Vec<Value> = (explained["operators"].as_array().into_iter().flatten())
            .map(|met| {
                let op = met["op"].as_str().unwrap_or_default();
                json!({"op": op, "by": met["by"], "stopped_by": met["stopped_by"], "url": known.contains(op).then(|| operator::url(op))})
            })
            .collect();
        let values = json!({"class": explained, "met": from});
        files.push(press.page("class.html", &class_url(&class.class), &class.class, values)?);
    }
    files.extend(errors(&press)?);
    files.extend(book(subject.book.as_ref(), &press)?);
    Ok(files)
}

fn generated(loaded: &Loaded) -> Result<Generated, CommandFault> {
    let compiled = pipeline::compile_files(&loaded.files, &loaded.upstream).map_err(|refused| {
        let first = refused.diagnostics.sorted().first().map(|diag| diag.message.clone()).unwrap_or_default();
        let claim = format!("`{}` has faults: {first}", loaded.files.rows.path.display());
        CommandFault::failed("E903", claim).help("`cargo ops check` shows every fault at its place")
    })?;
    Ok(Generated { table: compiled.table(), emitted: compiled.rows })
}

/// The families of all databases, with the names that the databases downstream give to rows of those upstream.
fn families<'a>(subject: &'a Subject) -> Vec<Family<'a>> {
    let mut further: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for calls in subject.databases.iter().flat_map(|loaded| &loaded.database.calls) {
        let names = calls.aliases.iter().map(|(library, alias)| format!("{library}.{}", alias.text.as_str()));
        further.entry(calls.op.as_str()).or_default().extend(names);
    }
    let mut families = Vec::new();
    let mut urls = BTreeSet::new();
    for (database, loaded) in subject.databases.iter().enumerate() {
        let table = loaded.table();
        let mut rows = loaded.database.rows.iter().zip(&loaded.checked.rows);
        for group in reference::groups(&loaded.database, &loaded.checked, &table, &loaded.sources) {
            let name: String = anchor(&group.title).chars().take(MOST_NAME).collect();
            let mut url = format!("families/{name}.html");
            while !urls.insert(url.clone()) {
                url = url.replace(".html", "-more.html");
            }
            let made = rows.by_ref().take(group.rows.len()).zip(&group.rows).map(|((source, row), explained)| {
                let mut operator = OperatorPage::new(source, row, explained, (group.title.clone(), url.clone()));
                operator.names.extend(further.get(operator.name()).into_iter().flatten().cloned());
                operator.names.sort();
                operator.names.dedup();
                operator
            });
            let operators = made.collect();
            families.push(Family { title: group.title.clone(), says: group.says, url, database, operators });
        }
    }
    families
}

fn classes(subject: &Subject, generated: &[Generated]) -> Vec<(ExplainedClass, Value)> {
    let of = |(loaded, generated): (&Loaded, &Generated)| {
        reference::classes(&loaded.database, &loaded.checked, &generated.table, &loaded.sources)
    };
    let classes = subject.databases.iter().zip(generated).flat_map(of);
    classes
        .map(|(class, _)| {
            let json = class.json();
            (class, json)
        })
        .collect()
}

fn class_url(class: &str) -> String {
    format!("subclasses/{class}.html")
}

/// The navigation, and what stands on every page.
fn common(subject: &Subject, families: &[Family], classes: &[(ExplainedClass, Value)]) -> Value {
    let chapters = subject.book.iter().flat_map(|book| &book.pages);
    let chapters: Vec<Value> =
        chapters.map(|page| json!({"title": page.title, "url": page.url(), "depth": page.depth()})).collect();
    let several = subject.databases.len() > 1;
    let shelves: Vec<Value> = subject
        .databases
        .iter()
        .enumerate()
        .map(|(n, loaded)| {
            let of: Vec<&Family> = families.iter().filter(|family| family.database == n).collect();
            let count: usize = of.iter().map(|family| family.operators.len()).sum();
            let listed =
                of.iter().map(|f| json!({"title": f.title, "url": f.url, "count": f.operators.len(), "says": f.says}));
            json!({
                "file": loaded.files.rows.shown, "several": several, "count": count,
                "families": listed.collect::<Vec<_>>(),
            })
        })
        .collect();
    let count: usize = families.iter().map(|family| family.operators.len()).sum();
    let classes: Vec<Value> =
        classes.iter().map(|(c, _)| json!({"title": c.class, "url": class_url(&c.class), "says": c.doc})).collect();
    json!({
        "site": subject.title, "chapters": chapters, "shelves": shelves, "classes": classes,
        "count": counted(count, "operator", "operators"), "version": env!("CARGO_PKG_VERSION"),
    })
}

fn listed(family: &Family) -> Vec<Value> {
    let one = |op: &OperatorPage| {
        json!({
            "name": op.name(), "url": op.url(), "doc": op.source.doc.as_str(), "sig": op.row.sig.to_string(),
            "properties": op.properties(), "names": op.names,
        })
    };
    family.operators.iter().map(one).collect()
}

/// The list of all operators, with the number of those that have each property.
fn all(families: &[Family]) -> Value {
    let operators: Vec<Value> = families.iter().flat_map(listed).collect();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let properties = families.iter().flat_map(|f| &f.operators).flat_map(OperatorPage::properties);
    properties.for_each(|property| *counts.entry(property).or_default() += 1);
    let counts: Vec<Value> = counts.iter().map(|(name, n)| json!({"name": name, "count": n})).collect();
    json!({"operators": operators, "properties": counts})
}

/// The pages of all operators.
fn operators(
    families: &[Family],
    generated: &[Generated],
    known: &BTreeSet<&str>,
    press: &Press,
    told: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<SiteFile>, CommandFault> {
    let sets: Vec<RowSet> = generated
        .iter()
        .map(|of| {
            let own: Vec<Arc<Row>> = of.emitted.iter().map(|e| e.row.clone()).collect();
            RowSet::new(&of.table, own, &[])
        })
        .collect();
    let jobs: Vec<(&OperatorPage, usize)> =
        families.iter().flat_map(|family| family.operators.iter().map(|op| (op, family.database))).collect();
    let done = std::sync::atomic::AtomicUsize::new(0);
    let made = parallel::map(&jobs, |(op, database)| {
        let of = &generated[*database];
        let values = op.page(&sets[*database], &|name| known.contains(name), &of.emitted, &of.table);
        let page = press.page("operator.html", &op.url(), op.name(), values);
        told(done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1, jobs.len());
        page
    });
    made.into_iter().collect()
}

/// The page of each error code, and their list.
fn errors(press: &Press) -> Result<Vec<SiteFile>, CommandFault> {
    let list: Vec<Value> = pages::PAGES
        .iter()
        .map(|page| json!({"code": page.code, "title": page.title(), "url": format!("errors/{}.html", page.code)}))
        .collect();
    let mut files = vec![press.page("errors.html", "errors.html", "Error codes", json!({"errors": list}))?];
    for page in pages::PAGES {
        // codes link each other; other pages may not be in the site
        let link = |link: &str| {
            let name = link.rsplit('/').next().unwrap_or_default();
            let code = name.strip_suffix(".md").filter(|code| pages::PAGES.iter().any(|page| page.code == *code));
            code.map_or(String::new(), |code| format!("{code}.html"))
        };
        let rendered = markdown::render(page.text, &link);
        let values = json!({"html": rendered.html, "headings": [], "before": null, "after": null});
        files.push(press.page("text.html", &format!("errors/{}.html", page.code), page.code, values)?);
    }
    Ok(files)
}

fn book(book: Option<&Book>, press: &Press) -> Result<Vec<SiteFile>, CommandFault> {
    let Some(book) = book else { return Ok(Vec::new()) };
    let side = |at: Option<usize>| {
        at.and_then(|at| book.pages.get(at)).map(|page| json!({"title": page.title, "url": page.url()}))
    };
    let one = |(at, page): (usize, &crate::book::BookPage)| {
        let (html, headings) = book.render(page);
        let headings: Vec<Value> =
            (headings.iter().filter(|h| h.level == 2)).map(|h| json!({"text": h.text, "anchor": h.anchor})).collect();
        let values = json!({
            "html": html, "headings": headings, "before": side(at.checked_sub(1)), "after": side(Some(at + 1)),
        });
        press.page("text.html", &page.url(), &page.title, values)
    };
    book.pages.iter().enumerate().map(one).collect()
}

/// The sections of a book.
fn book_entries(book: Option<&Book>) -> Vec<SearchEntry> {
    let Some(book) = book else { return Vec::new() };
    let of = |page: &crate::book::BookPage| -> Vec<SearchEntry> {
        let (_, headings) = book.render(page);
        let entry = |h: &markdown::Heading| SearchEntry {
            name: h.text.clone(),
            url: if h.level == 1 { page.url() } else { format!("{}#{}", page.url(), h.anchor) },
            kind: "page",
            says: if h.level == 1 { String::new() } else { page.title.clone() },
            names: Vec::new(),
            properties: Vec::new(),
            main: false,
            text: h.below.clone(),
        };
        headings.iter().map(entry).collect()
    };
    book.pages.iter().flat_map(of).collect()
}
