"""The modules of series, each from NumPy's: functions, and the class."""

from __future__ import annotations

import types

from numpy.polynomial import _polybase

import tapegrad.numpy as stand_in

from ._rebuilt import plain, rebuilt_class, space_of
from .polyutils import FUNCTIONS

_BASE = {**vars(_polybase), "np": stand_in, "pu": FUNCTIONS}


def _as_numpys(series):
    """The series of NumPy's class with the same values."""
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


def _mixed(kind: type, theirs: type, name: str) -> None:
    """Let an operation of a series take one of NumPy's own class, which is converted."""
    own, reflected = getattr(kind, f"__{name}__"), getattr(kind, f"__r{name}__")

    def converted(other):
        if isinstance(other, theirs) and not isinstance(other, kind):
            return kind(other.coef, other.domain, other.window, other.symbol)
        return other

    def method(self, other):
        return own(self, converted(other))

    def reflected_method(self, other):
        other = converted(other)
        return own(other, self) if isinstance(other, kind) else reflected(self, other)

    setattr(kind, f"__{name}__", method)
    setattr(kind, f"__r{name}__", reflected_method)


def fill(space: dict, theirs: types.ModuleType, kind: str) -> None:
    """Put the public names of a module of series into the namespace of ours; `kind` its class."""
    found = space_of(theirs, space["__name__"], pu=FUNCTIONS)
    numpys = getattr(theirs, kind)
    found[kind] = rebuilt_class(numpys, found, _polybase.ABCPolyBase, _BASE, **_TEXT)
    for name in ("add", "sub", "mul", "divmod", "floordiv", "mod"):
        _mixed(found[kind], numpys, name)
    for name in theirs.__all__:
        is_trim = name.endswith("trim")
        space[name] = FUNCTIONS.trimcoef if is_trim else found[name]
    space["__all__"] = list(theirs.__all__)
