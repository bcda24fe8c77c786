//! Rows that make no sense are answered with messages, whatever is wrong with them: no panic, no endless loop.

mod common;

/// A fixed sequence of numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n.max(1)
    }
}

fn rows() -> Vec<String> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../ops.yaml")).expect("the database");
    let rows = text.split("\n- op: ").skip(1).map(|row| format!("- op: {}\n", row.trim_end()));
    rows.map(|row| row.split("\n# ---").next().unwrap_or("").to_owned() + "\n").collect()
}

/// Words, numbers and marks of a row.
fn tokens(row: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut word = false;
    for c in row.chars() {
        let letter = c.is_ascii_alphanumeric() || c == '_';
        match tokens.last_mut() {
            Some(last) if word && letter => last.push(c),
            _ => tokens.push(c.to_string()),
        }
        word = letter;
    }
    tokens
}

/// Tokens replaced by others of the same row, dropped, doubled, or exchanged for something large.
#[test]
fn mangled_rows_are_answered() {
    let rows = rows();
    assert!(rows.len() > 100);
    let mut random = Random(11);
    let strange =
        ["0", "-1", "99999999999", "9223372036854775807", "T", "N", "S", "x", "dims", "i", "..", "~", "inf", "1e300"];
    let mut reports = 0;
    for round in 0..400 {
        let at = random.below(rows.len());
        let mut tokens = tokens(&rows[at]);
        for _ in 0..1 + random.below(3) {
            // behind `- op: name`
            let place = 6 + random.below(tokens.len() - 6);
            match random.below(4) {
                0 => tokens[place] = tokens[random.below(tokens.len())].clone(),
                1 => drop(tokens.remove(place)),
                2 => tokens[place] = strange[random.below(strange.len())].to_owned(),
                _ => {
                    let copy = tokens[place].clone();
                    tokens.insert(place, copy);
                }
            }
        }
        let mut text = "ops:\n".to_owned();
        // some rows that it may call
        for helper in ["add", "sub", "mul", "div", "sum", "exp", "amax", "full", "cast", "reshape", "expand", "where"] {
            text += rows.iter().find(|row| row.starts_with(&format!("- op: {helper}\n"))).expect("a row");
            text += "\n";
        }
        text += &tokens.concat();
        let (diags, sources) = common::check(&format!("round-{round}.yaml"), &text);
        for diag in diags.sorted() {
            let place = diag.primary.place;
            assert!(sources.file(place.file).text.get(place.range()).is_some(), "{diag:?}");
        }
        reports += usize::from(!common::report(&diags, &sources).is_empty());
    }
    assert!(reports > 200, "only {reports} of 400 mangled rows were refused");
}
