"""`tg.compile`: values and gradients as the function gives them, whatever way it takes."""

import gc
import math

import numpy as np
import pytest
from assumed import needs
from compiled import check, normal, programs, refused, same

import tapegrad as tg
from tapegrad._program.lowering.lower import Converter

# --- branches on values -----------------------------------------------------------------------


def test_both_branches_and_switching():
    """What other tapes get wrong: a branch that was not taken when the tape was recorded."""
    f = lambda x: 0 if x < 0 else x
    c = check(f, [(x,) for x in (1.0, -2.0, 3.0, -4.0, 0.0, -0.0, 2.0, math.nan)], 0)
    assert programs(c) == 2
    assert c(5.0) == 5.0 and c(-5.0) == 0 and type(c(-5.0)) is int


def bisection(a):
    low, high = 0.0 * a, 2.0 + 0.0 * a
    for _ in range(8):
        middle = (low + high) / 2
        if middle * middle > a:
            high = middle
        else:
            low = middle
    return a / ((low + high) / 2)


def adaptive(rate):
    """Heun's method for y' = −rate·y with steps that follow the error."""
    y, t, h = 1.0 + 0.0 * rate, 0.0 * rate, 0.1
    while t < 1.0:
        slope = -rate * y
        middle = y + h * slope
        better = y + 0.5 * h * (slope - rate * middle)
        error = abs(better - middle)
        if error > 0.01:
            h = h / 2
        else:
            y, t = better, t + h
            h = h * 1.5 if error < 0.002 else h
    return y


@needs("numba-reader")
@pytest.mark.parametrize("f", [bisection, adaptive])
def test_algorithms_that_look_at_values(f):
    c = check(f, [(a,) for a in (0.5, 2.0, 0.51, 3.0, 0.5, 2.01, 3.0)])
    assert programs(c) == 0 and "graph" in c.explain()


def metropolis(x, steps, levels):
    """A walk over a distribution of width x; the random numbers are arguments."""
    place, total = 0.5 * x, 0.0
    for step, level in zip(steps, levels, strict=True):
        proposed = place + step
        if level < np.exp((place * place - proposed * proposed) / (2 * x * x)):
            place = proposed
        total = total + place * place
    return total / len(steps)


@needs("numba-reader")
def test_random_numbers_are_passed_as_arguments():
    rng = np.random.default_rng(3)
    calls = [(1.0 + k, rng.normal(size=4), rng.uniform(size=4)) for k in range(40)]
    c = check(metropolis, calls)
    assert programs(c) == 0 and "graph" in c.explain()


def test_masks_and_indices_are_computed_again():
    def f(x):
        y = np.where(x > 0, np.exp(x), x * x)
        y[x > 1.0] = 0.5
        order = np.argsort(x)
        return np.sum(y * x[order]) + x[np.argmax(x)] * np.sum(x > 0.0) + np.sort(x)[2]

    check(f, normal(12), recorded=1)


def test_a_mask_that_picks_another_number_is_recorded_again():
    f = lambda x: np.sum(np.sort(x[x > 0.0]) ** 2)
    calls = [(np.array(x),) for x in ([1.0, -1, 2], [1.0, 3, -2], [1.0, 1, 1], [-1.0, -1, -1])]
    c = check(f, calls * 2)
    assert programs(c) == 3


def test_results_whose_shape_depends_on_values():
    f = lambda x: np.sum(np.unique(np.floor(x.detach())) * x[0])
    c = check(f, normal(3, 12))
    assert 1 < programs(c) <= 3
    g = lambda x: x[np.nonzero(x > 0)[0]].sum()
    assert 1 < programs(check(g, normal(3, 12))) <= 4


def test_comparisons_in_every_form():
    def f(x):
        y = x[0] if 0 < x[1] < 1 and x[0] != 0.5 or x[2] < -1 else x[1] * 2
        y = y + x[0] * sorted(x)[1] + max(x[0], x[1]) - min(x) + abs(x[2])
        if x[0] in (1.0, 2.0) or not (x > -3.0).all():
            y = y * 3
        return y

    calls = [*normal(3, 20), (np.array([1.0, 0.5, 0.0]),), (np.array([1.0, 0.5, -4.0]),)]
    c = tg.compile(f)
    for args in calls * 2:
        same(c.value_and_grad(*args), tg.value_and_grad(f)(*args))


def test_numbers_of_rounds():
    def f(x, n):
        y = x
        for _ in range(int(n)):
            y = np.sin(y) * 2.0
        return y * len(range(int(n)))

    c = check(f, [(0.5 + k, np.int64(k % 3)) for k in range(9)])
    assert programs(c) == 3


