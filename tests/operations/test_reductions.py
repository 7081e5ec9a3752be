"""Reductions and running operations: values are NumPy's or SciPy's, gradients closed forms."""

import numpy as np
import pytest
import scipy.special

import tapegrad as tg

RNG = np.random.default_rng(3)


def softmax(x, axis):
    return scipy.special.softmax(x, axis=axis)


def rest(x, axis):
    """The product of the other elements, by leaving each out."""
    made = np.empty_like(x)
    for at in np.ndindex(x.shape):
        without = x.copy()
        without[at] = 1.0
        axes = range(x.ndim) if axis is None else np.atleast_1d(axis) % x.ndim
        key = tuple(slice(None) if k in axes else slice(i, i + 1) for k, i in enumerate(at))
        made[at] = without[key].prod()
    return made


def chosen(best):
    def slopes(x, axis):
        tied = x == best(x, axis=axis, keepdims=True)
        return tied / tied.sum(axis=axis, keepdims=True)

    return slopes


def count(x, axis):
    return x.size / np.sum(x, axis=axis, keepdims=True).size


def deviation(x, axis):
    return x - x.mean(axis=axis, keepdims=True)


# name: ours, NumPy's or SciPy's value, slope of the result to each element
REDUCTIONS = {
    "sum": (tg.sum, np.sum, lambda x, axis: np.ones_like(x)),
    "mean": (tg.mean, np.mean, lambda x, axis: np.ones_like(x) / count(x, axis)),
    "var": (tg.var, np.var, lambda x, axis: 2 * deviation(x, axis) / count(x, axis)),
    "std": (
        tg.std,
        np.std,
        lambda x, axis: deviation(x, axis) / count(x, axis) / x.std(axis=axis, keepdims=True),
    ),
    "max": (tg.max, np.max, chosen(np.max)),
    "min": (tg.min, np.min, chosen(np.min)),
    "ptp": (tg.ptp, np.ptp, lambda x, axis: chosen(np.max)(x, axis) - chosen(np.min)(x, axis)),
    "prod": (tg.prod, np.prod, rest),
    "logsumexp": (tg.logsumexp, scipy.special.logsumexp, softmax),
}
SHAPES = [
    ((5,), None), ((5,), 0), ((5,), -1), ((1,), 0), ((3, 4), None), ((3, 4), 0), ((3, 4), -1),
    ((2, 3, 4), (0, 2)), ((2, 3, 4), (-1, 0)), ((2, 3, 4), 1), ((3, 1, 2), 1),
    ((2, 3, 4), (0, 1, 2)),
]  # fmt: skip


def inputs(shape, layout, dtype=np.float64):
    """A leaf, the tensor made from it that is operated on, and how a gradient is read."""
    if layout == "plain":
        leaf = tg.tensor(RNG.normal(size=shape).astype(dtype), requires_grad=True)
        return leaf, leaf, leaf.detach().numpy(), lambda g: g
    if layout == "transposed":
        leaf = tg.tensor(RNG.normal(size=shape[::-1]).astype(dtype), requires_grad=True)
        return leaf, leaf.T, leaf.detach().numpy().T, lambda g: g.T
    cut = (slice(None, None, -2),) * len(shape)
    wide = RNG.normal(size=[2 * n for n in shape]).astype(dtype)
    leaf = tg.tensor(wide, requires_grad=True)
    return leaf, leaf[cut], wide[cut], lambda g: g[cut]


