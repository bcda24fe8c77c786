//! E305: a call form must have the parameters of the other library's signature in their order, and each parameter must
//! become an argument of a compatible type.
//!
//! A form that fits one overload of PyTorch's is right. The signatures do not list every overload of a function. A form
//! for all versions of an operator of ONNX must fit each of them.

use fulgurite_core::Name;
use fulgurite_core::lang::ast::{Elem, Opt, OptType, Param};
use fulgurite_core::lang::{Alias, Becomes, Count, Given, Ident};

use super::Called;
use crate::diag::Diag;
use crate::libraries::names::takes_numbers;
use crate::libraries::{Formal, declared, function_default, is_default, is_onnx, operator, overloads};
use crate::nearest::nearest;
use crate::schema::Rule;
use crate::yaml::Text;

/// An argument of a row.
#[derive(Clone, Copy)]
enum Argument<'a> {
    Param(&'a Param),
    Option(&'a Opt),
}

/// The disagreements between a form and PyTorch's signature.
pub fn check(source: &Called, library: &str, alias: &Rule<Alias>) -> Vec<Diag> {
    let form = alias.tree.full(library);
    let mut known = overloads(form);
    if known.is_empty() && alias.tree.given.is_none() {
        // An operator without a known schema has the parameters of the function with its name.
        known = operator(form).map_or(Vec::new(), |operator| overloads(Name::new(&format!("torch.{operator}"))));
    }
    let faults = |formals| {
        let check = Check { source, text: &alias.text, form, formals };
        match &alias.tree.given {
            Some(given) => check.given(alias.tree.name, given),
            None => check.bare(alias.tree.name),
        }
    };
    if is_onnx(form.as_str()) {
        return of_every(known, faults);
    }
    nearest_of(declared(form).len(), known, faults)
}

/// The faults of a form against the newest version of an operator that it does not fit.
fn of_every(versions: Vec<&'static [Formal]>, faults: impl Fn(&'static [Formal]) -> Faults) -> Vec<Diag> {
    let several = versions.len() > 1;
    let first = versions
        .into_iter()
        .enumerate()
        .map(|(at, version)| (at, faults(version).all))
        .find(|(_, all)| !all.is_empty());
    let Some((at, all)) = first else { return Vec::new() };
    let note = "a name without a version is the call of all versions: list `name.version` for each form";
    all.into_iter().map(|diag| if several && at > 0 { diag.note(note) } else { diag }).collect()
}

/// The faults of a form against the overload that it fits best. The first `own` overloads have exactly the form's name.
/// If the form fits some of these except for defaults, only these count: ATen's overloads leave such defaults open
/// (`correction=None`), and would hide a wrong one.
fn nearest_of(own: usize, known: Vec<&'static [Formal]>, faults: impl Fn(&'static [Formal]) -> Faults) -> Vec<Diag> {
    let mut all: Vec<Faults> = known.into_iter().map(faults).collect();
    if all.iter().take(own).any(|faults| faults.fits) {
        all.truncate(own);
        all.retain(|faults| faults.fits);
    }
    all.into_iter().map(|faults| faults.all).min_by_key(Vec::len).unwrap_or_default()
}

/// The disagreements between a form and one overload.
struct Faults {
    all: Vec<Diag>,
    /// Whether parameters, their order and their types agree, so that only defaults may disagree.
    fits: bool,
}

impl From<Vec<Diag>> for Faults {
    fn from(all: Vec<Diag>) -> Faults {
        Faults { fits: all.is_empty(), all }
    }
}

/// The faults of a row whose own name is a call of PyTorch: without a form of that name, its arguments must be those of
/// the call.
pub fn own(source: &Called) -> Vec<Diag> {
    let form = Name::new(source.op);
    let sig = &source.sig.tree;
    if source.aliases.iter().any(|(library, alias)| alias.tree.full(library) == form) {
        return Vec::new();
    }
    let params = sig.params.iter().filter(|p| !p.ty.elem.contains(&Elem::Key)).map(|p| p.name);
    let given: Vec<Given> = params.chain(sig.opts.iter().map(|o| o.name)).map(itself).collect();
    let Some(at) = given.first().map(|param| param.name) else { return Vec::new() };
    let faults = |formals| Check { source, text: &source.sig.text, form, formals }.given(at, &given);
    nearest_of(declared(form).len(), overloads(form), faults)
}

