//! Calls of rows by the names of other libraries: the rows' `aten:`, `torch:` and `onnx:` lists, and alias rows.
//!
//! A call comes in the form of that library: positional and named values of a dynamic language. The call form maps each
//! value to an argument of the row ([`Form::arrange`]), and the row's signature converts it ([`arguments`]): an integer
//! names an axis, a word or its number chooses from an `enum`, a single number repeats over axes.

mod convert;
mod library;

pub use convert::arguments;
pub use library::{LIBRARIES, dtype, is_alias, library, spellings};

use crate::lang::ast::{ListItem, Node, Opt, OptType, UnOp};
use crate::lang::{Alias, Becomes, Count, Expr, Gives, Ident};
use crate::row::Row;
use crate::signature::{ArgTy, Refusal};
use crate::{DType, Dim, Name, Scalar, TensorTy, counted};

/// A value that takes the place of a tensor in a call.
pub trait Operand: Clone {
    /// The type of the value.
    fn ty(&self) -> ArgTy;
    /// The element of the value, if it has rank 0 and the element is known.
    fn known(&self) -> Option<Scalar>;
    /// The elements of the value, if it is a vector and they are known.
    fn known_list(&self) -> Option<Vec<Scalar>>;
    /// A tensor with these elements and other sizes.
    fn reshaped(&self, shape: &[Dim]) -> Self;
}

/// A value of a dynamic language.
#[derive(Clone, Debug)]
pub enum Given<V> {
    /// Not given.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A size, which may be symbolic.
    Size(Dim),
    /// A float.
    Float(f64),
    /// A text.
    Str(String),
    /// A dtype.
    DType(DType),
    /// A tensor.
    Tensor(V),
    /// A tensor whose elements lie in memory in another order than that of its axes.
    Strided(V),
    /// A list.
    List(Vec<Given<V>>),
}

impl<V: Operand> Given<V> {
    /// The items of a list, or the elements of a vector that are known.
    fn items(&self) -> Option<Vec<Given<V>>> {
        match self {
            Given::List(items) => Some(items.clone()),
            Given::Tensor(t) => Some(t.known_list()?.into_iter().map(Given::from).collect()),
            _ => None,
        }
    }
}

/// The arguments of a call, as the row names them.
pub struct Arranged<V> {
    /// Arguments and options by name.
    pub args: Vec<(Name, Given<V>)>,
    /// Which results are wanted; `None`: all.
    pub mask: Option<Vec<bool>>,
}

/// The translation of calls under another library's name to calls of a row.
#[derive(Debug)]
pub struct Form<V> {
    /// The library whose call it is.
    library: &'static str,
    params: Vec<Param<V>>,
    /// Arguments of the row that the name implies.
    fixed: Vec<(Name, Given<V>)>,
    /// The form of the call's result in that library.
    pub gives: Gives,
}

/// A parameter of the other library.
#[derive(Debug)]
struct Param<V> {
    name: Name,
    becomes: Becomes,
    /// The default in that library; for a parameter that is dropped, the only admitted value.
    value: Option<Given<V>>,
    /// Whether the parameter takes all further positional arguments.
    rest: bool,
    /// Whether a strided tensor is refused here, because no row corresponds to it.
    packed: bool,
    /// Whether a call must give it.
    required: bool,
}

impl<V: Operand> Form<V> {
    /// The call form `alias` of `row` in `library`.
    pub fn new(row: &Row, library: &'static str, alias: &Alias) -> Form<V> {
        let Some(given) = &alias.given else { return Form::own(row, library) };
        let params = given.iter().map(|g| Param {
            name: g.name.name,
            becomes: g.becomes.clone(),
            value: g.value.as_ref().map(constant),
            rest: g.rest,
            packed: g.packed,
            required: g.required,
        });
        let fixed = alias.fixed.iter().map(|(name, value)| (name.name, constant(value))).collect();
        Form { library, params: params.collect(), fixed, gives: alias.gives }
    }

    /// The form of `library` with the row's own arguments in their order.
    pub fn own(row: &Row, library: &'static str) -> Form<V> {
        let sig = &row.sig;
        let names = sig.params.iter().map(|p| p.name).chain(sig.opts.iter().map(|o| o.name));
        let params = names.map(|name| Param {
            name: name.name,
            becomes: Becomes::Argument { name, count: None, like: None },
            value: None,
            rest: false,
            packed: false,
            required: false,
        });
        Form { library, params: params.collect(), fixed: Vec::new(), gives: Gives::Tensors }
    }

