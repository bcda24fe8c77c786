//! Reads rows from the YAML tree: the closed set of keys, their types, and every rule text parsed.
//!
//! The schema checks the form of a rule, not its meaning. A row with a fault is reported, key by key, and left out; its
//! name is kept, so that calls of it are not reported as well.

use std::collections::HashMap;

use fulgurite_core::Name;
use fulgurite_core::autocast::Class;
use fulgurite_core::lang::{Alias, Block, Expr, Sig};
use fulgurite_core::row::Ties;

use crate::diag::{Diag, Diagnostics};
use crate::nearest::nearest;
use crate::parallel;
use crate::source::{FileId, Place, Sources};
use crate::yaml::{self, Node, Text, Value};

mod fields;
pub mod further;
mod hints;
mod keys;
mod kinds;
mod lower;
mod names;
mod pointwise;
mod row;
mod same;
mod subclass;

pub use further::Further;
pub use hints::interval;
pub use keys::{BODIES, CLASS, FILE_KEYS, Form, KEYS, Key};
pub use names::FORM;
pub use subclass::{CLASS_KEYS, ClassSource};

/// The blank in a new row that its author must fill; it is always refused.
pub const BLANK: &str = "___";

/// A rule text and its tree.
#[derive(Clone, Debug)]
pub struct Rule<T> {
    /// The tree; its spans are places in `text`.
    pub tree: T,
    /// The text; [`Text::at`] maps spans of the tree to the file.
    pub text: Text,
}

/// The meaning of a row.
#[derive(Clone, Debug)]
pub enum Body {
    /// Scalar or index notation.
    Expr(Rule<Block>),
    /// Scalar or index notation; the result aliases the argument.
    View(Rule<Block>),
    /// Tensor language.
    Decomp(Rule<Block>),
    /// A primitive of the runtime.
    Host(Text),
}

/// A convention at a kink.
#[derive(Clone, Debug)]
pub struct Kink {
    /// The condition under which it applies.
    pub cond: Rule<Expr>,
    /// The partial derivatives by argument.
    pub partials: Vec<(Text, Rule<Expr>)>,
}

/// The value of `skip_vjp`.
#[derive(Clone, Debug)]
pub enum SkipVjp {
    /// `true`: no gradient flows; `false`: some gradient flows.
    All(bool),
    /// No gradient flows into these arguments.
    Arguments(Vec<Text>),
}

impl SkipVjp {
    /// Whether no gradient flows to this argument.
    pub fn has(&self, arg: &str) -> bool {
        match self {
            SkipVjp::All(all) => *all,
            SkipVjp::Arguments(names) => names.iter().any(|name| *name == arg),
        }
    }
}

/// Hints for generated tests, of which only keys and types are checked.
#[derive(Clone, Debug, Default)]
pub struct TestHints {
    /// Ranges `lo..hi` by argument.
    pub domain: Vec<(Text, Text)>,
    /// Values and gradients at special points: maps.
    pub points: Vec<Node>,
}

/// A row as written, parsed.
#[derive(Clone, Debug)]
pub struct RowSource {
    /// The place of the whole row.
    pub place: Place,
    /// The keys of the row.
    pub keys: Vec<Text>,
    /// `op`
    pub op: Text,
    /// `doc`
    pub doc: Text,
    /// `sig`, or made from the free names of a pointwise `expr`.
    pub sig: Rule<Sig>,
    /// `promote`: an expression whose values are names of kinds.
    pub promote: Option<Rule<Expr>>,
    /// `dtypes`: an expression whose values are sums and differences of classes.
    pub dtypes: Option<Rule<Expr>>,
    /// The meaning.
    pub body: Body,
    /// `acc`: an expression whose values are dtypes or `wide`.
    pub acc: Option<Rule<Expr>>,
    /// `require`: condition, message.
    pub require: Vec<(Rule<Expr>, Text)>,
    /// `grad`: argument, rule.
    pub grad: Vec<(Text, Rule<Block>)>,
    /// `jvp`: argument, rule.
    pub jvp: Vec<(Text, Rule<Block>)>,
    /// `ties`
    pub ties: Option<(Ties, Text)>,
    /// `at`
    pub at: Vec<Kink>,
    /// `no_grad`
    pub no_grad: Option<Text>,
    /// `deviates`
    pub deviates: Option<Text>,
    /// `once`
    pub once: Option<Text>,
    /// `rounds`
    pub rounds: Option<Text>,
    /// `skip_vjp`, with its place.
    pub skip_vjp: Option<(SkipVjp, Place)>,
    /// `subclass`: rules by class.
    pub subclass: Vec<(Text, Text)>,
    /// `autocast`: the class where the derived one is wrong.
    pub autocast: Option<(Class, Text)>,
    /// `kernels`: executor, kernel.
    pub kernels: Vec<(Text, Text)>,
    /// `aten`, `torch`: names or call forms by library.
    pub aliases: Vec<(&'static str, Rule<Alias>)>,
    /// `tests`, including the points from files of points.
    pub tests: TestHints,
    /// The entries of the row in files of points.
    pub further: Vec<Place>,
}

impl RowSource {
    /// The place of this key; that of the row's name, if it has no such key.
    pub fn key(&self, key: &str) -> Place {
        self.keys.iter().find(|text| **text == key).map_or(self.op.place, |text| text.place)
    }

