//! Parses values of points from YAML to tensors and options.

use std::sync::Arc;

use fulgurite_core::eval::loop_nest::Array;
use fulgurite_core::lang::{Dialect, Elem, Expr, ListItem, Node, Opt, OptType, Param, Type, UnOp, parse_expr};
use fulgurite_core::{DType, DTypeSet, Name, Scalar, Value};

use crate::check::gradients::arrays::dense::V;
use crate::yaml::{self, Text};

/// A number or a list of numbers, with the dtype that may be written before it.
#[derive(Clone, Debug)]
pub struct Written {
    /// The dtype, if one is written.
    pub dtype: Option<DType>,
    /// The numbers.
    pub tree: Tree,
}

/// At most this many elements of a tensor that is written by its type alone, because each is allocated.
const MOST_ZEROS: usize = 1 << 12;

/// The value in nested brackets.
#[derive(Clone, Debug)]
pub enum Tree {
    /// A number or truth value.
    One(Scalar),
    /// A word, or the labels of an einsum.
    Word(String),
    /// A tensor of zeros of these sizes.
    Zeros(Vec<usize>),
    /// A plain number where a tensor may stand.
    Plain(Scalar),
    /// An entry of a list with a dtype of its own.
    Typed(DType, Box<Tree>),
    /// A list in brackets.
    List(Vec<Tree>),
}

/// Parses `0.5`, `inf`, `[1, 2]`, `f32 [1, 2]`, `f32[0, 2]`, `number 2`, `ij,jk->ik`; `None` for any other text.
pub fn written(node: &yaml::Node) -> Option<Written> {
    match &node.value {
        yaml::Value::Scalar(text) => scalar(text),
        yaml::Value::List(items) => {
            let entry = |item: &yaml::Node| {
                let Written { dtype, tree } = written(item)?;
                Some(match dtype {
                    Some(dtype) => Tree::Typed(dtype, Box::new(tree)),
                    None => tree,
                })
            };
            Some(Written { dtype: None, tree: Tree::List(items.iter().map(entry).collect::<Option<_>>()?) })
        }
        _ => None,
    }
}

fn scalar(text: &Text) -> Option<Written> {
    let text = text.as_str().trim();
    let prefix = text.split_once(' ').and_then(|(first, rest)| Some((DType::from_name(first)?, rest)));
    if let Some((dtype, shape)) = typed(text) {
        return Some(Written { dtype: Some(dtype), tree: Tree::Zeros(shape) });
    }
    if let Some(number) = text.strip_prefix("number ") {
        let Tree::One(number) = tree(&parse_expr(number, Dialect::Tensor).ok()?)? else { return None };
        return Some(Written { dtype: None, tree: Tree::Plain(number) });
    }
    if text.contains("->") {
        // Labels, such as `ij,jk->ik`.
        return Some(Written { dtype: None, tree: Tree::Word(text.to_owned()) });
    }
    let (dtype, rest) = prefix.map_or((None, text), |(dtype, rest)| (Some(dtype), rest));
    Some(Written { dtype, tree: tree(&parse_expr(rest, Dialect::Tensor).ok()?)? })
}

/// Parses the type of a tensor of zeros, `f32[0, 3]`.
fn typed(text: &str) -> Option<(DType, Vec<usize>)> {
    let (dtype, sizes) = text.strip_suffix(']')?.split_once('[')?;
    let sizes = sizes.split(',').map(|n| n.trim().parse::<u16>().ok().map(usize::from));
    Some((DType::from_name(dtype)?, sizes.collect::<Option<_>>()?))
}

