//! E601 to E606: tensor subclasses. The names in a class's texts exist, metadata are kept, the operators that a text
//! calls have a rule, and a rule means what its operator means.

mod allowed;
pub mod chain;
mod declared;
mod draw;
mod hidden;
mod meaning;
mod meta;
mod scope;
mod slopes;
mod texts;
pub mod world;

use std::sync::Arc;

use fulgurite_core::lang::ast::{Block, Node, OptType};

use fulgurite_core::lower::Rows;
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::subclass::{Class, Cotangent, Rule, Target};
use fulgurite_core::{DType, Name};
use rustc_hash::{FxHashMap, FxHashSet};

use super::cases::{self, Family};
use super::closure;
use super::element;
use super::gradients::arrays::dense::Library;
use super::rows::RowSet;
use crate::diag::{Diag, Diagnostics};
use crate::parallel;
use crate::schema::{ClassSource, Database, RowSource};
use crate::source::Place;
use crate::yaml::Text;
use fulgurite_core::foreign::is_alias;
use meaning::{Found, Refuted};
use world::World;

/// Checks the classes of `db` that are `wanted`, and their rules for the rows that are. `set` has the rows, and
/// `families` the calls of the wanted ones.
pub fn check(
    db: &Database,
    set: &RowSet,
    families: &FxHashMap<Name, Family>,
    wanted: &FxHashSet<Name>,
    diags: &mut Diagnostics,
) {
    let before = diags.errors();
    texts::check(db, set, diags);
    if diags.errors() > before || db.classes.is_empty() && db.upstream.is_empty() {
        return;
    }
    let library = Library::new(set);
    let Some(world) = world(db, &library) else { return };
    for (class, source) in world.classes.iter().zip(&db.classes).filter(|(class, _)| wanted.contains(&class.name)) {
        let faults = kept(class, source).or_else(|| closed(&world, class, source));
        faults.into_iter().for_each(|diag| diags.push(diag));
    }
    if diags.errors() == before {
        meanings(&Sources { db, set, families, wanted, world: &world }, diags);
    }
}

/// The classes of `db` and of the databases that it uses, with the rows that make their tensors.
pub fn world<'a>(db: &Database, library: &'a Library<'a>) -> Option<World<'a>> {
    let sources = || db.classes.iter().chain(&db.upstream);
    let classes = sources().map(ClassSource::lower).collect::<Option<Vec<Class>>>()?;
    let makers = sources().flat_map(|c| &c.from).map(|row| (row.name(), Arc::new(row.lower_to_row()))).collect();
    let own = db.rows.iter().flat_map(|row| {
        let rule = |(class, text): &(Text, Text)| {
            Some(((row.name(), Name::new(class.as_str())), Class::rule(text.as_str()).ok()?))
        };
        row.subclass.iter().filter_map(rule)
    });
    let wholes = classes.iter().map(whole).collect();
    Some(World { library, classes, wholes, makers, own: own.collect() })
}

/// The row that makes a tensor of the class from its fields and metadata.
fn whole(class: &Class) -> Arc<Row> {
    let [row, ..] = fulgurite_core::subclass::ports(class);
    Arc::new(row)
}

/// E603 of a class and the rows that make its tensors: metadata must come out as they go in, and rows must give them.
fn kept(class: &Class, source: &ClassSource) -> Option<Diag> {
    let name = class.name;
    if let Some((meta, how)) = meta::unstable(class) {
        let claim = format!("the metadata `{meta}` of `{name}` do not come out as they go in");
        let diag = Diag::error("E603", source.sig.text.place, claim).note(how);
        return Some(diag.help("give it a type of which every value is kept as it is given"));
    }
    for row in &source.from {
        let crate::schema::Body::Decomp(rule) = &row.body else { continue };
        if let Some((meta, at)) = meta::defaulted(class, &rule.tree) {
            let claim = format!("`{}` makes a `{name}` without `{meta}`", row.op.as_str());
            let diag = Diag::error("E603", rule.text.at(at), claim).here("this takes the default");
            let why = format!("what a `{name}` stands for depends on `{meta}`, which `{}` may know", row.op.as_str());
            return Some(diag.note(why).help(format!("give it: `{meta} = …`")));
        }
    }
    None
}

