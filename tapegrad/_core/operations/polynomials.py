"""Polynomials as vectors of coefficients, the highest power first: `polyval`, `polymul`, `polyfit`.

`np.poly1d` calls these functions if a coefficient is recorded.
"""

from __future__ import annotations

import numpy as np

from ..tensor.apply import apply
from ..tensor.copies import unlisted
from ..tensor.registry import alike, function
from ..tensor.trace import fixed, lost_derivative, named, steered
from ..tensor.values import (
    dtype_of,
    holds_tensors,
    is_complex,
    is_recorded,
    is_tensor,
    shape_of,
    tensor_of,
    value_of,
    value_of_complex,
    wrap,
)
from .convolving import convolve
from .cumulative import cumprod
from .general_eigenvalues import all_real, eigvals
from .inverses import inv
from .joining import concatenate, stack
from .least_squares import rank_of
from .linear_algebra import matmul
from .padding import trim_zeros
from .reductions import sum as sum_of
from .shapes import array_tensor, atleast_1d, broadcast_to, reshape
from .singular_values import qr, svdvals
from .solving import solve

#: So many powers are products one by one, more are running products.
FEW = 8


def _operand(p):
    """Coefficients of a `poly1d`, or a list as an array."""
    return p.coeffs if isinstance(p, np.poly1d) else unlisted(p)


def _is_plain(*operands) -> bool:
    return not any([is_recorded(x) for x in operands])


def _of_values(numpy_function, *operands, **kwargs):
    """NumPy's result for operands that are not recorded; tensors if one of them is one."""
    made = numpy_function(*[value_of_complex(x) for x in operands], **kwargs)
    if not any(map(holds_tensors, operands)):
        return made
    return tuple(map(wrap, made)) if isinstance(made, tuple) else wrap(made)


def _like(made, *given):
    """A result as a `poly1d` if an argument is one."""
    kind = next((type(p) for p in given if isinstance(p, np.poly1d)), None)
    return made if kind is None else kind(made)


# --- values and vectors of coefficients -------------------------------------------------------


@function("polyval", complex=alike)
def polyval(p, x):
    """Evaluate a polynomial by Horner's rule.

    Parameters
    ----------
    x : array_like or poly1d
        The points. A `poly1d` is composed with the polynomial.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.grad(lambda x: tg.polyval([1.0, 0.0, 2.0], x))(3.0)
    6.0
    """
    p = _operand(p)
    is_poly = isinstance(x, np.poly1d)
    x = x if is_poly else unlisted(x)
    if not is_poly and _is_plain(p, x):
        return _of_values(np.polyval, p, x)
    if not shape_of(p):
        raise TypeError(f"tapegrad.polyval: p is not a sequence of coefficients: {p!r}")
    made = 0 if is_poly else np.zeros_like(value_of_complex(x))[()]
    for k in range(len(p)):
        made = made * x + p[k]
    return made


def _padded(p, length: int):
    """Coefficients with zeros for higher powers."""
    missing = length - shape_of(p)[0]
    return concatenate([np.zeros(missing, dtype_of(p)), p]) if missing else p


def _pair(a, b):
    a, b = (atleast_1d(_operand(x)) for x in (a, b))
    length = max(len(a), len(b))
    return _padded(a, length), _padded(b, length)


@function("polyadd", complex=alike)
def polyadd(a1, a2):
    """Add two polynomials."""
    if _is_plain(_operand(a1), _operand(a2)):
        return _like(_of_values(np.polyadd, _operand(a1), _operand(a2)), a1, a2)
    a, b = _pair(a1, a2)
    return _like(a + b, a1, a2)


@function("polysub", complex=alike)
def polysub(a1, a2):
    """Subtract two polynomials."""
    if _is_plain(_operand(a1), _operand(a2)):
        return _like(_of_values(np.polysub, _operand(a1), _operand(a2)), a1, a2)
    a, b = _pair(a1, a2)
    return _like(a - b, a1, a2)


