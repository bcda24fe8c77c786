//! The workloads of the benchmark protocol, each timed beside a baseline on the same machine.

mod adamw;
mod conv;
mod gpt;
mod meter;
mod numbers;
mod pointwise;
mod products;
mod rows;
mod serve;
mod wide;
mod work;

pub use serve::Server;
pub use work::{Made, repeated};

/// The workloads, by the driver's names.
pub const NAMES: &[&str] = &[
    "W1.chain",
    "W1.arith",
    "W1.small",
    "W2.chain",
    "W2.small",
    "W3.softmax",
    "W3.softmax_fb",
    "W3.ce_fb",
    "W4.erf",
    "W4.tanh",
    "W5.sq512",
    "W5.sq1024",
    "W5.linear",
    "W5.wgrad",
    "W5.decode",
    "W5.decode_big",
    "W5.qk",
    "W5.av",
    "W6.step",
    "W6.loss",
    "W7.tok",
    "W8.digits",
    "W8.cifar",
    "W9.step",
    "W9.ckpt",
    "W9.auto",
    "W10.emb_fb",
    "W10.gather_fb",
    "W10.scatter",
    "W11.pw1",
    "W11.pw10",
    "W11.pw100",
    "W11.mm1",
    "W11.mm10",
    "W11.mm100",
    "W12.small",
    "W12.large",
    "W13.attn_long",
    "W13.ce_wide",
    "W13.lstm",
    "W13.conv_s2",
    "W13.depthwise",
    "W13.pool7",
    "W13.sort",
    "W13.topk",
    "W13.cumsum",
    "W13.scatter0",
];

/// The server for the protocol's commands; its workloads run on `threads` threads.
pub fn server(threads: usize) -> Server {
    Server::new(NAMES, make, threads)
}

/// The workloads with a name or in a group (`W1.chain`, `W6`); all of them if the name is empty.
pub fn named(wanted: &str) -> Vec<&str> {
    let group = |name: &&&str| wanted.is_empty() || **name == wanted || name.split('.').next() == Some(wanted);
    let mut chosen: Vec<&str> = NAMES.iter().filter(group).copied().collect();
    if chosen.is_empty() && make(wanted).is_some() {
        chosen.push(wanted);
    }
    chosen
}

fn make(name: &str) -> Option<Made> {
    let files = [pointwise::make, rows::make, products::make, gpt::make, conv::make, adamw::make, wide::make];
    files.iter().find_map(|make| make(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_made() {
        // The large ones take seconds and memory.
        let large = |n: &&&str| n.starts_with("W9") || n.ends_with("big") || **n == "W12.large" || **n == "W13.ce_wide";
        for name in NAMES.iter().filter(|n| !large(n)) {
            assert!(make(name).is_some(), "{name}");
        }
        assert!(make("W0.x").is_none());
    }
}
