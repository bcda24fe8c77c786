//! The library that `cargo ops export torch` writes for `examples/torch/ops.yaml`.

fulgurite::database!();
fulgurite_torch::library!();
