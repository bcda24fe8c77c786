//! A program whose lines have a form over arrays becomes a Python function; any other program stays a kernel.
//! The package's own tests compare the functions with the kernels, in PyTorch.

use fulgurite::core::builtins::Builtin;
use fulgurite_torch::decomposition::{answer, array_library::ArrayLibrary};
use serde_json::{Value, json};

fn decomposed(library: &str, program: &Value, tensors: &Value) -> Value {
    let request = json!({"library": library, "program": program, "tensors": tensors, "sizes": []});
    answer(&request).expect("the program has types")
}

/// The function without its imports.
fn text(library: &str, program: &Value, tensors: &Value) -> String {
    let answer = decomposed(library, program, tensors);
    let text = answer["text"].as_str().expect("has a form over arrays");
    let (imports, function) = text.split_once("\n\n\n").expect("imports stand first");
    assert!(
        imports.ends_with(if library == "torch" { "import torch" } else { "import jax.numpy as jnp" }),
        "{imports}"
    );
    function.to_owned()
}

fn softmax() -> Value {
    json!({"row": "softmax", "args": [{"tensor": 0}, 1]})
}

#[test]
fn a_pointwise_row_is_its_expression() {
    let row = json!({"row": "silu", "args": [{"tensor": 0}]});
    let expected = "def decomposition(device, x0, a):
    v0 = torch.special.expit(x0)
    v1 = (x0 * v0)
    return [v1.contiguous()]
";
    let types = json!([["f32", [[3, "a"], 4]]]);
    assert_eq!(text("torch", &row, &types), expected);
    assert_eq!(decomposed("torch", &row, &types)["guards"], json!([]));
    let expected = "def decomposition(device, x0, a):
    v0 = jax.scipy.special.expit(x0)
    v1 = (x0 * v0)
    return [v1]
";
    assert_eq!(text("jnp", &row, &types), expected);
    // narrow floats are computed in f32 and rounded once
    let narrow = text("torch", &row, &json!([["bf16", [3]]]));
    assert!(narrow.contains("x0.to(torch.float32)") && narrow.contains(".to(torch.bfloat16)"), "{narrow}");
}

#[test]
fn reductions_are_over_the_last_axes() {
    let expected = "def decomposition(device, x0):
    v0 = x0[:, None, :]
    v1 = torch.amax(v0, (-1,))
    v2 = (x0 - v1)
    v3 = torch.exp(v2)
    v4 = v3[:, None, :]
    v5 = torch.sum(v4, (-1,))
    v6 = (v3 / v5)
    return [v6.contiguous()]
";
    assert_eq!(text("torch", &softmax(), &json!([["f64", [3, 4]]])), expected);
}

#[test]
fn a_result_that_is_a_view_is_copied() {
    let row = json!({"row": "t", "args": [{"tensor": 0}]});
    let made = text("torch", &row, &json!([["f32", [3, 4]]]));
    assert!(made.contains("x0.permute((1, 0))") && made.contains(".clone(memory_format"), "{made}");
}

#[test]
fn derivatives_and_batches_have_forms_too() {
    let types = json!([["f64", [3, 4]], ["f64", [3, 4]]]);
    let vjp = json!({"vjp": softmax(), "inputs": 1, "of": [0], "results": [0]});
    assert!(text("torch", &vjp, &types).contains("torch.sum"));
    let one = json!({"row": "softmax", "args": [{"tensor": 0}, 0]});
    let batch = json!({"vmap": {"vjp": one, "inputs": 1, "of": [0], "results": [0]}, "axes": [0, 0]});
    assert!(text("torch", &batch, &types).contains("torch.sum"));
}

#[test]
fn other_programs_stay_kernels() {
    let kernel =
        |program: Value, tensors: Value| assert_eq!(decomposed("torch", &program, &tensors), Value::Null, "{program}");
    // a product of matrices would fill the memory of all its products
    let product = json!({"row": "matmul", "args": [{"tensor": 0}, {"tensor": 1}]});
    kernel(product, json!([["f32", [64, 64]], ["f32", [64, 64]]]));
    // random numbers
    kernel(json!({"row": "uniform", "args": [{"tensor": 0}, [3]]}), json!([["i64", [2]]]));
    // an index of a tensor may be out of range
    let gather = json!({"row": "gather", "args": [{"tensor": 0}, {"tensor": 1}, 0]});
    kernel(gather, json!([["f32", [3]], ["i64", [2]]]));
    // the loops of a reduction are written for the present sizes
    kernel(softmax(), json!([["f64", [3, [4, "n"]]]]));
    // frameworks differ in the integer of NaN
    let cast = json!({"row": "cast", "args": [{"tensor": 0}, {"dtype": "i32"}]});
    kernel(cast, json!([["f32", [3]]]));
}

#[test]
fn a_conversion_that_a_library_makes_otherwise_stays_a_kernel() {
    let cast = json!({"row": "cast", "args": [{"tensor": 0}, {"dtype": "f8e4m3fn"}]});
    let types = json!([["f32", [3]]]);
    assert!(text("torch", &cast, &types).contains("x0.to(torch.float8_e4m3fn)"));
    assert_eq!(decomposed("jnp", &cast, &types), Value::Null);
}

#[test]
fn a_request_that_is_none_is_refused() {
    let request = json!({"library": "numpy", "program": softmax(), "tensors": [["f32", [3, 4]]], "sizes": []});
    let refused = answer(&request).expect_err("numpy is not supported");
    assert!(refused.claim().contains("`torch` and `jnp` are"), "{refused}");
    let request = json!({"library": "torch", "program": {"row": "matmul", "args": [{"tensor": 0}, {"tensor": 1}]},
        "tensors": [["f32", [2, 3]], ["f32", [2, 3]]], "sizes": []});
    assert!(answer(&request).is_err(), "sizes that the row refuses");
}

#[test]
fn every_builtin_has_an_expression_that_uses_its_arguments() {
    for builtin in Builtin::all() {
        for library in [ArrayLibrary::Torch, ArrayLibrary::Jnp] {
            // a cast is written with its dtype
            let has_none = matches!(builtin, Builtin::Uniform | Builtin::Cast)
                || library == ArrayLibrary::Jnp && matches!(builtin, Builtin::Erfcx | Builtin::DivTrunc);
            let template = library.template(builtin);
            assert_eq!(template.is_none(), has_none, "{builtin:?} in {library:?}");
            let Some(template) = template else { continue };
            for i in 0..builtin.record().arity() {
                let used = template.contains(&format!("{{{i}}}")) || template.contains(&format!("{{#{i}}}"));
                assert!(used, "{builtin:?} in {library:?}: {template}");
            }
        }
    }
}
