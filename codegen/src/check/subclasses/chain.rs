//! E604: every operator that a class's own texts call on tensors of the class has a rule, or a body whose operators
//! have rules.
//!
//! Only values that are of the class in every call count: tensors that the text makes, and arguments of which it reads
//! parts.

use fulgurite_core::Name;
use fulgurite_core::lang::ast::{Arg, Block, Expr, ListItem, Node, Pattern, Span, Stmt, UnOp};
use fulgurite_core::lang::{Dialect, helpers};
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::subclass::{Class, Rule};

use super::world::World;

/// Bodies are followed at most this deep, because rows may call each other in a circle.
const DEEPEST: usize = 12;

/// A call that no rule serves.
pub struct Dead {
    /// The call in the text.
    pub at: Span,
    /// From the operator that the text calls to the one without a rule.
    pub chain: Vec<Name>,
    /// Whether the rule is `error`, so that the call is refused, rather than without a rule.
    pub refused: bool,
}

/// The first call of a text that fails whenever it is reached. `of_class` are the arguments that are of the class.
pub fn dead(world: &World, class: &Class, text: &Block, of_class: &[Name]) -> Option<Dead> {
    let mut walk = Walk { world, class, depth: 0, found: None };
    let mut names = of_class.to_vec();
    walk.block(text, &mut names);
    walk.found
}

/// The arguments of a row that are of a class in every call that reaches a rule: the only tensor, or those of which the
/// text reads a part.
pub fn operands(row: &Row, text: &Block, class: &Class) -> Vec<Name> {
    let params: Vec<Name> = row.sig.params.iter().filter(|p| p.ty.list.is_none()).map(|p| p.name.name).collect();
    if let ([only], 1) = (params.as_slice(), row.sig.params.len()) {
        return vec![*only];
    }
    let mut read = Vec::new();
    let known = |part: &str| part == "plain" || class.fields().chain(class.meta()).any(|p| p == part);
    crate::check::walk::names(text, &mut |name| {
        if let Some((of, part)) = name.as_str().split_once('.')
            && known(part)
            && params.iter().any(|p| *p == of)
        {
            read.push(Name::new(of));
        }
    });
    read
}

/// An argument of a call: its name if the call gives it, and whether it is a tensor of the class.
type Passed = (Option<Name>, bool);

struct Walk<'a> {
    world: &'a World<'a>,
    class: &'a Class,
    depth: usize,
    found: Option<Dead>,
}

