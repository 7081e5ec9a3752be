"""SciPy's `spatial.transform` for recorded values: formulas, `Rotation`, `Slerp`."""

from __future__ import annotations

import functools
import importlib
import math
import re
import warnings
from typing import Any

from .. import numpy as np
from .._core.operations.sylvester import polar_factor
from .._core.tensor import runtime as rt
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import DerivativeLost, steered
from .._core.tensor.values import shape_of, value_of
from ._class_stand_ins import ClassStandIn, RefusingClass
from ._differentiable import OURS, holds, is_before
from ._spatial_distances import TreeTensor, _floats, kinds

# --- rotation formulas ----------------------------------------------------------------------------
# Rotations of three dimensions as quaternions (x, y, z, w) along the last axis: SciPy's formulas.
#
# Where SciPy divides by an angle, or takes the root of a sum of squares that may be 0, these are
# functions of squares, which have derivatives of any order there.

_SAFE = 1.0
_GIMBAL = (
    "Gimbal lock detected. Setting third angle to zero since it is not possible to uniquely "
    "determine all angles."
)


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


def canonical_quaternions(q):
    """Of the two quaternions of a rotation that of positive w, or else x, y, z."""
    turns, is_open = q[..., 3] < 0.0, q[..., 3] == 0.0
    for k in range(3):
        turns = turns | (is_open & (q[..., k] < 0.0))
        is_open = is_open & (q[..., k] == 0.0)
    return np.where(turns[..., None], -q, q)


def as_rotvec(q):
    """θ / sin(θ/2) is analytic in tan²(θ/2)."""
    q = canonical_quaternions(q)
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


def _orthogonal(axes, order: str):
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
        if holds(np.any(np.absolute(inner) > 1e-7), "scipy.spatial.transform.Rotation"):
            raise ValueError("Consecutive axes must be orthogonal.")
    return axes, order[0] == "i"


def of_davenport(axes, order: str, angles):
    axes, is_intrinsic = _orthogonal(axes, order)
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
    axes, is_intrinsic = _orthogonal(axes, order)
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


# --- rotation tensors -----------------------------------------------------------------------------
# Rotations of SciPy whose quaternions may be recorded.

PLACE = "tapegrad.scipy.spatial.transform"
DEGREES = math.pi / 180.0


def of_scipy(name: str):
    return getattr(importlib.import_module("scipy.spatial.transform"), name)


# --- plain and recorded rotations -----------------------------------------------------------------


def is_plain(arguments) -> bool:
    """Whether nothing is recorded, in rotations neither."""
    return none_traced(arguments) and not any(
        x._theirs is None
        if isinstance(x, RotationTensor)
        else type(x) in (list, tuple) and not is_plain(x)
        for x in arguments
    )


def theirs_of(x):
    """Arguments with SciPy's rotations in place of ours."""
    if isinstance(x, RotationTensor):
        return x._theirs
    return type(x)(map(theirs_of, x)) if type(x) in (list, tuple) else x


def ours_of(x):
    """Results of SciPy's with our rotations in place of theirs."""
    if type(x) is tuple:
        return tuple(map(ours_of, x))
    return RotationTensor(theirs=x) if isinstance(x, of_scipy("Rotation")) else x


def _by_scipy(method, x, args, keywords):
    """What SciPy's method of an object of SciPy's gives."""
    theirs = getattr(x, method)(
        *map(theirs_of, args), **{k: theirs_of(v) for k, v in keywords.items()}
    )
    return ours_of(theirs)


def _either(method):
    """A method that calls SciPy's where all values are plain."""

    @functools.wraps(method)
    def function(self, *args, **keywords):
        if self._theirs is not None and is_plain((*args, *keywords.values())):
            return _by_scipy(method.__name__, self._theirs, args, keywords)
        return method(self, *args, **keywords)

    return function


