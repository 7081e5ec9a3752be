"""Rotations of SciPy whose quaternions may be recorded."""

from __future__ import annotations

import functools
import importlib
import math
from typing import Any

from .. import numpy as np
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import DerivativeLost, steered
from .._core.tensor.values import shape_of
from . import _rotation_formulas as formulas
from ._distances import _floats

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
        q = formulas.canonical(self._quat) if canonical else self._quat
        return np.roll(q, 1, axis=-1) if scalar_first else q

    @_either
    def as_matrix(self):
        return formulas.as_matrix(self._quat)

    @_either
    def as_rotvec(self, degrees=False):
        r = formulas.as_rotvec(self._quat)
        return r / DEGREES if degrees else r

    @_either
    def as_mrp(self):
        return formulas.as_mrp(self._quat)

    @_either
    def as_euler(self, seq, degrees=False, *, suppress_warnings=False):
        angles = formulas.as_euler(self._quat, seq, suppress_warnings)
        return angles / DEGREES if degrees else angles

    @_either
    def as_davenport(self, axes, order, degrees=False, *, suppress_warnings=False):
        angles = formulas.as_davenport(self._quat, _floats(axes), order, suppress_warnings)
        return angles / DEGREES if degrees else angles

    @_either
    def magnitude(self):
        return formulas.magnitude(self._quat)

    # --- products ---------------------------------------------------------------------------------

    @_either
    def apply(self, vectors, inverse=False):
        vectors = _floats(vectors)
        if shape_of(vectors)[-1:] != (3,):
            raise ValueError(f"Expected input of shape (..., 3), got {shape_of(vectors)}.")
        return formulas.applied(self._quat, vectors, inverse)

    @_either
    def inv(self):
        return RotationTensor(formulas.inverse(self._quat))

    @_either
    def __mul__(self, other):
        other = rotation_of(other)
        if other is NotImplemented:
            return other
        try:
            return RotationTensor(formulas.normalized(formulas.composed(self._quat, other._quat)))
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
        return RotationTensor(formulas.of_rotvec(n * formulas.as_rotvec(self._quat)))

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
        return RotationTensor(formulas.nearest_quaternion(found, matrix))


def _mean_quaternion(q, weights):
    return of_scipy("Rotation").from_quat(q).mean(weights).as_quat()


def rotation_of(x):
    """A rotation of SciPy's or ours as ours; NotImplemented of others."""
    if isinstance(x, RotationTensor):
        return x
    return RotationTensor(theirs=x) if isinstance(x, of_scipy("Rotation")) else NotImplemented
