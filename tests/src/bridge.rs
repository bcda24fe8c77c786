//! Runs the generator's calls on the runtime: as a trace of one line on chosen executors, and through the functions
//! that users call.

use crate::bound;
use crate::calls::Call;
use crate::oracle::Operand;
use fulgurite::buffer::Buffer;
use fulgurite::executors::{self, CompileOptions, Compiled, ExecError};
use fulgurite::symbol::{self, SymbolRef};
use fulgurite::trace::{ProxyId, ProxyTy, Trace};
use fulgurite::{Builder, Error, Key, Tensor, api};
use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::loc::Loc;
use fulgurite_core::{DType, Dim, Name, Scalar, TensorTy, Value};

/// The reason why the runtime did not run a call.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The code, such as `E701`.
    pub code: &'static str,
    /// The whole text of the error.
    pub text: String,
}

impl From<Error> for Refused {
    fn from(e: Error) -> Refused {
        Refused { code: e.code(), text: e.to_string() }
    }
}
impl From<ExecError> for Refused {
    fn from(e: ExecError) -> Refused {
        Refused { code: e.code, text: e.to_string() }
    }
}
impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// The symbol of a row.
///
/// # Errors
/// The generated crate has no such row: it was built from another `ops.yaml`.
pub fn symbol(name: Name) -> Result<SymbolRef, Refused> {
    symbol::find(name).ok_or_else(|| Refused { code: "E710", text: format!("`{name}` is not registered") })
}

/// The elements as memory.
pub fn buffer(a: &Array<f64>) -> Buffer {
    let mut bytes = Vec::with_capacity(a.len() * a.dtype.size());
    for s in a.scalars() {
        let one = Buffer::number(s, a.dtype).expect("tensors have stored dtypes");
        bytes.extend_from_slice(one.as_bytes());
    }
    Buffer::from_bytes(a.dtype, &a.shape, &bytes).expect("as many bytes as elements")
}

/// Memory as elements.
pub fn array(b: &Buffer) -> Array<f64> {
    Array::from_scalars(b.dtype(), b.shape(), b.scalars())
}

/// A handle for an operand.
pub fn tensor(o: &Operand<f64>) -> Tensor {
    match o {
        Operand::Tensor(a) => Tensor::from_buffer(buffer(a)),
        Operand::Key([seed, _]) => Key::new(*seed).handle().clone(),
        Operand::Number(DType::F32, s) => (s.as_f64() as f32).into(),
        Operand::Number(DType::Bool, s) => s.as_bool().into(),
        Operand::Number(d, s) if d.is_int() => s.as_i64().into(),
        Operand::Number(_, s) => s.as_f64().into(),
    }
}

/// A call as a program of one line.
pub struct Program {
    /// The trace.
    pub trace: Trace,
    inputs: Vec<Buffer>,
}

/// Records a call.
///
/// # Errors
/// The refusal of `bind`.
pub fn record(call: &Call) -> Result<Program, Refused> {
    let symbol = symbol(call.row.op)?;
    let mut builder = Builder::new("test");
    let mut inputs = Vec::new();
    let mut args: Vec<Value<ProxyId>> = Vec::new();
    for arg in &call.args {
        args.push(arg.map(&mut |o| {
            let (ty, memory) = match o {
                Operand::Tensor(a) => (ProxyTy::tensor(TensorTy::new(a.dtype, &a.shape)), buffer(a)),
                Operand::Key([seed, stream]) => {
                    (ProxyTy::Key, Buffer::key(*seed as i64, *stream as i64).expect("a key is two numbers"))
                }
                Operand::Number(d, s) => {
                    (ProxyTy::Number(*d), Buffer::number(*s, *d).expect("numbers have stored dtypes"))
                }
            };
            inputs.push(memory);
            builder.input("x", ty)
        }));
    }
    let outs = builder.bind(symbol, args, Loc::NOWHERE)?;
    let trace = builder.finish(&outs);
    Ok(Program { trace, inputs })
}

impl Program {
    /// Compiles the program for executors, of which earlier ones take precedence; `threads` 0 means all available.
    ///
    /// # Errors
    /// The error of compiling.
    pub fn compile(&self, names: &[&str], threads: usize) -> Result<Compiled, Refused> {
        let bodies = |line: &_| {
            fulgurite::bind::body_of(&self.trace.arena, line).map_err(|e| ExecError::new(e.code(), e.to_string()))
        };
        let mut options = CompileOptions::new(&bodies);
        options.executors = names.iter().filter_map(|n| executors::find(n)).collect();
        options.threads = threads;
        Ok(executors::compile(&self.trace, &options)?)
    }

    /// Runs the compiled program.
    ///
    /// # Errors
    /// The error of running.
    pub fn run(&self, compiled: &Compiled) -> Result<Vec<Buffer>, Refused> {
        Ok(compiled.run(&self.inputs)?)
    }
}

