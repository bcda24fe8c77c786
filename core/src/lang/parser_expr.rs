//! Blocks and expressions: the rules common to both dialects, and the lists and named arguments of the tensor language.

use super::Dialect;
use super::ast::*;
use super::lexer::Tok;
use super::parser::{Parsed, Parser};
use super::syntax_error::SyntaxError;

impl Parser {
    /// `{let … ; | name <- … ;} expr`
    pub(super) fn block(&mut self) -> Parsed<Block> {
        self.nested(|p| {
            let mut stmts = Vec::new();
            loop {
                if p.eat_word("let") {
                    stmts.push(p.let_stmt()?);
                } else if p.then("<-") && p.dialect == Dialect::Tensor {
                    stmts.push(p.write_stmt()?);
                } else {
                    break;
                }
            }
            if *p.peek() == Tok::End || p.at("}") {
                return Err(p.unexpected("the value of this block").help(match stmts.last() {
                    Some(Stmt::Write(name, _)) => {
                        format!("a write is no value: end with the result, for example `{}`", name.name)
                    }
                    _ => "a block ends in an expression without `;`".to_owned(),
                }));
            }
            let value = p.expr()?;
            if p.at(";") {
                let error = p.unexpected("the end of this block");
                return Err(error.help("the last expression has no `;`; statements are `let x = …;` and `x <- …;`"));
            }
            Ok(Block { stmts, value })
        })
    }

    fn braced(&mut self, before: &str) -> Parsed<Block> {
        if !self.at("{") {
            let error = self.unexpected(format!("`{{` after {before}"));
            return Err(error.help_otherwise("a choice is `if c { a } else { b }`"));
        }
        self.open("{")?;
        let block = self.block()?;
        self.close("}", "")?;
        Ok(block)
    }

    fn let_stmt(&mut self) -> Parsed<Stmt> {
        if self.at_word("mut") && self.then_word() {
            let error = self.unexpected("a name");
            return Err(error.help("values do not change: a second `let x = …;` replaces the name"));
        }
        let pattern = if self.at("(") {
            self.open("(")?;
            Pattern::Tuple(self.items(")", |p| p.ident("a name"))?)
        } else {
            let name = self.ident("a name, `(a, b)` or an index with its axes, `s[dim]`")?;
            if self.at("[") && self.dialect == Dialect::Index {
                self.open("[")?;
                let axes = self.axes()?;
                self.close("]", "")?;
                Pattern::Axes(name, axes)
            } else {
                Pattern::Name(name)
            }
        };
        if self.at(":") {
            return Err(self.unexpected("`=`").help("types are derived; a cast is `x as f32`"));
        }
        self.expect("=")?;
        let start = self.span();
        let value = if self.at("..") { self.zip()? } else { self.expr()? };
        self.semicolon(start, "a `let` ends with `;`; behind it stands the value of the block")?;
        Ok(Stmt::Let(pattern, value))
    }

    fn write_stmt(&mut self) -> Parsed<Stmt> {
        let name = self.ident("the `mut` argument to write")?;
        self.expect("<-")?;
        let start = self.span();
        let value = self.expr()?;
        self.semicolon(start, "a write ends with `;`; behind it stands the result, for example what was written")?;
        Ok(Stmt::Write(name, value))
    }

    /// The end of a statement that began at `start`; `ends` says how such a statement ends.
    fn semicolon(&mut self, start: Span, ends: &str) -> Parsed<()> {
        if self.eat(";") {
            return Ok(());
        }
        if !self.at_next_statement() {
            return Err(self.unexpected("an operator or `;`"));
        }
        let end = self.since(start).end as usize;
        Err(SyntaxError::new(Span::new(end, end), "`;`", self.peek().to_string()).help(ends))
    }

    /// Whether the next token can only belong to the next statement.
    fn at_next_statement(&self) -> bool {
        let begins = matches!(self.peek(), Tok::Word(_) | Tok::Int(_) | Tok::Float(_) | Tok::Mark("("));
        let operator = self.at_word("and") || self.at_word("or");
        *self.peek() == Tok::End || self.at_word("let") || begins && !operator && self.begins_line()
    }

    /// `..(e)`: a list with one element per axis.
    pub(super) fn zip(&mut self) -> Parsed<Expr> {
        let start = self.span();
        self.expect("..")?;
        self.open("(")?;
        let inner = self.expr()?;
        self.close(")", "an operator")?;
        Ok(Expr::new(Node::Zip(inner), self.since(start)))
    }

