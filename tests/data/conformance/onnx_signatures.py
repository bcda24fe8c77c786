"""Writes codegen/src/libraries/onnx.txt: the inputs and attributes of ONNX's operators, a line for each version of each.

    python onnx_signatures.py > ../../../codegen/src/libraries/onnx.txt

The notation is that of ATen's schemas. Inputs are positional, attributes are named. Operators of other domains than
ONNX's own have the last words of their domain before their names. `outputs` is the number of outputs that a call
names, of an operator that has any number. Versions that opset 7 has replaced are left out,
because importers begin there.
"""
import collections

import onnx
from onnx import defs

OLDEST = 7
# attributes whose number is one of TensorProto.DataType
DTYPES = {"to", "dtype", "output_dtype", "stash_type", "softmax_precision", "output_datatype"}
KINDS = {"INT": "int", "INTS": "int[]", "FLOAT": "float", "FLOATS": "float[]", "STRING": "str", "STRINGS": "str[]",
         "TENSOR": "Tensor", "GRAPH": "Graph", "TYPE_PROTO": "Type", "SPARSE_TENSOR": "Sparse", "TENSORS": "Tensor[]"}


def attribute(a):
    kind = KINDS[a.type.name]
    if a.name in DTYPES and kind == "int":
        kind = "ScalarType"
    if a.required:
        return f"{kind} {a.name}"
    value = onnx.helper.get_attribute_value(a.default_value) if a.default_value.name else None
    if value is None:
        return f"{kind}? {a.name}=None"
    if isinstance(value, bytes):
        value = repr(value.decode())
    if isinstance(value, float):
        # the shortest text of the number in f32, in which the schema has it
        import numpy
        value = str(numpy.float32(value))
    return f"{kind} {a.name}={value}".replace(", ", ",")


def signature(schema):
    inputs = []
    for i in schema.inputs:
        integers = i.types and all(t in ("tensor(int64)", "tensor(int32)") for t in i.types)
        kind = "Tensor|int[]|int" if integers else "Tensor"
        if i.option.name == "Variadic":
            inputs.append(f"Tensor *{i.name}")
        else:
            inputs.append(f"{kind}{'?' if i.option.name == 'Optional' else ''} {i.name}")
    named = [attribute(a) for _, a in sorted(schema.attributes.items())]
    if any(o.option.name == "Variadic" for o in schema.outputs):
        named.append("int outputs")
    return ", ".join(inputs + (["*"] + named if named else []))


versions = collections.defaultdict(dict)
for schema in defs.get_all_schemas_with_history():
    versions[schema.domain, schema.name][schema.since_version] = schema
lines = []
for (domain, name), found in versions.items():
    name = ".".join(["onnx", *domain.removeprefix("ai.onnx").split("."), name]).replace("..", ".")
    since = sorted(found)
    for at, version in enumerate(since):
        replaced = at + 1 < len(since) and since[at + 1] <= OLDEST and domain == ""
        if not replaced and not found[version].deprecated:
            lines.append((name, version, f"{name}.{version}({signature(found[version])})"))
print(f"# Inputs and attributes of the operators of ONNX {onnx.__version__}, by versions: made by onnx_signatures.py")
for _, _, line in sorted(lines):
    print(line)
