//! Calls that a row accepts: a small family per row in which swapped axes, forgotten presence and lost sizes can't
//! hide.
//!
//! Lists have ranks 0 to 3. Sizes are pairwise distinct (2, 3, 5, 7, …), or one of them is 1 or 0. Static options,
//! presence and alternatives of a union occur in every combination. Axes, bounds and numbers rotate through their
//! candidates. A call that the row refuses (`require`) is tried with other sizes and then left out. All randomness
//! has a fixed seed, so a row has the same family on every machine.

mod crossed;
mod drawer;
mod more;
mod names;
mod options;
mod params;
mod settled;
mod sizes;
mod values;
mod windows;

pub use crossed::{crossed, mixed};
pub use more::{deep, each, long_lists, more, stepped};
pub use values::valued;
pub use windows::{equal, stepping, tight};

use fulgurite_core::lang::OptType;
use fulgurite_core::row::Row;
use fulgurite_core::signature::{self, ArgTy, OutTy, Refusal, Solved};
use fulgurite_core::{DType, Dim, Name, Scalar, TensorTy, Value};

use super::machine::show;
use drawer::{Draw, Drawer};
use options::Tried;

/// At most about this many usual cases per row, because checks run each of them.
const MOST: usize = 96;

/// No data are made up for a call of more elements, because a row may name a size of any number: `N, 94967296`.
pub const MOST_DATA: usize = 1 << 20;

/// Attempts at a case, with other sizes and values each time, before it is given up.
const ATTEMPTS: u64 = 24;

/// An accepted call.
#[derive(Clone)]
pub struct Case {
    /// One value per argument and option.
    pub args: Vec<Value<ArgTy>>,
    /// Bindings of the signature.
    pub solved: Solved,
}

/// The calls of a row that are tried.
#[derive(Default)]
pub struct Family {
    /// Accepted calls.
    pub cases: Vec<Case>,
    /// Reason of the first refusal, for rows that accept no call.
    pub refused: Option<Refusal>,
}

impl Case {
    /// The call with these arguments, if `row` accepts it.
    pub fn of(row: &Row, args: Vec<Value<ArgTy>>) -> Option<Case> {
        let solved = signature::accepted(row, &args)?;
        Some(Case { args, solved })
    }

    /// The call with other values in these places, if `row` accepts it and some result has elements.
    fn with(&self, row: &Row, values: impl IntoIterator<Item = (usize, Value<ArgTy>)>) -> Option<Case> {
        let mut args = self.args.clone();
        values.into_iter().for_each(|(at, value)| args[at] = value);
        Case::of(row, args).filter(|case| !is_empty(&case.solved))
    }

    /// The call with every axis of several elements `by` times as long, if `row` accepts it. If `named`, sizes in
    /// options grow as well.
    pub fn grown(&self, row: &Row, by: i64, named: bool) -> Option<Case> {
        let longer = |d: &Dim| if d.value() > 1 { Dim::from(d.value() * by) } else { *d };
        let mut tensor = |t: &TensorTy| TensorTy { dtype: t.dtype, shape: t.shape.iter().map(longer).collect() };
        let mut args: Vec<Value<ArgTy>> = self.args.iter().map(|arg| arg.map_tensors(&mut tensor)).collect();
        for (opt, value) in row.sig.opts.iter().zip(args.iter_mut().skip(row.sig.params.len())).filter(|_| named) {
            if let (OptType::Shape { .. } | OptType::Size(_), Some(sizes)) = (&opt.ty, value.as_dims()) {
                let mut long = sizes.iter().map(|d| Value::size(longer(d)));
                *value = match value {
                    Value::List(_) => Value::List(long.collect()),
                    _ => long.next_back()?,
                };
            }
        }
        Case::of(row, args)
    }

    /// Elements of all tensor arguments.
    pub fn numel(&self) -> usize {
        self.args.iter().flat_map(Value::tensors).map(TensorTy::numel).fold(0, usize::saturating_add)
    }

