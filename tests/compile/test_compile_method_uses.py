"""Methods of compiled functions: errors, decorators, compiled transforms."""

import numpy as np
import pytest
from assumed import needs
from compiled import programs
from test_compile_methods import METHODS, alike, cubes, points

import tapegrad as tg

# --- errors -----------------------------------------------------------------------------------

x3 = np.ones(3)
ERRORS = [
    (lambda c: c.grad(), ValueError, "argnums 0 is out of range, the function got 0"),
    (lambda c: c.jvp(x3, x3), TypeError, "tapegrad.jvp: primals has type ndarray; it must be a"),
    (lambda c: c.jvp((x3,), x3), TypeError, "tapegrad.jvp: tangents has type ndarray; it must"),
    (lambda c: c.jvp((x3,), (np.ones(2),)), ValueError, r"tangents\[0\] has shape \(2,\), the pri"),
    (lambda c: c.jvp((x3,), (x3, x3)), ValueError, "give one tangent for each primal"),
    (lambda c: c.vjp(x3)[1](x3), ValueError, r"an adjoint has shape \(3,\), but the result \(\)"),
    (
        lambda c: c.vjp(x3)[1]((1.0, 2.0)),
        ValueError,
        "got 2 adjoints, but the function has 1 results",
    ),
    (
        lambda c: c.hvp(x3, np.ones(2)),
        ValueError,
        r"an adjoint has shape \(2,\), but the result \(3,",
    ),
]


@pytest.mark.filterwarnings("ignore:tapegrad.compile. .* without a program")
@pytest.mark.parametrize("call, error, text", ERRORS)
def test_errors_are_those_of_the_transforms(call, error, text):
    c = tg.compile(cubes)
    with pytest.raises(error, match=text):
        call(c)
    for name in METHODS:  # with programs there
        METHODS[name](c, np.arange(3.0))
        METHODS[name](c, np.arange(3.0))
    with pytest.raises(error, match=text):
        call(c)


@pytest.mark.parametrize("name", ["value_and_grad", "grad", "hessian", "hvp"])
def test_gradients_of_arrays_are_errors(name):
    c = tg.compile(lambda x: x * x)
    for _ in range(2):
        np.testing.assert_array_equal(c(x3), x3)
    with pytest.raises(ValueError, match="a gradient needs a scalar|more than one number"):
        METHODS[name](c, x3)


# --- forms of use -----------------------------------------------------------------------------


def test_decorators():
    @tg.compile
    def plain(x, y):
        """Doc."""
        return np.sum(x * y * y)

    @tg.compile(argnums=1)
    def second(x, y):
        return np.sum(x * y * y)

    @tg.compile(argnums=(1, 0), native=False, verify="always")
    def both(x, y):
        return np.sum(x * y * y)

    assert plain.__name__ == "plain" and plain.__doc__ == "Doc."
    for k in range(3):
        x, y = np.arange(3.0) + k, np.ones(3) * 2 - k
        assert plain(x, y) == second(x, y) == both(x, y) == (x * y * y).sum()
        alike(plain.grad(x, y), y * y)
        alike(second.grad(x, y), 2 * x * y)
        alike(both.grad(x, y), (2 * x * y, y * y))
        alike(second.hessian(x, y), np.diag(2 * x))
        alike(second.jacobian(x, y), 2 * x * y)
        alike(both.value_and_grad(x, y), (plain(x, y), (2 * x * y, y * y)))


@needs("numba-reader")
@pytest.mark.parametrize("argnums", [0, 1, (1, 0)])
def test_around_transforms(argnums):
    """What `tg.value_and_grad` and `tg.grad` give is known: its `argnums` hold."""
    f = lambda x, y: np.sum(x * y * y) if x[0] > 0 else np.sum(x * x * y)
    both, grad = tg.value_and_grad(f, argnums), tg.grad(f, argnums)
    c, g = tg.compile(both), tg.compile(grad)
    rng = np.random.default_rng(6)
    for _ in range(6):
        x, y = rng.normal(size=3), rng.normal(size=3)
        alike(c(x, y), both(x, y))
        alike(g(x, y), grad(x, y))
        alike(c.grad(x, y), grad(x, y))
        alike(g.value_and_grad(x, y), both(x, y))
    assert programs(c) == 1 and c._reason is g._reason is None
    assert "a graph of" in c.explain()


def test_around_other_transforms():
    """They are functions like others: recorded with the gradient inside."""
    f = lambda x: (np.sum(x**3), np.sum(x))
    made = {
        "aux": tg.value_and_grad(f, has_aux=True),
        "hessian": tg.hessian(cubes),
        "jacobian": tg.jacobian(lambda x: x * x[0]),
        "hvp": lambda x: tg.hvp(cubes)(x, x * 2.0),
        "jvp": lambda x: tg.jvp(np.sin, (x,), (x * x,)),
        "twice": tg.grad(lambda x: np.sum(tg.grad(cubes)(x) ** 2)),
    }
    for name, eager in made.items():
        c = tg.compile(eager)
        for (x,) in points(3, 3):
            alike(c(x), tg.vjp(eager, x)[0] if name == "aux" else eager(x))
        assert c._reason is None and programs(c) == 1
