"""Calls of a `Function`: held by rows, used by derivatives, repeated by programs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.creation import tensor
from .._core.tape.tape import Reader
from .._core.tensor import runtime as rt
from .._core.tensor.apply import check_dtype
from .._core.tensor.operators import listen, stop_listening
from .._core.tensor.pytree import reachable, tree_leaves
from .._core.tensor.trace import CustomCall, refuse
from .._core.tensor.values import FLOATS, array_of, is_recorded, is_tensor, name_of, value_of, wrap
from .._derivatives.forward_mode import BY_HAND as TANGENTS
from .._derivatives.recorded_reverse import BY_HAND as ADJOINTS
from .._derivatives.recorded_reverse import adjoints_if_reached, summed_to, traversal_of
from .._derivatives.tape_traversal import Traversal, cast, copied, joined, seen_as
from ._context import Context, is_computed

# --- returned -------------------------------------------------------------------------------------
# Checks of the results of backward of a `Function`.


def gradients_for(name: str, returned, count: int) -> tuple:
    """The gradients that backward has returned, one for each of `count` arguments."""
    found = returned if isinstance(returned, (tuple, list)) else (returned,)
    if len(found) > count and all(one is None for one in found[count:]):
        found = found[:count]
    if len(found) != count:
        raise RuntimeError(
            f"tapegrad.{name}: backward returned {len(found)} gradients, expected {count}, one for "
            "each argument of forward; return None where there is none"
        )
    return tuple(found)


def gradient_for(name: str, k: int, one, is_tensor_argument, needed: bool, shape, dtype):
    """The gradient of argument `k` as a tensor of its shape and dtype; None if there is none."""
    if one is None:
        return None
    if not is_tensor_argument:
        raise RuntimeError(
            f"tapegrad.{name}: backward returned a gradient for argument {k}, which is not a "
            "tensor; return None in its place"
        )
    if not needed:
        return None
    value = value_of(one)
    numeric = is_tensor(one) or isinstance(value, (np.ndarray, np.generic, int, float))
    if not numeric or np.asarray(value).dtype not in FLOATS:
        raise TypeError(
            f"tapegrad.{name}: backward returned a gradient of type {name_of(one)} for argument "
            f"{k}, expected a tensor of {dtype}"
        )
    one = one if is_tensor(one) else wrap(np.asarray(value))
    if one.shape != shape:
        if not _expands(shape, one.shape):
            raise RuntimeError(
                f"tapegrad.{name}: backward returned a gradient of shape {one.shape} for argument "
                f"{k}, expected {shape}"
            )
        one = summed_to(one, shape)
    return one if one.dtype == dtype else PUBLIC["asarray"](one, dtype)


def _expands(shape, larger) -> bool:
    """Whether `shape` can be broadcast to `larger`; then the gradient is summed."""
    try:
        return np.broadcast_shapes(shape, larger) == larger
    except ValueError:
        return False


# --- function call --------------------------------------------------------------------------------
# One call of a `Function`, held by its row and used by derivatives.


def as_tensor(value):
    """An array of a user's as a tensor on its memory."""
    if isinstance(value, (np.ndarray, np.floating)):
        return wrap(np.asarray(value).view())
    return value


def shape_and_dtype(value) -> tuple:
    """Those of an argument: an array, or a number or another object."""
    is_array = isinstance(value, np.ndarray)
    return (value.shape, value.dtype) if is_array else ((), np.dtype(np.float64))


def parts_of(out) -> list:
    """The results of forward as it returned them: those in a tuple or list, or one."""
    return [*out] if isinstance(out, (tuple, list)) else [out]


def results_of(out) -> list:
    """The results of forward, arrays as tensors."""
    return [as_tensor(one) for one in parts_of(out)]


def numbers_as_tensors(name: str, results: list) -> list:
    """Results of which derivatives are recorded, numbers of Python as tensors.

    Integers and truths beside other results are none: a number of iterations, whether it converged.
    """
    kinds = (float,) if any(is_tensor(x) or type(x) is float for x in results) else _NUMBERS
    made = [wrap(np.float64(x)) if isinstance(x, kinds) else x for x in results]
    for k, one in enumerate(made):
        _check(name, k, one, alone=not any(map(is_tensor, made)))
    return made


