//! Random networks of layers as users write them, with weights, run in every way that keeps, shares or reuses memory:
//! called again with equal weights, with weights that were written or stepped in between, for other batches, in
//! batches of batches, differentiated with and without checkpoints, and in parts inside of choices, loops and other
//! compiled functions.
//!
//! All numbers are small integers, so that every order of a sum gives the exact result. The results in f32 must equal
//! those of single calls in f64.

mod combined;
mod spans;

use self::spans::Span;
use crate::rng::Rng;
use fulgurite::ops::{self, Conv, Sum};
use fulgurite::prelude::*;
use fulgurite::transforms::Remat;
use fulgurite::{Error, executors};
use std::fmt;
use std::sync::Arc;

/// Sums of terms up to this are exact in f32.
const EXACT: f64 = 8_388_608.0;
/// bf16 has all whole numbers up to this.
const NARROW: f64 = 256.0;
/// The largest input, and the largest weight after all writes and steps.
const INPUT: f64 = 2.0;
const WEIGHT: f64 = 6.0;
/// Weights at first.
const FRESH: i64 = 1;
/// A clamped value, and a number that is added.
const NEAR: f64 = 3.0;
/// At most this many multiplications of a layer for each sample.
const WORK: usize = 1 << 19;

const FEATURES: [usize; 8] = [1, 3, 16, 17, 33, 64, 96, 200];
const STEPS: [usize; 5] = [1, 2, 5, 16, 37];
const CHANNELS: [usize; 6] = [1, 3, 16, 32, 48, 20];
const PIXELS: [usize; 6] = [1, 4, 7, 8, 14, 17];
const BATCHES: [usize; 6] = [1, 2, 3, 5, 8, 16];

/// A layer; numbers are those of weights.
#[derive(Clone, Copy, Debug)]
enum Layer {
    /// Every feature of the last axis from all of them, by weights that are stored by result, perhaps with a bias.
    Linear(usize, Option<usize>),
    /// The product with weights that are stored by input.
    Product(usize),
    /// A convolution with this stride, padding and number of groups, perhaps with a bias.
    Windows(usize, Option<usize>, [usize; 3]),
    /// Largest elements of windows of two by two.
    Pool,
    /// The factors of the last axis.
    Scale(usize),
    Relu,
    Abs,
    Negate,
    Clamp,
    /// A number is added.
    Shift,
    /// The value before this layer, of an equal shape, is added.
    Residual(usize),
    /// The last two axes change places.
    Turn,
    /// The axes of a sample become one.
    Flatten,
    /// Sums along the last axis, which is kept.
    Total,
    /// Sums of the elements up to each, along the last axis.
    Running,
}

/// A network with its weights and two sets of inputs, which differ in the size of the batch.
pub struct RandomLayers {
    layers: Vec<Layer>,
    /// The sizes of a sample before each layer, and after the last one.
    shapes: Vec<Vec<usize>>,
    weights: Vec<Numbers>,
    inputs: [Numbers; 2],
    /// The cotangents of the results.
    signs: [Numbers; 2],
    /// What is added to weights that are written.
    added: Vec<Numbers>,
    threads: usize,
    /// Whether bf16 has all its numbers.
    small: bool,
    /// Parts that run inside of choices, loops and the like.
    spans: Vec<Span>,
}

#[derive(Clone)]
struct Numbers {
    shape: Vec<usize>,
    all: Vec<f64>,
}

impl Numbers {
    fn draw(shape: Vec<usize>, most: i64, rng: &mut Rng) -> Numbers {
        // Most weights are zero, so that sums stay small.
        let all = (0..shape.iter().product()).map(|_| if rng.one_in(2) { 0.0 } else { rng.int(-most, most) as f64 });
        Numbers { all: all.collect(), shape }
    }

    fn tensor(&self, dtype: DType) -> Tensor {
        Tensor::from_slice(&self.all, &self.shape).cast(dtype)
    }
}

/// A network under construction: a bound of its values, of what a result's cotangent becomes before each layer, and of
/// the numbers of terms of gradients.
struct Draft<'a> {
    network: RandomLayers,
    bounds: Vec<f64>,
    /// By how much each layer may enlarge a cotangent.
    factors: Vec<f64>,
    rng: &'a mut Rng,
}

