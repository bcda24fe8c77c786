//! The packages for PyTorch and JAX of the ten rows in `examples/torch`.

use std::fs;
use std::path::{Path, PathBuf};

use fulgurite_ops_verbs::cli::run_words;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs `cargo ops export` on a database with these further words; returns the status and the two outputs.
fn export(framework: &str, database: &Path, out: &Path, words: &[&str]) -> (i32, String, String) {
    let fixed = ["ops", "export", framework].map(Into::into);
    let paths = [database.into(), "--out".into(), out.into()];
    let words = fixed.into_iter().chain(paths).chain(words.iter().map(Into::into));
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let status = run_words(words, &mut stdout, &mut stderr);
    (status, String::from_utf8_lossy(&stdout).into(), String::from_utf8_lossy(&stderr).into())
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("fulgurite-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    folder
}

/// A file of a package is the kept one in `tests/export`. `UPDATE_EXPECT=1` rewrites it.
fn is_kept(made: &Path, kept: &str) {
    let made = fs::read_to_string(made).expect("is written");
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export").join(kept);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&kept, made).expect("is rewritten");
        return;
    }
    let stands = fs::read_to_string(&kept).unwrap_or_default();
    assert!(
        stands == made,
        "{} is not what is exported\naccept with: UPDATE_EXPECT=1 cargo test -p fulgurite-ops-verbs --test export",
        kept.display()
    );
}

#[test]
fn ten_rows_are_a_package() {
    let out = folder("ten");
    let (status, _, said) = export("torch", &root().join("examples/torch/ops.yaml"), &out, &["--name", "ten"]);
    assert_eq!(status, 0, "{said}");
    for file in ["__init__.py", "_ops.py"] {
        is_kept(&out.join("ten").join(file), file);
    }
    // every row has calls in the tests, and the library has the rows
    let tests = fs::read_to_string(out.join("tests/test_ops.py")).expect("is written");
    assert!(tests.matches("\n        {").count() > 20 && !tests.contains("[\n    ])"), "{tests}");
    assert!(fs::read_to_string(out.join("src/lib.rs")).expect("is written").contains("fulgurite::database!();"));
    assert!(fs::read_to_string(out.join("ops.yaml")).expect("is written").contains("- op: squareplus"));
    // the crates have the versions of ours, and those with kernels are compiled for speed
    let read = |path: &Path| fs::read_to_string(path).expect("is there");
    assert_eq!(read(&out.join("Cargo.lock")), read(&root().join("Cargo.lock")));
    let manifest = read(&out.join("Cargo.toml"));
    for krate in ["ten", "fulgurite-kernels", "fulgurite-row-kernels"] {
        assert!(manifest.contains(&format!("[profile.release.package.{krate}]\nopt-level = 3\n")), "{manifest}");
    }
    // the kernels of fulgurite's rows are those that the package reaches
    assert!(
        manifest.lines().any(|line| line.starts_with("fulgurite = ") && line.ends_with("default-features = false }"))
    );
    // an export of what is there already changes nothing
    let before = fs::metadata(out.join("ten/_ops.py")).and_then(|m| m.modified()).expect("is there");
    export("torch", &root().join("examples/torch/ops.yaml"), &out, &["--name", "ten", "--only", "energy"]);
    assert!(!fs::read_to_string(out.join("ten/_ops.py")).expect("is written").contains("squareplus"));
    export("torch", &root().join("examples/torch/ops.yaml"), &out, &["--name", "ten"]);
    export("torch", &root().join("examples/torch/ops.yaml"), &out, &["--name", "ten"]);
    assert!(fs::metadata(out.join("ten/_ops.py")).and_then(|m| m.modified()).expect("is there") >= before);
    fs::remove_dir_all(out).expect("is removed");
}

