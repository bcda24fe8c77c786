//! Faults in one node of an expression.

use fulgurite_core::Name;
use fulgurite_core::lang::{
    Arg, BinOp, Block, Elem, Expr, Ident, ListItem, Node, Outside, Place, Red, Reduce, Span, TensorAccess, UnOp,
};

use super::kinds::Kind;

/// The names that a fault may exchange.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Groups of names of one kind: tensors, sizes, cotangents.
    pub groups: Vec<Vec<Name>>,
    /// Values that a gradient may mistake for constants.
    pub residuals: Vec<Name>,
}

/// Functions that are easily confused, each with its replacement and the kind of the fault.
const NEIGHBOURS: &[(&str, &str, u8)] = &[
    ("sin", "cos", 9),
    ("cos", "sin", 9),
    ("tan", "tanh", 9),
    ("tanh", "tan", 9),
    ("asin", "acos", 9),
    ("acos", "asin", 9),
    ("atan", "atanh", 9),
    ("atanh", "atan", 9),
    ("sinh", "cosh", 9),
    ("cosh", "sinh", 9),
    ("asinh", "acosh", 9),
    ("acosh", "asinh", 9),
    ("exp", "exp2", 9),
    ("exp2", "exp", 9),
    ("expm1", "exp", 9),
    ("ln", "log2", 9),
    ("log2", "log10", 9),
    ("log10", "log2", 9),
    ("log1p", "ln", 9),
    ("sqrt", "rsqrt", 9),
    ("rsqrt", "sqrt", 9),
    ("erf", "erfc", 9),
    ("erfc", "erf", 9),
    ("erfcx", "erfc", 9),
    ("erfinv", "erf", 9),
    ("sigmoid", "tanh", 9),
    ("abs", "sign", 9),
    ("sign", "abs", 9),
    ("lgamma", "digamma", 9),
    ("digamma", "lgamma", 9),
    ("i0", "i0e", 9),
    ("i0e", "i0", 9),
    ("i1", "i0", 9),
    ("i1e", "i1", 9),
    ("max", "min", 19),
    ("min", "max", 19),
    ("amax", "amin", 19),
    ("amin", "amax", 19),
    ("floor", "trunc", 21),
    ("trunc", "floor", 21),
    ("ceil", "floor", 21),
    ("round", "floor", 21),
    ("rem_floor", "rem_trunc", 21),
    ("rem_trunc", "rem_floor", 21),
    ("div_floor", "div_trunc", 21),
    ("div_trunc", "div_floor", 21),
    ("bitand", "bitor", 9),
    ("bitor", "bitxor", 9),
    ("bitxor", "bitand", 9),
    ("shl", "shr", 9),
    ("shr", "shl", 9),
    ("gcd", "lcm", 9),
    ("lcm", "gcd", 9),
    ("isinf", "isnan", 20),
    ("isnan", "isinf", 20),
    ("isfinite", "isinf", 20),
    ("sum", "mean", 3),
    ("mean", "sum", 3),
    ("cumsum", "cumprod", 9),
    ("zeros", "ones_like", 19),
];

/// Calls that wrap a value, with the kind of the fault if the call is forgotten.
const AROUND: &[(&str, u8)] = &[
    ("unbroadcast", 4),
    ("sum", 4),
    ("detach", 11),
    ("wrap", 17),
    ("flip", 5),
    ("swap", 5),
    ("transpose", 5),
    ("squeeze", 16),
    ("unsqueeze", 16),
    ("reshape", 16),
    ("roll", 10),
    ("cast", 13),
    ("abs", 3),
    ("max", 31),
    ("min", 31),
];

pub fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|value| Arg { name: None, value }).collect();
    Expr::bare(Node::Call(Ident { name: Name::new(name), span: Span::default() }, args))
}

fn bin(op: BinOp, a: &Expr, b: &Expr) -> Expr {
    Expr::bare(Node::Binary(op, a.clone(), b.clone()))
}

