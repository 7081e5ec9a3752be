"""SciPy's `interpolate` for recorded values: classes derived from SciPy's, and what they share.

An object of such a class is SciPy's own as long as nothing is recorded: made of plain data, it is
computed by SciPy's methods at plain points. Recorded data, and what is computed from them, are in
`_held`, under the names of SciPy's attributes. A view stands for an object that SciPy's class made,
where entered code uses its name: it has no data of its own.
"""

from __future__ import annotations

import functools
import importlib
import types
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.complex_tensors import is_complex
from .._core.tensor.copies import unlisted
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import fixed, lost_derivative, steered
from .._core.tensor.values import dtype_of, is_tensor, shape_of
from ._differentiable import OURS

PLACE = "tapegrad.scipy.interpolate"
theirs: Any = importlib.import_module("scipy.interpolate")
#: By SciPy's class, ours.
CLASSES: dict[type, type] = {}


def refused(name: str, why: str, *operands):
    """The error of a method or a function that has no derivative."""
    return lost_derivative(f"{PLACE}.{name}: {why}", operands)


def entered(function):
    """Let a function stand for SciPy's of its name."""
    OURS[f"interpolate.{function.__name__}"] = function
    return function


def making(function):
    """The same for one that makes objects of SciPy's classes: ours, of plain arguments too."""
    own = getattr(theirs, function.__name__)

    @functools.wraps(function)
    def made(*args, **kwargs):
        if none_traced(args) and none_traced(kwargs.values()):
            found = own(*args, **kwargs)
            return tuple(map(view_of, found)) if type(found) is tuple else view_of(found)
        return function(*args, **kwargs)

    made.makes_objects = True
    return entered(made)


# --- operands -------------------------------------------------------------------------------------


def floats(name: str, what: str, x):
    """An operand as a tensor or an array of float64, as SciPy takes it."""
    x = unlisted(x)
    if is_complex(x) or dtype_of(x).kind == "c":
        raise refused(
            name, f"{what} is complex; interpolate real and imaginary parts, z.real and z.imag", x
        )
    if not is_tensor(x):
        return np.asarray(x, np.float64)
    return x if dtype_of(x) == np.float64 else x.astype(np.float64)


def kind_of_floats(*operands) -> np.dtype:
    """The dtype of floats that NumPy gives for operands."""
    return np.result_type(np.float32, *[dtype_of(unlisted(x)) for x in operands])


def in_kind(x, dtype):
    """A result in a dtype, where SciPy computes in that of the operands."""
    return x if dtype_of(x) == dtype else x.astype(dtype)


def holds(what: str, test, *operands) -> bool:
    """Whether a condition holds for operands, which programs check too."""
    return bool(fixed(steered(test, *operands), f"the check of {what}"))


def all_finite(*operands) -> bool:
    return all([bool(np.isfinite(x).all()) for x in operands])


def increases(x) -> bool:
    return bool((x[1:] > x[:-1]).all())


def is_sorted(x) -> bool:
    return bool((x[1:] >= x[:-1]).all())


def is_monotone(x) -> bool:
    steps = np.diff(x)
    return bool((steps >= 0).all() or (steps <= 0).all())


def flat(x):
    return PUBLIC["reshape"](x, (-1,))


def columns(x):
    """An array with its first axis, and one for all others."""
    shape = shape_of(x)
    return PUBLIC["reshape"](x, (shape[0], int(np.prod(shape[1:]))))


def beside(x, other):
    """A vector with as many axes as another array has."""
    return x[(slice(None), *(None,) * (len(shape_of(other)) - 1))]


def with_points(out, points_shape: tuple, extra: tuple, axis: int):
    """Values of shape (points, others) with the shapes of both, the points' axes in place."""
    out = PUBLIC["reshape"](out, (*points_shape, *extra))
    n = len(points_shape)
    if axis == 0 or n == 0:
        return out
    order = [*range(n, n + axis), *range(n), *range(n + axis, n + len(extra))]
    return PUBLIC["transpose"](out, order)


def over_periods(whole, first, last, a, b):
    """The integral from a to b of what repeats, of which `whole` is the integral in one period."""
    period = last - first

    def until(at):
        turns = PUBLIC["floor"]((at - first) / period)
        inside = first + PUBLIC["remainder"](at - first, period)
        return whole(inside) + turns * (whole(last) - whole(first))

    return until(b) - until(a)


