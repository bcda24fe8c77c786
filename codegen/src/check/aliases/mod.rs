//! E305: a call form of another library must say what each argument of the row becomes.

mod parameters;

use fulgurite_core::Name;
use fulgurite_core::lang::ast::Elem;
use fulgurite_core::lang::{Alias, Becomes, Gives, Sig};

use crate::diag::Diag;
use crate::schema::{RowSource, Rule};

/// A row with other libraries' calls of it.
pub struct Called<'a> {
    /// The name of the row.
    pub op: &'a str,
    /// The signature of the row.
    pub sig: &'a Rule<Sig>,
    /// The names or call forms, each with its library.
    pub aliases: &'a [(&'static str, Rule<Alias>)],
}

/// The faults of a row's call forms, and of its own name if that is a name of another library.
pub fn check(source: &RowSource) -> Vec<Diag> {
    let called = Called { op: source.op.as_str(), sig: &source.sig, aliases: &source.aliases };
    let mut faults = parameters::own(&called);
    faults.extend(check_forms(&called));
    faults
}

/// The faults of call forms: an argument that the row does not have, that is given twice, or that the form leaves open,
/// and a disagreement with that library's signature.
pub fn check_forms(source: &Called) -> Vec<Diag> {
    let sig = &source.sig.tree;
    // A call form need not give a key, because the caller passes it.
    let params = sig.params.iter().map(|p| (p.name.name, p.optional || p.ty.elem.contains(&Elem::Key)));
    let opts = sig.opts.iter().map(|o| (o.name.name, o.optional || o.default.is_some()));
    let known: Vec<(Name, bool)> = params.chain(opts).collect();
    let mut faults = Vec::new();
    for (library, alias) in source.aliases {
        let form = alias.tree.full(library);
        let before = faults.len();
        faults.extend(numbers(source, library, alias));
        let Some(given) = &alias.tree.given else {
            faults.extend(parameters::check(source, library, alias));
            continue;
        };
        let mut error = |span, message: String, help: String| {
            faults.push(Diag::error("E305", alias.text.at(span), message).help(help));
        };
        let mut met: Vec<Name> = Vec::new();
        let taken = given.iter().flat_map(|g| g.becomes.arguments());
        let named = taken.chain(alias.tree.fixed.iter().map(|(name, _)| *name));
        for arg in named {
            if known.iter().all(|(name, _)| *name != arg.name) {
                let all: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
                let message = format!("`{form}` gives `{}`, which `{}` does not have", arg.name, source.op);
                error(arg.span, message, format!("it has {}; `name: _` takes part in nothing", all.join(", ")));
            } else if met.contains(&arg.name) {
                error(arg.span, format!("`{form}` gives `{}` twice", arg.name), "delete one".into());
            }
            met.push(arg.name);
        }
        for param in given {
            let own = known.iter().any(|(name, _)| *name == param.name.name);
            let lost = own && !met.contains(&param.name.name) && param.value.is_none();
            if lost && matches!(param.becomes, Becomes::Nothing) {
                let message = format!("`{form}` drops `{0}`, an argument that the row has", param.name);
                error(
                    param.name.span,
                    message,
                    format!("write `{0}`, or the only value that is admitted: `{0}: _ = …`", param.name),
                );
            }
            let becomes = param.becomes.arguments();
            let wanted = matches!(param.becomes, Becomes::Wanted);
            let other = wanted || !becomes.is_empty() && becomes.iter().all(|arg| arg.name != param.name.name);
            if own && other && met.contains(&param.name.name) {
                let message = format!("`{form}` gives its `{0}` to another argument than `{0}`", param.name);
                error(param.name.span, message, format!("write `{}`", param.name));
            }
        }
        for (name, _) in known.iter().filter(|(name, open)| !open && !met.contains(name)) {
            let message = format!("`{form}` does not say what `{name}` is");
            let help = format!("list the parameter that gives it, `…: {name}`, or fix it: `; {name} = …`");
            error(alias.tree.name.span, message, help);
        }
        // The form agrees with the row, so it is compared with PyTorch's signature next.
        if faults.len() == before {
            faults.extend(parameters::check(source, library, alias));
        }
    }
    faults
}

/// The fault of a form that gives plain numbers for a row with a result that has axes.
fn numbers(source: &Called, library: &str, alias: &Rule<Alias>) -> Option<Diag> {
    if alias.tree.gives != Gives::Numbers {
        return None;
    }
    let out = source.sig.tree.outs.iter().find(|out| out.ty.dims.as_ref().is_none_or(|dims| !dims.is_empty()))?;
    let form = alias.tree.full(library);
    let message = format!("`{form}` gives a number, and a result of `{}` is `{}`", source.op, out.ty);
    let diag = Diag::error("E305", alias.text.at(alias.tree.name.span), message);
    let diag = diag.label(source.sig.text.at(out.ty.span), "not of rank 0");
    Some(diag.help("delete `-> number`: a plain number stands for a tensor of rank 0, `T[]`"))
}
