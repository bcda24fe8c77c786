//! The NVIDIA device without an NVIDIA device: in a process of its own, on a driver, a compiler and a cuBLASLt that are
//! pretended (`driver/*.cpp`). They do what is asked of a stream as late as CUDA allows, and end the process where a call
//! breaks a rule: memory that is not there, a stream that records, a context that is not current, a matrix that is not
//! aligned as was said.

use super::resident::{batch, near, ramp, start, step, train};
use fulgurite::buffer::Buffer;
use fulgurite::executors::cuda;
use fulgurite::ops::Sum;
use fulgurite::prelude::*;
use fulgurite::{jit, to_device};
use libtest_mimic::Failed;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicUsize;

/// Set in the process on the pretended driver.
pub const PRETENDED: &str = "FULGURITE_PRETENDED";

fn said(e: impl std::fmt::Display) -> Failed {
    e.to_string().into()
}

/// What runs in that process.
pub fn programs() -> Result<(), Failed> {
    let executors = || cuda::first("cuda:0").map_err(said);
    // a step that is recorded, and what it does to the state when an index is wrong
    let (losses, weights, _) = train(Some(executors()?), &AtomicUsize::new(0))?;
    let (wanted, wanted_weights, _) = train(None, &AtomicUsize::new(0))?;
    near(&losses, &wanted)?;
    near(&weights, &wanted_weights)?;
    let compiled = jit(step).on(executors()?);
    let mut state = start();
    for i in 0..8 {
        compiled.update(&mut state, batch(i)).map_err(said)?;
    }
    let (x, _, y) = batch(0);
    match compiled.update(&mut state, (x, vec![0i64, 1, 9, 2, 3].into(), y)) {
        Err(e) if e.code() == "E804" => {}
        other => return Err(format!("a wrong index gives {other:?}").into()),
    }
    compiled.update(&mut state, batch(1)).map_err(said)?;
    // kernels that take sizes as arguments, for several sizes
    let symbolic = jit(columns).caching(Caching::Symbolic).on(executors()?);
    for n in [3, 8, 21] {
        let x = Tensor::from_vec(ramp(n * 12, 0.1), (n, 12));
        let wanted = columns(x.clone()).to_vec::<f32>().map_err(said)?;
        near(&symbolic.call(x).and_then(|y| y.to_vec()).map_err(said)?, &wanted)?;
    }
    // copies by pinned memory, of several pieces and a rest
    let data = ramp((9 << 20) / 4 + 3, 0.5);
    let there = to_device(&Tensor::from_vec(data.clone(), data.len()), "cuda").map_err(said)?;
    let twice: Vec<f32> =
        jit(|x: Tensor| &x + &x).on(executors()?).call(there.clone()).map_err(said)?.to_vec().map_err(said)?;
    if twice.iter().zip(&data).any(|(a, b)| *a != b + b) || there.to_vec::<f32>().map_err(said)? != data {
        return Err("what came back by pinned memory is not what went".into());
    }
    // products: by rows, by columns, batches with a size in between, windows
    let a = Tensor::from_vec(ramp(2 * 5 * 3 * 7, 0.1), (2, 5, 3, 7));
    let b = Tensor::from_vec(ramp(2 * 6 * 3 * 7, 0.2), (2, 6, 3, 7));
    let heads = |a: Tensor, b: Tensor| a.transpose(1, 2).matmul(&b.transpose(1, 2).transpose(2, 3));
    same(heads, (a, b))?;
    let x = Tensor::from_vec(ramp(4 * 16 * 24 * 24, 0.01), (4, 16, 24, 24));
    let w = Tensor::from_vec(ramp(8 * 16 * 9, 0.1), (8, 16, 3, 3));
    same(|x: Tensor, w: Tensor| x.conv(&w, None), (x, w))?;
    let (a, b) = (ramp(15, 0.1), ramp(20, 0.3));
    let wide = |x: &[f32]| x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
    let (a, b) = (Tensor::from_vec(wide(&a), (5, 3)), Tensor::from_vec(wide(&b), (5, 4)));
    same(|a: Tensor, b: Tensor| a.transpose(0, 1).matmul(&b), (a.clone(), b.clone()))?;
    for dtype in [DType::F16, DType::BF16] {
        let [a, b] = [&a, &b].map(|t| t.cast(dtype));
        same(|a: Tensor, b: Tensor| a.transpose(0, 1).matmul(&b), (a, b))?;
    }
    // more than there is: the error says what the program holds
    let huge = Buffer::from_slice(&[1.0f32], &[1, 1])?;
    let wide = jit(|x: Tensor| x.expand([400_000, 400_000]).exp()).on(executors()?);
    match wide.call(Tensor::from_buffer(huge)) {
        Err(e) if e.code() == "E806" && e.to_string().contains("the largest of") => Ok(()),
        Err(e) => Err(said(e)),
        Ok(_) => Err("640 GB fit into the memory of the device".into()),
    }
}

