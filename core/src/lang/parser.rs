//! The cursor that all parts of the grammar share: lookahead of two tokens, brackets, names, limits and errors.
//!
//! The grammar itself is in `parser_expr` (blocks, expressions), `parser_index` (accesses, reductions, axes),
//! `parser_type` (types, shape patterns) and `parser_sig` (signatures, options), one function per rule.

use super::ast::{Ident, Span};
use super::lexer::{Tok, Token, tokens};
use super::syntax_error::SyntaxError;
use super::{Dialect, MAX_DEPTH};
use crate::name::Name;

/// The result of a rule's function.
pub(super) type Parsed<T> = Result<T, SyntaxError>;

/// Words that cannot be names.
const KEYWORDS: &[&str] = &["let", "if", "else", "match", "as", "in", "_"];

/// Reads tokens from left to right.
pub(super) struct Parser {
    tokens: Vec<Token>,
    at: usize,
    /// The dialect of the text.
    pub(super) dialect: Dialect,
    /// Whether `x.data` is a value: in rules of tensor subclasses.
    pub(super) fields: bool,
    /// The number of rules that are open.
    depth: u32,
    /// Height of the highest tree in the current rule.
    height: u32,
    /// Brackets that are open.
    open: Vec<Span>,
}

impl Parser {
    /// A parser at the first token of `text`.
    pub(super) fn new(text: &str, dialect: Dialect) -> Parsed<Parser> {
        Ok(Parser { tokens: tokens(text)?, at: 0, dialect, fields: false, depth: 0, height: 0, open: Vec::new() })
    }

    // ------------------------------------------------------------ looking

    /// The token `ahead` of the next one. The last token is `End`, which is never passed.
    fn token(&self, ahead: usize) -> &Token {
        &self.tokens[(self.at + ahead).min(self.tokens.len() - 1)]
    }

    /// The next token.
    pub(super) fn peek(&self) -> &Tok {
        &self.token(0).tok
    }

    /// The place of the next token.
    pub(super) fn span(&self) -> Span {
        self.token(0).span
    }

    /// The span from `start` to the last token read.
    pub(super) fn since(&self, start: Span) -> Span {
        if self.at == 0 { start } else { start.to(self.tokens[self.at - 1].span) }
    }

    /// Whether the next token is this mark.
    pub(super) fn at(&self, mark: &str) -> bool {
        matches!(self.peek(), Tok::Mark(m) if *m == mark)
    }

    /// Whether the token after the next one is this mark.
    pub(super) fn then(&self, mark: &str) -> bool {
        matches!(self.token(1).tok, Tok::Mark(m) if m == mark)
    }

    /// Whether the token after the next one is a word.
    pub(super) fn then_word(&self) -> bool {
        matches!(self.token(1).tok, Tok::Word(_))
    }

