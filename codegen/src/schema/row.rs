//! Reads one row: each key by its type; the faults of all keys are reported together.

use fulgurite_core::autocast::Class;
use fulgurite_core::foreign::LIBRARIES;
use fulgurite_core::lang::{Alias, Block, Dialect, Expr, Sig, parse_block, parse_expr, parse_rule, parse_sig};
use fulgurite_core::row::Ties;

use super::fields::Fields;
use super::keys::{BODIES, HINTS};
use super::{Body, KEYS, Kink, RowSource, Rule, SkipVjp, TestHints, further, hints, kinds, names, pointwise};
use crate::diag::{Diag, Diagnostics};
use crate::nearest::nearest;
use crate::source::Place;
use crate::yaml::{Node, ScalarKind, Text, Value};

/// Words that authors write for one of our keys.
const SYNONYMS: &[(&str, &str)] = &[
    ("name", "op"),
    ("description", "doc"),
    ("signature", "sig"),
    ("args", "sig"),
    ("body", "expr"),
    ("formula", "expr"),
    ("decomposition", "decomp"),
    ("vjp", "grad"),
    ("gradient", "grad"),
    ("backward", "grad"),
    ("derivative", "grad"),
    ("forward", "jvp"),
    ("requires", "require"),
    ("check", "require"),
    ("promotion", "promote"),
    ("dtype", "dtypes"),
    ("nondifferentiable", "no_grad"),
];

/// Reads a row. Returns its name if that is legal, and the row if it has no fault.
pub(super) fn read(node: Node, diags: &mut Diagnostics) -> (Option<Text>, Option<RowSource>) {
    let place = node.place;
    let Value::Map(entries) = node.value else {
        let diag = Diag::error("E005", place, format!("{} stands where a row belongs", node.kind()));
        diags.push(diag.help("a row is `- op: name` and its other keys below"));
        return (None, None);
    };
    let mut row = RowReader { fields: Fields::new(diags), entries, op: None, place };
    let read = row.read();
    let op = row.op.take();
    (op, read.filter(|_| !row.fields.broken))
}

struct RowReader<'a> {
    fields: Fields<'a>,
    entries: Vec<(Text, Node)>,
    op: Option<Text>,
    place: Place,
}

