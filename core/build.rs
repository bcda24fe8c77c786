//! Tells direct dependents where these sources are (`DEP_FULGURITE_CORE_SOURCES`): the checks of a database are made of
//! them too.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::metadata=sources={}/src", env!("CARGO_MANIFEST_DIR"));
}