/// The functions for JAX are those in `tests/export`: of one, several and a list of tensors, a key and options.
#[test]
fn rows_are_functions_of_jax() {
    let (out, database) = (folder("jax"), root().join("examples/torch/ops.yaml"));
    let words = ["--name", "ten", "--only", "energy,extent,blend,add_all,jitter,windows_mean"];
    let (status, _, said) = export("jax", &database, &out, &words);
    assert_eq!(status, 0, "{said}");
    is_kept(&out.join("ten/__init__.py"), "jax.py");
    let read = |file: &str| fs::read_to_string(out.join(file)).expect("is written");
    assert!(read("pyproject.toml").contains("dependencies = [\"jax>=0.10\"]"));
    assert!(read("tests/test_ops.py").contains("\"extent\": (Facts(differentiable=True, once=False), ["));
    assert!(read("src/lib.rs").contains("fulgurite_torch::library!();"));
    fs::remove_dir_all(out).expect("is removed");
}

/// Names that the code of a package uses itself get a `_`, and the code imports no name that it does not use.
#[test]
fn a_package_has_names_of_its_own() {
    let (out, database) = (folder("named"), folder("named-rows"));
    fs::create_dir_all(&database).expect("is made");
    let file = database.join("ops.yaml");
    let rows =
        "ops:\n- op: list\n  doc: Twice a tensor\n  sig: '(tensor: T) -> T'\n  promote: float\n  expr: 2 * tensor\n";
    fs::write(&file, rows).expect("is written");
    let (status, _, said) = export("torch", &file, &out, &["--name", "named"]);
    assert_eq!(status, 0, "{said}");
    let module = fs::read_to_string(out.join("named/__init__.py")).expect("is written");
    let function = "def list_(tensor_: Tensor | float) -> Tensor:";
    assert!(module.contains(function) && module.contains("return _ops.list_(tensor(tensor_))"), "{module}");
    let imports: Vec<&str> = module.lines().filter(|line| line.contains("import ")).collect();
    assert_eq!(imports, ["from torch import Tensor", "from . import _ops", "from ._runtime import tensor"]);
    let tests = fs::read_to_string(out.join("tests/test_ops.py")).expect("is written");
    assert!(
        tests
            .contains("\nfrom checks import Facts, t\nfrom running import rows_as_tests, run\n\nimport named\n\nCALLS")
    );
    [out, database].into_iter().for_each(|folder| fs::remove_dir_all(folder).expect("is removed"));
}

/// Wrong words and rows that can't be operators are refused, and nothing is written.
#[test]
fn what_can_not_be_exported_is_refused() {
    let (out, database) = (folder("refused"), folder("refused-rows"));
    fs::create_dir_all(&database).expect("is made");
    let file = database.join("ops.yaml");
    let row = |op: &str| format!("- op: {op}\n  doc: Twice x\n  sig: '(x: T) -> T'\n  promote: float\n  expr: 2 * x\n");
    let refused = |text: String, words: &[&str], said: &str| {
        fs::write(&file, format!("ops:\n{text}")).expect("is written");
        let (status, _, err) = export("torch", &file, &out, words);
        assert!(status != 0 && err.contains("error[E924]") && err.contains(said), "{status} {err}");
        assert!(!out.exists(), "{said}: something is written");
    };
    refused(row("twice"), &["--name", "My-Ops"], "`My-Ops` can't be the name of a Python package");
    refused(row("twice"), &["--name", "2ops"], "can't be the name");
    refused(row("two.fold") + &row("two_fold"), &["--name", "names"], "have the Python name `two_fold`");
    refused(row("twice").replace("2 * x", "2 * y"), &["--name", "broken"], "fault");
    // the advice names the database, and the one upstream of it
    let check = format!("`cargo ops check --file {} --upstream ", file.display());
    refused(row("twice").replace("2 * x", "2 * y"), &["--name", "broken"], &check);
    let writes = "- op: count\n  doc: Adds one to x, gives the square of the old x\n  sig: '(mut x: T[..S]) -> T[..S]'\n  dtypes: f64\n  decomp: |\n    let y = square(x);\n    x <- overwrite(x, add(x, 1));\n    y\n";
    refused(writes.to_owned(), &["--name", "writes"], "it writes an argument");
    fs::remove_dir_all(database).expect("is removed");
}
