"""Python text parsed."""

from __future__ import annotations

import ast
from typing import Any

#: How often text is parsed before an error of the interpreter itself counts.
_TIMES = 20


def statements_in(text: str | bytes) -> ast.Module:
    """The statements of a text."""
    return _parsed(text, "exec")


def expression_in(text: str) -> ast.expr:
    """The one expression of a text."""
    return _parsed(text, "eval").body


def _parsed(text: str | bytes, mode: str) -> Any:
    """What `ast.parse` gives.

    Python 3.11 counts the depth of trees for all threads together: it raises SystemError where
    another thread, or a finalizer, parses something meanwhile.
    """
    for _ in range(_TIMES):
        try:
            return ast.parse(text, mode=mode)
        except SystemError:
            continue
    return ast.parse(text, mode=mode)
