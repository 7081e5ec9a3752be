"""Numba, llvmlite and SciPy are imported when something needs them, not before."""

import os
import subprocess
import sys

import pytest
from source_rules import ROOT

HEAD = """
import sys
import numpy as np
import tapegrad as tg

def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

def chain(x):
    for _ in range(5):
        x = np.sin(x) * x
    return x

x = np.array([-1.0, 0.5, 1.0])
"""
TAIL = "\nprint(*sorted({'numba', 'llvmlite', 'scipy'} & {*sys.modules}))"


def imported(code):
    """Which of the packages a process has imported after some code."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", HEAD + code + TAIL],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return {*done.stdout.split()}


def test_importing_tapegrad_imports_none_of_them():
    assert imported("") == set()


@pytest.mark.parametrize(
    "code",
    [
        "tg.value_and_grad(rosenbrock)(x)",
        "tg.grad(chain)(0.5)",
        "tg.hessian(rosenbrock)(x)",
        "tg.jvp(rosenbrock, (x,), (x,))",
        "tg.grad(lambda a: np.linalg.slogdet(a)[1])(np.eye(3))",
        "c = tg.compile(rosenbrock); c.value_and_grad(x); c.value_and_grad(x); c.hessian(x)",
        "c = tg.compile(chain, native=True); c.value_and_grad(0.5); c.value_and_grad(0.25)",
        "y = tg.tensor(x, requires_grad=True); rosenbrock(y).backward()",
    ],
)
def test_derivatives_do_not_import_numba(code):
    assert "numba" not in imported(code)


def test_what_needs_numba_imports_it():
    code = """
import numba

@numba.njit
def f(x):
    return x * x

def g(x):
    return f(x) if x > 0.25 else x

assert tg.grad(g)(0.5) == 1.0
c = tg.compile(lambda x: x if x > 0.25 else x * x)
assert (c(0.5), c(0.125), c(0.5)) == (0.5, 0.015625, 0.5)
"""
    assert "numba" in imported(code)
