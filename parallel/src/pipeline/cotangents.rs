//! Cotangents of a stage's outputs: a tree with the structure of the outputs, in which parts may be absent.

use super::errors;
use fulgurite_core::counted;
use fulgurite_runtime::Error;
use fulgurite_runtime::tensor::Tensor;
use fulgurite_runtime::trace::ProxyTy;
use fulgurite_runtime::tree::{Tree, describe};

/// A tree of cotangents.
#[derive(Clone, Debug)]
pub enum Cotangent {
    /// The cotangents of this whole part of the tree are zero.
    Absent,
    /// The cotangent of one output.
    Tensor(Tensor),
    /// The cotangents of a tuple or list.
    List(Vec<Cotangent>),
    /// The cotangents of named parts.
    Named(Vec<(String, Cotangent)>),
}

/// The cotangents that a backward starts from.
#[derive(Clone, Debug)]
pub enum Cotangents {
    /// The output is the loss, whose cotangent is 1.
    Loss,
    /// A tree with the structure of the outputs.
    Tree(Cotangent),
    /// One cotangent per tensor of the outputs, in order.
    Leaves(Vec<Option<Tensor>>),
}

impl Cotangent {
    /// The cotangents for every tensor of a tree.
    pub fn of<T: Tree>(tree: &T) -> Cotangent {
        let (leaves, detail) = describe(tree);
        Form::of(detail.paths.iter().map(|p| &**p)).fill(&leaves)
    }
}

impl From<Cotangent> for Cotangents {
    fn from(tree: Cotangent) -> Cotangents {
        Cotangents::Tree(tree)
    }
}
impl From<Vec<Option<Tensor>>> for Cotangents {
    fn from(leaves: Vec<Option<Tensor>>) -> Cotangents {
        Cotangents::Leaves(leaves)
    }
}
impl<T: Tree> From<&T> for Cotangents {
    fn from(tree: &T) -> Cotangents {
        Cotangents::Tree(Cotangent::of(tree))
    }
}

/// The rest of a leaf's path, and the leaf's number.
type Leaf<'p> = (Vec<&'p str>, usize);

/// The structure of a tree, with the numbers of its leaves.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    Leaf(usize),
    List(Vec<Form>),
    Named(Vec<(String, Form)>),
}

impl Form {
    /// The structure of a tree whose leaves have these paths: `h`, `aux.0`.
    pub fn of<'p>(paths: impl Iterator<Item = &'p str>) -> Form {
        let split = |(i, path): (usize, &'p str)| (path.split('.').filter(|s| !s.is_empty()).collect(), i);
        Form::group(paths.enumerate().map(split).collect())
    }

    fn group(leaves: Vec<Leaf>) -> Form {
        if let [(path, i)] = &leaves[..]
            && path.is_empty()
        {
            return Form::Leaf(*i);
        }
        let mut parts: Vec<(&str, Vec<Leaf>)> = Vec::new();
        for (path, i) in leaves {
            let (first, rest) = path.split_first().map_or(("", &[][..]), |(first, rest)| (*first, rest));
            match parts.iter_mut().find(|(name, _)| *name == first) {
                Some((_, part)) => part.push((rest.to_vec(), i)),
                None => parts.push((first, vec![(rest.to_vec(), i)])),
            }
        }
        if parts.iter().enumerate().all(|(i, (name, _))| name.parse() == Ok(i)) {
            return Form::List(parts.into_iter().map(|(_, part)| Form::group(part)).collect());
        }
        Form::Named(parts.into_iter().map(|(name, part)| (name.to_owned(), Form::group(part))).collect())
    }

    fn fill(&self, leaves: &[Tensor]) -> Cotangent {
        match self {
            Form::Leaf(i) => Cotangent::Tensor(leaves[*i].clone()),
            Form::List(items) => Cotangent::List(items.iter().map(|f| f.fill(leaves)).collect()),
            Form::Named(parts) => {
                Cotangent::Named(parts.iter().map(|(name, f)| (name.clone(), f.fill(leaves))).collect())
            }
        }
    }

    /// Puts the tensors of `given` at the numbers of their leaves.
    pub fn read(&self, stage: usize, given: Cotangent, path: &str, leaves: &mut [Option<Tensor>]) -> Result<(), Error> {
        let shown = |c: &Cotangent| match c {
            Cotangent::Absent => "nothing".to_owned(),
            Cotangent::Tensor(_) => "a tensor".to_owned(),
            Cotangent::List(items) => format!("a list of {}", items.len()),
            Cotangent::Named(parts) => format!("parts {}", names(parts.iter().map(|(name, _)| name))),
        };
        match (self, given) {
            (_, Cotangent::Absent) => Ok(()),
            (Form::Leaf(i), Cotangent::Tensor(t)) => {
                leaves[*i] = Some(t);
                Ok(())
            }
            (Form::List(forms), Cotangent::List(items)) if forms.len() == items.len() => {
                let each = |(i, (form, item)): (usize, (&Form, Cotangent))| {
                    form.read(stage, item, &format!("{path}[{i}]"), leaves)
                };
                forms.iter().zip(items).enumerate().try_for_each(each)
            }
            (Form::List(forms), Cotangent::List(items)) => {
                let entries = counted(forms.len(), "entry", "entries");
                let claim = format!("`{path}` has {entries}, the cotangent has {}", items.len());
                Err(errors::cotangent(stage, path, claim))
            }
            (Form::Named(forms), Cotangent::Named(items)) => {
                let same =
                    forms.len() == items.len() && forms.iter().all(|(name, _)| items.iter().any(|(n, _)| n == name));
                if !same {
                    let (want, have) = (names(forms.iter().map(|(n, _)| n)), names(items.iter().map(|(n, _)| n)));
                    let claim = format!("`{path}` has the parts {want}, the cotangent has {have}");
                    return Err(errors::cotangent(stage, path, claim));
                }
                items.into_iter().try_for_each(|(name, item)| match forms.iter().find(|(n, _)| *n == name) {
                    Some((_, form)) => form.read(stage, item, &format!("{path}.{name}"), leaves),
                    None => Ok(()),
                })
            }
            (form, given) => {
                let want = match form {
                    Form::Leaf(_) => "a tensor".to_owned(),
                    Form::List(items) => format!("a list of {}", items.len()),
                    Form::Named(parts) => format!("parts {}", names(parts.iter().map(|(name, _)| name))),
                };
                let claim = format!("`{path}` is {want}, the cotangent is {}", shown(&given));
                Err(errors::cotangent(stage, path, claim))
            }
        }
    }

    /// The path of a leaf as errors write it: `out.aux[1]`.
    pub fn path(&self, leaf: usize) -> String {
        fn find(form: &Form, leaf: usize, path: String) -> Option<String> {
            match form {
                Form::Leaf(i) => (*i == leaf).then_some(path),
                Form::List(items) => items.iter().enumerate().find_map(|(i, f)| find(f, leaf, format!("{path}[{i}]"))),
                Form::Named(parts) => parts.iter().find_map(|(name, f)| find(f, leaf, format!("{path}.{name}"))),
            }
        }
        find(self, leaf, "out".to_owned()).unwrap_or_else(|| "out".to_owned())
    }
}