    /// Whether this place is in the row, or in its further points.
    pub fn holds(&self, at: Place) -> bool {
        self.places().any(|own| own.holds(at))
    }

    /// The places of the row and of its entries in files of points.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        [self.place].into_iter().chain(self.further.iter().copied())
    }

    /// Adds further points, and the calls of libraries that the row does not list itself. E008 if points of the row
    /// stand in two places.
    fn extend(&mut self, further: Further) -> Option<Diag> {
        let Further { op, place, points, aliases } = further;
        let own = |library: &str| self.keys.iter().any(|key| *key == *library);
        self.aliases.extend(aliases.into_iter().filter(|(library, _)| !own(library)));
        let met = self.tests.points.iter().find(|point| !points.is_empty() && !self.place.holds(point.place));
        let first = met.and_then(|met| self.further.iter().find(|entry| entry.holds(met.place)).copied());
        self.further.push(place);
        self.tests.points.extend(points);
        let claim = format!("there are points of `{}` in two places", op.text);
        let diag = Diag::error("E008", op.place, claim).here("here again").label(first?.head(), "first here");
        Some(diag.help("write all of them below one key"))
    }

    /// The operator's name.
    pub fn name(&self) -> Name {
        Name::new(self.op.as_str())
    }
}

/// Another library's calls of a row of an upstream database.
#[derive(Clone, Debug)]
pub struct Calls {
    /// The name of the row.
    pub op: Text,
    /// The place of the name and its calls.
    pub place: Place,
    /// `aten`, `torch`: names or call forms by library.
    pub aliases: Vec<(&'static str, Rule<Alias>)>,
}

/// A file of rows.
#[derive(Clone, Debug, Default)]
pub struct Database {
    /// The rows without a fault, in the order of the file.
    pub rows: Vec<RowSource>,
    /// Other libraries' calls of upstream rows.
    pub calls: Vec<Calls>,
    /// The names of the rows with a fault.
    pub broken: Vec<Name>,
    /// The place of each row, with its name if that can be read.
    pub places: Vec<(Option<Name>, Place)>,
    /// `subclasses`, as written.
    pub subclasses: Option<Node>,
    /// `subclasses`, parsed.
    pub classes: Vec<ClassSource>,
    /// The classes of upstream databases; their places are in other files.
    pub upstream: Vec<ClassSource>,
}

impl Database {
    /// The names of rows and classes.
    pub fn names(&self) -> impl Iterator<Item = Name> {
        self.rows.iter().map(RowSource::name).chain(self.classes.iter().map(ClassSource::name))
    }
}

/// Reads a database file that was added to `sources`. Faults go to `diags`: E001 to E006, E008, E011, E012.
pub fn read_database(file: FileId, sources: &Sources, diags: &mut Diagnostics) -> Database {
    let mut database = Database::default();
    let Some(root) = yaml::read(file, sources, diags) else { return database };
    let Value::Map(entries) = root.value else {
        let message = match root.value {
            Value::Null => "the file has no rows".to_owned(),
            _ => format!("{} stands where the file's keys belong", root.kind()),
        };
        let place = root.place.head();
        diags.push(
            Diag::error("E005", place, message).help("a database is `ops:` and below it, in column 1, `- op: …`"),
        );
        return database;
    };
    let last = entries.len().saturating_sub(1);
    let mut ops = None;
    let mut misnamed = false;
    for (at, (key, node)) in entries.into_iter().enumerate() {
        match key.as_str() {
            "points" | "calls" => further::path(key.as_str(), &node, sources, diags),
            "subclasses" => {
                database.classes = subclass::read(node.clone(), diags);
                database.subclasses = Some(node);
            }
            "ops" => {
                if at != last {
                    let diag = Diag::error("E004", key.place, "`ops` is not the last key of the file");
                    diags.push(diag.help("move it to the end, so that a row can be added by appending it"));
                }
                ops = Some(node);
            }
            other => {
                let diag = Diag::error("E004", key.place, format!("a database has no key `{other}`"));
                misnamed |= matches!(other, "rows" | "operators" | "op") || nearest(other, FILE_KEYS) == Some("ops");
                diags.push(diag.help(file_key(other)));
            }
        }
    }
    match ops {
        Some(node) => {
            rows(node, sources, diags, &mut database);
            further::attach(&mut database, sources, diags);
        }
        // The misspelt key is already reported.
        None if misnamed => {}
        None => {
            let place = root.place.head();
            let help = match &database.subclasses {
                Some(_) => "write `ops: []` below the subclasses: a database has rows, if only none",
                None => "rows stand below `ops:`",
            };
            diags.push(Diag::error("E004", place, "the file has no key `ops`").help(help));
        }
    }
    database
}

/// Advice on a key that a file does not have.
fn file_key(other: &str) -> String {
    // Rows define in place the words that other operator databases keep apart.
    match other {
        "enums" | "enum" => "an option has its words where it stands, in `sig`: `mode: enum(a, b) = a`".to_owned(),
        "rows" | "operators" => "did you mean `ops`?".to_owned(),
        "tags" | "tag" => "kinds of tags are declared in Rust: docs/transforms.md".to_owned(),
        _ if KEYS.iter().any(|key| key.name == other) => {
            format!(
                "`{other}` is a key of a row: below `ops:`, in column 1, stands `- op: name`, and its keys below that"
            )
        }
        _ => match nearest(other, FILE_KEYS) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("its keys are {}", FILE_KEYS.join(", ")),
        },
    }
}

