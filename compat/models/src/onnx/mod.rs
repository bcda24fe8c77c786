//! Models in ONNX's format.

mod graph;
mod maker;
mod messages;
mod tensors;
mod weight;

use crate::fault;
use crate::inputs::{self, Input, InputSize, Ranges};
use crate::model::{InputSource, Model, ModelProgram, OutputTarget};
use crate::size_text::SizeExpression;
use fulgurite::Error;
use fulgurite::buffer::MappedFile;
use maker::{InputRole, Maker};
use messages::{GraphProto, ModelProto, ValueInfo};
use prost::Message;
use prost::bytes::Bytes;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use tensors::TensorFiles;

/// The versions of ONNX's own operators that are read: older ones have other meanings, newer ones are not known.
const OPSETS: std::ops::RangeInclusive<i64> = 7..=28;
/// The newest version of the format itself.
const NEWEST_IR: i64 = 14;

struct FileBytes(MappedFile);

impl AsRef<[u8]> for FileBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// Reads a model.
///
/// # Errors
/// The errors are those of [`crate::import`], except for E934.
pub fn read(path: &Path) -> Result<Model, Error> {
    let file =
        MappedFile::open(path).map_err(|e| Error::new("E904", format!("`{}` can't be read: {e}", path.display())))?;
    let bytes = Bytes::from_owner(FileBytes(file.clone()));
    let broken = |part: &str, why: String| fault::broken(path, part, why);
    weight::check(&bytes).map_err(|why| broken("the message", why))?;
    let model = ModelProto::decode(bytes).map_err(|e| broken("the message", e.to_string()))?;
    if model.ir_version > NEWEST_IR {
        let read = format!("versions up to {NEWEST_IR}");
        return Err(fault::version(
            path,
            format!("version {} of ONNX's format", model.ir_version),
            read,
            "the exporter",
        ));
    }
    let opset = |domain: &str| model.opset_import.iter().find(|set| maker::domain(&set.domain) == domain);
    if let Some(set) = opset("").filter(|set| !OPSETS.contains(&set.version)) {
        let read = format!("opsets {} to {}", OPSETS.start(), OPSETS.end());
        return Err(fault::version(path, format!("opset {}", set.version), read, "the exporter"));
    }
    let Some(graph) = &model.graph else { return Err(broken("the message", "it has no graph".to_owned())) };
    let files = TensorFiles::new(path, file);
    let made = Maker::new(path, &model, files).model(graph).map_err(|why| broken("the graph", why))?;
    let (graph_inputs, ranges) = inputs(path, graph)?;
    let mut sources = Vec::new();
    let (mut params, mut number) = (BTreeMap::new(), 0);
    for role in made.roles {
        sources.push(match role {
            InputRole::Input => {
                number += 1;
                InputSource::Input(number - 1)
            }
            InputRole::Constant(tensor) => InputSource::Known(tensor),
            InputRole::Parameter(name, tensor) => {
                params.insert(name.clone(), tensor);
                InputSource::Parameter(name)
            }
        });
    }
    let targets = made.graph.outputs.iter().map(|_| OutputTarget::Result).collect();
    let program =
        ModelProgram { path: path.to_owned(), graph: made.graph, sources, targets, inputs: graph_inputs, ranges };
    Ok(Model::new(program, params, BTreeMap::new()))
}

/// The inputs that a call gives, which are those without a value in the file, and the symbols of their sizes.
fn inputs(path: &Path, graph: &GraphProto) -> Result<(Vec<Input>, Ranges), Error> {
    let given: HashSet<&str> = graph.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
    let mut ranges = Ranges::new();
    let mut inputs = Vec::new();
    for info in graph.input.iter().filter(|info| !given.contains(info.name.as_str())) {
        inputs.push(input(info, &mut ranges).map_err(|why| {
            Error::new("E936", format!("`{}`: the input `{}` {why}", path.display(), info.name.escape_debug()))
        })?);
    }
    Ok((inputs, ranges))
}

