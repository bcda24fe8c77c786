//! Mutators that know what they mutate.
//!
//! | module | mutates |
//! |---|---|
//! | [`text`] | texts of words, numbers, marks and brackets: parts in brackets are crossed |
//! | [`rows`] | rows of a database: keys, whole rows and their words are crossed |
//! | [`json`] | JSON: values are crossed |
//! | [`message`] | messages of protobuf: fields are crossed |
//! | [`archive`] | zip archives: their records, and the numbers of their directory |

pub mod archive;
pub mod json;
pub mod message;
pub mod rows;
pub mod text;
