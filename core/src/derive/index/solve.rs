//! Equations between places and result indices, solved for the variables of the sum.
//!
//! Reading at `e(o)` transposes to a sum over `o` with `e(o) == i`. A variable that such an equation determines leaves
//! the sum: `i = o + c` gives `o = i - c`, a flat position gives its unravelling, a filter `index[m] == n` gives `n =
//! index[m]`. An equation that solves for no variable stays as a filter.

use super::subst::{self, Sub};
use super::var::{Kind, Var};
use crate::Name;
use crate::derive::{NotDerivable, make, walk};
use crate::lang::ast::*;

/// `left == right`, per axis if `list`.
#[derive(Clone, Debug, PartialEq)]
pub struct Eq {
    /// The side in the variables of the sum.
    pub left: Expr,
    /// The side in the indices of the result.
    pub right: Expr,
    /// Whether both sides are lists of indices.
    pub list: bool,
}

/// One term during solving: the sum of `body` over `vars` where `conds` hold.
#[derive(Clone, Debug)]
pub struct Sum {
    /// The summation variables.
    pub vars: Vec<Var>,
    /// Equations not yet used.
    pub eqs: Vec<Eq>,
    /// Conditions.
    pub conds: Vec<Expr>,
    /// The summand, which reads the cotangent (and parts).
    pub body: Expr,
}

/// Facts that solving uses.
pub struct Known<'a> {
    /// Result indices and their sizes.
    pub result: Vec<(Name, Expr)>,
    /// The position in a list of tensors, and the length of the list.
    pub item: Option<(Name, Expr)>,
    /// Sizes that have another form: `L = len(xs)`.
    pub aliases: Vec<(Name, Expr)>,
    /// The cotangent: only its accesses may lie outside.
    pub seed: Name,
    /// Whether the elements of an argument are indices below a size; with `true`, whether `wrap` makes them so.
    pub is_index: &'a dyn Fn(Name, &Expr, bool) -> bool,
    /// Whether an option is above 0 in every call; `None` if the name is not an option.
    pub positive: &'a dyn Fn(Name) -> Option<bool>,
}

impl Known<'_> {
    /// Whether a factor may be 0 because an option may be 0. A product with such a factor determines nothing about the
    /// other factor.
    fn may_be_zero(&self, by: &Expr) -> bool {
        match &*by.node {
            Node::Name(n) => (self.positive)(*n) == Some(false),
            Node::Binary(BinOp::Mul, a, b) => self.may_be_zero(a) || self.may_be_zero(b),
            _ => walk::names(by).into_iter().any(|n| (self.positive)(n).is_some()),
        }
    }

    /// Whether index `i` runs over exactly this size.
    fn runs_over(&self, i: Name, size: &Expr) -> bool {
        let alias = self.aliases.iter().find(|(n, _)| make::as_name(size) == Some(*n)).map(|(_, e)| e);
        let mut known = self.result.iter().chain(&self.item);
        known.any(|(n, s)| *n == i && (s == size || Some(s) == alias))
    }
}

type Res<X> = Result<X, NotDerivable>;

/// A variable in terms of everything else.
struct Solution {
    var: Var,
    sub: Sub,
    /// Conditions under which the solution exists.
    conds: Vec<Expr>,
}

impl Sum {
    /// Solves all equations that determine a variable.
    pub fn solve(&mut self, known: &Known<'_>) -> Res<()> {
        self.equations_of_conds();
        for step in [Step::Plain, Step::Shift, Step::Scale] {
            while let Some((at, solution)) = self.find(step, known) {
                self.eqs.remove(at);
                self.apply(solution, known)?;
            }
        }
        for eq in std::mem::take(&mut self.eqs) {
            if eq.left != eq.right {
                self.conds.push(eq.cond());
            }
        }
        self.ranges(known);
        Ok(())
    }

