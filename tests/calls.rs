//! The generator of calls: it reaches every row, every presence and word, and is the same everywhere.

use expect_test::expect;
use fulgurite_core::DType;
use fulgurite_core::signature::{Env, const_eval::dtype_set};
use fulgurite_tests::calls::{self, Values, Wish, choices};
use fulgurite_tests::rng::{self, Rng};
use fulgurite_tests::rows::{TestRow, rows};
use std::collections::BTreeMap;

/// Calls that are drawn of a row before it counts as one without.
const DRAWS: usize = 20;

/// Draws in which a choice must come up.
const TRIES: usize = 40;
/// As [`TRIES`], for a row of an importer, of which some have many choices that they refuse.
const FEW_TRIES: usize = 16;
/// At most this many choices of a row are looked for, spread evenly: a row of ONNX has thousands.
const MOST_CHOICES: usize = 200;

/// The calls of ATen whose result lies in the memory of their first argument, by PyTorch's schemas, are views here too, so
/// that a write to one of the two reaches the other. Those that may copy are told apart when a model is imported; a list
/// of parts is no view, and a write to a part is refused there.
#[test]
fn what_shares_memory_in_pytorch_is_a_view() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../codegen/src/libraries/signatures.json");
    let text = std::fs::read_to_string(path).expect("the schemas of PyTorch");
    let schemas: BTreeMap<String, serde_json::Value> = serde_json::from_str(&text).expect("JSON");
    let shares = |schema: &str| schema.contains("(Tensor(a) self") && schema.ends_with("-> Tensor(a)");
    let names = schemas.iter().filter(|(_, schema)| schema.as_str().is_some_and(shares)).map(|(name, _)| name);
    // a cast to the dtype that the argument has is the argument; one to another dtype is a copy
    let casts = |name: &str| name.starts_with("aten.to.");
    let mut wrong = Vec::new();
    let mut seen = 0;
    for name in names.filter(|name| !casts(name)) {
        for form in fulgurite::foreign::forms(name) {
            seen += 1;
            if !form.symbol.is_view() {
                wrong.push(format!("{name} ({})", form.symbol.name()));
            }
        }
    }
    assert!(seen > 20, "{seen} forms");
    assert_eq!(wrong, Vec::<String>::new(), "these are no views");
}

const WISH: Wish = Wish { dtype: None, values: Values::Small, numbers: true, empty: true, case: 0 };

/// A row without calls would be a row without tests.
#[test]
fn every_row_has_calls() {
    let without = |wish: Wish| -> Vec<&str> {
        let names = rows().source.iter().filter(|row| {
            let mut rng = Rng::new(rng::seed(row.row.op.as_str(), "calls"));
            // elements that must agree with one another are met by some draws
            (0..DRAWS).all(|case| calls::generate(row, &Wish { case, ..wish }, &mut rng).is_none())
        });
        names.map(|row| row.row.op.as_str()).collect()
    };
    // what is given back must have just the shape of the slice: chance doesn't find it
    const HARD: [&str; 1] = ["aten.slice_backward"];
    let mut any = without(WISH);
    any.retain(|op| !HARD.contains(op));
    assert_eq!(any, Vec::<&str>::new(), "no call was found for these");
    let mut f64 = without(Wish { dtype: Some(DType::F64), values: Values::Tame, ..WISH });
    f64.retain(|op| !HARD.contains(op) && rows().get(op).is_some_and(takes_f64));
    assert_eq!(f64, Vec::<&str>::new(), "no call in f64 was found for these");
}

/// Whether the dtypes that the row states, if it does, have f64 among them.
fn takes_f64(row: &TestRow) -> bool {
    let stated = row.row.dtypes.as_ref().map(|e| dtype_set(&Env::default(), e));
    stated.is_none_or(|set| set.is_ok_and(|set| set.contains(DType::F64)))
}

