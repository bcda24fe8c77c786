//! The modules of the crates below, each with the example that only a crate with operators can run.

/// Every call of an operator, by name: what generated functions stand on.
///
/// Programs call [`ops`](crate::ops) or methods. A tool that knows rows only as data calls them here, with arguments and
/// options in the order of the signature.
///
/// ```
/// use fulgurite::core::{Name, Scalar, Value};
/// use fulgurite::{Tensor, api, symbol};
///
/// let maximum = symbol::find(Name::new("maximum")).expect("a row of the database");
/// let x = Tensor::from([1.0f32, 4.0]);
/// let y = api::call_one(maximum, vec![Value::Tensor(x), Value::Num(Scalar::Int(2))]);
/// assert_eq!(y.to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), fulgurite::Error>(())
/// ```
pub use fulgurite_runtime::api;

/// Recording and editing lines: the [`Builder`](bind::Builder) and the [`Rewriter`](bind::Rewriter).
///
/// A transform of a user's own goes through the lines of a trace with [`Rewriter::each`](bind::Rewriter::each).
///
/// ```
/// use fulgurite::bind::Rewriter;
/// use fulgurite::core::Name;
/// use fulgurite::transforms::At;
/// use fulgurite::{Tensor, TensorOps, jit};
///
/// // every sine becomes a cosine
/// let swap = |trace: &fulgurite::Trace| {
///     Rewriter::each(trace, "swap", |rewriter, line| match line.symbol.name() {
///         "sin" => {
///             let made = rewriter.emit(Name::new("cos"), line.args.clone(), vec![])?;
///             rewriter.bind(line.outs[0], made.outs[0])
///         }
///         _ => rewriter.keep(),
///     })
/// };
/// let f = jit(|x: Tensor| x.sin()).transform(At::Acquired, "swap", swap);
/// assert_eq!(f.call(Tensor::from([0.0f32]))?.to_vec::<f32>()?, [1.0]);
/// # Ok::<(), fulgurite::Error>(())
/// ```
pub use fulgurite_runtime::bind;

/// The elements of a tensor, without operators.
///
/// ```
/// use fulgurite::Tensor;
///
/// let buffer = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]).buffer()?;
/// assert_eq!((buffer.shape(), buffer.byte_len()), (&[2, 2][..], 16));
/// assert_eq!(buffer.as_slice::<f32>(), Some(&[1.0, 2.0, 3.0, 4.0][..]));
/// # Ok::<(), fulgurite::Error>(())
/// ```
pub use fulgurite_runtime::buffer;

/// Trees in files: [`save`](checkpoint::save) and [`load`](checkpoint::load).
///
/// ```
/// use fulgurite::nn::Linear;
/// use fulgurite::{Key, checkpoint};
///
/// let path = std::env::temp_dir().join(format!("fulgurite-{}.safetensors", std::process::id()));
/// let (saved, mut loaded) = (Linear::new(Key::new(1), 2, 3), Linear::new(Key::new(2), 2, 3));
/// checkpoint::save(&path, &saved)?;
/// checkpoint::load(&path, &mut loaded)?;
/// assert_eq!(loaded.w.to_vec::<f32>()?, saved.w.to_vec::<f32>()?);
/// # std::fs::remove_file(&path).expect("it was written");
/// # Ok::<(), fulgurite::Error>(())
/// ```
pub use fulgurite_runtime::checkpoint;

/// Files that are replaced as a whole: a reader sees the old file or the new one, also after a crash.
///
/// ```
/// use fulgurite::files;
///
/// let folder = std::env::temp_dir().join(format!("fulgurite-files-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// let path = folder.join("settings.json");
/// files::replace(&path, |out| out.write_all(b"{}"))?;
/// // nothing was killed, so nothing is left
/// assert_eq!(files::remove_unfinished(&folder)?, 0);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub use fulgurite_core::files;
/// The time of each step of compiled programs: [`profile`](mod@profile).
///
/// ```
/// use fulgurite::prelude::*;
/// use fulgurite::profile::profile;
///
/// let f = jit(|x: Tensor| (x.exp() + 1.0).sqrt());
/// let x = Tensor::from([0.0f32, 1.0, 2.0]);
/// let (y, profile) = profile(|| f.call(x.clone()));
/// let [fusion] = &profile.steps[..] else { panic!("{profile}") };
/// assert_eq!((fusion.runs, fusion.info.rows.as_slice()), (1, &["exp", "add", "sqrt"][..]));
/// # assert_eq!(y?.shape().len(), 1);
/// # Ok::<(), Error>(())
/// ```
pub use fulgurite_runtime::profile;

