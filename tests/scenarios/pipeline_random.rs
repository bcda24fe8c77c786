//! S3 on programs that nobody chose: random graphs of parameters and inputs, random absent cotangents, random cuts.

use super::pipeline::{Grads, data, disjoint, grads, interp, matrix, values};
use fulgurite::pipeline::{Accumulate, Cut, Model, Policy, Stage, run};
use fulgurite::prelude::*;
use fulgurite::schedule::Generator;

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

/// What the lines of a program are: an operator and the numbers of its two arguments.
#[derive(Clone, Debug)]
struct Program {
    lines: Vec<(usize, usize, usize)>,
    outputs: Vec<usize>,
}

const PARAMS: usize = 3;
const INPUTS: usize = 2;

impl Program {
    fn new(dice: &mut Dice) -> Program {
        let count = 4 + dice.roll(10);
        let start = PARAMS + INPUTS;
        let line = |i: usize, dice: &mut Dice| (dice.roll(9), dice.roll(start + i), dice.roll(start + i));
        let lines = (0..count).map(|i| line(i, dice)).collect();
        // one output is any value, an input or a parameter too
        let outputs = vec![start + count - 1, start + dice.roll(count), dice.roll(start + count)];
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

fn tensors(count: usize, seed: u64) -> Vec<Tensor> {
    (0..count as u64).map(|i| matrix(4, 4, 97 * seed + i)).collect()
}

/// B, I and W, and the fewest bytes give what the gradient of the whole program gives, whatever cotangents are absent.
#[test]
fn s3_random_programs() {
    let mut dice = Dice(42);
    for seed in 0..60 {
        let program = Program::new(&mut dice);
        let (params, inputs) = (tensors(PARAMS, seed), tensors(INPUTS, seed + 1000));
        let there: Vec<bool> = (0..3).map(|_| dice.roll(3) > 0).collect();
        let ct = tensors(3, seed + 2000);
        let zero = Tensor::from_vec(vec![0.0f32; 16], [4, 4]);
        let full: Vec<Tensor> = ct.iter().zip(&there).map(|(c, t)| if *t { c } else { &zero }.clone()).collect();
        let of = program.clone();
        let whole = jit(move |p: (Vec<Tensor>, Vec<Tensor>), ct: Vec<Tensor>| vjp(&p, &ct, |(p, x)| of.run(p, x)));
        let (_, (dp, dx)) = whole.on(interp()).call(((params.clone(), inputs.clone()), full)).unwrap();
        let given: Vec<Option<Tensor>> = ct.iter().zip(&there).map(|(c, t)| t.then(|| c.clone())).collect();
        for policy in [Policy::Values, Policy::MinBytes] {
            let of = program.clone();
            let f = move |p: Vec<Tensor>, x: Vec<Tensor>| of.run(&p, &x);
            let stage = Stage::of("random", f, &params, &inputs).unwrap().on(interp()).handing(policy);
            let (dx2, dp2): Grads = grads(&stage, &params, &inputs, given.clone());
            let halves = stage.halves(&there).unwrap();
            if policy == Policy::Values {
                disjoint(&halves);
            }
            for (have, want) in values(&dx2).iter().chain(&values(&dp2)).zip(dx.iter().chain(&dp)) {
                let have = have.clone().unwrap_or_else(|| vec![0.0; 16]);
                assert_eq!(have, data(want), "{program:?} {there:?}\n{halves}");
            }
        }
    }
}

/// Models cut anywhere: the loss and the gradients of the whole, under a schedule with I and W.
#[test]
fn s3_random_cuts() {
    let mut dice = Dice(7);
    for seed in 0..16 {
        let program = Program::new(&mut dice);
        let (params, inputs) = (tensors(PARAMS, seed), tensors(INPUTS, seed + 1000));
        let loss = |program: &Program, p: &[Tensor], x: &[Tensor]| {
            let [a, b, c] = &program.run(p, x)[..] else { panic!("three outputs") };
            (a * b + c).square().mean()
        };
        let want = grad(&params, |p| loss(&program, p, &inputs));
        let of = program.clone();
        let stages = 2 + dice.roll(3);
        let f = move |p: Vec<Tensor>, x: Vec<Tensor>| loss(&of, &p, &x);
        let model = Model::cut("random", f, &params, &inputs, Cut::Balanced(stages)).unwrap();
        assert_eq!(model.chain().stages().len(), stages);
        let s = Generator { kind: "zb1p", ranks: stages, micro_batches: 3, chunks: 1 }.make().unwrap();
        let mut feed = |stage: usize, _: usize| Ok(model.feed(stage, &inputs));
        let done = run(model.chain(), &s, |s| model.params(s, &params), Accumulate::Arrival, &mut feed);
        let done = done.unwrap_or_else(|e| panic!("{e}\n{program:?}"));
        for (have, want) in model.grads(&done).iter().zip(&want) {
            let have = have.as_ref().map_or_else(|| vec![0.0; 16], data);
            let near = |(a, b): (&f64, f64)| (a - b).abs() < 1e-4 * (1.0 + b.abs());
            assert!(have.iter().zip(data(want)).all(near), "{program:?} {have:?} {want:?}");
        }
    }
}
