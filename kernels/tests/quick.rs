//! Kernels with a short form give the bits of the long one, and kernels of variant `by` give the bits of two tiles.

mod common;

use common::{Lcg, entry, forms, run};
use fulgurite_core::DType;

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect()
}

/// `n` floats: any bits, or those with exponents within ±`most`, and signed zeros between.
fn floats(random: &mut Lcg, n: usize, most: Option<u32>) -> Vec<f32> {
    let one = |random: &mut Lcg| {
        let x = random.next();
        match most {
            None => f32::from_bits(x),
            Some(_) if x.is_multiple_of(31) => f32::from_bits(x & 0x8000_0000),
            Some(most) => f32::from_bits(x & 0x807F_FFFF | (127 - most + x.rotate_left(9) % (2 * most)) << 23),
        }
    };
    (0..n).map(|_| one(random)).collect()
}

#[test]
fn one_number_for_all_elements_is_a_tile_of_it() {
    let mut random = Lcg(7);
    for name in ["add", "sub", "mul", "div"] {
        for (at, n) in [1, 31, 32, 33, 255, 256, 1000, 1024].into_iter().cycle().take(4000).enumerate() {
            let most = [None, Some(29), Some(89), Some(100)][at % 4];
            let x = floats(&mut random, n, most);
            let y = if at % 7 == 0 { 0.0 } else { floats(&mut random, 1, [None, Some(29), Some(31)][at % 3])[0] };
            let two = entry(&format!("builtin.{name}"), "", DType::F32).baseline;
            let expected: Vec<f32> = run(two, n, &[&x, &vec![y; n]], &[]);
            for (level, f) in forms(entry(&format!("builtin.{name}"), "by", DType::F32)) {
                let got: Vec<f32> = run(f, n, &[&x, &[y]], &[]);
                assert_eq!(bits(&got), bits(&expected), "{name} {level:?} by {y:e}");
            }
        }
    }
}

#[test]
fn quotients_are_rounded_once() {
    // Every mantissa of the dividend, with divisors at the ends of the mantissas and between.
    let mut random = Lcg(11);
    let ends = [0, 1, 2, 0x7F_FFFF, 0x7F_FFFE, 0x40_0000, 0x35_04F3, 0x35_04F4].map(|m| f32::from_bits(127 << 23 | m));
    let divisors: Vec<f32> = ends.into_iter().chain(floats(&mut random, 24, Some(29))).filter(|d| *d != 0.0).collect();
    let x: Vec<f32> = (0..1 << 23).map(|m| f32::from_bits(127 << 23 | m)).collect();
    for (level, f) in forms(entry("builtin.div", "by", DType::F32)) {
        for d in &divisors {
            let got: Vec<f32> = run(f, x.len(), &[&x, &[*d]], &[]);
            let wrong = x.iter().zip(&got).find(|(x, got)| (**x / d).to_bits() != got.to_bits());
            assert_eq!(wrong, None, "{level:?} by {d:e}");
        }
    }
}

#[test]
fn exponentials_do_not_depend_on_their_neighbours() {
    let mut random = Lcg(3);
    for _ in 0..500 {
        let x: Vec<f32> = (0..256).map(|_| (random.next() as f32 / u32::MAX as f32 - 0.5) * 173.0).collect();
        for (level, f) in forms(entry("builtin.exp", "", DType::F32)) {
            let alone: Vec<f32> = run(f, 256, &[&x], &[]);
            for other in [f32::NEG_INFINITY, f32::NAN, 100.0, -100.0] {
                let beside: Vec<f32> = run(f, 257, &[&[x.as_slice(), &[other]].concat()], &[]);
                assert_eq!(bits(&alone), bits(&beside[..256]), "{level:?} beside {other}");
            }
        }
    }
}
