"""The Python functions that files of programs can name, and no others.

They read arrays and give arrays; none of them opens files, runs code, or writes to its operands.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable

import numpy as np

from ..._core.tensor.trace import NAMED

#: In addition to its ufuncs.
_NUMPY = (
    "all allclose angle any argmax argmin argpartition argsort argwhere array array_equal "
    "array_equiv asarray bincount clip convolve corrcoef correlate count_nonzero cov cross diff "
    "digitize dot ediff1d einsum flatnonzero full_like gradient histogram inner interp isclose "
    "iscomplex isin isneginf isposinf isreal lexsort linalg.matrix_norm linalg.norm "
    "linalg.vector_norm logical_and.reduce logical_or.reduce mean median nan_to_num nanargmax "
    "nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanprod "
    "nanquantile nanstd nansum nanvar nonzero outer packbits partition percentile prod ptp "
    "quantile ravel round searchsorted sort squeeze std sum take take_along_axis tensordot "
    "trace unique unpackbits unravel_index unwrap var"
).split()
_OPERATORS = "and_ eq ge gt invert le lshift lt ne or_ rshift xor".split()


@functools.cache
def _by_name() -> dict[str, Callable]:
    found = {f"numpy.{name}": operator.attrgetter(name)(np) for name in _NUMPY}
    ufuncs = [one for one in vars(np).values() if isinstance(one, np.ufunc)]
    found |= {f"numpy.{one.__name__}": one for one in ufuncs}
    return found | {f"operator.{name}": getattr(operator, name) for name in _OPERATORS}


def function_named(name) -> Callable | None:
    """The function of a name, None for names that are not allowed."""
    if not isinstance(name, str):
        return None
    wing, _, ours = name.partition(".")
    return NAMED.get(ours) if wing == "tapegrad" else _by_name().get(name)


def name_of(function) -> str | None:
    """The name of a function, None if it has none."""
    named = ((f"tapegrad.{name}", one) for name, one in list(NAMED.items()))
    known = itertools.chain(_by_name().items(), named)
    return next((name for name, one in known if one == function), None)
