"""Values of declared operations by their kernels, against what NumPy and SciPy compute."""

import contextlib
import dataclasses
import inspect
import itertools

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.operations.declaring import by_kernel
from tapegrad._core.ops.table import TABLE
from tapegrad._core.tensor.registry import load_families

load_families()

LAYOUTS = {
    "C": np.ascontiguousarray,
    "transposed": lambda x: np.ascontiguousarray(np.swapaxes(x, -1, -2)).swapaxes(-1, -2),
    "backwards": lambda x: np.ascontiguousarray(x[..., ::-1, ::-1])[..., ::-1, ::-1],
    "spread": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
}
OF_FACTORS = {"inv", "det", "slogdet"}
OTHERS = {"lu_factors", "cholesky", "eigh", "eigvalsh", "svd", "svdvals", "qr"}


def matrices(shape, rng):
    a = rng.normal(size=shape)
    return a @ a.swapaxes(-1, -2) + np.eye(shape[-1])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (4, 4), (40, 40), (2, 0, 3, 3), (2, 3, 3)])
@pytest.mark.parametrize("name", sorted(OF_FACTORS | OTHERS))
def test_values(name, shape, layout, rng):
    a = matrices(shape, rng)
    if name == "lu_factors" and shape[-1] == 1:
        a = a.repeat(2, axis=-1).repeat(2, axis=-2) + np.eye(2)  # one number is triangular
    lu = TABLE["lu_factors"].value(a)
    operands = [LAYOUTS[layout](x) for x in ((a, lu) if name in OF_FACTORS else (a,))]
    made, wanted = by_kernel(TABLE[name], operands, {}), TABLE[name].value(*operands)
    assert made.shape == wanted.shape and made.flags.c_contiguous
    np.testing.assert_allclose(made, wanted, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("columns", [(), (0,), (1,), (3,)])
@pytest.mark.parametrize("transposed", [0, 1])
def test_keyword_arguments(transposed, columns, rng):
    op, a, b = TABLE["solve"], matrices((4, 4), rng), rng.normal(size=(4, *columns))
    a[0, 1] += 1.0
    made = by_kernel(op, (a, b, TABLE["lu_factors"].value(a)), {"transposed": transposed})
    np.testing.assert_allclose((a.T if transposed else a) @ made, b, atol=1e-12)


def test_what_a_kernel_does_not_take(rng):
    op, a = TABLE["cholesky"], matrices((3, 3), rng)
    unaligned = np.frombuffer(b"-" + a.tobytes(), np.float64, offset=1).reshape(3, 3)
    for x in (a.astype(np.float32), a.astype(">f8"), unaligned, a.view(np.recarray), a[:2], 1.0):
        assert by_kernel(op, (x,), {}) is None
    assert by_kernel(op, (a, np.ones(3)), {}) is None
    with pytest.raises(TypeError, match="positional argument"):
        tg.cholesky(tg.tensor(a, requires_grad=True), np.ones(3))
    for static in ({"upper": 0.5}, {"lower": True}):
        assert by_kernel(op, (a,), static) is None
    assert by_kernel(dataclasses.replace(op, value_kernel=None), (a,), {}) is None
    assert by_kernel(TABLE["eigvalsh"], (np.diag([1.0, np.nan]),), {}) is None


def test_errors():
    for f, a in [(np.linalg.cholesky, -np.eye(2)), (np.linalg.inv, np.ones((2, 2)))]:
        with pytest.raises(np.linalg.LinAlgError) as wanted:
            f(a)
        with pytest.raises(np.linalg.LinAlgError, match=str(wanted.value)):
            f(tg.tensor(a, requires_grad=True))


SHAPES = [(), (0,), (3,), (0, 0), (3, 3), (2, 3), (4, 1), (0, 3), (3, 0), (2, 3, 3), (1, 2, 2)]
#: Operations of one or two matrices that users call.
MATRICES = {op.name: op for op in TABLE.values() if getattr(op, "value_kernel", None) and op.shape}
MATRICES = {k: op for k, op in MATRICES.items() if op.operand_count < 3 and k not in ("pinv",)}


@pytest.mark.parametrize("name", sorted(MATRICES))
def test_shapes_that_values_refuse_are_refused(name, rng):
    """A kernel computes with shapes that the operation's `shape` allows, and looks at no other."""
    op = MATRICES[name]
    static = {k: 3 for k, default in op.keywords.items() if default is inspect.Parameter.empty}
    for shapes in itertools.product(SHAPES, repeat=op.operand_count):
        try:
            wanted = op.value(*[rng.normal(size=shape) for shape in shapes], **static).shape
        except np.linalg.LinAlgError:  # also for what elements are
            continue
        except (ValueError, TypeError, IndexError):
            with pytest.raises((ValueError, TypeError, IndexError)):
                op.shape(*shapes, **static)
        else:
            with contextlib.suppress(ValueError, TypeError, IndexError):  # computed otherwise
                assert op.shape(*shapes, **static) == wanted
