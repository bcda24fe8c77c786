//! Unifies the loops of a fragment with the loops of a group.

use super::super::graph::piece::{Fragment, Place};
use super::super::graph::{Axis, Dim, DimSet, Index, MAX_DIMS, Op};
use super::group::Group;
use smallvec::SmallVec;

/// A function that splits a dim of a group.
pub(super) type Split<'a> = dyn FnMut(&mut Group, Dim, usize) -> Option<(Dim, Dim)> + 'a;

/// The search for a map from a fragment's dims to those of a group.
pub(super) struct Unify<'a> {
    group: &'a mut Group,
    /// Splits a dim of the group into a slow one and a fast one of this extent.
    split: &'a mut Split<'a>,
    fragment: &'a Fragment,
    /// For each dim of the fragment, the dims of the group that form it.
    map: Vec<Option<Axis>>,
    /// The group's dims that are assigned to a dim of the fragment.
    taken: DimSet,
}

impl Unify<'_> {
    /// Returns, for each dim of the fragment, the dims of the group that form it.
    pub fn run<'a>(group: &'a mut Group, fragment: &'a Fragment, split: &'a mut Split<'a>) -> Option<Vec<Axis>> {
        let map = vec![None; fragment.graph.sizes.len()];
        let mut u = Unify { group, split, fragment, map, taken: DimSet::EMPTY };
        u.members()?;
        u.shared_loads();
        u.positions();
        u.fresh()
    }

    /// Unifies loads of values that the group defines, which must be at the group's own position.
    fn members(&mut self) -> Option<()> {
        for node in &self.fragment.graph.nodes {
            let Op::Load(load) = &node.op else { continue };
            let Some(member) = self.group.members.get(&load.value) else { continue };
            let axes = member.axes.clone()?;
            if load.outside.is_some() {
                return None;
            }
            for (at, (index, axis)) in load.idx.iter().zip(axes.iter()).enumerate() {
                let Index::Affine(a) = index else { return None };
                let size: usize =
                    axis.iter().map(|d| self.group.graph.sizes[*d as usize]).fold(1, usize::saturating_mul);
                let local = a.digits(size, &self.fragment.graph.sizes)?;
                // Splitting a dim for an earlier axis changes the later axes.
                let axis = self.group.members.get(&load.value)?.axes.as_ref()?[at].clone();
                self.unify(&local, &axis)?;
            }
        }
        // Now that every split is made, all loads are tested against the map.
        for node in &self.fragment.graph.nodes {
            let Op::Load(load) = &node.op else { continue };
            let Some(member) = self.group.members.get(&load.value) else { continue };
            for (index, axis) in load.idx.iter().zip(member.axes.as_ref()?.iter()) {
                let Index::Affine(a) = index else { return None };
                let size: usize =
                    axis.iter().map(|d| self.group.graph.sizes[*d as usize]).fold(1, usize::saturating_mul);
                let local = a.digits(size, &self.fragment.graph.sizes)?;
                let found: Option<Vec<Dim>> = local
                    .iter()
                    .map(|d| self.map[*d as usize].clone())
                    .collect::<Option<Vec<_>>>()
                    .map(|v| v.into_iter().flatten().collect());
                if found.as_deref() != Some(axis) {
                    return None;
                }
            }
        }
        Some(())
    }

    /// Unifies the loops of the mixed-radix numbers `local` (fragment) and `axis` (group).
    fn unify(&mut self, local: &[Dim], axis: &[Dim]) -> Option<()> {
        let mut theirs: Vec<Dim> = axis.to_vec();
        for &l in local.iter().rev() {
            let mut rest = self.fragment.graph.sizes[l as usize];
            if let Some(known) = self.map[l as usize].clone() {
                for &k in known.iter().rev() {
                    if theirs.pop()? != k {
                        return None;
                    }
                }
                continue;
            }
            let mut digits: SmallVec<[Dim; 2]> = SmallVec::new();
            while rest > 1 {
                let g = theirs.pop()?;
                if self.taken.has(g) {
                    return None;
                }
                let n = self.group.graph.sizes[g as usize];
                if rest.is_multiple_of(n) {
                    digits.insert(0, g);
                    rest /= n;
                } else if n.is_multiple_of(rest) {
                    let (hi, lo) = (self.split)(self.group, g, rest)?;
                    digits.insert(0, lo);
                    theirs.push(hi);
                    rest = 1;
                } else {
                    return None;
                }
            }
            self.taken = self.taken.union(digits.iter().copied().collect());
            self.map[l as usize] = Some(digits);
        }
        theirs.is_empty().then_some(())
    }

    /// Unifies loops over one axis of one value, unless other assignments forbid it.
    fn shared_loads(&mut self) {
        for node in &self.fragment.graph.nodes {
            let Op::Load(ours) = &node.op else { continue };
            let readers = self.group.readers.get(&ours.value).cloned().unwrap_or_default();
            for reader in readers {
                let theirs = self.group.graph.nodes[reader as usize].clone();
                let Op::Load(theirs) = &theirs.op else { continue };
                for (a, b) in ours.idx.iter().zip(&theirs.idx) {
                    if let (Some(x), Some(y)) = (single(a), single(b)) {
                        self.offer(x, y);
                    }
                }
            }
        }
    }

    /// Unifies loops at equal positions of the results, from the right.
    fn positions(&mut self) {
        let group = &self.group;
        let widest = group.widest.and_then(|(_, value)| group.members.get(&value)?.axes.clone());
        let Some(widest) = widest else { return };
        for out in &self.fragment.outs {
            let Place::Axes(axes) = &out.place else { continue };
            for (a, b) in axes.iter().rev().zip(widest.iter().rev()) {
                for (x, y) in a.iter().rev().zip(b.iter().rev()) {
                    self.offer(*x, *y);
                }
            }
        }
    }

    fn offer(&mut self, local: Dim, group: Dim) {
        let same = self.fragment.graph.sizes[local as usize] == self.group.graph.sizes[group as usize];
        if same && self.map[local as usize].is_none() && !self.taken.has(group) {
            self.map[local as usize] = Some(Axis::from_slice(&[group]));
            self.taken = self.taken.union(DimSet::one(group));
        }
    }

    /// Makes new dims for the remaining dims of the fragment.
    fn fresh(mut self) -> Option<Vec<Axis>> {
        let used = self.fragment.used_dims();
        for d in used.iter() {
            if self.map[d as usize].is_none() {
                if self.group.graph.sizes.len() >= MAX_DIMS {
                    return None;
                }
                let new = self.group.graph.dim(self.fragment.graph.sizes[d as usize]);
                self.map[d as usize] = Some(Axis::from_slice(&[new]));
            }
        }
        Some(self.map.into_iter().map(Option::unwrap_or_default).collect())
    }
}

/// The dim that an index consists of.
fn single(index: &Index) -> Option<Dim> {
    match index {
        Index::Affine(a) if a.base == 0 => match a.terms.as_slice() {
            [(d, 1)] => Some(*d),
            _ => None,
        },
        _ => None,
    }
}