/// E603 of a rule for a row with several tensors: it must not keep the metadata of the first one only.
fn first_only(class: &Class, row: &Row, rule: &Rule, text: &Text) -> Option<Diag> {
    let (meta, at) = match rule {
        Rule::Each => (meta::each_of_several(class, row)?, text.place),
        Rule::Block(block) => {
            let (meta, at) = meta::first_of_several(class, row, block)?;
            (meta, text.at(at))
        }
        Rule::Error | Rule::Plain | Rule::Placed => return None,
    };
    let claim = format!("the rule of `{}` for `{}` keeps `{meta}` of its first argument only", class.name, row.op);
    let diag = Diag::error("E603", at, claim);
    let diag = diag.note(format!("`plain` reads `{meta}`, and `{}` takes several tensors", row.op));
    Some(diag.help(format!("write `{meta} = same({meta})`, or how it follows from those of the arguments")))
}

/// E604: an operator that a text calls on a tensor of the class has no rule, or is refused.
fn closed(world: &World, class: &Class, source: &ClassSource) -> Option<Diag> {
    let blocks = texts_of(world, class, source);
    blocks.into_iter().find_map(|(key, text, block, names)| {
        let dead = chain::dead(world, class, &block, &names)?;
        let last = dead.chain.last()?;
        let why = if dead.refused { "refuses" } else { "has no rule for" };
        let claim = match dead.chain.len() {
            1 => format!("`{key}` of `{0}` calls `{last}` on a `{0}`, which {why} it", class.name),
            _ => format!("`{key}` of `{0}` calls `{1}` on a `{0}`, which {why} `{last}`", class.name, dead.chain[0]),
        };
        let diag = Diag::error("E604", text.at(dead.at), claim);
        let chain: Vec<&str> = dead.chain.iter().map(|op| op.as_str()).collect();
        let diag = if chain.len() > 1 { diag.note(format!("it is made of {}", chain.join(" → "))) } else { diag };
        Some(diag.help(format!("give the class a rule for `{last}`, or call it on a field, or on `plain`")))
    })
}

/// A key, its text, the parsed text, and the names in it that are tensors of the class.
type Told<'a> = (&'static str, &'a Text, Block, Vec<Name>);

/// The texts of a class in which operators may meet it.
fn texts_of<'a>(world: &World, class: &Class, source: &'a ClassSource) -> Vec<Told<'a>> {
    let mut told = Vec::new();
    let row = |op: Name| world.candidates(op).into_iter().next();
    for (targets, text) in &source.ops {
        let Ok(Rule::Block(block)) = Class::rule(text.as_str()) else { continue };
        let named = targets.as_str().split_whitespace().find_map(|t| match Class::target(t) {
            Target::Op(op) => row(op),
            Target::Kind(_) => None,
        });
        let names = named.map_or_else(Vec::new, |row| chain::operands(&row, &block, class));
        told.push(("ops", text, block, names));
    }
    for (op, args) in &source.grad {
        for (_, rule) in args {
            let named = row(Name::new(op.as_str()));
            let names = named.map_or_else(Vec::new, |row| chain::operands(&row, &rule.tree, class));
            told.push(("grad", &rule.text, rule.tree.clone(), names));
        }
    }
    if let (Cotangent::Made(block), Some(text)) = (&class.cotangent, &source.cotangent) {
        told.push(("cotangent", text, block.clone(), Vec::new()));
    }
    for from in &source.from {
        if let crate::schema::Body::Decomp(rule) = &from.body {
            told.push(("decomp", &rule.text, rule.tree.clone(), Vec::new()));
        }
    }
    told
}

/// The databases, rows and calls with which rules are checked.
struct Sources<'a> {
    db: &'a Database,
    set: &'a RowSet<'a>,
    families: &'a FxHashMap<Name, Family>,
    wanted: &'a FxHashSet<Name>,
    world: &'a World<'a>,
}

