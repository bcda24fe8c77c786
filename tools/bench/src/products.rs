//! W5: matrix products, batched ones, and a single row.

use crate::work::{Made, Pure, fill};
use fulgurite::prelude::*;

/// The workloads of this file.
pub fn make(name: &str) -> Option<Made> {
    let one = |seed, m, n| fill(seed, [m, n], 1.0, 0.0);
    Some(match name {
        "W5.sq512" => plain(one(1, 512, 512), one(2, 512, 512)),
        "W5.sq1024" => plain(one(1, 1024, 1024), one(2, 1024, 1024)),
        "W5.linear" => rows(one(1, 2048, 192), one(2, 768, 192)),
        "W5.decode" => rows(one(1, 1, 512), one(2, 2048, 512)),
        "W5.decode_big" => rows(one(1, 1, 4096), one(2, 4096, 4096)),
        "W5.wgrad" => {
            let (a, b) = (one(1, 2048, 768), one(2, 2048, 192));
            let run = jit(|a: Tensor, b: Tensor| a.transpose(0, 1).matmul(&b));
            Pure::work(move || Ok(vec![run.call((a.clone(), b.clone()))?]))
        }
        "W5.qk" => {
            let (q, k) = (fill(1, [96, 128, 32], 1.0, 0.0), fill(2, [96, 128, 32], 1.0, 0.0));
            let run = jit(|q: Tensor, k: Tensor| q.matmul(&k.transpose(1, 2)));
            Pure::work(move || Ok(vec![run.call((q.clone(), k.clone()))?]))
        }
        "W5.av" => plain(fill(1, [96, 128, 128], 1.0, 0.0), fill(2, [96, 128, 32], 1.0, 0.0)),
        _ => return None,
    })
}

fn plain(a: Tensor, b: Tensor) -> Made {
    let run = jit(|a: Tensor, b: Tensor| a.matmul(&b));
    Pure::work(move || Ok(vec![run.call((a.clone(), b.clone()))?]))
}

/// Rows of `x` with rows of `w`.
fn rows(x: Tensor, w: Tensor) -> Made {
    let run = jit(|x: Tensor, w: Tensor| x.linear(&w, None));
    Pure::work(move || Ok(vec![run.call((x.clone(), w.clone()))?]))
}
