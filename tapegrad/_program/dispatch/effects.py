"""State from outside that a function changes itself, such as counters: a program does not."""

from __future__ import annotations

import dis
import types
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..._core.tensor.container_contents import Contents
from ..._core.tensor.dependencies import Checked, Dependencies, Dependency
from ..._core.tensor.reachable import Reach
from ..._core.tensor.row_listeners import users_level
from ..._flow.ir.flow_graph import Line
from ..._flow.reading.change_record import Changes

_WRITES = ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE")
_NUMBERS = (int, float)
#: So many effects are named.
_SHOWN = 3
#: Methods that change containers.
_METHODS = frozenset(
    name
    for kind in (list, dict, set, deque, bytearray)
    for name in dir(kind)
    if not name.startswith("_")
    and name not in dir(tuple) + dir(frozenset) + dir(str)
    and name not in ("copy", "get", "items", "keys", "values", "fromkeys")
)


#: Names by which code reaches what other names stand for.
_ROUTES = frozenset(
    "setattr delattr getattr vars globals locals exec eval type __dict__ __class__ __setattr__ "
    "__setitem__ setitem copyto shuffle heappush heappop insort partial".split()
)


class Effects:
    """What calls of a function are seen to change of what it reads; reported once, by its line."""

    def __init__(self, f: Callable):
        self._f = f
        #: What the function does that programs do not: what it changes, the file and the line.
        self.found: str | None = None

    def of_recording(self, names: Dependencies) -> list[Checked]:
        """Numbers that a recording has changed, or lists that it has made longer.

        This is for functions that are never called again: other changes may happen once.
        """
        return [one for one in names.effects if _is_counted(one)]

    def of_call(self, before: list[Checked]) -> list[Checked]:
        """What a call has changed, from `Dependencies.effects_now` before it."""
        return [one for one in before if not Dependencies([one]).unchanged()]

    def of_graph(self, changes: Changes, name: str) -> None:
        """Report what a function does outside of it that its graph does not."""
        changed = [f"changes {what} at {_place_of(line)}" for what, line in changes.found]
        texts = [f"{what} at {_place_of(line)}" for line, what in changes.texts.items()]
        self._warn([*changed, *texts], name)

    def report(self, changed: list[Checked], name: str) -> None:
        """Report changes."""
        self._warn([f"changes {one.name} at {_place(self._f, one)}" for one in changed[:1]], name)

    def _warn(self, found: list[str], name: str) -> None:
        if self.found is not None or not found:
            return
        more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        self.found = ", ".join(found[:_SHOWN]) + more
        warnings.warn(
            f"tapegrad.compile: {name} {self.found}, when it is recorded and compared, but not in "
            "later calls, which its program computes: do that in the code that calls it",
            RuntimeWarning,
            stacklevel=users_level(),
        )


def _is_counted(one: Checked) -> bool:
    """Whether a number has become another one, or a list or a deque longer."""
    if isinstance(one, Dependency):
        return _is_number(one.value) and _is_number(one.now())
    if not isinstance(one, Contents) or one.is_memory:
        return isinstance(one, Contents)
    if isinstance(one.owner, (list, deque)) and len(one.owner) > len(one.value):
        return True
    if one.keys is not None:
        before_and_now = [(v, one.owner.get(k)) for k, v in zip(one.keys, one.value, strict=True)]
    else:
        before_and_now = [*zip(one.value, one.owner, strict=False)]
    return any(a is not b and _is_number(a) and _is_number(b) for a, b in before_and_now)


def _is_number(value) -> bool:
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


# --- where ----------------------------------------------------------------------------------------


def _place_of(line: Line | None) -> str:
    return f"{line.file}:{line.number}" if line else "unknown"


def seems_read(f: Callable, changed: list[Checked]) -> str | None:
    """What a function changes that its result may depend on, as far as its names tell.

    That is so where its code reaches objects by ways that names do not tell of, where Python itself
    calls what changes something, and where another line reads what is changed.
    """
    functions = Reach(f).functions()
    names = {name for one in functions for code in _codes(one.__code__) for name in code.co_names}
    for one in changed:
        lines = [line for g in functions for line in _lines(g.__code__, one.name)]
        writes = [line for line in lines if line.changes]
        is_called_by_python = any([_is_special(line.function) for line in writes])
        reads = [line for line in lines if not line.changes and _reads(line, one)]
        if names & _ROUTES or not writes or is_called_by_python or reads:
            return one.name
    return None


def _reads(line: _Line, one: Checked) -> bool:
    """Whether a line that names something may read of it what a call has changed."""
    if not isinstance(one, Contents) or one.keys is None:
        return True
    named = {key for key in one.owner if key in line.words}
    same = {k for k, value in zip(one.keys, one.value, strict=True) if one.owner.get(k) is value}
    return not named or not named <= same


def _is_special(name: str) -> bool:
    return name.startswith("__") and name not in ("__init__", "__call__")


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _codes(inner)


class _Line(NamedTuple):
    """A line that names something: whether it seems to change it; what else it names."""

    changes: bool
    file: str
    number: int
    function: str
    words: set


def _place(f: Callable, one: Checked) -> str:
    """`file:line` of the code that changes something, as far as its names tell."""
    functions = Reach(f).functions()
    lines = [line for one_of in functions for line in _lines(one_of.__code__, one.name)]
    if not lines:
        return "unknown"
    found = max(lines, key=lambda line: line.changes)
    return f"{found.file}:{found.number}"


def _lines(code: types.CodeType, name: str) -> Iterator[_Line]:
    """Lines that name something."""
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
            words = {x.argval for x in instructions if isinstance(x.argval, (str, int))}
            yield _Line(stores or writes, code.co_filename, number, code.co_name, words)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _lines(inner, name)
