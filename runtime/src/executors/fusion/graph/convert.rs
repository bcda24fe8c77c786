//! Converts loop nests to graphs.
//!
//! Every reduction becomes a value of its own, which fusion may join with its users again. Index arithmetic becomes
//! affine if possible. An access that may be out of range is guarded by the condition under which it is made. A nest
//! without a graph is left to the interpreter, with the reason.

use super::piece::{Fragment, Out, Piece, Place, Slow, Values};
use super::row::{RowArg, RowKernel};
use super::vars;
use super::{Affine, Axis, Dim, Graph, Index, Load, NodeId, Op, RowCall, ValueId, decided};
use fulgurite_core::builtins::Builtin;
use fulgurite_core::loop_nest::{LoopExpr, Nest, SNode, SOp, SOutside};
use fulgurite_core::{DType, Scalar};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// A line in terms of values: its meaning, and the values that it reads and defines.
pub struct LineIo {
    /// The meaning.
    pub nest: Arc<Nest>,
    /// The tensors and keys, in the order of the nest.
    pub tensors: Vec<ValueId>,
    /// The run-time numbers.
    pub nums: Vec<ValueId>,
    /// The results, then the auxiliary results; `None` for one that is not wanted.
    pub outs: Vec<Option<ValueId>>,
    /// The kernel for the whole expression, if there is one.
    pub row: Option<RowKernel>,
    /// Whether products take operands of f16 and bf16.
    pub halves: bool,
    /// Whether products of f32 take an operand that slides.
    pub slides: bool,
}

/// At most this many loops in a nest that becomes a graph, because a program has at most that many loops.
const MOST_LOOPS: usize = 14;

/// The reason why a nest has no graph.
pub type Why = &'static str;

pub fn convert(line: &LineIo, values: &mut Values) -> Vec<Piece> {
    match Converter::new(line, values).and_then(Converter::run) {
        Ok(pieces) => pieces,
        Err(why) => {
            let outs = (line.nest.outs.iter().zip(&line.outs))
                .map(|(o, v)| {
                    v.unwrap_or_else(|| values.add(o.dtype, &o.shape.iter().map(|d| d.len()).collect::<Vec<_>>()))
                })
                .collect();
            vec![Piece::Slow(Slow {
                nest: line.nest.clone(),
                tensors: line.tensors.clone(),
                nums: line.nums.clone(),
                outs,
                why,
            })]
        }
    }
}

/// An index variable that is bound in a scope.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    /// The value of the variable.
    pub total: Affine,
    /// The dims that form the variable, slowest first; none if an equation determined it, or if it has a single value.
    pub digits: Axis,
}

/// The range of values of a variable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub lo: i64,
    pub size: usize,
}

pub(super) struct Converter<'a> {
    pub line: &'a LineIo,
    pub values: &'a mut Values,
    pub pieces: Vec<Piece>,
    /// For each variable, the extents of the digits into which it is split, slowest first.
    pub digits: Vec<SmallVec<[usize; 2]>>,
    /// For each variable, its range, known once the variable was bound.
    pub ranges: Vec<Option<Range>>,
    /// Values that the conversion made and that expressions read. Their numbers follow those of the
    /// nest's tensors.
    pub extra: Vec<ValueId>,
    /// The next variable that the nest does not have.
    spare: usize,
}

/// The number of variables that a conversion may add to those of the nest: two convolutions of three spatial axes.
const SPARE: usize = 6;

/// A graph under construction, with the environment of its expressions.
pub(super) struct Scope {
    pub graph: Graph,
    pub vars: Vec<Option<Bound>>,
    /// A variable that has a computed value, and this value.
    pub chosen: Option<(usize, NodeId)>,
    /// The implicit position of pointwise nests, one index per axis.
    pub position: Vec<(Affine, usize)>,
    /// The condition under which the current expression is evaluated.
    pub cond: Option<NodeId>,
    /// Conditions under which the innermost reduction keeps an element.
    pub skips: Vec<NodeId>,
    /// Whether the row's own kernel has made a result.
    by_row: bool,
    memo: FxHashMap<(*const SNode, Option<NodeId>), (LoopExpr, NodeId)>,
}

