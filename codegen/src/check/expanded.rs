//! Expansion of programs: every call of a program is followed into the programs that it calls, down to loops. Values
//! are types, each with a mark that holds the facts known of the value. Checks use it, and so does `cargo ops explain`,
//! which finds the arguments in which a row is linear.

use std::sync::Arc;

use fulgurite_core::eval::frame;
use fulgurite_core::eval::tensor::{self, Called, Machine};
use fulgurite_core::lang::{Block, Expr, Span};
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::signature::{self, ArgTy, Refusal, Solved};
use fulgurite_core::{Name, Named, Value};

use super::call_cache::{self, Outcome, Resolved};
use super::machine::Types;
use super::rows::RowSet;

/// At most this many calls, nested ones included, because a program that doubles at each level takes exponential
/// time.
const MOST_CALLS: usize = 1 << 12;

/// At most this many nested programs, because each is a frame of the stack.
const DEEPEST: usize = 24;

/// A value of a program: its type, and the facts known of it.
#[derive(Clone)]
pub struct Marked<M> {
    /// The type.
    pub ty: ArgTy,
    /// Facts known of the value.
    pub mark: M,
}

/// Results of calls.
pub type Results<L> = Result<Vec<Value<Marked<<L as Look>::Mark>>>, <L as Look>::Halt>;

/// An observer of the calls of an expanded program.
pub trait Look {
    /// Facts known of a value.
    type Mark: Clone + Default;
    /// The reason why a program is followed no further.
    type Halt: From<Refusal>;

    /// Whether a call of a row that is a program is followed into it.
    fn enters(&self, _of: &Resolved) -> bool {
        true
    }

    /// The results of a call that is not followed into a program, then the auxiliary ones.
    fn loops(&mut self, rows: &RowSet, of: &Resolved, args: &[Value<Marked<Self::Mark>>]) -> Results<Self>;

    /// The results of a call of a row that is a program. Its lines gave `results`.
    fn program(
        &mut self,
        _rows: &RowSet,
        _of: &Resolved,
        _args: &[Value<Marked<Self::Mark>>],
        results: Results<Self>,
    ) -> Results<Self> {
        results
    }

    /// Notes that a text takes the branch with this value.
    fn took(&mut self, _branch: &Expr) {}

    /// `halt`, with the part of the text at which it arose.
    fn located(&self, halt: Self::Halt, _part: Span) -> Self::Halt {
        halt
    }
}

/// The machine that expands programs.
pub struct Expanded<'a, L> {
    rows: &'a RowSet<'a>,
    /// Rows that were derived for this program, and that only it knows.
    own: &'a [Row],
    /// The observer.
    pub look: L,
    left: usize,
    depth: usize,
}

impl<'a, L: Look> Expanded<'a, L> {
    /// A machine over these rows.
    pub fn new(rows: &'a RowSet<'a>, look: L) -> Expanded<'a, L> {
        Expanded { rows, own: &[], look, left: MOST_CALLS, depth: 0 }
    }

    /// The machine, with programs that may also call the rows in `own`.
    pub fn with(self, own: &'a [Row]) -> Expanded<'a, L> {
        Expanded { own, ..self }
    }

    /// Follows the meaning of a call. The results come first, then the auxiliary ones.
    ///
    /// # Errors
    /// The reason why it was followed no further.
    pub fn call(&mut self, of: &Resolved, args: &[Value<Marked<L::Mark>>]) -> Results<L> {
        let body = match &of.row.meaning {
            Meaning::Decomp(body) if self.look.enters(of) => body,
            _ => return self.look.loops(self.rows, of, args),
        };
        let run = |machine: &mut Self| tensor::run(machine, &of.row, body, &of.solved, args, &[]);
        let results = frame::one_deeper(self, |machine| &mut machine.depth, DEEPEST, of.row.op, run);
        let results = results.map(|mut results| {
            results.truncate(of.row.sig.outs.len() + of.row.sig.aux.len());
            results
        });
        self.look.program(self.rows, of, args, results)
    }

    /// Follows `block`, a text of `row`, in a call, with `names` bound besides. Nothing is known of the arguments.
    ///
    /// # Errors
    /// The reason why it was followed no further.
    pub fn follow(
        &mut self,
        row: &Row,
        block: &Block,
        solved: &Solved,
        args: &[Value<ArgTy>],
        names: &[Named<ArgTy>],
    ) -> Results<L> {
        let given = |value: &Value<ArgTy>| {
            value.map(&mut |ty: &ArgTy| Marked { ty: ty.clone(), mark: <L::Mark as Default>::default() })
        };
        let args: Vec<_> = args.iter().map(given).collect();
        let names: Vec<_> = names.iter().map(|(name, value)| (*name, given(value))).collect();
        tensor::run(self, row, block, solved, &args, &names)
    }
}

/// The results that a call promises, in order, each with the mark that `mark` gives its type.
pub fn promised<M: Clone>(
    rows: &RowSet,
    of: &Resolved,
    args: &[Value<Marked<M>>],
    mut mark: impl FnMut(&ArgTy) -> M,
) -> Vec<Value<Marked<M>>> {
    let args: Vec<Value<ArgTy>> = args.iter().map(|arg| arg.map(&mut |v: &Marked<M>| v.ty.clone())).collect();
    let types = Types::promised(rows, &of.row, &of.solved, &args);
    types.iter().map(|v| v.map(&mut |ty: &ArgTy| Marked { ty: ty.clone(), mark: mark(ty) })).collect()
}

impl<L: Look> Machine for Expanded<'_, L> {
    type V = Marked<L::Mark>;
    type Error = L::Halt;

    fn call(&mut self, op: Name, positional: Vec<Value<Self::V>>, named: Vec<Named<Self::V>>) -> Called<Self> {
        let halt = |why: &str| L::Halt::from(Refusal::new("E010", format!("`{op}` {why}")));
        self.left = self.left.checked_sub(1).ok_or_else(|| halt("is called too often"))?;
        let ty = |v: &Marked<L::Mark>| v.ty.clone();
        let outcome = match self.own.iter().find(|row| row.op == op) {
            Some(own) => call_cache::outcome(vec![Arc::new(own.clone())], &positional, &named, &ty),
            None => self.rows.outcome(op, &positional, &named, &ty),
        };
        let Outcome::Accepted(of) = outcome else { return Err(halt("takes no such call")) };
        let args = signature::arrange(&of.row, positional, named)?;
        let mut results = Expanded::call(self, &of, &args)?;
        // a text has no names for auxiliary results
        results.truncate(of.row.sig.outs.len());
        Ok(results)
    }

    fn ty(&self, v: &Marked<L::Mark>) -> ArgTy {
        v.ty.clone()
    }

    fn write(&mut self, _: Name, _: Value<Marked<L::Mark>>) -> Result<(), L::Halt> {
        Ok(())
    }

    fn took(&mut self, branch: &Expr) {
        self.look.took(branch);
    }

    fn located(&self, halt: L::Halt, part: Span) -> L::Halt {
        self.look.located(halt, part)
    }
}