def test_what_python_learns_is_checked():
    """Signs of zeros too, and what is read as text."""
    sign = lambda x: x * math.copysign(2.0, x[0].item())
    check(lambda x: np.sum(sign(x)), [(np.array([v]),) for v in (0.0, -0.0, 0.0, -0.0)], 0)
    check(lambda x: np.sum(x) * len(str(x[0])), [(np.array([v]),) for v in (0.5, 0.25, 0.5)], 0)
    check(
        lambda x: np.sum(x) * x.detach().tolist()[1],
        [(np.array([1.0, v]),) for v in (0.5, 2.0, 0.5)],
        0,
    )
    check(lambda x, d: x * math.exp(d) * np.asarray(d), [(2.0, v) for v in (0.5, 2.0, 0.5)], 0)


# --- writes at computed positions -------------------------------------------------------------


@pytest.mark.parametrize("n", [6, 12])
def test_writes_at_positions_that_depend_on_values(n):
    def f(x):
        y, table = np.copy(x), tg.zeros((2, n))
        index = np.argsort(x)[:3]
        y[index] += x[index] * 2.0
        y[np.argsort(x)[[0, 0, 1]]] = x[:3] * x[1]
        part = y[::2]
        part[np.argmax(part)] = x[0] * 0.5
        table[np.argmin(x.reshape(2, -1), axis=1) % 2, 1] = x[:2]
        table[1][np.argsort(x)] = y
        return np.sum(y * y * x) + np.sum(table * table)

    check(f, normal(n, 8), recorded=1)


def test_a_buffer_read_before_it_was_written():
    def f(x):
        y = tg.zeros(12)
        before = np.sum(x * y) + y[np.argmax(x)]
        y[0] = x[1]
        after = np.sum(x * y)
        y[1] = 2.0
        return before + after * np.sum(x * y)

    check(f, normal(12), recorded=1)


# --- arguments and results --------------------------------------------------------------------


def test_structures_shapes_and_dtypes_have_programs_of_their_own():
    def f(p, *rest, scale=1.0, power=2):
        total = np.sum(p["a"] ** power) * scale + p["b"][0] * np.sum(p["b"][1])
        for item in rest:
            total = total + np.sum(item * p["a"][0])
        return total

    c = tg.compile(f)
    rng = np.random.default_rng(0)
    for shape in ((3,), (2, 2), (3,)):
        for k in range(2):
            p = {"a": rng.normal(size=3), "b": (0.5 + k, rng.normal(size=shape))}
            for rest in ((), (2.0,), (np.arange(3),), (np.array([True, False]), k)):
                for keywords in ({}, {"scale": 3.0 + k}, {"power": 3}):
                    with tg.no_grad():
                        value = f(p, *rest, **keywords)
                    same(c(p, *rest, **keywords), value)
                    found, gradient = c.value_and_grad(p, *rest, **keywords)
                    g = lambda p, r=rest, w=keywords: f(p, *r, **w)
                    same((found, gradient), tg.value_and_grad(g)(p))
                    assert type(gradient) is dict and type(gradient["b"]) is tuple
    assert c._reason is None


def test_data_change_and_are_not_differentiated():
    f = lambda x, w, n, flags: np.sum(np.where(flags, x * w, x)) * n
    calls = [
        (np.arange(3.0) + k, np.arange(3) * k, 2.0 + k, np.array([True, k > 1, False]))
        for k in range(4)
    ]
    check(f, calls, recorded=1)
    check(f, calls, argnums=(2, 0), recorded=1)
    check(f, [(a, b.astype(float), c, d) for a, b, c, d in calls], argnums=(1, -2), recorded=1)


def test_integers_are_computed_as_numpy_computes_them():
    f = lambda x, n: np.sum(x * (n + n)) + np.sum(x * (n * n % 7))
    check(f, [(np.arange(3.0), np.array([200, k, 250], np.uint8)) for k in range(4)])
    large = [(np.arange(3.0), np.array([2**40 + k, k, 2**26])) for k in range(4)]
    check(f, large)
    beyond = [(np.arange(3.0), np.array([2**31 + k, k, 1])) for k in range(3)]
    assert "integers beyond" in refused(f, beyond)


def test_results_in_structures_and_constants():
    def f(x, flag):
        return {
            "both": (x * 2, [x[0], np.sum(x)]),
            "mask": x > 0,
            "where": np.argmax(x),
            "nothing": None,
            "name": flag,
            "fixed": np.arange(3),
            "three": 3,
            "view": x[::-1],
            "true": True,
        }

    c = tg.compile(f)
    for (x,) in normal(4):
        found, wanted = c(x, "a"), f(tg.tensor(x), "a")
        assert list(found) == list(wanted) and type(found["both"][1]) is list
        assert found["name"] == "a" and found["three"] == 3 and found["nothing"] is None
        assert type(found["both"][0]) is np.ndarray and type(found["both"][1][0]) is float
        assert found["mask"].dtype == bool and found["where"] == np.argmax(x)
        np.testing.assert_array_equal(found["mask"], x > 0)
        np.testing.assert_array_equal(found["both"][0], x * 2)
        np.testing.assert_array_equal(found["view"], x[::-1])
    assert c._reason is None and programs(c) == 1


