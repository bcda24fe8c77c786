//! A model: its program, parameters and buffers.

use crate::graph::{CallArgument, ModelGraph};
use crate::inputs::{self, Input, Ranges};
use crate::replay::{self, Observer};
use crate::value::GraphValue;
use fulgurite::tree::{Leaves, Visitor, VisitorMut};
use fulgurite::{Error, Key, Tensor, Tree};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The fixed part of a model.
#[derive(Debug)]
pub struct ModelProgram {
    pub path: PathBuf,
    pub graph: ModelGraph,
    /// The source of each input of the graph.
    pub sources: Vec<InputSource>,
    /// The use of each output of the graph.
    pub targets: Vec<OutputTarget>,
    pub inputs: Vec<Input>,
    pub ranges: Ranges,
}

/// The source of an input of the graph.
#[derive(Debug)]
pub enum InputSource {
    Parameter(String),
    Buffer(String),
    Constant(Tensor),
    /// A constant that no call writes.
    Known(Tensor),
    /// The user's input of this number.
    Input(usize),
    /// A constant of the call that was exported, which the graph does not read.
    Unused,
}

/// The use of an output of the graph.
#[derive(Debug)]
pub enum OutputTarget {
    Result,
    Loss,
    /// The next value of a buffer, a parameter or an input.
    WriteBuffer(String),
    WriteParameter(String),
    WriteInput(usize),
    /// The gradient of the loss by a parameter or an input, which an exported backward computes.
    ParameterGradient(String),
    InputGradient(usize),
    Unused,
}

/// A model that was imported: a function of tensors with named parameters and buffers.
///
/// A model is a tree: it can be an argument of `jit`, and `checkpoint::save` writes it. A clone shares the tensors.
#[derive(Clone, Debug)]
pub struct Model {
    program: Arc<ModelProgram>,
    params: BTreeMap<String, Tensor>,
    buffers: BTreeMap<String, Tensor>,
    key: Option<Key>,
}

/// The results of [`Model::run`].
#[derive(Clone, Debug, Default)]
pub struct ModelResults {
    /// The outputs of the model. Numbers are tensors of rank 0; an output that is `None` is left out, and one that is a
    /// list stands for its items.
    pub outputs: Vec<Tensor>,
    /// The name of each of them in the model; empty for a number that the program has.
    pub names: Vec<String>,
    /// The loss, if the backward was exported with the model; it is among the outputs too.
    pub loss: Option<Tensor>,
    /// The gradients that such a program computes, by the names of parameters.
    pub gradients: BTreeMap<String, Tensor>,
    /// The gradients by the numbers of inputs.
    pub input_gradients: BTreeMap<usize, Tensor>,
}

impl Model {
    pub(crate) fn new(
        program: ModelProgram,
        params: BTreeMap<String, Tensor>,
        buffers: BTreeMap<String, Tensor>,
    ) -> Model {
        Model { program: Arc::new(program), params, buffers, key: None }
    }

    /// The parameters by name; of the names of a tied parameter, the first one.
    pub fn params(&self) -> &BTreeMap<String, Tensor> {
        &self.params
    }

    /// The buffers by name. Calls of the model write those that the model changes, such as running means.
    pub fn buffers(&self) -> &BTreeMap<String, Tensor> {
        &self.buffers
    }

    /// The inputs, in the order of a call.
    pub fn inputs(&self) -> &[Input] {
        &self.program.inputs
    }

    /// Inputs of zeros, with a small size for each symbol, on which the program can be recorded.
    ///
    /// # Errors
    /// E936 if a size is a function of symbols that no input has alone.
    pub fn example_inputs(&self) -> Result<Vec<Tensor>, Error> {
        inputs::example(&self.program.inputs, &self.program.ranges)
    }

    /// The ranges of the symbols in the sizes of inputs: the least and the largest value, which may be unbounded.
    pub fn ranges(&self) -> &BTreeMap<String, (i64, Option<i64>)> {
        &self.program.ranges
    }

    /// The functions that the program calls, by their names in the file, with the number of calls.
    pub fn functions(&self) -> BTreeMap<&str, usize> {
        let mut count = BTreeMap::new();
        self.graph().walk(&mut |node| *count.entry(node.target.as_str()).or_insert(0) += 1);
        count
    }

    /// The number of calls in the program.
    pub fn len(&self) -> usize {
        self.program.graph.nodes.len()
    }

