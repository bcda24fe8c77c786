//! Mutations of texts that have words, numbers, marks and brackets, whatever the language.

use crate::draws::Draws;

/// Numbers at which sizes, indices, offsets and options go wrong.
pub const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "-1",
    "-2",
    "7",
    "64",
    "65",
    "255",
    "1000",
    "65536",
    "2147483647",
    "2147483648",
    "4294967296",
    "4611686018427387904",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "99999999999999999999",
    "0.5",
    "1e-5",
    "1e300",
    "1e999",
    "inf",
    "nan",
    "-inf",
    "0.0",
    "-0.0",
];

/// The marks that the languages of rules, traces and expressions share.
pub const MARKS: &[&str] = &[
    "->", "<-", "=>", "..", "~", "!", "@", "?", ":", ";", ",", ".", "=", "+", "-", "*", "/", "%", "==", "&&", "||",
    "(", ")", "[", "]", "{", "}",
];

/// The words of values that they share: names, dtypes, constants, options and operators.
pub const VALUES: &[&str] = &[
    "x", "y", "_", "f16", "f32", "f64", "bf16", "i64", "bool", "true", "false", "none", "inf", "nan", "dim", "dims",
    "keepdim", "sum", "exp", "matmul", "reshape",
];

/// The words of the languages of rows.
pub const LANGUAGE: &[&str] = &[
    "N",
    "S",
    "s",
    "T",
    "i",
    "n",
    "let",
    "if",
    "else",
    "match",
    "as",
    "in",
    "prod",
    "amax",
    "skip",
    "List",
    "Dim",
    "Dims",
    "Shape",
    "Ints",
    "Size",
    "float",
    "like",
    "mut",
    "unbroadcast",
];

/// Characters that readers treat in ways of their own.
const ODD: &[&str] =
    &["é", "\u{0}", "\t", "\r", "\n", "'", "\"", "`", "\\", "#", "//", "\u{feff}", "😀", " ", "%", "{}"];

const PAIRS: &[&str] = &["->", "<-", "=>", "==", "!=", "<=", ">=", "&&", "||", ".."];

/// Words with letters, digits and `_`; numbers with their points; runs of spaces; marks.
pub fn tokens(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let kind = |c: char| match c {
            c if c.is_alphanumeric() || c == '_' => 1,
            ' ' => 2,
            _ => 0,
        };
        let mut end = match kind(first) {
            0 if PAIRS.iter().any(|pair| rest.starts_with(pair)) => 2,
            0 => first.len_utf8(),
            k => rest.find(|c| kind(c) != k).unwrap_or(rest.len()),
        };
        // 1.5 is one number
        if first.is_ascii_digit() && rest[end..].starts_with('.') && !rest[end..].starts_with("..") {
            let tail = &rest[end + 1..];
            end += 1 + tail.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(tail.len());
        }
        let (token, tail) = rest.split_at(end);
        out.push(token);
        rest = tail;
    }
    out
}

/// The places of the brackets around each part, in any order.
fn groups(tokens: &[String]) -> Vec<(usize, usize)> {
    let (mut open, mut found) = (Vec::new(), Vec::new());
    for (at, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "(" | "[" | "{" => open.push(at),
            ")" | "]" | "}" => found.extend(open.pop().map(|start| (start, at))),
            _ => {}
        }
    }
    found
}

fn owned(text: &str) -> Vec<String> {
    tokens(text).into_iter().map(str::to_owned).collect()
}

/// `text` with one to four mutations, crossed with `other`; `words` are those of the language.
pub fn mutant(draws: &mut Draws, text: &str, other: &str, words: &[&[&str]]) -> String {
    let (mut made, other) = (owned(text), owned(other));
    for _ in 0..draws.few(4) {
        once(draws, &mut made, &other, words);
    }
    made.concat()
}

/// One of all words of the lists.
fn word<'a>(draws: &mut Draws, lists: &[&[&'a str]]) -> &'a str {
    let at = draws.below(lists.iter().map(|list| list.len()).sum());
    lists.iter().flat_map(|list| list.iter()).nth(at).copied().unwrap_or("_")
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

fn is_number(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_digit())
}

/// The place of a token that is such a one, if there is any.
fn place(draws: &mut Draws, tokens: &[String], is: impl Fn(&str) -> bool) -> Option<usize> {
    let start = draws.below(tokens.len());
    (start..tokens.len()).chain(0..start).find(|at| is(&tokens[*at]))
}

