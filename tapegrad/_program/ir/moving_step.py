"""Steps that move values: links, packs, gathers, scatters."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..._core.remembered import remembered
from .steps import ARENA, Renumber, Step, View, WorkCounts, integer, integers, items, short
from .uses import Memory, are_below, expect, inside, is_injective, slots_of

# --- Fields of steps in files: how each is written as JSON, and read from it ----------------------
# Writers and readers are those of `files.encode`.


class Field(NamedTuple):
    """How a value is written and read; `attribute` of a step, if not that of the name in files."""

    encode: Callable[[Any, Any], Any]
    decode: Callable[[Any, Any], Any]
    attribute: str = ""


def listed(one: Field, kind: type = list) -> Field:
    """A list of values, or a tuple."""
    return Field(
        lambda writer, found: [one.encode(writer, x) for x in found],
        lambda reader, item: kind([one.decode(reader, x) for x in items(item)]),
    )


def grouped(*fields: Field) -> Field:
    """A tuple of values, each of its own kind."""
    return Field(
        lambda writer, found: [f.encode(writer, x) for f, x in zip(fields, found, strict=True)],
        lambda reader, item: tuple(
            [f.decode(reader, x) for f, x in zip(fields, items(item, len(fields)), strict=True)]
        ),
    )


VIEW = Field(lambda writer, view: writer.view(view), lambda reader, item: reader.view(item))
#: A view, or a plain value.
OPERAND = Field(lambda writer, x: writer.operand(x), lambda reader, item: reader.operand(item))
INTEGER = Field(lambda _, x: x, lambda _, item: integer(item))
INTEGERS = Field(lambda _, found: list(found), lambda _, item: integers(item))
#: A view, or the number of an operation.
NODE = Field(
    lambda writer, x: writer.view(x) if isinstance(x, View) else x,
    lambda reader, item: reader.view(item) if type(item) is list else integer(item),
)
#: An operation, and an array of them.
CODE = Field(lambda writer, code: writer.operation(code), lambda reader, item: reader.code(item))
CODES = Field(
    lambda writer, codes: writer.array_of_codes(codes),
    lambda reader, item: reader.array_of_codes(item),
)
SLOTS = Field(
    lambda writer, slots: writer.array(np.asarray(slots, np.int32)),
    lambda reader, item: reader.array(item, np.int32),
)
#: A dtype, or None.
DTYPE = Field(
    lambda _, dtype: None if dtype is None else dtype.name,
    lambda reader, item: None if item is None else reader.dtype(item),
)


# --- Common parts of steps whose result is one array ----------------------------------------------


class ArrayStep(Step, is_kind=False):
    """A step that writes the array `out`; it reads the other views in its fields.

    But not those that lie in `out`, which say where in it something is written.
    """

    out: View

    #: Whether `out` may lie where other arrays did that are not read any more, and they there.
    shares_memory: ClassVar[bool] = False

    @remembered
    def views_read(self) -> list[View]:
        out, views = self.out, self.views
        if not out.is_contiguous:  # others may lie between its slots
            return [view for view in views if view != out]
        return [view for view in views if view is not out and not inside(view, out)]

    @remembered
    def views_written(self) -> list[View]:
        if self.out.is_contiguous:
            return [self.out]
        return [View(slot, (1,), (1,)) for slot in slots_of(self.out).ravel().tolist()]

    @remembered
    def views(self) -> list[View]:
        views: list[View] = []
        _collect(self.values, views)
        return views

    def mapped(self, move: Callable[[View], View], renumber: Renumber | None = None) -> ArrayStep:
        return type(self)(*_moved(self.values, move))

    @property
    def reusable(self) -> list[View]:
        return self.views_written if self.shares_memory else []

    def check(self, memory: Memory) -> None:
        memory.fits(self.out)
        self.check_operands(memory)
        memory.write(self.out)

    def check_operands(self, memory: Memory) -> None:
        """Raise IllegalProgram unless the step is legal but for where `out` lies."""
        for view in self.views_read:
            memory.read(view)

    @property
    def work(self) -> WorkCounts:
        return WorkCounts(1, moved=float(self.out.size))

    def caption(self, notes: Iterable[str] = ()) -> list[str]:
        return [self.label, "×".join(map(str, self.out.shape)) or "number"]


def _collect(found: Any, views: list[View]) -> None:
    """Append the views in a list or a tuple."""
    for x in found:
        if type(x) is View:
            views.append(x)
        elif type(x) is list or type(x) is tuple:
            _collect(x, views)


def _moved(found: Any, move: Callable[[View], View]) -> Any:
    """A list or a tuple with other views."""
    return type(found)(
        [
            move(x)
            if type(x) is View
            else _moved(x, move)
            if type(x) is list or type(x) is tuple
            else x
            for x in found
        ]
    )


# --- Views added to views: copies, joins, broadcasts and sums -------------------------------------


@dataclasses.dataclass
class Link(ArrayStep):
    """Views added to views: `out`, in C order, is 0; then target += source for (target, source)."""

    out: View
    pairs: list[tuple[View, View]]

    plural = "sums and joins"
    may_stop = False
    can_fold = True
    shares_memory = True
    needs_values = False
    file_fields = {"out": VIEW, "pairs": listed(grouped(VIEW, VIEW))}

    # --- what it reads and writes -------------------------------------------------------------

    @remembered
    def views(self) -> list[View]:
        return [self.out, *itertools.chain.from_iterable(self.pairs)]

    def mapped(self, move: Callable[[View], View], renumber: Renumber | None = None) -> Link:
        return Link(move(self.out), [(move(target), move(source)) for target, source in self.pairs])

    # --- what passes ask ----------------------------------------------------------------------

    @property
    def pieces(self) -> list[tuple[View, View]]:
        """The pairs if the targets, each in C order, are contiguous in the output."""
        for target, source in self.pairs:
            whole = target.is_contiguous and target.shape == source.shape
            if not whole or target.base != ARENA:
                return []
        at = self.out.offset
        for target in sorted((t for t, _ in self.pairs), key=lambda t: t.offset):
            if target.offset != at:
                return []
            at += target.size
        return self.pairs if at == self.out.offset + self.out.size else []

    @property
    def summed(self) -> tuple[View, View] | None:
        """The pair if it is a sum along axes: not one into windows."""
        if len(self.pairs) != 1 or self.pairs[0][0].size <= self.out.size:
            return None
        target, _ = self.pairs[0]
        kept = [(n, s) for n, s in zip(target.shape, target.strides, strict=True) if s]
        found = View(target.offset, tuple(n for n, _ in kept), tuple(s for _, s in kept))
        return self.pairs[0] if found.size == self.out.size and is_injective(found) else None

    def is_linear(self, wanted: Any) -> bool:
        return True

    # --- how it is made a part ----------------------------------------------------------------

    @property
    def pattern(self) -> tuple:
        return (len(self.pairs),)

    def is_small(self, elements: int, products: int) -> bool:
        return sum(v.size for v in self.views_read) <= products and self.out.size <= elements

    def expand(self, numbers: Any) -> None:
        targets = [slots_of(target).ravel() for target, _ in self.pairs]
        sources = [numbers.of(source).ravel() for _, source in self.pairs]
        numbers.place[slots_of(self.out)] = numbers.zero
        if targets:
            numbers.sum(np.concatenate(targets), np.concatenate(sources))

    # --- files --------------------------------------------------------------------------------

    def check(self, memory: Memory) -> None:
        memory.fits(self.out)
        whole = [target for target, _ in self.pairs] == [self.out]
        expect(whole or self.out.is_contiguous, "the result is not in C order")
        for target, source in self.pairs:
            memory.read(source)
            expect(target.shape == source.shape, "what is linked has another shape")
            if not whole:
                memory.lies_in(target, self.out)
        memory.write_each(self.out)

    # --- what it costs, and how it is shown -----------------------------------------------------

    @property
    def work(self) -> WorkCounts:
        return WorkCounts(1, moved=float(sum(source.size for _, source in self.pairs)))

    @property
    def label(self) -> str:
        return "sum" if any(target.size > self.out.size for target, _ in self.pairs) else "join"


# --- Numbers as an array --------------------------------------------------------------------------


@dataclasses.dataclass
class Pack(ArrayStep):
    """Slots as an array: out[k] = slot[k]; `out` in C order, `slots` an int32 array."""

    out: View
    slots: np.ndarray

    plural = "packs"
    may_stop = False
    can_fold = True
    shares_memory = True
    needs_values = False
    file_fields = {"out": VIEW, "slots": SLOTS}

    # --- what it reads and writes -------------------------------------------------------------

    @property
    def slots_read(self) -> list[np.ndarray]:
        return [self.slots]

    def mapped(self, move: Callable[[View], View], renumber: Renumber | None = None) -> Pack:
        slots = self.slots if renumber is None else renumber(self.slots).astype(np.int32)
        return Pack(move(self.out), slots)

    # --- what passes ask ----------------------------------------------------------------------

    def key(self, places: Any) -> tuple:
        return places.key_of(Pack, [self.out, places.stand_ins(self.slots)], self.views_written)

    # --- how it is made a part ----------------------------------------------------------------

    def is_small(self, elements: int, products: int) -> bool:
        return self.out.size <= elements

    def expand(self, numbers: Any) -> None:
        numbers.place[slots_of(self.out).ravel()] = numbers.place[self.slots]

    # --- files --------------------------------------------------------------------------------

    def check_operands(self, memory: Memory) -> None:
        slots = self.slots
        expect(slots.dtype == np.int32 and slots.size == self.out.size, "slots of another number")
        are_below(slots, memory.slots)
        expect(bool(memory.ready[slots].all()), "a slot is read before it is written")


# --- Rows of an array taken by their positions ----------------------------------------------------


def _positions(reader: Any, item: Any) -> np.ndarray | View:
    found = OPERAND.decode(reader, item)
    if not isinstance(found, (View, np.ndarray)):
        raise ValueError(f"{short(item)} are no positions")
    return found


POSITIONS = Field(OPERAND.encode, _positions)


@dataclasses.dataclass
class Gather(ArrayStep):
    """Rows of `source`, counted in C order, at `positions`: an int64 array, or a view.

    A row has as many elements as `out` has to each position.
    """

    out: View
    source: View
    positions: np.ndarray | View

    plural = "gathers"
    can_fold = True
    shares_memory = True
    file_fields = {"out": VIEW, "source": VIEW, "positions": POSITIONS}

    @property
    def width(self) -> int:
        """Elements of a row."""
        return self.out.size // (math.prod(self.positions.shape) or 1) or 1

    # --- how it is made a part ----------------------------------------------------------------

    def is_small(self, elements: int, products: int) -> bool:
        return isinstance(self.positions, np.ndarray) and self.out.size <= elements

    def expand(self, numbers: Any) -> None:
        assert isinstance(self.positions, np.ndarray)
        slots = numbers.of(self.source).reshape(-1, self.width)[self.positions.ravel()]
        numbers.place[slots_of(self.out).ravel()] = slots.ravel()

    # --- files --------------------------------------------------------------------------------

    def check_operands(self, memory: Memory) -> None:
        super().check_operands(memory)
        positions = self.positions
        expect(self.source.size % self.width == 0, "a source that is not of whole rows")
        if isinstance(positions, View):
            memory.last(positions)
        else:
            expect(positions.dtype == np.int64, "positions are no int64")
            are_below(positions, self.source.size // self.width)
        rows = math.prod(positions.shape)
        expect(rows * self.width == self.out.size, "rows of equally many elements")

    @property
    def work(self) -> WorkCounts:
        return WorkCounts(1, moved=2.0 * self.out.size)


# --- Rows of an array written by their positions --------------------------------------------------


@dataclasses.dataclass
class Scatter(ArrayStep):
    """Rows written: `out`, in C order, is `before`, but `source` at `positions` of it.

    Positions count rows in C order and are a view; the last row of a repeated one holds. A row has
    as many elements as `source` has to each position.
    """

    out: View
    before: View
    source: View
    positions: View

    plural = "scatters"
    file_fields = dict.fromkeys(("out", "before", "source", "positions"), VIEW)

    def check_operands(self, memory: Memory) -> None:
        super().check_operands(memory)
        memory.last(self.positions)
        expect(self.before.shape == self.out.shape, "a result of another shape")
        expect(
            self.width * self.positions.size == self.source.size, "rows of equally many elements"
        )
        expect(self.out.size % self.width == 0, "a result of whole rows")

    @property
    def width(self) -> int:
        """Elements of a row."""
        return self.source.size // (self.positions.size or 1) or 1
