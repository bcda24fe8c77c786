//! E302, E503, E504, E505, E506: a row declares all arguments that it writes, reads nothing after it was written, and
//! draws no random number twice.

use fulgurite_core::lang::{Access, Block, Elem, Expr, Ident, Node, Span, Stmt};
use fulgurite_core::{Name, lang};

use super::rows::RowSet;
use super::{gradient_rules, walk};
use crate::diag::Diag;
use crate::schema::{Body, RowSource, Rule};
use crate::yaml::Text;

/// Faults of the effects of a row.
pub fn check(source: &RowSource, rows: &RowSet) -> Vec<Diag> {
    let mut diags = rules_read_old_values(source);
    match &source.body {
        Body::Decomp(rule) => {
            writes(source, rule, rows, &mut diags);
            key_calls(source, rule, &mut diags);
        }
        Body::Expr(rule) | Body::View(rule) => {
            draws(source, rule, &mut diags);
            never_written(source, &[], &mut diags);
        }
        Body::Host(_) => {}
    }
    diags
}

/// E506: a rule runs after the row, when a `mut` argument already has its new value.
fn rules_read_old_values(source: &RowSource) -> Vec<Diag> {
    let mut diags = Vec::new();
    let written: Vec<_> = source.sig.tree.params.iter().filter(|param| param.access == Access::Mut).collect();
    for declared in gradient_rules::of(source) {
        walk::block(&declared.rule.tree, &mut |e| {
            let Node::Name(name) = &*e.node else { return };
            let Some(param) = written.iter().find(|param| param.name.name == *name) else { return };
            let message = format!("{} reads `{name}`, which the row writes", declared.named(source).name());
            let diag = Diag::error("E506", declared.rule.text.at(e.span), message).here("the new value by then");
            let diag = diag.label(source.sig.text.at(param.name.span), "written by the row");
            diags.push(diag.help("delete the rule: what is derived keeps the old value"));
        });
    }
    diags
}

fn writes(source: &RowSource, rule: &Rule<Block>, rows: &RowSet, diags: &mut Vec<Diag>) {
    let sig = &source.sig.tree;
    let mut written = Vec::new();
    collect_writes(&rule.tree, &mut written);
    for name in &written {
        let Some(param) = sig.params.iter().find(|param| param.name.name == name.name) else { continue };
        if param.access != Access::Mut {
            let message = format!("`{}` writes its argument `{}`, which is not `mut`", source.op.as_str(), name.name);
            let diag = Diag::error("E503", rule.text.at(name.span), message).here("written here");
            let at = source.sig.text.at(param.name.span);
            diags.push(
                diag.label(at, "only read, says the signature")
                    .help(format!("write `mut {}: {}`", name.name, param.ty)),
            );
        }
    }
    let mut names: Vec<Name> = written.iter().map(|ident| ident.name).collect();
    names.extend(written_by_calls(source, rule, rows, diags));
    never_written(source, &names, diags);
    read_after_write(source, &rule.tree, &rule.text, diags);
}

/// The `mut` arguments that calls in the body write. E302 if a call writes anything else.
fn written_by_calls(source: &RowSource, rule: &Rule<Block>, rows: &RowSet, diags: &mut Vec<Diag>) -> Vec<Name> {
    let own = |e: &Expr| {
        let Node::Name(name) = &*e.node else { return None };
        source.sig.tree.params.iter().any(|p| p.name.name == *name && p.access == Access::Mut).then_some(*name)
    };
    let mut names = Vec::new();
    walk::block(&rule.tree, &mut |e| {
        let Node::Call(f, args) = &*e.node else { return };
        for row in rows.candidates(f.name) {
            for (at, param) in row.sig.params.iter().enumerate().filter(|(_, param)| param.access == Access::Mut) {
                let named = args.iter().find(|arg| arg.name.is_some_and(|name| name.name == param.name.name));
                let Some(arg) = named.or(args.get(at).filter(|arg| arg.name.is_none())) else { continue };
                if let Some(name) = own(&arg.value) {
                    names.push(name);
                    continue;
                }
                let (op, called, written) = (source.op.as_str(), f.name, param.name.name);
                let message = format!("`{op}` calls `{called}`, which writes its argument `{written}`");
                let diag = Diag::error("E302", rule.text.at(arg.value.span), message).here("this would be written");
                diags.push(diag.help("pass a `mut` argument of the row, or call a row that writes nothing"));
            }
        }
    });
    names
}

fn never_written(source: &RowSource, written: &[Name], diags: &mut Vec<Diag>) {
    for param in source.sig.tree.params.iter().filter(|param| param.access == Access::Mut) {
        if !written.contains(&param.name.name) {
            let message = format!("`{}` never writes its `mut` argument `{}`", source.op.as_str(), param.name.name);
            let diag = Diag::error("E503", source.sig.text.at(param.name.span), message);
            diags.push(diag.help(format!("delete `mut`, or write it in the `decomp`: `{} <- …;`", param.name.name)));
        }
    }
}

fn collect_writes(block: &Block, written: &mut Vec<Ident>) {
    let own = |block: &Block, written: &mut Vec<Ident>| {
        written.extend(block.stmts.iter().filter_map(|stmt| match stmt {
            Stmt::Write(name, _) => Some(*name),
            Stmt::Let(..) => None,
        }));
    };
    own(block, written);
    walk::block(block, &mut |e| {
        if let Node::If(_, yes, no) = &*e.node {
            own(yes, written);
            own(no, written);
        }
    });
}

