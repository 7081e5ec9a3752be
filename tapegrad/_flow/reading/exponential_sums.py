"""Logarithms of sums of exponentials, and the shares in these: `logsumexp`, `softmax`."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable

from ..._core.tensor.registry import PUBLIC
from ..kinds.step_kinds import FLOAT
from . import array_arithmetic
from .array_reductions import along_axes, folded_elements
from .errors import Refused
from .forms import NONE, Array, Form, Known, Number, described
from .numbers import applied, arithmetic, settled


def _total(reader, a: Array) -> Number:
    """Two by two: no exponential overflows, and each step has the derivatives of the operation."""

    def step(total: Form, x: Form) -> Form:
        return applied(reader.builder, "logaddexp", total, x)

    return folded_elements(reader, a, step, Known(-math.inf), FLOAT)


def _prepared(s, name: str, form: Form) -> Array:
    form = settled(s.builder, form)
    if not isinstance(form, Array) or form.element != FLOAT:
        raise Refused(f"{name} of {described(form)}")
    return form


def _logsumexp(s, a, axis=NONE, b=NONE, keepdims=Known(False)):  # noqa: B008
    if b.head != NONE.head or not isinstance(keepdims, Known):
        raise Refused("logsumexp with weights")
    array = _prepared(s, "logsumexp", a)
    return along_axes(s.reader, array, axis, bool(keepdims.value), _total)


def _log_softmax(s, x, axis=NONE):
    array = _prepared(s, "log_softmax", x)
    totals = along_axes(s.reader, array, axis, True, _total)
    return array_arithmetic.operator_of(s.reader, operator.sub, array, totals)


def _softmax(s, x, axis=NONE):
    build, array = s.builder, _prepared(s, "softmax", x)
    totals = along_axes(s.reader, array, axis, True, _total)

    def share(one: Form, total: Form) -> Form:
        return applied(build, "exp", arithmetic(build, operator.sub, one, total))

    return array_arithmetic.mapped(s.reader, share, array, totals)


_HANDLERS: dict[str, Callable] = {
    "logsumexp": _logsumexp,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
}


def handler_of(function) -> Callable | None:
    """The replacement of one of these functions, of SciPy or of ours."""
    name = getattr(function, "__name__", None)
    if name not in _HANDLERS:
        return None
    theirs = getattr(sys.modules.get("scipy.special"), name, None)
    return _HANDLERS[name] if function in (theirs, PUBLIC[name]) else None
