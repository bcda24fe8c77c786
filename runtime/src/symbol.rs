//! Symbols, which are rows at run time, and the registry of all databases linked into the program.

mod batched;
mod class;
mod mentions;
pub(crate) mod outer;

pub use batched::{BatchedSymbol, batch_of, batched};
pub(crate) use batched::{batch_named, refused};
pub use class::{Native, Port, Subclass, SubclassRef};

use fulgurite_core::autocast::{self, Class};
use fulgurite_core::facts::{self, RowFacts};
use fulgurite_core::foreign::is_alias;
use fulgurite_core::kernel::KernelEntry;
use fulgurite_core::lang::ast::{Block, Param};
use fulgurite_core::lower::Rows;
use fulgurite_core::row::{MeaningKind, Row, RowText};
use fulgurite_core::{Name, derive, refusals, subclass};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::{Arc, OnceLock, RwLock};

/// A row of a database, which `bind` can call. Its texts are parsed when they are first used.
pub struct Symbol {
    /// The crate whose database has the row.
    pub krate: &'static str,
    /// The texts of the row.
    pub text: RowText,
    row: OnceLock<Arc<Row>>,
    rules: OnceLock<Vec<Rule>>,
    autocast: OnceLock<Class>,
    facts: OnceLock<RowFacts>,
    view: OnceLock<bool>,
    refuses: OnceLock<bool>,
    /// The row's own rules for tensors of classes, by class.
    classes: OnceLock<Vec<(Name, subclass::Rule)>>,
    /// The groups of arguments, if the symbol has a custom backward.
    own: Option<Ports>,
    /// The class and the port, if the symbol makes tensors of the class or takes them apart.
    port: Option<(SubclassRef, Port)>,
    /// Whether lines of the symbol have programs that they run.
    control: bool,
}

/// The numbers of arguments of a line with a custom backward, in groups that follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ports {
    /// The results of the function's forward, which are the line's results.
    pub outs: usize,
    /// The function's arguments.
    pub ins: usize,
    /// The values that the backward reads of the forward.
    pub kept: usize,
    /// The inputs of the program that the backward reads or writes.
    pub variables: usize,
}

/// Two symbols are equal if they are one object.
pub type SymbolRef = &'static Symbol;

/// A gradient rule, with properties of its text.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The argument whose cotangent the rule computes.
    pub arg: Name,
    /// The rule, in the tensor language.
    pub block: Block,
    /// Whether the rule is `0`, so that the derivative is identically zero.
    pub zero: bool,
    /// Every name that the rule mentions.
    pub mentions: Vec<Name>,
}

impl Symbol {
    /// A symbol made of emitted texts.
    pub const fn new(krate: &'static str, text: RowText) -> Symbol {
        Symbol {
            krate,
            text,
            row: OnceLock::new(),
            rules: OnceLock::new(),
            autocast: OnceLock::new(),
            facts: OnceLock::new(),
            view: OnceLock::new(),
            refuses: OnceLock::new(),
            classes: OnceLock::new(),
            own: None,
            port: None,
            control: false,
        }
    }

    /// The symbol of lines with these arguments and a custom backward; it lives as long as the process.
    pub fn leak_own(ports: Ports, op: &'static str, sig: &'static str, body: &'static str) -> SymbolRef {
        let doc = "results of a function with a backward of its own";
        let text = RowText { op, doc, sig, kind: MeaningKind::Decomp, body, ..RowText::BLANK };
        Box::leak(Box::new(Symbol { own: Some(ports), ..Symbol::new("runtime", text) }))
    }

    /// The symbol of lines of control flow with arguments of these types; it lives as long as the process.
    pub fn leak_control(op: &'static str, sig: &'static str) -> SymbolRef {
        let doc = "runs programs of the trace";
        let text = RowText { op, doc, sig, kind: MeaningKind::Host, body: "control", ..RowText::BLANK };
        Box::leak(Box::new(Symbol { control: true, ..Symbol::new("runtime", text) }))
    }

    /// Whether lines of the symbol have programs that they run.
    pub fn is_control(&self) -> bool {
        self.control
    }

