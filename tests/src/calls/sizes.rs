//! Draws sizes and lists of sizes, and builds the shapes of parameters from them.

use super::Attempt;
use fulgurite_core::lang::ast::*;
use fulgurite_core::signature::{Size, const_eval::At, shapes};
use fulgurite_core::value::Shape;
use fulgurite_core::{Dim, Name};

/// The kind of size that a name in a pattern has.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    One,
    List,
    /// One size per item of a `List` argument.
    Each,
}

impl Attempt<'_> {
    /// Draws a value for every size that the arguments bind.
    pub(super) fn choose_sizes(&mut self) {
        let mut names: Vec<(Name, Kind)> = Vec::new();
        let mut add = |name: Name, kind: Kind| {
            if !names.iter().any(|(n, _)| *n == name) {
                names.push((name, kind));
            }
        };
        for param in &self.row.sig.params {
            match &param.ty.dims {
                None => add(shapes::implicit_list(), Kind::List),
                Some(dims) => dims.iter().for_each(|d| bound_names(d, &mut add)),
            }
        }
        for opt in &self.row.sig.opts {
            match &opt.ty {
                OptType::Size(n) => add(*n, Kind::One),
                // An inferred shape follows the list from which it is inferred.
                OptType::Shape { list, infer: None, .. } | OptType::Labels(list) => add(*list, Kind::List),
                _ => {}
            }
        }
        let ranks: Vec<usize> = names
            .iter()
            .map(|(_, kind)| match kind {
                Kind::One => 1,
                Kind::Each => 3,
                Kind::List if self.odd => *self.rng.pick(&[0, 0, 1, 2, 3]),
                Kind::List if names.len() > 3 => self.rng.below(3),
                Kind::List => *self.rng.pick(&[0, 1, 1, 2, 2, 2, 3, 3, 4]),
            })
            .collect();
        let mut pool = self.pool(ranks.iter().sum());
        let mut named: Vec<((Name, Kind), usize)> = names.into_iter().zip(ranks).collect();
        // Single sizes come first, because the pool repeats itself only near its end.
        named.sort_by_key(|((_, kind), _)| *kind != Kind::One);
        for ((name, kind), rank) in named {
            let sizes: Vec<Dim> = (0..rank).map(|_| Dim::from(pool.pop().unwrap_or(2))).collect();
            let size = match kind {
                Kind::One => Size::One(sizes[0]),
                Kind::Each => Size::Each(sizes),
                Kind::List => Size::List(sizes.into()),
            };
            self.env.bind_size(name, size);
        }
    }

    /// At least `n` sizes, to be taken from the back: pairwise distinct there while there are enough, {2, 3, 5, 7} for
    /// up to four, small ones for many (which make large tensors); occasionally a 1 or a 0.
    fn pool(&mut self, n: usize) -> Vec<i64> {
        let mut distinct = match n {
            0..=4 => vec![7, 5, 3, 2],
            5 => vec![7, 6, 5, 4, 3, 2, 1],
            _ => vec![4, 3, 2, 1],
        };
        self.rng.shuffle(&mut distinct);
        let mut pool: Vec<i64> = (distinct.len()..n).map(|_| self.rng.int(1, 3)).collect();
        pool.extend(distinct);
        let used = pool.len() - n..pool.len();
        if n > 0 && self.rng.one_in(3) && !pool[used.clone()].contains(&1) {
            pool[used.start + self.rng.below(n)] = 1;
        }
        if n > 0 && self.wish.empty && self.rng.one_in(8) {
            pool[used.start + self.rng.below(n)] = 0;
        }
        pool
    }

    /// The shape of a parameter (or of one item of it); `narrow` allows it to broadcast.
    pub(super) fn shape(&mut self, param: &Param, item: Option<usize>, narrow: bool) -> Option<Shape> {
        let at = At { axis: None, item };
        let Some(dims) = &param.ty.dims else {
            let full = self.sizes_of(shapes::implicit_list());
            return Some(self.vary(full, narrow).into_iter().map(Dim::from).collect());
        };
        let mut shape = Vec::new();
        let mut anchored = false;
        for pat in dims {
            anchored |= matches!(&pat.kind, DimKind::One { at: Some(_), .. });
            let axes = shapes::build(&mut self.env, std::slice::from_ref(pat), at).ok()?;
            let sizes: Vec<i64> = axes.iter().map(|a| a.size.value()).collect();
            shape.extend(match pat.kind {
                DimKind::Broadcast(_) | DimKind::BroadcastList(_) => self.vary(sizes, narrow),
                _ => sizes,
            });
        }
        // `N@dim` takes a tensor of rank 0 as having one axis of size 1.
        if anchored && shape == [1] && self.rng.one_in(2) {
            shape.clear();
        }
        Some(shape.into_iter().map(Dim::from).collect())
    }

    /// A shape that broadcasts to `full`: leading axes left out, others 1.
    fn vary(&mut self, full: Vec<i64>, narrow: bool) -> Vec<i64> {
        if !narrow || self.rng.one_in(3) {
            return full;
        }
        let lead = self.rng.below(full.len() + 1);
        full[lead..].iter().map(|&n| if self.rng.one_in(3) { 1 } else { n }).collect()
    }
}

/// Calls `add` with the sizes that matching this pattern binds.
fn bound_names(pat: &DimPat, add: &mut impl FnMut(Name, Kind)) {
    match &pat.kind {
        DimKind::One { size, .. } => bound_in_size(size, add),
        DimKind::Broadcast(list) => add(list.name, Kind::List),
        DimKind::List { name, axes: None, .. } => add(name.name, Kind::List),
        DimKind::Group(inner) | DimKind::BroadcastList(inner) => inner.iter().for_each(|p| bound_names(p, add)),
        DimKind::List { .. } | DimKind::Zip { .. } | DimKind::Ones(_) | DimKind::Body => {}
    }
}

fn bound_in_size(size: &Expr, add: &mut impl FnMut(Name, Kind)) {
    match &*size.node {
        Node::Name(n) if n.is_size() => add(*n, Kind::One),
        Node::Access(a) if a.base.name.is_size() => add(a.base.name, Kind::Each),
        Node::Binary(BinOp::Mul, a, b) => {
            bound_in_size(a, add);
            bound_in_size(b, add);
        }
        _ => {}
    }
}
