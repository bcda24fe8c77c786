//! E605: the bounds in `error` of a class have values, and those refute something.

use fulgurite_core::eval::loop_nest::Array;

use super::draw::{self, Operand};
use super::meaning::likes;
use super::world::World;
use crate::check::gradients::arrays::dense::floats;
use crate::check::gradients::show;

/// Returns the key of `error` that is at fault, and the end of a sentence about it.
pub fn check(world: &World, class: usize) -> Option<(&'static str, String)> {
    let error = &world.classes[class].error;
    if error.rel.is_none() && error.abs.is_none() && error.when.is_none() {
        return None;
    }
    let bare = world.without_error(class);
    let made: Vec<Operand> = likes().iter().flat_map(|like| draw::operands(&bare, class, like, 1)).collect();
    if made.is_empty() {
        return None;
    }
    let counted: Vec<&Operand> = made.iter().filter(|operand| draw::counts(world, &operand.made)).collect();
    if counted.is_empty() {
        return Some(("when", "holds for none of the tensors that were made, so that nothing is compared".to_owned()));
    }
    let mut all = true;
    for operand in &counted {
        let of: &Array<f64> = operand.of.as_ref().map_or(&operand.plain, |(_, of)| of);
        for (key, text) in [("rel", &error.rel), ("abs", &error.abs)] {
            let Some(far) = draw::each(world, &operand.made, text, of) else {
                return Some((key, "is no number, nor one for each element or group of them".to_owned()));
            };
            if let Some(x) = far.iter().find(|x| !x.is_finite() || **x < 0.0) {
                return Some((key, format!("is {}: how far two numbers are apart is none below 0", show::number(*x))));
            }
            if key == "rel"
                && let Some(x) = far.iter().find(|x| **x >= 1.0)
            {
                return Some((key, format!("is {}, with which 0 passes for every number", show::number(*x))));
            }
            let largest = floats(of).iter().fold(0.0f64, |most, x| most.max(x.abs()));
            all &= key == "rel" || far.iter().any(|x| *x > 0.0) && far.iter().all(|x| *x >= largest);
        }
    }
    all.then(|| ("abs", "is not less than any of the numbers that were tried: every value passes".to_owned()))
}