    /// The groups of arguments, if the symbol has a custom backward.
    pub fn own(&self) -> Option<Ports> {
        self.own
    }

    /// The class and the port, if the symbol makes tensors of the class or takes them apart.
    pub fn port(&self) -> Option<(SubclassRef, Port)> {
        self.port
    }

    /// A symbol made of a row at run time (derived rows beyond first order); it lives as long as the process.
    pub fn leak(krate: &'static str, text: RowText, row: Row) -> SymbolRef {
        let symbol = Symbol::new(krate, text);
        let _ = symbol.row.set(Arc::new(row));
        Box::leak(Box::new(symbol))
    }

    /// The symbol that makes tensors of a class or takes them apart; it lives as long as the process.
    fn leak_port(class: SubclassRef, port: Port, text: RowText, row: Row) -> SymbolRef {
        let symbol = Symbol { port: Some((class, port)), ..Symbol::new(class.krate, text) };
        let _ = symbol.row.set(Arc::new(row));
        Box::leak(Box::new(symbol))
    }

    /// The name of the row, without the crate.
    pub fn name(&self) -> &'static str {
        self.text.op
    }

    /// The row.
    pub fn row(&self) -> &Row {
        self.shared_row()
    }

    /// The autocast class, which decides how autocast treats the arguments.
    pub fn autocast(&self) -> Class {
        *self.autocast.get_or_init(|| autocast::class(self.row(), &Registered).0)
    }

    /// The facts about the row's meaning that transforms use.
    pub fn facts(&self) -> &RowFacts {
        self.facts.get_or_init(|| facts::of(self.row()))
    }

    /// Whether results share their argument's elements, so that a write to one is seen by the other
    /// ([`facts::is_view`]).
    pub fn is_view(&self) -> bool {
        *self.view.get_or_init(|| facts::is_view(self.row(), &|op| find(op).is_some_and(Symbol::is_view)))
    }

    /// Whether some call may refuse at run time, as far as the row's text decides; `false` is certain.
    pub fn may_refuse(&self) -> bool {
        self.refuses_within(&RefCell::default())
    }

    /// Like [`Symbol::may_refuse`], while it is computed for the rows `around`. A row that calls itself, as an overload
    /// does, refuses only if another part of it does.
    fn refuses_within(&self, around: &RefCell<Vec<*const Symbol>>) -> bool {
        if let Some(known) = self.refuses.get() {
            return *known;
        }
        let own = std::ptr::from_ref(self);
        if around.borrow().contains(&own) {
            return false;
        }
        around.borrow_mut().push(own);
        let calls = |name: Name| candidates(name).iter().any(|s| s.refuses_within(around));
        let found = refusals::of_text(self.row(), &calls);
        around.borrow_mut().pop();
        // an answer found while other rows are computed may depend on what is not known about them yet
        if found || around.borrow().is_empty() {
            return *self.refuses.get_or_init(|| found);
        }
        found
    }

    /// The row's own rule for tensors of a class.
    pub fn class_rule(&self, class: Name) -> Option<&subclass::Rule> {
        let rules = self.classes.get_or_init(|| {
            // codegen emits only texts that it parsed
            let parsed = |(class, text): &(&str, &str)| Some((Name::new(class), subclass::Class::rule(text).ok()?));
            self.text.subclass.iter().filter_map(parsed).collect()
        });
        rules.iter().find(|(of, _)| *of == class).map(|(_, rule)| rule)
    }

    /// The rule for tensors of a class: the row's own, or the class's rule for the row or its kind.
    pub fn rule_on(&self, class: SubclassRef) -> Option<&subclass::Rule> {
        self.class_rule(class.name()).or_else(|| class.rules().rule_for(self.row(), self.is_view()))
    }

    fn shared_row(&self) -> &Arc<Row> {
        self.row.get_or_init(|| match Row::parse(&self.text) {
            Ok(row) => Arc::new(row),
            // invariant: codegen emits only texts that it printed from parsed trees; a test parses every emitted row
            Err(e) => unreachable!("emitted row `{}` does not parse: {e}", self.text.op),
        })
    }

    /// The gradient rule for an argument: the row's own (written, or derived by codegen), or one derived now, which
    /// rows beyond first order need. A composite without a rule has none derived, because its body is differentiated.
    /// Any other row is differentiated as a whole: line by line, an infinite value in a branch that is not taken would
    /// be multiplied by 0.
    pub fn vjp_rule(&self, arg: Name) -> Option<&Rule> {
        self.rules.get_or_init(|| self.make_rules()).iter().find(|r| r.arg == arg)
    }

    fn make_rules(&self) -> Vec<Rule> {
        let row = self.row();
        let mut rules: Vec<Rule> = row.vjp.iter().map(|(arg, block)| Rule::new(*arg, block.clone())).collect();
        let lacks = |rules: &[Rule], arg: Name| rules.iter().all(|r| r.arg != arg);
        let open = |p: &Param| derive::differentiable(&p.ty) && lacks(&rules, p.name.name);
        if row.is_composite() || row.no_grad.is_some() || !row.sig.params.iter().any(open) {
            return rules;
        }
        let derived = derive::derive(row, &Registered);
        for note in derived.notes {
            if let derive::Note::Zero(arg, _) = note
                && lacks(&rules, arg)
            {
                rules.push(Rule { arg, block: mentions::zero(), zero: true, mentions: Vec::new() });
            }
        }
        for (arg, block) in derived.rules {
            if lacks(&rules, arg) {
                rules.push(Rule::new(arg, block));
            }
        }
        for row in derived.rows {
            register(Symbol::leak_row(self, row));
        }
        rules
    }

    /// A symbol for a row that was made of another symbol's row at run time; it lives as long as the process.
    pub fn leak_row(of: &Symbol, row: Row) -> SymbolRef {
        let sig: &'static str = Box::leak(row.sig.to_string().into_boxed_str());
        let (file, line) = (of.text.file, of.text.line);
        let text = RowText { op: row.op.as_str(), doc: "derived at run time", sig, file, line, ..RowText::BLANK };
        Symbol::leak(of.krate, text, row)
    }
}

