//! The helper functions of the rule languages: one table of their names, dialects, arities and forms, and of the facts
//! that lowering, derivation and checks ask. Their values are defined where each dialect is evaluated
//! ([`const_eval`](crate::signature::const_eval), [`eval::tensor`](crate::eval::tensor)).

use super::Dialect;
use crate::Name;

/// A fact about a helper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HelperFact {
    /// It tests the presence or the kind of an argument.
    Question,
    /// It reads the type of its argument, not the elements.
    OfType,
    /// The first argument of the helper may be the name of a dtype variable or a list, which is not
    /// evaluated.
    Names,
    /// The value of the helper is known when the signature is solved, wherever the call stands.
    Constant,
    /// A derivation takes a call of it as an atom.
    Atom,
    /// Inside of `..( )` its arguments stay whole lists and have no entry for each axis.
    WholeLists,
    /// The value of the helper is a list, also inside of `..( )`, where it has no entry for each
    /// axis.
    GivesList,
}

/// A helper function.
#[derive(Debug)]
pub struct Helper {
    /// The name.
    pub name: &'static str,
    /// A call, as messages show it.
    pub form: &'static str,
    /// The least and the greatest number of arguments in scalar and index notation; `None`: it does not exist there.
    index: Option<(usize, usize)>,
    /// As `index`, in the tensor language.
    tensor: Option<(usize, usize)>,
    facts: &'static [HelperFact],
}

impl Helper {
    /// Whether this is a fact about the helper.
    pub fn is(&self, fact: HelperFact) -> bool {
        self.facts.contains(&fact)
    }

    /// The least and the greatest number of arguments in a dialect; `None` if it has no such helper.
    pub fn arity(&self, dialect: Dialect) -> Option<(usize, usize)> {
        match dialect {
            Dialect::Index => self.index,
            Dialect::Tensor => self.tensor,
        }
    }
}

const fn helper(
    name: &'static str,
    form: &'static str,
    [index, tensor]: [Option<(usize, usize)>; 2],
    facts: &'static [HelperFact],
) -> Helper {
    Helper { name, form, index, tensor, facts }
}

use HelperFact::*;

const ONE: Option<(usize, usize)> = Some((1, 1));
const TWO: Option<(usize, usize)> = Some((2, 2));
const THREE: Option<(usize, usize)> = Some((3, 3));
const FIVE: Option<(usize, usize)> = Some((5, 5));

/// Every helper.
pub const HELPERS: &[Helper] = &[
    // arguments
    helper("some", "some(x)", [ONE, ONE], &[Question, OfType, Names, Constant]),
    helper("is_tensor", "is_tensor(x)", [ONE, ONE], &[Question, OfType, Names, Constant]),
    helper("is_number", "is_number(x)", [ONE, ONE], &[Question, OfType, Names, Constant]),
    helper("is_int", "is_int(x)", [ONE, ONE], &[Question, OfType, Names, Constant]),
    helper("is_float", "is_float(x)", [ONE, ONE], &[Question, OfType, Names, Constant]),
    helper("is_bool", "is_bool(x)", [ONE, ONE], &[Question, OfType, Names, Constant]),
    helper("dtype", "dtype(x)", [ONE, ONE], &[OfType]),
    helper("rank", "rank(x)", [ONE, ONE], &[OfType, Constant, Atom, WholeLists]),
    helper("epsilon", "epsilon(T)", [ONE, ONE], &[Names, Constant, Atom]),
    helper("largest", "largest(T)", [ONE, ONE], &[Names, Constant, Atom]),
    helper("lowest", "lowest(T)", [ONE, ONE], &[Names, Constant, Atom]),
    // lists and sizes
    helper("member", "member(l)", [ONE, None], &[Names, Constant, Atom, WholeLists]),
    helper("len", "len(xs)", [ONE, ONE], &[OfType, Names, Constant, Atom, WholeLists]),
    helper("size", "size(S)", [Some((1, 2)), Some((1, 2))], &[OfType, Names, Constant, Atom, WholeLists]),
    helper("before", "before(M, i)", [TWO, None], &[Names, Constant, Atom, WholeLists]),
    helper("part", "part(l, a, b)", [THREE, THREE], &[Constant, Atom, WholeLists, GivesList]),
    helper("pair", "pair(p, S, k)", [THREE, THREE], &[Constant, Atom]),
    helper("windows", "windows(N, span, stride, pad, ceil)", [FIVE, FIVE], &[Constant, Atom]),
    helper("ceil_div", "ceil_div(a, b)", [TWO, TWO], &[Atom]),
    helper("join", "join(x, y)", [Some((1, 16)), None], &[Atom]),
    helper("of", "of(x)", [ONE, None], &[OfType, GivesList]),
    helper("ahead", "ahead(l, S)", [TWO, None], &[GivesList]),
    helper("behind", "behind(l, S)", [TWO, None], &[GivesList]),
    helper("ins", "ins(labels, k)", [TWO, None], &[Atom, GivesList]),
    helper("outs", "outs(labels)", [ONE, None], &[Atom, GivesList]),
    helper("lone", "lone(labels)", [ONE, None], &[Atom]),
    helper("unit", "unit(l)", [None, None], &[Atom]),
    // positions
    helper("ravel", "ravel(t, S)", [Some((1, 2)), None], &[Atom, WholeLists]),
    helper("unravel", "unravel(position, S)", [TWO, None], &[Atom, WholeLists]),
    helper("wrap", "wrap(i, N)", [TWO, None], &[Atom]),
    // values
    helper("detach", "detach(x)", [ONE, None], &[]),
    helper("uniform", "uniform(key, position, draw)", [THREE, None], &[Atom]),
    helper("min", "min(x, y)", [TWO, TWO], &[]),
    helper("max", "max(x, y)", [TWO, TWO], &[]),
    // programs
    helper("last", "last(N)", [None, ONE], &[]),
    helper("except", "except(x, k)", [None, TWO], &[]),
    helper("times", "times(e, n)", [None, TWO], &[]),
    helper("whole", "whole(x)", [None, ONE], &[]),
    helper("entry", "entry(l, i)", [None, TWO], &[]),
    helper("sizes", "sizes(x, axes)", [None, TWO], &[]),
    helper("on", "on(v, y, k)", [None, THREE], &[]),
    helper("unbroadcast", "unbroadcast(e, x)", [None, TWO], &[]),
    helper("zeros", "zeros(x)", [None, ONE], &[]),
];

/// The helper with this name.
pub fn named(name: Name) -> Option<&'static Helper> {
    HELPERS.iter().find(|helper| name == *helper.name)
}

/// Whether a name is that of a helper about which this is a fact.
pub fn is(name: Name, fact: HelperFact) -> bool {
    named(name).is_some_and(|helper| helper.is(fact))
}

/// The helpers of a dialect, with the least and the greatest number of arguments of each.
pub fn of(dialect: Dialect) -> impl Iterator<Item = (&'static Helper, (usize, usize))> {
    HELPERS.iter().filter_map(move |helper| Some((helper, helper.arity(dialect)?)))
}
