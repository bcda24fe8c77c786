//! E106: indices that are divided by 0, by one that stands in the text or by a size that is 0.

use fulgurite_core::DType;
use fulgurite_core::builtins::Builtin;
use fulgurite_core::lang::{Block, Expr, Node, Span};
use fulgurite_core::nest::{Nest, SExpr, SOp};
use fulgurite_core::sig::statics::At;
use fulgurite_core::sig::{Refusal, statics};

use super::cases::Case;
use super::machine::Fault;
use super::walk::{self, each, find};

/// An index that is divided by a 0 which stands in the body. What divides by a size is tried with sizes.
pub fn divides_by_zero(body: &Block, nest: &Nest) -> Option<Fault> {
    let at = by_literal(body)?;
    let refusal = || {
        Refusal::new("E706", "an index is divided by 0").help("divide by the size of an axis, or by a number above 0")
    };
    has_zero(nest).then(|| Fault { at: Some(at), ..refusal().into() })
}

/// The same of loops that were found to divide by 0: by a size which is that in this call, as far as no element is divided.
pub fn divides_by_size(body: &Block, nest: &Nest, case: &Case) -> Option<Fault> {
    if by_literal(body).is_some() || !has_zero(nest) {
        return None;
    }
    let is_zero = |by: &Expr| {
        let value = statics::eval(&case.solved.env, by, At::default());
        value.is_ok_and(|value| value.int().is_ok_and(|size| size.value() == 0))
    };
    let mut found: Option<(Span, String)> = None;
    walk::block(body, &mut |e| {
        if let (None, Some(by)) = (&found, divisor(e).filter(|by| is_zero(by))) {
            found = Some((e.span, by.to_string()));
        }
    });
    let (at, by) = found.map_or((None, "its size".to_owned()), |(at, by)| (Some(at), by));
    let refusal = Refusal::new("E706", format!("an index is divided by `{by}`, which is 0"));
    let help = format!("refuse such calls, `require: {{'{by} > 0': …}}`, or choose by `if` what an empty axis gives");
    Some(Fault { at, ..refusal.help(help).into() })
}

/// Where a text divides by a 0 that stands in it.
fn by_literal(body: &Block) -> Option<Span> {
    find(body, &|e| divisor(e).is_some_and(|by| matches!(&*by.node, Node::Int(0))))
}

fn divisor(e: &Expr) -> Option<&Expr> {
    walk::division(e).map(|(_, by)| by)
}

/// Whether loops divide an integer by a number that is 0 before they run.
pub fn has_zero(nest: &Nest) -> bool {
    let mut found = false;
    for out in &nest.outs {
        each(&out.expr, &mut |part| found |= is_by_zero(part));
    }
    found
}

/// Whether this divides an integer by a 0 that is known.
pub fn is_by_zero(part: &SExpr) -> bool {
    let SOp::Call(Builtin::DivFloor | Builtin::RemFloor, args) = part.op() else { return false };
    part.ty() == DType::I64 && args.get(1).is_some_and(|by| by.as_int() == Some(0))
}
