"""Regressions whose data lie in a closure, in globals or in attributes, beside data as arguments.

As a program it prints times of value and gradient, and those of PyTorch and JAX where they are
installed: one thread, float64, the best of many calls, all in turns in one run. Values and
gradients must agree, also after the data have been changed in place.

    python -m benchmarks.outside_data                  1000 to 1 000 000 rows of 20 numbers
    python -m benchmarks.outside_data 10000 --native
"""

import argparse
import os
import time

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np

import tapegrad as tg

ROWS, COLUMNS = (1000, 10_000, 100_000, 1_000_000), 20
WAYS = ["argument", "closure", "global", "attribute"]
PEERS = ["PyTorch", "JAX"]
#: Data that functions read as globals.
X = Y = np.zeros(0)


def logistic(w, x, y, np=np):
    """Return the mean loss of a logistic regression with labels −1 and 1."""
    return np.mean(np.logaddexp(0.0, -y * (x @ w)))


def least_squares(w, x, y, np=np):
    """Return the mean squared residual."""
    r = x @ w - y
    return np.mean(r * r)


LOSSES = {"logistic": logistic, "least squares": least_squares}


class Regression:
    """Data in attributes."""

    def __init__(self, loss, x, y):
        self.loss, self.x, self.y = loss, x, y

    def value(self, w):
        """Return the loss for some weights."""
        return self.loss(w, self.x, self.y)


def data(rows):
    """Return a matrix, labels and weights."""
    rng = np.random.default_rng(5)
    x, w = rng.normal(size=(rows, COLUMNS)), 0.1 * rng.normal(size=COLUMNS)
    return x, np.where(x @ w + rng.normal(size=rows) > 0.0, 1.0, -1.0), w


def read_from(way, loss, x, y):
    """Return a function of the weights that reads data from outside."""
    if way == "closure":
        return lambda w: loss(w, x, y)
    if way == "global":
        globals().update(X=x, Y=y)
        return lambda w: loss(w, X, Y)
    model = Regression(loss, x, y)
    return lambda w: model.value(w)


def call_of(way, name, x, y, native=None):
    """Return value and gradient as a function of the weights, compiled and called before."""
    loss, w = LOSSES[name], np.zeros(COLUMNS)
    others = (x, y) if way == "argument" else ()
    compiled = tg.compile(loss if others else read_from(way, loss, x, y), native=native)
    for _ in range(4):
        compiled.value_and_grad(w, *others)
        compiled.wait()
    return lambda w: compiled.value_and_grad(w, *others)


def pytorch(name, x, y):
    """Return the same of PyTorch."""
    import torch

    torch.set_num_threads(1)
    x, y = torch.from_numpy(x), torch.from_numpy(y)

    def evaluate(w):
        w = torch.from_numpy(w).requires_grad_()
        z = x @ w
        loss = -torch.nn.functional.logsigmoid(y * z) if name == "logistic" else (z - y) ** 2
        loss = loss.mean()
        loss.backward()
        return float(loss.detach()), w.grad.numpy()

    return evaluate


def jax(name, x, y):
    """Return the same of JAX; the data are on its device."""
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    x, y = jnp.asarray(x), jnp.asarray(y)
    compiled = jax.jit(jax.value_and_grad(lambda w, x, y: LOSSES[name](w, x, y, np=jnp)))

    def evaluate(w):
        value, gradient = compiled(w, x, y)
        return float(value), np.asarray(gradient)

    return evaluate


def in_turns(calls, w, seconds):
    """Return the least seconds of each call, all of them made again and again."""
    best, end = dict.fromkeys(calls, np.inf), time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, call in calls.items():
            start = time.perf_counter()
            call(w)
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def measured(name, rows, native=None, seconds=2.0):
    """Return the seconds of each way and of the peers that are installed."""
    x, y, w = data(rows)
    calls = {way: call_of(way, name, x, y, native) for way in WAYS}
    check(calls, name, x, y, w)
    x[::7] *= 1.5
    y[::5] *= -1.0
    check(calls, name, x, y, w)
    for peer, make in (("PyTorch", pytorch), ("JAX", jax)):
        try:
            calls[peer] = make(name, x, y)
        except ImportError:
            continue
    check(calls, name, x, y, w)
    return in_turns(calls, w, seconds)


def check(calls, name, x, y, w):
    """Compare values and gradients with closed forms."""
    z = x @ w
    if name == "logistic":
        value, slope = np.logaddexp(0.0, -y * z).mean(), -y / (1.0 + np.exp(y * z))
    else:
        value, slope = ((z - y) ** 2).mean(), 2.0 * (z - y)
    for call in calls.values():
        found = call(w)
        np.testing.assert_allclose(found[0], value, rtol=1e-10)
        np.testing.assert_allclose(found[1], x.T @ slope / len(y), rtol=1e-8, atol=1e-12)


def track_data(name, rows, way):
    """Value and gradient."""
    x, y, w = data(rows)
    call = call_of(way, name, x, y)
    return 1e6 * in_turns({way: call}, w, 0.5)[way]


track_data.unit = "µs"
track_data.params = [list(LOSSES), [1000, 100_000], WAYS]
track_data.param_names = ["loss", "rows", "way"]
track_data.timeout = 120.0


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", type=int, default=ROWS)
    parser.add_argument("--native", action="store_true")
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    print(f"{'microseconds':24}" + "".join(f"{one:>12}" for one in [*WAYS, *PEERS]))
    for name in LOSSES:
        for rows in options.rows or ROWS:
            found = measured(name, rows, options.native or None, options.seconds)
            cells = [f"{1e6 * found[one]:12.1f}" if one in found else "" for one in WAYS + PEERS]
            print(f"{name:14}{rows:10}" + "".join(f"{cell:>12}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
