"""Derivatives of a compiled function by its graph: Jacobians, second derivatives, products.

A rule gives the result of the eager transform of its name, or None if it must be computed without a
graph: if the call leaves the graph, if a derivative is not finite, which may depend on the order of
products, or if the graph is found to be wrong.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..._core.tensor.pytree import tree_build, tree_leaves
from ..._core.tensor.values import is_recorded, value_of
from ..._flow.reading.forms import Contents, Form, Known, Number, Tuple
from ..._transforms.gradients import hvp, jvp, vjp
from .flow_tiers import TieredGraph
from .flows import Flow
from .rounding import RoundingOfCalls, first_difference
from .signature import Arguments, structure


def jacobian_of(call: FlowCall) -> Any:
    """The Jacobian of each result by each differentiated argument."""
    form = call.flow.reading.result
    shapes = [np.shape(call.values[k]) for k in call.wanted]
    still = [np.zeros(shape) if shape else 0.0 for shape in shapes]
    rows = _by_leaf(form, [call.pulled(unit) for unit in np.eye(call.results).tolist()], still)
    if not isinstance(form, Contents) or form.what != "list":
        return _tree(form, iter([call.built(row) for row in rows]))
    if not all(isinstance(one, (Number, Known)) for one in form.items):
        raise _Elsewhere
    return call.built([np.stack(column) for column in zip(*rows, strict=True)])  # as for an array


def hessian_of(call: FlowCall) -> Any:
    """The matrix of second derivatives, in blocks by the differentiated arguments."""
    shapes = [np.shape(call.values[k]) for k in call.wanted]
    still = [np.zeros(shape) for shape in shapes]
    columns: list[list] = []  # for each input the derivatives of the gradient by its elements
    for k, shape in enumerate(shapes):
        units = np.eye(math.prod(shape)).reshape(-1, *shape)
        columns.append([call.curved([*still[:k], unit, *still[k + 1 :]]) for unit in units])
    blocks = [
        [
            _block(column, k, shapes[k] + shape)
            for column, shape in zip(columns, shapes, strict=True)
        ]
        for k in range(len(shapes))
    ]
    return call.built([call.built(row) for row in blocks])


def _block(column: list[list], k: int, shape: tuple) -> Any:
    """Derivatives of the gradient of input k, of which `column` has those by each element."""
    if not column:
        return np.zeros(shape)
    made = np.stack([row[k] for row in column], axis=-1).reshape(shape)
    return made if made.ndim else float(made)


def hvp_of(call: FlowCall, v) -> Any:
    """The Hessian by the differentiated arguments, times v."""
    return call.built(call.curved(call.tangents(v)))


def jvp_of(call: FlowCall, tangents: tuple) -> Any:
    """The value, and its derivative along tangents of all arguments."""
    values, pushed = call.pushed(call.tangents(tangents))
    form = call.flow.reading.result
    leaves = _by_leaf(form, pushed, 0.0)
    return _tree(form, iter(_by_leaf(form, values, None, every=True))), _tree(form, iter(leaves))


def vjp_of(call: FlowCall, adjoint) -> Any:
    """Adjoints of all arguments for one of the result."""
    leaves = [leaf for _, leaf in tree_leaves(adjoint)]
    places = [k for k, one in enumerate(_leaves(call.flow.reading.result)) if _is_float(one)]
    if len(leaves) != len(_leaves(call.flow.reading.result)) or any(map(np.ndim, leaves)):
        raise _Elsewhere  # which gives the error
    return call.built(call.pulled([_number(leaves[k]) for k in places]))


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
    leaves = _leaves(flow.reading.result)
    if rule in (hessian_of, hvp_of):
        return flow.is_number
    return None not in leaves and any(map(_is_float, leaves))


class _Elsewhere(Exception):
    """A derivative is computed without the graph."""


class FlowCall:
    """A call whose derivatives a graph computes; due comparisons are noted until `is_wrong`."""

    def __init__(self, owner, flow: Flow, arguments: Arguments):
        self.owner, self.flow, self.arguments = owner, flow, arguments
        self.values = arguments.values
        self.wanted = [k for k, (_, _, wanted) in enumerate(arguments.kinds) if wanted]
        #: The results of the graph that are floats; others have no derivatives.
        self.floats = [k for k, kind in enumerate(flow.primal.program.kinds) if kind == "f"]
        self.results = len(self.floats)
        self._due: list[tuple[TieredGraph, int, bool]] = []

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
        return [_tangent(value, tangent) for (_, value), (_, tangent) in pairs]

    # --- what graphs give ---------------------------------------------------------------------

    def pulled(self, adjoints: Sequence[float]) -> list:
        """Adjoints of the inputs for those of the results."""
        return self._run(self.flow.primal, (), True, self._placed(adjoints)).gradients

    def pushed(self, tangents: list) -> tuple[list, list]:
        """Results and their tangents for those of the inputs."""
        found = self._run(self.flow.tangents, tangents, False, ()).results
        return found[: -self.results], found[-self.results :]

    def curved(self, tangents: list) -> list:
        """Derivatives of the gradient along tangents."""
        return self._run(self.flow.tangents, tangents, True, (0.0, 1.0)).gradients

    def _placed(self, adjoints: Sequence[float]) -> list[float]:
        """Adjoints of all results for those of the floats among them."""
        every = [0.0] * self.flow.primal.program.most_results
        for k, adjoint in zip(self.floats, adjoints, strict=True):
            every[k] = float(adjoint)
        return every

    def _run(self, graph: TieredGraph, tangents: Sequence, gradient: bool, adjoints: Sequence):
        inputs = self.flow.inputs(self.values, tangents)
        outcome = None if graph.uselessness else graph.run(inputs, gradient, adjoints)
        if outcome is None:
            raise _Elsewhere
        found = outcome.gradients if gradient else outcome.results
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
        adjoints = rng.normal(size=self.results).tolist()
        tangents: list = [rng.normal(size=np.shape(self.values[k])) for k in self.wanted]
        tangents = [one if one.ndim else float(one) for one in tangents]
        ways: list[Callable]
        if graph is self.flow.primal:
            given, ways = adjoints, [self._pulled_again, self._pulled_eagerly]
        elif gradient:
            given, ways = tangents, [self._curved_again, self._curved_eagerly]
        else:
            given, ways = tangents, [self._pushed_again, self._pushed_eagerly]
        both = [functools.partial(way, given) for way in ways]
        rounding = RoundingOfCalls(self.values)
        found, expected = [way(self.values) for way in both]
        noises = [functools.partial(rounding.of, way) for way in both]
        pair = first_difference(found, expected, *noises)
        if pair is None:
            return False
        what = f"it gives a derivative of {pair[0]} where a call gives {pair[1]}"
        self.owner._flows.refuse(self.owner, self.flow, what)
        return True

    def _pulled_again(self, adjoints, values: list) -> list:
        inputs = self.flow.inputs(values)
        return self.flow.primal.again(inputs, True, self._placed(adjoints)).gradients

    def _pushed_again(self, tangents, values: list) -> list:
        inputs = self.flow.inputs(values, tangents)
        return self.flow.tangents.again(inputs).results[-self.results :]

    def _curved_again(self, tangents, values: list) -> list:
        inputs = self.flow.inputs(values, tangents)
        return self.flow.tangents.again(inputs, True, (0.0, 1.0)).gradients

    def _called(self, values: list, *leaves):
        """The function called as it is, with other values for the differentiated inputs."""
        tensors = dict(zip(self.wanted, leaves, strict=True))
        return self.arguments.call(self.owner._f, values, tensors)

    def _eagerly(self, values: list) -> tuple[Callable, tuple]:
        """The function of the differentiated inputs alone, and these."""
        return functools.partial(self._called, values), tuple([values[k] for k in self.wanted])

    def _pulled_eagerly(self, adjoints, values: list) -> list:
        f, held = self._eagerly(values)
        out, back = vjp(f, *held)
        given, form = iter(adjoints), self.flow.reading.result
        seeds = [next(given) if _is_float(one) else 0.0 for one in _leaves(form)]
        return list(back(tree_build(out, iter(seeds))))

    def _pushed_eagerly(self, tangents, values: list) -> list:
        f, held = self._eagerly(values)
        leaves = [leaf for _, leaf in tree_leaves(jvp(f, held, tuple(tangents))[1])]
        kinds = _leaves(self.flow.reading.result)
        return [leaf for leaf, one in zip(leaves, kinds, strict=True) if _is_float(one)]

    def _curved_eagerly(self, tangents, values: list) -> list:
        f, held = self._eagerly(values)
        return list(hvp(lambda leaves: f(*leaves))(held, tuple(tangents)))


def _tangent(value, tangent):
    """A tangent of an input as graphs take it."""
    if is_recorded(tangent):
        raise _Elsewhere
    tangent = value_of(tangent)
    if isinstance(value, float):
        return _number(tangent)
    if type(tangent) is not np.ndarray or tangent.shape != value.shape:
        raise _Elsewhere
    if tangent.dtype.kind not in "fiu":
        raise _Elsewhere
    return np.ascontiguousarray(tangent, np.float64)


def _number(given) -> float:
    given = value_of(given)
    if isinstance(given, np.ndarray) and not given.ndim:
        given = given[()]
    if isinstance(given, bool) or not isinstance(given, (int, float, np.floating, np.integer)):
        raise _Elsewhere
    return float(given)


# --- forms of results -----------------------------------------------------------------------------


def _leaves(form: Form) -> list[Form | None]:
    """The leaves of a result; None for one that has no number."""
    if isinstance(form, (Tuple, Contents)):
        return [leaf for one in form.items for leaf in _leaves(one)]
    is_number = isinstance(form, Number) or type(getattr(form, "value", None)) in (int, float)
    return [form if is_number else None]


def _is_float(form: Form | None) -> bool:
    return isinstance(form, Number) and form.kind == "f"


def _by_leaf(form: Form, numbers: Sequence, other, every: bool = False) -> list:
    """A value for each float of a result, or each number; `other` for other leaves."""
    given, found = iter(numbers), []
    for leaf in _leaves(form):
        if isinstance(leaf, Number) and (every or leaf.kind == "f"):
            found.append(next(given))
        else:
            found.append(leaf.value if every and isinstance(leaf, Known) else other)
    return found


def _tree(form: Form, leaves: Iterator) -> Any:
    """Something for each leaf of a result, in its structure."""
    if isinstance(form, Tuple):
        return tuple([_tree(one, leaves) for one in form.items])
    if isinstance(form, Contents):
        items = [_tree(one, leaves) for one in form.items]
        return items if form.what == "list" else dict(zip(form.keys, items, strict=True))
    return next(leaves)
