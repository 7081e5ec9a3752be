"""Special functions of one argument whose values are SciPy's, in programs too."""

from __future__ import annotations

import functools
import importlib
import math
from typing import Any

import numpy as np

from ..tensor.error_state import silence
from .declaring import declared


@functools.cache
def _of_scipy(name: str):
    return getattr(importlib.import_module("scipy.special"), name)


def unary(name: str, partial, x: str, **fields) -> Any:
    """Declare a function by its derivative, given NumPy, the result and the operand.

    `x` is an example of an operand in terms of any numbers.
    """

    def vjp(np, g, out, x):
        return (g * partial(np, out, x),)

    def jvp(np, t, out, x):
        return t[0] * partial(np, out, x)

    def value(x):
        with silence():
            return np.asarray(_of_scipy(name)(x))

    value.__name__ = value.__qualname__ = name
    value.__doc__ = f"{name}(x): SciPy's function."
    example = f"tg.scipy.special.{name}({x})"
    return declared(vjp=vjp, jvp=jvp, takes_complex=False, example=example, **fields)(value)


def _of_inverse(scale: float, rate: float):
    """The derivative of an inverse of an integral of Gaussian curves."""
    return lambda np, out, _x: scale * np.exp(rate * out * out)


erfinv = unary("erfinv", _of_inverse(0.5 * math.sqrt(math.pi), 1.0), "0.8 * np.tanh(x)")
erfcinv = unary("erfcinv", _of_inverse(-0.5 * math.sqrt(math.pi), 1.0), "1.0 + 0.8 * np.tanh(x)")
ndtri = unary("ndtri", _of_inverse(math.sqrt(2.0 * math.pi), 0.5), "0.5 + 0.4 * np.tanh(x)")


def _of_erfcx(np, out, x):
    """2x out − 2/√π, which cancels for large x: there its asymptotic series is used."""
    is_far = x > 20.0
    half = 0.5 / np.square(np.where(is_far, x, 20.0))
    total = 1.0
    for k in range(17, 1, -2):
        total = 1.0 - k * half * total
    far = -2.0 / math.sqrt(math.pi) * half * total
    return np.where(is_far, far, 2.0 * x * out - 2.0 / math.sqrt(math.pi))


erfcx = unary("erfcx", _of_erfcx, "x")
k1: Any = unary("k1", lambda np, out, x: -k0(x) - out / x, "x * x + 0.5")
k0: Any = unary("k0", lambda np, out, x: -k1(x), "x * x + 0.5")
