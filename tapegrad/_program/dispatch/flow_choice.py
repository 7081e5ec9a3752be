"""Which graph serves a call, when there is to be one, and its native code."""

from __future__ import annotations

import contextlib
import functools
import types
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..._core.tensor.row_listeners import users_level
from ..._flow.reading.errors import Refused
from ..._transforms.gradients import hvp as eager_hvp
from .background import later
from .flows import PATIENCE, Flow, flow_for, is_result, key_of
from .rounding import RoundingOfCalls, first_difference
from .signature import Arguments

#: Recordings of calls that differ in lengths alone before a graph is tried.
_LENGTHS = 2


class Flows:
    """The graphs of a compiled function by what calls they serve, or why there are none."""

    def __init__(self):
        self.found: dict[Any, Flow] = {}
        self.refused: dict[Any, str] = {}
        self._recorded: dict[Any, int] = {}
        self._last: Flow | None = None  # the graph used last
        self._set_aside = 0

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Let calls go by programs of one way, which files, Numba and profiles need."""
        self._set_aside += 1
        try:
            yield
        finally:
            self._set_aside -= 1

    def asked(self, owner, arguments: Arguments, stopped) -> bool:
        """Whether a graph is to be tried for a call that no program serves.

        That is so where a program was stopped at a branch, or calls differ in lengths.
        """
        if owner._on_branch == "error" or owner._kind != "value" or self._set_aside:
            return False
        key = key_of(arguments, exact=False)
        self._recorded[key] = self._recorded.get(key, 0) + 1
        is_new = stopped is None and self._recorded[key] > _LENGTHS
        if not (is_new or isinstance(stopped, str)):
            return False
        return self._read(owner, arguments) is not None

    def of(self, owner, arguments: Arguments) -> Flow | None:
        """The graph for a call; one that read what has changed since is made anew."""
        if self._set_aside:
            return None
        for exact in (False, True):
            key = key_of(arguments, exact)
            flow = self.found.get(key)
            if flow is None:
                continue
            if not flow.is_like:
                self.found.pop(key, None)
                self._last = None
                return self._read(owner, arguments)
            if flow.is_useless:
                self._give_up(key, f"most calls leave it: {flow.reasons.most_common(1)[0][0]}")
                return None
            self._last = flow
            return flow
        return None

    def _read(self, owner, arguments: Arguments) -> Flow | None:
        f = owner._f
        if not isinstance(f, types.FunctionType) or (f.__module__ or "").startswith("tapegrad."):
            return None
        has_lengths = any(shape and not wanted for _, shape, wanted in arguments.kinds)
        for exact in (False, True) if has_lengths else (False,):
            key = key_of(arguments, exact)
            if key in self.refused:
                continue
            try:
                flow = flow_for(owner._f, arguments, exact)
                if not is_result(flow.reading.result):
                    raise Refused("its result is an array")
            except Refused as error:
                self.refused[key] = str(error)
                continue
            except Exception as error:  # a fault of ours must not stop the user's call
                self.refused[key] = f"reading failed, please report this: {error!r}"
                continue
            self.found[key] = flow
            if owner._native:
                self._make_native(owner, flow, arguments.values)
            return flow
        return None

    def _give_up(self, key, reason: str) -> None:
        self.found.pop(key, None)  # another thread may have been first
        self.refused[key] = reason
        self._last = None

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

        rounding = RoundingOfCalls(arguments.values)
        noises = [functools.partial(rounding.of, one) for one in (by_graph, called)]
        pair = first_difference(found, expected, *noises)
        if pair is not None:
            self.refuse(owner, flow, f"it gives {pair[0]} where a call gives {pair[1]}")
        return pair is not None

    def refuse(self, owner, wrong: Flow, reason: str) -> None:
        """Drop a graph that gave something else than the function."""
        for key, flow in list(self.found.items()):
            if flow is wrong:
                self._give_up(key, reason)
        warnings.warn(
            f"tapegrad.compile: {owner._name} is recorded once for each path through its "
            f"branches, since its graph is wrong: {reason}; please report this, if the function "
            "depends on its arguments alone",
            RuntimeWarning,
            stacklevel=users_level(),
        )

    def count(self, owner, flow: Flow, values: list) -> None:
        """Native code where interpreting has taken long enough."""
        if flow.seconds > PATIENCE and flow.state == "interpreted" and owner._native is not False:
            self._make_native(owner, flow, values)

    def _make_native(self, owner, flow: Flow, values: list) -> None:
        flow.state = "being compiled"
        values = [x.copy() if isinstance(x, np.ndarray) else x for x in values]
        job = functools.partial(_compiled, flow, values, owner._name)
        owner._compiling.append(later(job))

    def short(self, owner, args: tuple, gradient: bool) -> tuple | None:
        """Value and gradient for floats and arrays, by the graph used last."""
        flow = None if self._set_aside or owner._verify == "always" else self._last
        values = None if flow is None else flow.values(args)
        if flow is None or values is None or not flow.is_number or not flow.is_like:
            return None
        if flow.is_sample():
            return None
        found = flow.run(values, gradient)
        if found is None or (owner._verify == "once" and flow.is_due()):
            return None  # to be compared, or left
        if flow.state == "interpreted":
            self.count(owner, flow, values)
        value, made = found
        if not gradient:
            return value, None
        if owner._single:
            return value, made[0]
        numbers = [number % len(args) for number in owner._argnums]
        order = sorted({*numbers})
        return value, tuple([made[order.index(number)] for number in numbers])

    # --- second derivatives -------------------------------------------------------------------

    def hvp(self, owner, args: tuple, v):
        """The Hessian of the only differentiated argument, the first, times v; None if not here."""
        if owner._argnums != (0,) or not isinstance(args[0], (float, np.ndarray)):
            return None
        tangent = _tangent(args[0], v)
        rows = None if tangent is None else self._along(owner, args, [tangent])
        return None if rows is None else rows[0]

    def hessian(self, owner, args: tuple, kwargs: dict):
        """The Hessian of the only differentiated argument; None if not here."""
        if kwargs or len(owner._argnums) != 1 or not owner._single or not args:
            return None
        x = args[owner._argnums[0] % len(args)]
        if type(x) is float:
            rows = self._along(owner, args, [1.0])
            return None if rows is None else rows[0]
        if type(x) is not np.ndarray or x.dtype != np.float64 or not x.size:
            return None
        units = list(np.eye(x.size).reshape(x.size, *x.shape))
        rows = self._along(owner, args, units)
        return None if rows is None else np.stack(rows).reshape(*x.shape, *x.shape)

    def _along(self, owner, args: tuple, tangents: list) -> list | None:
        """Derivatives of the gradient along each of some tangents."""
        arguments = Arguments(args, {}, owner._argnums)
        if arguments.nested or arguments.reason is not None or owner._verify == "always":
            return None
        flow = self.of(owner, arguments)
        values = None if flow is None else flow.values(args)
        if flow is None or values is None or not flow.is_number:
            return None
        found = [flow.along(values, [one]) for one in tangents]
        if any(one is None for one in found):
            return None
        rows = [one[0] for one in found]  # type: ignore[index]
        is_due = owner._verify != "never" and flow.is_new_along()
        return None if is_due and self._is_wrong(owner, flow, args, rows[0], tangents[0]) else rows

    def _is_wrong(self, owner, flow: Flow, args: tuple, found, tangent) -> bool:
        """Compare a product with the eager one; a graph that gives another is dropped."""
        number = owner._argnums[0] % len(args)

        def by_graph(values):
            return flow.along(values, [tangent])[0]

        def called(values):
            before, x, after = values[:number], values[number], values[number + 1 :]
            return eager_hvp(lambda x: owner._f(*before, x, *after))(x, tangent)

        rounding = RoundingOfCalls([*args])
        noises = [functools.partial(rounding.of, one) for one in (by_graph, called)]
        pair = first_difference(found, called(args), *noises)
        if pair is not None:
            reason = f"its second derivative is {pair[0]} where a call gives {pair[1]}"
            self.refuse(owner, flow, reason)
        return pair is not None


def _tangent(x, v):
    """A tangent of an input as graphs take it, None if it is another thing."""
    if type(x) is float:
        return float(v) if isinstance(v, (int, float)) else None
    if type(v) is not np.ndarray or v.shape != x.shape or v.dtype.kind not in "fiu":
        return None
    return np.ascontiguousarray(v, np.float64)


def _compiled(flow: Flow, values: list, name: str) -> None:
    try:
        flow.take_over(flow.native(), values)
    except Exception as error:
        flow.state = f"interpreted, without native code: {error}"
        message = f"tapegrad.compile: {name} goes on interpreted: {error}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        raise RuntimeError(message) from error