    /// Any expression.
    pub(super) fn expr(&mut self) -> Parsed<Expr> {
        self.nested(|p| p.binary(BinOp::Or.level()))
    }

    /// An expression without comparisons and logic, so that `..` and `>` end it.
    pub(super) fn sum_expr(&mut self) -> Parsed<Expr> {
        self.nested(|p| p.binary(BinOp::Add.level()))
    }

    /// A chain of operators of at least the precedence `least`.
    fn binary(&mut self, least: u8) -> Parsed<Expr> {
        self.apart(|p| {
            let start = p.span();
            let mut left = p.unary()?;
            while let Some(op) = p.operator().filter(|op| op.level() >= least) {
                p.bump();
                let right = p.binary(op.level() + 1)?;
                p.taller()?;
                left = Expr::new(Node::Binary(op, left, right), p.since(start));
                let chained = p.operator().is_some_and(|next| next.level() == op.level());
                if chained && op.level() == BinOp::Eq.level() {
                    let error = p.unexpected("`&&`, `||` or the end of the comparison");
                    return Err(error.help("comparisons do not chain: write `a < b && b < c`"));
                }
            }
            Ok(left)
        })
    }

    fn operator(&self) -> Option<BinOp> {
        let Tok::Mark(mark) = self.peek() else { return None };
        BinOp::from_mark(mark)
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let op = match self.peek() {
            Tok::Mark("-") => UnOp::Neg,
            Tok::Mark("!") => UnOp::Not,
            _ => return self.post(),
        };
        self.bump();
        let operand = self.nested(|p| p.unary())?;
        Ok(Expr::new(Node::Unary(op, operand), self.since(start)))
    }

    /// An atom and its casts.
    fn post(&mut self) -> Parsed<Expr> {
        self.apart(|p| {
            let start = p.span();
            let mut expr = p.atom()?;
            while p.eat_word("as") {
                let class = p.class()?;
                p.taller()?;
                expr = Expr::new(Node::Cast(expr, class), p.since(start));
            }
            Ok(expr)
        })
    }

    fn atom(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let node = match self.peek().clone() {
            Tok::Int(value) => self.literal(Node::Int(value)),
            Tok::Float(value) => self.literal(Node::Float(value)),
            Tok::Str(text) => self.literal(Node::Str(text)),
            Tok::Mark("(") => return self.group(),
            Tok::Mark("[") if self.dialect == Dialect::Tensor => self.list()?,
            Tok::Mark("[") => {
                let error = self.unexpected("an expression");
                return Err(error.help("lists are written in the tensor language only"));
            }
            Tok::Mark("..") => {
                let error = self.unexpected("an expression");
                return Err(error.help("`..` stands before a place, an argument or the value of a `let`"));
            }
            Tok::Word(name) => match name.as_str() {
                "if" => return self.if_expr(),
                "match" => self.match_expr()?,
                _ if self.then("(") => self.call()?,
                word if self.then("[") => match (self.dialect, Red::from_word(word)) {
                    (Dialect::Index, Some(red)) => self.reduce(red)?,
                    (Dialect::Index, None) => self.access()?,
                    // Size expressions: `S[dims]`, `all[..](S > 0)`.
                    (Dialect::Tensor, None) if name.is_size() || word.contains('.') && !self.fields => self.access()?,
                    (Dialect::Tensor, Some(red)) => {
                        let start = self.span();
                        match self.reduce(red)? {
                            over_axes @ Node::Reduce(Reduce { binds: None, .. }) => over_axes,
                            _ => {
                                let error =
                                    SyntaxError::new(self.since(start), "`[..]`, over the axes of sizes", "indices");
                                return Err(error.help("elements are reduced by calls: sum, prod, amax, any"));
                            }
                        }
                    }
                    (Dialect::Tensor, None) => {
                        self.bump();
                        let error = self.unexpected("an operator");
                        return Err(error.help("the tensor language has no `x[…]`: use slice, select, gather or take"));
                    }
                },
                word if self.fields && word.contains('.') => self.literal(Node::Name(name)),
                _ => Node::Name(self.ident("an expression")?.name),
            },
            _ => return Err(self.unexpected("an expression")),
        };
        Ok(Expr::new(node, self.since(start)))
    }

