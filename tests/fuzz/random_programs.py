"""Random functions with branches, loops, writes, views, masks and sorting, for their programs."""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

WHOLE = [np.s_[:], np.s_[::-1], np.s_[...]]
#: Parts of three elements.
HALVES = [
    np.s_[:3],
    np.s_[1:4],
    np.s_[:6:2],
    np.s_[2::-1],
    np.s_[[0, 2, 2]],
    np.s_[[5, 4, -1]],
    np.s_[np.array([True, False, True, False, False, True])],
]


class Family(NamedTuple):
    """The functions that a program is made of."""

    unary: list
    binary: list
    product: object
    factor: object


def bounded(a):
    return np.minimum(np.maximum(a, -3.0), 3.0)


_ROUNDED = [
    lambda a: a * 0.5,
    lambda a: -a,
    lambda a: np.minimum(a + 0.25, 2.0),
    lambda a: np.sqrt(np.abs(a) + 0.5),
    lambda a: np.abs(a) - 0.5,
    lambda a: np.maximum(a * 0.75, -1.0),
]
_BINARY = [
    lambda a, b: (a + b) * 0.5,
    lambda a, b: a - b,
    lambda a, b: 0.5 * a * b,
    lambda a, b: a / (2.0 + b * b),
    np.maximum,
    lambda a, b: np.where(a > b, a, 0.5 * b),
]
#: Whose values IEEE arithmetic fixes, bit for bit; none is far from 0.
EXACT = Family(_ROUNDED, _BINARY, lambda a, b: a * b, bounded)
SMOOTH = EXACT._replace(unary=[np.sin, np.tanh, np.cos, lambda a: np.exp(-a * a), *_ROUNDED])
#: Whose slopes are powers of 2: sums of adjoints are exact, in whatever order they are taken.
DYADIC = Family(
    [
        lambda a: a * 0.5,
        lambda a: -a,
        lambda a: np.minimum(a + 0.25, 2.0),
        lambda a: np.abs(a) - 0.5,
        lambda a: np.maximum(a * 0.5, -1.0),
    ],
    [
        lambda a, b: (a + b) * 0.5,
        lambda a, b: a - b,
        lambda a, b: 0.5 * a + b * 0.25,
        np.maximum,
        lambda a, b: np.where(a > b, a, 0.5 * b),
    ],
    lambda a, b: (a - b) * 0.5,
    lambda a: 0.5,
)


class State:
    """What a program works on: arrays of n elements, some of them views, and scalars."""

    def __init__(self, x, y, family):
        third = np.zeros_like(x)
        third[0] = x[0]
        self.n = len(x)
        self.arrays, self.scalars = [x * 1.0, y * 1.0, third], [x[0], y[1] * 0.5]
        self.family = family

    def step(self, kind, i, j, a, b, f):
        self.first, self.second = pick(self.arrays, i), pick(self.arrays, j)
        self.scalar, self.part, self.other = pick(self.scalars, b), self.half(a), self.half(b)
        self.function, self.binary = pick(self.family.unary, f), pick(self.family.binary, f)
        self.a, self.b = a, b
        KINDS[kind](self)
        self.arrays, self.scalars = self.arrays[-6:], self.scalars[-4:]

    def half(self, k):
        """A key that picks three elements."""
        key = pick(HALVES, k)
        if isinstance(key, np.ndarray):
            key = np.concatenate((key, np.zeros(self.n - len(key), bool)))
        return key


def pick(items, k):
    return items[k % len(items)]


# --- what is exact ----------------------------------------------------------------------------


def new(s):
    s.arrays.append(bounded(s.function(s.binary(s.first, s.second))))


def cell(s):
    s.scalars.append(bounded(s.function(s.binary(s.first[s.a % s.n], s.scalar))))


def write(s):
    s.first[pick(WHOLE, s.a)] = s.function(s.second)


def write_part(s):
    s.first[s.part] = s.function(s.second[s.other])


def write_number(s):
    s.first[s.a % s.n] = s.function(s.binary(s.scalar, s.second[s.b % s.n]))


def add_to_part(s):
    s.first[s.part] += s.function(s.second[s.other]) * 0.25


def multiply_cell(s):
    s.first[s.a % s.n] *= s.family.factor(s.scalar)


def view(s):
    s.arrays.append(s.first[::-1] if s.a % 2 else s.first[:])


def keep(s):
    s.scalars.append(s.first[s.a % s.n])


