//! A second, tiny evaluator of the scalar language, by recursive descent straight over the text: it shares nothing with
//! the parser of the crate, so that the table's partials are judged independently.

use fulgurite_core::builtins::{Builtin, eval_f64};

/// The value of `text`; names are looked up in `env`.
pub fn evaluate(text: &str, env: &[(&str, f64)]) -> f64 {
    let mut reader = Reader { tokens: tokens(text), at: 0, env };
    let value = reader.or();
    assert_eq!(reader.at, reader.tokens.len(), "text is left over in {text:?}");
    value
}

fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let mut token = c.to_string();
        let continues = |next: char| match c {
            '0'..='9' => next.is_ascii_digit() || next == '.',
            'a'..='z' => next.is_ascii_alphanumeric() || next == '_',
            '=' | '<' | '>' | '!' => next == '=',
            '&' | '|' => next == c,
            _ => false,
        };
        while chars.peek().is_some_and(|next| continues(*next)) {
            token.extend(chars.next());
        }
        if c != ' ' {
            tokens.push(token);
        }
    }
    tokens
}

struct Reader<'a> {
    tokens: Vec<String>,
    at: usize,
    env: &'a [(&'a str, f64)],
}

impl Reader<'_> {
    fn peek(&self) -> &str {
        self.tokens.get(self.at).map_or("", String::as_str)
    }
    fn next(&mut self) -> String {
        self.at += 1;
        self.tokens[self.at - 1].clone()
    }
    fn expect(&mut self, token: &str) {
        assert_eq!(self.next(), token);
    }

    /// Left-associative operators of one level; all operands are evaluated.
    fn level(&mut self, table: &[(&str, Builtin)], below: fn(&mut Self) -> f64) -> f64 {
        let mut left = below(self);
        while let Some((_, builtin)) = table.iter().find(|(op, _)| *op == self.peek()) {
            self.next();
            let right = below(self);
            left = eval_f64(*builtin, &[left, right]);
        }
        left
    }
    fn or(&mut self) -> f64 {
        self.level(&[("||", Builtin::Or)], Self::and)
    }
    fn and(&mut self) -> f64 {
        self.level(&[("&&", Builtin::And)], Self::comparison)
    }
    fn comparison(&mut self) -> f64 {
        use Builtin::{Eq, Ge, Gt, Le, Lt, Ne};
        self.level(&[("==", Eq), ("!=", Ne), ("<", Lt), ("<=", Le), (">", Gt), (">=", Ge)], Self::sum)
    }
    fn sum(&mut self) -> f64 {
        self.level(&[("+", Builtin::Add), ("-", Builtin::Sub)], Self::product)
    }
    fn product(&mut self) -> f64 {
        self.level(&[("*", Builtin::Mul), ("/", Builtin::Div)], Self::unary)
    }
    fn unary(&mut self) -> f64 {
        if self.peek() == "-" {
            self.next();
            return -self.unary();
        }
        self.primary()
    }

    fn primary(&mut self) -> f64 {
        let token = self.next();
        match token.as_str() {
            "(" => {
                let value = self.or();
                self.expect(")");
                value
            }
            "if" => {
                let condition = self.or();
                let yes = self.braces();
                self.expect("else");
                let no = if self.peek() == "if" { self.primary() } else { self.braces() };
                if condition != 0.0 { yes } else { no }
            }
            _ if token.starts_with(|c: char| c.is_ascii_digit()) => token.parse().expect("a number"),
            _ if self.peek() == "(" => {
                let builtin = Builtin::from_name(&token).unwrap_or_else(|| panic!("{token} is no builtin"));
                let mut args = Vec::new();
                while self.next() != ")" {
                    args.push(self.or());
                    if self.peek() == ")" {
                        self.next();
                        break;
                    }
                }
                assert_eq!(args.len(), builtin.record().arity(), "{token}");
                eval_f64(builtin, &args)
            }
            _ => self.env.iter().find(|(name, _)| *name == token).unwrap_or_else(|| panic!("no {token}")).1,
        }
    }

    fn braces(&mut self) -> f64 {
        self.expect("{");
        let value = self.or();
        self.expect("}");
        value
    }
}
