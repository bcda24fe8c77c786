//! Conditions of rows that read elements or run-time numbers: checked when the program runs, before the line.
//!
//! A bare tensor name in a `require` means each of its elements, so a condition becomes the meaning
//! `all[..s](condition)` with every bare `x` as `x[..s]`; inside `all[..](…)` the name of a list of tensors means each
//! element of its item at that axis. What signatures can decide they have decided before.

use super::{ExecError, Kernel, Line, TensorMut, TensorRef};
use crate::symbol::Registered;
use fulgurite_core::lang::ast::*;
use fulgurite_core::lower::lower_with;
use fulgurite_core::nest::Nest;
use fulgurite_core::row::Row;
use fulgurite_core::sig::OutTy;
use fulgurite_core::sig::statics::{self, At, Stop};
use fulgurite_core::{DType, Name, TensorTy};
use std::sync::Arc;

/// A condition as a nest with one truth value, and what to say where it is false.
pub(crate) struct Check {
    /// The condition.
    pub nest: Arc<Nest>,
    /// The message.
    pub message: String,
}

/// The conditions of a line that only a run can decide.
pub(crate) fn checks(line: &Line) -> Result<Vec<Check>, ExecError> {
    let row = line.symbol.symbol.row();
    let mut out = Vec::new();
    for require in &row.require {
        if !matches!(statics::eval(&line.symbol.solved.env, &require.cond, At::default()), Err(Stop::NotStatic)) {
            continue;
        }
        let Some(body) = elementwise(row, &require.cond) else { continue };
        let span = Span::default();
        let mut test = row.clone();
        test.sig.aux.clear();
        test.sig.outs.truncate(1);
        if let Some(result) = test.sig.outs.first_mut() {
            result.ty = Type { elem: vec![Elem::Class(Name::new("bool"))], dims: Some(Vec::new()), list: None, span };
        }
        let mut solved = (*line.symbol.solved).clone();
        solved.outs = vec![OutTy::Tensor(TensorTy::new::<i64>(DType::Bool, &[]))];
        solved.aux.clear();
        let block = Block { stmts: Vec::new(), value: body };
        let nest = lower_with(&test, &block, &solved, &Registered).map_err(|r| ExecError {
            code: r.code,
            message: r.message,
            line: Some(line.id()),
            help: r.help,
        })?;
        out.push(Check {
            nest: Arc::new(line.renumbered(nest)),
            message: format!("`{}`: {}", row.op, require.message),
        });
    }
    Ok(out)
}

/// `all[..s](cond)` with every bare tensor `x` as `x[..s]`; the condition itself if it reads numbers only. `None` where
/// an argument's axes have no names to bind.
fn elementwise(row: &Row, cond: &Expr) -> Option<Expr> {
    let mut binds: Vec<Bind> = Vec::new();
    let mut unnamed = false;
    let value = map(cond, &mut |e| {
        if let Node::Call(f, _) = &*e.node
            && matches!(
                f.name.as_str(),
                "some" | "size" | "len" | "rank" | "is_tensor" | "is_number" | "is_int" | "is_bool" | "is_float"
            )
        {
            return Some(e.clone());
        }
        let Node::Name(n) = &*e.node else { return None };
        let param = row.sig.params.iter().find(|p| p.name.name == *n)?;
        let Some(dims) = &param.ty.dims else {
            unnamed = true;
            return None;
        };
        let mut places = Vec::new();
        for dim in dims {
            let named = match &dim.kind {
                DimKind::List { name, axes: None, .. } | DimKind::Broadcast(name) => Some((name.name, true)),
                DimKind::One { size, .. } => match &*size.node {
                    Node::Name(n) => Some((*n, false)),
                    _ => None,
                },
                _ => None,
            };
            let Some((name, list)) = named else {
                unnamed = true;
                return None;
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
        let base = Ident { name: *n, span: Span::default() };
        Some(Expr::bare(Node::Access(TensorAccess { base, places, outside: Outside::Refuse, item: None })))
    });
    if unnamed {
        return None;
    }
    if binds.is_empty() {
        return Some(value);
    }
    let span = Span::default();
    Some(Expr::bare(Node::Reduce(Reduce {
        red: Red::All,
        binds: Some(binds),
        filter: None,
        body: value,
        otherwise: None,
        span,
    })))
}

/// Rebuilds a condition; where `f` gives something, that stands instead.
fn map(e: &Expr, f: &mut dyn FnMut(&Expr) -> Option<Expr>) -> Expr {
    if let Some(new) = f(e) {
        return new;
    }
    let node = match &*e.node {
        Node::Unary(op, a) => Node::Unary(*op, map(a, f)),
        Node::Binary(op, a, b) => Node::Binary(*op, map(a, f), map(b, f)),
        Node::Cast(a, elem) => Node::Cast(map(a, f), elem.clone()),
        Node::Call(name, args) => {
            Node::Call(*name, args.iter().map(|a| Arg { name: a.name, value: map(&a.value, f) }).collect())
        }
        Node::Reduce(r) if r.binds.is_none() => Node::Reduce(Reduce { body: map(&r.body, f), ..r.clone() }),
        other => other.clone(),
    };
    Expr::new(node, e.span)
}

/// Fails with a message if its input is false.
pub(crate) struct Assert {
    /// The message.
    pub message: String,
}

impl Kernel for Assert {
    fn name(&self) -> String {
        "check".to_owned()
    }

    fn run(&self, inputs: &[TensorRef<'_>], _: &mut [TensorMut<'_>]) -> Result<(), ExecError> {
        match inputs.first().and_then(|t| t.as_slice::<bool>()) {
            Some([true]) => Ok(()),
            _ => Err(ExecError::new("E705", self.message.clone())),
        }
    }
}