/// The call on the inputs of all these programs at once, which differ in the flagged inputs.
///
/// # Errors
/// The error of the transform.
pub fn batched(programs: &[Program], flags: &[bool]) -> Result<Program, Refused> {
    let first = &programs[0];
    let trace = fulgurite::transforms::vmap(&first.trace, flags, Dim::from(programs.len()))?;
    let stack = |i: usize| buffer(&stacked(&programs.iter().map(|p| array(&p.inputs[i])).collect::<Vec<_>>()));
    let inputs = (0..first.inputs.len()).map(|i| if flags[i] { stack(i) } else { first.inputs[i].clone() });
    Ok(Program { trace, inputs: inputs.collect() })
}

/// The slices of an array along its first axis.
pub fn unstacked(all: &Array<f64>, count: usize) -> Vec<Array<f64>> {
    let (scalars, size) = (all.scalars(), all.len() / count.max(1));
    let slice = |i: usize| Array::from_scalars(all.dtype, &all.shape[1..], scalars[i * size..(i + 1) * size].to_vec());
    (0..count).map(slice).collect()
}

/// The call's results with error bounds.
///
/// # Errors
/// The refusal of the oracle.
pub fn meaning(call: &Call) -> Result<Vec<Array<bound::Bounded>>, String> {
    crate::oracle::run(&call.row, &bound::exact(&call.args)).map_err(|e| format!("the oracle refuses: {e}"))
}

/// Runs a call on these executors: its results, with lists flattened.
///
/// # Errors
/// The error of binding, compiling or running.
pub fn execute(call: &Call, names: &[&str], threads: usize) -> Result<Vec<Array<f64>>, Refused> {
    let program = record(call)?;
    let compiled = program.compile(names, threads)?;
    Ok(program.run(&compiled)?.iter().map(array).collect())
}

// ---------------------------------------------------------------- calls in the form of users

/// The float tensors of a call, in order: the variables of a derivative.
pub fn floats(call: &Call) -> Vec<Array<f64>> {
    let mut out = Vec::new();
    for arg in &call.args {
        arg.for_each(&mut |o| out.extend(o.array().filter(|a| a.dtype.is_float()).cloned()));
    }
    out
}

/// The call with other float tensors in place of its own.
pub fn with_floats(call: &Call, floats: &[Array<f64>]) -> Vec<Value<Operand<f64>>> {
    let mut next = floats.iter();
    let replace = &mut |o: &Operand<f64>| match o.is_float_tensor() {
        true => next.next().map_or_else(|| o.clone(), |a| Operand::Tensor(a.clone())),
        false => o.clone(),
    };
    call.args.iter().map(|a| a.map(replace)).collect()
}

/// Calls the row with these handles for its float tensors; returns the results that are float tensors.
pub fn apply(call: &Call, floats: &[Tensor]) -> Vec<Tensor> {
    let mut next = floats.iter();
    let args = call.args.iter().map(|a| {
        a.map(&mut |o| match o.is_float_tensor() {
            true => next.next().cloned().unwrap_or_else(|| tensor(o)),
            false => tensor(o),
        })
    });
    let args: Vec<Value<Tensor>> = args.collect();
    let outs = match symbol(call.row.op) {
        Ok(symbol) => api::call(symbol, args, Loc::NOWHERE),
        Err(e) => return vec![Tensor::poisoned(Error::new(e.code, e.text))],
    };
    match outs {
        Ok(outs) => outs.into_iter().filter(|t| t.dtype().is_float()).collect(),
        Err(e) => vec![Tensor::poisoned(e)],
    }
}

/// Handles for arrays.
pub fn handles(arrays: &[Array<f64>]) -> Vec<Tensor> {
    arrays.iter().map(|a| Tensor::from_buffer(buffer(a))).collect()
}

/// The elements of handles.
///
/// # Errors
/// The error of a poisoned one.
pub fn arrays(handles: &[Tensor]) -> Result<Vec<Array<f64>>, Refused> {
    handles.iter().map(|t| Ok(array(&t.buffer()?))).collect()
}

/// Values, then cotangents.
pub type Pulled = (Vec<Array<f64>>, Vec<Array<f64>>);

/// The float results of a call and, for cotangents of these, the cotangents of its float tensors.
///
/// # Errors
/// The error of the runtime.
pub fn vjp(call: &Call, x: &[Array<f64>], g: &[Array<f64>]) -> Result<Pulled, Refused> {
    let (out, grads) = fulgurite::vjp(&handles(x), &handles(g), |x: &Vec<Tensor>| apply(call, x))?;
    Ok((arrays(&out)?, arrays(&grads)?))
}

/// The tangents of the float results of a call along `u`.
///
/// # Errors
/// The error of the runtime.
pub fn jvp(call: &Call, x: &[Array<f64>], u: &[Array<f64>]) -> Result<Vec<Array<f64>>, Refused> {
    let (_, tangents) = fulgurite::jvp(&handles(x), &handles(u), |x: &Vec<Tensor>| apply(call, x))?;
    arrays(&tangents)
}

