//! Calls of rows by the names that other libraries have for them: the rows' `aten:` and `torch:` lists, and alias rows.
//!
//! A call comes as that library's callers write it: positional and named values of a dynamic language. The call form
//! says which argument of the row each one is, the row's signature what is made of it: an integer names an axis, a word
//! or its number chooses from an `enum`, a single number repeats over axes.

mod convert;

use crate::api;
use crate::error::Error;
use crate::symbol::{self, SymbolRef};
use crate::tensor::{Key, Tensor};
use fulgurite_core::lang::ast::{ListItem, Node, Opt, UnOp};
use fulgurite_core::lang::{Alias, Becomes, Count, Expr, Ident, parse_alias};
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
    plain: bool,
}

/// What a call gives.
#[derive(Debug)]
pub struct Results {
    /// The results; `None` for one that a mask leaves out.
    pub outs: Vec<Option<Tensor>>,
    /// The other library gives plain numbers; here they are of rank 0.
    pub plain: bool,
}

/// A parameter of the other library.
#[derive(Debug)]
struct Param {
    name: Name,
    becomes: Becomes,
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

/// Calls the row of that name: the first of its forms that takes these arguments. The other library draws random numbers from a hidden generator, here they come from `key`.
///
/// # Errors
/// E710 for an unknown name or a value that no row stands behind; E702 for arguments that it does not have; otherwise
/// what the row refuses.
pub fn call(
    name: &str,
    positional: &[Given],
    named: &[(String, Given)],
    key: Option<&Key>,
    loc: Loc,
) -> Result<Results, Error> {
    let key = key.map_or(Given::None, |key| Given::Tensor(key.handle().clone()));
    let mut first: Option<Error> = None;
    for form in forms(name) {
        let call = form.arrange(positional, named).map_err(|e| e.at(loc));
        match call.and_then(|call| Ok((run(form.symbol, &call.args, &key, loc)?, call.mask))) {
            Ok((outs, mask)) => {
                let wanted = |at: usize| mask.as_ref().is_none_or(|mask| mask.get(at).copied().unwrap_or(true));
                let outs = outs.into_iter().enumerate().map(|(at, out)| wanted(at).then_some(out)).collect();
                return Ok(Results { outs, plain: form.plain });
            }
            // a form that stands for another value of the call says nothing about this one
            Err(e) if first.as_ref().is_none_or(|f| f.code() == "E710") => first = Some(e),
            Err(_) => {}
        }
    }
    Err(first.unwrap_or_else(|| Error::new("E710", format!("no row is called `{name}`")).at(loc)))
}

/// Calls the row or the overload of it that takes these arguments.
fn run(symbol: SymbolRef, args: &[(Name, Given)], key: &Given, loc: Loc) -> Result<Vec<Tensor>, Error> {
    let mut first = None;
    let overloads = symbol::candidates(Name::new(symbol.name()));
    for candidate in overloads {
        let made = convert::arguments(candidate.row(), args, key);
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
            becomes: g.becomes,
            value: g.value.as_ref().map(constant),
            rest: g.rest,
        });
        let fixed = alias.fixed.iter().map(|(name, value)| (name.name, constant(value))).collect();
        Form { symbol, params: params.collect(), fixed, plain: alias.plain }
    }

    /// The row's own arguments in their order.
    fn own(symbol: SymbolRef) -> Form {
        let sig = &symbol.row().sig;
        let names = sig.params.iter().map(|p| p.name).chain(sig.opts.iter().map(|o| o.name));
        let params = names.map(|name| Param {
            name: name.name,
            becomes: Becomes::Argument { name, count: None, like: None },
            value: None,
            rest: false,
        });
        Form { symbol, params: params.collect(), fixed: Vec::new(), plain: false }
    }

    /// As many integers as the form says: a single one repeats, absent ones are sizes of an earlier argument.
    fn repeated(
        &self,
        name: Name,
        count: Count,
        like: Option<Ident>,
        value: Given,
        before: &[(Name, Given)],
    ) -> Result<Given, Error> {
        let n = match (count, &value) {
            (Count::Some(n), _) => n,
            // the row repeats a number
            (Count::Axes, Given::List(items)) if items.len() == 1 => return Ok(items[0].clone()),
            (Count::Axes, _) => return Ok(value),
        };
        let items = match value {
            Given::List(items) if items.len() == 1 => vec![items[0].clone(); n],
            Given::List(items) if items.len() == n => items,
            Given::List(items) => {
                let (row, given) = (self.symbol.name(), items.len());
                return Err(Error::new("E704", format!("`{row}`: `{name}` has {given} entries, {n} are needed")));
            }
            one @ Given::Int(_) => vec![one; n],
            other => return Ok(other),
        };
        let like = like.and_then(|like| before.iter().find(|(name, _)| *name == like.name));
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
            let value = value.filter(|v| !matches!(v, Given::None));
            match (&param.becomes, value) {
                (Becomes::Argument { name, count, like }, value) => {
                    let empty = |v: &Given| count.is_some() && matches!(v, Given::List(items) if items.is_empty());
                    let Some(value) = value.filter(|v| !empty(v)).or_else(|| param.value.clone()) else { continue };
                    let opts = &self.symbol.row().sig.opts;
                    let needed = |o: &Opt| o.name.name == name.name && !o.optional && o.default.is_none();
                    if matches!(value, Given::None) && opts.iter().any(needed) {
                        let (row, param) = (self.symbol.name(), param.name);
                        let text = format!("`{row}`: no row stands behind a call without `{param}`");
                        return Err(Error::new("E710", text));
                    }
                    let value = match count {
                        Some(n) => self.repeated(param.name, *n, *like, value, &out)?,
                        None => value,
                    };
                    out.push((name.name, value));
                }
                (Becomes::Placed(entries, places), Some(Given::List(items))) => {
                    let mask = |t: &Given| matches!(t, Given::Tensor(t) if t.dtype() == DType::Bool);
                    if items.iter().any(mask) {
                        let text = format!("a mask in `{}`: how many elements it chooses is no shape", param.name);
                        return Err(Error::new("E710", text));
                    }
                    let there = (0..).zip(items).filter(|(_, item)| !matches!(item, Given::None));
                    let (at, there): (Vec<Given>, Vec<Given>) = there.map(|(at, item)| (Given::Int(at), item)).unzip();
                    out.extend([(entries.name, Given::List(there)), (places.name, Given::List(at))]);
                }
                (Becomes::Parts(parts), Some(Given::List(items))) => {
                    if items.len() != parts.len() {
                        let text = format!("`{}` has {} entries, {} are needed", param.name, items.len(), parts.len());
                        return Err(refuse(text));
                    }
                    out.extend(parts.iter().zip(items).filter_map(|(part, item)| Some(((*part)?.name, item))));
                }
                (Becomes::Wanted, Some(Given::List(wanted))) => {
                    mask = Some(wanted.iter().map(|w| matches!(w, Given::Bool(true))).collect());
                }
                (Becomes::Nothing, Some(value)) => {
                    if param.value.as_ref().is_some_and(|only| !same(&value, only)) {
                        let text = format!("no row stands behind `{}` = {value:?}", param.name);
                        return Err(Error::new("E710", text));
                    }
                }
                (_, None) => {}
                (_, Some(_)) => return Err(refuse(format!("`{}` is no list", param.name))),
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
