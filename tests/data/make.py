"""Records what PyTorch answers to calls of our rows: tests/data/torch-*.json.

    python tests/data/make.py        (torch 2.15, CPU; overwrites the files; the same bytes on the same machine)

A case is one call: row, arguments, options, PyTorch's results, and for float results a cotangent and the gradients of
the float arguments. Numbers are those that `repr` prints, so they read back exactly.
"""
import json, math, pathlib, random
import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).parent
NAMES = {torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
         torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool"}
f64, f32, f16, i64, i32, u8, boolean = (torch.float64, torch.float32, torch.float16, torch.int64, torch.int32,
                                        torch.uint8, torch.bool)
torch.manual_seed(1337)
random.seed(1337)
families = {}


def num(x):
    if isinstance(x, float):
        if math.isnan(x):
            return "nan"
        if math.isinf(x):
            return "inf" if x > 0 else "-inf"
    return x


def enc(v):
    if isinstance(v, torch.Tensor):
        v = v.detach()
        flat = v.contiguous().flatten().tolist()
        return {"dtype": NAMES[v.dtype], "shape": list(v.shape), "data": [num(x) for x in flat]}
    if isinstance(v, torch.dtype):
        return {"as_dtype": NAMES[v]}
    if isinstance(v, (list, tuple)):
        return [enc(x) for x in v]
    if isinstance(v, bool) or v is None or isinstance(v, (int, str)):
        return v
    if isinstance(v, float):
        return {"float": num(v)}
    raise TypeError(v)


def case(family, row, args, opts, fn, grad=True, note=None, fixed=()):
    """args: name -> tensor, number or list of tensors; fn gets them and the options by name. fixed: no gradient there."""
    leaves = {}
    call = {}
    for name, v in args.items():
        if isinstance(v, torch.Tensor) and v.dtype.is_floating_point and grad and name not in fixed:
            v = v.clone().requires_grad_()
            leaves[name] = [v]
        elif isinstance(v, list) and grad:
            v = [x.clone().requires_grad_() if x.dtype.is_floating_point else x for x in v]
            leaves[name] = [x for x in v if x.requires_grad]
        call[name] = v
    out = fn(**call, **opts)
    outs = list(out) if isinstance(out, (tuple, list)) else [out]
    record = {"row": row, "args": {k: enc(v) for k, v in call.items() if v is not None},
              "opts": {k: enc(v) for k, v in opts.items()}, "out": [enc(o) for o in outs]}
    if note:
        record["note"] = note
    flows = [o for o in outs if o.requires_grad]
    if flows:
        cts = [torch.randn(o.shape, dtype=o.dtype).round(decimals=3) if o.requires_grad else None for o in outs]
        names = [(k, i) for k, vs in leaves.items() for i in range(len(vs))]
        gs = torch.autograd.grad(flows, [leaves[k][i] for k, i in names], [c for c in cts if c is not None],
                                 allow_unused=True)
        record["ct"] = [None if c is None else enc(c) for c in cts]
        record["grad"] = {}
        for (k, i), g in zip(names, gs):
            zero = torch.zeros_like(leaves[k][i]) if g is None else g
            if isinstance(args[k], list):
                record["grad"].setdefault(k, []).append(enc(zero))
            else:
                record["grad"][k] = enc(zero)
    families.setdefault(family, []).append(record)


def r(*shape, lo=-2.0, hi=2.0, dtype=f64):
    return (torch.rand(shape, dtype=f64) * (hi - lo) + lo).round(decimals=4).to(dtype)


def ints(*shape, lo=-4, hi=5, dtype=i64):
    return torch.randint(lo, hi, shape).to(dtype)


inf, nan = math.inf, math.nan

# ---------------------------------------------------------------- pointwise, one argument
unary = {
    "neg": torch.neg, "abs": torch.abs, "sign": torch.sign, "square": torch.square, "reciprocal": torch.reciprocal,
    "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1, "ln": torch.log, "log2": torch.log2,
    "log10": torch.log10, "log1p": torch.log1p, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "sin": torch.sin,
    "cos": torch.cos, "tan": torch.tan, "asin": torch.asin, "acos": torch.acos, "atan": torch.atan,
    "sinh": torch.sinh, "cosh": torch.cosh, "tanh": torch.tanh, "asinh": torch.asinh, "acosh": torch.acosh,
    "atanh": torch.atanh, "erf": torch.erf, "erfc": torch.erfc, "erfinv": torch.erfinv, "sigmoid": torch.sigmoid,
    "floor": torch.floor, "ceil": torch.ceil, "round": torch.round, "trunc": torch.trunc,
    "logical_not": torch.logical_not, "isnan": torch.isnan, "isinf": torch.isinf, "isfinite": torch.isfinite,
    "copy": torch.clone, "detach": torch.detach, "relu": torch.relu, "silu": F.silu, "softplus": F.softplus,
    "mish": F.mish, "log_sigmoid": F.logsigmoid,
}
domains = {"ln": (0.1, 4), "log2": (0.1, 4), "log10": (0.1, 4), "log1p": (-0.9, 4), "sqrt": (0.1, 4),
           "rsqrt": (0.1, 4), "asin": (-0.9, 0.9), "acos": (-0.9, 0.9), "atanh": (-0.9, 0.9), "erfinv": (-0.9, 0.9),
           "acosh": (1.1, 4), "reciprocal": (0.3, 3)}
# PyTorch's own formulas lose digits in the tails of these, or have no integer version
float_only = {"silu", "softplus", "mish", "log_sigmoid"}
special = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -1.5, inf, -inf, nan], dtype=f64)
for name, fn in unary.items():
    lo, hi = domains.get(name, (-3, 3))
    case("unary", name, {"x": r(2, 3, lo=lo, hi=hi)}, {}, lambda x, fn=fn: fn(x))
    case("unary", name, {"x": special}, {}, lambda x, fn=fn: fn(x), note="special points")
    if name not in float_only:
        case("unary", name, {"x": ints(4, lo=1, hi=5)}, {}, lambda x, fn=fn: fn(x))
for approximate in ["none", "tanh"]:
    case("unary", "gelu", {"x": r(2, 3)}, {"approximate": approximate}, lambda x, approximate: F.gelu(x, approximate=approximate))
case("unary", "gelu", {"x": special}, {}, lambda x: F.gelu(x), note="special points")
case("unary", "leaky_relu", {"x": r(2, 3)}, {}, lambda x: F.leaky_relu(x))
case("unary", "leaky_relu", {"x": special}, {"slope": 0.2}, lambda x, slope: F.leaky_relu(x, slope), note="special points")
case("unary", "elu", {"x": r(2, 3)}, {}, lambda x: F.elu(x))
case("unary", "elu", {"x": special}, {"alpha": 1.5}, lambda x, alpha: F.elu(x, alpha), note="special points")
case("unary", "hardtanh", {"x": r(2, 3)}, {}, lambda x: F.hardtanh(x))
case("unary", "hardtanh", {"x": special}, {"lo": -0.5, "hi": 2.5}, lambda x, lo, hi: F.hardtanh(x, lo, hi), note="special points")
for d in [f32, i64, boolean, u8]:
    case("unary", "cast", {"x": r(2, 3, lo=0, hi=3)}, {"dtype": d}, lambda x, dtype: x.to(dtype))

