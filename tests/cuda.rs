//! CUDA C without a device: the kernels of every row's calls and of fusions, compiled as C++, give what the rows say;
//! and NVIDIA's compiler takes them all.
//!
//! All programs are made first, so that a compiler gets many kernels at once. Needs a C++ compiler (`c++`, or what `CXX`
//! names), and for one test NVRTC (`FULGURITE_NVRTC`); where one is missing, what needs it says so and passes.
//!
//! What is asked of NVIDIA's driver, compiler and cuBLASLt is asked of pretended ones (`cuda/driver`).
//!
//! `FULGURITE_COUNT_KERNELS=20` counts the kernels of that many calls of each row in both forms.
//!
//! `FULGURITE_KERNELS=DIR` writes the kernels there, to be read. `FULGURITE_GPU=cuda:0` runs the same programs on that
//! device, and what the pretended libraries are asked for on its own.

#[path = "properties/cases.rs"]
mod cases;
#[path = "cuda/driver.rs"]
mod driver;
#[path = "cuda/far.rs"]
mod far;
#[path = "cuda/fusions.rs"]
mod fusions;
#[path = "cuda/general.rs"]
mod general;
#[path = "cuda/golden.rs"]
mod golden;
#[path = "cuda/kernels.rs"]
mod kernels;
#[path = "cuda/resident.rs"]
mod resident;
#[path = "cuda/row.rs"]
mod row;

use fulgurite::executors::cuda::Cuda;
use fulgurite::executors::cuda::device::KernelUnit;
use fulgurite::executors::cuda::device::host::Host;
use fulgurite_tests::rows::{TestRow, rows};
use libtest_mimic::{Arguments, Failed, Trial};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Set in the process whose memory accesses are watched.
const WATCHED: &str = "FULGURITE_WATCHED";

const COMPILED: &str = "kernels::nvrtc";
const RANDOM: &str = "fusions::random_programs";
const REDUCTIONS: &str = "fusions::reductions";
const PLACED: &str = "fusions::placed_elements";
const ADDRESSES: &str = "kernels::stay_in_their_memory";

/// Names a device to run on.
const GPU: &str = "FULGURITE_GPU";

/// Counts the kernels that a number of calls of each row need, instead of running tests. The calls of a row differ in
/// their sizes.
const COUNTED: &str = "FULGURITE_COUNT_KERNELS";

/// Whether this is that process.
pub fn is_watched() -> bool {
    std::env::var_os(WATCHED).is_some()
}

