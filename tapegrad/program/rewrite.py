"""Programs with their slots renumbered."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from ..replay import reading
from ..replay.steps import (
    Code,
    Computed,
    Elementwise,
    Gather,
    Kernel,
    Link,
    Pack,
    Scalars,
    Step,
    View,
)

#: Renumbers slots: an array of them, of which −1 stays.
Renumber = Callable[[np.ndarray], np.ndarray]


def _view(view: View, renumber: Renumber) -> View:
    if view.base:
        return view
    return dataclasses.replace(view, offset=int(renumber(np.array([view.offset]))[0]))


def _any(item, renumber: Renumber):
    return _view(item, renumber) if isinstance(item, View) else item


def renumbered(step: Step, renumber: Renumber) -> Step:
    """A step with other slots."""
    if isinstance(step, Scalars):
        first = int(renumber(np.array([step.first]))[0])
        columns = [renumber(column).astype(np.int32) for column in (step.a, step.b, step.c)]
        return Scalars(first, step.op, *columns)
    if isinstance(step, Elementwise):
        return Elementwise(
            step.shape,
            [(code, tuple(_any(x, renumber) for x in operands)) for code, operands in step.ops],
            [(k, _view(view, renumber)) for k, view in step.stores],
            [(k, _view(view, renumber)) for k, view in step.sums],
        )
    out = _view(step.out, renumber)
    if isinstance(step, Link):
        return Link(out, [(_view(s, renumber), _view(t, renumber)) for s, t in step.pairs])
    if isinstance(step, Gather):
        return Gather(out, _view(step.source, renumber), _any(step.positions, renumber))
    if isinstance(step, Pack):
        return Pack(out, renumber(step.slots).astype(np.int32))
    if isinstance(step, Kernel):
        return Kernel(step.code, [_any(x, renumber) for x in step.operands], out)
    operands = [(_any(x, renumber), dtype) for x, dtype in step.operands]
    return Computed(step.function, operands, out)


def renumbered_code(code: Code, renumber: Renumber, slots: int) -> Code:
    """A program with other slots; `constants` keep their arrays."""
    return Code(
        slots,
        [(int(renumber(np.array([slot]))[0]), values) for slot, values in code.constants],
        [dataclasses.replace(one, view=_view(one.view, renumber)) for one in code.inputs],
        [renumbered(step, renumber) for step in code.steps],
        [dataclasses.replace(one, view=_view(one.view, renumber)) for one in code.outputs],
    )


def settle(code: Code, constants: np.ndarray) -> Code:
    """The program with its constants, numbered from −2 down so far, behind all other slots."""
    total = code.slots

    def renumber(slots: np.ndarray) -> np.ndarray:
        is_constant = slots <= reading.FIRST_CONSTANT
        return np.where(is_constant, total + (reading.FIRST_CONSTANT - slots), slots)

    made = renumbered_code(code, renumber, total + len(constants))
    if len(constants):
        made.constants.append((total, constants))
    return made
