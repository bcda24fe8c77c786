"""The checks of an operator: what PyTorch's own tools say, and every way of running it against a plain call."""

import contextlib
import inspect
import random
import typing
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.utils.data
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves

_DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
    "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool,
    "f8e4m3fn": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2, "f8e4m3fnuz": torch.float8_e4m3fnuz,
    "f8e5m2fnuz": torch.float8_e5m2fnuz, "f8e8m0fnu": torch.float8_e8m0fnu, "u16": torch.uint16, "u32": torch.uint32,
    "u64": torch.uint64,
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


def _tensors(call, wanted=torch.is_floating_point):
    """The tensors of a call that are wanted, and a function of them."""
    places = []
    for name, value in call.items():
        for at, item in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(item, torch.Tensor) and wanted(item):
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


def _equal(a, b, what, rtol=1e-6, atol=1e-9):
    for x, y in zip(_results(a), _results(b), strict=True):
        torch.testing.assert_close(x, y, rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"{what}: {m}")


def _memory(function, put, floats, call, plain):
    """Checks that a call changes neither its arguments nor an earlier result."""
    tensors, _ = _tensors(call, lambda x: True)
    before, made = [x.clone() for x in tensors], [y.clone() for y in _results(plain)]
    others = put([(x.double() + 1).to(x.dtype) for x in floats])
    for _ in range(3):
        with contextlib.suppress(RuntimeError):  # the row may refuse these numbers
            function(**others)
    for x, y in zip([*tensors, *_results(plain)], [*before, *made], strict=True):
        assert torch.equal(x.view(-1).view(torch.uint8), y.view(-1).view(torch.uint8)), "a call wrote to memory of another"


def _threads(function, call, plain):
    """Checks calls on four threads at once."""
    with ThreadPoolExecutor(4) as pool:
        for made in [pool.submit(function, **call) for _ in range(8)]:
            _equal(made.result(timeout=60), plain, "threads")


class _Calls(torch.utils.data.Dataset):
    """The results of a call, each made in a worker."""

    def __init__(self, function, call):
        self.function, self.call = function, call

    def __len__(self):
        return 4

    def __getitem__(self, i):
        return _results(self.function(**self.call))


def check_workers(function, call):
    """Checks a call in two forked workers, which PyTorch starts after this process has run kernels."""
    plain = _results(function(**call))
    workers = torch.utils.data.DataLoader(_Calls(function, call), batch_size=None, num_workers=2, timeout=60)
    for made in workers:
        _equal(made, plain, "workers")


def _refusal(f):
    """The first line of the text with which a call is refused."""
    try:
        f()
    except RuntimeError as e:
        return str(e).split("\n")[0]
    return "no refusal"


def _wrong_words(function):
    """The options that take some words: the name of each, its words, and another word."""
    for name, hint in typing.get_type_hints(function).items():
        for of in (hint, *typing.get_args(hint)):
            if typing.get_origin(of) is typing.Literal:
                words = typing.get_args(of)
                yield name, words, "no_such_word"
                yield name, words, words[0] + "\0"


def _words(function, call):
    """Checks that a word which an option does not take is refused with one text, which names what it takes."""
    for name, words, other in _wrong_words(function):
        wrong = {**call, name: other}
        said = _refusal(lambda: function(**wrong))
        assert all(word in said for word in (name, other.replace("\0", " "), *words)), said
        tensors, put = _tensors(wrong, lambda x: True)
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            fake = _refusal(lambda: function(**put([mode.from_tensor(x) for x in tensors])))
        assert fake == said, f"real {said}, fake {fake}"


def _complex(function, floats, put):
    """Checks that complex tensors, which no row takes, are refused with one text, which names the dtype."""
    wrong = [x.to(torch.complex64) for x in floats]
    said = _refusal(lambda: function(**put(wrong)))
    assert "complex64" in said, said
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = _refusal(lambda: function(**put([mode.from_tensor(x) for x in wrong])))
    assert fake == said, f"real {said}, fake {fake}"


def _decomposed(f, floats, expected):
    """Checks the operators that PyTorch's compilers see against the kernel."""
    exact = all(x.dtype == torch.float64 for x in [*floats, *_results(expected)])
    made = make_fx(f, tracing_mode="fake", _allow_non_fake_inputs=True)(*floats)(*floats)
    _equal(made, expected, "decomposition", *((1e-9, 1e-12) if exact else ()))


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
    # an argument that the schema gives no default is not left out; the Python function may have one
    defaults = {name: p.default for name, p in inspect.signature(function).parameters.items() if p.default is not p.empty}
    needed = {a.name: defaults.get(a.name) for a in operator._schema.arguments if not a.has_default_value()}
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

        def jacobians():
            forward, reverse = (jac(of_floats, every)(*floats) for jac in (torch.func.jacfwd, torch.func.jacrev))
            _equal(tree_leaves(forward), tree_leaves(reverse), "jacfwd against jacrev")
            if not facts.once:
                mixed, reverse = torch.func.hessian(total)(*floats), torch.func.jacrev(torch.func.jacrev(total))(*floats)
                large = max([1.0, *(y.abs().max().item() for y in _results(reverse) if y.numel())])
                _equal(mixed, reverse, "hessian against jacrev of jacrev", atol=1e-8 * large)

        yield from attempt("jacobians", jacobians)
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
    yield from attempt("words", lambda: _words(function, call))
    if floats:
        yield from attempt("complex tensors", lambda: _complex(function, floats, put))
    yield from attempt("memory", lambda: _memory(function, put, floats, call, plain))
    yield from attempt("threads", lambda: _threads(function, call, plain))
    if floats:
        yield from attempt("decomposition", lambda: _decomposed(lambda *xs: _results(function(**put(xs))), floats, plain))
        if smooth:
            def gradient(*tensors):
                outs, pull = torch.func.vjp(of_floats, *tensors)
                return list(pull(tuple(torch.ones_like(out) for out in outs)))

            expected = gradient(*floats)
            yield from attempt("decomposition of the gradient", lambda: _decomposed(gradient, floats, expected))
    if floats:
        twice = [torch.stack([x, x]) for x in floats]
        stacked = [torch.stack([y, y]) for y in _results(plain)]

        def one(*tensors):
            return tuple(_results(function(**put(tensors))))

        yield from attempt("vmap", lambda: _equal(torch.func.vmap(one)(*twice), stacked, "vmap"))


