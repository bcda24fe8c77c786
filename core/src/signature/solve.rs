//! Solves a call: matches its arguments with the signature of a row.
//!
//! The steps are: arguments are classified (tensor, number, key, absent); options and shape
//! patterns bind sizes, in turns, because options may need sizes and shapes may need options;
//! arguments without brackets broadcast; the dtypes are joined and promoted; the conditions of
//! `require` are evaluated; and the types of the results are computed. A condition that needs
//! elements, or a number that is known only when the program runs, is left to the executors.

use super::Refusal;
use super::const_eval::{self, At, Dims, Stop};
use super::env::{Env, Item, Size};
use super::numbers;
use super::options::{Chosen, Options};
use super::results;
use super::shapes::{BoundBy, Matcher, Mismatch, implicit_list};
use super::sizes::{Meeting, joined, meet};
use super::types::{ArgTy, Solved};
use crate::dtype::DTypeSet;
use crate::lang::ast::*;
use crate::promote::{self, Kind, Operand};
use crate::row::{Meaning, Require, Row};
use crate::{DType, Dim, Name, Scalar, TensorTy, Value};
use smallvec::SmallVec;
use std::sync::LazyLock;

/// An argument in the view of the signature; a tensor is its position among the slots.
#[derive(Clone, Copy)]
enum Given {
    Absent,
    Tensor(usize),
    Tensors(usize, usize),
    Key,
    Number(Scalar),
    /// A symbolic size in place of a number.
    Size(Dim),
    Runtime(DType),
}

/// [`solve`] where values are types. It is compiled once, in this crate, because checks spend most
/// of their time here.
///
/// # Errors
/// The errors are those of [`solve`].
pub fn solve_types(row: &Row, args: &[Value<ArgTy>]) -> Result<Solved, Refusal> {
    solve(row, args, &ArgTy::clone)
}

/// Like [`solve_types`] without the reason of a refusal. Checks try many calls to find accepted ones, and formatting
/// refusals would dominate their time.
pub fn accepted(row: &Row, args: &[Value<ArgTy>]) -> Option<Solved> {
    attempt(row, args).ok()
}

/// Like [`solve_types`], with refusals that have no message.
///
/// # Errors
/// The errors are those of [`solve`].
pub fn attempt(row: &Row, args: &[Value<ArgTy>]) -> Result<Solved, Refusal> {
    solve_as(row, args, &ArgTy::clone, true)
}

/// Solves a call: `args` holds one value per parameter and option in signature order ([`super::arrange`]).
///
/// # Errors
/// E701 sizes that do not fit, E702 wrong kind or number of arguments, E703 dtypes, E704 an option out of range,
/// E705 a stated requirement that does not hold.
pub fn solve<V>(row: &Row, args: &[Value<V>], ty: &dyn Fn(&V) -> ArgTy) -> Result<Solved, Refusal> {
    solve_as(row, args, ty, false)
}

fn solve_as<V>(row: &Row, args: &[Value<V>], ty: &dyn Fn(&V) -> ArgTy, silent: bool) -> Result<Solved, Refusal> {
    let mut call = Call { row, env: Env::of(&row.sig), runtime: 0, bound_by: BoundBy::new(), silent };
    let given = call.classify(args, ty)?;
    let opts = args.iter().skip(row.sig.params.len()).map(|value| Chosen::of(value, ty)).collect();
    call.solve(&given, opts).map_err(|stop| match stop {
        Stop::Refused(r) => r,
        Stop::NotStatic => {
            Refusal::new("E706", format!("`{}`: a size or option of the call can't be determined", row.op))
        }
    })
}

/// The number of single axes in front of all lists of axes in the type of a list argument.
fn plain_axes(row: &Row) -> usize {
    let list = row.sig.params.iter().find(|p| p.ty.list.is_some());
    let dims = list.and_then(|p| p.ty.dims.as_ref()).into_iter().flatten();
    dims.take_while(|d| matches!(&d.kind, DimKind::One { at: None, .. })).count()
}

/// Arguments whose shapes are not yet matched, each with its item of a list.
type Open = SmallVec<[(usize, Option<usize>); 6]>;

struct Call<'r> {
    row: &'r Row,
    env: Env,
    runtime: usize,
    /// The argument that first bound each size.
    bound_by: BoundBy,
    /// Whether refusals need no message.
    silent: bool,
}