@pytest.mark.parametrize("layout", ["plain", "transposed", "gaps", "float32"])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("shape,axis", SHAPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction(name, shape, axis, keepdims, layout):
    if name in ("std", "var") and np.prod(shape) == 1:
        pytest.skip("the slope of a spread of one element is 0/0")
    if name == "std" and shape == (3, 1, 2):
        pytest.skip("the slope of a spread of one element is 0/0")
    dtype = np.float32 if layout == "float32" else np.float64
    ours, theirs, slopes = REDUCTIONS[name]
    leaf, x, value, read = inputs(shape, "plain" if layout == "float32" else layout, dtype)
    tolerance = dict(rtol=1e-12, atol=1e-14) if dtype == np.float64 else dict(rtol=2e-4, atol=1e-5)
    made = ours(x, axis=axis, keepdims=keepdims)
    expected = np.asarray(theirs(value, axis=axis, keepdims=keepdims))
    assert made.shape == expected.shape and made.dtype == dtype
    np.testing.assert_allclose(made.detach().numpy(), expected, **tolerance)
    weights = np.asarray(RNG.normal(size=expected.shape), dtype)
    made.backward(weights)
    spread = weights.reshape(np.sum(value, axis=axis, keepdims=True).shape)
    wanted = spread * slopes(value.astype(np.float64), axis)
    np.testing.assert_allclose(read(leaf.grad.numpy()), wanted, **tolerance)
    if name != "logsumexp":
        assert theirs(x, axis=axis, keepdims=keepdims).requires_grad
    plain = ours(value, axis=axis, keepdims=keepdims)
    assert not isinstance(plain, tg.Tensor)
    np.testing.assert_allclose(plain, expected, **tolerance)


# name: value, adjoint of the operand from (value, output, adjoint of the output), axis last
RUNNING = {
    "cumsum": (tg.cumsum, np.cumsum, lambda x, y, g: g[..., ::-1].cumsum(-1)[..., ::-1]),
    "cumprod": (
        tg.cumprod,
        np.cumprod,
        lambda x, y, g: (g * y)[..., ::-1].cumsum(-1)[..., ::-1] / x,
    ),
    "softmax": (
        tg.softmax,
        scipy.special.softmax,
        lambda x, y, g: y * (g - (g * y).sum(-1, keepdims=True)),
    ),
    "log_softmax": (
        tg.log_softmax,
        scipy.special.log_softmax,
        lambda x, y, g: g - np.exp(y) * g.sum(-1, keepdims=True),
    ),
    "sort": (
        tg.sort,
        np.sort,
        lambda x, y, g: np.take_along_axis(g, x.argsort(-1).argsort(-1), -1),
    ),
}


@pytest.mark.parametrize("layout", ["plain", "transposed", "gaps", "float32"])
@pytest.mark.parametrize("shape,axis", [s for s in SHAPES if isinstance(s[1], int)])
@pytest.mark.parametrize("name", RUNNING)
def test_running(name, shape, axis, layout):
    dtype = np.float32 if layout == "float32" else np.float64
    ours, theirs, adjoint = RUNNING[name]
    leaf, x, value, read = inputs(shape, "plain" if layout == "float32" else layout, dtype)
    tolerance = dict(rtol=1e-12, atol=1e-14) if dtype == np.float64 else dict(rtol=2e-4, atol=1e-5)
    made = ours(x, axis=axis)
    expected = theirs(value, axis=axis)
    assert made.shape == expected.shape and made.dtype == dtype
    np.testing.assert_allclose(made.detach().numpy(), expected, **tolerance)
    weights = RNG.normal(size=shape).astype(dtype)
    made.backward(weights)
    last = [np.moveaxis(a.astype(np.float64), axis, -1) for a in (value, expected, weights)]
    wanted = np.moveaxis(adjoint(*last), -1, axis)
    np.testing.assert_allclose(read(leaf.grad.numpy()), wanted, **tolerance)
    assert not isinstance(ours(value, axis=axis), tg.Tensor)


@pytest.mark.parametrize("axis", [None, (0, 2)])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_over_several_axes(name, axis):
    x = RNG.normal(size=(2, 3, 4))
    ours, theirs, _ = RUNNING[name]
    np.testing.assert_allclose(ours(x, axis=axis), theirs(x, axis=axis), rtol=1e-13)
    slopes = tg.jacobian(lambda x: ours(x, axis=axis))(x).reshape(24, 24)
    y, p = theirs(x, axis=axis).ravel(), softmax(x, axis).ravel()
    group = np.broadcast_to(np.arange(3)[:, None] if axis else 0, x.shape).ravel()
    same = group[:, None] == group[None, :]
    factor = np.diag(y) if name == "softmax" else np.eye(24)
    wanted = factor - same * p[None, :] * (y[:, None] if name == "softmax" else 1.0)
    np.testing.assert_allclose(slopes, wanted, atol=1e-15)


@pytest.mark.parametrize("x", [[0.0, 2.0, 3.0], [2.0, 0.0, 0.0], [0.0, 0.0, 0.0], [-1.5, 0.0, 4.0]])
def test_products_with_zeros(x):
    x = np.array(x)
    np.testing.assert_allclose(tg.grad(tg.prod)(x), rest(x, None), rtol=1e-15)
    lower = [[np.delete(x[: k + 1], j).prod() if j <= k else 0 for j in range(3)] for k in range(3)]
    np.testing.assert_allclose(tg.jacobian(np.cumprod)(x), lower, rtol=1e-15)
    np.testing.assert_allclose(
        tg.grad(lambda x: np.prod(np.stack([x, x], 1)))(x), 2 * x.prod() * rest(x, None)
    )


def test_ties_share():
    x = np.array([[3.0, 3.0, 1.0], [1.0, 1.0, 1.0]])
    assert tg.grad(lambda x: np.max(x))(x).tolist() == [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]
    assert tg.grad(lambda x: np.min(x))(x).tolist() == [[0, 0, 0.25], [0.25, 0.25, 0.25]]
    third = 1 / 3
    expected = [[0.5, 0.5, 0.0], [third, third, third]]
    assert tg.grad(lambda x: x.max(axis=1).sum())(x).tolist() == expected


def test_extremes_with_nan():
    x = tg.tensor([1.0, np.nan, 2.0], requires_grad=True)
    made = x.max()
    assert np.isnan(made.item())
    made.backward()
    assert x.grad.tolist() == [0.0, 1.0, 0.0]


def test_several_seeds():
    x = RNG.normal(size=(2, 3))
    found = tg.jacobian(lambda x: np.concatenate([x.max(0), tg.logsumexp(x, 1), np.prod(x, 1)]))(x)
    assert found.shape == (7, 2, 3)
    for k in range(3):
        wanted = np.zeros((2, 3))
        wanted[:, k] = x[:, k] == x[:, k].max()
        np.testing.assert_array_equal(found[k], wanted)
    for k in range(2):
        wanted = np.zeros((2, 3))
        wanted[k] = softmax(x, 1)[k]
        np.testing.assert_allclose(found[3 + k], wanted, rtol=1e-13)
        wanted[k] = rest(x, 1)[k]
        np.testing.assert_allclose(found[5 + k], wanted, rtol=1e-13)
    found = tg.jacobian(np.cumsum)(x[0])
    np.testing.assert_array_equal(found, np.tril(np.ones((3, 3))))


def test_fan_out():
    x = tg.tensor([1.0, 3.0, 2.0], requires_grad=True)
    y = x * 2.0
    (y.max() * y.sum() + np.cumsum(y)[1] * x[0] + np.sort(y)[0]).backward()
    # 2·3·2·(sum x) + 2·x0·(x0 + x1) + 2·x0 with the largest at 1
    assert x.grad.tolist() == [12.0 + 2 * (2 + 3) + 2.0, 12.0 + 24.0 + 2.0, 12.0]


@pytest.mark.parametrize("name", ["sum", "prod", "logsumexp"])
def test_of_nothing(name):
    ours, theirs, _ = REDUCTIONS[name]
    x = tg.tensor(np.zeros((0, 3)), requires_grad=True)
    for axis in (None, 0, 1):
        made = ours(x, axis=axis)
        expected = np.asarray(theirs(np.zeros((0, 3)), axis=axis)) if name != "logsumexp" else None
        if expected is not None:
            np.testing.assert_array_equal(made.detach().numpy(), expected)
        else:
            assert np.all(made.detach().numpy() == -np.inf)
        made.backward(np.ones(made.shape))
    assert x.grad.shape == (0, 3)


@pytest.mark.parametrize("name", ["max", "min"])
def test_extreme_of_nothing(name):
    x = tg.tensor(np.zeros((0, 3)), requires_grad=True)
    with pytest.raises(ValueError, match=rf"tapegrad\.{name}: .*\(0, 3\)"):
        REDUCTIONS[name][0](x, axis=0)
    assert REDUCTIONS[name][0](x, axis=1).shape == (0,)


@pytest.mark.parametrize("name", RUNNING)
def test_running_of_nothing(name):
    x = tg.tensor(np.zeros((2, 0)), requires_grad=True)
    made = RUNNING[name][0](x, axis=0)
    assert made.shape == (2, 0)
    made.sum().backward()


@pytest.mark.parametrize("name", REDUCTIONS)
def test_scalars(name):
    x = tg.tensor([2.0, 5.0], requires_grad=True)
    ours, theirs, _ = REDUCTIONS[name]
    made = ours(x[1])
    assert made.item() == theirs(np.float64(5.0))
    made.backward()
    slope = 0.0 if name in ("var", "ptp") else 1.0
    if name != "std":
        assert x.grad.tolist() == [0.0, slope]


@pytest.mark.parametrize("name", ["sum", "mean", "max", "prod", "logsumexp", "median"])
def test_full_reduction_in_float32(name):
    x = tg.tensor(np.array([[1.0, 2.0], [4.0, 3.0]], np.float32), requires_grad=True)
    made = tg.__dict__[name](x)
    assert made.dtype == np.float32 and made.shape == ()
    (made * np.float32(2.0)).backward()
    assert x.grad.dtype == np.float32 and x.grad.sum().item() != 0.0


def test_infinite_exponentials():
    x = np.array([[-np.inf, 0.0, 1.0], [-np.inf] * 3, [np.inf, 0.0, 1.0], [1e300, 1e300, -1e300]])
    expected = scipy.special.logsumexp(x, axis=1)
    np.testing.assert_allclose(tg.logsumexp(tg.tensor(x), axis=1).numpy(), expected, rtol=1e-14)
    np.testing.assert_allclose(tg.logsumexp(x, axis=1), expected, rtol=1e-14)
    slopes = tg.grad(lambda x: tg.logsumexp(x))(x[0])
    np.testing.assert_allclose(slopes, softmax(x[0], 0), rtol=1e-14)
    with np.errstate(all="ignore"):
        for ours, theirs in (
            (tg.softmax, scipy.special.softmax),
            (tg.log_softmax, scipy.special.log_softmax),
        ):
            np.testing.assert_allclose(ours(x, axis=1), theirs(x, axis=1), rtol=1e-14)
    far = np.array([1000.0, 1.0])
    np.testing.assert_array_equal(tg.log_softmax(far), [0.0, -999.0])


def test_weighted_logsumexp():
    x, b = RNG.normal(size=(3, 4)), RNG.uniform(0.5, 1.5, size=4)
    expected = scipy.special.logsumexp(x, axis=1, b=b)
    np.testing.assert_allclose(tg.logsumexp(x, axis=1, b=b), expected, rtol=1e-14)
    slopes = tg.grad(lambda x: tg.logsumexp(x, 1, b).sum())(x)
    wanted = b * np.exp(x) / np.sum(b * np.exp(x), axis=1, keepdims=True)
    np.testing.assert_allclose(slopes, wanted, rtol=1e-13)


def test_where_and_dtype():
    x = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 9.0]])
    mask = np.array([[True, False, True], [True, True, False]])
    for name in ("sum", "mean", "var", "std", "prod"):
        theirs = getattr(np, name)
        leaf = tg.tensor(x, requires_grad=True)
        made = theirs(leaf, axis=1, where=mask)
        np.testing.assert_allclose(made.detach().numpy(), theirs(x, axis=1, where=mask))
        made.sum().backward()
        assert not leaf.grad.numpy()[~mask].any()
    leaf = tg.tensor(x, requires_grad=True)
    assert np.max(leaf, initial=0.0, where=mask).item() == 5.0
    assert np.sum(leaf, dtype=np.float32).dtype == np.float32
    assert np.sum(leaf, 0, None, None, True).shape == (1, 3)
    assert np.mean(leaf, dtype=None, out=None).item() == 4.0
    with pytest.raises(TypeError, match=r"tapegrad\.sum: out=: .* plain NumPy array"):
        np.sum(leaf, out=np.zeros(()))
    np.testing.assert_allclose(np.var(leaf, ddof=1).item(), np.var(x, ddof=1))


