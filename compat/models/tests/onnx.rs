//! Models of ONNX: the same net as that of `digits.pt2`, control flow, and files that are refused (`data/make_onnx.py`).

mod common;

use common::{Draws, Temporary, close, file, model, values};
use fulgurite::ops;
use fulgurite::prelude::*;
use fulgurite_models::{Model, import, inspect};

#[test]
fn the_same_net_gives_the_same_values_and_gradients() -> Result<(), Error> {
    let (model, other, values) = (model("digits.onnx"), model("digits.pt2"), values("digits.values.safetensors"));
    let inputs: Vec<String> = model.inputs().iter().map(ToString::to_string).collect();
    assert_eq!(inputs, ["images: f32[batch, 1, 8, 8]"]);
    let images = values["images"].clone();
    close("at once", &model.call([&images])?[0], &values["logits"], 1e-5);
    let compiled = jit(|model: Model, images: Tensor| model.call([&images])).keep_traces();
    close("compiled", &compiled.call((model.clone(), images.clone()))?[0], &values["logits"], 1e-5);
    let trace = compiled.trace("acquired").expect("texts are kept");
    assert!(trace.contains("block2") && trace.contains("head.bias"), "{trace}");
    // the exporter merges each normalisation into its convolution, and transposes the weights of the last layer
    let gradient = |model: &Model, name: &str| {
        let loss =
            |params: &_| Ok::<_, Error>(model.with(params).call([&images])?[0].cross_entropy(&values["labels"], None));
        Ok::<_, Error>(try_value_and_grad(model.params(), loss)?.1[name].clone())
    };
    let (ours, theirs) = (gradient(&model, "permute")?, gradient(&other, "head.weight")?);
    close("gradient", &ours, &theirs.t(), 5e-5);
    Ok(())
}

#[test]
fn one_program_serves_every_size() -> Result<(), Error> {
    let (model, images) = (model("digits.onnx"), values("digits.values.safetensors")["images"].clone());
    let all = model.call([&images])?[0].to_f64()?;
    let compiled = jit(|model: Model, images: Tensor| model.call([&images])).caching(Caching::Symbolic);
    for n in [16usize, 2, 5, 3, 7] {
        let some = images.slice_with(ops::Slice { stop: Some(n.into()), ..d() });
        let logits = compiled.call((model.clone(), some))?[0].to_f64()?;
        let worst = logits.iter().zip(&all).fold(0.0, |m: f64, (a, b)| m.max((a - b).abs()));
        assert!(logits.len() == 10 * n && worst < 1e-4, "{n}: {worst}");
    }
    assert_eq!(compiled.stats().misses.len(), 1, "{}", compiled.stats());
    Ok(())
}

#[test]
fn programs_in_attributes_lists_and_functions_run() -> Result<(), Error> {
    let (model, values) = (model("control.onnx"), values("control.onnx.safetensors"));
    for sign in ["negative", "positive"] {
        let value = |name: &str| values[&format!("{sign}.{name}")].clone();
        let results = model.run([&value("x"), &value("xs")])?;
        assert_eq!(results.names, ["y", "z", "last", "sines", "joined", "twice"]);
        for (name, result) in results.names.iter().zip(&results.outputs) {
            close(&format!("{sign} {name}"), result, &value(name), 1e-6);
        }
        let compiled = jit(|model: Model, x: Tensor, xs: Tensor| model.call([&x, &xs])).keep_traces();
        let together = compiled.call((model.clone(), value("x"), value("xs")))?;
        for (name, result) in results.names.iter().zip(&together) {
            close(&format!("{sign} {name}, compiled"), result, &value(name), 1e-6);
        }
        let trace = compiled.trace("acquired").expect("texts are kept");
        assert!(["= cond(", "= scan("].iter().all(|line| trace.contains(line)), "{trace}");
    }
    Ok(())
}

/// The refusal of a file of these bytes.
fn refused(name: &str, bytes: &[u8]) -> Error {
    let file = Temporary::new(&format!("{name}.onnx"), bytes);
    import(&file.0).map(|_| ()).expect_err("the file is no whole model")
}

/// A field of the format: a number, or bytes.
fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    [&[tag << 3 | 2, bytes.len() as u8], bytes].concat()
}

