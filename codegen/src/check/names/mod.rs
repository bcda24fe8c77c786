//! E007, E009, E012, E013, E106, E108, E112, E114: every name in a row is defined, and every defined name is used.

mod calls;
mod defaults;
mod idioms;
mod index;
mod kernels;
mod libraries;
mod locals;
mod sig;
mod tensor;
mod truths;
mod usage;

use fulgurite_core::lang::{BinOp, Elem, Expr, Ident, Node, OptType, Span};
use fulgurite_core::runtime_checks::unasked;
use fulgurite_core::signature::const_eval::constant;
use fulgurite_core::{DType, Name};
use rustc_hash::FxHashSet;

use super::rows::RowSet;
use crate::diag::Diag;
use crate::nearest::{elsewhere, nearest};
use crate::schema::{BLANK, Body, RowSource};
use crate::source::Place;
use crate::yaml::Text;

use sig::SigNames;

pub use calls::is_word;
pub use libraries::libraries;

/// All faults of the names of a row.
pub fn check(source: &RowSource, rows: &RowSet) -> Vec<Diag> {
    check_beside(source, rows, &FxHashSet::default())
}

/// All faults of the names of a row whose texts may also read `beside`: names that are neither the row's nor rows.
pub fn check_beside(source: &RowSource, rows: &RowSet, beside: &FxHashSet<Name>) -> Vec<Diag> {
    let sig = SigNames::of(source);
    let mut names = Names { source, rows, beside, sig, misread: Vec::new(), diags: Vec::new() };
    names.sentence();
    names.kernels();
    names.diags.extend(libraries(source.op.as_str(), &source.aliases));
    names.signature();
    names.conditions();
    match &source.body {
        Body::Expr(rule) => names.index_block(&rule.tree, &rule.text, "`expr`"),
        Body::View(rule) => names.index_block(&rule.tree, &rule.text, "`view`"),
        Body::Decomp(rule) => names.tensor_block(&rule.tree, &rule.text, "`decomp`", &[]),
        Body::Host(_) => {}
    }
    names.rules();
    names.kinks();
    // a misspelt name leaves another one unused, which would be a second message about one fault
    if names.diags.is_empty() {
        names.usage();
    }
    // a name that a blank will read does not count as unused
    if names.diags.iter().any(|diag| diag.message.ends_with(HAS_BLANK)) {
        names.diags.retain(|diag| diag.code != "E009");
    }
    names.diags
}

/// End of the message about a blank.
pub const HAS_BLANK: &str = "has a blank to fill";

/// The names of a row, and the faults found in them.
struct Names<'a> {
    source: &'a RowSource,
    rows: &'a RowSet<'a>,
    /// Names that are defined elsewhere.
    beside: &'a FxHashSet<Name>,
    sig: SigNames,
    /// Names in the signature that nothing binds.
    misread: Vec<Name>,
    diags: Vec<Diag>,
}

/// A constant or dtype that another language calls `name`. It is known wherever a value may stand.
fn foreign_literal(name: &str) -> Option<&'static str> {
    elsewhere(name).filter(|ours| constant(Name::new(ours)).is_some() || DType::from_name(ours).is_some())
}

/// A name of row `op` that is none of the `known` ones, with the nearest of them.
fn unknown(code: &'static str, op: &str, place: Place, claim: String, name: &str, mut known: Vec<&str>) -> Diag {
    known.sort_unstable();
    known.dedup();
    if name == BLANK {
        let what = match known.len() {
            0..=12 => format!("say what belongs here; known here: {}", known.join(", ")),
            _ => "say what belongs here".to_owned(),
        };
        return blank(op, place).help(what);
    }
    let diag = Diag::error(code, place, claim);
    let near = foreign_literal(name).or_else(|| nearest(name, known.iter().copied()));
    match near {
        None if matches!(name, "None" | "none" | "null" | "nil") => {
            diag.help("leave it out: what is not given is absent, and `some(…)` asks for it")
        }
        None if name == "some" => diag.help("`some(x)` asks whether the argument `x` is given"),
        Some(near) => diag.here(format!("did you mean `{near}`?")).help(format!("replace `{name}` by `{near}`")),
        None if known.is_empty() || known.len() > 12 => diag,
        None => diag.help(format!("known here: {}", known.join(", "))),
    }
}

fn blank(op: &str, place: Place) -> Diag {
    Diag::error("E007", place, format!("`{op}` {HAS_BLANK}")).here("this one")
}

