//! The claims that a row makes about its derivatives: a file for each, with its measure and its tolerance. Data come
//! from [`samples`](super::samples) and [`search`](super::search), which alone decide how much is tried.

pub mod absent;
pub mod constant;
pub mod covered;
pub mod deviates;
pub mod dtype_rules;
pub mod excused;
pub mod kinks;
pub mod off_kink;
pub mod second;
pub mod twice;
pub mod unstable_formulas;
pub mod unstable_rows;
pub mod unusual;
pub mod values;
pub mod zero_times_infinity;
