//! Kernels of tensors with more than 2^31 elements: their texts are made, without memory for the tensors.

use super::golden::{Arg, kernels};
use fulgurite::executors::cuda::Kernels;
use fulgurite_core::DType;
use libtest_mimic::Failed;

use Arg::{Bool, Int, Ints, Tensor};
use DType::{BF16, F32, I64, U8};

/// More elements than 32 bits can count, with a sign or without.
const FAR: usize = (1 << 32) + 256;
/// The most elements that indices of 32 bits reach; half of what they hold, so that a step behind the end fits too.
const NEAR: usize = 1 << 29;

/// Rows with their arguments, small enough for indices of 32 bits and too large for them.
const CALLS: &[(&str, &[Arg], &[Arg])] = &[
    ("exp", &[Tensor(F32, &[NEAR])], &[Tensor(F32, &[FAR])]),
    ("add", &[Tensor(U8, &[NEAR]), Tensor(U8, &[1])], &[Tensor(U8, &[FAR]), Tensor(U8, &[1])]),
    ("sum", &[Tensor(F32, &[4, 1 << 20]), Ints(&[0]), Bool(false)], &[Tensor(F32, &[4, FAR]), Ints(&[0]), Bool(false)]),
    (
        "sum",
        &[Tensor(F32, &[4, NEAR / 4]), Ints(&[1]), Bool(false)],
        &[Tensor(F32, &[4, FAR]), Ints(&[1]), Bool(false)],
    ),
    ("argmax", &[Tensor(F32, &[2, NEAR / 2]), Int(1), Bool(false)], &[Tensor(F32, &[2, FAR]), Int(1), Bool(false)]),
    (
        "gather",
        &[Tensor(F32, &[1000, 64]), Tensor(I64, &[32, 64]), Int(0)],
        &[Tensor(F32, &[1000, 64]), Tensor(I64, &[FAR / 32, 64]), Int(0)],
    ),
    (
        "scatter_add",
        &[Tensor(F32, &[1000, 64]), Tensor(I64, &[32, 64]), Tensor(F32, &[32, 64]), Int(0)],
        &[Tensor(F32, &[1000, 64]), Tensor(I64, &[FAR / 32, 64]), Tensor(F32, &[FAR / 32, 64]), Int(0)],
    ),
    (
        "matmul",
        &[Tensor(BF16, &[512, 64]), Tensor(BF16, &[64, 384])],
        &[Tensor(BF16, &[FAR, 64]), Tensor(BF16, &[64, 384])],
    ),
];

/// The names of numbers within a pack, a tile, a warp, a block or a chain, which are small in every kernel.
const WITHIN: &[&str] =
    &["thread", "row", "col", "lane", "column", "own", "loaded", "most", "from", "i", "j", "t", "warp", "distance"];
/// A loop with a literal end up to this is small.
const SMALL: u64 = 1 << 16;

/// The loops and indices of 32 bits that a text declares, but for those that are small in every kernel.
fn narrow(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| is_narrow(line)).collect()
}

fn is_narrow(line: &str) -> bool {
    let name = |rest: &str| rest.split([' ', '=']).next().unwrap_or_default().to_owned();
    if let Some((_, rest)) = line.split_once("for (int ") {
        let end = rest.split_once(" < ").and_then(|(_, end)| end.split(';').next()?.parse::<u64>().ok());
        return match end {
            Some(end) => end > SMALL,
            None => !WITHIN.contains(&name(rest).as_str()),
        };
    }
    match line.strip_prefix("const int ") {
        Some(rest) => !WITHIN.contains(&name(rest).as_str()) || line.contains("blockIdx") && name(rest) != "own",
        None => false,
    }
}

/// Whether the first line of a kernel, which has the types of its tensors, names one that 32 bits do not count.
fn is_far(kernel: &str) -> bool {
    let types = kernel.lines().find(|line| line.contains("->")).unwrap_or_default();
    types.split('[').skip(1).any(|rest| {
        let sizes = rest.split(']').next().unwrap_or_default().split(", ");
        sizes.filter_map(|size| size.parse::<u64>().ok()).fold(1, u64::saturating_mul) > u64::from(u32::MAX)
    })
}

/// Large tensors have indices of 64 bits everywhere, and small ones of 32.
pub fn check() -> Result<(), Failed> {
    let mut wrong = Vec::new();
    for (op, near, far) in CALLS {
        let (near, far) = (kernels(op, near, Kernels::Specialised)?, kernels(op, far, Kernels::Specialised)?);
        if narrow(&near).is_empty() {
            wrong.push(format!("{op}: small tensors have indices of 64 bits, which are slow:\n{near}"));
        }
        let large: Vec<&str> = far.split("\n// ").filter(|kernel| is_far(kernel)).collect();
        if large.is_empty() {
            wrong.push(format!("{op}: no kernel has a large tensor:\n{far}"));
        }
        for (kernel, line) in large.iter().flat_map(|kernel| narrow(kernel).into_iter().map(move |line| (kernel, line)))
        {
            wrong.push(format!("{op}: `{line}` has 32 bits in\n{kernel}"));
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n").into()),
    }
}
