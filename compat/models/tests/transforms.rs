//! A model is a function of tensors: it is batched, cut into stages, run in other precisions, quantised and saved.

mod common;

use common::{close, model};
use fulgurite::executors::Executor;
use fulgurite::executors::interp::Interp;
use fulgurite::pipeline::{Accumulate, Cut, Stage, StageRun, StagedModel, run};
use fulgurite::prelude::*;
use fulgurite::schedule::Generator;
use fulgurite::{Tree, checkpoint as files, ops};
use fulgurite_models::{Model, WeightIntegers};
use std::collections::BTreeMap;
use std::sync::Arc;

type Params = BTreeMap<String, Tensor>;

fn values() -> Params {
    common::values("digits.values.safetensors")
}

fn bits(x: &Tensor) -> Vec<u32> {
    x.to_vec::<f32>().expect("floats in memory").iter().map(|x| x.to_bits()).collect()
}

fn temporary(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("fulgurite-transforms-{}-{name}.safetensors", std::process::id()))
}

#[test]
fn parameters_and_buffers_are_saved_under_the_names_of_pytorch() -> Result<(), Error> {
    let (path, model) = (temporary("saved"), model("digits.pt2"));
    model.save(&path)?;
    let written = files::tensors(&path)?;
    let names: Vec<&String> = written.keys().collect();
    let mut expected: Vec<&String> = model.params().keys().chain(model.buffers().keys()).collect();
    expected.sort();
    assert_eq!(names, expected);
    let nothing = |map: &Params| map.iter().map(|(name, x)| (name.clone(), zeros_like(x))).collect::<Params>();
    let empty = model.with(&nothing(model.params())).with_buffers(&nothing(model.buffers()));
    let images = values()["images"].clone();
    assert_ne!(bits(&empty.call([&images])?[0]), bits(&model.call([&images])?[0]));
    assert_eq!(bits(&empty.load(&path)?.call([&images])?[0]), bits(&model.call([&images])?[0]));
    // a file of another model is refused with its differences, and nothing is loaded
    files::save(&path, model.params())?;
    let refused = model.load(&path).expect_err("the buffers are not in the file");
    assert!(refused.code() == "E905" && refused.to_string().contains("running_mean"), "{refused}");
    std::fs::remove_file(&path).expect("the file was written");
    Ok(())
}

#[test]
fn weights_in_integers_give_nearly_the_same_logits() -> Result<(), Error> {
    let images = values()["images"].clone();
    // `addmm` of a transposed weight, `linear`, and ONNX's product with the columns of one
    for (name, weight) in
        [("digits.pt2", "head.weight"), ("digits.train.pt2", "head.weight"), ("digits.onnx", "permute")]
    {
        let model = model(name);
        let plain = model.call([&images])?[0].clone();
        for (integers, share) in [(WeightIntegers::Int8, 0.02), (WeightIntegers::Int4, 0.2)] {
            let small = model.quantise(integers)?;
            let rounded: Vec<&str> =
                small.params().iter().filter(|(_, w)| w.class().is_some()).map(|(name, _)| name.as_str()).collect();
            assert_eq!(rounded, [weight], "{name}");
            let at_once = small.call([&images])?[0].clone();
            assert_ne!(bits(&at_once), bits(&plain));
            close("integers", &at_once, &plain, share);
            let compiled = jit(|model: Model, images: Tensor| model.call([&images]));
            close("compiled", &compiled.call((small.clone(), images.clone()))?[0], &at_once, 1e-5);
            // they are saved by their parts
            let path = temporary(name);
            small.save(&path)?;
            let loaded = model.quantise(integers)?.load(&path)?;
            assert_eq!(bits(&loaded.call([&images])?[0]), bits(&at_once));
            assert!(files::tensors(&path)?.contains_key(&format!("{weight}.q")));
            std::fs::remove_file(&path).expect("the file was written");
        }
    }
    Ok(())
}

#[test]
fn gradients_pass_weights_in_integers_and_do_not_reach_them() -> Result<(), Error> {
    let (model, images) = (model("digits.pt2").quantise(WeightIntegers::Int8)?, values()["images"].clone());
    let (_, gradient) = try_value_and_grad(&images, |images| Ok::<_, Error>(model.call([images])?[0].sum()))?;
    // the gradient is that of the weight that stands for the integers
    let mut plain = model.params().clone();
    plain.insert("head.weight".to_owned(), model.params()["head.weight"].plain());
    let (_, expected) =
        try_value_and_grad(&images, |images| Ok::<_, Error>(model.with(&plain).call([images])?[0].sum()))?;
    close("by the images", &gradient, &expected, 1e-5);
    let by_weight =
        try_value_and_grad(model.params(), |params| Ok::<_, Error>(model.with(params).call([&images])?[0].sum()));
    let refused = by_weight.expect_err("integers have no gradient");
    assert_eq!(refused.code(), "E711", "{refused}");
    Ok(())
}

