//! The ground floor of fulgurite: dtypes, promotion, numbers, sizes, the rule languages and their evaluators.
//!
//! This crate knows no trace and no kernel. `codegen` (build time) and `runtime` (run time) both stand on it, so that
//! a rule is solved, lowered and evaluated by the same code where it is checked and where it runs.
//!
//! | module | is |
//! |---|---|
//! | [`dtype`], [`promote`], [`scalar`], [`dim`] | element types, the promotion algorithm, numbers, sizes |
//! | [`minifloat`] | floats of four and eight bits |
//! | [`lang`] | syntax trees of the rule languages, their parser and printer |
//! | [`row`] | a row as data: texts and their syntax trees |
//! | [`builtins`] | the table of scalar builtins: the trusted core |
//! | [`autocast`] | the dtype that a row computes in where a region asks for a narrower float |
//! | [`signature`] | solving a signature for a call: sizes, dtypes, options, refusals, result types |
//! | [`loop_nest`] | a row's meaning at concrete ranks: loops over typed scalar expressions |
//! | [`eval`] | evaluators: of nests over any scalar domain, of the tensor language over any machine |
//! | [`derive`](mod@derive) | linearise and transpose |
//! | [`batch`] | the row that applies a row to every slice |
//! | [`philox`] | the counter-based random numbers |
//! | [`refusals`] | the refusals that are decided only when a program runs |
//! | [`files`] | files that replace an old one as a whole |

pub mod autocast;
pub mod batch;
pub mod builtins;
mod cost;
mod counted;
pub mod derive;
pub mod dim;
pub mod dtype;
pub mod eval;
pub mod facts;
pub mod files;
pub mod foreign;
pub mod kernel;
pub mod lang;
pub mod loc;
pub mod loop_nest;
pub mod lower;
pub mod minifloat;
pub mod name;
pub mod philox;
pub mod promote;
pub mod refusals;
pub mod row;
pub mod runtime_checks;
pub mod scalar;
pub mod selection;
pub mod sharding;
pub mod signature;
pub mod storage;
pub mod subclass;
pub mod value;
mod words;

pub use counted::counted;
pub use dim::Dim;
pub use dtype::{DType, DTypeSet};
pub use name::Name;
pub use scalar::Scalar;
pub use value::{Named, TensorTy, Value};
