"""Optimisation, statistics, ecology and machine learning, with the imports that people write."""

# ruff: noqa: F403, F405
import dataclasses
import functools
import itertools
import math
import operator
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from math import *

import numpy as np
import scipy.special as sc
from scipy import stats
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import newton

# --- optimisation ---------------------------------------------------------------------------------


@dataclass
class Barrier:
    """A problem with bounds, as a sum of a cost and a logarithmic barrier."""

    lower: np.ndarray
    upper: np.ndarray
    weight: float = 0.1
    calls: int = 0
    history: list = field(default_factory=list)

    def __call__(self, x):
        self.calls += 1
        gaps = np.concatenate([x - self.lower, self.upper - x])
        self.history.append(len(gaps))
        return -self.weight * np.sum(np.log(gaps))


BARRIER = Barrier(np.array([-1.0, -1.0]), np.array([2.0, 3.0]))


def barrier_cost(x):
    return (x[0] - 1) ** 2 + 10 * (x[1] - x[0] ** 2) ** 2 + BARRIER(x)


class AugmentedLagrangian:
    def __init__(self, objective, constraints, mu=10.0):
        self.objective, self.constraints, self.mu = objective, constraints, mu
        self.multipliers = np.zeros(len(constraints))

    def penalty(self, x):
        values = np.array([c(x) for c in self.constraints])
        return values @ self.multipliers + 0.5 * self.mu * np.sum(values**2)

    def evaluate(self, x):
        return self.objective(x) + self.penalty(x)


LAGRANGIAN = AugmentedLagrangian(
    lambda x: x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2],
    [lambda x: np.sum(np.square(x)) - 40, lambda x: math.prod(x) - 25],
)


def augmented_lagrangian(x):
    return LAGRANGIAN.evaluate(x)


def unrolled_descent(p):
    """The cost after some steps of gradient descent with momentum, by its rate and momentum."""
    rate, momentum = p
    A = np.array([[3.0, 0.5], [0.5, 1.0]])
    x, velocity = np.array([1.0, -2.0]), np.zeros(2)
    trace = []
    for _ in range(12):
        velocity = momentum * velocity - rate * (A @ x)
        x = x + velocity
        trace.append(0.5 * x @ A @ x)
    return trace[-1] + 0.1 * max(trace)


def line_search(x):
    def f(t, direction):
        return np.sum((x + t * direction) ** 4) + np.sum(np.sin(x + t * direction))

    direction = -np.array([1.0, 0.5, -0.2])
    t, best = 1.0, f(0.0, direction)
    while f(t, direction) > best and t > 1e-3:
        t *= 0.5
    return f(t, direction)


def knapsack_relaxed(p):
    """A smooth choice of items, with the multiplier found by bisection on plain numbers."""
    values = np.array([3.0, 5.0, 2.0, 4.0]) * p[0]
    weights = np.array([2.0, 4.0, 1.0, 3.0])
    taken = np.zeros(4)
    for i, (v, w) in enumerate(zip(values, weights, strict=True)):
        taken[i] = 1.0 / (1.0 + exp(-(v - p[1] * w)))
    excess = max(taken @ weights - 5.0, 0.0)
    return taken @ values - 10.0 * excess**2


def newton_root(p):
    """A root by SciPy's Newton method."""
    root = newton(lambda x: x**3 + p[0] * x - p[1], 1.0, tol=1e-13)
    return root**2 + root


# --- statistics -----------------------------------------------------------------------------------

RNG = np.random.default_rng(5)
HEIGHTS = RNG.normal(1.7, 0.1, 25)
COUNTS = RNG.poisson(3.0, 20)
DESIGN = np.column_stack([np.ones(20), RNG.normal(size=20)])
WAITS = RNG.exponential(2.0, 15)
CENSORED = WAITS > 3.0


