"""Elements chosen by conditions and numbers, and functions that write to their first argument."""

import warnings

import numpy as np
import pytest
from expressions import CHECKS, Expression, check_native, native_parts, parametrized

import tapegrad as tg

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


#: Numbers of elements that depend on values make a program each.
GUARDED = ("piecewise", "extract", "compress", "place", "np.where", "argsort", "lambda")


def every_other(table):
    return [e for e in table if not any(word in e.text for word in GUARDED)][::2]


@native_parts([*every_other(CHOSEN), *every_other(WRITTEN)])
def test_native(part):
    check_native(part)


ARRAYS = {
    "floats": np.array([[1.5, -0.0, 3.0, np.nan], [0.0, 2.0, -1.0, 5.0]]),
    "fortran": np.asfortranarray(np.arange(8.0).reshape(2, 4)),
    "float32": np.arange(8, dtype=np.float32).reshape(2, 4),
    "integers": np.arange(8).reshape(2, 4),
    "truths": np.arange(8).reshape(2, 4) % 3 == 0,
    "no rows": np.ones((0, 4)),
    "one": np.array(2.0),
}
EXACT = [
    "np.compress([True, False, True], x, axis=-1)",
    "np.compress([1, 0, 0, 0, 1], x)",
    "np.compress([1, 0, 0, 0, 0, 1], x, axis=1)",
    "np.compress([[True]], x)",
    "np.extract(x > 1, x)",
    "np.extract([True] * 3, x)",
    "np.choose([1, 0], [x, 3])",
    "np.choose([[1], [0]], [x, 2.5])",
    "np.choose([3, 0, 1, -1], [x, 7], mode='clip')",
    "np.choose([2], [x, 7])",
    "np.choose([0.5], [x, 7])",
    "np.select([x > 1, x < 0], [x, -x], 9)",
    "np.select([x > 1], [x * 2])",
    "np.select([x > 1], [1])",
    "np.select([x, x], [x, x])",
    "np.select([], [])",
    "np.select([x > 0], [x, x])",
    "np.piecewise(x, [x > 1, x < 0], [lambda v: v * 2, -1])",
    "np.piecewise(x, [x > 1, x < 0], [1, 2, 3])",
    "np.piecewise(x, x > 1, [1, lambda v: v + 1])",
    "np.piecewise(x, [x > 1], [1, 2, 3])",
    "np.piecewise(x, [x[0] > 1], [1.0])",
    "np.piecewise(x, [False], [lambda v: v])",
    "np.apply_along_axis(lambda v: v * 2, 0, x)",
    "np.apply_along_axis(len, 1, x)",
    "np.apply_along_axis(lambda v: v[:2], -1, x)",
    "np.apply_along_axis(len, 5, x)",
    "np.apply_over_axes(np.sum, x, [0, 1])",
    "np.apply_over_axes(np.sum, x, -1)",
    "np.take(x, [[0, -1]], axis=-1)",
    "np.take(x, 9, mode='clip')",
    "np.take_along_axis(x, np.array([1, 0]), axis=None)",
    "np.take_along_axis(x, np.array([[1]]), axis=None)",
    "np.where(x > 1)",
    "np.where(x > 1, x, 2)",
    "changed(np.put, x, [0, 3], [9, 8, 7])",
    "changed(np.put, x, [1, 1], [9, 8])",
    "changed(np.put, x, [], [])",
    "changed(np.put, x, [0], [])",
    "changed(np.put, x, 99, 1)",
    "changed(np.put, x, [0.0], 1)",
    "changed(np.put, x, np.array([0.0]), 1)",
    "changed(np.put, x, [9, -1], 5, mode='wrap')",
    "changed(np.place, x, x > 1, [1, 2])",
    "changed(np.place, x, x > 1, [])",
    "changed(np.place, x, [True], [1])",
    "changed(np.putmask, x, x > 1, [1, 0, 1])",
    "changed(np.putmask, x, x > 1, x + 1)",
    "changed(np.putmask, x, x > 1, [])",
    "changed(np.putmask, x, [True], 3)",
    "changed(np.copyto, x, 1)",
    "changed(np.copyto, x, 2.5)",
    "changed(np.copyto, x, 2.5, casting='unsafe')",
    "changed(np.copyto, x, np.float64(2.5))",
    "changed(np.copyto, x, [[1], [0]], where=x > 1)",
    "changed(np.copyto, x, [[1, 0]])",
    "changed(np.copyto, x, np.ones((2, 4)), 'same_kind', [True, False, True, True])",
    "changed(np.put_along_axis, x, np.array([[0, 1, 1, 0]]), 7, 0)",
    "changed(np.put_along_axis, x, np.array([[3], [0]]), [[1], [0]], 1)",
    "changed(np.fill_diagonal, x, 7)",
    "changed(np.fill_diagonal, x, [1, 2, 3])",
    "changed(np.fill_diagonal, x.T, [1, 0], wrap=True)",
    "changed(np.fill_diagonal, x[0], 7)",
]


