"""SciPy's `quad`, and integrals over several variables by it, of what reads recorded values."""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.pytree import none_traced
from .._custom.closures import Captured
from ._differentiable import differentiable, of_functions
from ._integrals import QuadratureRule, by_numbers, integrated
from ._integrands import IntegrandArguments


def _theirs() -> Any:
    return importlib.import_module("scipy.integrate")


# --- one variable ---------------------------------------------------------------------------------


#: Weights with logarithms, and the same without one of them.
_WITHOUT: dict[str, tuple[str, ...]] = {
    "alg": (),
    "alg-loga": ("alg",),
    "alg-logb": ("alg",),
    "alg-log": ("alg-loga", "alg-logb"),
}


class _Quad(QuadratureRule):
    """The rules of QUADPACK, by the options of SciPy's `quad`."""

    def value(self, given):
        at, limits = self.integrand.bound(given.get("theta")), (given["a"], given["b"])
        options = {**self.options}
        options |= {name: given[name] for name in ("points", "wvar") if given[name] is not None}
        if self.integrand.count is None:
            value, error, *self.rest = _theirs().quad(at, *limits, **options)
            return value, error
        options["full_output"] = 0

        def integrate(number: Callable, k: int) -> float:
            return _theirs().quad(number, *limits, args=(k,), **options)[0]

        return by_numbers(integrate, at, self.integrand.count, self.wanted), 0.0

    def by_place(self, name, given):
        weight, theta = self.options.get("weight"), given.get("theta")
        if name == "points":
            return self.jumps(given)
        if name == "wvar":
            return self._by_parameter(weight, given)
        if weight is not None and weight.startswith("alg"):
            return self._by_limit_of_power(name, weight, given)
        x = given[name]
        if bool(np.isinf(x)):
            return None
        found = self.at(x, theta) if weight is None else self._weighted(x, weight, given)
        return found if name == "b" else -found

    def _weighted(self, x, weight: str, given):
        parameter = given["wvar"]
        found = self.at(x, given.get("theta"))
        if weight == "cauchy":
            return found / (x - parameter)
        return found * PUBLIC[weight](parameter * x)

    def _by_parameter(self, weight: str, given):
        """The derivative by the frequency, or by the pole: there the integral is one by parts."""
        if weight == "cauchy":
            ends = [self._weighted(given[name], weight, given) for name in ("a", "b")]
            return self.of(self.integrand.slope()).applied(given) + ends[0] - ends[1]
        other, sign = ("sin", -1.0) if weight == "cos" else ("cos", 1.0)
        return sign * self.of(self.integrand.moment(), weight=other, wopts=None).applied(given)

    def _by_limit_of_power(self, name: str, weight: str, given):
        """The derivative by an end of (x − a)ᵅ (b − x)ᵝ, as one over (x − a) / (b − a) has it."""
        low, high = given["a"], given["b"]
        if bool(low > high):
            low, high, name = high, low, "a" if name == "b" else "b"
        slope = self.integrand.slope()
        total = (sum(self.options_of_weight(given)) + 1.0) * self.applied(given)
        for other in _WITHOUT[weight]:
            total = total + self.of(self.integrand, weight=other).applied(given)
        first, zeroth = self.of(slope.moment()).applied(given), self.of(slope).applied(given)
        if name == "b":
            return (total + first - low * zeroth) / (high - low)
        return (high * zeroth - first - total) / (high - low)

    @staticmethod
    def options_of_weight(given) -> tuple:
        return tuple(given["wvar"])


_NAMES = ("epsabs", "epsrel", "limit", "points", "weight", "wvar", "wopts", "maxp1", "limlst")


@differentiable("integrate.quad")
@of_functions
def quad(func, a, b, args=(), full_output=0, *more, complex_func=False, **options):
    options = {**dict(zip(_NAMES, more, strict=False)), **options}
    if len(more) > len(_NAMES):
        complex_func = more[len(_NAMES)]
    args = args if isinstance(args, tuple) else (args,)
    if complex_func:
        return _of_complex(func, (a, b, args, full_output), options)
    if _is_compiled(func):
        _check_plain("integrate.quad", func, (a, b, args, options))
        return _theirs().quad(func, a, b, args, full_output, **options)
    points, wvar = options.pop("points", None), options.pop("wvar", None)
    if isinstance(wvar, (tuple, list)) and not none_traced(wvar):
        raise TypeError(
            "tapegrad.scipy.integrate.quad: wvar is recorded, and integrals with a weight of "
            "powers have no derivative by their exponents; give plain numbers, or write the powers "
            "into the function, without weight"
        )
    integrand = IntegrandArguments("integrate.quad", func, args)
    rule = _Quad(integrand, full_output=full_output, **options)
    return integrated(rule, integrand, a=a, b=b, points=_points(points), wvar=wvar)


