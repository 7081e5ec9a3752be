"""Every element-wise operation of the table as a function, filled in one loop."""

from __future__ import annotations

import functools
import inspect

import numpy as np

from ..ops.table import TABLE, Pointwise
from ..tensor import runtime as rt
from ..tensor.apply import apply
from ..tensor.copies import copy_tensor, unlisted
from ..tensor.operators import divided, power
from ..tensor.out_arguments import written_to
from ..tensor.registry import OF_NUMPY, PUBLIC, function
from ..tensor.trace import steering_tensor
from ..tensor.values import differentiates, is_tensor, value_of, wrap
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
    shape = "of the broadcast shape" if len(op.inputs) > 1 else "of the same shape"
    operation.__doc__ = (
        f"{op.name}({arguments}): {op.doc}, element by element.\n\n"
        f"Takes tensors, arrays or numbers; returns a tensor {shape} (float64, or float32 when\n"
        f"all are). Slopes: {'; '.join(op.slopes)}."
        + (f" Awkward points: {op.awkward}." if op.awkward else "")
        + "\nRaises ValueError for shapes that do not broadcast, TypeError for other types."
    )
    return operation


for _op in list(TABLE.values()):
    if not isinstance(_op, Pointwise) or _op.name in ("where", "clip", "power"):
        continue
    if _op.name.startswith("complex_"):  # parts of complex functions
        continue
    _function = _make(_op)
    PUBLIC[_op.name] = _function
    _module, _, _name = _op.numpy.rpartition(".")
    OF_NUMPY[getattr(np, _name) if _module == "numpy" else _name] = _function

PUBLIC["abs"] = PUBLIC["fabs"] = PUBLIC["absolute"]
OF_NUMPY[np.fabs] = PUBLIC["absolute"]
PUBLIC["mod"] = PUBLIC["remainder"]
PUBLIC["true_divide"] = PUBLIC["divide"]
PUBLIC["pow"] = function("power")(power)
function("divmod", public="divmod")(divided)
PUBLIC["expit"] = PUBLIC["sigmoid"]
for _name, _other in (("rad2deg", "degrees"), ("deg2rad", "radians")):
    OF_NUMPY[getattr(np, _name)] = PUBLIC[_name] = PUBLIC[_other]
OF_NUMPY["psi"] = PUBLIC["digamma"]
OF_NUMPY[np.i0] = PUBLIC["i0"]


@function("where")
def where(condition, x=None, y=None):
    """where(condition, x, y): x where the condition holds, else y, element by element.

    The condition is boolean or is compared with zero; the branch not taken gets derivative
    exactly 0, also where its own is NaN. With the condition alone: the indices where it holds.

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
    """clip(x, a_min, a_max, out, min, max): x limited to an interval; a bound of None is no bound.

    `min` and `max` are other names of the bounds, which may be recorded.
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
    """round(x, decimals, out): rounded half to even; the derivative is zero."""
    x = unlisted(x)
    if not differentiates(x):
        return written_to("round", unrecorded(np.round, x, decimals=decimals), out)
    if decimals == 0:
        return written_to("round", apply("rint", x), out)
    there, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    scale = 10.0 ** abs(decimals)  # as NumPy has it: powers below 1 are not exact
    return written_to("round", apply(back, apply("rint", apply(there, x, scale)), scale), out)


@function("float_power")
def float_power(x1, x2):
    """float_power(x1, x2): `power` in float64, whatever the dtypes of the operands."""
    x1, x2 = unlisted(x1), unlisted(x2)
    if not differentiates(x1, x2):
        return unrecorded(np.float_power, x1, x2)
    return power(*[x.astype(float) if is_tensor(x) else np.float64(x) for x in (x1, x2)])


@function("real")
def real(val):
    """real(val): the real part of real numbers, which is themselves."""
    x = unlisted(val)
    return x if is_tensor(x) else np.real(x)


@function("imag")
def imag(val):
    """imag(val): the imaginary part of real numbers, zeros without derivative."""
    x = unlisted(val)
    return wrap(np.zeros_like(value_of(x))) if is_tensor(x) else np.imag(x)


def _flag(name):
    function_of_numpy = getattr(np, name)

    def test(x):
        return steering_tensor(function_of_numpy, x)

    test.__name__ = name
    test.__doc__ = f"{name}(x): NumPy's test, element by element; a boolean tensor, not recorded."
    return function(name)(test)


for _name in ("isnan", "isinf", "isfinite", "signbit", "logical_not"):
    _flag(_name)
