//! Archives of `torch.export.save`.

mod graph;
mod layout;
mod schema;
mod weights;

use crate::archive::Archive;
use crate::fault;
use crate::inputs::{self, Input, InputSize, Ranges};
use crate::model::{InputSource, Model, ModelProgram, OutputTarget};
use crate::size_text::{self, SizeExpression};
use fulgurite::core::DType;
use fulgurite::{Error, Tensor};
use schema::{ArgumentUnion, ExportedProgram, InputSpec, Length, OutputSpec, Sym, TensorMeta, Versioned};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use weights::ArchiveTensors;

/// The version of the schema whose programs are read.
const MAJOR: i64 = 8;

/// Reads the model of an archive.
///
/// # Errors
/// The errors are those of [`crate::import`], except for E934.
pub fn read(path: &Path) -> Result<Model, Error> {
    let archive = Archive::open(path)?;
    match archive.bytes("archive_format") {
        Some(b"pt2") => {}
        _ => return Err(fault::foreign(path, "it is a zip archive without the entry `archive_format`")),
    }
    let (part, name) = model_entry(&archive)?;
    let text = archive.bytes(&part).unwrap_or_default();
    let broken = |why: serde_json::Error| fault::broken(path, &part, why);
    let versioned: Versioned = serde_json::from_slice(text).map_err(broken)?;
    let schema::Version { major, minor } = versioned.schema_version;
    if major != MAJOR {
        return Err(fault::version(path, format!("schema {major}.{minor}"), format!("schema {MAJOR}"), "PyTorch"));
    }
    let program: ExportedProgram = serde_json::from_slice(text).map_err(broken)?;
    let weights = ArchiveTensors::read(&archive, &name)?;
    model(&archive, program, &weights).map_err(|fault| match fault {
        Fault::Contradiction(why) => fault::broken(path, &part, why),
        Fault::Pickled(name) => fault::pickled(path, &name),
    })
}

/// The entry of the one program of the archive, and its name.
fn model_entry(archive: &Archive) -> Result<(String, String), Error> {
    let name = |entry: &str| entry.strip_prefix("models/")?.strip_suffix(".json").map(str::to_owned);
    let found: Vec<String> = archive.names().filter_map(name).collect();
    match found.as_slice() {
        [name] => Ok((format!("models/{name}.json"), name.clone())),
        [] => Err(fault::foreign(&archive.path, "it has no program `models/NAME.json`")),
        names => Err(fault::foreign(&archive.path, format!("it has {} programs: {}", names.len(), names.join(", ")))),
    }
}

enum Fault {
    Contradiction(String),
    Pickled(String),
}

impl From<String> for Fault {
    fn from(why: String) -> Fault {
        Fault::Contradiction(why)
    }
}

fn model(archive: &Archive, program: ExportedProgram, weights: &ArchiveTensors) -> Result<Model, Fault> {
    let ExportedProgram { graph_module, range_constraints } = program;
    let (graph, signature) = (graph_module.graph, graph_module.signature);
    let (ins, outs) = (&signature.input_specs, &signature.output_specs);
    if ins.len() != graph.inputs.len() || outs.len() != graph.outputs.len() {
        return Err("the signature has other inputs or outputs than the graph".to_owned().into());
    }
    let mut reader = Reader {
        weights,
        names: HashMap::new(),
        inputs: Vec::new(),
        params: BTreeMap::new(),
        buffers: BTreeMap::new(),
    };
    let mut sources = Vec::new();
    for (spec, argument) in ins.iter().zip(&graph.inputs) {
        sources.push(reader.source(spec, argument, &graph.tensor_values)?);
    }
    let places: HashMap<&str, usize> =
        reader.inputs.iter().enumerate().rev().map(|(at, input)| (input.name.as_str(), at)).collect();
    let targets = outs.iter().map(|spec| reader.target(spec, &places)).collect::<Result<_, _>>()?;
    let ranges: Ranges = range_constraints
        .into_iter()
        .map(|(symbol, range)| (symbol, (range.min_val.unwrap_or(0), range.max_val)))
        .collect();
    let Reader { inputs, params, buffers, .. } = reader;
    let graph = graph::graph(graph)?;
    Ok(Model::new(
        ModelProgram { path: archive.path.clone(), graph, sources, targets, inputs, ranges },
        params,
        buffers,
    ))
}

struct Reader<'a> {
    weights: &'a ArchiveTensors,
    /// The first name in the signature of each tensor; the others are tied to it.
    names: HashMap<usize, String>,
    inputs: Vec<Input>,
    params: BTreeMap<String, Tensor>,
    buffers: BTreeMap<String, Tensor>,
}

