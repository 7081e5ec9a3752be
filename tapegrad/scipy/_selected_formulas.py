"""SciPy's `signal` where its code selects a formula at one value, or drops coefficients that are 0.

There its copies would lose derivatives: to a coefficient that is 1, a frequency that is equal to
another, a numerator's coefficient that is 0.
"""

from __future__ import annotations

import importlib

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import fixed, lost_derivative, named, steered
from .._core.tensor.values import dtype_of, shape_of, value_of
from ._copied_code import copy_of, stands_for
from ._differentiable import OURS, is_before


def _entered(function):
    OURS[f"signal.{function.__name__}"] = function
    return function


def _by_copy(name: str):
    return copy_of(getattr(importlib.import_module("scipy.signal"), name))


def _is(answer, what: str) -> bool:
    """What a comparison gives; programs make it again."""
    return bool(fixed(answer, what))


def _vector(x):
    return PUBLIC["atleast_1d"](PUBLIC["asarray"](x))


@named("signal.zeros_before")
def _count_zeros(x, at_end: bool = False):
    """The number of zeros before the first element that is none, or after the last."""
    is_some = np.flatnonzero(x[::-1] if at_end else x)
    return np.array(is_some[0] if is_some.size else x.size)


def _zeros(x, what: str, at_end: bool = False) -> int:
    return int(fixed(steered(_count_zeros, x, at_end=at_end), what))


# --- states of filters ----------------------------------------------------------------------------


@_entered
def lfilter_zi(b, a):
    b, a = _vector(b), _vector(a)
    if len(shape_of(a)) != 1:
        raise ValueError("Denominator a must be 1-D.")
    a = a[min(_zeros(a, "lfilter_zi()"), shape_of(a)[0] - 1) :]
    return _by_copy("lfilter_zi")(b / a[0], a / a[0])


@_entered
def lfiltic(b, a, y, x=None):
    a = _vector(a)
    if len(shape_of(a)) != 1:
        raise ValueError("Filter coefficients `a` must be 1-D.")
    if not shape_of(a)[0]:
        raise ValueError("There must be at least one `a` coefficient.")
    if _is(a[0] == 0.0, "lfiltic()"):
        raise ValueError("First `a` filter coefficient must be non-zero.")
    if is_before("1.16.0"):  # which divides by nothing
        return _by_copy("lfiltic")(b, a, y, x)
    made = _by_copy("lfiltic")(b, PUBLIC["concatenate"]([np.ones(1, dtype_of(a)), a[1:]]), y, x)
    return made / a[0]


# --- forms of filters -----------------------------------------------------------------------------


@_entered
def lp2hp(b, a, wo=1.0):
    """The filter for the frequency 1, and that scaled: SciPy's has no power of 1."""
    return _by_copy("lp2lp")(*_by_copy("lp2hp")(b, a, 1.0), wo)


@_entered
def bilinear(b, a, fs=1.0):
    b, a = _vector(b), _vector(a)
    for name, x in (("a", a), ("b", b)):
        if len(shape_of(x)) != 1:
            raise ValueError(f"Parameter {name} is not a 1d array since {shape_of(x)=}")
    if fs is None:
        raise ValueError("Sampling frequency can not be none.")
    lengths = [shape_of(x)[0] - _zeros(x, "bilinear()") for x in (b, a)]
    n = max(*lengths, 1)
    scale = PUBLIC["sqrt"](2.0 * PUBLIC["asarray"](fs))
    made = []
    for x in (b, a):
        x = x[max(shape_of(x)[0] - n, 0) :]
        terms = _products(n, shape_of(x)[0])
        powers = 2.0 * np.arange(shape_of(x)[0]) - (n - 1.0)
        made.append(PUBLIC["matmul"](x[::-1] * scale**powers, terms))
    return _by_copy("normalize")(*made)


def _products(n: int, count: int) -> np.ndarray:
    """(z + 1)ⁿ⁻¹⁻ᵏ (z − 1)ᵏ for each k, from the highest power of z on."""
    rows = []
    for k in range(count):
        rows.append(np.poly([-1.0] * (n - 1 - k) + [1.0] * k) * np.ones(n))
    return np.array(rows)


