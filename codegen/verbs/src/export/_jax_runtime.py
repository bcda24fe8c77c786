"""Operators of a database for JAX: everything that is the same for every operator.

The library of the package knows rows. This module has one primitive of JAX, which runs a program of the library; a row
with its options is a program, and so are its derivatives and batches:

    abstract_eval   the types of results, solved by the library
    lowering        a call of the library's handler by XLA
    batching        {"vmap": P}
    jvp             {"jvp": P}, which is linear in its tangents
    transpose       {"vjp": P}, which is linear in its cotangents, for {"jvp": P}; and {"jvp": P} for {"vjp": P}

So a derivative has derivatives and batches like any row, of every order and in both modes.
"""

import functools
import json
import operator

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import NamedSharding, PartitionSpec

from ._library import Library, argument, keys_of

_DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "u8": "uint8", "bool": "bool",
    "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0fnu": "float8_e8m0fnu", "u16": "uint16",
    "u32": "uint32", "u64": "uint64",
}
_NAMES = {jnp.dtype(dtype): name for name, dtype in _DTYPES.items()}


def _name(dtype):
    """The name of a dtype for the library, which refuses those that rows do not take."""
    try:
        dtype = jnp.dtype(dtype)
    except TypeError:
        pass  # a dtype that NumPy does not have, such as that of `jax.random.key`
    return _NAMES.get(dtype) or str(dtype)


def _dtype(name):
    """The dtype of a result: i64 becomes i32 where JAX has no 64-bit dtypes, and the library checks that the elements fit."""
    if name not in _DTYPES:
        raise RuntimeError(f"the row gives {name}, which JAX does not have [E702]\n  help: use the row from Rust")
    if jax.config.jax_enable_x64:
        return jnp.dtype(_DTYPES[name])
    if name == "f64":
        raise RuntimeError(
            "the row gives f64, which JAX has only where 64-bit dtypes are enabled [E702]\n"
            '  help: call `jax.config.update("jax_enable_x64", True)` first'
        )
    return jnp.dtype("int32" if name == "i64" else _DTYPES[name])


def _size(n):
    try:
        return operator.index(n)
    except Exception:
        raise RuntimeError(
            f"a size must be known when a call is traced, got {n} [E702]\n"
            "  help: pass an `int`, for example through `static_argnums` of `jax.jit`"
        ) from None


class _Symbols(dict):
    """What the text of a symbolic size may name: functions, and symbols, each of which is some size."""

    def __missing__(self, name):
        return 8191


def _hint(n):
    """Some value of a symbolic size of `jax.export`; sizes of the same symbols have values that fit together."""
    functions = {"floordiv": operator.floordiv, "mod": operator.mod, "max": max, "min": min}
    return eval(str(n), {}, _Symbols(functions))


def _ints(value):
    """A single integer is a list of one."""
    return [_size(n) for n in value] if isinstance(value, (list, tuple)) else [_size(value)]


# from a Python argument to that of a program, by the letter of its kind
_CONVERT = {
    "T": jnp.asarray, "K": jnp.asarray, "X": lambda xs: [jnp.asarray(x) for x in xs], "F": float, "I": _size, "Z": _size, "B": bool,
    "S": str, "L": _ints, "R": _ints, "M": _ints, "D": lambda dtype: dtype,
    "N": lambda x: x if isinstance(x, (bool, int)) else float(x),
}


