//! Batching: derives the row that applies a row to every slice of its arguments.
//!
//! A new axis, called [`Batched::axis`], stands in front of every batched argument and of every result; each access to
//! a batched argument starts with its index. Lists and options keep their meaning, because a list never holds the new
//! axis: `dims: Dims(S)` still names axes of the slice. Only a plain `dim: Dim` counts the axes of the whole argument,
//! so the caller adds one to it ([`names_an_axis`]).
//!
//! | way | for |
//! |---|---|
//! | [`Way::Pointwise`] | a pointwise row: broadcasting aligns the new axis, so the row itself serves |
//! | [`Way::Row`] | a row in index notation: [`batched`] |
//! | [`Way::Primitive`] | a primitive along one named axis, to which all others are batch axes: the row itself |
//! | [`Way::Body`] | a composite: its lines, one by one |
//!
//! A derived row is an ordinary row: it prints, lowers, and can be differentiated and batched again.

use crate::Name;
use crate::derive::walk;
use crate::lang::ast::*;
use crate::row::{Meaning, Require, Row};
use crate::signature::const_eval::axis_number;

/// How calls of a row are batched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// The row itself serves: its arguments broadcast.
    Pointwise,
    /// A row with one more axis serves.
    Row,
    /// The row itself serves, along an axis that the batch shifts by one.
    Primitive,
    /// The lines of the row's body are batched one by one.
    Body,
}

/// A row with one more axis.
#[derive(Clone, Debug)]
pub struct Batched {
    /// The row: `conv.vmap.x` for `conv` with a batch of `x`.
    pub row: Row,
    /// The name of the new size.
    pub axis: Name,
    /// Whether the row's last option gives the size of the axis; needed where only keys are batched, so no tensor has
    /// it.
    pub sized: bool,
}

/// Why a row has no batched form.
#[derive(Clone, Debug, PartialEq)]
pub struct NotBatchable {
    /// The argument or result at fault.
    pub of: Name,
    /// Where: in the row's meaning if `inside`, else in its signature.
    pub span: Span,
    /// Whether the meaning is at fault, not the signature.
    pub inside: bool,
    /// The claim, as a clause with its subject: "`x` starts with `N`, …".
    pub reason: String,
}

/// The option that gives the number of slices where no tensor does.
const SLICES: &str = "slices";

/// How calls of `row` are batched.
///
/// # Errors
/// Names the argument or result that prevents batching.
pub fn way(row: &Row) -> Result<Way, NotBatchable> {
    match &row.meaning {
        Meaning::Decomp(_) => Ok(Way::Body),
        Meaning::Host(_) => primitive(row).map(|()| Way::Primitive),
        Meaning::Expr(_) | Meaning::View(_) if row.is_pointwise() => Ok(Way::Pointwise),
        Meaning::Expr(_) | Meaning::View(_) => {
            // Keys are checked on their own: a call that batches no key never needs the position of a draw.
            let tensors: Vec<bool> = row.sig.params.iter().map(|p| !is_key(p)).collect();
            if tensors.contains(&true) {
                batched(row, &tensors)?;
            }
            if row.takes_key() {
                batched(row, &vec![true; tensors.len()])?;
            }
            Ok(Way::Row)
        }
    }
}

