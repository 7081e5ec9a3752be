"""Infinite adjoints where another operand, piece or element was taken: the derivative is 0."""

import operator

import numpy as np
import pytest
import special_rows

import tapegrad as tg
from tapegrad._core.ops.table import TABLE, in_branches, product, selects, taken


@tg.elementwise
def squared_above(x):
    return x * x if x > 0.0 else 0.0


@tg.elementwise
def root_above(x):
    return np.sqrt(max(x, 0.0))


@tg.elementwise
def difference_above(x, y):
    larger = x if x > y else y
    return 3.0 * larger - 3.0 * y if x > y else 0.0


def written(x):
    y = x.copy()
    y[y < 0.0] = 0.0
    return y


def masked_in_place(x):
    y = x.copy()
    y *= x > 0.0
    return y


#: Functions that are x where it is positive, else 0 without depending on x.
RAMPS = {
    "maximum": lambda x: np.maximum(x, 0.0),
    "maximum of a number": lambda x: np.maximum(0.0, x),
    "minimum": lambda x: -np.minimum(-x, 0.0),
    "fmax": lambda x: np.fmax(x, 0.0),
    "fmin": lambda x: -np.fmin(-x, 0.0),
    "clip": lambda x: np.clip(x, 0.0, None),
    "clip on both sides": lambda x: np.clip(x, 0.0, 50.0),
    "where": lambda x: np.where(x > 0.0, x, 0.0),
    "where not": lambda x: np.where(x <= 0.0, 0.0, x),
    "select": lambda x: np.select([x > 0.0], [x], 0.0),
    "choose": lambda x: np.choose((x > 0.0).astype(int), [np.zeros(x.shape), x]),
    "piecewise": lambda x: np.piecewise(x, [x > 0.0], [lambda v: v, 0.0]),
    "mask": lambda x: x * (x > 0.0),
    "mask first": lambda x: (x > 0.0) * x,
    "multiply by a mask": lambda x: np.multiply(x, (x > 0.0) & (x < 60.0)),
    "mask in place": masked_in_place,
    "write": written,
    "relu": tg.nn.functional.relu,
    "user": lambda x: np.sqrt(squared_above(x)),
    "users": lambda x: difference_above(x, 0.0) / 3.0,
    "numbers": lambda x: tg.stack([np.maximum(one, 0.0) for one in x]),
    "Python's max": lambda x: tg.stack([max(one, 0.0) for one in x]),
    "mask of numbers": lambda x: tg.stack([one * (one > 0.0) for one in x]),
}
OUTER = {
    "sqrt": (np.sqrt, lambda x: 0.5 / np.sqrt(x), lambda x: -0.25 / x**1.5),
    "power": (lambda x: x**0.5, lambda x: 0.5 / np.sqrt(x), lambda x: -0.25 / x**1.5),
    "cbrt": (np.cbrt, lambda x: x ** (-2 / 3) / 3, lambda x: -2 / 9 * x ** (-5 / 3)),
}
POINTS = [np.array([-1.0, 4.0, -2.0]), np.array([9.0, -3.0, 2.0])]
ramps = pytest.mark.parametrize("ramp", RAMPS)


def composed(ramp, outer="sqrt"):
    return lambda x: np.sum(OUTER[outer][0](RAMPS[ramp](x)))


def expected(x, order=1, outer="sqrt"):
    above = x > 0.0
    return np.where(above, OUTER[outer][order](np.where(above, x, 1.0)), 0.0)


def check(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=0)


@pytest.mark.parametrize("outer", OUTER)
@ramps
def test_gradients(ramp, outer):
    f = composed(ramp, outer)
    for x in POINTS:
        check(tg.grad(f)(x), expected(x, 1, outer))
        check(tg.grad(f)(np.tile(x, 100)), expected(np.tile(x, 100), 1, outer))


@ramps
def test_forward_mode_and_several_adjoints(ramp):
    f, x = composed(ramp), POINTS[0]
    check([tg.jvp(f, (x,), (e,))[1] for e in np.eye(3)], expected(x))
    found = tg.jacobian(lambda x: np.sqrt(RAMPS[ramp](x)))(x)
    check(found, np.diag(expected(x)))
    if "write" not in ramp and "place" not in ramp and ramp not in ("piecewise", "Python's max"):
        check(tg.vmap(tg.grad(f))(np.array(POINTS)), np.array([expected(x) for x in POINTS]))


@ramps
def test_second_derivatives(ramp):
    f, x = composed(ramp), POINTS[0]
    check(tg.hvp(f)(x, np.ones(3)), expected(x, 2))
    check(tg.hessian(f)(x), np.diag(expected(x, 2)))
    check(tg.grad(lambda x: np.sum(tg.grad(f)(x)))(x), expected(x, 2))


@pytest.mark.parametrize("options", [{}, {"verify": "never"}, {"native": True}], ids=str)
@ramps
def test_programs(ramp, options):
    compiled = tg.compile(composed(ramp), **options)
    for _ in range(3):
        for x in POINTS:
            check(compiled.grad(x), expected(x))


@ramps
def test_compiled_hessians(ramp):
    f = composed(ramp)
    compiled = tg.compile(lambda x: tg.hessian(f)(x))
    for _ in range(3):
        for x in POINTS:
            check(compiled(x), np.diag(expected(x, 2)))


def branching(x):
    """A graph: roots of what is positive, in a loop."""
    total = 0.0
    for k in range(len(x)):
        total = total + np.sqrt(np.maximum(x[k], 0.0)) + (1.0 if x[k] > 1e9 else 0.0)
    return total


