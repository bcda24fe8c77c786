//! Index variables, and the axes that shape patterns give them.

use crate::Name;
use crate::derive::{NotDerivable, make};
use crate::lang::ast::*;
use crate::row::Row;

/// An index variable of the sum that a transposed read becomes.
#[derive(Clone, Debug, PartialEq)]
pub struct Var {
    /// The variable's name.
    pub name: Name,
    /// The variable's range.
    pub kind: Kind,
}

/// The range of an index variable.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// One axis: `lo..hi`.
    One(Expr, Expr),
    /// A list of axes, each `lo..hi`.
    List(Expr, Expr),
    /// Chosen axes of the list of the same name.
    Part(Axes),
    /// The items of a list of tensors.
    Item,
}

impl Var {
    /// The index over a size.
    pub fn one(size: Name) -> Var {
        Var { name: size.index_of_size(), kind: Kind::One(make::int(0), make::name(size)) }
    }

    /// The indices over a list.
    pub fn list(size: Name) -> Var {
        Var { name: size.index_of_size(), kind: Kind::List(make::int(0), make::name(size)) }
    }

    /// The variable of a binder.
    pub fn of_bind(b: &Bind) -> Var {
        let name = b.name.name;
        let (lo, hi) = b.range.clone().unwrap_or_else(|| (make::int(0), make::name(name.size_of_index())));
        let kind = match &b.axes {
            Some(a) => Kind::Part(a.clone()),
            None if b.list => Kind::List(lo, hi),
            None => Kind::One(lo, hi),
        };
        Var { name, kind }
    }

    /// The binder of this variable.
    pub fn bind(&self) -> Bind {
        let range = |lo: &Expr, hi: &Expr| {
            let whole = make::as_int(lo) == Some(0) && make::as_name(hi) == Some(self.name.size_of_index());
            (!whole).then(|| (lo.clone(), hi.clone()))
        };
        let (list, axes, range) = match &self.kind {
            Kind::One(lo, hi) => (false, None, range(lo, hi)),
            Kind::List(lo, hi) => (true, None, range(lo, hi)),
            Kind::Part(a) => (false, Some(a.clone()), None),
            Kind::Item => (false, None, None),
        };
        Bind { name: make::ident(self.name), list, axes, range }
    }

    /// Whether it stands for one index per axis.
    pub fn is_list(&self) -> bool {
        matches!(self.kind, Kind::List(..) | Kind::Part(_))
    }
}

/// The indices that read a tensor with a shape pattern.
#[derive(Clone, Debug, Default)]
pub struct Pattern {
    /// Every axis variable, slowest first.
    pub vars: Vec<Var>,
    /// The places of an access.
    pub places: Vec<Place>,
    /// The pattern in the form for an argument: every list is exact.
    pub dims: Vec<DimPat>,
}

impl Pattern {
    /// Reads the shape of a result.
    pub fn of(dims: &[DimPat]) -> Result<Pattern, NotDerivable> {
        let mut p = Pattern::default();
        dims.iter().try_for_each(|d| p.add(d))?;
        Ok(p)
    }

    fn add(&mut self, d: &DimPat) -> Result<(), NotDerivable> {
        if d.cond.is_some() {
            return Err(NotDerivable::new("an axis of the result is there only under a condition").at(d.span));
        }
        let mut param = d.clone();
        match &d.kind {
            DimKind::Group(inner) | DimKind::BroadcastList(inner) => return inner.iter().try_for_each(|d| self.add(d)),
            DimKind::One { name: Some(m), .. } => self.one(Var::one(m.name)),
            DimKind::One { name: None, size, .. } => match &*size.node {
                Node::Int(1) => {}
                Node::Name(n) if n.is_size() => self.one(Var::one(*n)),
                Node::Access(a) => {
                    let name = a.base.name.index_of_size();
                    self.one(Var { name, kind: Kind::One(make::int(0), size.clone()) });
                }
                _ => match composite(size) {
                    Some((g, c)) => {
                        let (vg, vc) = (Var::one(g), Var::one(c));
                        self.places.push(Place::One(flat(make::name(vg.name), make::name(c), make::name(vc.name))));
                        self.vars.extend([vg, vc]);
                    }
                    None => return Err(NotDerivable::new(format!("the axis `{size}` has no index")).at(d.span)),
                },
            },
            DimKind::Broadcast(b) => {
                param.kind = DimKind::List { name: *b, axes: None, keep: None, at: None };
                self.list(Var::list(b.name), None);
            }
            DimKind::List { name, axes: None, .. } => self.list(Var::list(name.name), None),
            DimKind::List { name, axes: Some(a), .. } => {
                self.list(Var { name: name.name.index_of_size(), kind: Kind::Part(a.clone()) }, Some(a.clone()));
            }
            DimKind::Zip { name: Some(o), .. } => self.list(Var::list(o.name), None),
            DimKind::Zip { name: None, size } => {
                return Err(NotDerivable::new(format!("the axes `..({size})` have no index")).at(d.span));
            }
            DimKind::Ones(_) => {}
            DimKind::Body => {
                return Err(NotDerivable::new("only a composite's result comes from its body").at(d.span));
            }
        }
        self.dims.push(param);
        Ok(())
    }

    fn one(&mut self, v: Var) {
        self.places.push(Place::One(make::name(v.name)));
        self.vars.push(v);
    }

    fn list(&mut self, v: Var, axes: Option<Axes>) {
        self.places.push(Place::List(make::ident(v.name), axes));
        self.vars.push(v);
    }
}

/// `G`, `C` of a composite axis `G * C`.
pub fn composite(size: &Expr) -> Option<(Name, Name)> {
    match &*size.node {
        Node::Binary(BinOp::Mul, a, b) => match (make::as_name(a)?, make::as_name(b)?) {
            (a, b) if a.is_size() && b.is_size() => Some((a, b)),
            _ => None,
        },
        _ => None,
    }
}

pub fn flat(g: Expr, size: Expr, c: Expr) -> Expr {
    make::binary(BinOp::Add, make::binary(BinOp::Mul, g, size), c)
}

/// Whether this choice has every axis of its list, in some order.
pub fn is_permutation(a: &Axes, row: &Row) -> bool {
    match &a.kind {
        _ if a.not => false,
        AxesKind::Fn(f, _) => f.name == "swap" || f.name == "moved",
        AxesKind::Name(n) => row.sig.opts.iter().any(|o| o.name.name == n.name && matches!(o.ty, OptType::Perm(_))),
        _ => false,
    }
}

/// The axes that are not in `a`.
pub fn complement(a: &Axes) -> Axes {
    match &a.kind {
        AxesKind::Before(n) if !a.not => make::axes(AxesKind::From(*n)),
        AxesKind::From(n) if !a.not => make::axes(AxesKind::Before(*n)),
        _ => make::complement(a),
    }
}
