//! Networks whose parts run inside of choices, loops, batches and compiled functions, run in the ways of programs: for one
//! size and for all, differentiated forward and backward, in batches, in steps that replace their weights, and as the
//! stages of a pipeline.

use super::spans::Parts;
use super::{CALLS, Numbers, Ways, compare, copies, gradients, stepped};
use fulgurite::ops;
use fulgurite::pipeline::{Accumulate, Cut, StagedModel, run};
use fulgurite::prelude::*;
use fulgurite::schedule::Generator;
use fulgurite::transforms::Remat;

/// The schedules that a network of two stages runs under.
const SCHEDULES: [&str; 3] = ["gpipe", "1f1b", "zb1p"];

impl Ways {
    /// A function of weights, the number 1 and a batch, which runs the network in parts. An error becomes that of its result.
    fn parts(&self) -> impl Fn(&[Tensor], &Tensor, &Tensor) -> Tensor + Clone + use<> {
        let network = self.network.clone();
        move |weights, one, x| Parts { network: &network, weights, one }.run(x).unwrap_or_else(Tensor::poisoned)
    }

    /// All ways of the network in parts.
    pub(super) fn combined(&self) -> Result<(), String> {
        for caching in [Caching::Constant, Caching::Symbolic] {
            self.parts_at_once_and_compiled(caching)?;
            self.parts_differentiated(caching)?;
        }
        self.parts_pulled_back()?;
        self.parts_along_tangents()?;
        self.parts_of_slices()?;
        self.parts_stepped()?;
        self.parts_in_stages()
    }

    fn parts_at_once_and_compiled(&self, caching: Caching) -> Result<(), String> {
        let (run, one) = (self.parts(), Tensor::from(1.0f32));
        let at_once = run(&self.weights, &one, &self.batches[0].0);
        compare("parts at once", Ok(vec![at_once]), &[self.value(&self.wanted, 0)])?;
        let f = jit(move |weights: Vec<Tensor>, one: Tensor, x: Tensor| run(&weights, &one, &x)).caching(caching);
        for batch in CALLS {
            let got = f.call((self.weights.clone(), one.clone(), self.batches[batch].0.clone())).map(|y| vec![y]);
            compare(&format!("parts with {caching:?} sizes, batch {batch}"), got, &[self.value(&self.wanted, batch)])?;
        }
        Ok(())
    }

    fn parts_differentiated(&self, caching: Caching) -> Result<(), String> {
        for remat in [Remat::Marked, Remat::Bytes(0)] {
            let run = self.parts();
            let f = jit(move |weights: Vec<Tensor>, one: Tensor, (x, signs): (Tensor, Tensor)| {
                gradients(&weights, (&x, &signs), |w, x| run(w, &one, x))
            });
            let f = f.caching(caching).rematerialise(remat);
            for batch in [0, 1, 0] {
                let got = f.call((self.weights.clone(), Tensor::from(1.0f32), self.batches[batch].clone()));
                let what = format!("gradient of parts with {caching:?} sizes and {remat:?}, batch {batch}");
                compare(&what, got, &self.gradients(&self.wanted, batch))?;
            }
        }
        Ok(())
    }

    /// Forward and backward as two programs.
    fn parts_pulled_back(&self) -> Result<(), String> {
        let run = self.parts();
        let f = jit(move |weights: Vec<Tensor>, one: Tensor, x: Tensor| run(&weights, &one, &x));
        for batch in [0, 1, 0] {
            let (x, signs) = self.batches[batch].clone();
            let pulled = f.pullback((self.weights.clone(), Tensor::from(1.0f32), x)).map_err(|e| e.to_string())?;
            compare("the forward of parts", Ok(vec![pulled.0]), &[self.value(&self.wanted, batch)])?;
            let got = pulled.1.run(&signs).map(|(weights, _, x)| [weights, vec![x]].concat());
            compare("the pullback of parts", got, &self.gradients(&self.wanted, batch))?;
        }
        Ok(())
    }

    /// The derivative along what is added to the weights, and along the batch itself.
    fn parts_along_tangents(&self) -> Result<(), String> {
        let run = self.parts();
        let added = |dtype: DType| self.network.added.iter().map(|n: &Numbers| n.tensor(dtype)).collect::<Vec<_>>();
        let f = jit(move |at: (Vec<Tensor>, Tensor), along: (Vec<Tensor>, Tensor), one: Tensor| {
            jvp(&at, &along, |(w, x)| run(w, &one, x)).map(|(y, dy)| vec![y, dy])
        });
        for batch in [0, 1] {
            let (x, wanted_x) = (self.batches[batch].0.clone(), self.wanted_batches[batch].0.clone());
            let (at, along) = ((self.wanted.clone(), wanted_x.clone()), (added(DType::F64), wanted_x));
            let want = jvp(&at, &along, |(w, x)| self.network.run(w, x));
            let (y, dy) = want.map_err(|e| format!("single calls in f64: {e}"))?;
            let got = f.call(((self.weights.clone(), x.clone()), (added(DType::F32), x), Tensor::from(1.0f32)));
            compare("the tangent of parts", got, &[y, dy])?;
        }
        Ok(())
    }