def _without_leading_zeros(p):
    p = trim_zeros(atleast_1d(p), "f")
    if shape_of(p)[0]:
        return p
    zero = np.zeros(1, dtype_of(p))
    return wrap(zero) if is_tensor(p) else zero


@function("polymul", complex=alike)
def polymul(a1, a2):
    """Multiply two polynomials.

    Leading coefficients that are zero are left out, and have no derivative.
    """
    a, b = _operand(a1), _operand(a2)
    if _is_plain(a, b):
        return _like(_of_values(np.polymul, a, b), a1, a2)
    return _like(convolve(_without_leading_zeros(a), _without_leading_zeros(b)), a1, a2)


@function("polydiv")
def polydiv(u, v):
    """Divide two polynomials.

    Parameters
    ----------
    u, v : array_like
        The coefficients of the dividend and the divisor, the highest power first.

    Returns
    -------
    tuple of Tensor or ndarray
        The coefficients of the quotient and of the remainder.
    """
    a, b = _operand(u), _operand(v)
    if _is_plain(a, b):
        return tuple(_like(part, u, v) for part in _of_values(np.polydiv, a, b))
    a, b = atleast_1d(a) + 0.0, atleast_1d(b) + 0.0
    count = max(len(a) - len(b) + 1, 0)
    dtype = np.result_type(dtype_of(a), dtype_of(b))
    quotient = wrap(np.zeros(max(count, 1), dtype))
    rest = (a if is_tensor(a) else wrap(a)).astype(dtype).copy()
    scale = 1.0 / b[0]
    for k in range(count):
        quotient[k] = scale * rest[k]
        rest[k : k + len(b)] -= quotient[k] * b
    zeros = int(fixed(steered(_leading_zeros, rest), "the degree of the remainder of polydiv()"))
    return _like(quotient, u, v), _like(rest[zeros:], u, v)


@named("polynomials.leading_zeros")
def _leading_zeros(rest):
    """The number of leading coefficients that NumPy's polydiv drops; one is kept."""
    is_zero = np.isclose(rest, 0, rtol=1e-14)
    return min(int(np.argmin(is_zero)) if not is_zero.all() else len(rest) - 1, len(rest) - 1)


@function("polyder", complex=alike)
def polyder(p, m=1):
    """Differentiate a polynomial.

    Parameters
    ----------
    m : int, optional
        The order of the derivative.
    """
    m, c = int(fixed(m, "polyder()")), _operand(p)
    if _is_plain(c) or m < 0:
        return _like(_of_values(np.polyder, c, m=m), p)
    for _ in range(m):
        c = c[:-1] * np.arange(len(c) - 1, 0, -1)
    return _like(c, p)


@function("polyint", complex=alike)
def polyint(p, m=1, k=None):
    """Integrate a polynomial.

    Parameters
    ----------
    m : int, optional
        The order of the integral.
    k : array_like, optional
        The constants of integration; by default 0.
    """
    m, c, k = int(fixed(m, "polyint()")), _operand(p), unlisted(k)
    if _is_plain(c, k) or m < 0:
        return _like(_of_values(lambda c, k: np.polyint(c, m, k), c, k), p)
    k = atleast_1d(0.0 if k is None else k)
    k = broadcast_to(k, (m,)) if len(k) == 1 and m > 1 else k
    if len(k) < m:
        raise ValueError(
            f"tapegrad.polyint: k has {len(k)} constants of integration; give one, or m={m}"
        )
    for n in range(m):
        c = concatenate([c / np.arange(len(c), 0, -1), k[n : n + 1]])
    return _like(c, p)


@function("poly", complex=alike)
def poly(seq_of_zeros):
    """Compute the coefficients of the polynomial with given zeros.

    Parameters
    ----------
    seq_of_zeros : array_like
        The zeros, or a square matrix that is not recorded, for its characteristic polynomial.
    """
    zeros = unlisted(seq_of_zeros)
    if _is_plain(zeros):
        return _of_values(np.poly, zeros)
    zeros = atleast_1d(zeros)
    if len(shape_of(zeros)) != 1:
        raise TypeError(
            f"tapegrad.poly: the zeros have shape {shape_of(zeros)}; the eigenvalues of a recorded "
            "matrix are not supported; give the zeros along one axis"
        )
    made = np.ones(1, dtype_of(zeros))
    for k in range(len(zeros)):
        edge = np.zeros(1, dtype_of(zeros))
        made = concatenate([made, edge]) - zeros[k] * concatenate([edge, made])
    return made if len(zeros) else 1.0


