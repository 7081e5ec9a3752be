"""Functions that move elements: values are NumPy's, gradients are those of the moved positions."""

import numpy as np
import pytest

import tapegrad as tg

windows = np.lib.stride_tricks.sliding_window_view
RNG = np.random.default_rng(7)


def laid_out(shape, layout, dtype=np.float64):
    """Random values of a shape in C order, transposed or with gaps in memory."""
    if layout == "transposed":
        return RNG.normal(size=shape[::-1]).astype(dtype).T
    if layout == "gaps":
        wide = RNG.normal(size=tuple(2 * n for n in shape)).astype(dtype)
        return wide[(slice(None, None, -2),) * len(shape)]
    return RNG.normal(size=shape).astype(dtype)


def check_moved(function, shape, dtype=np.float64, layout="plain"):
    """A function that only moves elements (or adds zeros): value, gradient, several seeds."""
    x = laid_out(shape, layout, dtype)
    expected = np.asarray(function(x))
    if layout == "plain":
        leaf = tg.tensor(x, requires_grad=True)
        seen = leaf
    elif layout == "transposed":
        leaf = tg.tensor(np.ascontiguousarray(x.T), requires_grad=True)
        seen = leaf.T
    else:
        leaf = tg.tensor(np.repeat(x, 2, -1) if x.ndim else x, requires_grad=True)
        seen = leaf[..., ::2] if x.ndim else leaf
    made = function(seen)
    assert made.shape == expected.shape and made.dtype == expected.dtype
    np.testing.assert_array_equal(made.detach().numpy(), expected)
    weights = RNG.normal(size=expected.shape).astype(dtype)
    (made * 1.0).backward(weights)
    # where each element went: the function on positions + 1, 0 is what was added
    went = np.asarray(function(np.arange(1.0, x.size + 1).reshape(x.shape)))
    gradient = np.zeros(x.size + 1)
    np.add.at(gradient, went.astype(int).ravel(), weights.ravel())
    gradient = gradient[1:].reshape(x.shape)
    found = leaf.grad.numpy()
    if layout == "transposed":
        found = found.T
    elif layout == "gaps" and x.ndim:
        assert not found[..., 1::2].any()
        found = found[..., ::2]
    rtol, atol = (1e-12, 1e-15) if dtype == np.float64 else (1e-5, 1e-6)
    np.testing.assert_allclose(found, gradient, rtol=rtol, atol=atol)
    plain = function(x)
    assert isinstance(plain, (np.ndarray, np.generic))


