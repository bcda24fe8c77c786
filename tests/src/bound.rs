//! f64 with a bound of the error that a kernel may make: the one source of tolerances.
//!
//! The oracle runs on [`Bounded`] numbers. Each operation adds its own rounding in the compute dtype and propagates the
//! errors of its arguments, by evaluating the builtin at the ends of the arguments' intervals. A sum also tracks the
//! sum of the magnitudes of its terms, so its bound `n * u * sum |x|` holds for every order of addition. A result
//! without a bound (an intermediate overflow, a jump within the error) has an infinite one and is not compared.

use crate::oracle::{Domain, Operand};
use fulgurite_core::builtins::{Builtin, cast_f64, eval_f64};
use fulgurite_core::eval::loop_nest::{Array, Data, Field};
use fulgurite_core::{DType, Value};
use std::cell::Cell;

/// Rounding errors of an exactly rounded operation in a kernel: a fused or reordered form has one more.
const EXACT: f64 = 1.0;
/// Rounding errors of a function: kernels are within 4 ulp (docs of `fulgurite_kernels::math`), and an ulp is two
/// roundings.
const FUNCTION: f64 = 8.0;
/// The cost in additions above which a builtin counts as a function.
const CHEAP: u32 = 6;

thread_local! {
    static COMPUTE: Cell<DType> = const { Cell::new(DType::F64) };
}

/// A number, with the bound of a kernel's error.
#[derive(Clone, Copy, Debug)]
pub struct Bounded {
    /// The value in f64.
    pub value: f64,
    /// The largest error.
    pub error: f64,
    /// For a sum, the sum of the magnitudes of its terms; else the magnitude.
    size: f64,
}

/// Half the distance from 1 to the next number: the relative error of one rounding.
pub fn unit(dtype: DType) -> f64 {
    if dtype.is_float() { dtype.epsilon() / 2.0 } else { 2f64.powi(-53) }
}

/// The smallest normal number: below it results may be flushed or rounded coarsely.
fn smallest(dtype: DType) -> f64 {
    match dtype {
        // 2^-14
        DType::F16 => 6.103515625e-5,
        DType::F4E2M1FN => 1.0,
        DType::F8E4M3FN => 2f64.powi(-6),
        DType::F8E4M3FNUZ => 2f64.powi(-7),
        DType::F8E5M2FNUZ => 2f64.powi(-15),
        DType::F8E5M2 => 2f64.powi(-14),
        DType::BF16 | DType::F32 | DType::F8E8M0FNU => f32::MIN_POSITIVE as f64,
        _ => f64::MIN_POSITIVE,
    }
}

impl Bounded {
    /// A number with this error bound.
    pub fn near(value: f64, error: f64) -> Bounded {
        Bounded { value, error, size: value.abs() }
    }

    fn exact(value: f64) -> Bounded {
        Bounded { value, error: 0.0, size: value.abs() }
    }

    /// Adds the error of rounding `value` to `dtype`; the bound is infinite if the dtype may not hold it.
    fn rounded(self, dtype: DType, roundings: f64) -> Bounded {
        if self.value.is_finite() && self.value.abs() + self.error > dtype.largest() * (1.0 - 1e-6) {
            return Bounded { error: f64::INFINITY, ..self };
        }
        let own = roundings * unit(dtype) * self.size.max(self.value.abs());
        let own = if own > 0.0 { own + roundings * unit(dtype) * smallest(dtype) } else { own };
        Bounded { error: self.error + own, ..self }
    }

    /// Whether a kernel may return `got`, an element of `dtype`.
    pub fn allows(&self, got: f64, dtype: DType) -> bool {
        if self.error.is_infinite() || self.error.is_nan() {
            return true;
        }
        if self.value.is_nan() || got.is_nan() {
            return self.value.is_nan() && got.is_nan();
        }
        if self.value.is_infinite() {
            return got == self.value;
        }
        let Scalar { low, high } = Scalar::around(self, dtype);
        low <= got && got <= high
    }
}

