"""Registration of functions: as NumPy's function on a tensor, as a method, as `tg.name`.

Some families of functions are imported when one of their functions is first used.
"""

from __future__ import annotations

import importlib
import types

import numpy as np

from ..ops.table import Pointwise, find, meant_by
from . import runtime as rt
from .complex_functions import OF_COMPLEX, taking_complex
from .docstrings import completed

#: NumPy's (or SciPy's) function → ours, for `__array_function__` and `__array_ufunc__`.
OF_NUMPY: dict = {}
#: Modules that are not imported yet, with the public names of their functions.
LATE: dict[str, tuple[str, ...]] = {}


def load_families() -> None:
    """Import the modules of all functions."""
    for module in list(LATE):
        _load(module)


def _load(module: str) -> None:
    importlib.import_module(module)
    LATE.pop(module, None)  # another thread may have been first


def _module_of(name: str) -> str | None:
    """The module of a public function that is not imported yet."""
    return next((module for module, names in list(LATE.items()) if name in names), None)


class Public(dict):
    """Functions by public name; those of late modules are imported when they are asked for."""

    def __missing__(self, name):
        if (module := _module_of(name)) is not None:
            _load(module)
        if not super().__contains__(name):  # another thread may have loaded it meanwhile
            raise KeyError(name)
        return self[name]

    def get(self, name, default=None):
        return self[name] if name in self else default

    def __contains__(self, name) -> bool:
        known = super().__contains__
        return known(name) or _module_of(name) is not None or known(name)

    def __iter__(self):
        load_families()
        return super().__iter__()

    def __len__(self) -> int:
        load_families()
        return super().__len__()

    def keys(self):
        load_families()
        return super().keys()

    def values(self):
        load_families()
        return super().values()

    def items(self):
        load_families()
        return super().items()

    def names_of(self, one) -> list[str]:
        """The names of a function whose module is imported."""
        return [name for name, other in super().items() if other is one]

    def early(self) -> list[str]:
        """The names of functions whose modules are imported already."""
        return list(super().keys())


#: Names at top level.
PUBLIC: Public = Public()
#: Functions of `tapegrad.numpy`, `math` and `scipy` → those that they replace.
STAND_INS: dict = {}
#: Public functions by name, those at top level first; modules of others add theirs.
SPACES: list[dict] = [PUBLIC]


def implementation(theirs):
    """Our function for one of NumPy's, whose module is imported for it; None if there is none.

    Late modules have the names of NumPy's functions.
    """
    found = OF_NUMPY.get(theirs)
    if found is not None:
        return found
    if (module := _module_of(getattr(theirs, "__name__", ""))) is not None:
        _load(module)
    return OF_NUMPY.get(theirs)  # another thread may have loaded it meanwhile


def theirs(function):
    """The function of NumPy, SciPy or `math` that one of ours stands for; any other as it is."""
    if not isinstance(function, types.FunctionType):
        return function
    found = STAND_INS.get(function) or getattr(np, function.__name__, None)
    is_ours = function in STAND_INS or (callable(found) and OF_NUMPY.get(found) is function)
    return found if is_ours else function


def declared_by(function) -> Pointwise | None:
    """The element-wise operation that a function is: of a library, one of ours, a user's."""
    declared = getattr(function, "declaration", None)
    if isinstance(declared, Pointwise):
        return declared
    function = theirs(function)
    if isinstance(function, types.FunctionType):
        op = find(function.__name__)
        if isinstance(op, Pointwise) and PUBLIC.get(op.name) is function:
            return op
    return meant_by(function)


def function(*numpy_functions, method: str | None = None, public: str | None = None, complex=None):
    """Register a function of tensors.

    `numpy_functions` are those that it implements (names in `numpy`, or function objects); with
    `method` it is a method of that name; its public name is its own unless given. `complex` is its
    treatment of complex operands (see `complex_functions`); without it, they are refused.
    """

    def register(ours):
        name = public or ours.__name__
        if complex is not None:
            OF_COMPLEX[name] = complex
        theirs_name = next((f"numpy.{one}" for one in numpy_functions if isinstance(one, str)), "")
        ours.__doc__ = completed(ours, theirs_name)
        ours = taking_complex(name, ours)
        for wanted in numpy_functions:
            theirs = wanted
            if isinstance(wanted, str):
                theirs = np
                for part in wanted.split("."):
                    theirs = getattr(theirs, part, None)
            if theirs is not None:
                OF_NUMPY[theirs] = ours
        if method:
            setattr(rt.Tensor, method, ours)
        PUBLIC[name] = ours
        return ours

    return register
