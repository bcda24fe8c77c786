//! Every row as CUDA C: the kernels of its calls, compiled as C++, give what the row says.
//!
//! The calls of all rows are made first, so that the compiler gets many kernels at once; then each row is a test. Needs
//! a C++ compiler (`c++`, or what `CXX` names); without one the tests say so and pass.

#[path = "properties/cases.rs"]
mod cases;

use cases::Verdict;
use fulgurite::executors::cuda::Cuda;
use fulgurite::executors::cuda::device::host::Host;
use fulgurite_core::DType;
use fulgurite_tests::calls::{Values, Wish};
use fulgurite_tests::rows::{TestRow, rows};
use fulgurite_tests::{bound, bridge};
use libtest_mimic::{Arguments, Failed, Trial};
use std::sync::Arc;

/// Calls of each row.
const CASES: usize = 6;

const DTYPES: [Option<DType>; 6] =
    [Some(DType::F32), Some(DType::BF16), None, Some(DType::F64), Some(DType::F16), Some(DType::I64)];

fn wish(case: usize) -> Wish {
    let dtype = DTYPES[case % DTYPES.len()];
    Wish { dtype, values: Values::of_case(case), numbers: case.is_multiple_of(4), empty: true, case }
}

/// Makes the programs of a row, so that the device knows their kernels.
fn announce(row: &TestRow) -> Result<(), Failed> {
    cases::each(row, "cuda", CASES, wish, |call, _| {
        let program = bridge::record(call).map_err(|e| format!("meta refuses what the signature accepts: {e}"))?;
        program.compile(&["cuda", "interp"], 1).map_err(|e| e.to_string())?;
        Ok(Verdict::Held)
    })
}

fn check(row: &TestRow) -> Result<(), Failed> {
    cases::each(row, "cuda", CASES, wish, |call, _| {
        let program = bridge::record(call).map_err(|e| format!("meta refuses what the signature accepts: {e}"))?;
        let want = bridge::meaning(call, &program)?;
        let compiled = program.compile(&["cuda", "interp"], 1).map_err(|e| e.to_string())?;
        let got = program.run(&compiled).map_err(|e| e.to_string())?;
        for (i, (got, want)) in got.iter().map(bridge::array).zip(&want).enumerate() {
            bound::compare(&got, want).map_err(|e| format!("result {i} {e}"))?;
        }
        Ok(Verdict::Held)
    })
}

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    if Host::is_available() {
        let host = Arc::new(Host::with_flags(&["-fsanitize=undefined", "-fno-sanitize-recover=all"]));
        fulgurite::executors::register(Arc::new(Cuda::on(host.clone())));
        let wanted = |name: &str| arguments.filter.as_ref().is_none_or(|f| name.contains(f.as_str()));
        let mut ahead = Vec::new();
        for row in &rows().source {
            let name = format!("{}::cuda", row.row.op);
            if !arguments.list && wanted(&name) {
                ahead.push(row);
            }
            trials.push(Trial::test(name, move || check(row)));
        }
        for row in ahead {
            if let Err(e) = announce(row) {
                eprintln!("{}: {}", row.row.op, e.message().unwrap_or_default());
            }
        }
        let started = std::time::Instant::now();
        let kernels = host.announced().names().len();
        if let Some(folder) = std::env::var_os("FULGURITE_KERNELS") {
            let unit = host.announced();
            let text = unit.texts().join("\n");
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(std::path::Path::new(&folder).join("kernels.cu"), text).expect("a file");
        }
        if let Err(e) = host.compile() {
            eprintln!("{e}");
            std::process::exit(101);
        }
        eprintln!("{kernels} kernels compiled in {:.1} s", started.elapsed().as_secs_f64());
    } else {
        eprintln!("skipped: there is no C++ compiler (`c++`, or what CXX names)");
    }
    libtest_mimic::run(&arguments, trials).exit();
}
