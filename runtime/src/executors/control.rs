//! Runs lines of control flow: their programs are compiled once, with the executors of the whole program, and run as
//! often as the line says.
//!
//! A carry goes from one step to the next without a copy, and a step may write its results to the memory of carries
//! that it was given. A program of a line gets only the values that it reads.

use super::{CompileOptions, Compiled, ExecError, Kernel, TensorMut, TensorRef, compile};
use crate::buffer::pool::OutOfMemory;
use crate::buffer::{Buffer, BufferError};
use crate::trace::{Arena, Control, ControlKind, LineProgram, Trace};
use fulgurite_core::{DType, counted};
use std::rc::Rc;
use std::sync::Arc;

/// The name under which the steps of these lines are described.
pub(super) const NAME: &str = "control";

/// The kernel of a line with these programs.
///
/// # Errors
/// Reports the errors of compiling the programs.
pub(super) fn kernel(
    arena: &Rc<Arena>,
    control: &Control,
    options: &CompileOptions<'_>,
) -> Result<Arc<dyn Kernel>, ExecError> {
    let programs = control.kind.program_names().iter().zip(&control.programs);
    let programs = programs.map(|(name, program)| Part::compile(arena, name, program, options));
    let programs: Vec<Part> = programs.collect::<Result<_, _>>()?;
    let mut programs = programs.into_iter();
    let mut next = || programs.next().ok_or_else(|| ExecError::new("E807", "a line of control flow lost a program"));
    Ok(match control.kind {
        ControlKind::Cond => Arc::new(Choice { then: next()?, otherwise: next()? }),
        ControlKind::While { carries, bound } => {
            Arc::new(Repeat { condition: next()?, body: next()?, carries, bound: bound.unwrap_or(usize::MAX) })
        }
        ControlKind::Scan { carries, slices, length, reverse, .. } => {
            Arc::new(Steps { body: next()?, carries, slices, length: length.hint().max(0) as usize, reverse })
        }
    })
}

/// A compiled program, and the positions of the inputs that it reads.
struct Part {
    program: Compiled,
    reads: Vec<usize>,
}

impl Part {
    fn compile(
        arena: &Rc<Arena>,
        name: &str,
        program: &LineProgram,
        options: &CompileOptions<'_>,
    ) -> Result<Part, ExecError> {
        let mut trace = Trace::of_program(arena, name, program);
        let mut read = vec![false; program.inputs.len()];
        let mut note = |p| program.inputs.iter().position(|i| *i == p).into_iter().for_each(|at| read[at] = true);
        trace.lines.iter().for_each(|line| line.for_each_arg(&mut note));
        trace.outputs.iter().copied().for_each(&mut note);
        let reads: Vec<usize> = (0..read.len()).filter(|i| read[*i]).collect();
        trace.inputs = reads.iter().map(|i| trace.inputs[*i].clone()).collect();
        Ok(Part { program: compile(&trace, options)?, reads })
    }

    /// Runs the program. The first `free` values are taken, and their memory may be overwritten.
    fn run(&self, values: &mut [Buffer], free: usize) -> Result<Vec<Buffer>, ExecError> {
        let mut inputs = Vec::with_capacity(self.reads.len());
        for &at in &self.reads {
            inputs.push(match at < free {
                true => std::mem::replace(&mut values[at], empty()?),
                false => values[at].clone(),
            });
        }
        let donated: Vec<bool> = self.reads.iter().map(|at| *at < free).collect();
        self.program.run_donating(&mut inputs, &donated)
    }

    fn describe(&self, name: &str) -> Vec<String> {
        let text = self.program.describe().to_string();
        let steps = text.lines().map(|line| format!("  {line}"));
        std::iter::once(format!("{name}:")).chain(steps).collect()
    }
}

/// The kernel of a `cond`.
struct Choice {
    then: Part,
    otherwise: Part,
}

impl Kernel for Choice {
    fn name(&self) -> String {
        "cond".to_owned()
    }

    fn steps(&self) -> Vec<String> {
        [self.then.describe("then"), self.otherwise.describe("otherwise")].concat()
    }

    fn run(&self, inputs: &[TensorRef<'_>], outs: &mut [TensorMut<'_>]) -> Result<(), ExecError> {
        let Some((condition, given)) = inputs.split_first() else { return Err(lost()) };
        let part = if condition.bytes().first().is_some_and(|b| *b != 0) { &self.then } else { &self.otherwise };
        let mut read = Vec::with_capacity(part.reads.len());
        for at in &part.reads {
            read.push(copied(given.get(*at).ok_or_else(lost)?)?);
        }
        let donated = vec![true; read.len()];
        let made = part.program.run_donating(&mut read, &donated)?;
        outs.iter_mut().zip(&made).try_for_each(|(out, value)| out.copy_from(value))
    }
}

