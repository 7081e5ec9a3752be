"""Calls: functions that are followed, replaced, or of which no result is read."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import io
import logging
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.config import config
from ..._core.tensor.dependencies import (
    Checked,
    Contents,
    method_dependencies,
    partial_dependencies,
)
from ..._entering.stand_ins import stand_in
from . import outside_changes, prelude, recorded_calls
from .access import special_method
from .builtin_functions import BUILTINS, method_of
from .forms import (
    NONE,
    Array,
    Form,
    Function,
    Known,
    Method,
    Number,
    Raises,
    Ref,
    Refused,
    Unfollowed,
    described,
    is_plain,
)
from .numbers import folded, is_float, is_tensor
from .numpy_functions import handler_of
from .outside_changes import TEXT, WRITERS, combined, counted, is_container, line_of
from .recorded_calls import Parametrised

# --------------------------------------------------------------------------------------------------
# Calls that write texts, read clocks, or take what is not followed: no result depends on them.


#: Functions of values that are not followed: they change nothing.
_OF_NUMBERS = (abs, bool, divmod, float, int, isinstance, len, max, min, round, sum)
_OF_ARRAYS = (np.mean, np.sum, np.max, np.min, np.std, np.var, np.median)
_COPIES = (list, tuple, dict, set, frozenset, sorted)
_CLOCKS = (time.time, time.perf_counter, time.monotonic, time.process_time)
_TEXTS = (str, repr, format)
_WRITING = ("write", "writelines", "flush")
_OUR_FILES = ("numpy", "scipy", "tapegrad", "numba", "builtins", "math")


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
    if (getattr(target, "__module__", "") or "").split(".")[0] in _OUR_FILES:
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


# --- Calls: functions that are followed, and those that are replaced ------------------------------


_signature = functools.lru_cache(1024)(inspect.signature)
_OURS = ("numpy", "scipy", "tapegrad", "numba")


def called(s, function: Form, args: list[Form], kwargs: dict[str, Form]):
    """`function(*args, **kwargs)`: a form, or a function to be followed."""
    if isinstance(function, Function):
        return s.inline(function, args, kwargs)
    if isinstance(function, Method):
        return _method(s, function, args, kwargs)
    if isinstance(function, Ref) and s.reader.contents(function).what == "instance":
        return _method(s, Method(function, "__call__"), args, kwargs)
    if not isinstance(function, Known):
        raise Refused(f"it calls {described(function)}")
    target = (function := _entered(function)).value
    if (made := of_call(s.reader, target, args, kwargs)) is not None:
        return made
    if (made := _of_scipy(s, function, args, kwargs)) is not None:
        return made
    if isinstance(target, types.MethodType):
        owner = s.reader.outside(target.__self__)
        return called(s, Known(target.__func__), [owner, *args], kwargs)
    if isinstance(target, functools.partial):
        s.reader.dependencies += held_by_partial(target)
        bound = {name: s.reader.outside(one) for name, one in target.keywords.items()}
        first = [s.reader.outside(one) for one in target.args]
        return called(s, Known(target.func), [*first, *args], {**bound, **kwargs})
    if hasattr(type(target), "_method_for"):
        own = [_own(one) for one in args], {name: _own(one) for name, one in kwargs.items()}
        return called(s, Known(_inside(target)), *own)
    made = _by_table(s, target, args, kwargs)
    if made is not None:
        return made
    if isinstance(target, types.FunctionType) and _is_users(target):
        return s.inline(function, args, kwargs)
    if isinstance(target, type) and _is_plain_class(target):
        return _instance(s, target, args, kwargs)
    if (method := special_method(s.reader, function, "__call__")) is not None:
        return called(s, method, args, kwargs)
    raise Refused(f"it calls {getattr(target, '__qualname__', target)!s}, which is not known here")


def _of_scipy(s, function: Known, args: list[Form], kwargs: dict[str, Form]):
    """A call of a function of SciPy, or of an object that takes parameters; None for others."""
    target = function.value
    if recorded_calls.can_record(target):
        made = _by_table(s, target, args, kwargs)
        return recorded_calls.of_call(s, target, args, kwargs) if made is None else made
    if getattr(type(target), "takes_parameters", False):
        return Parametrised(function, tuple(args), (*kwargs,), (*kwargs.values(),))
    return None


def _entered(function: Known) -> Known:
    """The stand-in of a function, where the functions of users are entered."""
    is_builtin = getattr(function.value, "__module__", None) == "builtins"
    if not config.enter or is_builtin or isinstance(function.value, type):
        return function
    if isinstance(function.value, types.MethodType):
        made = recorded_calls.method_entered(function.value)
    else:
        made = stand_in(function.value)
    return function if made is None else Known(getattr(made, "followed", made))


def held_by_partial(partial: functools.partial) -> list[Checked]:
    """What a functools.partial holds; its keywords can be changed in place."""
    return [*partial_dependencies(partial), Contents.of(partial.keywords, "keywords")]


def _inside(compiled) -> Any:
    """The function inside a compiled one, which has `_method_for`, see `method_of_compiled`."""
    if isinstance(getattr(compiled, "__func__", None), types.FunctionType):
        return types.MethodType(compiled.__func__, compiled.__self__)
    if getattr(compiled, "_kind", "") != "value":
        raise Refused("it calls a compiled gradient")
    return compiled._f


def _own(form: Form) -> Form:
    """An argument of a compiled function, whose writes are not visible to the caller."""
    if isinstance(form, Array):
        return dataclasses.replace(form, writable=False)
    if isinstance(form, (Number, Known)):
        return form
    raise Refused(f"it calls a compiled function with {described(form)}")


def _instance(s, target: type, args: list[Form], kwargs: dict[str, Form]):
    """An instance of a user's class."""
    s.reader.dependencies += method_dependencies(target, "__init__")
    made = s.reader.make(s.site, "instance", (target, ()), ())
    if _init_of(target) is object.__init__:
        if args or kwargs:
            raise Raises("TypeError: arguments of a class without __init__")
        return made
    call = s.inline(Known(_init_of(target)), [made, *args], kwargs)
    return dataclasses.replace(call, result=made)


