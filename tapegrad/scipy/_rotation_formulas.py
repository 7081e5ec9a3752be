"""Rotations of three dimensions as quaternions (x, y, z, w) along the last axis: SciPy's formulas.

Where SciPy divides by an angle, or takes the root of a sum of squares that may be 0, these are
functions of squares, which have derivatives of any order there.
"""

from __future__ import annotations

import math
import re
import warnings

from .. import numpy as np
from .._core.operations.sylvester import polar_factor
from .._core.tensor.trace import learned
from .._core.tensor.values import shape_of, value_of

_SAFE = 1.0
_GIMBAL = (
    "Gimbal lock detected. Setting third angle to zero since it is not possible to uniquely "
    "determine all angles."
)


def holds(answer, what: str) -> bool:
    """A decision by values, which a program has to come to again."""
    learned(answer, what)
    return bool(value_of(answer))


def _series(x, terms):
    """A polynomial, from its first terms on."""
    total = terms[-1]
    for term in terms[-2::-1]:
        total = total * x + term
    return total


def _root(x):
    """A square root with derivative 0 at 0."""
    is_none = x == 0.0
    return np.where(is_none, 0.0, np.sqrt(np.where(is_none, _SAFE, x)))


def _squares(x):
    return np.sum(x * x, axis=-1, keepdims=True)


def normalized(q):
    """Unit quaternions; ValueError if one is 0."""
    squares = _squares(q)
    if holds(np.any(squares == 0.0), "scipy.spatial.transform.Rotation"):
        raise ValueError("Found zero norm quaternions in `quat`.")
    return q / np.sqrt(squares)


# --- vectors along the axis -----------------------------------------------------------------------

_SINE = [0.5 * (-0.25) ** k / math.factorial(2 * k + 1) for k in range(9)]
_COSINE = [(-0.25) ** k / math.factorial(2 * k) for k in range(9)]
_TANGENT = [(-1.0) ** k / (2 * k + 1) for k in range(13)]


def of_rotvec(r):
    """sin(θ/2)/θ and cos(θ/2) are analytic in θ²."""
    squares = _squares(r)
    is_small = squares <= 0.25
    few, angle = np.where(is_small, squares, 0.0), np.sqrt(np.where(is_small, _SAFE, squares))
    scale = np.where(is_small, _series(few, _SINE), np.sin(0.5 * angle) / angle)
    last = np.where(is_small, _series(few, _COSINE), np.cos(0.5 * angle))
    return np.concatenate([r * scale, last], axis=-1)


def canonical(q):
    """Of the two quaternions of a rotation that of positive w, or else x, y, z."""
    turns, is_open = q[..., 3] < 0.0, q[..., 3] == 0.0
    for k in range(3):
        turns = turns | (is_open & (q[..., k] < 0.0))
        is_open = is_open & (q[..., k] == 0.0)
    return np.where(turns[..., None], -q, q)


def as_rotvec(q):
    """θ / sin(θ/2) is analytic in tan²(θ/2)."""
    q = canonical(q)
    squares, w = _squares(q[..., :3]), q[..., 3:]
    is_small = squares <= 0.04 * w * w
    few, below = np.where(is_small, squares, 0.0), np.where(is_small, w, _SAFE)
    root = np.sqrt(np.where(is_small, _SAFE, squares))
    near = 2.0 * _series(few / (below * below), _TANGENT) / below
    scale = np.where(is_small, near, 2.0 * np.arctan2(root, w) / root)
    return scale * np.sqrt(squares + w * w) * q[..., :3]


def magnitude(q):
    """The angles, with derivative 0 of no rotation."""
    return 2.0 * np.arctan2(_root(_squares(q[..., :3])), np.absolute(q[..., 3:]))[..., 0]


def of_mrp(p):
    squares = _squares(p)
    return np.concatenate([2.0 * p, 1.0 - squares], axis=-1) / (1.0 + squares)


def as_mrp(q):
    sign = np.where(q[..., 3:] < 0.0, -1.0, 1.0)
    return sign * q[..., :3] / (1.0 + sign * q[..., 3:])


# --- matrices -------------------------------------------------------------------------------------


def of_matrix(m, assume_valid: bool = False):
    """Of the nearest rotation, as SciPy has it; ValueError if there is a reflection."""
    if not assume_valid:
        if holds(np.any(np.linalg.det(m) <= 0.0), "scipy.spatial.transform.Rotation.from_matrix()"):
            raise ValueError(
                "Non-positive determinant (left-handed or null coordinate frame) in rotation matrix"
            )
        m = polar_factor(m)
    x, y, z = m[..., 0, 0], m[..., 1, 1], m[..., 2, 2]
    trace = x + y + z
    above = [m[..., 1, 0] + m[..., 0, 1], m[..., 2, 0] + m[..., 0, 2], m[..., 2, 1] + m[..., 1, 2]]
    turn = [m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]]
    rows = [
        [1.0 - trace + 2.0 * x, above[0], above[1], turn[0]],
        [above[0], 1.0 - trace + 2.0 * y, above[2], turn[1]],
        [above[1], above[2], 1.0 - trace + 2.0 * z, turn[2]],
        [*turn, 1.0 + trace],
    ]
    choice = np.argmax(np.stack([x, y, z, trace], axis=-1), axis=-1)[..., None]
    found = np.stack(rows[3], axis=-1)
    for k in range(3):
        found = np.where(choice == k, np.stack(rows[k], axis=-1), found)
    return found / np.sqrt(_squares(found))