    /// The next token, if it is a word.
    pub(super) fn word(&self) -> Option<&'static str> {
        match self.peek() {
            Tok::Word(name) => Some(name.as_str()),
            _ => None,
        }
    }

    /// Whether the next token is the first of its line.
    pub(super) fn begins_line(&self) -> bool {
        self.token(0).begins_line
    }

    /// Whether the next token is this word.
    pub(super) fn at_word(&self, word: &str) -> bool {
        self.word() == Some(word)
    }

    // ------------------------------------------------------------ reading

    /// Consumes the next token.
    pub(super) fn bump(&mut self) -> Token {
        let token = self.token(0).clone();
        if token.tok != Tok::End {
            self.at += 1;
        }
        token
    }

    /// Consumes this mark, if it is next.
    pub(super) fn eat(&mut self, mark: &str) -> bool {
        let met = self.at(mark);
        if met {
            self.bump();
        }
        met
    }

    /// Consumes this word, if it is next.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let met = self.at_word(word);
        if met {
            self.bump();
        }
        met
    }

    /// Consumes this mark.
    pub(super) fn expect(&mut self, mark: &str) -> Parsed<()> {
        if self.eat(mark) { Ok(()) } else { Err(self.unexpected(format!("`{mark}`"))) }
    }

    /// Consumes `word =`.
    pub(super) fn expect_key(&mut self, word: &str) -> Parsed<()> {
        if !self.eat_word(word) {
            return Err(self.unexpected(format!("`{word} =`")));
        }
        self.expect("=")
    }

    /// Consumes an opening bracket.
    pub(super) fn open(&mut self, mark: &str) -> Parsed<()> {
        let span = self.span();
        self.expect(mark)?;
        self.open.push(span);
        Ok(())
    }

    /// Consumes the bracket that closes the innermost open one; `others` are the marks that could stand here as well.
    pub(super) fn close(&mut self, mark: &str, others: &str) -> Parsed<()> {
        if !self.at(mark) {
            let expected = if others.is_empty() { format!("`{mark}`") } else { format!("{others} or `{mark}`") };
            return Err(self.unexpected(expected));
        }
        self.bump();
        self.open.pop();
        Ok(())
    }

    /// `item {',' item}`, then the closing bracket.
    pub(super) fn items<T>(&mut self, close: &str, item: impl Fn(&mut Parser) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(",") {
            items.push(item(self)?);
        }
        self.close(close, "`,`")?;
        Ok(items)
    }

    /// Checks that the text ends here; `expected` lists what could follow instead.
    pub(super) fn end(&mut self, expected: &str) -> Parsed<()> {
        if *self.peek() == Tok::End {
            return Ok(());
        }
        Err(self.unexpected(expected))
    }

    // ------------------------------------------------------------ names

    /// An option that names an axis, or an axis number.
    pub(super) fn axis(&mut self, what: &str) -> Parsed<Ident> {
        let span = self.span();
        let Tok::Int(number) = *self.peek() else { return self.ident(what) };
        self.bump();
        Ok(Ident { name: Name::new(&number.to_string()), span })
    }

    /// A name without dots that is not a keyword.
    pub(super) fn ident(&mut self, what: &str) -> Parsed<Ident> {
        let span = self.span();
        let Tok::Word(name) = *self.peek() else { return Err(self.unexpected(what)) };
        if KEYWORDS.contains(&name.as_str()) {
            return Err(self.unexpected(what));
        }
        if name.as_str().contains('.') {
            let error = self.unexpected(what);
            return Err(error.help(match name.as_str().split_once('.') {
                Some(("g", of)) => format!("the cotangent of `{of}` is `g_{of}`"),
                Some(("t", of)) => format!("the tangent of `{of}` is `t_{of}`"),
                _ => dotted(name.as_str()),
            }));
        }
        self.bump();
        Ok(Ident { name, span })
    }

    /// The name of a callee, which may have dots.
    pub(super) fn callee(&mut self) -> Parsed<Ident> {
        let span = self.span();
        match *self.peek() {
            Tok::Word(name) if !KEYWORDS.contains(&name.as_str()) => {
                self.bump();
                Ok(Ident { name, span })
            }
            _ => Err(self.unexpected("the name of an operator")),
        }
    }

    /// A size or list of sizes: capitals.
    pub(super) fn size_name(&mut self) -> Parsed<Ident> {
        const WHAT: &str = "a size (capital letters)";
        match *self.peek() {
            Tok::Word(name) if !name.is_size() => {
                let size = name.as_str().to_ascii_uppercase();
                let error = self.unexpected(WHAT);
                Err(if Name::new(&size).is_size() { error.help(format!("write `{size}`")) } else { error })
            }
            _ => self.ident(WHAT),
        }
    }

    /// An index: the small letters of a size, or a bound name.
    pub(super) fn index_name(&mut self) -> Parsed<Ident> {
        const WHAT: &str = "an index (small letters)";
        match *self.peek() {
            Tok::Word(name) if name.is_size() => {
                let index = name.index_of_size();
                Err(self.unexpected(WHAT).help(format!("the index that runs over `{name}` is `{index}`")))
            }
            _ => self.ident(WHAT),
        }
    }

    // ------------------------------------------------------------ limits

    /// Reads one level deeper. All recursion of the parser passes through here.
    pub(super) fn nested<T>(&mut self, rule: impl FnOnce(&mut Parser) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            return Err(self.too_deep());
        }
        self.depth += 1;
        let result = self.apart(|p| {
            let result = rule(p)?;
            p.taller()?;
            Ok(result)
        });
        self.depth -= 1;
        result
    }

    /// Reads a tree whose height is counted separately from its preceding siblings.
    pub(super) fn apart<T>(&mut self, rule: impl FnOnce(&mut Parser) -> Parsed<T>) -> Parsed<T> {
        let siblings = std::mem::take(&mut self.height);
        let result = rule(self);
        self.height = self.height.max(siblings);
        result
    }

    /// Makes the tree read last a child of a new node: a chain `a + b + …` grows a tree without recursion.
    pub(super) fn taller(&mut self) -> Parsed<()> {
        self.height += 1;
        if self.height > MAX_DEPTH { Err(self.too_deep()) } else { Ok(()) }
    }

    fn too_deep(&self) -> SyntaxError {
        let error = SyntaxError::new(self.span(), format!("at most {MAX_DEPTH} levels"), "a deeper expression");
        error.help("name parts of it with `let`")
    }

    // ------------------------------------------------------------ errors

    /// The error that the next token is not one of `expected`.
    pub(super) fn unexpected(&self, expected: impl Into<String>) -> SyntaxError {
        let mut error = SyntaxError::new(self.span(), expected, self.peek().to_string());
        error.help = self.habit().map(str::to_owned);
        let closing = matches!(self.peek(), Tok::End | Tok::Mark(")" | "]" | "}"));
        if closing && error.help.is_none() {
            error.opened = self.open.last().copied();
        }
        error
    }

    /// Advice where the next token is a habit from Rust, Python or C.
    fn habit(&self) -> Option<&'static str> {
        let previous = self.at.checked_sub(1).map(|at| &self.tokens[at].tok);
        let operand = matches!(
            previous,
            Some(Tok::Word(_) | Tok::Int(_) | Tok::Float(_) | Tok::Str(_) | Tok::Mark(")" | "]" | "}"))
        );
        let elements = self.dialect == Dialect::Index;
        let after_word = match previous {
            Some(Tok::Word(name)) => statement(name.as_str()),
            _ => None,
        };
        if after_word.is_some() {
            return after_word;
        }
        Some(match self.peek() {
            Tok::Mark("^") if elements => "a power is `pow(x, y)`, a square `x * x`; of bits it is `bitxor(x, y)`",
            Tok::Mark("^") => "a power is `pow(x, y)`, a square `x * x`; of bits it is `bitwise_xor(x, y)`",
            Tok::Mark("**") => "a power is `pow(x, y)`, a square `x * x`",
            Tok::Mark("<") if previous == Some(&Tok::Mark("<")) && elements => "bits move up with `shl(x, n)`",
            Tok::Mark("<") if previous == Some(&Tok::Mark("<")) => "bits move up with `shift_left(x, n)`",
            Tok::Mark(">") if previous == Some(&Tok::Mark(">")) && elements => "bits move down with `shr(x, n)`",
            Tok::Mark(">") if previous == Some(&Tok::Mark(">")) => "bits move down with `shift_right(x, n)`",
            Tok::Mark("@") => "a product of matrices is `matmul(x, y)`",
            Tok::Mark("?") => "a choice is `if c { a } else { b }`",
            Tok::Mark("&") => "`and` is `&&`; values are not borrowed",
            Tok::Mark("|") => "`or` is `||`; sums and products run over an index: `sum[k](x[k])`",
            Tok::Mark("=") if operand => "equality is `==`; a name is bound by `let x = …;`",
            Tok::Mark("//") if operand && elements => {
                "of elements it is `div_floor(x, y)`; `/` of sizes already rounds down; there are no comments in a rule"
            }
            Tok::Mark("//") if operand => {
                "of tensors it is `floor_divide(x, y)`; `/` of sizes already rounds down; there are no comments in a rule"
            }
            Tok::Mark("//") => "there are no comments inside a rule; put them on a line of their own in the file",
            Tok::Mark("/*" | "#") => "there are no comments inside a rule; put them on a line of their own in the file",
            Tok::Mark("+=" | "-=" | "*=" | "/=") => "values do not change: a second `let x = …;` replaces the name",
            Tok::Mark("..=") => "ranges exclude their end: write `lo..hi + 1`",
            Tok::Mark(",") if operand && self.open.is_empty() => "several results stand in parentheses: `(a, b)`",
            Tok::Mark("<-") => "a comparison with a negative number needs a space: `x < -1`",
            Tok::Mark("::") => "operators are called by their plain name",
            Tok::Mark("$" | "`" | "\\") => "names stand without decoration",
            Tok::Word(name) if *name == "let" => {
                "a `let` stands first: in the text, or in the braces of an `if`; behind it the value, without parentheses"
            }
            Tok::Word(name) if operand => match name.as_str() {
                "and" => "`and` is `&&`",
                "or" => "`or` is `||`",
                "if" => "a choice is `if c { a } else { b }`",
                "elif" => "write `else if`",
                "is" => "equality is `==`; presence is `some(x)`",
                "for" => "a sum over an index is `sum[k](x[k])`",
                _ if matches!(previous, Some(Tok::Word(_) | Tok::Int(_) | Tok::Float(_))) => {
                    "a call has parentheses, `f(x)`, a product its sign, `2 * x`"
                }
                _ => return None,
            },
            _ => return None,
        })
    }
}

/// The spelling here of a statement of another language, by its first word.
fn statement(word: &str) -> Option<&'static str> {
    Some(match word {
        "not" => "negation is `!`",
        "return" => "the last expression is the value, without `return`",
        "for" | "while" => "loops are reductions over an index: `sum[k](x[k])`, `max[k](x[k])`",
        _ => return None,
    })
}

/// Advice about a name with a dot that is not called: constants and attributes of other libraries.
fn dotted(name: &str) -> String {
    let (of, last) = name.rsplit_once('.').unwrap_or(("x", name));
    match last {
        "pi" => "write `PI`".to_owned(),
        "e" => "write `E`".to_owned(),
        "inf" | "nan" => format!("write `{last}`"),
        "shape" | "size" => format!(
            "sizes have names in `sig`: with `{of}: T[N]` it is `N`; of a tensor in a `decomp` also `size({of}, [0])`"
        ),
        "ndim" => format!("write `rank({of})`"),
        "dtype" => format!("write `dtype({of})`"),
        _ => "names with dots are operators: they are called, `name(…)`".to_owned(),
    }
}
