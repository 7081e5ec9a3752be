"""Element-wise functions: one for every operation of the table, floats split, several results."""

from __future__ import annotations

import functools
import inspect

import numpy as np

from ..codegen.vector_math import OF_SCIPY
from ..ops.holomorphic_functions import NAMES
from ..ops.table import TABLE, Pointwise, words_of
from ..tensor import runtime as rt
from ..tensor.apply import ELEMENTWISE_OF_COMPLEX, apply
from ..tensor.copies import copy_tensor, unlisted
from ..tensor.operators import divided, power, written_to
from ..tensor.registry import OF_NUMPY, PUBLIC, function
from ..tensor.trace import lost_derivative, named, steered, steering_tensor, tensor_like
from ..tensor.values import (
    combined,
    differentiates,
    dtype_of,
    is_complex,
    is_tensor,
    value_of,
    wrap,
)
from .complex_operations import parts
from .without_derivative import unrecorded

# --- Examples in the docstrings of element-wise operations: a point, and the gradient there -------


#: Arguments and partial derivatives, rounded to six decimals, by the name of the operation.
EXAMPLES: dict[str, tuple[str, str]] = {
    "add": ("3.0, 4.0", "(1.0, 1.0)"),
    "subtract": ("3.0, 4.0", "(1.0, -1.0)"),
    "multiply": ("3.0, 4.0", "(4.0, 3.0)"),
    "divide": ("3.0, 2.0", "(0.5, -0.75)"),
    "remainder": ("7.0, 3.0", "(1.0, -2.0)"),
    "fmod": ("7.0, 3.0", "(1.0, -2.0)"),
    "negative": ("3.0", "-1.0"),
    "square": ("3.0", "6.0"),
    "reciprocal": ("2.0", "-0.25"),
    "absolute": ("-3.0", "-1.0"),
    "copysign": ("3.0, -1.0", "(-1.0, 0.0)"),
    "degrees": ("1.0", "57.29578"),
    "radians": ("1.0", "0.017453"),
    "sqrt": ("4.0", "0.25"),
    "cbrt": ("8.0", "0.083333"),
    "exp": ("0.0", "1.0"),
    "exp2": ("1.0", "1.386294"),
    "expm1": ("0.0", "1.0"),
    "log": ("2.0", "0.5"),
    "log2": ("1.0", "1.442695"),
    "log10": ("1.0", "0.434294"),
    "log1p": ("1.0", "0.5"),
    "logaddexp": ("0.0, 0.0", "(0.5, 0.5)"),
    "logaddexp2": ("0.0, 0.0", "(0.5, 0.5)"),
    "sin": ("0.0", "1.0"),
    "cos": ("1.0", "-0.841471"),
    "tan": ("0.0", "1.0"),
    "sinc": ("2.0", "0.5"),
    "arcsin": ("0.0", "1.0"),
    "arccos": ("0.0", "-1.0"),
    "arctan": ("1.0", "0.5"),
    "arctan2": ("1.0, 2.0", "(0.4, -0.2)"),
    "hypot": ("3.0, 4.0", "(0.6, 0.8)"),
    "sinh": ("0.0", "1.0"),
    "cosh": ("1.0", "1.175201"),
    "tanh": ("0.0", "1.0"),
    "arcsinh": ("0.0", "1.0"),
    "arccosh": ("2.0", "0.57735"),
    "arctanh": ("0.5", "1.333333"),
    "maximum": ("3.0, 4.0", "(0.0, 1.0)"),
    "minimum": ("3.0, 4.0", "(1.0, 0.0)"),
    "fmax": ("3.0, 4.0", "(0.0, 1.0)"),
    "fmin": ("3.0, 4.0", "(1.0, 0.0)"),
    "sign": ("2.0", "0.0"),
    "floor": ("2.5", "0.0"),
    "ceil": ("2.5", "0.0"),
    "rint": ("2.6", "0.0"),
    "trunc": ("2.5", "0.0"),
    "heaviside": ("0.0, 0.5", "(0.0, 1.0)"),
    "floor_divide": ("7.0, 3.0", "(0.0, 0.0)"),
    "sigmoid": ("0.0", "0.25"),
    "erf": ("1.0", "0.415107"),
    "erfc": ("1.0", "-0.415107"),
    "gamma": ("2.0", "0.422784"),
    "gammaln": ("2.0", "0.422784"),
    "digamma": ("2.0", "0.644934"),
    "polygamma": ("1.0, 2.0", "(0.0, -0.404114)"),
    "i0": ("1.0", "0.565159"),
    "i1": ("0.0", "0.5"),
}


# --- Every element-wise operation of the table as a function, made in one loop --------------------


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


# --- Ufuncs of `scipy.special` with several results, each an element-wise operation ---------------


def _several(name: str, parts: list[str]):
    """The function that computes all results."""

    def operation(*operands):
        count = OF_SCIPY[parts[0]].inputs
        if len(operands) != count:  # more would be out=
            raise TypeError(
                f"tapegrad: scipy.special.{name}() got {len(operands)} arguments; it takes {count}"
            )
        return tuple([apply(part, *operands) for part in parts])

    operation.__name__ = operation.__qualname__ = name
    operation.is_element_wise = True  # type: ignore[attr-defined]
    return operation