def test_unrecorded_results():
    x = tg.tensor([[1.0, 3.0], [2.0, 0.0]], requires_grad=True)
    assert np.argmax(x, axis=1).tolist() == [1, 0] and not x.argmax(1).requires_grad
    assert x.argmin().item() == 3 and tg.argsort(x, axis=0).tolist() == [[0, 1], [1, 0]]
    assert (x > 0).all().item() is False and np.any(x > 2, axis=0).tolist() == [False, True]


def test_medians():
    for shape, axis in [((5,), None), ((4,), 0), ((3, 4), 1), ((2, 3, 2), (0, 2)), ((3, 4), None)]:
        x = RNG.normal(size=shape)
        leaf = tg.tensor(x, requires_grad=True)
        for keepdims in (False, True):
            made = np.median(leaf, axis=axis, keepdims=keepdims)
            np.testing.assert_allclose(
                made.detach().numpy(), np.median(x, axis=axis, keepdims=keepdims), rtol=1e-15
            )
        made.sum().backward()
        middle = np.median(x, axis=axis, keepdims=True)
        n = x.size // middle.size
        if n % 2:
            np.testing.assert_array_equal(leaf.grad.numpy(), x == middle)
        else:
            assert np.unique(leaf.grad.numpy()).tolist() == [0.0, 0.5]


