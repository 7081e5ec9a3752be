"""Which graph serves a call, its native code, and derivatives of a function by its graph."""

from __future__ import annotations

import collections
import contextlib
import functools
import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..._core.remembered import remembered
from ..._core.tensor.dependencies import Checked
from ..._core.tensor.operators import users_level
from ..._core.tensor.pytree import tree_build, tree_leaves
from ..._core.tensor.trace import Guard
from ..._core.tensor.values import is_recorded, value_of
from ..._flow.program import Adjoints
from ..._flow.reading.forms import (
    Contents,
    Form,
    Known,
    Lost,
    Number,
    ReadsChanges,
    Refused,
    described,
)
from ..._flow.reading.readings import keep_refusal
from ..._transforms.jacobians import hvp, jvp, vjp
from ..ir.elementwise_step import counted
from ..ir.steps import DOUBLE
from .effects import seems_read
from .flows import (
    Flow,
    TieredGraph,
    flow_for,
    has_array,
    is_float,
    is_readable,
    is_result,
    key_of,
    known_flow,
    leaves_of,
    regardless_of_argnums,
    seeded,
    tree_of,
)
from .life import History
from .rounding import RoundingOfCalls, first_difference
from .signature import Arguments, structure
from .variants import Renewals, Traced, Variants, repeated, shown

# --- flow choice ----------------------------------------------------------------------------------
# Which graph serves a call, when there is to be one, and its native code.

#: Recordings of calls that differ in lengths alone before a graph is tried.
_LENGTHS = 2
#: Graphs kept for arguments of other structures and lengths.
_MOST = 64
#: Per this number of recordings at least one in FEW_HITS evaluations must have found a program.
MANY, FEW_HITS = 16, 4
#: Bytes of arrays between two branches of which programs are faster than graphs.
_LARGE = 1 << 11
#: Solutions of equations in a recording from which on a graph is looked for, which computes one in
#: some microseconds, and is read in the time in which a program of as many is made.
_SOLUTIONS = 50
#: Lengths that graphs are refused for before no others are tried.
_REFUSALS = 2


