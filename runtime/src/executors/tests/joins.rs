//! Reductions over tensors that the same program joins.

use super::*;

/// A reduction over few joined tensors is computed element by element from the tensors: no pass over the joined tensor, and
/// no choice among the tensors, is left.
#[test]
fn reductions_over_joined_tensors_are_unrolled() {
    for reduction in ["sum", "amax"] {
        for of in ["s", "e"] {
            let text = |more: &str| {
                format!(
                    "fn f(a: f32[1, 300], b: f32[1, 300], c: f32[2, 300]) {{
                       s: f32[4, 300] = cat([a, b, c])
                       e: f32[4, 300] = exp(s)
                       y: f32[300] = {reduction}({of}, dims = [0])
                       return y{more}
                     }}"
                )
            };
            let steps = agree(&text("")).describe().to_string();
            assert!(steps.starts_with("1 step") && steps.contains("fusion 1x300"), "{steps}");
            // a joined tensor that is a result exists anyway
            agree(&text(", s"));
        }
    }
}
