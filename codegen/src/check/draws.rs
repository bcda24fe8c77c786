//! E505 of positions: on small instances, elements that need random numbers of their own must not draw the same one.

use fulgurite_core::DType;
use fulgurite_core::builtins::{Builtin, eval_int};
use fulgurite_core::lang::{Block, Elem, Expr, Node};
use fulgurite_core::loop_nest::{LoopExpr, Nest, NestOut, SOp, SRange, VarId};
use fulgurite_core::row::Row;
use fulgurite_core::{Name, Scalar};
use rustc_hash::FxHashMap;

use super::cases::Case;
use super::report::Rule;
use super::walk;
use crate::diag::Diag;

/// At most this many positions of one draw are compared, because the family has smaller cases.
const MOST_POSITIONS: usize = 1 << 14;

/// The first draw of the body whose positions collide in this call.
pub fn check(rule: &Rule, row: &Row, body: &Block, nest: &Nest, case: &Case) -> Option<Diag> {
    if !row.sig.params.iter().any(|param| param.ty.elem.contains(&Elem::Key)) {
        return None;
    }
    nest.outs.iter().find_map(|out| {
        let mut scope = Scope { nest, out, vars: Vec::new(), guards: Vec::new(), clash: None };
        for axis in out.axes.iter().flatten() {
            scope.vars.push((*axis, None));
        }
        scope.walk(&out.expr);
        scope.clash.map(|clash| clash.diag(rule, row, body, case))
    })
}

/// Two elements that draw the same number.
struct Clash {
    draw: u32,
    position: i64,
    elements: [String; 2],
}

impl Clash {
    fn diag(self, rule: &Rule, row: &Row, body: &Block, case: &Case) -> Diag {
        let Clash { draw, position, elements: [first, second] } = self;
        let is_it = |e: &Expr| position_of(e).is_some_and(|(_, number)| number == i64::from(draw));
        let at = walk::find(body, &is_it).map_or(rule.text.place, |span| rule.text.at(span));
        let message = format!("{} draws the same number for two elements", rule.name());
        let diag = Diag::error("E505", at, message).here(format!("position {position} for {first} and for {second}"));
        let help = match counted(body, draw, case) {
            Some(form) => format!("give each element a position of its own: `{form}`"),
            None => {
                "give each element a position of its own: `m * N + n`, or `ravel(s)` of a list of indices".to_owned()
            }
        };
        diag.note(format!("for {}", case.show(row))).help(help)
    }
}

/// The position and the number of a draw.
fn position_of(e: &Expr) -> Option<(&Expr, i64)> {
    let Node::Call(f, args) = &*e.node else { return None };
    match args.as_slice() {
        [_, position, draw] if f.name == "uniform" => match &*draw.value.node {
            Node::Int(number) => Some((&position.value, *number)),
            _ => None,
        },
        _ => None,
    }
}

/// A position that counts all elements of the indices in this draw's position: `m * N + n`.
fn counted(body: &Block, draw: u32, case: &Case) -> Option<String> {
    let mut indices: Vec<Name> = Vec::new();
    let mut other = false;
    super::walk::block(body, &mut |e| {
        let Some((position, _)) = position_of(e).filter(|(_, number)| *number == i64::from(draw)) else { return };
        super::walk::expr(position, &mut |part| match &*part.node {
            Node::Name(name) if *name == name.size_of_index() || indices.contains(name) => {}
            Node::Name(name) => indices.push(*name),
            Node::Binary(..) | Node::Int(_) => {}
            _ => other = true,
        });
    });
    let named = |name: &Name| case.solved.env.size(name.size_of_index()).is_some();
    if other || indices.len() < 2 || !indices.iter().all(named) {
        return None;
    }
    let first = indices.first()?.to_string();
    let count = |(so_far, deep): (String, bool), index: &Name| {
        let so_far = if deep { format!("({so_far})") } else { so_far };
        (format!("{so_far} * {} + {index}", index.size_of_index()), true)
    };
    Some(indices[1..].iter().fold((first, false), count).0)
}

