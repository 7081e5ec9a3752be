"""Sources of machine code: files of the package, their statements, what a text includes."""

from __future__ import annotations

import ast
import atexit
import contextlib
import functools
import hashlib
import inspect
import json
import re
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from .. import IMPORTED, PACKAGE
from ..remembered import remembered
from . import machine_files, process

# --- Python text parsed ---------------------------------------------------------------------------


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
        with contextlib.suppress(SystemError), process.paused():
            return parse()
    return parse()


# --- The files of the package's modules, as they were when it was imported ------------------------


#: The coarsest steps of the clock of a file system, in nanoseconds.
_STEP = 10_000_000
#: Digests of the files that were read, by module.
digests: dict[str, str] = {}


class Changed(Exception):
    """A file has changed since the package was imported, or cannot be read."""


@functools.cache
def path_of(module: str) -> Path | None:
    """The file of a module of the package; None if it is no such module."""
    first, *rest = module.split(".")
    path = PACKAGE.joinpath(*rest)
    found = (path / "__init__.py", path.with_suffix(".py")) if first == PACKAGE.name else ()
    return next((one for one in found if one.is_file()), None)


def content_of(module: str) -> bytes:
    """The file of a module, as it was imported."""
    path = path_of(module)
    try:
        if path is not None and path.stat().st_ctime_ns < IMPORTED - _STEP:
            return path.read_bytes()
    except OSError as error:
        raise Changed(module) from error
    raise Changed(module)


def digest_of(module: str) -> str:
    """The digest of the file of a module."""
    if module not in digests:
        digests[module] = hashlib.sha256(content_of(module)).hexdigest()
    return digests[module]


# --- The statements of a module of the package, and where the names in them come from -------------
# The text of a statement counts without comments, docstrings and types of arguments. More names are
# taken to be used than are: those of local variables, too.


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


class ModuleNames:
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


def names_of(tree: ast.Module, package: str = "") -> ModuleNames:
    """The names of a module, which is in a package, or of a text."""
    made = ModuleNames()
    made.note_imports(tree, package)
    made.note_statements(tree)
    return made


# --- What the machine code of a text is made from: definitions of the package, to its last one ----
# A text names what it includes by its imports. Each definition leads to those whose names it
# contains, in its own module or by imports in others; a module that is named by itself leads to all
# in it. Each module that is reached counts with the statements of which it is not clear what they
# define. Where the package is changed while it is in use, what a process has imported is no longer
# what the files say: nothing is told of these.


#: More answers would take long to read.
_MOST = 10_000
#: How long nothing is written, in times of the last writing.
_PAUSES = 20
#: A name of a module, or a statement of it by its number.
Place = tuple[str, str | int]
_lock = process.lock()


def _package_of(module: str) -> str:
    """The package that relative imports of a module start from."""
    path = path_of(module)
    is_package = path is not None and path.name == "__init__.py"
    return module if is_package else module.rpartition(".")[0]


class _Kept:
    """A dictionary that all processes add to, in a file for each place of the package."""

    def __init__(self, name: str):
        self._name = name

    @remembered
    def _path(self) -> Path:
        place = repr((str(PACKAGE), machine_files.versions(), content_of(__name__)))
        digest = hashlib.sha256(place.encode()).hexdigest()[:24]
        return machine_files.cache_folder() / f"{self._name}_{digest}.json"

    def read(self) -> dict:
        """What the file holds."""
        return json.loads(machine_files.read(self._path) or b"{}")

    def write(self, content: dict) -> None:
        """Let the file hold this, if it can be written."""
        with contextlib.suppress(OSError):
            machine_files.replace(self._path, json.dumps(content).encode())


