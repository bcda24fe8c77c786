//! E401, E405: what asks for the dtype is right in each that the row takes, not only in the one in which all are compared.

use fulgurite_core::DType;
use fulgurite_core::lang::{BinOp, Block, Elem, Expr, Node};
use fulgurite_core::row::Row;

use super::declared::Declared;
use super::values::Bench;
use super::{constant, sample, tape};
use crate::check::cases::{self, Case, Family};
use crate::check::{dtypes, walk};
use crate::diag::Diag;

/// The first rule, or detached value, of the row of `bench` that is wrong in another float dtype than `tried`. Numbers
/// have the digits of f64 whatever their dtype is.
pub fn check(bench: &Bench, declared: &[Declared], tried: DType) -> Option<Diag> {
    let row = bench.row;
    let body = walk::body(row).is_some_and(|body| asks(row, body));
    let detached = constant::detached(bench.source).filter(|_| body);
    let rules: Vec<&Declared> = declared.iter().filter(|rule| body || asks(row, &rule.rule.tree)).collect();
    if detached.is_none() && rules.is_empty() {
        return None;
    }
    let library = &bench.library.with_all_digits();
    let with = |family: &Family, beside: &[Case], look: &dyn Fn(&Bench) -> Option<Diag>| {
        let (drawn, taped) = (Default::default(), tape::Rules::new(library).into());
        look(&Bench { family, beside, library, drawn, taped, ..*bench })
    };
    let leaks = |place| {
        let few = Family { cases: dtypes::floats(row, bench.family, tried), refused: None };
        with(&few, &[], &|bench| constant::detach(bench, place))
    };
    let wrong = |dtype| {
        let family = cases::family(row, dtype);
        let beside = cases::beside_defaults(row, &family);
        with(&family, &beside, &|bench| rules.iter().find_map(|rule| bench.compare(rule).err().map(|fault| *fault)))
    };
    let others = sample::taken(row)?.iter().filter(|d| !rules.is_empty() && d.has_gradient() && *d != tried);
    detached.and_then(leaks).or_else(|| others.into_iter().find_map(wrong))
}

/// Whether a text may take another branch for another dtype: it names one in a comparison, or asks which it is.
fn asks(row: &Row, text: &Block) -> bool {
    let mut found = false;
    walk::block(text, &mut |e| {
        found |= match &*e.node {
            Node::Call(f, _) => f.name == "dtype",
            Node::Binary(BinOp::Eq | BinOp::Ne, a, b) => is_dtype(row, a) || is_dtype(row, b),
            _ => false,
        }
    });
    found
}

fn is_dtype(row: &Row, e: &Expr) -> bool {
    let Node::Name(name) = &*e.node else { return false };
    DType::from_name(name.as_str()).is_some() || row.sig.params.iter().any(|p| p.ty.elem.contains(&Elem::Var(*name)))
}
