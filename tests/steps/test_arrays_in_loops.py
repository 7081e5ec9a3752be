"""Arrays made in loops of numbers: zeros, ones and constants that are written and read."""

import re

import numpy
import pytest
from compiled import check_tiers, same

import tapegrad as tg
import tapegrad.numpy as np

ROUNDS = 40
OUTSIDE = numpy.array([0.5, -0.0, 2.0])


def forces(y):
    """Three bodies in a plane, whose forces are added up by index."""
    x = [np.array([y[0], y[1]]), np.array([y[2], y[0]]), np.array([y[1], y[2]])]
    v = [np.zeros(2) for _ in range(3)]
    for _ in range(ROUNDS):
        a = np.zeros((3, 2))
        for i in range(3):
            for j in range(3):
                if i != j:
                    d = x[j] - x[i]
                    r2 = d[0] * d[0] + d[1] * d[1] + 0.1
                    a[i] += d * r2**-1.5
        for i in range(3):
            v[i] = v[i] + 0.02 * a[i]
            x[i] = x[i] + 0.02 * v[i]
    return x[0][0] * x[1][1] + x[2][0]


def kept(y):
    """All arrays stay, and are read after the loop."""
    made = []
    for k in range(ROUNDS):
        a = np.ones((2, 2))
        a[k % 2] = y[:2] * (k + 1.0)
        made.append(a)
    return sum([np.sum(a * a) * y[2] for a in made])


def written_twice(y):
    total = y[0]
    for _ in range(ROUNDS):
        a = np.full(3, 2.0)
        a[1] = total * y[1]
        a[1] = a[1] + a[0] * y[2]
        a[0] = a[1] * 0.1
        total = 0.5 * total + a[0] * a[2] + a[1]
    return total


def read_before(y):
    """Elements are read, and the whole array, before they are written and after."""
    total = y[0]
    for k in range(ROUNDS):
        a = np.array([1.0, -2.0, 3.0])
        before = a[k % 3] * total
        all_before = np.sum(a * y)
        a[k % 3] = total * y[1]
        total = 0.1 * before + 0.2 * all_before + np.sum(a) * 0.05 + a[(k + 1) % 3]
    return total


def aliased(y):
    """Views and other names of the array see what is written, copies do not."""
    total = y[0]
    for _ in range(ROUNDS):
        a = np.zeros((2, 3))
        other, view, copy = a, a[1:, ::2], a.copy()
        view[0, 1] = total
        other[0] += y * 0.5
        copy[1] = y
        total = 0.3 * total + a[1, 2] * y[1] + np.sum(other * copy) + copy[1, 2] - copy[0, 0]
    return total


def of_outside(y):
    """Copies of an array from outside, with a zero that has a sign."""
    total = y[0]
    for _ in range(ROUNDS):
        a = np.array(OUTSIDE)
        b = np.eye(2)
        a[0] = total * y[2]
        b[0, 1] = total
        total = 0.2 * total + np.copysign(y[1], a[1]) + a[0] / a[2] + b[0, 1] * b[1, 1]
    return total


def transposed(y):
    """An array in another order of memory."""
    total = y[0]
    for _ in range(ROUNDS):
        a = np.zeros((3, 2)).T
        a[0, 1:] = y[1:]
        a[1] = total
        total = 0.5 * total + np.sum(a[0] * a[1]) + a[0, 0]
    return total


def nested(y):
    total = y[0]
    for _ in range(6):
        rows = np.zeros((2, 3))
        for i in range(2):
            row = np.empty(3)
            row[:] = 1.0
            for j in range(3):
                row[j] = row[j] * y[j] + total * 0.1
            rows[i] = row
        total = total * 0.5 + np.sum(rows) * 0.1
    return total


def carried(y):
    """The array of one round is read in the next."""
    last = np.zeros(2)
    for _ in range(ROUNDS):
        a = np.zeros(2)
        a[0] = last[1] * 0.5 + y[0]
        a[1] = last[0] * y[1] + y[2]
        last = a
    return last[0] * last[1]


#: Whether loops of numbers are found in them: others hold whole arrays in between.
FUNCTIONS = {forces: True, kept: False, written_twice: True, read_before: True, aliased: True}
FUNCTIONS |= {of_outside: True, transposed: True, nested: False, carried: True}
CALLS = [(numpy.array(y),) for y in ([0.3, 1.1, -0.7], [1.2, 0.4, 0.9], [-0.5, 0.8, 1.5])]


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_values(f):
    check_tiers(f, CALLS)
    if FUNCTIONS[f]:
        c = tg.compile(f, native=True)
        c.value_and_grad(*CALLS[0]), c.value_and_grad(*CALLS[0]), c.wait()
        found = [int(count) for count in re.findall(r"loop of (\d+) x", c.explain())]
        assert found and max(found) >= ROUNDS // 3, c.explain()


@pytest.mark.parametrize("n", [0, 1, 8, 9, 300])
@pytest.mark.parametrize("make", ["zeros", "arange"])
def test_sizes(n, make):
    def f(y):
        total = y[0]
        for k in range(3):
            a = np.array(getattr(numpy, make)(n), dtype=float)
            if n:
                a[k % n] = total * y[1]
                a[n // 2 :] *= y[2]
            total = total + np.sum(a) * 0.01 + np.sum(np.sin(a))
        return total

    check_tiers(f, CALLS[:2])


def test_results():
    """Arrays that are returned, one of them twice and one that nothing was written to."""

    def f(y):
        a, b, c = np.zeros(3), np.full((2, 2), 0.25), np.array([1.0, 2.0])
        for k in range(3):
            a[k] = y[k] * y[0]
        b[0] = a[:2]
        c[0] = c[1]
        return a, b, a, b.T, c, np.sum(a)

    for native in (False, True):
        c = tg.compile(f, native=native)
        for _ in range(2):
            c(*CALLS[0])
        c.wait()
        for call in CALLS:
            found = c(*call)
            same(found, f(tg.tensor(call[0])), 0)
            found[0][:] = 7.0  # results are the caller's own
            same(c(*call), f(tg.tensor(call[0])), 0)


def test_files_and_float32(tmp_path):
    for f in (forces, of_outside):
        c = tg.compile(f)
        c.value_and_grad(*CALLS[0]), c.value_and_grad(*CALLS[0])
        c.save(tmp_path / f.__name__)
        same(
            tg.load(tmp_path / f.__name__).value_and_grad(*CALLS[1]),
            tg.value_and_grad(f)(*CALLS[1]),
        )


def in_float32(y):
    total = y[0]
    for _ in range(ROUNDS):
        a = np.zeros(2, dtype=np.float32)
        a[0] = total * y[1]
        a += y[1:] * np.float32(0.1)
        total = total * np.float32(0.5) + a[0] * a[1]
    return total


@pytest.mark.parametrize("native", [False, True])
def test_float32(native):
    c = tg.compile(in_float32, native=native)
    y = CALLS[1][0].astype(numpy.float32)
    for _ in range(3):
        found = c.value_and_grad(y)
        c.wait()
    same(found, tg.value_and_grad(in_float32)(y), 1e-5)


def test_second_derivatives():
    for f in (written_twice, aliased):
        c = tg.compile(f)
        for call in CALLS[:2]:
            same(c.hessian(*call), tg.hessian(f)(*call), 1e-10)
