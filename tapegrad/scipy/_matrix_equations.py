"""Linear equations under `scipy.linalg`, with SciPy's arguments and errors."""

from __future__ import annotations

from .._core.operations.triangular_equations import solve_triangular as solve_columns
from .._core.tensor.copies import unlisted
from .._core.tensor.values import shape_of
from ._differentiable import differentiable, finite

#: What `trans=` says, as a number.
_TRANSPOSES = {"N": 0, "T": 1, "C": 2}


def operands(name: str, check_finite: bool, *arrays) -> list:
    """Operands, refused if they are not finite and that is to be checked."""
    return [finite(name, x) if check_finite else unlisted(x) for x in arrays]


def of_columns(equation, a, b):
    """The solution of an equation of `a` and matrices `b`, with as many axes, for vectors too."""
    is_vector = len(shape_of(b)) == 1
    b = b[..., None] if is_vector else b
    ndim = max(len(shape_of(a)), len(shape_of(b)))
    a, b = (x[(None,) * (ndim - len(shape_of(x)))] for x in (a, b))
    x = equation(a, b)
    return x[..., 0] if is_vector else x


@differentiable("linalg.solve_triangular")
def solve_triangular(
    a, b, trans=0, lower=False, unit_diagonal=False, overwrite_b=False, check_finite=True
):
    a, b = operands("linalg.solve_triangular", check_finite, a, b)
    m, n = shape_of(a), shape_of(b)
    if len(m) < 2 or m[-1] != m[-2]:
        raise ValueError("expected square matrix")
    if not n or n[-1 if len(n) == 1 else -2] != m[-1]:
        raise ValueError(f"shapes of a {m} and b {n} are incompatible")
    trans = _TRANSPOSES.get(trans, trans)
    static = {"trans": int(trans), "lower": bool(lower), "unit_diagonal": bool(unit_diagonal)}
    return of_columns(lambda a, b: solve_columns(a, b, **static), a, b)
