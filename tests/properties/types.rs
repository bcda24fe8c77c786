//! P02 and P03: the types of results, and refusals by signatures.

use super::cases::{self, Verdict};
use fulgurite_core::lang::ast::Elem;
use fulgurite_core::promote::Kind;
use fulgurite_core::signature::{self, ArgTy, OutTy};
use fulgurite_core::{DType, Name, TensorTy, Value};
use fulgurite_tests::bridge;
use fulgurite_tests::calls::{self, Call, Sketch, Slot, Values, Wish, values};
use fulgurite_tests::oracle::Operand;
use fulgurite_tests::rng::Rng;
use fulgurite_tests::rows::TestRow;
use libtest_mimic::Failed;

/// About this many tuples of dtypes are checked, evenly chosen, because each of them is run.
const RUN: usize = 60;

/// P02: for tuples of dtypes, a call that the signature accepts runs and gives the promised types, and one that it
/// refuses is refused with an equal code by the runtime.
pub fn meta(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    let wish = Wish { dtype: None, values: Values::Small, numbers: false, empty: false, case: 0 };
    // Few draws meet conditions on sizes and dtypes together, so several are tried.
    let drawn = |case: usize, rng: &mut Rng| (0..8).find_map(|_| calls::sketch(row, &Wish { case, ..wish }, rng));
    cases::of(test, 1, drawn, |sketch, rng| {
        let tensors = count_tensors(&sketch.args);
        let total = DType::STORED.len().pow(tensors.min(3) as u32);
        let every = (total / RUN).max(1);
        for tuple in (0..total).step_by(every) {
            let mut rest = tuple;
            let mut dtypes = Vec::new();
            for at in 0..tensors {
                // Tensors after the third have the dtype of the first.
                let d = if at < 3 { DType::STORED[rest % DType::STORED.len()] } else { dtypes[0] };
                rest /= DType::STORED.len();
                dtypes.push(d);
            }
            promised(row, sketch, &dtypes, rng)?;
        }
        Ok(Verdict::Held)
    })
}

/// Compares the signature's promise for these dtypes with the outcome of the call.
fn promised(row: &TestRow, sketch: &Sketch, dtypes: &[DType], rng: &mut Rng) -> Result<(), String> {
    let args = with_dtypes(&sketch.args, dtypes);
    let solved = signature::solve(&row.row, &args, &Slot::ty);
    let operands: Vec<Value<Operand<f64>>> = args.iter().map(|a| a.map(&mut |s| filled(s, rng))).collect();
    let call =
        Call { row: row.row.clone(), args: operands, solved: solved.clone().unwrap_or_else(|_| sketch.solved.clone()) };
    let ran = bridge::execute(&call, &["cpu", "interp"], 1);
    match (solved, ran) {
        (Ok(solved), Ok(got)) => {
            let want = types(&solved.outs);
            let got: Vec<TensorTy> = got.iter().map(|a| TensorTy::new(a.dtype, &a.shape)).collect();
            if want.len() <= got.len() && want.iter().zip(&got).any(|(w, g)| w != g) {
                return Err(format!("{call}\n  gives {got:?}, promised is {want:?}"));
            }
            Ok(())
        }
        (Err(refusal), Err(e)) if refusal.code == e.code => Ok(()),
        // Elements decide about these refusals, and the elements here are arbitrary.
        (Ok(_), Err(e)) if matches!(e.code, "E804" | "E805" | "E705") => Ok(()),
        (Ok(_), Err(e)) => Err(format!("{call}\n  is accepted by the signature, refused with {e}")),
        (Err(r), Ok(_)) => Err(format!("{call}\n  is refused by the signature ({r}), but runs")),
        (Err(r), Err(e)) => Err(format!("{call}\n  is refused with {} by the signature, with {e} when called", r.code)),
    }
}

fn count_tensors(args: &[Value<Slot>]) -> usize {
    let mut n = 0;
    args.iter().for_each(|a| a.for_each(&mut |s| n += matches!(s, Slot::Tensor(_)) as usize));
    n
}

fn with_dtypes(args: &[Value<Slot>], dtypes: &[DType]) -> Vec<Value<Slot>> {
    let mut next = dtypes.iter();
    let replace = &mut |s: &Slot| match s {
        Slot::Tensor(t) => Slot::Tensor(TensorTy { dtype: *next.next().unwrap_or(&t.dtype), ..t.clone() }),
        other => other.clone(),
    };
    args.iter().map(|a| a.map(replace)).collect()
}

