//! Calls: whether the callee exists, and the number and names of its arguments.

use fulgurite_core::Name;
use fulgurite_core::builtins::Builtin;
use fulgurite_core::derive;
use fulgurite_core::lang::helpers::{self, HelperFact};
use fulgurite_core::lang::{Arg, Dialect, Elem, Ident, Node, OptType, Param, Place, Red};
use fulgurite_core::lower::Rows;
use fulgurite_core::row::Row;

use super::Names;
use super::idioms::{self, Notation};
use crate::check::rows::with_rules;
use crate::diag::Diag;
use crate::nearest::elsewhere;
use crate::yaml::Text;

/// How a call of a helper or builtin is written.
fn form(name: Name, least: usize) -> String {
    if let Some(helper) = helpers::named(name) {
        return helper.form.to_owned();
    }
    let args = Builtin::from_name(name.as_str()).map_or(["x", "y", "z"].as_slice(), |builtin| builtin.record().args);
    format!("{name}({})", args[..least.min(args.len())].join(", "))
}

/// Whether a call of `name` in scalar or index notation means a helper or builtin, even where a row has this name.
/// `cargo ops explain` tells the calls of rows from the others by it.
pub fn is_word(name: Name) -> bool {
    arity(name, Dialect::Index).is_some() || Builtin::from_name(name.as_str()).is_some()
}

/// The least and the greatest number of arguments of a helper.
fn arity(name: Name, dialect: Dialect) -> Option<(usize, usize)> {
    helpers::named(name)?.arity(dialect)
}

/// Whether a helper takes names as arguments, which are not evaluated.
pub(super) fn asks_about(helper: Name) -> bool {
    helpers::is(helper, HelperFact::Names)
}

/// How to write a reduction that was called like a function.
fn reduction(red: Red, args: &[Arg]) -> String {
    let word = red.word();
    let Some(Arg { value, .. }) = args.first() else { return format!("over an index it is `{word}[n](x[n])`") };
    match &*value.node {
        Node::Access(access) => {
            let indices: Vec<String> = access.places.iter().filter_map(index).collect();
            format!("over indices it is `{word}[{}]({value})`", indices.join(", "))
        }
        _ => format!(
            "over indices it is `{word}[..s](…[..s])`: the tensor with brackets, `T[..S]`, the element with its place"
        ),
    }
}

/// The index that a place runs over, as a reduction binds it.
fn index(place: &Place) -> Option<String> {
    match place {
        Place::List(list, None) => Some(format!("..{}", list.name)),
        Place::One(e) if matches!(&*e.node, Node::Name(_)) => Some(e.to_string()),
        _ => None,
    }
}

/// Modules of other libraries, which may precede the names of their functions.
const MODULES: [&str; 9] = ["F", "aten", "jnp", "math", "nn", "np", "numpy", "tf", "torch"];

/// The known function that `name` means, perhaps by its name in another library.
fn called<'a>(name: &'a str, known: &[Name]) -> Option<&'a str> {
    let is_known = |name: &&str| known.iter().any(|known| *known == **name);
    Some(name).filter(is_known).or_else(|| elsewhere(name).filter(is_known))
}