impl Rule {
    fn new(arg: Name, block: Block) -> Rule {
        Rule { arg, zero: mentions::is_zero(&block), mentions: mentions::names(&block), block }
    }
}

impl std::fmt::Debug for Symbol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}::{}", self.krate, self.text.op)
    }
}

/// The rows of one database crate.
pub struct Database {
    /// The crate.
    pub krate: &'static str,
    /// The rows and derived rows.
    pub symbols: &'static [&'static Symbol],
    /// The CPU tile kernels.
    pub kernels: &'static [&'static [KernelEntry]],
    /// The tensor subclasses.
    pub classes: &'static [SubclassRef],
    /// Other libraries' calls of these rows and of rows upstream, in the order in which they are tried.
    pub calls: &'static [ForeignCall],
}

/// A call of a row by its name in another library.
#[derive(Clone, Copy, Debug)]
pub struct ForeignCall {
    /// The name of the row.
    pub op: &'static str,
    /// The library.
    pub library: &'static str,
    /// The name or call form there: `gather(input: x, dim, index)`.
    pub form: &'static str,
}

inventory::collect!(&'static Database);

/// The CPU tile kernels of every linked database.
pub fn kernels() -> impl Iterator<Item = &'static KernelEntry> {
    inventory::iter::<&'static Database>.into_iter().flat_map(|d| d.kernels.iter().copied().flatten())
}

#[derive(Default)]
struct Registry {
    by_name: FxHashMap<&'static str, SymbolRef>,
    /// Rows called `base.something`, by `base`, in the order of their names.
    overloads: FxHashMap<&'static str, Vec<SymbolRef>>,
    classes: FxHashMap<&'static str, SubclassRef>,
}

/// Second parts of names that mark a derived row (`gelu.d`, `matmul.vjp.a`) rather than an overload (`matmul.mv`).
const DERIVED: [&str; 3] = ["vjp", "jvp", "d"];