def test_averages_and_integrals():
    x, w = RNG.normal(size=(3, 4)), RNG.uniform(1.0, 2.0, size=4)
    found = tg.grad(lambda x: np.average(x, axis=1, weights=w).sum())(x)
    np.testing.assert_allclose(found, np.broadcast_to(w / w.sum(), x.shape), rtol=1e-13)
    found = tg.grad(lambda w: np.average(x, axis=1, weights=w)[0])(w)
    np.testing.assert_allclose(found, (x[0] - x[0] @ w / w.sum()) / w.sum(), rtol=1e-12)
    at = np.sort(RNG.normal(size=4))
    found = tg.grad(lambda x: np.trapezoid(x, at, axis=1)[1])(x)
    widths = np.diff(at)
    wanted = 0.5 * (np.r_[widths, 0.0] + np.r_[0.0, widths])
    np.testing.assert_allclose(found[1], wanted, rtol=1e-13)
    assert not found[0].any()


def test_differences():
    x = RNG.normal(size=(3, 5))
    np.testing.assert_allclose(tg.diff(tg.tensor(x), 2).numpy(), np.diff(x, 2), rtol=1e-13)
    found = tg.jacobian(lambda x: np.diff(x, prepend=0.0, append=x[:1]))(x[0])
    wanted = np.diff(np.concatenate([np.zeros((1, 5)), np.eye(5), np.eye(5)[:1]]), axis=0)
    np.testing.assert_array_equal(found, wanted)
    found = tg.jacobian(lambda x: tg.cumulative_sum(x, include_initial=True))(x[0, :2])
    assert found.tolist() == [[0, 0], [1, 0], [1, 1]]


