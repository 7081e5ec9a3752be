"""What the machine code of a text is made from: definitions of the package, to its last one.

A text names what it includes by its imports. Each definition leads to those whose names it
contains, in its own module or by imports in others; a module that is named by itself leads to all
in it. Each module that is reached counts with the statements of which it is not clear what they
define. Where the package is changed while it is in use, what a process has imported is no longer
what the files say: nothing is told of these.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from .. import PACKAGE
from ..remembered import remembered
from . import forks, machine_files, source_names
from .source_files import Changed, content_of, digest_of, digests, path_of
from .source_names import ALL, Names, names_of, plain

#: More answers would take long to read.
_MOST = 10_000
#: A name of a module, or a statement of it by its number.
Place = tuple[str, str | int]
_lock = forks.lock()


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
        sources = [content_of(module) for module in (__name__, source_names.__name__)]
        place = repr((str(PACKAGE), machine_files.versions(), sources))
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
        self._names: dict[str, Names] = {}
        self._leads: dict[Place, list[Place]] = {}
        self._in_file = _Kept("modules")
        self._new: dict[str, list] = {}

    @remembered
    def _known(self) -> dict[str, list]:
        return self._in_file.read()

    def names(self, module: str) -> Names:
        """The names of a module."""
        if module not in self._names:
            digest, *fields = self._known.get(module, [None])
            if digest != digest_of(module):
                fields = names_of(plain(content_of(module)), _package_of(module)).fields
                self._new[module] = [digest_of(module), *fields]
            self._names[module] = Names(*fields)
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
        return self._digest_of(ast.unparse(plain(text)), self.places(text, maker))

    def places(self, text: str, maker: Place) -> set[Place]:
        """All places that a text, and the definition of `maker`, lead to."""
        own = names_of(plain(text))
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
        """Add an answer to those in the file, which others may have written meanwhile."""
        self.known[text] = answer
        kept = {**self._read(), **self.known}
        if len(kept) > _MOST:
            kept = {text: answer}
        self._in_file.write({"modules": digests, "answers": kept})
        self._sources.keep()


_sources = Sources()
_answers = _Answers(_sources)


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
        return sorted({module for module, _ in _sources.places(source, maker)})


def keep(path: Path | None, code: bytes) -> None:
    """Write machine code to its file, if what it was made from is still as it was."""
    with _lock:
        if path is not None and _sources.are_as_read():
            machine_files.write(path, code)
