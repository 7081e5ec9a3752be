"""Where each call takes another path: how many recordings are worth their time."""

from __future__ import annotations

import contextlib
import dis
import time
import types
from collections.abc import Callable, Iterator, Sequence

from ..._core.tensor.own_code import own_code
from ..._core.tensor.reachable import Reach
from ..._core.tensor.trace import Guard


class Budget:
    """Whether to record once more, where calls take one path after the other.

    A recording takes as long as some calls. It is due when eager calls, and those that programs
    served, would have taken twice as long as the last one, or four, eight, … times as long while
    programs have served none. So recordings take half of the time of eager calls at most.
    """

    _LEAST, _MOST = 2.0, 64.0

    def __init__(self):
        self._factor, self._seconds, self._served = 0.0, 0.0, 0
        self._eagerly, self._of_call = 0.0, 0.0
        self._asked: dict[str, bool] = {}

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Note the time of a recording, or of the conversion of one."""
        started = time.thread_time()
        yield
        self._seconds += time.thread_time() - started

    @contextlib.contextmanager
    def calling(self) -> Iterator[None]:
        """Note the time of an eager call."""
        started = time.thread_time()
        yield
        self._of_call = time.thread_time() - started
        self._eagerly += self._of_call

    def is_due_to(self, f: Callable, guard: Guard, guards: Sequence[Guard]) -> bool:
        """Whether paths differ at a guard that lets nearly each call take another one."""
        place = str(guard)
        if not self._asked.get(place):
            self._asked[place] = is_of_value(guard) or is_in_loop(f, guard, guards)
        return self._asked[place]

    def is_there(self, served: int) -> bool:
        """Whether a recording is due; `served` counts the calls that programs have served."""
        new = served - self._served
        if self._eagerly + new * self._of_call < self._factor * self._seconds:
            return False
        factor = 0.5 * self._factor if new else 2.0 * self._factor
        self._factor = min(max(factor, self._LEAST), self._MOST)
        self._seconds, self._eagerly, self._served = 0.0, 0.0, served
        return True


def is_of_value(guard: Guard) -> bool:
    """Whether a guard is of a value that hardly ever comes again: a text, or no whole number."""
    return guard.how == "a format" or bool(guard.value % 1.0)


def is_in_loop(f: Callable, guard: Guard, guards: Sequence[Guard]) -> bool:
    """Whether a call seems to pass a branch several times, so that there are paths without number.

    That is so if its line has more guards than the code of the line has branches, and there is a
    loop in the function, or in one that it can reach.
    """
    count = sum([(one.place, one.how) == (guard.place, "bool()") for one in guards])
    if count < 2 or guard.how != "bool()" or not guard.place:
        return False
    codes = [one for function in Reach(f).functions() for one in _codes(own_code(function))]
    file, line, _ = guard.place[0]
    branches = sum([_branches(one, line) for one in codes if one.co_filename == file])
    return count > branches and any(map(_has_loop, codes))


def _codes(code: types.CodeType):
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _codes(one)


def _branches(code: types.CodeType, line: int) -> int:
    """The number of branches at a line."""
    number, found = code.co_firstlineno, 0
    starts = dict(dis.findlinestarts(code))
    for one in dis.get_instructions(code):
        number = starts.get(one.offset) or number
        found += number == line and "JUMP" in one.opname and "_IF_" in one.opname
    return found


def _has_loop(code: types.CodeType) -> bool:
    jumps = (*dis.hasjabs, *dis.hasjrel)
    for one in dis.get_instructions(code):
        if one.opname == "FOR_ITER" or (one.opcode in jumps and one.argval <= one.offset):
            return True
    return False
