//! Walks over rule texts that several checks share.

use fulgurite_core::Name;
pub use fulgurite_core::lang::walk::{any, any_expr, block, children, expr, first};
use fulgurite_core::lang::{
    Axes, AxesKind, BinOp, Block, DimKind, DimPat, Elem, Expr, ListLen, Node, Pattern, Place, Span, Stmt, Type,
};
use fulgurite_core::loop_nest::{LoopExpr, Nest};
use fulgurite_core::row::{Meaning, Row};

/// The meaning of a row as a block, if it has a text.
pub fn body(row: &Row) -> Option<&Block> {
    match &row.meaning {
        Meaning::Expr(body) | Meaning::View(body) | Meaning::Decomp(body) => Some(body),
        Meaning::Host(_) => None,
    }
}

/// Whether some condition of the row's body reads `name`.
pub fn in_condition(row: &Row, name: Name) -> bool {
    let read = |e: &Expr| any_expr(e, &mut |part| matches!(&*part.node, Node::Name(n) if *n == name));
    body(row).is_some_and(|body| any(body, &mut |e| matches!(&*e.node, Node::If(cond, ..) if read(cond))))
}

/// Whether a block mentions one of `wanted`.
pub fn mentions(block: &Block, wanted: &[Name]) -> bool {
    let mut found = false;
    names(block, &mut |name| found |= wanted.contains(&name));
    found
}

/// Whether an expression mentions `wanted`.
pub fn expr_mentions(e: &Expr, wanted: Name) -> bool {
    let mut found = false;
    expr_names(e, &mut |name| found |= name == wanted);
    found
}

/// Calls `f` on every name that a block mentions: values, indices, sizes, axes, called rows, bound names too.
pub fn names(block: &Block, f: &mut dyn FnMut(Name)) {
    statement_names(block, f);
    self::block(block, &mut |e| own_names(e, f));
}

/// Calls `f` on the names that statements of a block bind axes of, or write to.
fn statement_names(block: &Block, f: &mut dyn FnMut(Name)) {
    for stmt in &block.stmts {
        match stmt {
            Stmt::Let(Pattern::Axes(list, axes), _) => {
                f(list.name);
                self::axes(axes, f);
            }
            Stmt::Let(..) => {}
            Stmt::Write(name, _) => f(name.name),
        }
    }
}

/// Calls `f` on every name that an expression mentions.
pub fn expr_names(e: &Expr, f: &mut dyn FnMut(Name)) {
    expr(e, &mut |part| own_names(part, f));
}

/// Calls `f` on the names in an expression itself, not on those in its parts.
fn own_names(e: &Expr, f: &mut dyn FnMut(Name)) {
    match &*e.node {
        Node::Name(name) => f(*name),
        Node::Cast(_, elem) => self::elem(elem, f),
        Node::Match(subject, _) => f(subject.name),
        Node::Call(name, _) => f(name.name),
        Node::Access(access) => {
            f(access.base.name);
            place_names(&access.places, f);
        }
        Node::Reduce(reduce) => {
            for bind in reduce.binds.iter().flatten() {
                f(bind.name.name);
                bind.axes.iter().for_each(|axes| self::axes(axes, f));
            }
        }
        Node::If(_, yes, no) => [yes, no].iter().for_each(|branch| statement_names(branch, f)),
        _ => {}
    }
}

fn place_names(places: &[Place], f: &mut dyn FnMut(Name)) {
    for place in places {
        match place {
            Place::List(list, axes) => {
                f(list.name);
                axes.iter().for_each(|axes| self::axes(axes, f));
            }
            Place::Broadcast(list) => f(list.name),
            Place::BroadcastGroup(inner) => place_names(inner, f),
            _ => {}
        }
    }
}

/// Calls `f` on the names in a choice of axes.
pub fn axes(axes: &Axes, f: &mut dyn FnMut(Name)) {
    match &axes.kind {
        AxesKind::Name(name) | AxesKind::Before(name) | AxesKind::From(name) => f(name.name),
        AxesKind::Names(names) | AxesKind::Fn(_, names) => names.iter().for_each(|name| f(name.name)),
        AxesKind::Not(inner) => self::axes(inner, f),
    }
}

/// Calls `f` on the dtype variable in an element class.
pub fn elem(elem: &Elem, f: &mut dyn FnMut(Name)) {
    match elem {
        Elem::Var(name) | Elem::Acc(name) | Elem::Real(name) => f(*name),
        Elem::Index | Elem::Key | Elem::Class(_) => {}
    }
}

/// Calls `f` on the names in a type: sizes, options that choose axes, dtype variables.
pub fn ty(ty: &Type, f: &mut dyn FnMut(Name)) {
    ty.elem.iter().for_each(|elem| self::elem(elem, f));
    ty.dims.iter().for_each(|dims| self::dims(dims, f));
    if let Some(ListLen::Expr(len)) = &ty.list {
        expr_names(len, f);
    }
}

/// Calls `f` on the names in a shape pattern.
pub fn dims(dims: &[DimPat], f: &mut dyn FnMut(Name)) {
    for dim in dims {
        dim.cond.iter().for_each(|cond| expr_names(cond, f));
        match &dim.kind {
            DimKind::One { name, size, at } => {
                name.iter().chain(at).for_each(|name| f(name.name));
                expr_names(size, f);
            }
            DimKind::Broadcast(list) | DimKind::Ones(list) => f(list.name),
            DimKind::BroadcastList(inner) | DimKind::Group(inner) => self::dims(inner, f),
            DimKind::Body => {}
            DimKind::List { name, axes, keep, at } => {
                f(name.name);
                axes.iter().for_each(|axes| self::axes(axes, f));
                keep.iter().chain(at).for_each(|name| f(name.name));
            }
            DimKind::Zip { name, size } => {
                name.iter().for_each(|name| f(name.name));
                expr_names(size, f);
            }
        }
    }
}

/// Calls `f` on every part of a scalar expression.
pub fn each<'a>(e: &'a LoopExpr, f: &mut dyn FnMut(&'a LoopExpr)) {
    f(e);
    e.op().parts(&mut |part| each(part, f));
}

/// Whether `test` holds for some part of a scalar expression.
pub fn any_part(e: &LoopExpr, test: &mut dyn FnMut(&LoopExpr) -> bool) -> bool {
    let mut found = false;
    each(e, &mut |part| found = found || test(part));
    found
}

/// Whether `test` holds for some part of the loops of a call.
pub fn any_in(nest: &Nest, test: &mut dyn FnMut(&LoopExpr) -> bool) -> bool {
    nest.outs.iter().any(|out| any_part(&out.expr, test))
}

/// The place of the first expression of a body that is `wanted`.
pub fn find(body: &Block, wanted: &dyn Fn(&Expr) -> bool) -> Option<Span> {
    first(body, &mut |e| wanted(e).then_some(e.span))
}

/// Functions that divide their first argument by the second.
const BY_SECOND: [&str; 5] = ["div_floor", "div_trunc", "rem_floor", "rem_trunc", "ceil_div"];

/// The dividend and the divisor of `a / b`, `a % b` and `rem_floor(a, b)`.
pub fn division(e: &Expr) -> Option<(&Expr, &Expr)> {
    match &*e.node {
        Node::Binary(BinOp::Div | BinOp::Rem, of, by) => Some((of, by)),
        Node::Call(f, args) if BY_SECOND.contains(&f.name.as_str()) => {
            Some((&args.first()?.value, &args.get(1)?.value))
        }
        _ => None,
    }
}
