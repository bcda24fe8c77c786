//! Runtime checks: the conditions of a row that its signature does not decide, because they read elements or numbers
//! known only when the program runs.
//!
//! A bare tensor name in a `require` means each of its elements, so a condition becomes a row of its own with the
//! meaning `all[..s](condition)`, in which every bare `x` is `x[..s]`. Where arguments broadcast, the condition yields
//! a truth value per element. Inside `all[..](…)`, the name of a list of tensors means each element of its item at that
//! axis.

use crate::derive::walk;
use crate::lang::helpers::{self, HelperFact};
use crate::lang::{self, ast::*};
use crate::row::{Meaning, Row};
use crate::signature::const_eval::{self, At, Stop};
use crate::signature::{OutTy, Solved};
use crate::{DType, Name, TensorTy};

/// A condition as a row whose elements are truth values.
pub struct Condition {
    /// The row.
    pub row: Row,
    /// The body of the row.
    pub body: Block,
    /// The solved call, with the result of the condition.
    pub solved: Solved,
    /// The message of the refusal where an element is false.
    pub message: String,
}

/// The conditions of a call of `row` that its signature does not decide.
///
/// # Errors
/// Names the argument whose elements a condition reads along an axis without a name, which no index can run over.
pub fn open(row: &Row, solved: &Solved) -> Result<Vec<Condition>, Name> {
    if row.require.is_empty() && solved.env.scalar_axis.is_empty() {
        return Ok(Vec::new());
    }
    let undecided = |cond| matches!(const_eval::eval(&solved.env, cond, At::default()), Err(Stop::NotStatic));
    let open = row.require.iter().filter(|r| undecided(&r.cond)).map(|r| (r.cond.clone(), r.message.to_string()));
    open.chain(imagined(row, solved))
        .map(|(cond, message)| {
            let Elements { value, broadcasts, .. } = elements(row, &cond)?;
            let body = Block { stmts: Vec::new(), value };
            let shape = match solved.outs.first() {
                Some(OutTy::Tensor(out)) if broadcasts => out.shape.clone(),
                _ => Default::default(),
            };
            let span = Span::default();
            let dims = (!broadcasts).then(Vec::new);
            let ty = Type { elem: vec![Elem::Class(Name::new("bool"))], dims, list: None, span };
            let out = Out { name: Ident { name: Name::new("out"), span }, ty };
            let sig = Sig { outs: vec![out], aux: Vec::new(), named_outs: false, ..row.sig.clone() };
            let outs = vec![OutTy::Tensor(TensorTy { dtype: DType::Bool, shape })];
            Ok(Condition {
                row: Row { sig, meaning: Meaning::Expr(body.clone()), ..row.clone() },
                body,
                solved: Solved { outs, aux: Vec::new(), ..solved.clone() },
                message: format!("`{}`: {message}", row.op),
            })
        })
        .collect()
}

/// Conditions for arguments of rank 0 that stand for arguments with an axis of size 1: an index into it must be 0.
fn imagined(row: &Row, solved: &Solved) -> Vec<(Expr, String)> {
    let (Meaning::Expr(body) | Meaning::View(body)) = &row.meaning else { return Vec::new() };
    if solved.env.scalar_axis.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<Name> = Vec::new();
    let is_index = |name: Name| row.sig.params.iter().any(|p| p.name.name == name && p.ty.elem.contains(&Elem::Index));
    lang::walk::block(body, &mut |e| {
        if let Node::Access(access) = &*e.node
            && access.outside == Outside::Refuse
            && solved.env.scalar_axis.contains(&(access.base.name, 0))
        {
            for place in &access.places {
                if let Place::One(place) = place
                    && let Node::Access(index) = &*place.node
                    && is_index(index.base.name)
                    && !found.contains(&index.base.name)
                {
                    found.push(index.base.name);
                }
            }
        }
    });
    let zero = |name: Name| Expr::bare(Node::Binary(BinOp::Eq, Expr::name(name), Expr::bare(Node::Int(0))));
    found.into_iter().map(|name| (zero(name), "index out of range".to_owned())).collect()
}

/// The argument whose elements a condition of `row` reads although no call would check it, and why.
pub fn unasked(row: &Row, cond: &Expr) -> Option<(Name, &'static str)> {
    match elements(row, cond) {
        Err(argument) => Some((argument, "along an axis that has no name")),
        // The gradient of a composite goes through its body, so conditions of the row itself would be lost.
        Ok(found) if row.is_composite() => Some((found.reads?, "in a composite, whose gradient runs its body only")),
        Ok(_) => None,
    }
}

/// Whether a condition of `row` reads elements (or numbers where a tensor may stand).
pub fn reads_elements(row: &Row, cond: &Expr) -> bool {
    elements(row, cond).map_or(true, |found| found.reads.is_some())
}

/// A condition in terms of elements.
struct Elements {
    value: Expr,
    /// The first argument that it reads.
    reads: Option<Name>,
    /// Whether it has a truth value for each element of the broadcast shape.
    broadcasts: bool,
}

fn elements(row: &Row, cond: &Expr) -> Result<Elements, Name> {
    let mut binds: Vec<Bind> = Vec::new();
    let mut broadcasts = false;
    let (mut reads, mut unnamed) = (None, None);
    let value = walk::map(cond, &mut |e| match &*e.node {
        Node::Call(f, _) if helpers::is(f.name, HelperFact::OfType) => Some(e.clone()),
        Node::Name(n) => {
            let param = row.sig.params.iter().find(|p| p.name.name == *n)?;
            reads.get_or_insert(*n);
            let Some(dims) = &param.ty.dims else {
                broadcasts = true;
                return None;
            };
            let places = places(dims, &mut binds);
            if places.is_none() {
                unnamed.get_or_insert(*n);
            }
            let base = Ident { name: *n, span: Span::default() };
            let access = TensorAccess { base, places: places?, outside: Outside::Refuse, item: None };
            Some(Expr::bare(Node::Access(access)))
        }
        _ => None,
    });
    match unnamed.or(reads.filter(|_| broadcasts && !binds.is_empty())) {
        Some(argument) => Err(argument),
        None if binds.is_empty() => Ok(Elements { value, reads, broadcasts }),
        None => {
            let span = Span::default();
            let all = Reduce { red: Red::All, binds: Some(binds), filter: None, body: value, otherwise: None, span };
            Ok(Elements { value: Expr::bare(Node::Reduce(all)), reads, broadcasts })
        }
    }
}

/// The places of one element, and the indices that run over all of them.
fn places(dims: &[DimPat], binds: &mut Vec<Bind>) -> Option<Vec<Place>> {
    let place = |dim: &DimPat| {
        let (name, list) = match &dim.kind {
            DimKind::List { name, axes: None, .. } | DimKind::Broadcast(name) => (name.name, true),
            DimKind::One { size, .. } => match &*size.node {
                Node::Name(n) => (*n, false),
                _ => return None,
            },
            _ => return None,
        };
        let index = Ident { name: name.index_of_size(), span: Span::default() };
        if !binds.iter().any(|b| b.name.name == index.name) {
            binds.push(Bind { name: index, list, axes: None, range: None });
        }
        Some(match &dim.kind {
            DimKind::Broadcast(_) => Place::Broadcast(index),
            _ if list => Place::List(index, None),
            _ => Place::One(Expr::name(index.name)),
        })
    };
    dims.iter().map(place).collect()
}
