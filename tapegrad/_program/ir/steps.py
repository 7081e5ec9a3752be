"""The parts of a program: an arena of slots of one dtype, and the steps that fill it."""

from __future__ import annotations

import bisect
import dataclasses
import functools
import itertools
import math
import mmap
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from ..._core.ops.table import BY_CODE, POWERS, Pointwise
from ..._core.remembered import remembered

# --- What the time of a step is spent on ----------------------------------------------------------


class WorkCounts(NamedTuple):
    """Counts that determine the time: calls of parts, then numbers that go through operations."""

    calls: float = 0.0
    numbers: float = 0.0  # operations on single numbers
    number_functions: float = 0.0
    elements: float = 0.0  # by arithmetic on arrays
    element_functions: float = 0.0
    moved: float = 0.0
    multiplied: float = 0.0  # in products of matrices
    along: float = 0.0  # in other operations on whole arrays
    python: float = 0.0  # calls of Python functions
    solved: float = 0.0  # numbers of matrices times their rows, in factors and solutions


def is_function(code: int) -> bool:
    """Whether an operation calls a function, and is not arithmetic or a choice alone."""
    op = BY_CODE.get(code)
    if not isinstance(op, Pointwise) or op.name in POWERS:
        return False
    return any("np." in text for text in (op.value, *map(str, op.steps)))


# --- Sets of slots as ranges: what is asked of arrays costs the same however large they are -------


def distinct(slots: np.ndarray) -> np.ndarray:
    """Slots in order, each once. `np.unique` imports `numpy.ma`."""
    found = np.sort(slots, axis=None)
    return found[np.append(found[:1] == found[:1], found[1:] != found[:-1])]


def mostly_zeros(count: int, dtype: type) -> np.ndarray:
    """Zeros by slot, of which few are written or read: the others take neither time nor memory."""
    memory = mmap.mmap(-1, max(count, 1) * np.dtype(dtype).itemsize)
    found: np.ndarray = np.frombuffer(memory, dtype, count)
    return found