#[test]
fn transforms_of_plain_tensors_refuse_weights_in_integers() -> Result<(), Error> {
    let (model, images) = (model("digits.pt2").quantise(WeightIntegers::Int8)?, values()["images"].clone());
    let apart = images.reshape([16, 1, 1, 8, 8]);
    let refused = vmap(&apart, |x| Ok::<_, Error>(model.call([x])?.remove(0))).expect_err("a product of a class");
    assert_eq!(refused.code(), "E726", "{refused}");
    let refused = model.stages([&images], Cut::Balanced(2)).expect_err("a class");
    assert_eq!(refused.code(), "E756", "{refused}");
    Ok(())
}

#[test]
fn a_model_without_products_is_not_quantised() {
    let refused = model("control.pt2").quantise(WeightIntegers::Int8).expect_err("it has no weight");
    assert_eq!(refused.code(), "E936");
    assert!(refused.to_string().contains("no matrix of floats"), "{refused}");
}

/// The outputs of the stages for a micro-batch, one stage after the other.
fn forward<X: Tree>(staged: &StagedModel, params: &Params, batch: &X) -> Result<Vec<Tensor>, Error> {
    let mut carried = Vec::new();
    for (number, stage) in staged.chain().stages().iter().enumerate() {
        let mut run = StageRun::new(stage, number, &staged.params(number, params), 1)?;
        carried.extend(staged.feed(number, batch));
        carried = run.forward(0, &carried)?;
    }
    Ok(carried)
}

#[test]
fn stages_give_the_bits_of_the_model() -> Result<(), Error> {
    let (model, values) = (model("digits.pt2"), values());
    let batch = vec![values["images"].clone()];
    let whole = jit(|model: Model, images: Tensor| model.call([&images]));
    let logits = bits(&whole.call((model.clone(), batch[0].clone()))?[0]);
    for (cut, count) in [(Cut::Balanced(2), 2), (Cut::Balanced(3), 3), (Cut::At(&["block2", "head"]), 3)] {
        let staged = model.stages(&batch, cut)?;
        assert_eq!(staged.chain().stages().len(), count);
        assert_eq!(bits(&forward(&staged, model.params(), &batch)?[0]), logits);
    }
    Ok(())
}

/// The losses of four micro-batches and the mean gradients: by the schedule of a pipeline, and of the whole model.
#[test]
fn stages_give_the_losses_and_gradients_of_the_model() -> Result<(), Error> {
    let (model, values) = (model("digits.pt2"), values());
    let part = |n: usize, x: &Tensor| {
        let n = n as i64;
        x.slice_with(ops::Slice { start: (4 * n).into(), stop: Some((4 * n + 4).into()), ..d() })
    };
    let batch = |n: usize| (part(n, &values["images"]), part(n, &values["labels"]));
    let loss = |model: Model, (images, labels): (Tensor, Tensor)| {
        Ok::<_, Error>(model.call([&images])?[0].cross_entropy(&labels, None))
    };
    let schedule = Generator { kind: "1f1b", ranks: 2, micro_batches: 4, chunks: 1 }.make()?;
    let trained = |staged: &StagedModel| {
        let params = |stage: usize| staged.params(stage, model.params());
        let mut feed = |stage: usize, n: usize| Ok(staged.feed(stage, &batch(n)));
        run(staged.chain(), &schedule, params, Accumulate::ByMicroBatch, &mut feed)
    };
    let step = |executors: Vec<Arc<dyn Executor>>| {
        let of = move |model: Model, images: Tensor, labels: Tensor| {
            try_value_and_grad(model.params(), |params| loss(model.with(params), (images.clone(), labels.clone())))
        };
        let step = if executors.is_empty() { jit(of) } else { jit(of).on(executors) };
        let (mut losses, mut sums) = (Vec::new(), Params::new());
        for n in 0..4 {
            let (images, labels) = batch(n);
            let (value, gradients) = step.call((model.clone(), images, labels))?;
            losses.push(value);
            for (name, gradient) in gradients {
                let sum = sums.get(&name).map_or_else(|| gradient.clone(), |sum| sum + &gradient);
                sums.insert(name, sum);
            }
        }
        Ok::<_, Error>((losses, sums))
    };
    // the interpreter runs line by line: the bits are the same
    let interp: Vec<Arc<dyn Executor>> = vec![Arc::new(Interp)];
    let of = |params: Params, batch: (Tensor, Tensor)| loss(model.with(&params), batch);
    let on = |stage: Stage| Ok(stage.on(interp.clone()));
    let staged = StagedModel::cut_with("digits", of, model.params(), &batch(0), Cut::Balanced(2), on)?;
    let (done, (losses, sums)) = (trained(&staged)?, step(interp.clone())?);
    for (n, value) in losses.iter().enumerate() {
        assert_eq!(bits(&done[1].outputs[&n][0]), bits(value), "the loss of micro-batch {n}");
    }
    for ((name, sum), found) in sums.iter().zip(staged.grads(&done)) {
        let found = found.unwrap_or_else(|| panic!("{name} has a gradient"));
        assert_eq!(bits(&found), bits(&(sum / 4.0)), "{name}");
    }
    // the executor of the CPU fuses other lines of a stage than of the whole
    let staged = model.stages_of(&batch(0), Cut::Balanced(2), loss)?;
    let (done, (losses, sums)) = (trained(&staged)?, step(Vec::new())?);
    for (n, value) in losses.iter().enumerate() {
        close("loss", &done[1].outputs[&n][0], value, 1e-6);
    }
    for ((name, sum), found) in sums.iter().zip(staged.grads(&done)) {
        close(name, &found.expect("it has a gradient"), &(sum / 4.0), 2e-6);
    }
    Ok(())
}

