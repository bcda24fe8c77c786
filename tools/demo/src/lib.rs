//! The GPT that the demo trains and the benchmarks run, and the device on which a command's programs run.

pub mod device;
pub mod gpt;