def branch(s):
    if s.scalar > 0.2 * (s.a - 3) and s.first[0] < 1.0:
        s.arrays.append(s.first * 0.5)
    elif not s.second[1] > s.scalar:
        s.scalar = s.scalar * 0.5 - s.second[0]
        s.scalars.append(bounded(s.scalar))
    else:
        s.first[s.b % s.n] = s.scalar


def loop(s):
    t, count = s.scalar, 0
    while t < 1.0 and count < 4:
        t, count = t * 0.5 + 0.4, count + 1
        s.first[count] = t
    s.scalars.append(t * count)


def counted(s):
    for k in range(int(np.argmax(s.first)) % 3):
        s.first[k] = s.family.product(s.second[k], s.scalar) * 0.25


def where(s):
    s.arrays.append(np.where(s.first > s.scalar, s.first, s.function(s.second)))


def mask_number(s):
    s.first[s.second > 0.1 * (s.a - 3)] = s.scalar if s.b % 2 else 0.75


def mask_values(s):
    mask = s.first > 0.5
    s.first[mask] = s.second[mask] * 0.5


def mask_add(s):
    s.first[np.abs(s.second) < 0.5] += s.scalar * 0.25


def sorted_part(s):
    index = np.argsort(s.second)[:3]
    s.first[index] = s.function(s.second[s.part])


def sorted_add(s):
    s.first[np.argsort(s.second)[::2]] += 0.125 * s.scalar


def repeated(s):
    s.first[np.argsort(s.second)[[0, 1, 0]]] = s.second[s.part]


def permuted(s):
    s.arrays.append(s.first[np.argsort(s.second)])


def largest(s):
    s.scalars.append(s.first[np.argmax(s.second)])


def sort(s):
    s.arrays.append(np.sort(s.first))


def join(s):
    s.arrays.append(np.concatenate((s.first[:3], s.second[3:])))


def detached(s):
    s.arrays.append(s.first * 0.5 + s.second.detach() * 0.25)


def window(s):
    start = int(np.argmin(s.first)) % 3
    s.first[start : start + 3] = s.second[s.part]


def any_of(s):
    if (s.first > 1.0).any() or s.scalar < -1.0:
        s.first[...] = s.first * 0.25


def strided(s):
    s.arrays.append(np.stack((s.first, s.second))[:, : s.n // 2].T.reshape(-1)[: s.n])


# --- what sums --------------------------------------------------------------------------------


def total(s):
    s.scalars.append(bounded(np.sum(s.function(s.binary(s.first[s.part], s.second[s.other])))))


def reduced(s):
    s.scalars.append(pick([np.mean, np.max, np.sum, np.var], s.a)(s.first) * 0.25)


def running(s):
    s.arrays.append(np.cumsum(s.first) * 0.1)


def product(s):
    matrix = s.first.reshape(2, -1)
    made = (matrix.T @ matrix)[0] * 0.2
    s.arrays.append(np.concatenate((made, made)))


def masked_sum(s):
    s.scalars.append(bounded(np.sum(s.first[s.second > 0.0])))


_EXACT_KINDS = [
    new, cell, write, write_part, write_number, add_to_part, multiply_cell, view, keep, branch,
    loop, counted, where, mask_number, mask_values, mask_add, sorted_part, sorted_add, repeated,
    permuted, largest, sort, join, detached, window, any_of, strided,
]  # fmt: skip
_SUMMING_KINDS = [total, reduced, running, product, masked_sum]
KINDS = {kind.__name__: kind for kind in (*_EXACT_KINDS, *_SUMMING_KINDS)}
_number = st.integers(0, 7)


def programs(exact: bool, longest: int):
    """Lists of steps."""
    kinds = [kind.__name__ for kind in _EXACT_KINDS]
    kinds += [] if exact else [kind.__name__ for kind in _SUMMING_KINDS]
    step = st.tuples(st.sampled_from(kinds), *[_number] * 5)
    return st.lists(step, min_size=1, max_size=longest)


def run(program, x, y, family):
    """The arrays and scalars that a program ends with."""
    state = State(x, y, family)
    for step in program:
        state.step(*step)
    return state.arrays, state.scalars


def value_of(program, x, y):
    """One number."""
    arrays, scalars = run(program, x, y, SMOOTH)
    found = 0.0
    for k, array in enumerate(arrays):
        found = found + np.sum(np.tanh(array)) * (k + 1.0)
    for k, scalar in enumerate(scalars):
        found = found + scalar * (k + 0.5)
    return found


def element_of(program, x, y, family):
    """One number, computed without sums of several."""
    arrays, scalars = run(program, x, y, family)
    return family.product(arrays[-1][1], scalars[-1]) + arrays[0][0]
