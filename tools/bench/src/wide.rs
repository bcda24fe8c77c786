//! W13: long attention, many classes, a recurrence, convolutions with strides and groups, and operators along an axis.

use crate::work::{Made, Pure, fill, ints};
use fulgurite::prelude::*;
use fulgurite::scan;

/// The features of the recurrence's input and of its state.
const UNITS: usize = 128;
/// The sequences of the recurrence.
const SEQUENCES: usize = 32;

/// The workloads of this file.
pub fn make(name: &str) -> Option<Made> {
    Some(match name {
        "W13.attn_long" => attention(),
        "W13.ce_wide" => {
            let (x, y) = (fill(1, [1024, 50304], 4.0, 0.0), ints(5, [1024], 50304));
            let run = jit(|x: Tensor, y: Tensor| value_and_grad(&x, |x| x.cross_entropy(&y, None)));
            Pure::work(move || run.call((x.clone(), y.clone())).map(|(loss, dx)| vec![loss, dx]))
        }
        "W13.lstm" => lstm(),
        "W13.conv_s2" => {
            let (x, w) = (fill(1, [16, 32, 56, 56], 1.0, 0.0), fill(2, [64, 32, 3, 3], 0.2, 0.0));
            let options = ops::Conv { stride: 2.into(), padding: 1.into(), ..d() };
            convolution((x, w), fill(4, [16, 64, 28, 28], 1.0, 0.0), options)
        }
        "W13.depthwise" => {
            let (x, w) = (fill(1, [8, 128, 28, 28], 1.0, 0.0), fill(2, [128, 1, 3, 3], 0.2, 0.0));
            let options = ops::Conv { padding: 1.into(), groups: 128.into(), ..d() };
            convolution((x, w), fill(4, [8, 128, 28, 28], 1.0, 0.0), options)
        }
        "W13.pool7" => {
            let (x, g) = (fill(1, [16, 32, 56, 56], 1.0, 0.0), fill(4, [16, 32, 56, 56], 1.0, 0.0));
            let run = jit(|x: Tensor, g: Tensor| {
                let options = || ops::MaxPool { stride: 1.into(), padding: 3.into(), ..d() };
                vjp(&x, &g, |x| x.max_pool_with((7, 7), options()))
            });
            Pure::work(move || run.call((x.clone(), g.clone())).map(|(y, dx)| vec![y, dx]))
        }
        // Ties leave the order of positions open, so the values alone are checked, but both are computed.
        "W13.sort" => {
            let x = fill(1, [512, 4096], 1.0, 0.0);
            let run = jit(|x: Tensor| x.sort());
            Pure::work(move || run.call(x.clone()).map(|(values, _)| vec![values]))
        }
        "W13.topk" => {
            let x = fill(1, [512, 32768], 1.0, 0.0);
            let run = jit(|x: Tensor| x.topk(50));
            Pure::work(move || run.call(x.clone()).map(|(values, _)| vec![values]))
        }
        "W13.cumsum" => {
            let x = fill(1, [4096, 1024], 1.0, 0.0);
            let run = jit(|x: Tensor| x.cumsum(0));
            Pure::work(move || Ok(vec![run.call(x.clone())?]))
        }
        "W13.scatter0" => {
            let (index, src) = (ints(5, [8192], 32768), fill(1, [8192, 256], 1.0, 0.0));
            let run = jit(|index: Tensor, src: Tensor| ops::full((32768, 256), 0.0).index_add(&index, &src, 0));
            Pure::work(move || Ok(vec![run.call((index.clone(), src.clone()))?]))
        }
        _ => return None,
    })
}

fn attention() -> Made {
    let args: (Tensor, Tensor, Tensor) = (long(1), long(2), long(3));
    let g = long(4);
    let run = jit(|args: (Tensor, Tensor, Tensor), g: Tensor| {
        vjp(&args, &g, |(q, k, v)| q.sdpa_with(k, v, None, ops::Sdpa { causal: true, scale: Some(0.125) }))
    });
    Pure::work(move || {
        let (y, (dq, dk, dv)) = run.call((args.clone(), g.clone()))?;
        Ok(vec![y, dq, dk, dv])
    })
}

/// Heads of a long text.
fn long(seed: u32) -> Tensor {
    fill(seed, [1, 8, 2048, 64], 1.0, 0.0)
}

/// A convolution with the gradients of both operands.
fn convolution(args: (Tensor, Tensor), g: Tensor, options: ops::Conv) -> Made {
    let run =
        jit(move |args: (Tensor, Tensor), g: Tensor| vjp(&args, &g, |(x, w)| x.conv_with(w, None, options.clone())));
    Pure::work(move || {
        let (y, (dx, dw)) = run.call((args.clone(), g.clone()))?;
        Ok(vec![y, dx, dw])
    })
}

/// An LSTM over 64 steps, whose weights get gradients. Its gates are input, forget, cell and output.
fn lstm() -> Made {
    let x = fill(6, [64, SEQUENCES, UNITS], 1.0, 0.0);
    let weights =
        (fill(1, [4 * UNITS, UNITS], 0.1, 0.0), fill(2, [4 * UNITS, UNITS], 0.1, 0.0), fill(3, [4 * UNITS], 0.1, 0.0));
    let g = fill(4, [SEQUENCES, UNITS], 1.0, 0.0);
    let run = jit(|weights: (Tensor, Tensor, Tensor), x: Tensor, g: Tensor| {
        vjp(&weights, &g, |(wx, wh, b)| {
            let zeros = || ops::full((SEQUENCES, UNITS), 0.0);
            // The part of the gates that does not need the state is one product.
            let inputs = x.matmul(&wx.t()) + b;
            let step = |(h, c): (Tensor, Tensor), inputs: Tensor| {
                let [input, forget, cell, output] =
                    (inputs + h.matmul(&wh.t())).chunk_with(ops::Chunk { dim: (-1).into() });
                let c = forget.sigmoid() * c + input.sigmoid() * cell.tanh();
                ((output.sigmoid() * c.tanh(), c), ())
            };
            scan((zeros(), zeros()), &inputs, step).map_or_else(Tensor::poisoned, |((h, _), ())| h)
        })
    });
    Pure::work(move || {
        let (h, (dwx, dwh, db)) = run.call((weights.clone(), x.clone(), g.clone()))?;
        Ok(vec![h, dwx, dwh, db])
    })
}
