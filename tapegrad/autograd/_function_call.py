"""One call of a `Function`, held by its row and used by derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.creation import tensor
from .._core.tensor import runtime as rt
from .._core.tensor.apply import check_dtype
from .._core.tensor.pytree import tree_leaves
from .._core.tensor.trace import refuse
from .._core.tensor.values import FLOATS, is_recorded, is_tensor, value_of, wrap
from .._derivatives.forward_mode import BY_HAND as TANGENTS
from .._derivatives.recorded_reverse import BY_HAND as ADJOINTS
from .._derivatives.recorded_reverse import adjoints_if_reached, traversal_of
from .._derivatives.tape_traversal import Traversal, cast, copied, joined, seen_as
from ._returned import gradient_for, gradients_for


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


class Call:
    """One call of a Function, held by its row; the sweep calls it (`Sweep.run`)."""

    #: `refusing(value, message, causes)` is the value, as one of causes that no derivative passes.
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
        with self.ctx._at(traversal, number, marking):
            found = self.returned(gradients, [shape_and_dtype(view) for _, view in operands])
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
            return self.refusing(as_tensor(value), message, causes)

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
        with rt.switched(False):
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


def _call_at(traversal, number) -> Call:
    return traversal.reader.function(number)


ADJOINTS["function"] = lambda traversal, number, adjoint: _call_at(traversal, number).write(
    traversal, number, adjoint
)
TANGENTS["function"] = lambda traversal, number: _call_at(traversal, number).tangent(
    traversal, number
)