# --- classes --------------------------------------------------------------------------------------


class StandIn(type):
    """The class of classes that stand for SciPy's: instances of SciPy's count as theirs."""

    def __instancecheck__(cls, x):
        return isinstance(x, vars(cls).get("_own", ())) or super().__instancecheck__(x)

    def __subclasscheck__(cls, kind):
        return issubclass(kind, vars(cls).get("_own", ())) or super().__subclasscheck__(kind)


class Interpolator(metaclass=StandIn):
    """What classes that stand for SciPy's have in common."""

    _own: type
    _held: dict[str, Any] | None = None
    _original: Any = None

    def __getattr__(self, name: str):
        held = self.__dict__.get("_held")
        if held is not None and name in held:
            return held[name]
        original = self.__dict__.get("_original")
        if original is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(original, name)

    def __reduce_ex__(self, protocol):
        if self._original is not None:
            return view_of, (self._original,)
        return super().__reduce_ex__(protocol)

    def _is_plain(self, *operands) -> bool:
        """Whether neither operands nor data are recorded."""
        return none_traced(operands) and none_traced(self._held_data())

    def _held_data(self) -> tuple:
        """The data on which derivatives depend."""
        return () if self._held is None else tuple(self._held.values())

    def _plainly(self, method: str, *args, **kwargs):
        """What SciPy's method gives; objects of its classes as views."""
        if self._held is not None:  # of data that are not recorded any longer
            held = {name: plain(x) for name, x in self._held.items()}
            self._original, self._held = self._of_plain(**held), None
        if self._original is not None:
            return view_of(getattr(self._original, method)(*args, **kwargs))
        return getattr(self._own, method)(self, *args, **kwargs)

    def _of_plain(self, **held):
        """SciPy's object for plain data in the place of those that are held."""
        return self._own.construct_fast(**held)

    def _refuse(self, method: str, *operands):
        name = f"{self._own.__name__}.{method}"
        return refused(name, "it has no derivative here", *operands, *self._held_data())


def plain(x):
    """The values of a tensor as an array."""
    return np.asarray(x.detach()) if is_tensor(x) else x


def field(own: type, name: str) -> property:
    """An attribute of SciPy's objects, or what is held in its place."""
    original = getattr(own, name, None)

    def get(self):
        if self._held is not None:
            return self._held[name]
        if self._original is not None:
            return getattr(self._original, name)
        return self.__dict__[name] if original is None else original.__get__(self, type(self))

    def put(self, value):
        if self._held is not None:
            self._held[name] = value
        elif self._original is not None:
            setattr(self._original, name, value)
        elif original is None:
            self.__dict__[name] = value
        else:
            original.__set__(self, value)

    return property(get, put)


def stands_for(own: type):
    """A decorator: a class stands for one of SciPy's, from which it is derived."""

    def enter(kind):
        kind._own, kind.__wrapped__, kind.__module__ = own, own, PLACE
        kind.__name__ = kind.__qualname__ = own.__name__
        kind.__doc__ = own.__doc__
        CLASSES[own] = kind
        if hasattr(theirs, own.__name__):
            OURS[f"interpolate.{own.__name__}"] = kind
        return kind

    return enter


def view_of(x):
    """The view of an object that SciPy's class made; anything else as it is."""
    kind = CLASSES.get(type(x))
    if kind is None:
        return x
    made = object.__new__(kind)
    made.__dict__["_original"] = x
    return made


@functools.cache
def _import_all() -> None:
    importlib.import_module(f"{__package__}._forwarding").find_ours("interpolate.")


def of_instance(x):
    """What stands for an object of SciPy's; None for one that is used itself."""
    _import_all()
    made = view_of(x)
    return None if made is x else made


def not_derived(own: type, *methods: str) -> dict[str, types.FunctionType]:
    """Methods of SciPy's that refuse recorded values by name."""

    def of(method: str):
        @functools.wraps(getattr(own, method))
        def refusing(self, *args, **kwargs):
            if self._is_plain(*args, *kwargs.values()):
                return self._plainly(method, *args, **kwargs)
            raise self._refuse(method, *args, *kwargs.values())

        return refusing

    return {method: of(method) for method in methods}
