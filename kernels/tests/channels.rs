//! Sums over windows of several channels equal their definition, on every instruction set of this CPU.

#![allow(missing_docs)]

use fulgurite_kernels::abi::Level;
use fulgurite_kernels::channels::{ChannelPlanes, LANES, window_sums};

#[test]
fn sums_of_channels_equal_their_definition() {
    for level in Level::ALL.into_iter().filter(|level| *level <= Level::detect()) {
        let fused = level != Level::Baseline;
        for (windows, steps, terms) in [((7, 7), (1, 1), (5, 5)), ((3, 17), (2, 2), (3, 3)), ((1, 1), (1, 1), (2, 4))] {
            let columns = (windows.1 - 1) * steps.1 + terms.1 + 2;
            let rows = (windows.0 - 1) * steps.0 + terms.0;
            let from: Vec<f32> = (0..rows * columns * LANES).map(|i| (i * 37 % 101) as f32 / 8.0 - 6.0).collect();
            let factors: Vec<f32> = (0..terms.0 * terms.1 * LANES).map(|i| (i * 13 % 97) as f32 / 7.0 - 5.0).collect();
            let places: Vec<u32> =
                (0..terms.0 * terms.1).map(|t| (((t / terms.1) * columns + t % terms.1) * LANES) as u32).collect();
            let mut to = vec![f32::NAN; windows.0 * windows.1 * LANES + 3];
            let planes = ChannelPlanes {
                from: from.as_ptr(),
                steps: (steps.0 * columns * LANES, steps.1 * LANES),
                terms: &places,
                factors: factors.as_ptr(),
                to: to.as_mut_ptr(),
                windows,
            };
            // SAFETY: the planes have the terms of all windows, and the sums have room.
            unsafe { window_sums::pick(level)(&planes) };
            let (sums, behind) = to.split_at(windows.0 * windows.1 * LANES);
            for (i, sum) in sums.iter().enumerate() {
                let (window, channel) = (i / LANES, i % LANES);
                let (row, column) = (window / windows.1 * steps.0, window % windows.1 * steps.1);
                let wanted = places.iter().enumerate().fold(0.0f32, |sum, (term, place)| {
                    let x = from[(row * columns + column) * LANES + *place as usize + channel];
                    let factor = factors[term * LANES + channel];
                    if fused { factor.mul_add(x, sum) } else { factor * x + sum }
                });
                assert_eq!(*sum, wanted, "{level:?} {windows:?} {steps:?} {terms:?}: {i}");
            }
            assert!(behind.iter().all(|x| x.is_nan()), "written behind the sums");
        }
    }
}
