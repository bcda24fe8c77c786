//! Programs that users write, and what they are told when they write them wrong.

#[path = "user_api/errors.rs"]
mod errors;
#[path = "user_api/functions.rs"]
mod functions;
#[path = "user_api/gpt.rs"]
mod gpt;
#[path = "user_api/messages.rs"]
mod messages;
#[path = "user_api/operator.rs"]
mod operator;
#[path = "user_api/pages.rs"]
mod pages;
#[path = "user_api/values.rs"]
mod values;