def as_matrix(q):
    x, y, z, w = (q[..., k] for k in range(4))
    elements = [
        *(x * x - y * y - z * z + w * w, 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)),
        *(2.0 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2.0 * (y * z - x * w)),
        *(2.0 * (x * z - y * w), 2.0 * (y * z + x * w), -x * x - y * y + z * z + w * w),
    ]
    return np.reshape(np.stack(elements, axis=-1), (*shape_of(q)[:-1], 3, 3))


def applied(q, vectors, inverse: bool = False):
    m = as_matrix(q)
    return np.einsum("...kj,...k->...j" if inverse else "...jk,...k->...j", m, vectors)


# --- products -------------------------------------------------------------------------------------


def composed(p, q):
    """The rotation q, and then p."""
    a, b, c, d = (p[..., k] for k in range(4))
    x, y, z, w = (q[..., k] for k in range(4))
    parts = [
        d * x + w * a + (b * z - c * y),
        d * y + w * b + (c * x - a * z),
        d * z + w * c + (a * y - b * x),
        d * w - a * x - b * y - c * z,
    ]
    return np.stack(parts, axis=-1)


def inverse(q):
    return q * np.array([-1.0, -1.0, -1.0, 1.0])


# --- angles ---------------------------------------------------------------------------------------


def _sequence(seq: str, count) -> tuple[list[int], bool]:
    """The axes of a sequence as "xyz", and whether it is of intrinsic rotations."""
    if not 1 <= len(seq) <= 3 or (count and len(seq) != count):
        wanted = "3 axes" if count else "a non-empty string of up to 3 characters"
        raise ValueError(f"Expected axis specification to be {wanted}, got {seq}")
    is_intrinsic = re.fullmatch("[XYZ]+", seq) is not None
    if not is_intrinsic and re.fullmatch("[xyz]+", seq) is None:
        raise ValueError(
            f"Expected axes from `seq` to be from ['x', 'y', 'z'] or ['X', 'Y', 'Z'], got {seq}"
        )
    if any(map(str.__eq__, seq, seq[1:])):
        raise ValueError(f"Expected consecutive axes to be different, got {seq}")
    return ["xyz".index(axis) for axis in seq.lower()], is_intrinsic


def _about(axis: int, angle):
    half, none = 0.5 * angle, np.zeros_like(angle)
    parts = [none, none, none, np.cos(half)]
    parts[axis] = np.sin(half)
    return np.stack(parts, axis=-1)


def in_turn(rotations, is_intrinsic: bool):
    """The product of rotations that are made one after the other."""
    found, *rest = rotations
    for one in rest:
        found = composed(found, one) if is_intrinsic else composed(one, found)
    return found


def of_euler(seq: str, angles):
    axes, is_intrinsic = _sequence(seq, None)
    return in_turn([_about(axis, angles[..., k]) for k, axis in enumerate(axes)], is_intrinsic)


def as_euler(q, seq: str, is_quiet: bool):
    axes, is_intrinsic = _sequence(seq, 3)
    i, j, k = axes[::-1] if is_intrinsic else axes
    is_symmetric = i == k
    k = 3 - i - j if is_symmetric else k
    sign = (i - j) * (j - k) * (k - i) // 2
    w, third = q[..., 3], q[..., k] * sign
    four = [w, q[..., i], q[..., j], third]
    if not is_symmetric:
        four = [w - q[..., j], q[..., i] + third, q[..., j] + w, third - q[..., i]]
    sign, beside = (1, 0.0) if is_symmetric else (sign, 0.5 * math.pi)
    return angles_of(four, (is_intrinsic, sign, beside), is_quiet)


def angles_of(four, form, is_quiet: bool):
    """Three angles; at a gimbal lock the third is 0, and SciPy's warning is given.

    `form` is whether rotations are intrinsic, the sign of the third, and what the second has more.
    """
    a, b, c, d = four
    is_intrinsic, sign, beside = form
    second = 2.0 * np.arctan2(_root(c * c + d * d), _root(a * a + b * b))
    is_none, is_half = np.absolute(second) <= 1e-7, np.absolute(second - math.pi) <= 1e-7
    is_locked = is_none | is_half
    if not is_quiet and holds(np.any(is_locked), "scipy.spatial.transform.Rotation.as_euler()"):
        warnings.warn(_GIMBAL, stacklevel=5)
    # where one of the two angles does not exist, neither do its derivatives
    half_sum = np.arctan2(np.where(is_half, 0.0, b), np.where(is_half, 1.0, a))
    half_difference = np.arctan2(np.where(is_none, 0.0, d), np.where(is_none, 1.0, c))
    locked = np.where(is_none, 2.0 * half_sum, (2.0 if is_intrinsic else -2.0) * half_difference)
    left = np.where(is_locked, locked, half_sum - half_difference)
    right = np.where(is_locked, 0.0, half_sum + half_difference)
    if is_intrinsic:
        left, right = (
            np.where(is_locked, 0.0, half_sum - half_difference),
            np.where(is_locked, locked, half_sum + half_difference),
        )
        parts = [sign * right, second - beside, left]
    else:
        parts = [left, second - beside, sign * right]
    return np.stack([_wrapped(one) for one in parts], axis=-1)


