"""Derivatives that are themselves recorded, by writing the adjoint of each row as rows.

The rules are those that the compiled sweep uses: for rows of scalars compiled themselves, for
arrays called with tensors, which costs Python per row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._core.codegen import layout
from .._core.operations import PUBLIC
from .._core.ops.table import Pointwise
from .._core.tape import store
from .._core.tape.adjoint_recorder import Writing
from .._core.tape.dependence import dependence_of
from .._core.tape.later_writes import refuse_writes_since
from .._core.tape.reverse_sweep import FreedError
from .._core.tape.row_reader import USED_UP, Reader, needed
from .._core.tensor import runtime as rt
from .._core.tensor.copies import pack
from .._core.tensor.indexing import scatter_add
from .._core.tensor.runtime import silence, silent
from .._core.tensor.values import is_recorded, value_of
from .declared_adjoints import write_adjoint, write_pointwise
from .functionalization import without_writes, without_writes_to
from .hooked import HOOKED, meets_hooks
from .infinities import settled
from .tape_traversal import Traversal, tensor_at
from .view_layouts import cast, in_zeros, of_input

#: Adjoints of operations whose rules are a user's, by their names; each has its own conventions.
BY_HAND: dict[str, Callable] = {}


class Differentiation(Traversal):
    """The adjoints of rows, as tensors, during a backward traversal of the rows.

    Rows of scalars are taken in compiled code (`adjoint_recorder`), those of arrays by the rules
    here.
    """

    def __init__(self, stops, writing: Writing):
        super().__init__(stops)
        self.writing = writing
        self.adjoints: dict = {}  # of arrays

    def add(self, number: int, view, adjoint) -> None:
        """Add to the adjoint of a row, or of the part of its buffer that `view` is."""
        if not self.writing.marks[number]:
            return  # no input is behind it
        base = self.base(number)
        if base is None:
            self._add_to_scalar(number, adjoint)
            return
        if view is not None and not rt.same_place(view, base):
            adjoint = in_zeros(base, view, adjoint)
        adjoint = cast(adjoint, base.dtype)
        before = self.adjoints.get(number)
        self.adjoints[number] = adjoint if before is None else before + adjoint
        self.writing.set(number, -1)

    def _add_to_scalar(self, number: int, adjoint) -> None:
        before = self.adjoint(number)
        adjoint = adjoint if before is None else before + adjoint
        if type(adjoint) is rt.Array and is_recorded(adjoint):
            adjoint = rt.load(adjoint.astype(np.float64))
        recorded = type(adjoint) is rt.Scalar
        row = adjoint._id if recorded else -1
        self.writing.set(number, row, float(value_of(adjoint)))

    def adjoint(self, number: int):
        """The adjoint of a row so far as a tensor or a number, None if nothing has reached it."""
        base = self.base(number)
        if base is None:
            found = self.writing.adjoint(number)
            return None if found is None else _scalar(*found)
        reads = self.writing.reads(number)
        if reads is not None:
            self.add(number, None, _scattered(base, reads))
        return self.adjoints.get(number)

    def run(self, outputs, seeds) -> None:
        """Traverse the tape back from `outputs`, whose adjoints are `seeds`."""
        for output, seed in zip(outputs, seeds, strict=True):
            self.add(output._id, output._array if type(output) is rt.Array else None, seed)
        try:
            with silence():
                self.writing.run(self.rule)
        except FreedError:
            raise RuntimeError(USED_UP) from None

    def rule(self, number: int) -> None:
        """Write the adjoint of a row of arrays."""
        pass_back(self, number, self.adjoint(number))


def pass_back(traversal: Traversal, number: int, adjoint) -> None:
    """Write the adjoints of a row's operands."""
    name, op = traversal.operation(number)
    if isinstance(op, Pointwise):
        write_pointwise(traversal, number, adjoint, op)
    elif name in BY_HAND:
        BY_HAND[name](traversal, number, adjoint)
    elif op.vjp is not None:
        write_adjoint(traversal, number, adjoint, op)
    else:
        raise NotImplementedError(
            f"tapegrad: a derivative of a derivative through {name} is not supported yet; "
            "write the function without it, or take first derivatives only"
        )


def _scalar(row: int, value: float):
    return tensor_at(row, None, value) if row >= 0 else np.float64(value)


