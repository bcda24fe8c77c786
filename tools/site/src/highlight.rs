//! Colours for code: comments, texts, numbers and keywords of the languages that pages show.

use crate::html::escape;

struct Language {
    names: &'static [&'static str],
    /// The marks from which the rest of a line is a comment.
    comments: &'static [&'static str],
    keywords: &'static [&'static str],
}

const LANGUAGES: &[Language] = &[
    Language {
        names: &["rust", "rs"],
        comments: &["//"],
        keywords: &[
            "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum", "extern", "false",
            "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub", "ref", "return",
            "self", "Self", "static", "struct", "super", "trait", "true", "type", "unsafe", "use", "where", "while",
        ],
    },
    Language { names: &["yaml", "yml"], comments: &["#"], keywords: &["true", "false", "null"] },
    Language { names: &["toml"], comments: &["#"], keywords: &["true", "false"] },
    Language { names: &["sh", "bash", "console"], comments: &["# "], keywords: &["cargo", "fulgurite", "pip"] },
    Language {
        names: &["python", "py"],
        comments: &["#"],
        keywords: &[
            "and", "as", "assert", "class", "def", "elif", "else", "False", "for", "from", "if", "import", "in", "is",
            "lambda", "None", "not", "or", "return", "True", "while", "with", "yield",
        ],
    },
    Language {
        names: &["c", "cpp", "cuda"],
        comments: &["//"],
        keywords: &[
            "const",
            "else",
            "extern",
            "for",
            "if",
            "return",
            "static",
            "struct",
            "template",
            "typename",
            "unsigned",
            "using",
            "void",
            "while",
            "int",
            "float",
            "double",
            "bool",
            "long",
            "__global__",
            "__device__",
            "__shared__",
            "__restrict__",
        ],
    },
];

/// The code as HTML, with spans of the classes `c` (comment), `s` (text), `n` (number) and `k` (keyword). Code of an
/// unknown language has none.
pub fn highlight(code: &str, language: &str) -> String {
    let Some(language) = LANGUAGES.iter().find(|known| known.names.contains(&language)) else { return escape(code) };
    let mut out = String::with_capacity(code.len() * 2);
    for line in code.split_inclusive('\n') {
        self::line(line, language, &mut out);
    }
    out
}

fn span(class: &str, text: &str, out: &mut String) {
    *out += &format!("<span class=\"{class}\">{}</span>", escape(text));
}

fn line(line: &str, language: &Language, out: &mut String) {
    let mut rest = line;
    // a mark inside of a word is no comment: `a#b`
    let mut after_word = false;
    while let Some(c) = rest.chars().next() {
        if !after_word && language.comments.iter().any(|mark| rest.starts_with(mark)) {
            let end = rest.trim_end_matches('\n').len();
            span("c", &rest[..end], out);
            *out += &rest[end..];
            return;
        }
        let end = |mut inside: Box<dyn FnMut(char) -> bool>| rest.find(|c| !inside(c)).unwrap_or(rest.len());
        let (length, class) = match c {
            '"' | '\'' => text(rest, c).map_or((1, ""), |length| (length, "s")),
            c if c.is_alphabetic() || c == '_' => {
                let length = end(Box::new(|c| c.is_alphanumeric() || c == '_'));
                let known = language.keywords.contains(&&rest[..length]);
                (length, if known { "k" } else { "" })
            }
            c if c.is_ascii_digit() => (end(Box::new(|c| c.is_alphanumeric() || c == '_' || c == '.')), "n"),
            c => (c.len_utf8(), ""),
        };
        after_word = c.is_alphanumeric();
        if class.is_empty() {
            *out += &escape(&rest[..length])
        } else {
            span(class, &rest[..length], out)
        }
        rest = &rest[length..];
    }
}

/// The length of a text that begins here and ends on this line. A lifetime does not end.
fn text(rest: &str, mark: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' => break,
            c if c == mark => return Some(at + mark.len_utf8()),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::highlight;

    #[test]
    fn a_language_has_comments_texts_numbers_and_keywords() {
        let made = highlight("let x = \"a // b\" + 12; // <end>\n", "rust");
        assert_eq!(
            made,
            "<span class=\"k\">let</span> x = <span class=\"s\">&quot;a // b&quot;</span> + <span class=\"n\">12</span>; \
             <span class=\"c\">// &lt;end&gt;</span>\n"
        );
    }

    #[test]
    fn a_lifetime_is_no_text() {
        assert_eq!(highlight("'a, b", "rust"), "&#39;a, b");
    }

    #[test]
    fn an_unknown_language_is_escaped() {
        assert_eq!(highlight("a < b", "text"), "a &lt; b");
    }
}
