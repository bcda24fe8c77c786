//! Tuples of dtypes to try on a call.

use fulgurite_core::lang::{Elem, OptType};
use fulgurite_core::promote::{self, Kind, Operand};
use fulgurite_core::row::Row;
use fulgurite_core::signature::{ArgTy, const_eval};
use fulgurite_core::{DType, Name, Scalar, TensorTy, Value};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::check::cases::{Case, Family};

/// Value at a position.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Form {
    /// A tensor of the shape that the call has there.
    Tensor(DType),
    /// A tensor of rank 0.
    Rank0(DType),
    Number(Scalar),
}

/// A place in a call whose dtype varies.
#[derive(Clone, Copy)]
enum At {
    /// An argument.
    Param(usize),
    /// An item of a list argument.
    Item(usize, usize),
    /// An option `Dtype(T)`.
    Option(usize),
}

/// Result of joining the forms of the `T`-arguments.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Joined {
    /// The join of the forms, by the row's `promote`.
    dtype: Option<DType>,
    /// Whether all tensors have this dtype.
    agree: bool,
    /// Per position, whether it holds a number.
    numbers: SmallVec<[bool; 8]>,
}

/// A call whose dtypes vary.
pub(super) struct Base<'a> {
    row: &'a Row,
    case: &'a Case,
    positions: Vec<(At, Vec<Form>)>,
    /// Arguments of a union with `acc(T)`, which may have `T` or its accumulation dtype.
    wide: Vec<usize>,
}

/// Pairs that meet across categories, widths and signs.
const MIXED: [(DType, DType); 8] = [
    (DType::F32, DType::F64),
    (DType::F64, DType::F32),
    (DType::F16, DType::BF16),
    (DType::I32, DType::F32),
    (DType::F32, DType::I64),
    (DType::Bool, DType::F32),
    (DType::F16, DType::F32),
    (DType::U8, DType::I8),
];

const NUMBERS: [Scalar; 3] = [Scalar::Bool(true), Scalar::Int(2), Scalar::Float(0.5)];

/// One call per combination of presence and words, with tensors of rank above 0 where the row accepts them.
pub(super) fn bases<'a>(row: &'a Row, family: &'a Family) -> Vec<Base<'a>> {
    let mut seen: FxHashSet<String> = FxHashSet::default();
    let mut bases = Vec::new();
    for ranked in [true, false] {
        for case in &family.cases {
            if ranked && !case.args.iter().all(has_axes) {
                continue;
            }
            if seen.insert(case.kind()) {
                bases.push(Base::new(row, case));
            }
        }
    }
    bases
}

fn has_axes(v: &Value<ArgTy>) -> bool {
    match v {
        Value::Tensor(ArgTy::Tensor(t)) => t.rank() > 0,
        Value::List(items) => items.iter().all(has_axes),
        _ => true,
    }
}

