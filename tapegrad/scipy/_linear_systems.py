"""SciPy's `signal` for recorded values: linear systems of continuous and of discrete time."""

from __future__ import annotations

import functools
import importlib

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import lost_derivative
from .._core.tensor.values import dtype_of, shape_of
from ._copied_classes import converted, copied_class
from ._copied_code import stands_for
from ._differentiable import OURS

_FORMS = {2: "TransferFunction", 3: "ZerosPolesGain", 4: "StateSpace"}


def _choosing(theirs: type, _package: str) -> type:
    """A class of systems, which makes them of the class for their form and time."""
    made = copied_class(theirs)

    def new(cls, *system, **kwargs):
        form = theirs.__name__
        if len(system) == 1 and form in _CONVERSIONS and isinstance(system[0], theirs.__base__):
            return getattr(system[0], _CONVERSIONS[form])()
        if cls is not made:
            return object.__new__(cls)
        if form in ("lti", "dlti"):
            if len(system) not in _FORMS:
                raise ValueError(
                    f"`system` needs to be an instance of `{form}` or have 2, 3 or 4 arguments."
                )
            is_discrete, form = form == "dlti", _FORMS[len(system)]
        else:
            is_discrete = kwargs.get("dt") is not None
        return object.__new__(_concrete(f"{form}{'Discrete' if is_discrete else 'Continuous'}"))

    made.__new__ = new
    return made


#: The method that gives a system in the form of a class.
_CONVERSIONS = {"TransferFunction": "to_tf", "ZerosPolesGain": "to_zpk", "StateSpace": "to_ss"}


@functools.cache
def _concrete(name: str) -> type:
    return copied_class(getattr(importlib.import_module("scipy.signal._ltisys"), name))


@functools.cache
def _prepare() -> None:
    signal = importlib.import_module("tapegrad.scipy.signal")
    for name in ("lti", "dlti", *_CONVERSIONS, "CZT", "ShortTimeFFT", "ZoomFFT"):
        getattr(signal, name)


def of_instance(theirs):
    """What stands for an object of SciPy's; None for one that is used itself."""
    if type(theirs).__module__ not in _PLACES:
        return None
    _prepare()
    copied_class(type(theirs))
    return converted(theirs)


_PLACES = tuple([f"scipy.signal.{one}" for one in ("_ltisys", "_short_time_fft", "_czt")])
#: With more states, the coefficients of their polynomials would have few right digits.
_MOST_STATES = 8


@stands_for("signal._lti_conversion.poly")
def _characteristic(a):
    """The polynomial of a square matrix by Faddeev and LeVerrier, or that with some zeros."""
    if len(shape_of(a)) != 2 or none_traced((a,)):
        return PUBLIC["poly"](a)
    n = shape_of(a)[0]
    if n == 0:
        return np.ones(1)
    if n > _MOST_STATES:
        raise lost_derivative(
            f"tapegrad.scipy.signal: the transfer function of a recorded system of {n} states; "
            f"it has a derivative for up to {_MOST_STATES}",
            a,
        )
    one = np.eye(n, dtype=np.result_type(dtype_of(a), np.float32))
    a, coefficients, power = a.astype(one.dtype), [PUBLIC["asarray"](one[0, 0])], 0.0 * one
    for k in range(1, n + 1):
        power = PUBLIC["matmul"](a, power + coefficients[-1] * one)
        coefficients.append(-np.trace(power) / k)
    return np.stack(coefficients)


@stands_for("signal._ltisys.make_interp_spline")
def _lines(t, u, k):
    """Lines between the rows of `u` at times, for use at others."""

    def at(times):
        columns = [np.interp(times, t, u[:, j]) for j in range(shape_of(u)[1])]
        return np.stack(columns, axis=-1)

    return at


for _name in ("lti", "dlti", *_CONVERSIONS):
    OURS[f"signal.{_name}"] = _choosing