def _scattered(base: np.ndarray, loads: np.ndarray):
    """The contributions of reads of single cells to the adjoint of their buffer."""
    places = np.zeros(1, np.int64)
    for n, stride in zip(base.shape, base.strides, strict=True):
        places = np.add.outer(places, np.arange(n) * stride).ravel()
    order = np.argsort(places)
    picked = order[np.searchsorted(places[order], loads["place"] * 4)]
    pairs = zip(loads["row"].tolist(), loads["value"].tolist(), strict=True)
    adjoints = pack(*[_scalar(*pair) for pair in pairs], shape=(len(loads),))
    return PUBLIC["reshape"](scatter_add(adjoints, picked, base.size), base.shape)


def recorded_adjoints(outputs, seeds, inputs, only: bool = False) -> list:
    """Adjoints of `inputs` as recorded tensors, zeros where the outputs do not depend on them.

    If this is the `only` differentiation with respect to them, they may have been written (see
    `functionalization.without_writes_to`).
    """
    if meets_hooks(outputs, inputs):
        return _filled(inputs, HOOKED["recorded"](outputs, seeds, inputs))
    return _filled(inputs, adjoints_if_reached(outputs, seeds, inputs, only))


def adjoints_and_inputs(outputs, seeds, inputs) -> tuple[list, list]:
    """The same, and the replacements of the inputs in adjoints that are differentiated again.

    That is another tensor for one that was written (see `functionalization`).
    """
    if meets_hooks(outputs, inputs):
        return recorded_adjoints(outputs, seeds, inputs), inputs
    again: list = []

    def derive() -> list:
        found, again[:] = _reached_adjoints(outputs, seeds, inputs, True)
        return found

    with silent():
        return _filled(inputs, settled(derive)), again


def _filled(inputs, adjoints: list) -> list:
    """Adjoints, zeros where there are none."""
    return [
        PUBLIC["zeros_like"](tensor) if adjoint is None else adjoint
        for tensor, adjoint in zip(inputs, adjoints, strict=True)
    ]


def adjoints_if_reached(outputs, seeds, inputs, only: bool = False) -> list:
    """Adjoints of `inputs` as recorded tensors, None where the outputs do not depend on them.

    Rows before an input do not get the adjoint that passes through it.
    """
    with silent():
        return settled(lambda: _reached_adjoints(outputs, seeds, inputs, only)[0])


def _reached_adjoints(outputs, seeds, inputs, only: bool) -> tuple[list, list]:
    stops = [tensor._id for tensor in inputs]
    with _writing(outputs, stops) as writing:
        if not writing.meets_writes:
            return _adjoints(writing, outputs, seeds, inputs), inputs
    if only:
        inputs, outputs = without_writes_to(inputs, outputs)
    else:
        outputs = without_writes(outputs, stops)
    with _writing(outputs, [tensor._id for tensor in inputs]) as writing:
        return _adjoints(writing, outputs, seeds, inputs), inputs


def _writing(outputs, stops) -> Writing:
    trace, choices = rt.trace(), layout.BY_VALUE
    if trace is not None:  # a program has other values later than compiled code sees here
        choices = layout.CAREFUL if trace.careful else layout.TRACED
    return Writing(stops, dependence_of([output._id for output in outputs])[1], choices)


def _adjoints(writing, outputs, seeds, inputs) -> list:
    stops = [tensor._id for tensor in inputs]
    traversal = Differentiation(stops, writing)
    traversal.run(outputs, seeds)
    refuse_writes_since(writing.begun, [output._id for output in outputs])
    return [of_input(traversal.adjoint(t._id), traversal.base(t._id), t) for t in inputs]


def depends_on_others(outputs, inputs) -> bool:
    """Whether the outputs depend on an input that is not among `inputs`.

    Others are the inputs of transforms around this one and tensors made with `requires_grad=True`;
    inputs of a transform that is over are constants by now.
    """
    chunks = list(store.input_slots)  # they cannot depend on inputs that another thread makes now
    found, _ = dependence_of([output._id for output in outputs])
    others = {*rt.noted_inputs()} - {tensor._id for tensor in inputs}
    return any(map(found.has, chunks)) or bool(found.rows[[*others]].any())


def reached(output, inputs) -> list[bool]:
    """For each input, whether an output depends on it through recorded operations."""
    if not is_recorded(output):
        return [False for _ in inputs]
    stops = {tensor._id for tensor in inputs}
    found = set(needed(Reader(), [output._id], stops))
    return [tensor._id in found for tensor in inputs]