    /// The number of integers that the form declares: a single one repeats, absent ones are sizes of an earlier
    /// argument.
    fn repeated(
        row: &Row,
        name: Name,
        count: Count,
        like: Option<Ident>,
        value: Given<V>,
        before: &[(Name, Given<V>)],
    ) -> Result<Given<V>, Refusal> {
        let n = match (count, &value) {
            (Count::Some(n), _) => n,
            // The row itself repeats a number.
            (Count::Axes, Given::List(items)) if items.len() == 1 => return Ok(items[0].clone()),
            (Count::Axes, _) => return Ok(value),
        };
        let items = match value {
            Given::List(items) if items.len() == 1 => vec![items[0].clone(); n],
            Given::List(items) if items.len() == n => items,
            Given::List(items) => {
                let (row, given, needed) = (row.op, counted(items.len(), "entry", "entries"), counted(n, "is", "are"));
                return Err(Refusal::new("E704", format!("`{row}`: `{name}` has {given}, {needed} needed")));
            }
            one @ Given::Int(_) => vec![one; n],
            other => return Ok(other),
        };
        let like = like.and_then(|like| before.iter().find(|(name, _)| *name == like.name));
        let Some((_, Given::Tensor(like))) = like else { return Ok(Given::List(items)) };
        let ArgTy::Tensor(TensorTy { shape, .. }) = like.ty() else { return Ok(Given::List(items)) };
        let size = |at: usize| shape.len().checked_sub(n - at).and_then(|axis| shape.get(axis));
        let item = |(at, item): (usize, Given<V>)| match (item, size(at)) {
            (Given::None, Some(size)) => Given::Int(size.value()),
            (item, _) => item,
        };
        Ok(Given::List(items.into_iter().enumerate().map(item).collect()))
    }

    /// The value of an argument, in whose place the library may have another one: each numbers dtypes in its own way,
    /// and ONNX writes truth values as 0 and 1, and some words in capitals.
    fn translated(&self, row: &Row, name: Name, value: Given<V>) -> Result<Given<V>, Refusal> {
        let opt = row.sig.opts.iter().find(|o| o.name.name == name).map(|o| &o.ty);
        Ok(match (opt, value) {
            (Some(OptType::Dtype(_)), Given::Int(code)) => {
                let unknown =
                    || Refusal::new("E710", format!("`{}`: no dtype here is {code} of {}", row.op, self.library));
                dtype(self.library, code).map(Given::DType).ok_or_else(unknown)?
            }
            (Some(OptType::Bool), Given::Int(flag @ 0..=1)) if self.library == "onnx" => Given::Bool(flag == 1),
            (Some(OptType::Enum(_)), Given::Str(word)) if self.library == "onnx" => {
                Given::Str(word.to_ascii_lowercase())
            }
            (_, value) => value,
        })
    }

    /// Whether the form has a parameter of this name.
    pub fn has(&self, parameter: &str) -> bool {
        self.params.iter().any(|param| param.name == parameter)
    }

