"""Forward mode: every op of the table against reverse mode, in-place writes, nesting."""

import dataclasses

import declared
import numpy as np
import pytest
import rows
from rows import both_ways, leaves, same

import tapegrad as tg
from tapegrad._core.ops.table import BY_CODE, TABLE, Pointwise
from tapegrad._derivatives import forward_mode

every_row = pytest.mark.parametrize("op", rows.ROWS, ids=rows.NAMES)
X = np.array([[0.3, -1.2, 0.7], [2.2, 0.9, 1.7]])


def ours(op):
    return getattr(tg, op.name)


# --- every op -------------------------------------------------------------------------------------


@every_row
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (1500,), (0,)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_element_wise_rows_agree_with_reverse_mode(op, shape, dtype, rng):
    points = rows.points(op, shape, rng, dtype)
    if shape == () and dtype == np.float64:
        points = [float(x) for x in points]
    both_ways(ours(op), points, rng, 1e-12 if dtype == np.float64 else 2e-4)


@every_row
def test_element_wise_rows_agree_with_their_slopes(op, rng):
    """One input at a time; the others are constants."""
    points = rows.points(op, (7,), rng)
    for j, slope in enumerate(rows.partials(op, *points)):

        def f(x, j=j):
            return ours(op)(*[x if k == j else y for k, y in enumerate(points)])

        direction = rng.normal(size=7)
        _, tangent = tg.jvp(f, (points[j],), (direction,))
        same(tangent, slope * direction)


@pytest.mark.parametrize("op", [op for op in rows.ROWS if len(op.inputs) > 1], ids=lambda o: o.name)
def test_element_wise_rows_broadcast(op, rng):
    shapes = [(3, 1), (4,), ()]
    points = [
        rows.points(op, s, rng)[j] for j, s in zip(range(len(op.inputs)), shapes, strict=False)
    ]
    if op.name == "remainder":
        points[0], points[1] = np.floor(points[0] * 4) + 0.37, np.where(points[1] < 1.5, 1.0, 2.0)
    both_ways(ours(op), points, rng)


def _stored(x):
    y = x * 2.0
    y[1, 1] = x[0, 1] * x[1, 2]
    return y


STRUCTURE = {
    "link": lambda x: np.concatenate([x.sum(axis=1), np.tile(x[0], 2), np.roll(x[1], 1)]),
    "sum": lambda x: np.sum(x) * x[0, 0],
    "pack": lambda x: tg.asarray([x[0, 1] * x[1, 1], 2.0, x[0, 0]]),
    "load": lambda x: x[1, 2] * x[0, 1],
    "store": _stored,
    "convert": lambda x: (x[::-1].astype(np.float32) * x.astype(np.float32)).astype(float),
    "gather": lambda x: x[[0, 1, 1], [2, 0, 0]] * x[x > 0.8],
    "scatter_add": lambda x: tg.grad(lambda y: np.sum(y[[0, 2, 2]] ** 2 * x[0]))(x[1]),
    "write": None,
    "scatter": None,
    "max": lambda x: (np.max(x, 1), np.max(x), np.max(x, 0, keepdims=True)),
    "min": lambda x: (np.min(x, 1), np.min(x), np.min(x, 0, keepdims=True)),
    "prod": lambda x: (np.prod(x, 1), np.prod(x), np.prod(x * (x > 0.5), 1)),
    "logsumexp": lambda x: (tg.logsumexp(x, 0), tg.logsumexp(x)),
    "softmax": lambda x: (tg.softmax(x, 0), tg.softmax(x), tg.softmax(x[:, ::2], 1)),
    "log_softmax": lambda x: (tg.log_softmax(x, 0), tg.log_softmax(x)),
    "cumsum": lambda x: (np.cumsum(x, 0), np.cumsum(x), np.cumsum(x[:, ::-1], 1)),
    "cumprod": lambda x: (np.cumprod(x, 0), np.cumprod(x), np.cumprod(x * (x > 0.5))),
    "contract": lambda x: (x @ x.T, x[0] @ x[1], np.einsum("ij,kj,k->i", x, x, x[:, 0])),
}


