//! Detects elements that a step failed to write, in debug builds.
//!
//! Before a step runs, the storages that it is the first to write are filled with a pattern. An
//! element that still has the pattern when the step is done was probably not written. A number that
//! was written may have these bits by chance, so the step then runs again over another pattern. An
//! element that has the first pattern after the first run and the other pattern after the second
//! was not written.

use fulgurite_core::DType;

/// The two patterns of an element, one for each run: signalling NaNs for floats, which no arithmetic gives, bytes that
/// no bool has, and numbers that are neither small nor round for integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    /// The bytes of eight elements of one byte, of four of two bytes, and so on.
    word: u64,
    /// The bytes of one element.
    unit: usize,
    /// Whether a written element never has these bits.
    pub certain: bool,
}

impl Pattern {
    /// The pattern of a dtype for the first run of a step, or for the second.
    pub fn of(dtype: DType, second: bool) -> Pattern {
        let one = u64::from(second);
        let (number, unit, certain) = match dtype {
            DType::F64 | DType::C128 => (0x7FF5_A5A5_A5A5_A5A5 ^ one, 8, true),
            DType::F32 | DType::C64 => (0x7FA5_A5A5 ^ one, 4, true),
            DType::F16 => (0x7D5A ^ one, 2, false),
            DType::BF16 => (0x7FA5 ^ one, 2, false),
            DType::Bool => (0xA5 ^ one, 1, true),
            other => {
                let unit = other.size();
                ((0xA5A5_A5A5_A5A5_A5A5 >> (64 - 8 * unit)) ^ one, unit, false)
            }
        };
        let mut word = number;
        for bits in [8, 16, 32] {
            if bits >= 8 * unit {
                word |= word << bits;
            }
        }
        Pattern { word, unit, certain }
    }

    /// Fills memory with the pattern.
    pub fn fill(self, bytes: &mut [u8]) {
        let (words, rest) = bytes.as_chunks_mut::<8>();
        words.fill(self.word.to_le_bytes());
        rest.copy_from_slice(&self.word.to_le_bytes()[..rest.len()]);
    }

    /// The first element that has the pattern.
    pub fn first(self, bytes: &[u8]) -> Option<usize> {
        let (words, rest) = bytes.as_chunks::<8>();
        // the lowest bit of each element
        let ones = (0..8 / self.unit).fold(0u64, |all, at| all | 1 << (8 * self.unit * at));
        let highest = ones << (8 * self.unit - 1);
        // Whether some element of the difference is zero: subtracting 1 borrows there. A false alarm above such an
        // element is no harm, because the elements of the word are compared then.
        let has = |word: &[u8; 8]| {
            let different = u64::from_le_bytes(*word) ^ self.word;
            different.wrapping_sub(ones) & !different & highest != 0
        };
        let pattern = &self.word.to_le_bytes()[..self.unit];
        let at = words.iter().position(has);
        let elements = |bytes: &[u8]| bytes.chunks_exact(self.unit).position(|element| element == pattern);
        match at {
            Some(word) => elements(&words[word]).map(|at| at + word * 8 / self.unit),
            None => elements(rest).map(|at| at + words.len() * 8 / self.unit),
        }
    }
}

/// The first element that had the pattern of the first run after it, and has that of the second run now.
pub(super) fn unwritten(dtype: DType, before: &[u8], now: &[u8]) -> Option<usize> {
    let (first, second) = (Pattern::of(dtype, false), Pattern::of(dtype, true));
    let (first, second, unit) = (first.word.to_le_bytes(), second.word.to_le_bytes(), first.unit);
    let mut elements = before.chunks_exact(unit).zip(now.chunks_exact(unit));
    elements.position(|(before, now)| *before == first[..unit] && *now == second[..unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_that_was_not_written_is_found_in_every_dtype() {
        let dtypes = [DType::Bool, DType::U8, DType::F16, DType::BF16, DType::I16, DType::F32, DType::I32, DType::F64];
        for dtype in dtypes.into_iter().chain([DType::I64, DType::C64, DType::C128, DType::F8E4M3FN]) {
            let (first, second) = (Pattern::of(dtype, false), Pattern::of(dtype, true));
            assert_ne!(first.word, second.word, "{dtype}");
            for elements in [1, 3, 8, 17] {
                for missing in 0..elements {
                    let mut bytes = vec![0; elements * first.unit];
                    assert_eq!(first.first(&bytes), None, "{dtype}");
                    first.fill(&mut bytes);
                    assert_eq!((first.first(&bytes), second.first(&bytes)), (Some(0), None), "{dtype}");
                    for (at, element) in bytes.chunks_exact_mut(first.unit).enumerate() {
                        if at != missing {
                            element.fill(1);
                        }
                    }
                    assert_eq!(first.first(&bytes), Some(missing), "{dtype}");
                }
            }
        }
    }

    #[test]
    fn the_patterns_of_floats_are_signalling_nans() {
        for second in [false, true] {
            let float = f32::from_bits(Pattern::of(DType::F32, second).word as u32);
            let double = f64::from_bits(Pattern::of(DType::F64, second).word);
            assert!(float.is_nan() && float.to_bits() & 1 << 22 == 0);
            assert!(double.is_nan() && double.to_bits() & 1 << 51 == 0);
        }
    }
}
