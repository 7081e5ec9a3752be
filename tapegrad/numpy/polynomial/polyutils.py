"""NumPy's `polynomial.polyutils`, with recorded values."""

from typing import Any as _Any

import numpy as _numpy
from numpy.polynomial import polyutils as _theirs

from ..._core.operations.polynomials import least_squares as _least_squares
from ..._core.tensor.trace import fixed as _fixed
from ..._core.tensor.values import value_of as _value_of
from ._rebuilt import ARRAYS as _ARRAYS
from ._rebuilt import space_of as _space_of

__all__ = list(_theirs.__all__)


def _from_roots(line_f, mul_f, roots):
    """The product of lines through the roots, two and two, from the least root on."""
    if not len(roots):
        return _numpy.ones(1)
    [roots] = FUNCTIONS.as_series([roots], trim=False)
    roots = _ARRAYS.sort(roots)
    parts = [line_f(-root, 1) for root in roots]
    while len(parts) > 1:
        half, rest = divmod(len(parts), 2)
        made = [mul_f(parts[k], parts[k + half]) for k in range(half)]
        if rest:
            made[0] = mul_f(made[0], parts[-1])
        parts = made
    return parts[0]


def _fitted(vander_f, x, y, deg, rcond=None, full=False, w=None):
    """The coefficients of the best fit; as `np.polyfit` of tensors."""
    if full:
        raise TypeError(
            "tapegrad.numpy.polynomial: full=True of a fit is not supported where something is "
            "recorded: the singular values have no derivative here"
        )
    x, y = _ARRAYS.asarray(x) + 0.0, _ARRAYS.asarray(y) + 0.0
    w = None if w is None else _ARRAYS.asarray(w) + 0.0
    deg = _numpy.asarray(_fixed(_value_of(deg), "the degree of a fit"))
    plain = [None if one is None else _numpy.broadcast_to(1.0, one.shape) for one in (x, y, w)]
    _check(plain, deg)
    orders = _numpy.sort(deg) if deg.ndim else _numpy.arange(int(deg) + 1)
    columns = vander_f(x, int(orders[-1]))[:, orders]
    if w is not None:
        columns = columns * w[:, None]
        y = y * (w[:, None] if y.ndim == 2 else w)
    rcond = len(x) * _numpy.finfo(x.dtype).eps if rcond is None else rcond
    made, _ = _least_squares("polynomial.fit", columns, y, rcond)
    if not deg.ndim:
        return made
    whole = _ARRAYS.zeros((int(orders[-1]) + 1, *made.shape[1:]), dtype=made.dtype)
    whole[orders] = made
    return whole


def _check(plain, deg) -> None:
    """Raise NumPy's own errors, for which no values are needed."""
    x, y, w = plain
    fits = x.ndim == 1 and x.size and 1 <= y.ndim <= 2 and len(x) == len(y)
    fits = fits and (w is None or w.shape == x.shape)
    if not fits or deg.ndim > 1 or deg.dtype.kind not in "iu" or not deg.size or deg.min() < 0:
        _theirs._fit(lambda x, deg: _numpy.ones((len(x), int(deg) + 1)), x, y, deg, None, True, w)


_space = _space_of(_theirs, __name__, _fromroots=_from_roots, _fit=_fitted)
globals().update({_key: _found for _key, _found in _space.items() if _key in __all__})
FUNCTIONS: _Any = type(
    "polyutils", (), {k: staticmethod(f) for k, f in _space.items() if callable(f)}
)