def _init_of(target: type) -> Any:
    return inspect.getattr_static(target, "__init__")


def _is_plain_class(target: type) -> bool:
    """Whether instances of a user's class are what its `__init__` makes them."""
    own = (object.__new__, object.__getattribute__, object.__setattr__, type)
    has = (target.__new__, target.__getattribute__, target.__setattr__, type(target))
    init = _init_of(target)
    simple = init is object.__init__ or isinstance(init, types.FunctionType)
    return (
        has == own
        and simple
        and target.__module__ != "builtins"
        and not hasattr(target, "__slots__")
    )


def _is_users(target) -> bool:
    module = (getattr(target, "__module__", "") or "").split(".")[0]
    return module not in _OURS or target.__globals__ is vars(prelude)


def _by_table(s, target, args, kwargs):
    try:
        handler = BUILTINS.get(target) or handler_of(target)
    except TypeError:
        return None
    if handler is None:
        return None
    name = getattr(target, "__name__", target)
    return handled(s, name, handler, args, kwargs)


def handled(s, name, handler: Callable, args: list, kwargs: dict):
    """The result of a handler for a call; refused if it does not take the arguments."""
    try:
        _signature(handler).bind(s, *args, **kwargs)
    except TypeError as error:
        raise Refused(
            f"{name} is called with arguments that are not known here ({error})"
        ) from None
    return handler(s, *args, **kwargs)


def _method(s, method: Method, args: list, kwargs: dict):
    owner, name = method.owner, method.name
    if isinstance(owner, Parametrised):
        return _of_parametrised(s, owner, name, args, kwargs)
    if name == "setdefault" and outside_changes.sets_default(s.reader, owner, args):
        name = "get"
    if outside_changes.is_container(owner) or outside_changes.is_changing(s.reader, owner, name):
        return outside_changes.method(s.reader, owner, name, args, kwargs)
    if is_float(owner) and not is_tensor(owner) and name == "detach":  # after one round
        return Unfollowed("detach() of a number that may be one of Python's", True)
    if not (isinstance(owner, Ref) and s.reader.contents(owner).what == "instance"):
        return handled(s, name, method_of(s.reader, owner, name), [owner, *args], kwargs)
    kind = s.reader.contents(owner).keys[0]
    found = inspect.getattr_static(kind, name)
    if isinstance(found, staticmethod):
        return called(s, Known(found.__func__), args, kwargs)
    if not isinstance(found, types.FunctionType):
        raise Refused(f"the attribute {name} of a class is no plain method")
    s.reader.dependencies += method_dependencies(kind, name)
    return called(s, Known(found), [owner, *args], kwargs)


def _of_parametrised(s, owner: Parametrised, name: str, args: list, kwargs: dict):
    """A method of an object with parameters: that of the one without, which takes them last."""
    found = getattr(owner.owner.value, name, None)
    given = len(args) + len(kwargs)
    if not recorded_calls.can_record(found) or given > recorded_calls.takes_point(found):
        raise Refused(f"it calls the method {name} of an object with parameters")
    every = [*args, *kwargs.values(), *owner.args]
    return called(s, Known(found), every, dict(zip(owner.names, owner.named, strict=True)))
