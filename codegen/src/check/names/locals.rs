//! Names bound inside a text, and whether they are read.

use fulgurite_core::Name;
use fulgurite_core::lang::Ident;

use crate::diag::Diag;
use crate::yaml::Text;

/// Kind of a local name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Local {
    Let,
    /// The index of a result's axis.
    Axis,
    /// The index of a reduction.
    Bound,
}

struct Entry {
    name: Name,
    local: Local,
    /// The place where a `let` binds it.
    ident: Option<Ident>,
    read: bool,
}

/// The names in scope, inner ones last.
#[derive(Default)]
pub(super) struct Locals {
    entries: Vec<Entry>,
}

impl Locals {
    pub(super) fn push(&mut self, name: Name, local: Local, ident: Option<Ident>) {
        self.entries.push(Entry { name, local, ident, read: false });
    }

    /// The kind of `name`, which then counts as read.
    pub(super) fn read(&mut self, name: Name) -> Option<Local> {
        let entry = self.entries.iter_mut().rev().find(|entry| entry.name == name)?;
        entry.read = true;
        Some(entry.local)
    }

    pub(super) fn get(&self, name: Name) -> Option<Local> {
        self.entries.iter().rev().find(|entry| entry.name == name).map(|entry| entry.local)
    }

    pub(super) fn names(&self) -> Vec<Name> {
        self.entries.iter().map(|entry| entry.name).collect()
    }

    pub(super) fn depth(&self) -> usize {
        self.entries.len()
    }

    /// Leaves a scope. E009 for each `let` of it that nothing read.
    pub(super) fn leave(&mut self, depth: usize, text: &Text, what: &str, op: &str) -> Vec<Diag> {
        let left = self.entries.drain(depth..);
        let unread = left.filter(|entry| entry.local == Local::Let && !entry.read);
        let diags = unread.filter_map(|entry| {
            let ident = entry.ident?;
            let message = format!("{what} of `{op}` never reads `{}`", entry.name);
            let diag = Diag::error("E009", text.at(ident.span), message).here("bound here");
            Some(diag.help("delete this `let`, or read it"))
        });
        diags.collect()
    }
}