fn main() {
    if std::env::var_os(driver::PRETENDED).is_some() {
        if let Err(e) = driver::programs() {
            eprintln!("{}", e.message().unwrap_or_default());
            std::process::exit(101);
        }
        return;
    }
    let arguments = Arguments::from_args();
    if let Ok(name) = std::env::var(GPU) {
        on_gpu(&arguments, &name);
    }
    if !Host::is_available() {
        eprintln!("skipped: there is no C++ compiler (`c++`, or what CXX names)");
        libtest_mimic::run(&arguments, Vec::new()).exit();
    }
    let watched = is_watched();
    let mut flags = vec!["-fsanitize=undefined", "-fno-sanitize-recover=all"];
    if watched {
        flags.push("-fsanitize=address");
    }
    let host = Arc::new(Host::with_flags(&flags));
    fulgurite::executors::register(Arc::new(Cuda::on(host.clone())));
    general::register(host.clone());
    if let Some(calls) = std::env::var(COUNTED).ok().and_then(|n| n.parse().ok()) {
        count(&host, calls);
        return;
    }
    let mut trials = programs();
    if !arguments.list {
        let wanted = |name: &str| {
            let fits = |f: &str| if arguments.exact { name == f } else { name.contains(f) };
            arguments.filter.as_deref().is_none_or(fits) && !arguments.skip.iter().any(|s| name.contains(s.as_str()))
        };
        let all = wanted(COMPILED);
        let failed = |what: &str, e: Failed| eprintln!("{what}: {}", e.message().unwrap_or_default());
        for row in tried().filter(|row| all || wanted(&name(row))) {
            row::announce(row, &name(row)).unwrap_or_else(|e| failed(row.row.op.as_str(), e));
        }
        if all || [RANDOM, REDUCTIONS, PLACED].into_iter().any(wanted) {
            fusions::announce().unwrap_or_else(|e| failed(RANDOM, e));
        }
    }
    let unit = host.announced();
    write(&unit);
    let started = std::time::Instant::now();
    if let Err(e) = host.compile() {
        eprintln!("{e}");
        std::process::exit(101);
    }
    eprintln!("{} kernels compiled as C++ in {:.0} s", unit.names().len(), started.elapsed().as_secs_f64());
    if !watched {
        trials.push(Trial::test(COMPILED, move || kernels::compile(&unit)));
        trials.push(Trial::test(ADDRESSES, addresses));
        trials.push(Trial::test("kernels::golden", golden::check));
        trials.push(Trial::test("kernels::far", far::check));
        trials.push(Trial::test("driver::pretended", driver::check));
        let more = resident::ALL.iter().chain(general::ALL);
        trials.extend(more.map(|(name, test)| Trial::test(*name, test)));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// Prints how many kernels of each form the calls of all rows have. Nothing is compiled.
fn count(host: &Host, calls: usize) {
    for row in tried() {
        if let Err(e) = row::announce_sizes(row, &name(row), calls) {
            eprintln!("{}: {}", row.row.op, e.message().unwrap_or_default());
        }
    }
    let unit = host.announced();
    let general = unit.names().iter().filter(|name| name.contains("_any_")).count();
    write(&unit);
    println!("{calls} calls of each row: {} specialised kernels, {general} general", unit.names().len() - general);
}

/// Writes the kernels into a folder, if one is named.
fn write(unit: &KernelUnit) {
    if let Some(folder) = std::env::var_os("FULGURITE_KERNELS") {
        let file = Path::new(&folder).join("kernels.cu");
        std::fs::write(&file, unit.texts().join("\n")).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    }
}

/// The rows that compute.
fn tried() -> impl Iterator<Item = &'static TestRow> {
    rows().source.iter().filter(|row| !row.names_storage())
}

fn name(row: &TestRow) -> String {
    format!("{}::kernels_give_the_meaning", row.row.op)
}

/// What is compared with the rows' texts: calls of each row, and fusions.
fn programs() -> Vec<Trial> {
    let mut trials: Vec<Trial> =
        tried().map(|row| Trial::test(name(row), move || row::check(row, &name(row)))).collect();
    trials.push(Trial::test(RANDOM, fusions::check));
    trials.push(Trial::test(REDUCTIONS, fusions::reductions));
    trials.push(Trial::test(PLACED, fusions::placed));
    trials
}

/// The same programs on a device that is there.
fn on_gpu(arguments: &Arguments, device: &str) -> ! {
    match fulgurite::executors::cuda::device::named(device) {
        Ok(device) => {
            fulgurite::executors::register(Arc::new(Cuda::on(device.clone())));
            general::register(device);
        }
        Err(e) => {
            eprintln!("{GPU}={device}: {e}");
            std::process::exit(101);
        }
    }
    let mut trials = programs();
    trials.push(Trial::test("driver::programs", driver::programs));
    libtest_mimic::run(arguments, trials).exit()
}

/// A third of the calls of every row again, and the fusions, in a process where each memory access of a kernel is watched (AddressSanitizer).
fn addresses() -> Result<(), Failed> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let library = Command::new(compiler).arg("-print-file-name=libasan.so").output()?.stdout;
    let library = String::from_utf8_lossy(&library).trim().to_owned();
    if !Path::new(&library).is_absolute() {
        println!("skipped: the C++ compiler has no libasan.so");
        return Ok(());
    }
    let out = Command::new(std::env::current_exe()?)
        .args(["--test-threads=1"])
        .env(WATCHED, "1")
        .env("LD_PRELOAD", library)
        // fibres change stacks; what Rust's runtime keeps to the end is no leak of a kernel
        .env("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=0")
        .output()?;
    let (said, err) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    match out.status.success() && said.contains("test result: ok") {
        true => Ok(()),
        false => {
            let tail = |text: &str| {
                text.lines().rev().take(60).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n")
            };
            Err(format!("{}\n{}", tail(&said), tail(&err)).into())
        }
    }
}