def _is_compiled(func) -> bool:
    """Whether a function is no code of Python: a `LowLevelCallable`, one of `ctypes`."""
    return not callable(func) or isinstance(func, _OF_CTYPES)


_OF_CTYPES: Any = ctypes.CFUNCTYPE(None).__mro__[1]


def _check_plain(name: str, func, given) -> None:
    if not none_traced(_leaves(given)):
        raise TypeError(
            f"tapegrad.scipy.{name}: the function is of type {type(func).__name__}, compiled code, "
            "which has no derivative; give a function of Python"
        )


def _leaves(given) -> list:
    if isinstance(given, dict):
        return _leaves([*given.values()])
    if isinstance(given, (tuple, list)):
        return [leaf for one in given for leaf in _leaves(one)]
    return [given]


def _points(points):
    """Points at which an interval is split, one vector if some are recorded."""
    if points is None or none_traced(_leaves([*points])):
        return points
    return PUBLIC["stack"]([*points])


def _of_complex(func, given, options) -> tuple:
    """The integral of a complex function: those of its real and its imaginary part."""
    real, imag = [quad(_part(func, name), *given, **options) for name in ("real", "imag")]
    found = real[0] + 1j * imag[0], real[1] + 1j * imag[1]
    return (*found, {"real": real[2:], "imag": imag[2:]}) if given[-1] else found


def _part(func: Callable, name: str) -> Callable:
    def part(x, *args):
        return getattr(func(x, *args), name)

    return part


# --- several variables ----------------------------------------------------------------------------


class _Nested(_Quad):
    """SciPy's `nquad`: the integral over the last variable of one over the others."""

    def value(self, given):
        if type(self.integrand) is not IntegrandArguments:
            return super().value(given)
        _, (_, _, args, opts) = self.integrand.filled(given.get("theta"))
        func, *ranges = self.functions(given.get("theta"))
        own = {**self.options}
        full_output = own.pop("full_output")
        own |= {name: given[name] for name in ("points", "wvar") if given[name] is not None}
        every = [*ranges, [given["a"], given["b"]]]
        value, error, *self.rest = _theirs().nquad(func, every, args, [*opts, own], full_output)
        return value, error

    def functions(self, theta):
        """The integrand, and the limits of the inner variables."""
        _, (func, ranges, _, _) = self.integrand.filled(theta)
        made = [one if callable(one) else functools.partial(_constant, one) for one in ranges]
        return [self.integrand.checked(one, (), k) for k, one in enumerate((func, *made))]


def _constant(value, *_):
    return value


class _Flat(QuadratureRule):
    """SciPy's `nquad` where no limit depends on recorded values.

    Then derivatives are integrals over the same region. `options` has its ranges and options, as
    functions of the outer variables alone.
    """

    def value(self, given):
        at, count = self.integrand.bound(given.get("theta")), self.integrand.count
        ranges, opts = self.options["ranges"], self.options["opts"]
        if type(self.integrand) is IntegrandArguments:
            full_output = self.options["full_output"]
            first, *ranges = self.functions(given.get("theta"))
            func = lambda *x: first(x)
            value, error, *self.rest = _theirs().nquad(func, ranges, (), opts, full_output)
            return value, error
        if count is None:
            return _theirs().nquad(lambda *x: at(np.array(x)), ranges, (), opts)

        def integrate(number: Callable, k: int) -> float:
            return _theirs().nquad(lambda *x: number(x, k), ranges, (), opts)[0]

        return by_numbers(integrate, lambda x: at(np.array(x)), count, self.wanted), 0.0

    def functions(self, theta):
        """The integrand, and the limits."""
        at = self.integrand.bound(theta)
        ranges = [
            self.integrand.checked(one, (), 1 + k) for k, one in enumerate(self.options["ranges"])
        ]
        return [at, *ranges]


def _of_several(x, func, args):
    return func(*x, *args)


def _of_outer(one, args: tuple) -> Callable:
    """Limits or options as a function of the outer variables."""
    return (lambda *x: one(*x, *args)) if callable(one) else functools.partial(_constant, one)


def _is_constant(ranges, args, opts) -> bool:
    """Whether no limit depends on recorded values."""
    found = Captured(ranges, opts)
    if found.tensors:
        return False
    is_own = [not callable(one) or hasattr(one, "takes_outer") for one in (*ranges, *opts)]
    return all(is_own) or none_traced(_leaves(args))


