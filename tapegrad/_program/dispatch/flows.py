"""Calls of a compiled function whose branches change: by a graph with its loops and branches."""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._core.codegen.late_imports import Later
from ..._core.tensor.dependencies import Checked, Dependencies
from ..._core.tensor.pytree import repeats
from ..._derivatives.inputs import plain
from ..._entering.numba_functions import followed
from ..._flow.foreign_calls import Callee, entry
from ..._flow.ir.frame import FINISHED
from ..._flow.passes.simplify import simplified
from ..._flow.passes.tangents import with_tangents
from ..._flow.program import OWN, Limits, Outcome
from ..._flow.reading import kept_readings
from ..._flow.reading.calls import held_by_partial
from ..._flow.reading.errors import Refused
from ..._flow.reading.forms import FLOATS, SINGLE, Known, Number
from ..._flow.reading.read import Given, Outside, Reading, read
from ..ir.steps import DOUBLE
from .flow_results import has_array, of_call, of_numbers, with_tangents_of
from .flow_tiers import TieredGraph
from .rounding import first_difference
from .signature import Arguments

#: Made of Numba, which is imported with the first of them.
njit_calls: Any = Later("tapegrad._program.replay.njit_calls")
_FLOAT32 = np.dtype(np.float32)
_DTYPES = (DOUBLE, _FLOAT32, np.dtype(np.int64), np.dtype(np.bool_))


def key_of(arguments: Arguments, exact: bool) -> tuple:
    """Equal for calls that one graph serves: a description of plain objects.

    The number of positional arguments and the names of others, then for each argument its structure
    and leaves: (dtype, lengths, whether it is differentiated) of an input, where None is a length
    that may differ, or (type, value).
    """
    fixed = iter(arguments.fixed)

    def leaf(found: tuple) -> tuple:
        if len(found) == 2:
            return found
        dtype, shape, differentiated, _ = found
        has_lengths = next(fixed) or exact
        return dtype, tuple(shape) if has_lengths else (None,) * len(shape), differentiated

    count, *rest = arguments.key
    names, parts = rest[: len(arguments.names)], rest[len(arguments.names) :]
    return (count, *names, *[(made, *map(leaf, leaves)) for made, *leaves in parts])


def regardless_of_argnums(key: tuple) -> tuple:
    """A key that says of all inputs that they are differentiated."""

    def every(part):
        if type(part) is not tuple:
            return part
        made, *leaves = part
        return made, *[(*leaf[:2], True) if len(leaf) == 3 else leaf for leaf in leaves]

    return key[0], *map(every, key[1:])


def inputs_of(key: tuple) -> list[tuple]:
    """Of each input of the calls that a graph serves: dtype, lengths, whether differentiated."""
    parts = [part for part in key[1:] if type(part) is not str]
    return [leaf for part in parts for leaf in part[1:] if len(leaf) == 3]


def dtype_of(key: tuple) -> np.dtype:
    """That of the floats of the calls that a graph serves."""
    is_single = any(dtype == _FLOAT32.str for dtype, _, _ in inputs_of(key))
    return _FLOAT32 if is_single else DOUBLE


def flow_for(f: Callable, arguments: Arguments, exact: bool, choices: dict) -> Flow:
    """The graph of a function for such arguments; Refused where there is none.

    `choices` are what other readings of the function have found, to which this one adds.
    """
    leaves: list[Given | Known] = []
    given, key = f, key_of(arguments, exact)
    kinds = iter(inputs_of(key))
    for is_fixed, value in arguments.static:
        if is_fixed:
            leaves.append(Known(value))
            continue
        name, lengths, differentiated = next(kinds)
        dtype = np.dtype(name)
        if dtype not in _DTYPES:
            raise Refused(f"an argument has dtype {dtype}")
        kind = SINGLE if dtype == _FLOAT32 else dtype.kind
        leaves.append(Given(kind, lengths, differentiated))
    if arguments.same and any(made is not None for made, *_ in key[1 + len(arguments.names) :]):
        raise Refused("it is given one container, or an array in it, more than once; pass copies")
    trees = arguments.built(leaves)
    names, inputs = arguments.names, [one for one in leaves if isinstance(one, Given)]
    held: list[Checked] = []
    while f in _stands_for:
        f, trees, names = _stands_for[f](trees, names, held)
    if isinstance(f, functools.partial):
        trees, names = with_bound(f, trees, names, held)
        f = f.func
    f = followed(f)
    try:
        reading = read(f, trees, names, inputs, choices)
    except Refused as error:
        if f is given:
            kept_readings.keep_refusal(f, key, error)
        raise
    reading.dependencies += held
    simplified(reading.graph)
    if f is given:
        kept_readings.keep(f, key, reading)
    return Flow(reading, key)


