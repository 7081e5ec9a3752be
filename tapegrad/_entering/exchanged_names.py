"""Code in which names of NumPy, SciPy and `math` are stand-ins where they are called.

The instructions keep their places, lines and effects on the stack: each one that loads such a name
becomes one that loads a constant. What is stored, compared or used as a key stays the original.
"""

from __future__ import annotations

import dis
import functools
import itertools
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .._core.tensor.reachable import outer
from .name_uses import COMPARED, Unread, Use, instructions, uses
from .stand_ins import is_of_scipys_class, made_of, stand_in, view_of
from .types_asked import OF_PYTHON

_VERSION = sys.version_info[:2]
_NULL_BIT, _METHOD_BIT = _VERSION >= (3, 11), _VERSION >= (3, 12)
_NULL_ABOVE = _VERSION >= (3, 13)
_PUSH_NULL, _NOP = dis.opmap.get("PUSH_NULL", 0), dis.opmap["NOP"]
_JUMP = dis.opmap["JUMP_FORWARD"]
_EXTENDED, _CONST = dis.opmap["EXTENDED_ARG"], dis.opmap["LOAD_CONST"]
#: Instructions that load a name; those of a module are in the class body or at the top of a file.
_LOADS = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "IMPORT_NAME"))
#: Functions that call their arguments, and neither store nor compare them.
_CALLING = frozenset(
    "map filter sorted min max reduce vectorize partial apply_along_axis frompyfunc fromfunction "
    "piecewise".split()
)
#: Names in code that compiles functions itself: those that it makes stay as they are.
_COMPILERS = frozenset("njit jit guvectorize jitclass cfunc stencil".split())
#: What no object is.
ABSENT = object()


class Loaded:
    """Code, and what its loads of names give, those in the code in it included.

    Two are equal where the code and all objects are the same ones. ABSENT stands for what is not
    known or may change.
    """

    __slots__ = ("_hash", "code", "values")

    def __init__(self, code: types.CodeType, resolve: Callable):
        self.code = code
        #: By the identity of the code that an instruction is in, and its place.
        self.values = {(id(one), at.offset): resolve(one, at) for one, at in _loads(code)}
        self._hash = hash((id(code), *map(id, self.values.values())))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other) -> bool:
        if self.code is not other.code:
            return False
        pairs = zip(self.values.values(), other.values.values(), strict=True)
        return all([one is another for one, another in pairs])


class Watched(NamedTuple):
    """Originals that have to stay since code looks at them: no use of theirs is exchanged.

    `compared` are the identities of objects that code compares with others, `assigned` the
    attributes of modules that it writes, each with the identity of the module.
    """

    compared: frozenset[int] = frozenset()
    assigned: frozenset[tuple[int, str]] = frozenset()

    @classmethod
    def by_any(cls, every: Iterable[Watched]) -> Watched:
        """What is watched by one of several."""
        return cls(*[frozenset().union(*one) for one in zip(*every, strict=True)])


class Rewritten(NamedTuple):
    """Code with stand-ins; the names of originals that stay, with lines; attributes it relies on.

    An attribute is (the dict of a module, name, value).
    """

    code: types.CodeType
    left: frozenset[tuple[str, int]]
    attributes: tuple[tuple[dict, str, Any], ...]


def rewritten(loaded: Loaded, watched: Watched) -> Rewritten:
    """The code with stand-ins, those in it included; the code itself if it has none."""
    found = _rewritten(loaded, watched)
    is_current = all([space.get(name) is value for space, name, value in found.attributes])
    return found if is_current else _rewritten.__wrapped__(loaded, watched)


@functools.lru_cache(maxsize=1024)
def _rewritten(loaded: Loaded, watched: Watched) -> Rewritten:
    rewriter = _Rewriter(loaded, watched)
    made = rewriter.of(loaded.code)
    return Rewritten(made, frozenset(rewriter.left), tuple(rewriter.attributes.values()))


@functools.lru_cache(maxsize=1024)
def watched_in(loaded: Loaded) -> Watched:
    """What code, and the code in it, compares and assigns."""
    found = [*_Rewriter(loaded, Watched()).watched(loaded.code)]
    return Watched(
        frozenset([one for one, name in found if name is None]),
        frozenset([(one, name) for one, name in found if name is not None]),
    )


def _loads(code: types.CodeType) -> Iterator[tuple[types.CodeType, dis.Instruction]]:
    """The instructions of code, and of the code in it, that load names or import."""
    yield from zip(itertools.repeat(code), _own_loads(code))
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _loads(one)


@functools.lru_cache(maxsize=4096)
def _own_loads(code: types.CodeType) -> tuple[dis.Instruction, ...]:
    """The same without code in it; for code that is equal, not the same, it is what was found."""
    return tuple([one for one in instructions(code) if one.opname in _LOADS])


# --- which ----------------------------------------------------------------------------------------


def _uses_of(code: types.CodeType) -> dict:
    try:
        return uses(code)
    except Unread:
        return {}


