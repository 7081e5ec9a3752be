"""Arrays: slices, views, writes, reductions, broadcasting."""

import numpy as np

WEIGHTS = np.array([0.5, 1.0, -2.0, 3.0])
WW = np.array([1.0, 2.0, 3.0, 4.0])


def slices(x):
    head, tail = x[:-1], x[1:]
    return ((tail - head) ** 2).sum() + np.mean(x[::-1] * WEIGHTS) + x[-1]


def matrix(x):
    m = np.zeros((2, 2))
    for i in range(2):
        for j in range(2):
            m[i, j] = i + 2 * j + 1.0
    return (m @ x[:2]).sum() * np.linalg.norm(x)


def view_written(x):
    y = x * 2
    part = y[1:3]
    part *= x[0]
    part[0] += 1.5
    z = y
    z[-1] = x[1] * part[1]
    return (y * y).sum()


def sum_of_axis(x):
    return np.sum(x.reshape(2, 2), 0)[0]


def largest(x):
    return np.max(np.abs(x)) * np.min(x)


def any_all(x):
    return x[0] * 2 if np.any(x > 2.5) or np.all(x > -2) else x[1] * 3


def int_filled(x):
    counts = np.full(4, 1)
    for k in range(4):
        if x[k] > 0:
            counts[k] += k
    return x[0] * counts[3] + counts.sum()


def try_arrcopy(x):
    y = x * 1.0
    z = y.copy()
    w = y[:]
    y[0] = x[1] * x[2]
    return z[0] * w[0]


def try_T(x):
    m = np.zeros((2, 3))
    m[0, 1] = 3.0
    n = m.T
    n[2, 1] = 5.0
    r = m[1]
    r[0] = 7.0
    m[:, 1] += 1.0
    return (m * x[0]).sum() + n[1, 0] * x[1] + n[0, 1] * x[2]


def try_bcast(x):
    m = np.ones((3, 1)) * x[:3]
    v = m + x[:3].sum()
    m -= v
    return (m * m).sum()


def try_overlap(x):
    y = x * 1.0
    y[1:] = y[:-1]
    y[:2] += y[2:]
    return (y * y * WW).sum()


def try_maskarr(x):
    return (x * (x > 0)).sum() + ((x > 0) + (x < 1)).sum() * x[0]


def try_wherearr(x):
    return np.where(x > 0, x * x, -x).sum()


def try_npclip(x):
    return np.clip(x, 0, 1).sum()


def try_lognorm(x):
    return np.linalg.norm(x - x[0]) + np.max(x)


def try_maxtie(x):
    return np.max(x * 0)


def try_argwrite(x):
    x[0] = x[1] * 3
    return (x * x).sum()


def try_argwrite2(x):
    y = x
    y[0] = x[1] * 3
    return (x * x).sum()


def try_step(x):
    return (x[::2] * x[1::2]).sum() + x[::-1][0] * x[:-1:3].sum() + (x[2::5]).sum()
