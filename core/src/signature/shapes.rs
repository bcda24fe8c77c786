//! Shape patterns: matching against the shapes of arguments, and building the shapes of results.

use super::Refusal;
use super::const_eval::{self, At, Dims, Static, Stop, Val};
use super::env::{Broadcast, Env, Size};
use crate::lang::ast::*;
use crate::{Dim, Name, counted};
use smallvec::SmallVec;
use std::sync::LazyLock;

/// One axis of a built shape: its size, and the index that runs along it.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The size.
    pub size: Dim,
    /// The index.
    pub index: Index,
}

/// The axes of a shape, stored in place because there are few.
pub type Built = SmallVec<[Axis; 4]>;

/// The index along an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Index {
    /// No index: the axis has size 1 (kept, or `1`, or `ones(N)`).
    Unit,
    /// The index of a size.
    One(Name),
    /// The index of one axis of a list.
    Item(Name, usize),
    /// Two indices in one axis, the first slow.
    Composite(Name, Name),
    /// The size of the axis has no name from which an index follows.
    Anonymous,
}

/// The broadcast list of pointwise arguments, `T` without brackets.
pub fn implicit_list() -> Name {
    static LIST: LazyLock<Name> = LazyLock::new(|| Name::new("_"));
    *LIST
}

/// The parts of a pattern.
type Pats<'a> = SmallVec<[&'a DimPat; 6]>;

/// Evaluates conditions of a pattern and flattens its groups.
fn flatten<'a>(env: &Env, dims: &'a [DimPat], at: At, out: &mut Pats<'a>) -> Static<()> {
    for d in dims {
        let present = match &d.cond {
            Some(c) => const_eval::eval(env, c, at)?.bool()?,
            None => true,
        };
        match &d.kind {
            _ if !present => {}
            DimKind::Group(inner) => flatten(env, inner, at, out)?,
            _ => out.push(d),
        }
    }
    Ok(())
}

fn list_of(env: &Env, name: Name, at: At) -> Option<&[Dim]> {
    match env.size(name)? {
        Size::List(l) => Some(l),
        Size::EachList(l) => l.get(at.item?).map(Dims::as_slice),
        Size::Each(l) => Some(l),
        Size::One(_) => None,
    }
}

/// Sizes, with the argument that bound each first.
pub(super) type BoundBy = SmallVec<[(Name, Name); 4]>;

/// Matches the shapes of arguments one after another.
pub struct Matcher<'e> {
    /// The environment.
    pub env: &'e mut Env,
    /// The argument that first bound each size.
    pub bound_by: BoundBy,
    /// The operator, for messages.
    pub op: Name,
}

/// The reason why a pattern does not match.
pub enum Mismatch {
    /// Two lists of unknown length: a later attempt may succeed.
    Ambiguous,
    /// The shape does not fit.
    Refused(Refusal),
}

impl From<Stop> for Mismatch {
    fn from(stop: Stop) -> Mismatch {
        match stop {
            Stop::NotStatic => Mismatch::Ambiguous,
            Stop::Refused(r) => Mismatch::Refused(r),
        }
    }
}

