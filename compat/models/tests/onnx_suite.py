"""Runs the node tests and the light models of the installed ONNX in `fulgurite import --compare`.

    python compat/models/tests/onnx_suite.py target/debug/fulgurite [--keep FOLDER] [-v] [NAME…]

A test is right if all its results agree within the tolerance of the suite, unsupported if the model or a call is refused
with a reason, and wrong otherwise. The exit status is 1 if one is wrong, or if fewer are right than `AT_LEAST`.
"""
import collections
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
import types
import warnings

warnings.filterwarnings("ignore")
import numpy
import onnx
from onnx import TensorProto
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

# right tests by version of ONNX, whose suites differ: 1.23 has 1,884 of nodes and 9 models
AT_LEAST = {"1.23": 1739}
DTYPES = {TensorProto.BOOL: "BOOL", TensorProto.UINT8: "U8", TensorProto.INT8: "I8", TensorProto.INT16: "I16",
          TensorProto.UINT16: "U16", TensorProto.INT32: "I32", TensorProto.UINT32: "U32", TensorProto.INT64: "I64",
          TensorProto.UINT64: "U64", TensorProto.FLOAT16: "F16", TensorProto.BFLOAT16: "BF16",
          TensorProto.FLOAT: "F32", TensorProto.DOUBLE: "F64", TensorProto.FLOAT8E4M3FN: "F8_E4M3",
          TensorProto.FLOAT8E5M2: "F8_E5M2", TensorProto.FLOAT8E4M3FNUZ: "F8_E4M3FNUZ",
          TensorProto.FLOAT8E5M2FNUZ: "F8_E5M2FNUZ", TensorProto.FLOAT8E8M0: "F8_E8M0", TensorProto.FLOAT4E2M1: "U8",
          TensorProto.INT4: "I8", TensorProto.UINT4: "U8", TensorProto.INT2: "I8", TensorProto.UINT2: "U8"}


class Unsupported(Exception):
    pass


def tensor(value, info):
    """The safetensors dtype, the sizes and the bytes of a value of a test."""
    if info.type.WhichOneof("value") != "tensor_type":
        raise Unsupported("a value that is no tensor")
    code = info.type.tensor_type.elem_type
    if isinstance(value, TensorProto):
        code, value = value.data_type, onnx.numpy_helper.to_array(value)
    if code not in DTYPES:
        raise Unsupported(f"dtype {TensorProto.DataType.Name(code)}")
    value = numpy.asarray(value)
    return DTYPES[code], list(value.shape), numpy.ascontiguousarray(value).tobytes()


def save(values, path):
    header, at, parts = {}, 0, []
    for name, (dtype, shape, data) in values.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
        parts.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


def light_models():
    """The models of the suite whose weights are constants, on the input for which it has their results."""
    for path in sorted((pathlib.Path(onnx.__file__).parent / "backend/test/data/light").glob("*.onnx")):
        model = onnx.load(path)
        results = []
        for i, _ in enumerate(model.graph.output):
            results.append(TensorProto.FromString(path.with_name(f"{path.stem}_output_{i}.pb").read_bytes()))
        inputs = [Runner.generate_dummy_data(i) for i in given(model.graph)]
        yield types.SimpleNamespace(name=path.stem, model=model, data_sets=[(inputs, results)], rtol=1e-3)


def given(graph):
    """The inputs that have no value of their own."""
    own = {i.name for i in graph.initializer}
    return [i for i in graph.input if i.name not in own]


def run(program, test, folder):
    """The verdict on a test, and what was said."""
    folder.mkdir(parents=True, exist_ok=True)
    graph = test.model.graph
    (folder / "model.onnx").write_bytes(test.model.SerializeToString())
    for inputs, outputs in test.data_sets:
        try:
            values = {i.name: tensor(v, i) for i, v in zip(given(graph), inputs)}
            results = {o.name: tensor(v, o) for o, v in zip(graph.output, outputs)}
        except Unsupported as why:
            return "unsupported", str(why)
        save(values | results, folder / "values.safetensors")
        # the reference rounds to bf16 after each of its operations: two units in the last place
        tolerance = max(test.rtol, 8e-3 if any(dtype == "BF16" for dtype, *_ in results.values()) else 1e-3)
        command = [program, "import", str(folder / "model.onnx"), "--compare", str(folder / "values.safetensors"),
                   "--tolerance", str(tolerance), "--json"]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
        except subprocess.TimeoutExpired:
            return "wrong", "it takes more than a minute"
        told = (ran.stdout.splitlines() or [""])[-1] if ran.returncode in (0, 1) else ""
        try:
            told = json.loads(told)
        except ValueError:
            told = {}
        if told.get("first"):
            return "wrong", json.dumps(told["first"])
        if ran.returncode == 0 and "compared" in told:
            continue
        said = (ran.stderr.strip() or ran.stdout.strip())
        if "panicked" in said or ran.returncode < 0 or not said:
            return "wrong", said[-500:] or f"exit status {ran.returncode}"
        return "unsupported", said
    return "right", ""


def main():
    arguments = sys.argv[2:]
    keep = arguments[arguments.index("--keep") + 1] if "--keep" in arguments else None
    names = [a for a in arguments if not a.startswith("-") and a != keep]
    tests = [*load_model_tests(kind="node"), *light_models()]
    tests = [t for t in tests if not names or any(n in t.name for n in names)]
    counts, by_operator = collections.Counter(), collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        folder = pathlib.Path(keep or folder)
        for test, (verdict, said) in zip(tests, pool.map(lambda t: run(sys.argv[1], t, folder / t.name), tests)):
            counts[verdict] += 1
            operator = test.model.graph.node[0].op_type
            by_operator[operator][verdict] += 1
            if verdict == "wrong" or verdict == "unsupported" and "-v" in arguments:
                print(f"{test.name}: {verdict}: {said}"[:600].replace("\n", " "))
    for operator, found in sorted(by_operator.items()):
        if found["wrong"] or found["unsupported"]:
            print(f"  {operator}: {found['right']} right, {found['wrong']} wrong, {found['unsupported']} unsupported")
    print(f"{len(tests)} tests: {counts['right']} right, {counts['wrong']} wrong, {counts['unsupported']} unsupported")
    least = AT_LEAST.get(".".join(onnx.__version__.split(".")[:2]), 0)
    sys.exit(counts["wrong"] > 0 or not names and counts["right"] < least)


main()