class RotationTensor:
    """Rotations whose quaternions may be recorded, with the methods of SciPy's `Rotation`.

    The constructors of `scipy.spatial.transform.Rotation`, given recorded values inside of a
    transform or through `tapegrad.scipy.spatial.transform`, make one.

    Attributes
    ----------
    single : bool
        Whether it is one rotation, and not an array of them.
    shape : tuple
        The shape of that array.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> from tapegrad.scipy.spatial.transform import Rotation
    >>> turned = lambda angle: Rotation.from_euler("z", angle).apply([1.0, 0.0, 0.0])
    >>> print(tg.jacobian(turned)(0.0).round(6))
    [0. 1. 0.]
    """

    #: NumPy's arrays leave operators to this class.
    __array_ufunc__ = None

    def __init__(self, quat: Any = None, theirs: Any = None):
        self._given, self._theirs = quat, theirs

    @property
    def _quat(self):
        return self._theirs.as_quat() if self._given is None else self._given

    @property
    def stands_for(self) -> type:
        """SciPy's class, for `isinstance`."""
        return of_scipy("Rotation")

    @property
    def plain_object(self) -> Any:
        """SciPy's object; None of recorded values."""
        return self._theirs

    @property
    def single(self) -> bool:
        return len(shape_of(self._quat)) == 1

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self._quat)[:-1]

    def __len__(self):
        if self.single:
            raise TypeError("Single rotation has no len().")
        return self.shape[0]

    def __bool__(self):
        return True

    def __iter__(self):
        if self.single:
            raise TypeError("Single rotation is not iterable.")
        return (self[k] for k in range(self.shape[0]))

    def __repr__(self):
        return f"RotationTensor(shape={self.shape})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(of_scipy("Rotation"), name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if self._theirs is not None:
            return getattr(self._theirs, name)
        raise DerivativeLost(f"{PLACE}.Rotation.{name}: it has no derivative of recorded rotations")

    def __getitem__(self, indexer):
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        if self._theirs is not None and none_traced((indexer,)):
            return RotationTensor(theirs=self._theirs[indexer])
        return RotationTensor(self._quat[indexer])

    def __setitem__(self, indexer, value):
        raise DerivativeLost(
            f"{PLACE}.Rotation: rotations are not written in place inside of a transform; use "
            "Rotation.concatenate"
        )

    # --- forms ------------------------------------------------------------------------------------

    @_either
    def as_quat(self, canonical=False, *, scalar_first=False):
        q = canonical_quaternions(self._quat) if canonical else self._quat
        return np.roll(q, 1, axis=-1) if scalar_first else q

    @_either
    def as_matrix(self):
        return as_matrix(self._quat)

    @_either
    def as_rotvec(self, degrees=False):
        r = as_rotvec(self._quat)
        return r / DEGREES if degrees else r

    @_either
    def as_mrp(self):
        return as_mrp(self._quat)

    @_either
    def as_euler(self, seq, degrees=False, *, suppress_warnings=False):
        angles = as_euler(self._quat, seq, suppress_warnings)
        return angles / DEGREES if degrees else angles

    @_either
    def as_davenport(self, axes, order, degrees=False, *, suppress_warnings=False):
        angles = as_davenport(self._quat, _floats(axes), order, suppress_warnings)
        return angles / DEGREES if degrees else angles

    @_either
    def magnitude(self):
        return magnitude(self._quat)

    # --- products ---------------------------------------------------------------------------------

    @_either
    def apply(self, vectors, inverse=False):
        vectors = _floats(vectors)
        if shape_of(vectors)[-1:] != (3,):
            raise ValueError(f"Expected input of shape (..., 3), got {shape_of(vectors)}.")
        return applied(self._quat, vectors, inverse)

    @_either
    def inv(self):
        return RotationTensor(inverse(self._quat))

    @_either
    def __mul__(self, other):
        other = rotation_of(other)
        if other is NotImplemented:
            return other
        try:
            return RotationTensor(normalized(composed(self._quat, other._quat)))
        except ValueError:
            raise ValueError(
                f"Cannot broadcast {self.shape} rotations in first to {other.shape} rotations in "
                "second object."
            ) from None

    def __rmul__(self, other):
        other = rotation_of(other)
        return NotImplemented if other is NotImplemented else other * self

    @_either
    def __pow__(self, n, modulus=None):
        if modulus is not None:
            raise NotImplementedError("modulus not supported")
        if shape_of(n) not in ((), (1,)):
            raise ValueError("Array exponent must be a scalar")
        if none_traced((n,)):
            if n == 0:
                return RotationTensor(self._quat * 0.0 + np.array([0.0, 0.0, 0.0, 1.0]))
            if n in (-1, 1):
                return self if n == 1 else self.inv()
        return RotationTensor(of_rotvec(n * as_rotvec(self._quat)))

    @_either
    def approx_equal(self, other, atol=None, degrees=False):
        atol = 1e-8 if atol is None else atol * (DEGREES if degrees else 1.0)
        return (rotation_of(other) * self.inv()).magnitude() < atol

    # --- means ------------------------------------------------------------------------------------

    @_either
    def mean(self, weights=None, axis=None):
        q = np.atleast_2d(self._quat)
        if len(shape_of(q)) > 2 or axis not in (None, 0, -1, (0,)):
            raise DerivativeLost(
                f"{PLACE}.Rotation.mean: recorded rotations have a mean along one axis; use "
                "Rotation.from_quat(r.as_quat().reshape(-1, 4)).mean()"
            )
        weights = np.ones(len(q)) if weights is None else _floats(weights)
        found = steered(_mean_quaternion, q, weights)
        matrix = np.einsum("k,ki,kj->ij", weights, q, q)
        return RotationTensor(nearest_quaternion(found, matrix))


