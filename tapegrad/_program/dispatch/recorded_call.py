"""A compiled function called inside a recording: one row, whose adjoint its program computes.

The row keeps the run of the program for the reverse sweep. Where derivatives are recorded, or
carried forwards, the function is called as it is: so they are right to any order.
"""

from __future__ import annotations

import numpy as np

from ..._core.codegen.layout import ARRAY
from ..._core.ops import python_call as _declaration
from ..._core.ops.table import TABLE
from ..._core.tensor import runtime as rt
from ..._core.tensor.copies import view_like
from ..._core.tensor.pytree import tree_build, tree_leaves
from ..._core.tensor.values import is_recorded, is_tensor, records, scalar_of, value_of, wrap
from ..._derivatives.inputs import Inputs, plain
from ..._derivatives.sweep_rules import walk_of
from ..._derivatives.view_layouts import joined, seen_as
from ..._transforms.gradients import must_record, pushed, vjp
from ..replay.parts import Run
from .signature import Arguments, is_float
from .variants import Variant, Variants

assert _declaration
_ROW = ARRAY + TABLE["function"].code
#: Runs that a program keeps for later calls: a tape of many rows gives as many back.
_RUNS = 8


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
    family = owner._family(plain)
    if family is None or not _is_known(family):
        return None
    variant, run = _begun(owner, family, plain)
    if variant is None or run is None:
        return None
    operands = {k: leaf for k, leaf in enumerate(arguments.inputs()) if is_recorded(leaf)}
    return RecordedCall(owner, plain, variant, run, [*operands]).record([*operands.values()])


def _fits(arguments: Arguments) -> bool:
    """Whether all that is recorded is differentiated, and what is differentiated is float64."""
    given = zip(arguments.inputs(), arguments.kinds, strict=True)
    return arguments.reason is None and all(
        is_float(leaf) if differentiated else not is_recorded(leaf)
        for leaf, (_, _, differentiated) in given
    )


def _is_known(family: Variants) -> bool:
    """Whether such arguments have come before: once would not be worth a program."""
    known = bool(family.found) or family.nested
    family.nested = True
    return known


def _begun(owner, family: Variants, arguments: Arguments) -> tuple[Variant | None, Run | None]:
    """The program whose guards hold, which has been compared as in any call, and its run."""
    for _ in range(3):  # recorded, compared by its value, by its gradient
        variant, run, _ = family.run(arguments.values, True)
        if variant is not None and run is not None:
            if owner._is_verified(variant):
                owner._count_hit(family, variant, arguments.values)
                return variant, run
            run.program.end(run)
        gradient = variant is not None and variant.is_number()
        arguments.call(lambda *a, g=gradient, **k: owner._evaluate(a, k, g), arguments.values)
        if owner._reason is not None:
            break
        owner._convert(family)
    return None, None


