//! Rows against values that PyTorch gave; those that ONNX gave are compared in `e2e`, and count here. What a row means is written by us, and nothing can prove that it is what
//! people expect under its name; these values pin it.

use fulgurite::foreign::forms;
use fulgurite_codegen::check::closure;
use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::{DType, Name, signature};
use fulgurite_tests::bridge;
use fulgurite_tests::calls::Call;
use fulgurite_tests::oracle::{self, Operand};
use fulgurite_tests::recorded::{self, Case};
use fulgurite_tests::rows::{TestRow, rows};
use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::{HashMap, HashSet};

/// Rows of which PyTorch has no values to compare: random ones have their own bits.
/// `linear_scan` is the recurrence that gradients of products are, `overwrite` a write without gradients: PyTorch has no
/// operator for either.
const WITHOUT: &[&str] = &[
    "dropout",
    "uniform",
    "randn",
    "randperm",
    "key_children",
    "aten.randn_like",
    "aten.rand_like",
    // a function of the library transformers, which models call; it is compared in them
    "torch.grouped_product",
    "torch.grouped_mm",
    "linear_scan",
    "overwrite",
    "batch_norm_train",
    "cast_sat",
    "cast_ieee",
    "dequantise",
    "matmul_groups",
    "checked",
    "finite",
    "pieces",
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
];
/// Rows of ONNX whose node tests are too long to be recorded, or random: ONNX's whole suite compares them
/// (`compat/models/tests/onnx_suite.py`), where ONNX is installed. A row that is recorded is taken off.
const IN_THE_SUITE: &[&str] = &[
    "onnx.unsigned_lt",
    "onnx.unsigned_le",
    "onnx.unsigned_gt",
    "onnx.unsigned_ge",
    "onnx.PRelu",
    "onnx.Gemm",
    "onnx.Softmax_1",
    "onnx.LogSoftmax_1",
    "onnx.Hardmax_1",
    "onnx.BatchNormalization_fixed",
    "onnx.BatchNormalization_train",
    "onnx.BatchNormalization_7",
    "onnx.LayerNormalization",
    "onnx.RMSNormalization",
    "onnx.MeanVarianceNormalization",
    "onnx.LRN",
    "onnx.Dropout_train",
    "onnx.RandomNormal",
    "onnx.RandomNormalLike",
    "onnx.RandomUniform",
    "onnx.RandomUniformLike",
    "onnx.Bernoulli",
    "onnx.Multinomial",
    "onnx.QLinearConv",
    "onnx.GlobalLpPool",
    "onnx.sample_moved",
    "onnx.ml.Binarizer",
    "onnx.ml.Normalizer",
    "onnx.preview.training.Adam_1",
    "onnx.Flatten",
    "onnx.Transpose",
    "onnx.Squeeze",
    "onnx.Unsqueeze",
    "onnx.Slice",
    "onnx.slice_first",
    "onnx.Pad_2",
    "onnx.CenterCropPad",
    "onnx.turn",
    "onnx.rotary",
    "onnx.rotary_at",
    "onnx.rotary_heads",
    "onnx.rotary_heads_at",
    "onnx.plane_grid",
    "onnx.affine_grid_volume",
    "onnx.roi_places",
    "onnx.roi_parts",
    "onnx.near",
    "onnx.roi_align",
    "onnx.turns",
    "onnx.dft",
    "onnx.STFT",
    "onnx.decayed_state",
    "onnx.linear_attention",
    "onnx.linear_attention_step",
    "onnx.ml.FeatureVectorizer",
    "onnx.preview.FlexAttention",
    "onnx.bin_maxima",
    "onnx.max_roi_pool",
];
/// PyTorch's f64 results carry rounding of their own: some thousand units in the last place where a sum cancels.
const TOLERANCE: f64 = 1e-10;
/// Where PyTorch computes a default float (integers that become floats, `full`), its results have f32 precision.
const TOLERANCE_F32: f64 = 1e-6;

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = vec![Trial::test("every_row_is_recorded", every_row)];
    for case in recorded::cases() {
        match case {
            Ok(case) => {
                let case: &'static Case = Box::leak(Box::new(case));
                trials.push(Trial::test(format!("{}::meaning", case.name), move || meaning(case)));
                trials.push(Trial::test(format!("{}::cpu", case.name), move || cpu(case)));
                if !case.gradients.is_empty() {
                    trials.push(Trial::test(format!("{}::gradient", case.name), move || gradient(case)));
                }
            }
            Err(text) => trials.push(Trial::test(text.clone(), move || Err(Failed::from(text)))),
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn every_row() -> Result<(), Failed> {
    let mut count: HashMap<&str, usize> = HashMap::new();
    let cases: Vec<Case> = recorded::cases().into_iter().flatten().collect();
    cases.iter().for_each(|c| *count.entry(c.row.row.op.as_str()).or_default() += 1);
    // what the samples of other libraries' calls reach, by name, through bodies and through gradients
    let mut reached: HashSet<&str> = HashSet::new();
    let mut open: Vec<&'static str> =
        sampled()?.iter().flat_map(|op| forms(op)).map(|form| form.symbol.name()).collect();
    open.extend(count.keys().filter_map(|n| rows().get(n)).map(|r| r.row.op.as_str()));
    while let Some(name) = open.pop() {
        let fresh = reached.insert(name);
        let row = rows().get(name).filter(|_| fresh);
        let Some(row) = row.map(|row| &row.row) else { continue };
        let rules = row.vjp.iter().chain(&row.jvp).map(|(_, rule)| rule);
        open.extend(closure::called(row).into_iter().chain(closure::text_calls(rules)).map(Name::as_str));
    }
    let known: Vec<&str> = IN_THE_SUITE.iter().copied().filter(|name| reached.contains(name)).collect();
    if !known.is_empty() {
        return Err(format!("these are recorded, take them off the list: {}", known.join(", ")).into());
    }
    let names = rows().source.iter().map(|r| r.row.op.as_str());
    let storage = |n: &str| rows().get(n).is_some_and(TestRow::names_storage);
    let listed = |n: &str| WITHOUT.contains(&n) || IN_THE_SUITE.contains(&n);
    let few: Vec<&str> = names.filter(|n| !listed(n) && !reached.contains(n) && !storage(n)).collect();
    let scripts = "tests/data/make.py or tests/data/onnx/calls.py";
    if few.is_empty() { Ok(()) } else { Err(format!("add cases to {scripts} for {}", few.join(", ")).into()) }
}

/// The operators of the samples of PyTorch's and ONNX's calls, which `e2e` compares.
fn sampled() -> Result<HashSet<String>, Failed> {
    let mut text = String::new();
    for part in ["conformance/", "conformance/model-", "onnx/"] {
        let path = format!("{}/data/{part}cases.jsonl", env!("CARGO_MANIFEST_DIR"));
        text += &std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    }
    let cases = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).map_err(|e| e.to_string()));
    cases.map(|case| Ok(case?["op"].as_str().unwrap_or_default().to_owned())).collect()
}

