"""NumPy for numbers of extended precision, which some of its functions do not take or keep."""

import numpy as np
from fuzz_wide_matrices import LINALG, SCIPY_LINALG

WIDE, WIDE_COMPLEX = np.longdouble, np.clongdouble


class WideNumpy:
    """NumPy, whose arrays of floats are of extended precision."""

    linalg = LINALG

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


def as_wide(dtype):
    """The dtype of extended precision that stands for one of floats or complex numbers."""
    return {"f": WIDE, "c": WIDE_COMPLEX}.get(np.dtype(dtype).kind, dtype)


def _widened(function):
    """A function that makes floats, told to make wide ones."""

    def made(*given, dtype=None, **keywords):
        dtype = WIDE if dtype is None else as_wide(dtype)
        return function(*given, dtype=dtype, **keywords)

    return staticmethod(made)


def _converted(function):
    """A function that takes what it is given, unless it is told to make floats."""

    def made(*given, dtype=None, **keywords):
        dtype = None if dtype is None else as_wide(dtype)
        return function(*given, dtype=dtype, **keywords)

    return staticmethod(made)


def _ordering(function):
    """A function that orders elements, equal ones as its algorithm does for a dtype.

    Raises ValueError where an order depends on that: the point is not used.
    """

    def made(a, *given, **keywords):
        a = np.asarray(a)
        found = function(a, *given, **keywords)
        for size in (8, 4) if a.dtype.kind in "fc" else ():
            narrow = a.astype(f"{a.dtype.kind}{size * (1 + (a.dtype.kind == 'c'))}")
            if not np.array_equal(function(narrow, *given, **keywords), found):
                raise ValueError("elements are tied")
        return found

    return staticmethod(made)


for name in ("argsort", "argpartition"):
    setattr(WideNumpy, name, _ordering(getattr(np, name)))
for name in ("zeros", "ones", "empty", "full", "eye", "identity", "tri"):
    setattr(WideNumpy, name, _widened(getattr(np, name)))
for name in ("array", "asarray", "zeros_like", "ones_like", "full_like", "empty_like"):
    setattr(WideNumpy, name, _converted(getattr(np, name)))
WIDE_NUMPY = WideNumpy()
#: What programs name, in extended precision.
NAMESPACES = {"np": WIDE_NUMPY, "la": SCIPY_LINALG}
