//! The rule languages: real rows, random terms, hostile texts, messages.

use fulgurite_core::lang::*;

#[path = "lang/rows.rs"]
mod rows;
#[path = "lang/terms.rs"]
mod terms;

use rows::{Kind, rules};
use terms::Random;

/// A tree of any of the three roots, so that one property serves all.
#[derive(Clone, Debug, PartialEq)]
enum Tree {
    Sig(Sig),
    Block(Block),
}

impl Tree {
    fn parse(kind: Kind, text: &str) -> Result<Tree, SyntaxError> {
        match kind {
            Kind::Sig => parse_sig(text).map(Tree::Sig),
            Kind::Index => parse_block(text, Dialect::Index).map(Tree::Block),
            Kind::Tensor => parse_block(text, Dialect::Tensor).map(Tree::Block),
        }
    }

    fn print(&self) -> String {
        match self {
            Tree::Sig(sig) => sig.to_string(),
            Tree::Block(block) => block.to_string(),
        }
    }
}

const KINDS: [Kind; 3] = [Kind::Sig, Kind::Index, Kind::Tensor];

/// Printing `tree` and parsing gives `tree`, and printing again the same text.
fn round_trip(kind: Kind, tree: &Tree) {
    let text = tree.print();
    let again = Tree::parse(kind, &text).unwrap_or_else(|e| panic!("{e} at {:?} of\n{text}", e.span));
    assert_eq!(&again, tree, "printed as\n{text}");
    assert_eq!(again.print(), text);
}

/// Any text is answered: with a tree that prints back, or with an error that points into the text.
fn answered(text: &str) {
    for kind in KINDS {
        match Tree::parse(kind, text) {
            Ok(tree) => round_trip(kind, &tree),
            Err(e) => {
                let (start, end) = (e.span.start as usize, e.span.end as usize);
                assert!(start <= end && text.get(start..end).is_some(), "{e:?} of {text:?}");
                assert!(!e.expected.is_empty() && !e.found.is_empty(), "{e:?} of {text:?}");
                if let Some(open) = e.opened {
                    assert!(matches!(&text[open.start as usize..open.end as usize], "(" | "[" | "{" | "<"));
                }
            }
        }
    }
}

#[test]
fn rows_parse_and_print_back() {
    let rules = rules();
    assert_eq!(rules.iter().filter(|rule| rule.kind == Kind::Sig).count(), 82);
    assert!(rules.len() > 190, "only {} rules were found", rules.len());
    for rule in &rules {
        let tree = Tree::parse(rule.kind, &rule.text)
            .unwrap_or_else(|e| panic!("{} {}: {e} at {:?} of\n{}", rule.op, rule.key, e.span, rule.text));
        round_trip(rule.kind, &tree);
    }
}

#[test]
fn random_terms_print_back() {
    let mut random = Random(1);
    for round in 0..6000 {
        let fuel = 1 + round % 5;
        for (kind, dialect) in [(Kind::Index, Dialect::Index), (Kind::Tensor, Dialect::Tensor)] {
            round_trip(kind, &Tree::Block(terms::block(&mut random, dialect, fuel)));
        }
        round_trip(Kind::Sig, &Tree::Sig(terms::sig(&mut random)));
    }
}

/// Rules with some of their words and marks lost, doubled, exchanged, or put in brackets: what is read prints back.
#[test]
fn mangled_rules_print_back() {
    answered(" [..((s - shifts) % S)]");
    let rules = rules();
    let mut random = Random(3);
    for round in 0..40_000 {
        let text = &rules[round % rules.len()].text;
        let mut tokens: Vec<String> = Vec::new();
        let mut word = false;
        for c in text.chars() {
            let letter = c.is_ascii_alphanumeric() || c == '_';
            match tokens.last_mut() {
                Some(last) if word && letter => last.push(c),
                _ => tokens.push(c.to_string()),
            }
            word = letter;
        }
        for _ in 0..1 + random.below(3) {
            let (at, other) = (random.below(tokens.len()), random.below(tokens.len()));
            match random.below(6) {
                0 => tokens[at] = tokens[other].clone(),
                1 => tokens[at].clear(),
                2 => tokens.insert(at, "..".to_owned()),
                3 => tokens.swap(at, other),
                4 => {
                    let (from, to) = (at.min(other), at.max(other));
                    tokens[from].insert(0, '(');
                    tokens[to].push(')');
                }
                _ => {
                    let copy = tokens[other].clone();
                    tokens.insert(at, copy);
                }
            }
        }
        answered(&tokens.concat());
    }
}

