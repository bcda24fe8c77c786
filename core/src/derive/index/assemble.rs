//! Derived rows: a body, the arguments and options that it needs, and the call of the row.

use crate::Name;
use crate::derive::{make, walk};
use crate::lang::ast::*;
use crate::lang::helpers::{self, HelperFact};
use crate::row::{Meaning, Require, Row};
use rustc_hash::FxHashSet;

/// A tensor that a derived row can take.
pub struct Candidate {
    /// The type of the tensor in the derived row.
    pub param: Param,
    /// The name of the tensor in the rule.
    pub arg: Name,
    /// Whether the row takes it even if the body does not read it.
    pub must: bool,
}

/// The ingredients of a derived row.
pub struct Recipe<'a> {
    /// The row that is differentiated.
    pub row: &'a Row,
    /// The new row's name.
    pub op: Name,
    pub body: Expr,
    /// The result of the derived row.
    pub ty: Type,
    /// Tensors that it can take, in this order.
    pub candidates: Vec<Candidate>,
}

impl Candidate {
    fn dims(&self) -> &[DimPat] {
        self.param.ty.dims.as_deref().unwrap_or_default()
    }
}

impl Recipe<'_> {
    /// The row and the call of it.
    pub fn build(self) -> (Row, Expr) {
        let reads = reads(&self.body);
        let mut needed: FxHashSet<Name> = walk::names(&self.body);
        walk::dim_names(self.ty.dims.as_deref().unwrap_or_default(), &mut needed);
        if let Some(ListLen::Expr(e)) = &self.ty.list {
            needed.extend(walk::names(e));
        }
        let opts: Vec<Opt> =
            self.row.sig.opts.iter().filter(|o| !matches!(o.ty, OptType::Dtype(_))).map(restated).collect();
        let mut take: Vec<bool> =
            self.candidates.iter().map(|c| c.must || reads.contains(&c.param.name.name)).collect();
        let mut keep: Vec<bool> = opts.iter().map(|_| false).collect();
        self.close(&opts, &mut needed, &mut take, &mut keep);

        let mut params = Vec::new();
        let mut args = Vec::new();
        for (c, _) in self.candidates.iter().zip(&take).filter(|(_, t)| **t) {
            let access = if reads.contains(&c.param.name.name) { Access::Read } else { Access::Like };
            params.push(Param { access, ..c.param.clone() });
            args.push(Arg { name: None, value: make::name(c.arg) });
        }
        let opts: Vec<Opt> = opts.into_iter().zip(keep).filter(|(_, k)| *k).map(|(o, _)| o).collect();
        for o in &opts {
            args.push(Arg { name: Some(make::ident(o.name.name)), value: make::name(o.name.name) });
        }
        let loops = walk::any(&self.body, &mut |e| matches!(&*e.node, Node::Reduce(r) if r.binds.is_some()));
        let known: FxHashSet<Name> =
            params.iter().map(|p| p.name.name).chain(opts.iter().map(|o| o.name.name)).collect();
        let meaning =
            if self.is_view() { Meaning::View(make::block(self.body)) } else { Meaning::Expr(make::block(self.body)) };
        let outs = vec![Out { name: make::ident(Name::new("out")), ty: self.ty }];
        let row = Row {
            promote: promote(self.row, loops, matches!(meaning, Meaning::View(_))),
            dtypes: Some(Expr::name("float")),
            require: self.row.require.iter().filter(|r| is_static(r, &known)).cloned().collect(),
            ..Row::new(self.op, Sig { params, opts, outs, aux: Vec::new(), named_outs: false }, meaning)
        };
        (row, Expr::bare(Node::Call(make::ident(self.op), args)))
    }

    /// Adds the arguments and options that bind the needed sizes and name the needed axes.
    fn close(&self, opts: &[Opt], needed: &mut FxHashSet<Name>, take: &mut [bool], keep: &mut [bool]) {
        let exact = self.exact();
        loop {
            let before = (needed.len(), take.iter().filter(|t| **t).count(), keep.iter().filter(|t| **t).count());
            for (c, t) in self.candidates.iter().zip(take.iter_mut()) {
                *t |= needed.contains(&c.param.name.name);
                if *t {
                    walk::dim_names(c.param.ty.dims.as_deref().unwrap_or_default(), needed);
                }
            }
            for (o, k) in opts.iter().zip(keep.iter_mut()) {
                *k |= o.ty.binds().is_some_and(|n| needed.contains(&n)) || needed.contains(&o.name.name);
                if *k {
                    option_names(o, needed);
                }
                // Labels are read against the shapes of the tensors that they label.
                if *k && matches!(o.ty, OptType::Labels(_)) {
                    self.candidates.iter().zip(take.iter_mut()).for_each(|(c, t)| *t |= c.param.ty.list.is_some());
                }
            }
            let kept = opts.iter().zip(keep.iter()).filter(|(_, k)| **k);
            let mut bound: FxHashSet<Name> = kept.flat_map(|(o, _)| o.ty.binds()).collect();
            let taken = || self.candidates.iter().zip(take.iter()).filter(|(_, t)| **t).map(|(c, _)| c);
            let known: FxHashSet<Name> = taken().map(|c| c.arg).collect();
            let joins = |n: Name| !exact.contains(&n) && self.is_join(n, &known);
            loop {
                let before = bound.len();
                taken().for_each(|c| provides(c.dims(), &joins, &mut bound));
                if bound.len() == before {
                    break;
                }
            }
            let missing: Vec<Name> = needed.iter().copied().filter(|n| n.is_size() && !bound.contains(n)).collect();
            if !missing.is_empty() {
                let helps = |c: &Candidate| {
                    let mut own = bound.clone();
                    // Several arguments that broadcast bind their join together, so each of them helps.
                    provides(c.dims(), &|n| !exact.contains(&n), &mut own);
                    !c.param.optional && missing.iter().any(|m| own.contains(m))
                };
                if let Some((_, t)) = self.candidates.iter().zip(take.iter_mut()).find(|(c, t)| !**t && helps(c)) {
                    *t = true;
                }
            }
            if before == (needed.len(), take.iter().filter(|t| **t).count(), keep.iter().filter(|t| **t).count()) {
                return;
            }
        }
    }

    /// The sizes that arguments and options of the row bind exactly; a broadcasting argument binds none.
    fn exact(&self) -> FxHashSet<Name> {
        let mut bound: FxHashSet<Name> = self.row.sig.opts.iter().flat_map(|o| o.ty.binds()).collect();
        for p in &self.row.sig.params {
            provides(p.ty.dims.as_deref().unwrap_or_default(), &|_| false, &mut bound);
        }
        bound
    }

    /// Whether `known` holds every argument of the row that broadcasts to this size.
    fn is_join(&self, n: Name, known: &FxHashSet<Name>) -> bool {
        let takes_part = |p: &&Param| {
            let mut own = FxHashSet::default();
            provides(p.ty.dims.as_deref().unwrap_or_default(), &|_| true, &mut own);
            own.contains(&n)
        };
        self.row.sig.params.iter().filter(takes_part).all(|p| known.contains(&p.name.name))
    }

    /// Whether the result aliases the argument, as in the gradient of a view, which only names axes differently.
    fn is_view(&self) -> bool {
        let Node::Access(a) = &*self.body.node else { return false };
        let plain = |p: &Place| match p {
            Place::One(e) => make::as_name(e).is_some(),
            Place::List(..) => true,
            _ => false,
        };
        matches!(self.row.meaning, Meaning::View(_))
            && a.outside == Outside::Refuse
            && a.item.is_none()
            && self.ty.list.is_none()
            && a.places.iter().all(plain)
    }
}

