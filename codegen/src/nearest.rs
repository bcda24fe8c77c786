//! "Did you mean": the known words nearest to a misspelt one.

use std::cmp::Reverse;

use fulgurite_core::DType;

/// What other libraries call what is another word here, where another name would be nearer.
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

/// What `word` of another library is here.
pub fn elsewhere(word: &str) -> Option<&'static str> {
    let listed = ELSEWHERE.iter().find(|(other, _)| *other == word).map(|(_, ours)| *ours);
    listed.or_else(|| DType::from_foreign_name(word).map(DType::name))
}

/// The candidate that another library calls `word`, else the one with the fewest edits from it, if so few that it is
/// likely meant: one for short words, a third of the letters for longer ones.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let known = elsewhere(word).and_then(|ours| candidates.iter().copied().find(|c| *c == ours));
    known.or_else(|| near(word, candidates).first().copied())
}

/// All candidates that are likely meant, the nearest first.
pub fn near<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let limit = (word.chars().count() / 3).max(1);
    // of several that are equally near, the one with the same letters: `tahn` is `tanh`, not `tan`
    let letters = |text: &str| {
        let mut all: Vec<char> = text.chars().collect();
        all.sort_unstable();
        all
    };
    let own = letters(word);
    // then the one that begins alike: `exq` is `exp`, not `eq`
    let alike = |candidate: &str| word.chars().zip(candidate.chars()).take_while(|(a, b)| a == b).count();
    let ranked = |c| (edits(word, c), letters(c) != own, Reverse(alike(c)), c);
    let mut all: Vec<_> = candidates.into_iter().map(ranked).collect();
    // where every letter is another one nothing speaks for it
    all.retain(|(edits, .., c)| *edits <= limit && *edits < word.chars().count().max(c.chars().count()));
    all.sort_unstable();
    all.into_iter().map(|(.., candidate)| candidate).collect()
}

/// Insertions, deletions, replacements and exchanges of neighbours that lead from `a` to `b`.
fn edits(a: &str, b: &str) -> usize {
    // Names are short; a longer text is no misspelt name, and its table would be large.
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
