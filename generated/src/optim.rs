//! Optimisers: states that are trees, and steps that are rows.
//!
//! A state belongs to one form of parameters and is passed along with them, so `jit(…).update` writes both in place.
//! Leaves that aren't float tensors (keys, counters) pass through a step unchanged.
//!
//! ```
//! use fulgurite::optim::{Sgd, clip};
//! use fulgurite::{Tensor, TensorOps, grad};
//!
//! let w = Tensor::from([3.0f32, 4.0]);
//! let (grads, norm) = clip(&grad(&w, |w| w.square().sum()), 20.0);
//! assert_eq!(norm.item::<f32>()?, 10.0);
//! let (w, _) = Sgd::new(&w, 0.0).step(w, grads, 0.25);
//! assert_eq!(w.to_vec::<f32>()?, [1.5, 2.0]);
//! # Ok::<(), fulgurite::Error>(())
//! ```

use crate::core::DType;
use crate::{Error, Tensor, TensorOps, Tree, ops, tree};

/// AdamW: Adam with weight decay decoupled from the gradient (Loshchilov and Hutter: "Decoupled weight decay
/// regularization", 2019).
#[derive(Tree, Clone, Debug)]
pub struct AdamW<T: Tree> {
    /// Mean of the gradients.
    pub m: T,
    /// Mean of their squares.
    pub v: T,
    /// Steps taken, f32[].
    pub step: Tensor,
    /// The share of `m` that each step keeps.
    #[tree(fixed)]
    pub beta1: f64,
    /// The share of `v` that each step keeps.
    #[tree(fixed)]
    pub beta2: f64,
    /// A small number that keeps the divisor away from 0.
    #[tree(fixed)]
    pub eps: f64,
    /// Weight decay: the share of every parameter that each step subtracts, times the learning rate.
    #[tree(fixed)]
    pub decay: f64,
}

impl<T: Tree> AdamW<T> {
    /// The state before the first step, with the usual constants (0.9, 0.999, 1e-8, 0.01).
    pub fn new(params: &T) -> AdamW<T> {
        let (m, v) = (zeros_like(params), zeros_like(params));
        AdamW { m, v, step: Tensor::scalar(0f32), beta1: 0.9, beta2: 0.999, eps: 1e-8, decay: 0.01 }
    }

    /// This state with other shares for the means.
    pub fn betas(self, beta1: f64, beta2: f64) -> AdamW<T> {
        AdamW { beta1, beta2, ..self }
    }

    /// This state with another weight decay.
    pub fn decay(self, decay: f64) -> AdamW<T> {
        AdamW { decay, ..self }
    }

    /// Parameters and state after a step along `grads`.
    #[track_caller]
    pub fn step(self, params: T, grads: T, lr: impl Into<Tensor>) -> (T, AdamW<T>) {
        let lr = lr.into();
        let step = &self.step + 1.0;
        let options = || ops::AdamwStep { beta1: self.beta1, beta2: self.beta2, eps: self.eps, decay: self.decay };
        let [p2, m2, v2] = each([&params, &grads, &self.m, &self.v], |[p, g, m, v]| {
            in_one_dtype([p, g, m, v, &step, &lr], |[p, g, m, v, step, lr]| {
                let (p2, m2, v2) = ops::adamw_step_with(p, g, m, v, step, lr, options());
                [p2, m2, v2]
            })
        });
        let rebuild = |tree: &T, leaves: Vec<Tensor>| tree.rebuild(&mut tree::Leaves::new(&mut leaves.into_iter()));
        let (m, v) = (rebuild(&self.m, m2), rebuild(&self.v, v2));
        (rebuild(&params, p2), AdamW { m, v, step, ..self })
    }
}

/// Gradient descent with momentum.
#[derive(Tree, Clone, Debug)]
pub struct Sgd<T: Tree> {
    /// The running sum of gradients.
    pub buf: T,
    /// The share of it that each step keeps; 0 is plain descent.
    #[tree(fixed)]
    pub momentum: f64,
    /// The share of every parameter that is added to its gradient.
    #[tree(fixed)]
    pub decay: f64,
}

