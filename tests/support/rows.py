"""What the derived tests of a row of the table are made of.

A row is judged by three readings of its slopes: the expressions evaluated by NumPy, the complex
step (or differences) of the NumPy function that the row names, and the compiled adjoint.
"""

import ctypes
import importlib
import types

import numpy as np
import scipy.special

import tapegrad as tg
from tapegrad._core.ops.sample_inputs import points
from tapegrad._core.ops.table import TABLE, Pointwise
from tapegrad._core.sweep import kernels

#: Those with a public function. `test_complex` tests parts of complex functions,
#: `test_scipy_probability` functions of SciPy.
ROWS = [op for op in TABLE.values() if isinstance(op, Pointwise)]
ROWS = [op for op in ROWS if "complex_" not in op.name and not op.apart]
NAMES = [op.name for op in ROWS]

_SPECIAL = dict(
    sigmoid=scipy.special.expit,
    **{
        n: getattr(scipy.special, n)
        for n in "erf erfc gamma gammaln digamma polygamma i0 i1".split()
    },
)


def tanh_slope(x, y):
    """The derivative of y = tanh x, from x alone where y is nearly ±1."""
    e = np.exp(-2.0 * np.absolute(x))
    return np.where(1.0 - y * y < 0.001, 4.0 * e / (1.0 + e) ** 2, 1.0 - y * y)


def sigmoid_slope(x, y):
    return np.where(y > 0.9995, np.exp(-x) * y * y, y * (1.0 - y))


_SPECIAL |= {one.__name__: one for one in (tanh_slope, sigmoid_slope)}
#: What `np` means in an expression of the table.
NUMPY = types.SimpleNamespace(**{**vars(np), **_SPECIAL})

#: Functions with a complex loop that is no analytic continuation.
_NOT_ANALYTIC = ("absolute", "sign", "rint")
_STEP = 1e-30


def numpy_function(op):
    """The NumPy or SciPy function that the row names."""
    module, _, name = op.numpy.rpartition(".")
    return getattr(importlib.import_module(module), name)


def value(op, *inputs):
    """The value that the NumPy function of the row gives."""
    with np.errstate(all="ignore"):
        return numpy_function(op)(*inputs)


def expression(op, text, inputs, out, **more):
    """An expression of the table, evaluated by NumPy and given the shape of the output."""
    names = dict(zip(op.inputs, inputs, strict=True), out=out, np=NUMPY, select=np.where, **more)
    with np.errstate(all="ignore"):
        result = eval(text, names)  # the text is the table's
    return np.broadcast_to(np.asarray(result), np.shape(out))


def partials(op, *inputs):
    """The slopes by the row's own expressions."""
    out = value(op, *inputs)
    return [expression(op, text, inputs, out) for text in op.partials]


def varies(op, j):
    """Whether an input takes more than one value in its domain (orders of polygamma do not)."""
    return op.domain[j][0] < op.domain[j][1]


def measured_slope(op, j, *inputs):
    """Slope to input j without the table: complex step, else five points; and its tolerance."""
    if op.name not in _NOT_ANALYTIC:
        try:
            stepped = list(inputs)
            stepped[j] = inputs[j] + 1j * _STEP
            with np.errstate(all="ignore"):
                return np.imag(numpy_function(op)(*stepped)) / _STEP, 1e-12
        except TypeError:  # no complex loop
            pass

    def at(shift):
        moved = list(inputs)
        moved[j] = inputs[j] + shift
        return value(op, *moved)

    h = 3e-4
    five = 8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))
    return five / (12 * h), 1e-8


def check_value(op, rng):
    """The row's value expression against the NumPy function that it names."""
    inputs = points(op, (200,), rng)
    out = value(op, *inputs)
    np.testing.assert_allclose(expression(op, op.value, inputs, out), out, rtol=1e-14)


def check_partials(op, rng):
    """The row's slope expressions against measured slopes."""
    inputs = points(op, (200,), rng)
    for j, slope in enumerate(partials(op, *inputs)):
        if varies(op, j):
            measured, tolerance = measured_slope(op, j, *inputs)
            np.testing.assert_allclose(slope, measured, rtol=tolerance, atol=tolerance)


def run_kernel(op, mask, inputs, out, adjoint):
    """Adjoints of the inputs by the compiled kernel, which adds to ones."""
    width = out.dtype.itemsize
    arrays = [np.ascontiguousarray(a) for a in (*inputs, out, adjoint)]
    targets = [np.ones(len(out), out.dtype) for _ in inputs]
    addresses = np.array([a.ctypes.data for a in (*arrays, *targets)], np.int64)
    address = kernels.compile_adjoint(op, mask, width)
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(address)
    kernel(len(out), addresses.ctypes.data)
    return targets


def check_kernel(op, mask, rng):
    """The compiled adjoint against measured slopes, by itself."""
    inputs = points(op, (37,), rng)
    out = value(op, *inputs)
    adjoint = rng.normal(size=37)
    adjoint[::7] = 0.0
    for j, target in enumerate(run_kernel(op, mask, inputs, out, adjoint)):
        if not mask >> j & 1:
            assert np.all(target == 1.0)
        elif varies(op, j):
            measured, tolerance = measured_slope(op, j, *inputs)
            np.testing.assert_allclose(
                target, 1.0 + adjoint * measured, rtol=tolerance, atol=tolerance
            )


def unbroadcast(adjoint, shape):
    """Sum an adjoint back to the shape of a broadcast input."""
    adjoint = np.asarray(adjoint)
    adjoint = adjoint.sum(axis=tuple(range(adjoint.ndim - len(shape))))
    axes = tuple(k for k, n in enumerate(shape) if n == 1)
    return adjoint.sum(axis=axes, keepdims=True).reshape(shape)


def same(got, wanted, rtol=1e-12):
    """Equal in shape and, element by element, in value; NaN equals NaN."""
    assert np.shape(got) == np.shape(wanted)
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol * 1e-3)


def leaves(tree):
    return [np.asarray(x) for x in (tree if isinstance(tree, (tuple, list)) else (tree,))]


def both_ways(f, args, rng, rtol=1e-12):
    """w·(J·v) of forward mode and (w·J)·v of reverse mode, and the values."""
    tangents = tuple(np.asarray(rng.normal(size=np.shape(x)), np.result_type(x)) for x in args)
    value, pushed = tg.jvp(f, args, tangents)
    same_value, back = tg.vjp(f, *args)
    weights = [np.asarray(rng.normal(size=v.shape), v.dtype) for v in leaves(value)]
    for one, other in zip(leaves(value), leaves(same_value), strict=True):
        assert np.array_equal(one, other, equal_nan=True)
    for t, v in zip(leaves(pushed), leaves(value), strict=True):
        assert t.shape == v.shape and t.dtype == v.dtype
    shaped = weights if isinstance(value, (tuple, list)) else weights[0]
    forwards = sum(np.sum(w * t) for w, t in zip(weights, leaves(pushed), strict=True))
    backwards = sum(np.sum(a * v) for a, v in zip(back(shaped), tangents, strict=True))
    np.testing.assert_allclose(forwards, backwards, rtol=rtol, atol=rtol)
