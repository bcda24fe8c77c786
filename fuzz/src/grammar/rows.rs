//! Mutations of rows of a database: rows are crossed with rows, key by key and word by word.

use super::text;
use crate::draws::Draws;

/// The rows of a database, each from `- op:` on.
pub fn rows(database: &str) -> Vec<String> {
    let mut rows = Vec::new();
    for line in database.lines() {
        if line.starts_with("- ") {
            rows.push(String::new());
        }
        let ends = !line.starts_with([' ', '-']) && !line.is_empty();
        if let Some(row) = rows.last_mut().filter(|_| !ends) {
            *row += line;
            row.push('\n');
        }
    }
    rows.iter().map(|row| row.trim_end().to_owned() + "\n").collect()
}

/// The keys of a row with their values: the lines that begin with two spaces and a word, with those below.
fn keys(row: &str) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for line in row.lines() {
        let begins = line.starts_with("- ") || line.len() > 2 && line.starts_with("  ") && !line[2..].starts_with(' ');
        match keys.last_mut().filter(|_| !begins) {
            Some(last) => *last += &format!("{line}\n"),
            None => keys.push(format!("{line}\n")),
        }
    }
    keys
}

fn key(entry: &str) -> &str {
    entry.split(':').next().unwrap_or_default()
}

/// The rows of `a` with one to three mutations, crossed with those of `b`.
pub fn mutate(draws: &mut Draws, a: &[u8], b: &[u8], words: &[&[&str]]) -> Vec<u8> {
    let (a, b) = (String::from_utf8_lossy(a), String::from_utf8_lossy(b));
    let (mut made, others) = (rows(&a), rows(&b));
    if made.is_empty() || draws.one_in(20) {
        return text::mutate(draws, a.as_bytes(), b.as_bytes(), words);
    }
    for _ in 0..draws.few(3) {
        let at = draws.below(made.len());
        let other = draws.pick(&others);
        match draws.below(12) {
            // a second row, which this one may call
            0 if made.len() < 3 => made.insert(at, other),
            1 if made.len() > 1 => _ = made.remove(at),
            2..=7 => made[at] = crossed(draws, &made[at], &other, words),
            _ => made[at] = text::mutant(draws, &made[at], &other, words),
        }
    }
    (made.join("\n") + "\n").into_bytes()
}

/// A row with a key of another one, or without a key, or with a word changed inside of one value.
fn crossed(draws: &mut Draws, row: &str, other: &str, words: &[&[&str]]) -> String {
    let (mut own, others) = (keys(row), keys(other));
    if own.is_empty() {
        return other.to_owned();
    }
    let at = draws.below(own.len());
    let taken = draws.pick(&others);
    match draws.below(6) {
        0 if at > 0 => _ = own.remove(at),
        // the value of the same key
        1 | 2 => match own.iter().position(|entry| key(entry) == key(&taken)) {
            Some(same) if same > 0 => own[same] = taken,
            _ => own.push(taken),
        },
        // the value of another key
        3 => {
            let value = taken.split_once(':').map_or("", |(_, value)| value);
            own[at] = format!("{}:{value}", key(&own[at]));
        }
        4 => own.swap(at, 1.min(at)),
        _ => {
            let text = own[at].clone();
            let (name, value) = text.split_once(':').unwrap_or((&text, "\n"));
            let changed = text::mutant(draws, value, taken.split_once(':').map_or("", |(_, value)| value), words);
            own[at] = format!("{name}:{changed}");
            if !own[at].ends_with('\n') {
                own[at].push('\n');
            }
        }
    }
    own.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_their_keys() {
        let rows = rows("# head\nops:\n- op: a\n  doc: x\n  expr: |\n    y\n# note\n- op: b\n  doc: z\n");
        assert_eq!(rows, ["- op: a\n  doc: x\n  expr: |\n    y\n", "- op: b\n  doc: z\n"]);
        assert_eq!(keys(&rows[0]), ["- op: a\n", "  doc: x\n", "  expr: |\n    y\n"]);
    }
}