class Regression:
    """A generalized linear model with links by name."""

    links = {"log": np.exp, "identity": lambda eta: eta, "logit": sc.expit}

    def __init__(self, X, y, link="log"):
        self.X, self.y, self.link = X, y, link

    def mean(self, beta):
        eta = self.X @ beta
        if self.link == "log":
            return np.exp(eta)
        return sc.expit(eta)

    def loglik(self, beta):
        mu = self.mean(beta)
        return np.sum(self.y * np.log(mu) - mu - sc.gammaln(self.y + 1))


POISSON = Regression(DESIGN, COUNTS)


def poisson_regression(beta):
    return -POISSON.loglik(beta)


def weibull_censored(p):
    shape, scale = exp(p[0]), exp(p[1])
    total = 0.0
    for t, is_censored in zip(WAITS, CENSORED, strict=True):
        z = (t / scale) ** shape
        total -= z
        if not is_censored:
            total += log(shape / scale) + (shape - 1) * log(t / scale)
    return -total


def normal_by_groups(p):
    groups = defaultdict(list)
    for k, h in enumerate(HEIGHTS):
        groups["abc"[k % 3]].append(h)
    sigma = math.exp(p[3])
    total = 0.0
    for k, name in enumerate(sorted(groups)):
        for h in groups[name]:
            total += -0.5 * ((h - p[k]) / sigma) ** 2 - log(sigma) - 0.5 * log(2 * pi)
    return -total


def beta_binomial(p):
    a, b = np.exp(p)
    n, wins = 12, Counter([3, 5, 3, 7, 4, 5])
    betaln = lambda a, b: sc.gammaln(a) + sc.gammaln(b) - sc.gammaln(a + b)
    return -sum(
        count * (betaln(k + a, n - k + b) - betaln(a, b) + log(comb(n, k)))
        for k, count in wins.items()
    )


def gaussian_process(theta):
    x = np.linspace(0.0, 1.0, 8)
    y = np.sin(6 * x)
    length, amplitude, noise = np.exp(theta)
    K = amplitude * np.exp(-0.5 * np.subtract.outer(x, x) ** 2 / length**2)
    K[np.diag_indices(8)] += noise
    factor = cho_factor(K, lower=True)
    alpha = cho_solve(factor, y)
    return 0.5 * y @ alpha + np.sum(np.log(np.diag(factor[0])))


def student_location(p):
    nu = 2.0 + np.exp(p[2])
    z = (HEIGHTS - p[0]) / np.exp(p[1])
    constant = sc.gammaln((nu + 1) / 2) - sc.gammaln(nu / 2) - 0.5 * np.log(nu * np.pi)
    return -np.sum(constant - p[1] - (nu + 1) / 2 * np.log1p(z**2 / nu))


def zscored_correlation(w):
    data = np.column_stack([HEIGHTS[:20], COUNTS, DESIGN[:, 1]])
    score = stats.zscore(data @ w)
    return np.corrcoef(score, COUNTS)[0, 1] + 0.1 * stats.skew(data @ w)


# --- ecology, epidemiology ------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Sir:
    population: float = 1000.0
    infected: float = 5.0

    def step(self, state, beta, gamma, dt):
        s, i, r = state
        new = beta * s * i / self.population * dt
        out = gamma * i * dt
        return np.array([s - new, i + new - out, r + out])


CASES = [5.0, 9.0, 17.0, 30.0, 52.0, 85.0]


def epidemic_fit(p):
    model, misfit = Sir(), 0.0
    state = np.array([model.population - model.infected, model.infected, 0.0])
    for day, cases in enumerate(CASES):
        for _ in range(4):
            state = model.step(state, p[0], p[1], 0.25)
        misfit += (math.sqrt(state[1]) - math.sqrt(cases)) ** 2 + 0.0 * day
    return misfit


def age_classes(p):
    """A Leslie matrix, its growth after some years."""
    L = np.zeros((3, 3))
    L[0, 1:] = p[0], 2 * p[0]
    L[1, 0], L[2, 1] = sc.expit(p[1]), sc.expit(p[2])
    n = np.array([10.0, 5.0, 2.0])
    totals = [n.sum()]
    for _ in range(10):
        n = L @ n
        totals.append(n.sum())
    return np.log(totals[-1] / totals[0])


