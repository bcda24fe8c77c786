//! Counts points that state a gradient or tangent other than the derivative, as `deviates` announces.

use std::sync::Arc;

use fulgurite_core::Name;
use fulgurite_core::row::Row;
use fulgurite_core::signature;

use super::run::Ran;
use crate::check::gradients::arrays::declared::Way;
use crate::check::rows::RowSet;
use crate::schema::RowSource;

/// The relative step by which every argument is moved to test whether the derivative is smooth there.
const STEP: f64 = 1e-6;

/// The relative distance up to which two numbers count as one derivative.
const NEAR: f64 = 1e-3;

/// The number of points that state a value other than the derivative for argument `arg`, where the derivative is finite
/// and smooth. Conventions at ties and kinks do not count.
pub fn count(source: &RowSource, row: &Arc<Row>, set: &RowSet, way: Way, arg: Name) -> usize {
    if source.deviates.is_none() {
        return 0;
    }
    source.tests.points.iter().filter(|node| is_apart(source, row, set, node, (way, arg)).unwrap_or(false)).count()
}

/// Whether a point states a gradient with respect to an argument for which `other`, a row with an equal meaning, has
/// another derivative.
pub fn shows(source: &RowSource, row: &Arc<Row>, other: &Arc<Row>, set: &RowSet) -> bool {
    let differs = |node| -> Option<bool> {
        let point = super::read(source, row, node).ok().filter(|point| !point.gradients.is_empty())?;
        let args = signature::arrange(row, Vec::new(), point.args).ok()?;
        let (own, other) = (Ran::new(row, args.clone(), set).ok()?, Ran::new(other, args, set).ok()?);
        let mut moves = point.gradients.iter().filter_map(|(arg, ..)| {
            let at = row.sig.params.iter().position(|param| param.name.name == *arg)?;
            Some((own.moves(set, at).ok()?, other.moves(set, at).ok()?))
        });
        Some(moves.any(|(one, two)| !super::close(one, two)))
    };
    source.tests.points.iter().any(|node| differs(node).unwrap_or(false))
}

fn is_apart(
    source: &RowSource,
    row: &Arc<Row>,
    set: &RowSet,
    node: &crate::yaml::Node,
    (way, arg): (Way, Name),
) -> Option<bool> {
    let point = super::read(source, row, node).ok()?;
    let stated = match way {
        Way::Vjp => &point.gradients,
        Way::Jvp => &point.tangents,
    };
    let (_, stated, _) = stated.iter().find(|(name, ..)| *name == arg)?;
    let stated: Vec<f64> = stated.tree.numbers()?.iter().map(|s| s.as_f64()).collect();
    let at = row.sig.params.iter().position(|param| param.name.name == arg)?;
    let args = signature::arrange(row, Vec::new(), point.args).ok()?;
    let ran = Ran::new(row, args, set).ok()?;
    let slopes = ran.slopes(set);
    let [here, above] = slopes.meant(way, at, STEP).ok()?;
    let [_, below] = slopes.meant(way, at, -STEP).ok()?;
    let is_near = |i: usize, other: &[f64]| {
        other.get(i).is_some_and(|other| (other - here[i]).abs() <= NEAR * (1.0 + here[i].abs()))
    };
    let smooth = |i: usize| here[i].is_finite() && is_near(i, &above) && is_near(i, &below);
    Some((0..here.len()).any(|i| smooth(i) && !is_near(i, &stated)))
}