impl<'a> Base<'a> {
    fn new(row: &'a Row, case: &'a Case) -> Base<'a> {
        let t = Name::new("T");
        let mut positions = Vec::new();
        let mut wide = Vec::new();
        for (i, (param, value)) in row.sig.params.iter().zip(&case.args).enumerate() {
            if !param.ty.elem.contains(&Elem::Var(t)) {
                continue;
            }
            let tensors: Vec<Form> = DType::STORED.iter().map(|d| Form::Tensor(*d)).collect();
            let rank0 =
                || DType::STORED.iter().map(|d| Form::Rank0(*d)).chain(NUMBERS.iter().map(|n| Form::Number(*n)));
            match value {
                // the other alternative of `bool | T`
                Value::Tensor(ArgTy::Tensor(given)) if given.dtype == DType::Bool => {}
                Value::Tensor(_) if param.ty.elem.len() > 1 => wide.push(i),
                Value::List(items) => positions.extend((0..items.len()).map(|k| (At::Item(i, k), tensors.clone()))),
                Value::Absent => {}
                _ => positions.push((
                    At::Param(i),
                    match param.ty.dims.as_deref() {
                        None => tensors.into_iter().chain(rank0()).collect(),
                        Some([]) => rank0().collect(),
                        Some(_) => tensors,
                    },
                )),
            }
        }
        for (i, opt) in row.sig.opts.iter().enumerate() {
            let at = row.sig.params.len() + i;
            if opt.ty == OptType::Dtype(t) && !case.args[at].is_absent() {
                positions.push((At::Option(at), DType::STORED.iter().map(|d| Form::Tensor(*d)).collect()));
            }
        }
        Base { row, case, positions, wide }
    }

    /// The call with these forms, if its row accepts it.
    pub(super) fn call(&self, row: &Row, forms: &[Form]) -> Option<Case> {
        if self.joined(row, forms).is_some_and(|joined| self.refuses(row, &joined)) {
            return None;
        }
        Case::of(row, self.args(forms)?)
    }

    /// The join of these forms, where they alone decide `T`.
    pub(super) fn joined(&self, row: &Row, forms: &[Form]) -> Option<Joined> {
        let decides = |at: At| match at {
            At::Param(i) | At::Item(i, _) => self.row.sig.params[i].ty.elem.len() == 1,
            At::Option(_) => false,
        };
        if !self.positions.iter().all(|(at, _)| decides(*at)) {
            return None;
        }
        let operand = |((at, _), form): (&(At, _), &Form)| match *form {
            Form::Number(n) => Operand::from(n),
            Form::Rank0(dtype) => Operand::Tensor { dtype, rank0: true },
            Form::Tensor(dtype) => Operand::Tensor { dtype, rank0: self.rank0(*at) },
        };
        let operands: SmallVec<[Operand; 4]> = self.positions.iter().zip(forms).map(operand).collect();
        let numbers = forms.iter().map(|form| matches!(form, Form::Number(_))).collect();
        let dtype = promote::join_by(self.kind(row)?, &operands);
        let agree = forms.iter().all(|form| matches!(form, Form::Number(_)) || dtype == Some(form.dtype()));
        Some(Joined { dtype, agree, numbers })
    }

    /// Whether a tensor at this place has rank 0.
    fn rank0(&self, at: At) -> bool {
        let rank0 = |value: &Value<ArgTy>| match value {
            Value::Tensor(ArgTy::Tensor(t)) => t.rank() == 0,
            _ => true,
        };
        match at {
            At::Param(i) => self.row.sig.params[i].ty.dims.is_some() && rank0(&self.case.args[i]),
            At::Item(i, k) => matches!(&self.case.args[i], Value::List(items) if items.get(k).is_none_or(rank0)),
            At::Option(_) => false,
        }
    }

    /// The row's kind of promotion in this call. `None` where it can't be evaluated.
    fn kind(&self, row: &Row) -> Option<Option<Kind>> {
        row.promote.as_ref().map(|kind| const_eval::kind(&self.case.solved.env, kind)).transpose().ok()
    }

    /// Whether `row` refuses these dtypes by themselves. Most tuples need not be solved then.
    fn refuses(&self, row: &Row, joined: &Joined) -> bool {
        let taken = || row.dtypes.as_ref().map(|set| const_eval::dtype_set(&self.case.solved.env, set));
        let differ = self.kind(row) == Some(Some(Kind::Equal)) && !joined.agree;
        differ || joined.dtype.is_some_and(|of| matches!(taken(), Some(Ok(taken)) if !taken.contains(of)))
    }

    /// The arguments with these forms.
    pub(super) fn args(&self, forms: &[Form]) -> Option<Vec<Value<ArgTy>>> {
        let mut args = self.case.args.clone();
        for ((at, _), form) in self.positions.iter().zip(forms) {
            match *at {
                At::Param(i) => args[i] = with(&args[i], *form, self.row.sig.params[i].ty.dims.is_none())?,
                At::Item(i, k) => {
                    let Value::List(items) = &mut args[i] else { return None };
                    items[k] = with(&items[k], *form, false)?;
                }
                At::Option(i) => {
                    let Form::Tensor(d) = form else { return None };
                    args[i] = Value::DType(*d);
                }
            }
        }
        let t = forms.first().map(|form| form.dtype()).unwrap_or(DType::F32);
        for i in &self.wide {
            args[*i] = with(&args[*i], Form::Tensor(t), false)?;
        }
        Some(args)
    }

    /// Tuples in which every argument has one dtype, which is `T`.
    pub(super) fn uniform(&self) -> Vec<(DType, Vec<Form>)> {
        let at = |d: DType, forms: &[Form]| {
            let fits = |form: &&Form| matches!(form, Form::Tensor(e) | Form::Rank0(e) if *e == d);
            forms.iter().find(fits).copied()
        };
        let tuple = |d| self.positions.iter().map(|(_, forms)| at(d, forms)).collect::<Option<Vec<Form>>>();
        DType::STORED.iter().filter_map(|d| Some((*d, tuple(*d)?))).collect()
    }

    /// The tuple of a dtype that only holds numbers. A row that declares that it moves elements accepts it.
    pub(super) fn held(&self) -> Vec<Form> {
        vec![Form::Tensor(DType::F8E4M3FN); self.positions.len()]
    }

    /// The call of a uniform tuple in which arguments of a union with `acc(T)` have the accumulation dtype.
    pub(super) fn widened(&self, row: &Row, d: DType, forms: &[Form]) -> Option<Case> {
        if self.wide.is_empty() || d.opmath() == d {
            return None;
        }
        let mut args = self.args(forms)?;
        for i in &self.wide {
            args[*i] = with(&args[*i], Form::Tensor(d.opmath()), false)?;
        }
        Case::of(row, args)
    }

    /// Tuples with a pair of different dtypes at each pair of positions. Other positions have the first of the pair.
    pub(super) fn mixed(&self) -> Vec<Vec<Form>> {
        let mut tuples = Vec::new();
        let n = self.positions.len();
        for (a, b) in (0..n).flat_map(|b| (0..b).map(move |a| (a, b))) {
            for (x, y) in MIXED {
                let forms = self.positions.iter().enumerate().map(|(i, (_, forms))| {
                    let d = if i == b { y } else { x };
                    forms.iter().find(|form| matches!(form, Form::Tensor(e) | Form::Rank0(e) if *e == d)).copied()
                });
                debug_assert!(a < b);
                tuples.extend(forms.collect::<Option<Vec<_>>>());
            }
        }
        tuples
    }

    /// Whether [`Base::thorough`] leaves nothing out.
    pub(super) fn is_small(&self) -> bool {
        self.positions.len() <= 2
    }

    /// All tuples, for one or two positions. For more, mixed pairs and every form of each position beside floats and
    /// integers.
    pub(super) fn thorough(&self) -> Vec<Vec<Form>> {
        match self.positions.as_slice() {
            [] => vec![vec![]],
            [(_, forms)] => forms.iter().map(|form| vec![*form]).collect(),
            [(_, first), (_, second)] => first.iter().flat_map(|x| second.iter().map(move |y| vec![*x, *y])).collect(),
            all => {
                let mut tuples = self.mixed();
                for (i, (_, forms)) in all.iter().enumerate() {
                    for (form, other) in forms.iter().flat_map(|form| [DType::F32, DType::I32].map(|d| (form, d))) {
                        let rest = all.iter().enumerate().map(|(k, (_, forms))| {
                            if k == i {
                                return Some(*form);
                            }
                            forms.iter().find(|f| matches!(f, Form::Tensor(d) | Form::Rank0(d) if *d == other)).copied()
                        });
                        tuples.extend(rest.collect::<Option<Vec<_>>>());
                    }
                }
                tuples
            }
        }
    }
}

impl Form {
    pub(super) fn dtype(self) -> DType {
        match self {
            Form::Tensor(d) | Form::Rank0(d) => d,
            Form::Number(n) => n.dtype(),
        }
    }
}

/// `value` in another form. If `broadcasts`, it has no brackets, so a tensor of any shape will do.
fn with(value: &Value<ArgTy>, form: Form, broadcasts: bool) -> Option<Value<ArgTy>> {
    let shape = match value {
        Value::Tensor(ArgTy::Tensor(t)) if !broadcasts => t.shape.clone(),
        _ if broadcasts => TensorTy::new(DType::F32, &[2i64, 3]).shape,
        _ => Default::default(),
    };
    Some(match form {
        Form::Tensor(dtype) => Value::Tensor(ArgTy::Tensor(TensorTy { dtype, shape })),
        Form::Rank0(dtype) => Value::Tensor(ArgTy::Tensor(TensorTy { dtype, shape: Default::default() })),
        Form::Number(n) => Value::Num(n),
    })
}
