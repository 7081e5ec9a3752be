"""Derivatives of derivatives in float32, against those in float64; inputs in any memory order."""

import numpy as np
import pytest
import special_rows
import test_higher_order
import test_second_writes
from extent import some

import tapegrad as tg
from tapegrad._core.ops import sample_inputs
from tapegrad._core.ops.table import TABLE, Pointwise

X = np.array([0.3, -1.2, 0.7, 2.2, 0.9, 1.7])


def recorded_twice(f, x, v):
    """The Hessian times v by `create_graph`."""
    t = tg.tensor(x, requires_grad=True)
    (gradient,) = tg.autograd.grad(f(t), t, create_graph=True)
    assert gradient.dtype == x.dtype
    return tg.autograd.grad((gradient * tg.tensor(v)).sum(), t)[0].numpy()


READINGS = {
    "hvp": lambda f, x, v: tg.hvp(f)(x, v),
    "hessian": lambda f, x, v: tg.hessian(f)(x),
    "forward over reverse": lambda f, x, v: tg.jvp(tg.grad(f), (x,), (v,))[1],
    "reverse over forward": lambda f, x, v: tg.grad(lambda u: tg.jvp(f, (u,), (v,))[1])(x),
    "create_graph": recorded_twice,
    "third": lambda f, x, v: tg.hvp(lambda u: tg.hvp(f)(u, v) @ v)(x, v),
}


def agree(f, x, key, readings=READINGS):
    """Hold readings at float32 against the same at float64; the dtype is that of the input.

    Two of them by the key, with all tests each.
    """
    v = np.linspace(-1.0, 1.5, x.size).reshape(x.shape)
    for name in some(readings, key):
        wanted = READINGS[name](f, x, v)
        found = READINGS[name](f, x.astype(np.float32), v.astype(np.float32))
        assert found.dtype == np.float32, name
        scale = max(1.0, np.abs(wanted).max())
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * scale, err_msg=name)


def differentiable(op):
    return [k for k, s in enumerate(getattr(op, "partials", ["1.0"])) if s != "0.0"]


#: Parts of complex functions have no public names.
PARTS = [op for op in TABLE.values() if isinstance(op, Pointwise) and "complex_" in op.name]
LEFT_OUT = [*PARTS, *[op for op in TABLE.values() if op.name in special_rows.NAMES]]
CASES = [(op.name, k) for op in TABLE.values() if op not in LEFT_OUT for k in differentiable(op)]


@pytest.mark.parametrize("name, k", CASES)
def test_every_operation(name, k, rng):
    op = TABLE[name]
    call, inputs = sample_inputs.example(op, (5,), rng, tg)

    def f(x):
        operands = [np.asarray(value, x.dtype) for value in inputs]
        operands[k] = x
        out = call(*operands)
        weights = np.arange(1.0, 1.0 + out.size).reshape(out.shape).astype(x.dtype)
        return np.sum(out * out * weights)

    agree(f, inputs[k], f"{name} {k}", [one for one in READINGS if one != "third"])


@pytest.mark.parametrize("name", [n for n in test_higher_order.STRUCTURE if n != "float32"])
def test_structure(name):
    agree(test_higher_order.STRUCTURE[name], X, name)


@pytest.mark.parametrize("f", test_second_writes.PROGRAMS)
def test_in_place_writes(f):
    agree(f, X[:4], f.__name__)


def written(x, dtype):
    y = tg.zeros(3, dtype=dtype)
    y[0] = x[0] * x[1]
    y[1:] = x[1:3] ** 2
    return np.sum(y**3)


MIXED = {
    "element": lambda x: x[0] ** 3 * x[1],
    "converted": lambda x: np.sum(x.astype(np.float64) ** 3 * x.astype(np.float32)),
    "a wider constant": lambda x: np.sum(np.arange(3.0) * x[:3] ** 3) * x[3],
    "views of both": lambda x: np.sum(x.astype(np.float64)[1:] ** 3 * x[:-1] ** 2),
    "stacked": lambda x: np.sum(np.stack([x * x, x.astype(np.float64) ** 2]) ** 3),
    "joined": lambda x: np.sum(np.concatenate([x, x.astype(np.float64)]) ** 3),
    "a list of elements": lambda x: np.sum(np.concatenate((x[:2], [x[0] * x[1], x[2]])) ** 3),
    "a wider matrix": lambda x: np.sum((x.reshape(3, 2) @ np.array([[1.0, 2], [3, 4]])) ** 3),
    "float64 written": lambda x: written(x, np.float64),
    "float32 written": lambda x: written(x, np.float32),
}


@pytest.mark.parametrize("name", MIXED)
def test_float32_beside_float64(name):
    agree(MIXED[name], X, name)


