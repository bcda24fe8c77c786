//! The choice of calls for which a compiled program serves again.

/// The calls for which a compiled program serves again. Memory is safe in every mode, because a program checks the
/// dtypes and sizes of its inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Caching {
    /// A program serves arguments of equal dtypes, sizes, tags and fixed parts. Sizes are constants of the program.
    #[default]
    Constant,
    /// A program also serves other sizes for which every test that tracing made on sizes has an equal outcome; these
    /// tests are the guards of the prologue. For each combination of sizes, the program is only planned anew.
    Symbolic,
    /// A program serves every call: the user promises that dtypes, sizes, tags and fixed parts of all arguments are
    /// those of the first call. Other dtypes and sizes are refused at run time (E803); with other tags or fixed parts,
    /// the results are those for the tags and fixed parts of the first call.
    SameInput,
    /// A program serves one call; each call compiles.
    Off,
}