/// A model with this graph, of the opset 20.
fn bytes(graph: &[u8]) -> Vec<u8> {
    [&[8, 10][..], &field(8, &[16, 20]), &field(7, graph)].concat()
}

#[test]
fn broken_files_are_refused_with_their_reason() {
    let whole = std::fs::read(file("digits.onnx")).expect("the model is committed");
    let e = refused("short", &whole[..whole.len() / 2]);
    assert_eq!(e.code(), "E931", "{e}");
    assert_eq!(refused("empty", b"").claim().rsplit(": ").next(), Some("it has no graph"));
    let newer = [&[8, 10][..], &field(8, &[16, 99]), &field(7, b"")].concat();
    let e = refused("newer", &newer);
    assert!(e.code() == "E932" && e.claim().ends_with("has opset 99; opsets 7 to 28 can be read"), "{e}");
    let node =
        |inputs: &[u8], operator: &[u8]| field(1, &[field(1, inputs), field(2, b"y"), field(4, operator)].concat());
    let e = refused("undefined", &bytes(&node(b"x", b"Relu")));
    assert!(e.code() == "E931" && e.claim().ends_with("in `y` (Relu): `x` is used before it is made"), "{e}");
    let constant = field(
        1,
        &[
            field(2, b"x"),
            field(4, b"Constant"),
            field(5, &[&field(1, b"value_int")[..], &[0x18, 1, 0xa0, 1, 2]].concat()),
        ]
        .concat(),
    );
    let e = refused("missing", &bytes(&[constant.clone(), node(b"x", b"Rely")].concat()));
    assert!(e.code() == "E934" && e.notes()[0].starts_with("1 × onnx.Rely.20 ("), "{e}");
    let e = refused("twice", &bytes(&[constant.clone(), constant].concat()));
    assert!(e.claim().ends_with("`x` is made twice"), "{e}");
    assert!(import("no such file.onnx").map(|_| ()).is_err_and(|e| e.code() == "E904"));
}

#[test]
fn data_in_another_file_stay_below_the_folder() {
    // one f32 of a file beside the model
    let tensor = |location: &str| {
        let entry = |key: &[u8], value: &[u8]| field(13, &[field(1, key), field(2, value)].concat());
        let parts = [&[8, 1, 16, 1][..], &field(8, b"w"), &entry(b"location", location.as_bytes()), &[0x70, 1]];
        field(5, &parts.concat())
    };
    let node = field(1, &[field(1, b"w"), field(2, b"y"), field(4, b"Relu")].concat());
    let graph = |location: &str| bytes(&[node.clone(), tensor(location), field(12, &field(1, b"y"))].concat());
    for location in ["../secret", "/etc/hostname", "a/../../b"] {
        let e = refused("outside", &graph(location));
        assert!(e.code() == "E931" && e.claim().contains("is not below the folder of the model"), "{location}: {e}");
    }
    assert!(refused("absent", &graph("nothing-here")).claim().contains("can't be read"));
    let data = Temporary::new("data", &1.5f32.to_le_bytes());
    let name = data.0.file_name().and_then(|name| name.to_str()).expect("a name");
    let file = Temporary::new("beside.onnx", &graph(name));
    let model = import(&file.0).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(model.call([]).expect("it runs")[0].to_vec::<f32>().expect("one"), [1.5]);
}

#[test]
fn no_changed_file_makes_the_reader_panic() {
    let mut draws = Draws(12);
    let mut accepted = 0;
    for name in ["digits.onnx", "control.onnx"] {
        let whole = std::fs::read(file(name)).expect("the model is committed");
        // the last bytes of the first file are weights
        let text = whole.len().min(6_000);
        for _ in 0..750 {
            let mut bytes = whole.clone();
            match draws.below(4) {
                0 => bytes.truncate(draws.below(whole.len())),
                _ => (0..=draws.below(4)).for_each(|_| bytes[draws.below(text)] = draws.below(256) as u8),
            }
            let file = Temporary::new("changed.onnx", &bytes);
            if let Ok(model) = inspect(&file.0) {
                accepted += 1;
                if let Ok(inputs) = model.example_inputs() {
                    let _ = model.call(&inputs);
                }
            }
        }
    }
    assert!((50..1450).contains(&accepted), "{accepted} of 1500 files are accepted");
}