impl Scope {
    pub fn new(vars: usize) -> Scope {
        Scope {
            graph: Graph::default(),
            vars: vec![None; vars],
            chosen: None,
            position: Vec::new(),
            cond: None,
            skips: Vec::new(),
            by_row: false,
            memo: FxHashMap::default(),
        }
    }

    /// The conjunction of two conditions.
    pub fn and(&mut self, a: Option<NodeId>, b: NodeId) -> NodeId {
        match a {
            Some(a) => self.graph.add(Op::Call(Builtin::And, smallvec![a, b]), DType::Bool),
            None => b,
        }
    }

    /// The test `affine >= 0`, or a constant if the ranges decide it.
    pub fn at_least_zero(&mut self, affine: Affine) -> NodeId {
        self.test(affine, false)
    }

    /// The test `affine == 0`, or a constant if the ranges decide it.
    pub fn is_zero(&mut self, affine: Affine) -> NodeId {
        self.test(affine, true)
    }

    fn test(&mut self, affine: Affine, equal: bool) -> NodeId {
        match decided(&affine, equal, &self.graph.sizes) {
            Some(holds) => self.graph.constant(Scalar::Bool(holds), DType::Bool),
            None => self.graph.add(Op::Test { affine, equal }, DType::Bool),
        }
    }
}

