"""Records small calls of the node tests of the installed ONNX: cases.jsonl and expect.jsonl.

    python calls.py

Of each version of an operator that the tests call, at most six small calls are taken, with different attributes or
dtypes where there are some. The format is that of ../conformance. Results carry the rounding of the reference
implementation in the dtype of the call, and `noise` says how much, absolute and relative.
"""
import collections
import json
import pathlib
import warnings

warnings.filterwarnings("ignore")
import numpy
import onnx
from onnx import TensorProto, defs, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

HERE = pathlib.Path(__file__).parent
EACH, LONG = 6, 900
NAMES = {TensorProto.BOOL: "bool", TensorProto.UINT8: "u8", TensorProto.INT8: "i8", TensorProto.INT16: "i16",
         TensorProto.INT32: "i32", TensorProto.INT64: "i64", TensorProto.FLOAT16: "f16", TensorProto.BFLOAT16: "bf16",
         TensorProto.FLOAT: "f32", TensorProto.DOUBLE: "f64"}
NOISE = {"f16": [2e-3, 2e-3], "bf16": [2e-2, 2e-2], "f32": [2e-6, 2e-5], "f64": [1e-7, 1e-6]}
# results that are drawn at random
RANDOM = ("bernoulli", "training_dropout", "random", "multinomial")


class Unsupported(Exception):
    pass


def tensor(value, code=None):
    """A tensor in the format of the recorded calls."""
    if isinstance(value, TensorProto):
        code, value = value.data_type, numpy_helper.to_array(value)
    value = numpy.asarray(value)
    code = code or helper.np_dtype_to_tensor_dtype(value.dtype)
    if code not in NAMES:
        raise Unsupported
    if NAMES[code] in ("f16", "bf16"):
        value = value.astype(numpy.float32)

    def number(x):
        if isinstance(x, (bool, int)) or abs(x) < float("inf"):
            return x
        return "nan" if x != x else "inf" if x > 0 else "-inf"

    return {"dtype": NAMES[code], "shape": list(value.shape), "data": [number(x) for x in value.reshape(-1).tolist()]}


def attribute(a, add):
    value = helper.get_attribute_value(a)
    if a.type in (a.FLOAT, a.FLOATS):
        return {"float": value} if a.type == a.FLOAT else [{"float": x} for x in value]
    if a.type in (a.INT, a.INTS):
        return list(value) if a.type == a.INTS else value
    if a.type == a.STRING:
        return value.decode()
    if a.type == a.TENSOR:
        return add(value)
    raise Unsupported


def record(test):
    """The call of a test of one node, and its results."""
    graph = test.model.graph
    if len(graph.node) != 1 or graph.initializer or any(word in test.name for word in RANDOM):
        raise Unsupported
    (node,), (inputs, outputs) = graph.node, test.data_sets[0]
    infos = [*graph.input, *graph.output]
    if any(info.type.WhichOneof("value") != "tensor_type" for info in infos):
        raise Unsupported
    opset = {o.domain.replace("ai.onnx", "", o.domain == "ai.onnx"): o.version for o in test.model.opset_import}
    since = defs.get_schema(node.op_type, opset[node.domain], node.domain).since_version
    words = ["onnx", *node.domain.removeprefix("ai.onnx").split("."), node.op_type, str(since)]
    tensors = []

    def add(*value):
        tensors.append(tensor(*value))
        return {"t": len(tensors) - 1}

    kind = lambda info: info.type.tensor_type.elem_type
    given = {info.name: (value, kind(info)) for info, value in zip(graph.input, inputs)}
    made = {info.name: tensor(value, kind(info)) for info, value in zip(graph.output, outputs)}
    call = {"id": test.name, "op": ".".join(word for word in words if word), "cat": "forward", "want": ["forward"],
            "args": [add(*given[name]) if name else None for name in node.input],
            "kwargs": {a.name: attribute(a, add) for a in node.attribute}, "tensors": tensors}
    out = [made.get(name) for name in node.output]
    while out and out[-1] is None:
        out.pop()
    came = {"id": test.name, "status": "ok", "out": out, "cmp": ["close"] * len(out), "grad": {},
            "noise": {"out": [NOISE.get((o or {}).get("dtype"), [0, 0]) for o in out]}}
    return call, came


by_name = collections.defaultdict(list)
for test in load_model_tests(kind="node"):
    try:
        call, came = record(test)
    except Unsupported:
        continue
    texts = [json.dumps(part, separators=(",", ":")) for part in (call, came)]
    if sum(map(len, texts)) <= LONG:
        by_name[call["op"]].append((call, texts))
chosen = []
for name, found in sorted(by_name.items()):
    found.sort(key=lambda item: sum(map(len, item[1])))
    seen, first, later = set(), [], []
    for call, texts in found:
        about = (json.dumps(call["kwargs"]), tuple(t["dtype"] for t in call["tensors"]))
        (later if about in seen else first).append(texts)
        seen.add(about)
    chosen += (first + later)[:EACH]
for at, file in enumerate(("cases", "expect")):
    (HERE / f"{file}.jsonl").write_text("".join(texts[at] + "\n" for texts in chosen))
print(len(chosen), "calls of", len(by_name), "operators,", onnx.__version__)
