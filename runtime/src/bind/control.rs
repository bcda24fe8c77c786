//! Lines of control flow: their symbols, and the types of their results, which the programs decide.

use super::Builder;
use super::custom_vjp::written;
use crate::error::Error;
use crate::symbol::{Symbol, SymbolRef};
use crate::trace::{Arena, BoundSymbol, Control, ControlKind, LineProgram, ProxyId, ProxyTy};
use fulgurite_core::signature::OutTy;
use fulgurite_core::{DType, Dim, Scalar, TensorTy, Value};
use rustc_hash::FxHashMap;
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::{Arc, OnceLock, RwLock};

impl Builder {
    /// Records a line of control flow on `args`; returns its results. Results get the proxies in `reuse`, for a line
    /// that takes the place of another one.
    ///
    /// # Errors
    /// E758 if the programs and the arguments do not fit together, and errors of binding.
    pub fn control(
        &mut self,
        control: Control,
        args: &[ProxyId],
        reuse: &[Option<ProxyId>],
    ) -> Result<Vec<ProxyId>, Error> {
        let arena = self.arena().clone();
        let types: Vec<ProxyTy> = args.iter().map(|p| arena.ty(*p)).collect();
        if let Some(class) = types.iter().find_map(|ty| ty.subclass().map(|layout| layout.class.name())) {
            let claim = format!("a `{}` is given a `{class}`", control.kind.name());
            let help = "take tensors of subclasses apart outside, and pass their fields";
            return Err(Error::new("E759", claim).help(help).at(self.context.place.loc));
        }
        let outs = results(&arena, &control, &types)?;
        let names = names(&arena, &control, args);
        let symbol = symbol_for(control.kind.name(), &types, &outs);
        let number = arena.add_control(Rc::new(control));
        let mut args: Vec<Value<ProxyId>> = args.iter().map(|p| Value::Tensor(*p)).collect();
        args.push(Value::Num(Scalar::Int(number as i64)));
        let call = self.solve(symbol, args)?;
        let line = self.record_as(call, false, &mut |at, hint, ty| {
            let name = names.get(at).map_or(hint, |name| name);
            Ok(reuse.get(at).copied().flatten().unwrap_or_else(|| arena.proxy(name, ty)))
        })?;
        Ok(line.outs.clone())
    }
}

/// The programs of a line.
///
/// # Errors
/// E709 for a line of another arena.
pub fn control_of(arena: &Arena, line: &BoundSymbol) -> Result<Rc<Control>, Error> {
    let lost = || Error::bug("E709", format!("`{}` has lost its programs", line.symbol.name())).at(line.place.loc);
    arena.control(line).ok_or_else(lost)
}

/// A copy of a program with values of its own, because two programs that make one value would print alike.
pub fn copied(arena: &Rc<Arena>, program: &LineProgram) -> LineProgram {
    let mut map: FxHashMap<ProxyId, ProxyId> = FxHashMap::default();
    let made = program.lines.iter().flat_map(|l| l.outs.iter().chain(&l.aux));
    for p in program.inputs.iter().chain(made) {
        let new = arena.proxy(&arena.name(*p), arena.ty(*p));
        arena.set_tags(new, arena.tags(*p));
        map.insert(*p, new);
    }
    let mut to = |p: ProxyId| map.get(&p).copied().unwrap_or(p);
    let line = |line: &Rc<BoundSymbol>| {
        let line = line.remap(&mut to);
        Rc::new(BoundSymbol { id: arena.next_line(line.symbol), body: OnceCell::new(), ..line })
    };
    let lines = program.lines.iter().map(line).collect();
    LineProgram {
        lines,
        inputs: program.inputs.iter().map(|p| map[p]).collect(),
        outputs: program.outputs.iter().map(|p| map.get(p).copied().unwrap_or(*p)).collect(),
        ..*program
    }
}

/// The names of the results: those of the carries, or those that a program gives its results.
fn names(arena: &Arena, control: &Control, args: &[ProxyId]) -> Vec<Rc<str>> {
    let carries = match control.kind {
        ControlKind::Cond => 0,
        ControlKind::While { carries, .. } | ControlKind::Scan { carries, .. } => carries,
    };
    let last = control.programs.last().map_or(&[][..], |p| &p.outputs);
    args[..carries].iter().chain(last.iter().skip(carries)).map(|p| arena.name(*p)).collect()
}

/// Fills in the types of the results of a line.
///
/// # Errors
/// E709 and E758.
pub(super) fn typed(arena: &Arena, line: &mut BoundSymbol) -> Result<(), Error> {
    let control = control_of(arena, line)?;
    let mut types = Vec::with_capacity(line.args.len());
    line.for_each_arg(|p| types.push(arena.ty(p)));
    let outs = results(arena, &control, &types).map_err(|e| e.at(line.place.loc))?;
    let mut solved = (*line.solved).clone();
    solved.outs = outs.into_iter().map(OutTy::Tensor).collect();
    line.solved = Arc::new(solved);
    Ok(())
}