#[test]
fn random_bytes_are_answered() {
    let mut random = Random(2);
    for _ in 0..3000 {
        let len = random.below(80);
        let bytes: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        answered(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn token_soups_are_answered() {
    const TOKENS: &[&str] = &[
        "x",
        "N",
        "s",
        "T",
        "let",
        "if",
        "else",
        "match",
        "as",
        "in",
        "sum",
        "skip",
        "_",
        "List",
        "enum",
        "Dims",
        "f32",
        "a.b",
        "0",
        "1.5",
        "1e-5",
        "'t'",
        "\"t\"",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "<",
        ">",
        "..",
        "->",
        "<-",
        "=>",
        "==",
        "!=",
        "<=",
        ">=",
        "&&",
        "||",
        "=",
        "+",
        "-",
        "*",
        "/",
        "%",
        "!",
        "~",
        "?",
        ":",
        ";",
        ",",
        "@",
        "^",
        "**",
        ".",
        "|",
        "&",
        "é",
        "'",
        "99999999999999999999",
        "1e999",
        "1.",
        ".5",
        "3f32",
    ];
    let mut random = Random(3);
    for _ in 0..20000 {
        let len = random.below(24);
        let space = if random.one_in(2) { " " } else { "" };
        let soup: Vec<&str> = (0..len).map(|_| random.pick(TOKENS)).collect();
        answered(&soup.join(space));
    }
}

#[test]
fn damaged_rows_are_answered() {
    let mut random = Random(4);
    let rules = rules();
    for rule in &rules {
        for cut in (0..rule.text.len()).step_by(7).filter(|cut| rule.text.is_char_boundary(*cut)) {
            answered(&rule.text[..cut]);
        }
        for _ in 0..20 {
            let mut bytes = rule.text.clone().into_bytes();
            for _ in 0..1 + random.below(3) {
                let at = random.below(bytes.len().max(1)).min(bytes.len().saturating_sub(1));
                match random.below(3) {
                    0 => drop(bytes.remove(at)),
                    1 => bytes.insert(at, random.pick(b"()[]{}<>.,;:=+-*/!~&|@ '\"xN0")),
                    _ => bytes[at] = random.pick(b"()[]{}<>.,;:=+-*/!~&|@ '\"xN0"),
                }
                if bytes.is_empty() {
                    break;
                }
            }
            answered(&String::from_utf8_lossy(&bytes));
        }
    }
}

/// Texts that nest or chain without end, on a stack smaller than any thread's default.
#[test]
fn endless_texts_are_refused() {
    let towers: [(&str, &str); 22] = [
        ("", "("),
        ("", "-"),
        ("", "!"),
        ("x", " + x"),
        ("x", " as f32"),
        ("", "f("),
        ("", "f(..g("),
        ("", "["),
        ("", "x["),
        ("", "x[~["),
        ("", "x[..s[[!"),
        ("", "sum[k]("),
        ("", "sum[k in "),
        ("", "if x { "),
        ("", "if x { x } else "),
        ("", "match x { x => "),
        ("", "let x = "),
        ("", "if "),
        ("(x: T[", "..["),
        ("(x: T[", "~["),
        ("(x: T[..S[", "[!"),
        ("(x: ", "List<"),
    ];
    let small = std::thread::Builder::new().stack_size(1 << 20).spawn(move || {
        for (head, floor) in towers {
            let text = format!("{head}{}", floor.repeat(60_000 / floor.len()));
            for kind in KINDS {
                assert!(Tree::parse(kind, &text).is_err(), "{head}{floor}…");
            }
        }
        for high in [150, 190] {
            for text in ["(".repeat(high) + "x" + &")".repeat(high), "x".to_owned() + &" + x".repeat(high)] {
                answered(&text);
            }
        }
    });
    small.expect("a thread starts").join().expect("no text overflows the stack");
    let long = "x ".repeat(MAX_LEN);
    assert!(parse_expr(&long, Dialect::Index).is_err());
}

/// Wide texts take time linear in their length.
#[test]
fn wide_texts_are_quick() {
    let start = std::time::Instant::now();
    let wide = |head: &str, item: &str, tail: &str| format!("{head}{}{tail}", item.repeat(500_000 / item.len()));
    assert!(parse_block(&wide("", "let x = x; ", "x"), Dialect::Index).is_ok());
    assert!(parse_block(&wide("f(", "x, ", "x)"), Dialect::Tensor).is_ok());
    assert!(parse_block(&wide("x[", "i, ", "i]"), Dialect::Index).is_ok());
    assert!(parse_sig(&wide("(", "x: T[..S, N], ", "x: T) -> T")).is_ok());
    // Generous: it takes a tenth of this in a build without optimisation.
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

/// `text` fails at `at` with words that contain each of `says`.
fn fails(kind: Kind, text: &str, at: &str, says: &[&str]) {
    let error = Tree::parse(kind, text).expect_err(text);
    let found = &text[error.span.start as usize..error.span.end as usize];
    let message = error.to_string();
    assert_eq!(found, at, "{text}: {message}");
    for words in says {
        assert!(message.contains(words), "{text}: `{words}` is not in: {message}");
    }
}

#[test]
fn habits_get_advice() {
    use Kind::{Index, Sig, Tensor};
    fails(Index, "x ^ 2", "^", &["pow(x, y)"]);
    fails(Index, "x ** 2", "**", &["pow(x, y)"]);
    fails(Index, "c ? x : y", "?", &["if c { a } else { b }"]);
    fails(Index, "x if c else y", "if", &["if c { a } else { b }"]);
    fails(Index, "if x > 0 { x }", "", &["`else`", "it needs"]);
    fails(Index, "if x > 0 x else y", "x", &["`{` after the condition"]);
    fails(Index, "a < b < c", "<", &["a < b && b < c"]);
    fails(Index, "x <-1", "<-", &["x < -1"]);
    fails(Index, "a and b", "and", &["`&&`"]);
    fails(Index, "not b", "b", &["`!`"]);
    fails(Index, "a | b", "|", &["`||`"]);
    fails(Index, "a = b", "=", &["`==`"]);
    fails(Index, "1. + x", "1.", &["1.0"]);
    fails(Index, ".5 * x", ".", &["digit before"]);
    fails(Index, "2f32 * x", "2f32", &["2 as f32"]);
    fails(Index, "1_000", "1_000", &["1000"]);
    fails(Index, "x × y", "×", &["write `*`"]);
    fails(Index, "x[0:3]", ":", &["slice(x, dim, start, stop)"]);
    fails(Index, "x[..S]", "S", &["runs over `S` is `s`"]);
    fails(Index, "x[i][j][k]", "[", &["x[i, j]"]);
    fails(Index, "sum[k] x[k]", "x", &["`(`", "sum[k](e)"]);
    fails(Index, "sum[k in 0..=n](x[k])", "..=", &["lo..hi + 1"]);
    fails(Index, "[x, y]", "[", &["tensor language only"]);
    fails(Index, "f(x, y = 2)", "=", &["in order"]);
    fails(Index, "x; ", ";", &["no `;`"]);
    fails(Index, "let mut y = x; y", "mut", &["do not change"]);
    fails(Index, "let y: f32 = x; y", ":", &["x as f32"]);
    fails(Index, "let y = x;", "", &["the value of this block", "ends in an expression"]);
    fails(Index, "match m { _ => x }", "_", &["own arm"]);
    fails(Index, "x // two", "//", &["no comments"]);
    fails(Index, "(x + 1", "", &["an operator, `,` or `)`", "the end of the text"]);
    fails(Index, "x as Tensor", "Tensor", &["a tensor is `T`"]);
    fails(Tensor, "x[0]", "[", &["select"]);
    fails(Tensor, "x += 1", "+=", &["do not change"]);
    fails(Sig, "(x: T; dim: Dim(S) -> T", "->", &["`,` or `)`"]);
    fails(Sig, "(x: T[..s]) -> T", "s", &["a size", "`S`"]);
    fails(Sig, "(x: T = 1) -> T", "=", &["only options have defaults"]);
    fails(Sig, "(x: T; y: T) -> T", "T", &["before the `;`"]);
    fails(Sig, "(x: T; dims: Dims(S)) -> T", ")", &["empty = all"]);
    fails(Sig, "(x: float32) -> T", "float32", &["`f32`"]);
    fails(Sig, "(x: T, dim: Dim) -> T", "Dim", &["after `;`"]);
    fails(Sig, "(x: T) -> (T, T)", ",", &["results are named"]);
}

#[test]
fn open_brackets_are_pointed_at() {
    let error = parse_expr("f(a, (b + 1)", Dialect::Index).expect_err("one bracket is missing");
    assert_eq!(error.opened.map(|s| (s.start, s.end)), Some((1, 2)));
}

#[test]
fn words_are_words_only_in_their_place() {
    for text in ["(like: T, mut: T) -> T", "(like like: T, mut mut: T) -> T", "(List: T) -> T"] {
        assert_eq!(parse_sig(text).expect(text).to_string(), text);
    }
    for text in ["x[i else skip]", "x[i else (skip)]", "x[i else skip + 1]", "skip[skip]", "acc + real"] {
        assert_eq!(parse_expr(text, Dialect::Index).expect(text).to_string(), text);
    }
}

#[test]
fn canonical_texts() {
    for (text, printed) in [
        ("((a+b))*(c)", "(a + b) * c"),
        ("a-(b-c)-d", "a - (b - c) - d"),
        ("(a<b)==(c<d)", "(a < b) == (c < d)"),
        ("-(-x)", "--x"),
        ("-(x as f32)", "-x as f32"),
        ("(-x)as f32", "(-x) as f32"),
        ("!(a&&b)", "!(a && b)"),
        ("if a{b}else{if c{d}else{e}}", "if a { b } else if c { d } else { e }"),
        ("1+if a{b}else{c}", "1 + (if a { b } else { c })"),
        ("1.50e0+0.00001+100000000000000000.0", "1.5 + 1e-5 + 1e17"),
        ("xs[i][..p,m]", "xs[i][..p, m]"),
        ("sum[k in 0..n+1 if a==k](x[k]else 0)", "sum[k in 0..n + 1 if a == k](x[k] else 0)"),
        ("let a=1;\n  let (b,c)=..(d);\n a", "let a = 1;\nlet (b, c) = ..(d);\na"),
    ] {
        let block = parse_block(text, Dialect::Index).expect(text);
        assert_eq!(block.to_string(), printed);
    }
}

#[test]
fn first_brackets_of_two_are_the_item() {
    let parse = |text| match parse_expr(text, Dialect::Index).expect(text).into_node() {
        Node::Access(access) => access,
        node => panic!("{node} is no access"),
    };
    let access = parse("xs[i][..p, m]");
    assert!(access.item.is_some() && access.places.len() == 2);
    let access = parse("x[..s]");
    assert!(access.item.is_none() && access.places.len() == 1);
    let access = parse("xs[i][]");
    assert!(access.item.is_some() && access.places.is_empty());
}

#[test]
fn call_forms_take_lists_with_gaps() {
    use fulgurite_core::lang::Gives;
    let form =
        fulgurite_core::lang::parse_alias("index.Tensor(self: x, indices: idx @ dims; accumulate = true)").unwrap();
    assert_eq!(form.gives, Gives::Tensors);
    let names = form.given.unwrap()[1].becomes.arguments();
    assert_eq!(names.iter().map(|n| n.name.as_str()).collect::<Vec<_>>(), ["idx", "dims"]);
    assert!(fulgurite_core::lang::parse_alias("f(x: _ @ dims)").is_err());
    let along = fulgurite_core::lang::parse_alias("cat(tensors: xs along dim, dim packed = 0)").unwrap();
    let given = along.given.unwrap();
    assert!(matches!(given[0].becomes, fulgurite_core::lang::Becomes::Along(..)) && !given[0].packed);
    assert!(given[1].packed && given[1].value.is_some());
    assert!(fulgurite_core::lang::parse_alias("cat(xs: xs along)").is_err());
    let gives = |text: &str| fulgurite_core::lang::parse_alias(text).unwrap().gives;
    assert_eq!(gives("equal(x, y) -> number"), Gives::Numbers);
    assert_eq!(gives("norm(x, p: _ = nuc) -> none"), Gives::Nothing);
    assert!(fulgurite_core::lang::parse_alias("equal(x, y) -> f32").is_err());
}

#[test]
fn the_tensor_language_speaks_of_sizes() {
    use fulgurite_core::lang::{Dialect, parse_block};
    for text in [
        "crop(x, ..(if member(dim) { S } else { I }))",
        "swap_blocks(x, S[ahead(dims, S)])",
        "if all[..](S > 0) { x } else { y }",
    ] {
        parse_block(text, Dialect::Tensor).unwrap();
    }
    for text in ["x[i]", "sum[k](k)", "max[s[dims]](x)"] {
        assert!(parse_block(text, Dialect::Tensor).is_err(), "{text}");
    }
}
