//! The branches of rule texts.

use fulgurite_core::Name;
use fulgurite_core::lang::{Block, Expr, Node, OptType, Pattern, Span, Stmt, UnOp};
use fulgurite_core::row::Row;
use rustc_hash::FxHashSet;

use super::walk;

/// Identity of a branch among those of all texts: the address of its value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Id(usize);

/// A set of branches.
pub type Ids = FxHashSet<Id>;

/// A branch of an `if` or an arm of a `match`.
#[derive(Clone, Debug)]
pub struct Branch {
    /// The identity of the branch.
    pub id: Id,
    /// The text of the branch.
    pub span: Span,
    /// Whether words, truth values, presence and ranks alone decide whether it is taken. Each of them has few values,
    /// so a finite branch that no tried call takes is dead.
    pub finite: bool,
    /// Whether it is an arm of a `match`. A `match` has an arm for every word, even for a word that the row refuses.
    pub arm: bool,
}

/// The first of these untaken branches that can be deleted. An arm of a `match` must stay, so branches within it are
/// not reported either.
pub fn needless<'a>(open: &[&'a Branch]) -> Option<&'a Branch> {
    let within = |part: Span, whole: Span| whole.start <= part.start && part.end <= whole.end;
    let needed = |branch: &Branch| open.iter().any(|of| of.arm && within(branch.span, of.span));
    open.iter().copied().find(|branch| !needed(branch))
}

/// The identity of the branch with this value.
pub fn id(value: &Expr) -> Id {
    Id(std::sync::Arc::as_ptr(&value.node) as usize)
}

/// Whether a text has branches at all.
pub fn any(text: &Block) -> bool {
    walk::any(text, &mut |e| matches!(&*e.node, Node::If(..) | Node::Match(..)))
}

/// The branches of a text of `row` that calls with gradients may take, outer ones first.
pub fn of(row: &Row, text: &Block) -> Vec<Branch> {
    branches(row, text, true)
}

/// The branches of a text of `row` that any call may take, outer ones first.
pub fn of_all(row: &Row, text: &Block) -> Vec<Branch> {
    branches(row, text, false)
}

fn branches(row: &Row, text: &Block, gradients: bool) -> Vec<Branch> {
    let tensors = row.is_composite() || !walk::body(row).is_some_and(|body| std::ptr::eq(body, text));
    let mut texts = Texts { row, tensors, gradients, few: Vec::new(), found: Vec::new() };
    texts.block(text, true);
    texts.found
}

/// Whether a condition holds for floats, if it asks about the kind of a dtype. Only floats have gradients, so calls
/// with gradients take one of its branches.
fn floats(cond: &Expr) -> Option<bool> {
    match &*cond.node {
        Node::Call(f, _) => match f.name.as_str() {
            "is_float" => Some(true),
            "is_int" | "is_bool" => Some(false),
            _ => None,
        },
        Node::Unary(UnOp::Not, inner) => floats(inner).map(|of| !of),
        _ => None,
    }
}

struct Texts<'a> {
    row: &'a Row,
    /// Whether the text is in the tensor language.
    tensors: bool,
    /// Whether branches that no float takes are left out.
    gradients: bool,
    /// Names that `let` binds, each with whether it has few values.
    few: Vec<(Name, bool)>,
    found: Vec<Branch>,
}

impl Texts<'_> {
    fn block(&mut self, block: &Block, finite: bool) {
        let depth = self.few.len();
        for stmt in &block.stmts {
            match stmt {
                Stmt::Let(pattern, value) => {
                    self.expr(value, finite);
                    if let Pattern::Name(name) = pattern {
                        let few = self.is_finite(value);
                        self.few.push((name.name, few));
                    }
                }
                Stmt::Write(_, value) => self.expr(value, finite),
            }
        }
        self.expr(&block.value, finite);
        self.few.truncate(depth);
    }

    fn expr(&mut self, e: &Expr, finite: bool) {
        let mut arm = |value: &Expr, finite| {
            self.found.push(Branch { id: id(value), span: value.span, finite, arm: true });
        };
        match &*e.node {
            Node::If(cond, yes, no) => {
                let finite = finite && self.is_finite(cond);
                self.expr(cond, finite);
                let of_floats = floats(cond).filter(|_| self.gradients);
                for (_, block) in
                    [(true, yes), (false, no)].iter().filter(|(yes, _)| of_floats.is_none_or(|of| of == *yes))
                {
                    let (id, span) = (id(&block.value), block.value.span);
                    self.found.push(Branch { id, span, finite, arm: false });
                    self.block(block, finite);
                }
            }
            Node::Match(_, arms) => {
                arms.iter().for_each(|(_, value)| arm(value, finite));
                arms.iter().for_each(|(_, value)| self.expr(value, finite));
            }
            // these compute sizes axis by axis; the shapes of results show what their branches do
            Node::Zip(_) | Node::Access(_) | Node::Reduce(_) if self.tensors => {}
            _ => walk::children(e, &mut |child| self.expr(child, finite)),
        }
    }

    /// Whether a condition is made of words, truth values, presence and ranks alone.
    fn is_finite(&self, cond: &Expr) -> bool {
        match &*cond.node {
            Node::Int(_) | Node::Str(_) => true,
            Node::Name(name) => match self.few.iter().rev().find(|(bound, _)| bound == name) {
                Some((_, few)) => *few,
                None => self.is_word(*name),
            },
            Node::Call(f, _) => matches!(f.name.as_str(), "some" | "is_tensor" | "is_number" | "len" | "rank"),
            Node::Unary(_, inner) => self.is_finite(inner),
            Node::Binary(_, a, b) => self.is_finite(a) && self.is_finite(b),
            Node::If(cond, yes, no) => {
                let plain = yes.stmts.is_empty() && no.stmts.is_empty();
                plain && [cond, &yes.value, &no.value].into_iter().all(|part| self.is_finite(part))
            }
            _ => false,
        }
    }

    /// Whether a name is an option with few values, or one of them.
    fn is_word(&self, name: Name) -> bool {
        match self.row.sig.opts.iter().find(|opt| opt.name.name == name) {
            Some(opt) => matches!(opt.ty, OptType::Bool | OptType::Enum(_) | OptType::Str),
            None => {
                let is_word = |ty: &OptType| matches!(ty, OptType::Enum(words) if words.contains(&name));
                matches!(name.as_str(), "true" | "false") || self.row.sig.opts.iter().any(|opt| is_word(&opt.ty))
            }
        }
    }
}
