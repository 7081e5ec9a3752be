"""SciPy's integrals and sums of functions of many places at once, that read recorded values."""

from __future__ import annotations

import dataclasses
import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.copies import unlisted
from .._core.tensor.operators import users_level
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import refuse
from .._core.tensor.values import is_recorded, value_of
from .._custom.closures import Captured
from .._entering.entering import entering
from ._differentiable import differentiable, of_functions
from ._integrals import QuadratureRule, RuleOfArrays, integrated
from ._integrands import IntegrandArguments, plain_result


def _theirs() -> Any:
    return importlib.import_module("scipy.integrate")


def _refuse_complex(name: str, value) -> None:
    if np.iscomplexobj(value):
        raise TypeError(
            f"tapegrad.scipy.{name}: the function returns complex numbers, which have no "
            "derivative here; integrate the real and the imaginary part"
        )


_TINY = float(np.finfo(float).tiny)


def _size(value) -> float:
    return float(np.max(np.abs(value), initial=0.0, where=np.isfinite(value)))


def _warn_of(rule: Any, value, error) -> None:
    """Say that a derivative has not converged, if its error is more than that of rounding."""
    if not np.all(np.asarray(error) <= 1e-7 * max(_size(value), rule.size)):
        warnings.warn(
            f"tapegrad.scipy.{rule.integrand.name}: a derivative has not converged: SciPy's "
            "function, applied to the derivative of yours, does not report success",
            RuntimeWarning,
            stacklevel=users_level(),
        )


def _refuse_log(name: str, options: dict[str, Any]) -> None:
    if options.get("log"):
        raise TypeError(
            f"tapegrad.scipy.{name}: with log=True there is no derivative; call it with the "
            "exponential of the function, and take the logarithm of the result"
        )


# --- element by element ---------------------------------------------------------------------------


class _ElementWise(RuleOfArrays):
    """SciPy's functions of arrays whose elements are integrals, or sums, of their own.

    The integrand takes a tuple: places, and the arguments "arg0" and so on, which SciPy broadcasts.
    """

    theirs: str
    #: The field of the result that is the value, those of numbers beside it, and all in order.
    value_field: str
    fields: tuple[str, ...]
    order: tuple[str, ...]
    bounds: tuple[str, ...] = ("a", "b")
    kind: Any = None  # the class of results
    size = 0.0  # of the value, of which the derivatives are

    def _args(self, given) -> list:
        return [given[name] for name in given if name.startswith("arg")]

    def value(self, given):
        at, options = self.integrand.bound(given.get("theta")), {**self.options}
        if type(self.integrand) is not IntegrandArguments:
            options.pop("callback", None)
            self.let_zero_converge(options)
        bounds = {name: given[name] for name in self.bounds}
        args = tuple([given[f"arg{k}"] for k in range(len(self._args(given)))])
        found = self._found(lambda x, *args: at((x, *args)), bounds, args, options)
        _refuse_complex(self.integrand.name, found[self.value_field])
        self.kind = type(found)
        if type(self.integrand) is IntegrandArguments:
            self.size = _size(found[self.value_field])
        elif not np.all(found["success"]):
            _warn_of(self, found[self.value_field], found["error"])
        return found[self.value_field], *[found[name] for name in self.fields]

    def let_zero_converge(self, options: dict[str, Any]) -> None:
        """Let a derivative that is 0 everywhere be found with a relative tolerance, too."""
        options["atol"] = max(options.get("atol") or 0.0, _TINY)

    def _found(self, at: Callable, bounds: dict[str, Any], args: tuple, options: dict[str, Any]):
        """The result of SciPy's function."""
        return getattr(_theirs(), self.theirs)(at, **bounds, args=args, **options)

    def by_place(self, name, given):
        if name.startswith("arg"):
            inner = self.of(self.integrand.partial(1 + int(name.removeprefix("arg"))))
            return inner.applied(given)
        return self.by_limit(name, given)

    def by_limit(self, name: str, given):
        """The derivative by a limit."""
        raise NotImplementedError

    def result(self, made: tuple) -> Any:
        """The numbers in an object like SciPy's."""
        pairs = dict(zip((self.value_field, *self.fields), made, strict=True))
        return self.kind(**{name: pairs[name] for name in self.order})