impl Matcher<'_> {
    /// Matches argument `param` (item `at.item` of it) of shape `shape` against `dims`.
    pub fn matches(&mut self, param: Name, dims: &[DimPat], shape: &[Dim], at: At) -> Result<(), Mismatch> {
        let mut pats = Pats::new();
        flatten(self.env, dims, at, &mut pats)?;
        let rank = shape.len();
        let imagined = rank == 0 && pats.iter().any(|p| matches!(&p.kind, DimKind::One { at: Some(_), .. }));
        let ones = [Dim::from(1)];
        let shape = if imagined { &ones[..] } else { shape };
        let one = (param, at.item.unwrap_or(0));
        if imagined && !self.env.scalar_axis.contains(&one) {
            self.env.scalar_axis.push(one);
        }
        let counts = self.counts(param, &pats, shape, at)?;
        let mut axis = 0;
        for (pat, n) in pats.iter().zip(counts) {
            self.item(param, pat, &shape[axis..axis + n], at)?;
            axis += n;
        }
        Ok(())
    }

    /// The number of axes that each pattern covers.
    fn counts(&self, param: Name, pats: &[&DimPat], shape: &[Dim], at: At) -> Result<SmallVec<[usize; 6]>, Mismatch> {
        let mut counts: SmallVec<[Option<usize>; 6]> = SmallVec::new();
        for pat in pats {
            counts.push(self.count(pat, at)?);
        }
        // An axis that an option names divides the pattern in two, each half with at most one open list.
        let anchor = pats.iter().position(|p| matches!(&p.kind, DimKind::One { at: Some(_), .. }));
        let mut solve = |from: usize, to: usize, total: usize| -> Result<(), Mismatch> {
            let known: usize = counts[from..to].iter().flatten().sum();
            let open: SmallVec<[usize; 6]> = (from..to).filter(|&i| counts[i].is_none()).collect();
            match open.as_slice() {
                [] if known == total => Ok(()),
                [i] if known <= total => {
                    counts[*i] = Some(total - known);
                    Ok(())
                }
                [] | [_] => Err(Mismatch::Refused(self.rank(param, shape, known, !open.is_empty()))),
                _ => Err(Mismatch::Ambiguous),
            }
        };
        match anchor {
            Some(i) => {
                let DimKind::One { at: Some(opt), .. } = &pats[i].kind else { return Err(Mismatch::Ambiguous) };
                let dim = match (self.env.item(opt.name), const_eval::axis_number(opt.name)) {
                    (Some(super::Item::Int(d)), _) => *d,
                    (None, Some(d)) => d,
                    _ => return Err(Mismatch::Ambiguous),
                };
                let at = wrap_axis(self.op, opt.name, dim, shape.len()).map_err(Mismatch::Refused)?;
                solve(0, i, at)?;
                solve(i + 1, pats.len(), shape.len() - at - 1)?;
            }
            None => solve(0, pats.len(), shape.len())?,
        }
        Ok(counts.into_iter().map(|c| c.unwrap_or(0)).collect())
    }

    fn rank(&self, param: Name, shape: &[Dim], known: usize, at_least: bool) -> Refusal {
        let more = if at_least { "at least " } else { "" };
        let (have, needed) = (counted(shape.len(), "axis", "axes"), counted(known, "is", "are"));
        Refusal::new("E701", format!("`{}`: `{param}` has {have}, {more}{needed} needed", self.op)).arg(param)
    }

    fn count(&self, pat: &DimPat, at: At) -> Result<Option<usize>, Mismatch> {
        let option_len = |id: &Ident| match self.env.item(id.name) {
            Some(super::Item::Ints(l)) => Some(l.len()),
            Some(super::Item::Tensors(_, n)) => Some(*n),
            _ => None,
        };
        Ok(match &pat.kind {
            DimKind::One { at: Some(id), .. } => match self.env.item(id.name) {
                // `K@idx`: one axis per entry.
                Some(super::Item::Tensors(_, n)) => Some(*n),
                _ => Some(1),
            },
            DimKind::One { .. } => Some(1),
            DimKind::List { at: Some(id), .. } => Some(option_len(id).ok_or(Mismatch::Ambiguous)?),
            DimKind::List { name, axes, keep, .. } => match (list_of(self.env, name.name, at), axes) {
                (None, None) => None,
                (None, Some(_)) => return Err(Mismatch::Ambiguous),
                (Some(l), None) => Some(l.len()),
                // The argument's own shape includes its axes of size 1.
                (Some(_), Some(Axes { kind: AxesKind::Fn(f, args), not: false, .. })) if f.name == "of" => {
                    let of = args.first().map(|a| a.name);
                    let part = of.and_then(|of| self.env.part(of, at.item));
                    Some(part.ok_or(Mismatch::Ambiguous)?.own.len())
                }
                (Some(l), Some(a)) => {
                    let kept = keep_flag(self.env, keep.as_ref())?;
                    Some(if kept { l.len() } else { const_eval::axes(self.env, a, l.len(), at)?.len() })
                }
            },
            DimKind::Broadcast(_) | DimKind::BroadcastList(_) => None,
            DimKind::Zip { size, .. } => Some(const_eval::zip_len(self.env, size)?.ok_or(Mismatch::Ambiguous)?),
            DimKind::Ones(name) => Some(list_of(self.env, name.name, at).ok_or(Mismatch::Ambiguous)?.len()),
            DimKind::Group(_) => Some(0),
            DimKind::Body => return Err(Mismatch::Ambiguous),
        })
    }

    fn item(&mut self, param: Name, pat: &DimPat, sizes: &[Dim], at: At) -> Result<(), Mismatch> {
        match &pat.kind {
            DimKind::One { name, size, at: anchor } => {
                if let (Some(anchor), Node::Name(n)) = (anchor, &*size.node)
                    && matches!(self.env.item(anchor.name), Some(super::Item::Tensors(..)))
                {
                    return self.list(param, *n, sizes, at);
                }
                let d = sizes[0];
                match (name, at.item) {
                    // Each item has a size of its own.
                    (Some(id), Some(item)) => self.each(id.name, item, d),
                    (Some(id), None) => self.one(param, id.name, d, at)?,
                    (None, _) => {}
                }
                self.size(param, size, d, at)
            }
            DimKind::List { name, axes: None, .. } => self.list(param, name.name, sizes, at),
            DimKind::List { name, axes: Some(axes), keep, .. } => {
                let Some(full) = list_of(self.env, name.name, at) else { return Err(Mismatch::Ambiguous) };
                let chosen = const_eval::axes(self.env, axes, full.len(), at)?;
                let want: Vec<Dim> = if keep_flag(self.env, keep.as_ref())? {
                    (0..full.len()).map(|a| if chosen.contains(&a) { full[a] } else { Dim::from(1) }).collect()
                } else if let AxesKind::Fn(f, args) = &axes.kind
                    && f.name == "of"
                {
                    let part = args.first().and_then(|a| self.env.part(a.name, at.item));
                    part.map(|b| b.own.to_vec()).unwrap_or_default()
                } else {
                    chosen.iter().map(|&a| full[a]).collect()
                };
                self.equal_lists(param, &want, sizes)
            }
            DimKind::Broadcast(list) => {
                self.broadcasts(param, list.name, sizes, at);
                Ok(())
            }
            DimKind::BroadcastList(group) => {
                // `~[..M, ..R]` names no list; its parts are exact lists in other arguments.
                let name = Name::new(
                    &group
                        .iter()
                        .map(|g| match &g.kind {
                            DimKind::List { name, .. } => name.name.as_str(),
                            DimKind::One { size, .. } => match &*size.node {
                                Node::Name(n) => n.as_str(),
                                _ => "1",
                            },
                            _ => "?",
                        })
                        // The items of a list may choose different axes.
                        .fold(format!("~{}", at.item.map(|i| i.to_string()).unwrap_or_default()), |all, part| {
                            all + "+" + part
                        }),
                );
                if let Ok(full) = build(self.env, group, at) {
                    self.env.bind_size(name, Size::List(full.iter().map(|a| a.size).collect()));
                } else {
                    return Err(Mismatch::Ambiguous);
                }
                self.broadcasts(param, name, sizes, at);
                Ok(())
            }
            DimKind::Zip { name, size } => {
                let want = const_eval::eval(self.env, &Expr::new(Node::Zip(size.clone()), size.span), at)?.list()?;
                if let Some(id) = name {
                    self.list(param, id.name, sizes, at)?;
                }
                self.equal_lists(param, &want, sizes)
            }
            DimKind::Ones(_) => self.equal_lists(param, &vec![Dim::from(1); sizes.len()], sizes),
            DimKind::Group(_) => Ok(()),
            DimKind::Body => Err(Mismatch::Ambiguous),
        }
    }

    fn broadcasts(&mut self, param: Name, list: Name, sizes: &[Dim], at: At) {
        let item = at.item.unwrap_or(0);
        // A pattern that waited for another one is matched again.
        self.env.broadcast.retain(|b| (b.param, b.item, b.list) != (param, item, list));
        self.env.broadcast.push(Broadcast { param, item, list, own: SmallVec::from_slice(sizes) });
    }

    fn equal_lists(&self, param: Name, want: &[Dim], have: &[Dim]) -> Result<(), Mismatch> {
        match want.iter().zip(have).position(|(w, h)| w != h) {
            None => Ok(()),
            Some(axis) => Err(Mismatch::Refused(
                Refusal::new(
                    "E701",
                    format!("`{}`: axis {axis} of `{param}` is {}, it must be {}", self.op, have[axis], want[axis]),
                )
                .arg(param),
            )),
        }
    }

    /// Matches the size expression of one axis with `d`.
    fn size(&mut self, param: Name, size: &Expr, d: Dim, at: At) -> Result<(), Mismatch> {
        match &*size.node {
            Node::Name(n) if n.is_size() => self.one(param, *n, d, at),
            Node::Access(a) if matches!(a.places.as_slice(), [Place::One(_)]) && a.base.name.is_size() => {
                // `N[i]` in a list argument: one size per item.
                let Some(item) = at.item else { return Err(Mismatch::Ambiguous) };
                if let Some(Size::List(l)) = self.env.size(a.base.name) {
                    let want = l.get(item).copied().unwrap_or(d);
                    return self.check(param, size, d, want);
                }
                self.each(a.base.name, item, d);
                Ok(())
            }
            Node::Binary(BinOp::Mul, a, b) => {
                let known = |env: &Env, e: &Expr| const_eval::eval(env, e, at).ok().and_then(|v| v.int().ok());
                let by_argument = |n: Name| self.bound_by.iter().any(|(size, _)| *size == n);
                match (&*a.node, &*b.node, known(self.env, a), known(self.env, b)) {
                    (_, _, Some(x), Some(y)) => self.check(param, size, d, x * y),
                    // There are no heads in groups of size 0, so any size fits and nothing is computed from it.
                    (Node::Name(of), Node::Name(n), Some(x), None) | (Node::Name(n), Node::Name(of), None, Some(x))
                        if x.is(0) && d.is(0) && by_argument(*of) =>
                    {
                        self.one(param, *n, Dim::from(1), at)
                    }
                    (_, Node::Name(n), Some(x), None) | (Node::Name(n), _, None, Some(x)) => {
                        if x <= Dim::from(0) || !(d % x).is(0) {
                            return Err(Mismatch::Refused(
                                Refusal::new(
                                    "E701",
                                    format!("`{}`: an axis of `{param}` is {d}, which {x} does not divide", self.op),
                                )
                                .arg(param),
                            ));
                        }
                        self.one(param, *n, d / x, at)
                    }
                    _ => Err(Mismatch::Ambiguous),
                }
            }
            _ => {
                let want = const_eval::eval(self.env, size, at)?.int()?;
                self.check(param, size, d, want)
            }
        }
    }

    fn each(&mut self, size: Name, item: usize, d: Dim) {
        // in place, because a list may have very many items
        if let Some(Size::Each(each)) = self.env.size_mut(size) {
            each.resize(each.len().max(item + 1), d);
            each[item] = d;
        } else {
            self.env.bind_size(size, Size::Each(vec![d; item + 1]));
        }
    }

    fn check(&self, param: Name, size: &Expr, have: Dim, want: Dim) -> Result<(), Mismatch> {
        if have == want {
            return Ok(());
        }
        Err(Mismatch::Refused(
            Refusal::new("E701", format!("`{}`: {size} is {want}, but an axis of `{param}` is {have}", self.op))
                .arg(param),
        ))
    }

    fn one(&mut self, param: Name, size: Name, d: Dim, _at: At) -> Result<(), Mismatch> {
        match self.env.size(size) {
            None => {
                self.env.bind_size(size, Size::One(d));
                self.bound_by.push((size, param));
                Ok(())
            }
            Some(Size::One(have)) if *have == d => Ok(()),
            Some(Size::One(have)) => {
                let small = size.index_of_size();
                let first = self.bound_by.iter().find(|(n, _)| *n == size).map(|(_, p)| *p);
                let message = match first {
                    Some(first) => format!("`{}`: {small} is {have} in `{first}` but {d} in `{param}`", self.op),
                    None => format!("`{}`: {small} is {have}, but {d} in `{param}`", self.op),
                };
                Err(Mismatch::Refused(Refusal::new("E701", message).arg(param)))
            }
            Some(_) => Err(Mismatch::Ambiguous),
        }
    }

    fn list(&mut self, param: Name, list: Name, sizes: &[Dim], at: At) -> Result<(), Mismatch> {
        match list_of(self.env, list, at) {
            None => {
                self.env.bind_size(list, Size::List(SmallVec::from_slice(sizes)));
                self.bound_by.push((list, param));
                Ok(())
            }
            Some(have) if have == sizes => Ok(()),
            Some(have) => {
                let show = |l: &[Dim]| format!("[{}]", l.iter().map(Dim::to_string).collect::<Vec<_>>().join(", "));
                let small = list.index_of_size();
                let first = self.bound_by.iter().find(|(n, _)| *n == list).map(|(_, p)| format!(" in `{p}`"));
                Err(Mismatch::Refused(
                    Refusal::new(
                        "E701",
                        format!(
                            "`{}`: sizes {small} are {}{} but {} in `{param}`",
                            self.op,
                            show(have),
                            first.unwrap_or_default(),
                            show(sizes)
                        ),
                    )
                    .arg(param),
                ))
            }
        }
    }
}

