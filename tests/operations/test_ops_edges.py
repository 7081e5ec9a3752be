"""Awkward points, ties, zero adjoints, and the operators of tensors."""

import numpy as np
import pytest
import rows
import scipy.special
from rows import same

import tapegrad as tg

inf, nan = np.inf, np.nan

# --- awkward points ---------------------------------------------------------------------------

#: row → points and the slopes that its text (or the formula) states there.
AWKWARD = {
    "power": [
        ((0.0, 2.0), (0.0, 0.0)),
        ((0.0, 1.0), (1.0, 0.0)),
        ((0.0, 0.0), (0.0, 0.0)),
        ((2.0, 0.0), (0.0, np.log(2.0))),
        ((-2.0, 3.0), (12.0, nan)),
        ((0.0, 0.5), (inf, 0.0)),
        ((inf, 1.0), (1.0, inf)),
    ],
    "remainder": [((2.0, 1.0), (1.0, -2.0)), ((-2.0, 1.0), (1.0, 2.0)), ((0.5, -1.0), (1.0, 1.0))],
    "fmod": [((2.0, 1.0), (1.0, -2.0)), ((-2.0, 1.0), (1.0, 2.0)), ((0.5, -1.0), (1.0, -0.0))],
    "absolute": [((0.0,), (0.0,)), ((-0.0,), (0.0,)), ((-inf,), (-1.0,)), ((nan,), (nan,))],
    "polygamma": [
        ((169.0, 20.0), (0.0, scipy.special.polygamma(170, 20.0))),
        ((170.0, 20.0), (0.0, inf)),
        ((171.0, 1.0), (0.0, -inf)),
        ((inf, 1.0), (0.0, -inf)),
    ],
    "sqrt": [((0.0,), (inf,)), ((-1.0,), (nan,)), ((inf,), (0.0,))],
    "cbrt": [((0.0,), (inf,)), ((-8.0,), (1 / 12,))],
    "arctan2": [((0.0, 0.0), (nan, nan)), ((0.0, -1.0), (-1.0, -0.0)), ((1.0, 0.0), (0.0, -1.0))],
    "hypot": [((0.0, 0.0), (0.0, 0.0)), ((0.0, -3.0), (0.0, -1.0))],
    "maximum": [
        ((1.0, 1.0), (0.5, 0.5)),
        ((2.0, 1.0), (1.0, 0.0)),
        ((0.0, -0.0), (0.5, 0.5)),
        ((inf, inf), (0.5, 0.5)),
    ],
    "minimum": [((1.0, 1.0), (0.5, 0.5)), ((2.0, 1.0), (0.0, 1.0)), ((-inf, -inf), (0.5, 0.5))],
    "fmax": [
        ((1.0, 1.0), (0.5, 0.5)),
        ((nan, 1.0), (0.0, 1.0)),
        ((1.0, nan), (1.0, 0.0)),
        ((3.0, 2.0), (1.0, 0.0)),
    ],
    "copysign": [((0.0, -2.0), (0.0, 0.0)), ((-3.0, 2.0), (-1.0, 0.0)), ((3.0, -0.0), (-1.0, 0.0))],
    "heaviside": [((0.0, 0.3), (0.0, 1.0)), ((1.0, 0.3), (0.0, 0.0)), ((-1.0, 0.3), (0.0, 0.0))],
    "i1": [((0.0,), (0.5,)), ((1e-9,), (0.5,)), ((-0.1,), (0.5018763024631687,))],
    "fmin": [
        ((1.0, 1.0), (0.5, 0.5)),
        ((nan, 1.0), (0.0, 1.0)),
        ((1.0, nan), (1.0, 0.0)),
        ((3.0, 2.0), (0.0, 1.0)),
    ],
    "clip": [
        ((0.0, 0.0, 1.0), (1.0, 0.0, 0.0)),
        ((1.0, 0.0, 1.0), (1.0, 0.0, 0.0)),
        ((-1.0, 0.0, 1.0), (0.0, 1.0, 0.0)),
        ((2.0, 0.0, 1.0), (0.0, 0.0, 1.0)),
        ((0.5, 2.0, 1.0), (0.0, 0.0, 1.0)),
    ],
    "where": [((0.0, nan, 2.0), (0.0, 0.0, 1.0)), ((1.0, 3.0, inf), (0.0, 1.0, 0.0))],
    "logaddexp": [
        ((-inf, -inf), (0.5, 0.5)),
        ((800.0, 0.0), (1.0, 0.0)),
        ((3.0, 3.0), (0.5, 0.5)),
        ((-inf, 1.0), (0.0, 1.0)),
    ],
    "logaddexp2": [
        ((-inf, -inf), (0.5, 0.5)),
        ((2000.0, 0.0), (1.0, 0.0)),
        ((3.0, 3.0), (0.5, 0.5)),
        ((inf, 1.0), (1.0, 0.0)),
    ],
    "log": [((0.0,), (inf,))],
    "log1p": [((-1.0,), (inf,))],
    "arcsin": [((1.0,), (inf,))],
    "arccos": [((-1.0,), (-inf,))],
    "arccosh": [((1.0,), (inf,))],
    "arctanh": [((1.0,), (inf,))],
    "divide": [((1.0, 0.0), (inf, -inf))],
    "reciprocal": [((0.0,), (-inf,))],
    "square": [((0.0,), (0.0,))],
    "tanh": [((1000.0,), (0.0,)), ((-inf,), (0.0,))],
    "sigmoid": [((1000.0,), (0.0,)), ((-1000.0,), (0.0,))],
    "exp": [((-inf,), (0.0,)), ((1000.0,), (inf,))],
    "sign": [((0.0,), (0.0,))],
    "floor": [((1.0,), (0.0,))],
    "rint": [((0.5,), (0.0,))],
    "sinc": [((0.0,), (0.0,)), ((1.0,), (-1.0,))],
}
AWKWARD_CASES = [(name, *case) for name, cases in AWKWARD.items() for case in cases]