/// A parameter that becomes the argument with its own name.
fn itself(name: Ident) -> Given {
    let becomes = Becomes::Argument { name, count: None, like: None };
    Given { name, becomes, value: None, rest: false, packed: false, required: false }
}

struct Check<'a> {
    source: &'a Called<'a>,
    text: &'a Text,
    form: Name,
    formals: &'a [Formal],
}

impl Check<'_> {
    fn error(&self, at: Ident, message: String, help: String) -> Diag {
        Diag::error("E305", self.text.at(at.span), message).help(help)
    }

    fn argument(&self, name: Name) -> Option<Argument<'_>> {
        let sig = &self.source.sig.tree;
        let param = sig.params.iter().find(|p| p.name.name == name).map(Argument::Param);
        param.or_else(|| sig.opts.iter().find(|o| o.name.name == name).map(Argument::Option))
    }

    fn shown(&self) -> String {
        self.formals.iter().map(|f| format!("`{}`", self.shown_as(f))).collect::<Vec<_>>().join(", ")
    }

    /// The name of a parameter in messages: functions of `torch` call `input` what methods call `self`.
    fn shown_as<'f>(&self, formal: &'f Formal) -> &'f str {
        if self.form.as_str().starts_with("torch.") && formal.is("input") { "input" } else { &formal.name }
    }

    fn given(&self, at: Ident, given: &[Given]) -> Faults {
        let (mut faults, mut defaults) = (Vec::new(), Vec::new());
        let open = self.formals.iter().any(|f| f.rest);
        // Positional parameters must stand in the order of the signature.
        let mut next = 0;
        for param in given.iter().filter(|_| !open) {
            let name = param.name.name.as_str();
            let Some(at) = self.formals.iter().position(|f| f.is(name)) else {
                let near = nearest(name, self.formals.iter().map(|f| f.name.as_str()));
                let help = match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("it has {}", self.shown()),
                };
                faults.push(self.error(param.name, format!("`{}` has no parameter `{name}`", self.form), help));
                continue;
            };
            let formal = &self.formals[at];
            if !formal.keyword && at != next {
                let before = self.shown_as(&self.formals[next.min(at)]);
                let message = match at > next {
                    true => format!("`{}` has `{before}` before `{name}`", self.form),
                    false => format!("`{}` has `{name}` before what stands before it here", self.form),
                };
                let help = format!("list its parameters in their order: {}", self.shown());
                faults.push(self.error(param.name, message, help));
                return faults.into();
            }
            next += usize::from(!formal.keyword);
            faults.extend(self.becomes(param, formal));
            defaults.extend(self.default(param, formal));
        }
        let lacking =
            self.formals.iter().find(|f| !f.is_optional() && given.iter().all(|p| !f.is(p.name.name.as_str())));
        if let Some(formal) = lacking.filter(|_| !open && faults.is_empty()) {
            let message = format!("`{}` needs `{}`, which is not listed here", self.form, formal.name);
            let help = format!(
                "say what becomes of it: `{0}: argument`, or the only value that is admitted, `{0}: _ = …`",
                formal.name
            );
            faults.push(self.error(at, message, help));
        }
        let fits = faults.is_empty();
        faults.extend(defaults);
        Faults { all: faults, fits }
    }

    fn default(&self, param: &Given, formal: &Formal) -> Option<Diag> {
        if let Some(message) = self.left_out(param, formal) {
            let name = &param.name.name;
            let help = match param.becomes.arguments().first() {
                Some(argument) if argument.name != *name => format!("say so: `{name}: {} required`", argument.name),
                _ => format!("say so: `{name} required`"),
            };
            return Some(self.error(param.name, message, help));
        }
        let message = self.other_default(param, formal)?;
        let arguments = param.becomes.arguments();
        let theirs = self.default_of(formal)?;
        let theirs = theirs.trim_matches(['\'', '"']);
        let help = format!("say so: `{}: {} = {theirs}`", param.name.name, arguments.first()?.name);
        Some(self.error(param.name, message, help))
    }

    /// The message for a parameter whose default in the row differs from PyTorch's.
    fn other_default(&self, param: &Given, formal: &Formal) -> Option<String> {
        let Becomes::Argument { name, .. } = &param.becomes else { return None };
        let theirs = self.default_of(formal)?;
        let ours = match (&param.value, self.argument(name.name)?) {
            (Some(value), _) => value.to_string(),
            (None, Argument::Option(Opt { default: Some(default), .. })) => default.to_string(),
            _ => return None,
        };
        // PyTorch names some norms and dtypes by words where the row has a number; such defaults are not compared.
        let word = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '\'' | '"'));
        let coded = word(theirs) != word(&ours);
        if is_default(theirs, &ours) || coded {
            return None;
        }
        Some(format!("`{}` takes {theirs} where `{}` is left out, not {ours}", self.form, formal.name))
    }

    /// PyTorch's default of a parameter, if it is a value. `[]` is none, because it follows from other arguments. For
    /// `None` of an operator, the default of the function with its name counts.
    fn default_of<'f>(&self, formal: &'f Formal) -> Option<&'f str> {
        match formal.default.as_deref()? {
            "[]" => None,
            "None" => function_default(self.form, &formal.name),
            theirs => Some(theirs),
        }
    }

    /// The message for a parameter that a call of the row may leave out, while PyTorch's call must give it.
    fn left_out(&self, param: &Given, formal: &Formal) -> Option<String> {
        let Becomes::Argument { name, .. } = &param.becomes else { return None };
        let may = !param.required
            && match (&param.value, self.argument(name.name)?) {
                (Some(_), _) => true,
                (None, Argument::Option(o)) => o.default.is_some() || o.optional,
                (None, Argument::Param(p)) => p.optional,
            };
        // Another overload may do without the parameter, and nothing is known of a parameter without a recorded type.
        let given = |f: &Formal| f.is(&formal.name) && !f.is_optional() && !f.ty.is_empty();
        let must = overloads(self.form).iter().all(|formals| formals.iter().any(given));
        (may && must).then(|| {
            format!("`{}` needs `{}`, and a call of `{}` may leave it out", self.form, formal.name, self.source.op)
        })
    }

    /// The fault of a parameter that becomes an argument of another type.
    fn becomes(&self, param: &Given, formal: &Formal) -> Option<Diag> {
        let Becomes::Argument { name, count, .. } = &param.becomes else { return None };
        let argument = self.argument(name.name)?;
        if !self.clashes(argument, formal, *count) {
            return None;
        }
        Some(self.clash(*name, argument, formal))
    }

    fn clash(&self, at: Ident, argument: Argument, formal: &Formal) -> Diag {
        let (is, ours, name) = match argument {
            Argument::Param(p) => ("a tensor", p.ty.to_string(), p.name.name),
            Argument::Option(o) => ("an option", o.ty.to_string(), o.name.name),
        };
        let op = self.source.op;
        let message =
            format!("`{}` gives its `{}` to `{name}` of `{op}`, which is of another type", self.form, formal.name);
        let diag = self.error(
            at,
            message,
            format!(
                "let `{}` become an argument of its type, or write an alias row with PyTorch's signature: `op: {}`",
                formal.name, self.form
            ),
        );
        diag.note(format!("`{}` is `{}` there, `{name}` is {is}, `{ours}`", formal.name, formal.ty))
    }

    /// The faults of a form that is a name alone: it takes the row's arguments in their order.
    fn bare(&self, at: Ident) -> Faults {
        let sig = &self.source.sig.tree;
        let tensors =
            sig.params.iter().filter(|p| !p.ty.elem.contains(&Elem::Key)).map(|p| (p.name, Argument::Param(p)));
        let all: Vec<(Ident, Argument)> =
            tensors.chain(sig.opts.iter().map(|o| (o.name, Argument::Option(o)))).collect();
        let help =
            format!("say what becomes of each: `{}(name: argument, …)`; its parameters are {}", at.name, self.shown());
        let mut defaults = Vec::new();
        for (n, (name, argument)) in all.iter().enumerate() {
            match self.formals.get(n) {
                Some(formal) if formal.rest => break,
                // A keyword-only parameter, such as `out`, cannot take the next tensor.
                Some(formal) if formal.keyword && matches!(argument, Argument::Param(_)) => {
                    return vec![self.superfluous(at, *name, help)].into();
                }
                Some(formal) if self.clashes(*argument, formal, None) => {
                    let diag = self.clash(at, *argument, formal);
                    return vec![diag.help(help)].into();
                }
                Some(formal) => {
                    let given = itself(*name);
                    let message = self.left_out(&given, formal).or_else(|| self.other_default(&given, formal));
                    defaults.extend(message.map(|message| self.error(at, message, help.clone())));
                }
                None => return vec![self.superfluous(at, *name, help)].into(),
            }
        }
        let left = self.formals.iter().skip(all.len()).find(|f| !f.is_optional());
        if let Some(formal) = left {
            let message = format!("`{}` needs `{}`, which `{}` does not take", self.form, formal.name, self.source.op);
            return vec![self.error(at, message, help)].into();
        }
        // Only the first is reported, because one list of parameters mends them all.
        defaults.truncate(1);
        Faults { all: defaults, fits: true }
    }

    fn superfluous(&self, at: Ident, name: Ident, help: String) -> Diag {
        let op = self.source.op;
        self.error(at, format!("`{}` has no parameter for `{}` of `{op}`", self.form, name.name), help)
    }

    /// Whether no value of the declared types can be this argument.
    fn clashes(&self, argument: Argument, formal: &Formal, count: Option<Count>) -> bool {
        let types = formal.types();
        // ONNX passes some options as tensors, whose elements must be known here, and truth values as integers
        if let Argument::Option(option) = argument
            && is_onnx(self.form.as_str())
            && (types.contains(&("Tensor", false))
                || matches!(option.ty, OptType::Bool | OptType::F64) && types == [("int", false)])
        {
            return false;
        }
        let number = |o: &Opt| matches!(o.ty, OptType::F64 | OptType::Num | OptType::I64 | OptType::Size(_));
        // Another overload of the operator takes a number there.
        if let Argument::Option(o) = argument
            && number(o)
            && types.contains(&("Tensor", false))
            && operator(self.form).is_some_and(|operator| takes_numbers(&operator))
        {
            return false;
        }
        !types.is_empty() && types.iter().all(|(word, list)| differs(argument, word, *list, count))
    }
}

