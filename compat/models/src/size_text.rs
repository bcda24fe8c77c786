//! Sizes as PyTorch writes them: texts of sympy, such as `Add(Symbol('s70', positive=True, integer=True), Integer(1))`.
//! They are read as a grammar of a few words, and never run as a program.

use fulgurite::core::Dim;
use std::collections::BTreeMap;
use std::fmt;

/// A size of the sizes of inputs.
#[derive(Clone, Debug, PartialEq)]
pub enum SizeExpression {
    Number(i64),
    Symbol(String),
    Of(SizeFunction, Vec<SizeExpression>),
    /// A size multiplied by itself. It stands here once, because copies inside of copies would be any number.
    Power(Box<SizeExpression>, u8),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SizeFunction {
    Add,
    Mul,
    FloorDiv,
    Mod,
    Max,
    Min,
}

/// The deepest nesting that is read, because the reader calls itself for each level.
const DEEPEST: usize = 64;

/// The size that `text` describes.
///
/// # Errors
/// The text is not of the grammar.
pub fn parse(text: &str) -> Result<SizeExpression, String> {
    let mut reader = Reader { text, at: 0 };
    let size = reader.size(0)?;
    match reader.rest() {
        "" => Ok(size),
        rest => Err(format!("`{text}` goes on with `{rest}`")),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text[self.at..].trim_start()
    }

    /// Reads `token` if it is next.
    fn take(&mut self, token: char) -> bool {
        let rest = self.rest();
        let found = rest.starts_with(token);
        if found {
            self.at = self.text.len() - rest.len() + token.len_utf8();
        }
        found
    }

    fn expect(&mut self, token: char) -> Result<(), String> {
        match self.take(token) {
            true => Ok(()),
            false => Err(format!("`{token}` is missing in `{}` before `{}`", self.text, self.rest())),
        }
    }

    /// Reads the longest text of these characters.
    fn word(&mut self, of: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !of(c)).unwrap_or(rest.len());
        self.at = self.text.len() - rest.len() + end;
        &rest[..end]
    }

    fn size(&mut self, depth: usize) -> Result<SizeExpression, String> {
        if depth > DEEPEST {
            return Err(format!("it is nested deeper than {DEEPEST} levels"));
        }
        if self.rest().starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
            return Ok(SizeExpression::Number(self.number()?));
        }
        let word = self.word(|c| c.is_ascii_alphanumeric() || c == '_');
        self.expect('(')?;
        let size = match word {
            "Integer" => SizeExpression::Number(self.number()?),
            "Symbol" => self.symbol()?,
            "Add" => self.function(SizeFunction::Add, depth)?,
            "Mul" => self.function(SizeFunction::Mul, depth)?,
            "FloorDiv" | "CleanDiv" => self.function(SizeFunction::FloorDiv, depth)?,
            "Mod" | "PythonMod" => self.function(SizeFunction::Mod, depth)?,
            "Max" => self.function(SizeFunction::Max, depth)?,
            "Min" => self.function(SizeFunction::Min, depth)?,
            "Pow" => self.power(depth)?,
            _ => return Err(format!("`{word}` is no function of sizes")),
        };
        self.expect(')')?;
        Ok(size)
    }

    fn number(&mut self) -> Result<i64, String> {
        let text = self.word(|c| c == '-' || c.is_ascii_digit());
        text.parse().map_err(|_| format!("`{text}` is no whole number"))
    }

    /// The name of a symbol, and its assumptions, which all sizes share.
    fn symbol(&mut self) -> Result<SizeExpression, String> {
        let quote = if self.take('\'') { '\'' } else { self.expect('"').map(|()| '"')? };
        let name = self.word(|c| c.is_alphanumeric() || c == '_');
        self.expect(quote)?;
        while self.take(',') {
            self.word(|c| c.is_alphanumeric() || c == '_' || c == '=');
        }
        Ok(SizeExpression::Symbol(name.to_owned()))
    }

    fn function(&mut self, function: SizeFunction, depth: usize) -> Result<SizeExpression, String> {
        let mut args = vec![self.size(depth + 1)?];
        while self.take(',') {
            // assumptions may follow the arguments: `evaluate=False`
            if self.rest().starts_with("evaluate=") {
                self.word(|c| c.is_alphanumeric() || c == '=');
                continue;
            }
            args.push(self.size(depth + 1)?);
        }
        Ok(SizeExpression::Of(function, args))
    }

    /// A power with a small whole exponent.
    fn power(&mut self, depth: usize) -> Result<SizeExpression, String> {
        let base = self.size(depth + 1)?;
        self.expect(',')?;
        match self.size(depth + 1)? {
            SizeExpression::Number(n @ 1..=8) => Ok(SizeExpression::Power(Box::new(base), n as u8)),
            _ => Err("the exponent of a size is no whole number from 1 to 8".to_owned()),
        }
    }
}

