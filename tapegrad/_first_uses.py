"""Small computations that use most of what is compiled at first use, to compile it beforehand."""

from __future__ import annotations

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


#: Initial value problems, by methods that run in compiled code.
_SOLUTIONS = """
from scipy.integrate import solve_ivp


def of_solutions(x, method):
    found = solve_ivp(lambda t, y: x * y, (0.0, 1.0), [1.0, 2.0], method)
    return np.sum(found.y[:, -1])
"""


def use_first() -> None:
    """Use gradients, Hessians, compiled functions and their graphs, of arrays and of numbers."""
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


def use_all() -> None:
    """The same, solutions, and an example of every operation: gradients, eager and compiled."""
    use_first()
    load_families()
    names: dict[str, Any] = {"np": np}
    exec(compile(_SOLUTIONS, "<first uses>", "exec"), names)
    for method in ("RK45", "Radau"):
        tg.grad(names["of_solutions"])(np.array([-1.0, -0.5]), method)
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