class Island:
    def __init__(self, area):
        self.area, self.species = area, {}

    def immigrate(self, name, rate):
        self.species[name] = self.species.get(name, 0.0) + rate * self.area**0.3


def island_richness(p):
    total = 0.0
    for area in (1.0, 4.0, 9.0):
        island = Island(area)
        for name, rate in zip(("finch", "crow", "finch"), p, strict=True):
            island.immigrate(name, rate)
        shares = np.array(list(island.species.values()))
        shares = shares / shares.sum()
        total -= np.sum(shares * np.log(shares))
    return total


def functional_response(p):
    """Holling's third type, prey eaten over a season."""
    prey = deque([20.0], maxlen=3)
    for _ in range(30):
        n = prey[-1]
        eaten = p[0] * n**2 / (1 + p[0] * p[1] * n**2)
        prey.append(n + 0.1 * n * (1 - n / 50) - eaten)
    return functools.reduce(operator.add, prey) / len(prey)


def metapopulation(p):
    patches = {"a": 0.5, "b": 0.1, "c": 0.9}
    links = {("a", "b"): 1.0, ("b", "c"): 2.0, ("a", "c"): 0.5}
    for _ in range(8):
        pressure = dict.fromkeys(patches, 0.0)
        for (one, other), distance in links.items():
            w = math.exp(-p[0] * distance)
            pressure[one] += w * patches[other]
            pressure[other] += w * patches[one]
        patches = {k: v + p[1] * pressure[k] * (1 - v) - p[2] * v for k, v in patches.items()}
    return sum(patches.values())


# --- machine learning -----------------------------------------------------------------------------


class Layer:
    count = itertools.count()

    def __init__(self, n_in, n_out, activation=None):
        self.n_in, self.n_out, self.activation = n_in, n_out, activation
        self.last = None

    @property
    def size(self):
        return self.n_out * (self.n_in + 1)

    def forward(self, x, weights):
        W = np.reshape(weights[: self.n_in * self.n_out], (self.n_out, self.n_in))
        b = weights[self.n_in * self.n_out :]
        z = W @ x + b
        self.last = z
        return z if self.activation is None else self.activation(z)


class Network:
    def __init__(self, *layers):
        self.layers = layers

    def __call__(self, x, theta):
        at = 0
        for layer in self.layers:
            x = layer.forward(x, theta[at : at + layer.size])
            at += layer.size
        return x


NETWORK = Network(Layer(2, 3, lambda z: np.tanh(z)), Layer(3, 1))
XOR = [((0.0, 0.0), 0.0), ((0.0, 1.0), 1.0), ((1.0, 0.0), 1.0), ((1.0, 1.0), 0.0)]


def xor_loss(theta):
    losses = [(NETWORK(np.array(x), theta)[0] - y) ** 2 for x, y in XOR]
    return np.mean(losses)


def softmax_regression(theta):
    W = theta.reshape(3, 2)
    X = np.array([[0.2, 1.0], [1.5, -0.3], [-0.7, 0.4]])
    logits = X @ W.T
    return -np.mean([logits[k, k] - sc.logsumexp(logits[k]) for k in range(3)])


def attention(theta):
    Q = K = np.array([[0.1, 0.7], [0.9, -0.2], [0.4, 0.3]]) * theta[0]
    scores = Q @ K.T / np.sqrt(2)
    mask = np.tril(np.ones((3, 3), dtype=bool))
    scores = np.where(mask, scores, -1e9)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return np.linalg.norm(weights @ (K + theta[1]))


class Adam:
    def __init__(self, rate=0.1):
        self.rate, self.state = rate, {}

    def update(self, name, value, slope):
        m, v, t = self.state.get(name, (0.0, 0.0, 0))
        m, v, t = 0.9 * m + 0.1 * slope, 0.99 * v + 0.01 * slope**2, t + 1
        self.state[name] = m, v, t
        return value - self.rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-8)


