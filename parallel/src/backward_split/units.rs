//! Divides W into units: parameters whose gradients share a line of W, or a gradient of the hand-over, are in one unit.

use super::{HandedValue, Origin, trace};
use fulgurite_runtime::Error;
use fulgurite_runtime::trace::verify;
use fulgurite_runtime::trace::*;
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;
use std::time::Instant;

/// A unit of W: the lines that make the gradients of some parameters.
#[derive(Clone, Debug)]
pub struct WeightUnit {
    /// The slots of these parameters, ascending.
    pub params: Vec<usize>,
    /// The lines of the unit. The inputs are the values of the hand-over that it reads, the results are the gradients.
    pub trace: Trace,
    /// For each input, its position in the hand-over, ascending.
    pub reads: Vec<usize>,
    /// The positions among `reads` of gradients: values that I makes, and cotangents.
    pub keys: Vec<usize>,
}

/// The lines of W, and the entries of the hand-over, that one parameter's gradient needs.
struct Need {
    lines: FxHashSet<BoundSymbolId>,
    entries: FxHashSet<usize>,
}

/// Divides these lines into units for the gradients `wanted` (slot and value), sorted by their first parameter, and
/// notes in the hand-over the units that read each value.
pub(super) fn units(
    backward: &Trace,
    lines: &[Rc<BoundSymbol>],
    wanted: &[(usize, ProxyId)],
    handover: &mut [HandedValue],
    started: Instant,
) -> Result<Vec<WeightUnit>, Error> {
    let position: FxHashMap<ProxyId, usize> = handover.iter().enumerate().map(|(i, e)| (e.value, i)).collect();
    let is_key = |at: &usize| !matches!(handover[*at].origin, Origin::Saved(_));
    let needs: Vec<Need> = wanted.iter().map(|(_, grad)| need(lines, *grad, &position)).collect();
    let mut sets = Sets((0..wanted.len()).collect());
    let (mut by_line, mut by_key) = (FxHashMap::default(), FxHashMap::default());
    for (i, need) in needs.iter().enumerate() {
        need.lines.iter().for_each(|id| sets.union(i, *by_line.entry(*id).or_insert(i)));
        need.entries.iter().filter(|at| is_key(at)).for_each(|at| sets.union(i, *by_key.entry(*at).or_insert(i)));
    }
    let mut groups: Vec<Vec<usize>> = vec![Vec::new(); wanted.len()];
    (0..wanted.len()).for_each(|i| groups[sets.root(i)].push(i));
    let mut units = Vec::new();
    for members in groups.into_iter().filter(|g| !g.is_empty()) {
        let mut reads: Vec<usize> = members.iter().flat_map(|i| needs[*i].entries.iter().copied()).collect();
        reads.sort_unstable();
        reads.dedup();
        let own = |l: &&Rc<BoundSymbol>| members.iter().any(|i| needs[*i].lines.contains(&l.id));
        let lines: Vec<Rc<BoundSymbol>> = lines.iter().filter(own).cloned().collect();
        let cell = |at: &usize| {
            let proxy = handover[*at].value;
            InputCell {
                proxy,
                version: proxy,
                alias_group: 0,
                path: backward.arena.name(proxy),
                donated: false,
                constant: false,
            }
        };
        let outputs = members.iter().map(|i| wanted[*i].1).collect();
        let suffix = format!(".weight.{}", units.len());
        let made = trace(backward, &suffix, started, reads.iter().map(cell).collect(), lines, outputs);
        verify::step(backward, &made)?;
        let keys = reads.iter().copied().filter(is_key).collect();
        units.push(WeightUnit { params: members.iter().map(|i| wanted[*i].0).collect(), trace: made, reads, keys });
    }
    for (number, unit) in units.iter().enumerate() {
        unit.reads.iter().for_each(|at| handover[*at].readers.push(number));
    }
    Ok(units)
}

/// Finds the lines of W that make a gradient, and the entries of the hand-over that they read.
fn need(lines: &[Rc<BoundSymbol>], grad: ProxyId, position: &FxHashMap<ProxyId, usize>) -> Need {
    let mut values = FxHashSet::from_iter([grad]);
    let mut need = Need { lines: FxHashSet::default(), entries: FxHashSet::default() };
    for line in lines.iter().rev() {
        if line.outs.iter().chain(&line.aux).any(|p| values.contains(p)) {
            need.lines.insert(line.id);
            line.for_each_arg(|p| _ = values.insert(p));
        }
    }
    need.entries.extend(values.iter().filter_map(|p| position.get(p)));
    need
}

/// Disjoint sets. The root of a set is its smallest member, so the order of sets is fixed.
struct Sets(Vec<usize>);

impl Sets {
    fn root(&self, mut i: usize) -> usize {
        while self.0[i] != i {
            i = self.0[i];
        }
        i
    }
    fn union(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b)] = a.min(b);
    }
}