def check_compiled(function, facts, call):
    """Like `check`, for compilers, which take seconds."""
    given, put = _tensors(call, lambda x: True)
    plain = function(**call)

    def one(*tensors):
        return tuple(y * 1 for y in _results(function(**put(tensors))))

    expected = [y * 1 for y in _results(plain)]

    def compiled():
        torch._dynamo.reset()
        _equal(torch.compile(one, fullgraph=True, dynamic=True, backend="aot_eager")(*given), expected, "compile")

    class Model(torch.nn.Module):
        def forward(self, *tensors):
            return one(*tensors)

    def exported():
        sizes = (tuple({axis: torch.export.Dim.AUTO for axis in range(x.dim())} for x in given),)
        program = torch.export.export(Model(), tuple(given), dynamic_shapes=sizes)
        _equal(program.module()(*given), expected, "export")
        _equal(program.run_decompositions().module()(*given), expected, "decomposed export")

    def words():
        for name, _, other in _wrong_words(function):
            def call_of(*tensors):
                return function(**{**put(tensors), name: other})

            said = _refusal(lambda: call_of(*given))
            torch._dynamo.reset()
            try:
                torch.compile(call_of, fullgraph=True, backend="aot_eager")(*given)
            except Exception as e:
                assert said in str(e), f"{said} is not in {e}"
            else:
                raise AssertionError("no refusal")

    if not given:
        return  # a program of no tensors is no model
    for name, f in (("compile", compiled), ("export", exported), ("compiled words", words)):
        try:
            f()
        except Exception as e:
            yield name, f"{type(e).__name__}: {str(e)[:2000]}"


def _resized(x, axis, size):
    """The tensor with another size along an axis, made of its own elements."""
    at = torch.arange(size) % max(x.shape[axis], 1)
    return x.index_select(axis, at) if x.shape[axis] else x.new_zeros((*x.shape[:axis], size, *x.shape[axis + 1 :]))


def check_shapes(function, call, count):
    """The types and refusals of fake tensors against those of real ones, on calls with other sizes."""
    drawn = random.Random(0)
    for _ in range(count):
        tensors, put = _tensors(call, lambda x: True)
        sizes = sorted({n for x in tensors for n in x.shape})
        for _ in range(drawn.randint(1, 2) if sizes else 0):
            # a size that several axes share mostly stays shared; otherwise the row will refuse
            old, new = drawn.choice(sizes), drawn.choice((0, 1, 2, 3, 5, 8))
            alone = drawn.random() < 0.3
            places = [(i, axis) for i, x in enumerate(tensors) for axis, n in enumerate(x.shape) if n == old]
            for i, axis in places and [drawn.choice(places)] if alone else places:
                tensors[i] = _resized(tensors[i], axis, new)
        said = []
        for fake in (False, True):
            with FakeTensorMode(allow_non_fake_inputs=True) if fake else contextlib.nullcontext() as mode:
                try:
                    made = _results(function(**put([mode.from_tensor(x) if fake else x for x in tensors])))
                    said.append([(y.dtype, tuple(y.shape), y.stride()) for y in made])
                except RuntimeError as e:
                    said.append(str(e))
        real, fake = said
        # an element that the row refuses is known to the kernel alone
        if real != fake and not (isinstance(real, str) and any(code in real for code in _OF_ELEMENTS)):
            yield "fake", f"sizes {[tuple(x.shape) for x in tensors]}: real {real}, fake {fake}"
            return


_OF_ELEMENTS = ("[E705]", "[E804]", "[E805]")


def failures(package, name, facts, calls, compiled=False, shapes=30):
    """The checks of these calls of an operator that failed."""
    function, operator = getattr(package, name), getattr(package._ops, name)
    for call in calls:
        yield from check(function, operator, facts, call)
        if compiled:
            yield from check_compiled(function, facts, call)
        yield from check_shapes(function, call, shapes // len(calls))


def failures_of_all(package, calls):
    """The checks of the package as a whole that failed."""
    name, (_, drawn) = next((name, given) for name, given in calls.items() if given[1])
    try:
        check_workers(getattr(package, name), drawn[0])
    except Exception as e:
        yield "workers", f"{type(e).__name__}: {e}"
