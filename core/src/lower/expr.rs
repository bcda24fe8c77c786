//! Expressions: typing, static branches, calls.

use super::build::{cast, compare, int_op, logic, ravel, select, truth};
use super::{L, Lowering, Res, Typed, advised, build, fault, not_given};
use crate::builtins::{self, Builtin};
use crate::counted;
use crate::dtype::Category;
use crate::lang::ast::*;
use crate::lang::helpers::{self, HelperFact};
use crate::loop_nest::*;
use crate::promote::promote;
use crate::row::Require;
use crate::signature::const_eval::{self, At, Stop, Val};
use crate::signature::{self, Item, Refusal, Size};
use crate::{DType, Dim, Name, Scalar, Value};
use std::borrow::Cow;

/// The nesting limit of inlined rows.
const MAX_INLINE: usize = 32;

/// At most this many nodes of a body, with shared parts repeated, because every reader walks all of them. The largest
/// body in `ops.yaml` has 1,339.
const MOST_NODES: u32 = 1 << 16;

/// From this many tensors in a list on, the list and not the row's text explains a large body.
const LONG_LIST: usize = 64;

/// At most this many tensors of a list that an expression chooses among, because each is a level of the stack: a thread
/// of 2 MB has the stack for twice the number.
const MOST_CHOICES: usize = 1 << 10;

/// At most this many inlined rows in one body, because lowering takes time even for empty ones.
const MOST_INLINED: usize = 1 << 12;

