"""How a function becomes known: as NumPy's function on a tensor, as a method, as `tg.name`."""

from __future__ import annotations

import numpy as np

from . import runtime as rt

#: NumPy's (or SciPy's) function → ours, for `__array_function__` and `__array_ufunc__`.
OF_NUMPY: dict = {}
#: Names at top level.
PUBLIC: dict = {}
#: Functions of `tapegrad.numpy` → NumPy's functions that they stand for.
STAND_INS: dict = {}
#: Public functions by name, those at top level first; modules of others add theirs.
SPACES: list[dict] = [PUBLIC]


def function(*numpy_functions, method: str | None = None, public: str | None = None):
    """Register a function of tensors.

    `numpy_functions` are those it stands for (names in `numpy`, or function objects); with
    `method` it is a method of that name; its public name is its own unless given.
    """

    def register(ours):
        for name in numpy_functions:
            theirs = name
            if isinstance(name, str):
                theirs = np
                for part in name.split("."):
                    theirs = getattr(theirs, part, None)
            if theirs is not None:
                OF_NUMPY[theirs] = ours
        if method:
            setattr(rt.Tensor, method, ours)
        PUBLIC[public or ours.__name__] = ours
        return ours

    return register
