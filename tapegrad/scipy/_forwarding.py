"""Modules with the names of SciPy's: a function refuses recorded values, or is one of ours."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import textwrap
import types

import numpy as np

from .._core.tensor.docstrings import with_note
from .._core.tensor.recorded_arguments import none_recorded, none_traced
from . import (  # noqa: F401
    _analytic,
    _banded_matrices,
    _convolutions,
    _filters,
    _fourier,
    _functions_of_matrices,
    _matrix_equations,
    _matrix_factors,
    _probability_functions,
    _quadrature,
    _special_matrices,
    _spectral,
    _toeplitz_matrices,
)
from ._differentiable import OURS
from ._without_derivative import REASONS

SUBMODULES = (
    *("cluster", "constants", "fft", "integrate", "interpolate", "io", "linalg", "ndimage"),
    *("optimize", "signal", "sparse", "spatial", "special", "stats"),
)
#: Public modules inside of submodules, which can be imported by their names.
_INNER = (
    *("cluster.hierarchy", "cluster.vq", "linalg.blas", "linalg.interpolative", "linalg.lapack"),
    *("optimize.elementwise", "io.arff", "io.matlab", "io.wavfile", "signal.windows"),
    *("sparse.csgraph", "sparse.linalg", "spatial.distance", "spatial.transform"),
    *("stats.contingency", "stats.distributions", "stats.mstats", "stats.qmc", "stats.sampling"),
)
_PACKAGE = __name__.rpartition(".")[0]


class Forwarding(types.ModuleType):
    """A SciPy module, imported when one of its names is first used."""

    def __init__(self, name: str):
        super().__init__(f"{_PACKAGE}.{name}", f"SciPy's `scipy.{name}`, see `tapegrad.scipy`.")
        self.__path__: list[str] = []

    def _theirs(self) -> types.ModuleType:
        return importlib.import_module(self.__name__.partition(".")[2])

    def __getattr__(self, name: str):
        place = f"{self.__name__}.{name}"
        if name == "__path__" or (name.startswith("__") and name != "__all__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = getattr(self._theirs(), name)
        if isinstance(found, types.ModuleType) and found.__name__.startswith("scipy."):
            found = sys.modules.get(place) or entered(place.partition(".")[2].partition(".")[2])
        else:
            found = stand_in(place, found)
        setattr(self, name, found)
        return found

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._theirs())})


def entered(name: str) -> Forwarding:
    """The module of a name below `scipy`, which can be imported from now on."""
    made = sys.modules[f"{_PACKAGE}.{name}"] = Forwarding(name)
    return made


def enter(package: dict) -> None:
    """Make all modules, and the names of a package."""
    for name in SUBMODULES:
        package[name] = entered(name)
    for name in _INNER:
        outer, _, inner = name.rpartition(".")
        setattr(package[outer], inner, entered(name))


# --- functions ------------------------------------------------------------------------------------


def _note(name: str) -> str:
    """The note in the docstring of a function, in addition to SciPy's."""
    if name in OURS:
        return "Recorded values are differentiated."
    reason = f": {REASONS[name]}" if name in REASONS else ""
    text = f"It has no derivative here; a recorded argument raises TypeError{reason}."
    return textwrap.fill(text, 75)


def stand_in(place: str, theirs):
    """The stand-in of a SciPy object: itself, if it is no function and has no counterpart here.

    SciPy's ufuncs dispatch on tensors, and name themselves in errors.
    """
    name = place.partition(".")[2].removeprefix("scipy.")
    ours = OURS.get(name)
    if ours is None and (isinstance(theirs, np.ufunc) or not inspect.isroutine(theirs)):
        return theirs

    is_plain = none_recorded if ours is None else none_traced

    @functools.wraps(theirs)
    def function(*args, **kwargs):
        if is_plain(args) and (not kwargs or is_plain(kwargs.values())):
            return theirs(*args, **kwargs)
        if ours is None:
            raise TypeError(
                f"{place} has no derivative yet, and an argument is recorded"
                f"{': ' + REASONS[name] if name in REASONS else ''}; compute it with "
                "functions of tapegrad, declare its derivative with tg.custom_vjp, or give "
                "x.detach().numpy() where no derivative is wanted"
            )
        return ours(*args, **kwargs)

    function.__doc__ = with_note(theirs.__doc__, _note(name))
    function.__module__, _, function.__name__ = place.rpartition(".")
    function.__qualname__ = function.__name__
    function.__dict__["of_python"] = theirs
    return function
