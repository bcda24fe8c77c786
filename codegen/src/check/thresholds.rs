//! Thresholds: the numbers with which a row compares. A branch may be taken on one side only, so both sides are
//! tried.

use fulgurite_core::lang::{BinOp, Block, DimKind, Expr, Node, UnOp, walk};
use fulgurite_core::row::Row;
use fulgurite_core::{Name, Scalar};

/// A number with which a row compares a value.
#[derive(Clone, Copy, PartialEq)]
pub struct Threshold {
    pub number: Scalar,
    /// Whether it has two sides, because the comparison is an order and no equality.
    pub sides: bool,
}

/// Functions that bound their first argument by the others.
const BOUNDS: [&str; 5] = ["min", "max", "minimum", "maximum", "clamp"];

/// Calls `f` on each comparison with a number in the meaning, the conditions, the rules and the conventions of a row.
/// `f` gets the other side and the threshold.
fn each(row: &Row, f: &mut dyn FnMut(&Expr, Threshold)) {
    texts(row).for_each(|block| walk::block(block, &mut |e| compared(e, f)));
    conditions(row).for_each(|cond| walk::expr(cond, &mut |e| compared(e, f)));
}

/// Calls `f` on the comparisons with numbers that `e` itself makes.
fn compared(e: &Expr, f: &mut dyn FnMut(&Expr, Threshold)) {
    // bounding a value by a number compares both
    if let Node::Call(by, args) = &*e.node
        && BOUNDS.contains(&by.name.as_str())
        && let Some((bounded, by)) = args.split_first()
    {
        let others = by.iter().map(|by| (&bounded.value, &by.value));
        for (side, other) in others.clone().chain(others.map(|(side, other)| (other, side))) {
            if let Some(number) = literal(other) {
                f(side, Threshold { number, sides: true });
            }
        }
    }
    let Node::Binary(op, left, right) = &*e.node else { return };
    let sides = match op {
        BinOp::Eq | BinOp::Ne => false,
        BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge => true,
        _ => return,
    };
    for (side, other) in [(left, right), (right, left)] {
        if let Some(number) = literal(other) {
            f(side, Threshold { number, sides });
        }
    }
}

/// The quoted texts with which a row compares something.
pub fn quoted(row: &Row) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut look = |e: &Expr| {
        let Node::Binary(BinOp::Eq | BinOp::Ne, left, right) = &*e.node else { return };
        for side in [left, right] {
            if let Node::Str(text) = &*side.node
                && !found.iter().any(|known| known.as_str() == &**text)
            {
                found.push(text.to_string());
            }
        }
    };
    texts(row).for_each(|block| walk::block(block, &mut look));
    conditions(row).for_each(|cond| walk::expr(cond, &mut look));
    found
}

/// The meaning and the rules of a row.
fn texts(row: &Row) -> impl Iterator<Item = &Block> {
    let rules = row.vjp.iter().chain(&row.jvp).map(|(_, rule)| rule);
    super::walk::body(row).into_iter().chain(rules)
}

/// The conditions of a row in `require` and in `at`.
fn conditions(row: &Row) -> impl Iterator<Item = &Expr> {
    row.require.iter().map(|require| &require.cond).chain(row.at.iter().map(|(cond, _)| cond))
}

/// The number that an expression stands for, if it is a literal.
pub fn literal(e: &Expr) -> Option<Scalar> {
    match &*e.node {
        Node::Int(n) => Some(Scalar::Int(*n)),
        Node::Float(x) => Some(Scalar::Float(*x)),
        Node::Name(name) if *name == "inf" => Some(Scalar::Float(f64::INFINITY)),
        Node::Cast(inner, _) => literal(inner),
        Node::Unary(UnOp::Neg, inner) => match literal(inner)? {
            Scalar::Float(x) => Some(Scalar::Float(-x)),
            n => n.as_i64().checked_neg().map(Scalar::Int),
        },
        _ => None,
    }
}

/// Every number with which a row compares something.
pub fn all(row: &Row) -> Vec<f64> {
    let mut found = Vec::new();
    each(row, &mut |_, threshold| found.push(threshold.number.as_f64()));
    found
}

