//! E601, E602, E606: the texts of tensor subclasses. Rules are for operators that exist, call rows that exist, and name
//! parts that the class has. Classes that meet have an order.

use fulgurite_core::Name;
use fulgurite_core::derive::walk;
use fulgurite_core::lang::ast::{Arg, Block, Expr, Ident, Node, Param, Span, Stmt};
use fulgurite_core::lang::{Dialect, helpers, parse_rule};
use fulgurite_core::subclass::{Class, Kind, Target};

use crate::check::rows::RowSet;
use crate::diag::{Diag, Diagnostics};
use crate::nearest::nearest;
use crate::schema::{ClassSource, Database};
use crate::source::Place;
use crate::yaml::Text;

use super::scope::Scope;

/// Checks every class of `db`, whose rows are in `set`, and the rules that rows state for classes.
pub fn check(db: &Database, set: &RowSet, diags: &mut Diagnostics) {
    for (at, class) in db.classes.iter().enumerate() {
        let mut checks = Checks { class, of: class.class.as_str(), db, set, diags };
        let before = checks.diags.errors();
        checks.targets();
        checks.declared();
        checks.rules();
        checks.gradients();
        checks.read();
        checks.order(&db.classes[..at]);
        // a part that is unread because another name is misspelt would be a second message about one fault
        if checks.diags.errors() == before {
            checks.unread();
        }
    }
    for row in &db.rows {
        for (name, text) in &row.subclass {
            let Some(class) = db.classes.iter().chain(&db.upstream).find(|c| c.class.text == name.text) else {
                let claim =
                    format!("`subclass` of `{}` is for `{}`, which is no subclass", row.op.as_str(), name.as_str());
                let diag = Diag::error("E601", name.place, claim);
                let known = db.classes.iter().chain(&db.upstream).map(|c| c.class.as_str());
                diags.push(match nearest(name.as_str(), known) {
                    Some(near) => diag.help(format!("did you mean `{near}`?")),
                    None => diag.help("a rule is for a class of this database, or of one that it uses"),
                });
                continue;
            };
            let Ok(block) = parse_rule(text.as_str()) else { continue };
            if !matches!(text.as_str(), "error" | "plain" | "each") {
                let mut checks = Checks { class, of: row.op.as_str(), db, set, diags };
                let scope = checks.own().with_sig(&row.sig.tree).with(OF_RULES);
                checks.block(&block, text, "subclass", scope);
            }
        }
    }
}

/// The words that rules read besides arguments and parts.
const OF_RULES: &[&str] = &["plain", "error", "each"];

pub(super) struct Checks<'a> {
    pub(super) class: &'a ClassSource,
    /// The name of the class or of the row whose text is checked.
    of: &'a str,
    pub(super) db: &'a Database,
    pub(super) set: &'a RowSet<'a>,
    pub(super) diags: &'a mut Diagnostics,
}