/// Moving trees between host memory and devices: [`to_device`](devices::to_device) and [`to_host`](devices::to_host).
///
/// ```
/// use fulgurite::{Tensor, to_device};
///
/// let x = Tensor::from([1.0f32, 2.0]);
/// // `host` is the processor as a device; `cuda:0` is the first GPU
/// match to_device(&x, "cuda:0") {
///     Ok(there) => assert_eq!(there.device().as_deref(), Some("cuda:0")),
///     Err(e) => assert_eq!(e.code(), "E809"), // this machine has none
/// }
/// ```
pub use fulgurite_runtime::devices;

/// The error type: a code, a claim, the place of the user's call, and what to do.
///
/// ```
/// use fulgurite::error::ErrorKind;
/// use fulgurite::{Tensor, TensorOps};
///
/// let (x, w) = (Tensor::from([[1.0f32, 2.0, 3.0]]), Tensor::from([[1.0f32, 2.0]]));
/// let line = line!() + 1;
/// let later = x.matmul(&w).exp().sum(); // the first error goes through
/// let e = later.item::<f32>().unwrap_err();
/// assert_eq!((e.code(), e.loc().line), ("E701", line));
/// assert!(matches!(e.kind(), ErrorKind::ShapeMismatch { .. }));
/// ```
pub use fulgurite_runtime::error;

/// Executors: what runs the lines of a program, and in which order they are asked.
///
/// ```
/// use fulgurite::{Tensor, TensorOps, executors, jit};
///
/// let interpreter = executors::find("interp").expect("it is always there");
/// let f = jit(|x: Tensor| x.exp()).on(vec![interpreter]);
/// assert_eq!(f.call(Tensor::from([0.0f32]))?.to_vec::<f32>()?, [1.0]);
/// # Ok::<(), fulgurite::Error>(())
/// ```
pub use fulgurite_runtime::executors;

/// Calls of rows by their names in another library, with the positional and named arguments of a dynamic language.
///
/// Databases list such calls. PyTorch's calls are those of the crate `fulgurite-pytorch`, whose documentation has an
/// example.
///
/// ```
/// use fulgurite::foreign;
///
/// // this program does not link that crate
/// assert!(foreign::forms("torch.sort").is_empty());
/// ```
pub use fulgurite_runtime::foreign;

/// The few rows that the runtime calls by name: operators such as `+`, and lines that transforms make.
///
/// ```
/// assert!(fulgurite::intrinsics::missing().is_empty());
/// ```
pub use fulgurite_runtime::intrinsics;

/// Compiled functions and derivatives.
///
/// [`jit`](fn@crate::jit) makes a compiled function of a closure over owned trees. [`grad`](crate::grad) and its
/// siblings differentiate a closure, at once or inside of a compiled function, and [`vmap`](crate::vmap) runs it for
/// every slice of a batch.
///
/// ```
/// use fulgurite::{Tensor, TensorOps, grad, jit, vmap};
///
/// let x = Tensor::from([1.0f32, 2.0]);
/// let slope = jit(|x: Tensor| grad(&x, |x| x.square().sum()));
/// assert_eq!(slope.call(x.clone())?.to_vec::<f32>()?, [2.0, 4.0]);
/// assert_eq!(slope.stats().misses.len(), 1); // compiled once, for f32[2]
///
/// let each = vmap(&x, |x| grad(x, |x| x.square()))?;
/// assert_eq!(each.to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), fulgurite::Error>(())
/// ```
pub use fulgurite_runtime::jit::{self};

/// What may stand where an operator takes a tensor: a tensor, a reference to one, or a plain number.
///
/// ```
/// use fulgurite::Tensor;
///
/// let x = Tensor::from([1.0f32, 2.0]);
/// // a number takes part with its value, and decides no dtype
/// assert_eq!((2.0 * &x - 1).to_vec::<f32>()?, [1.0, 3.0]);
/// # Ok::<(), fulgurite::Error>(())
/// ```
pub use fulgurite_runtime::operand;

/// Parts of a program, for crates that run them in an order of their own, as [`pipeline`] does.
///
/// ```
/// use fulgurite::parts::bytes_of;
///
/// let trace = fulgurite::Trace::parse("fn f(x: f32[2, 3]) {\n  return x\n}\n")?;
/// let input = trace.inputs()[0].proxy;
/// assert_eq!(bytes_of(&trace.arena, input), 24);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub use fulgurite_runtime::parts;

