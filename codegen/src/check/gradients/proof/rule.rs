//! A rule as a scalar term: each row that it calls is replaced by its formula for one element.

use fulgurite_core::Name;
use fulgurite_core::derive::term::{Op, Scope, T, Terms};
use fulgurite_core::lang::{Arg, BinOp, Block, Expr, Node, OptType, Pattern, Stmt, UnOp};
use fulgurite_core::lower::Rows;

use crate::check::gradients::arrays::dense::Library;

/// Reads the rules of one row. `None` means that a rule does not work element by element.
pub struct Rules<'a, 'r> {
    /// The arena in which terms are made.
    pub terms: &'a mut Terms<'r>,
    /// Rows that rules call.
    pub library: &'r Library<'r>,
    /// The argument to which the gradient flows.
    pub arg: Name,
    /// The names of the row's result, and the term for which they stand.
    pub results: Vec<(Name, T)>,
}

/// A term, and whether it is summed to the shape of the argument.
type Summed = (T, bool);

impl Rules<'_, '_> {
    /// The value of a rule for one element. A sum of `unbroadcast` terms becomes a sum of those terms.
    pub fn value(&mut self, rule: &Block) -> Option<T> {
        let mut vars = self.results.clone();
        self.block(rule, &mut vars).map(|(t, _)| t)
    }

    fn block(&mut self, block: &Block, vars: &mut Vec<(Name, T)>) -> Option<Summed> {
        let depth = vars.len();
        for stmt in &block.stmts {
            let Stmt::Let(Pattern::Name(id), e) = stmt else { return None };
            let t = self.inner(e, vars)?;
            vars.push((id.name, t));
        }
        let value = self.outer(&block.value, vars);
        vars.truncate(depth);
        value
    }

    /// Reads the part of a rule around `unbroadcast`. A part without it has the shape of the argument already, because
    /// shapes were checked.
    fn outer(&mut self, e: &Expr, vars: &mut Vec<(Name, T)>) -> Option<Summed> {
        match &*e.node {
            Node::Call(f, args) if f.name == "unbroadcast" => match args.as_slice() {
                [value, like] if like.value == Expr::name(self.arg.as_str()) => {
                    Some((self.inner(&value.value, vars)?, true))
                }
                _ => None,
            },
            Node::Unary(UnOp::Neg, a) => {
                let (a, summed) = self.outer(a, vars)?;
                Some((self.terms.add_op(Op::Neg(a)), summed))
            }
            Node::Cast(a, elem) => {
                let (a, summed) = self.outer(a, vars)?;
                Some((self.cast(a, elem)?, summed))
            }
            Node::Binary(op @ (BinOp::Add | BinOp::Sub), a, b) => {
                let ((a, first), (b, second)) = (self.outer(a, vars)?, self.outer(b, vars)?);
                // in a sum of both kinds one term counts once, the other once for each element that shares the argument
                (first == second).then(|| (self.terms.add_op(Op::Bin(*op, a, b)), first))
            }
            Node::If(c, a, b) => {
                let c = self.inner(c, vars)?;
                let ((a, first), (b, second)) = (self.block(a, vars)?, self.block(b, vars)?);
                (first == second).then(|| (self.terms.add_op(Op::If(c, a, b)), first))
            }
            Node::Tuple(items) if items.len() == 1 => self.outer(&items[0], vars),
            _ => Some((self.inner(e, vars)?, false)),
        }
    }

    fn cast(&mut self, a: T, elem: &fulgurite_core::lang::Elem) -> Option<T> {
        // reading a cast makes the element class known to the arena
        let cast = Expr::bare(Node::Cast(Expr::name("x"), elem.clone()));
        self.terms.one(&cast, &Scope::default().with(Name::new("x"), a)).ok()
    }

