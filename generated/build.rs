//! Finds the output of the generator, which ran when the kernels were built; passes the database on to downstream build
//! scripts, with the word that its kernels are linked; and writes `op!` with the database's path, because a macro cannot see cargo's metadata.

fn main() -> std::io::Result<()> {
    let var = |name: &str| std::env::var(name).map_err(|_| std::io::Error::other(format!("{name} is not set")));
    let out = var("DEP_FULGURITE_ROW_KERNELS_OUT")?;
    let database = var("DEP_FULGURITE_ROW_KERNELS_DATABASE")?;
    println!("cargo::rerun-if-changed={out}");
    println!("cargo::rustc-env=FULGURITE_OUT={out}");
    println!("cargo::metadata=database={database}");
    if std::env::var_os("CARGO_FEATURE_ROW_KERNELS").is_some() {
        println!("cargo::metadata=kernels=linked");
    }
    let op = format!(
        "/// Rows written where they are used: see the crate's documentation.\n\
         #[macro_export]\n\
         macro_rules! op {{\n    ($($row:tt)*) => {{\n        $crate::__macros::op_rows! {{ {database:?} $($row)* }}\n    }};\n}}\n"
    );
    std::fs::write(std::path::Path::new(&var("OUT_DIR")?).join("op.rs"), op)
}
