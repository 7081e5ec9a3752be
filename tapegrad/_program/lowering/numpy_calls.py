"""Calls without derivative that are operations of programs: comparisons, logic, conversions,
arithmetic of masks and integers, element by element."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any

import numpy as np

from ..._core.operations.creation import converted
from ..._core.ops.ordering import STEERING
from ..._core.ops.table import TABLE, meant_by
from ..ir.kernel_step import Kernel
from ..ir.steps import View
from ..replay.operation_parts import LARGEST, holds
from . import builder
from .builder import Interval, Writer

_BOOL = np.dtype(bool)
_LOGICAL = {
    operator.and_: "logical_and",
    operator.or_: "logical_or",
    operator.xor: "logical_xor",
    operator.invert: "logical_not",
    np.bitwise_and: "logical_and",
    np.bitwise_or: "logical_or",
    np.bitwise_xor: "logical_xor",
    np.invert: "logical_not",
}
#: NumPy's arithmetic of masks.
_OF_MASKS = {
    "add": "logical_or",
    "maximum": "logical_or",
    "multiply": "logical_and",
    "minimum": "logical_and",
}
#: Give the same numbers in another dtype, if that holds them.
_SAME = (np.asarray, np.array, converted)


@dataclasses.dataclass
class Given:
    """An operand of a call: a view of slots, or None and the constant that it is.

    `interval` says where integers lie; `is_number` that a float may have a derivative. `seen` are
    the values that were recorded, None where they have been written to since.
    """

    view: View | None
    value: Any
    dtype: np.dtype
    interval: Interval | None
    is_number: bool = False
    seen: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.value) if self.view is None else self.view.shape

    def slots(self, writer: Writer) -> View:
        if self.view is not None:
            return self.view
        return writer.constant_array(np.asarray(self.value, writer.dtype))


def of_constant(writer: Writer, value) -> Given:
    """An operand of a call that never changes; Python's floats are of any dtype."""
    array = np.asarray(value)
    dtype = writer.dtype if type(value) is float else array.dtype
    return Given(None, value, dtype, builder.of_values(array), seen=array)


@dataclasses.dataclass
class Result:
    """The result of a call: its slots, as a view or one by one, and the interval of its integers.

    Without slots it stays a call.
    """

    slots: View | np.ndarray | None
    interval: Interval | None = None


def element_wise(
    writer: Writer, function, keywords: dict, operands: list[Given], out: np.ndarray
) -> Result | None:
    """A call as an operation of the table, None if it is none; `out` is its recorded result."""
    if function in _SAME and len(operands) == 1:
        return _converted(writer, operands[0], np.dtype(keywords.get("dtype", out.dtype)), out)
    if keywords or not all(_is_held(writer, x) for x in operands):
        return None
    if function is np.where and len(operands) == 3:
        return _where(writer, operands, out)
    if function is np.clip and len(operands) == 3 and out.dtype.kind in "iu":
        return _clipped(writer, operands, out)
    name = _name_of(writer, function, operands, out.dtype)
    if name is None:
        return None
    if out.dtype.kind in "iu":
        return _of_integers(writer, name, operands, out)
    return Result(_applied(writer, name, operands, out.shape))


def _is_held(writer: Writer, x: Given) -> bool:
    """Whether a program computes with an operand as NumPy does: its slots hold the same numbers."""
    is_wider = x.dtype.kind == "f" and x.dtype.itemsize > writer.dtype.itemsize
    return not is_wider and (x.view is not None or holds(writer.dtype, np.asarray(x.value)))


def compares_alike(writer: Writer, *operands: Given) -> bool:
    """Whether comparisons in a program are NumPy's: of the same numbers, which slots hold."""
    return all([_is_held(writer, x) and _is_exact(writer, _dtype_of(x)) for x in operands])


def _dtype_of(x: Given) -> np.dtype:
    """The dtype in which NumPy compares an operand, Python's numbers too."""
    return x.dtype if x.view is not None else np.asarray(x.value).dtype


def _name_of(writer: Writer, function, operands: list[Given], dtype: np.dtype) -> str | None:
    """The name of the operation that a call is."""
    are_masks = all(x.dtype == _BOOL for x in operands)
    if function in _LOGICAL:
        return _LOGICAL[function] if are_masks else None
    op = meant_by(function)
    if op is not None and op.name in STEERING:
        return op.name
    if not isinstance(function, np.ufunc):
        return None
    name = function.__name__
    if dtype == _BOOL:
        return _OF_MASKS.get(name) if are_masks else None
    if dtype.kind in "iu":
        return name
    computes_alike = dtype == writer.dtype and all(_is_exact(writer, x.dtype) for x in operands)
    return op.name if computes_alike and op is not None else None


