//! Floats of four and eight bits. A name says how many bits are exponent and mantissa: e4m3 has four and three.
//!
//! Conversion rounds to nearest, ties to even, subnormals included. NaN stays NaN where the format has one. Formats
//! differ in what else they leave out: `fn` has no infinity, `fnuz` has no -0 either, and `fnu` has no sign and no zero.
//! A number that is too large becomes what PyTorch 2.15 makes of it: the largest e4m3fn, an infinite e5m2, NaN where the
//! name ends with `fnuz`, and the largest e2m1fn. e8m0fnu, which PyTorch and ONNX convert in different ways, is
//! converted as by PyTorch: the sign is dropped, and 0 becomes the least number.

use crate::DType;

/// The parts of a format.
struct Format {
    /// The bits below the sign.
    bits: u32,
    mantissa: u32,
    bias: i32,
    /// The code of the largest finite number, without its sign.
    most: u8,
    /// The code of larger numbers, without its sign.
    over: u8,
    /// The code of NaN, without a sign.
    nan: u8,
    /// Whether 0 has a sign. Where it has none, neither has NaN.
    signed_zero: bool,
    /// The code of infinity, without its sign.
    infinity: Option<u8>,
}

const E4M3FN: Format =
    Format { bits: 7, mantissa: 3, bias: 7, most: 0x7e, over: 0x7e, nan: 0x7f, signed_zero: true, infinity: None };
const E5M2: Format =
    Format { mantissa: 2, bias: 15, most: 0x7b, over: 0x7c, nan: 0x7e, infinity: Some(0x7c), ..E4M3FN };
const E4M3FNUZ: Format = Format { bias: 8, most: 0x7f, over: 0x80, nan: 0x80, signed_zero: false, ..E4M3FN };
const E5M2FNUZ: Format = Format { mantissa: 2, bias: 16, ..E4M3FNUZ };
/// It has no NaN, which becomes -0, as in the `ml_dtypes` of NumPy.
const E2M1FN: Format = Format { bits: 3, mantissa: 1, bias: 1, most: 7, over: 7, nan: 8, ..E4M3FN };

/// The format of a float with a mantissa; that of other dtypes is not used.
#[inline]
const fn format(dtype: DType) -> &'static Format {
    match dtype {
        DType::F8E5M2 => &E5M2,
        DType::F8E4M3FNUZ => &E4M3FNUZ,
        DType::F8E5M2FNUZ => &E5M2FNUZ,
        DType::F4E2M1FN => &E2M1FN,
        _ => &E4M3FN,
    }
}

/// The code of the nearest number.
#[inline]
pub fn encode(x: f32, dtype: DType) -> u8 {
    match dtype {
        DType::F8E8M0FNU => encode_exponent(x),
        _ => encode_as(x, format(dtype)),
    }
}

/// The exponent of a float, rounded; f32 has the same exponents, with the same bias.
#[inline(always)]
fn encode_exponent(x: f32) -> u8 {
    let bits = x.to_bits();
    let exponent = (bits >> 23 & 0xff) as u8;
    let (half, rest) = (bits & 0x40_0000 != 0, bits & 0x3f_ffff != 0);
    // A tie rounds to the even code of the two next ones. The code after a subnormal, whose exponent is 0, stands for a
    // number twice as large, and so does any other.
    let up = half && (rest || exponent > 0);
    if exponent == 0xff { 0xff } else { exponent + u8::from(up) }
}

#[inline(always)]
fn encode_as(x: f32, f: &Format) -> u8 {
    let bits = x.to_bits();
    let sign = (bits >> 31 << f.bits) as u8;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return if f.signed_zero { sign | f.nan } else { f.nan };
    }
    let drop = 23 - f.mantissa;
    let least = 127 - f.bias + 1;
    let exponent = (magnitude >> 23) as i32;
    let code = if exponent >= least {
        // normal: the exponent's bias changes, the mantissa loses bits
        let shifted = magnitude - ((least as u32 - 1) << 23);
        (shifted + ((1 << (drop - 1)) - 1) + (shifted >> drop & 1)) >> drop
    } else {
        // Subnormal: a multiple of the least number; adding 2^23 multiples rounds.
        let unit = f32::from_bits((least as u32) << 23) / (1u32 << f.mantissa) as f32;
        let steps = f32::from_bits(magnitude) / unit;
        ((steps + 8_388_608.0) - 8_388_608.0) as u32
    };
    match code {
        0 if !f.signed_zero => 0,
        code if code > u32::from(f.most) => sign | f.over,
        code => sign | code as u8,
    }
}

/// The number of a code. Bits above those of the format are ignored.
pub fn decode(code: u8, dtype: DType) -> f32 {
    if dtype == DType::F8E8M0FNU {
        // The least number is a subnormal f32.
        return if code == 0xff { f32::NAN } else { 2f64.powi(i32::from(code) - 127) as f32 };
    }
    let f = format(dtype);
    let below = (1u8 << f.bits) - 1;
    let (magnitude, negative) = (code & below, code >> f.bits & 1 != 0);
    let value = if !f.signed_zero && magnitude == 0 && negative || f.signed_zero && magnitude > f.most {
        if f.infinity == Some(magnitude) { f32::INFINITY } else { f32::NAN }
    } else {
        let exponent = i32::from(magnitude >> f.mantissa);
        let mantissa = f32::from(magnitude & ((1 << f.mantissa) - 1)) / (1u32 << f.mantissa) as f32;
        match exponent {
            0 => mantissa * 2f32.powi(1 - f.bias),
            e => (1.0 + mantissa) * 2f32.powi(e - f.bias),
        }
    };
    if negative { -value } else { value }
}

