//! Programs that users write, and what they are told when they write them wrong.

#[path = "user_api/errors.rs"]
mod errors;
#[path = "user_api/functions.rs"]
mod functions;
#[path = "user_api/gpt.rs"]
mod gpt;
#[path = "user_api/operator.rs"]
mod operator;

/// What the compiler says about wrong programs. Each case is built, so there are few.
#[test]
fn messages_of_the_compiler() {
    trybuild::TestCases::new().compile_fail(concat!(env!("CARGO_MANIFEST_DIR"), "/ui/*.rs"));
}
