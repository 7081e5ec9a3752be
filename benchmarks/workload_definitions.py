"""The workloads: what is computed, written for tapegrad in plain NumPy, and the inputs.

Each function returns a scalar; its value and its gradients with respect to all its arguments are
what is timed. Functions that take `exp`, `log` and the like are shared with other systems.
"""

import importlib.util
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.special

import tapegrad as tg


class Workload(NamedTuple):
    """A function of arrays, and the arrays at which its value and gradients are taken."""

    function: Callable
    arguments: tuple


#: Name → builder of the workload; the first line of its docstring says what it is.
WORKLOADS: dict[str, Callable[[], Workload]] = {}


def workload(build):
    """Add the builder of a workload to the list, under its own name."""
    WORKLOADS[build.__name__] = build
    return build


def value_and_gradients(name):
    """Return a call without arguments that computes a workload's value and gradients by tapegrad.

    The value is a float, the gradients are a list of arrays, one per argument.
    """
    return by_tapegrad(*WORKLOADS[name]())


def by_tapegrad(function, arguments):
    """Return the same of a function and its arguments."""
    differentiated = tg.value_and_grad(function, argnums=tuple(range(len(arguments))))

    def call():
        value, gradients = differentiated(*arguments)
        return value, list(gradients)

    return call


def replayed(name, native):
    """Return the same of a workload's program, recorded, compiled and compared with the function.

    With `native` it has code of its own. A function that cannot be replayed is an error here.
    """
    return by_program(*WORKLOADS[name](), native)


def by_program(function, arguments, native=True):
    """Return the same of the program of a function."""
    program = tg.compile(function, argnums=tuple(range(len(arguments))), native=native)

    def call():
        value, gradients = program.value_and_grad(*arguments)
        return value, list(gradients)

    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        call()
        program.wait()
        call()
    return call


LORENZ_STEPS = 1000
LORENZ_H = 0.005


def lorenz_step(x, y, z, s, r, b):
    """Return the state of the Lorenz system one classical Runge-Kutta step later."""
    h = LORENZ_H

    def slopes(x, y, z):
        return s * (y - x), x * (r - z) - y, x * y - b * z

    k1 = slopes(x, y, z)
    k2 = slopes(x + h / 2 * k1[0], y + h / 2 * k1[1], z + h / 2 * k1[2])
    k3 = slopes(x + h / 2 * k2[0], y + h / 2 * k2[1], z + h / 2 * k2[2])
    k4 = slopes(x + h * k3[0], y + h * k3[1], z + h * k3[2])
    return tuple(
        u + h / 6 * (p + 2 * q + 2 * v + w)
        for u, p, q, v, w in zip((x, y, z), k1, k2, k3, k4, strict=True)
    )


def lorenz_end(p):
    """Return the squared distance from the origin after all steps; `p` is (x, y, z, s, r, b)."""
    x, y, z, s, r, b = (p[i] for i in range(6))
    for _ in range(LORENZ_STEPS):
        x, y, z = lorenz_step(x, y, z, s, r, b)
    return x * x + y * y + z * z


@workload
def lorenz():
    """RK4 of the Lorenz system, 1000 steps of Python scalars, about 8e4 operations."""
    return Workload(lorenz_end, (np.array([1.0, 1.0, 1.05, 10.0, 28.0, 8 / 3]),))


_example = Path(__file__).resolve().parent.parent / "examples" / "lynx_hare.py"
_spec = importlib.util.spec_from_file_location("lynx_hare_example", _example)
lynx_hare_example = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(lynx_hare_example)


@workload
def lynx_hare():
    """The negative log-likelihood of examples/lynx_hare.py, one evaluation at its start."""
    start = np.log(lynx_hare_example.START)
    return Workload(lynx_hare_example.negative_log_likelihood, (start,))


def sum_of_squares(x):
    """Return the sum of squares of a matrix, cell by cell."""
    s = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            s = s + x[i, j] * x[i, j]
    return s


@workload
def loop_square():
    """A sum of squares by a nested Python loop over the cells of a 200 x 200 array."""
    return Workload(sum_of_squares, (np.random.default_rng(0).normal(size=(200, 200)),))


def call_prices(spot, strike, time, volatility, log=np.log, sqrt=np.sqrt, exp=np.exp, erf=None):
    """Return the sum of Black-Scholes prices of European calls at an interest rate of 3 %."""
    erf = erf or scipy.special.erf
    rate, scale = 0.03, 1 / math.sqrt(2)
    deviation = volatility * sqrt(time)
    d1 = (log(spot / strike) + (rate + 0.5 * volatility * volatility) * time) / deviation
    d2 = d1 - deviation
    n1 = 0.5 * (1 + erf(d1 * scale))
    n2 = 0.5 * (1 + erf(d2 * scale))
    return (spot * n1 - strike * exp(-rate * time) * n2).sum()


