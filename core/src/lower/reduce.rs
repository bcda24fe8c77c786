//! Reductions: over axes, over ranges, over the items of a list.

use super::build::{cast, compare, logic, select, truth};
use super::expr::undefined;
use super::overlap::{bounds, in_whole};
use super::{L, Lowering, Res, Typed, fault};
use crate::builtins::Builtin;
use crate::lang::ast::*;
use crate::lang::walk;
use crate::loop_nest::*;
use crate::signature::const_eval::{self, At};
use crate::signature::{Item, Size};
use crate::{DType, Dim, Name};

impl Lowering<'_> {
    fn reads_elements(&self, e: &Expr) -> bool {
        let is_tensor = |name| matches!(self.env.item(name), Some(Item::Tensor(_) | Item::Tensors(..)));
        walk::any_expr(e, &mut |e| matches!(&*e.node, Node::Access(a) if is_tensor(a.base.name)))
    }

    pub(super) fn reduce(&mut self, r: &Reduce, at: At) -> Res<L> {
        let Some(binds) = &r.binds else {
            if !matches!(r.red, Red::All | Red::Any) && self.reads_elements(&r.body) {
                let red = r.red.word();
                let what = "is over the axes of a list of sizes or indices; over elements name the indices";
                return Err(fault(self.row, format!("`{red}[..]` {what}: `{red}[..s](…)`")));
            }
            let n = self.zip_rank(&r.body, at)?;
            let items =
                (0..n).map(|axis| self.scalar(&r.body, At { axis: Some(axis), ..at })).collect::<Res<Vec<_>>>()?;
            return self.combine(r.red, items).map(L::One);
        };
        if let [bind] = binds.as_slice()
            && self.is_item_bind(bind)
        {
            return self.over_items(r, bind.name.name, at).map(L::One);
        }
        let depth = self.indices.len();
        let mut ranges = Vec::new();
        let mut extents = Vec::new();
        for bind in binds {
            self.bind(bind, at, &mut ranges, &mut extents)?;
        }
        let filter = match &r.filter {
            Some(c) => match self.condition(c, at)?.e {
                c if c.as_const().is_some_and(|s| s.as_bool()) => None,
                c => Some(c),
            },
            None => None,
        };
        let body = self.scalar(&r.body, at)?;
        let never = filter.as_ref().and_then(LoopExpr::as_const).is_some_and(|c| !c.as_bool());
        if never && r.red == Red::Sum && r.otherwise.is_none() {
            self.indices.truncate(depth);
            return Ok(L::One(Typed { e: cast(LoopExpr::int(0), body.e.ty()), elem: body.elem }));
        }
        let otherwise = r.otherwise.as_ref().map(|e| self.scalar(e, at)).transpose()?;
        self.indices.truncate(depth);
        let (mut body, mut elem, mut filter) = (body, false, filter);
        if r.red == Red::Sum && otherwise.is_none() {
            while let Some(Pinned { at, var, is, rest }) = filter.as_ref().and_then(|f| self.pinned(f, &ranges)) {
                ranges.remove(at);
                let put = |e: &LoopExpr| e.renamed(&|tensor| tensor, &|v| if v == var { is } else { v });
                (body.e, filter) = (put(&body.e), rest.as_ref().map(put));
                for range in &mut ranges {
                    (range.lo, range.hi) = (put(&range.lo), put(&range.hi));
                }
            }
            if ranges.is_empty() && filter.is_none() && body.e.ty() != DType::Bool {
                return Ok(L::One(body));
            }
        }
        let otherwise = match otherwise {
            Some(o) => {
                let (ty, _) = self.join(&body, &o);
                body = Typed { e: cast(body.e, ty), elem: body.elem };
                elem |= o.elem;
                Some(cast(o.e, ty))
            }
            None => None,
        };
        elem |= body.elem;
        let ty = match r.red {
            Red::Any | Red::All => {
                body.e = cast(body.e, DType::Bool);
                DType::Bool
            }
            Red::ArgMax | Red::ArgMin => DType::I64,
            Red::Mean if !body.e.ty().is_float() => {
                if elem {
                    return Err(undefined("mean", body.e.ty()));
                }
                body.e = cast(body.e, DType::F64);
                DType::F64
            }
            Red::Sum | Red::Prod if body.e.ty() == DType::Bool => {
                body.e = cast(body.e, DType::I64);
                DType::I64
            }
            _ => body.e.ty(),
        };
        let parts = self.overlap(r.red, &mut ranges, filter.as_ref(), &body.e);
        let mut e = LoopExpr::new(SOp::Reduce { red: r.red, vars: ranges, filter, body: body.e, otherwise }, ty);
        if let (Red::ArgMax | Red::ArgMin, Some(parts)) = (r.red, parts) {
            e = in_whole(e, &parts);
        }
        Ok(match r.red {
            Red::ArgMax | Red::ArgMin => L::Unraveled(Typed { e, elem: false }, extents),
            _ => L::One(Typed { e, elem }),
        })
    }

    /// Whether `i` runs over the items of a list argument: no size has its name.
    fn is_item_bind(&self, bind: &Bind) -> bool {
        !bind.list
            && bind.axes.is_none()
            && bind.range.is_none()
            && !matches!(self.env.size(bind.name.name.size_of_index()), Some(Size::One(_) | Size::List(_)))
            && self.env.items.iter().any(|(_, i)| matches!(i, Item::Tensors(..)))
    }

    fn over_items(&mut self, r: &Reduce, name: Name, at: At) -> Res<Typed> {
        let count = self.env.items.iter().find_map(|(_, i)| match i {
            Item::Tensors(_, n) => Some(*n),
            _ => None,
        });
        self.choices(count.unwrap_or(0))?;
        let mut items = Vec::new();
        for i in 0..count.unwrap_or(0) {
            self.lets.push((name, L::One(Typed { e: LoopExpr::int(i as i64), elem: false })));
            // Axes that an item chooses refer to `i` by name; the position in a list of results is also `i`.
            self.env.to_mut().items.insert(0, (name, Item::Int(Dim::from(i))));
            let v = self.item(r, At { item: if name == "i" { Some(i) } else { at.item }, ..at });
            self.env.to_mut().items.remove(0);
            self.lets.pop();
            items.extend(v?);
        }
        if r.red != Red::Only {
            return self.combine(r.red, items);
        }
        // Selects the alternative whose access is in range; the last one needs no test.
        let mut value: Option<Typed> = None;
        for v in items.into_iter().rev() {
            let SOp::Load { tensor, idx, outside: SOutside::Skip } = v.e.op() else {
                return Err(fault(self.row, "`only` needs an access with `else skip`"));
            };
            let sizes = self.env.slots.get(*tensor).cloned().flatten().map(|t| t.shape).unwrap_or_default();
            let mut inside = truth(true);
            for (e, d) in idx.iter().zip(&sizes) {
                if self.within(e, d.value()) {
                    continue;
                }
                inside = logic(true, inside, compare(Builtin::Ge, e.clone(), LoopExpr::int(0)));
                inside = logic(true, inside, compare(Builtin::Lt, e.clone(), LoopExpr::int(d.value())));
            }
            let load = SOp::Load { tensor: *tensor, idx: idx.clone(), outside: SOutside::Refuse };
            let here = LoopExpr::new(load, v.e.ty());
            value = Some(Typed {
                e: match value {
                    None => here,
                    Some(rest) => select(inside, cast(here, rest.e.ty()), rest.e),
                },
                elem: true,
            });
        }
        value.ok_or_else(|| fault(self.row, "`only` over no items"))
    }

    /// A variable that a condition `var == is` of the filter determines, where both run over one range.
    fn pinned(&self, filter: &LoopExpr, ranges: &[SRange]) -> Option<Pinned> {
        match filter.op() {
            SOp::Call(Builtin::And, sides) => {
                let [a, b] = &sides[..] else { return None };
                let (found, other) = match self.pinned(a, ranges) {
                    Some(found) => (found, b),
                    None => (self.pinned(b, ranges)?, a),
                };
                let rest = match found.rest {
                    Some(rest) => logic(true, rest, other.clone()),
                    None => other.clone(),
                };
                Some(Pinned { rest: Some(rest), ..found })
            }
            SOp::Call(Builtin::Eq, sides) => {
                let [a, b] = &sides[..] else { return None };
                let (SOp::Var(a), SOp::Var(b)) = (a.op(), b.op()) else { return None };
                let extent = |v: VarId| self.vars.get(v).map(|d| d.value());
                let whole = |r: &SRange| r.lo.as_int() == Some(0) && r.hi.as_int() == extent(r.var);
                let place = |v: VarId| ranges.iter().position(|r| r.var == v && whole(r));
                let free = |v: VarId| ranges.iter().all(|r| r.var != v);
                if a == b || extent(*a) != extent(*b) {
                    return None;
                }
                let (at, var, is) = match (place(*a), place(*b)) {
                    (Some(at), _) if free(*b) => (at, *a, *b),
                    (_, Some(at)) if free(*a) => (at, *b, *a),
                    _ => return None,
                };
                Some(Pinned { at, var, is, rest: None })
            }
            _ => None,
        }
    }

    /// The body at one item, unless the filter excludes it.
    fn item(&mut self, r: &Reduce, at: At) -> Res<Option<Typed>> {
        if let Some(filter) = &r.filter {
            let c = self.condition(filter, at)?.e;
            match c.as_const() {
                Some(c) if !c.as_bool() => return Ok(None),
                Some(_) => {}
                None => return Err(fault(self.row, "which items take part must follow from their positions")),
            }
        }
        self.scalar(&r.body, at).map(Some)
    }

    /// Whether an index provably lies in `0..n`.
    fn within(&self, e: &LoopExpr, n: i64) -> bool {
        bounds(e, &self.vars).is_some_and(|(lo, hi)| lo >= 0 && hi < n)
    }

    fn combine(&mut self, red: Red, items: Vec<Typed>) -> Res<Typed> {
        let op = match red {
            Red::Sum => BinOp::Add,
            Red::Prod => BinOp::Mul,
            Red::All => BinOp::And,
            Red::Any => BinOp::Or,
            Red::Max | Red::Min => {
                let b = if red == Red::Max { Builtin::Max } else { Builtin::Min };
                let mut items = items.into_iter();
                let first = items.next().ok_or_else(|| fault(self.row, "a maximum of nothing"))?;
                return items.try_fold(first, |a, v| self.builtin(b, vec![a, v]));
            }
            _ => return Err(fault(self.row, "this reduction does not run over axes or items")),
        };
        let start = match red {
            Red::Sum => LoopExpr::int(0),
            Red::Prod => LoopExpr::int(1),
            _ => truth(red == Red::All),
        };
        let mut items = items.into_iter();
        let Some(first) = items.next() else { return Ok(Typed { e: start, elem: false }) };
        items.try_fold(first, |a, v| self.binary(op, a, v))
    }

    fn bind(&mut self, bind: &Bind, at: At, ranges: &mut Vec<SRange>, extents: &mut Vec<Dim>) -> Res<()> {
        let name = bind.name.name;
        let size = name.size_of_index();
        if let Some(axes) = &bind.axes {
            let sizes = self.sizes_of(size)?;
            // The binding shadows the outer one: a reduction's own axes, together with the remaining ones.
            let outer = self.lookup(name);
            let mut entries = match outer {
                Some(L::List(entries)) => entries,
                _ => vec![None; sizes.len()],
            };
            for a in const_eval::axes(&self.env, axes, sizes.len(), at)? {
                let (id, v) = self.var(sizes[a]);
                ranges.push(SRange { var: id, lo: LoopExpr::int(0), hi: LoopExpr::int(sizes[a].value()) });
                extents.push(sizes[a]);
                entries[a] = Some(v);
            }
            self.indices.push((name, L::List(entries)));
            return Ok(());
        }
        let range = |this: &mut Self, axis: Option<usize>, extent: Option<Dim>| -> Res<(LoopExpr, LoopExpr, Dim)> {
            match &bind.range {
                Some((lo, hi)) => {
                    let at = At { axis, ..at };
                    let (lo, hi) = (this.index(lo, at)?, this.index(hi, at)?);
                    let top = bounds(&hi, &this.vars).map(|b| b.1).or(extent.map(Dim::value)).unwrap_or(i64::MAX);
                    Ok((lo, hi, Dim::from(top)))
                }
                None => {
                    let d = extent.ok_or_else(|| fault(this.row, format!("`{name}` has no range")))?;
                    Ok((LoopExpr::int(0), LoopExpr::int(d.value()), d))
                }
            }
        };
        if bind.list {
            let n = match (&bind.range, self.env.size(size)) {
                (_, Some(Size::List(l))) => l.len(),
                (_, Some(Size::Each(l))) => l.len(),
                (Some((lo, hi)), _) => self.zip_rank(lo, at)?.max(self.zip_rank(hi, at)?),
                _ => return Err(fault(self.row, format!("`..{name}` has no sizes"))),
            };
            let mut entries = Vec::new();
            for axis in 0..n {
                let extent = match self.env.size(size) {
                    Some(Size::List(l)) => l.get(axis).copied(),
                    Some(Size::Each(l)) => l.get(axis).copied(),
                    _ => None,
                };
                let (lo, hi, top) = range(self, Some(axis), extent)?;
                let (id, v) = self.var(top);
                ranges.push(SRange { var: id, lo, hi });
                extents.push(top);
                entries.push(Some(v));
            }
            self.indices.push((name, L::List(entries)));
            return Ok(());
        }
        let extent = match self.env.size(size) {
            Some(Size::One(d)) => Some(*d),
            _ => None,
        };
        let (lo, hi, top) = range(self, at.axis, extent)?;
        let (id, v) = self.var(top);
        ranges.push(SRange { var: id, lo, hi });
        extents.push(top);
        self.indices.push((name, L::One(v)));
        Ok(())
    }
}

/// A variable of a sum that can have only one value.
struct Pinned {
    /// The position of the variable among the ranges.
    at: usize,
    var: VarId,
    /// The variable that it equals.
    is: VarId,
    /// The remaining conditions.
    rest: Option<LoopExpr>,
}