fn filled(slot: &Slot, rng: &mut Rng) -> Operand<f64> {
    match slot {
        Slot::Tensor(t) if t.dtype.is_int() => {
            let zero = t.clone();
            Operand::Tensor(values::array(&zero, (1.0, 1.0), Values::Tame, rng))
        }
        Slot::Tensor(t) => Operand::Tensor(values::array(t, (0.5, 1.5), Values::Tame, rng)),
        Slot::Number(d, s) => Operand::Number(*d, *s),
        Slot::Key => Operand::Key([7, 0]),
    }
}

fn types(outs: &[OutTy]) -> Vec<TensorTy> {
    let mut all = Vec::new();
    for out in outs {
        match out {
            OutTy::Tensor(t) => all.push(t.clone()),
            OutTy::List(ts) => all.extend(ts.iter().cloned()),
            // Only the body determines these types, so the signature promises nothing.
            OutTy::FromBody => return Vec::new(),
        }
    }
    all
}

/// Whether a result has the dtype of the arguments, and the promotion kind is a plain word.
pub fn promotes(row: &TestRow) -> bool {
    kind(row).is_some() && row.row.sig.outs.iter().any(|o| o.ty.elem == [Elem::Var(Name::new("T"))])
}

fn kind(row: &TestRow) -> Option<Kind> {
    Kind::from_name(&row.row.promote.as_ref()?.to_string())
}

/// P03: the result's dtype follows PyTorch's rule, which is stated here a second time, by category and width.
pub fn promotion(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    let wish = |case| Wish { dtype: None, values: Values::Small, numbers: true, empty: true, case };
    cases::each(row, test, 60, wish, |call, _| {
        let Some(kind) = kind(row) else { return Ok(Verdict::Discarded) };
        let mut tiers = [None; 3];
        for (param, arg) in call.row.sig.params.iter().zip(&call.args) {
            if param.ty.elem != [Elem::Var(Name::new("T"))] {
                continue;
            }
            arg.for_each(&mut |o| {
                let (tier, dtype) = match o.ty() {
                    ArgTy::Tensor(t) if kind == Kind::Join || t.rank() > 0 => (0, t.dtype),
                    ArgTy::Tensor(t) => (1, t.dtype),
                    ArgTy::Number(d) => (2, d),
                    ArgTy::Key => return,
                };
                tiers[tier] = Some(tiers[tier].map_or(dtype, |d| join(d, dtype)));
            });
            if let Value::Num(s) = arg {
                tiers[2] = Some(tiers[2].map_or(s.dtype(), |d| join(d, s.dtype())));
            }
        }
        if call.solved.env.items.iter().any(|(_, i)| matches!(i, signature::Item::DType(_))) {
            // A dtype that an option names is not promoted.
            return Ok(Verdict::Held);
        }
        // Numbers give way to tensors of rank 0, and those to other tensors, unless the weaker one has the higher
        // category.
        let weaker = |strong: Option<DType>, weak: Option<DType>| match (strong, weak) {
            (Some(s), Some(w)) if w.category() > s.category() => Some(join(s, w)),
            (Some(s), _) => Some(s),
            (None, w) => w,
        };
        let Some(joined) = weaker(tiers[0], weaker(tiers[1], tiers[2])) else { return Ok(Verdict::Discarded) };
        let want = match kind {
            Kind::Bool => DType::Bool,
            Kind::Float if !joined.is_float() => DType::F32,
            Kind::LongIfBool if joined == DType::Bool => DType::I64,
            Kind::LongIfInt if !joined.is_float() => DType::I64,
            _ => joined,
        };
        for (out, ty) in call.row.sig.outs.iter().zip(types(&call.solved.outs)) {
            if out.ty.elem == [Elem::Var(Name::new("T"))] && ty.dtype != want {
                return Err(format!("gives {}, PyTorch's rule says {want}", ty.dtype));
            }
        }
        Ok(Verdict::Held)
    })
}

/// The smallest dtype above both in bool < {u8, i8} < i16 < i32 < i64 < {f16, bf16} < f32 < f64.
fn join(a: DType, b: DType) -> DType {
    let height = |d: DType| match d {
        DType::Bool => 0,
        DType::U8 | DType::I8 => 1,
        DType::I16 => 2,
        DType::I32 => 3,
        DType::I64 => 4,
        DType::F16 | DType::BF16 => 5,
        DType::F32 => 6,
        _ => 7,
    };
    match (a, b) {
        _ if a == b => a,
        (DType::U8, DType::I8) | (DType::I8, DType::U8) => DType::I16,
        (DType::F16, DType::BF16) | (DType::BF16, DType::F16) => DType::F32,
        _ if height(a) > height(b) => a,
        _ => b,
    }
}
