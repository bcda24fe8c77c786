//! The small model in `data`, exported by PyTorch 2.15 (`data/make.py`), gives PyTorch's values: outputs, gradients,
//! statistics after a call in training, at once and compiled, for every size in its range.

mod common;

use common::{close, file, model};
use fulgurite::prelude::*;
use fulgurite::{checkpoint, ops};
use fulgurite_models::{Model, compare};
use std::collections::BTreeMap;

fn values() -> BTreeMap<String, Tensor> {
    common::values("digits.values.safetensors")
}

/// The mean cross-entropy of labels.
fn loss(logits: &Tensor, labels: &Tensor) -> Tensor {
    logits.cross_entropy(labels, None)
}

#[test]
fn a_model_says_what_it_takes() {
    let model = model("digits.pt2");
    let inputs: Vec<String> = model.inputs().iter().map(ToString::to_string).collect();
    let [(symbol, range)] = model.ranges().iter().collect::<Vec<_>>()[..] else { panic!("one size is open") };
    assert_eq!(inputs, [format!("images: f32[{symbol}, 1, 8, 8]")]);
    assert_eq!(*range, (1, Some(512)));
    let names: Vec<&str> = model.params().keys().map(String::as_str).collect();
    let [first, .., last] = names[..] else { panic!("{names:?}") };
    assert_eq!((first, last, names.len()), ("block1.0.bias", "head.weight", 10));
    assert_eq!(model.buffers().len(), 6);
    assert_eq!(model.functions()["aten.convolution.default"], 2);
}

#[test]
fn outputs_are_those_of_pytorch_at_once_and_compiled() -> Result<(), Error> {
    let (model, values) = (model("digits.pt2"), values());
    let images = values["images"].clone();
    close("at once", &model.call([&images])?[0], &values["logits"], 1e-5);
    let compiled = jit(|model: Model, images: Tensor| model.call([&images])).keep_traces();
    close("compiled", &compiled.call((model, images))?[0], &values["logits"], 1e-5);
    // traces name the modules and the parameters of the model
    let trace = compiled.trace("acquired").expect("texts are kept");
    assert!(trace.contains("block2") && trace.contains("head.weight"), "{trace}");
    Ok(())
}

#[test]
fn one_program_serves_every_size_and_a_size_out_of_range_is_named() -> Result<(), Error> {
    let (model, images) = (model("digits.pt2"), values()["images"].clone());
    let all = model.call([&images])?[0].to_f64()?;
    let compiled = jit(|model: Model, images: Tensor| model.call([&images])).caching(Caching::Symbolic);
    for n in [16usize, 2, 5, 3, 7] {
        let some = images.slice_with(ops::Slice { stop: Some(n.into()), ..d() });
        let logits = compiled.call((model.clone(), some))?[0].to_f64()?;
        let worst = logits.iter().zip(&all).fold(0.0, |m: f64, (a, b)| m.max((a - b).abs()));
        assert!(logits.len() == 10 * n && worst < 1e-4, "{n}: {worst}");
    }
    assert_eq!(compiled.stats().misses.len(), 1, "{}", compiled.stats());
    let none = Tensor::from_vec(Vec::<f32>::new(), [0, 1, 8, 8]);
    let refused = model.call([&none]).expect_err("no image");
    assert_eq!(refused.code(), "E935");
    assert_eq!(refused.claim(), "`images` has size 0 on axis 0, and the model takes from 1 to 512");
    let flat = Tensor::from_vec(vec![0f32; 64], [1, 1, 64]);
    assert_eq!(model.call([&flat]).expect_err("another rank").code(), "E935");
    assert_eq!(model.call([]).expect_err("an input is missing").code(), "E935");
    Ok(())
}

