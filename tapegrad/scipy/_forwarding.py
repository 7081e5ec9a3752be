"""Modules with the names of SciPy's: a function refuses recorded values, or is one of ours."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import textwrap
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.tensor.callers import of_scipy
from .._core.tensor.conversions import without_derivative
from .._core.tensor.copies import unlisted
from .._core.tensor.pytree import none_recorded, none_traced
from .._core.tensor.registry import OF_NUMPY, STAND_INS, with_note
from . import _tested_code
from ._differentiable import OURS, holds_stack, is_of_matrices

#: Public modules inside of submodules, which can be imported by their names; they have no files.
_INNER = (
    *("cluster.hierarchy", "cluster.vq", "linalg.blas", "linalg.interpolative", "linalg.lapack"),
    *("optimize.elementwise", "io.arff", "io.matlab", "io.wavfile", "signal.windows"),
    *("sparse.csgraph", "sparse.linalg", "spatial.distance", "spatial.transform"),
    *("stats.contingency", "stats.distributions", "stats.mstats", "stats.qmc", "stats.sampling"),
)
_PACKAGE = __name__.rpartition(".")[0]
#: The files with functions of a submodule, imported when one of its names is first used.
_FILES = {
    "cluster": "_spatial_distances",
    "constants": "_spatial_distances",
    "fft": "_fourier",
    "integrate": "_boundary_values _copied_code _cubature _ode_calls _quadpack _quadrature",
    "interpolate": "_interpolate_polynomials _interpolate_splines _interpolate_data "
    "_interpolate_grids _copied_code",
    "linalg": "_linalg_equations _linalg_spectra",
    "optimize": "_copied_code _optimize_fits _optimize_minima _optimize_roots",
    "special": "_copied_code",
    "ndimage": "_ndimage_filters _ndimage_interpolation _ndimage_measurements",
    "sparse": "_sparse_constructors _sparse_linalg",
    "spatial": "_spatial_distances _spatial_rotations",
    "signal": "_signal_filters _copied_code _signal_systems",
    "stats": "_copied_code _stats_functions _stats_distributions",
}
OURS |= _tested_code.functions()


def forward(module: dict[str, Any]) -> tuple[Callable, Callable]:
    """`__getattr__` and `__dir__` of a module, given by its globals, with the names of SciPy's.

    SciPy's module is imported when one of its names is first used.
    """
    place = module["__name__"]
    outside = place.rpartition(".")[0]

    def theirs() -> types.ModuleType:
        return importlib.import_module(place.partition(".")[2])

    def find(name: str):
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {place!r} has no attribute {name!r}")
        found = getattr(theirs(), name)
        if isinstance(found, types.ModuleType) and found.__name__.startswith("scipy."):
            inner = f"{place}.{name}"
            found = sys.modules.get(inner) or entered(inner)
        elif outside != _PACKAGE and place != _PACKAGE and found is _held(outside, name):
            found = getattr(sys.modules[outside], name)  # one object has one stand-in
        else:
            found = stand_in(f"{place}.{name}", found)
        return module.setdefault(name, found)  # another thread may have been faster

    return find, lambda: dir(theirs())


def _held(place: str, name: str):
    """What SciPy's module has under a name."""
    return getattr(importlib.import_module(place.partition(".")[2]), name, None)


def entered(place: str) -> types.ModuleType:
    """A module that has no file, which can be imported from now on."""
    name = place.partition(".")[2]
    made = sys.modules[place] = types.ModuleType(place, f"SciPy's `{name}`, see `tapegrad.scipy`.")
    vars(made)["__getattr__"], vars(made)["__dir__"] = forward(vars(made))
    return made


for _name in _INNER:
    entered(f"{_PACKAGE}.{_name}")


# --- functions ------------------------------------------------------------------------------------


def find_ours(name: str) -> Callable | None:
    """Our function of a name below `scipy`, as "special.ndtr" or "stats.norm.pdf"; else None."""
    for file in _FILES.get(name.partition(".")[0], "").split():
        importlib.import_module(f"{_PACKAGE}.{file}")
    if name.startswith("stats.") and name not in OURS:
        return _distributions().released(name)
    return OURS.get(name)


def _distributions() -> types.ModuleType:
    return importlib.import_module(f"{_PACKAGE}._stats_distributions")


