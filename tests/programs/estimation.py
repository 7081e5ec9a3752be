"""Estimators and likelihoods as a statistician writes them."""

import tapegrad.math as math
import tapegrad.numpy as np


def huber_location(data, k=1.345, tol=1e-12):
    """M-estimate of location by iteratively reweighted means, scaled by the MAD."""
    data = np.asarray(data, dtype=float)
    mu = np.median(data)
    scale = np.median(np.abs(data - mu)) / 0.6745
    if scale < 0.05:  # all but equal
        return mu
    for iteration in range(200):
        r = (data - mu) / scale
        w = np.ones(len(data))
        far = np.abs(r) > k
        w[far] = k / np.abs(r[far])
        new = np.sum(w * data) / np.sum(w)
        if abs(new - mu) < tol * scale:
            break
        mu = new
    return new


def trimmed_mean(sample, proportion=0.1):
    s = sorted(sample)
    cut = int(proportion * len(s))
    kept = s[cut : len(s) - cut]
    return sum(kept) / len(kept)


def density_at(points, bandwidth=0.4, grid=(-1.0, 0.0, 0.7, 1.5)):
    """Gaussian kernel density on a grid, in plain loops."""
    density = np.zeros(len(grid))
    for i in range(len(grid)):
        total = 0.0
        for p in points:
            u = (grid[i] - p) / bandwidth
            total += math.exp(-0.5 * u * u)
        density[i] = total / (len(points) * bandwidth * math.sqrt(2 * math.pi))
    return np.sum(np.log(density))


def weighted_quantiles(values, weights=(1.0, 2.0, 0.5, 1.5, 1.0, 3.0), probs=(0.1, 0.5, 0.9)):
    values = np.array(values)
    weights = np.array(weights)
    order = np.argsort(values)
    values, weights = values[order], weights[order]
    positions = (np.cumsum(weights) - 0.5 * weights) / np.sum(weights)
    q = np.interp(probs, positions, values)
    return q[2] - q[0] + 0.1 * q[1] ** 2


OBSERVED = [0.3, 1.9, 2.2, -0.7, 0.1, 2.8, 1.7, -0.2, 2.4, 0.9]


def mixture_loglik(params):
    """Log-likelihood of two normals; parameters in a dict, as an optimiser's wrapper has them."""
    w = 1.0 / (1.0 + math.exp(-params["logit"]))
    total = 0.0
    for y in OBSERVED:
        terms = np.array(
            [
                math.log(w)
                - params["log_s"][0]
                - 0.5 * ((y - params["mu"][0]) / math.exp(params["log_s"][0])) ** 2,
                math.log(1 - w)
                - params["log_s"][1]
                - 0.5 * ((y - params["mu"][1]) / math.exp(params["log_s"][1])) ** 2,
            ]
        )
        biggest = terms.max()
        total += biggest + np.log(np.sum(np.exp(terms - biggest)))
    return total - 0.5 * len(OBSERVED) * math.log(2 * math.pi)


DRAWS = [[0, 2, 2, 5, 1, 3], [4, 4, 0, 1, 5, 2], [3, 1, 1, 0, 5, 5], [2, 3, 4, 0, 0, 1]]


def bootstrap_interval(sample):
    """Width of a percentile interval of the mean, with the draws given."""
    sample = np.asarray(sample)
    means = []
    for draw in DRAWS:
        means.append(sample[draw].mean())
    low, high = np.percentile(means, [5, 95])
    return high - low


def standardised_gaps(table):
    """Columns with gaps: standardise by what is there, score rows by their mean."""
    table = np.array(table, dtype=float)
    table[1, 2] = np.nan
    table[0, 0] = np.nan
    z = (table - np.nanmean(table, axis=0)) / np.nanstd(table, axis=0, ddof=1)
    scores = np.nanmean(z, axis=1)
    missing = np.isnan(table).sum(axis=1)
    scores[missing > 0] *= 0.9
    return np.nansum(scores**2) + np.nanmax(z)


def arma_css(theta):
    """Conditional sum of squares of an ARMA(1, 1)."""
    phi, ma, c = theta
    y = np.array([0.2, 0.5, -0.1, 0.8, 1.1, 0.4, -0.3, 0.2])
    e = np.zeros_like(y)
    for t in range(1, len(y)):
        e[t] = y[t] - c - phi * y[t - 1] - ma * e[t - 1]
    n = len(y) - 1
    sigma2 = np.dot(e, e) / n
    return -0.5 * n * (np.log(2 * np.pi * sigma2) + 1)


def r_squared(y, degree=2):
    """Least squares of a polynomial by normal equations, as before polyfit."""
    t = np.linspace(-1, 1, len(y))
    columns = np.vander(t, degree + 1)
    beta = np.linalg.solve(columns.T @ columns, columns.T @ y)
    residual = y - columns @ beta
    return 1 - residual @ residual / np.sum((y - np.mean(y)) ** 2)


def group_effects(frame):
    """One-way layout in a dict of columns: between over within variance."""
    frame = {name: np.asarray(column) for name, column in frame.items()}
    labels = np.array(["a", "b", "a", "c", "b", "c", "c"])
    overall = frame["y"].mean()
    between, within = 0.0, 0.0
    summary = {}
    for label in np.unique(labels):
        rows = frame["y"][labels == label]
        weights = frame["w"][labels == label]
        mean = np.average(rows, weights=weights)
        summary[label] = {"n": rows.size, "mean": mean}
        within += np.sum(weights * (rows - mean) ** 2)
    for label, row in summary.items():
        between += row["n"] * (row["mean"] - overall) ** 2
    return between / within


def histogram_divergence(weights):
    """Weighted histogram against a reference."""
    where = np.array([0.1, 0.35, 0.4, 0.7, 0.75, 0.9])
    counts, edges = np.histogram(where, bins=4, range=(0.0, 1.0), weights=weights)
    p = (counts + 0.1) / np.sum(counts + 0.1)
    q = np.full(len(p), 0.25)
    return np.sum(p * np.log(p / q)) + 0.0 * edges[0]