def _all_uses(found: dict, load, path: tuple[str, ...] = (), seen: frozenset = frozenset()):
    """The uses of a load; in place of a local variable those of the variable."""
    for use in found.get(load, ()):
        whole = use._replace(path=(*path, *use.path))
        if use.how != "local" or use.name in seen:
            yield whole
        else:
            yield from _all_uses(found, use.name, whole.path, seen | {use.name})


def _followed(original, ours, path: tuple[str, ...]) -> tuple[Any, Any]:
    """The original and the stand-in after the attributes of a path are read; ABSENT: not known.

    The second is ABSENT, too, where a module has another object than it was imported with.
    """
    for name in path:
        found = getattr(original, name, ABSENT) if _is_open(original) else ABSENT
        mine = ABSENT if found is ABSENT else getattr(ours, name, ABSENT)
        if isinstance(original, types.ModuleType) and mine is not found:
            is_view = isinstance(found, types.ModuleType) and mine is view_of(found)
            mine = mine if is_view or stand_in(found) is mine else ABSENT
        if found is ABSENT or mine is ABSENT:
            return found, ABSENT
        original, ours = found, mine
    return original, ours


def _stand_in_for(found: dict, number: int, value) -> Any:
    """The stand-in of what a load gives; of other modules a view, if code reads one of theirs."""
    ours = stand_in(value)
    if ours is not None or not isinstance(value, types.ModuleType):
        return ours
    for use in _all_uses(found, number):
        held: Any = value
        for name in use.path:
            is_numbas = isinstance(held, types.ModuleType) and outer(held.__name__) == "numba"
            if not is_numbas and (held is not value or name not in vars(value)):
                break
            held = getattr(held, name, None)
        if not isinstance(held, types.ModuleType) and stand_in(held) is not None:
            return view_of(value)
    return None


def _owners(value, path: tuple[str, ...]) -> Iterator[tuple[types.ModuleType, str]]:
    """The modules on a path of attributes, each with the name that is read of it."""
    for name in path:
        if not isinstance(value, types.ModuleType):
            return
        yield value, name
        value = getattr(value, name, ABSENT)


def _is_open(value) -> bool:
    """Whether reading an attribute of an object runs no code of the user."""
    return isinstance(value, (types.ModuleType, type, np.ufunc)) or is_of_scipys_class(value)


class _Rewriter:
    """What is made of code whose loads give some objects."""

    def __init__(self, loaded: Loaded, watched: Watched):
        self._values, self._watched = loaded.values, watched
        self.left: set[tuple[str, int]] = set()
        self.attributes: dict[tuple[int, str], tuple[dict, str, Any]] = {}

    def of(self, code: types.CodeType) -> types.CodeType:
        every, constants = instructions(code), list(code.co_consts)
        raw, changed, found = bytearray(code.co_code), False, _uses_of(code)
        for number, value in self._candidates(code, found):
            one, ours = every[number], _stand_in_for(found, number, value)
            is_replaced = number in found and self._is_replaced(code, found, number, value, ours)
            if is_replaced and _put_constant(code, raw, constants, number, ours):
                changed = True
            elif not is_replaced or all(ours is not one for one in OF_PYTHON.values()):
                self.left.add((one.argval, _line(code, one)))
        if not _COMPILERS & {*code.co_names}:
            for place, inner in enumerate(code.co_consts):
                if isinstance(inner, types.CodeType):
                    constants[place] = self.of(inner)
                    changed |= constants[place] is not inner
        return code.replace(co_code=bytes(raw), co_consts=tuple(constants)) if changed else code

    def watched(self, code: types.CodeType) -> Iterator[tuple[int, str | None]]:
        """The identities of what code compares, and of modules with the names that it writes."""
        looks = COMPARED | {"STORE_ATTR", "DELETE_ATTR"}
        if any([one.opname in looks for one in instructions(code)]):
            found = _uses_of(code)
            for number, value in self._candidates(code, found):
                for use in _all_uses(found, number):
                    ours = _stand_in_for(found, number, value)
                    original = _followed(value, ours, use.path)[0]
                    if use.how in ("compared", "assigned") and stand_in(original) is not None:
                        yield id(original), use.name if use.how == "assigned" else None
        for inner in code.co_consts:
            if isinstance(inner, types.CodeType):
                yield from self.watched(inner)

    def _candidates(self, code: types.CodeType, found: dict) -> list[tuple[int, Any]]:
        """The instructions that load what has a stand-in, by number, with the original."""
        values = [
            (number, self._values.get((id(code), one.offset), ABSENT))
            for number, one in enumerate(instructions(code))
            if one.opname in _LOADS
        ]
        known = [pair for pair in values if pair[1] is not ABSENT]
        return [pair for pair in known if _stand_in_for(found, *pair) is not None]

    def _is_replaced(self, code, found: dict, number: int, value, ours) -> bool:
        """Whether a load gives the stand-in: some use needs it, and no other can see it."""
        needs = False
        for use in _all_uses(found, number):
            original, mine = _followed(value, ours, use.path)
            if not self._is_steady(value, use.path):
                return False
            if use.how == "dropped" or (original is mine and original is not ABSENT):
                continue
            if mine is ABSENT or not self._fits(code, use, original):
                if mine is ABSENT:  # as of a function that a test has replaced for now
                    self._note(value, use.path)
                return False
            needs = True
        if needs:
            for use in _all_uses(found, number):
                self._note(value, use.path)
        return needs

    def _is_steady(self, value, path: tuple[str, ...]) -> bool:
        """Whether no code writes the attributes of modules that are read."""
        owners = [*_owners(value, path)]
        return self._watched.assigned.isdisjoint([(id(one), name) for one, name in owners])

    def _note(self, value, path: tuple[str, ...]) -> None:
        """Keep the attributes of modules that are read: another value is another code.

        So are those of which a stand-in has been made.
        """
        read = [*_owners(value, path), *[(value, name) for name in made_of(value)]]
        for owner, name in read:
            if name in vars(owner):
                self.attributes[id(owner), name] = vars(owner), name, vars(owner)[name]

    def _fits(self, code, use: Use, original) -> bool:
        """Whether a stand-in does in one use what the original does."""
        if use.how in ("call", "item"):
            return True
        if use.how != "argument" or id(original) in self._watched.compared:
            return False
        if isinstance(original, types.ModuleType):
            return stand_in(original) is not None
        return bool(use.callees) and all([self._is_calling(code, *one) for one in use.callees])

    def _is_calling(self, code, load, path: tuple[str, ...]) -> bool:
        """Whether a callee is a function of Python's or NumPy's that calls its arguments."""
        value = ABSENT
        if type(load) is int:
            place = instructions(code)[load].offset
            value = self._values.get((id(code), place), ABSENT)
        for name in path:
            value = getattr(value, name, ABSENT) if _is_open(value) else ABSENT
        module = getattr(value, "__module__", None)
        owner = outer(module) if isinstance(module, str) else ""
        is_known = owner in ("builtins", "functools", "_functools", "numpy")
        return is_known and getattr(value, "__name__", "") in _CALLING


