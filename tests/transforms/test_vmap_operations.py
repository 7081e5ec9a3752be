"""vmap of every element-wise operation of the table: numbers, arrays, operands of fewer axes."""

import numpy as np
import pytest
import rows

import tapegrad as tg
from tapegrad._batching import vmap as vmap_module
from tapegrad._core.ops.sample_inputs import points

ELEMENTS = 5
every_row = pytest.mark.parametrize("op", rows.ROWS, ids=rows.NAMES)


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Small batches, too, are computed together."""
    monkeypatch.setattr(vmap_module, "FEW", 2)


def looped(f, batches):
    return np.stack([np.asarray(f(*row)) for row in zip(*batches, strict=True)])


def same(found, wanted, tolerance=1e-12):
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@every_row
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_operation(op, shape, rng):
    """Values, gradients of each element and gradients through the batch; a loop would warn."""
    f, numbers = getattr(tg, op.name), tuple(range(len(op.inputs)))
    batches = points(op, (ELEMENTS, *shape), rng)
    same(np.asarray(tg.vmap(f)(*batches)), looped(f, batches))
    weights = rng.normal(size=shape)
    total = lambda *x: np.sum(f(*x) * weights)
    columns = [tg.grad(total, numbers)(*row) for row in zip(*batches, strict=True)]
    wanted = [
        np.stack([np.asarray(one) for one in column]) for column in zip(*columns, strict=True)
    ]
    whole = lambda *x: np.sum(tg.vmap(total)(*x))
    for found in (tg.vmap(tg.grad(total, numbers))(*batches), tg.grad(whole, numbers)(*batches)):
        for one, other in zip(found, wanted, strict=True):
            same(np.asarray(one), other)


@pytest.mark.parametrize(
    "op", [op for op in rows.ROWS if len(op.inputs) == 2], ids=lambda op: op.name
)
def test_operands_of_other_shapes(op, rng):
    """Axes are aligned behind that of the elements; one operand may be the same for all."""
    f = getattr(tg, op.name)
    x, y = points(op, (ELEMENTS, 2, 3), rng)
    row, number = y[:, 0], y[:, 0, 0]
    for other in (row, number):
        same(np.asarray(tg.vmap(f)(x, other)), looped(f, (x, other)))
    wanted = np.stack([np.asarray(f(one, y[0])) for one in x])
    same(np.asarray(tg.vmap(f, (0, None))(x, y[0])), wanted)
    wanted = np.stack([np.asarray(f(x[0, 0], one)) for one in y])
    same(np.asarray(tg.vmap(lambda one: f(x[0, 0], one))(y)), wanted)
