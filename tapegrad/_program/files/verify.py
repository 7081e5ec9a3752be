"""What makes a program legal, checked before any of it becomes compiled code.

Compiled code checks no bounds: it trusts that each slot is written once and before it is read, that
views lie in their memory, and that operands are as an operation takes them. Whatever converts,
rewrites or loads programs has to keep that; here it is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.ops.table import BY_CODE, COMPLEX, MOST_CODES, STEERING, TABLE, Pointwise
from ..ir.blocks import is_injective
from ..ir.steps import (
    ARENA,
    GUARD,
    Code,
    Computed,
    Elementwise,
    Gather,
    Kernel,
    Link,
    Pack,
    Scalars,
    Scatter,
    Step,
    View,
    contiguous,
    shown,
)
from ..replay.rule_parts import static_words
from .verify_memory import KINDS, MOST, IllegalProgram, Memory, are_below, expect, marked

#: Operations on numbers have no more operands.
_OPERANDS = 3


def check(code: Code, most: int = MOST) -> None:
    """Raise IllegalProgram unless a program keeps to its own memory.

    No view may have more than `most` elements.
    """
    checker = _Checker(Memory(code, most))
    expect(set(code.clears) <= set(range(len(code.steps))), "slots are shared by no step")
    for number, step in enumerate(code.steps):
        try:
            for view in code.clears.get(number, []):
                checker.memory.begin_again(view)
            checker.step(step)
        except IllegalProgram as error:
            raise IllegalProgram(f"step {number} ({type(step).__name__}): {error}") from None
    for output in code.outputs:
        expect(output.view.base == ARENA, "a result lies outside the arena")
        expect(output.dtype.kind in KINDS, f"a result has dtype {output.dtype}")
        checker.memory.read(output.view)


class _Checker:
    """Checks steps in order: what each reads, then what it writes."""

    def __init__(self, memory: Memory):
        self.memory = memory

    def step(self, step: Step) -> None:
        """Check a step, and take what it writes."""
        if isinstance(step, Scalars):
            self._scalars(step)
            return
        if isinstance(step, Elementwise):
            self._elementwise(step)
            return
        if isinstance(step, Link):
            self._link(step)
            return
        self.memory.fits(step.out)
        _STEPS[type(step)](self, step)
        self.memory.write(step.out)

    def _scalars(self, step: Scalars) -> None:
        n, columns = len(step.op), (step.a, step.b, step.c)
        for k, column in enumerate((step.op, *columns)):
            expect(column.dtype == np.int32 and column.ndim == 1, "a column is not of int32")
            left_out = k == _OPERANDS and not len(column)
            expect(len(column) == n or left_out, "columns of two lengths")
        known = (step.op >= 0) & (step.op < MOST_CODES)
        expect(bool(known.all()), "an unknown operation")
        arity = _arities()[step.op]
        expect(bool((arity >= 0).all()), "an operation that is not one on numbers")
        whole = View(step.first, (n,), (1,))
        self.memory.fits(whole)
        expect(not marked(self.memory.taken, whole).any(), "a slot is written twice")
        gives = step.op != GUARD
        for j, column in enumerate(columns):
            if len(column):
                self._column(step.first, column, arity > j, gives)
            else:
                expect(not (arity > j).any(), "an operand is missing")
        marked(self.memory.taken, whole)[...] = True
        marked(self.memory.ready, whole)[...] = gives

    def _column(self, first: int, column, used, gives) -> None:
        """Operands: slots that are ready before, or results of operations further up."""
        expect(bool((column[~used] == -1).all()), "an operand that the operation does not take")
        at, slots = np.flatnonzero(used), column[used].astype(np.int64)
        are_below(slots, self.memory.slots)
        inner = slots - first
        above = (inner >= 0) & (inner < at)
        found = self.memory.ready[slots]
        found[above] = gives[inner[above]]
        expect(bool(found.all()), "a slot is read before it is written")

    def _elementwise(self, step: Elementwise) -> None:
        for k, (code, operands) in enumerate(step.ops):
            op: Any = BY_CODE.get(code)
            expect(isinstance(op, Pointwise), f"operation {code} is not element-wise")
            expect(len(operands) == len(op.inputs), f"{len(operands)} operands of {op.name}")
            for operand in operands:
                if isinstance(operand, View):
                    self.memory.read(operand)
                    expect(operand.shape == step.shape, "an operand of another shape")
                else:
                    expect(0 <= operand < k, "an operation reads one that comes later")
        self.memory.is_shaped(contiguous(0, step.shape))
        for k, view in (*step.stores, *step.sums):
            expect(0 <= k < len(step.ops), f"there is no result {k}")
            expect(view.shape == step.shape, "a result of another shape")
        for _, view in step.stores:
            self.memory.write(view)
        for _, view in step.sums:
            self.memory.write_sums(view)

    def _link(self, step: Link) -> None:
        self.memory.fits(step.out)
        whole = [target for target, _ in step.pairs] == [step.out]
        expect(whole or step.out.is_contiguous, "the result is not in C order")
        for target, source in step.pairs:
            self.memory.read(source)
            expect(target.shape == source.shape, "what is linked has another shape")
            if not whole:
                self.memory.lies_in(target, step.out)
        self.memory.write_each(step.out)

    def _gather(self, step: Gather) -> None:
        self.memory.read(step.source)
        positions = step.positions
        if isinstance(positions, View):
            self.memory.read(positions)
            self.memory.last(positions)
        else:
            expect(positions.dtype == np.int64, "positions are no int64")
            are_below(positions, step.source.size)
        expect(math.prod(positions.shape) == step.out.size, "as many positions as elements")

    def _scatter(self, step: Scatter) -> None:
        for view in (step.before, step.source, step.positions):
            self.memory.read(view)
        self.memory.last(step.positions)
        expect(step.before.shape == step.out.shape, "a result of another shape")
        expect(step.source.size == step.positions.size, "as many positions as elements")

    def _pack(self, step: Pack) -> None:
        slots = step.slots
        expect(slots.dtype == np.int32 and slots.size == step.out.size, "slots of another number")
        are_below(slots, self.memory.slots)
        expect(bool(self.memory.ready[slots].all()), "a slot is read before it is written")

    def _kernel(self, step: Kernel) -> None:
        op: Any = BY_CODE.get(step.code)
        computes = getattr(op, "value_kernel", None) or getattr(op, "is_by_rule", False)
        expect(bool(computes), f"operation {step.code} has no kernel")
        _LAYOUTS.get(op.layout, _declared)(self.memory, step)

    def _computed(self, step: Computed) -> None:
        for operand, dtype in step.operands:
            if isinstance(operand, View):
                self.memory.read(operand)
                expect(dtype is not None and dtype.kind in KINDS, f"an operand as {dtype}")
            else:
                expect(dtype is None, "a constant operand with a dtype")


_STEPS: dict[type, Callable] = {
    Gather: _Checker._gather,
    Scatter: _Checker._scatter,
    Pack: _Checker._pack,
    Kernel: _Checker._kernel,
    Computed: _Checker._computed,
}


def _arities() -> np.ndarray:
    """Operands of operations on numbers, by code; −1 for codes that are none."""
    found = np.full(MOST_CODES, -1)
    found[GUARD] = 2
    for op in (*TABLE.values(), *STEERING.values(), *COMPLEX.values()):
        if isinstance(op, Pointwise) and len(op.inputs) <= _OPERANDS:
            found[op.code] = len(op.inputs)
    return found


# --- operands of kernels ------------------------------------------------------------------------


def _given(step: Kernel, *types: type) -> list:
    """The operands of a kernel, which are of these types."""
    fit = len(step.operands) == len(types) and all(map(isinstance, step.operands, types))
    expect(fit, "operands of other kinds than the operation takes")
    return step.operands


def _declared(memory: Memory, step: Kernel) -> None:
    """Operands of the kinds that the declaration names, which says whether they fit."""
    references = BY_CODE[step.code].references
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
    """A view sees each element of a result once."""
    memory.lies_in(view, out)
    expect(view.size == out.size and is_injective(view), "a result that is not all written")


def _deposit(memory: Memory, step: Kernel) -> None:
    if any(isinstance(operand, View) for operand in step.operands[1:]):  # computed
        array, positions = _given(step, View, View)
        memory.read(array)
        memory.read(positions)
        memory.last(positions)
        expect(positions.size == array.size, "as many positions as elements")
        return
    array, positions = _given(step, View, np.ndarray)
    memory.read(array)
    fits = positions.dtype == np.int64 and positions.flags.c_contiguous
    expect(fits and positions.size == array.size, "positions of another kind")
    are_below(positions, step.out.size)


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
    op: Any = BY_CODE[step.code]
    if static_words(op, dict(static)) is not None:
        try:
            shape = op.shape(*[view.shape for view in views], **dict(static))
        except (TypeError, ValueError) as error:
            raise IllegalProgram(str(error)) from None
        expect(shape == step.out.shape, "a result of another shape")


def _sum(memory: Memory, step: Kernel) -> None:
    minus, *views = _given(step, int, *[View] * (len(step.operands) - 1))
    for view in views:
        memory.read(view)
    expect(0 <= minus < 1 << len(views), "bits of other operands")
    expect(step.out.size == 1, "a sum of more than one number")


_LAYOUTS: dict[str, Callable[[Memory, Kernel], None]] = {
    "deposit": _deposit,
    "mask positions": _mask_positions,
    "sum": _sum,
    "plain": _by_rule,
}
