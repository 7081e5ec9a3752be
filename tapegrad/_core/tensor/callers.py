"""The code that takes a number out of a tensor: read from its frame.

Python only asks a tensor for `float()`; the frame's instructions distinguish `float(t)` from `y[i]
= t`, `"%f" % t` and `math.sin(t)`.
"""

from __future__ import annotations

import dis
import functools
import math
import os
import sys
import sysconfig
import types
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np

from .. import PACKAGE
from ..codegen import compat
from .packages import outer
from .refusal_advice import HOLDERS
from .scipy_names import scipy_name
from .values import CONTAINERS

#: Code between a tensor and the user's line: this package, NumPy, SciPy, containers of arrays, and
#: Python's own library.
_PACKAGE = str(PACKAGE) + os.sep
_STAND_INS = str(PACKAGE / "numpy") + os.sep
_NUMPY = Path(np.__file__).resolve().parent
_NUMERIC = tuple(
    str(_NUMPY.parent / name) + os.sep
    for name in ("numpy", "scipy", "numba", "matplotlib", "mpl_toolkits", *sorted(CONTAINERS))
)
_SHOWING = (_NUMERIC[0] + "testing" + os.sep, str(_NUMPY / "_core" / "arrayprint.py"))
_STANDARD = sysconfig.get_paths()["stdlib"] + os.sep
_JSON = os.path.join(_STANDARD, "json", "encoder.py")
_PACKAGES = tuple(os.sep + name + os.sep for name in ("site-packages", "dist-packages"))
_INSTALLED = tuple(_STANDARD + name for name in ("site-packages", "dist-packages"))

#: How classes of compiled functions end in code that Cython and others have made.
_OF_CYTHON = ("cython_function_or_method", "fused_cython_function", "nb_func", "fortran")
_STORES = [dis.opmap.get(name) for name in ("STORE_SUBSCR", "STORE_SLICE")]  # Python 3.12
_REMAINDERS = [dis.opmap.get(name) for name in ("BINARY_MODULO", "INPLACE_MODULO")]  # Python 3.10
_BINARY = dis.opmap.get("BINARY_OP")
_NAMES_LOADED = ("LOAD_GLOBAL", "LOAD_NAME")
_REMAINDER_NUMBERS = (6, 19)  # the codes of `%` and `%=` among binary operators


class _Asked:
    """Stands for a tensor, and says where it was asked for a number."""

    def __float__(self):
        frame = sys._getframe(1)
        self.seen = _stores(frame), _takes_remainder(frame)
        return 0.0


def _bytecode_is_known() -> bool:
    """Whether places of a write and of a format are found, and `float()` is neither."""
    asked, seen = _Asked(), []
    np.zeros(1)[0] = asked
    seen.append(asked.seen)
    "%f" % asked  # noqa: B018, UP031
    seen.append(asked.seen)
    float(asked)
    return [*seen, asked.seen] == [(True, False), (False, True), (False, False)]


def writes_item(frame: types.FrameType) -> bool:
    """Whether a frame is at `y[i] = t`."""
    return compat.holds("cpython-bytecode", _bytecode_is_known) and _stores(frame)


def formats(frame: types.FrameType) -> bool:
    """Whether a frame is at `text % t`; a tensor's own `%` asks for no number."""
    return compat.holds("cpython-bytecode", _bytecode_is_known) and _takes_remainder(frame)


def _stores(frame: types.FrameType) -> bool:
    return frame.f_code.co_code[frame.f_lasti] in _STORES


def _takes_remainder(frame: types.FrameType) -> bool:
    instruction, argument = frame.f_code.co_code[frame.f_lasti : frame.f_lasti + 2]
    return instruction in _REMAINDERS or (instruction == _BINARY and argument in _REMAINDER_NUMBERS)


def is_users(frame: types.FrameType | None) -> bool:
    """Whether code that asks for the class of a tensor takes it for data: not what copies objects.

    NumPy's code is written for tensors, except for `isscalar`.
    """
    while frame is not None and abstract_class(frame) is not None:
        frame = frame.f_back
    if frame is None or frame.f_globals.get("__name__") in (
        "copy",
        "copyreg",
        "fractions",
        "pickle",
    ):
        return False
    file = frame.f_code.co_filename
    return not file.startswith((_PACKAGE, *_NUMERIC)) or frame.f_code.co_name == "isscalar"


