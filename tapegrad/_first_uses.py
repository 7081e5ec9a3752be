"""Small computations that use most of what is compiled at first use, to compile it beforehand."""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import numpy as np

import tapegrad as tg

from ._core.codegen.vector_math import NoPartial
from ._core.ops.sample_inputs import example
from ._core.ops.table import TABLE, Structural
from ._core.tensor.registry import load_families

#: A user's functions of parameters and data; those of this package are not entered, nor are their
#: loops read.
_TEXT = """
def of_views(x, data):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def of_arrays(x, data):
    y = np.mean(np.exp(-x) * np.sin(data)) - np.max(np.abs(x))
    return y + np.sum(np.log(1.0 + x * x) / np.sqrt(x * x + 1.0))


def of_numbers(x, data):
    level = np.zeros(len(x))
    level[0] = x[0]
    for i in range(1, len(x)):
        last = level[i - 1]
        level[i] = last - 0.1 * math.sqrt(last) * x[i] if last > 0.25 else 0.5 * last
    return np.sum((level - data) ** 2)


def of_data(x, data):
    total = 0.0
    for i in range(len(data)):
        r = abs(data[i] - x[0] * np.exp(-x[1] * data[i]))
        total = total + (r**2 if r < 0.3 else 2 * r - 1)
    return total


def of_matrices(x, data):
    a = np.outer(x, x) + 3.0 * np.eye(len(x))
    return np.sum(np.linalg.solve(a, data) * (a @ x)) + np.linalg.slogdet(a)[1]
"""


#: Functions that call SciPy's solvers, by methods that run in compiled code.
_SOLVED = """
from scipy.integrate import solve_ivp
from scipy.optimize import brentq


def of_solutions(x, method):
    rates, times = lambda t, y: [x[0] * y[0], x[1] * y[1]], np.linspace(0.2, 1.0, 5)
    found = solve_ivp(rates, (0.0, 1.0), [1.0, 2.0], method, times)
    return np.ravel(found.y) - np.linspace(1.0, 2.0, 10)


def of_roots(x, data):
    total = 0.0
    for one in data:
        total = total + brentq(lambda y: y**3 + x[0] * y - one, 0.0, 2.0)
    return total
"""


def use_first() -> None:
    """Use gradients, Hessians, compiled functions and their graphs, of arrays and of numbers.

    Some call solvers.
    """
    names: dict[str, Any] = {"np": np, "math": math}
    exec(compile(_TEXT, "<first uses>", "exec"), names)
    x, data = np.linspace(0.5, 1.5, 6), np.linspace(1.0, 0.2, 6)
    for name in ("of_views", "of_arrays", "of_numbers", "of_data", "of_matrices"):
        f = names[name]
        tg.grad(f)(x, data)
        tg.hessian(f)(x, data)
        compiled = tg.compile(f)
        for at in (x, 0.1 * x):  # the other way through a branch
            compiled(at, data)
            compiled.value_and_grad(at, data)
            compiled.hessian(at, data)
    _use_solvers(x, data)


def _use_solvers(x: np.ndarray, data: np.ndarray) -> None:
    """Use solutions and roots, which compiled code finds after some calls."""
    names: dict[str, Any] = {"np": np}
    exec(compile(_SOLVED, "<first uses>", "exec"), names)
    for method in ("RK45", "Radau"):
        of_solutions = functools.partial(names["of_solutions"], method=method)
        tg.grad(lambda x, f=of_solutions: np.sum(f(x)))(x)
        compiled = tg.compile(of_solutions)
        total = tg.compile(lambda x, f=of_solutions: np.sum(f(x)))
        for at in (x, 0.5 * x, 0.25 * x):
            compiled.jacobian(at)
            total.value_and_grad(at)
    compiled = tg.compile(names["of_roots"])
    for k in range(30):
        compiled.value_and_grad(x, data + 0.01 * k)


def use_all() -> None:
    """The same, and an example of every operation: gradients, eager and compiled."""
    use_first()
    load_families()
    rng = np.random.default_rng(5)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of examples
        for op in TABLE.values():
            if not _is_a_part(op):
                _use(*example(op, (5,), rng, tg))


def _is_a_part(op) -> bool:
    """Whether an operation only occurs in others, or in their derivatives: no function gives it."""
    if isinstance(op, Structural):
        return op.constant
    return "complex_" in op.name or op.numpy.rpartition(".")[2].startswith("_")


def _use(call, inputs: list) -> None:
    """Differentiate a call to each of its inputs, and to all."""

    def f(*given):
        return np.sum(np.real(call(*given)))

    choices: list[Any] = [*range(len(inputs)), tuple(range(len(inputs)))]
    for argnums in choices:
        try:
            tg.value_and_grad(f, argnums)(*inputs)
            tg.compile(f, argnums=argnums).value_and_grad(*inputs)
        except NoPartial:  # there is no derivative to such an argument
            continue
