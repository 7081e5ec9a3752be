"""Every element-wise operation of the table as a function, made in one loop."""

from __future__ import annotations

import functools
import inspect

import numpy as np

from ..ops.table import TABLE, Pointwise, words_of
from ..tensor import runtime as rt
from ..tensor.apply import apply
from ..tensor.copies import copy_tensor, unlisted
from ..tensor.operators import divided, power, written_to
from ..tensor.registry import OF_NUMPY, PUBLIC, function
from ..tensor.trace import steering_tensor
from ..tensor.values import differentiates, is_tensor, value_of, wrap
from .elementwise_examples import EXAMPLES
from .unrecorded import unrecorded


@functools.cache
def _signature(inputs: tuple[str, ...]) -> inspect.Signature:
    """The signature of a function that takes its operands by position."""
    kind = inspect.Parameter.POSITIONAL_ONLY
    return inspect.Signature([inspect.Parameter(name, kind) for name in inputs])


def _make(op: Pointwise):
    arguments = ", ".join(op.inputs)

    def operation(*operands):
        if len(operands) != len(op.inputs):  # one more would be NumPy's out=
            raise TypeError(
                f"tapegrad.{op.name}: got {len(operands)} arguments; it takes {arguments}"
            )
        return apply(op.name, *operands)

    operation.__name__ = operation.__qualname__ = op.name
    vars(operation)["__signature__"] = _signature(tuple(op.inputs))
    operation.__doc__ = _docstring(op)
    return operation


_TEXT = """Compute {op.doc}, element by element.

Parameters
----------
{operands} : array_like
    Tensors, arrays, numbers, or nested lists of them.

Returns
-------
Tensor, ndarray or number
    Of {shape}: a tensor if an operand is one; float32 if all operands are, else float64.

Raises
------
ValueError
    If the shapes do not broadcast.
TypeError
    If an operand is not numeric.

See Also
--------
{op.numpy}

Notes
-----
Partial derivatives{words}:

{partials}{awkward}
"""
_EXAMPLE = """
Examples
--------
>>> import numpy as np
>>> import tapegrad as tg
>>> np.round(tg.grad(tg.{op.name}{argnums})({arguments}), 6).tolist()
{gradient}
"""
_WORDS = {
    "out": "`out` is the result",
    "select": "`select(c, a, b)` is a where c holds, else b",
}


def _docstring(op: Pointwise) -> str:
    """The docstring for `help`: value, partial derivatives, awkward points, an example."""
    pairs = zip(op.inputs, op.partials, strict=True)
    used = [text for word, text in _WORDS.items() if word in words_of(*op.partials)]
    several = len(op.inputs) > 1
    text = _TEXT.format(
        op=op,
        operands=", ".join(op.inputs),
        shape="the broadcast shape" if several else "the shape of the operand",
        words=f", where {' and '.join(used)}" if used else "",
        partials="\n".join([f"    ∂/∂{name} = {partial}" for name, partial in pairs]),
        awkward=f"\n\nAt exceptional points: {op.awkward}." if op.awkward else "",
    )
    if op.name not in EXAMPLES:
        return text
    arguments, gradient = EXAMPLES[op.name]
    return text + _EXAMPLE.format(
        op=op,
        argnums=f", {tuple(range(len(op.inputs)))}" if several else "",
        arguments=arguments,
        gradient=f"[{gradient[1:-1]}]" if several else gradient,
    )


def made_public(op: Pointwise) -> None:
    """Make the function of an operation, and let those that mean the same find it.

    Those of SciPy that are rarely used have no other name.
    """
    made = _make(op)
    if not (op.apart and op.numpy.startswith("scipy.")):
        PUBLIC[op.name] = made
    for module, _, name in [one.rpartition(".") for one in op.functions]:
        if module == "numpy" and hasattr(np, name):
            OF_NUMPY[getattr(np, name)] = PUBLIC[name] = made
        elif module == "scipy.special":
            OF_NUMPY[name] = made


for _op in list(TABLE.values()):
    if isinstance(_op, Pointwise) and _op.name not in ("where", "clip", "power"):
        if not _op.name.startswith("complex_"):  # parts of complex functions
            made_public(_op)

