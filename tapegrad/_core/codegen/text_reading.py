"""Statements of generated text: what a helper's are, and what they assign."""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import Any

from .. import IMPORTED, PACKAGE
from .parsing import statements_in, text_of


@functools.cache
def read_helper(helper: Any) -> tuple[ast.FunctionDef, dict[str, Any]]:
    """The text of a helper, and the names in its scope."""
    function = helper.py_func
    (node,) = statements_in(text_of(function)).body
    _require_unchanged(Path(function.__code__.co_filename))
    assert isinstance(node, ast.FunctionDef)
    closed = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return node, _Scope(function.__globals__, {name: cell.cell_contents for name, cell in closed})


def _require_unchanged(path: Path) -> None:
    """Raise an error if a file of the package is another one than Python has imported."""
    if PACKAGE in path.parents and path.stat().st_ctime_ns > IMPORTED:
        raise RuntimeError(
            f"tapegrad: {path} has changed since it was imported, and what is compiled from it "
            "would be something else; start Python again"
        )


class _Scope(dict):
    """The names around a function: those of its module, which may be made when asked for."""

    def __init__(self, module: dict[str, Any], closed: dict[str, Any]):
        super().__init__(closed)
        self._module = module

    def __missing__(self, name: str) -> Any:
        return self._module[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._module


@functools.lru_cache(256)
def is_expression(node: ast.FunctionDef) -> bool:
    """Whether a function is a few assignments and a result: it is inlined."""
    *first, last = [one for one in node.body if not is_docstring(one)]
    return isinstance(last, ast.Return) and all(
        isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) for one in first
    )


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def assigned(body: list[ast.stmt]) -> list[str]:
    """The variables that statements assign, in order."""
    found: dict[str, None] = {}
    waiting: list[ast.AST] = [*reversed(body)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            found[node.id] = None
        elif isinstance(node, ast.Assign):
            waiting += node.targets
        elif isinstance(node, (ast.For, ast.AugAssign)):
            waiting.append(node.target)
        elif isinstance(node, ast.Tuple):
            waiting += node.elts
        if isinstance(node, (ast.For, ast.While, ast.If)):
            waiting += [*node.orelse, *reversed(node.body)]
    return list(found)
