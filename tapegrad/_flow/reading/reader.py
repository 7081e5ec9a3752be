"""A function followed through its bytecode: what is known at points, blocks of the graph."""

from __future__ import annotations

import contextlib
import dataclasses
import heapq
import math
from collections.abc import Callable, Iterator
from typing import Any

from ..._core.tensor.dependencies import Checked
from ..ir.flow_graph import (
    Block,
    Builder,
    Edge,
    Graph,
    Jump,
    Leave,
    Place,
    Return,
    SourceLine,
    Value,
    varying,
)
from ..ir.inner_slopes import Slope, put_slopes
from ..kinds.step_kinds import BOOL, FLOAT, kind_of
from .arena_lists import element_of
from .arrays import mapped
from .code import FunctionCode
from .forms import (
    ABSENT,
    SINGLE,
    Again,
    ArenaList,
    Array,
    Choice,
    Contents,
    Form,
    Known,
    LocalFunction,
    Lost,
    Maybe,
    Number,
    Possible,
    Ref,
    Refused,
    Tuple,
    bound,
    dependence,
    described,
    given_as,
    kinds_of,
    leads,
    numbers,
    shape_of,
    unbound,
)
from .joins import aligned, element_joined, is_unchanged, joined, lifted, matched
from .numbers import OWN_KINDS, float_value, refuse_narrow, settled
from .outside_changes import Changes, is_name_outside, unfollowed

# --- Knowledge at a point of the code: variables of the active frames, and the heap ---------------


#: The variable of the result; what marks a variable that is a number here and an array there.
RESULT, OWN_WAYS = ("result", ""), "own ways"


@dataclasses.dataclass(frozen=True, eq=False)
class Frame:
    """An active call. `name` is its own: that of its caller, and where it was called.

    `outside` is the frame of the variables that it has from outside, or a dict of these.
    """

    name: Any
    code: FunctionCode
    globals: dict
    outside: Any


@dataclasses.dataclass(frozen=True)
class Stack:
    """The active frames: the innermost, and where its caller continues.

    The result is assigned to the caller's variable `target`; a value that a generator yields is a
    `NextItem`.
    """

    frame: Any
    below: Stack | None = None
    label: int = 0
    at: int = 0
    target: str = ""
    generator: Any = None  # the site of the generator that the innermost frame is

    def depth(self) -> int:
        return 1 if self.below is None else 1 + self.below.depth()


