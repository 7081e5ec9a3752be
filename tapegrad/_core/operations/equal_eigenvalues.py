"""Equal eigenvalues and singular values: what rules divide by, and losses that they do not allow.

The vectors that belong to equal values are a basis of their space, any one. Derivatives divide by
differences of values; where these vanish they take 0 instead. That is right for what does not
depend on the basis and whose derivative with respect to the matrix is, inside of such a space, a
multiple of the identity: functions of the values alone that treat equal ones alike, and projectors.

Adjoints tell whether a loss is such a function, tangents do not. Where vectors are a choice,
forward mode is therefore followed by a reverse sweep, whose rules warn.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..tensor import runtime as rt
from ..tensor.trace import learned, refuse
from ..tensor.values import shape_of, value_of, value_of_complex
from .declaring import adjoint

#: Values count as equal if their difference is less than this many times n times the rounding of
#: the largest.
CLOSE = 8.0


def largest(np, w):
    """The largest size of values in order, with an axis of length 1 (0 if there are none)."""
    return np.maximum(np.abs(w[..., :1]), np.abs(w[..., -1:]))


def tolerance(np, w, count):
    """A bound for differences of values, or values, that are 0 up to rounding."""
    return largest(np, w) * (CLOSE * count * float(np.finfo(w.dtype).eps))


def inverse_or_zero(np, x, vanishing):
    """1 / x, and 0 where x is taken for 0."""
    return np.where(vanishing, 0.0, 1.0 / np.where(vanishing, 1.0, x))


def inverse_gaps(np, w, count):
    """1 / (wⱼ − wᵢ), 0 where the values are equal, and where they are."""
    gap = w[..., None, :] - w[..., :, None]
    equal = np.abs(gap) <= tolerance(np, w, count)[..., None]
    return inverse_or_zero(np, gap, equal), equal


def warn_of_basis(name, equal, turn, derivatives, values=None) -> None:
    """Warn where a derivative depends on which basis LAPACK has taken for equal values.

    `turn` is the change of the loss under a rotation of the basis, `derivatives` are those with
    respect to the vectors, in terms that may cancel and give its scale, `values` with respect to
    the values, None if these may differ: then the derivative is one-sided. A traced program does
    not test this.
    """
    if rt.trace() is not None:
        return
    equal, turn, *terms = (value_of_complex(x) for x in (equal, turn, *derivatives))
    if _each_alone(equal) and turn.dtype.kind != "c":
        return  # and vectors have no phase
    if _differ(equal & ~np.eye(equal.shape[-1], dtype=bool), turn, _size(*terms)):
        _warn(
            name,
            "values are equal, and the derivative depends on the arbitrary basis of their vectors",
        )
    elif _differ(equal, turn, _size(*terms)):
        warn_of_phases(name)
    elif values is not None:
        warn_of_values(name, equal, terms, values)


def _each_alone(equal) -> bool:
    """Whether each value is equal to itself alone."""
    return np.count_nonzero(equal) <= equal.size // max(equal.shape[-1], 1)


def warn_of_values(name, equal, derivatives, values) -> None:
    """Warn where a loss does not read equal values alike, or reads them and mixes their vectors.

    Arguments are as above. So does a function of the matrix, v f(w) v⁻¹.
    """
    if rt.trace() is None:
        equal, values, *terms = (value_of_complex(x) for x in (equal, values, *derivatives))
        if _differ(equal, values[..., None, :] - values[..., :, None], _size(values)):
            _warn(name, "values are equal, and the derivative treats them differently")
        elif _mixes(equal, terms, values):
            _warn(
                name, "values are equal, and the derivative may be that of a function of the matrix"
            )


def _mixes(equal, terms, values) -> bool:
    """Whether a loss reads equal values and also vectors of theirs, one along another.

    So does f(a) = v f(w) vᵀ, whose derivative inside a space is not determined by the vectors.
    """
    others = equal & ~np.eye(equal.shape[-1], dtype=bool)
    read = np.abs(values) > _slack(values) * _size(values)
    return _differ(others & read[..., None, :], sum(terms), _size(*terms))


class _Forward(threading.local):
    met = False  # vectors that are a choice


_forward = _Forward()


def note_choice(*choices) -> None:
    """Note in forward mode that vectors are a choice, if one of these holds anywhere.

    A traced program does not test this.
    """
    if rt.trace() is None and any(np.any(value_of_complex(x)) for x in choices):
        _forward.met = True


def note_basis(vectors, equal) -> None:
    """The same of the phases of vectors, and of the basis of those of equal values."""
    if rt.trace() is None:
        note_choice(vectors.dtype.kind == "c", not _each_alone(value_of_complex(equal)))


def with_choices(derive: Callable[[], Any]) -> tuple[Any, bool]:
    """What forward mode gives, and whether it has met vectors that are a choice."""
    before, _forward.met = _forward.met, False
    try:
        return derive(), _forward.met
    finally:
        _forward.met = before


def warn_of_others(name, vectors, derivatives) -> None:
    """The same of columns that only complete a basis, given the adjoint of these columns."""
    if rt.trace() is not None or vectors.shape[-1] < 2:
        return
    vectors, derivatives = value_of_complex(vectors), value_of_complex(derivatives)
    if np.any(derivatives):
        inner = np.matmul(adjoint(np, vectors), derivatives)
        if _differ(np.True_, inner - adjoint(np, inner), _size(inner)):
            _warn(name, "the derivative depends on the arbitrary columns that complete a basis")


def warn_of_null_vectors(zero, outside, derivatives, values) -> None:
    """Warn where a loss reads vectors of singular values of 0, of a matrix that is not square.

    Such a vector is any one of a space that is larger. `outside` are the parts of its adjoint that
    are divided by the singular value, `derivatives` the adjoints of all vectors. A function of the
    matrix, u f(s) vᴴ, reads the value along with the vectors: its derivative is f′(0), which the
    adjoints of u and v do not contain. `values` are the adjoints of the values, None if
    `warn_of_zeros` has been called.
    """
    if rt.trace() is not None or values is None:
        return
    zero, outside, values, *derivatives = (
        value_of_complex(x) for x in (zero, outside, values, *derivatives)
    )
    if not np.any(zero) or not any(map(np.any, derivatives)):
        return
    read = zero & (np.abs(values) > _slack(values) * _size(values))
    if _differ(zero[..., None, :], outside, _size(derivatives[0])):
        _warn("svd", "singular values are 0, and the derivative depends on their arbitrary vectors")
    elif np.any(read):
        _warn(
            "svd",
            "singular values are 0, and the derivative may be that of a function of the matrix",
        )


def warn_of_zeros(s, shape, is_complex) -> None:
    """Warn where second derivatives of singular values are asked for, and some are 0.

    There a value is the size of what the matrix adds between its null spaces. It has a derivative,
    up to the sign, only if that is one real number. A traced program does not test this.
    """
    if rt.trace() is not None:
        return
    s, (m, n) = value_of(s), shape[-2:]
    count = np.count_nonzero(s <= tolerance(np, s, max(m, n)), axis=-1)
    several = count + abs(m - n) > 1 if not is_complex else True
    if np.any((count > 0) & several):
        warnings.warn(
            "tapegrad.svdvals: singular values are 0, where they have no second derivative; the "
            "result is wrong for functions such as the sum of their squares. Compute these from "
            "the elements of the matrix, or from the eigenvalues of aᴴ a by eigvalsh",
            RuntimeWarning,
            stacklevel=3,
        )


def _size(*derivatives) -> float:
    return max(float(np.max(np.abs(one), initial=0.0)) for one in derivatives)


def _differ(where, differences, size: float) -> bool:
    """Whether some are more than rounding errors of derivatives of that size."""
    return bool(np.any(where & (np.abs(differences) > _slack(differences) * size)))


def _slack(derivatives) -> float:
    """The size of rounding errors of derivatives, relative to the largest."""
    return float(np.sqrt(np.finfo(derivatives.dtype).eps))


def learn_whether_equal(name: str, w) -> None:
    """Note in a trace whether values are equal: a program could not warn of it.

    It serves matrices whose values differ; for others the function runs eagerly.
    """
    if rt.trace() is None or shape_of(w)[-1] < 2:
        return
    close = np.abs(w[..., 1:] - w[..., :-1]) <= tolerance(np, w, shape_of(w)[-1])
    learn_equality(name, np.any(close))


def learn_whether_zero(name: str, s, m: int, n: int) -> None:
    """Note in a trace whether singular values are 0, of matrices that are not square."""
    if rt.trace() is not None and m != n and min(m, n):
        zero = s[..., -1:] <= tolerance(np, s, max(m, n))
        learn_equality(name, np.any(zero), "singular values of 0")


def learn_equality(name: str, equal, what: str = "equal values") -> None:
    """Note the answer in a trace; equal values make no program."""
    if learned(equal, f"np.linalg.{name}()") and value_of(equal):
        refuse(
            f"np.linalg.{name} has {what}, and only eager calls can warn about their derivatives"
        )


def warn_of_phases(name: str) -> None:
    """Warn that a derivative depends on the phases of vectors."""
    warnings.warn(
        f"tapegrad.{name}: the derivative depends on the phases of the vectors, which are "
        "arbitrary; the returned derivative ignores this part. Use the vectors only in expressions "
        "that do not depend on the phases, such as absolute values of their elements",
        RuntimeWarning,
        stacklevel=4,
    )


def _warn(name: str, what: str) -> None:
    warnings.warn(
        f"tapegrad.{name}: {what}; the returned derivative ignores this part. Use eigvalsh or "
        "svdvals for functions of the values alone, scipy.linalg's expm, logm or sqrtm for "
        "functions of a matrix, vectors only in expressions that do not depend on their basis, or "
        "a matrix whose values differ",
        RuntimeWarning,
        stacklevel=3,
    )
