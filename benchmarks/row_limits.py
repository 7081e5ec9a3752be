"""The limit of the workloads of rows: value and gradient by hand, as loops compiled by Numba."""

import math

import numpy as np
from numba import njit

from benchmarks import row_workloads

_LANES = {"error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}, "cache": True}

#: Workload → builder of a call that returns (value, gradients), given the size.
LIMITS = {}


def limit(data_of):
    """Register a compiled function of arguments, data and arrays for gradients, all in turn."""

    def register(function):
        def prepared(size):
            given, data = data_of(size)
            found = [np.empty(a.shape) for a in given]

            def call():
                return function(*given, *data, *found), found

            return call

        LIMITS[function.__name__] = prepared
        return function

    return register


@njit(**_LANES)
def round_of_messages(h, a, b, shift, begin, end, m):
    """Return the features after a round; m are the messages."""
    x, y, made, d = h @ a, h @ b, h.copy(), h.shape[1]
    for e in range(len(begin)):
        for k in range(d):
            m[e, k] = math.tanh(x[begin[e], k] + y[end[e], k] + shift[k])
            made[end[e], k] += m[e, k]
    return made


@njit(**_LANES)
def round_back(h, a, b, begin, end, m, g, ga, gb, gs):
    """Return the adjoint of h from that of the features after a round."""
    gx, gy, d = np.zeros_like(h), np.zeros_like(h), h.shape[1]
    for e in range(len(begin)):
        for k in range(d):
            t = g[end[e], k] * (1.0 - m[e, k] * m[e, k])
            gx[begin[e], k] += t
            gy[end[e], k] += t
            gs[k] += t
    ga += h.T @ gx
    gb += h.T @ gy
    return g + gx @ a.T + gy @ b.T


@limit(row_workloads.graph)
@njit(**_LANES)
def message_passing(h, a, b, shift, begin, end, gh, ga, gb, gs):
    """Messages: products of nodes, not of edges."""
    ga[:], gb[:], gs[:] = 0.0, 0.0, 0.0
    first, second = np.empty((len(begin), h.shape[1])), np.empty((len(begin), h.shape[1]))
    middle = round_of_messages(h, a, b, shift, begin, end, first)
    last = round_of_messages(middle, a, b, shift, begin, end, second)
    g = round_back(middle, a, b, begin, end, second, 2.0 * last, ga, gb, gs)
    gh[:] = round_back(h, a, b, begin, end, first, g, ga, gb, gs)
    return np.sum(last * last)


@limit(row_workloads.words)
@njit(**_LANES)
def embeddings(inner, outer, centre, near, far, gi, go):
    """Words: three rows at a time."""
    gi[:], go[:] = 0.0, 0.0
    total, d = 0.0, inner.shape[1]
    for e in range(len(centre)):
        c, n, f = centre[e], near[e], far[e]
        met, not_met = 0.0, 0.0
        for k in range(d):
            met += inner[c, k] * outer[n, k]
            not_met += inner[c, k] * outer[f, k]
        p, q = math.exp(-met), math.exp(not_met)
        total += math.log(1.0 + p) + math.log(1.0 + q)
        p, q = -p / (1.0 + p), q / (1.0 + q)
        for k in range(d):
            gi[c, k] += p * outer[n, k] + q * outer[f, k]
            go[n, k] += p * inner[c, k]
            go[f, k] += q * inner[c, k]
    return total


@limit(row_workloads.ratings)
@njit(**_LANES)
def factorisation(users, items, shift, other, who, what, found, gu, gi, gs, go):
    """Ratings: two rows at a time."""
    total, d = 0.0, users.shape[1]
    gs[:], go[:] = 0.0, 0.0
    for r in range(len(users)):
        for k in range(d):
            gu[r, k], gi[r, k] = 0.2 * users[r, k], 0.2 * items[r, k]
            total += 0.1 * (users[r, k] * users[r, k] + items[r, k] * items[r, k])
    for e in range(len(who)):
        u, i = who[e], what[e]
        told = shift[u] + other[i]
        for k in range(d):
            told += users[u, k] * items[i, k]
        error = found[e] - told
        total += error * error
        g = -2.0 * error
        gs[u] += g
        go[i] += g
        for k in range(d):
            gu[u, k] += g * items[i, k]
            gi[i, k] += g * users[u, k]
    return total


@limit(row_workloads.particles)
@njit(**_LANES)
def neighbours(x, first, second, gx):
    """Particles: a pair at a time."""
    gx[:] = 0.0
    total = 0.0
    for e in range(len(first)):
        i, j = first[e], second[e]
        a, b, c = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
        inverse = 1.0 / (a * a + b * b + c * c)
        sixth = inverse * inverse * inverse
        total += 4.0 * (sixth * sixth - sixth)
        g = -24.0 * (2.0 * sixth * sixth - sixth) * inverse
        gx[i, 0] += g * a
        gx[i, 1] += g * b
        gx[i, 2] += g * c
        gx[j, 0] -= g * a
        gx[j, 1] -= g * b
        gx[j, 2] -= g * c
    return total


@limit(row_workloads.groups)
@njit(**_LANES)
def hierarchical(level, slopes, centre, log_scale, group, design, found, gl, gs, gc, gt):
    """Groups: an observation at a time."""
    gc[:] = 0.0
    prior, squares, d = 0.0, 0.0, slopes.shape[1]
    for r in range(len(slopes)):
        prior += level[r] * level[r]
        gl[r] = level[r]
        for k in range(d):
            spread = slopes[r, k] - centre[k]
            prior += spread * spread
            gs[r, k] = spread
            gc[k] -= spread
    weight = math.exp(-2.0 * log_scale[()])
    for e in range(len(group)):
        r = group[e]
        error = found[e] - level[r]
        for k in range(d):
            error -= design[e, k] * slopes[r, k]
        squares += error * error
        g = -weight * error
        gl[r] += g
        for k in range(d):
            gs[r, k] += g * design[e, k]
    gt[()] = len(group) - weight * squares
    return 0.5 * (squares * weight + prior) + len(group) * log_scale[()]
