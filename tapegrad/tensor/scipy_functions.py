"""SciPy's logsumexp, softmax and log_softmax on tensors.

They are Python functions, not ufuncs: they turn their argument into an array first and ask no
protocol, unless SCIPY_ARRAY_API is set before SciPy is imported. So when the first tensor is made
their bodies are replaced by one that looks for a tensor and otherwise runs the original. Replacing
the body, not the name, reaches `from scipy.special import logsumexp` written before.
"""

from __future__ import annotations

import importlib
import inspect
import types

from . import runtime as rt
from .linking import unlisted
from .scans import log_softmax, logsumexp, softmax
from .values import is_tensor


def _logsumexp(a, axis=None, b=None, keepdims=False, return_sign=False):
    if return_sign:
        raise TypeError("tapegrad.logsumexp: the argument return_sign is not supported on tensors")
    return logsumexp(a, axis, b, keepdims)


_OURS = {"logsumexp": _logsumexp, "softmax": softmax, "log_softmax": log_softmax}


def redirect(theirs, ours) -> bool:
    """Let a Python function look for tensors first; False if it is not made as expected."""
    if not isinstance(theirs, types.FunctionType) or theirs.__closure__:
        return False
    name = theirs.__name__
    hook = f"_tapegrad_{name}"
    if hook in theirs.__globals__:
        return True
    parameters = inspect.signature(theirs).parameters.values()
    if any(p.kind is not p.POSITIONAL_OR_KEYWORD for p in parameters):
        return False
    original = types.FunctionType(
        theirs.__code__, theirs.__globals__, name, theirs.__defaults__, None
    )
    original.__kwdefaults__ = theirs.__kwdefaults__

    def choose(*values):
        if any(is_tensor(value) for value in values):
            return ours(*values)
        if any(isinstance(value, (list, tuple)) for value in values[:1]):
            return choose_list(*values)
        return original(*values)

    def choose_list(first, *values):
        joined = unlisted(first)
        return ours(joined, *values) if is_tensor(joined) else original(first, *values)

    names = ", ".join(p.name for p in parameters)
    scope: dict = {}
    exec(f"def {name}({names}):\n    return {hook}({names})\n", scope)
    theirs.__globals__[hook] = choose
    theirs.__code__ = scope[name].__code__
    return True


def _prepare() -> None:
    special = importlib.import_module("scipy.special")
    for name, ours in _OURS.items():
        redirect(getattr(special, name), ours)


rt.on_start.append(_prepare)
