"""Python text parsed."""

from __future__ import annotations

import ast
import contextlib
import inspect
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

from . import collection

#: How often text is parsed before an error of the interpreter itself counts.
_TIMES = 20

#: The operations of the table that signs of arithmetic stand for.
ARITHMETIC: dict[type, str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
}

_T = TypeVar("_T")


def statements_in(text: str | bytes) -> ast.Module:
    """The statements of a text."""
    return undisturbed(lambda: ast.parse(text, mode="exec"))


def expression_in(text: str) -> ast.expr:
    """The one expression of a text."""
    made: Any = undisturbed(lambda: ast.parse(text, mode="eval"))
    return made.body


def text_of(function: Any) -> str:
    """The text of a function, or of a class, which `inspect` parses the file of."""
    return textwrap.dedent(undisturbed(lambda: inspect.getsource(function)))


def undisturbed(parse: Callable[[], _T]) -> _T:
    """What a call of the parser gives.

    Python 3.11 counts the depth of trees for all threads together: it raises SystemError where
    another thread, or a finalizer, parses something meanwhile. Collections let threads in there.
    """
    with contextlib.suppress(SystemError):
        return parse()
    for _ in range(_TIMES):
        with contextlib.suppress(SystemError), collection.paused():
            return parse()
    return parse()