/// The types of the results of a line with arguments of these types.
///
/// # Errors
/// E758 if the programs, the arguments and the results do not fit together.
fn results(arena: &Arena, control: &Control, args: &[ProxyTy]) -> Result<Vec<TensorTy>, Error> {
    let name = control.kind.name();
    let of = |p: &ProxyId| stored(&arena.ty(*p));
    let outputs = |at: usize| -> Vec<TensorTy> { control.programs[at].outputs.iter().map(of).collect() };
    if control.programs.len() != control.kind.program_names().len() {
        return Err(Error::bug("E758", format!("a `{name}` has {} programs", control.programs.len())));
    }
    let mut given: Vec<TensorTy> = args.iter().map(stored).collect();
    let truth = |ty: &TensorTy, what: &str| match ty.dtype == DType::Bool && ty.rank() == 0 {
        true => Ok(()),
        false => Err(Error::new("E758", format!("{what} of a `{name}` is {ty}, and must be bool[]"))
            .help("reduce it to one truth value: `all` or `any`")),
    };
    let steady = |made: &[TensorTy], carries: usize| {
        let pairs = given[..carries].iter().zip(made).enumerate();
        pairs.into_iter().try_for_each(|(i, (is, becomes))| match same(is, becomes) {
            true => Ok(()),
            false => Err(Error::new("E758", format!("carry {i} of a `{name}` is {is}, and a step makes it {becomes}"))
                .note(format!("expected {is}, found {becomes}"))
                .help("a carry keeps its dtype and its sizes: cast or reshape one of the two")),
        })
    };
    let outs = match control.kind {
        ControlKind::Cond => {
            let predicate = given.first().ok_or_else(|| Error::bug("E758", "a `cond` has no condition"))?;
            truth(predicate, "the condition")?;
            let (then, otherwise) = (outputs(0), outputs(1));
            if let Some((i, (a, b))) = then.iter().zip(&otherwise).enumerate().find(|(_, (a, b))| !same(a, b)) {
                let claim = format!("result {i} of a `cond` is {a} in one branch and {b} in the other");
                return Err(Error::new("E758", claim)
                    .note(format!("expected {a}, found {b}"))
                    .help("both branches give the same dtypes and sizes: cast or reshape one of them"));
            }
            then
        }
        ControlKind::While { carries, .. } => {
            if let [condition] = &outputs(0)[..] {
                truth(condition, "the condition")?;
            }
            let made = outputs(1);
            steady(&made, carries)?;
            given[..carries].to_vec()
        }
        ControlKind::Scan { carries, length, .. } => {
            let made = outputs(0);
            steady(&made, carries)?;
            let stack = |ty: &TensorTy| TensorTy {
                dtype: ty.dtype,
                shape: std::iter::once(length).chain(ty.shape.iter().copied()).collect(),
            };
            given[..carries].iter().cloned().chain(made[carries..].iter().map(stack)).collect()
        }
    };
    if let ControlKind::Scan { carries, slices, length, .. } = control.kind {
        for ty in given.iter_mut().skip(carries).take(slices) {
            match ty.shape.first() {
                Some(first) if first.same(length) => *ty = slice(ty),
                _ => {
                    let claim = format!("a `scan` of {length} steps is given {ty}");
                    return Err(Error::new("E758", claim)
                        .note(format!("expected a first axis of size {length}"))
                        .help("all tensors that a scan slices have one first axis"));
                }
            }
        }
    }
    given.drain(..control.kind.before_inputs());
    for program in &control.programs {
        let wanted: Vec<TensorTy> = program.inputs.iter().map(of).collect();
        let misfit = wanted.iter().zip(&given).find(|(a, b)| !same(a, b));
        if wanted.len() != given.len() || misfit.is_some() {
            let what = misfit.map_or_else(String::new, |(a, b)| format!(": expected {a}, found {b}"));
            return Err(Error::new("E758", format!("a program of a `{name}` takes other arguments{what}"))
                .help("a transform that changes the types of arguments must change the programs too"));
        }
    }
    Ok(outs)
}

/// The type of a slice along the first axis.
fn slice(ty: &TensorTy) -> TensorTy {
    TensorTy { dtype: ty.dtype, shape: ty.shape.iter().skip(1).copied().collect() }
}

fn same(a: &TensorTy, b: &TensorTy) -> bool {
    a.dtype == b.dtype && a.rank() == b.rank() && a.shape.iter().zip(&b.shape).all(|(a, b)| a.same(*b))
}

/// The tensor as which a value is stored: numbers have rank 0, and keys are two integers.
fn stored(ty: &ProxyTy) -> TensorTy {
    match ty {
        ProxyTy::Tensor(t) => t.ty.clone(),
        ProxyTy::Number(dtype) => TensorTy::new::<usize>(*dtype, &[]),
        ProxyTy::Key => TensorTy { dtype: DType::I64, shape: std::iter::once(Dim::from(2usize)).collect() },
    }
}

/// The symbol of lines with arguments of these types, made once.
fn symbol_for(name: &'static str, types: &[ProxyTy], outs: &[TensorTy]) -> SymbolRef {
    static MADE: OnceLock<RwLock<FxHashMap<(&'static str, String), SymbolRef>>> = OnceLock::new();
    let params: Vec<String> = types.iter().enumerate().map(|(i, ty)| format!("a{i}: {}", written(i, ty))).collect();
    let results = match outs {
        [one] => format!("{}[_]", one.dtype),
        outs => {
            let named = outs.iter().enumerate().map(|(i, ty)| format!("r{i}: {}[_]", ty.dtype));
            format!("({})", named.collect::<Vec<_>>().join(", "))
        }
    };
    let key = (name, format!("({}; programs: i64) -> {results}", params.join(", ")));
    let made = MADE.get_or_init(RwLock::default);
    if let Some(symbol) = made.read().unwrap_or_else(|e| e.into_inner()).get(&key) {
        return symbol;
    }
    let mut made = made.write().unwrap_or_else(|e| e.into_inner());
    let number = made.len();
    made.entry(key).or_insert_with_key(|(name, sig)| {
        let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
        Symbol::leak_control(leak(format!("{name}.{number}")), leak(sig.clone()))
    })
}