class ReadingState:
    """Forms of variables, by frame and name, and of objects, by the site that made them.

    The frame of names outside that the function assigns is `OUTSIDE` with what holds them.
    """

    def __init__(self, variables: dict | None = None, heap: dict | None = None):
        self.variables: dict[tuple[Any, str], Form] = {} if variables is None else variables
        self.heap: dict[Any, Contents] = {} if heap is None else heap

    def copy(self) -> ReadingState:
        return ReadingState(dict(self.variables), dict(self.heap))

    def kept(self, roots: list[tuple[Any, str]], cells) -> ReadingState:
        """Objects reachable from variables; `cells(frame)` names those that functions share."""
        state, waiting, seen = ReadingState(), list(roots), set()
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

    def _follow(self, form: Form, state: ReadingState, waiting: list, cells) -> None:
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
        if isinstance(form, ArenaList):
            self._follow(form.element, state, waiting, cells)
        if isinstance(form, LocalFunction):
            waiting.extend(cells(form.frame))
        for part in form.parts:
            self._follow(part, state, waiting, cells)

    def unbound(self) -> ReadingState:
        return ReadingState(
            {k: unbound(v) for k, v in self.variables.items()},
            {k: unbound(v) for k, v in self.heap.items()},
        )

    def bound(self, values: Iterator[Value]) -> ReadingState:
        return ReadingState(
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

    def join(self, other: ReadingState, unite) -> bool:
        """Widen this state to include another one; returns whether it changed."""
        changed = False
        for mine, its in ((self.variables, other.variables), (self.heap, other.heap)):
            for key in dict.fromkeys((*mine, *its)):
                a, b = mine.get(key, ABSENT), its.get(key, ABSENT)
                if is_unchanged(a, b):
                    continue
                if is_name_outside(key):
                    changed |= _join_outside(key, a, b, mine, unite)
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


def _join_outside(key, a: Form, b: Form, mine: dict, unite) -> bool:
    """Join what is assigned to a name outside: it is not known where that is not one form."""
    try:
        if ABSENT in (a, b):
            raise Refused("it is assigned on one branch only")
        made = joined(a, b, unite)
    except Refused:
        return mine.pop(key, None) is not None
    is_new = made is not mine.get(key)
    if is_new:
        mine[key] = unbound(made)
    return is_new


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


# --- Points of the code: statements with the active calls, each of which becomes a block ----------


class Point:
    """A point of the code: its block, what is known there, and the edges from it."""

    def __init__(
        self, stack: Stack | None, label: int, at: int, state: ReadingState, note: tuple = ()
    ):
        self.stack, self.label, self.at, self.state = stack, label, at, state
        self.note = note  # distinguishes it from other points of that statement
        self.block = Block(-1)
        self.ways: list[tuple[Edge, Block, Point, ReadingState]] = []
        self.times, self.waits = 0, False

    @property
    def place(self) -> tuple:
        """Its position in the code: by the active calls, the outermost first."""
        if self.stack is None:
            return ((math.inf, 0),)
        outer, stack = [], self.stack
        while stack.below is not None:
            outer.append((stack.label, stack.at - 0.5))
            stack = stack.below
        return (*outer[::-1], (self.label, self.at))


# --- A function followed through its bytecode: points of the code become blocks of a graph --------
# A point is a statement, with the active calls. What is known there is the join over all paths to
# it, found by following the code again until nothing changes. A number that differs between paths
# becomes a parameter of the block; a form that differs otherwise is a reason to refuse.


#: How often points are followed in all, which takes seconds, and each; how deeply calls nest; for
#: how many kinds of values of a variable the code is followed; how often functions call themselves.
FOLLOWED, TIMES, DEPTH, MOST_WAYS, RECURSIVE = 6000, 40, 40, 6, 100


@dataclasses.dataclass(frozen=True)
class Inline:
    """A call that is followed: a function's frame with its arguments by name.

    `result` replaces the result of the function.
    """

    frame: Frame
    arguments: dict[str, Form]
    result: Form | None = None


class FunctionReader:
    """Reads one function into `graph`.

    `choices` are sites of lists that lie in the arena, with the form of their elements; `followed`
    counts points, those of earlier readings too. `follow(reader, point)` reads the statements of a
    point, from outside of this module. `single` says that the floats of arrays are of float32.
    """

    def __init__(
        self, graph: Graph, choices: dict, follow: Callable, followed: int = 0, single: bool = False
    ):
        self.graph, self.choices, self._follow = graph, choices, follow
        self.changes, self.state = Changes(), ReadingState()
        self.frames: dict[Any, Frame] = {}
        self.points: dict[Any, Point] = {}
        self._waiting: list[tuple[tuple, int, Point]] = []  # a heap
        self._count, self.followed, self.recursive = 0, followed, 0  # calls inside their own
        self.builder = Builder(graph, Block(-1), single=single)
        self.builder.has_own_kinds = OWN_KINDS in choices
        self.point: Point = None  # type: ignore[assignment]  # until the first
        self._ends: list[Point] = []
        self.end = Point(None, 0, 0, ReadingState())  # that with the result, once all is read
        self.result: Form = Known(None)
        self._regions: list[int] = []
        self._rows: dict[Any, int] = {}
        self._lines: dict[SourceLine, int] = {}
        self.dependencies: list[Checked] = []
        #: Arrays from outside, which are inputs, and what containers from outside hold.
        self.hidden: list[Any] = []
        self.hidden_regions: dict[int, Any] = {}
        self.constant_sites: dict[int, tuple] = {}  # by region, of arrays made of known numbers
        self.given: dict[Any, Contents] = {}
        self._plain: list[Value] = []
        self.slopes: list[Slope] = []
        self._ways: dict[Any, set] = {}
        self.recorded: dict[tuple, Any] = {}  # calls of methods of objects

    # --- memory -------------------------------------------------------------------------------

    def region(self, kind: str) -> int:
        self._regions.append(len(self._regions))
        return self.graph.region(kind)

    def find(self, region: int) -> int:
        while self._regions[region] != region:
            region = self._regions[region]
        return region

    def unite(self, a: int, b: int) -> None:
        """Memory that may be either of two."""
        a, b = self.find(a), self.find(b)
        if a != b:
            if self.graph.regions[a].kind != self.graph.regions[b].kind:
                raise Refused("a variable is a list or array of floats here and of ints there")
            self._regions[max(a, b)] = min(a, b)

    def row_region(self, *what) -> int:
        """The region of one number of lists' elements, or of the heads of lists."""
        if what not in self._rows:
            self._rows[what] = self.region(what[-1])
        return self._rows[what]

    # --- points -------------------------------------------------------------------------------

    def run(self, start: Callable[[], Edge]) -> None:
        """Follow the code from its start until nothing changes."""
        entry = self.graph.block()
        first = Point(None, 0, 0, ReadingState())
        first.block, self.point = entry, first
        self.builder.block = entry
        entry.end = Jump(start())
        self.points["entry"], begun = first, self.followed
        while self._waiting:
            point = heapq.heappop(self._waiting)[2]
            point.waits = False
            point.times, self.followed = point.times + 1, self.followed + 1
            if point.times > TIMES or self.followed > FOLLOWED:
                raise Refused("it has too many paths to follow")
            self._again(point)
            self.changes.check(self.followed - begun)
        self._finish()

    def _again(self, point: Point) -> None:
        point.block, point.ways = Block(-1), []
        self.builder.block, self.point = point.block, point
        kinds = point.state.kinds()
        point.block.parameters = [self.graph.value(kind) for kind in kinds]
        self.state = point.state.bound(iter(point.block.parameters))
        if point in self._ends:
            results = [one.value for one in numbers(self.state.variables[RESULT])]
            point.block.end = Return(tuple(results))  # type: ignore[arg-type]
            return
        self._follow(self, point)

    def goto(
        self, stack: Stack, label: int, at: int, state: ReadingState, note: tuple = ()
    ) -> Edge:
        """The edge to a point from the block that is being made."""
        kept = state.kept(self._roots(stack, label, at), self.cells)
        fixed = [
            (site, contents.keys)
            for site, contents in kept.heap.items()
            if contents.what in ("sequence", "generator")
        ]
        key = (stack, label, at, note, tuple(fixed), self._kinds(kept))
        return self._way(key, kept, lambda: Point(stack, label, at, kept.unbound(), note))

    def give(self, form: Form) -> Edge:
        """The edge to the end, with the result."""
        form = settled(self.builder, form)
        refuse_narrow(self.builder, *numbers(form))
        kept = self.state.kept([], self.cells)
        kept.variables[RESULT] = self.copied(form)
        return self._way(("end", self._kinds(kept)), kept, lambda: self._ending(kept))

    def _ending(self, kept: ReadingState) -> Point:
        self._ends.append(Point(None, 0, 0, kept.unbound()))
        return self._ends[-1]

    def _kinds(self, kept: ReadingState) -> tuple:
        """What distinguishes points of one statement: the code is followed for each.

        These are places of Python's numbers where others are of float32, and variables that are a
        number here and an array there. A sum that begins with 0.0 is a number of Python's before
        the first round of its loop, and of float32 or an array after it. The first round has blocks
        of its own. So have ints that are floats on another way, where that makes a difference.
        """
        ways = kept.ways(self.choices)
        for key, way in ways.items():
            found = self._ways.setdefault(key, {way})
            found.add(way)
            if len(found) > MOST_WAYS:
                raise Refused(f"a variable has values of more than {MOST_WAYS} kinds")
        weak = kept.weak() if self.builder.single else frozenset()
        seen = kept.kinds_seen() if OWN_KINDS in self.choices else weak
        return seen, frozenset(ways.items())

    def _way(self, key, kept: ReadingState, make: Callable[[], Point]) -> Edge:
        point = self.points.get(key)
        if point is None:
            point = self.points[key] = make()
            self._wait(point)
        elif self._join(point.state, kept):
            self._wait(point)
        edge = Edge(point.block, [])
        self.point.ways.append((edge, self.builder.block, point, kept))
        return edge

    def _wait(self, point: Point) -> None:
        """Follow a point when those before it in the code have been followed."""
        if not point.waits:
            point.waits = True
            self._count += 1
            heapq.heappush(self._waiting, (point.place, self._count, point))

    def _join(self, known: ReadingState, kept: ReadingState) -> bool:
        """Widen the knowledge at a point; lists that move to the arena come with their elements."""
        try:
            return known.join(kept, self.unite)
        except Again as again:
            heaps = known.heap, kept.heap
            lists = [heap[site] for heap in heaps for site in again.sites if site in heap]
            items = [item for one in lists if one.what == "list" for item in one.items]
            element = element_joined(again.element, element_of(self, items), self.unite)
            raise Again(again.sites, element, again.why) from None

    def _roots(self, stack: Stack | None, label: int, at: int) -> list:
        roots: list = [] if stack is None else [*filter(is_name_outside, self.state.variables)]
        target = ""
        while stack is not None:
            frame = self.frames[stack.frame]
            names = frame.code.live(label, at)
            roots += [(stack.frame, name) for name in names if name != target]
            roots += [self.owner(frame, name) for name in frame.code.free]
            if stack.generator is not None:
                roots.append((stack.frame, "$generator"))
            label, at, target, stack = stack.label, stack.at, stack.target, stack.below
        return [root for root in roots if root is not None]

    def cells(self, frame) -> list:
        """Variables of a frame that functions made there share, and those it has from outside."""
        if frame not in self.frames:
            return []
        found = self.frames[frame]
        outside = [self.owner(found, name) for name in found.code.free]
        return [*[(frame, n) for n in found.code.cells], *[one for one in outside if one]]

    def owner(self, frame: Frame, name: str):
        """The key of a variable that a frame has from outside; None if that is fixed."""
        while name in frame.code.free:
            if isinstance(frame.outside, dict):
                return None
            frame = self.frames[frame.outside]
        return frame.name, name

    def without_derivative(self, form: Number) -> Number:
        """A tensor as a Python number: refused in the end if a derivative would be lost."""
        value = float_value(self.builder, form)
        self._plain.append(value)
        return Number(FLOAT, value, False)

    # --- the end ------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Fill in the arguments of all edges, and order the blocks that are reached."""
        if not self._ends:
            raise self._endless()
        self._choose_end()
        self._check_results()
        for point in self.points.values():
            for edge, block, target, state in point.ways:
                self.builder.block = block
                self.builder.line = block.steps[-1].line if block.steps else 0
                edge.target = target.block
                edge.arguments = self._arguments(target.state, state)
        self._order()
        for step in self.graph.steps():
            if isinstance(step.payload, Place):
                region = self.find(step.payload.region)
                step.payload = Place(region, step.payload.space)
                if kind_of(step.op).is_store:
                    self.graph.regions[region].written = True
        for given in self.graph.inputs:
            if given.region >= 0:
                given.region = self.find(given.region)
        try:
            put_slopes(self.graph, self.slopes)
        except (TypeError, ValueError) as error:  # a partial derivative that does not exist
            raise Refused(str(error)) from None
        if not varying(self.graph)[0].isdisjoint(self._plain):
            raise Lost("float() of a number that has a derivative")

    def _choose_end(self) -> None:
        """The end with most numbers of float32, else floats, gives the result; others leave."""

        def floats(end: Point) -> tuple[int, int]:
            kinds = [one.kind for one in numbers(lifted(end.state.variables[RESULT]))]
            return kinds.count(SINGLE), kinds.count(FLOAT)

        self.end = max(self._ends, key=floats)
        self.result = unbound(self.end.state.variables[RESULT])
        for end in self._ends:
            if end is not self.end:
                why = "a result is float32 on one branch and a number of Python's on this one"
                why = why if self.builder.single else "a result may be an int or a float"
                end.block.end = Leave(self.graph.reason(why))

    def _endless(self) -> Refused:
        """Why no way through the function comes to an end that the graph knows."""
        if not self.graph.reasons:
            return Refused("it never returns")
        reason, line = self.graph.reasons[0]
        error = Refused(reason)
        error.line = self.graph.lines[line]
        return error

    def _check_results(self) -> None:
        """All edges to the end give results of the same kinds; int and float are two kinds."""
        ways = [way for point in self.points.values() for way in point.ways if way[2] is self.end]
        results = [state.variables[RESULT] for _, _, _, state in ways]
        for other in results[1:]:
            if shape_of(lifted(other)) != shape_of(lifted(results[0])):
                one, two = described(results[0]), described(other)
                raise Refused(f"the result is {one} on one branch, {two} on another")

    def _order(self) -> None:
        found: dict[int, Block] = {}
        waiting = [self.graph.blocks[0]]
        while waiting:
            block = waiting.pop()
            if id(block) not in found:
                found[id(block)] = block
                waiting.extend(edge.target for edge in reversed(block.end.edges))
        self.graph.blocks = list(found.values())
        for k, block in enumerate(self.graph.blocks):
            block.number = k

    def _arguments(self, wanted: ReadingState, state: ReadingState) -> list[Value]:
        """Values for the parameters of a block."""
        made: list[Value] = []
        for template, given in (
            (wanted.variables, state.variables),
            (wanted.heap, state.heap),
        ):
            for key, form in template.items():
                made += matched(self.builder, form, given.get(key, ABSENT))
        return made

    # --- help for statements ------------------------------------------------------------------

    @contextlib.contextmanager
    def at_start(self) -> Iterator[None]:
        """Let steps be put into the first block, which each call runs once."""
        block, self.builder.block = self.builder.block, self.graph.blocks[0]
        try:
            yield
        finally:
            self.builder.block = block

    def line(self, line: SourceLine) -> None:
        """The user's line that steps come from."""
        if line not in self._lines:
            self._lines[line] = len(self.graph.lines)
            self.graph.lines.append(line)
        self.builder.line = self._lines[line]

    def make(self, site, what, keys: tuple, items: tuple[Form, ...]) -> Ref:
        """A new object with an identity."""
        if site in self.state.heap and self._is_used(site):
            if what == "list":
                raise Again({site}, None)
            raise Refused("an object is made anew while an earlier one of that line is in use")
        self.state.heap[site] = Contents(what, keys, items)
        return Ref(site, what)

    def _is_used(self, site) -> bool:
        """Whether an older object of a site is still reached from anything live."""
        point = self.point
        assert point.stack is not None
        roots = self._roots(point.stack, point.label, self.at)
        return site in self.state.kept(roots, self.cells).heap

    def lends(self, frame: Frame, stack: Stack, label: int, at: int) -> bool:
        """Whether variables of an earlier call with this frame's name are still reached."""
        state = self.state.kept(self._roots(stack, label, at), self.cells)
        return any((frame.name, name) in state.variables for name in frame.code.cells)

    def is_used_after(self, site) -> bool:
        """Whether an object is still reached after the statement that is being followed."""
        point = self.point
        assert point.stack is not None
        roots = self._roots(point.stack, point.label, self.at + 1)
        return site in self.state.kept(roots, self.cells).heap

    at = 0  # the statement that is being followed

    def contents(self, form: Ref) -> Contents:
        if form.site in self.given:
            return self.given[form.site]
        if form.site not in self.state.heap:
            raise Refused("an object that is made on one branch only")
        return self.state.heap[form.site]

    def update(self, form: Ref, keys: tuple, items: tuple[Form, ...]) -> None:
        """Other contents of an object."""
        if (why := given_as(form.site)) is not None:
            raise Refused(f"it changes a list or dict {why}")
        self.state.heap[form.site] = Contents(self.state.heap[form.site].what, keys, items)

    def copied(self, form: Form) -> Form:
        """A result without objects that have an identity."""
        if (outside := unfollowed(self, form)) is not None:
            raise dependence("its result", outside)
        if isinstance(form, Ref):
            contents = self.contents(form)
            if contents.what == "list":
                return Contents("list", (), tuple(map(self.copied, contents.items)))
            if contents.what == "dict":
                return Contents("dict", contents.keys, tuple(map(self.copied, contents.items)))
            raise Refused("the result is an object that the function makes")
        if isinstance(form, Tuple):
            if form.names:
                raise Refused("the result is a namedtuple")
            return Tuple(tuple(map(self.copied, form.items)))
        if isinstance(form, Number) and form.mixed:
            return self._of_one_kind(form)
        if isinstance(form, Array):  # in C order, and no view of memory that is written later
            return mapped(self, lambda x: x, form)
        if not isinstance(form, (Known, Number, ArenaList, Maybe)):
            raise Refused(f"the result is {described(form)}")
        return form

    def _of_one_kind(self, form: Number) -> Form:
        """A float that may be an int after some branch: a call leaves the graph if it is whole."""
        if form.kind != FLOAT or form.value is None:
            raise Refused("the result is an int on one branch and a bool on another")
        build = self.builder
        whole = build.step("float_equal", build.step("rint", form.value), form.value)
        build.check(build.step("bool_not", whole), "a result that may be an int")
        return Number(FLOAT, form.value, form.tensor)