#: Where p'(r) is small compared with the sum of the magnitudes of its terms, zeros count as equal.
_EQUAL = {"float64": 1e-7, "float32": 1e-3}


@named("polynomials.standing")
def _what_forbids_slopes(p):
    """0 if every zero has a derivative, else which reason there is not."""
    p = np.asarray(p)
    if p[0] == 0.0 or p[-1] == 0.0:
        return 1
    found, slopes = np.roots(p), np.polyder(p)
    size = np.polyval(np.abs(slopes), np.abs(found))
    return 2 * int(np.any(np.abs(np.polyval(slopes, found)) <= _EQUAL[str(p.dtype)] * size))


_REASONS = (
    "a first or last coefficient is 0: leave it out where it always is",
    "zeros are equal, or nearly, and have no derivative",
)


@function("roots")
def roots(p):
    """Compute the zeros of a polynomial, as eigenvalues of its companion matrix.

    Returns
    -------
    Tensor, ComplexTensor or ndarray
        The zeros, complex unless all are real, in NumPy's order.

    Raises
    ------
    ValueError
        If `p` is recorded, and its first or last coefficient is zero, or zeros are so nearly equal
        that no digit of a derivative is right.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.jacobian(lambda p: tg.roots(p).real)(np.array([1.0, -3.0, 2.0])).round(6)
    array([[-4., -2., -1.],
           [ 1.,  1.,  1.]])
    """
    p = _operand(p)
    if _is_plain(p):
        return np.roots(value_of(p))
    if len(shape_of(p)) != 1:
        raise ValueError("Input must be a rank-1 array.")
    n = shape_of(p)[0] - 1
    if n < 1:
        return np.roots(value_of(p))
    reason = int(fixed(steered(_what_forbids_slopes, p), "the coefficients of roots()"))
    if reason:
        raise ValueError(
            f"tapegrad.roots: {_REASONS[reason - 1]}; use np.roots(p.detach()) if no derivative is "
            "needed"
        )
    first = reshape(-p[1:] / p[0], (1, n))
    found = eigvals(concatenate([first, np.eye(n, dtype=dtype_of(p))[:-1]], axis=0))
    is_real = is_complex(found) and not is_complex(p) and all_real(found.imag)
    return found.real if is_real else found  # unlike eigenvalues from NumPy 2.5 on


# --- least squares ----------------------------------------------------------------------------


@function("vander")
def vander(x, N=None, increasing=False):
    """Make a matrix with a row of powers for each element.

    Parameters
    ----------
    N : int, optional
        The number of powers; by default that of the elements.
    increasing : bool, optional
        Whether powers increase; by default the highest is first.
    """
    x = unlisted(x)
    if _is_plain(x):
        return _of_values(np.vander, x, N=N, increasing=increasing)
    if len(shape_of(x)) != 1:
        raise ValueError(f"tapegrad.vander: x has shape {shape_of(x)}; it must have one axis")
    count = shape_of(x)[0] if N is None else N
    x = array_tensor(x).astype(np.promote_types(dtype_of(x), int), copy=False)
    made = np.ones((shape_of(x)[0], min(count, 1)), dtype_of(x))
    if 1 < count <= FEW:
        powers = [x]
        for _ in range(count - 2):
            powers.append(powers[-1] * x)
        made = stack([made[:, 0], *powers], axis=1)
    elif count > 1:
        wide = broadcast_to(x[:, None], (shape_of(x)[0], count - 1))
        made = concatenate([made, cumprod(wide, axis=1)], axis=1)
    return made if increasing else made[:, ::-1]