impl Walk<'_> {
    /// Whether the block's value is of the class; `names` are values that are.
    fn block(&mut self, block: &Block, names: &mut Vec<Name>) -> bool {
        let known = names.len();
        for stmt in &block.stmts {
            match stmt {
                Stmt::Let(Pattern::Name(name), e) => match self.expr(e, names) {
                    true => names.push(name.name),
                    // the new name hides a name of the class
                    false => names.retain(|n| *n != name.name),
                },
                Stmt::Let(_, e) | Stmt::Write(_, e) => _ = self.expr(e, names),
            }
        }
        let of = self.expr(&block.value, names);
        names.truncate(known);
        of
    }

    fn expr(&mut self, e: &Expr, names: &mut Vec<Name>) -> bool {
        match &*e.node {
            Node::Name(name) => names.contains(name),
            Node::Call(f, args) => self.call(f.name, args, e.span, names),
            Node::Binary(op, a, b) => {
                let of = [self.expr(a, names), self.expr(b, names)];
                of.contains(&true) && self.reach(Name::new(op.row()), &of.map(|is_of| (None, is_of)), e.span)
            }
            Node::Unary(op, a) => {
                let row = if *op == UnOp::Neg { "neg" } else { "logical_not" };
                self.expr(a, names) && self.reach(Name::new(row), &[(None, true)], e.span)
            }
            Node::Cast(a, _) => self.expr(a, names) && self.reach(Name::new("cast"), &[(None, true)], e.span),
            Node::If(_, a, b) => {
                // one branch may be dead code, so a fault counts only if both have one
                let before = self.found.take();
                let left = self.block(a, names);
                let one = self.found.take();
                let right = self.block(b, names);
                self.found = before.or_else(|| one.and(self.found.take()));
                left && right
            }
            Node::Match(_, arms) => {
                let before = self.found.take();
                let mut all = true;
                let faults: Vec<Option<Dead>> = arms
                    .iter()
                    .map(|(_, e)| {
                        all &= self.expr(e, names);
                        self.found.take()
                    })
                    .collect();
                let dead = faults.into_iter().collect::<Option<Vec<Dead>>>();
                self.found = before.or_else(|| dead.and_then(|all| all.into_iter().next()));
                all
            }
            Node::List(items) => {
                let mut any = false;
                for item in items {
                    if let ListItem::One(e) = item {
                        any |= self.expr(e, names);
                    }
                }
                any
            }
            Node::Tuple(items) => {
                items.iter().for_each(|e| _ = self.expr(e, names));
                false
            }
            _ => false,
        }
    }

    fn call(&mut self, f: Name, args: &[Arg], at: Span, names: &mut Vec<Name>) -> bool {
        if f == "f" || helpers::named(f).is_some_and(|h| h.arity(Dialect::Tensor).is_some()) {
            return false;
        }
        let of = args.iter().map(|a| (a.name.as_ref().map(|name| name.name), self.expr(&a.value, names)));
        let of: Vec<Passed> = of.collect();
        let [unflatten, flatten, plain] = Class::ports(self.class.name);
        if f == self.class.name || f == unflatten {
            return true;
        }
        if f == flatten || f == plain || f == "same" {
            return false;
        }
        if let Some(row) = self.world.makers.get(&f) {
            let makes = |body: &Block| matches!(&*body.value.node, Node::Call(f, _) if f.name == self.class.name);
            return matches!(&row.meaning, Meaning::Decomp(body) if makes(body));
        }
        of.iter().any(|(_, is_of)| *is_of) && self.reach(f, &of, at)
    }

    /// Applies an operator to tensors of the class, and tells whether its result is of the class. The first overload
    /// that has a rule serves.
    fn reach(&mut self, op: Name, of: &[Passed], at: Span) -> bool {
        let mut dead = None;
        for row in self.world.candidates(op) {
            let before = self.found.take();
            let result = self.row(&row, of, at);
            match self.found.take() {
                Some(fault) => _ = dead.get_or_insert(fault),
                None => {
                    self.found = before;
                    return result;
                }
            }
            self.found = before;
        }
        if self.found.is_none() {
            self.found = dead;
        }
        false
    }

    fn row(&mut self, row: &Row, of: &[Passed], at: Span) -> bool {
        let makes = |text: &Block, class: &Class| matches!(&*text.value.node, Node::Call(f, _) if f.name == class.name);
        let rule = match (self.world.rule(row, self.class), &row.meaning) {
            (Some(rule), _) => rule,
            (None, Meaning::Decomp(body)) if self.depth < DEEPEST => {
                self.depth += 1;
                let mut names: Vec<Name> = of
                    .iter()
                    .enumerate()
                    .filter(|(_, (_, is_of))| *is_of)
                    .filter_map(|(at, (name, _))| name.or(row.sig.params.get(at).map(|p| p.name.name)))
                    .collect();
                let result = self.block(body, &mut names);
                self.depth -= 1;
                if let Some(dead) = &mut self.found {
                    dead.chain.insert(0, row.op);
                    dead.at = at;
                }
                return result;
            }
            (None, Meaning::Decomp(_)) => return false,
            (None, _) => &self.class.default,
        };
        match rule {
            Rule::Error => {
                let refused = self.world.rule(row, self.class).is_some();
                self.found.get_or_insert(Dead { at, chain: vec![row.op], refused });
                false
            }
            Rule::Plain => false,
            Rule::Each | Rule::Placed => true,
            Rule::Block(text) => makes(text, self.class),
        }
    }
}
