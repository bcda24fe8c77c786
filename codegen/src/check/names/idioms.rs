//! Equivalents of calls of other libraries, where no row has their name.

use fulgurite_core::Name;

/// Notation of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Notation {
    /// In scalar or index notation.
    Index,
    /// Among tensors.
    Tensors,
}

/// Calls, and their equivalents in index and tensor notation. `$` stands for the argument, `%` for it as an operand.
const IDIOMS: &[(&str, &str, &str)] = &[
    ("zeros_like", "an element of zeros is `0`", "write `zeros($)`"),
    ("ones_like", "an element of ones is `1`", "write `zeros($) + 1`"),
    ("numel", SIZES, SIZES),
    ("nelement", SIZES, SIZES),
    ("norm", "over indices it is `sqrt(sum[..s](x[..s] * x[..s]))`", "write `vector_norm($)`, or `sqrt(sum(% * %))`"),
    ("float", "write `% as f32`", "write `% as f32`"),
    ("double", "write `% as f64`", "write `% as f64`"),
    ("half", "write `% as f16`", "write `% as f16`"),
    ("int", "write `% as i64`", "write `% as i64`"),
    ("long", "write `% as i64`", "write `% as i64`"),
    ("bool", "write `% != 0`", "write `% != 0`"),
    ("return", RETURN, RETURN),
];

const SIZES: &str = "of `x: T[..S]` it is `size(S)`";
const RETURN: &str = "the last expression is the value, without `return`";

/// Calls that draw random numbers.
const RANDOM: &[&str] =
    &["bernoulli", "normal", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "random"];

/// At most this many rows are named, because a help text must stay short.
const MOST_NAMED: usize = 5;

/// The equivalent of a call of `name` with the argument `x`. `random` are the rows that draw random numbers.
pub(super) fn of(name: &str, x: &str, notation: Notation, random: &[Name]) -> Option<String> {
    if RANDOM.contains(&name) {
        return Some(draw(notation, random));
    }
    let (_, index, tensors) = IDIOMS.iter().find(|(other, ..)| *other == name)?;
    let operand = if x.contains(' ') { format!("({x})") } else { x.to_owned() };
    let text = if notation == Notation::Index { index } else { tensors };
    Some(text.replace('$', x).replace('%', &operand))
}

fn draw(notation: Notation, random: &[Name]) -> String {
    let names: Vec<String> = random.iter().take(MOST_NAMED).map(|name| format!("`{name}(key, …)`")).collect();
    match names.as_slice() {
        names if notation == Notation::Tensors && !names.is_empty() => {
            format!("numbers are drawn with an argument `key: Key`, for example by {}", names.join(", "))
        }
        _ => "numbers are drawn with an argument `key: Key`, in an `expr` by `uniform(key, position, draw)`".to_owned(),
    }
}