impl<'a> Converter<'a> {
    fn new(line: &'a LineIo, values: &'a mut Values) -> Result<Converter<'a>, Why> {
        let nest = &line.nest;
        if line.tensors.len() != nest.ranks.len() && !nest.pointwise {
            return Err("the nest has other tensors");
        }
        let mut digits = vars::split_vars(nest);
        digits.extend(std::iter::repeat_n(SmallVec::new(), SPARE));
        let ranges = vec![None; digits.len()];
        Ok(Converter { line, values, pieces: Vec::new(), digits, ranges, extra: Vec::new(), spare: nest.vars.len() })
    }

    /// The value of a tensor of the nest, or of one that the conversion made.
    pub fn tensor(&self, t: usize) -> Option<ValueId> {
        self.line.tensors.iter().chain(&self.extra).nth(t).copied()
    }

    /// A variable of `n` values that the nest does not have.
    pub fn fresh_var(&mut self, n: usize) -> Option<usize> {
        let v = self.spare;
        *self.digits.get_mut(v)? = smallvec![n];
        self.spare += 1;
        Some(v)
    }

    fn run(mut self) -> Result<Vec<Piece>, Why> {
        let line = self.line;
        let nest = line.nest.clone();
        let mut scope: Option<(Scope, Vec<Out>, Vec<usize>)> = None;
        for (at, (out, value)) in nest.outs.iter().zip(&line.outs).enumerate() {
            let Some(value) = *value else { continue };
            let shape: Vec<usize> = out.shape.iter().map(|d| d.len()).collect();
            if shape.contains(&0) {
                continue;
            }
            // Results of one shape share a graph if they share the implicit position.
            let shared = nest.pointwise && scope.as_ref().is_some_and(|(_, _, s)| *s == shape);
            if !shared {
                self.finish(scope.take());
                let mut fresh = Scope::new(self.ranges.len());
                if nest.pointwise {
                    fresh.position = shape.iter().map(|&n| (index_dim(&mut fresh.graph, n), n)).collect();
                }
                scope = Some((fresh, Vec::new(), shape.clone()));
            }
            let Some((s, outs, _)) = &mut scope else { continue };
            let mut axes: Vec<Axis> = Vec::new();
            for (axis, &n) in shape.iter().enumerate() {
                match out.axes.get(axis).copied().flatten() {
                    Some(v) => {
                        let bound = self.bind(s, v, Range { lo: 0, size: n })?;
                        axes.push(bound.digits);
                    }
                    None if nest.pointwise => axes.push(s.position[axis].0.terms.iter().map(|t| t.0).collect()),
                    None if n == 1 => axes.push(Axis::new()),
                    None => return Err("an axis without a variable"),
                }
            }
            let before = s.graph.nodes.len();
            let mut node = self.expr(s, &out.expr)?;
            if let Some(kernel) = &line.row
                && (s.by_row || calls(&s.graph, before) > 1)
            {
                // The row's kernel makes one pass instead of several, and serves results that share expressions with
                // this one. The nodes made above are left without users.
                s.by_row = true;
                node = self.row_call(s, kernel, at, nest.outs.len(), out.expr.ty())?;
            }
            if !s.skips.is_empty() {
                return Err("an element is left out of no reduction");
            }
            let node = self.store_type(s, node, out.dtype);
            outs.push(Out { value, node, place: Place::Axes(axes) });
        }
        self.finish(scope);
        Ok(self.pieces)
    }

    /// The node in its stored form: cast to the dtype, and rounded to it if it computes in another one.
    fn store_type(&self, s: &mut Scope, node: NodeId, dtype: DType) -> NodeId {
        let node = s.graph.add(Op::Cast(node), dtype.opmath());
        // An element of that dtype is rounded already.
        let stored = matches!(&s.graph.node(node).op, Op::Load(l) if self.values.ty(l.value).dtype == dtype);
        if stored || dtype.opmath() == dtype { node } else { s.graph.add(Op::Round(node, dtype), dtype.opmath()) }
    }

    fn finish(&mut self, scope: Option<(Scope, Vec<Out>, Vec<usize>)>) {
        if let Some((scope, outs, _)) = scope
            && !outs.is_empty()
        {
            self.pieces.push(Piece::Map(Fragment { graph: scope.graph, outs, view: false }));
        }
    }

    /// Binds a variable to dims.
    pub fn bind(&mut self, s: &mut Scope, v: usize, range: Range) -> Result<Bound, Why> {
        if range.size == 0 {
            return Err("a reduction over nothing");
        }
        let whole = range.lo == 0 && self.digits[v].iter().product::<usize>() == range.size;
        let extents: SmallVec<[usize; 2]> = if whole { self.digits[v].clone() } else { smallvec![range.size] };
        let (mut total, mut digits) = (Affine::constant(range.lo), Axis::new());
        let mut stride = range.size as i64;
        for n in extents {
            stride /= n as i64;
            if n == 1 {
                continue;
            }
            if s.graph.sizes.len() >= MOST_LOOPS {
                return Err("too many loops");
            }
            let d = s.graph.dim(n);
            total = total.plus(&Affine::dim(d), stride).ok_or("an index leaves i64")?;
            digits.push(d);
        }
        self.ranges[v] = Some(range);
        let bound = Bound { total, digits };
        s.vars[v] = Some(bound.clone());
        Ok(bound)
    }

    /// An index expression as an affine expression of the dims, if it is one.
    pub fn affine(&self, s: &Scope, e: &LoopExpr) -> Option<Affine> {
        match e.op() {
            SOp::Const(Scalar::Int(i)) => Some(Affine::constant(*i)),
            SOp::Var(v) => s.vars[*v].as_ref().map(|b| b.total.clone()),
            SOp::Cast(a) if a.ty() == DType::I64 && e.ty() == DType::I64 => self.affine(s, a),
            SOp::Call(b, xs) if e.ty() == DType::I64 => {
                let x = self.affine(s, xs.first()?)?;
                if *b == Builtin::Neg {
                    return x.times(-1);
                }
                let y = self.affine(s, xs.get(1)?)?;
                match b {
                    Builtin::Add => x.plus(&y, 1),
                    Builtin::Sub => x.plus(&y, -1),
                    Builtin::Mul => match (x.as_constant(), y.as_constant()) {
                        (_, Some(k)) => x.times(k),
                        (Some(k), _) => y.times(k),
                        _ => None,
                    },
                    Builtin::DivFloor => x.div_rem(y.as_constant().filter(|k| *k > 0)?, &s.graph.sizes).map(|p| p.0),
                    Builtin::RemFloor => x.div_rem(y.as_constant().filter(|k| *k > 0)?, &s.graph.sizes).map(|p| p.1),
                    Builtin::Max | Builtin::Min => {
                        let (lo, hi) = x.plus(&y, -1)?.range(&s.graph.sizes);
                        let first = if *b == Builtin::Max { lo >= 0 } else { hi <= 0 };
                        let second = if *b == Builtin::Max { hi <= 0 } else { lo >= 0 };
                        if first {
                            Some(x)
                        } else if second {
                            Some(y)
                        } else {
                            None
                        }
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    pub fn expr(&mut self, s: &mut Scope, e: &LoopExpr) -> Result<NodeId, Why> {
        let key = (Arc::as_ptr(&e.0), s.cond);
        if let Some((_, id)) = s.memo.get(&key) {
            return Ok(*id);
        }
        let skips = s.skips.len();
        let id = self.fresh(s, e)?;
        if s.skips.len() == skips {
            // the map holds the expression, because the address of a dropped one may be reused
            s.memo.insert(key, (e.clone(), id));
        }
        Ok(id)
    }

    fn fresh(&mut self, s: &mut Scope, e: &LoopExpr) -> Result<NodeId, Why> {
        let ty = e.ty();
        if ty == DType::I64
            && !matches!(e.op(), SOp::Const(_))
            && let Some(a) = self.affine(s, e)
        {
            return Ok(match a.as_constant() {
                Some(i) => s.graph.constant(Scalar::Int(i), ty),
                None => s.graph.add(Op::Index(a), ty),
            });
        }
        Ok(match e.op() {
            SOp::Const(c) => s.graph.constant(*c, ty),
            SOp::Num(i) => {
                let value = *self.line.nums.get(*i).ok_or("a run-time number is missing")?;
                let load = Load { value, idx: SmallVec::new(), outside: None, no_minus_zero: false };
                let node = s.graph.add(Op::Load(load), self.values.ty(value).dtype.opmath());
                s.graph.add(Op::Cast(node), ty)
            }
            SOp::Var(v) => match s.chosen {
                Some((var, node)) if var == *v => node,
                _ => return Err("an index variable is not bound"),
            },
            SOp::Elem(t) => self.elem(s, *t, ty)?,
            SOp::Load { tensor, idx, outside } => self.load(s, *tensor, idx, outside, ty)?,
            SOp::Call(b, args) => self.call(s, *b, args, ty)?,
            SOp::Cast(a) => {
                let a = self.expr(s, a)?;
                self.store_type(s, a, ty)
            }
            SOp::Detach(a) => self.expr(s, a)?,
            SOp::Select(c, a, b) => {
                let c = self.expr(s, c)?;
                if let Some(known) = s.graph.as_const(c) {
                    return self.expr(s, if known.as_bool() { a } else { b });
                }
                let outer = s.cond;
                s.cond = Some(s.and(outer, c));
                let a = self.expr(s, a);
                let not = s.graph.add(Op::Call(Builtin::Not, smallvec![c]), DType::Bool);
                s.cond = Some(s.and(outer, not));
                let b = self.expr(s, b);
                s.cond = outer;
                let (a, b) = (a?, b?);
                s.graph.add(Op::Select(c, a, b), ty)
            }
            SOp::Reduce { .. } => self.reduction(s, e)?,
            SOp::Uniform { key, position, draw } => {
                let key = *self.line.tensors.get(*key).ok_or("a key is missing")?;
                let position = self.expr(s, position)?;
                let node = s.graph.add(Op::Uniform { key, position, draw: *draw }, DType::F32);
                s.graph.add(Op::Cast(node), ty)
            }
        })
    }

    /// Result `out` of `outs` by the row's kernel, in registers of `ty`.
    fn row_call(
        &mut self,
        s: &mut Scope,
        kernel: &RowKernel,
        out: usize,
        outs: usize,
        ty: DType,
    ) -> Result<NodeId, Why> {
        let mut args = SmallVec::new();
        for a in &kernel.args {
            args.push(match *a {
                RowArg::Elem(tensor, d) => self.elem(s, tensor, d)?,
                RowArg::Number(x, d) => s.graph.constant(x, d),
            });
        }
        let call = RowCall {
            symbol: kernel.symbol,
            variant: kernel.variant,
            dtype: kernel.dtype,
            args,
            nums: kernel.nums.clone(),
            out: out as u8,
            outs: outs as u8,
        };
        Ok(s.graph.add(Op::Row(call), ty))
    }

    /// The element at the implicit position.
    fn elem(&mut self, s: &mut Scope, tensor: usize, ty: DType) -> Result<NodeId, Why> {
        let value = self.tensor(tensor).ok_or("a tensor is missing")?;
        let v = self.values.ty(value);
        let lead = s.position.len().checked_sub(v.shape.len()).ok_or("an argument has more axes than the result")?;
        let mut idx = SmallVec::new();
        for (axis, &n) in v.shape.iter().enumerate() {
            let (at, size) = &s.position[lead + axis];
            idx.push(Index::Affine(match n {
                1 => Affine::constant(0),
                n if n == *size => at.clone(),
                _ => return Err("an argument does not broadcast to the result"),
            }));
        }
        let stored = v.dtype.opmath();
        let node = s.graph.add(Op::Load(Load { value, idx, outside: None, no_minus_zero: false }), stored);
        Ok(s.graph.add(Op::Cast(node), ty))
    }

    fn load(
        &mut self,
        s: &mut Scope,
        tensor: usize,
        idx: &[LoopExpr],
        outside: &SOutside,
        ty: DType,
    ) -> Result<NodeId, Why> {
        let value = self.tensor(tensor).ok_or("a tensor is missing")?;
        let v = self.values.ty(value).clone();
        if v.shape.len() != idx.len() {
            return Err("an access has another rank");
        }
        let stored = v.dtype.opmath();
        if v.shape.contains(&0) {
            // Every index is outside.
            let nowhere = s.graph.constant(Scalar::Bool(false), DType::Bool);
            match outside {
                SOutside::Refuse if s.cond.is_none() => {}
                SOutside::Refuse => return Err("an access to an empty tensor that is perhaps not made"),
                SOutside::Skip => {
                    self.skip_unless(s, nowhere);
                    return Ok(s.graph.constant(Scalar::Int(0), ty));
                }
                SOutside::Value(e) => return self.expr(s, e),
            }
        }
        if *outside == SOutside::Refuse
            && idx.iter().any(|e| self.affine(s, e).is_none())
            && let Some(position) = self.flat_position(s, idx, &v.shape)
        {
            // A reshape whose digits do not match reads through a view of the flat tensor.
            let value = self.flat(value);
            let load = Load { value, idx: smallvec![Index::Affine(position)], outside: None, no_minus_zero: false };
            let node = s.graph.add(Op::Load(load), stored);
            return Ok(s.graph.add(Op::Cast(node), ty));
        }
        let mut indices: SmallVec<[Index; 4]> = SmallVec::new();
        // The condition under which the access is in range, unless the ranges of the loops prove
        // it.
        let mut inside: Option<NodeId> = None;
        let mut affine_only = true;
        // The axes along which loops alone may leave the tensor, with the condition that they do not.
        let mut leaving: SmallVec<[(usize, NodeId); 2]> = SmallVec::new();
        for (e, &size) in idx.iter().zip(&v.shape) {
            if let Some(a) = self.affine(s, e) {
                let (lo, hi) = a.range(&s.graph.sizes);
                let mut own = None;
                if lo < 0 {
                    let t = s.at_least_zero(a.clone());
                    own = Some(s.and(own, t));
                }
                if hi >= size as i64 {
                    let room = Affine::constant(size as i64 - 1).plus(&a, -1).ok_or("an index leaves i64")?;
                    let t = s.at_least_zero(room);
                    own = Some(s.and(own, t));
                }
                if let Some(own) = own {
                    inside = Some(s.and(inside, own));
                    leaving.push((indices.len(), own));
                }
                indices.push(Index::Affine(a));
                continue;
            }
            affine_only = false;
            let mut node = self.expr(s, e)?;
            let zero = s.graph.constant(Scalar::Int(0), DType::I64);
            let guard = if *outside == SOutside::Refuse {
                // The index is tested at run time, if the access is made at all.
                s.cond
            } else {
                let end = s.graph.constant(Scalar::Int(size as i64), DType::I64);
                let low = s.graph.add(Op::Call(Builtin::Ge, smallvec![node, zero]), DType::Bool);
                let high = s.graph.add(Op::Call(Builtin::Lt, smallvec![node, end]), DType::Bool);
                let both = s.and(Some(low), high);
                inside = Some(s.and(inside, both));
                Some(both)
            };
            if let Some(g) = guard {
                node = s.graph.add(Op::Select(g, node, zero), DType::I64);
            }
            indices.push(Index::Node(node));
        }
        // An access by a computed index tests those alone, so the others are moved inside as well.
        for (axis, inside) in leaving.into_iter().filter(|_| !affine_only) {
            if let Index::Affine(a) = &indices[axis] {
                let at = s.graph.add(Op::Index(a.clone()), DType::I64);
                let zero = s.graph.constant(Scalar::Int(0), DType::I64);
                indices[axis] = Index::Node(s.graph.add(Op::Select(inside, at, zero), DType::I64));
            }
        }
        let nothing = fulgurite_core::builtins::cast_scalar(Scalar::Int(0), stored);
        let get = |s: &mut Scope, outside: Option<Scalar>| {
            let node = s.graph.add(
                Op::Load(Load { value, idx: indices.clone(), outside: outside.map(Into::into), no_minus_zero: false }),
                stored,
            );
            s.graph.add(Op::Cast(node), ty)
        };
        let Some(inside) = inside else { return Ok(get(s, None)) };
        if let Some(known) = s.graph.as_const(inside)
            && known.as_bool()
        {
            return Ok(get(s, None));
        }
        Ok(match outside {
            // The row's checks proved the access in range, or it is not reached, so no error is reported.
            SOutside::Refuse => get(s, Some(nothing)),
            SOutside::Skip => {
                self.skip_unless(s, inside);
                get(s, Some(nothing))
            }
            SOutside::Value(e) => {
                let other = self.expr(s, e)?;
                match s.graph.as_const(other) {
                    // The load may return the constant only if storing and casting do not change it.
                    Some(c) if affine_only && same_after(c, stored, ty) => get(s, Some(c)),
                    _ => {
                        let here = get(s, Some(nothing));
                        s.graph.add(Op::Select(inside, here, other), ty)
                    }
                }
            }
        })
    }

    /// Leaves the current element out of the innermost reduction unless an access of it is inside of its tensor.
    fn skip_unless(&self, s: &mut Scope, inside: NodeId) {
        let keep = match s.cond {
            // An access that is not made does not skip its element.
            Some(c) => {
                let not = s.graph.add(Op::Call(Builtin::Not, smallvec![c]), DType::Bool);
                s.graph.add(Op::Call(Builtin::Or, smallvec![not, inside]), DType::Bool)
            }
            None => inside,
        };
        s.skips.push(keep);
    }

    /// The position in memory order that the indices name, if they were made from one position that is in range.
    fn flat_position(&self, s: &Scope, idx: &[LoopExpr], shape: &[usize]) -> Option<Affine> {
        let position = self.affine(s, vars::flat_position(idx, shape)?)?;
        let (lo, hi) = position.range(&s.graph.sizes);
        let inside = lo >= 0 && hi < shape.iter().product::<usize>() as i64;
        // the index along an axis of size 1 must be 0
        let zero = |(e, n): (&LoopExpr, &usize)| *n != 1 || self.affine(s, e).and_then(|a| a.as_constant()) == Some(0);
        (inside && idx.iter().zip(shape).all(zero)).then_some(position)
    }

    /// The tensor as a value of one axis.
    fn flat(&mut self, value: ValueId) -> ValueId {
        let ty = self.values.ty(value).clone();
        let flat = self.values.add(ty.dtype, &[ty.elements()]);
        self.pieces.push(Piece::Flat(value, flat));
        flat
    }

    fn call(&mut self, s: &mut Scope, b: Builtin, args: &[LoopExpr], ty: DType) -> Result<NodeId, Why> {
        use Builtin::*;
        if let (Lt | Le | Gt | Ge | Eq | Ne, [x, y]) = (b, args)
            && x.ty() == DType::I64
            && let (Some(x), Some(y)) = (self.affine(s, x), self.affine(s, y))
            && let Some(d) = x.plus(&y, -1)
        {
            let one = Affine::constant(1);
            return match b {
                Ge => Some(s.at_least_zero(d)),
                Gt => d.plus(&one, -1).map(|d| s.at_least_zero(d)),
                Le => d.times(-1).map(|d| s.at_least_zero(d)),
                Lt => d.times(-1).and_then(|d| d.plus(&one, -1)).map(|d| s.at_least_zero(d)),
                Eq => Some(s.is_zero(d)),
                _ => {
                    let zero = s.is_zero(d);
                    Some(s.graph.add(Op::Call(Not, smallvec![zero]), DType::Bool))
                }
            }
            .ok_or("an index leaves i64");
        }
        if let (And | Or, [x, y]) = (b, args) {
            // The right side is evaluated only if the left one does not decide.
            let x = self.expr(s, x)?;
            let outer = s.cond;
            let open = if b == And { x } else { s.graph.add(Op::Call(Not, smallvec![x]), DType::Bool) };
            s.cond = Some(s.and(outer, open));
            let y = self.expr(s, y);
            s.cond = outer;
            return Ok(s.graph.add(Op::Call(b, smallvec![x, y?]), ty));
        }
        let mut nodes = args.iter().map(|a| self.expr(s, a)).collect::<Result<SmallVec<[NodeId; 3]>, Why>>()?;
        let over_ints = args.first().is_some_and(|a| a.ty().is_int());
        if matches!(b, RemTrunc | RemFloor | DivTrunc | DivFloor)
            && over_ints
            && s.graph.as_const(nodes[1]).is_none()
            && let Some(c) = s.cond
        {
            // A zero divisor is an error only if the division is made.
            let one = s.graph.constant(Scalar::Int(1), args[1].ty());
            nodes[1] = s.graph.add(Op::Select(c, nodes[1], one), args[1].ty());
        }
        if let (Select, [c, x, y]) = (b, nodes.as_slice()) {
            return Ok(s.graph.add(Op::Select(*c, *x, *y), ty));
        }
        if b == Cast {
            return Ok(s.graph.add(Op::Cast(nodes[0]), ty));
        }
        Ok(s.graph.add(Op::Call(b, nodes), ty))
    }
}

/// The number of operations among the nodes from `from` on.
fn calls(graph: &Graph, from: usize) -> usize {
    graph.nodes[from..].iter().filter(|n| matches!(n.op, Op::Call(..) | Op::Select(..))).count()
}

/// A new dim as an index, or the constant 0 for an axis of size 1.
pub(super) fn index_dim(graph: &mut Graph, n: usize) -> Affine {
    if n == 1 { Affine::constant(0) } else { Affine::dim(graph.dim(n) as Dim) }
}

/// Whether `c` (of `ty`) keeps its value if it is stored as `stored` and read as `ty`.
fn same_after(c: Scalar, stored: DType, ty: DType) -> bool {
    use fulgurite_core::builtins::cast_scalar;
    cast_scalar(cast_scalar(c, stored), ty).key_bits() == cast_scalar(c, ty).key_bits()
}