/// The number rounded to the format.
pub fn round(x: f32, dtype: DType) -> f32 {
    decode(encode(x, dtype), dtype)
}

/// The numbers of all codes.
pub fn table(dtype: DType) -> [f32; 256] {
    std::array::from_fn(|code| decode(code as u8, dtype))
}

/// The distance from 1 to the next number.
pub(crate) fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F8E8M0FNU => 1.0,
        _ => 1.0 / f64::from(1u32 << format(dtype).mantissa),
    }
}

/// The largest finite number.
pub(crate) fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F8E8M0FNU => f64::from(decode(0xfe, dtype)),
        _ => f64::from(decode(format(dtype).most, dtype)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DType::{F4E2M1FN, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU};

    const WITH_MANTISSA: [DType; 5] = [F8E4M3FN, F8E5M2, F8E4M3FNUZ, F8E5M2FNUZ, F4E2M1FN];

    #[test]
    fn every_code_is_its_own_number() {
        for dtype in WITH_MANTISSA.into_iter().chain([F8E8M0FNU]) {
            for code in 0..=if dtype == F4E2M1FN { 15u8 } else { 255 } {
                let x = decode(code, dtype);
                match x.is_nan() {
                    true => assert!(decode(encode(x, dtype), dtype).is_nan()),
                    // A format without infinity does not decode to one.
                    false => assert_eq!(encode(x, dtype), code, "{dtype} {code:#x} {x}"),
                }
            }
        }
        assert_eq!((decode(126, F8E4M3FN), decode(1, F8E4M3FN)), (448.0, 2f32.powi(-9)));
        assert_eq!((decode(0x7b, F8E5M2), decode(1, F8E5M2)), (57344.0, 2f32.powi(-16)));
        assert!(decode(0x7f, F8E4M3FN).is_nan() && decode(0x7c, F8E5M2).is_infinite());
        assert_eq!((decode(0x7f, F8E4M3FNUZ), decode(0x7f, F8E5M2FNUZ)), (240.0, 57344.0));
        assert!(decode(0x80, F8E4M3FNUZ).is_nan() && decode(0x80, F8E5M2FNUZ).is_nan());
        assert_eq!([1u8, 2, 7, 15].map(|code| decode(code, F4E2M1FN)), [0.5, 1.0, 6.0, -6.0]);
        assert_eq!([0u8, 127, 254].map(|code| decode(code, F8E8M0FNU)), [2f32.powi(-127), 1.0, 2f32.powi(127)]);
        for dtype in WITH_MANTISSA {
            assert_eq!(f64::from(decode(encode(1.0, dtype) + 1, dtype)), 1.0 + epsilon(dtype), "{dtype}");
        }
    }

    #[test]
    fn between_codes_the_nearest_is_taken_ties_to_even() {
        for dtype in WITH_MANTISSA {
            let f = format(dtype);
            for code in 0..f.most {
                let (a, b) = (decode(code, dtype), decode(code + 1, dtype));
                let middle = (f64::from(a) + f64::from(b)) as f32 / 2.0;
                let even = if code % 2 == 0 { code } else { code + 1 };
                assert_eq!(encode(middle, dtype), even, "{dtype}: {middle}");
                assert_eq!(encode(middle.next_down(), dtype), code, "{dtype}: below {middle}");
                assert_eq!(encode(middle.next_up(), dtype), code + 1, "{dtype}: above {middle}");
                assert_eq!(encode(-middle.next_up(), dtype), 1 << f.bits | (code + 1));
            }
        }
        let e4m3 = |x: f32| round(x, F8E4M3FN);
        assert_eq!([464.0, 465.0, 1e4, f32::INFINITY].map(e4m3), [448.0; 4]);
        let e5m2 = |x: f32| round(x, F8E5M2);
        assert_eq!([61439.0, 61440.0].map(e5m2), [57344.0, f32::INFINITY]);
        assert!([248.0, f32::INFINITY].iter().all(|x| round(*x, F8E4M3FNUZ).is_nan()));
        assert_eq!(encode(-1e-9, F8E4M3FNUZ), 0);
        assert_eq!([7.0, -9.0, f32::INFINITY].map(|x| round(x, F4E2M1FN)), [6.0, -6.0, 6.0]);
        // every f32 between two neighbours in steps, against a search
        for dtype in WITH_MANTISSA {
            let codes: Vec<f32> = (0..=format(dtype).most).map(|c| decode(c, dtype)).collect();
            for i in 0..200_000u32 {
                let x = f32::from_bits((i.wrapping_mul(21_473) & 0x4780_0000) | (i.wrapping_mul(5_119) & 0x7f_ffff));
                if x > decode(format(dtype).most, dtype) {
                    continue;
                }
                let got = round(x, dtype);
                let best = codes.iter().map(|c| (f64::from(*c) - f64::from(x)).abs()).fold(f64::INFINITY, f64::min);
                assert_eq!((f64::from(got) - f64::from(x)).abs(), best, "{dtype}: {x} to {got}");
            }
        }
    }

    /// PyTorch 2.15: `torch.tensor(x).to(torch.float8_e8m0fnu)`.
    #[test]
    fn an_exponent_alone_rounds_to_the_nearest_power() {
        let cases = [(1.0, 1.0), (1.5, 2.0), (1.499, 1.0), (3.0, 4.0), (2.5, 2.0), (-2.0, 2.0), (0.0, 2f32.powi(-127))];
        for (x, power) in cases {
            assert_eq!(round(x, F8E8M0FNU), power, "{x}");
        }
        assert!([f32::NAN, f32::INFINITY, 3e38].iter().all(|x| round(*x, F8E8M0FNU).is_nan()));
    }
}
