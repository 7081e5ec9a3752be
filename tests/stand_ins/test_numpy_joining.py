"""Functions that put together, pad, repeat, insert and leave out, in all argument forms."""

import warnings

import numpy as np
import pytest
from expressions import CHECKS, Expression, check_native, native_parts, parametrized
from hypothesis import given
from hypothesis import strategies as st

import tapegrad as tg

E = Expression
JOINED = [
    E("np.meshgrid(x[0], x[1])[0]", "torch.meshgrid(x[0], x[1], indexing='xy')[0]"),
    E(
        "np.meshgrid(x[0], x[:, 1], indexing='ij')[1]",
        "torch.meshgrid(x[0], x[:, 1], indexing='ij')[1]",
    ),
    E(
        "np.meshgrid(x[0], [1.0, 2.0], x[:, 2])[2]",
        "torch.meshgrid(x[0], torch.tensor([1.0, 2.0]).double(), x[:, 2], indexing='xy')[2]",
    ),
    E("np.meshgrid(x[0], x[1], sparse=True)[1] * x[1]", "x[1][:, None] * x[1]"),
    E("np.meshgrid(x[0], x[1], copy=False)[0]", "x[0].expand(4, 4)"),
    E("np.meshgrid(x[0])[0]", "x[0]"),
    E(
        "np.block([[x, x[:, :1]], [np.ones((1, 5))]])",
        "torch.cat([torch.cat([x, x[:, :1]], 1), torch.ones(1, 5)])",
    ),
    E("np.block([x[0], 2.0, x[1, :2]])", "torch.cat([x[0], torch.tensor([2.0]), x[1, :2]])"),
    E("np.block([[x[0]], [x[1]]])", "x[:2]"),
    E("np.block(x)", "x"),
    E(
        "np.block([[x[0, 0], 2.0], [3.0, x[1, 1]]])",
        "torch.stack([x[0, 0], x[0, 0] * 0 + 2, x[0, 0] * 0 + 3, x[1, 1]]).reshape(2, 2)",
    ),
    E("np.concatenate([x, x[:1]], axis=None)", "torch.cat([x.ravel(), x[0]])"),
    E(
        "np.concatenate([x, x * x], axis=-1, dtype=float, casting='unsafe')",
        "torch.cat([x, x * x], 1)",
    ),
    E("np.concatenate([x, 2 * x], out=tg.zeros((6, 4), dtype=x.dtype))", "torch.cat([x, 2 * x])"),
    E("np.concatenate((x, x[:2]), 0, tg.zeros((5, 4), dtype=x.dtype))", "torch.cat([x, x[:2]])"),
    E("np.stack([x, x**2], axis=-1)", "torch.stack([x, x**2], -1)"),
    E("np.stack([x[0], x[1]], 1, tg.zeros((4, 2), dtype=x.dtype))", "x[:2].T"),
    E("np.stack([x[0, 0], x[1, 1]], dtype=float)", "torch.stack([x[0, 0], x[1, 1]])"),
    E("np.vstack([x[0], x], dtype=float)", "torch.cat([x[:1], x])"),
    E("np.hstack([x, x[:, :2]], casting='same_kind')", "torch.cat([x, x[:, :2]], 1)"),
    E("np.dstack([x, x * 2])", "torch.stack([x, 2 * x], -1)"),
    E("np.column_stack([x[:, 0], x])", "torch.cat([x[:, :1], x], 1)"),
    E("np.append(x, x[0, :2])", "torch.cat([x.ravel(), x[0, :2]])"),
    E("np.append(x, x[:1], axis=0)", "torch.cat([x, x[:1]])"),
    E("np.dsplit(x.reshape(3, 2, 2), 2)[1]", "x.reshape(3, 2, 2)[:, :, 1:]"),
    E("np.array_split(x, 2)[0] + np.split(x, [1, 3])[1]", "x[:2] + x[1:3]"),
    E("np.hsplit(x, 2)[1] * np.vsplit(x, 3)[0][:, :2]", "x[:, 2:] * x[:1, :2]"),
    E("np.unstack(x, axis=1)[2]", "x[:, 2]"),
    E("np.tile(x, (2, 1, 2))", "x.tile(2, 1, 2)"),
    E("np.repeat(x, [1, 0, 2], axis=0)", "x.repeat_interleave(torch.tensor([1, 0, 2]), 0)"),
    E("np.repeat(x, 2)", "x.repeat_interleave(2)"),
    E("np.resize(x, (5, 3))", "torch.cat([x.ravel(), x.ravel()[:3]]).reshape(5, 3)"),
    E("np.resize(x, 5)", "x.ravel()[:5]"),
    E("np.roll(x, (1, 2), axis=(0, 1))", "x.roll((1, 2), (0, 1))"),
    E("np.rot90(x, 3)", "torch.rot90(x, 3)"),
    E("np.rollaxis(x, 1)", "x.T"),
    E("np.triu(x, 1) + np.tril(x, -1)", "x.triu(1) + x.tril(-1)"),
]
INSERTED = [
    E("np.insert(x[0], 1, 5.0)", "torch.cat([x[0, :1], torch.tensor([5.0]), x[0, 1:]])"),
    E("np.insert(x, 1, x[2], axis=0)", "torch.cat([x[:1], x[2:], x[1:]])"),
    E("np.insert(x, [1], x[:2], axis=0)", "torch.cat([x[:1], x[:2], x[1:]])"),
    E(
        "np.insert(x, [0, 2], x[:, 1:3] * 2, axis=1)",
        "torch.cat([2 * x[:, 1:2], x[:, :2], 2 * x[:, 2:3], x[:, 2:]], 1)",
    ),
    E(
        "np.insert(x, slice(0, 2), x[0, 0], axis=1)",
        "torch.cat([x[0, 0].expand(3, 1), x[:, :1], x[0, 0].expand(3, 1), x[:, 1:]], 1)",
    ),
    E(
        "np.insert(x[0], np.array([True, False, True, False]), x[1, :2])",
        "torch.stack([x[1, 0], x[0, 0], x[0, 1], x[1, 1], x[0, 2], x[0, 3]])",
    ),
    E("np.insert(x, -1, 0.0, axis=-1)", "torch.cat([x[:, :3], torch.zeros(3, 1), x[:, 3:]], 1)"),
    E(
        "np.insert(np.ones(3), [1, 1], x[0, :2])",
        "torch.cat([torch.ones(1), x[0, :2], torch.ones(2)])",
    ),
    E(
        "np.insert(x, 2, [x[0, 0], 1.0, 2.0], axis=1)",
        "torch.cat([x[:, :2], torch.stack([x[0, 0], x[0, 0] * 0 + 1, x[0, 0] * 0 + 2])[:, "
        "None], x[:, 2:]], 1)",
    ),
    E("np.delete(x, 1)", "torch.cat([x.ravel()[:1], x.ravel()[2:]])"),
    E("np.delete(x, -1, axis=0)", "x[:2]"),
    E("np.delete(x, slice(None, None, 2), axis=1)", "x[:, 1::2]"),
    E("np.delete(x, [0, 2], axis=1)", "x[:, [1, 3]]"),
    E("np.delete(x, np.array([True, False, False, True]), axis=1)", "x[:, 1:3]"),
    E("np.delete(x, [], axis=0)", "x"),
    E(
        "np.trim_zeros(np.concatenate([[0.0], x[0], [0.0, 0.0]]))",
        "x[0]",
        other=(-1.0, 0.5),
        choices=False,
    ),
    E(
        "np.trim_zeros(np.concatenate([[0.0], x[0], [0.0, 0.0]]), 'f')",
        "torch.cat([x[0], torch.zeros(2)])",
        choices=False,
    ),
    E(
        "np.trim_zeros(np.concatenate([[0.0], x[0], [0.0, 0.0]]), 'b')",
        "torch.cat([torch.zeros(1), x[0]])",
        choices=False,
    ),
]
PADDED = [
    E("np.pad(x, 1)", "torch.nn.functional.pad(x, (1, 1, 1, 1))"),
    E(
        "np.pad(x, ((1, 2), (0, 1)), constant_values=3.0)",
        "torch.nn.functional.pad(x, (0, 1, 1, 2), value=3.0)",
    ),
    E(
        "np.pad(x, 2, constant_values=x[0, 0])",
        "torch.where(torch.nn.functional.pad(torch.ones(3, 4), (2, 2, 2, 2)) > 0, "
        "torch.nn.functional.pad(x, (2, 2, 2, 2)), x[0, 0])",
    ),
    E("np.pad(x, (1, 2), constant_values=(x[0, 0], x[1, 1]))"),
    E(
        "np.pad(x, ((2, 0), (1, 3)), 'edge')",
        "torch.nn.functional.pad(x[None], (1, 3, 2, 0), 'replicate')[0]",
    ),
    E(
        "np.pad(x, (1, 2), 'reflect')",
        "torch.nn.functional.pad(x[None], (1, 2, 1, 2), 'reflect')[0]",
    ),
    E("np.pad(x, (1, 2), 'wrap')", "torch.nn.functional.pad(x[None], (1, 2, 1, 2), 'circular')[0]"),
    E("np.pad(x, (3, 5), 'symmetric')"),
    E("np.pad(x, (3, 9), 'reflect', reflect_type='odd')"),
    E("np.pad(x, (4, 11), 'symmetric', reflect_type='odd')"),
    E("np.pad(x[:1], (1, 2), 'reflect', reflect_type='odd')"),
    E("np.pad(x, 2, 'linear_ramp')"),
    E("np.pad(x, ((1, 2), (3, 0)), 'linear_ramp', end_values=(x[0, 1], 4.0))"),
    E("np.pad(x, (1, 2), 'maximum')"),
    E("np.pad(x, (1, 2), 'minimum', stat_length=2)"),
    E("np.pad(x, (1, 2), 'mean', stat_length=((1, 2), (3, 2)))"),
    E("np.pad(x, 1, 'median', stat_length=(3,))"),
    E(
        "np.pad(x[0], (2, 3), lambda v, w, axis, kw: _fill(v, w, kw['end']), end=x[1, 1])",
        names={
            "_fill": lambda v, w, end: (
                v.__setitem__(slice(None, w[0]), end * v[w[0]]),
                v.__setitem__(slice(-w[1], None), end),
            )
        },
    ),
]
if np.lib.NumpyVersion(np.__version__) >= "2.3.0":  # NumPy 2.2 takes no dictionary
    constants = "constant_values=[[x[0, 0], 1.0], [2.0, x[1, 1]]]"
    PADDED.append(E(f"np.pad(x, {{-1: (1, 2)}}, {constants})"))
