//! Equates the places of a read with the axes of the argument, and derives the gradient's axes from them.

use super::names::{Item, own_axes};
use super::read::Reader;
use super::solve::Eq;
use super::var::{Kind, Var, complement, composite, flat, is_permutation};
use crate::Name;
use crate::derive::{NotDerivable, make};
use crate::lang::ast::*;
use crate::row::Row;

/// The axes of an argument, as axes of its gradient.
pub struct Target {
    /// Items of the pattern, with placeholders for their indices.
    pub items: Vec<Item>,
    /// Placeholders and their sizes.
    pub indices: Vec<(Name, Expr)>,
    /// Further summation variables: axes along which the argument was broadcast.
    pub extra: Vec<Var>,
    /// The gradient has the full broadcast shape: the rule sums it to the argument's.
    pub unbroadcast: bool,
    /// The placeholder of the position in a list of tensors.
    pub item: Option<Name>,
}

type Res<X> = Result<X, NotDerivable>;

impl Target {
    /// Placeholders for every axis of a pattern.
    pub fn of(dims: &[DimPat], is_list: bool, reader: &mut Reader<'_, '_>, arg: Name) -> Res<Target> {
        let mut t =
            Target { items: Vec::new(), indices: Vec::new(), extra: Vec::new(), unbroadcast: false, item: None };
        t.item = is_list.then(|| reader.placeholder(Name::new("i")));
        dims.iter().try_for_each(|d| t.add(d, reader, arg))?;
        Ok(t)
    }

    fn index(&mut self, base: Name, size: Expr, reader: &mut Reader<'_, '_>) -> Name {
        let name = reader.placeholder(base.index_of_size());
        self.indices.push((name, size));
        name
    }

    fn add(&mut self, d: &DimPat, reader: &mut Reader<'_, '_>, arg: Name) -> Res<()> {
        if d.cond.is_some() {
            return Err(NotDerivable::new("an axis of the argument is there only under a condition").at(d.span));
        }
        let item = match &d.kind {
            DimKind::Group(inner) => return inner.iter().try_for_each(|d| self.add(d, reader, arg)),
            DimKind::BroadcastList(inner) => {
                self.unbroadcast = true;
                return inner.iter().try_for_each(|d| self.add(d, reader, arg));
            }
            DimKind::One { name: Some(m), size, .. } => {
                let stand_in = self.index(m.name, make::name(m.name), reader);
                Item::One(size.clone(), stand_in)
            }
            DimKind::One { name: None, size, at } => match &*size.node {
                Node::Int(1) => Item::Same(d.clone()),
                // `K@idx`: a list with one axis per entry
                Node::Name(n) if n.is_size() && at.is_some() && reader_lists(reader, *n) => {
                    Item::List(*n, self.index(*n, size.clone(), reader))
                }
                Node::Name(n) if n.is_size() => Item::One(size.clone(), self.index(*n, size.clone(), reader)),
                Node::Access(a) => Item::One(size.clone(), self.index(a.base.name, size.clone(), reader)),
                _ => match composite(size) {
                    Some((g, c)) => {
                        let vg = self.index(g, make::name(g), reader);
                        let vc = self.index(c, make::name(c), reader);
                        Item::Composite((g, c), (vg, vc))
                    }
                    // The index gets a name of its own, since only the size is known.
                    None => Item::One(size.clone(), self.index(Name::new("I"), size.clone(), reader)),
                },
            },
            DimKind::Broadcast(b) => {
                let stand_in = self.index(b.name, make::name(b.name), reader);
                // `b` of the gradient and `b` of the sum are one list, so neither can be renamed.
                let rest = Var { name: stand_in, kind: Kind::Part(complement(&own_axes(arg))) };
                self.extra.push(rest);
                Item::Broadcast(b.name, stand_in)
            }
            DimKind::List { name, axes: None, .. } => {
                Item::List(name.name, self.index(name.name, make::name(name.name), reader))
            }
            DimKind::Zip { name: Some(o), size } => {
                Item::Zip(o.name, size.clone(), self.index(o.name, make::name(o.name), reader))
            }
            DimKind::List { axes: Some(_), .. } | DimKind::Ones(_) | DimKind::Body => Item::Same(d.clone()),
            DimKind::Zip { name: None, size } => {
                return Err(NotDerivable::new(format!("the axes `..({size})` have no index")).at(d.span));
            }
        };
        self.items.push(item);
        Ok(())
    }

