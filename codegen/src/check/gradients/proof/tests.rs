//! Tests that equal terms have one normal form, and that terms with one normal form are equal: random terms, their
//! other spellings, and their mutants.

use fulgurite_core::Name;
use fulgurite_core::derive::term::{Scope, Terms};
use fulgurite_core::lang::{BinOp, Dialect, Expr, Node, parse_expr};
use fulgurite_core::lower::NoRows;

use super::equal;
use crate::check::gradients::arrays::dual::number;
use crate::check::gradients::arrays::numbers::Numbers;

const NAMES: [&str; 3] = ["x", "y", "g"];

fn parse(text: &str) -> Expr {
    parse_expr(text, Dialect::Index).unwrap_or_else(|e| panic!("{text}: {e:?}"))
}

fn same(a: &str, b: &str) -> bool {
    let names = NAMES.map(Name::new).to_vec();
    let mut terms = Terms::new(&NoRows, names, None);
    let [a, b] = [a, b].map(|text| terms.one(&parse(text), &Scope::default()).expect(text));
    equal(&terms, a, b, &[])
}

/// The value at a point, computed without any part of the prover.
fn value(e: &Expr, at: &[f64; 3]) -> f64 {
    number(e, &|name| NAMES.iter().position(|known| name == *known).map(|i| at[i]))
}

/// Whether two texts agree where both have values, at points of all signs, some of them ties.
fn agree(a: &str, b: &str) -> bool {
    let (a, b) = (parse(a), parse(b));
    let mut numbers = Numbers::new(9);
    (0..60).all(|n| {
        let mut at = [0; 3].map(|_| numbers.weight() * 2.0);
        if n % 10 == 0 {
            at[1] = at[0];
        }
        let (a, b) = (value(&a, &at), value(&b, &at));
        !a.is_finite() || !b.is_finite() || (a - b).abs() <= 1e-7 * (1.0 + a.abs() + b.abs())
    })
}

struct Make(u64);

impl Make {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    /// A random term.
    fn term(&mut self, depth: usize) -> String {
        if depth == 0 {
            return ["x", "y", "g", "2", "0.5", "3"][self.below(6)].to_owned();
        }
        let (a, b) = (self.term(depth - 1), self.term(depth - 1));
        match self.below(12) {
            0 | 1 => format!("({a} + {b})"),
            2 => format!("({a} - {b})"),
            3..6 => format!("({a} * {b})"),
            6 => format!("{a} / (1.0 + {b} * {b})"),
            7 => format!("exp(0.25 * {a})"),
            8 => format!("tanh({a})"),
            9 => format!("sin({a})"),
            10 => format!("(if {a} > {b} {{ {b} }} else {{ {a} }})"),
            _ => format!("sqrt(1 + {a} * {a})"),
        }
    }

    /// Returns another spelling of the same value.
    fn respell(&mut self, text: &str) -> String {
        self.walk(&parse(text), &mut |make, node| {
            Some(match node {
                Node::Binary(BinOp::Add, a, b) => format!("({b} + {a})"),
                Node::Binary(BinOp::Sub, a, b) => format!("(-({b}) + ({a}))"),
                Node::Binary(BinOp::Mul, a, b) => match &*b.node {
                    Node::Binary(BinOp::Add, b, c) => format!("(({a}) * ({b}) + ({c}) * ({a}))"),
                    _ if make.below(2) == 0 => format!("((({a}) + 1) * ({b}) - ({b}))"),
                    _ => format!("(({b}) * ({a}))"),
                },
                Node::Call(f, args) => {
                    let u = &args[0].value;
                    match f.name.as_str() {
                        "exp" => format!("(exp(0.5 * ({u})) * exp(0.5 * ({u})))"),
                        "tanh" => format!("(1 - 2 * sigmoid(-2 * ({u})))"),
                        "sin" => format!("(-sin(-({u})))"),
                        "sqrt" => format!("(({u}) / sqrt({u}))"),
                        _ => return None,
                    }
                }
                Node::If(c, a, b) => match &*c.node {
                    Node::Binary(BinOp::Gt, l, r) => format!("(if {l} <= {r} {{ {b} }} else {{ {a} }})"),
                    _ => return None,
                },
                _ => return None,
            })
        })
    }

    /// Returns a text that mostly has another value: it changes a sign, a factor, an operator or an argument.
    fn mutate(&mut self, text: &str) -> String {
        let mut left = self.below(6);
        self.walk(&parse(text), &mut |make, node| {
            let mutant = match node {
                Node::Binary(BinOp::Add, a, b) => format!("(({a}) - ({b}))"),
                Node::Binary(BinOp::Sub, a, b) => format!("(({b}) - ({a}))"),
                Node::Binary(BinOp::Mul, a, b) => {
                    [format!("(({a}) * ({b}) * 1.0001)"), format!("(({a}) * ({a}))")][make.below(2)].clone()
                }
                Node::Name(_) => ["x", "y", "g"][make.below(3)].to_owned(),
                Node::Call(f, args) => format!("{f}(-({}))", args[0].value),
                Node::If(c, a, b) => format!("(if {c} {{ {b} }} else {{ {a} }})"),
                _ => return None,
            };
            left = left.checked_sub(1)?;
            (left == 0).then_some(mutant)
        })
    }