def _is_exact(writer: Writer, dtype: np.dtype) -> bool:
    """Whether NumPy computes with numbers of a dtype as the program does."""
    return dtype.kind in "biu" or dtype == writer.dtype


def _applied(writer: Writer, name: str, operands: list[Given], shape) -> View | np.ndarray:
    op = STEERING.get(name) or TABLE[name]
    views = [detached(writer, x) if op.sloping else x.slots(writer) for x in operands]
    return writer.apply(op.code, views, shape)


def detached(writer: Writer, given: Given) -> View:
    """The slots of an operand without its derivative, which calls do not have."""
    view = given.slots(writer)
    if not given.is_number:
        return view
    return writer.together(writer.apply(STEERING["detached"].code, [view], view.shape))


def _of_integers(writer: Writer, name: str, operands: list[Given], out) -> Result | None:
    """Arithmetic of integers whose results fit into their dtype and into slots.

    Where that does not follow from the intervals of the operands, it is checked.
    """
    found = [x.interval for x in operands]
    interval = builder.of_result(name, *found)
    if interval is None:
        return None
    is_safe = builder.is_within(interval, writer.interval_of(out.dtype))
    if not is_safe and not _is_exact_in(writer, name, operands, out.dtype):
        return None
    made = _applied(writer, name, operands, out.shape)
    if not is_safe:
        return whole(writer, writer.together(made), out)
    if builder.may_be_minus_zero(name, *[one for one in found if one is not None]):
        zero = writer.constant_array(np.zeros(()))
        made = writer.apply(TABLE["add"].code, [writer.together(made), zero], out.shape)
    return Result(made, interval)


def _clipped(writer: Writer, operands: list[Given], out: np.ndarray) -> Result | None:
    """Integers between bounds, of which the upper one counts if it is below the lower one."""
    x, low, high = operands
    above = _of_integers(writer, "maximum", [x, low], out)
    if above is None or above.slots is None:
        return None
    held = Given(writer.together(above.slots), None, out.dtype, above.interval)
    return _of_integers(writer, "minimum", [held, high], out)


def _is_exact_in(writer: Writer, name: str, operands: list[Given], dtype: np.dtype) -> bool:
    """Whether recorded integers have not wrapped around, as far as their bounds say."""
    seen = [None if x.seen is None else builder.of_values(x.seen) for x in operands]
    interval = builder.of_result(name, *seen)
    return interval is not None and builder.is_within(interval, writer.interval_of(dtype))


def whole(writer: Writer, view: View, out: np.ndarray) -> Result | None:
    """Numbers without their fractions, as the integers of `out` that were recorded.

    The program stops where one is outside the interval that they have then.
    """
    within, seen = writer.interval_of(out.dtype), builder.of_values(out)
    if within is None or seen is None:
        return None
    usual = builder.usual(within, LARGEST[writer.dtype.itemsize])
    interval = next((one for one in usual if builder.is_within(seen, one)), None)
    if interval is None:
        return None
    made = writer.buffers.allocate(view.shape)
    writer.steps.append(Kernel(STEERING["whole"].code, [view, *interval], made))
    return Result(made, interval)


def _where(writer: Writer, operands: list[Given], out: np.ndarray) -> Result | None:
    condition, x, y = operands
    if not all(_is_exact(writer, dtype) for dtype in (out.dtype, x.dtype, y.dtype)):
        return None
    made = writer.apply(
        TABLE["where"].code,
        [condition.slots(writer), detached(writer, x), detached(writer, y)],
        out.shape,
    )
    return Result(made, builder.union(x.interval, y.interval))


def _converted(writer: Writer, x: Given, after: np.dtype, out: np.ndarray) -> Result | None:
    if x.view is None:
        return None
    if x.dtype == after == writer.dtype:
        return Result(writer.apply(STEERING["detached"].code, [x.view], x.view.shape))
    within = writer.interval_of(after)
    fits = x.interval is not None and builder.is_within(x.interval, within)
    if after == x.dtype or after == writer.dtype or fits:
        return Result(x.view, x.interval)
    if after == _BOOL:
        zero = writer.constant_array(np.zeros(()))
        return Result(writer.apply(STEERING["not_equal"].code, [x.view, zero], x.view.shape))
    if within is None or not _is_exact(writer, x.dtype) or not _is_cut_off(x, out):
        return None
    return whole(writer, x.view, out)


def _is_cut_off(x: Given, out: np.ndarray) -> bool:
    """Whether recorded integers are numbers without fractions, as all that fit into a dtype are.

    Of numbers that are not known any more this is so where none is as if it had not fitted.
    """
    if x.seen is not None:
        return np.array_equal(np.trunc(x.seen), out)
    return (
        out.dtype.kind == "i" and out.dtype.itemsize >= 4 and (out != np.iinfo(out.dtype).min).all()
    )
