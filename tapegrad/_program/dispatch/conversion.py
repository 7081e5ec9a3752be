"""A recording made an optimised program."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..._core.tape.sweeps import memory_of
from ..._core.tensor.dependencies import Dependencies
from ..._core.tensor.pytree import tree_leaves
from ..._core.tensor.trace import Trace
from ..._core.tensor.values import FLOATS
from ..._flow.reading import outside_uses
from ..._flow.reading.outside_uses import NOTHING, RECORDED, UNSURE, Derived, Items, Known
from ..ir.steps import Code
from ..lowering.lower import Converter
from ..lowering.tape_rows import Unsupported
from ..passes.memory_reuse import LARGE, put_down
from ..passes.pipeline import Account, optimised
from .signature import Arguments


def converted(
    inputs: list[tuple[Any, bool]],
    end: int,
    outputs: list,
    trace: Trace,
    dtype: np.dtype,
    without: tuple[str, ...],
) -> tuple[Code, Account]:
    """The program of a trace, and its history; see `Converter` and `optimised`."""
    converter = Converter(inputs, end, outputs, trace, dtype)
    return optimised(converter.convert(outputs), *converter.counts(), without)


def converted_in_place(
    inputs: list[tuple[Any, bool]],
    end: int,
    outputs: list,
    trace: Trace,
    in_place: ArraysInPlace,
    without: tuple[str, ...],
) -> tuple[Code, Account] | None:
    """The same with arrays from outside that are read where they lie; None if they cannot be."""
    try:
        converter = Converter(inputs, end, outputs, trace, in_place.dtype, outside=in_place)
        code = converter.convert(outputs)
    except Unsupported:
        return None
    if not in_place.agrees(converter.in_place.rows):
        return None
    made, account = optimised(code, *converter.counts(), without)
    found = put_down(made, in_place.roots)
    return None if found is None else (found, account)


# --- which large arrays from outside a recording may read where they lie, and not as constants ----


#: Types of arguments that are followed; of dicts and sequences those of their items.
_LEAVES = (bool, int, float, str, type(None), np.ndarray, np.float64, np.float32)


def root_of(array: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
    """The memory of a large array in one piece, in C order; None for others."""
    found = array if array.flags.c_contiguous else array.T
    fits = found.dtype == dtype and found.flags.aligned and found.flags.c_contiguous
    return found if fits and found.size >= LARGE else None


class ArraysInPlace:
    """Arrays that a call only hands to recorded operations, and the memory that they lie in.

    `counts` has for each way through the function how many operations read each of the `roots`, and
    each of what is `derived` from them, numbered from −1 down. `others` may lie in no such memory.
    """

    def __init__(self, uses: outside_uses.Uses, given: Sequence[np.ndarray], dtype: np.dtype):
        self.dtype = dtype
        self.roots: Sequence[np.ndarray] = []
        self.arrays: list[np.ndarray] = []
        pairs = [(one, root_of(one, dtype)) for one in uses.clean]
        found = [(one, root) for one, root in pairs if root is not None]
        for array, root in sorted(found, key=lambda pair: -pair[1].size):
            meets = [k for k, one in enumerate(self.roots) if np.may_share_memory(one, root)]
            if not meets:
                meets, self.roots = [len(self.roots)], [*self.roots, root]
            elif len(meets) > 1 or not _is_inside(root, self.roots[meets[0]]):
                continue
            self.arrays.append(array)
        self.others = given
        self.derived: Sequence[Derived] = []
        self.counts = [collections.Counter(self._numbers(way)) for way in uses.ways]

    def _numbers(self, way: Sequence[tuple]) -> Iterator[int]:
        """What each operation of a way reads: numbers of roots, and of what is derived."""
        for operands in way:
            yield from {number for one in operands for number in self._number(one)}

    def _number(self, operand) -> Iterator[int]:
        is_derived = isinstance(operand, Derived)
        array = operand.array if is_derived else operand.value
        for k, root in enumerate(self.roots):
            if np.may_share_memory(root, array) and not is_derived:
                yield k
            elif np.may_share_memory(root, array):
                same = [-1 - k for k, x in enumerate(self.derived) if _are_same(x, operand)]
                self.derived = [*self.derived, *([] if same else [operand])]
                yield same[0] if same else -len(self.derived)

    def agrees(self, rows: collections.Counter) -> bool:
        """Whether so many operations by root are those of each of the ways."""
        return all([rows == way for way in self.counts])


def _is_inside(array: np.ndarray, whole: np.ndarray) -> bool:
    """Whether an array in C order lies in another one."""
    first = memory_of(array) - memory_of(whole)
    return 0 <= first <= first + array.nbytes <= whole.nbytes


def _are_same(one: Derived, other: Derived) -> bool:
    """Whether two forms are the same function of the same operands."""
    places = [
        [_place(x.value) if isinstance(x.value, np.ndarray) else (x.value,) for x in form.operands]
        for form in (one, other)
    ]
    return one.function is other.function and places[0] == places[1]


def _place(array: np.ndarray) -> tuple:
    return memory_of(array), array.shape, array.strides


def arrays_in_place(f: Callable, arguments: Arguments, names: Dependencies) -> ArraysInPlace | None:
    """Those of a call that is to be recorded; None where there are none, or none are known."""
    every = [one.owner for one in names.compared()]
    given = [one for one in every if type(one) is np.ndarray]
    if not any([root_of(one, arguments.dtype) is not None for one in given]):
        return None
    leaves = iter(arguments.static)
    forms = [_form(tree, leaves) for tree in arguments.trees]
    named = dict(zip(arguments.names, forms[arguments.count :], strict=True))
    uses = outside_uses.shown(f, forms[: arguments.count], named, given)
    if uses is None:
        return None
    found = ArraysInPlace(uses, given, arguments.dtype)
    return found if found.arrays else None


def _form(tree, leaves: Iterator[tuple[bool, object]]):
    """An argument as a form; what is no number, array, tuple or list, is not followed."""
    if type(tree) in (tuple, list):
        return Items(tuple([_form(one, leaves) for one in tree]))
    own = [next(leaves) for _ in tree_leaves(tree)]
    if type(tree) is dict:
        return UNSURE if any([is_fixed for is_fixed, _ in own]) else RECORDED
    if type(tree) not in _LEAVES:
        return NOTHING
    ((is_fixed, value),) = own
    is_sure = type(tree) is float or getattr(tree, "dtype", None) in FLOATS
    return Known(value) if is_fixed else RECORDED if is_sure else UNSURE
