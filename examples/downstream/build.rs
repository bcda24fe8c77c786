//! Compiles this crate's rows; they may call upstream rows, which are not checked again.

fn main() -> std::io::Result<()> {
    fulgurite_codegen::build::downstream("downstream", "ops.yaml")
}