PRODUCTS = [
    E("np.einsum('ij,kj->ik', x, x, optimize='optimal')", "torch.einsum('ij,kj->ik', x, x)"),
    E(
        "np.einsum('ij,kj,k->i', x, x, x[:, 0], optimize=['einsum_path', (0, 1), (0, 1)])",
        "torch.einsum('ij,kj,k->i', x, x, x[:, 0])",
    ),
    E("np.einsum('ij->ji', x, out=tg.zeros((4, 3), dtype=x.dtype))", "x.T"),
    E("np.einsum('ij,ij->i', x, x, dtype=x.dtype, order='F', casting='safe')", "(x * x).sum(1)"),
    E("np.einsum(x, [0, 1], x, [2, 1], [0, 2])", "x @ x.T"),
    E("np.einsum(x, [Ellipsis, 1], x[0], [1], optimize=False)", "x @ x[0]"),
    E("np.tensordot(x, x, axes=([0, 1], [0, 1]))", "torch.tensordot(x, x, ([0, 1], [0, 1]))"),
    E("np.tensordot(x, x, axes=(-1, 1))", "x @ x.T"),
    E("np.tensordot(x, x, axes=0)", "torch.tensordot(x, x, 0)"),
    E("np.tensordot(x[:, :3], x, 1)", "x[:, :3] @ x"),
    E("np.kron(x, x[0])", "torch.kron(x, x[0])"),
    E("np.kron(x[0], x.reshape(3, 2, 2))", "torch.kron(x[0], x.reshape(3, 2, 2))"),
    E("np.kron(x[0, 0], x)", "x[0, 0] * x"),
]
TABLE = [*JOINED, *INSERTED, *PADDED, *PRODUCTS]