/// The faults of this node: kind, and replacement.
pub fn faults(e: &Expr, names: &Names) -> Vec<(Kind, Expr)> {
    let mut all = Vec::new();
    let mut add = |kind: u8, new: Expr| all.push((Kind(kind), new));
    match &*e.node {
        Node::Int(n) => {
            add(30, Expr::bare(Node::Int(n + 1)));
            if *n > 0 {
                add(30, Expr::bare(Node::Int(n - 1)));
            }
        }
        Node::Float(x) => add(30, Expr::bare(Node::Float(x * 1.5))),
        Node::Str(_) | Node::Zip(_) | Node::Spread(_) => {}
        Node::Name(name) => name_faults(*name, names, &mut add),
        Node::Tuple(items) => {
            if let [a, b, rest @ ..] = items.as_slice() {
                let swapped = [b, a].into_iter().chain(rest).cloned().collect();
                add(37, Expr::bare(Node::Tuple(swapped)));
            }
        }
        Node::Unary(UnOp::Neg, a) => add(1, a.clone()),
        Node::Unary(UnOp::Not, a) => add(29, a.clone()),
        Node::Binary(op, a, b) => binary(*op, a, b, &mut add),
        Node::Cast(a, _) => add(13, a.clone()),
        Node::If(c, yes, no) => {
            add(29, Expr::bare(Node::If(c.clone(), no.clone(), yes.clone())));
            if yes.stmts.is_empty() && no.stmts.is_empty() {
                add(29, yes.value.clone());
                add(29, no.value.clone());
                branch_times(c, &yes.value, &no.value, &mut add);
            }
        }
        Node::Match(on, arms) => {
            if let [(a, x), (b, y), rest @ ..] = arms.as_slice() {
                let swapped = [(*a, y.clone()), (*b, x.clone())].into_iter().chain(rest.iter().cloned()).collect();
                add(29, Expr::bare(Node::Match(*on, swapped)));
            }
        }
        Node::Call(f, args) => calls(*f, args, &mut add),
        Node::Access(access) => accesses(access, names, &mut add),
        Node::Reduce(reduce) => reductions(reduce, &mut add),
        Node::List(items) => lists(items, &mut add),
    }
    all
}

type Add<'a> = &'a mut dyn FnMut(u8, Expr);

fn name_faults(name: Name, names: &Names, add: Add) {
    let constant = match name.as_str() {
        "true" => Some("false"),
        "false" => Some("true"),
        "inf" => Some("1"),
        "nan" => Some("0"),
        "PI" => Some("E"),
        _ => None,
    };
    match constant {
        Some(number @ ("0" | "1")) => add(19, Expr::bare(Node::Int(i64::from(number == "1")))),
        Some(word) => add(30, Expr::name(word)),
        None => {}
    }
    if let Some(other) = other(name, names) {
        add(2, Expr::name(other));
    }
    if names.residuals.contains(&name) {
        add(22, call("detach", vec![Expr::name(name)]));
    }
}

/// The next name of the same group.
fn other(name: Name, names: &Names) -> Option<Name> {
    let group = names.groups.iter().find(|group| group.contains(&name))?;
    let at = group.iter().position(|n| *n == name)?;
    let next = group[(at + 1) % group.len()];
    (next != name).then_some(next)
}

fn binary(op: BinOp, a: &Expr, b: &Expr, add: Add) {
    use BinOp::*;
    match op {
        Add => {
            add(1, bin(Sub, a, b));
            add(3, a.clone());
            add(3, b.clone());
        }
        Sub => {
            add(1, bin(Add, a, b));
            add(2, bin(Sub, b, a));
            add(18, a.clone());
        }
        Mul => {
            add(3, a.clone());
            add(3, b.clone());
            add(34, bin(Add, a, b));
        }
        Div => {
            add(3, a.clone());
            add(2, bin(Div, b, a));
            add(34, bin(Mul, a, b));
        }
        Rem => add(3, a.clone()),
        Lt | Le | Gt | Ge => {
            let (near, opposite) = match op {
                Lt => (Le, Ge),
                Le => (Lt, Gt),
                Gt => (Ge, Le),
                _ => (Gt, Lt),
            };
            add(8, bin(near, a, b));
            add(29, bin(opposite, a, b));
        }
        // `x == x` tests whether x is not NaN.
        Eq => add(if a == b { 20 } else { 29 }, bin(Ne, a, b)),
        Ne => add(if a == b { 20 } else { 29 }, bin(Eq, a, b)),
        And | Or => {
            add(29, bin(if op == And { Or } else { And }, a, b));
            add(29, a.clone());
            add(29, b.clone());
        }
    }
}

/// `if c { 0 } else { e }` as a product: NaN where `e` is infinite.
fn branch_times(c: &Expr, yes: &Expr, no: &Expr, add: Add) {
    let one = || Expr::bare(Node::Cast(c.clone(), Elem::Var(Name::new("T"))));
    match (&*yes.node, &*no.node) {
        (Node::Int(0), _) => {
            let rest = Expr::bare(Node::Binary(BinOp::Sub, Expr::bare(Node::Int(1)), one()));
            add(23, bin(BinOp::Mul, &rest, no));
        }
        (_, Node::Int(0)) => add(23, bin(BinOp::Mul, &one(), yes)),
        _ => {}
    }
}

