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
use fulgurite_core::lang::{Alias, Count, Expr, parse_alias};
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

/// A call's arguments as the row has them.
struct Arranged {
    args: Vec<(Name, Given)>,
    /// Which results are wanted; `None`: all.
    mask: Option<Vec<bool>>,
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
    /// The arguments that the entries of a list are.
    parts: Vec<Option<Name>>,
    /// How many integers it is: fewer repeat.
    count: Option<Count>,
    /// The argument whose sizes stand for absent entries.
    like: Option<Name>,
    /// Its default there; of one that takes part in nothing, the only value that is admitted.
    value: Option<Given>,
    /// Takes all positional arguments from there on.
    rest: bool,
    /// Says which results are wanted.
    mask: bool,
}

/// The rows that `name` may call, in the order of the database; none for an unknown name. `aten.add.Tensor` and
/// `torch.nn.functional.gelu` are such names; an ATen operator without overloads may be called `….default`.
pub fn forms(name: &str) -> &'static [Form] {
    static TABLE: OnceLock<FxHashMap<Name, Vec<Form>>> = OnceLock::new();
    let name = Name::new(name.strip_suffix(".default").unwrap_or(name));
    TABLE.get_or_init(table).get(&name).map_or(&[], Vec::as_slice)
}

/// Calls the row of that name: the first of its forms that takes these arguments. A result that a mask leaves out is
/// `None`.
///
/// # Errors
/// E710 for an unknown name or a value that no row stands behind; E702 for arguments that it does not have; otherwise
/// what the row refuses.
pub fn call(
    name: &str,
    positional: &[Given],
    named: &[(String, Given)],
    loc: Loc,
) -> Result<Vec<Option<Tensor>>, Error> {
    let mut first: Option<Error> = None;
    for form in forms(name) {
        let call = form.arrange(positional, named).map_err(|e| e.at(loc));
        match call.and_then(|call| Ok((run(form.symbol, &call.args, loc)?, call.mask))) {
            Ok((outs, mask)) => {
                let wanted = |at: usize| mask.as_ref().is_none_or(|mask| mask.get(at).copied().unwrap_or(true));
                return Ok(outs.into_iter().enumerate().map(|(at, out)| wanted(at).then_some(out)).collect());
            }
            // a form that stands for another value of the call says nothing about this one
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
            parts: g.parts.iter().map(|part| part.map(|part| part.name)).collect(),
            count: g.count,
            like: g.like.map(|a| a.name),
            value: g.value.as_ref().map(constant),
            rest: g.rest,
            mask: g.mask,
        });
        let fixed = alias.fixed.iter().map(|(name, value)| (name.name, constant(value))).collect();
        Form { symbol, params: params.collect(), fixed }
    }

    /// The row's own arguments in their order.
    fn own(symbol: SymbolRef) -> Form {
        let sig = &symbol.row().sig;
        let names = sig.params.iter().map(|p| p.name.name).chain(sig.opts.iter().map(|o| o.name.name));
        let params = names.map(|name| Param {
            name,
            arg: Some(name),
            parts: Vec::new(),
            count: None,
            like: None,
            value: None,
            rest: false,
            mask: false,
        });
        Form { symbol, params: params.collect(), fixed: Vec::new() }
    }

    /// As many integers as the form says: a single one repeats, absent ones are sizes of an earlier argument.
    fn repeated(&self, param: &Param, value: Given, before: &[(Name, Given)]) -> Result<Given, Error> {
        let n = match (param.count, &value) {
            (Some(Count::Some(n)), _) => n,
            // the row repeats a number
            (Some(Count::Axes), Given::List(items)) if items.len() == 1 => return Ok(items[0].clone()),
            _ => return Ok(value),
        };
        let items = match value {
            Given::List(items) if items.len() == 1 => vec![items[0].clone(); n],
            Given::List(items) if items.len() == n => items,
            Given::List(items) => {
                let (row, name, given) = (self.symbol.name(), param.name, items.len());
                return Err(Error::new("E704", format!("`{row}`: `{name}` has {given} entries, {n} are needed")));
            }
            one @ Given::Int(_) => vec![one; n],
            other => return Ok(other),
        };
        let like = param.like.and_then(|like| before.iter().find(|(name, _)| *name == like));
        let Some((_, Given::Tensor(like))) = like else { return Ok(Given::List(items)) };
        let shape = like.shape();
        let size = |at: usize| shape.len().checked_sub(n - at).and_then(|axis| shape.get(axis));
        let item = |(at, item): (usize, Given)| match (item, size(at)) {
            (Given::None, Some(size)) => Given::Int(size.value()),
            (item, _) => item,
        };
        Ok(Given::List(items.into_iter().enumerate().map(item).collect()))
    }

    /// The row's arguments by name.
    fn arrange(&self, positional: &[Given], named: &[(String, Given)]) -> Result<Arranged, Error> {
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
        let mut out: Vec<(Name, Given)> = Vec::new();
        let mut mask = None;
        for (param, value) in self.params.iter().zip(values) {
            let empty = |v: &Given| param.count.is_some() && matches!(v, Given::List(items) if items.is_empty());
            let value = value.filter(|v| !matches!(v, Given::None) && !empty(v));
            match (param.arg, value, &param.value) {
                (Some(arg), Some(value), _) => out.push((arg, self.repeated(param, value, &out)?)),
                (Some(arg), None, Some(default)) => out.push((arg, self.repeated(param, default.clone(), &out)?)),
                (None, Some(Given::List(items)), _) if !param.parts.is_empty() => {
                    if items.len() != param.parts.len() {
                        let text =
                            format!("`{}` has {} entries, {} are needed", param.name, items.len(), param.parts.len());
                        return Err(refuse(text));
                    }
                    out.extend(param.parts.iter().zip(items).filter_map(|(part, item)| Some(((*part)?, item))));
                }
                (None, Some(Given::List(wanted)), _) if param.mask => {
                    mask = Some(wanted.iter().map(|w| matches!(w, Given::Bool(true))).collect());
                }
                (None, Some(value), Some(only)) if !same(&value, only) => {
                    return Err(Error::new("E710", format!("no row stands behind `{}` = {value:?}", param.name)));
                }
                _ => {}
            }
        }
        out.extend(self.fixed.iter().cloned());
        Ok(Arranged { args: out, mask })
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
