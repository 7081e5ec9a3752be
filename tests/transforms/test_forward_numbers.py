"""Forward mode through rows of numbers and cells, which are carried in compiled code."""

import numpy as np
import pytest
from rows import both_ways

import tapegrad as tg


def test_many_scalars_in_several_directions(rng):
    """Rows of some chunks, all kinds of operands; columns of the Jacobian come all at once."""

    def f(x):
        a, b = x[0], x[1]
        for _ in range(2000):
            a, b = np.sin(a) + 0.5 * b, 1.0 / (2.0 + a * b) - b**2 / 7.0
        return tg.asarray([a, b, a - b, x[2] * 2.0])

    x = rng.normal(size=3)
    J = tg.jacobian(f)(x)
    tangents = [tg.jvp(f, (x,), (v,))[1] for v in np.eye(3)]
    np.testing.assert_allclose(np.array(tangents).T, J, rtol=1e-12, atol=1e-300)
    at_once = tg.autograd.functional.jacobian(f, x, strategy="forward-mode", vectorize=True)
    np.testing.assert_allclose(np.asarray(at_once), J, rtol=1e-12, atol=1e-300)


def test_cells_written_and_read_in_turns(rng):
    def f(x):
        y = tg.zeros(4)
        for k in range(300):
            y[k % 4] = y[(k + 1) % 4] * 0.5 + x[k % 3] * x[0]
            if k % 7 == 0:
                y[(k + 2) % 4] = 1.5  # ends what was there
            if k % 50 == 0:
                y *= x[1]
        early = y * y
        y[0] = x[2]
        y[1:3] = y[0] * x[:2]
        return early + np.sum(y * early)

    both_ways(f, (rng.normal(size=3),), rng)


def test_zero_times_infinity_is_zero():
    assert tg.jvp(lambda x: x[0] * np.log(x[1]), (np.array([0.0, 0.0]),), (np.zeros(2),))[1] == 0.0
    value = tg.jvp(lambda x: np.sqrt(x[0] * 0.0) + x[1], (np.ones(2),), (np.array([0.0, 3.0]),))
    assert value == (1.0, 3.0)


def test_an_input_computed_from_another_keeps_its_own_tangent():
    w = tg.tensor(2.0, requires_grad=True)
    y = w * 3.0
    assert tg.jvp(lambda x, z: x * z, (y, y * y), (1.0, 0.0))[1].item() == 36.0


def test_used_up_numbers_are_refused():
    def f(x):
        y = x[0] * x[1]
        (y * 1.0).backward()
        return y * 2.0

    def g(x):
        y = tg.zeros(2)
        y[0] = x[0] * x[1]
        np.sum(y).backward()
        return y[0] * 1.0

    for used in (f, g):
        with pytest.raises(RuntimeError, match="used up by a backward pass"):
            tg.jvp(used, (np.array([1.0, 2.0]),), (np.ones(2),))