/// The sums of columns after a softmax of rows.
fn columns(x: Tensor) -> Tensor {
    (x.softmax(-1) * 0.3).sum_with(Sum { dims: [0].into(), ..d() })
}

fn same<F>(f: F, (a, b): (Tensor, Tensor)) -> Result<(), Failed>
where
    F: Fn(Tensor, Tensor) -> Tensor + Copy + 'static,
{
    let wanted = f(a.clone(), b.clone()).to_f64().map_err(said)?;
    let found = jit(f).on(cuda::first("cuda:0").map_err(said)?).call((a, b)).and_then(|y| y.to_f64()).map_err(said)?;
    let narrow = |x: Vec<f64>| x.into_iter().map(|x| x as f32).collect::<Vec<_>>();
    near(&narrow(found), &narrow(wanted))
}

/// Makes the libraries, and runs the programs on them: recorded and launched whole, and waiting for each launch.
pub fn check() -> Result<(), Failed> {
    let folder = std::env::temp_dir().join(format!("fulgurite-driver-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let done = libraries(&folder).and_then(|()| {
        let report = run(&folder, None)?;
        let counts = |what: &str| {
            let at = report.find(what).unwrap_or(0);
            report[..at].split_whitespace().next_back().and_then(|n| n.parse::<usize>().ok()).unwrap_or(0)
        };
        for what in ["launches", "graphs", "products", "pinned copies"] {
            if counts(what) == 0 {
                return Err(format!("no {what}: {report}").into());
            }
        }
        run(&folder, Some("FULGURITE_CUDA_SYNC"))?;
        Ok(())
    });
    let _ = std::fs::remove_dir_all(&folder);
    done
}

fn libraries(folder: &Path) -> Result<(), Failed> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("cuda/driver");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    for (source, library) in [("cuda", "cuda"), ("nvrtc", "nvrtc"), ("cublaslt", "cublasLt")] {
        let out = Command::new(&compiler)
            .args(["-std=c++17", "-O1", "-shared", "-fPIC", "-Wall", "-Werror"])
            .arg(sources.join(format!("{source}.cpp")))
            .arg("-o")
            .arg(folder.join(format!("lib{library}.so")))
            .arg("-L")
            .arg(folder)
            .args(if source == "cublaslt" { ["-lcuda"].as_slice() } else { &[] })
            .output()?;
        if !out.status.success() {
            return Err(String::from_utf8_lossy(&out.stderr).into_owned().into());
        }
    }
    Ok(())
}

fn run(folder: &Path, more: Option<&str>) -> Result<String, Failed> {
    let header: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/src/executors/cuda/device/host.h");
    let mut command = Command::new(std::env::current_exe()?);
    command.env(PRETENDED, "1").env("FULGURITE_REPORT", "1").env("FULGURITE_HOST_H", header.canonicalize()?);
    command.env("LD_LIBRARY_PATH", folder).env("FULGURITE_CACHE", folder.join("cache"));
    command.env_remove("FULGURITE_NVRTC").env_remove("FULGURITE_CUBLASLT");
    more.into_iter().for_each(|name| _ = command.env(name, "1"));
    let out = command.output()?;
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    match out.status.success() {
        true => Ok(err),
        false => Err(format!("{}\n{err}", out.status).into()),
    }
}