#[test]
fn gradients_are_those_of_pytorch() -> Result<(), Error> {
    let (model, values) = (model("digits.pt2"), values());
    let step = jit(|model: Model, images: Tensor, labels: Tensor| {
        try_value_and_grad(model.params(), |params| {
            Ok::<_, Error>(loss(&model.with(params).call([&images])?[0], &labels))
        })
    });
    let (_, gradients) = step.call((model, values["images"].clone(), values["labels"].clone()))?;
    assert_eq!(gradients.len(), 10);
    for (name, gradient) in &gradients {
        close(name, gradient, &values[&format!("grad.{name}")], 5e-5);
    }
    Ok(())
}

#[test]
fn training_moves_the_buffers_as_pytorch_does() -> Result<(), Error> {
    let values = values();
    for compiled in [false, true] {
        let model = model("digits.train.pt2");
        let f = jit(|model: Model, images: Tensor| {
            let logits = model.call([&images])?;
            Ok::<_, Error>((model, logits))
        });
        let (model, logits) = match compiled {
            true => f.call((model, values["images"].clone()))?,
            false => {
                let logits = model.call([&values["images"]])?;
                (model, logits)
            }
        };
        close("logits", &logits[0], &values["logits.train"], 1e-5);
        for (name, buffer) in model.buffers() {
            close(name, buffer, &values[&format!("after.{name}")], 1e-5);
        }
    }
    Ok(())
}

#[test]
fn a_model_is_saved_and_loaded_as_a_tree() -> Result<(), Error> {
    let path = std::env::temp_dir().join(format!("fulgurite-models-{}.safetensors", std::process::id()));
    let model = model("digits.pt2");
    checkpoint::save(&path, model.params())?;
    let mut zeros: BTreeMap<String, Tensor> =
        model.params().iter().map(|(name, x)| (name.clone(), zeros_like(x))).collect();
    checkpoint::load(&path, &mut zeros)?;
    let images = values()["images"].clone();
    let (a, b) = (model.call([&images])?, model.with(&zeros).call([&images])?);
    assert_eq!(a[0].to_f64()?, b[0].to_f64()?);
    std::fs::remove_file(&path).expect("the file was written");
    Ok(())
}

#[test]
fn the_first_value_that_is_off_is_named() -> Result<(), Error> {
    let (model, values) = (model("digits.pt2"), values());
    let mut expected = BTreeMap::from([("images".to_owned(), values["images"].clone())]);
    expected.insert("addmm".to_owned(), values["logits"].clone());
    let same = compare(&model, &expected, 1e-4)?;
    assert!(same.compared == 1 && same.first.is_none(), "{same:?}");
    expected.insert("addmm".to_owned(), &values["logits"] * 1.5);
    expected.insert("convolution".to_owned(), Tensor::from([0f32]));
    let first = compare(&model, &expected, 1e-4)?.first.expect("two values are off");
    assert_eq!((first.name.as_str(), first.target.as_str()), ("convolution", "aten.convolution.default"));
    assert!(first.loc.file.ends_with("conv.py") && first.loc.line > 0, "{:?}", first.loc);
    Ok(())
}

#[test]
fn choices_loops_and_scans_are_those_of_pytorch() -> Result<(), Error> {
    let model = model("control.pt2");
    let values = checkpoint::tensors(file("control.values.safetensors")).expect("the values are committed");
    let compiled = jit(|model: Model, x: Tensor, xs: Tensor| model.call([&x, &xs])).keep_traces();
    for case in ["negative", "positive"] {
        let value = |name: &str| &values[&format!("{case}.{name}")];
        let at_once = model.call([value("x"), value("xs")])?;
        let together = compiled.call((model.clone(), value("x").clone(), value("xs").clone()))?;
        for found in [at_once, together] {
            for (found, name) in found.iter().zip(["y", "count", "z", "last", "sines"]) {
                close(&format!("{case} {name}"), found, value(name), 1e-6);
            }
        }
    }
    // one program for both signs, with a line for each
    assert_eq!(compiled.stats().misses.len(), 1, "{}", compiled.stats());
    let trace = compiled.trace("acquired").expect("texts are kept");
    assert!(["= cond(", "= while_loop(", "= scan("].iter().all(|line| trace.contains(line)), "{trace}");
    // the gradient of a choice and of a scan; the loop has no bound, so it is left out
    let step = |x: &Tensor, xs: &Tensor| {
        try_value_and_grad(&(x.clone(), xs.clone()), |(x, xs)| {
            let outputs = model.call([x, xs])?;
            Ok::<_, Error>(outputs[0].sum() + outputs[4].sum())
        })
    };
    let (x, xs) = (&values["positive.x"], &values["positive.xs"]);
    let (_, (by_x, by_xs)) = step(x, xs)?;
    close("gradient of a choice", &by_x, &Tensor::from_vec(vec![1f32; 12], [3, 4]), 1e-6);
    assert!(by_xs.to_f64()?.iter().any(|g| g.abs() > 0.1), "{by_xs:?}");
    Ok(())
}

