"""What a function does or asks outside of its arguments: it changes state, draws random numbers."""

from __future__ import annotations

import contextlib
import ctypes
import dis
import os
import random
import sys
import types
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..._core import PACKAGE
from ..._core.tensor.dependencies import Checked, Dependencies, Dependency, Snapshot
from ..._core.tensor.operators import users_level
from ..._core.tensor.pytree import (
    ABSENT,
    Reach,
    codes_in,
    content,
    held_by,
    held_items,
    own_code,
    reachable,
)
from ..._flow.ir.flow_graph import SourceLine
from ..._flow.reading.outside_changes import Changes

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
        self.is_silent = False  # where no call of the user's asks for a program

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
        found = [f"changes {one.name} at {_place(self._f, one)}" for one in changed]
        self._warn([*dict.fromkeys(found)], name)

    def _warn(self, found: list[str], name: str) -> None:
        if self.found is not None or not found:
            return
        more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        self.found = ", ".join(found[:_SHOWN]) + more
        if self.is_silent:
            return
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
    if not isinstance(one, Snapshot) or one.is_memory:
        return isinstance(one, Snapshot)
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


def _place_of(line: SourceLine | None) -> str:
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
    names = {
        name for one in functions for code in codes_in(own_code(one)) for name in code.co_names
    }
    for one in changed:
        lines = [line for g in functions for line in _lines(own_code(g), one.name)]
        writes = [line for line in lines if line.changes]
        is_called_by_python = any([_is_special(line.function) for line in writes])
        reads = [line for line in lines if not line.is_change and _reads(line, one)]
        if any(map(_is_route, names)) or not writes or is_called_by_python or reads:
            return one.name
        if isinstance(one, Snapshot) and _is_shared(one.owner, functions, every):
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
        if (value := content(cell)) is not ABSENT:
            yield name, value
    for name in {name for code in codes_in(own_code(f)) for name in code.co_names}:
        if name in f.__globals__:
            yield name, f.__globals__[name]


def _inside(one) -> list:
    """What an object holds."""
    has_others = isinstance(one, (types.FunctionType, types.ModuleType, type))
    return [] if has_others else [*held_items(one), *held_by(one).values()]


def _reads(line: _Line, one: Checked) -> bool:
    """Whether a line that names something may read of it what a call has changed."""
    if not isinstance(one, Snapshot) or one.keys is None:
        return True
    named = {key for key in one.owner if key in line.words}
    same = {k for k, value in zip(one.keys, one.value, strict=True) if one.owner.get(k) is value}
    return not named or not named <= same


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name not in ("__init__", "__call__")


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


# --- statements of code that change something, as a counter, and do nothing else with it ----------


WRITES = ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE")
#: Methods that change containers.
METHODS = frozenset(
    name
    for kind in (list, dict, set, deque, bytearray)
    for name in dir(kind)
    if not name.startswith("_")
    and name not in dir(tuple) + dir(frozenset) + dir(str)
    and name not in ("copy", "get", "items", "keys", "values", "fromkeys")
)
#: Functions and methods that keep nothing of what they are given.
_PURE = frozenset("abs float int len max min round str repr sum get item".split())


def statements(code: types.CodeType) -> Iterator[tuple[int, list[dis.Instruction]]]:
    """The instructions of each statement, or of a part of it between jumps, with its line."""
    starts = dict(dis.findlinestarts(code))
    number = first = code.co_firstlineno
    found: list[dis.Instruction] = []
    depth = 0
    for one in dis.get_instructions(code):
        number = starts.get(one.offset, number) or number
        first = first if found else number
        found.append(one)
        depth += _effect(one)
        if depth <= 0 or _ends(one):
            yield first, found
            found, depth = [], 0
    yield first, found


