"""The log-posterior of a mixture of normal distributions with a Wishart prior of the precisions."""

import numpy as np
from scipy.special import logsumexp, multigammaln

import tapegrad as tg
from benchmarks.gradbench.timed import Timed, numbers

NAMES = ("alpha", "mu", "q", "l")


def log_posterior(alpha, mu, q, l, x, gamma, m):  # noqa: E741 (the names of the evaluation)
    """Return the log-posterior.

    The precision of component k is QᵀQ, where Q is lower triangular, with the diagonal exp(q[k])
    and below it l[k], column by column.
    """
    n, d = x.shape
    k = len(alpha)
    columns, rows = np.triu_indices(d, 1)
    factors = np.zeros((k, d, d))
    factors[:, rows, columns] = l
    diagonal = np.exp(q)
    factors[:, np.arange(d), np.arange(d)] = diagonal
    log_determinants = np.sum(q, axis=1)

    centred = x[None] - mu[:, None]
    scaled = centred @ np.swapaxes(factors, 1, 2)
    logs = alpha + log_determinants - 0.5 * np.sum(scaled**2, axis=2).T
    likelihood = np.sum(logsumexp(logs, axis=1)) - n * logsumexp(alpha)

    freedom = d + m + 1
    normalization = freedom * d * np.log(gamma / np.sqrt(2.0)) - multigammaln(0.5 * freedom, d)
    prior = m * np.sum(log_determinants) - 0.5 * gamma**2 * (np.sum(diagonal**2) + np.sum(l**2))
    return likelihood - 0.5 * n * d * np.log(2.0 * np.pi) + prior + k * normalization


def read(given):
    """Return the arguments."""
    arrays = [np.array(given[name], float) for name in NAMES]
    return *arrays, np.array(given["x"], float), float(given["gamma"]), given["m"]


def write(gradients):
    """Return the gradients by their names."""
    return {name: numbers(g) for name, g in zip(NAMES, gradients, strict=True)}


compiled = tg.compile(log_posterior, argnums=(0, 1, 2, 3))
FUNCTIONS = {
    "objective": Timed(read, compiled, float),
    "jacobian": Timed(read, compiled.grad, write),
}
