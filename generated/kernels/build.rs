//! Runs the generator once over `ops.yaml`; `generated` includes the rest of what it writes.

fn main() -> std::io::Result<()> {
    fulgurite_codegen::build::upstream("fulgurite", "ops.yaml")
}