PUBLIC["abs"] = PUBLIC["absolute"]
PUBLIC["mod"] = PUBLIC["remainder"]
PUBLIC["true_divide"] = PUBLIC["divide"]
PUBLIC["pow"] = function("power")(power)
function("divmod", public="divmod")(divided)
PUBLIC["expit"] = PUBLIC["sigmoid"]


@function("where")
def where(condition, x=None, y=None):
    """Choose elements of `x` where a condition holds, and of `y` elsewhere.

    The elements that are not chosen have a derivative of exactly 0, even if their own derivative is
    NaN.

    Parameters
    ----------
    condition : array_like
        Booleans, or numbers that are compared with zero.
    x, y : array_like, optional
        The operands, which broadcast with the condition. Both or neither are given.

    Returns
    -------
    Tensor, ndarray or tuple
        The elements; with the condition alone the indices where it holds, an array for each axis.

    Raises
    ------
    ValueError
        If one of `x` and `y` is given without the other, or shapes do not broadcast.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.where([True, False], tg.tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    """
    if x is None and y is None:
        return steering_tensor(np.nonzero, condition)
    if x is None or y is None:
        raise ValueError("tapegrad.where: give both x and y, or neither")
    return apply("where", condition if rt.trace() else value_of(condition), x, y)


@function("clip", method="clip")
def clip(x, a_min=None, a_max=None, out=None, *, min=None, max=None):
    """Limit the elements of `x` to an interval.

    The derivative belongs to the operand or bound that the result is equal to.

    Parameters
    ----------
    a_min, a_max : array_like or None, optional
        The bounds, which may be recorded; None means no bound.
    min, max : array_like or None, optional
        Other names of the bounds.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.grad(lambda x: tg.clip(x, 0.0, 1.0).sum())([0.5, 3.0])
    [1.0, 0.0]
    """
    for name, bound, other in (("min", a_min, min), ("max", a_max, max)):
        if bound is not None and other is not None:
            raise ValueError(f"tapegrad.clip: a_{name} and {name} are both given; give one of them")
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    if low is None and high is None:
        made = copy_of(unlisted(x))
    elif low is None:
        made = apply("minimum", x, high)
    elif high is None:
        made = apply("maximum", x, low)
    else:
        made = apply("clip", x, low, high)
    return written_to("clip", made, out)


def copy_of(x):
    """A copy of a tensor or an array; a number as it is."""
    return copy_tensor(x) if is_tensor(x) else np.copy(x)


@function("round", "around", method="round")
def round(x, decimals=0, out=None):
    """Round to a number of decimals, halves to even. The derivative is zero.

    Parameters
    ----------
    decimals : int, optional
        The number of decimals; a negative one rounds to tens, hundreds, ….
    """
    x = unlisted(x)
    if not differentiates(x):
        return written_to("round", unrecorded(np.round, x, decimals=decimals), out)
    if decimals == 0:
        return written_to("round", apply("rint", x), out)
    there, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    scale = 10.0 ** abs(decimals)  # as in NumPy: powers below 1 are not exact
    return written_to("round", apply(back, apply("rint", apply(there, x, scale)), scale), out)


@function("float_power")
def float_power(x1, x2):
    """Raise elements to a power in float64, whatever the dtypes of the operands."""
    x1, x2 = unlisted(x1), unlisted(x2)
    if not differentiates(x1, x2):
        return unrecorded(np.float_power, x1, x2)
    return power(*[x.astype(float) if is_tensor(x) else np.float64(x) for x in (x1, x2)])


@function("real")
def real(val):
    """Return the real part; for a real operand, the operand itself."""
    x = unlisted(val)
    return x if is_tensor(x) else np.real(x)


@function("imag")
def imag(val):
    """Return the imaginary part; for a real operand it is zero, without a derivative."""
    x = unlisted(val)
    return wrap(np.zeros_like(value_of(x))) if is_tensor(x) else np.imag(x)


def _flag(name, what):
    function_of_numpy = getattr(np, name)

    def test(x):
        return steering_tensor(function_of_numpy, x)

    test.__name__ = name
    test.__doc__ = (
        f"Test element by element whether {what}. The result has no derivative.\n\n"
        "Returns\n-------\nTensor\n    Booleans."
    )
    return function(name)(test)


for _name, _what in {
    "isnan": "numbers are NaN",
    "isinf": "numbers are infinite",
    "isfinite": "numbers are finite",
    "signbit": "the sign is negative",
    "logical_not": "operands are false",
}.items():
    _flag(_name, _what)
