"""Functions as users of Numba write them, each with arguments that change from call to call."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numba
import numpy as np
from numba import float64, njit, prange, vectorize


@njit
def garch(p, r):
    """Minus the log-likelihood of returns whose variance follows GARCH(1, 1)."""
    omega, alpha, beta = p
    n = r.shape[0]
    s = np.zeros(n)
    s[0] = np.var(r)
    total = 0.0
    for t in range(1, n):
        s[t] = omega + alpha * r[t - 1] ** 2 + beta * s[t - 1]
        total += math.log(s[t]) + r[t] ** 2 / s[t]
    return 0.5 * total


@njit
def kalman(p, y):
    """The likelihood of a local linear trend by the Kalman filter, its 2 × 2 matrices by hand."""
    q_level, q_slope, noise = np.exp(p)
    level, slope = y[0], 0.0
    p00, p01, p11 = 1.0, 0.0, 1.0
    total = 0.0
    for t in range(1, len(y)):
        level = level + slope
        p00 = p00 + 2.0 * p01 + p11 + q_level
        p01 = p01 + p11
        p11 = p11 + q_slope
        innovation = y[t] - level
        variance = p00 + noise
        k0, k1 = p00 / variance, p01 / variance
        level += k0 * innovation
        slope += k1 * innovation
        p11 -= k1 * p01
        p01 -= k1 * p00
        p00 -= k0 * p00
        total += np.log(variance) + innovation**2 / variance
    return 0.5 * total


@njit
def accelerations(positions, masses, out):
    """Add the accelerations of bodies by gravity, pair by pair."""
    n = positions.shape[0]
    out[:, :] = 0.0
    for i in range(n):
        for j in range(i + 1, n):
            dx = positions[j, 0] - positions[i, 0]
            dy = positions[j, 1] - positions[i, 1]
            dz = positions[j, 2] - positions[i, 2]
            r2 = dx * dx + dy * dy + dz * dz + 0.01
            w = 1.0 / (r2 * math.sqrt(r2))
            out[i, 0] += masses[j] * w * dx
            out[i, 1] += masses[j] * w * dy
            out[i, 2] += masses[j] * w * dz
            out[j, 0] -= masses[i] * w * dx
            out[j, 1] -= masses[i] * w * dy
            out[j, 2] -= masses[i] * w * dz


@njit
def n_body(velocities, positions, masses):
    """Where bodies are after some steps of leapfrog, from their first velocities."""
    x, v = positions.copy(), velocities.copy()
    a = np.empty_like(x)
    dt = 0.01
    accelerations(x, masses, a)
    for _ in range(20):
        v += 0.5 * dt * a
        x += dt * v
        accelerations(x, masses, a)
        v += 0.5 * dt * a
    return np.sum(x * x)


@njit
def heat(p, u0):
    """The heat equation on a line, explicit steps; the conductivity depends on the temperature."""
    u = u0.copy()
    new = u.copy()
    n = len(u)
    for _ in range(50):
        for i in range(1, n - 1):
            k = p[0] + p[1] * u[i]
            new[i] = u[i] + k * (u[i + 1] - 2.0 * u[i] + u[i - 1])
        new[0], new[-1] = p[2], new[-2]
        u, new = new, u
    return np.mean(u**2)


@njit
def normal_cdf(x):
    """The distribution function of the standard normal distribution."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


@njit(parallel=False, fastmath=True)
def black_scholes(p, strikes, times, prices):
    """Squared errors of prices of options by the formula of Black and Scholes."""
    spot, sigma, rate = p[0], p[1], p[2]
    error = 0.0
    for i in prange(strikes.shape[0]):
        root = sigma * math.sqrt(times[i])
        d1 = (math.log(spot / strikes[i]) + (rate + 0.5 * sigma**2) * times[i]) / root
        d2 = d1 - root
        discounted = strikes[i] * math.exp(-rate * times[i])
        call = spot * normal_cdf(d1) - discounted * normal_cdf(d2)
        error += (call - prices[i]) ** 2
    return error


