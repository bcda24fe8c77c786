//! The branches that a call takes, found by types alone: its own, and those of the rows that it calls, directly or
//! not.

use fulgurite_core::lang::{Block, Expr, Node, Pattern, Stmt};
use fulgurite_core::signature::const_eval::{self, At};
use fulgurite_core::signature::{Env, Item, OutTy, Refusal};

use crate::check::branches::{self, Ids, id};
use crate::check::call_cache::Resolved;
use crate::check::expanded::{self, Look, Marked, Results};
use crate::check::rows::RowSet;
use fulgurite_core::Value;

/// Collects the branches that a program takes.
#[derive(Default)]
pub struct Trail {
    /// The branches so far.
    pub taken: Ids,
}

impl Look for Trail {
    type Mark = ();
    type Halt = Refusal;

    fn loops(&mut self, rows: &RowSet, of: &Resolved, args: &[Value<Marked<()>>]) -> Results<Trail> {
        if let Some(body) = of.row.index_body() {
            of_index(body, &of.solved.env, &mut |branch| _ = self.taken.insert(id(branch)));
        }
        Ok(expanded::promised(rows, of, args, |_| ()))
    }

    fn program(
        &mut self,
        rows: &RowSet,
        of: &Resolved,
        args: &[Value<Marked<()>>],
        results: Results<Trail>,
    ) -> Results<Trail> {
        if of.solved.outs.contains(&OutTy::FromBody) {
            return results;
        }
        results.map(|_| expanded::promised(rows, of, args, |_| ()))
    }

    fn took(&mut self, branch: &Expr) {
        self.taken.insert(id(branch));
    }
}

/// Calls `f` on the value of every branch that the loops of a body contain: on both where elements decide.
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
                if let (Pattern::Name(name), Ok(known)) = (pattern, const_eval::eval(env, value, At::default()))
                    && let Some(item) = const_eval::bound(known)
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
            let known = const_eval::eval(env, cond, At::default()).ok().and_then(|value| value.bool().ok());
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
