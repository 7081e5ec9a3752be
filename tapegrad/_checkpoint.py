"""`checkpoint`: a function whose rows are not kept, and which is called again for derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ._core.operations import PUBLIC
from ._core.tensor import runtime as rt
from ._core.tensor.pytree import tree_build, tree_leaves
from ._core.tensor.trace import DerivativeLost
from ._core.tensor.values import FLOATS, is_recorded, is_tensor, value_of
from ._custom.closures import CapturedCall, Strays
from ._custom.own_variables import are_close, with_own_variables
from ._transforms.gradients import value_and_grad
from ._transforms.jacobians import jvp, vjp
from .autograd.function import Function
from .nn.functional._layer_functions import generator_or

_OTHERWISE = (
    "tapegrad.checkpoint: {} gives something else when it is called again for its derivative: it "
    "reads data that have been changed since, or random numbers of a generator of its own; pass "
    "what changes as an argument, or call the function without checkpoint"
)
_IN_PLACE = "a recorded tensor cannot be written inside no_grad()"
_WRITES = (
    "tapegrad.checkpoint: {} writes to a recorded tensor that it has not made, so that it could "
    "not be called again; let it write to a copy, y = y.copy()"
)
_STRAY = (
    "tapegrad.checkpoint: {} reads a recorded value that is not found in its arguments, in "
    "variables of enclosing functions, globals and attributes, so that its derivative would be "
    "lost; pass it as an argument"
)


def checkpoint(f: Callable) -> Callable:
    """A function whose intermediate values are not kept for its derivative, but computed again.

    Parameters
    ----------
    f : callable
        A function of any arguments. Its result is a tensor, an array or a number, or nested tuples,
        lists and dicts of them and of anything else.

    Returns
    -------
    callable
        The function, to be called like `f`. Its results and derivatives are those of `f`: to its
        arguments, and to what it reads of enclosing functions, globals and attributes. Each call is
        one row of the tape. The reverse pass calls `f` once more and frees the arrays of this call
        before the next one, so that a loop of n steps needs the arrays of its states and of one
        step; the rows themselves, 24 bytes an operation, are freed after the pass.

    Raises
    ------
    DerivativeLost
        In the reverse pass, if `f` reads a recorded value that is not found.
    RuntimeError
        If `f` writes to a recorded tensor that it has not made; in the reverse pass, if it gives
        something else than in the first call.

    Notes
    -----
    It is PyTorch's `torch.utils.checkpoint.checkpoint(f, *args, use_reentrant=False)`. The common
    random numbers of NumPy and of `tapegrad.nn` are the same in both calls. Derivatives of higher
    order, and forward mode, are those of `f`. Where nothing is recorded, and in compiled functions,
    `f` is called as it is: option `memory` of `tg.compile` is for the memory of loops there.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> rate = 0.1
    >>> @tg.checkpoint
    ... def year(y, rate):
    ...     for day in range(365):
    ...         y = y + rate / 365 * y * (1.0 - y)
    ...     return y
    >>> def after(rate):
    ...     y = 0.1
    ...     for _ in range(20):
    ...         y = year(y, rate)
    ...     return y
    >>> print(round(tg.grad(after)(0.1), 6))
    4.951214
    """

    @functools.wraps(f)
    def function(*args, **kwargs):
        if rt.trace() is not None or not rt.is_recording():
            return f(*args, **kwargs)
        call = _CheckpointedCall(f, args, kwargs)
        return call.recorded() if call.tensors else f(*args, **kwargs)

    return function


class _CheckpointedCall(CapturedCall):
    """A call of the user's function: of its own now, and of one like it for derivatives."""

    def __init__(self, f: Callable, args: tuple, kwargs: dict):
        name = getattr(f, "__name__", type(f).__name__)
        super().__init__(name, *with_own_variables((f, args)), kwargs)
        self._own: Any = f, args, kwargs
        self._states = _states()
        self._places: list[int] = []

    def __call__(self, *values) -> list:
        """The results that have derivatives, of recorded values."""
        f, args, kwargs = self.captured.filled(values)
        strays, before = Strays(values), _states()
        _set(self._states)
        try:
            leaves = [leaf for _, leaf in tree_leaves(f(*args, **kwargs))]
        finally:
            _set(before)
        if len(leaves) <= max(self._places):
            raise RuntimeError(_OTHERWISE.format(self.name))
        found = [leaves[k] for k in self._places]
        if strays.are_in(found):
            raise DerivativeLost(_STRAY.format(self.name))
        return found

    def recorded(self) -> Any:
        """The result, as one row."""
        tensors, self.tensors = self.tensors, []
        (f, args, kwargs), self._own = self._own, None
        try:
            with rt.switched(False):
                out = f(*args, **kwargs)
        except RuntimeError as error:
            if _IN_PLACE in str(error):
                raise RuntimeError(_WRITES.format(self.name)) from error
            raise
        leaves = [leaf for _, leaf in tree_leaves(out)]
        kinds = [is_tensor(one) and value_of(one).dtype in FLOATS for one in leaves]
        self._places = [k for k, is_float in enumerate(kinds) if is_float]
        if not self._places:
            return out
        values = [_value(leaves[k]) for k in self._places]
        for k, one in zip(self._places, _Checkpoint.apply(self, values, *tensors), strict=True):
            leaves[k] = one
        return tree_build(out, iter(leaves))

    def check(self, found, before) -> None:
        """Raise an error if results are others than before."""
        for one, held in zip(found, before, strict=True):
            if not are_close(np.asarray(value_of(one)), np.asarray(value_of(held))):
                raise RuntimeError(_OTHERWISE.format(self.name))


def _value(leaf) -> Any:
    """A result's value, of its own: an argument may be returned."""
    value = value_of(leaf)
    return np.array(value) if is_recorded(leaf) else value


class _Checkpoint(Function):
    """A call as an operation: `apply(call, values, *tensors)` returns the values, recorded."""

    _is_inside = True

    @staticmethod
    def forward(ctx, call, values, *tensors):
        ctx.call = call
        results = [np.asarray(one) for one in values]
        ctx.save_for_backward(*tensors)
        ctx.results = results
        return tuple(results)

    @staticmethod
    def backward(ctx, *gradients):
        call, tensors = ctx.call, ctx.saved_tensors
        if rt.is_recording():
            found, back = vjp(lambda *values: call(*values), *tensors)
            made = back([*gradients])
        else:
            found, made = _swept(call, tensors, gradients)
        call.check(found, ctx.results)
        return (None, None, *made)

    @staticmethod
    def jvp(ctx, _, __, *tangents):
        call, tensors = ctx.call, ctx.saved_tensors
        pairs = zip(tensors, tangents, strict=True)
        moved = tuple([0.0 * one if t is None else t for one, t in pairs])
        found, along = jvp(lambda *values: call(*values), tensors, moved)
        call.check(found, ctx.results)
        return tuple(along)


def _swept(call: _CheckpointedCall, tensors, gradients) -> tuple[list, tuple]:
    """Results and adjoints by a pass that frees the rows that it has used up."""

    def total(*values):
        found = call(*values)
        parts = zip(found, gradients, strict=True)
        return sum([PUBLIC["sum"](one * value_of(g)) for one, g in parts]), found

    given = [value_of(one) for one in tensors]
    (_, found), made = value_and_grad(total, tuple(range(len(given))), has_aux=True)(*given)
    return found, made


def _states() -> list:
    """The states of the common generators of random numbers."""
    return [np.random.get_state(legacy=False), generator_or(None).bit_generator.state]


def _set(states: list) -> None:
    np.random.set_state(states[0])
    generator_or(None).bit_generator.state = states[1]