def _wrapped(angle):
    """An angle between −π and π."""
    turn = np.where(angle > math.pi, -2.0 * math.pi, 0.0)
    return angle + np.where(angle < -math.pi, 2.0 * math.pi, turn)


def _orthogonal(axes, order: str, what: str):
    """Unit vectors that are rotated about in turn, and whether intrinsically."""
    if order not in ("e", "extrinsic", "i", "intrinsic"):
        raise ValueError(
            "order should be 'e'/'extrinsic' for extrinsic sequences or 'i'/'intrinsic' for "
            f"intrinsic sequences, got {order}"
        )
    if shape_of(axes)[-1] != 3:
        raise ValueError("Axes must be vectors of length 3.")
    axes = axes / np.sqrt(_squares(axes))
    for k in range(shape_of(axes)[-2] - 1):
        inner = np.sum(axes[..., k, :] * axes[..., k + 1, :], axis=-1)
        if holds(np.any(np.absolute(inner) > 1e-7), what):
            raise ValueError("Consecutive axes must be orthogonal.")
    return axes, order[0] == "i"


def of_davenport(axes, order: str, angles):
    axes, is_intrinsic = _orthogonal(axes, order, "scipy.spatial.transform.Rotation")
    count = shape_of(axes)[-2]
    if not 1 <= count <= 3:
        raise ValueError(f"Expected up to 3 axes, got {count}")
    if shape_of(angles)[-1] != count:
        raise ValueError(
            f"Expected `angles` to match number of axes, got {shape_of(angles)} angles and "
            f"{shape_of(axes)} axes."
        )
    each = [of_rotvec(angles[..., k, None] * axes[..., k, :]) for k in range(count)]
    return in_turn(each, is_intrinsic)


def as_davenport(q, axes, order: str, is_quiet: bool):
    if shape_of(axes)[-2] != 3:
        raise ValueError(f"Expected 3 axes, got {shape_of(axes)}.")
    axes, is_intrinsic = _orthogonal(axes, order, "scipy.spatial.transform.Rotation")
    n1, n2, n3 = (axes[..., k, :] for k in range(3))
    n1, n3 = (n3, n1) if is_intrinsic else (n1, n3)
    across, inner = np.cross(n1, n2), lambda x, y: np.sum(x * y, axis=-1)
    beside = np.arctan2(inner(n3, across), inner(n3, n1))
    sign = np.where(beside < 0.0, -1.0, 1.0)
    beside, n2, across = sign * beside, sign[..., None] * n2, sign[..., None] * across
    half = 0.5 * beside
    turn = np.concatenate([np.sin(half)[..., None] * n2, np.cos(half)[..., None]], axis=-1)
    found = composed(turn, q)
    four = [found[..., 3], *(inner(found[..., :3], axis) for axis in (n1, n2, across))]
    angles = angles_of(four, (is_intrinsic, 1, beside), is_quiet)
    middle = sign * angles[..., 1]
    return np.stack([angles[..., 0], middle, angles[..., 2]], axis=-1)


# --- rotations that fit best ----------------------------------------------------------------------


def nearest_quaternion(q, matrix):
    """The eigenvector of the largest eigenvalue, from its value: two of Newton's steps.

    Each doubles the order up to which derivatives are right.
    """
    eye = np.eye(4)
    for _ in range(2):
        image = np.einsum("...jk,...k->...j", matrix, q)
        largest = np.sum(q * image, axis=-1, keepdims=True)
        upper = np.concatenate([matrix - largest[..., None] * eye, q[..., None]], axis=-1)
        lower = np.concatenate([q, np.zeros_like(largest)], axis=-1)[..., None, :]
        right = np.concatenate([largest * q - image, np.zeros_like(largest)], axis=-1)
        step = np.linalg.solve(np.concatenate([upper, lower], axis=-2), right[..., None])[..., 0]
        q = q + step[..., :4]
        q = q / np.sqrt(_squares(q))
    return q


def best_turn(q, product):
    """The rotation R of largest tr(Rᵀ product), from its value, in the same way."""
    for _ in range(2):
        m = as_matrix(q)
        s = np.matmul(m.T, product)
        turn = np.stack([s[2, 1] - s[1, 2], s[0, 2] - s[2, 0], s[1, 0] - s[0, 1]])
        matrix = np.trace(s) * np.eye(3) - 0.5 * (s + s.T)
        q = composed(q, of_rotvec(np.linalg.solve(matrix, turn)))
    return q
