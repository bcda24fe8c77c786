//! W8: the training steps of two convolutional nets.

use crate::numbers::weight_scale;
use crate::serve::Checked;
use crate::work::{Made, Stateful, fill, ints};
use fulgurite::optim::Sgd;
use fulgurite::prelude::*;

const LR: f64 = 0.05;
const IMAGES: usize = 64;
const CLASSES: u32 = 10;
/// The number of losses that are checked.
const LOSSES: usize = 5;

/// Groups of convolutions, each followed by a pool, then two maps.
#[derive(Tree, Clone, Debug)]
struct Net {
    convs: Vec<Conv>,
    hidden: Linear,
    out: Linear,
    /// The number of convolutions before each pool.
    #[tree(fixed)]
    group: usize,
}

impl Net {
    /// Parameter number j is `fill(2000 + j, …)`: the weight of each layer, then its bias.
    fn new(convs: &[(usize, usize)], group: usize, flat: usize, hidden: usize) -> Net {
        let mut seed = 2000;
        let mut next = |covered: usize| {
            seed += 2;
            (seed - 2, weight_scale(covered))
        };
        let convs = convs.iter().map(|&(inputs, outputs)| {
            let (seed, scale) = next(inputs * 9);
            let (w, b) = (fill(seed, [outputs, inputs, 3, 3], scale, 0.0), fill(seed + 1, [outputs], 0.05, 0.0));
            Conv { w, b: Some(b), stride: 1, padding: 1 }
        });
        let convs = convs.collect();
        let mut map = |inputs: usize, outputs: usize| {
            let (seed, scale) = next(inputs);
            Linear { w: fill(seed, [outputs, inputs], scale, 0.0), b: Some(fill(seed + 1, [outputs], 0.05, 0.0)) }
        };
        Net { convs, hidden: map(flat, hidden), out: map(hidden, CLASSES as usize), group }
    }

    fn loss(&self, x: &Tensor, y: &Tensor) -> Tensor {
        let mut h = x.clone();
        for group in self.convs.chunks(self.group) {
            h = group.iter().fold(h, |h, conv| conv.at(&h).relu()).max_pool((2, 2));
        }
        let h = self.hidden.at(&h.reshape((IMAGES, -1))).relu();
        self.out.at(&h).cross_entropy(y, None)
    }
}

/// The workloads of this file.
pub fn make(name: &str) -> Option<Made> {
    let y = ints(5, [IMAGES], CLASSES);
    Some(match name {
        "W8.digits" => {
            let net = || Net::new(&[(1, 16), (16, 32)], 2, 512, 64);
            step(net, 0.0, fill(1, [IMAGES, 1, 8, 8], 1.0, 0.0), y)
        }
        "W8.cifar" => {
            let net = || Net::new(&[(3, 32), (32, 32), (32, 64), (64, 64)], 2, 4096, 256);
            step(net, 0.9, fill(1, [IMAGES, 3, 32, 32], 1.0, 0.0), y)
        }
        _ => return None,
    })
}

fn step(net: fn() -> Net, momentum: f64, x: Tensor, y: Tensor) -> Made {
    let run = jit(|(m, o): (Net, Sgd<Net>), (x, y): (Tensor, Tensor)| {
        let (loss, g) = value_and_grad(&m, |m| m.loss(&x, &y));
        (o.step(m, g, LR), loss)
    });
    let make = move || {
        let model = net();
        let optimiser = Sgd::new(&model, momentum);
        (model, optimiser)
    };
    Stateful::work(make, Checked::Losses(LOSSES), 1, move |state| Ok(vec![run.update(state, (x.clone(), y.clone()))?]))
}
