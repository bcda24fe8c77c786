//! Compiles the rows of PyTorch's calls.

fn main() -> std::io::Result<()> {
    fulgurite_codegen::build::downstream("pytorch", "ops.yaml")
}
