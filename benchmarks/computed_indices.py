"""Workloads whose indices and masks are computed, beside JAX: resampling, images, early exercise.

As a program it prints their times, best of several rounds, all systems in turns in one run, one
thread, float64. Values and gradients must agree. Ratios below 1 are in favour of tapegrad.

    python -m benchmarks.computed_indices                  all three
    python -m benchmarks.computed_indices particle_filter  one
"""

import argparse
import os
from types import SimpleNamespace

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import numpy as np

from benchmarks import peer_forms, peers, workload_definitions

OTHER = "JAX"
#: Workload → the most that native code may take: so many times JAX's time.
BARS = {"particle_filter": 1.3, "registration": 1.3, "early_exercise": 2.0}


def filter_data(particles, times):
    """Return random numbers for a particle filter, and returns that it explains."""
    random = np.random.default_rng(11)
    return SimpleNamespace(
        start=random.normal(size=particles),
        noise=random.normal(size=(times, particles)),
        shifts=random.uniform(size=times),
        returns=0.7 * random.normal(size=times),
    )


def particle_filter(np, data):
    """The log-likelihood of stochastic volatility by a filter of particles, resampled at times."""
    count, grid = len(data.start), np.arange(len(data.start))

    def log_likelihood(parameters):
        memory, deviation, level = parameters[0], parameters[1], parameters[2]
        x, total = deviation / np.sqrt(1.0 - memory**2) * data.start, 0.0
        for t in range(len(data.returns)):
            x = memory * x + deviation * data.noise[t]
            scale = level * np.exp(x / 2.0)
            logs = -0.5 * (data.returns[t] / scale) ** 2 - np.log(scale)
            top = np.max(logs)
            weights = np.exp(logs - top)
            total = total + top + np.log(np.mean(weights))
            shares = np.cumsum(weights) / np.sum(weights)
            chosen = np.searchsorted(shares, (grid + data.shifts[t]) / count)
            x = x[np.minimum(chosen, count - 1)]
        return total

    return log_likelihood


def image_data(size):
    """Return an image, and the same image as seen a little moved."""
    rows, columns = np.mgrid[0:size, 0:size] / size
    smooth = np.sin(9.0 * rows + 2.0) * np.cos(7.0 * columns) + np.exp(-20 * (rows - columns) ** 2)
    return SimpleNamespace(image=smooth, target=np.roll(smooth, (2, -3), (0, 1)))


def registration(np, data):
    """How far a moved image is from another: its places are interpolated between four pixels."""
    height, width = data.image.shape
    rows, columns = np.mgrid[0:height, 0:width].astype(float)

    def distance(parameters, image):
        a, b, c, d, e, f = (parameters[k] for k in range(6))
        y = a + b * rows + c * columns
        x = d + e * rows + f * columns
        i = np.clip(np.floor(y).astype(int), 0, height - 2)
        j = np.clip(np.floor(x).astype(int), 0, width - 2)
        down, right = y - i, x - j
        above = (1.0 - right) * image[i, j] + right * image[i, j + 1]
        below = (1.0 - right) * image[i + 1, j] + right * image[i + 1, j + 1]
        moved = (1.0 - down) * above + down * below
        return np.mean((moved - data.target) ** 2)

    return distance


def path_data(paths, times):
    """Return the random numbers of paths of prices."""
    return SimpleNamespace(noise=np.random.default_rng(12).normal(size=(times, paths)))


def _market(np, data, parameters):
    """Return the prices at all times, the discount of a step, and the price to sell at."""
    spot, rate, volatility = parameters[0], parameters[1], parameters[2]
    step = 1.0 / len(data.noise)
    moves = (rate - 0.5 * volatility**2) * step + volatility * np.sqrt(step) * data.noise
    return spot * np.exp(np.cumsum(moves, axis=0)), np.exp(-rate * step), 1.1


def early_exercise(np, data):
    """The price of an American put by least squares over the paths in the money, with masks."""

    def price(parameters):
        prices, discount, strike = _market(np, data, parameters)
        value = np.maximum(strike - prices[-1], 0.0)
        for t in range(len(prices) - 2, -1, -1):
            value = discount * value
            now = np.maximum(strike - prices[t], 0.0)
            inside = now > 0.0
            fitted = np.polyfit(prices[t][inside], value[inside], 2)
            stays = np.polyval(fitted, prices[t])
            value = np.where(inside & (now > stays), now, value)
        return discount * np.mean(value)

    return price


def early_exercise_by_weights(np, data):
    """The same without masks that pick, as a compiler of fixed shapes takes it."""

    def price(parameters):
        prices, discount, strike = _market(np, data, parameters)
        value = np.maximum(strike - prices[-1], 0.0)
        for t in range(len(prices) - 2, -1, -1):
            value = discount * value
            now = np.maximum(strike - prices[t], 0.0)
            inside = now > 0.0
            powers = np.stack([prices[t] ** 2, prices[t], np.ones_like(now)], axis=1)
            kept = np.where(inside[:, None], powers, 0.0)
            fitted = np.linalg.solve(kept.T @ kept, kept.T @ value)
            value = np.where(inside & (now > powers @ fitted), now, value)
        return discount * np.mean(value)

    return price


#: Workload → its function, data for it by whether they are few, the arguments.
WORKLOADS = {
    "particle_filter": (
        particle_filter,
        lambda few: filter_data(*((40, 6) if few else (500, 50))),
        lambda data: (np.array([0.9, 0.4, 0.6]),),
    ),
    "registration": (
        registration,
        lambda few: image_data(12 if few else 128),
        lambda data: (np.array([1.3137, 1.0093, 0.0211, -0.7083, -0.0107, 0.9839]), data.image),
    ),
    "early_exercise": (
        early_exercise,
        lambda few: path_data(*((60, 5) if few else (1000, 30))),
        lambda data: (np.array([1.0, 0.05, 0.3]),),
    ),
}


def prepared(name, system, few=False):
    """Return a call without arguments: the value and the gradients of a workload in a system."""
    build, made, arguments = WORKLOADS[name]
    data = made(few)
    if system == OTHER:
        build = early_exercise_by_weights if name == "early_exercise" else build
        peer_forms.import_jax()
        import jax.numpy

        return peer_forms.by_jax(build(jax.numpy, data), arguments(data))
    function = build(np, data)
    if system == peers.EAGER:
        return workload_definitions.by_tapegrad(function, arguments(data))
    return workload_definitions.by_program(function, arguments(data), system == peers.NATIVE)


def forms(name, systems):
    """Return system → builder of its timed call."""
    return {system: lambda system=system: prepared(name, system) for system in systems}


def main():
    """Print milliseconds, and native code's time in those of the other system."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=list(WORKLOADS))
    systems = [peers.EAGER, peers.REPLAY, peers.NATIVE]
    systems += [OTHER] if OTHER in peers.installed_peers() else []
    peers.print_row("workload, ms", *systems, "ratio", "bar")
    for name in parser.parse_args().names:
        found, apart, failures = peers.measured(name, forms(name, systems), 3.0)
        times = [found.get(system) for system in systems]
        ratio = peers.ratio(found.get(peers.NATIVE), found.get(OTHER))
        peers.print_row(name, *map(peers.shown, times), ratio, str(BARS[name]))
        worst = max(apart.values(), default=0.0)
        if worst > peers.TOLERANCE or failures:
            raise SystemExit(f"{name}: apart by {worst:.1e}, failed: {failures}")


if __name__ == "__main__":
    main()
