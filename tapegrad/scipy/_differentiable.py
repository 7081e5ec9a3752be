"""Functions of SciPy's that have a derivative, with SciPy's arguments, for recorded values."""

from __future__ import annotations

from .._core.operations import PUBLIC
from .._core.operations.named_values import all_finite
from .._core.ops.table import TABLE, Pointwise
from .._core.tensor.copies import unlisted
from .._core.tensor.trace import learned, steered
from .._core.tensor.values import shape_of, value_of

#: By name below `scipy`: element-wise operations that stand for SciPy's, and those beside.
OURS: dict = {
    op.numpy.removeprefix("scipy."): PUBLIC[op.name]
    for op in TABLE.values()
    if isinstance(op, Pointwise) and op.numpy.startswith("scipy.")
}
OURS |= {f"special.{name}": PUBLIC[name] for name in ("softmax", "log_softmax")}
OURS["special.psi"] = PUBLIC["digamma"]


def differentiable(name: str):
    def enter(function):
        OURS[name] = function
        return function

    return enter


def finite(name: str, x):
    """An operand, refused if it is not finite, by programs too."""
    x = unlisted(x)
    finite = steered(all_finite, x)
    learned(finite, f"tapegrad.scipy.{name}()")
    if not value_of(finite):
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


@differentiable("linalg.solve")
def solve(
    a,
    b,
    lower=False,
    overwrite_a=False,
    overwrite_b=False,
    check_finite=True,
    assume_a=None,
    transposed=False,
):
    for argument, value in (("lower", lower), ("transposed", transposed)):
        if value:
            raise unsupported("linalg.solve", argument, value)
    if assume_a not in (None, "gen", "general"):
        raise unsupported("linalg.solve", "assume_a", assume_a)
    if check_finite:
        a, b = finite("linalg.solve", a), finite("linalg.solve", b)
    if len(shape_of(unlisted(a))) != 2 or len(shape_of(unlisted(b))) not in (1, 2):
        raise TypeError(
            f"tapegrad.scipy.linalg.solve: the arguments have shapes {shape_of(unlisted(a))} and "
            f"{shape_of(unlisted(b))}; give one matrix and a vector or matrix, or use "
            "np.linalg.solve"
        )
    return PUBLIC["solve"](a, b)


@differentiable("linalg.cholesky")
def cholesky(a, lower=False, overwrite_a=False, check_finite=True):
    a = finite("linalg.cholesky", a) if check_finite else a
    return PUBLIC["cholesky"](a, upper=not lower)


@differentiable("linalg.norm")
def norm(a, ord=None, axis=None, keepdims=False, check_finite=True):
    a = finite("linalg.norm", a) if check_finite else a
    return PUBLIC["norm"](a, ord=ord, axis=axis, keepdims=keepdims)


@differentiable("integrate.trapezoid")
def trapezoid(y, x=None, dx=1.0, axis=-1):
    return PUBLIC["trapezoid"](y, x=x, dx=dx, axis=axis)
