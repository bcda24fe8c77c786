"""Makes the models of ONNX of the tests, beside itself.

    pip install torch==2.15.0 onnx==1.23.2 onnxscript safetensors
    python make_onnx.py

- digits.onnx: the net of digits.pt2, as PyTorch's exporter writes it, for any number of images;
- control.onnx and control.onnx.safetensors: a choice, a loop, a scan, a list, a function of the model itself, and sizes
  that are computed; the values are those of ONNX's reference implementation for two inputs;
- beside.onnx and beside.data: a model whose tensors lie in a file beside it.
"""
import pathlib
import warnings

warnings.filterwarnings("ignore")
import numpy
import onnx
import torch
from onnx.reference import ReferenceEvaluator
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).parent
CONTROL = """
<ir_version: 10, opset_import: ["" : 20, "own" : 1]>
control (float[n, 4] x, float[t, 4] xs) => (float[n, 4] y, float[m] z, float[4] last, float[t, 4] sines, float[k, 4] joined, float[n, 4] twice)
<float[4] weight = {1, -2, 3, -4}, int64 count = {3}, bool yes = {1}>
{
  sum = ReduceSum <keepdims = 0> (x)
  zero = Constant <value = float {0}> ()
  positive = Greater (sum, zero)
  y = If (positive) <
    then_branch = positive_part () => (float[n, 4] kept) { kept = Mul (x, weight) },
    else_branch = negative_part () => (float[n, 4] other) { double = Add (x, x) other = Sigmoid (double) }>
  flat_size = Constant <value_ints = [-1]> ()
  flat = Reshape (y, flat_size)
  z = Loop (count, yes, flat) <
    body = step (int64 i, bool goes_on, float[m] state) => (bool still, float[m] next) {
      still = Identity (goes_on)
      scale = Constant <value = float {1.5}> ()
      scaled = Mul (state, scale)
      shift = CastLike (i, scaled)
      next = Add (scaled, shift)
    }>
  start = Constant <value_floats = [0.0, 0.0, 0.0, 0.0]> ()
  last, sines = Scan <num_scan_inputs = 1,
    body = row (float[4] carry, float[4] slice) => (float[4] after, float[4] sine) {
      half = Constant <value = float {0.5}> ()
      less = Mul (carry, half)
      after = Add (less, slice)
      sine = Sin (carry)
    }> (start, xs)
  list = SequenceConstruct (x, y)
  more = SequenceInsert (list, xs)
  joined = ConcatFromSequence <axis = 0> (more)
  shape = Shape (x)
  one = Constant <value_ints = [1]> ()
  start0 = Constant <value_ints = [0]> ()
  first = Slice (shape, start0, one)
  four = Constant <value_ints = [4]> ()
  sizes = Concat <axis = 0> (first, four)
  again = Reshape (x, sizes)
  twice = own.double_of <factor = 2.0> (again)
}
<domain: "own", opset_import: ["" : 20]>
double_of <factor> (a) => (b) { f = Constant <value_float: float = @factor> () b = Mul (a, f) }
"""


def digits():
    net = torch.export.load(HERE / "digits.pt2").module()
    images = torch.zeros(2, 1, 8, 8)
    batch = {0: torch.export.Dim("batch", min=1, max=512)}
    torch.onnx.export(net, (images,), HERE / "digits.onnx", dynamo=True, dynamic_shapes=(batch,), external_data=False,
                      input_names=["images"], output_names=["logits"], verbose=False)


def control():
    model = onnx.parser.parse_model(CONTROL)
    onnx.checker.check_model(model)
    onnx.save(model, HERE / "control.onnx")
    run, values = ReferenceEvaluator(model), {}
    random = numpy.random.default_rng(0)
    xs = random.standard_normal((5, 4)).astype("float32")
    for name, sign in (("negative", -1), ("positive", 1)):
        x = (sign * numpy.abs(random.standard_normal((3, 4)))).astype("float32")
        results = dict(zip(run.output_names, run.run(None, {"x": x, "xs": xs})))
        values |= {f"{name}.{key}": value for key, value in ({"x": x, "xs": xs} | results).items()}
    save_file(values, HERE / "control.onnx.safetensors")


def beside():
    model = onnx.parser.parse_model("""
<ir_version: 10, opset_import: ["" : 20]>
beside (float[n, 4] x) => (float[n, 4] y) { scaled = Mul (x, scale) y = Add (scaled, shift) }
""")
    for name, numbers in (("scale", [1, 2, 3, 4]), ("shift", [0.5, 1.5, 2.5, 3.5])):
        model.graph.initializer.append(onnx.numpy_helper.from_array(numpy.array(numbers, "float32"), name))
    onnx.save(model, HERE / "beside.onnx", save_as_external_data=True, location="beside.data", size_threshold=0)


digits()
control()
beside()
