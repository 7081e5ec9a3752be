"""SciPy functions that have a derivative, with SciPy's arguments, for recorded values."""

from __future__ import annotations

import functools
import importlib

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.elementwise_functions import SEVERAL, wofz
from .._core.operations.without_derivative import all_finite
from .._core.ops.table import TABLE, Pointwise
from .._core.tensor import runtime as rt
from .._core.tensor.apply import apply
from .._core.tensor.copies import unlisted
from .._core.tensor.registry import OF_NUMPY, into
from .._core.tensor.trace import fixed, learned, steered
from .._core.tensor.values import (
    imag_part,
    is_complex,
    is_recorded,
    is_tensor,
    real_part,
    shape_of,
    value_of,
)

#: By name below `scipy`: element-wise operations that stand for SciPy's, and further functions.
OURS: dict = {
    name.removeprefix("scipy."): OF_NUMPY[name.rpartition(".")[2]]
    for op in TABLE.values()
    if isinstance(op, Pointwise)
    for name in op.functions
    if name.startswith("scipy.")
}
OURS |= {f"special.{name}": PUBLIC[name] for name in ("softmax", "log_softmax")}
OURS |= {f"special.{name}": function for name, function in SEVERAL.items()}
OURS["special.wofz"] = wofz


#: A decorator: a function stands for SciPy's of a name.
differentiable = into(OURS)


def in_package(package: str):
    """A decorator: a function stands for SciPy's of its own name."""

    def enter(function):
        return differentiable(f"{package}.{function.__name__}")(function)

    return enter


def holds(answer, what: str) -> bool:
    """A decision by values, which programs have to come to again."""
    return bool(fixed(answer, what))


def root(x):
    """A square root with derivative 0 at 0."""
    is_none = x == 0.0
    return PUBLIC["where"](is_none, 0.0, PUBLIC["sqrt"](PUBLIC["where"](is_none, 1.0, x)))


def as_array(value):
    """A value of any kind as an array or a tensor of floats."""
    value = unlisted(value)
    return value if is_tensor(value) else np.asarray(value, dtype=float)


def element_wise(function):
    """Note of a function that it is applied to the elements of arrays one by one, for graphs."""
    function.is_element_wise = True
    return function


def of_functions(function):
    """Note of a function that it calls functions of the user's, which may read recorded values."""
    function.calls_users = True
    return function


@functools.cache
def is_before(version: str) -> bool:
    """Whether the installed SciPy is older than a version, in which a function changed."""
    return np.lib.NumpyVersion(importlib.import_module("scipy").__version__) < version


def real_parts(x) -> list:
    """The parts of an operand: itself if it is real, or both parts if it is complex."""
    return [real_part(x), imag_part(x)] if is_complex(x) else [x]


def _is_finite(parts):
    """Whether all elements are finite; programs compare a sum, which takes no Python."""
    if rt.trace() is None or not any(map(is_recorded, parts)):
        return steered(all_finite, *parts)
    total = sum(PUBLIC["sum"](0.0 * part) for part in parts)
    return total == 0.0


def finite(name: str, x):
    """An operand, refused if it is not finite, by programs too."""
    x = unlisted(x)
    answer = _is_finite(real_parts(x))
    learned(answer, f"tapegrad.scipy.{name}()")
    if not value_of(answer):
        raise ValueError("array must not contain infs or NaNs")
    return x


def unsupported(name: str, argument: str, value):
    return TypeError(
        f"tapegrad.scipy.{name}: {argument}={value!r} has no derivative yet; leave it at its "
        "default, or compute with NumPy's functions on the tensor"
    )


@differentiable("special.logsumexp")
def logsumexp(a, axis=None, b=None, keepdims=False, return_sign=False):
    if return_sign:
        raise unsupported("special.logsumexp", "return_sign", return_sign)
    return PUBLIC["logsumexp"](a, axis=axis, b=b, keepdims=keepdims)


