"""The reverse sweep of second order: every element-wise operation, shapes, special values."""

import dataclasses
import itertools
import types

import numpy as np
import pytest
import rows
import second_order
from extent import some
from second_order import OPS, check, inside, names, public

import tapegrad as tg
from tapegrad._core.ops.symbolic import partials_of
from tapegrad._core.ops.table import TABLE, words_of
from tapegrad._core.sweep import second_order_kernels

every_op = pytest.mark.parametrize("op", OPS, ids=names)
#: Of several inputs, kernels of others have the same text but for expressions.
SEVERAL = [TABLE[name] for name in "add multiply divide power maximum where clip".split()]
some_op = pytest.mark.parametrize("op", SEVERAL, ids=[op.name for op in SEVERAL])
both_dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])
#: What expressions call.
FUNCTIONS = [*[op.name for op in OPS], "tanh_slope", "sigmoid_slope"]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 1e300, -1e-300]


def samples(op, shapes, rng, dtype=np.float64):
    xs = tuple(inside(op, k, shape, rng, dtype) for k, shape in enumerate(shapes))
    return xs, tuple(np.asarray(rng.normal(size=x.shape), dtype) for x in xs)


def total_of(op, weights):
    """A function with second derivatives wherever the operation passes anything on."""
    f = public(op)
    return lambda p: np.sum(np.cos(f(*p)) * weights)


# --- second partial derivatives -------------------------------------------------------------------


def scope_at(op, values):
    """The names in the expressions of an operation, for plain arrays."""
    names = dict(zip(op.inputs, values, strict=True))
    functions = {name: getattr(tg, name, None) or getattr(rows, name) for name in FUNCTIONS}
    functions = types.SimpleNamespace(**functions)
    return {"np": functions, "select": np.where, "out": public(op)(*values), **names}


def slopes_at(op, values):
    """Slopes of an operation as its text says."""
    scope = scope_at(op, values)
    return [np.asarray(eval(slope, scope)) * np.ones(len(values[0])) for slope in op.partials]


@every_op
def test_second_partials_are_differences_of_the_slopes(op):
    rng = np.random.default_rng(3)
    values = [inside(op, k, 20, rng) for k in range(len(op.inputs))]
    if op.name in ("remainder", "fmod", "clip", "floor_divide", "polygamma"):
        values[0] = np.round(values[0]) + 0.3 if op.name != "polygamma" else np.ones(20)
    partials = partials_of(op)
    scope = scope_at(op, values)
    for name, text in partials.steps:
        scope[name] = eval(text, scope)
    for j in range(len(values)):
        step = 1e-5
        ends = [
            slopes_at(op, [x + sign * step * (i == j) for i, x in enumerate(values)])
            for sign in (1, -1)
        ]
        for k, slope in enumerate(op.partials):
            found = np.asarray(eval(partials.second[k][j], scope)) * np.ones(20)
            wanted = (ends[0][k] - ends[1][k]) / (2 * step)
            if slope == "0.0" or op.partials[j] == "0.0":
                wanted = np.zeros(20)
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


#: Points where a condition of a partial derivative holds that holds nowhere near, or an operand is
#: 0, though the function has all its derivatives there.
SMOOTH = {
    "power": [(2.0, 0.0), (0.5, 0.0), (2.0, 1.0), (0.5, 2.0)],
    "hypot": [(0.0, 2.0), (2.0, 0.0), (-1.0, 0.0)],
    "arctan2": [(0.0, 2.0), (1.5, 0.0), (-1.0, 0.0)],
    "logaddexp": [(0.0, 0.0), (1.5, 1.5)],
    "logaddexp2": [(0.0, 0.0), (1.5, 1.5)],
    "multiply": [(0.0, 2.0), (0.0, 0.0)],
    "divide": [(0.0, 2.0)],
    "sinc": [(0.0,), (0.1,), (-0.1,)],
    "i1": [(0.0,), (0.3,), (-0.3,)],
    "tanh": [(0.0,), (4.15,)],
    "sigmoid": [(0.0,), (7.6,)],
    "maximum": [(1.0, 0.0), (0.0, 1.0)],
    "where": [(1.0, 0.0, 2.0), (0.0, 1.0, 0.0)],
}
SWEEPS = {
    "hvp": lambda f, p, v: tg.hvp(f)(p, v),
    "reverse over reverse": lambda f, p, v: tg.vjp(tg.grad(f), p)[1](v)[0],
    "forward over reverse": lambda f, p, v: tg.jvp(tg.grad(f), (p,), (v,))[1],
    "reverse over forward": lambda f, p, v: tg.grad(lambda p: tg.jvp(f, (p,), (v,))[1])(p),
    "compiled": lambda f, p, v: _later(lambda p, v: tg.hvp(f)(p, v), p, v),
}