    /// The arguments of `row` by name.
    ///
    /// # Errors
    /// E702 for arguments that the form does not have; E704 for a list of the wrong length; E710 for a value for which
    /// there is no row.
    pub fn arrange(
        &self,
        row: &Row,
        positional: &[Given<V>],
        named: &[(String, Given<V>)],
    ) -> Result<Arranged<V>, Refusal> {
        let refuse = |text: String| Refusal::new("E702", format!("`{}`: {text}", row.op));
        let mut values: Vec<Option<Given<V>>> = vec![None; self.params.len()];
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
                "{} given, at most {} taken",
                counted(positional.len(), "argument is", "arguments are"),
                counted(values.len(), "is", "are")
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
        let mut out: Vec<(Name, Given<V>)> = Vec::new();
        let mut mask = None;
        for (param, value) in self.params.iter().zip(values) {
            if param.required && value.is_none() {
                return Err(refuse(format!("`{}` is missing", param.name)));
            }
            let value = value.filter(|v| !matches!(v, Given::None));
            if param.packed && matches!(value, Some(Given::Strided(_))) {
                let text = format!("what `{}` makes of a strided `{}` hangs on its memory", row.op, param.name);
                return Err(Refusal::new("E710", text));
            }
            let value = value.map(Given::plain);
            match (&param.becomes, value) {
                (Becomes::Argument { name, count, like }, value) => {
                    let empty = |v: &Given<V>| count.is_some() && matches!(v, Given::List(items) if items.is_empty());
                    let Some(value) = value.filter(|v| !empty(v)).or_else(|| param.value.clone()) else { continue };
                    let opts = &row.sig.opts;
                    let needed = |o: &Opt| o.name.name == name.name && !o.optional && o.default.is_none();
                    if matches!(value, Given::None) && opts.iter().any(needed) {
                        let (row, param) = (row.op, param.name);
                        let text = format!("`{row}`: no row stands behind a call without `{param}`");
                        return Err(Refusal::new("E710", text));
                    }
                    let value = match count {
                        Some(n) => Self::repeated(row, param.name, *n, *like, value, &out)?,
                        None => value,
                    };
                    out.push((name.name, self.translated(row, name.name, value)?));
                }
                (Becomes::Placed(entries, places), Some(Given::List(items))) => {
                    let is_bool = |t: &V| matches!(t.ty(), ArgTy::Tensor(t) if t.dtype == DType::Bool);
                    let mask = |t: &Given<V>| matches!(t, Given::Tensor(t) if is_bool(t));
                    if items.iter().any(mask) {
                        let text = format!("a mask in `{}`: how many elements it chooses is no shape", param.name);
                        return Err(Refusal::new("E710", text));
                    }
                    let there = (0..).zip(items).filter(|(_, item)| !matches!(item, Given::None));
                    let (at, there): (Vec<Given<V>>, Vec<Given<V>>) =
                        there.map(|(at, item)| (Given::Int(at), item)).unzip();
                    out.extend([(entries.name, Given::List(there)), (places.name, Given::List(at))]);
                }
                (Becomes::Along(entries, _), Some(list @ Given::List(_))) => out.push((entries.name, list)),
                (Becomes::Typed(argument, option), Some(value)) => {
                    let of = match &value {
                        Given::Tensor(t) => match t.ty() {
                            ArgTy::Tensor(ty) => Some(ty.dtype),
                            _ => None,
                        },
                        Given::Bool(_) => Some(DType::Bool),
                        Given::Int(_) | Given::Size(_) => Some(DType::I64),
                        _ => None,
                    };
                    let new = of.filter(|_| out.iter().all(|(name, _)| *name != option.name));
                    out.push((argument.name, value));
                    out.extend(new.map(|dtype| (option.name, Given::DType(dtype))));
                }
                (Becomes::Parts(parts), Some(given)) if given.items().is_some() => {
                    let items = given.items().unwrap_or_default();
                    if items.len() != parts.len() {
                        let (given, needed) =
                            (counted(items.len(), "entry", "entries"), counted(parts.len(), "is", "are"));
                        return Err(refuse(format!("`{}` has {given}, {needed} needed", param.name)));
                    }
                    out.extend(parts.iter().zip(items).filter_map(|(part, item)| Some(((*part)?.name, item))));
                }
                (Becomes::Wanted, Some(Given::List(wanted))) => {
                    let flag = |w: &Given<V>| if let Given::Bool(flag) = w { Some(*flag) } else { None };
                    let flags = wanted.iter().map(flag).collect::<Option<_>>();
                    mask = Some(flags.ok_or_else(|| refuse(format!("`{}` is no list of flags", param.name)))?);
                }
                (Becomes::Nothing, Some(value)) => {
                    if param.value.as_ref().is_some_and(|only| !same(&value, only)) {
                        let text = format!("no row stands behind this value of `{}`", param.name);
                        return Err(Refusal::new("E710", text));
                    }
                }
                (_, None) => {}
                (_, Some(_)) => return Err(refuse(format!("`{}` is no list", param.name))),
            }
        }
        out.extend(self.fixed.iter().cloned());
        for param in &self.params {
            if let Becomes::Along(entries, dim) = &param.becomes {
                fill(row, &mut out, entries.name, dim.name);
            }
        }
        Ok(Arranged { args: out, mask })
    }
}

/// Gives empty vectors in the list `entries` the axes of the other tensors there, with size 0 along option `dim`.
fn fill<V: Operand>(row: &Row, args: &mut [(Name, Given<V>)], entries: Name, dim: Name) {
    let default = || row.sig.opts.iter().find(|o| o.name.name == dim)?.default.as_ref().map(constant);
    let given = args.iter().find(|(name, _)| *name == dim).map(|(_, value)| value.clone());
    let Some(Given::Int(dim)) = given.or_else(default) else { return };
    let Some((_, Given::List(items))) = args.iter_mut().find(|(name, _)| *name == entries) else { return };
    let shape = |item: &Given<V>| match item {
        Given::Tensor(t) => match t.ty() {
            ArgTy::Tensor(t) => Some(t.shape),
            _ => None,
        },
        _ => None,
    };
    let empty = |shape: &[Dim]| matches!(shape, [one] if one.is_const() && one.is(0));
    let Some(mut full) = items.iter().filter_map(shape).find(|s| !empty(s)) else { return };
    let rank = full.len();
    let axis = if dim < 0 { dim + rank as i64 } else { dim };
    match usize::try_from(axis).ok().and_then(|axis| full.get_mut(axis)) {
        Some(size) if rank > 1 => *size = Dim::from(0),
        _ => return,
    }
    for item in items {
        if let Given::Tensor(t) = item
            && matches!(t.ty(), ArgTy::Tensor(ty) if empty(&ty.shape))
        {
            *item = Given::Tensor(t.reshaped(&full));
        }
    }
}

/// A constant of a call form. The build admits only numbers, words and lists of these.
fn constant<V>(e: &Expr) -> Given<V> {
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

fn same<V>(a: &Given<V>, b: &Given<V>) -> bool {
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