def _check(name: str, k: int, one, alone: bool) -> None:
    """Refuse a result whose derivative would be lost."""
    if np.iscomplexobj(value_of(one)) or type(one) is rt.ComplexTensor:
        raise TypeError(
            f"tapegrad.{name}: result {k} of forward is complex; return its real and its imaginary "
            "part as two results"
        )
    if is_tensor(one) and one.dtype.kind == "f":
        check_dtype(f"{name}.forward", one)
    if alone and any(map(_is_number, [leaf for _, leaf in tree_leaves(one)])):
        raise TypeError(
            f"tapegrad.{name}: result {k} of forward is of type {type(one).__name__} and holds "
            "numbers, whose derivative would be lost; return them themselves, several as a tuple"
        )


def _is_number(value) -> bool:
    return is_tensor(value) or isinstance(value, (float, np.ndarray, np.floating))


def differentiable(ctx, results) -> list[int]:
    """The places of the results that have a derivative."""
    constant = [*map(id, ctx._constant)]
    returned = ctx._returned or results
    return [
        k
        for k, (one, given) in enumerate(zip(results, returned, strict=True))
        if is_tensor(one) and one.dtype in FLOATS and not {id(one), id(given)} & {*constant}
    ]


_NUMBERS = (float, int, np.bool_, np.integer)
_COMPUTED = (
    "tapegrad.{}: a derivative of a derivative needs that of {}, which forward has computed from "
    "the arguments and does not return (constant is what it keeps for slightly other ones, too); "
    "compute it in backward, from saved arguments and results, or return it as a "
    "further result and save that"
)


#: The message where a derivative of `backward` that is `once_differentiable` is taken.
ONCE = (
    "tapegrad: trying to differentiate twice a function that was marked with @once_differentiable"
)


