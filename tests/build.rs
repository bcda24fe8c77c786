//! Finds the operator databases.

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let databases = [
        ("fulgurite", "FULGURITE_DATABASE"),
        ("fulgurite-pytorch", "FULGURITE_PYTORCH_DATABASE"),
        ("fulgurite-onnx", "FULGURITE_ONNX_DATABASE"),
    ];
    for (krate, name) in databases {
        let database = std::env::var(format!("DEP_{name}"))
            .map_err(|_| std::io::Error::other(format!("DEP_{name} is not set: `{krate}` is no direct dependency")))?;
        println!("cargo::rustc-env={name}={database}");
    }
    Ok(())
}
