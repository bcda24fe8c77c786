//! A loop nest as array expressions.
//!
//! In the scope of the index variables `i, j, k` a scalar expression becomes an array of rank 3, whose axes have size 1
//! where the expression does not depend on the variable. A reduction binds further variables: its body has their axes at
//! the end. Pointwise nests have one implicit position: their arrays broadcast as they are.

use super::array_library::number;
use super::{Writer, size, tuple};
use fulgurite::core::builtins::Builtin;
use fulgurite::core::lang::ast::Red;
use fulgurite::core::loop_nest::{LoopExpr, Nest, NestOut, SOp, SOutside, SRange, VarId};
use fulgurite::core::{DType, Dim, Scalar};
use rustc_hash::FxHashMap;

/// An array in a scope holds at most this many times the elements of the nest's tensors and results. A kernel needs no
/// such memory, so a nest above is better run by the kernel.
const MOST_TIMES: i64 = 4;

/// Arrays of at most this many elements are always admitted, so that small examples have the form of large ones.
const ALWAYS: i64 = 1 << 12;

/// A tensor that a nest reads.
#[derive(Clone)]
pub(super) struct Array {
    /// The name of the tensor in Python.
    pub name: String,
    pub dtype: DType,
    pub shape: Vec<Dim>,
    /// Whether it may share memory with an argument of the function.
    pub is_view: bool,
}

/// The value of a scalar expression in a scope.
#[derive(Clone)]
struct Value {
    /// An expression without operators of lower precedence than a call: a name or a number.
    text: String,
    /// The number, if it is constant.
    number: Option<Scalar>,
    /// The axes of the scope on which it depends, one bit for each. In pointwise nests the first bit says that it has the
    /// sizes of the result.
    axes: u64,
    is_view: bool,
}

/// An axis of a scope.
#[derive(Clone)]
struct Axis {
    /// The variable of the axis; `None`: the axis has size 1.
    var: Option<VarId>,
    /// The first value of the variable.
    from: i64,
    size: Dim,
}

/// Writes one nest.
pub(super) struct NestWriter<'a> {
    writer: &'a mut Writer,
    nest: &'a Nest,
    tensors: &'a [Array],
    nums: &'a [Array],
    axes: Vec<Axis>,
    /// The number of the scope, and the number of scopes up to now.
    scope: (usize, usize),
    /// Values by the addresses of their nodes and the numbers of their scopes.
    known: FxHashMap<(usize, usize), Value>,
    /// For each reduction around, the conditions under which elements are not skipped.
    kept: Vec<Vec<Value>>,
    /// The number of branches around, in which nothing may be skipped.
    branches: usize,
    /// The number of conditions around without which an index may lie outside of its tensor.
    conditions: usize,
    /// The sizes of the result.
    shape: Vec<Dim>,
    /// The largest number of elements of an array.
    most: i64,
}

