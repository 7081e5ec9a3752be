"""Functions of matrices: exponential, logarithm, square root, sign, powers, sines and cosines.

The derivative L(a, e) of a function f at a along e is the upper right block of f of the block
matrix [[a, e], [0, a]] (Higham, Functions of Matrices, 2008, theorem 3.6); its adjoint takes g to
L(a, gᴴ)ᴴ, on branch cuts too. Equal eigenvalues, and matrices without a basis of eigenvectors, are
nothing special.
"""

from __future__ import annotations

import numpy as np

from ..tensor.complex_tensors import combined, imag_part, is_complex, real_part
from ..tensor.copies import unlisted
from ..tensor.values import shape_of
from .declaring import adjoint, declared
from .einsum import as_tensor
from .exponential_kernels import HELPERS, expm_forward, expm_frechet_forward
from .sylvester import by_matrix, check_square, inexact, of_scipy, solve_sylvester

# --- derivatives ----------------------------------------------------------------------------------


def block_of(np, a, e):
    """[[a, e], [0, a]]; one of the two may have more axes in front."""
    shape = np.broadcast_shapes(a.shape, e.shape)
    a, e = np.broadcast_to(a, shape), np.broadcast_to(e, shape)
    lower = np.concatenate([np.zeros(shape, a.dtype), a], -1)
    return np.concatenate([np.concatenate([a, e], -1), lower], -2)


def upper_right(x):
    """The block of a block matrix of two by two."""
    half = x.shape[-1] // 2
    return x[..., :half, half:]


def _along_both(np, frechet, a, e, t, s):
    """The change of L(a, e) for changes of a along t and of e along s."""
    return upper_right(frechet(block_of(np, a, e), block_of(np, t, s)))


def rules_of(frechet):
    """The rules of a function whose derivative at a along e is `frechet()(a, e)`."""

    def vjp(np, g, _out, a):
        return (adjoint(np, frechet()(a, adjoint(np, g))),)

    def jvp(np, t, _out, a):
        return frechet()(a, t[0])

    return {"vjp": vjp, "jvp": jvp}


def rules_of_frechet(frechet):
    """The rules of that derivative."""

    def vjp(np, g, _out, a, e):
        zero, back = np.zeros(g.shape, g.dtype), adjoint(np, g)
        return (
            lambda: adjoint(np, _along_both(np, frechet(), a, e, back, zero)),
            lambda: adjoint(np, frechet()(a, back)),
        )

    def jvp(np, t, _out, a, e):
        if t[0] is None:
            return frechet()(a, t[1])
        along = np.zeros(t[0].shape, t[0].dtype) if t[1] is None else t[1]
        return _along_both(np, frechet(), a, e, t[0], along)

    return {"vjp": vjp, "jvp": jvp}


# --- exponential ----------------------------------------------------------------------------------

_SQUARES = ("0.2 * x @ x.T", "x[:, None, :] * np.cos(x)[:, :, None] - np.eye(len(x.T))")


def _shape(a):
    if len(a) < 2 or a[-1] != a[-2]:
        raise ValueError(f"expm does not accept an operand of shape {a}")
    return a


def _shape_of_both(a, e):
    if _shape(a)[-2:] != _shape(e)[-2:]:
        raise ValueError(f"expm_frechet does not accept operands of shapes {a} and {e}")
    return np.broadcast_shapes(a, e)


@declared(
    **rules_of(lambda: expm_frechet),
    shape=_shape,
    value_kernel=expm_forward,
    helpers=HELPERS,
    example="tg.scipy.linalg.expm(x[:, None] * (x - 1.0))",
    examples=tuple(f"tg.scipy.linalg.expm({one})" for one in _SQUARES),
    complex_example="tg.scipy.linalg.expm(1j * x[:, None] * (x - 1.0))",
    complex_examples=("tg.scipy.linalg.expm(np.stack([x @ x.T, 1j * x @ x.T]))",),
)
def expm(a):
    """The exponentials of matrices."""
    return of_scipy("expm")(a)


