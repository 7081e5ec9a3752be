"""The codes of functions are exchanged for the time of a call, and put back afterwards.

All codes of a call are set by one call into C, between whose steps neither a signal handler nor
another thread runs. What is to be put back is noted before. A call whose end an interrupt prevents
ends with the object that stands for it, or when the next one begins.
"""

from __future__ import annotations

import ctypes
import itertools
import operator
import sys
import types
from collections.abc import Iterable
from typing import Any, NamedTuple

from .._core.codegen import layout, process
from .._core.tape.native_types import STATE
from .._core.tensor.plain_data import answer_all, class_lock
from .._core.tensor.reachable import code_of, made_for, own_code
from .exchanged_names import ABSENT, Loaded, Watched, rewritten

_lock = class_lock
#: What is the id of tensors that are made without a row.
_unrecorded = ctypes.c_int64.from_address(STATE.ctypes.data + layout.STATE_UNRECORDED)
_MADE_INSIDE, _UNRECORDED = layout.MADE_INSIDE, layout.UNRECORDED
_CODE = itertools.repeat("__code__")


class Need(NamedTuple):
    """A function that a call can reach, and the code that suits what else it can reach.

    The code is the user's own, that of `loaded`, where nothing is exchanged. Names that are left
    may be exchanged for another call.
    """

    function: Any  # a function of Python, not one to be bound
    loaded: Loaded
    kept: Watched
    made: types.CodeType
    has_left: bool


class Exchange:
    """The functions that a call can reach, and the codes of those that run with other ones."""

    __slots__ = ("_functions", "_is_needed", "_made", "_only", "_own", "_settled", "needs")

    def __init__(self, needs: Iterable[Need]):
        #: By the identity of the function, which lives as long as this object.
        self.needs = {id(one.function): one for one in needs}
        changed = [one for one in self.needs.values() if one.made is not one.loaded.code]
        self._is_needed = bool(changed) or any(one.has_left for one in self.needs.values())
        self._functions = [one.function for one in changed]
        self._own = [one.loaded.code for one in changed]
        self._made = [made_for(one.loaded.code, one.made) for one in changed]
        self._only = self._functions[0] if len(changed) == 1 else None  # for short calls
        self._settled: dict[tuple[Exchange, ...], list[tuple[Need, types.CodeType]]] = {}

    def of_another(self, function, own) -> Exchange:
        """The same with a function in the place of `own`, which has the same code."""
        made = object.__new__(Exchange)
        made.needs = dict(self.needs)
        if (need := made.needs.pop(id(own), None)) is not None:
            made.needs[id(function)] = need._replace(function=function)
        made._functions = [function if one is own else one for one in self._functions]
        made._only = function if self._only is own else self._only
        made._own, made._made, made._is_needed = self._own, self._made, self._is_needed
        made._settled = {}
        return made

    def __bool__(self) -> bool:
        """Whether calls need it."""
        return self._is_needed

    def is_current(self) -> bool:
        """Whether the functions have the codes of the time when this was made."""
        only = self._only
        if self._have(self._own) if only is None else code_of(only) is self._own[0]:
            return True
        return all(map(operator.is_, map(own_code, self._functions), self._own))

    def _have(self, codes: list[types.CodeType]) -> bool:
        return all(map(operator.is_, map(code_of, self._functions), codes))

    def watch(self) -> None:
        """Let tools that watch the user's code watch the other one, too."""
        for tool in filter(_monitoring.get_tool, range(_TOOLS)):
            for own, made in zip(self._own, self._made, strict=True):
                _copy_events(tool, own, made)

    def put(self) -> None:
        """Put the codes of this call in, the only one under way."""
        if self._only is not None:
            self._only.__code__ = self._made[0]
            return
        any(map(setattr, self._functions, _CODE, self._made))

    def take_out(self) -> None:
        """Put the user's codes back, but where the user has put others since."""
        only = self._only
        if only is not None and code_of(only) is self._made[0]:
            only.__code__ = self._own[0]
        elif not self._have(self._made):
            self.settle(())
        else:
            any(map(setattr, self._functions, _CODE, self._own))

    def settle(self, runs: tuple[Exchange, ...]) -> None:
        """Let the functions that this call can reach have the codes that suit some calls."""
        if runs not in self._settled:
            if len(self._settled) >= _MOST_SETTLED:
                self._settled.clear()
            changed = {id(one) for run in (self, *runs) for one in run._functions}
            needs = [self.needs[one] for one in changed if one in self.needs]
            self._settled[runs] = [(one, _code_for(one, runs)) for one in needs]
        wanted = []
        for one, code in self._settled[runs]:
            if (own := own_code(one.function)) is not one.loaded.code:
                code = own  # the user has put another one, perhaps that of a function entered now
            if code_of(one.function) is not code:
                wanted.append((one.function, code))
        if wanted:
            functions, codes = zip(*wanted, strict=True)
            any(map(setattr, functions, _CODE, codes))


