"""Functions without derivative, and those that take no recorded values."""

from __future__ import annotations

import importlib
import math

import numpy as np

from ..tensor import runtime as rt
from ..tensor.callers import ARRAY_ALONE, KINDS, name_of_ufunc, users_line
from ..tensor.callers import OF_NUMPY as PLACES_OF_NUMPY
from ..tensor.conversions import without_derivative
from ..tensor.copies import unlisted
from ..tensor.registry import OF_NUMPY, function
from ..tensor.trace import (
    fixed,
    learned,
    lost_derivative,
    name_of,
    named,
    refuse,
    steered,
    tensor_like,
)
from ..tensor.values import differentiates, is_recorded, is_tensor, value_of, wrap

# --- without derivative ---------------------------------------------------------------------------
# Functions without derivative, and values that stand-ins need in programs.


# --- NumPy's result where nothing is recorded, converted to ours ----------------------------------


def unrecorded(numpy_function, *operands, **keywords):
    """A NumPy function of operands without derivative: a tensor if an operand is one."""
    name = numpy_function.__name__
    for key, value in keywords.items():
        if differentiates(value):
            raise lost_derivative(
                f"tapegrad.{name}: {key} is recorded, so its derivative would be lost; give it as "
                f"{key}=t.detach() if no derivative is needed",
                value,
            )
    keywords = {key: fixed(value, f"{name}()") for key, value in keywords.items()}
    made = steered(numpy_function, *operands, **keywords)
    if isinstance(made, tuple):
        return tuple([tensor_like(part, *operands) for part in made])
    return tensor_like(made, *operands)


# --- Functions without derivative that take several arrays, give text or write files --------------


# --- indices ----------------------------------------------------------------------------------


@named("without_derivative.lexsorted")
def _lexsorted(*keys, axis):
    return np.lexsort(keys, axis)


@function("lexsort")
def lexsort(keys, axis=-1):
    """Return the indices that sort by several keys. They have no derivative.

    Parameters
    ----------
    keys : sequence of array_like
        The keys, the most significant last.
    """
    if not isinstance(keys, (list, tuple)):
        return tensor_like(steered(np.lexsort, keys, axis=axis), keys)
    keys = [unlisted(key) for key in keys]
    return tensor_like(steered(_lexsorted, *keys, axis=axis), *keys)


@named("without_derivative.raveled")
def _raveled(*indices, dims, mode, order):
    return np.ravel_multi_index(indices, dims, mode, order)


@function("ravel_multi_index")
def ravel_multi_index(multi_index, dims, mode="raise", order="C"):
    """Convert indices along each axis to indices of the flattened array.

    Parameters
    ----------
    multi_index : tuple of array_like of ints
        The indices along each axis.
    dims : tuple of ints
        The shape of the array.
    mode : {"raise", "wrap", "clip"}, optional
                How indices out of range are treated.
    order : {"C", "F"}, optional
        The order in which the array is flattened.
    """
    parts = [unlisted(part) for part in multi_index]
    made = steered(_raveled, *parts, dims=dims, mode=mode, order=order)
    return tensor_like(made, *parts)


@function("fix")
def fix(x, out=None):
    """Round towards zero. The derivative is zero."""
    return np.trunc(x) if out is None else np.trunc(x, out=out)


@function("real_if_close")
def real_if_close(a, tol=100):
    """Return the operand, without imaginary parts that are close to zero.

    Parameters
    ----------
    tol : number, optional
        How close, as in NumPy. It has no effect on tensors.
    """
    return unlisted(a) if is_tensor(unlisted(a)) else np.real_if_close(a, tol)


_AS_NUMPY = """Do what `numpy.{name}` does. The result has no derivative.

Parameters
----------
*args, **kwargs
    The arguments of NumPy's function after the array.

Returns
-------
Tensor or tuple of Tensors
    Integers.
"""


