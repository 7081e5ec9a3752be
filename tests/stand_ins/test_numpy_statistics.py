"""Reductions without NaN, quantiles, and covariances: derivatives, and NumPy's answers."""

import itertools

import numpy as np
import pytest
from expressions import CHECKS, Expression, check_native, native_parts, parametrized

import tapegrad as tg
from tapegrad._core.operations.quantiles import METHODS

W = np.array([0.5, 2.0, 1.0, 0.0])
ROWS = np.array([[True, False, True, True], [True, True, True, False], [False, True, True, True]])

NANS = [
    Expression("np.nansum(x)", "torch.nansum(x)", nans=(1, 6)),
    Expression("np.nansum(x**2, axis=(0, 1), keepdims=True)", nans=(1, 6)),
    Expression("np.nansum(x * x, 1, initial=0.5)", "(x.nan_to_num() ** 2).sum(1) + 0.5", nans=(0,)),
    Expression("np.nansum(np.exp(x), axis=-1, where=m)", nans=(3, 4), names={"m": ROWS}),
    Expression("np.nansum(x, axis=(), dtype=float)", nans=(1,), low=-1.0, high=1.0),
    Expression("np.nanprod(x)", "x.nan_to_num(nan=1.0).prod()", nans=(1, 6)),
    Expression("np.nanprod(x, 0, keepdims=True)", "x.nan_to_num(nan=1.0).prod(0, True)", nans=(2,)),
    Expression("np.nanprod(x, axis=(1, 0), initial=2.0, where=m)", nans=(0,), names={"m": ROWS}),
    Expression("np.nancumsum(x)", "torch.cumsum(x.flatten().nan_to_num(), 0)", nans=(1, 6)),
    Expression("np.nancumsum(x, axis=1)", "torch.cumsum(x.nan_to_num(), 1)", nans=(1, 6)),
    Expression("np.nancumprod(x, -1)", "torch.cumprod(x.nan_to_num(nan=1.0), 1)", nans=(5,)),
    Expression("np.nanmean(x)", "torch.nanmean(x)", nans=(1, 6)),
    Expression("np.nanmean(x, 1)", "torch.nanmean(x, 1)", nans=(1, 6)),
    Expression(
        "np.nanmean(x, (0, -1), keepdims=True)", "torch.nanmean(x, (0, 1), True)", nans=(1,)
    ),
    Expression("np.nanmean(x, axis=0, where=m)", nans=(1,), names={"m": ROWS}),
    Expression("np.nanvar(x)", "x[~x.isnan()].var(correction=0)", nans=(1, 6)),
    Expression("np.nanvar(x, 1, ddof=1)", nans=(1, 6)),
    Expression("np.nanvar(x, axis=(0, 1), correction=1, keepdims=True)", nans=(2,)),
    Expression("np.nanvar(x, axis=0, where=m)", nans=(1,), names={"m": ROWS}),
    Expression("np.nanvar(x, 1, mean=np.nanmean(x, 1, keepdims=True) * 1.1)", nans=(1,)),
    Expression("np.nanstd(x)", "x[~x.isnan()].std(correction=0)", nans=(1, 6)),
    Expression("np.nanstd(x, axis=1, ddof=1, keepdims=True)", nans=(1, 6)),
    Expression("np.nanmax(x)", "x.nan_to_num(nan=-9.0).max()", nans=(1, 6)),
    Expression("np.nanmax(x * x, 1)", "(x.nan_to_num() ** 2).amax(1)", nans=(1, 6)),
    Expression("np.nanmax(x, axis=0, initial=1.1, where=m)", nans=(1,), names={"m": ROWS}),
    Expression("np.nanmin(x, axis=0)", "x.nan_to_num(nan=9.0).amin(0)", nans=(1, 6)),
    Expression("np.nanmin(x, (0, 1), keepdims=True)", "x.nan_to_num(nan=9.0).amin((0, 1), True)"),
    Expression("np.nanmin(x, 1, initial=0.7)", nans=(1, 6)),
    Expression("np.nanmedian(x)", "torch.quantile(x[~x.isnan()], 0.5)", nans=(1, 6)),
    Expression("np.nanmedian(x, 1)", "torch.nanquantile(x, 0.5, 1)", nans=(1, 6)),
    Expression("np.nanmedian(x, (0, 1), keepdims=True)", nans=(1,)),
    Expression("np.nan_to_num(x)", "torch.nan_to_num(x)", nans=(1, 6)),
    Expression("np.nan_to_num(x * x, nan=x[0, 0], posinf=7.0)", nans=(1, 6)),
    Expression(
        "np.nan_to_num(np.where(x > 1.5, np.inf, x * x), posinf=3.0)",
        "torch.nan_to_num(torch.where(x > 1.5, torch.inf, x * x), posinf=3.0)",
        choices=False,
        other=(0.5, 2.0),
    ),
]

