"""State from outside that a function changes itself, such as counters: a program does not."""

from __future__ import annotations

import contextlib
import types
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..._core.tensor.container_contents import Contents
from ..._core.tensor.dependencies import Checked, Dependencies, Dependency
from ..._core.tensor.own_code import own_code
from ..._core.tensor.reachable import Reach, held_by, items_of
from ..._core.tensor.row_listeners import users_level
from ..._flow.ir.flow_graph import Line
from ..._flow.reading.change_record import Changes
from .changing_statements import METHODS, WRITES, is_change, statements

_NUMBERS = (int, float)
#: So many effects are named.
_SHOWN = 3
#: Names by which code reaches what other names stand for.
_ROUTES = frozenset(
    "setattr delattr getattr vars globals locals exec eval type __dict__ __class__ __setattr__ "
    "__setitem__ setitem copyto shuffle heappush heappop insort partial".split()
)
#: Names of this kind that lead to nothing else.
_PLAIN = frozenset("__name__ __init__ __call__ __doc__ __file__ __debug__".split())


class Effects:
    """What calls of a function are seen to change of what it reads; reported once, by its line."""

    def __init__(self, f: Callable):
        self._f = f
        #: What the function does that programs do not: what it changes, the file and the line.
        self.found: str | None = None

    def of_recording(self, before: list[Checked]) -> list[Checked]:
        """Numbers among effects that a recording has changed, or lists that it has made longer.

        This is for functions that are never called again: other changes may happen once.
        """
        return [one for one in before if _is_counted(one)]

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
    calls what changes something, where another statement reads what is changed, or the same one
    does more with it, and where it is known by another name.
    """
    reach = Reach(f)
    every = reach.objects(lambda one: False)
    functions = reach.functions(every)
    names = {name for one in functions for code in _codes(own_code(one)) for name in code.co_names}
    for one in changed:
        lines = [line for g in functions for line in _lines(own_code(g), one.name)]
        writes = [line for line in lines if line.changes]
        is_called_by_python = any([_is_special(line.function) for line in writes])
        reads = [line for line in lines if not line.is_change and _reads(line, one)]
        if any(map(_is_route, names)) or not writes or is_called_by_python or reads:
            return one.name
        if isinstance(one, Contents) and _is_shared(one.owner, functions, every):
            return one.name
    return None


def _is_route(name: str) -> bool:
    """Whether a name is one by which code may reach what others stand for."""
    return name in _ROUTES or (name not in _PLAIN and _is_special(name))


def _is_shared(owner, functions: list, every: list) -> bool:
    """Whether an object is known by several names, lies in several others, or shares memory."""
    names = {name for one in functions for name, value in _outside(one) if value is owner}
    holders = [one for one in every if any(x is owner for x in _inside(one))]
    arrays = [one for one in every if isinstance(one, np.ndarray) and one is not owner]
    is_array = isinstance(owner, np.ndarray)
    shares = is_array and any(np.may_share_memory(one, owner) for one in arrays)
    return len(names) + len(holders) > 1 or shares


def _outside(f: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The variables and globals that a function names, with their values."""
    for name, cell in zip(own_code(f).co_freevars, f.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # it has no value yet
            yield name, cell.cell_contents
    for name in {name for code in _codes(own_code(f)) for name in code.co_names}:
        if name in f.__globals__:
            yield name, f.__globals__[name]


def _inside(one) -> list:
    """What an object holds."""
    has_others = isinstance(one, (types.FunctionType, types.ModuleType, type))
    return [] if has_others else [*items_of(one), *held_by(one).values()]


def _reads(line: _Line, one: Checked) -> bool:
    """Whether a line that names something may read of it what a call has changed."""
    if not isinstance(one, Contents) or one.keys is None:
        return True
    named = {key for key in one.owner if key in line.words}
    same = {k for k, value in zip(one.keys, one.value, strict=True) if one.owner.get(k) is value}
    return not named or not named <= same


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name not in ("__init__", "__call__")


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _codes(inner)


class _Line(NamedTuple):
    """A statement that names something: whether it seems to change it; what else it names.

    It `is_change` if it does nothing else with what it names.
    """

    changes: bool
    is_change: bool
    file: str
    number: int
    function: str
    words: set


def _place(f: Callable, one: Checked) -> str:
    """`file:line` of the code that changes something, as far as its names tell."""
    functions = Reach(f).functions()
    lines = [line for one_of in functions for line in _lines(own_code(one_of), one.name)]
    if not lines:
        return "unknown"
    found = max(lines, key=lambda line: line.changes)
    return f"{found.file}:{found.number}"


def _lines(code: types.CodeType, name: str) -> Iterator[_Line]:
    """Statements that name something."""
    for number, instructions in statements(code):
        named = [one.opname for one in instructions if one.argval == name]
        if named:
            stores = any(one.startswith(("STORE", "DELETE")) for one in named)
            writes = any(x.opname in WRITES or x.argval in METHODS for x in instructions)
            words = {x.argval for x in instructions if isinstance(x.argval, (str, int))}
            place = code.co_filename, number, code.co_name
            yield _Line(stores or writes, is_change(instructions, name), *place, words)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _lines(inner, name)
