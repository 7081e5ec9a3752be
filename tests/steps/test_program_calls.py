"""Calls without derivative as steps of programs: counts, arithmetic of masks, order, positions.

Each function is recorded at one input and called at others; value and gradient are held against
those of NumPy on plain arrays and of the eager library, and the program calls no Python.
"""

import warnings

import numpy as np
import pytest
from passed_programs import operations

import tapegrad as tg
from tapegrad._program.ir.kernel_step import Computed

X = np.array([0.3, -0.7, 1.1, 0.2, -0.4, 0.9, -1.2, 0.5, 1.7, -0.1, 0.8, 0.6])
OTHERS = [X, -X, np.roll(X, 5), X * 0.0, np.where(X > 0.5, 0.5, X), np.sort(X), np.full(12, 3.0)]


def codes(c):
    return [v.program.code for f in c._families.found.values() for v in f.found]


def steps(c):
    return [step for code in codes(c) for step in code.steps]


def names(c):
    return {name for code in codes(c) for name in operations(code)}


def check(f, inputs=OTHERS, calls=0):
    """Compiled at the first input, f gives at all of them what it gives on plain arrays."""
    c = tg.compile(f, native=False, verify="never", on_branch="error")
    total = tg.compile(lambda x: np.sum(np.sin(f(x))), native=False, verify="never")
    for x in [inputs[0], *inputs]:
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(c(x), f(x), rtol=1e-14, atol=1e-14)
            gradient = total.value_and_grad(x)[1]
            np.testing.assert_allclose(gradient, tg.grad(lambda x: np.sum(np.sin(f(x))))(x))
    assert c._reason is None
    assert sum(isinstance(step, Computed) for step in steps(c)) == calls
    return c


def blocks(x):
    return x.reshape(3, 4)


