//! Finds the operator databases.

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    for (krate, name) in [("fulgurite", "FULGURITE_DATABASE"), ("fulgurite-pytorch", "FULGURITE_PYTORCH_DATABASE")] {
        let database = std::env::var(format!("DEP_{name}"))
            .map_err(|_| std::io::Error::other(format!("DEP_{name} is not set: `{krate}` is no direct dependency")))?;
        println!("cargo::rustc-env={name}={database}");
    }
    Ok(())
}
