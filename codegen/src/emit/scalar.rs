//! Scalar expressions as text: one statement per shared or long subterm, in Rust for CPU kernels or in C for CUDA.

use fulgurite_core::builtins::{Builtin, cuda};
use fulgurite_core::nest::{SExpr, SNode, SOp, SOutside};
use fulgurite_core::{DType, Scalar};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

/// The language of the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// Rust over `m::…::<I, _>`.
    Rust,
    /// CUDA C over the prelude.
    Cuda,
}

/// What no target can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotScalar;

/// A longer term becomes a statement, so that lines can be read.
const LONGEST: usize = 44;

/// Prints expressions over elements and run-time numbers.
pub struct Printer<'a> {
    target: Target,
    statements: String,
    indent: &'static str,
    names: HashMap<*const SNode, String>,
    uses: HashMap<*const SNode, usize>,
    /// Dtypes of the tensors that are loaded by index, in CUDA C.
    loads: &'a [DType],
}

/// The name of a dtype's values inside kernels.
pub fn type_name(target: Target, d: DType) -> &'static str {
    match (target, d) {
        (Target::Rust, DType::Bool) => "bool",
        (Target::Rust, DType::F16 | DType::BF16) => "f32",
        (Target::Rust, d) => d.name(),
        (Target::Cuda, d) => cuda::register_type(d),
    }
}

impl<'a> Printer<'a> {
    /// A printer for these results (terms that they share, and long ones, become statements).
    pub fn new(target: Target, indent: &'static str, roots: &[&SExpr]) -> Printer<'a> {
        let mut uses = HashMap::new();
        fn count(e: &SExpr, uses: &mut HashMap<*const SNode, usize>) {
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
        Printer { target, statements: String::new(), indent, names: HashMap::new(), uses, loads: &[] }
    }

    /// The same, inside loops: `i0`, … are index variables, `in0[…]` elements of tensors of these dtypes.
    pub fn in_loops(self, loads: &'a [DType]) -> Printer<'a> {
        Printer { loads, ..self }
    }

    /// The statements that the expressions need.
    pub fn statements(&self) -> &str {
        &self.statements
    }

    /// The statements so far; those of later expressions start anew.
    pub fn take_statements(&mut self) -> String {
        std::mem::take(&mut self.statements)
    }

    /// `e` has a value already, under this name.
    pub fn name(&mut self, e: &SExpr, name: String) {
        self.names.insert(Arc::as_ptr(&e.0), name);
    }

    /// The text of `e`.
    ///
    /// # Errors
    /// Where `e` has loops, loads or random numbers.
    pub fn expr(&mut self, e: &SExpr) -> Result<String, NotScalar> {
        let key = Arc::as_ptr(&e.0);
        if let Some(name) = self.names.get(&key) {
            return Ok(name.clone());
        }
        let text = self.text(e)?;
        let leaf = matches!(e.op(), SOp::Const(_) | SOp::Elem(_) | SOp::Num(_) | SOp::Var(_));
        let once = self.uses.get(&key).is_none_or(|n| *n < 2);
        if leaf || (once && text.len() <= LONGEST) {
            return Ok(text);
        }
        let name = format!("t{}", self.names.len());
        let ty = type_name(self.target, e.ty());
        let _ = match self.target {
            Target::Rust => writeln!(self.statements, "{}let {name}: {ty} = {text};", self.indent),
            Target::Cuda => writeln!(self.statements, "{}const {ty} {name} = {text};", self.indent),
        };
        self.names.insert(key, name.clone());
        Ok(name)
    }

    fn text(&mut self, e: &SExpr) -> Result<String, NotScalar> {
        let ty = type_name(self.target, e.ty());
        Ok(match e.op() {
            SOp::Const(s) => constant(self.target, *s, e.ty()),
            SOp::Elem(slot) => format!("x{slot}"),
            SOp::Num(k) if self.target == Target::Rust && e.ty() == DType::I64 => format!("n{k} as i64"),
            SOp::Num(k) if self.target == Target::Cuda && ty != "double" => {
                self.builtin(Builtin::Cast, &[format!("n{k}")], ty)
            }
            SOp::Num(k) => format!("n{k}"),
            SOp::Call(b, args) => {
                let args = args.iter().map(|a| self.expr(a)).collect::<Result<Vec<_>, _>>()?;
                self.builtin(*b, &args, ty)
            }
            SOp::Cast(a) => {
                let a = self.expr(a)?;
                self.builtin(Builtin::Cast, &[a], ty)
            }
            SOp::Select(c, a, b) => {
                let args = [self.expr(c)?, self.expr(a)?, self.expr(b)?];
                self.builtin(Builtin::Select, &args, ty)
            }
            SOp::Detach(a) => self.expr(a)?,
            SOp::Var(v) if !self.loads.is_empty() => format!("i{v}"),
            SOp::Load { tensor, idx, outside: SOutside::Refuse } if *tensor < self.loads.len() => {
                let element = self.element(*tensor, idx)?;
                if cuda::stored_type(self.loads[*tensor]) == ty {
                    element
                } else {
                    self.builtin(Builtin::Cast, &[element], ty)
                }
            }
            SOp::Var(_) | SOp::Load { .. } | SOp::Reduce { .. } | SOp::Uniform { .. } => return Err(NotScalar),
        })
    }

    /// `in0[i0 * in0_s0 + i1 * in0_s1]`: tensors are strided.
    fn element(&mut self, tensor: usize, idx: &[SExpr]) -> Result<String, NotScalar> {
        let terms = idx.iter().enumerate().filter(|(_, i)| i.as_int() != Some(0));
        let terms = terms.map(|(axis, i)| Ok(format!("{} * in{tensor}_s{axis}", self.expr(i)?)));
        let terms = terms.collect::<Result<Vec<_>, _>>()?;
        Ok(format!("in{tensor}[{}]", if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") }))
    }

    fn builtin(&self, b: Builtin, args: &[String], ty: &str) -> String {
        if self.target == Target::Cuda {
            return cuda::call(b, args, ty);
        }
        let mut text = b.record().cpu.replace("{t}", ty);
        for (i, a) in args.iter().enumerate() {
            text = text.replace(&format!("{{{i}}}"), a);
        }
        text
    }
}

/// The direct subterms of a scalar expression.
pub fn children(e: &SExpr) -> Vec<&SExpr> {
    match e.op() {
        SOp::Call(_, args) => args.iter().collect(),
        SOp::Cast(a) | SOp::Detach(a) => vec![a],
        SOp::Select(c, a, b) => vec![c, a, b],
        SOp::Reduce { body, filter, otherwise, .. } => std::iter::once(body).chain(filter).chain(otherwise).collect(),
        _ => vec![],
    }
}

/// A literal of type `d`.
pub fn constant(target: Target, s: Scalar, d: DType) -> String {
    if target == Target::Cuda {
        return cuda::literal(s, d);
    }
    let ty = type_name(target, d);
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
