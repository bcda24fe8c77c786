//! Floats of eight bits: e4m3fn (no infinities, largest 448) and e5m2 (as IEEE, largest 57344).
//!
//! Conversion rounds to nearest, ties to even, subnormals included; NaN stays NaN. A number that is too large becomes
//! the largest e4m3fn, or an infinite e5m2, as in PyTorch 2.15.

use crate::DType;

/// Sign, exponent and mantissa of a format.
struct Format {
    mantissa: u32,
    bias: i32,
    /// The code of the largest finite number, without its sign.
    most: u8,
    /// The code of larger numbers.
    over: u8,
    nan: u8,
}

const E4M3: Format = Format { mantissa: 3, bias: 7, most: 0x7e, over: 0x7e, nan: 0x7f };
const E5M2: Format = Format { mantissa: 2, bias: 15, most: 0x7b, over: 0x7c, nan: 0x7e };

#[inline]
fn format(dtype: DType) -> &'static Format {
    if dtype == DType::F8E5M2 { &E5M2 } else { &E4M3 }
}

/// The code of the nearest number.
#[inline]
pub fn encode(x: f32, dtype: DType) -> u8 {
    encode_as(x, format(dtype))
}

#[inline(always)]
fn encode_as(x: f32, f: &Format) -> u8 {
    let bits = x.to_bits();
    let sign = (bits >> 24 & 0x80) as u8;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return sign | f.nan;
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
        let unit = f32::from_bits(((least - 1 + 1) as u32) << 23) / (1u32 << f.mantissa) as f32;
        let steps = f32::from_bits(magnitude) / unit;
        ((steps + 8_388_608.0) - 8_388_608.0) as u32
    };
    sign | if code > u32::from(f.most) { f.over } else { code as u8 }
}

/// The number of a code.
pub fn decode(code: u8, dtype: DType) -> f32 {
    let f = format(dtype);
    let magnitude = code & 0x7f;
    let value = if magnitude > f.most {
        if magnitude == 0x7c && dtype == DType::F8E5M2 { f32::INFINITY } else { f32::NAN }
    } else {
        let exponent = i32::from(magnitude >> f.mantissa);
        let mantissa = f32::from(magnitude & ((1 << f.mantissa) - 1)) / (1u32 << f.mantissa) as f32;
        match exponent {
            0 => mantissa * 2f32.powi(1 - f.bias),
            e => (1.0 + mantissa) * 2f32.powi(e - f.bias),
        }
    };
    if code & 0x80 != 0 { -value } else { value }
}

/// The number rounded to the format.
pub fn round(x: f32, dtype: DType) -> f32 {
    decode(encode(x, dtype), dtype)
}

/// The numbers of all codes.
pub fn table(dtype: DType) -> [f32; 256] {
    std::array::from_fn(|code| decode(code as u8, dtype))
}

#[cfg(test)]
mod tests {
    use super::*;
    use DType::{F8E4M3FN, F8E5M2};

    #[test]
    fn every_code_is_its_own_number() {
        for dtype in [F8E4M3FN, F8E5M2] {
            for code in 0..=255u8 {
                let x = decode(code, dtype);
                match x.is_nan() {
                    true => assert!(decode(encode(x, dtype), dtype).is_nan()),
                    // e4m3fn has no infinity, so an infinite number does not occur.
                    false => assert_eq!(encode(x, dtype), code, "{dtype} {code:#x} {x}"),
                }
            }
        }
        assert_eq!((decode(126, F8E4M3FN), decode(1, F8E4M3FN)), (448.0, 2f32.powi(-9)));
        assert_eq!((decode(0x7b, F8E5M2), decode(1, F8E5M2)), (57344.0, 2f32.powi(-16)));
        assert!(decode(0x7f, F8E4M3FN).is_nan() && decode(0x7c, F8E5M2).is_infinite());
    }

    #[test]
    fn between_codes_the_nearest_is_taken_ties_to_even() {
        for dtype in [F8E4M3FN, F8E5M2] {
            let most = format(dtype).most;
            for code in 0..most {
                let (a, b) = (decode(code, dtype), decode(code + 1, dtype));
                let middle = (f64::from(a) + f64::from(b)) as f32 / 2.0;
                let even = if code % 2 == 0 { code } else { code + 1 };
                assert_eq!(encode(middle, dtype), even, "{dtype}: {middle}");
                assert_eq!(encode(middle.next_down(), dtype), code, "{dtype}: below {middle}");
                assert_eq!(encode(middle.next_up(), dtype), code + 1, "{dtype}: above {middle}");
                assert_eq!(encode(-middle.next_up(), dtype), 0x80 | (code + 1));
            }
        }
        let e4m3 = |x: f32| round(x, F8E4M3FN);
        assert_eq!([464.0, 465.0, 1e4, f32::INFINITY].map(e4m3), [448.0; 4]);
        let e5m2 = |x: f32| round(x, F8E5M2);
        assert_eq!([61439.0, 61440.0].map(e5m2), [57344.0, f32::INFINITY]);
        // every f32 between two neighbours in steps, against a search
        for dtype in [F8E4M3FN, F8E5M2] {
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
}
