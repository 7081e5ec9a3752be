"""Elements chosen by conditions and numbers, and functions that write to their first argument."""

import numpy as np
import pytest
from expressions import CHECKS, Expression, check_native, parametrized

E = Expression


def written(function, *args, **kwargs):
    """What a function that writes makes of a copy of its first argument."""
    target = args[0] * 1.0
    assert function(target, *args[1:], **kwargs) is None
    return target


def row(v):
    return np.cumsum(v) * v[0]


NAMES = {"written": written, "row": row}
MASK = "np.array([[True, False, True, False], [False] * 4, [True] * 4])"
CHOSEN = [
    E("np.compress([True, False, True], x, axis=0)", "x[[0, 2]]"),
    E("np.compress([0, 1, 1], x)", "x.ravel()[1:3]"),
    E("np.compress(x[:, 0] > x[:, 1], x, axis=0)", "x[x[:, 0] > x[:, 1]]"),
    E("np.compress([True, False, True], x, 1, tg.zeros((3, 2), dtype=x.dtype))", "x[:, [0, 2]]"),
    E("np.sum(np.extract(x > 1.0, x) ** 2)", "(x[x > 1.0] ** 2).sum()"),
    E(f"np.extract({MASK}, x * x)", "(x * x)[[0, 0, 2, 2, 2, 2], [0, 2, 0, 1, 2, 3]]"),
    E(
        "np.choose([[0, 1, 2, 1]] * 3, [x, x * x, -x])",
        "torch.stack([x[:, 0], x[:, 1] ** 2, -x[:, 2], x[:, 3] ** 2], 1)",
    ),
    E("np.choose((x > 1.0).astype(int), [x[0], 2.0])", "torch.where(x > 1.0, 2.0, x[0])"),
    E(
        "np.choose([3, -1, 1, 0], x, mode='wrap')",
        "torch.stack([x[0, 0], x[2, 1], x[1, 2], x[0, 3]])",
    ),
    E(
        "np.choose([3, -1, 1, 0], [x[0], x[1]], mode='clip')",
        "torch.stack([x[1, 0], x[0, 1], x[1, 2], x[0, 3]])",
    ),
    E(
        "np.choose([0, 1, 1, 0], [x[0], 2.0], out=tg.zeros(4, dtype=x.dtype))",
        "torch.where(torch.tensor([False, True, True, False]), 2.0, x[0])",
    ),
    E(
        "np.select([x < 0.7, x > 1.2], [x * x, np.sin(x)], x)",
        "torch.where(x < 0.7, x * x, torch.where(x > 1.2, x.sin(), x))",
    ),
    E("np.select([x < 1.0], [x])", "torch.where(x < 1.0, x, 0.0)"),
    E(
        "np.select([x[0] < 1.0, np.array([True, False, False, True])], [x, 3.0], default=x[0, 0])",
        "torch.where(x[0] < 1.0, x, torch.where(torch.tensor([True, False, False, True]), "
        "3.0, x[0, 0]))",
    ),
    E("np.select([x > 5.0, x > 1.0], [1.0, 2.0], x)", "torch.where(x > 1.0, 2.0, x)"),
    E(
        "np.piecewise(x, [x < 0.7, x > 1.2], [lambda v: v * v, np.sin, 2.0])",
        "torch.where(x < 0.7, x * x, torch.where(x > 1.2, x.sin(), 2.0))",
    ),
    E(
        "np.piecewise(x, [x < 1.0], [1.0, lambda v, a, b: a * v + b], x[0, 0], b=2.0)",
        "torch.where(x < 1.0, 1.0, x[0, 0] * x + 2.0)",
    ),
    E(
        "np.piecewise(x, [x < 1.0, x < 1.5], [np.exp, np.cos])",
        "torch.where(x < 1.5, x.cos(), 0.0)",
    ),
    E("np.piecewise(x[0, 0], [x[0, 0] < 3.0], [lambda v: v**3])", "x[0, 0] ** 3"),
    E(
        "np.piecewise(x[0], x[0] < 1.0, [np.sin, np.cos])",
        "torch.where(x[0] < 1.0, x[0].sin(), x[0].cos())",
    ),
    E(
        "np.piecewise(x[0], [[True, False, False, True]], [lambda v: v - v.mean(), x[1, 1]])",
        "torch.stack([(x[0, 0] - x[0, 3]) / 2, x[1, 1], x[1, 1], (x[0, 3] - x[0, 0]) / 2])",
    ),
    E("np.where(x > 1.0, x, 0.0)", "torch.where(x > 1.0, x, 0.0)"),
    E("np.sum(x[np.where(x > 1.0)] ** 2)", "(x[x > 1.0] ** 2).sum()"),
    E("x[np.ix_([0, 2], [True, False, True, False])]", "x[[0, 2]][:, [0, 2]]"),
    E("np.take(x, [[0, 5], [-1, 3]])", "x.ravel()[torch.tensor([[0, 5], [-1, 3]])]"),
    E("np.take(x, [5, -6], axis=1, mode='wrap')", "x[:, [1, 2]]"),
    E("np.take(x, [5, -6], axis=1, mode='clip')", "x[:, [3, 0]]"),
    E("np.take(x, [0, 2], 0, tg.zeros((2, 4), dtype=x.dtype))", "x[[0, 2]]"),
    E("np.take_along_axis(x, np.array([3, 0, 3]), axis=None)", "x.ravel()[[3, 0, 3]]"),
    E("np.take_along_axis(x, np.argsort(x, 0), 0)", "x.sort(0).values"),
    E("np.apply_along_axis(row, 1, x)", "x.cumsum(1) * x[:, :1]", names=NAMES),
    E("np.apply_along_axis(row, 0, x)", "x.cumsum(0) * x[:1]", names=NAMES),
    E("np.apply_along_axis(lambda v, p: (v**p).sum(), 0, x, 3)", "(x**3).sum(0)"),
    E("np.apply_along_axis(lambda v: np.outer(v, v), 1, x)", "x[:, :, None] * x[:, None, :]"),
    E(
        "np.apply_along_axis(np.diag, -1, x.reshape(3, 2, 2))",
        "torch.diag_embed(x.reshape(3, 2, 2))",
    ),
    E(
        "np.apply_over_axes(np.sum, x.reshape(3, 2, 2), [0, 2])",
        "x.reshape(3, 2, 2).sum((0, 2), keepdim=True)",
    ),
    E("np.apply_over_axes(np.cumsum, x, (0, -1))", "x.cumsum(0).cumsum(1)"),
]
WRITTEN = [
    E(
        "written(np.put, x, [0, 5, -1], [7.0, x[0, 0]])",
        "torch.index_put(x, (torch.tensor([0, 1, 2]), torch.tensor([0, 1, 3])), "
        "torch.stack([x[0, 0] * 0 + 7, x[0, 0], x[0, 0] * 0 + 7]))",
        names=NAMES,
    ),
    E(
        "written(np.put, x, [20, -30], x[0], mode='clip')",
        "torch.index_put(x, (torch.tensor([2, 0]), torch.tensor([3, 0])), x[0, [0, 1]])",
        names=NAMES,
    ),
    E(
        "written(np.put, x, [13, 2], 0.5, mode='wrap')",
        "torch.index_put(x, (torch.tensor([0, 0]), torch.tensor([1, 2])), "
        "torch.tensor(0.5).double())",
        names=NAMES,
    ),
    E("written(np.place, x, x > 1.0, [x[0, 0], 2.0])", names=NAMES),
    E(f"written(np.place, x, {MASK}, x[0, :2] * x[1, 1])", names=NAMES),
    E("written(np.putmask, x, x > 1.0, x * x)", "torch.where(x > 1.0, x * x, x)", names=NAMES),
    E(
        "written(np.putmask, x, x > 1.0, [x[0, 0], 2.0])",
        "torch.where(x > 1.0, torch.stack([x[0, 0], x[0, 0] * 0 + 2]).tile(2), x)",
        names=NAMES,
    ),
    E("written(np.copyto, x, x[0] * 2)", "2 * x[:1].expand(3, 4)", names=NAMES),
    E(
        "written(np.copyto, x, np.sin(x), where=x < 1.0)",
        "torch.where(x < 1.0, x.sin(), x)",
        names=NAMES,
    ),
    E(
        "written(np.copyto, x, 3, casting='unsafe', where=[True, False, False, True])",
        "torch.where(torch.tensor([True, False, False, True]), 3.0, x)",
        names=NAMES,
    ),
    E("written(np.copyto, x.T, x[:, 0])", "x[:, 0].expand(4, 3)", names=NAMES),
    E(
        "written(np.put_along_axis, x, np.argmax(x, 1)[:, None], x[:, :1] * 5, 1)",
        "torch.scatter(x, 1, x.argmax(1)[:, None], x[:, :1] * 5)",
        names=NAMES,
    ),
    E(
        "written(np.put_along_axis, x, np.array([[1, 0, 2, 2]]), x[0] * x[1], axis=0)",
        "torch.scatter(x, 0, torch.tensor([[1, 0, 2, 2]]), (x[0] * x[1])[None])",
        names=NAMES,
    ),
    E(
        "written(np.fill_diagonal, x, 2.5)",
        "torch.diagonal_scatter(x, torch.full((3,), 2.5).double())",
        names=NAMES,
    ),
    E("written(np.fill_diagonal, x, x[0])", "torch.diagonal_scatter(x, x[0, :3])", names=NAMES),
    E(
        "written(np.fill_diagonal, np.concatenate([x[:, :2], x[:, 2:]]), [x[0, 0], 1.0], "
        "wrap=True)",
        names=NAMES,
    ),
    E("written(np.fill_diagonal, np.reshape(x[:2], (2, 2, 2)), x[2, 0])", names=NAMES),
]
TABLE = [*CHOSEN, *WRITTEN]


@parametrized(TABLE)
@pytest.mark.parametrize("check", CHECKS)
def test_expression(check, expression):
    CHECKS[check](expression)


@pytest.mark.parametrize("table", [CHOSEN, WRITTEN])
def test_native(table):
    check_native(table)
