"""Calls of a compiled function whose way changes: by a graph with its loops and branches."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..._core.tensor.pytree import tree_build
from ..._flow.ir.frame import FINISHED
from ..._flow.native.flow_functions import compiled
from ..._flow.passes.simplify import simplified
from ..._flow.passes.tangents import with_tangents
from ..._flow.program import FlowProgram, Functions, Outcome
from ..._flow.reading.errors import Refused
from ..._flow.reading.forms import Contents, Form, Known, Number, Tuple
from ..._flow.reading.read import Given, Reading, read
from .rounding import first_difference
from .signature import Arguments, structure

_FLOAT64 = np.dtype(np.float64)
_DTYPES = (_FLOAT64, np.dtype(np.int64), np.dtype(np.bool_))
#: Seconds of interpreting after which a graph gets native code.
PATIENCE = 0.05
#: A call in so many is compared with the function; of so many calls half may be left.
SAMPLED, MANY = 1000, 32


def key_of(arguments: Arguments, exact: bool) -> tuple:
    """Equal for calls that one graph serves; lengths of what is not differentiated may differ."""
    inputs = [
        (dtype.str, shape if differentiated or exact else len(shape), differentiated)
        for dtype, shape, differentiated in arguments.kinds
    ]
    fixed = [(type(value), value) for is_fixed, value in arguments.static if is_fixed]
    structures = [structure(tree) for tree in arguments.trees]
    return (arguments.count, *arguments.names, *structures, *inputs, *fixed, exact)


def flow_for(f: Callable, arguments: Arguments, exact: bool) -> Flow:
    """The graph of a function for such arguments; Refused where there is none."""
    leaves: list[Given | Known] = []
    given = iter(arguments.kinds)
    for is_fixed, value in arguments.static:
        if is_fixed:
            leaves.append(Known(value))
            continue
        dtype, shape, differentiated = next(given)
        if dtype not in _DTYPES:
            raise Refused(f"an argument has dtype {dtype}")
        known = differentiated or exact
        lengths = tuple(shape) if known else (None,) * len(shape)
        leaves.append(Given(dtype.kind, lengths, differentiated))
    values = iter(leaves)
    trees = [tree_build(tree, values) for tree in arguments.trees]
    return Flow(read(f, trees, arguments.names), arguments, exact)


class Flow:
    """A graph of a function, and how calls of the function come to it.

    `calls` counts its calls, `reasons` why some of them had to leave it.
    """

    def __init__(self, reading: Reading, arguments: Arguments, exact: bool):
        self.reading = reading
        self.program = FlowProgram(simplified(reading.graph))
        self.verified = self.program.covered.copy()
        self.hidden = reading.hidden
        self._hidden_shapes = [array.shape for array in reading.hidden]
        self.calls = 0
        self.reasons: Counter[str] = Counter()
        self._seen = self.program.covered.copy()  # before native code took over
        self.seconds = 0.0
        self.state = "interpreted"
        self._tangents: FlowProgram | None = None
        self._seen_along: np.ndarray | None = None
        bare = not arguments.names and not any(fixed for fixed, _ in arguments.static)
        in_order = not any(arguments.orders)
        of_floats = all(dtype == _FLOAT64 for dtype, _, _ in arguments.kinds)
        plain = [structure(tree) is None for tree in arguments.trees]
        #: Of each argument its number of dimensions and, if they are fixed, its lengths.
        self.shapes: list[tuple[int, tuple | None]] | None = None
        if bare and in_order and of_floats and all(plain):
            self.shapes = [
                (len(shape), shape if differentiated or exact else None)
                for _, shape, differentiated in arguments.kinds
            ]
        self.is_number = isinstance(reading.result, Number) and reading.result.kind == "f"

    @property
    def is_like(self) -> bool:
        """Whether what was read outside of the arguments is as it was."""
        try:
            for owner, name, value in self.reading.dependencies:
                found = owner.cell_contents if name is None else owner.get(name)
                if found is not value:
                    return False
        except ValueError:  # a variable of a function outside that has been deleted
            return False
        pairs = zip(self.hidden, self._hidden_shapes, strict=True)
        return all(array.shape == shape and _is_plain(array) for array, shape in pairs)

    def values(self, args: tuple) -> list | None:
        """Arguments as inputs, if they come as floats and arrays that fit."""
        if self.shapes is None or len(args) != len(self.shapes):
            return None
        for arg, (ndim, shape) in zip(args, self.shapes, strict=True):
            if type(arg) is float:
                if ndim:
                    return None
            elif (
                type(arg) is not np.ndarray
                or arg.ndim != ndim
                or not ndim
                or not _is_plain(arg)
                or (shape is not None and arg.shape != shape)
            ):
                return None
        return [*args]

    def run(self, values: list, gradient: bool) -> tuple[Any, list] | None:
        """The result and the gradients of the differentiated inputs; None where the call left."""
        if gradient and not self.is_number:
            return None
        self.calls += 1
        start = time.perf_counter()
        outcome = self.program.run([*values, *self.hidden], gradient)
        self.seconds += time.perf_counter() - start
        if outcome.status != FINISHED:
            self.reasons[outcome.reason] += 1
            return None
        return self._result(outcome), outcome.gradients

    def again(self, values: list, gradient: bool) -> tuple[Any, list]:
        """What `run` gives, at inputs that are no call's: nothing is counted."""
        covered = self.program.covered.copy()
        outcome = self.program.run([*values, *self.hidden], gradient)
        self.program.covered[:] = covered
        if outcome.status != FINISHED:
            raise ValueError(outcome.reason)
        return self._result(outcome), outcome.gradients

    def timed(self, values: list) -> tuple[float, float]:
        """Seconds forward and in reverse, at inputs that are no call's: nothing is counted."""
        covered = self.program.covered.copy()
        try:
            return self.program.timed([*values, *self.hidden])
        finally:
            self.program.covered[:] = covered

    def _result(self, outcome: Outcome):
        if self.is_number:
            return outcome.results[0]
        return _built(self.reading.result, iter(outcome.results))

    @property
    def left(self) -> int:
        """How many calls had to leave it."""
        return self.reasons.total()

    @property
    def is_useless(self) -> bool:
        """Whether most calls leave it."""
        return self.left >= MANY and 2 * self.left > self.calls

    @property
    def seen(self) -> np.ndarray:
        """Of each edge whether a call took it, as in `covered` of a program."""
        return self._seen | self.program.covered

    def is_sample(self) -> bool:
        """Whether the next call is one of those that are compared now and then."""
        return (self.calls + 1) % SAMPLED == 0

    def is_due(self) -> bool:
        """Whether a call that was just made is to be compared with the function."""
        return self.calls % SAMPLED == 0 or not np.array_equal(self.program.covered, self.verified)

    def is_new_along(self) -> bool:
        """Whether the last derivative along tangents took an edge that none took before."""
        covered = self._tangents.covered  # type: ignore[union-attr]
        is_new = self._seen_along is None or not np.array_equal(covered, self._seen_along)
        self._seen_along = covered.copy()
        return is_new

    def verify(self) -> None:
        """Note that a call was compared."""
        self.verified = self.program.covered.copy()

    def native(self) -> Functions:
        """Native code of the graph."""
        return Functions(**compiled(self.program.graph), data=0)

    def take_over(self, functions: Functions, values: list) -> None:
        """Compute with native code, if it gives the same; RuntimeError says where it does not."""
        gradient = self.is_number
        inputs = [*values, *self.hidden]
        expected = self.program.run(inputs, gradient)
        other = FlowProgram(self.program.graph, functions)
        found = other.run(inputs, gradient)
        if expected.status != found.status:
            raise RuntimeError("native code takes another branch than the interpreted graph")
        pair = first_difference(
            (found.results, found.gradients), (expected.results, expected.gradients)
        )
        if pair is not None:
            raise RuntimeError(f"native code gives {pair[0]}, the interpreted graph {pair[1]}")
        self.program.use(functions)
        self._seen |= self.program.covered
        self.program.covered[:] = 0  # each edge is compared with the function once more
        self.verify()
        self.state = "native"

    def along(self, values: list, tangents: list) -> list | None:
        """The derivatives of the gradient along tangents of the differentiated inputs."""
        if self._tangents is None:
            which = [k for k, one in enumerate(self.program.graph.inputs) if one.differentiated]
            self._tangents = FlowProgram(simplified(with_tangents(self.program.graph, which)))
        inputs = [*values, *self.hidden, *tangents]
        outcome = self._tangents.run(inputs, True, (0.0, 1.0))
        return outcome.gradients if outcome.status == FINISHED else None


def _is_plain(array: np.ndarray) -> bool:
    """Whether the words of an array lie as graphs read them."""
    return array.dtype == _FLOAT64 and array.flags.c_contiguous


def _built(form: Form, results: Iterator) -> Any:
    """A result from its numbers."""
    if isinstance(form, Number):
        return next(results)
    if isinstance(form, Known):
        return form.value
    if isinstance(form, Tuple):
        return tuple([_built(one, results) for one in form.items])
    if isinstance(form, Contents):
        items = [_built(one, results) for one in form.items]
        return items if form.what == "list" else dict(zip(form.keys, items, strict=True))
    raise Refused("the result is an array")


def is_result(form: Form) -> bool:
    """Whether a result of this form can be built."""
    if isinstance(form, (Tuple, Contents)):
        return all(map(is_result, form.parts))
    return isinstance(form, (Number, Known))
