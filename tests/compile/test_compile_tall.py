"""Compiled Jacobians of more results than arguments: in forward mode, equal to those in reverse."""

import re

import numba
import numpy as np
import pytest
from compiled import programs

import tapegrad as tg

TIMES = np.linspace(0.0, 2.0, 60)


def decay(x):
    return x[0] * np.exp(-x[1] * TIMES) * np.cos(x[2] * TIMES)


def spiral(x):
    z = x[0] * (1j * (1 + TIMES)) ** x[1] + x[2]
    return np.concatenate([z.real, z.imag])


def steps(x):
    a, b = x[0], x[1]
    seen = []
    for _ in range(12):
        a, b = a + 0.1 * b, b - 0.1 * x[2] * np.sin(a)
        seen.append(a)
    return np.stack(seen)


def writes(x):
    y = np.outer(x, x)
    y[1] *= y[0]
    y[2, 1:] = y[1, :2] + 1.0
    return y


def ties(x):
    pairs = [np.maximum(x, x[::-1]), np.abs(x), np.sort(x), np.cumprod(x)]
    return np.concatenate([*pairs, np.max(x)[None], np.prod(x)[None]])


def solved(x):
    return np.outer(x, np.linalg.solve(4 * np.eye(3) + np.outer(x, x), np.ones(3)))


def square(x):
    return np.sin(x) * x[::-1]


FUNCTIONS = [decay, spiral, steps, writes, ties, solved, square]


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("error")
def test_tall_jacobians_are_those_of_reverse_mode(f):
    compiled, eager = tg.compile(f, verify="always"), tg.jacobian(f)
    for x in ([1.3, 0.7, 0.2], [0.2, 1.5, -0.4], [0.5, 0.5, 0.5], [2.0, 0.0, 0.0]):
        found, expected = compiled.jacobian(np.array(x)), eager(np.array(x))
        assert found.dtype == expected.dtype and found.shape == expected.shape
        assert np.allclose(found, expected, rtol=1e-11, atol=1e-12)
    assert programs(compiled._derived["jacobian"]) <= 2


def test_tall_jacobians_record_one_walk():
    """In reverse mode it was a sweep for each of the 120 results, 70 000 rows and more."""
    compiled = tg.compile(spiral)
    compiled.jacobian(np.array([1.3, 0.7, 0.2]))
    compiled.jacobian(np.array([0.3, 0.8, 0.2]))
    text = str(compiled._derived["jacobian"].explain())
    rows = [int(count) for count in re.findall(r"rows: (\d+) recorded", text)]
    assert rows and max(rows) < 5000


def test_second_derivatives_of_a_loss_with_a_tall_jacobian():
    def loss(x):
        return np.sum(tg.jacobian(lambda y: np.concatenate([np.sin(y), y**3]))(x) ** 2)

    def written(x):
        return np.sum(np.cos(x) ** 2 + 9 * x**4)

    compiled = tg.compile(loss)
    for x in np.random.default_rng(2).standard_normal((3, 4)):
        assert np.isclose(compiled(x), written(x), rtol=1e-12)
        assert np.allclose(compiled.grad(x), tg.grad(written)(x), rtol=1e-11, atol=1e-12)
        assert np.allclose(compiled.hessian(x), tg.hessian(written)(x), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.concatenate([np.sqrt(x - x), x]),  # reverse: inf - inf; forward: 0 * inf
        lambda x: np.concatenate([np.sqrt(x), np.log(x), x * np.log(x)]),
        lambda x: np.concatenate([np.where(x > 0, np.log(x), x), x]),
        lambda x: np.concatenate([x, x * np.sqrt(np.sum(x * x))]),
        lambda x: np.concatenate([np.sqrt(x) * (0.0 * x), np.sqrt(x)[:1] - np.sqrt(x), x]),
    ],
)
def test_where_infinities_meet_it_is_reverse_mode(f):
    compiled, eager = tg.compile(f, verify="always"), tg.jacobian(f)
    with np.errstate(all="ignore"):
        for x in ([1.0, 2.0], [0.0, 1.0], [0.5, 0.7], [0.0, 0.0], [0.0, 3.0], [2.0, 1.0]):
            found, expected = compiled.jacobian(np.array(x)), eager(np.array(x))
            assert np.allclose(found, expected, rtol=1e-12, atol=1e-14, equal_nan=True)


def test_results_of_several_kinds_keep_their_structure_and_dtype():
    def f(x, y):
        return {"a": x * y[0], "b": np.ones(5), "c": np.sum(x) * y, "d": x.astype(np.float32)}

    compiled, eager = tg.compile(f, argnums=(0, 1)), tg.jacobian(f, (0, 1))
    for shift in (0.0, 1.0, 2.0):
        x, y = np.array([1.0, 2.0]) + shift, np.array([0.5, 1.0, 2.0])
        found, expected = compiled.jacobian(x, y), eager(x, y)
        assert list(found) == list(expected)
        for key, pair in expected.items():
            for mine, other in zip(found[key], pair, strict=True):
                assert mine.dtype == other.dtype and mine.shape == other.shape
                assert np.allclose(mine, other, rtol=1e-12, atol=0)


@numba.njit
def twice(x):
    return np.concatenate((x**3, x))


@numba.njit
def twice_adjoint(g, x, out):
    return g[: len(x)] * 3 * x**2 + g[len(x) :]


@numba.njit
def twice_adjoint_adjoint(gg, g, x, out, dx):
    return np.concatenate((gg * 3 * x**2, gg)), g[: len(x)] * 6 * x * gg, np.zeros_like(out)


@pytest.mark.filterwarnings("ignore:.*runs eagerly:RuntimeWarning")
def test_functions_without_forward_derivative_are_taken_in_reverse():
    f = tg.custom_vjp(twice, tg.custom_vjp(twice_adjoint, twice_adjoint_adjoint))
    compiled = tg.compile(lambda x: f(np.sin(x)))
    for x in np.random.default_rng(5).standard_normal((3, 2)):
        slopes = np.vstack([np.diag(3 * np.sin(x) ** 2 * np.cos(x)), np.diag(np.cos(x))])
        assert np.allclose(compiled.jacobian(x), slopes, rtol=1e-12, atol=1e-14)