def known_flow(f: Callable, arguments: Arguments, exact: bool) -> Flow | None:
    """The graph of a function for such arguments, if its code was read before, or Refused."""
    key = key_of(arguments, exact)
    reading = kept_readings.kept(f, key) if isinstance(f, types.FunctionType) else None
    return None if reading is None else Flow(reading, key)


def with_bound(
    partial: functools.partial, trees: list, names: list[str], held: list[Checked]
) -> tuple[list, list[str]]:
    """The arguments of a partial's function, as graphs are read of it, and names of the last.

    What the partial holds is added to `held`.
    """
    held += held_by_partial(partial)
    count = len(trees) - len(names)
    named = {name: Outside(one) for name, one in partial.keywords.items()}
    named.update(zip(names, trees[count:], strict=True))
    return [*map(Outside, partial.args), *trees[:count], *named.values()], [*named]


#: Functions of this package that call the user's with the same arguments in another order: for
#: trees, and the names of the last ones, the user's function and those of its arguments; what else
#: they read is added to a list.
_stands_for: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def stand_for(f: Callable, arranged: Callable[[list, list[str], list[Checked]], tuple]) -> None:
    """Let graphs of a function be those of the user's that it calls."""
    _stands_for[f] = arranged


def is_readable(f) -> bool:
    """Whether a function is the user's, or a wrapper of it, and no transform of it."""
    if isinstance(f, functools.partial):
        f = f.func
    f = followed(f)
    is_ours = str(getattr(f, "__globals__", {}).get("__name__")).startswith("tapegrad.")
    return isinstance(f, types.FunctionType) and (not is_ours or f in _stands_for)


class Evaluated(NamedTuple):
    """The result of a call, the gradients of its differentiated inputs, and its edges."""

    value: Any
    gradients: list
    taken: int