impl Lowering<'_> {
    pub(super) fn scalar(&mut self, e: &Expr, at: At) -> Res<Typed> {
        match self.any(e, at)? {
            L::One(v) => Ok(v),
            L::Unraveled(flat, dims) if dims.len() == 1 => Ok(flat),
            L::List(entries) => match entries.as_slice() {
                [Some(one)] => Ok(one.clone()),
                _ => {
                    let help =
                        format!("between brackets write `..{e}`; `ravel({e})` is the flat position as one number");
                    Err(advised(self.row, format!("`{e}` is a list where one value is needed"), help))
                }
            },
            _ => Err(fault(self.row, format!("`{e}` is no scalar"))),
        }
    }

    pub(super) fn constant(&self, v: Val) -> Res<L> {
        let typed = |s: Scalar, ty: DType| L::One(Typed { e: LoopExpr::new(SOp::Const(s), ty), elem: false });
        Ok(match v {
            Val::Int(d) => typed(Scalar::Int(d.value()), DType::I64),
            Val::Float(f) => typed(Scalar::Float(f), DType::F64),
            Val::Bool(b) => typed(Scalar::Bool(b), DType::Bool),
            Val::List(l) => {
                L::List(l.into_iter().map(|d| Some(Typed { e: LoopExpr::int(d.value()), elem: false })).collect())
            }
            Val::Absent => return Err(not_given(self.row, "an option")),
            other => return Err(fault(self.row, format!("{other:?} is no number"))),
        })
    }

    pub(super) fn any(&mut self, e: &Expr, at: At) -> Res<L> {
        let value = self.any_inside(e, at).map_err(|stop| match stop {
            Stop::NotStatic => fault(self.row, format!("`{e}` is not known here")).at(e.span),
            refused => refused.at(e.span),
        })?;
        match &value {
            L::One(v) if v.e.weight() > MOST_NODES => Err(self.too_large(v.e.weight()).at(e.span)),
            _ => Ok(value),
        }
    }

    /// Refuses a list of more tensors than an expression can choose among: each choice is one level of the expression,
    /// and walks recurse through all levels.
    pub(super) fn choices(&self, count: usize) -> Res<()> {
        if count <= MOST_CHOICES {
            return Ok(());
        }
        let message = format!("`{}` of {count} tensors: an element may come from at most {MOST_CHOICES}", self.row.op);
        let help =
            format!("call it for parts of the list, of at most {MOST_CHOICES} tensors each, and join what these give");
        Err(Refusal::new("E704", message).help(help).into())
    }

    fn too_large(&self, weight: u32) -> Stop {
        // A body with a test for each tensor of a list is large because of the list: not a fault of the row.
        let given =
            self.env.items.iter().filter_map(|(_, i)| if let Item::Tensors(_, n) = i { Some(*n) } else { None });
        if let Some(n) = given.max().filter(|n| *n >= LONG_LIST) {
            let most = (n as u64 * u64::from(MOST_NODES) / u64::from(weight.max(1)) / 2).max(2);
            let message =
                format!("`{}` of {n} tensors needs more than {MOST_NODES} operations for an element", self.row.op);
            let help = format!("call it for parts of the list, of {most} tensors each, and join what these give");
            return Refusal::new("E704", message).help(help).into();
        }
        let message = format!("written out it has more than {MOST_NODES} operations");
        let help = "a `let` that is used several times, and a row that is called, are written out at each use: make it \
                    a `decomp` of rows, which computes each once";
        advised(self.row, message, help)
    }

    fn any_inside(&mut self, e: &Expr, at: At) -> Res<L> {
        match &*e.node {
            Node::Int(i) => self.constant(Val::Int(Dim::from(*i))),
            Node::Float(f) => self.constant(Val::Float(*f)),
            Node::Str(_) | Node::List(_) => Err(fault(self.row, "a text or list stands in the tensor language only")),
            Node::Name(n) => self.name(*n, at),
            Node::Tuple(items) => Ok(L::Tuple(items.iter().map(|i| self.any(i, at)).collect::<Res<_>>()?)),
            Node::Unary(op, a) => self.unary(*op, a, at).map(L::One),
            Node::Binary(op @ (BinOp::And | BinOp::Or), a, b) => {
                let decides = *op == BinOp::Or;
                let whole = const_eval::eval(&self.env, e, at);
                if let Ok(Val::Bool(v)) = whole {
                    return self.constant(Val::Bool(v));
                }
                let (a, b) = (self.condition(a, at)?, self.condition(b, at)?);
                let elem = a.elem || b.elem;
                Ok(L::One(Typed { e: logic(!decides, a.e, b.e), elem }))
            }
            Node::Binary(op, a, b) => {
                let (a, b) = (self.scalar(a, at)?, self.scalar(b, at)?);
                self.binary(*op, a, b).map(L::One)
            }
            Node::Cast(a, elem) => {
                let v = self.scalar(a, at)?;
                let d = match elem {
                    Elem::Var(t) if *t == "T" => self.compute,
                    // integers are summed in the dtype in which the call computes
                    Elem::Acc(t) if *t == "T" && self.compute.is_int() => self.compute,
                    other => const_eval::elem_dtype(&self.env, other)?.opmath(),
                };
                let number = matches!(elem, Elem::Class(_)) && !v.elem;
                let e = match self.is_u64(&v.e) && d.is_float() {
                    true => build::float_of_u64(v.e, d),
                    false if v.e.ty().is_float() && self.names_u64(elem) => build::u64_of_float(v.e),
                    false => cast(v.e, d),
                };
                Ok(L::One(Typed { e, elem: !number }))
            }
            Node::If(c, a, b) => self.branch(c, a, b, at),
            Node::Match(on, arms) => {
                let Some(Item::Word(word)) = self.env.item(on.name) else {
                    return Err(fault(self.row, "`match` needs an option with words"));
                };
                let word = *word;
                match arms.iter().find(|(w, _)| w.name == word) {
                    Some((_, e)) => self.any(e, at),
                    None => Err(fault(self.row, format!("no arm for `{word}`"))),
                }
            }
            Node::Call(f, args) => self.call(f.name, args, at),
            Node::Access(a) => {
                let mut a = a.clone();
                // Inside `..( )`, a list argument without an item means its item at that axis.
                if let (None, Some(axis), Some(Item::Tensors(..))) = (&a.item, at.axis, self.env.item(a.base.name)) {
                    a.item = Some(Expr::bare(Node::Int(axis as i64)));
                }
                self.access(&a, at)
            }
            Node::Reduce(r) => self.reduce(r, at),
            Node::Zip(inner) => {
                let n = self.zip_rank(inner, at)?;
                let entries = (0..n)
                    .map(|axis| self.scalar(inner, At { axis: Some(axis), ..at }).map(Some))
                    .collect::<Res<Vec<_>>>()?;
                Ok(L::List(entries))
            }
            Node::Spread(inner) => self.any(inner, at),
        }
    }

    /// Whether `e` is an element of a tensor of u64.
    fn is_u64(&self, e: &LoopExpr) -> bool {
        let (SOp::Elem(slot) | SOp::Load { tensor: slot, .. }) = e.op() else { return false };
        self.env.slots.get(*slot).is_some_and(|ty| ty.as_ref().is_some_and(|ty| ty.dtype == DType::U64))
    }

    /// Whether `elem` is u64 in this call.
    fn names_u64(&self, elem: &Elem) -> bool {
        const_eval::elem_dtype(&self.env, elem).is_ok_and(|d| d == DType::U64)
    }

    fn name(&mut self, n: Name, at: At) -> Res<L> {
        if let Some(v) = self.lookup(n) {
            return Ok(match (v, at.axis) {
                (L::List(entries), Some(axis)) => match entries.get(axis) {
                    Some(Some(v)) => L::One(v.clone()),
                    _ => return Err(fault(self.row, format!("`{n}` is not bound at axis {axis}"))),
                },
                (L::Unraveled(flat, dims), Some(axis)) => {
                    let e = build::unravel(&flat.e, &dims).into_iter().nth(axis);
                    let e = e.ok_or_else(|| fault(self.row, format!("`{n}` has no axis {axis}")))?;
                    L::One(Typed { e, elem: false })
                }
                (v, _) => v,
            });
        }
        if let Some((slot, _)) = self.slots(n) {
            let Some(ty) = self.env.slots.get(slot).cloned().flatten() else {
                return Err(fault(self.row, format!("`{n}` is no tensor")));
            };
            let dtype = self.element_dtype(n, slot);
            let op = if self.pointwise {
                SOp::Elem(slot)
            } else if ty.rank() == 0 {
                SOp::Load { tensor: slot, idx: Vec::new(), outside: SOutside::Refuse }
            } else {
                let help = format!("say which of its elements: `{n}[…]`, an index for each axis");
                return Err(advised(self.row, format!("`{n}` needs indices"), help));
            };
            return Ok(L::One(Typed { e: self.compared(LoopExpr::new(op, dtype), Some(ty.dtype)), elem: true }));
        }
        let param = self.row.sig.params.iter().find(|p| p.name.name == n);
        if let Some(param) = param {
            // A number in place of a tensor has the dtype of an element.
            let dtype = match param.ty.elem.first() {
                Some(Elem::Var(t)) if *t == "T" => self.compute,
                Some(elem) => const_eval::elem_dtype(&self.env, elem)?.opmath(),
                None => self.compute,
            };
            return match self.env.item(n) {
                Some(Item::Num(_) | Item::Int(_)) => {
                    let number = match self.env.item(n) {
                        Some(Item::Int(size)) => Scalar::Int(size.value()),
                        Some(Item::Num(number)) => *number,
                        _ => return Err(not_given(self.row, &format!("`{n}`"))),
                    };
                    let e = LoopExpr::new(SOp::Const(builtins::cast_scalar(number, dtype)), dtype);
                    Ok(L::One(Typed { e: self.compared(e, None), elem: true }))
                }
                Some(Item::Runtime(k, d)) => {
                    let wide = if d.is_float() { DType::F64 } else { DType::I64 };
                    let e = cast(LoopExpr::new(SOp::Num(*k), wide), dtype);
                    Ok(L::One(Typed { e: self.compared(e, None), elem: true }))
                }
                _ => Err(not_given(self.row, &format!("`{n}`"))),
            };
        }
        if let Some(Item::Runtime(k, d)) = self.env.item(n) {
            let wide = if d.is_float() { DType::F64 } else { DType::I64 };
            return Ok(L::One(Typed { e: LoopExpr::new(SOp::Num(*k), wide), elem: false }));
        }
        if let Some(Size::List(sizes)) = self.env.size(n.size_of_index())
            && sizes.is_empty()
            && self.env.item(n).is_none()
            && !n.is_size()
        {
            // A list of no axes binds no index.
            return Ok(L::List(Vec::new()));
        }
        let v = const_eval::eval(&self.env, &Expr::name(n), at).map_err(|s| match s {
            Stop::NotStatic => fault(self.row, format!("`{n}` is not known here")),
            refused => refused,
        })?;
        self.constant(v)
    }

    fn unary(&mut self, op: UnOp, a: &Expr, at: At) -> Res<Typed> {
        let v = self.scalar(a, at)?;
        if op == UnOp::Not {
            let v = self.truthy(v);
            let e = match v.e.as_const() {
                Some(s) => truth(!s.as_bool()),
                None => LoopExpr::new(SOp::Call(Builtin::Not, vec![v.e]), DType::Bool),
            };
            return Ok(Typed { e, elem: v.elem });
        }
        let e = match (v.e.as_const(), v.e.ty()) {
            (Some(Scalar::Float(f)), ty) => LoopExpr::new(SOp::Const(Scalar::Float(-f)), ty),
            (Some(Scalar::Int(i)), ty) => LoopExpr::new(SOp::Const(Scalar::Int(i.wrapping_neg())), ty),
            (_, DType::I64) if !v.elem => int_op(Builtin::Mul, v.e, LoopExpr::int(-1)),
            (_, ty) => self.fold(Builtin::Neg, vec![v.e], ty)?,
        };
        Ok(Typed { e, elem: v.elem })
    }

    fn truthy(&self, v: Typed) -> Typed {
        if v.e.ty() == DType::Bool { v } else { Typed { e: cast(v.e, DType::Bool), elem: v.elem } }
    }

    pub(super) fn condition(&mut self, e: &Expr, at: At) -> Res<Typed> {
        if let Ok(Val::Bool(b)) = const_eval::eval(&self.env, e, at) {
            return Ok(Typed { e: truth(b), elem: false });
        }
        let v = self.scalar(e, at)?;
        Ok(self.truthy(v))
    }

    fn branch(&mut self, c: &Expr, a: &Block, b: &Block, at: At) -> Res<L> {
        if let Ok(Val::Bool(v)) = const_eval::eval(&self.env, c, at) {
            return self.block(if v { a } else { b }, at);
        }
        let c = self.condition(c, at)?;
        if let Some(s) = c.e.as_const() {
            return self.block(if s.as_bool() { a } else { b }, at);
        }
        match (self.block(a, at)?, self.block(b, at)?) {
            (L::One(a), L::One(b)) => {
                let (ty, elem) = self.join(&a, &b);
                Ok(L::One(Typed { e: select(c.e, cast(a.e, ty), cast(b.e, ty)), elem: elem || c.elem }))
            }
            (L::Tuple(xs), L::Tuple(ys)) if xs.len() == ys.len() => {
                let pairs = xs.into_iter().zip(ys).map(|pair| match pair {
                    (L::One(a), L::One(b)) => {
                        let (ty, elem) = self.join(&a, &b);
                        Ok(L::One(Typed { e: select(c.e.clone(), cast(a.e, ty), cast(b.e, ty)), elem: elem || c.elem }))
                    }
                    _ => Err(fault(self.row, "an `if` over elements yields scalars")),
                });
                Ok(L::Tuple(pairs.collect::<Res<_>>()?))
            }
            _ => Err(fault(self.row, "an `if` over elements yields scalars")),
        }
    }

    /// The common dtype of two operands.
    pub(super) fn join(&self, a: &Typed, b: &Typed) -> (DType, bool) {
        let (x, y) = (a.e.ty(), b.e.ty());
        let ty = match (a.elem, b.elem) {
            (true, false) => adapt(x, y),
            (false, true) => adapt(y, x),
            _ => promote(x, y),
        };
        (ty, a.elem || b.elem)
    }

    pub(super) fn binary(&mut self, op: BinOp, a: Typed, b: Typed) -> Res<Typed> {
        let (ty, elem) = self.join(&a, &b);
        let (x, y) = (cast(a.e, ty), cast(b.e, ty));
        let builtin = match op {
            BinOp::Div if ty.is_int() && !elem => Builtin::DivFloor,
            BinOp::Rem if !elem || ty.is_float() => Builtin::RemFloor,
            BinOp::Div if !ty.is_int() => Builtin::Div,
            BinOp::Div | BinOp::Rem => {
                return Err(advised(
                    self.row,
                    "`/` and `%` of integer elements: say div_floor, div_trunc, rem_floor or rem_trunc",
                    "for true quotients of integers say `promote: float`; where the row is for floats alone, `dtypes: float`",
                ));
            }
            BinOp::And | BinOp::Or => {
                return Ok(Typed { e: logic(op == BinOp::And, cast(x, DType::Bool), cast(y, DType::Bool)), elem });
            }
            _ => op.builtin(),
        };
        let compares = matches!(op, BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge);
        let e = if ty == DType::I64 && !elem {
            if compares { compare(builtin, x, y) } else { int_op(builtin, x, y) }
        } else {
            self.fold(builtin, vec![x, y], if compares { DType::Bool } else { ty })?
        };
        Ok(Typed { e, elem })
    }

    /// A call of a builtin; on float constants, its value.
    fn fold(&self, b: Builtin, args: Vec<LoopExpr>, ty: DType) -> Res<LoopExpr> {
        let record = b.record();
        if let Some(d) = args.first().map(LoopExpr::ty).filter(|d| !record.domain.contains(*d)) {
            return Err(undefined(record.name, d));
        }
        let consts: Option<Vec<f64>> = args
            .iter()
            .map(|a| match a.as_const() {
                Some(Scalar::Float(f)) if a.ty() == DType::F64 => Some(f),
                _ => None,
            })
            .collect();
        Ok(match consts {
            Some(xs) if ty == DType::F64 => LoopExpr::new(SOp::Const(Scalar::Float(builtins::eval_f64(b, &xs))), ty),
            Some(xs) if ty == DType::Bool => truth(builtins::eval_f64(b, &xs) != 0.0),
            _ => LoopExpr::new(SOp::Call(b, args), ty),
        })
    }

    fn call(&mut self, f: Name, args: &[Arg], at: At) -> Res<L> {
        let arg = |i: usize| match args.get(i) {
            Some(a) => Ok(&a.value),
            None => Err(fault(self.row, format!("`{f}` needs more arguments"))),
        };
        let row = self.row;
        match f.as_str() {
            _ if helpers::is(f, HelperFact::Constant) => {
                let e = Expr::bare(Node::Call(Ident { name: f, span: Span::default() }, args.to_vec()));
                let v = const_eval::eval(&self.env, &e, at)?;
                self.constant(v)
            }
            "detach" => {
                let v = self.scalar(arg(0)?, at)?;
                let ty = v.e.ty();
                Ok(L::One(Typed { e: LoopExpr::new(SOp::Detach(v.e), ty), elem: v.elem }))
            }
            "uniform" => {
                let Node::Name(key) = &*arg(0)?.node else { return Err(fault(row, "`uniform` takes a key argument")) };
                let (slot, _) = self.slots(*key).ok_or_else(|| fault(row, format!("`{key}` is no key")))?;
                let position = self.index(arg(1)?, at)?;
                let draw = const_eval::eval(&self.env, arg(2)?, at)?.int()?.value();
                let draw = u32::try_from(draw).map_err(|_| fault(row, "`uniform` needs a draw number ≥ 0"))?;
                let e = LoopExpr::new(SOp::Uniform { key: slot, position, draw }, DType::F32);
                Ok(L::One(Typed { e, elem: true }))
            }
            "ravel" => {
                let list = arg(0)?;
                if args.len() == 1
                    && let L::Unraveled(flat, _) = self.any(list, At { axis: None, ..at })?
                {
                    return Ok(L::One(flat));
                }
                let sizes = match args.get(1) {
                    Some(s) => self.raveled_sizes(&s.value, at)?,
                    None => match &*list.node {
                        Node::Name(n) => self.sizes_of(n.size_of_index())?,
                        _ => return Err(fault(row, "`ravel` of an expression needs the sizes as a second argument")),
                    },
                };
                let indices = match &*list.node {
                    Node::Name(n) if sizes.is_empty() => {
                        let _ = n;
                        Vec::new()
                    }
                    _ => self.list_value(list, At { axis: None, ..at })?,
                };
                Ok(L::One(Typed { e: ravel(&indices, &sizes), elem: false }))
            }
            "unravel" => {
                let flat = self.index(arg(0)?, At { axis: None, ..at })?;
                let sizes = const_eval::eval(&self.env, arg(1)?, At { axis: None, ..at })?.list()?.to_vec();
                let v = L::Unraveled(Typed { e: flat, elem: false }, sizes);
                match (v, at.axis) {
                    (L::Unraveled(flat, dims), Some(axis)) => {
                        let e = build::unravel(&flat.e, &dims).into_iter().nth(axis);
                        let e = e.ok_or_else(|| fault(row, format!("`unravel` has no axis {axis}")))?;
                        Ok(L::One(Typed { e, elem: false }))
                    }
                    (v, _) => Ok(v),
                }
            }
            "wrap" => {
                let (i, n) = (self.index(arg(0)?, at)?, self.index(arg(1)?, at)?);
                let wrapped = int_op(Builtin::Add, i.clone(), n);
                Ok(L::One(Typed {
                    e: select(compare(Builtin::Lt, i.clone(), LoopExpr::int(0)), wrapped, i),
                    elem: false,
                }))
            }
            "ceil_div" => {
                let (a, b) = (self.index(arg(0)?, at)?, self.index(arg(1)?, at)?);
                let neg = int_op(Builtin::Mul, a, LoopExpr::int(-1));
                let e = int_op(Builtin::Mul, int_op(Builtin::DivFloor, neg, b), LoopExpr::int(-1));
                Ok(L::One(Typed { e, elem: false }))
            }
            _ => {
                let values = args.iter().map(|a| self.scalar(&a.value, at)).collect::<Res<Vec<_>>>()?;
                match Builtin::from_name(f.as_str()) {
                    Some(b) => self.builtin(b, values).map(L::One),
                    None => self.inline(f, values),
                }
            }
        }
    }

    /// The second argument of `ravel`.
    fn raveled_sizes(&self, sizes: &Expr, at: At) -> Res<Vec<Dim>> {
        match const_eval::eval(&self.env, sizes, At { axis: None, ..at }) {
            Ok(Val::List(sizes)) => Ok(sizes.to_vec()),
            Ok(_) | Err(Stop::NotStatic) => {
                let help = "`ravel` takes one list of indices, `ravel(s)`, and its sizes where it is not a result's, \
                            `ravel(t, S)`; single indices are counted: `b * C + c`";
                Err(advised(self.row, format!("`{sizes}` is no list of sizes"), help))
            }
            Err(refused) => Err(refused),
        }
    }

    /// A call of a builtin whose arguments are cast to their common dtype.
    pub(super) fn builtin(&mut self, b: Builtin, values: Vec<Typed>) -> Res<Typed> {
        let record = b.record();
        if values.len() != record.arity() {
            let takes = counted(record.arity(), "argument", "arguments");
            return Err(fault(self.row, format!("`{}` takes {takes}", record.name)));
        }
        let (mut ty, mut elem) = (values[0].e.ty(), values[0].elem);
        for v in &values[1..] {
            let so_far = Typed { e: LoopExpr::new(SOp::Const(Scalar::Int(0)), ty), elem };
            (ty, elem) = self.join(&so_far, v);
        }
        // Sizes and options become floats where a float is needed; elements do so only by the row's `promote`.
        if !elem && !record.domain.contains(ty) && record.domain.contains(DType::F64) {
            ty = DType::F64;
        }
        let result = b.result_dtype(ty, ty).unwrap_or(ty);
        let args: Vec<LoopExpr> = values.into_iter().map(|v| cast(v.e, ty)).collect();
        if ty == DType::I64 && !elem && matches!(b, Builtin::Max | Builtin::Min) {
            return Ok(Typed { e: int_op(b, args[0].clone(), args[1].clone()), elem });
        }
        Ok(Typed { e: self.fold(b, args, result)?, elem })
    }

    /// A call of a pointwise row in an `expr`: its own body on these values.
    fn inline(&mut self, f: Name, values: Vec<Typed>) -> Res<L> {
        let Some(callee) = self.rows.row(f) else {
            return Err(fault(self.row, format!("`{f}` is neither a builtin nor a pointwise row")));
        };
        let Some(body) = callee.index_body() else { return Err(fault(self.row, format!("`{f}` is not pointwise"))) };
        if !callee.is_pointwise() || self.depth >= MAX_INLINE {
            return Err(fault(self.row, format!("`{f}` can't be inlined")));
        }
        self.inlined += 1;
        if self.inlined > MOST_INLINED {
            return Err(self.too_large(MOST_NODES));
        }
        let n = callee.sig.params.len() + callee.sig.opts.len();
        let mut args: Vec<Value<usize>> = (0..values.len().min(callee.sig.params.len())).map(Value::Tensor).collect();
        for v in values.iter().skip(callee.sig.params.len()) {
            let s =
                v.e.as_const().ok_or_else(|| fault(self.row, format!("options of `{f}` must be constants here")))?;
            args.push(Value::Num(s));
        }
        args.resize(n, Value::Absent);
        let solved = signature::solve(&callee, &args, &|&i| self.arg_ty(&values[i]))?;
        let open = |r: &&Require| matches!(const_eval::eval(&solved.env, &r.cond, At::default()), Err(Stop::NotStatic));
        if let Some(r) = callee.require.iter().find(open) {
            let help = "call it in a `decomp`, or write here what it computes for the elements that it takes";
            return Err(advised(self.row, format!("`{f}` asks of elements: {}", r.shown), help));
        }
        let mut sub = Lowering {
            row: &callee,
            env: Cow::Borrowed(&solved.env),
            compute: solved.compute,
            rows: self.rows,
            vars: Vec::new(),
            indices: Vec::new(),
            lets: callee.sig.params.iter().zip(values).map(|(p, v)| (p.name.name, L::One(v))).collect(),
            pointwise: true,
            depth: self.depth + 1,
            inlined: self.inlined,
        };
        for (_, v) in &mut sub.lets {
            if let L::One(v) = v
                && v.e.ty() != sub.compute
                && v.e.ty() != DType::Bool
            {
                *v = Typed { e: cast(v.e.clone(), sub.compute), elem: true };
            }
        }
        // A place in the callee's text is not a place in this one.
        let made = sub.block(body, At::default());
        self.inlined = sub.inlined;
        made.map_err(|stop| match stop {
            Stop::Refused(r) => Stop::Refused(Refusal { at: None, ..r }),
            stop => stop,
        })
    }
}

pub(super) fn undefined(builtin: &str, dtype: DType) -> Stop {
    Refusal::new("E202", format!("`{builtin}` is not defined on {dtype}")).into()
}

/// The dtype of an element that meets a number: the element's, unless the number's category is higher.
fn adapt(element: DType, number: DType) -> DType {
    if number.category() <= element.category() {
        element
    } else if number.category() == Category::Float {
        DType::DEFAULT_FLOAT
    } else {
        DType::I64
    }
}