@differentiable("special.zeta")
@element_wise
def zeta(x, q=None, out=None):
    if out is not None:
        raise unsupported("special.zeta", "out", out)
    return apply("riemann_zeta", x) if q is None else apply("zeta", x, q)


@differentiable("special.multigammaln")
@element_wise
def multigammaln(a, d):
    if not np.isscalar(d) or np.floor(d) != d:
        raise ValueError("d should be a positive integer (dimension)")
    a = a if is_tensor(a) else np.asarray(a)
    if (a <= 0.5 * (d - 1)).any():
        raise ValueError(f"condition a ({a!r}) > 0.5 * (d-1) ({0.5 * (d - 1)}) not met")
    parts = [apply("gammaln", a - 0.5 * j) for j in range(int(d))]
    return sum(parts, 0.25 * d * (d - 1) * np.log(np.pi))


@differentiable("linalg.norm")
def norm(a, ord=None, axis=None, keepdims=False, check_finite=True):
    a = finite("linalg.norm", a) if check_finite else a
    return PUBLIC["norm"](a, ord=ord, axis=axis, keepdims=keepdims)


@differentiable("integrate.trapezoid")
def trapezoid(y, x=None, dx=1.0, axis=-1):
    return PUBLIC["trapezoid"](y, x=x, dx=dx, axis=axis)


# --- stacks of matrices ---------------------------------------------------------------------------
# SciPy's functions of one matrix applied to the matrices of stacks, one after the other.

#: Functions of `scipy.linalg` that take stacks since SciPy 1.16.
_STACKED = frozenset(
    "cho_factor cho_solve cholesky coshm cosm eig eigh eigvals eigvalsh expm_frechet "
    "fractional_matrix_power inv logm lstsq lu_factor lu_solve null_space orth "
    "orthogonal_procrustes pinv pinvh polar qr signm sinhm sinm solve solve_banded "
    "solve_continuous_are solve_continuous_lyapunov solve_discrete_are solve_discrete_lyapunov "
    "solve_lyapunov solve_sylvester solve_triangular solveh_banded sqrtm svd svdvals tanhm "
    "tanm".split()
)


def is_of_matrices(name: str) -> bool:
    """Whether a function of the installed SciPy takes no stacks, though that of others does."""
    module, _, function = name.rpartition(".")
    return module == "linalg" and function in _STACKED and is_before("1.16.0")


def holds_stack(arguments) -> bool:
    """Whether arguments, or what is listed in them, are stacks or complex tensors."""
    return any(
        holds_stack(x)
        if isinstance(x, (tuple, list))
        else getattr(x, "ndim", 0) > 2 or isinstance(x, rt.ComplexTensor)
        for x in arguments
    )


def is_stack(x) -> bool:
    """Whether an operand has more axes than a matrix."""
    return len(shape_of(x)) > 2


def of_stacks(name: str, function, *operands):
    """The results of `function` for each matrix of stacks that broadcast, stacked.

    Results of a function with several outputs are a list, as in SciPy.
    """
    shapes = [shape_of(x) for x in operands]
    batch = np.broadcast_shapes(*[shape[:-2] for shape in shapes])
    if 0 in batch:
        raise ValueError(f"`{name}` does not support zero-size batches.")
    wide = [
        PUBLIC["broadcast_to"](x, (*batch, *shape[-2:]))
        for x, shape in zip(operands, shapes, strict=True)
    ]
    found = [function(*[x[at] for x in wide]) for at in np.ndindex(batch)]
    if not isinstance(found[0], tuple):
        return _side_by_side(found, batch)
    return [_side_by_side(results, batch) for results in zip(*found, strict=True)]


def _side_by_side(results, batch):
    if results[0] is None:
        return np.full(batch, None)
    made = PUBLIC["stack"](list(results))
    return PUBLIC["reshape"](made, (*batch, *shape_of(made)[1:]))
