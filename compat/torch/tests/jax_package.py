"""The package for JAX of examples/torch, where `checks.py` of a package does not look: compositions of transforms, keys,
meshes, symbolic sizes, threads and refusals, with JAX's usual dtypes of 32 bits.

    PYTHONPATH=PACKAGE python compat/torch/tests/jax_package.py
"""

import concurrent.futures
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax
import jax.numpy as jnp
import numpy as np
import ten
from jax import export
from jax.sharding import AxisType, NamedSharding, PartitionSpec

X = jnp.array([[0.5, -1.25, 2.0], [-0.75, 3.0, 0.25]], dtype=jnp.float32)
KEY = jnp.array([7, 0])


def equal(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert x.dtype == y.dtype, (x.dtype, y.dtype)
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=1e-5)


def composite(x):
    return (x + jnp.sqrt(x * x + 4)) / 2


def square(f):
    return lambda x: (f(x) ** 2).sum()


# each is a function of the row or of the composite, which must agree
COMPOSITIONS = {
    "grad": lambda f: jax.grad(square(f))(X),
    "grad of grad": lambda f: jax.grad(square(jax.grad(square(f))))(X),
    "jvp": lambda f: jax.jvp(f, (X,), (2 * X,)),
    "jvp of jvp": lambda f: jax.jvp(lambda x: jax.jvp(f, (x,), (x,))[1], (X,), (X,)),
    "forward over reverse": lambda f: jax.jacfwd(jax.jacrev(square(f)))(X[0]),
    "reverse over forward": lambda f: jax.jacrev(jax.jacfwd(square(f)))(X[0]),
    "forward over forward": lambda f: jax.jacfwd(jax.jacfwd(square(f)))(X[0]),
    "reverse over reverse": lambda f: jax.jacrev(jax.jacrev(square(f)))(X[0]),
    "third order": lambda f: jax.jacfwd(jax.jacrev(jax.jacfwd(square(f))))(X[0]),
    "linearize": lambda f: jax.linearize(f, X)[1](X),
    "linear_transpose": lambda f: jax.linear_transpose(jax.linearize(f, X)[1], X)(X),
    "derivative of a pullback": lambda f: jax.jvp(lambda g: jax.vjp(f, X)[1](g), (X,), (X,)),
    "transpose of a pullback": lambda f: jax.linear_transpose(lambda g: jax.vjp(f, X)[1](g)[0], X)(X),
    "batch of pullbacks": lambda f: jax.vmap(jax.vjp(f, X)[1])(jnp.stack([X, 2 * X])),
    "batch of batches": lambda f: jax.vmap(jax.vmap(jax.grad(f)), in_axes=1, out_axes=1)(X),
    "gradient of a batch of gradients": lambda f: jax.grad(lambda x: square(jax.vmap(jax.grad(square(f))))(x))(X),
    "scan": lambda f: jax.grad(lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, length=3)[0].sum())(X),
    "checkpoint": lambda f: jax.grad(lambda x: jax.checkpoint(lambda x: f(f(x)))(x).sum())(X),
    "no batch": lambda f: jax.vmap(f)(X[:0]),
}


def test_compositions():
    for name, composition in COMPOSITIONS.items():
        try:
            equal(composition(ten.squareplus), composition(composite))
            equal(jax.jit(lambda: composition(ten.squareplus))(), composition(composite))
        except Exception as e:
            raise AssertionError(name) from e


def test_without_jit():
    with jax.disable_jit():
        equal(jax.vmap(jax.grad(square(ten.squareplus)))(X), jax.grad(square(composite))(X))


def test_several_arguments():
    def blend(x, y, w):
        return w * x + (1 - w) * y

    args = X, X[0] + 1, jnp.float32(0.25)
    for of in [(0,), (1,), (2,), (0, 2), (0, 1, 2)]:
        total = lambda f: lambda *args: (f(*args) ** 3).sum()
        equal(jax.grad(total(ten.blend), of)(*args), jax.grad(total(blend), of)(*args))
        equal(jax.hessian(total(ten.blend), of)(*args), jax.hessian(total(blend), of)(*args))
    axes = (0, None, None)
    batched = lambda f: jax.grad(lambda *args: (jax.vmap(f, axes)(*args) ** 2).sum(), (0, 1, 2))(*args)
    equal(batched(ten.blend), batched(blend))
    # tangents that are not batched, in a program that is linear in them
    pushed = lambda f: jax.vmap(lambda x: jax.jvp(f, (x, args[1], args[2]), (args[1], x, args[2]))[1])(X)
    equal(pushed(ten.blend), pushed(blend))
    # one of two results, and an integer argument
    low = lambda x: x.min(1)
    equal(jax.grad(square(lambda x: ten.extent(x, 1)[0]))(X), jax.grad(square(low))(X))
    index = jnp.array([[0, 9], [2, -1]])
    equal(jax.grad(square(lambda x: ten.take_or_zero(x, index, 1)))(X), jnp.array([[1.0, 0, 0], [0, 0, 0.5]], "float32"))
    equal(jax.grad(lambda x: jnp.where(ten.same_sign(x, x), x, 0).sum())(X), jnp.ones_like(X))


