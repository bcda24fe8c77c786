//! Facts about a row that transforms use, read off the text of its meaning.
//!
//! A transform never compares the name of an operator. It asks whether the row is a product, moves elements, or joins a
//! list, so rows with one meaning are treated alike in any database.

use crate::Name;
use crate::lang::ast::{
    Access, BinOp, Bind, Block, Elem, Expr, Node, OptType, Outside, Pattern, Place, Red, Reduce, Stmt, TensorAccess,
    UnOp,
};
use crate::lang::elements::{is_element, mentions};
use crate::lower::Rows;
use crate::row::{Meaning, Row};

/// A number that leaves the other argument unchanged: `x * 1` is `x`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Neutral {
    /// The parameter that is the number.
    pub number: usize,
    /// The parameter that equals the result.
    pub kept: usize,
    /// The number. Of the two zeros, only the one with this sign preserves the sign of a zero.
    pub value: f64,
}

/// How a row joins the tensors of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListJoin {
    /// End to end, along an axis that each tensor has.
    Concat,
    /// Along a new axis of the result.
    Stack,
}

/// The facts of a row.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RowFacts {
    /// No derivative passes: the meaning is `detach(x)`.
    pub stops: bool,
    /// The parameter whose elements make up the result, each cast to the dtype of the result.
    pub moves: Option<usize>,
    /// The row moves no element but converts each: `x as U`.
    pub converts: bool,
    /// The row keeps the row-major order of elements, or repeats them. So a result with the type of the first argument
    /// equals it.
    pub reshapes: bool,
    /// The option that permutes the axes of the first argument.
    pub permutes: Option<usize>,
    /// Each element is a reduction of the first argument over axes that an option chooses, and the reduction of one
    /// element is that element. So a result with the type of the argument equals it.
    pub reduces: bool,
    /// The row is its own inverse.
    pub involution: bool,
    /// The row divides its first argument by its second.
    pub divides: bool,
    /// The option that fills the result.
    pub fills: Option<usize>,
    /// Numbers that leave the other argument unchanged.
    pub neutral: Vec<Neutral>,
    /// How the row joins the list that is its first argument.
    pub join: Option<ListJoin>,
}

/// The facts of a row.
pub fn of(row: &Row) -> RowFacts {
    let Some(Block { stmts, value }) = row.index_body() else { return RowFacts::default() };
    if !stmts.is_empty() || row.sig.outs.len() != 1 || !row.sig.aux.is_empty() {
        return RowFacts::default();
    }
    let name = |i: usize| row.sig.params.get(i).map(|p| p.name.name);
    let is = |e: &Expr, i: usize| matches!(&*e.node, Node::Name(n) if Some(*n) == name(i));
    // At most one cast, to the dtype of the result: a cast before it would lose more.
    let to_result = |elem: &Elem| matches!(row.sig.outs[0].ty.elem.as_slice(), [out] if out == elem);
    let x = match &*value.node {
        Node::Cast(inner, elem) if to_result(elem) => inner,
        _ => value,
    };
    let as_it_stands = |e: &Expr| matches!(&*e.node, Node::Access(a) if Some(a.base.name) == name(0) && is_straight(a));
    let binary = |op: BinOp| matches!(&*value.node, Node::Binary(o, a, b) if *o == op && is(a, 0) && is(b, 1));
    let neutral = |of: &[(usize, f64)]| {
        of.iter().map(|(number, value)| Neutral { number: *number, kept: 1 - number, value: *value }).collect()
    };
    RowFacts {
        stops: matches!(&*value.node, Node::Call(f, args) if f.name == "detach" && args.len() == 1 && is(&args[0].value, 0)),
        moves: sole(row).filter(|i| is_element(x, row.sig.params[*i].name.name)),
        converts: matches!(&*value.node, Node::Cast(inner, elem) if is(inner, 0) && to_result(elem)),
        reshapes: is_row_major(value, name(0)) || is_broadcast(value, name(0)),
        permutes: match &*value.node {
            Node::Access(a)
                if Some(a.base.name) == name(0) && matches!(a.places.as_slice(), [Place::List(_, None)]) =>
            {
                row.sig.opts.iter().position(|o| matches!(o.ty, OptType::Perm(_)))
            }
            _ => None,
        },
        reduces: matches!(&*value.node, Node::Reduce(r) if keeps_one(r) && as_it_stands(&r.body)),
        involution: matches!(&*value.node, Node::Unary(UnOp::Neg, inner) if is(inner, 0)),
        divides: binary(BinOp::Div),
        fills: match &*x.node {
            Node::Name(n) if row.sig.params.is_empty() => row.sig.opts.iter().position(|o| o.name.name == *n),
            _ => None,
        }
        .map(|i| row.sig.params.len() + i),
        neutral: match () {
            () if binary(BinOp::Mul) => neutral(&[(0, 1.0), (1, 1.0)]),
            () if binary(BinOp::Div) => neutral(&[(1, 1.0)]),
            () if binary(BinOp::Add) => neutral(&[(0, -0.0), (1, -0.0)]),
            () if binary(BinOp::Sub) => neutral(&[(1, 0.0)]),
            () => Vec::new(),
        },
        join: join(row, value),
    }
}

