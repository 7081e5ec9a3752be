"""State from outside that a function changes itself, such as counters: a program does not."""

from __future__ import annotations

import dis
import types
import warnings
from collections import deque
from collections.abc import Callable, Iterator

from ..._core.tensor.container_contents import Contents
from ..._core.tensor.dependencies import Checked, Dependencies, Dependency
from ..._core.tensor.reachable import Reach
from ..._core.tensor.row_listeners import users_level

_WRITES = ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE")
_NUMBERS = (int, float)
#: Methods that change containers.
_METHODS = frozenset(
    name
    for kind in (list, dict, set, deque, bytearray)
    for name in dir(kind)
    if not name.startswith("_")
    and name not in dir(tuple) + dir(frozenset) + dir(str)
    and name not in ("copy", "get", "items", "keys", "values", "fromkeys")
)


class Effects:
    """What calls of a function are seen to change of what it reads; reported once, by its line."""

    def __init__(self, f: Callable):
        self._f = f
        #: What the function changes, and where: name, file and line.
        self.found: str | None = None

    def of_recording(self, names: Dependencies, name: str) -> None:
        """Report numbers that a recording has changed, or lists that it has made longer.

        This is for functions that are never called again: other changes may happen once.
        """
        self._report([one for one in names.effects if _is_counted(one)], name)

    def of_call(self, before: list[Checked], name: str) -> None:
        """Report what a call has changed, from `Dependencies.effects_now` before it."""
        self._report([one for one in before if not Dependencies([one]).unchanged()], name)

    def _report(self, changed: list[Checked], name: str) -> None:
        if self.found is not None or not changed:
            return
        self.found = f"{changed[0].name} at {_place(self._f, changed[0])}"
        warnings.warn(
            f"tapegrad.compile: {name} changes {self.found}, when it is recorded and compared, but "
            "not in later calls, which its program computes: do that in the code that calls it",
            RuntimeWarning,
            stacklevel=users_level(),
        )


def _is_counted(one: Checked) -> bool:
    """Whether a number has become another one, or a list or a deque longer."""
    if isinstance(one, Dependency):
        return _is_number(one.value) and _is_number(one.now())
    if not isinstance(one, Contents) or one.is_memory:
        return isinstance(one, Contents)
    if isinstance(one.owner, dict):
        pairs = zip(one.keys or (), one.value, strict=True)
        before_and_now = [(v, one.owner.get(k)) for k, v in pairs]
        return any(a is not b and _is_number(a) and _is_number(b) for a, b in before_and_now)
    return isinstance(one.owner, (list, deque)) and len(one.owner) > len(one.value)


def _is_number(value) -> bool:
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


# --- where ----------------------------------------------------------------------------------------


def _place(f: Callable, one: Checked) -> str:
    """`file:line` of the code that changes something, as far as its names tell."""
    functions = Reach(f).functions()
    lines = [line for one_of in functions for line in _lines(one_of.__code__, one.name)]
    if not lines:
        return "unknown"
    _, file, number = max(lines, key=lambda line: line[0])
    return f"{file}:{number}"


def _lines(code: types.CodeType, name: str) -> Iterator[tuple[int, str, int]]:
    """Lines that name something: whether they seem to change it, the file, the number."""
    number = code.co_firstlineno
    found: dict[int, list[dis.Instruction]] = {}
    starts = dict(dis.findlinestarts(code))
    for one in dis.get_instructions(code):
        number = starts.get(one.offset, number) or number
        found.setdefault(number, []).append(one)
    for number, instructions in found.items():
        named = [one.opname for one in instructions if one.argval == name]
        if named:
            stores = any(one.startswith(("STORE", "DELETE")) for one in named)
            writes = any(x.opname in _WRITES or x.argval in _METHODS for x in instructions)
            yield stores or writes, code.co_filename, number
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _lines(inner, name)
