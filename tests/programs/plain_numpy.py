"""Functions that need no other import: NumPy's protocols reach all they do."""

import numpy as np


def portfolio_variance(weights):
    """Markowitz with a soft budget."""
    returns = np.array(
        [[0.01, 0.02, -0.01], [0.0, -0.015, 0.02], [0.013, 0.004, 0.001], [-0.006, 0.01, 0.0]]
    )
    covariance = np.cov(returns, rowvar=False)
    variance = weights @ covariance @ weights
    expected = returns.mean(axis=0) @ weights
    return 1e4 * variance - 100 * expected + (weights.sum() - 1) ** 2


def gaussian_process(hyper):
    """Negative log marginal likelihood by Cholesky."""
    x = np.array([0.0, 0.4, 0.9, 1.5, 2.2])
    y = np.sin(2 * x)
    scale, length, noise = np.exp(hyper)
    d2 = (x[:, None] - x[None, :]) ** 2
    K = scale**2 * np.exp(-0.5 * d2 / length**2) + (noise**2 + 1e-6) * np.eye(len(x))
    L = np.linalg.cholesky(K)
    alpha = np.linalg.solve(L, y)
    return 0.5 * alpha @ alpha + np.sum(np.log(np.diag(L))) + 0.5 * len(x) * np.log(2 * np.pi)


def spring_energy(positions):
    """A chain whose springs only pull."""
    p = positions.reshape(-1, 2)
    stretch = np.linalg.norm(np.diff(p, axis=0), axis=1) - 0.5
    pulled = np.where(stretch > 0, stretch, 0)
    bend = p[2:] - 2 * p[1:-1] + p[:-2]
    return 0.5 * np.sum(pulled**2) * 10 + 0.1 * np.sum(bend**2) + 9.81 * p[:, 1].mean()


def newton_root(coefficients):
    """A root of a polynomial by Newton's method; Horner in a loop over an array."""
    x = 2.0
    for _ in range(60):
        value, slope = 0.0, 0.0
        for c in coefficients:
            slope = slope * x + value
            value = value * x + c
        if abs(value) < 1e-14 * 10:
            break
        x = x - value / slope
    return x


def capped_demand(prices):
    """Clips, a sort and a cumulative fill of what is cheapest."""
    capacity = np.array([3.0, 2.0, 4.0, 1.0])
    order = np.argsort(prices)
    left = 5.5
    cost = 0.0
    for k in order:
        taken = min(capacity[k], left)
        cost += taken * prices[k] + 0.05 * taken * prices[k] ** 2
        left -= taken
        if left <= 0:
            break
    return cost * (1 + 0.01 * np.clip(prices, 0.5, 2.0).sum())


def golden_section(shape):
    """A search without gradients around an objective, and the value it finds."""
    ratio = (np.sqrt(5) - 1) / 2
    objective = lambda t: shape[0] * (t - shape[1]) ** 2 + np.cos(t) * shape[2]
    a, b = -2.0, 4.0
    while b - a > 1e-9:
        c, d = b - ratio * (b - a), a + ratio * (b - a)
        if objective(c) < objective(d):
            b = d
        else:
            a = c
    return objective(0.5 * (a + b))


def thresholded_image(flat):
    """Masks, in-place products, slices with steps, an early return."""
    image = flat.reshape(3, 4).copy()
    if image.max() < 0.5:
        return image.sum() * 0.1
    bright = image > image.mean()
    image[bright] *= 1.5
    image[~bright] -= 0.1
    image[::2, 1:] += image[1, 1:]
    rows = image.sum(axis=1)
    image /= rows[:, np.newaxis]
    return (image**2).sum() + np.median(image)
