//! Kernels of tensors with more than 2^31 elements: their texts are made, without memory for the tensors.

use super::golden::{Arg, kernels};
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
    (
        "sum",
        &[Tensor(F32, &[4, NEAR / 4]), Ints(&[0]), Bool(false)],
        &[Tensor(F32, &[4, FAR]), Ints(&[0]), Bool(false)],
    ),
    (
        "sum",
        &[Tensor(F32, &[4, NEAR / 4]), Ints(&[1]), Bool(false)],
        &[Tensor(F32, &[4, FAR]), Ints(&[1]), Bool(false)],
    ),
    ("argmax", &[Tensor(F32, &[2, NEAR / 2]), Int(1), Bool(false)], &[Tensor(F32, &[2, FAR]), Int(1), Bool(false)]),
    (
        "gather",
        &[Tensor(F32, &[1000, 64]), Tensor(I64, &[32, 64]), Int(0)],
        &[Tensor(F32, &[FAR, 64]), Tensor(I64, &[32, 64]), Int(0)],
    ),
    (
        "scatter_add",
        &[Tensor(F32, &[1000, 64]), Tensor(I64, &[32, 64]), Tensor(F32, &[32, 64]), Int(0)],
        &[Tensor(F32, &[FAR, 64]), Tensor(I64, &[32, 64]), Tensor(F32, &[32, 64]), Int(0)],
    ),
    (
        "matmul",
        &[Tensor(BF16, &[512, 64]), Tensor(BF16, &[64, 384])],
        &[Tensor(BF16, &[FAR, 64]), Tensor(BF16, &[64, 384])],
    ),
];

/// The loops and indices of 32 bits that a text declares, but for those within a pack, a tile, a warp or a block.
fn narrow(text: &str) -> Vec<&str> {
    let within = ["thread", "lane", "k = 0; k <", "part = ", "t = 0; t <", "i = 0; i < 4", "j = 0; j < 4", "warp"];
    let bounded = ["i = thread", "j = thread", "int own", "int next", "int loaded", "int most", "int from"];
    let declares = |line: &&str| line.contains("const int ") || line.contains("for (int ");
    let large = |line: &&str| !within.iter().chain(&bounded).any(|small| line.contains(small));
    text.lines().map(str::trim).filter(declares).filter(large).collect()
}

/// Large tensors have indices of 64 bits everywhere, and small ones of 32.
pub fn check() -> Result<(), Failed> {
    let mut wrong = Vec::new();
    for (op, near, far) in CALLS {
        let (near, far) = (kernels(op, near)?, kernels(op, far)?);
        if narrow(&near).is_empty() {
            wrong.push(format!("{op}: small tensors have indices of 64 bits, which are slow:\n{near}"));
        }
        for line in narrow(&far) {
            wrong.push(format!("{op}: `{line}` has 32 bits in\n{far}"));
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n").into()),
    }
}
