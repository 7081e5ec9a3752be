"""Where each call takes another path: how many recordings are worth their time."""

from __future__ import annotations

import contextlib
import dis
import functools
import time
import types
from collections.abc import Callable, Iterator, Sequence

from ..._core.tensor.own_code import own_code
from ..._core.tensor.reachable import Reach
from ..._core.tensor.trace import Guard

#: Paths that are remembered.
_PATHS = 256
#: About the seconds of a first recording, in addition to an eager call, of a program, of its rows.
_FIRST, _OF_PROGRAM, _OF_ROW = 1e-3, 3e-3, 5e-6
_OF_CALL = 7e-5  # to find that a call is to be made eagerly


class Budget:
    """Whether to record once more, where calls take one path after the other.

    What recordings and programs have taken in addition is at most what eager calls have taken, and
    those that programs served would have. A recording is due when these have taken twice as long as
    the last one, or four, eight, … times as long while each path is another one. It becomes a
    program when its path comes the second time.
    """

    _LEAST, _MOST = 2.0, 64.0

    def __init__(self):
        self._eagerly, self._of_call = 0.0, 0.0
        self._added, self._last = 0.0, _FIRST  # in addition, and in the last recording
        self._wanted = 0.0  # of a program that is worth its time
        self._since, self._served, self._factor = 0.0, 0, 0.0
        self._asked: dict[str, bool] = {}
        self._paths: set[tuple] = set()

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Note the time of a recorded call, of which an eager call is a part."""
        started = time.thread_time()
        yield
        seconds = time.thread_time() - started
        own = min(self._of_call or 0.5 * seconds, seconds)
        self._eagerly += own
        self._last = seconds - own
        self._added += self._last

    @contextlib.contextmanager
    def making(self) -> Iterator[None]:
        """Note the time in which a program is made, or a graph is looked for."""
        started = time.thread_time()
        yield
        self._added += time.thread_time() - started

    @contextlib.contextmanager
    def calling(self) -> Iterator[None]:
        """Note the time of an eager call."""
        started = time.thread_time()
        yield
        self._of_call = time.thread_time() - started
        self._eagerly += self._of_call
        self._since += self._of_call
        self._added += _OF_CALL

    @property
    def has_called(self) -> bool:
        """Whether there was a call, recorded or eager."""
        return self._eagerly > 0.0

    def is_worth(self, guards: Sequence[Guard], rows: int, served: int) -> bool:
        """Whether a recording is to become a program: its path was recorded before."""
        if not self.comes_again(guards):
            return False
        self._wanted = _OF_PROGRAM + _OF_ROW * rows
        is_paid = self._may_take(served) >= self._added + self._wanted
        self._wanted *= not is_paid
        return is_paid

    def _may_take(self, served: int) -> float:
        """The seconds that recordings and programs may have taken."""
        return self._eagerly + served * self._of_call

    def comes_again(self, guards: Sequence[Guard]) -> bool:
        """Whether a path was recorded before; one that was not is noted."""
        path = tuple([(one.place, one.how, one.position, one.value) for one in guards])
        is_known = path in self._paths
        self._factor = 0.0 if is_known else min(max(2.0 * self._factor, self._LEAST), self._MOST)
        if len(self._paths) < _PATHS:
            self._paths.add(path)
        return is_known

    def is_due_to(self, f: Callable, guard: Guard, guards: Sequence[Guard]) -> bool:
        """Whether paths differ at a guard that lets nearly each call take another one."""
        place = str(guard)
        if not self._asked.get(place):
            self._asked[place] = is_of_value(guard) or is_in_loop(f, guard, guards)
        return self._asked[place]

    def is_there(self, served: int) -> bool:
        """Whether a recording is due; `served` counts the calls that programs have served."""
        since = self._since + (served - self._served) * self._of_call
        costs = self._added + self._last + self._wanted
        if since < self._factor * self._last or self._may_take(served) < costs:
            return False
        self._since, self._served = 0.0, served
        return True


def is_of_value(guard: Guard) -> bool:
    """Whether a guard is of a value that hardly ever comes again: a text, or no whole number."""
    return guard.how == "a format" or bool(guard.value % 1.0)


def repeated(f: Callable, guards: Sequence[Guard]) -> Guard | None:
    """A guard of a branch that a call seems to pass several times; None if there is none."""
    found: dict[tuple, bool] = {}  # by place, whether there was one before
    for one in guards:
        place = one.place, one.how
        if found.get(place) is False:
            found[place] = True
            if is_in_loop(f, one, guards):
                return one
        found.setdefault(place, False)
    return None


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


@functools.lru_cache(4096)
def _branches(code: types.CodeType, line: int) -> int:
    """The number of branches at a line."""
    number, found = code.co_firstlineno, 0
    starts = dict(dis.findlinestarts(code))
    for one in dis.get_instructions(code):
        number = starts.get(one.offset) or number
        found += number == line and "JUMP" in one.opname and "_IF_" in one.opname
    return found


@functools.lru_cache(4096)
def _has_loop(code: types.CodeType) -> bool:
    jumps = (*dis.hasjabs, *dis.hasjrel)
    for one in dis.get_instructions(code):
        if one.opname == "FOR_ITER" or (one.opcode in jumps and one.argval <= one.offset):
            return True
    return False
