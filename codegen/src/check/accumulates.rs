//! E207, E009: `acc` documents the dtype in which a row's sums are taken. It does not set the dtype, so it must be
//! true.

use std::sync::Arc;

use fulgurite_core::lang::{Block, Expr, Node, Red};
use fulgurite_core::loop_nest::SOp;
use fulgurite_core::lower::lower_with;
use fulgurite_core::row::Row;
use fulgurite_core::signature::const_eval::{self, At};
use fulgurite_core::signature::{Env, Item, solve_types};
use fulgurite_core::{DType, Name};
use rustc_hash::FxHashSet;

use super::cases::{Case, Family};
use super::rows::RowSet;
use super::walk::each;
use super::{dtypes, report};
use crate::diag::Diag;
use crate::schema::{RowSource, Rule};

/// Refuses an `acc` that some call contradicts (E207), or one of a row that takes no sum (E009).
pub fn check(source: &RowSource, row: &Arc<Row>, set: &RowSet, family: &Family) -> Option<Diag> {
    let acc = source.acc.as_ref()?;
    let Some(body) = row.index_body() else { return Some(idle(source, acc)) };
    let mut seen: FxHashSet<(Option<DType>, DType, Option<Name>)> = FxHashSet::default();
    let mut any = false;
    for args in dtypes::calls(row, family) {
        let Ok(solved) = solve_types(row, &args) else { continue };
        let said = word(&solved.env, &acc.tree);
        if !seen.insert((solved.joined, solved.compute, said)) {
            continue;
        }
        let case = Case { args, solved };
        for (red, taken) in sums(row, body, set, &case) {
            any = true;
            let said = said.and_then(|word| meant(word, taken, &case));
            if let Some(said) = said.filter(|said| *said != taken) {
                return Some(refuse(source, acc, row, &case, red, said, taken));
            }
        }
    }
    (!any).then(|| idle(source, acc))
}

fn idle(source: &RowSource, acc: &Rule<Expr>) -> Diag {
    let message = format!("`acc` of `{}` decides nothing: its meaning takes no sum", source.op.as_str());
    let help = match source.body {
        crate::schema::Body::Decomp(_) => "delete it: the rows that the body calls take the sums",
        _ => "delete it: it is for `sum[..](…)`, `prod[..](…)` and `mean[..](…)`",
    };
    Diag::error("E009", acc.text.place, message).help(help)
}

fn refuse(source: &RowSource, acc: &Rule<Expr>, row: &Row, case: &Case, red: Red, said: DType, taken: DType) -> Diag {
    let red = red.word();
    let message = match (said.is_float(), taken.is_float()) {
        _ if [DType::F16, DType::BF16].contains(&said) && taken.is_float() => {
            format!("`{}` accumulates a {red} in {said}, which stops growing at 2048 times its terms", row.op)
        }
        (false, true) => format!("`{}` accumulates a {red} of floats in {said}, which holds whole numbers", row.op),
        (true, false) => format!("`{}` accumulates a {red} of integers in {said}, which rounds them", row.op),
        _ => format!("`{}` says that it accumulates a {red} in {said}, which is taken in {taken}", row.op),
    };
    let diag = Diag::error("E207", acc.text.place, message);
    let diag = match report::body(source) {
        Some((_, text)) => diag.label(text.place, format!("taken in {taken}")),
        None => diag,
    };
    let diag = diag.note(format!("for {}", case.show(row)));
    diag.help(
        "delete `acc`: a sum is taken in the dtype of its terms, those of f16 and bf16 in f32; for a wider one cast \
         them: `sum[n](x[n] as f64)`",
    )
}

/// The sums, products and means over elements that the loops of a call take, with their dtypes.
fn sums(row: &Arc<Row>, body: &Block, set: &RowSet, case: &Case) -> Vec<(Red, DType)> {
    let mut found = Vec::new();
    let Ok(nest) = lower_with(row, body, &case.solved, set) else { return found };
    for out in &nest.outs {
        each(&out.expr, &mut |part| {
            if let SOp::Reduce { red: red @ (Red::Sum | Red::Prod | Red::Mean), .. } = part.op() {
                found.push((*red, part.ty()));
            }
        });
    }
    found
}

/// The dtype that a word of `acc` stands for in a sum taken in `taken`. `wide` stands for any dtype.
fn meant(word: Name, taken: DType, case: &Case) -> Option<DType> {
    match word.as_str() {
        "wide" => Some(taken),
        "T" => case.solved.joined,
        name => DType::from_name(name),
    }
}

/// The word to which `acc` evaluates in a call.
fn word(env: &Env, e: &Expr) -> Option<Name> {
    match &*e.node {
        Node::Name(word) => Some(*word),
        Node::If(c, yes, no) => {
            let holds = const_eval::eval(env, c, At::default()).ok()?.bool().ok()?;
            word(env, &if holds { yes } else { no }.value)
        }
        Node::Match(on, arms) => {
            let Some(Item::Word(chosen)) = env.item(on.name) else { return None };
            let (_, value) = arms.iter().find(|(arm, _)| arm.name == *chosen)?;
            word(env, value)
        }
        _ => None,
    }
}
