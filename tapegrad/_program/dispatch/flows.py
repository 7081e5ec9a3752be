"""Graphs of a compiled function: their evaluators, and the access of calls to them."""

from __future__ import annotations

import functools
import time
import types
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._core.codegen.process import Later
from ..._core.tensor.dependencies import Checked, Dependencies
from ..._core.tensor.pytree import repeats
from ..._derivatives.inputs import plain
from ..._entering.stand_ins import followed
from ..._flow.foreign_calls import Callee, entry, evaluate_rows
from ..._flow.ir.flow_graph import Graph
from ..._flow.ir.frame import FINISHED
from ..._flow.kinds.step_kinds import FLOAT, INT
from ..._flow.native.flow_functions import compiled
from ..._flow.passes.simplify import simplified
from ..._flow.passes.tangents import with_tangents
from ..._flow.program import OWN, Adjoints, FlowProgram, Functions, GraphCall, Limits, Outcome
from ..._flow.reading import readings
from ..._flow.reading.calls import held_by_partial
from ..._flow.reading.forms import (
    FLOATS,
    SINGLE,
    Array,
    Contents,
    Form,
    Known,
    Number,
    Refused,
    Tuple,
    described,
    numbers,
)
from ..._flow.reading.readings import GivenInput, Outside, Reading, read
from ..ir.steps import DOUBLE
from .life import Life, State
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
    leaves: list[GivenInput | Known] = []
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
        leaves.append(GivenInput(kind, lengths, differentiated))
    if arguments.same and any(made is not None for made, *_ in key[1 + len(arguments.names) :]):
        raise Refused("it is given one container, or an array in it, more than once; pass copies")
    trees = arguments.built(leaves)
    names, inputs = arguments.names, [one for one in leaves if isinstance(one, GivenInput)]
    held: list[Checked] = []
    while isinstance(f, functools.partial) or f in _stands_for:
        if isinstance(f, functools.partial):
            trees, names = with_bound(f, trees, names, held)
            f = f.func
        else:
            f, trees, names = _stands_for[f](trees, names, held)
    f = followed(f)
    try:
        reading = read(f, trees, names, inputs, choices)
    except Refused as error:
        if f is given:
            readings.keep_refusal(f, key, error)
        raise
    reading.dependencies += held
    simplified(reading.graph)
    if f is given:
        readings.keep(f, key, reading)
    return Flow(reading, key)


def known_flow(f: Callable, arguments: Arguments, exact: bool) -> Flow | None:
    """The graph of a function for such arguments, if its code was read before, or Refused."""
    key = key_of(arguments, exact)
    reading = readings.kept(f, key) if isinstance(f, types.FunctionType) else None
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


# --- a graph that runs: interpreted first, as native code later; which edges have been compared ---


#: Seconds of interpreting after which a graph gets native code.
PATIENCE = 0.05
#: One call in this number is compared with the function; of this number of calls half may leave.
SAMPLED, MANY = 1000, 32