/// A rule for a row on a class, and where it stands.
struct Pair<'a> {
    class: usize,
    row: Arc<Row>,
    rule: &'a Rule,
    /// The text of the rule; `None` if it stands in a database that is not checked here.
    text: Option<&'a Text>,
    /// The place that is shown if there is no text: the row, or else the class.
    at: Place,
    /// Whether the rule names the row, rather than its kind.
    named: bool,
}

/// Reports E605, and E603 of rules for rows with several tensors.
///
/// A class or a row that leads to a faulty row is not judged.
fn meanings(of: &Sources, diags: &mut Diagnostics) {
    let mut pairs = pairs(of);
    pairs.retain(|pair| !closure::leads_to_broken(vec![pair.row.op], of.set));
    for (at, source) in of.db.classes.iter().enumerate() {
        let texts = texts_of(of.world, &of.world.classes[at], source);
        if closure::texts_reach_broken(texts.iter().map(|(_, _, block, _)| block), of.set) {
            pairs.retain(|pair| pair.class != at);
            continue;
        }
        if !of.wanted.contains(&source.name()) {
            continue;
        }
        if let Some((claim, notes)) = meaning::plain(of.world, at) {
            let diag = Diag::error("E605", source.plain.text.place, format!("`plain` of `{}` {claim}", source.name()));
            let help = "`plain` is the tensor that programs see: of the shape and dtype behind `->`";
            diags.push(notes.into_iter().fold(diag, Diag::note).help(help));
            pairs.retain(|pair| pair.class != at);
            continue;
        }
        if let Some((key, claim)) = allowed::check(of.world, at) {
            let told = source.error.iter().find(|(known, _)| *known == key);
            let place = told.or(source.error.first()).map_or(source.class.place, |(_, text)| text.place);
            let diag = Diag::error("E605", place, format!("`{key}` of `error` of `{}` {claim}", source.name()));
            diags.push(
                diag.help(
                    "say how far elements are from the plain ones: `rel: 0.01` of their magnitude, `abs` besides",
                ),
            );
            pairs.retain(|pair| pair.class != at);
            continue;
        }
        gradients(of, at, source, diags);
        let Some((row, Refuted { claim, notes, .. })) = meaning::made(of.world, at) else { continue };
        let place = source.error.first().map_or(source.class.place, |(_, text)| text.place);
        let diag = Diag::error("E605", place, format!("`{row}` {claim}"));
        let help = format!(
            "say how far the elements of a `{}` may be from the plain ones: `error: {{rel: …, abs: …}}`",
            source.name()
        );
        diags.push(notes.into_iter().fold(diag, Diag::note).help(help));
        pairs.retain(|pair| pair.class != at);
    }
    // a rule `placed` runs on pieces, and is proved to mean the same where it is bound
    pairs.retain(|pair| *pair.rule != Rule::Placed);
    let looked = parallel::map(&pairs, |pair| {
        let class = &of.world.classes[pair.class];
        if let Some(diag) = pair.text.and_then(|text| first_only(class, &pair.row, pair.rule, text)) {
            return Some(diag);
        }
        let calls = if pair.named { meaning::COMPARED } else { 1 };
        let found = match of.families.get(&pair.row.op) {
            Some(family) => meaning::compare(of.world, pair.class, &pair.row, family, calls),
            None => {
                let dtype = element(&pair.row);
                meaning::compare(of.world, pair.class, &pair.row, &cases::family(&pair.row, dtype), calls)
            }
        };
        verdict(of, pair, found)
    });
    let mut told: Vec<Place> = Vec::new();
    for diag in looked.into_iter().flatten() {
        // a rule for a kind of operators is reported once
        if !told.contains(&diag.primary.place) {
            told.push(diag.primary.place);
            diags.push(diag);
        }
    }
}

