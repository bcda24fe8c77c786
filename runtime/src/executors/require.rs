//! Conditions of rows that read elements or run-time numbers, which are tested when the program runs, before the line.

use super::{ExecError, Kernel, Line, TensorMut, TensorRef};
use crate::symbol::Registered;
use fulgurite_core::builtins::Builtin;
use fulgurite_core::lang::ast::Red;
use fulgurite_core::loop_nest::{LoopExpr, Nest, SOp, SRange};
use fulgurite_core::lower::lower_with;
use fulgurite_core::runtime_checks::{self, Condition};
use std::sync::Arc;

/// A condition as a nest of truth values, with a message for false ones.
pub(crate) struct Check {
    /// The condition.
    pub nest: Arc<Nest>,
    pub message: String,
}

impl Check {
    /// If the condition says that each element of a tensor is an index of an axis: the number of the tensor in the
    /// line, and the size of the axis.
    pub fn range(&self) -> Option<(usize, i64)> {
        let (vars, 0, index, size) = self.bounds()? else { return None };
        let SOp::Load { tensor, idx, .. } = index.op() else { return None };
        // the condition covers all elements: along each axis, a variable of its own runs over the whole axis
        let whole = |range: &SRange| {
            range.lo.as_int() == Some(0) && range.hi.as_int() == Some(self.nest.vars[range.var].value())
        };
        let each = |at: &LoopExpr| vars.iter().any(|range| matches!(at.0.op, SOp::Var(v) if v == range.var));
        (vars.iter().all(whole) && vars.len() == idx.len() && idx.iter().all(each)).then_some((*tensor, size))
    }

    /// The code of the refusal. An index out of range is E804 whether a condition finds it or the loop that reads by
    /// it, because the executor decides which of them does.
    pub fn code(&self) -> &'static str {
        match self.bounds() {
            Some((_, low, _, size)) if low == 0 || low == -size => "E804",
            _ => "E705",
        }
    }

    /// If the condition is `low <= index && index < size` with two numbers: the loops over it, and these three.
    fn bounds(&self) -> Option<(&[SRange], i64, &LoopExpr, i64)> {
        let [out] = self.nest.outs.as_slice() else { return None };
        let (vars, body) = match out.expr.op() {
            SOp::Reduce { red: Red::All, vars, filter: None, body, .. } => (vars.as_slice(), body),
            _ => (&[][..], &out.expr),
        };
        let SOp::Call(Builtin::And, sides) = body.op() else { return None };
        let [low, high] = sides.as_slice() else { return None };
        let (SOp::Call(Builtin::Le, low), SOp::Call(Builtin::Lt, high)) = (low.op(), high.op()) else { return None };
        let ([least, index], [same, size]) = (low.as_slice(), high.as_slice()) else { return None };
        let (low, size) = (least.as_int()?, size.as_int()?);
        (index == same).then_some((vars, low, index, size))
    }
}

/// The conditions of a line that are decided only at run time.
pub(crate) fn checks(line: &Line) -> Result<Vec<Check>, ExecError> {
    let fault = |code, message, help| ExecError { code, message, line: Some(line.id()), help };
    let row = line.symbol.symbol.row();
    let open = runtime_checks::open(row, &line.symbol.solved).map_err(|argument| {
        let message = format!("a condition of `{}` reads `{argument}` along an axis that has no name", row.op);
        fault("E706", message, None)
    })?;
    let check = |c: Condition| {
        let nest = lower_with(&c.row, &c.body, &c.solved, &Registered).map_err(|r| fault(r.code, r.message, r.help))?;
        Ok(Check { nest: Arc::new(line.renumbered(nest)), message: c.message })
    };
    open.into_iter().map(check).collect()
}

/// A kernel that fails with a message if an element of its input is false.
pub(crate) struct Assert {
    pub message: String,
    /// The code of the error.
    pub code: &'static str,
}

impl Kernel for Assert {
    fn name(&self) -> String {
        "check".to_owned()
    }

    fn run(&self, inputs: &[TensorRef<'_>], _: &mut [TensorMut<'_>]) -> Result<(), ExecError> {
        let truths = inputs.first().and_then(|t| Some((t.shape, t.as_slice::<bool>()?)));
        let Some((shape, truths)) = truths else { return Err(ExecError::new(self.code, self.message.clone())) };
        match truths.iter().position(|holds| !holds) {
            None => Ok(()),
            Some(_) if shape.is_empty() => Err(ExecError::new(self.code, self.message.clone())),
            Some(at) => Err(ExecError::new(self.code, format!("{}, first at {:?}", self.message, index(at, shape)))),
        }
    }
}

/// The index of an element from its position in row-major order.
fn index(mut at: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (i, n) in index.iter_mut().zip(shape).rev() {
        *i = at % n.max(&1);
        at /= n.max(&1);
    }
    index
}