def written(x):
    y = x * 1.0
    y *= x[0]
    y[0] = y[1] ** 2
    y[:, 1] = x[:, 0]
    s = y[0, 0] * 3.0
    y[0, 0] = s * y[1, 1]
    y[1, ::2] += y[0, ::2]
    y[0, 2] = 4.0
    x[1] = y[0] * x[0]
    return y * x


def scattered(x):
    y = np.zeros_like(x)
    y[[0, 1, 1], [0, 2, 2]] = x[0]
    y[x > 1.0] = x[0, 0]
    z = y * y
    y[np.array([0, 1]), np.array([1, 1])] = z[:, 0]
    y[y > 100.0] = 0.0
    return y * z


class Products(tg.autograd.Function):
    """Two results of two arguments, with both derivatives written by hand."""

    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y, (x * x).sum()

    def backward(ctx, product, square):
        x, y = ctx.saved_tensors
        return product * y + 2 * square * x, product * x

    def jvp(ctx, x_dot, y_dot):
        x, y = ctx.saved_tensors
        return x_dot * y + x * y_dot, 2 * (x * x_dot).sum()


STRUCTURE |= {"function": lambda x: Products.apply(x, x[::-1] * 2.0)}
STRUCTURE |= {"write": written, "scatter": scattered}
STRUCTURE |= {
    "solve": lambda x: tuple(np.linalg.solve(x @ x.T + np.eye(2), b) for b in (x, x[:, 0])),
    "cholesky": lambda x: np.linalg.cholesky(x @ x.T + np.eye(len(x))),
}


def test_every_op_has_a_tangent_rule_and_a_test():
    structural = {name for name, op in TABLE.items() if not isinstance(op, Pointwise)}
    structural |= {"load", "store"}
    ruled = {name for name in structural if getattr(TABLE.get(name), "vjp", None)}
    assert set(forward_mode.BY_HAND) == structural - ruled
    assert set(STRUCTURE) | {op.name for op in declared.OPS} == structural


@pytest.mark.parametrize("name", STRUCTURE)
def test_structural_rows_agree_with_reverse_mode(name, rng):
    f = STRUCTURE[name]
    assert name in {row.op for row in tg.record(f, X).rows}
    both_ways(f, (X,), rng, 1e-6 if name == "convert" else 1e-12)


