"""The second call of a compiled function, in which its recording is made a program.

It is compared with the function too, so that it takes as long as an eager call at least. As a
program it prints for simulations of many steps the processor time of calls, and until there is
native code; beside them the time of JAX's first call, if it is installed:

    python -m benchmarks.second_call
    python -m benchmarks.second_call options heston
"""

import argparse
import functools
import gc
import importlib.util
import inspect
import sys
import time

import numpy as np

import tapegrad as tg
import tapegrad.numpy as stand_in
from benchmarks import peer_forms


def _normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def shallow_water(height, np=np, steps=50):
    """Waves of shallow water on a torus, by rolled arrays."""
    h, u, v = height, 0.0 * height, 0.0 * height

    def slope(a, axis):
        return 0.5 * (np.roll(a, -1, axis) - np.roll(a, 1, axis))

    for _ in range(steps):
        u_new = u - 0.1 * (u * slope(u, 0) + v * slope(u, 1) + 9.8 * slope(h, 0))
        v_new = v - 0.1 * (u * slope(v, 0) + v * slope(v, 1) + 9.8 * slope(h, 1))
        h = h - 0.1 * (slope(h * u_new, 0) + slope(h * v_new, 1))
        u, v = u_new, v_new
    return np.mean((h - 1.0) ** 2) + np.mean(u**2 + v**2)


OPTION_DRAWS = _normal(1, 100, 10_000)


def options(market, np=np, draws=OPTION_DRAWS):
    """An Asian option by Monte Carlo, path by path: the mean of prices at all times."""
    spot, rate, volatility = market[0], market[1], market[2]
    dt = 1.0 / len(draws)
    price, total = spot * np.ones(draws.shape[1]), 0.0
    for z in draws:
        growth = (rate - 0.5 * volatility**2) * dt + volatility * dt**0.5 * z
        price = price * np.exp(growth)
        total = total + price
    payoff = np.maximum(total / len(draws) - 100.0, 0.0)
    return np.exp(-rate) * np.mean(payoff)


def _added(array, where, what):
    """An array with something added to a part of it, in place."""
    array[where] += what
    return array


INSIDE = slice(1, -1)


