//! Effect of loops on the floats of a result: whether they compute, and the tensors that they read.

use fulgurite_core::builtins::Builtin;
use fulgurite_core::lang::Red;
use fulgurite_core::loop_nest::{LoopExpr, SOp};
use smallvec::SmallVec;

/// Effect of loops on the floats of a result.
#[derive(Default)]
pub struct Part {
    /// Whether the loops compute a value that may have to be rounded.
    pub computes: bool,
    /// The tensors whose elements the result is made of, in the order in which they appear.
    pub reads: SmallVec<[usize; 4]>,
}

impl Part {
    /// The effect of the loops that compute `e`.
    pub fn of(e: &LoopExpr) -> Part {
        let mut part = Part::default();
        part.add(e);
        part
    }

    fn add(&mut self, e: &LoopExpr) {
        if !e.ty().is_float() {
            return;
        }
        match e.op() {
            SOp::Elem(t) | SOp::Load { tensor: t, .. } => {
                if !self.reads.contains(t) {
                    self.reads.push(*t);
                }
            }
            SOp::Cast(inner) | SOp::Detach(inner) => self.add(inner),
            SOp::Select(_, a, b) => [a, b].into_iter().for_each(|e| self.add(e)),
            SOp::Call(builtin, args) => match builtin {
                Builtin::Copysign => args.iter().take(1).for_each(|e| self.add(e)),
                // their results are whole numbers and signs, which are exact
                Builtin::Sign | Builtin::Floor | Builtin::Ceil | Builtin::Round | Builtin::Trunc => {}
                _ => {
                    self.computes |=
                        !matches!(builtin, Builtin::Neg | Builtin::Abs | Builtin::Max | Builtin::Min | Builtin::Select);
                    args.iter().for_each(|e| self.add(e));
                }
            },
            SOp::Reduce { red, body, otherwise, .. } => {
                self.computes |= matches!(red, Red::Sum | Red::Prod | Red::Mean);
                self.add(body);
                otherwise.iter().for_each(|e| self.add(e));
            }
            SOp::Const(_) | SOp::Num(_) | SOp::Var(_) | SOp::Uniform { .. } => {}
        }
    }
}
