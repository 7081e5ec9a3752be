"""Arrays that are the same in each call: functions of known numbers, called while reading."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import Raises, Refused
from .forms import Form, Known, Ref, Tuple, described

#: Functions of NumPy that make arrays of numbers.
_NAMES = "arange linspace logspace geomspace eye identity tri".split()


def value_of(s, form: Form) -> Any:
    """The object that a form is; Refused where a call computes it."""
    if isinstance(form, Known):
        return form.value
    if isinstance(form, Tuple):
        return tuple([value_of(s, one) for one in form.items])
    if isinstance(form, Ref) and form.what == "list":
        return [value_of(s, one) for one in s.reader.contents(form).items]
    raise Refused(f"an array made of {described(form)}")


def made(s, name: str, *args: Form, **kwargs: Form) -> Form:
    """The array that a function of NumPy makes; the graph does not change it."""
    values = [value_of(s, one) for one in args]
    named = {key: value_of(s, one) for key, one in kwargs.items()}
    try:
        array = getattr(np, name)(*values, **named)
    except Exception as error:
        raise Raises(f"{type(error).__name__}: {error}") from None
    return s.reader.constant((name, repr(values), repr(named)), array)


def _creator(name: str) -> Callable:
    def handler(s, *args, **kwargs):
        return made(s, name, *args, **kwargs)

    return handler


CREATORS: dict[str, Callable] = {name: _creator(name) for name in _NAMES}