def leap_frog(permittivity, np=stand_in, added=_added, steps=100):
    """Electromagnetic waves in a plane: fields on staggered grids that leap over each other."""
    n = len(permittivity)
    e, across, along = np.zeros((n, n)), np.zeros((n, n - 1)), np.zeros((n - 1, n))
    seen = 0.0
    for k in range(steps):
        across = across - 0.5 * (e[:, 1:] - e[:, :-1])
        along = along + 0.5 * (e[1:] - e[:-1])
        curl = (along[1:, INSIDE] - along[:-1, INSIDE]) - (across[INSIDE, 1:] - across[INSIDE, :-1])
        e = added(1.0 * e, (INSIDE, INSIDE), 0.5 * curl / permittivity[INSIDE, INSIDE])
        e = added(e, (n // 4, n // 4), np.exp(-(((k - 30) / 10) ** 2)))
        seen = seen + e[3 * n // 4, n // 2] ** 2
    return seen


HESTON_DRAWS = _normal(2, 100, 2, 2_000)


def heston(model, np=np, draws=HESTON_DRAWS):
    """A call option where the variance is stochastic, too: paths of prices and variances."""
    start, speed, level, spread, correlation = [model[k] for k in range(5)]
    dt = 1.0 / len(draws)
    log_price, variance = 0.0, start * np.ones(draws.shape[2])
    for first, second in draws:
        other = correlation * first + np.sqrt(1.0 - correlation**2) * second
        left = np.maximum(variance, 0.0)
        root = np.sqrt(left * dt)
        log_price = log_price - 0.5 * left * dt + root * first
        variance = variance + speed * (level - left) * dt + spread * root * other
    return np.mean(np.maximum(100.0 * np.exp(log_price) - 100.0, 0.0))


SEISMOGRAM = 0.1 * _normal(3, 120, 60)


def waves(speed, np=stand_in, added=_added, measured=SEISMOGRAM):
    """The misfit of waves in a plane to what has been measured along a line."""
    n = len(speed)
    factor = (0.5 * speed) ** 2
    before, now, misfit = np.zeros((n, n)), np.zeros((n, n)), 0.0
    for k, seen in enumerate(measured):
        edged = np.pad(now, 1)
        bend = edged[2:, INSIDE] + edged[:-2, INSIDE] + edged[INSIDE, 2:] + edged[INSIDE, :-2]
        after = 2.0 * now - before + factor * (bend - 4.0 * now)
        pulse = (1.0 - 0.02 * (k - 20) ** 2) * np.exp(-0.01 * (k - 20) ** 2)
        after = added(1.0 * after, (2, n // 2), pulse)
        misfit = misfit + np.sum((after[-3] - seen) ** 2)
        before, now = now, after
    return misfit


_RNG = np.random.default_rng(4)
SERIES, IS_SEEN = np.cumsum(_RNG.standard_normal((200, 3)), 0), _RNG.random((200, 3)) > 0.2


def state_space(scales, np=np, series=SERIES, is_seen=IS_SEEN):
    """Minus the log-likelihood of a Kalman filter of series in which numbers are missing."""
    n = series.shape[1]
    state, covariance, loss = np.zeros(n), 10.0 * np.eye(n), 0.0
    move, noise = 0.9 * np.eye(n) + 0.02, np.diag(np.exp(scales[:n]))
    for seen, mask in zip(series, is_seen, strict=True):
        state = move @ state
        covariance = move @ covariance @ move.T + noise
        weights = mask.astype(float)
        error = np.where(mask, seen - state, 0.0)
        spread = covariance * np.outer(weights, weights) + np.diag(
            np.where(mask, np.exp(scales[n]), 1.0)
        )
        gain = np.linalg.solve(spread, covariance * weights[:, None]).T
        loss = loss + np.linalg.slogdet(spread)[1] + error @ np.linalg.solve(spread, error)
        state = state + gain @ error
        covariance = covariance - gain @ (weights[:, None] * covariance)
    return 0.5 * loss


#: By name the function and its argument.
FUNCTIONS = {
    "shallow water": (shallow_water, 1.0 + 0.1 * np.abs(_normal(5, 60, 60))),
    "options": (options, np.array([100.0, 0.03, 0.2])),
    "leap-frog": (leap_frog, 1.0 + np.random.default_rng(6).random((60, 60))),
    "heston": (heston, np.array([0.04, 2.0, 0.05, 0.3, -0.6])),
    "waves": (waves, 0.8 + 0.2 * np.random.default_rng(7).random((60, 60))),
    "state space": (state_space, np.array([-1.0, -1.5, -0.5, -0.3])),
}
COSTS = ("eager", "first", "second", "third")


def _seconds(call, times=1):
    """The least seconds of the processor that some calls take."""
    seconds = []
    for _ in range(times):
        gc.collect()
        started = time.process_time()
        call()
        seconds.append(time.process_time() - started)
    return min(seconds)


def costs(name, times=3):
    """Return the seconds of an eager gradient, and of a new program's first three calls."""
    function, x = FUNCTIONS[name]
    eager = _seconds(functools.partial(tg.value_and_grad(function), x), times + 1)
    found = []
    for _ in range(times):
        compiled = tg.compile(function, native=False)
        found.append([_seconds(lambda f=compiled: f.value_and_grad(x)) for _ in range(3)])
    return eager, *map(min, zip(*found, strict=True))


def until_native(name):
    """Return the seconds of a first call that asks for native code, until that is there."""
    function, x = FUNCTIONS[name]
    compiled = tg.compile(function, native=True)

    def first_call():
        compiled.value_and_grad(x)
        compiled.wait()

    return _seconds(first_call)


def first_call_of_jax(name):
    """Return the seconds of JAX's first call of value and gradient, which compiles, and a later."""
    jax = peer_forms.import_jax()
    function, x = FUNCTIONS[name]
    given = {"np": jax.numpy}
    if "added" in inspect.signature(function).parameters:
        given["added"] = lambda array, where, what: array.at[where].add(what)
    both, x = (
        jax.jit(jax.value_and_grad(functools.partial(function, **given))),
        jax.numpy.asarray(x),
    )
    first = _seconds(lambda: jax.block_until_ready(both(x)))
    return first, _seconds(lambda: jax.block_until_ready(both(x)), 5)


def track_second_call(name):
    """The second call in eager calls."""
    eager, _, second, _ = costs(name)
    return second / eager


track_second_call.unit = "eager calls"
track_second_call.params = [list(FUNCTIONS)]
track_second_call.param_names = ["function"]


def main(arguments):
    """Print a line for each function: milliseconds, and the second call in eager calls."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.second_call")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FUNCTIONS))
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(FUNCTIONS):
        parser.error(f"there is no function {', '.join(unknown)}")
    for name in options.names or FUNCTIONS:
        found = dict(zip(COSTS, costs(name), strict=True)) | {"native": until_native(name)}
        if importlib.util.find_spec("jax") is not None:
            found["JAX compiles"], found["JAX"] = first_call_of_jax(name)
        figured = ", ".join(f"{what} {1e3 * x:.1f}" for what, x in found.items())
        times = found["second"] / found["eager"]
        print(f"{name}: {figured} ms; second {times:.1f} eager calls", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
