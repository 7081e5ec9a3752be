"""What is assumed of the internals of others: where each assumption is made, and what goes without.

An assumption is probed when something first depends on it. Where it does not hold, as with a
release that has changed what nobody promised, what it says under `without` happens instead, with a
warning. `TAPEGRAD_WITHOUT=name,name` does without some, to test that or to work around a fault.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

from ..config import given
from . import process

_VARIABLE = "TAPEGRAD_WITHOUT"


class Assumption(NamedTuple):
    """What is assumed, why, what happens where it does not hold, the versions it was tried with."""

    what: str
    why: str
    without: str | None
    tried: str


_NUMBA = "numba 0.62 to 0.68"
_NUMPY = "NumPy 2.2 to 2.5"
_PYTHON = "CPython 3.10 to 3.13"

ASSUMPTIONS = {
    "numba-reader": Assumption(
        "`numba.core.interpreter` turns bytecode into blocks of statements, for functions that "
        "nobody wants to run",
        "functions with branches and loops are compiled as one graph",
        "they are recorded: one program for each way through them that is taken",
        f"{_NUMBA}, {_PYTHON}",
    ),
    "numba-locks": Assumption(
        "the locks of Numba's compiler and of LLVM lie under `_lock`",
        "the child of a fork finds the compiler free while other threads compile",
        "a fork waits for our compilations, one at a time, and not for Numba code of users",
        _NUMBA,
    ),
    "numpy-error-state": Assumption(
        "`np.errstate` and `np.seterr` set the variable `numpy._core._ufunc_config."
        "_extobj_contextvar`, NumPy's own",
        "operations look at NumPy's error state only while it is other than by default",
        "np.errstate and np.seterr have no effect on recorded values",
        _NUMPY,
    ),
    "object-layout": Assumption(
        "fields of float, tuple, numpy.float64 and numpy.ndarray lie where `layout` says, in "
        "CPython with its global lock on a 64-bit machine",
        "compiled operators read numbers and arrays in 40 ns, without a call",
        None,
        f"{_PYTHON}, {_NUMPY}",
    ),
    "slot-layout": Assumption(
        "`__slots__` of a class lie behind the fields of its base, one after the other",
        "compiled operators see whether a buffer has been written",
        None,
        _PYTHON,
    ),
    "numpy-ufunc-api": Assumption(
        "`_UFUNC_API` is NumPy's table of functions for C, with PyUFunc_FromFuncAndData second",
        "operations that users declare are ufuncs of NumPy",
        None,
        _NUMPY,
    ),
    "numpy-ufunc-fields": Assumption(
        "the inner loops of ufuncs lie where NumPy's header says",
        "programs run Fourier transforms, and numbers of NumPy beside recorded ones are handled, "
        "without Python",
        "programs call numpy.fft, and such numbers take 5 µs",
        _NUMPY,
    ),
    "scipy-capsules": Assumption(
        "`__pyx_capi__` of scipy.linalg.cython_blas, cython_lapack and scipy.special."
        "cython_special holds C functions of the signatures that we call",
        "kernels call BLAS, LAPACK and special functions without Python",
        "BLAS and LAPACK are those of scipy.linalg.blas and lapack, special functions calls of "
        "Python",
        "SciPy 1.15 to 1.18",
    ),
    "libmvec": Assumption(
        "glibc's libmvec has functions under the names of its vector ABI",
        "four or eight elements at once",
        "the C library computes one after the other",
        "glibc 2.36",
    ),
    "cpython-bytecode": Assumption(
        "`f_lasti` is the place in `co_code` of a write to items or of `%` while a frame is at it",
        "`y[i] = t` and `'%f' % t` are told from `float(t)`",
        "errors and warnings speak of float() in place of the write; formats count as float()",
        _PYTHON,
    ),
    "attribute-tables": Assumption(
        "the descriptor of an attribute of CPython's own types holds the address of its table",
        "`f.__code__` is the user's while a function is entered",
        "it is the code with stand-ins meanwhile",
        _PYTHON,
    ),
    "inline-attributes": Assumption(
        "Python 3.11 and 3.12 say before an object whether its attributes lie outside of a dict",
        "attributes are looked at without a dict, with which Python reads them more slowly",
        "the dict of each object that a function can reach is made",
        _PYTHON,
    ),
}
_found: dict[tuple[str, str], bool] = {}
_probing = process.lock()


def switched_off() -> frozenset[str]:
    """The assumptions that the environment says to do without."""
    names = frozenset(filter(None, (given(_VARIABLE) or "").split(",")))
    if unknown := sorted(names - ASSUMPTIONS.keys()):
        raise ValueError(
            f"tapegrad: {_VARIABLE} names {', '.join(unknown)}; the names are "
            f"{', '.join(ASSUMPTIONS)}"
        )
    return names


def holds(name: str, probe: Callable[[], bool], part: str = "") -> bool:
    """Whether an assumption holds, as its probe says when it is first asked; False if it raises.

    One that is of several `part`s is probed for each. Threads that ask meanwhile wait: a probe may
    find what those need who were told that it holds.
    """
    if (name, part) not in _found:
        with _probing:
            if (name, part) not in _found:
                _found[name, part] = name not in switched_off() and _probed(name, probe)
    return _found[name, part]


def _probed(name: str, probe: Callable[[], bool]) -> bool:
    try:
        if probe():
            return True
        seen = "its probe says so"
    except Exception as error:  # whatever another release raises
        seen = f"{type(error).__name__}: {error}"
    one = ASSUMPTIONS[name]
    if one.without is not None:
        warnings.warn(
            f"tapegrad: {name} does not hold here ({seen}); it was tried with {one.tried}. "
            f"Instead: {one.without}",
            RuntimeWarning,
            stacklevel=2,
        )
    return False


def require(name: str, probe: Callable[[], bool]) -> None:
    """Raise an error where an assumption does not hold for which there is nothing instead."""
    if not holds(name, probe):
        one = ASSUMPTIONS[name]
        raise RuntimeError(
            f"tapegrad: {one.what}: that is not so here, and nothing works without it "
            f"({name}; tried with {one.tried}). Install one of these versions"
        )
