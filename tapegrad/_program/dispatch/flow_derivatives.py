"""Derivatives of a compiled function by its graph: Jacobians, second derivatives, products.

A rule gives the result of the eager transform of its name, or None if it must be computed without a
graph: if the call leaves the graph, if a derivative is not finite, which may depend on the order of
products, or if the graph is found to be wrong.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core.remembered import remembered
from ..._core.tensor.pytree import tree_build, tree_leaves
from ..._core.tensor.values import is_recorded, value_of
from ..._flow.program import Adjoints
from ..._flow.reading.forms import Contents, Form, Known, Number
from ..._transforms.derivative_products import hvp, jvp, vjp
from ..ir.steps import DOUBLE
from .flows import Flow, TieredGraph, has_array, is_float, leaves_of, seeded, tree_of
from .rounding import RoundingOfCalls, first_difference
from .signature import Arguments, structure
from .variants import shown


def jacobian_of(call: FlowCall) -> Any:
    """The Jacobian of each result by each differentiated argument."""
    form = call.flow.form
    still = call.flow.rounded([np.zeros(shape) if shape else 0.0 for shape in call.input_shapes])
    of_list = isinstance(form, Contents) and form.what == "list"
    if of_list and not all(isinstance(one, (Number, Known)) for one in form.items):  # type: ignore[attr-defined]
        raise _Elsewhere
    is_tall = _size(call.result_shapes) > _size(call.input_shapes)
    rows = _by_leaf(form, (_columns if is_tall else _rows)(call), still)
    if of_list:
        return call.built(
            [np.stack(column) for column in zip(*rows, strict=True)]
        )  # as for an array
    return tree_of(form, iter([call.built(row) for row in rows]))


def _rows(call: FlowCall) -> list[list]:
    """Derivatives of each result by each input, one adjoint sweep for each element of results."""
    units = _units(call.result_shapes)
    found = [[call.pulled(unit) for unit in of_one] for of_one in units]
    return [
        [
            call.joined([row[j] for row in rows], 0, shape, to)
            for j, to in enumerate(call.input_shapes)
        ]
        for rows, shape in zip(found, call.result_shapes, strict=True)
    ]


def _columns(call: FlowCall) -> list[list]:
    """The same, one call with tangents for each element of inputs."""
    found = [[call.pushed(unit)[1] for unit in of_one] for of_one in _units(call.input_shapes)]
    return [
        [
            call.joined([column[k] for column in columns], -1, shape, to)
            for columns, to in zip(found, call.input_shapes, strict=True)
        ]
        for k, shape in enumerate(call.result_shapes)
    ]


def _size(shapes: list[tuple]) -> int:
    return sum(map(math.prod, shapes))


def _units(shapes: list[tuple]) -> list[list[list]]:
    """For each shape the unit vectors of all of these, one for each of its elements."""
    still = [np.zeros(shape) if shape else 0.0 for shape in shapes]
    found = []
    for k, shape in enumerate(shapes):
        size = math.prod(shape)
        units = np.eye(size).reshape(size, *shape) if shape else [1.0]
        found.append([[*still[:k], unit, *still[k + 1 :]] for unit in units])
    return found


def hessian_of(call: FlowCall) -> Any:
    """The matrix of second derivatives, in blocks by the differentiated arguments."""
    shapes = call.input_shapes
    found = [[call.curved(unit) for unit in of_one] for of_one in _units(shapes)]
    blocks = [
        [
            call.joined([row[k] for row in columns], -1, shape, to)
            for columns, to in zip(found, shapes, strict=True)
        ]
        for k, shape in enumerate(shapes)
    ]
    return call.built([call.built(row) for row in blocks])


def hvp_of(call: FlowCall, v) -> Any:
    """The Hessian by the differentiated arguments, times v."""
    return call.built(call.curved(call.tangents(v)))


def jvp_of(call: FlowCall, tangents: tuple) -> Any:
    """The value, and its derivative along tangents of all arguments."""
    value, pushed = call.pushed(call.tangents(tangents))
    form = call.flow.form
    return value, tree_of(form, iter(_by_leaf(form, pushed, 0.0)))


def vjp_of(call: FlowCall, adjoint) -> Any:
    """Adjoints of all arguments for one of the result."""
    given, leaves = tree_leaves(adjoint), leaves_of(call.flow.form)
    if len(given) != len(leaves):
        raise _Elsewhere  # which gives the error
    pairs = zip(given, leaves, strict=True)
    adjoints = [one for (_, one), leaf in pairs if is_float(leaf)]
    of_floats = zip(adjoints, call.result_shapes, strict=True)
    return call.built(call.pulled([call.like(shape, one) for one, shape in of_floats]))


def by_graph(owner, arguments: Arguments, rule: Callable, *given) -> tuple | None:
    """A rule applied to a call of a function, as a tuple; None if it does not apply to graphs."""
    flow = owner._flows.graph(owner, arguments)
    if flow is None or not arguments.values or not _has_derivatives(flow, rule):
        return None
    call = FlowCall(owner, flow, arguments)
    try:
        found = rule(call, *given)
    except _Elsewhere:
        return None
    return None if call.is_wrong() else (found,)


def _has_derivatives(flow: Flow, rule: Callable) -> bool:
    leaves = leaves_of(flow.form)
    if rule in (hessian_of, hvp_of):
        return flow.is_number
    return None not in leaves and any(map(is_float, leaves))


class _Elsewhere(Exception):
    """A derivative is computed without the graph."""


class FlowCall:
    """A call whose derivatives a graph computes; due comparisons are noted until `is_wrong`."""

    def __init__(self, owner, flow: Flow, arguments: Arguments):
        self.owner, self.flow, self.arguments = owner, flow, arguments
        self.values = arguments.values
        self.wanted = [k for k, (_, _, wanted) in enumerate(arguments.kinds) if wanted]
        self.input_shapes = [np.shape(self.values[k]) for k in self.wanted]
        self._due: list[tuple[TieredGraph, int, bool]] = []

    @remembered
    def result_shapes(self) -> list[tuple]:
        """Those of the leaves of the result that have derivatives."""
        form = self.flow.form
        if not has_array(form):
            return [() for leaf in leaves_of(form) if is_float(leaf)]
        found = tree_leaves(self._run(self.flow.primal, (), False, ()).results)
        pairs = zip(found, leaves_of(form), strict=True)
        return [np.shape(value) for (_, value), leaf in pairs if is_float(leaf)]

    def built(self, leaves: Sequence) -> Any:
        """Something for each differentiated input, in the structure of the arguments."""
        owner = self.owner
        return self.arguments.in_structure(list(leaves), owner._argnums, owner._single)

    def tangents(self, given) -> list:
        """Tangents of the differentiated inputs, given in the structure of the arguments."""
        every = self.arguments.in_structure(
            [self.values[k] for k in self.wanted], self.owner._argnums, self.owner._single
        )
        if structure(every) != structure(given):
            raise _Elsewhere
        pairs = zip(tree_leaves(every), tree_leaves(given), strict=True)
        return [self.like(np.shape(value), tangent) for (_, value), (_, tangent) in pairs]

    def like(self, shape: tuple, tangent) -> Any:
        """A tangent of an input, or an adjoint of a result, as graphs take it."""
        if is_recorded(tangent):
            raise _Elsewhere
        tangent = value_of(tangent)
        if not shape:
            return _number(tangent)
        if type(tangent) is not np.ndarray or tangent.shape != shape:
            raise _Elsewhere
        if tangent.dtype.kind not in "fiu":
            raise _Elsewhere
        if self.flow.dtype != DOUBLE and tangent.dtype != self.flow.dtype:
            raise _Elsewhere
        return np.ascontiguousarray(tangent, np.float64)

    def joined(self, parts: list, axis: int, shape: tuple, to: tuple) -> Any:
        """Derivatives of a result of a shape by an input of another, from those of elements."""
        made = np.stack(parts, axis) if parts else np.zeros(shape + to)
        return shown(made.reshape(shape + to).astype(self.flow.dtype, copy=False))

    # --- what graphs give ---------------------------------------------------------------------

    def pulled(self, adjoints: Sequence) -> list:
        """Adjoints of the inputs for those of the results."""
        outcome = self._run(self.flow.primal, (), True, seeded(self.flow.form, adjoints))
        return self.flow.rounded(outcome.gradients)

    def pushed(self, tangents: list) -> tuple[Any, list]:
        """The result, and tangents of its leaves for those of the inputs."""
        value, pushed = self._run(self.flow.tangents, tangents, False, ()).results
        return value, self.flow.rounded(pushed)

    def curved(self, tangents: list) -> list:
        """Derivatives of the gradient along tangents."""
        outcome = self._run(self.flow.tangents, tangents, True, (0.0, 1.0))
        return self.flow.rounded(outcome.gradients)

    def _run(self, graph: TieredGraph, tangents: Sequence, gradient: bool, adjoints: Adjoints):
        inputs = self.flow.inputs(self.values, tangents)
        outcome = None if graph.uselessness else graph.run(inputs, gradient, adjoints)
        if outcome is None:
            raise _Elsewhere
        leaves = [leaf for _, leaf in tree_leaves(outcome.results)]
        found = outcome.gradients if gradient else leaves
        if not all([np.isfinite(one).all() for one in found]):
            raise _Elsewhere
        self.owner._flows.count(self.owner, graph, inputs)
        verify = self.owner._verify
        if verify == "always" or (verify == "once" and graph.is_due(outcome.taken, gradient)):
            self._due.append((graph, outcome.taken, gradient))
        return outcome

    # --- comparisons --------------------------------------------------------------------------

    def is_wrong(self) -> bool:
        """Make due comparisons with the function along random directions; a wrong graph is dropped.

        Derivatives are linear in directions, so that a random one is representative of all.
        """
        done = set()
        for graph, taken, gradient in self._due:
            if (id(graph), gradient) not in done and self._differs(graph, gradient):
                return True
            done.add((id(graph), gradient))
            graph.note_compared(taken, gradient)
        return False

    def _differs(self, graph: TieredGraph, gradient: bool) -> bool:
        rng = np.random.default_rng(len(self._due))
        adjoints, tangents = [
            self.flow.rounded([rng.normal(size=shape) for shape in shapes])
            for shapes in (self.result_shapes, self.input_shapes)
        ]
        ways: list[Callable]
        if graph is self.flow.primal:
            given, ways = adjoints, [self._pulled_again, self._pulled_eagerly]
        elif gradient:
            given, ways = tangents, [self._curved_again, self._curved_eagerly]
        else:
            given, ways = tangents, [self._pushed_again, self._pushed_eagerly]
        both = [functools.partial(way, given) for way in ways]
        rounding = RoundingOfCalls(self.values, self.flow.dtype)
        found, expected = [way(self.values) for way in both]
        noises = [functools.partial(rounding.of, way, way is both[0]) for way in both]
        pair = first_difference(found, expected, *noises, dtype=self.flow.dtype)
        if pair is None:
            return False
        what = f"it gives a derivative of {pair[0]} where a call gives {pair[1]}"
        self.owner._flows.refuse(self.owner, self.flow, what)
        return True

    def _pulled_again(self, adjoints, values: list) -> list:
        inputs = self.flow.inputs(values)
        return self.flow.primal.again(inputs, True, seeded(self.flow.form, adjoints)).gradients

    def _pushed_again(self, tangents, values: list) -> list:
        inputs = self.flow.inputs(values, tangents)
        return self.flow.tangents.again(inputs).results[1]

    def _curved_again(self, tangents, values: list) -> list:
        inputs = self.flow.inputs(values, tangents)
        return self.flow.tangents.again(inputs, True, (0.0, 1.0)).gradients

    def _called(self, values: list, *leaves):
        """The function called as it is, with other values for the differentiated inputs."""
        tensors = dict(zip(self.wanted, leaves, strict=True))
        return self.arguments.call(self.owner._entered, values, tensors)

    def _eagerly(self, values: list) -> tuple[Callable, tuple]:
        """The function of the differentiated inputs alone, and these."""
        return functools.partial(self._called, values), tuple([values[k] for k in self.wanted])

    def _pulled_eagerly(self, adjoints, values: list) -> list:
        f, held = self._eagerly(values)
        out, back = vjp(f, *held)
        return list(back(tree_build(out, iter(_by_leaf(self.flow.form, adjoints, 0.0)))))

    def _pushed_eagerly(self, tangents, values: list) -> list:
        f, held = self._eagerly(values)
        leaves = [leaf for _, leaf in tree_leaves(jvp(f, held, tuple(tangents))[1])]
        kinds = leaves_of(self.flow.form)
        return [leaf for leaf, one in zip(leaves, kinds, strict=True) if is_float(one)]

    def _curved_eagerly(self, tangents, values: list) -> list:
        f, held = self._eagerly(values)
        return list(hvp(lambda leaves: f(*leaves))(held, tuple(tangents)))


def _number(given) -> float:
    given = value_of(given)
    if isinstance(given, np.ndarray) and not given.ndim:
        given = given[()]
    if isinstance(given, bool) or not isinstance(given, (int, float, np.floating, np.integer)):
        raise _Elsewhere
    return float(given)


def _by_leaf(form: Form, given: Sequence, other) -> list:
    """What is given for each leaf of a result that has a derivative; `other` for other leaves."""
    found = iter(given)
    return [next(found) if is_float(leaf) else other for leaf in leaves_of(form)]
