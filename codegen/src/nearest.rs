//! "Did you mean": finds the known words nearest to a misspelt one.

use std::cmp::Reverse;

use fulgurite_core::DType;

/// Names of other libraries whose counterpart here is not the nearest word.
const ELSEWHERE: &[(&str, &str)] = &[
    ("log", "ln"),
    ("sqr", "square"),
    ("fabs", "abs"),
    ("power", "pow"),
    ("inverse", "reciprocal"),
    ("negative", "neg"),
    ("max", "maximum"),
    ("min", "minimum"),
    ("half", "f16"),
    ("double", "f64"),
    ("long", "i64"),
    ("is_some", "some"),
    ("is_not_none", "some"),
    ("exists", "some"),
    ("present", "some"),
    ("given", "some"),
    ("pi", "PI"),
    ("Infinity", "inf"),
    ("NaN", "nan"),
    ("True", "true"),
    ("False", "false"),
];

/// The name here for a name of another library.
pub fn elsewhere(word: &str) -> Option<&'static str> {
    let listed = ELSEWHERE.iter().find(|(other, _)| *other == word).map(|(_, ours)| *ours);
    listed.or_else(|| DType::from_foreign_name(word).map(DType::name))
}

/// The candidate with this name in another library; else the one with the fewest edits, if the word is likely to mean
/// it: at most one edit for short words, a third of the letters for longer ones.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let known = elsewhere(word).and_then(|ours| candidates.iter().copied().find(|c| *c == ours));
    known.or_else(|| near(word, candidates).first().copied())
}

/// All likely candidates, the nearest first.
pub fn near<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let limit = (word.chars().count() / 3).max(1);
    // At equal distance, a candidate with equal letters comes first: `tahn` is `tanh`, not `tan`.
    let letters = |text: &str| {
        let mut all: Vec<char> = text.chars().collect();
        all.sort_unstable();
        all
    };
    let own = letters(word);
    // Next, a candidate with a longer common beginning: `exq` is `exp`, not `eq`.
    let alike = |candidate: &str| word.chars().zip(candidate.chars()).take_while(|(a, b)| a == b).count();
    let ranked = |c| (edits(word, c), letters(c) != own, Reverse(alike(c)), c);
    let mut all: Vec<_> = candidates.into_iter().map(ranked).collect();
    // A candidate that differs in every letter is unlikely.
    all.retain(|(edits, .., c)| *edits <= limit && *edits < word.chars().count().max(c.chars().count()));
    all.sort_unstable();
    all.into_iter().map(|(.., candidate)| candidate).collect()
}

/// The number of insertions, deletions, replacements and swaps of neighbours from `a` to `b`.
fn edits(a: &str, b: &str) -> usize {
    // Names are short; a longer text is not a misspelt name, and its table would be large.
    const LONGEST: usize = 64;
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(LONGEST).collect(), b.chars().take(LONGEST).collect());
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1; b.len() + 1];
        for j in 0..b.len() {
            let replaced = last[j] + usize::from(a[i] != b[j]);
            row[j + 1] = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                row[j + 1] = row[j + 1].min(before[j - 1] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::{near, nearest};

    #[test]
    fn near_words_are_found() {
        let keys = ["promote", "require", "expr", "decomp"];
        assert_eq!(nearest("promtoe", keys), Some("promote"));
        assert_eq!(nearest("exp", keys), Some("expr"));
        assert_eq!(nearest("requires", keys), Some("require"));
        assert_eq!(nearest("banana", keys), None);
        assert_eq!(nearest("exq", ["eq", "exp"]), Some("exp"));
        assert_eq!(nearest("tahn", ["tan", "tanh"]), Some("tanh"));
        assert_eq!(nearest("x", []), None);
        assert_eq!(nearest("a", ["S", "x"]), None);
        assert_eq!(near("glu", ["gelu", "relu", "elu", "mul"]), ["gelu", "elu"]);
    }
}