#: Complex matrices of more rows are not worth a real one of twice as many.
_FEW_ROWS = 12


def small_complex(z):
    """The exponential of complex matrices: for few rows by real ones, which programs compile."""
    n = z.shape[-1] if len(z.shape) > 1 else 0
    if n > _FEW_ROWS or z.shape[-2:] != (n, n):
        return expm(z)
    x, y = real_part(z), imag_part(z)
    upper, lower = np.concatenate([x, -y], -1), np.concatenate([y, x], -1)
    found = expm(np.concatenate([upper, lower], -2))
    return combined(found[..., :n, :n], found[..., n:, :n])


def _expm_frechet(a, e):
    check_square("expm_frechet", A=a, E=e)
    if a.shape != e.shape:
        raise ValueError(
            f"tapegrad.scipy.linalg.expm_frechet: A has shape {a.shape} and E {e.shape}; they "
            "must be equal"
        )
    dtype = np.result_type(a, e, np.float64)
    if not np.all(np.isfinite(a)) or not a.size:
        return np.full(a.shape, np.nan, dtype)
    a, e = np.asarray(a, dtype), np.asarray(e, dtype)
    found = of_scipy("expm_frechet")(a, e, compute_expm=False, check_finite=False)
    return np.asarray(found, dtype)


@declared(
    **rules_of_frechet(lambda: expm_frechet),
    shape=_shape_of_both,
    value_kernel=expm_frechet_forward,
    helpers=HELPERS,
    example="tg.scipy.linalg.expm_frechet(0.3 * x[:, None] * (x - 1.0), np.diag(x))[1]",
    examples=(
        "tg.scipy.linalg.expm_frechet(0.2 * x @ x.T, np.cos(x @ x.T), compute_expm=False)",
        "tg.scipy.linalg.expm_frechet(np.eye(len(x)), np.stack([x @ x.T, np.cos(x @ x.T)]),"
        " compute_expm=False) if x.size else"
        " tg.scipy.linalg.expm_frechet(x @ x.T, x @ x.T, compute_expm=False)",
    ),
    complex_example="tg.scipy.linalg.expm_frechet(1j * x[:, None] * x, np.diag(x))[1]",
)
def expm_frechet(a, e):
    """The derivatives of the exponentials of matrices a along e."""
    return by_matrix(_expm_frechet, a, e)


# --- square root, sign ----------------------------------------------------------------------------


class ComplexResult(ValueError):
    """A function of a real matrix is complex."""


def real_result(name: str, a, found):
    """SciPy's result; for real matrices it must be real."""
    if np.iscomplexobj(found) and not np.iscomplexobj(a):
        raise ComplexResult(
            f"tapegrad.scipy.linalg.{name}: the result for a real matrix is complex, since an "
            "eigenvalue is negative or 0; give a complex matrix"
        )
    return found


def _has_real_root(a) -> bool:
    """Whether the square root of a real matrix is real; SciPy before 1.16 gives complex ones."""
    values = np.linalg.eigvals(a)
    return bool(np.all((values.imag != 0.0) | (values.real > 0.0)))


def root_of(a, name="sqrtm"):
    """The square root of one matrix."""
    check_square("sqrtm", A=a)
    if not a.size:
        return np.zeros(a.shape, inexact(a))
    whole = np.iscomplexobj(a) and not np.any(a.imag)
    found = of_scipy("sqrtm")(a.real if whole else a)
    if not np.iscomplexobj(a) and np.iscomplexobj(found) and _has_real_root(a):
        return found.real
    return np.asarray(found, inexact(a)) if whole else real_result(name, a, found)


def of_any(function, a):
    """A function of matrices, as that of complex ones where it is complex for real ones."""
    try:
        return function(a)
    except ComplexResult:
        return function(unlisted(a) + 0j)