/// The row's own text gives PyTorch's values.
fn meaning(case: &Case) -> Result<(), Failed> {
    let got = oracle::run(&case.row.row, &case.args).map_err(|e| e.to_string())?;
    if got.len() < case.out.len() {
        return Err(format!("{} results, {} were recorded", got.len(), case.out.len()).into());
    }
    for (i, (got, want)) in got.iter().zip(&case.out).enumerate() {
        compare(got, want).map_err(|e| format!("result {i}: {e}"))?;
    }
    Ok(())
}

fn call(case: &Case) -> Result<Call, Failed> {
    let solved = signature::solve(&case.row.row, &case.args, &Operand::ty).map_err(|e| e.to_string())?;
    Ok(Call { row: case.row.row.clone(), args: case.args.clone(), solved })
}

/// So do the kernels.
fn cpu(case: &Case) -> Result<(), Failed> {
    let got = bridge::execute(&call(case)?, &["cpu", "interp"], 1).map_err(|e| e.to_string())?;
    for (i, (got, want)) in got.iter().zip(&case.out).enumerate() {
        compare(got, want).map_err(|e| format!("result {i}: {e}"))?;
    }
    Ok(())
}

/// And the gradients, conventions at kinks included.
fn gradient(case: &Case) -> Result<(), Failed> {
    let call = call(case)?;
    let cotangents = case.cotangents.iter().zip(&case.out).filter(|(_, out)| out.dtype.is_float());
    let cotangents: Vec<Array<f64>> = cotangents
        .map(|(g, out)| g.clone().unwrap_or_else(|| bridge::with_values(out, vec![0.0; out.len()])))
        .collect();
    let (_, grads) = bridge::vjp(&call, &bridge::floats(&call), &cotangents).map_err(|e| e.to_string())?;
    // the gradients stand in the order of all float tensors; those of some arguments were recorded
    let mut at = 0;
    for (i, arg) in call.args.iter().enumerate() {
        let mut floats = 0;
        arg.for_each(&mut |o| floats += o.is_float_tensor() as usize);
        if let Some((_, want)) = case.gradients.iter().find(|(k, _)| *k == i) {
            for (got, want) in grads[at..at + floats].iter().zip(want) {
                let name = call.row.sig.params[i].name.name;
                compare(got, want).map_err(|e| format!("the gradient of `{name}`: {e}"))?;
            }
        }
        at += floats;
    }
    Ok(())
}

fn compare(got: &Array<f64>, want: &Array<f64>) -> Result<(), String> {
    if (got.dtype, &got.shape) != (want.dtype, &want.shape) {
        return Err(format!("{}{:?}, PyTorch gave {}{:?}", got.dtype, got.shape, want.dtype, want.shape));
    }
    let tolerance = if want.dtype == DType::F64 { TOLERANCE } else { TOLERANCE_F32 };
    let wrong = |i: usize, a: &dyn std::fmt::Display, b: &dyn std::fmt::Display| {
        Err(format!("element {i} is {a}, PyTorch gave {b}"))
    };
    match (&got.data, &want.data) {
        (Data::Float(got), Data::Float(want)) => {
            for (i, (a, b)) in got.iter().zip(want).enumerate() {
                let close = a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * (1.0 + b.abs());
                if !close {
                    return wrong(i, a, b);
                }
            }
        }
        (Data::Int(got), Data::Int(want)) => {
            if let Some(i) = (0..want.len()).find(|&i| got[i] != want[i]) {
                return wrong(i, &got[i], &want[i]);
            }
        }
        _ => return Err("floats meet integers".into()),
    }
    Ok(())
}
