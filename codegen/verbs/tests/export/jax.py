"""Operators of `ops.yaml` for JAX.

Every function has derivatives of every order in both modes (`jax.grad`, `jax.jvp`) and batches (`jax.vmap`), and works
under `jax.jit` and `jax.export`. Made by `cargo ops export jax`.
"""

import os
from collections.abc import Sequence

from jax import Array
from jax.typing import ArrayLike

from ._runtime import Operators

__all__ = [
    "energy",
    "extent",
    "blend",
    "add_all",
    "jitter",
    "windows_mean",
]

_rows = Operators("ten", os.path.join(os.path.dirname(__file__), "libten.so"))


def energy(x: ArrayLike, dims: int | Sequence[int] | None = None, keepdim: bool = False) -> Array:
    """Sum of squares over dims.

    energy (x: T[..S]; dims: Dims(S, empty = all) = all, keepdim: bool = false) -> T[..S[!dims; keepdim]]

    Dtypes of T: float.
    Gradient by x: energy.vjp.x(x, g, dims = dims, keepdim = keepdim).
    """
    return _rows.call("energy", "TlB", x, dims, keepdim)[0]


def extent(x: ArrayLike, dim: int) -> tuple[Array, Array]:
    """The smallest and the largest element along dim.

    extent (x: T[..S]; dim: Dim(S)) -> (low: T[..S[!dim]], high: T[..S[!dim]])

    Dtypes of T: float.
    Refused unless `size(S[dim]) > 0`: extent needs at least one element.
    Gradient by x: through the body.
    """
    return tuple(_rows.call("extent", "TI", x, dim))


def blend(x: ArrayLike, y: ArrayLike, weight: ArrayLike | None = None) -> Array:
    """x where weight is absent, else the weighted mean of x and y.

    blend (x: T, y: T, weight: T?) -> T

    Gradient by x: unbroadcast(blend.vjp.x(weight, g), x).
    Gradient by y: unbroadcast(blend.vjp.y(weight, g), y).
    Gradient by weight: unbroadcast(blend.vjp.weight(x, y, g), weight).
    """
    return _rows.call("blend", "TTt", x, y, weight)[0]


def add_all(xs: Sequence[ArrayLike]) -> Array:
    """The sum of the tensors.

    add_all (xs: List<T[..S]>) -> T[..S]

    Dtypes of T: float.
    Gradient by xs: through the body.
    """
    return _rows.call("add_all", "X", xs)[0]


def jitter(x: ArrayLike, key: ArrayLike, scale: float = 0.5) -> Array:
    """x with noise between 0 and scale.

    jitter (x: T[..S], key: Key; scale: f64 = 0.5) -> T[..S]

    Dtypes of T: float.
    Gradient by x: g.
    """
    return _rows.call("jitter", "TKF", x, key, scale)[0]


def windows_mean(x: ArrayLike, width: int) -> Array:
    """Means of width neighbouring elements along the last axis.

    windows_mean (x: T[..B, L]; width: Size(W)) -> T[..B, M = L - W + 1]

    Dtypes of T: float.
    Refused unless `0 < W && W <= L`: width must lie in 1..=L.
    Gradient by x: windows_mean.vjp.x(x, g, width = width).
    """
    return _rows.call("windows_mean", "TZ", x, width)[0]
