"""Products of matrices, traces and norms: values and gradients against PyTorch and NumPy."""

import subprocess
import sys

import numpy as np
import pytest
from torch_twin import compare, normal, torch, transposed

import tapegrad as tg

SHAPES = [
    ((3, 4), (4, 5)),
    ((30, 40), (40, 50)),
    ((4,), (4,)),
    ((40,), (40,)),
    ((3, 4), (4,)),
    ((30, 40), (40,)),
    ((4,), (4, 5)),
    ((400,), (400, 5)),
    ((2, 3, 4), (4, 5)),
    ((6, 30, 4), (6, 4, 50)),
    ((2, 1, 3, 4), (7, 4, 5)),
    ((1, 3, 4), (6, 4, 5)),
    ((2, 3, 4), (4,)),
    ((4,), (6, 4, 5)),
    ((1, 1), (1, 1)),
    ((1, 9), (9, 1)),
    ((9, 1), (1, 9)),
    ((100, 1), (1, 100)),
    ((1, 1, 4), (3, 4, 1)),
    ((0, 4), (4, 5)),
    ((3, 0), (0, 5)),
    ((0,), (0,)),
    ((2, 0, 4), (4, 5)),
    ((0, 3, 4), (4, 5)),
    ((0, 3, 4), (1, 4, 5)),
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shapes", SHAPES)
def test_matmul(shapes, dtype):
    a, b = (normal(*shape, dtype=dtype) for shape in shapes)
    rtol = 1e-12 if dtype == np.float64 else 2e-5
    compare(lambda x, y: x @ y, lambda x, y: x @ y, a, b, rtol=rtol, like=np.matmul)


VIEWS = {
    "transposed": transposed,
    "sliced": lambda x: x[1:-1, 2:12],
    "stepped": lambda x: x[::2, ::3],
    "columns": lambda x: x[:, ::2],
    "rows": lambda x: x[::2],
}


@pytest.mark.parametrize("left", VIEWS)
@pytest.mark.parametrize("right", VIEWS)
@pytest.mark.parametrize("n", [15, 40])
def test_matmul_of_views(left, right, n):
    a, b = normal(n, n), normal(n, n)
    first, second = VIEWS[left], VIEWS[right]
    k = min(first(a).shape[1], second(b).shape[0])
    compare(
        lambda x, y: np.matmul(first(x)[:, :k], second(y)[:k]),
        lambda x, y: first(x)[:, :k] @ second(y)[:k],
        a,
        b,
    )


def test_reversed_operand():
    a, b = normal(20, 20), normal(20, 20)
    compare(
        lambda x, y: x[::-1, ::-1] @ y[:, ::-1],
        lambda x, y: x.flip(0, 1) @ y.flip(1),
        a,
        b,
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_strided_vectors(dtype):
    a, b = normal(40, 30, dtype=dtype), normal(30, 40, dtype=dtype)
    rtol = 1e-12 if dtype == np.float64 else 2e-5
    for ours in (
        lambda x, y: x @ y[:, 3],
        lambda x, y: x[:, 2] @ transposed(y),
        lambda x, y: x[:, 2] @ y[5],
        lambda x, y: x[5, ::3] @ y[::3, ::2],
        lambda x, y: transposed(x)[:, :10] @ y[:10, 1],
    ):
        compare(ours, ours, a, b, rtol=rtol)


def test_scipy_is_loaded_when_a_kernel_needs_it():
    code = (
        "import sys, numpy as np, tapegrad as tg\n"
        "assert not {'scipy.special.cython_special', 'scipy.linalg'} & set(sys.modules)\n"
        "assert tg.grad(lambda x: np.sum(x @ x))(np.eye(2)).tolist() == [[2.0, 2.0], [2.0, 2.0]]\n"
        "assert 'scipy.linalg.cython_blas' in sys.modules\n"
        "slope = tg.grad(lambda x: np.sum(tg.gammaln(x)))(np.ones(2))\n"
        "assert abs(slope + 0.5772156649015329).max() < 1e-15\n"
    )
    for _ in range(2):  # the second process takes the kernels from the cache
        subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_same_tensor_twice():
    a = normal(12, 12)
    compare(lambda x: x @ x, lambda x: x @ x, a)
    compare(lambda x: transposed(x) @ x, lambda x: x.T @ x, a)
    compare(lambda x: np.dot(x[0], x[0]), lambda x: x[0] @ x[0], a)
    compare(lambda x: np.einsum("ij,jk,kl", x, x, x), lambda x: x @ x @ x, a)


def test_broadcast_view_as_operand():
    a, b = normal(1, 8), normal(8, 9)

    def ours(x, y):
        return np.einsum("bij,bjk->bik", *wide(x, y))

    def wide(x, y):
        x = x + np.zeros((5, 7, 8))
        return x, y + np.zeros((5, 8, 9))

    compare(ours, lambda x, y: x.expand(5, 7, 8) @ y.expand(5, 8, 9), a, b)


def test_plain_operands():
    a, b = normal(3, 4), normal(4, 5)
    x = tg.tensor(b, requires_grad=True)
    np.sum(a @ x).backward()
    np.testing.assert_allclose(x.grad.numpy(), a.T @ np.ones((3, 5)))
    y = tg.tensor(a, requires_grad=True)
    np.sum(y @ b).backward()
    np.testing.assert_allclose(y.grad.numpy(), np.ones((3, 5)) @ b.T)
    assert type(tg.matmul(a, b)) is np.ndarray
    assert isinstance(tg.tensor(a) @ b, tg.Tensor) and not (tg.tensor(a) @ b).requires_grad
    assert type(tg.einsum("ij,jk", a, b)) is np.ndarray
    np.testing.assert_allclose((y @ b.tolist()).detach().numpy(), a @ b)
    np.testing.assert_allclose((a.tolist() @ x).detach().numpy(), a @ b)


def test_integer_and_mixed_operands():
    a = np.arange(12).reshape(3, 4)
    x = tg.tensor(normal(4, 5), requires_grad=True)
    np.sum(a @ x).backward()
    np.testing.assert_allclose(x.grad.numpy(), a.T @ np.ones((3, 5)))
    narrow = tg.tensor(normal(3, 4, dtype=np.float32), requires_grad=True)
    out = narrow @ x
    assert out.dtype == np.float64
    np.sum(out).backward()
    assert narrow.grad.dtype == np.float32
    np.testing.assert_allclose(
        narrow.grad.numpy(), np.ones((3, 5)) @ x.detach().numpy().T, rtol=1e-6
    )


def test_in_place():
    a, b = normal(4, 4), normal(4, 4)
    x = tg.tensor(a, requires_grad=True)
    y = x * 1.0
    y @= b
    np.sum(y * y).backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * a @ b @ b.T, rtol=1e-12)


def test_operand_written_afterwards():
    a = normal(9, 9)

    def ours(x):
        y = x * 1.0
        z = y @ y
        y[...] = 0.0
        return z + y

    compare(ours, lambda x: x @ x, a)


@pytest.mark.parametrize("name", ["dot", "inner"])
@pytest.mark.parametrize(
    "shapes",
    [((), ()), ((), (3, 4)), ((5,), (5,)), ((3, 5), (5,)), ((2, 3, 5), (5,)), ((5,), (5,))],
)
def test_dot_and_inner(name, shapes):
    a, b = normal(*shapes[0]), normal(*shapes[1])
    function = getattr(np, name)
    compare(
        function,
        lambda x, y: x @ y if x.ndim and y.ndim else x * y,
        np.asarray(a),
        np.asarray(b),
        like=function,
    )


def test_dot_and_inner_of_many_axes():
    a, b = normal(2, 3, 5), normal(4, 5, 6)
    compare(np.dot, lambda x, y: torch.einsum("ijk,lkm->ijlm", x, y), a, b, like=np.dot)
    compare(np.inner, torch.inner, a, normal(7, 5), like=np.inner)
    compare(lambda x, y: x.dot(y), torch.matmul, normal(3, 4), normal(4, 5))


def test_vdot_vecdot_outer_kron():
    a, b = normal(3, 4), normal(4, 3)
    compare(np.vdot, lambda x, y: x.reshape(-1) @ y.reshape(-1), a, b, like=np.vdot)
    compare(lambda x, y: np.vdot(transposed(x), y), lambda x, y: (x.T * y).sum(), a, b)
    compare(np.outer, lambda x, y: torch.outer(x.ravel(), y.ravel()), a, b, like=np.outer)
    compare(np.kron, torch.kron, a, normal(2, 5), like=np.kron)
    compare(np.kron, torch.kron, normal(3), normal(2, 5), like=np.kron)
    c = normal(6, 3, 4)
    compare(tg.vecdot, torch.linalg.vecdot, c, a)
    compare(lambda x, y: tg.vecdot(x, y, axis=0), lambda x, y: (x * y).sum(0), a, normal(3, 1))


@pytest.mark.parametrize(
    "axes", [0, 1, 2, ([1, 0], [0, 1]), (1, 0), ([-1], [-2]), ([0, 2], [1, 0])]
)
def test_tensordot(axes):
    shapes = {0: ((3, 2), (4,)), 1: ((3, 4), (4, 5)), 2: ((2, 3, 4), (3, 4, 5))}
    if isinstance(axes, int):
        a, b = (normal(*s) for s in shapes[axes])
    elif axes == ([0, 2], [1, 0]):
        a, b = normal(3, 6, 4), normal(4, 3, 2)
    else:
        a, b = normal(4, 5), normal(5, 4)
    dims = axes if isinstance(axes, int) else tuple(np.atleast_1d(x).tolist() for x in axes)
    compare(
        lambda x, y: np.tensordot(x, y, axes),
        lambda x, y: torch.tensordot(x, y, dims),
        a,
        b,
        like=lambda x, y: np.tensordot(x, y, axes),
    )


@pytest.mark.parametrize("offset", [0, 1, -2, 9])
def test_trace(offset):
    compare(
        lambda x: np.trace(x, offset),
        lambda x: torch.diagonal(x, offset).sum() if abs(offset) < 5 else (0 * x).sum(),
        normal(5, 5),
        like=lambda x: np.trace(x, offset),
    )
    compare(
        lambda x: x.trace(axis1=0, axis2=2),
        lambda x: torch.diagonal(x, 0, 0, 2).sum(-1),
        normal(3, 4, 5),
        like=lambda x: x.trace(axis1=0, axis2=2),
    )


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(
    "ord, axis",
    [
        (None, None), (None, 0), (None, -1), (2, 1), (1, 1), (3, 0), (2.5, 1), (0.5, 0), (-1, 1),
        (0, 1), (np.inf, 0), (-np.inf, 1), (None, (0, 1)), ("fro", None), ("fro", (1, 0)),
        (1, None), (-1, None), (np.inf, None), (-np.inf, (1, 0)), (1, (1, 0)),
    ],
)  # fmt: skip
def test_norm(ord, axis, keepdims):
    def ours(x):
        return np.linalg.norm(x, ord, axis, keepdims)

    def theirs(x):
        if ord is None or ord == "fro" or axis is None or isinstance(axis, tuple):
            over = (0, 1) if axis is None else axis
            if ord is None and not isinstance(axis, tuple) and axis is not None:
                return torch.linalg.vector_norm(x, 2, axis, keepdims)
            return torch.linalg.matrix_norm(x, "fro" if ord is None else ord, over, keepdims)
        return torch.linalg.vector_norm(x, ord, axis, keepdims)

    compare(ours, theirs, normal(4, 5), like=ours)


@pytest.mark.parametrize("ord", [None, 1, 2, 3, 1.5, np.inf, -np.inf, 0])
def test_norm_at_zero(ord):
    for start in ([0.0, 0.0], [0.0, 2.0]):
        x = tg.tensor(start, requires_grad=True)
        tg.norm(x, ord).backward()
        assert np.isfinite(x.grad.numpy()).all()
        if not any(start):
            np.testing.assert_array_equal(x.grad.numpy(), 0.0)


def test_norm_of_other_shapes():
    compare(np.linalg.norm, torch.linalg.vector_norm, normal(2, 3, 4), like=np.linalg.norm)
    compare(np.linalg.norm, torch.linalg.vector_norm, normal(4), like=np.linalg.norm)
    compare(np.linalg.norm, torch.abs, np.asarray(-2.0), like=np.linalg.norm)
    compare(
        np.linalg.norm,
        torch.linalg.vector_norm,
        normal(40, dtype=np.float32),
        rtol=1e-5,
        like=np.linalg.norm,
    )


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda x: x @ np.ones((3, 2)), ["matmul", "(3, 4)", "(3, 2)"]),
        (lambda x: x @ np.ones(5), ["matmul", "(3, 4)", "(5,)", "4 and 5"]),
        (lambda x: np.matmul(x, 2.0), ["matmul", "()", "use *"]),
        (lambda x: np.matmul(x[None], np.ones((2, 4, 3))[:, None][[0, 1, 0]][:, 0] * 1), None),
        (lambda x: np.dot(x, np.ones(3)), ["dot", "(3, 4)", "(3,)"]),
        (lambda x: np.inner(x, np.ones(3)), ["inner", "(3, 4)", "(3,)"]),
        (lambda x: np.vdot(x, np.ones(3)), ["vdot", "(12,)", "(3,)"]),
        (lambda x: np.tensordot(x, np.ones(3), 1), ["tensordot", "(3, 4)", "(3,)"]),
        (lambda x: np.tensordot(x, np.ones(3), 2), ["tensordot", "axes=2"]),
        (lambda x: np.einsum("ij,jk", x, np.ones((3, 3))), ["einsum", "(3, 4) and (3, 3)", "'j'"]),
        (lambda x: np.einsum("ijk->i", x), ["einsum", "'ijk'", "names 3 axes", "has 2"]),
        (lambda x: np.einsum("ij->k", x), ["einsum", "'k'", "no operand"]),
        (lambda x: np.einsum("ij->ii", x), ["einsum", "more than once"]),
        (lambda x: np.einsum("ij,j", x), ["einsum", "name 2 operands, but 1"]),
        (lambda x: np.einsum("i.j", x), ["einsum", "not a letter"]),
        (lambda x: np.einsum("ii", x), ["einsum", "several sizes"]),
        (lambda x: np.einsum("...,...->", x, x), ["einsum", "no '...'"]),
        (lambda x: np.trace(x[0]), ["trace", "(4,)"]),
        (lambda x: np.linalg.norm(x, 3), ["norm", "ord=3"]),
        (lambda x: np.linalg.norm(x[0], "fro"), ["norm", "'fro'"]),
        (lambda x: np.linalg.norm(x[None], 1), ["norm", "(1, 3, 4)"]),
    ],
)
def test_errors(call, words):
    x = tg.tensor(normal(3, 4), requires_grad=True)
    if words is None:
        assert call(x).shape == (3, 3, 3)
        return
    with pytest.raises(ValueError) as error:
        call(x)
    for word in ("tapegrad.", *words):
        assert word in str(error.value)


def test_error_of_batch_axes():
    x = tg.tensor(normal(2, 3, 4), requires_grad=True)
    with pytest.raises(ValueError, match=r"\(2, 3, 4\).*\(3, 4, 2\).*do not broadcast"):
        x @ np.ones((3, 4, 2))
    with pytest.raises(TypeError):
        x @ "text"
