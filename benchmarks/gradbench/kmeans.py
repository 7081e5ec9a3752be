"""Clusters by k-means: the cost of centroids, and a step of Newton's method."""

import numpy as np

import tapegrad as tg
from benchmarks.gradbench.timed import Timed, numbers


def cost(centroids, points):
    """Return the sum of the squared distances of points from their nearest centroids."""
    products = points @ centroids.T
    squares = np.sum(points**2, axis=1)[:, None] + np.sum(centroids**2, axis=1)
    return np.sum(np.min(squares - 2.0 * products, axis=1))


def read(given):
    """Return the arguments."""
    return np.array(given["centroids"], float), np.array(given["points"], float)


def direction(centroids, points):
    """Return the gradient over the diagonal of the Hessian, which has no other elements."""
    gradient, curvature = tg.jvp(
        lambda x: tg.grad(cost)(x, points), (centroids,), (np.ones_like(centroids),)
    )
    return gradient / curvature


FUNCTIONS = {
    "cost": Timed(read, tg.compile(cost), float),
    "dir": Timed(read, tg.compile(direction), numbers),
}