class FunctionCall:
    """One call of a Function, held by its row; the sweep calls it (`Sweep.run`)."""

    #: `refusing(value, message, causes, error)` is the value, as one of causes that no derivative
    #: passes: it raises the error, by default a RuntimeError.
    refusing: Callable
    #: The call at moved arguments, if forward has computed values in `ctx`; until it is needed.
    moved: Any = None

    def __init__(self, cls, ctx, args, raw, outputs):
        self.cls = cls
        self.ctx = ctx
        self.is_tensor = [is_tensor(arg) for arg in args]
        self.recorded = [is_recorded(arg) for arg in args]
        self.needs = ctx.needs_input_grad
        self.zeros = [(one.shape, one.dtype) if is_tensor(one) else None for one in raw]
        self.outputs = outputs
        self._constants: dict = {}  # leaves of what is in `ctx`, once they are asked for

    def __str__(self) -> str:
        return self.cls.__name__

    def places(self, buffer: np.ndarray, parts) -> None:
        """Store the places of the results in the buffer."""
        start = buffer.ctypes.data
        self.parts = [
            (part.shape, part.dtype, part.ctypes.data - start, part.strides) for part in parts
        ]

    def views(self, base: np.ndarray) -> list[np.ndarray]:
        """The parts of the row's buffer, or of memory like it, that the results are."""
        return self.every_view(base)[: len(self.outputs)]

    def every_view(self, base: np.ndarray) -> list[np.ndarray]:
        """The same with those after them that have no derivative, in traced programs."""
        shape, _, _, strides = self.parts[0]
        if len(self.parts) == 1 and (shape, strides) == (base.shape, base.strides):
            return [base]
        return [np.ndarray(shape, dtype, base, *place) for shape, dtype, *place in self.parts]

    def index_of(self, base: np.ndarray, view) -> int | None:
        """The result that a view of the buffer is, None if it is another part."""
        for k, part in zip(self.outputs, self.views(base), strict=True):
            if rt.same_place(part, base if view is None else view):
                return k
        return None

    def operands(self, traversal: Traversal, number: int) -> list:
        """For each argument the row and the view that it was; (−1, None) without derivative."""
        recorded = iter(traversal.read(number)[1:])
        found = [next(recorded) if one else (-1, None) for one in self.recorded]
        return [one if need else (-1, None) for one, need in zip(found, self.needs, strict=True)]

    def pass_back(self, traversal: Traversal, number: int, gradients, recorded=True) -> tuple:
        """The results of backward for the gradients of all results, checked, for each argument.

        `recorded` says whether derivatives of them by the arguments may be wanted.
        """
        operands = self.operands(traversal, number)
        marking = self._marking(traversal, number) if recorded else None
        gradients = list(gradients)
        with self.ctx._at(traversal, number, marking):
            found = self.returned(gradients, [shape_and_dtype(view) for _, view in operands])
        if recorded and rt.is_recording() and getattr(self.cls.backward, "is_once", False):
            causes = [one for one in gradients if is_tensor(one) and is_recorded(one)]
            causes += [traversal.value(number, *one) for one in operands if one[0] >= 0]
            found = [None if one is None else self.refusing(one, ONCE, causes) for one in found]
        pairs = zip(found, operands, strict=True)
        return tuple([one if source >= 0 else None for one, (source, _) in pairs])

    def _marking(self, traversal: Traversal, number: int) -> Callable:
        """What marks a value of ctx that depends on the arguments; constants are unchanged."""

        def marked(value, computed, k: int):
            moved = self.moved
            if moved is not None:
                recorded = traversal.read(number)[1 : 1 + sum(self.recorded)]
                values = [traversal.value(number, *one) for one in recorded]
                self._constants = moved.constants(values, self.ctx._computed())
                self.moved = None  # it holds arguments
            if self._constants and self._constants[computed.name][k]:
                return value
            operands = [one for one in self.operands(traversal, number) if one[0] >= 0]
            causes = [traversal.value(number, *one) for one in operands]
            message = _COMPUTED.format(self.cls.__name__, computed)
            value = np.float64(value) if isinstance(value, float) else value
            return self.refusing(as_tensor(value), message, causes, NotImplementedError)

        return marked

    def returned(self, gradients, kinds) -> list:
        """The same for arguments of these shapes and dtypes, wherever they are."""
        given = list(gradients)
        if self.ctx._materialize:
            for k, zeros in enumerate(self.zeros):
                if given[k] is None and zeros is not None:
                    given[k] = wrap(np.zeros(*zeros))
        for k in self.outputs:
            given[k] = None if given[k] is None else cast(given[k], self.zeros[k][1])
        name, returned = self.cls.__name__, self.cls.backward(self.ctx, *given)
        return [
            gradient_for(name, k, one, self.is_tensor[k], self.needs[k], *kinds[k])
            for k, one in enumerate(gradients_for(name, returned, len(self.needs)))
        ]

    def split(self, parts: list) -> list:
        """The gradients of all results, None where they have none, from those of the recorded.

        Without materialisation a gradient that is all zero counts as none, unless all are.
        """
        gradients: list = [None] * len(self.zeros)
        for k, part in zip(self.outputs, parts, strict=True):
            gradients[k] = part
        if not self.ctx._materialize and len(parts) > 1:
            zero = [not np.any(value_of(part)) for part in parts]
            if not all(zero):
                for k, is_zero in zip(self.outputs, zero, strict=True):
                    gradients[k] = None if is_zero else gradients[k]
        return gradients

    def __call__(self, sweep, number: int) -> None:
        """Pass the adjoint of the row on to its operands, in a sweep."""
        traversal = traversal_of(sweep, number)
        base = traversal.base(number)
        adjoint_buffers = [sweep.adjoint_buffer(number, view) for view in self.views(base)]
        # else as forward is called: what backward makes of arrays are arrays
        with rt.switched(False) if self.cls._is_inside else rt.outside():
            found = [
                self.pass_back(
                    traversal,
                    number,
                    self.split([wrap(np.array(m[seed, ...])) for m in adjoint_buffers]),
                )
                for seed in range(sweep.seeds)
            ]
        for k, (source, view) in enumerate(self.operands(traversal, number)):
            given = [one[k] for one in found]
            if any(one is not None for one in given):
                tensor = traversal.tensor(source, view)
                zero = np.zeros(tensor.shape, tensor.dtype)
                seeds = [zero if one is None else np.asarray(value_of(one)) for one in given]
                sweep.plant(tensor, np.array(seeds))

    def _derived(self, number: int) -> None:
        """The derivative becomes operations; a program has them for other arguments.

        So it may read arguments and results alone, the same ones in each call.
        """
        trace = rt.trace()
        if trace is not None and number in trace.custom:
            trace.custom[number].derived = True
        if not self.ctx._is_packed:
            refuse(f"forward of {self.cls.__name__} leaves more than arguments and results in ctx")

    def write(self, traversal, number: int, adjoint) -> None:
        """Write the adjoints of the operands as rows."""
        self._derived(number)
        base = traversal.base(number)
        adjoint = (
            adjoint if is_tensor(adjoint) else wrap(np.array(np.broadcast_to(adjoint, base.shape)))
        )
        parts = [
            adjoint if rt.same_place(view, base) else seen_as(adjoint, base, view)
            for view in self.views(base)
        ]
        for (source, view), one in zip(
            self.operands(traversal, number),
            self.pass_back(traversal, number, self.split(parts)),
            strict=True,
        ):
            if one is not None:
                traversal.add(source, view, one)

    def tangent(self, traversal, number: int):
        """The tangent of the row from those of its operands, an axis of directions first."""
        self._derived(number)
        operands = self.operands(traversal, number)
        tangents = [None if s < 0 else traversal.tangent(s, view) for s, view in operands]
        rows = []
        for k in range(traversal.directions):
            given = [None if t is None else as_tensor(copied(t[k])) for t in tangents]
            found = self._push(traversal, number, given)
            rows.append([found[place] for place in self.outputs])
        base = traversal.base(number)
        columns = [PUBLIC["stack"](list(column)) for column in zip(*rows, strict=True)]
        return joined(base, list(zip(columns, self.views(base), strict=True)))

    def _push(self, traversal, number: int, given) -> dict | tuple:
        """The tangents of the results from those of the arguments, by place."""
        if not hasattr(self.cls, "jvp"):
            found = self._transposed(traversal, number, given)
            return (
                found
                if traversal.recorded
                else {k: wrap(value_of(one)) for k, one in found.items()}
            )
        marking = self._marking(traversal, number) if traversal.recorded else None
        with self.ctx._at(traversal, number, marking):
            returned = self.cls.jvp(self.ctx, *given)
        return returned if isinstance(returned, tuple) else (returned,)

    def _transposed(self, traversal, number: int, given) -> dict:
        """The same without `jvp`: backward is linear in its gradients, and is differentiated."""
        seeds = {k: tensor(np.zeros(*self.zeros[k]), requires_grad=True) for k in self.outputs}
        with rt.switched(True):
            given_seeds = map(seeds.get, range(len(self.zeros)))
            returned = self.pass_back(traversal, number, given_seeds, traversal.recorded)
            pairs = [(g, t) for g, t in zip(returned, given, strict=True) if g is not None]
            if not all(is_recorded(gradient) for gradient, _ in pairs):
                raise NotImplementedError(
                    f"tapegrad.{self.cls.__name__}: the class has no jvp, which forward mode "
                    "needs, and backward does not compute with tensors; define jvp(ctx, …) as a "
                    "staticmethod, or take a reverse derivative: grad, vjp or jacobian"
                )
            pairs = [(gradient, t) for gradient, t in pairs if t is not None]
            roots, tangents = [g for g, _ in pairs], [t for _, t in pairs]
            found = adjoints_if_reached(roots, tangents, list(seeds.values()))
        return {
            k: wrap(np.zeros(*self.zeros[k])) if one is None else one
            for k, one in zip(seeds, found, strict=True)
        }