/// The arguments of a call, stored in place because there are few.
type Givens = SmallVec<[Given; 6]>;

/// Whether a tensor can be a key, a seed and a stream.
fn is_key_data(ty: &TensorTy) -> bool {
    ty.dtype == DType::I64 && ty.shape.len() == 1 && ty.shape[0].is(2)
}

impl Call<'_> {
    /// A refusal whose message is formatted only if it is needed.
    fn refusal(&self, code: &'static str, message: impl FnOnce() -> String) -> Refusal {
        Refusal::new(code, if self.silent { String::new() } else { message() })
    }

    fn classify<V>(&mut self, args: &[Value<V>], ty: &dyn Fn(&V) -> ArgTy) -> Result<Givens, Refusal> {
        let row = self.row;
        let mut given = Givens::new();
        for (i, param) in row.sig.params.iter().enumerate() {
            let name = param.name.name;
            let refuse = |m: &str| Refusal::new("E702", format!("`{}`: `{name}` {m}", row.op)).arg(name);
            let slot = self.env.slots.len();
            let value = args.get(i).unwrap_or(&Value::Absent);
            let g = match (&param.ty.list, value) {
                (_, Value::Absent) if param.optional => Given::Absent,
                (_, Value::Absent) => return Err(refuse("is missing")),
                (Some(_), Value::List(items)) => {
                    for item in items {
                        match item {
                            Value::Tensor(v) => match ty(v) {
                                ArgTy::Tensor(t) => self.env.slots.push(Some(t)),
                                _ => return Err(refuse("must be a list of tensors")),
                            },
                            Value::Type(t) => self.env.slots.push(Some(t.clone())),
                            Value::Num(_) | Value::Size(_) | Value::Absent => {
                                return Err(refuse("must be a list of tensors"));
                            }
                            _ => return Err(refuse("must be a tensor or a number")),
                        }
                    }
                    Given::Tensors(slot, items.len())
                }
                (Some(_), _) => return Err(refuse("must be a list of tensors")),
                (None, Value::Tensor(v)) => match ty(v) {
                    // A key computed from another key, as its two numbers.
                    ArgTy::Tensor(t) if param.ty.elem.contains(&Elem::Key) && is_key_data(&t) => Given::Key,
                    ArgTy::Tensor(t) => {
                        self.env.slots.push(Some(t));
                        Given::Tensor(slot)
                    }
                    ArgTy::Number(d) => Given::Runtime(d),
                    ArgTy::Key => Given::Key,
                },
                (None, Value::Type(t)) => {
                    self.env.slots.push(Some(t.clone()));
                    Given::Tensor(slot)
                }
                (None, Value::Num(s)) => Given::Number(*s),
                (None, Value::Size(d)) => Given::Size(*d),
                (None, _) => return Err(refuse("must be a tensor or a number")),
            };
            let is_key = param.ty.elem.contains(&Elem::Key);
            match &g {
                Given::Key if !is_key => return Err(refuse("must be a tensor, a key was given")),
                Given::Tensor(_) | Given::Number(_) | Given::Size(_) | Given::Runtime(_) if is_key => {
                    return Err(refuse("must be a key"));
                }
                Given::Number(_) | Given::Size(_) | Given::Runtime(_)
                    if param.ty.dims.as_ref().is_some_and(|d| !d.is_empty()) =>
                {
                    return Err(refuse("must be a tensor, a number was given"));
                }
                _ => {}
            }
            self.bind_param(name, &g);
            given.push(g);
        }
        Ok(given)
    }

    fn bind_param(&mut self, name: Name, g: &Given) {
        let item = match *g {
            Given::Absent => Item::Absent,
            Given::Tensor(slot) => Item::Tensor(slot),
            Given::Key => {
                self.env.slots.push(None);
                Item::Tensor(self.env.slots.len() - 1)
            }
            Given::Tensors(slot, n) => Item::Tensors(slot, n),
            Given::Number(s) => Item::Num(s),
            Given::Size(d) => Item::Int(d),
            Given::Runtime(d) => {
                self.runtime += 1;
                Item::Runtime(self.runtime - 1, d)
            }
        };
        self.env.items.push((name, item));
    }

    /// The types of an argument's tensors, one per item for a list.
    fn types(&self, g: &Given) -> impl Iterator<Item = &TensorTy> + Clone {
        let (slot, n) = match *g {
            Given::Tensor(slot) => (slot, 1),
            Given::Tensors(slot, n) => (slot, n),
            _ => (0, 0),
        };
        self.env.slots[slot..slot + n].iter().flatten()
    }

    fn solve(mut self, given: &[Given], opts: SmallVec<[Chosen; 6]>) -> Result<Solved, Stop> {
        let row = self.row;
        // Options that bind sizes or name axes come before the shapes that use them; the others come after.
        let mut done: SmallVec<[bool; 8]> = SmallVec::from_elem(false, row.sig.opts.len());
        let mut open = self.open(given)?;
        let mut joined = false;
        loop {
            // Options may need sizes, and shapes may need the options that name axes of others.
            let before = (open.len(), done.iter().filter(|d| **d).count());
            self.options(&opts, given, &mut done, true)?;
            open = self.shapes(given, open)?;
            if open.is_empty() {
                break;
            }
            if before == (open.len(), done.iter().filter(|d| **d).count()) {
                if joined {
                    return Err(Stop::NotStatic);
                }
                self.broadcast()?;
                joined = true;
            }
        }
        self.options(&opts, given, &mut done, false)?;
        if !self.env.broadcast.is_empty() {
            self.broadcast()?;
        }
        // The options that waited for broadcast lists.
        self.options(&opts, given, &mut done, false)?;
        if let Some(i) = done.iter().position(|d| !d) {
            let name = row.sig.opts[i].name.name;
            return Err(Refusal::new("E706", format!("`{}`: option `{name}` can't be determined", row.op)).into());
        }
        self.check_broadcast()?;
        let (joined, compute, result) = self.dtypes(given)?;
        let open = self.required(row.require.iter())?;
        let outs = results::types(row, &mut self.env, &row.sig.outs, result)?;
        let aux = results::types(row, &mut self.env, &row.sig.aux, result)?;
        // Some requirements mention sizes that results name.
        self.required(open.into_iter())?;
        Ok(Solved { env: self.env, joined, compute, outs, aux })
    }

    /// Evaluates every requirement; returns those that need values not known yet, or only known at run time.
    fn required<'a>(&self, all: impl Iterator<Item = &'a Require>) -> Result<SmallVec<[&'a Require; 2]>, Stop> {
        let mut open = SmallVec::new();
        for r in all {
            match const_eval::eval(&self.env, &r.cond, At::default()) {
                Ok(v) if v.bool()? => {}
                Ok(_) => {
                    let mut refusal = self.refusal("E705", || format!("`{}`: {}", self.row.op, r.message));
                    let place = self.row.require.iter().position(|other| std::ptr::eq(other, r));
                    refusal.unmet = place.and_then(|place| u16::try_from(place).ok());
                    let helped = |refusal: Refusal| refusal.help(format!("required: {}", r.shown));
                    return Err(if self.silent { refusal } else { helped(refusal) }.into());
                }
                Err(Stop::NotStatic) => open.push(r),
                Err(refused) => return Err(refused),
            }
        }
        Ok(open)
    }

    /// The rank of the tensor whose axis a plain `Dim` option names.
    fn anchored_rank(&self, given: &[Given], option: Name) -> Option<usize> {
        self.row.sig.params.iter().zip(given).find_map(|(p, g)| {
            let dims = p.ty.dims.as_ref()?;
            let names = dims.iter().any(|d| matches!(&d.kind, DimKind::One { at: Some(at), .. } if at.name == option));
            if names { self.types(g).next().map(TensorTy::rank) } else { None }
        })
    }

    fn options(&mut self, opts: &[Chosen], given: &[Given], done: &mut [bool], early: bool) -> Result<(), Stop> {
        let row = self.row;
        for (i, opt) in row.sig.opts.iter().enumerate() {
            if done[i] {
                continue;
            }
            let value = opts.get(i).unwrap_or(&Chosen::Absent);
            let rank = match opt.ty {
                OptType::Dim(_) => self.anchored_rank(given, opt.name.name),
                _ => None,
            };
            let mut runtime = self.runtime;
            let lead = if matches!(opt.ty, OptType::Labels(_)) { plain_axes(row) } else { 0 };
            let item = Options { op: row.op, runtime: &mut runtime, lead }.item(&mut self.env, opt, value, rank);
            match item {
                Ok(item) => {
                    self.runtime = runtime;
                    if let (OptType::Dtype(var), Item::DType(d)) = (&opt.ty, &item) {
                        self.env.dtypes.push((*var, *d));
                    }
                    self.env.items.push((opt.name.name, item));
                    done[i] = true;
                }
                Err(Stop::NotStatic) => {}
                // A refusal that depends on sizes may disappear once they are bound.
                Err(Stop::Refused(r)) if early && r.code == "E706" => {}
                Err(refused) => return Err(refused),
            }
        }
        Ok(())
    }

    /// The tensors to match, items of lists one by one.
    fn open(&mut self, given: &[Given]) -> Result<Open, Stop> {
        let row = self.row;
        let mut open = Open::new();
        for (i, g) in given.iter().enumerate() {
            match *g {
                Given::Tensor(_) => open.push((i, None)),
                Given::Tensors(_, n) => open.extend((0..n).map(|k| (i, Some(k)))),
                _ => {}
            }
            if row.sig.params[i].ty.dims.is_none()
                && let Given::Tensor(slot) = *g
                && let Some(t) = &self.env.slots[slot]
            {
                self.env.broadcast.push(super::env::Broadcast {
                    param: row.sig.params[i].name.name,
                    item: 0,
                    list: implicit_list(),
                    own: SmallVec::from_slice(&t.shape),
                });
            }
        }
        if let Some(Given::Tensors(_, 0)) = given.iter().find(|g| matches!(g, Given::Tensors(..))) {
            // `len(N)` of no items is 0, so that a `require` can refuse it.
            for (p, g) in row.sig.params.iter().zip(given) {
                if let (Given::Tensors(..), Some(dims)) = (g, &p.ty.dims) {
                    for d in dims {
                        if let DimKind::One { size, .. } = &d.kind
                            && let Node::Access(a) = &*size.node
                        {
                            self.env.bind_size(a.base.name, Size::Each(Vec::new()));
                        }
                    }
                }
            }
            let empty = Refusal::new("E705", format!("`{}` needs at least one tensor", row.op));
            return Err(empty.into());
        }
        Ok(open)
    }

    /// Matches the shapes that can be matched now; returns those that wait for lists or options.
    fn shapes(&mut self, given: &[Given], mut open: Open) -> Result<Open, Stop> {
        let row = self.row;
        let mut matcher = Matcher { env: &mut self.env, bound_by: std::mem::take(&mut self.bound_by), op: row.op };
        while !open.is_empty() {
            let before = open.len();
            let mut later = Open::new();
            for (i, item) in open {
                let (param, at) = (&row.sig.params[i], At { axis: None, item });
                let Some(dims) = &param.ty.dims else { continue };
                let slot = match (given[i], item) {
                    (Given::Tensor(slot), _) => slot,
                    (Given::Tensors(slot, _), Some(k)) => slot + k,
                    _ => continue,
                };
                let Some(t) = &matcher.env.slots[slot] else { continue };
                // A match binds names in the environment, so the shape is copied first.
                let shape = Dims::from_slice(&t.shape);
                match matcher.matches(param.name.name, dims, &shape, at) {
                    Ok(()) => {}
                    Err(Mismatch::Ambiguous) => later.push((i, item)),
                    Err(Mismatch::Refused(r)) => return Err(Stop::Refused(r)),
                }
            }
            open = later;
            if open.len() == before {
                break;
            }
        }
        self.bound_by = matcher.bound_by;
        Ok(open)
    }

    /// Binds each list without an exact binding to the join of the shapes that broadcast to it.
    fn broadcast(&mut self) -> Result<(), Stop> {
        let lists: SmallVec<[Name; 4]> = self.env.broadcast.iter().map(|b| b.list).collect();
        for list in lists {
            if self.env.size(list).is_some() {
                continue;
            }
            let mut full: SmallVec<[Dim; 4]> = SmallVec::new();
            for part in self.env.broadcast.iter().filter(|b| b.list == list) {
                while full.len() < part.own.len() {
                    full.insert(0, Dim::from(1));
                }
                let lead = full.len() - part.own.len();
                for (axis, &d) in part.own.iter().enumerate() {
                    let have = full[lead + axis];
                    full[lead + axis] = match joined(have, d) {
                        Some(size) => size,
                        None => return Err(self.clash(list, lead + axis).into()),
                    };
                }
            }
            self.env.bind_size(list, Size::List(full));
        }
        Ok(())
    }

    fn clash(&self, list: Name, axis: usize) -> Refusal {
        let parts: Vec<String> = self
            .env
            .broadcast
            .iter()
            .filter(|b| b.list == list)
            .map(|b| {
                let sizes: Vec<_> = b.own.iter().map(Dim::to_string).collect();
                format!("`{}` [{}]", b.param, sizes.join(", "))
            })
            .collect();
        Refusal::new(
            "E701",
            format!("`{}`: {} do not broadcast: axis {axis} differs", self.row.op, parts.join(" and ")),
        )
        .help("sizes must be equal, or 1")
    }

    /// Checks that every part fits the list that it broadcasts to.
    fn check_broadcast(&self) -> Result<(), Stop> {
        for part in &self.env.broadcast {
            let Some(Size::List(full)) = self.env.size(part.list) else { continue };
            let each = |(own, full): (&Dim, &Dim)| match meet(*own, *full) {
                Meeting::Equal | Meeting::FirstIsOne => true,
                Meeting::SecondIsOne => own.is(1),
                Meeting::Apart => false,
            };
            let fits = part.own.len() <= full.len() && part.own.iter().rev().zip(full.iter().rev()).all(each);
            if !fits {
                let show = |l: &[Dim]| l.iter().map(Dim::to_string).collect::<Vec<_>>().join(", ");
                let message = format!(
                    "`{}`: `{}` of shape [{}] does not broadcast to [{}]",
                    self.row.op,
                    part.param,
                    show(&part.own),
                    show(full)
                );
                return Err(Refusal::new("E701", message).arg(part.param).into());
            }
        }
        Ok(())
    }

    /// (joined, compute, result) dtype; binds `T`, `U`, `V` and checks every argument's dtype.
    fn dtypes(&mut self, given: &[Given]) -> Result<(Option<DType>, DType, DType), Stop> {
        let row = self.row;
        static T: LazyLock<Name> = LazyLock::new(|| Name::new("T"));
        let t = *T;
        let kind = match &row.promote {
            Some(e) => Some(const_eval::kind(&self.env, e)?),
            None => None,
        };
        let mut vars: SmallVec<[Name; 3]> = SmallVec::new();
        for p in &row.sig.params {
            for e in &p.ty.elem {
                if let Elem::Var(v) = e
                    && !vars.contains(v)
                {
                    vars.push(*v);
                }
            }
        }
        let chosen = |env: &super::Env, v: Name| env.dtype(v);
        let mut joined_t = None;
        for v in vars {
            let mut operands: SmallVec<[Operand; 4]> = SmallVec::new();
            for unions in [false, true] {
                for (p, g) in row.sig.params.iter().zip(given) {
                    let takes_part = p.ty.elem.contains(&Elem::Var(v)) && (p.ty.elem.len() > 1) == unions;
                    if !takes_part || (unions && !operands.is_empty()) {
                        continue;
                    }
                    let bool_ok = || p.ty.elem.iter().any(|e| matches!(e, Elem::Class(c) if *c == "bool"));
                    match g {
                        Given::Tensor(_) | Given::Tensors(..) => {
                            let skips = |t: &&TensorTy| {
                                unions && t.dtype == DType::Bool && matches!(g, Given::Tensor(_)) && bool_ok()
                            };
                            for t in self.types(g).filter(|t| !skips(t)) {
                                operands.push(Operand::Tensor { dtype: t.dtype, rank0: t.rank() == 0 });
                            }
                        }
                        Given::Number(s) => operands.push(Operand::from(*s)),
                        Given::Size(_) => operands.push(Operand::Number(DType::I64)),
                        Given::Runtime(d) => operands.push(Operand::Number(*d)),
                        Given::Absent | Given::Key => {}
                    }
                }
            }
            if operands.is_empty() {
                continue;
            }
            let joined = promote::join_by(kind.filter(|_| v == t), &operands);
            let joined =
                joined.ok_or_else(|| self.refusal("E703", || format!("`{}`: these dtypes have no join", row.op)))?;
            if v == t {
                joined_t = Some(joined);
            } else if chosen(&self.env, v).is_none() {
                self.env.dtypes.push((v, joined));
            }
            if v != t || kind == Some(Kind::Equal) {
                self.equal(given, v, joined)?;
            }
        }
        // An option `dtype: Dtype(T)` decides: arguments are cast first.
        let option = chosen(&self.env, t);
        let joined = option.or(joined_t);
        if let Some(j) = joined {
            let allowed = match &row.dtypes {
                Some(e) => const_eval::dtype_set(&self.env, e)?,
                // A row that only moves elements accepts every dtype.
                None if matches!(row.meaning, Meaning::View(_))
                    || matches!(kind, Some(Kind::Keep | Kind::Join))
                    || (j.is_storage() && row.only_moves()) =>
                {
                    DTypeSet::all().union(DType::STORAGE.into_iter().collect())
                }
                None => DTypeSet::all(),
            };
            // There are no complex tensors.
            let allowed = allowed.minus(DTypeSet::COMPLEX);
            if !allowed.contains(j) {
                let refusal = self.refusal("E703", || format!("`{}` does not take {j}", row.op));
                let helped = |refusal: Refusal| refusal.help(format!("it takes {allowed}; cast first"));
                return Err(if self.silent { refusal } else { helped(refusal) }.into());
            }
        }
        let (compute, result) = match (joined, option, kind) {
            (None, ..) => self.fixed_compute(),
            (Some(j), Some(_), _) => (j.opmath(), j),
            (Some(j), None, Some(kind)) => {
                let (compute, result) = kind.apply(j);
                (compute.opmath(), result)
            }
            (Some(j), None, None) => (j.opmath(), j),
        };
        if option.is_none()
            && let Some(j) = joined
        {
            self.env.dtypes.push((t, if kind == Some(Kind::Bool) { j } else { result }));
        }
        self.check_classes(given)?;
        let compute = match joined {
            Some(joined) => numbers::computes(row, &self.env, kind, joined, compute)?,
            None => compute,
        };
        Ok((joined, compute, result))
    }

    /// The dtypes of a row without `T`: those of its first result.
    fn fixed_compute(&self) -> (DType, DType) {
        let d = self.row.sig.outs.first().and_then(|o| const_eval::elem_dtype(&self.env, o.ty.elem.first()?).ok());
        let d = d.unwrap_or(DType::DEFAULT_FLOAT);
        (d.opmath(), d)
    }

    fn equal(&self, given: &[Given], v: Name, joined: DType) -> Result<(), Stop> {
        for (p, g) in self.row.sig.params.iter().zip(given) {
            if p.ty.elem.as_slice() != [Elem::Var(v)] {
                continue;
            }
            if let Some(d) = self.types(g).map(|t| t.dtype).find(|d| *d != joined) {
                let name = p.name.name;
                let message = format!(
                    "`{}`: `{name}` is {d} where the other arguments are {joined}; dtypes must agree",
                    self.row.op
                );
                return Err(Refusal::new("E703", message).arg(name).help("cast one of them").into());
            }
        }
        Ok(())
    }

    /// Checks the dtypes of arguments with a fixed class or a union of classes.
    fn check_classes(&self, given: &[Given]) -> Result<(), Stop> {
        for (p, g) in self.row.sig.params.iter().zip(given) {
            for d in self.types(g).map(|t| t.dtype) {
                let fits = p.ty.elem.iter().any(|e| match e {
                    Elem::Var(_) if p.ty.elem.len() == 1 => true,
                    Elem::Var(v) => self.env.dtype(*v).is_none_or(|t| t == d),
                    Elem::Acc(v) => self.env.dtype(*v).is_none_or(|t| t.opmath() == d),
                    Elem::Real(v) => self.env.dtype(*v).is_none_or(|t| t.real() == d),
                    Elem::Index => matches!(d, DType::I32 | DType::I64),
                    Elem::Class(c) => DTypeSet::from_class(c.as_str()).is_some_and(|s| s.contains(d)),
                    Elem::Key => false,
                });
                if !fits {
                    let want: Vec<String> = p.ty.elem.iter().map(|e| e.to_string()).collect();
                    let name = p.name.name;
                    let message = format!("`{}`: `{name}` is {d}, it must be {}", self.row.op, want.join(" or "));
                    return Err(Refusal::new("E703", message).arg(name).into());
                }
            }
        }
        Ok(())
    }
}
