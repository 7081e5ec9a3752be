"""The modules of series, each from NumPy's: functions, and the class."""

from __future__ import annotations

import types

from numpy.polynomial import _polybase

import tapegrad.numpy as stand_in

from ._rebuilt import plain, rebuilt_class, space_of
from .polyutils import FUNCTIONS

_BASE = {**vars(_polybase), "np": stand_in, "pu": FUNCTIONS}


def _as_numpys(series):
    """The series of NumPy's class that has the values."""
    theirs = type(series).__mro__[1]
    parts = plain(series.coef), plain(series.domain), plain(series.window)
    return theirs(*parts, symbol=series.symbol)


#: Text is that of the values.
_TEXT = {
    "__repr__": lambda self: repr(_as_numpys(self)),
    "__str__": lambda self: str(_as_numpys(self)),
    "__format__": lambda self, layout: format(_as_numpys(self), layout),
    "_repr_latex_": lambda self: _as_numpys(self)._repr_latex_(),
}


def fill(space: dict, theirs: types.ModuleType, kind: str) -> None:
    """Put the public names of a module of series into the namespace of ours; `kind` its class."""
    found = space_of(theirs, space["__name__"], pu=FUNCTIONS)
    found[kind] = rebuilt_class(getattr(theirs, kind), found, _polybase.ABCPolyBase, _BASE, **_TEXT)
    for name in theirs.__all__:
        is_trim = name.endswith("trim")
        space[name] = FUNCTIONS.trimcoef if is_trim else found[name]
    space["__all__"] = list(theirs.__all__)