def _inner(x, func, ranges, args, opts):
    """The integral over all variables but the last one."""
    return nquad(func, ranges, (x, *args), opts)[0]


@differentiable("integrate.nquad")
@of_functions
def nquad(func, ranges, args=None, opts=None, full_output=False):
    return _nested("integrate.nquad", func, ranges, () if args is None else args, opts, full_output)


def _nested(name: str, func, ranges, args, opts, full_output=False) -> tuple:
    if _is_compiled(func):
        _check_plain(name, func, (ranges, args, opts))
        return _theirs().nquad(func, ranges, args, opts, full_output)
    opts = [opts or {}] * len(ranges) if opts is None or isinstance(opts, dict) else opts
    if len(ranges) > 1 and _is_constant(ranges, args, opts):
        given, integrand = tuple(args), IntegrandArguments(name, _of_several, (func, tuple(args)))
        flat = [[_of_outer(one, given) for one in every] for every in (ranges, opts)]
        rule: QuadratureRule = _Flat(
            integrand, ranges=flat[0], opts=flat[1], full_output=full_output
        )
        return integrated(rule, integrand)
    low, high = ranges[-1](*args) if callable(ranges[-1]) else ranges[-1]
    own = dict(opts[-1](*args) if callable(opts[-1]) else opts[-1])
    if "points" in own:
        own["points"] = [x for x in own["points"] if low <= x <= high]
    if len(ranges) == 1:
        value, error, *rest = quad(func, low, high, args, full_output, **own)
        return (value, error, {"neval": rest[0]["neval"]}) if full_output else (value, error)
    given = func, tuple(ranges[:-1]), tuple(args), tuple(opts[:-1])
    integrand = IntegrandArguments(name, _inner, given)
    points, wvar = own.pop("points", None), own.pop("wvar", None)
    rule = _Nested(integrand, full_output=full_output, **own)
    return integrated(rule, integrand, a=low, b=high, points=_points(points), wvar=wvar)


def _limits(low, high, places: tuple[int, ...]) -> Callable:
    """Limits that are numbers, or functions of the outer variables at places."""

    def limits(*x):
        given = [x[k] for k in places]
        return [one(*given) if callable(one) else one for one in (low, high)]

    limits.takes_outer = True  # type: ignore[attr-defined]
    return limits


@differentiable("integrate.dblquad")
@of_functions
def dblquad(func, a, b, gfun, hfun, args=(), epsabs=1.49e-8, epsrel=1.49e-8):
    ranges, opts = [_limits(gfun, hfun, (0,)), [a, b]], {"epsabs": epsabs, "epsrel": epsrel}
    return _nested("integrate.dblquad", func, ranges, args, opts)


@differentiable("integrate.tplquad")
@of_functions
def tplquad(func, a, b, gfun, hfun, qfun, rfun, args=(), epsabs=1.49e-8, epsrel=1.49e-8):
    ranges = [_limits(qfun, rfun, (1, 0)), _limits(gfun, hfun, (0,)), [a, b]]
    return _nested("integrate.tplquad", func, ranges, args, {"epsabs": epsabs, "epsrel": epsrel})


# --- vectors --------------------------------------------------------------------------------------


class _QuadVec(QuadratureRule):
    """SciPy's `quad_vec`: all elements of a result are integrated together."""

    def value(self, given):
        at, options = self.integrand.bound(given.get("theta")), {**self.options}
        if given["points"] is not None:
            options["points"] = given["points"]
        limits = given["a"], given["b"]
        if self.integrand.count is None:
            value, error, *self.rest = _theirs().quad_vec(at, *limits, **options)
            return value, error
        options["full_output"] = False
        made, places = np.zeros(self.integrand.count), np.flatnonzero(self.wanted)
        made[places] = _theirs().quad_vec(lambda x: at(x)[places], *limits, **options)[0]
        return made, 0.0

    def by_place(self, name, given):
        if name == "points":
            return self.jumps(given)
        x = given[name]
        if bool(np.isinf(x)):
            return None
        found = self.at(x, given.get("theta"))
        return found if name == "b" else -found


@differentiable("integrate.quad_vec")
@of_functions
def quad_vec(f, a, b, *more, args=(), **options):
    names = ("epsabs", "epsrel", "norm", "cache_size", "limit", "workers", "points", "quadrature")
    options = {**dict(zip((*names, "full_output"), more, strict=False)), **options}
    args = args if isinstance(args, tuple) else (args,)
    points = _points(options.pop("points", None))
    integrand = IntegrandArguments("integrate.quad_vec", f, args)
    return integrated(_QuadVec(integrand, **options), integrand, a=a, b=b, points=points)