/// The numbers with which a row compares elements. Comparisons of sizes and options are left out.
pub fn of_elements(row: &Row) -> Vec<f64> {
    let mut found = Vec::new();
    each(row, &mut |side, threshold| found.extend(is_element(row, side).then(|| threshold.number.as_f64())));
    found
}

/// Whether a text bounds a value by a number that is neither 0 nor infinite, or has a number that a called row may
/// use as such a bound.
pub fn may_bound(text: &Block) -> bool {
    /// Smaller numbers are factors and axes.
    const LEAST: f64 = 3.0;
    let large = |x: Scalar| x.as_f64().is_finite() && x.as_f64().abs() >= LEAST;
    let mut found = walk::any(text, &mut |e| literal(e).is_some_and(large));
    let f = &mut |_: &Expr, threshold: Threshold| {
        let x = threshold.number.as_f64();
        found |= threshold.sides && x != 0.0 && x.is_finite();
    };
    walk::block(text, &mut |e| compared(e, f));
    found
}

/// Whether an expression reads elements alone.
fn is_element(row: &Row, side: &Expr) -> bool {
    let is_static = |name: Name| name.is_size() || row.sig.opts.iter().any(|opt| opt.name.name == name);
    let (mut any, mut all) = (false, true);
    super::walk::expr_names(side, &mut |name| {
        any = true;
        all &= !is_static(name);
    });
    any && all
}

/// Every number in a condition, a rule or the meaning of a row.
pub fn literals(row: &Row) -> Vec<f64> {
    let mut found = Vec::new();
    texts(row).for_each(|block| walk::block(block, &mut |e| note(e, &mut found)));
    conditions(row).for_each(|cond| walk::expr(cond, &mut |e| note(e, &mut found)));
    found
}

/// Every number in a declared rule, or in a condition of `at`.
pub fn of_rules(row: &Row) -> Vec<f64> {
    let mut found = Vec::new();
    row.vjp.iter().chain(&row.jvp).for_each(|(_, rule)| walk::block(rule, &mut |e| note(e, &mut found)));
    row.at.iter().for_each(|(cond, _)| walk::expr(cond, &mut |e| note(e, &mut found)));
    found
}

fn note(e: &Expr, found: &mut Vec<f64>) {
    if let Some(number) = literal(e).map(Scalar::as_f64)
        && !found.contains(&number)
    {
        found.push(number);
    }
}

/// The numbers with which a row compares a size or an option.
pub fn of(row: &Row, name: Name) -> Vec<Threshold> {
    let mut found = Vec::new();
    each(row, &mut |side, threshold| {
        if matches!(&*side.node, Node::Name(n) if *n == name) && !found.contains(&threshold) {
            found.push(threshold);
        }
    });
    found
}

/// The numbers by which a size, or an index that runs over it, is divided: `N / 4`, `n % 5`.
pub fn divisors(row: &Row, size: Name) -> Vec<i64> {
    let mut found = Vec::new();
    let mut look = |e: &Expr| {
        let Some((of, by)) = super::walk::division(e) else { return };
        let (Node::Int(by), mut divided) = (&*by.node, false) else { return };
        super::walk::expr_names(of, &mut |name| divided |= name == size || name.size_of_index() == size);
        if divided && !found.contains(by) {
            found.push(*by);
        }
    };
    texts(row).for_each(|block| walk::block(block, &mut look));
    conditions(row).for_each(|cond| walk::expr(cond, &mut look));
    let types = row.sig.params.iter().map(|param| &param.ty).chain(row.sig.outs.iter().map(|out| &out.ty));
    for dim in types.flat_map(|ty| ty.dims.iter().flatten()) {
        if let DimKind::One { size, .. } = &dim.kind {
            walk::expr(size, &mut look);
        }
    }
    found
}

/// The numbers with which a row compares the rank of a list of sizes: `len(S) == 4`, or `rank(x) > 3` with any `x`.
pub fn of_rank(row: &Row, list: Name) -> Vec<i64> {
    let mut found = Vec::new();
    each(row, &mut |side, threshold| {
        if let Node::Call(f, args) = &*side.node
            && let [arg] = args.as_slice()
            && (f.name == "rank" || f.name == "len" && matches!(&*arg.value.node, Node::Name(n) if *n == list))
        {
            found.push(threshold.number.as_i64());
        }
    });
    found
}
