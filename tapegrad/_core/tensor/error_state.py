"""NumPy's error state (`np.errstate`, `np.seterr`) and warnings that are errors.

Values of recorded operations are computed in silence. While the state is *loud*, because it asks
for more than NumPy does by default, `tensor.observed` lets NumPy look at each operation as well.

NumPy keeps its state in a context variable, which is not asked for in each operation. Instead the
variable that `np.errstate` and `np.seterr` set is replaced by an object that notes loud states.
"""

from __future__ import annotations

import contextlib
import contextvars
import importlib
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..codegen import compat, forks

#: Loud states that are in force in any context: nothing else is looked at while this is 0.
count = 0
#: Called with each change of the count, and once when the first loud state is met.
on_change: list[Callable[[int], None]] = []
on_first: list[Callable[[], None]] = []
#: What is no louder than the default, except for underflow, which is ignored by default.
_QUIET = frozenset(("ignore", "warn"))
#: The text by which it is decided what filters do with NumPy's warnings.
_WARNING = "invalid value encountered in scalar divide"
_loud: contextvars.ContextVar[_Loud | None] = contextvars.ContextVar("tapegrad.loud", default=None)
#: Whether warnings are errors in the transform that is under way.
_raising = contextvars.ContextVar("tapegrad.raising", default=False)
_lock = forks.lock()
_filters: list = []
_filters_raise = False
_state: Any = None  # NumPy's variable, if it is the one that is assumed
_silence: Any = None
_read: Any = None  # NumPy's function that reads it


class _Loud:
    """A loud state, which counts as long as any context is in it.

    Copies of a context share it, as those of asyncio's tasks, and the context of a thread drops it
    when the thread ends.
    """

    __slots__ = ()

    def __init__(self):
        _change(1)

    def __del__(self, is_finalizing=sys.is_finalizing):
        if not is_finalizing():
            _change(-1)


class _Noting:
    """NumPy's variable for the functions that set it."""

    def __init__(self, variable):
        self._variable = variable

    def set(self, value):
        """Set NumPy's state; what `reset` takes."""
        token, was_loud = self._variable.set(value), _loud.get() is not None
        look()
        return token, was_loud

    def reset(self, token) -> None:
        own, was_loud = token if isinstance(token, tuple) else (token, True)  # True: not known
        self._variable.reset(own)
        if was_loud or _loud.get() is not None or _raising.get():  # else it is quiet, as before
            look()

    def __getattr__(self, name: str):
        return getattr(self._variable, name)


def watch() -> None:
    """Note loud states from now on, and one that is in force."""
    global _state, _silence, _read
    if _state is None and compat.holds("numpy-error-state", _probe):
        config, umath = _modules()
        _read = umath._get_extobj_dict
        _silence = umath._make_extobj(all="ignore")
        _state = umath._extobj_contextvar
        config._extobj_contextvar = _Noting(_state)
    look()


def _modules() -> list[Any]:
    """NumPy's module that sets its state, and the one that reads it; errors if there are none."""
    return [importlib.import_module(f"numpy._core.{name}") for name in ("_ufunc_config", "umath")]


def _probe() -> bool:
    config, umath = _modules()
    variable = config._extobj_contextvar
    if type(variable) is not contextvars.ContextVar or variable is not umath._extobj_contextvar:
        return False
    seen: list = []
    stub: Any = type("Stub", (), {"set": lambda _, x: seen.append(x), "reset": lambda _, x: None})()
    try:
        config._extobj_contextvar = stub
        with np.errstate(all="ignore"):
            pass
    finally:
        config._extobj_contextvar = variable
    token = variable.set(umath._make_extobj(all="ignore"))
    try:
        read = umath._get_extobj_dict()
        is_read = {kind: read[kind] for kind in np.geterr()} == np.geterr()
        return is_read and len(seen) == 1 and set(np.geterr().values()) == {"ignore"}
    finally:
        variable.reset(token)


def state_is_loud() -> bool:
    """Whether NumPy's state asks for more than by default."""
    how = np.geterr() if _read is None else _read()
    others = how["divide"], how["over"], how["invalid"]
    return how["under"] != "ignore" or not _QUIET.issuperset(others)


def is_loud() -> bool:
    """Whether NumPy is to look at operations of this thread."""
    return count > 0 and _loud.get() is not None


def _is_loud_now() -> bool:
    return state_is_loud() or (_raising.get() and "warn" in np.geterr().values())


def look() -> None:
    """Note whether the state of this context is loud now."""
    loud = _is_loud_now()
    if loud is (_loud.get() is None):
        _loud.set(_Loud() if loud else None)


def _change(step: int) -> None:
    global count
    with _lock:
        count += step
        while count and on_first:
            on_first.pop()()
    for call in on_change:
        call(step)


@contextlib.contextmanager
def silent():
    """Compute without NumPy's warnings and errors, and unobserved."""
    if _state is None:
        with np.errstate(all="ignore"):
            yield
        return
    state, loud = _state.set(_silence), _loud.set(None)
    try:
        yield
    finally:
        _loud.reset(loud)
        _state.reset(state)


class silence:  # noqa: N801
    """A context without NumPy's warnings and errors: `np.errstate(all="ignore")` in less time."""

    __slots__ = ("_held",)

    def __enter__(self) -> None:
        if _state is None:
            self._held = np.errstate(all="ignore")
            self._held.__enter__()
        else:
            self._held = _state.set(_silence)

    def __exit__(self, *error) -> None:
        if type(self._held) is np.errstate:
            self._held.__exit__(*error)
        else:
            _state.reset(self._held)


# --- warnings that are errors -------------------------------------------------------------------


def enter_transform() -> None:
    """Look, once for a transform, whether filters make NumPy's warnings errors."""
    global _filters, _filters_raise
    if warnings.filters != _filters:
        _filters_raise = _action() == "error"
        _filters = [*warnings.filters]
    if _filters_raise and _state is not None:
        _raising.set(True)
        look()


def leave_transform() -> None:
    if _raising.get():
        _raising.set(False)
        look()


def _action() -> str:
    """What filters do with a warning of NumPy's."""
    for action, text, category, module, line in list(warnings.filters):
        of_text = text is None or re.compile(text).match(_WARNING)
        if of_text and issubclass(RuntimeWarning, category) and module is None and not line:
            return action
    return "default"
