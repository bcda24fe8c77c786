//! Enumerates the finite part of a call: presence of optional arguments, truth values and words.

use fulgurite_core::Name;
use fulgurite_core::lang::ast::*;
use fulgurite_core::row::Row;

/// One choice of all static and finite parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Per parameter: whether it is absent.
    pub absent: Vec<bool>,
    /// Per option: whether it is left out (its default applies, if it has one).
    pub left_out: Vec<bool>,
    /// Per option: its truth value.
    pub truth: Vec<bool>,
    /// Per option: its word.
    pub word: Vec<Option<Name>>,
}

/// The number of ways in which an option can be given, apart from its absence.
fn ways(opt: &Opt) -> usize {
    match &opt.ty {
        OptType::Bool => 2,
        OptType::Enum(words) => words.len().max(1),
        _ => 1,
    }
}

/// Whether an option can be left out.
fn may_lack(opt: &Opt) -> bool {
    opt.optional || opt.default.is_some()
}

/// The number of choices that a row has.
pub fn count(row: &Row) -> usize {
    let params = row.sig.params.iter().map(|p| 1 + p.optional as usize);
    let opts = row.sig.opts.iter().map(|o| ways(o) + may_lack(o) as usize);
    params.chain(opts).product()
}

/// Choice number `case` (modulo their number): the last option changes fastest.
pub fn choose(row: &Row, case: usize) -> Choice {
    let mut rest = case;
    let mut digit = |radix: usize| {
        let d = rest % radix;
        rest /= radix;
        d
    };
    let n = row.sig.opts.len();
    let mut choice = Choice {
        absent: vec![false; row.sig.params.len()],
        left_out: vec![false; n],
        truth: vec![false; n],
        word: vec![None; n],
    };
    for (i, opt) in row.sig.opts.iter().enumerate().rev() {
        let way = digit(ways(opt) + may_lack(opt) as usize);
        choice.left_out[i] = way == ways(opt);
        choice.truth[i] = way == 1;
        if let OptType::Enum(words) = &opt.ty {
            choice.word[i] = words.get(way).copied();
        }
    }
    for (i, param) in row.sig.params.iter().enumerate().rev() {
        choice.absent[i] = param.optional && digit(2) == 1;
    }
    choice
}
