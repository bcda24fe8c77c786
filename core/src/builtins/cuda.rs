//! What the CUDA texts of the table stand on.

/// CUDA C++ definitions of the `fg_*` functions in [`Record::cuda`](super::Record::cuda).
///
/// It uses nothing but C++17 and the overloaded mathematical functions, so the same text compiles for the CPU with
/// `FG` empty and `<cmath>` included, which is how it is tested without a device. Needs the fixed-width names.
pub const CUDA_PRELUDE: &str = concat!(include_str!("prelude.cuh"), "\n", include_str!("special.cuh"));
