"""NumPy's `linalg`, whose functions also take lists with recorded values."""

import numpy as _numpy

from ._lists import fill as _fill

__all__ = list(_numpy.linalg.__all__)
_fill(globals(), _numpy.linalg)


def __getattr__(name: str):
    return getattr(_numpy.linalg, name)
