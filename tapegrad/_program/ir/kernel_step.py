"""Operations on whole arrays, calls of Python functions, of a user's operations."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..._core.ops.table import BY_CODE
from ..._core.remembered import remembered
from ..._core.tensor.trace import CustomCall, name_of
from .moving_step import CODE, DTYPE, OPERAND, VIEW, ArrayStep, grouped, listed
from .steps import ARENA, DOUBLE, View, WorkCounts, fields, shown
from .uses import KINDS, IllegalProgram, Memory, are_below, expect, is_injective, slots_of

# --- Operations on whole arrays -------------------------------------------------------------------


@dataclasses.dataclass
class Kernel(ArrayStep):
    """A structural operation of the table, by its kernels or by its rule.

    Operands are views, arrays that never change, numbers and other objects, as in its row. For an
    operation by rule they are its keyword arguments, as pairs of name and value, then views.
    """

    code: int
    operands: list[Any]
    out: View

    plural = "kernels"
    can_fold = True
    shares_memory = True
    file_fields = {
        "out": VIEW,
        "operation": CODE._replace(attribute="code"),
        "operands": listed(OPERAND),
    }

    @property
    def op(self) -> Any:
        """The declaration of the operation."""
        return BY_CODE[self.code]

    @remembered
    def static_words(self) -> np.ndarray | None:
        """The keyword arguments as the value kernel takes them; None if Python has to compute it.

        This is of operations by rule.
        """
        if self.op.value_kernel is None:
            return None
        try:
            return np.array(self.op.static_words(dict(self.operands[0])), np.int64)
        except (TypeError, OverflowError):
            return None

    # --- what passes ask ----------------------------------------------------------------------

    @property
    def may_stop(self) -> bool:
        return getattr(self.op, "may_refuse", False)

    @property
    def calls_python(self) -> bool:
        return self.op.is_by_rule and self.static_words is None

    @property
    def sets_adjoints(self) -> bool:  # type: ignore[override]
        """A rule gives the adjoint of each operand: one that is there twice gets a sum."""
        bases = [view.base for view in self.views_read if view.base != ARENA]
        return self.op.is_by_rule and not self.op.constant and len({*bases}) == len(bases)

    def calls_python_in(self, item: int) -> bool:
        """Operations that a rule differentiates have kernels of float64 alone."""
        return self.calls_python or (self.op.is_by_rule and item != DOUBLE.itemsize)

    # --- how it is made a part ----------------------------------------------------------------

    @property
    def pattern(self) -> tuple | None:
        if self.op.is_by_rule:  # the part has memory of its own
            return None
        if not all(isinstance(x, (View, int, float, np.ndarray)) for x in self.operands):
            return None
        return self.code, *[None if isinstance(x, View) else _plain(x) for x in self.operands]

    @property
    def products(self) -> int:
        """Products of numbers in an operation that multiplies and adds; 0 for others."""
        products = self.op.products
        return 0 if products is None else products(self.out.shape, *map(shown, self.operands))

    @property
    def is_left_out(self) -> bool:
        return self.op.constant

    def is_small(self, elements: int, products: int) -> bool:
        op = self.op
        if op.is_by_rule:
            return (op.small is not None or op.constant) and self.products > 0
        return op.expanded is not None and 0 < self.products <= products

    def expand(self, numbers: Any) -> None:
        op = self.op
        if op.constant:  # its readers are written out without it
            return
        number = op.references.shown
        whole = self.out if number is None else self.operands[number]
        operands = [numbers.of(x) if isinstance(x, View) else x for x in self.operands]
        small, expanded = op.small, op.expanded
        made = small(numbers, *operands) if small else expanded(numbers.apply, *operands)
        numbers.place[slots_of(whole).reshape(made.shape)] = made

    # --- files --------------------------------------------------------------------------------

    def check_operands(self, memory: Memory) -> None:
        op: Any = BY_CODE.get(self.code)
        computes = getattr(op, "value_kernel", None) or getattr(op, "is_by_rule", False)
        expect(bool(computes), f"operation {self.code} has no kernel")
        _LAYOUTS.get(op.layout, _declared)(memory, self)

    # --- what it costs, and how it is shown -----------------------------------------------------

    @property
    def work(self) -> WorkCounts:
        op = self.op
        if op.is_by_rule:
            return self._work_by_rule()
        if op.products is not None:
            return WorkCounts(1, multiplied=float(self.products))
        return WorkCounts(1, along=float(max(x.size for x in self.operands if isinstance(x, View))))

    def _work_by_rule(self) -> WorkCounts:
        """The work of the value; what the rule costs its program tells."""
        if self.op.value_kernel is None:
            return WorkCounts(1, python=1.0)
        static, *views = self.operands
        if self.op.work is not None:
            shapes = [view.shape for view in views]
            return WorkCounts(1, along=float(self.op.work(dict(static), self.out.shape, *shapes)))
        parts = int(self.op.in_pairs)
        shapes = [view.shape[: len(view.shape) - parts] for view in views]
        solved = max((math.prod(shape) * shape[-1] for shape in shapes if shape), default=0)
        return WorkCounts(
            1, solved=float(solved * (4 if parts else 1))
        )  # products of complex numbers

    @property
    def results(self) -> Iterable[tuple[int, int | None]]:
        return [(self.code, None)]

    @property
    def called(self) -> str:
        return self.op.name


def _plain(operand: int | float | np.ndarray) -> tuple:
    """An operand that is no view, as a key that is equal for operands of equal parts."""
    if isinstance(operand, np.ndarray):
        return operand.dtype.str, operand.shape, operand.tobytes()
    return type(operand), operand.hex() if isinstance(operand, float) else operand


# --- operands, by layout ------------------------------------------------------------------------


def _given(step: Kernel, *types: type) -> list:
    """The operands of a kernel, which are of these types."""
    fit = len(step.operands) == len(types) and all(map(isinstance, step.operands, types))
    expect(fit, "operands of other kinds than the operation takes")
    return step.operands


def _declared(memory: Memory, step: Kernel) -> None:
    """Operands of the kinds that the declaration names, and checks with `fits`."""
    references = step.op.references
    expect(references.fits is not None, "operands that no program has")
    operands = _given(step, *[_KINDS[kind] for kind in references.operands])
    for kind, operand in zip(references.operands, operands, strict=True):
        if kind == "array":
            memory.read(operand)
        elif kind == "output":
            _covers(memory, operand, step.out)
    try:
        references.fits(step.out.shape, *map(shown, operands))
    except ValueError as error:
        raise IllegalProgram(str(error)) from None


_KINDS: dict[str, type] = {"array": View, "output": View, "number": int}


def _covers(memory: Memory, view: View, out: View) -> None:
    """A view reads each element of a result once."""
    memory.lies_in(view, out)
    expect(view.size == out.size and is_injective(view), "a result that is not all written")


def _scatter_add(memory: Memory, step: Kernel) -> None:
    if any(isinstance(operand, View) for operand in step.operands[1:]):  # computed
        array, positions = _given(step, View, View)
        memory.read(array)
        memory.read(positions)
        memory.last(positions)
        _rows_fit(array, positions.size, step.out)
        return
    array, positions = _given(step, View, np.ndarray)
    memory.read(array)
    fits = positions.dtype == np.int64 and positions.flags.c_contiguous
    expect(fits, "positions of another kind")
    are_below(positions, step.out.size // _rows_fit(array, positions.size, step.out))


def _rows_fit(array: View, count: int, out: View) -> int:
    """The elements of a row, of which there are so many in an array, and some in the output."""
    width = array.size // (count or 1) or 1
    expect(width * count == array.size, "rows of equally many elements")
    expect(out.size % width == 0, "an output of whole rows")
    return width


def _mask_positions(memory: Memory, step: Kernel) -> None:
    (mask,) = _given(step, View)
    memory.read(mask)


def _by_rule(memory: Memory, step: Kernel) -> None:
    """A value kernel trusts the shapes; what Python computes is compared when it is there."""
    static, *views = _given(step, tuple, *[View] * (len(step.operands) - 1))
    pairs = all(type(one) is tuple and len(one) == 2 and type(one[0]) is str for one in static)
    expect(pairs, "keyword arguments of another form")
    for view in views:
        memory.read(view)
    if step.static_words is not None:
        try:
            shape = step.op.shape(*[view.shape for view in views], **dict(static))
        except (TypeError, ValueError) as error:
            raise IllegalProgram(str(error)) from None
        expect(shape == step.out.shape, "a result of another shape")


def _sum(memory: Memory, step: Kernel) -> None:
    minus, *views = _given(step, int, *[View] * (len(step.operands) - 1))
    for view in views:
        memory.read(view)
    expect(memory.dtype == DOUBLE, "a sum in order, which has a kernel of float64 alone")
    expect(0 <= minus < 1 << len(views), "bits of other operands")
    expect(step.out.size == 1, "a sum of more than one number")


_LAYOUTS: dict[str, Callable[[Memory, Kernel], None]] = {
    "scatter_add": _scatter_add,
    "mask positions": _mask_positions,
    "sum": _sum,
    "plain": _by_rule,
}


# --- Calls of Python functions that have no derivative --------------------------------------------


_OPERANDS = listed(grouped(OPERAND, DTYPE))


@dataclasses.dataclass
class Computed(ArrayStep):
    """A Python function without derivative: out = function(*operands).

    `operands` are views, each with the dtype of the array that is passed, or other objects.
    """

    function: Callable
    operands: list[tuple[Any, np.dtype | None]]
    out: View

    plural = "calls of Python"
    calls_python = True

    # --- files --------------------------------------------------------------------------------

    def check_operands(self, memory: Memory) -> None:
        for operand, dtype in self.operands:
            if isinstance(operand, View):
                memory.read(operand)
                expect(dtype is not None and dtype.kind in KINDS, f"an operand as {dtype}")
            else:
                expect(dtype is None, "a constant operand with a dtype")

    def encoded(self, writer: Any) -> dict:
        bound = functools.partial(self.function)  # for a partial: the same again
        return {
            "out": writer.view(self.out),
            "function": writer.value(bound.func),
            "keywords": writer.value(bound.keywords),
            "operands": _OPERANDS.encode(writer, self.operands),
        }

    @classmethod
    def decoded(cls, reader: Any, item: dict) -> Computed:
        out, function, keywords, operands = fields(item, "out", "function", "keywords", "operands")
        called, bound = reader.value(function), reader.value(keywords)
        named = type(bound) is dict and all(type(name) is str for name in bound)
        if not callable(called) or not named:
            raise ValueError("a function is none, or its keywords are not")
        if bound:
            called = functools.partial(called, **bound)
        return Computed(called, _OPERANDS.decode(reader, operands), reader.view(out))

    # --- what it costs, and how it is shown -----------------------------------------------------

    @property
    def work(self) -> WorkCounts:
        return WorkCounts(1, python=1.0)

    @property
    def called(self) -> str:
        return name_of(getattr(self.function, "func", self.function)).strip("_")


# --- Calls of a user's operations that have adjoints of their own ---------------------------------


@dataclasses.dataclass
class Custom(ArrayStep):
    """A call of a user's operation: out = call(*operands), and its adjoint.

    `code` is that of the operation in its row; `operands` are views, each with the dtype of the
    array that is passed. The adjoint is computed if `is_reached` says that adjoints of results of
    the program get here: then it is called even for zeros.
    """

    code: int
    call: CustomCall
    operands: list[tuple[View, np.dtype]]
    out: View
    is_reached: bool

    plural = "calls of a user's operations"
    calls_python = True

    @property
    def needs_values(self) -> bool:  # type: ignore[override]
        """Whether operands and results are read; else the call keeps what its adjoint reads."""
        return self.call.needs_values

    def key(self, places: Any) -> None:
        """None is the same as another: it may have effects, or depend on more than operands."""
        return None

    # --- files --------------------------------------------------------------------------------

    def encoded(self, writer: Any) -> dict:
        raise ValueError(f"it calls {self.call.name}, which files have no name for")

    @classmethod
    def decoded(cls, reader: Any, item: dict) -> Custom:
        raise ValueError("it calls an operation of a user's, which files have no name for")

    # --- what it costs, and how it is shown -----------------------------------------------------

    @property
    def work(self) -> WorkCounts:
        return WorkCounts(1, python=1.0)

    @property
    def results(self) -> Iterable[tuple[int, int | None]]:
        return [(self.code, None)]

    @property
    def called(self) -> str:
        return self.call.name