def _later(f, p, v):
    """The third call of a function that is recorded elsewhere."""
    compiled = tg.compile(f)
    compiled([one + 0.25 for one in p], v)
    return [compiled(p, v) for _ in range(2)][-1]


def products_are_differences(f, sweep, p):
    for e in np.eye(len(p)):
        v, step = e.tolist(), 1e-5
        ends = [
            tg.grad(f)([x + sign * step * t for x, t in zip(p, v, strict=True)]) for sign in (1, -1)
        ]
        wanted = [(a - b) / (2 * step) for a, b in zip(*ends, strict=True)]
        np.testing.assert_allclose(SWEEPS[sweep](f, p, v), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize("name", SMOOTH)
def test_products_beside_branches_are_differences(name, sweep):
    op = public(TABLE[name])
    for point in SMOOTH[name]:
        if name == "where":
            products_are_differences(lambda p, c=point[0]: op(c, *p) ** 2, sweep, list(point[1:]))
            continue
        products_are_differences(lambda p: op(*p), sweep, list(point))
        arrays = lambda p: np.sum(op(*[np.stack([one, one]) for one in p]))
        products_are_differences(arrays, sweep, list(point))


@pytest.mark.parametrize("sweep", SWEEPS)
def test_products_at_weights_of_0(sweep):
    f = lambda p: tg.logsumexp(np.stack(p[:2]), b=np.stack(p[2:]))
    products_are_differences(f, sweep, [0.3, -0.5, 0.0, 1.0])


def test_what_cannot_be_read_has_no_partials():
    op = dataclasses.replace(next(op for op in OPS if op.name == "sin"), partials=("np.frexp(x)",))
    assert partials_of(op) is None


def test_kernels_read_what_they_say():
    for op in OPS:
        text = second_order_kernels.second_order_source(op, (1 << len(op.inputs)) - 1, 8)
        word = second_order_kernels.used_word(op)
        for j, name in enumerate((*op.inputs, "out")):
            if f"{name}_all" in words_of(text):
                assert word >> j & 1


# --- element-wise rows ----------------------------------------------------------------------------


@every_op
@both_dtypes
@pytest.mark.parametrize("size", [0, 1, 300, 2500])
def test_arrays_of_one_shape(op, dtype, size):
    rng = np.random.default_rng(size)
    x, v = samples(op, [size] * len(op.inputs), rng, dtype)
    total = total_of(op, np.asarray(rng.normal(size=size), dtype))
    check(total, x, v)
    check(lambda p: total([one[::-1] for one in p]), x, v)


@some_op
@both_dtypes
def test_broadcast_operands(op, dtype):
    rng = np.random.default_rng(1)
    for size in some((1, 7, 1100), f"{op.name} {np.dtype(dtype)}", 1):
        for shapes in itertools.product([(3, size), (size,), (3, 1), (1,)], repeat=len(op.inputs)):
            if len(op.inputs) > 2 and len(set(shapes)) < 3:
                continue
            x, v = samples(op, shapes, rng, dtype)
            weights = np.asarray(rng.normal(size=(3, size)), dtype)
            check(total_of(op, weights), x, v)


@some_op
@both_dtypes
def test_numbers_and_constants_as_operands(op, dtype):
    rng = np.random.default_rng(2)
    count = len(op.inputs)
    x, v = samples(op, [1100] * count, rng, dtype)
    total = total_of(op, np.asarray(rng.normal(size=1100), dtype))
    for k in range(count):
        check(lambda p, k=k: total([a[0] if j == k else a for j, a in enumerate(p)]), x, v)
        for fixed in (x[k], float(x[k][0])):
            at = lambda p, k=k, fixed=fixed: [fixed if j == k else a for j, a in enumerate(p)]
            check(lambda p, at=at: total(at(p)), x, v)


@every_op
def test_one_operand_repeated(op):
    if len(op.inputs) == 1:
        return
    rng = np.random.default_rng(4)
    x = np.asarray(0.3 + rng.random(1100))
    v = rng.normal(size=1100)
    f = public(op)
    check(lambda x: np.sum(np.cos(f(*[x] * len(op.inputs))) * v), x, v, given=None, noise=1e-10)
    parts = [slice(k, len(x) - 3 + k) for k in range(len(op.inputs))]
    check(
        lambda x: np.sum(np.cos(f(*[x[part] for part in parts])) * v[3:]),
        x,
        v,
        given=None,
        noise=1e-10,
    )


@every_op
def test_numbers(op):
    rng = np.random.default_rng(5)
    f, count = public(op), len(op.inputs)
    x = tuple(float(inside(op, k, (), rng)) for k in range(count))
    v = tuple(float(t) for t in rng.normal(size=count))
    check(lambda p: np.cos(f(*p)) * 2.0, x, v)
    for k in range(count):
        at = lambda p, k=k: [x[k] if j == k else a for j, a in enumerate(p)]
        check(lambda p, at=at: np.cos(f(*at(p))) * p[0], x, v)
    if count > 1:
        check(lambda p: np.cos(f(*[p[0] + 3.0] * count)) * p[0], x, v, given=None)


@every_op
def test_special_values_of_numbers(op):
    if len(op.inputs) > 2:
        return
    f = public(op)
    directions = [1.0, 0.0, np.inf] if len(op.inputs) == 1 else [(1.0, -2.0), (0.0, 1.0)]
    for x in itertools.product(SPECIAL, repeat=len(op.inputs)):
        for v in directions:
            along = v if isinstance(v, tuple) else (v,)
            check(lambda p: f(*p) * 0.75, x, along, given=None)


@every_op
def test_special_values_of_arrays(op):
    if len(op.inputs) > 2:
        return
    f = public(op)
    grid = np.array([*itertools.product(SPECIAL, repeat=len(op.inputs))]).T.copy()
    x = tuple(grid)
    for weight, along in itertools.product([0.75, 0.0], [1.0, 0.0, np.inf, np.nan]):
        v = tuple(np.full(grid.shape[1], along * sign) for sign in (1.0, -2.0)[: len(x)])
        check(lambda p, w=weight: np.sum(np.tanh(f(*p)) * w), x, v, given=None)
        for k in range(0, grid.shape[1], 7):  # one at a time: a NaN elsewhere hides nothing
            one, t = tuple(row[k : k + 1] for row in grid), tuple(row[k : k + 1] for row in v)
            check(lambda p, w=weight: np.sum(f(*p) * w), one, t, given=None)


# --- runs of rows ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(5,), (1024,), (1025,), (3, 700), (2, 3, 4), ()])
@both_dtypes
def test_chains_of_mixed_rows(shape, dtype):
    rng = np.random.default_rng(6)
    x, v = np.asarray(0.5 + rng.random(shape), dtype), np.asarray(rng.normal(size=shape), dtype)

    def f(x):
        y = x
        for _ in range(30):
            a = np.sin(y)
            y = a + np.exp(a * 0.1) - y / (2.0 + a * a)
            y = y + x + y
            y = -y * 0.25
        return np.sum(y * x)

    check(f, x, v)


def test_more_rows_than_a_run_takes_and_rows_between_them():
    rng = np.random.default_rng(7)
    x, v = rng.random((40, 50)), rng.normal(size=(40, 50))

    def f(x):
        y = x
        for k in range(150):
            y = y + 0.01 * y * x[k % 40]
            if k % 20 == 0:
                y = np.tanh(y @ x.T @ x * 0.01) + np.sum(y, axis=0) * 0.01
        return np.sum(y[::2, 1:] ** 2)

    check(f, x, v)


@pytest.mark.parametrize("order", ["C", "F", "strided", "backwards"])
def test_memory_orders(order):
    rng = np.random.default_rng(8)
    wide = rng.random((60, 40))
    x = {
        "C": wide,
        "F": np.asfortranarray(wide),
        "strided": wide[::2, ::3],
        "backwards": wide[::-1],
    }
    x = x[order]
    v = rng.normal(size=x.shape)
    check(lambda x: np.sum(np.exp(x.T * 0.5).T * np.sin(x)[::-1] * x[:, ::-1]), x, v)
    check(lambda x: np.sum(x.reshape(-1) ** 3) + np.sum(np.sqrt(x.ravel("F")[::3])), x, v)


# --- numbers, in loops ----------------------------------------------------------------------------


def test_loops_over_numbers_across_chunks():
    def f(p):
        a, b = p
        for k in range(3000):
            a = a * 0.999 + np.sin(b) * 1e-3 - a * b / (1.0 + k)
            b = b + a * a * 1e-4
        return a * b

    check(f, (0.3, 0.7), (1.0, -0.5))


def test_reads_of_elements():
    rng = np.random.default_rng(9)
    x, v = rng.random(5000), rng.normal(size=5000)

    def f(x):
        total = 0.0
        for i in range(4999):
            total = total + x[i] * x[i + 1] * x[i]
        return total / x[0]

    check(f, x, v)
    found = tg.hvp(lambda x: sum(x[i] ** 3 for i in range(5)))(x[:5], v[:5])
    np.testing.assert_allclose(found, 6.0 * x[:5] * v[:5], rtol=1e-14)


def test_numbers_and_arrays_mixed():
    rng = np.random.default_rng(10)
    x, v = rng.random(6), rng.normal(size=6)

    def f(x):
        s = x[0] * np.sin(x[1])
        y = np.stack([s, x[2], s * s, 1.0 + x[3] * s])
        return np.sum(np.exp(y) * s) * y[1] + np.max(y)

    check(f, x, v)


def test_helpers_count_what_is_given():
    with second_order.counted() as counts:
        tg.hvp(np.sin)(1.0, 1.0)
    assert counts == {"given": 1, "left": 0}