# --- fractions ------------------------------------------------------------------------------------


def _fractions(name: str):
    """Partial fractions, which are linear in the numerator; a row of the result for each unit."""
    at_end = name == "residuez"

    def function(b, a, tol=1e-3, rtype="avg"):
        if not none_traced((a, tol)):
            raise lost_derivative(
                f"tapegrad.scipy.signal.{name}: the denominator or tol is recorded; the fractions "
                "have a derivative to the numerator only, give the others as plain numbers",
                (a, tol),
            )
        theirs, b = getattr(importlib.import_module("scipy.signal"), name), _vector(b)
        n, plain = shape_of(b)[0], np.asarray(value_of(a))
        rows = [theirs(unit, plain, tol, rtype) for unit in np.eye(n)]
        poles, count = rows[0][1], max(len(k) for _, _, k in rows)
        residues = np.array([one for one, _, _ in rows])
        kept = max(count - _zeros(b, f"{name}()", at_end), 0)
        left = [np.r_[k, np.zeros(count - len(k))] for _, _, k in rows]
        if not at_end:
            left = [np.r_[np.zeros(count - len(k)), k] for _, _, k in rows]
        direct = np.reshape(left, (n, count))
        direct = direct[:, :kept] if at_end else direct[:, count - kept :]
        return PUBLIC["matmul"](b, residues), poles, PUBLIC["matmul"](b, direct)

    OURS[f"signal.{name}"] = function


_fractions("residue")
_fractions("residuez")


# --- waves, splines, systems ----------------------------------------------------------------------


@stands_for("signal._waveforms._chirp_phase")
def _chirp_phase(t, f0, t1, f1, method="linear", vertex_zero=True):
    """The phase of a chirp, by a series where the frequencies are equal."""
    theirs = copy_of(importlib.import_module("scipy.signal._waveforms")._chirp_phase)
    is_curved = method in ("logarithmic", "log", "lo", "hyperbolic", "hyp")
    if not is_curved or not _is(PUBLIC["asarray"](f0) == f1, "chirp()"):
        return theirs(t, f0, t1, f1, method, vertex_zero)
    plain = [float(value_of(f)) for f in (f0, f1)]
    theirs(0.0, plain[0], 1.0, plain[1], method)  # which raises an error for some
    part = PUBLIC["asarray"](t) / t1
    if method in ("hyperbolic", "hyp"):
        u = part * (f1 - f0) / f1
        factor = 1.0 + u / 2.0 + u**2 / 3.0
    else:
        v = part * PUBLIC["log"](f1 / f0)
        factor = 1.0 + v / 2.0 + v**2 / 6.0
    return 2.0 * np.pi * f0 * t * factor


@_entered
def cspline1d(signal, lamb=0.0):
    if not none_traced((lamb,)) and _is(PUBLIC["asarray"](lamb) == 0.0, "cspline1d()"):
        raise lost_derivative(
            "tapegrad.scipy.signal.cspline1d: lamb is recorded and 0, where smoothing has no "
            "derivative; give 0 as a plain number",
            lamb,
        )
    return _by_copy("cspline1d")(signal, lamb)


@_entered
def lsim(system, U, T, X0=None, interp=True):  # noqa: N803
    """With a state that depends on the first time, also where that is 0."""
    if X0 is not None and not none_traced((T,)) and shape_of(T):
        signal = importlib.import_module("tapegrad.scipy.signal")
        linalg = importlib.import_module("tapegrad.scipy.linalg")
        theirs = importlib.import_module("scipy.signal")
        system = system if isinstance(system, theirs.lti) else signal.lti(*system)
        if _is(T[0] == 0.0, "lsim()"):
            a = PUBLIC["asarray"](system._as_ss().A)
            X0 = PUBLIC["matmul"](PUBLIC["asarray"](X0), linalg.expm(a.T * T[0]))  # noqa: N806
    return _by_copy("lsim")(system, U, T, X0, interp)
