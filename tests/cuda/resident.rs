//! Tensors stay on the device: what is sent and fetched, what is launched whole, and that nothing of it shows in results.

use fulgurite::buffer::Buffer;
use fulgurite::executors::cuda::device::host::Host;
use fulgurite::executors::cuda::device::{Address, Device, Gemm, KernelUnit, Matrix, Module, Replay};
use fulgurite::executors::cuda::{self, Cuda};
use fulgurite::executors::{self, CompileOptions, ExecError, Executor};
use fulgurite::prelude::*;
use fulgurite::trace::Trace;
use fulgurite::{jit, to_device, to_host};
use fulgurite_core::DType;
use libtest_mimic::Failed;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Bytes and replays of a device.
#[derive(Default)]
pub struct Counts {
    sent: AtomicUsize,
    fetched: AtomicUsize,
    products: AtomicUsize,
    /// Of operands of f16 and bf16.
    halves: AtomicUsize,
    held: AtomicUsize,
    replays: AtomicUsize,
    /// The kernels that programs had loaded.
    loaded: Mutex<BTreeSet<String>>,
}

impl Counts {
    /// The names of the kernels that were loaded.
    pub fn names(&self) -> BTreeSet<String> {
        self.loaded.lock().expect("no thread failed").clone()
    }
}

/// The processor as a device that counts, and gives memory out again as a driver's pool does: last in, first out.
pub struct Counting {
    host: Host,
    counts: Arc<Counts>,
    free: Mutex<HashMap<usize, Vec<Address>>>,
    /// Whether it records.
    records: bool,
    /// Whether it has products of matrices.
    multiplies: bool,
}

impl Counting {
    pub fn made(records: bool) -> (Arc<dyn Device>, Arc<Counts>) {
        let counts = Arc::new(Counts::default());
        (
            Arc::new(Counting {
                host: Host::default(),
                counts: counts.clone(),
                free: Mutex::default(),
                records,
                multiplies: false,
            }),
            counts,
        )
    }
}

/// The product as its documentation says, element by element.
///
/// # Safety
/// The matrices lie there.
unsafe fn multiplied<F, T>(gemm: &Gemm, [a, b, c]: [Address; 3])
where
    F: Copy + Into<T>,
    T: Copy + Default + std::ops::AddAssign + std::ops::Mul<Output = T>,
{
    let place = |m: &Matrix, which: usize, row: usize, column: usize| {
        let (row, column) = if m.transposed { (column, row) } else { (row, column) };
        which as isize * m.matrices as isize + (row + column * m.columns) as isize
    };
    let [ma, mb, mc] = &gemm.matrices;
    for which in 0..gemm.count {
        for (row, column) in (0..gemm.n).flat_map(|column| (0..gemm.m).map(move |row| (row, column))) {
            // SAFETY: the caller's.
            unsafe {
                let out = (c.0 as *mut T).offset(place(mc, which, row, column));
                let mut sum = if gemm.adds { *out } else { T::default() };
                for k in 0..gemm.k {
                    let left: T = (*(a.0 as *const F).offset(place(ma, which, row, k))).into();
                    sum += left * (*(b.0 as *const F).offset(place(mb, which, k, column))).into();
                }
                *out = sum;
            }
        }
    }
}

struct Counted(Box<dyn Replay>, Arc<Counts>);

impl Replay for Counted {
    unsafe fn run(&self) -> Result<(), ExecError> {
        self.1.replays.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { self.0.run() }
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        for (bytes, blocks) in self.free.get_mut().expect("no thread failed").drain() {
            // SAFETY: of `alloc`, and given back.
            blocks.into_iter().for_each(|block| unsafe { self.host.free(block, bytes) });
        }
    }
}

