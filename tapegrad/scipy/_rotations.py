"""SciPy's `spatial.transform` for recorded values: `Rotation`, `Slerp`.

Inside of a transform (`tg.grad` and the like) these classes make objects of ours, also of plain
values, since a method may be called with recorded ones later. Plain ones call SciPy's.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import numpy as np
from .._core.tensor import runtime as rt
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import DerivativeLost, steered
from .._core.tensor.values import shape_of, value_of
from . import _rotation_formulas as formulas
from ._class_stand_ins import ClassStandIn, RefusingClass
from ._differentiable import OURS, is_before
from ._distances import _floats
from ._rotation_tensors import (
    DEGREES,
    PLACE,
    RotationTensor,
    is_plain,
    of_scipy,
    ours_of,
    rotation_of,
    theirs_of,
)

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
    return RotationTensor(formulas.normalized(q) if normalize else q)


def from_rotvec(rotvec, degrees=False):
    r = _last(rotvec, 3, "rot_vec")
    return RotationTensor(formulas.of_rotvec(r * DEGREES if degrees else r))


def from_mrp(mrp):
    return RotationTensor(formulas.of_mrp(_last(mrp, 3, "mrp")))


def from_matrix(matrix, *, assume_valid=False):
    m = _floats(matrix)
    if shape_of(m)[-2:] != (3, 3):
        raise ValueError(f"Expected `matrix` to have shape (..., 3, 3), got {shape_of(m)}")
    return RotationTensor(formulas.of_matrix(m, assume_valid))


def _angles(angles, degrees, of_zeros, count: int):
    """Angles, one axis of them last, in the shape of the rotations that SciPy makes of zeros."""
    angles = _floats(angles)
    made = of_zeros(np.zeros(shape_of(angles))).as_quat()
    return np.reshape(angles * (DEGREES if degrees else 1.0), (*shape_of(made)[:-1], count))


def from_euler(seq, angles, degrees=False):
    of_zeros = functools.partial(of_scipy("Rotation").from_euler, seq)
    return RotationTensor(formulas.of_euler(seq, _angles(angles, degrees, of_zeros, len(seq))))


def from_davenport(axes, order, angles, degrees=False):
    axes = _floats(axes)
    of_zeros = functools.partial(of_scipy("Rotation").from_davenport, value_of(axes), order)
    axes = np.atleast_2d(axes)
    angles = _angles(angles, degrees, of_zeros, shape_of(axes)[-2])
    return RotationTensor(formulas.of_davenport(axes, order, angles))


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
    if shape_of(a)[0] < 2 or formulas.holds(infinite, "scipy.spatial.transform.Rotation"):
        raise DerivativeLost(
            f"{PLACE}.Rotation.align_vectors: recorded vectors are aligned by two pairs or more, "
            "of finite weights"
        )
    product = np.einsum("k,ki,kj->ij", weights, a, b)
    q = formulas.best_turn(steered(_aligned_quaternion, a, b, weights), product)
    left = np.sum(weights * np.sum((a - formulas.applied(q, b)) ** 2, axis=1))
    return RotationTensor(q), formulas._root(left)


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
        if formulas.holds(np.any(self.timedelta <= 0.0), "scipy.spatial.transform.Slerp()"):
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
        if formulas.holds(is_outside, "scipy.spatial.transform.Slerp()"):
            raise ValueError("Interpolation times must be within the range of the times given.")
        index = np.maximum(np.searchsorted(self.times, each) - 1, 0)
        before, length, rotvec, q = (
            np.take(x, index, axis=0)
            for x in (self.times, self.timedelta, self.rotvecs, self.rotations._quat)
        )
        turn = formulas.of_rotvec(rotvec * ((each - before) / length)[:, None])
        made = formulas.normalized(formulas.composed(q, turn))
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
