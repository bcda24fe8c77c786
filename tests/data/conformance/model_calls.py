"""Records calls that exported models make and that the sample lacks: model-cases.jsonl and model-expect.jsonl.

    python model_calls.py

The calls stand here by hand, on small tensors of a fixed seed; PyTorch gives their results and, for float tensors, the
gradients of the sum of the results times `ct`. The format is that of the sample.
"""
import json
import pathlib

import torch

HERE = pathlib.Path(__file__).parent
NAMES = {torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32",
         torch.int64: "i64", torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64"}
torch.manual_seed(52)


def f(*shape, dtype=torch.float64):
    """Numbers that every float dtype holds exactly."""
    return (torch.randint(-16, 17, shape) / 8).to(dtype)


def i(*shape, low=0, high=8, dtype=torch.int64):
    return torch.randint(low, high, shape, dtype=dtype)


x, y, v = f(2, 3), f(2, 3), f(4)
flags = torch.tensor([[True, False, True], [False, False, True]])
image, weight, bias = f(2, 4, 3, 4), f(6, 2, 3, 2), f(6)
cpu = torch.device("cpu")
stats = f(4), f(4).abs() + 0.5
classes, positive = f(5).abs(), f(3).abs()
mixed = f(2, 4, dtype=torch.bfloat16), f(4, dtype=torch.float32), f(4, dtype=torch.float32)
signs = torch.tensor([1.0, -1, 1, -1], dtype=torch.float64)
# PyTorch gives no gradients by these, or rounds them to the narrow dtype on the way
CONSTANT = [*stats, classes, positive, signs, *mixed]
logits, labels, soft = f(3, 5), torch.tensor([1, 4, 0]), torch.softmax(f(3, 5), 1)

small, large = x / 4, x.abs() + 1.5

CALLS = [
    *[(f"aten.__{op}__.{kind}", (i(2, 3), i(2, 3) if kind == "Tensor" else 3), {})
      for op in ("and", "or", "xor", "lshift", "rshift") for kind in ("Tensor", "Scalar")],
    *[(f"aten.bitwise_{side}_shift.{kind}", (i(4, dtype=torch.int32), i(4, dtype=torch.int32) if kind == "Tensor" else 2), {})
      for side in ("left", "right") for kind in ("Tensor", "Tensor_Scalar")],
    ("aten.where.ScalarOther", (flags, x, -2.5), {}), ("aten.where.ScalarSelf", (flags, 1.5, x), {}),
    ("aten.where.Scalar", (flags, 1.5, -2.5), {}),
    ("aten.to.dtype", (x, torch.float32), {}), ("aten.to.dtype", (i(3), torch.float64), {}),
    ("aten.to.dtype_layout", (x,), {"dtype": torch.float32}), ("aten.to.dtype_layout", (x,), {}),
    ("aten.to.device", (x, cpu, torch.float32), {}), ("aten.to.other", (x, f(1, dtype=torch.float32)), {}),
    ("aten.type_as", (x, i(2)), {}), ("aten.contiguous", (x,), {}), ("aten.lift_fresh_copy", (x,), {}),
    ("aten.lift_fresh", (x,), {}), ("aten.reshape_as", (x, f(3, 2)), {}), ("aten.view_as", (x, f(6)), {}),
    ("aten.zero", (x,), {}), ("aten.reshape", (x, [3, -1]), {}),
    ("aten._unsafe_view", (x, [6]), {}), ("aten.broadcast_to", (f(3), [2, 3]), {}),
    ("aten.new_ones", (x, [2]), {}), ("aten.new_full", (x, [2], 7.5), {}),
    ("aten.arange", (4,), {}), ("aten.arange.start", (1, 4), {}), ("aten.dropout", (x, 0.5, False), {}),
    ("aten.feature_dropout", (x, 0.5, False), {}), ("aten.alpha_dropout", (x, 0.5, False), {}),
    *[(f"aten.{name}", (x,), {}) for name in ("silu", "hardswish", "mish", "log_sigmoid", "celu", "selu",
                                              "hardshrink", "softshrink", "softplus", "relu6")],
    # its gradient has a constant of 32 bits
    ("aten.hardsigmoid", (f(2, 3, dtype=torch.float32),), {}),
    ("aten.threshold", (x, 0.25, -1), {}), ("aten.glu", (f(2, 4), 1), {}), ("aten.prelu", (f(2, 3), f(3)), {}),
    ("aten.matmul", (f(2, 3), f(3, 2)), {}), ("aten.matmul", (f(2, 2, 3), f(3, 4)), {}),
    ("aten.einsum", ("ij,kj->ik", [f(2, 3), f(4, 3)]), {}),
    ("aten.minimum", (x, y), {}), ("aten.maximum", (x, y), {}), ("aten.min.other", (x, y), {}), ("aten.max.other", (x, y), {}),
    ("aten.chunk", (f(5, 2), 2), {}), ("aten.split.Tensor", (f(5, 2), 2), {}), ("aten.split.sizes", (f(5, 2), [2, 3]), {}),
    ("aten.median.dim", (torch.randperm(12).reshape(3, 4).double(), 1), {}), ("aten.tril", (f(3, 3), 1), {}), ("aten.triu", (f(3, 3), 1), {}),
    ("aten.flatten.using_ints", (f(2, 3, 2), 1), {}), ("aten.unflatten.int", (f(2, 6), 1, [3, 2]), {}),
    ("aten.unfold", (f(2, 7), 1, 3, 2), {}), ("aten.pad", (x, [1, 2]), {}), ("aten.pad", (f(1, 2, 4), [1, 2], "reflect"), {}),
    ("aten.bincount", (torch.tensor([0, 2, 2, 1]), None, 3), {}), ("aten.histc", (f(9), 4, -1, 1), {}),
    ("aten.conv1d", (f(2, 4, 7), f(6, 2, 3), f(6), [2], [1], [1], 2), {}),
    ("aten.conv2d", (image, weight, bias, [1, 2], [1, 0], [1, 1], 2), {}), ("aten.conv2d", (f(1, 2, 4, 4), f(3, 2, 2, 2)), {}),
    ("aten.conv3d", (f(1, 1, 3, 4, 3), f(2, 1, 2, 2, 2), None, [1, 1, 1], [0, 1, 0]), {}),
    *[(f"aten.conv{n}d.padding", (f(1, 1, *[5 - n] * n), f(2, 1, *[2] * n), f(2), [1] * n, mode), {})
      for n in (1, 2, 3) for mode in ("valid", "same")],
    ("aten.conv_transpose1d", (f(1, 2, 4), f(2, 3, 3), f(3), [2], [1], [1]), {}),
    ("aten.conv_transpose2d.input", (f(1, 2, 3, 3), f(2, 3, 2, 2), f(3), [2, 1], [0, 1]), {}),
    ("aten.conv_transpose3d.input", (f(1, 2, 2, 3, 2), f(2, 1, 2, 2, 2)), {}),
    *[(f"aten.max_pool{n}d", (f(1, 2, *[5 - n] * n), [2] * n, [1] * n), {}) for n in (1, 2, 3)],
    ("aten.max_pool1d_with_indices", (f(1, 2, 7), [3], [2], [1]), {}),
    ("aten.adaptive_avg_pool2d", (f(1, 2, 5, 4), [2, 3]), {}), ("aten.adaptive_avg_pool3d", (f(1, 1, 3, 4, 4), [2, 2, 3]), {}),
    ("aten.im2col", (f(1, 2, 4, 4), [2, 2], [1, 1], [1, 0], [2, 1]), {}), ("aten.pixel_shuffle", (f(1, 4, 2, 3), 2), {}),
    ("aten.pixel_unshuffle", (f(1, 1, 4, 6), 2), {}), ("aten.channel_shuffle", (f(1, 6, 2), 3), {}),
    ("aten.grid_sampler", (f(1, 2, 4, 4), f(1, 3, 3, 2) / 2, 0, 0, True), {}),
    ("aten.grid_sampler", (f(1, 1, 3, 3, 3), f(1, 2, 2, 2, 3) / 2, 0, 1, False), {}),
    ("aten.instance_norm", (image, f(4), f(4), None, None, True, 0.1, 1e-3, False), {}),
    ("aten.instance_norm", (image, f(4), f(4), *stats, False, 0.1, 1e-3, False), {}),
    ("aten.batch_norm", (image, f(4), f(4), *stats, False, 0.1, 1e-3, False), {}),
    ("aten.batch_norm", (image, f(4), None, None, None, True, 0.1, 1e-3, False), {}),
    ("aten._native_batch_norm_legit_functional", (image, f(4), f(4), *stats, True, 0.25, 1e-3), {}),
    ("aten.native_layer_norm", (*mixed[:1], [4], *mixed[1:], 1e-3), {}),
    ("aten.layer_norm", (f(2, 3, 4), [4], f(4), f(4), 1e-3, False), {}), ("aten.rms_norm", (f(2, 4), [4], f(4), 1e-3), {}),
    ("aten.group_norm", (f(2, 4, 3), 2, f(4), f(4), 1e-3, False), {}), ("aten._weight_norm", (f(3, 4), f(3, 1)), {}),
    ("aten.softmax.int", (x, -1), {}), ("aten.softmax.int", (f(2, 3, dtype=torch.float32), 0, torch.float64), {}), ("aten.log_softmax.int", (x, -1), {}),
    ("aten.scaled_dot_product_attention", (f(1, 2, 3, 4), f(1, 2, 5, 4), f(1, 2, 5, 3)), {"scale": 0.5}),
    ("aten.scaled_dot_product_attention", (f(1, 4, 3, 4), f(1, 2, 3, 4), f(1, 2, 3, 3), None, 0.0, True), {"enable_gqa": True}),
    ("aten.nll_loss", (torch.log_softmax(logits, 1), labels, None, 1, -100), {}),
    ("aten.nll_loss_nd", (torch.log_softmax(f(2, 5, 3), 1), i(2, 3, high=5), None, 2), {}),
    ("aten.cross_entropy_loss", (logits, labels, classes, 1, -100, 0.25), {}),
    ("aten.cross_entropy_loss", (logits, soft, None, 0), {}), ("aten.cross_entropy_loss", (f(5), torch.tensor(3)), {}),
    ("aten.mse_loss", (x, y, 1), {}), ("aten.l1_loss", (x, y, 2), {}), ("aten.smooth_l1_loss", (x, y, 1, 0.5), {}),
    ("aten.huber_loss", (x, y, 1, 0.5), {}), ("aten.binary_cross_entropy", (torch.sigmoid(x), torch.sigmoid(y), None, 1), {}),
    ("aten.binary_cross_entropy_with_logits", (x, torch.sigmoid(y), None, positive, 1), {}),
    ("aten.embedding_bag.padding_idx", (f(6, 3), torch.tensor([1, 4, 0, 2]), torch.tensor([0, 3]), False, 0, False, None, False, None), {}),
    ("aten.embedding_bag.padding_idx", (f(6, 3), torch.tensor([1, 4, 0, 2]), torch.tensor([0, 3]), False, 1, False, None, False, None), {}),
    ("aten.cosine_similarity", (f(2, 3), f(2, 3)), {}), ("aten.pairwise_distance", (f(2, 3), f(2, 3), 2.0, 1e-6, True), {}),
    ("aten.margin_ranking_loss", (f(4), f(4), signs, 0.5), {}),
    ("aten.hinge_embedding_loss", (f(4), signs, 0.75, 2), {}),
    ("aten.cosine_embedding_loss", (f(3, 4), f(3, 4), torch.tensor([1, -1, 1]), 0.25), {}),
    ("aten.triplet_margin_loss", (f(3, 4), f(3, 4), f(3, 4)), {}), ("aten.bilinear", (f(2, 3), f(2, 2), f(4, 3, 2), f(4)), {}),
    ("aten.one_hot", (i(4, high=3), 3), {}),
    ("aten.kl_div", (torch.log_softmax(logits, 1), soft, 1), {}), ("aten.kl_div", (torch.log_softmax(logits, 1), logits, 2), {"log_target": True}),
    ("aten.soft_margin_loss", (f(4), signs), {}),
    ("aten.poisson_nll_loss", (f(4), f(4).abs(), True, False, 1e-8, 1), {}),
    ("aten.upsample_linear1d.vec", (f(1, 2, 4), [7], False, None), {}), ("aten.upsample_linear1d.vec", (f(1, 2, 4), None, False, [1.5]), {}),
    ("aten.upsample_nearest1d.vec", (f(1, 2, 4), [7], None), {}), ("aten.upsample_nearest1d.vec", (f(1, 2, 4), None, [1.5]), {}),
    ("aten.upsample_trilinear3d.vec", (f(1, 1, 2, 3, 2), [3, 4, 3], True, None), {}),
    ("aten.upsample_nearest3d.vec", (f(1, 1, 2, 3, 2), [3, 4, 3], None), {}),
    ("aten.upsample_bicubic2d.vec", (f(1, 1, 4, 4), [6, 5], False, None), {}),
    ("aten._upsample_nearest_exact2d.vec", (f(1, 1, 4, 4), [6, 5], None), {}),
    ("aten.upsample_bicubic2d", (f(1, 1, 4, 4), [6, 5], True), {}),
    ("aten.empty_permuted", ([0, 3], [1, 0]), {}), ("aten.new_empty", (x, [0]), {}), ("aten.empty_like", (f(0, 2),), {}),
    # further names of functions; no number is drawn for them, so that those of the calls above stay
    *[(f"aten.{name}", (small,), {}) for name in ["arccos", "arcsin", "arctan", "arcsinh", "arctanh", "absolute", "negative",
                                                 "fix", "positive", "conj", "conj_physical", "real", "resolve_conj",
                                                 "resolve_neg", "special_expit", "special_erf", "special_expm1",
                                                 "mT", "mH", "adjoint", "numpy_T", "fliplr", "flipud", "atleast_1d",
                                                 "atleast_2d", "rrelu"]],
    *[(f"aten.{name}", (large,), {}) for name in ["arccosh", "special_gammaln", "special_psi"]],
    *[(f"aten.{name}.Tensor", (x, y), {}) for name in ["greater", "greater_equal", "less", "less_equal", "not_equal",
                                                      "multiply", "subtract"]],
    *[(f"aten.{name}.Scalar", (x, 1), {}) for name in ["greater", "greater_equal", "less", "less_equal", "not_equal",
                                                      "multiply", "subtract"]],
    *[(f"aten.{name}.Tensor", (x, large), {}) for name in ["divide", "true_divide"]],
    *[(f"aten.{name}.Scalar", (x, 2), {}) for name in ["divide", "true_divide"]],
    ("aten.divide.Tensor_mode", (x, large), {"rounding_mode": "floor"}),
    ("aten.divide.Scalar_mode", (x, 2), {"rounding_mode": "trunc"}),
    ("aten.arctan2", (x, large), {}),
    ("aten.clip", (x, -1, 1), {}), ("aten.clip", (x,), {"min": 0.5}), ("aten.clip.Tensor", (x, None, y), {}),
    *[(f"aten.{name}", ([x, y], *dim), {}) for name in ["concat", "concatenate"] for dim in [(), (1,)]],
    ("aten.swapaxes", (x, 0, 1), {}), ("aten.swapdims", (x, -1, 0), {}), ("aten.moveaxis.int", (x, 0, 1), {}), ("aten.moveaxis.intlist", (x, [0, 1], [1, 0]), {}),
    ("aten.ger", (v, v + 1), {}), ("aten.unsafe_chunk", (x, 2, 1), {}), ("aten.row_stack", ([x, y],), {}),
    ("aten.column_stack", ([x, y],), {}), ("aten.column_stack", ([v, v + 1],), {}), ("aten.trapz.dx", (x,), {"dx": 2.0}),
    ("aten.trapz.x", (x, large), {}), ("aten.expand_as", (x[:1], x), {}), ("aten.broadcast_tensors", ([x, y[:1]],), {}),
]


def shown(t):
    t = t.detach()
    if t.is_floating_point() and not torch.equal(t * 8, (t * 8).round()):
        raw = t.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[t.element_size()])
        data = {"hex": raw.numpy().tobytes().hex()} if t.numel() else {"data": []}
    else:
        data = {"data": (t.int() if t.dtype == torch.bool else t).flatten().tolist()}
    return {"dtype": NAMES[t.dtype], "shape": list(t.shape), **data}