# ---------------------------------------------------------------- pointwise, two and more arguments
binary = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div,
    "floor_divide": lambda x, y: torch.div(x, y, rounding_mode="floor"), "trunc_divide": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "remainder": torch.remainder, "fmod": torch.fmod, "maximum": torch.maximum, "minimum": torch.minimum,
    "atan2": torch.atan2, "hypot": torch.hypot, "copysign": torch.copysign,
    "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge,
    "logical_and": torch.logical_and, "logical_or": torch.logical_or, "logical_xor": torch.logical_xor,
}
no_int = {"hypot"}
for name, fn in binary.items():
    case("binary", name, {"x": r(2, 1, 3), "y": r(5, 1, lo=0.4, hi=3)}, {}, lambda x, y, fn=fn: fn(x, y))
    case("binary", name, {"x": ints(6).double(), "y": ints(6, lo=1, hi=4).double()}, {}, lambda x, y, fn=fn: fn(x, y), note="ties")
    if name not in no_int:
        case("binary", name, {"x": ints(2, 3, dtype=i32), "y": ints(3, lo=1, hi=4)}, {}, lambda x, y, fn=fn: fn(x, y))
case("binary", "pow", {"x": r(2, 3, lo=0.3, hi=3), "y": r(3)}, {}, lambda x, y: torch.pow(x, y))
case("binary", "pow", {"x": torch.tensor([0.0, 0.0, -2.0, 2.0, 1.0, 3.0], dtype=f64), "y": torch.tensor([0.0, 1.0, 2.0, 0.0, 5.0, -1.0], dtype=f64)}, {}, lambda x, y: torch.pow(x, y), grad=False)
case("binary", "pow", {"x": ints(5), "y": 2}, {}, lambda x, y: torch.pow(x, y))
a, lo_t, hi_t = r(2, 3), r(3, lo=-1, hi=-0.2), r(2, 1, lo=0.2, hi=1)
case("binary", "clamp", {"x": a, "lo": lo_t, "hi": hi_t}, {}, lambda x, lo, hi: torch.clamp(x, lo, hi))
case("binary", "clamp", {"x": torch.tensor([-1.0, -0.5, 0.2, 0.5, 3.0, nan], dtype=f64), "lo": -0.5, "hi": 0.5}, {}, lambda x, lo, hi: torch.clamp(x, lo, hi), note="bounds")
case("binary", "clamp", {"x": a, "hi": 0.5}, {}, lambda x, hi: torch.clamp(x, max=hi))
case("binary", "where", {"cond": ints(2, 3, lo=0, hi=2).bool(), "x": r(3), "y": r(2, 1)}, {}, lambda cond, x, y: torch.where(cond, x, y))
case("binary", "where", {"cond": ints(4, lo=0, hi=2).bool(), "x": ints(4), "y": 2.5}, {}, lambda cond, x, y: torch.where(cond, x, y))
case("binary", "masked_fill", {"x": r(2, 3), "mask": ints(3, lo=0, hi=2).bool()}, {"value": 9.0}, lambda x, mask, value: x.masked_fill(mask, value))
case("binary", "masked_fill", {"x": ints(2, 3), "mask": ints(2, 1, lo=0, hi=2).bool()}, {"value": 7}, lambda x, mask, value: x.masked_fill(mask, value))

# ---------------------------------------------------------------- reductions
x3, ties = r(2, 3, 5), ints(3, 4, lo=-1, hi=2).double()
red = "reduction"
for name, fn in {"sum": torch.sum, "mean": torch.mean, "amax": torch.amax, "amin": torch.amin}.items():
    case(red, name, {"x": x3}, {"dims": [0, -1]}, lambda x, dims, fn=fn: fn(x, dims))
    case(red, name, {"x": x3}, {"dims": [1], "keepdim": True}, lambda x, dims, keepdim, fn=fn: fn(x, dims, keepdim=keepdim))
    case(red, name, {"x": ties}, {"dims": [1]}, lambda x, dims, fn=fn: fn(x, dims), note="ties")
    case(red, name, {"x": ties}, {}, lambda x, fn=fn: fn(x))
case(red, "sum", {"x": ints(2, 3, dtype=u8, lo=0, hi=200)}, {}, lambda x: x.sum())
case(red, "sum", {"x": ints(2, 3)}, {"dims": [0], "dtype": f32}, lambda x, dims, dtype: x.sum(dims, dtype=dtype))
case(red, "sum", {"x": r(0, 3)}, {"dims": [0]}, lambda x, dims: x.sum(dims), note="empty")
case(red, "prod", {"x": x3}, {"dims": [1]}, lambda x, dims: x.prod(dims[0]))
case(red, "prod", {"x": torch.tensor([[2.0, 0.0, 3.0], [0.0, 0.0, 4.0], [1.0, -2.0, 5.0]], dtype=f64)}, {"dims": [1]}, lambda x, dims: x.prod(dims[0]), note="zeros")
case(red, "prod", {"x": ints(2, 3)}, {}, lambda x: x.prod())
for name, fn in {"argmax": torch.argmax, "argmin": torch.argmin}.items():
    case(red, name, {"x": ties}, {"dim": [1]}, lambda x, dim, fn=fn: fn(x, dim[0]), note="ties")
    case(red, name, {"x": x3}, {"dim": [-2], "keepdim": True}, lambda x, dim, keepdim, fn=fn: fn(x, dim[0], keepdim))
    case(red, name, {"x": ties}, {}, lambda x, fn=fn: fn(x), note="ties")
for name, fn in {"any": torch.any, "all": torch.all}.items():
    case(red, name, {"x": ints(3, 4, lo=0, hi=2)}, {"dims": [1]}, lambda x, dims, fn=fn: fn(x, dims[0]))
    case(red, name, {"x": x3 > 1}, {"dims": [0, 2], "keepdim": True}, lambda x, dims, keepdim, fn=fn: fn(x, tuple(dims), keepdim))
case(red, "var_mean", {"x": x3}, {"dims": [1, 2]}, lambda x, dims: torch.var_mean(x, dims))
case(red, "var_mean", {"x": x3}, {"dims": [0], "correction": 0.0, "keepdim": True}, lambda x, dims, correction, keepdim: torch.var_mean(x, dims, correction=correction, keepdim=keepdim))
case(red, "logsumexp", {"x": x3}, {"dims": [1]}, lambda x, dims: x.logsumexp(dims))
case(red, "logsumexp", {"x": torch.tensor([[1000.0, 999.0], [-1000.0, -inf], [2.0, 2.0]], dtype=f64)}, {"dims": [-1], "keepdim": True}, lambda x, dims, keepdim: x.logsumexp(dims, keepdim))
case(red, "cumsum", {"x": x3}, {"dim": -2}, lambda x, dim: x.cumsum(dim))
case(red, "cumsum", {"x": ints(2, 5, dtype=i32)}, {"dim": 1}, lambda x, dim: x.cumsum(dim))

