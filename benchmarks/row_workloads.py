"""Workloads that pick rows by index and add them at indices, written once for every system.

A builder takes a system's functions and a size, and returns a function and its arguments. The
functions of `system` have one name and meaning in NumPy, PyTorch and JAX (`row_systems`).
`LIMITS[workload]` are value and gradients by hand, as a Numba loop over the rows.
"""

import numpy as np

from benchmarks.workload_definitions import Workload

#: Name → builder of the workload; the first line of its docstring says what it is.
WORKLOADS = {}

#: Name → the size that is timed, and one that tests take.
SIZES = {}


def workload(timed, small):
    """Add the builder of a workload to the list, under its own name, with its sizes."""

    def register(build):
        WORKLOADS[build.__name__] = build
        SIZES[build.__name__] = timed, small
        return build

    return register


def graph(edges):
    """Return arguments and data of `message_passing`: a tenth as many nodes as edges."""
    rng = np.random.default_rng(0)
    nodes, d = max(edges // 10, 2), 16
    given = rng.normal(size=(nodes, d)), *(rng.normal(size=(d, d)) / 4 for _ in range(2))
    return (*given, rng.normal(size=d)), (
        rng.integers(0, nodes, edges),
        rng.integers(0, nodes, edges),
    )


@workload(3000, 40)
def message_passing(system, edges):
    """Two rounds of messages on a graph, added where they arrive; 16 features."""
    given, ends = graph(edges)
    begin, end = map(system.index, ends)

    def function(h, from_begin, from_end, shift):
        for _ in range(2):
            messages = system.tanh(h[begin] @ from_begin + h[end] @ from_end + shift)
            h = h + system.added(h, end, messages)
        return system.sum(h * h)

    return Workload(function, given)


def words(count):
    """Return arguments and data of `embeddings`: vectors of 16, words in pairs and others."""
    rng = np.random.default_rng(1)
    size = max(count // 2, 2)
    vectors = tuple(rng.normal(size=(size, 16)) / 4 for _ in range(2))
    return vectors, tuple(rng.integers(0, size, count) for _ in range(3))


@workload(4000, 30)
def embeddings(system, count):
    """Vectors of words, by pairs that occur and others that do not (skip-gram)."""
    (inner, outer), data = words(count)
    centre, near, far = map(system.index, data)

    def function(inner, outer):
        vectors = inner[centre]
        met = system.sum(vectors * outer[near], 1)
        not_met = system.sum(vectors * outer[far], 1)
        return system.sum(
            system.log(1.0 + system.exp(-met)) + system.log(1.0 + system.exp(not_met))
        )

    return Workload(function, (inner, outer))


def ratings(count):
    """Return arguments and data of `factorisation`: as many users as items, ten factors."""
    rng = np.random.default_rng(2)
    size = max(count // 20, 3)
    given = [rng.normal(size=(size, 10)) / 3 for _ in range(2)]
    given += [rng.normal(size=size) / 3 for _ in range(2)]
    who, what = (rng.integers(0, size, count) for _ in range(2))
    return tuple(given), (who, what, rng.normal(size=count))


@workload(20000, 60)
def factorisation(system, count):
    """Ratings by factors and shifts of users and items, least squares."""
    given, (who, what, found) = ratings(count)
    who, what, found = system.index(who), system.index(what), system.constant(found)

    def function(users, items, user_shift, item_shift):
        told = system.sum(users[who] * items[what], 1) + user_shift[who] + item_shift[what]
        error = found - told
        return system.sum(error * error) + 0.1 * (
            system.sum(users * users) + system.sum(items * items)
        )

    return Workload(function, given)


def particles(count):
    """Return arguments and data of `neighbours`: a cube of particles and their near pairs."""
    rng = np.random.default_rng(3)
    side = max(round((count / 10) ** (1 / 3)), 2)
    grid = np.stack(np.meshgrid(*[np.arange(side)] * 3), -1).reshape(-1, 3)
    x = 1.1 * grid + 0.05 * rng.normal(size=grid.shape)
    first, second = np.triu_indices(len(x), 1)
    distance = np.sum((x[first] - x[second]) ** 2, 1)
    near = distance <= np.sort(distance)[min(count, len(distance)) - 1]
    return (x,), (first[near], second[near])


@workload(10000, 60)
def neighbours(system, count):
    """The energy of particles by their neighbour list, Lennard-Jones."""
    given, pairs = particles(count)
    i, j = map(system.index, pairs)

    def function(x):
        d = x[i] - x[j]
        inverse = 1.0 / system.sum(d * d, 1)
        sixth = inverse * inverse * inverse
        return system.sum(4.0 * (sixth * sixth - sixth))

    return Workload(function, given)


def groups(count):
    """Return arguments and data of `hierarchical`: a hundredth as many groups as observations."""
    rng = np.random.default_rng(4)
    size = max(count // 100, 3)
    given = rng.normal(size=size), rng.normal(size=(size, 4)), rng.normal(size=4), np.array(0.3)
    data = rng.integers(0, size, count), rng.normal(size=(count, 4)), rng.normal(size=count)
    return given, data


@workload(20000, 60)
def hierarchical(system, count):
    """A regression whose level and slopes each group has from a common distribution."""
    given, (group, design, found) = groups(count)
    group, design, found = system.index(group), system.constant(design), system.constant(found)

    def function(level, slopes, centre, log_scale):
        error = found - level[group] - system.sum(design * slopes[group], 1)
        spread = slopes - centre
        prior = system.sum(spread * spread) + system.sum(level * level)
        inside = system.sum(error * error) * system.exp(-2.0 * log_scale) + prior
        return 0.5 * inside + len(group) * log_scale

    return Workload(function, given)