/// E605 of the cotangents and gradients that a class declares, and E401 of those of the rows that make its tensors.
fn gradients(of: &Sources, at: usize, source: &ClassSource, diags: &mut Diagnostics) {
    let name = source.name();
    if let (Some(claim), Some(text)) = (slopes::of_cotangent(of.world, at), &source.cotangent) {
        let diag = Diag::error("E605", text.place, format!("`cotangent` of `{name}` {claim}"));
        diags.push(diag.help("make one of which `plain` is `g`"));
    }
    for row in source.from.iter().filter(|row| row.deviates.is_none()) {
        let first = row.sig.tree.params.first().map(|param| param.name.name);
        let rule = row.grad.iter().find(|(arg, _)| first.is_some_and(|first| first == arg.as_str()));
        let (Some((arg, rule)), Some(maker)) = (rule, of.world.makers.get(&row.name())) else { continue };
        let Some(claim) = slopes::of_maker(of.world, at, maker, &rule.tree) else { continue };
        let (op, arg) = (row.op.as_str(), arg.as_str());
        let diag = Diag::error("E401", rule.text.place, format!("the gradient of `{op}` for `{arg}` {claim}"));
        diags.push(diag.help("mend the rule; where it differs on purpose, say why in `deviates`"));
    }
    for (op, args) in &source.grad {
        let row = of.set.candidates(Name::new(op.as_str())).into_iter().next();
        for (arg, rule) in args {
            let wrong = match &row {
                _ if *op == "unflatten" => slopes::of_field(of.world, at, Name::new(arg.as_str()), &rule.tree)
                    .map(|claim| [claim, String::new()]),
                Some(row) => {
                    let made;
                    let family = match of.families.get(&row.op) {
                        Some(family) => family,
                        None => {
                            made = cases::family(row, element(row));
                            &made
                        }
                    };
                    slopes::of_row(of.world, at, row, Name::new(arg.as_str()), &rule.tree, family)
                }
                None => None,
            };
            let Some([claim, call]) = wrong else { continue };
            let (op, arg) = (op.as_str(), arg.as_str());
            let diag = Diag::error(
                "E605",
                rule.text.place,
                format!("the gradient of `{op}` for `{arg}` on a `{name}` {claim}"),
            );
            let diag = if call.is_empty() { diag } else { diag.note(call) };
            diags.push(diag.help("mend the rule, or leave it out: then it follows from the operator's"));
        }
    }
}

fn verdict(of: &Sources, pair: &Pair, found: Found) -> Option<Diag> {
    let (class, op) = (&of.world.classes[pair.class], pair.row.op);
    let place = pair.text.map_or(pair.at, |text| text.place);
    match found {
        Found::Right => None,
        Found::Wrong(refuted) => {
            let Refuted { claim, notes, dtype } = *refuted;
            // a dtype that the rule states is intended
            let stated = matches!(pair.rule, Rule::Block(block) if states_dtype(class, block));
            if dtype && stated {
                return None;
            }
            let diag = match dtype {
                true => Diag::error("E603", place, format!("`{op}` on a `{}` loses a dtype: it {claim}", class.name))
                    .help("say what the metadata that decides it becomes, or cast a field"),
                false => {
                    let diag = Diag::error("E605", place, format!("`{op}` on a `{}` {claim}", class.name));
                    diag.help(match pair.named {
                        true => {
                            "mend the rule; or let `error` say how far operators may be from the plain ones".to_owned()
                        }
                        false => format!(
                            "what the class says of rows of this kind does not fit: say what `{op}` is on it, \
                             `subclass: {{{}: plain}}`, `error` or a rule; or mend the class",
                            class.name
                        ),
                    })
                }
            };
            Some(notes.into_iter().fold(diag, Diag::note))
        }
        Found::Never(Some(refusal))
            if pair.named && *pair.rule != Rule::Error && can_be_drawn(of.world, pair.class) =>
        {
            let claim = format!("the rule of `{}` for `{op}` accepts no call that was tried", class.name);
            let diag = Diag::error("E605", place, claim).note(refusal.to_string());
            Some(diag.help("if it is meant to refuse, say `error`"))
        }
        Found::Never(_) => None,
    }
}

