//! E007: the names that a text of a class may read.

use fulgurite_core::lang::ast::{Block, Node, OptType, Pattern, Sig, Stmt};
use fulgurite_core::row::Row;
use fulgurite_core::signature::const_eval;
use fulgurite_core::{DType, Name};
use rustc_hash::FxHashSet;

use crate::check::rows::RowSet;
use crate::check::walk;

/// Names that mean something in a text.
#[derive(Clone, Default)]
pub struct Scope {
    names: FxHashSet<Name>,
}

/// The words that stand in a signature: arguments, options and their words, sizes, dtypes, results.
pub fn words(sig: &Sig) -> FxHashSet<Name> {
    let printed = sig.to_string();
    let words = printed.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with(|c: char| !c.is_ascii_digit())).map(Name::new).collect()
}

impl Scope {
    /// Adds the names in a signature: arguments, options and their words, sizes, dtypes, results.
    pub fn with_sig(mut self, sig: &Sig) -> Scope {
        self.names.extend(words(sig));
        self
    }

    /// Adds these names.
    pub fn with(mut self, names: &[&str]) -> Scope {
        self.names.extend(names.iter().map(|name| Name::new(name)));
        self
    }

    /// Adds the names that the text itself binds, and the words of the options of the rows that it calls.
    pub fn with_text(mut self, block: &Block, set: &RowSet) -> Scope {
        let mut called: Vec<Name> = Vec::new();
        self.bound(block);
        walk::block(block, &mut |e| match &*e.node {
            Node::Call(f, _) => called.push(f.name),
            Node::If(_, yes, no) => {
                self.bound(yes);
                self.bound(no);
            }
            _ => {}
        });
        let rows = called.into_iter().flat_map(|op| set.candidates(op));
        rows.fold(self, |scope, row| scope.with_words(&row))
    }

    fn with_words(mut self, row: &Row) -> Scope {
        for opt in &row.sig.opts {
            if let OptType::Enum(words) = &opt.ty {
                self.names.extend(words.iter().copied());
            }
        }
        self
    }

    fn bound(&mut self, block: &Block) {
        for stmt in &block.stmts {
            match stmt {
                Stmt::Let(Pattern::Name(name), _) => _ = self.names.insert(name.name),
                Stmt::Let(Pattern::Tuple(names), _) => self.names.extend(names.iter().map(|name| name.name)),
                Stmt::Let(..) | Stmt::Write(..) => {}
            }
        }
    }

    /// Whether a name without a dot means something in the text.
    pub fn has(&self, name: Name) -> bool {
        self.names.contains(&name)
            || const_eval::constant(name).is_some()
            || DType::from_name(name.as_str()).is_some()
            || name == "all"
    }

    /// The names that a misspelt one may mean, in order; dtypes are left out.
    pub fn known(&self) -> Vec<&'static str> {
        let mut known: Vec<&str> = self.names.iter().map(|name| name.as_str()).collect();
        known.retain(|name| DType::from_name(name).is_none());
        known.sort_unstable();
        known
    }
}