def _mean_quaternion(q, weights):
    return of_scipy("Rotation").from_quat(q).mean(weights).as_quat()


def rotation_of(x):
    """A rotation of SciPy's or ours as ours; NotImplemented of others."""
    if isinstance(x, RotationTensor):
        return x
    return RotationTensor(theirs=x) if isinstance(x, of_scipy("Rotation")) else NotImplemented


# --- rotations ------------------------------------------------------------------------------------
# SciPy's `spatial.transform` for recorded values: `Rotation`, `Slerp`.
#
# Inside of a transform (`tg.grad` and the like) these classes make objects of ours, also of plain
# values, since a method may be called with recorded ones later. Plain ones call SciPy's.


# --- constructors ---------------------------------------------------------------------------------


def _last(x, count: int, what: str):
    x = _floats(x)
    if shape_of(x)[-1:] != (count,):
        raise ValueError(f"Expected `{what}` to have shape (..., {count}), got {shape_of(x)}")
    return x


def from_quat(quat, *, scalar_first=False):
    return constructed(quat, scalar_first=scalar_first)


def constructed(quat, normalize=True, copy=True, scalar_first=False):
    q = _last(quat, 4, "quat")
    q = np.roll(q, -1, axis=-1) if scalar_first else q
    return RotationTensor(normalized(q) if normalize else q)


def from_rotvec(rotvec, degrees=False):
    r = _last(rotvec, 3, "rot_vec")
    return RotationTensor(of_rotvec(r * DEGREES if degrees else r))


def from_mrp(mrp):
    return RotationTensor(of_mrp(_last(mrp, 3, "mrp")))


def from_matrix(matrix, *, assume_valid=False):
    m = _floats(matrix)
    if shape_of(m)[-2:] != (3, 3):
        raise ValueError(f"Expected `matrix` to have shape (..., 3, 3), got {shape_of(m)}")
    return RotationTensor(of_matrix(m, assume_valid))


def _angles(angles, degrees, of_zeros, count: int):
    """Angles, one axis of them last, in the shape of the rotations that SciPy makes of zeros."""
    angles = _floats(angles)
    made = of_zeros(np.zeros(shape_of(angles))).as_quat()
    return np.reshape(angles * (DEGREES if degrees else 1.0), (*shape_of(made)[:-1], count))


def from_euler(seq, angles, degrees=False):
    of_zeros = functools.partial(of_scipy("Rotation").from_euler, seq)
    return RotationTensor(of_euler(seq, _angles(angles, degrees, of_zeros, len(seq))))


def from_davenport(axes, order, angles, degrees=False):
    axes = _floats(axes)
    of_zeros = functools.partial(of_scipy("Rotation").from_davenport, value_of(axes), order)
    axes = np.atleast_2d(axes)
    angles = _angles(angles, degrees, of_zeros, shape_of(axes)[-2])
    return RotationTensor(of_davenport(axes, order, angles))


def concatenate(rotations):
    if isinstance(rotations, RotationTensor):
        return rotations
    every = [rotation_of(x) for x in rotations]
    if NotImplemented in every:
        raise TypeError("input must contain Rotation objects only")
    return RotationTensor(np.concatenate([np.atleast_2d(x._quat) for x in every]))


def align_vectors(a, b, weights=None, return_sensitivity=False):
    """The best rotation of b to a, and the root of the sum of squares that is left."""
    a, b = (np.atleast_2d(_floats(x)) for x in (a, b))
    weights = np.ones(shape_of(a)[0]) if weights is None else _floats(weights)
    if return_sensitivity:
        raise DerivativeLost(f"{PLACE}.Rotation.align_vectors: return_sensitivity=True")
    infinite = steered(_has_infinite, weights)
    if shape_of(a)[0] < 2 or holds(infinite, "scipy.spatial.transform.Rotation"):
        raise DerivativeLost(
            f"{PLACE}.Rotation.align_vectors: recorded vectors are aligned by two pairs or more, "
            "of finite weights"
        )
    product = np.einsum("k,ki,kj->ij", weights, a, b)
    q = best_turn(steered(_aligned_quaternion, a, b, weights), product)
    left = np.sum(weights * np.sum((a - applied(q, b)) ** 2, axis=1))
    return RotationTensor(q), _root(left)


def _has_infinite(weights):
    return np.isinf(weights).any()


def _aligned_quaternion(a, b, weights):
    return of_scipy("Rotation").align_vectors(a, b, weights)[0].as_quat()