@pytest.mark.parametrize("name", STRUCTURE)
def test_directions_at_once_are_those_one_by_one(name):
    columns = tg.autograd.functional.jacobian(
        STRUCTURE[name], tg.tensor(X), strategy="forward-mode"
    )
    for k, unit in enumerate(np.eye(6).reshape(6, 2, 3)):
        _, tangents = tg.jvp(STRUCTURE[name], (X,), (unit,))
        for column, tangent in zip(
            columns if isinstance(columns, tuple) else (columns,), leaves(tangents), strict=True
        ):
            same(column.numpy()[..., k // 3, k % 3], tangent, 1e-14)


@pytest.mark.parametrize("name", [n for n in STRUCTURE if n not in ("convert", "write", "scatter")])
def test_tangents_are_recorded(name, rng):
    """The gradient of w·J(x)·v by x, against differences of it."""
    v = rng.normal(size=X.shape)

    def f(x):
        _, tangents = tg.jvp(STRUCTURE[name], (x,), (v,))
        parts = tangents if isinstance(tangents, tuple) else (tangents,)
        return sum(np.sum(np.cos(np.arange(np.size(t))).reshape(np.shape(t)) * t) for t in parts)

    step = 1e-6
    wanted = [(f(X + step * e) - f(X - step * e)) / (2 * step) for e in np.eye(6).reshape(6, 2, 3)]
    found = tg.grad(f)(X)
    np.testing.assert_allclose(found.ravel(), wanted, rtol=1e-7, atol=1e-7)


# --- in-place writes ------------------------------------------------------------------------------


def test_values_are_those_at_the_time_of_the_row():
    """y is read, then written: the slope is the old value."""

    def f(x):
        y = x * 1.0
        z = y * y
        y[...] = 5.0
        return z + y

    assert tg.jvp(f, (np.array([3.0]),), (np.array([1.0]),))[1].tolist() == [6.0]


def test_a_walk_leaves_values_as_they_are():
    kept = []

    def f(x):
        y = x * 1.0
        y[0] = y[1] * y[1]
        kept.append(y)
        return y * y

    value, _ = tg.jvp(f, (np.array([1.0, 2.0]),), (np.ones(2),))
    assert value.tolist() == [16.0, 4.0]
    assert np.asarray(kept[0]).tolist() == [4.0, 2.0]


def test_a_written_buffer_in_another_layout(rng):
    def f(x):
        t = tg.asarray(np.asfortranarray(np.ones((3, 2)))[::-1])
        t[0] = x[0, :2]
        t[:, 1] = x[1]
        r = t[2] * t[0]
        t[2] = r[0] * x[1, 1]
        return t * t * t[1, 0]

    both_ways(f, (X,), rng)


def test_a_loop_of_writes_can_be_differentiated_again(rng):
    """Each step reads what is not written afterwards."""

    def f(x):
        h = np.zeros_like(x, shape=(5, 3))
        h[0] = x[0]
        for k in range(4):
            h[k + 1] = np.tanh(h[k] * x[1])
        return np.sum(h**2)

    v = rng.normal(size=X.shape)
    step = 1e-6
    along = lambda x: tg.jvp(f, (x,), (v,))[1]
    wanted = [
        (along(X + step * e) - along(X - step * e)) / (2 * step) for e in np.eye(6).reshape(6, 2, 3)
    ]
    np.testing.assert_allclose(tg.grad(along)(X).ravel(), wanted, rtol=1e-7, atol=1e-8)


# --- awkward points -------------------------------------------------------------------------------


def test_zero_wins_over_infinity():
    """As in reverse mode: the branch not taken gives exactly 0."""
    f = lambda x: np.where(x > 0.0, np.sqrt(x), x)
    _, tangent = tg.jvp(f, (np.array([0.0, 4.0]),), (np.ones(2),))
    assert tangent.tolist() == [1.0, 0.25]
    assert tg.jvp(np.sqrt, (0.0,), (0.0,))[1] == 0.0
    assert tg.jvp(np.sqrt, (0.0,), (1.0,))[1] == np.inf
    assert tg.jvp(lambda x: 1.0 / x, (0.0,), (1.0,))[1] == -np.inf


def test_results_that_do_not_depend_on_the_inputs():
    value, tangent = tg.jvp(lambda x: (x * 2, 3.0, np.floor(x)), (1.5,), (1.0,))
    assert value == (3.0, 3.0, 1.0)
    assert tangent == (2.0, 0.0, 0.0)


def test_a_long_cumprod_with_zeros(rng):
    x = rng.normal(size=(3, 37))
    x[0, 5] = x[1, 7] = x[1, 9] = 0.0
    both_ways(lambda x: np.cumprod(x, 1), (x,), rng)


# --- nesting --------------------------------------------------------------------------------------


def energy(x):
    return np.sum(np.sin(x) * np.exp(x[::-1]) * x[0])


def test_all_ways_to_a_second_derivative(rng):
    x, v, w = rng.normal(size=(3, 4))
    hessian = tg.jacobian(tg.grad(energy))(x)
    same(tg.jvp(tg.grad(energy), (x,), (v,))[1], hessian @ v)
    same(tg.grad(lambda x: tg.jvp(energy, (x,), (v,))[1])(x), hessian @ v)
    inner = lambda x: tg.jvp(energy, (x,), (v,))[1]
    same(tg.jvp(inner, (x,), (w,))[1], w @ hessian @ v)
    same(tg.jacobian(lambda v: tg.jvp(energy, (x,), (v,))[1])(v), tg.grad(energy)(x))


def test_third_derivative_by_three_walks():
    f = lambda x: x * np.sin(x)
    for _ in range(3):
        f = lambda x, f=f: tg.jvp(f, (x,), (1.0,))[1]
    x = 0.7
    np.testing.assert_allclose(f(x), -3 * np.sin(x) - x * np.cos(x), rtol=1e-13)


def test_no_perturbation_confusion():
    inner = lambda x: tg.jvp(lambda y: x * y, (3.0,), (1.0,))[1]
    assert tg.jvp(lambda x: x * inner(x), (2.0,), (1.0,)) == (4.0, 4.0)
    assert tg.grad(lambda x: x * tg.jvp(lambda y: y * y * x, (x,), (1.0,))[1])(3.0) == 54.0


def test_a_tensor_from_outside_keeps_its_derivative():
    w = tg.tensor(3.0, requires_grad=True)
    _, tangent = tg.jvp(lambda x: x * x * w, (2.0,), (1.0,))
    tangent.backward()
    assert w.grad.item() == 4.0


# --- errors, and the checks see a wrong rule ------------------------------------------------------


def test_errors():
    with pytest.raises(TypeError, match="tapegrad.jvp: primals has type float; it must be a tuple"):
        tg.jvp(np.sin, 1.0, (1.0,))
    with pytest.raises(TypeError, match="tapegrad.jvp: tangents has type ndarray"):
        tg.jvp(np.sin, (1.0,), np.ones(1))
    with pytest.raises(ValueError, match="give one tangent for each primal"):
        tg.jvp(np.add, (1.0, 2.0), (1.0,))
    with pytest.raises(ValueError, match=r"tangents\[0\] has shape \(2,\), the primal \(3,\)"):
        tg.jvp(np.sin, (np.ones(3),), (np.ones(2),))


def declared_otherwise(monkeypatch, name, **fields):
    """Let an operation have another declaration, for a test."""
    op = dataclasses.replace(TABLE[name], **fields)
    monkeypatch.setitem(BY_CODE, op.code, op)


def test_an_op_without_a_rule_is_refused(monkeypatch):
    declared_otherwise(monkeypatch, "sum", vjp=None, jvp=None)
    with pytest.raises(NotImplementedError, match="a forward derivative through sum is not"):
        tg.jvp(np.sum, (np.ones(3),), (np.ones(3),))


def test_used_up_rows_are_refused():
    w = tg.tensor([1.0, 2.0], requires_grad=True)

    def f(x):
        y = np.sum(w * w * x)
        y.backward()
        return y

    def g(x):
        y = np.zeros_like(w, shape=(2,))
        y[...] = w * x
        np.sum(y).backward()
        return y

    for used in (f, g):
        with pytest.raises(RuntimeError, match="used up by a backward pass"):
            tg.jvp(used, (1.0,), (1.0,))


@pytest.mark.parametrize(
    "name,slopes", [("sin", ("np.cos(x) * 1.000001",)), ("multiply", ("y", "y"))]
)
def test_a_planted_wrong_slope_is_caught(name, slopes, rng, monkeypatch):
    op = TABLE[name]
    points = rows.points(op, (5,), rng)
    both_ways(ours(op), points, rng)
    declared_otherwise(monkeypatch, name, partials=slopes)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        both_ways(ours(op), points, rng)


def test_a_planted_wrong_rule_is_caught(rng, monkeypatch):
    right = TABLE["sum"].jvp
    declared_otherwise(monkeypatch, "sum", jvp=lambda *a: right(*a) * 1.001)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        both_ways(STRUCTURE["sum"], (X,), rng)


def test_the_gradient_through_windows_forwards():
    """Elements in several windows get the tangents of the adjoints of all of them."""
    windows = np.lib.stride_tricks.sliding_window_view
    x, v = np.array([0.3, -0.5, 0.7, 1.1]), np.array([1.0, 2.0, -1.0, 0.5])
    f = lambda x: np.sum(np.tanh(windows(x * 1.0, 2)))
    second = -2.0 * np.tanh(x) * (1.0 - np.tanh(x) ** 2) * [1.0, 2.0, 2.0, 1.0]
    _, found = tg.jvp(tg.grad(f), (x,), (v,))
    np.testing.assert_allclose(found, second * v, rtol=1e-13)
    np.testing.assert_allclose(tg.hvp(f)(x, v), second * v, rtol=1e-13)
    along = tg.grad(lambda x: np.sum(tg.jvp(tg.grad(f), (x,), (v,))[1] * v))
    h = 1e-5
    g = lambda x: np.sum(tg.hvp(f)(x, v) * v)
    wanted = [(g(x + h * e) - g(x - h * e)) / (2 * h) for e in np.eye(4)]
    np.testing.assert_allclose(along(x), wanted, rtol=1e-7)
