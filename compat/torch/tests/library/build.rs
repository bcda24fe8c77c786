//! Compiles the rows of the example.

fn main() -> std::io::Result<()> {
    fulgurite_codegen::build::downstream("ten", "../../../../examples/torch/ops.yaml")
}
