//! Formats numbers for readers: with units and few digits.

/// A duration: `0.42 s`, `41 s`, `1 m 06 s`, `2 h 05 m`.
pub fn seconds(s: f64) -> String {
    if !s.is_finite() || s < 0.0 {
        return "?".to_owned();
    }
    let whole = s.round() as u64;
    match whole {
        _ if s < 9.995 => format!("{s:.2} s"),
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} m {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} m", whole / 3600, whole / 60 % 60),
    }
}

/// A count in three digits: `812`, `9.41 k`, `99.4 k`, `1.20 M`.
pub fn count(n: f64) -> String {
    let (value, unit) = match n {
        n if n < 999.5 => return format!("{n:.0}"),
        n if n < 999_500.0 => (n / 1e3, "k"),
        n if n < 999_500_000.0 => (n / 1e6, "M"),
        n => (n / 1e9, "G"),
    };
    let digits = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.digits$} {unit}")
}

/// Bytes: `812 B`, `310 kB`, `1.20 MB`.
pub fn bytes(n: usize) -> String {
    match n {
        0..1000 => format!("{n} B"),
        _ => format!("{}B", count(n as f64)),
    }
}

/// A small number in scientific form: `6.0e-4`.
pub fn scientific(x: f64) -> String {
    format!("{x:.1e}")
}

/// Text on one line: newlines, tabs and other controls become visible escapes, so that it can't move the cursor.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => line.extend(['\\', c]),
            c if c.is_control() => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    line
}

/// Text for a terminal: line breaks stay, other controls become spaces, each line has at most `width` columns.
pub fn block(text: &str, width: usize) -> Vec<String> {
    let clean = |line: &str| line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(width).collect();
    text.lines().map(clean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (s, text) in [(0.418, "0.42 s"), (41.2, "41 s"), (65.9, "1 m 06 s"), (7500.0, "2 h 05 m"), (f64::NAN, "?")]
        {
            assert_eq!(seconds(s), text);
        }
    }

    #[test]
    fn counts() {
        for (n, text) in [(0.0, "0"), (812.0, "812"), (9412.0, "9.41 k"), (99_431.0, "99.4 k"), (1.2e6, "1.20 M")] {
            assert_eq!(count(n), text);
        }
        assert_eq!(count(999_499.0), "999 k");
        assert_eq!(bytes(812), "812 B");
        assert_eq!(bytes(310_200), "310 kB");
    }

    #[test]
    fn text_cannot_move_the_cursor() {
        assert_eq!(one_line("a\n\"b\"\u{1b}[2J"), "a\\n\\\"b\\\"\\u{1b}[2J");
        assert_eq!(block("ab\u{1b}c\ndefgh", 4), ["ab c", "defg"]);
    }
}
