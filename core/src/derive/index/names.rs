//! Final names: result indices get the small letters of their sizes where these are free.

use super::subst::{self, Sub};
use super::var::{Kind, Var};
use crate::Name;
use crate::derive::pointwise::Fresh;
use crate::derive::{NotDerivable, make, walk};
use crate::lang::ast::*;

/// One axis (or list of axes) of the derived result, before it gets its final name.
#[derive(Clone, Debug)]
pub enum Item {
    /// An axis as the argument has it: kept or chosen.
    Same(DimPat),
    /// One axis with this size, and the placeholder of its index.
    One(Expr, Name),
    /// Two sizes in one axis.
    Composite((Name, Name), (Name, Name)),
    List(Name, Name),
    /// `..(O = e)`
    Zip(Name, Expr, Name),
    /// A list that the argument broadcasts to: the result has those of its axes along which the argument varies.
    Broadcast(Name, Name),
}

type Res<X> = Result<X, NotDerivable>;

/// `e` with final names, and the shape pattern that binds them.
pub fn finish(items: &[Item], e: Expr, arg: Name, fresh: &mut Fresh) -> Res<(Expr, Vec<DimPat>)> {
    let mut e = e;
    let mut used: Vec<Name> = Vec::new();
    let mut dims = Vec::new();
    for item in items {
        let kind = match item {
            Item::Same(d) => {
                dims.push(d.clone());
                continue;
            }
            Item::One(size, stand_in) => {
                let (base, explicit) = match &*size.node {
                    Node::Name(n) => (*n, false),
                    Node::Access(a) => (a.base.name, false),
                    _ => (stand_in_base(*stand_in), true),
                };
                let name = choose(&mut e, *stand_in, base.index_of_size(), &mut used, fresh, false)?;
                let own = name != base.index_of_size() || explicit;
                let named = own.then(|| make::ident(name.size_of_index()));
                DimKind::One { name: named, size: size.clone(), at: None }
            }
            Item::Composite((g, c), (a, b)) => {
                choose(&mut e, *a, g.index_of_size(), &mut used, fresh, true)?;
                choose(&mut e, *b, c.index_of_size(), &mut used, fresh, true)?;
                let size = make::binary(BinOp::Mul, make::name(*g), make::name(*c));
                DimKind::One { name: None, size, at: None }
            }
            Item::List(s, stand_in) => {
                let name = choose(&mut e, *stand_in, s.index_of_size(), &mut used, fresh, false)?;
                match name == s.index_of_size() {
                    true => DimKind::List { name: make::ident(*s), axes: None, keep: None, at: None },
                    false => DimKind::Zip { name: Some(make::ident(name.size_of_index())), size: make::name(*s) },
                }
            }
            Item::Zip(o, size, stand_in) => {
                let name = choose(&mut e, *stand_in, o.index_of_size(), &mut used, fresh, false)?;
                let size = if name == o.index_of_size() { size.clone() } else { make::name(*o) };
                DimKind::Zip { name: Some(make::ident(name.size_of_index())), size }
            }
            Item::Broadcast(b, stand_in) => {
                choose(&mut e, *stand_in, b.index_of_size(), &mut used, fresh, true)?;
                DimKind::List { name: make::ident(*b), axes: Some(own_axes(arg)), keep: None, at: None }
            }
        };
        dims.push(make::dim(kind));
    }
    Ok((reductions(e, fresh), dims))
}

/// The axes of its broadcast list along which `arg` varies.
pub fn own_axes(arg: Name) -> Axes {
    make::axes(AxesKind::Fn(make::ident(Name::new("of")), vec![make::ident(arg)]))
}

/// The part of a placeholder before its mark.
fn stand_in_base(stand_in: Name) -> Name {
    let text = stand_in.as_str();
    Name::new(text.split('#').next().unwrap_or(text)).size_of_index()
}