/// Whether no value of the type called `word`, or of a list of it, can be this argument.
fn differs(argument: Argument, word: &str, list: bool, count: Option<Count>) -> bool {
    let integer = matches!(word, "int" | "SymInt");
    match argument {
        Argument::Param(p) => match word {
            "Tensor" => p.ty.list.is_some() != list || p.ty.elem.contains(&Elem::Key),
            // A number may stand for a tensor that may have rank 0.
            "int" | "SymInt" | "float" | "Scalar" | "Number" | "bool" => {
                list || p.ty.list.is_some() || p.ty.dims.as_ref().is_some_and(|dims| !dims.is_empty())
            }
            "str" | "ScalarType" => true,
            _ => false,
        },
        Argument::Option(o) => match (&o.ty, word) {
            (_, "Tensor") => true,
            (OptType::Bool, "bool") | (OptType::Dtype(_), "ScalarType") | (OptType::Num, "int" | "SymInt") => list,
            (OptType::F64 | OptType::Num, "float" | "Scalar" | "Number") => list,
            (OptType::I64, "Scalar" | "Number") => list,
            (OptType::Ints { .. } | OptType::Dims { .. } | OptType::Perm(_) | OptType::Shape { .. }, _) => !integer,
            // A list of one entry stands for its number.
            (OptType::I64 | OptType::Dim(_) | OptType::Gap(_), _) if integer => false,
            (OptType::Pos(_) | OptType::Bound(_) | OptType::Size(_), _) if integer => list && count.is_none(),
            (OptType::Str | OptType::Labels(_), "str") => list,
            // PyTorch encodes some words as numbers.
            (OptType::Enum(_), "str" | "int") => list,
            (_, "int" | "SymInt" | "float" | "Scalar" | "Number" | "bool" | "str" | "ScalarType") => true,
            _ => false,
        },
    }
}