impl<T: Tree> Sgd<T> {
    /// The state before the first step.
    pub fn new(params: &T, momentum: f64) -> Sgd<T> {
        Sgd { buf: zeros_like(params), momentum, decay: 0.0 }
    }

    /// Parameters and state after a step along `grads`.
    #[track_caller]
    pub fn step(self, params: T, grads: T, lr: impl Into<Tensor>) -> (T, Sgd<T>) {
        let lr = lr.into();
        let [p2, buf2] = each([&params, &grads, &self.buf, &self.buf], |[p, g, buf, _]| {
            in_one_dtype([p, g, buf, &lr], |[p, g, buf, lr]| {
                let options = ops::SgdStep { momentum: self.momentum, decay: self.decay };
                let (p2, buf2) = ops::sgd_step_with(p, g, buf, lr, options);
                [p2, buf2]
            })
        });
        let rebuild = |tree: &T, leaves: Vec<Tensor>| tree.rebuild(&mut tree::Leaves::new(&mut leaves.into_iter()));
        let buf = rebuild(&self.buf, buf2);
        (rebuild(&params, p2), Sgd { buf, ..self })
    }
}

/// The results of a step's row, which takes tensors and numbers of one dtype: that of the parameter, which comes first, or
/// f32 for a dtype of 16 bits, because such a dtype can't hold the number of a late step.
fn in_one_dtype<const N: usize, const M: usize>(
    given: [&Tensor; N],
    row: impl FnOnce([&Tensor; N]) -> [Tensor; M],
) -> [Tensor; M] {
    let dtype = given[0].dtype();
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let cast = |x: &Tensor, to: DType| if x.dtype() == to { x.clone() } else { x.cast(to) };
    row(given.map(|x| cast(x, wide)).each_ref()).map(|x| cast(&x, dtype))
}

/// Gradients scaled down to norm `limit` where their norm is larger, and the norm before: the root of the sum of all
/// squares.
#[track_caller]
pub fn clip<T: Tree>(grads: &T, limit: f64) -> (T, Tensor) {
    let norm = norm(grads);
    let factor = ops::clip_scale_with(&norm, ops::ClipScale { limit });
    (tree::map(grads, |g| if g.dtype().is_float() { g * &factor } else { g.clone() }), norm)
}

/// The root of the sum of the squares of all leaves, f32[].
#[track_caller]
pub fn norm<T: Tree>(tree: &T) -> Tensor {
    let leaves = tree::flatten(tree);
    let squares = leaves.leaves().iter().filter(|g| g.dtype().is_float()).map(|g| g.square().sum());
    squares.reduce(|a, b| a + b).unwrap_or_else(|| Tensor::scalar(0f32)).sqrt()
}

fn zeros_like<T: Tree>(params: &T) -> T {
    tree::map(params, |p| match p.dtype().is_float() {
        true => ops::full_with(p.shape(), 0.0, ops::Full { dtype: Some(p.dtype()) }),
        false => p.clone(),
    })
}

/// Applies `f` to the leaves of four trees of one form, side by side; returns one list for each result of `f`.
#[track_caller]
fn each<T: Tree, const N: usize>(trees: [&T; 4], mut f: impl FnMut([&Tensor; 4]) -> [Tensor; N]) -> [Vec<Tensor>; N] {
    let [a, b, c, d] = trees.map(tree::flatten);
    let mut out = std::array::from_fn(|_| Vec::with_capacity(a.leaves().len()));
    let fits = [&b, &c, &d].iter().all(|t| t.fingerprint() == a.fingerprint() && t.leaves().len() == a.leaves().len());
    let differ = || Error::new("E748", "parameters, gradients and optimiser state differ in form");
    for (i, p) in a.leaves().iter().enumerate() {
        let results = match fits {
            true if p.dtype().is_float() => f([p, b.leaves()[i], c.leaves()[i], d.leaves()[i]]),
            true => std::array::from_fn(|_| (*p).clone()),
            false => std::array::from_fn(|_| Tensor::poisoned(differ().at(crate::core::loc::Loc::caller()))),
        };
        out.iter_mut().zip(results).for_each(|(list, x): (&mut Vec<Tensor>, Tensor)| list.push(x));
    }
    out
}