    fn inner(&mut self, e: &Expr, vars: &mut Vec<(Name, T)>) -> Option<T> {
        match &*e.node {
            Node::Int(_) | Node::Float(_) => self.terms.one(e, &Scope::default()).ok(),
            Node::Name(n) => {
                let known = vars.iter().rev().find(|(name, _)| name == n).map(|(_, t)| *t);
                Some(known.unwrap_or_else(|| self.terms.name(*n)))
            }
            Node::Unary(op, a) => {
                let a = self.inner(a, vars)?;
                Some(self.terms.add_op(if *op == UnOp::Neg { Op::Neg(a) } else { Op::Not(a) }))
            }
            Node::Binary(op, a, b) => {
                let (a, b) = (self.inner(a, vars)?, self.inner(b, vars)?);
                self.operator(*op, a, b)
            }
            Node::Cast(a, elem) => {
                let a = self.inner(a, vars)?;
                self.cast(a, elem)
            }
            Node::If(c, a, b) => {
                let c = self.inner(c, vars)?;
                let ((a, false), (b, false)) = (self.block(a, vars)?, self.block(b, vars)?) else { return None };
                Some(self.terms.add_op(Op::If(c, a, b)))
            }
            Node::Match(on, arms) => {
                let read = |(word, e): &(fulgurite_core::lang::Ident, Expr)| Some((word.name, self.inner(e, vars)?));
                let arms = arms.iter().map(read).collect::<Option<Vec<_>>>()?;
                Some(self.terms.add_op(Op::Match(on.name, arms)))
            }
            Node::Call(f, args) => self.call(f.name, args, vars),
            Node::Tuple(items) if items.len() == 1 => self.inner(&items[0], vars),
            _ => None,
        }
    }

    /// An operator means the row of its name, if there is one, or else the builtin operation.
    fn operator(&mut self, op: BinOp, a: T, b: T) -> Option<T> {
        let name = match op {
            BinOp::Add => "add",
            BinOp::Sub => "sub",
            BinOp::Mul => "mul",
            BinOp::Div => "div",
            _ => return Some(self.terms.add_op(Op::Bin(op, a, b))),
        };
        let (x, y) = (Name::new("x"), Name::new("y"));
        let args = [x, y].map(|n| Arg { name: None, value: Expr::name(n.as_str()) });
        match self.library.row(Name::new(name)) {
            Some(_) => self.call(Name::new(name), &args, &mut vec![(x, a), (y, b)]),
            None => Some(self.terms.add_op(Op::Bin(op, a, b))),
        }
    }

    fn call(&mut self, f: Name, args: &[Arg], vars: &mut Vec<(Name, T)>) -> Option<T> {
        if matches!(f.as_str(), "some" | "is_tensor" | "is_number" | "is_int" | "is_float" | "is_bool") {
            let [Arg { name: None, value }] = args else { return None };
            let Node::Name(n) = &*value.node else { return None };
            // the argument is a tensor, because gradients flow to tensors only
            return Some(match f.as_str() {
                "some" | "is_tensor" if *n == self.arg => self.terms.name(Name::new("true")),
                _ => {
                    let t = self.inner(value, vars)?;
                    self.terms.add_op(Op::Call(f, vec![t]))
                }
            });
        }
        if self.library.set.candidates(f).len() > 1 {
            return None;
        }
        let row = self.library.row(f).filter(|row| row.is_pointwise() && row.sig.outs.len() == 1)?;
        let mut scope = Scope::default();
        let mut positional = args.iter().filter(|arg| arg.name.is_none());
        let mut given = |name: Name| {
            let named = || args.iter().find(|arg| arg.name.is_some_and(|n| n.name == name));
            positional.next().or_else(named).map(|arg| &arg.value)
        };
        for param in &row.sig.params {
            let name = param.name.name;
            let t = match given(name) {
                Some(e) => self.inner(e, vars)?,
                None if param.optional => self.terms.name(Name::new("absent")),
                None => return None,
            };
            scope = scope.with(name, t);
        }
        for opt in &row.sig.opts {
            let name = opt.name.name;
            let own = given(name);
            let value = own.or(opt.default.as_ref());
            scope = match (value, &opt.ty) {
                (None, _) if opt.optional => scope.with(name, self.terms.name(Name::new("absent"))),
                (None, _) => return None,
                (Some(e), OptType::Enum(words)) => match &*e.node {
                    Node::Name(word) if words.contains(word) => scope.with_word(name, *word),
                    // an option that is passed on keeps its name
                    Node::Name(word) if *word == name && own.is_some() => scope,
                    _ => return None,
                },
                (Some(e), _) => {
                    scope.with(name, self.inner(e, &mut if own.is_some() { vars.clone() } else { vec![] })?)
                }
            };
        }
        match self.terms.block(row.index_body()?, &scope).ok()?.as_slice() {
            [t] => Some(*t),
            _ => None,
        }
    }
}