def is_change(instructions: list[dis.Instruction], name: str) -> bool:
    """Whether a statement changes what it names and does nothing else with it."""
    ends = [one for one in instructions if _takes(one)]
    if ends != instructions[-1:]:
        return False
    (end,) = ends
    owner = [end]
    if end.opname == "POP_TOP":
        owner = _of_method(instructions)
    elif end.opname in WRITES:
        owner = _of_item(instructions)
    named = [one for one in instructions if one.argval == name]
    if not any(one in owner for one in named):
        return False
    return len([one for one in named if one is not end]) < 2 or _is_pure(instructions)


def _takes(one: dis.Instruction) -> bool:
    """Whether an instruction takes a value off the stack for good, or jumps."""
    return one.opname.startswith(("STORE", "DELETE", "POP_TOP")) or _ends(one)


def _ends(one: dis.Instruction) -> bool:
    jumps = one.opcode in dis.hasjrel or one.opcode in dis.hasjabs
    return jumps or one.opname.startswith(("RETURN", "YIELD", "RAISE", "BEFORE_WITH"))


def _effect(one: dis.Instruction) -> int:
    return dis.stack_effect(one.opcode, one.arg, jump=False)


def _of_method(instructions: list[dis.Instruction]) -> list[dis.Instruction]:
    """The instructions for the object of which a statement calls a method that changes it."""
    depth = 0
    for k, one in enumerate(instructions):
        if one.argval in METHODS and depth == 1 and _is_pure(instructions[:k]):
            return instructions[:k]
        depth += _effect(one)
    return []


def _of_item(instructions: list[dis.Instruction]) -> list[dis.Instruction]:
    """The instructions for the container of which a statement changes an item."""
    for k, one in enumerate(instructions):
        if one.opname in ("COPY", "DUP_TOP_TWO"):  # as `a[0] += 1` has, after `a` and `0`
            return instructions[:k]
    depths, depth = [], 0
    for one in instructions:
        depths.append(depth)
        depth += _effect(one)
    last = depths[-1]
    count = {"STORE_SLICE": 3, "DELETE_SUBSCR": 2}.get(instructions[-1].opname, 2)
    begin = max(k for k, here in enumerate(depths[:-1]) if here == last - count)
    end = max(k for k, here in enumerate(depths[:-1]) if here == last - count + 1)
    return instructions[begin:end]


def _is_pure(instructions: list[dis.Instruction]) -> bool:
    """Whether a statement calls nothing that may keep what it is given."""
    calls = [one for one in instructions if one.opname.startswith("CALL")]
    known = [one for one in instructions if one.argval in _PURE or one.argval in METHODS]
    return len(calls) <= len(known)


# --- whether a function draws random numbers: states of generators before and after a call --------
# A program would repeat the draws of its recording. The generators checked are the common ones of
# Python and NumPy, and those that the function can reach: in its closure, its defaults, the globals
# that it names, attributes of objects there, and functions that it names. A generator that it makes
# itself with a seed draws the same at every call.
#
# Other threads may draw from the same generators meanwhile. Then the function is recorded once
# more, and what its own thread calls is watched.


#: The generator behind the functions of `random`.
_OF_MODULE = random.random.__self__  # type: ignore[attr-defined]
_OF_NUMPY = np.random.mtrand._rand
_KINDS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)


#: Names of methods of NumPy's generators, which are compiled: no profiler sees them called.
_METHODS = frozenset(
    name
    for kind in (np.random.Generator, np.random.RandomState, np.random.BitGenerator)
    for name in dir(kind)
    if not name.startswith("_")
)
_PACKAGE = str(PACKAGE) + os.sep
_STAND_IN = str(PACKAGE / "numpy" / "random.py")
_NUMPY = str(Path(np.__file__).parent) + os.sep