/// Whether results share their argument's elements, so that a write to one is visible through the other. This holds for
/// a `view`, for a composite made of views of its first argument (`view` says which rows are views), and for a meaning
/// that is that argument detached or in row-major order, which never copies here.
pub fn is_view(row: &Row, view: &dyn Fn(Name) -> bool) -> bool {
    let first = row.sig.params.first().map(|p| p.name.name);
    match &row.meaning {
        Meaning::View(_) => true,
        Meaning::Decomp(block) => first.is_some_and(|first| chain(block, first, view)),
        Meaning::Expr(block) => of(row).stops || block.stmts.is_empty() && is_row_major(&block.value, first),
        Meaning::Host(_) => false,
    }
}

/// Whether a body is a chain of calls of views, the innermost on `arg`.
fn chain(block: &Block, arg: Name, view: &dyn Fn(Name) -> bool) -> bool {
    let mut views = vec![arg];
    let leads = |e: &Expr, views: &[Name]| {
        let mut at = e;
        loop {
            match &*at.node {
                Node::Name(name) => return views.contains(name),
                Node::Call(op, args) if view(op.name) => match args.first() {
                    Some(first) => at = &first.value,
                    None => return false,
                },
                _ => return false,
            }
        }
    };
    for stmt in &block.stmts {
        if let Stmt::Let(Pattern::Name(name), value) = stmt {
            match leads(value, &views) {
                true => views.push(name.name),
                false => views.retain(|v| *v != name.name),
            }
        }
    }
    !matches!(&*block.value.node, Node::Name(_)) && leads(&block.value, &views)
}

/// `x[..unravel(ravel(o), S)]`: the elements of a tensor in row-major order.
fn is_row_major(e: &Expr, tensor: Option<Name>) -> bool {
    let again = |e: &Expr| match &*e.node {
        Node::Call(f, args) if f.name == "unravel" => match args.first().map(|a| &*a.value.node) {
            Some(Node::Call(f, places)) if f.name == "ravel" => {
                matches!(places.as_slice(), [all] if matches!(&*all.value.node, Node::Name(_)))
            }
            _ => false,
        },
        _ => false,
    };
    matches!(&*e.node, Node::Access(a) if Some(a.base.name) == tensor && matches!(a.places.as_slice(), [Place::Unravel(e)] if again(e)))
}

/// `x[~o]`: the elements of a tensor, repeated along new axes.
fn is_broadcast(e: &Expr, tensor: Option<Name>) -> bool {
    matches!(&*e.node, Node::Access(a) if Some(a.base.name) == tensor && matches!(a.places.as_slice(), [Place::Broadcast(_)]))
}

/// Whether the result of a row is 0 wherever these parameters are 0, whatever the others are: a sum of products with
/// one of them each. Derivatives treat NaN and infinity among the others as numbers, so this does too.
pub fn is_zero(row: &Row, zero: &[bool], rows: &dyn Rows) -> bool {
    Zeros { rows, depth: 0 }.row(row, zero)
}

/// Whether the body is an `if` in which this parameter occurs only as a whole branch.
pub fn is_branch(row: &Row, param: usize) -> bool {
    let (Some(Block { stmts, value }), Some(param)) = (row.index_body(), row.sig.params.get(param)) else {
        return false;
    };
    fn only(e: &Expr, name: Name) -> bool {
        match &*e.node {
            Node::If(cond, yes, no) => {
                let plain = yes.stmts.is_empty() && no.stmts.is_empty() && !mentions(cond, name);
                plain && only(&yes.value, name) && only(&no.value, name)
            }
            Node::Name(_) => true,
            _ => !mentions(e, name),
        }
    }
    stmts.is_empty() && matches!(&*value.node, Node::If(..)) && only(value, param.name.name)
}

/// Whether an access reads a tensor at the places of a list of indices as they are: `x[..s]`.
fn is_straight(access: &TensorAccess) -> bool {
    matches!(access.places.as_slice(), [Place::List(_, None)]) && access.item.is_none()
}

/// Whether a reduction runs over whole axes that an option chooses, and the reduction of one element is that element.
fn keeps_one(r: &Reduce) -> bool {
    use Red::*;
    let whole = |bind: &Bind| bind.axes.is_some() && bind.range.is_none();
    let kind = matches!(r.red, Sum | Mean | Prod | Max | Min | First | Last | Only);
    kind && r.filter.is_none() && r.binds.as_ref().is_some_and(|binds| binds.iter().all(whole))
}