impl Registry {
    fn insert(&mut self, symbol: SymbolRef) -> SymbolRef {
        let name = symbol.name();
        if let Some(old) = self.by_name.get(name) {
            return old;
        }
        self.by_name.insert(name, symbol);
        if let Some((base, rest)) = name.split_once('.')
            && !is_alias(name)
            && !rest.contains('.')
            && !DERIVED.contains(&rest)
        {
            let overloads = self.overloads.entry(base).or_default();
            let at = overloads.partition_point(|s| s.name() < name);
            overloads.insert(at, symbol);
        }
        symbol
    }
}

impl Registry {
    /// The symbol `C`, `C.unflatten`, `C.flatten` or `C.plain` of a class `C`.
    fn port(&self, name: &str) -> Option<SymbolRef> {
        let (class, port) = name.split_once('.').unwrap_or((name, Port::Unflatten.word()));
        let class = self.classes.get(class)?;
        Port::ALL.into_iter().find(|p| p.word() == port).map(|port| class.port(port))
    }
}

fn registry() -> &'static RwLock<Registry> {
    static REGISTRY: OnceLock<RwLock<Registry>> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let mut registry = Registry::default();
        for database in inventory::iter::<&'static Database> {
            for symbol in database.symbols {
                registry.insert(symbol);
            }
            database.classes.iter().for_each(|c| _ = registry.classes.entry(c.text.class).or_insert(c));
        }
        for class in inventory::iter::<SubclassRef> {
            registry.classes.entry(class.text.class).or_insert(class);
        }
        RwLock::new(registry)
    })
}

/// The symbol with this name in any linked database, or the one that makes tensors of a class or takes them apart.
pub fn find(name: Name) -> Option<SymbolRef> {
    let registry = registry().read().unwrap_or_else(|e| e.into_inner());
    let known = registry.by_name.get(name.as_str()).copied();
    known.or_else(|| registry.port(name.as_str()))
}

/// The class with this name in any linked database.
pub fn class(name: Name) -> Option<SubclassRef> {
    registry().read().unwrap_or_else(|e| e.into_inner()).classes.get(name.as_str()).copied()
}

/// Every class of the linked databases and of types with `#[derive(TensorSubclass)]`, by name.
pub fn classes() -> Vec<SubclassRef> {
    let registry = registry().read().unwrap_or_else(|e| e.into_inner());
    let mut classes: Vec<SubclassRef> = registry.classes.values().copied().collect();
    classes.sort_by_key(|c| c.text.class);
    classes
}

/// The rows that a call of `name` may mean: the row with that name, then its overloads `name.*`.
pub fn candidates(name: Name) -> Vec<SymbolRef> {
    let registry = registry().read().unwrap_or_else(|e| e.into_inner());
    let exact = registry.by_name.get(name.as_str()).copied().or_else(|| registry.port(name.as_str()));
    exact.into_iter().chain(registry.overloads.get(name.as_str()).into_iter().flatten().copied()).collect()
}

/// Registers a symbol made at run time (tests, derived rows beyond first order); an existing one with that name stays.
pub fn register(symbol: SymbolRef) -> SymbolRef {
    registry().write().unwrap_or_else(|e| e.into_inner()).insert(symbol)
}

/// A hash of a text, equal in every run.
fn hash(text: &str) -> u64 {
    use std::hash::{Hash, Hasher};
    let mut h = rustc_hash::FxHasher::default();
    text.hash(&mut h);
    h.finish()
}

/// Other libraries' calls of rows, database by database in the order of their crates.
pub fn foreign_calls() -> impl Iterator<Item = &'static ForeignCall> {
    let mut databases: Vec<&Database> = inventory::iter::<&'static Database>.into_iter().copied().collect();
    databases.sort_by_key(|database| database.krate);
    databases.into_iter().flat_map(|database| database.calls)
}

/// Every registered symbol, by name.
pub fn all() -> Vec<SymbolRef> {
    let mut symbols: Vec<_> = registry().read().unwrap_or_else(|e| e.into_inner()).by_name.values().copied().collect();
    symbols.sort_by_key(|s| s.name());
    symbols
}

/// The registered rows, for lowering bodies that call pointwise rows.
pub struct Registered;

impl Rows for Registered {
    fn row(&self, name: Name) -> Option<Arc<Row>> {
        Some(find(name)?.shared_row().clone())
    }
}