fn keep_flag(env: &Env, keep: Option<&Ident>) -> Static<bool> {
    match keep {
        None => Ok(false),
        Some(id) => match env.item(id.name) {
            Some(super::Item::Num(s)) => Ok(s.as_bool()),
            _ => Ok(false),
        },
    }
}

/// `dim` wrapped once into `0..rank`; rank 0 counts as having one axis.
pub fn wrap_axis(op: Name, option: Name, dim: Dim, rank: usize) -> Result<usize, Refusal> {
    let n = rank.max(1) as i64;
    let d = dim.value();
    if d < -n || d >= n {
        let axes = counted(rank, "axis", "axes");
        let message = format!("`{op}`: `{option}` is {d}, it must lie in {}..={} for {axes}", -n, n - 1);
        return Err(Refusal::new("E704", message).arg(option));
    }
    Ok(if d < 0 { d + n } else { d } as usize)
}

/// The axes of a result (or of an argument whose sizes are all bound); binds the sizes that the pattern names.
pub fn build(env: &mut Env, dims: &[DimPat], at: At) -> Static<Built> {
    let mut pats = Pats::new();
    flatten(env, dims, at, &mut pats)?;
    let mut out = Built::new();
    for pat in pats {
        match &pat.kind {
            DimKind::One { name, size, at: anchor } => {
                if let (Some(anchor), Node::Name(n)) = (anchor, &*size.node)
                    && matches!(env.item(anchor.name), Some(super::Item::Tensors(..)))
                {
                    list_axes(env, *n, at, &mut out)?;
                    continue;
                }
                let d = const_eval::eval(env, size, at)?.int()?;
                if let Some(id) = name {
                    env.bind_size(id.name, Size::One(d));
                }
                let index = match (name, &*size.node) {
                    (Some(id), _) => Index::One(id.name),
                    (None, Node::Name(n)) if n.is_size() => Index::One(*n),
                    (None, Node::Access(a)) => Index::One(a.base.name),
                    (None, Node::Int(1)) => Index::Unit,
                    (None, Node::Binary(BinOp::Mul, a, b)) => match (&*a.node, &*b.node) {
                        (Node::Name(a), Node::Name(b)) if a.is_size() && b.is_size() => Index::Composite(*a, *b),
                        _ => Index::Anonymous,
                    },
                    _ => Index::Anonymous,
                };
                out.push(Axis { size: d, index });
            }
            DimKind::Broadcast(list) => list_axes(env, list.name, at, &mut out)?,
            DimKind::BroadcastList(group) => out.extend(build(env, group, at)?),
            DimKind::List { name, axes: None, .. } => list_axes(env, name.name, at, &mut out)?,
            DimKind::List { name, axes: Some(axes), keep, .. } => {
                let full = list_of(env, name.name, at).ok_or(Stop::NotStatic)?;
                let chosen = const_eval::axes(env, axes, full.len(), at)?;
                if let AxesKind::Fn(f, args) = &axes.kind
                    && f.name == "of"
                {
                    // The argument's own shape: axes along which it does not vary stay as 1.
                    let part = args.first().and_then(|a| env.part(a.name, at.item));
                    let own = part.map(|p| p.own.clone()).unwrap_or_default();
                    let skip = full.len() - own.len().min(full.len());
                    for (i, size) in own.iter().enumerate() {
                        let varies = chosen.contains(&(i + skip));
                        let index = if varies { Index::Item(name.name, i + skip) } else { Index::Unit };
                        out.push(Axis { size: *size, index });
                    }
                } else if keep_flag(env, keep.as_ref())? {
                    for (a, size) in full.iter().enumerate() {
                        out.push(if chosen.contains(&a) {
                            Axis { size: *size, index: Index::Item(name.name, a) }
                        } else {
                            Axis { size: Dim::from(1), index: Index::Unit }
                        });
                    }
                } else {
                    out.extend(chosen.iter().map(|&a| Axis { size: full[a], index: Index::Item(name.name, a) }));
                }
            }
            DimKind::Zip { name, size } => {
                let zip = Expr::new(Node::Zip(size.clone()), size.span);
                let Val::List(sizes) = const_eval::eval(env, &zip, at)? else { return Err(Stop::NotStatic) };
                match name {
                    Some(id) => {
                        env.bind_size(id.name, Size::List(sizes.clone()));
                        out.extend(
                            sizes.iter().enumerate().map(|(i, &s)| Axis { size: s, index: Index::Item(id.name, i) }),
                        );
                    }
                    None => out.extend(sizes.iter().map(|&s| Axis { size: s, index: Index::Anonymous })),
                }
            }
            DimKind::Ones(name) => {
                let n = list_of(env, name.name, at).ok_or(Stop::NotStatic)?.len();
                out.extend((0..n).map(|_| Axis { size: Dim::from(1), index: Index::Unit }));
            }
            DimKind::Group(_) => {}
            DimKind::Body => return Err(Stop::NotStatic),
        }
    }
    Ok(out)
}

fn list_axes(env: &Env, list: Name, at: At, out: &mut Built) -> Static<()> {
    let sizes = list_of(env, list, at).ok_or(Stop::NotStatic)?;
    out.extend(sizes.iter().enumerate().map(|(i, &size)| Axis { size, index: Index::Item(list, i) }));
    Ok(())
}
