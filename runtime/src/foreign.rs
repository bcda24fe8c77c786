//! Calls of rows by the names that other libraries have for them: the rows' `aten:` and `torch:` lists, and alias rows.
//!
//! A call comes as that library's callers write it: positional and named values of a dynamic language. The call form
//! says which argument of the row each one is, the row's signature what is made of it: an integer names an axis, a word
//! or its number chooses from an `enum`, a single number repeats over axes.

mod convert;

use crate::api;
use crate::error::Error;
use crate::symbol::{self, SymbolRef};
use crate::tensor::Tensor;
use fulgurite_core::lang::ast::{ListItem, Node, UnOp};
use fulgurite_core::lang::{Alias, Expr, parse_alias};
use fulgurite_core::loc::Loc;
use fulgurite_core::{DType, Name, Value};
use rustc_hash::FxHashMap;
use std::sync::OnceLock;

/// A value as a dynamic language has it.
#[derive(Clone, Debug)]
pub enum Given {
    /// Not given.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A text.
    Str(String),
    /// A dtype.
    DType(DType),
    /// A tensor.
    Tensor(Tensor),
    /// Several.
    List(Vec<Given>),
}

/// A name of another library, and the row that it calls.
#[derive(Debug)]
pub struct Form {
    /// The row.
    pub symbol: SymbolRef,
    params: Vec<Param>,
    /// Arguments of the row that the name implies.
    fixed: Vec<(Name, Given)>,
}

/// A parameter of the other library.
#[derive(Debug)]
struct Param {
    name: Name,
    /// The argument of the row; `None`: it takes part in nothing.
    arg: Option<Name>,
    /// The argument of the row that takes the positions of a list's entries, where some may be missing.
    places: Option<Name>,
    /// Its default there; of one that takes part in nothing, the only value that is admitted.
    value: Option<Given>,
    /// Takes all positional arguments from there on.
    rest: bool,
}

/// The rows that `name` may call, in the order of the database; none for an unknown name. `aten.add.Tensor` and
/// `torch.nn.functional.gelu` are such names; an ATen operator without overloads may be called `….default`.
pub fn forms(name: &str) -> &'static [Form] {
    static TABLE: OnceLock<FxHashMap<Name, Vec<Form>>> = OnceLock::new();
    let name = Name::new(name.strip_suffix(".default").unwrap_or(name));
    TABLE.get_or_init(table).get(&name).map_or(&[], Vec::as_slice)
}

/// Calls the row of that name: the first of its forms that takes these arguments.
///
/// # Errors
/// E710 for an unknown name or a value that no row stands behind; E702 for arguments that it does not have; otherwise
/// what the row refuses.
pub fn call(name: &str, positional: &[Given], named: &[(String, Given)], loc: Loc) -> Result<Vec<Tensor>, Error> {
    let mut first: Option<Error> = None;
    for form in forms(name) {
        let args = form.arrange(positional, named).map_err(|e| e.at(loc));
        match args.and_then(|args| run(form.symbol, &args, loc)) {
            Ok(outs) => return Ok(outs),
            // a form that takes part says more than one that does not
            Err(e) if first.as_ref().is_none_or(|f| f.code() == "E710") => first = Some(e),
            Err(_) => {}
        }
    }
    Err(first.unwrap_or_else(|| Error::new("E710", format!("no row is called `{name}`")).at(loc)))
}

/// Calls the row or the overload of it that takes these arguments.
fn run(symbol: SymbolRef, args: &[(Name, Given)], loc: Loc) -> Result<Vec<Tensor>, Error> {
    let mut first = None;
    let overloads = symbol::candidates(Name::new(symbol.name()));
    for candidate in overloads {
        let made = convert::arguments(candidate.row(), args);
        match made.map_err(|e| e.at(loc)).and_then(|args: Vec<Value<Tensor>>| api::call(candidate, args, loc)) {
            Ok(outs) => return Ok(outs),
            Err(e) => _ = first.get_or_insert(e),
        }
    }
    Err(first.unwrap_or_else(|| Error::bug("E710", "an unregistered symbol")))
}

fn table() -> FxHashMap<Name, Vec<Form>> {
    let mut table: FxHashMap<Name, Vec<Form>> = FxHashMap::default();
    let mut symbols = symbol::all();
    symbols.sort_by_key(|s| (s.krate, s.text.line, s.name()));
    for symbol in symbols {
        // the build parsed and checked every form
        let aliases = symbol.text.aliases.iter().filter_map(|(of, text)| Some((*of, parse_alias(text).ok()?)));
        for (of, alias) in aliases {
            table.entry(alias.full(of)).or_default().push(Form::new(symbol, alias));
        }
        let own = Name::new(symbol.name());
        if symbol::is_alias(symbol.name()) && !table.contains_key(&own) {
            table.insert(own, vec![Form::own(symbol)]);
        }
    }
    table
}

