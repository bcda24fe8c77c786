//! Convolutions of many shapes and their gradients, compared with the oracle.

use super::*;

/// The sizes of a convolution, of one spatial axis or more.
struct Sizes {
    batch: usize,
    groups: usize,
    /// The channels of a group before and after.
    channels: (usize, usize),
    /// Sizes, kernels, paddings, strides and dilations.
    axes: Vec<[usize; 5]>,
}

impl Sizes {
    /// One of many.
    fn draw(seed: u64) -> Sizes {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
        let mut below = |n: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % n
        };
        let axes = 1 + below(3);
        let channels = match below(3) {
            0 => (1, 1),
            1 => (1 + below(3), 1 + below(5)),
            _ => (1 + below(9), 1 + below(18)),
        };
        // a vector's channels and more, each apart
        let groups = if channels == (1, 1) { [1, 3, 17, 35] } else { [1, 1, 2, 5] }[below(4)];
        let batch = [1, 1, 2, 3][below(4)];
        let most = [0, 60, 14, 6][axes];
        let axis = |below: &mut dyn FnMut(usize) -> usize| {
            let (kernel, stride, dilation) = (1 + below(5), 1 + below(3), 1 + below(2) * below(3));
            let reach = dilation * (kernel - 1) + 1;
            let padding = below(reach.min(4));
            let size = reach.saturating_sub(2 * padding).max(1) + below(most);
            [size, kernel, padding, stride, dilation]
        };
        Sizes { batch, groups, channels, axes: (0..axes).map(|_| axis(&mut below)).collect() }
    }

    /// A list of one number for each axis.
    fn each(&self, f: impl Fn(&[usize; 5]) -> usize) -> String {
        self.axes.iter().map(|a| f(a).to_string()).collect::<Vec<_>>().join(", ")
    }

    /// Programs of the gradients of the input and of the weight, and of the convolution.
    fn programs(&self) -> [String; 3] {
        let Sizes { batch: b, groups: g, channels: (ci, co), .. } = self;
        let (before, after) = (g * ci, g * co);
        let (n, k) = (self.each(|a| a[0]), self.each(|a| a[1]));
        let o = self.each(|a| (a[0] + 2 * a[2] - a[4] * (a[1] - 1) - 1) / a[3] + 1);
        let (p, s, d) = (self.each(|a| a[2]), self.each(|a| a[3]), self.each(|a| a[4]));
        let settings = format!("padding = [{p}], stride = [{s}], dilation = [{d}], groups = {g}");
        let (x, w) = (format!("f32[{b}, {before}, {n}]"), format!("f32[{after}, {ci}, {k}]"));
        let gradient = format!("f32[{b}, {after}, {o}]");
        [
            format!(
                "fn f(w: {w}, d: {gradient}, x: {x}) {{ dx: {x} = conv_grouped.vjp.x(x, w, d, {settings}) return dx }}"
            ),
            format!(
                "fn f(x: {x}, d: {gradient}, w: {w}) {{ dw: {w} = conv_grouped.vjp.w(x, w, d, {settings}) return dw }}"
            ),
            format!("fn f(x: {x}, w: {w}) {{ y: {gradient} = conv_grouped(x, w, {settings}) return y }}"),
        ]
    }
}

#[test]
fn gradients_of_convolutions_are_those_of_the_oracle() {
    for seed in 0..80 {
        Sizes::draw(seed).programs().iter().for_each(|program| {
            agree(program);
        });
    }
}

/// Inputs of which one number has these bits.
fn with_bits(trace: &Trace, input: usize, place: usize, bits: u32) -> Vec<Buffer> {
    let mut inputs = inputs(trace);
    let mut bytes = inputs[input].as_bytes().to_vec();
    let place = place % (bytes.len() / 4);
    bytes[place * 4..place * 4 + 4].copy_from_slice(&bits.to_le_bytes());
    inputs[input] = Buffer::from_bytes(DType::F32, inputs[input].shape(), &bytes).unwrap();
    inputs
}