class Sources:
    """The modules of the package, each read when it is first asked for."""

    def __init__(self) -> None:
        self._names: dict[str, ModuleNames] = {}
        self._leads: dict[Place, list[Place]] = {}
        self._in_file = _Kept("modules")
        self._new: dict[str, list] = {}

    @remembered
    def _known(self) -> dict[str, list]:
        return self._in_file.read()

    def names(self, module: str) -> ModuleNames:
        """The names of a module."""
        if module not in self._names:
            digest, *fields = self._known.get(module, [None])
            if digest != digest_of(module):
                fields = names_of(plain(content_of(module)), _package_of(module)).fields
                self._new[module] = [digest_of(module), *fields]
            self._names[module] = ModuleNames(*fields)
        return self._names[module]

    def leads(self, place: Place) -> list[Place]:
        """Where the names in a statement are looked up; what defines a name."""
        if place not in self._leads:
            self._leads[place] = [*self._found(*place)]
        return self._leads[place]

    def _found(self, module: str, what: str | int) -> Iterator[Place]:
        names = self.names(module)
        if isinstance(what, int):
            yield from ((module, name) for name in names.statements[what][1])
        elif what == ALL:
            yield from ((module, number) for number in range(len(names.statements)))
            yield from ((module, name) for name in names.imports)
            yield from ((star, ALL) for star in names.stars)
        else:
            first = what.partition(".")[0]
            numbers = (*names.places.get(first, ()), *names.places.get(ALL, ()))
            yield from ((module, number) for number in numbers)
            yield from names.elsewhere(what)
            if path_of(f"{module}.{first}") is not None:
                yield f"{module}.{first}", ALL

    def reached(self, start: Iterable[Place]) -> set[Place]:
        """All places that some lead to, these included."""
        found = {*start}
        waiting = [*found]
        while waiting:
            new = {place for place in self.leads(waiting.pop()) if place not in found}
            found |= new
            waiting += new
        return found

    def answer(self, text: str, maker: Place) -> str:
        """The digest of a text and of all that it, and the definition of `maker`, include."""
        own = names_of(plain(text))
        return self._digest_of(repr(own.fields), self.places(own, maker))

    def places(self, own: ModuleNames, maker: Place) -> set[Place]:
        """All places that the names of a text, and the definition of `maker`, lead to."""
        inside = {name for _, names in own.statements for name in names}
        start = [place for name in inside for place in own.elsewhere(name) if self.leads(place)]
        return self.reached([maker, *start])

    def _digest_of(self, text: str, places: Iterable[Place]) -> str:
        """The digest of a text and of the statements among places, by module, in their order."""
        made = hashlib.sha256(text.encode())
        for module, number in sorted((a, b) for a, b in places if isinstance(b, int)):
            made.update(f"\n{module} {self.names(module).statements[number][0]}".encode())
        return made.hexdigest()

    def keep(self) -> None:
        """Add the names of modules that were read anew to those in the file."""
        if self._new:
            self._in_file.write(self._in_file.read() | self._new)
            self._new = {}

    def are_as_read(self) -> bool:
        """Whether all files that were read are unchanged."""
        try:
            for module in digests:
                content_of(module)
        except Changed:
            return False
        return True


class _Answers:
    """Digests of what texts include, by that of the text, while no file says otherwise."""

    def __init__(self, sources: Sources):
        self._sources, self._in_file = sources, _Kept("texts")
        self._next = 0.0  # when the file is written again
        self._last: str | None = None  # the last text, if it is not in the file yet

    def _read(self) -> dict[str, str]:
        known = {"modules": {}, "answers": {}} | self._in_file.read()
        try:
            for module, digest in known["modules"].items():
                if digest_of(module) != digest:
                    return {}
        except Changed:
            return {}
        return known["answers"]

    @remembered
    def known(self) -> dict[str, str]:
        """Those in the file, and those that this process has found."""
        return self._read()

    def keep(self, text: str, answer: str) -> None:
        """Add an answer to those in the file, now or with later ones.

        The file is written whole, and answers may come by the thousand: most of the time is theirs.
        """
        self.known[text], self._last = answer, text
        if (begun := time.perf_counter()) >= self._next:
            self.write()
            self._next = (ended := time.perf_counter()) + _PAUSES * (ended - begun)

    def write(self) -> None:
        """Write all answers, if some are new, with those of other processes."""
        if (last := self._last) is None:
            return
        kept = {**self._read(), **self.known}
        if len(kept) > _MOST:
            kept = {last: self.known[last]}
        self._in_file.write({"modules": digests, "answers": kept})
        self._sources.keep()
        self._last = None


_sources = Sources()
_answers = _Answers(_sources)
atexit.register(_answers.write)


def included(source: str, digest: str, maker: Place) -> str | None:
    """The digest of all that a text and what compiles it include; None if that has changed.

    The text has a digest itself.
    """
    with _lock:
        try:
            if digest not in _answers.known:
                _answers.keep(digest, _sources.answer(source, maker))
            return _answers.known[digest]
        except Changed:
            return None


def modules_of(source: str, maker: Place) -> list[str]:
    """The modules that have what a text, and what compiles it, include."""
    with _lock:
        return sorted({module for module, _ in _sources.places(names_of(plain(source)), maker)})


def keep(path: Path | None, code: bytes) -> None:
    """Write machine code to its file, if what it was made from is still as it was."""
    with _lock:
        if path is not None and _sources.are_as_read():
            machine_files.write(path, code)
