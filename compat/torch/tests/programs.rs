//! Programs mean what the transforms of fulgurite mean, their types are those of their results, and a text that is no
//! program is refused.

use fulgurite::core::Dim;
use fulgurite::{Error, Tensor, TensorOps, grad, jvp, ops, vmap};
use fulgurite_torch::program::TransformedProgram;
use fulgurite_torch::{reads, types};

fn program(text: &str) -> TransformedProgram {
    TransformedProgram::parse(text).expect("a program")
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect("is JSON")
}

fn values(made: Result<Vec<Tensor>, Error>) -> Vec<Vec<f64>> {
    made.expect("runs").iter().map(|t| t.to_f64().expect("no error on the way")).collect()
}

const SOFTMAX: &str = r#"{"row": "softmax", "args": [{"tensor": 0}, 1]}"#;

#[test]
fn a_row_is_its_function() {
    let x = Tensor::from([[1.0f64, 2.0], [4.0, 3.0]]);
    let made = values(program(SOFTMAX).evaluate(std::slice::from_ref(&x), &[]));
    assert_eq!(made, [x.softmax(1).to_f64().expect("runs")]);
    // floats are texts, sizes have numbers, and lists of tensors are lists
    let text = r#"{"row": "cat", "args": [[{"tensor": 0}, {"tensor": 0}], 0]}"#;
    assert_eq!(values(program(text).evaluate(std::slice::from_ref(&x), &[]))[0].len(), 8);
    let text = r#"{"row": "reshape", "args": [{"tensor": 0}, [{"size": 0}]]}"#;
    assert_eq!(values(program(text).evaluate(&[x], &[Dim::from(4)]))[0], [1.0, 2.0, 4.0, 3.0]);
}

