"""NumPy's `fft`, whose functions also take lists with recorded values."""

import numpy as _numpy

from ._lists import finder as _finder

__all__ = list(_numpy.fft.__all__)
__getattr__ = _finder(globals(), _numpy.fft)


def __dir__() -> list[str]:
    return dir(_numpy.fft)