ERRORS = [
    (lambda x: x.max(axis=2), ValueError, r"tapegrad\.max: axis 2"),
    (lambda x: x.prod(axis=(0, 0)), ValueError, r"tapegrad\.prod: .*twice"),
    (lambda x: np.cumsum(x, axis=-3), ValueError, r"tapegrad\.cumsum: axis -3"),
    (lambda x: np.sort(x, axis=5), ValueError, r"tapegrad\.sort: axis 5"),
    (lambda x: tg.logsumexp(x, axis=2), ValueError, r"tapegrad\.logsumexp: axis 2"),
    (lambda x: np.diff(x, -1), ValueError, r"tapegrad\.diff: n is -1"),
    (lambda x: np.max(x, out=x), ValueError, r"tapegrad\.max: the result has shape \(\) and out"),
    (lambda x: np.max(x, where=x > 0), ValueError, r"tapegrad\.max: where= needs initial="),
    (lambda x: np.average(x, weights=np.ones(3)), ValueError, r"tapegrad\.average: .*\(3,\)"),
    (lambda x: np.var(x, ddof=1, correction=1), ValueError, r"tapegrad\.var: ddof and correction"),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number):
    function, kind, text = ERRORS[number]
    with pytest.raises(kind, match=text):
        function(tg.tensor(np.ones((2, 3)), requires_grad=True))


@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
def test_a_recorded_ddof_is_refused_by_name(name):
    """Of plain data too: its derivative would be lost."""
    function = getattr(tg, name)
    for x in (np.ones(3), tg.tensor([1.0, 2.0, 4.0])):
        with pytest.raises(TypeError, match=f"^tapegrad.{name}: ddof is recorded"):
            tg.grad(lambda d, x=x: function(x, ddof=d))(0.5)