    /// Elements of all results. A result whose shape only the body knows counts as 2.
    pub fn results(&self) -> usize {
        let of = |out: &OutTy| match out {
            OutTy::FromBody => 2,
            told => told.tensors().iter().map(TensorTy::numel).sum(),
        };
        self.solved.outs.iter().map(of).sum()
    }

    /// Presence, words and truth values of a call, which decide the branches that a body takes.
    pub fn kind(&self) -> String {
        let mut kind = String::new();
        for value in &self.args {
            match value {
                Value::Absent => kind.push('-'),
                Value::Word(word) => kind.push_str(word.as_str()),
                Value::Num(Scalar::Bool(b)) => kind.push_str(if *b { "1" } else { "0" }),
                Value::Tensor(ArgTy::Tensor(t)) if t.dtype == DType::Bool => kind.push('b'),
                _ => kind.push('+'),
            }
        }
        kind
    }

    /// `x: f32[2, 3], dims = [0]`: arguments that were given.
    pub fn show(&self, row: &Row) -> String {
        let params = row.sig.params.iter().map(|param| (param.name.name, ": "));
        let opts = row.sig.opts.iter().map(|opt| (opt.name.name, " = "));
        let given = params.chain(opts).zip(&self.args).filter(|(_, value)| !value.is_absent());
        let shown: Vec<String> = given.map(|((name, mark), value)| format!("{name}{mark}{}", show(value))).collect();
        if shown.is_empty() { "no arguments".to_owned() } else { shown.join(", ") }
    }
}

/// The alternative of each independent decision that a call takes.
struct Choice<'a> {
    /// Per argument: the class of its union, or `None` if it is absent.
    params: &'a [Option<usize>],
    /// Per option: its static alternative.
    opts: &'a [usize],
    /// The dtype of `T`.
    dtype: DType,
    /// Seed of the rotation through candidates.
    turn: Turn,
    /// Per option: facts that hold in every call.
    tried: &'a [Tried],
    /// Options that have prescribed values.
    given: &'a [(usize, Value<ArgTy>)],
    /// The length of lists that may have any; `None` varies it.
    items: Option<usize>,
}

/// A fixed sequence of small decisions.
#[derive(Clone, Copy, Default)]
pub(crate) struct Turn(u64);

