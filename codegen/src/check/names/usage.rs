//! E009, E114: every name in a signature is used, and an argument is read only where it is present.

use fulgurite_core::Name;
use fulgurite_core::lang::{Arg, BinOp, Block, DimKind, DimPat, Expr, Node, OptType, Param, UnOp};
use rustc_hash::FxHashSet;

use super::Names;
use super::sig::results;
use crate::check::walk;
use crate::diag::Diag;
use crate::schema::Body;

impl Names<'_> {
    /// Reports arguments, options and computed sizes that nothing reads.
    pub(super) fn usage(&mut self) {
        if matches!(self.source.body, Body::Host(_)) {
            return;
        }
        let source = self.source;
        let sig = &source.sig.tree;
        let read = self.mentioned();
        for param in &sig.params {
            let name = param.name.name;
            if !read.contains(&name) && !self.binds_alone(param, &read) {
                self.unused(
                    param.name,
                    "argument",
                    "delete it, or read it; only a type that nothing else binds is a use",
                );
            }
        }
        for opt in &sig.opts {
            let bound = match &opt.ty {
                OptType::Dtype(name) => Some(*name),
                ty => ty.binds(),
            };
            let uses =
                |name: &Name| read.contains(name) || read.contains(&name.index_of_size()) || self.in_types(*name);
            if read.contains(&opt.name.name) || bound.as_ref().is_some_and(uses) {
                continue;
            }
            match (bound, &opt.ty) {
                (Some(size), ty) if ty.binds().is_some() => {
                    let message = format!(
                        "`{}` binds the size `{size}`, which is used neither as a size nor as an index",
                        self.op()
                    );
                    let diag = Diag::error("E114", source.sig.text.at(opt.name.span), message);
                    self.diags.push(diag.help("use it in a result's shape or in the body, or delete the option"));
                }
                _ => self.unused(opt.name, "option", "delete it, or read it"),
            }
        }
        self.computed(&read);
        self.absent();
    }

    /// E009: an optional argument is read in a branch for calls without it.
    fn absent(&mut self) {
        let source = self.source;
        let (Body::Expr(rule) | Body::View(rule) | Body::Decomp(rule)) = &source.body else { return };
        let optional = |name: &Name| source.sig.tree.params.iter().any(|p| p.optional && p.name.name == *name);
        let mut found = Vec::new();
        walk::block(&rule.tree, &mut |e| {
            let Node::If(cond, yes, no) = &*e.node else { return };
            for (branch, truth) in [(yes, true), (no, false)] {
                // passing the absent argument on does not read it
                let hands_on = |name: &Name| {
                    branch.stmts.is_empty() && matches!(&*branch.value.node, Node::Name(n) if *n == *name)
                };
                for name in absent_if(cond, truth).into_iter().filter(|n| optional(n) && !hands_on(n)) {
                    walk::block(branch, &mut |part| {
                        let reads = match &*part.node {
                            Node::Name(n) => *n == name,
                            Node::Access(access) => access.base.name == name,
                            _ => false,
                        };
                        if reads {
                            found.push((name, part.span));
                        }
                    });
                }
            }
        });
        for (name, span) in found {
            let message = format!("`{}` reads its argument `{name}` where it is absent", self.op());
            let diag = Diag::error("E009", rule.text.at(span), message);
            self.diags.push(diag.help(format!("this branch is for calls without `{name}`: turn the condition round")));
        }
    }

    fn unused(&mut self, name: fulgurite_core::lang::Ident, what: &str, help: &str) {
        let message = format!("`{}` never reads its {what} `{}`", self.op(), name.name);
        self.diags.push(Diag::error("E009", self.source.sig.text.at(name.span), message).help(help));
    }

    /// E114: a result computes and names a size that nothing uses.
    fn computed(&mut self, read: &FxHashSet<Name>) {
        let source = self.source;
        let mut named = Vec::new();
        for out in results(&source.sig.tree) {
            named_sizes(out.ty.dims.as_deref().unwrap_or(&[]), &mut named);
        }
        for name in named {
            if !read.contains(&name.name)
                && !read.contains(&name.name.index_of_size())
                && self.count_in_results(name.name) < 2
            {
                let message =
                    format!("`{}` names the size `{}`, and uses neither it nor its index", self.op(), name.name);
                let diag = Diag::error("E114", source.sig.text.at(name.span), message);
                self.diags.push(diag.help(format!(
                    "use the index `{}`, or drop `{} =`",
                    name.name.index_of_size(),
                    name.name
                )));
            }
        }
    }

    /// Every name in the body, rules, conditions, and in expressions of the signature.
    fn mentioned(&self) -> FxHashSet<Name> {
        let source = self.source;
        let mut read = FxHashSet::default();
        let mut note = |name: Name| _ = read.insert(name);
        let blocks: Vec<&Block> = match &source.body {
            Body::Expr(rule) | Body::View(rule) | Body::Decomp(rule) => vec![&rule.tree],
            Body::Host(_) => vec![],
        };
        let rules = source.grad.iter().chain(&source.jvp).map(|(_, rule)| &rule.tree);
        blocks.into_iter().chain(rules).for_each(|block| walk::names(block, &mut note));
        let conditions = source.require.iter().map(|(cond, _)| &cond.tree);
        let chosen = [&source.promote, &source.dtypes, &source.acc].into_iter().flatten().map(|rule| &rule.tree);
        conditions.chain(chosen).for_each(|e| walk::expr_names(e, &mut note));
        for opt in &source.sig.tree.opts {
            opt.default.iter().for_each(|default| walk::expr_names(default, &mut note));
            match &opt.ty {
                OptType::Ints { axes: Some(axes), .. } => walk::axes(axes, &mut note),
                OptType::Shape { keep: Some(keep), .. } => note(*keep),
                _ => {}
            }
        }
        // in types, names that compute or choose are read; sizes that are only bound are not
        let params = source.sig.tree.params.iter().map(|param| &param.ty);
        for ty in params.chain(results(&source.sig.tree).map(|out| &out.ty)) {
            walk::ty(ty, &mut |name| {
                if !name.is_size() {
                    note(name);
                }
            });
        }
        read
    }

    /// Whether a size or dtype variable stands in some type.
    fn in_types(&self, name: Name) -> bool {
        let sig = &self.source.sig.tree;
        let mut found = false;
        for ty in sig.params.iter().map(|param| &param.ty).chain(results(sig).map(|out| &out.ty)) {
            walk::ty(ty, &mut |n| found |= n == name);
        }
        found
    }

    fn count_in_results(&self, name: Name) -> usize {
        let mut count = 0;
        for out in results(&self.source.sig.tree) {
            walk::ty(&out.ty, &mut |n| count += usize::from(n == name));
        }
        count
    }

    /// Whether the type of `param` binds a size or dtype that no other argument or option surely binds.
    fn binds_alone(&self, param: &Param, read: &FxHashSet<Name>) -> bool {
        let sig = &self.source.sig.tree;
        let mut bound = FxHashSet::default();
        for other in sig.params.iter().filter(|p| p.name != param.name && !p.optional && read.contains(&p.name.name)) {
            walk::ty(&other.ty, &mut |name| _ = bound.insert(name));
        }
        for opt in &sig.opts {
            match &opt.ty {
                OptType::Dtype(name) => _ = bound.insert(*name),
                ty => bound.extend(ty.binds()),
            }
        }
        let mut alone = false;
        walk::ty(&param.ty, &mut |name| {
            alone |= !bound.contains(&name) && (self.in_results(name) || read.contains(&name))
        });
        alone
    }

    fn in_results(&self, name: Name) -> bool {
        self.count_in_results(name) > 0
    }
}

/// The names that are absent if a condition has this truth value.
fn absent_if(cond: &Expr, truth: bool) -> Vec<Name> {
    match &*cond.node {
        Node::Unary(UnOp::Not, inner) => absent_if(inner, !truth),
        Node::Call(some, args) if some.name.as_str() == "some" && !truth => {
            let name = |arg: &Arg| if let Node::Name(name) = &*arg.value.node { Some(*name) } else { None };
            args.iter().filter_map(name).collect()
        }
        Node::Binary(op, a, b) if (*op == BinOp::And && truth) || (*op == BinOp::Or && !truth) => {
            absent_if(a, truth).into_iter().chain(absent_if(b, truth)).collect()
        }
        _ => Vec::new(),
    }
}

fn named_sizes(dims: &[DimPat], named: &mut Vec<fulgurite_core::lang::Ident>) {
    for dim in dims {
        match &dim.kind {
            DimKind::One { name: Some(name), .. } | DimKind::Zip { name: Some(name), .. } => named.push(*name),
            DimKind::Group(inner) | DimKind::BroadcastList(inner) => named_sizes(inner, named),
            _ => {}
        }
    }
}