@njit
def monte_carlo(p, normals):
    """The price of an Asian option: the mean payoff of paths of given normal numbers."""
    paths, steps = normals.shape
    spot, sigma, rate = p
    dt = 1.0 / steps
    total = 0.0
    for i in range(paths):
        s, mean = spot, 0.0
        for j in range(steps):
            s *= math.exp((rate - 0.5 * sigma * sigma) * dt + sigma * math.sqrt(dt) * normals[i, j])
            mean += s
        total += max(mean / steps - 1.0, 0.0)
    return math.exp(-rate) * total / paths


@njit(fastmath=True)
def lennard_jones(x, epsilon, sigma):
    """The energy of particles whose pairs interact up to a distance."""
    n = len(x)
    cutoff2 = (2.5 * sigma) ** 2
    energy = 0.0
    for i in range(n):
        for j in range(i + 1, n):
            r2 = 0.0
            for k in range(3):
                d = x[i, k] - x[j, k]
                r2 += d * d
            if r2 < cutoff2:
                s6 = (sigma * sigma / r2) ** 3
                energy += 4.0 * epsilon * (s6 * s6 - s6)
    return energy


@njit
def sir_rates(s, i, beta, gamma):
    """What changes in a day: a tuple."""
    infected = beta * s * i
    recovered = gamma * i
    return -infected, infected - recovered, recovered


@njit
def sir(p, seen):
    """Squared errors of an epidemic's model, integrated by Heun's method."""
    beta, gamma = p[0], p[1]
    s, i, r = 1.0 - p[2], p[2], 0.0
    dt, error = 0.1, 0.0
    for day in range(len(seen)):
        for _ in range(10):
            ds, di, dr = sir_rates(s, i, beta, gamma)
            es, ei, er = sir_rates(s + dt * ds, i + dt * di, beta, gamma)
            s += 0.5 * dt * (ds + es)
            i += 0.5 * dt * (di + ei)
            r += 0.5 * dt * (dr + er)
        error += (i - seen[day]) ** 2
    return error


@njit
def log_sum_exp(x):
    """The logarithm of a sum of exponentials, without overflow."""
    largest = x[0]
    for v in x:
        if v > largest:
            largest = v
    total = 0.0
    for v in x:
        total += math.exp(v - largest)
    return largest + math.log(total)


@njit
def hidden_markov(p, y):
    """The likelihood of a hidden Markov model with normal states, by the forward algorithm."""
    k = 3
    means, log_stay = p[:k], -math.log1p(math.exp(-p[k]))
    log_move = -math.log1p(math.exp(p[k])) - math.log(k - 1.0)
    alpha = np.zeros(k)
    for j in range(k):
        alpha[j] = -0.5 * (y[0] - means[j]) ** 2 - math.log(k)
    work = np.zeros(k)
    for t in range(1, len(y)):
        new = np.empty(k)
        for j in range(k):
            for i in range(k):
                work[i] = alpha[i] + (log_stay if i == j else log_move)
            new[j] = log_sum_exp(work) - 0.5 * (y[t] - means[j]) ** 2
        alpha = new
    return -log_sum_exp(alpha)