/// What is listed is refused by the row itself.
#[test]
fn every_choice_of_presence_and_words_comes_up() {
    let mut missing: BTreeMap<String, usize> = BTreeMap::new();
    for row in &rows().source {
        let total = choices::count(&row.row);
        for case in (0..total).step_by(total.div_ceil(MOST_CHOICES)) {
            let choice = choices::choose(&row.row, case);
            let mut rng = Rng::new(rng::seed(row.row.op.as_str(), "choices") ^ case as u64);
            let tries = if row.imports { FEW_TRIES } else { TRIES };
            let comes_up = (0..tries).any(|_| {
                calls::sketch(row, &Wish { case, ..WISH }, &mut rng)
                    .is_some_and(|s| choice.absent.iter().zip(&s.args).all(|(absent, arg)| *absent == arg.is_absent()))
            });
            if !comes_up {
                let given = row.row.sig.params.iter().zip(&choice.absent).filter(|(_, absent)| !**absent);
                let given: Vec<&str> = given.map(|(p, _)| p.name.name.as_str()).collect();
                *missing.entry(format!("{} of {}", row.row.op, given.join(", "))).or_insert(0) += 1;
            }
        }
    }
    expect![[r#"
        batch_norm of x, mean: 6
        batch_norm of x, mean, bias: 6
        batch_norm of x, mean, weight: 6
        batch_norm of x, mean, weight, bias: 6
        batch_norm of x, var: 6
        batch_norm of x, var, bias: 6
        batch_norm of x, var, weight: 6
        batch_norm of x, var, weight, bias: 6
        clamp of x: 1
        native_batch_norm_backward of d, x: 2
        native_batch_norm_backward of d, x, mean: 2
        native_batch_norm_backward of d, x, mean, saved_mean: 2
        native_batch_norm_backward of d, x, mean, saved_rstd: 2
        native_batch_norm_backward of d, x, saved_mean: 2
        native_batch_norm_backward of d, x, saved_rstd: 2
        native_batch_norm_backward of d, x, var: 2
        native_batch_norm_backward of d, x, var, saved_mean: 2
        native_batch_norm_backward of d, x, var, saved_rstd: 2
        native_batch_norm_backward of d, x, weight: 2
        native_batch_norm_backward of d, x, weight, mean: 2
        native_batch_norm_backward of d, x, weight, mean, saved_mean: 2
        native_batch_norm_backward of d, x, weight, mean, saved_rstd: 2
        native_batch_norm_backward of d, x, weight, saved_mean: 2
        native_batch_norm_backward of d, x, weight, saved_rstd: 2
        native_batch_norm_backward of d, x, weight, var: 2
        native_batch_norm_backward of d, x, weight, var, saved_mean: 2
        native_batch_norm_backward of d, x, weight, var, saved_rstd: 2
        onnx.ConstantOfShape of : 1
        onnx.TensorScatter of past_cache, update, write_indices: 4
        onnx.attention of q, k, v, mask, past_key: 12
        onnx.attention of q, k, v, mask, past_key, nonpad: 12
        onnx.attention of q, k, v, mask, past_value: 12
        onnx.attention of q, k, v, mask, past_value, nonpad: 12
        onnx.attention of q, k, v, past_key: 12
        onnx.attention of q, k, v, past_key, nonpad: 12
        onnx.attention of q, k, v, past_value: 12
        onnx.attention of q, k, v, past_value, nonpad: 12
        onnx.attention_heads of q, k, v, past_key: 24
        onnx.attention_heads of q, k, v, past_key, nonpad: 24
        onnx.attention_heads of q, k, v, past_value: 24
        onnx.attention_heads of q, k, v, past_value, nonpad: 24
        onnx.attention_heads_masked of q, k, v, mask, past_key: 24
        onnx.attention_heads_masked of q, k, v, mask, past_key, nonpad: 24
        onnx.attention_heads_masked of q, k, v, mask, past_value: 24
        onnx.attention_heads_masked of q, k, v, mask, past_value, nonpad: 24
        onnx.padded of data, constant_value: 1
        onnx.places of : 8
        onnx.places of stop: 1
        onnx.resample of x: 1
        torch.cov of input, aweights: 2
        torch.cov of input, fweights: 2
        torch.cov of input, fweights, aweights: 2
    "#]]
    .assert_eq(&missing.iter().map(|(call, times)| format!("{call}: {times}\n")).collect::<String>());
}

#[test]
fn the_same_seed_gives_the_same_call() {
    let call = |seed| {
        let row = rows().get("matmul").map(|row| calls::generate(row, &WISH, &mut Rng::new(seed)));
        row.flatten().map(|c| c.to_string())
    };
    assert_eq!(call(7), call(7));
    assert_ne!(call(7), call(8));
}

/// Square shapes hide swapped axes.
#[test]
fn sizes_of_a_product_differ() {
    let row = rows().get("matmul").map(|r| (r, Rng::new(1)));
    let Some((row, mut rng)) = row else { panic!("no matmul") };
    for case in 0..50 {
        let wish = Wish { case, numbers: false, ..WISH };
        let Some(call) = calls::sketch(row, &wish, &mut rng) else { continue };
        let size = |name: &str| call.solved.env.size(name.into()).cloned();
        let [m, k, n] = ["M", "K", "N"].map(size);
        assert!(m != k && k != n && m != n, "{:?}", call.args);
    }
}