fn names<'n>(names: impl Iterator<Item = &'n String>) -> String {
    let mut names: Vec<&str> = names.map(String::as_str).collect();
    names.sort_unstable();
    format!("{{{}}}", names.join(", "))
}

/// The cotangents as a list with one entry per leaf of the outputs, each of the type of its output.
pub(super) fn leaves(
    stage: usize,
    form: &Form,
    types: &[ProxyTy],
    given: Cotangents,
) -> Result<Vec<Option<Tensor>>, Error> {
    let mut leaves = vec![None; types.len()];
    match given {
        Cotangents::Loss => {
            let scalar = |ty: &ProxyTy| matches!(ty.as_tensor(), Some(t) if t.dtype.is_float() && t.shape.is_empty());
            match types {
                [ty] if scalar(ty) => leaves[0] = Some(one(ty)?),
                _ => return Err(errors::loss(stage, shapes(types))),
            }
        }
        Cotangents::Tree(tree) => form.read(stage, tree, "out", &mut leaves)?,
        Cotangents::Leaves(list) if list.len() == types.len() => leaves = list,
        Cotangents::Leaves(list) => {
            let claim = format!("{} outputs, {} cotangents", types.len(), list.len());
            return Err(errors::cotangent(stage, "out", claim));
        }
    }
    for (i, (leaf, ty)) in leaves.iter().zip(types).enumerate() {
        let Some(leaf) = leaf else { continue };
        leaf.check()?;
        let path = form.path(i);
        if !ty.as_tensor().is_some_and(|t| t.dtype.is_float()) {
            return Err(errors::cotangent(stage, &path, format!("`{path}` is {ty}, which has none")));
        }
        let have = leaf.ty();
        if have.as_ref() != Some(ty) {
            let have = have.map_or_else(String::new, |t| t.to_string());
            return Err(errors::cotangent(stage, &path, format!("`{path}` is {ty}, the cotangent is {have}")));
        }
    }
    Ok(leaves)
}

/// The number 1 in the type of a loss.
fn one(ty: &ProxyTy) -> Result<Tensor, Error> {
    let dtype = ty.as_tensor().map_or(fulgurite_core::DType::F32, |t| t.dtype);
    let number = fulgurite_runtime::buffer::Buffer::number(fulgurite_core::Scalar::Float(1.0), dtype);
    number.map(Tensor::from_buffer).map_err(|e| Error::new("E743", e.to_string()))
}

/// The types that a stage returns, for an error: `[4]`, or the types of several outputs.
fn shapes(types: &[ProxyTy]) -> String {
    let one = |ty: &ProxyTy| match ty.as_tensor() {
        Some(t) if t.dtype.is_float() => {
            format!("[{}]", t.shape.iter().map(|d| d.to_string()).collect::<Vec<_>>().join(", "))
        }
        _ => ty.to_string(),
    };
    types.iter().map(one).collect::<Vec<_>>().join(" and ")
}
