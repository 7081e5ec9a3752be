"""Refused derivatives, which transforms remember: an error that a function catches is raised again.

`try: return math.exp(x)` followed by `except OverflowError: return limit`, or `except Exception`,
is how careful code looks. If it caught the refusal, the result would have a wrong derivative.
"""

from __future__ import annotations

from ..tape.dependence import dependence_of
from ..tape.row_reader import Reader, needed
from . import runtime as rt
from .tensor_classes import ComplexTensor, Tensor
from .trace import is_steering, refuse
from .values import is_recorded


class DerivativeLost(TypeError):
    """The error where the derivative of a value would be lost.

    Inside a transform (`grad` and the others, `vmap`, `compile`) it cannot be caught for good: if
    the function goes on after it, the transform raises it at its end. It is a TypeError for the
    caller of the transform.

    Examples
    --------
    >>> import math
    >>> import tapegrad as tg
    >>> stored = [math.exp]  # called by its name, it would keep the derivative
    >>> try:
    ...     tg.grad(lambda x: stored[0](x))(1.0)
    ... except tg.DerivativeLost as error:
    ...     print(str(error)[:53])
    tapegrad: float() of a recorded tensor loses its deri
    """

    __module__ = "tapegrad"


def lost_derivative(text: str, *operands) -> DerivativeLost:
    """The error, which every transform that differentiates an operand remembers.

    Operands are tensors, also in lists, tuples and dicts; others are ignored. A trace in which it
    is caught is no recording of the function: data are plain values where nothing is recorded.
    """
    error = DerivativeLost(text)
    refuse(f"recorded it raises DerivativeLost: {text}")
    inputs = rt.differentiated()
    if inputs and rt.is_recording():
        numbers = [one._id for one in _tensors(operands) if is_recorded(one)]
        rt.remember(error, _reached(numbers, inputs))
    return error


def _tensors(tree):
    """The real tensors in nested lists, tuples and dicts."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, ComplexTensor):
        yield from (tree._re, tree._im)
    elif isinstance(tree, (list, tuple, dict)):
        for item in tree.values() if isinstance(tree, dict) else tree:
            yield from _tensors(item)


def is_differentiated(tensor) -> bool:
    """Whether an active transform differentiates with respect to an ancestor of a tensor.

    As in PyTorch, results of a tensor of the user, made with `requires_grad=True`, are not refused.
    """
    inputs = rt.differentiated()
    if not inputs or not is_recorded(tensor) or not rt.is_recording() or is_steering(tensor):
        return False
    return tensor._id in inputs or bool(_reached([tensor._id], inputs))


def _reached(numbers: list[int], inputs: set[int]) -> set[int]:
    """Those of the inputs on which rows depend with a derivative."""
    if not numbers:
        return set()
    marks, _ = dependence_of(numbers)
    found = {one for one in inputs if marks.rows[one]}
    if not found or rt.trace() is None:
        return found
    steering = rt.trace().steering  # no derivative passes masks and detached values
    return found.intersection(needed(Reader(), numbers, steering))
