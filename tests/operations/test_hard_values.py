"""Values of every element-wise operation at hard inputs, as NumPy or SciPy compute them.

Zeros of both signs, infinities, NaN, denormals, halves, huge and tiny numbers; eager, interpreted
and native, of arrays and of numbers. Many operations are one program.
"""

import functools
import warnings

import numpy as np
import pytest
import rows
from extent import some

import tapegrad as tg

inf, nan = np.inf, np.nan
_ONE = [0.0, 5e-324, 1e-310, 2.3e-308, 1e-20, 1e-9, 0.1, 0.3, 0.49999999999999994, 0.5, 0.7]
_ONE += [0.999999999, 1.0, 1.0000000001, 1.5, 2.0, 2.5, 3.0, np.pi, 20.0, 40.0, 170.5, 710.0, 745.0]
_ONE += [1e5, 1e10, 4503599627370497.5, 1e16, 1e300, inf]
ONE = np.array([*_ONE, *[-x for x in _ONE], nan])
TWO = np.array([0.0, -0.0, inf, -inf, nan, 5e-324, -1e-310, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, 0.1])
TWO = np.concatenate([TWO, [-0.1, 0.3, 3.0, -0.7, 1e-20, 1e10, 1e16, -1e16, 1e300, 710.0, -745.0]])
THREE = np.array([0.0, -0.0, inf, -inf, nan, 1.0, -1.0, 1e300, 0.5])
#: May differ from NumPy's by so many units in the last place; of sums, of those of the operands.
ULPS = 8
#: NumPy's own loops differ in the sign of a zero, by its build and by how many elements there are.
EITHER_ZERO = {"maximum", "minimum", "fmax", "fmin", "clip", "power"}


def points(op):
    """Inputs, each of one axis: all combinations of hard ones."""
    given = {1: [ONE], 2: [TWO] * 2, 3: [THREE] * 3}[len(op.inputs)]
    if op.name == "polygamma":
        given = [np.array([1.0, 2.0, 10.0, 171.0]), ONE[ONE > 0.0]]
    return [x.ravel() for x in np.meshgrid(*given, indexing="ij")]


#: Operations of so many inputs, a program each.
GROUPS = [
    [op for op in rows.ROWS if len(op.inputs) == count and op.name != "polygamma"][start::step]
    for count, step in ((1, 3), (2, 2), (3, 1))
    for start in range(step)
]


def check(op, found, inputs):
    with np.errstate(all="ignore"):
        wanted = rows.numpy_function(op)(*inputs) if op.name != "where" else np.where(*inputs)
        found, size = np.asarray(found, float), np.abs(wanted)
        if op.name in ("logaddexp", "logaddexp2"):
            size = np.maximum(size, np.max(np.abs(inputs), axis=0))
        apart = np.abs(found - wanted) / np.spacing(np.maximum(size, 2.3e-308))
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted)) | (apart <= ULPS)
    if op.name not in EITHER_ZERO:
        same &= np.isnan(wanted) | (np.signbit(found) == np.signbit(wanted))
    if op.name == "power":  # NumPy takes the root, by shape, where the exponent is one half
        same |= (inputs[1] == 0.5) & (inputs[0] == -inf)
    k = np.flatnonzero(~same)[:5]
    places = [tuple(x[j] for x in inputs) for j in k]
    assert same.all(), f"{op.name} at {places}: {found[k]}, not {wanted[k]}"


def call(op, *operands):
    if op.name == "where":
        operands = (operands[0] != 0.0, *operands[1:])
    return getattr(tg, op.name)(*operands)


@pytest.mark.parametrize("op", rows.ROWS, ids=rows.NAMES)
def test_eager_values(op):
    inputs = points(op)
    check(op, call(op, *[tg.tensor(x, requires_grad=True) for x in inputs]).detach(), inputs)
    many = [np.resize(x, 5000) for x in inputs]
    check(op, call(op, *[tg.tensor(x, requires_grad=True) for x in many]).detach(), many)
    if len(op.inputs) < 3:
        pairs = zip(*[x.tolist() for x in inputs], strict=True)
        made = [call(op, *[tg.tensor(x, requires_grad=True) for x in pair]) for pair in pairs]
        check(op, [one.item() for one in made], inputs)


def of_arrays(ops, *inputs):
    return [call(op, *inputs) for op in ops]


def of_numbers(ops, *inputs):
    pairs = list(zip(*[list(x) for x in inputs], strict=True))
    return [[call(op, *pair) for pair in pairs] for op in ops]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("ops", GROUPS, ids=lambda ops: f"{ops[0].name}-{ops[-1].name}")