    /// Whether the program makes no calls.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn graph(&self) -> &ModelGraph {
        &self.program.graph
    }

    /// The model with other parameters, and the same buffers.
    pub fn with(&self, params: &BTreeMap<String, Tensor>) -> Model {
        Model { params: params.clone(), ..self.clone() }
    }

    /// The model with other buffers, and the same parameters.
    pub fn with_buffers(&self, buffers: &BTreeMap<String, Tensor>) -> Model {
        Model { buffers: buffers.clone(), ..self.clone() }
    }

    /// The model with a key from which a call draws its random numbers, as dropout does. Another call needs another key.
    /// `None` takes the key away.
    pub fn with_key(&self, key: impl Into<Option<Key>>) -> Model {
        Model { key: key.into(), ..self.clone() }
    }

    /// Calls the model.
    ///
    /// # Errors
    /// The errors are those of [`Model::run`].
    pub fn call<'a>(&self, inputs: impl IntoIterator<Item = &'a Tensor>) -> Result<Vec<Tensor>, Error> {
        Ok(self.run(inputs)?.outputs)
    }

    /// Calls the model; buffers, parameters and inputs that it changes are written.
    ///
    /// # Errors
    /// E935 for inputs of another number, dtype or size, E934 for a call without a row, E936 for an argument that no row
    /// takes, and the refusals of rows.
    pub fn run<'a>(&self, inputs: impl IntoIterator<Item = &'a Tensor>) -> Result<ModelResults, Error> {
        let inputs: Vec<Tensor> = inputs.into_iter().cloned().collect();
        self.observe(&inputs, &mut |_, _, _| {})
    }

    /// Like [`Model::run`]; `seen` gets each named result of a call.
    pub(crate) fn observe(&self, inputs: &[Tensor], seen: &mut Observer) -> Result<ModelResults, Error> {
        let program = &*self.program;
        inputs::check(&program.inputs, &program.ranges, inputs)?;
        let values = program.sources.iter().map(|source| self.source(source, inputs)).collect::<Result<_, _>>()?;
        let values = replay::run(&program.graph, values, self.key.clone(), seen)?;
        let mut results = ModelResults::default();
        for ((target, value), argument) in program.targets.iter().zip(values).zip(&program.graph.outputs) {
            let name = match argument {
                CallArgument::Value(id) => program.graph.names[*id as usize].as_str(),
                _ => "",
            };
            self.deliver(target, name, &value, inputs, &mut results)?;
        }
        Ok(results)
    }

    fn source(&self, source: &InputSource, inputs: &[Tensor]) -> Result<GraphValue, Error> {
        let named = |map: &BTreeMap<String, Tensor>, kind: &str, name: &String| {
            let missing = || Error::new("E935", format!("the model needs a {kind} `{name}`, and none is given"));
            map.get(name).cloned().map(GraphValue::Tensor).ok_or_else(missing)
        };
        match source {
            InputSource::Parameter(name) => named(&self.params, "parameter", name),
            InputSource::Buffer(name) => named(&self.buffers, "buffer", name),
            InputSource::Constant(tensor) => Ok(GraphValue::Tensor(tensor.clone())),
            InputSource::Known(tensor) => Ok(GraphValue::Known(tensor.clone())),
            InputSource::Input(at) => {
                let tensor = inputs[*at].clone();
                match self.program.inputs[*at].number {
                    true => number(&self.program.inputs[*at], &tensor),
                    false => Ok(GraphValue::Tensor(tensor)),
                }
            }
            InputSource::Unused => Ok(GraphValue::None),
        }
    }

    fn deliver(
        &self,
        target: &OutputTarget,
        name: &str,
        value: &GraphValue,
        inputs: &[Tensor],
        results: &mut ModelResults,
    ) -> Result<(), Error> {
        if let (OutputTarget::Result, GraphValue::List(items)) = (target, value) {
            for (at, item) in items.iter().enumerate() {
                self.deliver(target, &format!("{name}.{at}"), item, inputs, results)?;
            }
            return Ok(());
        }
        let Some(tensor) = value.tensor() else { return Ok(()) };
        if matches!(target, OutputTarget::Result | OutputTarget::Loss) {
            results.names.push(name.to_owned());
        }
        let write = |to: Option<&Tensor>| match to {
            Some(to) => fulgurite::api::write(to, tensor.clone()).check(),
            None => Ok(()),
        };
        match target {
            OutputTarget::Result => results.outputs.push(tensor),
            OutputTarget::Loss => {
                results.loss = Some(tensor.clone());
                results.outputs.push(tensor);
            }
            OutputTarget::WriteBuffer(name) => write(self.buffers.get(name))?,
            OutputTarget::WriteParameter(name) => write(self.params.get(name))?,
            OutputTarget::WriteInput(at) => write(inputs.get(*at))?,
            OutputTarget::ParameterGradient(name) => _ = results.gradients.insert(name.clone(), tensor),
            OutputTarget::InputGradient(at) => _ = results.input_gradients.insert(*at, tensor),
            OutputTarget::Unused => {}
        }
        Ok(())
    }
}

/// The number that an input gives: its element, which must be known.
fn number(input: &Input, tensor: &Tensor) -> Result<GraphValue, Error> {
    let known = tensor.buffer().ok().and_then(|b| b.item()).map(GraphValue::Number);
    known.ok_or_else(|| {
        Error::new(
            "E935",
            format!("the input `{}` is a number of the program, and its element is not known", input.name),
        )
        .help("call the model outside of the compiled function, or capture the number")
    })
}

impl Tree for Model {
    fn visit<'a>(&'a self, v: &mut Visitor<'a>) {
        let program = Arc::as_ptr(&self.program) as usize as u64;
        v.fixed("program", &self.program.path, |mark| mark.add(program));
        v.part("params", &self.params);
        v.part("buffers", &self.buffers);
        v.part("key", &self.key);
    }

    fn visit_mut<'a>(&'a mut self, v: &mut VisitorMut<'a>) {
        let program = Arc::as_ptr(&self.program) as usize as u64;
        v.fixed(|mark| mark.add(program));
        v.part(&mut self.params);
        v.part(&mut self.buffers);
        v.part(&mut self.key);
    }

    fn rebuild(&self, leaves: &mut Leaves) -> Model {
        Model {
            program: self.program.clone(),
            params: self.params.rebuild(leaves),
            buffers: self.buffers.rebuild(leaves),
            key: self.key.rebuild(leaves),
        }
    }
}