impl fmt::Display for RandomLayers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "batches of {} and {}, {} threads",
            self.inputs[0].shape[0], self.inputs[1].shape[0], self.threads
        )?;
        for (layer, shape) in self.layers.iter().zip(&self.shapes) {
            writeln!(f, "{shape:?} {layer:?}")?;
        }
        let weights: Vec<&Vec<usize>> = self.weights.iter().map(|w| &w.shape).collect();
        writeln!(f, "{:?}, weights {weights:?}", self.shapes.last())?;
        writeln!(f, "parts {:?}", self.spans)
    }
}

impl Draft<'_> {
    fn shape(&self) -> Vec<usize> {
        self.network.shapes.last().cloned().unwrap_or_default()
    }

    fn bound(&self) -> f64 {
        self.bounds.last().copied().unwrap_or(INPUT)
    }

    fn weight(&mut self, shape: Vec<usize>) -> usize {
        self.network.weights.push(Numbers::draw(shape, FRESH, self.rng));
        self.network.weights.len() - 1
    }

    fn bias(&mut self, size: usize) -> Option<usize> {
        self.rng.one_in(2).then(|| self.weight(vec![size]))
    }

    /// Adds a layer, unless its numbers or those of the gradient may be inexact then.
    fn add(&mut self) {
        let weights = self.network.weights.len();
        let Some((layer, shape, bound, factor)) = self.drawn() else { return self.network.weights.truncate(weights) };
        self.network.layers.push(layer);
        self.network.shapes.push(shape);
        self.bounds.push(bound);
        self.factors.push(factor);
        if !self.is_exact() {
            self.network.layers.pop();
            self.network.shapes.pop();
            self.bounds.pop();
            self.factors.pop();
            self.network.weights.truncate(weights);
        }
    }

    /// Whether all values and gradients are exact, for the larger batch.
    fn is_exact(&self) -> bool {
        let mut cotangent = 1.0;
        let batch = BATCHES.iter().max().copied().unwrap_or(1) as f64;
        let layers = self.factors.iter().enumerate().rev();
        let gradients = layers.map(|(at, factor)| {
            let terms = self.network.shapes[at + 1].iter().product::<usize>() as f64 * batch;
            let own = cotangent * self.bounds[at] * terms;
            cotangent *= factor;
            own.max(cotangent)
        });
        gradients.chain(self.bounds.iter().copied()).all(|most| most <= EXACT)
    }

    /// A layer, the sizes and the bound behind it, and its factor.
    fn drawn(&mut self) -> Option<(Layer, Vec<usize>, f64, f64)> {
        let (shape, bound) = (self.shape(), self.bound());
        let (rest, last) = (&shape[..shape.len() - 1], *shape.last()?);
        let with_last = |n: usize| [rest, &[n]].concat();
        let count: usize = shape.iter().product();
        Some(match self.rng.below(20) {
            0..=3 if shape.len() < 3 => {
                let to = *self.rng.pick(&FEATURES);
                if count * to > WORK {
                    return None;
                }
                let layer = match self.rng.one_in(3) {
                    true => Layer::Product(self.weight(vec![last, to])),
                    false => Layer::Linear(self.weight(vec![to, last]), self.bias(to)),
                };
                (layer, with_last(to), WEIGHT * (bound * last as f64 + 1.0), WEIGHT * to as f64)
            }
            0..=6 if shape.len() == 3 => {
                let [channels, pixels] = [shape[0], shape[1]];
                let single = self.rng.one_in(2);
                let to = if single { channels } else { *self.rng.pick(&CHANNELS) };
                let kernel = (*self.rng.pick(&[3, 1, 5, 2])).min(pixels).min(shape[2]);
                let (stride, padding) = (1 + self.rng.below(2), self.rng.below(kernel.min(3)));
                let inner = if single { 1 } else { channels };
                let size = |n: usize| (n + 2 * padding - kernel) / stride + 1;
                let made = vec![to, size(pixels), size(shape[2])];
                let terms = (inner * kernel * kernel) as f64;
                if made.iter().product::<usize>() * inner * kernel * kernel > WORK {
                    return None;
                }
                let weight = self.weight(vec![to, inner, kernel, kernel]);
                let groups = if single { channels } else { 1 };
                let layer = Layer::Windows(weight, self.bias(to), [stride, padding, groups]);
                let back = (to / groups * kernel * kernel) as f64;
                (layer, made, WEIGHT * (bound * terms + 1.0), WEIGHT * back)
            }
            7 if shape.len() == 3 && shape[1] > 1 && shape[2] > 1 => {
                (Layer::Pool, vec![shape[0], shape[1] / 2, shape[2] / 2], bound, 1.0)
            }
            8 => (Layer::Scale(self.weight(vec![last])), shape, bound * WEIGHT, WEIGHT),
            9 | 10 => (Layer::Relu, shape, bound, 1.0),
            11 => (*self.rng.pick(&[Layer::Abs, Layer::Negate]), shape, bound, 1.0),
            12 => (Layer::Clamp, shape, bound.min(NEAR), 1.0),
            13 => (Layer::Shift, shape, bound + NEAR, 1.0),
            14 | 15 => {
                let same: Vec<usize> =
                    (0..self.network.layers.len()).filter(|at| self.network.shapes[*at] == shape).collect();
                let at = *same.get(self.rng.below(same.len().max(1)))?;
                // What is added has a gradient of its own, which the layers between enlarge too.
                (Layer::Residual(at), shape, bound + self.bounds[at], 2.0)
            }
            16 if shape.len() > 1 => {
                let mut turned = shape.clone();
                let n = turned.len();
                turned.swap(n - 2, n - 1);
                (Layer::Turn, turned, bound, 1.0)
            }
            17 if shape.len() > 1 => (Layer::Flatten, vec![count], bound, 1.0),
            18 => (Layer::Total, with_last(1), bound * last as f64, 1.0),
            19 => (Layer::Running, shape, bound * last as f64, last as f64),
            _ => return None,
        })
    }
}