MASKS = {
    "arithmetic": lambda x: (
        (1 - (x > 0)) * x + ((x > 0) * (x < 1)) * x**2 + ((x > 0) + (x > 1)) * x - (~(x > 0)) * 2
    ),
    "division": lambda x: (x > 0) / 2 * x + (x > 0) / ((x > 1) + 1) + (x > 0) / (x > 1),
    "extremes": lambda x: np.maximum(x > 0, x > 1) * x + np.minimum(x > 0, x < 1) * 3 * x,
    "chosen": lambda x: np.where(np.where(x > 0, x > 1, x < -1), x**2, x),
    "chosen_numbers": lambda x: np.where(x > 0, 2, x > -1) * x + np.where(x > 0, 0.5, 3) * x,
    "whole_numbers": lambda x: (x > 0).astype(int) * 3 * x - (-((x > 0).astype(int)) % 3) * x,
    "no_minus_zero": lambda x: 1.0 / ((x > 0).astype(int) * -2) + x * (1.0 / -((x > 9) * 1)),
    "floors": lambda x: (
        ((x > 0) * 5 - 3) // 2 * x + abs((x > 0) * 2 - 1) * x + ((x > 0) * 3) ** 0.5
    ),
    "counted": lambda x: x * np.sum(x > 0) + np.count_nonzero(x) * x**2 + np.mean(x > 0.2) * x,
    "along": lambda x: (
        np.sum(blocks(x) > 0, axis=0) * blocks(x)
        + np.mean(blocks(x) > 0, axis=1, keepdims=True)
        * np.count_nonzero(blocks(x), axis=-1)[:, None]
    ),
    "any_all": lambda x: (
        np.where(np.any(blocks(x) > 0.7, axis=1)[:, None], blocks(x), 2 * blocks(x))
        * np.where(np.all(blocks(x) > -0.5, axis=0), 1.0, 3.0)
        * (np.any(x) + 2 * np.all(x) + 4 * np.all(x.T > 9))
    ),
    "running": lambda x: np.cumsum(x > 0) * x + np.cumsum(blocks(x) > 0, axis=0).ravel() * x**2,
    "turned": lambda x: np.sum((blocks(x) > 0)[::-1, 1:].T, axis=1) * x[:3],
    "where_of_sums": lambda x: (
        np.sum(x, where=x > 0) + np.mean(blocks(x), axis=0, where=blocks(x) > -2).sum() * x
    ),
    "shifted": lambda x: tg.logsumexp(blocks(x), axis=1, b=blocks(x) ** 2 + 0.5) * x[:3],
    "norms": lambda x: (
        np.linalg.norm(x, np.inf) * x + np.linalg.norm(blocks(x), -np.inf, axis=1)[0]
    ),
    "numbers": lambda x: np.where((x[0] > 0) * (x[1] > 0) + (x[2] > 0), x[3], x[4]) * x,
}
POSITIONS = {
    "sort": lambda x: np.sort(x) * x,
    "sort_along": lambda x: (
        np.sort(blocks(x), axis=0) * blocks(x) + np.sort(blocks(x).T[::-1], 1).T
    ),
    "median": lambda x: np.median(x) * x + np.median(blocks(x), axis=0).sum() * x,
    "middle_of_three": lambda x: np.median(blocks(x), axis=0, keepdims=True) * blocks(x),
    "largest": lambda x: x[np.argmax(x)] * x + np.take(x, np.argmin(x)) * x**2,
    "largest_along": lambda x: blocks(x)[np.arange(3), np.argmax(blocks(x), axis=1)] * x[:3],
    "from_the_end": lambda x: x[np.argmax(x) - 12] * x + x[(np.argmin(x) + 1) % 12],
    "rows": lambda x: blocks(x)[np.argmax(x[:3])] + blocks(x)[:, np.argmax(x[:4])][:, None],
    "rows_by_array": lambda x: blocks(x)[np.argmax(blocks(x), axis=0) % 3] ** 2,
    "mixed_keys": lambda x: x.reshape(2, 3, 2)[:, np.argmax(blocks(x), axis=1) % 3, 1] * x[0],
    "apart": lambda x: x.reshape(2, 3, 2)[np.argmax(x) % 2, :, np.argmin(blocks(x), 1) % 2] * x[:3],
    "new_axes": lambda x: blocks(x)[None, ..., np.argmin(blocks(x), axis=1), None] * x[1],
    "taken": lambda x: np.take(blocks(x), np.argmax(blocks(x), axis=1), axis=1) * x[:3],
    "taken_around": lambda x: np.take(x, np.argmax(x) + np.arange(3), mode="wrap") * x[:3],
    "taken_within": lambda x: np.take(x, np.argmax(x) + np.arange(-2, 2), mode="clip") * x[:4],
    "along_axis": lambda x: (
        np.take_along_axis(blocks(x), np.argmax(blocks(x), axis=1, keepdims=True), axis=1)
        * blocks(x)
    ),
    "written": lambda x: with_writes(x),
    "of_masks": lambda x: np.argmax(x > 0.4) * x + np.argmin(blocks(x) > 0, axis=0).sum() * x,
}


def with_writes(x):
    y = x * 2.0
    y[np.argmax(x)] = x[0] ** 2
    y[np.argmin(x)] += x[1]
    return y


