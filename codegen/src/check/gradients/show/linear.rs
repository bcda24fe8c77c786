//! E404: the place where a rule stops being linear in its cotangents or its tangent.

use fulgurite_core::Name;
use fulgurite_core::lang::{BinOp, Block, Expr, Node, Pattern, Span, Stmt};

use crate::check::walk;

/// The smallest part of `rule` whose form is not linear in `seeds`; the rule's value if every part has a linear form.
pub fn step(rule: &Block, seeds: &[Name]) -> Span {
    let mut walk = Walk { seeds: seeds.to_vec() };
    walk.block(rule).unwrap_or(rule.value.span)
}

struct Walk {
    /// Names whose values depend on a seed.
    seeds: Vec<Name>,
}

impl Walk {
    fn block(&mut self, block: &Block) -> Option<Span> {
        for stmt in &block.stmts {
            let (Stmt::Let(_, value) | Stmt::Write(_, value)) = stmt;
            if let Some(found) = self.expr(value) {
                return Some(found);
            }
            if let Stmt::Let(pattern, value) = stmt
                && self.reads(value)
            {
                match pattern {
                    Pattern::Name(ident) | Pattern::Axes(ident, _) => self.seeds.push(ident.name),
                    Pattern::Tuple(idents) => self.seeds.extend(idents.iter().map(|ident| ident.name)),
                }
            }
        }
        self.expr(&block.value)
    }

    /// Whether `e` reads a seed. `some` and `zeros` do not count, because they read its presence or its type alone.
    fn reads(&self, e: &Expr) -> bool {
        match &*e.node {
            Node::Name(name) => self.seeds.contains(name),
            Node::Call(f, _) if f.name == "some" || f.name == "zeros" => false,
            _ => {
                let mut found = false;
                walk::children(e, &mut |child| found |= self.reads(child));
                found
            }
        }
    }

    fn expr(&mut self, e: &Expr) -> Option<Span> {
        // inner parts come first, so that the smallest one is shown
        let inner = match &*e.node {
            Node::If(cond, yes, no) => self.expr(cond).or_else(|| self.block(yes)).or_else(|| self.block(no)),
            _ => {
                let mut found = None;
                walk::children(e, &mut |child| found = found.or_else(|| self.expr(child)));
                found
            }
        };
        inner.or_else(|| self.breaks(e).then_some(e.span))
    }

    /// Whether the operation of `e` breaks linearity, if its operands are linear.
    fn breaks(&self, e: &Expr) -> bool {
        let zero = |e: &Expr| matches!(&*e.node, Node::Int(0)) || matches!(&*e.node, Node::Float(x) if *x == 0.0);
        match &*e.node {
            Node::Binary(BinOp::Mul, a, b) => self.reads(a) && self.reads(b),
            Node::Binary(BinOp::Div | BinOp::Rem, _, b) => self.reads(b),
            Node::Binary(BinOp::Add | BinOp::Sub, a, b) => {
                // `g + 1` is no multiple of `g`
                self.reads(a) != self.reads(b) && !zero(a) && !zero(b)
            }
            Node::Binary(_, a, b) => self.reads(a) || self.reads(b),
            Node::If(cond, ..) => self.reads(cond),
            // builtins are nonlinear functions of elements; rows such as sums and moves are linear
            Node::Call(f, args) => {
                let nonlinear = fulgurite_core::builtins::Builtin::from_name(f.name.as_str())
                    .is_some_and(|b| !matches!(b.name(), "neg" | "add" | "sub" | "mul" | "div"));
                nonlinear && args.iter().any(|arg| self.reads(&arg.value))
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulgurite_core::lang::{Dialect, parse_block};

    #[test]
    fn the_smallest_part_is_found() {
        let cases = [
            ("unbroadcast(g * out + 1, x)", "g * out + 1"),
            ("unbroadcast(-g * g * x, x)", "-g * g"),
            ("let h = g * x; h * sum(h)", "h * sum(h)"),
            ("x / g", "x / g"),
            ("if some(g) { exp(g) } else { x }", "exp(g)"),
            ("g * x", "g * x"),
        ];
        for (text, part) in cases {
            let block = parse_block(text, Dialect::Tensor).expect("a rule");
            let span = step(&block, &[Name::new("g")]);
            assert_eq!(&text[span.start as usize..span.end as usize], part);
        }
    }
}