impl RandomLayers {
    /// A network of up to `most` layers.
    pub fn draw(rng: &mut Rng, most: usize) -> RandomLayers {
        let sample = match rng.below(3) {
            0 => vec![*rng.pick(&CHANNELS), *rng.pick(&PIXELS), *rng.pick(&PIXELS)],
            1 => vec![*rng.pick(&STEPS), *rng.pick(&FEATURES)],
            _ => vec![*rng.pick(&FEATURES)],
        };
        let batches = [*rng.pick(&BATCHES), *rng.pick(&BATCHES)];
        let of = |sample: &[usize], most: i64, rng: &mut Rng| {
            batches.map(|n| Numbers::draw([&[n], sample].concat(), most, rng))
        };
        let inputs = of(&sample, INPUT as i64, rng);
        let threads = 1 + rng.below(3);
        let network = RandomLayers {
            layers: Vec::new(),
            shapes: vec![sample],
            weights: Vec::new(),
            signs: inputs.clone(),
            inputs,
            added: Vec::new(),
            threads,
            small: false,
            spans: Vec::new(),
        };
        let mut draft = Draft { network, bounds: vec![INPUT], factors: Vec::new(), rng };
        let count = 1 + draft.rng.below(most);
        for _ in 0..4 * count {
            if draft.network.layers.len() < count {
                draft.add();
            }
        }
        let small = draft.bounds.iter().all(|bound| *bound <= NARROW);
        let (last, rng) = (draft.shape(), draft.rng);
        let mut network = draft.network;
        network.small = small;
        network.spans = Span::draw(rng, &network.layers, 0..network.layers.len(), 2);
        network.signs = of(&last, 1, rng);
        network.added = network.weights.iter().map(|w| Numbers::draw(w.shape.clone(), 1, rng)).collect();
        network
    }

    fn run(&self, weights: &[Tensor], x: &Tensor) -> Tensor {
        let mut values = vec![x.clone()];
        for layer in &self.layers {
            let x = values[values.len() - 1].clone();
            values.push(self.layer(*layer, weights, &x, &values));
        }
        values[values.len() - 1].clone()
    }