def changed(function, *args, **kwargs):
    target = args[0].copy()
    assert function(target, *args[1:], **kwargs) is None
    return target


def outcome(text, x):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return eval(text, {"np": np, "changed": changed, "x": x})
        except (TypeError, ValueError, IndexError) as error:
            return error


def equal(found, wanted):
    if isinstance(wanted, Exception):
        assert isinstance(found, type(wanted)), found
        return
    if isinstance(wanted, tuple):
        assert type(found) is tuple
        for one, other in zip(found, wanted, strict=True):
            equal(one, other)
        return
    assert isinstance(found, tg.Tensor)
    found, wanted = np.asarray(found.detach()), np.asarray(wanted)
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("text", EXACT)
def test_exact(text, kind):
    x = ARRAYS[kind]
    if "over_axes" in text and not x.ndim:
        return  # it depends on the function that is called
    wanted = outcome(text, x)
    equal(outcome(text, tg.tensor(x)), wanted)
    if x.dtype.kind == "f":
        equal(outcome(text, tg.tensor(x, requires_grad=True)), wanted)


@pytest.mark.parametrize(
    "function, args",
    [
        (np.put, ([0], "x")),
        (np.place, ([True, False, False], "x")),
        (np.putmask, ([True, False, False], "x")),
        (np.copyto, ("x",)),
        (np.put_along_axis, (np.array([0]), "x", 0)),
        (np.fill_diagonal, ("x",)),
    ],
)
def test_plain_arrays_take_no_recorded_values(function, args):
    target = np.zeros((3, 3) if function is np.fill_diagonal else 3)
    x = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x = x[:1] if function is np.put_along_axis else x
    with pytest.raises(TypeError, match="tapegrad.*plain NumPy array"):
        function(target, *[x if type(a) is str else a for a in args])
    assert not target.any()
    function(target, *[x.detach() if type(a) is str else a for a in args])
    assert target.any()


def test_writing_functions_take_no_lists():
    x = tg.tensor([1.0], requires_grad=True)
    with pytest.raises(TypeError):
        np.put([0.0, 1.0], [0], x)


def test_integers_take_no_recorded_values():
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    for call in (
        lambda: np.insert(np.arange(3), 0, x),
        lambda: np.put(tg.tensor([1, 2]), [0], x),
        lambda: np.copyto(tg.tensor([1, 2]), x, casting="unsafe"),
        lambda: np.piecewise(tg.tensor([1, 2]), [[True, False]], [lambda v: v * x[:1]]),
        lambda: np.apply_along_axis(lambda v: v[0] if v[0] > 1 else 0, 1, x[:, None]),
        lambda: tg.pad([1, 2], 1, constant_values=x[0]),
    ):
        with pytest.raises(TypeError, match="tapegrad"):
            call()