class Draws:
    """The states of generators that a function can reach, when this is made.

    With `watched`, draws of other threads are told from its own.
    """

    def __init__(self, f: Callable, watched: bool):
        found: list[tuple[str, Any]] = [("random", _OF_MODULE), ("np.random", _OF_NUMPY)]
        found += [(f"a {type(one).__name__}", one) for one in reachable(f, _is_generator)]
        self._watch = _CallWatch() if watched else None
        self._is_alone = _is_alone()
        self._states = [(name, one, _state(one)) for name, one in found]
        #: Whether it is not known who has drawn: the function is to be watched.
        self.is_unsure = False

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Around the call of the function."""
        before = sys.getprofile()
        if self._watch is None or before is not None:  # which could not be set again
            self._watch = None
            yield
            return
        sys.setprofile(self._watch)
        try:
            yield
        finally:
            sys.setprofile(None)

    def reason(self) -> str | None:
        """Why there can be no program, None if the function has drawn nothing."""
        drawn = [(name, one) for name, one, before in self._states if _state(one) != before]
        if drawn and self._watch is None and not (self._is_alone and _is_alone()):
            self.is_unsure = True
        for name, one in drawn:
            if self._watch is None or self._watch.may_draw_from(one):
                return (
                    f"it draws random numbers from {name}, and a program would repeat those of its "
                    "recording; draw outside and pass them as arguments"
                )
        return None


class _CallWatch:
    """A profiler of one thread: what it calls from generators of Python, and the code it runs."""

    def __init__(self):
        self._callers: dict[int, Any] = {}
        self._methods: set[int] = set()  # of which generators it may call some by another name
        self._codes: set[types.CodeType] = set()

    def __call__(self, frame: types.FrameType, event: str, called) -> None:
        owner = None
        if event == "call":
            if frame.f_code not in self._codes:
                self._codes.add(frame.f_code)
                self._methods.update(map(id, _generators_of_methods(frame)))
            if frame.f_code.co_filename == random.__file__:  # gauss() may use up an earlier draw
                owner = frame.f_locals.get("self")
        elif event == "c_call":
            owner = getattr(called, "__self__", None)
        if isinstance(owner, random.Random):
            self._callers[id(owner)] = owner

    def may_draw_from(self, one) -> bool:
        """Whether the thread has drawn from a generator; of NumPy's, whether it named a draw."""
        if type(one) is random.Random:
            return id(one) in self._callers
        if one is not _OF_NUMPY or id(one) in self._methods:
            return True
        return any(not _METHODS.isdisjoint(code.co_names) for code in self._codes if _draws(code))


def _draws(code: types.CodeType) -> bool:
    """Whether code may be such that draws: NumPy's and most of ours only have such names."""
    file = code.co_filename
    return file == _STAND_IN or not file.startswith((_PACKAGE, _NUMPY))


def _generators_of_methods(frame: types.FrameType) -> Iterator[Any]:
    """The generators of methods in variables that the code of a frame reads, such as `draw`."""
    code = frame.f_code
    if _draws(code):
        named = [frame.f_globals.get(name) for name in code.co_names]
        for one in (*frame.f_locals.values(), *named):
            with contextlib.suppress(AttributeError):
                yield object.__getattribute__(one, "__self__")


def _is_alone() -> bool:
    """Whether this is the only thread that runs Python code."""
    return len(sys._current_frames()) == 1


def _is_generator(one) -> bool:
    return isinstance(one, _KINDS)


def _state(one):
    """The state of a generator, to be compared."""
    if isinstance(one, random.SystemRandom):
        return object()  # it has none: it may have drawn
    if isinstance(one, random.Random):
        return one.getstate()
    if isinstance(one, np.random.RandomState):  # with the normal number that it may have kept
        return _comparable(one.get_state(legacy=False))
    one = getattr(one, "bit_generator", one)
    if type(one) is np.random.MT19937:  # whose `state` takes long: 624 words and a position
        return ctypes.string_at(one.ctypes.state_address, 625 * 4)
    return _comparable(one.state)


def _comparable(state):
    if isinstance(state, dict):
        return {key: _comparable(value) for key, value in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else state