#[test]
fn tokens_one_by_one_through_a_cache_are_the_prompt_at_once() -> Result<(), Error> {
    let values = common::values("cache.values.safetensors");
    let token = |n: i64| {
        values["x"].slice_with(ops::Slice { dim: 1.into(), start: n.into(), stop: Some((n + 1).into()), ..d() })
    };
    let compiled = jit(|model: Model, x: Tensor| model.call([&x])).caching(Caching::Symbolic);
    for at_once in [true, false] {
        let call = |model: &Model, x: &Tensor| match at_once {
            true => model.call([x]),
            false => compiled.call((model.clone(), x.clone())),
        };
        // each import has buffers of its own
        let whole = model("cache.pt2");
        close("the prompt", &call(&whole, &values["x"])?[0], &values["y"], 1e-5);
        let steps = model("cache.pt2");
        let made = (0..8).map(|n| Ok(call(&steps, &token(n))?.remove(0))).collect::<Result<Vec<_>, Error>>()?;
        let cat = ops::cat_with(&made, ops::Cat { dim: 1.into() });
        close("one by one", &cat, &values["y"], 1e-5);
        for name in ["k", "v", "at"] {
            close(name, &steps.buffers()[name], &whole.buffers()[name], 1e-6);
        }
        assert_eq!(steps.buffers()["at"].item::<i64>()?, 8);
    }
    Ok(())
}

#[test]
fn writes_reach_what_shares_memory_in_pytorch() -> Result<(), Error> {
    let model = model("writes.train.pt2");
    let values = checkpoint::tensors(file("writes.values.safetensors")).expect("the values are committed");
    let compiled = jit(|model: Model, x: Tensor| model.call([&x]));
    for outputs in [model.call([&values["x"]])?, compiled.call((model, values["x"].clone()))?] {
        assert_eq!(outputs.len(), 10);
        for (n, found) in outputs.iter().enumerate() {
            close(&format!("out{n}"), found, &values[&format!("out{n}")], 1e-6);
        }
    }
    Ok(())
}

#[test]
fn a_write_to_a_part_of_a_split_tensor_is_refused() {
    let model = model("split.train.pt2");
    let x = Tensor::from_vec(vec![1f32; 12], [4, 3]);
    let refused = model.call([&x]).expect_err("the whole would not see the write");
    assert_eq!(refused.code(), "E936");
    assert!(refused.claim().starts_with("a write to a part") && refused.loc().file.ends_with("make.py"), "{refused}");
}

#[test]
fn a_program_that_was_exported_with_its_backward_gives_its_gradients() -> Result<(), Error> {
    let (model, values) = (model("digits.joint.pt2"), values());
    let results = model.run([&values["images"], &values["labels"]])?;
    let (logits, labels) = (&values["logits"], &values["labels"]);
    close("loss", results.loss.as_ref().expect("the program has a loss"), &loss(logits, labels), 1e-5);
    assert_eq!(results.gradients.len(), 10);
    for (name, gradient) in &results.gradients {
        let name = name.strip_prefix("net.").unwrap_or(name);
        close(name, gradient, &values[&format!("grad.{name}")], 5e-5);
    }
    Ok(())
}
