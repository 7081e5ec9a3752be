"""Floats split and combined: `frexp`, `ldexp`, `modf`; their neighbours, `nextafter`."""

from __future__ import annotations

import numpy as np

from ..tensor.apply import apply
from ..tensor.copies import unlisted
from ..tensor.registry import PUBLIC, function
from ..tensor.trace import lost_derivative, named, steered, steering_tensor, tensor_like
from ..tensor.values import differentiates, dtype_of

#: Beyond this many doublings every number is 0 or infinite, by the size of its dtype.
_MOST = {8: 2200, 4: 300}


@function("ldexp")
def ldexp(x1, x2):
    """Compute x1 · 2ˣ², element by element.

    The derivative is 2ˣ².

    Parameters
    ----------
    x2 : array_like of ints
        The exponents, which have no derivative.

    Raises
    ------
    TypeError
        If `x2` is recorded.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.ldexp(tg.tensor([1.0, 3.0]), [3, -1])
    tensor([8. , 1.5])
    """
    x, power = unlisted(x1), unlisted(x2)
    if dtype_of(power).kind not in "iub":
        raise TypeError(
            f"tapegrad.ldexp: x2 has dtype {dtype_of(power)}; it must hold integers: a power of 2 "
            "with a derivative is x1 * np.exp2(x2)"
        )
    if not differentiates(x):
        return steering_tensor(np.ldexp, x, power)
    size = dtype_of(x).itemsize
    for part in range(3):  # one factor would be infinite or 0 before the product is
        x = apply("multiply", x, steered(_doublings, power, part=part, size=size))
    return x


@named("parts.doublings")
def _doublings(power, part, size):
    """A third of a power of two, as a float of a size."""
    power = np.clip(np.asarray(power, np.int64), -_MOST[size], _MOST[size])
    third = power // 3
    return np.ldexp(np.ones((), f"f{size}"), power - 2 * third if part == 2 else third)


@function("frexp")
def frexp(x):
    """Decompose x = m · 2ᵉ, with ½ ≤ |m| < 1 and integers e.

    Returns
    -------
    tuple
        The mantissas m, whose derivative is 2⁻ᵉ, and the exponents e, which have none.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.frexp(tg.tensor([3.0, -0.5]))
    (tensor([ 0.75, -0.5 ]), tensor([2, 0], dtype=int32))
    """
    x = unlisted(x)
    mantissa, power = steered(np.frexp, x)
    power = tensor_like(power, x)
    if not differentiates(x):
        return tensor_like(mantissa, x), power
    return ldexp(x, steered(np.negative, power)), power


@function("modf")
def modf(x):
    """Separate the fractional from the integral part; both have the sign of x.

    Returns
    -------
    tuple
        The fractional part, with derivative 1, and the integral part, with derivative 0.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.modf(tg.tensor([1.5, -0.25]))
    (tensor([ 0.5 , -0.25]), tensor([ 1., -0.]))
    """
    x = unlisted(x)
    if not differentiates(x):
        return steering_tensor(np.modf, x)
    nothing = apply("copysign", 0.0, x)
    fraction = apply("where", steered(np.isinf, x), nothing, apply("fmod", x, 1.0))
    return fraction, apply("trunc", x)


@function("positive")
def positive(x):
    """Return +x, a new tensor."""
    x = unlisted(x)
    return apply("multiply", x, 1.0) if differentiates(x) else steering_tensor(np.positive, x)


@function("conjugate")
def conjugate(x):
    """Return the complex conjugate; for a real operand, a copy."""
    x = unlisted(x)
    return apply("multiply", x, 1.0) if differentiates(x) else steering_tensor(np.conjugate, x)


PUBLIC["conj"] = conjugate


@function("spacing")
def spacing(x):
    """Return the distance from x to the next float away from 0. The derivative is zero."""
    return steering_tensor(np.spacing, unlisted(x))


@function("nextafter")
def nextafter(x1, x2):
    """Return the float next to x1 in the direction of x2.

    Raises
    ------
    TypeError
        If an operand is recorded: the step is one of rounding and has no derivative.
    """
    if differentiates(x1, x2):
        raise lost_derivative(
            "tapegrad.nextafter: an argument is recorded, and a step from float to float has no "
            "derivative; use x.detach(), or x itself, whose derivative is that of the result",
            (x1, x2),
        )
    return steering_tensor(np.nextafter, unlisted(x1), unlisted(x2))