_PARTS: dict[str, list[str]] = {}
for _part, _found in OF_SCIPY.items():
    if _found.outputs and not _found.of_complex:
        _PARTS.setdefault(_found.name, []).append(_part)
#: By name below `scipy.special`.
SEVERAL = {name: _several(name, parts) for name, parts in _PARTS.items()}
OF_NUMPY.update(SEVERAL)


# --- Floats split and combined: `frexp`, `ldexp`, `modf`; their neighbours, `nextafter` -----------


#: Beyond this many doublings every number is 0 or infinite, by the size of its dtype.
_MOST = {8: 2200, 4: 300}


@function("ldexp")
def ldexp(x1, x2):
    """Compute x1 · 2ˣ², element by element.

    The derivative is 2ˣ².

    Parameters
    ----------
    x2 : array_like of ints
        The exponents, which have no derivative.

    Raises
    ------
    TypeError
        If `x2` is recorded.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.ldexp(tg.tensor([1.0, 3.0]), [3, -1])
    tensor([8. , 1.5])
    """
    x, power = unlisted(x1), unlisted(x2)
    if dtype_of(power).kind not in "iub":
        raise TypeError(
            f"tapegrad.ldexp: x2 has dtype {dtype_of(power)}; it must hold integers: a power of 2 "
            "with a derivative is x1 * np.exp2(x2)"
        )
    if not differentiates(x):
        return steering_tensor(np.ldexp, x, power)
    size = dtype_of(x).itemsize
    for part in range(3):  # one factor would be infinite or 0 before the product is
        x = apply("multiply", x, steered(_doublings, power, part=part, size=size))
    return x


@named("parts.doublings")
def _doublings(power, part, size):
    """A third of a power of two, as a float of a size."""
    power = np.clip(np.asarray(power, np.int64), -_MOST[size], _MOST[size])
    third = power // 3
    return np.ldexp(np.ones((), f"f{size}"), power - 2 * third if part == 2 else third)


@function("frexp")
def frexp(x):
    """Decompose x = m · 2ᵉ, with ½ ≤ |m| < 1 and integers e.

    Returns
    -------
    tuple
        The mantissas m, whose derivative is 2⁻ᵉ, and the exponents e, which have none.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.frexp(tg.tensor([3.0, -0.5]))
    (tensor([ 0.75, -0.5 ]), tensor([2, 0], dtype=int32))
    """
    x = unlisted(x)
    mantissa, power = steered(np.frexp, x)
    power = tensor_like(power, x)
    if not differentiates(x):
        return tensor_like(mantissa, x), power
    return ldexp(x, steered(np.negative, power)), power


@function("modf")
def modf(x):
    """Separate the fractional from the integral part; both have the sign of x.

    Returns
    -------
    tuple
        The fractional part, with derivative 1, and the integral part, with derivative 0.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.modf(tg.tensor([1.5, -0.25]))
    (tensor([ 0.5 , -0.25]), tensor([ 1., -0.]))
    """
    x = unlisted(x)
    if not differentiates(x):
        return steering_tensor(np.modf, x)
    nothing = apply("copysign", 0.0, x)
    fraction = apply("where", steered(np.isinf, x), nothing, apply("fmod", x, 1.0))
    return fraction, apply("trunc", x)


@function("positive")
def positive(x):
    """Return +x, a new tensor."""
    x = unlisted(x)
    return apply("multiply", x, 1.0) if differentiates(x) else steering_tensor(np.positive, x)


@function("conjugate")
def conjugate(x):
    """Return the complex conjugate; for a real operand, a copy."""
    x = unlisted(x)
    return apply("multiply", x, 1.0) if differentiates(x) else steering_tensor(np.conjugate, x)


PUBLIC["conj"] = conjugate


@function("spacing")
def spacing(x):
    """Return the distance from x to the next float away from 0. The derivative is zero."""
    return steering_tensor(np.spacing, unlisted(x))


@function("nextafter")
def nextafter(x1, x2):
    """Return the float next to x1 in the direction of x2.

    Raises
    ------
    TypeError
        If an operand is recorded: the step is one of rounding and has no derivative.
    """
    if differentiates(x1, x2):
        raise lost_derivative(
            "tapegrad.nextafter: an argument is recorded, and a step from float to float has no "
            "derivative; use x.detach(), or x itself, whose derivative is that of the result",
            (x1, x2),
        )
    return steering_tensor(np.nextafter, unlisted(x1), unlisted(x2))


# --------------------------------------------------------------------------------------------------
# Special functions of complex tensors, by the parts that `ops.holomorphic_functions` declares.


#: Those whose operations of real numbers have other names.
_NAMED = {"psi": "digamma"}


def _of_complex(name: str):
    """The function of a complex operand."""

    def how(z):
        x, y = parts(z)
        return combined(apply(f"complex_{name}_real", x, y), apply(f"complex_{name}_imag", x, y))

    return how


for _name in NAMES:
    ELEMENTWISE_OF_COMPLEX[_NAMED.get(_name, _name)] = _of_complex(_name)


def wofz(z):
    """Faddeeva's function w, which is complex for real numbers, too."""
    z = unlisted(z)
    return ELEMENTWISE_OF_COMPLEX["wofz"](z if is_complex(z) else combined(z, 0.0 * z))


OF_NUMPY["wofz"] = wofz
