//! Names in scalar and index notation.

use fulgurite_core::Name;
use fulgurite_core::lang::helpers::{self, HelperFact};
use fulgurite_core::lang::{
    Bind, Block, DimKind, DimPat, Expr, Ident, Node, Outside, Pattern, Place, Reduce, Span, Stmt,
};
use fulgurite_core::signature::const_eval;

use super::calls::asks_about;
use super::locals::{Local, Locals};
use super::{Names, foreign_literal};
use crate::check::walk;
use crate::diag::Diag;
use crate::nearest::nearest;
use crate::yaml::Text;

impl Names<'_> {
    /// Checks the body of an `expr` or `view`.
    pub(super) fn index_block(&mut self, block: &Block, text: &Text, what: &str) {
        let mut locals = Locals::default();
        for axis in self.sig.axes.clone() {
            locals.push(axis, Local::Axis, None);
        }
        if self.sig.yields_list {
            locals.push(Name::new("i"), Local::Axis, None);
        }
        Walk { names: self, text, what, locals, later: Vec::new(), reductions: 0, per_axis: false }.block(block);
    }

    /// Checks an expression over sizes and options, perhaps elements, in which no index of an axis is bound.
    pub(super) fn static_expr(&mut self, e: &Expr, text: &Text, what: &str) {
        let mut locals = Locals::default();
        if self.sig.yields_list || !self.sig.lists.is_empty() {
            locals.push(Name::new("i"), Local::Axis, None);
        }
        Walk { names: self, text, what, locals, later: Vec::new(), reductions: 0, per_axis: false }.expr(e);
    }
}

/// Name of the signature in messages.
pub(super) const SIG: &str = "`sig`";

struct Walk<'w, 'a> {
    names: &'w mut Names<'a>,
    text: &'w Text,
    what: &'w str,
    locals: Locals,
    /// Indices that later reductions bind.
    later: Vec<(Name, Span)>,
    /// Number of enclosing reductions.
    reductions: usize,
    /// Whether a list has one entry here, for each axis: in `..( )` and in `RED[..]( )`.
    per_axis: bool,
}

impl Walk<'_, '_> {
    fn block(&mut self, block: &Block) {
        let depth = self.locals.depth();
        for (n, stmt) in block.stmts.iter().enumerate() {
            let Stmt::Let(pattern, value) = stmt else { continue };
            let later = self.later.len();
            for stmt in &block.stmts[n + 1..] {
                if let Stmt::Let(_, value) = stmt {
                    reductions(value, &mut self.later);
                }
            }
            reductions(&block.value, &mut self.later);
            self.expr(value);
            self.later.truncate(later);
            match pattern {
                Pattern::Name(name) => self.bind_let(*name),
                Pattern::Tuple(names) => names.iter().for_each(|name| self.bind_let(*name)),
                Pattern::Axes(list, axes) => {
                    self.names.axes(axes, self.text);
                    self.locals.push(list.name, Local::Axis, None);
                }
            }
        }
        self.expr(&block.value);
        let unread = self.locals.leave(depth, self.text, self.what, self.names.op());
        self.names.diags.extend(unread);
    }

    fn bind_let(&mut self, name: Ident) {
        let n = name.name;
        let is_index = self.names.sig.sizes.contains(&n.size_of_index())
            || matches!(self.locals.get(n), Some(Local::Axis | Local::Bound));
        let taken = self.names.given(n).or(is_index.then_some("an index"));
        if let Some(what) = taken {
            self.shared(name, "a `let`", what);
        }
        self.locals.push(name.name, Local::Let, Some(name));
    }

    /// E012: one name stands for two things.
    fn shared(&mut self, name: Ident, this: &str, other: &str) {
        let message = format!("`{}` is {this} in {} of `{}`, and {other}", name.name, self.what, self.names.op());
        let diag = Diag::error("E012", self.text.at(name.span), message).here("the same name for two things");
        self.names.diags.push(diag.help("rename one of them"));
    }