def is_ours(frame: types.FrameType) -> bool:
    """Whether a frame runs code of this package."""
    return frame.f_code.co_filename.startswith(_PACKAGE)


def package_of(frame: types.FrameType | None) -> str | None:
    """The installed package whose code a frame runs; None for this one, NumPy and its like."""
    if frame is None or not _is_of_package(frame.f_code.co_filename):
        return None
    return outer(frame.f_globals.get("__name__", ""))


@functools.lru_cache(maxsize=1024)
def _is_of_package(file: str) -> bool:
    is_installed = any(part in file for part in _PACKAGES)
    return is_installed and not file.startswith((_PACKAGE, *_NUMERIC[:3]))


def is_unaware(frame: types.FrameType) -> bool:
    """Whether code of an installed package runs that does not know of this one.

    It asks for numbers as it asks NumPy's arrays, and not for values without derivatives.
    """
    return package_of(frame) is not None and not imports(frame, PACKAGE.name)


def function_of_extension(frame: types.FrameType) -> str | None:
    """The compiled function of a module that a frame is calling: the last that its line has named.

    Those of Python's built-in names and of NumPy are none.
    """
    known: dict[str, Any] = {**frame.f_globals, **frame.f_locals}
    found, owner = None, None
    for name in _names_before(frame):
        value = getattr(owner, name, None) if owner is not None else known.get(name)
        owner = value if isinstance(value, types.ModuleType) else None
        module, kind = getattr(value, "__module__", None), type(value)
        is_compiled = kind is types.BuiltinFunctionType or kind.__name__.endswith(_OF_CYTHON)
        if is_compiled and isinstance(module, str) and outer(module) not in ("builtins", "numpy"):
            found = f"{module}.{getattr(value, '__name__', name)}"
    return found


def is_numbas(frame: types.FrameType) -> bool:
    """Whether a frame runs Numba's code, or calls a function that Numba has compiled."""
    if outer(frame.f_globals.get("__name__") or "") == "numba":
        return True
    owners = [frame.f_locals, frame.f_globals]
    named = [known.get(name) for name in _names_before(frame) for known in owners]
    return any([outer(type(one).__module__ or "") == "numba" for one in named])


def abstract_class(frame: types.FrameType | None) -> type | None:
    """The abstract base class that a frame compares the class of an object with."""
    is_abc = frame is not None and frame.f_globals.get("__name__") == "abc"
    return frame.f_locals.get("cls") if frame is not None and is_abc else None


def is_library(frame: types.FrameType) -> bool:
    file = frame.f_code.co_filename
    standard = file.startswith(_STANDARD) and not file.startswith(_INSTALLED)
    return standard or file.startswith((*_NUMERIC, "<frozen "))


def is_stand_in(frame: types.FrameType | None, through: tuple[str, ...] = ()) -> bool:
    """Whether a function of `tapegrad.numpy` is the caller, perhaps through NumPy's Python code."""
    while frame is not None and not frame.f_code.co_filename.startswith(_STAND_INS):
        if not frame.f_code.co_filename.startswith((*_NUMERIC, *through)):
            return False
        frame = frame.f_back
    return frame is not None


def asks_for_stand_in(frame: types.FrameType | None) -> bool:
    """As `is_stand_in`, also through this package."""
    return is_stand_in(frame, (_PACKAGE,))


def users_line() -> str:
    """`file:line` of the innermost code that is neither this package's nor a library's."""
    frame = users_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "unknown"


def users_frame() -> types.FrameType | None:
    """The frame of the innermost code that is neither this package's nor a library's."""
    frame: types.FrameType | None = sys._getframe(1)
    first = None
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            first = first or frame
            if not is_library(frame):
                break
        frame = frame.f_back
    return frame or first


def imports(frame: types.FrameType | None, package: str) -> bool:
    """Whether the code of a frame has a package, or a module of it, under a global name."""
    found = [
        value.__name__ for value in frame_globals(frame) if isinstance(value, types.ModuleType)
    ]
    return any(f"{name}.".startswith(f"{package}.") for name in found)


