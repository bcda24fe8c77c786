//! Finds what the generator wrote when the kernels were built.

fn main() {
    let Ok(out) = std::env::var("DEP_FULGURITE_KERNELS_OUT") else {
        println!("cargo::error=fulgurite-kernels did not say where the generated code is");
        return;
    };
    println!("cargo::rerun-if-changed={out}");
    println!("cargo::rustc-env=FULGURITE_DATABASE={out}");
}
