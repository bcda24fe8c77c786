//! A static site of operator databases: a page for each operator, families, tensor subclasses, error codes, a search and
//! a book. It works from a folder, without a server and without a network.
//!
//! | module | gives |
//! |---|---|
//! | [`command`] | the verb `cargo ops site` |
//! | [`site`] | all pages of a site |
//! | `operator` | what the page of one operator says |
//! | `computed` | examples, shapes, promotion, refusals and plots, computed from the row's meaning |
//! | `cuda` | the CUDA C of a row |
//! | `formula`, `words` | a meaning as MathML; a signature in words |
//! | `plot`, `highlight`, `html`, `markdown` | pictures, code and texts as HTML |
//! | `book` | the pages of a folder of Markdown, in the order of their links |
//! | `search` | the index of the search |

mod book;
pub mod command;
mod computed;
mod cuda;
mod formula;
mod highlight;
mod html;
mod markdown;
mod operator;
mod plot;
mod search;
pub mod site;
mod words;
