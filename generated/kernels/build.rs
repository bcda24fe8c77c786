//! Runs the generator once on `ops.yaml`; `generated` includes the rest of the output.

fn main() -> std::io::Result<()> {
    fulgurite_codegen::build::upstream("fulgurite", "ops.yaml")
}