def encoded(value, tensors):
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return {"t": len(tensors) - 1}
    if isinstance(value, (list, tuple)):
        return [encoded(item, tensors) for item in value]
    if isinstance(value, torch.dtype):
        return {"dtype": NAMES[value]}
    if isinstance(value, torch.device):
        return str(value)
    return {"float": value} if isinstance(value, float) else value


def call(op):
    _, name, *overload = op.split(".")
    return getattr(getattr(torch.ops.aten, name), overload[0] if overload else "default")


def main():
    cases, expected = [], []
    for number, (op, args, kwargs) in enumerate(CALLS):
        tensors = []
        case = {"id": f"{op}/model/{number}", "op": op if op.count(".") > 1 else op + ".default", "cat": "forward", "tensors": [],
                "args": [encoded(a, tensors) for a in args], "kwargs": {k: encoded(a, tensors) for k, a in kwargs.items()},
                "want": ["forward"]}
        case["tensors"] = [shown(t) for t in tensors]
        leaves = [t.detach().clone().requires_grad_(t.is_floating_point() and not any(t is c for c in CONSTANT))
                  for t in tensors]
        found = iter(leaves)
        put = lambda a: (next(found) if isinstance(a, torch.Tensor) else type(a)(map(put, a)) if isinstance(a, (list, tuple)) else a)
        out = call(op)(*[put(a) for a in args], **{k: put(a) for k, a in kwargs.items()})
        outs = [o for o in (out if isinstance(out, (list, tuple)) else [out])]
        answer = {"id": case["id"], "status": "ok", "out": [shown(o) for o in outs]}
        by = [n for n, t in enumerate(leaves) if t.requires_grad]
        if by and any(o.requires_grad for o in outs):
            cts = [f(*o.shape, dtype=o.dtype) if o.requires_grad else None for o in outs]
            loss = sum((o.double() * c.double()).sum() for o, c in zip(outs, cts) if c is not None)
            grads = torch.autograd.grad(loss, [leaves[n] for n in by], allow_unused=True)
            case |= {"want": ["forward", "backward"], "grad": by, "ct": [None if c is None else shown(c) for c in cts]}
            answer["grad"] = {str(n): None if g is None else shown(g) for n, g in zip(by, grads)}
        cases.append(case)
        expected.append(answer)
    lines = lambda rows: "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    (HERE / "model-cases.jsonl").write_text(lines(cases))
    (HERE / "model-expect.jsonl").write_text(lines(expected))


main()
