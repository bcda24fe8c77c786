//! Hoists values that a gradient needs once per result, not once per element, into rows of their own.
//!
//! The cofactor of `amax` reads the maximum and the number of elements that attain it. Both depend on the result's
//! indices alone, so they leave the sum: the maximum is the row's own result, the count becomes `amax.vjp.x.part1`.

use super::var::{Kind, Pattern, Var, complement};
use crate::Name;
use crate::derive::pointwise::Fresh;
use crate::derive::{make, walk};
use crate::lang::ast::*;

/// A value that is computed once per result.
#[derive(Clone, Debug)]
pub struct Part {
    /// The name of the value in the rule and in rows.
    pub name: Name,
    /// The formula of the value, in the result's indices.
    pub value: Expr,
    /// The element class of the value.
    pub elem: Elem,
}

/// Hoists values out of sums.
pub struct Hoist<'a> {
    /// The result's indices.
    pub out: &'a Pattern,
    /// Values of the row's results, with the reads that replace them: a known result is not computed again.
    pub results: Vec<(Expr, Expr)>,
    /// The values hoisted up to now.
    pub parts: Vec<Part>,
    /// The prefix of their names.
    pub prefix: String,
    /// The names that are free: the row of a gradient has arguments that are parts of the gradient before.
    pub fresh: &'a mut Fresh,
    /// Tensor arguments with float elements.
    pub is_float: &'a dyn Fn(Name) -> bool,
}

impl Hoist<'_> {
    /// Rewrites `e` to read parts; `vars` are bound in `e` besides the result's indices.
    pub fn take(&mut self, e: &Expr, vars: &[Var]) -> Expr {
        let e = walk::map(e, &mut |e| self.known(e, vars));
        if vars.is_empty() {
            return e;
        }
        walk::map(&e, &mut |e| self.node(e, vars))
    }

    fn node(&mut self, e: &Expr, vars: &[Var]) -> Option<Expr> {
        if !walk::any(e, &mut |e| matches!(&*e.node, Node::Reduce(r) if r.binds.is_some())) {
            return Some(e.clone());
        }
        let unit = match &*e.node {
            Node::Reduce(r) => r.binds.is_some() && !matches!(r.red, Red::ArgMax | Red::ArgMin),
            // An index list has no value of its own, so the unit is its `ravel`.
            Node::Call(f, args) => f.name == "ravel" && args.iter().any(|a| matches!(&*a.value.node, Node::Reduce(_))),
            _ => false,
        };
        if !unit {
            return None;
        }
        if !self.is_outer(e, vars) {
            // A reduction's own variables are bound inside it; inner values may still depend on the result's indices
            // alone.
            let Node::Reduce(r) = &*e.node else { return None };
            return Some(self.inside(e, r, vars));
        }
        Some(self.part(e, vars))
    }

    /// The reduction `r` of `e` with parts of its own taken out.
    fn inside(&mut self, e: &Expr, r: &Reduce, vars: &[Var]) -> Expr {
        let inner: Vec<Var> = vars.iter().cloned().chain(r.binds.iter().flatten().map(Var::of_bind)).collect();
        let body = self.take(&r.body, &inner);
        let filter = r.filter.as_ref().map(|c| self.take(c, &inner));
        Expr::new(Node::Reduce(Reduce { body, filter, ..r.clone() }), e.span)
    }

    /// Replaces a value by the result that equals it, where computing it would cost a loop or random numbers.
    fn known(&self, e: &Expr, vars: &[Var]) -> Option<Expr> {
        let (_, read) = self.results.iter().find(|(value, _)| value == e)?;
        let dear = walk::any(e, &mut |e| match &*e.node {
            Node::Reduce(r) => r.binds.is_some(),
            Node::Call(f, _) => f.name == "uniform",
            _ => false,
        });
        (dear && self.is_outer(e, vars)).then(|| read.clone())
    }

    fn part(&mut self, e: &Expr, vars: &[Var]) -> Expr {
        // Parts inside the part come first.
        let value = match &*e.node {
            Node::Reduce(r) => self.inside(e, r, vars),
            _ => e.clone(),
        };
        let known = self.parts.iter().find(|p| p.value == value).map(|p| p.name);
        let name = known.unwrap_or_else(|| {
            let name = self.fresh.numbered(&self.prefix);
            self.parts.push(Part { name, elem: self.elem(&value), value });
            name
        });
        make::access(name, self.out.places.clone())
    }

    fn elem(&self, e: &Expr) -> Elem {
        let class = |c: &str| Elem::Class(Name::new(c));
        match &*e.node {
            Node::Call(..) => class("i64"),
            Node::Reduce(r) => match r.red {
                Red::Any | Red::All => class("bool"),
                _ => {
                    let float = walk::any(&r.body, &mut |e| match &*e.node {
                        Node::Access(a) => (self.is_float)(a.base.name),
                        Node::Float(_) => true,
                        _ => false,
                    });
                    // A count reads elements only in its conditions.
                    if float && !is_count(&r.body) { Elem::Acc(Name::new("T")) } else { class("i64") }
                }
            },
            _ => Elem::Acc(Name::new("T")),
        }
    }

    /// Whether `e` depends only on the result's indices.
    fn is_outer(&self, e: &Expr, vars: &[Var]) -> bool {
        let mut uses = Vec::new();
        free(e, &mut Vec::new(), &mut uses);
        uses.into_iter().all(|(name, axes)| {
            let (here, there) = (of(&self.out.vars, name), of(vars, name));
            match (here.as_slice(), there.as_slice()) {
                ([], []) => true,
                (_, []) => true,
                // Those axes of the list that belong to the result.
                ([Var { kind: Kind::Part(own), .. }], _) => axes.as_ref() == Some(own),
                _ => false,
            }
        })
    }
}

