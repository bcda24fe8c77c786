//! Lines of functions with a custom backward.
//!
//! The forward of such a function is recorded without gradients. Then one line takes the forward's results and passes
//! them on. That line has the function's arguments too, so gradients flow from the results to the arguments by the
//! recorded backward, which the arena keeps.

use super::Builder;
use crate::error::Error;
use crate::symbol::{self, Ports, Symbol, SymbolRef};
use crate::trace::{Arena, Body, BoundSymbol, OwnRule, ProxyId, ProxyTy};
use fulgurite_core::loc::Loc;
use fulgurite_core::{Scalar, Value};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use std::sync::{OnceLock, RwLock};

impl Builder {
    /// Records the line of a function with a custom backward; `args` are in the order of the ports. Returns its
    /// results.
    ///
    /// # Errors
    /// Reports errors of binding.
    pub fn own_vjp(&mut self, rule: OwnRule, ports: Ports, args: &[ProxyId], loc: Loc) -> Result<Vec<ProxyId>, Error> {
        let types: Vec<ProxyTy> = args.iter().map(|p| self.arena().ty(*p)).collect();
        let symbol = symbol_for(ports, &types);
        let number = self.arena().add_rule(Rc::new(rule));
        let mut args: Vec<Value<ProxyId>> = args.iter().map(|p| Value::Tensor(*p)).collect();
        args.push(Value::Num(Scalar::Int(number as i64)));
        let outs = self.bind(symbol, args.clone(), loc)?;
        for (out, arg) in outs.iter().zip(&args) {
            if let Value::Tensor(p) = arg {
                let name = self.arena().name(*p);
                self.arena().rename(*out, &name);
            }
        }
        Ok(outs)
    }

    /// The types of the results of such a line on tensors of subclasses: the line passes on its arguments, so no class
    /// is dispatched to.
    pub(super) fn handed_on(&self, line: &mut BoundSymbol, ports: Ports) -> Vec<ProxyTy> {
        let mut outs = Vec::new();
        line.args[..ports.outs].iter().for_each(|arg| arg.for_each(&mut |p| outs.push(*p)));
        let types = outs.iter().map(|p| self.arena().ty(*p)).collect();
        line.dispatch = Some(Rc::new(Body { decomposed: false, lines: Vec::new(), outs }));
        types
    }
}

/// The custom backward of a line.
///
/// # Errors
/// E711 for a line of a trace that was read from text, and the error with which the backward could not be recorded.
pub fn rule_of(arena: &Arena, line: &BoundSymbol) -> Result<Rc<OwnRule>, Error> {
    let number = line.args.last().and_then(|arg| match arg {
        Value::Num(n) => usize::try_from(n.as_i64()).ok(),
        _ => None,
    });
    let rule = number.and_then(|n| arena.rule(n)).ok_or_else(|| {
        Error::new("E711", "this line's gradient is a function of the program that made the trace")
            .help("differentiate before the trace is printed and read again")
            .at(line.place.loc)
    })?;
    match &rule.failed {
        Some(e) => Err(e.clone()),
        None => Ok(rule),
    }
}

/// The symbol for these types, made once.
fn symbol_for(ports: Ports, types: &[ProxyTy]) -> SymbolRef {
    static MADE: OnceLock<RwLock<FxHashMap<(Ports, String), SymbolRef>>> = OnceLock::new();
    let params: Vec<String> = types.iter().enumerate().map(|(i, ty)| format!("a{i}: {}", written(i, ty))).collect();
    let key = (ports, params.join(", "));
    let made = MADE.get_or_init(RwLock::default);
    if let Some(symbol) = made.read().unwrap_or_else(|e| e.into_inner()).get(&key) {
        return symbol;
    }
    let mut made = made.write().unwrap_or_else(|e| e.into_inner());
    let number = made.len();
    made.entry(key).or_insert_with_key(|(_, params)| {
        let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
        let outs = types[..ports.outs].iter().enumerate();
        let (outs, body) = match ports.outs {
            1 => (outs.map(|(i, ty)| written(i, ty)).collect(), "a0".to_owned()),
            n => {
                let named: Vec<String> = outs.map(|(i, ty)| format!("r{i}: {}", written(i, ty))).collect();
                let names: Vec<String> = (0..n).map(|i| format!("a{i}")).collect();
                (format!("({})", named.join(", ")), format!("({})", names.join(", ")))
            }
        };
        let sig = leak(format!("({params}; rule: i64) -> {outs}"));
        symbol::register(Symbol::leak_own(ports, leak(format!("own_vjp.{number}")), sig, leak(body)))
    })
}

/// The type of argument `i` in the syntax of signatures.
pub(super) fn written(i: usize, ty: &ProxyTy) -> String {
    match ty {
        ProxyTy::Tensor(t) => format!("{}[..S{i}]", t.ty.dtype),
        ProxyTy::Number(dtype) => format!("{dtype}[]"),
        ProxyTy::Key => "Key".to_owned(),
    }
}