/// Names whose elements `e` reads.
fn reads(e: &Expr) -> FxHashSet<Name> {
    let mut out = FxHashSet::default();
    walk::visit(e, &mut |e| match &*e.node {
        Node::Call(f, _) if helpers::is(f.name, HelperFact::Question) => false,
        Node::Name(n) => {
            out.insert(*n);
            true
        }
        Node::Access(a) => {
            out.insert(a.base.name);
            true
        }
        _ => true,
    });
    out
}

/// Adds the sizes that a pattern binds, given those already bound. Of several unbound lists none is bound, unless an
/// option names an axis between them; a broadcast list is bound only if it `joins`.
fn provides(dims: &[DimPat], joins: &dyn Fn(Name) -> bool, out: &mut FxHashSet<Name>) {
    let anchored = dims.iter().any(|d| matches!(&d.kind, DimKind::One { at: Some(_), .. }));
    let open = |d: &&DimPat| match &d.kind {
        DimKind::List { name, axes: None, at: None, .. } | DimKind::Broadcast(name) => !out.contains(&name.name),
        _ => false,
    };
    let several = !anchored && dims.iter().filter(open).count() > 1;
    for d in dims {
        match &d.kind {
            DimKind::One { name, size, .. } => {
                out.extend(name.iter().map(|n| n.name));
                match &*size.node {
                    Node::Name(n) if n.is_size() => {
                        out.insert(*n);
                    }
                    Node::Access(a) => {
                        out.insert(a.base.name);
                    }
                    _ => {
                        if let Some((g, c)) = super::var::composite(size) {
                            out.extend([g, c]);
                        }
                    }
                }
            }
            DimKind::List { axes: None, at: None, .. } | DimKind::Broadcast(_) if several => {}
            DimKind::Broadcast(n) => out.extend(Some(n.name).filter(|n| joins(*n))),
            DimKind::List { name, axes: None, .. } => {
                out.insert(name.name);
            }
            DimKind::Zip { name, .. } => out.extend(name.iter().map(|n| n.name)),
            DimKind::BroadcastList(inner) => {
                let mut own = FxHashSet::default();
                provides(inner, joins, &mut own);
                out.extend(own.into_iter().filter(|n| joins(*n)));
            }
            DimKind::Group(inner) => provides(inner, joins, out),
            DimKind::List { .. } | DimKind::Ones(_) | DimKind::Body => {}
        }
    }
}

