"""Operators of `ops.yaml` for PyTorch.

Every function has derivatives of every order in both modes and batches (`torch.func`), and works under `torch.compile`
and `torch.export`. Made by `cargo ops export torch`.
"""

from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from . import _ops
from ._runtime import ints, tensor

__all__ = [
    "squareplus",
    "energy",
    "extent",
    "take_or_zero",
    "blend",
    "add_all",
    "jitter",
    "bend",
    "same_sign",
    "windows_mean",
]


def squareplus(x: Tensor | float, b: float = 4.0) -> Tensor:
    """A smooth rectifier, (x + sqrt(x x + b)) / 2.

    squareplus (x: T; b: f64 = 4) -> T

    Gradient by x: unbroadcast(squareplus.vjp.x(x, g, b = b), x).
    """
    return _ops.squareplus(tensor(x), b)


def energy(x: Tensor, dims: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Sum of squares over dims.

    energy (x: T[..S]; dims: Dims(S, empty = all) = all, keepdim: bool = false) -> T[..S[!dims; keepdim]]

    Dtypes of T: float.
    Gradient by x: energy.vjp.x(x, g, dims = dims, keepdim = keepdim).
    """
    return _ops.energy(x, ints(dims), keepdim)


def extent(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The smallest and the largest element along dim.

    extent (x: T[..S]; dim: Dim(S)) -> (low: T[..S[!dim]], high: T[..S[!dim]])

    Dtypes of T: float.
    Refused unless `size(S[dim]) > 0`: extent needs at least one element.
    Gradient by x: through the body.
    """
    return _ops.extent(x, dim)


def take_or_zero(x: Tensor, index: Tensor, dim: int) -> Tensor:
    """Elements of x at index along dim, 0 where index is outside.

    take_or_zero (x: T[..P, N@dim, ..Q], index: Index[..P, M@dim, ..Q]; dim: Dim) -> T[..P, M, ..Q]

    Gradient by x: take_or_zero.vjp.x(x, index, g, dim = dim).
    """
    return _ops.take_or_zero(x, index, dim)


def blend(x: Tensor | float, y: Tensor | float, weight: Tensor | float | None = None) -> Tensor:
    """x where weight is absent, else the weighted mean of x and y.

    blend (x: T, y: T, weight: T?) -> T

    Gradient by x: unbroadcast(blend.vjp.x(weight, g), x).
    Gradient by y: unbroadcast(blend.vjp.y(weight, g), y).
    Gradient by weight: unbroadcast(blend.vjp.weight(x, y, g), weight).
    """
    return _ops.blend(tensor(x), tensor(y), tensor(weight))


def add_all(xs: Sequence[Tensor]) -> Tensor:
    """The sum of the tensors.

    add_all (xs: List<T[..S]>) -> T[..S]

    Dtypes of T: float.
    Gradient by xs: through the body.
    """
    return _ops.add_all(xs)


def jitter(x: Tensor, key: Tensor, scale: float = 0.5) -> Tensor:
    """x with noise between 0 and scale.

    jitter (x: T[..S], key: Key; scale: f64 = 0.5) -> T[..S]

    Dtypes of T: float.
    Gradient by x: g.
    """
    return _ops.jitter(x, key, scale)


def bend(x: Tensor | float, mode: Literal["line", "curve"] = "line", slope: float = 0.1) -> Tensor:
    """x above zero, x * slope or exp(x) - 1 below.

    bend (x: T; mode: enum(line, curve) = line, slope: f64 = 0.1) -> T

    Gradient by x: unbroadcast(bend.vjp.x(x, g, mode = mode, slope = slope), x).
    """
    return _ops.bend(tensor(x), mode, slope)


def same_sign(x: Tensor | float, y: Tensor | float) -> Tensor:
    """Whether x and y have one sign.

    same_sign (x: T, y: T) -> bool

    Dtypes of T: float.
    Gradient by x: none: the derivative is zero wherever it exists.
    Gradient by y: none: the derivative is zero wherever it exists.
    """
    return _ops.same_sign(tensor(x), tensor(y))


def windows_mean(x: Tensor, width: int) -> Tensor:
    """Means of width neighbouring elements along the last axis.

    windows_mean (x: T[..B, L]; width: Size(W)) -> T[..B, M = L - W + 1]

    Dtypes of T: float.
    Refused unless `0 < W && W <= L`: width must lie in 1..=L.
    Gradient by x: windows_mean.vjp.x(x, g, width = width).
    """
    return _ops.windows_mean(x, width)