class Operators:
    """The rows of a package: `name` is that of the package, `path` that of its library."""

    def __init__(self, name, path):
        self.library = Library(path)
        self.target = f"{name}.fulgurite"
        jax.ffi.register_ffi_target(self.target, jax.ffi.pycapsule(self.library.functions.fulgurite_jax_call), platform="cpu")
        self.primitive = primitive = Primitive(f"{name}_program")
        primitive.multiple_results = True
        self._known_types = functools.lru_cache(4096)(self._types)
        self._jitted = functools.lru_cache(4096)(self._jitted)
        primitive.def_impl(self._run)
        primitive.def_abstract_eval(self._abstract)
        mlir.register_lowering(primitive, self._lowered, platform="cpu")
        batching.primitive_batchers[primitive] = self._batched
        ad.primitive_jvps[primitive] = self._jvp
        ad.primitive_transposes[primitive] = self._transposed

    def call(self, row, letters, *args):
        """The results of a row, as a list."""
        tensors, sizes = [], []
        args = [
            None if value is None and letter.islower() else _CONVERT[letter.upper()](value)
            for letter, value in zip(letters, args)
        ]
        words = [argument(letter, value, tensors, sizes, _name) for letter, value in zip(letters, args)]
        return self._bind({"row": row, "args": words}, sizes, tensors)

    def _bind(self, program, sizes, tensors):
        axes = frozenset().union(*(_varying(t) for t in tensors))
        if axes:
            # inside of `jax.shard_map` all tensors vary along the same axes of the mesh
            tensors = [jax.lax.pcast(t, tuple(axes - _varying(t)), to="varying") if axes - _varying(t) else t for t in tensors]
        return self.primitive.bind(*tensors, program=json.dumps(program), sizes=tuple(sizes))

    def _run(self, *tensors, **program):
        # outside of a trace, a call is compiled also where `jax.jit` is switched off
        with jax.disable_jit(False):
            return self._jitted(**program)(*tensors)

    def _jitted(self, **program):
        return jax.jit(functools.partial(self.primitive.bind, **program))

    def _types(self, program, sizes, tensors):
        def require(holds, text):
            if not holds:
                raise RuntimeError(f"{text} [E702]")

        return self.library.types(json.loads(program), tensors, sizes, _hint, require)

    def _abstract(self, *tensors, program, sizes):
        types = tuple((_name(t.dtype), t.shape) for t in tensors)
        known = all(isinstance(n, int) for _, shape in types for n in shape)
        # symbols of two exports can't be compared, so they are no keys of a cache
        solve = self._known_types if known else self._types
        found = []
        for dtype, shape in solve(program, sizes, types):
            place = {}
            if tensors and not tensors[0].sharding.mesh.empty:
                # a result is whole on every device of the mesh, and varies where the tensors do
                mesh = tensors[0].sharding.mesh
                place["sharding"] = NamedSharding(mesh, PartitionSpec(*[None] * len(shape)))
                place["manual_axis_type"] = tensors[0].manual_axis_type
            found.append(ShapedArray(tuple(shape), _dtype(dtype), **place))
        return found

    def _lowered(self, ctx, *operands, program, sizes):
        function = self._in_jnp(program, sizes, ctx.avals_in)
        if function is not None:
            return mlir.lower_fun(function, multiple_results=True)(ctx, *operands)
        text = json.dumps({"program": json.loads(program), "sizes": sizes})
        return jax.ffi.ffi_lowering(self.target)(ctx, *operands, program=text)

    def _in_jnp(self, program, sizes, avals):
        """The program as a function of JAX's own, which XLA fuses with its surroundings; None if it stays a kernel."""
        numbers = [n for aval in avals for n in aval.shape]
        # inside of `jax.shard_map` constants and arguments vary along different axes
        if not all(isinstance(n, int) for n in numbers) or any(aval.manual_axis_type.varying for aval in avals):
            return None
        types = tuple((_name(aval.dtype), aval.shape) for aval in avals)
        known, has_64 = lambda holds, text: None, jax.config.jax_enable_x64
        function = self.library.decomposition("jnp", json.loads(program), types, sizes, _hint, known, has_64)
        if function is None:
            return None
        dtypes = [_dtype(name) for name, _ in self._known_types(program, sizes, types)]
        return lambda *xs: [y.astype(dtype) for y, dtype in zip(function(None, *xs), dtypes)]

    def _batched(self, tensors, axes, *, program, sizes):
        what = json.loads(program)
        size = next(t.shape[axis] for t, axis in zip(tensors, axes) if axis is not None)
        tensors, axes = list(tensors), list(axes)
        if any(axes[i] is not None for i in keys_of(what)):
            return self._one_by_one(what, sizes, tensors, axes)
        for i in range(len(tensors) - _linear(what), len(tensors)):
            # tangents and cotangents have the batch first, so that the transposed program gives them in this form
            if axes[i] is None:
                tensors[i] = jnp.broadcast_to(tensors[i], (size, *tensors[i].shape))
            else:
                tensors[i] = jnp.moveaxis(tensors[i], axes[i], 0)
            axes[i] = 0
        made = self._bind({"vmap": what, "axes": axes}, sizes, tensors)
        return made, [0] * len(made)

    def _one_by_one(self, what, sizes, tensors, axes):
        """The batch of a program whose keys differ, which the library does not take: its calls in a loop."""
        batched = [jnp.moveaxis(t, axis, 0) for t, axis in zip(tensors, axes) if axis is not None]

        def one(slices):
            slices = iter(slices)
            return self._bind(what, sizes, [t if axis is None else next(slices) for t, axis in zip(tensors, axes)])

        made = jax.lax.map(one, batched)
        return made, [0] * len(made)

    def _jvp(self, tensors, tangents, *, program, sizes):
        what = json.loads(program)
        made = self._bind(what, sizes, tensors)
        of = [i for i, t in enumerate(tangents) if type(t) is not ad.Zero and t.dtype != jax.dtypes.float0]
        first = len(tensors) - _linear(what)
        if not of:
            pushed = [None] * len(made)
        elif of[0] >= first:
            # a linear program is its own derivative
            pushed = [tangents[i] if i in of else jnp.zeros_like(tensors[i]) for i in range(first, len(tensors))]
            pushed = self._bind(what, sizes, [*tensors[:first], *pushed])
        else:
            pushed = {"jvp": what, "inputs": len(tensors), "of": of}
            pushed = self._bind(pushed, sizes, [*tensors, *(tangents[i] for i in of)])

        def tangent(y, t):
            is_smooth = t is not None and jnp.issubdtype(y.dtype, jnp.floating)
            return t if is_smooth else ad.Zero(jax.typeof(y).to_tangent_aval())

        return made, [tangent(y, t) for y, t in zip(made, pushed)]

    def _transposed(self, cotangents, *tensors, program, sizes):
        what = json.loads(program)
        first = len(tensors) - _linear(what)
        places = [i for i, t in enumerate(tensors) if ad.is_undefined_primal(t)]
        results = [i for i, g in enumerate(cotangents) if type(g) is not ad.Zero]
        if places[0] < first:
            raise RuntimeError("a program is transposed by an argument in which it is not linear; this is a bug in fulgurite")
        found = [ad.Zero(t.aval) if ad.is_undefined_primal(t) else None for t in tensors]
        if results:
            what, taken = _transpose(what, [i - first for i in places], results)
            made = self._bind(what, sizes, [*tensors[:first], *(cotangents[i] for i in results)])
            for place, result in zip(places, taken):
                found[place] = made[result]
        return found


def _varying(t):
    """The axes of a mesh along which an array differs, inside of `jax.shard_map`."""
    return jax.typeof(t).manual_axis_type.varying


def _linear(what):
    """The number of tensors at the end in which a program is linear: the tangents or cotangents."""
    if "vmap" in what:
        return _linear(what["vmap"])
    return len(what["of"]) if "jvp" in what else len(what["results"]) if "vjp" in what else 0


def _transpose(what, linear, results):
    """The transposed program for these of its linear tensors, given cotangents of these of its results; and the numbers of
    the results that are the cotangents of the linear tensors."""
    if "vmap" in what:
        inner, taken = _transpose(what["vmap"], linear, results)
        axes = what["axes"][: len(what["axes"]) - _linear(what)]
        return {"vmap": inner, "axes": [*axes, *[0] * len(results)]}, taken
    if "jvp" in what:
        of = [what["of"][i] for i in linear]
        return {"vjp": what["jvp"], "inputs": what["inputs"], "of": of, "results": results}, range(len(linear))
    of = [what["of"][i] for i in results]
    return {"jvp": what["vjp"], "inputs": what["inputs"], "of": of}, [what["results"][i] for i in linear]
