"""Registration of functions: as NumPy's function on a tensor, as a method, as `tg.name`."""

from __future__ import annotations

import numpy as np

from . import runtime as rt
from .complex_functions import OF_COMPLEX, taking_complex
from .docstrings import completed

#: NumPy's (or SciPy's) function → ours, for `__array_function__` and `__array_ufunc__`.
OF_NUMPY: dict = {}
#: Names at top level.
PUBLIC: dict = {}
#: Functions of `tapegrad.numpy` → the functions of NumPy that they replace.
STAND_INS: dict = {}
#: Public functions by name, those at top level first; modules of others add theirs.
SPACES: list[dict] = [PUBLIC]


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
