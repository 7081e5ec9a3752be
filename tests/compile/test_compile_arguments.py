"""What compiled functions do to their arguments: nothing, at whichever call, program or not."""

import numpy as np
import pytest
from assumed import needs
from compiled import same

import tapegrad as tg

V, D = np.array([0.7, -1.2, 1.9]), np.array([1.0, -2.0, 0.5])
ROWS = np.random.default_rng(3).normal(size=(5, 3))
refusing = pytest.mark.filterwarnings("ignore:tapegrad.compile.*without a program")


def writes_first(x, d):
    y = x * d
    x[0] = 5.0
    return np.sum(x * y)


def writes_data(x, d):
    d[1:] = 7.0
    return np.sum(x * d) * x[0]


def writes_in_float32(x, d):
    x[0], d[0] = 5.0, 7.0
    return np.sum(x.astype(np.float32) * d)


def writes_by_operator(x, d):
    x *= 2.0
    d += 1.0
    return np.sum(x * x * d)


FUNCTIONS = [writes_first, writes_data, writes_in_float32, writes_by_operator]
METHODS = {
    "call": lambda c, x, d: c(x, d),
    "value_and_grad": lambda c, x, d: c.value_and_grad(x, d),
    "keyword": lambda c, x, d: c.value_and_grad(x, d=d),
    "jacobian": lambda c, x, d: c.jacobian(x, d),
    "jvp": lambda c, x, d: c.jvp((x, d), (D, V)),
    "vjp": lambda c, x, d: c.vjp(x, d)[1](2.0),
    "map": lambda c, x, d: c.map(np.stack([x, x]), np.stack([d, d]))[0],
}


@refusing
@pytest.mark.parametrize("verify", ["once", "always", "never"])
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_call_writes_to_its_arguments(function, name, verify):
    c = tg.compile(function, verify=verify)
    wanted = function(V.copy(), D.copy())
    for _ in range(4):
        x, d = V.copy(), D.copy()
        x.flags.writeable = d.flags.writeable = name == "map"  # the rows of `map` are views
        found = METHODS[name](c, x, d)
        same([x, d], [V, D], 0)
        if name in ("call", "value_and_grad"):
            np.testing.assert_allclose(found if name == "call" else found[0], wanted, rtol=1e-6)


@refusing
@pytest.mark.parametrize("function", FUNCTIONS)
def test_rows_are_not_written(function):
    c, x, d = tg.compile(function, argnums=(0, 1)), ROWS.copy(), D.copy()
    for method in (c.map, c.sum):
        for _ in range(3):
            method(x, d, in_axes=(0, None))
            same([x, d], [ROWS, D], 0)
    if function is not writes_in_float32 and c._reason is None:
        c.numba(x[0], d)
        same([x, d], [ROWS, D], 0)


@refusing
@pytest.mark.parametrize("single", [False, True])
def test_containers_stay_as_they_are(single):
    def f(a):
        a["x"][0] = 5.0
        a["l"].append(3.0)
        a["new"] = a.pop("y")
        y = a["new"].astype(np.float32) if single else a["new"]
        return np.sum(a["x"] * y) + a["l"][-1]

    c = tg.compile(f)
    for _ in range(4):
        given = {"x": V.copy(), "l": [1.0], "y": D.copy()}
        assert abs(c(given) - (5.0 + V[1:] @ D[1:] + 3.0)) < 1e-6
        assert list(given) == ["x", "l", "y"] and given["l"] == [1.0]
        same([given["x"], given["y"]], [V, D], 0)


@refusing
def test_tensors_are_not_written():
    c = tg.compile(writes_in_float32)
    for requires_grad in (False, True):
        for _ in range(3):
            x, d = tg.tensor(V, requires_grad=requires_grad), tg.tensor(D)
            c(x, d)
            same([x, d], [V, D], 0)

    def g(x):
        y = x * 1.0
        return tg.compile(writes_first)(y, D) + np.sum(y)

    wanted = D * 5.0 * (np.arange(3) == 0) + 2 * V * D * (np.arange(3) > 0) + 1.0
    same(tg.grad(g)(V), wanted)


def test_one_array_given_twice():
    """Each argument is an array of its own: what is written to one is not read in the other."""

    def f(a, b):
        a[0] = 5.0
        return np.sum(a * b)

    c = tg.compile(f, argnums=(0, 1))
    for _ in range(3):
        value, gradients = c.value_and_grad(V, V)
        same(value, 5.0 * V[0] + np.sum(V[1:] ** 2))
        same(gradients, (V * (np.arange(3) > 0), np.append(5.0, V[1:])))


def test_arguments_that_change_before_the_adjoint_is_given():
    """What `vjp` returns belongs to the arguments as they were."""
    c = tg.compile(lambda x, d: np.sum(x**3 * d))
    for _ in range(3):
        x, d = V.copy(), D.copy()
        _, back = c.vjp(x, d)
        x[:] = d[:] = 100.0
        same(back(2.0), (6.0 * V**2 * D, 2.0 * V**3))


def adds_to_data(x, d):
    np.add(d, x, out=d)
    return np.sum(d * d)


def sets_data(x, d):
    d[0] = x[0]
    return np.sum(d * d)


@refusing
@pytest.mark.parametrize(
    "f", [adds_to_data, pytest.param(sets_data, marks=needs("cpython-bytecode"))]
)
def test_recorded_numbers_written_to_data_are_errors_at_each_call(f):
    c = tg.compile(f)
    for g in (tg.grad(f), c.grad, c.grad, c.grad):
        with pytest.raises(TypeError, match="cannot be written to a plain NumPy array"):
            g(V, D.copy())