impl Device for Counting {
    fn name(&self) -> String {
        "a device that counts".to_owned()
    }
    fn ordinal(&self) -> u32 {
        0
    }
    fn has_arena(&self) -> bool {
        true
    }
    fn alloc(&self, bytes: usize) -> Result<Address, ExecError> {
        self.counts.held.fetch_add(bytes, Ordering::Relaxed);
        let free = self.free.lock().expect("no thread failed").get_mut(&bytes).and_then(Vec::pop);
        free.map_or_else(|| self.host.alloc(bytes), Ok)
    }
    unsafe fn free(&self, block: Address, bytes: usize) {
        self.counts.held.fetch_sub(bytes, Ordering::Relaxed);
        self.free.lock().expect("no thread failed").entry(bytes).or_default().push(block);
    }
    unsafe fn upload(&self, to: Address, from: &[u8]) -> Result<(), ExecError> {
        self.counts.sent.fetch_add(from.len(), Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { self.host.upload(to, from) }
    }
    unsafe fn download(&self, to: &mut [u8], from: Address) -> Result<(), ExecError> {
        self.counts.fetched.fetch_add(to.len(), Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { self.host.download(to, from) }
    }
    unsafe fn zero(&self, at: Address, bytes: usize) -> Result<(), ExecError> {
        // SAFETY: the caller's.
        unsafe { self.host.zero(at, bytes) }
    }
    unsafe fn copy(&self, to: Address, from: Address, bytes: usize) -> Result<(), ExecError> {
        // SAFETY: the caller's.
        unsafe { self.host.copy(to, from, bytes) }
    }
    fn record(&self, work: &mut dyn FnMut() -> Result<(), ExecError>) -> Result<Option<Box<dyn Replay>>, ExecError> {
        if !self.records {
            return Ok(None);
        }
        let recorded = self.host.record(work)?;
        Ok(recorded.map(|r| Box::new(Counted(r, self.counts.clone())) as Box<dyn Replay>))
    }
    fn multiplies(&self) -> bool {
        self.multiplies
    }
    unsafe fn multiply(&self, gemm: &Gemm, at: [Address; 3]) -> Result<(), ExecError> {
        self.counts.products.fetch_add(1, Ordering::Relaxed);
        self.counts.halves.fetch_add(usize::from(gemm.operands.size() == 2), Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe {
            match (gemm.operands, gemm.dtype) {
                (DType::F64, DType::F64) => multiplied::<f64, f64>(gemm, at),
                (DType::F32, DType::F32) => multiplied::<f32, f32>(gemm, at),
                (DType::F16, DType::F32) => multiplied::<half::f16, f32>(gemm, at),
                (DType::BF16, DType::F32) => multiplied::<half::bf16, f32>(gemm, at),
                other => return Err(ExecError::new("E807", format!("no product of {other:?}"))),
            }
        }
        Ok(())
    }
    fn load(&self, unit: &KernelUnit) -> Result<Arc<dyn Module>, ExecError> {
        self.counts.loaded.lock().expect("no thread failed").extend(unit.names().iter().cloned());
        self.host.load(unit)
    }
}

fn on(device: &Arc<dyn Device>) -> Vec<Arc<dyn Executor>> {
    let cuda: Arc<dyn Executor> = Arc::new(Cuda::on(device.clone()));
    [cuda].into_iter().chain(executors::default()).collect()
}

type State = (Tensor, Tensor);

/// Gradient descent on `tanh(x w + b)`; an index picks the rows of a batch, so that kernels have a fault to report.
pub fn step((w, b): State, (x, picks, y): (Tensor, Tensor, Tensor)) -> (State, Tensor) {
    let rows = x.index_select(&picks, 0);
    let loss = |(w, b): &State| (&(rows.matmul(w) + b).tanh() - &y).square().mean();
    let (loss, (gw, gb)) = value_and_grad(&(w.clone(), b.clone()), loss);
    ((&w - &(gw * 0.1), &b - &(gb * 0.1)), loss)
}

pub fn ramp(n: usize, by: f32) -> Vec<f32> {
    (0..n).map(|i| ((i * 7 % 23) as f32 - 11.0) * by).collect()
}

pub fn start() -> State {
    (Tensor::from_vec(ramp(8 * 4, 0.02), (8, 4)), Tensor::from_vec(ramp(4, 0.01), 4))
}

pub fn batch(i: usize) -> (Tensor, Tensor, Tensor) {
    let picks: Vec<i64> = (0..5).map(|k| ((k * 3 + i) % 6) as i64).collect();
    (
        Tensor::from_vec(ramp(6 * 8, 0.1 + i as f32 * 0.01), (6, 8)),
        picks.into(),
        Tensor::from_vec(ramp(5 * 4, 0.05), (5, 4)),
    )
}

/// Bytes of a batch.
const BATCH: usize = (6 * 8 + 5 * 4) * 4 + 5 * 8;

/// Losses and weights after some steps, and what was sent in the last of them.
pub fn train(
    executors: Option<Vec<Arc<dyn Executor>>>,
    sent: &AtomicUsize,
) -> Result<(Vec<f32>, Vec<f32>, usize), Failed> {
    let step = match executors {
        Some(executors) => jit(step).on(executors),
        None => jit(step),
    };
    let (mut state, mut losses, mut last) = (start(), Vec::new(), 0);
    for i in 0..12 {
        let before = sent.load(Ordering::Relaxed);
        losses.push(step.update(&mut state, batch(i)).map_err(|e| e.to_string())?);
        last = sent.load(Ordering::Relaxed) - before;
    }
    let mut all = Vec::new();
    for loss in losses {
        all.push(loss.item::<f32>().map_err(|e| e.to_string())?);
    }
    Ok((all, state.0.to_vec::<f32>().map_err(|e| e.to_string())?, last))
}

pub fn near(found: &[f32], wanted: &[f32]) -> Result<(), Failed> {
    within(1e-5, found, wanted)
}

fn within(tolerance: f32, found: &[f32], wanted: &[f32]) -> Result<(), Failed> {
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= tolerance * b.abs().max(1.0);
    match found.len() == wanted.len() && found.iter().zip(wanted).all(close) {
        true => Ok(()),
        false => Err(format!("{found:?}\nis not\n{wanted:?}").into()),
    }
}

/// After the first step a training step sends its batch and fetches nothing but the word that says whether a kernel failed;
/// it is recorded and launched whole, with the results of steps that are not.
pub fn a_step_sends_its_batch() -> Result<(), Failed> {
    let (device, counts) = Counting::made(true);
    let (losses, weights, sent) = train(Some(on(&device)), &counts.sent)?;
    let (want_losses, want_weights, _) = train(None, &AtomicUsize::new(0))?;
    near(&losses, &want_losses)?;
    near(&weights, &want_weights)?;
    if sent != BATCH {
        return Err(format!("the last step sent {sent} bytes, its batch has {BATCH}").into());
    }
    let fetched = counts.fetched.load(Ordering::Relaxed);
    let wanted = 12 * 16 + 12 * 4 + weights.len() * 4;
    if fetched != wanted {
        return Err(
            format!("{fetched} bytes were fetched, not {wanted}: a fault a step, losses and weights once").into()
        );
    }
    if counts.replays.load(Ordering::Relaxed) == 0 {
        return Err("no step was launched whole".into());
    }
    let (plain, plain_counts) = Counting::made(false);
    let (plain_losses, plain_weights, _) = train(Some(on(&plain)), &plain_counts.sent)?;
    if (plain_losses, plain_weights) != (losses, weights) {
        return Err("steps that are launched whole have other results".into());
    }
    drop(device);
    Ok(())
}

/// A wrong index is reported by the step that has it, recorded or not, and the state stays as it was.
pub fn faults_of_recorded_steps() -> Result<(), Failed> {
    let (device, counts) = Counting::made(true);
    let step = jit(step).on(on(&device));
    let mut state = start();
    for i in 0..10 {
        step.update(&mut state, batch(i)).map_err(|e| e.to_string())?;
    }
    let before: Vec<f32> = state.0.to_vec().map_err(|e| e.to_string())?;
    let (x, _, y) = batch(0);
    let error = step.update(&mut state, (x, vec![0i64, 1, 9, 2, 3].into(), y)).err();
    let code = error.as_ref().map(|e| e.code());
    if code != Some("E804") || counts.replays.load(Ordering::Relaxed) == 0 {
        return Err(format!("{error:?} after {:?} replays", counts.replays).into());
    }
    if state.0.to_vec::<f32>().map_err(|e| e.to_string())? != before {
        return Err("a step that failed changed the state".into());
    }
    step.update(&mut state, batch(1)).map_err(|e| e.to_string())?;
    Ok(())
}

/// What is put on a device is not sent again; memory is given back with the last share.
pub fn parameters_are_sent_once() -> Result<(), Failed> {
    let (device, counts) = Counting::made(true);
    let buffer = Buffer::from_slice(&ramp(64, 1.0), &[8, 8])?;
    let there = cuda::to_device(&device, &buffer).map_err(|e| e.to_string())?;
    let again = cuda::to_device(&device, &there).map_err(|e| e.to_string())?;
    if !again.shares_data(&there) {
        return Err("what lies on the device was copied".into());
    }
    let w = Tensor::from_buffer(there);
    let f = jit(|w: Tensor, x: Tensor| w.matmul(&x)).on(on(&device));
    for i in 0..4 {
        let x = Tensor::from_vec(ramp(8, i as f32), 8);
        let y: Vec<f32> = f.call((w.clone(), x.clone())).and_then(|y| y.to_vec()).map_err(|e| e.to_string())?;
        near(&y, &w.matmul(&x).to_vec::<f32>().map_err(|e| e.to_string())?)?;
    }
    let sent = counts.sent.load(Ordering::Relaxed);
    if sent != (64 + 4 * 8) * 4 {
        return Err(format!("{sent} bytes were sent").into());
    }
    drop((w, again, f));
    match counts.held.load(Ordering::Relaxed) {
        0 => Ok(()),
        held => Err(format!("{held} bytes are still held").into()),
    }
}

/// Trees go to a device by its name and come back; programs of the processor read what lies there.
pub fn trees_move() -> Result<(), Failed> {
    let text = |e: fulgurite::Error| e.to_string();
    let state = start();
    let there = to_device(&state, "host").map_err(text)?;
    if there.0.device().is_none() || to_device(&there, "host").map_err(text)?.0.device() != there.0.device() {
        return Err("not on the device".into());
    }
    let sums = |s: &State| (&s.0.sum() + &s.1.sum()).item::<f32>();
    let same = sums(&there).map_err(text)? == sums(&state).map_err(text)?;
    let back = to_host(&there).map_err(text)?;
    let at_home =
        back.0.device().is_none() && back.0.to_vec::<f32>().map_err(text)? == state.0.to_vec::<f32>().map_err(text)?;
    let unknown = to_device(&state, "cuda:x").err().map(|e| e.code());
    match same && at_home && unknown == Some("E809") {
        true => Ok(()),
        false => Err(format!("{same} {at_home} {unknown:?}").into()),
    }
}

/// Transfers are lines of the compiled program, each made once, before its first reader.
pub fn transfers_are_lines() -> Result<(), Failed> {
    let text = "fn mixed(x: f32[4, 6]) {
  a: f32[4, 6] = tanh(x)
  i: i64[4, 6] = argsort(a, dim=-1, descending=true)
  b: f32[4, 6] = gather(a, i, dim=1)
  c: f32[4, 6] = mul(b, a)
  return c, i, a
}";
    let trace = Trace::parse(text).map_err(|e| e.to_string())?;
    let bodies =
        |line: &_| fulgurite::bind::body_of(&trace.arena, line).map_err(|e| ExecError::new(e.code(), e.to_string()));
    let mut options = CompileOptions::new(&bodies);
    let (device, _) = Counting::made(true);
    options.executors = on(&device);
    let compiled = executors::compile(&trace, &options).map_err(|e| e.to_string())?;
    let steps: Vec<String> =
        compiled.describe().steps.into_iter().map(|s| format!("{}: {}", s.executor, s.what)).collect();
    let wanted = [
        "cuda: x.1: f32[4, 6]@cuda:0 = to_device(x)  # 96 bytes",
        "cuda: 1 kernels, 0 bytes on a device that counts",
        "cpu: a: f32[4, 6] = to_host(a.1)  # 96 bytes",
        "cpu: host:argsort",
        "cuda: i.1: i64[4, 6]@cuda:0 = to_device(i)  # 192 bytes",
        "cuda: 1 kernels, 0 bytes on a device that counts",
    ];
    if steps != wanted {
        return Err(steps.join("\n").into());
    }
    let x = Buffer::from_slice(&ramp(24, 0.3), &[4, 6])?;
    let values = compiled.run(&[x]).map_err(|e| e.to_string())?;
    match values.iter().map(|v| v.device().is_some()).collect::<Vec<_>>()[..] {
        [true, false, true] => Ok(()),
        ref other => Err(format!("results on the device: {other:?}").into()),
    }
}

/// Contractions become products of matrices where a device has those: operands by rows and by columns, batches, several
/// matrices a product, windows part by part, and every dtype. Halves are factors as they are, unless they are copied.
pub fn products_of_matrices() -> Result<(), Failed> {
    let counts = Arc::new(Counts::default());
    let host = Counting {
        host: Host::default(),
        counts: counts.clone(),
        free: Mutex::default(),
        records: false,
        multiplies: true,
    };
    let device: Arc<dyn Device> = Arc::new(host);
    type Two = fn(Tensor, Tensor) -> Tensor;
    type Case<'a> = (&'a str, Two, &'a [usize], &'a [usize], usize);
    let conv: Two = |x, w| x.conv(&w, None);
    // what is added to a product is added in f32: the program widens the factors, which are multiplied as they were
    let with_bias: Two = |x, w| x.linear(&w, Some(&w.select(1, 0)));
    let gradient: Two = |x, w| grad(&w, |w| x.linear(w, Some(&w.detach().select(1, 0))).square().sum());
    let cases: &[Case<'_>] = &[
        ("rows by rows", |a, b| a.matmul(&b), &[5, 7], &[7, 3], 1),
        ("columns by rows", |a, b| a.transpose(0, 1).matmul(&b), &[7, 5], &[7, 3], 1),
        ("rows by columns", |a, b| a.matmul(&b.transpose(0, 1)), &[5, 7], &[3, 7], 1),
        ("columns by columns", |a, b| a.transpose(0, 1).matmul(&b.transpose(0, 1)), &[7, 5], &[3, 7], 1),
        ("a vector", |a, b| a.matmul(&b), &[5, 7], &[7], 1),
        ("a matrix for all", |a, b| a.matmul(&b), &[4, 5, 7], &[7, 3], 1),
        ("a batch", |a, b| a.matmul(&b), &[4, 5, 7], &[4, 7, 3], 1),
        ("heads", |a, b| a.transpose(1, 2).matmul(&b.transpose(1, 2).transpose(2, 3)), &[2, 5, 3, 7], &[2, 6, 3, 7], 2),
        ("a sum behind", with_bias, &[5, 7], &[3, 7], 1),
        ("a sum behind, backwards", gradient, &[5, 7], &[3, 7], 2),
        ("windows", conv, &[2, 8, 12, 12], &[16, 8, 3, 3], 2),
        ("windows part by part", conv, &[4, 16, 24, 24], &[8, 16, 3, 3], 4),
    ];
    // the last bit of a half may be another one where sums of f32 fold in another order
    for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::F64, 1e-5), (DType::F16, 2e-3), (DType::BF16, 1e-2)] {
        let make = |shape: &[usize], by: f32| Tensor::from_vec(ramp(shape.iter().product(), by), shape).cast(dtype);
        for (name, two, a, b, products) in cases {
            let (a, b) = (make(a, 0.1), make(b, 0.3));
            let before = counts.products.load(Ordering::Relaxed);
            let halves = counts.halves.load(Ordering::Relaxed);
            let found = jit(*two).on(on(&device)).call((a.clone(), b.clone())).map_err(|e| e.to_string())?;
            let made = counts.products.load(Ordering::Relaxed) - before;
            let (found, wanted) = (found.to_f64(), jit(*two).call((a, b)).and_then(|y| y.to_f64()));
            let single = |x: Vec<f64>| x.into_iter().map(|x| x as f32).collect::<Vec<_>>();
            let (found, wanted) = (found.map_err(|e| e.to_string())?, wanted.map_err(|e| e.to_string())?);
            within(tolerance, &single(found), &single(wanted))
                .map_err(|e| format!("{name} of {dtype}: {}", e.message().unwrap_or_default()))?;
            let halves = counts.halves.load(Ordering::Relaxed) - halves;
            let as_halves = if dtype.size() == 2 && !name.starts_with("windows") { made } else { 0 };
            if made < *products || halves != as_halves {
                return Err(format!("{name} of {dtype}: {made} products of matrices, {halves} of halves").into());
            }
        }
    }
    Ok(())
}

/// A test.
pub type Test = fn() -> Result<(), Failed>;

/// All of them, with names.
pub const ALL: &[(&str, Test)] = &[
    ("resident::a_step_sends_its_batch", a_step_sends_its_batch),
    ("resident::faults_of_recorded_steps", faults_of_recorded_steps),
    ("resident::parameters_are_sent_once", parameters_are_sent_once),
    ("resident::trees_move", trees_move),
    ("resident::transfers_are_lines", transfers_are_lines),
    ("resident::products_of_matrices", products_of_matrices),
];