class _TanhSinh(_ElementWise):
    theirs, value_field = "tanhsinh", "integral"
    fields = ("error", "success", "status", "nfev", "maxlevel")
    order = ("success", "status", "integral", "error", "maxlevel", "nfev")

    def by_limit(self, name, given):
        args = [given[f"arg{k}"] for k in range(len(self._args(given)))]
        shapes = [np.shape(value_of(one)) for one in (given["a"], given["b"], *args)]
        x = PUBLIC["broadcast_to"](given[name], np.broadcast_shapes(*shapes))
        finite = PUBLIC["isfinite"](x)
        if not bool(PUBLIC["any"](finite)):
            return None
        places = PUBLIC["where"](finite, x, 0.0)
        found = entering(self.integrand.function)((places, *args), given.get("theta"))
        found = PUBLIC["where"](finite, found, 0.0)
        return found if name == "b" else -found


class _Sum(_ElementWise):
    theirs, value_field = "nsum", "sum"
    bounds = ("a", "b", "step")
    fields = ("error", "status", "success", "nfev")
    order = ("sum", "error", "status", "success", "nfev")

    def let_zero_converge(self, options):
        given = {**(options.get("tolerances") or {})}
        options["tolerances"] = {**given, "atol": max(given.get("atol") or 0.0, _TINY)}

    def _found(self, at, bounds, args, options):
        """SciPy sums what decreases to 0: of derivatives that are negative, the opposites."""
        if type(self.integrand) is IntegrandArguments:
            return super()._found(at, bounds, args, options)
        starts = [np.broadcast_arrays(*bounds.values(), *args)[k] for k in (0, 1)]
        first = np.where(np.isfinite(starts[0]), *starts)
        with np.errstate(all="ignore"):
            values = at(np.where(np.isfinite(first), first, 0.0) * 1.0, *args)
        signs = np.where(np.asarray(values) < 0.0, -1.0, 1.0)
        found = super()._found(
            lambda x, sign, *args: sign * at(x, *args), bounds, (signs, *args), options
        )
        found["sum"] = signs * found["sum"]
        return found

    def by_limit(self, name, given):
        """Terms move with the end from which they are counted; their number is constant."""
        if name == "step":
            raise TypeError(
                "tapegrad.scipy.integrate.nsum: step is recorded; write it into the function"
            )
        infinite = PUBLIC["isinf"](given["a"])
        counts_down = bool(PUBLIC["any"](infinite))
        if counts_down and not bool(PUBLIC["all"](infinite)):
            raise TypeError(
                "tapegrad.scipy.integrate.nsum: a limit is recorded, and some elements of a are "
                "infinite, others not; give those sums in a call of their own"
            )
        if name == ("a" if counts_down else "b"):
            return None
        return self.of(self.integrand.partial(0)).applied(given)


def _of_tuple(x, f):
    return f(*x)


def _element_wise(kind: Any, f: Callable, args, places: dict[str, Any], options: dict[str, Any]):
    name = f"integrate.{kind.theirs}"
    args = args if isinstance(args, tuple) else (args,)
    integrand = IntegrandArguments(name, _of_tuple, (f,), compiles=False)
    if none_traced([*map(unlisted, args), *places.values()]) and not integrand.tensors:
        checked = integrand.checked(f)
        return getattr(_theirs(), kind.theirs)(checked, **places, args=args, **options)
    _refuse_log(name, options)
    rule = kind(integrand, **options)
    places |= {f"arg{k}": unlisted(one) for k, one in enumerate(args)}
    return rule.result(integrated(rule, integrand, **places))


@differentiable("integrate.tanhsinh")
@of_functions
def tanhsinh(f, a, b, *, args=(), **options):
    return _element_wise(_TanhSinh, f, args, {"a": unlisted(a), "b": unlisted(b)}, options)


@differentiable("integrate.nsum")
@of_functions
def nsum(f, a, b, *, step=1, args=(), **options):
    places = {"a": unlisted(a), "b": unlisted(b), "step": unlisted(step)}
    return _element_wise(_Sum, f, args, places, options)


# --- boxes ----------------------------------------------------------------------------------------


class _Box(RuleOfArrays):
    """SciPy's `cubature`."""

    found: Any = None  # the result of SciPy's function
    size = 0.0  # of the value, of which the derivatives are

    def value(self, given):
        at, name = self.integrand.bound(given.get("theta")), self.integrand.name

        def checked(x):
            made = at(x)
            _refuse_complex(name, made)
            return made

        a, b, options = given["a"], given["b"], {**self.options}
        if type(self.integrand) is not IntegrandArguments:
            options["atol"] = max(options.get("atol") or 0.0, _rounding(at, a, b))
        self.found = found = _theirs().cubature(checked, a, b, **options)
        if type(self.integrand) is IntegrandArguments:
            self.size = _size(found.estimate)
        elif found.status != "converged":
            _warn_of(self, found.estimate, found.error)
        return found.estimate, found.error, found.subdivisions, found.status == "converged"

    def by_place(self, name, given):
        """The integrals over the faces of the box, of one dimension less."""
        sign = 1.0 if name == "b" else -1.0
        sides = range(len(value_of(given[name])))
        return [sign * self._over_face(given[name][k], k, given) for k in sides]

    def _over_face(self, height, k: int, given):
        theta = given.get("theta")
        if bool(np.isinf(height)):
            return 0.0
        if len(value_of(given["a"])) == 1:
            place = PUBLIC["reshape"](height, (1, 1))
            return entering(self.integrand.function)(place, theta)[0]
        points = [np.delete(one, k) for one in self.options.get("points") or ()] or None
        inner = self.of(self.integrand.face(k), np.r_[self.needs, True], points=points)
        operands = {name: PUBLIC["delete"](given[name], k) for name in ("a", "b")}
        parts = [] if theta is None else [theta]
        operands["theta"] = PUBLIC["concatenate"]([*parts, PUBLIC["reshape"](height, (1,))])
        return _over(inner, operands)