@parametrized(TABLE)
@pytest.mark.parametrize("check", CHECKS)
def test_expression(check, expression):
    CHECKS[check](expression)


@native_parts(TABLE)
def test_native(part):
    check_native(part)


#: Arrays by name; those of floats also as recorded tensors.
ARRAYS = {
    "floats": np.array([[1.5, -0.0, 3.0, np.nan], [0.0, 2.0, -1.0, 5.0]]),
    "fortran": np.asfortranarray(np.arange(8.0).reshape(2, 4)),
    "float32": np.arange(8, dtype=np.float32).reshape(2, 4),
    "integers": np.arange(8).reshape(2, 4),
    "truths": np.arange(8).reshape(2, 4) % 3 == 0,
    "one row": np.ones((1, 4)),
    "no rows": np.ones((0, 4)),
}
EXACT = [
    "np.meshgrid(x, x[0])",
    "np.meshgrid()",
    "np.meshgrid(x, indexing='ij', sparse=True)",
    "np.block([[x, x], [x, x]])",
    "np.block([x[0], [1, 2]])",
    "np.block(x)",
    "np.concatenate([x, x], axis=-2, dtype=np.float32, casting='same_kind')",
    "np.concatenate([x, x], 1, dtype=int)",
    "np.stack([x, x], axis=-1, dtype=bool)",
    "np.vstack([x, x], casting='no')",
    "np.resize(x, (3, 3))",
    "np.resize(x, 0)",
    "np.resize(x, (2, -1))",
    "np.insert(x, 0, 7, axis=1)",
    "np.insert(x, [0, 0, 3], 2, -1)",
    "np.insert(x, slice(None, None, -1), 9, axis=1)",
    "np.insert(x, [], [], axis=1)",
    "np.insert(x, 5, 1, axis=1)",
    "np.insert(x, 1, x[0] if len(x) else 0, axis=0)",
    "np.insert(x, np.array([True, False, False, True]), 4, axis=1)",
    "np.delete(x, 2, axis=1)",
    "np.delete(x, slice(3, 0, -2), axis=1)",
    "np.delete(x, [-1, 0, 0], axis=1)",
    "np.delete(x, np.array([True, False, False, True]), axis=1)",
    "np.delete(x, 9, axis=1)",
    "np.delete(x, 0)",
    "np.trim_zeros(x)",
    "np.trim_zeros(x, 'f', axis=1)",
    "np.trim_zeros(x * 0)",
    "np.trim_zeros(x, 'q')",
    "np.pad(x, 2)",
    "np.pad(x, ((0, 1), (2, 0)), constant_values=((1, 2), (3, 4)))",
    "np.pad(x, ((0, 0), (2, 3)), mode='edge')",
    "np.pad(x, ((0, 0), (2, 3)), mode='wrap')",
    "np.pad(x, ((0, 0), (2, 7)), mode='reflect', reflect_type='odd')",
    "np.pad(x, ((0, 0), (5, 3)), mode='symmetric', reflect_type='odd')",
    "np.pad(x, (1, 2), mode='reflect', reflect_type='odd')",
    "np.pad(x, ((0, 0), (2, 3)), 'linear_ramp', end_values=2)",
    "np.pad(x, ((0, 0), (2, 3)), 'maximum', stat_length=2)",
    "np.pad(x, ((0, 0), (2, 3)), 'mean')",
    "np.pad(x, 1, 'mean', stat_length=0)",
    "np.pad(x, 1, 'maximum', stat_length=0)",
    "np.pad(x, -1)",
    "np.pad(x, 1, 'mirror')",
    "np.pad(x, 1, 'edge', constant_values=3)",
    "np.dsplit(x[..., None], 1)",
    "np.dsplit(x, 1)",
    "np.einsum('ij->', x)",
    "np.einsum('ij,ij->j', x, x, dtype=float, casting='safe')",
    "np.einsum('ij,ij->j', x, x, dtype=np.float32, casting='safe')",
    "np.einsum('ij->ij', x, order='F')",
    "np.einsum_path('ij,jk->ik', x, x.T)[0][1]",
    "np.ix_(x[0].astype(int) if len(x) else [], [True, False])",
    "np.ix_(x)",
    "np.astype(x, float)",
    "np.kron(x, x[:1])",
    "np.tensordot(x, x, axes=[[1], [1]])",
]
if np.lib.NumpyVersion(np.__version__) >= "2.3.0":  # NumPy 2.2 takes one axis
    EXACT.append("np.trim_zeros(x, 'B', axis=(0, 1))")