fn calls(f: Ident, args: &[Arg], add: Add) {
    let rename = |to: &str| Expr::bare(Node::Call(Ident { name: Name::new(to), ..f }, args.to_vec()));
    let name = f.name.as_str();
    if let Some((_, to, kind)) = NEIGHBOURS.iter().find(|(from, ..)| *from == name) {
        add(*kind, rename(to));
    }
    if let (Some((_, kind)), Some(first)) = (AROUND.iter().find(|(from, _)| *from == name), args.first()) {
        add(*kind, first.value.clone());
    }
    match (name, args) {
        ("log1p", [x]) => {
            let sum = bin(BinOp::Add, &Expr::bare(Node::Int(1)), &x.value);
            add(24, call("ln", vec![sum]));
        }
        ("expm1", [x]) => {
            add(24, bin(BinOp::Sub, &call("exp", vec![x.value.clone()]), &Expr::bare(Node::Int(1))));
        }
        ("ceil_div", [a, b]) => add(16, bin(BinOp::Div, &a.value, &b.value)),
        // The fault drops the number of the draw.
        ("uniform", [k, p, _]) => add(27, call("uniform", vec![k.value.clone(), p.value.clone()])),
        _ => {}
    }
    if let [a, b, rest @ ..] = args
        && a.name.is_none()
        && b.name.is_none()
        && a.value != b.value
    {
        let swapped = [b, a].into_iter().chain(rest).cloned().collect();
        add(2, Expr::bare(Node::Call(f, swapped)));
    }
    for (at, _) in args.iter().enumerate().filter(|(_, arg)| arg.name.is_some()) {
        let mut fewer = args.to_vec();
        fewer.remove(at);
        add(36, Expr::bare(Node::Call(f, fewer)));
    }
}

fn accesses(access: &TensorAccess, names: &Names, add: Add) {
    let with = |change: &dyn Fn(&mut TensorAccess)| {
        let mut new = access.clone();
        change(&mut new);
        Expr::bare(Node::Access(new))
    };
    if let Some(name) = other(access.base.name, names) {
        add(2, with(&|a| a.base.name = name));
    }
    for at in 1..access.places.len() {
        if access.places[at - 1] != access.places[at] {
            add(5, with(&|a| a.places.swap(at - 1, at)));
        }
    }
    let first = access.places.iter().position(|place| matches!(place, Place::One(_)));
    if let Some(at) = first {
        add(
            10,
            with(&|a| {
                if let Place::One(e) = &mut a.places[at] {
                    *e = bin(BinOp::Add, e, &Expr::bare(Node::Int(1)));
                }
            }),
        );
    }
    match &access.outside {
        Outside::Refuse => {}
        Outside::Skip => {
            add(31, with(&|a| a.outside = Outside::Refuse));
            add(31, with(&|a| a.outside = Outside::Value(Expr::bare(Node::Int(0)))));
        }
        Outside::Value(_) => add(31, with(&|a| a.outside = Outside::Refuse)),
    }
}

fn reductions(reduce: &Reduce, add: Add) {
    let with = |change: &dyn Fn(&mut Reduce)| {
        let mut new = reduce.clone();
        change(&mut new);
        Expr::bare(Node::Reduce(new))
    };
    let (red, kind) = match reduce.red {
        Red::Sum => (Red::Prod, 19),
        Red::Prod => (Red::Sum, 19),
        Red::Mean => (Red::Sum, 3),
        Red::Max => (Red::Min, 19),
        Red::Min => (Red::Max, 19),
        Red::Any => (Red::All, 19),
        Red::All => (Red::Any, 19),
        Red::ArgMax => (Red::ArgMin, 19),
        Red::ArgMin => (Red::ArgMax, 19),
        Red::First => (Red::Last, 8),
        Red::Last => (Red::First, 8),
        Red::Only => (Red::Sum, 19),
    };
    add(kind, with(&|r| r.red = red));
    if reduce.red == Red::Sum {
        add(6, with(&|r| r.red = Red::Max));
        add(3, with(&|r| r.red = Red::Mean));
    }
    if reduce.filter.is_some() {
        add(31, with(&|r| r.filter = None));
    }
    if reduce.otherwise.is_some() {
        add(19, with(&|r| r.otherwise = None));
    }
    let one = || Expr::bare(Node::Int(1));
    for (at, bind) in reduce.binds.iter().flatten().enumerate() {
        let Some((lo, hi)) = &bind.range else { continue };
        let set = |lo: Expr, hi: Expr| {
            with(&|r| {
                if let Some(bind) = r.binds.as_mut().and_then(|binds| binds.get_mut(at)) {
                    bind.range = Some((lo.clone(), hi.clone()));
                }
            })
        };
        add(10, set(bin(BinOp::Add, lo, &one()), hi.clone()));
        add(10, set(lo.clone(), bin(BinOp::Sub, hi, &one())));
    }
}

fn lists(items: &[ListItem], add: Add) {
    if let [a, b, rest @ ..] = items
        && a != b
    {
        let swapped = [b, a].into_iter().chain(rest).cloned().collect();
        add(5, Expr::bare(Node::List(swapped)));
    }
    if let [fewer @ .., _] = items {
        add(5, Expr::bare(Node::List(fewer.to_vec())));
    }
}

/// A block of one expression.
pub fn block(value: Expr) -> Block {
    Block { stmts: Vec::new(), value }
}