class RecordedCall:
    """One call of a compiled function, as its row holds it; the sweep calls it (`Sweep.run`).

    It keeps no recorded tensor: what it was called with is found by the operands of the row.
    """

    def __init__(self, owner, arguments: Arguments, variant: Variant, run: Run, places: list[int]):
        self.owner, self.arguments, self.variant = owner, arguments, variant
        self.run, self.program, self.places = run, run.program, places
        self.is_new = True  # the run holds what its reverse reads
        outputs = self.program.code.outputs
        #: Of each recorded result its place among the leaves, its output, its shape.
        self.results = [
            (leaf, k, outputs[k].view.shape)
            for leaf, (k, _) in enumerate(variant.leaves)
            if k >= 0 and outputs[k].dtype == np.float64
        ]

    def __str__(self) -> str:
        return self.owner._name

    def __del__(self):
        if len(self.program._runs) < _RUNS:
            self.program.end(self.run)

    # --- recording ----------------------------------------------------------------------------

    def record(self, operands: list) -> tuple | None:
        """Append the row; the result of the function, in a tuple."""
        in_order = all(self.variant.leaves[leaf][1] is None for leaf, _, _ in self.results)
        found = self.program.results(self.run)
        arrays = [np.array(found[k]) for _, k, _ in self.results]
        if not in_order or not sum([array.size for array in arrays]):
            return None
        whole = arrays[0] if len(arrays) == 1 else np.concatenate([a.ravel() for a in arrays])
        row = rt.row(_ROW, whole, self, *operands)
        views = self._views(whole)
        parts = [row] if len(views) == 1 else [view_like(row, view) for view in views]
        leaves = [value for _, value in tree_leaves(self.variant.result(found))]
        for (leaf, _, _), part in zip(self.results, parts, strict=True):
            leaves[leaf] = scalar_of(part)
        return (tree_build(self.variant.tree, iter(leaves)),)

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
        """Which result a view of the row's array is, None if it is another part."""
        for k, part in enumerate(self._views(base)):
            if rt.same_place(part, base if view is None else view):
                return k
        return None

    def operands(self, walk, number: int) -> list:
        """The row and the view of each recorded input."""
        return walk.read(number)[1:-1]

    def pass_back(self, walk, number: int, gradients) -> list:
        """The gradients of the operands for those of the results, as operations on tensors."""
        operands = [walk.value(number, *pair) for pair in self.operands(walk, number)]
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
        out = self.arguments.call(self.owner._f, self.arguments.values, tensors)
        leaves = [value for _, value in tree_leaves(out)]
        return tuple([leaves[leaf] for leaf, _, _ in self.results])

    def _adjoints(self, seeds: list[np.ndarray]) -> list:
        """The adjoints of the operands from those of the results, by the program."""
        if not self.is_new:
            self.program.forward(self.run, self.arguments.values, True)
        self.is_new = False
        given = {k: seed for seed, (_, k, _) in zip(seeds, self.results, strict=True)}
        outputs = enumerate(self.program.code.outputs)
        every = [given.get(k, np.zeros(one.view.shape)) for k, one in outputs]
        found = self.program.reverse(self.run, every)
        adjoints = [found[k] for k in self.places]
        if all([np.isfinite(one).all() for one in adjoints]):
            return adjoints
        return self._eager_adjoints(seeds)  # 0 times infinity depends on the order of products

    def _eager_adjoints(self, seeds: list[np.ndarray]) -> list:
        held = [self.arguments.values[k] for k in self.places]
        _, back = vjp(self._called, *held)
        return [value_of(one) for one in back(tuple(map(plain, seeds)))]

    def __call__(self, sweep, number: int) -> None:
        """Pass the adjoint of the row on to its operands, in a sweep."""
        walk = walk_of(sweep, number)
        mirrors = [sweep.mirror(number, view) for view in self._views(walk.base(number))]
        rows = [self._adjoints([m[k, ...] for m in mirrors]) for k in range(sweep.seeds)]
        columns = zip(*rows, strict=True)
        for (source, view), column in zip(self.operands(walk, number), columns, strict=True):
            sweep.plant(walk.tensor(source, view), np.array(column))

    def write(self, walk, number: int, adjoint) -> None:
        """Write the adjoints of the operands as rows."""
        base = walk.base(number)
        if not is_tensor(adjoint):
            adjoint = wrap(np.array(np.broadcast_to(adjoint, base.shape)))
        parts = [
            adjoint if rt.same_place(view, base) else seen_as(adjoint, base, view)
            for view in self._views(base)
        ]
        found = self.pass_back(walk, number, parts)
        for (source, view), one in zip(self.operands(walk, number), found, strict=True):
            walk.add(source, view, one)

    def tangent(self, walk, number: int):
        """The tangent of the row from those of its operands, an axis of directions first."""
        operands = self.operands(walk, number)
        values = [walk.value(number, *pair) for pair in operands]
        seeds = [walk.tangent(*pair) for pair in operands]
        for k, value in enumerate(values):
            if seeds[k] is None:
                seeds[k] = np.zeros((walk.directions, *np.shape(value_of(value))))
        with rt.recording():
            inputs = Inputs("jvp", values, tuple(range(len(values))))
            outs = self._called(*inputs.args)
            nested = must_record(outs, inputs) or records(*seeds)
            columns = pushed(outs, inputs, seeds, nested)
        base = walk.base(number)
        return joined(base, list(zip(columns, self._views(base), strict=True)))