fn tree(e: &Expr) -> Option<Tree> {
    Some(match &*e.node {
        Node::Int(n) => Tree::One(Scalar::Int(*n)),
        Node::Float(x) => Tree::One(Scalar::Float(*x)),
        Node::Unary(UnOp::Neg, inner) => match tree(inner)? {
            Tree::One(Scalar::Int(n)) => Tree::One(Scalar::Int(n.wrapping_neg())),
            Tree::One(Scalar::Float(x)) => Tree::One(Scalar::Float(-x)),
            _ => return None,
        },
        Node::Name(name) => match name.as_str() {
            "true" => Tree::One(Scalar::Bool(true)),
            "false" => Tree::One(Scalar::Bool(false)),
            "inf" => Tree::One(Scalar::Float(f64::INFINITY)),
            "nan" => Tree::One(Scalar::Float(f64::NAN)),
            word => Tree::Word(word.to_owned()),
        },
        Node::List(items) => {
            let item = |item: &ListItem| match item {
                ListItem::One(e) => tree(e),
                ListItem::Spread(_) => None,
            };
            Tree::List(items.iter().map(item).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

impl Tree {
    /// The dtype of an entry, if it has one of its own, and its numbers.
    pub fn typed(&self) -> (Option<DType>, &Tree) {
        match self {
            Tree::Typed(dtype, tree) => (Some(*dtype), tree),
            tree => (None, tree),
        }
    }

    /// The first number that its dtype cannot hold; `usual` is the dtype of numbers without a written one.
    pub fn first_unheld(&self, usual: DType) -> Option<(DType, Scalar)> {
        match self {
            Tree::One(number) => (!holds(usual, *number)).then_some((usual, *number)),
            Tree::Typed(dtype, tree) => tree.first_unheld(*dtype),
            Tree::List(items) => items.iter().find_map(|item| item.first_unheld(usual)),
            Tree::Word(_) | Tree::Zeros(_) | Tree::Plain(_) => None,
        }
    }

    /// The numbers in row-major order; for a list of tensors, those of one tensor after the other.
    pub fn numbers(&self) -> Option<Vec<Scalar>> {
        match self.typed().1 {
            Tree::List(items) => Some(items.iter().map(Tree::numbers).collect::<Option<Vec<_>>>()?.concat()),
            tree => Some(tree.array()?.1),
        }
    }

    /// The sizes, and the numbers in row-major order; `None` if the lists differ in length.
    pub fn array(&self) -> Option<(Vec<usize>, Vec<Scalar>)> {
        match self {
            Tree::One(s) => Some((Vec::new(), vec![*s])),
            Tree::Word(_) | Tree::Plain(_) | Tree::Typed(..) => None,
            Tree::Zeros(shape) => {
                let n = shape.iter().try_fold(1usize, |n, size| n.checked_mul(*size)).filter(|n| *n <= MOST_ZEROS)?;
                Some((shape.clone(), vec![Scalar::Int(0); n]))
            }
            Tree::List(items) => {
                let parts: Vec<_> = items.iter().map(Tree::array).collect::<Option<_>>()?;
                let inner = parts.first().map(|(shape, _)| shape.clone()).unwrap_or_default();
                if parts.iter().any(|(shape, _)| *shape != inner) {
                    return None;
                }
                let shape = std::iter::once(parts.len()).chain(inner).collect();
                Some((shape, parts.into_iter().flat_map(|(_, numbers)| numbers).collect()))
            }
        }
    }
}

/// The value of an argument. For a list of tensors, each entry of the outermost brackets is a tensor.
pub fn param(param: &Param, written: &Written, accepted: DTypeSet) -> Option<Value<V<f64>>> {
    if param.ty.elem.contains(&Elem::Key) {
        let (_, numbers) = written.tree.array()?;
        let [seed, site] = numbers.as_slice() else { return None };
        return Some(Value::Tensor(V::Key([seed.as_i64(), site.as_i64()])));
    }
    if let Tree::Plain(number) = &written.tree {
        return Some(Value::Num(*number));
    }
    let usual = written.dtype.or_else(|| usual(&param.ty, accepted))?;
    let tensor = |tree: &Tree| {
        let (dtype, tree) = tree.typed();
        let dtype = dtype.unwrap_or(usual);
        let (shape, numbers) = tree.array()?;
        Some(Value::Tensor(V::Array(Arc::new(Array::from_scalars(dtype, &shape, numbers)))))
    };
    match (&written.tree, &param.ty.list) {
        (Tree::List(items), Some(_)) => Some(Value::List(items.iter().map(tensor).collect::<Option<_>>()?)),
        (tree, None) => tensor(tree),
        _ => None,
    }
}

/// The dtype of an argument where none is written: f64 if it is accepted, else i64, else the first accepted one.
pub fn usual(ty: &Type, accepted: DTypeSet) -> Option<DType> {
    let prefer = |set: DTypeSet| [DType::F64, DType::I64].into_iter().find(|d| set.contains(*d)).or(set.iter().next());
    match ty.elem.first()? {
        Elem::Var(name) if *name == "T" => prefer(accepted),
        Elem::Var(_) | Elem::Acc(_) | Elem::Real(_) => Some(DType::F64),
        Elem::Index => Some(DType::I64),
        Elem::Class(name) => prefer(DTypeSet::from_class(name.as_str())?),
        Elem::Key => None,
    }
}

/// The value of an option.
pub fn option(opt: &Opt, written: &Written) -> Option<Value<V<f64>>> {
    fn value(tree: &Tree) -> Value<V<f64>> {
        match tree {
            Tree::One(s) => Value::Num(*s),
            Tree::Word(word) => Value::Word(Name::new(word)),
            Tree::Plain(s) => Value::Num(*s),
            Tree::Zeros(_) => Value::Absent,
            Tree::Typed(_, tree) => value(tree),
            Tree::List(items) => Value::List(items.iter().map(value).collect()),
        }
    }
    Some(match (&opt.ty, &written.tree) {
        (OptType::Dtype(_), Tree::Word(word)) => Value::DType(DType::from_name(word)?),
        (OptType::F64, Tree::One(s)) => Value::Num(Scalar::Float(s.as_f64())),
        (OptType::Str | OptType::Labels(_), Tree::Word(word)) => Value::Str(word.clone()),
        (_, tree) => value(tree),
    })
}

/// Whether `dtype` can hold this number, perhaps rounded.
pub fn holds(dtype: DType, number: Scalar) -> bool {
    if dtype.is_float() {
        let x = number.as_f64();
        return !x.is_finite() || x.abs() <= dtype.largest();
    }
    match number {
        Scalar::Bool(_) => true,
        Scalar::Int(n) => (lowest(dtype)..=highest(dtype)).contains(&n),
        Scalar::Float(_) => false,
    }
}

/// The largest number of an integer dtype.
pub fn highest(dtype: DType) -> i64 {
    dtype.integers().1
}

/// The smallest number of an integer dtype.
pub fn lowest(dtype: DType) -> i64 {
    dtype.integers().0
}