INTEGERS = {
    "cut_off": lambda x: x.astype(int) * x + x / (x * 3).astype(np.int32),
    "floored": lambda x: x[np.floor(x * 6).astype(int) % 12] * x,
    "clipped": lambda x: x[np.clip((x * 9).astype(int), 0, 11)] * np.clip(x.astype(int), -1, 1),
    "not_below": lambda x: x[np.clip((x * 9).astype(int) % 12, 3, None)],
    "between": lambda x: (x - np.floor(x)) * x[abs(np.rint(x * 3).astype(int) - 2) // 2],
    "added": lambda x: (((x * 7).astype(int) + 3) * 2 - (x * 5).astype(int)) * x,
    "running_sums": lambda x: np.cumsum((x * 7).astype(int)) * x,
    "compared": lambda x: np.where((x * 2).astype(int) >= (x * 3).astype(int) - 1, x**2, x),
    "of_bytes": lambda x: ((abs(x) * 9).astype(np.uint8) + np.uint8(3)) * x,
    "halves": lambda x: ((x * 9).astype(int) + 1) / 2 * x + (x * 9).astype(int) // 2 * x,
    "two_axes": lambda x: (
        blocks(x)[x.astype(int) % 3, (x * 2).astype(int) % 4]
        * blocks(x)[(x * 2).astype(int) % 3, 1]
    ),
    "tables": lambda x: tg.asarray(np.arange(36.0))[(x * 3).astype(int) + 9] * x,
    "counted_from_end": lambda x: x[(abs(x) * 3).astype(int) - 12] * x,
    "added_at": lambda x: added(x, (abs(x) * 3).astype(int)),
    "written_at": lambda x: put(x * 2, (abs(x) * 3).astype(int), x**2),
    "sums_by_group": lambda x: np.bincount((abs(x) * 3).astype(int), x**2, 12) * x,
}
SEARCHES = {
    "searched": lambda x: x[np.searchsorted(np.sort(x), x) % 12] * x,
    "searched_right": lambda x: x[np.minimum(np.searchsorted(np.sort(x), x, side="right"), 11)],
    "searched_in_order": lambda x: np.searchsorted(x, x[::2], sorter=np.argsort(x)) * x[:6],
    "searched_in_constants": lambda x: np.searchsorted(np.arange(-2.0, 4.0), blocks(x)) * blocks(x),
    "searched_constants": lambda x: np.searchsorted(np.sort(x), [0.0, 0.3]) * x[:2] + x[:2],
    "bins": lambda x: np.digitize(x, [-1.0, 0.0, 0.5]) * x + np.digitize(x, [0.3], right=True),
    "ranks": lambda x: np.argsort(np.argsort(x)) * x + blocks(x)[np.argsort(x[:3])].ravel(),
    "order_along": lambda x: np.take_along_axis(blocks(x), np.argsort(blocks(x), 0), 0) * x[0],
    "order_of_all": lambda x: x[np.argsort(blocks(x), axis=None)] ** 2,
    "resampled": lambda x: x[
        np.minimum(np.searchsorted(np.cumsum(np.exp(x) / np.exp(x).sum()), x[1] % 1), 11)
    ],
    "lines": lambda x: np.interp(x, [-1.0, 0.0, 0.7], [3.0, 1.0, 2.0]) * x,
    "lines_of_data": lambda x: (
        np.interp(x, np.cumsum(abs(x) + 0.1), x) + np.interp(0.3, x[:1], x[1:2])
    ),
}
#: Inputs without two equal elements, whose order is not NumPy's alone.
DISTINCT = [X, -X, np.roll(X, 5), np.sort(X), X * 1.3 + 0.01, X[::-1].copy()]


def added(x, at):
    y = x * 2.0
    np.add.at(y, at, x**2)
    return y


def put(y, at, values):
    np.put(y, at, values)
    return y


@pytest.mark.parametrize("name", [*MASKS, *POSITIONS])
def test_no_python_is_called(name):
    check({**MASKS, **POSITIONS}[name])


@pytest.mark.parametrize("name", [*INTEGERS, *SEARCHES])
def test_no_python_is_called_for_indices(name):
    check({**INTEGERS, **SEARCHES}[name], DISTINCT)


PICKED = {
    "rows": lambda x: blocks(x)[x[:3] > 0] ** 2,
    "columns": lambda x: blocks(x)[:, x[:4] > 0.25] * x[:3, None],
    "two_of_three_axes": lambda x: x.reshape(2, 3, 2)[:, x.reshape(3, 4)[:, :2] > 0] ** 2,
    "beside_indices": lambda x: blocks(x)[x[:3] > 0, np.argmax(x[:4])],
    "beside_constants": lambda x: blocks(x)[x[:3] > 0, [1]] + blocks(x)[x[:3] > 0, 2],
    "constant_masks": lambda x: blocks(x)[np.array([True, False, True]), (x[:2] > 0).astype(int)],
    "found": lambda x: x[np.nonzero(x > 0)] * x[np.flatnonzero(x > 0)],
    "found_along_axes": lambda x: blocks(x)[np.nonzero(blocks(x) > 0)] * np.nonzero(x > 0)[0],
    "where": lambda x: np.where(blocks(x) > 0)[1] * x[x > 0],
    "compressed": lambda x: np.compress(x[:3] > 0, blocks(x), axis=0) ** 3,
    "extracted": lambda x: np.extract(x > 0, x) ** 2,
    "written": lambda x: picked_and_written(x),
}


def picked_and_written(x):
    y = blocks(x) * 2.0
    y[x[:3] > 0] = x[:4]
    y[:, x[:4] > 0.25] += 1.5
    return y


@pytest.mark.parametrize("name", PICKED)
def test_masks_and_keys_call_no_python(name):
    same = [
        X,
        X * 1.2,
        np.where(abs(X) < 0.25, X, X * 1.1),
        X[[0, 1, 2, 3, 4, 5, 6, 8, 7, 9, 10, 11]],
    ]
    check(PICKED[name], same)


def test_fits_call_no_python():
    places = np.linspace(-1.0, 1.0, 12)
    f = lambda x: np.polyval(np.polyfit(x + 0.1 * places, x**2 + places, 2), x)
    c = tg.compile(lambda x: np.sum(np.sin(f(x))), native=False, verify="never")
    for x in [X, *DISTINCT]:
        value, gradient = c.value_and_grad(x)
        np.testing.assert_allclose(value, np.sum(np.sin(f(x))), rtol=1e-9)
        wanted = tg.grad(lambda x: np.sum(np.sin(f(x))))(x)
        np.testing.assert_allclose(gradient, wanted, rtol=1e-9, atol=1e-12)
    assert {"qr", "svdvals"} <= names(c) and not any(isinstance(s, Computed) for s in steps(c))
    with pytest.raises(np.linalg.LinAlgError, match="rank 2"):  # which a guard has found
        c.value_and_grad(np.where(np.arange(12) % 2, 0.0, 1.0) - 0.1 * places)


@pytest.mark.parametrize("name", POSITIONS)
def test_derivatives_call_no_python(name):
    f = POSITIONS[name]
    v, w = np.cos(np.arange(12.0)), np.sin(np.arange(12.0))
    total = lambda x: np.sum(np.sin(f(x)))
    forward = tg.compile(lambda x: tg.jvp(f, (x,), (v,))[1], native=False, verify="never")
    second = tg.compile(lambda x: tg.hvp(total)(x, w), native=False, verify="never")
    for x in [OTHERS[0], *OTHERS]:
        np.testing.assert_allclose(forward(x), tg.jvp(f, (x,), (v,))[1], atol=1e-13)
        np.testing.assert_allclose(second(x), tg.hvp(total)(x, w), rtol=1e-9, atol=1e-12)
    for c in (forward, second):
        assert c._reason is None
        assert not [step for step in steps(c) if isinstance(step, Computed)] or name == "written"


@pytest.mark.parametrize(
    "pick", [lambda x: x > 0, lambda x: blocks(x) < 0.4], ids=["flat", "blocks"]
)
def test_masks_that_pick_as_many(pick):
    same = [X, np.roll(X, 3), np.sort(X), X[::-1].copy()]
    f = lambda x: x.reshape(pick(x).shape)[pick(x)] ** 3
    c = check(f, same)
    hessian = tg.compile(lambda x: np.sum(f(x) ** 2), native=False, verify="never")
    for x in [X, *same]:
        np.testing.assert_allclose(hessian.hessian(x), np.diag(30 * x**4 * pick(x).ravel()))
    assert "mask_positions" in names(c)


def test_masks_that_pick_others_are_other_programs():
    f = lambda x: np.sum(x[x > 0] ** 2)
    c = tg.compile(f, native=False, verify="never")
    for x in [X, X, -X, X, np.ones(12), -np.ones(12), np.zeros(12)]:
        np.testing.assert_allclose(c(x), f(x))
        np.testing.assert_allclose(c.grad(x), 2 * x * (x > 0))


# --- what stays a call ----------------------------------------------------------------------------


def test_how_numpy_orders_equal_elements_stays_its_own():
    x = np.repeat([0.5, -0.5, 0.25], 100)
    f = lambda x: x[np.argsort(x)] * np.arange(300.0) + np.argsort(x)
    check(f, [x, -x, x[::-1].copy()], 1)
    c = tg.compile(f, native=False, verify="never")
    for y in [np.cos(np.arange(300.0)), np.sin(np.arange(300.0)), x, np.cos(np.arange(300.0)), -x]:
        np.testing.assert_array_equal(c(y), f(y))
    assert c._reason is None
    assert {sum(isinstance(step, Computed) for step in code.steps) for code in codes(c)} == {0, 1}


DATA = np.array([1, 2, 3, 250, 7, 2**40, 5, -1, 0, 3, 4, 8])


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int8, np.int32])
def test_integers_that_wrap_around_stay_numpys(dtype):
    data = DATA.astype(dtype)
    f = lambda x, n: x * (n + n) + x * (n * np.array(3, dtype)) - x * (n // np.array(2, dtype))
    c = tg.compile(f, native=False, verify="never")
    for x, n in [(X, data), (X, data), (-X, data[::-1].copy()), (X, data // 2)]:
        np.testing.assert_array_equal(c(x, n), f(x, n))
    assert c._reason is None


def test_integers_too_large_for_a_program_stay_numpys():
    f = lambda x: ((x * 1e9).astype(int) * (x * 1e9).astype(int) + 1) * x[0]
    c = tg.compile(f, native=False, verify="never")
    for x in (X * 1e-6, X * 1e-3, X * 1e-2, X * 4e-2, X * 1e-6, X * 5e-2):
        np.testing.assert_array_equal(c(x), f(x))
    assert c._reason is None
    with pytest.warns(RuntimeWarning, match="integers beyond"):
        np.testing.assert_array_equal(c(X), f(X))


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e19, 9e15])
def test_numbers_that_are_no_integers_stay_numpys(value):
    f = lambda x: (x.astype(int) % 7) * x[0]
    c = tg.compile(f, native=False, verify="never")
    with warnings.catch_warnings():  # it may run without a program from there on
        warnings.simplefilter("ignore")
        for x in (X, X, np.where(X > 1, value, X), X * 2.0):
            np.testing.assert_array_equal(c(x), f(x))


def written(y, at, values):
    y[at] = values
    return y


def added_values(y, at, values):
    np.add.at(y, at, values)
    return y


OUTSIDE = {
    "one_axis": lambda x, at: x[at],
    "two_axes": lambda x, at: blocks(x)[at % 3, at],
    "rows": lambda x, at: blocks(x)[at],
    "columns": lambda x, at: blocks(x)[:, at],
    "taken": lambda x, at: np.take(x, at),
    "added": lambda x, at: added_values(x * 2, at, x[:2]),
    "put": lambda x, at: put(x * 2, at, x[:2]),
    "written": lambda x, at: written(x * 2, at, x[:2]),
}


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("name", OUTSIDE)
def test_indices_outside_raise_what_numpy_raises(name, native):
    f = lambda x, y: OUTSIDE[name](x, y.astype(int)) * 2.0
    c = tg.compile(f, native=native, verify="never")
    for y in ([0.5, 1.2], [2.9, 0.0], [-3.0, -0.9], [1.0, 1.0]):
        np.testing.assert_array_equal(c(X, np.array(y)), f(X.copy(), np.array(y)))
    c.wait()
    assert not [step for step in steps(c) if isinstance(step, Computed)]
    for y in ([0.0, 12.0], [-13.0, 1.0], [1e6, 0.0]):
        with pytest.raises(IndexError) as wanted:
            f(X.copy(), np.array(y))
        with pytest.raises(IndexError) as found:
            c(X, np.array(y))
        assert str(found.value) == str(wanted.value)
    np.testing.assert_array_equal(c(X, np.array([1.0, 2.0])), f(X.copy(), np.array([1.0, 2.0])))


def test_indices_that_may_be_outside_raise_as_numpys_do():
    f = lambda x, n: x.reshape(3, 4)[n, np.argmax(x[:4])] * x[0]
    c = tg.compile(f, native=False, verify="never")
    for n in ([0, 1], [2, 0], [-1, -3]):
        np.testing.assert_array_equal(c(X, np.array(n)), f(X, np.array(n)))
    with pytest.raises(IndexError):
        c(X, np.array([0, 3]))


# --- files ----------------------------------------------------------------------------------------


def test_they_are_saved(tmp_path):
    f = lambda x: np.sum(np.sort(x) * x) + np.median(x) * x[np.argmax(x)] + np.sum(x[x > 0])
    c = tg.compile(f, native=False, verify="never")
    for x in (X, X):
        c.value_and_grad(x)
    c.save(tmp_path / "f.tg")
    loaded = tg.load(tmp_path / "f.tg")
    for x in (X, np.roll(X, 2)):
        value, gradient = loaded.value_and_grad(x)
        np.testing.assert_allclose(value, f(x))
        np.testing.assert_allclose(gradient, tg.grad(f)(x))