/// The derivative whose order is the length of `weights`: the cotangents of the float tensors for the last weights, of
/// the function that maps the tensors to their cotangents for the weights before, and so on down to the call.
///
/// # Errors
/// The error of the runtime.
pub fn vjp_of_order(call: &Call, x: &[Array<f64>], weights: &[Vec<Array<f64>>]) -> Result<Vec<Array<f64>>, Refused> {
    let weights: Vec<Vec<Tensor>> = weights.iter().map(|w| handles(w)).collect();
    arrays(&pulled(call, &handles(x), &weights))
}

/// The tangent along `u` of the derivative that [`vjp_of_order`] gives for these weights: forward mode over reverse mode.
///
/// # Errors
/// The error of the runtime.
pub fn jvp_of_order(
    call: &Call,
    x: &[Array<f64>],
    u: &[Array<f64>],
    weights: &[Vec<Array<f64>>],
) -> Result<Vec<Array<f64>>, Refused> {
    let weights: Vec<Vec<Tensor>> = weights.iter().map(|w| handles(w)).collect();
    let (_, tangents) = fulgurite::jvp(&handles(x), &handles(u), |x: &Vec<Tensor>| pulled(call, x, &weights))?;
    arrays(&tangents)
}

fn pulled(call: &Call, x: &Vec<Tensor>, weights: &[Vec<Tensor>]) -> Vec<Tensor> {
    let Some((last, rest)) = weights.split_last() else { return apply(call, x) };
    match fulgurite::vjp(x, last, |x: &Vec<Tensor>| pulled(call, x, rest)) {
        Ok((_, grads)) => grads,
        Err(e) => vec![Tensor::poisoned(e); x.len()],
    }
}

/// The types of the float results of a call.
///
/// # Errors
/// The error of binding.
pub fn float_results(call: &Call) -> Result<Vec<TensorTy>, Refused> {
    let program = record(call)?;
    let types = program.trace.outputs().iter().filter_map(|p| program.trace.ty(*p).as_tensor().cloned());
    Ok(types.filter(|t| t.dtype.is_float()).collect())
}

/// A call for all slices at once: the flagged inputs are batched, the others are those of the first slice.
pub struct Batch<'a> {
    /// The call.
    pub call: &'a Call,
    /// The float tensors of the call, slice by slice.
    pub slices: &'a [Vec<Array<f64>>],
    /// Whether each float tensor is batched.
    pub flags: &'a [bool],
}

impl Batch<'_> {
    fn inputs(&self, slices: &[Vec<Array<f64>>]) -> Vec<Tensor> {
        let input = |i: usize| if self.flags[i] { whole(slices, i) } else { slices[0][i].clone() };
        handles(&(0..self.flags.len()).map(input).collect::<Vec<_>>())
    }

    fn run(&self, x: &Vec<Tensor>) -> Vec<Tensor> {
        let axes: Vec<Option<i64>> = self.flags.iter().map(|f| f.then_some(0)).collect();
        fulgurite::vmap_with(x, &axes, |x: &Vec<Tensor>| apply(self.call, x))
            .unwrap_or_else(|e| vec![Tensor::poisoned(e)])
    }

    /// The cotangents of the inputs, for cotangents of all slices, as [`vjp`] gives them.
    ///
    /// # Errors
    /// The error of the runtime.
    pub fn vjp(&self, g: &[Vec<Array<f64>>]) -> Result<Vec<Array<f64>>, Refused> {
        let g: Vec<Array<f64>> = (0..g[0].len()).map(|i| whole(g, i)).collect();
        let (_, grads) = fulgurite::vjp(&self.inputs(self.slices), &handles(&g), |x| self.run(x))?;
        arrays(&grads)
    }

    /// The tangents of the results, for tangents of all slices, as [`jvp`] gives them.
    ///
    /// # Errors
    /// The error of the runtime.
    pub fn jvp(&self, u: &[Vec<Array<f64>>]) -> Result<Vec<Array<f64>>, Refused> {
        let (_, tangents) = fulgurite::jvp(&self.inputs(self.slices), &self.inputs(u), |x| self.run(x))?;
        arrays(&tangents)
    }
}

fn whole(all: &[Vec<Array<f64>>], i: usize) -> Array<f64> {
    stacked(&all.iter().map(|s| s[i].clone()).collect::<Vec<_>>())
}

/// Arrays of one type, stacked along a new first axis.
pub fn stacked(all: &[Array<f64>]) -> Array<f64> {
    let shape: Vec<usize> = std::iter::once(all.len()).chain(all[0].shape.iter().copied()).collect();
    Array::from_scalars(all[0].dtype, &shape, all.iter().flat_map(Array::scalars).collect::<Vec<_>>())
}

/// The floats of an array; none for integers.
pub fn values(a: &Array<f64>) -> &[f64] {
    match &a.data {
        Data::Float(v) => v,
        Data::Int(_) => &[],
    }
}

/// The array with other floats.
pub fn with_values(a: &Array<f64>, values: Vec<f64>) -> Array<f64> {
    Array::from_scalars(a.dtype, &a.shape, values.into_iter().map(Scalar::Float))
}