fn input(info: &ValueInfo, ranges: &mut Ranges) -> Result<Input, String> {
    let tensor = info.ty.as_ref().and_then(|ty| ty.tensor.as_ref()).ok_or("is no tensor")?;
    let dtype = tensors::dtype(tensor.elem_type)
        .ok_or_else(|| format!("has ONNX's dtype {}, which no tensor here has", tensor.elem_type))?;
    let shape = tensor.shape.as_ref().ok_or("has no shape")?;
    inputs::check_rank(shape.dim.len())?;
    let mut sizes = Vec::new();
    for (axis, dim) in shape.dim.iter().enumerate() {
        let symbol = match (dim.dim_value, &dim.dim_param) {
            (Some(n), _) if n < 0 => return Err(format!("has the size {n}")),
            (Some(n), _) => {
                sizes.push(InputSize(SizeExpression::Number(n)));
                continue;
            }
            (None, Some(name)) if !name.is_empty() => name.clone(),
            (None, _) => format!("{}.{axis}", info.name),
        };
        ranges.entry(symbol.clone()).or_insert((0, None));
        sizes.push(InputSize(SizeExpression::Symbol(symbol)));
    }
    Ok(Input { name: info.name.clone(), dtype, sizes, number: false })
}

#[cfg(test)]
mod tests {
    use super::messages::{
        AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSet, TensorProto, kind,
    };
    use prost::Message;

    /// The refusal of a model that makes one call of the last of these functions.
    fn refusal(name: &str, functions: Vec<FunctionProto>, attribute: Vec<AttributeProto>) -> String {
        let last = functions.last().map_or("", |function| &function.name);
        let graph = GraphProto { node: vec![NodeProto { attribute, ..call(last, 1) }], ..GraphProto::default() };
        let opset_import = vec![OperatorSet { version: 20, ..OperatorSet::default() }];
        let model = ModelProto { graph: Some(graph), functions, opset_import, ..ModelProto::default() };
        let path = std::env::temp_dir().join(format!("fulgurite-{name}-{}.onnx", std::process::id()));
        std::fs::write(&path, model.encode_to_vec()).expect("a file for temporary files");
        let read = super::read(&path);
        _ = std::fs::remove_file(&path);
        read.map_or_else(|e| e.to_string(), |_| "nothing".to_owned())
    }

    /// A call with this number of arguments that are left out.
    fn call(op: &str, arguments: usize) -> NodeProto {
        NodeProto { op_type: op.to_owned(), input: vec![String::new(); arguments], ..NodeProto::default() }
    }

    fn function(name: &str, node: Vec<NodeProto>) -> FunctionProto {
        FunctionProto { name: name.to_owned(), node, ..FunctionProto::default() }
    }

    #[test]
    fn functions_that_stand_for_very_long_programs_are_refused() {
        // 10,000 calls with 10,000 arguments each, which is far below the most calls
        let functions = vec![
            function("a", vec![call("Sum", 10_000)]),
            function("b", vec![call("a", 0); 100]),
            function("c", vec![call("b", 0); 100]),
        ];
        let said = refusal("repeated", functions, Vec::new());
        assert!(said.contains("too long a program"), "{said}");
    }

    #[test]
    fn lists_that_are_passed_to_very_many_calls_are_refused() {
        let passed = AttributeProto { ref_attr_name: "list".to_owned(), ..attribute("axes") };
        let functions = vec![function("a", vec![NodeProto { attribute: vec![passed], ..call("Squeeze", 1) }; 5_000])];
        let list = AttributeProto { kind: kind::INTS, ints: vec![0; 50_000], ..attribute("list") };
        let said = refusal("passed", functions, vec![list]);
        assert!(said.contains("too long a program"), "{said}");
    }

    #[test]
    fn tensors_of_very_many_axes_are_refused() {
        let said = |axes: usize| {
            let tensor =
                TensorProto { dims: vec![1; axes], data_type: 1, float_data: vec![1.0], ..TensorProto::default() };
            let given = AttributeProto { kind: kind::TENSOR, t: Some(Box::new(tensor)), ..attribute("value") };
            refusal(
                "axes",
                vec![function("a", vec![NodeProto { attribute: vec![given], ..call("Sum", 1) }])],
                Vec::new(),
            )
        };
        assert_eq!(said(256), "nothing");
        assert!(said(257).contains("257 axes"), "{}", said(257));
    }

    fn attribute(name: &str) -> AttributeProto {
        AttributeProto { name: name.to_owned(), ..AttributeProto::default() }
    }
}
