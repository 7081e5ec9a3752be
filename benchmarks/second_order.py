"""What a product with the Hessian costs, in gradients of the same function."""

import numpy as np

import tapegrad as tg
from benchmarks.figures import best

ROWS = 100_000


def of_numbers(x):
    """A loop over single numbers, a hundred thousand rows."""
    a, b = x[0], x[1]
    for _ in range(ROWS // 5):
        a = (a * b + b) * 0.5 - a * a
    return a


def of_elements(x):
    """A loop that reads elements."""
    total = 0.0
    for i in range(len(x)):
        total = total + x[i] * x[i]
    return total


def of_arrays(x):
    """A chain of a hundred element-wise rows, some of them broadcast."""
    y = x
    for _ in range(10):
        a = np.sin(y)
        b = np.exp(a * 0.1)
        y = (a + b) / (b + 2.0)
        y = np.tanh(y * x[0]) - x[:, :1]
    return np.sum(y)


DATA = np.random.default_rng(0).normal(size=(2000, 50))
LABELS = np.sign(DATA[:, 0] + DATA[:, 1]) * 0.5 + 0.5


def of_data(w):
    """Logistic regression."""
    z = DATA @ w
    return np.sum(np.logaddexp(0.0, z) - LABELS * z) + 0.5 * np.sum(w * w)


#: The function, the shape of its argument, and how often it is measured.
FUNCTIONS = {
    "numbers": (of_numbers, (2,), 5),
    "elements": (of_elements, (ROWS // 5,), 5),
    "arrays of 10000": (of_arrays, (100, 100), 30),
    "arrays of 12": (of_arrays, (3, 4), 100),
    "logistic regression": (of_data, (50,), 30),
}


def track_hvp(name):
    f, shape, times = FUNCTIONS[name]
    rng = np.random.default_rng(1)
    x, v = rng.random(shape), rng.random(shape)
    gradient, product = tg.grad(f), tg.hvp(f)
    gradient(x), product(x, v)
    return best(lambda: product(x, v), times) / best(lambda: gradient(x), times)


track_hvp.params = [list(FUNCTIONS)]
track_hvp.param_names = ["function"]
track_hvp.unit = "gradients"