/// The names that an option's type mentions.
fn option_names(o: &Opt, out: &mut FxHashSet<Name>) {
    match &o.ty {
        OptType::Dim(Some(n))
        | OptType::Gap(n)
        | OptType::Perm(n)
        | OptType::Labels(n)
        | OptType::Pos(n)
        | OptType::Bound(n)
        | OptType::Size(n) => {
            out.insert(*n);
        }
        OptType::Dims { list, .. } => {
            out.insert(*list);
        }
        OptType::Ints { list, axes, .. } => {
            out.insert(*list);
            if let Some(a) = axes {
                walk::axes_names(a, out);
            }
        }
        OptType::Shape { list, infer, keep, like } => {
            out.insert(*list);
            out.extend(infer.iter().chain(keep).chain(like));
        }
        _ => {}
    }
}

/// An option as a derived row takes it. The rule passes it normalised, so defaults need not be filled in.
fn restated(o: &Opt) -> Opt {
    let ty = match &o.ty {
        OptType::Ints { list, broadcast, .. } => {
            OptType::Ints { list: *list, axes: None, broadcast: *broadcast, fill: None }
        }
        OptType::Shape { list, .. } => OptType::Shape { list: *list, infer: None, keep: None, like: None },
        other => other.clone(),
    };
    let literal = o.default.as_ref().is_some_and(|d| match &*d.node {
        Node::Int(_) | Node::Float(_) => true,
        Node::Name(n) => matches!(o.ty, OptType::Enum(_)) || matches!(n.as_str(), "true" | "false"),
        _ => false,
    });
    Opt { ty, default: o.default.clone().filter(|_| literal), ..o.clone() }
}

/// The promotion kind of a derived row.
fn promote(row: &Row, loops: bool, view: bool) -> Option<Expr> {
    if view {
        return None;
    }
    let kind = row.promote.as_ref().and_then(make::as_name).map(Name::as_str);
    Some(Expr::name(match (kind, &row.promote) {
        (Some("join"), _) => "join",
        (Some("equal"), _) => "equal",
        (Some("keep"), _) | (None, None) => {
            if loops {
                "equal"
            } else {
                "keep"
            }
        }
        _ => "default",
    }))
}

/// Whether a requirement mentions only sizes and options that the derived row has.
fn is_static(r: &Require, known: &FxHashSet<Name>) -> bool {
    walk::names(&r.cond).iter().all(|n| n.is_size() && known.contains(n) || known.contains(n)) && !walk::reads(&r.cond)
}
