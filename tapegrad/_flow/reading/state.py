"""Knowledge at a point of the code: variables of the active frames, and the heap."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from ..ir.flow_graph import Value
from ..kinds.step_kinds import BOOL
from .code import Code
from .errors import Again, Refused
from .forms import (
    ABSENT,
    SINGLE,
    Array,
    Choice,
    Contents,
    Form,
    Function,
    Known,
    Maybe,
    Number,
    Possible,
    Ref,
    Row,
    Tuple,
    bound,
    kinds_of,
    leads,
    unbound,
)
from .joins import aligned, is_unchanged, joined

#: The variable of the result; what marks a variable that is a number here and an array there.
RESULT, OWN_WAYS = ("result", ""), "own ways"


@dataclasses.dataclass(frozen=True, eq=False)
class Frame:
    """An active call. `name` is its own: that of its caller, and where it was called.

    `outside` is the frame of the variables that it has from outside, or a dict of these.
    """

    name: Any
    code: Code
    globals: dict
    outside: Any


@dataclasses.dataclass(frozen=True)
class Stack:
    """The active frames: the innermost, and where its caller continues.

    The result is assigned to the caller's variable `target`; a value that a generator yields is a
    `Pair`.
    """

    frame: Any
    below: Stack | None = None
    label: int = 0
    at: int = 0
    target: str = ""
    generator: Any = None  # the site of the generator that the innermost frame is

    def depth(self) -> int:
        return 1 if self.below is None else 1 + self.below.depth()


class State:
    """Forms of variables, by frame and name, and of objects, by the site that made them."""

    def __init__(self, variables: dict | None = None, heap: dict | None = None):
        self.variables: dict[tuple[Any, str], Form] = {} if variables is None else variables
        self.heap: dict[Any, Contents] = {} if heap is None else heap

    def copy(self) -> State:
        return State(dict(self.variables), dict(self.heap))

    def kept(self, roots: list[tuple[Any, str]], cells) -> State:
        """Objects reachable from variables; `cells(frame)` names those that functions share."""
        state, waiting, seen = State(), list(roots), set()
        while waiting:
            key = waiting.pop()
            form = self.variables.get(key)
            if form is None or key in seen:
                continue
            seen.add(key)
            state.variables[key] = form
            self._follow(form, state, waiting, cells)
        # in the order of this state: numbers of merged states correspond
        state.variables = {k: v for k, v in self.variables.items() if k in state.variables}
        state.heap = {k: v for k, v in self.heap.items() if k in state.heap}
        return state

    def _follow(self, form: Form, state: State, waiting: list, cells) -> None:
        if not leads(form):
            return
        if isinstance(form, Ref) and form.site not in state.heap and form.site in self.heap:
            contents = state.heap[form.site] = self.heap[form.site]
            if contents.what == "generator":
                waiting.extend((contents.keys[0], name) for name in contents.keys[3])
                waiting.extend(cells(contents.keys[0]))
            self._follow(contents, state, waiting, cells)
        for option in form.options if isinstance(form, Choice) else ():
            self._follow(option, state, waiting, cells)
        if isinstance(form, Row):
            self._follow(form.element, state, waiting, cells)
        if isinstance(form, Function):
            waiting.extend(cells(form.frame))
        for part in form.parts:
            self._follow(part, state, waiting, cells)

    def unbound(self) -> State:
        return State(
            {k: unbound(v) for k, v in self.variables.items()},
            {k: unbound(v) for k, v in self.heap.items()},
        )

    def bound(self, values: Iterator[Value]) -> State:
        return State(
            {k: bound(v, values) for k, v in self.variables.items()},
            {k: bound(v, values) for k, v in self.heap.items()},
        )

    def kinds(self) -> list[str]:
        """Kinds of the numbers, in order."""
        forms = (*self.variables.values(), *self.heap.values())
        return [kind for form in forms for kind in kinds_of(form)]

    def ways(self, choices) -> dict:
        """What those variables and objects are that go ways of their own."""
        forms = self.variables | self.heap
        return {key: way_of(form) for key, form in forms.items() if (OWN_WAYS, key) in choices}

    def weak(self) -> frozenset:
        """The places of Python's numbers, which have no dtype where others are of float32."""
        forms = (*self.variables.items(), *self.heap.items())
        return frozenset([(key, weak) for key, form in forms if (weak := _weak_numbers(form))])

    def kinds_seen(self) -> frozenset:
        """The places of numbers, with the kinds that Python's numbers have there."""
        forms = (*self.variables.items(), *self.heap.items())
        return frozenset([(key, _number_kinds(form)) for key, form in forms])

    def join(self, other: State, unite) -> bool:
        """Widen this state to include another one; returns whether it changed."""
        changed = False
        for mine, its in ((self.variables, other.variables), (self.heap, other.heap)):
            for key in dict.fromkeys((*mine, *its)):
                a, b = mine.get(key, ABSENT), its.get(key, ABSENT)
                if is_unchanged(a, b):
                    continue
                a, b = aligned(a, b)
                if _differ(a, b):
                    raise Again({key}, None)
                if ABSENT in (a, b) and mine is self.heap:
                    made = b if a is ABSENT else a  # no variable of the other branch leads to it
                else:
                    made = _joined_at(key, a, b, unite)
                if made is not mine.get(key):
                    mine[key] = unbound(made)  # type: ignore[assignment]
                    changed = True
        return changed


def _joined_at(key, a: Form, b: Form, unite) -> Form:
    """The join of what a variable or an object is; if there is none, each goes a way of its own."""
    try:
        return joined(a, b, unite)
    except Refused as error:
        if key == RESULT:
            raise
        raise Again({(OWN_WAYS, key)}, None, str(error)) from None


def way_of(form: Form) -> Any:
    """Equal for forms that can be joined: what is a number, an array of some dimensions, …"""
    if isinstance(form, Number) or (isinstance(form, Known) and form.kind is not None):
        return "truth" if form.kind == BOOL else "number"
    if isinstance(form, Array):
        return Array, len(form.lengths), form.element
    if isinstance(form, (Tuple, Contents, Maybe, Possible)):
        return type(form), *map(way_of, form.parts)
    return type(form)


def _differ(a: Form, b: Form) -> bool:
    """Whether two are contents of a list that has other lengths, or other kinds of items."""
    is_list = isinstance(a, Contents) and a.what == "list"
    return is_list and isinstance(b, Contents) and a.head != b.head


def _weak_numbers(form: Form) -> Any:
    """Which numbers of a form are Python's; of a list whether any is, since it may grow."""
    if isinstance(form, Number):
        return form.kind != SINGLE
    if isinstance(form, Known):
        return form.kind is not None
    if not isinstance(form, (Tuple, Contents, Maybe, Possible)):
        return False
    found = tuple([_weak_numbers(part) for part in form.parts])
    if isinstance(form, Contents) and form.what == "list":
        return any(found)
    return found if any(found) else False


def _number_kinds(form: Form) -> Any:
    """The kinds of a form's numbers; of a list as a set, since it may grow."""
    if isinstance(form, (Number, Known)):
        return form.kind
    if not isinstance(form, (Tuple, Contents, Maybe, Possible)):
        return None
    found = tuple([_number_kinds(part) for part in form.parts])
    is_list = isinstance(form, Contents) and form.what == "list"
    return frozenset(found) if is_list else found