class Ranges:
    """A set of slots, given as ranges from `low` to before `high` in any order.

    `edges` are the first slot and the one after the last of each range, in order; no two touch.
    """

    def __init__(self, low, high):
        low, high = np.asarray(low, np.int64), np.asarray(high, np.int64)
        low, high = low[low < high], high[low < high]
        order = np.argsort(low, kind="stable")
        low, high = low[order], np.maximum.accumulate(high[order])
        begins = np.flatnonzero(np.append(True, low[1:] > high[:-1])[: len(low)])
        ends = np.append(begins[1:], len(low))[: len(begins)] - 1
        self.edges = np.stack([low[begins], high[ends]], 1).ravel()

    @remembered
    def listed(self) -> list[int]:
        """The edges as numbers of Python, in which single slots are found faster."""
        return self.edges.tolist()

    def __bool__(self) -> bool:
        return len(self.edges) > 0

    # --- questions about many slots -----------------------------------------------------------

    def hold(self, slots: np.ndarray) -> np.ndarray:
        """Which slots are in the set."""
        return (np.searchsorted(self.edges, slots, side="right") & 1).astype(bool)

    def meet(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Which of the spans from `low` to before `high` have a slot in the set."""
        first = np.searchsorted(self.edges, low, side="right")
        last = np.searchsorted(self.edges, high, side="left")
        return (low < high) & ((first & 1 == 1) | (last > first))

    def cover(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Which of these spans have all their slots in the set."""
        first = np.searchsorted(self.edges, low, side="right")
        last = np.searchsorted(self.edges, high, side="left")
        return (low >= high) | ((first & 1 == 1) & (last == first))

    # --- questions about one view -------------------------------------------------------------

    def meets(self, view: Any) -> bool:
        """Whether a slot between the ends of a view is in the set."""
        (low, high), edges = view.extent, self.listed
        first = bisect.bisect_right(edges, low)
        return low < high and bool(first & 1 or (first < len(edges) and edges[first] < high))

    def covers(self, view: Any) -> bool:
        """Whether all slots between the ends of a view are in the set."""
        (low, high), edges = view.extent, self.listed
        first = bisect.bisect_right(edges, low)
        return low >= high or bool(first & 1 and edges[first] >= high)


class Shifts:
    """New places of slots: those from `starts[k]` on are moved by `by[k]`; −1 is no slot.

    `starts` are in order, and slots before the first stay.
    """

    def __init__(self, starts, by):
        self.starts = np.append(0, starts).astype(np.int64)
        self.by = np.append(0, by).astype(np.int64)
        self._starts, self._by = self.starts.tolist(), self.by.tolist()

    @classmethod
    def of(cls, low, high, by) -> Shifts:
        """Those of ranges in order from `low` to before `high`; slots between them stay."""
        starts = np.stack([low, high], 1).ravel()
        return cls(starts, np.stack([by, np.zeros_like(by)], 1).ravel())

    def place(self, slot: int) -> int:
        """The new place of a slot."""
        return slot + self._by[bisect.bisect_right(self._starts, slot) - 1] if slot >= 0 else slot

    def __call__(self, slots: np.ndarray) -> np.ndarray:
        """The new places of slots."""
        at = np.searchsorted(self.starts, slots, side="right") - 1
        return np.where(slots >= 0, slots + self.by[at], slots)


class ChainedPlaces:
    """New places of slots by one after the other of two of these."""

    def __init__(self, first: Shifts, second: Shifts):
        self.first, self.second = first, second

    def place(self, slot: int) -> int:
        """The new place of a slot."""
        return self.second.place(self.first.place(slot))

    def __call__(self, slots: np.ndarray) -> np.ndarray:
        """The new places of slots."""
        return self.second(self.first(slots))


# --- Values of JSON, asked for type by type: what is read comes from anywhere ---------------------


#: The limit of integers, so that sums of a few fit into 64 bits.
_LARGEST = 2**60


def integer(item) -> int:
    if type(item) is not int or abs(item) > _LARGEST:
        raise ValueError(f"{short(item)} is no integer")
    return item


def text(item) -> str:
    if type(item) is not str:
        raise ValueError(f"{short(item)} is no text")
    return item


def label(item) -> str:
    """A text that people are shown."""
    return printable(text(item))


def printable(name: str) -> str:
    """A name with escapes in place of what terminals obey and nobody sees."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in name)


def truth(item) -> bool:
    if type(item) is not bool:
        raise ValueError(f"{short(item)} is neither true nor false")
    return item


def items(item, count: int | None = None) -> list:
    if type(item) is not list or (count is not None and len(item) != count):
        raise ValueError(f"{short(item)} is no list" + (f" of {count}" if count else ""))
    return item


def pairs(item) -> list[list]:
    return [items(one, 2) for one in items(item)]


def integers(item) -> tuple[int, ...]:
    return tuple(map(integer, items(item)))


def fields(item, *names: str) -> list:
    """The values of an object that has exactly these names."""
    if type(item) is not dict or set(item) != set(names):
        raise ValueError(f"{short(item)} is no object of {', '.join(names)}")
    return [item[name] for name in names]


def short(item) -> str:
    """What is read, as errors show it."""
    shown = repr(item)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"


# --- Views of steps as columns: the slots between their ends, for questions about all of them -----


#: What a view of another base than the arena has for its ends: slot 0, which is of no value.
_ELSEWHERE = (0, 1)


class Spans:
    """Views of steps, given as a list for each, from slot `low` to before `high`.

    `step` is the number of the step of each.
    """

    def __init__(self, steps: list[list[Any]]):
        self.views = list(itertools.chain.from_iterable(steps))
        ends = [_ELSEWHERE if view.base else view.extent for view in self.views]
        flat = np.fromiter(itertools.chain.from_iterable(ends), np.int64, 2 * len(ends))
        self.low, self.high = flat.reshape(-1, 2).T
        self.count = len(steps)
        self.step = np.repeat(np.arange(self.count), [len(views) for views in steps])

    @property
    def lengths(self) -> np.ndarray:
        """How many slots are between the ends of each view."""
        return self.high - self.low

    def steps_of(self, which: np.ndarray) -> np.ndarray:
        """By step, whether it has a view among those that are marked."""
        found = np.zeros(self.count, bool)
        found[self.step[which]] = True
        return found

    def overlapped(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Which of these views, of which no two overlap, overlap others with the given ends."""
        low, high = low[low < high], high[low < high]
        order = np.lexsort((self.high, self.low))  # those without elements before the next ones
        first = np.searchsorted(self.high[order], low, side="right")
        after = np.searchsorted(self.low[order], high, side="left")
        counts = np.zeros(len(order) + 1, np.int64)
        for at, sign in ((first, 1), (after, -1)):
            counts += sign * np.bincount(at, minlength=len(counts))
        found = np.empty(len(order), bool)
        found[order] = np.cumsum(counts[:-1]) > 0
        return found & (self.low < self.high)


# --- The parts of a program: an arena of slots of one dtype, and the steps that fill it -----------
# A program is in single assignment: every slot is written once, by one step, before it is read. A
# slot has its adjoint at the same place of a second arena. Elements of arrays lie in slots as well,
# so that a view of an array costs nothing and `x[3]` is a slot. Booleans and integers are kept as
# floats of that dtype (integers up to 2^53 in float64, 2^24 in float32).


#: What slots hold, unless everything is of float32.
DOUBLE = np.dtype(np.float64)
#: The base of the arena. Bases from 1 on are large inputs, read where the caller has them.
ARENA = 0
#: A slot that belongs to no value.
NOTHING = 0
#: In `Scalars.op`: the value in slot `a` must be equal to that in slot `b` (NaN to NaN), else the
#: program stops. A step's result slot of it is never read.
GUARD = 0
#: Gives other slots for an array of slots, of which −1 stays.
Renumber = Callable[[np.ndarray], np.ndarray]
_Kind = TypeVar("_Kind", bound="Step")


@dataclasses.dataclass(slots=True, init=False)
class View:
    """Slots of one base: element (i, j, …) is at offset + i·strides[0] + j·strides[1] + …

    A view never changes. `size`, `extent` (the first slot and the one after the last) and `hashed`
    are there from the beginning: passes need them repeatedly.
    """

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    base: int = ARENA
    size: int = dataclasses.field(init=False, compare=False, repr=False)
    extent: tuple[int, int] = dataclasses.field(init=False, compare=False, repr=False)
    hashed: int = dataclasses.field(init=False, compare=False, repr=False)

    def __init__(
        self, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], base: int = ARENA
    ):
        self.offset, self.shape, self.strides, self.base = offset, shape, strides, base
        low, high, self.size = _reach(shape, strides)
        self.extent = offset + low, offset + high
        self.hashed = hash((offset, shape, strides, base))

    def __hash__(self) -> int:
        return self.hashed

    def overlaps(self, other: View) -> bool:
        """Whether two views may share a slot: whether the ranges between their ends overlap."""
        (low, high), (other_low, other_high) = self.extent, other.extent
        return self.base == other.base and low < other_high and other_low < high

    def of(self, memory: np.ndarray) -> np.ndarray:
        """The elements, where the slots of the base are one array."""
        if not self.size:
            return np.empty(self.shape, memory.dtype)
        item = memory.itemsize
        steps = [item * stride for stride in self.strides]
        return np.ndarray(self.shape, memory.dtype, memory, item * self.offset, steps)

    def at(self, offset: int) -> View:
        """The same view with another first slot."""
        same = offset == self.offset
        return self if same else View(offset, self.shape, self.strides, self.base)

    def moved(self, distance: int) -> View:
        """The same view some slots further on."""
        return self.at(self.offset + distance)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements are contiguous in C order."""
        return in_order(self.shape, self.strides)


@functools.lru_cache(4096)
def in_order(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether elements are contiguous in C order."""
    expected = 1
    for n, stride in zip(shape[::-1], strides[::-1], strict=True):
        if n != 1 and stride != expected:
            return False
        expected *= n
    return True