class Flows:
    """The graphs of a compiled function by what calls they serve, or why there are none."""

    def __init__(self, history: History):
        self._history = history
        self.found: dict[Any, Flow] = {}
        self.refused: dict[Any, str] = {}
        self._refusals: collections.Counter = collections.Counter()  # of lengths, by structure
        #: What readings found, by arguments; derived functions of the same one share it.
        self.choices: dict[Any, dict] = {}
        self._recorded: dict[Any, int] = {}
        self._renewals = Renewals()
        self.branches = False  # whether a call went another way, so that there may be a graph
        self._last: Flow | None = None  # the graph used last
        self._set_aside = 0
        self.has_warned = False  # of having no graph

    def copy(self, history: History) -> Flows:
        """The same graphs for a copy of the function."""
        made = Flows(history)
        made.found, made.refused = dict(self.found), dict(self.refused)
        made.branches = self.branches
        return made

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Let calls go by programs of one way, where an answer is to have a program."""
        self._set_aside += 1
        try:
            yield
        finally:
            self._set_aside -= 1

    @property
    def is_aside(self) -> bool:
        """Whether calls go by programs of one way now."""
        return bool(self._set_aside)

    def renew(self) -> None:
        """Forget what recordings showed, since a name that the function reads has another value.

        Graphs are checked on their own.
        """
        self.refused.clear()
        self._refusals.clear()
        self._recorded.clear()

    def asked(self, owner, arguments: Arguments, stopped) -> bool:
        """Whether a graph is to be tried for a call that no program serves.

        That is so where a program was stopped at a branch, or calls differ in lengths.
        """
        if owner._on_branch != "record" or self.is_aside:
            return False
        key = key_of(arguments, exact=False)
        self._recorded[key] = self._recorded.get(key, 0) + 1
        is_new = stopped is None and self._recorded[key] > _LENGTHS
        if not (is_new or isinstance(stopped, str)):
            return False
        self.branches = True
        return self._read(owner, arguments) is not None

    def first_for(self, owner, arguments: Arguments, traced: Traced) -> Guard | str | None:
        """Why a graph is looked for before a program of a recording is made; None if it is not.

        That is so where the recording passes a branch several times, so that other calls will pass
        it in other ways, and computes little between: graphs are slow on large arrays. Or where it
        solves many equations: then what it solves is told.
        """
        if owner._on_branch != "record" or owner._native or self.is_aside:
            return None
        solved = sum([one.is_in_graphs for one in traced.trace.custom.values()])
        if solved >= _SOLUTIONS and is_readable(owner._f):
            is_open = not (self.is_refused(arguments) or self.serves(arguments))
            return f"{solved} equations that are solved" if is_open else None
        guards = traced.trace.guards
        if self.serves(arguments) or traced.bytes > _LARGE * len(guards):
            return None
        return repeated(owner._f, guards) if is_readable(owner._f) else None

    def serves(self, arguments: Arguments) -> bool:
        """Whether such calls ask a graph first, which sees changes that programs do not."""
        return any([key_of(arguments, exact) in self.found for exact in (False, True)])

    def graph(self, owner, arguments: Arguments) -> Flow | None:
        """The graph for a call whose derivatives are asked for, read if there is none yet."""
        if self.is_aside or arguments.nested or arguments.reason is not None:
            return None
        return self.of(owner, arguments) or self._read(owner, arguments)

    def of(self, owner, arguments: Arguments) -> Flow | None:
        """The graph for a call; one that read what has changed since is made anew."""
        if self.is_aside:
            return None
        for exact in (False, True):
            key = key_of(arguments, exact)
            flow = self.found.get(key)
            if flow is None:
                continue
            if not flow.is_like:
                return self._read_again(owner, key, flow, arguments)
            if reason := flow.primal.uselessness:
                self._refuse(key, reason)
                return None
            self._last = flow
            return flow
        return None

    def dependence(self, owner, arguments: Arguments, changed: list[Checked]) -> str | None:
        """Why no program is right, where a result may read what the function itself changes."""
        if not is_readable(owner._f) or arguments.reason is not None:
            return None
        try:
            flow_for(owner._f, arguments, True, {})
        except ReadsChanges as error:
            return advised(str(error))
        except Exception as error:  # so that what it changes is not followed
            if (name := seems_read(owner._f, changed)) is not None:
                return (
                    f"it changes {name}, and whether its result depends on that is not known: "
                    f"{error}; do that in the code that calls it"
                )
        return None

    def _read_again(self, owner, key, flow: Flow, arguments: Arguments) -> Flow | None:
        """The graph in place of one that read what has changed since."""
        self.found.pop(key, None)
        self.choices.clear()  # lists may hold other kinds now
        owner._forget(flow.names)  # programs that do not compare long lists
        self._last = None
        if (reason := self._renewals.reason(flow.names, flow.primal.calls)) is not None:
            self._refuse(key, reason)
            return None
        return self._read(owner, arguments)

    def recall(self, owner, arguments: Arguments) -> str:
        """Take a graph that was made for other data of the same code, in place of a program.

        If it is known that there is none, the branch at which calls take one path each.
        """
        if owner._on_branch != "record" or self.is_aside or not is_readable(owner._f):
            return ""
        lost = ""
        for exact in (False, True):
            try:
                flow = known_flow(owner._f, arguments, exact)
            except Refused as error:
                self._not_read(key_of(arguments, exact), arguments, error, exact)
                lost = "".join(error.paths or ())
                continue
            if flow is not None and flow.reading.shared.is_first:
                self._take(owner, arguments, flow)
                return ""
        return "" if owner._native else lost

    def note_loss(self, owner, arguments: Arguments, stopped: str) -> None:
        """Note at which branch calls take one path each, for other functions of the code."""
        for exact in (False, True):
            try:
                known_flow(owner._f, arguments, exact)
            except Refused as error:
                if error.paths is not None:
                    error.paths[:] = [stopped]

    def drop_last(self, owner, reason: str) -> None:
        """Drop the graph used last, since calls leave it."""
        for key, flow in list(self.found.items()):
            if flow is self._last:
                self._refuse(key, f"calls leave it: {reason}")
                error = Refused(self.refused[key])
                if not (flow.reading.is_of_objects or flow.hidden):  # the elements may be why
                    error.dependencies = flow.reading.dependencies
                    keep_refusal(owner._f, key, error)
                return

    def _read(self, owner, arguments: Arguments) -> Flow | None:
        f = owner._f
        if not is_readable(f):
            return None
        kinds = zip(arguments.kinds, arguments.fixed, strict=True)
        has_lengths = any(shape and not is_fixed for (_, shape, _), is_fixed in kinds)
        open_key = key_of(arguments, exact=False)
        for exact in (False, True) if has_lengths else (False,):
            key = key_of(arguments, exact)
            if key in self.refused or self._refusals[open_key] >= _REFUSALS:
                continue
            alike = regardless_of_argnums(key)
            choices = dict(self.choices.get(alike, ()))
            try:
                flow = known_flow(f, arguments, exact) or flow_for(f, arguments, exact, choices)
                if not is_result(flow.reading.result):
                    raise Refused(f"its result is {described(flow.reading.result)}")
            except ReadsChanges as error:
                owner._give_up(advised(str(error)))
                return None
            except Refused as error:
                self._not_read(key, arguments, error, exact)
                continue
            except Exception as error:  # a fault of ours must not stop the user's call
                self._refuse(key, f"reading failed, please report this: {error!r}")
                continue
            self.choices[alike] = choices
            self._take(owner, arguments, flow)
            return flow
        return None

    def _refuse(self, key, reason: str) -> None:
        """Let no graph serve such calls, for a reason, which is noted."""
        what = "no graph" if self.found.pop(key, None) is None else "its graph is dropped"
        self.refused[key] = reason
        self._last = None
        self._history.note(f"{what}: {reason}")

    def _not_read(self, key, arguments: Arguments, error: Refused, exact: bool) -> None:
        """Note why there is no graph, and whether one for other lengths is worth a try."""
        self._refuse(key, str(error))
        count = _REFUSALS if isinstance(error, Lost) else exact
        self._refusals[key_of(arguments, exact=False)] += count

    def _take(self, owner, arguments: Arguments, flow: Flow) -> None:
        """Let a graph serve calls."""
        self.found[flow.key] = flow
        count = len(flow.primal.program.graph.blocks)
        self._history.note(f"a graph of {counted(count, 'block')} read from bytecode")
        if len(self.found) > _MOST:  # another thread may have been first
            self.found.pop(next(iter(self.found)), None)
        if owner._native:
            self._make_native(owner, flow.primal, flow.inputs(arguments.values))
        if owner._verify != "always":
            owner._effects.of_graph(flow.reading.changes, owner._name)

    def check_branch(self, owner, family: Variants, stopped: str | Exception) -> None:
        """None of the programs so far covers the branch."""
        if owner._on_branch == "error":
            if isinstance(stopped, Exception):
                raise stopped
            raise RuntimeError(
                f"tapegrad.compile: {owner._name} takes another branch at {stopped} than when "
                "it was recorded; allow that with on_branch='record'"
            )
        if self.found:
            return
        if family.recorded >= MANY and family.evaluations < FEW_HITS * family.recorded // MANY:
            owner._give_up(f"it takes another branch at {stopped} at nearly every call")

    def is_refused(self, arguments: Arguments) -> bool:
        """Whether it is known that no graph serves such calls."""
        return key_of(arguments, exact=False) in self.refused and not self.serves(arguments)

    @property
    def is_lost(self) -> bool:
        """Whether the function was to have a graph and has none."""
        return bool(self.refused) and not self.found

    def is_without_program(self, owner, family: Variants) -> bool:
        """Whether a call is made eagerly, since no path is known to have come again."""
        if not family.lost or self.is_aside:
            return False
        if not family.budget.has_called:
            return True
        self._warn_of_loss(owner, family.lost)
        return not family.budget.is_there(0)

    def is_lost_at(self, owner, family: Variants, stopped: str | Exception) -> bool:
        """Whether a call is made eagerly, since each takes another path and there is no graph."""
        if family.stopped_at is None or not (isinstance(stopped, str) and self.is_lost):
            return False
        if not family.budget.is_due_to(owner._f, *family.stopped_at):
            return False
        family.lose(stopped)
        self._warn_of_loss(owner, stopped)
        return not family.budget.is_there(family.evaluations)

    def _warn_of_loss(self, owner, stopped: str) -> None:
        """Say once that calls take one path each, and why no graph serves them all."""
        reasons = list(self.refused.values())
        if self.has_warned or not reasons:  # forgotten by another thread
            return
        self.has_warned = True
        warnings.warn(
            f"tapegrad.compile: {owner._name} is slow: it takes another path at {stopped}, each "
            "path is recorded on its own, and calls between are made eagerly, since its loops and "
            f"branches cannot be read: {advised(reasons[-1])}",
            RuntimeWarning,
            stacklevel=users_level(),
        )

    def differs(self, owner, flow: Flow, arguments: Arguments, found, expected) -> bool:
        """Whether a value and a gradient are not the function's; the graph is dropped then."""
        gradient = found[1] is not None

        def by_graph(values):
            value, made = flow.again(values, gradient)
            if not gradient:
                return value, None
            return value, arguments.gradients(made, owner._argnums, owner._single)

        def called(values):
            return arguments.call(lambda *a, **k: owner._eagerly(a, k, gradient), values)

        rounding = RoundingOfCalls(arguments.values, arguments.dtype)
        noises = [functools.partial(rounding.of, f, f is by_graph) for f in (by_graph, called)]
        pair = first_difference(found, expected, *noises, dtype=arguments.dtype)
        if pair is not None:
            self.refuse(owner, flow, f"it gives {pair[0]} where a call gives {pair[1]}")
        return pair is not None

    def refuse(self, owner, wrong: Flow, reason: str) -> None:
        """Drop a graph that gave something else than the function."""
        if not wrong.names.unchanged():  # by another thread, during the comparison
            return
        for key, flow in list(self.found.items()):
            if flow is wrong:
                self._refuse(key, reason)
        warnings.warn(
            f"tapegrad.compile: {owner._name} is recorded once for each path through its "
            f"branches, since its graph is wrong: {reason}; please report this, if the function "
            "depends on its arguments alone",
            RuntimeWarning,
            stacklevel=users_level(),
        )

    def count(self, owner, graph: TieredGraph, inputs: list) -> None:
        """Native code where it is time for that."""
        if graph.awaits_native(owner._native):
            self._make_native(owner, graph, inputs)

    def _make_native(self, owner, graph: TieredGraph, inputs: list) -> None:
        inputs = [x.copy() if isinstance(x, np.ndarray) else x for x in inputs]
        gradient = "f" in graph.program.kinds
        why = f"after {graph.seconds:.2g} s of interpreting a graph"
        owner._later(graph.life, why, functools.partial(graph.take_over, inputs, gradient))

    def short(self, owner, args: tuple, gradient: bool) -> tuple | None:
        """Value and gradient for floats and arrays, by the graph used last."""
        flow = None if self.is_aside or owner._verify == "always" else self._last
        values = None if flow is None else flow.values(args)
        if flow is None or values is None or not flow.is_number or not flow.is_like:
            return None
        if flow.primal.is_sample():
            return None
        found = flow.run(values, gradient)
        if found is None:
            return None
        value, made, taken = found
        if owner._verify == "once" and flow.primal.is_due(taken, gradient):
            return None  # to be compared
        if flow.primal.awaits_native(owner._native):
            self._make_native(owner, flow.primal, flow.inputs(values))
        if not gradient:
            return value, None
        if owner._single:
            return value, made[0]
        numbers = [number % len(args) for number in owner._argnums]
        order = sorted({*numbers})
        return value, tuple([made[order.index(number)] for number in numbers])