class Flow:
    """A graph of a function and that of its tangents, and the access of calls to them.

    `dtype` is that of all its floats.
    """

    def __init__(self, reading: Reading, key: tuple, limits: Limits = OWN):
        self.reading, self.key = reading, key
        self.form = form = reading.result
        self.limits = limits
        self.dtype = dtype_of(key)
        read = functools.partial(of_call, form) if has_array(form) else None
        evaluators = reading.shared.evaluators
        known = evaluators.get(limits.are_checked)
        self.primal = TieredGraph(reading.graph, read, self.limits, self.dtype, known)
        evaluators[limits.are_checked] = self.primal.program.functions
        self._tangents: TieredGraph | None = None
        self.hidden = reading.hidden
        self.names = Dependencies(reading.dependencies)
        self._hidden_kinds = [(array.shape, array.dtype) for array in reading.hidden]
        self.shapes = _shapes(key, self.dtype)
        self._arrays = sum([ndim > 0 for ndim, _ in self.shapes or ()])
        self.is_number = isinstance(form, Number) and form.kind in FLOATS

    @property
    def tangents(self) -> TieredGraph:
        """The graph of results and their derivatives along tangents of arguments."""
        if self._tangents is None:
            graph = self.primal.program.graph
            which = [k for k, one in enumerate(graph.inputs) if one.differentiated]
            read = functools.partial(with_tangents_of, self.form)
            made = with_tangents(graph, which)
            if not self.limits.are_checked:  # the passes take time to settle any graph there can be
                simplified(made)
            self._tangents = TieredGraph(made, read, self.limits, self.dtype)
        return self._tangents

    @property
    def tiers(self) -> list[TieredGraph]:
        """The graphs that there are."""
        return [self.primal] + ([] if self._tangents is None else [self._tangents])

    @property
    def is_like(self) -> bool:
        """Whether values read outside of the arguments are unchanged."""
        if not self.names.unchanged():
            return False
        pairs = zip(self.hidden, self._hidden_kinds, strict=True)
        return all((array.shape, array.dtype) == kind for array, kind in pairs)

    def _is_plain(self, array: np.ndarray) -> bool:
        """Whether an array is one that graphs read."""
        return array.dtype == self.dtype and array.flags.c_contiguous

    def values(self, args: tuple) -> list | None:
        """Arguments as inputs, if they are floats and arrays that fit."""
        if self.shapes is None or len(args) != len(self.shapes):
            return None
        number = float if self.dtype == DOUBLE else np.float32
        for arg, (ndim, shape) in zip(args, self.shapes, strict=True):
            if type(arg) is number:
                if ndim:
                    return None
            elif (
                type(arg) is not np.ndarray
                or arg.ndim != ndim
                or not ndim
                or not self._is_plain(arg)
                or (shape is not None and arg.shape != shape)
            ):
                return None
        return None if self._arrays > 1 and repeats(args) else [*args]

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
        result = self._result(outcome, gradient)
        return Evaluated(result, self._gradients(outcome), outcome.taken)

    def compare(self, values: list, expected: tuple | None) -> str:
        """Compare with what an earlier call gave, if that is known; why it leaves, if it does.

        If it is the same, its edges are compared.
        """
        gradient = expected is not None and expected[1] is not None
        outcome = self.primal.program.run(self.inputs(values), gradient)
        if outcome.status == FINISHED and expected is not None:
            found = self._result(outcome, gradient), self._gradients(outcome) if gradient else None
            if first_difference(found, expected, dtype=self.dtype) is None:
                self.primal.note_compared(outcome.taken, gradient)
        return outcome.reason

    def again(self, values: list, gradient: bool) -> tuple[Any, list]:
        """The result of `run`, at inputs that are no call's: nothing is counted."""
        outcome = self.primal.again(self.inputs(values), gradient)
        return self._result(outcome, gradient), self._gradients(outcome)

    def rounded(self, derivatives: list) -> list:
        """Derivatives as a graph computes them, in the dtype of the inputs."""
        if self.dtype == DOUBLE:
            return derivatives
        with np.errstate(over="ignore"):
            return [np.asarray(one, self.dtype)[()] for one in derivatives]

    def _gradients(self, outcome: Outcome) -> list:
        """Those of a call; a derivative by a number is a Python float, as in eager calls."""
        if self.dtype == DOUBLE:
            return outcome.gradients
        return list(map(plain, self.rounded(outcome.gradients)))

    @property
    def is_plain(self) -> bool:
        """Whether it takes floats and arrays in C order alone, of float64, and gives one float."""
        return self.is_number and self.shapes is not None and self.dtype == DOUBLE

    def timed(self, values: list) -> tuple[float, float]:
        """Seconds forward and in reverse, at inputs that are no call's: nothing is counted."""
        return self.primal.program.timed(self.inputs(values))

    def jitted(self):
        """(value, value_and_grad) for Numba code, which keep the graph; its result is a float."""
        program, shapes = self.primal.program, self.shapes
        callee = Callee(program, [np.asarray(array, float, order="C") for array in self.hidden])
        given = zip(shapes, program.graph.inputs, strict=False)  # hidden inputs are the last
        arguments = [njit_calls.Argument(*of, one.differentiated) for of, one in given]
        refuse = njit_calls.refuse_of_graph({k: program.why(k) for k in program.reason_numbers()})
        made = njit_calls.functions(entry(), callee.address, arguments, refuse, lengths=True)
        for function in made:
            function.graph = callee
        return made

    def _result(self, outcome: Outcome, gradient: bool):
        if self.is_number and (gradient or self.dtype == DOUBLE):
            return outcome.results[0]
        if self.primal.program.read is not None:
            return outcome.results
        return of_numbers(self.form, outcome.results)


def _shapes(key: tuple, float_dtype: np.dtype) -> list[tuple[int, tuple | None]] | None:
    """For each argument its number of dimensions and, if they are fixed, its lengths.

    None unless all of them are floats, or arrays of floats, each another one, without names.
    """
    found: list[tuple[int, tuple | None]] = []
    if type(key[0]) is tuple:  # of one array given more than once
        return None
    for part in key[1:]:
        if type(part) is str or part[0] is not None or len(part) != 2 or len(part[1]) != 3:
            return None
        dtype, lengths, _ = part[1]
        if dtype != float_dtype.str:
            return None
        found.append((len(lengths), None if None in lengths else lengths))
    return found
