//! Proofs: a declared rule of a scalar row has the normal form of the derived one.
//!
//! Both rules become scalar terms ([`rule`]), and terms become polynomials over atoms ([`read`], [`forms`]), region by
//! region. The difference of the rules must be zero in every region. The declared rule must also have a value wherever
//! the row and the derived rule have one: it may only divide by expressions by which they divide, and take roots of
//! expressions of which they do.
//!
//! Equal forms are a proof. Different forms refute nothing: instances decide. A proof that grows too long is given up.

mod coef;
mod forms;
mod poly;
mod read;
mod rule;
#[cfg(test)]
mod tests;

use fulgurite_core::Name;
use fulgurite_core::derive::term::{Scope, T, Terms};
use fulgurite_core::lang::{Block, OptType};
use fulgurite_core::row::Row;

use super::arrays::dense::Library;
use forms::Forms;
use read::{Path, Reader, Stop};
use rule::Rules;

/// A proof takes at most this many regions, because both rules are read again in each.
const MOST_REGIONS: usize = 300;

/// Whether the declared rule `stated` for `arg` is proved to equal the derived rule `derived`.
pub fn holds(row: &Row, arg: Name, stated: &Block, derived: &Block, library: &Library) -> bool {
    prove(row, arg, stated, derived, library).unwrap_or(false)
}

fn prove(row: &Row, arg: Name, stated: &Block, derived: &Block, library: &Library) -> Option<bool> {
    let body = row.index_body().filter(|_| row.is_pointwise() && row.sig.outs.len() == 1)?;
    let numbers = row.sig.opts.iter().filter(|opt| matches!(opt.ty, OptType::F64)).map(|opt| opt.name.name);
    let out = row.sig.outs[0].name.name;
    let tensors = row.sig.params.iter().map(|param| param.name.name).chain(numbers);
    let seeds = [fulgurite_core::derive::cotangent(row, out)];
    let mut terms = Terms::new(library, tensors.chain(seeds).collect(), Some(arg));
    let value = *terms.block(body, &Scope::default()).ok()?.first()?;
    let results = vec![(out, value), (Name::new("out"), value)];
    let mut rules = Rules { terms: &mut terms, library, arg, results };
    let (stated, derived) = (rules.value(stated)?, rules.value(derived)?);
    Some(equal(&terms, stated, derived, &[value]))
}

/// Whether `stated` equals `derived` wherever `derived` and all of `defined` have values.
pub fn equal(terms: &Terms, stated: T, derived: T, defined: &[T]) -> bool {
    let mut forms = Forms::new();
    let mut open = vec![Path::new()];
    for _ in 0..MOST_REGIONS {
        let Some(path) = open.pop() else { return true };
        match differ(&mut Reader::new(terms, &mut forms, &path), stated, derived, defined) {
            Ok(false) => {}
            Ok(true) | Err(Stop::GaveUp) => return false,
            Err(Stop::Ask(question)) => {
                let further = |answer| path.iter().cloned().chain([(question.clone(), answer)]).collect();
                open.extend(question.answers().into_iter().map(further));
            }
        }
    }
    false
}

fn differ(reader: &mut Reader, stated: T, derived: T, defined: &[T]) -> Result<bool, Stop> {
    reader.forms.needs.clear();
    defined.iter().try_for_each(|t| reader.read(*t).map(drop))?;
    let derived = reader.read(derived)?;
    let allowed = std::mem::take(&mut reader.forms.needs);
    let stated = reader.read(stated)?;
    let zero = reader.forms.vanishes(&stated.sub(&derived)).ok_or(Stop::GaveUp)?;
    Ok(!zero || !reader.forms.needs_within(&allowed))
}
