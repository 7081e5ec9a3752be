"""Inputs of a graph as forms: parameters of its first block."""

from __future__ import annotations

import dataclasses

from ..ir.flow_graph import Input
from ..kinds.step_kinds import FLOAT, INT
from .errors import Refused
from .forms import FLOATS, SINGLE, Array, Form, Known, Number
from .numbers import number
from .reader import Reader
from .views import strides_of


@dataclasses.dataclass(frozen=True)
class Given:
    """An input: dtype and lengths, () for a number; None is a length that changes with calls."""

    kind: str  # of the dtype in NumPy; SINGLE for float32
    lengths: tuple[int | None, ...]
    differentiated: bool


def entered(reader: Reader, given: Given, writable: bool = True) -> Form:
    """An input as a form, its numbers parameters of the first block."""
    graph, entry = reader.graph, reader.graph.blocks[0]
    if not given.lengths and given.kind in FLOATS:
        value = graph.value(FLOAT)
        entry.parameters.append(value)
        graph.inputs.append(Input(None, given.differentiated))
        return Number(given.kind, value, given.differentiated or given.kind == SINGLE)
    if not given.lengths:
        raise Refused("an argument is a NumPy number that is not a float")
    region = reader.region(FLOAT)
    graph.inputs.append(Input(len(given.lengths), given.differentiated, region))
    values = [graph.value(INT) for _ in range(1 + len(given.lengths))]
    entry.parameters.extend(values)
    lengths: tuple[Form, ...] = tuple(
        [
            Number(INT, value, natural=True) if length is None else Known(length)
            for value, length in zip(values[1:], given.lengths, strict=True)
        ]
    )
    with reader.at_start():
        strides = strides_of(reader, lengths)
    element = INT if given.kind in ("i", "u") else given.kind
    return Array(
        number(values[0]),
        lengths,
        strides,
        region,
        element,
        element not in FLOATS,
        writable and given.differentiated,
    )