# ---------------------------------------------------------------- movement
mv = "movement"
m, v5 = r(4, 5), r(5)
case(mv, "reshape", {"x": x3}, {"shape": [5, -1]}, lambda x, shape: x.reshape(shape))
case(mv, "reshape", {"x": ints(6)}, {"shape": [1, 2, 3, 1]}, lambda x, shape: x.reshape(shape))
case(mv, "permute", {"x": x3}, {"dims": [2, 0, 1]}, lambda x, dims: x.permute(dims))
case(mv, "permute", {"x": m}, {"dims": [-1, 0]}, lambda x, dims: x.permute(dims))
case(mv, "transpose", {"x": x3}, {"dim0": -1, "dim1": 0}, lambda x, dim0, dim1: x.transpose(dim0, dim1))
case(mv, "transpose", {"x": x3}, {"dim0": 1, "dim1": 1}, lambda x, dim0, dim1: x.transpose(dim0, dim1))
case(mv, "t", {"x": m}, {}, lambda x: x.t())
case(mv, "t", {"x": ints(1, 3)}, {}, lambda x: x.t())
case(mv, "expand", {"x": r(3, 1)}, {"shape": [2, -1, 4]}, lambda x, shape: x.expand(shape))
case(mv, "expand", {"x": r()}, {"shape": [2, 3]}, lambda x, shape: x.expand(shape))
case(mv, "squeeze", {"x": r(3, 1, 2, 1)}, {}, lambda x: x.squeeze())
case(mv, "squeeze", {"x": r(3, 1, 2, 1)}, {"dims": [0, 1]}, lambda x, dims: x.squeeze(dims))
case(mv, "unsqueeze", {"x": m}, {"dim": 1}, lambda x, dim: x.unsqueeze(dim))
case(mv, "unsqueeze", {"x": m}, {"dim": -1}, lambda x, dim: x.unsqueeze(dim))
case(mv, "slice", {"x": x3}, {"dim": -1, "start": 1, "stop": 5, "step": 2}, lambda x, dim, start, stop, step: x[..., start:stop:step])
case(mv, "slice", {"x": x3}, {"dim": 1, "start": -2}, lambda x, dim, start: x[:, start:])
case(mv, "select", {"x": x3}, {"dim": 1, "index": -1}, lambda x, dim, index: x.select(dim, index))
case(mv, "select", {"x": v5}, {"dim": 0, "index": 2}, lambda x, dim, index: x.select(dim, index))
case(mv, "split", {"x": x3}, {"sizes": [1, 4], "dim": 2}, lambda x, sizes, dim: x.split(sizes, dim))
case(mv, "split", {"x": m}, {"sizes": [3, 0, 1]}, lambda x, sizes: x.split(sizes))
case(mv, "split_every", {"x": x3}, {"size": 2, "dim": -1}, lambda x, size, dim: x.split(size, dim))
case(mv, "split_every", {"x": m}, {"size": 4}, lambda x, size: x.split(size))
case(mv, "unbind", {"x": x3}, {"dim": 1}, lambda x, dim: x.unbind(dim))
case(mv, "unbind", {"x": v5}, {}, lambda x: x.unbind())
case(mv, "chunk", {"x": x3}, {"chunks": 3, "dim": 2}, lambda x, chunks, dim: x.chunk(chunks, dim))
case(mv, "chunk", {"x": m}, {"chunks": 2}, lambda x, chunks: x.chunk(chunks))
case(mv, "cat", {"xs": [x3, r(2, 1, 5), r(2, 2, 5)]}, {"dim": 1}, lambda xs, dim: torch.cat(xs, dim))
case(mv, "cat", {"xs": [ints(2), r(3, dtype=f32)]}, {}, lambda xs: torch.cat(xs), grad=False)
case(mv, "stack", {"xs": [m, r(4, 5)]}, {"dim": -1}, lambda xs, dim: torch.stack(xs, dim))
case(mv, "stack", {"xs": [v5, r(5), r(5)]}, {}, lambda xs: torch.stack(xs))
case(mv, "flip", {"x": x3}, {"dims": [0, 2]}, lambda x, dims: x.flip(dims))
case(mv, "flip", {"x": v5}, {"dims": [-1]}, lambda x, dims: x.flip(dims))
case(mv, "roll", {"x": x3}, {"shifts": [1, -2], "dims": [0, 2]}, lambda x, shifts, dims: x.roll(shifts, dims))
case(mv, "roll", {"x": v5}, {"shifts": [7], "dims": [0]}, lambda x, shifts, dims: x.roll(shifts, dims))
pads = lambda x, lo, hi, mode, value=0: F.pad(x, (lo[-1], hi[-1]) if mode != "constant" else tuple(p for l, h in zip(lo[::-1], hi[::-1]) for p in (l, h)), mode=mode, **({"value": value} if mode == "constant" else {}))
for mode, lo, hi in [("constant", [0, -1, 1], [0, 0, 2]), ("reflect", [0, 0, 2], [0, 0, 3]), ("replicate", [0, 0, 1], [0, 0, 2]), ("circular", [0, 0, 1], [0, 0, 2])]:
    case(mv, "pad", {"x": x3}, {"lo": lo, "hi": hi, "mode": mode}, pads)
case(mv, "pad", {"x": m}, {"lo": [1, 0], "hi": [0, 2], "mode": "constant", "value": 7}, pads)
case(mv, "tril", {"x": x3}, {"diagonal": 1}, lambda x, diagonal: x.tril(diagonal))
case(mv, "tril", {"x": m}, {}, lambda x: x.tril())
case(mv, "triu", {"x": x3}, {"diagonal": -1}, lambda x, diagonal: x.triu(diagonal))
case(mv, "triu", {"x": m}, {}, lambda x: x.triu())
case(mv, "diagonal", {"x": x3}, {"offset": 1, "dim1": 1, "dim2": 2}, lambda x, offset, dim1, dim2: x.diagonal(offset, dim1, dim2))
case(mv, "diagonal", {"x": m}, {"offset": -1}, lambda x, offset: x.diagonal(offset))
case(mv, "repeat", {"x": m}, {"reps": [2, 1, 3]}, lambda x, reps: x.repeat(reps))
case(mv, "repeat", {"x": v5}, {"reps": [2]}, lambda x, reps: x.repeat(reps))

# ---------------------------------------------------------------- indices
ix = "index"
case(ix, "take", {"x": v5, "index": torch.tensor([[2, 0], [4, 2]])}, {}, lambda x, index: x.take(index))
case(ix, "take", {"x": v5, "index": torch.tensor([3], dtype=i32)}, {}, lambda x, index: x.take(index.long()))
case(ix, "gather", {"x": x3, "index": ints(2, 4, 5, lo=0, hi=3)}, {"dim": 1}, lambda x, index, dim: x.gather(dim, index))
case(ix, "gather", {"x": m, "index": ints(4, 2, lo=0, hi=5)}, {"dim": -1}, lambda x, index, dim: x.gather(dim, index))
case(ix, "scatter_add", {"x": x3, "index": ints(2, 4, 5, lo=0, hi=3), "src": r(2, 4, 5)}, {"dim": 1}, lambda x, index, src, dim: x.scatter_add(dim, index, src))
case(ix, "scatter_add", {"x": v5, "index": torch.tensor([1, 1, 4]), "src": r(3)}, {"dim": 0}, lambda x, index, src, dim: x.scatter_add(dim, index, src))
case(ix, "index_select", {"x": x3, "index": torch.tensor([2, 0, 2])}, {"dim": 1}, lambda x, index, dim: x.index_select(dim, index))
case(ix, "index_select", {"x": m, "index": torch.tensor([3, 3], dtype=i32)}, {"dim": -1}, lambda x, index, dim: x.index_select(dim, index))
case(ix, "embedding", {"weight": m, "index": ints(2, 3, lo=0, hi=4)}, {}, lambda weight, index: F.embedding(index, weight))
case(ix, "embedding", {"weight": m, "index": torch.tensor([1, 0, 1, 3])}, {"padding": 1}, lambda weight, index, padding: F.embedding(index, weight, padding_idx=padding))
case(ix, "one_hot", {"x": ints(2, 3, lo=0, hi=4)}, {"classes": 4}, lambda x, classes: F.one_hot(x, classes))
case(ix, "one_hot", {"x": torch.tensor([0, 4])}, {"classes": 6}, lambda x, classes: F.one_hot(x, classes))

