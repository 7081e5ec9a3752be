"""Integrals as operations: values by a function of SciPy, derivatives by it of derivatives."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.pytree import stop_gradient
from .._core.tensor.trace import is_steering, refuse
from .._core.tensor.values import is_recorded, is_tensor, joined_parts, value_of
from .._entering.entering import entering
from ..autograd.function import Function
from ._integrands import Integrand, IntegrandArguments, joined


class QuadratureRule:
    """How an integral is computed of an integrand, and of its derivatives alike.

    `places` are the names of what is given to `Integral.apply`: of limits and the like, and
    "theta"; `fixed` has those that are plain. `needs` says of which elements of theta a derivative
    is wanted, `wanted` of which results of the integrand, if they are a vector.
    """

    places: list[str]
    fixed: dict[str, Any]
    needs: np.ndarray
    wanted: Any = None
    is_complex = False  # whether results have an axis of both parts in front

    def __init__(self, integrand: IntegrandArguments, **options):
        self.integrand: IntegrandArguments | Integrand = integrand
        self.options = options
        self.rest: list = []  # what SciPy's function returned after value and error

    def __call__(self, operands) -> dict[str, Any]:
        """Limits and theta by name."""
        return {**self.fixed, **dict(zip(self.places, operands, strict=True))}

    def of(
        self, integrand: IntegrandArguments | Integrand, needs=None, wanted=None, **options
    ) -> QuadratureRule:
        """The same for another integrand."""
        made = copy.copy(self)
        made.integrand, made.rest = integrand, []
        made.needs = self.needs if needs is None else needs
        made.wanted = self.wanted if wanted is None else wanted
        made.options = {**self.options, **options}
        return made

    def applied(self, given: dict[str, Any]):
        """The integral, of operands by name."""
        return Integral.apply(self, *[given[place] for place in self.places])[0]

    def functions(self, theta) -> list[Callable]:
        """The functions that `IntegrandArguments.checked` has by number, with plain values."""
        return [self.integrand.bound(theta)]

    def at(self, x, theta):
        """The integrand at a limit, recorded; only of wanted results."""
        found = entering(self.integrand.function)(x, theta)
        return found if self.wanted is None else PUBLIC["where"](self.wanted, found, 0.0)

    def jumps(self, given: dict[str, Any]) -> list:
        """The derivatives of the integral by points inside, each once: jumps of the integrand."""
        a, b, points, theta = given["a"], given["b"], given["points"], given.get("theta")
        sign, made = PUBLIC["where"](b < a, -1.0, 1.0), []
        for k in range(len(points)):
            x = points[k]
            inside = (x > PUBLIC["minimum"](a, b)) & (x < PUBLIC["maximum"](a, b))
            for j in range(k):
                inside = inside & (points[j] != x)
            step = np.abs(np.spacing(stop_gradient(x)))
            jump = self.at(x - step, theta) - self.at(x + step, theta)
            made.append(PUBLIC["where"](inside, sign * jump, 0.0))
        return made

    def value(self, given: dict[str, Any]) -> tuple:
        """The integral, an estimate of its error, further numbers without derivative."""
        raise NotImplementedError

    def by_place(self, name: str, given: dict[str, Any]):
        """The derivative of the integral by a limit or a parameter; None if it is 0.

        A list has the derivatives by the elements of a vector; else an array is that of elements.
        """
        raise NotImplementedError

    def by_theta(self, given: dict[str, Any], g):
        """The adjoint of theta: an integral of a derivative."""
        integrand, theta, shape = self.integrand, given["theta"], np.shape(value_of(g))
        gradient = integrand.gradient(shape)
        if shape == ():
            return g * self.of(gradient, wanted=self.needs).applied(given)
        size = _scale(g)  # tolerances are for numbers of this size
        both = PUBLIC["concatenate"]([theta, PUBLIC["reshape"](g, (-1,)) / size])
        needs = np.r_[self.needs, np.full(gradient.size - integrand.size, True)]
        inner = self.of(gradient, needs, self.needs)
        return size * inner.applied({**given, "theta": both})

    def along_theta(self, given: dict[str, Any], direction):
        """The derivative of the integral along a direction of theta."""
        size = _scale(direction)
        both = PUBLIC["concatenate"]([given["theta"], direction / size])
        needs = np.r_[self.needs, np.full(len(self.needs), True)]
        return size * self.of(self.integrand.tangent(), needs).applied({**given, "theta": both})


class RuleOfArrays(QuadratureRule):
    """A rule whose integrand takes many places at once: its derivatives are those of directions."""

    def by_theta(self, given, g):
        theta, tangent = given["theta"], self.integrand.tangent()
        needs = np.r_[self.needs, np.full(len(self.needs), False)]
        inner, made = self.of(tangent, needs), []
        for k, unit in enumerate(np.eye(len(self.needs))):
            if not self.needs[k]:
                made.append(0.0)
                continue
            both = PUBLIC["concatenate"]([theta, unit])
            made.append(PUBLIC["sum"](g * inner.applied({**given, "theta": both})))
        return PUBLIC["stack"](made)


def integrated(rule: QuadratureRule, integrand: IntegrandArguments, **places) -> tuple:
    """The integral of a rule, an estimate of its error, and the rest of what SciPy returned.

    `places` has limits and the like. Nothing of it, nor of the integrand, need be recorded.
    """
    tensors, integrand.tensors = integrand.tensors, []
    operands = {name: one for name, one in places.items() if is_recorded(one)}
    rule.fixed = {name: _plain(one) for name, one in places.items() if name not in operands}
    if not operands and not tensors:
        return (*rule.value({**rule.fixed}), *rule.rest)
    if tensors:
        operands["theta"] = joined(tensors)
    rule.places = [*operands]
    rule.needs = integrand.layout.spread([not is_steering(one) for one in tensors])
    value, *others = Integral.apply(rule, *operands.values())
    value = joined_parts(value[0], value[1]) if rule.is_complex else value
    if rule.rest and is_recorded(value):
        refuse(f"{integrand.name} is called with full_output, whose details a program lacks")
    return (value, *map(_number, others), *rule.rest)


def _number(estimate):
    """An estimate without derivative: a plain number or array, unless a program computes it."""
    if is_recorded(estimate):
        return estimate
    value = value_of(estimate)
    return value if np.shape(value) else value.item()


def _plain(value):
    return value_of(value) if is_tensor(value) else value


class Integral(Function):
    """The integral of a rule: `apply(rule, *operands)` returns it, and an estimate of its error."""

    _is_inside = True

    @staticmethod
    def forward(ctx, rule, *operands):
        ctx.rule = rule
        ctx.save_for_backward(*operands)
        with rt.tracing(None), rt.switched(True):
            value, *others = rule.value(rule([value_of(one) for one in operands]))
        if type(rule.integrand) is IntegrandArguments:
            rule.integrand.finished()
        if np.iscomplexobj(value):
            rule.is_complex, value = True, np.stack([np.real(value), np.imag(value)])
        estimates = [*map(np.array, others)]
        ctx.mark_non_differentiable(*estimates)
        return np.array(value), *estimates

    @staticmethod
    def backward(ctx, g, *_):
        rule, given = ctx.rule, _given(ctx)
        pairs = zip(rule.places, ctx.needs_input_grad[1:], strict=True)
        return (None, *[_adjoint(rule, place, given, g) if need else None for place, need in pairs])

    @staticmethod
    def jvp(ctx, _, *tangents):
        rule, given = ctx.rule, _given(ctx)
        total: Any = 0.0
        for place, moved in zip(rule.places, tangents, strict=True):
            if moved is None:
                continue
            if place == "theta":
                total = total + rule.along_theta(given, moved)
                continue
            found = rule.by_place(place, given)
            if isinstance(found, list):
                total = total + sum([moved[k] * one for k, one in enumerate(found)])
            elif found is not None:
                total = total + moved * found
        return total


def _adjoint(rule: QuadratureRule, place: str, given: dict[str, Any], g):
    """The adjoint of an operand."""
    if place == "theta":
        return rule.by_theta(given, g)
    found = rule.by_place(place, given)
    if isinstance(found, list):
        return PUBLIC["stack"]([PUBLIC["sum"](g * one) for one in found])
    return None if found is None else _summed(g * found, np.shape(value_of(given[place])))


def _summed(value, shape: tuple[int, ...]):
    """The adjoint of an array of a shape that was broadcast."""
    extra = np.ndim(value_of(value)) - len(shape)
    value = PUBLIC["sum"](value, axis=tuple(range(extra)))
    axes = tuple(k for k, n in enumerate(shape) if n == 1 and np.shape(value_of(value))[k] != 1)
    return PUBLIC["sum"](value, axis=axes, keepdims=True)


def _given(ctx) -> dict[str, Any]:
    """Limits and theta by name, of which the integral is what it was."""
    rule = ctx.rule
    given = rule(ctx.saved_tensors)
    if type(rule.integrand) is IntegrandArguments:
        theta = _plain(given.get("theta"))
        rule.integrand.check_unchanged(lambda: rule.functions(theta))
    return given


def _scale(g):
    """The size of a vector, without derivative; 1 if that is no number to divide by."""
    size = PUBLIC["max"](PUBLIC["absolute"](stop_gradient(g)))
    return PUBLIC["where"](PUBLIC["isfinite"](size) & (size > 0.0), size, 1.0)


def by_numbers(integrate: Callable, at: Callable, count: int, wanted) -> np.ndarray:
    """The integrals of the elements of a vector, of which is wanted, by integrals of numbers.

    These share most places, at which the vector is computed once.
    """
    held: dict[float, list] = {}

    def number(x, k):
        found = held.get(x)
        if found is None:
            found = held[x] = at(x).tolist()
        return found[k]

    made = np.zeros(count)
    for k in np.flatnonzero(wanted):
        made[k] = integrate(number, int(k))
    return made