    fn layer(&self, layer: Layer, weights: &[Tensor], x: &Tensor, values: &[Tensor]) -> Tensor {
        let bias = |at: Option<usize>| at.map(|at| &weights[at]);
        match layer {
            Layer::Linear(w, b) => x.linear(&weights[w], bias(b)),
            Layer::Product(w) => ops::matmul(x, &weights[w]),
            Layer::Windows(w, b, [stride, padding, groups]) => {
                let options = Conv { stride: stride.into(), padding: padding.into(), groups: groups.into(), ..d() };
                x.conv_with(&weights[w], bias(b), options)
            }
            Layer::Pool => x.max_pool([2, 2]),
            Layer::Scale(w) => x * &weights[w],
            Layer::Relu => x.relu(),
            Layer::Abs => x.abs(),
            Layer::Negate => -x,
            Layer::Clamp => x.clamp(-NEAR, NEAR),
            Layer::Shift => x + NEAR,
            Layer::Residual(at) => x + &values[at],
            Layer::Turn => x.transpose(-2, -1),
            Layer::Flatten => x.reshape([x.shape()[0], (-1).into()]),
            Layer::Total => x.sum_with(Sum { dims: [-1].into(), keepdim: true, ..d() }),
            Layer::Running => x.cumsum(-1),
        }
    }
}

/// A network's weights and inputs, in f32 for the ways that are compared and in f64 for what they must give.
struct Ways {
    network: Arc<RandomLayers>,
    weights: Vec<Tensor>,
    wanted: Vec<Tensor>,
    /// By batch: the input and the cotangent.
    batches: [(Tensor, Tensor); 2],
    wanted_batches: [(Tensor, Tensor); 2],
}

/// The batches of calls, one after the other. Weights that stay have prepared copies from the second call on.
const CALLS: [usize; 6] = [0, 0, 1, 0, 1, 1];

/// Copies in memory of their own, in which they may be written.
fn copies(all: &[Tensor]) -> Vec<Tensor> {
    all.iter().map(Tensor::copy).collect()
}

/// The gradients by the weights, and by the input as the last.
fn gradients(
    weights: &[Tensor],
    (x, signs): (&Tensor, &Tensor),
    run: impl Fn(&[Tensor], &Tensor) -> Tensor,
) -> Vec<Tensor> {
    let all: Vec<Tensor> = weights.iter().chain([x]).cloned().collect();
    grad(&all, |all: &Vec<Tensor>| all.split_last().map_or(x.sum(), |(x, weights)| (run(weights, x) * signs).sum()))
}

/// A step against the gradient after which weights are whole numbers.
fn stepped(weights: &[Tensor], gradients: &[Tensor]) -> Vec<Tensor> {
    weights.iter().zip(gradients).map(|(w, g)| w - g.sign()).collect()
}

/// Compares what a way gives with what it must give.
fn compare(what: &str, got: Result<Vec<Tensor>, Error>, want: &[Tensor]) -> Result<(), String> {
    let numbers = |all: Vec<Tensor>| all.iter().map(Tensor::to_f64).collect::<Result<Vec<_>, _>>();
    let got = got.and_then(numbers).map_err(|e| format!("{what}: {e}"))?;
    let want = numbers(want.to_vec()).map_err(|e| format!("single calls in f64: {e}"))?;
    for (n, (got, want)) in got.iter().zip(&want).enumerate() {
        if let Some(at) = (0..got.len().max(want.len())).find(|at| got.get(*at) != want.get(*at)) {
            return Err(format!("{what}: element {at} of result {n} is {:?}, not {:?}", got.get(at), want.get(at)));
        }
    }
    match got.len() == want.len() {
        true => Ok(()),
        false => Err(format!("{what}: there are {} results, not {}", got.len(), want.len())),
    }
}

impl RandomLayers {
    /// Compares all ways with single calls in f64.
    ///
    /// # Errors
    /// The first way that differs.
    pub fn agrees(self: &Arc<RandomLayers>) -> Result<(), String> {
        executors::set_threads(self.threads);
        let all = |all: &[Numbers], dtype: DType| all.iter().map(|w| w.tensor(dtype)).collect::<Vec<_>>();
        let batches = |dtype: DType| [0, 1].map(|n| (self.inputs[n].tensor(dtype), self.signs[n].tensor(dtype)));
        let ways = Ways {
            network: self.clone(),
            weights: all(&self.weights, DType::F32),
            wanted: all(&self.weights, DType::F64),
            batches: batches(DType::F32),
            wanted_batches: batches(DType::F64),
        };
        ways.repeated(Caching::Constant)?;
        ways.repeated(Caching::Symbolic)?;
        ways.captured()?;
        ways.writing()?;
        ways.differentiated()?;
        ways.batched()?;
        ways.stepped()?;
        ways.combined()?;
        if self.small { ways.narrow() } else { Ok(()) }
    }
}