MOVES = {
    "reshape": (lambda x: np.reshape(x, (4, 3, 2)), (2, 3, 4)),
    "reshape_minus_one": (lambda x: np.reshape(x, (-1, 2)), (2, 3, 4)),
    "reshape_fortran": (lambda x: np.reshape(x, (4, 6), order="F"), (2, 3, 4)),
    "reshape_method": (lambda x: x.reshape(6, 4), (2, 3, 4)),
    "reshape_tuple": (lambda x: x.reshape((6, 4)), (2, 3, 4)),
    "ravel": (np.ravel, (2, 3)),
    "ravel_method": (lambda x: x.ravel(), (2, 3)),
    "flatten": (lambda x: x.flatten(), (2, 3)),
    "transpose": (np.transpose, (2, 3, 4)),
    "transpose_axes": (lambda x: np.transpose(x, (1, 2, 0)), (2, 3, 4)),
    "transpose_method": (lambda x: x.transpose(1, 0), (2, 3)),
    "T": (lambda x: x.T, (2, 3)),
    "swapaxes": (lambda x: np.swapaxes(x, 0, -1), (2, 3, 4)),
    "moveaxis": (lambda x: np.moveaxis(x, (0, 1), (-1, 0)), (2, 3, 4)),
    "squeeze": (np.squeeze, (1, 3, 1)),
    "squeeze_axis": (lambda x: x.squeeze(-1), (1, 3, 1)),
    "expand_dims": (lambda x: np.expand_dims(x, (0, -1)), (3, 2)),
    "broadcast_to": (lambda x: np.broadcast_to(x, (4, 2, 3)), (2, 1)),
    "atleast_1d": (np.atleast_1d, (3,)),
    "atleast_2d": (np.atleast_2d, (3,)),
    "atleast_3d": (np.atleast_3d, (3, 2)),
    "flip": (np.flip, (2, 3)),
    "flip_axis": (lambda x: np.flip(x, -1), (2, 3)),
    "fliplr": (np.fliplr, (2, 3)),
    "flipud": (np.flipud, (2, 3)),
    "rot90": (lambda x: np.rot90(x, 3), (2, 3)),
    "diagonal": (lambda x: np.diagonal(x, 1), (3, 4)),
    "diagonal_axes": (lambda x: x.diagonal(0, -1, 0), (3, 4, 2)),
    "diag_matrix": (lambda x: np.diag(x, -1), (4, 3)),
    "diag_vector": (lambda x: np.diag(x, 2), (3,)),
    "diagflat": (np.diagflat, (2, 2)),
    "windows": (lambda x: windows(x, 2), (5,)),
    "windows_of_two_axes": (lambda x: windows(x, (2, 3)), (3, 5)),
    "windows_along_one_axis": (lambda x: windows(x, 2, axis=0), (4, 3)),
    "windows_stepped": (lambda x: windows(x, (2, 2), (-2, -1))[:, ::2, ::3], (2, 5, 6)),
    "windows_of_windows": (lambda x: windows(windows(x, 3), 2, 0), (6,)),
    "tril": (np.tril, (3, 4)),
    "triu_vector": (lambda x: np.triu(x, 1), (3,)),
    "triu_batch": (lambda x: np.triu(x, -1), (2, 3, 3)),
    "repeat": (lambda x: np.repeat(x, 3), (2, 3)),
    "repeat_axis": (lambda x: np.repeat(x, 2, axis=-1), (2, 3)),
    "repeat_each": (lambda x: np.repeat(x, [2, 0, 3], axis=1), (2, 3)),
    "repeat_none": (lambda x: np.repeat(x, 0, axis=0), (2, 3)),
    "tile": (lambda x: np.tile(x, 2), (2, 3)),
    "tile_more": (lambda x: np.tile(x, (2, 1, 3)), (2, 3)),
    "tile_fewer": (lambda x: np.tile(x, (2,)), (2, 3, 2)),
    "roll": (lambda x: np.roll(x, 4), (2, 3)),
    "roll_axis": (lambda x: np.roll(x, -1, axis=1), (2, 3)),
    "roll_axes": (lambda x: np.roll(x, (1, 5), axis=(0, -1)), (3, 4)),
    "roll_twice": (lambda x: np.roll(x, (1, 1), axis=(0, 0)), (3, 4)),
    "pad": (lambda x: np.pad(x, 2), (2, 3)),
    "pad_widths": (lambda x: np.pad(x, ((1, 0), (0, 2))), (2, 3)),
    "pad_edge": (lambda x: np.pad(x, 2, "edge"), (2, 3)),
    "pad_reflect": (lambda x: np.pad(x, ((1, 1), (2, 1)), "reflect"), (2, 3)),
    "pad_wrap": (lambda x: np.pad(x, 3, "wrap"), (2, 3)),
    "pad_symmetric": (lambda x: np.pad(x, 1, "symmetric"), (2, 3)),
    "concatenate": (lambda x: np.concatenate([x, x[:1], x], 0), (2, 3)),
    "concatenate_axis": (lambda x: np.concatenate([x, x[:, :1]], -1), (2, 3)),
    "concatenate_flat": (lambda x: np.concatenate([x, x[0]], None), (2, 3)),
    "stack": (lambda x: np.stack([x, x], 1), (2, 3)),
    "stack_last": (lambda x: np.stack([x, x], -1), (2, 3)),
    "vstack": (lambda x: np.vstack([x[0], x]), (2, 3)),
    "hstack": (lambda x: np.hstack([x, x]), (2, 3)),
    "hstack_vectors": (lambda x: np.hstack([x, x[1:]]), (3,)),
    "dstack": (lambda x: np.dstack([x, x]), (2, 3)),
    "column_stack": (lambda x: np.column_stack([x[:, 0], x]), (2, 3)),
    "append": (lambda x: np.append(x, x[:, :1], 1), (2, 3)),
    "split": (lambda x: np.concatenate(np.split(x, 3, 1)[::-1], 1), (2, 3)),
    "split_at": (lambda x: np.split(x, [1, 3])[1], (4, 3)),
    "array_split": (lambda x: np.array_split(x, 3)[0], (4, 2)),
    "sort": (lambda x: x[np.argsort(np.asarray([3, 1, 2]))], (3, 2)),
    "take": (lambda x: np.take(x, [0, -1, 0], axis=1), (2, 3)),
    "take_flat": (lambda x: np.take(x, [[0, 5], [2, 2]]), (2, 3)),
    "take_clip": (lambda x: np.take(x, [7, -2], axis=0, mode="clip"), (2, 3)),
    "take_wrap": (lambda x: np.take(x, [7, -2], axis=0, mode="wrap"), (2, 3)),
    "take_one": (lambda x: np.take(x, 1, axis=0), (2, 3)),
    "take_along_axis": (lambda x: np.take_along_axis(x, np.array([[1, 0], [2, 2]]), 1), (2, 3)),
}


@pytest.mark.parametrize("layout", ["plain", "transposed", "gaps"])
@pytest.mark.parametrize("name", MOVES)
def test_moved_elements(name, layout):
    check_moved(*MOVES[name], layout=layout)