    /// Returns the text of `e`, with `change` made to some of its nodes.
    fn walk(&mut self, e: &Expr, change: &mut dyn FnMut(&mut Make, &Node) -> Option<String>) -> String {
        let mut inside = |e: &Expr| parse(&self.walk(e, change));
        let node = match e.clone().into_node() {
            Node::Unary(op, a) => Node::Unary(op, inside(&a)),
            Node::Binary(op, a, b) => Node::Binary(op, inside(&a), inside(&b)),
            Node::Call(f, mut args) => {
                args.iter_mut().for_each(|arg| arg.value = inside(&arg.value));
                Node::Call(f, args)
            }
            Node::If(c, mut a, mut b) => {
                (a.value, b.value) = (inside(&a.value), inside(&b.value));
                Node::If(c, a, b)
            }
            other => other,
        };
        change(self, &node).unwrap_or_else(|| format!("({})", Expr::bare(node)))
    }
}

#[test]
fn usual_identities_are_proved() {
    for (a, b) in [
        ("g * (1 - tanh(x) * tanh(x))", "4 * g / ((exp(x) + exp(-x)) * (exp(x) + exp(-x)))"),
        ("sigmoid(x) * (1 - sigmoid(x))", "exp(-x) * sigmoid(x) * sigmoid(x)"),
        ("g / (2 * sqrt(x))", "g * 0.5 * sqrt(x) / x"),
        ("g * cos(x) * cos(x)", "g - g * sin(x) * sin(-x) * -1"),
        ("if x > 0 { g } else { 0 }", "if 0 >= x { 0 } else { g }"),
        ("if x > 0 { g } else if x < 0 { -g } else { 0 }", "g * sign(x)"),
        ("g * max(x, y)", "g * 0.5 * (x + y + abs(y - x))"),
        ("if x == y { x } else { y }", "y"),
        ("exp(x) * exp(y)", "exp(x + y)"),
        ("ln(x) - ln(x) + x * x", "exp(2 * ln(x))"),
        ("g * pow(x, 3)", "g * x * x * exp(0 * y) * x"),
        ("x * 0.7071067811865476 * 0.7071067811865476", "x * 0.5"),
        ("x * FRAC_1_SQRT_2 * exp(-(x * FRAC_1_SQRT_2) * (x * FRAC_1_SQRT_2))", "x / sqrt(2.0) * exp(-0.5 * x * x)"),
        ("x * 0.13414500000000001", "x * 3 * 0.044715"),
        ("log1p(exp(x))", "ln(exp(x) + 1)"),
    ] {
        assert!(same(a, b), "{a} = {b}");
    }
}

#[test]
fn what_differs_somewhere_is_not_proved() {
    for (a, b) in [
        // at 0
        ("if x > 0 { g } else { 0 }", "if x >= 0 { g } else { 0 }"),
        // below 0
        ("sqrt(x * x)", "x"),
        ("sqrt(x * y)", "sqrt(x) * sqrt(y)"),
        // one side has a value where the other has none
        ("g * x / x", "g"),
        ("g * sqrt(x) * sqrt(x)", "g * x"),
        // digits
        ("1.0000000000001 * x", "x"),
        ("(10000000000000 + 1) * x - 10000000000000 * x", "0 * x"),
        ("1e300 * 1e300 * x", "2e300 * 1e300 * x"),
        // a division of integers rounds down
        ("1 / 2 * x", "0.5 * x"),
        ("x / y", "y / x"),
    ] {
        assert!(!same(a, b), "{a} = {b}");
    }
}

#[test]
fn other_spellings_are_proved() {
    let (mut make, mut proved) = (Make(3), 0);
    const TERMS: usize = 400;
    for _ in 0..TERMS {
        let a = make.term(3);
        let b = make.respell(&a);
        assert!(agree(&a, &b), "{a}\n{b}");
        proved += usize::from(same(&b, &a));
    }
    // the rest grows beyond the budget, or asks for too many regions
    assert!(proved * 10 > TERMS * 9, "{proved} of {TERMS}");
}

#[test]
fn mutants_are_not_proved() {
    let (mut make, mut different) = (Make(7), 0);
    for _ in 0..2000 {
        let a = make.term(3);
        let b = make.mutate(&a);
        let agree = agree(&a, &b);
        different += usize::from(!agree);
        assert!(agree || !same(&b, &a), "{a}\n{b}");
    }
    assert!(different > 800, "{different}");
}

#[test]
fn no_text_takes_long() {
    let sum: String = (0..40).map(|n| format!(" + sin({n} * x) * cos({n} * y)")).collect();
    let (sum, nested) = (format!("(x{sum})"), (0..30).fold("x".to_owned(), |e, n| format!("sqrt({n} + {e} * y)")));
    let asks: String = (1..30).map(|n| format!(" + abs(x - {n} * y * y)")).collect();
    for a in [format!("{sum} * {sum} * {sum} * {sum} * {sum}"), nested, format!("x{asks}"), format!("pow({sum}, 16)")] {
        let start = std::time::Instant::now();
        same(&a, &format!("1.5 * {a}"));
        assert!(start.elapsed().as_secs_f64() < 5.0, "{:?} {a}", start.elapsed());
    }
}