/// Context of a part of an expression.
struct Scope<'a> {
    nest: &'a Nest,
    out: &'a NestOut,
    /// Index variables, with their ranges where a reduction binds them.
    vars: Vec<(VarId, Option<&'a SRange>)>,
    /// Conditions under which the part is evaluated.
    guards: Vec<(&'a LoopExpr, bool)>,
    clash: Option<Clash>,
}

impl<'a> Scope<'a> {
    fn walk(&mut self, e: &'a LoopExpr) {
        if self.clash.is_some() {
            return;
        }
        match e.op() {
            SOp::Uniform { position, draw, .. } => self.draw(position, *draw),
            SOp::Select(c, yes, no) => {
                self.walk(c);
                for (branch, taken) in [(yes, true), (no, false)] {
                    self.guards.push((c, taken));
                    self.walk(branch);
                    self.guards.pop();
                }
            }
            SOp::Reduce { vars, filter, body, otherwise, .. } => {
                otherwise.iter().for_each(|part| self.walk(part));
                let (bound, guarded) = (self.vars.len(), self.guards.len());
                self.vars.extend(vars.iter().map(|range| (range.var, Some(range))));
                filter.iter().for_each(|part| self.walk(part));
                self.guards.extend(filter.iter().map(|part| (part, true)));
                self.walk(body);
                self.vars.truncate(bound);
                self.guards.truncate(guarded);
            }
            op => op.parts(&mut |part| self.walk(part)),
        }
    }

    /// Tries all values of the indices on which the position, or the condition of the draw, depends.
    fn draw(&mut self, position: &'a LoopExpr, draw: u32) {
        let mut parts = Vec::new();
        own(position, &mut parts);
        let mut needed = Vec::new();
        reads(position, &mut needed);
        self.guards.iter().for_each(|(guard, _)| reads(guard, &mut needed));
        for (var, range) in self.vars.iter().rev() {
            if let Some(range) = range.filter(|_| needed.contains(var)) {
                reads(&range.lo, &mut needed);
                reads(&range.hi, &mut needed);
            }
        }
        let vars: Vec<_> = self.vars.iter().copied().filter(|(var, _)| needed.contains(var)).collect();
        let mut met = Met { parts, seen: Vec::new(), left: MOST_POSITIONS, at: None };
        met.seen.resize_with(met.parts.len(), FxHashMap::default);
        let mut values = vec![0; self.nest.vars.len()];
        self.each(&vars, &mut values, &mut met);
        if let Some((first, second, position)) = met.at {
            let elements = [self.element(&first, &vars), self.element(&second, &vars)];
            self.clash = Some(Clash { draw, position, elements });
        }
    }

    /// Recurses over all values of the first of `vars`. `None` ends the enumeration.
    fn each(&self, vars: &[(VarId, Option<&SRange>)], values: &mut Vec<i64>, met: &mut Met) -> Option<()> {
        let Some(((var, range), rest)) = vars.split_first() else {
            let drawn = |(guard, taken): &(&LoopExpr, bool)| value(guard, values).is_none_or(|x| (x != 0) == *taken);
            return if self.guards.iter().all(drawn) { met.put(values) } else { Some(()) };
        };
        let (lo, hi) = match range {
            Some(range) => (value(&range.lo, values)?, value(&range.hi, values)?),
            None => (0, self.nest.vars.get(*var)?.value()),
        };
        for i in lo..hi {
            *values.get_mut(*var)? = i;
            self.each(rest, values, met)?;
        }
        Some(())
    }

    /// `element [0, 1]`, with the step of the reductions around the draw.
    fn element(&self, values: &[i64], vars: &[(VarId, Option<&SRange>)]) -> String {
        let of = |var: &VarId| if vars.iter().any(|(v, _)| v == var) { values.get(*var).copied() } else { None };
        let axes: Vec<String> =
            self.out.axes.iter().map(|axis| axis.as_ref().and_then(of).unwrap_or(0).to_string()).collect();
        let steps = vars.iter().filter(|(_, range)| range.is_some()).map(|(var, _)| of(var).unwrap_or(0).to_string());
        let steps: Vec<String> = steps.collect();
        match steps.as_slice() {
            [] => format!("element [{}]", axes.join(", ")),
            steps => format!("element [{}] at step [{}] of its reduction", axes.join(", "), steps.join(", ")),
        }
    }
}

/// The values that identify an element, and the values of all indices there.
type Element = (Vec<i64>, Vec<i64>);

/// Positions met so far.
struct Met<'a> {
    /// Parts of the position, each with the expressions that identify its elements.
    parts: Vec<(&'a LoopExpr, Vec<&'a LoopExpr>)>,
    seen: Vec<FxHashMap<i64, Element>>,
    left: usize,
    /// Two elements of one position, and the position.
    at: Option<(Vec<i64>, Vec<i64>, i64)>,
}

