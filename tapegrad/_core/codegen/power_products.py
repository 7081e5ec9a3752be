"""Powers of constant exponents as products, reciprocals and square roots.

Whole exponents n take products by repeated squaring, with a relative error of at most n roundings.
Negative ones begin with the reciprocal, which doubles the error: so nothing overflows or underflows
on the way unless the result does. Exponents of a whole number and a half have a square root as last
factor. Zeros, infinities and NaN give what the function of the C library gives.
"""

from __future__ import annotations

from typing import Any, Protocol

#: The largest exponent that is computed by products.
MOST = 20


class Maker(Protocol):
    """The interface for making expressions by operations of graphs; their `Builder` is one."""

    def step(self, op: str, *operands: Any) -> Any: ...

    def constant(self, number: float) -> Any: ...


def halves(exponent: float) -> int | None:
    """Twice an exponent that is computed by products, None for others."""
    twice = 2.0 * exponent
    return int(twice) if abs(exponent) <= MOST and twice == int(twice) else None


def raised(make: Maker, x: Any, twice: int) -> Any:
    """x to the power of half of `twice`, a result of `halves`."""
    whole, half = divmod(abs(twice), 2)
    if half:
        x = _unsigned(make, x)
    one = make.constant(1.0)
    base = make.step("divide", one, x) if twice < 0 and whole else x
    made = _by_squaring(make, base, whole)
    if not half:
        return one if made is None else made
    root = make.step("sqrt", x)
    if twice < 0:
        return make.step("divide", one if made is None else made, root)
    return root if made is None else make.step("multiply", made, root)


def _by_squaring(make: Maker, x: Any, n: int) -> Any:
    """x to a whole power, None for 0."""
    made = None
    while n:
        if n & 1:
            made = x if made is None else make.step("multiply", made, x)
        n >>= 1
        x = make.step("multiply", x, x) if n else x
    return made


def _unsigned(make: Maker, x: Any) -> Any:
    """x where its root is NaN or a number; 0 and ∞ for −0 and −∞, whose powers have no sign."""
    infinite = make.step("float_equal", x, make.constant(float("-inf")))
    positive = make.step("add", x, make.constant(0.0))
    return make.step("float_select", infinite, make.constant(float("inf")), positive)
