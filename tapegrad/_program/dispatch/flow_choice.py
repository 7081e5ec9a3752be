"""Which graph serves a call, when there is to be one, and its native code."""

from __future__ import annotations

import collections
import contextlib
import functools
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..._core.tensor.dependencies import Checked
from ..._core.tensor.operators import users_level
from ..._core.tensor.trace import Guard
from ..._flow.reading.forms import Lost, ReadsChanges, Refused, described
from ..._flow.reading.readings import keep_refusal
from ..ir.elementwise_step import counted
from .effects import seems_read
from .flows import (
    Flow,
    TieredGraph,
    flow_for,
    is_readable,
    is_result,
    key_of,
    known_flow,
    regardless_of_argnums,
)
from .life import History
from .rounding import RoundingOfCalls, first_difference
from .signature import Arguments
from .variants import Renewals, Traced, Variants, repeated

#: Recordings of calls that differ in lengths alone before a graph is tried.
_LENGTHS = 2
#: Graphs kept for arguments of other structures and lengths.
_MOST = 64
#: Per this number of recordings at least one in FEW_HITS evaluations must have found a program.
MANY, FEW_HITS = 16, 4
#: Bytes of arrays between two branches of which programs are faster than graphs.
_LARGE = 1 << 11
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
        if owner._on_branch == "error" or self.is_aside:
            return False
        key = key_of(arguments, exact=False)
        self._recorded[key] = self._recorded.get(key, 0) + 1
        is_new = stopped is None and self._recorded[key] > _LENGTHS
        if not (is_new or isinstance(stopped, str)):
            return False
        self.branches = True
        return self._read(owner, arguments) is not None

    def first_for(self, owner, arguments: Arguments, traced: Traced) -> Guard | None:
        """The branch for which a graph is looked for before a program of a recording is made.

        That is so where the recording passes a branch several times, so that other calls will pass
        it in other ways, and computes little between: graphs are slow on large arrays.
        """
        if owner._on_branch == "error" or owner._native or self.is_aside:
            return None
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
        if owner._on_branch == "error" or self.is_aside or not is_readable(owner._f):
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
