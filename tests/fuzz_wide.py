"""NumPy for numbers of extended precision, which some of its functions do not take or keep."""

import numpy as np

WIDE = np.longdouble


class WideNumpy:
    """NumPy, whose arrays of floats are of extended precision."""

    def __getattr__(self, name):
        return getattr(np, name)

    @staticmethod
    def interp(x, xp, fp):
        x, xp, fp = (np.asarray(one, WIDE) for one in (x, xp, fp))
        k = np.clip(np.searchsorted(xp, x, "right") - 1, 0, len(xp) - 2)
        made = fp[k] + (fp[k + 1] - fp[k]) / (xp[k + 1] - xp[k]) * (x - xp[k])
        return np.where(x < xp[0], fp[0], np.where(x > xp[-1], fp[-1], made))[()]

    @staticmethod
    def bincount(x, weights=None, minlength=0):
        if weights is None:
            return np.bincount(x, minlength=minlength)
        made = np.zeros(max(np.max(x, initial=-1) + 1, minlength), WIDE)
        np.add.at(made, x, weights)
        return made


def _widened(function):
    """A function that makes floats, told to make wide ones."""

    def made(*given, dtype=None, **keywords):
        if dtype is None or np.dtype(dtype).kind == "f":
            dtype = WIDE
        return function(*given, dtype=dtype, **keywords)

    return staticmethod(made)


def _converted(function):
    """A function that takes what it is given, unless it is told to make floats."""

    def made(*given, dtype=None, **keywords):
        if dtype is not None and np.dtype(dtype).kind == "f":
            dtype = WIDE
        return function(*given, dtype=dtype, **keywords)

    return staticmethod(made)


for name in ("zeros", "ones", "empty", "full", "eye", "identity", "tri"):
    setattr(WideNumpy, name, _widened(getattr(np, name)))
for name in ("array", "asarray", "zeros_like", "ones_like", "full_like", "empty_like"):
    setattr(WideNumpy, name, _converted(getattr(np, name)))
WIDE_NUMPY = WideNumpy()
