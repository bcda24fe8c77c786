//! Accesses: expands places to one index per axis.

use super::overlap::bounds;
use super::{L, Lowering, Res, Typed, advised, build, fault};
use crate::builtins::Builtin;
use crate::counted;
use crate::lang::ast::*;
use crate::loop_nest::*;
use crate::promote::Kind;
use crate::row::Row;
use crate::signature::const_eval::{self, At};
use crate::signature::shapes::{self, implicit_list};
use crate::signature::{ArgTy, Env, Size};
use crate::{DType, Dim, Name};

impl Lowering<'_> {
    pub(super) fn access(&mut self, a: &TensorAccess, at: At) -> Res<L> {
        let name = a.base.name;
        let Some((first, count)) = self.slots(name) else {
            // A size list or an index list. At rank 0, the axis that an option names has size 1.
            let empty = matches!(self.env.size(name.size_of_index()), Some(Size::List(l)) if l.is_empty());
            if empty && !name.is_size() && matches!(a.places.as_slice(), [Place::One(_)]) {
                return Ok(L::One(Typed { e: LoopExpr::int(0), elem: false }));
            }
            if let Some(L::List(entries)) = self.lookup(name)
                && let [Place::One(e)] = a.places.as_slice()
            {
                let i = const_eval::eval(&self.env, e, at)?.int()?.len();
                return match entries.get(i) {
                    Some(Some(v)) => Ok(L::One(v.clone())),
                    _ => Err(fault(self.row, format!("`{name}` has no index {i} here"))),
                };
            }
            let e = Expr::new(Node::Access(a.clone()), Span::default());
            return self.constant(const_eval::eval(&self.env, &e, at)?);
        };
        let Some(item) = &a.item else {
            return self.load(name, first, None, a, at).map(L::One);
        };
        // An item of a list: a constant, or chosen by an index.
        let chosen = self.scalar(item, at)?;
        if let Some(i) = chosen.e.as_int() {
            if i < 0 || i as usize >= count {
                return Err(fault(self.row, format!("`{name}` has no item {i}")));
            }
            return self.load(name, first + i as usize, Some(i as usize), a, at).map(L::One);
        }
        // The access does not check at run time which item is chosen.
        let (least, most) = self.extremes(&chosen.e);
        if count > 0 && (least < 0 || most >= count as i64) {
            let may = match (least, most) {
                (i64::MIN, _) | (_, i64::MAX) => "what chooses one is not bounded".to_owned(),
                _ => format!("{least} to {most} are chosen"),
            };
            let help =
                format!("keep it among the items: `min(max(…, 0), len({name}) - 1)`, or count from 0 to `len({name})`");
            return Err(advised(self.row, format!("`{name}` has {count} items here, and {may}"), help));
        }
        self.choices(count)?;
        let mut value: Option<Typed> = None;
        for i in (0..count).rev() {
            let v = self.load(name, first + i, Some(i), a, at)?;
            value = Some(match value {
                None => v,
                Some(rest) => {
                    let here = build::compare(Builtin::Eq, chosen.e.clone(), LoopExpr::int(i as i64));
                    Typed { e: build::select(here, v.e, rest.e), elem: true }
                }
            });
        }
        value.map(L::One).ok_or_else(|| fault(self.row, format!("`{name}` is empty")))
    }

    /// The range of an index; the ends of i64 where it is unknown.
    fn extremes(&self, e: &LoopExpr) -> (i64, i64) {
        let all = (i64::MIN, i64::MAX);
        match e.op() {
            SOp::Call(b @ (Builtin::Min | Builtin::Max), xs) if xs.len() == 2 => {
                range_of(*b, self.extremes(&xs[0]), self.extremes(&xs[1])).unwrap_or(all)
            }
            _ => bounds(e, &self.vars).unwrap_or(all),
        }
    }

    /// The compute dtype of this argument's elements.
    pub(super) fn element_dtype(&self, param: Name, slot: usize) -> DType {
        let stored = self.env.slots.get(slot).and_then(|t| t.as_ref()).map_or(DType::I64, |t| t.dtype);
        let declared = self.row.sig.params.iter().find(|p| p.name.name == param);
        match declared.and_then(|p| p.ty.elem.first()) {
            Some(Elem::Var(v)) if *v == "T" && declared.is_some_and(|p| p.ty.elem.len() == 1) => self.compute,
            Some(Elem::Index) => DType::I64,
            _ => stored.opmath(),
        }
    }

    /// An argument of a comparison, as a value of the dtype to which it is [rounded](rounded_to).
    pub(super) fn compared(&self, e: LoopExpr, stored: Option<DType>) -> LoopExpr {
        let compute = e.ty();
        match rounded_to(self.row, &self.env, compute, stored) {
            Some(joined) => build::cast(build::cast(e, joined), compute),
            None => e,
        }
    }

    fn load(&mut self, param: Name, slot: usize, item: Option<usize>, a: &TensorAccess, at: At) -> Res<Typed> {
        let Some(ty) = self.env.slots.get(slot).cloned().flatten() else {
            return Err(fault(self.row, format!("`{param}` is no tensor")));
        };
        let at = At { axis: None, item: item.or(at.item) };
        let item = item.unwrap_or(0);
        let mut idx = self.places(&a.places, param, item, ty.rank(), at)?;
        if idx.len() != ty.rank() {
            idx = self.fit(param, item, idx, ty.rank())?;
        }
        let dtype = self.element_dtype(param, slot);
        let outside = match &a.outside {
            Outside::Refuse => SOutside::Refuse,
            Outside::Skip => SOutside::Skip,
            Outside::Value(e) => SOutside::Value(build::cast(self.scalar(e, at)?.e, dtype)),
        };
        let e = LoopExpr::new(SOp::Load { tensor: slot, idx, outside }, dtype);
        Ok(Typed { e: self.compared(e, Some(ty.dtype)), elem: true })
    }

    /// Indices for axes that the type keeps with size 1, or that a rank-0 argument only imagines.
    fn fit(&self, param: Name, item: usize, idx: Vec<LoopExpr>, rank: usize) -> Res<Vec<LoopExpr>> {
        if rank == 0 && self.env.scalar_axis.contains(&(param, item)) {
            return Ok(Vec::new());
        }
        let accessed = self.row.sig.params.iter().find(|p| p.name.name == param);
        if let Some(dims) = accessed.and_then(|p| p.ty.dims.as_ref()) {
            let mut env: Env = self.env.clone().into_owned();
            let axes = shapes::build(&mut env, dims, At { axis: None, item: Some(item) })?;
            let open = axes.iter().filter(|a| a.index != shapes::Index::Unit).count();
            if axes.len() == rank && open == idx.len() {
                let mut given = idx.into_iter();
                return Ok(axes
                    .iter()
                    .map(|a| {
                        if a.index == shapes::Index::Unit {
                            LoopExpr::int(0)
                        } else {
                            given.next().unwrap_or_else(|| LoopExpr::int(0))
                        }
                    })
                    .collect());
            }
        }
        let axes = counted(rank, "axis", "axes");
        let given = match idx.len() {
            1 => "1 index is given".to_owned(),
            n => format!("{n} indices are given"),
        };
        let message = format!("`{param}` has {axes}, {given}");
        let Some(ty) = accessed.map(|p| &p.ty) else { return Err(fault(self.row, message)) };
        let of_product = |dim: &DimPat| match &dim.kind {
            DimKind::One { size, .. } => match &*size.node {
                Node::Binary(BinOp::Mul, g, c) => {
                    Some(format!("; `{g} * {c}` is one axis, of which an index is made: `(…) * {c} + …`"))
                }
                _ => None,
            },
            _ => None,
        };
        let product = ty.dims.iter().flatten().find_map(of_product).unwrap_or_default();
        Err(advised(
            self.row,
            message,
            format!("`{param}` is `{ty}`: one index for each axis, `..s` for a list `..S`{product}"),
        ))
    }

    fn places(&mut self, places: &[Place], param: Name, item: usize, rank: usize, at: At) -> Res<Vec<LoopExpr>> {
        let mut idx = Vec::new();
        // A broadcast place covers the axes that the other places leave.
        let mut fixed = 0;
        for p in places {
            fixed += match p {
                Place::One(_) => 1,
                Place::Zip(e) => self.zip_rank(e, at)?,
                Place::List(id, axes) => self.index_list(id.name, axes.as_ref(), at)?.len(),
                Place::Unravel(e) => self.list_value(e, at)?.len(),
                _ => 0,
            };
        }
        let open = rank.saturating_sub(fixed);
        for p in places {
            match p {
                Place::One(e) => idx.push(self.index(e, at)?),
                Place::Zip(e) => {
                    for axis in 0..self.zip_rank(e, at)? {
                        idx.push(self.index(e, At { axis: Some(axis), ..at })?);
                    }
                }
                Place::List(id, axes) => idx.extend(self.index_list(id.name, axes.as_ref(), at)?),
                Place::Unravel(e) => idx.extend(self.list_value(e, at)?),
                Place::Broadcast(id) => {
                    let full = self.index_list(id.name, None, at)?;
                    idx.extend(self.broadcast(param, item, Some(id.name.size_of_index()), full, open));
                }
                Place::BroadcastZip(e) => {
                    let n = self.zip_rank(e, at)?;
                    let full =
                        (0..n).map(|axis| self.index(e, At { axis: Some(axis), ..at })).collect::<Res<Vec<_>>>()?;
                    idx.extend(self.broadcast(param, item, None, full, open));
                }
                Place::BroadcastGroup(inner) => {
                    let full = self.places(inner, param, item, usize::MAX, at)?;
                    idx.extend(self.broadcast(param, item, None, full, open));
                }
            }
        }
        Ok(idx)
    }

    /// The indices of an argument along a broadcast list (`None`: along its only one): right-aligned, 0 where its size
    /// is 1.
    fn broadcast(
        &self,
        param: Name,
        item: usize,
        list: Option<Name>,
        full: Vec<LoopExpr>,
        open: usize,
    ) -> Vec<LoopExpr> {
        let own = || {
            let all = self.env.broadcast.iter().filter(|b| b.list != implicit_list());
            all.filter(|b| b.param == param && b.item == item)
        };
        let part = own().find(|b| Some(b.list) == list).or_else(|| own().next());
        let Some(part) = part else {
            let skip = full.len().saturating_sub(open);
            return full[skip..].to_vec();
        };
        let skip = full.len().saturating_sub(part.own.len());
        let full_sizes = match self.env.size(part.list) {
            Some(Size::List(l)) => l.clone(),
            _ => part.own.clone(),
        };
        let lead = full_sizes.len().saturating_sub(part.own.len());
        full[skip..]
            .iter()
            .enumerate()
            .map(|(i, e)| match (part.own.get(i), full_sizes.get(lead + i)) {
                (Some(own), Some(to)) if own.value() == 1 && to.value() != 1 => LoopExpr::int(0),
                _ => e.clone(),
            })
            .collect()
    }

    /// The bound indices of (chosen axes of) a list. An axis of size 1 without a variable (dropped by `squeeze`) is
    /// read at 0.
    pub(super) fn index_list(&mut self, name: Name, axes: Option<&Axes>, at: At) -> Res<Vec<LoopExpr>> {
        let sizes = match self.env.size(name.size_of_index()) {
            Some(Size::List(l)) => Some(l.clone()),
            _ => None,
        };
        let entries = match (self.lookup(name), &sizes) {
            (Some(L::List(entries)), _) => entries,
            (Some(L::Unraveled(flat, dims)), _) => {
                build::unravel(&flat.e, &dims).into_iter().map(|e| Some(Typed { e, elem: false })).collect()
            }
            (Some(L::One(v)), _) => vec![Some(v)],
            (_, Some(sizes)) if sizes.iter().all(|d| d.value() == 1) => vec![None; sizes.len()],
            _ => return Err(fault(self.row, format!("no index `{name}` is bound here"))),
        };
        let chosen: Vec<usize> = match axes {
            None => (0..entries.len()).collect(),
            Some(a) => const_eval::axes(&self.env, a, entries.len(), at)?,
        };
        let size = |i: usize| sizes.as_ref().and_then(|l| l.get(i)).map(|d| d.value());
        chosen
            .into_iter()
            .map(|i| match entries.get(i) {
                Some(Some(v)) => Ok(v.e.clone()),
                _ if size(i) == Some(1) => Ok(LoopExpr::int(0)),
                _ => Err(fault(self.row, format!("the index `{name}` of axis {i} is not bound here"))),
            })
            .collect()
    }

    /// A list-valued expression: `unravel(…)`, an index list, a zip.
    pub(super) fn list_value(&mut self, e: &Expr, at: At) -> Res<Vec<LoopExpr>> {
        match self.any(e, at)? {
            L::List(entries) => entries
                .into_iter()
                .map(|v| v.map(|v| v.e).ok_or_else(|| fault(self.row, "an index of this list is not bound here")))
                .collect(),
            L::Unraveled(flat, dims) => Ok(build::unravel(&flat.e, &dims)),
            L::One(v) => Ok(vec![v.e]),
            L::Tuple(_) => Err(fault(self.row, "a tuple is no index")),
        }
    }

    pub(super) fn index(&mut self, e: &Expr, at: At) -> Res<LoopExpr> {
        Ok(build::cast(self.scalar(e, at)?.e, DType::I64))
    }

    /// The number of axes of a zip.
    pub(super) fn zip_rank(&mut self, e: &Expr, _at: At) -> Res<usize> {
        let mut found: Option<usize> = None;
        let mut names = Vec::new();
        const_eval::names(e, &mut |n| names.push(n));
        zip_names(e, &mut |n| names.push(n));
        for n in names {
            let len = match self.lookup(n) {
                Some(L::List(entries)) => Some(entries.len()),
                Some(L::Unraveled(_, dims)) => Some(dims.len()),
                Some(_) => None,
                None => match (self.env.item(n), self.env.size(n)) {
                    (Some(crate::signature::Item::Ints(l)), _) => Some(l.len()),
                    (None, Some(Size::List(l))) => Some(l.len()),
                    _ => None,
                },
            };
            if let Some(len) = len {
                found = Some(found.map_or(len, |f: usize| f.max(len)));
            }
        }
        match found {
            Some(n) => Ok(n),
            // Index lists of no axes are not bound.
            None => Ok(0),
        }
    }

    /// The type of a call's argument, for inlined rows.
    pub(super) fn arg_ty(&self, v: &Typed) -> ArgTy {
        ArgTy::Tensor(crate::TensorTy { dtype: v.e.ty(), shape: Default::default() })
    }

    /// Extents of the variables of an index list.
    pub(super) fn sizes_of(&self, list: Name) -> Res<Vec<Dim>> {
        match self.env.size(list) {
            Some(Size::List(l)) => Ok(l.to_vec()),
            Some(Size::Each(l)) => Ok(l.clone()),
            Some(Size::One(d)) => Ok(vec![*d]),
            _ => Err(fault(self.row, format!("`{list}` is no list"))),
        }
    }
}

/// Visits the names in accesses inside a zip: `index[~m]` runs over no axis of its own, but `idx` may.
fn zip_names(e: &Expr, f: &mut impl FnMut(Name)) {
    if let Node::Access(a) = &*e.node {
        for p in &a.places {
            if let Place::One(e) = p {
                const_eval::names(e, f);
            }
        }
    }
}

/// The joined dtype to which an argument of a comparison is rounded before it is compared: a zero-dim f64, or a number
/// (`stored` is `None`), is rounded to the f16 of its operand. Other values are rounded once, in the result.
pub fn rounded_to(row: &Row, env: &Env, compute: DType, stored: Option<DType>) -> Option<DType> {
    let kind = row.promote.as_ref().map(|kind| const_eval::kind(env, kind));
    let joined = env.dtype(Name::new("T")).filter(|_| matches!(kind, Some(Ok(Kind::Bool))))?;
    (joined.opmath() == compute && joined != compute && stored != Some(joined)).then_some(joined)
}