    /// Turns conditions `a == b` that may determine a variable into equations.
    fn equations_of_conds(&mut self) {
        let mut conds = Vec::new();
        for c in std::mem::take(&mut self.conds) {
            split(&c, BinOp::And, &mut conds);
        }
        for c in conds {
            let (list, inner) = match &*c.node {
                Node::Reduce(Reduce { red: Red::All, binds: None, body, .. }) => (true, body.clone()),
                _ => (false, c.clone()),
            };
            let mut parts = Vec::new();
            split(&inner, BinOp::And, &mut parts);
            for p in parts {
                match &*p.node {
                    Node::Binary(BinOp::Eq, l, r) if self.is_index_equation(l, r) => {
                        self.eqs.push(Eq { left: l.clone(), right: r.clone(), list });
                    }
                    _ if list => self.conds.push(make::over_axes(Red::All, p)),
                    _ => self.conds.push(p),
                }
            }
        }
    }

    /// Whether a variable stands bare (not inside an access) on one side.
    fn is_index_equation(&self, l: &Expr, r: &Expr) -> bool {
        let bare = |e: &Expr| {
            walk::any(e, &mut |e| matches!(&*e.node, Node::Name(n) if self.vars.iter().any(|v| v.name == *n)))
        };
        let opaque = |e: &Expr| walk::any(e, &mut |e| matches!(&*e.node, Node::Reduce(_)));
        (bare(l) || bare(r)) && !opaque(l) && !opaque(r)
    }

    fn find(&self, step: Step, known: &Known<'_>) -> Option<(usize, Solution)> {
        for (at, eq) in self.eqs.iter().enumerate() {
            let unknown: Vec<&Var> =
                self.vars.iter().filter(|v| mentions(&eq.left, v.name) || mentions(&eq.right, v.name)).collect();
            // `o * stride + k` is solved for `o`, so that the sum runs over the few places of a window.
            let solved = |v: &Var, step: Step| eq.solve_for(v, step, known);
            let scaled = |v: &Var| solved(v, Step::Shift).is_none() && solved(v, Step::Scale).is_some();
            let waits = step == Step::Shift && unknown.iter().any(|v| scaled(v));
            for v in unknown.iter().filter(|v| !waits || scaled(v)) {
                if let Some(s) = solved(v, step) {
                    return Some((at, s));
                }
            }
        }
        None
    }

    fn apply(&mut self, solution: Solution, known: &Known<'_>) -> Res<()> {
        let Solution { var, sub, conds } = solution;
        let parts: Vec<Var> = self.vars.iter().filter(|v| v.name == var.name).cloned().collect();
        self.vars.retain(|v| v.name != var.name);
        let fits = var.fits(&sub, known);
        let mut outside = false;
        if !fits && !parts.iter().any(|p| matches!(p.kind, Kind::Part(_))) {
            outside = reads_plainly(&self.body, known.seed, &var);
            if !outside {
                self.conds.extend(var.within(&sub)?);
            }
        }
        let others = |n: Name| sub.mentions(n) && n != var.name;
        let sides = self.eqs.iter().flat_map(|e| [&e.left, &e.right]);
        if sides.chain(&self.conds).chain([&self.body]).any(|e| subst::captures(e, var.name, &others)) {
            return Err(NotDerivable::new(format!("`{}` would be captured by a reduction", var.name)));
        }
        if outside {
            self.body = mark_outside(&self.body, known.seed);
        }
        let put = |e: &Expr| subst::expr(e, &var, &sub);
        for eq in &mut self.eqs {
            (eq.left, eq.right) = (put(&eq.left)?, put(&eq.right)?);
        }
        self.conds = self.conds.iter().map(put).collect::<Res<_>>()?;
        self.body = put(&self.body)?;
        for v in &mut self.vars {
            if let Kind::One(lo, hi) | Kind::List(lo, hi) = &mut v.kind {
                (*lo, *hi) = (put(lo)?, put(hi)?);
            }
        }
        self.conds.extend(conds);
        Ok(())
    }

    /// Conditions that bound a variable by a result index become its range.
    fn ranges(&mut self, known: &Known<'_>) {
        let mut conds = Vec::new();
        for c in std::mem::take(&mut self.conds) {
            if !self.range(&c, known) {
                conds.push(c);
            }
        }
        self.conds = conds;
    }