def test_every_awkward_text_has_its_points():
    assert {op.name for op in rows.ROWS if op.awkward} <= set(AWKWARD)


@pytest.mark.parametrize("name,at,wanted", AWKWARD_CASES)
def test_slopes_at_awkward_points(name, at, wanted):
    """The same on the scalar switch, the array kernel, and a block of many elements."""
    every = tuple(range(len(at)))
    f = getattr(tg, name)
    np.testing.assert_allclose(tg.grad(f, every)(*at), wanted, rtol=1e-14)
    for n in (1, 5, 2000):
        arrays = [np.full(n, x) for x in at]
        found = tg.grad(lambda *a: np.sum(f(*a)), every)(*arrays)
        for gradient, slope in zip(found, wanted, strict=True):
            np.testing.assert_allclose(gradient, np.full(n, slope), rtol=1e-14)


@pytest.mark.parametrize("name,at", [("sqrt", 0.0), ("log", 0.0), ("arcsin", 1.0), ("power", 0.0)])
def test_a_zero_adjoint_hides_an_infinite_slope(name, at):
    """0·∞ is never computed: neither for scalars nor in kernels."""
    f = getattr(tg, name)
    f = f if name != "power" else lambda x: tg.power(x, 0.5)
    assert tg.grad(lambda x: 0.0 * f(x))(at) == 0.0
    x = np.array([at, 0.5, at])
    weights = np.array([0.0, 1.0, 0.0])
    found = tg.grad(lambda x: np.sum(weights * f(x)))(x)
    assert found[0] == found[2] == 0.0 and np.isfinite(found[1]) and found[1] != 0


@pytest.mark.parametrize("shape", [(3, 4), (80, 90), (3, 80, 90)])
def test_where_of_long_and_short_arrays_is_numpys(shape):
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=shape[-2:]), rng.normal(size=shape[-1])
    x[0, :3], y[:2] = [np.nan, np.inf, -0.0], [np.inf, np.nan]
    for condition in (rng.random(shape) < 0.5, rng.integers(0, 2, shape), np.float32(x > 0)):
        for a, b in ((x, y), (x, 0.5), (0.5, x), (x.T.copy().T, y), (x, np.float32(2.0))):
            wanted = np.where(condition, a, b)
            found = tg.where(condition, a, tg.tensor(b)).numpy()
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)


def test_where_hides_the_branch_not_taken():
    x = np.array([-1.0, 0.0, 4.0])
    found = tg.grad(lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0)))(x)
    assert np.array_equal(found, [0.0, 0.0, 0.25])
    found = tg.grad(lambda x: np.sum(np.where(x > 0, np.log(x), x)))(x)
    assert np.array_equal(found, [1.0, 1.0, 0.25])


# --- operators --------------------------------------------------------------------------------

OPERATORS = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "power": lambda x, y: x**y,
    "remainder": lambda x, y: x % y,
    "negative": lambda x: -x,
    "absolute": abs,
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("kinds", ["tt", "tf", "ft", "ta", "at", "ti"])
@pytest.mark.parametrize("shape", [(), (4,)])
def test_operators(name, kinds, shape, rng):
    """Tensor, float, array and int operands on either side."""
    op, operator = next(o for o in rows.ROWS if o.name == name), OPERATORS[name]
    if len(op.inputs) == 1 and kinds != "tt":
        return
    inputs = rows.points(op, shape, rng)
    for j, kind in enumerate(kinds[: len(inputs)]):
        if kind in "fi":
            inputs[j] = 0.7 if kind == "f" else 3
    if name == "remainder":
        inputs = [np.abs(x) + 0.01 for x in inputs]
    differentiated = tuple(j for j in range(len(inputs)) if kinds[j] == "t")
    found = tg.grad(lambda *a: np.sum(operator(*a)), differentiated)(*inputs)
    wanted = rows.partials(op, *inputs)
    for j, gradient in zip(differentiated, found, strict=True):
        same(gradient, rows.unbroadcast(wanted[j], np.shape(inputs[j])))


@pytest.mark.parametrize("exponent", [2, 2.0, 3, -1, -1.0, 0.5, 0, 1, -2, 1.5])
@pytest.mark.parametrize("x", [0.7, np.array([0.3, 2.0])])
def test_constant_exponents(x, exponent):
    found = tg.grad(lambda t: np.sum(t**exponent))(x)
    same(found, exponent * x ** (exponent - 1.0))


@pytest.mark.parametrize("exponent", [2, 3, 4.0])
def test_integer_exponents_of_zero_and_negative_numbers(exponent):
    for x in (0.0, -1.5):
        assert tg.grad(lambda t: t**exponent)(x) == pytest.approx(exponent * x ** (exponent - 1))
