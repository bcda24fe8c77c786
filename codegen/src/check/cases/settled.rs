//! Requirements on presence, words, truth values and ranks alone. A call that such a requirement refuses is refused
//! with any sizes and numbers, so it is not tried again.

use fulgurite_core::lang::{Block, DimKind, DimPat, Expr, Node, OptType};
use fulgurite_core::row::Row;
use fulgurite_core::signature::{self, ArgTy, Solved};
use fulgurite_core::{Name, Value};
use rustc_hash::FxHashSet;

use super::names::Free;

/// Inputs of a requirement.
#[derive(Clone, Copy, Default)]
struct Reads {
    /// Static choices.
    choice: bool,
    /// Lengths of lists of sizes.
    ranks: bool,
}

/// A static choice (by number) and ranks that a requirement refuses; `None` for an input that it does not read.
type Refused = (Option<usize>, Option<Vec<usize>>);

/// Choices that are refused for good.
pub(super) struct Settled {
    /// Per requirement of the row: its inputs, if it has no others than these.
    reads: Vec<Option<Reads>>,
    refused: FxHashSet<Refused>,
}

impl Settled {
    /// Starts with nothing refused for `row`.
    pub(super) fn new(row: &Row, free: &Free) -> Settled {
        let of = |cond| {
            let mut reads = Reads::default();
            reads.expr(row, free, cond).then_some(reads)
        };
        Settled { reads: row.require.iter().map(|require| of(&require.cond)).collect(), refused: FxHashSet::default() }
    }

    /// Whether calls with this choice and these ranks are refused.
    pub(super) fn refuses(&self, choice: usize, ranks: &[usize]) -> bool {
        let known = |choice, ranks: Option<&[usize]>| self.refused.contains(&(choice, ranks.map(<[usize]>::to_vec)));
        !self.refused.is_empty()
            && (known(Some(choice), None) || known(None, Some(ranks)) || known(Some(choice), Some(ranks)))
    }

    /// The bindings of a call with this choice and these ranks, if `row` accepts it. A refusal is recorded.
    pub(super) fn accepted(
        &mut self,
        row: &Row,
        args: &[Value<ArgTy>],
        choice: usize,
        ranks: &[usize],
    ) -> Option<Solved> {
        signature::attempt(row, args).inspect_err(|why| _ = self.refuse(why, choice, ranks)).ok()
    }

    /// Records a refusal. Returns whether all calls with this choice and these ranks are refused.
    pub(super) fn refuse(&mut self, why: &signature::Refusal, choice: usize, ranks: &[usize]) -> bool {
        let Some(reads) = why.unmet.and_then(|n| *self.reads.get(usize::from(n))?) else { return false };
        self.refused.insert((reads.choice.then_some(choice), reads.ranks.then(|| ranks.to_vec())));
        true
    }
}

impl Reads {
    /// Whether `e` reads static choices and ranks alone. Records which.
    fn expr(&mut self, row: &Row, free: &Free, e: &Expr) -> bool {
        let mut all = |parts: &[&Expr]| parts.iter().all(|part| self.expr(row, free, part));
        match &*e.node {
            Node::Int(_) | Node::Float(_) => true,
            Node::Name(name) => {
                let of_words = |ty: &OptType| matches!(ty, OptType::Enum(words) if words.contains(name));
                let static_option = |ty: &OptType| matches!(ty, OptType::Bool | OptType::Enum(_));
                let is_param = row.sig.params.iter().any(|param| param.name.name == *name);
                // a word may be called like an argument
                let chosen = match row.sig.opts.iter().find(|opt| opt.name.name == *name) {
                    Some(opt) => static_option(&opt.ty),
                    None => !is_param && row.sig.opts.iter().any(|opt| of_words(&opt.ty)),
                };
                self.choice |= chosen;
                chosen || *name == "true" || *name == "false"
            }
            Node::Unary(_, inner) => all(&[inner]),
            Node::Binary(_, left, right) => all(&[left, right]),
            Node::If(cond, Block { stmts: yes_stmts, value: yes, .. }, Block { stmts: no_stmts, value: no, .. }) => {
                yes_stmts.is_empty() && no_stmts.is_empty() && all(&[cond, yes, no])
            }
            Node::Call(f, args) => {
                let args: Vec<&Expr> = args.iter().map(|arg| &arg.value).collect();
                match (f.name.as_str(), args.as_slice()) {
                    ("some", _) => {
                        self.choice = true;
                        true
                    }
                    ("len", [list]) => {
                        self.ranks = true;
                        matches!(&*list.node, Node::Name(list) if has_fixed_rank(row, free, *list))
                    }
                    ("max" | "min" | "abs", parts) => all(parts),
                    _ => false,
                }
            }
            _ => false,
        }
    }
}

/// Whether a list has in every call the rank with which it is tried. A list that broadcasts may have fewer axes.
fn has_fixed_rank(row: &Row, free: &Free, list: Name) -> bool {
    let stands =
        |dim: &DimPat| matches!(&dim.kind, DimKind::List { name, axes: None, at: None, .. } if name.name == list);
    let broadcasts = |dim: &DimPat| matches!(&dim.kind, DimKind::Broadcast(name) if name.name == list);
    let dims = || row.sig.params.iter().filter_map(|param| param.ty.dims.as_ref()).flatten();
    let given = |ty: &OptType| matches!(ty, OptType::Shape { list: of, infer: None, .. } if *of == list);
    let stands = dims().any(stands) || row.sig.opts.iter().any(|opt| given(&opt.ty));
    free.lists.contains(&list) && stands && !dims().any(|dim| broadcasts(dim) || is_group(dim))
}

/// A part of a pattern that has parts of its own.
fn is_group(dim: &DimPat) -> bool {
    matches!(dim.kind, DimKind::BroadcastList(_) | DimKind::Group(_))
}