def _call_at(traversal, number) -> FunctionCall:
    return traversal.reader.function(number)


ADJOINTS["function"] = lambda traversal, number, adjoint: _call_at(traversal, number).write(
    traversal, number, adjoint
)
TANGENTS["function"] = lambda traversal, number: _call_at(traversal, number).tangent(
    traversal, number
)


# --- repeated call --------------------------------------------------------------------------------
# A call of a `Function`, as programs repeat it with other arguments: forward, then backward.


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


class Repeated(CustomCall):
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

    def place(self, call: FunctionCall, whole: np.ndarray) -> None:
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
        call = FunctionCall(self.cls, ctx, args, results, self.outputs)
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


# --- moved call -----------------------------------------------------------------------------------
# Which values that forward of a `Function` keeps in `ctx` are constants: forward called again.


class Moved:
    """A call, which can be repeated with its differentiated arguments slightly moved.

    It holds the other arguments. `compute(ctx, args)` calls forward.
    """

    def __init__(self, compute: Callable, needs: tuple[bool, ...], args):
        self.compute, self.needs = compute, needs
        self.args = [None if is_recorded(arg) else arg for arg in args]
        self.recorded = [is_recorded(arg) for arg in args]
        self.numbers = [type(arg) is rt.Scalar for arg in args]

    def constants(self, values: list, computed: dict[str | int, Any]) -> dict:
        """Which leaves of values in `ctx`, by their names, are the same at moved arguments.

        `values` are the recorded arguments. An array of `ctx` that forward writes anew, because it
        exists once for all calls, gets back what it held.
        """
        before = {name: _copied(value) for name, value in computed.items()}
        found = []
        try:
            for seed in range(2):
                ctx = self._called(values, np.random.default_rng(seed))
                found.append({name: _copied(ctx._as_kept(name)) for name in computed})
        except Exception:  # of the user's code, at arguments that the user did not give
            found = [{}]
        finally:
            for name, value in computed.items():
                _restore(value, before[name])
        return {
            name: [all(_equal(k, own, one.get(name)) for one in found) for k in range(len(own))]
            for name, own in before.items()
        }

    def _called(self, values: list, rng: np.random.Generator) -> Context:
        """`ctx` of a call with moved arguments."""
        given, ctx = iter(values), Context(self.needs)
        places = zip(self.args, self.recorded, self.numbers, self.needs, strict=True)
        args = [
            shown(_moved(value_of(next(given)), need, rng), is_number) if one else kept(arg)
            for arg, one, is_number, need in places
        ]
        with apart():
            self.compute(ctx, args)
        return ctx