/// The parameter whose elements a row reads, if there is exactly one.
fn sole(row: &Row) -> Option<usize> {
    let mut read = (0..row.sig.params.len()).filter(|i| row.sig.params[*i].access != Access::Like);
    read.next().filter(|_| read.next().is_none())
}

/// How a row joins its first argument, a list, along the axis that its only option names: each element comes from one
/// of the tensors, at indices that agree on all other axes.
fn join(row: &Row, value: &Expr) -> Option<ListJoin> {
    let ([list], [axis]) = (row.sig.params.as_slice(), row.sig.opts.as_slice()) else { return None };
    list.ty.list.as_ref()?;
    if !matches!(axis.ty, OptType::Dim(_) | OptType::Gap(_)) {
        return None;
    }
    fn item(e: &Expr, list: Name) -> Option<(Name, &TensorAccess)> {
        let Node::Access(a) = &*e.node else { return None };
        match a.item.as_ref().map(|i| &*i.node) {
            Some(Node::Name(index)) if a.base.name == list => Some((*index, a)),
            _ => None,
        }
    }
    match &*value.node {
        Node::Reduce(r) if r.red == Red::Only && r.filter.is_none() => {
            let (index, access) = item(&r.body, list.name.name)?;
            let bound = r.binds.as_deref().is_some_and(|binds| matches!(binds, [b] if b.name.name == index));
            let behind =
                matches!(access.places.as_slice(), [Place::List(_, None), Place::One(_), Place::List(_, None)]);
            (bound && behind && access.outside == Outside::Skip).then_some(ListJoin::Concat)
        }
        _ => {
            let (_, access) = item(value, list.name.name)?;
            let straight = matches!(access.places.as_slice(), [Place::List(_, None)]);
            (straight && access.outside == Outside::Refuse).then_some(ListJoin::Stack)
        }
    }
}

/// The depth to which calls of rows are followed.
const DEEPEST: usize = 8;

/// The search for parameters that make a result 0.
struct Zeros<'a> {
    rows: &'a dyn Rows,
    depth: usize,
}

impl Zeros<'_> {
    fn row(&self, row: &Row, zero: &[bool]) -> bool {
        let (Meaning::Expr(block) | Meaning::View(block) | Meaning::Decomp(block)) = &row.meaning else { return false };
        let params = row.sig.params.iter().zip(zero).filter(|(_, zero)| **zero);
        let names = params.map(|(param, _)| param.name.name).collect();
        self.depth < DEEPEST && row.sig.aux.is_empty() && self.block(block, names)
    }

    fn block(&self, block: &Block, mut zeros: Vec<Name>) -> bool {
        for stmt in &block.stmts {
            let Stmt::Let(Pattern::Name(name), value) = stmt else { return false };
            let is = self.expr(value, &zeros);
            zeros.retain(|zero| *zero != name.name);
            zeros.extend(is.then_some(name.name));
        }
        self.expr(&block.value, &zeros)
    }

    fn expr(&self, e: &Expr, zeros: &[Name]) -> bool {
        let is = |e: &Expr| self.expr(e, zeros);
        match &*e.node {
            Node::Int(i) => *i == 0,
            Node::Float(f) => *f == 0.0,
            Node::Name(name) => zeros.contains(name),
            Node::Unary(UnOp::Neg, a) | Node::Cast(a, _) => is(a),
            Node::Binary(BinOp::Add | BinOp::Sub, a, b) => is(a) && is(b),
            Node::Binary(BinOp::Mul, a, b) => is(a) || is(b),
            Node::Binary(BinOp::Div, a, _) => is(a),
            Node::If(_, yes, no) => self.block(yes, zeros.to_vec()) && self.block(no, zeros.to_vec()),
            Node::Match(_, arms) => arms.iter().all(|(_, value)| is(value)),
            Node::Access(a) => {
                let outside = if let Outside::Value(value) = &a.outside { is(value) } else { true };
                zeros.contains(&a.base.name) && outside
            }
            Node::Reduce(r) => {
                let sums = matches!(r.red, Red::Sum | Red::Mean | Red::First | Red::Last | Red::Only);
                sums && is(&r.body) && r.otherwise.as_ref().is_none_or(is)
            }
            Node::Tuple(items) => items.iter().all(is),
            Node::Call(f, args) => {
                let Some(row) = self.rows.row(f.name) else { return false };
                let place = |name: Name| row.sig.params.iter().position(|p| p.name.name == name);
                let mut zero = vec![false; row.sig.params.len()];
                for (i, arg) in args.iter().enumerate() {
                    let at = arg.name.as_ref().map_or(Some(i), |name| place(name.name));
                    if let Some(slot) = at.and_then(|at| zero.get_mut(at)) {
                        *slot = is(&arg.value);
                    }
                }
                zero.contains(&true) && Zeros { rows: self.rows, depth: self.depth + 1 }.row(&row, &zero)
            }
            _ => false,
        }
    }
}