@pytest.mark.parametrize("name", MOVES)
def test_moved_elements_in_float32(name):
    check_moved(*MOVES[name], dtype=np.float32)


EMPTY = {
    "reshape": (lambda x: np.reshape(x, (3, 0)), (0, 3)),
    "ravel": (np.ravel, (0, 3)),
    "transpose": (np.transpose, (0, 3)),
    "concatenate": (lambda x: np.concatenate([x, x], 1), (0, 3)),
    "concatenate_none": (lambda x: np.concatenate([x, x]), (0,)),
    "stack": (lambda x: np.stack([x, x]), (0, 2)),
    "repeat": (lambda x: np.repeat(x, 2, 1), (0, 2)),
    "tile": (lambda x: np.tile(x, (2, 2)), (0, 2)),
    "roll": (lambda x: np.roll(x, 1, 0), (0, 2)),
    "pad": (lambda x: np.pad(x, 1), (0, 2)),
    "tril": (np.tril, (0, 2)),
    "take": (lambda x: np.take(x, np.zeros(0, int), axis=1), (2, 3)),
    "flip": (np.flip, (0,)),
}


@pytest.mark.parametrize("name", EMPTY)
def test_nothing(name):
    check_moved(*EMPTY[name])


SCALARS = {
    "reshape": lambda x: np.reshape(x, (1, 1)),
    "ravel": np.ravel,
    "expand_dims": lambda x: np.expand_dims(x, 0),
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 3)),
    "atleast_2d": np.atleast_2d,
    "stack": lambda x: np.stack([x, x]),
    "concatenate": lambda x: np.concatenate([np.reshape(x, (1,)), np.ones(1)]),
    "hstack": lambda x: np.hstack([x, x]),
    "repeat": lambda x: np.repeat(x, 3),
    "tile": lambda x: np.tile(x, (2, 2)),
    "append": lambda x: np.append(np.zeros(2), x),
    "take": lambda x: np.take(x, [0, 0]),
    "squeeze": lambda x: np.reshape(np.squeeze(x), (1,)),
    "pad": lambda x: np.pad(np.reshape(x, (1,)), 1),
}


@pytest.mark.parametrize("name", SCALARS)
def test_scalars(name):
    x = tg.tensor([2.0, 5.0], requires_grad=True)
    made = SCALARS[name](x[1])
    expected = SCALARS[name](np.float64(5.0))
    np.testing.assert_array_equal(made.detach().numpy(), expected)
    made.sum().backward()
    assert x.grad.tolist() == [0.0, np.sum(expected == 5.0)]


def test_views_cost_no_row():
    x = tg.tensor(np.ones((2, 3)), requires_grad=True)
    y = x * 2.0
    before = (x * 2.0)._id
    views = [
        windows(y, 2, 1),
        y.T,
        y.reshape(3, 2),
        np.ravel(y),
        np.flip(y),
        np.diagonal(y),
        y[None].squeeze(),
    ]
    assert (x * 2.0)._id == before + 1
    assert all(np.shares_memory(v._array, y._array) for v in views)


def test_views_write_through():
    x = tg.tensor(np.arange(4.0), requires_grad=True)
    y = (x * 1.0).reshape(2, 2)
    d = y.diagonal()
    d *= x[:2]
    assert y.detach().numpy().tolist() == [[0.0, 1.0], [2.0, 3.0]]
    y.sum().backward()
    # y = [[x0·x0, x1], [x2, x3·x1]]
    assert x.grad.tolist() == [0.0, 1.0 + 3.0, 1.0, 1.0]


def test_views_of_unrecorded_tensors_are_recorded_with_them():
    f = tg.zeros(4)
    g = f.reshape(2, 2)
    x = tg.tensor([3.0], requires_grad=True)
    f[1] = x[0] * 2.0
    (g.T[1, 0] * 5.0).backward()
    assert x.grad.tolist() == [10.0]


def test_mixed_operands():
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    y = tg.tensor(np.ones(2, np.float32), requires_grad=True)
    made = np.concatenate([x, [5.0], np.zeros(1), y, np.stack([x[0], 7.0, np.float64(1.0)])])
    assert made.detach().numpy().tolist() == [1.0, 2.0, 5.0, 0.0, 1.0, 1.0, 1.0, 7.0, 1.0]
    made.backward(np.arange(9.0))
    assert x.grad.tolist() == [6.0, 1.0]
    assert y.grad.tolist() == [4.0, 5.0] and y.grad.dtype == np.float32
    made = tg.stack([x[0], tg.tensor(np.float32(2.0))])
    assert made.dtype == np.float64
    made.sum().backward()
    assert x.grad.tolist() == [7.0, 1.0]
    narrow = tg.concat([y, y], dtype=np.float64)
    assert narrow.dtype == np.float64


