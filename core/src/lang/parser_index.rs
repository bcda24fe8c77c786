//! The forms of index notation: accesses, places, reductions and choices of axes.

use super::ast::*;
use super::parser::{Parsed, Parser};

/// The functions that choose axes.
const AXIS_FUNCTIONS: &[&str] = &["unit", "swap", "moved", "ins", "outs", "of", "ahead", "behind"];

impl Parser {
    /// `x[places]`, or `xs[item][places]` for a list.
    pub(super) fn access(&mut self) -> Parsed<Node> {
        let base = self.ident("a tensor, a list or a size")?;
        let first = self.span();
        let (mut places, mut outside) = self.bracket()?;
        let mut item = None;
        if self.at("[") {
            let (Some(Place::One(index)), true, Outside::Refuse) = (places.pop(), places.is_empty(), &outside) else {
                let mut error = self.unexpected("one index in the first brackets, before these");
                error.span = self.since(first);
                return Err(error.help("an element of a list of tensors is `xs[i][places]`"));
            };
            item = Some(index);
            (places, outside) = self.bracket()?;
        }
        if self.at("[") {
            let error = self.unexpected("an operator");
            return Err(error.help("the places of one tensor stand in one pair of brackets: `x[i, j]`"));
        }
        Ok(Node::Access(TensorAccess { base, places, outside, item }))
    }

    /// `[places else …]`
    fn bracket(&mut self) -> Parsed<(Vec<Place>, Outside)> {
        self.open("[")?;
        let mut places = Vec::new();
        // `x[]` is the element of a tensor of rank 0.
        if !self.at("]") {
            places.push(self.place()?);
            while self.eat(",") {
                places.push(self.place()?);
            }
        }
        let mut outside = Outside::Refuse;
        if self.eat_word("else") {
            outside = if self.at_word("skip") && self.then("]") {
                self.bump();
                Outside::Skip
            } else {
                Outside::Value(self.expr()?)
            };
        }
        if self.at(":") {
            let error = self.unexpected("`,`, `else` or `]`");
            return Err(error.help("part of an axis is `slice(x, dim, start, stop)`, a whole list of axes `..s`"));
        }
        self.close("]", "an operator, `,`, `else`")?;
        Ok((places, outside))
    }

    fn place(&mut self) -> Parsed<Place> {
        self.nested(|p| {
            if p.at("..") && p.then("(") {
                p.bump();
                return Ok(Place::Zip(p.parens()?));
            }
            if p.eat("..") {
                if p.then("(") && p.at_word("unravel") {
                    return Ok(Place::Unravel(p.spread_call()?));
                }
                if p.then("(") {
                    return Err(p
                        .unexpected("an index or `unravel`")
                        .help("bind the list first: `let t = …;`, then `..t`"));
                }
                if p.at("]") || p.at(",") {
                    return Err(p.unexpected("an index").help("the axes of a list are named: `x[..s]`"));
                }
                let name = p.index_name()?;
                let axes = if p.at("[") { Some(p.bracketed_axes()?) } else { None };
                return Ok(Place::List(name, axes));
            }
            if p.eat("~") {
                if p.at("(") {
                    return Ok(Place::BroadcastZip(p.parens()?));
                }
                if p.at("[") {
                    p.open("[")?;
                    return Ok(Place::BroadcastGroup(p.items("]", |p| p.place())?));
                }
                return Ok(Place::Broadcast(p.index_name()?));
            }
            Ok(Place::One(p.expr()?))
        })
    }

    fn parens(&mut self) -> Parsed<Expr> {
        self.open("(")?;
        let inner = self.expr()?;
        self.close(")", "an operator")?;
        Ok(inner)
    }

    /// `sum[binds if c](body else v)`, `all[..](body)`
    pub(super) fn reduce(&mut self, red: Red) -> Parsed<Node> {
        let span = self.span();
        self.bump();
        self.open("[")?;
        let (binds, filter) = if self.at("..") && self.then("]") {
            self.bump();
            self.close("]", "")?;
            (None, None)
        } else {
            let mut binds = vec![self.bind()?];
            while self.eat(",") {
                binds.push(self.bind()?);
            }
            let filter = if self.eat_word("if") { Some(self.expr()?) } else { None };
            self.close("]", if filter.is_some() { "an operator" } else { "`in`, `if`, `,`" })?;
            (Some(binds), filter)
        };
        if !self.at("(") {
            let word = red.word();
            let error = self.unexpected("`(`");
            return Err(
                error.help(format!("a reduction is `{word}[k](e)`; no tensor that is accessed can be called `{word}`"))
            );
        }
        self.open("(")?;
        let body = self.expr()?;
        let otherwise = if self.eat_word("else") { Some(self.expr()?) } else { None };
        self.close(")", if otherwise.is_some() { "an operator" } else { "an operator, `else`" })?;
        Ok(Node::Reduce(Reduce { red, binds, filter, body, otherwise, span }))
    }

    fn bind(&mut self) -> Parsed<Bind> {
        let list = self.eat("..");
        let name = self.index_name()?;
        if !list && self.at("[") {
            let axes = Some(self.bracketed_axes()?);
            return Ok(Bind { name, list, axes, range: None });
        }
        let mut range = None;
        if self.eat_word("in") {
            let low = self.sum_expr()?;
            self.expect("..")?;
            range = Some((low, self.sum_expr()?));
        }
        Ok(Bind { name, list, axes: None, range })
    }

    fn bracketed_axes(&mut self) -> Parsed<Axes> {
        self.open("[")?;
        let axes = self.axes()?;
        self.close("]", "")?;
        Ok(axes)
    }

    /// A choice of axes of a list: `dims`, `!dims`, `[a, b]`, `..dim`, `dim..`, `swap(a, b)`, `[!dims]`.
    pub(super) fn axes(&mut self) -> Parsed<Axes> {
        const WHAT: &str = "an option that names axes";
        let start = self.span();
        self.nested(|p| {
            let not = p.eat("!");
            let kind = if p.at("[") {
                p.open("[")?;
                if p.eat("!") {
                    let inner = p.axes()?;
                    p.close("]", "")?;
                    AxesKind::Not(Box::new(inner))
                } else {
                    AxesKind::Names(p.items("]", |p| p.ident(WHAT))?)
                }
            } else if p.eat("..") {
                AxesKind::Before(p.ident(WHAT)?)
            } else if p.then("(") {
                if !p.word().is_some_and(|word| AXIS_FUNCTIONS.contains(&word)) {
                    return Err(p.unexpected("`unit`, `swap`, `moved`, `ins`, `outs` or `of`"));
                }
                let name = p.ident(WHAT)?;
                p.open("(")?;
                AxesKind::Fn(name, p.items(")", |p| p.axis(WHAT))?)
            } else {
                let name = p.ident(WHAT)?;
                if p.eat("..") { AxesKind::From(name) } else { AxesKind::Name(name) }
            };
            Ok(Axes { not, kind, span: p.since(start) })
        })
    }
}
