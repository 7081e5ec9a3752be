"""The statements of a module of the package, and where the names in them come from.

The text of a statement counts without comments, docstrings and types of arguments. More names are
taken to be used than are: those of local variables, too.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from .parsing import statements_in
from .source_files import path_of

#: A name, with those of attributes.
_NAMES = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
#: What stands for all names of a module, and for the statements that may define any.
ALL = "*"


class _Plain(ast.NodeTransformer):
    """Removes docstrings and the types of arguments and results."""

    def _visit_definition(self, node: Any) -> Any:
        self.generic_visit(node)
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return node

    def _visit_function(self, node: Any) -> Any:
        node.returns = None
        return self._visit_definition(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    visit_ClassDef = visit_Module = _visit_definition
    visit_FunctionDef = visit_AsyncFunctionDef = _visit_function


def plain(source: str | bytes) -> ast.Module:
    """The statements of a text without docstrings and types of arguments."""
    return _Plain().visit(statements_in(source))


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    """A statement and what is in it, but not in functions and classes."""
    yield node
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
        for inner in ast.iter_child_nodes(node):
            yield from _outside_functions(inner)


def _defined(statement: ast.stmt) -> set[str]:
    """The names that a statement defines or changes, `ALL` if that is not clear."""
    found = set()
    for node in _outside_functions(statement):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(ALL if node.name == "__getattr__" else node.name)
        elif isinstance(node, ast.Expr):
            found.add(ALL)
        elif isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
            while isinstance(node, (ast.Attribute, ast.Subscript)):
                node = node.value
            if not isinstance(node, (ast.Tuple, ast.List, ast.Starred)):
                found.add(node.id if isinstance(node, ast.Name) else ALL)
    return found


class Names:
    """What the names of a module, or of a text, stand for.

    `imports` has for each name modules of the package, and the name there or `ALL`; `stars` are
    modules of which all names are imported. `places` has for each name the numbers of the
    statements that define it, and `statements` the digest of each, and the names in it.
    """

    def __init__(self, imports=None, stars=(), places=None, statements=()):
        self.imports: dict[str, list[list[str]]] = imports or {}
        self.stars: list[str] = [*stars]
        self.places: dict[str, list[int]] = places or {}
        self.statements: list[list] = [*statements]

    @property
    def fields(self) -> list:
        """The arguments that make the same names, as JSON has them."""
        return [self.imports, self.stars, self.places, self.statements]

    def note_imports(self, tree: ast.AST, package: str = "") -> None:
        """Note all imports in statements, those in functions as well."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._import(alias.asname or alias.name.partition(".")[0], alias.name, ALL)
            elif isinstance(node, ast.ImportFrom):
                above = package.split(".")[: 1 - node.level or None] if node.level else []
                module = ".".join([*above, *filter(None, [node.module])])
                for alias in node.names:
                    self._import(alias.asname or alias.name, module, alias.name)

    def _import(self, name: str, module: str, there: str) -> None:
        if path_of(module) is None:  # not of the package: a definition by itself
            self._define([name], f"{module} {there}", [])
        elif name == ALL:
            self.stars.append(module)
        elif path_of(f"{module}.{there}") is not None:
            self.imports.setdefault(name, []).append([f"{module}.{there}", ALL])
        else:
            self.imports.setdefault(name, []).append([module, there])

    def note_statements(self, tree: ast.Module) -> None:
        """Note what the statements of a module define."""
        for statement in tree.body:
            if not isinstance(statement, (ast.Import, ast.ImportFrom)):
                text = ast.unparse(statement)
                self._define(_defined(statement), text, sorted({*_NAMES.findall(text)}))
        if not self.stars:  # other names are those of variables and of Python
            known = {*self.places, *self.imports}
            for one in self.statements:
                one[1] = [name for name in one[1] if name.partition(".")[0] in known]

    def _define(self, names: Iterable[str], text: str, inside: list[str]) -> None:
        for name in names:
            self.places.setdefault(name, []).append(len(self.statements))
        self.statements.append([hashlib.sha256(text.encode()).hexdigest(), inside])

    def elsewhere(self, name: str) -> Iterator[tuple[str, str]]:
        """The modules that a name, with its attributes, is taken from, and the names there."""
        first, _, rest = name.partition(".")
        for module, there in self.imports.get(first, ()):
            yield module, rest.partition(".")[0] or ALL if there == ALL else there
        if first not in self.imports and first not in self.places:
            yield from ((module, first) for module in self.stars)


def names_of(tree: ast.Module, package: str = "") -> Names:
    """The names of a module, which is in a package, or of a text."""
    made = Names()
    made.note_imports(tree, package)
    made.note_statements(tree)
    return made
