"""Random programs of views, element-wise operations, copies and in-place writes, as lists of steps.

A step is (name, three whole numbers); what they mean depends on shapes only, so NumPy's arrays and
tensors go the same way. Every result has an axis at least: NumPy's numbers are no arrays.
"""

import numpy as np


def perm(a, k):
    """An order of the axes of an array, by number."""
    left, order = list(range(a.ndim)), []
    while left:
        k, number = divmod(k, len(left))
        order.append(left.pop(number))
    return order


def split(a, k):
    """A shape for the elements of an array, by number."""
    n = int(np.prod(a.shape))
    shapes = [(-1,), (1, n), (n, 1), *[(m, n // m) for m in (2, 3, 4) if n % m == 0]]
    return shapes[k % len(shapes)]


def like(pool, a, k):
    """An array of the pool of the shape of another, which is one."""
    same = [b for b in pool if b.shape == a.shape]
    return same[k % len(same)]


def axis(a, k):
    return k % a.ndim


VIEWS = {
    "transpose": lambda p, a, k, m: a.transpose(perm(a, k)),
    "T": lambda p, a, k, m: a.T,
    "swapaxes": lambda p, a, k, m: np.swapaxes(a, axis(a, k), axis(a, m)),
    "reverse": lambda p, a, k, m: np.flip(a, axis(a, k)),
    "part": lambda p, a, k, m: a[(slice(None),) * axis(a, k) + (slice(m % 2, None),)],
    "every other": lambda p, a, k, m: a[(slice(None),) * axis(a, k) + (slice(None, None, 2),)],
    "one": lambda p, a, k, m: a[m % len(a)] if a.ndim > 1 and len(a) else a,
    "new axis": lambda p, a, k, m: np.expand_dims(a, axis(a, k)) if a.ndim < 4 else a,
    "squeeze": lambda p, a, k, m: a.squeeze(axis(a, k)) if a.shape[axis(a, k)] == 1 < a.ndim else a,
    "reshape": lambda p, a, k, m: a.reshape(split(a, k), order="CFA"[m % 3]),
    "ravel": lambda p, a, k, m: a.ravel(order="CFAK"[k % 4]),
    "broadcast": lambda p, a, k, m: np.broadcast_to(a, (2, *a.shape)) if a.ndim < 3 else a,
    "diagonal": lambda p, a, k, m: a.diagonal() if a.ndim > 1 else a,
}
RESULTS = {
    "sin": lambda p, a, k, m: np.sin(a),
    "scaled": lambda p, a, k, m: a * 0.5 + 0.25,
    "squared": lambda p, a, k, m: np.tanh(a**2),
    "add": lambda p, a, k, m: a + like(p, a, k),
    "multiply": lambda p, a, k, m: np.sin(a * like(p, a, k)),
    "rows": lambda p, a, k, m: a - a[:1] * 0.5,
    "transposes": lambda p, a, k, m: a + a.T if a.shape == a.T.shape else a - 1.0,
    "where": lambda p, a, k, m: np.where(a > 0.1, a, like(p, a, k) * 0.5),
    "where mask": lambda p, a, k, m: np.where(like(p, a, k) > 0.1, 0.5, a),
    "clip": lambda p, a, k, m: np.clip(a, -0.6, 0.7),
    "copy": lambda p, a, k, m: a.copy(order="CFAK"[k % 4]),
    "copied": lambda p, a, k, m: a.copy(),
    "np.copy": lambda p, a, k, m: np.copy(a),
    "zeros": lambda p, a, k, m: np.zeros_like(a, order="CFAK"[k % 4]),
    "full": lambda p, a, k, m: np.full_like(a, 0.5),
    "flatten": lambda p, a, k, m: a.flatten("CFAK"[k % 4]),
    "astype": lambda p, a, k, m: a.astype(a.dtype),
    "sum": lambda p, a, k, m: np.sum(a, axis(a, k), keepdims=bool(m % 2) or a.ndim == 1),
    "mean": lambda p, a, k, m: a.mean(axis(a, k), keepdims=bool(m % 2) or a.ndim == 1),
    "prod": lambda p, a, k, m: np.prod(a, axis(a, k), keepdims=bool(m % 2) or a.ndim == 1),
    "cumsum": lambda p, a, k, m: np.sin(np.cumsum(a, axis(a, k))),
    "sort": lambda p, a, k, m: np.sort(a, axis(a, k)),
    "median": lambda p, a, k, m: np.median(a, axis(a, k), keepdims=bool(m % 2) or a.ndim == 1),
    "roll": lambda p, a, k, m: np.roll(a, m % 3, axis(a, k)),
    "repeat": lambda p, a, k, m: np.repeat(a, 2, axis(a, k)) if a.size < 40 else a,
    "take": lambda p, a, k, m: np.take(a, [0, m % a.shape[axis(a, k)]], axis(a, k)),
    "picked": lambda p, a, k, m: a[[m % len(a), 0]],
    "picked last": lambda p, a, k, m: a[..., [m % a.shape[-1], 0]],
    "concatenate": lambda p, a, k, m: np.concatenate([a, like(p, a, m)], axis(a, k)),
    "stack": lambda p, a, k, m: np.stack([a, like(p, a, m)], axis(a, k)) if a.ndim < 4 else a,
    "pad": lambda p, a, k, m: np.pad(a, 1) if a.size < 30 else a,
    "tile": lambda p, a, k, m: np.tile(a, (2,) + (1,) * (a.ndim - 1)) if a.size < 40 else a,
    "diff": lambda p, a, k, m: np.diff(a, axis=axis(a, k)) if a.shape[axis(a, k)] > 2 else a,
}


def store(a, key, value):
    a[key] = value


def added(a, key, value):
    a += 0.5 * value


def negated(a, key, value):
    a *= -1.0


#: Writes get the array, a key and something of the shape that the key picks.
WRITES = {
    "one row": lambda p, a, k, m: store(a, m % len(a), 0.25 * a[k % len(a)] + 0.1),
    "number": lambda p, a, k, m: store(a, (slice(None),) * (a.ndim - 1) + (m % a.shape[-1],), 0.3),
    "whole": lambda p, a, k, m: store(a, ..., like(p, a, k)),
    "reversed": lambda p, a, k, m: store(a, ..., np.flip(a, axis(a, k))),
    "add to": lambda p, a, k, m: added(a, ..., like(p, a, k)),
    "negate": lambda p, a, k, m: negated(a, ..., None),
    "mask": lambda p, a, k, m: store(a, a > 0.5, 0.2),
    "picked": lambda p, a, k, m: store(a, [m % len(a), 0], 0.7),
}
STEPS = [*[("view", name) for name in VIEWS], *[("result", name) for name in RESULTS]]
STEPS += [("write", name) for name in WRITES] * 3
#: Those without jumps and kinks, whose derivatives differences can judge.
SMOOTH = [
    (kind, name)
    for kind, name in STEPS
    if name not in ("where", "where mask", "clip", "mask", "sort", "median")
]
MOST = 80  # elements of an array


def run(steps, x):
    """The arrays of a program that begins with a copy of an array or a tensor."""
    pool = [np.copy(x)]
    for (kind, name), which, k, m in steps:
        a = pool[-1 - which % min(len(pool), 4)]
        if kind == "write":
            if a.flags.writeable and name != "diagonal":
                WRITES[name](pool, a, k, m)
            continue
        made = (VIEWS if kind == "view" else RESULTS)[name](pool, a, k, m)
        if 0 < made.size <= MOST:
            if name == "diagonal":  # NumPy's cannot be written yet, ours can
                made = np.broadcast_to(made, made.shape)
            pool.append(made)
    return pool


def total(steps, x):
    """One number that depends on all arrays of a program."""
    result = 0.0
    for number, a in enumerate(run(steps, x)):
        weights = np.cos(np.arange(a.size) + number).reshape(a.shape)
        result = result + np.sum(np.sin(a) * weights)
    return result


ORDERS = {
    "C": lambda a: np.array(a, order="C"),
    "F": lambda a: np.array(a, order="F"),
    "middle": lambda a: np.array(a.swapaxes(0, -1), order="C").swapaxes(0, -1),
    "gaps": lambda a: np.repeat(a, 2, -1)[..., ::2],
    "transposed gaps": lambda a: np.repeat(a.T, 2, -1)[..., ::2].T,
    "backwards": lambda a: np.array(np.flip(a).T, order="C").T[
        tuple([slice(None, None, -1)] * a.ndim)
    ],
}
