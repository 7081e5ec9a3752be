"""Logistic regression over rows in several processes, by Dask; a worker is lost on the way.

    python examples/distributed_fit.py             # 1 000 000 rows
    python examples/distributed_fit.py 10000000    # 480 MB, half of it in each process

Partitions are made where they are evaluated: nothing but the coefficients, and sums, is sent. The
program goes to each worker once. One of the workers is ended after some evaluations; Dask has its
partitions made again, and the fit goes on with the same bits.
"""

import functools
import logging
import os
import sys
import time

import numpy as np
from scipy.optimize import minimize

import tapegrad as tg

try:
    import distributed
except ImportError:
    distributed = None

PARTITIONS, ROWS = 16, 1_000_000
TRUE = np.array([0.5, -1.0, 0.25, 0.0, 0.75, -0.3])


def misfit(w, x, y):
    """The negative log-likelihood of a partition."""
    z = x @ w
    return np.sum(np.logaddexp(0.0, z) - y * z)


def partition(number, count):
    """Rows as they might be read from a file, always the same of a number."""
    rng = np.random.default_rng(number)
    x = rng.normal(size=(count, len(TRUE)))
    x[:, 0] = 1.0
    return x, (rng.random(count) < 1.0 / (1.0 + np.exp(-x @ TRUE))) * 1.0


def bar(done, total, text):
    """A line of progress: rewritten in a terminal, a line at the end of the fit elsewhere."""
    if sys.stdout.isatty() or done == total:
        print(
            f"\r[{'#' * done}{'.' * (total - done)}] {text}", end="\n"[: done == total], flush=True
        )


def main(rows):
    """Fit once undisturbed, once with a worker that is lost."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # the loss is wanted here
    parts = [functools.partial(partition, k, rows // PARTITIONS) for k in range(PARTITIONS)]
    start, seconds, wait = np.zeros(len(TRUE)), [], 12
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as own,
        distributed.Client(own) as client,
        tg.compile(misfit).distribute(parts, over=client) as total,
    ):

        def value_and_grad(w, lose=None):
            if len(seconds) == lose:
                victim = next(iter(client.nthreads()))
                client.submit(os._exit, 1, workers=[victim], retries=0, pure=False)
            began = time.perf_counter()
            found = total.value_and_grad(w)
            seconds.append(time.perf_counter() - began)
            bar(min(len(seconds), wait - 1), wait, f"evaluation {len(seconds)}")
            return found

        fits = []
        for lose in (None, 3):
            del seconds[:]
            fit = minimize(value_and_grad, start, (lose,), jac=True, method="L-BFGS-B")
            bar(wait, wait, f"{fit.nfev} evaluations in {sum(seconds):.2f} s")
            fits.append(fit)
    print("coefficients      ", fits[0].x.round(3))
    print("those of the data ", TRUE)
    same = fits[0].x.tobytes() == fits[1].x.tobytes()
    print(f"with a worker lost: {'the same bits' if same else 'OTHER BITS'}")
    assert same and np.abs(fits[0].x - TRUE).max() < 20.0 / np.sqrt(rows)


if __name__ == "__main__":
    if distributed is None:
        print("This example needs Dask: pip install 'tapegrad[distributed]'")
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