impl Reader<'_> {
    fn source(
        &mut self,
        spec: &InputSpec,
        argument: &ArgumentUnion,
        types: &HashMap<String, TensorMeta>,
    ) -> Result<InputSource, Fault> {
        Ok(match spec {
            InputSpec::Parameter { parameter_name: name } => {
                let (name, tensor) = self.tensor(name)?;
                self.params.insert(name.clone(), tensor);
                InputSource::Parameter(name)
            }
            InputSpec::Buffer { buffer_name: name } => {
                let (name, tensor) = self.tensor(name)?;
                self.state(&name).unwrap_or_else(|| {
                    self.buffers.insert(name.clone(), tensor);
                    InputSource::Buffer(name)
                })
            }
            InputSpec::TensorConstant { tensor_constant_name: name } => {
                let (name, tensor) = self.tensor(name)?;
                self.state(&name).unwrap_or(InputSource::Constant(tensor))
            }
            InputSpec::UserInput(_) => match argument {
                ArgumentUnion::AsTensor(named) => {
                    let meta = types.get(&named.name).ok_or_else(|| format!("`{}` has no type", named.name))?;
                    self.input(named.name.clone(), meta)?
                }
                ArgumentUnion::AsSymInt(Sym::AsName(name)) => self.number(name, DType::I64),
                ArgumentUnion::AsSymFloat(Sym::AsName(name)) => self.number(name, DType::F64),
                ArgumentUnion::AsSymBool(Sym::AsName(name)) => self.number(name, DType::Bool),
                _ => InputSource::Unused,
            },
            InputSpec::ConstantInput(_) | InputSpec::Token(_) => InputSource::Unused,
            InputSpec::CustomObj { custom_obj_name: name } => return Err(Fault::Pickled(name.clone())),
        })
    }

    /// The first name of a tensor, and the tensor.
    fn tensor(&mut self, name: &str) -> Result<(String, Tensor), Fault> {
        match self.weights.number(name) {
            Some(number) => {
                let first = self.names.entry(number).or_insert_with(|| name.to_owned());
                Ok((first.clone(), self.weights.tensor(number).clone()))
            }
            None if self.weights.is_pickled(name) => Err(Fault::Pickled(name.to_owned())),
            None => Err(format!("the archive has no tensor `{name}`").into()),
        }
    }

    /// The parameter or buffer with this name. Buffers, and constants that the exporter found in the code of a module, may
    /// be the memory of one.
    fn state(&self, name: &str) -> Option<InputSource> {
        let has = |map: &BTreeMap<String, Tensor>| map.contains_key(name);
        match (has(&self.params), has(&self.buffers)) {
            (true, _) => Some(InputSource::Parameter(name.to_owned())),
            (_, true) => Some(InputSource::Buffer(name.to_owned())),
            _ => None,
        }
    }

    fn input(&mut self, name: String, meta: &TensorMeta) -> Result<InputSource, Fault> {
        let dtype = weights::dtype(meta.dtype).ok_or_else(|| format!("`{name}` has dtype {}", meta.dtype))?;
        inputs::check_rank(meta.sizes.len()).map_err(|why| format!("the input `{name}` {why}"))?;
        let size = |length: &Length| match length {
            Length::AsInt(n) => Ok(InputSize(SizeExpression::Number(*n))),
            Length::AsExpr(e) => size_text::parse(&e.expr_str).map(InputSize),
        };
        let sizes = meta.sizes.iter().map(size).collect::<Result<_, _>>()?;
        self.inputs.push(Input { name, dtype, sizes, number: false });
        Ok(InputSource::Input(self.inputs.len() - 1))
    }

    fn number(&mut self, name: &str, dtype: DType) -> InputSource {
        self.inputs.push(Input { name: name.to_owned(), dtype, sizes: Vec::new(), number: true });
        InputSource::Input(self.inputs.len() - 1)
    }

    /// The target of an output; `places` are the numbers of the inputs by their names.
    fn target(&self, spec: &OutputSpec, places: &HashMap<&str, usize>) -> Result<OutputTarget, Fault> {
        let first = |name: &str| {
            let first = self.weights.number(name).and_then(|number| self.names.get(&number));
            first.map_or_else(|| name.to_owned(), String::clone)
        };
        let input = |name: &str| places.get(name).copied().ok_or_else(|| format!("no input is called `{name}`"));
        Ok(match spec {
            OutputSpec::UserOutput(_) => OutputTarget::Result,
            OutputSpec::LossOutput(_) => OutputTarget::Loss,
            OutputSpec::BufferMutation { buffer_name } => OutputTarget::WriteBuffer(first(buffer_name)),
            OutputSpec::ParameterMutation { parameter_name } => OutputTarget::WriteParameter(first(parameter_name)),
            OutputSpec::UserInputMutation { user_input_name } => OutputTarget::WriteInput(input(user_input_name)?),
            OutputSpec::GradientToParameter { parameter_name } => {
                OutputTarget::ParameterGradient(first(parameter_name))
            }
            OutputSpec::GradientToUserInput { user_input_name } => OutputTarget::InputGradient(input(user_input_name)?),
            OutputSpec::Token(_) => OutputTarget::Unused,
        })
    }
}
