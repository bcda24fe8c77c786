//! Which branches a call takes, by types alone: its own, and those of the rows that it comes to.

use fulgurite_core::eval::tensor::{self, Machine};
use fulgurite_core::lang::{Block, Expr, Node, Pattern, Stmt};
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::sig::statics::{self, At};
use fulgurite_core::sig::{ArgTy, Env, Item, OutTy, Refusal, Solved};
use fulgurite_core::{Name, Value};

use crate::check::branches::{self, Ids, id};
use crate::check::machine::promised;
use crate::check::rows::{RowSet, ty};

/// Programs within programs, at most this deep, and the calls that they make.
const DEEPEST: usize = 24;
const MOST_CALLS: usize = 1 << 10;

/// The machine: values are types.
pub struct Trail<'a> {
    rows: &'a RowSet<'a>,
    depth: usize,
    calls: usize,
    /// The branches that were taken so far.
    pub taken: Ids,
}

impl<'a> Trail<'a> {
    /// A machine over these rows.
    pub fn new(rows: &'a RowSet<'a>) -> Trail<'a> {
        Trail { rows, depth: 0, calls: 0, taken: Ids::default() }
    }

    /// Follows the meaning of `row`.
    ///
    /// # Errors
    /// The first call that is refused.
    pub fn meaning(&mut self, row: &Row, solved: &Solved, args: &[Value<ArgTy>]) -> Result<(), Refusal> {
        self.within(row, solved, args).map(|_| ())
    }

    /// Follows `rule`, a rule of `row` that reads `extra` too.
    ///
    /// # Errors
    /// The first call that is refused.
    pub fn rule(
        &mut self,
        row: &Row,
        rule: &Block,
        solved: &Solved,
        args: &[Value<ArgTy>],
        extra: &[(Name, Value<ArgTy>)],
    ) -> Result<(), Refusal> {
        tensor::run(self, row, rule, solved, args, extra).map(|_| ())
    }

    fn within(&mut self, row: &Row, solved: &Solved, args: &[Value<ArgTy>]) -> Result<Vec<Value<ArgTy>>, Refusal> {
        let found = match &row.meaning {
            Meaning::Decomp(body) => {
                self.depth += 1;
                let found = tensor::run(self, row, body, solved, args, &[]);
                self.depth -= 1;
                Some(found?)
            }
            Meaning::Expr(body) | Meaning::View(body) => {
                of_index(body, &solved.env, &mut |branch| _ = self.taken.insert(id(branch)));
                None
            }
            Meaning::Host(_) => None,
        };
        match found {
            Some(found) if solved.outs.contains(&OutTy::FromBody) => Ok(found),
            _ => Ok(solved.outs.iter().map(promised).collect()),
        }
    }
}

impl Machine for Trail<'_> {
    type V = ArgTy;
    type Error = Refusal;

    fn call(
        &mut self,
        op: Name,
        positional: Vec<Value<ArgTy>>,
        named: Vec<(Name, Value<ArgTy>)>,
    ) -> Result<Vec<Value<ArgTy>>, Refusal> {
        self.calls += 1;
        if self.depth > DEEPEST || self.calls > MOST_CALLS {
            return Err(Refusal::new("E010", format!("`{op}` is called too deep")));
        }
        let call = self.rows.resolve_anew(op, positional, named)?;
        let mut results = self.within(call.row(), call.solved(), &call.args)?;
        results.truncate(call.row().sig.outs.len());
        Ok(results)
    }

    fn ty(&self, v: &ArgTy) -> ArgTy {
        ty(v)
    }

    fn write(&mut self, _: Name, _: Value<ArgTy>) -> Result<(), Refusal> {
        Ok(())
    }

    fn took(&mut self, branch: &Expr) {
        self.taken.insert(id(branch));
    }
}

/// Calls `f` on the value of every branch that the loops of a body are made of; where elements decide, on both.
pub fn of_index(body: &Block, env: &Env, f: &mut dyn FnMut(&Expr)) {
    if branches::any(body) {
        block(body, &mut env.clone(), f);
    }
}

fn block(block: &Block, env: &mut Env, f: &mut dyn FnMut(&Expr)) {
    let depth = env.items.len();
    for stmt in &block.stmts {
        match stmt {
            Stmt::Let(pattern, value) => {
                expr(value, env, f);
                if let (Pattern::Name(name), Ok(known)) = (pattern, statics::eval(env, value, At::default()))
                    && let Some(item) = statics::bound(known)
                {
                    env.items.insert(0, (name.name, item));
                }
            }
            Stmt::Write(_, value) => expr(value, env, f),
        }
    }
    expr(&block.value, env, f);
    let more = env.items.len() - depth;
    env.items.drain(..more);
}

fn expr(e: &Expr, env: &mut Env, f: &mut dyn FnMut(&Expr)) {
    match &*e.node {
        Node::If(cond, yes, no) => {
            expr(cond, env, f);
            let known = statics::eval(env, cond, At::default()).ok().and_then(|value| value.bool().ok());
            for (taken, side) in [(known != Some(false), yes), (known != Some(true), no)] {
                if taken {
                    f(&side.value);
                    block(side, env, f);
                }
            }
        }
        Node::Match(on, arms) => {
            let word = match env.item(on.name) {
                Some(Item::Word(word)) => Some(*word),
                _ => None,
            };
            for (_, value) in arms.iter().filter(|(arm, _)| word.is_none_or(|word| arm.name == word)) {
                f(value);
                expr(value, env, f);
            }
        }
        _ => crate::check::walk::children(e, &mut |child| expr(child, env, f)),
    }
}
