"""A call of a `Function`, as programs repeat it with other arguments: forward, then backward."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._core.tape.tape import Reader
from .._core.tensor import runtime as rt
from .._core.tensor.reachable import reachable
from .._core.tensor.row_listeners import listen, stop_listening
from .._core.tensor.values import FLOATS, array_of, is_recorded, is_tensor, value_of, wrap
from ._context import Context
from ._function_call import (
    Call,
    differentiable,
    numbers_as_tensors,
    results_of,
    shape_and_dtype,
)


def unrecorded(arg):
    """An argument as forward gets it: a recorded tensor as one on its values, not to be written."""
    return shown(value_of(arg), type(arg) is rt.Scalar) if is_recorded(arg) else arg


def shown(value, is_number: bool):
    if is_number:
        return wrap(np.float64(value))
    view = np.asarray(value).view()
    view.flags.writeable = False
    return wrap(view)


def _common_float(args) -> np.dtype:
    """The dtype of the recorded floats among arguments."""
    found = [x.dtype for x in map(array_of, filter(is_recorded, args)) if x.dtype in FLOATS]
    return np.result_type(*found) if found else np.dtype(np.float64)


@contextlib.contextmanager
def noting_reads(name: str) -> Iterator[None]:
    """Let the trace be refused if a recorded tensor is read inside, or an error raised."""
    rows: list[int] = []
    trace, thread = rt.trace(), threading.get_ident()
    guards = len(trace.guards)

    def note(row, *_):
        if threading.get_ident() == thread and rt.trace() is trace:
            rows.append(row)

    listen(note)
    try:
        yield
    except Exception as error:  # which the function may catch, and take another way
        trace.refuse(f"forward of {name} raises {type(error).__name__}")
        raise
    finally:
        stop_listening(note)
    if rows or len(trace.guards) > guards:
        trace.refuse(
            f"forward of {name} records derivatives, or reads a recorded tensor that is not an "
            "argument of apply"
        )


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Neither traced nor recorded, as forward and backward are called."""
    with rt.tracing(None), rt.outside():
        yield


def kept(arg):
    """An argument that is not recorded, as it is now."""
    if is_tensor(arg):
        return shown(np.array(array_of(arg)), type(arg) is rt.Scalar)
    if isinstance(arg, np.ndarray):
        arg = arg.copy("K")
        arg.flags.writeable = False
    return arg


class Repeated:
    """A call of a Function, which can be repeated (see `trace.CustomCall`).

    `compute(ctx, args)` calls forward. `tensors` are the places of the results that are tensors,
    `outputs`, which have a derivative, first; in this order they lie in the array of the row.
    """

    def __init__(self, compute: Callable, cls, ctx: Context, args, out):
        self.compute, self.cls, self.name = compute, cls, cls.__name__
        self.recorded = [is_recorded(arg) for arg in args]
        self.numbers = [type(arg) is rt.Scalar for arg in args]
        self.args = [None if is_recorded(arg) else kept(arg) for arg in args]
        self.needs = ctx.needs_input_grad
        results = self._results(out)
        self.form = self._form(ctx, out, results)
        self.outputs, _, kinds = self.form
        self.places = ctx._places(results, self.outputs)
        self.derived = False  # whether a derivative is recorded: it finds values by their places
        others = [k for k, x in enumerate(results) if is_tensor(x) and k not in self.outputs]
        self.tensors = [*self.outputs, *others]
        floats = [kinds[k][1] for k in self.outputs] or [_common_float(args)]
        self.dtype = np.result_type(*floats)

    def _results(self, out) -> list:
        return numbers_as_tensors(self.name, results_of(out))

    def _form(self, ctx: Context, out, results) -> tuple:
        """What is the same in every call that is repeated: above all shapes and dtypes."""
        outputs = differentiable(ctx, results) if any(self.needs) else []
        kinds = [(x.shape, x.dtype) if is_tensor(x) else type(x) for x in results]
        several = type(out) if isinstance(out, (tuple, list)) else None
        return outputs, several, kinds

    def asides_of(self, results) -> list[np.ndarray] | None:
        """The results without derivative as arrays; None if a program cannot follow all results."""
        if self.unlike(results):
            return None
        return [np.array(array_of(results[k]), self.dtype) for k in self.tensors[self.count :]]

    @property
    def count(self) -> int:
        return len(self.outputs)

    def unlike(self, results) -> str:
        """Why a program cannot follow results, empty if it can."""
        for k, one in enumerate(results):
            if is_recorded(one):
                return f"forward of {self.name} returns a recorded tensor that it was not given"
            if not is_tensor(one) and one is not None:
                return f"forward of {self.name} returns a result of type {type(one).__name__}"
            if is_tensor(one) and k not in self.outputs and not _is_held(array_of(one), self.dtype):
                return f"forward of {self.name} returns numbers that {self.dtype} does not hold"
        return "" if self.tensors else f"forward of {self.name} returns no tensor"

    def reads_more(self, trace) -> bool:
        """Whether backward can reach a tensor that the trace has recorded, other than by ctx."""
        reader = Reader()
        start = reader.time(trace.held[0]._id)

        def is_traced(one) -> bool:
            return is_tensor(one) and is_recorded(one) and reader.time(one._id) >= start

        return bool(reachable(self.cls.backward, is_traced))

    def place(self, call: Call, whole: np.ndarray) -> None:
        """Note where the results of the recorded call lie in the array of its row."""
        self.parts, self.whole = call.parts, (whole.shape, whole.dtype)

    # --- what programs ask --------------------------------------------------------------------

    def value(self, operands: list[np.ndarray]) -> tuple[np.ndarray | None, Any]:
        given, ctx = iter(operands), Context(self.needs)
        items = zip(self.args, self.recorded, self.numbers, strict=True)
        args = [shown(next(given), number) if one else arg for arg, one, number in items]
        with apart():
            out = self.compute(ctx, args)
        results = self._results(out)
        if self._form(ctx, out, results) != self.form or self.unlike(results):
            return None, None
        if self.derived and ctx._places(results, self.outputs) != self.places:
            return None, None
        call = Call(self.cls, ctx, args, results, self.outputs)
        call.parts, whole = self.parts, np.empty(*self.whole)
        for k, part in zip(self.tensors, call.every_view(whole), strict=True):
            part[...] = array_of(results[k])
        ctx._keep(args)
        return whole, (call, [shape_and_dtype(value_of(x)) for x in args])

    def adjoints(self, held: Any, g: np.ndarray) -> list[np.ndarray | None]:
        call, kinds = held
        with apart():
            parts = [wrap(np.array(part)) for part in call.views(g)]
            found = call.returned(call.split(parts), kinds)
        pairs = zip(found, self.recorded, strict=True)
        return [None if x is None else np.asarray(value_of(x)) for x, one in pairs if one]


def _is_held(array: np.ndarray, dtype: np.dtype) -> bool:
    """Whether a dtype holds the values of an array."""
    return np.array_equal(array.astype(dtype).astype(array.dtype), array, equal_nan=True)