    fn expr(&mut self, e: &Expr) {
        match &*e.node {
            Node::Name(name) => self.name(*name, e.span),
            Node::If(cond, yes, no) => {
                self.expr(cond);
                self.block(yes);
                self.block(no);
            }
            Node::Call(f, args) => {
                self.names.index_call(*f, args, self.text);
                self.whole_list(*f);
                let per_axis = self.per_axis && !helpers::is(f.name, HelperFact::WholeLists);
                self.with_axis(per_axis, |walk| {
                    for arg in args {
                        match &*arg.value.node {
                            // a dtype variable is an argument by name
                            Node::Name(name) if asks_about(f.name) && walk.names.sig.dtypes.contains(name) => {}
                            _ => walk.expr(&arg.value),
                        }
                    }
                });
            }
            Node::Access(access) => {
                self.name(access.base.name, access.base.span);
                access.item.iter().for_each(|item| self.expr(item));
                access.places.iter().for_each(|place| self.place(place));
                match &access.outside {
                    Outside::Value(value) => self.expr(value),
                    Outside::Skip if self.reductions == 0 => self.skips(e.span),
                    Outside::Skip | Outside::Refuse => {}
                }
            }
            Node::Reduce(reduce) => self.reduce(reduce),
            Node::Zip(inner) => self.with_axis(true, |walk| walk.expr(inner)),
            Node::List(_) => {}
            _ if self.names.beside(e, self.text, self.what) => walk::children(e, &mut |inner| self.expr(inner)),
            _ => {}
        }
    }