    /// The batch and its negative as slices, with their gradients.
    fn parts_of_slices(&self) -> Result<(), String> {
        let (run, (x, signs)) = (self.parts(), self.batches[0].clone());
        let f = jit(move |xs: Tensor, weights: Vec<Tensor>, one: Tensor| {
            vmap(&xs, |x| {
                let gradients = gradients(&weights, (x, &signs), |w, x| run(w, &one, x));
                [vec![run(&weights, &one, x)], gradients].concat()
            })
        });
        let (wanted_x, wanted_signs) = &self.wanted_batches[0];
        let [here, there] = [wanted_x.clone(), -wanted_x].map(|x| {
            let gradients = gradients(&self.wanted, (&x, wanted_signs), |w, x| self.network.run(w, x));
            [vec![self.network.run(&self.wanted, &x)], gradients].concat()
        });
        let want: Vec<Tensor> = here.into_iter().zip(there).map(|(a, b)| ops::stack(&[a, b])).collect();
        let xs = ops::stack(&[x.clone(), -x]);
        for _ in 0..2 {
            compare("slices in parts", f.call((xs.clone(), self.weights.clone(), Tensor::from(1.0f32))), &want)?;
        }
        Ok(())
    }

    /// Steps that replace their weights in place.
    fn parts_stepped(&self) -> Result<(), String> {
        let run = self.parts();
        let step = jit(move |weights: Vec<Tensor>, (one, x, signs): (Tensor, Tensor, Tensor)| {
            let gradients = gradients(&weights, (&x, &signs), |w, x| run(w, &one, x));
            (stepped(&weights, &gradients), run(&weights, &one, &x))
        });
        let (mut weights, mut wanted) = (copies(&self.weights), self.wanted.clone());
        for batch in [0, 1, 0] {
            let (x, signs) = self.batches[batch].clone();
            let y = step.update(&mut weights, (Tensor::from(1.0f32), x, signs)).map(|y| vec![y]);
            compare("the result of a step of parts", y, &[self.value(&wanted, batch)])?;
            wanted = stepped(&wanted, &self.gradients(&wanted, batch));
            compare("weights after a step of parts", Ok(weights.clone()), &wanted)?;
        }
        Ok(())
    }

    /// Two stages of about equal work, for the batch and its negative.
    fn parts_in_stages(&self) -> Result<(), String> {
        let told = |e: fulgurite::Error| format!("parts in stages: {e}");
        let (run_parts, (x, signs)) = (self.parts(), self.batches[0].clone());
        let f = move |weights: Vec<Tensor>, (one, x, signs): (Tensor, Tensor, Tensor)| {
            (run_parts(&weights, &one, &x) * signs).sum()
        };
        let batch = |turn: usize| (Tensor::from(1.0f32), if turn == 0 { x.clone() } else { -&x }, signs.clone());
        let model = StagedModel::cut("network", f, &self.weights, &batch(0), Cut::Balanced(2)).map_err(told)?;
        let (wanted_x, wanted_signs) = &self.wanted_batches[0];
        let [here, there] = [wanted_x.clone(), -wanted_x]
            .map(|x| gradients(&self.wanted, (&x, wanted_signs), |w, x| self.network.run(w, x)));
        let want: Vec<Tensor> = here.iter().zip(&there).take(self.wanted.len()).map(|(a, b)| (a + b) / 2.0).collect();
        for kind in SCHEDULES {
            let schedule =
                Generator { kind, ranks: 2, micro_batches: 2, chunks: 1 }.make().map_err(|e| format!("{kind}: {e}"))?;
            let params = |stage: usize| model.params(stage, &self.weights);
            let mut feed = |stage: usize, turn: usize| Ok(model.feed(stage, &batch(turn)));
            let done = run(model.chain(), &schedule, params, Accumulate::Arrival, &mut feed).map_err(told)?;
            let grads = model.grads(&done).into_iter().zip(&self.weights);
            let grads = grads.map(|(g, w)| g.unwrap_or_else(|| zeros_like(w))).collect();
            compare(&format!("gradients of stages under {kind}"), Ok(grads), &want)?;
        }
        Ok(())
    }

    /// In bf16, which has all numbers of the network.
    pub(super) fn narrow_parts(&self) -> Result<(), String> {
        let run = self.parts();
        let f =
            jit(move |weights: Vec<Tensor>, one: Tensor, x: Tensor| autocast(DType::BF16, || run(&weights, &one, &x)));
        for batch in [0, 1, 0] {
            let got = f.call((self.weights.clone(), Tensor::from(1.0f32), self.batches[batch].0.clone()));
            compare("parts with autocast", got.map(|y| vec![y]), &[self.value(&self.wanted, batch)])?;
        }
        Ok(())
    }
}