/// Regions and tags: what holds for all calls of a closure.
///
/// ```
/// use fulgurite::scope::{autocast, named, no_grad};
/// use fulgurite::{Tensor, TensorOps, core::DType, grad};
///
/// let x = Tensor::from([[3.0f32]]);
/// // no gradient flows through the second factor
/// let g = grad(&x, |x| named("loss", || (x * no_grad(|| x * 2.0)).sum()));
/// assert_eq!(g.to_vec::<f32>()?, [6.0]);
/// // products run in bf16 inside of the region
/// assert_eq!(autocast(DType::BF16, || x.matmul(&x)).dtype(), DType::BF16);
/// # Ok::<(), fulgurite::Error>(())
/// ```
pub use fulgurite_runtime::scope;

/// Tensor subclasses: tensors that are made of other tensors and have rules of their own.
///
/// ```
/// use fulgurite::subclass::{self, Subclassed};
/// use fulgurite::{Tensor, TensorOps, core::DType};
///
/// let x = Tensor::from([1.0f32, 2.0]).to_float8();
/// assert_eq!((x.dtype(), x.field("data").dtype()), (DType::F32, DType::F8E4M3FN));
/// assert_eq!(subclass::parts(&x)?.class().name().as_str(), "Float8Tensor");
/// # Ok::<(), fulgurite::Error>(())
/// ```
pub use fulgurite_runtime::subclass;

/// Rows at run time: find one by its name, list all, and read what a row says.
///
/// ```
/// use fulgurite::core::Name;
/// use fulgurite::symbol;
///
/// let softmax = symbol::find(Name::new("softmax")).expect("a row of the database");
/// assert_eq!(softmax.row().sig.outs.len(), 1);
/// assert!(symbol::find(Name::new("softmaxx")).is_none());
/// ```
pub use fulgurite_runtime::symbol;

/// The tensor: made of numbers, read as numbers, asked for its type.
///
/// ```
/// use fulgurite::{Key, Tensor, core::DType};
///
/// let x = Tensor::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// assert_eq!((x.rank(), x.dtype()), (2, DType::F32));
/// assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
/// let ones = Tensor::from_vec(vec![1i64; 4], (2, 2));
/// assert_eq!(ones.shape(), [2, 2]);
/// // random numbers are functions of a key
/// let (a, b) = (Key::new(7), Key::new(7));
/// let draw = |key: &Key| fulgurite::ops::randn(key, 3).to_vec::<f32>();
/// assert_eq!(draw(&a)?, draw(&b)?);
/// # Ok::<(), fulgurite::Error>(())
/// ```
pub use fulgurite_runtime::tensor;

/// Traces as data: what a compiled function recorded, as text that can be read back.
///
/// ```
/// use fulgurite::{Tensor, TensorOps, Trace, jit};
///
/// let f = jit(|x: Tensor| x.exp().sum()).keep_traces();
/// f.call(Tensor::from([0.0f32, 1.0]))?;
/// let text = f.trace("acquired").expect("kept");
/// let trace = Trace::parse(&text).expect("what is printed can be read");
/// let lines: Vec<&str> = trace.lines().iter().map(|line| line.symbol.name()).collect();
/// assert_eq!(lines, ["exp", "sum"]);
/// # Ok::<(), fulgurite::Error>(())
/// ```
pub use fulgurite_runtime::trace;

/// Transforms: functions from a trace to a trace, which compiled functions run and programs may call.
///
/// ```
/// use fulgurite::trace::{SplitSide, Trace};
/// use fulgurite::transforms::simplify;
///
/// let trace = Trace::parse(
///     "fn f(x: f32[2]) {\n  a: f32[2] = exp(x)\n  b: f32[2] = exp(x)\n  c: f32[2] = mul(a, b)\n  return c\n}\n",
/// )
/// .expect("a trace");
/// // equal lines become one
/// assert_eq!(simplify(&trace, SplitSide::Before)?.lines().len(), 2);
/// # Ok::<(), fulgurite::Error>(())
/// ```
pub use fulgurite_runtime::transforms;