impl Turn {
    /// One of `n` alternatives for the decision called `salt`. Turn 0 takes the first of everything.
    fn pick(self, n: usize, salt: u64) -> usize {
        if self.0 == 0 || n <= 1 {
            return 0;
        }
        // splitmix64: neighbouring turns and salts give unrelated numbers
        let mut z = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(salt.wrapping_mul(0xbf58_476d_1ce4_e5b9));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

/// The family of `row` with `T` of `dtype`.
pub fn family(row: &Row, dtype: DType) -> Family {
    let mut drawer = Drawer::new(row, dtype, MOST);
    let shapes = drawer.shapes();
    let mut family = Family::default();
    let total = drawer.statics.len() * shapes.len();
    // where there are too many combinations, each static choice meets every k-th shape, starting elsewhere each time;
    // with an even k, choices between two would never meet every second shape
    let step = if total > MOST { total.div_ceil(MOST) | 1 } else { 1 };
    // shapes that never fit (two lists of one length with different ranks) are soon given up
    let mut patience = vec![ATTEMPTS; shapes.len()];
    let mut fits = vec![false; shapes.len()];
    for chosen in 0..drawer.statics.len() {
        let mut here = ATTEMPTS;
        for (h, (ranks, variant)) in shapes.iter().enumerate().filter(|(h, _)| (h + chosen) % step == 0) {
            if drawer.settled.refuses(chosen, ranks) {
                continue;
            }
            let seed = (chosen * shapes.len() + h) as u64;
            let mut accepted = None;
            for n in 0..here.min(patience[h]) {
                // the first attempt of the first case takes the first candidate of everything
                let turn = Turn(if n == 0 { seed } else { seed * ATTEMPTS + n });
                let draw = Draw { turn, chosen, ranks, variant: *variant, attempt: n, ..Draw::default() };
                let Some(args) = drawer.args(&draw) else { continue };
                // the first refused call is the most usual one, and only its refusal is formatted
                let solve = if family.refused.is_some() { signature::attempt } else { signature::solve_types };
                match solve(row, &args) {
                    Ok(solved) => {
                        accepted = Some(Case { args, solved });
                        break;
                    }
                    Err(refusal) => {
                        let for_good = drawer.settled.refuse(&refusal, chosen, ranks);
                        family.refused.get_or_insert(refusal);
                        if for_good {
                            break;
                        }
                    }
                }
            }
            match accepted {
                Some(case) => {
                    here = ATTEMPTS;
                    fits[h] = true;
                    family.cases.push(case);
                }
                None => {
                    here = (here / 2).max(8);
                    patience[h] = (patience[h] / 2).max(if fits[h] { 4 } else { 1 });
                }
            }
        }
    }
    let usual = family.cases.len();
    for pin in sizes::named(row, &drawer.free) {
        family.cases.extend(pinned(&drawer, &shapes, pin));
    }
    cover(row, &drawer.tried, &mut family, usual);
    family
}

/// A call in which a size equals a number in a condition of the row, or lies next to it. A branch may be taken there
/// alone, or calls may be refused below.
fn pinned(drawer: &Drawer, shapes: &[(Vec<usize>, sizes::Variant)], pin: (Name, i64)) -> Option<Case> {
    let choices = shapes.iter().flat_map(|shape| (0..drawer.statics.len()).map(move |chosen| (shape, chosen)));
    choices.enumerate().take(ATTEMPTS as usize).find_map(|(n, ((ranks, variant), chosen))| {
        let turn = Turn(n as u64);
        let draw = Draw { turn, chosen, ranks, variant: *variant, pins: &[pin], ..Draw::default() };
        Case::of(drawer.row, drawer.args(&draw)?)
    })
}

/// Adds calls with values of options that occur in no call yet: chance may give only offsets that are not negative,
/// or only strides of 1. Calls from `usual` on have sizes that the row names. Where the row bounds an option by such
/// sizes, these calls are tried on both sides of the bound.
fn cover(row: &Row, tried: &[Tried], family: &mut Family, usual: usize) {
    /// Small calls that are tried with another value before it counts as refused.
    const TRIED: usize = 12;
    /// Large calls that are tried with counts above the usual ones and with bounds.
    const LARGEST: usize = 4;
    let first = row.sig.params.len();
    for (at, opt) in row.sig.opts.iter().enumerate().filter(|(_, opt)| options::varies(row, opt)) {
        let bounds = options::bounds(row, opt);
        let mut alike: Vec<&Case> = family.cases.iter().filter(|case| case.numel() > 1).collect();
        let met = alike.iter().filter(|case| !is_empty(&case.solved)).map(|case| case.args[first + at].clone());
        let mut met: Vec<Value<ArgTy>> = met.collect();
        alike.sort_by_cached_key(|case| case.numel());
        let (small, large) = alike.split_at(alike.len().min(TRIED));
        let large = large.iter().rev().take(LARGEST).copied().chain(&family.cases[usual..]);
        let mut more = Vec::new();
        for (n, case) in small.iter().copied().chain(large).enumerate() {
            let mut values = match n < TRIED {
                true => options::candidates(row, &tried[at], &case.solved.env, opt).unwrap_or_default(),
                false => Vec::new(),
            };
            values.extend(bounds.iter().filter_map(|bound| options::at_bound(bound, &case.solved.env)).flatten());
            values.extend(options::larger(opt));
            for value in values {
                if met.contains(&value) {
                    continue;
                }
                if let Some(other) = case.with(row, [(first + at, value.clone())]) {
                    met.push(value);
                    more.push(other);
                }
            }
        }
        family.cases.extend(more);
    }
    pairs(row, tried, family);
    let whole = crossed(row, family.cases.iter(), |opt| matches!(opt.ty, OptType::I64));
    family.cases.extend(whole);
}

/// Adds calls in which two integers take new values together: a backward step leaves the tensor only from a start
/// beyond its end.
fn pairs(row: &Row, tried: &[Tried], family: &mut Family) {
    /// Calls that are tried for each pair of options, and calls that are added for it at most.
    const TRIED: usize = 3;
    const MOST_ADDED: usize = 6;
    let first = row.sig.params.len();
    let whole = |at: usize| matches!(row.sig.opts[at].ty, OptType::I64);
    let whole: Vec<usize> = (0..row.sig.opts.len()).filter(|at| whole(*at)).collect();
    let mut alike: Vec<&Case> = family.cases.iter().filter(|case| case.numel() > 1).collect();
    alike.sort_by_cached_key(|case| case.numel());
    let mut more: Vec<Case> = Vec::new();
    for (n, a) in whole.iter().enumerate() {
        for b in &whole[n + 1..] {
            let mut met: Vec<[Value<ArgTy>; 2]> = Vec::new();
            for case in alike.iter().take(TRIED) {
                let values = |at: usize| options::candidates(row, &tried[at], &case.solved.env, &row.sig.opts[at]);
                let (left, right) = (values(*a).unwrap_or_default(), values(*b).unwrap_or_default());
                for pair in left.iter().flat_map(|l| right.iter().map(|r| [l.clone(), r.clone()])) {
                    if met.len() == MOST_ADDED || met.contains(&pair) {
                        continue;
                    }
                    if let Some(other) = case.with(row, [first + a, first + b].into_iter().zip(pair.clone())) {
                        met.push(pair);
                        more.push(other);
                    }
                }
            }
        }
    }
    family.cases.extend(more);
}

/// Whether no result of a call has an element.
fn is_empty(solved: &Solved) -> bool {
    solved.outs.iter().all(|out| *out != OutTy::FromBody && out.tensors().iter().all(|t| t.numel() == 0))
}

/// Calls like the smaller ones of `family`, with a number other than its default for every option. They refute a rule
/// that has the default where it should read the option. The numbers differ from each other, so that they refute a
/// rule that confuses two options as well.
pub fn beside_defaults(row: &Row, family: &Family) -> Vec<Case> {
    /// At most this many calls, spread evenly over the family by size.
    const ALIKE: usize = 4;
    let first = row.sig.params.len();
    let numbers = || row.sig.opts.iter().enumerate().filter(|(_, opt)| options::is_number(opt));
    if numbers().next().is_none() {
        return Vec::new();
    }
    let mut alike: Vec<&Case> = family.cases.iter().filter(|case| case.numel() > 1).collect();
    alike.sort_by_cached_key(|case| case.numel());
    let step = alike.len().div_ceil(ALIKE).max(1);
    let beside = |turn: usize| {
        let case = alike[turn * step % alike.len()];
        let mut args = case.args.clone();
        let mut solved = None;
        for (nth, (at, opt)) in numbers().enumerate() {
            // a number that is refused for one option must not keep the others at their defaults
            for number in options::beside_default(opt, turn + nth) {
                let before = std::mem::replace(&mut args[first + at], number);
                match signature::accepted(row, &args) {
                    Some(fits) => {
                        solved = Some(fits);
                        break;
                    }
                    None => args[first + at] = before,
                }
            }
        }
        solved.map(|solved| Case { args, solved })
    };
    // several calls, so that every option has several numbers in turn
    (0..if alike.is_empty() { 0 } else { ALIKE }).filter_map(beside).collect()
}