# --- other code -----------------------------------------------------------------------------------


def _put_constant(code, raw: bytearray, constants: list, number: int, value) -> bool:
    """Make an instruction load a constant, if there is room for the number of the constant.

    Where those that follow read a function of a module, the constant is the function.
    """
    every = instructions(code)
    value, last = _function_of(every, number, value)
    one, first = every[number], number
    while first and every[first - 1].opcode == _EXTENDED:
        first -= 1
    if one.opname == "IMPORT_NAME":
        before = _before_import(every, first)
        if before is None:
            return False
        first = before
    start, stop = every[first].offset, every[last + 1].offset if last + 1 < len(every) else len(raw)
    place = len(constants)
    made = [_CONST, place & 255]
    if place > 255:
        made = [_EXTENDED, place >> 8, *made]
    nulls = [_PUSH_NULL, 0] * sum(map(_has_null, (one, every[last]) if last > number else (one,)))
    made = [*made, *nulls] if _NULL_ABOVE else [*nulls, *made]
    if place > 65535 or len(made) > stop - start:
        return False
    constants.append(value)
    count = (stop - start - len(made)) // 2
    rest = [_NOP, 0] * count
    if count > 2:  # which takes longer than to pass over them
        rest[:2] = _JUMP, count - 1
    raw[start:stop] = bytes(made + rest)
    return True


def _function_of(every, number: int, value) -> tuple[Any, int]:
    """The function that the instructions after a load read of a module, and the last of them.

    The value itself, and the number of the load, where they do something else.
    """
    found = value
    for last, one in enumerate(every[number + 1 :], number + 1):
        if not _NULL_BIT or type(found) is not types.ModuleType or one.is_jump_target:
            break
        if one.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
            break
        found = getattr(found, one.argval, ABSENT)
        if callable(found):
            return found, last
    return value, number


def _has_null(one: dis.Instruction) -> bool:
    """Whether what an instruction puts on the stack comes with the NULL of a call."""
    with_bit = one.opname == "LOAD_GLOBAL" or (one.opname == "LOAD_ATTR" and _METHOD_BIT)
    return one.opname == "LOAD_METHOD" or (with_bit and _NULL_BIT and bool((one.arg or 0) & 1))


def _before_import(every, number: int) -> int | None:
    """The first of the two instructions that give an import its level and list of names."""
    first = number - 2
    if first < 0 or not all(one.opname.startswith("LOAD_") for one in every[first:number]):
        return None
    return None if first and every[first - 1].opcode == _EXTENDED else first


def _line(code: types.CodeType, one: dis.Instruction) -> int:
    return next((n for start, end, n in code.co_lines() if start <= one.offset < end and n), 0)