impl<'a> NestWriter<'a> {
    pub(super) fn new(
        writer: &'a mut Writer,
        nest: &'a Nest,
        tensors: &'a [Array],
        nums: &'a [Array],
    ) -> NestWriter<'a> {
        let elements = |shape: &[Dim]| shape.iter().map(|d| d.hint()).fold(1, i64::saturating_mul);
        let read: i64 = tensors.iter().map(|t| elements(&t.shape)).fold(0, i64::saturating_add);
        let made: i64 = nest.outs.iter().map(|o| elements(&o.shape)).fold(0, i64::saturating_add);
        let most = read.saturating_add(made).saturating_mul(MOST_TIMES).max(ALWAYS);
        let (axes, known, kept) = (Vec::new(), FxHashMap::default(), Vec::new());
        let (scope, branches, conditions, shape) = ((0, 0), 0, 0, Vec::new());
        NestWriter { writer, nest, tensors, nums, axes, scope, known, kept, branches, conditions, shape, most }
    }

    /// The name of a result, and whether it may be a view of a tensor; `None` if it has no form over arrays.
    pub(super) fn result(mut self, out: &NestOut) -> Option<(String, bool)> {
        self.shape = out.shape.clone();
        if !self.nest.pointwise {
            let axes = out.axes.iter().zip(&out.shape);
            self.axes = axes.map(|(var, size)| Axis { var: *var, from: 0, size: *size }).collect();
        }
        let value = self.value(&out.expr)?;
        let value = self.cast(value, out.expr.ty(), out.dtype)?;
        let value = self.array(&value, out.dtype)?;
        let ranked = value.axes != 0 || out.shape.is_empty();
        let whole = if self.nest.pointwise { value.axes == 1 } else { ranked && value.axes == self.all_axes() };
        if whole {
            return Some((value.text, value.is_view));
        }
        let shape: Vec<String> = out.shape.iter().map(size).collect();
        let text = format!("{}.broadcast_to({}, {})", self.writer.library.module(), value.text, tuple(&shape));
        Some((self.writer.bind(&text)?, true))
    }

    /// The bits of all axes with a variable.
    fn all_axes(&self) -> u64 {
        let bits = self.axes.iter().enumerate().filter(|(_, axis)| axis.has_variable());
        bits.fold(0, |all, (i, _)| all | 1 << i)
    }

    fn bound(&mut self, expression: &str, axes: u64, is_view: bool) -> Option<Value> {
        Some(Value { text: self.writer.bind(expression)?, number: None, axes, is_view })
    }

    fn value(&mut self, e: &LoopExpr) -> Option<Value> {
        let key = (std::sync::Arc::as_ptr(&e.0) as usize, self.scope.0);
        if let Some(known) = self.known.get(&key) {
            return Some(known.clone());
        }
        let value = self.written(e)?;
        self.known.insert(key, value.clone());
        Some(value)
    }

    fn written(&mut self, e: &LoopExpr) -> Option<Value> {
        match e.op() {
            SOp::Const(s) => Some(constant(*s, e.ty())),
            SOp::Num(k) => {
                let given = self.nums.get(*k)?;
                let value = Value { text: given.name.clone(), number: None, axes: 0, is_view: true };
                let from = given.dtype;
                self.cast(value, from, e.ty())
            }
            SOp::Var(v) => self.variable(*v),
            SOp::Elem(t) => {
                let tensor = self.tensors.get(*t)?;
                let is_whole = tensor.shape.len() == self.shape.len()
                    && tensor.shape.iter().zip(&self.shape).all(|(a, b)| a.same(*b));
                let from = tensor.dtype;
                let value = Value {
                    text: tensor.name.clone(),
                    number: None,
                    axes: u64::from(is_whole),
                    is_view: tensor.is_view,
                };
                self.cast(value, from, e.ty())
            }
            SOp::Load { tensor, idx, outside } => {
                let from = self.tensors.get(*tensor)?.dtype;
                let value = self.load(*tensor, idx, outside, e.ty())?;
                self.cast(value, from, e.ty())
            }
            SOp::Call(Builtin::And | Builtin::Or, sides) => {
                // the second side is not evaluated everywhere
                let [a, b] = sides.as_slice() else { return None };
                let (a, b) = (self.value(a)?, self.branch(b)?);
                let SOp::Call(builtin, _) = e.op() else { return None };
                self.call(*builtin, &[a, b], &[DType::Bool, DType::Bool])
            }
            SOp::Call(builtin, args) => {
                let values = args.iter().map(|arg| self.value(arg)).collect::<Option<Vec<_>>>()?;
                let types: Vec<DType> = args.iter().map(LoopExpr::ty).collect();
                self.call(*builtin, &values, &types)
            }
            SOp::Cast(inner) => {
                let value = self.value(inner)?;
                self.cast(value, inner.ty(), e.ty())
            }
            SOp::Select(c, a, b) => {
                let (c, a, b) = (self.value(c)?, self.branch(a)?, self.branch(b)?);
                self.call(Builtin::Select, &[c, a, b], &[DType::Bool, e.ty(), e.ty()])
            }
            SOp::Reduce { red, vars, filter, body, otherwise } => {
                self.reduction(*red, vars, filter.as_ref(), body, otherwise.as_ref(), e.ty())
            }
            SOp::Uniform { .. } => None,
            SOp::Detach(inner) => self.value(inner),
        }
    }

    /// A value that is not used everywhere.
    fn branch(&mut self, e: &LoopExpr) -> Option<Value> {
        self.branches += 1;
        self.conditions += 1;
        let value = self.value(e);
        self.branches -= 1;
        self.conditions -= 1;
        value
    }

    /// A value as an array, which it is unless it is a constant.
    fn array(&mut self, value: &Value, dtype: DType) -> Option<Value> {
        if value.number.is_none() {
            return Some(value.clone());
        }
        let dtype = self.writer.library.dtype(dtype)?;
        let text = self.writer.library.full(&value.text, &dtype);
        // in a pointwise nest without axes an array of rank 0 has the sizes of the result
        let whole = self.nest.pointwise && self.shape.is_empty();
        self.bound(&text, u64::from(whole), false)
    }

    fn cast(&mut self, value: Value, from: DType, to: DType) -> Option<Value> {
        if from == to {
            return Some(value);
        }
        if let Some(s) = value.number {
            return Some(constant(fulgurite::core::builtins::cast_scalar(s, to), to));
        }
        // frameworks differ in the integer of a float that has none
        if from.is_float() && !to.is_float() && to != DType::Bool {
            return None;
        }
        let text = self.writer.library.cast(&value.text, to)?;
        self.bound(&text, value.axes, false)
    }

    fn call(&mut self, builtin: Builtin, args: &[Value], types: &[DType]) -> Option<Value> {
        let mut text = self.writer.library.template(builtin)?;
        let is_operator = text.starts_with('(');
        let all_numbers = args.iter().all(|a| a.number.is_some());
        let mut axes = 0;
        for (i, (arg, ty)) in args.iter().zip(types).enumerate() {
            if text.contains(&format!("{{#{i}}}")) {
                let Scalar::Float(x) = arg.number? else { return None };
                text = text.replace(&format!("{{#{i}}}"), &format!("{}", (x.fract() == 0.0).then_some(x as i64)?));
                continue;
            }
            let arg = if is_operator && !all_numbers { arg.clone() } else { self.array(arg, *ty)? };
            let negative = arg.number.is_some() && arg.text.starts_with('-');
            let written = if negative { format!("({})", arg.text) } else { arg.text.clone() };
            text = text.replace(&format!("{{{i}}}"), &written);
            axes |= arg.axes;
        }
        self.bound(&text, axes, false)
    }

    /// The values of a variable along its axis.
    fn variable(&mut self, v: VarId) -> Option<Value> {
        let at = self.axes.iter().rposition(|axis| axis.var == Some(v))?;
        let axis = self.axes[at].clone();
        if !axis.has_variable() {
            return Some(constant(Scalar::Int(axis.from), DType::I64));
        }
        let range = self.writer.library.arange(&axis.from.to_string(), &size(&(axis.size + Dim::from(axis.from))));
        let mut shape = vec!["1".to_owned(); self.axes.len()];
        shape[at] = size(&axis.size);
        let text = if shape.len() == 1 { range } else { format!("{range}.reshape({})", tuple(&shape)) };
        self.bound(&text, 1 << at, false)
    }

    fn load(&mut self, tensor: usize, idx: &[LoopExpr], outside: &SOutside, ty: DType) -> Option<Value> {
        let array = self.tensors.get(tensor)?.clone();
        if idx.is_empty() {
            return Some(Value { text: array.name, number: None, axes: 0, is_view: array.is_view });
        }
        // the line does not refuse, so an index that is always used lies inside
        let refuses = matches!(outside, SOutside::Refuse);
        let inside = refuses && self.conditions == 0;
        if let Some(value) = self.view(&array, idx, inside) {
            return Some(value);
        }
        let places = idx.iter().map(|e| self.value(e)).collect::<Option<Vec<_>>>()?;
        if inside {
            return self.gather(&array, &places);
        }
        if array.shape.iter().any(|d| d.is_const() && d.is_empty()) {
            return None;
        }
        let (mut inside, mut clamped) = (None, Vec::new());
        for (place, extent) in places.iter().zip(&array.shape) {
            let extent = size(extent);
            if let (Some(Scalar::Int(i)), Ok(n)) = (place.number, extent.parse::<i64>())
                && (0..n).contains(&i)
            {
                clamped.push(place.clone());
                continue;
            }
            let place = self.array(place, DType::I64)?;
            let within = format!("(({0} >= 0) & ({0} < {extent}))", place.text);
            let within = self.bound(&within, place.axes, false)?;
            inside = Some(match inside {
                None => within,
                Some(all) => self.call(Builtin::And, &[all, within], &[DType::Bool, DType::Bool])?,
            });
            let text = format!("{}.clip({}, 0, {extent} - 1)", self.writer.library.module(), place.text);
            clamped.push(self.bound(&text, place.axes, false)?);
        }
        let value = self.gather(&array, &clamped)?;
        let Some(inside) = inside else { return Some(value) };
        match outside {
            // the element is used only where its index lies inside
            SOutside::Refuse => Some(value),
            SOutside::Value(other) => {
                let value = self.cast(value, array.dtype, ty)?;
                let other = self.branch(other)?;
                let made = self.call(Builtin::Select, &[inside, value, other], &[DType::Bool, ty, ty])?;
                // the caller casts from the dtype of the tensor
                self.cast(made, ty, array.dtype)
            }
            SOutside::Skip if self.branches == 0 => {
                self.kept.last_mut()?.push(inside);
                Some(value)
            }
            _ => None,
        }
    }

    /// An element whose indices are variables of different axes, as a view with the axes of the scope.
    fn view(&mut self, array: &Array, idx: &[LoopExpr], inside: bool) -> Option<Value> {
        let mut axes: Vec<usize> = Vec::new();
        let mut picks: Vec<String> = Vec::new();
        for (e, extent) in idx.iter().zip(&array.shape) {
            if let Some(i) = e.as_int() {
                if !(inside || extent.is_const() && (0..extent.hint()).contains(&i)) {
                    return None;
                }
                picks.push(i.to_string());
                continue;
            }
            let (v, step, from) = affine(e)?;
            let at = self.axes.iter().rposition(|axis| axis.var == Some(v))?;
            let axis = &self.axes[at];
            if axes.contains(&at) || step < 1 || !axis.has_variable() {
                return None;
            }
            let first = axis.from.checked_mul(step)?.checked_add(from)?;
            if first == 0 && step == 1 && axis.size.same(*extent) {
                picks.push(":".to_owned());
            } else {
                let last = axis.size.hint().checked_sub(1)?.checked_mul(step)?.checked_add(first)?;
                let known = axis.size.is_const() && extent.is_const();
                if first < 0
                    || !(inside || known && last < extent.hint())
                    || axis.size.is_const() && axis.size.is_empty()
                {
                    return None;
                }
                let end = (axis.size - Dim::from(1)) * Dim::from(step) + Dim::from(first + 1);
                let step = if step == 1 { String::new() } else { format!(":{step}") };
                picks.push(format!("{first}:{}{step}", size(&end)));
            }
            axes.push(at);
        }
        let mut text = array.name.clone();
        if picks.iter().any(|pick| pick != ":") {
            text += &format!("[{}]", picks.join(", "));
        }
        let mut order: Vec<usize> = (0..axes.len()).collect();
        order.sort_by_key(|i| axes[*i]);
        if !order.is_sorted() {
            let order: Vec<String> = order.iter().map(usize::to_string).collect();
            text = self.writer.library.permuted(&text, &tuple(&order));
        }
        if axes.len() < self.axes.len() {
            let slots = (0..self.axes.len()).map(|at| if axes.contains(&at) { ":" } else { "None" });
            text += &format!("[{}]", slots.collect::<Vec<_>>().join(", "));
        }
        let bits = axes.iter().fold(0, |all, at| all | 1 << at);
        if text == array.name {
            return Some(Value { text, number: None, axes: bits, is_view: array.is_view });
        }
        self.bound(&text, bits, true)
    }

    /// The elements at these places, which are inside.
    fn gather(&mut self, array: &Array, places: &[Value]) -> Option<Value> {
        let axes = places.iter().fold(0, |all, place| all | place.axes);
        self.admit(axes)?;
        let text: Vec<&str> = places.iter().map(|place| place.text.as_str()).collect();
        self.bound(&format!("{}[{}]", array.name, text.join(", ")), axes, false)
    }

    /// Nothing, unless an array with these axes is too large.
    fn admit(&self, axes: u64) -> Option<()> {
        let sizes =
            self.axes.iter().enumerate().filter(|(at, _)| axes & 1 << at != 0).map(|(_, axis)| axis.size.hint());
        (sizes.fold(1, i64::saturating_mul) <= self.most).then_some(())
    }

    fn reduction(
        &mut self,
        red: Red,
        ranges: &[SRange],
        filter: Option<&LoopExpr>,
        body: &LoopExpr,
        otherwise: Option<&LoopExpr>,
        ty: DType,
    ) -> Option<Value> {
        if matches!(red, Red::First | Red::Last | Red::Only) || ranges.is_empty() {
            return None;
        }
        let (outer, outer_scope) = (self.axes.len(), self.scope.0);
        for range in ranges {
            let (from, to) = (range.lo.as_int()?, range.hi.as_int()?);
            let size = to.checked_sub(from).filter(|n| *n > 0)?;
            self.axes.push(Axis { var: Some(range.var), from, size: Dim::from(size) });
        }
        self.scope = (self.scope.1 + 1, self.scope.1 + 1);
        self.kept.push(Vec::new());
        // what is skipped is decided at this reduction, not at the branches around it
        let branches = std::mem::take(&mut self.branches);
        let made = self.reduced(red, outer, filter, body);
        self.branches = branches;
        self.kept.pop();
        self.axes.truncate(outer);
        self.scope.0 = outer_scope;
        let (made, any) = made?;
        match (otherwise, any) {
            (Some(otherwise), Some(any)) => {
                let otherwise = self.branch(otherwise)?;
                self.call(Builtin::Select, &[any, made, otherwise], &[DType::Bool, ty, ty])
            }
            // a maximum of nothing is not a number of the kernel's choice
            (None, Some(_)) if !matches!(red, Red::Sum | Red::Prod | Red::Any | Red::All) => None,
            _ => Some(made),
        }
    }

    /// The reduction over the axes from `outer` on, and where any element takes part; `None`: everywhere.
    fn reduced(
        &mut self,
        red: Red,
        outer: usize,
        filter: Option<&LoopExpr>,
        body: &LoopExpr,
    ) -> Option<(Value, Option<Value>)> {
        let module = self.writer.library.module();
        let dtype = body.ty();
        let filter = match filter {
            Some(filter) => Some(self.value(filter)?),
            None => None,
        };
        self.conditions += usize::from(filter.is_some());
        let value = self.value(body);
        self.conditions -= usize::from(filter.is_some());
        let mut value = self.array(&value?, dtype)?;
        let kept = self.kept.last()?.clone();
        let mask = filter.into_iter().chain(kept).map(Some).reduce(|a, b| {
            let (a, b) = (a?, b?);
            self.call(Builtin::And, &[a, b], &[DType::Bool, DType::Bool])
        });
        let mask = match mask {
            Some(mask) => Some(self.array(&mask?, DType::Bool)?),
            None => None,
        };
        if let Some(mask) = &mask {
            let neutral = constant(neutral(red, dtype)?, dtype);
            value = self.call(Builtin::Select, &[mask.clone(), value, neutral], &[DType::Bool, dtype, dtype])?;
        }
        let value = self.spread(value, outer)?;
        let count = self.axes.len() - outer;
        let below = (1u64 << outer) - 1;
        let dims: Vec<String> = (1..=count).rev().map(|i| format!("-{i}")).collect();
        let name = match red {
            Red::Sum => "sum",
            Red::Prod => "prod",
            Red::Mean => "mean",
            Red::Max => "amax",
            Red::Min => "amin",
            Red::Any => "any",
            Red::All => "all",
            Red::ArgMax => "argmax",
            Red::ArgMin => "argmin",
            Red::First | Red::Last | Red::Only => return None,
        };
        let text = if matches!(red, Red::Prod | Red::ArgMax | Red::ArgMin) {
            // these take one axis
            let kept =
                (0..outer).map(|at| if value.axes & 1 << at != 0 { size(&self.axes[at].size) } else { "1".into() });
            let shape: Vec<String> = kept.chain(["-1".to_owned()]).collect();
            let flat = if count == 1 { value.text } else { format!("{}.reshape({})", value.text, tuple(&shape)) };
            format!("{module}.{name}({flat}, -1)")
        } else {
            format!("{module}.{name}({}, {})", value.text, tuple(&dims))
        };
        let made = self.bound(&text, value.axes & below, false)?;
        // frameworks widen integers, and count in a dtype of their own
        let result = match red {
            Red::ArgMax | Red::ArgMin => DType::I64,
            _ => dtype,
        };
        let widened = !result.is_float() && !matches!(red, Red::Any | Red::All | Red::Max | Red::Min);
        let made = if widened {
            let text = self.writer.library.cast(&made.text, result)?;
            self.bound(&text, made.axes, false)?
        } else {
            made
        };
        let any = match mask {
            Some(mask) => {
                let mask = self.spread(mask, outer)?;
                Some(self.bound(&format!("{module}.any({}, {})", mask.text, tuple(&dims)), mask.axes & below, false)?)
            }
            None => None,
        };
        Some((made, any))
    }

    /// A value with all axes from `outer` on.
    fn spread(&mut self, value: Value, outer: usize) -> Option<Value> {
        let inner = self.all_axes() & !((1u64 << outer) - 1);
        let axes = value.axes | inner;
        self.admit(axes)?;
        // a value of no axes has rank 0
        if value.axes & inner == inner && value.axes != 0 {
            return Some(value);
        }
        let shape = self.axes.iter().enumerate();
        let shape: Vec<String> =
            shape.map(|(at, axis)| if axes & 1 << at != 0 { size(&axis.size) } else { "1".to_owned() }).collect();
        let text = format!("{}.broadcast_to({}, {})", self.writer.library.module(), value.text, tuple(&shape));
        self.bound(&text, axes, true)
    }
}