impl Form {
    fn new(symbol: SymbolRef, alias: Alias) -> Form {
        let Some(given) = alias.given else { return Form::own(symbol) };
        let params = given.into_iter().map(|g| Param {
            name: g.name.name,
            arg: g.arg.map(|a| a.name),
            places: g.places.map(|a| a.name),
            value: g.value.as_ref().map(constant),
            rest: g.rest,
        });
        let fixed = alias.fixed.iter().map(|(name, value)| (name.name, constant(value))).collect();
        Form { symbol, params: params.collect(), fixed }
    }

    /// The row's own arguments in their order.
    fn own(symbol: SymbolRef) -> Form {
        let sig = &symbol.row().sig;
        let names = sig.params.iter().map(|p| p.name.name).chain(sig.opts.iter().map(|o| o.name.name));
        let params = names.map(|name| Param { name, arg: Some(name), places: None, value: None, rest: false });
        Form { symbol, params: params.collect(), fixed: Vec::new() }
    }

    /// The row's arguments by name.
    fn arrange(&self, positional: &[Given], named: &[(String, Given)]) -> Result<Vec<(Name, Given)>, Error> {
        let refuse = |text: String| Error::new("E702", format!("`{}`: {text}", self.symbol.name()));
        let mut values: Vec<Option<Given>> = vec![None; self.params.len()];
        let mut left = positional;
        for (param, slot) in self.params.iter().zip(&mut values) {
            let taken = if param.rest { left.len() } else { left.len().min(1) };
            *slot = match (&left[..taken], param.rest) {
                ([], _) => None,
                ([list @ Given::List(_)], true) => Some(list.clone()),
                (several, true) => Some(Given::List(several.to_vec())),
                ([one, ..], false) => Some(one.clone()),
            };
            left = &left[taken..];
        }
        if !left.is_empty() {
            return Err(refuse(format!(
                "{} arguments are given, at most {} are taken",
                positional.len(),
                values.len()
            )));
        }
        for (name, value) in named {
            let Some(at) = self.params.iter().position(|p| p.name == name.as_str()) else {
                return Err(refuse(format!("there is no argument `{name}`")));
            };
            if values[at].replace(value.clone()).is_some() {
                return Err(refuse(format!("`{name}` is given twice")));
            }
        }
        let mut out = Vec::new();
        for (param, value) in self.params.iter().zip(values) {
            let value = value.filter(|v| !matches!(v, Given::None));
            match (param.arg, value, &param.value) {
                (Some(arg), Some(Given::List(items)), _) if param.places.is_some() => {
                    let mask = |t: &Given| matches!(t, Given::Tensor(t) if t.dtype() == DType::Bool);
                    if items.iter().any(mask) {
                        let text = format!("a mask in `{}`: how many elements it chooses is no shape", param.name);
                        return Err(Error::new("E710", text));
                    }
                    let (at, there): (Vec<i64>, Vec<Given>) =
                        (0..).zip(items).filter(|(_, item)| !matches!(item, Given::None)).unzip();
                    out.push((arg, Given::List(there)));
                    let at = Given::List(at.into_iter().map(Given::Int).collect());
                    out.extend(param.places.map(|places| (places, at)));
                }
                (Some(arg), Some(value), _) => out.push((arg, value)),
                (Some(arg), None, Some(default)) => out.push((arg, default.clone())),
                (None, Some(value), Some(only)) if !same(&value, only) => {
                    return Err(Error::new("E710", format!("no row stands behind `{}` = {value:?}", param.name)));
                }
                _ => {}
            }
        }
        out.extend(self.fixed.iter().cloned());
        Ok(out)
    }
}

/// A constant of a call form. The build admits numbers, words and lists of these.
fn constant(e: &Expr) -> Given {
    match &*e.node {
        Node::Int(i) => Given::Int(*i),
        Node::Float(x) => Given::Float(*x),
        Node::Unary(UnOp::Neg, inner) => match constant(inner) {
            Given::Int(i) => Given::Int(-i),
            Given::Float(x) => Given::Float(-x),
            other => other,
        },
        Node::Name(name) => match name.as_str() {
            "true" => Given::Bool(true),
            "false" => Given::Bool(false),
            "inf" => Given::Float(f64::INFINITY),
            "nan" => Given::Float(f64::NAN),
            "none" => Given::None,
            word => DType::from_name(word).map_or_else(|| Given::Str(word.to_owned()), Given::DType),
        },
        Node::List(items) => Given::List(
            items
                .iter()
                .map(|item| match item {
                    ListItem::One(e) => constant(e),
                    ListItem::Spread(_) => Given::None,
                })
                .collect(),
        ),
        _ => Given::None,
    }
}

fn same(a: &Given, b: &Given) -> bool {
    match (a, b) {
        (Given::None, Given::None) => true,
        (Given::Bool(a), Given::Bool(b)) => a == b,
        (Given::Int(a), Given::Int(b)) => a == b,
        (Given::Int(a), Given::Float(b)) | (Given::Float(b), Given::Int(a)) => *a as f64 == *b,
        (Given::Float(a), Given::Float(b)) => a == b,
        (Given::Str(a), Given::Str(b)) => a == b,
        (Given::DType(a), Given::DType(b)) => a == b,
        (Given::List(a), Given::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        _ => false,
    }
}
