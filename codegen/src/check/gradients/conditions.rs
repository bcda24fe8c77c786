//! Conditions that read elements: a bare tensor name in a `require` means each of its elements.

use fulgurite_core::Name;
use fulgurite_core::derive::walk;
use fulgurite_core::lang::{
    Bind, Block, DimKind, Elem, Expr, Ident, Node, Outside, Place, Red, Reduce, Span, TensorAccess, Type,
};
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::sig::{OutTy, Solved};
use fulgurite_core::{DType, TensorTy};

/// Calls whose arguments are asked for their types, not for their elements.
const OF_TYPES: [&str; 9] = ["some", "size", "len", "rank", "is_tensor", "is_number", "is_int", "is_bool", "is_float"];

/// For each condition that reads elements, a row that yields whether it holds, and its message.
pub(super) fn tests(row: &Row) -> Vec<(Row, String)> {
    // of a pointwise row the condition itself is pointwise
    let dims = if row.is_pointwise() { None } else { Some(Vec::new()) };
    let test = |value: Expr| {
        let mut test = row.clone();
        test.sig.outs.truncate(1);
        test.sig.aux.clear();
        let bool_ = vec![Elem::Class(Name::new("bool"))];
        test.sig.outs[0].ty = Type { elem: bool_, dims: dims.clone(), list: None, span: Span::default() };
        test.meaning = Meaning::Expr(Block { stmts: vec![], value });
        test
    };
    let all = row.require.iter().filter(|_| !row.sig.outs.is_empty());
    all.filter_map(|require| Some((test(elementwise(row, &require.cond)?), require.message.clone()))).collect()
}

/// The call with a result that is a truth value, for each element of a pointwise row.
pub(super) fn truths(row: &Row, solved: &Solved) -> Solved {
    let mut solved = solved.clone();
    let shape = match solved.outs.first() {
        Some(OutTy::Tensor(out)) if row.is_pointwise() => out.shape.clone(),
        _ => Default::default(),
    };
    solved.outs = vec![OutTy::Tensor(TensorTy { dtype: DType::Bool, shape })];
    solved.aux.clear();
    solved
}

/// `all[..s](cond)` with every bare tensor `x` as `x[..s]`, if `cond` mentions a tensor bare.
fn elementwise(row: &Row, cond: &Expr) -> Option<Expr> {
    let mut binds: Vec<Bind> = Vec::new();
    let mut found = false;
    let value = walk::map(cond, &mut |e| {
        if let Node::Call(f, _) = &*e.node
            && OF_TYPES.contains(&f.name.as_str())
        {
            return Some(e.clone());
        }
        let Node::Name(n) = &*e.node else { return None };
        let param = row.sig.params.iter().find(|p| p.name.name == *n && p.ty.list.is_none())?;
        if row.is_pointwise() {
            found = true;
            return None;
        }
        let mut places = Vec::new();
        for dim in param.ty.dims.iter().flatten() {
            let (name, list) = match &dim.kind {
                DimKind::List { name, axes: None, .. } | DimKind::Broadcast(name) => (name.name, true),
                DimKind::One { size, .. } => match &*size.node {
                    Node::Name(n) => (*n, false),
                    _ => return None,
                },
                _ => return None,
            };
            let index = Ident { name: name.index_of_size(), span: Span::default() };
            places.push(match &dim.kind {
                DimKind::Broadcast(_) => Place::Broadcast(index),
                _ if list => Place::List(index, None),
                _ => Place::One(Expr::name(index.name)),
            });
            if !binds.iter().any(|b| b.name.name == index.name) {
                binds.push(Bind { name: index, list, axes: None, range: None });
            }
        }
        found = true;
        let base = Ident { name: *n, span: Span::default() };
        Some(Expr::bare(Node::Access(TensorAccess { base, places, outside: Outside::Refuse, item: None })))
    });
    if row.is_pointwise() {
        return found.then_some(value);
    }
    let span = Span::default();
    let all = Reduce { red: Red::All, binds: Some(binds), filter: None, body: value, otherwise: None, span };
    found.then(|| Expr::bare(Node::Reduce(all)))
}