    /// Equations between the places of `read` and the placeholders; removes from `vars` the variables that the gradient
    /// binds.
    pub fn equate(
        &self,
        read: &TensorAccess,
        vars: &mut Vec<Var>,
        axes: &[(Name, Axes, Expr)],
        row: &Row,
    ) -> Res<Vec<Eq>> {
        let unit = |i: &Item| match i {
            Item::Same(d) => !matches!(d.kind, DimKind::List { .. }),
            _ => false,
        };
        let mut flat_places = Vec::new();
        for p in &read.places {
            match p {
                Place::BroadcastGroup(inner) => flat_places.extend(inner.iter()),
                p => flat_places.push(p),
            }
        }
        let items: Vec<&Item> = match flat_places.len() == self.items.len() {
            true => self.items.iter().collect(),
            false => self.items.iter().filter(|i| !unit(i)).collect(),
        };
        if items.len() != flat_places.len() {
            let text = Expr::bare(Node::Access(read.clone()));
            return Err(NotDerivable::new(format!("the places of `{text}` do not follow the axes of its type")));
        }
        let mut eqs = Vec::new();
        let mut put = |left: Expr, right: Expr, list: bool| eqs.push(Eq { left, right, list });
        if let (Some(item), Some(position)) = (self.item, &read.item) {
            put(position.clone(), make::name(item), false);
        }
        for (item, place) in items.iter().zip(&flat_places) {
            match (item, place) {
                (Item::One(_, r), Place::One(e)) => put(e.clone(), make::name(*r), false),
                (Item::Composite((_, c), (rg, rc)), Place::One(e)) => match split_flat(e, *c) {
                    Some((g, f)) => {
                        put(g, make::name(*rg), false);
                        put(f, make::name(*rc), false);
                    }
                    None => put(e.clone(), flat(make::name(*rg), make::name(*c), make::name(*rc)), false),
                },
                (Item::List(s, r) | Item::Zip(s, _, r) | Item::Broadcast(s, r), place) => match place {
                    Place::List(v, None) | Place::Broadcast(v) => {
                        put(make::name(v.name), make::name(*r), true);
                        for (list, chosen, e) in axes.iter().filter(|(list, ..)| *list == v.name) {
                            let at = single_axis(chosen, row).ok_or_else(|| {
                                NotDerivable::new(format!("`let {list}[{chosen}]` binds several axes"))
                            })?;
                            put(e.clone(), make::access(*r, vec![Place::One(make::name(at))]), false);
                        }
                    }
                    Place::List(v, Some(a)) if is_permutation(a, row) => {
                        let text = format!("`..{}[{a}]` against the axes `..{s}`", v.name);
                        return Err(NotDerivable::new(text));
                    }
                    Place::Zip(e) | Place::BroadcastZip(e) => put(e.clone(), make::name(*r), true),
                    Place::Unravel(e) => match &*e.node {
                        Node::Call(_, args) if args.len() == 2 && args[1].value == make::name(*s) => {
                            put(args[0].value.clone(), make::call("ravel", [make::name(*r), make::name(*s)]), false);
                        }
                        _ => return Err(NotDerivable::new(format!("`..{e}` is no position in `..{s}`"))),
                    },
                    other => return Err(NotDerivable::new(format!("the place `{other}` against the axes `..{s}`"))),
                },
                (Item::Same(d), Place::List(v, place_axes)) => {
                    let DimKind::List { axes: Some(own), .. } = &d.kind else { continue };
                    // Where the item chooses the axes, `i` of the type is the item's position in the read.
                    let here = |own: &Axes, position: Option<Name>| match position {
                        Some(position) => make::rename_axes(own, Name::new("i"), position),
                        None => own.clone(),
                    };
                    let position = read.item.as_ref().and_then(make::as_name);
                    if place_axes.as_ref() != Some(&here(own, position)) {
                        return Err(NotDerivable::new(format!("`..{}` against the axes `{}`", v.name, d.kind)));
                    }
                    bind_part(vars, v.name, &here(own, self.item), row)?;
                }
                (Item::Same(_), _) => {}
                (_, other) => return Err(NotDerivable::new(format!("the place `{other}` against an axis"))),
            }
        }
        Ok(eqs)
    }
}

fn reader_lists(reader: &Reader<'_, '_>, list: Name) -> bool {
    reader.lists.contains(&list)
}

/// The gradient binds the axes `own` of list `name`; the remaining axes stay in the sum.
fn bind_part(vars: &mut Vec<Var>, name: Name, own: &Axes, row: &Row) -> Res<()> {
    let parts: Vec<&Axes> = vars
        .iter()
        .filter(|v| v.name == name)
        .filter_map(|v| if let Kind::Part(a) = &v.kind { Some(a) } else { None })
        .collect();
    if let [a, b] = parts[..]
        && make::complementary(a, b)
        && a != own
        && b != own
    {
        // The axes of the result and those of the sum together make up the list.
        vars.retain(|v| v.name != name);
        vars.push(Var { name, kind: Kind::Part(complement(own)) });
        return Ok(());
    }
    let Some(at) = vars.iter().position(|v| {
        v.name == name
            && match &v.kind {
                Kind::Part(a) => a == own || is_permutation(a, row) || complement(a) == *own || *own == complement(a),
                Kind::List(..) => true,
                _ => false,
            }
    }) else {
        return Err(NotDerivable::new(format!("the axes `{own}` of `{name}` are bound by no sum")));
    };
    let same = matches!(&vars[at].kind, Kind::Part(a) if a == own);
    if same || is_permutation(own, row) {
        vars.remove(at);
    } else {
        vars[at].kind = Kind::Part(complement(own));
    }
    Ok(())
}

/// Splits `g * C + c` into `g` and `c`.
fn split_flat(e: &Expr, size: Name) -> Option<(Expr, Expr)> {
    match &*e.node {
        Node::Binary(BinOp::Add, a, c) => match &*a.node {
            Node::Binary(BinOp::Mul, g, s) if make::as_name(s) == Some(size) => Some((g.clone(), c.clone())),
            _ => None,
        },
        _ => None,
    }
}

/// The option that names this single axis.
fn single_axis(axes: &Axes, row: &Row) -> Option<Name> {
    match &axes.kind {
        AxesKind::Name(n) if !axes.not => {
            let dim = |o: &Opt| o.name.name == n.name && matches!(o.ty, OptType::Dim(_));
            row.sig.opts.iter().any(dim).then_some(n.name)
        }
        _ => None,
    }
}