    fn with_axis(&mut self, per_axis: bool, f: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.per_axis, per_axis);
        f(self);
        self.per_axis = before;
    }

    /// E013: a list where an entry for each axis belongs.
    fn whole_list(&mut self, f: Ident) {
        if !self.per_axis || !helpers::is(f.name, HelperFact::GivesList) {
            return;
        }
        let message =
            format!("{} of `{}` asks about each axis, and `{}` gives a whole list", self.what, self.names.op(), f.name);
        let diag = Diag::error("E013", self.text.at(f.span), message).here("the same list at each axis");
        let help = "name the list outside, as a default in `sig`, `lo: Ints(S) = part(…)`, or by a `let` in the braces of an `if`";
        self.names.diags.push(diag.help(format!("{help}: a list with a name has one entry for each axis")));
    }

    /// E106: an access skips an element outside of any reduction.
    fn skips(&mut self, span: Span) {
        let message =
            format!("{} of `{}` skips an element where no reduction leaves it out", self.what, self.names.op());
        let diag = Diag::error("E106", self.text.at(span), message).here("`else skip` outside of a reduction");
        self.names.diags.push(diag.help("say what stands outside, `else 0`, or write the access inside the reduction"));
    }

    fn name(&mut self, name: Name, span: Span) {
        let bound = self.locals.read(name).is_some() || self.names.given(name).is_some();
        if !bound && !self.names.sig.sizes.contains(&name) && const_eval::constant(name).is_none() {
            self.unbound(name, span);
        }
    }

    /// Reports a name that nothing binds here: an index without an axis, one that is bound later, or a misspelt one.
    fn unbound(&mut self, name: Name, span: Span) {
        let op = self.names.op();
        if self.what == SIG {
            self.names.misread.push(name);
        } else if self.names.misread.contains(&name) {
            // the signature was blamed already: it should have bound the name that the body reads
            return;
        }
        if let Some((_, later)) = self.later.iter().find(|(n, _)| *n == name) {
            let message = format!("{} of `{op}` reads the index `{name}` before it is bound", self.what);
            let diag = Diag::error("E112", self.text.at(span), message).label(self.text.at(*later), "bound here");
            self.names
                .diags
                .push(diag.help("a `let` is evaluated where it stands: write its value inside the reduction"));
            return;
        }
        let size = name.size_of_index();
        if self.names.sig.sizes.contains(&size) && !name.is_size() && self.what != SIG {
            let message = format!("{} of `{op}` reads the index `{name}`, which is not bound here", self.what);
            let diag =
                Diag::error("E106", self.text.at(span), message).here(format!("no result has the axis `{size}`"));
            let outs = &self.names.source.sig.tree.outs;
            let computes = |dim: &&DimPat| {
                matches!(&dim.kind, DimKind::One { name: None, size: e, .. }
                    if !matches!(&*e.node, Node::Name(_)) && reads(e, size))
            };
            let computed = outs.iter().flat_map(|out| out.ty.dims.iter().flatten()).find(computes);
            self.names.diags.push(diag.help(match computed {
                Some(dim) => {
                    format!("name the result's axis, `K = {dim}` with a capital that is free: its index is `k`")
                }
                None => format!("reduce over it, `sum[{name}](…)`, or give the result this axis"),
            }));
            return;
        }
        let claim = format!("{} of `{op}` reads `{name}`, which nothing binds", self.what);
        let known = self.known();
        let index = self.names.sig.sizes.contains(&size);
        if self.what == SIG && size.is_size() && (index || !self.is_misspelt(name, &known)) {
            let diag = Diag::error("E007", self.text.at(span), claim);
            let help =
                format!("sizes are written in capitals, `{size}`; `{name}` is the index that runs over `{size}`");
            return self.names.diags.push(diag.help(help));
        }
        self.names.unknown(self.text, span, claim, name.as_str(), known);
    }

    /// Whether `name` is likely a misspelling of a known name.
    fn is_misspelt(&self, name: Name, known: &[Name]) -> bool {
        let known = known.iter().map(|name| name.as_str());
        name == "None" || foreign_literal(name.as_str()).is_some() || nearest(name.as_str(), known).is_some()
    }

    fn known(&self) -> Vec<Name> {
        let indices = self.names.sig.sizes.iter().map(|size| size.index_of_size());
        self.names.signed().chain(indices).chain(self.locals.names()).collect()
    }

    fn place(&mut self, place: &Place) {
        match place {
            Place::One(e) | Place::Unravel(e) => self.expr(e),
            Place::Zip(e) | Place::BroadcastZip(e) => self.with_axis(true, |walk| walk.expr(e)),
            Place::List(list, axes) => {
                self.name(list.name, list.span);
                axes.iter().for_each(|axes| self.names.axes(axes, self.text));
            }
            Place::Broadcast(list) => self.name(list.name, list.span),
            Place::BroadcastGroup(inner) => inner.iter().for_each(|place| self.place(place)),
        }
    }

    fn reduce(&mut self, reduce: &Reduce) {
        let depth = self.locals.depth();
        for bind in reduce.binds.iter().flatten() {
            self.bind(bind);
        }
        self.reductions += 1;
        self.with_axis(self.per_axis || reduce.binds.is_none(), |walk| {
            reduce.filter.iter().for_each(|filter| walk.expr(filter));
            walk.expr(&reduce.body);
        });
        self.reductions -= 1;
        let inside = self.locals.leave(depth, self.text, self.what, self.names.op());
        self.names.diags.extend(inside);
        reduce.otherwise.iter().for_each(|value| self.expr(value));
    }

    fn bind(&mut self, bind: &Bind) {
        let (name, span) = (bind.name.name, bind.name.span);
        if let Some((low, high)) = &bind.range {
            self.expr(low);
            self.expr(high);
        }
        bind.axes.iter().for_each(|axes| self.names.axes(axes, self.text));
        let sized = self.names.sig.sizes.contains(&name.size_of_index());
        let items = name == "i" && !self.names.sig.lists.is_empty();
        if !sized && !items && bind.range.is_none() {
            let claim = format!("{} of `{}` reduces over `{name}`, which has no range", self.what, self.names.op());
            let known: Vec<Name> = self.names.sig.sizes.iter().map(|size| size.index_of_size()).collect();
            self.names.unknown_as("E106", self.text, span, claim, name.as_str(), known);
        }
        if bind.axes.is_none() && matches!(self.locals.get(name), Some(Local::Axis | Local::Bound)) {
            let message = format!("{} of `{}` binds the index `{name}` twice", self.what, self.names.op());
            let diag = Diag::error("E106", self.text.at(span), message).here("bound again");
            let axis = self.locals.get(name) == Some(Local::Axis);
            let where_ =
                if axis { "it runs along an axis of the result already" } else { "a reduction outside binds it" };
            self.names.diags.push(
                diag.note(where_).help(format!("give one a range of its own: `j in 0..{}`", name.size_of_index())),
            );
        }
        let is_let = self.locals.get(name) == Some(Local::Let);
        let taken = self.names.given(name).or(is_let.then_some("a `let`"));
        if let Some(other) = taken {
            self.shared(bind.name, "an index", other);
        }
        self.locals.push(name, Local::Bound, None);
    }
}

/// Whether `e` reads this name.
fn reads(e: &Expr, name: Name) -> bool {
    walk::any_expr(e, &mut |part| matches!(&*part.node, Node::Name(n) if *n == name))
}

/// The indices that reductions inside `e` bind.
fn reductions(e: &Expr, found: &mut Vec<(Name, Span)>) {
    walk::expr(e, &mut |part| {
        if let Node::Reduce(reduce) = &*part.node {
            found.extend(reduce.binds.iter().flatten().map(|bind| (bind.name.name, bind.name.span)));
        }
    });
}