@pytest.mark.parametrize("form", [of_arrays, of_numbers])
def test_values_in_programs(form, ops, native):
    """Recorded at ordinary numbers, which choose other branches."""
    inputs = points(ops[0])
    if form is of_numbers:
        chosen = np.random.default_rng(0).permutation(len(inputs[0]))[:40]
        inputs = [x[chosen] for x in inputs]
    f = functools.partial(form, ops)
    c = tg.compile(f, argnums=tuple(range(len(inputs))), native=native, verify="never")
    ordinary = [np.full(len(x), 0.3 + 0.1 * k) for k, x in enumerate(inputs)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        c(*ordinary)
        c(*ordinary)
        c.wait()
        for op, found in zip(ops, c(*inputs), strict=True):
            check(op, found, inputs)


@pytest.mark.parametrize("decimals", [-5, -1, 0, 1, 7])
def test_rounding_to_decimals(decimals):
    rng = np.random.default_rng(0)
    halves = (rng.integers(-10000, 10000, 500) + 0.5) * 10.0**-decimals
    x = np.concatenate([halves, rng.normal(size=500) * 1e6, TWO])
    with np.errstate(all="ignore"):
        wanted = np.round(x, decimals)
    found = np.round(tg.tensor(x, requires_grad=True), decimals)
    np.testing.assert_array_equal(found.detach().numpy(), wanted)
    assert not tg.grad(lambda u: np.sum(np.round(u, decimals)))(halves).any()


# --- slopes -------------------------------------------------------------------------------------

FAR = np.array([inf, -inf, 0.0, 1.0, -2.0, 1e300, nan])
CHAINS = {
    "times x": lambda op, x, *others: call(op, x, *others) * x,
    "tanh": lambda op, x, *others: np.tanh(call(op, x, *others)),
    "exp": lambda op, x, *others: np.exp(-call(op, x, *others)) * 2.0 + np.tanh(x),
    "twice": lambda op, x, *others: call(op, x, *others) + 3.0 * call(op, 2.0 * x, *others),
    "below 1": lambda op, x, *others: 1.0 / (1.0 + call(op, x, *others)),
}


def chained(ops, chain, by_number, table, *others):
    """The sum of a chain over a row of a table for each operation: its gradient has such rows."""
    total = 0.0
    for op, row in zip(ops, list(table), strict=True):
        given = [others[k] for k in range(len(op.inputs) - 1)]
        if by_number:
            total = total + sum(CHAINS[chain](op, x, *given) for x in row)
        else:
            total = total + np.sum(CHAINS[chain](op, row, *given))
    return total


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("ops", GROUPS[:5], ids=lambda ops: ops[0].name)
def test_slopes_at_infinity(ops, chain):
    """Eager and compiled gradients are NaN, infinite and finite at the same places."""
    table, near = np.tile(FAR, (len(ops), 1)), np.full((len(ops), len(FAR)), 0.3)
    with np.errstate(all="ignore"):
        wanted = tg.grad(functools.partial(chained, ops, chain, False))(table, -3.0)
        # by numbers or arrays, and natively: neighbours have the one and the other of both
        ways = [(False, False), (True, True), (False, True), (True, False)]
        for by_number, native in some(ways, f"{ops[0].name} {chain}"):
            f = functools.partial(chained, ops, chain, by_number)
            np.testing.assert_allclose(tg.grad(f)(table, -3.0), wanted, rtol=1e-10)
            c = tg.compile(f, native=native, verify="never")
            c.grad(near, 0.7)
            c.grad(0.5 * near, 0.7)
            c.wait()
            np.testing.assert_allclose(c.grad(table, -3.0), wanted, rtol=1e-10)
            assert c._reason is None


@pytest.mark.parametrize("f,base", [(np.logaddexp, np.e), (np.logaddexp2, 2.0)])
@pytest.mark.parametrize("x", [[0.7, 0.7], [0.7, 0.2], [-3.0, 4.0]])
def test_second_derivatives_of_sums_of_exponentials(f, base, x):
    """A slope that is a constant where both are equal has no slope of its own there."""
    x = np.array(x)
    share = 1.0 / (1.0 + base ** (x[1] - x[0]))
    wanted = np.log(base) * share * (1.0 - share) * np.array([[1.0, -1.0], [-1.0, 1.0]])
    numbers = lambda v: f(v[0], v[1])
    arrays = lambda v: np.sum(f(v[:1], v[1:]))
    for one in (numbers, arrays):
        compiled = tg.compile(one)
        for hessian in (tg.hessian(one), compiled.hessian, compiled.hessian):
            np.testing.assert_allclose(hessian(x), wanted, 1e-11, 1e-15)
        compiled = tg.compile(one)
        compiled.hessian(np.array([3.0, 1.0]))
        np.testing.assert_allclose(compiled.hessian(x), wanted, 1e-11, 1e-15)


@pytest.mark.parametrize("f", [np.logaddexp, np.logaddexp2])
@pytest.mark.parametrize(
    "x,wanted",
    [
        ([np.inf, np.inf], [0.5, 0.5]),
        ([-np.inf, -np.inf], [0.5, 0.5]),
        ([np.inf, 1.0], [1.0, 0.0]),
        ([1.0, np.inf], [0.0, 1.0]),
        ([-np.inf, 1.0], [0.0, 1.0]),
        ([np.nan, 1.0], [np.nan, np.nan]),
    ],
)
def test_infinite_sums_of_exponentials(f, x, wanted):
    x = np.array(x)
    for one in (lambda v: f(v[0], v[1]), lambda v: np.sum(f(v[:1], v[1:]))):
        np.testing.assert_array_equal(tg.grad(one)(x), wanted)
        compiled = tg.compile(one)
        for _ in range(2):
            np.testing.assert_array_equal(compiled.grad(x), wanted)