#[test]
fn buffers_are_written_by_the_stage_that_has_them() -> Result<(), Error> {
    let (model, values) = (model("digits.train.pt2"), values());
    let batch = vec![values["images"].clone()];
    let staged = model.stages(&batch, Cut::Balanced(2))?;
    close("logits", &forward(&staged, model.params(), &batch)?[0], &values["logits.train"], 1e-5);
    for (name, buffer) in model.buffers() {
        close(name, buffer, &values[&format!("after.{name}")], 1e-5);
    }
    Ok(())
}

#[test]
fn inputs_and_ensembles_are_batched() -> Result<(), Error> {
    let (model, images) = (model("digits.pt2"), values()["images"].clone());
    let whole = model.call([&images])?[0].clone();
    // sixteen batches of one image
    let apart = images.reshape([16, 1, 1, 8, 8]);
    for compiled in [false, true] {
        let map = |model: Model, images: Tensor| vmap(&images, |x| Ok::<_, Error>(model.call([x])?.remove(0)));
        let logits = match compiled {
            true => jit(map).call((model.clone(), apart.clone()))?,
            false => map(model.clone(), apart.clone())?,
        };
        close("one by one", &logits.reshape([16, 10]), &whole, 1e-5);
    }
    // three models with different parameters on the same images
    let scaled = |factor: f64| model.params().iter().map(|(name, w)| (name.clone(), w * factor)).collect::<Params>();
    let members: Vec<Params> = [1.0, 0.5, 2.0].into_iter().map(scaled).collect();
    let stacked: Params = model
        .params()
        .keys()
        .map(|name| (name.clone(), ops::stack(&members.iter().map(|p| p[name].clone()).collect::<Vec<_>>())))
        .collect();
    let all = vmap(&stacked, |params| Ok::<_, Error>(model.with(params).call([&images])?.remove(0)))?;
    for (n, params) in members.iter().enumerate() {
        let expected = model.with(params).call([&images])?.remove(0);
        close(&format!("member {n}"), &all.select(0, n as i64), &expected, 1e-5);
    }
    // the gradient of each member, at once
    let gradients = vmap(&stacked, |params| {
        try_value_and_grad(params, |params| Ok::<_, Error>(model.with(params).call([&images])?[0].square().mean()))
    })?;
    let (_, one) = try_value_and_grad(&members[2], |params| {
        Ok::<_, Error>(model.with(params).call([&images])?[0].square().mean())
    })?;
    for (name, gradient) in &one {
        close(name, &gradients.1[name].select(0, 2), gradient, 5e-5);
    }
    Ok(())
}

#[test]
fn products_compute_in_the_dtype_of_autocast() -> Result<(), Error> {
    let (model, images) = (model("digits.pt2"), values()["images"].clone());
    let logits = model.call([&images])?[0].clone();
    let f = jit(|model: Model, images: Tensor| autocast(DType::BF16, || model.call([&images]))).keep_traces();
    let compiled = f.call((model.clone(), images.clone()))?[0].clone();
    let at_once = autocast(DType::BF16, || model.call([&images]))?[0].clone();
    for found in [&compiled, &at_once] {
        assert_eq!(found.dtype(), DType::BF16);
        let found = found.cast(DType::F32);
        assert_ne!(bits(&found), bits(&logits));
        close("in bf16", &found, &logits, 2e-2);
    }
    let trace = f.trace("acquired").expect("texts are kept");
    assert!(trace.contains("bf16["), "{trace}");
    Ok(())
}

#[test]
fn values_in_a_checkpoint_are_computed_again() -> Result<(), Error> {
    let (model, values) = (model("digits.pt2"), values());
    let step = |again: bool| {
        jit(move |model: Model, images: Tensor, labels: Tensor| {
            try_value_and_grad(model.params(), |params| {
                let run = || model.with(params).call([&images]);
                let logits = if again { checkpoint(run) } else { run() }?;
                Ok::<_, Error>(logits[0].cross_entropy(&labels, None))
            })
        })
        .keep_traces()
    };
    let (plain, again) = (step(false), step(true));
    let arguments = || (model.clone(), values["images"].clone(), values["labels"].clone());
    let ((loss, expected), (same, gradients)) = (plain.call(arguments())?, again.call(arguments())?);
    assert_eq!(bits(&loss), bits(&same));
    for (name, gradient) in &gradients {
        close(name, gradient, &expected[name], 1e-5);
    }
    assert!(again.trace("rematerialised").expect("texts are kept").contains("recompute of"));
    Ok(())
}