class RotationClass(ClassStandIn):
    """What stands for SciPy's class `Rotation`."""

    def __call__(self, *args, **keywords):
        return self._made(self._theirs, constructed, args, keywords)

    def _made(self, theirs, ours, args, keywords):
        if not is_plain((*args, *keywords.values())):
            return ours(*args, **keywords)
        made = theirs(*map(theirs_of, args), **{k: theirs_of(x) for k, x in keywords.items()})
        return ours_of(made) if rt.in_transform() else made

    def is_ours(self, x) -> bool:
        return isinstance(x, RotationTensor)


def _constructor(name: str, ours):
    def method(self, *args, **keywords):
        return self._made(getattr(self._theirs, name), ours, args, keywords)

    method.__name__ = name
    setattr(RotationClass, name, method)


for _one in (from_quat, from_rotvec, from_mrp, from_matrix, from_euler, from_davenport):
    _constructor(_one.__name__, _one)
for _one in (concatenate, align_vectors):
    _constructor(_one.__name__, _one)
for _name in ("identity", "random", "create_group"):
    _constructor(_name, None)


# --- interpolation --------------------------------------------------------------------------------


class SlerpTensor:
    """SciPy's `Slerp` of recorded rotations, or at recorded times."""

    is_made_of_state = True

    def __init__(self, times, rotations, theirs: Any = None):
        rotations = rotation_of(rotations)
        if rotations is NotImplemented:
            raise TypeError("`rotations` must be a `Rotation` instance.")
        if rotations.single or len(rotations) <= 1:
            raise ValueError("`rotations` must be a sequence of at least 2 rotations.")
        times = _floats(times)
        if shape_of(times) != (len(rotations),):
            raise ValueError(
                "Expected number of rotations to be equal to number of timestamps given, got "
                f"{len(rotations)} rotations and {shape_of(times)} timestamps."
            )
        self.times, self.timedelta, self._theirs = times, np.diff(times), theirs
        if holds(np.any(self.timedelta <= 0.0), "scipy.spatial.transform.Slerp()"):
            raise ValueError("Times must be in strictly increasing order.")
        self.rotations = rotations[:-1]
        self.rotvecs = (self.rotations.inv() * rotations[1:]).as_rotvec()

    @classmethod
    def of_object(cls, theirs) -> SlerpTensor:
        """What stands for SciPy's object, with its attributes."""
        made = object.__new__(cls)
        made.times, made.timedelta, made.rotvecs = theirs.times, theirs.timedelta, theirs.rotvecs
        made.rotations, made._theirs = rotation_of(theirs.rotations), theirs
        return made

    @property
    def stands_for(self) -> type:
        return of_scipy("Slerp")

    @property
    def plain_object(self) -> Any:
        return self._theirs

    def __call__(self, times):
        if self._theirs is not None and none_traced((times,)):
            return ours_of(self._theirs(times))
        times = _floats(times)
        if len(shape_of(times)) > 1:
            raise ValueError("`times` must be at most 1-dimensional.")
        each = np.atleast_1d(times)
        is_outside = np.any((each < self.times[0]) | (each > self.times[-1]))
        if holds(is_outside, "scipy.spatial.transform.Slerp()"):
            raise ValueError("Interpolation times must be within the range of the times given.")
        index = np.maximum(np.searchsorted(self.times, each) - 1, 0)
        before, length, rotvec, q = (
            np.take(x, index, axis=0)
            for x in (self.times, self.timedelta, self.rotvecs, self.rotations._quat)
        )
        turn = of_rotvec(rotvec * ((each - before) / length)[:, None])
        made = normalized(composed(q, turn))
        return RotationTensor(made if len(shape_of(times)) else made[0])


class SlerpClass(ClassStandIn):
    """What stands for SciPy's class `Slerp`."""

    def __call__(self, times, rotations):
        if not is_plain((times, rotations)):
            return SlerpTensor(times, rotations)
        made = self._theirs(times, theirs_of(rotations))
        return SlerpTensor(times, rotations, made) if rt.in_transform() else made

    def is_ours(self, x) -> bool:
        return isinstance(x, SlerpTensor)


OURS["spatial.transform.Rotation"] = RotationClass
OURS["spatial.transform.Slerp"] = SlerpClass
OURS["spatial.transform.RotationSpline"] = RefusingClass
if not is_before("1.16.0"):
    OURS["spatial.transform.RigidTransform"] = RefusingClass


# --- spatial objects ------------------------------------------------------------------------------
# Stand-ins of objects of `scipy.spatial` that were made outside of a function that is entered.


def of_instance(theirs):
    """The stand-in of an object; None where it is used itself."""
    if isinstance(theirs, of_scipy("Rotation")):
        return RotationTensor(theirs=theirs)
    if type(theirs) in kinds():
        return TreeTensor(theirs)
    if type(theirs) is of_scipy("Slerp"):
        return SlerpTensor.of_object(theirs)
    return None