@workload
def black_scholes():
    """The sum of 1e6 Black-Scholes call prices; gradients to spot, strike, time and volatility."""
    n, random = 1_000_000, np.random.default_rng(1)
    ranges = ((50, 150), (50, 150), (0.1, 2), (0.1, 0.6))
    return Workload(call_prices, tuple(random.uniform(low, high, n) for low, high in ranges))


def cheap_chain(x, y):
    """Return the sum after five rounds of four cheap element-wise operations."""
    a = x
    for _ in range(5):
        a = a * y
        a = a + x
        a = a * a
        a = a / (1.0 + a)
    return a.sum()


@workload
def chain():
    """Twenty cheap element-wise operations on 1e6 doubles, then a sum."""
    x, y = (np.random.default_rng(seed).uniform(0.5, 1.5, 1_000_000) for seed in (2, 3))
    return Workload(cheap_chain, (x, y))


def rosenbrock(x):
    """Return Rosenbrock's function."""
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


@workload
def small():
    """Rosenbrock's function of 10 variables: the latency of one call."""
    return Workload(rosenbrock, (np.linspace(-1, 1, 10),))


class Mixture(NamedTuple):
    """Data of the Gaussian mixture: points, and the places below the diagonal of a factor."""

    points: np.ndarray
    parameters: tuple
    below: tuple


def mixture():
    """Return the data of the Gaussian mixture: 1000 points in 10 dimensions, 25 components."""
    random, n, d, k = np.random.default_rng(4), 1000, 10, 25
    weights, means = random.normal(size=k), random.normal(size=(k, d))
    diagonals = random.normal(size=(k, d)) * 0.3
    lower = random.normal(size=(k, d * (d - 1) // 2)) * 0.3
    points = random.normal(size=(n, d))
    return Mixture(points, (weights, means, diagonals, lower), np.tril_indices(d, -1))


@workload
def gmm():
    """The Gaussian mixture of ADBench on synthetic data: 1000 points, d = 10, K = 25."""
    points, parameters, (rows, columns) = mixture()
    n, d = points.shape
    diagonal = np.arange(d)

    def log_likelihood(weights, means, diagonals, lower):
        factors = tg.zeros((len(weights), d, d))
        factors[:, rows, columns] = lower
        factors[:, diagonal, diagonal] = np.exp(diagonals)
        whitened = np.einsum("kij,nkj->nki", factors, points[:, None] - means[None])
        inner = weights + np.sum(diagonals, axis=1) - 0.5 * np.sum(whitened**2, axis=2)
        return np.sum(tg.logsumexp(inner, axis=1)) - n * tg.logsumexp(weights)

    return Workload(log_likelihood, parameters)


HEAT_STEPS = 1000
HEAT_K = 0.2


def heat_energy(u):
    """Return the energy after all explicit steps of the heat equation, updated in place."""
    for _ in range(HEAT_STEPS):
        u = u.copy()
        u[1:-1] += HEAT_K * (u[2:] - 2 * u[1:-1] + u[:-2])
    return (u * u).sum()


@workload
def heat():
    """The explicit one-dimensional heat equation, 1000 steps on 1000 cells by slices."""
    return Workload(heat_energy, (np.sin(np.linspace(0, 3, 1000)),))


class Network(NamedTuple):
    """Data of the network: inputs, labels, and weights and biases of three layers."""

    inputs: np.ndarray
    labels: np.ndarray
    parameters: tuple


def network():
    """Return the data of the network: 784-128-64-10, a batch of 256."""
    random = np.random.default_rng(5)
    inputs, labels = random.normal(size=(256, 784)), random.integers(0, 10, 256)
    parameters = []
    for rows, columns, scale in ((784, 128, 0.05), (128, 64, 0.1), (64, 10, 0.1)):
        parameters += [random.normal(size=(rows, columns)) * scale, np.zeros(columns)]
    return Network(inputs, labels, tuple(parameters))


@workload
def mlp():
    """A 784-128-64-10 tanh network, a batch of 256, cross-entropy: bound by BLAS."""
    inputs, labels, parameters = network()
    batch = np.arange(len(labels))

    def cross_entropy(a, b, c, d, e, f):
        z = np.tanh(np.tanh(inputs @ a + b) @ c + d) @ e + f
        return np.mean(tg.logsumexp(z, axis=1) - z[batch, labels])

    return Workload(cross_entropy, parameters)