/// Checks a primitive by its signature, because its text is not known: all axes but the one that an option names must
/// stand in lists, at the start of every tensor argument and result.
fn primitive(row: &Row) -> Result<(), NotBatchable> {
    let mut lead: Option<Name> = None;
    let tensors = row.sig.params.iter().map(|p| (p.name, &p.ty));
    for (name, ty) in tensors.chain(row.sig.outs.iter().chain(&row.sig.aux).map(|o| (o.name, &o.ty))) {
        let first = ty.dims.as_ref().and_then(|dims| dims.first());
        let list = first.and_then(|d| match &d.kind {
            DimKind::List { name, axes: None, at: None, .. } if d.cond.is_none() => Some(name.name),
            _ => None,
        });
        let chosen = list.and_then(|l| row.sig.opts.iter().find(|o| axes_of(&o.ty) == Some(l)));
        let fault = match (list, first, chosen) {
            (Some(_), Some(first), Some(opt)) => {
                format!("`{}` starts with `{first}`, of which `{}` chooses axes", name.name, opt.name.name)
            }
            (None, Some(first), _) => {
                format!(
                    "`{}` starts with `{first}`, and a primitive is only known to go through lists of axes",
                    name.name
                )
            }
            (_, None, _) => format!("`{}` has no axes, and a primitive goes through lists of them", name.name),
            (Some(_), Some(_), None) => String::new(),
        };
        let (Some(list), true) = (list, fault.is_empty()) else {
            let span = first.map_or(ty.span, |d| d.span);
            return Err(NotBatchable { of: name.name, span, inside: false, reason: fault });
        };
        let lead = *lead.get_or_insert(list);
        if lead != list {
            let reason = format!("`{}` starts with `..{list}` where another tensor starts with `..{lead}`", name.name);
            return Err(NotBatchable { of: name.name, span: ty.span, inside: false, reason });
        }
    }
    Ok(())
}

/// The list of axes that an option selects from.
fn axes_of(ty: &OptType) -> Option<Name> {
    match ty {
        OptType::Dim(list) => *list,
        OptType::Gap(l) | OptType::Perm(l) | OptType::Labels(l) | OptType::Dims { list: l, .. } => Some(*l),
        OptType::Ints { list, .. } | OptType::Shape { list, .. } => Some(*list),
        _ => None,
    }
}

/// Whether a plain `Dim` option names an axis of this argument (`N@dim`), counted from the argument's first axis.
pub fn names_an_axis(param: &Param, option: Name) -> bool {
    let mut dims = param.ty.dims.iter().flatten();
    dims.any(|d| matches!(&d.kind, DimKind::One { at: Some(at), .. } if at.name == option))
}

/// Whether an option or a number names one axis of this argument. An argument of rank 0 then counts as having that
/// axis, with size 1.
pub fn imagines_an_axis(row: &Row, param: &Param) -> bool {
    let one = |d: &DimPat| matches!(&d.kind, DimKind::One { at: Some(at), .. } if !is_list(row, at.name));
    param.ty.dims.iter().flatten().any(one)
}

fn is_list(row: &Row, name: Name) -> bool {
    row.sig.params.iter().any(|p| p.name.name == name)
}

/// Whether an argument is a random key.
pub fn is_key(param: &Param) -> bool {
    param.ty.elem.contains(&Elem::Key)
}

/// `row` with one more axis in front of every flagged argument and of all results; gradients are derived anew.
///
/// # Errors
/// Names the argument or result that cannot have the axis.
pub fn batched(row: &Row, flags: &[bool]) -> Result<Batched, NotBatchable> {
    let axis = unused(row);
    let with: Vec<&Param> = row.sig.params.iter().zip(flags).filter(|(_, f)| **f).map(|(p, _)| p).collect();
    let rewrite = Rewrite { row, with: with.iter().map(|p| p.name.name).collect(), index: axis.index_of_size() };
    let sized = with.iter().all(|p| is_key(p) || p.ty.dims.is_none());
    let mut sig = row.sig.clone();
    for (param, flag) in sig.params.iter_mut().zip(flags) {
        if let Some(dims) = &mut param.ty.dims {
            rewrite.dims(dims);
        }
        // An argument without brackets gives only its type; elements are read at places.
        if *flag && !is_key(param) && param.ty.dims.is_some() {
            number_no_axis(&mut param.ty);
            lead(&mut param.ty, axis, param.name.name)?;
        }
    }
    for opt in &mut sig.opts {
        opt.default = opt.default.as_ref().map(|e| rewrite.expr(e, false));
    }
    for out in sig.outs.iter_mut().chain(&mut sig.aux) {
        if let Some(dims) = &mut out.ty.dims {
            rewrite.dims(dims);
        }
        lead(&mut out.ty, axis, out.name.name)?;
    }
    if sized {
        let name = Ident { name: Name::new(SLICES), span: Span::default() };
        sig.opts.push(Opt { name, ty: OptType::Size(axis), optional: false, default: None });
    }
    let meaning = match &row.meaning {
        Meaning::Expr(body) => Meaning::Expr(rewrite.block(body)?),
        Meaning::View(body) => Meaning::View(rewrite.block(body)?),
        other => other.clone(),
    };
    let require = row.require.iter();
    let require = require.map(|r| Require::new(rewrite.expr(&r.cond, true), r.message.clone())).collect();
    let args = with.iter().fold(String::new(), |all, p| format!("{all}.{}", p.name.name));
    let op = Name::new(&format!("{}.vmap{args}", row.op));
    let row = Row { op, sig, meaning, require, vjp: Vec::new(), jvp: Vec::new(), at: Vec::new(), ..row.clone() };
    Ok(Batched { row, axis, sized })
}

