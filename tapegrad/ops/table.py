"""The table: what an operation is, and the list of all of them. It knows nothing of tapes."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable
from typing import Any

#: Every operation, by name; a code is a position in this table and is never stored on disk.
TABLE: dict[str, Any] = {}


@dataclasses.dataclass(frozen=True)
class Pointwise:
    """An element-wise operation: one expression for the value, one for the slope of each input.

    The expressions are in NumPy names of the inputs and `out`, branch-free, with `select`; they are
    compiled, evaluated by NumPy, and called with tensors to record derivatives of any order.
    """

    name: str
    inputs: tuple[str, ...]
    value: str
    slopes: tuple[str, ...]
    doc: str
    domain: tuple[tuple[float, float], ...]
    awkward: str
    numpy: str
    code: int

    @functools.cached_property
    def used(self) -> int:
        """Bits of the values that the slopes read: inputs in order, then the output."""
        text = " ".join(self.slopes)
        names = (*self.inputs, "out")
        return sum(1 << k for k, name in enumerate(names) if re.search(rf"\b{name}\b", text))


@dataclasses.dataclass(frozen=True)
class Structural:
    """An operation on whole arrays: a compiled adjoint that reads the row's references.

    `adjoint(frame, id, references, task)` and its `helpers` are Python functions in the language of
    kernels; `value(out, *operands)` computes the output again from operands of new values.
    `example` is an expression that records one such row of a tensor `x` with one axis.
    """

    name: str
    doc: str
    example: str
    awkward: str
    adjoint: Callable
    helpers: tuple[Callable, ...]
    value: Callable | None
    writes: bool
    code: int


def pointwise(name, inputs, value, *slopes, doc, domain=None, awkward="", numpy=None):
    """Declare an element-wise operation; `domain`, for the tests, is one (low, high) per input."""
    names = tuple(inputs.split())
    if len(slopes) != len(names):
        raise ValueError(f"{name}: {len(names)} inputs, {len(slopes)} slopes")
    if isinstance(domain, tuple) and not isinstance(domain[0], tuple):
        domain = (domain,) * len(names)
    domain = domain or ((-2.0, 2.0),) * len(names)
    numpy = numpy or f"numpy.{name}"
    code = len(TABLE) + 1
    TABLE[name] = Pointwise(name, names, value, slopes, doc, domain, awkward, numpy, code)


def structural(name, adjoint, *, doc, example, helpers=(), value=None, awkward="", writes=False):
    """Declare an operation on whole arrays.

    One that `writes` changes the buffer of its first operand and has no result.
    """
    code = len(TABLE) + 1
    TABLE[name] = Structural(name, doc, example, awkward, adjoint, helpers, value, writes, code)