    fn literal(&mut self, node: Node) -> Node {
        self.bump();
        node
    }

    /// `(e)` or a tuple.
    fn group(&mut self) -> Parsed<Expr> {
        let start = self.span();
        self.open("(")?;
        let mut items = vec![self.expr()?];
        while self.eat(",") {
            items.push(self.expr()?);
        }
        self.close(")", "an operator, `,`")?;
        let span = self.since(start);
        Ok(match items.pop() {
            // The span includes the brackets.
            Some(only) if items.is_empty() => Expr { span, ..only },
            last => {
                items.extend(last);
                Expr::new(Node::Tuple(items), span)
            }
        })
    }

    fn if_expr(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let node = self.nested(|p| {
            p.bump();
            let cond = p.expr()?;
            let yes = p.braced("the condition")?;
            if !p.eat_word("else") {
                let error = p.unexpected("`else`");
                return Err(error.help("an `if` is a value: it needs `else { … }`"));
            }
            let no =
                if p.at_word("if") { Block { stmts: Vec::new(), value: p.if_expr()? } } else { p.braced("`else`")? };
            Ok(Node::If(cond, yes, no))
        })?;
        Ok(Expr::new(node, self.since(start)))
    }

    fn match_expr(&mut self) -> Parsed<Node> {
        self.bump();
        let subject = self.ident("the name of an `enum` option")?;
        self.open("{")?;
        let mut arms = Vec::new();
        loop {
            if self.at_word("_") {
                return Err(self.unexpected("a word of the `enum`").help("every word has its own arm"));
            }
            let word = self.ident("a word of the `enum`")?;
            if self.at("|") {
                return Err(self.unexpected("`=>`").help("every word has its own arm"));
            }
            self.expect("=>")?;
            arms.push((word, self.expr()?));
            if !self.eat(",") || self.at("}") {
                break;
            }
        }
        self.close("}", "an operator, `,`")?;
        Ok(Node::Match(subject, arms))
    }

    /// `name(args)`
    pub(super) fn call(&mut self) -> Parsed<Node> {
        let name = self.callee()?;
        self.open("(")?;
        if self.at(")") {
            self.close(")", "")?;
            return Ok(Node::Call(name, Vec::new()));
        }
        let mut args = vec![self.arg()?];
        while self.eat(",") {
            args.push(self.arg()?);
        }
        self.close(")", "an operator, `,`")?;
        Ok(Node::Call(name, args))
    }

    fn arg(&mut self) -> Parsed<Arg> {
        if self.at("..") {
            let value = if self.then_word() { self.spread()? } else { self.zip()? };
            return Ok(Arg { name: None, value });
        }
        let named = self.word().is_some() && self.then("=");
        let name = match self.dialect {
            Dialect::Tensor if named => {
                let name = self.ident("an option")?;
                self.expect("=")?;
                Some(name)
            }
            Dialect::Index if named => {
                self.bump();
                let error = self.unexpected("`,` or `)`");
                return Err(error.help("equality is `==`; in index notation options are given in order"));
            }
            _ => None,
        };
        Ok(Arg { name, value: self.expr()? })
    }

    /// `..f(…)` as an argument: a list-valued call, spread.
    fn spread(&mut self) -> Parsed<Expr> {
        let start = self.span();
        self.expect("..")?;
        let call = self.spread_call()?;
        Ok(Expr::new(Node::Spread(call), self.since(start)))
    }

    /// The call after `..`.
    pub(super) fn spread_call(&mut self) -> Parsed<Expr> {
        let start = self.span();
        if !self.then("(") {
            return Err(self.unexpected("`(` or a call").help("a list is passed by its name alone"));
        }
        let call = self.nested(|p| p.call())?;
        Ok(Expr::new(call, self.since(start)))
    }

    /// `[a, ..S]`
    fn list(&mut self) -> Parsed<Node> {
        self.open("[")?;
        if self.at("]") {
            self.close("]", "")?;
            return Ok(Node::List(Vec::new()));
        }
        let items = self.items("]", |p| {
            Ok(if p.eat("..") { ListItem::Spread(p.nested(Parser::post)?) } else { ListItem::One(p.expr()?) })
        })?;
        Ok(Node::List(items))
    }
}
