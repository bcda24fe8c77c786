//! Cuts of random programs: random graphs of parameters and inputs, random absent cotangents, random cuts.

use super::pipeline::{Grads, data, disjoint, grads, interp, values};
use fulgurite::pipeline::{Accumulate, Cut, Handover, Stage, StagedModel, run};
use fulgurite::prelude::*;
use fulgurite::schedule::Generator;
use fulgurite_tests::draws::{self, Property, Verdict};
use fulgurite_tests::rng::Rng;
use std::fmt;

/// What the lines of a program are: an operator and the numbers of its two arguments.
#[derive(Clone, Debug)]
struct Program {
    lines: Vec<(usize, usize, usize)>,
    outputs: Vec<usize>,
}

const PARAMS: usize = 3;
const INPUTS: usize = 2;

impl Program {
    fn draw(rng: &mut Rng) -> Program {
        let count = 4 + rng.below(10);
        let start = PARAMS + INPUTS;
        let lines = (0..count).map(|i| (rng.below(9), rng.below(start + i), rng.below(start + i))).collect();
        // one output is any value, an input or a parameter too
        let outputs = vec![start + count - 1, start + rng.below(count), rng.below(start + count)];
        Program { lines, outputs }
    }

    fn run(&self, params: &[Tensor], inputs: &[Tensor]) -> Vec<Tensor> {
        let mut values: Vec<Tensor> = params.iter().chain(inputs).cloned().collect();
        for (i, &(op, a, b)) in self.lines.iter().enumerate() {
            let (a, b) = (values[a].clone(), values[b].clone());
            let made = || match op {
                0 => &a * &b,
                1 => &a + &b,
                2 => a.matmul(&b) * 0.5,
                3 => a.tanh(),
                4 => a.transpose(0, 1),
                5 => a.softmax(1) - &b,
                6 => {
                    let [left, right] = a.chunk_with(ops::Chunk { dim: 1.into() });
                    ops::cat_with(&[right, left], ops::Cat { dim: 1.into() }) * &b
                }
                7 => &a * b.detach(),
                _ => a.layer_norm(None, None, [4]) + b.sigmoid(),
            };
            values.push(named(&format!("line[{i}]"), made));
        }
        self.outputs.iter().map(|i| values[*i].clone()).collect()
    }
}

/// A program, what it is given, and one choice more for each property.
struct Case<T> {
    program: Program,
    choice: T,
    params: Vec<Tensor>,
    inputs: Vec<Tensor>,
    cotangents: Vec<Tensor>,
}

impl<T> Case<T> {
    /// The program and the choice are of the first words, which can become smaller one by one.
    fn draw(rng: &mut Rng, choice: impl Fn(&mut Rng) -> T) -> Case<T> {
        let (program, choice) = (Program::draw(rng), choice(rng));
        let mut tensors = |count: usize| (0..count).map(|_| tensor(rng)).collect();
        let (params, inputs, cotangents) = (tensors(PARAMS), tensors(INPUTS), tensors(3));
        Case { program, choice, params, inputs, cotangents }
    }
}

impl<T: fmt::Debug> fmt::Display for Case<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { program, choice, .. } = self;
        write!(f, "{program:?} with {choice:?}")
    }
}

fn tensor(rng: &mut Rng) -> Tensor {
    Tensor::from_vec((0..16).map(|_| rng.float(-1.0, 1.0) as f32).collect(), [4, 4])
}

/// Holds a property of `cases` programs. A program whose check panics is shrunk as one whose check fails.
fn hold<T: fmt::Debug>(
    name: &str,
    cases: usize,
    choice: impl Fn(&mut Rng) -> T,
    check: impl Fn(&Case<T>) -> Result<(), String>,
) {
    let property = Property { name, test: "--test scenarios", cases, shrinks: true };
    let drawn = |_: usize, rng: &mut Rng| Some(Case::draw(rng, &choice));
    let held = draws::hold(&property, drawn, |case, _| check(case).map(|()| Verdict::Held));
    held.unwrap_or_else(|fault| panic!("{fault}"));
}