impl<'a> Names<'a> {
    fn op(&self) -> &'a str {
        self.source.op.as_str()
    }

    /// E007: an unknown name, with the nearest of `candidates`.
    fn unknown(
        &mut self,
        text: &Text,
        span: Span,
        claim: String,
        name: &str,
        candidates: impl IntoIterator<Item = Name>,
    ) {
        self.unknown_as("E007", text, span, claim, name, candidates);
    }

    fn unknown_as(
        &mut self,
        code: &'static str,
        text: &Text,
        span: Span,
        claim: String,
        name: &str,
        candidates: impl IntoIterator<Item = Name>,
    ) {
        if self.beside.contains(&Name::new(name)) {
            return;
        }
        let known = candidates.into_iter().map(Name::as_str).collect();
        self.diags.push(unknown(code, self.op(), text.at(span), claim, name, known));
    }

    /// E007: a blank in `doc`, the one text that no language reads.
    fn sentence(&mut self) {
        if self.source.doc == BLANK {
            let help = "write one sentence: it is the row's page, tooltip and help text";
            self.diags.push(blank(self.op(), self.source.doc.place).help(help));
        }
    }

    /// The words of an `enum` option.
    fn words(&self, option: Name) -> Option<&[Name]> {
        match self.sig.opts.iter().find(|(name, _)| *name == option)? {
            (_, OptType::Enum(words)) => Some(words),
            _ => None,
        }
    }

    /// Checks that `word` is one of the words of `option`.
    fn word(&mut self, option: Name, word: Name, text: &Text, span: Span) {
        let Some(words) = self.words(option).map(<[Name]>::to_vec) else { return };
        if !words.contains(&word) {
            self.unknown(text, span, format!("`{option}` of `{}` can't be `{word}`", self.op()), word.as_str(), words);
        }
    }

    /// Checks the names of an expression that both languages have beside values: the word that an option is compared
    /// with, the words of a `match`, the dtype of a cast. Returns whether its parts remain to be checked.
    fn beside(&mut self, e: &Expr, text: &Text, what: &str) -> bool {
        match &*e.node {
            Node::Binary(BinOp::Eq | BinOp::Ne, left, right) => {
                return !self.is_word(left, right, text) && !self.is_word(right, left, text);
            }
            Node::Cast(_, elem) => self.elem(elem, e.span, text, what),
            Node::Match(subject, arms) => {
                let words: Vec<Ident> = arms.iter().map(|(word, _)| *word).collect();
                self.arms(*subject, &words, text);
            }
            _ => {}
        }
        true
    }

    /// Whether an option is compared with a word, which is checked.
    fn is_word(&mut self, option: &Expr, word: &Expr, text: &Text) -> bool {
        let Node::Name(option) = &*option.node else { return false };
        if self.words(*option).is_none() {
            return false;
        }
        match &*word.node {
            Node::Name(name) => self.word(*option, *name, text, word.span),
            Node::Str(quoted) => {
                let message = format!("`{option}` of `{}` is compared with a text, and it is a word", self.op());
                let diag = Diag::error("E007", text.at(word.span), message);
                self.diags.push(diag.help(format!("words stand without quotes: `{option} == {quoted}`")));
            }
            _ => return false,
        }
        true
    }

    /// Kind of a name in the signature, if it is an argument or an option.
    fn given(&self, name: Name) -> Option<&'static str> {
        let is_option = self.sig.opts.iter().any(|(opt, _)| *opt == name);
        if self.sig.params.contains(&name) { Some("an argument") } else { is_option.then_some("an option") }
    }

    /// The names of a signature: arguments, options and sizes.
    fn signed(&self) -> impl Iterator<Item = Name> {
        let opts = self.sig.opts.iter().map(|(name, _)| *name);
        self.sig.params.iter().copied().chain(opts).chain(self.sig.sizes.clone())
    }

    /// Checks that a cast is to an existing dtype.
    fn elem(&mut self, elem: &Elem, span: Span, text: &Text, what: &str) {
        let name = match elem {
            Elem::Class(name) if DType::from_name(name.as_str()).is_none() => *name,
            Elem::Var(name) | Elem::Acc(name) | Elem::Real(name) if !self.sig.dtypes.contains(name) => *name,
            _ => return,
        };
        let claim = format!("{what} of `{}` casts to `{name}`, which is no dtype here", self.op());
        let dtypes = DType::ALL.iter().map(|d| Name::new(d.name())).chain(self.sig.dtypes.clone());
        let known: Vec<Name> = dtypes.collect();
        self.unknown(text, span, claim, name.as_str(), known);
    }

    /// Checks the arms of `match subject { … }`: one for each word, and no second one.
    fn arms(&mut self, subject: Ident, words: &[Ident], text: &Text) {
        let option = subject.name;
        let Some(known) = self.words(option).map(<[Name]>::to_vec) else {
            let claim = format!("`match` in `{}` looks at `{option}`, which is no option with words", self.op());
            let options: Vec<Name> = self.sig.opts.iter().map(|(name, _)| *name).collect();
            return self.unknown(text, subject.span, claim, option.as_str(), options);
        };
        for (n, word) in words.iter().enumerate() {
            self.word(option, word.name, text, word.span);
            if let Some(first) = words[..n].iter().find(|other| other.name == word.name) {
                let diag = Diag::error(
                    "E108",
                    text.at(word.span),
                    format!("`{}` has two arms for `{}`", self.op(), word.name),
                );
                self.diags.push(diag.here("never taken").label(text.at(first.span), "taken"));
            }
        }
        let missing: Vec<&str> =
            known.iter().filter(|k| !words.iter().any(|w| w.name == **k)).map(|name| name.as_str()).collect();
        if !missing.is_empty() && words.iter().all(|word| known.contains(&word.name)) {
            let message = format!("`{}` does not say what `{option} = {}` means", self.op(), missing.join("`, `"));
            let diag = Diag::error("E108", text.at(subject.span), message);
            self.diags.push(diag.here("an arm is missing").help(format!("add `{} => …`", missing[0])));
        }
    }

    /// Checks the row's declared gradients. Arguments, options, results, and cotangents or the tangent are in scope.
    fn rules(&mut self) {
        let source = self.source;
        for (key, rules) in [("grad", &source.grad), ("jvp", &source.jvp)] {
            for (arg, rule) in rules {
                self.argument(arg, key);
                let outs: Vec<Name> = source.sig.tree.outs.iter().map(|out| out.name.name).collect();
                let aux = source.sig.tree.aux.iter().map(|out| out.name.name);
                let seeds: Vec<Name> = match outs.as_slice() {
                    _ if key == "jvp" => vec![Name::new("t"), Name::new(&format!("t_{}", arg.as_str()))],
                    [_] => vec![Name::new("g")],
                    several => several.iter().map(|out| Name::new(&format!("g_{out}"))).collect(),
                };
                let extra: Vec<Name> = outs.iter().copied().chain(aux).chain(seeds).collect();
                self.tensor_block(&rule.tree, &rule.text, &format!("`{key}` in `{}`", arg.as_str()), &extra);
            }
        }
        if let Some((crate::schema::SkipVjp::Arguments(args), _)) = &source.skip_vjp {
            for arg in args {
                self.argument(arg, "skip_vjp");
            }
        }
        for (arg, _) in &source.tests.domain {
            self.argument_or_option(arg, "domain");
        }
    }

    /// Checks that a key names an argument.
    fn argument(&mut self, arg: &Text, key: &str) {
        self.one_of(arg, key, self.sig.params.clone());
    }

    fn argument_or_option(&mut self, arg: &Text, key: &str) {
        let options = self.source.sig.tree.opts.iter().map(|o| o.name.name);
        self.one_of(arg, key, self.sig.params.iter().copied().chain(options).collect());
    }

    fn one_of(&mut self, arg: &Text, key: &str, known: Vec<Name>) {
        if known.iter().any(|name| *name == arg.as_str()) {
            return;
        }
        let claim = format!("`{key}` of `{}` names `{}`, which is no argument", self.op(), arg.as_str());
        let span = Span::new(0, arg.as_str().len());
        self.unknown(arg, span, claim, arg.as_str(), known);
    }

    /// Checks `require`, `promote`, `dtypes` and `acc`.
    fn conditions(&mut self) {
        let source = self.source;
        for (cond, _) in &source.require {
            self.static_expr(&cond.tree, &cond.text, "`require`");
            self.diags.extend(truths::check(source, cond));
            if let Some((argument, why)) = unasked(&source.lower_to_row(), &cond.tree) {
                let claim = format!("`require` of `{}` reads the elements of `{argument}` {why}", self.op());
                let diag = Diag::error("E110", cond.text.at(cond.tree.span), claim).here("no call checks this");
                self.diags.push(diag.help("state it in an index or pointwise row that the body calls"));
            }
        }
        for (key, rule) in [("promote", &source.promote), ("dtypes", &source.dtypes), ("acc", &source.acc)] {
            if let Some(rule) = rule {
                self.chosen(&rule.tree, &rule.text, &format!("`{key}`"));
            }
        }
    }

    /// Checks the conditions of `if c { word } else { word }` alone: its words were checked when the row was read.
    fn chosen(&mut self, e: &Expr, text: &Text, what: &str) {
        match &*e.node {
            Node::If(cond, yes, no) => {
                self.static_expr(cond, text, what);
                self.chosen(&yes.value, text, what);
                self.chosen(&no.value, text, what);
            }
            Node::Match(subject, arms) => {
                let words: Vec<_> = arms.iter().map(|(word, _)| *word).collect();
                self.arms(*subject, &words, text);
                arms.iter().for_each(|(_, value)| self.chosen(value, text, what));
            }
            _ => {}
        }
    }

    /// Checks `at`: conditions and partial derivatives over the arguments.
    fn kinks(&mut self) {
        let source = self.source;
        for kink in &source.at {
            self.static_expr(&kink.cond.tree, &kink.cond.text, "`at`");
            for (arg, partial) in &kink.partials {
                self.argument(arg, "at");
                self.static_expr(&partial.tree, &partial.text, "`at`");
            }
        }
    }
}
