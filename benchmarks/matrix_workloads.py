"""Workloads of linear algebra, complex numbers and FFT, written once for every system.

A builder takes a system's functions and a size, and returns a function and its arguments. The
functions of `system` have one name and meaning in NumPy, PyTorch and JAX: see `matrix_systems`.
"""

import numpy as np

from benchmarks.workload_definitions import Workload

#: Name → builder of the workload; the first line of its docstring says what it is.
WORKLOADS = {}

#: Name → the size that is timed, and one that tests take.
SIZES = {}

STEPS_OF_COMPLEX_LOOP = 2000


def workload(timed, small):
    """Add the builder of a workload to the list, under its own name, with its sizes."""

    def register(build):
        WORKLOADS[build.__name__] = build
        SIZES[build.__name__] = timed, small
        return build

    return register


def random(*shape, seed=0):
    """Return normal numbers, always the same."""
    return np.random.default_rng(seed).normal(size=shape)


def definite(size):
    """Return a symmetric positive definite matrix."""
    a = random(size, size)
    return a @ a.T / size + np.eye(size)


def regular(size):
    """Return a matrix that is far from singular and from symmetric."""
    return random(size, size) / np.sqrt(size) + 2.0 * np.eye(size)


@workload(300, 5)
def cholesky(system, size):
    """Cholesky's factor, every element weighted."""
    weights = system.constant(random(size, size, seed=1))
    return Workload(lambda a: system.sum(system.cholesky(a) * weights), (definite(size),))


@workload(300, 5)
def solve(system, size):
    """The solution of equations, one right-hand side."""
    given = regular(size), random(size, seed=1)
    return Workload(lambda a, b: system.sum(system.solve(a, b) ** 2), given)


@workload(300, 5)
def slogdet(system, size):
    """The logarithm of a determinant."""
    return Workload(lambda a: system.slogdet(a)[1], (regular(size),))


@workload(120, 5)
def eigh(system, size):
    """Eigenvalues and squares of the eigenvectors' elements of a symmetric matrix."""
    weights = system.constant(random(size, 1, seed=1))

    def function(a):
        w, v = system.eigh(0.5 * (a + a.T))
        return system.sum(w**2) + system.sum(weights * v * v * w)

    return Workload(function, (random(size, size),))


@workload(120, 6)
def svd(system, size):
    """Singular values and squares of the left vectors' elements, two columns to three rows."""
    weights = system.constant(random(size, 1, seed=1))

    def function(a):
        u, s, _ = system.svd(a)
        return system.sum(s**3) + system.sum(weights * u * u * s)

    return Workload(function, (random(size, 2 * size // 3),))


@workload(2**16, 12)
def rfft(system, size):
    """A weighted power spectrum."""
    weights = system.constant(random(size // 2 + 1, seed=1))

    def function(x):
        found = system.rfft(x)
        return system.sum(weights * (found.real**2 + found.imag**2))

    return Workload(function, (random(size),))


@workload(4, 3)
def expm(system, size):
    """The exponential of a matrix."""
    weights = system.constant(random(size, size, seed=1))
    return Workload(lambda a: system.sum(weights * system.expm(a)), (random(size, size),))


def filter_data(steps):
    """Return what a Kalman filter of four numbers observes, and its matrices."""
    step, observe = np.eye(4) + 0.05 * random(4, 4, seed=1), np.eye(4) + 0.1 * random(4, 4, seed=2)
    return random(steps, 4), 0.9 * step, observe, np.diag([0.1, 0.2, 0.3, 0.4])


FILTER_START = np.array([0.9, 1.0, 0.5])


@workload(500, 20)
def kalman(system, steps):
    """The likelihood of a Kalman filter of 4x4 matrices, 500 steps, by inv, solve and det."""
    seen, *matrices = (system.constant(a) for a in filter_data(steps))
    step, observe, noise = matrices
    one, start = system.constant(np.eye(4)), system.constant(np.zeros(4))

    def function(p):
        f, q, r = step * p[0], noise * p[1], one * p[2]

        def body(state, y):
            x, spread, total = state
            x, spread = f @ x, f @ spread @ f.T + q
            s, e = observe @ spread @ observe.T + r, y - observe @ x
            gain = spread @ observe.T @ system.inv(s)
            total = total - 0.5 * (e @ system.solve(s, e) + system.log(system.det(s)))
            return x + gain @ e, spread - gain @ observe @ spread, total

        return system.loop(body, (start, one, 0.0), seen)[2]

    return Workload(function, (FILTER_START,))


@workload(500, 6)
def gaussian_process(system, size):
    """The likelihood of a Gaussian process: length, variance, noise."""
    x = np.sort(10.0 * np.random.default_rng(0).random(size))
    apart, one = system.constant((x[:, None] - x) ** 2), system.constant(np.eye(size))
    y = system.constant(np.sin(x) + 0.1 * random(size, seed=1))

    def function(p):
        kernel = p[1] * system.exp(-apart / (2.0 * p[0] ** 2)) + p[2] * one
        factor = system.cholesky(kernel)
        inner = system.solve_lower(factor, y)
        return 0.5 * (inner @ inner) + system.sum(system.log(system.diagonal(factor)))

    return Workload(function, (np.array([1.0, 0.8, 0.1]),))


@workload(STEPS_OF_COMPLEX_LOOP, 30)
def complex_loop(system, steps):
    """An iteration of single complex numbers."""
    times = system.constant(np.linspace(0.5, 1.0, steps))

    def function(p):
        c = p[0] + 1j * p[1]

        def body(state, t):
            (z,) = state
            return ((0.4 * z * z + c * t) / (1.2 + 0.1j * z),)

        (z,) = system.loop(body, (c,), times)
        return z.real**2 + 3.0 * z.imag

    return Workload(function, (np.array([0.3, -0.2]),))
