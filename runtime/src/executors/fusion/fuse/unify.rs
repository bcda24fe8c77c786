//! Which loops of a fragment are which loops of a group.

use super::super::graph::piece::{Fragment, Place};
use super::super::graph::{Axis, Dim, DimSet, Index, MAX_DIMS, Op};
use super::group::Group;
use smallvec::SmallVec;

/// Splits a dim of a group.
pub(super) type Split<'a> = dyn FnMut(&mut Group, Dim, usize) -> Option<(Dim, Dim)> + 'a;

/// The search for a map from a fragment's dims to those of a group.
pub(super) struct Unify<'a> {
    group: &'a mut Group,
    /// Splits a dim of the group into a slow one and a fast one of this extent.
    split: &'a mut Split<'a>,
    fragment: &'a Fragment,
    /// For each dim of the fragment, the group's dims that make it up.
    map: Vec<Option<Axis>>,
    /// Group dims that stand for a dim of the fragment.
    taken: DimSet,
}

impl Unify<'_> {
    /// For each dim of the fragment, the group's dims that make it up.
    pub fn run<'a>(group: &'a mut Group, fragment: &'a Fragment, split: &'a mut Split<'a>) -> Option<Vec<Axis>> {
        let map = vec![None; fragment.graph.sizes.len()];
        let mut u = Unify { group, split, fragment, map, taken: DimSet::EMPTY };
        u.members()?;
        u.shared_loads();
        u.positions();
        u.fresh()
    }

    /// Loads of what the group defines must be at the group's own position.
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
                // Splitting a dim for an earlier axis changes the later ones.
                let axis = self.group.members.get(&load.value)?.axes.as_ref()?[at].clone();
                self.unify(&local, &axis)?;
            }
        }
        // All loads again, now that every split is made: they must agree with the map.
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

    /// Makes the mixed-radix numbers `local` (fragment) and `axis` (group) the same loops.
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

    /// Loops over the same axis of the same value are the same loop, where nothing speaks against it.
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

    /// Loops that stand at the same place of the results, from the right.
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

    /// New dims for what is left.
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

/// The dim that an index is.
fn single(index: &Index) -> Option<Dim> {
    match index {
        Index::Affine(a) if a.base == 0 => match a.terms.as_slice() {
            [(d, 1)] => Some(*d),
            _ => None,
        },
        _ => None,
    }
}
