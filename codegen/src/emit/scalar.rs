//! Scalar expressions as text: one statement per shared subterm, in Rust for CPU kernels or in C for CUDA.

use fulgurite_core::builtins::Builtin;
use fulgurite_core::nest::{SExpr, SNode, SOp};
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

/// Prints expressions over elements and run-time numbers.
pub struct Printer {
    target: Target,
    statements: String,
    indent: &'static str,
    names: HashMap<*const SNode, String>,
    uses: HashMap<*const SNode, usize>,
}

/// The name of a dtype's values inside kernels.
pub fn type_name(target: Target, d: DType) -> &'static str {
    match (target, d) {
        (Target::Rust, DType::Bool) => "bool",
        (Target::Rust, DType::F16 | DType::BF16) => "f32",
        (Target::Rust, d) => d.name(),
        (Target::Cuda, d) => match d {
            DType::Bool => "bool",
            DType::U8 => "unsigned char",
            DType::I8 => "signed char",
            DType::I16 => "short",
            DType::I32 => "int",
            DType::I64 => "long long",
            DType::F64 => "double",
            _ => "float",
        },
    }
}

impl Printer {
    /// A printer for these results (terms that they share become statements).
    pub fn new(target: Target, indent: &'static str, roots: &[&SExpr]) -> Printer {
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
        Printer { target, statements: String::new(), indent, names: HashMap::new(), uses }
    }

    /// The statements that the expressions need.
    pub fn statements(&self) -> &str {
        &self.statements
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
        let leaf = matches!(e.op(), SOp::Const(_) | SOp::Elem(_) | SOp::Num(_));
        if leaf || self.uses.get(&key).is_none_or(|n| *n < 2) {
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
            SOp::Num(k) if self.target == Target::Rust && e.ty() == DType::I64 => format!("(n{k} as i64)"),
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
            SOp::Var(_) | SOp::Load { .. } | SOp::Reduce { .. } | SOp::Uniform { .. } => return Err(NotScalar),
        })
    }

    fn builtin(&self, b: Builtin, args: &[String], ty: &str) -> String {
        let record = b.record();
        let mut text = if self.target == Target::Rust { record.cpu } else { record.cuda }.replace("{t}", ty);
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
    let ty = type_name(target, d);
    match d {
        DType::Bool => s.as_bool().to_string(),
        d if d.is_float() => {
            let x = s.as_f64();
            match (target, x.is_nan(), x.is_infinite()) {
                (Target::Rust, true, _) => format!("{ty}::NAN"),
                (Target::Rust, _, true) => format!("{ty}::{}INFINITY", if x < 0.0 { "NEG_" } else { "" }),
                (Target::Rust, ..) => format!("({x:?} as {ty})"),
                (Target::Cuda, true, _) => format!("(({ty})NAN)"),
                (Target::Cuda, _, true) => format!("(({ty}){}INFINITY)", if x < 0.0 { "-" } else { "" }),
                (Target::Cuda, ..) => format!("(({ty}){x:?})"),
            }
        }
        _ => match target {
            Target::Rust => format!("({} as {ty})", s.as_i64()),
            Target::Cuda => format!("(({ty}){}LL)", s.as_i64()),
        },
    }
}