def masking(x):
    total = 0.0
    for k in range(len(x)):
        total = total + np.sqrt(x[k] * (x[k] > 0.0)) + np.sqrt(squared_above(x[k])) * 0.0
    return total


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("f", [branching, masking])
def test_graphs(f, native):
    compiled = tg.compile(f, native=native)
    for _ in range(4):
        for x in POINTS:
            check(compiled.grad(x), expected(x))
            check(compiled.jvp((x,), (np.ones(3),))[1], np.sum(expected(x)))


def recurrence(x):
    """A loop whose carried value is cut off, and that ends in an infinite adjoint."""
    y = x[0]
    for _ in range(40):
        y = np.maximum(y * 0.5 - 1.0, 0.0)
    return np.sqrt(y) + x[1]


@pytest.mark.parametrize("native", [False, True])
def test_loops(native):
    compiled = tg.compile(recurrence, native=native)
    for _ in range(3):
        check(compiled.grad(np.array([3.0, 1.0])), [0.0, 1.0])


def test_float32():
    x = np.tile(np.float32(POINTS[0]), 10)
    for ramp in ("maximum", "where", "mask", "user"):
        found = tg.grad(composed(ramp))(x)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected(x), rtol=1e-6)


ROWS = np.array([[0.0, -3.0, -1.0], [4.0, 9.0, 1.0]])
ALONG = {
    "max": lambda x: np.max(x, axis=1),
    "min": lambda x: -np.min(-x, axis=1),
    "nanmax": lambda x: np.nanmax(x, axis=1),
    "maximum.reduce": lambda x: np.maximum.reduce(x, axis=1),
    "fmax.reduce": lambda x: np.fmax.reduce(x, axis=1),
    "accumulate": lambda x: np.maximum.accumulate(x, axis=1)[:, -1],
    "sort": lambda x: np.sort(x, axis=1)[:, -1],
    "partition": lambda x: np.partition(x, 2, axis=1)[:, -1],
    "quantile": lambda x: np.quantile(x, 1.0, axis=1),
    "percentile": lambda x: np.percentile(x[:, ::-1], 100, axis=1),
    "norm": lambda x: np.linalg.norm(x + 3.0, np.inf, axis=1) - 3.0,
    "take": lambda x: np.take_along_axis(x, np.argmax(x, axis=1)[:, None], 1),
}


@pytest.mark.parametrize("name", ALONG)
def test_the_largest_along_an_axis(name):
    f = lambda x: np.sum(np.sqrt(ALONG[name](x)))
    wanted = np.array([[np.inf, 0.0, 0.0], [0.0, 1.0 / 6.0, 0.0]])
    with np.errstate(divide="ignore"):
        compiled = tg.compile(f)
        for x in (ROWS, ROWS, ROWS):
            check(tg.grad(f)(x), wanted)
            check(compiled.grad(x), wanted)
        tangents = [tg.jvp(f, (ROWS,), (e.reshape(2, 3),))[1] for e in np.eye(6)]
        check(np.reshape(tangents, (2, 3)), wanted)
        check(tg.vjp(lambda x: tg.grad(f)(x), ROWS)[0], wanted)


def test_other_products_with_0_are_nan():
    """A derivative of 0 that is not that of another piece does not hide an infinite one."""
    for f in (lambda x: np.sqrt(x * 0.0), lambda x: np.sqrt(x**2), lambda x: np.sqrt(x * x)):
        assert np.isnan(tg.grad(f)(0.0))
        assert np.isnan(tg.grad(lambda x, f=f: np.sum(f(x)))(np.zeros(3))).all()
    assert np.isnan(tg.grad(lambda x: np.log(np.exp(x)))(-800.0))


@pytest.mark.parametrize("f", [np.arccos, np.log], ids=["arccos", "log"])
def test_clipped(f):
    clipped = lambda x: f(np.clip(x, -1.0, 1.0) if f is np.arccos else np.maximum(x, 0.0))
    assert tg.grad(clipped)(2.0 if f is np.arccos else -2.0) == 0.0


# --- texts ----------------------------------------------------------------------------------------

CHOICES = [
    op
    for op in TABLE.values()
    if special_rows.is_ordinary(op) and not op.steps and any(map(selects, op.partials))
]


@pytest.mark.parametrize("op", CHOICES, ids=operator.attrgetter("name"))
def test_texts_of_products(op):
    rng = np.random.default_rng(0)
    names = {name: rng.integers(-2, 3, 50).astype(float) for name in (*op.inputs, "out")}
    names |= {"np": np, "select": np.where, "g": rng.normal(size=50)}
    with np.errstate(all="ignore"):
        for partial in filter(selects, op.partials):
            value = np.broadcast_to(eval(partial, dict(names)), 50)
            found = np.broadcast_to(eval(product("g", partial), dict(names)), 50)
            np.testing.assert_array_equal(found, names["g"] * value)
            is_taken = np.broadcast_to(eval(taken(partial), dict(names)), 50)
            assert not value[~is_taken].any() and (~is_taken).any()
            infinite = eval(product("g", partial), {**names, "g": np.full(50, np.inf)})
            assert np.array_equal(np.broadcast_to(infinite, 50)[~is_taken], value[~is_taken])


def test_branches_of_texts():
    assert in_branches("select(x > y, 0.0, x)", "f({})".format) == "select(x > y, 0.0, f(x))"
    assert in_branches("select(x > y, x, y)", "f({})".format) == "f(select(x > y, x, y))"
    assert product("g", "select(x > y, 1.0, select(x < y, -1.0, 0.0))") == (
        "select(x > y, g, select(x < y, (-g), 0.0))"
    )
    assert [taken(text) for text in ("x", "0.0")] == ["True", "False"]
