//! Compiles the rows of ONNX's operators.

fn main() -> std::io::Result<()> {
    fulgurite_codegen::build::downstream("onnx", "ops.yaml")
}
