"""Iterations to a tolerance, searches, eliminations with pivots."""

import tapegrad.math as math
import tapegrad.numpy as np

from .cases import cases, numbers, uniform


def newton(a, b):
    x = 1.0 + a * a
    while abs(x**3 - a * a - math.exp(b)) > 1e-9:
        x = x - (x**3 - a * a - math.exp(b)) / (3 * x**2)
    return b * x


def kepler(mean, eccentricity):
    """Newton's method of Kepler's equation with a limit of rounds, and damping."""
    E = mean
    for rounds in range(50):
        f = E - eccentricity * math.sin(E) - mean
        step = f / (1 - eccentricity * math.cos(E))
        if abs(step) > 0.5:
            step = 0.5 if step > 0 else -0.5
        E = E - step
        if abs(step) < 1e-8:
            break
    else:
        return mean
    return E * math.cos(E)


def bisection(a, b):
    low, high = -10.0 - a * a, 10.0 + b * b
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        if middle**3 + a * a * middle > b:
            high = middle
        else:
            low = middle
    return low + 0.01 * a * high


def secant(a, b):
    previous, x = 0.0, 1.0
    before = -b
    rounds = 0
    while True:
        now = x + a * a * math.sin(x) * 0.3 - b
        if abs(now) < 1e-8 or rounds >= 30 or now == before:
            return x * a
        previous, x = x, x - now * (x - previous) / (now - before)
        before = now
        rounds += 1


def golden_section(a, b):
    ratio = 0.6180339887498949
    low, high = a - 2.0, a + 3.0
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    while high - low > 1e-3:
        if (left - b) ** 2 < (right - b) ** 2:
            high, right = right, left
            left = high - ratio * (high - low)
        else:
            low, left = left, right
            right = low + ratio * (high - low)
    return 0.5 * (low + high)


def line_search(x, y):
    """Steepest descent of Rosenbrock's function, each step halved until it goes down."""
    f = (1 - x) ** 2 + 5 * (y - x * x) ** 2
    for _ in range(6):
        gx, gy = -2 * (1 - x) - 20 * x * (y - x * x), 10 * (y - x * x)
        step = 0.5
        while step > 1e-4:
            u, v = x - step * gx, y - step * gy
            g = (1 - u) ** 2 + 5 * (v - u * u) ** 2
            if g < f - 1e-4 * step * (gx * gx + gy * gy):
                x, y, f = u, v, g
                break
            step /= 2
    return f + 0.1 * x


def power_iteration(matrix, tolerance=1e-6):
    v = np.ones(len(matrix)) / math.sqrt(len(matrix))
    value = v @ matrix @ v
    while True:
        w = matrix @ v
        v = w / np.linalg.norm(w)
        new = v @ matrix @ v
        if abs(new - value) < tolerance:
            return new
        value = new


def value_iteration(rewards, transitions, discount):
    """The values of a Markov decision process: until none changes by more than a tolerance."""
    values = np.zeros(len(rewards))
    change, rounds = 1.0, 0
    while change > 1e-3 and rounds < 200:
        new = np.max(rewards + discount * (transitions @ values), axis=1)
        change = np.max(np.abs(new - values))
        values = new
        rounds += 1
    return np.sum(values)


def clusters(centers, points):
    """Lloyd's algorithm: each centre moves to the mean of the points that are nearest to it."""
    for _ in range(10):
        distances = np.sum((points[:, None, :] - centers) ** 2, axis=2)
        nearest, moved = np.argmin(distances, axis=1), np.zeros(centers.shape)
        for k in range(len(centers)):
            members, total = 0.5, 0.5 * centers[k]
            for i in range(len(points)):
                if nearest[i] == k:
                    members, total = members + 1, total + points[i]
            moved[k] = total / members
        change, centers = np.max(np.abs(moved - centers)), moved
        if change < 0.05:
            break
    return np.mean(np.min(np.sum((points[:, None, :] - centers) ** 2, axis=2), axis=1))


def elimination(a, b, x):
    """Gauss's elimination of a matrix as lists, with partial pivoting."""
    n = 4
    rows = [[a * x[n * i + j] + (b if i == j else 0.0) for j in range(n)] for i in range(n)]
    right = [x[i] * b for i in range(n)]
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(rows[i][k]) > abs(rows[pivot][k]):
                pivot = i
        if pivot != k:
            rows[k], rows[pivot] = rows[pivot], rows[k]
            right[k], right[pivot] = right[pivot], right[k]
        for i in range(k + 1, n):
            factor = rows[i][k] / rows[k][k]
            for j in range(k, n):
                rows[i][j] = rows[i][j] - factor * rows[k][j]
            right[i] = right[i] - factor * right[k]
    for i in reversed(range(n)):
        for j in range(i + 1, n):
            right[i] = right[i] - rows[i][j] * right[j]
        right[i] = right[i] / rows[i][i]
    return sum(right)


def soft_threshold(weights, X, y):
    """Coordinate descent of the lasso with a fixed number of sweeps."""
    found = [0.0] * 3
    for _ in range(3):
        for j in range(3):
            rest = 0.0
            for i in range(len(y)):
                others = sum(X[i, k] * found[k] for k in range(3) if k != j)
                rest += X[i, j] * (y[i] * weights[0] - others)
            norm = np.sum(X[:, j] ** 2)
            if rest > weights[1]:
                found[j] = (rest - weights[1]) / norm
            elif rest < -weights[1]:
                found[j] = (rest + weights[1]) / norm
            else:
                found[j] = 0.0
    return sum((j + 1) * w for j, w in enumerate(found))


def symmetric(rng):
    a = rng.normal(size=(4, 4))
    return (a @ a.T + 0.5 * np.eye(4),)


def decisions(rng):
    transitions = rng.random((6, 3, 6))
    transitions /= transitions.sum(axis=2, keepdims=True)
    return rng.normal(size=(6, 3)), transitions, uniform(rng, 0.3, 0.8)


def orbit(rng):
    return uniform(rng, 0.1, 6.0), uniform(rng, 0.0, 0.95)


def lasso(rng):
    return np.abs(rng.normal(1.0, 1.0, 2)), rng.normal(size=(6, 3)), rng.normal(size=6)


CASES = cases(
    (newton, numbers(2)),
    (kepler, orbit),
    (bisection, numbers(2), dict(calls=60)),
    (secant, numbers(2)),
    (golden_section, numbers(2)),
    (line_search, numbers(2), dict(calls=60)),
    (power_iteration, symmetric, dict(argnums=0, calls=12)),
    (value_iteration, decisions, dict(argnums=(0, 1, 2), calls=8)),
    (clusters, lambda rng: (rng.normal(size=(3, 2)), rng.normal(size=(12, 2))), dict(calls=20)),
    (elimination, numbers(2, 16), dict(calls=40)),
    (soft_threshold, lasso, dict(argnums=0, calls=20)),
)
