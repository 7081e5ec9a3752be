"""Transforms of compiled functions: arguments, types of results, masks."""

import numpy as np
import pytest
from compiled import programs, same

import tapegrad as tg


@pytest.mark.parametrize("argnums", [0, 2, -3, (0, 2)])
def test_products_take_all_arguments(argnums):
    """The argnums are those of the function, and no business of these."""
    c = tg.compile(lambda a, b, c: a * b * c, argnums=argnums)
    for _ in range(3):
        assert c.jvp((2.0, 3.0, 4.0), (1.0, 0.0, 0.0)) == (24.0, 12.0)
        value, back = c.vjp(2.0, 3.0, 4.0)
        assert value == 24.0 and back(1.0) == (12.0, 8.0, 6.0)


def test_constant_results_keep_their_type():
    c = tg.compile(lambda a, b: a * b)
    for _ in range(3):
        assert type(c.hessian(2.0, 3.0)) is float


def test_constant_arrays_are_new_each_time():
    c = tg.compile(lambda x: (x * 2.0, np.arange(3.0), np.float64(0.5)))
    for k in range(4):
        twice, given, half = c(float(k))
        assert twice == 2.0 * k and half == 0.5
        np.testing.assert_array_equal(given, [0.0, 1.0, 2.0])
        given[:] = -1.0


@pytest.mark.filterwarnings("error")
def test_tangents_pass_by_masks():
    f = lambda x: np.sum(np.where(x > 0, x**3, x) * (x[np.argsort(x)] > 0.1))  # noqa: E731
    c, rng = tg.compile(f), np.random.default_rng(3)
    for _ in range(4):
        x, v = rng.normal(size=(2, 5))
        same(c.jvp((x,), (v,)), tg.jvp(f, (x,), (v,)))
    assert programs(c._derived["jvp"]) == 1


def test_native_guards_say_what_they_saw():
    """So that the program for it is found, and the function is not recorded again."""

    def f(x):
        a = 0.0
        for v in x:
            a = a + v if v < 1.0 else a * 0.5
        return a

    x, y = np.zeros(8), np.eye(8)[4] * 2.0
    c = tg.compile(f, native=True, verify="never")
    for k in range(40):
        same(c.value_and_grad((x, y)[k % 2]), tg.value_and_grad(f)((x, y)[k % 2]))
        c.wait()
    assert programs(c) == 2
