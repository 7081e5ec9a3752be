"""The derived tests of every element-wise row of the table, and a planted wrong slope."""

import dataclasses

import numpy as np
import pytest
import rows
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, mutually_broadcastable_shapes
from rows import same

import tapegrad as tg

every_row = pytest.mark.parametrize("op", rows.ROWS, ids=rows.NAMES)


def masks(op):
    return range(1, 1 << len(op.inputs))


#: (row, mask of the inputs that are differentiated), for all rows.
MASKS = [(op, mask) for op in rows.ROWS for mask in masks(op)]
every_mask = pytest.mark.parametrize(
    "op,mask", MASKS, ids=[f"{op.name}-{mask:0{len(op.inputs)}b}" for op, mask in MASKS]
)
every_binary = pytest.mark.parametrize(
    "op", [op for op in rows.ROWS if len(op.inputs) > 1], ids=lambda op: op.name
)


def ours(op):
    return getattr(tg, op.name)


def argnums(op, mask):
    return tuple(j for j in range(len(op.inputs)) if mask >> j & 1)


def check_gradients(op, inputs, mask, rng, rtol=1e-12):
    """Gradients of a weighted sum through the tape against the row's expressions."""
    shape = np.broadcast_shapes(*[np.shape(x) for x in inputs])
    weights = rng.normal(size=shape).astype(np.result_type(*inputs))
    weights[rng.uniform(size=shape) < 0.2] = 0.0
    found = tg.grad(lambda *a: np.sum(weights * ours(op)(*a)), argnums(op, mask))(*inputs)
    wanted = rows.partials(op, *inputs)
    for j, gradient in zip(argnums(op, mask), found, strict=True):
        same(gradient, rows.unbroadcast(weights * wanted[j], np.shape(inputs[j])), rtol)
        assert np.asarray(gradient).dtype == inputs[j].dtype


# --- value ------------------------------------------------------------------------------------


@every_row
def test_value_expression_is_the_numpy_function(op, rng):
    rows.check_value(op, rng)


def laid_out(x, layout):
    """The same values in another memory layout, or read-only."""
    if layout == "fortran":
        return np.asfortranarray(x)
    if layout == "strided":
        wide = np.zeros((*x.shape, 2))
        wide[..., 0] = x
        return wide[..., 0]
    if layout == "reversed" and x.ndim:
        return np.ascontiguousarray(x[::-1])[::-1]
    if layout == "readonly":
        x = np.array(x)
        x.flags.writeable = False
    return x


LAYOUTS = ("plain", "fortran", "strided", "reversed", "readonly")


