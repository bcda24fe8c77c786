"""The checks of an operator: what JAX's own tools say, and every way of running it against a plain call."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.test_util import check_grads

jax.config.update("jax_enable_x64", True)

_DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32", "i16": "int16",
    "i8": "int8", "u8": "uint8", "bool": "bool", "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
    "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0fnu": "float8_e8m0fnu", "u16": "uint16",
    "u32": "uint32", "u64": "uint64",
}


def dtype(name):
    return jnp.dtype(_DTYPES[name])


def t(name, shape, elements):
    """An array of a call."""
    exact = "float64" if name.startswith(("f", "bf")) else "int64"
    return jnp.asarray(np.array(elements, dtype=exact).reshape(shape)).astype(dtype(name))


class Facts:
    """What a row says of its derivatives."""

    def __init__(self, differentiable, once):
        self.differentiable, self.once = differentiable, once


def _is_float(x):
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.floating)


def _arrays(call, chosen):
    """The arrays of a call that are chosen, and a function that puts others in their places."""
    leaves, tree = jax.tree.flatten(call)
    places = [i for i, x in enumerate(leaves) if chosen(x)]

    def put(arrays):
        made = list(leaves)
        for place, array in zip(places, arrays, strict=True):
            made[place] = array
        return jax.tree.unflatten(tree, made)

    return [leaves[i] for i in places], put


def _results(made):
    return list(made) if isinstance(made, (list, tuple)) else [made]


def _equal(a, b, what):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype, f"{what}: {x.dtype}{x.shape} is not {y.dtype}{y.shape}"
        x, y = (np.asarray(v).astype("float64" if _is_float(v) else v.dtype) for v in (x, y))
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-9, err_msg=what)


def check(package, function, facts, call):
    """Yields the name of each check that failed, with the reason."""

    def attempt(name, f):
        try:
            f()
        except Exception as e:
            yield name, f"{type(e).__name__}: {str(e)[:2000]}"

    every, put = _arrays(call, lambda x: isinstance(x, jax.Array))
    floats, put_floats = _arrays(call, _is_float)

    def of_arrays(*arrays):
        return _results(function(**put(arrays)))

    def of_floats(*arrays):
        return _results(function(**put_floats(arrays)))

    plain = of_arrays(*every)
    types = [(y.shape, y.dtype) for y in plain]

    def shaped():
        _equal_lists([(y.shape, y.dtype) for y in jax.eval_shape(of_arrays, *every)], types)

    yield from attempt("types", shaped)
    yield from attempt("jit", lambda: _equal(jax.jit(of_arrays)(*every), plain, "jit"))

    def exported():
        allowed = [export.DisabledSafetyCheck.custom_call(package._rows.target)]
        _equal(export.export(jax.jit(of_arrays), disabled_checks=allowed)(*every).call(*every), plain, "export")

    yield from attempt("export", exported)
    if every:
        twice, stacked = [jnp.stack([x, x]) for x in every], [jnp.stack([y, y]) for y in plain]
        yield from attempt("vmap", lambda: _equal(jax.vmap(of_arrays)(*twice), stacked, "vmap"))

        def refused():
            try:
                function(**put([every[0].astype("complex64"), *every[1:]]))
            except RuntimeError as e:
                assert "rows do not take the dtype complex64 [E702]" in str(e), str(e)
                return
            raise AssertionError("an array of complex numbers is taken")

        yield from attempt("refusal", refused)
    smooth = facts.differentiable and floats and all(x.dtype == jnp.float64 for x in floats)
    outs = [y.dtype for y in plain if _is_float(y)]
    if smooth and outs and all(dtype == jnp.float64 for dtype in outs):
        def smooth_results(*arrays):
            return [y for y in of_floats(*arrays) if _is_float(y)]

        def total(*arrays):
            return sum((y * y).sum() for y in smooth_results(*arrays))

        of = tuple(range(len(floats)))
        order = 1 if facts.once else 2
        # the differences are taken close by, because a third derivative may be large and a kink near
        near = dict(eps=1e-5, atol=1e-4, rtol=1e-3)
        yield from attempt("check_grads", lambda: check_grads(smooth_results, floats, order, modes=["fwd", "rev"], **near))
        gradient = jax.grad(total, of)(*floats)
        yield from attempt("jit of grad", lambda: _equal(jax.jit(jax.grad(total, of))(*floats), gradient, "jit(grad)"))
        twice, stacked = [jnp.stack([x, x]) for x in floats], [jnp.stack([g, g]) for g in gradient]
        yield from attempt("vmap of grad", lambda: _equal(jax.vmap(jax.grad(total, of))(*twice), stacked, "vmap(grad)"))
        tangents = [jnp.ones_like(x) for x in floats]

        def sums():
            pushed = jax.jvp(total, floats, tangents)[1]
            _equal(pushed, sum((g.sum() for g in gradient), jnp.zeros(())), "forward and reverse mode")

        yield from attempt("jvp", sums)


def _equal_lists(a, b):
    assert a == b, f"{a} is not {b}"


def failures(package, name, facts, calls, compiled=False, shapes=0):
    """The checks of these calls of an operator that failed. All are compiled, and types are those of the kernels, so the
    options change nothing."""
    for call in calls:
        yield from check(package, getattr(package, name), facts, call)
    # compiled functions of hundreds of rows would take gigabytes
    jax.clear_caches()


def failures_of_all(package, calls):
    """The checks of the package as a whole that failed: there are none."""
    return ()