    fn range(&mut self, c: &Expr, known: &Known<'_>) -> bool {
        let Node::Binary(op, l, r) = &*c.node else { return false };
        // Comparisons are normalised to `v < bound` or `bound <= v`.
        let (op, l, r) = match op {
            BinOp::Lt | BinOp::Le => (*op, l.clone(), r.clone()),
            BinOp::Gt => (BinOp::Lt, r.clone(), l.clone()),
            BinOp::Ge => (BinOp::Le, r.clone(), l.clone()),
            _ => return false,
        };
        let strict = op == BinOp::Lt;
        let size_of =
            |e: &Expr| known.result.iter().find(|(n, _)| make::as_name(e) == Some(*n)).map(|(_, s)| s.clone());
        for v in &mut self.vars {
            let Kind::One(lo, hi) = &mut v.kind else { continue };
            let Some(size) = make::as_name(hi).filter(|_| make::as_int(lo) == Some(0)) else { continue };
            let same = |e: &Expr| size_of(e).is_some_and(|s| make::as_name(&s) == Some(size));
            // e < v + 1, e <= v
            let plus_one = make::add(make::name(v.name), make::int(1));
            if (strict && r == plus_one || !strict && make::as_name(&r) == Some(v.name)) && size_of(&l).is_some() {
                *lo = l;
                return true;
            }
            if strict && make::as_name(&r) == Some(v.name) && size_of(&l).is_some() {
                *lo = make::add(l, make::int(1));
                return true;
            }
            if make::as_name(&l) == Some(v.name) && same(&r) {
                *hi = if strict { r } else { make::add(r, make::int(1)) };
                return true;
            }
        }
        false
    }
}

/// The order in which equations are solved: the cheapest first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// A variable stands alone.
    Plain,
    /// A variable in a sum, a difference, a rotation or a flat position.
    Shift,
    /// A variable times a factor: solved where the factor divides.
    Scale,
}

impl Eq {
    /// The equation as a condition.
    fn cond(self) -> Expr {
        let e = make::binary(BinOp::Eq, self.left, self.right);
        if self.list { make::over_axes(Red::All, e) } else { e }
    }

    fn solve_for(&self, v: &Var, step: Step, known: &Known<'_>) -> Option<Solution> {
        let flat = |e: &Expr| is_flat(e, v.name);
        let (from, to) = match (mentions(&self.left, v.name), mentions(&self.right, v.name)) {
            (true, false) => (&self.left, &self.right),
            (false, true) => (&self.right, &self.left),
            _ => return None,
        };
        // A list is solved axis by axis, or as a flat position.
        if v.is_list() && !self.list {
            let sizes = flat(from)?;
            let call = make::call("unravel", [to.clone(), sizes]);
            return Some(Solution { var: v.clone(), sub: Sub::Unravel(call), conds: Vec::new() });
        }
        if !v.is_list() && self.list {
            return None;
        }
        if step == Step::Plain && make::as_name(from) != Some(v.name) {
            return None;
        }
        if walk::any(from, &mut |e| matches!(&*e.node, Node::Access(_) | Node::Reduce(_) if mentions(e, v.name))) {
            return None;
        }
        let (value, conds) = invert(from, to.clone(), v, step, known)?;
        // In `floor(g[p]) + i == h`, each of the few values of `i` places an element. Solved for `i`, each `h` would
        // have to search all elements for those that it receives.
        let few = matches!(&v.kind, Kind::One(lo, hi) if make::as_int(lo).is_some() && make::as_int(hi).is_some());
        if few && step != Step::Plain && walk::reads(&value) {
            return None;
        }
        let conds: Vec<Expr> =
            if self.list { conds.into_iter().map(|c| make::over_axes(Red::All, c)).collect() } else { conds };
        let sub = match make::as_name(&value) {
            Some(n) if v.is_list() && self.list => Sub::Rename(n),
            _ if self.list => Sub::Zip(value),
            _ => Sub::One(value),
        };
        Some(Solution { var: v.clone(), sub, conds })
    }
}

