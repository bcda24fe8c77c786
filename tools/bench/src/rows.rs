//! W3: softmax and cross entropy. W4: layer norm and gelu. W10: gathering and scattering.

use crate::work::{Made, Pure, fill, ints};
use fulgurite::prelude::*;

/// The workloads of this file.
pub fn make(name: &str) -> Option<Made> {
    Some(match name {
        "W3.softmax" => {
            let x = wide(4.0);
            let run = jit(|x: Tensor| x.softmax(-1));
            Pure::work(move || Ok(vec![run.call(x.clone())?]))
        }
        "W3.softmax_fb" => {
            let (x, g) = (wide(4.0), gradient());
            let run = jit(|x: Tensor, g: Tensor| vjp(&x, &g, |x| x.softmax(-1)));
            Pure::work(move || Ok(pair(run.call((x.clone(), g.clone()))?)))
        }
        "W3.ce_fb" => {
            let (x, y) = (wide(4.0), ints(5, [4096], 1024));
            let run = jit(|x: Tensor, y: Tensor| value_and_grad(&x, |x| x.cross_entropy(&y, None)));
            Pure::work(move || Ok(pair(run.call((x.clone(), y.clone()))?)))
        }
        "W4.erf" => norm_gelu(ops::GeluApproximate::None),
        "W4.tanh" => norm_gelu(ops::GeluApproximate::Tanh),
        "W10.emb_fb" => {
            let (table, index) = (fill(1, [32768, 256], 1.0, 0.0), ints(5, [8192], 32768));
            let g = fill(4, [8192, 256], 1.0, 0.0);
            let run = jit(|table: Tensor, index: Tensor, g: Tensor| vjp(&table, &g, |t| t.embedding(&index)));
            Pure::work(move || Ok(pair(run.call((table.clone(), index.clone(), g.clone()))?)))
        }
        "W10.gather_fb" => {
            let (x, index) = (wide(1.0), ints(5, [4096, 256], 1024));
            let g = fill(4, [4096, 256], 1.0, 0.0);
            let run = jit(|x: Tensor, index: Tensor, g: Tensor| vjp(&x, &g, |x| x.gather(&index, 1)));
            Pure::work(move || Ok(pair(run.call((x.clone(), index.clone(), g.clone()))?)))
        }
        "W10.scatter" => {
            let (index, src) = (ints(5, [4096, 1024], 1024), wide(1.0));
            let run = jit(|index: Tensor, src: Tensor| ops::full((4096, 1024), 0.0).scatter_add(&index, &src, 1));
            Pure::work(move || Ok(vec![run.call((index.clone(), src.clone()))?]))
        }
        _ => return None,
    })
}

fn wide(scale: f32) -> Tensor {
    fill(1, [4096, 1024], scale, 0.0)
}

fn gradient() -> Tensor {
    fill(4, [4096, 1024], 1.0, 0.0)
}

fn pair((a, b): (Tensor, Tensor)) -> Vec<Tensor> {
    vec![a, b]
}

fn norm_gelu(approximate: ops::GeluApproximate) -> Made {
    let args = (wide(2.0), fill(2, [1024], 0.1, 1.0), fill(3, [1024], 0.1, 0.0));
    let g = gradient();
    let run = jit(move |args: (Tensor, Tensor, Tensor), g: Tensor| {
        vjp(&args, &g, |(x, w, b)| x.layer_norm(Some(w), Some(b), 1024).gelu_with(ops::Gelu { approximate }))
    });
    Pure::work(move || {
        let (y, (dx, dw, db)) = run.call((args.clone(), g.clone()))?;
        Ok(vec![y, dx, dw, db])
    })
}