impl Ways {
    /// The results of single calls in f64 for these weights.
    fn value(&self, weights: &[Tensor], batch: usize) -> Tensor {
        self.network.run(weights, &self.wanted_batches[batch].0)
    }

    fn gradients(&self, weights: &[Tensor], batch: usize) -> Vec<Tensor> {
        let (x, signs) = &self.wanted_batches[batch];
        gradients(weights, (x, signs), |w, x| self.network.run(w, x))
    }

    /// Writes weights in place: all of one, a part of the next, or other elements.
    fn write(&self, weights: &[Tensor]) -> Result<(), String> {
        for (at, (w, added)) in weights.iter().zip(&self.network.added).enumerate() {
            let added = added.tensor(w.dtype());
            let written = match at % 3 {
                0 => w.add_(&added),
                1 => w.select(0, 0).add_(added.select(0, 0)),
                _ => w.copy_(&added),
            };
            written.check().map_err(|e| format!("a weight is written: {e}"))?;
        }
        Ok(())
    }

    /// Calls with equal weights, then with weights that were written.
    fn repeated(&self, caching: Caching) -> Result<(), String> {
        let network = self.network.clone();
        let f = jit(move |weights: Vec<Tensor>, x: Tensor| network.run(&weights, &x)).caching(caching);
        let (weights, wanted) = (copies(&self.weights), copies(&self.wanted));
        for round in 0..2 {
            for batch in CALLS {
                let got = f.call((weights.clone(), self.batches[batch].0.clone()));
                let what = format!("compiled with {caching:?} sizes, batch {batch}, weights written {round} times");
                compare(&what, got.map(|y| vec![y]), &[self.value(&wanted, batch)])?;
            }
            self.write(&weights)?;
            self.write(&wanted)?;
        }
        Ok(())
    }

    /// Weights that a compiled function captures.
    fn captured(&self) -> Result<(), String> {
        let (weights, wanted) = (copies(&self.weights), copies(&self.wanted));
        let (network, inside) = (self.network.clone(), weights.clone());
        let f = jit(move |x: Tensor| network.run(&inside, &x));
        for round in 0..2 {
            for batch in CALLS {
                let got = f.call(self.batches[batch].0.clone()).map(|y| vec![y]);
                let what = format!("with captured weights, written {round} times");
                compare(&what, got, &[self.value(&wanted, batch)])?;
            }
            self.write(&weights)?;
            self.write(&wanted)?;
        }
        Ok(())
    }

    /// A compiled function that writes its weights when it has read them.
    fn writing(&self) -> Result<(), String> {
        let (network, added) = (self.network.clone(), self.network.added.clone());
        let f = jit(move |weights: Vec<Tensor>, x: Tensor| {
            let y = network.run(&weights, &x);
            weights.iter().zip(&added).for_each(|(w, added)| _ = w.add_(added.tensor(DType::F32)));
            y
        });
        let (weights, mut wanted) = (copies(&self.weights), self.wanted.clone());
        for batch in [0, 0, 1] {
            let got = f.call((weights.clone(), self.batches[batch].0.clone())).map(|y| vec![y]);
            compare("a function that writes its weights", got, &[self.value(&wanted, batch)])?;
            wanted = wanted.iter().zip(&self.network.added).map(|(w, added)| w + added.tensor(DType::F64)).collect();
        }
        compare("weights that a function has written", Ok(weights), &wanted)
    }

    /// Gradients, with and without checkpoints, for all sizes at once too.
    fn differentiated(&self) -> Result<(), String> {
        let want = [0, 1].map(|batch| self.gradients(&self.wanted, batch));
        let ways = [
            ("gradient", Remat::Marked, false, Caching::Constant),
            ("gradient that keeps nothing", Remat::Bytes(0), false, Caching::Constant),
            ("gradient of a checkpoint, for symbolic sizes", Remat::Marked, true, Caching::Symbolic),
        ];
        for (what, remat, point, caching) in ways {
            let network = self.network.clone();
            let f = jit(move |weights: Vec<Tensor>, x: Tensor, signs: Tensor| {
                gradients(&weights, (&x, &signs), |w, x| match point {
                    true => checkpoint(|| network.run(w, x)),
                    false => network.run(w, x),
                })
            });
            let f = f.rematerialise(remat).caching(caching);
            for batch in CALLS {
                let (x, signs) = self.batches[batch].clone();
                compare(&format!("{what}, batch {batch}"), f.call((self.weights.clone(), x, signs)), &want[batch])?;
            }
        }
        Ok(())
    }