def test_several_seeds_and_fan_out():
    def f(x):
        return np.concatenate([np.roll(x, 1), np.tile(x[:1], 2), np.take(x, [2, 2]) * x[1]])

    x = np.array([2.0, 3.0, 5.0])
    expected = [[0, 0, 1], [1, 0, 0], [0, 1, 0], [1, 0, 0], [1, 0, 0], [0, 5, 3], [0, 5, 3]]
    np.testing.assert_array_equal(tg.jacobian(f)(x), expected)


def test_many_joins():
    """The usual way to keep boundary values: a loop of concatenations."""

    def f(u):
        for _ in range(100):
            inner = u[1:-1] + 0.1 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
            u = np.concatenate((u[:1], inner, u[-1:]))
        return np.sum(u * u)

    u = np.sin(np.linspace(0.0, 3.0, 8))
    step = np.eye(8)
    for k in range(1, 7):
        step[k, k - 1 : k + 2] = 0.1, 0.8, 0.1
    total = np.linalg.matrix_power(step, 100)
    np.testing.assert_allclose(tg.grad(f)(u), 2.0 * total.T @ (total @ u), rtol=1e-12)


@pytest.mark.parametrize("item", [None, object(), "text", {}])
def test_items_that_are_no_numbers(item):
    x = tg.tensor(2.0, requires_grad=True)
    words = rf"tapegrad\.stack: an item has type {type(item).__name__};"
    with pytest.raises(TypeError, match=words):
        np.stack([x, item])
    with pytest.raises(TypeError, match=r"tapegrad\.stack: an item has type ndarray;"):
        np.stack([x, np.array(None)])


def test_broadcast_arrays_and_unstack():
    x = tg.tensor([[1.0], [2.0]], requires_grad=True)
    a, b = np.broadcast_arrays(x, np.ones(3))
    (a * b).sum().backward()
    assert x.grad.tolist() == [[3.0], [3.0]]
    assert [t.tolist() for t in tg.unstack(x, axis=-1)] == [[1.0, 2.0]]


def test_windows_cannot_be_written():
    x = tg.tensor([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="read-only view"):
        windows(x, 2)[0, 0] = 5.0
    np.testing.assert_array_equal(tg.sliding_window_view([1, 2, 3], 2), [[1, 2], [2, 3]])


def test_no_grad_records_nothing():
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    with tg.no_grad():
        assert not np.concatenate([x, x]).requires_grad
        assert not np.repeat(x, 2).requires_grad
        assert not np.stack([x[0], x[1]]).requires_grad


ERRORS = [
    (lambda x: x.reshape(4, 2), ValueError, r"tapegrad\.reshape: .*\(2, 3\)"),
    (lambda x: np.reshape(x, (6,), order="K"), ValueError, r"tapegrad\.reshape: order"),
    (lambda x: x.transpose(0, 2), ValueError, r"tapegrad\.transpose: .*\(2, 3\)"),
    (lambda x: np.squeeze(x, 0), ValueError, r"tapegrad\.squeeze"),
    (lambda x: np.expand_dims(x, 7), ValueError, r"tapegrad\.expand_dims"),
    (lambda x: np.concatenate([x, x.T]), ValueError, r"tapegrad\.concatenate: shapes \(2, 3\)"),
    (lambda x: np.concatenate([x, x], 3), ValueError, r"tapegrad\.concatenate"),
    (lambda x: tg.concatenate([]), ValueError, "nothing to join"),
    (lambda x: np.stack([x, x.T]), ValueError, r"tapegrad\.stack: .*\(3, 2\)"),
    (lambda x: np.stack([x, x], 4), ValueError, r"tapegrad\.stack: axis 4"),
    (lambda x: np.split(x, 2, 1), ValueError, r"tapegrad\.split"),
    (lambda x: np.roll(x, 1, 2), ValueError, r"tapegrad\.roll"),
    (lambda x: np.repeat(x, [1, 2], 1), ValueError, r"tapegrad\.repeat"),
    (lambda x: windows(x, 4, 1), ValueError, r"tapegrad\.sliding_window_view: .*\(2, 3\)"),
    (lambda x: windows(x, 2, 1, writeable=True), TypeError, "write to the tensor itself"),
    (lambda x: np.take(x, 9), IndexError, r"tapegrad\.take"),
    (lambda x: tg.tril(x[0, 0]), ValueError, r"tapegrad\.tril: .* no axes"),
    (lambda x: np.diag(x[None]), ValueError, r"tapegrad\.diag: .*\(1, 2, 3\)"),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number):
    function, kind, text = ERRORS[number]
    with pytest.raises(kind, match=text):
        function(tg.tensor(np.ones((2, 3)), requires_grad=True))