class TieredGraph:
    """A graph, its evaluator, and counts of its calls; its floats are of `dtype`.

    `functions` are those of its interpreter, if there are some.

    `calls` counts its calls, `reasons` why some of them had to leave it. A graph whose addresses
    are checked stays interpreted.
    """

    def __init__(
        self,
        graph: Graph,
        read: Callable[[GraphCall], Any] | None,
        limits: Limits,
        dtype: np.dtype = DOUBLE,
        functions: Functions | None = None,
    ):
        self.dtype = dtype
        self.program = FlowProgram(graph, functions, limits=limits, read=read)
        self.calls = 0
        self.reasons: Counter[str] = Counter()
        self.seconds = 0.0
        self.life = Life(State.CHECKED if limits.are_checked else State.INTERPRETED)
        self._taken = 0  # the edges that calls took
        self._compared = [0, 0]  # edges along which values, and adjoints, were compared

    def run(
        self, inputs: Sequence, gradient: bool = False, adjoints: Adjoints = (1.0,)
    ) -> Outcome | None:
        """Results, and adjoints of the differentiated inputs; None where the call left."""
        self.calls += 1
        start = time.perf_counter()
        outcome = self.program.run(inputs, gradient, adjoints)
        self.seconds += time.perf_counter() - start
        self._taken |= outcome.taken
        if outcome.status == FINISHED:
            return outcome
        self.reasons[outcome.reason] += 1
        return None

    def again(self, inputs: Sequence, gradient=False, adjoints: Adjoints = (1.0,)):
        """The result of `run`, at inputs that are no call's: nothing is counted."""
        outcome = self.program.run(inputs, gradient, adjoints)
        if outcome.status != FINISHED:
            raise ValueError(outcome.reason)
        return outcome

    def run_rows(self, values: Sequence, words, count: int, gradient: bool) -> tuple[list, int]:
        """The rows that left, and the edges taken, see `evaluate_rows`."""
        start = time.perf_counter()
        left, taken = evaluate_rows(self.program, values, words, count, gradient)
        self.seconds += time.perf_counter() - start
        self.calls += count - len(left)  # which are called again, and report why they leave
        self._taken |= taken
        return left, taken

    @property
    def left(self) -> int:
        """The number of calls that left it."""
        return self.reasons.total()

    @property
    def seen(self) -> np.ndarray:
        """For each edge whether a call took it."""
        edges = self.program.graph.flags
        return np.frombuffer((self._taken >> 1).to_bytes(edges, "little"), np.uint8)

    @property
    def uselessness(self) -> str:
        """Why most calls leave it, if they do, and the function could be called instead."""
        if self.program.limits.are_checked or self.left < MANY or 2 * self.left <= self.calls:
            return ""
        return f"most calls leave it: {self.reasons.most_common(1)[0][0]}"

    def awaits_native(self, native: bool | None) -> bool:
        """Whether interpreting has taken long enough for native code, or is not wanted."""
        is_late = native or (native is None and self.seconds > PATIENCE)
        return bool(is_late) and self.life.state is State.INTERPRETED

    def is_sample(self) -> bool:
        """Whether the next call is due for a regular comparison."""
        return (self.calls + 1) % SAMPLED == 0

    def is_due(self, taken: int, gradient: bool) -> bool:
        """Whether a call that was just made, along these edges, is to be compared."""
        return self.calls % SAMPLED == 0 or self.is_new(taken, gradient)

    def is_new(self, taken: int, gradient: bool) -> bool:
        """Whether one of these edges has not been compared."""
        return bool(taken & ~self._compared[gradient])

    def note_compared(self, taken: int, gradient: bool) -> None:
        """Note that a call along these edges was compared, with its adjoints or without."""
        for what in range(1 + gradient):
            self._compared[what] |= taken

    def take_over(self, inputs: list, gradient: bool) -> None:
        """Switch to native code if its results agree; RuntimeError says where they do not."""
        graph = self.program.graph
        functions = Functions(**compiled(graph), data=0)
        adjoints = [float(kind == FLOAT) for kind in self.program.kinds]
        expected = self.program.run(inputs, gradient, adjoints)
        other = FlowProgram(graph, functions, read=self.program.read)
        found = other.run(inputs, gradient, adjoints)
        if expected.status != found.status:
            raise RuntimeError("native code takes another branch than the interpreted graph")
        pair = first_difference(
            (found.results, found.gradients),
            (expected.results, expected.gradients),
            dtype=self.dtype,
        )
        if pair is not None:
            raise RuntimeError(f"native code gives {pair[0]}, the interpreted graph {pair[1]}")
        self.program.use(functions)
        self._compared = [0, 0]  # each edge is compared with the function once more
        self.life.go(State.NATIVE, "native code of the graph, equal to the interpreted graph")


# --- results of graphs by their forms: read from a call, seeded with adjoints, their tangents -----


def is_result(form: Form) -> bool:
    """Whether a result of this form can be built; an array without axes may have a derivative."""
    if isinstance(form, (Tuple, Contents)):
        return all(map(is_result, form.parts))
    return isinstance(form, (Number, Known)) or (isinstance(form, Array) and bool(form.lengths))


def has_array(form: Form) -> bool:
    return isinstance(form, Array) or any(map(has_array, form.parts))


# --- leaves ---------------------------------------------------------------------------------------