/// Whether a rule states the dtype of its result: by a cast, or by metadata that are a dtype and computed. A dtype that
/// is written out does not count, because the dtype that the arguments had is lost.
fn states_dtype(class: &Class, block: &Block) -> bool {
    let of_dtype = |at: usize| class.sig.opts.get(at).is_some_and(|opt| matches!(opt.ty, OptType::Dtype(_)));
    let fields = class.fields().count();
    super::walk::any(block, &mut |e| match &*e.node {
        Node::Cast(..) => true,
        Node::Call(f, args) if f.name == class.name => args.iter().enumerate().any(|(n, arg)| {
            let at = match arg.name {
                Some(name) => class.meta().position(|meta| meta == name.name),
                None => n.checked_sub(fields),
            };
            let written = matches!(&*arg.value.node, Node::Name(name) if DType::from_name(name.as_str()).is_some());
            at.is_some_and(of_dtype) && !written
        }),
        _ => false,
    })
}

/// Whether a tensor of the class can be made from some plain tensor: by fields of their declared types, or by a row
/// that needs no more.
fn can_be_drawn(world: &World, class: usize) -> bool {
    use fulgurite_core::eval::loop_nest::Array;
    let shapes: [&[usize]; 4] = [&[2, 4], &[4], &[2, 3, 4], &[]];
    shapes.into_iter().any(|shape| {
        let n = shape.iter().product();
        let like = Array::float(DType::F32, shape, (0..n).map(|i: usize| 0.5 + i as f64).collect());
        !draw::operands(world, class, &Arc::new(like), 1).is_empty()
    })
}

/// Every rule of this database's classes, and the rules that its rows meet in the classes of databases that it uses.
fn pairs<'a>(of: &'a Sources<'a>) -> Vec<Pair<'a>> {
    let own: FxHashMap<Name, &RowSource> = of.db.rows.iter().map(|row| (row.name(), row)).collect();
    let mut pairs = Vec::new();
    for name in of.set.names() {
        let mine = own.get(&name).copied();
        // if only a part of the database is wanted, its other rows are left out
        if mine.is_some() && !of.wanted.contains(&name) || of.set.is_broken(name) || is_other(name.as_str()) {
            continue;
        }
        let Some(row) = of.set.row(name) else { continue };
        for (class, rules) in of.world.classes.iter().enumerate() {
            let source = of.db.classes.get(class);
            let default = (!row.is_composite()).then_some(&rules.default);
            let rule = of.world.rule(&row, rules).or(default).filter(|_| source.is_some() || mine.is_some());
            let Some(rule) = rule else { continue };
            let written = mine.and_then(|r| r.subclass.iter().find(|(c, _)| rules.name == c.as_str()));
            let told = source.and_then(|source| text(of.world, source, rules, &row));
            let default = source.and_then(|source| source.default.as_ref());
            let text = written.map(|(_, text)| text).or(told.map(|(text, _)| text)).or(default);
            let at = mine.map(|row| row.op.place).or(source.map(|source| source.class.place));
            let Some(at) = at.filter(|_| *rule != Rule::Error) else { continue };
            let named = written.is_some() || told.is_some_and(|(_, named)| named);
            pairs.push(Pair { class, row: row.clone(), rule, text, at, named });
        }
    }
    pairs
}

/// The text of a class's rule for a row, and whether it names the row.
fn text<'a>(world: &World, source: &'a ClassSource, class: &Class, row: &Row) -> Option<(&'a Text, bool)> {
    let rule = class.rule_for(row, world.is_view(row))?;
    let found = source.ops.iter().find_map(|(targets, text)| {
        let mut targets = targets.as_str().split_whitespace().map(Class::target);
        let at = targets.find(|t| class.rules.iter().any(|(known, r)| known == t && std::ptr::eq(r, rule)))?;
        // a rule for an operator names its overloads too
        Some((text, matches!(at, Target::Op(op) if op == row.op || op == super::base(row.op))))
    });
    found.filter(|_| !matches!(row.meaning, Meaning::Host(_)))
}

/// Whether a row is derived, or a call of another library.
pub fn is_other(op: &str) -> bool {
    is_alias(op) || op.contains(".vjp.") || op.contains(".jvp.") || op.ends_with(".d")
}