def contiguous(offset: int, shape: tuple[int, ...], base: int = ARENA) -> View:
    """The view of an array in C order."""
    return View(offset, shape, _c_order(shape), base)


@functools.lru_cache(4096)
def _c_order(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of an array in C order."""
    strides, step = [], 1
    for n in shape[::-1]:
        strides.append(step)
        step *= n
    return tuple(strides[::-1])


@functools.lru_cache(4096)
def _reach(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int, int]:
    """How far slots reach from the offset on: the first, and after the last; how many elements."""
    size = math.prod(shape)
    if not size:
        return 0, 0, size
    low = high = 0
    for n, stride in zip(shape, strides, strict=False):  # what a file says has not been checked
        if stride > 0:
            high += (n - 1) * stride
        elif stride:
            low += (n - 1) * stride
    return low, high + 1, size


def shown(operand: Any) -> Any:
    """An operand of a kernel as its declaration sees it: the shape of a view."""
    return operand.shape if isinstance(operand, View) else operand


class Visitor:
    """A visitor of the steps of a program, with a method for each kind; see `Step.accept`."""

    def scalars(self, step: Any) -> Any:
        """Take operations on numbers, which come and go one by one."""
        return self.other(step)

    def elementwise(self, step: Any) -> Any:
        """Take element-wise operations, which are fused."""
        return self.other(step)

    def other(self, step: Any) -> Any:
        """Take any other step, which stays or goes as a whole."""
        raise NotImplementedError


class Step:
    """What all kinds of steps have in common. Each kind is a subclass, in a file of its own.

    There a kind says what its steps read and write, how they are rewritten, checked, written to
    files, counted and shown. What computes them is registered with `replay.parts.part_of`. Answers
    that are given here are right for any kind; others make programs faster.
    """

    #: The kinds, by their names in files.
    kinds: ClassVar[dict[str, type[Step]]] = {}
    #: What a kind is called in files, and in words where steps are counted.
    name: ClassVar[str] = "step"
    plural: ClassVar[str] = "others"
    #: How the fields are written to files, by their names there (`file_fields`).
    file_fields: ClassVar[dict[str, Any]]
    #: Whether each stays or goes as a whole.
    is_whole: ClassVar[bool] = True
    #: Whether results are constants where all that is read is, and are computed in advance then.
    can_fold: ClassVar[bool] = False
    #: Whether adjoints are computed from the values of its views.
    needs_values: ClassVar[bool] = True
    #: Whether a large input that only such a step reads gets its adjoints set, not added to.
    sets_adjoints: ClassVar[bool] = False
    #: Whether values and adjoints may be computed in one pass: its parts are asked for passes.
    in_one_pass: ClassVar[bool] = False

    def __init_subclass__(cls, is_kind: bool = True) -> None:
        if is_kind:
            cls.name = cls.__name__.lower()
            Step.kinds[cls.name] = cls

    def accept(self, visitor: Visitor) -> Any:
        return visitor.other(self)

    # --- what it reads and writes -------------------------------------------------------------

    @remembered
    def views_read(self) -> list[View]:
        raise NotImplementedError

    @property
    def slots_read(self) -> list[np.ndarray]:
        """The single slots that a step reads besides; −1 stands for none."""
        return []

    @remembered
    def views_written(self) -> list[View]:
        """The slots that a step writes, in C order."""
        raise NotImplementedError

    @remembered
    def views(self) -> list[View]:
        """All views of a step, in a fixed order."""
        raise NotImplementedError

    @property
    def slots_written(self) -> np.ndarray:
        """The slots of the arena in which values are that a step writes."""
        views = [np.arange(*view.extent) for view in self.views_written if view.base == ARENA]
        return np.concatenate([np.zeros(0, np.int64), *views])

    @property
    def values(self) -> list:
        """The values of the fields."""
        return [getattr(self, name) for name in type(self).__match_args__]  # type: ignore

    def mapped(self, move: Callable[[View], View], renumber: Renumber | None = None) -> Step:
        """The step with other views; `renumber` gives other slots for those that are no views."""
        raise NotImplementedError

    # --- what passes ask ----------------------------------------------------------------------

    @property
    def may_stop(self) -> bool:
        """Whether it may stop the program: then it stays even where nothing reads its results."""
        return True

    @property
    def calls_python(self) -> bool:
        """Whether Python computes its values."""
        return False

    def calls_python_in(self, item: int) -> bool:
        """The same, where slots have so many bytes."""
        return self.calls_python

    @property
    def movable(self) -> list[View]:
        """Results that may as well be written elsewhere."""
        return self.views_written

    @property
    def reusable(self) -> list[View]:
        """Results whose slots other arrays may have once nothing reads them any more."""
        return []

    @property
    def pieces(self) -> list[tuple[View, View]]:
        """(place, array) of the arrays that it puts side by side, if it does nothing else."""
        return []

    @property
    def summed(self) -> tuple[View, View] | None:
        """(target, array) if it sums an array along axes and does nothing else."""
        return None

    def is_linear(self, wanted: Any) -> bool:
        """Whether its partial derivatives depend on constants only, whose adjoints are unwanted."""
        return False

    def kept(self, wanted: Callable[[View], bool], known: dict) -> Collection[View]:
        """The views whose values are read in reverse; `known` is for what steps share of that."""
        return self.views if self.needs_values else []

    def storing(self, read: Sequence[bool]) -> Step:
        """The step without results that need not be stored: whether each written view is read."""
        return self

    def key(self, places: Any) -> tuple | None:
        """Equal for steps that compute the same, wherever (`share_results`); or None."""
        return places.key_of(type(self), self.values, self.views_written)

    # --- how it is made a part ----------------------------------------------------------------

    @property
    def pattern(self) -> tuple | None:
        """What the part depends on besides the views; None if on more than can be compared."""
        return None

    @property
    def is_left_out(self) -> bool:
        """Whether what is made numbers does not need its result."""
        return False

    def is_small(self, elements: int, products: int) -> bool:
        """Whether `expand` writes it as operations on few numbers."""
        return False

    def expand(self, numbers: Any) -> None:
        """Write it as operations on numbers (see `build.scalarization`)."""
        raise NotImplementedError

    # --- files --------------------------------------------------------------------------------

    def check(self, memory: Any) -> None:
        """Raise IllegalProgram unless it is legal, and take what it writes (`uses`)."""
        raise NotImplementedError

    def encoded(self, writer: Any) -> dict:
        """The step as JSON (`files.encode`)."""
        return {
            name: field.encode(writer, getattr(self, field.attribute or name))
            for name, field in self.file_fields.items()
        }

    @classmethod
    def decoded(cls, reader: Any, item: dict) -> Step:
        """What `encoded` has written (`files.encode`)."""
        found = zip(cls.file_fields.items(), fields(item, *cls.file_fields), strict=True)
        made = {f.attribute or name: f.decode(reader, x) for (name, f), x in found}
        return cls(**made)

    # --- what it costs, and how it is shown -----------------------------------------------------

    @property
    def operations(self) -> int:
        """How many operations it has, guards not counted."""
        return 1

    @remembered
    def stored(self) -> int:
        """How many numbers it stores."""
        return sum([view.size for view in self.views_written])

    @property
    def work(self) -> WorkCounts:
        """What its time is spent on."""
        raise NotImplementedError

    @property
    def results(self) -> Iterable[tuple[int, int | None]]:
        """Codes of its operations; beside them the slot of the result if that is one number."""
        return []

    @property
    def called(self) -> str | None:
        """The name of the function that it calls."""
        return None

    @property
    def label(self) -> str:
        """What it is, in a word."""
        return self.called or self.name

    @property
    def title(self) -> str:
        """What it is, in errors."""
        return type(self).__name__

    @property
    def is_fused(self) -> bool:
        return False

    def caption(self, notes: Iterable[str] = ()) -> list[str]:
        """The lines of its box in a picture."""
        raise NotImplementedError

    def explained(self, wanted: Callable[[View], bool], fresh: frozenset[int]) -> Iterable[str]:
        """Lines on what is in it."""
        return []

    def operation_at(self, slot: int) -> str:
        """What has its result in a slot."""
        return "a result"


@dataclasses.dataclass
class Input:
    """An argument: its slots, and whether it is differentiated."""

    view: View
    dtype: np.dtype
    differentiated: bool = True


@dataclasses.dataclass
class Output:
    """A result: its slots and its dtype."""

    view: View
    dtype: np.dtype


@dataclasses.dataclass
class Code:
    """A program: the number of slots, constants, steps, results.

    `constants` are (first slot, array) pairs; nothing writes there. `clears` are slots that several
    arrays share, by step: after its reverse their adjoints are set back to 0. `dtype` is that of
    slots and constants, float64 or float32. `held` are arrays from outside, in C order: the bases
    after those of the inputs, read where they lie.
    """

    slots: int
    constants: list[tuple[int, np.ndarray]]
    inputs: list[Input]
    steps: list[Step]
    outputs: list[Output]
    clears: dict[int, list[View]] = dataclasses.field(default_factory=dict)
    dtype: np.dtype = DOUBLE
    held: Sequence[np.ndarray] = ()

    @property
    def item(self) -> int:
        """The bytes of a slot."""
        return self.dtype.itemsize

    def of(self, kind: type[_Kind]) -> dict[int, _Kind]:
        """The steps of a kind, by their numbers."""
        return {k: step for k, step in enumerate(self.steps) if isinstance(step, kind)}

    @remembered
    def whole_steps(self) -> list[Step]:
        """The steps that stay or go as a whole: all but operations on numbers."""
        return [step for step in self.steps if step.is_whole]

    @remembered
    def numbers(self) -> list[Any]:
        """The operations on numbers, which come and go one by one."""
        return [step for step in self.steps if not step.is_whole]

    @remembered
    def reads(self) -> Spans:
        """What the whole steps read as views."""
        return Spans([step.views_read for step in self.whole_steps])

    @remembered
    def writes(self) -> Spans:
        """What the whole steps write."""
        return Spans([step.views_written for step in self.whole_steps])

    @remembered
    def single_reads(self) -> np.ndarray:
        """The slots that steps read one by one, in order."""
        read = [slots for step in self.steps for slots in step.slots_read]
        slots = np.concatenate([np.zeros(0, np.int32), *read])
        if len(slots) * _MANY < self.slots:
            found = distinct(slots)
            return found[found >= 0]
        marks = np.zeros(self.slots + 1, bool)  # the last one is of no slot, which is −1
        marks[slots] = True
        return np.flatnonzero(marks[:-1])

    @remembered
    def constant_ranges(self) -> Ranges:
        """The slots that hold constants."""
        low = np.array([slot for slot, _ in self.constants], np.int64)
        return Ranges(low, low + [len(values) for _, values in self.constants])


#: Slots of the arena to one that is read by itself: of more these are sorted, not marked.
_MANY = 16