impl RowReader<'_> {
    fn read(&mut self) -> Option<RowSource> {
        let keys: Vec<Text> = self.entries.iter().map(|(key, _)| key.clone()).collect();
        self.name()?;
        self.unknown_keys();
        let body = self.body();
        let promote = self.chosen("promote", kinds::promote);
        let promotes_to_bool = promote.as_ref().is_some_and(|kind| kinds::is(&kind.tree, "bool"));
        let sig = self.sig(body.as_ref(), promotes_to_bool);
        let doc = self.doc();
        let dtypes = self.chosen("dtypes", kinds::dtypes);
        let acc = self.chosen("acc", kinds::acc);
        let require = self.require();
        let (grad, jvp) = (self.rules("grad"), self.rules("jvp"));
        let ties = self.ties();
        let at = self.kinks();
        let no_grad = self.text("no_grad");
        let deviates = self.text("deviates");
        let once = self.text("once");
        let rounds = self.text("rounds");
        let skip_vjp = self.skip_vjp();
        let (subclass, autocast) = (self.subclass(), self.autocast());
        let kernels = self.kernels();
        let aliases = self.aliases();
        let tests = self.tests();
        Some(RowSource {
            place: self.place,
            keys,
            op: self.op.clone()?,
            doc: doc?,
            sig: sig?,
            promote,
            dtypes,
            body: body?,
            acc,
            require,
            grad,
            jvp,
            ties,
            at,
            no_grad,
            deviates,
            once,
            rounds,
            skip_vjp,
            subclass,
            autocast,
            kernels,
            aliases,
            tests,
            further: Vec::new(),
        })
    }

    fn take(&mut self, key: &str) -> Option<Node> {
        let at = self.entries.iter().position(|(k, _)| *k == key)?;
        Some(self.entries.remove(at).1)
    }

    fn name(&mut self) -> Option<()> {
        let Some(node) = self.take("op") else {
            let first = self.entries.first().map_or(self.place, |(key, _)| key.place);
            let class = self.entries.iter().any(|(key, _)| *key == "class");
            let help = if class {
                "classes stand below `subclasses:`, in front of `ops:`"
            } else {
                "a row starts with `- op: name`"
            };
            self.fields.error(Diag::error("E004", first, "a row has no key `op`").help(help));
            return None;
        };
        let op = self.fields.text(node, "op")?;
        if let Some(fault) = names::check_op(&op) {
            self.fields.error(fault);
            return None;
        }
        self.fields.op = op.text.clone();
        self.op = Some(op);
        Some(())
    }

    fn unknown_keys(&mut self) {
        for (key, _) in &self.entries {
            let name = key.as_str();
            if name.is_empty() || KEYS.iter().any(|key| key.name == name) {
                continue;
            }
            let synonym = SYNONYMS.iter().find(|(other, _)| *other == name).map(|(_, key)| *key);
            let near = synonym.or_else(|| nearest(name, KEYS.iter().map(|key| key.name)));
            let diag = Diag::error("E004", key.place, format!("`{name}` is no key of a row"));
            self.fields.error(match near {
                _ if HINTS.iter().any(|hint| hint.name == name) => {
                    diag.help(format!("it stands below `tests`: `tests: {{{name}: …}}`"))
                }
                Some(near) => diag.help(format!("did you mean `{near}`?")),
                None => diag.help("cargo ops explain keys"),
            });
        }
    }

    /// The place at which a missing key is reported.
    fn head(&self) -> Place {
        self.op.as_ref().map_or(self.place, |op| op.place)
    }

    fn body(&mut self) -> Option<Body> {
        let given: Vec<Place> =
            self.entries.iter().filter(|(key, _)| BODIES.contains(&key.as_str())).map(|(key, _)| key.place).collect();
        let op = self.fields.op.clone();
        match given.as_slice() {
            [] => {
                let diag = Diag::error("E011", self.head(), format!("`{op}` has no meaning"));
                self.fields.error(diag.help("give one of `expr`, `view`, `decomp` and `host`"));
                return None;
            }
            [_] => {}
            [first, others @ ..] => {
                let mut diag = Diag::error("E011", others[0], format!("`{op}` has {} meanings", given.len()));
                diag = diag.here("delete all but one").label(*first, "one is here");
                for more in &others[1..] {
                    diag = diag.label(*more, "and here");
                }
                self.fields.error(diag);
                return None;
            }
        }
        for key in BODIES {
            let Some(node) = self.take(key) else { continue };
            return match key {
                "host" => {
                    let name = self.fields.rule_text(node, key)?;
                    Some(Body::Host(name))
                }
                "decomp" => self.block(node, key, Dialect::Tensor).map(Body::Decomp),
                "view" => self.block(node, key, Dialect::Index).map(Body::View),
                _ => self.block(node, key, Dialect::Index).map(Body::Expr),
            };
        }
        None
    }

    fn block(&mut self, node: Node, key: &str, dialect: Dialect) -> Option<Rule<Block>> {
        self.fields.rule(node, key, |text| parse_block(text, dialect))
    }

    fn expr(&mut self, node: Node, key: &str) -> Option<Rule<Expr>> {
        self.fields.rule(node, key, |text| parse_expr(text, Dialect::Index))
    }

    fn sig(&mut self, body: Option<&Body>, promotes_to_bool: bool) -> Option<Rule<Sig>> {
        let Some(node) = self.take("sig") else {
            let made = match body {
                Some(Body::Expr(rule)) => {
                    pointwise::sig_text(&rule.tree, promotes_to_bool).map(|sig| (sig, rule.text.place))
                }
                Some(_) => None,
                // The body has a fault of its own, or is missing; one message is enough.
                None => return None,
            };
            let Some((text, place)) = made else {
                let diag = Diag::error("E004", self.head(), format!("`{}` has no `sig`", self.fields.op));
                self.fields.error(
                    diag.help("only a pointwise `expr` can do without: its arguments are the names that it reads"),
                );
                return None;
            };
            let tree = parse_sig(&text).ok()?;
            return self.sig_names(Rule { tree, text: Text::made(text, place) });
        };
        let rule = self.fields.rule(node, "sig", parse_sig)?;
        self.sig_names(rule)
    }

    fn sig_names(&mut self, rule: Rule<Sig>) -> Option<Rule<Sig>> {
        for fault in names::check_sig(&rule, &self.fields.op) {
            self.fields.error(fault);
        }
        Some(rule)
    }

    fn doc(&mut self) -> Option<Text> {
        let Some(node) = self.take("doc") else {
            let diag = Diag::error("E004", self.head(), format!("`{}` has no `doc`", self.fields.op));
            self.fields.error(diag.help("add one sentence: it is the row's page, tooltip and help text"));
            return None;
        };
        self.fields.sentence(node, "doc")
    }

    fn text(&mut self, key: &str) -> Option<Text> {
        let node = self.take(key)?;
        self.fields.text(node, key)
    }

    /// An expression whose values belong to a vocabulary.
    fn chosen(&mut self, key: &str, vocabulary: fn(&Expr) -> Result<(), kinds::Stray>) -> Option<Rule<Expr>> {
        let node = self.take(key)?;
        let rule = self.expr(node, key)?;
        if let Err(stray) = vocabulary(&rule.tree) {
            let message = format!("`{key}` of `{}`: {}", self.fields.op, stray.claim);
            let diag = Diag::error("E006", rule.text.at(stray.span), message);
            self.fields.error(diag.help(stray.help));
            return None;
        }
        Some(rule)
    }

    fn require(&mut self) -> Vec<(Rule<Expr>, Text)> {
        let Some(node) = self.take("require") else { return Vec::new() };
        let mut all = Vec::new();
        for (cond, message) in self.fields.map(node, "require") {
            // `{'c': give a, not b}` has a second entry `not b` without a value: that is the fault, not its syntax.
            if matches!(message.value, Value::Null) {
                let what = "a message";
                self.fields.wrong_type(&message, "require", what, Some("a condition has a message, what a refused call is told: `'lo < hi': 'lo must be less than hi'`; one with a comma is quoted"));
                continue;
            }
            let cond = self.fields.rule_of(cond, "require", |text| parse_expr(text, Dialect::Index));
            let message = self.fields.text(message, "require");
            if let Some(empty) = message.as_ref().filter(|message| message.as_str().trim().is_empty()) {
                let claim = format!("a condition in `require` of `{}` has an empty message", self.fields.op);
                let help = "say what a refused call is told: `'lo < hi': 'lo must be less than hi'`";
                self.fields.error(Diag::error("E005", empty.place, claim).help(help));
            }
            all.extend(cond.zip(message));
        }
        all
    }

    fn rules(&mut self, key: &str) -> Vec<(Text, Rule<Block>)> {
        let Some(node) = self.take(key) else { return Vec::new() };
        let entries = self.fields.map(node, key);
        entries.into_iter().filter_map(|(arg, node)| Some((arg, self.block(node, key, Dialect::Tensor)?))).collect()
    }

    fn ties(&mut self) -> Option<(Ties, Text)> {
        let text = self.text("ties")?;
        let ties = Ties::from_word(text.as_str());
        if ties.is_none() {
            let message = format!("`ties` of `{}` is `{}`", self.fields.op, text.as_str());
            self.fields.error(Diag::error("E005", text.place, message).help("it is `first`, `last` or `even`"));
        }
        Some((ties?, text))
    }

    fn autocast(&mut self) -> Option<(Class, Text)> {
        let text = self.text("autocast")?;
        let class = Class::from_word(text.as_str());
        if class.is_none() {
            let message = format!("`autocast` of `{}` is `{}`", self.fields.op, text.as_str());
            let help = "it is `lower`, `fp32`, `promote` or `none`, and needed only where the derived class is wrong";
            self.fields.error(Diag::error("E005", text.place, message).help(help));
        }
        class.map(|class| (class, text))
    }

    fn kinks(&mut self) -> Vec<Kink> {
        let Some(node) = self.take("at") else { return Vec::new() };
        let mut kinks = Vec::new();
        for (cond, node) in self.fields.map(node, "at") {
            let cond = self.fields.rule_of(cond, "at", |text| parse_expr(text, Dialect::Index));
            let entries = self.fields.map(node, "at");
            let partials = entries.into_iter().filter_map(|(arg, node)| Some((arg, self.expr(node, "at")?))).collect();
            kinks.extend(cond.map(|cond| Kink { cond, partials }));
        }
        kinks
    }

    fn skip_vjp(&mut self) -> Option<(SkipVjp, Place)> {
        let node = self.take("skip_vjp")?;
        let place = node.place;
        match node.value {
            Value::Scalar(Text { kind: ScalarKind::Bool(all), .. }) => Some((SkipVjp::All(all), place)),
            Value::List(_) => Some((SkipVjp::Arguments(self.fields.names(node, "skip_vjp")), place)),
            _ => {
                let hint = "write `true`, `false` or a list of arguments; in YAML `no`, `off` and `n` are texts";
                self.fields.wrong_type(&node, "skip_vjp", "`true`, `false` or a list of arguments", Some(hint));
                None
            }
        }
    }

    /// `subclass`: rules as in `ops` of a class.
    fn subclass(&mut self) -> Vec<(Text, Text)> {
        let Some(node) = self.take("subclass") else { return Vec::new() };
        let entries = self.fields.map(node, "subclass").into_iter();
        entries
            .filter_map(|(class, node)| {
                let text = self.fields.rule_text(node, "subclass")?;
                match matches!(text.as_str(), "error" | "plain" | "each") {
                    true => Some((class, text)),
                    false => Some((class, self.fields.rule_of(text, "subclass", parse_rule)?.text)),
                }
            })
            .collect()
    }

    fn kernels(&mut self) -> Vec<(Text, Text)> {
        self.take("kernels").map_or_else(Vec::new, |node| self.fields.texts(node, "kernels"))
    }

    /// `aten`, `torch` and `onnx`: names and call forms.
    fn aliases(&mut self) -> Vec<(&'static str, Rule<Alias>)> {
        let mut all = Vec::new();
        for library in LIBRARIES {
            if let Some(node) = self.take(library) {
                all.extend(further::calls(&mut self.fields, library, node));
            }
        }
        all
    }

    fn tests(&mut self) -> TestHints {
        let mut tests = TestHints::default();
        let Some(node) = self.take("tests") else { return tests };
        for (key, node) in self.fields.map(node, "tests") {
            match key.as_str() {
                "domain" => {
                    tests.domain = self.fields.texts(node, "domain");
                    for (arg, text) in &tests.domain {
                        hints::domain(&self.fields.op, arg, text).into_iter().for_each(|diag| self.fields.error(diag));
                    }
                }
                "points" => tests.points = self.fields.points(node),
                other => {
                    let diag = Diag::error("E004", key.place, format!("`{other}` is no key of `tests`"));
                    let known: Vec<&str> = HINTS.iter().map(|key| key.name).collect();
                    self.fields.error(diag.help(match nearest(other, known.iter().copied()) {
                        _ if other.is_empty() => format!("write a key before the colon: {}", known.join(", ")),
                        _ if matches!(other, "tol" | "rtol" | "atol") => {
                            "leave it out: how far kernels may be from the meaning follows from bounds of the error".to_owned()
                        }
                        _ if other == "sizes" => {
                            "leave it out: sizes of tests follow from `sig`; a call of chosen sizes is one of `points`".to_owned()
                        }
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("its keys are {}", known.join(", ")),
                    }));
                }
            }
        }
        tests
    }
}
