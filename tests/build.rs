//! Finds the operator database.

fn main() -> std::io::Result<()> {
    let database = std::env::var("DEP_FULGURITE_DATABASE")
        .map_err(|_| std::io::Error::other("DEP_FULGURITE_DATABASE is not set: `fulgurite` is no direct dependency"))?;
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=FULGURITE_DATABASE={database}");
    Ok(())
}