def test_results_are_the_callers():
    """No call changes what an earlier one has returned."""
    c = tg.compile(lambda x: (x * 2, x))
    (x,), (y,) = normal(12, 2)
    c(x)
    first = c(x)
    kept = [a.copy() for a in first]
    c(y)
    same(first, kept, 0)
    first[1][:] = 0.0
    assert (x != 0.0).all()


@pytest.mark.parametrize("result", [3, 2.5, True, np.float64(1.5)])
def test_a_gradient_of_what_does_not_depend_on_the_arguments(result):
    c = tg.compile(lambda x: result)
    for (x,) in normal(3):
        value, gradient = c.value_and_grad(x)
        assert value == result and not gradient.any()


def test_compiled_inside_transforms():
    """Recorded arguments: the function itself is called, with derivatives of any order."""
    f = lambda x: np.sum(x**3) if x[0] > 0 else np.sum(x**2)
    c = tg.compile(f)
    for (x,) in normal(3, 4):
        c(x)
        same(tg.grad(c)(x), tg.grad(f)(x), 0)
        same(tg.hessian(c)(x), tg.hessian(f)(x), 0)
        x = tg.tensor(x, requires_grad=True)
        c(x).backward()
        same(x.grad, tg.grad(f)(x.detach().numpy()), 0)


def test_transforms_inside_compiled():
    f = lambda x: np.sum(tg.grad(lambda y: np.sum(y**3))(x * 2.0) * x)
    check(f, normal(3), recorded=1)


def test_detached_values():
    f = lambda x: np.sum(x * x.detach()) + x[0] * (x.detach() * 2.0)[1]
    check(f, normal(12), recorded=1)


# --- what cannot be a program -----------------------------------------------------------------

captured = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)


def without_recording(x):
    with tg.no_grad():
        y = np.sin(x)
    return np.sum(x * y)


def counts_written(x):
    counts = tg.zeros(2, dtype=int)
    counts[0] = np.argmax(x)
    return x[counts[0]]


def writes_data(x, data):
    data[0] = 5.0
    return np.sum(x)


REFUSED = {
    "that is not an argument": lambda x: np.sum(x * captured),
    "no_grad": without_recording,
    "float32": lambda x: np.sum(x.astype(np.float32)).astype(float),
    "written in place": counts_written,
    "it creates an input": lambda x: np.sum(x * tg.tensor(x.detach(), requires_grad=True)),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refused_with_the_reason(reason):
    assert reason in refused(REFUSED[reason], normal(3, 3))


def test_a_result_that_is_no_number():
    with pytest.warns(RuntimeWarning, match=r"the result\[1\] is of type object"):
        assert tg.compile(lambda x: (x, object()))(1.0)[0] == 1.0


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.arange(3, dtype=np.float32), "of float32 and of float64"),
        (np.arange(3, dtype=np.float16), "dtype float16"),
        (np.array([2**60, 1, 2]), "integers beyond"),
        (np.random.default_rng(0), "of type Generator"),
    ],
)
def test_arguments_that_are_no_data(value, reason):
    f = lambda x, data: np.sum(x)
    assert reason in refused(f, [(np.arange(3.0) + k, value) for k in range(3)])


def test_an_array_written_between_two_uses():
    """Or else the program would take what was written later for what was read."""

    def f(x):
        workspace = np.zeros(40_000)
        first = x + workspace
        workspace[:] = 2.0
        return np.sum(first * x) + np.sum(x + workspace)

    assert "writes to an array that it has read" in refused(f, normal(40_000, 3))


def test_arguments_that_the_function_writes_to():
    """All are copies, whether there is a program or not."""

    def f(x):
        x[0] = 3.0
        return np.sum(x * x)

    check(f, normal(12, 3), recorded=1)
    text = refused(writes_data, [(np.arange(3.0), np.zeros(3)) for _ in range(2)])
    assert "writes to an argument that is not differentiated" in text


@pytest.mark.parametrize("was_enabled", [True, False])
def test_the_garbage_collector_pauses_while_a_program_is_made(was_enabled, monkeypatch):
    seen, convert = [], Converter.convert
    monkeypatch.setattr(
        Converter, "convert", lambda *args: (seen.append(gc.isenabled()), convert(*args))[1]
    )
    if not was_enabled:
        gc.disable()
    try:
        assert tg.compile(lambda x: np.sum(x * x))(np.ones(3)) == 3.0
        assert gc.isenabled() == was_enabled and seen == [False]
    finally:
        gc.enable()
