//! The library that `cargo ops export` writes for `examples/torch/ops.yaml`.

fulgurite::database!();
fulgurite_torch::library!();