/// The interval of allowed results, with ends rounded outwards by one more rounding of the stored dtype.
struct Scalar {
    low: f64,
    high: f64,
}

impl Scalar {
    fn around(b: &Bounded, dtype: DType) -> Scalar {
        // Half an ulp for the rounding of the result, doubled because two roundings (f32, then f16) may tie.
        let slack = b.error + 2.0 * unit(dtype) * (b.value.abs() + b.error) + smallest(dtype) * 2.0 * unit(dtype);
        let end = |x: f64| cast_f64(x, dtype).as_f64();
        Scalar { low: (b.value - slack).min(end(b.value - slack)), high: (b.value + slack).max(end(b.value + slack)) }
    }
}

/// The number of roundings in a builtin itself.
fn roundings(b: Builtin) -> f64 {
    use Builtin::*;
    match b {
        Neg | Abs | Sign | Floor | Ceil | Round | Trunc | Max | Min | Copysign | Select | Cast | Not | And | Or => 0.0,
        // The result is exact in f64, but a kernel computes it from a rounded quotient.
        RemTrunc | RemFloor | DivFloor | DivTrunc => FUNCTION,
        _ if b.record().flops <= CHEAP => EXACT,
        _ => FUNCTION,
    }
}

impl Field for Bounded {
    fn constant(x: f64) -> Bounded {
        // A constant of the rule is rounded to the compute dtype; elements are already of that dtype.
        let dtype = COMPUTE.get();
        let error = if x.is_finite() { (cast_f64(x, dtype).as_f64() - x).abs() } else { 0.0 };
        Bounded { error, ..Bounded::exact(x) }
    }

    fn value(&self) -> f64 {
        self.value
    }

    fn call(builtin: Builtin, args: &[Bounded]) -> Bounded {
        let values: Vec<f64> = args.iter().map(|a| a.value).collect();
        let value = eval_f64(builtin, &values);
        // The corners of the box that the arguments' errors span. The furthest corner gives the error, so that a chain
        // of additions passes errors on unchanged. If the box holds a pole, there is no bound; the builtins' poles lie
        // at these numbers.
        const POLES: [f64; 3] = [-1.0, 0.0, 1.0];
        let places: Vec<Vec<f64>> = args
            .iter()
            .enumerate()
            .map(|(i, a)| {
                // Kernels round the quotient before they drop its fraction; this rounding has the effect of moving the
                // dividend.
                let jumps =
                    i == 0 && COMPUTE.get().is_float() && matches!(builtin, Builtin::DivFloor | Builtin::DivTrunc);
                let error = if jumps { a.error + unit(COMPUTE.get()) * a.value.abs() } else { a.error };
                if error == 0.0 {
                    return vec![a.value];
                }
                let inside = POLES.into_iter().filter(|p| (p - a.value).abs() < error);
                inside.chain([a.value - error, a.value + error]).collect()
            })
            .collect();
        let mut error = 0.0f64;
        for corner in 0..places.iter().map(Vec::len).product() {
            let mut rest: usize = corner;
            let moved: Vec<f64> = places
                .iter()
                .map(|p| {
                    let at = p[rest % p.len()];
                    rest /= p.len();
                    at
                })
                .collect();
            let off = (eval_f64(builtin, &moved) - value).abs();
            error = match off.is_nan() {
                true if !value.is_nan() => f64::INFINITY,
                true => error,
                false => error.max(off),
            };
        }
        let size = match builtin {
            Builtin::Add | Builtin::Sub => args.iter().map(|a| a.size).sum(),
            Builtin::Neg => args[0].size,
            _ => value.abs(),
        };
        Bounded { value, error, size }.rounded(COMPUTE.get(), roundings(builtin))
    }

    fn detach(self) -> Bounded {
        self
    }
}

impl Domain for Bounded {
    fn enter(compute: DType) {
        COMPUTE.set(compute);
    }

