"""Machine code that was made when the package was built: a shared library for each level.

A file has after the library itself an index and a checksum of all, so that a damaged one is never
loaded. The index names texts by their digests. For each it has the digests of the files of all
modules that the text and what compiles it lead to: code of sources that have changed is not found.
Many texts lead to the same modules and call the same functions, so each such set is there once.
Code calls functions by words in the library, slots, which are filled by the names of functions when
a text that calls them is first found; those of special functions when they are first called.
So it depends on no version of Python, NumPy or SciPy, and what is missing in one of them is seen
before it is called. What is not found is compiled.

This module needs nothing that compiles.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from .. import PACKAGE
from ..config import given
from . import compat, machine_code
from .sources import Changed, digest_of

#: Where the libraries are, of the names of their levels.
FOLDER = PACKAGE / "_prebuilt"
#: What is set where the user says which processor code is for.
_PROCESSOR = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")
_MARK = b"tapegrad library 2\n"
_DIGEST_BYTES, _LENGTH_BYTES = 32, 8
#: The length of the digest of a text.
KEY = 16
#: What an index has for each text, as numbers of sets: the modules, and the slots.
_SETS = ("modules of", "slots of")
#: What the name of a vector function of glibc's begins with, and where they are.
VECTOR = "_ZGV"
_VECTORS = "libmvec.so.1"
#: What tells addresses of symbols; None of one that this process does not have.
Find = Callable[[str], "int | None"]
_Finder = ctypes.CFUNCTYPE(None, ctypes.c_int64)
#: Libraries keep addresses of ours, so each serves whom it served first: not another interpreter of
#: the process, nor the package imported anew.
_owner = ctypes.c_int64()
_kept: list[Any] = []


class Text(NamedTuple):
    """A text that is compiled: what it is made code of.

    A text that is `fixed` depends on no program of a user's, so that a library may have its code.
    """

    source: str
    exports: dict[str, str]
    single: bool
    fixed: bool = True

    @property
    def key(self) -> str:
        """The digest of the text and of what is asked of it."""
        given = repr((self.source, self.exports, self.single))
        return hashlib.sha256(given.encode()).hexdigest()[:KEY]


#: Called with each fixed text that is asked for, where they are collected; none is found then.
collected: Callable[[Text], object] | None = None


def packed(library: bytes, index: dict[str, Any]) -> bytes:
    """The content of a file."""
    words = json.dumps(index, separators=(",", ":")).encode()
    whole = library + words + len(words).to_bytes(_LENGTH_BYTES, "little") + _MARK
    return whole + hashlib.sha256(whole).digest()


def index_in(path: Path) -> dict[str, Any] | None:
    """The index in a file; None if it is not whole, or no such file."""
    try:
        content = memoryview(path.read_bytes())
    except OSError:
        return None
    whole, end = content[:-_DIGEST_BYTES], len(content) - _DIGEST_BYTES - len(_MARK)
    if whole[end:] != _MARK or hashlib.sha256(whole).digest() != content[-_DIGEST_BYTES:]:
        return None
    length = int.from_bytes(whole[end - _LENGTH_BYTES : end], "little")
    return json.loads(bytes(whole[end - _LENGTH_BYTES - length : end - _LENGTH_BYTES]))


class Library:
    """A library that is loaded."""

    def __init__(self, path: Path, index: dict[str, Any], address_of: Find):
        self.path, self.index, self._address_of = path, index, address_of
        self._code = ctypes.CDLL(str(path))
        slots, functions = [ctypes.c_int64 * index[one] for one in ("slots", "functions")]
        self._slots = slots.in_dll(self._code, "tapegrad_slots")
        self._nowhere = ctypes.addressof(ctypes.c_char.in_dll(self._code, "tapegrad_nowhere"))
        self._functions = functions.in_dll(self._code, "tapegrad_functions")
        self._finder = _Finder(self._at_first_call)
        _kept.append(self)
        self._first = [*itertools.accumulate(index["counts"], initial=0)]
        self._filled: set[int] = set()
        self._unchanged: dict[int, bool] = {}

    def is_ours(self) -> bool:
        """Whether the library serves nobody else."""
        owner, finder = [
            ctypes.c_int64.in_dll(self._code, f"tapegrad_{name}") for name in ("owner", "finder")
        ]
        if not owner.value:
            owner.value = ctypes.addressof(_owner)
            finder.value = ctypes.cast(self._finder, ctypes.c_void_p).value or 0
        return owner.value == ctypes.addressof(_owner)

    def find(self, text: Text, key: str, is_late: Callable[[str], bool]) -> dict[str, int] | None:
        """Addresses of the functions of a text; some that it calls can be found late."""
        if (number := self._number_of(key)) is None:
            return None
        modules, slots = [self.index["sets"][self.index[one][number]] for one in _SETS]
        if not all(map(self._is_unchanged, modules)):
            return None
        if not all(self._fill(slot, is_late) for slot in slots):
            return None
        first = self._first[number]
        return {name: self._functions[first + k] for k, name in enumerate(text.exports)}

    def _number_of(self, key: str) -> int | None:
        """The number of a text; None if it is not in the library."""
        keys, at = self.index["keys"], -1
        while (at := keys.find(key, at + 1)) >= 0:
            if at % KEY == 0:
                return at // KEY
        return None

    def _is_unchanged(self, number: int) -> bool:
        """Whether a module of those in the index is as it was."""
        if number not in self._unchanged:
            module, digest = self.index["modules"][number]
            try:
                self._unchanged[number] = digest_of(module) == digest
            except Changed:
                self._unchanged[number] = False
        return self._unchanged[number]

    def _fill(self, slot: int, is_late: Callable[[str], bool]) -> bool:
        """Fill a slot; vector functions that are not there have others in their places."""
        if slot not in self._filled:
            symbol = self.index["symbols"][slot]
            is_vector = symbol.startswith(VECTOR)
            if is_late(symbol):
                return True
            address = vector_function(symbol) if is_vector else self._address_of(symbol)
            if address is None and not is_vector:
                return False
            self._slots[slot] = address or self._slots[slot]
            self._filled.add(slot)
        return True

    def _at_first_call(self, slot: int) -> None:
        """Fill a slot that running code calls, which asks until it is filled.

        So an interrupt is told of, and stops nothing. Another error is of an import of SciPy's:
        then the result is NaN.
        """
        try:
            address = self._address_of(self.index["symbols"][slot]) or self._nowhere
        except Exception:
            traceback.print_exc()
            address = self._nowhere
        self._slots[slot] = address
        self._filled.add(slot)


@functools.cache
def _vectors() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(_VECTORS)
    except OSError:
        return None


def vector_function(symbol: str) -> int | None:
    """The address of a vector function; None if the C library does not have it."""
    function = getattr(_vectors(), symbol, None)
    return None if function is None else ctypes.cast(function, ctypes.c_void_p).value


def _is_wanted() -> bool:
    """Whether nothing says that code is to be made, or is to be made otherwise."""
    told = any(map(given, _PROCESSOR))
    return not (told or machine_code.made() or compat.switched_off())


@functools.cache
def library(address_of: Find) -> Library | None:
    """The library of the widest level that runs here; None if there is none that is whole."""
    for level in machine_code.of_this_processor() if _is_wanted() else ():
        path = FOLDER / f"{level.name}.so"
        index = index_in(path)
        if index is not None and index["level"] == level.name:
            try:
                found = Library(path, index, address_of)
            except (OSError, ValueError):  # as where files must not be run
                continue
            return found if found.is_ours() else None
    return None


def find(
    text: Text, key: str, address_of: Find, is_late: Callable[[str], bool]
) -> dict[str, int] | None:
    """Addresses of the functions of a text by its key; None if there is no code of its sources."""
    if not text.fixed:
        return None
    if collected is not None:
        collected(text)
        return None
    one = library(address_of)
    return None if one is None else one.find(text, key, is_late)