@function("polyfit")
def polyfit(x, y, deg, rcond=None, full=False, w=None, cov=False):
    """Fit a polynomial by least squares.

    Parameters
    ----------
    x, y : array_like
        The points.
    deg : int
        The degree of the polynomial.
    full : bool, optional
        Must be false if an argument is recorded.
    w : array_like, optional
        Weights of the points.
    cov : bool or "unscaled", optional
        Whether the covariance matrix of the coefficients is returned too.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the points do not determine the coefficients; NumPy warns.

    Examples
    --------
    >>> import tapegrad as tg
    >>> y = tg.tensor([1.0, 3.0, 5.0])
    >>> tg.polyfit([0.0, 1.0, 2.0], y, 1).round(6)
    tensor([2., 1.])
    """
    x, y, w = unlisted(x), unlisted(y), unlisted(w)
    if _is_plain(x, y, w) or deg < 0:
        return _of_values(lambda x, y, w: np.polyfit(x, y, deg, rcond, full, w, cov), x, y, w)
    _check_points(x, y, w)
    if full:
        raise lost_derivative(
            "tapegrad.polyfit: full=True is not supported if an argument is recorded: the singular "
            "values have no derivative here; call it with detached tensors for them",
            (x, y, w),
        )
    x, rhs = x + 0.0, y + 0.0
    columns, order = vander(x, int(deg) + 1), int(deg) + 1
    if w is not None:
        columns = columns * w[:, None]
        rhs = rhs * (w[:, None] if len(shape_of(rhs)) == 2 else w)
    rcond = len(x) * np.finfo(dtype_of(x)).eps if rcond is None else rcond
    made, (by, normal) = least_squares("polyfit", columns, rhs, rcond)
    if not cov:
        return made
    scale = 1.0
    if cov != "unscaled":
        if len(x) <= order:
            raise ValueError(
                f"tapegrad.polyfit: there are {len(x)} points for {order} coefficients; the scale "
                "of the covariance needs more: give cov='unscaled'"
            )
        scale = sum_of((rhs - matmul(columns, made)) ** 2, axis=0) / (len(x) - order)
    base = matmul(by, solve(normal, by.T))
    return made, (base * scale if len(shape_of(y)) == 1 else base[:, :, None] * scale)


def _check_points(x, y, w) -> None:
    """Raise NumPy's own errors for points that do not fit."""
    shapes: list = [
        None if one is None else np.broadcast_to(1.0, shape_of(one)) for one in (x, y, w)
    ]
    bad = len(shape_of(x)) != 1 or not 1 <= len(shape_of(y)) <= 2 or not shape_of(x)[0]
    bad = bad or shape_of(x)[0] != shape_of(y)[0]
    if bad or (w is not None and shape_of(w) != shape_of(x)):
        np.polyfit(shapes[0], shapes[1], 0, w=shapes[2])


def least_squares(name: str, columns, rhs, rcond):
    """The solution of least squares, and t and n of t n⁻¹ tᵀ = (columnsᵀ columns)⁻¹.

    Columns are made orthonormal first, by the inverse of R of their QR factors, from their values
    alone: the solution does not depend on it, nor do its derivatives. The normal equations have
    then a matrix that is the unit matrix but for rounding.
    """
    triangle = qr(tensor_of(columns).detach(), mode="r")
    sizes = apply("sqrt", sum_of(triangle * triangle, axis=0))  # as long as the columns
    sizes = apply("where", steered(np.equal, sizes, 0.0), 1.0, sizes)
    kept = steered(rank_of, svdvals(triangle / sizes), rcond=float(rcond))
    rank = int(fixed(kept, f"the rank in {name}()"))
    if rank < shape_of(columns)[1]:
        raise np.linalg.LinAlgError(
            f"tapegrad.{name}: the fit has rank {rank}, which does not determine "
            f"{shape_of(columns)[1]} coefficients; lower the degree or give more points"
        )
    by = inv(triangle)
    basis = matmul(columns, by)
    normal = matmul(basis.T, basis)
    return matmul(by, solve(normal, matmul(basis.T, rhs))), (by, normal)