def test_many_at_once():
    batch = np.stack([X, 2 * X])
    found = tg.vmap(tg.hessian(MIXED["element"]))(batch.astype(np.float32))
    np.testing.assert_allclose(found, tg.vmap(tg.hessian(MIXED["element"]))(batch), rtol=1e-5)
    assert found.dtype == np.float32


def test_an_input_without_influence_has_zeros_of_its_dtype():
    x, y = X.astype(np.float32), X[:2].astype(np.float32)
    found = tg.hessian(lambda x, y: np.sum(x**3) + np.sum(y), (0, 1))(x, y)
    assert [[block.dtype for block in row] for row in found] == [[np.float32] * 2] * 2


def powers(first, second):
    """x³ and the squares of three elements, each in a dtype of its own."""

    class Powers(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            cubes = (x**3).astype(first)
            ctx.save_for_backward(x, cubes)
            return cubes, (x[:3] ** 2).astype(second)

        @staticmethod
        def backward(ctx, g, h):
            x, cubes = ctx.saved_tensors
            assert (g.dtype, h.dtype, cubes.dtype) == (first, second, first)
            g, h = g.astype(x.dtype), h.astype(x.dtype)
            return g * 3.0 * x**2 + np.pad(2.0 * h * x[:3], (0, x.size - 3))

    def f(x):
        cubes, squares = Powers.apply(x)
        return np.sum(cubes**2) + np.sum(squares**3)

    return f


@pytest.mark.parametrize("first", [np.float32, np.float64])
@pytest.mark.parametrize("second", [np.float32, np.float64])
def test_several_results_of_a_function(first, second):
    def plain(x):
        return np.sum((x**3) ** 2) + np.sum((x[:3] ** 2) ** 3)

    f, v = powers(first, second), np.linspace(-1.0, 1.5, X.size)
    for name, reading in READINGS.items():
        for x in (X, X.astype(np.float32)):
            found = reading(f, x, v.astype(x.dtype))
            wanted = reading(plain, X, v)
            assert found.dtype == x.dtype
            np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-4, err_msg=name)


# --- memory orders --------------------------------------------------------------------------------

A = np.random.default_rng(3).uniform(0.5, 1.5, (3, 4))
FAR = np.zeros((6, 8))
FAR[::2, ::2] = A
ORDERS = {
    "C": lambda: tg.tensor(A, requires_grad=True),
    "F": lambda: tg.asarray(np.asfortranarray(A)).requires_grad_(),
    "F, float32": lambda: tg.asarray(np.asfortranarray(A.astype("f4"))).requires_grad_(),
    "steps": lambda: tg.asarray(FAR)[::2, ::2].requires_grad_(),
    "backwards": lambda: tg.asarray(np.array(A[::-1, ::-1])[::-1, ::-1]).requires_grad_(),
    "both": lambda: tg.asarray(np.asfortranarray(A[:, ::-1])[:, ::-1]).requires_grad_(),
}
PARTS = {
    "row": lambda m: (m[0] ** 3).sum(),
    "column": lambda m: (m[:, 1] ** 3).sum(),
    "transposed": lambda m: (m.T**3 @ m).sum(),
    "elements": lambda m: m[1, 2] ** 3 * m[2, 0],
    "flat": lambda m: (m.reshape(-1)[:5] ** 3).sum(),
    "picked": lambda m: (m[::2][:, [0, 2]] ** 3).sum(),
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("order", ORDERS)
def test_inputs_of_any_memory_order(order, part):
    """Views of an input that is not in C order, against PyTorch."""
    torch = pytest.importorskip("torch")
    f, x = PARTS[part], ORDERS[order]()
    v = np.linspace(-1, 1, A.size).reshape(A.shape).astype(x.dtype)
    t = torch.tensor(x.detach().numpy().copy(), requires_grad=True)
    (first,) = torch.autograd.grad(f(t), t, create_graph=True)
    (wanted,) = torch.autograd.grad((first * torch.tensor(v)).sum(), t)
    (gradient,) = tg.autograd.grad(f(x), x, create_graph=True)
    tolerance = 1e-12 if x.dtype == np.float64 else 1e-5
    np.testing.assert_allclose(gradient.detach().numpy(), first.detach().numpy(), rtol=tolerance)
    found = tg.autograd.grad((gradient * v).sum(), x)[0]
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=tolerance, atol=tolerance)
    assert found.dtype == x.dtype
    values = np.asfortranarray(x.detach().numpy())
    for one in ("forward over reverse", "reverse over forward"):
        found = READINGS[one](f, values, np.asfortranarray(v))
        np.testing.assert_allclose(found, wanted.numpy(), rtol=tolerance, atol=tolerance)
