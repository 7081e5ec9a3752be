"""SciPy's `special` for recorded values: logarithms of probabilities, entropies, inverses."""

from __future__ import annotations

import importlib
import math

import numpy as np

from .._core.operations import PUBLIC, special_values
from .._core.operations.einsum import as_tensor
from .._core.tensor.copies import unlisted
from .._core.tensor.values import dtype_of
from ._differentiable import differentiable

_where, _log, _erfc = PUBLIC["where"], PUBLIC["log"], PUBLIC["erfc"]
_log1p, _sqrt = PUBLIC["log1p"], PUBLIC["sqrt"]
_HALF_ROOT = math.sqrt(0.5)


def _of_scipys_value(name: str):
    function = getattr(special_values, name)
    differentiable(f"special.{name}")(lambda x: function(as_tensor(name, x)))


for _name in ("erfinv", "erfcinv", "ndtri", "erfcx", "k0", "k1"):
    _of_scipys_value(_name)


# --- probabilities --------------------------------------------------------------------------------


@differentiable("special.logit")
def logit(x):
    """Near ½ by the distance from it: the logarithms would cancel."""
    x = unlisted(x)
    is_near = PUBLIC["absolute"](x - 0.5) < 0.2
    twice = 2.0 * (_where(is_near, x, 0.5) - 0.5)
    apart = _where(is_near, 0.25, x)
    near = _log1p(twice) - _log1p(-twice)
    return _where(is_near, near, _log(apart) - _log1p(-apart))


@differentiable("special.log_expit")
def log_expit(x):
    return -PUBLIC["logaddexp"](0.0, -unlisted(x))


@differentiable("special.ndtr")
def ndtr(x):
    return 0.5 * _erfc(-_HALF_ROOT * unlisted(x))


@differentiable("special.log_ndtr")
def log_ndtr(x):
    """By erfc, which underflows far below 0: there an asymptotic series is used."""
    x = unlisted(x)
    least = -10.0 if dtype_of(x) == np.float32 else -20.0
    is_high, is_middle = x > -1.0, x > least
    high = _log1p(-0.5 * _erfc(_HALF_ROOT * _where(is_high, x, 0.0)))
    middle = _log(0.5 * _erfc(-_HALF_ROOT * _where(is_high | ~is_middle, -2.0, x)))
    low = _where(is_middle, least, x)
    return _where(is_high, high, _where(is_middle, middle, _log_of_tail(low)))


def _log_of_tail(x):
    """log Φ(x) for x ≤ −10: φ(x) / |x| (1 − 1/x² + 3/x⁴ − …) (Abramowitz, Stegun 26.2.12)."""
    inverse, total = 1.0 / (x * x), 0.0
    for k in range(8, 0, -1):
        total = -(2.0 * k - 1.0) * inverse * (1.0 + total)
    return -0.5 * x * x - _log(-x) - 0.5 * math.log(2.0 * math.pi) + _log1p(total)


# --- x log y --------------------------------------------------------------------------------------


@differentiable("special.xlogy")
def xlogy(x, y):
    """At x = 0 the derivative to x is log y also where that is infinite."""
    return _times_logarithm(*_operands("xlogy", x, y), _log)


@differentiable("special.xlog1py")
def xlog1py(x, y):
    return _times_logarithm(*_operands("xlog1py", x, y), _log1p)


def _times_logarithm(x, y, log):
    """x log(y), or x log(1 + y), 0 where x is 0, with an infinite derivative where that is so."""
    zero = 0.0 if log is _log else -1.0
    at_edge = (x == 0.0) & ((y <= zero) | (y == np.inf))
    root = _sqrt(_where(at_edge, x, 1.0))
    edge = _where(y == zero, -root, _where(y == np.inf, root, 0.0 * root))
    return _where(at_edge, edge, x * log(_where(at_edge, zero + 1.0, y)))


@differentiable("special.entr")
def entr(x):
    x = unlisted(x)
    is_zero = x == 0.0
    inside = _where(is_zero, _sqrt(_where(is_zero, x, 1.0)), -x * _log(_where(x <= 0.0, 1.0, x)))
    return _where(x < 0.0, -np.inf, inside)


@differentiable("special.rel_entr")
def rel_entr(x, y):
    return _relative(*_operands("rel_entr", x, y), lambda inside, x, y: inside)


@differentiable("special.kl_div")
def kl_div(x, y):
    return _relative(*_operands("kl_div", x, y), lambda inside, x, y: inside - x + y)


def _relative(x, y, of_numbers):
    """A function of x log(x / y) and both; infinity where one is negative, or y alone 0."""
    is_zero = (x == 0.0) & (y >= 0.0)
    is_outside = ((x < 0.0) & (y == y)) | ((y < 0.0) & (x == x)) | ((y == 0.0) & (x > 0.0))
    apart = is_zero | is_outside
    x, y = _where(is_outside, 1.0, x), _where(is_outside, 1.0, y)
    logarithm = _log_of_ratio(_where(apart, 1.0, x), _where(apart, 1.0, y))
    inside = _where(is_zero, -_sqrt(_where(is_zero, x, 1.0)), x * logarithm)
    return _where(is_outside, np.inf, of_numbers(inside, x, y))


def _operands(name: str, *operands):
    """Operands, Python's numbers in the dtype in which SciPy's ufunc reads them."""
    found = [unlisted(one) for one in operands]
    is_number = [type(one) in (bool, int, float) for one in found]
    if not any(is_number):
        return found
    ufunc = getattr(importlib.import_module("scipy.special"), name)
    kinds = [
        (int if type(one) is bool else type(one)) if number else dtype_of(one)
        for one, number in zip(found, is_number, strict=True)
    ]
    *read, _ = ufunc.resolve_dtypes((*kinds, None))
    pairs = zip(found, is_number, read, strict=True)
    return [kind.type(one) if number else one for one, number, kind in pairs]


def _log_of_ratio(x, y):
    """log(x / y), accurate for close numbers and for quotients that overflow."""
    is_near = PUBLIC["absolute"](x - y) < 0.5 * y
    most = 1e18 if np.float32 in (dtype_of(x), dtype_of(y)) else 1e150
    is_number = (x < most) & (x > 1 / most) & (y < most) & (y > 1 / most)
    near = _log1p(_where(is_near, (x - y) / y, 0.0))
    apart = _where(is_number, _log(_where(is_number, x, 1.0) / _where(is_number, y, 1.0)), 0.0)
    return _where(is_near, near, _where(is_number, apart, _log(x) - _log(y)))
