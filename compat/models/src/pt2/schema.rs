//! The parts that are read of the JSON of an exported program, schema 8
//! (`torch/_export/serde/schema.py`). A union is an object of one key.

#![expect(clippy::enum_variant_names, reason = "the keys of unions are `as_tensor`, `as_int`, …")]

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, Visitor};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

/// The version of the schema alone, which is read before the rest.
#[derive(Deserialize)]
pub struct Versioned {
    pub schema_version: Version,
}

#[derive(Deserialize)]
pub struct Version {
    pub major: i64,
    pub minor: i64,
}

#[derive(Deserialize)]
pub struct ExportedProgram<'a> {
    #[serde(borrow)]
    pub graph_module: GraphModule<'a>,
    pub range_constraints: HashMap<String, Range>,
}

/// The values that a symbol of sizes may take.
#[derive(Deserialize)]
pub struct Range {
    pub min_val: Option<i64>,
    pub max_val: Option<i64>,
}

#[derive(Deserialize)]
pub struct GraphModule<'a> {
    #[serde(borrow)]
    pub graph: GraphSchema<'a>,
    pub signature: Signature,
}

#[derive(Deserialize)]
pub struct GraphSchema<'a> {
    pub inputs: Vec<ArgumentUnion<'a>>,
    pub outputs: Vec<ArgumentUnion<'a>>,
    #[serde(borrow)]
    pub nodes: Vec<NodeSchema<'a>>,
    pub tensor_values: HashMap<String, TensorMeta>,
}

#[derive(Deserialize)]
pub struct NodeSchema<'a> {
    pub target: String,
    #[serde(borrow)]
    pub inputs: Vec<NamedArgument<'a>>,
    #[serde(borrow)]
    pub outputs: Vec<ArgumentUnion<'a>>,
    #[serde(borrow)]
    pub metadata: Metadata<'a>,
}

/// Where a call comes from. Most of the metadata is not read.
#[derive(Deserialize)]
pub struct Metadata<'a> {
    #[serde(borrow, default)]
    pub stack_trace: Cow<'a, str>,
    #[serde(borrow, default)]
    pub nn_module_stack: Cow<'a, str>,
}

#[derive(Deserialize)]
pub struct NamedArgument<'a> {
    pub name: String,
    #[serde(borrow)]
    pub arg: ArgumentUnion<'a>,
    #[serde(default)]
    pub kind: Option<u8>,
}

/// The `kind` of an argument that is passed by its name.
pub const KEYWORD: u8 = 2;

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentUnion<'a> {
    AsNone(IgnoredAny),
    AsTensor(TensorName),
    AsTensors(Vec<TensorName>),
    AsInt(i64),
    AsInts(Vec<i64>),
    AsFloat(Float),
    AsFloats(Vec<Float>),
    AsString(String),
    AsStrings(Vec<String>),
    AsSymInt(Sym),
    AsSymInts(Vec<Sym>),
    AsSymFloat(Sym),
    AsSymFloats(Vec<Sym>),
    AsSymBool(Sym),
    AsSymBools(Vec<Sym>),
    AsScalarType(i64),
    AsMemoryFormat(IgnoredAny),
    AsLayout(i64),
    AsDevice(IgnoredAny),
    AsBool(bool),
    AsBools(Vec<bool>),
    AsOptionalTensor(OptionalTensor),
    AsOptionalTensors(Vec<OptionalTensor>),
    #[serde(borrow)]
    AsGraph(Box<GraphArgument<'a>>),
    AsCustomObj(IgnoredAny),
    AsOperator(IgnoredAny),
    AsComplex(IgnoredAny),
    AsNestedTensors(Vec<Vec<TensorName>>),
    AsIntLists(Vec<Vec<i64>>),
    AsFloatLists(Vec<Vec<Float>>),
    AsStringToArgument(IgnoredAny),
}

#[derive(Deserialize)]
pub struct GraphArgument<'a> {
    #[serde(borrow)]
    pub graph: GraphSchema<'a>,
}

/// A thing that has a name.
#[derive(Deserialize)]
pub struct TensorName {
    pub name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptionalTensor {
    AsTensor(TensorName),
    AsNone(IgnoredAny),
}

/// A number that may be a value of the program.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sym {
    AsName(String),
    AsInt(i64),
    AsFloat(Float),
    AsBool(bool),
}

#[derive(Deserialize)]
pub struct TensorMeta {
    pub dtype: i64,
    pub sizes: Vec<Length>,
    pub strides: Vec<Length>,
    pub storage_offset: Length,
}

/// A size, a stride or an offset.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    AsInt(i64),
    AsExpr(Expression),
}

#[derive(Deserialize)]
pub struct Expression {
    pub expr_str: String,
}

#[derive(Deserialize)]
pub struct Signature {
    pub input_specs: Vec<InputSpec>,
    pub output_specs: Vec<OutputSpec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputSpec {
    UserInput(IgnoredAny),
    Parameter { parameter_name: String },
    Buffer { buffer_name: String },
    TensorConstant { tensor_constant_name: String },
    ConstantInput(IgnoredAny),
    CustomObj { custom_obj_name: String },
    Token(IgnoredAny),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputSpec {
    UserOutput(IgnoredAny),
    LossOutput(IgnoredAny),
    BufferMutation { buffer_name: String },
    ParameterMutation { parameter_name: String },
    UserInputMutation { user_input_name: String },
    GradientToParameter { parameter_name: String },
    GradientToUserInput { user_input_name: String },
    Token(IgnoredAny),
}

/// The tensors of the archive by their names in the model: `data/weights/NAME_weights_config.json`.
#[derive(Deserialize)]
pub struct PayloadConfig {
    pub config: HashMap<String, Payload>,
}

#[derive(Deserialize)]
pub struct Payload {
    pub path_name: String,
    pub use_pickle: bool,
    pub tensor_meta: Option<TensorMeta>,
}

/// A float, of which JSON writes some as texts: `"Infinity"`.
#[derive(Clone, Copy)]
pub struct Float(pub f64);

impl<'de> Deserialize<'de> for Float {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Float, D::Error> {
        from.deserialize_any(AnyFloat).map(Float)
    }
}

struct AnyFloat;

impl Visitor<'_> for AnyFloat {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, \"Infinity\", \"-Infinity\" or \"NaN\"")
    }

    fn visit_f64<E: Error>(self, x: f64) -> Result<f64, E> {
        Ok(x)
    }

    fn visit_i64<E: Error>(self, x: i64) -> Result<f64, E> {
        Ok(x as f64)
    }

    fn visit_u64<E: Error>(self, x: u64) -> Result<f64, E> {
        Ok(x as f64)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<f64, E> {
        match text {
            "Infinity" => Ok(f64::INFINITY),
            "-Infinity" => Ok(f64::NEG_INFINITY),
            "NaN" => Ok(f64::NAN),
            _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
        }
    }
}
