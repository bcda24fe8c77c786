//! Tensors with more than 2^32 elements, of which programs read a few. Their memory is mapped and hardly touched, so
//! the tests need addresses rather than memory.

use super::*;

/// The columns of a matrix with three rows, so that the third row begins at element 2^32.
const COLUMNS: usize = 1 << 31;

/// The number at a place.
fn number(flat: usize) -> u8 {
    (flat % 251) as u8 / 4
}

/// A tensor that has its numbers at these places and in their neighbourhood.
fn far(dtype: DType, shape: &[usize], places: &[usize]) -> Option<Buffer> {
    let mut buffer = Buffer::stale(dtype, shape).ok()?;
    let mut tensor = TensorMut::of(&mut buffer).ok()?;
    let (bytes, size) = (tensor.bytes_mut(), dtype.size());
    for &place in places {
        match dtype {
            DType::U8 => bytes[place] = number(place),
            // the upper half of an f32
            _ => bytes[place * size..][..size].copy_from_slice(&f32::from(number(place)).to_le_bytes()[2..]),
        }
    }
    Some(buffer)
}

/// Runs a program whose first input is a large tensor, and compares the sums of these of its elements with the result.
fn reads(text: &str, more: &[Buffer], results: &[Vec<usize>]) {
    let trace = parse(text);
    let x = trace.input_proxies().next().unwrap();
    let (dtype, shape) = line::stored(&trace.ty(x));
    let Some(x) = far(dtype, &shape, &results.concat()) else {
        eprintln!("skipped: there are no addresses for {dtype}{shape:?}");
        return;
    };
    let inputs: Vec<Buffer> = std::iter::once(x).chain(more.iter().cloned()).collect();
    let want: Vec<f64> = results.iter().map(|places| places.iter().map(|p| f64::from(number(*p))).sum()).collect();
    for threads in [1, 2] {
        let made = cpu(&trace, threads).run(&inputs).unwrap_or_else(|e| panic!("{text}\n{e}"));
        assert_eq!(made[0].to_f64(), want, "{text}");
    }
}

/// One element for each result.
fn each(places: impl IntoIterator<Item = usize>) -> Vec<Vec<usize>> {
    places.into_iter().map(|place| vec![place]).collect()
}

#[test]
fn views_reach_elements_behind_the_first_four_thousand_million() {
    let last = |rows: [usize; 3], columns: [usize; 4]| {
        rows.map(|row| columns.map(|column| row * COLUMNS + COLUMNS - 4 + column)).concat()
    };
    let plain = last([0, 1, 2], [0, 1, 2, 3]);
    let sliced = "s: u8[3, 4] = slice(x, dim = 1, lo = 2147483644, hi = 2147483648, step = 1)";
    reads(
        &format!("fn f(x: u8[3, 2147483648]) {{ {sliced} y: u8[3, 4] = mul(s, 1) return y }}"),
        &[],
        &each(plain.clone()),
    );
    let flipped = last([2, 1, 0], [3, 2, 1, 0]);
    reads(
        &format!("fn f(x: u8[3, 2147483648]) {{ {sliced} y: u8[3, 4] = flip(s, dims = [0, 1]) return y }}"),
        &[],
        &each(flipped),
    );
    reads(
        "fn f(x: u8[3, 2147483648]) {
           s: u8[3, 3] = slice(x, dim = 1, lo = 7, hi = 2147483648, step = 715827882)
           y: u8[3, 3] = mul(s, 1)
           return y
         }",
        &[],
        &each((0..3).flat_map(|row| (0..3).map(move |column| row * COLUMNS + 7 + column * 715_827_882))),
    );
    reads(
        "fn f(x: u8[3, 2147483648]) {
           t: u8[2147483648, 3] = transpose(x, a = 0, b = 1)
           s: u8[4, 3] = slice(t, dim = 0, lo = 2147483644, hi = 2147483648, step = 1)
           y: u8[4, 3] = mul(s, 1)
           return y
         }",
        &[],
        &each((0..4).flat_map(|column| (0..3).map(move |row| row * COLUMNS + COLUMNS - 4 + column))),
    );
    reads(
        "fn f(x: u8[3, 2147483648]) {
           r: u8[6442450944] = reshape(x, shape = [6442450944])
           s: u8[4] = slice(r, dim = 0, lo = 6442450940, hi = 6442450944, step = 1)
           y: u8[4] = mul(s, 1)
           return y
         }",
        &[],
        &each(3 * COLUMNS - 4..3 * COLUMNS),
    );
    reads(
        "fn f(x: u8[3, 2147483648]) { y: u8[3, 4] = pad(x, lo = [0, -2147483644], hi = [0, 0]) return y }",
        &[],
        &each(plain),
    );
}

#[test]
fn reductions_and_products_reach_them() {
    reads(
        "fn f(x: u8[3, 2147483648]) {
           s: u8[3, 100] = slice(x, dim = 1, lo = 2147483548, hi = 2147483648, step = 1)
           y: i64[3] = sum(s, dims = [1])
           return y
         }",
        &[],
        &[0, 1, 2].map(|row| (0..100).map(|column| row * COLUMNS + COLUMNS - 100 + column).collect()),
    );
    let ones =
        Buffer::from_numbers(DType::BF16, &[4, 1], [1.0; 4].into_iter().map(fulgurite_core::Scalar::Float)).unwrap();
    reads(
        "fn f(x: bf16[3, 1073741888], w: bf16[4, 1]) {
           s: bf16[3, 4] = slice(x, dim = 1, lo = 1073741884, hi = 1073741888, step = 1)
           y: bf16[3, 1] = matmul(s, w)
           return y
         }",
        &[ones],
        &[0, 1, 2].map(|row| (0..4).map(|column| row * 1_073_741_888 + 1_073_741_884 + column).collect()),
    );
}

#[test]
fn index_tensors_reach_them() {
    let rows = Buffer::from_slice(&[2_147_483_647i64, 5, 1_431_655_766], &[3]).unwrap();
    reads(
        "fn f(w: u8[2147483648, 3], rows: i64[3]) { y: u8[3, 3] = embedding(w, rows) return y }",
        &[rows],
        &each([2_147_483_647, 5, 1_431_655_766].into_iter().flat_map(|row| (0..3).map(move |i| row * 3 + i))),
    );
}
