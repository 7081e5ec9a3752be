"""How large a program is, and about how long it takes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..._core.ops.table import BY_CODE, Pointwise, Structural
from .steps import (
    GUARD,
    Code,
    Computed,
    Elementwise,
    Gather,
    Kernel,
    Link,
    Scalars,
    Step,
    View,
    shown,
)
from .uses import once, views_written


class Size(NamedTuple):
    """Steps, operations in them, numbers that they store, slots of the arena."""

    steps: int
    operations: int
    stored: int
    slots: int


def size_of(code: Code) -> Size:
    counts = [once(step, "_counts", _counts) for step in code.steps]
    return Size(len(counts), sum(n for n, _ in counts), sum(n for _, n in counts), code.slots)


def _counts(step: Step) -> tuple[int, int]:
    return operations(step), stored(step)


def operations(step: Step) -> int:
    """Operations in a step, guards not counted."""
    if isinstance(step, Scalars):
        return int(np.count_nonzero(step.op != GUARD))
    return len(step.ops) if isinstance(step, Elementwise) else 1


def stored(step: Step) -> int:
    """Numbers that a step stores."""
    if isinstance(step, Scalars):
        return operations(step)
    return sum(view.size for view in views_written(step))


class Work(NamedTuple):
    """What time is spent on, counted: calls of parts, then numbers that go through operations."""

    calls: float = 0.0
    numbers: float = 0.0  # operations on single numbers
    number_functions: float = 0.0
    elements: float = 0.0  # of arrays, by arithmetic
    element_functions: float = 0.0
    moved: float = 0.0
    multiplied: float = 0.0  # in products of matrices
    along: float = 0.0  # in other operations on whole arrays
    python: float = 0.0  # calls of Python's functions
    solved: float = 0.0  # numbers of matrices times their rows, in factors and solutions


#: Nanoseconds of one of each, and of an evaluation itself, interpreted: values, and values with
#: derivatives. Fitted to 30 functions from 2 µs to 13 ms on one machine; of the evaluations there
#: half are off by less than 8 %, and nine of ten by less than a factor of 1.5.
VALUE_COSTS = Work(50.0, 4.0, 16.0, 0.2, 1.9, 0.9, 0.05, 2.3, 32e3, 0.2), 2.8e3
GRADIENT_COSTS = Work(30.0, 11.0, 34.0, 0.5, 2.7, 2.3, 0.15, 3.1, 40e3, 0.2), 6.5e3


def products_of(step: Kernel) -> int:
    """Products of numbers in an operation that multiplies and adds; 0 for others."""
    products = BY_CODE[step.code].products
    return 0 if products is None else products(step.out.shape, *map(shown, step.operands))


def work_of(step: Step) -> Work:
    if isinstance(step, Scalars):
        codes, counts = np.unique(step.op, return_counts=True)
        functions = sum(n for op, n in zip(codes, counts, strict=True) if is_function(int(op)))
        return Work(1, numbers=len(step.op) - float(functions), number_functions=float(functions))
    if isinstance(step, Elementwise):
        count, functions = math.prod(step.shape), sum(is_function(op) for op, _ in step.ops)
        return Work(
            1 + len(step.ops),
            elements=float(count * (len(step.ops) - functions)),
            element_functions=float(count * functions),
        )
    if isinstance(step, Kernel):
        op = BY_CODE[step.code]
        if op.is_by_rule:
            return _by_rule(op, step)
        if op.products is not None:
            return Work(1, multiplied=float(products_of(step)))
        return Work(1, along=float(max(x.size for x in step.operands if isinstance(x, View))))
    if isinstance(step, Computed):
        return Work(1, python=1.0)
    if isinstance(step, Link):
        return Work(1, moved=float(sum(source.size for _, source in step.pairs)))
    return Work(1, moved=float(step.out.size * (1 + isinstance(step, Gather))))


def _by_rule(op: Structural, step: Kernel) -> Work:
    """The value of an operation that its rule differentiates; what that costs its program tells."""
    if op.value_kernel is None:
        return Work(1, python=1.0)
    views = [x for x in step.operands if isinstance(x, View) and x.shape]
    if op.work is not None:
        shapes = [x.shape for x in step.operands if isinstance(x, View)]
        return Work(1, along=float(op.work(dict(step.operands[0]), step.out.shape, *shapes)))
    return Work(1, solved=float(max((x.size * x.shape[-1] for x in views), default=0)))


def is_function(code: int) -> bool:
    """Whether an operation calls a function, and is not arithmetic or a choice alone."""
    op = BY_CODE.get(code)
    return isinstance(op, Pointwise) and any(
        "np." in text for text in (op.value, *map(str, op.steps))
    )


def nanoseconds(code: Code, costs: tuple[Work, float]) -> float:
    """About how long an evaluation takes, interpreted."""
    counts = np.sum([work_of(step) for step in code.steps], axis=0)
    return costs[1] + float(np.dot(costs[0], counts)) if code.steps else costs[1]
