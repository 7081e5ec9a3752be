"""Sums over partitions in processes of Dask: time of an evaluation, what is sent, lost workers.

    python -m benchmarks.clusters            all of it
    python -m benchmarks.clusters --memory   and the memory of the processes over 1000 evaluations

Logistic regressions on a cluster of this machine. The first table has milliseconds of an
evaluation, the least and the median of many, of partitions that take nearly no time: what is left
is the cost of the cluster. Bits are compared with those of one worker. The others tell what one
worker that is lost costs, and how much faster two are than one where partitions take long.
"""

import argparse
import functools
import importlib
import importlib.util
import os
import time

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np

import tapegrad as tg

#: Dask where it is installed: benchmarks are listed without it.
distributed = (
    importlib.import_module("distributed") if importlib.util.find_spec("distributed") else None
)
FEATURES = 20
W = np.full(FEATURES, 0.1)


def misfit(w, x, y):
    """The negative log-likelihood of a partition."""
    z = x @ w
    return np.sum(np.logaddexp(0.0, z) - y * z)


def rows(number, count):
    """A partition."""
    rng = np.random.default_rng(number)
    x = rng.normal(size=(count, FEATURES))
    return x, (x[:, 0] > 0.0) * 1.0


def partitions(number, count):
    return [functools.partial(rows, k, count) for k in range(number)]


def cluster(workers):
    """A cluster of processes with one thread each, and a client."""
    own = distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, dashboard_address=":0", memory_limit=0
    )
    return own, distributed.Client(own)


def times(total, count):
    """Seconds of evaluations, sorted."""
    found = []
    for k in range(count):
        start = time.perf_counter()
        total.value_and_grad(W + 1e-3 * k)
        found.append(time.perf_counter() - start)
    return sorted(found)


def overhead(compiled):
    """The cost of the cluster for 1, 2 and 3 workers, and 8 and 32 partitions."""
    print(f"{'workers':>8}{'partitions':>12}{'first':>10}{'least':>8}{'median':>8}  bits")
    seen = {}
    for workers in (1, 2, 3):
        own, client = cluster(workers)
        with own, client:
            for number in (8, 32):
                with compiled.distribute(partitions(number, 100), over=client) as total:
                    start = time.perf_counter()
                    value, gradient = total.value_and_grad(W)
                    first = time.perf_counter() - start
                    bits = seen.setdefault(number, (value, gradient.tobytes()))
                    same = "the same" if bits == (value, gradient.tobytes()) else "OTHERS"
                    found = 1e3 * np.array(times(total, 60))
                print(
                    f"{workers:8}{number:12}{1e3 * first:7.0f} ms{found[0]:8.1f}"
                    f"{np.median(found):8.1f}  {same}"
                )


def losses(compiled):
    """Seconds of an evaluation during which a worker of two is ended."""
    own, client = cluster(2)
    with own, client, compiled.distribute(partitions(8, 20_000), over=client) as total:
        value, gradient = total.value_and_grad(W)
        before = times(total, 20)[10]
        victim = client.submit(os._exit, 1, workers=[next(iter(client.nthreads()))], retries=0)
        start = time.perf_counter()
        found = total.value_and_grad(W)
        seconds = time.perf_counter() - start
        victim.release()
        same = found[0] == value and found[1].tobytes() == gradient.tobytes()
        print(f"\nan evaluation takes {before:.3f} s; with a worker lost in it {seconds:.2f} s")
        print(f"bits: {'the same' if same else 'OTHERS'}")


def speedup(compiled, count):
    """How much faster two workers are than one, by turns."""
    ones, twos = cluster(1), cluster(2)
    with ones[0], ones[1], twos[0], twos[1]:
        totals = [compiled.distribute(partitions(8, count), over=c) for _, c in (ones, twos)]
        for total in totals:
            times(total, 2)
        found = [[times(total, 1)[0] for total in totals] for _ in range(5)]
    one, two = np.min(found, axis=0)
    ratio = np.median([a / b for a, b in found])
    print(
        f"\n8 partitions of {1e3 * one / 8:.0f} ms: {one:.2f} s by one worker, {two:.2f} s by two,"
    )
    print(f"{ratio:.2f} times as fast (load of the machine: {os.getloadavg()[0]:.1f})")


def memory(compiled):
    """Megabytes of the workers over evaluations."""
    own, client = cluster(2)

    def used(dask_worker):
        return dask_worker.monitor.recent()["memory"] / 1e6

    with own, client, compiled.distribute(partitions(8, 5_000), over=client) as total:
        print()
        for k in range(0, 1001, 250):
            print(f"{k:6} evaluations: {[round(mb, 1) for mb in client.run(used).values()]} MB")
            times(total, 250)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=2_000_000, help="of long partitions")
    parser.add_argument("--memory", action="store_true")
    given = parser.parse_args()
    compiled = tg.compile(misfit)
    overhead(compiled)
    losses(compiled)
    speedup(compiled, given.rows)
    if given.memory:
        memory(compiled)


if __name__ == "__main__":
    main()
