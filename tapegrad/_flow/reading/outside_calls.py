"""Calls that write texts, read clocks, or take what is not followed: no result depends on them."""

from __future__ import annotations

import dataclasses
import io
import logging
import time
import types

import numpy as np

from .errors import Refused
from .forms import NONE, Form, Known
from .numbers import folded
from .outside_changes import TEXT, WRITERS, combined, counted, is_container, line_of
from .unfollowed import Unfollowed, is_plain

#: Functions of values that are not followed: they change nothing.
_OF_NUMBERS = (abs, bool, divmod, float, int, isinstance, len, max, min, round, sum)
_OF_ARRAYS = (np.mean, np.sum, np.max, np.min, np.std, np.var, np.median)
_COPIES = (list, tuple, dict, set, frozenset, sorted)
_CLOCKS = (time.time, time.perf_counter, time.monotonic, time.process_time)
_TEXTS = (str, repr, format)
_WRITING = ("write", "writelines", "flush")
_OURS = ("numpy", "scipy", "tapegrad", "numba", "builtins", "math")


def of_call(reader, target, args: list[Form], kwargs: dict[str, Form]) -> Form | None:
    """The result of a call that writes a text, reads a clock, or takes what is not followed."""
    owner = getattr(target, "__self__", None)
    if target is print or _is_of_logging(target) or _writes(owner, target):
        return written(reader, f"calls {target.__name__}")
    if target is logging.getLogger and all(isinstance(form, Known) for form in args):
        return Known(target(*[form.value for form in args]))  # type: ignore[attr-defined]
    if _is_one(target, _CLOCKS):
        return Unfollowed("the time", True)
    if _is_one(target, _TEXTS) or isinstance(owner, str):
        is_fixed = all(isinstance(form, Known) and is_plain(form) for form in args) and not kwargs
        return folded(target, *[form.value for form in args]) if is_fixed else TEXT  # type: ignore[attr-defined]
    if target is isinstance and isinstance(args[0], Known):
        return None
    if _is_one(target, (len, bool)) and len(args) == 1 and is_container(args[0]):
        return counted(reader, args[0].value, target)  # type: ignore[attr-defined]
    found = combined(reader, *args, *kwargs.values())
    if found is None:
        return None
    if _is_one(target, _OF_NUMBERS) or getattr(target, "__module__", "") == "math":
        return dataclasses.replace(found, plain=True)
    is_ufunc = isinstance(target, np.ufunc) and "out" not in kwargs
    if is_ufunc or _is_one(target, _OF_ARRAYS + _COPIES):
        return dataclasses.replace(found, plain=False)
    if (getattr(target, "__module__", "") or "").split(".")[0] in _OURS:
        raise Refused(f"it calls {getattr(target, '__name__', target)} with {found.words}")
    return None


def _writes(owner, target) -> bool:
    """Whether a method writes a text to a log or a file; others may read the file."""
    is_file = isinstance(owner, io.IOBase)
    return isinstance(owner, WRITERS) and not (is_file and target.__name__ not in _WRITING)


def _is_one(target, among: tuple) -> bool:
    return any(target is one for one in among)


def _is_of_logging(target) -> bool:
    """Whether a function of the module logs a message."""
    is_function = isinstance(target, types.FunctionType) and target.__module__ == "logging"
    return is_function and hasattr(logging.Logger, target.__name__)


def written(reader, what: str) -> Form:
    """A text that is written somewhere."""
    reader.changes.texts.setdefault(line_of(reader), what)
    return NONE