/// Whether the elements of `e` are literals that conditions choose.
fn is_count(e: &Expr) -> bool {
    match &*e.node {
        Node::Int(_) => true,
        Node::If(_, a, b) => is_count(&a.value) && is_count(&b.value),
        _ => false,
    }
}

fn of(vars: &[Var], name: Name) -> Vec<Var> {
    vars.iter().filter(|v| v.name == name).cloned().collect()
}

/// A name, with its axes if only some of a list are meant.
type Mention = (Name, Option<Axes>);

/// Collects the free names of `e`, with their axes if only some of a list are meant.
fn free(e: &Expr, bound: &mut Vec<Mention>, out: &mut Vec<Mention>) {
    let mut note = |bound: &[Mention], name: Name, axes: Option<&Axes>| {
        let mut axes = axes.cloned();
        for (n, some) in bound.iter().rev() {
            if *n != name {
                continue;
            }
            match (some, &axes) {
                (None, _) => return,
                (Some(b), Some(a)) if a == b => return,
                (Some(b), None) => axes = Some(complement(b)),
                _ => {}
            }
        }
        out.push((name, axes));
    };
    let mut inner: Vec<(Expr, Vec<Mention>)> = Vec::new();
    walk::visit(e, &mut |e| match &*e.node {
        Node::Name(n) => {
            note(bound, *n, None);
            true
        }
        Node::Access(a) => {
            note(bound, a.base.name, None);
            let mut open: Vec<&Place> = a.places.iter().collect();
            while let Some(p) = open.pop() {
                match p {
                    Place::List(n, axes) => note(bound, n.name, axes.as_ref()),
                    Place::Broadcast(n) => note(bound, n.name, None),
                    Place::BroadcastGroup(group) => open.extend(group),
                    _ => {}
                }
            }
            true
        }
        Node::Reduce(r) => {
            let own: Vec<Mention> = r.binds.iter().flatten().map(|b| (b.name.name, b.axes.clone())).collect();
            for (lo, hi) in r.binds.iter().flatten().filter_map(|b| b.range.clone()) {
                inner.extend([(lo, Vec::new()), (hi, Vec::new())]);
            }
            inner.push((r.body.clone(), own.clone()));
            inner.extend(r.filter.iter().map(|c| (c.clone(), own.clone())));
            inner.extend(r.otherwise.iter().map(|o| (o.clone(), Vec::new())));
            false
        }
        _ => true,
    });
    for (e, own) in inner {
        let n = own.len();
        bound.extend(own);
        free(&e, bound, out);
        bound.truncate(bound.len() - n);
    }
}