def _moved(value, need: bool, rng: np.random.Generator) -> np.ndarray:
    """A copy with each element moved to either side, by different amounts, if there is need.

    Elements other than 0 keep their signs, so that masks of signs are constants.
    """
    array = np.array(value)
    if not need:
        return array
    step = np.finfo(array.dtype).eps ** (1 / 3)
    moves = step * rng.uniform(0.5, 1.0, array.shape) * rng.choice([-1.0, 1.0], array.shape)
    return (array + moves * np.where(array == 0.0, 1.0, array)).astype(array.dtype)


def _copied(value) -> list:
    """The places of the leaves of a value, with copies of those that may have a derivative."""
    return [
        (place, np.array(value_of(leaf)) if is_computed(leaf) else None)
        for place, leaf in tree_leaves(value)
    ]


def _equal(k: int, own: list, other: list | None) -> bool:
    """Whether leaf `k` is the same in two values of the same form."""
    if other is None or [place for place, _ in own] != [place for place, _ in other]:
        return False
    (_, a), (_, b) = own[k], other[k]
    if a is None or b is None:
        return False
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=True)


def _restore(value, before: list) -> None:
    for (_, leaf), (_, held) in zip(tree_leaves(value), before, strict=True):
        array = value_of(leaf)
        if held is not None and isinstance(array, np.ndarray) and array.flags.writeable:
            if not np.array_equal(array, held, equal_nan=True):
                array[...] = held