def leaves_of(form: Form) -> list[Form | None]:
    """The leaves of a result; None for one that holds no numbers, or no floats in an array."""
    if isinstance(form, (Tuple, Contents)):
        return [leaf for one in form.items for leaf in leaves_of(one)]
    holds = isinstance(form, Number) or type(getattr(form, "value", None)) in (int, float)
    return [form if holds or is_float(form) else None]


def is_float(form: Form | None) -> bool:
    """Whether a leaf has a derivative: a float, or an array of them."""
    if isinstance(form, Array):
        return form.element in FLOATS
    return isinstance(form, Number) and form.kind in FLOATS


def tree_of(form: Form, leaves: Iterator) -> Any:
    """Something for each leaf of a result, in its structure."""
    if isinstance(form, Tuple):
        return tuple([tree_of(one, leaves) for one in form.items])
    if isinstance(form, Contents):
        items = [tree_of(one, leaves) for one in form.items]
        return items if form.what == "list" else dict(zip(form.keys, items, strict=True))
    return next(leaves)


def _placed(form: Form, given: Iterator) -> Iterator[tuple[Form, Any]]:
    """Each leaf with its number, or the numbers of an array: address, lengths, strides."""
    if isinstance(form, (Tuple, Contents)):
        for one in form.items:
            yield from _placed(one, given)
    elif isinstance(form, Array):
        yield form, [_number(part, given) for part in form.parts]
    else:
        yield form, _number(form, given)


def _number(form: Form, given: Iterator) -> Any:
    if isinstance(form, Number):
        return next(given)
    if isinstance(form, Known):
        return form.value
    raise Refused(f"the result is {described(form)}")


# --- what a call gives ----------------------------------------------------------------------------


def of_numbers(form: Form, results: Sequence) -> Any:
    """A result without arrays from its numbers."""
    placed = _placed(form, iter(results))
    return tree_of(form, iter([_plain(leaf, number) for leaf, number in placed]))


def _plain(leaf: Form, given) -> Any:
    """A number of a call as the function gives it."""
    return np.float32(given) if isinstance(leaf, Number) and leaf.kind == SINGLE else given


def of_call(form: Form, call: GraphCall) -> Any:
    """A result from the numbers of a call and the arrays in its memory."""
    placed = _placed(form, iter(call.results))
    return tree_of(form, iter([_value(leaf, given, call) for leaf, given in placed]))


def _value(leaf: Form, given, call: GraphCall) -> Any:
    """A leaf of a call; integers and truths lie in arrays as integers."""
    if not isinstance(leaf, Array):
        return _plain(leaf, given)
    words = call.array_at(given[0], given[1 : 1 + len(leaf.lengths)])
    if leaf.element == SINGLE:
        return words.astype(np.float32)
    if leaf.element == FLOAT:
        return words
    return words.view(np.int64) if leaf.element == INT else words.view(np.int64) != 0


def with_tangents_of(form: Form, call: GraphCall) -> tuple[Any, list]:
    """A result, and the tangent of each leaf that has one, from a call of the graph of tangents."""
    count = sum(1 for one in numbers(form) if is_float(one))
    pushed, tangents = iter(call.results[len(call.results) - count :]), []
    for leaf, given in _placed(form, iter(call.results)):
        if isinstance(leaf, Array) and is_float(leaf):
            tangents.append(call.array_at(given[0], given[1 : 1 + len(leaf.lengths)], space=1))
        elif is_float(leaf):
            tangents.append(next(pushed))
    return of_call(form, call), tangents


def seeded(form: Form, adjoints: Sequence) -> Callable[[GraphCall], list[float]]:
    """What seeds a call with an adjoint of each leaf that has one, and gives those of its numbers.

    See `FlowProgram.run`.
    """

    def seed(call: GraphCall) -> list[float]:
        given, found = iter(adjoints), []
        for leaf, place in _placed(form, iter(call.results)):
            if isinstance(leaf, Array):
                if is_float(leaf):
                    call.seed(place[0], next(given))
                found += [0.0] * sum(1 for _ in numbers(leaf))
            elif isinstance(leaf, Number):
                found.append(float(next(given)) if is_float(leaf) else 0.0)
        return found

    return seed