def test_keys():
    draw = lambda x, key: ten.jitter(x, key)
    equal(draw(X, KEY), draw(X, np.array([7, 0])))
    assert (draw(X, KEY) != draw(X, jnp.array([8, 0]))).all()
    keys = jnp.array([[7, 0], [8, 0]])
    equal(jax.vmap(draw, (0, None))(X, KEY), jnp.stack([draw(x, KEY) for x in X]))
    each = jnp.stack([draw(x, key) for x, key in zip(X, keys)])
    equal(jax.vmap(draw)(X, keys), each)
    equal(jax.vmap(jax.grad(lambda x, key: (draw(x, key) ** 2).sum()))(X, keys), 2 * each)
    equal(jax.grad(lambda x: (jax.vmap(draw)(x, keys) ** 2).sum())(X), 2 * each)


def test_integers_of_64_bits_are_narrow():
    # no row of the example gives i64, but the library has the rows of fulgurite too
    call = lambda x: ten._rows.call("argmax", "Tl", x, [0])[0]
    made = call(X[0])
    assert made.dtype == jnp.int32 and made == 2, made
    jax.config.update("jax_enable_x64", True)
    assert call(X[0]).dtype == jnp.int64
    jax.config.update("jax_enable_x64", False)


def test_meshes():
    mesh = jax.make_mesh((2,), ("a",), axis_types=(AxisType.Auto,))
    rows, all = PartitionSpec("a"), PartitionSpec()
    for check in (False, True):
        on = lambda f, specs: jax.shard_map(f, mesh=mesh, in_specs=specs, out_specs=rows, check_vma=check)
        mapped = on(ten.squareplus, rows)
        equal(mapped(X), ten.squareplus(X))
        equal(jax.grad(square(mapped))(X), jax.grad(square(ten.squareplus))(X))
        # an argument that every device has, so its gradient is a sum over devices
        weighted = lambda x, w: ten.blend(x, 2 * x, w)
        mapped = on(weighted, (rows, all))
        equal(jax.grad(square(lambda w: mapped(X, w)))(X[0]), jax.grad(square(lambda w: weighted(X, w)))(X[0]))
    sharded = jax.device_put(X, NamedSharding(mesh, rows))
    equal(jax.jit(ten.squareplus)(sharded), ten.squareplus(X))
    explicit = jax.make_mesh((2,), ("a",))
    equal(jax.jit(ten.squareplus)(jax.device_put(X, NamedSharding(explicit, rows))), ten.squareplus(X))


def test_exported_programs_have_symbolic_sizes():
    allowed = [export.DisabledSafetyCheck.custom_call("ten.fulgurite")]
    (a,) = export.symbolic_shape("a", constraints=["a >= 3"])
    kept = lambda f, *shapes: export.export(jax.jit(f), disabled_checks=allowed)(
        *(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes)
    )
    f = lambda x: jax.grad(lambda x: (ten.windows_mean(x, 2) ** 2).sum())(x)
    program = kept(f, (a,))
    equal(program.call(X[0]), f(X[0]))
    equal(program.call(X.ravel()), f(X.ravel()))
    assert str(kept(lambda x: ten.windows_mean(x, 2), (a,)).out_avals[0].shape) == "(a - 1,)"
    b, c = export.symbolic_shape("b, c")
    says("the sizes must satisfy (b) == (c)", kept, ten.blend, (b,), (c,))
    program = kept(lambda x, y: ten.blend(x, y, 0.5), (b,), (b,))
    equal(program.call(X[0], X[1]), (X[0] + X[1]) / 2)


def test_threads():
    total = jax.jit(lambda x: ten.energy(x, 1))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for made in pool.map(lambda _: total(X), range(200)):
            equal(made, (X * X).sum(1))


def says(text, f, *args):
    """The function refuses its arguments with a text."""
    try:
        made = f(*args)
    except RuntimeError as e:
        assert text in str(e), str(e)
        return
    raise AssertionError(f"{text}: {made}")


def test_refusals():
    says("width must lie in 1..=L [E705]", ten.windows_mean, X, 9)
    says("width must lie in 1..=L [E705]", jax.jit(lambda x: ten.windows_mean(x, 9)), X)
    says("width must lie in 1..=L [E705]", jax.vmap(jax.grad(lambda x: ten.windows_mean(x, 9).sum())), X)
    says("extent needs at least one element", ten.extent, X[:, :0], 1)
    says("do not broadcast", ten.blend, X, X[:, :2])
    says("does not take u32 [E703]", ten.squareplus, X.astype("uint32"))
    says("a size must be known when a call is traced", jax.jit(ten.windows_mean), X, 2)
    says("a key is a tensor i64[2]", ten.jitter, X, jnp.array([7]))
    says("it must be one of line, curve", ten.bend, X, "spiral")


if __name__ == "__main__":
    tests = {name: test for name, test in globals().items() if name.startswith("test_")}
    for test in tests.values():
        test()
    print(f"{len(tests)} tests passed")