/// E504: a statement reads a name that an earlier one of its block has written. E503: a statement writes it again.
fn read_after_write(source: &RowSource, block: &Block, text: &Text, diags: &mut Vec<Diag>) {
    let (mut written, mut twice): (Vec<Ident>, Vec<(Ident, Ident)>) = Default::default();
    let mut report = |e: &Expr, written: &[Ident]| {
        walk::expr(e, &mut |part| {
            let Node::Name(name) = &*part.node else { return };
            if let Some(write) = written.iter().find(|ident| ident.name == *name) {
                let message = format!("`{}` reads `{name}` after it was written", source.op.as_str());
                let diag = Diag::error("E504", text.at(part.span), message).label(text.at(write.span), "written here");
                diags.push(diag.help("bind the new value to a `let`, read that, and write it last"));
            }
        });
    };
    for stmt in &block.stmts {
        match stmt {
            Stmt::Let(_, value) => report(value, &written),
            Stmt::Write(name, value) => {
                report(value, &written);
                match written.iter_mut().find(|ident| ident.name == name.name) {
                    Some(before) => twice.push((std::mem::replace(before, *name), *name)),
                    None => written.push(*name),
                }
            }
        }
    }
    report(&block.value, &written);
    // nothing is read after it was written, so the first value is lost
    for (first, second) in twice {
        let message = format!("`{}` writes `{}` twice, and the first value is lost", source.op.as_str(), second.name);
        let diag = Diag::error("E503", text.at(second.span), message).label(text.at(first.span), "written here first");
        diags.push(diag.help("delete the first of both, or bind its value to a `let` and read that"));
    }
}

fn keys(source: &RowSource) -> Vec<Name> {
    let params = source.sig.tree.params.iter().filter(|param| param.ty.elem.contains(&Elem::Key));
    params.map(|param| param.name.name).collect()
}

/// E505 of a composite: two calls take one key.
fn key_calls(source: &RowSource, rule: &Rule<Block>, diags: &mut Vec<Diag>) {
    for key in keys(source) {
        let mut uses = Uses::default();
        uses.block(&rule.tree, &mut |e| match &*e.node {
            Node::Call(f, args) => args.iter().any(|arg| is_name(&arg.value, key)).then_some((0, f.span)),
            _ => None,
        });
        if let Some((first, second)) = uses.clash() {
            let message = format!(
                "`{}` gives its key `{key}` to two calls, which then draw the same numbers",
                source.op.as_str()
            );
            let diag =
                Diag::error("E505", rule.text.at(second), message).label(rule.text.at(first), "given here first");
            diags.push(diag.help("take a second `Key` argument"));
        }
    }
}

/// E505 of an index body: two draws of one key have the same number.
fn draws(source: &RowSource, rule: &Rule<Block>, diags: &mut Vec<Diag>) {
    for key in keys(source) {
        let mut uses = Uses::default();
        uses.block(&rule.tree, &mut |e| match &*e.node {
            Node::Call(f, args) if f.name == "uniform" && args.first().is_some_and(|arg| is_name(&arg.value, key)) => {
                match args.get(2).map(|arg| &*arg.value.node) {
                    Some(Node::Int(draw)) => Some((*draw, e.span)),
                    _ => None,
                }
            }
            _ => None,
        });
        if let Some((first, second)) = uses.clash() {
            let message = format!("`{}` draws the same number of `{key}` twice", source.op.as_str());
            let diag =
                Diag::error("E505", rule.text.at(second), message).label(rule.text.at(first), "drawn here first");
            diags.push(diag.help("count the draws: `uniform(key, position, 0)`, then `uniform(key, position, 1)`"));
        }
    }
}

fn is_name(e: &Expr, name: Name) -> bool {
    matches!(&*e.node, Node::Name(n) if *n == name)
}

/// Uses of a resource that may be used once. Branches exclude each other, so each of them may use it.
#[derive(Default)]
struct Uses {
    /// The resource used (a draw number), and the place.
    seen: Vec<(i64, Span)>,
    clash: Option<(Span, Span)>,
}

type Use<'f> = dyn FnMut(&lang::Expr) -> Option<(i64, Span)> + 'f;

impl Uses {
    fn clash(&self) -> Option<(Span, Span)> {
        self.clash
    }

    fn block(&mut self, block: &Block, of: &mut Use) {
        for stmt in &block.stmts {
            match stmt {
                Stmt::Let(_, value) | Stmt::Write(_, value) => self.expr(value, of),
            }
        }
        self.expr(&block.value, of);
    }

    fn expr(&mut self, e: &Expr, of: &mut Use) {
        match &*e.node {
            Node::If(cond, yes, no) => {
                self.expr(cond, of);
                let before = self.seen.len();
                self.block(yes, of);
                let branch = self.seen.split_off(before);
                self.block(no, of);
                self.seen.extend(branch);
            }
            Node::Match(_, arms) => {
                let before = self.seen.len();
                let mut all = Vec::new();
                for (_, value) in arms {
                    self.expr(value, of);
                    all.extend(self.seen.split_off(before));
                }
                self.seen.extend(all);
            }
            _ => {
                if let Some((what, at)) = of(e) {
                    if let Some((_, first)) = self.seen.iter().find(|(seen, _)| *seen == what) {
                        self.clash.get_or_insert((*first, at));
                    }
                    self.seen.push((what, at));
                }
                walk::children(e, &mut |child| self.expr(child, of));
            }
        }
    }
}
