//! Emitted CUDA C means what its rows mean: the same text, compiled as C++ over `cuda/shim.h`, runs on the CPU.
//!
//! Needs a C++ compiler, which nothing else here does: without one (`c++`, or what `CXX` names) the test says so and
//! passes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fulgurite_codegen::emit::cuda;
use fulgurite_codegen::pipeline::{self, Compiled, Table};
use fulgurite_core::builtins::{Builtin, CUDA_PRELUDE, eval_f64};

fn compiled() -> Compiled {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ops.yaml");
    let text = fs::read_to_string(path).expect("the database");
    pipeline::compile(&text, "ops.yaml", &Table::default()).unwrap_or_else(|_| panic!("the database is broken"))
}

/// The prelude and all kernels.
fn kernels(compiled: &Compiled) -> String {
    let table = compiled.table(&Table::default());
    let units = compiled.rows.iter().filter_map(|row| cuda::unit(row, &table).ok());
    CUDA_PRELUDE.to_owned() + &units.collect::<String>()
}

#[test]
fn reductions_run_as_their_rows_say() {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    if Command::new(&compiler).arg("--version").output().is_err() {
        eprintln!("skipped: there is no C++ compiler `{compiler}`");
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cuda");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("kernels.cu"), kernels(&compiled())).expect("the kernels are written");
    let sources = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cuda");
    let program = folder.join("reductions");
    let built = Command::new(&compiler)
        .args(["-std=c++20", "-O1", "-pthread", "-I"])
        .arg(&folder)
        .arg(sources.join("reductions.cpp"))
        .arg("-o")
        .arg(&program)
        .output()
        .expect("the compiler runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let ran = Command::new(&program).output().expect("the program runs");
    assert!(ran.status.success(), "{}{}", String::from_utf8_lossy(&ran.stdout), ran.status);
}

/// The special functions of the prelude, and the order of polygamma's arguments, against the table.
#[test]
fn special_functions_of_the_prelude() {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    if Command::new(&compiler).arg("--version").output().is_err() {
        eprintln!("skipped: there is no C++ compiler `{compiler}`");
        return;
    }
    let points = [-3.3, -0.7, 0.2, 0.9, 1.7, 4.5, 7.9, 8.1, 12.0, 26.0, 300.0];
    let mut text = CUDA_PRELUDE.to_owned() + "int main() {\n  int wrong = 0;\n";
    let mut case = |name: &str, args: &[f64]| {
        let record = Builtin::from_name(name).expect("a builtin").record();
        let mut call = record.cuda.to_owned();
        for (i, x) in args.iter().enumerate() {
            call = call.replace(&format!("{{{i}}}"), &format!("({x:?})"));
        }
        let y = eval_f64(record.builtin, args);
        if y.is_finite() {
            text += &format!("  wrong += !(fabs({call} - ({y:e})) <= 2e-14 * (1e-3 + fabs({y:e})));\n");
        }
    };
    for x in points {
        for name in ["erfcx", "lgamma", "digamma", "i0", "i0e", "i1", "i1e"] {
            case(name, &[x]);
        }
        for n in [0.0, 1.0, 2.0, 5.0] {
            case("polygamma", &[n, x]);
        }
        case("nextafter", &[x, 3.0]);
    }
    for (x, y, divisor, multiple) in [(-6, 4, 2, 12), (0, 5, 5, 0), (0, 0, 0, 0), (21, 14, 7, 42)] {
        text += &format!("  wrong += fg_gcd({x}, {y}) != {divisor};\n  wrong += fg_lcm({x}, {y}) != {multiple};\n");
    }
    text += "  return wrong;\n}\n";
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cuda-special");
    fs::create_dir_all(&folder).expect("a folder");
    let source = folder.join("special.cpp");
    fs::write(&source, "#include \"shim.h\"\n".to_owned() + &text).expect("the program is written");
    let program = folder.join("special");
    let built = Command::new(&compiler)
        .args(["-std=c++20", "-O1", "-pthread", "-I"])
        .arg(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cuda"))
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .output()
        .expect("the compiler runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let ran = Command::new(&program).output().expect("the program runs");
    assert_eq!(ran.status.code(), Some(0), "so many values differ");
}

/// Functions of one program need names of their own.
#[test]
fn kernels_have_names_of_their_own() {
    let text = kernels(&compiled());
    let mut names: Vec<&str> = text.split("__global__ void ").skip(1).filter_map(|t| t.split('(').next()).collect();
    assert!(names.len() > 200, "{} kernels", names.len());
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}