def test_complex_numbers():
    """Where they are chosen or joined they are, and written to real tensors they are refused."""
    x = np.array([1.0, 2.0])
    t = tg.tensor(x, requires_grad=True)
    for call in (
        lambda x: np.concatenate([x, [1j]]),
        lambda x: np.stack([x, [1j, 2.0]]),
        lambda x: np.block([x, 1j]),
        lambda x: np.append(x, 1j),
        lambda x: np.choose([0, 1], [x, [1j, 1j]]),
        lambda x: np.select([[False, True]], [x], 1j),
        lambda x: np.insert(x, 0, 1j) if isinstance(x, tg.Tensor) else np.insert(x * 1j, 0, 1) * 0,
    ):
        made, wanted = call(t), call(x)
        assert made.requires_grad and made.dtype == np.complex128
        if np.all(wanted != 0):
            assert np.array_equal(made.detach().numpy(), wanted)
    with pytest.raises(TypeError, match="complex"):
        np.copyto(t * 1.0, 1j)


def test_numbers_of_choices_may_be_computed():
    """Programs compute them anew, and choose otherwise."""

    def f(x):
        y = x * 1.0
        k = (x > 1.0).astype(int)
        np.put(y, k, x[2] * 2.0)
        np.put_along_axis(y, np.argsort(x)[:1], x[:1], 0)
        y = y + np.choose(k, [x * x, np.sin(x), 5.0])
        return np.sum(y * np.take(x, k, mode="wrap") + np.select([k == 1], [x[::-1]], 2.0))

    compiled = tg.compile(f, verify="never", native=False)
    for x in ([0.5, 1.5, 2.0], [1.5, 0.5, 0.2], [2.0, 3.0, 1.4]):
        x = np.array(x)
        np.testing.assert_allclose(compiled(x), f(x))
        np.testing.assert_allclose(compiled.grad(x), tg.grad(f)(x))
        np.testing.assert_allclose(compiled.hvp(x, x), tg.hvp(f)(x, x))


def test_the_last_of_equal_positions_is_written():
    def f(x):
        y = x * 1.0
        np.put(y, [1, 0, 1], x[:3] ** 2)
        return np.sum(y * [1.0, 2.0, 3.0])

    x = np.array([1.5, 2.5, 3.5])
    assert f(x) == 2.5**2 + 2 * 3.5**2 + 3 * 3.5
    np.testing.assert_allclose(tg.grad(f)(x), [0.0, 5.0, 14.0 + 3.0])
    np.testing.assert_allclose(tg.hvp(f)(x, np.ones(3)), [0.0, 2.0, 4.0])


def test_views_are_written():
    x = tg.tensor(np.arange(12.0).reshape(3, 4), requires_grad=True)
    y = x * 1.0
    np.fill_diagonal(y[:, 1:], x[0, 3])
    np.put(y.T, [1], x[2, 2])
    assert float(y[1, 0].detach()) == 10.0 and np.array_equal(np.diag(y[:, 1:].detach()), [3.0] * 3)
    np.sum(y).backward()
    assert x.grad[0, 3] == 4.0 and x.grad[2, 2] == 2.0 and x.grad[1, 0] == 0.0


def test_plain_arrays_are_written_by_computed_indices():
    """A program guards what is written to an array that it does not compute."""

    def f(x):
        counts = np.zeros(3)
        np.put(counts, (x > 1.0).astype(int), 1.0)
        np.copyto(counts, 5.0, where=x > 2.0)
        return np.sum(x * counts)

    compiled = tg.compile(f, verify="never", native=False)
    for x in ([0.5, 1.5, 2.0], [1.5, 2.5, 1.2], [0.1, 0.2, 0.3]):
        assert compiled(np.array(x)) == f(np.array(x))
        np.testing.assert_array_equal(compiled.grad(np.array(x)), tg.grad(f)(np.array(x)))