# ---------------------------------------------------------------- contractions
ct = "contraction"
case(ct, "matmul", {"a": r(2, 1, 3, 4), "w": r(5, 4, 2)}, {}, lambda a, w: a @ w)
case(ct, "matmul", {"a": r(3, 4), "w": r(4, 5)}, {}, lambda a, w: a @ w)
case(ct, "matmul", {"a": ints(2, 3), "w": ints(3, 4)}, {}, lambda a, w: a @ w)
case(ct, "matmul.mv", {"a": r(2, 3, 4), "w": r(4)}, {}, lambda a, w: a @ w)
case(ct, "matmul.mv", {"a": r(3, 4), "w": r(4)}, {}, lambda a, w: a @ w)
case(ct, "matmul.vm", {"a": r(4), "w": r(2, 4, 3)}, {}, lambda a, w: a @ w)
case(ct, "matmul.vm", {"a": r(4), "w": r(4, 3)}, {}, lambda a, w: a @ w)
case(ct, "matmul_nt", {"x": r(2, 3, 4), "w": r(5, 4)}, {}, lambda x, w: F.linear(x, w))
case(ct, "matmul_nt", {"x": r(4), "w": r(5, 4)}, {}, lambda x, w: F.linear(x, w))
case(ct, "linear", {"x": r(2, 3, 4), "w": r(5, 4), "bias": r(5)}, {}, lambda x, w, bias: F.linear(x, w, bias))
case(ct, "linear", {"x": r(3, 4), "w": r(2, 4)}, {}, lambda x, w: F.linear(x, w))
case(ct, "conv", {"x": r(2, 4, 7, 6), "w": r(6, 2, 3, 2), "bias": r(6)}, {"stride": [2, 1], "padding": [1, 0], "groups": 2}, lambda x, w, bias, **o: F.conv2d(x, w, bias, **o))
case(ct, "conv", {"x": r(1, 3, 8), "w": r(2, 3, 3)}, {"dilation": 2, "padding": 1}, lambda x, w, **o: F.conv1d(x, w, **o))

# ---------------------------------------------------------------- normalisation, losses, attention
nl = "layers"
logits, target, w5 = r(4, 5), torch.tensor([1, 2, 0, 4]), r(5, lo=0.5, hi=1.5)
for dim in [1, -1]:
    case(nl, "softmax", {"x": x3}, {"dim": dim}, lambda x, dim: x.softmax(dim))
    case(nl, "log_softmax", {"x": x3}, {"dim": dim}, lambda x, dim: x.log_softmax(dim))
case(nl, "softmax", {"x": r()}, {"dim": 0}, lambda x, dim: x.softmax(dim), note="rank 0")
case(nl, "layer_norm", {"x": x3, "weight": r(5), "bias": r(5)}, {"shape": [5]}, lambda x, weight, bias, shape: F.layer_norm(x, shape, weight, bias))
case(nl, "layer_norm", {"x": x3}, {"shape": [3, 5], "eps": 0.01}, lambda x, shape, eps: F.layer_norm(x, shape, eps=eps))
case(nl, "rms_norm", {"x": x3, "weight": r(5)}, {"shape": [5], "eps": 1e-6}, lambda x, weight, shape, eps: F.rms_norm(x, shape, weight, eps))
case(nl, "rms_norm", {"x": x3}, {"shape": [3, 5]}, lambda x, shape: F.rms_norm(x, shape))
lp = logits.log_softmax(1)
case(nl, "nll_each", {"x": lp, "target": target, "weight": w5}, {"ignore": 2}, lambda x, target, weight, ignore: F.nll_loss(x, target, weight, reduction="none", ignore_index=ignore), fixed=["weight"])
case(nl, "nll_each", {"x": r(2, 3, 4), "target": ints(2, 4, lo=0, hi=3)}, {}, lambda x, target: F.nll_loss(x, target, reduction="none"))
case(nl, "class_weights", {"target": target, "weight": w5, "like": r(4)}, {"classes": 5, "ignore": 2}, lambda target, weight, like, classes, ignore: torch.where(target == ignore, 0.0, weight[target]))
case(nl, "class_weights", {"target": target, "like": r(4)}, {"classes": 5, "ignore": 0}, lambda target, like, classes, ignore: (target != ignore).double())
case(nl, "nll_loss", {"x": lp, "target": target, "weight": w5}, {}, lambda x, target, weight: F.nll_loss(x, target, weight), fixed=["weight"])
case(nl, "nll_loss", {"x": r(2, 3, 4), "target": ints(2, 4, lo=0, hi=3)}, {"reduction": "sum", "ignore": 1}, lambda x, target, reduction, ignore: F.nll_loss(x, target, reduction=reduction, ignore_index=ignore))
ce = lambda x, target, weight=None, reduction="mean", ignore=-100, smoothing=0.0: F.cross_entropy(x, target, weight, reduction=reduction, ignore_index=ignore, label_smoothing=smoothing)
case(nl, "cross_entropy", {"x": logits, "target": target}, {}, ce)
case(nl, "cross_entropy", {"x": logits, "target": target, "weight": w5}, {"reduction": "sum", "ignore": 2, "smoothing": 0.1}, ce, fixed=["weight"])
case(nl, "cross_entropy", {"x": logits, "target": target, "weight": w5}, {"smoothing": 0.1}, ce, fixed=["weight"])
case(nl, "cross_entropy", {"x": r(2, 3, 4), "target": ints(2, 4, lo=0, hi=3)}, {"reduction": "none"}, ce)
q, k, vv = r(2, 4, 3, 5), r(2, 2, 6, 5), r(2, 2, 6, 7)
case(nl, "sdpa", {"q": q, "k": k, "v": vv}, {}, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True))
case(nl, "sdpa", {"q": r(1, 2, 3, 4), "k": r(1, 2, 3, 4), "v": r(1, 2, 3, 4)}, {"causal": True}, lambda q, k, v, causal: F.scaled_dot_product_attention(q, k, v, is_causal=causal))
case(nl, "sdpa", {"q": r(2, 3, 4), "k": r(2, 5, 4), "v": r(2, 5, 2), "mask": r(3, 5)}, {"scale": 0.3}, lambda q, k, v, mask, scale: F.scaled_dot_product_attention(q, k, v, mask, scale=scale))
keep = torch.tensor([[True, True, False, True, True]]).expand(3, 5).clone()
case(nl, "sdpa", {"q": r(2, 3, 4), "k": r(2, 5, 4), "v": r(2, 5, 2), "mask": keep}, {}, lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask))

# ---------------------------------------------------------------- creation
cr = "creation"
case(cr, "full", {}, {"shape": [2, 3], "value": 1.5}, lambda shape, value: torch.full(shape, value))
case(cr, "full", {}, {"shape": [2], "value": True}, lambda shape, value: torch.full(shape, value))
case(cr, "full", {}, {"shape": [], "value": 3, "dtype": u8}, lambda shape, value, dtype: torch.full(shape, value, dtype=dtype))
case(cr, "arange", {}, {"stop": 5}, lambda stop: torch.arange(stop))
case(cr, "arange", {}, {"stop": 7, "start": 1, "step": 2}, lambda stop, start, step: torch.arange(start, stop, step))
case(cr, "arange", {}, {"stop": 1.0, "start": 0, "step": 0.25}, lambda stop, start, step: torch.arange(start, stop, step))
case(cr, "arange", {}, {"stop": -3, "step": -1, "dtype": f64}, lambda stop, step, dtype: torch.arange(0, stop, step, dtype=dtype))

