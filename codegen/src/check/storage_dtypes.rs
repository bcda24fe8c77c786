//! E204: a row computes neither in a storage dtype, which only holds numbers, nor in a dtype that no tensor has.

use fulgurite_core::lang::{Expr, Node};
use fulgurite_core::promote::Kind;
use fulgurite_core::signature::{Env, const_eval};
use fulgurite_core::{DType, DTypeSet, Name};

use super::walk;
use crate::diag::Diag;
use crate::schema::{Body, RowSource};

/// The fault of a row that accepts complex numbers alone, or that computes in a storage dtype, such as a float of
/// eight bits.
pub fn check(source: &RowSource) -> Option<Diag> {
    let rule = source.dtypes.as_ref()?;
    let set = const_eval::dtype_set(&Env::default(), &rule.tree).ok()?;
    let op = source.op.as_str();
    let complex = DTypeSet::from_class("complex").unwrap_or(DTypeSet::EMPTY);
    if !set.is_empty() && set.minus(complex).is_empty() {
        let message = format!("`dtypes` of `{op}` has complex numbers alone, which no tensor holds");
        let diag = Diag::error("E204", rule.text.place, message);
        return Some(diag.help("give real and imaginary parts as two arguments, and say `dtypes: float`"));
    }
    let Body::Expr(body) = &source.body else { return None };
    let held: Vec<DType> = set.iter().filter(|d| d.is_storage()).collect();
    let first = held.first().filter(|_| computes(source))?;
    let diag =
        Diag::error("E204", rule.text.place, format!("`expr` of `{op}` computes in {first}, which only holds numbers"));
    let diag = diag.label(body.text.place, "this computes");
    let help = "leave it out; a row that reads such numbers takes them as an argument of that class and casts: `x: f8`, \
                `x as f32`";
    Some(diag.help(help))
}

/// Whether some kind of promotion in `promote` does more than move elements.
fn computes(source: &RowSource) -> bool {
    let computes = |kind: Kind| !matches!(kind, Kind::Keep | Kind::Join);
    let named = |name: &Name| Kind::from_name(name.as_str()).is_some_and(computes);
    let test = &mut |e: &Expr| matches!(&*e.node, Node::Name(name) if named(name));
    source.promote.as_ref().is_some_and(|promote| walk::any_expr(&promote.tree, test))
}