QUANTILES = [
    *[
        Expression(f"np.quantile(x, Q, method='{method}')", theirs, names={"Q": [0.1, 0.62]})
        for method, theirs in {
            **dict.fromkeys(METHODS),
            **{
                m: f"torch.quantile(x, torch.tensor(Q, dtype=torch.float64), interpolation='{m}')"
                for m in ("linear", "lower", "higher", "nearest")
            },
        }.items()
    ],
    Expression("np.quantile(x, 0.3)", "torch.quantile(x, 0.3)"),
    Expression("np.quantile(x, 0.3, axis=1)", "torch.quantile(x, 0.3, 1)"),
    Expression("np.quantile(x.T, 0.3, -1, keepdims=True)", "torch.quantile(x.T, 0.3, 1, True)"),
    Expression("np.quantile(x, [0.0, 0.5, 1.0], axis=0)"),
    Expression("np.quantile(x, [[0.2, 0.4], [0.3, 0.9]], axis=(1, 0), method='hazen')"),
    Expression("np.quantile(c, np.abs(x[0, :2]) / 3.0, method='weibull')", names={"c": W + W**2}),
    Expression("np.quantile(x, np.abs(x[0, 0]) / 2)", "torch.quantile(x, x[0, 0].abs() / 2)"),
    Expression("np.quantile(x, np.abs(x[0]) / 2.0, axis=0, method='median_unbiased')"),
    Expression("np.quantile(x, 0.4, axis=1, weights=w, method='inverted_cdf')", names={"w": W}),
    Expression(
        "np.quantile(x, [0.4, 0.8], weights=np.abs(x) + 0.1, method='inverted_cdf')", low=0.5
    ),
    Expression("np.percentile(x, 37)", "torch.quantile(x, 0.37)"),
    Expression("np.percentile(x, [25, 50.0], axis=-1, method='normal_unbiased')"),
    Expression("np.percentile(x, 20.0 * np.abs(x[0, 1]), axis=1, keepdims=True)"),
    Expression("np.percentile(x[0, 0], 30.0) * x"),
    Expression("np.nanquantile(x, 0.3)", "torch.nanquantile(x, 0.3)", nans=(1, 6)),
    Expression("np.nanquantile(x, [0.2, 0.9], axis=1, method='hazen')", nans=(1, 6)),
    Expression("np.nanquantile(x, 0.6, axis=0, keepdims=True, method='lower')", nans=(1, 6)),
    Expression("np.nanquantile(x, np.sin(x[2, :2]) ** 2, axis=0)", nans=(1, 6)),
    Expression("np.nanpercentile(x, 45)", "torch.nanquantile(x, 0.45)", nans=(1, 6)),
    Expression("np.nanpercentile(x, (10, 80), axis=(0, 1))", nans=(1, 6)),
    Expression("np.median(x, axis=(0, 1), keepdims=True)"),
    Expression("np.partition(x, 2, axis=1)[:, 2] * x[:, 0]"),
    Expression("np.partition(x, (1, 5), axis=None)[[1, 5]]"),
]
TABLE = [*NANS, *QUANTILES]


@parametrized(TABLE)
@pytest.mark.parametrize("check", CHECKS)
def test_expression(check, expression):
    CHECKS[check](expression)


@native_parts(TABLE[::2])
def test_native(part):
    check_native(part)


# --- NumPy's answers ------------------------------------------------------------------------------


