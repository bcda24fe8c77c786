//! Kernels to be read: `tests/cuda/golden/NAME.cu` holds what the executor makes of a call at sizes of real use.
//! `UPDATE_EXPECT=1` writes them anew.

use fulgurite::executors::cuda::device::host::Host;
use fulgurite::executors::cuda::{Cuda, Kernels};
use fulgurite::executors::{self, CompileOptions, ExecError};
use fulgurite::trace::{ProxyId, ProxyTy};
use fulgurite::{Builder, symbol};
use fulgurite_core::loc::Loc;
use fulgurite_core::{DType, Name, Scalar, TensorTy, Value};
use libtest_mimic::Failed;
use std::path::Path;
use std::sync::Arc;

/// An argument of a call.
pub enum Arg {
    Tensor(DType, &'static [usize]),
    Key,
    Int(i64),
    Ints(&'static [i64]),
    Float(f64),
    Bool(bool),
}
use Arg::{Bool, Float, Int, Ints, Tensor};
use DType::{BF16, F32, I64};

/// The files of which there is a second one, `NAME_any.cu`, with the kernels that take their sizes as arguments.
const GENERAL: [&str; 2] = ["layer_norm", "gather"];

/// The file, the row, and its arguments in the order of the signature.
const CALLS: &[(&str, &str, &[Arg])] = &[
    ("gelu", "gelu", &[Tensor(F32, &[4096, 1024])]),
    ("add_broadcast", "add", &[Tensor(BF16, &[64, 128, 768]), Tensor(BF16, &[768])]),
    ("softmax", "softmax", &[Tensor(F32, &[4096, 1024]), Int(-1)]),
    (
        "layer_norm",
        "layer_norm",
        &[Tensor(BF16, &[4096, 768]), Tensor(BF16, &[768]), Tensor(BF16, &[768]), Ints(&[768])],
    ),
    ("sum_rows", "sum", &[Tensor(F32, &[4096, 1024]), Ints(&[0]), Bool(false)]),
    ("sum_all", "sum", &[Tensor(F32, &[4096, 4096]), Ints(&[0, 1]), Bool(false)]),
    ("argmax", "argmax", &[Tensor(F32, &[512, 50257]), Int(-1), Bool(false)]),
    ("cumsum", "cumsum", &[Tensor(F32, &[512, 4096]), Int(-1)]),
    ("matmul", "matmul", &[Tensor(F32, &[512, 256]), Tensor(F32, &[256, 384])]),
    ("gather", "gather", &[Tensor(F32, &[1000, 64]), Tensor(I64, &[32, 64]), Int(0)]),
    ("scatter_add", "scatter_add", &[Tensor(F32, &[1000, 64]), Tensor(I64, &[32, 64]), Tensor(F32, &[32, 64]), Int(0)]),
    ("embedding_backward", "embedding_backward", &[Tensor(F32, &[8192, 256]), Tensor(I64, &[8192]), Int(32768)]),
    ("dropout", "dropout", &[Tensor(F32, &[4096, 1024]), Arg::Key, Float(0.1)]),
];

/// The texts of the kernels that the executor makes of a call, in a form.
pub fn kernels(op: &str, args: &[Arg], form: Kernels) -> Result<String, Failed> {
    let symbol = symbol::find(Name::new(op)).ok_or_else(|| format!("no row `{op}`"))?;
    let mut builder = Builder::new("golden");
    let number = |s: Scalar| Value::Num(s);
    let args: Vec<Value<ProxyId>> = (args.iter())
        .map(|a| match a {
            Tensor(dtype, shape) => Value::Tensor(builder.input("x", ProxyTy::tensor(TensorTy::new(*dtype, shape)))),
            Arg::Key => Value::Tensor(builder.input("k", ProxyTy::Key)),
            Int(i) => number(Scalar::Int(*i)),
            Float(x) => number(Scalar::Float(*x)),
            Bool(b) => number(Scalar::Bool(*b)),
            Ints(list) => Value::List(list.iter().map(|i| Value::Num(Scalar::Int(*i))).collect()),
        })
        .collect();
    let outs = builder.bind(symbol, args, Loc::NOWHERE).map_err(|e| e.to_string())?;
    let trace = builder.finish(&outs);
    let bodies =
        |line: &_| fulgurite::bind::body_of(&trace.arena, line).map_err(|e| ExecError::new(e.code(), e.to_string()));
    let host = Arc::new(Host::default());
    let mut options = CompileOptions::new(&bodies);
    options.executors = vec![Arc::new(Cuda::on(host.clone()).with_kernels(form))];
    executors::compile(&trace, &options).map_err(|e| e.to_string())?;
    // a row that moves in its file changes nothing here
    let stamp = |line: &str| match line.starts_with("#line ") {
        true => "#line 1 \"ops.yaml\"".to_owned(),
        false => line.to_owned(),
    };
    let text = host.announced().texts().join("\n");
    Ok(text.lines().map(|line| stamp(line) + "\n").collect())
}

/// What is committed is what is made.
pub fn check() -> Result<(), Failed> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cuda/golden");
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut other = Vec::new();
    let specialised = CALLS.iter().map(|call| (call.0.to_owned(), call, Kernels::Specialised));
    let general = CALLS.iter().filter(|call| GENERAL.contains(&call.0));
    let general = general.map(|call| (format!("{}_any", call.0), call, Kernels::General));
    for (name, (_, op, args), form) in specialised.chain(general) {
        let (file, made) = (folder.join(format!("{name}.cu")), kernels(op, args, form)?);
        if std::fs::read_to_string(&file).unwrap_or_default() == made {
            continue;
        }
        if update {
            std::fs::create_dir_all(&folder)?;
            std::fs::write(&file, made)?;
        } else {
            other.push(format!("{name}.cu is not what is made now:\n{made}"));
        }
    }
    match other.is_empty() {
        true => Ok(()),
        false => Err(format!("{}\nUPDATE_EXPECT=1 writes them anew", other.join("\n")).into()),
    }
}
