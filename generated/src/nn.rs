//! A few layers: trees of tensors with a method `at`, written with rows.
//!
//! A layer is plain data with public fields. `#[derive(Tree)]` lets `jit`, `value_and_grad` and optimisers walk it, and
//! a model is a struct of layers. Initial values are functions of the key alone.
//!
//! ```
//! use fulgurite::nn::{LayerNorm, Linear};
//! use fulgurite::{Key, Tensor, TensorOps, Tree};
//!
//! #[derive(Tree, Clone)]
//! struct Block {
//!     norm: LayerNorm,
//!     up: Linear,
//!     down: Linear,
//! }
//!
//! impl Block {
//!     fn new(mut key: Key, width: usize) -> Block {
//!         let (up, down) = (Linear::new(key.next(), width, 4 * width), Linear::new(key.next(), 4 * width, width));
//!         Block { norm: LayerNorm::new(width), up, down }
//!     }
//!
//!     fn at(&self, x: &Tensor) -> Tensor {
//!         x + self.down.at(&self.up.at(&self.norm.at(x)).gelu())
//!     }
//! }
//!
//! let block = Block::new(Key::new(1), 8);
//! let y = block.at(&fulgurite::ops::randn(&Key::new(2), (2, 8)));
//! assert_eq!(y.shape(), [2, 8]);
//! ```
//!
//! **Invariant:** every `at` is `#[track_caller]`, so that an error points at the model, not here.

use crate::{Key, Tensor, TensorOps, Tree, ops};

/// An affine map of the last axis: `x: f32[.., inputs]` to `f32[.., outputs]`.
#[derive(Tree, Clone, Debug)]
pub struct Linear {
    /// `f32[outputs, inputs]`
    pub w: Tensor,
    /// `f32[outputs]`
    pub b: Option<Tensor>,
}

impl Linear {
    /// Weights uniform in ±1/√inputs, so that outputs vary about as much as inputs; the bias is 0.
    pub fn new(key: Key, inputs: usize, outputs: usize) -> Linear {
        Linear::scaled(key, inputs, outputs, 1.0)
    }

    /// [`Linear::new`] with weights scaled by `gain`: 1/√(2 · depth) for the last map of a residual branch keeps the
    /// sum of all branches at one size (Radford et al.: "Language models are unsupervised multitask learners", 2019).
    pub fn scaled(key: Key, inputs: usize, outputs: usize, gain: f64) -> Linear {
        let bound = gain / (inputs.max(1) as f64).sqrt();
        let w =
            ops::uniform_with(&key, (outputs, inputs), ops::Uniform { low: -bound, high: bound, ..Default::default() });
        Linear { w, b: Some(zeros(outputs)) }
    }

    /// This layer without a bias.
    pub fn without_bias(self) -> Linear {
        Linear { b: None, ..self }
    }

    /// `x @ w' + b`
    #[track_caller]
    pub fn at(&self, x: &Tensor) -> Tensor {
        x.linear(&self.w, self.b.as_ref())
    }
}

/// Cross-correlation over spatial axes: `x: f32[b, inputs, ..]` to `f32[b, outputs, ..]`.
#[derive(Tree, Clone, Debug)]
pub struct Conv {
    /// `f32[outputs, inputs, ..kernel]`
    pub w: Tensor,
    /// `f32[outputs]`
    pub b: Option<Tensor>,
    /// Distance from one window to the next, along every axis.
    #[tree(fixed)]
    pub stride: i64,
    /// Zeros around the input, at both ends of every axis.
    #[tree(fixed)]
    pub padding: i64,
}

impl Conv {
    /// A kernel of these sizes, one per spatial axis, at stride 1 without padding. Weights are uniform in ±1/√n for the
    /// n numbers that a window covers, as in [`Linear::new`]; the bias is 0.
    pub fn new(key: Key, inputs: usize, outputs: usize, kernel: &[usize]) -> Conv {
        let covered = kernel.iter().fold(inputs, |all, n| all.saturating_mul(*n));
        let bound = 1.0 / (covered.max(1) as f64).sqrt();
        let shape = [&[outputs, inputs], kernel].concat();
        let w = ops::uniform_with(&key, shape, ops::Uniform { low: -bound, high: bound, ..Default::default() });
        Conv { w, b: Some(zeros(outputs)), stride: 1, padding: 0 }
    }

    /// This layer with another stride and padding.
    pub fn with(self, stride: i64, padding: i64) -> Conv {
        Conv { stride, padding, ..self }
    }

    /// This layer without a bias.
    pub fn without_bias(self) -> Conv {
        Conv { b: None, ..self }
    }

    /// `x: f32[b, inputs, ..]`
    #[track_caller]
    pub fn at(&self, x: &Tensor) -> Tensor {
        let options = ops::Conv { stride: self.stride.into(), padding: self.padding.into(), ..Default::default() };
        x.conv_with(&self.w, self.b.as_ref(), options)
    }
}

/// A learned vector for each symbol.
#[derive(Tree, Clone, Debug)]
pub struct Embedding {
    /// `f32[symbols, width]`
    pub w: Tensor,
}

impl Embedding {
    /// Normal numbers of deviation 0.02, so that a head with the table as weights starts with nearly equal odds.
    pub fn new(key: Key, symbols: usize, width: usize) -> Embedding {
        Embedding { w: ops::randn(&key, (symbols, width)) * 0.02 }
    }

    /// `x: i64[..]` to `f32[.., width]`.
    #[track_caller]
    pub fn at(&self, x: &Tensor) -> Tensor {
        self.w.embedding(x)
    }