def same(found, wanted):
    """The value, dtype and shape of NumPy's result; of a tensor, recorded or not."""
    found = np.asarray(tg.asarray(found).detach())
    assert found.dtype == np.asarray(wanted).dtype and found.shape == np.shape(wanted)
    np.testing.assert_array_equal(found, wanted)


def as_numpy(call, *arrays):
    """A call with recorded tensors, tensors, and lists gives what NumPy gives, or its error."""
    try:
        wanted, kind = call(*arrays), None
    except Exception as error:
        kind = type(error)
    for record in (True, False):
        floats = [record and np.asarray(a).dtype.kind == "f" for a in arrays]
        tensors = [tg.tensor(a, requires_grad=f) for a, f in zip(arrays, floats, strict=True)]
        if kind is None:
            same(call(*tensors), wanted)
        else:
            with pytest.raises(kind):
                call(*tensors)


NAMES = "nansum nanprod nanmean nanvar nanstd nanmin nanmax nanmedian".split()
POINTS = {
    "mixed": np.array([[1.0, np.nan, 3.0], [2.0, 2.0, np.nan]]),
    "float32": np.array([[1.0, np.nan, 3.0], [0.1, 0.7, 2.5]], np.float32),
    "a slice of NaN": np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan]]),
    "infinities": np.array([[np.inf, np.nan, np.inf], [-np.inf, 1.0, np.nan]]),
    "Fortran order": np.asfortranarray([[1.0, np.nan, 3.0], [2.0, 0.5, 0.1]]),
    "integers": np.arange(6).reshape(2, 3),
    "masks": np.array([[True, False], [True, True]]),
    "empty": np.zeros((0, 3)),
    "one": np.array([[0.3]]),
    "a number": np.array(2.5),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nan_reductions_give_numpys_values(name, point):
    x = POINTS[point]
    for axis, keepdims in itertools.product((None, 0, -1, (0, 1)), (False, True)):
        if np.ndim(axis) or axis in (0, -1) and x.ndim < 2:
            continue
        as_numpy(lambda x, a=axis, k=keepdims: getattr(np, name)(x, axis=a, keepdims=k), x)


