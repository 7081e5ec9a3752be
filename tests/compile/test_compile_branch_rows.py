"""`map` and `sum` of functions whose way changes from row to row: by their graphs."""

import numpy as np
import pytest
from assumed import needs

import tapegrad as tg

RNG = np.random.default_rng(3)
WEIGHTS = np.array([0.5, -2.0, 1.0])


def robust(p, x, y):
    total = 0.0
    for i in range(len(x)):
        r = abs(y[i] - p[0] * x[i] - p[1])
        total = total + (r * r if r < 1 else 2 * r - 1)
    return total


def rounds(a, x):
    """Of very different lengths, so that the tape grows."""
    total, k = 0.0 * a, 0
    while k < x * x * 3000:
        total, k = 0.999 * total + a * x * WEIGHTS[k % 3], k + 1
    return total


def large(a, x):
    """Integers leave the graph in some rows."""
    n, total = 1, 0.0 * a
    for k in range(45):
        if x[k % 3] > 0.2:
            n = n * 3
            total = total + a * n
    return total


def written(p, x):
    for i in range(len(p)):
        if x[i] > 0:
            p[i] = p[i] * x[i]
    return p[0] * p[1] + p[2]


def rows(n, *shapes):
    return [RNG.normal(size=(n, *shape)) for shape in shapes]


CASES = {
    "data": (robust, 0, rows(150, (2,), (7,), (7,))),
    "several argnums": (robust, (2, 0), rows(70, (2,), (5,), (5,))),
    "one row": (robust, 0, rows(1, (2,), (5,), (5,))),
    "while": (rounds, (0, 1), rows(40, (), ())),
    "large integers": (large, 0, rows(80, (), (3,))),
    "arguments written to": (written, 0, rows(90, (3,), (3,))),
}
every_case = pytest.mark.parametrize("name", CASES)


def expected(f, argnums, every):
    """Values and gradients row by row, eagerly."""
    columns = zip(*every, strict=True)
    calls = [[x.copy() if x.ndim else float(x) for x in row] for row in columns]
    found = [tg.value_and_grad(f, argnums)(*args) for args in calls]
    values, gradients = zip(*found, strict=True)
    if isinstance(argnums, int):
        return np.array(values), [np.array(gradients)]
    return np.array(values), [np.array(column) for column in zip(*gradients, strict=True)]


def close(found, wanted):
    scale = 1.0 + np.max(np.abs(wanted), initial=0.0)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12 * scale)


@needs("numba-reader")
@every_case
@pytest.mark.parametrize("native", [False, True])
def test_each_row_takes_its_own_way(name, native):
    f, argnums, every = CASES[name]
    values, gradients = expected(f, argnums, every)
    c = tg.compile(f, argnums=argnums, native=native)
    for threads in (1, 3, None):
        found, made = c.map(*every, threads=threads)
        close(found, values)
        for one, wanted in zip(made if len(gradients) > 1 else [made], gradients, strict=True):
            close(one, wanted)
        close(c.map(*every, gradient=False, threads=threads), values)
        total, _ = c.sum(*every, threads=threads)
        close(total, values.sum())
        c.wait()
    assert name == "one row" or "a graph of" in c.explain()
    assert sum(family.recorded for family in c._families.found.values()) <= 2


@pytest.mark.parametrize("verify", ["once", "never", "always"])
def test_what_is_the_same_for_all_rows(verify):
    p, x, y = RNG.normal(size=2), RNG.normal(size=(200, 4)), 2 * RNG.normal(size=(200, 4))
    values, (gradients,) = expected(robust, 0, [np.stack([p] * 200), x, y])
    c = tg.compile(robust, verify=verify)
    found = [c.sum(p, x, y, in_axes=(None, 0, 0), threads=threads) for threads in (1, 2, 1)]
    for total, gradient in found:
        close(total, values.sum())
        close(gradient, gradients.sum(axis=0))
    if verify != "always":
        assert found[0][0] == found[1][0] and np.array_equal(found[1][1], found[2][1])
    every, made = c.map(p, x, y, in_axes=(None, 0, 0))
    close(every, values)
    close(made, gradients)


@needs("numba-reader")
def test_a_graph_that_is_wrong_is_found_in_rows(monkeypatch):
    """What compiled code gives is compared along each edge, and dropped where it differs."""
    c = tg.compile(lambda a, x: a * x if x > 0 else (a * a if x > -1 else a * a * x))
    c.map(np.ones(4), np.array([1.0, 0.5, -0.5, -0.25]))
    (flow,) = c._flows.found.values()
    wrong = flow.run([1.0, 1.0], True)._replace(value=7.0)
    monkeypatch.setattr(flow.primal, "_compared", [0, 0])
    monkeypatch.setattr(flow, "run", lambda values, gradient: wrong)
    a, x = np.full(6, 2.0), np.array([1.0, 2.0, -0.5, -0.25, -2.0, -3.0])
    with pytest.warns(RuntimeWarning, match="its graph is wrong"):
        values, gradients = c.map(a, x)
    close(values, [2.0, 4.0, 4.0, 4.0, -8.0, -12.0])
    close(gradients, [1.0, 2.0, 4.0, 4.0, -8.0, -12.0])
    assert not c._flows.found
