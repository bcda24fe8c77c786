//! What a compiled function is kept for.

/// When a program that was compiled is used again. Memory is safe in every mode: a program checks the dtypes and sizes
/// of what it is run on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Caching {
    /// For arguments of the same dtypes, sizes, tags and fixed parts. Sizes are constants of the program.
    #[default]
    Constant,
    /// Also for other sizes, where everything that tracing asked of sizes has the same answer: the guards of the
    /// prologue. For each combination of sizes the program is only planned.
    Symbolic,
    /// For every call: the arguments are promised to be like those of the first one, in dtypes, sizes, tags and fixed
    /// parts. Dtypes and sizes that differ are refused when the program runs (E803); other tags or fixed parts give
    /// results for those of the first call.
    SameInput,
    /// For none: each call compiles.
    Off,
}