@njit
def time_warping(x, y):
    """The cost of the cheapest way to match two series: dynamic time warping."""
    n, m = len(x), len(y)
    cost = np.full((n + 1, m + 1), np.inf)
    cost[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            d = (x[i - 1] - y[j - 1]) ** 2
            cost[i, j] = d + min(cost[i - 1, j], cost[i, j - 1], cost[i - 1, j - 1])
    return cost[n, m]


@njit
def place_of(knots, x):
    """The last knot not after x, by bisection."""
    low, high = 0, len(knots) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if knots[middle] <= x:
            low = middle
        else:
            high = middle
    return low


@njit
def spline(values, knots, x, y):
    """Squared errors of a cubic spline with slopes of differences, at many places."""
    error = 0.0
    n = len(knots)
    for k in range(len(x)):
        i = place_of(knots, x[k])
        h = knots[i + 1] - knots[i]
        t = (x[k] - knots[i]) / h
        left, right = max(i - 1, 0), min(i + 2, n - 1)
        m0 = (values[i + 1] - values[left]) / (knots[i + 1] - knots[left]) * h
        m1 = (values[right] - values[i]) / (knots[right] - knots[i]) * h
        a = values[i] * (1.0 + 2.0 * t) * (1.0 - t) ** 2 + values[i + 1] * t * t * (3.0 - 2.0 * t)
        b = m0 * t * (1.0 - t) ** 2 + m1 * t * t * (t - 1.0)
        error += (a + b - y[k]) ** 2
    return error


@njit
def kernel_density(p, x, grid):
    """Minus the likelihood of points by a kernel density estimate, of the bandwidth and shift."""
    h, total = math.exp(p[0]), 0.0
    for i in range(len(grid)):
        density = 0.0
        for j in range(len(x)):
            u = (grid[i] - x[j] - p[1]) / h
            density += math.exp(-0.5 * u * u)
        total -= math.log(density / (len(x) * h * math.sqrt(2.0 * math.pi)))
    return total


@njit
def rotated(q, v):
    """A vector rotated by a quaternion: tuples."""
    w, x, y, z = q
    a, b, c = v
    tx, ty, tz = 2 * (y * c - z * b), 2 * (z * a - x * c), 2 * (x * b - y * a)
    return (
        a + w * tx + y * tz - z * ty,
        b + w * ty + z * tx - x * tz,
        c + w * tz + x * ty - y * tx,
    )


@njit
def quaternions(p, points, seen):
    """Squared errors of points rotated: quaternions and vectors are tuples."""
    norm = math.sqrt(p[0] ** 2 + p[1] ** 2 + p[2] ** 2 + p[3] ** 2)
    q = (p[0] / norm, p[1] / norm, p[2] / norm, p[3] / norm)
    error = 0.0
    for i in range(points.shape[0]):
        x, y, z = rotated(q, (points[i, 0], points[i, 1], points[i, 2]))
        error += (x - seen[i, 0]) ** 2 + (y - seen[i, 1]) ** 2 + (z - seen[i, 2]) ** 2
    return error


def loss_of(data, width):
    """Make a function over data: a robust loss of a line."""
    t, y = data

    @njit
    def robust_line(p):
        total = 0.0
        for k in range(t.size):
            u = (y[k] - p[0] - p[1] * t[k]) / width
            total += math.log1p(u * u)
        return total

    return robust_line


@njit
def integrand(x, p):
    """A peak and waves."""
    return p[0] / (p[1] + (x - 0.3) ** 2) + math.sin(p[2] * x)


@njit
def _simpson(a, b, fa, fm, fb, p, tolerance, depth):
    m = 0.5 * (a + b)
    fl, fr = integrand(0.5 * (a + m), p), integrand(0.5 * (m + b), p)
    whole = (b - a) / 6 * (fa + 4 * fm + fb)
    left, right = (m - a) / 6 * (fa + 4 * fl + fm), (b - m) / 6 * (fm + 4 * fr + fb)
    if depth == 0 or abs(left + right - whole) < 15 * tolerance:
        return left + right + (left + right - whole) / 15
    return _simpson(a, m, fa, fl, fm, p, tolerance / 2, depth - 1) + _simpson(
        m, b, fm, fr, fb, p, tolerance / 2, depth - 1
    )


@njit
def quadrature(p):
    """An integral by adaptive recursion."""
    fa, fm, fb = integrand(0.0, p), integrand(0.5, p), integrand(1.0, p)
    return _simpson(0.0, 1.0, fa, fm, fb, p, 1e-9, 20)


@njit(fastmath=True, error_model="numpy")
def logistic(w, x, y):
    """The logistic loss of a linear model, row by row."""
    n, d = x.shape
    loss = 0.0
    for i in range(n):
        z = 0.0
        for j in range(d):
            z += x[i, j] * w[j]
        loss += np.log1p(np.exp(-y[i] * z))
    return loss / n + 0.01 * np.dot(w, w)


@vectorize([float64(float64, float64)])
def huber(x, delta):
    """Huber's function of a residual."""
    if abs(x) <= delta:
        return 0.5 * x * x
    return delta * (abs(x) - 0.5 * delta)


@njit
def huber_regression(p, x, y):
    """A sum of a function made by `vectorize`, of arrays."""
    return np.sum(huber(y - p[0] - p[1] * x - p[2] * x**2, 0.7))


@njit
def survival(p, times):
    """Ages and risks of a cohort in lists of Numba's and of Python's."""
    hazards = numba.typed.List()
    for t in times:
        hazards.append(p[0] + p[1] * math.exp(p[2] * t))
    steps = [0.0]
    for h in hazards:
        steps.append(steps[-1] + 0.1 * h)
    total = 0.0
    for k in range(len(hazards)):
        total += steps[k + 1] - math.log(hazards[k])
    return total


@njit
def reactions(p, steps):
    """Concentrations of a chain of reactions, by their names in a dict."""
    held = numba.typed.Dict.empty(numba.types.unicode_type, numba.types.float64)
    held["a"], held["b"], held["c"] = 1.0, 0.0, 0.0
    for _ in range(steps):
        forward, back = p[0] * held["a"], p[1] * held["b"]
        last = p[2] * held["b"] ** 2
        held["a"] += 0.01 * (back - forward)
        held["b"] += 0.01 * (forward - back - last)
        held["c"] += 0.01 * last
    return held["c"] ** 2 + held["a"]


@njit
def masks(p, x, y):
    """Arrays with masks, choices and slices."""
    model = p[0] * x
    model[x > 0.0] *= p[1]
    residuals = np.where(np.abs(y) < 2.0, y - np.maximum(model, -1.0), 0.0)
    smooth = residuals[1:] - p[2] * residuals[:-1]
    return np.sum(smooth**2) + np.sum(np.log1p(residuals**2))


@njit
def censored(p, x, y):
    """The likelihood of a linear model whose observations are cut off below and above."""
    a, b, s = p[0], p[1], math.exp(p[2])
    total = 0.0
    for i in range(y.size):
        mean = a + b * x[i]
        if y[i] <= -1.0:
            total += math.log(0.5 * math.erfc((mean + 1.0) / s / math.sqrt(2.0)))
        elif y[i] >= 2.0:
            total += math.log(0.5 * math.erfc((2.0 - mean) / s / math.sqrt(2.0)))
        else:
            z = (y[i] - mean) / s
            total -= 0.5 * z * z + p[2]
    return -total


@njit
def small_matrices(p, x):
    """Matrices of 3 × 3 through NumPy's linear algebra."""
    total = 0.0
    for k in range(x.shape[0]):
        a = np.eye(3) * (1.0 + p[0] ** 2)
        a[0, 1], a[1, 2], a[2, 0] = p[1] * x[k, 0], p[2] * x[k, 1], x[k, 2]
        total += np.sum(np.linalg.solve(a, x[k])) + math.log(abs(np.linalg.det(a)))
    return total


class Example(NamedTuple):
    """A function, its first argument, and what makes the others: from a size and a seed."""

    function: Callable
    point: np.ndarray
    data: Callable
    size: int
    small: int


def _rng(seed):
    return np.random.default_rng(seed)


def _points(seed, count):
    side = round(count ** (1 / 3))
    grid = np.stack(np.meshgrid(*[np.arange(side)] * 3), -1).reshape(-1, 3) * 1.1
    return grid + 0.05 * _rng(seed).normal(size=grid.shape)


def _options(n, seed):
    return _rng(seed).uniform(0.7, 1.4, n), _rng(seed).uniform(0.1, 2.0, n), np.full(n, 0.15)


def _line(n, seed):
    x = _rng(seed).normal(size=n)
    return x, 0.3 + 0.8 * x + 0.9 * _rng(seed + 1).normal(size=n)


def _rotations(n, seed):
    points = _rng(seed).normal(size=(n, 3))
    return points, points[:, ::-1].copy()


def _bodies(n, seed):
    return _rng(seed).normal(size=(n, 3)), _rng(seed).uniform(0.5, 1.0, n)


def _rows(n, seed):
    x = _rng(seed).normal(size=(n, 10))
    return x, np.sign(x[:, 0] + 0.5 * _rng(seed + 1).normal(size=n))


def _knots(n, seed):
    return np.linspace(0.0, 1.0, 20), _rng(seed).random(n), _rng(seed + 1).normal(size=n)


_normal = lambda n, seed: (_rng(seed).normal(size=n),)
_P = np.array([0.4, 0.5, 0.2])
EXAMPLES = {
    "garch": Example(garch, np.array([0.1, 0.2, 0.6]), _normal, 1000, 20),
    "kalman": Example(kalman, np.array([-1.0, -3.0, 0.2]), _normal, 1000, 20),
    "n_body": Example(n_body, _rng(5).normal(size=(5, 3)), lambda n, s: _bodies(5, s), 5, 5),
    "heat": Example(heat, np.array([0.2, 0.05, 0.4]), lambda n, s: (_rng(s).random(n),), 200, 8),
    "black_scholes": Example(black_scholes, np.array([1.0, 0.3, 0.02]), _options, 1000, 9),
    "monte_carlo": Example(
        monte_carlo,
        np.array([1.0, 0.3, 0.02]),
        lambda n, s: (_rng(s).normal(size=(n, 50)),),
        200,
        4,
    ),
    "lennard_jones": Example(
        lennard_jones, _points(3, 64), lambda n, s: (1.0 + 0.01 * s, 1.0), 64, 64
    ),
    "sir": Example(sir, np.array([0.5, 0.2, 0.01]), lambda n, s: (_rng(s).random(n),), 100, 5),
    "hidden_markov": Example(hidden_markov, np.array([-1.0, 0.1, 1.2, 1.5]), _normal, 500, 12),
    "time_warping": Example(time_warping, _rng(8).normal(size=60), _normal, 60, 5),
    "spline": Example(spline, _rng(9).normal(size=20), _knots, 1000, 15),
    "kernel_density": Example(
        kernel_density,
        np.array([-0.5, 0.1]),
        lambda n, s: (_rng(s).normal(size=n), np.linspace(-2.0, 2.0, 50)),
        200,
        6,
    ),
    "quaternions": Example(quaternions, np.array([0.9, 0.1, 0.3, -0.2]), _rotations, 500, 6),
    "robust_line": Example(
        loss_of(_line(1000, 3), 0.5), np.array([0.1, 0.6]), lambda n, s: (), 1000, 1000
    ),
    "quadrature": Example(quadrature, np.array([0.1, 0.01, 5.0]), lambda n, s: (), 0, 0),
    "logistic": Example(logistic, _rng(2).normal(size=10), _rows, 500, 7),
    "huber_regression": Example(huber_regression, np.array([0.1, 0.6, 0.05]), _line, 1000, 11),
    "survival": Example(survival, _P, lambda n, s: (_rng(s).random(n),), 300, 6),
    "reactions": Example(reactions, _P, lambda n, s: (n,), 300, 8),
    "masks": Example(masks, _P, _line, 1000, 12),
    "censored": Example(censored, np.array([0.2, 0.7, -0.1]), _line, 1_000_000, 1000),
    "small_matrices": Example(
        small_matrices, _P, lambda n, s: (_rng(s).normal(size=(n, 3)),), 50, 3
    ),
}
#: Examples of linear algebra, that is, of LAPACK.
LINEAR_ALGEBRA = ("small_matrices",)


def arguments(name, small=False, turn=0):
    """Return the arguments of an example, other ones in each turn."""
    one = EXAMPLES[name]
    return (one.point * (1.0 + 0.01 * turn), *one.data(one.small if small else one.size, turn))
