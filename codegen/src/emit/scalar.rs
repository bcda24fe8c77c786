//! Scalar expressions as Rust over `m::…::<I, _>`: one statement per shared or long subterm.

use fulgurite_core::builtins::Builtin;
use fulgurite_core::loop_nest::{LoopExpr, SNode, SOp};
use fulgurite_core::{DType, Scalar};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

/// An expression that a tile kernel cannot compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotScalar;

/// At most this many characters of a term stay in line, so that lines are readable; a longer one becomes a statement.
const LONGEST: usize = 44;

/// Prints expressions over elements and run-time numbers.
pub struct Printer {
    statements: String,
    indent: &'static str,
    names: HashMap<*const SNode, String>,
    uses: HashMap<*const SNode, usize>,
}

/// The name of a dtype's values inside kernels.
pub fn type_name(d: DType) -> &'static str {
    match d {
        DType::F16 | DType::BF16 => "f32",
        d => d.name(),
    }
}

impl Printer {
    /// A printer for these results; shared and long terms become statements.
    pub fn new(indent: &'static str, roots: &[&LoopExpr]) -> Printer {
        let mut uses = HashMap::new();
        fn count(e: &LoopExpr, uses: &mut HashMap<*const SNode, usize>) {
            let n = uses.entry(Arc::as_ptr(&e.0)).or_default();
            *n += 1;
            if *n > 1 {
                return;
            }
            for child in children(e) {
                count(child, uses);
            }
        }
        for e in roots {
            count(e, &mut uses);
        }
        Printer { statements: String::new(), indent, names: HashMap::new(), uses }
    }

    /// The statements that the expressions need.
    pub fn statements(&self) -> &str {
        &self.statements
    }

    /// The text of `e`.
    ///
    /// # Errors
    /// If `e` has loops, loads or random numbers.
    pub fn expr(&mut self, e: &LoopExpr) -> Result<String, NotScalar> {
        let key = Arc::as_ptr(&e.0);
        if let Some(name) = self.names.get(&key) {
            return Ok(name.clone());
        }
        let text = self.text(e)?;
        let leaf = matches!(e.op(), SOp::Const(_) | SOp::Elem(_) | SOp::Num(_));
        let once = self.uses.get(&key).is_none_or(|n| *n < 2);
        if leaf || (once && text.len() <= LONGEST) {
            return Ok(text);
        }
        let name = format!("t{}", self.names.len());
        let _ = writeln!(self.statements, "{}let {name}: {} = {text};", self.indent, type_name(e.ty()));
        self.names.insert(key, name.clone());
        Ok(name)
    }

    fn text(&mut self, e: &LoopExpr) -> Result<String, NotScalar> {
        let ty = type_name(e.ty());
        Ok(match e.op() {
            SOp::Const(s) => constant(*s, e.ty()),
            SOp::Elem(slot) => format!("x{slot}"),
            SOp::Num(k) if e.ty() == DType::I64 => format!("n{k} as i64"),
            SOp::Num(k) => format!("n{k}"),
            SOp::Call(b, args) => {
                let args = args.iter().map(|a| self.expr(a)).collect::<Result<Vec<_>, _>>()?;
                builtin(*b, &args, ty)
            }
            SOp::Cast(_) if e.ty().opmath() != e.ty() => return Err(NotScalar),
            SOp::Cast(a) => {
                let a = self.expr(a)?;
                builtin(Builtin::Cast, &[a], ty)
            }
            SOp::Select(c, a, b) => {
                let args = [self.expr(c)?, self.expr(a)?, self.expr(b)?];
                builtin(Builtin::Select, &args, ty)
            }
            SOp::Detach(a) => self.expr(a)?,
            SOp::Var(_) | SOp::Load { .. } | SOp::Reduce { .. } | SOp::Uniform { .. } => return Err(NotScalar),
        })
    }
}

fn builtin(b: Builtin, args: &[String], ty: &str) -> String {
    let text = b.record().cpu.replace("{t}", ty);
    args.iter().enumerate().fold(text, |text, (i, a)| text.replace(&format!("{{{i}}}"), a))
}

/// The direct subterms of a scalar expression.
fn children(e: &LoopExpr) -> Vec<&LoopExpr> {
    match e.op() {
        SOp::Call(_, args) => args.iter().collect(),
        SOp::Cast(a) | SOp::Detach(a) => vec![a],
        SOp::Select(c, a, b) => vec![c, a, b],
        _ => vec![],
    }
}

/// A literal of type `d`.
fn constant(s: Scalar, d: DType) -> String {
    let ty = type_name(d);
    match d {
        DType::Bool => s.as_bool().to_string(),
        d if d.is_float() => float(s.as_f64(), ty),
        _ => format!("{}{ty}", s.as_i64()),
    }
}

fn float(x: f64, ty: &str) -> String {
    let infinite = if ty == "f64" { x.is_infinite() } else { (x as f32).is_infinite() };
    if x.is_nan() {
        format!("{ty}::NAN")
    } else if infinite {
        format!("{ty}::{}INFINITY", if x < 0.0 { "NEG_" } else { "" })
    } else {
        format!("{x:?}{ty}")
    }
}
