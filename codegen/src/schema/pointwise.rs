//! The signature of a pointwise `expr` whose row leaves it out: its free names in the order of the text.

use fulgurite_core::Name;
use fulgurite_core::lang::{Block, Expr, Node, Pattern, Stmt};

/// Names with a fixed meaning.
pub(super) const CONSTANTS: &[&str] = &["PI", "E", "FRAC_1_SQRT_2", "inf", "nan", "true", "false"];

/// `(x: T, y: T) -> T`, or `-> bool` where the row promotes so; `None` if the body is not pointwise: it has accesses,
/// reductions, sizes or options.
pub(super) fn sig_text(body: &Block, promotes_to_bool: bool) -> Option<String> {
    let mut walk = Walk { bound: Vec::new(), free: Vec::new(), methods_of: Vec::new() };
    walk.block(body)?;
    let names = if walk.free.is_empty() { &walk.methods_of } else { &walk.free };
    let args: Vec<String> = names.iter().map(|name| format!("{name}: T")).collect();
    let result = if promotes_to_bool { "bool" } else { "T" };
    (!args.is_empty()).then(|| format!("({}) -> {result}", args.join(", ")))
}

struct Walk {
    bound: Vec<Name>,
    free: Vec<Name>,
    /// Receivers of method calls such as `x.exp()`: the author means an argument, and the parser explains the call.
    methods_of: Vec<Name>,
}

impl Walk {
    fn block(&mut self, block: &Block) -> Option<()> {
        let outer = self.bound.len();
        for stmt in &block.stmts {
            let Stmt::Let(pattern, value) = stmt else { return None };
            self.expr(value)?;
            match pattern {
                Pattern::Name(name) => self.bound.push(name.name),
                Pattern::Tuple(names) => self.bound.extend(names.iter().map(|name| name.name)),
                Pattern::Axes(..) => return None,
            }
        }
        self.expr(&block.value)?;
        self.bound.truncate(outer);
        Some(())
    }

    fn expr(&mut self, expr: &Expr) -> Option<()> {
        match &*expr.node {
            Node::Int(_) | Node::Float(_) => Some(()),
            Node::Name(name) => self.name(*name),
            Node::Unary(_, inner) | Node::Cast(inner, _) => self.expr(inner),
            Node::Binary(_, left, right) => self.expr(left).and_then(|()| self.expr(right)),
            Node::If(cond, yes, no) => {
                self.expr(cond)?;
                self.block(yes)?;
                self.block(no)
            }
            Node::Call(f, args) => {
                let of = f.name.as_str().split_once('.').map(|(of, _)| Name::new(of));
                self.methods_of.extend(of.filter(|of| !self.methods_of.contains(of)));
                args.iter().try_for_each(|arg| self.expr(&arg.value))
            }
            // A tuple in a `let` is not pointwise, options need a written type, and the rest is index notation.
            Node::Tuple(_) | Node::Match(..) | Node::Str(_) | Node::List(_) => None,
            Node::Access(_) | Node::Reduce(_) | Node::Zip(_) | Node::Spread(_) => None,
        }
    }

    fn name(&mut self, name: Name) -> Option<()> {
        if CONSTANTS.contains(&name.as_str()) || name == "T" || self.bound.contains(&name) {
            return Some(());
        }
        if name.is_size() {
            return None;
        }
        if !self.free.contains(&name) {
            self.free.push(name);
        }
        Some(())
    }
}