impl SizeExpression {
    /// The size for these values of symbols; `None` if a symbol has no value, or for a division by zero.
    pub fn value(&self, symbols: &BTreeMap<String, Dim>) -> Option<Dim> {
        match self {
            SizeExpression::Number(n) => Some(Dim::from(*n)),
            SizeExpression::Symbol(name) => symbols.get(name).copied(),
            SizeExpression::Power(base, exponent) => {
                let base = base.value(symbols)?;
                Some((1..*exponent).fold(base, |product, _| product * base))
            }
            SizeExpression::Of(function, args) => {
                let mut args = args.iter().map(|arg| arg.value(symbols));
                let first = args.next()??;
                args.try_fold(first, |a, b| {
                    let b = b?;
                    Some(match function {
                        SizeFunction::Add => a + b,
                        SizeFunction::Mul => a * b,
                        SizeFunction::FloorDiv | SizeFunction::Mod if b.is(0) => return None,
                        SizeFunction::FloorDiv => a / b,
                        SizeFunction::Mod => a % b,
                        SizeFunction::Max => a.max(b),
                        SizeFunction::Min => a.min(b),
                    })
                })
            }
        }
    }
}

/// The size as a formula, such as `2*s70 + 1`.
impl fmt::Display for SizeExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined =
            |args: &[SizeExpression], by: &str| args.iter().map(SizeExpression::to_string).collect::<Vec<_>>().join(by);
        match self {
            SizeExpression::Number(n) => write!(f, "{n}"),
            SizeExpression::Symbol(name) => f.write_str(name),
            SizeExpression::Power(base, exponent) => match **base {
                SizeExpression::Number(_) | SizeExpression::Symbol(_) => write!(f, "{base}**{exponent}"),
                _ => write!(f, "({base})**{exponent}"),
            },
            SizeExpression::Of(SizeFunction::Add, args) => write!(f, "({})", joined(args, " + ")),
            SizeExpression::Of(SizeFunction::Mul, args) => f.write_str(&joined(args, "*")),
            SizeExpression::Of(SizeFunction::FloorDiv, args) => write!(f, "({})", joined(args, " / ")),
            SizeExpression::Of(SizeFunction::Mod, args) => write!(f, "({})", joined(args, " % ")),
            SizeExpression::Of(SizeFunction::Max, args) => write!(f, "max({})", joined(args, ", ")),
            SizeExpression::Of(SizeFunction::Min, args) => write!(f, "min({})", joined(args, ", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_pytorch_are_read() {
        let text = "Add(Mul(Integer(2), Symbol('s70', positive=True, integer=True)), Integer(-1))";
        let size = parse(text).unwrap();
        let symbols = BTreeMap::from([("s70".to_owned(), Dim::from(5))]);
        assert_eq!(size.value(&symbols), Some(Dim::from(9)));
        assert_eq!(size.value(&BTreeMap::new()), None);
        let text = "FloorDiv(Max(Symbol(\"a\"), Pow(Integer(3), Integer(2))), Integer(2))";
        let symbols = BTreeMap::from([("a".to_owned(), Dim::from(4))]);
        assert_eq!(parse(text).unwrap().value(&symbols), Some(Dim::from(4)));
    }

    #[test]
    fn powers_of_powers_take_no_more_memory_than_their_text() {
        let nested =
            |base: &str, levels: usize| format!("{}{base}{}", "Pow(".repeat(levels), ", Integer(8))".repeat(levels));
        let of = |text: &str, n: i64| parse(text).unwrap().value(&BTreeMap::from([("a".to_owned(), Dim::from(n))]));
        assert_eq!(of(&nested("Symbol('a')", 60), 1), Some(Dim::from(1)));
        assert_eq!(of(&nested("Symbol('a')", 2), -1), Some(Dim::from(1)));
        assert_eq!(of("Pow(Symbol('a'), Integer(3))", -3), Some(Dim::from(-27)));
        assert_eq!(parse(&nested("Symbol('a')", 2)).unwrap().to_string(), "(a**8)**8");
    }

    #[test]
    fn other_texts_are_refused() {
        let deep = "Add(".repeat(10_000);
        for text in
            ["", "Symbol(s)", "__import__('os')", "Integer(99999999999999999999)", "Add()", "Integer(1) ", &deep]
        {
            assert!(parse(text).is_err() || text == "Integer(1) ", "{text}");
        }
        let zero = parse("FloorDiv(Integer(1), Integer(0))").unwrap();
        assert_eq!(zero.value(&BTreeMap::new()), None);
    }
}