    /// Two batches at once, with shared weights and with weights for each, and the gradients of both.
    fn batched(&self) -> Result<(), String> {
        let two = |x: &Tensor| ops::stack(&[x.clone(), -x]);
        let (x, signs) = &self.batches[0];
        let (wanted_x, wanted_signs) = &self.wanted_batches[0];
        for own in [false, true] {
            let weights = if own { self.weights.iter().map(two).collect() } else { self.weights.clone() };
            let axes: Vec<Option<i64>> = weights.iter().map(|_| own.then_some(0)).chain([Some(0)]).collect();
            let all: Vec<Tensor> = weights.into_iter().chain([two(x)]).collect();
            let (network, signs) = (self.network.clone(), signs.clone());
            let f = jit(move |all: Vec<Tensor>| {
                let of_slice = |all: &Vec<Tensor>| {
                    let Some((x, weights)) = all.split_last() else { return Vec::new() };
                    let y = network.run(weights, x);
                    let gradients = gradients(weights, (x, &signs), |w, x| network.run(w, x));
                    [vec![y], gradients].concat()
                };
                vmap_with(&all, &axes, of_slice)
            });
            let turned: Vec<Tensor> = self.wanted.iter().map(|w| -w).collect();
            let alone = [(&self.wanted, wanted_x.clone()), (if own { &turned } else { &self.wanted }, -wanted_x)];
            let alone = alone.map(|(w, x)| {
                let gradients = gradients(w, (&x, wanted_signs), |w, x| self.network.run(w, x));
                [vec![self.network.run(w, &x)], gradients].concat()
            });
            let want: Vec<Tensor> =
                alone[0].iter().zip(&alone[1]).map(|(a, b)| ops::stack(&[a.clone(), b.clone()])).collect();
            for _ in 0..3 {
                let what = if own { "a batch with weights for each slice" } else { "a batch with shared weights" };
                compare(what, f.call(all.clone()), &want)?;
            }
        }
        Ok(())
    }

    /// Steps that replace their weights in place, between calls of another program with the same weights.
    fn stepped(&self) -> Result<(), String> {
        let network = self.network.clone();
        let step = jit(move |weights: Vec<Tensor>, (x, signs): (Tensor, Tensor)| {
            let gradients = gradients(&weights, (&x, &signs), |w, x| network.run(w, x));
            (stepped(&weights, &gradients), network.run(&weights, &x))
        });
        let network = self.network.clone();
        let f = jit(move |weights: Vec<Tensor>, x: Tensor| network.run(&weights, &x));
        let (mut weights, mut wanted) = (copies(&self.weights), self.wanted.clone());
        for batch in [0, 1, 0] {
            let y = step.update(&mut weights, self.batches[batch].clone());
            compare("the result of a step", y.map(|y| vec![y]), &[self.value(&wanted, batch)])?;
            wanted = stepped(&wanted, &self.gradients(&wanted, batch));
            compare("weights after a step", Ok(weights.clone()), &wanted)?;
            for _ in 0..3 {
                let got = f.call((weights.clone(), self.batches[0].0.clone())).map(|y| vec![y]);
                compare("between steps", got, &[self.value(&wanted, 0)])?;
            }
        }
        Ok(())
    }

    /// In bf16, which has all numbers of the network.
    fn narrow(&self) -> Result<(), String> {
        let network = self.network.clone();
        let f = jit(move |weights: Vec<Tensor>, x: Tensor| autocast(DType::BF16, || network.run(&weights, &x)));
        for batch in CALLS {
            let got = f.call((self.weights.clone(), self.batches[batch].0.clone())).map(|y| vec![y]);
            compare("with autocast", got, &[self.value(&self.wanted, batch)])?;
        }
        self.narrow_parts()
    }
}