impl Checks<'_> {
    pub(super) fn name(&self) -> &str {
        self.of
    }

    /// Checks that the operators and kinds of rules exist, and have one rule each.
    fn targets(&mut self) {
        let mut known: Vec<(&str, Place)> = Vec::new();
        for (targets, _) in &self.class.ops {
            let text = targets.as_str();
            for word in text.split_whitespace() {
                // a word is a slice of the text, so its address tells its place
                let start = word.as_ptr() as usize - text.as_ptr() as usize;
                let place = targets.at(Span::new(start, start + word.len()));
                if let Some((_, first)) = known.iter().find(|(other, _)| *other == word) {
                    let diag =
                        Diag::error("E008", place, format!("`ops` of `{}` has two rules for `{word}`", self.name()));
                    self.diags.push(
                        diag.here("here again").label(*first, "first here").help("the first one is taken: delete one"),
                    );
                    continue;
                }
                known.push((word, place));
                let diag = match Class::target(word) {
                    Target::Kind(_) => continue,
                    Target::Op(_) if word.starts_with("class(") => {
                        let known = Kind::WORDS.map(|kind| format!("class({kind})"));
                        Diag::error("E601", place, format!("`ops` of `{}`: there is no kind `{word}`", self.name()))
                            .help(format!("the kinds are {}", known.join(", ")))
                    }
                    Target::Op(op) if self.knows(op) => continue,
                    Target::Op(_) => {
                        let claim = format!("`ops` of `{}` has a rule for `{word}`, which is no operator", self.name());
                        self.near(Diag::error("E601", place, claim), word)
                    }
                };
                self.diags.push(diag);
            }
        }
    }

    fn knows(&self, op: Name) -> bool {
        let classes = self.db.classes.iter().chain(&self.db.upstream);
        self.set.knows(op) || classes.flat_map(|c| &c.from).any(|row| row.name() == op)
    }

    fn near(&self, diag: Diag, word: &str) -> Diag {
        let names = self.set.own().map(|row| row.op.as_str());
        match nearest(word, names) {
            Some(near) => diag.help(format!("did you mean `{near}`?")),
            None => diag,
        }
    }

    /// Checks the texts of the class, with the key at which each stands.
    fn rules(&mut self) {
        let class = self.class;
        let word = |text: &Text| matches!(text.as_str(), "error" | "plain" | "each" | "placed" | "same");
        let ops = class.ops.iter().map(|(targets, rule)| (rule, "ops", self.scope(targets)));
        let default = class.default.iter().map(|text| (text, "default", self.own().with(OF_RULES)));
        let cotangent =
            class.cotangent.iter().map(|text| (text, "cotangent", self.own().with(&["g", "plain", "same"])));
        let all: Vec<(&Text, &str, Scope)> = ops.chain(default).chain(cotangent).collect();
        for (text, key, scope) in all.into_iter().filter(|(text, ..)| !word(text)) {
            // the reader has parsed the text before
            let Ok(block) = parse_rule(text.as_str()) else { continue };
            self.block(&block, text, key, scope);
        }
        let placed = class.ops.iter().map(|(_, rule)| rule).chain(&class.default).find(|t| t.as_str() == "placed");
        placed.into_iter().for_each(|text| self.placed(text));
        for (_, text) in &class.error {
            let Ok(block) = parse_rule(text.as_str()) else { continue };
            self.block(&block, text, "error", self.own());
        }
        self.block(&class.plain.tree, &class.plain.text, "plain", self.own());
        for (op, args) in &class.grad {
            let scope = self.scope(op).with(&["g", "out"]);
            args.iter().for_each(|(_, rule)| self.block(&rule.tree, &rule.text, "grad", scope.clone()));
        }
    }

    /// The scope with the parts of the class.
    fn own(&self) -> Scope {
        Scope::default().with_sig(&self.class.sig.tree)
    }

    /// The scope with the parts of the class, and the names in the signatures of these operators.
    fn scope(&self, targets: &Text) -> Scope {
        let ops = targets.as_str().split_whitespace().filter_map(|word| match Class::target(word) {
            Target::Op(op) => Some(op),
            Target::Kind(_) => None,
        });
        ops.fold(self.own().with(OF_RULES), |scope, op| {
            let rows = self.set.candidates(op).into_iter();
            rows.fold(scope, |scope, row| {
                let seeds: Vec<String> = row.sig.outs.iter().map(|out| format!("g_{}", out.name.name)).collect();
                scope.with_sig(&row.sig).with(&seeds.iter().map(String::as_str).collect::<Vec<_>>())
            })
        })
    }

    /// Checks that a class with a rule `placed` has one list of pieces, and metadata that tell where they are.
    fn placed(&mut self, text: &Text) {
        let sig = &self.class.sig.tree;
        let list = matches!(sig.params.as_slice(), [only] if only.ty.list.is_some());
        let lacking = ["place", "dim", "shape"].into_iter().find(|name| sig.opts.iter().all(|o| o.name.name != *name));
        let claim = match lacking {
            _ if !list => format!("`{}` has a rule `placed`, and its fields are not one list of pieces", self.name()),
            Some(name) => format!("`{}` has a rule `placed`, and no metadata `{name}`", self.name()),
            None => return,
        };
        let places = "enum(shard, replicate, sum, avg, max, min)";
        let example = format!("(local: List<T>; place: {places}, dim: i64 = 0, shape: Shape(O)) -> T[..O]");
        self.diags.push(Diag::error("E602", text.place, claim).help(format!("its signature is like {example}")));
    }

    fn block(&mut self, block: &Block, text: &Text, key: &str, scope: Scope) {
        let scope = scope.with_text(block, self.set);
        let mut found: Vec<Expr> = Vec::new();
        let mut look = |e: &Expr| {
            walk::visit(e, &mut |e| {
                if matches!(&*e.node, Node::Call(..) | Node::Name(_)) {
                    found.push(e.clone());
                }
                true
            });
        };
        for stmt in &block.stmts {
            match stmt {
                Stmt::Let(_, e) | Stmt::Write(_, e) => look(e),
            }
        }
        look(&block.value);
        for e in found {
            match &*e.node {
                Node::Call(callee, args) => self.call(callee, args, text, key),
                Node::Name(name) if name.as_str().contains('.') => self.part(*name, e.span, text, key, &scope),
                Node::Name(name) if !scope.has(*name) => self.unbound(*name, e.span, text, key, &scope),
                _ => {}
            }
        }
    }

    fn call(&mut self, callee: &Ident, args: &[Arg], text: &Text, key: &str) {
        let name = callee.name;
        if name == self.class.name() {
            return self.made(callee, args, text, key);
        }
        // classes of other databases are known when programs run
        let capital = name.as_str().starts_with(char::is_uppercase);
        if capital
            || matches!(name.as_str(), "f" | "same")
            || helpers::named(name).is_some_and(|h| h.arity(Dialect::Tensor).is_some())
            || self.knows(name)
        {
            return;
        }
        let claim = format!("`{key}` of `{}` calls `{name}`, which is no operator", self.name());
        let diag = self.near(Diag::error("E601", text.at(callee.span), claim), name.as_str());
        self.diags.push(diag);
    }

    /// Checks `Class(fields; metadata)`: it gives every field, and no part that the class lacks.
    fn made(&mut self, callee: &Ident, args: &[Arg], text: &Text, key: &str) {
        let sig = &self.class.sig.tree;
        let parts: Vec<Name> =
            sig.params.iter().map(|p| p.name.name).chain(sig.opts.iter().map(|o| o.name.name)).collect();
        let positional = args.iter().filter(|a| a.name.is_none()).count();
        let shown = || parts.iter().map(|p| format!("`{p}`")).collect::<Vec<_>>().join(", ");
        if positional > parts.len() {
            let claim = format!("`{key}` of `{}` makes one of {positional} parts; it has {}", self.name(), parts.len());
            self.diags.push(Diag::error("E602", text.at(callee.span), claim).help(format!("they are {}", shown())));
            return;
        }
        for label in args.iter().filter_map(|a| a.name).filter(|n| !parts.contains(&n.name)) {
            let claim = format!("`{key}` of `{}` makes one with `{}`, which is no part of it", self.name(), label.name);
            self.diags.push(Diag::error("E602", text.at(label.span), claim).help(format!("its parts are {}", shown())));
        }
        let given = |(i, p): (usize, &Param)| {
            i < positional || p.optional || args.iter().any(|a| a.name.is_some_and(|n| n.name == p.name.name))
        };
        let lacking = sig.params.iter().enumerate().find(|(i, p)| !given((*i, p)));
        if let Some((_, param)) = lacking {
            let claim = format!("`{key}` of `{}` makes one without its field `{}`", self.name(), param.name.name);
            let diag = Diag::error("E602", text.at(callee.span), claim);
            self.diags.push(diag.help("give every field; only metadata are taken from the first argument"));
        }
    }

    /// E007: a name that nothing binds.
    fn unbound(&mut self, name: Name, span: Span, text: &Text, key: &str, scope: &Scope) {
        let claim = format!("`{key}` of `{}` reads `{name}`, which nothing binds", self.name());
        let diag = Diag::error("E007", text.at(span), claim);
        let known = scope.known();
        self.diags.push(match nearest(name.as_str(), known.iter().copied()) {
            Some(near) => diag.here(format!("did you mean `{near}`?")).help(format!("replace `{name}` by `{near}`")),
            None => diag.help(format!("known here: {}", known.join(", "))),
        });
    }

    /// Checks a part of an argument, such as `x.data`.
    fn part(&mut self, name: Name, span: Span, text: &Text, key: &str, scope: &Scope) {
        let Some((of, part)) = name.as_str().rsplit_once('.') else { return };
        let of = of.split('.').next().unwrap_or(of);
        if !scope.has(Name::new(of)) {
            return self.unbound(
                Name::new(of),
                Span::new(span.start as usize, span.start as usize + of.len()),
                text,
                key,
                scope,
            );
        }
        let sig = &self.class.sig.tree;
        let mut parts: Vec<&str> = sig.params.iter().map(|p| p.name.name.as_str()).collect();
        parts.extend(sig.opts.iter().map(|o| o.name.name.as_str()));
        if part == "plain" || parts.contains(&part) {
            return;
        }
        let claim = format!("`{key}` of `{}` reads `{name}`: the class has no `{part}`", self.name());
        let diag = Diag::error("E602", text.at(span), claim);
        self.diags.push(match nearest(part, parts.iter().copied()) {
            Some(near) => diag.help(format!("did you mean `{near}`?")),
            None => diag.help(format!("it has {}, and `plain`", parts.join(", "))),
        });
    }

    /// Checks that `grad` is of operators that exist, and of arguments that they have.
    fn gradients(&mut self) {
        for (op, args) in &self.class.grad {
            let params: Vec<Name> = match op.as_str() {
                "unflatten" => self.class.sig.tree.params.iter().map(|p| p.name.name).collect(),
                name => match self.set.candidates(Name::new(name)).first() {
                    Some(row) => row.sig.params.iter().map(|p| p.name.name).collect(),
                    None => {
                        let claim = format!("`grad` of `{}` is of `{name}`, which is no operator", self.name());
                        let diag = self.near(Diag::error("E601", op.place, claim), name);
                        self.diags.push(diag);
                        continue;
                    }
                },
            };
            for (arg, _) in args.iter().filter(|(arg, _)| !params.iter().any(|p| *p == arg.as_str())) {
                let claim = format!("`grad` of `{}`: `{}` has no argument `{}`", self.name(), op.text, arg.text);
                let known: Vec<String> = params.iter().map(|p| format!("`{p}`")).collect();
                self.diags.push(Diag::error("E601", arg.place, claim).help(format!("it has {}", known.join(", "))));
            }
        }
    }

    fn read(&mut self) {
        let Some(read) = self.class.read.as_ref().filter(|t| !matches!(t.as_str(), "equal" | "error")) else { return };
        if self.class.sig.tree.params.iter().any(|p| p.name.name == read.as_str()) {
            return;
        }
        let claim = format!("`read` of `{}` is `{}`, which is no field of it", self.name(), read.text);
        self.diags.push(Diag::error("E602", read.place, claim).help("name a field, or say `equal` or `error`"));
    }

    /// E606: no two classes have the same `precedence`, and each is an integer.
    fn order(&mut self, before: &[ClassSource]) {
        let Some(own) = &self.class.precedence else { return };
        if own.as_str().parse::<i64>().is_err() {
            let claim = format!("`precedence` of `{}` is `{}`, not an integer", self.name(), own.text);
            self.diags.push(
                Diag::error("E005", own.place, claim)
                    .help("of several classes the one with the greatest number sees to a call: `precedence: 1`"),
            );
            return;
        }
        let same = before.iter().find_map(|c| Some((c, c.precedence.as_ref().filter(|p| p.text == own.text)?)));
        if let Some((other, place)) = same {
            let claim = format!("`{}` and `{}` have the same `precedence`", other.name(), self.name());
            let diag = Diag::error("E606", own.place, claim).here("this one").label(place.place, "and this one");
            self.diags.push(diag.help("a call that has tensors of both needs to know which class sees to it"));
        }
    }
}
