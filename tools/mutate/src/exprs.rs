//! Faults in expressions: one at each place of a rule text.

use fulgurite_core::derive::walk;
use fulgurite_core::lang::{Block, Expr, Node, Stmt};

use super::kinds::Kind;
use super::nodes::{self, Names};

/// A text with a fault.
pub struct Faulty<T> {
    /// The kind of the fault.
    pub kind: Kind,
    /// The replaced part, and its replacement.
    pub edit: (String, String),
    /// The whole text.
    pub whole: T,
}

/// Every fault of a block.
pub fn blocks(block: &Block, names: &Names) -> Vec<Faulty<Block>> {
    let mut nodes_of = Vec::new();
    walk::map_block(block, &mut |e| {
        nodes_of.push(e.clone());
        None
    });
    let mut all = Vec::new();
    for (at, node) in nodes_of.iter().enumerate() {
        for (kind, new) in nodes::faults(node, names) {
            let edit = (node.to_string(), new.to_string());
            let mut next = 0;
            let whole = walk::map_block(block, &mut |_| {
                next += 1;
                (next == at + 1).then(|| new.clone())
            });
            all.push(Faulty { kind, edit, whole });
        }
    }
    for (at, stmt) in block.stmts.iter().enumerate() {
        if matches!(stmt, Stmt::Write(..)) {
            let mut whole = block.clone();
            whole.stmts.remove(at);
            all.push(Faulty { kind: Kind(26), edit: (stmt.to_string(), String::new()), whole });
        }
    }
    if !matches!(&*block.value.node, Node::Tuple(_) | Node::Call(..)) {
        let value = nodes::call("detach", vec![block.value.clone()]);
        let edit = (block.value.to_string(), value.to_string());
        all.push(Faulty { kind: Kind(11), edit, whole: Block { value, ..block.clone() } });
    }
    all.retain(|faulty| faulty.whole != *block);
    all
}

/// Every fault of an expression.
pub fn exprs(e: &Expr, names: &Names) -> Vec<Faulty<Expr>> {
    let block = Block { stmts: Vec::new(), value: e.clone() };
    let all = blocks(&block, names).into_iter().filter(|faulty| faulty.kind != Kind(11));
    all.map(|faulty| Faulty { kind: faulty.kind, edit: faulty.edit, whole: faulty.whole.value }).collect()
}
