//! Faults in call forms of aliases.

use std::fmt::Write;

use fulgurite_core::Name;
use fulgurite_core::lang::{Alias, Becomes, Count, Expr, Given, Gives, Ident, Node};

/// Call forms with a fault: the text, and whether the row's own arguments contradict it. `needed` are the arguments
/// that a call must give.
pub fn faults(alias: &Alias, needed: &[Name]) -> Vec<(bool, String)> {
    changed(alias, &|given, with| with_others(alias, given, needed, with))
}

/// Call forms that change the default of a parameter, or make a required parameter optional. `defaults` are those of
/// the row's options.
pub fn left_out(alias: &Alias, defaults: &[(Name, Expr)]) -> Vec<String> {
    let of = |given: &[Given], with: &With| {
        let mut all = Vec::new();
        for (at, param) in given.iter().enumerate() {
            if param.required {
                all.push((true, with(&|_, list| list[at].required = false)));
            }
            let Becomes::Argument { name, .. } = &param.becomes else { continue };
            let default = defaults.iter().find(|(of, _)| *of == name.name).map(|(_, default)| default);
            if let (None, Some(other)) = (&param.value, default.and_then(other)) {
                all.push((false, with(&|_, list| list[at].value = Some(other.clone()))));
            }
        }
        all
    };
    changed(alias, &of).into_iter().map(|(_, text)| text).collect()
}

/// Texts of forms, with whether the row's own arguments contradict each.
type Texts = Vec<(bool, String)>;

/// The text of a form after a change.
type With<'a> = dyn Fn(&dyn Fn(&mut Alias, &mut Vec<Given>)) -> String + 'a;

fn changed(alias: &Alias, faults: &dyn Fn(&[Given], &With) -> Texts) -> Texts {
    let Some(given) = &alias.given else { return Vec::new() };
    let with = |change: &dyn Fn(&mut Alias, &mut Vec<Given>)| {
        let mut new = alias.clone();
        let mut list = given.clone();
        change(&mut new, &mut list);
        new.given = Some(list);
        text(&new)
    };
    let mut all = faults(given, &with);
    let own = text(alias);
    all.retain(|(_, text)| *text != own);
    all
}

fn with_others(alias: &Alias, given: &[Given], needed: &[Name], with: &With) -> Vec<(bool, String)> {
    let mut all = Vec::new();
    for at in 0..given.len() {
        if at > 0 {
            // The order of the parameters is changed.
            all.push((false, with(&|_, list| list.swap(at - 1, at))));
            // The parameters are mapped to other arguments of the row.
            if !matches!(given[at].becomes, Becomes::Nothing) && !matches!(given[at - 1].becomes, Becomes::Nothing) {
                // A parameter then has the name of another argument.
                let named = own_name(&given[at]) || own_name(&given[at - 1]);
                all.push((
                    named,
                    with(&|_, list| {
                        let before = list[at - 1].becomes.clone();
                        list[at - 1].becomes = std::mem::replace(&mut list[at].becomes, before);
                    }),
                ));
            }
        }
        if !matches!(given[at].becomes, Becomes::Nothing) {
            let lost = given[at].becomes.arguments();
            // With a value, the form serves fewer calls.
            let dropped = own_name(&given[at]) && given[at].value.is_none();
            let contradicted = dropped || lost.iter().any(|name| needed.contains(&name.name));
            all.push((contradicted, with(&|_, list| list[at].becomes = Becomes::Nothing)));
        }
        if let Some(value) = &given[at].value {
            all.push((false, with(&|_, list| list[at].value = None)));
            if let Some(other) = other(value) {
                all.push((false, with(&|_, list| list[at].value = Some(other.clone()))));
            }
        }
        if let Becomes::Argument { name, count: Some(_), like } = given[at].becomes {
            all.push((false, with(&|_, list| list[at].becomes = Becomes::Argument { name, count: None, like })));
        }
        if let Becomes::Argument { name, count, like: Some(_) } = given[at].becomes {
            all.push((false, with(&|_, list| list[at].becomes = Becomes::Argument { name, count, like: None })));
        }
        if given[at].rest {
            all.push((false, with(&|_, list| list[at].rest = false)));
        }
    }
    for at in 0..alias.fixed.len() {
        all.push((false, with(&|alias, _| _ = alias.fixed.remove(at))));
        if let Some(other) = other(&alias.fixed[at].1) {
            all.push((false, with(&|alias, _| alias.fixed[at].1 = other.clone())));
        }
    }
    if alias.gives != Gives::Tensors {
        all.push((false, with(&|alias, _| alias.gives = Gives::Tensors)));
    }
    all
}

/// Whether a parameter has the name of its argument.
fn own_name(given: &Given) -> bool {
    matches!(&given.becomes, Becomes::Argument { name, .. } if name.name == given.name.name)
}

/// A constant other than `e`.
fn other(e: &Expr) -> Option<Expr> {
    Some(Expr::bare(match &*e.node {
        Node::Int(n) => Node::Int(n + 1),
        Node::Float(x) => Node::Float(x * 2.0 + 1.0),
        Node::Unary(_, inner) => return Some(inner.clone()),
        Node::Name(name) => match name.as_str() {
            "true" => return Some(Expr::name("false")),
            "false" => return Some(Expr::name("true")),
            "none" => Node::Int(1),
            _ => return None,
        },
        _ => return None,
    }))
}

/// The text of a call form.
fn text(alias: &Alias) -> String {
    let mut out = alias.name.name.to_string();
    let Some(given) = &alias.given else { return out };
    let part = |part: &Option<Ident>| part.map_or("_".to_owned(), |part| part.name.to_string());
    let mut items = Vec::new();
    for param in given {
        let mut item = format!("{}{}: ", if param.rest { ".." } else { "" }, param.name);
        item += &match &param.becomes {
            Becomes::Nothing => "_".to_owned(),
            Becomes::Wanted => "?".to_owned(),
            Becomes::Placed(entries, places) => format!("{entries} @ {places}"),
            Becomes::Along(entries, dim) => format!("{entries} along {dim}"),
            Becomes::Typed(argument, dtype) => format!("{argument} of {dtype}"),
            Becomes::Parts(parts) => format!("({})", parts.iter().map(part).collect::<Vec<_>>().join(", ")),
            Becomes::Argument { name, count, like } => {
                let count = count.map(|count| match count {
                    Count::Some(n) => n.to_string(),
                    Count::Axes => "..".to_owned(),
                });
                let like = like.map_or(String::new(), |like| format!(", {like}"));
                name.to_string() + &count.map_or(String::new(), |count| format!("[{count}{like}]"))
            }
        };
        if param.packed {
            item += " packed";
        }
        if param.required {
            item += " required";
        }
        if let Some(value) = &param.value {
            _ = write!(item, " = {value}");
        }
        items.push(item);
    }
    out += &format!("({}", items.join(", "));
    if !alias.fixed.is_empty() {
        let fixed: Vec<String> = alias.fixed.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        out += &format!("; {}", fixed.join(", "));
    }
    out + match alias.gives {
        Gives::Tensors => ")",
        Gives::Numbers => ") -> number",
        Gives::Nothing => ") -> none",
    }
}
