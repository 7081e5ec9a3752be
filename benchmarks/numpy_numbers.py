"""NumPy's numbers beside recorded ones, as in loops over data: costs as ratios of one run.

`np.float64(2.0) * t` and `np.log(t)` reach tensors through NumPy, `t * 2.0` does not.
"""

import timeit

import numpy as np

import tapegrad as tg

STEPS = 1000


def ratio(statement):
    """Return what a statement costs beside `t * 2.0`, for a recorded number t."""
    names = {"t": tg.tensor(1.5, requires_grad=True) * 1.0, "c": np.float64(2.0), "np": np}
    timers = [timeit.Timer(text, globals=names) for text in (statement, "t * 2.0")]
    pairs = [[timer.timeit(200) for timer in timers] for _ in range(200)]
    return min(own for own, _ in pairs) / min(other for _, other in pairs)


def track_ratio(statement):
    """A statement beside `t * 2.0`."""
    return ratio(statement)


track_ratio.params = [
    *("c * t", "t * c", "c / t", "c % t", "c ** t", "c < t"),
    *("t % c", "t // 2.0", "abs(t)", "np.log(t)"),
]
track_ratio.param_names = ["statement"]


def garch(p, returns):
    """Return the negative log-likelihood of a GARCH(1, 1) model."""
    h, total = p[0] / (1.0 - p[1] - p[2]), 0.0
    for t in range(len(returns)):
        total = total + np.log(h) + returns[t] ** 2 / h
        h = p[0] + p[1] * returns[t] ** 2 + p[2] * h
    return total


def garch_seconds():
    """Return the seconds of a gradient over an array, over a list, and of the value by NumPy."""
    p = np.array([1e-5, 0.1, 0.85])
    returns = np.random.default_rng(0).normal(size=STEPS) * 0.01
    values, gradient = returns.tolist(), tg.grad(garch)
    calls = (
        lambda: gradient(p, returns),
        lambda: gradient(p, values),
        lambda: garch(p, returns),
    )
    rounds = [[timeit.timeit(call, number=1) for call in calls] for _ in range(40)]
    return [min(one) for one in zip(*rounds, strict=True)]


def track_garch_over_an_array():
    """An eager gradient of a loop over an array beside that over a list of floats."""
    array, floats, _ = garch_seconds()
    return array / floats


def track_garch_beside_numpy():
    """An eager gradient of a loop over an array beside the value by NumPy alone."""
    array, _, value = garch_seconds()
    return array / value


for _track in (track_ratio, track_garch_over_an_array, track_garch_beside_numpy):
    _track.unit = "ratio"