#: The number of sets of calls under way for which an exchange keeps its codes.
_MOST_SETTLED = 8


#: For each call under way a list of its own, with what it exchanges, by the identity of the list.
_active: dict[int, list[Exchange]] = {}


class EnteredCall:
    """One call during which functions are entered. At its end, however it comes, they are left.

    Each step can be done twice: an interrupt may come between any two.
    """

    __slots__ = ("_held",)

    def __init__(self, exchange: Exchange):
        self._held = [exchange]
        if _monitoring is not None:
            exchange.watch()
        with _lock:
            if _active:
                _end_abandoned()
            _active[id(self._held)] = self._held
            if len(_active) == 1:
                _unrecorded.value = _MADE_INSIDE
                answer_all(True)
                exchange.put()
            else:
                exchange.settle(tuple([held[0] for held in _active.values()]))

    def end(self) -> None:
        with _lock:
            _end(self._held)
            self._held = []

    def __del__(self):
        if getattr(self, "_held", None):
            self.end()


def _end(held: list[Exchange]) -> None:
    if len(_active) == 1 and id(held) in _active:
        held[0].take_out()
        _nothing_is_entered()
    else:
        held[0].settle(tuple([one[0] for one in _active.values() if one is not held]))
    _active.pop(id(held), None)  # after the codes are back: until then the call has not ended


def _end_abandoned() -> None:
    """End the calls that only the table knows: an interrupt has prevented their ends."""
    for number in [*_active]:
        held = _active.get(number)
        if held is not None and sys.getrefcount(held) <= _ALONE:
            _end(held)


def _references() -> int:
    table: dict[int, list] = {0: []}
    held = table.get(0)
    return sys.getrefcount(held)


_ALONE = _references()


# --- tools ----------------------------------------------------------------------------------------

#: New in Python 3.12: debuggers and the like ask for events of single code objects.
_monitoring: Any = getattr(sys, "monitoring", None)
_TOOLS = 6
#: By the tool and the identity of code that was made, the events it has as the user's code has.
_copied: dict[tuple[int, int], int] = {}


def _copy_events(tool: int, own: types.CodeType, made: types.CodeType) -> None:
    """Let code, and the code in it, have the events of the user's, besides those of its own."""
    wanted, before = _monitoring.get_local_events(tool, own), _copied.get((tool, id(made)), 0)
    if wanted != before:
        others = _monitoring.get_local_events(tool, made) & ~before
        _monitoring.set_local_events(tool, made, others | wanted)
        _copied[tool, id(made)] = wanted
    for inner, other in zip(own.co_consts, made.co_consts, strict=False):
        if isinstance(inner, types.CodeType) and inner is not other:
            _copy_events(tool, inner, other)


# --- the child of a fork --------------------------------------------------------------------------


@process.in_child
def _leave_all() -> None:
    """In a forked child nothing is entered."""
    for held in [*_active.values()]:
        held[0].take_out()
    _active.clear()
    _nothing_is_entered()


def _nothing_is_entered() -> None:
    _unrecorded.value = _UNRECORDED
    answer_all(False)


def _code_for(need: Need, runs: tuple[Exchange, ...]) -> types.CodeType:
    """The code of a function that suits all calls which can reach it."""
    own = need.loaded.code
    needs = [run.needs[id(need.function)] for run in runs if id(need.function) in run.needs]
    needs = [one for one in needs if one.loaded.code is own]
    if not needs:
        return own
    if all(one.made is needs[0].made for one in needs):
        return needs[0].made
    values = [one.loaded.values for one in needs]

    def resolve(inner: types.CodeType, at):
        found = [each[id(inner), at.offset] for each in values]
        return found[0] if all(one is found[0] for one in found) else ABSENT

    kept = Watched.by_any([one.kept for one in needs])
    return made_for(own, rewritten(Loaded(own, resolve), kept).code)