/// A size whose name and index do not occur in the row.
fn unused(row: &Row) -> Name {
    let body = match &row.meaning {
        Meaning::Expr(b) | Meaning::View(b) | Meaning::Decomp(b) => b.to_string(),
        Meaning::Host(name) => name.to_string(),
    };
    let text = row.require.iter().fold(format!("{} {body}", row.sig), |all, r| format!("{all} {}", r.cond));
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let names = std::iter::once("Z".to_owned()).chain((2..).map(|n| format!("Z{n}")));
    let mut free = names.filter(|n| !words.contains(&n.as_str()) && !words.contains(&n.to_lowercase().as_str()));
    // The iterator of names is infinite.
    Name::new(&free.next().unwrap_or_default())
}

/// Puts the axis in front of a type.
fn lead(ty: &mut Type, axis: Name, of: Name) -> Result<(), NotBatchable> {
    let Some(dims) = &mut ty.dims else {
        let reason = format!("`{of}` has no brackets, and the row is not pointwise");
        return Err(NotBatchable { of, span: ty.span, inside: false, reason });
    };
    let size = Expr::name(axis);
    dims.insert(0, DimPat { kind: DimKind::One { name: None, size, at: None }, cond: None, span: Span::default() });
    Ok(())
}

/// Removes axis numbers: `N@0` numbers an axis so that a tensor of rank 0 has it, and the new axis would shift the
/// number.
fn number_no_axis(ty: &mut Type) {
    for dim in ty.dims.iter_mut().flatten() {
        if let DimKind::One { at, .. } = &mut dim.kind
            && at.as_ref().is_some_and(|at| axis_number(at.name).is_some())
        {
            *at = None;
        }
    }
}

fn binary(op: BinOp, a: Expr, b: Expr) -> Expr {
    Expr::bare(Node::Binary(op, a, b))
}

struct Rewrite<'r> {
    row: &'r Row,
    /// The batched arguments.
    with: Vec<Name>,
    index: Name,
}