fn rows(node: Node, sources: &Sources, diags: &mut Diagnostics, database: &mut Database) {
    let items = match node.value {
        Value::List(items) => items,
        Value::Null => return,
        _ => {
            let diag =
                Diag::error("E005", node.place, format!("{} stands where the list of rows belongs", node.kind()));
            diags.push(diag.help("each row starts with `- op: name`"));
            return;
        }
    };
    let column = sources.file(node.place.file).line_column(node.place.start as usize).column;
    if column != 1 && sources.text(node.place).starts_with('-') {
        let diag = Diag::error("E005", node.place.head(), format!("the rows stand in column {column}"));
        diags.push(diag.help("rows start in column 1, so that one can be added by appending it"));
    }
    let mut names: HashMap<String, Place> = HashMap::new();
    let read = |item: Node| {
        let mut diags = Diagnostics::new();
        let (place, (op, row)) = (item.place, row::read(item, &mut diags));
        // in a box, because a row has kilobytes, and a broken one would take their place among the results
        (place, op, row.map(Box::new), diags)
    };
    for (place, op, row, faults) in parallel::map_owned(items, read) {
        diags.extend(faults);
        database.places.push((op.as_ref().map(|op| Name::new(op.as_str())), place));
        let Some(op) = op else { continue };
        if let Some(first) = names.get(op.as_str()) {
            let diag = Diag::error("E008", op.place, format!("there are two rows `{}`", op.as_str()));
            diags
                .push(diag.here("here again").label(*first, "first here").help("an overload is named `op: name.kind`"));
            continue;
        }
        names.insert(op.text.clone(), op.place);
        let Some(row) = row else {
            database.broken.push(Name::new(op.as_str()));
            continue;
        };
        database.rows.push(*row);
    }
}

/// The signature of a pointwise `expr` whose row leaves it out; `None` if the formula is not pointwise.
pub fn pointwise_sig(formula: &str, promotes_to_bool: bool) -> Option<String> {
    let body = fulgurite_core::lang::parse_block(formula, fulgurite_core::lang::Dialect::Index).ok()?;
    pointwise::sig_text(&body, promotes_to_bool)
}
