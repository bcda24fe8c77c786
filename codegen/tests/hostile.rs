//! Rows without sense are answered with messages, whatever is wrong with them: no panic, no endless loop.

mod common;

/// A fixed sequence of pseudo-random numbers.
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
    rows.map(|row| row.split("\n#").next().unwrap_or("").to_owned() + "\n").collect()
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

/// Tokens are replaced by others of their row, dropped, doubled, or replaced by extreme ones.
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
            // after `- op: name`
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

/// Short rows that would never end are refused within a bound, and the message says what is too large.
#[test]
fn endless_rows_are_refused() {
    let chain = |first: &str, next: &dyn Fn(usize) -> String| (1..40).fold(first.to_owned(), |text, i| text + &next(i));
    let row = |op: &str, rest: &str| format!("- op: {op}\n  doc: Does not end\n{rest}");
    let pointwise = |expr: &str| format!("  promote: default\n  dtypes: float\n  expr: {expr}\n");
    let point = |sig: &str, expr: &str, point: &str| {
        row("endless", &format!("  sig: '{sig}'\n  expr: {expr}\n  tests:\n    points:\n    - {point}\n"))
    };
    let doubled = |i: usize| row(&format!("f{i}"), &pointwise(&format!("f{0}(x) * f{0}(x)", i - 1)));
    let folded = |i: usize| row(&format!("f{i}"), &pointwise(&format!("x + f{0}(1.0) + f{0}(2.0)", i - 1)));
    let lets = chain("let y0 = x;", &|i| format!(" let y{i} = y{0} * y{0};", i - 1));
    let program = |result: &str| {
        let sig = format!("  sig: '(x: f32[..S]) -> f32[{result}]'\n");
        let first = row("f0", "  sig: '(x: f32[..S]) -> f32[..S]'\n  expr: x[..s] * 2\n");
        let next = |i: usize| row(&format!("f{i}"), &format!("{sig}  decomp: add(f{0}(x), f{0}(x))\n", i - 1));
        let add = row("add", "  sig: '(x: f32[..S], y: f32[..S]) -> f32[..S]'\n  expr: x[..s] + y[..s]\n");
        add + &(1..23).fold(first, |text, i| text + &next(i))
    };
    let cases = [
        (
            "more bytes than memory has",
            point(
                "(x: f32[I]; scale: f64) -> f32[O = floor(scale) as i64]",
                "x[o * 0 else 0]",
                "{x: [1], scale: inf, out: [1]}",
            ),
        ),
        (
            "more bytes than memory has",
            point(
                "(x: f32[I]; to: Shape(O)) -> f32[..O]",
                "x[ravel(o) * 0 else 0]",
                "{x: [1], to: [4000000000, 4000000000, 4000000000], out: [1]}",
            ),
        ),
        (
            "more steps than",
            point(
                "(x: f32[I]; n: i64) -> f32[I]",
                "sum[k in 0..n](x[i])",
                "{x: [1], n: 9000000000000000000, out: [1]}",
            ),
        ),
        ("more steps than", program("..S") + "  tests:\n    points:\n    - {x: [1], out: [8388608]}\n"),
        ("more than 4096 calls", program("_")),
        ("more than 65536 operations", row("f0", &pointwise("x * x")) + &chain("", &doubled)),
        ("more than 65536 operations", row("f0", &pointwise("x * x")) + &chain("", &folded)),
        ("more than 65536 operations", row("endless", &pointwise(&format!("'{lets} y39'")))),
    ];
    for (n, (wanted, rows)) in cases.into_iter().enumerate() {
        let (diags, sources) = common::check(&format!("endless-{n}.yaml"), &format!("ops:\n{rows}"));
        let report = common::report(&diags, &sources);
        assert!(report.contains(wanted), "{wanted}: {rows}\n{report}");
    }
    // a long range around an empty one is not walked
    let empty = point(
        "(x: f32[I]; n: i64) -> f32[I]",
        "sum[k in 0..n, l in 1..0](x[i])",
        "{x: [1], n: 9000000000000000000, out: [0]}",
    );
    let (diags, sources) = common::check("endless-empty.yaml", &format!("ops:\n{empty}"));
    assert!(!common::report(&diags, &sources).contains("more steps"));
}

/// The least and the largest i64 in sizes, indices and ranges.
#[test]
fn the_least_integer_is_a_number() {
    let least = "(-9223372036854775807 - 1)";
    let row = format!(
        "ops:\n- op: least\n  doc: Edges\n  sig: '(x: f32[I]; a: i64) -> f32[I]'\n  expr: x[i] * ({least} / -1) * -{least} + sum[k in a..-9223372036854775807](x[k + a else skip])\n  tests:\n    points:\n    - {{x: [0], a: 9223372036854775807, out: [0]}}\n    - {{x: [0], a: -9223372036854775807, out: [0]}}\n"
    );
    let (diags, sources) = common::check("least.yaml", &row);
    let report = common::report(&diags, &sources);
    assert!(!report.contains("error"), "{report}");
}
