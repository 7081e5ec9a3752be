"""Losses and likelihoods: sums over data with a branch for each of them."""

import tapegrad.math as math
import tapegrad.numpy as np

from .cases import cases, numbers, uniform


def robust(a, b, x, y):
    """Absolute errors beyond 1, squares below."""
    loss = 0.0
    for i in range(len(x)):
        error = abs(a * x[i] + b - y[i])
        if error < 1:
            loss += error**2
        else:
            loss += 2 * error - 1
    return loss


def huber_regression(weights, X, y):
    loss = 0.0
    for row, target in zip(X, y):
        r = target - row @ weights
        loss = loss + (0.5 * r * r if abs(r) <= 0.8 else 0.8 * (abs(r) - 0.4))
    return loss / len(y)


def regimes(mean, low, high, returns):
    """Negative and positive deviations have scales of their own."""
    loglik = 0.0
    for value in returns:
        r = value - mean
        if r < 0:
            loglik -= 0.5 * (r / low) ** 2 + math.log(low * low)
        else:
            loglik -= 0.5 * (r / high) ** 2 + math.log(high * high) - 0.1 * r
    return loglik


def tobit(slope, scale, x, y):
    """Data censored at 0: a probability there, a density elsewhere."""
    s = math.exp(scale)
    total = 0.0
    for xi, yi in zip(x, y):
        z = (yi - slope * xi) / s
        if yi <= 0.0:
            total += math.log(0.5 * math.erfc(slope * xi / (s * math.sqrt(2.0))) + 1e-12)
        else:
            total += -0.5 * z * z - math.log(s)
    return -total


def quantile_loss(a, b, x, y):
    total = 0
    for i, xi in enumerate(x):
        r = y[i] - a - b * xi
        total += 0.8 * r if r > 0 else -0.2 * r
    return total / len(x)


def log_sum_exp(a, b, x):
    """Of a mixture's two components, the larger first."""
    total = 0.0
    for xi in x:
        u, v = -0.5 * (xi - a) ** 2, -2.0 * (xi - b) ** 2
        if u < v:
            u, v = v, u
        total += u + math.log(1.0 + math.exp(v - u))
    return total


def nearest_centre(a, b, c, x):
    """Each point goes to the nearest of three centres."""
    cost = 0.0
    for xi in x:
        best = (xi - a) ** 2
        for centre in (b, c):
            d = (xi - centre) ** 2
            if d < best:
                best = d
        cost += best
    return cost


def generator(a, b, x):
    return sum(a * v if v > b else b * b for v in x)


def comprehension(a, b, x):
    positive = [a * v for v in x if v * b > 0.1]
    return sum(positive) + len(positive) * b


def divided_by_count(a, b, x):
    """The mean of what lies above a threshold."""
    total, count = 0.0, 0
    for v in x:
        if v > b:
            total = total + a * v
            count += 1
    return total / (1 + count)


def running_max(a, b, x):
    best = a * x[0]
    total = 0.0
    for i in range(1, len(x)):
        v = a * x[i] + b
        if v > best:
            best = v
        total += v * best
    return total + best


def metropolis(start, step, normals, uniforms):
    """A chain's mean energy, with its draws as arguments."""
    q, energy, total = start, start * start, 0.0
    for i in range(len(normals)):
        proposal = q + step * normals[i]
        other = proposal**2 + 0.5 * math.sin(3.0 * proposal)
        if uniforms[i] < math.exp(min(energy - other, 0.0)):
            q, energy = proposal, other
        total += q * energy
    return total / len(normals)


def hidden_markov(p, q, x):
    """The likelihood of the best path through two states, by their ways here."""
    stay, leave = -math.log(1 + math.exp(-p)), -math.log(1 + math.exp(p))
    u = v = 0.0
    for value in x:
        first = max(u + stay, v + leave)
        second = max(v + stay, u + leave)
        u, v = first - (value - q) ** 2, second - (value + q) ** 2
    return max(u, v)


def draws(rounds):
    def make(rng):
        step = uniform(rng, 0.3, 1.5)
        return float(rng.normal()), step, rng.normal(size=rounds), rng.random(rounds)

    return make


def regression(rng):
    X = rng.normal(size=(40, 3))
    return rng.normal(size=3), X, X @ np.array([1.0, -0.5, 2.0]) + rng.standard_t(2, 40)


def any_length(count, arrays=1, low=1, high=40):
    """Numbers, and arrays of one length, another at each call."""

    def make(rng):
        return numbers(count, *[int(rng.integers(low, high))] * arrays)(rng)

    return make


def scales(size):
    def make(rng):
        return (
            float(rng.normal(0, 0.3)),
            uniform(rng, 0.5, 2),
            uniform(rng, 0.5, 2),
            rng.normal(size=size),
        )

    return make


ROBUST = [
    case._replace(name=f"robust_{n}", calls=calls, second=n <= 100)
    for n, calls in ((6, 100), (20, 100), (100, 30), (1000, 4))
    for case in cases((robust, numbers(2, n, n)))
]
CASES = ROBUST + cases(
    (huber_regression, regression, dict(argnums=0, calls=40)),
    (regimes, scales(100), dict(argnums=(0, 1, 2), calls=40)),
    (tobit, numbers(2, 15, 15), dict(calls=60)),
    (quantile_loss, numbers(2, 20, 20)),
    (log_sum_exp, numbers(2, 15)),
    (nearest_centre, numbers(3, 12), dict(argnums=(0, 1, 2))),
    (generator, numbers(2, 20)),
    (comprehension, numbers(2, 20)),
    (divided_by_count, any_length(2)),
    (running_max, numbers(2, 20)),
    (metropolis, draws(40), dict(calls=60)),
    (metropolis, draws(1000), dict(name="metropolis_1000", calls=3, second=False)),
    (hidden_markov, numbers(2, 12)),
)