fn once(draws: &mut Draws, made: &mut Vec<String>, other: &[String], words: &[&[&str]]) {
    if made.is_empty() {
        made.extend_from_slice(other);
        return;
    }
    let (at, to) = (draws.below(made.len()), draws.below(made.len()));
    let (from, end) = (at.min(to), at.max(to));
    match draws.below(20) {
        // numbers
        0 | 1 => {
            if let Some(at) = place(draws, made, is_number) {
                made[at] = match (draws.below(3), made[at].parse::<i64>()) {
                    (0, Ok(n)) => n.wrapping_add(draws.below(5) as i64 - 2).to_string(),
                    _ => draws.pick(NUMBERS).to_owned(),
                };
            }
        }
        // words
        2 => {
            if let Some(at) = place(draws, made, is_word) {
                made[at] = word(draws, words).to_owned();
            }
        }
        3 => {
            if let (Some(at), Some(from)) = (place(draws, made, is_word), place(draws, other, is_word)) {
                made[at] = other[from].clone();
            }
        }
        // a word becomes another one everywhere
        4 => {
            if let (Some(at), Some(to)) = (place(draws, made, is_word), place(draws, made, is_word)) {
                let (old, new) = (made[at].clone(), made[to].clone());
                made.iter_mut().filter(|token| **token == old).for_each(|token| token.clone_from(&new));
            }
        }
        // tokens
        5 => made[at] = made[to].clone(),
        6 => _ = made.remove(at),
        7 => made.insert(at, made[to].clone()),
        8 => made.swap(at, to),
        9 => made.insert(at, word(draws, words).to_owned()),
        10 => made.insert(at, draws.pick(ODD).to_owned()),
        // parts in brackets: another one of either text in its place, its repetition, its removal
        11..=13 => {
            let own = groups(made);
            if let Some((start, stop)) = own.get(draws.below(own.len())).copied() {
                let source = if draws.one_in(3) { made.clone() } else { other.to_vec() };
                let alike: Vec<_> =
                    groups(&source).into_iter().filter(|(open, _)| source[*open] == made[start]).collect();
                if let Some((open, close)) = alike.get(draws.below(alike.len())).copied() {
                    made.splice(start..=stop, source[open..=close].iter().cloned());
                }
            }
        }
        14 => {
            let own = groups(made);
            if let Some((start, stop)) = own.get(draws.below(own.len())).copied() {
                let part: Vec<String> = made[start..=stop].to_vec();
                match draws.below(3) {
                    0 => _ = made.drain(start + 1..stop),
                    1 => _ = made.splice(stop..stop, part),
                    // a part inside of itself
                    _ => {
                        let depth = 1usize << draws.below(9);
                        let (head, tail) = part.split_at(part.len() / 2);
                        if part.len() * depth < 20_000 {
                            let times = |part: &[String]| std::iter::repeat_n(part.to_vec(), depth).flatten();
                            made.splice(start..=stop, times(head).chain(times(tail)));
                        }
                    }
                }
            }
        }
        15 => {
            let (open, close) = [("(", ")"), ("[", "]"), ("{", "}"), ("<", ">"), ("'", "'")][draws.below(5)];
            made.insert(end + 1, close.to_owned());
            made.insert(from, open.to_owned());
        }
        // spans
        16 => _ = made.drain(from..end.min(from + 1 + draws.below(8)).max(from)),
        17 => {
            let start = draws.below(other.len());
            let stop = other.len().min(start + 1 + draws.below(12));
            made.splice(at..at, other[start..stop].iter().cloned());
        }
        // lines
        18 => lines(draws, made, other),
        _ => {
            let part: Vec<String> = made[from..end.min(from + 6)].to_vec();
            let times = 1usize << draws.below(8);
            made.splice(at..at, std::iter::repeat_n(part, times).flatten());
        }
    }
}

/// A line is removed, repeated, moved, or taken from the other text.
fn lines(draws: &mut Draws, made: &mut Vec<String>, other: &[String]) {
    let (text, other) = (made.concat(), other.concat());
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let others: Vec<&str> = other.split_inclusive('\n').collect();
    let (at, to) = (draws.below(lines.len()), draws.below(lines.len()));
    match draws.below(5) {
        0 if lines.len() > 1 => _ = lines.remove(at),
        1 => lines.insert(at, lines[to]),
        2 => lines.swap(at, to),
        3 => lines[at] = draws.pick(&others),
        _ => lines.insert(at, draws.pick(&others)),
    }
    *made = owned(&lines.concat());
}

/// Bytes replaced, removed, repeated or inserted.
pub fn bytes(draws: &mut Draws, whole: &[u8]) -> Vec<u8> {
    let mut made = whole.to_vec();
    for _ in 0..draws.few(3) {
        if made.is_empty() {
            made.push(draws.bits() as u8);
        }
        let at = draws.below(made.len());
        match draws.below(5) {
            0 => made[at] = draws.bits() as u8,
            1 => made[at] ^= 1 << draws.below(8),
            2 => _ = made.remove(at),
            3 => made.insert(at, draws.pick(&[0, 0x7f, 0x80, 0xff, b' ', b'"'])),
            _ => made.truncate(at),
        }
    }
    made
}

/// A mutator of texts that are not valid UTF-8 once in a while.
pub fn mutate(draws: &mut Draws, a: &[u8], b: &[u8], words: &[&[&str]]) -> Vec<u8> {
    match draws.below(40) {
        0 => bytes(draws, a),
        _ => mutant(draws, &String::from_utf8_lossy(a), &String::from_utf8_lossy(b), words).into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_the_text() {
        for text in ["f(x, 1.5e3)[..s] -> é", "a  b\n- op: x'y", "", "1..2"] {
            assert_eq!(tokens(text).concat(), text);
        }
        assert_eq!(tokens("f(1.5)..x"), ["f", "(", "1.5", ")", "..", "x"]);
    }

    #[test]
    fn equal_seeds_give_equal_texts() {
        let texts = |seed| {
            let mut draws = Draws::new(seed);
            (0..50).map(|_| mutant(&mut draws, "f(x[1], {a: 2})", "(g[3])", &[&["let"]])).collect::<Vec<_>>()
        };
        assert_eq!(texts(5), texts(5));
        assert_ne!(texts(5), texts(6));
    }
}