#[test]
fn gradients_meet_only_the_numbers_of_their_terms() {
    for seed in 200..240 {
        for program in Sizes::draw(seed).programs() {
            let trace = parse(&program);
            let oracle = compile_with(&trace, vec![Arc::new(interp::Interp)], 1).unwrap();
            for (at, bits) in [0x7fc0_0000_u32, 0x7f80_0000].into_iter().enumerate() {
                for input in 0..2 {
                    let inputs = with_bits(&trace, input, seed as usize * 7 + at, bits);
                    let got = cpu(&trace, 2).run(&inputs).unwrap()[0].to_f64();
                    let want = oracle.run(&inputs).unwrap()[0].to_f64();
                    for (k, (x, y)) in got.iter().zip(&want).enumerate() {
                        let same = x == y || x.is_nan() && y.is_nan();
                        assert!(
                            same || (x - y).abs() <= 2e-5 * (1.0 + y.abs()),
                            "element {k}: {x}, not {y}\n{program}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn channels_of_narrow_planes_are_summed_side_by_side() {
    if Level::current() == Level::Baseline {
        return;
    }
    for [size, kernel, padding, stride, dilation] in
        [[7, 5, 2, 1, 1], [14, 3, 1, 2, 1], [9, 3, 2, 1, 2], [8, 3, 0, 1, 1], [11, 5, 2, 2, 1]]
    {
        for groups in [16, 37] {
            let axes = vec![[size, kernel, padding, stride, dilation], [size + 2, kernel, padding, stride, dilation]];
            let [_, _, program] = Sizes { batch: 2, groups, channels: (1, 1), axes }.programs();
            let steps = agree(&program).describe().to_string();
            assert!(steps.contains("side by side"), "{program}\n{steps}");
        }
    }
}

#[test]
fn gradients_are_products_over_windows() {
    if Level::current() == Level::Baseline {
        return;
    }
    // each channel apart, dense, and in groups, with a stride and without
    for (groups, channels) in [(6, (1, 1)), (1, (5, 7)), (2, (4, 4))] {
        for stride in [1, 2] {
            let sizes = Sizes { batch: 1, groups, channels, axes: vec![[14, 3, 1, stride, 1]; 2] };
            let [dx, dw, y] = sizes.programs();
            let steps = agree(&dw).describe().to_string();
            assert!(steps.contains("over places"), "{steps}");
            let steps = agree(&y).describe().to_string();
            assert!(steps.contains("over windows"), "{steps}");
            // a dense product whose windows meet is added up afterwards
            let way = if stride == 1 || channels.1 == 1 { "over windows" } else { "windows added" };
            let steps = agree(&dx).describe().to_string();
            assert!(steps.contains(way), "{steps}");
        }
    }
}

/// Convolutions that [`fulgurite_kernels::winograd`] computes: sizes that are odd, paddings, several images, and rows that
/// are no multiple of a tile's.
fn of_many_channels() -> Vec<Sizes> {
    [(1, (48, 40), [14, 15], 1), (2, (40, 48), [14, 18], 0), (1, (56, 41), [12, 21], 2)]
        .into_iter()
        .map(|(batch, channels, sizes, padding)| Sizes {
            batch,
            groups: 1,
            channels,
            axes: sizes.iter().map(|n| [*n, 3, padding, 1, 1]).collect(),
        })
        .collect()
}

/// Compares a program with the oracle on these inputs: the error is a share of the largest result.
fn close(program: &str, inputs: &[Buffer]) -> String {
    let trace = parse(program);
    let compiled = cpu(&trace, 2);
    let got = compiled.run(inputs).unwrap()[0].to_f64();
    let want = compile_with(&trace, vec![Arc::new(interp::Interp)], 1).unwrap().run(inputs).unwrap()[0].to_f64();
    let largest = want.iter().filter(|y| y.is_finite()).fold(0.0, |most: f64, y| most.max(y.abs()));
    for (k, (x, y)) in got.iter().zip(&want).enumerate() {
        let same = x == y || x.is_nan() && y.is_nan();
        assert!(same || (x - y).abs() <= 1e-5 * largest, "element {k}: {x}, not {y}\n{program}");
    }
    compiled.describe().to_string()
}

#[test]
fn convolutions_of_many_channels_are_products_of_transformed_patches() {
    if Level::current() == Level::Baseline {
        return;
    }
    for sizes in of_many_channels() {
        // the windows of the gradient of the input are walked backwards
        let [dx, _, y] = sizes.programs();
        for program in [y, dx] {
            let steps = close(&program, &inputs(&parse(&program)));
            assert!(steps.contains("Winograd"), "{program}\n{steps}");
        }
    }
    // windows that are two apart, wider than three, or with gaps have no such form
    for (kernel, stride, dilation) in [(3, 2, 1), (5, 1, 1), (3, 1, 2)] {
        let axes = vec![[20, kernel, 1, stride, dilation]; 2];
        let [_, _, y] = Sizes { batch: 1, groups: 1, channels: (48, 40), axes }.programs();
        let steps = close(&y, &inputs(&parse(&y)));
        assert!(!steps.contains("Winograd"), "{steps}");
    }
}

/// Elements that a window does not have leave no trace in its result, however large they are.
#[test]
fn transformed_patches_meet_only_the_numbers_of_their_windows() {
    let [dx, _, y] = of_many_channels()[0].programs();
    for (n, program) in [y, dx].into_iter().enumerate() {
        let trace = parse(&program);
        // two transformed elements are sums of large ones, which overflow; the sum of products does not
        for (at, bits) in [0x7fc0_0000_u32, 0x7f80_0000, 0x7f7f_ffff].into_iter().enumerate() {
            close(&program, &with_bits(&trace, n, 1000 + 77 * at, bits));
        }
    }
}

/// The weights of the only large element are zero, so no result has it; its patch would be rounded to nothing.
#[test]
fn patches_whose_large_elements_have_no_weight_are_computed_without_transforms() {
    let [_, _, y] = of_many_channels()[0].programs();
    let trace = parse(&y);
    let mut all = with_bits(&trace, 0, 5 * 14 * 15 + 7 * 15 + 9, 1e12f32.to_bits());
    let mut weights = all[1].to_f64();
    // channel 5 of 48, nine weights for each of 40 rows
    for row in 0..40 {
        weights[(row * 48 + 5) * 9..][..9].fill(0.0);
    }
    let bytes: Vec<u8> = weights.iter().flat_map(|w| (*w as f32).to_le_bytes()).collect();
    all[1] = Buffer::from_bytes(DType::F32, all[1].shape(), &bytes).unwrap();
    close(&y, &all);
}
