"""Calls of a compiled function whose branches change: by a graph with its loops and branches."""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._core.tensor.pytree import tree_build
from ..._flow.foreign_calls import Callee, entry
from ..._flow.ir.flow_graph import FLOAT
from ..._flow.passes.tangents import with_tangents
from ..._flow.program import Outcome
from ..._flow.reading.errors import Refused
from ..._flow.reading.forms import Known, Number
from ..._flow.reading.read import Given, Reading, read
from ..replay import njit_calls
from .flow_results import has_array, of_call, of_numbers, with_tangents_of
from .flow_tiers import TieredGraph
from .signature import Arguments, structure

_FLOAT64 = np.dtype(np.float64)
_DTYPES = (_FLOAT64, np.dtype(np.int64), np.dtype(np.bool_))


def key_of(arguments: Arguments, exact: bool, for_all: bool = False) -> tuple:
    """Equal for calls that one graph serves; lengths of what is not `fixed` may differ.

    The one `for_all` arguments does not say which of them are differentiated.
    """
    inputs = [
        (dtype.str, shape if shape and (is_fixed or exact) else len(shape), wanted or for_all)
        for (dtype, shape, wanted), is_fixed in _kinds(arguments)
    ]
    fixed = [(type(value), value) for is_fixed, value in arguments.static if is_fixed]
    structures = [structure(tree) for tree in arguments.trees]
    return (arguments.count, *arguments.names, *structures, *inputs, *fixed, exact)


def _kinds(arguments: Arguments) -> Iterator:
    """The kind of each input, and whether a graph is for its lengths alone."""
    return zip(arguments.kinds, arguments.fixed, strict=True)


def flow_for(f: Callable, arguments: Arguments, exact: bool, choices: dict) -> Flow:
    """The graph of a function for such arguments; Refused where there is none.

    `choices` are what other readings of the function have found, to which this one adds.
    """
    leaves: list[Given | Known] = []
    kinds = _kinds(arguments)
    for is_fixed, value in arguments.static:
        if is_fixed:
            leaves.append(Known(value))
            continue
        (dtype, shape, differentiated), has_lengths = next(kinds)
        if dtype not in _DTYPES:
            raise Refused(f"an argument has dtype {dtype}")
        lengths = tuple(shape) if has_lengths or exact else (None,) * len(shape)
        leaves.append(Given(dtype.kind, lengths, differentiated))
    values = iter(leaves)
    trees = [tree_build(tree, values) for tree in arguments.trees]
    names, inputs = arguments.names, [one for one in leaves if isinstance(one, Given)]
    while f in _stands_for:
        f, trees, names = _stands_for[f](trees, names)
    if isinstance(f, functools.partial):
        trees, names = with_bound(f, trees, names)
        f = f.func
    return Flow(read(f, trees, names, inputs, choices), arguments, exact)


def with_bound(partial: functools.partial, trees: list, names: list[str]) -> tuple[list, list[str]]:
    """The arguments of a partial's function, as graphs are read of it, and names of the last."""
    if not all(isinstance(one, _FIXED) for one in (*partial.args, *partial.keywords.values())):
        raise Refused("a functools.partial holds more than numbers; pass the rest as arguments")
    count = len(trees) - len(names)
    named = {name: Known(one) for name, one in partial.keywords.items()}
    named.update(zip(names, trees[count:], strict=True))
    return [*map(Known, partial.args), *trees[:count], *named.values()], [*named]


#: Arguments of a functools.partial that graphs may take for constants.
_FIXED = (bool, int, float, str, type(None), types.FunctionType)
#: Functions of this package that call the user's with the same arguments in another order: for
#: trees, and the names of the last ones, the user's function and those of its arguments.
_stands_for: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def stand_for(f: Callable, arranged: Callable[[list, list[str]], tuple]) -> None:
    """Let graphs of a function be those of the user's that it calls."""
    _stands_for[f] = arranged


def is_readable(f) -> bool:
    """Whether a function is the user's, or a wrapper of it, and no transform of it."""
    if isinstance(f, functools.partial):
        f = f.func
    is_ours = str(getattr(f, "__globals__", {}).get("__name__")).startswith("tapegrad.")
    return isinstance(f, types.FunctionType) and (not is_ours or f in _stands_for)


