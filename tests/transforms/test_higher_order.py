"""Derivatives of derivatives: every element-wise row to third order, structure, nesting."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.ops.table import TABLE, Pointwise

ROWS = [
    op
    for op in TABLE.values()
    if isinstance(op, Pointwise) and "complex_" not in op.name and not op.apart
]
NAMES = [op.name for op in ROWS]
STEP = 1e-5


def point(op, rng):
    """A point inside the domain, away from its edges and from ties."""
    return [low + (high - low) * rng.uniform(0.3, 0.7) for low, high in op.domain]


def differentiable(op):
    return [k for k, slope in enumerate(op.partials) if slope != "0.0"]


def central(f, values, k):
    up, down = list(values), list(values)
    up[k] += STEP
    down[k] -= STEP
    return (f(*up) - f(*down)) / (2 * STEP)


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", NAMES)
def test_second_and_third_order_of_a_row(name, rng):
    op = TABLE[name]
    f = tg.__dict__[name]
    values = point(op, rng)
    for k in differentiable(op):
        first = tg.grad(f, k)
        for j in differentiable(op):
            second = tg.grad(first, j)
            close(second(*values), central(first, values, j))
            close(tg.grad(second, k)(*values), central(second, values, k))


@pytest.mark.parametrize("name", NAMES)
def test_recorded_rule_equals_compiled_rule(name, rng):
    """The adjoint written as rows and the compiled one give the same numbers."""
    op = TABLE[name]
    f = tg.__dict__[name]
    spread = [0.01 * (low < high) for low, high in op.domain]  # orders of polygamma stay whole
    arrays = [
        np.full(3, v) * (1 + s * np.arange(3)) for v, s in zip(point(op, rng), spread, strict=True)
    ]
    for k in differentiable(op)[:1]:
        compiled = tg.grad(lambda *a: np.sum(f(*a)), k)(*arrays)
        inside = []

        def around(scale, k=k, inside=inside):
            found = tg.grad(lambda *a: np.sum(f(*a)) * scale, k)(*arrays)
            inside.append(found.detach().numpy())
            return np.sum(found)

        total = tg.grad(around)(2.0)
        np.testing.assert_allclose(inside[0], 2.0 * compiled, rtol=1e-14)
        np.testing.assert_allclose(total, compiled.sum(), rtol=1e-14)


windows = np.lib.stride_tricks.sliding_window_view
STRUCTURE = {
    "slices": lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2),
    "reversed": lambda x: np.sum(x[::-1] * x**3),
    "picked": lambda x: np.sum(x[[0, 0, 2]] ** 3) * x[1],
    "mask": lambda x: np.sum(x[np.array([True, False, True, True, False, True])] ** 3),
    "broadcast": lambda x: np.sum(x[None, :] * x[:, None] ** 2),
    "where": lambda x: np.sum(np.where(x > 0.5, x**3, np.exp(x))),
    "matmul": lambda x: np.sum(np.tanh(x.reshape(2, 3) @ x.reshape(3, 2)) ** 2),
    "dot": lambda x: np.dot(x, x) ** 2,
    "einsum": lambda x: np.sum(np.einsum("ij,kj,k->i", x.reshape(2, 3), x.reshape(2, 3), x[:2])),
    "logsumexp": lambda x: tg.sum(tg.logsumexp(x.reshape(2, 3), axis=1) ** 2),
    "softmax": lambda x: tg.sum(tg.softmax(x.reshape(2, 3), axis=0) ** 2 * x.reshape(2, 3)),
    "log_softmax": lambda x: tg.sum(tg.log_softmax(x) ** 2),
    "max": lambda x: np.max(x) ** 3 + np.sum(np.min(x.reshape(2, 3), axis=0) ** 3),
    "prod": lambda x: np.prod(x) + np.sum(np.prod(x.reshape(2, 3), axis=1) ** 2),
    "cumsum": lambda x: np.sum(np.cumsum(x.reshape(2, 3), axis=0) ** 3),
    "cumprod": lambda x: np.sum(np.cumprod(x) ** 2),
    "windows": lambda x: np.sum(windows(x, 3) ** 3 * x[:3]),
    "windows_of_two_axes": lambda x: np.sum(np.exp(windows(x.reshape(2, 3), (2, 2))) * x[0]),
    "windows_far_apart": lambda x: np.sum(windows(x, 4)[::2, ::3] ** 2 * x[:2]),
    "windows_of_windows": lambda x: np.sum(windows(windows(x**2, 3), (2, 2)) ** 2),
    "windows_and_matmul": lambda x: np.sum((windows(x, 3) @ x[:3]) ** 3),
    "concatenate": lambda x: np.sum(np.concatenate((x[:2], x[3:] ** 2, [x[0] * x[1]])) ** 2),
    "norm": lambda x: np.linalg.norm(x),
    "var": lambda x: np.var(x) * np.std(x[:3]),
    "float32": lambda x: np.sum((x.astype(np.float32) * 2.0).astype(float) ** 2),
}


@pytest.mark.parametrize("name", STRUCTURE)
def test_hessian_of_structure(name):
    f = STRUCTURE[name]
    x = np.array([0.3, -1.2, 0.7, 2.2, 0.9, 1.7])
    tolerance = 1e-2 if name == "float32" else 1e-6
    step = 1e-2 if name == "float32" else 1e-6
    hessian = tg.jacobian(tg.grad(f))(x)
    wanted = [
        (tg.grad(f)(x + step * e) - tg.grad(f)(x - step * e)) / (2 * step) for e in np.eye(x.size)
    ]
    np.testing.assert_allclose(hessian, wanted, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-5 if tolerance > 1e-3 else 1e-12)


def test_fifth_derivative_of_a_scalar_chain():
    """d⁵/dx⁵ x·sin x = 5 sin x + x cos x."""
    f = lambda x: np.sin(x) * x
    for _ in range(5):
        f = tg.grad(f)
    x = 0.7
    np.testing.assert_allclose(f(x), 5 * np.sin(x) + x * np.cos(x), rtol=1e-12)


def test_no_perturbation_confusion():
    assert tg.grad(lambda x: x * tg.grad(lambda y: x * y)(3.0))(2.0) == 4.0
    assert tg.grad(lambda x: tg.grad(lambda y: y * y * x)(x))(3.0) == 12.0


def test_an_inner_gradient_of_plain_values_stays_plain():
    seen = []

    def f(x):
        seen.append(tg.grad(lambda y: y * y)(5.0))
        return x * seen[-1]

    assert tg.grad(f)(1.0) == 10.0
    assert type(seen[0]) is float


def test_a_tensor_from_outside_keeps_its_derivative():
    w = tg.tensor(3.0, requires_grad=True)
    tg.grad(lambda x: x * x * w)(2.0).backward()
    assert w.grad.item() == 4.0


def test_inputs_of_a_finished_transform_are_constants():
    """Also while a tensor that requires grad is alive: the result depends on neither."""
    w = tg.tensor(3.0, requires_grad=True)
    mixed = tg.grad(tg.grad(lambda x, y: x * x / y, 0), 1)
    assert mixed(3.0, 2.0) == -1.5
    assert type(mixed(3.0, 2.0)) is float
    assert w.grad is None


def test_fifth_derivative_of_a_chain_of_scalars():
    """x⁸ as a loop of products: 8·7·6·5·4 x³; and of exp(2x): 32 exp(2x)."""

    def power(x):
        y = x
        for _ in range(7):
            y = y * x
        return y

    def exponential(x):
        y = x * 0.0 + 1.0
        for _ in range(2):
            y = y * np.exp(x)
        return y

    for f, wanted in ((power, 6720 * 1.1**3), (exponential, 32 * np.exp(2.2))):
        for _ in range(5):
            f = tg.grad(f)
        np.testing.assert_allclose(f(1.1), wanted, rtol=1e-12)


def multiplied(x):
    return x[0] * x[1] * x[2] * x[3]


def multiplied_one_by_one(x):
    return x[0] + x[0] * x[1] ** 2 + (x[0] * x[1] * x[2]) ** 2 + multiplied(x) ** 3


def running(x):
    first, second, third, fourth = np.cumprod(x)
    return first + second * x[1] + third**2 + fourth**3


@pytest.mark.parametrize("zeros", [(), (0,), (2,), (1, 3), (0, 1, 2, 3)])
@pytest.mark.parametrize("f, wanted", [(np.prod, multiplied), (running, multiplied_one_by_one)])
def test_higher_derivatives_of_products_with_zeros(f, wanted, zeros):
    x = np.array([0.7, -1.3, 0.4, 1.1])
    x[list(zeros)] = 0.0
    for of in (tg.hessian, lambda f: tg.hessian(lambda x: np.sum(tg.grad(f)(x) ** 2))):
        np.testing.assert_allclose(of(f)(x), of(wanted)(x), rtol=1e-12, atol=1e-13)