/// The kernel of a `while_loop`.
struct Repeat {
    condition: Part,
    body: Part,
    carries: usize,
    bound: usize,
}

impl Kernel for Repeat {
    fn name(&self) -> String {
        "while_loop".to_owned()
    }

    fn steps(&self) -> Vec<String> {
        [self.condition.describe("condition"), self.body.describe("body")].concat()
    }

    fn run(&self, inputs: &[TensorRef<'_>], outs: &mut [TensorMut<'_>]) -> Result<(), ExecError> {
        let mut values = inputs.iter().map(copied).collect::<Result<Vec<_>, _>>()?;
        for _ in 0..self.bound {
            let holds = self.condition.run(&mut values, 0)?;
            let holds = holds.first().ok_or_else(lost)?.here().map_err(away)?;
            if holds.as_bytes().first().is_none_or(|b| *b == 0) {
                break;
            }
            let made = self.body.run(&mut values, self.carries)?;
            values.iter_mut().zip(made).for_each(|(value, next)| *value = next);
        }
        outs.iter_mut().zip(&values).try_for_each(|(out, value)| out.copy_from(value))
    }
}

/// The kernel of a `scan`.
struct Steps {
    body: Part,
    carries: usize,
    slices: usize,
    length: usize,
    reverse: bool,
}

impl Kernel for Steps {
    fn name(&self) -> String {
        format!("scan of {}", counted(self.length, "step", "steps"))
    }

    fn steps(&self) -> Vec<String> {
        self.body.describe("body")
    }

    fn run(&self, inputs: &[TensorRef<'_>], outs: &mut [TensorMut<'_>]) -> Result<(), ExecError> {
        let free = self.carries + self.slices;
        let mut values = Vec::with_capacity(inputs.len());
        for (at, input) in inputs.iter().enumerate() {
            let sliced = (self.carries..free).contains(&at);
            values.push(if sliced || !self.body.reads.contains(&at) && at >= free { empty()? } else { copied(input)? });
        }
        let (last, stacks) = outs.split_at_mut(self.carries);
        for step in 0..self.length {
            let at = if self.reverse { self.length - 1 - step } else { step };
            for i in (self.carries..free).filter(|i| self.body.reads.contains(i)) {
                values[i] = slice(&inputs[i], at)?;
            }
            let made = self.body.run(&mut values, free)?;
            let mut made = made.into_iter();
            values.iter_mut().zip(made.by_ref().take(self.carries)).for_each(|(value, next)| *value = next);
            stacks.iter_mut().zip(made).try_for_each(|(stack, value)| put(stack, at, &value))?;
        }
        last.iter_mut().zip(&values).try_for_each(|(out, value)| out.copy_from(value))
    }
}

/// Slice number `at` of a tensor along its first axis.
fn slice(of: &TensorRef<'_>, at: usize) -> Result<Buffer, ExecError> {
    let shape = of.shape.get(1..).unwrap_or_default();
    let bytes = shape.iter().product::<usize>() * of.dtype.size();
    let part = of.bytes().get(at * bytes..(at + 1) * bytes).ok_or_else(lost)?;
    Buffer::from_bytes(of.dtype, shape, part).map_err(|e| ExecError::new("E806", e.to_string()))
}

/// Writes slice number `at` of a tensor along its first axis.
fn put(stack: &mut TensorMut<'_>, at: usize, value: &Buffer) -> Result<(), ExecError> {
    let value = value.here().map_err(away)?;
    let bytes = value.as_bytes();
    let room = stack.bytes_mut().get_mut(at * bytes.len()..(at + 1) * bytes.len()).ok_or_else(lost)?;
    room.copy_from_slice(bytes);
    Ok(())
}

fn copied(input: &TensorRef<'_>) -> Result<Buffer, ExecError> {
    input.to_buffer().ok_or_else(|| ExecError::new("E806", "there is no memory for a value of a loop"))
}

fn empty() -> Result<Buffer, ExecError> {
    Buffer::stale(DType::Bool, &[0]).map_err(|OutOfMemory { bytes }| {
        ExecError::new("E806", format!("there is no memory of {bytes} bytes for a value of a loop"))
    })
}

fn away(error: BufferError) -> ExecError {
    ExecError::new("E807", error.to_string())
}

fn lost() -> ExecError {
    ExecError::new("E807", "a line of control flow lost an argument")
}