class Evaluated(NamedTuple):
    """The result of a call, the gradients of its differentiated inputs, and its edges."""

    value: Any
    gradients: list
    taken: int


class Flow:
    """A graph of a function and that of its tangents, and the access of calls to them."""

    def __init__(self, reading: Reading, arguments: Arguments, exact: bool):
        self.reading = reading
        self.form = form = reading.result
        read = functools.partial(of_call, form) if has_array(form) else None
        self.primal = TieredGraph(reading.graph, read)
        self._tangents: TieredGraph | None = None
        self.hidden = reading.hidden
        self._hidden_shapes = [array.shape for array in reading.hidden]
        bare = not arguments.names and not any(fixed for fixed, _ in arguments.static)
        in_order = not any(arguments.orders)
        of_floats = all(dtype == _FLOAT64 for dtype, _, _ in arguments.kinds)
        plain = [structure(tree) is None for tree in arguments.trees]
        #: For each argument its number of dimensions and, if they are fixed, its lengths.
        self.shapes: list[tuple[int, tuple | None]] | None = None
        if bare and in_order and of_floats and all(plain):
            self.shapes = [
                (len(shape), shape if is_fixed or exact else None)
                for (_, shape, _), is_fixed in _kinds(arguments)
            ]
        self.is_number = isinstance(form, Number) and form.kind == FLOAT

    @property
    def tangents(self) -> TieredGraph:
        """The graph of results and their derivatives along tangents of arguments."""
        if self._tangents is None:
            graph = self.primal.program.graph
            which = [k for k, one in enumerate(graph.inputs) if one.differentiated]
            read = functools.partial(with_tangents_of, self.form)
            self._tangents = TieredGraph(with_tangents(graph, which), read)
        return self._tangents

    @property
    def tiers(self) -> list[TieredGraph]:
        """The graphs that there are."""
        return [self.primal] + ([] if self._tangents is None else [self._tangents])

    @property
    def is_like(self) -> bool:
        """Whether values read outside of the arguments are unchanged."""
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
        """Arguments as inputs, if they are floats and arrays that fit."""
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

    def inputs(self, values: list, tangents: Sequence = ()) -> list:
        """The inputs of its graph for those of a call; with tangents those of the other."""
        return [*values, *self.hidden, *tangents]

    def run(self, values: list, gradient: bool) -> Evaluated | None:
        """The result of a call; None if it left the graph."""
        if gradient and not self.is_number:
            return None
        outcome = self.primal.run(self.inputs(values), gradient)
        if outcome is None:
            return None
        return Evaluated(self._result(outcome), outcome.gradients, outcome.taken)

    def again(self, values: list, gradient: bool) -> tuple[Any, list]:
        """The result of `run`, at inputs that are no call's: nothing is counted."""
        outcome = self.primal.again(self.inputs(values), gradient)
        return self._result(outcome), outcome.gradients

    @property
    def is_plain(self) -> bool:
        """Whether it takes floats and arrays in C order alone, and gives one float."""
        return self.is_number and self.shapes is not None

    def timed(self, values: list) -> tuple[float, float]:
        """Seconds forward and in reverse, at inputs that are no call's: nothing is counted."""
        return self.primal.program.timed(self.inputs(values))

    def jitted(self):
        """(value, value_and_grad) for Numba code, which keep the graph; its result is a float."""
        program, shapes = self.primal.program, self.shapes
        callee = Callee(program, self.hidden)
        given = zip(shapes, program.graph.inputs, strict=False)  # hidden inputs are the last
        arguments = [njit_calls.Argument(*of, one.differentiated) for of, one in given]
        refuse = njit_calls.refuse_of_graph({k: program.why(k) for k in program.reason_numbers()})
        made = njit_calls.functions(entry(), callee.address, arguments, refuse, lengths=True)
        for function in made:
            function.graph = callee
        return made

    def _result(self, outcome: Outcome):
        if self.is_number:
            return outcome.results[0]
        if self.primal.program.read is not None:
            return outcome.results
        return of_numbers(self.form, outcome.results)


def _is_plain(array: np.ndarray) -> bool:
    """Whether the words of an array have the layout that graphs read."""
    return array.dtype == _FLOAT64 and array.flags.c_contiguous