/// Trees: values made of tensors, such as models, batches and states of optimisers.
///
/// ```
/// use fulgurite::{Tensor, Tree, jit, tree};
///
/// #[derive(Tree, Clone)]
/// struct Scale {
///     by: Tensor,
///     #[tree(fixed)] // a part of the program: another value compiles it again
///     times: usize,
/// }
///
/// let f = jit(|scale: Scale, x: Tensor| (0..scale.times).fold(x, |x, _| x * &scale.by));
/// let scale = Scale { by: Tensor::scalar(3.0f32), times: 2 };
/// assert_eq!(f.call((scale.clone(), Tensor::scalar(1.0f32)))?.item::<f32>()?, 9.0);
/// // every leaf at once
/// let twice = tree::map(&scale, |leaf| leaf * 2.0);
/// assert_eq!(twice.by.item::<f32>()?, 6.0);
/// # Ok::<(), fulgurite::Error>(())
/// ```
pub use fulgurite_runtime::tree;

/// Ranks: processes or threads that work on one thing and send each other messages.
///
/// ```
/// use fulgurite::comm::{FIRST_TAG, Local, Ranks, Reduction};
/// use std::time::Duration;
///
/// let one = |link: Local| {
///     let mut ranks = Ranks::new(Box::new(link), Duration::from_secs(5));
///     let mine = vec![ranks.rank() as f32 + 1.0];
///     let sum = Reduction::start(&mut ranks, &[0, 1], FIRST_TAG, mine)?.finish(&mut ranks, &"the sum")?;
///     ranks.close()?;
///     Ok::<_, fulgurite::Error>(sum)
/// };
/// let links = Local::ranks(2);
/// let sums: Vec<_> = std::thread::scope(|scope| {
///     let threads: Vec<_> = links.into_iter().map(|link| scope.spawn(|| one(link))).collect();
///     threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
/// });
/// for sum in sums {
///     assert_eq!(sum?, [3.0]);
/// }
/// # Ok::<(), fulgurite::Error>(())
/// ```
pub use fulgurite_parallel::comm;

/// Stages of a model that run apart, each micro-batch forward and then back.
///
/// ```
/// use fulgurite::pipeline::{Cotangents, Stage, StageRun};
/// use fulgurite::{Tensor, TensorOps};
///
/// let (w, x) = (Tensor::from([[1.0f32], [2.0]]), Tensor::from([[3.0f32, 4.0]]));
/// let stage = Stage::of("loss", |w: Tensor, x: Tensor| x.matmul(&w).square().sum(), &w, &x)?;
/// let mut run = StageRun::new(&stage, 0, &w, 1)?; // stage 0, one micro-batch
/// assert_eq!(run.forward(0, &x)?[0].item::<f32>()?, 121.0);
/// run.input_backward(0, Cotangents::Loss)?; // what the stage before waits for
/// run.weight_backward(0)?;
/// assert!(run.reduce()?[0].is_some());
/// # Ok::<(), fulgurite::Error>(())
/// ```
pub use fulgurite_parallel::pipeline;

/// Schedules of pipelines as data: made, checked and simulated.
///
/// ```
/// use fulgurite::schedule::{Costs, Generator, Limits, check, simulate};
///
/// let schedule = Generator { kind: "zb1p", ranks: 2, micro_batches: 4, chunks: 1 }.make()?;
/// assert!(check(&schedule, &Limits::default()).is_empty());
/// assert_eq!(simulate(&schedule, &Costs::even(2, 1, 1, 1))?.makespan, 13);
/// # Ok::<(), fulgurite::Error>(())
/// ```
pub use fulgurite_parallel::schedule;

/// Pages for a browser about the stages of programs.
///
/// [`Jit::trace_html`](crate::Jit::trace_html) writes the page of a compiled function, and [`Viewer`](viewer::Viewer)
/// one with measured times. The page is one file, which needs no network.
///
/// ```
/// # use fulgurite::prelude::*;
/// use fulgurite::profile::profile;
/// use fulgurite::viewer::Viewer;
///
/// # fn main() -> Result<()> {
/// let f = jit(|x: Tensor| (&x * 2.0).exp()).named("f").keep_traces();
/// f.call(Tensor::from([1.0f32, 2.0]))?;
/// let file = std::env::temp_dir().join(format!("fulgurite-viewer-{}.html", std::process::id()));
/// f.trace_html(&file)?;
///
/// let (ran, profile) = profile(|| f.call(Tensor::from([1.0f32, 2.0])));
/// ran?;
/// Viewer::new("f, measured", &f.stages()).profiled(Some(&profile)).write(&file)?;
/// # std::fs::remove_file(file).ok();
/// # Ok(())
/// # }
/// ```
pub mod viewer {
    pub use fulgurite_runtime::viewer::*;
}