@every_row
@given(shape=array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4), data=st.data())
def test_value_on_shapes_and_layouts(op, shape, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    layout = data.draw(st.sampled_from(LAYOUTS))
    inputs = [laid_out(x, layout) for x in rows.points(op, shape, rng)]
    before = [x.copy() for x in inputs]
    wanted = rows.value(op, *inputs)
    plain = ours(op)(*inputs)
    assert not isinstance(plain, tg.Tensor)
    same(plain, wanted, 1e-14)
    for requires_grad in (False, True):
        make = tg.asarray if layout == "strided" and not requires_grad else tg.tensor
        tensors = [make(x, requires_grad=requires_grad) for x in inputs]
        out = ours(op)(*tensors)
        assert isinstance(out, tg.Tensor) and out.requires_grad == requires_grad
        same(out.detach().numpy(), wanted, 1e-14)
        assert out.dtype == wanted.dtype
    for x, old in zip(inputs, before, strict=True):
        assert np.array_equal(x, old)


@every_row
@pytest.mark.parametrize("shape", [(5000,), (70, 90), (3, 1, 2000)])
def test_value_of_large_arrays(op, shape, rng):
    inputs = rows.points(op, shape, rng)
    before = [x.copy() for x in inputs]
    wanted = rows.value(op, *inputs)
    for requires_grad in (False, True):
        tensors = [tg.tensor(x, requires_grad=requires_grad) for x in inputs]
        same(ours(op)(*tensors).detach().numpy(), wanted, 4e-15)
    same(ours(op)(*[x[..., ::-1] for x in inputs]), wanted[..., ::-1], 4e-15)
    for x, old in zip(inputs, before, strict=True):
        assert np.array_equal(x, old)


@every_row
@pytest.mark.parametrize("size", [6, 5000])
def test_value_of_unusual_numbers(op, size):
    few = np.array(
        [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e300, -1e300, 5e-324, 710.0, -745.0]
    )
    grids = np.meshgrid(*[few] * len(op.inputs), indexing="ij")
    inputs = [np.resize(g.ravel(), max(size, g.size)) for g in grids]
    if op.name == "polygamma":
        inputs[0] = np.ones_like(inputs[0])
    wanted = rows.value(op, *inputs)
    out = ours(op)(*[tg.tensor(x) for x in inputs]).numpy()
    np.testing.assert_allclose(out, wanted, rtol=1e-14)


@every_row
def test_numpy_dispatch_gives_the_same(op, rng):
    inputs = rows.points(op, (4, 3), rng)
    tensors = [tg.tensor(x, requires_grad=True) for x in inputs]
    wanted = ours(op)(*tensors)
    if op.name == "polygamma":  # SciPy's is no ufunc: it asks for a plain array and is refused
        with pytest.raises(TypeError, match="`from tapegrad.scipy import special` has one"):
            rows.numpy_function(op)(1, tensors[1])
        return
    if op.name == "where":
        tensors[0] = inputs[0] != 0
    out = rows.numpy_function(op)(*tensors)
    assert isinstance(out, tg.Tensor) and out.requires_grad
    assert np.array_equal(out.detach().numpy(), wanted.detach().numpy())


# --- slopes -----------------------------------------------------------------------------------


@every_row
def test_slopes_are_the_derivatives(op, rng):
    rows.check_partials(op, rng)


@every_mask
def test_compiled_adjoint_by_itself(op, mask, rng):
    rows.check_kernel(op, mask, rng)


@every_mask
@pytest.mark.parametrize("shape", [(3,), (2, 1, 3), (0,), (1,), (2100,), (5, 1200)])
def test_gradient_on_arrays(op, mask, shape, rng):
    check_gradients(op, rows.points(op, shape, rng), mask, rng)


@every_mask
def test_gradient_on_scalars(op, mask, rng):
    for _ in range(5):
        inputs = [float(x) for x in rows.points(op, (), rng)]
        wanted = rows.partials(op, *inputs)
        found = tg.grad(ours(op), argnums(op, mask))(*inputs)
        same(found, [wanted[j] for j in argnums(op, mask)])
        zero_d = tg.grad(ours(op), argnums(op, mask))(*[np.array(x) for x in inputs])
        assert zero_d == found


@every_binary
@pytest.mark.parametrize("array_at", [0, 1])
def test_gradient_beside_constant_floats_and_recorded_scalars(op, array_at, rng):
    """One input an array, the others numbers: constants first, then recorded scalars."""
    full = rows.points(op, (7,), rng)
    inputs = [x if j == array_at else x[3] for j, x in enumerate(full)]
    if op.name == "remainder":  # away from multiples
        inputs = [full[0][3] + 0.2 * np.arange(7), 0.7] if array_at == 0 else [0.3, full[1]]
        keep = np.abs(inputs[0] / inputs[1] - np.round(inputs[0] / inputs[1])) > 1e-3
        inputs[array_at] = inputs[array_at][keep]
    wanted = rows.partials(op, *inputs)
    f = lambda *a: np.sum(ours(op)(*a))
    same(tg.grad(f, array_at)(*inputs), wanted[array_at])
    every = tuple(range(len(inputs)))
    found = tg.grad(f, every)(*[x if np.ndim(x) else float(x) for x in inputs])
    for j, gradient in enumerate(found):
        same(gradient, rows.unbroadcast(wanted[j], np.shape(inputs[j])))


@every_row
def test_jacobian_is_diagonal(op, rng):
    """Eleven outputs: more than one sweep of several seeds."""
    inputs = rows.points(op, (11,), rng)
    every = tuple(range(len(inputs)))
    for found, slope in zip(
        tg.jacobian(ours(op), every)(*inputs), rows.partials(op, *inputs), strict=True
    ):
        same(found, np.diag(slope))


@every_row
@pytest.mark.parametrize("key", [np.s_[::-1], np.s_[::2], np.s_[1:, ::3], np.s_[:, None], np.s_[2]])
def test_gradient_through_views(op, key, rng):
    inputs = rows.points(op, (6, 7), rng)
    weights = rng.normal(size=inputs[0][key].shape)
    every = tuple(range(len(inputs)))
    f = lambda *a: np.sum(weights * ours(op)(*[x[key] for x in a]))
    for j, gradient in enumerate(tg.grad(f, every)(*inputs)):
        wanted = np.zeros((6, 7))
        wanted[key] = weights * rows.partials(op, *[x[key] for x in inputs])[j]
        same(gradient, wanted)


@every_binary
@given(data=st.data())
def test_gradient_of_broadcast_inputs(op, data):
    count = len(op.inputs)
    shapes = data.draw(mutually_broadcastable_shapes(num_shapes=count, max_dims=3, max_side=3))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    inputs = [rows.points(op, shape, rng)[j] for j, shape in enumerate(shapes.input_shapes)]
    if op.name == "remainder":  # thirds of the divisor's inverse are never near its multiples
        inputs[0] = np.floor(inputs[0] * 4) + 0.37
        inputs[1] = np.where(inputs[1] < 1.5, 1.0, 2.0)
    check_gradients(op, inputs, data.draw(st.sampled_from(masks(op))), rng)


@every_row
@pytest.mark.parametrize("size", [(), (9,), (3000,)])
def test_fan_out(op, size, rng):
    """One tensor for several inputs, and one used twice: adjoints add up."""
    inputs = rows.points(op, size, rng)
    moving = [j for j in range(len(inputs)) if rows.varies(op, j)]
    x = inputs[moving[-1]]

    def f(t):
        out = ours(op)(*[t if j in moving else 1.0 for j in range(len(inputs))])
        return np.sum(out * t + out)

    doubled = [x if j in moving else np.ones_like(x) for j in range(len(inputs))]
    out = rows.value(op, *doubled)
    total = sum(rows.partials(op, *doubled)[j] for j in moving)
    same(tg.grad(f)(x), total * (x + 1) + out, 1e-11)


@every_mask
@pytest.mark.parametrize("shape", [(), (5,), (3, 1500)])
def test_float32(op, mask, shape, rng):
    inputs = rows.points(op, shape, rng, np.float32)
    tensors = [tg.tensor(x, requires_grad=True) for x in inputs]
    out = ours(op)(*tensors)
    wanted = rows.value(op, *[x.astype(np.float64) for x in inputs])
    assert out.dtype == np.float32
    np.testing.assert_allclose(out.detach().numpy(), wanted, rtol=1e-5, atol=1e-6)
    weights = np.asarray(rng.uniform(0.5, 1.5, shape), np.float32)
    found = tg.grad(lambda *a: np.sum(weights * ours(op)(*a)), argnums(op, mask))(*inputs)
    slopes = rows.partials(op, *[x.astype(np.float64) for x in inputs])
    for j, gradient in zip(argnums(op, mask), found, strict=True):
        assert np.shape(gradient) == shape
        assert not shape or gradient.dtype == np.float32
        np.testing.assert_allclose(gradient, weights * slopes[j], rtol=1e-5, atol=1e-5)


@every_row
def test_inputs_are_not_mutated(op, rng):
    inputs = rows.points(op, (5000,), rng)
    for x in inputs:
        x.flags.writeable = False
    before = [x.copy() for x in inputs]
    every = tuple(range(len(inputs)))
    tg.grad(lambda *a: np.sum(ours(op)(*a)), every)(*inputs)
    for x, old in zip(inputs, before, strict=True):
        assert np.array_equal(x, old)


# --- the checks see a wrong slope -------------------------------------------------------------

PLANTED = {
    "sin": ("np.cos(x) * 1.000001",),
    "tanh": ("1.0 + out * out",),
    "multiply": ("y", "y"),
    "hypot": ("x / out", "0.0"),
    "gammaln": ("np.digamma(x + 1e-6)",),
}


def planted(name):
    op = next(op for op in rows.ROWS if op.name == name)
    return dataclasses.replace(op, partials=PLANTED[name])


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_wrong_slope_is_caught_in_the_expression(name, rng):
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        rows.check_partials(planted(name), rng)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_wrong_slope_is_caught_in_the_kernel(name, rng):
    op = planted(name)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        rows.check_kernel(op, (1 << len(op.inputs)) - 1, rng)


def test_a_planted_wrong_value_is_caught(rng):
    op = next(op for op in rows.ROWS if op.name == "exp")
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        rows.check_value(dataclasses.replace(op, value="np.exp2(x)"), rng)
