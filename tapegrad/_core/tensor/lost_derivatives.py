"""Errors for conversions of recorded tensors to plain arrays or numbers, which lose derivatives.

Each names the user's line and what to change: most often the import of NumPy. The stand-in
`tapegrad.numpy` keeps the derivative where NumPy does not dispatch.
"""

from __future__ import annotations

import types

import numpy as np

from . import callers
from . import runtime as rt
from .refused_derivatives import lost_derivative
from .registry import PUBLIC


class PlainAsked(TypeError):
    """The error that functions of `tapegrad.numpy` catch, where NumPy asks for a plain value."""


_IMPORT = "`import tapegrad.numpy as np` in place of `import numpy as np`"
_TAKEN = (
    "tapegrad.numpy: an argument is recorded, and is taken as a plain array, in which its "
    "derivative would be lost; use other operations on it, or t.detach() if no derivative is needed"
)
_PLAIN = "t.detach().numpy() if no derivative is needed"

#: Functions of `math` by NumPy's names, or SciPy's, where those differ.
_RENAMED = dict(
    asin="np.arcsin",
    acos="np.arccos",
    atan="np.arctan",
    atan2="np.arctan2",
    asinh="np.arcsinh",
    acosh="np.arccosh",
    atanh="np.arctanh",
    pow="np.power",
    fsum="np.sum",
    sumprod="np.dot",
    dist="np.linalg.norm",
    erf="scipy.special.erf",
    erfc="scipy.special.erfc",
    lgamma="scipy.special.gammaln",
)


def as_array(frame: types.FrameType, tensor) -> TypeError:
    """The error if a frame requests the array of a recorded tensor."""
    if callers.asks_for_stand_in(frame):
        return PlainAsked(_TAKEN)
    if callers.writes_item(frame) and callers.container_advice(frame) is None:
        return written(tensor)
    line, user = callers.users_line(), callers.users_frame()
    scipy = callers.function_of_scipy(frame)
    text = (
        "tapegrad: a recorded tensor cannot become a plain NumPy array, since its derivative would "
        f"be lost ({line}); "
    )
    holder = callers.container_advice(frame)
    if holder is not None:
        text += f"{holder}, or "
    elif scipy is not None and callers.imports(user, "tapegrad.scipy"):
        module, name = scipy
        text += (
            f"tapegrad.{module}.{name}() has no derivative yet: compute it with functions of "
            "tapegrad, declare its derivative with tg.custom_vjp, or use "
        )
    elif scipy is not None:
        module, name = scipy
        text += (
            f"{name}() of {module} takes plain arrays: use `from tapegrad.scipy import "
            f"{module.removeprefix('scipy.')}`, which keeps the derivative or names what does, or "
        )
    elif callers.imports(user, "tapegrad.numpy"):
        text += (
            "this function takes plain arrays: use operations on the tensor, or functions of "
            "tapegrad.numpy, or "
        )
    else:
        text += f"{_IMPORT} keeps it, in lists, conversions and arrays that are filled; or use "
    return lost_derivative(text + _PLAIN, tensor)


def written(value, name: str = "") -> TypeError:
    """The error where a recorded value would be written to a plain array."""
    lost = (
        f"tapegrad{name}: a recorded tensor cannot be written to a plain NumPy array "
        f"({callers.users_line()}), since its derivative would be lost; make the array "
    )
    has_stand_in = callers.imports(callers.users_frame(), "tapegrad.numpy")
    if has_stand_in and not rt.in_transform():
        how = "with tg.zeros: outside of transforms arrays of tapegrad.numpy are NumPy's"
    elif has_stand_in:
        how = "inside the function with np.zeros, or copy it there with np.array(a)"
    else:
        how = f"with {_IMPORT}, or with tg.zeros_like"
    return lost_derivative(f"{lost}{how}, or write t.detach() if no derivative is needed", value)


def as_float(frame: types.FrameType, tensor, kind: str = "float") -> TypeError:
    """The error where a frame takes the number of a recorded tensor by float(), or another kind."""
    if callers.asks_for_stand_in(frame):
        return PlainAsked(_TAKEN)
    taken, instead = _advice(frame)
    taken = taken.replace("float()", f"{kind}()")
    return lost_derivative(
        f"tapegrad: {taken} of a recorded tensor loses its derivative inside a transform "
        f"({callers.users_line()}); use {instead}, or t.item() for the number alone",
        tensor,
    )


def _advice(frame: types.FrameType) -> tuple[str, str]:
    """The function that takes the number at a frame, as far as known, and its replacement."""
    name = callers.function_of_math(frame)
    if name is not None:
        known = _RENAMED.get(name) or (f"np.{name}" if hasattr(np, name) else None)
        known = known or (f"tg.{name}" if name in PUBLIC else None)
        door = "`import tapegrad.math as math`"
        return f"math.{name}()", f"{known} on the tensor, or {door}" if known else door
    function = callers.library_function(frame)
    if function is not None:
        scipy = callers.function_of_scipy(frame)
        taken = f"float(), called by {function}(),"
        if scipy is not None and not callers.imports(callers.users_frame(), "tapegrad.scipy"):
            module = scipy[0].removeprefix("scipy.")
            return taken, f"`from tapegrad.scipy import {module}`, NumPy's functions on the tensor"
        return taken, "the tensor itself, or NumPy's functions on it"
    if callers.imports(callers.users_frame(), "tapegrad.numpy"):
        return "float()", "np.float64(t), which keeps it, the tensor itself, or NumPy's functions"
    return "float()", (
        "the tensor itself, NumPy's functions on it, or np.float64 and np.array of "
        "`import tapegrad.numpy as np`"
    )
