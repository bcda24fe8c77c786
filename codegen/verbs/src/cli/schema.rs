//! `cargo ops schema`

use std::io::Write;

use clap::Args;

use super::{Common, FINE, Outcome};
use crate::json_schema;

/// Prints the JSON Schema of databases, for editors.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  cargo ops schema > ops.schema.json\n\nAn editor with a YAML language server reads it where the database begins with the line\n  # yaml-language-server: $schema=ops.schema.json"
)]
pub struct Schema {}

impl Schema {
    pub(super) fn run(&self, common: &Common, out: &mut dyn Write) -> Outcome {
        match common.json {
            true => writeln!(out, "{}", json_schema::schema())?,
            false => out.write_all(json_schema::text().as_bytes())?,
        }
        Ok(FINE)
    }
}