OLD_NUMPY = np.lib.NumpyVersion(np.__version__) < "2.3.0"
ROUNDED_BEFORE = ("hazen", "median_unbiased", "normal_unbiased")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("point", ["mixed", "float32", "integers", "one", "Fortran order", "empty"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_quantiles_give_numpys_values(method, point):
    if OLD_NUMPY and point == "float32" and method in ROUNDED_BEFORE:
        pytest.skip("NumPy 2.2 rounds the place between two elements of float32")
    x = POINTS[point]
    for q, axis in itertools.product((0, 0.3, 1.0, [0.2, 0.7], np.float32(0.4)), (None, 0, (0, 1))):
        for function in (np.quantile, np.nanquantile):
            as_numpy(lambda x, f=function, q=q, a=axis: f(x, q, axis=a, method=method), x)


def test_warnings_are_numpys():
    x = tg.tensor([np.nan, np.nan], requires_grad=True)
    for name, text in {
        "nanmean": "Mean of empty slice",
        "nanvar": "Degrees of freedom <= 0",
        "nanmax": "All-NaN slice encountered",
        "nanmedian": "All-NaN slice encountered",
    }.items():
        with pytest.warns(RuntimeWarning, match=text):
            assert np.isnan(getattr(np, name)(x).item())
    with pytest.warns(RuntimeWarning, match="All-NaN"):
        np.nanquantile(x, 0.5)


@pytest.mark.parametrize("name", [*NAMES, "nancumsum", "nancumprod", "nan_to_num"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nan_has_no_derivative(name):
    """Nor has a slice of nothing else, and it leaves that of others alone."""
    x = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan]])
    axis = {} if name == "nan_to_num" else {"axis": 1}
    total = lambda x: np.nansum(getattr(np, name)(x, **axis) ** 2)
    first, second = tg.grad(total)(x), tg.hessian(total)(x).reshape(6, 6)
    assert np.isfinite(first).all() and np.isfinite(second).all()
    assert not first[np.isnan(x)].any()


def test_ties_of_extremes_are_shared():
    for x, wanted in {
        (2.0, np.nan, 2.0): [0.5, 0.0, 0.5],
        (np.inf, np.nan, np.inf): [0.5, 0.0, 0.5],
        (np.inf, np.nan, np.nan): [1.0, 0.0, 0.0],
    }.items():
        x = np.array(x)
        np.testing.assert_array_equal(tg.grad(np.nanmin)(x), wanted)
        np.testing.assert_array_equal(tg.grad(np.nanmax)(-x), wanted)
        compiled = tg.compile(np.nanmin, native=False)
        for point in (np.array([1.0, 5.0, np.nan]), np.array([1.0, 5.0, np.nan]), x):
            value, gradient = compiled.value_and_grad(point)
            np.testing.assert_array_equal(gradient, tg.grad(np.nanmin)(point))
            assert value == np.nanmin(point)


def test_results_go_where_out_says():
    x = np.array([[1.0, np.nan, 3.0], [2.0, 5.0, np.nan]])

    def f(x, function, *args):
        out = tg.zeros(2)
        assert function(x, *args, axis=1, out=out) is out
        return np.sum(out**2)

    for function, *args in [
        *[(getattr(np, name),) for name in NAMES],
        (np.nanquantile, 0.3),
        (np.nanpercentile, 30),
    ]:
        wanted = tg.grad(lambda x, f=function, a=args: np.sum(f(x, *a, axis=1) ** 2))(x)
        np.testing.assert_array_equal(tg.grad(f)(x, function, *args), wanted)
    leaf = tg.tensor(x, requires_grad=True)
    with pytest.raises(TypeError, match="tapegrad.nansum: out="):
        np.nansum(leaf, axis=1, out=np.zeros(2))
    with pytest.raises(ValueError, match=r"out"):
        np.nansum(leaf, axis=1, out=tg.zeros(3))
    with pytest.raises(TypeError, match="cannot be written in place"):
        np.nanmean(leaf, axis=1, out=tg.zeros(2, dtype=int))
    out = np.zeros(2)
    assert np.nansum(leaf.detach(), axis=1, out=out) is out and out.tolist() == [4.0, 7.0]


def test_nan_to_num_without_copy_writes():
    def f(x):
        y = x * 1.0
        assert np.nan_to_num(y, copy=False, nan=4.0) is y
        return np.sum(y * y)

    x = np.array([1.0, np.nan, np.inf])
    value, gradient = tg.value_and_grad(f)(np.array([1.0, np.nan, 3.0]))
    assert value == 26.0 and gradient.tolist() == [2.0, 0.0, 6.0]
    same(np.nan_to_num(tg.tensor(x, requires_grad=True)), np.nan_to_num(x))
    narrow = x.astype(np.float32)
    same(np.nan_to_num(tg.tensor(narrow, requires_grad=True)), np.nan_to_num(narrow))


def test_recorded_lists_and_initial_values():
    assert tg.grad(lambda a: tg.nansum([a, np.nan, a * a]))(3.0) == 7.0
    assert tg.grad(lambda a: tg.nanmax([1.0, np.nan], initial=a))(3.0) == 1.0
    assert tg.grad(lambda a: tg.nansum([1.0, 2.0], initial=a * a))(3.0) == 6.0
    assert tg.grad(lambda a: tg.quantile([a, 2.0, 5.0], 0.25))(1.0) == 0.5
    assert tg.nansum([1.0, np.nan]) == 1.0 and isinstance(tg.nansum([1.0, np.nan]), np.float64)
    same(
        np.nanmax(tg.tensor(np.zeros((0, 2)), requires_grad=True), axis=0, initial=3.0), [3.0, 3.0]
    )


def test_long_vectors_have_the_places_of_a_stable_sort():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 40, 900) + 0.0
    weights = tg.grad(lambda x: np.sum(np.quantile(x, [0.1, 0.5, 0.77, 1.0])))(x)
    order = np.argsort(x, kind="stable")
    wanted = np.zeros(900)
    for q in (0.1, 0.5, 0.77, 1.0):
        place = q * 899
        wanted[order[int(place)]] += 1.0 - place % 1
        wanted[order[min(int(place) + 1, 899)]] += place % 1
    np.testing.assert_allclose(weights, wanted, atol=1e-12)
    x[[3, 700]] = np.nan
    for function in (np.quantile, np.nanquantile, np.percentile):
        as_numpy(lambda x, f=function: f(x, [0.1, 0.5, 1.0]), x)
    as_numpy(np.median, x)
    assert np.flatnonzero(tg.grad(np.median)(x)).tolist() == [700]
    as_numpy(lambda x: np.nanquantile(x, np.linspace(0.0, 1.0, 40)), x)


