//! Errors: the code, the numbers, the user's line, a remedy; never a panic.

use fulgurite::prelude::*;

/// The text of an error, with its place made independent of this file's lines.
fn text(e: &Error) -> String {
    e.to_string()
}

#[test]
fn a_shape_error_names_both_shapes_and_the_line() {
    let (x, w) = (Tensor::from([[1.0f32, 2.0, 3.0]]), Tensor::from([[1.0f32, 2.0]]));
    let line = line!() + 1;
    let y = x.matmul(&w);
    let e = y.to_vec::<f32>().expect_err("3 is not 1");
    let text = text(&e);
    assert_eq!(e.code(), "E701");
    assert_eq!((e.loc().line, e.loc().file.ends_with("errors.rs")), (line, true), "{text}");
    for part in ["matmul", "f32[1, 3]", "f32[1, 2]", "k is 3 in `a` but 1 in `w`", "x.matmul(&w)"] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
}

/// A formula needs no `?`: the first error goes through, with its own place.
#[test]
fn the_first_error_is_kept() {
    let x = Tensor::from([1.0f32, 2.0]);
    let line = line!() + 1;
    let wrong = &x + Tensor::from([1.0f32, 2.0, 3.0]);
    let later = (wrong * 2.0).exp().sum().reshape((1, 1));
    let e = later.item::<f32>().expect_err("2 and 3");
    assert_eq!((e.code(), e.loc().line), ("E701", line), "{e}");
}

#[test]
fn an_error_inside_a_compiled_function_points_into_it() {
    let line = line!() + 1;
    let f = jit(|x: Tensor| x.reshape((7, 7)));
    let e = f.call(Tensor::from([1.0f32])).expect_err("1 is not 49");
    assert_eq!((e.code(), e.loc().line), ("E701", line), "{e}");
    assert!(e.to_string().contains("49"), "{e}");
}

#[test]
fn an_error_in_a_differentiated_closure_poisons_both() {
    let x = Tensor::from([1.0f32, 2.0]);
    let (loss, g) = value_and_grad(&x, |x| x.matmul(&Tensor::from([1.0f32])).sum());
    assert_eq!(loss.check().expect_err("2 and 1").code(), "E701");
    assert_eq!(g.check().expect_err("2 and 1").code(), "E701");
}

#[test]
fn a_loss_is_one_number() {
    let x = Tensor::from([1.0f32, 2.0]);
    let e = grad(&x, |x| x * 2.0).check().expect_err("two numbers");
    assert_eq!(e.code(), "E712", "{e}");
    assert!(e.to_string().contains("sum"), "says what to do: {e}");
}

#[test]
fn traced_tensors_have_no_elements() {
    let f = jit(|x: Tensor| -> Result<Tensor> {
        let first = x.to_vec::<f32>()?;
        Ok(x * f64::from(first[0]))
    });
    let e = f.call(Tensor::from([1.0f32])).expect_err("no data while tracing");
    assert_eq!(e.code(), "E742", "{e}");
    assert!(e.to_string().contains("where"), "says what to do: {e}");
}

#[test]
fn a_traced_tensor_does_not_outlive_its_trace() {
    let escaped = std::sync::Mutex::new(None);
    let f = jit(|x: Tensor| {
        *escaped.lock().expect("one thread") = Some(x.clone());
        x
    });
    f.call(Tensor::from([1.0f32])).expect("runs");
    let kept = escaped.lock().expect("one thread").clone().expect("was kept");
    let e = (kept + 1.0).check().expect_err("its trace has ended");
    assert_eq!(e.code(), "E740", "{e}");
}

#[test]
fn dims_of_another_rank_are_told_where_they_are_used() {
    let x = Tensor::from([1.0f32, 2.0]);
    let [b, t] = x.dims();
    let e = x.reshape((b, t)).check().expect_err("one axis");
    assert_eq!(e.code(), "E745", "{e}");
}

#[test]
fn dtypes_are_not_changed_silently() {
    let line = line!() + 1;
    let e = Tensor::from([1.0f32]).to_vec::<f64>().expect_err("f32");
    assert_eq!((e.code(), e.loc().line, e.loc().file.ends_with("errors.rs")), ("E743", line, true), "{e}");
    let e = Tensor::from([[1.0f32]]).matmul(&Tensor::from([[1.0f64]])).check().expect_err("f32 and f64");
    assert_eq!(e.code(), "E703", "{e}");
    assert!(e.to_string().contains("cast"), "says what to do: {e}");
}

#[test]
fn options_out_of_range_are_refused() {
    let x = Tensor::from([[1.0f32, 2.0]]);
    for (what, y) in [("softmax", x.softmax(2)), ("permute", x.permute([0, 0])), ("select", x.select(1, 5))] {
        let e = y.check().expect_err(what);
        assert_eq!(e.code(), "E704", "{what}: {e}");
    }
    let e = x.reshape((3, -1)).check().expect_err("2 elements");
    assert_eq!(e.code(), "E701", "{e}");
}
