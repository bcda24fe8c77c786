"""The checks of an operator: what PyTorch's own tools say, and every way of running it against a plain call."""

import torch

_DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
    "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool,
    "f8e4m3fn": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2,
}


def dtype(name):
    return _DTYPES[name]


def t(name, shape, elements):
    """A tensor of a call."""
    exact = torch.float64 if name.startswith(("f", "bf")) else torch.int64
    return torch.tensor(elements, dtype=exact).reshape(shape).to(_DTYPES[name])


class Facts:
    """What a row says of its derivatives, and its class of autocast."""

    def __init__(self, differentiable, once, autocast):
        self.differentiable, self.once, self.autocast = differentiable, once, autocast


def _tensors(call):
    """The float tensors of a call, and a function of them."""
    places = []
    for name, value in call.items():
        for at, item in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(item, torch.Tensor) and item.is_floating_point():
                places.append((name, at, item))

    def put(tensors):
        made = {name: list(value) if isinstance(value, list) else value for name, value in call.items()}
        for (name, at, _), tensor in zip(places, tensors):
            if at is None:
                made[name] = tensor
            else:
                made[name][at] = tensor
        return made

    return [item for _, _, item in places], put


def _results(made):
    return list(made) if isinstance(made, (list, tuple)) else [made]


def _equal(a, b, what):
    for x, y in zip(_results(a), _results(b), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-6, atol=1e-9, equal_nan=True, msg=lambda m: f"{what}: {m}")


def check(function, operator, facts, call):
    """Yields the name of each check that failed, with the reason."""

    def attempt(name, f):
        try:
            f()
        except Exception as e:
            yield name, f"{type(e).__name__}: {str(e)[:2000]}"

    floats, put = _tensors(call)
    plain = function(**call)
    smooth = facts.differentiable and floats and all(x.dtype == torch.float64 for x in floats)
    outs = [y.dtype for y in _results(plain) if y.is_floating_point()]
    smooth = smooth and outs and all(dtype == torch.float64 for dtype in outs)
    # an argument that the schema gives no default is not left out
    needed = {a.name: None for a in operator._schema.arguments if not a.has_default_value()}
    tensors = {a.name for a in operator._schema.arguments if "Tensor" in str(a.type) and "List" not in str(a.type)}

    def leaves():
        return [x.clone().requires_grad_(bool(smooth)) for x in floats]

    # PyTorch compares results before and after, which it can't for 8 bit floats
    eight = any(isinstance(v, torch.Tensor) and v.is_floating_point() and v.element_size() == 1 for v in call.values())
    for test in ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")[eight:]:
        given = {**needed, **put(leaves())}
        given = {name: torch.tensor(x) if name in tensors and isinstance(x, (int, float)) else x for name, x in given.items()}
        yield from attempt(test, lambda: torch.library.opcheck(operator, (), given, test_utils=test))
    if smooth:
        def of_floats(*tensors):
            made = [y for y in _results(function(**put(tensors))) if y.is_floating_point()]
            return tuple(made)

        grad = dict(check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True)
        yield from attempt("gradcheck", lambda: torch.autograd.gradcheck(of_floats, leaves(), **grad))
        if not facts.once:
            yield from attempt("gradgradcheck", lambda: torch.autograd.gradgradcheck(of_floats, leaves()))

        def total(*tensors):
            return sum((y * y).sum() for y in of_floats(*tensors))

        every = tuple(range(len(floats)))
        expected = torch.autograd.grad(total(*(given := leaves())), given, allow_unused=True, materialize_grads=True)
        yield from attempt("func.grad", lambda: _equal(torch.func.grad(total, every)(*floats), expected, "func.grad"))
        twice = [torch.stack([x, x]) for x in floats]
        batched = [torch.stack([g, g]) for g in expected]
        yield from attempt(
            "vmap of grad", lambda: _equal(torch.func.vmap(torch.func.grad(total, every))(*twice), batched, "vmap(grad)")
        )
    if floats and all(x.dtype == torch.float64 for x in floats):
        narrow = [x.float() for x in floats]
        lower = torch.bfloat16 if facts.autocast == "lower" else torch.float32

        def in_region():
            try:
                expected = _results(function(**put([x.to(lower) for x in narrow])))
            except RuntimeError:
                return  # the row takes no narrow floats here
            with torch.autocast("cpu", dtype=torch.bfloat16):
                made = _results(function(**put(narrow)))
            assert [y.dtype for y in made] == [y.dtype for y in expected], [y.dtype for y in made]
            _equal(made, expected, "autocast")

        yield from attempt("autocast", in_region)
    if floats:
        twice = [torch.stack([x, x]) for x in floats]
        stacked = [torch.stack([y, y]) for y in _results(plain)]

        def one(*tensors):
            return tuple(_results(function(**put(tensors))))

        yield from attempt("vmap", lambda: _equal(torch.func.vmap(one)(*twice), stacked, "vmap"))


def check_compiled(function, facts, call):
    """Like `check`, for compilers, which take seconds."""
    floats, put = _tensors(call)
    plain = function(**call)

    def one(*tensors):
        return tuple(y * 1 for y in _results(function(**put(tensors))))

    expected = [y * 1 for y in _results(plain)]

    def compiled():
        torch._dynamo.reset()
        _equal(torch.compile(one, fullgraph=True, dynamic=True, backend="aot_eager")(*floats), expected, "compile")

    class Model(torch.nn.Module):
        def forward(self, *tensors):
            return one(*tensors)

    def exported():
        sizes = (tuple({axis: torch.export.Dim.AUTO for axis in range(x.dim())} for x in floats),)
        program = torch.export.export(Model(), tuple(floats), dynamic_shapes=sizes)
        _equal(program.module()(*floats), expected, "export")

    for name, f in (("compile", compiled), ("export", exported)):
        try:
            f()
        except Exception as e:
            yield name, f"{type(e).__name__}: {str(e)[:2000]}"


def failures(package, name, facts, calls, compiled=False):
    """The checks of these calls of an operator that failed."""
    function, operator = getattr(package, name), getattr(package._ops, name)
    for call in calls:
        yield from check(function, operator, facts, call)
        if compiled:
            yield from check_compiled(function, facts, call)
