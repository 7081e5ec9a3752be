"""Functions of users as programs that fixed machine code calls by address, without Python.

`replay.callback_kernels` has what such code does with the address.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from .._core.tensor import runtime as rt
from .._core.tensor.dependencies import Dependencies, joined
from .build.executable import Program
from .compile import compile
from .dispatch.names_read import names_read
from .dispatch.signature import Arguments
from .ir.steps import ARENA, DOUBLE, View
from .ir.uses import slots_of
from .replay.run_layout import FINISHED


class Callback:
    """A function of numbers and arrays with one vector as result, by the address of its words.

    `adjoints` says whether adjoints can be computed, by all arguments, and `is_written` whether
    each number of the result is written in each call, and is no argument itself. `is_current()`
    says whether all that the function reads from outside is as it was when its program was made.
    """

    def __init__(self, program: Program, result: View, names: Dependencies):
        self.program, self._names = program, names
        item, code = program.code.item, program.code
        step = item * result.strides[0] if result.shape else item
        self.size = result.size
        written = [slots for step in code.steps for slots in step.slots_written.tolist()]
        self.is_written = {*written}.issuperset(slots_of(result).ravel().tolist())
        arguments = [n for one in code.inputs for n in (item * one.view.offset, one.view.size)]
        head = program.address, item * result.offset, step, result.size, len(code.inputs)
        self._words = np.array([*head, *arguments], np.int64)
        self.address = self._words.ctypes.data
        try:
            program.check()
        except TypeError:  # a partial derivative that does not exist
            self.adjoints = False
        else:
            self.adjoints = True

    def native(self, args: Sequence) -> Callback:
        """The same in machine code of its own, if it gives the same with some arguments.

        Its values and adjoints take a third of the time where there are few operations. It is
        compiled now, for about a tenth of a second. ValueError for arguments of other shapes.
        """
        given = _given(args)
        shapes = [tuple(one.view.shape) for one in self.program.code.inputs]
        if [*map(np.shape, given)] != shapes:
            raise ValueError(f"the arguments have shapes {[*map(np.shape, given)]}, not {shapes}")
        try:
            made = Program(self.program.source, native=True, few=1)
            found, expected = [_evaluated(one, given) for one in (made, self.program)]
        except Exception:  # as where LLVM fails: this one stays
            return self
        is_same = len(found) == len(expected) and all(map(_is_close, found, expected))
        result = _result_of(made)
        return Callback(made, result, self._names) if is_same and result is not None else self

    def is_current(self) -> bool:
        return self._names.unchanged()


def callback_of(
    f: Callable, args: Sequence, functions: Iterable[Callable] | None = None
) -> Callback | None:
    """A function, recorded at floats and arrays of float64, as a callback; None if it is none.

    It is none if it has no program, its result is no vector that depends on the arguments, or
    Python is called in its program; and if it changes anything outside, which Python would do in
    every call. What it reads from outside is as it is now, see `Callback.is_current`: what
    `functions` read, the users' that it calls, where it is none itself.
    """
    names = joined([*map(names_read, [f] if functions is None else functions)])
    if names.unknown is not None or names.long:
        return None
    given = _given(args)
    numbers = tuple(range(len(given)))
    compiled = compile(f, argnums=numbers, native=False)
    compiled._flows.has_warned = compiled._effects.is_silent = True
    with rt.tracing(None), contextlib.suppress(ValueError):
        names = names.with_elements()
        program = compiled._program_for(Arguments(tuple(given), {}, numbers))
        variants = [one for family in compiled._families.found.values() for one in family.found]
        (variant,) = [one for one in variants if one.program is program]
        result = _result_of(program) if len(variant.leaves) == 1 else None
        if result is not None and compiled._effects.found is None and _is_alone(program):
            return Callback(program, result, names)
    return None


def _given(args: Sequence) -> list:
    """Arguments as programs take them."""
    return [float(one) if np.ndim(one) == 0 else np.array(one, float) for one in args]


def _evaluated(program: Program, given: list) -> list[np.ndarray]:
    """The result and adjoints of all arguments; none where a guard fails."""
    run = program.begin()
    try:
        if program.forward(run, given, ahead=True) != FINISHED:
            return []
        found = [np.array(one) for one in program.results(run)]
        return found + program.reverse(run, [np.ones(one.shape) for one in found])
    finally:
        program.end(run)


def _is_close(a: np.ndarray, b: np.ndarray) -> bool:
    scale = np.max(np.abs(b), initial=0.0, where=np.isfinite(b))
    return np.allclose(a, b, rtol=1e-8, atol=1e-8 * scale, equal_nan=True)


def _result_of(program: Program) -> View | None:
    """Where the result is, if it is a vector of floats in the arena."""
    outputs = program.code.outputs
    if len(outputs) != 1 or outputs[0].dtype != DOUBLE:
        return None
    view = outputs[0].view
    return view if len(view.shape) == 1 and view.base == ARENA else None


def _is_alone(program: Program) -> bool:
    """Whether it does without Python, and finds its inputs in the arena as they were before."""
    code = program.code
    inputs = [one.view for one in code.inputs]
    if code.dtype != DOUBLE or any(one.base != ARENA or not one.is_contiguous for one in inputs):
        return False
    written = [view for step in code.steps for view in step.views_written]
    if any(a.overlaps(b) for a in written for b in inputs):
        return False
    return not any(step.calls_python_in(code.item) for step in code.steps)
