//! E401, E405: a rule whose text tests the dtype is compared in every float dtype that the row accepts, not only in
//! f64.

use fulgurite_core::DType;
use fulgurite_core::lang::{BinOp, Block, Elem, Expr, Node};
use fulgurite_core::row::Row;

use crate::check::cases::{self, Case, Family};
use crate::check::gradients::arrays::declared::Declared;
use crate::check::gradients::arrays::tape;
use crate::check::gradients::budget::MOST_TOGETHER;
use crate::check::gradients::claims::constant;
use crate::check::gradients::samples;
use crate::check::gradients::search::{self, Bench};
use crate::check::{dtypes, walk};
use crate::diag::{Diag, Level};

/// Returns the first rule, or detached value, that is wrong in another float dtype than `tried`. Numbers keep all
/// digits of f64 in every dtype.
pub fn check(bench: &Bench, declared: &[Declared], tried: DType) -> Option<Diag> {
    let row = bench.row;
    let body = walk::body(row).is_some_and(|body| asks(row, body));
    let detached = constant::detached(bench.source).filter(|_| body);
    let rules: Vec<&Declared> = declared.iter().filter(|rule| body || asks(row, &rule.rule.tree)).collect();
    let within = if rules.is_empty() { within(bench) } else { Vec::new() };
    if detached.is_none() && rules.is_empty() && within.is_empty() {
        return None;
    }
    let library = &bench.library.with_all_digits();
    let with = |family: &Family, beside: &[Case], look: &dyn Fn(&Bench) -> Option<Diag>| {
        let (drawn, taped) = (Default::default(), tape::Rules::new(library).into());
        let calls = search::calls(family, beside, bench.most, MOST_TOGETHER);
        look(&Bench { family, beside, valued: &[], library, drawn, taped, calls, ..*bench })
    };
    let leaks = |place| {
        let few = Family { cases: dtypes::floats(row, bench.family, tried), refused: None };
        with(&few, &[], &|bench| constant::detach(bench, place))
    };
    let wrong = |dtype| {
        let family = cases::family(row, dtype);
        let beside = cases::beside_defaults(row, &family);
        let fault = |rule: &Declared, bench: &Bench| bench.compare(rule).err().map(|fault| *fault);
        with(&family, &beside, &|bench| match rules.as_slice() {
            [] => declared.iter().find_map(|rule| fault(rule, bench).filter(|diag| diag.level == Level::Error)),
            rules => rules.iter().find_map(|rule| fault(rule, bench)),
        })
    };
    let is_other = |d: &DType| d.has_gradient() && *d != tried && (!rules.is_empty() || within.contains(d));
    let others = samples::taken(row)?.iter().filter(is_other);
    detached.and_then(leaks).or_else(|| others.into_iter().find_map(wrong))
}

/// The dtypes tested by the rows that the meaning or the rules reach.
fn within(bench: &Bench) -> Vec<DType> {
    let mut named = Vec::new();
    for row in bench.within {
        walk::body(row).into_iter().for_each(|body| compared(row, body, &mut |d| named.push(d)));
    }
    named
}

/// Calls `f` on each dtype that a text of `row` tests.
fn compared(row: &Row, text: &Block, f: &mut dyn FnMut(DType)) {
    walk::block(text, &mut |e| {
        let Node::Binary(BinOp::Eq | BinOp::Ne, a, b) = &*e.node else { return };
        if !is_dtype(row, a) && !is_dtype(row, b) && ![a, b].iter().any(|side| is_question(side)) {
            return;
        }
        for side in [a, b] {
            if let Node::Name(name) = &*side.node {
                DType::from_name(name.as_str()).into_iter().for_each(&mut *f);
            }
        }
    });
}

fn is_question(e: &Expr) -> bool {
    matches!(&*e.node, Node::Call(f, _) if f.name == "dtype")
}

/// Whether a text may branch on the dtype: it compares a dtype, or calls `dtype`.
pub fn asks(row: &Row, text: &Block) -> bool {
    walk::any(text, &mut |e| match &*e.node {
        Node::Call(..) => is_question(e),
        Node::Binary(BinOp::Eq | BinOp::Ne, a, b) => is_dtype(row, a) || is_dtype(row, b),
        _ => false,
    })
}

fn is_dtype(row: &Row, e: &Expr) -> bool {
    let Node::Name(name) = &*e.node else { return false };
    DType::from_name(name.as_str()).is_some() || row.sig.params.iter().any(|p| p.ty.elem.contains(&Elem::Var(*name)))
}