impl Names<'_> {
    /// A call in scalar or index notation.
    pub(super) fn index_call(&mut self, f: Ident, args: &[Arg], text: &Text) {
        let reduction = || Red::from_word(f.name.as_str()).map(|red| reduction(red, args));
        if let Some((least, most)) = arity(f.name, Dialect::Index) {
            if self.counts_no_list(f, args, text) {
                return;
            }
            return self.count(f, args.len(), least, most, reduction(), text);
        }
        if let Some(builtin) = Builtin::from_name(f.name.as_str()) {
            let arity = builtin.record().arity();
            return self.count(f, args.len(), arity, arity, reduction(), text);
        }
        match self.rows.row(f.name) {
            Some(row) if row.is_pointwise() => {
                let least = row.sig.params.iter().filter(|param| !param.optional).count();
                let help = reduction().unwrap_or_else(|| its_arguments(&arguments(&row)));
                self.count(f, args.len(), least, row.sig.params.len() + row.sig.opts.len(), Some(help), text);
            }
            Some(_) => {
                let message = format!("`{}` calls the row `{}`, which is not pointwise", self.op(), f.name);
                let diag = Diag::error("E013", text.at(f.span), message);
                let rows = "an `expr` calls builtins and pointwise rows; a `decomp` calls any row";
                let idiom = || idioms::of(f.name.as_str(), "x", Notation::Index, &[]);
                self.diags.push(diag.help(reduction().or_else(idiom).unwrap_or_else(|| rows.to_owned())));
            }
            None if self.rows.is_broken(f.name) => {}
            None if Red::from_word(f.name.as_str()).is_some() => {
                let message = format!("`{}` calls the reduction `{}` like a function", self.op(), f.name);
                let diag = Diag::error("E013", text.at(f.span), message);
                self.diags.push(diag.help(reduction().unwrap_or_default()));
            }
            None => {
                let claim = format!("`{}` calls `{}`, which is no builtin, helper or row", self.op(), f.name);
                let helpers = helpers::of(Dialect::Index).map(|(helper, _)| Name::new(helper.name));
                let builtins = Builtin::all().map(|builtin| Name::new(builtin.name()));
                let rows =
                    self.rows.names().into_iter().filter(|name| self.rows.row(*name).is_some_and(|r| r.is_pointwise()));
                let known: Vec<Name> = helpers.chain(builtins).chain(rows).collect();
                self.unknown_call(text, f, args, claim, known, Notation::Index);
            }
        }
    }

    /// E013: `len` of a tensor.
    fn counts_no_list(&mut self, f: Ident, args: &[Arg], text: &Text) -> bool {
        let [Arg { value, .. }] = args else { return false };
        let Node::Name(x) = *value.node else { return false };
        if f.name != "len" || !self.sig.params.contains(&x) || self.sig.lists.contains(&x) {
            return false;
        }
        let message = format!("`len` counts what a list has, and `{x}` of `{}` is a tensor", self.op());
        let diag = Diag::error("E013", text.at(f.span), message);
        let help = format!(
            "sizes have names in `sig`: with `{x}: T[N]` it is `N`, all elements of `{x}: T[..S]` are `size(S)`"
        );
        self.diags.push(diag.help(help));
        true
    }

    /// Rows that draw random numbers, those that need only a key and options first.
    fn random(&self) -> Vec<Name> {
        let is_key = |param: &Param| param.ty.elem.contains(&Elem::Key);
        let names = self.rows.names().into_iter().filter(|name| !name.as_str().contains('.'));
        let rows = names.filter_map(|name| self.rows.row(name));
        let mut rows: Vec<_> = rows.filter(|row| row.sig.params.iter().any(is_key)).collect();
        rows.sort_by_key(|row| (!row.sig.params.first().is_some_and(is_key), row.op.as_str()));
        rows.iter().map(|row| row.op).collect()
    }

    /// E007: a call of an unknown name.
    fn unknown_call(
        &mut self,
        text: &Text,
        f: Ident,
        args: &[Arg],
        claim: String,
        known: Vec<Name>,
        notation: Notation,
    ) {
        let name = f.name.as_str();
        let module = |of: &str| of.split('.').any(|part| MODULES.contains(&part));
        let (of, last) = name.rsplit_once('.').unwrap_or(("", name));
        let first = args.first().map_or_else(|| "x".to_owned(), |arg| arg.value.to_string());
        let x = if of.is_empty() || module(of) { first.as_str() } else { of };
        let named = !of.is_empty() && called(last, &known).is_some();
        if let Some(help) = idioms::of(last, x, notation, &self.random()).filter(|_| !named) {
            return self.diags.push(Diag::error("E007", text.at(f.span), claim).help(help));
        }
        let Some((of, called)) = name.rsplit_once('.').and_then(|(of, f)| Some((of, called(f, &known)?))) else {
            return self.unknown(text, f.span, claim, name, known);
        };
        let diag = Diag::error("E007", text.at(f.span), claim);
        self.diags.push(match module(of) {
            true => diag.here(format!("did you mean `{called}`?")).help(format!("replace `{name}` by `{called}`")),
            false => diag.help(format!("there are no methods: `{of}` is the first argument of `{called}`")),
        });
    }

    /// E013: a call has too few or too many arguments. `help` suggests the call that was probably meant.
    fn count(&mut self, f: Ident, given: usize, least: usize, most: usize, help: Option<String>, text: &Text) {
        if (least..=most).contains(&given) {
            return;
        }
        let takes = match (least, most) {
            (1, 1) => "1 argument".to_owned(),
            (a, b) if a == b => format!("{a} arguments"),
            (a, b) => format!("{a} to {b} arguments"),
        };
        let message = format!("`{}` takes {takes}, `{}` gives it {given}", f.name, self.op());
        let mut diag = Diag::error("E013", text.at(f.span), message);
        diag.help = help.or_else(|| Some(format!("it is called as `{}`", form(f.name, least))));
        self.diags.push(diag);
    }

    /// Checks a call in the tensor language. Returns the rows that may be meant, in which words are looked up.
    pub(super) fn tensor_call(&mut self, f: Ident, args: &[Arg], text: &Text) -> Vec<std::sync::Arc<Row>> {
        let candidates = self.rows.candidates(f.name);
        let named = args.iter().any(|arg| arg.name.is_some());
        if let Some((least, most)) = arity(f.name, Dialect::Tensor) {
            if candidates.is_empty() && !self.counts_no_list(f, args, text) {
                self.count(f, args.len(), least, most, self.rows.of_tensors(f.name), text);
            }
            return candidates;
        }
        if candidates.is_empty() {
            match Builtin::from_name(f.name.as_str()) {
                Some(builtin) if !named => {
                    let arity = builtin.record().arity();
                    self.count(f, args.len(), arity, arity, None, text);
                }
                _ if self.rows.knows(f.name) => {}
                _ if self.underived(f, text) => {}
                _ => {
                    let claim = format!("`{}` calls `{}`, which is no row or helper", self.op(), f.name);
                    let helpers = helpers::of(Dialect::Tensor).map(|(helper, _)| Name::new(helper.name));
                    let known: Vec<Name> = self.rows.names().into_iter().chain(helpers).collect();
                    self.unknown_call(text, f, args, claim, known, Notation::Tensors);
                }
            }
            return candidates;
        }
        let numbers = Builtin::from_name(f.name.as_str()).is_some() && !named;
        if !numbers && !candidates.iter().any(|row| fits(row, args)) {
            self.misfit(f, &candidates, args, text);
        }
        candidates
    }

    /// E007: a call of a row that would be derived, `exp.vjp.x`, while the rule of its row needs none.
    fn underived(&mut self, f: Ident, text: &Text) -> bool {
        let base = derive::origin(f.name).and_then(|base| self.rows.row(base));
        let Some((base, arg)) = base.zip(f.name.as_str().split(".vjp.").nth(1)) else { return false };
        let (row, derived) = with_rules(&base, self.rows, &Default::default());
        let message = format!("`{}` calls `{}`, which no rule of `{}` makes", self.op(), f.name, row.op);
        let diag = Diag::error("E007", text.at(f.span), message);
        let help = match row.vjp.iter().find(|(of, _)| *of == arg) {
            Some((_, rule)) => format!("write what its rule for `{arg}` is: `{rule}`"),
            None if row.is_composite() => {
                format!("`{}` is a program: call the derivatives of the rows in its body", row.op)
            }
            None => match derived.first() {
                Some(row) => format!("there is `{}{}`", row.op, row.sig),
                None => format!("no gradient flows to `{arg}` of `{}`", row.op),
            },
        };
        self.diags.push(diag.help(help));
        true
    }

    /// E007, E013: no overload takes these arguments. The message is about the first overload.
    fn misfit(&mut self, f: Ident, candidates: &[std::sync::Arc<Row>], args: &[Arg], text: &Text) {
        let row = &candidates[0];
        let names: Vec<Name> = arguments(row);
        let stranger = args
            .iter()
            .filter_map(|arg| arg.name)
            .find(|arg| !candidates.iter().any(|row| arguments(row).contains(&arg.name)));
        if let Some(arg) = stranger {
            let claim = format!("`{}` has no argument `{}`", f.name, arg.name);
            return self.unknown(text, arg.span, claim, arg.name.as_str(), names);
        }
        let given = args.iter().filter(|arg| arg.name.is_none()).count();
        let least = row.sig.params.iter().filter(|param| !param.optional).count();
        let message = match given {
            n if n > names.len() => {
                format!("`{}` takes at most {} arguments, `{}` gives it {n}", f.name, names.len(), self.op())
            }
            _ => match missing(row, args) {
                Some(name) => format!("`{}` calls `{}` without its argument `{name}`", self.op(), f.name),
                None => format!("`{}` gives an argument of `{}` twice", self.op(), f.name),
            },
        };
        let diag = Diag::error("E013", text.at(f.span), message);
        self.diags.push(diag.note(format!("{}{}", row.op, row.sig)).help(match least {
            0 => "see its signature".to_owned(),
            _ => its_arguments(&names),
        }));
    }
}