def sqrtm_vjp(np, g, out, _a):
    """With s² = a: ā of sᴴ ā + ā sᴴ = s̄."""
    back = adjoint(np, out)
    return (solve_sylvester(back, back, g),)


def sqrtm_jvp(np, t, out, _a):
    """s ṡ + ṡ s = ȧ."""
    return solve_sylvester(out, out, t[0])


@declared(
    vjp=sqrtm_vjp,
    jvp=sqrtm_jvp,
    example="tg.scipy.linalg.sqrtm(np.diag(x * x + 0.5) + 0.1)",
    examples=(
        "tg.scipy.linalg.sqrtm(x @ x.T + np.eye(len(x)))",
        "tg.scipy.linalg.sqrtm(x[:, None, :] * x[:, :, None] + np.eye(len(x.T)))",
    ),
    awkward="of a singular matrix the derivative raises LinAlgError",
    takes_complex=True,
    complex_example="tg.scipy.linalg.sqrtm(np.diag(x * x + 1j) + 0.1j * x)",
)
def sqrtm(a):
    """The principal square roots of matrices."""
    return by_matrix(root_of, a)


def _signm(a):
    check_square("signm", A=a)
    if not a.size:
        return np.zeros(a.shape, inexact(a))
    return real_result("signm", a, of_scipy("signm")(np.asarray_chkfinite(a)))


def signm_vjp(np, g, out, a):
    """With n = a s: y of nᴴ y + y nᴴ = s̄, ā = y − sᴴ y sᴴ (Higham 2008, theorem 5.3)."""
    root, back = adjoint(np, np.matmul(a, out)), adjoint(np, out)
    y = solve_sylvester(root, root, g)
    return (y - np.matmul(np.matmul(back, y), back),)


def signm_jvp(np, t, out, a):
    """n ṡ + ṡ n = ȧ − s ȧ s."""
    root = np.matmul(a, out)
    return solve_sylvester(root, root, t[0] - np.matmul(np.matmul(out, t[0]), out))


@declared(
    vjp=signm_vjp,
    jvp=signm_jvp,
    example="tg.scipy.linalg.signm("
    "np.diag(np.resize([2.0, -3.0], len(x))) + 0.1 * x[:, None] * np.cos(x))",
    awkward="of a singular matrix the derivative raises LinAlgError",
    takes_complex=True,
    complex_example="tg.scipy.linalg.signm("
    "np.diag(np.resize([2.0, -3.0], len(x))) + 0.1j * x[:, None] * np.cos(x))",
)
def signm(a):
    """The signs of matrices: of the real parts of their eigenvalues."""
    return by_matrix(_signm, a)


# --- by the exponential ---------------------------------------------------------------------------


def square_tensor(name: str, a):
    a = unlisted(a)
    a = a if is_complex(a) else as_tensor(name, a)
    check_square(name, A=a)
    return a


def cosine_and_sine(name, a):
    """cos(a) and sin(a), which are blocks of the exponential of [[0, −a], [a, 0]]."""
    a = square_tensor(name, a)
    n, zero = shape_of(a)[-1], np.zeros(shape_of(a), a.dtype)
    upper = np.concatenate([zero, -a], -1)
    found = expm(np.concatenate([upper, np.concatenate([a, zero], -1)], -2))
    return found[..., :n, :n], found[..., n:, :n]


def cosm(a):
    """The cosines of matrices."""
    return cosine_and_sine("cosm", a)[0]


def sinm(a):
    """The sines of matrices."""
    return cosine_and_sine("sinm", a)[1]


def coshm(a):
    """The hyperbolic cosines of matrices."""
    a = square_tensor("coshm", a)
    return 0.5 * (expm(a) + expm(-a))


def sinhm(a):
    """The hyperbolic sines of matrices."""
    a = square_tensor("sinhm", a)
    return 0.5 * (expm(a) - expm(-a))