/// The `v` for which `from` equals `to`, with the conditions under which it exists.
fn invert(from: &Expr, to: Expr, v: &Var, step: Step, known: &Known<'_>) -> Option<(Expr, Vec<Expr>)> {
    let has = |e: &Expr| mentions(e, v.name);
    match &*from.node {
        Node::Name(n) if *n == v.name => Some((to, Vec::new())),
        Node::Unary(UnOp::Neg, a) => invert(a, make::sub(make::int(0), to), v, step, known),
        Node::Binary(op, a, b) if has(a) != has(b) => match (op, has(a)) {
            (BinOp::Add, true) => invert(a, make::sub(to, b.clone()), v, step, known),
            (BinOp::Add, false) => invert(b, make::sub(to, a.clone()), v, step, known),
            (BinOp::Sub, true) => invert(a, make::add(to, b.clone()), v, step, known),
            (BinOp::Sub, false) => invert(b, make::sub(a.clone(), to), v, step, known),
            (BinOp::Mul, left) if step == Step::Scale => {
                let (inner, by) = if left { (a, b) } else { (b, a) };
                if known.may_be_zero(by) {
                    return None;
                }
                let whole = make::binary(BinOp::Eq, floored(BinOp::Rem, &to, by), make::int(0));
                let (value, mut conds) = invert(inner, floored(BinOp::Div, &to, by), v, step, known)?;
                conds.push(whole);
                Some((value, conds))
            }
            // A rotation of the variable's whole range.
            (BinOp::Rem, true) => {
                let (Kind::One(lo, hi) | Kind::List(lo, hi)) = &v.kind else { return None };
                if make::as_int(lo) != Some(0) || hi != b {
                    return None;
                }
                let (shifted, conds) = invert(a, to, v, Step::Shift, known)?;
                Some((make::binary(BinOp::Rem, shifted, b.clone()), conds))
            }
            _ => None,
        },
        Node::If(c, a, b) if !has(c) && a.stmts.is_empty() && b.stmts.is_empty() => {
            let (x, xs) = invert(&a.value, to.clone(), v, step, known)?;
            let (y, ys) = invert(&b.value, to, v, step, known)?;
            if !xs.is_empty() || !ys.is_empty() {
                return None;
            }
            Some((make::branch(c.clone(), x, y), Vec::new()))
        }
        _ => None,
    }
}

/// A floored quotient or remainder. Elements need the builtins `div_floor` and `rem_floor`, since `/` divides floats
/// exactly.
fn floored(op: BinOp, a: &Expr, b: &Expr) -> Expr {
    let elements = [a, b].into_iter().any(walk::reads);
    match elements {
        true => make::call(if op == BinOp::Div { "div_floor" } else { "rem_floor" }, [a.clone(), b.clone()]),
        false => make::binary(op, a.clone(), b.clone()),
    }
}

/// The sizes if `e` is the flat position of list `v`.
fn is_flat(e: &Expr, v: Name) -> Option<Expr> {
    match &*e.node {
        Node::Call(f, args) if f.name == "ravel" && make::as_name(&args.first()?.value) == Some(v) => {
            Some(args.get(1).map_or_else(|| make::name(v.size_of_index()), |a| a.value.clone()))
        }
        _ => None,
    }
}

/// Whether `e` mentions `v`, also in the places of accesses.
fn mentions(e: &Expr, v: Name) -> bool {
    walk::mentions(e, v)
}

fn split(e: &Expr, op: BinOp, out: &mut Vec<Expr>) {
    match &*e.node {
        Node::Binary(o, a, b) if *o == op => {
            split(a, op, out);
            split(b, op, out);
        }
        _ => out.push(e.clone()),
    }
}

impl Sub {
    fn value(&self) -> Option<&Expr> {
        match self {
            Sub::One(e) | Sub::Zip(e) | Sub::Unravel(e) => Some(e),
            Sub::Rename(_) => None,
        }
    }