def test_a_quantile_that_is_not_one_is_refused():
    x = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    for attempt, text in {
        lambda: np.quantile(x, 1.5): r"tapegrad.quantile: q is 1.5; it must lie in \[0, 1\]",
        lambda: np.percentile(x, [-1.0]): r"it must lie in \[0, 100\]",
        lambda: np.quantile(x, 0.5, method="best"): "tapegrad.quantile: method is 'best'; it must",
        lambda: np.quantile(x, np.zeros((1, 1, 1))): "q has shape",
        lambda: np.quantile(x, 0.5, weights=np.ones(3)): "takes no weights; use inverted_cdf",
        lambda: np.quantile(x, 0.5, weights=-np.ones(3), method="inverted_cdf"): "is negative",
        lambda: np.quantile(x, 0.5, weights=np.zeros(3), method="inverted_cdf"): "all zero",
        lambda: np.nanvar(x, ddof=1, correction=1): "both given; give only one",
        lambda: np.nanmax(x, where=np.array([True, False, True])): "needs initial=",
    }.items():
        with pytest.raises(ValueError, match=text):
            attempt()
    with pytest.raises(TypeError, match="pass axis="):
        np.quantile(x.reshape(1, 3), 0.5, weights=np.ones(3), method="inverted_cdf")
    with pytest.raises(
        TypeError, match="nanvar: ddof is recorded, so its derivative would be lost"
    ):
        np.nanvar(x, ddof=x[0])
    with pytest.raises(TypeError, match="for floats it must be a floating dtype"):
        np.nanmean(x, dtype=int)


def test_a_program_asks_again_whether_q_is_a_quantile():
    compiled = tg.compile(lambda q: np.quantile(np.array([1.0, 2.0, 5.0]), q), native=False)
    for q in (0.3, 0.3, 0.8, 1.0):
        assert compiled.value_and_grad(q)[0] == np.quantile([1.0, 2.0, 5.0], q)
    with pytest.raises(ValueError, match="q is 1.5"):
        compiled.value_and_grad(1.5)


def test_slopes_of_quantiles():
    x = np.array([1.0, 2.0, 4.0, 8.0])
    assert tg.grad(lambda q: np.quantile(x, q))(0.5) == pytest.approx(6.0)
    assert tg.grad(lambda q: np.percentile(x, q))(50.0) == pytest.approx(0.06)
    assert tg.grad(lambda q: np.quantile(x, q, method="weibull"))(0.1) == 0.0  # before the first
    for method in ("lower", "midpoint", "averaged_inverted_cdf", "inverted_cdf"):
        assert tg.grad(lambda q, m=method: np.quantile(x, q, method=m) + 0.0 * q)(0.6) == 0.0


def test_weighted_quantiles_give_numpys_values():
    rng = np.random.default_rng(0)
    for shape, axis, full in [
        ((5,), None, 1),
        ((4, 3), 0, 0),
        ((4, 3), 1, 1),
        ((2, 3, 4), (2, 0), 0),
    ]:
        if OLD_NUMPY and axis == (2, 0):
            continue  # NumPy 2.2 takes the axes of weights in another order
        x = rng.normal(size=shape)
        axes = range(len(shape)) if axis is None else np.atleast_1d(axis)
        w = rng.integers(0, 3, shape if full else tuple(shape[k] for k in axes)) + 0.0
        w.flat[0] = 1.0
        options = dict(axis=axis, weights=w, method="inverted_cdf")
        for q in (0.0, 0.3, 1, [0.2, 0.7]):
            as_numpy(lambda x, q=q, options=options: np.quantile(x, q, **options), x)
    x = np.array([3.0, np.nan, 1.0, 2.0])
    as_numpy(lambda x: np.nanquantile(x, [0.2, 0.7], weights=W + 0.1, method="inverted_cdf"), x)