impl Rewrite<'_> {
    fn has_axis(&self, name: Name) -> bool {
        self.with.contains(&name)
    }

    fn dims(&self, dims: &mut [DimPat]) {
        for dim in dims {
            dim.cond = dim.cond.as_ref().map(|c| self.expr(c, true));
            match &mut dim.kind {
                DimKind::One { size, .. } | DimKind::Zip { size, .. } => *size = self.expr(size, true),
                DimKind::BroadcastList(inner) | DimKind::Group(inner) => self.dims(inner),
                _ => {}
            }
        }
    }

    fn block(&self, block: &Block) -> Result<Block, NotBatchable> {
        let mut fault = None;
        let made = walk::map_block(block, &mut |e| self.node(e, false, &mut fault));
        fault.map_or(Ok(made), Err)
    }

    fn expr(&self, e: &Expr, whole: bool) -> Expr {
        // Only bodies draw random numbers, so no fault can arise here.
        walk::map(e, &mut |e| self.node(e, whole, &mut None))
    }

    /// The replacement of `e`. With `whole`, the bare name of a tensor already means each of its elements, as in a
    /// `require`.
    fn node(&self, e: &Expr, whole: bool, fault: &mut Option<NotBatchable>) -> Option<Expr> {
        let again = |e: &Expr, fault: &mut Option<NotBatchable>| walk::map(e, &mut |e| self.node(e, whole, fault));
        let made = |node| Some(Expr::new(node, e.span));
        match &*e.node {
            Node::Name(name) if !whole && self.is_scalar(*name) => made(self.element(*name, e.span)),
            Node::Name(name) if !whole && self.is_bare(*name) => {
                let reason = format!("`{name}` has no brackets, and the row is not pointwise");
                fault.get_or_insert(NotBatchable { of: *name, span: e.span, inside: true, reason });
                None
            }
            Node::Access(a) if self.has_axis(a.base.name) => {
                // The empty name keeps the walk from rewriting the access again.
                let hidden = TensorAccess { base: Ident { name: Name::new(""), span: a.base.span }, ..a.clone() };
                let walked = again(&Expr::new(Node::Access(hidden), e.span), fault);
                let Node::Access(mut access) = walked.into_node() else { return None };
                access.base = a.base;
                access.places.insert(0, self.place());
                made(Node::Access(access))
            }
            Node::Call(f, args) => {
                let tensor =
                    args.first().and_then(|a| if let Node::Name(n) = &*a.value.node { Some(*n) } else { None });
                let tensor = tensor.filter(|n| self.has_axis(*n));
                match (f.name.as_str(), tensor) {
                    ("rank", Some(_)) => {
                        made(Node::Binary(BinOp::Sub, e.clone(), Expr::bare(Node::Int(1)))).filter(|_| args.len() == 1)
                    }
                    ("uniform", Some(key)) => {
                        let Some(position) = args.get(1).and_then(|a| self.position(&a.value)) else {
                            let reason = self.undrawable(key, args.get(1).map(|a| &a.value));
                            fault.get_or_insert(NotBatchable { of: key, span: e.span, inside: true, reason });
                            return None;
                        };
                        let mut args = args.clone();
                        args[1].value = position;
                        made(Node::Call(*f, args))
                    }
                    ("some" | "is_tensor" | "is_number" | "is_int" | "is_float" | "is_bool", Some(_)) => {
                        Some(e.clone())
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether a bare name reads the one element of a tensor of rank 0.
    fn is_scalar(&self, name: Name) -> bool {
        let mut params = self.row.sig.params.iter();
        let rank_0 = |p: &Param| p.name.name == name && !is_key(p) && p.ty.dims.as_ref().is_some_and(Vec::is_empty);
        self.has_axis(name) && params.any(rank_0)
    }

    /// Whether a name is that of a batched argument without brackets: nothing says at which places its elements are
    /// read.
    fn is_bare(&self, name: Name) -> bool {
        let mut params = self.row.sig.params.iter();
        self.has_axis(name) && params.any(|p| p.name.name == name && !is_key(p) && p.ty.dims.is_none())
    }

    fn element(&self, name: Name, span: Span) -> Node {
        let base = Ident { name, span };
        Node::Access(TensorAccess { base, places: vec![self.place()], outside: Outside::Refuse, item: None })
    }

    fn place(&self) -> Place {
        Place::One(Expr::name(self.index))
    }

    /// The position of a draw among the draws of all slices, slice after slice.
    fn position(&self, own: &Expr) -> Option<Expr> {
        let slow = binary(BinOp::Mul, Expr::name(self.index), self.extent(own)?);
        Some(binary(BinOp::Add, slow, own.clone()))
    }

    /// The reason why [`Self::position`] has no result for `own`.
    fn undrawable(&self, key: Name, own: Option<&Expr>) -> String {
        let names = own.map(walk::names).unwrap_or_default();
        let indices = || names.iter().filter(|name| !name.is_size());
        let strangers = indices().filter(|name| !self.is_size(name.size_of_index()));
        if indices().next().is_none() {
            return format!("`{key}` draws at one position: all elements, and all slices of a batch, get one number");
        }
        match strangers.min_by_key(|name| name.as_str()) {
            Some(other) => {
                format!(
                    "`{key}` draws at positions that read `{other}`, which is not the index of one axis of a result"
                )
            }
            None => format!(
                "`{key}` draws at positions that are no sum of indices, each times sizes, nor the `ravel` of a list of them"
            ),
        }
    }

    /// The number of positions up to the last one that an index expression reaches: `B * C` for `b * C + c`.
    fn extent(&self, e: &Expr) -> Option<Expr> {
        match &*e.node {
            // An index of one axis.
            Node::Name(index) if self.is_size(index.size_of_index()) => Some(Expr::name(index.size_of_index())),
            Node::Call(f, args) if f.name == "ravel" && args.len() == 1 => {
                let Node::Name(list) = &*args[0].value.node else { return None };
                let size = Ident { name: Name::new("size"), span: Span::default() };
                let list = Arg { name: None, value: Expr::name(list.size_of_index()) };
                Some(Expr::bare(Node::Call(size, vec![list])))
            }
            Node::Binary(BinOp::Add, a, b) => {
                let (of_a, of_b) = (self.extent(a)?, self.extent(b)?);
                // Positions in full blocks: `size * B + b`, with the factors in either order.
                let filled = |blocks: &Expr, block: &Expr| match &*blocks.node {
                    Node::Binary(BinOp::Mul, x, y) => [(x, y), (y, x)].into_iter().find_map(|(slow, size)| {
                        let slow = self.extent(slow).filter(|_| self.is_count(size) && *size == *block)?;
                        Some(binary(BinOp::Mul, slow, block.clone()))
                    }),
                    _ => None,
                };
                filled(a, &of_b).or_else(|| filled(b, &of_a)).or_else(|| {
                    let sum = binary(BinOp::Add, of_a, of_b);
                    Some(binary(BinOp::Sub, sum, Expr::bare(Node::Int(1))))
                })
            }
            Node::Binary(BinOp::Mul, a, b) => {
                let (of, times) = if self.is_count(b) { (a, b) } else { (b, a) };
                let of = self.extent(of).filter(|_| self.is_count(times))?;
                let last = binary(BinOp::Sub, of, Expr::bare(Node::Int(1)));
                Some(binary(BinOp::Add, binary(BinOp::Mul, last, times.clone()), Expr::bare(Node::Int(1))))
            }
            _ => None,
        }
    }

    /// Whether an expression is a size, a positive number, or a product of such.
    fn is_count(&self, e: &Expr) -> bool {
        match &*e.node {
            Node::Name(name) => self.is_size(*name),
            Node::Int(n) => *n > 0,
            Node::Binary(BinOp::Mul, a, b) => self.is_count(a) && self.is_count(b),
            Node::Call(f, args) if f.name == "size" => {
                args.len() == 1
                    && matches!(&*args[0].value.node, Node::Name(n) if n.as_str().starts_with(char::is_uppercase))
            }
            _ => false,
        }
    }

    /// Whether a result has an axis of this size.
    fn is_size(&self, name: Name) -> bool {
        let sig = &self.row.sig;
        let mut dims = sig.outs.iter().chain(&sig.aux).flat_map(|o| o.ty.dims.iter().flatten());
        dims.any(|d| match &d.kind {
            DimKind::One { name: Some(id), .. } => id.name == name,
            DimKind::One { size, .. } => matches!(&*size.node, Node::Name(n) if *n == name),
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{MeaningKind, RowText};

    fn row(sig: &'static str, body: &'static str, kind: MeaningKind) -> Row {
        let text = RowText { op: "f", sig, kind, body, ..RowText::BLANK };
        Row::parse(&text).expect("the text of a test")
    }

    fn shown(sig: &'static str, body: &'static str, flags: &[bool]) -> String {
        let made = batched(&row(sig, body, MeaningKind::Expr), flags).expect("a batched row").row;
        let Meaning::Expr(body) = &made.meaning else { panic!("another meaning") };
        format!("{}{} {body}", made.op, made.sig)
    }

    #[test]
    fn an_axis_stands_in_front_of_what_is_batched() {
        assert_eq!(
            shown(
                "(x: T[..P, N@dim, ..Q], i: Index[M]; dim: Dim) -> T[..P, M, ..Q]",
                "x[..p, i[m], ..q]",
                &[false, true]
            ),
            "f.vmap.i(x: T[..P, N@dim, ..Q], i: Index[Z, M]; dim: Dim) -> T[Z, ..P, M, ..Q] x[..p, i[z, m], ..q]"
        );
        assert_eq!(
            shown("(x: T[..S], z: T[]) -> T[..S]", "x[..s] + z", &[true, true]),
            "f.vmap.x.z(x: T[Z2, ..S], z: T[Z2]) -> T[Z2, ..S] x[z2, ..s] + z[z2]"
        );
        assert_eq!(
            shown("(xs: List<T[N[i]@0]>) -> List<T[..N], len(N)>", "xs[i][n[i]]", &[true]),
            "f.vmap.xs(xs: List<T[Z, N[i]]>) -> List<T[Z, ..N], len(N)> xs[i][z, n[i]]"
        );
    }

    #[test]
    fn slices_of_a_key_draw_one_after_the_other() {
        assert_eq!(
            shown("(key: Key; shape: Shape(S)) -> f32[..S]", "uniform(key, ravel(s), 0)", &[true]),
            "f.vmap.key(key: Key; shape: Shape(S), slices: Size(Z)) -> f32[Z, ..S] \
             uniform(key, z * size(S) + ravel(s), 0)"
        );
    }

    #[test]
    fn positions_may_be_counted_by_hand() {
        let at = |at: &str| {
            let sig = "(x: T[B, C, ..I], key: Key) -> T[B, C, ..I]";
            let body: &str = Box::leak(format!("uniform(key, {at}, 0)").into_boxed_str());
            let made = batched(&row(sig, body, MeaningKind::Expr), &[true, true]);
            let text = |made: Batched| match &made.row.meaning {
                Meaning::Expr(body) => body.to_string(),
                _ => panic!("another meaning"),
            };
            made.map(text).map_err(|why| why.reason)
        };
        assert_eq!(at("b * C + c").as_deref(), Ok("uniform(key, z * (B * C) + (b * C + c), 0)"));
        assert_eq!(at("c + C * b").as_deref(), Ok("uniform(key, z * (B * C) + (c + C * b), 0)"));
        // with gaps
        assert_eq!(at("b * 2").as_deref(), Ok("uniform(key, z * ((B - 1) * 2 + 1) + b * 2, 0)"));
        assert!(at("b - c").is_err());
    }

    #[test]
    fn what_has_no_batched_form_says_why() {
        let host = |sig| way(&row(sig, "f", MeaningKind::Host));
        assert_eq!(host("(x: T[..P, N@dim, ..Q]; dim: Dim) -> i64[..P, N, ..Q]"), Ok(Way::Primitive));
        let fault = host("(x: T[N]) -> i64[N]").expect_err("no list");
        assert_eq!(fault.reason, "`x` starts with `N`, and a primitive is only known to go through lists of axes");
        let drawn = |body| way(&row("(key: Key; size: Size(N)) -> f32[N]", body, MeaningKind::Expr));
        assert_eq!(drawn("uniform(key, n, 0)"), Ok(Way::Row));
        assert!(drawn("uniform(key, n - 1, 0)").expect_err("a difference").inside);
    }
}
