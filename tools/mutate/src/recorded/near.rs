//! Compares two sets of rows on calls near recorded ones, to show whether a call form differs from another.

use fulgurite_core::Name;
use fulgurite_core::foreign::Given;

use fulgurite_codegen::check::gradients::arrays::dense::V;
use fulgurite_codegen::check::gradients::arrays::numbers::Numbers;
use fulgurite_codegen::check::recorded::{Callee, Case, Runner};

use super::meets::agrees;

/// At most this many calls are tried, because each runs on both sets of rows.
const MOST: usize = 1500;

/// The outcome of the comparison.
pub enum Near {
    /// The sets of rows differ on this call.
    Differs(String),
    /// No call shows a difference: the number of calls tried, and the number accepted among them.
    Same(usize, usize),
}

type Arg = Given<V<f64>>;
type Named = Vec<(String, Arg)>;

/// Calls `name` as `cases` do, with up to three changes of the arguments; `params` are names that arguments may have.
pub fn near(name: Name, params: &[Name], cases: &[&Case], right: &Runner, wrong: &Runner) -> Near {
    let calls: Vec<(&Vec<Arg>, &Named)> = cases
        .iter()
        .filter_map(|case| match &case.callee {
            Callee::Foreign(of, positional, named) if *of == name => Some((positional, named)),
            _ => None,
        })
        .collect();
    let mut numbers = Numbers::new(23);
    let (mut tried, mut accepted) = (0, 0);
    for n in 0..if calls.is_empty() { 0 } else { MOST } {
        let (positional, named) = calls[n % calls.len()];
        let (mut positional, mut named) = (positional.clone(), named.clone());
        for _ in 0..(n / calls.len()).min(1 + n % 3) {
            change(&mut positional, &mut named, params, &mut numbers);
        }
        let callee = Callee::Foreign(name, positional, named);
        let Some((same, fine)) = agrees(right, wrong, &callee) else { continue };
        if !same {
            return Near::Differs(shown(&callee));
        }
        tried += 1;
        accepted += usize::from(fine);
    }
    Near::Same(tried, accepted)
}

fn below(numbers: &mut Numbers, n: usize) -> usize {
    ((numbers.draw() * n as f64) as usize).min(n.saturating_sub(1))
}

fn change(positional: &mut Vec<Arg>, named: &mut Named, params: &[Name], numbers: &mut Numbers) {
    match below(numbers, 8) {
        0 if !positional.is_empty() => drop(positional.pop()),
        1 => positional.push(value(numbers)),
        2 if !named.is_empty() => drop(named.remove(below(numbers, named.len()))),
        3 | 4 if !params.is_empty() => {
            let name = params[below(numbers, params.len())].to_string();
            named.retain(|(of, _)| *of != name);
            named.push((name, value(numbers)));
        }
        5 if !named.is_empty() => {
            let at = below(numbers, named.len());
            named[at].1 = value(numbers);
        }
        _ if !positional.is_empty() => {
            let at = below(numbers, positional.len());
            let tensor = matches!(positional[at], Given::Tensor(_) | Given::List(_));
            positional[at] = match &positional[at] {
                // Another argument of the call takes its place.
                Given::Tensor(_) if numbers.draw() < 0.5 => positional[below(numbers, positional.len())].clone(),
                _ if tensor && numbers.draw() < 0.5 => return,
                _ => value(numbers),
            };
        }
        _ => {}
    }
}

/// A value of a kind that callers in a dynamic language pass.
fn value(numbers: &mut Numbers) -> Arg {
    let int = |numbers: &mut Numbers| Given::Int(below(numbers, 5) as i64 - 1);
    match below(numbers, 9) {
        0 => Given::None,
        1 => Given::Bool(numbers.draw() < 0.5),
        2 => Given::Float(0.5),
        3 => Given::List(Vec::new()),
        4 => Given::List(vec![int(numbers)]),
        5 => Given::List(vec![int(numbers), int(numbers)]),
        6 => {
            let one = int(numbers);
            Given::List(vec![one.clone(), one.clone(), one])
        }
        _ => int(numbers),
    }
}

fn shown(callee: &Callee) -> String {
    let Callee::Foreign(name, positional, named) = callee else { return String::new() };
    let all: Vec<String> = positional.iter().map(one).collect();
    let named = named.iter().map(|(name, value)| format!("{name}={}", one(value)));
    format!("{name}({})", all.into_iter().chain(named).collect::<Vec<_>>().join(", "))
}

fn one(value: &Arg) -> String {
    match value {
        Given::None => "none".to_owned(),
        Given::Bool(b) => b.to_string(),
        Given::Int(i) => i.to_string(),
        Given::Size(d) => d.to_string(),
        Given::Float(x) => x.to_string(),
        Given::Str(text) => format!("{text:?}"),
        Given::DType(d) => d.to_string(),
        Given::Tensor(V::Array(a)) | Given::Strided(V::Array(a)) => format!("{}{:?}", a.dtype, a.shape),
        Given::Tensor(V::Key(_)) | Given::Strided(V::Key(_)) => "key".to_owned(),
        Given::List(items) => format!("[{}]", items.iter().map(one).collect::<Vec<_>>().join(", ")),
    }
}
