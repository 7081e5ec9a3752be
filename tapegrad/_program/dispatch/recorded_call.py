"""A compiled function called inside a recording: one row, whose adjoint its program computes.

The row keeps the run of the program for the reverse sweep. Where derivatives are recorded, or
carried forwards, the function is called eagerly: so they are right to any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core.codegen.layout import ARRAY, REFERENCES
from ..._core.ops import call_rows as _declaration
from ..._core.ops.table import TABLE
from ..._core.tensor import runtime as rt
from ..._core.tensor.copies import view_like
from ..._core.tensor.pytree import repeats, tree_build, tree_leaves
from ..._core.tensor.trace import DerivativeLost
from ..._core.tensor.values import is_recorded, is_tensor, records, scalar_of, value_of, wrap
from ..._derivatives.inputs import Inputs, plain
from ..._derivatives.recorded_reverse import references_of
from ..._derivatives.tape_traversal import joined, seen_as
from ..._transforms.derivative_products import vjp
from ..._transforms.gradients import must_record, pushed
from ..build.executable import Program
from ..replay.parts import Run
from .fast_path import FastCall
from .flow_derivatives import by_graph, vjp_of
from .signature import Arguments, is_float
from .variants import Variant, Variants

assert _declaration
_ROW = ARRAY + TABLE["function"].code
#: Runs that a program keeps for later calls: a tape of many rows returns as many.
_RUNS = 8
#: A row has references to this call, its result and its operands.
_MOST_OPERANDS = REFERENCES - 3


def recorded_call(owner, arguments: Arguments) -> tuple | None:
    """The result of a compiled function for recorded arguments, in a tuple; None where it is none.

    There is none while a program is traced, at the first such call, and where the program has
    arguments or results that a row has not.
    """
    if rt.trace() is not None or not rt.is_recording() or not _fits(arguments):
        return None
    if owner._verify == "always":
        return None
    plain = arguments.plain(owner._argnums)
    operands = {k: leaf for k, leaf in enumerate(arguments.inputs()) if is_recorded(leaf)}
    if len(operands) > _MOST_OPERANDS:
        return None
    call, tensors = RecordedCall(owner, plain, [*operands]), [*operands.values()]
    if owner._reason is None and (flow := owner._flows.of(owner, plain)) is not None:
        return (_as_number if flow.is_number else _by_flow)(call, tensors)
    family = owner._family(plain)
    if family is None or not _is_known(family):
        return None
    return _as_number(call, tensors) if _gives_number(family) else _by_run(call, family, tensors)


def short_recorded_call(owner, args: tuple) -> tuple | None:
    """The same by the fast path of a call for one number, where possible."""
    fast = owner._fast  # another thread may set it
    if fast is None and not owner._flows.found:
        return None
    if rt.trace() is not None or not rt.is_recording() or repeats([*args]):
        return None
    values = [value_of(arg) for arg in args]
    plain = tuple([x.copy("K") if isinstance(x, np.ndarray) else x for x in values])
    operands = {k: arg for k, arg in enumerate(args) if is_recorded(arg)}
    wanted = sorted({number % len(args) for number in owner._argnums}) if args else []
    if not operands or not {*wanted}.issuperset(operands):
        return None
    found = _short_gradients(owner, fast, plain, wanted)
    if found is None:
        return None
    call = RecordedCall(owner, plain, [*operands])
    value, gradients = found
    return call.record_number(value, gradients, [*operands.values()])


def _short_gradients(owner, fast: FastCall | None, args: tuple, wanted: list) -> tuple | None:
    """The value, and the gradients by argument."""
    if fast is None:
        if not all(map(is_float, args)):  # rows of numbers are of float64
            return None
        found = owner._flows.short(owner, args, gradient=True)
        if found is None or owner._single:
            return found and (found[0], {wanted[0]: found[1]})
        numbers = [number % len(args) for number in owner._argnums]
        return found[0], dict(zip(numbers, found[1], strict=True))
    found = fast.value_and_grad(args) if fast.bare and fast.is_plain else None
    if found is None:
        return None
    if fast.calls == fast.variant.patience:
        owner._make_hot(fast, args)
    return found[0], dict(zip(wanted, found[1], strict=True))


def _fits(arguments: Arguments) -> bool:
    """Whether only differentiated arguments are recorded, and those are float64."""
    if arguments.reason is not None:
        return False
    for k, tree in enumerate(arguments.trees):
        leaves = [leaf for _, leaf in tree_leaves(tree)]
        if k in arguments.wanted and not all(map(is_float, leaves)):
            return False
        if k not in arguments.wanted and any(map(is_recorded, leaves)):
            return False
    return True


def _is_known(family: Variants) -> bool:
    """Whether such arguments have occurred before: a single call would not justify a program."""
    known = bool(family.found) or family.nested
    family.nested = True
    return known


def _gives_number(family: Variants) -> bool:
    """Whether the function returns one float, as far as is known."""
    return bool(family.found) and all([variant.is_float() for variant in family.found])


def _as_number(call: RecordedCall, operands: list) -> tuple | None:
    """The result of a function that gives a number, with its gradient.

    The sweep will request that, and both together take the least time.
    """
    arguments = call.arguments
    try:
        value, gradient = arguments.call(call.owner.value_and_grad, arguments.values)
    except (
        ValueError,
        DerivativeLost,
    ):  # of another result; the function as it is gives the reason
        return None
    if call.owner._reason is not None:
        return None
    return call.record_number(value, call.by_input(gradient), operands)


def _by_flow(call: RecordedCall, operands: list) -> tuple | None:
    """The result of a function that gives several numbers, by its graph, also in reverse."""
    arguments = call.arguments
    out = arguments.call(call.owner, arguments.values)
    leaves = [leaf for _, leaf in tree_leaves(out)]
    arrays = [leaf for leaf in leaves if isinstance(leaf, np.ndarray)]
    if call.owner._reason is not None or any([one.dtype != np.float64 for one in arrays]):
        return None
    call.leaves = len(leaves)
    floats = [k for k, leaf in enumerate(leaves) if isinstance(leaf, (float, np.ndarray))]
    call.results = [(k, k, np.shape(leaves[k])) for k in floats]
    arrays = [np.array(leaves[k]) for k in floats]
    if not sum([array.size for array in arrays]):
        return None
    return (call.record(arrays, out, leaves, operands),)


def _by_run(call: RecordedCall, family: Variants, operands: list) -> tuple | None:
    """The result of a function that gives others; the run of its program waits for seeds."""
    variant, run = _begun(call.owner, family, call.arguments)
    if variant is None or run is None:
        return None
    call.run, call.program = run, run.program
    call.held = [array.copy() for array in run.program.code.held]
    run.program.hold(run, call.held)
    outputs, found = run.program.code.outputs, run.program.results(run)
    call.results = [
        (leaf, k, outputs[k].view.shape)
        for leaf, (k, _) in enumerate(variant.leaves)
        if k >= 0 and outputs[k].dtype == np.float64
    ]
    arrays = [np.array(found[k]) for _, k, _ in call.results]
    in_order = all(variant.leaves[leaf][1] is None for leaf, _, _ in call.results)
    if not in_order or not sum([array.size for array in arrays]):
        return None
    leaves = [value for _, value in tree_leaves(variant.result(found))]
    return (call.record(arrays, variant.tree, leaves, operands),)


def _begun(owner, family: Variants, arguments: Arguments) -> tuple[Variant | None, Run | None]:
    """The program whose guards hold, compared as in any call, and its run."""
    for _ in range(3):  # recorded, compared, compared with native code that has replaced it
        owner._go_on_with_trials(family, arguments.values)
        variant, run, _ = family.run(arguments.values, True)
        if variant is not None and run is not None:
            is_new = variant.trial is not None and variant.trial.is_new
            if (variant.checked or owner._verify == "never") and not is_new:
                owner._count_hit(family, variant, arguments.values)
                return variant, run
            run.program.end(run)
        try:
            arguments.call(lambda *a, **k: owner._evaluate(a, k, False), arguments.values)
        except Exception:  # a function that runs eagerly may need tensors
            if owner._reason is None:
                raise
        if owner._reason is not None:
            break
        owner._settle(family)
    return None, None


class RecordedCall:
    """A call of a compiled function, held by its row; the sweep calls it (`Sweep.run`).

    It keeps no recorded tensor: its arguments are found by the operands of the row.
    """

    run: Run | None = None  # until its reverse has used it
    program: Program | None = None
    held: Sequence[np.ndarray] = ()  # what the program has read of arrays from outside
    leaves = 0  # of the result, if a graph computes it
    gradients: list | None = None  # of the operands, if the result is one number
    #: For each recorded result its place among the leaves, its output, its shape.
    results: list[tuple[int, int, tuple]]

    def __init__(self, owner, arguments: Arguments | tuple, places: list[int]):
        self.owner, self._given, self.places = owner, arguments, places

    def __str__(self) -> str:
        return self.owner._name

    def __del__(self):
        if self.run is not None:
            self._give_back(self.run)

    def _give_back(self, run: Run) -> None:
        if len(run.program._runs) < _RUNS:
            run.program.hold(run, run.program.code.held)
            run.program.end(run)

    # --- recording ----------------------------------------------------------------------------

    @property
    def arguments(self) -> Arguments:
        """The plain arguments."""
        if isinstance(self._given, tuple):
            self._given = Arguments(self._given, {}, self.owner._argnums)
        return self._given

    def by_input(self, gradients) -> dict[int, Any]:
        """Gradients of the function, as it gives them, by the number of the input."""
        owner = self.owner
        return self.arguments.by_input(gradients, owner._argnums, owner._single)

    def record_number(self, value: float, gradients: dict, operands: list) -> tuple:
        """Append the row of a number, with its gradients by input; the tensor, in a tuple."""
        self.results = [(0, 0, ())]
        self.gradients = [gradients[k] for k in self.places]
        return (self.record([np.array(value)], 0.0, [0.0], operands),)

    def record(self, arrays: list[np.ndarray], tree, leaves: list, operands: list):
        """Append the row; the result of the function."""
        whole = arrays[0] if len(arrays) == 1 else np.concatenate([a.ravel() for a in arrays])
        row = rt.row(_ROW, whole, self, *operands)
        views = self._views(whole)
        parts = [row] if len(views) == 1 else [view_like(row, view) for view in views]
        for (leaf, _, _), part in zip(self.results, parts, strict=True):
            leaves[leaf] = scalar_of(part)
        return tree_build(tree, iter(leaves))

    def _views(self, whole: np.ndarray) -> list[np.ndarray]:
        """The parts of the row's array that the results are, one after the other."""
        if len(self.results) == 1:
            return [whole]
        sizes = [int(np.prod(shape)) for _, _, shape in self.results]
        ends = zip(np.cumsum(sizes), sizes, self.results, strict=True)
        return [whole[end - size : end].reshape(shape) for end, size, (_, _, shape) in ends]

    # --- what the graph asks ------------------------------------------------------------------

    ctx = None

    def index_of(self, base: np.ndarray, view) -> int | None:
        """The result that a view of the row's array is, None if it is another part."""
        for k, part in enumerate(self._views(base)):
            if rt.same_place(part, base if view is None else view):
                return k
        return None

    def operands(self, traversal, number: int) -> list:
        """The row and the view of each recorded input."""
        return traversal.read(number)[1:-1]

    def pass_back(self, traversal, number: int, gradients) -> list:
        """The gradients of the operands for those of the results, as operations on tensors."""
        operands = [traversal.value(number, *pair) for pair in self.operands(traversal, number)]
        parts = [0.0 if one is None else one for one in gradients]
        shapes = [shape for _, _, shape in self.results]
        seeds = [
            np.broadcast_to(part, shape) if not is_tensor(part) else part
            for part, shape in zip(parts, shapes, strict=True)
        ]
        _, back = vjp(self._called, *operands)
        return list(back(tuple(map(scalar_of, seeds))))

    # --- derivatives --------------------------------------------------------------------------

    def _called(self, *operands) -> tuple:
        """The recorded results of the function called as it is."""
        tensors = dict(zip(self.places, operands, strict=True))
        out = self.arguments.call(self.owner._entered, self.arguments.values, tensors)
        leaves = [value for _, value in tree_leaves(out)]
        return tuple([leaves[leaf] for leaf, _, _ in self.results])

    def _adjoints(self, seeds: list[np.ndarray]) -> list:
        """The adjoints of the operands from those of the results."""
        if self.gradients is None:
            adjoints = self._reversed(seeds)
        else:
            adjoints = [gradient * seeds[0] for gradient in self.gradients]
        if all([np.isfinite(one).all() for one in adjoints]):
            return adjoints
        return self._eager_adjoints(seeds)  # 0 times infinity depends on the order of products

    def _reversed(self, seeds: list[np.ndarray]) -> list:
        """The same by the program, or the graph."""
        if self.program is None:
            return self._pulled(seeds)
        run, self.run = self.run, None
        if run is None:
            run = self.program.begin()
            self.program.hold(run, self.held)
            self.program.forward(run, self.arguments.values, True)
        given = {k: seed for seed, (_, k, _) in zip(seeds, self.results, strict=True)}
        outputs = enumerate(self.program.code.outputs)
        every = [given.get(k, np.zeros(one.view.shape)) for k, one in outputs]
        found = self.program.reverse(run, every)
        self._give_back(run)
        return [found[k] for k in self.places]

    def _pulled(self, seeds: list[np.ndarray]) -> list:
        """The same by the graph; eagerly where there is none any more."""
        arguments, adjoint = self.arguments, list[Any]([0.0] * self.leaves)
        for seed, (k, _, _) in zip(seeds, self.results, strict=True):
            adjoint[k] = seed if seed.ndim else float(seed)
        found = by_graph(self.owner, arguments, vjp_of, adjoint)
        if found is None:
            return self._eager_adjoints(seeds)
        adjoints = self.by_input(found[0])
        return [adjoints[k] for k in self.places]

    def _eager_adjoints(self, seeds: list[np.ndarray]) -> list:
        held = [self.arguments.values[k] for k in self.places]
        _, back = vjp(self._called, *held)
        return [value_of(one) for one in back(tuple(map(plain, seeds)))]

    def __call__(self, sweep, number: int) -> None:
        """Pass the adjoint of the row on to its operands, in a sweep."""
        _, *operands, (_, whole) = references_of(sweep, number)
        adjoint_buffers = [sweep.adjoint_buffer(number, view) for view in self._views(whole)]
        rows = [self._adjoints([m[k, ...] for m in adjoint_buffers]) for k in range(sweep.seeds)]
        for (source, view), column in zip(operands, zip(*rows, strict=True), strict=True):
            sweep.add(source, view, np.array(column))

    def write(self, traversal, number: int, adjoint) -> None:
        """Write the adjoints of the operands as rows."""
        base = traversal.base(number)
        if not is_tensor(adjoint):
            adjoint = wrap(np.array(np.broadcast_to(adjoint, base.shape)))
        parts = [
            adjoint if rt.same_place(view, base) else seen_as(adjoint, base, view)
            for view in self._views(base)
        ]
        found = self.pass_back(traversal, number, parts)
        for (source, view), one in zip(self.operands(traversal, number), found, strict=True):
            traversal.add(source, view, one)

    def tangent(self, traversal, number: int):
        """The tangent of the row from those of its operands, an axis of directions first."""
        operands = self.operands(traversal, number)
        values = [traversal.value(number, *pair) for pair in operands]
        seeds = [traversal.tangent(*pair) for pair in operands]
        for k, value in enumerate(values):
            if seeds[k] is None:
                seeds[k] = np.zeros((traversal.directions, *np.shape(value_of(value))))
        with rt.recording():
            inputs = Inputs("jvp", values, tuple(range(len(values))))
            outs = self._called(*inputs.args)
            nested = must_record(outs, inputs) or records(*seeds)
            columns = pushed(outs, inputs, seeds, nested)
        base = traversal.base(number)
        return joined(base, list(zip(columns, self._views(base), strict=True)))