def names_any(frame: types.FrameType, libraries: Collection[str]) -> bool:
    """Whether the code of a frame names a library, or a function or class of one."""
    loads = [one for one in dis.get_instructions(frame.f_code) if one.opname in _NAMES_LOADED]
    named = [frame.f_globals.get(one.argval) for one in loads]
    owners = [
        one.__name__ if isinstance(one, types.ModuleType) else getattr(one, "__module__", None)
        for one in named
    ]
    return any([isinstance(one, str) and outer(one) in libraries for one in owners])


def frame_globals(frame: types.FrameType | None) -> list:
    return [] if frame is None else [*frame.f_globals.values(), *frame.f_locals.values()]


def function_of_scipy(frame: types.FrameType | None) -> str | None:
    """The name below `scipy` of the function that the user has called, None for others."""
    found: list[types.FrameType] = []
    while frame is not None and is_library(frame):
        if frame.f_globals.get("__name__", "").startswith("scipy."):
            found.append(frame)
        frame = frame.f_back
    if not found:
        return None
    return scipy_name(found[::-1]) or found[-1].f_code.co_name


def container_advice(frame: types.FrameType | None) -> str | None:
    """The alternative to storing a recorded value in a container, if a frame does that."""
    while frame is not None and is_library(frame):
        name = frame.f_globals.get("__name__", "")
        for module, advice in HOLDERS.items():
            if name == module or name.startswith(module + "."):
                return advice
        frame = frame.f_back
    return None


def library_function(frame: types.FrameType) -> str | None:
    """The name of the library's function that a frame runs, None for the user's code."""
    return frame.f_code.co_name if is_library(frame) else None


def has_loaded(frame: types.FrameType, name: str) -> bool:
    """Whether the line of a frame has loaded a name, as in `a.dot(t)`."""
    return name in _names_before(frame)


def compares(frame: types.FrameType | None) -> bool:
    """Whether NumPy is comparing arrays: an error would count as unequal."""
    while frame is not None and _is_numpy(frame):
        if frame.f_code.co_name in ("array_equal", "array_equiv"):
            return True
        frame = frame.f_back
    return False


def shows(frame: types.FrameType, is_differentiated: Callable[[], bool]) -> bool:
    """Whether values that a frame reads are compared by `np.testing`, printed, or drawn.

    Matplotlib also computes: in a function that is differentiated it gets none.
    """
    while frame.f_code.co_filename.startswith(_PACKAGE) or _is_numpy(frame):
        if frame.f_code.co_filename.startswith(_SHOWING):
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return _is_matplotlib(frame.f_code.co_filename) and not is_differentiated()


def is_json(frame: types.FrameType) -> bool:
    """Whether `json` asks a frame for what it cannot write."""
    return frame.f_code.co_filename == _JSON


def _is_numpy(frame: types.FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_NUMERIC[0])


def _is_matplotlib(file: str) -> bool:
    module = sys.modules.get("matplotlib")
    if module is None or module.__file__ is None:
        return False
    folder = os.path.dirname(module.__file__)
    others = os.path.join(os.path.dirname(folder), "mpl_toolkits")
    return file.startswith((folder + os.sep, others + os.sep))


def function_of_math(frame: types.FrameType) -> str | None:
    """The function of `math` that a frame is calling: the last that its line has named so far."""
    known = {**frame.f_builtins, **frame.f_globals, **frame.f_locals}
    found, owner = None, None
    for name in _names_before(frame):
        value = known.get(name)
        if owner is math and callable(getattr(math, name, None)):
            found = name
        elif value is float or value is complex:
            found = None
        elif getattr(math, _name(value), None) is value and value is not None:
            found = _name(value)
        owner = value if isinstance(value, types.ModuleType) else None
    return found


def _names_before(frame: types.FrameType) -> list[str]:
    """Names that the line of a frame has loaded before the instruction that it is at."""
    code = frame.f_code
    spans = [(start, end) for start, end, line in code.co_lines() if line == frame.f_lineno]
    return [
        one.argval
        for one in dis.get_instructions(code)
        if one.offset < frame.f_lasti
        and any(start <= one.offset < end for start, end in spans)
        and one.opname.startswith("LOAD_")
        and one.opname != "LOAD_CONST"
        and isinstance(one.argval, str)
    ]


def _name(value) -> str:
    return value.__name__ if isinstance(value, types.BuiltinFunctionType) else ""