def _note(name: str) -> str:
    """The note in the docstring of a function, in addition to SciPy's."""
    if name in OURS:
        return "Recorded values are differentiated."
    text = f"It has no derivative here; a recorded argument raises TypeError: {of_scipy(name)}."
    return textwrap.fill(text, 75)


def _sparse_constructors() -> types.ModuleType:
    return importlib.import_module(f"{_PACKAGE}._sparse_constructors")


def _never(arguments) -> bool:
    return False


def _of_stats(place: str, theirs):
    """What stands for an object of SciPy's `stats`, or a class of such; None if nothing does."""
    if not isinstance(theirs, type):
        return _distributions().of_instance(theirs)
    made = importlib.import_module(f"{_PACKAGE}._multivariate").of_class(theirs)
    if made is None:
        classes = importlib.import_module(f"{_PACKAGE}._stats_distributions")
        made = classes.of_class(theirs, place.rpartition(".")[0])
    if made is not None:
        STAND_INS[made] = theirs
    return made


def _none_stacked(arguments) -> bool:
    return none_traced(arguments) and not holds_stack(arguments)


def _asking(name: str, ours) -> Callable:
    """What tells of arguments whether SciPy's function takes them."""
    is_plain = none_recorded if ours is None else none_traced
    if ours is not None and name.startswith("signal."):
        is_plain = importlib.import_module(f"{_PACKAGE}._copied_code").none_held
    if ours is not None and is_of_matrices(name):
        is_plain = _none_stacked
    if getattr(ours, "makes_objects", False):  # which may be called with recorded values later
        is_plain = _never
    if getattr(ours, "calls_users", False):  # functions, which may read recorded values
        is_plain = _never
    if name.startswith("sparse."):
        is_plain = _sparse_constructors().without_sparse(is_plain)
    return is_plain


def _is_by_protocol(theirs, ours) -> bool:
    """Whether SciPy's function is a ufunc that calls ours for tensors, with NumPy's keywords."""
    return isinstance(theirs, np.ufunc) and OF_NUMPY.get(theirs.__name__) is ours


#: What graphs are told of functions.
_TOLD = ("is_element_wise", "followed_by")
#: Those of functions, which some modules share, by their identities and whether one refuses.
_made: dict[tuple[int, bool], Callable] = {}


def stand_in(place: str, theirs):
    """The stand-in of a SciPy object: itself, if it is no function and has no counterpart here.

    SciPy's ufuncs dispatch on tensors, and name themselves in errors.
    """
    name = place.partition(".")[2].removeprefix("scipy.")
    ours, is_sparse = find_ours(name), name.startswith("sparse.")
    if ours is not None and is_sparse and isinstance(theirs, type):
        kind = getattr(ours, "kind", _sparse_constructors().MatrixClass)
        made = kind(theirs, place.rpartition(".")[0], ours)
        STAND_INS[made] = theirs
        return made
    if name.startswith("stats.") and not inspect.isroutine(theirs):
        made = _of_stats(place, theirs)
        return theirs if made is None else made
    if isinstance(theirs, type) and ours is not None:
        is_derived = isinstance(ours, type) and issubclass(ours, theirs)
        made = ours if is_derived else ours(theirs, place.rpartition(".")[0])
        STAND_INS[made] = theirs
        return made
    if ours is None and (isinstance(theirs, np.ufunc) or not inspect.isroutine(theirs)):
        return theirs
    key = id(theirs), ours is None
    if (held := _made.get(key)) is not None:
        return held
    is_plain = _asking(name, ours)
    operands = theirs.nin if _is_by_protocol(theirs, ours) else None

    @functools.wraps(theirs)
    def function(*args, **kwargs):
        if is_plain(args) and (not kwargs or is_plain(kwargs.values())):
            return theirs(*args, **kwargs)
        if ours is None:
            raise without_derivative(name, args, kwargs)
        if operands is not None and (kwargs or len(args) > operands):  # as out= and where=
            return theirs(*map(unlisted, args), **kwargs)
        return ours(*args, **kwargs)

    function.__doc__ = with_note(theirs.__doc__, _note(name))
    function.__module__, _, function.__name__ = place.rpartition(".")
    function.__qualname__ = function.__name__
    vars(function).update({one: getattr(ours, one, None) for one in _TOLD})
    STAND_INS[function] = theirs
    return _made.setdefault(key, function)