    /// The table as the weights of a model's last map: `x: f32[.., width]` to `f32[.., symbols]`.
    #[track_caller]
    pub fn logits(&self, x: &Tensor) -> Tensor {
        x.linear(&self.w, None)
    }
}

/// Normalisation over the last axis, then scale and shift.
#[derive(Tree, Clone, Debug)]
pub struct LayerNorm {
    /// `f32[width]`
    pub w: Tensor,
    /// `f32[width]`
    pub b: Tensor,
    /// A small number that keeps the divisor away from 0.
    #[tree(fixed)]
    pub eps: f64,
}

impl LayerNorm {
    /// Scale 1, shift 0.
    pub fn new(width: usize) -> LayerNorm {
        LayerNorm { w: ones(width), b: zeros(width), eps: 1e-5 }
    }

    /// `x: f32[.., width]`
    #[track_caller]
    pub fn at(&self, x: &Tensor) -> Tensor {
        let [width] = self.w.dims();
        x.layer_norm_with(Some(&self.w), Some(&self.b), width, ops::LayerNorm { eps: self.eps })
    }
}

/// Normalisation of each channel over the batch, then scale and shift. `x: f32[b, channels, ..]`
///
/// The running statistics are not parameters: they are a tree of their own, which is passed beside the model and which
/// training writes.
///
/// ```
/// use fulgurite::prelude::*;
///
/// let (norm, stats) = (BatchNorm::new(1), BatchStats::new(1));
/// let x = Tensor::from([[1.0f32], [3.0]]);
/// let train = jit(|norm: BatchNorm, stats: BatchStats, x: Tensor| {
///     value_and_grad(&norm, |norm| norm.train(&x, &stats).square().sum())
/// });
/// let (loss, grads) = train.call((norm.clone(), stats.clone(), x.clone()))?;
/// assert!((loss.item::<f32>()? - 2.0).abs() < 1e-4 && grads.w.to_vec::<f32>()?.len() == 1);
/// assert_eq!(stats.mean.to_vec::<f32>()?, [0.2]);
/// assert_eq!(norm.at(&x, &stats).shape().len(), 2);
/// # Ok::<(), fulgurite::Error>(())
/// ```
#[derive(Tree, Clone, Debug)]
pub struct BatchNorm {
    /// `f32[channels]`
    pub w: Tensor,
    /// `f32[channels]`
    pub b: Tensor,
    /// The share by which the running statistics move towards those of a batch.
    #[tree(fixed)]
    pub momentum: f64,
    /// A small number that keeps the divisor away from 0.
    #[tree(fixed)]
    pub eps: f64,
}

/// The running statistics of a [`BatchNorm`].
#[derive(Tree, Clone, Debug)]
pub struct BatchStats {
    /// `f32[channels]`
    pub mean: Tensor,
    /// `f32[channels]`
    pub var: Tensor,
}

impl BatchNorm {
    /// Scale 1, shift 0.
    pub fn new(channels: usize) -> BatchNorm {
        BatchNorm { w: ones(channels), b: zeros(channels), momentum: 0.1, eps: 1e-5 }
    }

    /// Normalises by the running statistics.
    #[track_caller]
    pub fn at(&self, x: &Tensor, stats: &BatchStats) -> Tensor {
        let options = ops::BatchNorm { eps: self.eps, ..Default::default() };
        x.batch_norm_with(Some(&stats.mean), Some(&stats.var), Some(&self.w), Some(&self.b), options)
    }

    /// Normalises by the statistics of `x`, and moves the running ones towards them.
    #[track_caller]
    pub fn train(&self, x: &Tensor, stats: &BatchStats) -> Tensor {
        let options = ops::BatchNormTrain { momentum: self.momentum, eps: self.eps };
        x.batch_norm_train_with(&stats.mean, &stats.var, Some(&self.w), Some(&self.b), options)
    }
}

impl BatchStats {
    /// Mean 0, variance 1.
    pub fn new(channels: usize) -> BatchStats {
        BatchStats { mean: zeros(channels), var: ones(channels) }
    }
}

/// Normalisation by the root mean square over the last axis, then a scale.
#[derive(Tree, Clone, Debug)]
pub struct RmsNorm {
    /// `f32[width]`
    pub w: Tensor,
}

impl RmsNorm {
    /// Scale 1.
    pub fn new(width: usize) -> RmsNorm {
        RmsNorm { w: ones(width) }
    }

    /// `x: f32[.., width]`
    #[track_caller]
    pub fn at(&self, x: &Tensor) -> Tensor {
        let [width] = self.w.dims();
        x.rms_norm(Some(&self.w), width)
    }
}

/// Zeroes a share of all numbers while training; the identity without a key.
#[derive(Tree, Clone, Debug)]
pub struct Dropout {
    /// The share.
    #[tree(fixed)]
    pub p: f64,
}

impl Dropout {
    /// Drops the share `p`.
    pub fn new(p: f64) -> Dropout {
        Dropout { p }
    }

    /// `x` with some numbers dropped, drawn with this key; with `None`, `x`.
    #[track_caller]
    pub fn at(&self, x: &Tensor, key: Option<&Key>) -> Tensor {
        match key {
            Some(key) => x.dropout_with(key, ops::Dropout { p: self.p }),
            None => x.clone(),
        }
    }
}

fn zeros(width: usize) -> Tensor {
    ops::full(width, 0.0f32)
}

fn ones(width: usize) -> Tensor {
    ops::full(width, 1.0f32)
}