#[test]
fn derivatives_and_batches_are_those_of_fulgurite() {
    let (x, g) = (Tensor::from([[1.0f64, 2.0], [4.0, 3.0]]), Tensor::from([[1.0f64, 0.5], [0.0, 2.0]]));
    let vjp = format!(r#"{{"vjp": {SOFTMAX}, "inputs": 1, "of": [0], "results": [0]}}"#);
    let expected = grad(&x, |x| (x.softmax(1) * &g).sum()).to_f64().expect("runs");
    assert_eq!(values(program(&vjp).evaluate(&[x.clone(), g.clone()], &[])), [expected]);

    let pushed = format!(r#"{{"jvp": {SOFTMAX}, "inputs": 1, "of": [0]}}"#);
    let expected = jvp(&x, &g, |x| x.softmax(1)).expect("runs").1.to_f64().expect("runs");
    assert_eq!(values(program(&pushed).evaluate(&[x.clone(), g.clone()], &[])), [expected]);

    // a batch of derivatives
    let one = r#"{"row": "softmax", "args": [{"tensor": 0}, 0]}"#;
    let batch = format!(r#"{{"vmap": {{"vjp": {one}, "inputs": 1, "of": [0], "results": [0]}}, "axes": [0, 0]}}"#);
    let each = |(x, g): &(Tensor, Tensor)| grad(x, |x| (x.softmax(0) * g).sum());
    let expected = vmap(&(x.clone(), g.clone()), each).expect("runs").to_f64().expect("runs");
    assert_eq!(values(program(&batch).evaluate(&[x, g], &[])), [expected]);
}

#[test]
fn a_derivative_with_a_mask_has_derivatives() {
    let row = r#"{"row": "dropout", "args": [{"tensor": 0}, {"tensor": 1}, {"float": "0.5"}]}"#;
    let (x, key, ones) = (Tensor::from([1.0f64; 8]), Tensor::from([7i64, 0]), Tensor::from([1.0f64; 8]));
    let mask = values(program(row).evaluate(&[x.clone(), key.clone()], &[]));
    for kind in [r#""jvp""#, r#""results": [0], "vjp""#] {
        // linear in x and in the last tensor: its own tangent by the last one is its value
        let once = format!(r#"{{{kind}: {row}, "inputs": 2, "of": [0]}}"#);
        let twice = format!(r#"{{"jvp": {once}, "inputs": 3, "of": [0, 2]}}"#);
        let tensors = [x.clone(), key.clone(), ones.clone(), ones.clone(), ones.clone()];
        assert_eq!(values(program(&twice).evaluate(&tensors, &[])), mask, "{kind}");
    }
}

#[test]
fn a_key_is_a_tensor_of_two_numbers() {
    let text = r#"{"row": "uniform", "args": [{"tensor": 0}, [3]]}"#;
    let expected = ops::uniform(fulgurite::Key::new(7), 3).to_f64().expect("runs");
    for key in [Tensor::from([7i64, 0]), Tensor::from([7i32, 0])] {
        assert_eq!(values(program(text).evaluate(&[key], &[])), std::slice::from_ref(&expected));
    }
    let wrong = program(text).evaluate(&[Tensor::from([7i64])], &[]).expect_err("one number is no key");
    assert_eq!(wrong.code(), "E702", "{wrong}");
    // a row draws with one key for all slices
    let batch = format!(r#"{{"vmap": {text}, "axes": [0]}}"#);
    let refused = program(&batch).evaluate(&[Tensor::from([[7i64, 0], [8, 0]])], &[]).expect_err("two keys");
    assert_eq!(refused.code(), "E726", "{refused}");
}

#[test]
fn types_are_polynomials_of_named_sizes() {
    let text = r#"{"row": "cat", "args": [[{"tensor": 0}, {"tensor": 1}], 0]}"#;
    let request = format!(
        r#"{{"program": {text}, "tensors": [["f32", [[3, "a"], [4, "b"]]], ["f32", [[5, "c"], [4, "d"]]]], "sizes": []}}"#
    );
    let answer = types::answer(&json(&request)).expect("is solved").to_string();
    assert_eq!(answer, r#"{"guards":["b == d"],"types":[["f32",["a + c","b"]]]}"#);
    let request = request.replace(r#"[4, "d"]"#, "7");
    let refused = types::answer(&json(&request)).expect_err("sizes differ");
    assert!(refused.to_string().contains("cat"), "{refused}");
}

#[test]
fn a_text_that_is_no_program_is_refused() {
    let deep = format!("{}{SOFTMAX}{}", r#"{"pick": "#.repeat(100), r#", "result": 0}"#.repeat(100));
    let lists = format!(r#"{{"row": "cat", "args": [{}{}]}}"#, "[".repeat(200), "]".repeat(200));
    let texts = [
        "",
        "[",
        "{}",
        "[1, 2]",
        r#"{"row": "no_such_row"}"#,
        r#"{"row": "neg", "args": [{"tensor": -1}]}"#,
        r#"{"row": "neg", "args": [{"float": "x"}]}"#,
        r#"{"vjp": {"row": "neg"}, "inputs": 1}"#,
        r#"{"vmap": {"row": "neg"}}"#,
        &deep,
        &lists,
    ];
    for text in texts {
        let refused = TransformedProgram::parse(text).expect_err(text);
        assert!(matches!(refused.code(), "E702" | "E710"), "{text}: {refused}");
    }
    // numbers that name nothing
    for text in [
        r#"{"row": "neg", "args": [{"tensor": 3}]}"#,
        r#"{"vjp": {"row": "neg", "args": [{"tensor": 0}]}, "inputs": 9, "of": [0], "results": [0]}"#,
        r#"{"vjp": {"row": "neg", "args": [{"tensor": 0}]}, "inputs": 1, "of": [5], "results": [0]}"#,
        r#"{"vjp": {"row": "neg", "args": [{"tensor": 0}]}, "inputs": 1, "of": [0], "results": [4]}"#,
        r#"{"pick": {"row": "neg", "args": [{"tensor": 0}]}, "result": 2}"#,
        r#"{"vmap": {"row": "neg", "args": [{"tensor": 0}]}, "axes": [7]}"#,
        r#"{"row": "reshape", "args": [{"tensor": 0}, [{"size": 2}]]}"#,
        r#"{"row": "neg"}"#,
    ] {
        assert!(program(text).evaluate(&[Tensor::from([1.0f64])], &[]).is_err(), "{text}");
    }
}

#[test]
fn tensors_that_a_derivative_does_not_read_are_left_out() {
    let product = r#"{"row": "mul", "args": [{"tensor": 0}, {"tensor": 1}]}"#;
    let vjp = format!(r#"{{"vjp": {product}, "inputs": 2, "of": [0], "results": [0]}}"#);
    let types = r#"["f64", [[2, "n"]]]"#;
    let request = format!(r#"{{"program": {vjp}, "tensors": [{types}, {types}, {types}], "sizes": []}}"#);
    let answer = reads::answer(&json(&request)).expect("is solved").to_string();
    assert_eq!(answer, r#"{"guards":[],"reads":[1,2]}"#);

    let (x, y, g) = (Tensor::from([1.0f64, 2.0]), Tensor::from([3.0f64, 4.0]), Tensor::from([1.0f64, 0.5]));
    let whole = values(program(&vjp).evaluate(&[x, y.clone(), g.clone()], &[]));
    let less = vjp.replace(r#""results": [0]"#, r#""results": [0], "unread": {"0": ["f64", [0]]}"#);
    assert_eq!(values(program(&less).evaluate(&[y.clone(), g.clone()], &[Dim::from(2)])), whole);
    assert!(program(&less).evaluate(&[y.clone(), g], &[]).is_err(), "a size is missing");
    assert!(program(&less).evaluate(&[y], &[Dim::from(2)]).is_err(), "a tensor is missing");
    let hostile = less.replace(r#"["f64", [0]]"#, r#"["f64", 0]"#);
    assert_eq!(TransformedProgram::parse(&hostile).expect_err("no type").code(), "E702");
}
