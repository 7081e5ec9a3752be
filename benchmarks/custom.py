"""Operations of a user's: ten operations as one, and a Function that loops over elements."""

import math
import time

import numpy as np

import tapegrad as tg
from benchmarks import figures

SIZE = 10**6


def body(x, y):
    """Return what ten operations make of two numbers."""
    a = math.exp(-x * x)
    return a * math.sin(y) / (1.0 + a) + math.sqrt(x * x + y * y)


def body_of_arrays(x, y):
    """Return the same of two arrays, one NumPy call after the other."""
    a = np.exp(-x * x)
    return a * np.sin(y) / (1.0 + a) + np.sqrt(x * x + y * y)


FORMS = {"elementwise": tg.elementwise(body), "NumPy": body_of_arrays}


def inputs(size):
    """Return two arrays of normal numbers."""
    return tuple(np.random.default_rng(7).normal(size=(2, size)))


def seconds(form, what, size=SIZE, times=9):
    """Return the least seconds of the value alone, or of value and gradient."""
    f, given = FORMS[form], inputs(size)
    if what == "gradient":
        f = tg.value_and_grad(lambda x, y: np.sum(FORMS[form](x, y)), (0, 1))
    f(*given)
    return figures.best(lambda: f(*given), times)


def track_body(form, what):
    """The body on 10⁶ pairs of numbers."""
    return 1e3 * seconds(form, what)


track_body.unit = "ms"
track_body.params = [list(FORMS), ["value", "gradient"]]
track_body.param_names = ["form", "what"]


class Square(tg.autograd.Function):
    """The square of a matrix, element by element."""

    @staticmethod
    def forward(ctx, x):
        """Square each element."""
        ctx.save_for_backward(x)
        y = tg.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = x[i, j] * x[i, j]
        return y

    @staticmethod
    def backward(ctx, gradient):
        """Multiply each element's partial derivative by its gradient."""
        (x,) = ctx.saved_tensors
        found = tg.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                found[i, j] = 2.0 * x[i, j] * gradient[i, j]
        return found


def loop_seconds(size, times=5):
    """Return the least seconds per element of forward and of backward, of a square matrix."""
    x = tg.tensor(inputs(size * size)[0].reshape(size, size), requires_grad=True)
    found = []
    for _ in range(times + 1):
        begin = time.perf_counter()
        total = Square.apply(x).sum()
        between = time.perf_counter()
        total.backward()
        found.append((between - begin, time.perf_counter() - between))
    forward, backward = zip(*found[1:], strict=True)
    return {"forward": min(forward) / size**2, "backward": min(backward) / size**2}


def track_loop(what):
    """An element of a 200×200 matrix squared in a Function's Python loop."""
    return 1e9 * loop_seconds(200)[what]


track_loop.unit = "ns"
track_loop.params = ["forward", "backward"]
track_loop.param_names = ["what"]
