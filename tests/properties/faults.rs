//! Faults of rows that are known and not mended yet. A listed test must fail: one that holds is taken off the list.

const UNREACHED: &str =
    "an empty list has no dtype, so such a call is refused before the requirement is read, and never with its message";
const WHOLE: &str =
    "the statistics may be integers, to which a mean is cut: a rounding moves it by 1, and ONNX takes floats alone";
const TWICE: &str = "a gradient in f16 or bf16 is rounded once more where the row casts or gathers an argument before it computes wider";
const EMPTY: &str = "the gradient of a row with two edges, which has no filter, reads the edge before the first one";

/// The tests, each with the cause of its failure.
const FAULTS: &[(&str, &str)] = &[
    ("onnx.Sum::p11_refusals", UNREACHED),
    ("onnx.Mean::p11_refusals", UNREACHED),
    ("onnx.Max::p11_refusals", UNREACHED),
    ("onnx.Min::p11_refusals", UNREACHED),
    ("onnx.unsigned_max::p11_refusals", UNREACHED),
    ("onnx.unsigned_min::p11_refusals", UNREACHED),
    ("onnx.BatchNormalization_train::p13_layouts", WHOLE),
    ("onnx.BatchNormalization_train::p14_batches_are_slices", WHOLE),
    ("onnx.Pow::p21_halves_round_once", TWICE),
    ("onnx.rotary_at::p21_halves_round_once", TWICE),
    ("onnx.rotary_heads_at::p21_halves_round_once", TWICE),
    ("onnx.mel_filters::p04_vjp_is_the_derivative", EMPTY),
    ("onnx.mel_filters::p05_jvp_is_the_transpose", EMPTY),
    ("onnx.mel_filters::p08_vjp_is_linear", EMPTY),
    ("onnx.mel_filters::p20_third_derivative", EMPTY),
    (
        "onnx.power_of_two::p14_derivatives_of_batches",
        "the tangent of a result of a storage dtype is refused, because no row fills such a tensor",
    ),
    (
        "onnx.LRN::p20_third_derivative",
        "where alpha is small, differences of the second derivative seem to round more than is measured",
    ),
    (
        "onnx.preview.training.Adam_1::p14_batches_are_slices",
        "with a run-time number for an option, scalars of f32 become f64 in the body",
    ),
];

/// The cause, if the test of this name is known to fail.
pub fn cause(test: &str) -> Option<&'static str> {
    FAULTS.iter().find(|(listed, _)| *listed == test).map(|(_, cause)| *cause)
}

/// The names of the listed tests.
pub fn names() -> impl Iterator<Item = &'static str> {
    FAULTS.iter().map(|(listed, _)| *listed)
}