impl Axis {
    fn has_variable(&self) -> bool {
        self.var.is_some() && !self.size.is_unit()
    }
}

fn constant(s: Scalar, dtype: DType) -> Value {
    Value { text: number(s, dtype), number: Some(s), axes: 0, is_view: false }
}

/// `step · variable + from`.
fn affine(e: &LoopExpr) -> Option<(VarId, i64, i64)> {
    match e.op() {
        SOp::Var(v) => Some((*v, 1, 0)),
        SOp::Call(Builtin::Add, xs) => {
            let ((v, step, from), by) = (affine(xs.first()?)?, xs.get(1)?.as_int()?);
            Some((v, step, from.checked_add(by)?))
        }
        SOp::Call(Builtin::Mul, xs) => {
            let ((v, step, from), by) = (affine(xs.first()?)?, xs.get(1)?.as_int()?);
            Some((v, step.checked_mul(by)?, from.checked_mul(by)?))
        }
        _ => None,
    }
}

/// The number that does not change a reduction.
fn neutral(red: Red, dtype: DType) -> Option<Scalar> {
    Some(match red {
        Red::Sum if dtype.is_float() => Scalar::Float(0.0),
        Red::Sum => Scalar::Int(0),
        Red::Prod if dtype.is_float() => Scalar::Float(1.0),
        Red::Prod => Scalar::Int(1),
        Red::Max if dtype.is_float() => Scalar::Float(f64::NEG_INFINITY),
        Red::Min if dtype.is_float() => Scalar::Float(f64::INFINITY),
        Red::Any => Scalar::Bool(false),
        Red::All => Scalar::Bool(true),
        _ => return None,
    })
}