    fn read(self, dtype: DType) -> Bounded {
        // An f64 of rank 0 among f32 is rounded before the computation.
        let compute = COMPUTE.get();
        if unit(dtype) < unit(compute) { self.rounded(compute, EXACT) } else { self }
    }

    fn stored(self, dtype: DType) -> Bounded {
        // The next row reads a value that is rounded once more; a result over several rows starts a new sum.
        let kept = Bounded { size: self.value.abs(), ..self }.rounded(dtype, EXACT);
        // A dtype without a zero keeps its least number instead.
        let least = if dtype == DType::F8E8M0FNU { 2f64.powi(-127) } else { 0.0 };
        Bounded { size: self.value.abs(), error: kept.error + least, ..kept }
    }
}

/// Operands as exact numbers: the arguments of a call have no error.
pub fn exact(args: &[Value<Operand<f64>>]) -> Vec<Value<Operand<Bounded>>> {
    Bounded::enter(DType::F64);
    args.iter().map(|a| a.map(&mut |o: &Operand<f64>| o.convert())).collect()
}

/// Compares `got` with `want`, the results that the oracle allows.
///
/// # Errors
/// The first difference in type, shape or an element.
pub fn compare(got: &Array<f64>, want: &Array<Bounded>) -> Result<(), String> {
    if got.dtype != want.dtype || got.shape != want.shape {
        return Err(format!("is {}{:?}, should be {}{:?}", got.dtype, got.shape, want.dtype, want.shape));
    }
    match (&got.data, &want.data) {
        (Data::Float(got), Data::Float(allowed)) => {
            for (i, (g, w)) in got.iter().zip(allowed).enumerate() {
                if !w.allows(*g, want.dtype) {
                    let off = (g - w.value).abs();
                    return Err(format!(
                        "element {i} is {g:e}, should be {:e}: off by {off:.2e}, {:.2e} is allowed",
                        w.value, w.error
                    ));
                }
            }
            Ok(())
        }
        (Data::Int(got), Data::Int(want)) => match (0..want.len()).find(|&i| got[i] != want[i]) {
            Some(i) => Err(format!("element {i} is {}, should be {}", got[i], want[i])),
            None => Ok(()),
        },
        _ => Err("floats meet integers".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(x: f64) -> Bounded {
        Bounded::exact(x)
    }

    #[test]
    fn a_sum_is_bounded_in_any_order() {
        COMPUTE.set(DType::F32);
        let terms: Vec<f64> = (0..100).map(|i| if i % 2 == 0 { 1e4 } else { -1e4 + i as f64 * 1e-3 }).collect();
        let terms: Vec<f64> = terms.iter().map(|x| *x as f32 as f64).collect();
        let sum = terms.iter().fold(of(0.0), |s, x| Bounded::call(Builtin::Add, &[s, of(*x)]));
        // All positive terms first, the worst order.
        let mut sorted = terms.clone();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let other = sorted.iter().fold(0f32, |s, x| s + *x as f32);
        assert!(sum.allows(other as f64, DType::F32), "{other} {sum:?}");
        assert!(!sum.allows(other as f64 + 20.0, DType::F32));
    }

    #[test]
    fn what_cannot_be_told_is_allowed() {
        COMPUTE.set(DType::F32);
        let big = Bounded::call(Builtin::Mul, &[of(1e30), of(1e30)]);
        assert!(big.allows(f64::INFINITY, DType::F32));
        let third = Bounded { error: 1e-3, ..of(3.0) };
        assert!(Bounded::call(Builtin::Floor, &[third]).error >= 1.0);
    }

    #[test]
    fn one_wrong_bit_too_many_is_refused() {
        COMPUTE.set(DType::F32);
        let x = Bounded::call(Builtin::Add, &[of(1.0), of(2.0)]);
        assert!(x.allows(3.0, DType::F32));
        assert!(!x.allows(3.00001, DType::F32));
        assert!(!x.allows(f64::NAN, DType::F32));
    }
}