/// B, I and W, and the fewest bytes give what the gradient of the whole program gives, whatever cotangents are absent.
#[test]
fn s3_random_programs() {
    let some = |rng: &mut Rng| (0..3).map(|_| !rng.one_in(3)).collect::<Vec<_>>();
    hold("pipeline_random::s3_random_programs", 60, some, |case| {
        let Case { program, choice: there, params, inputs, cotangents } = case;
        let zero = Tensor::from_vec(vec![0.0f32; 16], [4, 4]);
        let full = cotangents.iter().zip(there).map(|(c, t)| if *t { c } else { &zero }.clone()).collect();
        let of = program.clone();
        let whole = jit(move |p: (Vec<Tensor>, Vec<Tensor>), ct: Vec<Tensor>| vjp(&p, &ct, |(p, x)| of.run(p, x)));
        let done = whole.on(interp()).call(((params.clone(), inputs.clone()), full));
        let (_, (dp, dx)) = done.map_err(|e| e.to_string())?;
        let given: Vec<Option<Tensor>> = cotangents.iter().zip(there).map(|(c, t)| t.then(|| c.clone())).collect();
        for policy in [Handover::Values, Handover::MinBytes] {
            let of = program.clone();
            let f = move |p: Vec<Tensor>, x: Vec<Tensor>| of.run(&p, &x);
            let stage = Stage::of("random", f, params, inputs).map_err(|e| e.to_string())?;
            let stage = stage.on(interp()).handing(policy);
            let (dx2, dp2): Grads = grads(&stage, params, inputs, given.clone());
            let backward_split = stage.backward_split(there).map_err(|e| e.to_string())?;
            if policy == Handover::Values {
                disjoint(&backward_split);
            }
            for (have, want) in values(&dx2).iter().chain(&values(&dp2)).zip(dx.iter().chain(&dp)) {
                let (have, want) = (have.clone().unwrap_or_else(|| vec![0.0; 16]), data(want));
                if have != want {
                    return Err(format!("{policy:?} gives {have:?}, the whole gradient {want:?}\n{backward_split}"));
                }
            }
        }
        Ok(())
    });
}

/// Models cut anywhere: the loss and the gradients of the whole, under a schedule with I and W.
#[test]
fn s3_random_cuts() {
    let stages = |rng: &mut Rng| 2 + rng.below(3);
    hold("pipeline_random::s3_random_cuts", 16, stages, |case| {
        let Case { program, choice: stages, params, inputs, .. } = case;
        let loss = |program: &Program, p: &[Tensor], x: &[Tensor]| {
            let [a, b, c] = &program.run(p, x)[..] else { panic!("three outputs") };
            (a * b + c).square().mean()
        };
        let want = grad(params, |p| loss(program, p, inputs));
        let of = program.clone();
        let f = move |p: Vec<Tensor>, x: Vec<Tensor>| loss(&of, &p, &x);
        let model = StagedModel::cut("random", f, params, inputs, Cut::Balanced(*stages)).map_err(|e| e.to_string())?;
        assert_eq!(model.chain().stages().len(), *stages);
        let s = Generator { kind: "zb1p", ranks: *stages, micro_batches: 3, chunks: 1 }.make();
        let s = s.map_err(|e| e.to_string())?;
        let mut feed = |stage: usize, _: usize| Ok(model.feed(stage, inputs));
        let done = run(model.chain(), &s, |s| model.params(s, params), Accumulate::Arrival, &mut feed);
        let done = done.map_err(|e| e.to_string())?;
        for (have, want) in model.grads(&done).iter().zip(&want) {
            let have = have.as_ref().map_or_else(|| vec![0.0; 16], data);
            let near = |(a, b): (&f64, f64)| (a - b).abs() < 1e-4 * (1.0 + b.abs());
            if !have.iter().zip(data(want)).all(near) {
                return Err(format!("stages give {have:?}, the whole {want:?}"));
            }
        }
        Ok(())
    });
}