def outcome(text, x):
    """What an expression gives, or the kind of error that it raises."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return eval(text, {"np": np, "x": x})
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            return error


def equal(found, wanted, is_tensor=True):
    """Assert that a result is a tensor of what NumPy gives."""
    if isinstance(wanted, Exception):
        assert isinstance(found, type(wanted)), found
        return
    if isinstance(wanted, (list, tuple)):
        assert type(found) is type(wanted) and len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            equal(one, other, False)
        return
    if isinstance(found, tg.Tensor):
        found = np.asarray(found.detach())
    else:
        assert not is_tensor or type(wanted) is type(found)
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("text", EXACT)
def test_exact(text, kind):
    x = ARRAYS[kind]
    wanted = outcome(text, x)
    equal(outcome(text, tg.tensor(x)), wanted)
    if x.dtype.kind == "f":
        equal(outcome(text, tg.tensor(x, requires_grad=True)), wanted)


@given(st.data())
def test_insert_and_delete_of_any_places(data):
    """Each element's derivative goes where NumPy's function puts it."""
    shape = data.draw(st.tuples(st.integers(0, 3), st.integers(1, 4)))
    axis = data.draw(st.sampled_from([None, 0, 1, -1]))
    n = shape[0] * shape[1] if axis is None else shape[axis]
    places = data.draw(st.lists(st.integers(-n, n - 1), max_size=4) if n else st.just([]))
    x = np.arange(1.0, shape[0] * shape[1] + 1).reshape(shape)
    for f in (
        lambda x: np.delete(x, places, axis),
        lambda x: np.insert(x, places, 0.0, axis),
        lambda x: np.insert(x, places[:1] or 0, 0.0, axis) if n else x,
    ):
        went = f(x)
        weights = np.cos(np.arange(went.size)).reshape(went.shape)
        wanted = np.zeros(x.size + 1)
        np.add.at(wanted, went.astype(int).ravel(), weights.ravel())
        found = tg.vjp(f, x)[1](weights)[0]
        np.testing.assert_allclose(found, wanted[1:].reshape(shape))


MANY = [
    "np.stack([x[k] if k % 5 else 2.0 * y[k] for k in range(len(x))])",
    "np.stack([x[k] for k in range(len(x))], axis=1).T",
    "np.concatenate([x[k] if k % 5 else y[k] for k in range(len(x))]).reshape(x.shape)",
    "np.concatenate([x[k : k + 1].T for k in range(len(x))], axis=-1).T",
    "tg.numpy.array([x[k] for k in range(len(x))])",
]


@pytest.mark.parametrize("text", MANY)
def test_more_pieces_than_a_row_has_room_for(text):
    """Twice the references of a chunk; pieces that are not recorded are among them."""
    x, y = np.random.default_rng(5).standard_normal((2, 6200, 2))
    joined = eval(f"lambda x, y: {text}", {"np": np, "tg": tg})
    expected = joined(x, y)
    assert np.array_equal(tg.vjp(joined, x, y)[0], expected)
    taken = np.all(expected == x, axis=1)[:, None]
    assert np.array_equal(tg.grad(lambda x: np.sum(joined(x, y) * y))(x), np.where(taken, y, 0.0))
    compiled = tg.compile(lambda x: np.sum(joined(x, y) * y))
    compiled(x)
    assert np.isclose(compiled(y), np.sum(joined(y, y) * y), rtol=1e-12)