def _rounding(at: Callable, a, b) -> float:
    """The error of an integral over a box that is rounding: one that is 0 has no other limit."""
    low, high = [np.asarray(one, float) for one in (np.minimum(a, b), np.maximum(a, b))]
    low = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - 1.0, 0.0))
    high = np.where(np.isfinite(high), high, low + 1.0)
    places = low + (high - low) * np.random.default_rng(0).uniform(size=(64, len(low)))
    return max(_TINY, 1e-14 * _size(at(places)) * float(np.prod(high - low)))


def _over(rule: QuadratureRule, operands: dict[str, Any]):
    """The integral, where some operands may be plain."""
    rule.fixed = {name: one for name, one in operands.items() if not is_recorded(one)}
    rule.places = [name for name in operands if name not in rule.fixed]
    return rule.applied(operands)


@differentiable("integrate.cubature")
@of_functions
def cubature(f, a, b, *, args=(), points=None, **options):
    args = args if isinstance(args, tuple) else (args,)
    integrand = IntegrandArguments("integrate.cubature", f, args)
    a, b = unlisted(a), unlisted(b)
    if points is not None and not none_traced([*map(unlisted, points)]):
        raise TypeError(
            "tapegrad.scipy.integrate.cubature: points are recorded; give plain ones, as of "
            "tg.stop_gradient"
        )
    if none_traced((a, b)) and not integrand.tensors:
        return _theirs().cubature(integrand.bound(None), a, b, points=points, **options)
    rule = _Box(integrand, points=points, **options)
    value, error, subdivisions, converged = integrated(rule, integrand, a=a, b=b)
    found, status = rule.found, "converged" if converged else "not_converged"
    regions = [] if is_recorded(error) else found.regions  # a program has none
    made = dict(estimate=value, error=error, status=status, subdivisions=subdivisions)
    return dataclasses.replace(found, **made, regions=regions)


# --- points of low discrepancy --------------------------------------------------------------------


@differentiable("integrate.qmc_quad")
@of_functions
def qmc_quad(func, a, b, *, log=False, **options):
    name = "integrate.qmc_quad"
    a, b, captured = unlisted(a), unlisted(b), Captured(func)
    if none_traced((a, b)) and not captured.tensors:

        def checked(x):
            return plain_result(name, func(x))

        return _theirs().qmc_quad(checked, a, b, log=log, **options)
    _refuse_log(name, {"log": log})
    refuse(f"{name} draws points, which are others in each call")
    drawn: list[np.ndarray] = []

    def note(x):
        drawn.append(np.array(x))
        return np.zeros(np.shape(x)[1:])

    low, high = [np.atleast_1d(one) for one in np.broadcast_arrays(value_of(a), value_of(b))]
    if np.any(low == high):
        raise TypeError(f"tapegrad.scipy.{name}: limits are equal; give others, or return 0")
    found = _theirs().qmc_quad(note, low, high, **options)
    count = options.get("n_estimates", 8)
    estimates = [_estimate(func, x, (a, b), (low, high)) for x in drawn[-count:]]
    spread = np.std([float(value_of(one)) for one in estimates], ddof=1)
    integral = PUBLIC["mean"](PUBLIC["stack"](estimates))
    return type(found)(integral, np.float64(spread / np.sqrt(count)))


def _estimate(func: Callable, x: np.ndarray, limits: tuple, plain: tuple):
    """The estimate by points between limits, with which these move."""
    low, high = plain
    a, b = [PUBLIC["broadcast_to"](one, low.shape) for one in limits]
    if not none_traced(limits):
        share = (x - low[:, None]) / (high - low)[:, None]
        x = a[:, None] + share * (b - a)[:, None]
    volume = PUBLIC["prod"](b - a) / np.shape(value_of(x))[-1]
    return PUBLIC["sum"](func(x) * volume)