impl Met<'_> {
    fn put(&mut self, values: &[i64]) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        for ((part, apart), seen) in self.parts.iter().zip(&mut self.seen) {
            let position = value(part, values)?;
            let apart: Vec<i64> = apart.iter().map(|e| value(e, values)).collect::<Option<_>>()?;
            let (before, element) = seen.entry(position).or_insert_with(|| (apart.clone(), values.to_vec()));
            if *before != apart {
                self.at = Some((element.clone(), values.to_vec(), position));
                return None;
            }
        }
        Some(())
    }
}

/// `position`, and every dividend in it, each with the expressions that identify elements: indices, quotients and
/// remainders. A quotient is not split into its indices, because its elements share a number on purpose: `n / 2`
/// draws once for two elements.
fn own<'a>(position: &'a LoopExpr, all: &mut Vec<(&'a LoopExpr, Vec<&'a LoopExpr>)>) {
    fn collect<'a>(e: &'a LoopExpr, apart: &mut Vec<&'a LoopExpr>, divided: &mut Vec<&'a LoopExpr>) {
        match e.op() {
            SOp::Var(_) if !apart.contains(&e) => apart.push(e),
            SOp::Call(Builtin::DivFloor | Builtin::RemFloor, args) if !apart.contains(&e) => {
                apart.push(e);
                divided.extend(args.first());
            }
            SOp::Var(_) | SOp::Call(Builtin::DivFloor | Builtin::RemFloor, _) => {}
            op => op.parts(&mut |part| collect(part, apart, divided)),
        }
    }
    let (mut apart, mut divided) = (Vec::new(), Vec::new());
    collect(position, &mut apart, &mut divided);
    all.push((position, apart));
    divided.into_iter().for_each(|part| own(part, all));
}

/// The index variables that `e` reads.
fn reads(e: &LoopExpr, vars: &mut Vec<VarId>) {
    walk::each(e, &mut |part| {
        if let SOp::Var(var) = part.op()
            && !vars.contains(var)
        {
            vars.push(*var);
        }
    });
}

/// The integer or truth value of an index expression; `None` where it reads anything else.
fn value(e: &LoopExpr, vars: &[i64]) -> Option<i64> {
    match e.op() {
        SOp::Const(Scalar::Int(i)) => Some(*i),
        SOp::Const(Scalar::Bool(b)) => Some(i64::from(*b)),
        SOp::Var(var) => vars.get(*var).copied(),
        SOp::Cast(a) if e.ty() == DType::I64 => value(a, vars),
        SOp::Call(b, args) => {
            let args: Vec<i64> = args.iter().map(|arg| value(arg, vars)).collect::<Option<_>>()?;
            match (b, args.as_slice()) {
                (Builtin::And, [x, y]) => Some(x & y),
                (Builtin::Or, [x, y]) => Some(x | y),
                (Builtin::Not, [x]) => Some(i64::from(*x == 0)),
                _ => eval_int(*b, &args, DType::I64).ok(),
            }
        }
        SOp::Select(c, yes, no) => value(if value(c, vars)? != 0 { yes } else { no }, vars),
        _ => None,
    }
}