def trained_by_adam(p):
    optimizer, w = Adam(p[0]), {"a": 1.0, "b": -0.5}
    for _ in range(6):
        slopes = {"a": 2 * (w["a"] - p[1]), "b": 4 * w["b"] ** 3 - 1}
        w = {k: optimizer.update(k, w[k], slopes[k]) for k in w}
    return (w["a"] - 0.3) ** 2 + w["b"] ** 2


def batch_norm(theta):
    x = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.7], [2.0, 2.2]])
    mean, var = x.mean(axis=0), np.var(x, axis=0)
    out = theta[:2] * (x - mean) / np.sqrt(var + 1e-5) + theta[2:]
    return np.sum(np.maximum(out, 0.01 * out) ** 2)


def decision_stumps(theta):
    """Soft trees in a list of dicts."""
    trees = [dict(feature=k % 2, cut=c, gain=g) for k, (c, g) in enumerate(zip(*[iter(theta)] * 2))]
    data, total = [(0.3, 1.2), (0.9, -0.4), (-1.0, 0.2)], 0.0
    for row, y in zip(data, (1.0, 0.0, 1.0), strict=True):
        score = sum(t["gain"] * tanh(row[t["feature"]] - t["cut"]) for t in trees)
        total += np.logaddexp(0.0, -score if y else score)
    return total


POINTS = {
    "barrier_cost": [[0.5, 1.0], [1.5, 2.5]],
    "augmented_lagrangian": [[1.0, 4.5, 3.8, 1.4], [2.0, 3.0, 2.0, 1.1]],
    "unrolled_descent": [[0.1, 0.5], [0.2, 0.9]],
    "line_search": [[0.5, -0.3, 0.8], [1.5, 2.0, -1.0]],
    "knapsack_relaxed": [[1.0, 0.8], [0.6, 2.0]],
    "newton_root": [[1.0, 2.0], [0.5, 3.0]],
    "poisson_regression": [[1.0, 0.1], [0.5, -0.3]],
    "weibull_censored": [[0.1, 0.6], [-0.2, 0.9]],
    "normal_by_groups": [[1.7, 1.6, 1.8, -2.0], [1.5, 1.7, 1.7, -1.5]],
    "beta_binomial": [[0.5, 1.0], [1.2, 0.3]],
    "gaussian_process": [[-1.0, 0.1, -3.0], [-1.5, 0.5, -2.0]],
    "student_location": [[1.7, -2.2, 1.0], [1.6, -2.0, 0.0]],
    "zscored_correlation": [[1.0, 0.2, -0.5], [0.3, 0.7, 1.0]],
    "epidemic_fit": [[0.9, 0.3], [0.7, 0.2]],
    "age_classes": [[0.6, 0.2, 0.4], [1.1, -0.5, 1.0]],
    "island_richness": [[0.5, 1.0, 0.2], [1.5, 0.4, 0.9]],
    "functional_response": [[0.01, 0.5], [0.03, 0.2]],
    "metapopulation": [[0.5, 0.3, 0.2], [1.0, 0.1, 0.4]],
    "xor_loss": [[0.1 * k - 0.5 for k in range(13)], [0.4 - 0.07 * k for k in range(13)]],
    "softmax_regression": [[0.1, -0.2, 0.4, 0.3, 0.9, -1.0], [1.0, 0.5, 0.2, 0.1, -0.4, 0.6]],
    "attention": [[1.0, 0.2], [2.0, -0.5]],
    "trained_by_adam": [[0.1, 0.5], [0.3, -0.2]],
    "batch_norm": [[1.0, 0.5, 0.1, -0.2], [0.3, -1.2, 0.7, 0.4]],
    "decision_stumps": [[0.1, 0.8, -0.3, 1.2], [0.5, -0.4, 0.2, 0.9]],
}