# ---------------------------------------------------------------- optimisers
op = "optimiser"


def adamw(p, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    """torch.optim.AdamW after step - 1 steps that left these moments."""
    w = torch.nn.Parameter(p.clone())
    o = torch.optim.AdamW([w], lr=lr.item(), betas=(beta1, beta2), eps=eps, weight_decay=decay)
    o.state[w] = {"step": step - 1, "exp_avg": m.clone(), "exp_avg_sq": v.clone()}
    w.grad = grad.clone()
    o.step()
    return w.detach(), o.state[w]["exp_avg"], o.state[w]["exp_avg_sq"]


def sgd(p, grad, buf, lr, momentum=0.0, decay=0.0):
    w = torch.nn.Parameter(p.clone())
    o = torch.optim.SGD([w], lr=lr.item(), momentum=momentum, weight_decay=decay)
    if momentum:
        o.state[w]["momentum_buffer"] = buf.clone()
    w.grad = grad.clone()
    o.step()
    return w.detach(), o.state[w]["momentum_buffer"] if momentum else grad + decay * p


for o in [{}, {"beta1": 0.8, "beta2": 0.95, "eps": 1e-3, "decay": 0.1}]:
    case(op, "adamw_step", {"p": r(2, 3), "grad": r(2, 3), "m": r(2, 3), "v": r(2, 3, lo=0.1), "step": torch.tensor(3.0, dtype=f64), "lr": torch.tensor(0.01, dtype=f64)}, o, adamw, grad=False)
for o in [{"momentum": 0.9}, {"momentum": 0.5, "decay": 0.1}]:
    case(op, "sgd_step", {"p": r(2, 3), "grad": r(2, 3), "buf": r(2, 3), "lr": torch.tensor(0.1, dtype=f64)}, o, sgd, grad=False)
for norm in [0.5, 3.0]:
    case(op, "clip_scale", {"norm": torch.tensor(norm, dtype=f64)}, {"limit": 1.0}, lambda norm, limit: torch.clamp(limit / (norm + 1e-6), max=1.0))

# last, so that the random numbers of the other families stay
pl = "pooling"
halves = torch.tensor([[[[1.0, 1.0, 0.0, 2.0], [1.0, 0.5, 2.0, 2.0], [-1.0, -2.0, math.nan, 0.0], [-3.0, -3.0, 0.0, 0.0]]]], dtype=f64)
case(pl, "max_pool", {"x": r(2, 3, 6, 5)}, {"kernel": [2, 2]}, lambda x, kernel: F.max_pool2d(x, kernel))
case(pl, "max_pool", {"x": r(1, 2, 7, 6)}, {"kernel": [3, 2], "stride": [2, 1], "padding": [1, 0], "dilation": [1, 2]}, lambda x, kernel, **o: F.max_pool2d(x, kernel, **o))
case(pl, "max_pool", {"x": r(2, 1, 9)}, {"kernel": 3, "stride": 2, "padding": 1}, lambda x, kernel, **o: F.max_pool1d(x, kernel, **o))
case(pl, "max_pool", {"x": halves}, {"kernel": [2, 2]}, lambda x, kernel: F.max_pool2d(x, kernel), note="ties: the first; NaN wins")
case(pl, "avg_pool", {"x": r(2, 3, 6, 5)}, {"kernel": [2, 2]}, lambda x, kernel: F.avg_pool2d(x, kernel))
for count in [True, False]:
    case(pl, "avg_pool", {"x": r(1, 2, 7, 6)}, {"kernel": [3, 2], "stride": [2, 1], "padding": [1, 1], "count_padding": count}, lambda x, kernel, count_padding, **o: F.avg_pool2d(x, kernel, count_include_pad=count_padding, **o))
# ---------------------------------------------------------------- special functions, more of what is pointwise
# New sections stand at the end: the random numbers of those above stay what they are.
sf = "special"
special_unary = {
    "erfcx": torch.special.erfcx, "lgamma": torch.lgamma, "digamma": torch.digamma, "i0": torch.i0,
    "i0e": torch.special.i0e, "i1": torch.special.i1, "i1e": torch.special.i1e, "sinc": torch.sinc,
    "entr": torch.special.entr, "ndtr": torch.special.ndtr, "log_ndtr": torch.special.log_ndtr, "logit": torch.logit,
    "deg2rad": torch.deg2rad, "rad2deg": torch.rad2deg, "frac": torch.frac, "isposinf": torch.isposinf,
    "isneginf": torch.isneginf, "signbit": torch.signbit, "nan_to_num": torch.nan_to_num, "celu": F.celu,
    "selu": F.selu, "hardshrink": F.hardshrink, "softshrink": F.softshrink, "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish, "softsign": F.softsign, "polygamma": lambda x: torch.polygamma(2, x),
}
# Where PyTorch is no model: its polygamma of order 1 has nine digits and is what rounding leaves at negative integers,
# hardsigmoid' is 1/6 of f32, logit' outside 0..1 is NaN by decree, softsign' and log_ndtr' at infinity are 0 * inf.
no_gradient = {"digamma", "hardsigmoid"}
points = {"logit": [0.0, -0.0, 1.0, 0.5, nan], "polygamma": [0.0, 1.0, 0.5, -0.5, 2.5, -1.5],
          "softsign": [0.0, -0.0, 1.0, -1.0, 0.5, -2.5], "sinc": [0.0, -0.0, 0.5, 2.5, -1.5, nan],
          "erfcx": [0.0, 1.0, -1.0, 2.5, -1.5, 30.0, -30.0, inf, -inf, nan], "log_ndtr": [0.0, -0.0, 1.0, -1.0, -2.5, -30.0]}
no_integers = {"frac", "celu", "selu", "hardshrink", "softshrink", "hardsigmoid", "hardswish"}
positive = {"logit": (0.05, 0.95), "entr": (0.1, 3), "lgamma": (-3, 4), "digamma": (-3, 4), "polygamma": (-2, 4)}
for name, fn in special_unary.items():
    lo, hi = positive.get(name, (-4, 4))
    order = {"n": 2} if name == "polygamma" else {}
    case(sf, name, {"x": r(2, 4, lo=lo, hi=hi)}, order, lambda x, n=0, fn=fn: fn(x), grad=name not in no_gradient)
    case(sf, name, {"x": torch.tensor(points.get(name, special.tolist()), dtype=f64)}, order, lambda x, n=0, fn=fn: fn(x), grad=name not in no_gradient, note="special points")
    if name not in no_integers:
        case(sf, name, {"x": ints(4, lo=1, hi=5)}, order, lambda x, n=0, fn=fn: fn(x))
for n in [0, 1, 3]:
    case(sf, "polygamma", {"x": r(5, lo=0.2, hi=6)}, {"n": n}, lambda x, n: torch.special.zeta(2.0, x) if n == 1 else torch.polygamma(n, x), grad=n == 3)
case(sf, "logit", {"x": torch.tensor([0.0, 0.1, 0.3, 0.9, 1.0, -1.0], dtype=f64)}, {"eps": 0.1}, lambda x, eps: torch.logit(x, eps), note="bounds")
case(sf, "nan_to_num", {"x": special}, {"nans": 2.0, "posinf": 7.0}, lambda x, nans, posinf: torch.nan_to_num(x, nans, posinf), note="special points")
case(sf, "nan_to_num", {"x": special.to(f16)}, {}, lambda x: torch.nan_to_num(x), grad=False)
case(sf, "nan_to_num", {"x": special.to(torch.bfloat16)}, {}, lambda x: torch.nan_to_num(x), grad=False)
case(sf, "celu", {"x": special}, {"alpha": 2.0}, lambda x, alpha: F.celu(x, alpha), note="special points")
case(sf, "hardshrink", {"x": special}, {"lambd": 1.0}, lambda x, lambd: F.hardshrink(x, lambd), note="special points")
case(sf, "softshrink", {"x": special}, {"lambd": 1.0}, lambda x, lambd: F.softshrink(x, lambd), note="special points")
case(sf, "hardsigmoid", {"x": torch.tensor([-4.0, -3.0, 3.0, 4.0, inf, -inf, nan], dtype=f64)}, {}, lambda x: F.hardsigmoid(x), note="special points")
case(sf, "hardswish", {"x": torch.tensor([-4.0, -3.0, 3.0, 4.0], dtype=f64)}, {}, lambda x: F.hardswish(x), note="special points")
case(sf, "threshold", {"x": special}, {"limit": 0.5, "value": 7.0}, lambda x, limit, value: F.threshold(x, limit, value), note="special points")
case(sf, "threshold", {"x": ints(5)}, {"limit": 1, "value": 3}, lambda x, limit, value: F.threshold(x, limit, value))
case(sf, "prelu", {"x": r(2, 3, 2), "weight": r(3)}, {}, lambda x, weight: F.prelu(x, weight))
case(sf, "prelu", {"x": special, "weight": r(1)}, {}, lambda x, weight: F.prelu(x, weight), note="special points")
case(sf, "prelu", {"x": r(4), "weight": r(1)}, {}, lambda x, weight: F.prelu(x, weight))
case(sf, "prelu", {"x": r(4, 2), "weight": r(1)}, {}, lambda x, weight: F.prelu(x, weight))
case(sf, "glu", {"x": r(2, 6)}, {}, lambda x: F.glu(x))
case(sf, "glu", {"x": r(4, 3)}, {"dim": 0}, lambda x, dim: F.glu(x, dim))

pairs = [(a, b) for a in [0.0, -0.0, 1.0, -1.0, inf, -inf, nan] for b in [0.0, 1.0, -1.0, inf, -inf, nan]]
special_binary = {
    "fmax": torch.fmax, "fmin": torch.fmin, "logaddexp": torch.logaddexp, "logaddexp2": torch.logaddexp2,
    "xlogy": torch.xlogy, "xlog1py": torch.special.xlog1py, "ldexp": torch.ldexp, "nextafter": torch.nextafter,
    "float_power": torch.float_power, "heaviside": torch.heaviside, "isclose": torch.isclose,
}
# PyTorch has no gradient of heaviside. Its xlogy' and xlog1py' at (0, 0) and (0, inf), logaddexp' at two equal
# infinities and pow' at infinities are nan or inf where ours are finite.
values_only = {"xlogy", "xlog1py", "logaddexp", "logaddexp2", "float_power", "heaviside", "isclose"}
for name, fn in special_binary.items():
    lo = 0.2 if name in ("xlogy", "float_power") else -0.9
    if name != "heaviside":
        case(sf, name, {"x": r(2, 1, 3, lo=lo, hi=3), "y": r(4, 1, lo=lo, hi=3)}, {}, lambda x, y, fn=fn: fn(x, y))
    x, y = (torch.tensor(list(t), dtype=f64) for t in zip(*pairs))
    y_name = "values" if name == "heaviside" else "y"
    case(sf, name, {"x": x, y_name: y}, {}, lambda x, fn=fn, **o: fn(x, *o.values()), grad=name not in values_only, note="special points")
for name, fn in {"fmax": torch.fmax, "fmin": torch.fmin, "heaviside": torch.heaviside, "ldexp": torch.ldexp, "xlogy": torch.xlogy, "float_power": torch.float_power}.items():
    y_name = "values" if name == "heaviside" else "y"
    case(sf, name, {"x": ints(5), y_name: ints(5, lo=1)}, {}, lambda x, fn=fn, **o: fn(x, *o.values()))
near = torch.tensor([0.0, 1.0, 1.0, -2.0, 65504.0, inf, -inf, 3.0], dtype=f64), torch.tensor([1.0, 0.0, 2.0, -3.0, inf, 0.0, 0.0, 3.0], dtype=f64)
case(sf, "nextafter", {"x": near[0], "y": near[1]}, {}, lambda x, y: torch.nextafter(x, y))
case(sf, "isclose", {"x": torch.tensor([1.0, 1.0, 100.0, nan, inf], dtype=f64), "y": torch.tensor([1.00001, 1.001, 101.0, nan, inf], dtype=f64)}, {"rtol": 0.0, "atol": 0.01, "equal_nan": True}, lambda x, y, **o: torch.isclose(x, y, **o))
case(sf, "isclose", {"x": ints(6), "y": ints(6)}, {}, lambda x, y: torch.isclose(x, y))
for name, fn in {"bitwise_and": torch.bitwise_and, "bitwise_or": torch.bitwise_or, "bitwise_xor": torch.bitwise_xor}.items():
    case(sf, name, {"x": ints(2, 3, dtype=i32), "y": ints(3)}, {}, lambda x, y, fn=fn: fn(x, y))
    case(sf, name, {"x": torch.tensor([True, True, False, False]), "y": torch.tensor([True, False, True, False])}, {}, lambda x, y, fn=fn: fn(x, y))
case(sf, "bitwise_not", {"x": ints(5)}, {}, lambda x: torch.bitwise_not(x))
case(sf, "bitwise_not", {"x": torch.tensor([True, False])}, {}, lambda x: torch.bitwise_not(x))
case(sf, "bitwise_not", {"x": torch.tensor([0, 255, 7], dtype=u8)}, {}, lambda x: torch.bitwise_not(x))
for name, fn in {"shift_left": torch.bitwise_left_shift, "shift_right": torch.bitwise_right_shift}.items():
    for d in [torch.int8, i32, i64]:
        case(sf, name, {"x": torch.tensor([127, -128, 5, -1, 5, -5, 5, -5], dtype=d), "y": torch.tensor([1, 2, 7, 3, 64, 64, -1, -1], dtype=d)}, {}, lambda x, y, fn=fn: fn(x, y))
    case(sf, name, {"x": torch.tensor([255, 200, 5], dtype=u8), "y": torch.tensor([1, 8, 9], dtype=u8)}, {}, lambda x, y, fn=fn: fn(x, y))
for name, fn in {"gcd": torch.gcd, "lcm": torch.lcm}.items():
    case(sf, name, {"x": torch.tensor([0, 0, -6, 6, 12, 7, -8]), "y": torch.tensor([0, 5, 4, -4, 18, 0, -8])}, {}, lambda x, y, fn=fn: fn(x, y))
    case(sf, name, {"x": torch.tensor([100, 200, -128, 127], dtype=torch.int16), "y": torch.tensor([75, 150, 3, 126], dtype=u8)}, {}, lambda x, y, fn=fn: fn(x, y))
case(sf, "addcmul", {"x": r(2, 3), "a": r(3), "b": r(2, 1)}, {"value": 0.5}, lambda x, a, b, value: torch.addcmul(x, a, b, value=value))
case(sf, "addcmul", {"x": ints(4), "a": ints(4), "b": ints(4)}, {"value": 3}, lambda x, a, b, value: torch.addcmul(x, a, b, value=value))
case(sf, "addcdiv", {"x": r(2, 3), "a": r(3), "b": r(2, 1, lo=0.5)}, {"value": 0.5}, lambda x, a, b, value: torch.addcdiv(x, a, b, value=value))
case(sf, "addcdiv", {"x": r(3), "a": r(3), "b": r(3, lo=0.5)}, {}, lambda x, a, b: torch.addcdiv(x, a, b))
case(sf, "lerp", {"start": r(2, 3), "end": r(3), "weight": r(2, 1, lo=-1, hi=2)}, {}, lambda start, end, weight: torch.lerp(start, end, weight))
case(sf, "lerp", {"start": r(3), "end": r(3), "weight": 0.75}, {}, lambda start, end, weight: torch.lerp(start, end, weight))

# ---------------------------------------------------------------- norms, losses
ls = "losses"
rows_a = torch.tensor([[1.0, -2.0, 2.0], [0.0, 0.0, 0.0], [1.0, 0.0, -1.0]], dtype=f64)
for o in [0, 1, 2, 3, 0.5, inf, -inf, -1.0]:
    case(ls, "vector_norm", {"x": rows_a}, {"ord": float(o), "dims": [1]}, lambda x, ord, dims: torch.linalg.vector_norm(x, ord, dims))
case(ls, "vector_norm", {"x": x3}, {}, lambda x: torch.linalg.vector_norm(x))
case(ls, "vector_norm", {"x": x3}, {"ord": 1.5, "dims": [0, 2], "keepdim": True}, lambda x, ord, dims, keepdim: torch.linalg.vector_norm(x, ord, dims, keepdim=keepdim))
case(ls, "vector_norm", {"x": torch.tensor([300.0, 400.0], dtype=f16)}, {}, lambda x: torch.linalg.vector_norm(x), grad=False)
case(ls, "norm_pow", {"x": r(5, lo=0.1)}, {"p": 1.5}, lambda x, p: x.pow(p))
case(ls, "norm_pow", {"x": torch.tensor([0.0, 2.0, inf, nan], dtype=f64)}, {"p": -1.0}, lambda x, p: x.pow(p), grad=False)
for p in [1.0, 2.0, 3.0]:
    case(ls, "normalize", {"x": r(3, 4)}, {"p": p}, lambda x, p: F.normalize(x, p))
case(ls, "normalize", {"x": rows_a}, {"dim": 0}, lambda x, dim: F.normalize(x, dim=dim))
case(ls, "normalize", {"x": rows_a}, {}, lambda x: F.normalize(x))
rows_b = torch.tensor([[2.0, 1.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], dtype=f64)
for o in [{}, {"p": 1.0, "keepdim": True}, {"p": 3.0, "eps": 0.01}]:
    case(ls, "pairwise_distance", {"x": rows_a, "y": rows_b}, o, lambda x, y, **o: F.pairwise_distance(x, y, **o))
case(ls, "pairwise_distance", {"x": r(2, 1, 4), "y": r(3, 4)}, {}, lambda x, y: F.pairwise_distance(x, y))
case(ls, "cosine_similarity", {"x": rows_a, "y": rows_b}, {}, lambda x, y: F.cosine_similarity(x, y))
case(ls, "cosine_similarity", {"x": r(2, 3, 4), "y": r(3, 1)}, {"dim": -1}, lambda x, y, dim: F.cosine_similarity(x, y, dim))
red3 = [{}, {"reduction": "sum"}, {"reduction": "none"}]
for o in red3:
    a, b = r(2, 3), r(2, 3)
    case(ls, "reduce_loss", {"x": a}, o, lambda x, reduction="mean": {"mean": x.mean(), "sum": x.sum(), "none": x.clone()}[reduction])
    case(ls, "l1_loss", {"x": a, "target": b}, o, lambda x, target, **o: F.l1_loss(x, target, **o))
    case(ls, "mse_loss", {"x": a, "target": b}, o, lambda x, target, **o: F.mse_loss(x, target, **o))
    case(ls, "huber_loss", {"x": a, "target": b}, {"delta": 0.7, **o}, lambda x, target, **o: F.huber_loss(x, target, **o))
    case(ls, "smooth_l1_loss", {"x": a, "target": b}, {"beta": 0.7, **o}, lambda x, target, **o: F.smooth_l1_loss(x, target, **o))
    prob, soft = r(2, 3, lo=0.05, hi=0.95), r(2, 3, lo=0.05, hi=0.95)
    case(ls, "kl_div", {"x": prob.log(), "target": soft}, o, lambda x, target, **o: F.kl_div(x, target, **o))
    case(ls, "kl_div", {"x": prob.log(), "target": soft.log()}, {"log_target": True, **o}, lambda x, target, **o: F.kl_div(x, target, **o))
    case(ls, "binary_cross_entropy", {"x": prob, "target": soft}, o, lambda x, target, **o: F.binary_cross_entropy(x, target, **o))
    case(ls, "binary_cross_entropy", {"x": prob, "target": soft, "weight": r(3, lo=0.5)}, o, lambda x, target, weight, **o: F.binary_cross_entropy(x, target, weight, **o), fixed=["weight"])
    case(ls, "binary_cross_entropy_with_logits", {"x": a, "target": soft}, o, lambda x, target, **o: F.binary_cross_entropy_with_logits(x, target, **o))
    case(ls, "binary_cross_entropy_with_logits", {"x": a, "target": soft, "weight": r(2, 1), "pos_weight": r(3, lo=0.5)}, o, lambda x, target, weight, pos_weight, **o: F.binary_cross_entropy_with_logits(x, target, weight, pos_weight=pos_weight, **o), fixed=["weight", "pos_weight"])
    case(ls, "poisson_nll_loss", {"x": a, "target": r(2, 3, lo=0.5, hi=4)}, {"full": True, **o}, lambda x, target, **o: F.poisson_nll_loss(x, target, **o))
    case(ls, "poisson_nll_loss", {"x": r(2, 3, lo=0.2), "target": r(2, 3, lo=0.5, hi=4)}, {"log_input": False, **o}, lambda x, target, **o: F.poisson_nll_loss(x, target, **o))
    case(ls, "gaussian_nll_loss", {"x": a, "target": b, "var": r(2, 3, lo=0.1)}, o, lambda x, target, var, **o: F.gaussian_nll_loss(x, target, var, **o))
    sign = torch.tensor([[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]], dtype=f64)
    case(ls, "hinge_embedding_loss", {"x": a, "target": sign}, o, lambda x, target, **o: F.hinge_embedding_loss(x, target, **o), fixed=["target"])
    case(ls, "margin_ranking_loss", {"x": a, "y": b, "target": sign}, {"margin": 0.5, **o}, lambda x, y, target, **o: F.margin_ranking_loss(x, y, target, **o))
    case(ls, "soft_margin_loss", {"x": a, "target": sign}, o, lambda x, target, **o: F.soft_margin_loss(x, target, **o), fixed=["target"])
    case(ls, "cosine_embedding_loss", {"x": rows_a, "y": rows_b, "target": torch.tensor([1.0, -1.0, -1.0], dtype=f64)}, {"margin": 0.2, **o}, lambda x, y, target, **o: F.cosine_embedding_loss(x, y, target, **o), fixed=["target"])
    case(ls, "triplet_margin_loss", {"anchor": rows_a, "positive": rows_b, "negative": r(3, 3)}, o, lambda anchor, positive, negative, **o: F.triplet_margin_loss(anchor, positive, negative, **o))
case(ls, "triplet_margin_loss", {"anchor": r(2, 4), "positive": r(2, 4), "negative": r(2, 4)}, {"margin": 2.0, "p": 1.0, "swap": True}, lambda anchor, positive, negative, **o: F.triplet_margin_loss(anchor, positive, negative, **o))
none = {"reduction": "none"}
for d in [{}, {"delta": 0.5}]:
    case(ls, "huber_each", {"x": special}, d, lambda x, **o: F.huber_loss(x, torch.zeros_like(x), reduction="none", **o), note="special points")
case(ls, "smooth_l1_loss", {"x": special, "target": special.flip(0)}, {"beta": 0.0, **none}, lambda x, target, **o: F.smooth_l1_loss(x, target, **o), note="special points")
case(ls, "l1_loss", {"x": special, "target": special.flip(0)}, none, lambda x, target, **o: F.l1_loss(x, target, **o), note="special points")
case(ls, "kl_div", {"x": r(3, 2, lo=-3, hi=0), "target": r(3, 2, lo=0.1, hi=1)}, {"reduction": "batchmean"}, lambda x, target, **o: F.kl_div(x, target, **o))
edges = torch.tensor([0.0, 1.0, 0.0, 1.0, 0.5, 0.2, 1e-50], dtype=f64), torch.tensor([0.0, 1.0, 1.0, 0.0, 0.5, 1.0, 1.0], dtype=f64)
# its bound of 1e-12 under the gradient is one of f32
case(ls, "bce_each", {"x": edges[0], "target": edges[1]}, {}, lambda x, target: F.binary_cross_entropy(x, target, reduction="none"), note="special points", fixed=["x"])
case(ls, "bce_each", {"x": r(4, lo=0.1, hi=0.9), "target": r(4, lo=0, hi=1)}, {}, lambda x, target: F.binary_cross_entropy(x, target, reduction="none"))
far = torch.tensor([0.0, 1.0, -1.0, 100.0, -100.0, inf, -inf, nan, 1000.0], dtype=f64), torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.5], dtype=f64)
case(ls, "bce_logits_each", {"x": far[0], "target": far[1]}, {}, lambda x, target: F.binary_cross_entropy_with_logits(x, target, reduction="none"), note="special points", fixed=["x", "target"])
case(ls, "bce_logits_each", {"x": r(5, lo=-20, hi=20), "target": r(5, lo=0, hi=1), "pos_weight": r(5, lo=0.5)}, {}, lambda x, target, pos_weight: F.binary_cross_entropy_with_logits(x, target, pos_weight=pos_weight, reduction="none"), fixed=["pos_weight"])
case(ls, "poisson_nll_each", {"x": r(5), "target": r(5, lo=0.5, hi=4)}, {"full": True}, lambda x, target, full: F.poisson_nll_loss(x, target, full=full, reduction="none"))
case(ls, "poisson_nll_each", {"x": r(5, lo=0.2), "target": r(5, lo=0.5, hi=4)}, {"log_input": False}, lambda x, target, log_input: F.poisson_nll_loss(x, target, log_input=log_input, reduction="none"))
case(ls, "gaussian_nll_loss", {"x": r(4), "target": r(4), "var": torch.tensor([0.5, 0.0, 1e-6, 1e-7], dtype=f64)}, {"full": True, **none}, lambda x, target, var, **o: F.gaussian_nll_loss(x, target, var, **o))
case(ls, "hinge_embedding_loss", {"x": torch.tensor([0.5, 2.0, 1.0, nan, -1.0, 0.5, 0.5], dtype=f64), "target": torch.tensor([1.0, -1.0, -1.0, -1.0, -1.0, 0.0, 0.3], dtype=f64)}, none, lambda x, target, **o: F.hinge_embedding_loss(x, target, **o), fixed=["target"], note="special points")
case(ls, "margin_ranking_loss", {"x": torch.tensor([0.5, 2.0, 1.0, nan], dtype=f64), "y": torch.tensor([1.0, 1.0, 0.5, 1.0], dtype=f64), "target": torch.tensor([1.0, -1.0, 1.0, 1.0], dtype=f64)}, {"margin": 0.5, **none}, lambda x, y, target, **o: F.margin_ranking_loss(x, y, target, **o), fixed=["target"], note="special points")
for w in [3, 4]:
    case(ls, "channel_power", {"x": r(2, 5, 2)}, {"window": w}, lambda x, window: F.pad(x.square(), (0, 0, window // 2, (window - 1) // 2)).unfold(1, window, 1).sum(-1))
    case(ls, "local_response_norm", {"x": r(2, 5, 2)}, {"window": w, "alpha": 0.5, "beta": 0.7, "k": 2.0}, lambda x, window, **o: F.local_response_norm(x, window, **o))
bags = {"weight": r(4, 2), "indices": torch.tensor([3, 0, 3, 1, 2, 2, 0]), "offsets": torch.tensor([0, 2, 2, 5])}
for n, mode in enumerate(["sum", "mean", "max"]):
    more = {"scale": r(7)} if mode == "sum" else {}
    case(ix, "aten._embedding_bag", {**bags, **more}, {"mode": mode, "padding": 2}, lambda weight, indices, offsets, scale=None, n=n, **o: torch.ops.aten._embedding_bag(weight, indices, offsets, False, n, False, scale, False, o["padding"]))
    if mode != "sum":
        case(ix, "aten._embedding_bag", {**bags, "offsets": torch.tensor([0, 2, 2, 7])}, {"mode": mode, "ended": True}, lambda weight, indices, offsets, n=n, **o: torch.ops.aten._embedding_bag(weight, indices, offsets, False, n, False, None, True))

holes = torch.tensor([[1.0, math.nan, 4.0], [0.5, -2.0, 3.0]], dtype=f64)
for o in [{}, {"dims": [1]}, {"dims": [0], "keepdim": True}]:
    case(red, "nanmean", {"x": holes}, o, lambda x, dims=None, keepdim=False: torch.nanmean(x, dims, keepdim))

# weights there are frequencies, which are integers and have no gradient
spread = torch.tensor([[1.0, 2.5, -4.0], [0.5, -2.0, 3.0]], dtype=f64)
for o in [{}, {"correction": 0.0}]:
    case(red, "covariance", {"x": spread, "weights": torch.tensor([1.0, 2.0, 1.0], dtype=f64)}, o, lambda x, weights, correction=1: torch.cov(x, fweights=weights.detach().long(), correction=int(correction)), fixed=["weights"])

origin = f"made by tests/data/make.py with torch {torch.__version__} on CPU, seed 1337"
for old in HERE.glob("torch-*.json"):
    old.unlink()
total = 0
for family, cases in families.items():
    lines = [json.dumps(c, separators=(",", ":")) for c in cases]
    text = '{"origin":' + json.dumps(origin) + ',"cases":[\n' + ",\n".join(lines) + "\n]}\n"
    (HERE / f"torch-{family}.json").write_text(text)
    total += len(text)
    print(f"{family}: {len(cases)} cases, {len(text)} bytes")
print(sum(map(len, families.values())), "cases,", total, "bytes")
