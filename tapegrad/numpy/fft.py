"""NumPy's `fft`, whose functions also take lists with recorded values."""

import numpy as _numpy

from ._lists import fill as _fill

__all__ = list(_numpy.fft.__all__)
_fill(globals(), _numpy.fft)


def __getattr__(name: str):
    return getattr(_numpy.fft, name)