/// Arguments and options of a row in their order.
pub(super) fn arguments(row: &Row) -> Vec<Name> {
    let params = row.sig.params.iter().map(|param| param.name.name);
    params.chain(row.sig.opts.iter().map(|opt| opt.name.name)).collect()
}

fn its_arguments(names: &[Name]) -> String {
    format!("its arguments are {}", names.iter().map(|n| n.as_str()).collect::<Vec<_>>().join(", "))
}

/// The first argument that must be given and is not.
fn missing(row: &Row, args: &[Arg]) -> Option<Name> {
    let positional = args.iter().filter(|arg| arg.name.is_none()).count();
    let named = |name: Name| args.iter().any(|arg| arg.name.is_some_and(|ident| ident.name == name));
    let params = row.sig.params.iter().map(|param| (param.name.name, param.optional));
    let opts = row.sig.opts.iter().map(|opt| (opt.name.name, opt.optional || opt.default.is_some()));
    params.chain(opts).skip(positional).find(|(name, spare)| !spare && !named(*name)).map(|(name, _)| name)
}

fn fits(row: &Row, args: &[Arg]) -> bool {
    let names = arguments(row);
    let positional = args.iter().filter(|arg| arg.name.is_none()).count();
    let named = args.iter().filter_map(|arg| arg.name);
    let known =
        named.clone().all(|arg| names.iter().position(|name| *name == arg.name).is_some_and(|at| at >= positional));
    positional <= names.len() && known && missing(row, args).is_none()
}

/// The words that the argument at `at` of a call may be.
pub(super) fn words_of(row: &Row, args: &[Arg], at: usize) -> Option<Vec<Name>> {
    let names = arguments(row);
    let name = match args[at].name {
        Some(ident) => ident.name,
        None => *names.get(at)?,
    };
    match &row.sig.opts.iter().find(|opt| opt.name.name == name)?.ty {
        OptType::Enum(words) => Some(words.clone()),
        _ => None,
    }
}