fn choose(e: &mut Expr, stand_in: Name, wish: Name, used: &mut Vec<Name>, fresh: &mut Fresh, must: bool) -> Res<Name> {
    let free = !used.contains(&wish) && !subst::captures(e, stand_in, &|n| n == wish);
    if !free && must {
        return Err(NotDerivable::new(format!("the index `{wish}` of the gradient is bound by a sum in it")));
    }
    let name = if free { wish } else { fresh.fresh(&["r", "t", "u", "v", "w"]) };
    used.push(name);
    let var = Var { name: stand_in, kind: Kind::List(make::int(0), make::int(0)) };
    *e = subst::expr(e, &var, &Sub::Rename(name))?;
    Ok(name)
}

/// Final names for the variables that reductions bind.
pub fn reductions(mut e: Expr, fresh: &mut Fresh) -> Expr {
    loop {
        let mut found = None;
        walk::visit(&e, &mut |e| {
            if let Node::Reduce(r) = &*e.node {
                found = found.or(r.binds.iter().flatten().map(|b| b.name.name).find(|n| n.as_str().contains('#')));
            }
            found.is_none()
        });
        let Some(stand_in) = found else { return e };
        let base = stand_in_base(stand_in).index_of_size();
        let name = fresh.fresh(&[&format!("{base}2"), &format!("{base}3"), &format!("{base}4")]);
        e = rename(&e, stand_in, name);
    }
}

/// `e` with `from` renamed to `to` everywhere.
pub fn rename(e: &Expr, from: Name, to: Name) -> Expr {
    let ident = |id: &Ident| if id.name == from { Ident { name: to, span: id.span } } else { *id };
    walk::map(e, &mut |e| match &*e.node {
        Node::Name(n) if *n == from => Some(make::name(to)),
        Node::Access(a) => {
            let places = a.places.iter().map(|p| rename_place(p, from, to)).collect();
            let outside = match &a.outside {
                Outside::Value(v) => Outside::Value(rename(v, from, to)),
                other => other.clone(),
            };
            let item = a.item.as_ref().map(|i| rename(i, from, to));
            Some(Expr::new(Node::Access(TensorAccess { base: ident(&a.base), places, outside, item }), e.span))
        }
        Node::Reduce(r) => {
            let binds = r.binds.as_ref().map(|binds| {
                let one = |b: &Bind| Bind {
                    name: ident(&b.name),
                    range: b.range.as_ref().map(|(lo, hi)| (rename(lo, from, to), rename(hi, from, to))),
                    axes: b.axes.as_ref().map(|a| make::rename_axes(a, from, to)),
                    ..b.clone()
                };
                binds.iter().map(one).collect()
            });
            let new = Reduce {
                red: r.red,
                binds,
                filter: r.filter.as_ref().map(|c| rename(c, from, to)),
                body: rename(&r.body, from, to),
                otherwise: r.otherwise.as_ref().map(|o| rename(o, from, to)),
                span: r.span,
            };
            Some(Expr::new(Node::Reduce(new), e.span))
        }
        _ => None,
    })
}

fn rename_place(p: &Place, from: Name, to: Name) -> Place {
    let ident = |id: &Ident| if id.name == from { make::ident(to) } else { *id };
    match p {
        Place::One(e) => Place::One(rename(e, from, to)),
        Place::Zip(e) => Place::Zip(rename(e, from, to)),
        Place::Unravel(e) => Place::Unravel(rename(e, from, to)),
        Place::BroadcastZip(e) => Place::BroadcastZip(rename(e, from, to)),
        Place::BroadcastGroup(inner) => {
            Place::BroadcastGroup(inner.iter().map(|p| rename_place(p, from, to)).collect())
        }
        Place::List(n, axes) => Place::List(ident(n), axes.as_ref().map(|a| make::rename_axes(a, from, to))),
        Place::Broadcast(n) => Place::Broadcast(ident(n)),
    }
}