    fn mentions(&self, n: Name) -> bool {
        match self {
            Sub::Rename(r) => *r == n,
            other => other.value().is_some_and(|e| mentions(e, n)),
        }
    }
}

impl Var {
    /// Whether the solution certainly lies in the variable's range.
    fn fits(&self, sub: &Sub, known: &Known<'_>) -> bool {
        let (Kind::One(lo, hi) | Kind::List(lo, hi)) = &self.kind else { return true };
        if make::as_int(lo) != Some(0) {
            return false;
        }
        match sub {
            Sub::Rename(r) => known.runs_over(*r, hi),
            Sub::Unravel(call) => {
                matches!(&*call.node, Node::Call(_, args) if args.get(1).is_some_and(|s| s.value == *hi))
            }
            Sub::One(e) | Sub::Zip(e) => inside(e, hi, known),
        }
    }

    /// The conditions under which the solution lies in the variable's range.
    fn within(&self, sub: &Sub) -> Res<Vec<Expr>> {
        let (Kind::One(lo, hi) | Kind::List(lo, hi)) = &self.kind else { return Ok(Vec::new()) };
        let value = match sub {
            Sub::One(e) | Sub::Zip(e) => e.clone(),
            Sub::Rename(r) => make::name(*r),
            Sub::Unravel(_) => return Err(NotDerivable::new("a flat position may lie outside")),
        };
        let simple = make::as_name(&value).is_some();
        let mut conds = Vec::new();
        // An index is never negative.
        if !(simple && make::as_int(lo) == Some(0)) {
            conds.push(make::binary(BinOp::Le, lo.clone(), value.clone()));
        }
        conds.push(make::binary(BinOp::Lt, value, hi.clone()));
        Ok(match self.kind {
            Kind::List(..) => make::all(conds).map(|c| make::over_axes(Red::All, c)).into_iter().collect(),
            _ => conds,
        })
    }
}

/// Whether the form of `e` shows `0 <= e < size`.
fn inside(e: &Expr, size: &Expr, known: &Known<'_>) -> bool {
    match &*e.node {
        Node::Name(n) => known.runs_over(*n, size),
        Node::Access(a) => (known.is_index)(a.base.name, size, false),
        Node::Call(f, args) if f.name == "wrap" && args.get(1).is_some_and(|s| s.value == *size) => {
            match &*args[0].value.node {
                Node::Access(a) => (known.is_index)(a.base.name, size, true),
                _ => true,
            }
        }
        Node::Binary(BinOp::Rem, _, by) => by == size,
        Node::If(_, a, b) => inside(&a.value, size, known) && inside(&b.value, size, known),
        // `size - 1 - i` for an index `i`.
        Node::Binary(BinOp::Sub, last, i) => {
            *last == make::binary(BinOp::Sub, size.clone(), make::int(1)) && inside(i, size, known)
        }
        _ => false,
    }
}

/// Whether an access of `seed` has `v` as a whole place, so that the access itself can check the range. No other tensor
/// may be read at `v`.
fn reads_plainly(e: &Expr, seed: Name, v: &Var) -> bool {
    let elsewhere = |e: &Expr| matches!(&*e.node, Node::Access(a) if a.base.name != seed && mentions(e, v.name));
    !walk::any(e, &mut |e| elsewhere(e))
        && walk::any(e, &mut |e| match &*e.node {
            Node::Access(a) if a.base.name == seed => a.places.iter().any(|p| match p {
                Place::One(i) => make::as_name(i) == Some(v.name),
                Place::List(n, None) => n.name == v.name,
                _ => false,
            }),
            _ => false,
        })
}

/// Makes accesses of `seed` give 0 outside.
fn mark_outside(e: &Expr, seed: Name) -> Expr {
    walk::map(e, &mut |e| match &*e.node {
        Node::Access(a) if a.base.name == seed && a.outside == Outside::Refuse => {
            let a = TensorAccess { outside: Outside::Value(make::int(0)), ..a.clone() };
            Some(Expr::new(Node::Access(a), e.span))
        }
        _ => None,
    })
}