def _method(name):
    def method(self, *args, **kwargs):
        return getattr(np, name)(self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = _AS_NUMPY.format(name=name)
    return method


METHODS = {name: _method(name) for name in ("nonzero", "searchsorted", "argpartition")}


# --- text and files ---------------------------------------------------------------------------


def _text(name):
    def text(a, *args, **kwargs):
        learned(a, f"{name}()")
        return getattr(np, name)(value_of(a), *args, **kwargs)

    text.__name__ = name
    text.__doc__ = f"{name}(a, …): NumPy's text of the value."
    return text


def _saver(name):
    def save(*args, **kwargs):
        refuse(f"np.{name}() writes a file", faithful=True)
        values = {key: value_of(value) for key, value in kwargs.items()}
        return getattr(np, name)(*map(value_of, args), **values)

    save.__name__ = name
    save.__doc__ = f"{name}(…): NumPy's {name} of the values; no part of a program."
    return save


for _name in ("array2string", "array_repr", "array_str"):
    OF_NUMPY[getattr(np, _name)] = _text(_name)
for _name in ("save", "savetxt", "savez", "savez_compressed"):
    OF_NUMPY[getattr(np, _name)] = _saver(_name)


def _to_file(self, fid, sep="", format="%s"):
    """Write the values to a file, as `numpy.ndarray.tofile` does. Programs cannot do this.

    Parameters
    ----------
    fid : file or path
        The file.
    sep : str, optional
        The separator of text; without it bytes are written.
    format : str, optional
        The format of an element in text.

    Returns
    -------
    None
    """
    refuse("tofile() writes a file", faithful=True)
    np.asarray(value_of(self)).tofile(fid, sep, format)


METHODS["tofile"] = _to_file
for _name, _method_of in METHODS.items():
    setattr(rt.Tensor, _name, _method_of)


# --------------------------------------------------------------------------------------------------
# Values without derivative that the stand-ins of `math`, SciPy and `random` need in programs.
# They have names in files, so they are here, where every process that loads a file has them.


@named("math.fsum")
def sum_of_floats(numbers):
    """`math.fsum`, NaN where that raises."""
    try:
        return np.float64(math.fsum(numbers))
    except (ValueError, OverflowError):
        return np.float64(math.nan)


@named("math.sumprod")
def sum_of_products(p, q):
    """`math.sumprod`, NaN where that raises."""
    try:
        return np.float64(math.sumprod(p.tolist(), q.tolist()))
    except (ValueError, OverflowError):
        return np.float64(math.nan)


@named("math.fma")
def multiplied_and_added(x, y, z):
    """`math.fma`, NaN where that raises."""
    try:
        return np.float64(math.fma(float(x), float(y), float(z)))
    except (ValueError, OverflowError):
        return np.float64(math.nan)


@named("math.isclose")
def are_close(a, b, rel_tol, abs_tol):
    """`math.isclose`."""
    return np.bool_(math.isclose(a, b, rel_tol=float(rel_tol), abs_tol=float(abs_tol)))


@named("scipy.all_finite")
def all_finite(*parts):
    """Whether no element is infinite or NaN, of an array or of both parts of a complex one."""
    return np.bool_(all(np.isfinite(x).all() for x in parts))


@named("scipy.any_zero")
def any_zero(*parts):
    """Whether an element is 0, of an array or of both parts of a complex one."""
    return np.any(np.logical_and.reduce([np.equal(x, 0.0) for x in parts]))


@named("scipy.asked_of_matrix")
def asked_of_matrix(*parts, name, **keywords):
    """A property of a matrix by a function of `scipy.linalg`, such as whether it is symmetric."""
    a = parts[0] if len(parts) == 1 else parts[0] + 1j * parts[1]
    return np.asarray(getattr(importlib.import_module("scipy.linalg"), name)(a, **keywords))


@named("random.accepted")
def accepted_parameters(*parameters, name):
    """Whether a distribution of NumPy accepts these parameters."""
    try:
        getattr(np.random.default_rng(0), name)(*parameters)
    except (ValueError, OverflowError):
        return np.bool_(False)
    return np.bool_(True)


# --- unsupported ----------------------------------------------------------------------------------
# NumPy functions that take no recorded values.

#: Functions that write to their first argument.
_WRITING = frozenset("copyto put place putmask put_along_axis fill_diagonal".split())


def unsupported(function, operands) -> TypeError:
    """The error where a function has no derivative here."""
    name = name_of(function)
    if isinstance(function, np.ufunc) and (of_scipy := name_of_ufunc(function)) is not None:
        return without_derivative(of_scipy, operands)
    advice = PLACES_OF_NUMPY.get(name) or KINDS["not derived"]
    return lost_derivative(
        f"tapegrad: {name}() is not supported on recorded tensors ({users_line()}): {advice}; or "
        f"use {ARRAY_ALONE}",
        operands,
    )


def answered(function, args: tuple, kwargs: dict):
    """NumPy's result for tensors of which none is recorded; else an error.

    Its arrays are tensors, as those of functions that have derivatives. A result that shares memory
    with an argument is refused: a write with a derivative to one of the two would not be seen in
    the other.
    """
    name = name_of(function)
    tensors = [leaf for leaf in _leaves((args, kwargs)) if is_tensor(leaf)]
    if name in _WRITING or any(map(is_recorded, tensors)):
        raise unsupported(function, tensors)
    made = function(*_valued(args), **_valued(kwargs))
    for part in _leaves(made):
        shared = isinstance(part, np.ndarray) and any(
            np.may_share_memory(part, value_of(t)) for t in tensors if type(t) is rt.Array
        )
        if shared:
            raise unsupported(function, tensors)
    return _wrapped(made)


def _leaves(tree):
    """The leaves of nested lists, tuples and dicts."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if not isinstance(tree, (list, tuple)):
        return [tree]
    return [leaf for item in tree for leaf in _leaves(item)]


def _valued(tree):
    if isinstance(tree, dict):
        return {key: _valued(item) for key, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        made = [_valued(item) for item in tree]
        return type(tree)(*made) if hasattr(tree, "_fields") else type(tree)(made)
    return value_of(tree)


def _wrapped(made):
    """Arrays and numbers of a result as tensors; complex ones and objects as they are."""
    if isinstance(made, (list, tuple)):
        parts = [_wrapped(part) for part in made]
        return type(made)(*parts) if hasattr(made, "_fields") else type(made)(parts)
    if isinstance(made, (np.ndarray, np.generic)) and made.dtype.kind in "fiub":
        return wrap(made)
    return made