# --- advice for functions without a graph, and for calls that leave their graph -------------------


_RAISES = "the function itself raises an exception there"
#: Patterns of reasons, the first that is found counts, and what to write instead.
_ADVICE = {
    r"itself changes": "pass it as an argument, and change it in the code that calls the function",
    r"a text that is made": "compare the numbers themselves",
    r"depends on the time": "pass the time as an argument",
    r"a (try|with) statement": "put it around the call of the function",
    r"an import": "import at the top of the module",
    r"calls (set|frozenset),": "use a list with a truth for each item: seen = [False] * n",
    r"calls (default_rng|random|normal|uniform|rand|randn),": "draw before the call, and pass the "
    "numbers as an argument",
    r"a list of an array": "write the arrays to the rows of one: out = np.zeros((n, m)), "
    "out[k] = …",
    r"bytecode that is not known": "move functions that call themselves, or are made inside of it, "
    "out of it",
    r"raises|out of bounds|empty|negative length|no elements": _RAISES,
    r"values to unpack|other lengths|is missing": _RAISES,
    r"a division by 0": "numbers of NumPy's and tensors may be divided by 0, Python's floats raise",
    r"math\.\w+ may raise": "the function of that name in NumPy gives an infinity or NaN instead",
    r"power that Python may refuse": "np.power gives NaN where Python's ** gives a complex number",
    r"beyond 63 bits": "integers that grow so large are exact as Python's numbers only; use floats",
    r"may be an int|an int on one branch": "write 0.0 rather than 0 where a float may come instead",
    r"a norm of 0": "np.sqrt(x @ x + tiny) has a derivative at 0",
    r"value is None|compared with None|may be None|not set": "set the variable to a number on each "
    "branch before",
    r"more memory|has no end": "a loop makes too many rounds for a program",
    r"the result is .* on one branch": "return results of one kind and one length from each branch",
    r"a variable is .* and .* (on another|there)|of more than \d+ kinds": "give the variable one "
    "kind on each branch: floats rather than ints or None, arrays and lists of one length",
    r"made on one branch only|made anew": "make the list or object once, before the loop or branch",
    r"it changes a list": "change a copy of it: list(x), dict(x), x.copy()",
    r"lies outside|variable outside": "pass it as an argument, or make it inside of the function",
    r"attribute \w+ of .* from outside": "read it before, and pass it as an argument",
    r"from outside": "pass it as an argument, or keep it as numbers of Python, lists, dicts, "
    "and arrays of float64, int64 or bool",
    r"an argument (has|is)": "pass floats, arrays of float64, int64 or bool, and plain tuples, "
    "lists and dicts of them",
    r"calls itself|nest too deeply": "write the recursion as a loop",
    r"array of . dimensions$|indexed by an array": "np.where(mask, x, 0.0) keeps all elements",
    r"it yields|a generator": "return a list instead of yielding items",
    r"made by \*": "write a comprehension, as in [0.0 for _ in range(n)]",
    r"is gone through|is used elsewhere": "go through a copy of it: list(x)",
    r"array made of|array of (a list|dtype|another)|array of lengths": "fill np.zeros(shape) "
    "item by item",
    r"an array indexed by|an item by|along an axis": "index with integers and slices, take axes "
    "that are written as numbers",
    r"stacks of matrices": "multiply the matrices of a stack one by one",
    r"isinstance": "leave isinstance() out: while it is recorded, a number may be a tensor",
    r"key that is computed|keys are computed|with the key|whose keys": "use a list or array with a "
    "computed index",
    r"too many ways": "use fewer branches in one function, or np.where",
    r"step is computed|with a step": "use a step that is written as a number",
    r"float\(\)": "leave float() out: it would drop the derivative",
    r"of (integers|truths|two truths)": "convert them first, with astype(float) or 1.0 *",
    r"call with \*\*": "name the arguments",
    r"intermediate value twice": "assign it on a line of its own",
    r"it calls|which is not known here|the method": "compile a function of the loops and branches "
    "alone, and call that from this one, which is not compiled then",
    r"where a call gives": "please report this, if the function depends on its arguments alone",
    r"please report": "",
}
#: Advice for functions that have no graph for another reason.
_OTHERS = "np.where, np.maximum or np.clip compute both branches in one program"


def advice_on_leaving(reason: str) -> str:
    """Advice for a call that leaves a graph; "" if there is none."""
    return _found(reason, "")


def advised(reason: str) -> str:
    """Why a function has no graph, and what to write instead."""
    advice = _found(reason, _OTHERS)
    return f"{reason}; {advice}" if advice else reason


def _found(reason: str, other: str) -> str:
    return next((text for pattern, text in _ADVICE.items() if re.search(pattern, reason)), other)


# --- flow derivatives -----------------------------------------------------------------------------
# Derivatives of a compiled function by its graph: Jacobians, second derivatives, products.
#
# A rule gives the result of the eager transform of its name, or None if it must be computed without
# a graph: if the call leaves the graph, if a derivative is not finite, which may depend on the
# order of products, or if the graph is found to be wrong.


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
